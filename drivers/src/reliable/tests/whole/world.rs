//! The nodes, and what their contexts do to each other.

use super::book::Book;
use super::node::{Port, TestNode, Unit};
use super::orders::DATA;
use super::{ACTORS, CONTEXTS, NODES, SIGNALS, SWITCH, UNEXPECTED, leak};
use crate::reliable::tests::dice::Dice;
use crate::reliable::tests::nodes::{LIMIT_NS, mended, units, wait_for_wire};
use crate::reliable::tests::random::faults;
use crate::reliable::tests::wire::Wire;
use crate::reliable::tests::{elapse, now};
use pami::client::Sharing;
use pami::device::Gone;
use pami::packet::DEFERRING;
use pami::{
    Active, Client, ClientBuilder, Context, Message, Pools, Receive, Region, RegionHandle, Rights, Shared,
};
use std::vec::Vec;

/// How long after a node's death the network tells.
const NOTICE_NS: u64 = 50_000_000;
/// A region is a word to count with, then bytes that never change, then a stripe for each context to put into.
pub const COUNTER: usize = 64;
pub const SOURCE: usize = 1024;
pub const STRIPE: usize = 512;
pub const REGION: usize = COUNTER + SOURCE + ACTORS * STRIPE;
/// What memory holds that nothing was placed in.
pub const UNTOUCHED: u8 = 0xa5;

/// What happens besides the wires' faults.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// The last node dies at some moment of the first run.
    Death,
    /// The last node sends packets that no honest one does.
    Garbage,
}

/// A get under way, and what its memory is to hold then.
pub struct Reading {
    pub number: u64,
    pub into: Shared,
    pub content: Vec<u8>,
}

pub struct World {
    pub(super) wire: Wire,
    pub(super) units: Vec<&'static Unit>,
    pub(super) clients: Vec<Client<TestNode>>,
    pub(super) contexts: Vec<Context<Port>>,
    pub(super) regions: Vec<Region>,
    /// By node: one that allows nothing, and one of the bytes that never change, until it is taken away at some time.
    pub(super) sealed: Vec<Region>,
    pub(super) passing: Vec<Option<Region>>,
    /// What is put, in memory in shared use.
    pub(super) data: Shared,
    /// What the stripes have to hold, by node.
    pub(super) stripes: Vec<Vec<u8>>,
    /// Puts under way into each stripe.
    pub(super) writing: Vec<(usize, u64)>,
    pub(super) readings: Vec<Reading>,
    pub(super) book: Book,
    pub(super) trouble: Trouble,
    /// A context that advances rarely, if there is one.
    lazy: usize,
    pub(super) operations: u64,
    /// By origin and target.
    pub(super) sent: [[u32; ACTORS]; ACTORS],
    pub(super) mended: u64,
}

pub fn source(node: usize) -> impl Iterator<Item = u8> {
    (0..SOURCE).map(move |at| (at * 7 + at / 256 + node * 91) as u8)
}

impl World {
    pub fn new(trouble: Trouble) -> Self {
        Self::with(trouble, Pools { unexpected: UNEXPECTED, ..Pools::LARGE })
    }

    /// With these pools of each context.
    pub fn with(trouble: Trouble, pools: Pools) -> Self {
        let (wire, units) = units();
        let book = Book::new(NODES);
        book.notes().hostile = (trouble == Trouble::Garbage).then_some(NODES as u32 - 1);
        let later =
            leak(move |active: &mut Active<Port>, message: &Message<'_>| book.handle(active, message));
        let handler = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
            // Only a hostile origin sends here what may be wanted later.
            book.handle(active, message).unwrap_or(Receive::Done)
        });
        let signals = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
            book.signal(active, message);
            Receive::Done
        });
        let (mut clients, mut contexts, mut regions) = (Vec::new(), Vec::new(), Vec::new());
        let mut sealed = Vec::new();
        for (task, unit) in (0..).zip(&units) {
            let node = leak(TestNode { unit, task, tasks: NODES as u32, contexts: CONTEXTS as u8 });
            // The last node's contexts share an injection FIFO and use no shared memory.
            let last = task as usize + 1 == NODES;
            let builder = ClientBuilder::new(node, "test").contexts(CONTEXTS as u8).dispatch(0, handler);
            let builder = builder.dispatch(SIGNALS, signals);
            let builder = builder
                .dispatch_deferring(DEFERRING, later)
                .rendezvous_from(SWITCH)
                .pools(pools)
                .local_paths(!last);
            let sharing = if last { Sharing::Shared } else { Sharing::Exclusive };
            let mut client = builder.sharing(sharing).create().unwrap();
            for offset in 0..CONTEXTS as u8 {
                let memory = client.context_memory().unwrap();
                contexts.push(client.create_context(offset, memory).ok().unwrap());
            }
            clients.push(client);
            let node = task as usize;
            let memory = std::vec![0; REGION + 256].leak();
            let mut buffer = pami::Buffer::new(memory).unwrap();
            for (place, byte) in buffer.as_mut_slice()[COUNTER..].iter_mut().zip(source(node)) {
                *place = byte;
            }
            let mut register =
                |buffer, rights| contexts[node * CONTEXTS].register(buffer, rights).ok().unwrap();
            regions.push(register(buffer, Rights::all()));
            sealed.push(register(book.notes().buffer(), Rights::empty()));
        }
        let mut data = book.notes().buffer();
        data.as_mut_slice()[..DATA.len()].copy_from_slice(&DATA);
        book.notes().memories = regions.iter().map(|region| region.memory().clone()).collect();
        Self {
            wire,
            units,
            clients,
            contexts,
            regions,
            sealed,
            passing: (0..NODES).map(|_| None).collect(),
            data: data.share(),
            stripes: std::vec![std::vec![0; ACTORS * STRIPE]; NODES],
            writing: Vec::new(),
            readings: Vec::new(),
            book,
            trouble,
            lazy: ACTORS,
            operations: 0,
            sent: Default::default(),
            mended: 0,
        }
    }

    /// One seed's wire and work. Returns how much had to be mended.
    pub fn run(&mut self, seed: u64) -> u64 {
        let mut dice = Dice::new(seed);
        self.wire.turn(seed, faults(&mut dice));
        let mut orders = 4 + dice.below(50);
        if self.trouble != Trouble::Death {
            self.lazy = dice.below(3 * ACTORS as u64) as usize;
        }
        let death = (self.trouble == Trouble::Death).then(|| dice.below(orders));
        let mut death_at = u64::MAX;
        let end = now() + LIMIT_NS;
        while orders > 0 || !self.is_idle() {
            assert!(now() < end, "not done in time: {:?}", self.book.notes().open);
            for _ in 0..dice.below(6).min(orders) {
                orders -= 1;
                self.order(&mut dice);
                if death == Some(orders) {
                    self.book.notes().killed = Some(NODES as u32 - 1);
                    self.wire.network().cut[NODES - 1] = true;
                    death_at = now() + NOTICE_NS;
                }
            }
            let moved = self.round(&mut dice);
            if now() >= death_at {
                death_at = u64::MAX;
                self.units[..NODES - 1].iter().for_each(|unit| unit.announce(NODES as u32 - 1, Gone::Died));
            }
            if orders == 0 && self.is_dying() {
                // Those who wait, and sleep, hear of it.
                for actor in 0..ACTORS - CONTEXTS {
                    self.contexts[actor].wait_for(500_000_000, |_| false);
                }
            } else if moved || dice.per_mille(400) {
                elapse(1_000 + dice.below(50_000));
            } else {
                wait_for_wire(&self.wire);
            }
        }
        self.check();
        if self.trouble == Trouble::Death {
            self.close();
        }
        let before = self.mended;
        self.mended = mended(&self.units);
        self.mended - before
    }

    /// Requests that the target's message unit served and answers that the origin's took in.
    pub fn on_the_wire(&self, from: usize, to: usize) -> u64 {
        let [from, to] = [from, to].map(|actor| self.units[actor / CONTEXTS].statistics());
        from.placed + to.served
    }

    /// Goes on until all that was ordered is done, and looks at it.
    pub fn settle(&mut self) {
        let mut dice = Dice::new(self.operations);
        let end = now() + LIMIT_NS;
        while !self.is_idle() {
            assert!(now() < end, "not done in time: {:?}", self.book.notes().open);
            self.round(&mut dice);
            elapse(20_000);
        }
        self.check();
    }

    /// Ends the contexts that live: nothing is left of what they did.
    fn close(&mut self) {
        let contexts = core::mem::take(&mut self.contexts).into_iter().zip(0..ACTORS);
        for (mut context, actor) in contexts {
            if !self.is_honest(actor / CONTEXTS) {
                continue;
            }
            let end = now() + LIMIT_NS;
            loop {
                let unexpected: Vec<_> = context.unexpected().map(|unexpected| unexpected.id).collect();
                unexpected.into_iter().for_each(|id| context.discard(id).unwrap());
                match self.clients[actor / CONTEXTS].destroy_context(context) {
                    Ok(_) => break,
                    Err((error, _)) if now() > end => panic!("context {actor}: {error}"),
                    // Halves of the dead node's messages end when its death is found.
                    Err((_, back)) => context = back,
                }
                context.wait_for(500_000_000, |_| false);
            }
        }
    }

    fn is_dying(&self) -> bool {
        self.book.notes().killed.is_some()
    }

    /// Whether a node neither is dead nor sends garbage.
    fn is_honest(&self, node: usize) -> bool {
        node + 1 < NODES || (self.trouble != Trouble::Garbage && !self.is_dying())
    }

    fn round(&mut self, dice: &mut Dice) -> bool {
        let mut events = 0;
        let start = dice.below(ACTORS as u64) as usize;
        for actor in (0..ACTORS).map(|step| (start + step) % ACTORS) {
            if self.is_dying() && actor / CONTEXTS + 1 == NODES {
                continue;
            }
            let often = |share| if actor == self.lazy { 2 } else { share };
            if dice.per_mille(often(700)) {
                events += self.contexts[actor].advance();
            }
            if dice.per_mille(often(300)) {
                self.take_kept(actor, dice);
            }
        }
        if dice.per_mille(20) {
            self.withdraw(dice.below(NODES as u64) as usize);
        }
        if self.trouble == Trouble::Garbage && dice.per_mille(500) {
            self.throw(dice);
        }
        self.take_read();
        events > 0
    }

    /// A region of the bytes that never change, which is there until it is [taken away](Self::withdraw).
    pub fn passing(&mut self, node: usize) -> RegionHandle {
        let register = || {
            let mut buffer = self.book.notes().buffer();
            buffer.as_mut_slice()[COUNTER..]
                .iter_mut()
                .zip(source(node))
                .for_each(|(place, byte)| *place = byte);
            self.contexts[node * CONTEXTS].register(buffer, Rights::READ).ok().unwrap()
        };
        self.passing[node].get_or_insert_with(register).handle()
    }

    /// Takes a passing region away. Nobody may use it from then on.
    fn withdraw(&mut self, node: usize) {
        if let Some(region) = self.passing[node].take() {
            let buffer = self.contexts[node * CONTEXTS].deregister(region);
            self.book.notes().free(buffer.ok().expect("nobody is still at the region"));
        }
    }

    /// Accepts a message that a context keeps, or drops one of a hostile node.
    fn take_kept(&mut self, actor: usize, dice: &mut Dice) {
        let context = &mut self.contexts[actor];
        let count = context.unexpected().count() as u64;
        let Some(unexpected) = context.unexpected().nth(dice.below(count) as usize) else { return };
        let (id, then) = (unexpected.id, self.book.received(unexpected.header));
        if self.book.notes().hostile == Some(unexpected.origin.task()) && dice.per_mille(500) {
            let _ = context.discard(id);
            return;
        }
        let buffer = self.book.notes().buffer();
        if let Err((_, buffer)) = context.accept(id, buffer, then) {
            self.book.notes().free(buffer);
        }
    }

    /// Looks at what gets have brought.
    fn take_read(&mut self) {
        let mut notes = self.book.notes();
        let mut left = Vec::new();
        for reading in self.readings.drain(..) {
            if notes.open.iter().any(|open| open.0 == reading.number) {
                left.push(reading);
                continue;
            }
            let buffer = match reading.into.reclaim() {
                Ok(buffer) => buffer,
                Err(into) => {
                    // It was never sent; the engine finds that out in one of the next rounds.
                    assert!(notes.killed.is_some(), "the engine keeps no memory");
                    left.push(Reading { into, ..reading });
                    continue;
                }
            };
            let failed = notes.failed.contains(&reading.number) || notes.killed.is_some();
            assert!(failed || buffer.as_slice() == reading.content, "get {}", reading.number);
            notes.free(buffer);
        }
        self.readings = left;
        self.writing.retain(|&(_, number)| notes.open.iter().any(|open| open.0 == number));
    }

    fn is_idle(&self) -> bool {
        let notes = self.book.notes();
        let dead = |actor: usize| notes.killed == Some((actor / CONTEXTS) as u32);
        let whole = |from: usize, to: usize| notes.whole[to][from] == self.sent[from][to];
        let open = |reading: &Reading| notes.open.iter().any(|open| open.0 == reading.number);
        self.readings.iter().all(open)
            && notes.open.iter().all(|&(_, from, _)| dead(from))
            && (0..ACTORS).all(|from| (0..ACTORS).all(|to| dead(from) || dead(to) || whole(from, to)))
    }

    /// Compares all memory with what was put there.
    fn check(&mut self) {
        self.take_read();
        for node in (0..NODES).filter(|&node| self.is_honest(node)) {
            let memory = self.regions[node].memory();
            let mut bytes = std::vec![0; REGION];
            memory.read(0, &mut bytes).unwrap();
            let (source_now, stripes) = bytes[COUNTER..].split_at(SOURCE);
            assert!(source(node).eq(source_now.iter().copied()));
            let count = u64::from_le_bytes(*bytes.first_chunk().unwrap());
            let living = ACTORS - if self.is_dying() { CONTEXTS } else { 0 };
            let exact = living * STRIPE;
            let wrong = (0..exact).find(|&at| stripes[at] != self.stripes[node][at]);
            assert_eq!(wrong, None, "the stripes of node {node}");
            let notes = self.book.notes();
            let tickets = &notes.tickets[node];
            // A dead node's updates may have been carried out, and it does not tell.
            assert!(
                notes.killed.is_some() || tickets.iter().copied().eq(0..count),
                "the tickets of node {node}"
            );
            assert!(tickets.iter().all(|&ticket| ticket < count));
        }
        if self.trouble == Trouble::None {
            assert_eq!(self.book.notes().signals.keys().next(), None, "a signal never came");
            for (unit, node) in self.units.iter().zip(0..) {
                let dropped = unit.statistics().dropped;
                assert_eq!(dropped.total(), 0, "node {node}: {dropped:?}");
            }
            assert!(self.contexts.iter().all(|context| context.counters().protocol_errors == 0));
        }
    }

    pub fn open(&mut self, from: usize, to: usize) -> u64 {
        self.operations += 1;
        self.book.notes().open.insert((self.operations, from, to));
        self.operations
    }

    /// Takes an operation back that was refused.
    pub fn refused(&mut self, number: u64) {
        let mut notes = self.book.notes();
        notes.open.retain(|open| open.0 != number);
        notes.refusals.remove(&number);
    }

    /// Has a context of an honest node do something to another.
    fn order(&mut self, dice: &mut Dice) {
        let actors = ACTORS - if self.trouble == Trouble::Garbage || self.is_dying() { CONTEXTS } else { 0 };
        let (from, to) = (dice.below(actors as u64) as usize, dice.below(ACTORS as u64) as usize);
        match dice.below(12) {
            0..=3 if self.is_honest(to / CONTEXTS) || self.is_dying() => self.send(from, to, dice),
            4 | 5 => {
                // Now and then more than an injection FIFO holds.
                let count = if dice.per_mille(50) { dice.below(100) } else { 1 };
                (0..count).for_each(|_| self.put(from, to, dice));
            }
            6 => self.get(from, to, dice),
            7 => self.count(from, to),
            8 => self.fence(from, to, dice),
            9 | 10 if self.trouble == Trouble::None => self.fault(from, to, dice),
            _ => {}
        }
    }
}
