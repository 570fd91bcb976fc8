//! Nodes that send each other numbered packets through reliable layers and check what arrives.

use super::dice::Dice;
use super::wire::{Faults, Lossy, Memory, Wire};
use super::{Virtual, elapse, exempt, now};
use crate::adapter::{Adapter, IN_FLIGHT, Lent, Outcome, ReliableAdapter, RxBuffer};
use crate::reliable::{LINK_BYTES, Reliable};
use std::vec::Vec;

pub const MTU: usize = 160;
pub const BUFFERS: usize = 64;

/// A packet that is not sent yet.
#[derive(Clone, Copy)]
pub struct Order {
    pub to: u32,
    pub len: usize,
}

pub struct Node {
    pub link: Reliable<Lossy, Virtual>,
    rank: u32,
    cookies: Vec<u16>,
    /// By cookie. No boxes, which when moved would claim bytes that are lent.
    in_flight: Vec<Option<Vec<u8>>>,
    pub orders: std::collections::VecDeque<Order>,
    /// By peer: packets sent, packets received.
    sent: Vec<u32>,
    pub received: Vec<u32>,
    pub failed: u32,
    pub refused: u32,
    pub dead: Vec<u32>,
    /// Buffers that the application has, and whether it gives them back.
    pub kept: Vec<RxBuffer>,
    pub stalled: bool,
    /// Packets that it takes in a round.
    pub burst: usize,
}

pub struct Bench {
    pub nodes: Vec<Node>,
    pub wire: Wire,
    dice: Dice,
    // Last: the nodes use it.
    _memory: Memory,
}

/// The bytes of packet `number` from one node to another.
fn content(from: u32, to: u32, number: u32, len: usize) -> impl Iterator<Item = u8> {
    let start = from.wrapping_mul(7919) ^ to.wrapping_mul(104_729) ^ number.wrapping_mul(2_654_435_761);
    let words = number.to_le_bytes().into_iter();
    words.chain((4..).map(move |i| (start >> 13) as u8 ^ (i as u8).wrapping_mul(31) ^ start as u8)).take(len)
}

impl Node {
    /// One round, as the engine has it. Returns whether anything moved.
    fn pass(&mut self, dice: &mut Dice) -> bool {
        let mut moved = false;
        while let Some((cookie, outcome)) = self.link.reclaim() {
            let mut bytes = self.in_flight[usize::from(cookie)].take().expect("a cookie comes back once");
            // Who still reads it sends something else.
            bytes.fill(0xee);
            exempt(|| drop(bytes));
            self.failed += u32::from(outcome == Outcome::Failed);
            self.cookies.push(cookie);
            moved = true;
        }
        moved |= self.send(dice);
        if self.link.wants_room() {
            self.link.make_room(|_| false);
        }
        self.link.flush();
        // Now and then it has no time for all.
        let burst = if dice.per_mille(100) { self.burst.min(dice.below(8) as usize) } else { self.burst };
        for _ in 0..burst {
            let Some(buffer) = self.link.receive() else { break };
            self.check(&buffer);
            self.kept.push(buffer);
            moved = true;
        }
        while !self.stalled && !self.kept.is_empty() && !dice.per_mille(300) {
            let buffer = self.kept.remove(0);
            self.link.recycle(buffer);
        }
        self.link.flush();
        moved
    }

    fn send(&mut self, dice: &mut Dice) -> bool {
        let mut moved = false;
        while let Some(&Order { to, len }) = self.orders.front() {
            if self.cookies.is_empty() || !self.link.has_room() || !self.link.has_room_for(to) {
                break;
            }
            self.orders.pop_front();
            moved = true;
            let cookie = self.cookies.pop().unwrap();
            let number = self.sent[to as usize];
            let bytes: Vec<u8> = exempt(|| content(self.rank, to, number, len).collect());
            // Header, inline and two lent pieces, any of them empty.
            let [header, inline] = [32, 24].map(|most| dice.below(most) as usize);
            let (header, rest) = bytes.split_at(header.min(len));
            let (inline, rest) = rest.split_at(inline.min(rest.len()));
            let (first, second) = rest.split_at(dice.below(rest.len() as u64 + 1) as usize);
            let lent = [Lent::new(first), Lent::new(second)];
            // SAFETY: the bytes stay in `in_flight` until the cookie comes back, and the cookie is free.
            if unsafe { self.link.transmit(to, header, inline, lent, cookie) } {
                self.sent[to as usize] += 1;
                self.in_flight[usize::from(cookie)] = Some(bytes);
            } else {
                assert!(self.dead.contains(&to), "refused though node {to} lives");
                self.refused += 1;
                self.cookies.push(cookie);
            }
        }
        moved
    }

    fn check(&mut self, buffer: &RxBuffer) {
        let (from, packet) = (buffer.source(), buffer.packet());
        let number = self.received[from as usize];
        assert!(
            content(from, self.rank, number, packet.len()).eq(packet.iter().copied()),
            "node {} wants packet {number} of node {from} and has {packet:?}",
            self.rank
        );
        self.received[from as usize] += 1;
    }

    /// Node `node` is gone, as the network says.
    pub fn node_died(&mut self, node: u32) {
        self.dead.push(node);
        self.link.node_died(node);
    }

    /// Whether the node has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.orders.is_empty() && self.cookies.len() == IN_FLIGHT && (self.stalled || self.kept.is_empty())
    }
}

impl Bench {
    pub fn new(nodes: usize, seed: u64, faults: Faults) -> Self {
        Self::with_peers(nodes, 1000, seed, faults)
    }

    /// The same, whose nodes have at most `peers` peers at once.
    pub fn with_peers(nodes: usize, peers: u32, seed: u64, faults: Faults) -> Self {
        let wire = Wire::new(nodes, seed, faults);
        let mut memory = Memory::new();
        let node = |rank| {
            let device = Lossy::new(&wire, &mut memory, rank, MTU, BUFFERS);
            Node {
                link: Reliable::with_peers(device, rank, nodes as u32, peers),
                rank,
                cookies: (0..IN_FLIGHT as u16).collect(),
                in_flight: (0..IN_FLIGHT).map(|_| None).collect(),
                orders: std::collections::VecDeque::with_capacity(4096),
                sent: std::vec![0; nodes],
                received: std::vec![0; nodes],
                failed: 0,
                refused: 0,
                dead: Vec::with_capacity(nodes),
                kept: Vec::with_capacity(BUFFERS),
                stalled: false,
                burst: usize::MAX,
            }
        };
        let nodes = (0..nodes as u32).map(node).collect();
        Self { nodes, wire, dice: Dice::new(!seed), _memory: memory }
    }

    /// The same on a network without a fabric; all nodes are up.
    pub fn without_fabric(self) -> Self {
        let change = |node: Node| {
            let mut link = node.link.without_fabric();
            link.admit();
            Node { link, ..node }
        };
        Self { nodes: self.nodes.into_iter().map(change).collect(), ..self }
    }

    /// Has a node send `count` packets.
    pub fn order(&mut self, from: u32, to: u32, count: usize) {
        for _ in 0..count {
            // Room for the number; the rest anything.
            let len = 4 + self.dice.below((MTU - LINK_BYTES - 4) as u64 + 1) as usize;
            self.nodes[from as usize].orders.push_back(Order { to, len });
        }
    }

    /// One round of each node of `running`. Returns whether anything moved.
    pub fn round(&mut self, running: impl Fn(u32) -> bool) -> bool {
        let mut moved = false;
        let start = self.dice.below(self.nodes.len() as u64) as usize;
        for step in 0..self.nodes.len() {
            let rank = (start + step) % self.nodes.len();
            if running(rank as u32) {
                moved |= self.nodes[rank].pass(&mut self.dice);
            }
        }
        moved
    }

    /// Lets time pass until something is to be done.
    pub fn elapse(&mut self, running: impl Fn(u32) -> bool, moved: bool) {
        if moved || self.dice.per_mille(500) {
            return elapse(1_000 + self.dice.below(20_000));
        }
        let mut until = self.wire.network().next_arrival().unwrap_or(u64::MAX);
        for (rank, node) in (0..).zip(&mut self.nodes) {
            if running(rank) {
                node.link.settle();
                if node.link.arm(true) {
                    until = 0;
                }
                until = until.min(node.link.deadline().unwrap_or(u64::MAX));
            }
        }
        elapse(until.saturating_sub(now()).clamp(1_000, 20_000_000));
    }

    /// Runs all nodes until `done`, at most `limit` nanoseconds.
    pub fn run_until(&mut self, limit: u64, mut done: impl FnMut(&Self) -> bool) {
        let end = now() + limit;
        while !done(self) {
            assert!(now() < end, "not done after {limit} ns: {:?}", self.state());
            let moved = self.round(|_| true);
            self.elapse(|_| true, moved);
        }
    }

    fn state(&self) -> Vec<std::string::String> {
        let state = |node: &Node| {
            let (orders, flights) = (node.orders.len(), IN_FLIGHT - node.cookies.len());
            std::format!("{orders} orders, {flights} in flight, {:?}", node.link.faults().reliability)
        };
        self.nodes.iter().map(state).collect()
    }

    /// Runs until all that was ordered has arrived and is known to have.
    pub fn run(&mut self, limit: u64) {
        self.run_until(limit, |bench| bench.nodes.iter().all(Node::is_idle));
        for from in 0..self.nodes.len() {
            for to in 0..self.nodes.len() {
                assert_eq!(self.nodes[from].sent[to], self.nodes[to].received[from], "{from} to {to}");
            }
        }
    }

    pub fn overflows(&self) -> u64 {
        self.wire.network().overflows
    }
}
