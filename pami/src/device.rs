//! What a context needs of the node it runs on. Drivers implement [`Port`]; `pami` knows no other hardware.
//!
//! A port is one context's private share of the message unit and of the shared-memory rings: an injection
//! FIFO, a reception FIFO, the rings from and to its peers in the node, and the post queue. Every method takes
//! `&mut self` or only looks, so a port needs no lock: whoever owns the context owns the port.

use crate::context::Work;
use crate::endpoint::Endpoint;
use crate::packet::Envelope;
use rings::buffer::Source;
use rings::post::{Consumer, PostQueue};

/// How packets reach an endpoint from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Through shared memory, to the reception side with this number in the same node.
    Local(u16),
    /// Over the torus, to the node with this rank (its own rank: looped back by the network).
    Torus(u32),
}

/// The FIFO or ring has no room for the packet now; drive the port and try again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// The endpoint is not one that this job has, or no ring is left for a new pair of contexts in this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreachable;

/// A packet that lies in a reception FIFO or ring, borrowed from it until it is released.
pub trait Arrival {
    /// Who, whom, what.
    fn envelope(&self) -> &Envelope;
    /// The active message's header; empty but in first packets.
    fn header(&self) -> &[u8];
    /// The packet's data: over the torus at most an MTU, through shared memory up to the whole message.
    fn data(&self) -> &[u8];
}

/// Ends the sleep of whichever hart sleeps on a port; costs a fence and a load when none does (SPEC N-8).
pub trait Wake: Copy + Send + Sync + 'static {
    /// To be called after the work that the sleeper is to find was published.
    fn wake(&self);
}

/// One context's share of the node's communication hardware (SPEC P-2, P-3, D-4).
pub trait Port: Sized + Send + 'static {
    /// A packet of this port.
    type Arrival: Arrival;
    /// Wakes the hart that sleeps on this port.
    type Waker: Wake;

    /// The path from here to `target`. `local` false sends by the network's loop-back what could stay inside
    /// the node.
    ///
    /// # Errors
    /// [`Unreachable`], which no retry mends.
    fn locate(&self, target: Endpoint, local: bool) -> Result<Path, Unreachable>;

    /// Most bytes of header and data together in one packet over the torus, and in one
    /// [`push_copy`](Self::push_copy) over any path.
    fn mtu(&self) -> usize;

    /// Queues one packet, copying `header` and `data`; both are the caller's again on return.
    ///
    /// # Errors
    /// [`Full`]; nothing was queued. More than an MTU is never asked for.
    fn push_copy(&mut self, path: Path, envelope: &Envelope, header: &[u8], data: &[u8]) -> Result<(), Full>;

    /// Queues one packet whose data is read later, where it lies; the clone of `data` that the port keeps is
    /// dropped when it was read. `data` is over the torus at most an MTU less `header`, locally of any length.
    ///
    /// # Errors
    /// [`Full`]; nothing was queued.
    fn push_lend(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        data: &Source,
    ) -> Result<(), Full>;

    /// The next packet for this port, in order for each origin. At most one arrival is unreleased at a time.
    fn pull(&mut self) -> Option<Self::Arrival>;

    /// Gives a packet's memory back to the FIFO or ring that it came in.
    fn release(&mut self, arrival: Self::Arrival);

    /// Lets the message unit make progress, if no other hart is at it. Returns whether anything moved.
    fn drive(&mut self) -> bool;

    /// The queue that other threads post this context's work to.
    fn posts(&self) -> &'static PostQueue<Work<Self>>;

    /// Wakes this port's sleeper from another thread.
    fn waker(&self) -> Self::Waker;

    /// The receiving end of [`posts`](Self::posts).
    fn posted(&mut self) -> &mut Consumer<Work<Self>>;

    /// Announces that this hart is about to sleep on this port; anything that arrives from here on ends the
    /// sleep. The caller looks for work once more between this and [`sleep`](Self::sleep) (SPEC N-8).
    fn arm(&mut self);

    /// Sleeps until something arrives on an armed port of this hart, or `deadline_ns` on [`now_ns`](Self::now_ns)'s
    /// clock. May return early.
    fn sleep(&mut self, deadline_ns: Option<u64>);

    /// Takes back [`arm`](Self::arm).
    fn disarm(&mut self);

    /// Nanoseconds since the node started.
    fn now_ns(&self) -> u64;
}
