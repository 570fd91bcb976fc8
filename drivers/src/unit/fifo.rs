//! A port's FIFOs and what else others reach of it.

use super::descriptor::{Body, Descriptor, Flow, INJECTION_ENTRIES, INLINE_BYTES};
use super::parked::{Closed, Parked};
use super::slots::{CopySlot, CopySlots, SHORT_BYTES, Stock};
use crate::adapter::RxBuffer;
use crate::state::FifoRecord;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU64};
use pami::device::{self, Completed, Full, REQUESTS};
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::{DISPATCH_IDS, Envelope, HEADER_BYTES, Header, HeaderTemplate, Kind, Packet};
use pami::region::RegionId;
use rings::bell::Bell;
use rings::buffer::Source;
use rings::shared::Shared;
use rings::spsc::{Consumer, Entry, Producer, Ring};
use rings::table::Hazard;
use spin::Mutex;
use zerocopy::IntoBytes;

/// Those of them of which a flow gets one at a time, when the others are in use.
pub(crate) const KEPT_ENTRIES: usize = INJECTION_ENTRIES / 4;
/// Packets of a port that may lie in long copy slots at once.
pub const COPY_SLOTS: usize = 16;
/// Those of at most a short slot's bytes (`SHORT_BYTES`) that may lie in short ones.
pub const SHORT_SLOTS: usize = 64;

/// A packet in a reception FIFO: the engine has found it to be one.
pub struct Arrived {
    pub(crate) buffer: RxBuffer,
    pub(crate) gist: Gist,
}

/// What the engine has read in a packet's header. All its bits are numbers, so that it is moved by words.
#[derive(Clone, Copy)]
pub(crate) struct Gist {
    origin: Endpoint,
    /// Bytes of the message's header, and of data behind that.
    header_len: u16,
    data_len: u16,
    /// The id of its handler, if it is all of a message that wants no answer; else [`NO_ID`].
    whole: u32,
}

/// No dispatch id.
const NO_ID: u32 = u32::MAX;

impl Gist {
    /// Of a packet that is whole.
    #[inline]
    pub(crate) fn of_whole(header: &Header) -> Self {
        let data_len = header.payload_len() - header.header_len();
        Self::new(header.origin(), (header.header_len(), data_len), Some(header.dispatch()))
    }

    /// Of any.
    pub(crate) fn of(packet: &Packet<'_>) -> Self {
        let (lens, envelope) = ((packet.header.len(), packet.data.len()), &packet.envelope);
        let starts = envelope.kind == Kind::EagerFirst && envelope.offset == 0;
        let whole = starts && envelope.total as usize == lens.1;
        Self::new(envelope.origin, lens, whole.then_some(envelope.dispatch))
    }

    /// A packet's lengths are no more than 16 bits tell.
    #[inline]
    fn new(origin: Endpoint, (header_len, data_len): (usize, usize), whole: Option<u8>) -> Self {
        // The id of anything but a handler is for others to look at.
        let whole = whole.filter(|&id| usize::from(id) < DISPATCH_IDS).map_or(NO_ID, u32::from);
        Self { origin, header_len: header_len as u16, data_len: data_len as u16, whole }
    }

    /// Bytes behind the packet's header.
    #[inline]
    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.header_len) + u64::from(self.data_len)
    }
}

impl device::Arrival for Arrived {
    fn envelope(&self) -> Envelope {
        // No context heeds a hello; nothing else that is no packet gets here.
        let nobody = Endpoint::from_parts(ClientId(0), 0, ContextOffset(0));
        let nothing = Envelope {
            kind: Kind::Hello,
            dispatch: 0,
            origin: nobody,
            target: nobody,
            message: 0,
            offset: 0,
            total: 0,
        };
        Header::read(self.buffer.packet()).and_then(|(header, _)| header.envelope()).unwrap_or(nothing)
    }

    #[inline(always)]
    fn parts(&self) -> (&[u8], &[u8]) {
        self.buffer.parts(HEADER_BYTES as u16, (self.gist.header_len, self.gist.data_len))
    }

    #[inline(always)]
    fn whole(&self) -> Option<(u8, Endpoint)> {
        (self.gist.whole != NO_ID).then_some((self.gist.whole as u8, self.gist.origin))
    }
}

/// The end of an injection FIFO that packets are put into. Most of it is for whoever comes; of the last
/// [`KEPT_ENTRIES`] a flow gets one, so that what a context does not take keeps nothing of others out (SPEC R-1).
pub(crate) struct Injector {
    descriptors: Producer<Descriptor>,
    /// Whom the last entries are for, by number of the packet.
    beyond: Box<[u64; INJECTION_ENTRIES]>,
    /// What the engine has parked: with that nothing short goes before it.
    closed: &'static Closed,
    copies: Copies,
    record: &'static FifoRecord,
}

/// The end of a reception FIFO that packets are taken from.
pub struct Reception {
    pub(crate) arrived: Consumer<Arrived>,
    pub(crate) returned: Producer<RxBuffer>,
    pub(crate) completed: Consumer<Completed>,
}

/// The engine's ends.
pub(crate) struct Ends {
    pub(crate) descriptors: Consumer<Descriptor>,
    pub(crate) parked: Parked,
    pub(crate) freed: Producer<CopySlot>,
    pub(crate) arrived: Producer<Arrived>,
    pub(crate) returned: Consumer<RxBuffer>,
    pub(crate) completed: Producer<Completed>,
    pub(crate) record: &'static FifoRecord,
}

/// Both ends of a port's FIFOs; reception FIFOs hold `buffers` packets. Allocates.
pub(crate) fn fifos(
    slots: CopySlots,
    long: impl Iterator<Item = CopySlot>,
    short: impl Iterator<Item = CopySlot>,
    buffers: usize,
    record: &'static FifoRecord,
) -> (Injector, Reception, Ends) {
    let (mut descriptors, taken) = ring(INJECTION_ENTRIES);
    descriptors.keep_back(KEPT_ENTRIES);
    let (mut freed, unused) = ring((COPY_SLOTS + SHORT_SLOTS).next_power_of_two());
    let (delivered, arrived) = ring(buffers);
    let (returned, recycled) = ring(buffers);
    let (completed, ended) = ring(REQUESTS);
    let (parked, closed) = Parked::new();
    for slot in long.take(COPY_SLOTS).chain(short.take(SHORT_SLOTS)) {
        // There is room: the ring is as long as there are slots.
        let _ = freed.push(slot);
    }
    let copies = Copies { freed: unused, long: Box::new(Stock::new()), short: Box::new(Stock::new()), slots };
    (
        Injector { descriptors, beyond: Box::new([0; INJECTION_ENTRIES]), closed, copies, record },
        Reception { arrived, returned, completed: ended },
        Ends { descriptors: taken, parked, freed, arrived: delivered, returned: recycled, completed, record },
    )
}

/// A ring of `entries`, a power of two. Allocates, for ever.
fn ring<T: Send>(entries: usize) -> (Producer<T>, Consumer<T>) {
    let entries = Box::leak((0..entries).map(|_| Entry::new()).collect());
    let ends = Ring::new(entries).ok().and_then(|ring| Box::leak::<'static>(Box::new(ring)).split());
    let Some(ends) = ends else { unreachable!("a new ring whose length is a power of two has two ends") };
    ends
}

impl Injector {
    /// Queues a message of one packet for `node`, if it fits in a descriptor. A longer one is refused as if there were no
    /// room; so is any while packets are parked, or if not `gone` nodes are gone.
    #[inline(always)]
    pub(crate) fn push_short(
        &mut self,
        (node, gone): (u32, u32),
        front: &HeaderTemplate,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), Full> {
        let end = header.len() + data.len();
        if end > INLINE_BYTES || !self.closed.is_open(gone) {
            return Err(Full);
        }
        let vacant = self.descriptors.vacant().ok_or(Full)?;
        let mut bytes = [0; INLINE_BYTES];
        bytes[..header.len()].copy_from_slice(header);
        bytes[header.len()..end].copy_from_slice(data);
        let injected = vacant.fill(Descriptor {
            header: front.header(dispatch, header.len() as u16, data.len() as u16),
            body: Body::Inline { node, len: end as u8, bytes },
        });
        self.count(injected);
        Ok(())
    }

    /// Queues a request for what `region` names, of at most two words, if it may be queued at all by now; if not, it may be that
    /// [`push_bcopy`](Self::push_bcopy) has room.
    #[inline(always)]
    pub(crate) fn push_words<const N: usize>(
        &mut self,
        node: u32,
        envelope: &Envelope,
        region: RegionId,
        words: [u64; N],
    ) -> Result<(), Full> {
        const { assert!((1 + N) * size_of::<u64>() <= INLINE_BYTES) };
        if self.closed.has_some() {
            return Err(Full);
        }
        let vacant = self.descriptors.vacant().ok_or(Full)?;
        let (header, data) = (size_of::<RegionId>(), size_of_val(&words));
        let mut bytes = [0; INLINE_BYTES];
        bytes[..header].copy_from_slice(region.as_bytes());
        bytes[header..header + data].copy_from_slice(words.as_bytes());
        let injected = vacant.fill(Descriptor {
            header: Header::new(envelope, header as u16, data as u16),
            body: Body::Inline { node, len: (header + data) as u8, bytes },
        });
        self.count(injected);
        Ok(())
    }

    /// Lets the host know how many packets were put in.
    #[inline]
    fn count(&self, injected: usize) {
        self.record.note_injected(injected as u32);
    }

    /// Queues a packet for `node`, copying `header` and `data`.
    #[inline]
    pub(crate) fn push_bcopy(
        &mut self,
        node: u32,
        envelope: &Envelope,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), Full> {
        self.push_packed(node, envelope, header, data.len(), |bytes| bytes.copy_from_slice(data))
    }

    /// Queues a packet for `node`, copying `header`, with `len` bytes of data that `fill` writes.
    #[inline]
    pub(crate) fn push_packed(
        &mut self,
        node: u32,
        envelope: &Envelope,
        header: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        if !self.admits(envelope.kind, envelope.target, node) {
            return Err(Full);
        }
        let end = header.len() + len;
        let body = if end <= INLINE_BYTES {
            let mut bytes = [0; INLINE_BYTES];
            bytes[..header.len()].copy_from_slice(header);
            fill(&mut bytes[header.len()..end]);
            Body::Inline { node, len: end as u8, bytes }
        } else {
            let flow = Flow::of(Some(envelope.kind), envelope.target, node);
            Body::Copied { node, slot: self.copies.fill(flow, header, len, fill)? }
        };
        let header = Header::new(envelope, header.len() as u16, len as u16);
        self.push(Descriptor { header, body })
    }

    /// Queues a request for bytes of a region of `node`, to be placed at `into.1`; one for nothing may have no memory.
    #[inline]
    pub(crate) fn push_get(
        &mut self,
        node: u32,
        envelope: &Envelope,
        region: RegionId,
        into: Option<(&Shared, u32)>,
        last: bool,
    ) -> Result<(), Full> {
        if !self.admits(Kind::Get, envelope.target, node) {
            return Err(Full);
        }
        debug_assert!(into.is_some() || envelope.total == 0);
        let (into, at) = into.map_or((None, 0), |(memory, at)| (Some(memory.clone()), at));
        let header = Header::new(
            &Envelope { kind: Kind::Get, ..*envelope },
            size_of::<RegionId>() as u16,
            size_of::<u32>() as u16,
        );
        self.push(Descriptor { header, body: Body::Get { node, region, into, at, last } })
    }

    /// Queues a packet for `node` whose data stays where it is.
    #[inline(always)]
    pub(crate) fn push_zcopy(
        &mut self,
        node: u32,
        envelope: &Envelope,
        header: &[u8],
        data: &Source,
    ) -> Result<(), Full> {
        if header.len() + data.len() <= INLINE_BYTES {
            return self.push_bcopy(node, envelope, header, data.as_slice());
        }
        if !self.admits(envelope.kind, envelope.target, node) {
            return Err(Full);
        }
        let flow = Flow::of(Some(envelope.kind), envelope.target, node);
        let slot = if header.is_empty() { None } else { Some(self.copies.fill(flow, header, 0, |_| ())?) };
        let header = Header::new(envelope, header.len() as u16, data.len() as u16);
        self.push(Descriptor { header, body: Body::Lent { node, header: slot, data: data.clone() } })
    }

    /// Whether there is a place for a packet of this kind to a context of node `node`.
    #[inline]
    fn admits(&mut self, kind: Kind, target: Endpoint, node: u32) -> bool {
        let closes = self.closed.has_some() || self.descriptors.is_full();
        !closes || self.admits_one(Flow::of(Some(kind), target, node))
    }

    /// Whether there is one although packets are parked, or only the last places are free.
    #[cold]
    #[inline(never)]
    fn admits_one(&mut self, flow: Flow) -> bool {
        let admits = self.finds_place(flow);
        if !admits {
            self.record.note_refused(flow.node(), self.descriptors.pushed() as u32);
        }
        admits
    }

    fn finds_place(&mut self, flow: Flow) -> bool {
        let (next, queued) = (self.descriptors.pushed(), self.descriptors.ring().len());
        if self.closed.has_some() && !self.closed.allows(flow, queued) {
            return false;
        }
        if !self.descriptors.is_full() {
            return true;
        }
        let place = |number: usize| number % INJECTION_ENTRIES;
        let kept = queued.saturating_sub(INJECTION_ENTRIES - KEPT_ENTRIES);
        let mut taken = (1..=kept).map(|back| next.wrapping_sub(back));
        let admits =
            queued < INJECTION_ENTRIES && !taken.any(|number| self.beyond[place(number)] == flow.name());
        if admits {
            self.beyond[place(next)] = flow.name();
        }
        admits
    }

    /// Whether a packet of some flow would be refused now.
    pub(crate) fn refuses_some(&mut self) -> bool {
        self.closed.has_some() || self.descriptors.is_full()
    }

    /// Queues a packet that was admitted.
    #[inline(always)]
    fn push(&mut self, descriptor: Descriptor) -> Result<(), Full> {
        let injected = self.descriptors.vacant_of_all().ok_or(Full)?.fill(descriptor);
        self.count(injected);
        Ok(())
    }
}

/// The copy slots of an injection FIFO, and where they come back.
struct Copies {
    freed: Consumer<CopySlot>,
    long: Box<Stock<COPY_SLOTS>>,
    short: Box<Stock<SHORT_SLOTS>>,
    slots: CopySlots,
}

impl Copies {
    /// A copy slot for a packet of this flow that begins with `header` and `len` bytes that `fill` writes. More than a slot
    /// holds is refused; nobody asks for it.
    fn fill(
        &mut self,
        flow: Flow,
        header: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<CopySlot, Full> {
        let end = header.len() + len;
        if end > self.slots.bytes_len() {
            return Err(Full);
        }
        let is_short = end <= SHORT_BYTES;
        if if is_short { self.short.is_low() } else { self.long.is_low() } {
            while let Some(slot) = self.freed.pop() {
                if self.slots.is_short(&slot) {
                    self.short.give_back(slot)
                } else {
                    self.long.give_back(slot)
                }
            }
        }
        let flow = flow.name();
        let mut slot = if is_short { self.short.take(flow) } else { self.long.take(flow) }.ok_or(Full)?;
        let bytes = self.slots.bytes_mut(&mut slot);
        bytes[..header.len()].copy_from_slice(header);
        fill(&mut bytes[header.len()..end]);
        Ok(slot)
    }
}

/// What others reach of a port, and what it leaves here while it is closed.
pub struct PortState {
    pub(crate) record: &'static FifoRecord,
    /// Whoever has something new for the port rings it.
    pub(crate) bell: Bell,
    /// Whether the port wants to hear when a peer in the node released a packet of its.
    pub(crate) listens: AtomicBool,
    pub(crate) own: OwnWords,
    pub(crate) injection: Mutex<Injection>,
    pub(crate) reception: Mutex<Option<Reception>>,
    /// Whether the injection FIFO is that of all contexts of its client and task.
    pub(crate) shared: AtomicBool,
}

/// What the port writes with each message, in a cache line that others seldom read.
#[cfg_attr(target_os = "linux", repr(align(64)))]
#[derive(Default)]
pub(crate) struct OwnWords {
    /// By what it shows what it looks at of other nodes' memory.
    pub(crate) hazard: Hazard,
    /// Packets that it sent through shared memory.
    pub(crate) local_packets: AtomicU64,
}

/// An injection FIFO that no port owns alone now.
pub(crate) struct Injection {
    pub(crate) injector: Option<Injector>,
    /// Ports that share it.
    pub(crate) sharers: u32,
}

impl PortState {
    /// That of a port without FIFOs: the node has no adapter.
    pub(crate) fn new(record: &'static FifoRecord) -> Self {
        Self {
            record,
            bell: Bell::new(),
            listens: AtomicBool::new(false),
            own: OwnWords::default(),
            injection: Mutex::new(Injection { injector: None, sharers: 0 }),
            reception: Mutex::new(None),
            shared: AtomicBool::new(false),
        }
    }
}
