//! The torus adapter: packets in Ethernet frames on a network card (SPEC D-1, D-2).
//!
//! | bytes | what |
//! |---|---|
//! | 0..6 | destination, [`mac`] of its rank |
//! | 6..12 | source, likewise |
//! | 12..14 | [`ETHERTYPE`] or [`ETHERTYPE_RELIABLE`], big-endian |
//! | 14.. | the packet ([`pami::packet`]), with the second type behind a link header ([`crate::link`]) |
//!
//! An address is reckoned from the rank, as the standard lets whoever administers a network do: nobody has to resolve one, a
//! node that is exchanged keeps its own, and a frame says its sender. So the address that a card or its node of the device
//! tree has is not used: a card that filters is told the reckoned one. Two jobs on one Ethernet would share addresses, and
//! want networks of their own.
//!
//! Between nodes each packet has a link header. What a node and the network itself say to each other is bare.
//!
//! A frame that leaves is gathered: these 14 bytes, the packet's header and inline data from memory of the adapter's own,
//! then what the sender lent. A frame that arrives lies in one buffer, placed so that the packet's payload is aligned to
//! 64 bytes.

use crate::adapter::{
    Adapter, AdapterFaults, COOKIES, FABRIC, FRONT_BYTES, Lent, MOST_BULK, Outcome, RX_BUFFERS, Reliability,
    RxBuffer, Watch, copy_front,
};
use crate::link::LINK_BYTES;
use crate::nic::{ETHERNET_HEADER, HEADROOM, Nic, SmallMtu, TAILROOM};
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

/// The first two bytes of each hardware address: locally administered, not a group.
const MAC_PREFIX: [u8; 2] = [0x02, 0x50];

/// About how many bytes of heap an adapter takes at most.
pub const HEAP_BYTES: usize = RX_BUFFERS * (MOST_BULK + 128 + TAILROOM);

/// The hardware address of the node with this rank; that of [`FABRIC`] is the network's own.
pub const fn mac(rank: u32) -> [u8; 6] {
    let [a, b, c, d] = rank.to_be_bytes();
    let [p0, p1] = MAC_PREFIX;
    [p0, p1, a, b, c, d]
}

/// Where the packet begins in a front: at a word, as its headers are copied by words then.
const BODY: usize = (HEADROOM + ETHERNET_HEADER).next_multiple_of(8);
/// Where the frame begins in a front.
const FRAME: usize = BODY - ETHERNET_HEADER;
/// Bytes in front of a frame that came in, so that its addresses lie at words.
const BEFORE: usize = 2;

/// The front of a frame in flight: written by this side while its cookie is free, then read by the device.
#[repr(align(64))]
struct Front(UnsafeCell<[u8; BODY + FRONT_BYTES]>);

// SAFETY: only `TorusAdapter::transmit` writes it, with the adapter borrowed mutably.
unsafe impl Sync for Front {}

/// A network card on the torus, to be wrapped: in what mends losses, or in what counts on none.
pub struct TorusAdapter<N: Nic> {
    nic: N,
    /// By cookie. Never freed: the device reads them.
    fronts: &'static [Front],
    /// This node's address, as the upper bytes of a little-endian word have it.
    own: u64,
    mtu: usize,
    runts: u64,
    foreign: u64,
    stray: u64,
}

impl<N: Nic> TorusAdapter<N> {
    /// Where what follows the Ethernet header lies in a receive buffer, which is aligned to 64: the packet's payload
    /// then begins at a multiple of 64.
    const BODY_START: usize = 128 - LINK_BYTES - HEADER_BYTES;
    const FRAME_START: usize = Self::BODY_START - ETHERNET_HEADER;
    /// Most bytes behind a packet's header.
    const MOST_BODY: usize = MOST_BULK + LINK_BYTES;

    /// Starts `nic` for the node with rank `node`. Allocates all its memory, for the card's MTU, or [`MOST_BULK`] if that is
    /// less: about [`HEAP_BYTES`].
    ///
    /// # Errors
    /// [`SmallMtu`].
    pub fn new(mut nic: N, node: u32) -> Result<Self, SmallMtu> {
        let frame_mtu = nic.mtu();
        let header = HEADER_BYTES as u16;
        let mtu = frame_mtu.checked_sub(header).filter(|&mtu| mtu >= LEAST_MTU).ok_or(SmallMtu(frame_mtu))?;
        // The device says what it could carry; what buffers take is not for it to say.
        let mtu = usize::from(mtu).min(Self::MOST_BODY);
        let own = mac(node);
        nic.start(own, Self::FRAME_START, ETHERNET_HEADER + HEADER_BYTES + mtu);
        for buffer in aligned(Self::BODY_START + HEADER_BYTES + mtu + TAILROOM, nic.line()) {
            nic.lend(buffer);
        }
        nic.flush();
        let mut front = [0; BODY + FRONT_BYTES];
        // What is the same in all frames: whose they are, and how all addresses begin.
        front[FRAME..FRAME + 2].copy_from_slice(&MAC_PREFIX);
        front[FRAME + 6..FRAME + 12].copy_from_slice(&own);
        let fronts = Box::leak((0..COOKIES).map(|_| Front(UnsafeCell::new(front))).collect());
        let [a, b, c, d, e, f] = own;
        let own = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        Ok(Self { nic, fronts, own, mtu, runts: 0, foreign: 0, stray: 0 })
    }

    /// The EtherType between this node and `node`.
    #[inline]
    const fn ether_type(node: u32) -> u16 {
        if node == FABRIC { ETHERTYPE } else { ETHERTYPE_RELIABLE }
    }

    /// Who sent a frame that has [`BEFORE`] bytes in front of it, if it is one for this node; counts it if not.
    #[inline]
    fn accept(&mut self, frame: &[u8]) -> Option<u32> {
        let Some((header, body)) = frame.split_first_chunk::<{ BEFORE + ETHERNET_HEADER }>() else {
            self.runts += 1;
            return None;
        };
        // What is in front, then the target; the source, then the EtherType.
        let ([target, source], _) = header.as_chunks() else { return None };
        let source = word(source);
        let [p0, p1, a, b, c, d, ..] = source.to_le_bytes();
        let rank = u32::from_be_bytes([a, b, c, d]);
        let is_of = |ether_type: u16| (source >> 48) as u16 == u16::from_le_bytes(ether_type.to_be_bytes());
        let least = if is_of(ETHERTYPE_RELIABLE) { LINK_BYTES } else { HEADER_BYTES };
        let count = if !is_of(Self::ether_type(rank)) || [p0, p1] != MAC_PREFIX {
            &mut self.foreign
        } else if word(target) >> (8 * BEFORE) != self.own {
            &mut self.stray
        } else if body.len() < least {
            &mut self.runts
        } else {
            return Some(rank);
        };
        *count += 1;
        None
    }
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
        {
            // SAFETY: the caller promises that no frame with this cookie is in flight, so the device does not read
            // this front, and `&mut self` keeps everybody else away.
            let bytes = unsafe { &mut *front.0.get() };
            bytes[FRAME + 2..FRAME + 6].copy_from_slice(&node.to_be_bytes());
            bytes[BODY - 2..BODY].copy_from_slice(&Self::ether_type(node).to_be_bytes());
            copy_front(&mut bytes[BODY..], header, inline);
        }
        let pointer = front.0.get().cast_const().cast::<u8>().wrapping_add(FRAME);
        let front = Lent { pointer, len: ETHERNET_HEADER + head_len };
        // SAFETY: the front has its headroom, which nobody writes. Nobody writes the front until the cookie is used again,
        // nor what is lent: the caller promises both to last until the cookie comes back.
        unsafe { self.nic.transmit(front, lent, cookie) }
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
                let len = len - ETHERNET_HEADER;
                return Some(RxBuffer::new(memory, Self::BODY_START as u16, len as u16).sent_by(source));
            }
            self.nic.lend(memory);
        }
    }

    #[inline]
    fn recycle(&mut self, buffer: RxBuffer) {
        self.nic.lend(buffer.into_memory());
    }

    #[inline]
    fn flush(&mut self) {
        self.nic.flush();
    }

    fn kick(&mut self) {
        self.nic.kick();
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
