//! Nodes that reach each other's memory as their own (SPEC H-1, H-5): processes of one machine that map the same memory at the
//! same addresses, and run the same image at one address, so that a reference means the same to all.
//!
//! Each node publishes at its desk where its parts lie that others use: its shared-memory rings, its message unit with its
//! regions and bells, and what its harts sleep on. They are there for as long as the memory is, which is longer than the
//! node.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};
use rings::segment::DESK_BYTES;

/// Where a node's parts lie, as far as it has published them. All zero is a desk.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Desk {
    /// Its `Shm`.
    pub(crate) shm: Published,
    /// Its `MessageUnit`, of the one kind that an image has.
    pub(crate) unit: Published,
    /// The `Events` that its harts sleep on, on Linux.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) harts: Published,
}

/// The nodes whose memory one of them reaches.
#[derive(Clone, Copy)]
pub struct Near {
    /// Their desks, by node.
    pub desks: &'static [Desk],
    /// Which of them this node is.
    pub node: u32,
}

/// Something of a node's, or nothing yet.
#[derive(Default)]
pub(crate) struct Published(AtomicPtr<()>);

impl Published {
    /// Publishes `what`.
    pub(crate) fn set<T: Sync>(&self, what: &'static T) {
        self.0.store(ptr::from_ref(what).cast_mut().cast(), Ordering::Release);
    }

    /// What was published.
    ///
    /// # Safety
    /// That was a `T` of the same image, at this address for all who reach the desk.
    #[inline]
    pub(crate) unsafe fn get<T: Sync>(&self) -> Option<&'static T> {
        let place = NonNull::new(self.0.load(Ordering::Acquire))?.cast();
        // SAFETY: it was a reference that lives for ever; the rest the caller says.
        Some(unsafe { place.as_ref() })
    }
}

const _: () = assert!(size_of::<Desk>() == DESK_BYTES);

impl Desk {
    /// The desks in `memory` of zeros, as many as it has room for.
    ///
    /// # Safety
    /// Nobody uses this memory for anything else, for ever. All who reach it, or memory that what is published refers to,
    /// have both at the same addresses, and run the same image at the same address.
    pub unsafe fn all(memory: NonNull<[u8]>) -> &'static [Self] {
        let desks = memory.len() / size_of::<Self>();
        // SAFETY: so many fit, zeros are desks, and all of one is atomic words; the rest the caller says.
        unsafe { NonNull::slice_from_raw_parts(memory.cast(), desks).as_ref() }
    }
}
