//! The interrupt of a card that is a descriptor: a level, as long as there is something to read, or room to send where that is
//! wanted (SPEC H-1, N-8).
//!
//! Whoever sleeps waits for one descriptor, an epoll of the card's: what the card wants may change while somebody sleeps.

use core::sync::atomic::{AtomicBool, Ordering};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// A card's interrupt, and the descriptor that it is of.
pub struct Signal {
    /// The card's own.
    descriptor: OwnedFd,
    /// Ready when there is an interrupt.
    ready: OwnedFd,
    /// Ready when the card itself says that there is something to read, though the host has nothing.
    told: OwnedFd,
    is_told: AtomicBool,
    wants_room: AtomicBool,
    /// Nobody is at the other end any more.
    gone: AtomicBool,
}

impl Signal {
    /// That of `descriptor`.
    pub(super) fn new(descriptor: OwnedFd) -> Result<Self, Errno> {
        let ready = epoll::create(CreateFlags::CLOEXEC)?;
        let told = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        for descriptor in [&descriptor, &told] {
            epoll::add(&ready, descriptor, EventData::new_u64(0), EventFlags::IN)?;
        }
        let no = || AtomicBool::new(false);
        Ok(Self { descriptor, ready, told, is_told: no(), wants_room: no(), gone: no() })
    }

    /// The card's own descriptor.
    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Ready when there is an interrupt.
    pub(super) fn ready(&self) -> &OwnedFd {
        &self.ready
    }

    /// Room to send is an interrupt too from now on, or not any more.
    pub(super) fn want_room(&self, wanted: bool) {
        if self.wants_room.swap(wanted, Ordering::Relaxed) != wanted && !self.is_gone() {
            let room = if wanted { EventFlags::OUT } else { EventFlags::empty() };
            // The descriptor is there: it was added.
            let _ =
                epoll::modify(&self.ready, &self.descriptor, EventData::new_u64(0), EventFlags::IN | room);
        }
    }

    /// Interrupts, until it is [taken back](Self::take_back).
    pub(super) fn tell(&self) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            // It fails only if it is told already.
            let _ = rustix::io::write(&self.told, &1u64.to_ne_bytes());
        }
    }

    /// What was told is done with.
    pub(super) fn take_back(&self) {
        if self.is_told.swap(false, Ordering::Relaxed) {
            let _ = rustix::io::read(&self.told, &mut [0u8; 8]);
        }
    }

    /// Nobody is at the other end any more: it never interrupts again.
    pub(super) fn lose(&self) {
        if !self.gone.swap(true, Ordering::Relaxed) {
            let _ = epoll::delete(&self.ready, &self.descriptor);
        }
    }

    /// Whether nobody is at the other end any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
