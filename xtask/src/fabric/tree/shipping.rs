//! Calls of nodes to their I/O nodes, and the answers (SPEC S-2): *function shipping*.
//!
//! Nodes are divided among the I/O nodes in runs of ranks as equal as can be, their processing sets. An I/O node hangs below the
//! root like a node, on a listener of its own behind those of the nodes, and speaks the same frames.
//!
//! *Nothing grows.* A node has at most [`SHIPPED_CALLS`] calls here, each from the moment in which its frame comes until the
//! answer's frame goes out, so no queue is longer than that times its nodes. *Nothing hangs.* When the stream of an I/O node
//! ends, each call that it has not answered, and each later one, is answered with a status.
//!
//! Calls pass by the routers' class routes, whose places are for what is combined: their bytes are counted at the links that
//! they go over, their waiting for them is not modelled. `delay` does not strike them.

use super::super::awake::Plug;
use super::super::stream::FrameStream;
use super::frame;
use pami::combine::packet::{NETWORK, SHIPPED_CALLS};
use pami::combine::{ClassRoute, Status, TreeEnvelope, TreePacketKind};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{Read, Write};

/// A call or an answer with its payload.
type Shipment = (TreeEnvelope, Vec<u8>);

/// What a node has under way.
#[derive(Default)]
pub struct Calls {
    /// By place: the call's sequence, and whether its answer is here.
    under_way: [Option<(u32, bool)>; SHIPPED_CALLS],
    /// Answers that its stream has no room for yet.
    answers: VecDeque<Shipment>,
}

impl Calls {
    /// Takes note of a call; whether the node may have it.
    fn begin(&mut self, call: &TreeEnvelope) -> bool {
        let place = usize::try_from(call.argument).ok().and_then(|place| self.under_way.get_mut(place));
        let Some(place) = place.filter(|place| place.is_none()) else { return false };
        *place = Some((call.sequence, false));
        true
    }

    /// Takes an answer in; whether there is a call that it can belong to.
    fn answer(&mut self, answer: TreeEnvelope, payload: Vec<u8>) -> bool {
        let place = usize::try_from(answer.argument).ok().and_then(|place| self.under_way.get_mut(place));
        let Some(place) = place.filter(|place| **place == Some((answer.sequence, false))) else {
            return false;
        };
        *place = Some((answer.sequence, true));
        self.answers.push_back((answer, payload));
        true
    }

    /// Whether its call with this name waits for an answer.
    fn waits(&self, call: &TreeEnvelope) -> bool {
        self.under_way.get(call.argument as usize) == Some(&Some((call.sequence, false)))
    }

    /// The next answer that is to go out; its place is free with it.
    pub fn next(&mut self) -> Option<Shipment> {
        let (answer, payload) = self.answers.pop_front()?;
        self.under_way[answer.argument as usize] = None;
        Some((answer, payload))
    }
}

/// An I/O node at the tree.
pub struct IoNode<S> {
    /// Its frames.
    stream: Option<FrameStream<S>>,
    /// Why it has left.
    left: Option<String>,
    /// Calls that its stream has no room for yet, or that came before it did.
    waiting: VecDeque<Shipment>,
    /// Calls that it was given and has not answered.
    given: Vec<TreeEnvelope>,
}

impl<S: Read + Write> IoNode<S> {
    /// One that has not connected.
    fn new() -> Self {
        Self { stream: None, left: None, waiting: VecDeque::new(), given: Vec::new() }
    }

    /// Its place at the switch.
    pub fn plug(&mut self) -> Plug<'_, S> {
        Plug { stream: &mut self.stream, left: &mut self.left }
    }

    /// The next whole frame that came from it.
    pub fn take_frame(&mut self) -> Option<Vec<u8>> {
        let stream = self.stream.as_mut()?;
        let frame = stream.frame()?.to_vec();
        stream.consume();
        Some(frame)
    }

    /// Gives it the calls that wait, while there is room; returns whether any went.
    pub fn give_out(&mut self, rank: u32, record: &mut dyn FnMut(&[u8])) -> bool {
        let mut given = false;
        while let Some(stream) = self.stream.as_mut().filter(|stream| stream.has_room())
            && let Some((call, payload)) = self.waiting.pop_front()
        {
            let frame = frame::write(rank, &call, &payload);
            record(&frame);
            stream.send(&frame);
            self.given.push(call);
            given = true;
        }
        given
    }

    /// All calls that nobody will answer any more.
    pub fn abandon(&mut self) -> Vec<TreeEnvelope> {
        let waiting = std::mem::take(&mut self.waiting);
        let given = std::mem::take(&mut self.given);
        given.into_iter().chain(waiting.into_iter().map(|(call, _)| call)).collect()
    }
}

/// The I/O nodes, and who is whose.
pub struct Shipping<S> {
    /// Number of nodes: I/O nodes have the ranks behind.
    nodes: u32,
    io_nodes: Vec<IoNode<S>>,
    shipped: u64,
}

impl<S: Read + Write> Shipping<S> {
    /// So many I/O nodes for `nodes` nodes.
    pub fn new(nodes: u32, io_nodes: u32) -> Self {
        Self { nodes, io_nodes: (0..io_nodes).map(|_| IoNode::new()).collect(), shipped: 0 }
    }

    /// Calls that were taken from nodes.
    pub fn shipped(&self) -> u64 {
        self.shipped
    }

    /// The I/O node with this rank among all.
    pub fn io_node(&mut self, rank: u32) -> Option<&mut IoNode<S>> {
        self.io_nodes.get_mut(rank.checked_sub(self.nodes)? as usize)
    }

    /// The rank of the I/O node that serves `rank`, if there are any.
    fn serves(&self, rank: u32) -> Option<u32> {
        let io_nodes = self.io_nodes.len() as u64;
        (io_nodes > 0).then(|| self.nodes + (u64::from(rank) * io_nodes / u64::from(self.nodes)) as u32)
    }

    /// What every I/O node has, for people.
    pub fn describe(&self, text: &mut String) {
        for (number, IoNode { left, waiting, given, .. }) in self.io_nodes.iter().enumerate() {
            let (waiting, given) = (waiting.len(), given.len());
            // Writing to a String cannot fail.
            let _ = write!(text, "I/O node {number}: {given} calls to answer, {waiting} wait before it");
            let _ = match left {
                Some(why) => writeln!(text, "; left: {why}"),
                None => writeln!(text),
            };
        }
    }

    /// Takes a call of node `rank` in. Returns the rank of its I/O node if that is to be looked at, and an error if the
    /// node may not have another.
    pub fn call(
        &mut self,
        rank: u32,
        calls: &mut Calls,
        call: TreeEnvelope,
        payload: &[u8],
    ) -> Result<Option<u32>, ()> {
        if !calls.begin(&call) {
            return Err(());
        }
        self.shipped += 1;
        let to = self.serves(rank);
        // Whoever it says that it is, its stream tells.
        let call = TreeEnvelope { origin: rank, ..call };
        match to.and_then(|to| self.io_node(to)).filter(|io_node| io_node.left.is_none()) {
            Some(io_node) => io_node.waiting.push_back((call, payload.to_vec())),
            None => {
                let status = if to.is_some() { Status::Dead } else { Status::NoIoNode };
                calls.answer(TreeEnvelope { status, ..answer_to(&call) }, Vec::new());
                return Ok(None);
            }
        }
        Ok(to)
    }

    /// Takes an answer of the I/O node `rank` in, for a node's `calls`. Returns whether there was such a call.
    pub fn answer(&mut self, rank: u32, calls: &mut Calls, answer: &TreeEnvelope, payload: &[u8]) -> bool {
        let same = |call: &TreeEnvelope| {
            (call.origin, call.argument, call.sequence) == (answer.origin, answer.argument, answer.sequence)
        };
        let Some(io_node) = self.io_node(rank) else { return false };
        let Some(at) = io_node.given.iter().position(same) else { return false };
        let call = io_node.given.swap_remove(at);
        calls.answer(answer_to(&call), payload.to_vec())
    }
}

/// The good answer to a call, as it goes to the node.
fn answer_to(call: &TreeEnvelope) -> TreeEnvelope {
    TreeEnvelope {
        sequence: call.sequence,
        argument: call.argument,
        ..TreeEnvelope::new(TreePacketKind::Reply, ClassRoute::WORLD, NETWORK)
    }
}

/// Answers a call in the place of an I/O node that has left.
pub fn fail(calls: &mut Calls, call: &TreeEnvelope) {
    if calls.waits(call) {
        calls.answer(TreeEnvelope { status: Status::Dead, ..answer_to(call) }, Vec::new());
    }
}
