//! The operations that contexts start.

use super::book::{Signalled, content};
use super::world::{COUNTER, Reading, SOURCE, STRIPE, Trouble, World};
use super::{ACTORS, CONTEXTS, NODES, SIGNALS, endpoint};
use crate::reliable::tests::dice::Dice;
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::{DEFERRING, Envelope, Header, Kind};
use pami::{Get, Layout, Payload, Put, Rmw, RmwOp, Send, Signal, Update, Width};
use std::vec::Vec;
use zerocopy::IntoBytes;

/// Lengths of messages: none, inline, one packet, a few, by rendezvous, that again in pieces.
const LENGTHS: [usize; 7] = [0, 9, 200, 500, 699, 700, 1500];

/// Where puts go in a stripe.
const LAYOUTS: [Layout; 3] = [
    Layout::Contiguous,
    Layout::Strided { block: 5, stride: 9 },
    Layout::Indexed(&[(100, 60), (0, 70), (255, 0), (200, 50)]),
];

/// Who is told of the end of a put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Origin,
    /// By a signal.
    Target,
    Both,
}

impl World {
    /// One of everything.
    pub fn all(&mut self, from: usize, to: usize) {
        for choice in 0..5 {
            for len in LENGTHS {
                self.message(from, to, len, choice, len <= 200);
                self.message(from, to, len, choice, false);
            }
            self.settle();
        }
        for layout in LAYOUTS {
            for len in [0, 8, 120] {
                for told in [Told::Origin, Told::Target, Told::Both] {
                    self.write(from, to, layout, &DATA[len..2 * len], told);
                    self.settle();
                }
            }
        }
        for (offset, len) in [(0, 0), (3, 8), (0, 900)] {
            self.read(from, to, offset, len, true);
            self.read(from, to, offset, len, false);
        }
        for _ in 0..3 {
            self.count(from, to);
        }
        self.wait_for_all(from, Some(to));
        self.wait_for_all(from, None);
        self.settle();
    }

    pub fn send(&mut self, from: usize, to: usize, dice: &mut Dice) {
        let len = LENGTHS[dice.below(7) as usize];
        let choice = dice.below(5) as u8;
        self.message(from, to, len, choice, len <= 200 && dice.per_mille(500));
    }

    fn message(&mut self, from: usize, to: usize, len: usize, choice: u8, immediate: bool) {
        let number = self.sent[from][to];
        let mut header = number.to_le_bytes().to_vec();
        header.push(choice);
        let target = endpoint(to);
        let dispatch = if choice == 3 { DEFERRING } else { 0 };
        if immediate {
            let data: Vec<u8> = content(from, to, number, len).collect();
            let sent = self.contexts[from].send_immediate(target, dispatch, &header, &data);
            self.sent[from][to] += u32::from(sent.is_ok());
            return;
        }
        let mut buffer = self.book.notes().buffer();
        for (place, byte) in buffer.as_mut_slice().iter_mut().zip(content(from, to, number, len)) {
            *place = byte;
        }
        let (local, remote) = (self.open(from, to), self.open(from, to));
        let send = Send {
            target,
            dispatch,
            header: &header,
            payload: Payload::Buffer(buffer, 0..len),
            layout: Layout::Contiguous,
            local_done: self.book.done(local),
            remote_done: self.book.done(remote),
        };
        match self.contexts[from].send(send) {
            Ok(()) => self.sent[from][to] += 1,
            Err((_, payload)) => {
                self.refused(local);
                self.refused(remote);
                if let Payload::Buffer(buffer, _) = payload {
                    self.book.notes().free(buffer);
                }
            }
        }
    }

    /// Puts into the context's own stripe, if no put is under way there.
    pub fn put(&mut self, from: usize, to: usize, dice: &mut Dice) {
        let len = dice.below(120) as usize;
        let layout = LAYOUTS[dice.below(3) as usize];
        let told = match dice.below(4) {
            0 | 1 => Told::Origin,
            // The signal of a node that dies is all that would tell.
            2 if self.trouble == Trouble::None => Told::Target,
            _ => Told::Both,
        };
        self.write(from, to, layout, &DATA[dice.below(100) as usize..][..len], told);
    }

    fn write(&mut self, from: usize, to: usize, layout: Layout, data: &'static [u8], told: Told) {
        let node = to / CONTEXTS;
        if self.writing.iter().any(|&(stripe, _)| stripe == node * ACTORS + from) {
            return;
        }
        let number = self.open(from, to);
        let put = Put {
            target: endpoint(to),
            region: self.regions[node].handle(),
            offset: (COUNTER + SOURCE + from * STRIPE) as u32,
            layout,
            payload: Payload::Static(data),
            payload_layout: Layout::Contiguous,
            local_done: None,
            remote_done: if told == Told::Target { None } else { self.book.done(number) },
        };
        let taken = match told {
            Told::Origin => self.contexts[from].put(put),
            _ => {
                let signal = Signal { dispatch: SIGNALS, header: number.to_le_bytes() };
                self.contexts[from].put_signal(put, signal)
            }
        };
        if taken.is_err() {
            return self.refused(number);
        }
        self.writing.push((node * ACTORS + from, number));
        let stripe = &mut self.stripes[node][from * STRIPE..][..STRIPE];
        let (mut cursor, mut rest) = (Default::default(), data);
        while !rest.is_empty() {
            let (at, run) = layout.next_run(&mut cursor, rest.len() as u32).unwrap();
            let (now, later) = rest.split_at(run as usize);
            stripe[at as usize..][..now.len()].copy_from_slice(now);
            rest = later;
        }
        if told != Told::Origin {
            let start = COUNTER + SOURCE + from * STRIPE;
            let signal = Signalled { to, start, content: stripe.to_vec(), ends: told == Told::Target };
            self.book.notes().signals.insert(number, signal);
        }
    }

    /// Gets of what never changes.
    pub fn get(&mut self, from: usize, to: usize, dice: &mut Dice) {
        let (offset, len) = (dice.below(100) as usize, dice.below(900) as usize);
        self.read(from, to, offset, len, dice.per_mille(500));
    }

    fn read(&mut self, from: usize, to: usize, offset: usize, len: usize, contiguous: bool) {
        let node = to / CONTEXTS;
        let (layout, content): (_, Vec<u8>) = if contiguous {
            (Layout::Contiguous, super::world::source(node).skip(offset).take(len).collect())
        } else {
            let strided = |at: &usize| (at - offset) % 101 < 100;
            let places = (offset..).filter(strided).take(len);
            let source: Vec<u8> = super::world::source(node).collect();
            (Layout::Strided { block: 100, stride: 101 }, places.map(|at| source[at]).collect())
        };
        let into = self.book.notes().buffer().share();
        let number = self.open(from, to);
        let get = Get {
            target: endpoint(to),
            region: self.regions[node].handle(),
            offset: (COUNTER + offset) as u32,
            layout,
            into: into.clone(),
            at: 0,
            into_layout: Layout::Contiguous,
            len: len as u32,
            done: self.book.done(number),
        };
        if self.contexts[from].get(get).is_err() {
            return self.refused(number);
        }
        self.readings.push(Reading { number, into, content });
    }

    pub fn count(&mut self, from: usize, to: usize) {
        let number = self.open(from, to);
        let op = RmwOp { width: Width::Eight, update: Update::Add(1) };
        let (region, done) = (self.regions[to / CONTEXTS].handle(), self.book.fetched(number));
        let rmw = Rmw { target: endpoint(to), region, offset: 0, op, done };
        if self.contexts[from].rmw(rmw).is_err() {
            self.refused(number);
        }
    }

    pub fn fence(&mut self, from: usize, to: usize, dice: &mut Dice) {
        self.wait_for_all(from, (!dice.per_mille(300)).then_some(to));
    }

    /// A fence, for one endpoint or all.
    fn wait_for_all(&mut self, from: usize, to: Option<usize>) {
        let number = self.open(from, to.unwrap_or(ACTORS));
        let done = self.book.done(number).unwrap();
        let context = &mut self.contexts[from];
        let taken = match to {
            Some(to) => context.fence(endpoint(to), done),
            None => context.fence_tasks(0..NODES as u32, done),
        };
        if taken.is_err() {
            return self.refused(number);
        }
        self.book.notes().fence(number, from, to);
    }

    /// A packet of the last node's that is well-formed and means anything.
    pub fn throw(&mut self, dice: &mut Dice) {
        debug_assert!(self.trouble == Trouble::Garbage);
        let kinds = (0..=u8::MAX).map_while(Kind::from_byte).count() as u64;
        let victim = dice.below(NODES as u64 - 1) as u32;
        let end = |dice: &mut Dice, task| {
            Endpoint::from_parts(ClientId(0), task, ContextOffset(dice.below(CONTEXTS as u64) as u8))
        };
        let small =
            |dice: &mut Dice| if dice.per_mille(700) { dice.below(200) as u32 } else { dice.next() as u32 };
        let header_len = [0, 5, 8, 16, 24][dice.below(5) as usize];
        let len = header_len + dice.below(65 - header_len as u64) as usize;
        let envelope = Envelope {
            kind: Kind::from_byte(dice.below(kinds) as u8).unwrap(),
            dispatch: if dice.per_mille(700) { 0 } else { dice.next() as u8 },
            origin: end(dice, NODES as u32 - 1),
            target: end(dice, victim),
            message: small(dice),
            offset: if dice.per_mille(500) { 0 } else { small(dice) },
            total: if dice.per_mille(500) { (len - header_len) as u32 } else { small(dice) },
        };
        let payload: Vec<u8> = (0..len).map(|_| dice.next() as u8).collect();
        let header = Header::new(&envelope, header_len as u16, (len - header_len) as u16);
        let _ = self.units[NODES - 1].send_raw(victim, &[header.as_bytes(), &payload].concat());
    }
}

/// Bytes to put.
static DATA: [u8; 256] = {
    let mut data = [0; 256];
    let mut at = 0;
    while at < 256 {
        data[at] = (at * 7 + 1) as u8;
        at += 1;
    }
    data
};
