//! Probes: looks at messages that have come, and receives of those that were found so.

use super::point_to_point::check_data;
use crate::data::Data;
use crate::envelope::PROC_NULL;
use crate::error::{Error, Result};
use crate::library::Communicator;
use crate::message::Wanted;
use crate::request::{PointToPoint, Receiving, Request};
use crate::status::Status;
use pami::client::Node;

/// A message that a matched probe has found: only a matched receive of its gets it (`MPI_Message`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Matched {
    place: Option<u32>,
    generation: u32,
    context: u8,
}

impl Matched {
    /// What a probe of `PROC_NULL` finds (`MPI_MESSAGE_NO_PROC`).
    pub const NO_PROC: Self = Self { place: None, generation: 0, context: 0 };
}

impl<N: Node> Communicator<N> {
    fn look(&self, source: i32, tag: i32, take: bool) -> Result<Option<(Matched, Status)>> {
        self.check_source(source, tag)?;
        if source == PROC_NULL {
            return Ok(Some((Matched::NO_PROC, Status::NOBODY)));
        }
        let wanted = Wanted { communicator: self.number(false), source, tag };
        self.with(|at| {
            let found = at.probe(&wanted, take);
            Ok(found.map(|(place, generation, status)| {
                (Matched { place: Some(place), generation, context: self.context() }, status)
            }))
        })
    }

    fn wait_look(&self, source: i32, tag: i32, take: bool) -> Result<(Matched, Status)> {
        let wanted = Wanted { communicator: self.number(false), source, tag };
        loop {
            if let Some(found) = self.look(source, tag, take)? {
                return Ok(found);
            }
            let vci = self.library.vci(self.context().into())?;
            self.library.wait_until(self.context().into(), || vci.state.lock().has_waiting(&wanted))?;
        }
    }

    fn look_once(&self, source: i32, tag: i32, take: bool) -> Result<Option<(Matched, Status)>> {
        if let Some(found) = self.look(source, tag, take)? {
            return Ok(Some(found));
        }
        self.library.advance()?;
        self.look(source, tag, take)
    }

    /// `MPI_Probe`: waits for a message of that source and tag, or of any, and leaves it where it is. The status says
    /// its length.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::Tag`], [`Error::Comm`].
    pub fn probe(&self, source: i32, tag: i32) -> Result<Status> {
        self.wait_look(source, tag, false).map(|(_, status)| status)
    }

    /// `MPI_Iprobe`: as [`probe`](Self::probe), without waiting.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn iprobe(&self, source: i32, tag: i32) -> Result<Option<Status>> {
        Ok(self.look_once(source, tag, false)?.map(|(_, status)| status))
    }

    /// `MPI_Mprobe`: as [`probe`](Self::probe), and takes the message out of the reach of other receives.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn mprobe(&self, source: i32, tag: i32) -> Result<(Matched, Status)> {
        self.wait_look(source, tag, true)
    }

    /// `MPI_Improbe`: as [`mprobe`](Self::mprobe), without waiting.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn improbe(&self, source: i32, tag: i32) -> Result<Option<(Matched, Status)>> {
        self.look_once(source, tag, true)
    }

    /// `MPI_Imrecv`: receives a message that a matched probe of this communicator found.
    ///
    /// # Errors
    /// [`Error::Request`] if it was received before.
    pub fn imrecv(&self, data: &Data, message: Matched) -> Result<Request> {
        check_data(data)?;
        self.with(|at| {
            let Some(place) = message.place else {
                let slot = at.requests.open(None)?;
                at.requests.complete(slot, Status::NOBODY);
                return Ok(at.requests.name(slot));
            };
            let probed = at.probed(place, message.generation);
            let probed = probed.filter(|_| message.context == self.context());
            let (origin, envelope) = probed.ok_or(Error::Request)?;
            if envelope.communicator.get() != self.number(false) {
                return Err(Error::Request);
            }
            let (source, tag) = (envelope.source.get() as i32, envelope.tag.get());
            let receiving = Receiving {
                data: data.span().clone(),
                communicator: self.number(false),
                source,
                tag,
                from: Some(origin),
                message: None,
            };
            let slot = at.requests.open(Some(PointToPoint::Receive(receiving)))?;
            at.receive_waiting(slot, place);
            Ok(at.requests.name(slot))
        })
    }

    /// `MPI_Mrecv`: as [`imrecv`](Self::imrecv), and waits.
    ///
    /// # Errors
    /// As [`imrecv`](Self::imrecv) and [`recv`](Self::recv).
    pub fn mrecv(&self, data: &Data, message: Matched) -> Result<Status> {
        let mut request = self.imrecv(data, message)?;
        self.library().wait(&mut request)
    }
}
