//! What the nodes of a run are doing: for its dump if it fails, and meanwhile for who asks (`cargo xtask inspect`).

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use pami::topology::TorusShape;

use super::door::Question;
use super::look::{Look, NodeLook, OwnLook};
use super::watched::{Firmware, Watched};
use super::{Folder, Way};
use crate::dump::{self, Activity, Fifo, Reading};
use crate::fabric::{FabricHandle, Statistics};
use crate::progress::Voice;

/// Last log lines of a node that are told.
const LAST_LINES: usize = 3;
/// A look takes up no further node after this time: the run's loop stands meanwhile.
const LOOK_TIME: Duration = Duration::from_millis(200);

/// What knows of the nodes.
pub struct State<'a> {
    /// What runs, and on what, in words.
    pub words: String,
    /// How the nodes are joined.
    pub shape: TorusShape,
    /// Whether each is in an emulator.
    pub emulated: bool,
    /// When they started.
    pub begun: Instant,
    /// What each runs, if it is a process.
    pub program: &'a Path,
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

    /// What is told of the nodes while they go on.
    ///
    /// # Errors
    /// There is no such node.
    pub fn answer(&self, nodes: &mut [Watched], joined: bool, asked: Question) -> Result<String, String> {
        let statistics = self.fabric.statistics();
        let rank = match asked {
            Question::All => {
                let mut text = self.words.clone();
                for node in nodes {
                    let network = self.network(&statistics, node.rank());
                    let _ = write!(text, "\n  node {} ({}): {network}", node.rank(), life(node));
                }
                return Ok(text);
            }
            Question::Look(first) => {
                let look = self.look(nodes, joined, first, &statistics);
                return serde_json::to_string(&look).map_err(|error| error.to_string());
            }
            Question::Node(rank) => rank,
        };
        let last = self.shape.nodes() - 1;
        let node = nodes.iter_mut().find(|node| node.rank() == rank);
        let node = node.ok_or_else(|| match rank <= last {
            true => format!("node {rank} was not started here"),
            false => format!("there is no node {rank}: the last one is {last}"),
        })?;
        let mut text = self.node(node, Reading::Living);
        if !self.emulated {
            let why = "a process of this machine has no control channel: gdb can tell";
            let _ = writeln!(text, "  where its harts are is not to be had: {why}");
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
            for (number, state, wait) in node.guest().threads() {
                let _ = writeln!(text, "  thread {number}: state {state}, in {wait}");
            }
            let fifos = self.fifos_of_process(node);
            fifos.iter().for_each(|fifo| text.push_str(&format!("  {fifo}\n")));
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

    /// All nodes at this moment. What each of those here does itself is read from the one in place `first` on, around to it, while there is time.
    fn look(&self, nodes: &mut [Watched], joined: bool, first: u32, statistics: &Statistics) -> Look {
        let (now, count) = (Instant::now(), nodes.len() as u32);
        let counted = self.way.is_counted();
        let mut look = Look {
            words: self.words.clone(),
            elapsed: self.begun.elapsed(),
            joined,
            links: statistics.used_links(self.shape),
            uncounted: (!counted).then(|| self.way.to_string()),
            next: first % count.max(1),
            nodes: (0..self.shape.nodes()).map(|_| NodeLook::elsewhere()).collect(),
        };
        for node in nodes.iter_mut() {
            let rank = node.rank() as usize;
            let torus = statistics.nodes.get(rank).filter(|_| counted);
            let tree = statistics.tree.as_ref().and_then(|tree| tree.nodes.get(rank));
            let frames = torus.map(|torus| {
                let mut frames = [torus.injected, torus.delivered];
                if let Some(tree) = tree {
                    frames[0] += tree.injected;
                    frames[1] += tree.delivered;
                }
                frames
            });
            let lives = node.outcome().exit.is_none();
            look.nodes[rank] = NodeLook { lives, life: life(node), frames, own: None };
        }
        for _ in 0..count {
            if now.elapsed() > LOOK_TIME {
                break;
            }
            let node = nodes.get_mut(look.next as usize);
            look.next = (look.next + 1) % count;
            if let Some(node) = node {
                look.nodes[node.rank() as usize].own = self.own(node);
            }
        }
        look
    }

    /// What a node does, if it lives and can be read.
    fn own(&self, node: &mut Watched) -> Option<OwnLook> {
        if node.outcome().exit.is_some() || node.guest().is_stopped() {
            return None;
        }
        let elapsed = self.begun.elapsed();
        let (harts, fifos) = if self.emulated {
            let scratch = self.folder.node(node.rank(), "memory");
            dump::look(node.control(), &scratch, self.firmware?.symbols()?).ok()?
        } else {
            let does = |state| if state == 'R' { Activity::Running } else { Activity::Sleeping };
            let harts = node.guest().threads().iter().map(|(_, state, _)| does(*state)).collect();
            (harts, self.fifos_of_process(node))
        };
        Some(OwnLook { elapsed, harts, fifos })
    }

    /// The FIFOs of a node that is a process, if the host shows its memory.
    fn fifos_of_process(&self, node: &mut Watched) -> Vec<Fifo> {
        let guest = node.guest();
        let block =
            guest.begin_of(self.program).and_then(|start| self.firmware?.symbols()?.state_block_from(start));
        let fifos = block.map(|block| dump::fifos(block, |address, length| guest.memory(address, length)));
        fifos.and_then(Result::ok).flatten().unwrap_or_default()
    }

    /// What a node has sent and was given, and what left its router over each link that was used.
    fn network(&self, statistics: &Statistics, rank: u32) -> String {
        if !self.way.is_counted() {
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
