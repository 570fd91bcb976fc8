//! Packets of an injection FIFO whose node takes none now, out of the way of those behind them (SPEC R-1).
//!
//! A node that is stopped, or that does not answer, has room for a window of packets and of requests and for no more.
//! What an injection FIFO holds beyond that stays where it is while it is all for that node: of a FIFO's last entries a
//! node gets one, so others still get in. Once something for others is behind it, it is parked, in order, in a list for
//! each such node, and the FIFO goes on. The port pushes nothing more for a node that has a list: its operations to
//! that node wait, those to others go on. What it pushed before it could know is bounded: the more is parked, the fewer
//! packets it may be ahead of the engine ([`ahead`]), and at last one, so that each further node adds one packet to what
//! is parked, and [`LISTS`] nodes can be without room at once; what is for one more stays in the FIFO.
//!
//! No circle of waits can form: a list waits for its own node, a port for the engine to take what is in the FIFO, and
//! the engine waits for no list. A node that is gone takes everything, to refuse it.

use super::descriptor::Descriptor;
use super::fifo::INJECTION_ENTRIES;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};
use heapless::Vec;
use rings::spsc::Consumer;

/// Packets of one FIFO that can be parked.
pub(crate) const PLACES: usize = 2 * INJECTION_ENTRIES;
/// Nodes for which packets of one FIFO can be parked.
pub(crate) const LISTS: usize = INJECTION_ENTRIES;
/// What the parked packets of one FIFO take, and what the port sees of them.
pub(crate) const HEAP_BYTES: usize = PLACES * size_of::<Option<Descriptor>>() + size_of::<Closed>();
/// In [`Closed::gate`], beside the number of nodes that are gone.
const SOME: u32 = 1 << 31;

/// Packets that a port may be ahead of the engine while so many are parked.
fn ahead(parked: u32) -> usize {
    ((PLACES - INJECTION_ENTRIES).saturating_sub(parked as usize) / 2).max(1)
}

/// What a port sees of what is parked. The engine alone changes it.
pub(crate) struct Closed {
    /// How many nodes are gone; with [`SOME`] while packets are parked. What was made for another number is out of
    /// date.
    gate: AtomicU32,
    parked: AtomicU32,
    lists: AtomicU32,
    /// The nodes that have lists: so many as there are lists.
    nodes: [AtomicU32; LISTS],
}

impl Closed {
    /// Whether nothing is parked and no more than `gone` nodes are gone.
    #[inline(always)]
    pub(crate) fn is_open(&self, gone: u32) -> bool {
        self.gate.load(Ordering::Relaxed) == gone
    }

    /// Whether something is parked.
    #[inline(always)]
    pub(crate) fn has_some(&self) -> bool {
        self.gate.load(Ordering::Relaxed) >= SOME
    }

    /// Whether a packet for `node` may be pushed into a FIFO that holds `queued`, as something is parked.
    #[cold]
    #[inline(never)]
    pub(crate) fn allows(&self, node: u32, queued: usize) -> bool {
        let lists = self.lists.load(Ordering::Relaxed) as usize;
        queued < ahead(self.parked.load(Ordering::Relaxed))
            && !self.nodes.iter().take(lists).any(|closed| closed.load(Ordering::Relaxed) == node)
    }
}

/// The packets for one node, chained.
struct List {
    node: u32,
    first: u8,
    last: u8,
}

/// The parked packets of one injection FIFO.
pub(crate) struct Parked {
    places: Box<[Option<Descriptor>]>,
    /// By place: the one that follows in its list, or among those that are free.
    next: [u8; PLACES],
    free: u8,
    lists: Vec<List, LISTS>,
    closed: &'static Closed,
}

impl Parked {
    /// Nothing, and what the port sees of it. Allocates.
    pub(crate) fn new() -> (Self, &'static Closed) {
        let closed = Box::leak(Box::new(Closed {
            gate: AtomicU32::new(0),
            parked: AtomicU32::new(0),
            lists: AtomicU32::new(0),
            nodes: [const { AtomicU32::new(0) }; LISTS],
        }));
        let places = (0..PLACES).map(|_| None).collect();
        let next = core::array::from_fn(|place| place as u8 + 1);
        (Self { places, next, free: 0, lists: Vec::new(), closed }, closed)
    }

    /// So many nodes are gone.
    #[cold]
    pub(crate) fn note_gone(&self, gone: u32) {
        let some = self.closed.gate.load(Ordering::Relaxed) & SOME;
        self.closed.gate.store(gone | some, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Whether packets for `node` are parked.
    #[inline]
    pub(crate) fn has(&self, node: u32) -> bool {
        self.lists.iter().any(|list| list.node == node)
    }

    /// Whether one more packet for `node` can be parked.
    pub(crate) fn has_room(&self, node: u32) -> bool {
        usize::from(self.free) < PLACES && (!self.lists.is_full() || self.has(node))
    }

    /// Parks the next packet of the FIFO, which is for `node`; there is room. The port sees the list before it sees the
    /// FIFO shorter.
    pub(crate) fn park(&mut self, node: u32, fifo: &mut Consumer<Descriptor>) {
        let number = self.free;
        let Some(place) = self.places.get_mut(usize::from(number)) else { return };
        self.free = self.next[usize::from(number)];
        match self.lists.iter_mut().find(|list| list.node == node) {
            Some(list) => {
                self.next[usize::from(list.last)] = number;
                list.last = number;
            }
            None => {
                let _ = self.lists.push(List { node, first: number, last: number });
            }
        }
        publish(self.closed, &self.lists, 1);
        *place = fifo.pop();
    }

    /// The first packet of list `at`.
    pub(crate) fn first(&self, at: usize) -> Option<&Descriptor> {
        self.places.get(usize::from(self.lists.get(at)?.first))?.as_ref()
    }

    /// Takes the first packet of list `at`; a list whose last packet this was makes room for the one behind it.
    #[cold]
    pub(crate) fn take(&mut self, at: usize) -> Option<Descriptor> {
        let list = self.lists.get_mut(at)?;
        let (number, last) = (list.first, list.last);
        let descriptor = self.places.get_mut(usize::from(number))?.take();
        list.first = core::mem::replace(&mut self.next[usize::from(number)], self.free);
        self.free = number;
        if number == last {
            self.lists.remove(at);
        }
        publish(self.closed, &self.lists, u32::MAX);
        descriptor
    }
}

/// Lets the port see what is parked: one packet more, or with `u32::MAX` one less.
fn publish(closed: &Closed, list: &[List], change: u32) {
    let Closed { gate, parked, lists, nodes } = closed;
    for (seen, list) in nodes.iter().zip(list) {
        seen.store(list.node, Ordering::Relaxed);
    }
    lists.store(list.len() as u32, Ordering::Relaxed);
    parked.store(parked.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
    let some = if list.is_empty() { 0 } else { SOME };
    gate.store(gate.load(Ordering::Relaxed) & !SOME | some, Ordering::Relaxed);
}
