//! What handlers and callbacks of a random program write down, and check.

use super::{MOST, TASKS};
use crate::machine::{buffer, free, pattern};
use crate::stage::{DeferringHandler, Handler, Port, leak};
use pami::{
    Active, Completion, Endpoint, Fetched, Layout, Message, OnPart, OnReceived, OperationError, Part,
    Receive, Received,
};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// What a handler does with a message, which says so in its header.
pub const DONE: u8 = 0;
pub const RUNS: u8 = 1;
pub const PACKETS: u8 = 2;
pub const LATER: u8 = 3;
pub const INTO: u8 = 4;

/// What all handlers and callbacks write down, and check.
#[derive(Default)]
pub struct Book {
    /// Callbacks that must still come, by operation; two for a send.
    pub open: BTreeSet<usize>,
    /// Fences, with what was started before them.
    pub behind: Vec<(usize, Vec<usize>)>,
    /// Next message from each to each, and those whose data has come.
    pub expected: [[u32; MOST]; MOST],
    pub whole: [[Vec<u32>; MOST]; MOST],
    pub wrong: Vec<String>,
    pub contexts: usize,
    pub unexpected: usize,
    /// What is kept may find no room though there is a place.
    pub small: bool,
    /// The last message that a handler wanted later, from each to each, of those that came last.
    pub later: [[Option<u32>; MOST]; MOST],
    /// The last task's node is dead.
    pub killed: bool,
}

impl Book {
    fn place(&self, endpoint: Endpoint) -> usize {
        endpoint.task() as usize * self.contexts + usize::from(endpoint.context().0)
    }

    fn is_excused(&self, result: Result<(), OperationError>) -> bool {
        self.killed && result == Err(OperationError::NodeDead(TASKS as u32 - 1))
    }

    fn end(&mut self, operation: usize, result: Result<(), OperationError>) {
        if !self.open.remove(&operation) || !(result.is_ok() || self.is_excused(result)) {
            self.wrong.push(format!("operation {operation} ended twice or with {result:?}"));
        }
        if let Some(at) = self.behind.iter().position(|(fence, _)| *fence == operation) {
            let (_, before) = self.behind.swap_remove(at);
            if let Some(early) = before.iter().find(|before| self.open.contains(before)) {
                self.wrong.push(format!("fence {operation} ended before {early}"));
            }
        }
    }

    fn received(&mut self, received: &Received, to: usize) {
        let (number, from) = (received.cookie as u32, self.place(received.origin));
        let data = &received.buffer.as_slice()[..received.len];
        let whole = received.result.is_ok() && received.len == received.total;
        if !(whole || self.is_excused(received.result))
            || *data != pattern(received.total, number as usize)[..received.len]
        {
            self.wrong.push(format!("{from} to {to}: message {number}"));
        }
        if self.whole[from][to].contains(&number) {
            self.wrong.push(format!("{from} to {to}: message {number} twice"));
        }
        self.whole[from][to].push(number);
    }

    fn part(&mut self, part: &Part<'_>) {
        let all = pattern(part.total, part.cookie);
        if part.result.is_ok() && all[part.offset..][..part.data.len()] != *part.data {
            self.wrong.push(format!("part of message {} is wrong", part.cookie));
        }
    }
}

pub type Call<T> = &'static (dyn Fn(&mut Active<Port>, T) + Sync);

/// The callbacks.
#[derive(Clone, Copy)]
pub struct Calls {
    pub done: Call<Completion>,
    pub fetched: Call<Fetched>,
    pub received: Call<Received>,
}

pub fn calls(book: &'static Mutex<Book>) -> Calls {
    let done = leak(move |_: &mut Active<Port>, completion: Completion| {
        book.lock().unwrap().end(completion.cookie, completion.result);
        completion.buffer.into_iter().for_each(free);
    });
    let fetched = leak(move |_: &mut Active<Port>, fetched: Fetched| {
        book.lock().unwrap().end(fetched.cookie, fetched.result.map(drop));
    });
    let received = leak(move |active: &mut Active<Port>, received: Received| {
        let mut book = book.lock().unwrap();
        let to = book.place(active.endpoint());
        book.received(&received, to);
        free(received.buffer);
    });
    Calls { done, fetched, received }
}

pub fn handlers(book: &'static Mutex<Book>, received: Call<Received>) -> (Handler, DeferringHandler) {
    let part = leak(move |_: &mut Active<Port>, part: &Part<'_>| book.lock().unwrap().part(part));
    let take = move |active: &mut Active<Port>, message: &Message<'_>| {
        let number = u32::from_le_bytes(message.header[..4].try_into().unwrap());
        let mut book = book.lock().unwrap();
        let (from, to) = (book.place(message.origin), book.place(active.endpoint()));
        let is_kept = |active: &Active<Port>| {
            let mut kept = active.unexpected().filter(|kept| kept.origin == message.origin);
            kept.any(|kept| kept.header[..4] == message.header[..4])
        };
        if book.small && book.later[from][to] == Some(number) && !is_kept(active) {
            // It found no room.
            book.expected[from][to] = number;
        }
        let due = book.expected[from][to];
        if number != due {
            book.wrong.push(format!("{from} to {to}: message {number} when {due} was due"));
        }
        let on = OnReceived { call: received, cookie: number as usize };
        let room = || buffer(message.total);
        let wish = match message.header[4] {
            DONE => Some(Receive::Done),
            RUNS => Some(Receive::Scatter(room(), Layout::Contiguous, on)),
            PACKETS => Some(Receive::Packets(OnPart { call: part, cookie: number as usize })),
            // What no place has room for would be offered for ever.
            LATER if active.can_keep(message) => None,
            _ => Some(Receive::Into(room(), on)),
        };
        // A message that found no place is offered again, and no other before it.
        let refused = wish.is_none() && active.unexpected().count() == book.unexpected;
        book.expected[from][to] += u32::from(!refused);
        book.later[from][to] = wish.is_none().then_some(number);
        wish
    };
    let plain = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
        take(active, message).expect("what may be wanted later goes to the other id")
    });
    (plain, leak(take))
}
