//! The sets of answers that are owed to one origin. An operation's bit is its place at the origin.

use super::FAULT_BITS;
use crate::device::OPERATIONS;
use crate::device::REQUESTS;
use crate::region::RegionFault;

/// The bit of the operation that has this message number at its origin; `None` if it is no operation's.
pub(crate) fn bit_of(message: u32) -> Option<u64> {
    let place = message as usize % REQUESTS;
    (place < OPERATIONS).then(|| 1 << place)
}

/// A kind of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owing {
    /// It has all of a message.
    Acks,
    /// It keeps a message.
    Admitted,
    /// It has not processed a message, and why.
    Refusals(RegionFault),
    /// No unexpected message holds a fence up any more.
    Fences,
}

/// Answers that are owed to one origin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Owed {
    /// Messages that it wants to hear of.
    acks: u64,
    /// Messages that are kept, of which it hears again.
    admitted: u64,
    /// Messages that were not processed, and in these bits why.
    refusals: u64,
    faults: [u64; FAULT_BITS],
    /// Fences that no unexpected message holds up any more.
    fences: u64,
    /// Callbacks of arrivals before this are called first.
    fence_order: u64,
}

impl Owed {
    /// Whether any is.
    pub(crate) fn any(&self) -> bool {
        self.all() != 0
    }

    /// All operations that hear something.
    pub(crate) fn all(&self) -> u64 {
        self.acks | self.admitted | self.refusals | self.fences
    }

    /// It has all of a message.
    pub(crate) fn acknowledge(&mut self, bit: u64) {
        self.acks |= bit;
        // It says as much.
        self.admitted &= !bit;
    }

    /// It keeps a message.
    pub(crate) fn admit(&mut self, bit: u64) {
        self.admitted |= bit;
    }

    /// It has not processed a message.
    pub(crate) fn refuse(&mut self, bit: u64, fault: RegionFault) {
        self.refusals |= bit;
        for (plane, set) in self.faults.iter_mut().enumerate() {
            *set = *set & !bit | if fault as usize >> plane & 1 == 1 { bit } else { 0 };
        }
    }

    /// The operations that hear this.
    #[inline]
    pub(crate) fn of(&self, owing: Owing) -> u64 {
        match owing {
            Owing::Acks => self.acks,
            Owing::Admitted => self.admitted,
            Owing::Refusals(fault) => self.refused_for(fault),
            Owing::Fences => self.fences,
        }
    }

    /// They have heard it.
    #[inline]
    pub(crate) fn told(&mut self, owing: Owing, set: u64) {
        let owed = match owing {
            Owing::Acks => &mut self.acks,
            Owing::Admitted => &mut self.admitted,
            Owing::Refusals(_) => &mut self.refusals,
            Owing::Fences => &mut self.fences,
        };
        *owed &= !set;
    }

    /// Whether some message was not processed.
    pub(crate) fn has_refused(&self) -> bool {
        self.refusals != 0
    }

    /// Callbacks of arrivals before this come before the answer to fences, if any are owed.
    pub(crate) fn fences_after(&self) -> Option<u64> {
        (self.fences != 0).then_some(self.fence_order)
    }

    /// Refusals for one reason.
    fn refused_for(&self, fault: RegionFault) -> u64 {
        let planes = self.faults.iter().enumerate();
        planes.fold(self.refusals, |set, (bit, &plane)| {
            set & if fault as usize >> bit & 1 == 1 { plane } else { !plane }
        })
    }

    /// Fences wait for the callbacks of what came before `order`.
    pub(crate) fn fence(&mut self, fences: u64, order: u64) {
        self.fences |= fences;
        self.fence_order = order;
    }
}
