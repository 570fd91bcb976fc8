//! A virtio network card made of nothing but the queues' addresses, for tests: reads and writes the rings as a
//! device does, and lies when it is told to.

use super::queue::Addresses;
use super::queue::need_event;
use super::{Acknowledge, Features, Hal, Status, Transport};
use core::cell::{Cell, RefCell};
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
use std::collections::VecDeque;
use std::format;
use std::string::String;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

/// Addresses and barriers of this process.
pub struct HostHal;
// SAFETY: the fake devices live in this process and take its addresses.
unsafe impl Hal for HostHal {
    fn barrier() {
        note("barrier".into());
        fence(Ordering::SeqCst);
    }
}

std::thread_local! {
    /// Barriers and what a card was told, in their order, on this thread while somebody takes note.
    static NOTES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

fn note(what: String) {
    NOTES.with_borrow_mut(|notes| notes.iter_mut().for_each(|notes| notes.push(what.clone())));
}

/// Runs `what` and returns the barriers and what cards were told meanwhile.
pub fn noted(what: impl FnOnce()) -> Vec<String> {
    NOTES.set(Some(Vec::new()));
    what();
    NOTES.take().unwrap()
}

/// The device's side of one queue.
#[derive(Clone, Copy, Debug)]
pub struct DeviceQueue {
    addresses: Addresses,
    size: u16,
    seen: u16,
    used: u16,
    signalled: u16,
}

/// A chain: head, and address, length and flags of each descriptor.
pub type Chain = (u16, Vec<(u64, u32, u16)>);

impl DeviceQueue {
    pub fn new(addresses: Addresses, size: u16) -> Self {
        Self { addresses, size, seen: 0, used: 0, signalled: 0 }
    }

    fn u16_at(address: u64, offset: usize) -> &'static AtomicU16 {
        // SAFETY: tests keep to offsets inside the rings, which are 'static and made of such atomics.
        unsafe { AtomicU16::from_ptr(with_exposed_provenance_mut::<u8>(address as usize).add(offset).cast()) }
    }

    fn u32_at(address: u64, offset: usize) -> &'static AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut::<u8>(address as usize).add(offset).cast()) }
    }

    fn u64_at(address: u64, offset: usize) -> &'static AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut::<u8>(address as usize).add(offset).cast()) }
    }

    fn place(&self, index: u16) -> usize {
        usize::from(index & (self.size - 1))
    }

    /// The next chain that the driver made available; asks for a notification of the one behind it if none is.
    pub fn take(&mut self) -> Option<Chain> {
        let available = self.addresses.available;
        let idx = Self::u16_at(available, 2);
        if idx.load(Ordering::Acquire) == self.seen {
            Self::u16_at(self.addresses.used, 4 + 8 * usize::from(self.size))
                .store(self.seen, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if idx.load(Ordering::Acquire) == self.seen {
                return None;
            }
        }
        let head = Self::u16_at(available, 4 + 2 * self.place(self.seen)).load(Ordering::Relaxed);
        self.seen = self.seen.wrapping_add(1);
        let mut chain = Vec::new();
        let mut id = head;
        loop {
            assert!(id < self.size && chain.len() < usize::from(self.size), "the chain leaves the table");
            let at = 16 * usize::from(id);
            let table = self.addresses.descriptors;
            let flags = Self::u16_at(table, at + 12).load(Ordering::Relaxed);
            chain.push((
                Self::u64_at(table, at).load(Ordering::Relaxed),
                Self::u32_at(table, at + 8).load(Ordering::Relaxed),
                flags,
            ));
            if flags & 1 == 0 {
                return Some((head, chain));
            }
            id = Self::u16_at(table, at + 14).load(Ordering::Relaxed);
        }
    }

    /// Puts an entry into the used ring, true or not. Returns whether the driver asked for an interrupt.
    pub fn put(&mut self, id: u32, len: u32) -> bool {
        let at = 4 + 8 * self.place(self.used);
        Self::u32_at(self.addresses.used, at).store(id, Ordering::Relaxed);
        Self::u32_at(self.addresses.used, at + 4).store(len, Ordering::Relaxed);
        self.set_used_index(self.used.wrapping_add(1));
        fence(Ordering::SeqCst);
        let event = Self::u16_at(self.addresses.available, 4 + 2 * usize::from(self.size));
        let old = core::mem::replace(&mut self.signalled, self.used);
        need_event(event.load(Ordering::Relaxed), self.used, old)
    }

    /// Sets the used index, whatever was used.
    pub fn set_used_index(&mut self, index: u16) {
        self.used = index;
        Self::u16_at(self.addresses.used, 2).store(index, Ordering::Release);
    }

    /// The descriptor behind `id`.
    pub fn next_of(&self, id: u16) -> u16 {
        Self::u16_at(self.addresses.descriptors, 16 * usize::from(id) + 14).load(Ordering::Relaxed)
    }

    /// The used index.
    pub fn used_index(&self) -> u16 {
        self.used
    }
}

/// Reads `len` bytes at a device address.
pub fn read(address: u64, len: u32) -> Vec<u8> {
    let pointer = with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: a driver under test gave it to the device to read.
    (0..len as usize).map(|i| unsafe { pointer.add(i).read() }).collect()
}

/// Writes `bytes` to a device address.
pub fn write(address: u64, bytes: &[u8]) {
    let pointer = with_exposed_provenance_mut::<u8>(address as usize);
    for (i, byte) in bytes.iter().enumerate() {
        // SAFETY: a driver under test gave it to the device to write, and the caller keeps to its length.
        unsafe { pointer.add(i).write(*byte) }
    }
}

/// The state of the card.
pub struct Card {
    pub id: u32,
    pub offered: u64,
    pub accepted: u64,
    pub refuses: bool,
    /// Its status stays what it is.
    pub stuck: bool,
    /// Wants to be reset once it has this in its status.
    pub breaks_at: u32,
    /// Its configuration is another one whenever somebody looks.
    pub unsteady: bool,
    generation: Cell<u32>,
    pub status: u32,
    pub queue_max: u32,
    pub config: [u8; 12],
    pub queues: [Option<DeviceQueue>; 2],
    pub notified: [u64; 2],
    /// Frames that found no buffer yet.
    pub waiting: VecDeque<Vec<u8>>,
}

/// A handle to the card; the driver's transport and the test's way in.
#[derive(Clone)]
pub struct FakeCard(pub Arc<Mutex<Card>>);

impl FakeCard {
    /// A card with all features and this MTU.
    pub fn new(mtu: u16) -> Self {
        let mut config = [0; 12];
        config[10..].copy_from_slice(&mtu.to_le_bytes());
        Self(Arc::new(Mutex::new(Card {
            id: 1,
            offered: 1 << 3 | 1 << 5 | 1 << 28 | 1 << 29 | 1 << 32 | 1 << 33,
            accepted: 0,
            refuses: false,
            stuck: false,
            breaks_at: u32::MAX,
            unsteady: false,
            generation: Cell::new(0),
            status: 0,
            queue_max: 256,
            config,
            queues: [None; 2],
            notified: [0; 2],
            waiting: VecDeque::new(),
        })))
    }

    pub fn card(&self) -> std::sync::MutexGuard<'_, Card> {
        self.0.lock().unwrap()
    }

    /// Sends the next frame that the driver queued: what it holds behind virtio's header, and whether the driver
    /// wants an interrupt.
    pub fn transmit(&self) -> Option<(Vec<u8>, bool)> {
        let mut card = self.card();
        let queue = card.queues[1].as_mut()?;
        let (head, chain) = queue.take()?;
        assert!(chain.iter().all(|&(_, _, flags)| flags & 2 == 0), "a frame to send is not writable");
        let frame: Vec<u8> = chain.iter().flat_map(|&(address, len, _)| read(address, len)).collect();
        let interrupt = queue.put(u32::from(head), 0);
        assert_eq!(frame[..12], [0; 12]);
        Some((frame[12..].to_vec(), interrupt))
    }

    /// Receives a frame, if the driver has a buffer for it. Returns whether the driver wants an interrupt.
    pub fn receive(&self, frame: &[u8]) -> Option<bool> {
        let mut card = self.card();
        let queue = card.queues[0].as_mut()?;
        let (head, chain) = queue.take()?;
        let [(address, len, 2)] = chain[..] else { panic!("one writable descriptor, not {chain:?}") };
        let bytes = [&[0; 12], frame].concat();
        assert!(bytes.len() <= len as usize);
        write(address, &bytes);
        Some(queue.put(u32::from(head), bytes.len() as u32))
    }
}

impl Acknowledge for NoInterrupt {
    fn acknowledge(&self) {}
}

/// The interrupt handle of a fake card: its interrupts need no acknowledgement.
#[derive(Clone, Copy)]
pub struct NoInterrupt;

impl Transport for FakeCard {
    type Interrupt = NoInterrupt;

    fn device_id(&self) -> u32 {
        self.card().id
    }
    fn offered(&mut self) -> Features {
        Features::from_bits_retain(self.card().offered)
    }
    fn accept(&mut self, features: Features) {
        self.card().accepted = features.bits();
    }
    fn status(&self) -> Status {
        let card = self.card();
        let status = Status::from_bits_retain(card.status);
        let status = if card.refuses { status.difference(Status::FEATURES_OK) } else { status };
        let broken = card.status & card.breaks_at == card.breaks_at;
        if broken { status | Status::NEEDS_RESET } else { status }
    }
    fn set_status(&mut self, status: Status) {
        note(format!("status {}", status.bits()));
        let mut card = self.card();
        if !card.stuck {
            card.status = status.bits();
        }
    }
    fn queue_max(&mut self, index: u16) -> u32 {
        if index < 2 { self.card().queue_max } else { 0 }
    }
    fn set_queue(&mut self, index: u16, size: u16, addresses: Addresses) {
        note(format!("queue {index}"));
        self.card().queues[usize::from(index)] = Some(DeviceQueue::new(addresses, size));
    }
    fn notify(&mut self, index: u16) {
        self.card().notified[usize::from(index)] += 1;
    }
    fn config_byte(&self, offset: usize) -> u8 {
        self.card().config[offset]
    }
    fn config_generation(&self) -> u32 {
        let card = self.card();
        card.generation.set(card.generation.get() + u32::from(card.unsteady));
        card.generation.get()
    }
    fn interrupt(&self) -> NoInterrupt {
        NoInterrupt
    }
}
