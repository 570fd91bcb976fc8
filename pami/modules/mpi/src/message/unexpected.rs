//! Messages that came before their receive: their envelopes in the order of arrival, and the data of those that
//! brought it.
//!
//! Data lies in chunks. Every sender is held to what it was granted of them ([`credit`](super::credit)), so there is room for all
//! that comes.

use crate::envelope::{Envelope, Source};
use crate::error::Result;
use base::fill;
use pami::client::Node;
use pami::{Endpoint, OperationError};
use rings::list::{Link, List};
use rings::slot_table::{Slot, SlotTable};

/// Bytes of a chunk.
pub(crate) const CHUNK: usize = 256;

/// Chunks that so many bytes take.
pub(crate) fn chunks_of(len: usize) -> usize {
    len.div_ceil(CHUNK)
}

/// A message that waits.
pub(crate) struct Waiting {
    pub(crate) origin: Endpoint,
    pub(crate) envelope: Envelope,
    /// The request that has it although more is to come, which lasts until then; [`NONE`](crate::request::NONE) if nobody wants it.
    pub(crate) claimed: Option<u16>,
    pub(crate) data: UnexpectedData,
}

/// Where the data of a message that waits is.
pub(crate) enum UnexpectedData {
    /// It comes with the message.
    Here(Here),
    /// With the sender, who may have said where.
    There(Option<Source>),
}

/// Data that comes with its message.
#[derive(Default)]
pub(crate) struct Here {
    /// Bytes that have come.
    pub(crate) received: u32,
    /// No more comes.
    pub(crate) broken: Option<OperationError>,
    /// Chunks that it has or is to have.
    chunks: usize,
    data: List,
}

impl Waiting {
    /// Whether nothing of it is still to come.
    pub(crate) fn is_here(&self) -> bool {
        match &self.data {
            UnexpectedData::Here(here) => here.broken.is_some() || here.received >= self.envelope.len.get(),
            UnexpectedData::There(_) => true,
        }
    }

    /// Whether all of it is here.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(&self.data, UnexpectedData::Here(here) if here.broken.is_none() && here.received >= self.envelope.len.get())
    }
}

/// The unexpected messages of a context.
#[derive(Default)]
pub(crate) struct Unexpected {
    places: SlotTable<Waiting>,
    queue: List,
    bytes: &'static mut [u8],
    /// Of chunks.
    links: &'static mut [Link],
    free_chunks: List,
    /// Free chunks that no message under way is to have.
    spare: usize,
    /// Places for RTS, and how many of them are free.
    rts_places: usize,
    spare_rts: usize,
}

impl Unexpected {
    /// Room for so many messages with their data, for so many RTS, and for so many chunks of data.
    pub(crate) fn new<N: Node>(
        node: &N,
        (with_data, rts_places): (usize, usize),
        chunks: usize,
    ) -> Result<Self> {
        let places = SlotTable::new(fill(node, "unexpected messages", with_data + rts_places, Slot::new)?);
        let links = fill(node, "unexpected messages", chunks, Link::default)?;
        let mut free_chunks = List::EMPTY;
        (0..chunks as u32).for_each(|chunk| free_chunks.push(links, chunk));
        let bytes = fill(node, "unexpected messages", chunks * CHUNK, || 0)?;
        let (queue, spare, spare_rts) = (List::EMPTY, chunks, rts_places);
        Ok(Self { places, queue, bytes, links, free_chunks, spare, rts_places, spare_rts })
    }

    /// Places for RTS.
    pub(crate) fn rts_places(&self) -> usize {
        self.rts_places
    }

    pub(crate) fn get(&mut self, place: u32) -> Option<&mut Waiting> {
        self.places.get_mut(place)
    }

    /// The data of a message that came with it.
    pub(crate) fn here(&mut self, place: u32) -> Option<&mut Here> {
        match &mut self.places.get_mut(place)?.data {
            UnexpectedData::Here(here) => Some(here),
            UnexpectedData::There(_) => None,
        }
    }

    pub(crate) fn generation(&self, place: u32) -> u32 {
        self.places.key(place).map_or(0, |key| key.generation)
    }

    /// Puts a message last whose data comes with it; `None` without room.
    pub(crate) fn push(&mut self, origin: Endpoint, envelope: Envelope) -> Option<u32> {
        let chunks = chunks_of(envelope.len.get() as usize);
        let spare = self.spare.checked_sub(chunks)?;
        let number = self.add(origin, envelope, UnexpectedData::Here(Here { chunks, ..Here::default() }))?;
        self.spare = spare;
        Some(number)
    }

    /// Puts a message last that is here with data of one chunk. Returns whether there was room.
    #[inline(always)]
    pub(crate) fn push_piece(&mut self, origin: Endpoint, envelope: &Envelope, piece: &[u8]) -> bool {
        let Some(spare) = self.spare.checked_sub(1) else { return false };
        let Some(chunk) = self.free_chunks.first() else { return false };
        let start = chunk as usize * CHUNK;
        let Some(room) = self.bytes.get_mut(start..start + piece.len()) else { return false };
        room.copy_from_slice(piece);
        let mut data = List::EMPTY;
        let place = self.places.insert_with(|| {
            self.free_chunks.pop(self.links);
            data.push(self.links, chunk);
            let here = Here { received: piece.len() as u32, broken: None, chunks: 1, data };
            Waiting { origin, envelope: *envelope, claimed: None, data: UnexpectedData::Here(here) }
        });
        let Some(place) = place else { return false };
        self.spare = spare;
        self.queue.append(&mut self.places, place.index);
        true
    }

    /// Puts an RTS last; `None` without room.
    pub(crate) fn push_rts(
        &mut self,
        origin: Endpoint,
        envelope: Envelope,
        source: Option<Source>,
    ) -> Option<u32> {
        let spare_rts = self.spare_rts.checked_sub(1)?;
        let number = self.add(origin, envelope, UnexpectedData::There(source))?;
        self.spare_rts = spare_rts;
        Some(number)
    }

    fn add(&mut self, origin: Endpoint, envelope: Envelope, data: UnexpectedData) -> Option<u32> {
        let number = self.places.insert_with(|| Waiting { origin, envelope, claimed: None, data })?.index;
        self.queue.push(&mut self.places, number);
        Some(number)
    }

    /// Whether no message waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The first that `holds` holds for.
    pub(crate) fn find(&self, holds: impl Fn(&Waiting) -> bool) -> Option<u32> {
        self.queue.iter(&self.places).find(|&number| self.places.get(number).is_some_and(&holds))
    }

    /// Takes a message out of the queue; its place stays until [`free`](Self::free).
    pub(crate) fn unlink(&mut self, number: u32) {
        self.queue.remove(&mut self.places, number);
    }

    /// Adds data to a message. Returns whether there was room.
    pub(crate) fn store(&mut self, number: u32, data: &[u8]) -> bool {
        let mut rest = data;
        let Some(UnexpectedData::Here(here)) = self.places.get_mut(number).map(|waiting| &mut waiting.data)
        else {
            return false;
        };
        while !rest.is_empty() {
            let within = here.received as usize % CHUNK;
            if within == 0 {
                let Some(chunk) = self.free_chunks.pop(self.links) else { return false };
                here.data.push(self.links, chunk);
            }
            let Some(chunk) = here.data.last() else { return false };
            let (now, later) = rest.split_at(rest.len().min(CHUNK - within));
            let start = chunk as usize * CHUNK + within;
            let Some(room) = self.bytes.get_mut(start..start + now.len()) else { return false };
            room.copy_from_slice(now);
            here.received += now.len() as u32;
            rest = later;
        }
        true
    }

    /// The data of a message, if it lies in one chunk.
    #[inline]
    pub(crate) fn piece(&self, number: u32) -> Option<&[u8]> {
        let UnexpectedData::Here(here) = &self.places.get(number)?.data else { return None };
        let (chunk, len) = (here.data.first()? as usize, here.received as usize);
        if len > CHUNK { None } else { self.bytes.get(chunk * CHUNK..)?.get(..len) }
    }

    /// Hands the data of a message over, piece by piece: each with the place of its first byte.
    pub(crate) fn read(&self, number: u32, mut each: impl FnMut(usize, &[u8])) {
        let Some(UnexpectedData::Here(here)) = self.places.get(number).map(|waiting| &waiting.data) else {
            return;
        };
        let mut at = 0;
        for chunk in here.data.iter(self.links) {
            let start = chunk as usize * CHUNK;
            let now = CHUNK.min(here.received as usize - at);
            let Some(piece) = self.bytes.get(start..start + now) else { break };
            each(at, piece);
            at += now;
        }
    }

    /// Frees the place of a message that is out of the queue.
    pub(crate) fn free(&mut self, number: u32) {
        match self.places.remove(number).map(|waiting| waiting.data) {
            Some(UnexpectedData::Here(here)) => {
                self.spare += here.chunks;
                self.free_chunks.prepend(self.links, here.data);
            }
            Some(UnexpectedData::There(_)) => self.spare_rts += 1,
            None => {}
        }
    }
}
