//! The node's slab of copy slots: room for the payload of one packet each, long or short. Short ones are many, so that copied
//! messages fill the window to a node: their slots come back with its acknowledgements.
//!
//! A packet keeps its slot until its node has it, and a node that is stopped, or a context that nobody advances, takes nothing.
//! So half of the slots that a port or the answers have are for whoever comes, and of the others a context, or of answers a
//! node, gets one at a time (SPEC R-1).

use alloc::boxed::Box;
use alloc::vec;
use core::num::NonZeroU16;
use core::ptr::NonNull;
use heapless::Vec;

const LINE: usize = 64;
/// Bytes of a short slot: half a KiB with a header of a line.
pub(crate) const SHORT_BYTES: usize = 576;
/// Nobody: no rank and no context is as high.
const NOBODY: u64 = u64::MAX;

/// The right to use one slot of a slab, alone.
#[derive(Debug)]
pub(crate) struct CopySlot(NonZeroU16);

/// Long slots, and behind them short ones, aligned to 64 bytes. Never freed.
#[derive(Clone, Copy)]
pub(crate) struct CopySlots {
    memory: NonNull<u8>,
    /// Bytes of a long one.
    bytes: usize,
    stride: usize,
    long: usize,
    short: usize,
}

// SAFETY: the memory is reached only through slots, each of which exists once.
unsafe impl Send for CopySlots {}
// SAFETY: as above.
unsafe impl Sync for CopySlots {}

impl CopySlots {
    /// A slab of `long` slots of `bytes` bytes, at least one, and `short` ones, together at most 65535, and the slots.
    /// Allocates.
    pub(crate) fn new(
        (long, bytes): (usize, usize),
        short: usize,
    ) -> (Self, impl Iterator<Item = CopySlot>, impl Iterator<Item = CopySlot>) {
        let long = long.clamp(1, usize::from(u16::MAX));
        let short = short.min(usize::from(u16::MAX) - long);
        let stride = bytes.next_multiple_of(LINE);
        let memory = Box::leak(vec![0u8; long * stride + short * SHORT_BYTES + LINE].into_boxed_slice());
        let skip = memory.as_ptr().align_offset(LINE).min(LINE);
        let memory = NonNull::from(&mut memory[skip..]).cast();
        let slots = |from, to| (from as u16 + 1..=to as u16).filter_map(NonZeroU16::new).map(CopySlot);
        (Self { memory, bytes, stride, long, short }, slots(0, long), slots(long, long + short))
    }

    /// Whether a slot is a short one.
    #[inline]
    pub(crate) fn is_short(&self, slot: &CopySlot) -> bool {
        usize::from(slot.0.get()) > self.long
    }

    /// Where a slot lies, and its bytes. Every slot comes from a slab of this node, which has one slab; were it another's,
    /// the check keeps it inside.
    #[inline]
    fn place(&self, slot: &CopySlot) -> (NonNull<u8>, usize) {
        let index = usize::from(slot.0.get() - 1).min(self.long + self.short - 1);
        let (at, bytes) = match index.checked_sub(self.long) {
            Some(short) => (self.long * self.stride + short * SHORT_BYTES, SHORT_BYTES),
            None => (index * self.stride, self.bytes),
        };
        // SAFETY: a slot's bytes from there on are inside the slab.
        (unsafe { self.memory.add(at) }, bytes)
    }

    /// Bytes of a long slot.
    #[inline]
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes
    }

    /// The slot's bytes, to be written.
    #[inline]
    pub(crate) fn bytes_mut<'a>(&self, slot: &'a mut CopySlot) -> &'a mut [u8] {
        let (at, bytes) = self.place(slot);
        // SAFETY: so many initialised bytes of the slab, which only this slot reaches.
        unsafe { core::slice::from_raw_parts_mut(at.as_ptr(), bytes) }
    }

    /// The slot's bytes.
    #[inline]
    pub(crate) fn bytes<'a>(&self, slot: &'a CopySlot) -> &'a [u8] {
        let (at, bytes) = self.place(slot);
        // SAFETY: as in `bytes_mut`.
        unsafe { core::slice::from_raw_parts(at.as_ptr(), bytes) }
    }
}

/// At most `N` slots in a row, those of them that are free, and whom packets in the others are for.
pub(crate) struct Stock<const N: usize> {
    free: Vec<CopySlot, N>,
    holders: [u64; N],
}

impl<const N: usize> Stock<N> {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self { free: Vec::new(), holders: [NOBODY; N] }
    }

    /// Whether each gets one slot only.
    #[inline]
    pub(crate) fn is_low(&self) -> bool {
        self.free.len() <= N / 2
    }

    /// A slot for a packet to `target`.
    #[inline]
    pub(crate) fn take(&mut self, target: u64) -> Option<CopySlot> {
        if self.is_low() && self.holders.contains(&target) {
            return None;
        }
        let slot = self.free.pop()?;
        self.holders[usize::from(slot.0.get()) % N] = target;
        Some(slot)
    }

    /// Takes a slot in that nobody needs.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: CopySlot) {
        self.holders[usize::from(slot.0.get()) % N] = NOBODY;
        // There is room for all.
        let _ = self.free.push(slot);
    }
}
