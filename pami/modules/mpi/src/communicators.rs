//! The communicators of a context.

use crate::cartesian::Grid;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::memory::fill;
use crate::settings::Settings;
use pami::client::Node;
use pami::geometry::Members;

/// A communicator as its context knows it.
pub(crate) struct Entry {
    pub(crate) members: Members<'static>,
    pub(crate) group: Group,
    /// Its topology.
    pub(crate) grid: Option<Grid>,
}

struct Place {
    generation: u32,
    entry: Option<Entry>,
}

/// The communicators of a context.
#[derive(Default)]
pub(crate) struct Communicators {
    places: &'static mut [Place],
    /// Places that are taken, or will be.
    used: usize,
}

impl Communicators {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        let count = settings.communicators.into();
        Ok(Self { places: fill(node, count, || Place { generation: 0, entry: None })?, used: 0 })
    }

    /// Keeps a place for [`add`](Self::add).
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn reserve(&mut self) -> Result<()> {
        let limit = self.places.len();
        if self.used == limit {
            return Err(Error::NoMem { what: "communicators", limit });
        }
        self.used += 1;
        Ok(())
    }

    /// Nothing comes to a place that was kept.
    pub(crate) fn give_back(&mut self) {
        self.used -= 1;
    }

    /// Takes a place that was kept: its number and generation.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn add(&mut self, entry: Entry) -> Result<(u16, u32)> {
        let limit = self.places.len();
        let mut places = (0..).zip(self.places.iter_mut());
        let free = places.find(|(_, place)| place.entry.is_none());
        let (slot, place) = free.ok_or(Error::NoMem { what: "communicators", limit })?;
        place.entry = Some(entry);
        Ok((slot, place.generation))
    }

    /// Frees a place.
    pub(crate) fn remove(&mut self, slot: u16) {
        if let Some(place) = self.places.get_mut(usize::from(slot)) {
            self.used -= usize::from(place.entry.take().is_some());
            place.generation = place.generation.wrapping_add(1);
        }
    }

    /// What is in a place, if this is its generation.
    pub(crate) fn entry(&mut self, slot: u16, generation: u32) -> Option<&mut Entry> {
        let place = self.places.get_mut(usize::from(slot))?;
        place.entry.as_mut().filter(|_| place.generation == generation)
    }
}
