//! What drivers need of the kernel.

use crate::gathering::Gathering;
use crate::link;
use crate::nic::{Hal, LINE, Nic};
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use pami::addends::Addends;
use pami::endpoint::Endpoint;
use pami::trace::Event;

/// What a network did that was said to lose nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breach {
    /// So many frames are missing.
    Lost(u32),
    /// A frame came again, or too late.
    Again,
    /// A frame is damaged, or its sender has another kind of network.
    Damaged,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(1) => f.write_str("a frame is missing"),
            Self::Lost(frames) => write!(f, "{frames} frames are missing"),
            Self::Again => f.write_str("a frame came again or too late"),
            Self::Damaged => f.write_str("a frame is damaged, or was sent to a network that may lose frames"),
        }
    }
}

/// Most harts of a node: a bit of a word for each.
pub const MOST_HARTS: usize = 64;

/// The hart that calls, its clock and its sleep. The kernel implements it.
pub trait Platform: Send + Sync + 'static {
    /// The network cards that there may be: of one type, so that what drives them is compiled for it.
    type Card: Nic;

    /// Whether nodes may reach each other's memory ([`Desk`](crate::near::Desk)).
    const NEAR: bool = false;

    /// The number of this hart, less than [`MOST_HARTS`].
    fn hart() -> usize;

    /// What others [`wake`](Self::wake) this hart by, those of nodes that reach this one's memory too.
    fn name() -> usize {
        Self::hart()
    }

    /// Whether all of these bytes are memory that all nodes reach which reach each other's.
    fn shares(_address: usize, _len: usize) -> bool {
        true
    }

    /// Orders what this hart has written before what it reads from here on, as a [heavy fence](Self::heavy_fence) of another
    /// hart sees it: the cheap one of two that belong together (asymmetric fences, C++ P1202). Where there are no such, a full one.
    #[inline(always)]
    fn light_fence() {
        fence(Ordering::SeqCst);
    }

    /// The dear one, for what happens seldom. To be called behind a full fence.
    #[inline(always)]
    fn heavy_fence() {}

    /// Nanoseconds since the node started; the same on all harts.
    fn now_ns() -> u64;

    /// Ends the present or next [`wait`](Self::wait) of hart `hart`, or of the one with this [name](Self::name).
    fn wake(hart: usize);

    /// Sleeps this hart until it is woken, an adapter interrupts, or [`now_ns`](Self::now_ns) reaches
    /// `deadline_ns`; may return early. Calls `acknowledge` between claiming and completing an adapter's
    /// interrupt. An interrupt that is pending at the call ends the sleep at once.
    fn wait(deadline_ns: Option<u64>, acknowledge: impl FnMut());

    /// Whether it is known that each hart has a core of its own.
    fn owns_core() -> bool {
        false
    }

    /// The share of the last 10 ms that the harts of this hart's task were idle, of 1000 (SPEC L-2): in [`wait`](Self::wait), or
    /// as [`note_idle`](Self::note_idle) said.
    fn idle_share() -> u16 {
        0
    }

    /// This hart was idle in this time, though it did not wait.
    fn note_idle(from_ns: u64, to_ns: u64) {
        let _ = (from_ns, to_ns);
    }

    /// This hart begins, ends or does something, with a context of endpoint `at` (SPEC X-6). Called with the feature `trace` alone.
    fn note(_at: Endpoint, _event: Event) {}

    /// Node `node` has died, as the network says. The message unit's token may be held.
    fn node_died(_node: u32) {}

    /// Something keeps the nodes from coming together on a plain Ethernet. The message unit's token may be held.
    fn gathering(_news: &Gathering) {}

    /// The network was said to lose nothing, and this became of frames of node `node`. The message unit's token is held.
    fn network_failed(_node: u32, _breach: Breach) {}

    /// The state of a CRC-32C behind `bytes`, as [`link::crc32c`] has it, by the fastest way that this core has.
    fn crc32c(state: u32, bytes: &[u8]) -> u32 {
        link::crc32c(state, bytes)
    }

    /// As [`RemoteMemory::add_numbers`](pami::device::RemoteMemory::add_numbers).
    fn add_numbers(words: &[AtomicU64], addends: Addends<'_>) {
        addends.add_to(words);
    }

    /// Orders all earlier accesses, to memory and to device registers, before all later ones.
    fn io_barrier() {
        fence(Ordering::SeqCst);
    }

    /// Bytes of a line of the caches, a power of two. This and what follows is for devices that do not see the caches: where
    /// there are none, that is all (SPEC B-4).
    fn cache_line() -> usize {
        LINE
    }

    /// See [`Hal::uncached`].
    fn uncached_memory(_words: usize) -> Option<&'static [AtomicU32]> {
        None
    }

    /// See [`Hal::clean`].
    fn clean_cache(_bytes: &[u8]) {}

    /// See [`Hal::invalidate`].
    fn invalidate_cache(_bytes: &mut [u8]) {}
}

// SAFETY: all platforms map memory one to one for their devices; that is not theirs to change.
unsafe impl<P: Platform> Hal for P {
    fn barrier() {
        P::io_barrier();
    }

    fn line() -> usize {
        P::cache_line()
    }

    fn uncached(words: usize) -> Option<&'static [AtomicU32]> {
        P::uncached_memory(words)
    }

    fn clean(bytes: &[u8]) {
        P::clean_cache(bytes);
    }

    fn invalidate(bytes: &mut [u8]) {
        P::invalidate_cache(bytes);
    }
}
