//! Frames of the tree network on the queues of a virtio network card (SPEC D-1, D-9).
//!
//! | bytes | what |
//! |---|---|
//! | 0..12 | virtio's own header, all zero: no offloads |
//! | 12..24 | destination and source, [`mac`] of a rank |
//! | 24..26 | [`ETHER_TYPE`], big-endian |
//! | 26.. | the packet ([`pami::combine::packet`]) |
//!
//! A frame that leaves is written to a slot of the adapter's own, so that the caller's bytes are its own again at once:
//! packets are small, and results come back into another place anyway. A frame that arrives lies in one buffer, placed
//! so that the payload is aligned to 64 bytes.

use super::counters::TreeFaults;
use crate::adapter::RxBuffer;
use crate::virtio::queue::{Piece, Rings, Virtqueue};
use crate::virtio::{Hal, Transport, VirtioError, negotiate};
use alloc::boxed::Box;
use alloc::vec;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use pami::combine::packet::{ETHER_TYPE, HEADER_BYTES, Header, MOST_PAYLOAD, NETWORK, mac};
use pami::combine::{CLASS_ROUTES, Envelope, WINDOW};
use zerocopy::IntoBytes;

const VIRTIO_HEADER: usize = 12;
const FRAME_HEADER: usize = VIRTIO_HEADER + 14;
const FRONT: usize = FRAME_HEADER + HEADER_BYTES;
const LINE: usize = 64;
/// Where a frame begins in a receive buffer: its payload then lies at a multiple of 64.
const FRAME_START: usize = LINE - FRONT;
/// Least payload of a packet for the adapter to be of any use, in bytes.
const LEAST_PAYLOAD: usize = 64;
/// MTU of a device that does not say: that of plain Ethernet.
const ETHERNET_MTU: u16 = 1500;

const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;
/// One for every credit of every class route, and some for notices, which are read at once.
const RX_BUFFERS: usize = CLASS_ROUTES * WINDOW as usize + 16;
const RX_DESCRIPTORS: usize = 256;
const TX_SLOTS: usize = 64;

/// A frame on its way out: written by this side while its slot is free, then read by the device.
#[repr(align(64))]
struct Slot(UnsafeCell<[u8; FRONT + MOST_PAYLOAD]>);

// SAFETY: only `Card::send` writes it, with the card borrowed mutably.
unsafe impl Sync for Slot {}

/// The card.
pub(super) struct Card<H, T: Transport> {
    transport: T,
    receive: Virtqueue<RX_DESCRIPTORS, H>,
    transmit: Virtqueue<TX_SLOTS, H>,
    /// By head descriptor: one frame is one descriptor. Never freed: the device reads them.
    slots: &'static [Slot],
    /// By head descriptor: the buffer that the device has.
    buffers: [Option<NonNull<[u8]>>; RX_DESCRIPTORS],
    /// Slots that are free, by number; the first `free`.
    stack: [u8; TX_SLOTS],
    free: usize,
    /// By head descriptor: the slot of the frame.
    slot_of: [u8; TX_SLOTS],
    own: [u8; 6],
    payload: usize,
    /// What was wrong with frames.
    faults: TreeFaults,
}

// SAFETY: the pointers in `buffers` are each the only way to their memory; the card as a whole may move between harts
// as the buffers could.
unsafe impl<H: Hal, T: Transport> Send for Card<H, T> {}

impl<H: Hal, T: Transport> Card<H, T> {
    /// About how many bytes of heap it takes.
    pub(super) const HEAP_BYTES: usize =
        RX_BUFFERS * (LINE + MOST_PAYLOAD) + TX_SLOTS * size_of::<Slot>() + (32 << 10);

    pub(super) fn new(transport: T, node: u32) -> Result<Self, VirtioError> {
        let (mut setup, config) = negotiate(transport)?;
        let mtu = config.mtu.unwrap_or(ETHERNET_MTU);
        // Whole elements of any type.
        let payload = usize::from(mtu).saturating_sub(HEADER_BYTES).min(MOST_PAYLOAD) & !7;
        if payload < LEAST_PAYLOAD {
            return Err(VirtioError::Mtu(mtu));
        }
        // Never freed: the device knows where they are.
        let receive = Virtqueue::new(Box::leak(Box::new(Rings::new())));
        let transmit = Virtqueue::new(Box::leak(Box::new(Rings::new())));
        setup.queue::<H>(RECEIVE, RX_DESCRIPTORS as u16, receive.addresses())?;
        setup.queue::<H>(TRANSMIT, TX_SLOTS as u16, transmit.addresses())?;
        let slots = (0..TX_SLOTS).map(|_| Slot(UnsafeCell::new([0; FRONT + MOST_PAYLOAD])));
        let mut card = Self {
            transport: setup.go::<H>()?,
            receive,
            transmit,
            slots: Box::leak(slots.collect()),
            buffers: [None; RX_DESCRIPTORS],
            stack: core::array::from_fn(|slot| slot as u8),
            free: TX_SLOTS,
            slot_of: [0; TX_SLOTS],
            own: mac(node),
            payload,
            faults: TreeFaults::default(),
        };
        let stride = (LINE + payload).next_multiple_of(LINE);
        let memory = Box::leak(vec![0u8; RX_BUFFERS * stride + LINE].into_boxed_slice());
        let skip = memory.as_ptr().align_offset(LINE).min(LINE);
        for buffer in memory[skip..].chunks_exact_mut(stride).take(RX_BUFFERS) {
            card.lend(buffer);
        }
        card.flush();
        Ok(card)
    }

    /// Most bytes of payload of a packet, a multiple of 8.
    pub(super) fn payload(&self) -> usize {
        self.payload
    }

    /// Gives the device a buffer to receive into.
    pub(super) fn lend(&mut self, buffer: &'static mut [u8]) {
        let len = FRONT + self.payload;
        // The device will write all of it; a buffer that is not one of the card's own stays out.
        if buffer.len() < FRAME_START + len {
            return;
        }
        let pointer = NonNull::from(buffer);
        let start = pointer.cast::<u8>().as_ptr().wrapping_add(FRAME_START);
        let piece = Piece { address: H::device_address(start), len: len as u32 };
        // SAFETY: all of the piece lies in the buffer, which is the card's alone until the device has used it.
        if let Some(head) = unsafe { self.receive.add(&[piece], true) } {
            self.buffers[usize::from(head)] = Some(pointer);
        }
    }

    /// Whether [`send`](Self::send) has room.
    pub(super) fn has_room(&mut self) -> bool {
        self.reclaim();
        self.free > 0
    }

    /// Slots whose frames are done with become free.
    fn reclaim(&mut self) {
        while let Some(done) = self.transmit.take_used() {
            if let Some(place) = self.stack.get_mut(self.free) {
                *place = self.slot_of[usize::from(done.head)];
                self.free += 1;
            }
        }
    }

    /// Queues a packet to the network, with `payload` bytes that `fill` writes. Returns whether it did; if not, there was
    /// no room or too much payload.
    pub(super) fn send(&mut self, envelope: &Envelope, payload: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        if payload > self.payload || !self.has_room() {
            return false;
        }
        let number = self.stack[self.free - 1];
        let slot = &self.slots[usize::from(number)];
        let len = FRONT + payload;
        {
            // SAFETY: the slot is free, so the device does not read it, and `&mut self` keeps everybody else away.
            let bytes = unsafe { &mut *slot.0.get() };
            bytes[VIRTIO_HEADER..][..6].copy_from_slice(&mac(NETWORK));
            bytes[VIRTIO_HEADER + 6..][..6].copy_from_slice(&self.own);
            bytes[FRAME_HEADER - 2..FRAME_HEADER].copy_from_slice(&ETHER_TYPE.to_be_bytes());
            bytes[FRAME_HEADER..FRONT].copy_from_slice(Header::new(envelope, payload as u16).as_bytes());
            fill(&mut bytes[FRONT..len]);
        }
        let piece = Piece { address: H::device_address(slot.0.get().cast_const().cast()), len: len as u32 };
        // SAFETY: the piece lies in a slot of the slab, which is not written again before the device has used it.
        let Some(head) = (unsafe { self.transmit.add(&[piece], false) }) else { return false };
        self.slot_of[usize::from(head)] = number;
        self.free -= 1;
        true
    }

    /// Frames that the device has not sent yet.
    pub(super) fn unsent(&mut self) -> usize {
        self.reclaim();
        TX_SLOTS - self.free
    }

    /// The next packet from the network.
    pub(super) fn receive(&mut self) -> Option<RxBuffer> {
        loop {
            let done = self.receive.take_used()?;
            let Some(mut pointer) = self.buffers[usize::from(done.head)].take() else { continue };
            // SAFETY: `lend` got the only reference to this memory and left it with the device, which has just given
            // it back; taking the pointer out of the table makes this the only reference again.
            let memory: &'static mut [u8] = unsafe { pointer.as_mut() };
            let written = done.written as usize;
            // A length that cannot be is given as 0, and counted already.
            if written != 0
                && let Some(frame) = memory.get(FRAME_START..FRAME_START + written)
                && self.accept(frame)
            {
                let len = (written - FRAME_HEADER) as u16;
                return Some(RxBuffer::new(memory, (LINE - HEADER_BYTES) as u16, len));
            }
            self.lend(memory);
        }
    }

    /// Whether a frame is one from the network to this node; counts it if not.
    fn accept(&mut self, frame: &[u8]) -> bool {
        let Some(header) = frame.first_chunk::<FRONT>() else {
            self.faults.runts += 1;
            return false;
        };
        let [target, source] = [0, 6].map(|at| &header[VIRTIO_HEADER + at..][..6]);
        let ours =
            header[FRAME_HEADER - 2..FRAME_HEADER] == ETHER_TYPE.to_be_bytes() && *source == mac(NETWORK);
        self.faults.foreign += u64::from(!ours);
        self.faults.stray += u64::from(ours && *target != self.own);
        ours && *target == self.own
    }

    /// Shows the device what was queued and lent since the last time.
    pub(super) fn flush(&mut self) {
        if self.transmit.publish() {
            self.transport.notify(TRANSMIT);
        }
        if self.receive.publish() {
            self.transport.notify(RECEIVE);
        }
    }

    /// Asks for an interrupt when the next frame comes in and, if `sent`, when the next has been sent. Returns whether
    /// there is one already; then no interrupt may come for it.
    pub(super) fn arm(&mut self, sent: bool) -> bool {
        let received = self.receive.arm();
        // Both are armed, whatever the first says.
        (sent && self.transmit.arm()) || received
    }

    pub(super) fn interrupt(&self) -> T::Interrupt {
        self.transport.interrupt()
    }

    pub(super) fn faults(&self) -> TreeFaults {
        let rings = [self.receive.faults(), self.transmit.faults()];
        let rings = rings.iter().map(|faults| faults.ids + faults.lengths + faults.indices).sum();
        TreeFaults { rings, ..self.faults }
    }
}
