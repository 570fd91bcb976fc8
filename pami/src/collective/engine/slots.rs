//! The table of the collectives in flight of a context, and who has room in it.
//!
//! What is free first is taken first, and a search ends with the last that is in use: a table costs by what is in flight, not
//! by its size.

use super::limits::reserved;
use super::slot::Slot;

/// The collectives in flight of a context.
pub(super) struct Slots<A: 'static> {
    places: &'static mut [Option<Slot<A>>],
    used: usize,
}

impl<A> Slots<A> {
    pub(super) fn new(places: &'static mut [Option<Slot<A>>]) -> Self {
        Self { places, used: 0 }
    }

    pub(super) fn into_memory(self) -> &'static mut [Option<Slot<A>>] {
        self.places
    }

    /// How many there can be.
    pub(super) fn capacity(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot<A>> + Clone {
        self.places.iter().flatten().take(self.used)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot<A>> {
        self.places.iter_mut().flatten().take(self.used)
    }

    pub(super) fn get(&self, number: usize) -> Option<&Slot<A>> {
        self.places.get(number)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Slot<A>> {
        self.places.get_mut(number)?.as_mut()
    }

    /// Takes one in. Returns its number, if there is a place.
    pub(super) fn open(&mut self, slot: Slot<A>) -> Option<usize> {
        let number = self.places.iter().position(Option::is_none)?;
        self.places[number] = Some(slot);
        self.used += 1;
        Some(number)
    }

    /// Lets one go.
    pub(super) fn close(&mut self, number: usize) {
        if let Some(place @ Some(_)) = self.places.get_mut(number) {
            *place = None;
            self.used -= 1;
        }
    }

    /// Most places that a collective of one of so many geometries may take.
    pub(super) fn limit(&self, geometries: usize, always: usize) -> usize {
        self.capacity() - reserved(geometries, always, 0)
    }

    /// Places that the geometry at this place of the table, of so many, may take now: others keep theirs.
    pub(super) fn room_for(&self, index: usize, geometries: usize, always: usize) -> usize {
        let vacant = self.places.len() - self.used;
        vacant.saturating_sub(reserved(geometries, always, self.busy_beside(index)))
    }

    /// How many geometries have collectives in flight, other than the one at this place of their table.
    fn busy_beside(&self, index: usize) -> usize {
        let others = self.iter().map(|slot| usize::from(slot.geometry)).filter(|&other| other != index);
        others
            .clone()
            .enumerate()
            .filter(|&(at, one)| !others.clone().take(at).any(|other| other == one))
            .count()
    }
}
