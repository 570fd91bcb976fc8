//! Reliability: exactly once, in order and intact, over a network that may lose, damage, duplicate or reorder
//! (SPEC D-8).
//!
//! [`Reliable`] is an adapter around an adapter. The message unit above does not know of it; over a network that is
//! reliable by itself nobody wraps, and none of this is compiled.
//!
//! ```text
//! message unit -> window -> link header -> adapter -> wire -> adapter -> checksum -> order -> message unit
//!                   ^----------- acknowledged, credit ----------------------'
//! ```
//!
//! All is per pair of nodes: endpoints cost nothing. Each peer in use has a fixed state (about 2 KiB), allocated at
//! the start for as many peers as the receive buffers suffice for. Further ones wait until some peer is idle and both
//! sides have agreed to forget each other, see [`handshake`](self) (SPEC R-3). Frames of another job, of an earlier life
//! or of an earlier connection are dropped.
//!
//! - *Sending.* A packet stays as the message unit lent it, and its cookie with it, until the peer has it. It is sent
//!   again when three later ones arrived without it, or when nothing was heard for a while that is estimated from
//!   earlier answers and doubles each time. Then the device is kicked again too: it may have missed a kick, here or where the
//!   answer waits; so who is asked again kicks its own.
//! - *Receiving.* Packets before their turn wait in their receive buffers; those that came before, or whose checksum
//!   is wrong, are counted and dropped.
//! - *Acknowledging.* With every packet that goes the other way; by itself if sixteen packets have come, half a
//!   millisecond has passed, the hart goes to sleep, or something is missing. Without a packet to send, a hart that
//!   computes acknowledges nothing: its peers send the oldest packet again now and then.
//! - *Credit.* A peer sends what it was allowed to and no more, see [`credit`](self). Without credit it asks, less
//!   and less often; who got no credit is told when there is some.
//! - *Not ready.* What a context does not take holds up nothing to others, see `aside`.
//! - *Silence* means nothing (SPEC R-2): a node that computes acknowledges nothing, however long, and is sent the oldest
//!   packet again now and then. That a node is gone says the network ([`ReliableAdapter::node_died`]): its packets come
//!   back as [`Outcome::Failed`], further ones are refused, and what it sent last is dropped.
//!
//! - *The end.* Who has sent all may be asked to acknowledge once more: the last acknowledgement may be lost. So a node says when all
//!   that it sent is acknowledged ([`Flags::LAST`](link::Flags::LAST)), and stays for none of its peers that has said so, for others
//!   a while ([`LINGER_NS`]).
//!
//! Frames of the network itself go through as they are. What nodes say to each other before there are connections goes by itself,
//! see `apart`.

mod apart;
mod aside;
mod credit;
mod deaths;
mod flights;
mod frames;
mod handshake;
mod incoming;
mod outgoing;
mod peers;
mod places;
mod receiver;
mod rto;
mod sender;

#[cfg(test)]
mod tests;

use crate::adapter::{
    Adapter, AdapterFaults, COOKIES, FABRIC, IN_FLIGHT, Lent, Outcome, Reliability, ReliableAdapter,
    RxBuffer, Watch,
};
use crate::link::{self, LINK_BYTES};
use crate::platform::Platform;
use alloc::boxed::Box;
use alloc::vec::Vec;
use aside::{Aside, PutOff};
use credit::CreditPool;
use flights::Flights;
use handshake::Number;
use heapless::Deque;
use peers::{Peer, PeerSet, Peers};

/// How long a node stays after a packet came in, to acknowledge it again if that was lost, unless its sender has said meanwhile that
/// it has all acknowledged; where nobody tells its peers that it has ended, besides as long as they may take to ask.
pub const LINGER_NS: u64 = 200_000_000;
/// About how many bytes of heap it takes.
pub const HEAP_BYTES: usize = (IN_FLIGHT + MOST_PEERS) * 2048;
/// Most peers at once.
pub const MOST_PEERS: usize = 128;

/// Nodes that call whom a node remembers; further ones call again.
const CALLERS: usize = 32;
const SPARE: usize = COOKIES - IN_FLIGHT;
/// What nodes say by themselves that is kept until the end of a round; more is dropped, and said again.
const WORDS: usize = 32;

/// What the layer needs of the core that it runs on.
pub trait Core: 'static {
    /// Nanoseconds since the node started.
    fn now_ns() -> u64;

    /// As [`Platform::crc32c`].
    fn crc32c(state: u32, bytes: &[u8]) -> u32 {
        link::crc32c(state, bytes)
    }
}

impl<P: Platform> Core for P {
    fn now_ns() -> u64 {
        P::now_ns()
    }

    #[inline]
    fn crc32c(state: u32, bytes: &[u8]) -> u32 {
        P::crc32c(state, bytes)
    }
}

/// An adapter that mends what the one in it may do to packets.
pub struct Reliable<A, C> {
    inner: A,
    node: u32,
    nodes: u32,
    /// What the frames of this job's nodes say, and no others.
    life: u32,
    /// As [`LINGER_NS`] says.
    linger_ns: u64,
    /// A bit for each node that is gone.
    gone: Box<[u64]>,
    peers: Peers,
    pool: CreditPool,
    /// Whether nodes that call get a place.
    admits: bool,
    /// Nodes that call while there is none, and the numbers they call by.
    callers: Box<Deque<(u32, Number), CALLERS>>,
    /// Peers that ask for release.
    parting: PeerSet,
    /// Where to look for an idle peer.
    hand: u16,
    /// In this round, and in the one before, this node wanted a place and had none.
    wanting: bool,
    wanted: bool,
    /// Any of that, or a caller waits, a peer asks for release, or a node has said something by itself.
    short: bool,
    /// Whose turn it is: the callers', or this node's own.
    callers_first: bool,
    flights: Flights,
    /// Cookies of frames without packets; the first `spares` are free.
    spare: [u16; SPARE],
    spares: usize,
    /// Peers that are to be told of something, and when the first of them is, at the latest.
    acks_due: PeerSet,
    acks_at: u64,
    /// Peers to which something can be sent.
    sendable: PeerSet,
    /// Peers that were last told that they have no credit, for want of buffers that others have.
    starving: PeerSet,
    /// The peer whose packets' turn has come.
    draining: Option<u16>,
    /// What nodes have said by themselves.
    apart: Box<Deque<RxBuffer, WORDS>>,
    /// How many packets the receiver of the last one may be given without taking any.
    patience: u32,
    /// Packets whose receivers were not ready, in order.
    aside: Vec<Aside>,
    /// Peers that have such, and for which of this node's contexts.
    put_off: Vec<PutOff>,
    /// Some of those are to hear that the context is ready.
    ready: bool,
    /// When they are tried again, and how long after the last time.
    retry_at: u64,
    retry_ns: u64,
    /// Packets that peers have not acknowledged.
    outstanding: u32,
    /// Peers that have not acknowledged all.
    busy: u32,
    /// No later than the first of the peers' timers.
    timer: u64,
    /// When the last packet came in, and when this node said something last of which it keeps nothing.
    last_packet: Option<u64>,
    last_answer: Option<u64>,
    /// The time, as of this round; `u64::MAX` before it was read.
    now: u64,
    /// All that has arrived was looked at in this round.
    caught_up: bool,
    /// Rounds in which that was not so and a timer had ended.
    overdue: usize,
    /// There was no room for a frame that others should not overtake.
    blocked: bool,
    /// Something changed that the message unit looks at in its next round.
    news: bool,
    reliability: Reliability,
    core: core::marker::PhantomData<fn() -> C>,
}

impl<A: Adapter, C: Core> Reliable<A, C> {
    /// A layer around `inner`, for node `node` of `nodes`. Allocates about [`HEAP_BYTES`], and nothing later.
    pub fn new(inner: A, node: u32, nodes: u32) -> Self {
        Self::with_peers(inner, node, nodes, MOST_PEERS as u32)
    }

    /// The same, with at most `peers` peers at once, and two at least.
    pub fn with_peers(inner: A, node: u32, nodes: u32, peers: u32) -> Self {
        let peers = credit::most_peers(inner.buffers(), nodes).min(peers.clamp(2, MOST_PEERS as u32));
        Self {
            node,
            nodes,
            life: 0,
            linger_ns: LINGER_NS,
            gone: (0..nodes.div_ceil(64)).map(|_| 0).collect(),
            peers: Peers::new(peers as usize),
            pool: CreditPool::new(inner.buffers(), peers),
            admits: true,
            callers: Box::new(Deque::new()),
            parting: PeerSet::EMPTY,
            hand: 0,
            wanting: false,
            wanted: false,
            short: false,
            callers_first: false,
            inner,
            flights: Flights::new(),
            spare: core::array::from_fn(|i| (IN_FLIGHT + i) as u16),
            spares: SPARE,
            acks_due: PeerSet::EMPTY,
            acks_at: u64::MAX,
            sendable: PeerSet::EMPTY,
            starving: PeerSet::EMPTY,
            draining: None,
            apart: Box::new(Deque::new()),
            patience: u32::MAX,
            aside: Vec::with_capacity(IN_FLIGHT),
            put_off: Vec::with_capacity(IN_FLIGHT),
            ready: false,
            retry_at: u64::MAX,
            retry_ns: 0,
            outstanding: 0,
            busy: 0,
            timer: u64::MAX,
            last_packet: None,
            last_answer: None,
            now: u64::MAX,
            caught_up: false,
            overdue: 0,
            blocked: false,
            news: false,
            reliability: Reliability::default(),
            core: core::marker::PhantomData,
        }
    }

    /// Takes only frames of life `life` in, and sends such.
    pub fn with_life(self, life: u32) -> Self {
        Self { life, ..self }
    }

    /// On a network without a fabric, which would tell who has ended: a node stays longer at its end. Nor does it count nodes: one may
    /// be reset until it hears that all are up, so none is answered before it is told to [`admit`](ReliableAdapter::admit) them.
    pub fn without_fabric(self) -> Self {
        Self { linger_ns: LINGER_NS + rto::MOST_NS, admits: false, ..self }
    }

    /// The time, read once a round.
    #[inline]
    fn now(&mut self) -> u64 {
        if self.now == u64::MAX {
            self.now = C::now_ns();
        }
        self.now
    }

    /// Takes cookies back from the device.
    #[inline]
    fn take_back(&mut self) {
        while let Some((cookie, _)) = self.inner.reclaim() {
            self.blocked = false;
            if usize::from(cookie) < IN_FLIGHT {
                self.flights.returned(cookie);
            } else if let Some(place) = self.spare.get_mut(self.spares) {
                *place = cookie;
                self.spares += 1;
            }
        }
    }

    /// Gives a packet for the network itself to the adapter.
    ///
    /// # Safety
    /// As that of [`Adapter::transmit`].
    #[cold]
    unsafe fn send_to_fabric(&mut self, header: &[u8], inline: &[u8], lent: [Lent; 2], cookie: u16) -> bool {
        // SAFETY: the caller's promise goes on to the adapter.
        let taken = unsafe { self.inner.transmit(FABRIC, header, inline, lent, cookie) };
        if taken {
            self.flights.note_unkept(cookie);
        }
        taken
    }

    /// A peer is to hear at once.
    #[inline]
    fn ack_now(&mut self, index: u16) {
        self.acks_due.insert(index);
        self.acks_at = 0;
    }

    /// Whether what had arrived when a timer ended was looked at: it may be what is waited for. A node that is sent more than it
    /// takes in never has looked at all, but after as many rounds as there are buffers at what lay there then.
    #[cold]
    #[inline(never)]
    fn has_looked(&mut self) -> bool {
        let looked = self.caught_up || self.overdue == self.inner.buffers();
        self.overdue = if looked { 0 } else { self.overdue + 1 };
        looked
    }
}

impl<A: Adapter, C: Core> Adapter for Reliable<A, C> {
    type Interrupt = A::Interrupt;

    fn mtu(&self) -> usize {
        self.inner.mtu().saturating_sub(LINK_BYTES)
    }

    fn buffers(&self) -> usize {
        self.inner.buffers()
    }

    #[inline]
    fn has_room(&self) -> bool {
        !self.blocked && self.inner.has_room()
    }

    #[inline(always)]
    unsafe fn transmit(
        &mut self,
        node: u32,
        header: &[u8],
        inline: &[u8],
        lent: [Lent; 2],
        cookie: u16,
    ) -> bool {
        if node == FABRIC {
            // SAFETY: the caller's promise goes on to the adapter.
            return unsafe { self.send_to_fabric(header, inline, lent, cookie) };
        }
        self.queue(node, header, inline, lent, cookie)
    }

    #[inline]
    fn reclaim(&mut self) -> Option<(u16, Outcome)> {
        (self.now, self.caught_up, self.news) = (u64::MAX, false, false);
        self.take_back();
        self.flights.take_done()
    }

    #[inline]
    fn receive(&mut self) -> Option<RxBuffer> {
        if self.draining.is_some()
            && let Some(buffer) = self.deliver()
        {
            return Some(buffer);
        }
        loop {
            let Some(buffer) = self.inner.receive() else {
                self.caught_up = true;
                return None;
            };
            if let Some(buffer) = self.take_in_next(buffer) {
                return Some(buffer);
            }
        }
    }

    #[inline(always)]
    fn recycle(&mut self, buffer: RxBuffer) {
        let source = buffer.source();
        self.inner.recycle(buffer);
        if source != FABRIC {
            self.credit_back(source);
        }
    }

    #[inline(always)]
    fn flush(&mut self) {
        if !self.sendable.is_empty() {
            self.send_ready();
        }
        if !self.acks_due.is_empty() && self.now() >= self.acks_at {
            self.send_acks_due(false);
        }
        if self.ready {
            self.tell_ready();
        }
        if self.timer != u64::MAX && self.now() >= self.timer && self.has_looked() {
            self.expire();
        }
        self.inner.flush();
    }

    fn kick_again(&mut self) {
        self.inner.kick_again();
    }

    fn arm(&mut self, sent: bool) -> bool {
        // What was sent comes back when it is acknowledged, not when the device is done with it.
        let holds_up = self.flights.is_waiting() || !self.inner.has_room();
        let armed = self.inner.arm(self.blocked || (sent && holds_up));
        armed || self.news || self.draining.is_some() || self.flights.has_done()
    }

    fn watch(&self) -> Option<Watch> {
        self.inner.watch()
    }

    fn interrupt(&self) -> A::Interrupt {
        self.inner.interrupt()
    }

    fn faults(&self) -> AdapterFaults {
        AdapterFaults { reliability: self.reliability, ..self.inner.faults() }
    }
}

impl<A: Adapter, C: Core> ReliableAdapter for Reliable<A, C> {
    #[inline(always)]
    fn has_room_for(&mut self, node: u32) -> bool {
        // Each peer without a packet on the way keeps one cookie, and so does one that is yet to come.
        let idle = u32::from(self.peers.len()) + 1 - self.busy;
        let spare = self.flights.free().saturating_sub(idle);
        match self.peers.find(node).and_then(|index| self.peers.get(index)) {
            Some(peer) => peer.dead || peer.has_room(spare),
            None => self.has_place_for(node),
        }
    }

    #[inline]
    fn has_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    #[cold]
    fn holds_aside(&self, node: u32, target: u64) -> bool {
        self.aside.iter().any(|aside| (aside.rank(), aside.target()) == (node, target))
    }

    #[inline]
    fn patience(&self) -> u32 {
        self.patience
    }

    fn refuse(&mut self, buffer: RxBuffer) -> Result<(), RxBuffer> {
        if buffer.source() == FABRIC {
            return Err(buffer);
        }
        self.turn_down(buffer);
        Ok(())
    }

    fn ready(&mut self, target: u64) {
        self.note_ready(target);
    }

    fn settle(&mut self) {
        self.send_acks_due(true);
        self.inner.flush();
    }

    #[inline]
    fn is_settled(&self) -> bool {
        !self.news && self.draining.is_none() && !self.flights.has_done()
    }

    #[inline]
    fn due(&mut self) -> Option<u64> {
        if self.acks_due.is_empty() {
            return self.deadline();
        }
        // Acknowledgements that wait for a packet to travel with; the sleep sends them, and so does a poll in time.
        Some(self.timer.min(self.now() + receiver::ACK_DELAY_NS / 2))
    }

    #[inline]
    fn deadline(&self) -> Option<u64> {
        (self.timer != u64::MAX).then_some(self.timer)
    }

    fn most_peers(&self) -> usize {
        self.peers.most()
    }

    #[inline]
    fn wants_room(&self) -> bool {
        self.short
    }

    fn make_room(&mut self, owes: impl Fn(u32) -> bool) {
        self.part(&owes);
        self.let_callers_in();
        self.look_for_places(&owes);
        self.short = self.wanted || !self.callers.is_empty();
    }

    fn admit(&mut self) {
        self.admits = true;
    }

    fn say(&mut self, node: u32, packet: [&[u8]; 2]) -> bool {
        self.say_apart(node, packet)
    }

    fn take_said(&mut self) -> Option<RxBuffer> {
        self.apart.pop_front()
    }

    fn say_last(&mut self) {
        self.tell_last();
        self.inner.flush();
    }

    fn linger_until(&self) -> u64 {
        let may_ask = |index| self.peers.in_use(index).is_some_and(Peer::may_ask_again);
        let last_packet = self.last_packet.filter(|_| (0..self.peers.indices()).any(may_ask));
        last_packet.max(self.last_answer).map_or(0, |at| at + self.linger_ns)
    }

    fn node_died(&mut self, node: u32) {
        self.note_gone(node);
    }
}
