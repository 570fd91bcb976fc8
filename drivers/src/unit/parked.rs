//! Packets of an injection FIFO whose target takes none now, out of the way of those behind them (SPEC R-1).
//!
//! A node that is stopped, or that does not answer, has room for a window of packets and of requests and for no more; a context
//! that nobody advances has no more than that either. What an injection FIFO holds beyond that stays where it is while it is all
//! for that context: of a FIFO's last entries a context gets one, so others still get in. Once something for others is behind it,
//! it is parked, in order, in a list for each such context, and the FIFO goes on. The port pushes nothing more for a context that
//! has a list: its operations to that wait, those to others go on. What it pushed before it could know is bounded: the more is
//! parked, the fewer packets it may be ahead of the engine ([`ahead`]), and at last one, so that each further context adds one
//! packet to what is parked, and [`LISTS`] contexts can be without room at once; what is for one more stays in the FIFO.
//!
//! One-sided operations have lists of their own, one for each node, as no context of that needs to be advanced for them. They
//! overtake messages, as no message is promised to be there before an operation, nor the data that a put with signal takes along;
//! messages wait for those before them.
//!
//! No circle of waits can form: a list waits for its own context, a port for the engine to take what is in the FIFO, and
//! the engine waits for no list. A node that is gone takes everything, to refuse it.

use super::descriptor::{Descriptor, Flow, INJECTION_ENTRIES};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use heapless::Vec;
use rings::list;
use rings::slot_table::{Slot, SlotTable};
use rings::spsc::Consumer;

/// Packets of one FIFO that can be parked.
pub(crate) const PLACES: usize = 2 * INJECTION_ENTRIES;
/// Contexts for which packets of one FIFO can be parked.
pub(crate) const LISTS: usize = INJECTION_ENTRIES;
/// What the parked packets of one FIFO take, and what the port sees of them.
pub(crate) const HEAP_BYTES: usize = PLACES * size_of::<Slot<Descriptor>>() + size_of::<Closed>();
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
    /// The [names](Flow) of the lists: so many as there are lists.
    flows: [AtomicU64; LISTS],
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

    /// Whether a packet of this flow may be pushed into a FIFO that holds `queued`, as something is parked.
    #[cold]
    #[inline(never)]
    pub(crate) fn allows(&self, flow: Flow, queued: usize) -> bool {
        let lists = self.lists.load(Ordering::Relaxed) as usize;
        queued < ahead(self.parked.load(Ordering::Relaxed))
            && !self.flows.iter().take(lists).any(|closed| flow.is_behind(closed.load(Ordering::Relaxed)))
    }
}

/// The packets of one flow, chained.
struct List {
    flow: Flow,
    packets: list::List,
}

/// The parked packets of one injection FIFO.
pub(crate) struct Parked {
    places: SlotTable<Descriptor>,
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
            flows: [const { AtomicU64::new(0) }; LISTS],
        }));
        let places: Box<[_]> = (0..PLACES).map(|_| Slot::new()).collect();
        (Self { places: SlotTable::new(Box::leak(places)), lists: Vec::new(), closed }, closed)
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

    /// Whether a packet of this flow has to wait for some that are parked.
    #[inline]
    pub(crate) fn has_before(&self, flow: Flow) -> bool {
        self.lists.iter().any(|list| flow.is_behind(list.flow.name()))
    }

    /// Whether one more packet of this flow can be parked.
    pub(crate) fn has_room(&self, flow: Flow) -> bool {
        self.places.len() < PLACES
            && (!self.lists.is_full() || self.lists.iter().any(|list| list.flow == flow))
    }

    /// Parks the next packet of the FIFO, which is of this flow; there is room. The port sees the list before it sees the
    /// FIFO shorter.
    pub(crate) fn park(&mut self, flow: Flow, fifo: &mut Consumer<Descriptor>) {
        let at = self.lists.iter().position(|list| list.flow == flow).unwrap_or(self.lists.len());
        if at == self.lists.len() {
            let _ = self.lists.push(List { flow, packets: list::List::EMPTY });
        }
        publish(self.closed, &self.lists, 1);
        let place = fifo.pop().and_then(|packet| self.places.insert(packet).ok());
        if let (Some(place), Some(list)) = (place, self.lists.get_mut(at)) {
            list.packets.push(&mut self.places, place.index);
        }
    }

    /// Whether list `at` waits for no other.
    pub(crate) fn may_go(&self, at: usize) -> bool {
        let flow = self.lists.get(at).map(|list| list.flow);
        flow.is_some_and(|flow| {
            flow.ahead().is_none_or(|ahead| !self.lists.iter().any(|list| list.flow.name() == ahead))
        })
    }

    /// The first packet of list `at`.
    pub(crate) fn first(&self, at: usize) -> Option<&Descriptor> {
        self.places.get(self.lists.get(at)?.packets.first()?)
    }

    /// Takes the first packet of list `at`; a list whose last packet this was makes room for the one behind it.
    #[cold]
    pub(crate) fn take(&mut self, at: usize) -> Option<Descriptor> {
        let list = self.lists.get_mut(at)?;
        let place = list.packets.pop(&mut self.places)?;
        let descriptor = self.places.remove(place);
        if list.packets.is_empty() {
            self.lists.remove(at);
        }
        publish(self.closed, &self.lists, u32::MAX);
        descriptor
    }
}

/// Lets the port see what is parked: one packet more, or with `u32::MAX` one less.
fn publish(closed: &Closed, list: &[List], change: u32) {
    let Closed { gate, parked, lists, flows } = closed;
    for (seen, list) in flows.iter().zip(list) {
        seen.store(list.flow.name(), Ordering::Relaxed);
    }
    lists.store(list.len() as u32, Ordering::Relaxed);
    parked.store(parked.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
    let some = if list.is_empty() { 0 } else { SOME };
    gate.store(gate.load(Ordering::Relaxed) & !SOME | some, Ordering::Relaxed);
}
