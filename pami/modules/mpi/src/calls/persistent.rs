//! Persistent requests, and requests that end otherwise than by waiting: free, cancel.

use super::point_to_point::check_data;
use crate::data::Data;
use crate::envelope::PROC_NULL;
use crate::error::{Error, Result};
use crate::library::{Communicator, Mpi};
use crate::request::{Mode, Phase, PointToPoint, Request};
use crate::status::Status;
use pami::client::Node;

impl<N: Node> Communicator<N> {
    fn prepare_send(&self, data: &Data, dest: i32, tag: i32, mode: Mode) -> Result<Request> {
        self.check_destination(dest, tag)?;
        check_data(data)?;
        self.enter(|_, state| {
            let operation = if dest == PROC_NULL {
                None
            } else {
                Some(PointToPoint::Send(self.sending(state, data, dest, tag, mode)?))
            };
            let slot = state.requests.prepare(operation, Status::EMPTY)?;
            Ok(state.requests.name(slot))
        })
    }

    /// `MPI_Send_init`: a send to be [started](Mpi::start) any number of times.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_init(&self, data: &Data, dest: i32, tag: i32) -> Result<Request> {
        self.prepare_send(data, dest, tag, Mode::Standard)
    }

    /// `MPI_Ssend_init`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn ssend_init(&self, data: &Data, dest: i32, tag: i32) -> Result<Request> {
        self.prepare_send(data, dest, tag, Mode::Synchronous)
    }

    /// `MPI_Rsend_init`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn rsend_init(&self, data: &Data, dest: i32, tag: i32) -> Result<Request> {
        self.prepare_send(data, dest, tag, Mode::Standard)
    }

    /// `MPI_Recv_init`.
    ///
    /// # Errors
    /// As [`irecv`](Self::irecv).
    pub fn recv_init(&self, data: &Data, source: i32, tag: i32) -> Result<Request> {
        self.check_source(source, tag)?;
        check_data(data)?;
        self.enter(|_, state| {
            let operation = if source == PROC_NULL {
                None
            } else {
                Some(PointToPoint::Receive(self.receiving(state, data, source, tag)?))
            };
            let nobody = if source == PROC_NULL { Status::NOBODY } else { Status::EMPTY };
            let slot = state.requests.prepare(operation, nobody)?;
            Ok(state.requests.name(slot))
        })
    }
}

impl<N: Node> Mpi<N> {
    /// `MPI_Start`: begins what a persistent request is for.
    ///
    /// # Errors
    /// [`Error::Request`] if it is not persistent, or under way.
    pub fn start(&self, request: &Request) -> Result<()> {
        let library = self.library;
        let callbacks = library.callbacks()?;
        library.enter(request.vci(), |active, state| {
            state.requests.start(*request)?;
            let mut at = state.at(active, library.vci(request.vci())?, callbacks)?;
            at.start(request.slot());
            Ok(())
        })
    }

    /// `MPI_Startall`.
    ///
    /// # Errors
    /// As [`start`](Self::start); those behind the one that is wrong are not started.
    pub fn start_all(&self, requests: &[Request]) -> Result<()> {
        requests.iter().try_for_each(|request| self.start(request))
    }

    /// `MPI_Request_free`: nobody waits for it; what is under way goes on to its end. The request is null then.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn request_free(&self, request: &mut Request) -> Result<()> {
        if *request == Request::SENT {
            *request = Request::NULL;
            return Ok(());
        }
        let mut state = self.library.vci(request.vci())?.state.lock();
        let slot = state.requests.find(*request)?;
        if slot.phase == Phase::Active {
            slot.detach();
        } else {
            state.requests.free(request.slot());
        }
        *request = Request::NULL;
        Ok(())
    }

    /// `MPI_Cancel`: a receive that has no message yet ends as cancelled; anything else goes on. It has still to be
    /// waited for.
    ///
    /// # Errors
    /// [`Error::Request`] if it is not active, or not of point to point.
    pub fn cancel(&self, request: &Request) -> Result<()> {
        if *request == Request::SENT {
            return Ok(());
        }
        let library = self.library;
        let callbacks = library.callbacks()?;
        library.enter(request.vci(), |active, state| {
            let slot = state.requests.find(*request)?;
            match (slot.phase, &slot.operation) {
                (Phase::Complete, _) => return Ok(()),
                (Phase::Active, Some(_)) => {}
                _ => return Err(Error::Request),
            }
            let mut at = state.at(active, library.vci(request.vci())?, callbacks)?;
            at.cancel(request.slot());
            Ok(())
        })
    }
}
