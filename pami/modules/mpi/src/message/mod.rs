//! Point to point: messages between two processes of a communicator (the standard's chapter of that name).
//!
//! Each context matches for itself: a message finds the first posted receive that wants it, a receive the first
//! message that waits, both in order. They travel so:
//!
//! | how | when | what goes |
//! |---|---|---|
//! | short | header and data fit a packet | one packet, copied |
//! | eager | up to the eager limit, however the data lies | the data, kept in chunks if no receive is there |
//! | RTS, pulled | over the limit; the sender's share of the receiver's chunks is used up; synchronous ones of those | the envelope; the data once a receive has matched, by a get of the receiver's |
//! | RTS, CTS | those of them that cannot be pulled | the envelope; the data once a receive has matched, as an eager message |
//!
//! Envelopes go in order, so messages do not overtake. A sender never has more short and eager messages unmatched at
//! a receiver than its share of the receiver's memory: beyond that it sends RTS. Of RTS the receiver has a number of places
//! for all senders together; one that finds none is refused, and its send ends with an error that says so. What of that waits
//! for room is one run of RTS for each sender. So nothing is lost
//! without a word, and nothing that waits for a place keeps others from coming (SPEC R-1).
//!
//! What finds no room to go out waits with others to the same process only.

mod arrive;
mod bulk;
mod cts;
mod depart;
mod matching;
mod receive;
mod started;
mod unexpected;
mod watch;

use crate::callbacks::Callbacks;
use crate::envelope::{Credit, RTS};
use crate::error::Result;
use crate::lags::Lags;
use crate::protocols::Protocols;
use crate::request::{Operation, Receiving, Requests, Sending};
use crate::settings::Settings;
use base::fill;
use bulk::Bulk;
pub(crate) use depart::Short;
pub(crate) use matching::Wanted;
use pami::client::Node;
use pami::device::Port;
use pami::{Active, Endpoint};
use rings::list::{Link, List};
use unexpected::{Unexpected, chunks_of};

/// What a context knows of another task's context that is its counterpart.
#[derive(Clone, Copy, Default)]
struct Peer {
    /// What it holds of messages from here, at most.
    out: Held,
    /// What is free again here of what its messages took.
    owed: Held,
    /// Sends there that wait for their turn, in order.
    line: List,
    /// Receives that have to tell it something.
    owing: List,
    /// Sends there that wait for room for their data.
    cts: List,
    /// RTS that went there, and that came from there: both sides number them by their order.
    rts_sent: u32,
    seen: u32,
    /// Its RTS that found no place and of which it has not heard.
    refused: Option<Refused>,
    /// Whether it is in the queue of peers that something waits for.
    queued: bool,
}

/// RTS in sequence. Those among them that a receive has matched have their CTS before their sender hears of the others; none
/// has a place.
#[derive(Clone, Copy, Debug)]
struct Refused {
    first: u32,
    last: u32,
}

/// Places for messages, and chunks of data.
#[derive(Clone, Copy, Default)]
struct Held {
    messages: u16,
    chunks: u16,
}

impl Held {
    #[inline]
    fn add(&mut self, messages: u16, chunks: u16) {
        self.messages = self.messages.saturating_add(messages);
        self.chunks = self.chunks.saturating_add(chunks);
    }

    /// As peers are told.
    #[inline]
    fn as_credit(&self) -> Credit {
        Credit { messages: self.messages.into(), chunks: self.chunks.into() }
    }
}

/// Point to point in one context.
#[derive(Default)]
pub(crate) struct Messages {
    posted: List,
    unexpected: Unexpected,
    bulk: Bulk,
    /// By task.
    peers: &'static mut [Peer],
    links: &'static mut [Link],
    /// Peers that something has to go to, each for itself: one that has no room does not hold up the others.
    queue: List,
    /// A share of a receiver's memory.
    share: Held,
    /// Counts looks after nodes.
    looks: u32,
}

impl Messages {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        let tasks = node.tasks() as usize;
        let chunks = chunks_of(settings.unexpected_bytes).min(u16::MAX.into());
        let share = Held { messages: settings.unexpected_messages, chunks: chunks as u16 };
        let with_data = tasks * usize::from(share.messages);
        Ok(Self {
            unexpected: Unexpected::new(node, (with_data, settings.rts_places), tasks * chunks)?,
            bulk: Bulk::new(node, settings.regions)?,
            peers: fill(node, "peers", tasks, Peer::default)?,
            links: fill(node, "peers", tasks, Link::default)?,
            share,
            ..Self::default()
        })
    }

    /// Whether a message waits that is wanted.
    pub(crate) fn has_waiting(&self, wanted: &Wanted) -> bool {
        self.unexpected.find(|waiting| wanted.is(&waiting.envelope)).is_some()
    }

    /// Drops the messages of a communicator that nobody has received.
    pub(crate) fn forget(&mut self, communicator: u32) {
        let of = |waiting: &unexpected::Waiting| {
            waiting.envelope.communicator.get() == communicator && waiting.is_here()
        };
        while let Some(place) = self.unexpected.find(of) {
            let waiting = self.unexpected.get(place).map(|waiting| (waiting.origin, waiting.envelope));
            self.unexpected.unlink(place);
            self.unexpected.free(place);
            if let Some((origin, envelope)) = waiting.filter(|(_, envelope)| !envelope.has(RTS)) {
                self.owe_credit(origin, envelope.len.get() as usize);
            }
        }
    }

    /// The credit that a peer is to be told of with the next message. It is not owed any more.
    fn take_credit(&mut self, peer: Endpoint) -> Credit {
        let owed = self.peers.get_mut(peer.task() as usize).map(|peer| core::mem::take(&mut peer.owed));
        owed.unwrap_or_default().as_credit()
    }

    /// It could not be told.
    fn return_credit(&mut self, peer: Endpoint, credit: Credit) {
        if let Some(peer) = self.peers.get_mut(peer.task() as usize) {
            peer.owed.add(credit.messages.get(), credit.chunks.get());
        }
    }

    /// A peer has room again.
    #[inline]
    fn credited(&mut self, peer: Endpoint, credit: Credit) {
        if credit != Credit::default()
            && let Some(peer) = self.peers.get_mut(peer.task() as usize)
        {
            peer.out.messages = peer.out.messages.saturating_sub(credit.messages.get());
            peer.out.chunks = peer.out.chunks.saturating_sub(credit.chunks.get());
        }
    }

    /// Whether sends to a peer wait for their turn.
    fn has_line(&self, peer: Endpoint) -> bool {
        self.peers.get(peer.task() as usize).is_some_and(|peer| !peer.line.is_empty())
    }

    /// Whether a message of `len` bytes still is of this task's share of the peer's memory.
    fn has_share(&self, peer: Endpoint, len: usize) -> bool {
        self.peers.get(peer.task() as usize).is_some_and(|peer| peer.has_share(self.share, len))
    }

    fn use_share(&mut self, peer: Endpoint, len: usize) {
        if let Some(peer) = self.peers.get_mut(peer.task() as usize) {
            peer.out.add(1, chunks_of(len) as u16);
        }
    }

    /// A message of a peer with its data needs no room any more.
    #[inline]
    fn owe_credit(&mut self, peer: Endpoint, len: usize) {
        let share = self.share;
        let task = peer.task();
        let Some(peer) = self.peers.get_mut(task as usize) else { return };
        peer.owed.add(1, chunks_of(len) as u16);
        if peer.is_due(share) {
            self.queue(task);
        }
    }

    /// Has something wait to go to a peer.
    fn queue(&mut self, task: u32) {
        let peer = self.peers.get_mut(task as usize);
        if peer.is_some_and(|peer| !core::mem::replace(&mut peer.queued, true)) {
            self.queue.push(self.links, task);
        }
    }

    /// A message of a peer has come: the number of an RTS, and whether it finds no place as one before it found none.
    fn came(&mut self, peer: Endpoint, rts: bool) -> (u32, bool) {
        let Some(peer) = self.peer(peer).filter(|_| rts) else { return (0, false) };
        let number = peer.seen;
        peer.seen = number.wrapping_add(1);
        (number, peer.refused.is_some())
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
    fn waits(&self) -> bool {
        !self.queue.is_empty()
    }
}

impl Peer {
    /// Whether a message of `len` bytes still is of this task's share of its memory.
    #[inline]
    fn has_share(&self, share: Held, len: usize) -> bool {
        let chunks = usize::from(self.out.chunks) + chunks_of(len);
        self.out.messages < share.messages && chunks <= share.chunks.into()
    }

    /// Whether it should be told what it may use again: half of its share.
    fn is_due(&self, share: Held) -> bool {
        let Held { messages, chunks } = self.owed;
        messages > 0 && (2 * messages >= share.messages || 2 * u32::from(chunks) >= u32::from(share.chunks))
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
            Operation::Send(sending) => Some(sending),
            Operation::Receive(_) => None,
        }
    }

    fn receiving(&mut self, slot: u16) -> Option<&mut Receiving> {
        match self.requests.get_mut(slot)?.active()? {
            Operation::Receive(receiving) => Some(receiving),
            Operation::Send(_) => None,
        }
    }
}
