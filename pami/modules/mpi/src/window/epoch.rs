//! Epochs: when a window may be accessed.

use super::peer::WindowPeer;
use crate::error::{Error, Result};
use bitflags::bitflags;

bitflags! {
    /// What a program promises of an epoch (`MPI_MODE_*`). Those that this library makes no use of are accepted.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Assert: u32 {
        /// No conflicting lock is held, or will be: a lock need not be taken.
        const NOCHECK = 1;
        /// The memory was not stored to locally.
        const NOSTORE = 2;
        /// The memory will not be updated by others.
        const NOPUT = 4;
        /// A fence ends no accesses of this process: nothing is waited for.
        const NOPRECEDE = 8;
        /// No access follows a fence.
        const NOSUCCEED = 16;
    }
}

/// The access epoch of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Epoch {
    None,
    /// Between fences. Only once it was used there has to be another one.
    Fenced {
        used: bool,
    },
    /// Of a `start`.
    Started,
    /// Of this many locks.
    Locked(u32),
    /// Of `lock_all`.
    LockedAll,
}

impl Epoch {
    /// Whether none is open that another one cannot follow.
    fn is_over(self) -> bool {
        matches!(self, Self::None | Self::Fenced { used: false })
    }

    /// Whether a window can be freed.
    ///
    /// # Errors
    /// [`Error::RmaSync`].
    pub(crate) fn end(self) -> Result<()> {
        // A fence may have been the last.
        if self.is_over() { Ok(()) } else { Err(Error::RmaSync) }
    }

    /// Accesses to `peer`.
    ///
    /// # Errors
    /// [`Error::RmaSync`] if they are in no epoch.
    pub(crate) fn access(&mut self, peer: &WindowPeer) -> Result<()> {
        let open = match self {
            Self::None => false,
            Self::Fenced { used } => {
                *used = true;
                true
            }
            Self::Started => peer.accessed,
            Self::Locked(_) | Self::LockedAll => peer.held.is_some(),
        };
        if open { Ok(()) } else { Err(Error::RmaSync) }
    }

    /// A fence.
    ///
    /// # Errors
    /// [`Error::RmaSync`].
    pub(crate) fn fence(&mut self, followed: bool) -> Result<()> {
        if !matches!(self, Self::None | Self::Fenced { .. }) {
            return Err(Error::RmaSync);
        }
        *self = if followed { Self::Fenced { used: false } } else { Self::None };
        Ok(())
    }

    /// A start.
    ///
    /// # Errors
    /// [`Error::RmaSync`].
    pub(crate) fn start(&mut self) -> Result<()> {
        self.end()?;
        *self = Self::Started;
        Ok(())
    }

    /// A complete.
    ///
    /// # Errors
    /// [`Error::RmaSync`].
    pub(crate) fn complete(&mut self) -> Result<()> {
        if *self != Self::Started {
            return Err(Error::RmaSync);
        }
        *self = Self::None;
        Ok(())
    }

    /// A lock of a process.
    ///
    /// # Errors
    /// [`Error::RmaSync`].
    pub(crate) fn lock(&mut self, peer: &WindowPeer) -> Result<()> {
        *self = match *self {
            Self::Locked(count) if peer.held.is_none() => Self::Locked(count + 1),
            epoch if epoch.is_over() => Self::Locked(1),
            _ => return Err(Error::RmaSync),
        };
        Ok(())
    }

    /// A lock that was not got.
    pub(crate) fn give_up_lock(&mut self) {
        *self = match *self {
            Self::Locked(count) if count > 1 => Self::Locked(count - 1),
            _ => Self::None,
        };
    }

    /// An unlock of a process.
    ///
    /// # Errors
    /// [`Error::RmaSync`].
    pub(crate) fn unlock(&mut self, peer: &WindowPeer) -> Result<()> {
        *self = match *self {
            Self::Locked(1) if peer.held.is_some() => Self::None,
            Self::Locked(count) if peer.held.is_some() => Self::Locked(count - 1),
            _ => return Err(Error::RmaSync),
        };
        Ok(())
    }

    /// A lock of all processes.
    ///
    /// # Errors
    /// [`Error::RmaSync`].
    pub(crate) fn lock_all(&mut self) -> Result<()> {
        self.end()?;
        *self = Self::LockedAll;
        Ok(())
    }

    /// Its end.
    ///
    /// # Errors
    /// [`Error::RmaSync`].
    pub(crate) fn unlock_all(&mut self) -> Result<()> {
        if *self != Self::LockedAll {
            return Err(Error::RmaSync);
        }
        *self = Self::None;
        Ok(())
    }

    /// A flush of `peer`, or of all.
    ///
    /// # Errors
    /// [`Error::RmaSync`] outside of the epochs of locks.
    pub(crate) fn flush(self, peer: Option<&WindowPeer>) -> Result<()> {
        let locked = matches!(self, Self::Locked(_) | Self::LockedAll);
        let held = peer.is_none_or(|peer| peer.held.is_some());
        if locked && held { Ok(()) } else { Err(Error::RmaSync) }
    }
}
