//! The target's side: chunks that arrive are added at once (SPEC L-3).

use crate::balance::arithmetic;
use crate::balance::arithmetic::{Source, Sources, Steps};
use crate::balance::chunk::{Instruction, LentChunk, is_piece};
use crate::balance::recipe::SubOperations;
use crate::context::Active;
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::packet::Envelope;
use crate::region::{Memory, RegionFault, Rights};
use rings::shared::Shared;
use zerocopy::FromBytes;

/// Adds what `source` has, `at` bytes into a message of `total`, to memory that is a region.
pub(super) fn add_chunk<P: Port>(
    memory: &Memory,
    steps: Steps<'_>,
    sources: Sources<'_>,
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
    Ok(arithmetic::add::<P>(steps, sources, len, (memory, offset as usize + at as usize))?)
}

/// Where a chunk and its operand lie, if they are lent.
struct LentChunks {
    message: LentChunk,
    operand: Option<LentChunk>,
}

impl LentChunks {
    /// What the data of a chunk says; `None` if it says what no origin does, none in it if nothing is lent.
    fn of(instruction: &Instruction, data: &[u8]) -> Option<Option<Self>> {
        if !instruction.lent {
            return Some(None);
        }
        if !instruction.recipe.has_operand() {
            return Some(Some(Self { message: LentChunk::read_from_bytes(data).ok()?, operand: None }));
        }
        // Who combines them has both.
        let [message, operand] = <[LentChunk; 2]>::read_from_bytes(data).ok()?;
        let both = instruction.left.contains(SubOperations::COMBINE);
        both.then_some(Some(Self { message, operand: Some(operand) }))
    }
}

impl<P: Port> Active<P> {
    /// A chunk arrives.
    pub(crate) fn chunk_arrived(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        let instruction = Instruction::decode(header);
        let Some((instruction, len, lent)) = instruction.and_then(|instruction| {
            let lent = LentChunks::of(&instruction, data)?;
            let len = match &lent {
                Some(lent) => lent.message.len.get() as usize,
                None => instruction.recipe.element_bytes(data.len(), instruction.done())?,
            };
            is_piece(envelope, &instruction, len).then_some((instruction, len, lent))
        }) else {
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
        lent: Option<LentChunks>,
        data: &[u8],
        len: usize,
    ) -> Result<(), RegionFault> {
        let Instruction { recipe, left, wanted, .. } = instruction;
        let functions = &self.processing.functions;
        let combines = wanted.contains(SubOperations::COMBINE);
        if !recipe.among(self.processing.available).contains(*wanted)
            || combines && functions.of(recipe).is_err()
        {
            return Err(RegionFault::Rights);
        }
        // A handle of its own: the region is not to be held while another is waited for.
        let (message, operand) = match lent {
            Some(LentChunks { message, operand }) => {
                let message = self.reach_lent(envelope.origin, message, len)?;
                let operand = operand.map(|operand| self.reach_lent(envelope.origin, operand, len));
                (Some(message), operand.transpose()?)
            }
            None => (None, None),
        };
        let sources = match (&message, &operand) {
            (Some((message, at)), None) => Sources { message: Source::Shared(message, *at), operand: None },
            (Some((message, at)), Some((operand, other))) => {
                let operand = Some(Source::Shared(operand, *other));
                Sources { message: Source::Shared(message, *at), operand }
            }
            (None, _) if recipe.has_operand() && left.contains(SubOperations::COMBINE) => {
                let (message, operand) = data.split_at(data.len() / 2);
                Sources { message: Source::Bytes(message), operand: Some(Source::Bytes(operand)) }
            }
            (None, _) => Sources { message: Source::Bytes(data), operand: None },
        };
        let place = (instruction.offset, envelope.offset, envelope.total);
        let Self { processing, port, transport, .. } = self;
        let steps = Steps { recipe, steps: *left, functions: &processing.functions };
        port.reach(transport.me(), instruction.region, Rights::UPDATE, |region| {
            add_chunk::<P>(region, steps, sources, len, place)
        })
        .flatten()
    }

    /// Memory that a task of this node lends, and where in it a chunk of so many bytes lies.
    fn reach_lent(
        &mut self,
        owner: Endpoint,
        lent: LentChunk,
        len: usize,
    ) -> Result<(Shared, usize), RegionFault> {
        let offset = lent.offset.get() as usize;
        let memory = self
            .port
            .reach(owner, lent.region, Rights::READ, |memory| match memory {
                Memory::Shared(memory) => Ok(memory.clone()),
                Memory::Lent(_) => Err(RegionFault::Rights),
            })
            .flatten()?;
        let inside = offset.checked_add(len).is_some_and(|end| end <= memory.len());
        if inside { Ok((memory, offset)) } else { Err(RegionFault::Bounds) }
    }
}
