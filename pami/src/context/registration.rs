//! Regions of a context's own memory: made, named to others, given up (SPEC P-7).

use super::Active;
use crate::device::{NoRegionLeft, Port};
use crate::error::RegisterError;
use crate::region::{Memory, RegionHandle, Rights};
use rings::buffer::Buffer;
use rings::shared::Shared;

/// Memory that peers may reach, until it is deregistered. Dropping it leaves it registered for good.
#[must_use = "a region that is dropped stays registered"]
pub struct Region {
    handle: RegionHandle,
    memory: Shared,
}

impl Region {
    /// What peers need to reach it.
    pub fn handle(&self) -> RegionHandle {
        self.handle
    }

    /// The memory, for local use.
    pub fn memory(&self) -> &Shared {
        &self.memory
    }
}

impl<P: Port> Active<P> {
    /// Lets peers of this client reach `buffer`.
    ///
    /// # Errors
    /// The buffer comes back with the reason.
    pub fn register(&mut self, buffer: Buffer, rights: Rights) -> Result<Region, (RegisterError, Buffer)> {
        if u32::try_from(buffer.len()).is_err() {
            return Err((RegisterError::TooLong, buffer));
        }
        self.register_shared(buffer.share(), rights).map_err(|(error, mut memory)| {
            loop {
                // The port has dropped its clone, so the first try succeeds.
                match memory.reclaim() {
                    Ok(buffer) => return (error, buffer),
                    Err(still) => memory = still,
                }
            }
        })
    }

    /// As [`register`](Self::register), of memory that this task goes on using. It may begin and end anywhere (SPEC Q-3),
    /// but at a multiple of eight if others are to update words of it.
    ///
    /// # Errors
    /// The handle comes back with the reason.
    pub fn register_shared(
        &mut self,
        memory: Shared,
        rights: Rights,
    ) -> Result<Region, (RegisterError, Shared)> {
        let Ok(len) = u32::try_from(memory.len()) else { return Err((RegisterError::TooLong, memory)) };
        if rights.contains(Rights::UPDATE) && !memory.is_aligned() {
            return Err((RegisterError::Unaligned, memory));
        }
        match self.port.register(Memory::Shared(memory.clone()), rights) {
            Ok(id) => {
                let handle = RegionHandle { task: self.transport.me().task().into(), id, len: len.into() };
                Ok(Region { handle, memory })
            }
            Err(NoRegionLeft { limit }) => Err((RegisterError::NoneLeft { limit }, memory)),
        }
    }

    /// Ends a region of this task: peers' accesses are refused from now on.
    ///
    /// # Errors
    /// Not while others have clones of its memory, which comes back to be reclaimed later.
    pub fn deregister(&mut self, region: Region) -> Result<Buffer, Shared> {
        self.port.deregister(region.handle.id);
        region.memory.reclaim()
    }
}
