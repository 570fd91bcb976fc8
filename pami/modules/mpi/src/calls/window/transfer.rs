//! Puts and gets.

use super::pieces::{Piece, Pieces};
use super::target::Target;
use super::{At, Window};
use crate::data::Data;
use crate::error::{Error, Result};
use crate::request::{NONE, Request};
use crate::status::Status;
use crate::window::ends::{End, Name};
use crate::window::peer::WindowPeer;
use pami::client::Node;
use pami::{Get, Payload, Put, SendError};

/// An access that was begun.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub rank: u32,
    /// Where the target's first element has its origin in the window.
    pub origin: usize,
    pub bytes: u32,
    /// The request that ends with it, or [`NONE`].
    pub request: u16,
}

/// Whether what was asked for found room.
///
/// # Errors
/// Of any other reason.
pub(super) fn taken(result: core::result::Result<(), SendError>) -> Result<Option<()>> {
    match result {
        Ok(()) => Ok(Some(())),
        Err(SendError::Again) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl<N: Node> At<'_, N> {
    /// Begins an access; the request, if one is `wanted`, does not end before [`end`](Self::end).
    fn begin(&mut self, target: &Target, rank: u32, wanted: bool) -> Result<Access> {
        let peer = *self.peer(rank)?;
        let (origin, bytes) = (target.origin(&peer)?, target.bytes()?);
        self.win()?.epoch.access(&peer)?;
        let request = if wanted { self.state.requests.open(None)? } else { NONE };
        self.state.windows.outstanding.add_part(request);
        Ok(Access { rank, origin, bytes, request })
    }

    /// All of an access was asked for. Returns its request.
    fn end(&mut self, access: Access, result: Result<()>) -> Result<Request> {
        let request = access.request;
        if request == NONE {
            return result.map(|()| Request::NULL);
        }
        let name = self.state.requests.name(request);
        if result.is_err()
            && let Some(slot) = self.state.requests.get_mut(request)
        {
            slot.detach();
        }
        let _ = self.state.windows.outstanding.part_ended(&mut self.state.requests, request, Ok(()));
        result.map(|()| name)
    }

    pub(super) fn name(&self, end: End, access: Access) -> Name {
        Name { end, window: self.slot, rank: access.rank, request: access.request }
    }

    fn put(&mut self, access: Access, data: &Data, piece: &Piece) -> Result<Option<()>> {
        let peer = *self.peer(access.rank)?;
        let (at, payload_layout) = piece.here;
        let reach = payload_layout.reach(piece.len).ok_or(Error::Buffer)? as usize;
        let names = [self.name(End::Local, access), self.name(End::Remote, access)];
        let put = Put {
            target: peer.endpoint,
            region: peer.info.region(),
            offset: region_offset(&peer, piece.there.0)?,
            layout: piece.there.1,
            payload: Payload::Shared(data.memory().clone(), at..at + reach),
            payload_layout,
            local_done: Some(self.ends.done(names[0].cookie())),
            remote_done: Some(self.ends.done(names[1].cookie())),
        };
        let put = taken(self.state.window_protocols()?.one_sided.put(self.active, put))?;
        if put.is_some() {
            names.into_iter().for_each(|name| self.state.windows.begun(name));
        }
        Ok(put)
    }

    fn get(&mut self, access: Access, data: &Data, piece: &Piece) -> Result<Option<()>> {
        let peer = *self.peer(access.rank)?;
        let name = self.name(End::Both, access);
        let get = Get {
            target: peer.endpoint,
            region: peer.info.region(),
            offset: region_offset(&peer, piece.there.0)?,
            layout: piece.there.1,
            into: data.memory().clone(),
            at: u32::try_from(piece.here.0).map_err(|_| Error::Buffer)?,
            into_layout: piece.here.1,
            len: piece.len,
            done: Some(self.ends.done(name.cookie())),
        };
        let get = taken(self.state.window_protocols()?.one_sided.get(self.active, get))?;
        if get.is_some() {
            self.state.windows.begun(name);
        }
        Ok(get)
    }
}

/// The place in a process's region of a byte of its window.
///
/// # Errors
/// [`Error::RmaRange`].
pub(super) fn region_offset(peer: &WindowPeer, place: usize) -> Result<u32> {
    let base = usize::try_from(peer.info.base.get()).ok();
    let offset = base.and_then(|base| u32::try_from(base.checked_add(place)?).ok());
    offset.ok_or(Error::RmaRange)
}

impl<N: Node> Window<N> {
    /// Begins an access, has `work` ask for all of it, and ends it.
    pub(super) fn access(
        &self,
        target: &Target,
        wanted: bool,
        work: impl FnOnce(Access) -> Result<()>,
    ) -> Result<Request> {
        let Some(rank) = target.rank(self.communicator.size())? else { return self.nobody(wanted) };
        let access = self.enter(|at| at.begin(target, rank, wanted))?;
        let result = work(access);
        self.enter(|at| at.end(access, result))
    }

    /// An access to nobody: it is complete.
    fn nobody(&self, wanted: bool) -> Result<Request> {
        self.enter(|at| {
            if !wanted {
                return Ok(Request::NULL);
            }
            let slot = at.state.requests.open(None)?;
            at.state.requests.complete(slot, Status::EMPTY);
            Ok(at.state.requests.name(slot))
        })
    }

    fn begin_put(&self, origin: &Data, target: &Target, wanted: bool) -> Result<Request> {
        target.check(origin)?;
        self.access(target, wanted, |access| {
            let pieces = Pieces::new(origin, target, access.origin, access.bytes);
            pieces
                .ok_or(Error::RmaRange)?
                .try_for_each(|piece| self.insist(|at| at.put(access, origin, &piece)))
        })
    }

    fn begin_get(&self, origin: &Data, target: &Target, wanted: bool) -> Result<Request> {
        target.check(origin)?;
        self.access(target, wanted, |access| {
            let pieces = Pieces::new(origin, target, access.origin, access.bytes);
            pieces
                .ok_or(Error::RmaRange)?
                .try_for_each(|piece| self.insist(|at| at.get(access, origin, &piece)))
        })
    }

    /// `MPI_Put`: writes data to elements of a process's window. The data may change again, and the window has it, when
    /// synchronisation says so.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::RmaRange`], [`Error::RmaSync`] outside an epoch, [`Error::Type`] if the types differ or are
    /// not committed, [`Error::Count`]; [`Error::Win`], [`Error::NodeDead`], [`Error::Finalized`].
    pub fn put(&self, origin: &Data, target: &Target) -> Result<()> {
        self.begin_put(origin, target, false).map(drop)
    }

    /// `MPI_Rput`: as [`put`](Self::put), with a request that completes when the data may change again.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::NoMem`] without a free request.
    pub fn rput(&self, origin: &Data, target: &Target) -> Result<Request> {
        self.begin_put(origin, target, true)
    }

    /// `MPI_Get`: reads elements of a process's window into data, which has them when synchronisation says so.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn get(&self, origin: &Data, target: &Target) -> Result<()> {
        self.begin_get(origin, target, false).map(drop)
    }

    /// `MPI_Rget`: as [`get`](Self::get), with a request that completes when the data has the elements.
    ///
    /// # Errors
    /// As [`rput`](Self::rput).
    pub fn rget(&self, origin: &Data, target: &Target) -> Result<Request> {
        self.begin_get(origin, target, true)
    }
}
