//! The operations that contexts start.

use super::book::{Signalled, content};
use super::world::{COUNTER, REGION, Reading, SOURCE, STRIPE, Trouble, UNTOUCHED, World, source};
use super::{ACTORS, CONTEXTS, NODES, SIGNALS, endpoint};
use crate::link::LINK_BYTES;
use crate::reliable::tests::dice::Dice;
use crate::reliable::tests::nodes::MTU;
use core::ops::Range;
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::layout::Segment;
use pami::packet::{DEFERRING, Envelope, Header, Kind};
use pami::region::RegionId;
use pami::{Get, Layout, Payload, Put, RegionFault, RegionHandle, Rmw, RmwOp, Send, Signal, Update, Width};
use std::vec::Vec;
use zerocopy::IntoBytes;

/// Lengths of messages: none, inline, one packet, a few, by rendezvous, that again in pieces.
const LENGTHS: [usize; 7] = [0, 9, 200, 500, 699, 700, 1500];

/// Where puts go in a stripe, and gets read.
const LAYOUTS: [Layout; 4] = [
    Layout::Contiguous,
    Layout::Strided { block: 5, stride: 9 },
    Layout::Strided { block: 100, stride: 101 },
    Layout::Indexed(&[(100, 60), (0, 70), (255, 0), (200, 50)]),
];

/// A run that a packet of a put has room for, and a place that no region has.
const RUN: u32 = (MTU - LINK_BYTES - size_of::<RegionId>() - size_of::<Segment>()) as u32;
const FAR: u32 = 2 * REGION as u32;

/// Layouts with a run that is out of bounds: the others are carried out all the same.
const TORN: [Layout; 3] = [
    Layout::Indexed(&[(FAR, RUN), (0, RUN), (RUN, RUN)]),
    Layout::Indexed(&[(RUN, RUN), (FAR, RUN), (0, RUN)]),
    Layout::Indexed(&[(RUN, RUN), (0, RUN), (FAR, RUN)]),
];

/// Of a get: the second of three pieces is out of bounds.
const SPOILT: Layout = Layout::Indexed(&[(0, 5), (FAR, 10), (5, 5)]);

/// What a get reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Area {
    /// What never changes.
    Source,
    /// That, as long as it is there.
    Passing,
    /// What the context itself has put.
    Stripe,
}

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
        for (layout, form) in LAYOUTS.into_iter().zip((0..5).cycle()) {
            for (len, form) in [(0, form), (8, form), (120, form), (180, form + 1)] {
                for told in [Told::Origin, Told::Target, Told::Both] {
                    self.write(from, to, layout, len..2 * len, form, told);
                    self.settle();
                }
            }
        }
        for torn in TORN {
            self.write(from, to, torn, 0..3 * RUN as usize, 0, Told::Origin);
            self.settle();
        }
        for area in [Area::Source, Area::Passing, Area::Stripe] {
            for (layout, offset, len) in [(0, 0, 0), (0, 3, 8), (0, 0, 500), (2, 0, 400), (3, 0, 150)] {
                for into in [LAYOUTS[0], LAYOUTS[2]] {
                    self.read(from, to, (area, offset, LAYOUTS[layout]), into, len);
                }
            }
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

    /// Puts into the context's own stripe, if nothing but puts without signals is under way there: the later one wins.
    pub fn put(&mut self, from: usize, to: usize, dice: &mut Dice) {
        let (start, len) = (dice.below(100) as usize, dice.below(180) as usize);
        let layout = LAYOUTS[dice.below(4) as usize];
        let told = match dice.below(4) {
            0 | 1 => Told::Origin,
            // The signal of a node that dies is all that would tell.
            2 if self.trouble == Trouble::None => Told::Target,
            _ => Told::Both,
        };
        self.write(from, to, layout, start..start + len, dice.below(5), told);
    }

    /// Bytes of [`DATA`] in the shape of a number, and what they are in a piece.
    fn payload(&self, data: Range<usize>, form: u64) -> (Payload, Layout, Vec<u8>) {
        let layout = if form < 3 { Layout::Contiguous } else { Layout::Strided { block: 7, stride: 11 } };
        let runs = runs(layout, data.len());
        let all = data.start..data.start + runs.iter().map(|(at, run)| at + run).max().unwrap_or(0);
        let content: Vec<u8> =
            runs.iter().flat_map(|&(at, run)| &DATA[all.clone()][at..][..run]).copied().collect();
        let payload = match form {
            0 | 3 => Payload::Static(&DATA[all]),
            1 => {
                let mut buffer = self.book.notes().buffer();
                buffer.as_mut_slice()[..content.len()].copy_from_slice(&content);
                Payload::Buffer(buffer, 0..content.len())
            }
            _ => Payload::Shared(self.data.clone(), all),
        };
        (payload, layout, content)
    }

    fn write(&mut self, from: usize, to: usize, layout: Layout, data: Range<usize>, form: u64, told: Told) {
        let node = to / CONTEXTS;
        let stripe = node * ACTORS + from;
        let mut under_way = self.writing.iter().filter(|(at, _)| *at == stripe);
        if !under_way.all(|put| self.book.notes().plain.contains(put)) {
            return;
        }
        let torn = TORN.contains(&layout);
        let (payload, payload_layout, content) = self.payload(data, form);
        let number = self.open(from, to);
        let local = matches!(payload, Payload::Buffer(..)).then(|| self.open(from, to));
        let mut region = self.regions[node].handle();
        if torn {
            region = longer(region);
            self.book.notes().refusals.insert(number, (RegionFault::Bounds, true));
        }
        let put = Put {
            target: endpoint(to),
            region,
            offset: (COUNTER + SOURCE + from * STRIPE) as u32,
            layout,
            payload,
            payload_layout,
            local_done: local.and_then(|local| self.book.done(local)),
            remote_done: if told == Told::Target { None } else { self.book.done(number) },
        };
        let taken = match told {
            Told::Origin => self.contexts[from].put(put),
            _ => {
                let signal = Signal { dispatch: SIGNALS, header: number.to_le_bytes() };
                self.contexts[from].put_signal(put, signal)
            }
        };
        if let Err((_, payload)) = taken {
            if let Payload::Buffer(buffer, _) = payload {
                self.book.notes().free(buffer);
            }
            local.into_iter().chain([number]).for_each(|number| self.refused(number));
            return;
        }
        self.writing.push((stripe, number));
        if told == Told::Origin {
            self.book.notes().plain.insert((stripe, number));
        }
        let stripe = &mut self.stripes[node][from * STRIPE..][..STRIPE];
        let mut rest = &content[..];
        for (at, run) in runs(layout, content.len()) {
            let now = rest.split_off(..run).unwrap();
            match stripe.get_mut(at..at + run) {
                Some(there) => there.copy_from_slice(now),
                // Within a node nothing comes behind it.
                None if from / CONTEXTS == node && node + 1 < NODES => break,
                None => {}
            }
        }
        if told != Told::Origin {
            let start = COUNTER + SOURCE + from * STRIPE;
            let signal = Signalled { to, start, content: stripe.to_vec(), ends: told == Told::Target };
            self.book.notes().signals.insert(number, signal);
        }
    }

    /// Gets of what does not change meanwhile.
    pub fn get(&mut self, from: usize, to: usize, dice: &mut Dice) {
        let area = match dice.below(4) {
            0 => Area::Stripe,
            1 if self.trouble == Trouble::None => Area::Passing,
            _ => Area::Source,
        };
        let layout = LAYOUTS[dice.below(4) as usize];
        let into = LAYOUTS[dice.below(3) as usize];
        let (offset, most) = match (area, layout) {
            (_, Layout::Strided { block: 5, .. }) => (dice.below(100), 100),
            (_, Layout::Indexed(_)) => (dice.below(200), 180),
            (Area::Stripe, _) => (dice.below(100), 400),
            _ => (dice.below(100), 900),
        };
        let len = dice.below(if into == LAYOUTS[1] { 100 } else { most }) as usize;
        self.read(from, to, (area, offset as usize, layout), into, len);
    }

    fn read(
        &mut self,
        from: usize,
        to: usize,
        (area, offset, layout): (Area, usize, Layout),
        into: Layout,
        len: usize,
    ) {
        let node = to / CONTEXTS;
        let stripe = from * STRIPE..(from + 1) * STRIPE;
        let (region, start, bytes) = match area {
            Area::Source => (self.regions[node].handle(), COUNTER, source(node).collect()),
            Area::Passing => (self.passing(node), COUNTER, source(node).collect()),
            Area::Stripe => {
                let start = COUNTER + SOURCE + stripe.start;
                (self.regions[node].handle(), start, self.stripes[node][stripe].to_vec())
            }
        };
        let here = |&(at, number): &(usize, u64)| {
            at == node * ACTORS + from && self.book.notes().signals.contains_key(&number)
        };
        // A get comes behind a put of its origin's, but not behind one with signal, which may have to come again.
        if area == Area::Stripe && self.writing.iter().any(here) {
            return;
        }
        let mut buffer = self.book.notes().buffer();
        buffer.as_mut_slice().fill(UNTOUCHED);
        let mut content = buffer.as_slice().to_vec();
        let from_there = runs(layout, len).into_iter().flat_map(|(at, run)| offset + at..offset + at + run);
        let to_here = runs(into, len).into_iter().flat_map(|(at, run)| at..at + run);
        to_here.zip(from_there).for_each(|(here, there)| content[here] = bytes[there]);
        let number = self.open(from, to);
        match area {
            Area::Source => {}
            Area::Passing => drop(self.book.notes().refusals.insert(number, (RegionFault::Stale, false))),
            // No put may change it meanwhile.
            Area::Stripe => self.writing.push((node * ACTORS + from, number)),
        }
        let from_here = (region, (start + offset) as u32, layout);
        self.begin_get(from, to, from_here, into, len, Reading { number, into: buffer.share(), content });
    }

    /// Gets bytes of a region, which is to make a buffer what the reading says.
    fn begin_get(
        &mut self,
        from: usize,
        to: usize,
        (region, offset, layout): (RegionHandle, u32, Layout),
        into_layout: Layout,
        len: usize,
        reading: Reading,
    ) {
        let get = Get {
            target: endpoint(to),
            region,
            offset,
            layout,
            into: reading.into.clone(),
            at: 0,
            into_layout,
            len: len as u32,
            done: self.book.done(reading.number),
        };
        match self.contexts[from].get(get) {
            Ok(()) => self.readings.push(reading),
            Err(_) => self.refused(reading.number),
        }
    }

    /// Does what the region's owner does not allow, or what cannot be.
    pub fn fault(&mut self, from: usize, to: usize, dice: &mut Dice) {
        if dice.per_mille(300) {
            let torn = TORN[dice.below(3) as usize];
            return self.write(from, to, torn, 0..3 * RUN as usize, dice.below(5), Told::Origin);
        }
        let whole = self.regions[to / CONTEXTS].handle();
        let (region, fault, offset) = match dice.below(4) {
            0 => (stale(whole), RegionFault::Stale, 0),
            1 => (self.sealed[to / CONTEXTS].handle(), RegionFault::Rights, 0),
            2 => (longer(whole), RegionFault::Bounds, whole.len() - 4),
            _ => (longer(whole), RegionFault::Bounds, u32::MAX - 30),
        };
        let number = self.open(from, to);
        self.book.notes().refusals.insert(number, (fault, true));
        match dice.below(4) {
            0 => self.add(number, from, to, region, offset.next_multiple_of(8)),
            1 => {
                let put = Put {
                    target: endpoint(to),
                    region,
                    offset,
                    layout: Layout::Contiguous,
                    payload: Payload::Static(&DATA[..20]),
                    payload_layout: Layout::Contiguous,
                    local_done: None,
                    remote_done: self.book.done(number),
                };
                if self.contexts[from].put(put).is_err() {
                    self.refused(number);
                }
            }
            choice => {
                // One piece that is out of bounds spoils all.
                let spoilt = choice == 2 && fault == RegionFault::Bounds;
                let (offset, layout) = if spoilt { (0, SPOILT) } else { (offset, Layout::Contiguous) };
                let into = self.book.notes().buffer().share();
                let reading = Reading { number, into, content: Vec::new() };
                self.begin_get(from, to, (region, offset, layout), Layout::Contiguous, 20, reading);
            }
        }
    }

    pub fn count(&mut self, from: usize, to: usize) {
        let number = self.open(from, to);
        self.add(number, from, to, self.regions[to / CONTEXTS].handle(), 0);
    }

    fn add(&mut self, number: u64, from: usize, to: usize, region: RegionHandle, offset: u32) {
        let op = RmwOp { width: Width::Eight, update: Update::Add(1) };
        let done = self.book.fetched(number);
        if self.contexts[from].rmw(Rmw { target: endpoint(to), region, offset, op, done }).is_err() {
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

/// The name of a region that is gone.
fn stale(mut handle: RegionHandle) -> RegionHandle {
    // Task, index, generation, length: four bytes each.
    handle.as_mut_bytes()[10] ^= 0x55;
    handle
}

/// A region's name, as if it had as many bytes as there can be.
fn longer(mut handle: RegionHandle) -> RegionHandle {
    handle.as_mut_bytes()[size_of::<RegionHandle>() - 4..].fill(0xff);
    handle
}

/// The runs of so many bytes in a layout: where each is, and its length.
fn runs(layout: Layout, len: usize) -> Vec<(usize, usize)> {
    let (mut cursor, mut rest, mut found) = (Default::default(), len as u32, Vec::new());
    while rest > 0 {
        let (at, run) = layout.next_run(&mut cursor, rest).unwrap();
        found.push((at as usize, run as usize));
        rest -= run;
    }
    found
}

/// Bytes to put.
pub static DATA: [u8; 1200] = {
    let mut data = [0; 1200];
    let mut at = 0;
    while at < data.len() {
        data[at] = (at * 7 + at / 256 + 1) as u8;
        at += 1;
    }
    data
};
