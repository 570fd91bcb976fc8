//! A few nodes on one bad wire, and what their contexts do to each other's memory.

use super::actor::{Actor, Expected, Push, SIGNALLED, UNTOUCHED, content, name, signal_place};
use super::faults;
use crate::reliable::tests::dice::Dice;
use crate::reliable::tests::nodes::{
    ACTORS, CONTEXTS, LIMIT_NS, NODES, Port, Unit, endpoint, mended, units, wait_for_wire,
};
use crate::reliable::tests::wire::Wire;
use crate::reliable::tests::{elapse, now};
use crate::unit::Sharing;
use crate::unit::tests::{bytes, shared};
use pami::device::Port as _;
use pami::device::RemoteMemory;
use pami::endpoint::ClientId;
use pami::layout::Segment;
use pami::packet::Kind;
use pami::region::{Memory, RegionFault, RegionId, Rights, RmwOp};
use rings::shared::{Shared, Update, Width};
use std::collections::BTreeSet;
use std::vec::Vec;
use zerocopy::IntoBytes;

/// Bytes of each context's share of a board, and of what can only be read.
const STRIPE: usize = 512;
const SOURCE: usize = 6000;

/// What a node lets the others reach.
struct Exposed {
    /// A stripe for each context to put into, and what it has to hold.
    board: (RegionId, Shared),
    written: Vec<u8>,
    /// A word that all count with.
    counter: (RegionId, Shared),
    /// What signals tell of.
    signalled: (RegionId, Shared),
    /// The same bytes, in memory that may change and lent.
    source: Vec<u8>,
    readable: [RegionId; 2],
    /// Memory that can be read, until it is taken away at some time.
    passing: Option<(RegionId, Shared)>,
}

pub struct World {
    wire: Wire,
    units: Vec<&'static Unit>,
    actors: Vec<Actor>,
    exposed: Vec<Exposed>,
    /// By node: the tickets that were given out for its counter.
    tickets: Vec<BTreeSet<u64>>,
    /// What had to be mended so far.
    mended: u64,
}

fn expose(port: &mut Port, node: usize) -> Exposed {
    let mut region = |bytes: &[u8], rights| {
        let memory = shared(bytes);
        (port.register(Memory::Shared(memory.clone()), rights).unwrap(), memory)
    };
    let source: Vec<u8> = (0..SOURCE).map(|i| (i * 7 + i / 256 + node * 91) as u8).collect();
    let lent: &'static [u8] = source.clone().leak();
    Exposed {
        board: region(&[0; STRIPE * ACTORS], Rights::WRITE | Rights::READ),
        written: std::vec![0; STRIPE * ACTORS],
        counter: region(&[0; 8], Rights::UPDATE),
        signalled: region(&[0; SIGNALLED * ACTORS * CONTEXTS], Rights::WRITE),
        readable: [
            region(&source, Rights::READ).0,
            port.register(Memory::Lent(lent.into()), Rights::READ).unwrap(),
        ],
        source,
        passing: None,
    }
}

impl World {
    pub fn new() -> Self {
        let (wire, units) = units();
        let mut actors: Vec<Actor> = (0..ACTORS)
            .map(|actor| {
                let (node, context) = (actor / CONTEXTS, (actor % CONTEXTS) as u8);
                // The contexts of the last node share an injection FIFO.
                let sharing = if node + 1 == NODES { Sharing::Shared } else { Sharing::Exclusive };
                let port = units[node].open(ClientId(0), 0, context, sharing).unwrap();
                Actor::new(port, endpoint(actor), ACTORS, NODES)
            })
            .collect();
        let exposed: Vec<_> =
            (0..NODES).map(|node| expose(&mut actors[node * CONTEXTS].port, node)).collect();
        for (at, actor) in actors.iter_mut().enumerate() {
            actor.words = Some(exposed[at / CONTEXTS].signalled.1.clone());
        }
        let tickets = (0..NODES).map(|_| BTreeSet::new()).collect();
        Self { wire, units, actors, exposed, tickets, mended: 0 }
    }

    /// One seed's wire and work. Returns how much had to be mended.
    pub fn run(&mut self, seed: u64) -> u64 {
        let mut dice = Dice::new(seed);
        self.wire.turn(seed, faults(&mut dice));
        let mut orders = 5 + dice.below(150);
        // It takes nothing for long, if there is one.
        let lazy = dice.below(3 * ACTORS as u64) as usize;
        let end = now() + LIMIT_NS;
        while orders > 0 || !self.is_idle() {
            assert!(now() < end, "not done in time");
            for _ in 0..dice.below(8).min(orders) {
                orders -= 1;
                self.order(&mut dice);
            }
            let moved = self.round(lazy, &mut dice);

            if moved || dice.per_mille(500) {
                elapse(1_000 + dice.below(20_000));
            } else {
                wait_for_wire(&self.wire);
            }
        }
        self.check();
        let before = self.mended;
        self.mended = mended(&self.units);
        self.mended - before
    }

    fn round(&mut self, lazy: usize, dice: &mut Dice) -> bool {
        let mut moved = false;
        let start = dice.below(ACTORS as u64) as usize;
        for step in 0..ACTORS {
            let at = (start + step) % ACTORS;
            let actor = &mut self.actors[at];
            if dice.per_mille(700) {
                moved |= actor.port.progress();
            }
            if dice.per_mille(if at == lazy { 2 } else { 700 }) {
                moved |= actor.step(&mut self.tickets);
            }
        }
        if dice.per_mille(20) {
            self.withdraw(dice.below(NODES as u64) as usize);
        }
        moved
    }

    /// Takes a passing region away. Nobody may use it from then on.
    fn withdraw(&mut self, node: usize) {
        if let Some((region, memory)) = self.exposed[node].passing.take() {
            self.actors[node * CONTEXTS].port.deregister(region);
            assert!(memory.reclaim().is_ok(), "somebody is still at the region");
        }
    }

    fn is_idle(&self) -> bool {
        let arrived = |(from, actor): (usize, &Actor)| {
            (0..ACTORS).all(|to| {
                let peer = &self.actors[to];
                (peer.received[from], peer.signalled[from]) == (actor.sent[to], actor.signals[to])
            })
        };
        self.actors.iter().all(Actor::is_idle) && self.actors.iter().enumerate().all(arrived)
    }

    /// Compares all memory with what was put there.
    fn check(&self) {
        for (node, unit) in self.units.iter().enumerate() {
            let exposed = &self.exposed[node];
            assert!(bytes(&exposed.board.1) == exposed.written, "the board of node {node}");
            let count = exposed.counter.1.update(0, Width::Eight, Update::Add(0)).unwrap();
            assert!(self.tickets[node].iter().copied().eq(0..count), "the tickets of node {node}");
            let statistics = unit.statistics();
            assert_eq!(statistics.dropped.total(), 0, "{statistics:?}");
        }
    }

    /// Has a context do something to a node, which may be its own.
    fn order(&mut self, dice: &mut Dice) {
        let (from, to) = (dice.below(ACTORS as u64) as usize, dice.below(ACTORS as u64) as usize);
        let node = to / CONTEXTS;
        match dice.below(12) {
            10 | 11 => self.signal(from, to, node),
            0 | 1 => self.send(from, to),
            2 | 3 => self.put(from, to, node, dice),
            4..=6 => self.get(from, to, node, dice),
            7 => self.count(from, to, node),
            8 => self.nothing(from, to, node),
            _ => self.fault(from, to, node, dice),
        }
    }

    fn send(&mut self, from: usize, to: usize) {
        let number = self.actors[from].sent[to];
        self.actors[from].sent[to] += 1;
        let data = content(endpoint(from), endpoint(to), number);
        let envelope = self.actors[from].envelope(Kind::EagerFirst, endpoint(to), number, 0, data.len());
        self.push(from, to, Push::Copy(envelope, Vec::new(), data));
    }

    fn push(&mut self, from: usize, to: usize, push: Push) {
        self.actors[from].pushes.push_back(((to / CONTEXTS) as u32, push));
    }

    fn signal(&mut self, from: usize, to: usize, node: usize) {
        let number = self.actors[from].signals[to];
        self.actors[from].signals[to] += 1;
        let (region, at) = (self.exposed[node].signalled.0, signal_place(from, to) as u32);
        let header = [name(region), u64::from(number).to_le_bytes().to_vec()].concat();
        let data = number.to_le_bytes().repeat(SIGNALLED / 4);
        let envelope = self.actors[from].envelope(Kind::PutSignal, endpoint(to), number, at, data.len());
        self.push(from, to, Push::Copy(envelope, header, data));
    }

    /// Puts into the context's own stripe: in one piece, or scattered.
    fn put(&mut self, from: usize, to: usize, node: usize, dice: &mut Dice) {
        if self.actors[from].reads[node] > 0 {
            return;
        }
        let packets = 1 + dice.below(3);
        // One that is out of bounds: the others count all the same, but the message has failed.
        let torn = if dice.per_mille(200) { dice.below(packets) } else { 0 };
        let expected = if torn > 0 { Expected::Fault(RegionFault::Bounds) } else { Expected::Nothing };
        let Some(message) = self.actors[from].expect(node as u32, expected) else { return };
        let region = self.exposed[node].board.0;
        for packet in 1..=packets {
            let kind = if packet == packets { Kind::PutLast } else { Kind::Put };
            let len = dice.below(200) as usize;
            let start = from * STRIPE + dice.below((STRIPE - len) as u64 + 1) as usize;
            let data: Vec<u8> = (0..len).map(|_| dice.next() as u8).collect();
            let mut header = name(region);
            if packet == torn {
                let outside = (STRIPE * ACTORS) as u32 + 1;
                let mut envelope = self.actors[from].envelope(kind, endpoint(to), message, outside, len);
                envelope.dispatch = u8::from(kind == Kind::Put);
                self.push(from, to, Push::Copy(envelope, header, data));
                continue;
            }
            if dice.per_mille(500) {
                self.exposed[node].written[start..start + len].copy_from_slice(&data);
            } else {
                // Up to three runs, which may meet or overlap.
                let mut rest = &data[..];
                for run in 0..3 {
                    let len = if run == 2 { rest.len() } else { dice.below(rest.len() as u64 + 1) as usize };
                    let at = from * STRIPE + dice.below((STRIPE - len) as u64 + 1) as usize;
                    header
                        .extend(Segment { offset: (at as u32).into(), len: (len as u32).into() }.as_bytes());
                    self.exposed[node].written[at..at + len].copy_from_slice(&rest[..len]);
                    rest = &rest[len..];
                }
            }
            let envelope = self.actors[from].envelope(kind, endpoint(to), message, start as u32, len);
            let push = match dice.below(3) {
                0 => Push::Copy(envelope, header, data),
                1 => Push::Filled(envelope, header, data),
                _ => Push::Lent(envelope, header, (&*data.leak()).into()),
            };
            self.push(from, to, push);
        }
    }

    /// Gets from what can be read: one piece or some, to memory or to the reception FIFO.
    fn get(&mut self, from: usize, to: usize, node: usize, dice: &mut Dice) {
        let which = dice.below(4);
        let exposed = &mut self.exposed[node];
        let (region, source) = match which {
            0 | 1 => (exposed.readable[which as usize], exposed.source.clone()),
            2 => (exposed.board.0, exposed.written.clone()),
            _ => {
                let source = exposed.source.clone();
                let owner = &mut self.actors[node * CONTEXTS].port;
                let passing = exposed.passing.get_or_insert_with(|| {
                    let memory = shared(&source);
                    (owner.register(Memory::Shared(memory.clone()), Rights::READ).unwrap(), memory)
                });
                (passing.0, source)
            }
        };
        // Of a board, only what no other context changes.
        let (first, end) = if which == 2 { (from * STRIPE, (from + 1) * STRIPE) } else { (0, SOURCE) };
        let most = if dice.per_mille(300) { end - first } else { 64 };
        let piece = |dice: &mut Dice| {
            let len = dice.below(most as u64 + 1) as usize;
            (first + dice.below((end - first - len) as u64 + 1) as usize, len)
        };
        if which < 2 && dice.per_mille(200) {
            let (start, len) = piece(dice);
            let content = source[start..start + len.max(1)].to_vec();
            let total = content.len();
            let Some(message) =
                self.actors[from].expect(node as u32, Expected::Parts { content, received: 0 })
            else {
                return;
            };
            let envelope = self.actors[from].envelope(Kind::Get, endpoint(to), message, start as u32, total);
            return self.push(from, to, Push::Get(envelope, region, None, true));
        }
        let pieces: Vec<_> = (0..1 + dice.below(4)).map(|_| piece(dice)).collect();
        let mut place = dice.below(20) as usize;
        let mut at = Vec::new();
        for &(_, len) in &pieces {
            at.push((place, len));
            place += len + dice.below(12) as usize;
        }
        let into = shared(&std::vec![UNTOUCHED; place]);
        let content = pieces.iter().flat_map(|&(start, len)| source[start..start + len].to_vec()).collect();
        // One piece that is too long spoils all.
        let spoilt = (which < 3 && dice.per_mille(100)).then(|| dice.below(pieces.len() as u64) as usize);
        let expected = if spoilt.is_some() {
            Expected::Fault(RegionFault::Bounds)
        } else {
            Expected::Data { into: into.clone(), at: at.clone(), content, may_go: which == 3 }
        };
        let Some(message) = self.actors[from].expect(node as u32, expected) else { return };
        self.actors[from].reads[node] += u32::from(spoilt.is_none());
        for (number, (&(start, len), &(place, _))) in pieces.iter().zip(&at).enumerate() {
            let last = number + 1 == pieces.len();
            let len = if spoilt == Some(number) { source.len() + 1 } else { len };
            let envelope = self.actors[from].envelope(Kind::Get, endpoint(to), message, start as u32, len);
            self.push(from, to, Push::Get(envelope, region, Some((into.clone(), place as u32)), last));
        }
    }

    fn count(&mut self, from: usize, to: usize, node: usize) {
        let Some(message) = self.actors[from].expect(node as u32, Expected::Ticket(node)) else { return };
        let op = RmwOp { width: Width::Eight, update: Update::Add(1) };
        self.update(from, to, message, self.exposed[node].counter.0, op);
    }

    fn update(&mut self, from: usize, to: usize, message: u32, region: RegionId, op: RmwOp) {
        let (dispatch, operands) = op.encode();
        let mut envelope = self.actors[from].envelope(Kind::Rmw, endpoint(to), message, 0, 0);
        envelope.dispatch = dispatch;
        self.push(from, to, Push::Copy(envelope, name(region), operands.as_bytes().to_vec()));
    }

    fn nothing(&mut self, from: usize, to: usize, node: usize) {
        let Some(message) = self.actors[from].expect(node as u32, Expected::Nothing) else { return };
        let envelope = self.actors[from].envelope(Kind::Get, endpoint(to), message, 0, 0);
        self.push(from, to, Push::Get(envelope, RegionId::NONE, None, true));
    }

    /// Does what the region's owner does not allow, or what cannot be.
    fn fault(&mut self, from: usize, to: usize, node: usize, dice: &mut Dice) {
        let exposed = &self.exposed[node];
        let stale = RegionId { generation: 999_999.into(), ..exposed.board.0 };
        let (region, fault) = match dice.below(4) {
            0 => (stale, RegionFault::Stale),
            1 => (exposed.counter.0, RegionFault::Rights),
            _ => (exposed.board.0, RegionFault::Bounds),
        };
        let Some(message) = self.actors[from].expect(node as u32, Expected::Fault(fault)) else { return };
        let end = (STRIPE * ACTORS) as u32;
        let offset = if dice.per_mille(500) { end - 10 } else { u32::MAX - 3 };
        if dice.per_mille(500) {
            let envelope = self.actors[from].envelope(Kind::PutLast, endpoint(to), message, offset, 20);
            self.push(from, to, Push::Copy(envelope, name(region), std::vec![0xbb; 20]));
        } else {
            let envelope = self.actors[from].envelope(Kind::Get, endpoint(to), message, offset, 20);
            let into = shared(&[0; 20]);
            self.push(from, to, Push::Get(envelope, region, Some((into, 0)), true));
        }
    }
}
