//! How one asks a living run: a socket beside those of its nodes, and a record of whose run it is.
//!
//! A run is alive if somebody listens there: one that was killed leaves a socket that refuses. A question is a line, a node's
//! number, `all` or `look NODE`; the answer is JSON, `{"Ok": TEXT}` or `{"Err": TEXT}`. The run itself answers, for its nodes' control
//! channels have one user at a time, and it has the image in memory that they run, whatever was built since.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use super::look::Look;
use crate::workspace;

/// The socket, and the record.
const SOCKET: &str = "door.sock";
const RECORD: &str = "run.json";
/// What asks for all nodes, and what for a [`Look`], before the node's number to begin with.
const ALL: &str = "all";
const LOOK: &str = "look ";
/// The longest question, in bytes.
const QUESTION_BYTES: usize = 16;
/// How long who asks may take to read. The run stands meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a run may take to answer: its nodes may each take two seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What is said where no run is alive.
pub const NONE: &str = "no run of this workspace is alive: `cargo xtask qemu JOB` starts one";

/// Whose run it is.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
struct Record {
    /// The top folder of its workspace.
    workspace: PathBuf,
    /// Its folder of logs.
    logs: PathBuf,
}

/// What one may want to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// A line for each node.
    All,
    /// What this node does.
    Node(u32),
    /// A [`Look`], as JSON, which begins with this node.
    Look(u32),
}

impl Question {
    fn parse(line: &str) -> Option<Self> {
        match line.strip_prefix(LOOK) {
            Some(first) => first.parse().ok().map(Self::Look),
            None if line == ALL => Some(Self::All),
            None => line.parse().ok().map(Self::Node),
        }
    }
}

/// A run's own end.
pub struct Door {
    listener: UnixListener,
    /// Who has not said yet what they want to know.
    visitors: Vec<UnixStream>,
}

impl Door {
    /// Listens in the folder `sockets`; the run's logs are in `logs`.
    pub fn open(sockets: &Path, logs: &Path) -> Result<Self> {
        let record = Record { workspace: workspace::root().to_owned(), logs: logs.to_owned() };
        let record = serde_json::to_vec(&record).context("a path that is no text")?;
        std::fs::write(sockets.join(RECORD), record).context("cannot write the run's record")?;
        let listener = UnixListener::bind(sockets.join(SOCKET)).context("cannot listen for questions")?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, visitors: Vec::new() })
    }

    /// Answers what is asked. Who goes away without a word is none of the run's concern.
    pub fn answer(&mut self, mut answer: impl FnMut(Question) -> Result<String, String>) {
        while let Ok((visitor, _)) = self.listener.accept() {
            if visitor.set_nonblocking(true).is_ok() {
                self.visitors.push(visitor);
            }
        }
        self.visitors.retain_mut(|visitor| {
            let mut bytes = [0; QUESTION_BYTES];
            let length = match visitor.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Ok(0) | Err(_) => return false,
                Ok(length) => length,
            };
            let question = std::str::from_utf8(&bytes[..length]).unwrap_or_default().trim();
            let told = Question::parse(question).map(&mut answer);
            let told = told.unwrap_or_else(|| Err(format!("{question:?} is no question")));
            if visitor.set_nonblocking(false).is_ok() && visitor.set_write_timeout(Some(PATIENCE)).is_ok() {
                let _ = visitor.write_all(serde_json::json!(told).to_string().as_bytes());
            }
            false
        });
    }
}

/// A run that somebody else has.
pub struct Living {
    logs: PathBuf,
    stream: UnixStream,
}

impl Living {
    /// What it is called: the last part of its folder's name.
    pub fn name(&self) -> String {
        self.logs.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Asks it for one node, or for all.
    ///
    /// # Errors
    /// It has no such node, or does not answer, as when it has just ended.
    pub fn ask(self, node: Option<u32>) -> Result<String> {
        self.put(&node.map_or(ALL.to_owned(), |node| node.to_string()))
    }

    /// How it goes at this moment; node `first` is read first.
    ///
    /// # Errors
    /// It does not answer, or is of another version of this program.
    pub fn look(self, first: u32) -> Result<Look> {
        let name = self.name();
        let told = self.put(&format!("{LOOK}{first}"))?;
        serde_json::from_str(&told)
            .with_context(|| format!("{name} was started by another version of this program"))
    }

    fn put(mut self, question: &str) -> Result<String> {
        let mut answer = Vec::new();
        let told = self.stream.set_read_timeout(Some(ANSWER_TIMEOUT));
        let told = told.and_then(|()| self.stream.write_all(format!("{question}\n").as_bytes()));
        let told = told.and_then(|()| self.stream.read_to_end(&mut answer));
        let answer = told.ok().and_then(|_| serde_json::from_slice(&answer).ok());
        let answer: Result<String, String> = answer.with_context(|| {
            format!("{} gives no answer: it is about to end, or stands still", self.name())
        })?;
        answer.map_err(|wrong| anyhow!("{}: {wrong}", self.name()))
    }
}

/// The living run called `run`, or the only one.
///
/// # Errors
/// None is alive, or none of that name; there are several, and it was not said which.
pub fn living_run(parent: Option<&Path>, run: Option<&str>) -> Result<Living> {
    let (mut runs, names) = living_runs(parent, run)?;
    match runs.pop() {
        Some(only) if runs.is_empty() => Ok(only),
        _ => bail!("several runs are alive: say --run, as one of {names}"),
    }
}

/// The [`living`] runs, one at least, or that called `run` alone; and the names of all.
///
/// # Errors
/// None is alive, or none of that name.
pub fn living_runs(parent: Option<&Path>, run: Option<&str>) -> Result<(Vec<Living>, String)> {
    let mut runs = living(parent);
    ensure!(!runs.is_empty(), NONE);
    let names = runs.iter().map(Living::name).collect::<Vec<_>>().join(", ");
    runs.retain(|living| run.is_none_or(|run| living.name() == run));
    ensure!(!runs.is_empty(), "no run {} is alive; there is {names}", run.unwrap_or_default());
    Ok((runs, names))
}

/// The living runs of this workspace whose sockets are in folders of `parent`, or where runs have theirs, by name.
pub fn living(parent: Option<&Path>) -> Vec<Living> {
    let parent = parent.map_or_else(super::sockets::parent_of_sockets, Path::to_owned);
    let folders = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut living: Vec<_> = folders
        .filter_map(|folder| {
            let record = std::fs::read(folder.join(RECORD)).ok()?;
            let Record { workspace, logs } = serde_json::from_slice(&record).ok()?;
            let own = workspace == workspace::root();
            let stream = own.then(|| UnixStream::connect(folder.join(SOCKET)))?.ok()?;
            Some(Living { logs, stream })
        })
        .collect();
    living.sort_by(|one, other| one.logs.cmp(&other.logs));
    living
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s3_who_asks_nothing_or_nonsense_does_no_harm() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut door = Door::open(folder.path(), Path::new("logs")).expect("a door");
        let connect = || UnixStream::connect(folder.path().join(SOCKET)).expect("a connection");
        let (silent, mut wrong) = (connect(), connect());
        drop(connect());
        wrong.write_all(b"what\n").expect("a question");
        door.answer(|_| panic!("nobody asked"));
        // Who is silent may still ask.
        assert_eq!(door.visitors.len(), 1);
        let mut told = String::new();
        wrong.read_to_string(&mut told).expect("an answer");
        assert_eq!(told, r#"{"Err":"\"what\" is no question"}"#);
        drop(silent);
        door.answer(|_| panic!("nobody asked"));
        assert!(door.visitors.is_empty());
    }
}
