//! The memory of one context's engine.

use super::Destroyed;
use super::bulk::{BulkMemory, PullPlace};
use super::doomed::Unmade;
use super::early::{EarlyData, EarlyMemory, EarlySlot, PeerStatePlace};
use super::geometry::GeometryState;
use super::herald::Herald;
use super::limits::Limits;
use super::queue::QueueSlot;
use super::slot::CollectiveInFlight;
use crate::lending::LentRegionSlot;
use rings::shared::Shared;
use rings::slot_table;

/// The memory of one context's engine.
pub struct EngineMemory<A: 'static> {
    pub(super) slots: &'static mut [slot_table::Slot<CollectiveInFlight<A>>],
    pub(super) queue: &'static mut [QueueSlot<A>],
    pub(super) geometries: &'static mut [Option<GeometryState>],
    pub(super) always: usize,
    pub(super) early: EarlyMemory,
    pub(super) bulk: BulkMemory,
    pub(super) unmade: Option<&'static mut Unmade>,
    pub(super) destroyed: Option<&'static mut Destroyed>,
    pub(super) herald: Option<&'static mut Herald>,
    pub(super) notes: Option<Shared>,
}

impl<A> EngineMemory<A> {
    pub(crate) fn new(
        slots: &'static mut [slot_table::Slot<CollectiveInFlight<A>>],
        queue: &'static mut [QueueSlot<A>],
        // And how many of them are always there.
        (geometries, always): (&'static mut [Option<GeometryState>], usize),
        early: EarlyMemory,
        bulk: BulkMemory,
        (unmade, destroyed, herald): (&'static mut [Unmade], &'static mut [Destroyed], &'static mut [Herald]),
        notes: Option<Shared>,
    ) -> Self {
        let (unmade, destroyed, herald) = (unmade.first_mut(), destroyed.first_mut(), herald.first_mut());
        Self { slots, queue, geometries, always, early, bulk, unmade, destroyed, herald, notes }
    }

    /// Bytes that a context takes for it, of a client with so many endpoints.
    pub(crate) fn bytes(limits: &Limits, endpoints: usize) -> usize {
        limits.slots() * size_of::<slot_table::Slot<CollectiveInFlight<A>>>()
            + limits.queued * size_of::<QueueSlot<A>>()
            + limits.geometries * size_of::<Option<GeometryState>>()
            + limits.early * (size_of::<EarlySlot>() + size_of::<EarlyData>())
            + limits.peer_states(endpoints) * size_of::<PeerStatePlace>()
            + limits.lent() * size_of::<LentRegionSlot>()
            + limits.pulls() * size_of::<PullPlace>()
            + limits.heralds() * (size_of::<Unmade>() + size_of::<Destroyed>() + size_of::<Herald>())
            + limits.note_bytes()
    }
}
