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
//! algorithm but the tree network's is permitted. The world of a client of all tasks has a class route of all
//! nodes without asking: there is one for each place of clients. When a geometry is destroyed its leaders tell each other on the route itself, and the owner
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
//! behind it on the route ends with that error, at all, and so does what waits behind it and cannot do without.

use super::Engine;
use super::route::Leaving;
use crate::combine::{ClassRoute, Role};
use crate::device::{CollectiveNetwork, Port};
use crate::error::OperationError;
use crate::geometry::WORLD;

impl<A> Engine<A> {
    /// Gives the world of this context the class route `route` of all nodes, if there is one and it is of use there.
    pub(crate) fn join_tree(&mut self, network: Option<impl CollectiveNetwork>, route: Option<ClassRoute>) {
        let world = self.geometries.iter_mut().flatten().find(|entry| entry.id == WORLD);
        let all = |route: &ClassRoute| network.and_then(|it| it.role(*route)) == Some(Role::BOTH);
        if let Some(entry) = world
            && let Some(route) = route.filter(all)
            && (entry.domains.is_some() || entry.placement.per_node == 1)
            && entry.members.size() > entry.placement.per_node
        {
            entry.way.open(entry.channel(route));
        }
    }

    /// A member gave this collective of a geometry up: those after it do without the class route. Those before go on.
    #[cold]
    pub(super) fn forsake_route(&mut self, geometry: usize, given_up: u32, error: OperationError) {
        let Some(entry) = self.geometries[geometry].as_mut().filter(|entry| entry.way.is_open()) else {
            return;
        };
        entry.way.forsake(error);
        let behind = self.slots.values_mut().filter(|slot| slot.is_on_route_behind(geometry, given_up));
        behind.for_each(|slot| slot.fail(error));
    }

    /// Puts a route, or what there will be, on the list of those that are given up. Returns `false` if it is full.
    pub(super) fn give_up(&mut self, leaving: Leaving) -> bool {
        self.leaving.push(leaving).is_ok()
    }

    /// Goes on with what is left of geometries that were destroyed. Returns whether anything happened.
    pub(super) fn leave_routes(&mut self, network: Option<impl CollectiveNetwork>) -> bool {
        let Some(network) = network else { return false };
        let mut moved = false;
        self.leaving.retain_mut(|it| {
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
    pub(super) fn goes_on(&mut self, number: u32) -> bool {
        let Self { slots, geometries, notes: Some(notes), .. } = self else { return false };
        let Some(slot) = slots.get_mut(number) else { return false };
        let Some(entry) = &mut geometries[slot.geometry()] else { return false };
        slot.goes_on(entry, notes)
    }

    /// Asks for the class route of a new geometry if that is what a collective has to do, and notes the answer. Returns whether
    /// anything happened.
    #[cold]
    pub(super) fn ask<P: Port>(&mut self, number: u32, port: &P) -> bool {
        let Self { slots, geometries, notes, .. } = self;
        let Some(slot) = slots.get_mut(number) else { return false };
        let Some(network) = port.network() else { return false };
        let Some(entry) = &geometries[slot.geometry()] else { return false };
        slot.ask(notes.as_ref(), network, || entry.census(port))
    }
}
