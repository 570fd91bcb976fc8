//! What an origin waits for: values that targets are asked for, and requests of several operations.

use crate::data::Data;
use crate::error::{Error, Result};
use crate::request::{NONE, Requests};
use crate::status::Status;
use base::fill;
use pami::Endpoint;
use pami::client::Node;
use rings::slot_table::{Slot, SlotTable};

/// Values that a context can be waiting for at a time.
const FETCHES: usize = 32;

/// Where a value goes.
pub(crate) enum Destination {
    /// To these packed bytes of some data.
    Data { data: Data, skip: usize, len: usize },
    /// To who looks for it.
    Word(Option<Result<u64>>),
}

/// A value that a target was asked for.
pub(crate) struct Fetch {
    pub window: u8,
    pub rank: u32,
    pub target: Endpoint,
    /// The request that waits for it, or [`NONE`].
    pub request: u16,
    /// The target answers by a message.
    pub by_message: bool,
    pub destination: Destination,
}

/// What is left of a request.
#[derive(Clone, Copy)]
struct Parts {
    left: u32,
    error: Option<Error>,
}

/// What a context waits for.
#[derive(Default)]
pub(crate) struct Outstanding {
    places: SlotTable<Fetch>,
    parts: &'static mut [Parts],
}

impl Outstanding {
    pub(crate) fn new<N: Node>(node: &N, requests: usize) -> Result<Self> {
        let fetches = if requests == 0 { 0 } else { FETCHES };
        Ok(Self {
            places: SlotTable::new(fill(node, "windows", fetches, Slot::new)?),
            parts: fill(node, "windows", requests, || Parts { left: 0, error: None })?,
        })
    }

    /// A free place.
    pub(crate) fn free_place(&self) -> Option<usize> {
        self.places.vacant().map(|key| key.index as usize)
    }

    /// Puts a fetch into the free place.
    pub(crate) fn put(&mut self, fetch: Fetch) {
        let _ = self.places.insert(fetch);
    }

    pub(crate) fn get(&mut self, place: usize) -> Option<&mut Fetch> {
        self.places.get_mut(u32::try_from(place).ok()?)
    }

    pub(crate) fn take(&mut self, place: usize) -> Option<Fetch> {
        self.places.remove(u32::try_from(place).ok()?)
    }

    /// Whether a message of this target is waited for: it has room for one answer to each origin.
    pub(crate) fn awaits_message_of(&self, target: Endpoint) -> bool {
        self.places.iter().any(|(_, fetch)| fetch.by_message && fetch.target == target)
    }

    /// Those that wait for a message: their places and targets.
    pub(crate) fn by_message(&self) -> impl Iterator<Item = (usize, Endpoint)> + '_ {
        let fetches = self.places.iter().filter(|(_, fetch)| fetch.by_message);
        fetches.map(|(place, fetch)| (place as usize, fetch.target))
    }

    /// A part more is to be waited for.
    pub(crate) fn add_part(&mut self, request: u16) {
        if let Some(parts) = self.parts.get_mut(usize::from(request)) {
            parts.left += 1;
        }
    }

    /// A part of a request has ended, which may have been the last. Returns the error if nobody asks for it.
    pub(crate) fn part_ended(
        &mut self,
        requests: &mut Requests,
        request: u16,
        result: Result<()>,
    ) -> Result<()> {
        let Some(parts) = self.parts.get_mut(usize::from(request)).filter(|_| request != NONE) else {
            return result;
        };
        parts.error = parts.error.or(result.err());
        parts.left = parts.left.saturating_sub(1);
        if parts.left == 0 {
            let error = parts.error.take();
            requests.complete(request, Status { error, ..Status::EMPTY });
        }
        Ok(())
    }
}
