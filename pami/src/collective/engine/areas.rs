//! The memory of a collective at one member: what its steps read and write.

use super::bulk::BYTES_PER_ADVANCE;
use super::limits::REDUCED_AT_ONCE;
use crate::collective::{Area, Order, Reducer, Span};
use rings::bulletin::{Bulletin, PageView};
use rings::shared::Shared;
use zerocopy::IntoBytes;

/// Operands of at most so many bytes, as most have, are not worth to clear memory for more.
const FEW_BYTES: usize = 64;

/// Bytes of an area: from the start of its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) area: Area,
    pub(super) start: usize,
    pub(super) len: usize,
}

/// Memory of a collective, from a byte on.
pub(super) type BufferFrom = (Shared, usize);

/// Input, output and scratch memory. What areas there must be, and of what length, was checked before.
#[derive(Default)]
pub(super) struct Areas {
    /// Each from a byte on.
    places: [Option<BufferFrom>; 3],
    element_len: usize,
    /// What is received into the output is there already.
    discards: bool,
}

impl Areas {
    /// Says what they hold.
    pub(super) fn set(&mut self, element_len: usize, discards: bool) {
        self.element_len = element_len;
        self.discards = discards;
    }

    /// Has them be the caller's.
    #[inline(always)]
    pub(super) fn take(&mut self, callers: [&mut Option<BufferFrom>; 3]) {
        for (place, callers) in self.places.iter_mut().zip(callers) {
            *place = callers.take();
        }
    }

    /// Has each be one of the caller's, so many bytes further on.
    // Only parts of divided collectives share: the others' way is the straight one.
    #[cold]
    #[inline(never)]
    pub(super) fn share(&mut self, callers: [&Option<BufferFrom>; 3], areas: &[(Area, usize); 3]) {
        let of = |(area, bytes): (Area, usize)| {
            let (memory, at) = callers[area as usize].as_ref()?;
            Some((memory.clone(), at + bytes))
        };
        self.places = areas.map(of);
    }

    /// Lets go of all.
    pub(super) fn clear(&mut self) {
        self.places = [None, None, None];
    }

    pub(super) fn piece(&self, span: Span) -> Piece {
        let base = self.places[span.area as usize].as_ref().map_or(0, |(_, base)| *base);
        let start = base + span.offset * self.element_len;
        Piece { area: span.area, start, len: span.len * self.element_len }
    }

    /// Lets an area begin so many elements later.
    pub(super) fn skip(&mut self, area: Area, elements: usize) {
        if let Some((_, base)) = &mut self.places[area as usize] {
            *base += elements * self.element_len;
        }
    }

    /// Has an area be other memory.
    pub(super) fn replace(&mut self, area: Area, memory: Shared, base: usize) {
        self.places[area as usize] = Some((memory, base));
    }

    /// Reads bytes of a piece.
    pub(super) fn read(&self, piece: Piece, offset: usize, into: &mut [u8]) {
        if let Some((memory, _)) = &self.places[piece.area as usize] {
            let _ = memory.read(piece.start + offset, into);
        }
    }

    /// The word that a piece is, if it is one and lies at a multiple of eight.
    #[inline(always)]
    pub(super) fn word(&self, piece: Piece) -> Option<u64> {
        let (memory, _) =
            self.places[piece.area as usize].as_ref().filter(|_| piece.len == size_of::<u64>())?;
        memory.read_word(piece.start)
    }

    /// Shows a piece, under this number and with this tag.
    #[inline]
    pub(super) fn show(&self, piece: Piece, own: &Bulletin, number: u64, tag: u64) {
        if piece.len == 0 {
            own.show(number, tag, core::iter::empty());
            return;
        }
        if let Some(word) = self.word(piece) {
            own.show(number, tag, core::iter::once(word));
            return;
        }
        let words = (0..piece.len).step_by(size_of::<u64>()).map(|at| {
            let mut word = [0; size_of::<u64>()];
            let len = word.len().min(piece.len - at);
            self.read(piece, at, &mut word[..len]);
            u64::from_ne_bytes(word)
        });
        own.show(number, tag, words);
    }

    /// The memory that a piece is of, and where in it it starts.
    pub(super) fn place(&self, piece: Piece) -> Option<(&Shared, usize)> {
        Some((self.memory(piece.area)?, piece.start))
    }

    /// Nobody gets this memory to himself any more: others may read it for as long as they like.
    pub(super) fn keep(&self) {
        self.places.iter().flatten().for_each(|(memory, _)| core::mem::forget(memory.clone()));
    }

    /// Bytes of so many elements.
    pub(super) fn bytes(&self, elements: usize) -> usize {
        elements * self.element_len
    }

    /// Goes on to have a piece be read, from this byte of it on: `read` into memory, there, and how much. Returns how far it is.
    pub(super) fn pull(
        &self,
        into: Piece,
        position: usize,
        read: impl FnOnce(&Shared, usize, usize) -> bool,
    ) -> Option<usize> {
        let len = (into.len - position).min(BYTES_PER_ADVANCE);
        let memory = self.memory(into.area)?;
        read(memory, into.start + position, len).then_some(position + len)
    }

    /// Reads what is shown behind so many elements.
    #[inline]
    pub(super) fn fetch(&self, piece: Piece, shown: PageView<'_>, elements: usize) {
        if piece.len == 0 {
            return;
        }
        let from = elements * self.element_len;
        if from.is_multiple_of(size_of::<u64>()) && self.write_word(piece, shown.word(from)) {
            return;
        }
        let mut some = [0; FEW_BYTES];
        for at in (0..piece.len).step_by(FEW_BYTES) {
            let len = FEW_BYTES.min(piece.len - at);
            shown.read(from + at, &mut some[..len]);
            self.write(piece, at, &some[..len]);
        }
    }

    /// Makes a piece that is a word, and lies at a multiple of eight, this one. Returns whether it is such a piece.
    #[inline(always)]
    pub(super) fn write_word(&self, piece: Piece, word: u64) -> bool {
        let memory = self.places[piece.area as usize].as_ref().filter(|_| piece.len == size_of::<u64>());
        memory.is_some_and(|(memory, _)| memory.write_word(piece.start, word))
    }

    /// The memory of an area.
    pub(super) fn memory(&self, area: Area) -> Option<&Shared> {
        self.places[area as usize].as_ref().map(|(memory, _)| memory)
    }

    /// The memory that a message is wanted in, if it is.
    pub(super) fn wanted(&self, area: Area) -> Option<&Shared> {
        self.memory(area).filter(|_| !(self.discards && area == Area::Output))
    }

    /// Writes what was received.
    pub(super) fn put(&self, piece: Piece, offset: usize, bytes: &[u8]) {
        if self.wanted(piece.area).is_some() {
            self.write(piece, offset, bytes);
        }
    }

    pub(super) fn write(&self, piece: Piece, offset: usize, bytes: &[u8]) {
        if let Some((memory, _)) = &self.places[piece.area as usize] {
            let _ = memory.write(piece.start + offset, bytes);
        }
    }

    /// Goes on with a reduction from this byte of the pieces on. Returns how far it is.
    pub(super) fn reduce(
        &self,
        reducer: &Reducer,
        (into, from): (Piece, Piece),
        order: Order,
        position: usize,
    ) -> usize {
        if into.len <= FEW_BYTES {
            self.reduce_by::<{ FEW_BYTES / 16 }>(reducer, (into, from), order, position)
        } else {
            self.reduce_by::<{ REDUCED_AT_ONCE / 16 }>(reducer, (into, from), order, position)
        }
    }

    /// As [`reduce`](Self::reduce), so many 16 bytes at a time.
    fn reduce_by<const WORDS: usize>(
        &self,
        reducer: &Reducer,
        (into, from): (Piece, Piece),
        order: Order,
        mut position: usize,
    ) -> usize {
        // Aligned for every type.
        let (mut left, mut right) = ([0u128; WORDS], [0u128; WORDS]);
        let most = WORDS * 16 - WORDS * 16 % self.element_len;
        let end = into.len.min(position + BYTES_PER_ADVANCE);
        while position < end {
            let len = most.min(into.len - position);
            let (left, right) = (&mut left.as_mut_bytes()[..len], &mut right.as_mut_bytes()[..len]);
            self.read(into, position, left);
            self.read(from, position, right);
            // Whole elements, aligned: nothing is left to go wrong.
            let _ = reducer.reduce(left, right, order);
            self.write(into, position, left);
            position += len;
        }
        position
    }

    /// Goes on with a copy from this byte of the pieces on. Returns how far it is.
    pub(super) fn copy(&self, (into, from): (Piece, Piece), position: usize) -> usize {
        let len = (into.len - position).min(BYTES_PER_ADVANCE);
        let [to, source] = [into.area, from.area].map(|area| self.places[area as usize].as_ref());
        if let (Some((to, _)), Some((source, _))) = (to, source) {
            let (from, into) = (from.start + position, into.start + position);
            // Most short ones are a word, and take less by themselves.
            let word = if len == size_of::<u64>() { source.read_word(from) } else { None };
            if !word.is_some_and(|word| to.write_word(into, word)) {
                let _ = source.copy(from, to, into, len);
            }
        }
        position + len
    }
}
