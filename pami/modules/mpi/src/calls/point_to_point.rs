//! Sends and receives, blocking and not.

use crate::data::{Data, WORD};
use crate::envelope::{ANY_SOURCE, ANY_TAG, INTERNAL, PROC_NULL, TAG_UB};
use crate::error::{Error, Result};
use crate::library::Communicator;
use crate::message::{At, Short, Wanted};
use crate::request::{Awaits, Mode, PointToPoint, Receiving, Request, Sending};
use crate::status::Status;
use crate::vci::State;
use core::sync::atomic::Ordering;
use pami::client::Node;
use pami::{Active, Endpoint};
use spin::MutexGuard;

/// Checks what a call sends or receives into.
///
/// # Errors
/// [`Error::Type`], [`Error::Count`].
#[inline]
pub(super) fn check_data(data: &Data) -> Result<()> {
    if !data.datatype().is_committed() {
        return Err(Error::Type);
    }
    u32::try_from(data.bytes()).map(drop).map_err(|_| Error::Count(data.bytes()))
}

impl<N: Node> Communicator<N> {
    /// Calls `work` with this communicator's context.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut At<'_, N::Port>) -> Result<T>) -> Result<T> {
        self.enter(|active, state| self.work(active, state, work))
    }

    fn work<T>(
        &self,
        active: &mut Active<N::Port>,
        state: &mut State,
        work: impl FnOnce(&mut At<'_, N::Port>) -> Result<T>,
    ) -> Result<T> {
        work(&mut state.at(active, self.home, self.library.callbacks()?)?)
    }

    /// The number that messages name this communicator by: those of the library's own another than the application's.
    pub(super) fn number(&self, internal: bool) -> u32 {
        self.geometry().0 | if internal { INTERNAL } else { 0 }
    }

    pub(super) fn check_destination(&self, dest: i32, tag: i32) -> Result<()> {
        if !(0..=TAG_UB).contains(&tag) {
            return Err(Error::Tag(tag));
        }
        let good = u32::try_from(dest).is_ok_and(|dest| dest < self.size());
        if good || dest == PROC_NULL { Ok(()) } else { Err(Error::Rank(dest.into())) }
    }

    pub(super) fn check_source(&self, source: i32, tag: i32) -> Result<()> {
        if tag != ANY_TAG && !(0..=TAG_UB).contains(&tag) {
            return Err(Error::Tag(tag));
        }
        let good = u32::try_from(source).is_ok_and(|source| source < self.size());
        if good || source == ANY_SOURCE || source == PROC_NULL {
            Ok(())
        } else {
            Err(Error::Rank(source.into()))
        }
    }

    pub(super) fn sending(
        &self,
        state: &mut State,
        data: &Data,
        dest: i32,
        tag: i32,
        mode: Mode,
    ) -> Result<Sending> {
        let target = self.endpoint(state, dest as u32)?;
        let (communicator, source) = (self.number(false), self.rank());
        Ok(Sending {
            data: data.span().clone(),
            target,
            communicator,
            source,
            tag,
            mode,
            awaits: Awaits::Turn,
        })
    }

    pub(super) fn receiving(
        &self,
        state: &mut State,
        data: &Data,
        source: i32,
        tag: i32,
    ) -> Result<Receiving> {
        let from: Option<Endpoint> = match u32::try_from(source) {
            Ok(source) => Some(self.endpoint(state, source)?),
            Err(_) => None,
        };
        let communicator = self.number(false);
        Ok(Receiving { data: data.span().clone(), communicator, source, tag, from, message: None })
    }

    /// Sends a short message if nothing is wrong with the call and nothing in the way. Returns whether it went; if not,
    /// others find out why.
    #[inline]
    fn send_at_once(&self, data: &Data, dest: i32, tag: i32, internal: bool) -> bool {
        if tag < 0 || !data.datatype().is_committed() {
            return false;
        }
        let vci = self.home;
        let mut guard = vci.lane.enter(|| self.library.node.rest());
        let Some(active) = guard.as_mut() else { return false };
        let State { messages, communicators, protocols: Some(protocols), .. } = &mut *vci.state.lock() else {
            return false;
        };
        let Some(target) = self.member(communicators, active.endpoint(), dest) else { return false };
        let (communicator, source, data) = (self.number(internal), self.rank, data.span());
        let eager_limit = self.library.eager_limit.load(Ordering::Relaxed);
        let short = || Short { data, target, communicator, source, tag };
        // A word goes by registers.
        match data.word() {
            Some(word) if eager_limit >= WORD => messages.send_word(active, protocols, short(), word),
            _ => messages.send_longer_at_once(active, protocols, short(), eager_limit),
        }
    }

    /// Begins a send. `internal` messages are for internal receives.
    ///
    /// # Errors
    /// See [`isend`](Self::isend).
    pub(crate) fn begin_send(
        &self,
        data: &Data,
        dest: i32,
        tag: i32,
        mode: Mode,
        internal: bool,
    ) -> Result<Request> {
        if mode == Mode::Standard && self.send_at_once(data, dest, tag, internal) {
            return Ok(Request::SENT);
        }
        self.begin_send_otherwise(data, dest, tag, mode, internal)
    }

    #[inline(never)]
    fn begin_send_otherwise(
        &self,
        data: &Data,
        dest: i32,
        tag: i32,
        mode: Mode,
        internal: bool,
    ) -> Result<Request> {
        self.check_destination(dest, tag)?;
        check_data(data)?;
        self.enter(|active, state| {
            if dest == PROC_NULL {
                return Ok(Request::SENT);
            }
            let target = self.endpoint(state, dest as u32)?;
            let (communicator, source) = (self.number(internal), self.rank());
            self.work(active, state, |at| {
                let request = at.requests.open_for(internal, || {
                    let (data, awaits) = (data.span().clone(), Awaits::Turn);
                    PointToPoint::Send(Sending { data, target, communicator, source, tag, mode, awaits })
                })?;
                at.begin_send(request.slot());
                Ok(request)
            })
        })
    }

    /// Begins a receive. `internal` receives are for internal messages.
    ///
    /// # Errors
    /// See [`irecv`](Self::irecv).
    pub(crate) fn begin_receive(
        &self,
        data: &Data,
        source: i32,
        tag: i32,
        internal: bool,
    ) -> Result<Request> {
        match self.post_at_once(data, source, tag, internal) {
            Some(request) => Ok(request),
            None => self.begin_receive_otherwise(data, source, tag, internal),
        }
    }

    /// Posts a receive into one piece of memory, or has it take a message that waits with all of its data, if nothing is wrong
    /// with the call. If not, others find out why. The context is not needed for that, so another thread may have it.
    #[inline]
    fn post_at_once(&self, data: &Data, source: i32, tag: i32, internal: bool) -> Option<Request> {
        if tag < ANY_TAG || !data.datatype().is_committed() || u32::try_from(data.bytes()).is_err() {
            return None;
        }
        let piece = data.piece()?;
        let mut state = self.home.state.lock();
        let State { requests, messages, communicators, me, protocols: Some(_), .. } = &mut *state else {
            return None;
        };
        if messages.are_waiting() {
            return self.post_or_take(state, data, source, tag, internal);
        }
        let from = Some(self.member(communicators, *me, source)?);
        let communicator = self.number(internal);
        messages.post(requests, internal, || {
            let (data, message) = (piece.span(), None);
            Receiving { data, communicator, source, tag, from, message }
        })
    }

    /// The same while messages wait: it takes one that is whole, or is posted if it wants none.
    #[inline(never)]
    fn post_or_take(
        &self,
        mut state: MutexGuard<'_, State>,
        data: &Data,
        source: i32,
        tag: i32,
        internal: bool,
    ) -> Option<Request> {
        let State { requests, messages, communicators, me, protocols: Some(_), .. } = &mut *state else {
            return None;
        };
        if !self.is_alive() {
            return None;
        }
        let from = if source == ANY_SOURCE { None } else { Some(self.member(communicators, *me, source)?) };
        let communicator = self.number(internal);
        let wanted = Wanted { communicator, source, tag };
        let receiving = || {
            let (data, message) = (data.span().clone(), None);
            Receiving { data, communicator, source, tag, from, message }
        };
        let (request, is_urgent) =
            messages.post_or_take(requests, internal, (&wanted, data.span()), receiving)?;
        if is_urgent {
            self.home.hasten();
        }
        Some(request)
    }

    #[inline(never)]
    fn begin_receive_otherwise(&self, data: &Data, source: i32, tag: i32, internal: bool) -> Result<Request> {
        self.check_source(source, tag)?;
        check_data(data)?;
        if let Some(request) = self.post_or_take(self.home.state.lock(), data, source, tag, internal) {
            return Ok(request);
        }
        self.enter(|active, state| {
            if source == PROC_NULL {
                let slot = state.requests.open(None)?;
                state.requests.complete(slot, Status::NOBODY);
                return Ok(state.requests.name(slot));
            }
            let from = if source == ANY_SOURCE { None } else { Some(self.endpoint(state, source as u32)?) };
            let communicator = self.number(internal);
            self.work(active, state, |at| {
                let request = at.requests.open_for(internal, || {
                    let (data, message) = (data.span().clone(), None);
                    PointToPoint::Receive(Receiving { data, communicator, source, tag, from, message })
                })?;
                at.post(request.slot(), &Wanted { communicator, source, tag });
                Ok(request)
            })
        })
    }

    fn wait_for(&self, request: Result<Request>) -> Result<Status> {
        self.library().wait(&mut request?)
    }

    /// `MPI_Send`: returns when the data may change again.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::Tag`], [`Error::Type`], [`Error::Count`], [`Error::Comm`], [`Error::NoMem`] without
    /// a free request, [`Error::NodeDead`].
    pub fn send(&self, data: &Data, dest: i32, tag: i32) -> Result<()> {
        self.wait_for(self.isend(data, dest, tag)).map(drop)
    }

    /// `MPI_Isend`: complete when the data may change again.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn isend(&self, data: &Data, dest: i32, tag: i32) -> Result<Request> {
        self.begin_send(data, dest, tag, Mode::Standard, false)
    }

    /// `MPI_Ssend`: returns when in addition a receive has matched.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn ssend(&self, data: &Data, dest: i32, tag: i32) -> Result<()> {
        self.wait_for(self.issend(data, dest, tag)).map(drop)
    }

    /// `MPI_Issend`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn issend(&self, data: &Data, dest: i32, tag: i32) -> Result<Request> {
        self.begin_send(data, dest, tag, Mode::Synchronous, false)
    }

    /// `MPI_Rsend`: as [`send`](Self::send); that the receive is posted gains nothing.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn rsend(&self, data: &Data, dest: i32, tag: i32) -> Result<()> {
        self.send(data, dest, tag)
    }

    /// `MPI_Irsend`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn irsend(&self, data: &Data, dest: i32, tag: i32) -> Result<Request> {
        self.isend(data, dest, tag)
    }

    /// `MPI_Recv`: waits for a message of that source and tag, or of any.
    ///
    /// # Errors
    /// [`Error::Truncate`] if the message was longer: what the data has room for may have been written, nothing
    /// behind it. Others as [`send`](Self::send).
    pub fn recv(&self, data: &Data, source: i32, tag: i32) -> Result<Status> {
        self.wait_for(self.irecv(data, source, tag))
    }

    /// `MPI_Irecv`.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), but for those of the message, which waiting for the request returns.
    pub fn irecv(&self, data: &Data, source: i32, tag: i32) -> Result<Request> {
        self.begin_receive(data, source, tag, false)
    }

    /// `MPI_Sendrecv`: sends and receives at once.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`recv`](Self::recv).
    pub fn sendrecv(
        &self,
        send: &Data,
        dest: i32,
        send_tag: i32,
        recv: &Data,
        source: i32,
        recv_tag: i32,
    ) -> Result<Status> {
        let mpi = self.library();
        let mut receive = self.irecv(recv, source, recv_tag)?;
        let mut sent = match self.isend(send, dest, send_tag) {
            Ok(request) => request,
            Err(error) => {
                mpi.cancel(&receive)?;
                mpi.wait(&mut receive)?;
                return Err(error);
            }
        };
        let (sent, received) = (mpi.wait(&mut sent), mpi.wait(&mut receive));
        sent?;
        received
    }

    /// `MPI_Sendrecv_replace`: as [`sendrecv`](Self::sendrecv), with the same data for both.
    ///
    /// # Errors
    /// As [`sendrecv`](Self::sendrecv), and [`Error::NoMem`] without memory for a copy.
    pub fn sendrecv_replace(
        &self,
        data: &Data,
        dest: i32,
        send_tag: i32,
        source: i32,
        recv_tag: i32,
    ) -> Result<Status> {
        check_data(data)?;
        // Its own for as long: another thread finds it gone and makes another.
        let copy = self.library.take_spare(data.bytes())?;
        let status = Data::of::<u8>(&copy, 0, data.bytes()).map_err(Error::from).and_then(|packed| {
            data.pack(&copy, 0)?;
            self.sendrecv(&packed, dest, send_tag, data, source, recv_tag)
        });
        self.library.give_spare(copy);
        status
    }
}
