//! What an origin waits for: values that targets are asked for, and requests of several operations.

use super::table::Windows;
use crate::data::Data;
use crate::error::{Error, Result};
use crate::library::fill;
use crate::request::{NONE, Requests};
use crate::status::Status;
use pami::Endpoint;
use pami::client::Node;

/// Values that a context can be waiting for at a time.
const ASKS: usize = 32;

/// Where a value goes.
pub(super) enum Wish {
    /// To these packed bytes of some data.
    Data { data: Data, skip: usize, len: usize },
    /// To who looks for it.
    Word(Option<Result<u64>>),
}

/// A value that a target was asked for.
pub(super) struct Ask {
    pub window: u8,
    pub rank: u32,
    pub target: Endpoint,
    /// The request that waits for it, or [`NONE`].
    pub request: u16,
    /// The target answers by a message.
    pub by_message: bool,
    pub wish: Wish,
}

/// What is left of a request.
#[derive(Clone, Copy)]
struct Parts {
    left: u32,
    error: Option<Error>,
}

/// The asks of a context.
#[derive(Default)]
pub(crate) struct Asks {
    places: &'static mut [Option<Ask>],
    parts: &'static mut [Parts],
}

impl Asks {
    pub(super) fn new<N: Node>(node: &N, requests: usize) -> Result<Self> {
        let asks = if requests == 0 { 0 } else { ASKS };
        Ok(Self {
            places: fill(node, asks, || None)?,
            parts: fill(node, requests, || Parts { left: 0, error: None })?,
        })
    }

    /// A free place.
    pub(super) fn free_place(&self) -> Option<usize> {
        self.places.iter().position(Option::is_none)
    }

    pub(super) fn put(&mut self, place: usize, ask: Ask) {
        if let Some(free) = self.places.get_mut(place) {
            *free = Some(ask);
        }
    }

    pub(super) fn get(&mut self, place: usize) -> Option<&mut Ask> {
        self.places.get_mut(place)?.as_mut()
    }

    pub(super) fn take(&mut self, place: usize) -> Option<Ask> {
        self.places.get_mut(place)?.take()
    }

    /// Whether a message of this target is waited for: it has room for one answer to each origin.
    pub(super) fn is_asked(&self, target: Endpoint) -> bool {
        self.places.iter().flatten().any(|ask| ask.by_message && ask.target == target)
    }

    /// Those that wait for a message: their places and targets.
    pub(super) fn by_message(&self) -> impl Iterator<Item = (usize, Endpoint)> + '_ {
        let asks = self.places.iter().enumerate();
        asks.filter_map(|(place, ask)| {
            ask.as_ref().filter(|ask| ask.by_message).map(|ask| (place, ask.target))
        })
    }

    /// A part more is to be waited for.
    pub(super) fn add_part(&mut self, request: u16) {
        if let Some(parts) = self.parts.get_mut(usize::from(request)) {
            parts.left += 1;
        }
    }

    /// A part of a request has ended, which may have been the last. Returns the error if nobody asks for it.
    pub(super) fn part_ended(
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

impl Windows {
    /// The target's value for an ask has come, or will not.
    pub(super) fn answered(&mut self, requests: &mut Requests, place: usize, value: Result<&[u8]>) {
        let Some(ask) = self.asks.get(place) else { return };
        let (window, rank, request, by_message) = (ask.window, ask.rank, ask.request, ask.by_message);
        let result = match &mut ask.wish {
            Wish::Data { data, skip, len } => value.and_then(|bytes| {
                let bytes = bytes.get(..*len).ok_or(Error::Win)?;
                Ok(data.unpack_bytes(*skip, bytes)?)
            }),
            Wish::Word(word) => {
                // Who looks for it frees the place.
                *word = Some(value.and_then(|bytes| {
                    let bytes = bytes.try_into().map_err(|_| Error::Win)?;
                    Ok(u64::from_ne_bytes(bytes))
                }));
                return;
            }
        };
        self.asks.take(place);
        if let Some(peer) = self.peer(window, rank) {
            peer.under_way = peer.under_way.saturating_sub(1);
            peer.served = peer.served.saturating_sub(u32::from(by_message));
        }
        if let Some(win) = self.win(window) {
            win.local = win.local.saturating_sub(1);
            win.remote = win.remote.saturating_sub(1);
        }
        if let Err(error) = self.asks.part_ended(requests, request, result)
            && let Some(win) = self.win(window)
        {
            win.error = win.error.or(Some(error));
        }
    }
}
