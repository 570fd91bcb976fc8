//! Locks: passive targets.
//!
//! Each window of a process has three words: tickets, readers let in, holders who left. Who wants the lock draws a ticket and
//! is let in when its turn has come: for itself when all before it have left, with others when all before it were let in. So
//! it is fair: nobody overtakes. (J. M. Mellor-Crummey, M. L. Scott: Scalable Reader-Writer Synchronization for Shared-Memory
//! Multiprocessors, 1991, the simple fair lock.) Origins update the words themselves; the target has nothing to do.

use super::target::rank as rank_of;
use super::transfer::taken;
use super::{At, Window};
use crate::error::{Error, Result};
use crate::request::NONE;
use crate::window::LockType;
use crate::window::epoch::Assert;
use crate::window::outstanding::{Destination, Fetch};
use crate::window::peer::Held;
use crate::window::wire::{LOCK_BYTES, READ, TICKETS, WRITE};
use pami::client::Node;
use pami::{Rmw, RmwOp, Update, Width};

/// Between two looks at a lock for each holder or waiter before.
const LOOK_NS: u64 = 20_000;
/// Between two looks at most.
const LONGEST_LOOK_NS: u64 = 1_000_000;

impl<N: Node> At<'_, N> {
    /// Updates a word of a process's lock. Returns where it will be told what it was; `None` if there is no room now.
    fn fetch_word(&mut self, rank: u32, word: u32, add: u64) -> Result<Option<usize>> {
        let peer = *self.peer(rank)?;
        let Some(place) = self.state.windows.outstanding.free_place() else { return Ok(None) };
        let rmw = Rmw {
            target: peer.endpoint,
            region: peer.info.home(),
            offset: peer.info.slot.get() * LOCK_BYTES as u32 + word,
            op: RmwOp { width: Width::Four, update: Update::Add(add) },
            done: Some(self.ends.fetched(place)),
        };
        if taken(self.state.window_protocols()?.one_sided.rmw(self.active, rmw))?.is_none() {
            return Ok(None);
        }
        let (window, target, destination) = (self.slot, peer.endpoint, Destination::Word(None));
        let fetch = Fetch { window, rank, target, request: NONE, by_message: false, destination };
        self.state.windows.outstanding.put(fetch);
        Ok(Some(place))
    }

    /// A process of the window whose node is dead: it may have been the holder. Has one of them looked after.
    fn casualty(&mut self, looks: u32) -> Result<()> {
        let peers = self.state.windows.peers(self.slot);
        if self.active.dead_node().is_some()
            && let Some(node) = peers.iter().find_map(|peer| self.active.death_of(peer.endpoint))
        {
            return Err(Error::NodeDead(node));
        }
        if let Some(peer) = peers.get(looks as usize % peers.len().max(1)) {
            self.active.watch(peer.endpoint);
        }
        Ok(())
    }
}

impl<N: Node> Window<N> {
    /// Adds to a word of a process's lock and returns what it was.
    fn word(&self, rank: u32, word: u32, add: u64) -> Result<u32> {
        let place = self.insist(|at| at.fetch_word(rank, word, add))?;
        let vci = self.library.vci(self.vci())?;
        self.library.wait_until(self.vci(), || {
            let mut state = vci.state.lock();
            let fetch = state.windows.outstanding.get(place);
            fetch.is_none_or(|fetch| matches!(fetch.destination, Destination::Word(Some(_))))
        })?;
        match vci.state.lock().windows.outstanding.take(place).map(|fetch| fetch.destination) {
            Some(Destination::Word(Some(word))) => word.map(|word| word as u32),
            _ => Err(Error::Win),
        }
    }

    fn acquire(&self, rank: u32, kind: LockType) -> Result<()> {
        let ticket = self.word(rank, TICKETS, 1)?;
        let gate = if kind == LockType::Shared { READ } else { WRITE };
        let mut looks = 0;
        loop {
            let turn = self.word(rank, gate, 0)?;
            if turn == ticket {
                break;
            }
            self.enter(|at| at.casualty(looks))?;
            looks = looks.wrapping_add(1);
            let before = u64::from(ticket.wrapping_sub(turn));
            self.library.pause(self.vci(), before.saturating_mul(LOOK_NS).min(LONGEST_LOOK_NS))?;
        }
        if kind == LockType::Shared {
            self.word(rank, READ, 1)?;
        }
        Ok(())
    }

    fn release(&self, rank: u32, kind: LockType) -> Result<()> {
        if kind == LockType::Exclusive {
            self.word(rank, READ, 1)?;
        }
        self.word(rank, WRITE, 1).map(drop)
    }

    /// Locks a process, if it has to be, and notes that it is.
    fn hold(&self, rank: u32, kind: LockType, assert: Assert) -> Result<()> {
        let held = if assert.contains(Assert::NOCHECK) {
            Held::Unchecked
        } else {
            self.acquire(rank, kind)?;
            Held::Lock(kind)
        };
        self.enter(|at| at.peer(rank).map(|peer| peer.held = Some(held)))
    }

    /// Completes what was begun on a locked process, and unlocks it.
    fn let_go(&self, rank: u32) -> Result<()> {
        let finished = self.finish(rank);
        match self.enter(|at| at.peer(rank).map(|peer| peer.held.take()))? {
            Some(Held::Lock(kind)) => finished.and(self.release(rank, kind)),
            _ => finished,
        }
    }

    /// `MPI_Win_lock`: begins accesses to a process's window, alone or with others who share the lock. Needs no call there.
    ///
    /// # Errors
    /// [`Error::RmaSync`] if it is locked or in another epoch, [`Error::Rank`], [`Error::NodeDead`].
    pub fn lock(&self, kind: LockType, rank: i32, assert: Assert) -> Result<()> {
        let Some(rank) = rank_of(rank, self.communicator.size())? else { return Ok(()) };
        self.enter(|at| {
            let peer = *at.peer(rank)?;
            at.win()?.epoch.lock(&peer)
        })?;
        let held = self.hold(rank, kind, assert);
        if held.is_err() {
            self.enter(|at| {
                at.win()?.epoch.give_up_lock();
                Ok(())
            })?;
        }
        held
    }

    /// `MPI_Win_unlock`: completes all operations on a locked process's window, here and there, and unlocks it.
    ///
    /// # Errors
    /// [`Error::RmaSync`] if it is not locked, [`Error::Rank`]; what went wrong with the operations.
    pub fn unlock(&self, rank: i32) -> Result<()> {
        let Some(rank) = rank_of(rank, self.communicator.size())? else { return Ok(()) };
        self.enter(|at| {
            let peer = *at.peer(rank)?;
            at.win()?.epoch.unlock(&peer)
        })?;
        self.let_go(rank)
    }

    /// `MPI_Win_lock_all`: begins accesses to all processes' windows, shared with others.
    ///
    /// # Errors
    /// [`Error::RmaSync`] in another epoch, [`Error::NodeDead`].
    pub fn lock_all(&self, assert: Assert) -> Result<()> {
        self.enter(|at| at.win()?.epoch.lock_all())?;
        let size = self.communicator.size();
        for rank in 0..size {
            if let Err(error) = self.hold(rank, LockType::Shared, assert) {
                // Those that were got are given back; what goes wrong with that says nothing new.
                (0..rank).for_each(|rank| _ = self.let_go(rank));
                self.enter(|at| at.win()?.epoch.unlock_all())?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// `MPI_Win_unlock_all`: completes all operations, here and there, and unlocks all processes.
    ///
    /// # Errors
    /// [`Error::RmaSync`] without a [`lock_all`](Self::lock_all); what went wrong with the operations.
    pub fn unlock_all(&self) -> Result<()> {
        self.enter(|at| at.win()?.epoch.unlock_all())?;
        let finished = self.finish_all();
        let size = self.communicator.size();
        (0..size).fold(finished, |outcome, rank| outcome.and(self.let_go(rank)))
    }
}
