//! The routers and links of a torus as a pure, deterministic model: no time, no sockets (SPEC D-2, X-4).
//!
//! Each node has a router with one bounded input queue per link, one for injection, and one bounded
//! queue for ejection. A [`step`](Torus::step) moves at most one packet over each link and one into each
//! ejection queue; all moves of a step are chosen from the state at its beginning. Inputs that want the
//! same output take turns.
//!
//! # Why it cannot deadlock
//! Routes are dimension-ordered, so a packet in a ring (the links of one line of nodes in one direction)
//! waits only for that ring, for a ring of a higher dimension, or for an ejection queue.
//! - *Ejection* is free again as soon as the node reads.
//! - *A ring always keeps a free place.* Entering (from injection or another ring) needs two free places
//!   in the queue it enters, which gets no other packet in that step; staying in the ring does not change
//!   the number of packets in it. So either the ring is empty, or somewhere a packet has a free place
//!   right ahead. If it stays in the ring it moves; if it leaves, it waits for a higher dimension, which
//!   moves by induction: the highest only ejects. A line of a mesh has no cycle and needs no bubble.
//! - *No one starves.* Traffic that stays in a ring could take each place as it comes free. A router
//!   refused `REFUSALS` times queues for its ring's *reservation*; while it holds it, no other router
//!   enters the ring. Packets in the ring still move, leave after at most half a turn, and so two places
//!   come free, at the latest when the ring is empty.
//!
//! All packets of a pair take one path of first-in-first-out queues, so a pair stays in order. A link that is
//! down swallows what would cross it, which frees a place and takes none, so nothing above changes.

use super::traffic::Traffic;
use pami::topology::{Direction, MAX_DIMENSIONS, TorusCoord, TorusShape};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::{self, Write as _};

/// Links of a router.
pub const LINKS: usize = 2 * MAX_DIMENSIONS;
/// Index of the injection queue among a router's inputs, and of ejection among its outputs.
const LOCAL: usize = LINKS;
const PORTS: usize = LINKS + 1;
/// The least room of a queue: a bubble, and a packet that can enter beside it.
pub const LEAST_ROOM: usize = 2;

/// Steps in which a router is kept out of a ring before it asks for the ring's reservation.
const REFUSALS: u8 = 64;

/// A packet on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Rank of the node that injected it.
    pub origin: u32,
    /// Rank of the node it goes to.
    pub target: u32,
    /// Links crossed so far.
    pub hops: u32,
    /// Its number among those of its pair, for those who want to know it; 0 if nobody numbered it.
    pub number: u64,
    /// The frame, uninterpreted.
    pub frame: Vec<u8>,
}

impl Packet {
    /// A packet that has crossed no link and has no number. Both ranks lie in the torus it will be injected to.
    pub fn new(origin: u32, target: u32, frame: Vec<u8>) -> Self {
        Self { origin, target, hops: 0, number: 0, frame }
    }
}

/// What a router has counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Packets that left over each link, by [`Direction::index`].
    pub links: [Traffic; LINKS],
    /// Packets its node injected.
    pub injected: Traffic,
    /// Packets its node took.
    pub ejected: Traffic,
    /// Links crossed by the packets its node injected.
    pub hops: u64,
    /// Packets its node injected that were lost at a link that was down.
    pub cut: u64,
}

#[derive(Default)]
struct Router {
    /// Packets waiting, each with the output it wants; the index of a link's queue is the direction of travel.
    inputs: [VecDeque<(Packet, u8)>; PORTS],
    ejection: VecDeque<Packet>,
    /// Packets in `inputs`.
    waiting: usize,
    /// The input that is served next, per output.
    turn: [u8; PORTS],
    /// Steps since a packet was first kept out of the ring of each link.
    refused: [u8; PORTS],
    /// The links that are down, a bit each.
    down: u16,
    counters: Counters,
}

/// A chosen move: the head of one input of one router to one output.
struct Move {
    router: usize,
    input: usize,
    output: usize,
}

/// All routers of a torus.
pub struct Torus {
    shape: TorusShape,
    coords: Vec<TorusCoord>,
    /// Rank behind each link, `usize::MAX` where there is none.
    neighbours: Vec<[usize; LINKS]>,
    routers: Vec<Router>,
    /// Routers that wait to enter a ring, the holder of the reservation first; by the ring's number.
    reservations: Vec<VecDeque<usize>>,
    room: usize,
    steps: u64,
    moves: Vec<Move>,
    /// Routers with packets in their inputs.
    busy: BTreeSet<usize>,
    /// Nodes that can inject or take something that they could not before the last steps.
    changed: BTreeSet<u32>,
}

impl Torus {
    /// An empty torus whose queues have room for `room` packets each (at least [`LEAST_ROOM`]).
    pub fn new(shape: TorusShape, room: usize) -> Self {
        let nodes = shape.nodes() as usize;
        let coords: Vec<TorusCoord> = (0..shape.nodes()).filter_map(|rank| shape.coord(rank)).collect();
        let behind = |&coord: &TorusCoord| {
            std::array::from_fn(|link| {
                let next = shape.neighbour(coord, Direction::from_index(link));
                next.and_then(|next| shape.rank(next)).map_or(usize::MAX, |rank| rank as usize)
            })
        };
        Self {
            neighbours: coords.iter().map(behind).collect(),
            coords,
            shape,
            routers: (0..nodes).map(|_| Router::default()).collect(),
            reservations: (0..nodes * LINKS).map(|_| VecDeque::new()).collect(),
            room: room.max(LEAST_ROOM),
            steps: 0,
            moves: Vec::new(),
            busy: BTreeSet::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Whether `node` may inject a packet now.
    pub fn has_room(&self, node: u32) -> bool {
        self.routers.get(node as usize).is_some_and(|router| router.inputs[LOCAL].len() < self.room)
    }

    /// Takes a packet in at its origin.
    ///
    /// # Errors
    /// The packet itself, when the injection queue is full or one of its ranks lies outside the torus.
    pub fn inject(&mut self, packet: Packet) -> Result<(), Packet> {
        if !self.has_room(packet.origin) || packet.target >= self.shape.nodes() {
            return Err(packet);
        }
        let origin = packet.origin as usize;
        self.routers[origin].counters.injected += packet.frame.len();
        self.enqueue(origin, LOCAL, packet);
        Ok(())
    }

    /// Takes a packet in at its target: it crosses no link.
    ///
    /// # Errors
    /// The packet itself, when the target's injection queue is full or its rank lies outside the torus.
    pub fn deliver(&mut self, packet: Packet) -> Result<(), Packet> {
        if !self.has_room(packet.target) {
            return Err(packet);
        }
        self.enqueue(packet.target as usize, LOCAL, packet);
        Ok(())
    }

    /// The next packet for `node`.
    pub fn eject(&mut self, node: u32) -> Option<Packet> {
        let router = self.routers.get_mut(node as usize)?;
        let packet = router.ejection.pop_front()?;
        router.counters.ejected += packet.frame.len();
        Some(packet)
    }

    /// Takes a link of `node` down, or up again; nothing happens if there is no such node.
    pub fn set_down(&mut self, node: u32, link: Direction, down: bool) {
        if let Some(router) = self.routers.get_mut(node as usize) {
            let bit = 1 << link.index();
            router.down = if down { router.down | bit } else { router.down & !bit };
        }
    }

    /// Moves what can move by one place; returns how many packets moved, 0 if all are blocked or there are none.
    pub fn step(&mut self) -> usize {
        let mut moves = std::mem::take(&mut self.moves);
        moves.clear();
        let busy = std::mem::take(&mut self.busy);
        for &router in &busy {
            self.choose(router, &mut moves);
        }
        self.busy = busy;
        for chosen in &moves {
            self.carry_out(chosen);
        }
        let moved = moves.len();
        self.moves = moves;
        self.steps += u64::from(moved > 0);
        moved
    }

    /// The nodes for which the steps since the last call made room, or that have something to take of them.
    pub fn take_changed(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.changed)
    }

    /// Steps in which something moved.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// What each router has counted, by rank.
    pub fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.routers.iter().map(|router| &router.counters)
    }

    /// Packets in queues.
    pub fn in_flight(&self) -> usize {
        self.routers.iter().map(|router| router.waiting + router.ejection.len()).sum()
    }

    /// Writes one line on `node`'s occupied queues, such as `injection 8/8, +x 3/8 (next +y), ejection 8/8`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn describe(&self, node: u32, out: &mut String) -> fmt::Result {
        let Some(router) = self.routers.get(node as usize) else { return Ok(()) };
        let start = out.len();
        let separator = |out: &String| if out.len() > start { ", " } else { "" };
        for (input, queue) in router.inputs.iter().enumerate() {
            let Some((head, next)) = queue.front() else { continue };
            write!(out, "{}{} {}/{}", separator(out), PortName(input, "injection"), queue.len(), self.room)?;
            write!(out, " (head to node {} over {})", head.target, PortName(usize::from(*next), "ejection"))?;
        }
        if !router.ejection.is_empty() {
            write!(out, "{}ejection {}/{}", separator(out), router.ejection.len(), self.room)?;
        }
        if out.len() == start {
            write!(out, "empty")?;
        }
        Ok(())
    }

    /// Chooses this step's packet for each output of one router.
    fn choose(&mut self, router: usize, moves: &mut Vec<Move>) {
        let mut wanted = [0u16; PORTS];
        for (input, queue) in self.routers[router].inputs.iter().enumerate() {
            if let Some(&(_, output)) = queue.front() {
                wanted[usize::from(output)] |= 1 << input;
            }
        }
        for (output, &inputs) in wanted.iter().enumerate().filter(|(_, inputs)| **inputs != 0) {
            if let Some(input) = self.arbitrate(router, output, inputs) {
                moves.push(Move { router, input, output });
            }
        }
    }

    /// The input, of those in the set `inputs`, that may use `output` in this step.
    fn arbitrate(&mut self, router: usize, output: usize, inputs: u16) -> Option<usize> {
        let turn = usize::from(self.routers[router].turn[output]);
        let mut in_turn = (0..PORTS).map(|i| (turn + i) % PORTS).filter(|input| inputs & (1 << input) != 0);
        if output == LOCAL {
            return if self.routers[router].ejection.len() < self.room { in_turn.next() } else { None };
        }
        let next = self.neighbours[router][output];
        let free = self.room - self.routers[next].inputs[output].len();
        if !self.shape.wraps(output / 2) {
            return if free > 0 { in_turn.next() } else { None };
        }
        let entering = inputs & !(1 << output) != 0;
        let ring = self.ring(router, output);
        let holder = self.reservations[ring].front();
        let may_enter = free >= 2 && holder.is_none_or(|&holder| holder == router);
        if entering && !may_enter {
            let refused = &mut self.routers[router].refused[output];
            if *refused == REFUSALS {
                self.reservations[ring].push_back(router);
            }
            // One beyond: in the queue.
            *refused = (*refused + 1).min(REFUSALS + 1);
        }
        in_turn.find(|&input| if input == output { free >= 1 } else { may_enter })
    }

    /// Number of the ring that a link belongs to: that of the link at the ring's first node.
    fn ring(&self, router: usize, output: usize) -> usize {
        let mut first = self.coords[router];
        first.0[output / 2] = 0;
        self.shape.rank(first).map_or(router, |rank| rank as usize) * LINKS + output
    }

    fn carry_out(&mut self, &Move { router, input, output }: &Move) {
        let from = &mut self.routers[router];
        let Some((packet, _)) = from.inputs[input].pop_front() else { return };
        from.waiting -= 1;
        if from.waiting == 0 {
            self.busy.remove(&router);
        }
        if input == LOCAL || output == LOCAL {
            self.changed.insert(router as u32);
        }
        from.turn[output] = ((input + 1) % PORTS) as u8;
        if output == LOCAL {
            from.ejection.push_back(packet);
        } else {
            if input != output && std::mem::take(&mut from.refused[output]) > REFUSALS {
                let ring = self.ring(router, output);
                self.reservations[ring].retain(|&waiting| waiting != router);
            }
            self.cross(router, output, packet);
        }
    }

    /// One packet crosses one link, or is lost at it.
    fn cross(&mut self, router: usize, link: usize, mut packet: Packet) {
        if self.routers[router].down & 1 << link != 0 {
            self.routers[packet.origin as usize].counters.cut += 1;
            return;
        }
        self.routers[router].counters.links[link] += packet.frame.len();
        self.routers[packet.origin as usize].counters.hops += 1;
        packet.hops += 1;
        let next = self.neighbours[router][link];
        self.enqueue(next, link, packet);
    }

    fn enqueue(&mut self, router: usize, input: usize, packet: Packet) {
        let hop = self.shape.next_hop(self.coords[router], self.coords[packet.target as usize]);
        let output = hop.map_or(LOCAL, Direction::index) as u8;
        self.routers[router].inputs[input].push_back((packet, output));
        self.routers[router].waiting += 1;
        self.busy.insert(router);
    }
}

/// A port's name: a direction, or what the local port is called.
struct PortName(usize, &'static str);

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == LOCAL { f.write_str(self.1) } else { Direction::from_index(self.0).fmt(f) }
    }
}

#[cfg(test)]
#[path = "torus_tests.rs"]
mod tests;
