//! What the user sees while the tool works.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Speaks to the user: notices and a spinner on the standard error, log lines on the standard output.
/// A quiet one, for tests, says nothing.
#[derive(Clone, Debug)]
pub struct Voice {
    quiet: bool,
    bar: ProgressBar,
    /// Of what it speaks, in front of each line; it shows no work then.
    name: String,
}

impl Voice {
    /// Speaks to the terminal, or in plain lines where the output is none.
    pub fn terminal() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        Self { quiet: false, bar, name: String::new() }
    }

    /// Says nothing.
    pub fn quiet() -> Self {
        Self { quiet: true, bar: ProgressBar::hidden(), name: String::new() }
    }

    /// The same of one of several things that go on at a time: each line has its name in front.
    pub fn named(&self, name: &str) -> Self {
        Self { name: format!("{name} "), ..self.clone() }
    }

    /// Whether nothing is said.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// A notice.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            let head = console::style("pamir").for_stderr().bold();
            // Whoever reads may have gone; the verdict stays.
            self.bar.suspend(|| _ = writeln!(std::io::stderr(), "{head}: {}{text}", self.name));
        }
    }

    /// A line of the program's proper output.
    pub fn print(&self, line: &str) {
        if !self.quiet {
            self.bar.suspend(|| _ = writeln!(std::io::stdout(), "{}{line}", self.name));
        }
    }

    /// Work begins that may take a while. Where there is no terminal, a line tells so.
    pub fn busy(&self, what: &str) {
        if self.quiet || !self.name.is_empty() {
            return;
        }
        if self.bar.is_hidden() {
            self.say(what);
            return;
        }
        self.bar.set_message(what.to_owned());
        self.bar.reset();
        self.bar.enable_steady_tick(Duration::from_millis(120));
    }

    /// The work goes on; `what` replaces the spinner's text.
    pub fn update(&self, what: String) {
        // Setting the same text again would draw it again.
        if !self.quiet && self.name.is_empty() && self.bar.message() != what {
            self.bar.set_message(what);
        }
    }

    /// The work is over: the spinner goes.
    pub fn idle(&self) {
        if !self.name.is_empty() {
            return;
        }
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
    }
}
