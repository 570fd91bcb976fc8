//! Who has room among the collectives in flight of a context. Their table costs by what is in flight, not by its size.

use super::Engine;
use super::limits::{PLACES, reserved};

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
