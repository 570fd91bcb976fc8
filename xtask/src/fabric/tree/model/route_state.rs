//! One class route at one router: its queues, and what its ALU does with them.

use super::super::frame::FRAME_BYTES;
use super::RouteState;
use pami::combine::tree::CHILDREN;
use pami::combine::{AluOperation, Role, Status, combine};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Inputs of a router: its own node, the router below on the left, the one on the right.
pub const INPUTS: usize = 1 + CHILDREN;
/// Index of the node's own input.
pub const OWN: usize = 0;

/// What travels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// A contribution, or what became of several.
    Combine {
        /// How it is combined.
        operation: AluOperation,
        /// Whether there is a result.
        status: Status,
    },
    /// From one node to all.
    Broadcast,
}

/// A packet on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutedPacket {
    /// What it is.
    pub body: Body,
    /// Who broadcast it, or spoiled it.
    pub origin: u32,
    /// The senders' number.
    pub sequence: u32,
    /// Elements, or any bytes.
    pub payload: Vec<u8>,
}

impl RoutedPacket {
    /// A contribution.
    pub fn contribution(operation: AluOperation, sequence: u32, payload: Vec<u8>) -> Self {
        Self { body: Body::Combine { operation, status: Status::Good }, origin: 0, sequence, payload }
    }

    /// A broadcast.
    pub fn broadcast(origin: u32, sequence: u32, payload: Vec<u8>) -> Self {
        Self { body: Body::Broadcast, origin, sequence, payload }
    }

    /// Whether it goes up as it is.
    pub fn is_broadcast(&self) -> bool {
        self.body == Body::Broadcast
    }

    /// Bytes of the frame that it came in.
    pub fn frame_bytes(&self) -> usize {
        FRAME_BYTES + self.payload.len()
    }

    /// How the combination went so far.
    fn status(&self) -> Status {
        match self.body {
            Body::Combine { status, .. } => status,
            Body::Broadcast => Status::Good,
        }
    }

    /// There is no result, by the fault of `origin`. Of several faults, the first counts.
    fn spoil(&mut self, why: Status, by: u32) {
        if let Body::Combine { status: status @ Status::Good, .. } = &mut self.body {
            *status = why;
            self.origin = by;
            self.payload.clear();
        }
    }

    /// Combines `right` into this.
    fn take_in(&mut self, right: &Self) {
        if right.status() != Status::Good {
            self.spoil(right.status(), right.origin);
        }
        let (Body::Combine { operation, status: Status::Good }, Body::Combine { operation: other, .. }) =
            (&self.body, &right.body)
        else {
            return;
        };
        let (operation, like) = (*operation, operation == other && self.sequence == right.sequence);
        if !like || combine(operation, &mut self.payload, &right.payload).is_err() {
            self.spoil(Status::Mismatch, 0);
        }
    }
}

/// What an input has for the next combination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// Nobody contributes there.
    Unused,
    /// A packet.
    Ready,
    /// Nothing yet.
    Waiting,
    /// Nothing any more, since this node has left.
    Dead(u32),
}

/// Where packets leave a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// To the parent.
    Up,
    /// To the child on this side.
    Down(usize),
    /// To its node.
    Node,
}

impl Output {
    /// All of them, by index.
    pub const ALL: [Self; 2 + CHILDREN] = [Self::Up, Self::Down(0), Self::Down(1), Self::Node];

    /// Its place in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down(side) => 1 + side,
            Self::Node => 1 + CHILDREN,
        }
    }
}

impl RouteState {
    /// Without packets.
    pub fn new(generation: u8, owner: Option<u32>, tag: u32, role: Role) -> Self {
        Self {
            generation,
            role,
            owner,
            tag,
            top: false,
            children: [false; CHILDREN],
            contributors: [role.contributes, false, false],
            inputs: Default::default(),
            up: None,
            down: VecDeque::new(),
            ejection: VecDeque::new(),
            turn: 0,
        }
    }

    /// Packets in its queues.
    pub fn packets(&self) -> usize {
        let up = self.inputs.iter().map(VecDeque::len).sum::<usize>() + usize::from(self.up.is_some());
        up + self.down.len() + self.ejection.len()
    }

    /// Whether its next packet is to leave by `output`.
    pub fn wants(&self, output: Output) -> bool {
        match output {
            Output::Up => self.up.is_some(),
            _ => self.down.front().is_some_and(|(_, outputs)| outputs & 1 << output.index() != 0),
        }
    }

    /// Queues a packet for all that lies below.
    pub fn push_down(&mut self, packet: Arc<RoutedPacket>) {
        let goes = |output: &&Output| match output {
            Output::Up => false,
            Output::Down(side) => self.children[*side],
            Output::Node => self.role.receives,
        };
        let outputs = Output::ALL.iter().filter(goes).map(|output| 1 << output.index()).sum();
        if outputs != 0 {
            self.down.push_back((packet, outputs));
        }
    }

    /// A copy of the next packet, which leaves by `output`.
    pub fn copy_down(&mut self, output: Output) -> Option<Arc<RoutedPacket>> {
        let (packet, outputs) = self.down.front_mut()?;
        *outputs &= !(1 << output.index());
        if *outputs == 0 { self.down.pop_front().map(|(packet, _)| packet) } else { Some(Arc::clone(packet)) }
    }

    /// The input whose head is a broadcast, the one whose turn it is first.
    pub fn next_broadcast(&self) -> Option<usize> {
        let mut in_turn = (0..INPUTS).map(|i| (self.turn + i) % INPUTS);
        in_turn.find(|&input| self.inputs[input].front().is_some_and(RoutedPacket::is_broadcast))
    }

    /// Takes the broadcast at the head of `input`.
    pub fn take_broadcast(&mut self, input: usize) -> Option<RoutedPacket> {
        self.turn = (input + 1) % INPUTS;
        self.inputs[input].pop_front()
    }

    /// Takes the head of every input and makes one packet of them: own, left, right. `missing` is a node that has left
    /// and should have contributed.
    pub fn combine(&mut self, missing: Option<u32>) -> Option<RoutedPacket> {
        let mut heads = self.inputs.iter_mut().filter_map(VecDeque::pop_front);
        let mut packet = heads.next()?;
        for right in heads {
            packet.take_in(&right);
        }
        if let Some(missing) = missing {
            packet.spoil(Status::Dead, missing);
        }
        Some(packet)
    }
}

impl fmt::Display for RouteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [own, left, right] = self.inputs.each_ref().map(VecDeque::len);
        let (up, down, node) = (usize::from(self.up.is_some()), self.down.len(), self.ejection.len());
        write!(f, "own {own}, left {left}, right {right}, up {up}, down {down}, node {node}")
    }
}
