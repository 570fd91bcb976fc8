//! The tree adapter: contributions and broadcasts out, results and broadcasts in, class routes (SPEC D-3).

use super::card::Card;
use super::counters::{TreeCounters, TreeFaults};
use super::route::Route;
use super::shipped::{ShippedCall, ShippedCalls};
use crate::adapter::RxBuffer;
use crate::nic::{Nic, SmallMtu};
use pami::combine::packet::NETWORK;
use pami::combine::{
    AluOperation, CLASS_ROUTES, ClassRoute, InjectError, MOST_MEMBERS, Role, RouteMembers, Status,
    TreeArrival, TreeEnvelope, TreePacket, TreePacketKind,
};
use zerocopy::IntoBytes;

/// The node's one request for a class route.
enum Request {
    None,
    Pending(u32),
    Answered(Result<ClassRoute, Status>),
}

/// A network card on the tree.
pub struct TreeAdapter<N: Nic> {
    card: Card<N>,
    node: u32,
    nodes: u32,
    welcome: bool,
    routes: [Option<Route>; CLASS_ROUTES],
    request: Request,
    shipped: ShippedCalls,
    /// Something was refused for want of room in the card.
    starved: bool,
    counters: TreeCounters,
    /// What the card cannot see.
    faults: TreeFaults,
}

impl<N: Nic> TreeAdapter<N> {
    /// About how many bytes of heap it takes.
    pub const HEAP_BYTES: usize = Card::<N>::HEAP_BYTES;

    /// Starts `nic` for the node with rank `node` of `nodes`. Allocates about
    /// [`HEAP_BYTES`](Self::HEAP_BYTES), and nothing later. The class routes of all nodes are open.
    ///
    /// # Errors
    /// [`SmallMtu`].
    pub fn new(nic: N, node: u32, nodes: u32) -> Result<Self, SmallMtu> {
        let mut routes = [const { None }; CLASS_ROUTES];
        for world in ClassRoute::worlds() {
            routes[usize::from(world.id)] = Some(Route::new(world, Role::BOTH, NETWORK, 0));
        }
        Ok(Self {
            card: Card::new(nic, node)?,
            node,
            nodes,
            welcome: false,
            routes,
            request: Request::None,
            shipped: ShippedCalls::default(),
            starved: false,
            counters: TreeCounters::default(),
            faults: TreeFaults::default(),
        })
    }

    /// Most bytes of one contribution or broadcast; a multiple of 8.
    pub fn payload(&self) -> usize {
        self.card.payload()
    }

    /// Tells the network that the node is up. To be repeated until it [is welcome](Self::is_welcome): nothing else may
    /// be sent before.
    pub fn hello(&mut self) {
        let hello = TreeEnvelope::new(TreePacketKind::Hello, ClassRoute::WORLD, self.node);
        self.send(TreeEnvelope { argument: self.nodes, ..hello }, 0, |_| {});
    }

    /// Whether the network has answered.
    pub fn is_welcome(&self) -> bool {
        self.welcome
    }

    /// What this node does on `route`; `None` if it is not open here.
    pub fn role(&self, route: ClassRoute) -> Option<Role> {
        self.route(route).map(Route::role)
    }

    /// The open class route that node `owner` asked for under `tag`, if this node is a member.
    pub fn find(&self, owner: u32, tag: u32) -> Option<ClassRoute> {
        let mut open = self.routes.iter().flatten();
        open.find(|it| it.is_named(owner, tag)).map(Route::route)
    }

    /// Contributes `len` bytes, whole elements, which `fill` writes, to the next combination on `route`. `sequence`,
    /// operation and length must be the same at all contributors, else all get [`Status::Mismatch`].
    ///
    /// # Errors
    /// [`InjectError`] but `Pending`.
    pub fn contribute(
        &mut self,
        route: ClassRoute,
        operation: AluOperation,
        sequence: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), InjectError> {
        if !self.role(route).is_some_and(|role| role.contributes) {
            return Err(InjectError::NoRoute);
        }
        if !len.is_multiple_of(operation.element_len()) {
            return Err(InjectError::Length);
        }
        let contribution = TreeEnvelope::new(TreePacketKind::Contribute, route, self.node);
        self.inject(TreeEnvelope { sequence, operation, ..contribution }, len, fill)
    }

    /// Sends `len` bytes, which `fill` writes, to all that receive on `route`; any member may.
    ///
    /// # Errors
    /// [`InjectError`] but `Pending`.
    pub fn broadcast(
        &mut self,
        route: ClassRoute,
        sequence: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), InjectError> {
        self.inject(
            TreeEnvelope { sequence, ..TreeEnvelope::new(TreePacketKind::Broadcast, route, self.node) },
            len,
            fill,
        )
    }

    /// The oldest arrival on `route`. It stays until it is [taken](Self::take).
    pub fn front(&self, route: ClassRoute) -> Option<TreeArrival<'_>> {
        let buffer = self.route(route)?.front()?;
        // It was a packet when it came.
        let TreePacket { envelope, payload } = TreePacket::parse(buffer.packet()).ok()?;
        Some(TreeArrival {
            broadcast: (envelope.kind == TreePacketKind::Broadcast).then_some(envelope.origin),
            sequence: envelope.sequence,
            operation: envelope.operation,
            status: envelope.status,
            blame: envelope.origin,
            payload,
        })
    }

    /// Done with the oldest arrival on `route`: its buffer and its credit go back.
    pub fn take(&mut self, route: ClassRoute) {
        if let Some(buffer) = self.route_mut(route).and_then(Route::pop) {
            self.card.lend(buffer.into_memory());
        }
    }

    /// Asks for a class route for `members`, of which this node is one; they find it under this node's rank and `tag`.
    ///
    /// # Errors
    /// `Full`; `Pending` until the last request's answer was taken; `Length` if the list is longer than
    /// [`MOST_MEMBERS`].
    pub fn allocate(&mut self, tag: u32, members: &[RouteMembers]) -> Result<(), InjectError> {
        if !matches!(self.request, Request::None) {
            return Err(InjectError::Pending);
        }
        let mut wire = [RouteMembers::range(0, 0, Role::BOTH).to_wire(); MOST_MEMBERS];
        let list = wire.get_mut(..members.len()).ok_or(InjectError::Length)?;
        for (place, members) in list.iter_mut().zip(members) {
            *place = members.to_wire();
        }
        if list.as_bytes().len() > self.payload() {
            return Err(InjectError::Length);
        }
        let request = TreeEnvelope {
            argument: tag,
            ..TreeEnvelope::new(TreePacketKind::Allocate, ClassRoute::WORLD, self.node)
        };
        let list = list.as_bytes();
        if !self.send(request, list.len(), |into| into.copy_from_slice(list)) {
            return Err(InjectError::Full);
        }
        self.request = Request::Pending(tag);
        Ok(())
    }

    /// The answer to the request for a class route, once.
    pub fn answer(&mut self) -> Option<Result<ClassRoute, Status>> {
        let Request::Answered(answer) = self.request else { return None };
        self.request = Request::None;
        Some(answer)
    }

    /// Gives up a class route that this node asked for, with everything that is on it: all members must have done with
    /// it.
    ///
    /// # Errors
    /// `Full`; `NoRoute` also if another node has asked for it.
    pub fn release(&mut self, route: ClassRoute) -> Result<(), InjectError> {
        if self.route(route).is_none_or(|open| !open.is_of(self.node)) {
            return Err(InjectError::NoRoute);
        }
        let sent = self.send(TreeEnvelope::new(TreePacketKind::Release, route, self.node), 0, |_| {});
        if sent { Ok(()) } else { Err(InjectError::Full) }
    }

    /// Sends the node's I/O node a call of `len` bytes, which `fill` writes.
    ///
    /// # Errors
    /// `Full` also while all calls that may be are under way; `Length`.
    pub fn ship(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<ShippedCall, InjectError> {
        if len > self.payload() {
            return Err(InjectError::Length);
        }
        let call = self.shipped.free().ok_or(InjectError::Full)?;
        let envelope = TreeEnvelope {
            sequence: call.sequence(),
            argument: call.place(),
            ..TreeEnvelope::new(TreePacketKind::Ship, ClassRoute::WORLD, self.node)
        };
        if !self.send(envelope, len, fill) {
            return Err(InjectError::Full);
        }
        self.shipped.sent(call);
        Ok(call)
    }

    /// The answer to a call, once it has come, and how it went; empty if that was not well.
    pub fn reply(&self, call: ShippedCall) -> Option<(Status, &[u8])> {
        let packet = TreePacket::parse(self.shipped.answer(call)?.packet()).ok()?;
        let status = packet.envelope.status;
        Some((status, if status == Status::Good { packet.payload } else { &[] }))
    }

    /// The caller has read the answer, or waits for it no more: its buffer goes back.
    pub fn leave(&mut self, call: ShippedCall) {
        if let Some(buffer) = self.shipped.leave(call) {
            self.card.lend(buffer.into_memory());
        }
    }

    /// Takes in what the network has sent; returns whether that was anything.
    pub fn advance(&mut self) -> bool {
        let mut came = false;
        while let Some(buffer) = self.card.receive() {
            came = true;
            if let Some(buffer) = self.take_in(buffer) {
                self.card.lend(buffer.into_memory());
            }
        }
        came
    }

    /// Shows the device what was queued, and tells the network what was taken, where it may wait for that.
    pub fn flush(&mut self) {
        for id in 0..CLASS_ROUTES {
            let Some(open) = self.routes[id].as_ref().filter(|open| open.owes()) else { continue };
            let route = open.route();
            let credit = TreeEnvelope {
                taken: open.taken(),
                ..TreeEnvelope::new(TreePacketKind::Credit, route, self.node)
            };
            if self.send(credit, 0, |_| {}) {
                self.counters.credits += 1;
                if let Some(open) = self.route_mut(route) {
                    open.told();
                }
            }
        }
        self.card.flush();
    }

    /// Asks for an interrupt when something comes in, or there is room again after something was refused for want of
    /// it. Returns whether there is something already; then no interrupt may come for it.
    pub fn arm(&mut self) -> bool {
        if self.starved && self.card.has_room() {
            self.starved = false;
            return true;
        }
        self.card.arm(self.starved)
    }

    /// Whether the device has sent everything.
    pub fn is_drained(&mut self) -> bool {
        self.card.unsent() == 0
    }

    /// The handle that acknowledges interrupts.
    pub fn interrupt(&self) -> N::Interrupt {
        self.card.interrupt()
    }

    /// What went through so far.
    pub fn counters(&self) -> TreeCounters {
        self.counters
    }

    /// What went wrong so far.
    pub fn faults(&self) -> TreeFaults {
        let TreeFaults { malformed, no_route, overrun, .. } = self.faults;
        TreeFaults { malformed, no_route, overrun, ..self.card.faults() }
    }

    fn route(&self, route: ClassRoute) -> Option<&Route> {
        self.routes.get(usize::from(route.id))?.as_ref().filter(|open| open.route() == route)
    }

    fn route_mut(&mut self, route: ClassRoute) -> Option<&mut Route> {
        self.routes.get_mut(usize::from(route.id))?.as_mut().filter(|open| open.route() == route)
    }

    /// Sends what counts in a window.
    fn inject(
        &mut self,
        envelope: TreeEnvelope,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), InjectError> {
        if len > self.payload() {
            return Err(InjectError::Length);
        }
        let open = self.route(envelope.route).ok_or(InjectError::NoRoute)?;
        let (may_send, taken) = (open.may_send(), open.taken());
        if !may_send || !self.send(TreeEnvelope { taken, ..envelope }, len, fill) {
            return Err(InjectError::Full);
        }
        if let Some(open) = self.route_mut(envelope.route) {
            open.sent();
        }
        self.counters.sent += 1;
        Ok(())
    }

    fn send(&mut self, envelope: TreeEnvelope, len: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        let sent = self.card.send(&envelope, len, fill);
        self.starved |= !sent;
        sent
    }

    /// Does what a packet says; gives the buffer back unless it is to be kept.
    fn take_in(&mut self, buffer: RxBuffer) -> Option<RxBuffer> {
        let Ok(TreePacket { envelope, .. }) = TreePacket::parse(buffer.packet()) else {
            self.faults.malformed += 1;
            return Some(buffer);
        };
        match envelope.kind {
            TreePacketKind::Welcome if envelope.argument == self.nodes => self.welcome = true,
            TreePacketKind::Result | TreePacketKind::Broadcast | TreePacketKind::Credit => {
                return self.arrive(&envelope, buffer);
            }
            TreePacketKind::Reply => {
                let Err((buffer, expected)) = self.shipped.arrive(&envelope, buffer) else { return None };
                self.faults.overrun += u64::from(!expected);
                return Some(buffer);
            }
            TreePacketKind::Opened => self.open(&envelope),
            TreePacketKind::Refused if matches!(self.request, Request::Pending(tag) if tag == envelope.argument) =>
            {
                self.request = Request::Answered(Err(envelope.status));
            }
            TreePacketKind::Closed => self.close(envelope.route),
            _ => self.faults.malformed += 1,
        }
        Some(buffer)
    }

    fn arrive(&mut self, envelope: &TreeEnvelope, buffer: RxBuffer) -> Option<RxBuffer> {
        let Some(open) = self.route_mut(envelope.route) else {
            self.faults.no_route += 1;
            return Some(buffer);
        };
        let possible = open.hear(envelope.taken);
        let back =
            if possible && envelope.kind != TreePacketKind::Credit { open.push(buffer) } else { Err(buffer) };
        match back {
            Ok(()) => {
                self.counters.received += 1;
                None
            }
            Err(buffer) => {
                self.faults.overrun += u64::from(!possible || envelope.kind != TreePacketKind::Credit);
                Some(buffer)
            }
        }
    }

    fn open(&mut self, envelope: &TreeEnvelope) {
        let TreeEnvelope { route, role, origin, argument: tag, .. } = *envelope;
        let Some(place) = self.routes.get_mut(usize::from(route.id)) else { return };
        // An earlier one was closed before, on the same wire; the worlds' are never closed.
        if place.is_some() || !role.is_member() {
            self.faults.malformed += 1;
            return;
        }
        *place = Some(Route::new(route, role, origin, tag));
        if origin == self.node && matches!(self.request, Request::Pending(asked) if asked == tag) {
            self.request = Request::Answered(Ok(route));
        }
    }

    fn close(&mut self, route: ClassRoute) {
        if route.is_world() || self.route(route).is_none() {
            self.faults.no_route += 1;
            return;
        }
        let Some(mut open) = self.routes[usize::from(route.id)].take() else { return };
        while let Some(buffer) = open.pop() {
            self.counters.abandoned += 1;
            self.card.lend(buffer.into_memory());
        }
    }
}

#[cfg(test)]
impl<N: Nic> TreeAdapter<N> {
    /// Arrivals that nobody took yet.
    pub(super) fn routes_hold(&self) -> usize {
        self.routes.iter().flatten().map(|open| usize::from(open.untaken())).sum()
    }
}
