//! Long data of collectives, by the one bulk transfer: it lies in a region of its sender's, and its receiver gets it from there
//! to where it is wanted (SPEC Q-2). Nobody copies it but the message units; within a node it is copied once.
//!
//! ```text
//! sender                                      receiver
//!          <--------------------------------  clear: the receive is there
//!   offer: region, offset ----------------->
//!          <--------------------------------  GET, carried out by the sender's message unit
//!   data, from where it lies -------------->  placed by the receiver's message unit
//!          <--------------------------------  taken: the memory is the sender's again
//! ```
//!
//! A region is memory of a collective ([`crate::lending`]), whatever is sent of it; it ends before the collective's callback
//! is called, as do gets into an area, so nobody writes the memory then, however it ended. Data goes in packets, copied into them
//! and out, if one has room for all of it, or where there is no region for it: because the node has none left, or so many regions
//! of this context's collectives are in use.

use crate::device::{Port, REQUESTS};
use crate::endpoint::Endpoint;
use crate::lending::{Lending, LentRegionSlot};
use crate::region::{Memory, RegionId, Rights};
use crate::transport::message_number;
use rings::shared::Shared;

/// Gets of collectives of a context that can be under way at once. Message units answer them: none waits for a call of an
/// application, but for a hart of the node that runs its message unit.
pub(crate) const PULLS: usize = 8;
/// Number of the first one's request.
pub(crate) const FIRST_PULL: usize = REQUESTS - PULLS;
/// Bytes of a message that one look at it reduces or copies: an advance stays short.
pub(super) const BYTES_PER_ADVANCE: usize = 64 << 10;
/// Regions of collectives of a context at a time.
pub(crate) const LENT: usize = 32;

/// A get under way.
#[derive(Clone, Copy)]
pub(crate) struct Pull {
    /// The collective's place among those in flight.
    pub(super) slot: u32,
    /// The message.
    pub(super) from: Endpoint,
    pub(super) tag: u32,
    /// The node that it lies on.
    pub(super) node: u32,
    pub(super) message: u32,
}

/// A place for a get.
pub(crate) type PullPlace = Option<Pull>;

/// Memory for what is lent and for gets.
pub(crate) struct BulkMemory {
    pub(crate) lent: &'static mut [LentRegionSlot],
    pub(crate) pulls: &'static mut [PullPlace],
}

/// What the collectives of a context have lent, and pull.
pub(super) struct Bulk {
    /// Each collective, by its place among those in flight, is a lender.
    lending: Lending,
    pulls: &'static mut [PullPlace],
    /// Gets under way, and regions: one number, as each collective that ends looks at it.
    used: usize,
    /// Gets so far: what tells one from those before it in its place. Nothing else goes by their order.
    begun: u64,
}

impl Bulk {
    pub(super) fn new(memory: BulkMemory) -> Self {
        Self { lending: Lending::new(memory.lent), pulls: memory.pulls, used: 0, begun: 0 }
    }

    pub(super) fn into_memory(self) -> BulkMemory {
        BulkMemory { lent: self.lending.into_slots(), pulls: self.pulls }
    }

    /// The region of a collective's memory, which is made if there is none.
    pub(super) fn lend<P: Port>(&mut self, slot: u32, memory: &Shared, port: &mut P) -> Option<RegionId> {
        u32::try_from(memory.len()).ok()?;
        let register = |memory: &Shared| port.register(Memory::Shared(memory.clone()), Rights::READ).ok();
        let before = self.lending.len();
        let lent = self.lending.lend(slot, memory, register);
        self.used += self.lending.len() - before;
        lent.map(|(_, region)| region)
    }

    /// Whether no collective that is over has to wait, or has lent anything.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Has nobody reach into the memory of a collective that is over. Returns whether so it is: its gets must have ended.
    #[cold]
    pub(super) fn take_back<P: Port>(&mut self, slot: u32, port: &mut P) -> bool {
        if self.pulls.iter().flatten().any(|pull| pull.slot == slot) {
            return false;
        }
        while let Some(region) = self.lending.take_back(slot) {
            port.deregister(region);
            self.used -= 1;
        }
        true
    }

    /// Begins to get a message, if a get may be begun and `push` queues it under the number that it is handed. Returns whether it
    /// did.
    pub(super) fn pull<E>(
        &mut self,
        (slot, from, tag, node): (u32, Endpoint, u32, u32),
        push: impl FnOnce(u32) -> Result<(), E>,
    ) -> bool {
        let Some(at) = self.pulls.iter().position(Option::is_none) else { return false };
        let message = message_number(self.begun, FIRST_PULL + at);
        let queued = push(message).is_ok();
        if queued {
            self.pulls[at] = Some(Pull { slot, from, tag, node, message });
            self.used += 1;
            self.begun += 1;
        }
        queued
    }

    /// Takes the get that has this number out.
    pub(super) fn end(&mut self, message: u32) -> Option<Pull> {
        self.take(|pull| pull.message == message)
    }

    /// Takes one out whose end is not told, as its node is `gone`.
    pub(super) fn take_lost(&mut self, gone: impl Fn(u32) -> bool) -> Option<Pull> {
        self.take(|pull| gone(pull.node))
    }

    fn take(&mut self, wanted: impl Fn(&Pull) -> bool) -> Option<Pull> {
        let place = self.pulls.iter_mut().find(|pull| pull.as_ref().is_some_and(&wanted))?;
        self.used -= 1;
        place.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{ClientId, ContextOffset};
    use std::vec::Vec;

    #[test]
    fn q2_f1_only_a_get_that_is_begun_takes_a_number_and_no_two_have_one() {
        let pulls = Vec::from_iter((0..PULLS).map(|_| None)).leak();
        let mut bulk = Bulk::new(BulkMemory { lent: &mut [], pulls });
        let what = (0, Endpoint::from_parts(ClientId(0), 1, ContextOffset(0)), 0, 1);
        let mut numbers = Vec::new();
        for round in 0..3 {
            for _ in 0..PULLS {
                // Whatever number is tried in vain is tried again.
                let mut tried = Vec::new();
                for _ in 0..5 {
                    assert!(!bulk.pull(what, |number| {
                        tried.push(number);
                        Err(())
                    }));
                }
                assert!(bulk.pull(what, |number| {
                    tried.push(number);
                    Ok::<_, ()>(())
                }));
                assert!(tried.iter().all(|number| number == &tried[0]), "{tried:?}");
                numbers.push(tried[0]);
            }
            assert!(!bulk.pull(what, |_| Ok::<_, ()>(())), "all are under way");
            numbers[round * PULLS..].iter().for_each(|&number| assert!(bulk.end(number).is_some()));
            assert!(numbers.iter().all(|&number| bulk.end(number).is_none()), "one end each");
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 3 * PULLS);
    }
}
