//! `cargo xtask serial`: what a node says on its serial line, in words, and whether it lives (SPEC B-8, N-12, R-2).
//!
//! A board's console is the stream that an emulated node's is: frames with zeros between them, defmt's among them. Whatever else
//! comes, a boot loader's words, is shown as it is.
//!
//! On a line that goes both ways this tool is the service node: a node that has told nothing for a while is asked whether it
//! lives, by the byte that an emulated one is asked by (`xtask/src/run/life.rs`). Its boot loader is not: a byte would stop it.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal as _, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use crate::console::{self, Deframer, Frame};
use crate::log::Decoder;
use crate::node::QUESTION;
use crate::progress::Voice;
use crate::symbols::Symbols;

/// What the tool itself ends with if the line is at its end before the node is.
const UNFINISHED: u8 = 1;
/// Time between two looks whether the node is silent.
const GLANCE: Duration = Duration::from_millis(100);

/// A serial line, a file of what came from one, or the standard input.
pub struct Line {
    name: String,
    source: Source,
}

/// What is read of.
enum Source {
    /// A line, which goes both ways.
    Terminal(File),
    /// Bytes that came from one.
    Bytes(Box<dyn Read + Send>),
}

impl Line {
    /// Opens `path`, or the standard input. A terminal is set to `baud` bits a second, eight to a byte, none changed.
    ///
    /// # Errors
    /// It cannot be opened, or not be set to that.
    pub fn open(path: Option<&Path>, baud: u32) -> Result<Self> {
        let Some(path) = path else {
            let source = Source::Bytes(Box::new(std::io::stdin()));
            return Ok(Self { name: "the standard input".to_owned(), source });
        };
        let name = path.display().to_string();
        // The terminal of a node is not this program's own.
        let flags = OFlags::NOCTTY.bits().cast_signed();
        let open = |writable| {
            let file = File::options().read(true).write(writable).custom_flags(flags).open(path);
            file.with_context(|| format!("cannot open {name}"))
        };
        let file = open(false)?;
        if !file.is_terminal() {
            return Ok(Self { name, source: Source::Bytes(Box::new(file)) });
        }
        let terminal = open(true)?;
        set(&terminal, baud).with_context(|| format!("cannot set {name} to {baud} baud"))?;
        Ok(Self { name, source: Source::Terminal(terminal) })
    }
}

/// Bytes as they come, `baud` bits a second.
fn set(terminal: &File, baud: u32) -> Result<()> {
    let mut modes = tcgetattr(terminal)?;
    modes.make_raw();
    modes.set_speed(baud)?;
    Ok(tcsetattr(terminal, OptionalActions::Now, &modes)?)
}

/// Shows what comes from `line` until the node tells its end. `words` are of the image that it runs. On a terminal, a node that
/// has told nothing for `doubt` is asked whether it lives, and named if it does not answer for as long; zero asks nothing.
/// Returns the node's status, or 1 if the line ended before it.
///
/// # Errors
/// The line cannot be read, or written to.
pub fn listen(words: &Words, line: Line, doubt: Duration, voice: &Voice) -> Result<u8> {
    let name = line.name.clone();
    let end = words.attend(line, doubt, |text| voice.print(text), |news| voice.say(news));
    let end = end.with_context(|| format!("reading {name}"))?;
    if end.is_none() {
        voice.say(&format!("{name} is at its end, and the node has not told its own"));
    }
    Ok(end.unwrap_or(UNFINISHED))
}

/// What makes a node's frames readable.
pub struct Words {
    decoder: Decoder,
    symbols: Symbols,
}

impl Words {
    /// Those of the image `elf`, which a boot loader put to `at`, or where it says.
    ///
    /// # Errors
    /// It cannot be read, or is none of ours.
    pub fn load(elf: &Path, at: Option<u64>) -> Result<Self> {
        Ok(Self { decoder: Decoder::load(elf)?, symbols: Symbols::load(elf, at)? })
    }

    /// Reads to the node's end, or the line's; gives each line of text to `show`. Returns the node's status.
    ///
    /// # Errors
    /// Those of `line`.
    pub fn follow(&self, line: &mut dyn Read, mut show: impl FnMut(&str)) -> std::io::Result<Option<u8>> {
        let mut hearing = Hearing::new(self);
        while hearing.end.is_none() && hearing.read(line, &mut show)? > 0 {}
        Ok(hearing.end)
    }

    /// As [`follow`](Self::follow), and asks a node at a terminal that has told nothing for `doubt` whether it lives; `tell` is
    /// given that it does not answer, and that it tells something again.
    ///
    /// # Errors
    /// As `follow`, and those of writing.
    pub fn attend(
        &self,
        line: Line,
        doubt: Duration,
        mut show: impl FnMut(&str),
        mut tell: impl FnMut(&str),
    ) -> std::io::Result<Option<u8>> {
        let mut line = match line.source {
            Source::Terminal(terminal) => terminal,
            Source::Bytes(mut bytes) => return self.follow(&mut bytes, show),
        };
        let mut hearing = Hearing::new(self);
        let (mut heard, mut asked, mut suspected) = (Instant::now(), None::<Instant>, false);
        while hearing.end.is_none() {
            if is_readable(&line)? {
                if hearing.read(&mut line, &mut show)? == 0 {
                    break;
                }
                if suspected {
                    tell("the node tells something again");
                }
                (heard, asked, suspected) = (Instant::now(), None, false);
                continue;
            }
            hearing.rest(&mut show);
            match asked {
                None if hearing.answers && !doubt.is_zero() && heard.elapsed() >= doubt => {
                    line.write_all(QUESTION)?;
                    asked = Some(Instant::now());
                }
                Some(since) if !suspected && since.elapsed() >= doubt => {
                    let seconds = since.elapsed().as_secs_f32();
                    tell(&format!(
                        "the node has not answered for {seconds:.0} s whether it lives: a hart of it takes no interrupts, or the \
                         line does not reach it"
                    ));
                    suspected = true;
                }
                _ => {}
            }
        }
        Ok(hearing.end)
    }
}

/// Whether something comes within [`GLANCE`], be it the end.
fn is_readable(line: &File) -> std::io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: GLANCE.subsec_nanos().into() };
    match poll(&mut [PollFd::new(line, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What is heard of a node.
struct Hearing<'words> {
    words: &'words Words,
    deframer: Deframer,
    /// Its kernel runs, and answers the question whether it lives.
    answers: bool,
    /// What it last answered, which is not shown again.
    answer: String,
    /// Its status, once it has told its end.
    end: Option<u8>,
}

impl<'words> Hearing<'words> {
    fn new(words: &'words Words) -> Self {
        Self { words, deframer: Deframer::default(), answers: false, answer: String::new(), end: None }
    }

    /// Reads once. Returns the bytes that came, zero at the line's end.
    fn read(&mut self, line: &mut dyn Read, show: &mut impl FnMut(&str)) -> std::io::Result<usize> {
        let mut bytes = [0; 4096];
        let length = loop {
            match line.read(&mut bytes) {
                Ok(length) => break length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The other end of a pseudo-terminal is closed.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => break 0,
                Err(error) => return Err(error),
            }
        };
        let mut frames = Vec::new();
        match length {
            0 => self.deframer.finish(|frame| frames.push(frame)),
            _ => self.deframer.feed(&bytes[..length], |frame| frames.push(frame)),
        }
        self.take(frames, show);
        Ok(length)
    }

    /// The line stands still.
    fn rest(&mut self, show: &mut impl FnMut(&str)) {
        let mut frames = Vec::new();
        self.deframer.flush(|frame| frames.push(frame));
        self.take(frames, show);
    }

    fn take(&mut self, frames: Vec<Frame>, show: &mut impl FnMut(&str)) {
        for frame in frames {
            let text = self.say(frame);
            text.lines().filter(|line| !line.trim().is_empty()).for_each(&mut *show);
        }
    }

    /// A frame in words; none if it is what is known.
    fn say(&mut self, frame: Frame) -> String {
        match frame {
            Frame::Log { hart, payload } => {
                let line = self.words.decoder.decode(0, hart, &payload);
                format!(".{hart} {:>11} {:<5} {}", line.time, line.level.to_uppercase(), line.text)
            }
            Frame::Report { hart, text } => console::report_line(hart, &self.words.symbols.annotate(&text)),
            Frame::Status(status) => {
                let text = console::status_line(&status);
                match status.word.as_str() {
                    "up" => self.answers = status.number("answers") == Some(1),
                    "end" => self.end = self.end.or(Some(status.number("status").unwrap_or(UNFINISHED))),
                    "alive" if std::mem::replace(&mut self.answer, text.clone()) == text => {
                        return String::new();
                    }
                    _ => {}
                }
                text
            }
            Frame::Timeline(_) => String::new(),
            Frame::Firmware(text) => {
                // Its boot loader's, if it was reset.
                self.answers = false;
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    const DOUBT: Duration = Duration::from_millis(50);

    /// A line and its other end.
    fn line() -> (Line, File) {
        let node: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&node).unwrap();
        unlockpt(&node).unwrap();
        let name = ptsname(&node, Vec::new()).unwrap();
        let line = Line::open(Some(Path::new(name.to_str().unwrap())), 115_200).unwrap();
        (line, File::from(node))
    }

    /// What a reader of the words of this program itself shows and tells of a node that is `played`, and the node's status.
    fn hear(play: impl FnOnce(&mut File) + Send) -> (Vec<String>, Option<u8>) {
        let words = Words::load(&std::env::current_exe().unwrap(), None).unwrap();
        let (line, mut node) = line();
        let said = std::cell::RefCell::new(Vec::new());
        let note = |text: &str| said.borrow_mut().push(text.to_owned());
        let end = std::thread::scope(|scope| {
            // Open to the end: what was not read when it closes is lost.
            let _node = scope.spawn(move || {
                play(&mut node);
                node
            });
            words.attend(line, DOUBT, note, note).unwrap()
        });
        (said.into_inner(), end)
    }

    fn expect_question(node: &mut File) {
        let mut byte = [0];
        node.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, QUESTION);
    }

    #[test]
    fn b8_r2_a_silent_node_on_a_line_is_asked_and_named_if_it_does_not_answer() {
        let (said, end) = hear(|node| {
            node.write_all(b"\0S0up harts=1 answers=1\0").unwrap();
            expect_question(node);
            node.write_all(b"S0alive down=0 lost=0\0").unwrap();
            expect_question(node);
            // The same answer is no news.
            node.write_all(b"S0alive down=0 lost=0\0").unwrap();
            expect_question(node);
            std::thread::sleep(DOUBT * 10);
            node.write_all(b"S0alive down=1 lost=0\0S0end status=3\0").unwrap();
        });
        let expected = [".0 STATUS up harts=1 answers=1", ".0 STATUS alive down=0 lost=0"];
        assert_eq!(said[..2], expected);
        assert!(said[2].starts_with("the node has not answered"), "{said:?}");
        let expected =
            [".0 STATUS alive down=1 lost=0", ".0 STATUS end status=3", "the node tells something again"];
        assert_eq!((&said[3..], end), (&expected.map(String::from)[..], Some(3)));
    }

    #[test]
    fn b8_a_boot_loader_is_shown_at_once_and_not_typed_to() {
        let (said, end) = hear(|node| {
            node.write_all(b"U-Boot\r\nHit any key: ").unwrap();
            std::thread::sleep(DOUBT * 10);
            node.write_all(b"\0S0up answers=1\0reset\r\n").unwrap();
            std::thread::sleep(DOUBT * 10);
            node.write_all(b"\0S0up answers=0\0").unwrap();
            std::thread::sleep(DOUBT * 10);
            // Nothing was asked of any of them: what is read now is what comes now.
            rustix::io::ioctl_fionbio(&*node, true).unwrap();
            assert_eq!(node.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            node.write_all(b"S0end status=0\0").unwrap();
        });
        let expected = [
            "U-Boot",
            "Hit any key: ",
            ".0 STATUS up answers=1",
            "reset",
            ".0 STATUS up answers=0",
            ".0 STATUS end status=0",
        ];
        assert_eq!((said, end), (expected.map(String::from).to_vec(), Some(0)));
    }

    #[test]
    fn b8_a_file_of_a_line_is_read_and_asked_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("said");
        std::fs::write(&path, b"\0S0up answers=1\0S0end status=2\0").unwrap();
        let words = Words::load(&std::env::current_exe().unwrap(), None).unwrap();
        let line = Line::open(Some(&path), 115_200).unwrap();
        assert_eq!(listen(&words, line, DOUBT, &Voice::quiet()).unwrap(), 2);
        assert_eq!(std::fs::read(&path).unwrap(), b"\0S0up answers=1\0S0end status=2\0");
        let Err(error) = Line::open(Some(&folder.path().join("none")), 115_200) else {
            panic!("it is there")
        };
        assert!(error.to_string().contains("cannot open"), "{error}");
    }
}
