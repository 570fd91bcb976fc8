//! Frames of the tree network on a network card (SPEC D-1, D-9).
//!
//! | bytes | what |
//! |---|---|
//! | 0..12 | destination and source, [`mac`] of a rank |
//! | 12..14 | [`ETHER_TYPE`], big-endian |
//! | 14.. | the packet ([`pami::combine::packet`]) |
//!
//! A frame that leaves is written to a slot of the adapter's own, so that the caller's bytes are its own again at once:
//! packets are small, and results come back into another place anyway. A frame that arrives lies in one buffer, placed
//! so that the payload is aligned to 64 bytes.

use super::counters::TreeFaults;
use crate::adapter::RxBuffer;
use crate::nic::{self, ETHERNET_HEADER, HEADROOM, Lent, Nic, SmallMtu, TAILROOM};
use alloc::boxed::Box;
use alloc::vec;
use core::cell::UnsafeCell;
use pami::combine::packet::{
    ETHER_TYPE, HEADER_BYTES, MOST_PAYLOAD, NETWORK, SHIPPED_CALLS, TreeHeader, mac,
};
use pami::combine::{CLASS_ROUTES, TreeEnvelope, WINDOW};
use zerocopy::IntoBytes;

/// A frame's bytes before the packet's payload.
const FRONT: usize = ETHERNET_HEADER + HEADER_BYTES;
const LINE: usize = 64;
/// Where a frame begins in a receive buffer: its payload then lies at a multiple of 64.
const FRAME_START: usize = LINE - FRONT;
/// Least payload of a packet for the adapter to be of any use, in bytes.
const LEAST_PAYLOAD: usize = 64;

/// One for every credit of every class route and for every answer of the I/O node, and some for notices, which are read at once.
const RX_BUFFERS: usize = CLASS_ROUTES * WINDOW as usize + SHIPPED_CALLS + 16;
const _: () = assert!(RX_BUFFERS <= nic::RX_BUFFERS);
const TX_SLOTS: usize = 64;

/// A frame on its way out: written by this side while its slot is free, then read by the device.
#[repr(align(64))]
struct TxFrame(UnsafeCell<[u8; HEADROOM + FRONT + MOST_PAYLOAD]>);

// SAFETY: only `Card::send` writes it, with the card borrowed mutably.
unsafe impl Sync for TxFrame {}

/// The card.
pub(super) struct Card<N: Nic> {
    nic: N,
    /// A frame's cookie is the number of its slot. Never freed: the device reads them.
    slots: &'static [TxFrame],
    /// Slots that are free, by number; the first `free`.
    stack: [u8; TX_SLOTS],
    free: usize,
    own: [u8; 6],
    payload: usize,
    /// What was wrong with frames.
    faults: TreeFaults,
}

impl<N: Nic> Card<N> {
    /// About how many bytes of heap it takes.
    pub(super) const HEAP_BYTES: usize =
        RX_BUFFERS * (LINE + MOST_PAYLOAD + TAILROOM) + TX_SLOTS * size_of::<TxFrame>() + (32 << 10);

    pub(super) fn new(mut nic: N, node: u32) -> Result<Self, SmallMtu> {
        let mtu = nic.mtu();
        // Whole elements of any type.
        let payload = usize::from(mtu).saturating_sub(HEADER_BYTES).min(MOST_PAYLOAD) & !7;
        if payload < LEAST_PAYLOAD {
            return Err(SmallMtu(mtu));
        }
        let own = mac(node);
        nic.start([own; 2], FRAME_START, FRONT + payload);
        let line = nic.line();
        let stride = (LINE + payload + TAILROOM).next_multiple_of(line);
        let memory = Box::leak(vec![0u8; RX_BUFFERS * stride + line].into_boxed_slice());
        let skip = memory.as_ptr().align_offset(line).min(line);
        for buffer in memory[skip..].chunks_exact_mut(stride).take(RX_BUFFERS) {
            nic.lend(buffer);
        }
        nic.flush();
        let slots = (0..TX_SLOTS).map(|_| TxFrame(UnsafeCell::new([0; HEADROOM + FRONT + MOST_PAYLOAD])));
        Ok(Self {
            nic,
            slots: Box::leak(slots.collect()),
            stack: core::array::from_fn(|slot| slot as u8),
            free: TX_SLOTS,
            own,
            payload,
            faults: TreeFaults::default(),
        })
    }

    /// Most bytes of payload of a packet, a multiple of 8.
    pub(super) fn payload(&self) -> usize {
        self.payload
    }

    /// Gives the device a buffer to receive into.
    pub(super) fn lend(&mut self, buffer: &'static mut [u8]) {
        self.nic.lend(buffer);
    }

    /// Whether [`send`](Self::send) has room.
    pub(super) fn has_room(&mut self) -> bool {
        self.reclaim();
        self.free > 0
    }

    /// Slots whose frames are done with become free.
    fn reclaim(&mut self) {
        while let Some(slot) = self.nic.reclaim() {
            if let Some(place) = self.stack.get_mut(self.free) {
                *place = slot as u8;
                self.free += 1;
            }
        }
    }

    /// Queues a packet to the network, with `payload` bytes that `fill` writes. Returns whether it did; if not, there was
    /// no room or too much payload.
    pub(super) fn send(
        &mut self,
        envelope: &TreeEnvelope,
        payload: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        if payload > self.payload || !self.has_room() {
            return false;
        }
        let number = self.stack[self.free - 1];
        let slot = &self.slots[usize::from(number)];
        {
            // SAFETY: the slot is free, so the device does not read it, and `&mut self` keeps everybody else away.
            let (_, bytes) = unsafe { &mut *slot.0.get() }.split_at_mut(HEADROOM);
            bytes[..6].copy_from_slice(&mac(NETWORK));
            bytes[6..][..6].copy_from_slice(&self.own);
            bytes[ETHERNET_HEADER - 2..ETHERNET_HEADER].copy_from_slice(&ETHER_TYPE.to_be_bytes());
            bytes[ETHERNET_HEADER..FRONT]
                .copy_from_slice(TreeHeader::new(envelope, payload as u16).as_bytes());
            fill(&mut bytes[FRONT..FRONT + payload]);
        }
        let pointer = slot.0.get().cast_const().cast::<u8>().wrapping_add(HEADROOM);
        let frame = Lent { pointer, len: FRONT + payload };
        // SAFETY: the frame lies in a slot of the slab, behind its headroom, and is not written again before the slot is
        // free again.
        if !unsafe { self.nic.transmit(frame, [Lent::NONE; 2], u16::from(number)) } {
            return false;
        }
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
            let (memory, len) = self.nic.receive()?;
            if let Some(frame) = memory.get(FRAME_START..FRAME_START + len)
                && self.accept(frame)
            {
                return Some(RxBuffer::new(
                    memory,
                    (LINE - HEADER_BYTES) as u16,
                    (len - ETHERNET_HEADER) as u16,
                ));
            }
            self.nic.lend(memory);
        }
    }

    /// Whether a frame is one from the network to this node; counts it if not.
    fn accept(&mut self, frame: &[u8]) -> bool {
        let Some(header) = frame.first_chunk::<FRONT>() else {
            self.faults.runts += 1;
            return false;
        };
        let [target, source] = [0, 6].map(|at| &header[at..][..6]);
        let ours = header[ETHERNET_HEADER - 2..ETHERNET_HEADER] == ETHER_TYPE.to_be_bytes()
            && *source == mac(NETWORK);
        self.faults.foreign += u64::from(!ours);
        self.faults.stray += u64::from(ours && *target != self.own);
        ours && *target == self.own
    }

    /// Shows the device what was queued and lent since the last time.
    pub(super) fn flush(&mut self) {
        self.nic.flush();
    }

    /// Asks for an interrupt when the next frame comes in and, if `sent`, when the next has been sent. Returns whether
    /// there is one already; then no interrupt may come for it.
    pub(super) fn arm(&mut self, sent: bool) -> bool {
        self.nic.arm(sent)
    }

    pub(super) fn interrupt(&self) -> N::Interrupt {
        self.nic.interrupt()
    }

    pub(super) fn faults(&self) -> TreeFaults {
        TreeFaults { rings: self.nic.faults(), ..self.faults }
    }
}
