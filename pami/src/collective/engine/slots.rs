//! The table of the collectives in flight of a context, and who has room in it.
//!
//! What is free first is taken first, and a search ends with the last that is in use: a table costs by what is in flight, not
//! by its size.

use super::slot::Slot;
use crate::device::Port;

/// Places that a geometry takes for one collective: for it, and the barrier that may go in front.
const PLACES: usize = 2;

/// Places that one of so many geometries leaves to others, of which `always` have room whatever is in flight, and so many are
/// busy.
pub(super) fn reserved(geometries: usize, always: usize, busy: usize) -> usize {
    PLACES * geometries.saturating_sub(1).min(always).saturating_sub(busy)
}

/// The collectives in flight of a context.
pub(super) struct Slots<P: Port> {
    places: &'static mut [Option<Slot<P>>],
    used: usize,
}

impl<P: Port> Slots<P> {
    pub(super) fn new(places: &'static mut [Option<Slot<P>>]) -> Self {
        Self { places, used: 0 }
    }

    pub(super) fn into_memory(self) -> &'static mut [Option<Slot<P>>] {
        self.places
    }

    /// How many there can be.
    pub(super) fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Free places.
    pub(super) fn vacant(&self) -> usize {
        self.places.len() - self.used
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot<P>> + Clone {
        self.places.iter().flatten().take(self.used)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot<P>> {
        self.places.iter_mut().flatten().take(self.used)
    }

    pub(super) fn get(&self, number: usize) -> Option<&Slot<P>> {
        self.places.get(number)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Slot<P>> {
        self.places.get_mut(number)?.as_mut()
    }

    /// Takes one in. Returns its number, if there is a place.
    pub(super) fn open(&mut self, slot: Slot<P>) -> Option<usize> {
        let number = self.places.iter().position(Option::is_none)?;
        self.places[number] = Some(slot);
        self.used += 1;
        Some(number)
    }

    /// Lets one go.
    pub(super) fn close(&mut self, number: usize) -> Option<Slot<P>> {
        let slot = self.places.get_mut(number)?.take()?;
        self.used -= 1;
        Some(slot)
    }

    /// How many geometries have collectives in flight, other than the one at this place of their table.
    pub(super) fn busy_beside(&self, index: usize) -> usize {
        let others = self.iter().map(|slot| usize::from(slot.geometry)).filter(|&other| other != index);
        others
            .clone()
            .enumerate()
            .filter(|&(at, one)| !others.clone().take(at).any(|other| other == one))
            .count()
    }
}
