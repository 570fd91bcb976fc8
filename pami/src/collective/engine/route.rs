//! The class route of a geometry, as its members have it (SPEC G-7); see `network`.

use super::limits::NOTE_BYTES;
use crate::combine::{AluOperation, ClassRoute, InjectError, Status, TreeArrival};
use crate::device::CollectiveNetwork;
use crate::error::OperationError;

/// Number of the packets by which leaders leave a class route.
pub(super) const LEAVE: u32 = u32::MAX;

/// How a geometry uses the tree network.
#[derive(Default)]
pub(super) struct Way {
    stage: Stage,
    /// The class route is not used any more, and what is behind on it ends with this.
    forsaken: Option<OperationError>,
}

#[derive(Default)]
enum Stage {
    /// Not at all.
    #[default]
    Off,
    /// That is being found out.
    Pending,
    /// By a class route; a leader has its state.
    On(Option<Channel>),
}

impl Way {
    /// It is being found out whether there is a class route.
    pub(super) fn await_route(&mut self) {
        self.stage = Stage::Pending;
    }

    /// Whether that is not known yet.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.stage, Stage::Pending)
    }

    /// There is a class route; a leader has a channel.
    pub(super) fn open(&mut self, channel: Option<Channel>) {
        self.stage = Stage::On(channel);
    }

    /// There is none.
    pub(super) fn close(&mut self) {
        self.stage = Stage::Off;
    }

    /// Whether collectives that start now may go by the class route.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::On(_)) && self.forsaken.is_none()
    }

    /// None that starts from now on does.
    pub(super) fn forsake(&mut self, error: OperationError) {
        self.forsaken = Some(error);
    }

    /// What those end with that were behind on the class route, if it is forsaken.
    pub(super) fn lost(&self) -> Option<OperationError> {
        self.forsaken
    }

    /// The class route, at a leader.
    pub(super) fn channel(&mut self) -> Option<&mut Channel> {
        if let Stage::On(channel) = &mut self.stage { channel.as_mut() } else { None }
    }

    /// What is to be done with the class route when the geometry is destroyed.
    pub(super) fn leave(&self) -> Option<Leaving> {
        let Stage::On(Some(channel)) = &self.stage else { return None };
        channel.leave(self.forsaken.is_some())
    }
}

/// A class route at a leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    route: ClassRoute,
    /// This node asked for it.
    owned: bool,
    /// The ticket of the next collective, of the one whose packets go out, of the one whose packets come in.
    next: u32,
    injected: u32,
    taken: u32,
    /// Why the route is of no use any more.
    broken: Option<OperationError>,
}

impl Channel {
    /// The first collective has the ticket `first`.
    pub(super) fn new(route: ClassRoute, owned: bool, first: u32) -> Self {
        Self { route, owned, next: first, injected: first, taken: first, broken: None }
    }

    /// The ticket of a collective that starts now.
    pub(super) fn ticket(&mut self) -> u32 {
        let ticket = self.next;
        self.next = ticket.wrapping_add(1);
        ticket
    }

    /// The route, while it is of use.
    ///
    /// # Errors
    /// Why it is not any more.
    pub(super) fn route(&self) -> Result<ClassRoute, OperationError> {
        self.broken.map_or(Ok(self.route), Err)
    }

    /// It is of no use any more. The first reason stays.
    pub(super) fn spoil(&mut self, error: OperationError) {
        self.broken = self.broken.or(Some(error));
    }

    /// Whether packets of the collective with this ticket go out; of one that goes `alone`, if nothing older comes in.
    pub(super) fn injects(&self, ticket: u32, alone: bool) -> bool {
        self.injected == ticket && (!alone || self.takes(ticket))
    }

    /// Whether what comes in is of the collective with this ticket.
    pub(super) fn takes(&self, ticket: u32) -> bool {
        self.taken == ticket
    }

    /// All packets of the collective with this ticket have gone out.
    pub(super) fn all_injected(&mut self, ticket: u32) {
        self.injected = ticket.wrapping_add(1);
    }

    /// All packets of the collective with this ticket have come in.
    pub(super) fn all_taken(&mut self, ticket: u32) {
        self.taken = ticket.wrapping_add(1);
    }

    fn leave(&self, forsaken: bool) -> Option<Leaving> {
        match (self.broken.is_some() || forsaken, self.owned) {
            (false, owned) => Some(Leaving::Tell(self.route, owned)),
            // Nobody can be told on a route with packets of others on it.
            (true, true) => Some(Leaving::Release(self.route)),
            (true, false) => None,
        }
    }
}

/// A class route that is given up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaving {
    /// Nobody wants it when it comes.
    Unwanted,
    /// The others are to be told.
    Tell(ClassRoute, bool),
    /// The others have not all told.
    Await(ClassRoute),
    Release(ClassRoute),
}

impl Leaving {
    /// What is next; `None`: all is done. Returns itself if nothing happens.
    pub(super) fn step(self, network: impl CollectiveNetwork) -> Option<Self> {
        match self {
            Self::Unwanted => match network.answer() {
                None => Some(self),
                Some(answer) => answer.ok().map(Self::Release),
            },
            Self::Tell(route, owned) => {
                match network.contribute(route, AluOperation::NOTHING, LEAVE, 0, |_| {}) {
                    Ok(()) => owned.then_some(Self::Await(route)),
                    Err(_) => Some(self),
                }
            }
            Self::Await(route) => {
                let mut all = false;
                let left = |arrival: &TreeArrival<'_>| {
                    all = arrival.sequence == LEAVE || arrival.status == Status::Dead
                };
                network.receive(route, left);
                Some(if all { Self::Release(route) } else { self })
            }
            Self::Release(route) => match network.release(route) {
                Err(InjectError::Full) => Some(self),
                _ => None,
            },
        }
    }

    /// Whether all that others wait for has been done.
    pub(super) fn has_told(&self) -> bool {
        matches!(self, Self::Await(_))
    }
}

/// What the members are told.
pub(super) fn note(route: Option<ClassRoute>) -> [u8; NOTE_BYTES] {
    let word =
        route.map_or(0, |ClassRoute { id, generation }| 1 << 16 | u64::from(generation) << 8 | u64::from(id));
    word.to_le_bytes()
}

/// The reverse of [`note`].
pub(super) fn noted(note: [u8; NOTE_BYTES]) -> Option<ClassRoute> {
    let [id, generation, known, ..] = note;
    (known == 1).then_some(ClassRoute { id, generation })
}
