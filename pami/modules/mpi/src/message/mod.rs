//! Point to point: messages between two processes of a communicator (the standard's chapter of that name).

use crate::data::Data;
use crate::error::Result;
use crate::lane::Lane;
use crate::library::{Library, place};
use crate::protocols::{CONTROL, DATA, EAGER, Handlers};
use crate::settings::Settings;
use crate::status::Status;
use pami::client::Node;
use pami::device::Port;
use pami::{Active, Completion, Done, Message, Receive};

/// A receive from anybody.
pub const ANY_SOURCE: i32 = -1;
/// A receive of any tag.
pub const ANY_TAG: i32 = -1;
/// Nobody: what is sent there is done at once, and nothing comes from there.
pub const PROC_NULL: i32 = -2;
/// The highest tag (`MPI_TAG_UB`).
pub const TAG_UB: i32 = i32::MAX;

/// What a request of point to point is to do.
pub(crate) struct Operation {
    pub(crate) data: Data,
}

/// Matching in one context.
#[derive(Default)]
pub(crate) struct Messages {}

impl Messages {
    pub(crate) fn new<N: Node>(_: &N, _: &Settings) -> Result<Self> {
        Ok(Self {})
    }
}

/// The functions that the layer below calls.
pub(crate) struct Handling<P: Port> {
    ended: &'static (dyn Fn(&mut Active<P>, Completion) + Sync),
}

impl<P: Port> Handling<P> {
    pub(crate) fn new<N: Node<Port = P>>(library: &'static Library<N>) -> Result<Self> {
        let ended = place(library.node, move |active: &mut Active<P>, completion: Completion| {
            let Some(lane) = library.lanes.get(usize::from(active.endpoint().context().0)) else { return };
            let error = completion.result.err().map(Into::into);
            let status = Status { error, ..Status::EMPTY };
            let (mut state, slot) = (lane.state.lock(), completion.cookie as u16);
            let status = state.collectives.end(slot, status);
            state.requests.complete(slot, status);
        })?;
        Ok(Self { ended })
    }

    /// What completes the request in a slot.
    pub(crate) fn ended(&self, slot: u16) -> Done<P> {
        Done { call: self.ended, cookie: slot.into() }
    }

    pub(crate) fn handlers<N: Node<Port = P>>(library: &'static Library<N>) -> Result<Handlers<P>> {
        let handler = |_| place(library.node, |_: &mut Active<P>, _: &Message<'_>| Receive::Done);
        Ok([(EAGER, handler(0)?), (CONTROL, handler(0)?), (DATA, handler(0)?)])
    }
}

impl<P: Port> Lane<P> {
    /// Goes on with what found no room below.
    pub(crate) fn go_on(&self, _: &mut Active<P>) {}

    /// Ends what waits for nodes that died, and has the network look after those that something waits for.
    pub(crate) fn look_after(&self, _: &mut Active<P>) {}
}
