//! The torus adapter: packets in Ethernet frames on a virtio network card (SPEC D-1, D-2).
//!
//! | bytes | what |
//! |---|---|
//! | 0..12 | virtio's own header, all zero: no offloads |
//! | 12..18 | destination, [`mac`] of its rank |
//! | 18..24 | source, likewise |
//! | 24..26 | [`ETHERTYPE`] or [`ETHERTYPE_RELIABLE`], big-endian |
//! | 26.. | the packet ([`pami::packet`]), with the second type behind a link header ([`crate::link`]) |
//!
//! Nodes that trust the network to lose nothing exchange bare packets; between others each packet has a link header.
//! Which it is, a type parameter says. What a node and the network itself say to each other is bare always.
//!
//! A frame that leaves is a chain of up to three descriptors: these 26 bytes, the packet's header and inline data
//! from memory of the adapter's own, then what the sender lent. A frame that arrives lies in one buffer, placed so
//! that the packet's payload is aligned to 64 bytes.

use crate::adapter::{
    Adapter, AdapterFaults, COOKIES, FABRIC, FRONT_BYTES, Lent, MOST_MTU, Outcome, RX_BUFFERS, Reliability,
    ReliableAdapter, RxBuffer, Watch,
};
use crate::link::LINK_BYTES;
use crate::virtio::queue::{Piece, Rings, Virtqueue};
use crate::virtio::{Hal, Transport, VirtioError, mmio, negotiate};
use alloc::boxed::Box;
use alloc::vec;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use pami::packet::HEADER_BYTES;

/// Ethernet protocol number of Pamir's packets: one of those for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;
/// That of frames with a link header.
pub const ETHERTYPE_RELIABLE: u16 = 0x88b6;
/// MTU of a device that does not say: that of plain Ethernet.
const ETHERNET_MTU: u16 = 1500;
/// Least payload of a packet for the adapter to be of any use, in bytes.
const LEAST_MTU: u16 = 64;

const VIRTIO_HEADER: usize = 12;
const FRAME_HEADER: usize = VIRTIO_HEADER + 14;
const LINE: usize = 64;

const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;
const TX_DESCRIPTORS: usize = 256;
/// A frame's own bytes and at most two lent pieces.
const MOST_PIECES: u16 = 3;

/// The first two bytes of each hardware address: locally administered, not a group.
const MAC_PREFIX: [u8; 2] = [0x02, 0x50];

/// About how many bytes of heap an adapter with packets of this payload takes.
pub const fn heap_bytes(mtu: usize) -> usize {
    RX_BUFFERS * (mtu + 128)
}

/// The hardware address of the node with this rank; that of [`FABRIC`] is the network's own.
pub const fn mac(rank: u32) -> [u8; 6] {
    let [a, b, c, d] = rank.to_be_bytes();
    let [p0, p1] = MAC_PREFIX;
    [p0, p1, a, b, c, d]
}

/// The front of a frame in flight: written by this side while its cookie is free, then read by the device.
#[repr(align(64))]
struct Front(UnsafeCell<[u8; FRAME_HEADER + FRONT_BYTES]>);

// SAFETY: only `TorusAdapter::transmit` writes it, with the adapter borrowed mutably.
unsafe impl Sync for Front {}

/// A virtio network card on the torus; for a network that loses nothing if `LOSSLESS`, else to be wrapped.
pub struct TorusAdapter<H, T: Transport = mmio::Transport, const LOSSLESS: bool = true> {
    transport: T,
    receive: Virtqueue<RX_BUFFERS, H>,
    transmit: Virtqueue<TX_DESCRIPTORS, H>,
    /// By cookie. Never freed: the device reads them.
    fronts: &'static [Front],
    /// By head descriptor: the cookie of the frame.
    cookies: [u16; TX_DESCRIPTORS],
    /// By head descriptor: the buffer that the device has.
    buffers: [Option<NonNull<[u8]>>; RX_BUFFERS],
    own: [u8; 6],
    mtu: usize,
    runts: u64,
    foreign: u64,
    stray: u64,
}

// SAFETY: the pointers in `buffers` are each the only way to their memory; the adapter as a whole may move between
// harts as the buffers could.
unsafe impl<H: Hal, T: Transport, const LOSSLESS: bool> Send for TorusAdapter<H, T, LOSSLESS> {}

impl<H: Hal, T: Transport, const LOSSLESS: bool> TorusAdapter<H, T, LOSSLESS> {
    /// Where what follows the Ethernet header lies in a receive buffer, which is aligned to 64: the packet's payload
    /// then begins at a multiple of 64.
    const BODY_START: usize = if LOSSLESS { 64 } else { 128 - LINK_BYTES } - HEADER_BYTES;
    const FRAME_START: usize = Self::BODY_START - FRAME_HEADER;
    /// Most bytes behind a packet's header.
    const MOST_BODY: usize = MOST_MTU + if LOSSLESS { 0 } else { LINK_BYTES };

    /// Brings up the network card behind `transport` for the node with rank `node`. Allocates all its memory, for
    /// the device's MTU, or [`MOST_MTU`] if that is less: about [`heap_bytes`].
    ///
    /// # Errors
    /// Why the device cannot be used.
    pub fn new(transport: T, node: u32) -> Result<Self, VirtioError> {
        let (mut setup, config) = negotiate(transport)?;
        let frame_mtu = config.mtu.unwrap_or(ETHERNET_MTU);
        let header = HEADER_BYTES as u16;
        let mtu = frame_mtu
            .checked_sub(header)
            .filter(|&mtu| mtu >= LEAST_MTU)
            .ok_or(VirtioError::Mtu(frame_mtu))?;
        // The device says what it could carry; what buffers take is not for it to say.
        let mtu = usize::from(mtu).min(Self::MOST_BODY);
        // Never freed: the device knows where they are.
        let receive = Virtqueue::new(Box::leak(Box::new(Rings::new())));
        let transmit = Virtqueue::new(Box::leak(Box::new(Rings::new())));
        setup.queue::<H>(RECEIVE, RX_BUFFERS as u16, receive.addresses())?;
        setup.queue::<H>(TRANSMIT, TX_DESCRIPTORS as u16, transmit.addresses())?;
        let own = mac(node);
        let mut front = [0; FRAME_HEADER + FRONT_BYTES];
        front[VIRTIO_HEADER + 6..VIRTIO_HEADER + 12].copy_from_slice(&own);
        let mut adapter = Self {
            transport: setup.go::<H>()?,
            receive,
            transmit,
            fronts: Box::leak((0..COOKIES).map(|_| Front(UnsafeCell::new(front))).collect()),
            cookies: [0; TX_DESCRIPTORS],
            buffers: [None; RX_BUFFERS],
            own,
            mtu,
            runts: 0,
            foreign: 0,
            stray: 0,
        };
        for buffer in aligned((Self::BODY_START + HEADER_BYTES + mtu).next_multiple_of(LINE)) {
            adapter.lend(buffer);
        }
        adapter.flush();
        Ok(adapter)
    }

    /// Gives the device a buffer to receive into.
    fn lend(&mut self, buffer: &'static mut [u8]) {
        let len = FRAME_HEADER + HEADER_BYTES + self.mtu;
        // The device will write all of it; a buffer that is not one of the adapter's own stays out.
        if buffer.len() < Self::FRAME_START + len {
            return;
        }
        let pointer = NonNull::from(buffer);
        let start = pointer.cast::<u8>().as_ptr().wrapping_add(Self::FRAME_START);
        let piece = Piece { address: H::device_address(start), len: len as u32 };
        // SAFETY: this is the only reference to the buffer, and it is long enough. It stays in `buffers` until the device
        // has given the chain back.
        if let Some(head) = unsafe { self.receive.add(&[piece], true) } {
            self.buffers[usize::from(head)] = Some(pointer);
        }
    }

    /// The EtherType between this node and `node`.
    #[inline]
    const fn ether_type(node: u32) -> u16 {
        if LOSSLESS || node == FABRIC { ETHERTYPE } else { ETHERTYPE_RELIABLE }
    }

    /// Who sent a frame, if it is one for this node; counts it if not.
    fn accept(&mut self, frame: &[u8]) -> Option<u32> {
        let Some((header, body)) = frame.split_first_chunk::<FRAME_HEADER>() else {
            self.runts += 1;
            return None;
        };
        let [_, _, _, _, _, _, _, _, _, _, _, _, target @ .., _, _, _, _, _, _, _, _] = header;
        let [.., s0, s1, a, b, c, d, high, low] = *header;
        let source = u32::from_be_bytes([a, b, c, d]);
        let ether_type = u16::from_be_bytes([high, low]);
        let least = if ether_type == ETHERTYPE_RELIABLE { LINK_BYTES } else { HEADER_BYTES };
        let count = if ether_type != Self::ether_type(source) || [s0, s1] != MAC_PREFIX {
            &mut self.foreign
        } else if *target != self.own {
            &mut self.stray
        } else if body.len() < least {
            &mut self.runts
        } else {
            return Some(source);
        };
        *count += 1;
        None
    }
}

/// [`RX_BUFFERS`] buffers of `stride` bytes, a multiple of 64, aligned to 64.
fn aligned(stride: usize) -> impl Iterator<Item = &'static mut [u8]> {
    let memory = Box::leak(vec![0u8; RX_BUFFERS * stride + LINE].into_boxed_slice());
    let skip = memory.as_ptr().align_offset(LINE).min(LINE);
    memory[skip..].chunks_exact_mut(stride).take(RX_BUFFERS)
}

impl<H: Hal, T: Transport, const LOSSLESS: bool> Adapter for TorusAdapter<H, T, LOSSLESS> {
    type Interrupt = T::Interrupt;

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn has_room(&self) -> bool {
        self.transmit.room() >= MOST_PIECES
    }

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
        if !self.has_room() {
            return false;
        }
        {
            // SAFETY: the caller promises that no frame with this cookie is in flight, so the device does not read
            // this front, and `&mut self` keeps everybody else away.
            let bytes = unsafe { &mut *front.0.get() };
            bytes[VIRTIO_HEADER..VIRTIO_HEADER + 6].copy_from_slice(&mac(node));
            bytes[FRAME_HEADER - 2..FRAME_HEADER].copy_from_slice(&Self::ether_type(node).to_be_bytes());
            bytes[FRAME_HEADER..][..header.len()].copy_from_slice(header);
            bytes[FRAME_HEADER + header.len()..][..inline.len()].copy_from_slice(inline);
        }
        let piece = |pointer, len: usize| Piece { address: H::device_address(pointer), len: len as u32 };
        let mut pieces =
            [piece(front.0.get().cast_const().cast(), FRAME_HEADER + head_len); MOST_PIECES as usize];
        let mut count = 1;
        for bytes in lent.iter().filter(|bytes| bytes.len != 0) {
            pieces[count] = piece(bytes.pointer, bytes.len);
            count += 1;
        }
        // SAFETY: nobody writes the front until the cookie is used again, nor what is lent: the caller promises both to
        // last until the cookie comes back, which it does when the chain has.
        let Some(head) = (unsafe { self.transmit.add(&pieces[..count], false) }) else { return false };
        self.cookies[usize::from(head)] = cookie;
        true
    }

    fn reclaim(&mut self) -> Option<(u16, Outcome)> {
        self.transmit.take_used().map(|done| (self.cookies[usize::from(done.head)], Outcome::Sent))
    }

    fn receive(&mut self) -> Option<RxBuffer> {
        loop {
            let done = self.receive.take_used()?;
            let Some(mut pointer) = self.buffers[usize::from(done.head)].take() else { continue };
            // SAFETY: `lend` got the only reference to this memory and left it with the device, which has just
            // given it back; taking the pointer out of the table makes this the only reference again.
            let memory: &'static mut [u8] = unsafe { pointer.as_mut() };
            let written = done.written as usize;
            // A length that cannot be is given as 0, and counted already.
            if written != 0
                && let Some(frame) = memory.get(Self::FRAME_START..Self::FRAME_START + written)
                && let Some(source) = self.accept(frame)
            {
                let len = written - FRAME_HEADER;
                return Some(RxBuffer::new(memory, Self::BODY_START as u16, len as u16).sent_by(source));
            }
            self.lend(memory);
        }
    }

    fn recycle(&mut self, buffer: RxBuffer) {
        self.lend(buffer.into_memory());
    }

    fn flush(&mut self) {
        if self.transmit.publish() {
            self.transport.notify(TRANSMIT);
        }
        if self.receive.publish() {
            self.transport.notify(RECEIVE);
        }
    }

    fn arm(&mut self, sent: bool) -> bool {
        let received = self.receive.arm();
        // Both are armed, whatever the first says.
        (sent && self.transmit.arm()) || received
    }

    fn watch(&self) -> Option<Watch> {
        Some(Watch { received: self.receive.progress(), sent: self.transmit.progress() })
    }

    fn interrupt(&self) -> T::Interrupt {
        self.transport.interrupt()
    }

    fn faults(&self) -> AdapterFaults {
        let rings = [self.receive.faults(), self.transmit.faults()]
            .iter()
            .map(|faults| faults.ids + faults.lengths + faults.indices)
            .sum();
        AdapterFaults {
            rings,
            runts: self.runts,
            foreign: self.foreign,
            stray: self.stray,
            reliability: Reliability::default(),
        }
    }
}

/// The fabric between the nodes holds its senders back; whether it loses anything is for its user to say.
impl<H: Hal, T: Transport> ReliableAdapter for TorusAdapter<H, T, true> {}
