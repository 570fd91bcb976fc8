//! Shared memory between the contexts of a node (SPEC P-9, docs/design.md decision 5).
//!
//! Every context has a port, known by its number. Each pair of ports that talk has a ring of lines
//! ([`rings::lines`]) of its own, taken from a fixed pool when the first says its first word to the second and
//! kept from then on: there is no lock, no atomic read-modify-write and no allocation on a message's way (but
//! the count of a lent source), and a port polls only the peers that ever talked to it. A receiver that stalls
//! fills its own rings and nobody else's.
//!
//! The fabric wakes nobody: whoever pushes tells the sleeper (SPEC N-8).
//!
//! **Other nodes.** Where nodes reach each other's memory ([`Desk`](crate::near::Desk)), a port has rings to and from theirs in the same way. Behind
//! a node's own ports come, by numbers, those of each node, its own once more. A ring is its sender's memory, and is announced
//! without a lock: a process that dies half-way keeps nobody waiting.
//!
//! **Closing.** Dropping a [`ShmPort`] closes the port, but its rings stay. What is in them is delivered when the
//! port is opened again, as packets that reach a port before its first opening are, to the client that it is for: the
//! first thing that a client puts into a ring is a gate with its [generation](pami::endpoint::ClientId::generation).
//! Behind that of a later client a port finds nothing, and what is in front of its own is dropped: it was for a client
//! that has ended.

use crate::near::Near;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use pami::device;
use pami::endpoint::Endpoint;
use pami::packet::{Envelope, Kind};
use rings::buffer::Source;
use rings::bulletin::Bulletin;
use rings::lines::{self, BadStorage, Line, Receiver, Refused, Sender, Tag};
use rings::segment::reach;
use spin::Mutex;

/// Lines of a ring: messages that one port may be ahead of another.
pub const LINES_PER_RING: usize = 64;
/// Messages in a ring that may be copies too long for a line.
pub const COPIES_PER_RING: usize = 4;
/// Whether ports show each other what they have: where a look at memory costs less than to ring and be woken.
const SHOWS: bool = cfg!(target_os = "linux");
/// Messages in sequence from one peer before the next has its turn.
const BURST: usize = 16;

/// Why a port was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShmOpenError {
    /// There are fewer ports.
    NoSuchPort,
    /// It is open already.
    InUse,
}

/// Why a packet was not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushError {
    /// The ring is full until the receiver takes something, or drops what was for the client before.
    Full,
    /// More bytes to copy than the rings' copy size.
    TooLong,
    /// No such port, or no ring is left for a new pair. Never after [`ShmPort::connect`] succeeded.
    Unreachable,
}

impl From<Refused> for PushError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Full => Self::Full,
            Refused::TooLong => Self::TooLong,
        }
    }
}

/// The receiving end of a pair's ring. It is its port's for ever, once that has heard of it, and may lie in another node's
/// memory.
struct Inbound {
    receiver: Receiver,
    ends: &'static Ends,
    /// The one that was announced before it.
    before: *mut Self,
}

// SAFETY: the pointer is that of one that nobody else has, as this is nobody else's.
unsafe impl Send for Inbound {}

/// Who has the two ends of a pair's ring, as bits of endpoints, and the sender's port. Written for each client of the
/// receiver's before anything is taken from the ring.
#[derive(Default)]
#[cfg_attr(target_os = "linux", repr(align(64)))]
struct Ends {
    origin: AtomicU64,
    target: AtomicU64,
    port: AtomicU16,
}

impl Inbound {
    /// Drops what is in front of the gate of this generation, and passes that. Returns whether it was there.
    fn reach(&mut self, generation: u32) -> bool {
        loop {
            match self.receiver.gate() {
                Some(later) if later > generation => return false,
                Some(gate) => {
                    self.receiver.pass_gate();
                    if gate == generation {
                        return true;
                    }
                }
                None if self.receiver.pull().is_none() => return false,
                None => {}
            }
        }
    }
}

impl Ends {
    /// What is taken out from now on is for `me`, from the same client.
    fn receive(&self, me: Endpoint) {
        let origin = self.origin();
        let origin = Endpoint::from_parts(me.client(), origin.task(), origin.context());
        self.origin.store(origin.to_bits(), Ordering::Relaxed);
        self.target.store(me.to_bits(), Ordering::Relaxed);
    }

    #[inline]
    fn origin(&self) -> Endpoint {
        Endpoint::from_bits(self.origin.load(Ordering::Relaxed))
    }
}

/// What a port owns while it is open, and leaves to its next opening. The default, of what is left in one that closes, allocates
/// nothing.
#[derive(Default)]
struct Share {
    /// The generation of its client.
    generation: u32,
    /// The rings out, by the target's port, and those in which this client has said nothing.
    out: Box<[OnceCell<Box<Sender>>]>,
    idle: Box<[Cell<Option<Box<Sender>>>]>,
    /// The ring in whose turn it is, and the number of its message that ends the turn.
    current: Option<&'static mut Inbound>,
    until: usize,
    /// The other rings in. Has room for one from every port.
    waiting: Vec<&'static mut Inbound>,
    /// Which of them is the next.
    next: usize,
    /// Rings in whose senders have not come to this client, as far as was looked. As much room.
    gated: Vec<&'static mut Inbound>,
    /// Announcements heeded.
    heeded: usize,
}

/// What others reach of a port.
#[repr(C)]
struct PortSlot {
    /// Rings ever announced. First, as its port looks at it with each message.
    announcements: AtomicUsize,
    /// The last ring in that the port has not taken note of yet.
    announced: AtomicPtr<Inbound>,
    /// The port's share while it is closed.
    closed: Mutex<Option<Share>>,
}

impl PortSlot {
    /// Has the port take note of a ring.
    fn announce(&self, inbound: &'static mut Inbound) {
        let mut last = self.announced.load(Ordering::Relaxed);
        loop {
            inbound.before = last;
            match self.announced.compare_exchange_weak(last, inbound, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => last = now,
            }
        }
    }

    /// The rings that were announced since the last time. To be called by the port alone.
    fn take_announced(&self) -> impl Iterator<Item = &'static mut Inbound> + use<> {
        let mut last = self.announced.swap(ptr::null_mut(), Ordering::Acquire);
        core::iter::from_fn(move || {
            // SAFETY: whoever announced it gave it away, it lives for ever, and the swap made this the only one that has it.
            let inbound = unsafe { NonNull::new(last)?.as_mut() };
            last = inbound.before;
            Some(inbound)
        })
    }
}

/// The shared memory of a node.
pub struct Shm {
    slots: Box<[PortSlot]>,
    /// What each port shows to those that reach this memory.
    bulletins: Box<[Bulletin]>,
    /// Rings that no pair uses.
    spares: Mutex<Vec<(Box<Sender>, &'static mut Inbound)>>,
    near: Option<Near>,
}

impl Shm {
    /// Shared memory for `ports` ports of which up to `pairs` ordered pairs talk, a port with itself being one.
    /// `copy_bytes` is the most that one [`ShmPort::push_bcopy`] takes. Takes about
    /// `pairs * (4096 + 4 * copy_bytes) + 40 * ports * reach(ports, nodes)` bytes of heap, and nothing later. All nodes that reach
    /// each other's memory have as many ports.
    ///
    /// # Errors
    /// [`BadStorage::CopyBytes`] when `copy_bytes` is over 65535.
    pub fn new(
        ports: usize,
        pairs: usize,
        copy_bytes: usize,
        near: Option<Near>,
    ) -> Result<Self, BadStorage> {
        // Port numbers are `u16`.
        let ports = ports.min(usize::from(u16::MAX) + 1);
        let reached = reach(ports, near.map_or(0, |near| near.desks.len()));
        let pairs = pairs.min(ports * reached);
        let spare = |_| {
            let ring: Vec<Line> = (0..LINES_PER_RING).map(|_| Line::new()).collect();
            let copies = alloc::vec![0; COPIES_PER_RING * copy_bytes];
            let (sender, receiver) = lines::ring(ring.leak(), copies.leak(), copy_bytes)?;
            let inbound = Inbound { receiver, ends: Box::leak(Box::default()), before: ptr::null_mut() };
            Ok((Box::new(sender), Box::leak(Box::new(inbound))))
        };
        let slot = |_| PortSlot {
            closed: Mutex::new(Some(Share {
                out: (0..reached).map(|_| OnceCell::new()).collect(),
                idle: (0..reached).map(|_| Cell::new(None)).collect(),
                waiting: Vec::with_capacity(reached),
                gated: Vec::with_capacity(reached),
                ..Share::default()
            })),
            announced: AtomicPtr::new(ptr::null_mut()),
            announcements: AtomicUsize::new(0),
        };
        Ok(Self {
            spares: Mutex::new((0..pairs).map(spare).collect::<Result<_, _>>()?),
            slots: (0..ports).map(slot).collect(),
            bulletins: (0..if SHOWS { ports } else { 0 }).map(|_| Bulletin::default()).collect(),
            near,
        })
    }

    /// The number of port `port` of node `node`, whose memory this one reaches, to the ports here.
    pub fn number(&self, node: u32, port: u16) -> Option<u16> {
        let near = self.near.filter(|near| (node as usize) < near.desks.len())?;
        let port = usize::from(port);
        let first = if node == near.node { 0 } else { self.slots.len() * (1 + node as usize) };
        u16::try_from(first + port).ok().filter(|_| port < self.slots.len())
    }

    /// The node, and its port, that this is the number of.
    pub fn place(&self, number: u16) -> Option<(u32, u16)> {
        let (number, ports) = (usize::from(number), self.slots.len());
        Some(((number / ports).checked_sub(1)? as u32, (number % ports) as u16))
    }

    /// The nodes whose memory this one reaches.
    pub(crate) fn near(&self) -> Option<Near> {
        self.near
    }

    fn slot(&self, number: u16) -> Option<&PortSlot> {
        let own = self.slots.get(usize::from(number));
        own.or_else(|| {
            let (node, port) = self.place(number)?;
            self.of_node(node)?.slots.get(usize::from(port))
        })
    }

    /// That of another node, whose memory this one reaches.
    fn of_node(&self, node: u32) -> Option<&'static Self> {
        let desk = self.near?.desks.get(node as usize)?;
        // SAFETY: a desk's `shm` is that of its node, which has its memory and its image where they are here.
        unsafe { desk.shm.get::<Self>() }
    }

    /// What port `port` of node `node` shows, of which `is_own` says whether it is this one, if this node reaches its memory.
    pub fn bulletin(&'static self, node: u32, is_own: bool, port: u16) -> Option<&'static Bulletin> {
        let shm = if is_own { self } else { self.of_node(node)? };
        shm.bulletins.get(usize::from(port))
    }

    /// The number of port `port` of this node to whoever has the number `target`.
    fn own_number(&self, port: u16, target: u16) -> u16 {
        match self.near {
            Some(near) if usize::from(target) >= self.slots.len() => {
                (self.slots.len() * (1 + near.node as usize)) as u16 + port
            }
            _ => port,
        }
    }

    /// Opens the port with number `port`, which belongs to the endpoint `me` now and, but for its client's generation, at
    /// every opening.
    ///
    /// # Errors
    /// [`ShmOpenError`].
    pub fn open(&'static self, port: u16, me: Endpoint) -> Result<ShmPort, ShmOpenError> {
        let slot = self.slots.get(usize::from(port)).ok_or(ShmOpenError::NoSuchPort)?;
        let mut share = slot.closed.lock().take().ok_or(ShmOpenError::InUse)?;
        share.serve(me.client().generation().into());
        Ok(ShmPort { shm: self, slot, me, share, port })
    }
}

impl Share {
    /// The client is now of this generation. If it is another, all its pairs begin anew.
    fn serve(&mut self, generation: u32) {
        if self.generation == generation {
            return;
        }
        (self.generation, self.next) = (generation, 0);
        // Not what it is: the first pull looks for gates.
        self.heeded = self.heeded.wrapping_sub(1);
        self.gated.extend(self.current.take());
        self.gated.append(&mut self.waiting);
        for (out, idle) in self.out.iter_mut().zip(&self.idle) {
            if let Some(sender) = out.take() {
                idle.set(Some(sender));
            }
        }
    }
}

/// One context's end of the shared memory. Dropping it closes the port.
pub struct ShmPort {
    shm: &'static Shm,
    slot: &'static PortSlot,
    me: Endpoint,
    share: Share,
    port: u16,
}

impl ShmPort {
    /// Makes sure that there is a ring from here to `target`, whose port need not be open, for this client.
    ///
    /// # Errors
    /// [`PushError::Unreachable`] when there is no such port, or the pool of rings is used up; [`PushError::Full`] when
    /// there is a ring, full of what the client before has said.
    #[inline]
    pub fn connect(&self, target: u16) -> Result<(), PushError> {
        let out = self.share.out.get(usize::from(target)).ok_or(PushError::Unreachable)?;
        if out.get().is_some() {
            return Ok(());
        }
        self.claim(target, out)
    }

    #[cold]
    fn claim(&self, target: u16, out: &OnceCell<Box<Sender>>) -> Result<(), PushError> {
        let idle = self.share.idle.get(usize::from(target)).ok_or(PushError::Unreachable)?;
        let slot = self.shm.slot(target).ok_or(PushError::Unreachable)?;
        let mut sender = match idle.take() {
            Some(sender) => sender,
            None => {
                let (sender, inbound) = self.shm.spares.lock().pop().ok_or(PushError::Unreachable)?;
                inbound.ends.origin.store(self.me.to_bits(), Ordering::Relaxed);
                inbound.ends.port.store(self.shm.own_number(self.port, target), Ordering::Relaxed);
                slot.announce(inbound);
                sender
            }
        };
        let gated = sender.gate(self.share.generation);
        // Even if there is no room: what fills the ring is to be dropped.
        slot.announcements.fetch_add(1, Ordering::Release);
        match gated {
            // Cannot be set: the cell was empty, and this port alone fills it.
            Ok(()) => out.set(sender).map_err(|_| PushError::Unreachable),
            Err(full) => {
                idle.set(Some(sender));
                Err(full.into())
            }
        }
    }

    #[inline]
    fn sender(&mut self, target: u16) -> Result<&mut Sender, PushError> {
        self.connect(target)?;
        self.connected(target)
    }

    #[inline]
    fn connected(&mut self, target: u16) -> Result<&mut Sender, PushError> {
        let out = self.share.out.get_mut(usize::from(target)).and_then(OnceCell::get_mut);
        out.map(|sender| &mut **sender).ok_or(PushError::Unreachable)
    }

    /// Queues a message of one packet for the port `target`, with which it is [connected](Self::connect), if it fits in a
    /// line.
    ///
    /// # Errors
    /// [`PushError`]; nothing was queued.
    #[inline(always)]
    pub fn push_short(
        &mut self,
        target: u16,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), PushError> {
        let what = what(Kind::EagerFirst, dispatch) | WHOLE | BARE;
        Ok(self.connected(target)?.push_inline(what, header, data)?)
    }

    /// Queues one packet for the port `target`, copying `header` and `data`. The envelope's origin is this
    /// port's endpoint and its target that of the other: they do not travel.
    ///
    /// # Errors
    /// [`PushError`]; nothing was queued.
    #[inline]
    pub fn push_bcopy(
        &mut self,
        target: u16,
        envelope: &Envelope,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), PushError> {
        Ok(self.sender(target)?.push_bcopy(&tag(envelope, data.len()), header, data)?)
    }

    /// As [`push_bcopy`](Self::push_bcopy), but `data`, of any length, is read where it lies. The clone of `data`
    /// that the ring keeps is dropped when the receiver drops the arrival; small data are copied instead.
    ///
    /// # Errors
    /// [`PushError`]; nothing was queued, and `data` was not cloned.
    #[inline]
    pub fn push_zcopy(
        &mut self,
        target: u16,
        envelope: &Envelope,
        header: &[u8],
        data: &Source,
    ) -> Result<(), PushError> {
        Ok(self.sender(target)?.push_zcopy(&tag(envelope, data.len()), header, data)?)
    }

    /// As [`push_bcopy`](Self::push_bcopy), with `len` bytes of data that `fill` writes; it is not called if nothing is
    /// queued.
    ///
    /// # Errors
    /// [`PushError`]; nothing was queued.
    #[inline(always)]
    pub fn push_packed(
        &mut self,
        target: u16,
        envelope: &Envelope,
        header: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), PushError> {
        Ok(self.sender(target)?.push_packed(&tag(envelope, len), header, len, fill)?)
    }

    /// Nodes of which `is_gone` is true receive nothing any more: what was lent to them comes back.
    #[cfg(target_os = "linux")]
    pub fn take_back(&mut self, is_gone: impl Fn(u32) -> bool) {
        let (shm, reached) = (self.shm, self.share.out.len() as u16);
        let senders = self
            .share
            .out
            .iter_mut()
            .map(OnceCell::get_mut)
            .chain(self.share.idle.iter_mut().map(|idle| idle.get_mut().as_mut()));
        for (number, sender) in (0..reached).chain(0..reached).zip(senders) {
            let gone = shm.place(number).is_some_and(|(node, _)| is_gone(node));
            if let Some(sender) = sender.filter(|_| gone) {
                // SAFETY: all threads of the node's process had ended, or its job, before anybody said that it is gone.
                unsafe { sender.take_back() };
            }
        }
    }

    /// Whether receivers have released all that this port lent.
    pub fn is_settled(&self) -> bool {
        self.share.out.iter().filter_map(OnceCell::get).all(|sender| sender.is_settled())
    }

    /// The next packet for this port, in order for each origin; the origins take turns. Dropping the arrival
    /// gives its memory back to the ring. `dropped` hears of ports whose packets for earlier clients were dropped.
    #[inline]
    pub fn pull(&mut self, dropped: impl FnMut(u16)) -> Option<Arrival> {
        if let Some(current) = &mut self.share.current
            && self.share.until.wrapping_sub(current.receiver.received()).cast_signed() > 0
            && let Some(line) = current.receiver.pull()
        {
            return Some(Arrival { line, ends: current.ends });
        }
        self.pull_next(dropped)
    }

    /// The next packet in the ring whose turn it is, even if its turn is over: the next [`pull`](Self::pull) sees that.
    #[inline]
    pub fn pull_ready(&mut self) -> Option<Arrival> {
        let current = self.share.current.as_mut()?;
        let line = current.receiver.pull()?;
        Some(Arrival { line, ends: current.ends })
    }

    /// Whether a ring has a packet, or something is to be heeded first.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.share.current.as_ref().is_some_and(|current| current.receiver.is_ready())
            || self.share.waiting.iter().any(|waiting| waiting.receiver.is_ready())
            || self.slot.announcements.load(Ordering::Acquire) != self.share.heeded
    }

    /// Whether no ring has a packet, as is known at once where there is one only.
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.share.current.as_ref().is_none_or(|current| !current.receiver.is_ready())
            && self.share.waiting.is_empty()
            && self.slot.announcements.load(Ordering::Acquire) == self.share.heeded
    }

    /// The next packet, when the ring whose turn it was has none or its turn is over.
    #[inline(never)]
    fn pull_next(&mut self, dropped: impl FnMut(u16)) -> Option<Arrival> {
        if self.slot.announcements.load(Ordering::Acquire) != self.share.heeded {
            self.heed(dropped);
        }
        let share = &mut self.share;
        // One more than wait: the first may only be passed because its turn is over.
        for _ in 0..=share.waiting.len() {
            let current = share.current.as_mut()?;
            if let Some(next) = share.waiting.get_mut(share.next) {
                core::mem::swap(current, next);
            }
            share.next = if share.next + 1 < share.waiting.len() { share.next + 1 } else { 0 };
            share.until = current.receiver.received().wrapping_add(BURST);
            if let Some(line) = current.receiver.pull() {
                return Some(Arrival { line, ends: current.ends });
            }
        }
        None
    }

    /// Takes note of new rings, and of rings whose senders have come to this client.
    #[cold]
    fn heed(&mut self, mut dropped: impl FnMut(u16)) {
        let (me, share) = (self.me, &mut self.share);
        // Before the looks: what is announced behind them is looked for again.
        share.heeded = self.slot.announcements.load(Ordering::Acquire);
        share.gated.extend(self.slot.take_announced());
        let mut at = 0;
        while let Some(inbound) = share.gated.get_mut(at) {
            let before = inbound.receiver.received();
            let open = inbound.reach(share.generation);
            if inbound.receiver.received().wrapping_sub(before) > usize::from(open) {
                dropped(inbound.ends.port.load(Ordering::Relaxed));
            }
            if !open {
                at += 1;
                continue;
            }
            let inbound = share.gated.swap_remove(at);
            inbound.ends.receive(me);
            match &share.current {
                Some(_) => share.waiting.push(inbound),
                None => share.current = Some(inbound),
            }
        }
    }
}

impl Drop for ShmPort {
    fn drop(&mut self) {
        *self.slot.closed.lock() = Some(core::mem::take(&mut self.share));
    }
}

/// A packet in a ring. Dropping it frees its line and ends the loan of its data.
pub struct Arrival {
    line: lines::Arrival,
    ends: &'static Ends,
}

impl Arrival {
    /// The port that sent it.
    #[inline]
    pub fn port(&self) -> u16 {
        self.ends.port.load(Ordering::Relaxed)
    }
}

impl device::Arrival for Arrival {
    #[inline]
    fn envelope(&self) -> Envelope {
        let [what, message, offset, total] = self.line.tag();
        // None is never written; hello is a kind that no context heeds.
        let kind = Kind::from_byte(what as u8).unwrap_or(Kind::Hello);
        let whole = (0, 0, self.line.data().len() as u32);
        let (message, offset, total) = if what & BARE != 0 { whole } else { (message, offset, total) };
        let origin = self.ends.origin();
        let target = Endpoint::from_bits(self.ends.target.load(Ordering::Relaxed));
        Envelope { kind, dispatch: (what >> 8) as u8, origin, target, message, offset, total }
    }

    #[inline]
    fn parts(&self) -> (&[u8], &[u8]) {
        self.line.parts()
    }

    #[inline]
    fn whole(&self) -> Option<(u8, Endpoint)> {
        let what = self.line.word();
        (what & WHOLE != 0).then(|| ((what >> 8) as u8, self.ends.origin()))
    }
}

/// In the first word of a tag: the packet is all of a message that wants no answer.
const WHOLE: u32 = 1 << 16;
/// In the first word of a tag: the others say nothing.
const BARE: u32 = 1 << 17;

#[inline]
const fn what(kind: Kind, dispatch: u8) -> u32 {
    kind as u32 | (dispatch as u32) << 8
}

/// What travels of an envelope.
#[inline]
fn tag(envelope: &Envelope, data_len: usize) -> Tag {
    let Envelope { kind, dispatch, message, offset, total, .. } = *envelope;
    let whole = kind == Kind::EagerFirst && offset == 0 && total as usize == data_len;
    [what(kind, dispatch) | if whole { WHOLE } else { 0 }, message, offset, total]
}

#[cfg(test)]
mod tests;
