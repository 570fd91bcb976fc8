//! Collectives over the tree network (SPEC D-3, G-7): class routes of geometries, and vectors on their way.
//!
//! **Who speaks.** The adapter is the node's, whatever contexts and tasks it has. Of each geometry, one member of a node
//! speaks for it: the node's *leader*, the lowest rank there. The others reduce to it, and get the result from it, by
//! messages inside the node ([`collective::network`](crate::collective)). So a class route has one user on each node, and
//! no two contexts ever take from the same one.
//!
//! **Class routes.** When the members of a new geometry have met, the first of them lists its nodes, asks the network
//! for a class route and tells the others which it is, or that there is none: none is left, the nodes make too many
//! ranges, it is one node only, or a node has several ranks and their affinity domains are not known. Then every
//! algorithm but the tree network's is permitted. The world of the first client of a job has the class route of all
//! nodes without asking. When a geometry is destroyed its leaders tell each other on the route itself, and the owner
//! then gives it up.
//!
//! **Order.** Every collective that goes through the network gets a number at each leader, its *ticket*; the members
//! start a geometry's collectives in one order and so agree. Packets go in the order of tickets. A combination may be
//! contributed to while older ones are under way: its result comes after theirs. A broadcast goes only when all that is
//! older has come back, since those of two sources would else pass each other. So what arrives is always for the oldest.
//!
//! **Failure.** Each packet's number says which call it is of. Where calls differ the routers say so to all leaders. A
//! collective that fails leaves packets behind on the route: those of the geometry that would use it afterwards fail
//! with the same error, at all members. A geometry that is created anew has a new one. After a member has given a
//! collective up its geometry does without the route, at every member from that collective on: what it has begun
//! behind it on the route ends with that error, at all.

use super::Engine;
use super::geometry::{Entry, WORLD};
use super::run::before;
use super::slot::{Phase, Slot};
use crate::collective::{Algorithm, Area, Blocks, Call, Collective, Schedule, Tuning, network};
use crate::combine::{Arrival, Census, ClassRoute, InjectError, Operation, Role, Status};
use crate::context::Active;
use crate::device::{CollectiveNetwork, Port};
use crate::error::OperationError;

/// Number of the packets by which leaders leave a class route.
pub(super) const LEAVE: u32 = u32::MAX;
/// Bytes of what the members of a new geometry are told.
pub(super) const NOTE_BYTES: usize = 8;

/// How a geometry uses the tree network.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// Not at all.
    Off,
    /// That is being found out.
    Pending,
    /// By a class route; a leader has its state.
    On(Option<Channel>),
}

/// A class route at a leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    pub(super) route: ClassRoute,
    /// This node asked for it.
    owned: bool,
    /// The ticket of the next collective, of the one whose packets go out, of the one whose packets come in.
    next: u32,
    pub(super) injected: u32,
    pub(super) taken: u32,
    /// Why the route is of no use any more.
    pub(super) broken: Option<OperationError>,
}

impl Channel {
    fn new(route: ClassRoute, owned: bool) -> Self {
        Self { route, owned, next: 0, injected: 0, taken: 0, broken: None }
    }
}

/// Where the creation of a geometry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Creation {
    /// Its members meet.
    Meets,
    /// They are told of the class route.
    Learns,
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
    fn step(self, network: impl CollectiveNetwork) -> Option<Self> {
        match self {
            Self::Unwanted => match network.answer() {
                None => Some(self),
                Some(answer) => answer.ok().map(Self::Release),
            },
            Self::Tell(route, owned) => match network.contribute(route, Operation::NOTHING, LEAVE, 0, |_| {})
            {
                Ok(()) => owned.then_some(Self::Await(route)),
                Err(_) => Some(self),
            },
            Self::Await(route) => {
                let mut all = false;
                let left =
                    |arrival: &Arrival<'_>| all = arrival.sequence == LEAVE || arrival.status == Status::Dead;
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
fn note(route: Option<ClassRoute>) -> [u8; NOTE_BYTES] {
    let word =
        route.map_or(0, |ClassRoute { id, generation }| 1 << 16 | u64::from(generation) << 8 | u64::from(id));
    word.to_le_bytes()
}

/// The reverse of [`note`].
fn noted(note: [u8; NOTE_BYTES]) -> Option<ClassRoute> {
    let [id, generation, known, ..] = note;
    (known == 1).then_some(ClassRoute { id, generation })
}

impl<P: Port> Engine<P> {
    /// A member gave this collective of a geometry up: those after it do without the class route. Those before go on.
    #[cold]
    pub(super) fn forsake_route(&mut self, geometry: usize, given_up: u32, error: OperationError) {
        let Some(entry) = self.geometries[geometry].as_mut().filter(|entry| entry.has_route()) else {
            return;
        };
        entry.forsaken = true;
        let later = |slot: &&mut Slot<P>| {
            let of_it = usize::from(slot.geometry) == geometry && before(given_up, slot.key.sequence);
            of_it && slot.call.algorithm == Algorithm::TreeNetwork
        };
        self.slots.iter_mut().filter(later).for_each(|slot| slot.fail(error));
    }
}

impl Entry {
    fn leader(&self, rank: u32) -> u32 {
        self.domains.map_or(rank, |domains| domains.leader(rank))
    }

    /// The way that goes with a class route.
    pub(super) fn way(&self, route: ClassRoute) -> Way {
        let leads = self.leader(self.rank) == self.rank;
        let owned = self.rank == 0 && route != ClassRoute::WORLD;
        Way::On(leads.then(|| Channel::new(route, owned)))
    }

    /// The ticket of a collective that starts now, if it has one here.
    pub(super) fn ticket(&mut self, call: &Call) -> Option<u32> {
        let Way::On(Some(channel)) = &mut self.way else { return None };
        network::speaks(call).then(|| {
            let ticket = channel.next;
            channel.next = ticket.wrapping_add(1);
            ticket
        })
    }

    /// A collective with a ticket failed.
    pub(super) fn spoil(&mut self, error: OperationError) {
        if let Way::On(Some(channel)) = &mut self.way {
            channel.broken = channel.broken.or(Some(error));
        }
    }

    /// Whether collectives that start now may go through the tree network.
    pub(super) fn has_route(&self) -> bool {
        matches!(self.way, Way::On(_)) && !self.forsaken
    }

    /// What is to be done with the class route when the geometry is destroyed.
    pub(super) fn leave(&self) -> Option<Leaving> {
        let Way::On(Some(channel)) = self.way else { return None };
        match (channel.broken.is_some() || self.forsaken, channel.owned) {
            (false, owned) => Some(Leaving::Tell(channel.route, owned)),
            // Nobody can be told on a route with packets of others on it.
            (true, true) => Some(Leaving::Release(channel.route)),
            (true, false) => None,
        }
    }

    /// The nodes, if they can have a class route.
    fn census<P: Port>(&self, port: &P) -> Option<Census> {
        let mut census = Census::new();
        for rank in (0..self.members.size()).filter(|&rank| self.leader(rank) == rank) {
            census.add(port.node_of(self.members.endpoint(rank)?.task())?).ok()?;
        }
        (census.nodes() > 1).then_some(census)
    }
}

impl<P: Port> Active<P> {
    /// Whether geometries of this context have class routes at all.
    pub(super) fn is_on_tree(&self) -> bool {
        self.transport.port.network().is_some()
    }

    /// Goes on with what is left of geometries that were destroyed. Returns whether anything happened.
    pub(super) fn leave_routes(&mut self) -> bool {
        let (Some(network), leaving) = (self.transport.port.network(), &mut self.collectives.leaving) else {
            return false;
        };
        let mut moved = false;
        leaving.retain_mut(|it| {
            let next = it.step(network);
            let stays =
                next.is_some_and(|next| core::mem::discriminant(&next) == core::mem::discriminant(it));
            moved |= !stays;
            next.inspect(|next| *it = *next).is_some()
        });
        moved
    }

    /// A collective is over. If it was the meeting of a new geometry's members, it goes on with telling them of their class
    /// route; returns whether it does.
    pub(super) fn goes_on(&mut self, number: usize) -> bool {
        let Engine { slots, geometries, notes, .. } = &mut self.collectives;
        let Some(slot) = slots.get_mut(number) else { return false };
        let Some(entry) = &mut geometries[usize::from(slot.geometry)] else { return false };
        let (Some(creation), Some(notes)) = (slot.creation, notes.as_ref()) else { return false };
        let at = usize::from(slot.geometry) * NOTE_BYTES;
        if slot.result.is_err() || !matches!(entry.way, Way::Pending) {
            entry.way = Way::Off;
            return false;
        }
        if creation == Creation::Learns {
            let mut note = [0; NOTE_BYTES];
            // There is a note for every geometry.
            let _ = notes.read(at, &mut note);
            entry.way = noted(note).map_or(Way::Off, |route| entry.way(route));
            return false;
        }
        slot.creation = Some(Creation::Learns);
        slot.key.part = 1;
        slot.call = Call {
            collective: Collective::Broadcast,
            algorithm: entry.broadcast(),
            blocks: Blocks::equal(NOTE_BYTES),
            sources: Blocks::equal(NOTE_BYTES),
            in_place: true,
            tuning: Tuning { radix: 2, chunk: 1 },
            ..slot.call
        };
        slot.areas[Area::Output as usize] = Some((notes.clone(), at));
        if slot.call.rank == 0 {
            slot.phase = Phase::Asks;
        } else {
            slot.phase = Schedule::new(&slot.call).map_or(Phase::Over, Phase::Runs);
        }
        true
    }
}

impl<P: Port> Engine<P> {
    /// Asks for the class route of a new geometry and notes the answer. Returns whether anything happened.
    pub(super) fn ask(&mut self, number: usize, port: &P) -> bool {
        let Self { slots, geometries, notes, .. } = self;
        let Some(slot) = slots.get_mut(number) else { return false };
        let (Phase::Asks, Some(network)) = (&slot.phase, port.network()) else { return false };
        let Some(entry) = &geometries[usize::from(slot.geometry)] else { return false };
        let route = if slot.asked {
            let Some(answer) = network.answer() else { return false };
            slot.asked = false;
            answer.ok()
        } else if let Some(census) = entry.census(port) {
            match network.allocate(census.members()) {
                Ok(()) => {
                    slot.asked = true;
                    return true;
                }
                Err(InjectError::Full | InjectError::Pending) => return false,
                Err(_) => None,
            }
        } else {
            None
        };
        slot.learn(notes.as_ref(), route)
    }

    /// Puts a route, or what there will be, on the list of those that are given up. Returns `false` if it is full.
    pub(super) fn give_up(&mut self, leaving: Leaving) -> bool {
        self.leaving.push(leaving).is_ok()
    }

    /// Whether the world of this context has the class route of all nodes.
    pub(crate) fn join_tree(&mut self, network: Option<impl CollectiveNetwork>, whole: bool) {
        let world = self.geometries.iter_mut().flatten().find(|entry| entry.id == WORLD);
        let role = network.and_then(|network| network.role(ClassRoute::WORLD));
        if let Some(entry) = world
            && role == Some(Role::BOTH)
            && whole
            && (entry.domains.is_some() || entry.terrain.per_node == 1)
            && entry.members.size() > entry.terrain.per_node
        {
            entry.way = entry.way(ClassRoute::WORLD);
        }
    }
}

impl<P: Port> Slot<P> {
    /// The class route is known: the others are told.
    fn learn(&mut self, notes: Option<&rings::shared::Shared>, route: Option<ClassRoute>) -> bool {
        if let Some(notes) = notes {
            // There is a note for every geometry.
            let _ = notes.write(usize::from(self.geometry) * NOTE_BYTES, &note(route));
        }
        self.phase = Schedule::new(&self.call).map_or(Phase::Over, Phase::Runs);
        self.moved = true;
        true
    }
}
