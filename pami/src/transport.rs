//! A context's way to others: who it is there, what way leads to whom, in what order things go and come, and what it counts.
//!
//! Protocols send by this and a port, and know nothing else of the context that they are part of.

use crate::device::{Path, Port, REQUESTS, Unreachable};
use crate::endpoint::Endpoint;
use crate::error::SendError;

/// Number of the first operation or arrival: so near to where message numbers wrap that every job of any length has them do so.
const FIRST_ORDER: u64 = (1 << u32::BITS) / REQUESTS as u64 - 48;

/// What went through a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Messages sent.
    pub sent: u64,
    /// Messages whose handler was called.
    pub received: u64,
    /// Messages to a dispatch id without a handler; discarded.
    pub unknown_dispatch: u64,
    /// Bytes of collectives that were queued for the torus, or that another node was told where to get.
    pub collective_sent: u64,
    /// Bytes of collectives that came or were got, by whatever path.
    pub collective_received: u64,
    /// Bytes of messages whose processing was finished here, in a region of another task of the node.
    pub placed_bytes: u64,
    /// Bytes of messages from others whose processing was finished here.
    pub processed_bytes: u64,
    /// Packets that make no sense where they came, as a broken or hostile peer sends; discarded (SPEC D-9).
    pub protocol_errors: u64,
}

/// The way of messages of one packet to an endpoint.
struct Route<P: Port> {
    target: Endpoint,
    way: P::Route,
    deaths: u32,
}

/// The paths that were last found: most operations go where the last went, whatever messages go elsewhere meanwhile.
struct Known {
    /// An endpoint whose node's memory is reached, mostly this one's, and its reception side. Deaths have it forgotten.
    near: Endpoint,
    port: u16,
    /// One that the network leads to, its node, and the deaths known then.
    far: Endpoint,
    node: u32,
    deaths: u32,
}

/// How much of what an operation has to send found room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    All,
    Part,
    Nothing,
}

impl Queued {
    /// For an operation of one packet.
    pub(crate) fn whole(queued: bool) -> Self {
        if queued { Self::All } else { Self::Nothing }
    }

    /// For one that stopped, after some packets or none.
    pub(crate) fn stopped(some: bool) -> Self {
        if some { Self::Part } else { Self::Nothing }
    }
}

/// The message number of the request that `index` says of: an operation, a receive request, a piece or a collective's get.
#[inline]
pub(crate) fn message_number(order: u64, index: usize) -> u32 {
    (order as u32).wrapping_mul(REQUESTS as u32).wrapping_add(index as u32)
}

/// A context's way to others.
#[repr(C)]
pub(crate) struct Transport<P: Port> {
    /// The way of the last message of one packet, and the deaths known then: most go where the last went.
    route: Option<Route<P>>,
    known: Known,
    counters: Counters,
    /// Whether endpoints of this node are reached in its memory, not by the network.
    local_paths: bool,
    /// The endpoint that the context is.
    me: Endpoint,
    /// Counts operations and arrivals.
    orders: u64,
}

impl Known {
    fn nobody() -> Self {
        // No endpoint has those bits: a client has no such number.
        let nobody = Endpoint::from_bits(u64::MAX);
        Self { near: nobody, port: 0, far: nobody, node: 0, deaths: 0 }
    }
}

impl<P: Port> Transport<P> {
    pub(crate) fn new(me: Endpoint, local_paths: bool) -> Self {
        Self {
            route: None,
            known: Known::nobody(),
            counters: Counters::default(),
            local_paths,
            me,
            orders: FIRST_ORDER,
        }
    }

    /// The endpoint that the context is.
    #[inline(always)]
    pub(crate) fn me(&self) -> Endpoint {
        self.me
    }

    /// The next number in the order of operations and arrivals.
    #[inline]
    pub(crate) fn next_order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }

    /// The path to an endpoint, if it was the last that was found of its kind.
    #[inline(always)]
    pub(crate) fn known_path(&self, port: &P, target: Endpoint) -> Option<Path> {
        let known = &self.known;
        if known.near == target {
            Some(Path::Local(known.port))
        } else {
            self.far_node(port, target).map(Path::Torus)
        }
    }

    /// The node that the network leads to an endpoint of, if that was the last that was found.
    #[inline(always)]
    pub(crate) fn far_node(&self, port: &P, target: Endpoint) -> Option<u32> {
        let known = &self.known;
        (known.far == target && known.deaths == port.deaths()).then_some(known.node)
    }

    /// Whether an endpoint is known to be reached through the node's memory.
    #[inline(always)]
    pub(crate) fn is_near(&self, target: Endpoint) -> bool {
        self.known.near == target
    }

    /// The path to an endpoint of this client.
    #[inline(always)]
    pub(crate) fn path_to(&mut self, port: &P, target: Endpoint) -> Result<Path, SendError> {
        match self.known_path(port, target) {
            Some(path) => Ok(path),
            None => self.find_path(port, target),
        }
    }

    /// The path to an endpoint of this client.
    #[cold]
    #[inline(never)]
    pub(crate) fn find_path(&mut self, port: &P, target: Endpoint) -> Result<Path, SendError> {
        if !target.is_fellow(self.me) {
            return Err(SendError::ForeignClient);
        }
        // Before the look: a death behind it makes the path useless.
        let deaths = port.deaths();
        let path = self.locate(port, target).map_err(|error| match error {
            Unreachable::NoSuchEndpoint => SendError::Unreachable,
            Unreachable::Gone(node, gone) => SendError::gone(node, gone),
        })?;
        let known = &mut self.known;
        match path {
            Path::Local(port) => (known.near, known.port) = (target, port),
            Path::Torus(node) => (known.far, known.node, known.deaths) = (target, node, deaths),
        }
        Ok(path)
    }

    /// Has the next messages of one packet go the shortest way to `target`, which `path` leads to.
    pub(crate) fn note_route(&mut self, port: &P, target: Endpoint, path: Path) {
        let deaths = port.deaths();
        let known = |route: &Route<P>| route.target == target && route.deaths == deaths;
        if !self.route.as_ref().is_some_and(known) {
            self.route = port.route(target, path).map(|way| Route { target, way, deaths });
        }
    }

    /// Forgets the way to the last target: what is to come must not overtake what waits.
    pub(crate) fn forget_route(&mut self) {
        self.route = None;
    }

    /// Forgets all that is known of where endpoints are.
    pub(crate) fn forget_paths(&mut self) {
        (self.route, self.known) = (None, Known::nobody());
    }

    /// The same if it leads to this target.
    pub(crate) fn forget_route_to(&mut self, target: Endpoint) {
        if self.route.as_ref().is_some_and(|route| route.target == target) {
            self.route = None;
        }
    }

    /// Where packets to an endpoint go now.
    pub(crate) fn locate(&self, port: &P, target: Endpoint) -> Result<Path, Unreachable> {
        port.locate(target, self.local_paths)
    }

    /// Sends a message to where the last one went, if it fits and there is room.
    #[inline(always)]
    pub(crate) fn send_on_route(
        &mut self,
        port: &mut P,
        target: Endpoint,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> bool {
        if let Some(route) = &self.route
            && route.target == target
            && port.push_short(&route.way, dispatch, header, data).is_ok()
        {
            self.note_sent();
            return true;
        }
        false
    }

    /// What went through the context so far.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// A message is sent.
    #[inline]
    pub(crate) fn note_sent(&mut self) {
        self.counters.sent += 1;
    }

    /// The handler of a message is called.
    #[inline]
    pub(crate) fn note_received(&mut self) {
        self.counters.received += 1;
    }

    /// A message has no handler.
    pub(crate) fn note_unknown_dispatch(&mut self) {
        self.counters.unknown_dispatch += 1;
    }

    /// So many bytes of a collective are queued for the torus, or another node was told where to get them.
    #[inline]
    pub(crate) fn note_collective_sent(&mut self, bytes: usize) {
        self.counters.collective_sent += bytes as u64;
    }

    /// So many bytes of a collective have come, or are got.
    #[inline]
    pub(crate) fn note_collective_received(&mut self, bytes: usize) {
        self.counters.collective_received += bytes as u64;
    }

    /// Bytes of a message were processed here, in a region of another task of the node.
    pub(crate) fn note_placed(&mut self, bytes: u64) {
        self.counters.placed_bytes += bytes;
    }

    /// Bytes of a message from another were processed here.
    pub(crate) fn note_processed(&mut self, bytes: u64) {
        self.counters.processed_bytes += bytes;
    }

    /// A packet makes no sense.
    pub(crate) fn protocol_error(&mut self) {
        self.counters.protocol_errors += 1;
    }
}
