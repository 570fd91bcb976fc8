//! The node's slab of copy slots: room for the payload of one packet each.
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
/// Nobody: no rank and no context is as high.
const NOBODY: u64 = u64::MAX;

/// The right to use one slot of a slab, alone.
#[derive(Debug)]
pub(crate) struct Slot(NonZeroU16);

/// Slots of equal size, aligned to 64 bytes. Never freed.
#[derive(Clone, Copy)]
pub(crate) struct CopySlots {
    memory: NonNull<u8>,
    bytes: usize,
    stride: usize,
    count: usize,
}

// SAFETY: the memory is reached only through slots, each of which exists once.
unsafe impl Send for CopySlots {}
// SAFETY: as above.
unsafe impl Sync for CopySlots {}

impl CopySlots {
    /// A slab of `count` slots, at most 65535, of `bytes` bytes, and the slots. Allocates.
    pub(crate) fn new(count: usize, bytes: usize) -> (Self, impl Iterator<Item = Slot>) {
        let count = count.min(usize::from(u16::MAX));
        let stride = bytes.next_multiple_of(LINE);
        let memory = Box::leak(vec![0u8; count * stride + LINE].into_boxed_slice());
        let skip = memory.as_ptr().align_offset(LINE).min(LINE);
        let slab = Self { memory: NonNull::from(&mut memory[skip..]).cast(), bytes, stride, count };
        (slab, (1..=count as u16).filter_map(NonZeroU16::new).map(Slot))
    }

    /// Address of a slot. Every slot comes from a slab of this node, which has one slab; were it another's, the
    /// check keeps the address inside.
    fn pointer(&self, slot: &Slot) -> NonNull<u8> {
        let index = usize::from(slot.0.get() - 1).min(self.count - 1);
        // SAFETY: less than `count` strides, all inside the slab.
        unsafe { self.memory.add(index * self.stride) }
    }

    /// Bytes of a slot.
    #[inline]
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes
    }

    /// The slot's bytes, to be written.
    #[inline]
    pub(crate) fn bytes_mut<'a>(&self, slot: &'a mut Slot) -> &'a mut [u8] {
        // SAFETY: `bytes` initialised bytes of the slab, which only this slot reaches.
        unsafe { core::slice::from_raw_parts_mut(self.pointer(slot).as_ptr(), self.bytes) }
    }

    /// The slot's bytes.
    #[inline]
    pub(crate) fn bytes<'a>(&self, slot: &'a Slot) -> &'a [u8] {
        // SAFETY: as in `bytes_mut`.
        unsafe { core::slice::from_raw_parts(self.pointer(slot).as_ptr(), self.bytes) }
    }
}

/// At most `N` slots in a row, those of them that are free, and whom packets in the others are for.
pub(crate) struct Stock<const N: usize> {
    free: Vec<Slot, N>,
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
    pub(crate) fn take(&mut self, target: u64) -> Option<Slot> {
        if self.is_low() && self.holders.contains(&target) {
            return None;
        }
        let slot = self.free.pop()?;
        self.holders[usize::from(slot.0.get()) % N] = target;
        Some(slot)
    }

    /// Takes a slot in that nobody needs.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.holders[usize::from(slot.0.get()) % N] = NOBODY;
        // There is room for all.
        let _ = self.free.push(slot);
    }
}
