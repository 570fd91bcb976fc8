//! How much a context has for collectives, and how much of one goes at a time.

use super::bulk::{LENT, PULLS};
use super::early::credit;
use crate::affinity::Domains;

/// How many collectives of one geometry a member runs at once, and how many it may be ahead of another by.
pub const WINDOW: u32 = 8;
/// A collective that has not moved for so long asks those that are to clear its data what they mean.
pub const PROBE_NS: u64 = 500_000_000;
/// Bytes that are reduced at a time, on the stack; an element is at most as long.
pub(super) const REDUCED_AT_ONCE: usize = 1024;
/// Bytes of what the members of a new geometry are told.
pub(super) const NOTE_BYTES: usize = 8;
/// Places that a geometry takes for one collective: for it, and the barrier that may go in front.
pub(super) const PLACES: usize = 2;

/// What each context of a client has for collectives. Without it a client has none, and they take no memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Geometries at a time, the world among them.
    pub geometries: usize,
    /// Collectives in flight, of all geometries together. One that is divided counts for each share that the endpoint has: at
    /// most 5; of a reduction whose root has more endpoints than another task, one for each of those. There is one place more
    /// than that, for the barrier that goes in front of some.
    pub in_flight: usize,
    /// So many geometries besides have room for one collective that is not divided, whatever is in flight: members that start
    /// those of at most one more than so many in different orders do not wait for each other in a circle (SPEC R-1).
    pub always: usize,
    /// Collectives that were called and find no room, of all geometries together: they wait for it. One more is refused,
    /// with [`CollectError::Full`](super::CollectError::Full); so one more than so many may be called and not done, whatever
    /// they take.
    pub queued: usize,
    /// Messages that may come before their collective, of [`SHORT_LIMIT`](super::SHORT_LIMIT) bytes each; the same at all
    /// tasks. Each endpoint of the client has its share of them; what goes beyond is asked for first, which takes longer.
    pub early: usize,
    /// The affinity domains of all tasks; `None`: those of the kernel's affinities.
    pub domains: Option<Domains<'static>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { geometries: 8, in_flight: 16, always: 15, queued: 16, early: 128, domains: None }
    }
}

impl Limits {
    /// Nothing.
    pub(crate) const NONE: Self =
        Self { geometries: 0, in_flight: 0, always: 0, queued: 0, early: 0, domains: None };

    /// Collectives, and parts of them, that are in flight at most, of all geometries.
    pub fn slots(&self) -> usize {
        if self.in_flight == 0 { 0 } else { self.in_flight + 1 + reserved(self.geometries, self.always, 0) }
    }

    /// Places for what is known of other endpoints: none if there are so many of them that nobody has credit.
    pub(crate) fn peer_states(&self, endpoints: usize) -> usize {
        let none = self.in_flight == 0 || credit(self.early, endpoints) == 0;
        if none { 0 } else { (2 * endpoints).next_power_of_two() }
    }

    /// Regions at a time.
    pub(crate) fn lent(&self) -> usize {
        if self.in_flight == 0 { 0 } else { LENT }
    }

    /// Gets at a time.
    pub(crate) fn pulls(&self) -> usize {
        if self.in_flight == 0 { 0 } else { PULLS }
    }

    /// Places for what is known of geometries that were destroyed, and of collectives that failed elsewhere: one of each, if there
    /// are collectives.
    pub(crate) fn heralds(&self) -> usize {
        usize::from(self.in_flight > 0)
    }

    /// Bytes of what members of new geometries are told.
    pub(crate) fn note_bytes(&self) -> usize {
        self.geometries * NOTE_BYTES
    }
}

/// Places that one of so many geometries leaves to others, of which `always` have room whatever is in flight, and have taken
/// so many of them.
pub(super) fn reserved(geometries: usize, always: usize, taken: usize) -> usize {
    (PLACES * geometries.saturating_sub(1).min(always)).saturating_sub(taken)
}
