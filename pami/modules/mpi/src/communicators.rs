//! The communicators of a context.

use crate::cartesian::Grid;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::request::Activity;
use crate::settings::Settings;
use base::fill;
use pami::client::Node;
use pami::geometry::Members;
use rings::slot_table::{Slot, SlotTable};
use rings::table::Key;

/// A communicator as its context knows it.
pub(crate) struct CommunicatorEntry {
    pub(crate) members: Members<'static>,
    pub(crate) group: Group,
    /// Its topology.
    pub(crate) grid: Option<Grid>,
}

/// The communicators of a context.
#[derive(Default)]
pub(crate) struct Communicators {
    table: SlotTable<CommunicatorEntry>,
    /// Which of them there are.
    alive: Activity,
    /// Slots that are taken, or will be.
    used: usize,
}

impl Communicators {
    pub(crate) fn new<N: Node>(node: &N, alive: Activity, settings: &Settings) -> Result<Self> {
        let slots = fill(node, "communicators", settings.communicators.into(), Slot::new)?;
        Ok(Self { table: SlotTable::new(slots), alive, used: 0 })
    }

    /// Keeps a place for [`add`](Self::add).
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn reserve(&mut self) -> Result<()> {
        let limit = self.table.capacity();
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
    pub(crate) fn add(&mut self, entry: CommunicatorEntry) -> Result<(u16, u32)> {
        let full = Error::NoMem { what: "communicators", limit: self.table.capacity() };
        let Key { index, generation } = self.table.insert(entry).map_err(|_| full)?;
        self.alive.set(index as u16, generation);
        Ok((index as u16, generation))
    }

    /// Frees a place.
    pub(crate) fn remove(&mut self, slot: u16) {
        self.alive.set(slot, 0);
        self.used -= usize::from(self.table.remove(slot.into()).is_some());
    }

    /// What is in a place, if this is its generation.
    #[inline]
    pub(crate) fn entry(&mut self, slot: u16, generation: u32) -> Option<&mut CommunicatorEntry> {
        self.table.find(Key { index: slot.into(), generation })
    }
}
