//! `cargo xtask top`: a living run in the terminal, or in plain text where there is none (SPEC S-3, X-4).
//!
//! `model` makes rows of looks, `draw` lays them out. A thread of its own asks the run, so that keys are heard meanwhile.

mod draw;
mod model;

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::progress::Voice;
use crate::run::{Look, living, living_run};
use model::Model;

/// Time between two looks at the keyboard and at what came.
const TICK: Duration = Duration::from_millis(50);
/// Columns of plain text, and most lines of each list there.
const WIDTH: usize = 100;
const LINES: usize = 8;
/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// What to show.
#[derive(Clone, Debug, Args)]
pub struct TopOptions {
    /// The run, if there are several, as in run-17
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Time from look to look
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = pace)]
    pub every: Duration,
    /// One table in plain text, of what two looks differ by
    #[arg(long)]
    pub once: bool,
}

/// A number of seconds, from a tenth to an hour.
///
/// # Errors
/// It is none, in words.
pub fn pace(word: &str) -> Result<Duration, String> {
    let seconds = word.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let wrong = || format!("{word:?} is not a number of seconds from 0.1 to 3600");
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

/// What is heard of a run.
enum News {
    Look(Look),
    /// It gives no answer, because of this.
    Silent(String),
    /// It has ended.
    Over,
}

/// Shows a living run of this workspace until it or the user ends it; the result is the exit code. `parent` has the folders of
/// runs' sockets, if not where runs have them.
///
/// # Errors
/// No run is alive, or none of that name, or several are; the terminal fails.
pub fn top(parent: Option<&Path>, options: &TopOptions, interrupt: &AtomicBool, voice: &Voice) -> Result<u8> {
    let name = living_run(parent, options.run.as_deref())?.name();
    let (tell, news) = sync_channel(1);
    let (every, parent, asked) = (options.every, parent.map(Path::to_owned), name.clone());
    std::thread::spawn(move || ask(|first| look(parent.as_deref(), &asked, first), every, &tell));
    let mut model = Model::new(&name);
    let plain = options.once || !std::io::stdout().is_terminal();
    let end = if plain {
        print(&mut model, &news, options.once, interrupt, &mut std::io::stdout())?
    } else {
        let mut terminal = ratatui::try_init().context("the terminal cannot be set up")?;
        let end = show(&mut terminal, &mut model, &news, interrupt);
        ratatui::try_restore().context("the terminal cannot be set back")?;
        end?
    };
    if end == End::Over {
        voice.say(&format!("{name} has ended"));
    }
    Ok(if end == End::Interrupted { INTERRUPTED } else { 0 })
}

/// Why nothing more is shown.
#[derive(PartialEq, Debug)]
enum End {
    /// The run has ended.
    Over,
    /// The user has seen enough, or nobody reads.
    Left,
    Interrupted,
}

/// The run `name` as it is now; `None` if it has ended. Its node `first` is read first.
fn look(parent: Option<&Path>, name: &str, first: u32) -> Result<Option<Look>> {
    let find = || living(parent).into_iter().find(|living| living.name() == name);
    match find().map(|living| living.look(first)) {
        None => Ok(None),
        Some(Ok(look)) => Ok(Some(look)),
        // It was about to end.
        Some(Err(_)) if find().is_none() => Ok(None),
        Some(Err(error)) => Err(error),
    }
}

/// Looks every so often, and tells what it sees, until the run has ended or nobody listens.
fn ask(mut look: impl FnMut(u32) -> Result<Option<Look>>, every: Duration, tell: &SyncSender<News>) {
    let mut first = 0;
    loop {
        let news = match look(first) {
            Ok(Some(look)) => {
                first = look.next;
                News::Look(look)
            }
            Ok(None) => News::Over,
            Err(error) => News::Silent(format!("{error:#}")),
        };
        let over = matches!(news, News::Over);
        if tell.send(news).is_err() || over {
            return;
        }
        std::thread::sleep(every);
    }
}

/// A table for each two looks.
fn print(
    model: &mut Model,
    news: &Receiver<News>,
    once: bool,
    interrupt: &AtomicBool,
    to: &mut dyn std::io::Write,
) -> Result<End> {
    let (mut looks, mut shown) = (0, false);
    loop {
        if interrupt.load(Ordering::Relaxed) {
            return Ok(End::Interrupted);
        }
        let over = match news.recv_timeout(TICK) {
            Err(RecvTimeoutError::Timeout) => continue,
            Ok(News::Look(look)) => {
                model.take(look);
                looks += 1;
                false
            }
            Ok(News::Silent(why)) => {
                model.note_trouble(why);
                false
            }
            Ok(News::Over) | Err(RecvTimeoutError::Disconnected) => true,
        };
        // Of a run that ended after one look that is all there is.
        let whole = if over { looks == 1 } else { looks > 1 };
        if whole {
            if to.write_all(plain(model).as_bytes()).and_then(|()| to.flush()).is_err() {
                return Ok(End::Left);
            }
            shown = true;
        }
        match (over, once && shown) {
            (true, _) => return Ok(End::Over),
            (_, true) => return Ok(End::Left),
            _ => {}
        }
    }
}

/// All of it in lines.
fn plain(model: &Model) -> String {
    let mut lines = model.head().to_vec();
    lines.push(model.titles(WIDTH));
    lines.extend(model.rows(WIDTH));
    for (title, list) in [("hot links", model.hot_links(WIDTH)), ("waits", model.waits(WIDTH))] {
        lines.push(title.to_owned());
        if list.is_empty() {
            lines.push("  none".to_owned());
        }
        lines.extend(list.iter().take(LINES).map(|line| format!("  {line}")));
    }
    lines.join("\n") + "\n\n"
}

/// The view in a terminal.
fn show(
    terminal: &mut DefaultTerminal,
    model: &mut Model,
    news: &Receiver<News>,
    interrupt: &AtomicBool,
) -> Result<End> {
    loop {
        terminal.draw(|frame| draw::draw(frame, model)).context("drawing")?;
        loop {
            if interrupt.load(Ordering::Relaxed) {
                return Ok(End::Interrupted);
            }
            let mut changed = false;
            while event::poll(Duration::ZERO).context("reading keys")? {
                match event::read().context("reading keys")? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => match press(model, key) {
                        Some(end) => return Ok(end),
                        None => changed = true,
                    },
                    Event::Resize(..) => changed = true,
                    _ => {}
                }
            }
            match news.try_recv() {
                Ok(News::Look(look)) => {
                    model.take(look);
                    changed = true;
                }
                Ok(News::Silent(why)) => {
                    model.note_trouble(why);
                    changed = true;
                }
                Ok(News::Over) | Err(TryRecvError::Disconnected) => return Ok(End::Over),
                Err(TryRecvError::Empty) => {}
            }
            if changed {
                break;
            }
            // A key ends the pause.
            event::poll(TICK).context("reading keys")?;
        }
    }
}

/// Does what a key is for.
fn press(model: &mut Model, key: KeyEvent) -> Option<End> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Some(End::Interrupted),
        KeyCode::Char('q') => return Some(End::Left),
        KeyCode::Char('p') => model.pause(),
        KeyCode::Down => model.scroll(true, Some(1)),
        KeyCode::Up => model.scroll(false, Some(1)),
        KeyCode::PageDown => model.scroll(true, None),
        KeyCode::PageUp => model.scroll(false, None),
        _ => {}
    }
    None
}

#[cfg(test)]
mod tests;
