//! Messages that are half-way in: what has come of each, and where the rest goes.
//!
//! Packets of one origin come in order, and an origin sends one message at a time to each target. So the state
//! of messages in flight is one entry for each origin that is in the middle of one, found by hashing the origin.
//! In a job of so few endpoints that each is sure of a place, messages come as they are. In a larger one those of more than
//! one packet ask to be let in ([`crate::admission`]): when all places are taken they stay with their origins.

use crate::dispatch::{OnPart, OnReceived, Receive};
use crate::endpoint::Endpoint;
use crate::layout::{Cursor, Layout};
use crate::packet::Kind;
use rings::buffer::Buffer;
use rings::open_addressing as table;

/// What becomes of a message's data.
pub(crate) enum Sink<A: 'static> {
    Discard,
    Into(Buffer, OnReceived<A>),
    Scatter(Scatter, OnReceived<A>),
    Packets(OnPart<A>),
    /// The place of the unexpected queue with this number.
    Unexpected(u8),
}

/// What a handler wants of a message.
pub(crate) enum Wish<A: 'static> {
    Take(Receive<A>),
    /// To be asked later.
    Defer,
    /// There is no handler.
    Nobody,
}

/// What the origin is told when all of an eager message is in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owes {
    Nothing,
    /// That it is, and it hears no more of it.
    Ack,
    /// That it is kept; and when it is accepted, that.
    Both,
}

impl Owes {
    /// For a message that is taken.
    pub(crate) fn taken(kind: Kind) -> Self {
        if kind == Kind::EagerFirst { Self::Nothing } else { Self::Ack }
    }

    /// For one that is kept.
    pub(crate) fn unexpected(kind: Kind) -> Self {
        if kind == Kind::AskedAcked { Self::Both } else { Self::taken(kind) }
    }
}

/// Data on its way to places in a buffer.
pub(crate) struct Scatter {
    buffer: Buffer,
    layout: Layout,
    cursor: Cursor,
    placed: usize,
    /// Something did not fit.
    over: bool,
}

impl Scatter {
    pub(crate) fn new(buffer: Buffer, layout: Layout) -> Self {
        Self { buffer, layout, cursor: Cursor::default(), placed: 0, over: false }
    }

    /// The buffer, and how many bytes were placed.
    pub(crate) fn into_placed(self) -> (Buffer, usize) {
        (self.buffer, self.placed)
    }

    pub(crate) fn place(&mut self, data: &[u8]) {
        let mut rest = data;
        while !rest.is_empty() && !self.over {
            let run = self.layout.next_run(&mut self.cursor, rest.len() as u32);
            let room = run.and_then(|(offset, len)| {
                let offset = offset as usize;
                self.buffer.as_mut_slice().get_mut(offset..offset.checked_add(len as usize)?)
            });
            let Some(room) = room.filter(|room| room.len() <= rest.len()) else {
                self.over = true;
                return;
            };
            let (now, later) = rest.split_at(room.len());
            room.copy_from_slice(now);
            self.placed += now.len();
            rest = later;
        }
    }
}

/// A message of which some data is still to come.
pub(crate) struct Partial<A: 'static> {
    pub(crate) origin: Endpoint,
    pub(crate) message: u32,
    pub(crate) received: u32,
    pub(crate) total: u32,
    pub(crate) owes: Owes,
    pub(crate) sink: Sink<A>,
}

/// One place in the table of messages in flight; its size is what a context's memory is reckoned by.
pub(crate) type HalfSlot<A> = Option<Partial<A>>;

/// Most places for half messages of a context.
pub const HALVES_LIMIT: usize = 128;

/// Places for half messages of a context that so many endpoints may send to: a power of two, and `most` at most unless that is
/// none.
pub(crate) fn places(endpoints: usize, most: usize) -> usize {
    (2 * endpoints).min(most).next_power_of_two()
}

/// The messages in flight towards one context.
pub(crate) struct Incoming<A: 'static> {
    places: &'static mut [HalfSlot<A>],
    used: usize,
    /// There is not a place for every endpoint, at any task of the job.
    crowded: bool,
}

impl<A: 'static> Incoming<A> {
    /// Takes a table of [`places`] for so many endpoints.
    pub(crate) fn new(places: &'static mut [HalfSlot<A>], endpoints: usize) -> Self {
        let crowded = 2 * endpoints > places.len();
        Self { places, used: 0, crowded }
    }

    /// Whether there is not a place for every endpoint, at any task of the job.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Whether one more message can be in flight.
    pub(crate) fn has_room(&self) -> bool {
        self.used < self.places.len()
    }

    /// Whether one more can be of those for which `is_own`: while places are scarce those have at most half of what others leave,
    /// so who stands still leaves places to others.
    pub(crate) fn has_room_for(&self, is_own: impl Fn(Endpoint) -> bool) -> bool {
        let free = self.places.len() - self.used;
        if free > self.places.len() / 2 {
            return true;
        }
        let own = self.places.iter().flatten().filter(|partial| is_own(partial.origin)).count();
        free > 0 && own < (own + free).div_ceil(2)
    }

    /// Whether no message is in flight.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.used == 0
    }

    pub(crate) fn into_places(self) -> &'static mut [HalfSlot<A>] {
        self.places
    }

    /// Whether `origin` is in the middle of a message.
    pub(crate) fn has(&self, origin: Endpoint) -> bool {
        self.get(origin).is_some()
    }

    /// The message that `origin` is in the middle of.
    pub(crate) fn get(&self, origin: Endpoint) -> Option<&Partial<A>> {
        self.places[self.find(origin)?].as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Partial<A>> {
        self.places.iter().flatten().take(self.used)
    }

    /// An origin that is in the middle of a message and for which `holds` holds.
    pub(crate) fn find_origin(&self, holds: impl Fn(Endpoint) -> bool) -> Option<Endpoint> {
        self.iter().map(|entry| entry.origin).find(|&origin| holds(origin))
    }

    /// The place that holds `origin`'s entry, or else the free one where it belongs.
    fn find(&self, origin: Endpoint) -> Option<usize> {
        let ways = table::ways(self.places.len(), origin.home());
        table::find(self.places, ways, |entry| entry.origin == origin)
    }

    pub(crate) fn take(&mut self, origin: Endpoint) -> Option<Partial<A>> {
        if self.used == 0 {
            return None;
        }
        let at = self.find(origin)?;
        let taken = table::remove(self.places, at, |entry| entry.origin.home())?;
        self.used -= 1;
        Some(taken)
    }

    /// Returns whether there was room.
    pub(crate) fn put(&mut self, entry: Partial<A>) -> bool {
        let Some(at) = self.find(entry.origin) else { return false };
        self.used += usize::from(self.places[at].is_none());
        self.places[at] = Some(entry);
        true
    }
}
