//! Memory that the nodes of one machine have in common, and the bells by which they wake each other's harts (SPEC H-1, H-5, N-8).
//!
//! Whoever starts the nodes makes both, and each node finds them behind its standard input, a socket: a message with the
//! descriptor of the memory, then of each hart's bell, node by node. There is no path to either, and the memory is gone with the
//! last node.

use super::Events;
use crate::near::{Desk, Near};
use alloc::boxed::Box;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use heapless::Vec;
use rings::segment::{MOST_BELLS, SHARED_AT, desk_bytes, shared_bytes};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::io::{Errno, IoSliceMut};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Why there is no segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentError {
    /// The host does not give it.
    Host(Errno),
    /// The node is none of those that share it, or there is no bell for each of their harts: so many came.
    Bells(usize),
    /// It is of another size: so many bytes.
    Bytes(u64),
    /// It is not sealed against that it shrinks.
    MayShrink,
    /// Something lies where it belongs.
    Taken,
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(error) => {
                write!(f, "the host does not give it (error {})", error.raw_os_error())
            }
            Self::Bells(bells) => write!(f, "{bells} bells are not one for each hart of its nodes"),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes are not the memory of its nodes"),
            Self::MayShrink => f.write_str("its memory may shrink under its nodes: it wants F_SEAL_SHRINK"),
            Self::Taken => write!(f, "something else lies at {SHARED_AT:#x}"),
        }
    }
}

impl core::error::Error for SegmentError {}

/// How nodes share memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// This node.
    pub node: usize,
    /// So many nodes.
    pub nodes: usize,
    /// Harts of each.
    pub harts: usize,
    /// Bytes of memory of each.
    pub bytes: usize,
}

/// Descriptors of a segment, as they come.
pub type Descriptors = Vec<OwnedFd, { 1 + MOST_BELLS }>;

/// What a node shares with the others of its machine.
#[derive(Debug)]
pub struct Peers {
    shape: Shape,
    /// Where the memory ends.
    end: usize,
    /// By node, then by hart.
    bells: Descriptors,
}

impl Peers {
    /// That of `shape`, as the socket `from` has it; mapped, where it stays.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn receive(from: impl AsFd, shape: Shape) -> Result<Self, SegmentError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1 + MOST_BELLS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            .map_err(SegmentError::Host)?;
        let rights = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let mut all = rights.flatten();
        let memory = all.next().ok_or(SegmentError::Bells(0))?;
        // There is room for as many as can come.
        Self::new(memory, all.take(MOST_BELLS).collect(), shape)
    }

    /// The same of this memory, with these bells: eventfds that do not block.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn new(memory: OwnedFd, bells: Descriptors, shape: Shape) -> Result<Self, SegmentError> {
        let Shape { node, nodes, harts, bytes } = shape;
        if node >= nodes || bells.len() != nodes * harts {
            return Err(SegmentError::Bells(bells.len()));
        }
        let there = fstat(&memory).map_err(SegmentError::Host)?.st_size as u64;
        // Beyond its end an access would be a fault.
        let all = shared_bytes(nodes, bytes).filter(|&all| all as u64 == there);
        let all = all.ok_or(SegmentError::Bytes(there))?;
        if !fcntl_get_seals(&memory).map_err(SegmentError::Host)?.contains(SealFlags::SHRINK) {
            return Err(SegmentError::MayShrink);
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let flags = flags | MapFlags::FIXED_NOREPLACE | MapFlags::NORESERVE;
        // SAFETY: a new mapping, which replaces none.
        let start =
            unsafe { mmap(ptr::with_exposed_provenance_mut(SHARED_AT), all, protection, flags, memory, 0) };
        let start = start.map_err(|error| match error {
            Errno::EXIST => SegmentError::Taken,
            error => SegmentError::Host(error),
        })?;
        // Hosts that know no such flag choose a place of their own.
        if start.expose_provenance() != SHARED_AT {
            return Err(SegmentError::Taken);
        }
        Ok(Self { shape, end: SHARED_AT + all, bells })
    }

    /// The node's own memory: its first byte, and how many.
    pub fn memory(&self) -> (usize, usize) {
        let Shape { node, nodes, bytes, .. } = self.shape;
        (SHARED_AT + desk_bytes(nodes) + node * bytes, bytes)
    }

    /// Whether all of these bytes are memory that all nodes have.
    pub fn contain(&self, address: usize, len: usize) -> bool {
        (SHARED_AT..self.end).contains(&address) && len <= self.end - address
    }

    /// The nodes' desks, and which of them is the node's.
    pub fn near(&'static self) -> Near {
        let Shape { node, nodes, .. } = self.shape;
        let place = NonNull::new(ptr::with_exposed_provenance_mut(SHARED_AT)).unwrap_or(NonNull::dangling());
        // SAFETY: `new` has mapped it, where it stays, with nothing but the desks there. All nodes map it at the same place, and
        // their own memory, in which all lies that they publish, with it; they run the same image, linked to one address.
        let desks = unsafe { Desk::all(NonNull::slice_from_raw_parts(place, nodes * size_of::<Desk>())) };
        Near { desks, node: node as u32 }
    }

    /// The bells of the node's own harts.
    pub fn own_bells(&'static self) -> &'static [OwnedFd] {
        let Shape { node, harts, .. } = self.shape;
        &self.bells[node * harts..(node + 1) * harts]
    }

    /// Others call the node's harts by `events` from now on.
    pub fn publish(&'static self, events: &'static Events) {
        if let Some(desk) = self.near().desks.get(self.shape.node) {
            desk.harts.set(events);
        }
    }

    /// Calls hart `hart` of node `node`, as [`Events`](super::Events) of that node would.
    pub fn call(&'static self, node: usize, hart: usize) {
        let bell = self.bells.get(node * self.shape.harts + hart).filter(|_| hart < self.shape.harts);
        // SAFETY: a desk's `harts` are the `Events` of its node, which has its memory and its image where they are here.
        let events = self.near().desks.get(node).and_then(|desk| unsafe { desk.harts.get::<Events>() });
        if let Some((events, bell)) = events.zip(bell) {
            events.call_by(hart, bell);
        }
    }
}

/// Bells for so many harts that nobody else has.
///
/// # Errors
/// The host gives no more descriptors.
pub fn bells(harts: usize) -> Result<&'static [OwnedFd], Errno> {
    use rustix::event::{EventfdFlags, eventfd};
    let bell = |_| eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
    let bells: Result<Box<[_]>, _> = (0..harts).map(bell).collect();
    Ok(Box::leak(bells?))
}

/// The standard input of this process.
pub fn standard_input() -> BorrowedFd<'static> {
    // SAFETY: nobody closes it.
    unsafe { BorrowedFd::borrow_raw(0) }
}

#[cfg(test)]
mod tests;
