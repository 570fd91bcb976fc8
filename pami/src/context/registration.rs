//! Regions of a context's own memory: made, named to others, given up (SPEC P-7).

use super::Active;
use crate::device::{NoRegion, Port};
use crate::error::RegisterError;
use crate::lending::Lending;
use crate::region::{Memory, RegionHandle, RegionId, Rights};
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
            Ok(id) => Ok(Region { handle: self.handle(id, len), memory }),
            Err(NoRegion::NoneLeft { limit }) => Err((RegisterError::NoneLeft { limit }, memory)),
            Err(NoRegion::OutOfReach) => Err((RegisterError::OutOfReach, memory)),
        }
    }

    /// The name of a region of this task's.
    fn handle(&self, id: RegionId, len: u32) -> RegionHandle {
        RegionHandle { task: self.transport.me().task().into(), id, len: len.into() }
    }

    /// Ends a region of this task: peers' accesses are refused from now on.
    ///
    /// # Errors
    /// Not while others have clones of its memory, which comes back to be reclaimed later.
    pub fn deregister(&mut self, region: Region) -> Result<Buffer, Shared> {
        self.port.deregister(region.handle.id);
        region.memory.reclaim()
    }

    /// Lets peers get from memory for one message more, in a region that all messages from there have. Returns the number of the
    /// loan and that region; `None` without room for another one in `lending` or in the node, or if the memory is 4 GiB or more.
    pub fn lend(&mut self, lending: &mut Lending, memory: &Shared) -> Option<(u32, RegionHandle)> {
        let len = u32::try_from(memory.len()).ok()?;
        let register =
            |memory: &Shared| self.port.register(Memory::Shared(memory.clone()), Rights::READ).ok();
        let (number, id) = lending.lend(0, memory, register)?;
        Some((number, self.handle(id, len)))
    }

    /// A message does not need its loan any more: with the last one's the region ends.
    pub fn give_up_loan(&mut self, lending: &mut Lending, number: u32) {
        if let Some(region) = lending.give_up(number) {
            self.port.deregister(region);
        }
    }
}
