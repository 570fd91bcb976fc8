//! One node under watch: what its console says is decoded, kept, written down and judged.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;

use super::Folder;
use super::outcome::NodeOutcome;
use super::record::Record;
use crate::console::{self, Deframer, Frame};
use crate::log::{self, Decoder, LogLine};
use crate::node::{Exit, Guest};
use crate::progress::Voice;
use crate::symbols::Symbols;

/// What a firmware image tells about the bytes and addresses its nodes send.
pub struct Firmware {
    decoder: Arc<Decoder>,
    path: PathBuf,
    at: Option<u64>,
    symbols: OnceCell<Option<Symbols>>,
}

impl Firmware {
    /// Reads the image at `path`, an ELF file that is loaded to `at`, or where it says.
    pub fn load(path: &Path, at: Option<u64>) -> Result<Self> {
        Ok(Self::with(Arc::new(Decoder::load(path)?), path, at))
    }

    /// The same, with a decoder that was made of it before.
    pub fn with(decoder: Arc<Decoder>, path: &Path, at: Option<u64>) -> Self {
        Self { decoder, path: path.to_owned(), at, symbols: OnceCell::new() }
    }

    /// For log frames.
    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    /// For reports and dumps. Most runs have none, and reading them takes longest: so it is done when they are first wanted.
    pub fn symbols(&self) -> Option<&Symbols> {
        self.symbols.get_or_init(|| Symbols::load(&self.path, self.at).ok()).as_ref()
    }
}

/// Something a node said that others may want to see.
pub enum Said {
    /// A log line.
    Line(LogLine),
    /// A line of a report.
    Report {
        /// The hart that reports.
        hart: u8,
        /// The line, addresses named.
        text: String,
    },
    /// A change of its state.
    Status,
}

/// One node.
pub struct Watched {
    /// Its rank.
    rank: u32,
    /// Its process, and where its emulator listens for its control protocol.
    guest: Guest,
    control: PathBuf,
    /// What is known of it.
    outcome: NodeOutcome,
    /// Whether its console is at its end, which is when its process is gone.
    silent: bool,
    /// Whether it was given up, and killed.
    lost: bool,
    /// Bytes that it has said, and when it last said which of its links are down.
    heard: u64,
    links_heard: Option<Instant>,
    deframer: Deframer,
    log: Record,
    raw: Record,
    errors_path: PathBuf,
}

impl Watched {
    /// Begins to watch a guest, whose emulator complains into the file `errors_path`.
    pub fn new(
        rank: u32,
        guest: Guest,
        control: PathBuf,
        folder: &Folder,
        errors_path: PathBuf,
    ) -> Result<Self> {
        let create = |ending: &str| Record::create(folder.node(rank, ending));
        Ok(Self {
            rank,
            guest,
            control,
            outcome: NodeOutcome::default(),
            silent: false,
            lost: false,
            heard: 0,
            links_heard: None,
            deframer: Deframer::default(),
            log: create("log")?,
            raw: create("raw")?,
            errors_path,
        })
    }

    /// Its rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Its process.
    pub fn guest(&mut self) -> &mut Guest {
        &mut self.guest
    }

    /// Where its emulator listens for its control protocol.
    pub fn control(&self) -> &Path {
        &self.control
    }

    /// What is known of it.
    pub fn outcome(&self) -> &NodeOutcome {
        &self.outcome
    }

    /// The same at the end, and its process.
    pub fn into_parts(self) -> (NodeOutcome, Guest) {
        (self.outcome, self.guest)
    }

    /// Whether its console is at its end, which is when its process is gone.
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Whether it was given up, and killed.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Bytes that it has said.
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// When it last said which of its links are down.
    pub fn links_heard(&self) -> Option<Instant> {
        self.links_heard
    }

    /// It gives no sign of life.
    pub fn suspect(&mut self) {
        self.outcome.suspected = true;
        self.outcome.suspicions += 1;
    }

    /// It is not under suspicion, or no longer.
    pub fn clear(&mut self) {
        self.outcome.suspected = false;
    }

    /// It was asked whether it lives.
    pub fn note_question(&mut self) {
        self.outcome.questions += 1;
    }

    /// It told its end.
    pub fn note_end(&mut self, now: Instant) {
        self.outcome.ended = Some(now);
    }

    /// Says more of its failure, if it has failed: what came before.
    pub fn excuse(&mut self, why: &str) {
        if let Some(failure) = &mut self.outcome.failure {
            failure.push_str(why);
        }
    }

    /// Takes bytes of the console; an empty slice is its end.
    pub fn hear(&mut self, bytes: &[u8], firmware: Option<&Firmware>) -> Result<Vec<Said>> {
        let mut frames = Vec::new();
        if bytes.is_empty() {
            self.silent = true;
            self.deframer.finish(|frame| frames.push(frame));
        } else {
            self.deframer.feed(bytes, |frame| frames.push(frame));
        }
        self.heard += bytes.len() as u64;
        self.raw.bytes(bytes);
        let mut said = Vec::new();
        for frame in frames {
            said.extend(self.take(frame, firmware)?);
        }
        Ok(said)
    }

    fn take(&mut self, frame: Frame, firmware: Option<&Firmware>) -> Result<Option<Said>> {
        Ok(match frame {
            Frame::Log { hart, payload } => {
                let line = match firmware {
                    Some(firmware) => firmware.decoder.decode(self.rank, hart, &payload),
                    None => log::undecoded(self.rank, hart, &payload),
                };
                self.log.line(format_args!("{}", line.plain()));
                if matches!(line.level, "warn" | "error") {
                    self.log.flush();
                }
                self.outcome.lines.push(line.clone());
                Some(Said::Line(line))
            }
            Frame::Report { hart, text } => {
                let text = firmware
                    .and_then(Firmware::symbols)
                    .map_or(text.clone(), |symbols| symbols.annotate(&text));
                self.log.line(format_args!("{}{}", self.rank, console::report_line(hart, &text)));
                // Reports and warnings matter most when little else works; statuses tell who reads along how far a node is.
                self.log.flush();
                self.outcome.reports.push(text.clone());
                Some(Said::Report { hart, text })
            }
            Frame::Status(status) => {
                self.log.line(format_args!("{}{}", self.rank, console::status_line(&status)));
                self.log.flush();
                if let Some(down) = status.number("down") {
                    (self.outcome.links_down, self.links_heard) = (down, Some(Instant::now()));
                }
                match status.word.as_str() {
                    // One that is gone is seen by its end.
                    "wants" => _ = self.guest.tell(),
                    // It stays in the machine, and ends there as its process would.
                    "parked" => {
                        self.outcome.exit = status.number("code").map(Exit::Code);
                        self.guest.note_parked(status.number("again") == Some(1));
                    }
                    _ => {}
                }
                self.outcome.statuses.push(status);
                Some(Said::Status)
            }
            Frame::Timeline(payload) => {
                self.outcome.timeline.push(payload);
                None
            }
            Frame::Firmware(text) => {
                self.log.line(format_args!("{}", text.trim_end()));
                None
            }
        })
    }

    /// Whether its job has started.
    pub fn is_up(&self) -> bool {
        self.outcome.up().is_some()
    }

    /// Whether its job has started, on a kernel that answers the question whether it lives.
    pub fn answers(&self) -> bool {
        let mut up = self.outcome.statuses.iter().filter(|status| status.word == "up");
        up.any(|status| status.number("answers") == Some(1))
    }

    /// Completes the files. Returns what is not whole, and why.
    pub fn complete(&mut self) -> impl Iterator<Item = String> {
        let files = [&mut self.log, &mut self.raw];
        files.into_iter().filter_map(|file| {
            file.flush();
            file.problem()
        })
    }

    /// Looks whether it has ended, and judges it.
    ///
    /// The process's end counts once all that it said is read: its last words come before.
    pub fn judge(&mut self) -> Result<()> {
        if self.silent && self.outcome.exit.is_none() {
            self.outcome.exit = self.guest.exit()?;
        }
        if self.outcome.failure.is_none() {
            self.outcome.failure = self.failure();
        }
        Ok(())
    }

    /// Says something of it that it cannot say itself, in its log too.
    pub fn note(&mut self, what: &str, voice: &Voice) -> Result<()> {
        let text = format!("node {} {what}", self.rank);
        self.log.line(format_args!("{text}"));
        voice.say(&text);
        Ok(())
    }

    /// Gives it up for a reason: kills what is left of it.
    pub fn lose(&mut self, why: &str) -> Result<()> {
        if !std::mem::replace(&mut self.lost, true) {
            self.outcome.failure.get_or_insert(format!("node {} is dead: {why}", self.rank));
            self.guest.kill()?;
        }
        Ok(())
    }

    /// Stops it. What the tool itself stopped is not the node's fault.
    pub fn tear_down(&mut self) -> Result<()> {
        let exit = self.guest.tear_down()?;
        self.outcome.exit.get_or_insert(exit);
        Ok(())
    }

    fn failure(&self) -> Option<String> {
        let node = format!("node {}", self.rank);
        let exit = self.outcome.exit;
        if let Some(first) = self.outcome.reports.first() {
            return Some(format!("{node} reported: {first}; see {}", self.log.path().display()));
        }
        if let Some(Exit::Signal(signal)) = exit {
            return Some(format!("{node} was killed by signal {signal}"));
        }
        match (self.outcome.status(), exit) {
            (Some(0), None | Some(Exit::Code(0)))
            | (None, None)
            | (_, Some(Exit::TornDown | Exit::Signal(_) | Exit::Elsewhere)) => None,
            (Some(0), Some(Exit::Code(code))) => Some(format!(
                "{node} ended its job with status 0, but the emulator with code {code}{}",
                self.complaint()
            )),
            (Some(status), _) => Some(format!("{node} ended with status {status}")),
            (None, Some(Exit::Code(code))) => Some(format!(
                "{node} was gone before the job ended; the emulator's code was {code}{}",
                self.complaint()
            )),
        }
    }

    /// What the emulator said last, or ThreadSanitizer of harts that race.
    fn complaint(&self) -> String {
        let text = std::fs::read_to_string(&self.errors_path).unwrap_or_default();
        if let Some(race) = text.lines().find_map(|line| line.strip_prefix("SUMMARY: ThreadSanitizer: ")) {
            return format!(": {race}; see {}", self.errors_path.display());
        }
        text.lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .map(|line| format!(": {line}"))
            .unwrap_or_default()
    }
}
