//! How much a context has for collectives.

use super::network::NOTE_BYTES;
use super::slots::reserved;
use super::{EarlyPlace, Entry, LanePlace, Slot};
use crate::affinity::Domains;
use crate::device::Port;
use rings::shared::Shared;

/// What each context of a client has for collectives. Without it a client has none, and they take no memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Geometries at a time, the world among them.
    pub geometries: usize,
    /// Collectives in flight, of all geometries together. One that is divided counts for each share that the endpoint has: at
    /// most [`SERVERS`](super::SERVERS) and one. There is one place more than that, for the barrier that goes in front of some.
    pub in_flight: usize,
    /// So many geometries besides have room for one collective that is not divided, whatever is in flight: members that start
    /// those of one more than so many in different orders do not wait for each other in a circle (SPEC R-1).
    pub always: usize,
    /// Messages that may come before their collective, of [`SHORT_LIMIT`](super::SHORT_LIMIT) bytes each; the same at all
    /// tasks. Each endpoint of the client has its share of them; what goes beyond is asked for first, which takes longer.
    pub early: usize,
    /// The affinity domains of all tasks; `None`: those of the kernel's affinities.
    pub domains: Option<Domains<'static>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { geometries: 8, in_flight: 16, always: 15, early: 128, domains: None }
    }
}

/// The memory of one context's engine.
pub struct Memory<P: Port> {
    pub(super) slots: &'static mut [Option<Slot<P>>],
    pub(super) geometries: &'static mut [Option<Entry>],
    pub(super) always: usize,
    pub(super) early: &'static mut [EarlyPlace],
    pub(super) lanes: &'static mut [LanePlace],
    pub(super) notes: Option<Shared>,
}

impl Limits {
    /// Nothing.
    pub(crate) const NONE: Self = Self { geometries: 0, in_flight: 0, always: 0, early: 0, domains: None };

    /// Bytes that a context takes for it, of a client with so many endpoints.
    pub fn bytes<P: Port>(&self, endpoints: usize) -> usize {
        self.slots() * size_of::<Option<Slot<P>>>()
            + self.geometries * size_of::<Option<Entry>>()
            + self.early * size_of::<EarlyPlace>()
            + self.lanes(endpoints) * size_of::<LanePlace>()
            + self.note_bytes()
    }

    /// Collectives, and parts of them, that are in flight at most, of all geometries.
    pub fn slots(&self) -> usize {
        if self.in_flight == 0 { 0 } else { self.in_flight + 1 + reserved(self.geometries, self.always, 0) }
    }

    /// Places for what is known of other endpoints.
    pub(crate) fn lanes(&self, endpoints: usize) -> usize {
        if self.in_flight == 0 { 0 } else { (2 * endpoints).next_power_of_two() }
    }

    /// Bytes of what members of new geometries are told.
    pub(crate) fn note_bytes(&self) -> usize {
        self.geometries * NOTE_BYTES
    }
}

impl<P: Port> Memory<P> {
    pub(crate) fn new(
        slots: &'static mut [Option<Slot<P>>],
        geometries: &'static mut [Option<Entry>],
        always: usize,
        early: &'static mut [EarlyPlace],
        lanes: &'static mut [LanePlace],
        notes: Option<Shared>,
    ) -> Self {
        Self { slots, geometries, always, early, lanes, notes }
    }
}
