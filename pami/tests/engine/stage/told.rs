//! What callbacks were told, in order: messages, parts of them, ends of operations, what updates found.

use super::{Port, leak};
use crate::machine::buffer;
use pami::{
    Active, Completion, Done, Fetched, Layout, Message, OnFetched, OnPart, OnReceived, OperationError, Part,
    Receive, Received,
};
use std::sync::{Mutex, MutexGuard};

pub type Handler = pami::context::Handler<Port>;
pub type DeferringHandler = pami::context::DeferringHandler<Port>;
/// Cookie, bytes of the buffer that came back, and result of an operation.
pub type End = (usize, Option<usize>, Result<(), OperationError>);
/// What stands in [`Notes::order`] for a message.
pub const GOT: usize = usize::MAX;

/// A message that went into a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Got {
    pub from: u32,
    pub header: Vec<u8>,
    /// All of the buffer, of which `len` bytes are the message's.
    pub memory: Vec<u8>,
    pub len: usize,
    pub total: usize,
    pub result: Result<(), OperationError>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Came {
    pub from: u32,
    pub offset: usize,
    pub data: Vec<u8>,
    pub is_last: bool,
    pub cookie: usize,
    pub result: Result<(), OperationError>,
}

#[derive(Default)]
pub struct Notes {
    pub got: Vec<Got>,
    pub parts: Vec<Came>,
    pub ends: Vec<End>,
    pub fetched: Vec<Fetched>,
    /// Cookies of ends, and [`GOT`] for each message.
    pub order: Vec<usize>,
    headers: Vec<Vec<u8>>,
}

type Call<T> = &'static (dyn Fn(&mut Active<Port>, T) + Sync);

/// The notes, and the callbacks that write them.
#[derive(Clone, Copy)]
pub struct Told {
    notes: &'static Mutex<Notes>,
    done: Call<Completion>,
    fetched: Call<Fetched>,
    received: Call<Received>,
    part: &'static (dyn Fn(&mut Active<Port>, &Part<'_>) + Sync),
}

impl Told {
    /// For messages that all come whole.
    pub fn new() -> Self {
        Self::which(true)
    }

    /// For messages that may end in the middle, or find too little room.
    pub fn torn() -> Self {
        Self::which(false)
    }

    fn which(whole: bool) -> Self {
        let notes: &'static Mutex<Notes> = leak(Mutex::default());
        let done = leak(move |_: &mut Active<Port>, completion: Completion| {
            let Completion { buffer, result, cookie, .. } = completion;
            let mut notes = notes.lock().unwrap();
            notes.ends.push((cookie, buffer.map(|buffer| buffer.len()), result));
            notes.order.push(cookie);
        });
        let fetched =
            leak(move |_: &mut Active<Port>, fetched: Fetched| notes.lock().unwrap().fetched.push(fetched));
        let received = leak(move |_: &mut Active<Port>, received: Received| {
            let Received { origin, buffer, len, total, result, cookie } = received;
            assert!(!whole || (len, result) == (total, Ok(())), "{len} of {total} bytes: {result:?}");
            let mut notes = notes.lock().unwrap();
            let (header, memory) = (notes.headers[cookie].clone(), buffer.as_slice().to_vec());
            notes.got.push(Got { from: origin.task(), header, memory, len, total, result });
            notes.order.push(GOT);
        });
        let part = leak(move |_: &mut Active<Port>, part: &Part<'_>| {
            assert!(!whole || part.result.is_ok(), "{:?}", part.result);
            let Part { origin, offset, data, result, cookie, .. } = *part;
            let (from, data, is_last) = (origin.task(), data.to_vec(), part.is_last());
            let came = Came { from, offset, data, is_last, cookie, result };
            notes.lock().unwrap().parts.push(came);
        });
        Self { notes, done, fetched, received, part }
    }

    pub fn notes(&self) -> MutexGuard<'static, Notes> {
        self.notes.lock().unwrap()
    }

    /// How many ends were told so far.
    pub fn len(&self) -> usize {
        self.notes().ends.len()
    }

    /// Those, in the order that they were told in.
    pub fn list(&self) -> Vec<End> {
        self.notes().ends.clone()
    }

    /// Their results, by cookie.
    pub fn results(&self) -> Vec<(usize, Result<(), OperationError>)> {
        let mut results: Vec<_> = self.list().into_iter().map(|end| (end.0, end.2)).collect();
        results.sort_by_key(|end| end.0);
        results
    }

    pub fn are_good(&self) -> bool {
        self.notes().ends.iter().all(|end| end.2.is_ok())
    }

    pub fn done(&self, cookie: usize) -> Option<Done<Port>> {
        Some(Done { call: self.done, cookie })
    }

    pub fn on_fetched(&self, cookie: usize) -> Option<OnFetched<Port>> {
        Some(OnFetched { call: self.fetched, cookie })
    }

    /// What becomes of a message with this header.
    pub fn on_received(&self, header: &[u8]) -> OnReceived<Port> {
        let mut notes = self.notes();
        notes.headers.push(header.to_vec());
        OnReceived { call: self.received, cookie: notes.headers.len() - 1 }
    }

    /// A handler's answer: into a buffer.
    pub fn whole(&self, message: &Message<'_>) -> Receive<Port> {
        Receive::Into(buffer(message.total), self.on_received(message.header))
    }

    /// A handler's answer: run by run, here one behind the other.
    pub fn runs(&self, message: &Message<'_>) -> Receive<Port> {
        Receive::Scatter(buffer(message.total), Layout::Contiguous, self.on_received(message.header))
    }

    /// A handler's answer: part by part.
    pub fn parts(&self, cookie: usize) -> Receive<Port> {
        Receive::Packets(OnPart { call: self.part, cookie })
    }

    /// A handler that takes messages into buffers.
    pub fn taker(self) -> Handler {
        handler(move |message| self.whole(message))
    }
}

/// A list of ends apart from a stage's, which stay when looked at, and what writes into it.
pub fn ends() -> (Told, impl Fn(usize) -> Option<Done<Port>> + Copy) {
    let told = Told::new();
    (told, move |cookie| told.done(cookie))
}

/// A handler that looks at messages only.
pub fn handler(take: impl Fn(&Message<'_>) -> Receive<Port> + Sync + 'static) -> Handler {
    leak(move |_: &mut Active<Port>, message: &Message<'_>| take(message))
}

/// A handler that wants all later.
pub fn always_later() -> DeferringHandler {
    leak(|_: &mut Active<Port>, _: &Message<'_>| None)
}
