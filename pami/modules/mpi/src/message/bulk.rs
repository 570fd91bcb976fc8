//! The bulk way: the receiver pulls the data of an RTS by a get from a region of its sender's memory into that of the
//! receive (SPEC P-6, P-7). Nobody copies it but the message units; within a node it is copied once.
//!
//! ```text
//! sender                                      receiver
//!   RTS: envelope, region, offset, blocks ->    matched
//!          <--------------------------------  GET, carried out by the sender's message unit
//!   data, from where it lies -------------->  placed by the receiver's message unit
//!          <--------------------------------  CTS for no bytes: the memory is the sender's again
//! ```
//!
//! A rendezvous of PAMI's own would not do: it has one of 64 operations of the sender's context until it is matched, and all
//! sends behind it wait when those are taken. A message that is only an envelope and a region holds none of them, and is matched
//! here like all others (SPEC R-1).
//!
//! Data that the other side cannot describe, or that lies in blocks which a request each is too much for, goes after a CTS, as do
//! messages for which no region is left, and those that come while many are being pulled.

use super::At;
use super::depart::payload;
use crate::data::Span;
use crate::envelope::Source;
use crate::error::Result;
use crate::request::{Awaits, Progress, Sending};
use base::fill;
use pami::client::Node;
use pami::device::{OPERATIONS, Port};
use pami::layout::Cursor;
use pami::{Active, Get, Layout, Lending, LentRegionSlot, OperationError, Payload};

/// Messages that a context pulls at once: a node that does not answer is not to have all operations.
const PULLED_AT_ONCE: usize = OPERATIONS / 2;
/// Blocks of fewer bytes are packed by their sender.
const BLOCK: u32 = 512;

/// What a context has lent for messages under way, and how many messages it pulls itself.
#[derive(Default)]
pub(super) struct Bulk {
    lending: Lending,
    pulls: usize,
}

/// Whether every block is worth a request.
fn is_coarse(layout: &Layout, len: u32) -> bool {
    let block = BLOCK.min(len);
    match layout {
        Layout::Table(table, _) => table.runs().all(|run| run.block >= block),
        _ => layout.next_run(&mut Cursor::default(), len).is_some_and(|(_, run)| run >= block),
    }
}

impl Bulk {
    /// Room for so many regions.
    pub(super) fn new<N: Node>(node: &N, regions: usize) -> Result<Self> {
        Ok(Self { lending: Lending::new(fill(node, "regions", regions, LentRegionSlot::new)?), pulls: 0 })
    }

    /// Lets peers read some data in one of the regions: which, and where there.
    fn lend<P: Port>(&mut self, active: &mut Active<P>, data: &Span) -> Option<(u32, Source)> {
        let (Payload::Shared(memory, range), layout) = payload(data).ok()? else { return None };
        if !is_coarse(&layout, u32::try_from(data.bytes()).ok()?) {
            return None;
        }
        let (number, region) = active.lend(&mut self.lending, &memory)?;
        let source = Source::new(region, range.start, &layout);
        if source.is_none() {
            self.give_up(active, number);
        }
        Some((number, source?))
    }

    /// A message does not need its region any more.
    fn give_up<P: Port>(&mut self, active: &mut Active<P>, number: u32) {
        active.give_up_loan(&mut self.lending, number);
    }
}

impl<P: Port> At<'_, P> {
    /// What the RTS of a send says of its data, and the region that it has for that: of data that no packet has room for.
    pub(super) fn lend(&mut self, sending: &Sending) -> Option<(u32, Source)> {
        let long = sending.data.bytes() > self.active.immediate_limit();
        if long { self.messages.bulk.lend(self.active, &sending.data) } else { None }
    }

    /// A region that a send was given up for nothing.
    pub(super) fn give_up(&mut self, region: u32) {
        self.messages.bulk.give_up(self.active, region);
    }

    /// The send in a slot does not wait for a CTS any more: its region, if it has one, is given up.
    pub(super) fn give_up_region(&mut self, slot: u16) {
        if let Some(Awaits::Cts { region, .. }) = self.sending(slot).map(|sending| &mut sending.awaits)
            && let Some(region) = region.take()
        {
            self.give_up(region);
        }
    }

    /// Begins to pull the data of a receive's message to its places. Returns whether it did; the sender is to send it if not.
    pub(super) fn pull(&mut self, slot: u16, source: &Source) -> bool {
        let done = Some(self.callbacks.pulled(self.requests.cookie(slot)));
        let Some(receiving) = self.receiving(slot) else { return false };
        let Some(message) = receiving.message else { return false };
        let (at, into_layout) = receiving.data.layout();
        let (len, layout, room) = (message.envelope.len.get(), source.layout(), receiving.data.bytes());
        let coarse = is_coarse(&layout, len) && is_coarse(&into_layout, len);
        let (into, Ok(at)) = (receiving.data.memory().clone(), u32::try_from(at)) else { return false };
        if !coarse || len as usize > room || self.messages.bulk.pulls >= PULLED_AT_ONCE {
            return false;
        }
        let (region, offset) = (source.region, source.offset.get());
        let get = Get { target: message.origin, region, offset, layout, into, at, into_layout, len, done };
        if self.protocols.pull.execute(self.active, get).is_err() {
            return false;
        }
        self.messages.bulk.pulls += 1;
        self.note_progress(slot, Progress::Pulling);
        true
    }

    /// The data of a receive is in its places, or will not be.
    pub(crate) fn pulled(&mut self, cookie: usize, result: core::result::Result<(), OperationError>) {
        self.messages.bulk.pulls -= 1;
        if let Some(slot) = self.requests.of_cookie(cookie) {
            self.note_progress(slot, Progress::Pulled(result));
            self.tell(slot);
        }
    }

    fn note_progress(&mut self, slot: u16, progress: Progress) {
        if let Some(message) = self.receiving(slot).and_then(|receiving| receiving.message.as_mut()) {
            message.progress = progress;
        }
    }
}
