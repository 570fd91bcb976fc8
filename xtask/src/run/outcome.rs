//! How a run went.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pami::topology::TorusShape;

use super::{Folder, Way};
use crate::arch::Arch;
use crate::board::Board;
use crate::console::Status;
use crate::fabric::Statistics;
use crate::log::LogLine;
use crate::node::Exit;
use crate::personality::Mode;

/// Why a run came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// All nodes are gone by themselves, well or not.
    Finished,
    /// A node failed, and the others were stopped.
    NodeFailed,
    /// The deadline passed.
    Deadline,
    /// The user did not want to wait.
    Interrupted,
}

/// How one node went.
#[derive(Clone, Debug, Default)]
pub struct NodeOutcome {
    /// Its log, decoded.
    pub lines: Vec<LogLine>,
    /// The lines of its reports (panics, exceptions, refused personalities), addresses named.
    pub reports: Vec<String>,
    /// What it told the host.
    pub statuses: Vec<Status>,
    /// What its harts did, if they kept that: payloads of [`kernel::timeline`].
    pub timeline: Vec<Vec<u8>>,
    /// Whether it gives no sign of life, and how often it began not to.
    pub suspected: bool,
    /// See [`suspected`](Self::suspected).
    pub suspicions: u32,
    /// How often it was asked whether it lives.
    pub questions: u32,
    /// Which of its cards said last that their link is down: bit 0 for that on the torus, bit 1 for that on the tree.
    pub links_down: u32,
    /// How its emulator ended.
    pub exit: Option<Exit>,
    /// When its final status was heard.
    pub ended: Option<Instant>,
    /// What went wrong with it, with its name.
    pub failure: Option<String>,
}

impl NodeOutcome {
    /// What it said when its job started.
    pub fn up(&self) -> Option<&Status> {
        self.statuses.iter().find(|status| status.word == "up")
    }

    /// Its final status: what its job returned.
    pub fn end(&self) -> Option<&Status> {
        self.statuses.iter().rev().find(|status| status.word == "end")
    }

    /// The number its job returned.
    pub fn status(&self) -> Option<i32> {
        self.end()?.number("status")
    }

    /// How many of its log lines were dropped as its serial line was too slow, as far as it said.
    pub fn unlogged(&self) -> u32 {
        self.end().and_then(|end| end.number("unlogged")).unwrap_or(0)
    }

    /// Whether another run has started it.
    pub fn is_elsewhere(&self) -> bool {
        self.exit == Some(Exit::Elsewhere)
    }

    /// Whether some log line contains `text`.
    pub fn said(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.text.contains(text))
    }
}

/// What was to run, and on which nodes.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The job.
    pub job: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The nodes' board.
    pub board: Board,
    /// Their instruction set.
    pub arch: Arch,
    /// How they are joined.
    pub torus: TorusShape,
    /// Harts of each.
    pub harts: u8,
    /// How these are divided among tasks.
    pub mode: Mode,
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was asked for.
    pub asked: Asked,
    /// Why it ended.
    pub ending: Ending,
    /// By rank.
    pub nodes: Vec<NodeOutcome>,
    /// Which way packets went.
    pub way: Way,
    /// What the fabric counted.
    pub fabric: Statistics,
    /// What making the image took.
    pub image_time: Duration,
    /// From the start of the emulators until all nodes had joined the torus, if they did.
    pub boot_time: Option<Duration>,
    /// From then until the last node's final status.
    pub job_time: Option<Duration>,
    /// From when all had joined until the watch ended.
    pub waited: Option<Duration>,
    /// When a node was first killed or cut off, if one was.
    pub harmed: Option<Instant>,
    /// What was asked for and did not take place.
    pub remarks: Vec<String>,
    /// The state of all nodes when it failed.
    pub dump: Option<String>,
    /// Where its logs lie. Those of a quiet run that went well are gone with this value, unless a test fails by then.
    pub logs: Arc<Folder>,
}

impl Outcome {
    /// Whether every node ended well.
    pub fn success(&self) -> bool {
        self.ending == Ending::Finished
            && self.failures().next().is_none()
            && self.fabric.complaints.is_empty()
    }

    /// What went wrong, each with the node's name.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| node.failure.as_deref())
    }

    /// What went wrong, each thing once, with the nodes that it went wrong with.
    pub fn grouped(&self) -> Vec<String> {
        let mut groups: Vec<(String, Vec<usize>, &str)> = Vec::new();
        for (rank, failure) in
            self.nodes.iter().enumerate().filter_map(|(r, n)| Some((r, n.failure.as_deref()?)))
        {
            let name = format!("node {rank} ");
            // The nodes' own logs have other names.
            let what = failure.strip_prefix(&name).unwrap_or(failure);
            let what = placeless(what.split("; see ").next().unwrap_or(what), rank);
            match groups.iter_mut().find(|(known, ..)| *known == what) {
                Some((_, ranks, _)) => ranks.push(rank),
                None => groups.push((what, vec![rank], failure)),
            }
        }
        let words = |(what, ranks, whole): &(String, Vec<usize>, &str)| match ranks.as_slice() {
            [_] => (*whole).to_owned(),
            ranks => format!("nodes {} {}", self::ranks(ranks), plural(what)),
        };
        groups.iter().map(words).collect()
    }

    /// The first line of level `error`, by the nodes' own times.
    pub fn first_error(&self) -> Option<&LogLine> {
        let time = |line: &&LogLine| line.time.parse::<f64>().unwrap_or(f64::MAX);
        let errors = self.lines().filter(|line| line.level == "error");
        errors.min_by(|a, b| time(a).total_cmp(&time(b)))
    }

    /// The ranks of nodes that this tool had to stop.
    pub fn unfinished(&self) -> impl Iterator<Item = usize> {
        let stopped = |node: &NodeOutcome| node.exit.is_none_or(|exit| exit == Exit::TornDown);
        self.nodes.iter().enumerate().filter(move |(_, node)| stopped(node)).map(|(rank, _)| rank)
    }

    /// The exit code for the whole: 0, 130 after Ctrl-C, 124 after the deadline, else 1.
    pub fn exit_code(&self) -> u8 {
        match self.ending {
            Ending::Interrupted => 130,
            Ending::Deadline => 124,
            _ if self.success() => 0,
            _ => 1,
        }
    }

    /// All log lines of all nodes, node by node.
    pub fn lines(&self) -> impl Iterator<Item = &LogLine> {
        self.nodes.iter().flat_map(|node| &node.lines)
    }

    /// All lines of reports of all nodes.
    pub fn reports(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().flat_map(|node| &node.reports).map(String::as_str)
    }

    /// Panics with all that is known unless every node ended well and allocated nothing after the job's start (SPEC N-5). For
    /// tests.
    ///
    /// # Panics
    /// If the run failed.
    #[track_caller]
    pub fn expect_success(&self) -> &Self {
        assert!(self.success(), "{}", self.explain());
        for (rank, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.is_elsewhere()) {
            let counted = node.end().and_then(|end| end.number::<u64>("allocations"));
            assert_eq!(counted, Some(0), "allocations of node {rank}: {}", self.explain());
        }
        self
    }

    /// The run in words, for a test that fails.
    pub fn explain(&self) -> String {
        let mut text = format!("the run ended: {:?}\n", self.ending);
        for failure in self.failures() {
            text.push_str(&format!("{failure}\n"));
        }
        for complaint in &self.fabric.complaints {
            text.push_str(&format!("fabric: {complaint}\n"));
        }
        for node in &self.nodes {
            let last = node.lines.len().saturating_sub(10);
            for line in &node.lines[last..] {
                text.push_str(&format!("  {}\n", line.plain()));
            }
        }
        text.push_str(self.dump.as_deref().unwrap_or_default());
        text.push_str(&format!("logs: {}\n", self.logs.path().display()));
        text
    }
}

/// Without the node, and the hart that speaks for it, which a node's report names.
fn placeless(what: &str, rank: usize) -> String {
    let node = format!("node {rank}, ");
    match what.strip_prefix(&format!("reported: {node}hart ")).and_then(|rest| rest.split_once(' ')) {
        Some((_, rest)) => format!("reported: {rest}"),
        None => what.replace(&node, ""),
    }
}

/// What was said of one node, of several.
fn plural(what: &str) -> String {
    match what.split_once(' ') {
        Some(("is", rest)) => format!("are {rest}"),
        Some(("was", rest)) => format!("were {rest}"),
        _ => what.to_owned(),
    }
}

/// Ranks in ascending order, as in `0 to 7, 9`.
fn ranks(ranks: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let word = |&(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    };
    runs.iter().map(word).collect::<Vec<_>>().join(", ")
}
