//! The target's side: chunks that arrive are added at once (SPEC L-3).

use crate::balance::arithmetic;
use crate::balance::arithmetic::Source;
use crate::balance::chunk::{Instruction, LentChunk, is_piece};
use crate::balance::recipe::{Recipe, SubOperations};
use crate::context::Active;
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::packet::Envelope;
use crate::region::{Memory, RegionFault, RegionId, Rights};
use rings::shared::Shared;
use zerocopy::FromBytes;

/// Adds what `source` has, `at` bytes into a message of `total`, to memory that is a region.
pub(super) fn add_chunk(
    memory: &Memory,
    (recipe, steps): (&Recipe, SubOperations),
    source: Source<'_>,
    len: usize,
    (offset, at, total): (u32, u32, u32),
) -> Result<(), RegionFault> {
    let Memory::Shared(memory) = memory else { return Err(RegionFault::Rights) };
    // All of the message is looked at, so that every chunk of it fails if one does.
    let end = offset as usize + total as usize;
    if end > memory.len() {
        return Err(RegionFault::Bounds);
    }
    if end.next_multiple_of(size_of::<u64>()) > memory.len() {
        return Err(RegionFault::Unaligned);
    }
    Ok(arithmetic::add(recipe, steps, source, len, (memory, offset as usize + at as usize))?)
}

impl<P: Port> Active<P> {
    /// A chunk arrives.
    pub(crate) fn chunk_arrived(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        let instruction = Instruction::decode(header);
        let lent = instruction.filter(|instruction| instruction.lent);
        let lent = lent.and_then(|_| LentChunk::read_from_bytes(data).ok());
        let len = lent.map_or(data.len(), |lent| lent.len.get() as usize);
        let Some(instruction) = instruction
            .filter(|instruction| instruction.lent == lent.is_some() && is_piece(envelope, instruction, len))
        else {
            self.transport.protocol_error();
            return;
        };
        let started = self.port.now_ns();
        let added = self.add_arrived(envelope, &instruction, lent, data, len);
        self.note_processing(started);
        if added.is_ok() {
            self.transport.note_processed(len as u64);
        }
        match added {
            _ if !instruction.last => {}
            Ok(()) => self.owe_ack(envelope.origin, envelope.message),
            Err(fault) => self.owe_refusal(envelope.origin, envelope.message, fault),
        }
    }

    fn add_arrived(
        &mut self,
        envelope: &Envelope,
        instruction: &Instruction,
        lent: Option<LentChunk>,
        data: &[u8],
        len: usize,
    ) -> Result<(), RegionFault> {
        if !self.processing.available.contains(instruction.wanted) {
            return Err(RegionFault::Rights);
        }
        // A handle of its own: the region is not to be held while another is waited for.
        let from = match lent {
            Some(lent) => {
                Some((self.reach_shared(envelope.origin, lent.region)?, lent.offset.get() as usize))
            }
            None => None,
        };
        let source = match &from {
            Some((memory, offset)) => {
                if offset.checked_add(len).is_none_or(|end| end > memory.len()) {
                    return Err(RegionFault::Bounds);
                }
                Source::Shared(memory, *offset)
            }
            None => Source::Bytes(data),
        };
        let (recipe, place) =
            ((&instruction.recipe, instruction.left), (instruction.offset, envelope.offset, envelope.total));
        self.port
            .reach(self.transport.me(), instruction.region, Rights::UPDATE, |region| {
                add_chunk(region, recipe, source, len, place)
            })
            .flatten()
    }

    /// Memory that a task of this node lends.
    fn reach_shared(&mut self, owner: Endpoint, region: RegionId) -> Result<Shared, RegionFault> {
        self.port
            .reach(owner, region, Rights::READ, |memory| match memory {
                Memory::Shared(memory) => Ok(memory.clone()),
                Memory::Lent(_) => Err(RegionFault::Rights),
            })
            .flatten()
    }
}
