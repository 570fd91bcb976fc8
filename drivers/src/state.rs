//! Counters that the host reads out of a node's memory when the node itself cannot tell any more.
//!
//! The symbol `PAMIR_STATE` holds a [`StateBlock`]; the records it points to lie in memory that is mapped one to
//! one. Little-endian, naturally aligned, all sizes in bytes.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Where the records are.
#[repr(C)]
pub struct StateBlock {
    magic: u64,
    ports: AtomicU32,
    stride: AtomicU32,
    fifos: AtomicU64,
}

/// "PAMIRSTB".
pub const MAGIC: u64 = 0x5041_4d49_5253_5442;

/// The node's state block.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub static PAMIR_STATE: StateBlock = StateBlock {
    magic: MAGIC,
    ports: AtomicU32::new(0),
    stride: AtomicU32::new(0),
    fifos: AtomicU64::new(0),
};

/// The counters of one port's FIFOs, modulo 2^32. Each has one writer.
#[repr(C, align(64))]
pub struct FifoRecord {
    client: u8,
    task: u8,
    context: u8,
    open: AtomicU8,
    /// Packets that the context put into the injection FIFO.
    injected: AtomicU32,
    /// Packets of the injection FIFO that the adapter has sent.
    retired: AtomicU32,
    /// Packets that the engine put into the reception FIFO.
    delivered: AtomicU32,
    /// Packets of the reception FIFO whose buffers came back.
    consumed: AtomicU32,
    /// Nodes that the context waits for, each plus 1; 0 behind the last. More than there is room for are not told.
    awaited: [AtomicU32; AWAITED],
    /// The node for which a packet found no place in the injection FIFO, plus 1, and what was injected by then: it is so
    /// still while that is all.
    refused: AtomicU32,
    refused_at: AtomicU32,
}

/// Nodes of a record that a context waits for.
const AWAITED: usize = 8;

impl FifoRecord {
    /// The record of a port that is not open: number of its client, of its task in the node, of its context.
    pub(crate) fn new(client: u8, task: u8, context: u8) -> Self {
        let counter = || AtomicU32::new(0);
        Self {
            client,
            task,
            context,
            open: AtomicU8::new(0),
            injected: counter(),
            retired: counter(),
            delivered: counter(),
            consumed: counter(),
            awaited: [const { AtomicU32::new(0) }; AWAITED],
            refused: counter(),
            refused_at: counter(),
        }
    }

    /// The context waits for `node` as well, or for nobody.
    pub(crate) fn note_awaited(&self, node: Option<u32>) {
        let word = node.map_or(0, |node| node.wrapping_add(1));
        for place in &self.awaited {
            let before = place.load(Ordering::Relaxed);
            if node.is_none() {
                place.store(0, Ordering::Relaxed);
            } else if before == word {
                return;
            } else if before == 0 {
                return place.store(word, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn set_open(&self, open: bool) {
        self.open.store(u8::from(open), Ordering::Relaxed);
    }

    /// The context has put `all` packets into the injection FIFO so far, modulo 2^32.
    #[inline]
    pub(crate) fn note_injected(&self, all: u32) {
        self.injected.store(all, Ordering::Relaxed);
    }

    /// A packet for `node` found no place behind the `all` packets that were put in so far.
    #[cold]
    pub(crate) fn note_refused(&self, node: u32, all: u32) {
        self.refused_at.store(all, Ordering::Relaxed);
        self.refused.store(node.wrapping_add(1), Ordering::Relaxed);
    }

    /// The adapter has sent one more packet of the injection FIFO.
    #[inline]
    pub(crate) fn note_retired(&self) {
        count(&self.retired);
    }

    /// The engine has put one more packet into the reception FIFO.
    #[inline]
    pub(crate) fn note_delivered(&self) {
        count(&self.delivered);
    }

    /// The buffer of one more packet of the reception FIFO came back.
    #[inline]
    pub(crate) fn note_consumed(&self) {
        count(&self.consumed);
    }

    /// The node for which the last packet found no place.
    #[cfg(test)]
    pub(crate) fn refused(&self) -> Option<u32> {
        let still = self.refused_at.load(Ordering::Relaxed) == self.injected.load(Ordering::Relaxed);
        self.refused.load(Ordering::Relaxed).checked_sub(1).filter(|_| still)
    }

    /// Packets injected, retired, delivered and consumed.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> [u32; 4] {
        [&self.injected, &self.retired, &self.delivered, &self.consumed]
            .map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Adds one to a counter that has one writer.
#[inline]
fn count(counter: &AtomicU32) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Makes the records known to the host.
pub(crate) fn publish(records: Box<[FifoRecord]>) -> &'static [FifoRecord] {
    let records: &'static [FifoRecord] = Box::leak(records);
    PAMIR_STATE.ports.store(records.len() as u32, Ordering::Relaxed);
    PAMIR_STATE.stride.store(size_of::<FifoRecord>() as u32, Ordering::Relaxed);
    PAMIR_STATE.fifos.store(records.as_ptr().expose_provenance() as u64, Ordering::Release);
    records
}
