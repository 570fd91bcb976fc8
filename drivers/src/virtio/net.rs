//! A virtio network card: frames on a receive and a transmit queue (SPEC D-1).
//!
//! In front of each frame lie 12 bytes of virtio's own, all zero: no offloads. A frame that leaves is a chain of up to three
//! descriptors: those bytes and the frame's front, then what is lent. A frame that arrives lies in one buffer.

use super::queue::{Piece, Rings, Virtqueue};
use super::{Hal, Transport, VirtioError, mmio, negotiate};
use crate::nic::{ETHERNET_MTU, HEADROOM, Lent, Nic, RX_BUFFERS, Watch, is_station};
use alloc::boxed::Box;
use core::ptr::NonNull;

const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;
const TX_DESCRIPTORS: usize = 256;
/// A frame's front and at most two lent pieces.
const MOST_PIECES: u16 = 3;
/// virtio's own header.
const HEADER: usize = HEADROOM;

/// A virtio network card.
pub struct VirtioNet<H, T: Transport = mmio::MmioTransport> {
    transport: T,
    receive: Virtqueue<RX_BUFFERS, H>,
    transmit: Virtqueue<TX_DESCRIPTORS, H>,
    /// By head descriptor: the cookie of the frame.
    cookies: Box<[u16; TX_DESCRIPTORS]>,
    /// By head descriptor: the buffer that the device has.
    buffers: Box<[Option<NonNull<[u8]>>; RX_BUFFERS]>,
    /// Where virtio's header begins in a buffer, and how many bytes it and a frame have at most.
    start: usize,
    most: usize,
    mtu: u16,
    station: Option<[u8; 6]>,
}

// SAFETY: the pointers in `buffers` are each the only way to their memory; the card as a whole may move between harts
// as the buffers could.
unsafe impl<H: Hal, T: Transport> Send for VirtioNet<H, T> {}

impl<H: Hal, T: Transport> VirtioNet<H, T> {
    /// Brings up the network card behind `transport`. Allocates its queues, and nothing later.
    ///
    /// # Errors
    /// Why the device cannot be used.
    pub fn new(transport: T) -> Result<Self, VirtioError> {
        let (mut setup, config) = negotiate(transport)?;
        // Never freed: the device knows where they are.
        let receive = Virtqueue::new(Box::leak(Box::new(Rings::new())));
        let transmit = Virtqueue::new(Box::leak(Box::new(Rings::new())));
        setup.queue::<H>(RECEIVE, RX_BUFFERS as u16, receive.addresses())?;
        setup.queue::<H>(TRANSMIT, TX_DESCRIPTORS as u16, transmit.addresses())?;
        Ok(Self {
            transport: setup.go::<H>()?,
            receive,
            transmit,
            cookies: Box::new([0; TX_DESCRIPTORS]),
            buffers: Box::new([None; RX_BUFFERS]),
            start: 0,
            most: 0,
            mtu: config.mtu.unwrap_or(ETHERNET_MTU),
            station: config.mac.filter(|&mac| is_station(mac)),
        })
    }
}

/// Memory as the device sees it.
#[inline]
fn piece<H: Hal>(pointer: *const u8, len: usize) -> Piece {
    Piece { address: H::device_address(pointer), len: len as u32 }
}

impl<H: Hal, T: Transport> VirtioNet<H, T> {
    /// Adds a frame of a front and what is lent.
    ///
    /// # Safety
    /// As that of [`Virtqueue::add`], for all of them.
    #[inline(never)]
    unsafe fn add_chain(&mut self, front: Piece, lent: [Lent; 2]) -> Option<u16> {
        let mut pieces = [front; MOST_PIECES as usize];
        let mut count = 1;
        for bytes in lent.iter().filter(|bytes| bytes.len != 0) {
            pieces[count] = piece::<H>(bytes.pointer, bytes.len);
            count += 1;
        }
        // SAFETY: the caller's promise.
        unsafe { self.transmit.add(&pieces[..count], false) }
    }

    #[cold]
    #[inline(never)]
    fn lend_again(&mut self, buffer: &'static mut [u8]) {
        self.lend(buffer);
    }
}

impl<H: Hal, T: Transport> Nic for VirtioNet<H, T> {
    type Interrupt = T::Interrupt;

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn station(&self) -> Option<[u8; 6]> {
        self.station
    }

    // Without its control queue the device takes all frames: others' are its user's to drop.
    fn start(&mut self, _own: [[u8; 6]; 2], start: usize, most: usize) {
        (self.start, self.most) = (start.saturating_sub(HEADER), HEADER + most);
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.transmit.room() >= MOST_PIECES
    }

    #[inline(always)]
    unsafe fn transmit(&mut self, front: Lent, lent: [Lent; 2], cookie: u16) -> bool {
        let front = piece::<H>(front.pointer.wrapping_sub(HEADER), front.len + HEADER);
        // SAFETY: the caller promises all pieces to last unchanged until the cookie comes back, which it does when the
        // chain has.
        let added = unsafe {
            if lent.iter().all(|bytes| bytes.len == 0) {
                self.transmit.add(&[front], false)
            } else {
                self.add_chain(front, lent)
            }
        };
        let Some(head) = added else { return false };
        self.cookies[usize::from(head)] = cookie;
        true
    }

    #[inline(always)]
    fn reclaim(&mut self) -> Option<u16> {
        self.transmit.take_used().map(|done| self.cookies[usize::from(done.head)])
    }

    fn lend(&mut self, buffer: &'static mut [u8]) {
        // The device will write all of it; a buffer that is not one of the user's own stays out.
        if buffer.len() < self.start + self.most {
            return;
        }
        let pointer = NonNull::from(buffer);
        let start = pointer.cast::<u8>().as_ptr().wrapping_add(self.start);
        let piece = piece::<H>(start, self.most);
        // SAFETY: this is the only reference to the buffer, and it is long enough. It stays in `buffers` until the device
        // has given the chain back.
        if let Some(head) = unsafe { self.receive.add(&[piece], true) } {
            self.buffers[usize::from(head)] = Some(pointer);
        }
    }

    #[inline(always)]
    fn receive(&mut self) -> Option<(&'static mut [u8], usize)> {
        loop {
            let done = self.receive.take_used()?;
            let Some(mut pointer) = self.buffers[usize::from(done.head)].take() else { continue };
            // SAFETY: `lend` got the only reference to this memory and left it with the device, which has just
            // given it back; taking the pointer out of the table makes this the only reference again.
            let memory: &'static mut [u8] = unsafe { pointer.as_mut() };
            // A length that cannot be is given as 0, and counted already.
            if done.written != 0 {
                return Some((memory, (done.written as usize).saturating_sub(HEADER)));
            }
            self.lend_again(memory);
        }
    }

    #[inline(always)]
    fn flush(&mut self) {
        if self.transmit.publish() {
            self.transport.notify(TRANSMIT);
        }
        if self.receive.publish() {
            self.transport.notify(RECEIVE);
        }
    }

    #[cold]
    fn kick_again(&mut self) {
        for (queue, has) in [(TRANSMIT, self.transmit.outstanding()), (RECEIVE, self.receive.outstanding())] {
            if has > 0 {
                self.transport.notify(queue);
            }
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

    fn faults(&self) -> u64 {
        let rings = [self.receive.faults(), self.transmit.faults()];
        rings.iter().map(|faults| faults.ids + faults.lengths + faults.indices).sum()
    }
}
