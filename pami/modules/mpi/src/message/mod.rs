//! Point to point: messages between two processes of a communicator (the standard's chapter of that name).
//!
//! Each context matches for itself: a message finds the first posted receive that wants it, a receive the first
//! message that waits, both in order. They travel so:
//!
//! | how | when | what goes |
//! |---|---|---|
//! | short | header and data fit a packet | one packet, copied |
//! | eager | up to the eager limit, however the data lies | the data, kept in chunks if no receive is there |
//! | RTS, pulled | over the limit; the sender's credit at the receiver is used up; synchronous ones of those | the envelope; the data once a receive has matched, by a get of the receiver's |
//! | RTS, CTS | those of them that cannot be pulled | the envelope; the data once a receive has matched, as an eager message |
//!
//! Envelopes go in order, so messages do not overtake. A sender never has more short and eager messages unmatched at
//! a receiver than that has granted it room for (`credit`): beyond that it sends RTS. Of RTS the receiver has a number of places
//! for all senders together; one that finds none is refused, and its send ends with an error that says so. What of that waits
//! for room is one run of RTS for each sender. So nothing is lost
//! without a word, and nothing that waits for a place keeps others from coming (SPEC R-1).
//!
//! What finds no room to go out waits with others to the same process only.

mod account;
mod arrive;
mod bulk;
mod credit;
mod cts;
mod depart;
mod holders;
mod matching;
mod receive;
mod started;
mod unexpected;
mod watch;

use crate::callbacks::Callbacks;
use crate::data::Span;
use crate::envelope::{ANSWER, Envelope, RECALL, RTS};
use crate::error::Result;
use crate::lags::Lags;
use crate::protocols::Protocols;
use crate::request::{NONE, PointToPoint, Receiving, Request, Requests, Sending};
use crate::settings::Settings;
pub(crate) use arrive::Taken;
use base::fill;
use bulk::Bulk;
use core::ops::{Deref, DerefMut};
use credit::{Credit, CreditPool, units_of};
pub(crate) use depart::Short;
use holders::Holders;
pub(crate) use matching::Wanted;
use pami::client::Node;
use pami::device::Port;
use pami::{Active, Endpoint};
use rings::list::{Link, Links, List};
use unexpected::{CHUNK, Unexpected, Waiting, chunks_of};

/// What a context knows of another task's context that is its counterpart.
#[derive(Clone, Copy)]
struct Peer {
    credit: Credit,
    /// Kinds of control messages that are still to go there, a bit each.
    unsaid: u8,
    /// Sends there that wait for their turn, in order.
    pending: List,
    /// Receives that have to tell it something.
    replies_due: List,
    /// Sends there that wait for room for their data.
    data_due: List,
    /// RTS that went there, and that came from there: both sides number them by their order.
    rts_sent: u32,
    seen: u32,
    /// Its RTS that found no place and of which it has not heard.
    refused: Refused,
    /// Whether it is in the queue of peers that something waits for.
    queued: bool,
    /// Whether it is among those that have more credit than they are sure of.
    holds: bool,
    /// Of that queue.
    link: Link,
}

/// What a context knows of others, by task.
#[derive(Default)]
struct Peers(&'static mut [Peer]);

impl Deref for Peers {
    type Target = [Peer];

    #[inline]
    fn deref(&self) -> &[Peer] {
        self.0
    }
}

impl DerefMut for Peers {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Peer] {
        self.0
    }
}

impl Links for Peers {
    fn link(&self, task: u32) -> Option<&Link> {
        self.get(task as usize).map(|peer| &peer.link)
    }

    fn link_mut(&mut self, task: u32) -> Option<&mut Link> {
        self.get_mut(task as usize).map(|peer| &mut peer.link)
    }
}

/// RTS in sequence, or none. Those among them that a receive has matched have their CTS before their sender hears of the others; none
/// has a place.
#[derive(Clone, Copy, Debug)]
struct Refused {
    first: u32,
    count: u32,
}

/// Point to point in one context.
#[derive(Default)]
pub(crate) struct Messages {
    posted: List,
    unexpected: Unexpected,
    bulk: Bulk,
    peers: Peers,
    /// Peers that something has to go to, each for itself: one that has no room does not hold up the others.
    queue: List,
    /// Its memory for unexpected messages, which peers are granted.
    pool: CreditPool,
    /// Peers that have more of it than they are sure of.
    holders: Holders,
    /// Counts looks after nodes.
    looks: u32,
}

impl Messages {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        let tasks = node.tasks() as usize;
        // As many as a peer can be granted.
        let units = chunks_of(settings.unexpected_bytes).min(u16::MAX.into());
        let pool = CreditPool::new(units, tasks);
        Ok(Self {
            unexpected: Unexpected::new(node, (units, settings.rts_places), units)?,
            bulk: Bulk::new(node, settings.regions)?,
            peers: Peers(fill(node, "peers", tasks, || Peer::new(pool.first()))?),
            pool,
            holders: Holders::new(node, units)?,
            ..Self::default()
        })
    }

    /// Whether messages wait: a receive might want one.
    #[inline(always)]
    pub(crate) fn are_waiting(&self) -> bool {
        !self.unexpected.is_empty()
    }

    /// Posts a receive that wants none of the messages that wait, or takes one into `data` that waits whole and whose sender only
    /// gets its credit back. Returns its request, if there is room for it, and whether something is to go to a peer now.
    #[inline]
    pub(crate) fn post_or_take(
        &mut self,
        requests: &mut Requests,
        internal: bool,
        (wanted, data): (&Wanted, &Span),
        receiving: impl FnOnce() -> Receiving,
    ) -> Option<(Request, bool)> {
        match self.find_waiting(wanted) {
            None => Some((self.post(requests, internal, receiving)?, false)),
            Some(place) => Some((self.take_waiting(requests, internal, place, data)?, self.waits())),
        }
    }

    /// Posts a receive that wants none of the messages that wait. Returns its request, if there is room for it.
    #[inline(always)]
    pub(crate) fn post(
        &mut self,
        requests: &mut Requests,
        internal: bool,
        receiving: impl FnOnce() -> Receiving,
    ) -> Option<Request> {
        let request = requests.open_for(internal, || PointToPoint::Receive(receiving())).ok()?;
        self.posted.append(requests, request.slot().into());
        Some(request)
    }

    /// Whether a message waits that is wanted.
    pub(crate) fn has_waiting(&self, wanted: &Wanted) -> bool {
        self.find_waiting(wanted).is_some()
    }

    /// Drops the messages of a communicator that nobody has received.
    pub(crate) fn forget(&mut self, communicator: u32) {
        let of = |waiting: &Waiting| waiting.envelope.communicator.get() == communicator;
        while let Some(place) = self.unexpected.find(of) {
            self.unexpected.unlink(place);
            let Some(waiting) = self.unexpected.get(place) else { continue };
            if !waiting.is_here() {
                // It goes as soon as the rest has come.
                waiting.claimed = Some(NONE);
                continue;
            }
            let (origin, envelope) = (waiting.origin, waiting.envelope);
            self.unexpected.free(place);
            if !envelope.has(RTS) {
                self.taken(origin, envelope.len.get() as usize);
            }
        }
    }

    /// What a peer is owed, to go with a message to it.
    fn owed(&self, peer: Endpoint) -> u16 {
        self.peers.get(peer.task() as usize).map_or(0, |peer| peer.credit.owed())
    }

    /// A message went to a peer that told it of so many units, and took so many of the peer's.
    fn went(&mut self, peer: Endpoint, told: u16, units: u16) {
        if let Some(peer) = self.peer(peer) {
            peer.credit.told(told);
            peer.credit.spend(units);
        }
    }

    /// A peer has room again.
    #[inline]
    fn credited(&mut self, peer: Endpoint, units: u16) {
        if units > 0
            && let Some(peer) = self.peer(peer)
        {
            peer.credit.gain(units);
        }
    }

    /// Whether sends to a peer wait for their turn.
    fn has_pending(&self, peer: Endpoint) -> bool {
        self.peers.get(peer.task() as usize).is_some_and(|peer| !peer.pending.is_empty())
    }

    /// As [`passed`](Self::passed), of a message of one unit. Returns whether that was all: if not, nothing was done.
    #[inline(always)]
    fn pass_unit(&mut self, origin: Endpoint, gained: u16) -> bool {
        let Some(peer) = self.peers.get_mut(origin.task() as usize) else { return false };
        let passed = peer.credit.pass_unit();
        if passed && gained > 0 {
            peer.credit.gain(gained);
        }
        passed
    }

    /// A message of a peer came with its data and so much credit, and needs no room.
    fn passed(&mut self, origin: Endpoint, gained: u16, len: usize) {
        let task = origin.task();
        let Some(peer) = self.peers.get_mut(task as usize) else { return };
        if gained > 0 {
            peer.credit.gain(gained);
        }
        if self.pool.passed(&mut peer.credit, units_of(len)) {
            self.queue(task);
        }
    }

    /// Keeps a message of a peer that is here with all of its data. Returns whether there was room, which there is for what the peer
    /// was granted.
    fn keep_whole(&mut self, origin: Endpoint, envelope: &Envelope, data: &[u8]) -> bool {
        if data.is_empty() || data.len() > CHUNK {
            let place = self.keep(origin, *envelope);
            return place.inspect(|&place| _ = self.unexpected.store(place, data)).is_some();
        }
        let peer = self.peers.get_mut(origin.task() as usize);
        peer.is_some_and(|peer| peer.credit.keep(1)) && self.unexpected.push_piece(origin, envelope, data)
    }

    /// The place of a message of a peer with its data; `None` if the peer has used up what it was granted.
    fn keep(&mut self, origin: Endpoint, envelope: Envelope) -> Option<u32> {
        let units = units_of(envelope.len.get() as usize);
        let peer = self.peers.get_mut(origin.task() as usize)?;
        if !peer.credit.keep(units) {
            return None;
        }
        // As many as were granted have room.
        self.unexpected.push(origin, envelope)
    }

    /// A message of a peer with its data lies here no more.
    fn taken(&mut self, peer: Endpoint, len: usize) {
        let task = peer.task();
        let Some(peer) = self.peers.get_mut(task as usize) else { return };
        self.pool.taken(&mut peer.credit, units_of(len));
        if peer.credit.is_due() {
            self.queue(task);
        }
    }

    /// A peer was short of credit. If there is none for it, who has more than it gives back what it does not use.
    fn credit_short(&mut self, origin: Endpoint) {
        let task = origin.task();
        let Some(peer) = self.peers.get_mut(task as usize) else { return };
        if self.pool.grant(&mut peer.credit) {
            self.holders.note(task, &mut self.peers, &self.pool);
            return self.say(task, ANSWER);
        }
        let least = self.pool.excess(&peer.credit);
        let most = self.holders.most(&mut self.peers, &self.pool);
        if let Some((_, task)) = most.filter(|&(excess, _)| excess > least) {
            self.peers[task as usize].credit.recall();
            self.say(task, RECALL);
        }
    }

    /// A peer is to hear something, as soon as there is room.
    fn say(&mut self, task: u32, kind: u8) {
        if let Some(peer) = self.peers.get_mut(task as usize) {
            peer.unsaid |= 1 << kind;
        }
        self.queue(task);
    }

    /// Has something wait to go to a peer.
    fn queue(&mut self, task: u32) {
        let peer = self.peers.get_mut(task as usize);
        if peer.is_some_and(|peer| !core::mem::replace(&mut peer.queued, true)) {
            self.queue.push(&mut self.peers, task);
        }
    }

    /// A message of a peer has come: the number of an RTS, and whether it finds no place as one before it found none.
    fn came(&mut self, peer: Endpoint, rts: bool) -> (u32, bool) {
        let Some(peer) = self.peer(peer).filter(|_| rts) else { return (0, false) };
        let number = peer.seen;
        peer.seen = number.wrapping_add(1);
        (number, peer.refused.count > 0)
    }

    #[inline]
    fn peer(&mut self, peer: Endpoint) -> Option<&mut Peer> {
        self.peers.get_mut(peer.task() as usize)
    }

    /// Something waits to go to a peer.
    fn wait_for_room(
        &mut self,
        requests: &mut Requests,
        peer: Endpoint,
        list: impl FnOnce(&mut Peer) -> &mut List,
        slot: u16,
    ) {
        if let Some(peer) = self.peer(peer) {
            list(peer).push(requests, slot.into());
        }
        self.queue(peer.task());
    }

    /// Whether something waits to go to anybody.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        !self.queue.is_empty()
    }
}

impl Peer {
    fn new(credit: Credit) -> Self {
        Self {
            credit,
            unsaid: 0,
            pending: List::EMPTY,
            replies_due: List::EMPTY,
            data_due: List::EMPTY,
            rts_sent: 0,
            seen: 0,
            refused: Refused { first: 0, count: 0 },
            queued: false,
            holds: false,
            link: Link::NONE,
        }
    }
}

/// A context at work: its own user, and what belongs to it.
pub(crate) struct At<'a, P: Port> {
    pub(crate) active: &'a mut Active<P>,
    pub(crate) requests: &'a mut Requests,
    pub(crate) messages: &'a mut Messages,
    pub(crate) protocols: &'a Protocols,
    pub(crate) lags: &'a Lags,
    pub(crate) callbacks: &'a Callbacks<P>,
}

impl<P: Port> At<'_, P> {
    fn sending(&mut self, slot: u16) -> Option<&mut Sending> {
        match self.requests.get_mut(slot)?.active()? {
            PointToPoint::Send(sending) => Some(sending),
            PointToPoint::Receive(_) => None,
        }
    }

    fn receiving(&mut self, slot: u16) -> Option<&mut Receiving> {
        match self.requests.get_mut(slot)?.active()? {
            PointToPoint::Receive(receiving) => Some(receiving),
            PointToPoint::Send(_) => None,
        }
    }
}
