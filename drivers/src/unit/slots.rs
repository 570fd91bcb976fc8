//! The node's slab of copy slots: room for the payload of one packet each.

use alloc::boxed::Box;
use alloc::vec;
use core::num::NonZeroU16;
use core::ptr::NonNull;

const LINE: usize = 64;

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
