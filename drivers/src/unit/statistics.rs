//! What the message unit counted.

use crate::adapter::Reliability;
use core::sync::atomic::{AtomicU64, Ordering};

/// Packets that were thrown away, by reason. All but the first come from outside the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dropped {
    /// No receive buffer or FIFO entry was left; cannot happen while both are as many.
    pub overflow: u64,
    /// The bytes are no packet.
    pub malformed: u64,
    /// A kind that only the network answers to.
    pub unexpected: u64,
    /// For a task that lives elsewhere or not at all.
    pub wrong_node: u64,
    /// From a task that does not exist.
    pub unknown_origin: u64,
    /// For a client or context that no task here can have.
    pub no_fifo: u64,
    /// Answers that fit no request of this node's.
    pub unsolicited: u64,
    /// Requests of a node beyond what it may have under way, or of more nodes than there is memory for.
    pub beyond: u64,
    /// Frames for this node's card that are too short for a packet.
    pub runts: u64,
    /// Such of another protocol.
    pub foreign: u64,
    /// Such for another node's adapter.
    pub stray: u64,
    /// Ring entries of the device that cannot be.
    pub rings: u64,
}

impl Dropped {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self {
            overflow,
            malformed,
            unexpected,
            wrong_node,
            unknown_origin,
            no_fifo,
            unsolicited,
            beyond,
            runts,
            foreign,
            stray,
            rings,
        } = *self;
        overflow
            + malformed
            + unexpected
            + wrong_node
            + unknown_origin
            + no_fifo
            + unsolicited
            + beyond
            + runts
            + foreign
            + stray
            + rings
    }
}

/// What went through the message unit since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Packets given to the adapter.
    pub sent_packets: u64,
    /// Packets put into reception FIFOs.
    pub received_packets: u64,
    /// Bytes of payload given to the adapter.
    pub sent_bytes: u64,
    /// Bytes of payload put into reception FIFOs.
    pub received_bytes: u64,
    /// Packets that took the shared memory of the node.
    pub local_packets: u64,
    /// Packets for nodes that were declared dead.
    pub failed_packets: u64,
    /// Requests of other nodes that the unit carried out: packets of puts, gets, updates.
    pub served: u64,
    /// Those that it refused, and said so.
    pub refused: u64,
    /// Packets of answers that the unit took in itself.
    pub placed: u64,
    /// Packets for clients that had ended: the last answers to what is over, or messages that came too late.
    pub late: u64,
    /// Packets thrown away.
    pub dropped: Dropped,
    /// What the network did that was mended, and what that took.
    pub reliability: Reliability,
}

/// A counter that is written with the token held and read at any time.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The engine's counters.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) sent_packets: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) received_packets: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) failed_packets: Counter,
    pub(crate) overflow: Counter,
    pub(crate) malformed: Counter,
    pub(crate) unexpected: Counter,
    pub(crate) wrong_node: Counter,
    pub(crate) unknown_origin: Counter,
    pub(crate) late: Counter,
    pub(crate) no_fifo: Counter,
    pub(crate) unsolicited: Counter,
    pub(crate) beyond: Counter,
    pub(crate) served: Counter,
    pub(crate) refused: Counter,
    pub(crate) placed: Counter,
}
