//! What a context needs of the node it runs on. Drivers implement [`Port`], which is five seams that can be ported and tested one
//! by one, [`Sending`], [`Receiving`], [`RemoteMemory`], [`Liveness`], [`Sleeping`], and their progress; `pami` knows no other
//! hardware.
//!
//! A port is one context's private share of the message unit and of the shared-memory rings: an injection
//! FIFO, a reception FIFO, the rings from and to its peers in the node, and the post queue. Every method takes
//! `&mut self` or only looks, so a port needs no lock: whoever owns the context owns the port.

mod collective_network;

use crate::addends::Addends;
use crate::endpoint::Endpoint;
use crate::packet::Envelope;
use crate::region::{Memory, RegionFault, RegionHandle, RegionId, Rights, RmwOp};
use crate::trace::Event;
use core::sync::atomic::AtomicU64;
use rings::buffer::Source;
use rings::bulletin::Bulletin;
use rings::shared::{Extent, Shared};
use zerocopy::IntoBytes;

pub use collective_network::CollectiveNetwork;

/// How packets reach an endpoint from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Through shared memory, to the reception side with this number in the same node.
    Local(u16),
    /// Over the torus, to the node with this rank (its own rank: looped back by the network).
    Torus(u32),
}

/// The FIFO or ring has no room for the packet now; let the port make progress and try again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Why no packet can go to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// The job does not have it, or no ring is left for a new pair of contexts in this node.
    NoSuchEndpoint,
    /// Its node, of this rank, is gone (SPEC R-2).
    Gone(u32, Gone),
}

/// How a node went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// It was killed, its link closed, or its kernel gave no sign of life for too long.
    Died,
    /// Its job returned: nobody is to blame, but whoever waits for it.
    Ended,
}

/// Numbers that a port's requests may carry at once: those that are under way differ in their message modulo this.
pub const REQUESTS: usize = 128;
/// Those of them that operations have: so many of one context can be under way at once, sends, puts, gets, updates, fences and
/// messages to be processed. The others are for what a context asks for as a target.
pub const OPERATIONS: usize = 64;

/// The end of a request: a put, a get into memory or an update that was pushed with its message's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// The number.
    pub message: u32,
    /// The old value of an update's word, else 0; or why the target's message unit refused.
    pub result: Result<u64, RegionFault>,
}

/// Why memory is no region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRegion {
    /// The node's table of regions is full.
    NoneLeft {
        /// Regions that the node can have.
        limit: usize,
    },
    /// It is not where peers can reach it.
    OutOfReach,
}

/// A packet that lies in a reception FIFO or ring, borrowed from it until it is released.
pub trait Arrival {
    /// Who, whom, what.
    fn envelope(&self) -> Envelope;

    /// The active message's header, empty but in first packets, and the packet's data: over the torus at most an MTU,
    /// through shared memory up to the whole message.
    fn parts(&self) -> (&[u8], &[u8]);

    /// If the packet is all of a message that wants no answer: the id of its handler, which is [one](crate::packet::DISPATCH_IDS),
    /// and who sent it. A device that has that at hand saves the context the rest of the envelope.
    #[inline]
    fn whole(&self) -> Option<(u8, Endpoint)> {
        None
    }

    /// The first of the [`parts`](Self::parts).
    #[inline]
    fn header(&self) -> &[u8] {
        self.parts().0
    }

    /// The second of the [`parts`](Self::parts).
    #[inline]
    fn data(&self) -> &[u8] {
        self.parts().1
    }
}

/// Ends the sleep of whichever hart sleeps on a port (SPEC N-8).
pub trait Wake: Copy + Send + Sync + 'static {
    /// To be called after the work that the sleeper is to find was published.
    fn wake(&self);

    /// Whether nobody has woken the sleeper, or would have if it slept, since it last looked. One that cannot tell says no.
    #[inline]
    fn is_quiet(&self) -> bool {
        false
    }
}

/// The way out: paths to endpoints, and an injection FIFO.
pub trait Sending: Sized + Send + 'static {
    /// What makes it quick to send to an endpoint again.
    type Route: Copy + Send;

    /// Whether the context at the end of `path` reads `data` where it lies, of any length. Else it goes in packets.
    #[inline(always)]
    fn lends(&self, path: Path, _data: &Source) -> bool {
        matches!(path, Path::Local(_))
    }

    /// Nodes are gone: what they will not give back any more of what was lent to them comes back.
    fn take_back_from_gone(&mut self) {}

    /// The path from here to `target`. `local` false sends by the network's loop-back what could stay inside
    /// the node.
    ///
    /// # Errors
    /// [`Unreachable`], which no retry mends.
    fn locate(&self, target: Endpoint, local: bool) -> Result<Path, Unreachable>;

    /// A quicker way to `target`, which [`locate`](Self::locate) said `path` leads to.
    fn route(&self, target: Endpoint, path: Path) -> Option<Self::Route>;

    /// Queues a message of one packet that wants no answer, copying `header` and `data`.
    ///
    /// # Errors
    /// [`Full`]; nothing was queued. It may also be that the message is too long for this way, or that a node died since the
    /// route was made: [`push_bcopy`](Self::push_bcopy) tells.
    fn push_short(
        &mut self,
        route: &Self::Route,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), Full>;

    /// Most bytes of header and data together in one packet over the torus, and in one
    /// [`push_bcopy`](Self::push_bcopy) over any path.
    fn mtu(&self) -> usize;

    /// Queues one packet, copying `header` and `data`; both are the caller's again on return.
    ///
    /// # Errors
    /// [`Full`]; nothing was queued. More than an MTU is never asked for.
    fn push_bcopy(&mut self, path: Path, envelope: &Envelope, header: &[u8], data: &[u8])
    -> Result<(), Full>;

    /// Queues one packet whose data is read later, where it lies; the clone of `data` that the port keeps is
    /// dropped when it was read. `data` is over the torus at most an MTU less `header`, locally of any length.
    ///
    /// # Errors
    /// [`Full`]; nothing was queued.
    fn push_zcopy(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        data: &Source,
    ) -> Result<(), Full>;

    /// As [`push_bcopy`](Self::push_bcopy), with `len` bytes of data that `fill` writes, into memory of the port's. `fill`
    /// is not called if there is no room.
    ///
    /// # Errors
    /// [`Full`]; nothing was queued.
    fn push_packed(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full>;

    /// Queues a request for `envelope.total` bytes from `envelope.offset` of region `remote` of node `node`. They are
    /// placed at `into.1` of that memory. Requests of one number may follow each other, the last with `last`: they
    /// complete together. A request for nothing, which may have no memory, completes when all that `node` was asked
    /// for before by this port, and has sent, is placed (SPEC F-2).
    ///
    /// # Errors
    /// [`Full`]; nothing was queued.
    fn push_get(
        &mut self,
        node: u32,
        envelope: &Envelope,
        remote: RegionId,
        into: Option<(&Shared, u32)>,
        last: bool,
    ) -> Result<(), Full>;

    /// The next request that has ended: those whose kind [`is_request`](crate::packet::Kind::is_request). Not told of
    /// requests to a node that died.
    fn completed(&mut self) -> Option<Completed>;
}

/// Memory that peers reach, and what tasks of the node reach of each other's, each at once.
pub trait RemoteMemory: Sized + Send + 'static {
    /// What makes it quick to reach words of a region again.
    type WordAccess: Copy + Send;

    /// Lets peers reach `memory`, as the region of this port's client and task.
    ///
    /// # Errors
    /// [`NoRegion`]
    fn register(&mut self, memory: Memory, rights: Rights) -> Result<RegionId, NoRegion>;

    /// Ends that. When this returns no access is under way and none comes, but that packets which were queued of lent
    /// memory may still be read.
    fn deregister(&mut self, region: RegionId);

    /// Puts `data` at `offset` of a region of `target`, a task of this node, at once.
    ///
    /// # Errors
    /// [`RegionFault`]; nothing was written.
    fn put_local(
        &mut self,
        target: Endpoint,
        region: RegionId,
        offset: u32,
        data: &[u8],
    ) -> Result<(), RegionFault>;

    /// What makes it quick to put and add to words of a region of `target`, a task of this node, that allows what is `wanted`, as
    /// long as the region is there: words in as many bytes as the handle tells, of which the region has no fewer.
    fn reach_words(
        &mut self,
        target: Endpoint,
        region: &RegionHandle,
        wanted: Rights,
    ) -> Option<Self::WordAccess>;

    /// Puts a word at `offset`, as [`put_local`](Self::put_local); `false` if nothing was written, for whatever reason. The
    /// access is for [`Rights::WRITE`].
    fn put_word(&mut self, words: &Self::WordAccess, offset: u32, word: u64) -> bool;

    /// Adds to a word of eight bytes, as [`rmw_local`](Self::rmw_local); `None` if nothing was changed, for whatever reason. The
    /// access is for [`Rights::UPDATE`].
    fn add_to_word(&mut self, words: &Self::WordAccess, offset: u32, operand: u64) -> Option<u64>;

    /// The quickest way to queue a request of few words to node `node` for what `region` names: as
    /// [`push_bcopy`](Sending::push_bcopy) with that as the header and `words` as the data.
    ///
    /// # Errors
    /// [`Full`]; nothing was queued. It may be that [`push_bcopy`](Sending::push_bcopy) has room.
    #[inline]
    fn push_words<const N: usize>(
        &mut self,
        node: u32,
        envelope: &Envelope,
        region: RegionId,
        words: [u64; N],
    ) -> Result<(), Full>
    where
        Self: Sending,
    {
        self.push_bcopy(Path::Torus(node), envelope, region.as_bytes(), words.as_bytes())
    }

    /// Gets `len` bytes from `offset` of a region of `target`, a task of this node, to `into.1` of that memory, at once.
    ///
    /// # Errors
    /// [`RegionFault`]; nothing was written.
    fn get_local(
        &mut self,
        target: Endpoint,
        region: RegionId,
        offset: u32,
        into: (&Shared, u32),
        len: u32,
    ) -> Result<(), RegionFault>;

    /// Updates a word of a region of `target`, a task of this node, at once, and says what it was.
    ///
    /// # Errors
    /// [`RegionFault`]; nothing was changed.
    fn rmw_local(
        &mut self,
        target: Endpoint,
        region: RegionId,
        offset: u32,
        op: RmwOp,
    ) -> Result<u64, RegionFault>;

    /// What the context `of` shows to those that reach its memory, if this one does and all others of the job do; of its own, what
    /// it shows itself. `None` where nothing is shown so.
    fn bulletin(&self, _of: Endpoint) -> Option<&'static Bulletin> {
        None
    }

    /// Ends the sleep of the context whose bulletin this is, if it sleeps: something was shown that it may wait for. One that is awake
    /// looks itself.
    fn tell_reader(&self, _bulletin: &'static Bulletin) {}

    /// Where those that reach this one's memory find `memory`, if they do.
    fn exposed(&self, _memory: &Shared) -> Option<Extent> {
        None
    }

    /// Reads `len` bytes from `offset` of what another context has [exposed](Self::exposed) to `into.1` of that memory: one whose
    /// bulletin this one reads, and which does not take its memory back before this one has said that it reads there no more. Returns
    /// whether both have so much; if not, nothing was read.
    fn read_exposed(&self, _from: Extent, _offset: usize, _into: (&Shared, usize), _len: usize) -> bool {
        false
    }

    /// Adds numbers to words, as [`Addends::add_to`], by the fewest instructions that this core has for it.
    fn add_numbers(words: &[AtomicU64], addends: Addends<'_>) {
        addends.add_to(words);
    }

    /// Does `what` with the memory of a region of `owner`, a task of this node, which stays registered meanwhile. `what` uses
    /// no port.
    ///
    /// # Errors
    /// [`RegionFault`], if the region does not allow what is `wanted`; `what` was not called.
    fn reach<R>(
        &mut self,
        owner: Endpoint,
        region: RegionId,
        wanted: Rights,
        what: impl FnOnce(&Memory) -> R,
    ) -> Result<R, RegionFault>;
}

/// Where tasks live, and which nodes are gone (SPEC R-2).
pub trait Liveness: Sized + Send + 'static {
    /// The node that `task` lives on.
    fn node_of(&self, task: u32) -> Option<u32>;

    /// Nodes that are gone so far: when it grows, operations to them will not end by themselves. That a node is gone the
    /// network tells; it ends all sleeps.
    fn deaths(&self) -> u32;

    /// The first node that died.
    fn first_dead(&self) -> Option<u32>;

    /// How node `node` went, if it is gone.
    fn gone(&self, node: u32) -> Option<Gone>;

    /// Whether node `node` has died.
    fn is_dead(&self, node: u32) -> bool {
        self.gone(node) == Some(Gone::Died)
    }

    /// Notes for whoever looks at the node from outside that the context waits for node `node`; with `None`, that it waits for
    /// nobody any more.
    fn note_awaited(&mut self, _node: Option<u32>) {}
}

/// The way in: a reception FIFO, and the rings of the node's peers.
pub trait Receiving: Sized + Send + 'static {
    /// A packet of this port.
    type Arrival: Arrival + Send;

    /// Whether nothing is new: nothing that a pull would find, nothing for the message unit to do. It may overlook
    /// what it will not overlook for long. A port that cannot tell is never quiet.
    #[inline]
    fn is_quiet(&mut self) -> bool {
        false
    }

    /// The same, and no where that takes a longer look.
    #[inline]
    fn seems_quiet(&mut self) -> bool {
        self.is_quiet()
    }

    /// There may be something to pull although nobody said so: the next pulls look everywhere, and until one found nothing
    /// the port is not quiet.
    fn look(&mut self) {}

    /// The next packet for this port, in order for each origin. At most one arrival is unreleased at a time.
    fn pull(&mut self) -> Option<Self::Arrival>;

    /// The next packet of one peer that can be had at little cost, if there is one; [`pull`](Self::pull) finds all others.
    #[inline]
    fn pull_ready(&mut self) -> Option<Self::Arrival> {
        None
    }

    /// The next packet in the reception FIFO, if there is one; [`pull`](Self::pull) finds all others.
    #[inline]
    fn pull_queued(&mut self) -> Option<Self::Arrival> {
        None
    }

    /// Whether nothing more has come, as far as a short look tells that follows a [`pull_ready`](Self::pull_ready): if it
    /// does a [`pull`](Self::pull) would find nothing.
    #[inline]
    fn is_drained(&mut self) -> bool {
        false
    }

    /// Gives a packet's memory back to the FIFO or ring that it came in.
    fn release(&mut self, arrival: Self::Arrival);

    /// The same, of one that [`pull_ready`](Self::pull_ready) found.
    #[inline]
    fn release_ready(&mut self, arrival: Self::Arrival) {
        self.release(arrival);
    }
}

/// The time, and the sleep of a hart that has nothing to do (SPEC N-8).
pub trait Sleeping: Sized + Send + 'static {
    /// Wakes the hart that sleeps on this port.
    type Waker: Wake;

    /// Nanoseconds since the node started.
    fn now_ns(&self) -> u64;

    /// Wakes this port's sleeper from another thread.
    fn waker(&self) -> Self::Waker;

    /// Whether it is known that nobody else wants the core of this hart: polling for long then takes nothing from anybody.
    fn owns_core(&self) -> bool {
        false
    }

    /// Announces that this hart is about to sleep on this port; anything that arrives from here on ends the
    /// sleep. The caller looks for work once more between this and [`sleep`](Self::sleep) (SPEC N-8).
    fn arm(&mut self);

    /// Sleeps until something arrives on an armed port of this hart, or `deadline_ns` on [`now_ns`](Self::now_ns)'s
    /// clock. May return early.
    fn sleep(&mut self, deadline_ns: Option<u64>);

    /// Takes back [`arm`](Self::arm).
    fn disarm(&mut self);

    /// The share of the last [`WINDOW_NS`](crate::balance::WINDOW_NS) that this task's harts of the node were idle, of 1000
    /// (SPEC L-2): asleep, or as [`note_idle`](Self::note_idle) said. A port that cannot tell is never idle.
    fn idle_share(&self) -> u16 {
        0
    }

    /// This hart was idle from `from_ns` to `to_ns` without having slept. Spans come in order, and do not meet each other or a
    /// [`sleep`](Self::sleep).
    fn note_idle(&mut self, from_ns: u64, to_ns: u64) {
        let _ = (from_ns, to_ns);
    }
}

/// One context's share of the node's communication hardware (SPEC P-2, P-3, D-4).
pub trait Port: Sending + RemoteMemory + Liveness + Receiving + Sleeping {
    /// The node's way to the collective network.
    type Network: CollectiveNetwork;

    /// Lets the message unit make progress, if it may have something to do and no other hart is at it. Returns whether
    /// anything moved.
    fn progress(&mut self) -> bool;

    /// The collective network, if the node is on it: then all nodes of the job are. What arrives there ends a sleep on
    /// this port.
    fn network(&self) -> Option<Self::Network>;

    /// The context's hart begins, ends or does something (SPEC X-6). Called with the feature `trace` alone.
    fn note(&self, _event: Event) {}
}
