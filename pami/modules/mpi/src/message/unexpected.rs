//! Messages that came before their receive: their envelopes in the order of arrival, and the data of those that
//! brought it.
//!
//! Data lies in chunks. Every sender has a share of them which it never uses more of, so there is room for all that
//! comes.

use crate::envelope::{Envelope, RTS};
use crate::error::Result;
use crate::memory::fill;
use pami::client::Node;
use pami::{Endpoint, OperationError};

/// Bytes of a chunk.
pub(crate) const CHUNK: usize = 256;
/// End of a list.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Chunks that so many bytes take.
pub(crate) fn chunks_of(len: usize) -> usize {
    len.div_ceil(CHUNK)
}

/// A message that waits.
pub(crate) struct Waiting {
    pub(crate) origin: Endpoint,
    pub(crate) envelope: Envelope,
    /// Bytes that have come.
    pub(crate) received: u32,
    /// No more comes.
    pub(crate) broken: Option<OperationError>,
    /// The request that has it although more is to come.
    pub(crate) claimed: Option<u16>,
    /// Chunks that it has or is to have.
    chunks: usize,
    first: u32,
    last: u32,
}

impl Waiting {
    /// Whether nothing of it is still to come.
    pub(crate) fn is_here(&self) -> bool {
        let rts = self.envelope.has(RTS);
        rts || self.broken.is_some() || self.received >= self.envelope.len.get()
    }
}

struct Place {
    generation: u32,
    /// Next in the queue, or next free one.
    next: u32,
    waiting: Option<Waiting>,
}

/// The unexpected messages of a context.
pub(crate) struct Unexpected {
    places: &'static mut [Place],
    free: u32,
    head: u32,
    tail: u32,
    bytes: &'static mut [u8],
    links: &'static mut [u32],
    free_chunk: u32,
    /// Free chunks that no message under way is to have.
    spare: usize,
    /// Places for RTS, and how many of them are free.
    rts_places: usize,
    spare_rts: usize,
}

impl Default for Unexpected {
    fn default() -> Self {
        Self {
            places: &mut [],
            free: NOWHERE,
            head: NOWHERE,
            tail: NOWHERE,
            bytes: &mut [],
            links: &mut [],
            free_chunk: NOWHERE,
            spare: 0,
            rts_places: 0,
            spare_rts: 0,
        }
    }
}

impl Unexpected {
    /// Room for so many messages with their data, for so many RTS, and for so many chunks of data.
    pub(crate) fn new<N: Node>(
        node: &N,
        (with_data, rts_places): (usize, usize),
        chunks: usize,
    ) -> Result<Self> {
        let messages = with_data + rts_places;
        let after = |at: usize, len: usize| if at + 1 < len { at as u32 + 1 } else { NOWHERE };
        let (mut place, mut chunk) = (0, 0);
        let places = fill(node, messages, || {
            place += 1;
            Place { generation: 0, next: after(place - 1, messages), waiting: None }
        })?;
        let links = fill(node, chunks, || {
            chunk += 1;
            after(chunk - 1, chunks)
        })?;
        let bytes = fill(node, chunks * CHUNK, || 0)?;
        let first = |len: usize| if len > 0 { 0 } else { NOWHERE };
        let (free, free_chunk) = (first(messages), first(chunks));
        let spare_rts = rts_places;
        Ok(Self {
            places,
            free,
            bytes,
            links,
            free_chunk,
            spare: chunks,
            rts_places,
            spare_rts,
            ..Self::default()
        })
    }

    /// Places for RTS.
    pub(crate) fn rts_places(&self) -> usize {
        self.rts_places
    }

    pub(crate) fn get(&mut self, place: u32) -> Option<&mut Waiting> {
        self.places.get_mut(place as usize)?.waiting.as_mut()
    }

    pub(crate) fn generation(&self, place: u32) -> u32 {
        self.places.get(place as usize).map_or(0, |place| place.generation)
    }

    /// Puts a message last, of which so many bytes come now; `None` without room.
    pub(crate) fn push(&mut self, origin: Endpoint, envelope: Envelope, len: usize) -> Option<u32> {
        let number = self.free;
        let spare_rts = self.spare_rts.checked_sub(envelope.has(RTS).into())?;
        let spare = self.spare.checked_sub(chunks_of(len))?;
        let place = self.places.get_mut(number as usize)?;
        self.spare = spare;
        self.spare_rts = spare_rts;
        self.free = place.next;
        place.next = NOWHERE;
        place.waiting = Some(Waiting {
            origin,
            envelope,
            received: 0,
            broken: None,
            claimed: None,
            chunks: chunks_of(len),
            first: NOWHERE,
            last: NOWHERE,
        });
        match self.places.get_mut(self.tail as usize) {
            Some(last) => last.next = number,
            None => self.head = number,
        }
        self.tail = number;
        Some(number)
    }

    /// The first that `holds` holds for.
    pub(crate) fn find(&self, holds: impl Fn(&Waiting) -> bool) -> Option<u32> {
        let mut number = self.head;
        while let Some(place) = self.places.get(number as usize) {
            if place.waiting.as_ref().is_some_and(&holds) {
                return Some(number);
            }
            number = place.next;
        }
        None
    }

    /// Takes a message out of the queue; its place stays until [`free`](Self::free).
    pub(crate) fn unlink(&mut self, number: u32) {
        let (mut before, mut at) = (NOWHERE, self.head);
        while at != number {
            let Some(place) = self.places.get(at as usize) else { return };
            (before, at) = (at, place.next);
        }
        let next = self.places.get(number as usize).map_or(NOWHERE, |place| place.next);
        match self.places.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        if self.tail == number {
            self.tail = before;
        }
    }

    /// Adds data to a message. Returns whether there was room.
    pub(crate) fn store(&mut self, number: u32, data: &[u8]) -> bool {
        let mut rest = data;
        let Some(waiting) = self.places.get_mut(number as usize).and_then(|place| place.waiting.as_mut())
        else {
            return false;
        };
        while !rest.is_empty() {
            let within = waiting.received as usize % CHUNK;
            if within == 0 {
                let chunk = self.free_chunk;
                let Some(link) = self.links.get_mut(chunk as usize) else { return false };
                self.free_chunk = core::mem::replace(link, NOWHERE);
                match self.links.get_mut(waiting.last as usize) {
                    Some(last) => *last = chunk,
                    None => waiting.first = chunk,
                }
                waiting.last = chunk;
            }
            let (now, later) = rest.split_at(rest.len().min(CHUNK - within));
            let start = waiting.last as usize * CHUNK + within;
            let Some(room) = self.bytes.get_mut(start..start + now.len()) else { return false };
            room.copy_from_slice(now);
            waiting.received += now.len() as u32;
            rest = later;
        }
        true
    }

    /// Hands the data of a message over, piece by piece: each with the place of its first byte.
    pub(crate) fn read(&self, number: u32, mut each: impl FnMut(usize, &[u8])) {
        let waiting = self.places.get(number as usize).and_then(|place| place.waiting.as_ref());
        let Some(waiting) = waiting else { return };
        let (mut at, mut chunk) = (0, waiting.first);
        while at < waiting.received as usize {
            let now = CHUNK.min(waiting.received as usize - at);
            let start = chunk as usize * CHUNK;
            let Some(piece) = self.bytes.get(start..start + now) else { break };
            each(at, piece);
            at += now;
            chunk = self.links.get(chunk as usize).copied().unwrap_or(NOWHERE);
        }
    }

    /// Frees the place of a message that is out of the queue.
    pub(crate) fn free(&mut self, number: u32) {
        let free = self.free;
        let Some(place) = self.places.get_mut(number as usize) else { return };
        let Some(waiting) = place.waiting.take() else { return };
        place.generation = place.generation.wrapping_add(1);
        place.next = free;
        self.spare += waiting.chunks;
        self.spare_rts += usize::from(waiting.envelope.has(RTS));
        self.free = number;
        if let Some(last) = self.links.get_mut(waiting.last as usize) {
            *last = self.free_chunk;
            self.free_chunk = waiting.first;
        }
    }
}
