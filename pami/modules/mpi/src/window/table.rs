//! The windows of a context, and what it knows of their processes.

use super::answers::Answers;
use super::epoch::Epoch;
use super::outstanding::Outstanding;
use super::peer::WindowPeer;
use super::wire::{EXCHANGED, LOCK_BYTES};
use crate::error::{Error, Result};
use crate::request::OWN;
use crate::settings::Settings;
use base::{fill, shared};
use core::ops::Range;
use pami::client::Node;
use pami::device::Port;
use pami::{Active, Endpoint, Region, RegisterError, Rights, Shared};
use rings::first_fit::first_fit;
use rings::slot_table::{Slot, SlotTable};

/// Allocated windows begin at multiples of this.
const ALIGN: usize = 64;

/// A window.
pub(crate) struct Win {
    pub memory: Shared,
    /// First byte in it.
    pub base: usize,
    pub size: usize,
    /// This process.
    pub rank: u32,
    /// The registration, if the memory is the application's.
    pub region: Option<Region>,
    /// The memory, if it is the library's.
    pub piece: Range<usize>,
    /// Its processes among those of all windows.
    pub peers: Range<usize>,
    pub epoch: Epoch,
    /// Operations that still use this process's buffers.
    pub local: u32,
    /// Operations that are not known to be carried out.
    pub remote: u32,
    /// What went wrong and was not told.
    pub error: Option<Error>,
}

/// The windows of one context.
#[derive(Default)]
pub(crate) struct Windows {
    wins: SlotTable<Win>,
    peers: &'static mut [WindowPeer],
    pub(crate) outstanding: Outstanding,
    pub(crate) answers: Answers,
    /// Locks, then memory of exchanges, then that of windows which the library allocates.
    home: Option<Region>,
    /// Bytes of an exchange's memory.
    exchange: usize,
    memory: usize,
    /// The last exchange's memory has a user: a call that finds no place for its window.
    pub(crate) spare_used: bool,
}

/// Lets others access memory in every way.
///
/// # Errors
/// [`Error::NoMem`], [`Error::Arg`].
pub(crate) fn register<P: Port>(active: &mut Active<P>, memory: Shared) -> Result<Region> {
    active.register_shared(memory, Rights::all()).map_err(|(error, _)| match error {
        RegisterError::NoneLeft { limit } => Error::NoMem { what: "memory regions of the node", limit },
        RegisterError::TooLong => Error::Arg("a window's memory has at most 4294967295 bytes"),
        RegisterError::OutOfReach => Error::Arg("a window's memory is a task's, or a hart's stack"),
        RegisterError::Unaligned => Error::Arg("a window's memory begins at a multiple of 8"),
    })
}

impl Windows {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        let none = Endpoint::from_bits(u64::MAX);
        let peer = WindowPeer::new(none);
        let count = usize::from(settings.windows.min(u8::MAX.into()));
        let ranks = if count == 0 { 0 } else { settings.window_ranks };
        let most = ranks.min(node.tasks() as usize);
        Ok(Self {
            wins: SlotTable::new(fill(node, "windows", count, Slot::new)?),
            peers: fill(node, "windows", ranks, || peer)?,
            outstanding: Outstanding::new(
                node,
                if ranks == 0 { 0 } else { usize::from(settings.requests) + OWN },
            )?,
            answers: Answers::new(node, most)?,
            home: None,
            exchange: EXCHANGED * (most + 1),
            memory: settings.window_memory,
            spare_used: false,
        })
    }

    /// Windows that there are.
    pub(crate) fn used(&self) -> usize {
        self.wins.len()
    }

    /// Ends what the context had for windows.
    pub(crate) fn close<P: Port>(&mut self, active: &mut Active<P>) {
        if let Some(home) = self.home.take() {
            // The memory is the node's, which takes none back.
            let _ = active.deregister(home);
        }
    }

    /// Which of the windows that ever had a place has it.
    pub(crate) fn generation(&self, slot: u8) -> Option<u32> {
        self.wins.key(slot.into()).map(|key| key.generation)
    }

    pub(crate) fn win(&mut self, slot: u8) -> Option<&mut Win> {
        self.wins.get_mut(slot.into())
    }

    /// All windows' slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.wins.capacity() as u8
    }

    /// The processes of a window, by rank.
    pub(crate) fn peers(&mut self, slot: u8) -> &mut [WindowPeer] {
        let range = self.win(slot).map_or(0..0, |win| win.peers.clone());
        self.peers.get_mut(range).unwrap_or_default()
    }

    pub(crate) fn peer(&mut self, slot: u8, rank: u32) -> Option<&mut WindowPeer> {
        self.peers(slot).get_mut(rank as usize)
    }

    /// The region with locks and memory of the library's.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn home<N: Node>(&mut self, node: &N, active: &mut Active<N::Port>) -> Result<&Region> {
        let (locks, exchanges) =
            (self.wins.capacity() * LOCK_BYTES, (self.wins.capacity() + 1) * self.exchange);
        if self.home.is_none() {
            let memory = shared(node, "windows", locks + exchanges + self.memory)?;
            self.home = Some(register(active, memory)?);
        }
        self.home.as_ref().ok_or(Error::Finalized)
    }

    /// The memory of the library's, and where the exchange for a window's slot begins in it; without a slot the spare one.
    pub(crate) fn exchange(&self, slot: Option<u8>) -> Option<(Shared, usize)> {
        let index = slot.map_or(self.wins.capacity(), usize::from);
        let memory = self.home.as_ref()?.memory().clone();
        Some((memory, self.wins.capacity() * LOCK_BYTES + index * self.exchange))
    }

    /// A place in the memory for windows, in bytes of the home region.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn piece(&self, bytes: usize) -> Result<Range<usize>> {
        let limit = self.memory;
        let full = Error::NoMem { what: "bytes for windows of the library's memory", limit };
        let start = self.wins.capacity() * LOCK_BYTES + (self.wins.capacity() + 1) * self.exchange;
        let start = start.next_multiple_of(ALIGN);
        let len = bytes.max(1).checked_next_multiple_of(ALIGN).ok_or(full)?;
        let used = core::iter::once(0..start).chain(self.wins.iter().map(|(_, win)| win.piece.clone()));
        let start = first_fit(len, start + limit / ALIGN * ALIGN, 1, used).ok_or(full)?;
        Ok(start..start + len)
    }

    /// Whether `count` processes can be those of a window at all.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn check_ranks(&self, count: usize) -> Result<()> {
        let limit = self.peers.len();
        if count > limit { Err(Error::NoMem { what: "processes of windows", limit }) } else { Ok(()) }
    }

    /// Room for the processes of a window, who have these endpoints.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn seat(
        &mut self,
        count: u32,
        endpoint: impl Fn(u32) -> Option<Endpoint>,
    ) -> Result<Range<usize>> {
        let limit = self.peers.len();
        let used = self.wins.iter().map(|(_, win)| win.peers.clone());
        let first = first_fit(count as usize, limit, 1, used);
        let first = first.ok_or(Error::NoMem { what: "processes of windows", limit })?;
        let seats = first..first + count as usize;
        for (rank, peer) in (0..).zip(&mut self.peers[seats.clone()]) {
            let endpoint = endpoint(rank).ok_or(Error::Rank(rank.into()))?;
            *peer = WindowPeer::new(endpoint);
        }
        Ok(seats)
    }

    /// A free place: its slot and the generation of the window that comes there.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn free_place(&self) -> Result<(u8, u32)> {
        let full = Error::NoMem { what: "windows", limit: self.wins.capacity() };
        self.wins.vacant().map(|key| (key.index as u8, key.generation)).ok_or(full)
    }

    /// Puts a window into the free place.
    pub(crate) fn place(&mut self, win: Win) {
        let _ = self.wins.insert(win);
    }

    pub(crate) fn remove(&mut self, slot: u8) -> Option<Win> {
        self.answers.forget(slot);
        self.wins.remove(slot.into())
    }
}
