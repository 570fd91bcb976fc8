//! The table of the collectives in flight of a context, which costs by what is in flight, not by its size; and who has room
//! in it.

use super::Engine;
use super::limits::{PLACES, reserved};
use super::slot::CollectiveInFlight;
use rings::list::{Link, Links, List};
use rings::slot_table::{self, SlotTable};

/// The table. The slot of a collective that is over stays where it is until another one takes it, which writes what
/// differs: most of a slot is room that is written before it is read.
pub(super) struct Slots<A: 'static> {
    table: SlotTable<CollectiveInFlight<A>>,
    /// Those of collectives that are over, the last one first.
    resting: List,
    in_use: usize,
}

impl<A> Links for Slots<A> {
    #[inline]
    fn link(&self, number: u32) -> Option<&Link> {
        self.table.link(number)
    }

    #[inline]
    fn link_mut(&mut self, number: u32) -> Option<&mut Link> {
        self.table.link_mut(number)
    }
}

impl<A> Slots<A> {
    pub(super) fn new(slots: &'static mut [slot_table::Slot<CollectiveInFlight<A>>]) -> Self {
        Self { table: SlotTable::new(slots), resting: List::EMPTY, in_use: 0 }
    }

    pub(super) fn into_slots(self) -> &'static mut [slot_table::Slot<CollectiveInFlight<A>>] {
        self.table.into_slots()
    }

    /// Collectives that there can be in flight.
    pub(super) fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Those that are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.in_use
    }

    /// Whether none is.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.in_use == 0
    }

    /// The one in a slot.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&CollectiveInFlight<A>> {
        self.table.get(number).filter(|slot| !slot.rests())
    }

    /// The same.
    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut CollectiveInFlight<A>> {
        self.table.get_mut(number).filter(|slot| !slot.rests())
    }

    /// All, by the numbers of their slots. What follows the last one is not looked at.
    pub(super) fn values(&self) -> impl Iterator<Item = &CollectiveInFlight<A>> + Clone {
        self.table.values().filter(|slot| !slot.rests()).take(self.in_use)
    }

    /// The same, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut CollectiveInFlight<A>> {
        self.table.values_mut().filter(|slot| !slot.rests()).take(self.in_use)
    }

    /// A slot for the call of this name, 0 if it has none, to [open](CollectiveInFlight::open), and its number; `resting` makes one where
    /// none has been. That is the one that rested last, unless it has the steps of another call: those are kept as long
    /// as there is another slot, and the oldest ones go first. `None`: there is no room.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        name: u64,
        resting: impl FnOnce() -> CollectiveInFlight<A>,
    ) -> Option<(u32, &mut CollectiveInFlight<A>)> {
        let first = self.resting.first().and_then(|number| self.table.get(number));
        if !first.is_some_and(|slot| slot.is_free_for(name)) {
            self.put_another_first(resting)?;
        }
        self.in_use += 1;
        self.table.shift(&mut self.resting, |_| true)
    }

    /// One where none has been is the first of those that rest, or else the one that has rested longest.
    #[cold]
    #[inline(never)]
    fn put_another_first(&mut self, resting: impl FnOnce() -> CollectiveInFlight<A>) -> Option<()> {
        if let Some(fresh) = self.table.insert_with(resting) {
            self.resting.push_front(&mut self.table, fresh.index);
        } else {
            self.put_first(self.resting.last()?);
        }
        Some(())
    }

    /// The slot that rests and has all of the call with this name, for that to [open again](CollectiveInFlight::open_again), and its
    /// number: that one, if it is there.
    #[inline(always)]
    pub(super) fn take_again(&mut self, number: u32, name: u64) -> Option<(u32, &mut CollectiveInFlight<A>)> {
        // The last one that rests is most often meant.
        if self.resting.first() != Some(number) {
            self.put_first_of(number, name);
        }
        let taken = self.table.shift(&mut self.resting, |slot| slot.has_all_of(name))?;
        self.in_use += 1;
        Some(taken)
    }

    /// As [`put_first`](Self::put_first), of one that has all of the call with this name.
    #[cold]
    #[inline(never)]
    fn put_first_of(&mut self, number: u32, name: u64) {
        if self.table.get(number).is_some_and(|slot| slot.has_all_of(name)) {
            self.put_first(number);
        }
    }

    /// One is the first of those that rest, if it rests.
    #[cold]
    #[inline(never)]
    fn put_first(&mut self, number: u32) {
        if self.resting.remove(&mut self.table, number) {
            self.resting.push_front(&mut self.table, number);
        }
    }

    /// The one in a slot is over, and in no list. Nothing of the caller's is kept.
    pub(super) fn close(&mut self, number: u32) {
        if let Some(slot) = self.get_mut(number) {
            slot.rest();
            self.in_use -= 1;
            self.resting.push_front(&mut self.table, number);
        }
    }
}

impl<A> Engine<A> {
    /// Most places that one collective may take.
    pub(super) fn most_places(&self) -> usize {
        self.slots.capacity() - reserved(self.geometries.len(), self.always, 0)
    }

    /// Places that the geometry at this place of the table may take now: others keep theirs.
    pub(super) fn room_for(&self, index: usize) -> usize {
        let vacant = self.slots.capacity() - self.slots.len();
        vacant.saturating_sub(reserved(self.geometries.len(), self.always, self.taken_beside(index)))
    }

    /// How many of the places that are kept for geometries those have taken, other than the one at this place of their table.
    /// One that has taken fewer than are kept for it has the others yet.
    fn taken_beside(&self, index: usize) -> usize {
        let others = self.slots.values().map(|slot| slot.geometry()).filter(|&other| other != index);
        others
            .clone()
            .enumerate()
            .filter(|&(at, one)| others.clone().take(at).filter(|&other| other == one).count() < PLACES)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::part::SchedulePart;
    use super::super::request::Collect;
    use super::super::slot::NewSlot;
    use super::super::wire::Key;
    use super::*;
    use crate::collective::{Algorithm, Call, Collective};
    use crate::dispatch::Done;
    use crate::geometry::WORLD;
    use std::boxed::Box;

    const DONE: Done<()> = Done { call: &|(), _| {}, cookie: 0 };
    const KEY: Key = Key { geometry: 0, sequence: 1, part: 0 };

    /// The call of this name takes a slot.
    fn open(slots: &mut Slots<()>, name: u64) -> u32 {
        let call = Call::barrier(Algorithm::Dissemination, 2, 0);
        let part = SchedulePart::whole(0, 0, call);
        let (number, slot) = slots.take(name, || CollectiveInFlight::resting(KEY, DONE, &part)).unwrap();
        let new = NewSlot {
            geometry: 0,
            key: KEY,
            digest: 0,
            notice: None,
            creates: false,
            ticket: None,
            element_len: 1,
            alone: true,
        };
        slot.open(new, &part, name, &mut Collect::new(WORLD, Collective::Barrier, DONE));
        number
    }

    /// The call of this name finds its slot, and is over.
    fn open_again(slots: &mut Slots<()>, number: u32, name: u64) {
        let (taken, slot) = slots.take_again(number, name).unwrap();
        slot.open_again(2, &mut Collect::new(WORLD, Collective::Barrier, DONE));
        assert_eq!((taken, slots.len()), (number, 1));
        slots.close(number);
    }

    #[test]
    fn q4_a_call_finds_the_slot_that_has_its_steps_wherever_that_rests_and_no_other() {
        let mut slots = Slots::new(Box::leak(Box::new([const { slot_table::Slot::new() }; 4])));
        let [first, second, third] = [1, 2, 3].map(|name| open(&mut slots, name));
        assert!(slots.take_again(first, 1).is_none(), "it is in use");
        [first, second, third].into_iter().for_each(|number| slots.close(number));
        for (number, name) in [(first, 1), (second, 2), (second, 2), (first, 1), (third, 3)] {
            assert!(slots.take_again(number, 9).is_none() && slots.is_empty(), "{name} is not 9");
            open_again(&mut slots, number, name);
        }
        // None has been lost on the way, and what rested longest goes first.
        assert_eq!([4, 5, 6, 7].map(|name| open(&mut slots, name)), [3, second, first, third]);
        assert!(slots.take_again(first, 1).is_none() && slots.len() == 4);
    }

    #[test]
    fn q4_calls_in_turn_have_a_slot_each_and_those_without_a_name_one_together() {
        let mut slots = Slots::new(Box::leak(Box::new([const { slot_table::Slot::new() }; 4])));
        let mut call = |name| {
            let number = open(&mut slots, name);
            slots.close(number);
            number
        };
        assert_eq!([0, 0, 1, 2, 2, 0, 0].map(&mut call), [0, 0, 0, 1, 1, 2, 2]);
        for (number, name) in [(0, 1), (1, 2), (0, 1), (1, 2)] {
            assert!(slots.take_again(2, name).is_none() && slots.is_empty(), "not there");
            open_again(&mut slots, number, name);
        }
    }
}
