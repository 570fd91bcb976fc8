//! Memory that is lent to peers, who get what lies there: the sending side of the bulk transfer (SPEC P-6, Q-2).
//!
//! A lender has memory registered once, whatever goes from there: its messages are counted, and the region ends with the last of
//! them, or with the lender. No two lenders have one region, so that none leaves another's data in reach. Collectives are lenders
//! each, as one that fails takes its memory back at once; messages of MPI are one together. What finds no place here, or no region,
//! goes in packets.
//!
//! A send, and a message that is processed, have no place here: they lend to one peer, once, and the operation itself is the place
//! of its region. That of a send may be memory that nobody writes, which has no handles to be found by.
//!
//! The getting side is one as far as it is the same, which is the port's [`push_get`](crate::device::Sending::push_get) and
//! [`get_local`](crate::device::RemoteMemory::get_local). What is remembered of a get is what its end is for, and that is an operation with
//! layouts and a callback ([`crate::get`], by which MPI gets), a receive request whose origin is to be told
//! ([`crate::receive_request`]), or a message of a collective (`collective/engine/bulk`). Each has numbers of its own, so that none
//! waits for another's.

use crate::region::RegionId;
use rings::shared::Shared;
use rings::slot_table::{Slot, SlotTable};

/// Memory that is lent.
pub struct LentRegion {
    lender: u32,
    memory: Shared,
    region: RegionId,
    /// Messages that say it. A collective's are not given up one by one: all its regions end with it.
    users: u32,
}

/// Room for one.
pub type LentRegionSlot = Slot<LentRegion>;

/// What is lent.
#[derive(Default)]
pub struct Lending(SlotTable<LentRegion>);

impl Lending {
    /// Room for so many regions.
    pub fn new(slots: &'static mut [LentRegionSlot]) -> Self {
        Self(SlotTable::new(slots))
    }

    /// The room, to lend from another time.
    pub(crate) fn into_slots(self) -> &'static mut [LentRegionSlot] {
        self.0.into_slots()
    }

    /// Regions that there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Lends memory for one message more. Returns the number of the loan, and the region, which `register` makes if the lender has
    /// none of that memory; `None` without room for it.
    pub(crate) fn lend(
        &mut self,
        lender: u32,
        memory: &Shared,
        register: impl FnOnce(&Shared) -> Option<RegionId>,
    ) -> Option<(u32, RegionId)> {
        let is_it = |loan: &LentRegion| loan.lender == lender && loan.memory.is_same(memory);
        let known = self.0.iter().find(|(_, loan)| is_it(loan)).map(|(number, _)| number);
        let number = match known {
            Some(number) => number,
            None => {
                self.0.vacant()?;
                let region = register(memory)?;
                let loan = LentRegion { lender, memory: memory.clone(), region, users: 0 };
                // There is room.
                self.0.insert(loan).ok()?.index
            }
        };
        let loan = self.0.get_mut(number)?;
        loan.users += 1;
        Some((number, loan.region))
    }

    /// A message does not need its loan any more. Returns its region, to be deregistered, if it was the last.
    #[must_use]
    pub(crate) fn give_up(&mut self, number: u32) -> Option<RegionId> {
        let loan = self.0.get_mut(number)?;
        loan.users -= 1;
        if loan.users > 0 { None } else { self.take(number) }
    }

    /// Ends a loan of this lender, whoever needs it. Returns its region, which is to be deregistered; `None`: there is none left.
    #[must_use]
    pub(crate) fn take_back(&mut self, lender: u32) -> Option<RegionId> {
        let (number, _) = self.0.iter().find(|(_, loan)| loan.lender == lender)?;
        self.take(number)
    }

    fn take(&mut self, number: u32) -> Option<RegionId> {
        self.0.remove(number).map(|loan| loan.region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rings::buffer::Buffer;
    use std::vec::Vec;

    fn lending(regions: usize) -> Lending {
        Lending::new(Vec::from_iter((0..regions).map(|_| Slot::new())).leak())
    }

    fn memory() -> Shared {
        Buffer::new(Vec::from([0; 1024]).leak()).unwrap().share()
    }

    fn region(index: u32) -> RegionId {
        RegionId { index: index.into(), generation: 1.into() }
    }

    #[test]
    fn q2_messages_of_a_lender_from_one_memory_have_one_region_which_ends_with_the_last() {
        let mut lending = lending(2);
        let memory = memory();
        let (number, first) = lending.lend(0, &memory, |_| Some(region(7))).unwrap();
        for _ in 0..2 {
            let again = lending.lend(0, &memory.clone(), |_| panic!("it is registered"));
            assert_eq!(again, Some((number, first)));
        }
        assert_eq!([0; 3].map(|_| lending.give_up(number)), [None, None, Some(region(7))]);
        assert_eq!(lending.len(), 0);
        assert!(memory.reclaim().is_ok(), "nobody has it any more");
    }

    #[test]
    fn q2_what_a_lender_takes_back_is_no_other_lenders() {
        let mut lending = lending(3);
        let (one, other) = (memory(), memory());
        for (lender, memory, index) in [(4, &one, 1), (5, &one, 2), (4, &other, 3)] {
            assert_eq!(lending.lend(lender, memory, |_| Some(region(index))).unwrap().1, region(index));
        }
        let mut back = Vec::from_iter(core::iter::from_fn(|| lending.take_back(4)));
        back.sort_by_key(|region| region.index.get());
        assert_eq!(back, [region(1), region(3)]);
        assert_eq!((lending.take_back(4), lending.take_back(5)), (None, Some(region(2))));
    }

    #[test]
    fn r1_without_room_or_region_nothing_is_lent() {
        let mut lending = lending(1);
        let one = memory();
        assert_eq!(lending.lend(0, &one, |_| None), None);
        assert_eq!(lending.len(), 0);
        let (number, _) = lending.lend(0, &one, |_| Some(region(1))).unwrap();
        assert_eq!(lending.lend(0, &memory(), |_| panic!("there is no room")), None);
        assert_eq!(lending.give_up(number), Some(region(1)));
        assert!(lending.lend(0, &memory(), |_| Some(region(2))).is_some());
    }
}
