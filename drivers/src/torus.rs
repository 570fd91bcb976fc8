//! The torus adapter: packets in Ethernet frames on a network card (SPEC D-1, D-2).
//!
//! | bytes | what |
//! |---|---|
//! | 0..6 | destination: the station address of the target's card, or [`mac`] of its rank |
//! | 6..12 | source: the station address of the sender's card |
//! | 12..14 | [`ETHERTYPE`] or [`ETHERTYPE_RELIABLE`], big-endian |
//! | 14..18 | rank of the target, or [`FABRIC`], little-endian |
//! | 18..22 | rank of the source, likewise |
//! | 22.. | the packet ([`pami::packet`]), with the second type behind a link header ([`crate::link`]) |
//!
//! Who a frame is from and for its ranks say; addresses only have Ethernet carry it there. A card's *station address* is its
//! own: that of its node in the device tree, or what the card itself says, or, if there is none, its *rank address*, which is
//! reckoned from the rank. Every card takes frames for its rank address too, and sends none from it while it has another. So a
//! first frame needs no answer to the question where a rank is: a switch that has not seen an address sends it to all, and
//! one card takes it. Where a peer is then is learnt ([`Adapter::learn`]) from each call and each answer of the handshake, and on
//! a network that loses nothing from a peer's first packet and from each frame without one. No checksum covers addresses: one
//! that came wrong stays until the next such frame. Of two peers whose ranks share a [place](PLACES) only the later is known
//! by its station; frames for the other go by rank. So do those for peers whose cards have one address, or this node's, and
//! all that nodes say outside of connections: another card may play a rank than the one that is known.
//!
//! Frames for other cards, which a switch may send to all, are let go; those for this card that are no packets for this node are
//! counted.
//!
//! Two jobs on one Ethernet would share rank addresses, and what the network itself says to each is not told apart: they want
//! networks of their own. Between nodes the link header tells what is of another job.
//!
//! Between nodes each packet has a link header. What a node and the network itself say to each other is bare.
//!
//! A frame that leaves is gathered: these 22 bytes, the packet's header and inline data from memory of the adapter's own,
//! then what the sender lent. A frame that arrives lies in one buffer, placed so that the packet's payload is aligned to
//! 64 bytes.

use crate::adapter::{
    Adapter, AdapterFaults, COOKIES, FABRIC, FRONT_BYTES, Lent, MOST_BULK, Outcome, RX_BUFFERS, Reliability,
    RxBuffer, Watch, copy_front,
};
use crate::link::LINK_BYTES;
use crate::nic::{ETHERNET_HEADER, HEADROOM, Nic, SmallMtu, TAILROOM, is_station};
use alloc::boxed::Box;
use alloc::vec;
use core::cell::UnsafeCell;
use pami::packet::HEADER_BYTES;
use zerocopy::FromBytes;

/// Ethernet protocol number of Pamir's packets: one of those for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;
/// That of frames with a link header.
pub const ETHERTYPE_RELIABLE: u16 = 0x88b6;
/// Least payload of a packet for the adapter to be of any use, in bytes.
const LEAST_MTU: u16 = 64;

/// The first two bytes of each rank address: locally administered, not a group.
const MAC_PREFIX: [u8; 2] = [0x02, 0x50];

/// About how many bytes of heap an adapter takes at most.
pub const HEAP_BYTES: usize =
    RX_BUFFERS * (MOST_BULK + 128 + TAILROOM) + PLACES * size_of::<StationAddress>();

/// The rank address of the node with this rank; that of [`FABRIC`] is the network's own.
pub const fn mac(rank: u32) -> [u8; 6] {
    let [a, b, c, d] = rank.to_be_bytes();
    let [p0, p1] = MAC_PREFIX;
    [p0, p1, a, b, c, d]
}

/// The rank that an Ethernet address is the rank address of, if it is one.
pub const fn rank(address: [u8; 6]) -> Option<u32> {
    let [p0, p1, a, b, c, d] = address;
    let [q0, q1] = MAC_PREFIX;
    if p0 == q0 && p1 == q1 { Some(u32::from_be_bytes([a, b, c, d])) } else { None }
}

/// Bytes of the two ranks behind the Ethernet header.
const RANKS: usize = 8;
/// Bytes in front of the packet: Ethernet header and ranks.
pub const FRAME_HEADER: usize = ETHERNET_HEADER + RANKS;
/// Where the frame begins in a front: so that the packet's headers lie at words, as they are copied by words.
const FRAME: usize = (HEADROOM + FRAME_HEADER).next_multiple_of(8) - FRAME_HEADER;
/// Bytes in front of a frame that came in, so that its addresses lie at words.
const BEFORE: usize = 2;

/// The front of a frame in flight: the wire's bytes, in pieces that are aligned, so that a core writes each at once.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Fields {
    headroom: [u8; FRAME],
    destination: u16,
    destination_rest: u32,
    station: [u8; 6],
    ether_type: u16,
    target: u32,
    source: u32,
    packet: [u8; FRONT_BYTES],
}

const _: () = assert!(core::mem::offset_of!(Fields, packet) == FRAME + FRAME_HEADER);

/// A front: written by this side while its cookie is free, then read by the device.
struct FrontMemory(UnsafeCell<Fields>);

// SAFETY: only `TorusAdapter::transmit` writes it, with the adapter borrowed mutably.
unsafe impl Sync for FrontMemory {}

/// Places for station addresses of peers; a rank's is the one at the rank modulo this.
pub const PLACES: usize = 1 << 10;

/// The rank of a place whose address more than one has: no node's.
const NOBODY: u32 = FABRIC - 1;

/// Where frames for a rank go.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct StationAddress {
    rank: u32,
    /// The address, in the pieces of a [front](Fields).
    rest: u32,
    first: u16,
    /// The EtherType between this node and that one, big-endian.
    ether_type: u16,
    /// Whether the address is a station's.
    learnt: bool,
}

impl StationAddress {
    fn new(rank: u32, address: [u8; 6], learnt: bool) -> Self {
        let [a, b, rest @ ..] = address;
        let (first, rest) = (u16::from_ne_bytes([a, b]), u32::from_ne_bytes(rest));
        Self { rank, rest, first, ether_type: ether_type(rank).to_be(), learnt }
    }
}

/// The EtherType between this node and `node`.
#[inline]
const fn ether_type(node: u32) -> u16 {
    if node == FABRIC { ETHERTYPE } else { ETHERTYPE_RELIABLE }
}

/// A network card on the torus, to be wrapped: in what mends losses, or in what counts on none.
pub struct TorusAdapter<N: Nic> {
    nic: N,
    /// By cookie. Never freed: the device reads them.
    fronts: &'static [FrontMemory],
    places: Box<[StationAddress; PLACES]>,
    /// Of a rank whose place has another.
    by_rank: StationAddress,
    /// This node's rank, and the address that it sends from.
    node: u32,
    station: [u8; 6],
    mtu: usize,
    runts: u64,
    foreign: u64,
    stray: u64,
}

impl<N: Nic> TorusAdapter<N> {
    /// Where what follows the Ethernet header lies in a receive buffer, which is aligned to 64: the packet's payload
    /// then begins at a multiple of 64.
    const BODY_START: usize = 128 - LINK_BYTES - HEADER_BYTES;
    const FRAME_START: usize = Self::BODY_START - FRAME_HEADER;
    /// Most bytes behind a packet's header.
    const MOST_BODY: usize = MOST_BULK + LINK_BYTES;

    /// Starts `nic` for the node with rank `node`. Allocates all its memory, for the card's MTU, or [`MOST_BULK`] if that is
    /// less: about [`HEAP_BYTES`].
    ///
    /// # Errors
    /// [`SmallMtu`].
    pub fn new(mut nic: N, node: u32) -> Result<Self, SmallMtu> {
        let frame_mtu = nic.mtu();
        let header = (RANKS + HEADER_BYTES) as u16;
        let mtu = frame_mtu.checked_sub(header).filter(|&mtu| mtu >= LEAST_MTU).ok_or(SmallMtu(frame_mtu))?;
        // The device says what it could carry; what buffers take is not for it to say.
        let mtu = usize::from(mtu).min(Self::MOST_BODY);
        // What a node that ran here before, of another rank, has left in the card is another's now.
        let is_own = |&station: &[u8; 6]| rank(station).is_none();
        let station = nic.station().filter(is_own).unwrap_or(mac(node));
        nic.start([station, mac(node)], Self::FRAME_START, FRAME_HEADER + HEADER_BYTES + mtu);
        for buffer in aligned(Self::BODY_START + HEADER_BYTES + mtu + TAILROOM, nic.line()) {
            nic.lend(buffer);
        }
        nic.flush();
        // What is the same in all frames: whose they are.
        let front = Fields {
            headroom: [0; FRAME],
            destination: 0,
            destination_rest: 0,
            station,
            ether_type: 0,
            target: 0,
            source: node.to_le(),
            packet: [0; FRONT_BYTES],
        };
        let fronts = Box::leak((0..COOKIES).map(|_| FrontMemory(UnsafeCell::new(front))).collect());
        let nobody = StationAddress::new(FABRIC, mac(FABRIC), false);
        let places = Box::new([nobody; PLACES]);
        Ok(Self { nic, fronts, places, by_rank: nobody, node, station, mtu, runts: 0, foreign: 0, stray: 0 })
    }

    /// Where frames for a node go of which nothing is known. What is known of another stays.
    #[cold]
    #[inline(never)]
    fn place_by_rank(&mut self, node: u32) -> &StationAddress {
        let kept = &mut self.places[node as usize % PLACES];
        let place = if kept.learnt { &mut self.by_rank } else { kept };
        *place = StationAddress::new(node, mac(node), false);
        place
    }

    /// Who sent a frame that has [`BEFORE`] bytes in front of it, if it is one for this node; counts it if not.
    #[inline]
    fn accept(&mut self, frame: &[u8]) -> Option<u32> {
        let Some((header, body)) = frame.split_first_chunk::<{ BEFORE + FRAME_HEADER }>() else {
            count(&mut self.runts, frame, self.station, self.node);
            return None;
        };
        // What is in front, then the destination; the source's address, then the EtherType; the ranks.
        let ([_, source, ranks], _) = header.as_chunks() else { return None };
        let (said, ranks) = ((word(source) >> 48) as u16, word(ranks));
        let (target, rank) = (ranks as u32, (ranks >> 32) as u32);
        let is_of = |ether_type: u16| said == u16::from_le_bytes(ether_type.to_be_bytes());
        let least = if is_of(ETHERTYPE_RELIABLE) { LINK_BYTES } else { HEADER_BYTES };
        let counter = if !is_of(ether_type(rank)) {
            &mut self.foreign
        } else if target != self.node {
            &mut self.stray
        } else if body.len() < least {
            &mut self.runts
        } else {
            return Some(rank);
        };
        count(counter, frame, self.station, self.node);
        None
    }
}

/// One frame more that is none for node `node`, if it is for its card: a switch sends to all what is for all, or for an address that
/// it has not seen, and nobody is at fault.
#[cold]
#[inline(never)]
fn count(counter: &mut u64, frame: &[u8], station: [u8; 6], node: u32) {
    let frame = frame.get(BEFORE..).unwrap_or_default();
    *counter += u64::from(frame.starts_with(&station) || frame.starts_with(&mac(node)));
}

/// Eight bytes as a little-endian number: read at once where they are aligned, as those of a frame that came in are.
#[inline]
fn word(bytes: &[u8; 8]) -> u64 {
    u64::from_le(u64::ref_from_bytes(bytes).map_or_else(|_| word_anywhere(bytes), |word| *word))
}

/// As they lie in memory. Apart, as both ways would be one, byte by byte.
#[cold]
#[inline(never)]
fn word_anywhere(bytes: &[u8; 8]) -> u64 {
    u64::from_ne_bytes(*bytes)
}

/// [`RX_BUFFERS`] buffers of `len` bytes or a little more, each with cache lines of its own.
fn aligned(len: usize, line: usize) -> impl Iterator<Item = &'static mut [u8]> {
    let stride = len.next_multiple_of(line);
    let memory = Box::leak(vec![0u8; RX_BUFFERS * stride + line].into_boxed_slice());
    let skip = memory.as_ptr().align_offset(line).min(line);
    memory[skip..].chunks_exact_mut(stride).take(RX_BUFFERS)
}

/// A frame by rank addresses.
#[cfg(test)]
pub(crate) fn frame(to: u32, from: u32, ether_type: u16, packet: &[u8]) -> vec::Vec<u8> {
    let ranks = [to, from].map(u32::to_le_bytes);
    [&mac(to)[..], &mac(from), &ether_type.to_be_bytes(), ranks.as_flattened(), packet].concat()
}

#[cfg(test)]
mod tests;

impl<N: Nic> Adapter for TorusAdapter<N> {
    type Interrupt = N::Interrupt;

    fn mtu(&self) -> usize {
        self.mtu
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.nic.has_room()
    }

    #[inline(always)]
    unsafe fn transmit(
        &mut self,
        node: u32,
        header: &[u8],
        inline: &[u8],
        lent: [Lent; 2],
        cookie: u16,
    ) -> bool {
        let head_len = header.len() + inline.len();
        let Some(front) = self.fronts.get(usize::from(cookie)).filter(|_| head_len <= FRONT_BYTES) else {
            return false;
        };
        let known = &self.places[node as usize % PLACES];
        let place = if known.rank == node { known } else { self.place_by_rank(node) };
        {
            // SAFETY: the caller promises that no frame with this cookie is in flight, so the device does not read
            // this front, and `&mut self` keeps everybody else away.
            let fields = unsafe { &mut *front.0.get() };
            (fields.destination, fields.destination_rest) = (place.first, place.rest);
            (fields.ether_type, fields.target) = (place.ether_type, node.to_le());
            copy_front(&mut fields.packet, header, inline);
        }
        let pointer = front.0.get().cast_const().cast::<u8>().wrapping_add(FRAME);
        let front = Lent { pointer, len: FRAME_HEADER + head_len };
        // SAFETY: the front has its headroom, which nobody writes. Nobody writes the front until the cookie is used again,
        // nor what is lent: the caller promises both to last until the cookie comes back.
        unsafe { self.nic.transmit(front, lent, cookie) }
    }

    #[cold]
    unsafe fn transmit_by_rank(&mut self, node: u32, front: &[u8], cookie: u16) -> bool {
        let at = node as usize % PLACES;
        let known = core::mem::replace(&mut self.places[at], StationAddress::new(node, mac(node), false));
        // SAFETY: the caller's promise.
        let taken = unsafe { self.transmit(node, front, &[], [Lent::NONE; 2], cookie) };
        self.places[at] = known;
        taken
    }

    #[inline]
    fn reclaim(&mut self) -> Option<(u16, Outcome)> {
        self.nic.reclaim().map(|cookie| (cookie, Outcome::Sent))
    }

    #[inline(always)]
    fn receive(&mut self) -> Option<RxBuffer> {
        loop {
            let (memory, len) = self.nic.receive()?;
            if let Some(frame) = memory.get(Self::FRAME_START - BEFORE..Self::FRAME_START + len)
                && let Some(source) = self.accept(frame)
            {
                let len = len - FRAME_HEADER;
                return Some(RxBuffer::new(memory, Self::BODY_START as u16, len as u16).sent_by(source));
            }
            self.nic.lend(memory);
        }
    }

    #[cold]
    fn learn(&mut self, came: &RxBuffer) {
        let Some((_, header)) = came.before().split_last_chunk::<FRAME_HEADER>() else { return };
        let &[_, _, _, _, _, _, a, b, c, d, e, f, ..] = header;
        let (rank, station) = (came.source(), [a, b, c, d, e, f]);
        if !is_station(station) {
            return;
        }
        let mut heard = StationAddress::new(rank, station, station != mac(rank));
        let mut is_shared = station == self.station && rank != self.node;
        for place in self.places.iter_mut() {
            if (place.first, place.rest) == (heard.first, heard.rest) && place.rank != rank {
                (place.rank, is_shared) = (NOBODY, true);
            }
        }
        if is_shared {
            heard.rank = NOBODY;
        }
        self.places[rank as usize % PLACES] = heard;
    }

    #[inline]
    fn recycle(&mut self, buffer: RxBuffer) {
        self.nic.lend(buffer.into_memory());
    }

    #[inline]
    fn flush(&mut self) {
        self.nic.flush();
    }

    fn kick_again(&mut self) {
        self.nic.kick_again();
    }

    fn arm(&mut self, sent: bool) -> bool {
        self.nic.arm(sent)
    }

    fn watch(&self) -> Option<Watch> {
        self.nic.watch()
    }

    fn interrupt(&self) -> N::Interrupt {
        self.nic.interrupt()
    }

    fn faults(&self) -> AdapterFaults {
        AdapterFaults {
            rings: self.nic.faults(),
            runts: self.runts,
            foreign: self.foreign,
            stray: self.stray,
            reliability: Reliability::default(),
        }
    }
}
