//! What the nodes of a run are doing: for its dump if it fails, and meanwhile for who asks (`cargo xtask inspect`).

use std::fmt::Write as _;

use pami::topology::TorusShape;

use super::watched::{Firmware, Watched};
use super::{Folder, Way};
use crate::dump::{self, Reading};
use crate::fabric::{FabricHandle, Statistics};
use crate::progress::Voice;

/// Last log lines of a node that are told.
const LAST_LINES: usize = 3;

/// What knows of the nodes.
pub struct State<'a> {
    /// What runs, and on what, in words.
    pub words: String,
    /// How the nodes are joined.
    pub shape: TorusShape,
    /// Whether each is in an emulator.
    pub emulated: bool,
    /// Which way packets go.
    pub way: Way,
    /// Their network.
    pub fabric: &'a FabricHandle,
    /// Where their memory may be written to.
    pub folder: &'a Folder,
    /// Names of their addresses.
    pub firmware: Option<&'a Firmware>,
}

impl State<'_> {
    /// Asks all nodes how they are, those that no longer live for their last words.
    pub fn dump(&self, nodes: &mut [Watched], voice: &Voice) -> String {
        let mut text = String::new();
        for node in nodes {
            voice.update(format!("asking node {} for its state", node.rank()));
            text.push_str(&self.node(node, Reading::Last));
        }
        text.push_str("fabric\n");
        for line in self.fabric.state_dump().lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    /// What is told of one node, or in a line each of all, while they go on.
    ///
    /// # Errors
    /// There is no such node.
    pub fn answer(&self, nodes: &mut [Watched], asked: Option<u32>) -> Result<String, String> {
        let statistics = self.fabric.statistics();
        let Some(rank) = asked else {
            let mut text = self.words.clone();
            for node in nodes {
                let network = self.network(&statistics, node.rank());
                let _ = write!(text, "\n  node {} ({}): {network}", node.rank(), life(node));
            }
            return Ok(text);
        };
        let count = nodes.len();
        let node = nodes.get_mut(rank as usize);
        let node = node.ok_or_else(|| format!("there is no node {rank}: the last one is {}", count - 1))?;
        let mut text = self.node(node, Reading::Living);
        if !self.emulated {
            let why = "a process of this machine has no control channel: gdb can tell";
            let _ = writeln!(text, "  where its harts are and how its FIFOs stand is not to be had: {why}");
        }
        let _ = write!(text, "  {}", self.network(&statistics, rank));
        let lines = self.fabric.state_dump();
        let own = format!("node {rank}: ");
        for line in lines.lines().filter_map(|line| line.strip_prefix(&own)) {
            let _ = write!(text, "\n  {line}");
        }
        Ok(text)
    }

    fn node(&self, node: &mut Watched, reading: Reading) -> String {
        let mut text = format!("node {} ({})\n", node.rank(), life(node));
        if node.outcome().exit.is_none() && node.guest().is_stopped() {
            text.push_str("  no more is known: its emulator is stopped\n");
        } else if node.outcome().exit.is_none() && !self.emulated {
            node.guest().threads().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        } else if node.outcome().exit.is_none() {
            let scratch = self.folder.node(node.rank(), "memory");
            text.push_str(&dump::node(
                node.control(),
                &scratch,
                self.firmware.and_then(Firmware::symbols),
                reading,
            ));
        }
        let last = node.outcome().lines.len().saturating_sub(LAST_LINES);
        for line in &node.outcome().lines[last..] {
            text.push_str(&format!("  last words: {}\n", line.plain()));
        }
        text
    }

    /// What a node has sent and was given, and what left its router over each link that was used.
    fn network(&self, statistics: &Statistics, rank: u32) -> String {
        if self.way == Way::Segment {
            return self.way.to_string();
        }
        let Some(node) = statistics.nodes.get(rank as usize) else { return statistics.complaints.join("; ") };
        let (sent, given) = (node.injected, node.delivered);
        let mut text = format!(
            "sent {} packets of {} bytes, was given {} of {}",
            sent.packets, sent.bytes, given.packets, given.bytes
        );
        for (direction, next, traffic) in node.links_of(self.shape, rank) {
            if traffic.packets > 0 {
                let _ = write!(text, "; link {direction} to node {next}: {} bytes", traffic.bytes);
            }
        }
        text
    }
}

/// Whether a node lives, in words.
fn life(node: &mut Watched) -> String {
    let stopped = node.guest().is_stopped();
    let outcome = node.outcome();
    match (outcome.exit, outcome.suspected, stopped) {
        (Some(exit), ..) => format!("gone, exit {exit}"),
        (None, true, _) => "no sign of life".into(),
        (None, false, true) => "stopped on the host".into(),
        (None, false, false) => "alive".into(),
    }
}
