//! The table of the collectives in flight of a context, which costs by what is in flight, not by its size; and who has room
//! in it.

use super::Engine;
use super::limits::{PLACES, reserved};
use super::slot::Slot;
use rings::list::{Link, Links, List};
use rings::slot_table::{self, SlotTable};

/// The table. The slot of a collective that is over stays where it is until another one takes it, which writes what
/// differs: most of a slot is room that is written before it is read.
pub(super) struct Slots<A: 'static> {
    table: SlotTable<Slot<A>>,
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
    pub(super) fn new(slots: &'static mut [slot_table::Slot<Slot<A>>]) -> Self {
        Self { table: SlotTable::new(slots), resting: List::EMPTY, in_use: 0 }
    }

    pub(super) fn into_slots(self) -> &'static mut [slot_table::Slot<Slot<A>>] {
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
    pub(super) fn get(&self, number: u32) -> Option<&Slot<A>> {
        self.table.get(number).filter(|slot| !slot.rests())
    }

    /// The same.
    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Slot<A>> {
        self.table.get_mut(number).filter(|slot| !slot.rests())
    }

    /// All, by the numbers of their slots. What follows the last one is not looked at.
    pub(super) fn values(&self) -> impl Iterator<Item = &Slot<A>> + Clone {
        self.table.values().filter(|slot| !slot.rests()).take(self.in_use)
    }

    /// The same, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Slot<A>> {
        self.table.values_mut().filter(|slot| !slot.rests()).take(self.in_use)
    }

    /// A slot for one more to [open](Slot::open), and its number; `resting` makes one where none has been. `None`: there is
    /// no room.
    #[inline(always)]
    pub(super) fn take(&mut self, resting: impl FnOnce() -> Slot<A>) -> Option<(u32, &mut Slot<A>)> {
        if self.resting.is_empty() {
            let number = self.table.insert_with(resting)?.index;
            self.resting.push_front(&mut self.table, number);
        }
        self.in_use += 1;
        self.table.shift(&mut self.resting, |_| true)
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
