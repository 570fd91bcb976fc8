//! Which way an access of the accumulate family goes.
//!
//! Updates of words are carried out as they arrive, and what is split may be added here: both could overtake messages that
//! the target has not looked at. So neither is taken while such are under way to it; messages are always in order behind
//! whatever went before them.

use super::At;
use super::transfer::{Access, region_offset, taken};
use crate::data::Data;
use crate::datatype::Basic;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::protocols;
use crate::window::ends::{End, Name};
use crate::window::outstanding;
use crate::window::peer::WindowPeer;
use crate::window::wire::{AccumulateKind, WindowRequest, op_number};
use core::ops::Range;
use pami::client::Node;
use pami::factory::Contribution;
use pami::{Recipe, RecipeElement, Rmw, RmwOp, Update, Width};
use zerocopy::IntoBytes;

/// The bytes of a word at the end of memory that has no whole one there are no word.
const WORD: u32 = 8;

/// What adds numbers of a type, if it can be split between origin and target.
pub(super) fn recipe(op: Op, basic: Basic) -> Option<Recipe> {
    let element = match basic {
        Basic::F32 => RecipeElement::F32,
        Basic::F64 => RecipeElement::F64,
        // Sums wrap, so signs do not matter.
        Basic::I32 | Basic::U32 => RecipeElement::I32,
        Basic::I64 | Basic::U64 => RecipeElement::I64,
        _ => return None,
    };
    matches!(op, Op::Sum).then_some(Recipe::sum(element))
}

/// The update of a word that does what an operator does with this operand.
pub(super) fn update(op: Op, basic: Basic, operand: u64) -> Option<Update> {
    let integer = matches!(basic, Basic::I32 | Basic::U32 | Basic::I64 | Basic::U64);
    match op {
        Op::Replace => Some(Update::Swap(operand)),
        Op::NoOp => Some(Update::Or(0)),
        Op::Sum if integer => Some(Update::Add(operand)),
        Op::Band if integer => Some(Update::And(operand)),
        Op::Bor if integer => Some(Update::Or(operand)),
        Op::Bxor if integer => Some(Update::Xor(operand)),
        _ => None,
    }
}

impl WindowPeer {
    /// Whether `len` bytes from `offset` of its region lie in whole words of it, aligned to `size`.
    fn has_words(&self, offset: u32, len: u32, size: u32) -> bool {
        let end = offset.checked_add(len).and_then(|end| end.checked_next_multiple_of(WORD));
        offset.is_multiple_of(size) && end.is_some_and(|end| end <= self.info.region().len())
    }

    /// Whether no message is under way to it.
    fn is_quiet(&self) -> bool {
        !self.unfenced && self.served == 0
    }
}

/// A request's blocks, and which of their bytes it means.
#[derive(Clone, Copy)]
pub(super) struct BlockPart {
    pub blocks: super::pieces::Blocks,
    pub skip: u32,
    pub len: u32,
}

impl<N: Node> At<'_, N> {
    /// Has a sum added, here or there. Returns whether that can be done; `None` if there is no room now.
    pub(super) fn split(
        &mut self,
        access: Access,
        (data, range): (&Data, Range<usize>),
        place: usize,
        recipe: Recipe,
    ) -> Result<Option<bool>> {
        let peer = *self.peer(access.rank)?;
        let offset = region_offset(&peer, place)?;
        let size = recipe.element().bytes() as u32;
        if !peer.is_quiet() || !peer.has_words(offset, access.bytes, size) {
            return Ok(Some(false));
        }
        let names = [self.name(End::Local, access), self.name(End::Split, access)];
        let contribution = Contribution {
            target: peer.endpoint,
            region: peer.info.region(),
            offset,
            memory: data.memory().clone(),
            range,
            operand: None,
            recipe,
            local_done: Some(self.ends.done(names[0].cookie())),
            remote_done: Some(self.ends.done(names[1].cookie())),
        };
        if taken(self.state.window_protocols()?.one_sided.process(self.active, contribution))?.is_none() {
            return Ok(None);
        }
        names.into_iter().for_each(|name: Name| self.state.windows.begun(name));
        Ok(Some(true))
    }

    /// Has a word updated, and what it was put into `result`. Returns whether that can be done; `None` if there is no room
    /// now.
    pub(super) fn update(
        &mut self,
        access: Access,
        place: usize,
        (width, update): (Width, Update),
        result: &Data,
    ) -> Result<Option<bool>> {
        let peer = *self.peer(access.rank)?;
        let offset = region_offset(&peer, place)?;
        let size = if width == Width::Eight { 8 } else { 4 };
        if !peer.is_quiet() || peer.split > 0 || !peer.has_words(offset, size, size) {
            return Ok(Some(false));
        }
        let Some(fetch) = self.state.windows.outstanding.free_place() else { return Ok(None) };
        let rmw = Rmw {
            target: peer.endpoint,
            region: peer.info.region(),
            offset,
            op: RmwOp { width, update },
            done: Some(self.ends.fetched(fetch)),
        };
        if taken(self.state.window_protocols()?.one_sided.rmw(self.active, rmw))?.is_none() {
            return Ok(None);
        }
        self.note_fetch(access, result, (0, size as usize), false)?;
        Ok(Some(true))
    }

    /// Sends a request to be carried out by the target, with the data it needs. `None` if there is no room now.
    pub(super) fn request(
        &mut self,
        access: Access,
        (op, basic, kind): (Op, Basic, AccumulateKind),
        part: BlockPart,
        data: &[u8],
        result: Option<(&Data, usize)>,
    ) -> Result<Option<()>> {
        let peer = *self.peer(access.rank)?;
        let mut fetch = 0;
        if result.is_some() {
            if self.state.windows.outstanding.awaits_message_of(peer.endpoint) {
                return Ok(None);
            }
            let Some(free) = self.state.windows.outstanding.free_place() else { return Ok(None) };
            fetch = free;
        }
        let BlockPart { blocks, skip, len } = part;
        let request = WindowRequest {
            rank: self.win()?.rank.into(),
            generation: peer.info.generation,
            offset: (blocks.offset as u64).into(),
            block: blocks.block.into(),
            stride: blocks.stride.into(),
            skip: skip.into(),
            len: len.into(),
            fetch: (fetch as u32).into(),
            kind: kind as u8,
            op: op_number(op).ok_or(Error::Op)?,
            basic: basic as u8,
            // Slots are below 255.
            slot: peer.info.slot.get() as u8,
        };
        let factory = &self.state.window_protocols()?.request;
        let sent = protocols::send_immediate(factory, self.active, peer.endpoint, request.as_bytes(), data);
        if taken(sent)?.is_none() {
            return Ok(None);
        }
        match result {
            Some((result, at)) => self.note_fetch(access, result, (at, len as usize), true)?,
            None => self.peer(access.rank)?.unfenced = true,
        }
        Ok(Some(()))
    }

    /// Notes what a target was asked for.
    fn note_fetch(
        &mut self,
        access: Access,
        result: &Data,
        (skip, len): (usize, usize),
        by_message: bool,
    ) -> Result<()> {
        let peer = self.peer(access.rank)?;
        peer.under_way += 1;
        peer.served += u32::from(by_message);
        let target = peer.endpoint;
        let win = self.win()?;
        win.local += 1;
        win.remote += 1;
        let (window, rank, request) = (self.slot, access.rank, access.request);
        let destination = outstanding::Destination::Data { data: result.clone(), skip, len };
        let outstanding = &mut self.state.windows.outstanding;
        outstanding.add_part(request);
        outstanding.put(outstanding::Fetch { window, rank, target, request, by_message, destination });
        Ok(())
    }
}
