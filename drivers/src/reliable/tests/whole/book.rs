//! What handlers and callbacks write down, and check.

use super::node::Port;
use super::{ACTORS, MOST, UNEXPECTED, leak, place_of};
use pami::{
    Active, Buffer, Completion, Done, Fetched, Layout, Message, OnFetched, OnPart, OnReceived,
    OperationError, Part, Receive, Received, RegionFault, Shared,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::vec::Vec;

type Call<T> = &'static (dyn Fn(&mut Active<Port>, T) + Sync);

#[derive(Default)]
pub struct Notes {
    /// Operations whose end must still come: number, origin, target. Who fences all has no target.
    pub open: BTreeSet<(u64, usize, usize)>,
    /// What an operation is refused with, and whether it must be.
    pub refusals: BTreeMap<u64, (RegionFault, bool)>,
    /// Operations that were.
    pub failed: BTreeSet<u64>,
    /// Puts without signals under way, by stripe: they end in order.
    pub plain: BTreeSet<(usize, u64)>,
    /// Fences, and the operations that they come behind.
    behind: Vec<(u64, Vec<u64>)>,
    /// Of each context from each: the number of the next message, and messages that were there whole.
    pub expected: [[u32; ACTORS]; ACTORS],
    pub whole: [[u32; ACTORS]; ACTORS],
    /// By node: the values that updates found.
    pub tickets: Vec<BTreeSet<u64>>,
    /// The node that may be dead, and one that sends garbage.
    pub killed: Option<u32>,
    pub hostile: Option<u32>,
    /// Signals under way, by the number of the put.
    pub signals: BTreeMap<u64, Signalled>,
    /// By node: what puts go to.
    pub memories: Vec<Shared>,
    /// Buffers of [`MOST`] bytes that nobody has.
    buffers: Vec<Buffer>,
}

/// A put of which its target is told.
pub struct Signalled {
    pub to: usize,
    /// What memory has to hold from here on when it is.
    pub start: usize,
    pub content: Vec<u8>,
    /// Whether nobody else is told of the end.
    pub ends: bool,
}

impl Notes {
    pub fn buffer(&mut self) -> Buffer {
        let fresh = || Buffer::new(std::vec![0; MOST + 256].leak()).expect("room for the count");
        self.buffers.pop().unwrap_or_else(fresh)
    }

    pub fn free(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
    }

    /// A fence begins, behind all that its origin has under way to `target`, or to all.
    pub fn fence(&mut self, number: u64, origin: usize, target: Option<usize>) {
        let covers = |&&(other, from, to): &&(u64, usize, usize)| {
            other < number && from == origin && target.is_none_or(|target| target == to)
        };
        self.behind.push((number, self.open.iter().filter(covers).map(|open| open.0).collect()));
    }

    fn end(&mut self, number: u64, result: Result<(), OperationError>) {
        let dead = matches!(result, Err(OperationError::NodeDead(_)));
        match (result, self.refusals.remove(&number)) {
            (Ok(()), None | Some((_, false))) => {}
            (Err(OperationError::Region(fault)), Some((expected, _))) if fault == expected => {
                self.failed.insert(number);
            }
            (Err(OperationError::NodeDead(node)), _) => assert_eq!(self.killed, Some(node)),
            (result, refusal) => panic!("operation {number}: {result:?}, not {refusal:?}"),
        }
        let open = self.open.range((number, 0, 0)..).next().copied().filter(|open| open.0 == number);
        assert!(open.is_some_and(|open| self.open.remove(&open)), "operation {number} ends twice");
        if let Some(put) = self.plain.iter().find(|put| put.1 == number).copied() {
            let first = self.plain.range((put.0, 0)..).next().copied();
            // Those that wait for a node that dies end as they are found.
            assert!(first == Some(put) || dead, "put {number} ends before {first:?}");
            self.plain.remove(&put);
        }
        if let Some(at) = self.behind.iter().position(|(fence, _)| *fence == number) {
            let (_, before) = self.behind.swap_remove(at);
            let early = self.open.iter().find(|open| before.contains(&open.0));
            assert_eq!(early, None, "fence {number} ends too early");
        }
    }
}

/// The notes, and the callbacks that write them.
#[derive(Clone, Copy)]
pub struct Book {
    notes: &'static Mutex<Notes>,
    done: Call<Completion>,
    fetched: Call<Fetched>,
    received: Call<Received>,
    part: &'static (dyn Fn(&mut Active<Port>, &Part<'_>) + Sync),
}

/// The bytes of message `number`.
pub fn content(from: usize, to: usize, number: u32, len: usize) -> impl Iterator<Item = u8> {
    let start = number as usize * 31 + from * 7 + to * 13;
    (0..len).map(move |at| (start + at + at / 251) as u8)
}

fn is_content(data: &[u8], from: usize, to: usize, number: u32, offset: usize) -> bool {
    content(from, to, number, offset + data.len()).skip(offset).eq(data.iter().copied())
}

impl Book {
    pub fn new(nodes: usize) -> Self {
        let tickets = (0..nodes).map(|_| BTreeSet::new()).collect();
        let notes: &'static Mutex<Notes> = leak(Mutex::new(Notes { tickets, ..Notes::default() }));
        let done = leak(move |_: &mut Active<Port>, completion: Completion| {
            let mut notes = notes.lock().unwrap();
            notes.end(completion.cookie as u64, completion.result);
            if let Some(buffer) = completion.buffer {
                notes.free(buffer);
            }
        });
        let fetched = leak(move |_: &mut Active<Port>, fetched: Fetched| {
            let mut notes = notes.lock().unwrap();
            notes.end(fetched.cookie as u64, fetched.result.map(drop));
            if let Ok(ticket) = fetched.result {
                let node = place_of(fetched.target) / super::CONTEXTS;
                assert!(notes.tickets[node].insert(ticket), "ticket {ticket} of node {node} twice");
            }
        });
        let received = leak(move |active: &mut Active<Port>, received: Received| {
            let Received { origin, buffer, len, total, result, cookie } = received;
            let mut notes = notes.lock().unwrap();
            let (from, to, number) = (place_of(origin), place_of(active.endpoint()), cookie as u32);
            if notes.hostile != Some(origin.task()) {
                assert!(
                    is_content(&buffer.as_slice()[..len], from, to, number, 0),
                    "{from} to {to}: {number}"
                );
                assert!(
                    len == total || notes.killed.is_some() && result.is_err(),
                    "{from} to {to}: {number}"
                );
                notes.whole[to][from] += u32::from(len == total);
            }
            notes.free(buffer);
        });
        let part = leak(move |active: &mut Active<Port>, part: &Part<'_>| {
            let mut notes = notes.lock().unwrap();
            if notes.hostile == Some(part.origin.task()) {
                return;
            }
            let (from, to) = (place_of(part.origin), place_of(active.endpoint()));
            assert!(is_content(part.data, from, to, part.cookie as u32, part.offset));
            assert!(part.result.is_ok() || notes.killed.is_some());
            notes.whole[to][from] += u32::from(part.is_last() && part.result.is_ok());
        });
        Self { notes, done, fetched, received, part }
    }

    pub fn notes(&self) -> MutexGuard<'static, Notes> {
        self.notes.lock().unwrap()
    }

    pub fn done(&self, number: u64) -> Option<Done<Port>> {
        Some(Done { call: self.done, cookie: number as usize })
    }

    pub fn fetched(&self, number: u64) -> Option<OnFetched<Port>> {
        Some(OnFetched { call: self.fetched, cookie: number as usize })
    }

    /// What becomes of an unexpected message.
    pub fn received(&self, header: &[u8]) -> OnReceived<Port> {
        let number = header.first_chunk().map_or(0, |number| u32::from_le_bytes(*number));
        OnReceived { call: self.received, cookie: number as usize }
    }

    /// A signal: all of its put is there, and it comes once.
    pub fn signal(&self, active: &mut Active<Port>, message: &Message<'_>) {
        let mut notes = self.notes();
        if notes.hostile == Some(message.origin.task()) {
            return;
        }
        let number = u64::from_le_bytes(message.header.try_into().unwrap());
        let signalled = notes.signals.remove(&number);
        let Some(Signalled { to, start, content, ends }) = signalled else { panic!("signal {number} twice") };
        assert_eq!((to, message.total), (place_of(active.endpoint()), 0));
        let mut now = std::vec![0; content.len()];
        notes.memories[to / super::CONTEXTS].read(start, &mut now).unwrap();
        assert!(now == content, "the data of put {number} is not there");
        if ends {
            notes.end(number, Ok(()));
        }
    }

    /// Checks a message's number and does with it what its origin says.
    pub fn handle(&self, active: &mut Active<Port>, message: &Message<'_>) -> Option<Receive<Port>> {
        let mut notes = self.notes();
        let (from, to) = (place_of(message.origin), place_of(active.endpoint()));
        let on = self.received(message.header);
        let choice = message.header.get(4).copied().unwrap_or(0);
        if notes.hostile != Some(message.origin.task()) {
            let number = &mut notes.expected[to][from];
            assert_eq!(on.cookie, *number as usize, "{from} to {to}: the next message");
            assert!(is_content(message.data, from, to, *number, 0), "{from} to {to}: {number}");
            // What is refused comes again.
            if choice == 3 && active.can_keep(message) && active.unexpected().count() == UNEXPECTED {
                return None;
            }
            *number += 1;
            notes.whole[to][from] += u32::from(choice == 0);
        }
        match choice {
            0 => Some(Receive::Done),
            1 => Some(Receive::Scatter(notes.buffer(), Layout::Contiguous, on)),
            2 => Some(Receive::Packets(OnPart { call: self.part, cookie: on.cookie })),
            3 if active.can_keep(message) && active.unexpected().count() < UNEXPECTED => None,
            _ => Some(Receive::Into(notes.buffer(), on)),
        }
    }
}
