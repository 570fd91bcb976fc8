//! Memory that the nodes of one machine share, and the bells by which they wake each other (SPEC H-1, N-8).
//!
//! Whoever starts the nodes makes both, and each node finds them behind its standard input, a socket: a message with the
//! descriptor of the memory, then of each node's bell. There is no path to either, and the memory is gone with the last node.

use super::Signal;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::mem::MaybeUninit;
use core::{ptr, slice};
use rings::packets::{MOST_NODES, PacketLine, RING_LINES, Segment};
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
    /// There is no memory and a bell for each of so many nodes.
    Nodes(usize),
    /// It is of another size: so many bytes.
    Bytes(u64),
    /// It is not sealed against that it shrinks.
    MayShrink,
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(error) => {
                write!(f, "the host does not give it (error {})", error.raw_os_error())
            }
            Self::Nodes(nodes) => write!(f, "it is not that of {nodes} nodes: {MOST_NODES} can share one"),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes are not what its nodes' rings take"),
            Self::MayShrink => f.write_str("its memory may shrink under its nodes: it wants F_SEAL_SHRINK"),
        }
    }
}

impl core::error::Error for SegmentError {}

/// What a node shares with the others of its machine.
pub struct Peers {
    segment: Segment,
    /// By node.
    bells: &'static [OwnedFd],
}

impl Peers {
    /// That of `nodes` nodes, as the socket `from` has it.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn receive(from: impl AsFd, nodes: usize) -> Result<Self, SegmentError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1 + MOST_NODES))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            .map_err(SegmentError::Host)?;
        let rights = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let mut all = rights.flatten();
        let memory = all.next().ok_or(SegmentError::Nodes(nodes))?;
        Self::new(memory, all.collect(), nodes)
    }

    /// That of `nodes` nodes, in this memory, with a bell for each: an eventfd that does not block. Neither the memory nor the
    /// bells are given back.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn new(memory: OwnedFd, bells: Vec<OwnedFd>, nodes: usize) -> Result<Self, SegmentError> {
        if bells.len() != nodes || !(1..=MOST_NODES).contains(&nodes) {
            return Err(SegmentError::Nodes(nodes));
        }
        let bytes = fstat(&memory).map_err(SegmentError::Host)?.st_size as u64;
        // Beyond its end an access would be a fault.
        if bytes != Segment::bytes(nodes) as u64 {
            return Err(SegmentError::Bytes(bytes));
        }
        if !fcntl_get_seals(&memory).map_err(SegmentError::Host)?.contains(SealFlags::SHRINK) {
            return Err(SegmentError::MayShrink);
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, wherever the host likes.
        let start = unsafe { mmap(ptr::null_mut(), Segment::bytes(nodes), protection, flags, memory, 0) };
        let start = start.map_err(SegmentError::Host)?.cast_const().cast::<PacketLine>();
        // SAFETY: the mapping stays for ever, begins at a page and is of so many lines, which are atomic words of any value.
        // Nobody but nodes reaches this memory, by such words alone; it is sealed against shrinking.
        let lines = unsafe { slice::from_raw_parts(start, Segment::lines(nodes, RING_LINES)) };
        let segment = Segment::new(lines, nodes, RING_LINES).ok_or(SegmentError::Nodes(nodes))?;
        Ok(Self { segment, bells: Box::leak(bells.into_boxed_slice()) })
    }

    /// The rings.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Node `node` is woken by its bell, with what `signal` wakes it for.
    ///
    /// # Errors
    /// The host's.
    pub fn attach(&self, node: usize, signal: &Signal) -> Result<(), Errno> {
        self.bells.get(node).map_or(Err(Errno::INVAL), |bell| signal.add(bell))
    }

    /// Ends the sleep of node `node`, or its next one.
    pub fn ring(&self, node: usize) {
        if let Some(bell) = self.bells.get(node) {
            // It fails only if it was rung already.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    /// How often the bell of node `node`, which calls, was rung since the last time.
    pub fn take_rings(&self, node: usize) -> u64 {
        let mut count = [0; 8];
        let read = self.bells.get(node).map(|bell| rustix::io::read(bell, &mut count));
        if matches!(read, Some(Ok(8))) { u64::from_ne_bytes(count) } else { 0 }
    }
}

/// The standard input of this process.
pub fn standard_input() -> BorrowedFd<'static> {
    // SAFETY: nobody closes it.
    unsafe { BorrowedFd::borrow_raw(0) }
}

#[cfg(test)]
mod tests;
