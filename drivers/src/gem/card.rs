//! The card: its start, frames out and in, interrupts, errors (SPEC B-5, D-1, D-9).

use super::phy::{self, Phy};
use super::registers::{Config, Control, Interrupts, Received, Register, Transmitted};
use super::rings::{DESCRIPTORS, MOST_PIECES, Receive, SHARED, Shared, Transmit, Words};
use super::{GemError, GemFaults, GemSetup};
use crate::nic::{Acknowledge, ETHERNET_HEADER, Hal, LINE, Lent, LinkMode, Nic, RX_BUFFERS, is_station};
use crate::registers::{Bus, Mmio};
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

const _: () = assert!(RX_BUFFERS <= DESCRIPTORS);

/// Bytes of a frame's checksum.
const CHECKSUM: usize = 4;
/// Longest frame, with its checksum, of a card that is not set up for longer ones.
const PLAIN_FRAME: usize = 1518;
/// Longest frame whose length a descriptor holds.
const MOST_FRAME: usize = 0x1fff;
/// The card takes buffers to be of a multiple of so many bytes.
const UNIT: usize = 64;
/// Rounds from one look at the card's status to the next.
const LOOK_EVERY: u32 = 256;
/// Least identity of a GEM; those before are other cards.
const LEAST_MODULE: u32 = 2;

/// A GEM.
pub struct Gem<H, B: Bus<Register> = Mmio<Register>> {
    bus: B,
    shared: Shared,
    receive: Receive,
    transmit: Transmit,
    coherent: bool,
    /// Whether interrupts are cleared by writing; else they are by reading.
    clears_by_write: bool,
    /// What the design says: whether addresses have 64 bits, width of its bus, longest frame with its checksum.
    long: bool,
    width: Config,
    longest: usize,
    link: LinkMode,
    phy: Option<u8>,
    control: Control,
    enabled: Interrupts,
    /// Where a frame begins in a buffer, most bytes of one, and bytes of a buffer of which the card may write all.
    start: usize,
    most: usize,
    room: usize,
    mtu: u16,
    station: Option<[u8; 6]>,
    /// Whether it was shown buffers.
    running: bool,
    rounds: u32,
    faults: GemFaults,
    hal: PhantomData<fn() -> H>,
}

// SAFETY: the pointers in `receive` are each the only way to their memory; the card as a whole may move between harts as
// the buffers could.
unsafe impl<H: Hal, B: Bus<Register>> Send for Gem<H, B> {}

/// Has the card behind `bus` neither send nor receive any more.
pub fn rest(bus: impl Bus<Register>) {
    bus.write(Register::CONTROL, 0);
}

impl<H: Hal, B: Bus<Register>> Gem<H, B> {
    /// Stops the card behind `bus` and waits for its link. Allocates its rings, and nothing later.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn new(bus: B, setup: GemSetup) -> Result<Self, GemError> {
        let module = bus.read(Register::MODULE);
        if module >> 16 & 0xfff < LEAST_MODULE {
            return Err(GemError::NotGem { module });
        }
        // Boot loaders leave the card with its address where the tree does not say it.
        let [low, high] = Register::address(0).map(|register| bus.read(register).to_le_bytes());
        let left = [low[0], low[1], low[2], low[3], high[0], high[1]];
        bus.write(Register::CONTROL, Control::CLEAR_STATISTICS.bits());
        bus.write(Register::INTERRUPT_DISABLE, u32::MAX);
        bus.write(Register::TRANSMIT_STATUS, u32::MAX);
        bus.write(Register::RECEIVE_STATUS, u32::MAX);
        let [one, two, six] =
            [Register::DESIGN_1, Register::DESIGN_2, Register::DESIGN_6].map(|it| bus.read(it));
        let long = six >> 23 & 1 != 0;
        if !long && setup.memory_end > 1 << 32 {
            return Err(GemError::Reach { memory_end: setup.memory_end });
        }
        // 1, 2 and 4 are widths of 32, 64 and 128 bits. The slowest clock of the management bus serves every board.
        let width = Config::from_bits_retain((one >> 25 & 7) >> 1 << 21 | 7 << 18);
        bus.write(Register::CONFIG, width.bits());
        bus.write(Register::CONTROL, Control::PHY.bits());
        let (link, phy) = phy::link(bus)?;
        let shared = shared::<H>(setup.coherent).and_then(Shared::new).ok_or(GemError::Incoherent)?;
        for queue in (1..8).filter(|queue| six >> queue & 1 != 0) {
            let low = |words: &[AtomicU32]| H::device_address(words.as_ptr().cast()) as u32;
            bus.write(Register::transmit_ring_of(queue), low(shared.idle_transmit));
            bus.write(Register::receive_ring_of(queue), low(shared.idle_receive));
            bus.write(Register::interrupt_disable_of(queue), u32::MAX);
        }
        let longest = (two as usize & 0x3fff).clamp(PLAIN_FRAME, MOST_FRAME);
        let mtu = (longest - ETHERNET_HEADER - CHECKSUM) as u16;
        Ok(Self {
            bus,
            receive: Receive::new(shared.receive, long),
            transmit: Transmit::new(shared.transmit, long),
            shared,
            coherent: setup.coherent,
            clears_by_write: one >> 23 & 1 == 0,
            long,
            width,
            longest,
            link,
            phy,
            control: Control::PHY,
            enabled: Interrupts::empty(),
            start: 0,
            most: 0,
            room: 0,
            mtu: setup.mtu.map_or(mtu, |told| told.min(mtu)),
            station: setup.station.or(Some(left).filter(|&left| is_station(left))),
            running: false,
            rounds: 0,
            faults: GemFaults::default(),
            hal: PhantomData,
        })
    }

    /// What the link is.
    pub fn link(&self) -> LinkMode {
        self.link
    }

    /// What went wrong so far.
    pub fn counts(&self) -> GemFaults {
        self.faults
    }

    /// Tells the card where a ring begins; it goes on from there.
    fn set_ring(&self, low: Register, high: Register, words: &'static Words) {
        let address = H::device_address(words.as_ptr().cast());
        if self.long {
            self.bus.write(high, (address >> 32) as u32);
        }
        self.bus.write(low, address as u32);
    }

    fn set_receive_ring(&self) {
        self.set_ring(Register::RECEIVE_RING, Register::RECEIVE_RING_HIGH, self.shared.receive);
    }

    fn set_transmit_ring(&self) {
        self.set_ring(Register::TRANSMIT_RING, Register::TRANSMIT_RING_HIGH, self.shared.transmit);
    }

    /// Where in a buffer the card is told to write: it moves on by what is left itself.
    fn target(&self) -> usize {
        self.start & !3
    }

    /// Looks at the card's status, and mends what is to be mended.
    #[cold]
    fn look(&mut self) {
        let sending = Transmitted::from_bits_truncate(self.bus.read(Register::TRANSMIT_STATUS));
        if sending.intersects(Transmitted::ERRORS) {
            self.bus.write(Register::TRANSMIT_STATUS, sending.bits());
            self.bus.write(Register::CONTROL, (self.control - Control::TRANSMIT).bits());
            self.transmit.restart();
            H::barrier();
            self.set_transmit_ring();
            self.bus.write(Register::CONTROL, self.control.bits());
        } else if !sending.contains(Transmitted::GOING) && self.transmit.has_unsent() {
            // It stopped just before it was told to go on.
            self.bus.write(Register::CONTROL, (self.control | Control::START).bits());
        }
        let receiving = Received::from_bits_truncate(self.bus.read(Register::RECEIVE_STATUS));
        if !receiving.is_empty() {
            self.bus.write(Register::RECEIVE_STATUS, receiving.bits());
            self.faults.overruns += u64::from(receiving.contains(Received::OVERRUN));
        }
        if receiving.contains(Received::BUS_ERROR) {
            self.faults.bus_errors += 1;
            self.bus.write(Register::CONTROL, (self.control - Control::RECEIVE).bits());
            let target = self.target();
            self.receive.restart(|buffer| Self::address_in(buffer, target));
            H::barrier();
            self.set_receive_ring();
            self.show();
        } else if receiving.contains(Received::NO_BUFFER) && self.receive.has_stock() {
            // It may have looked just before it was shown them. A card of several queues says so of those without a ring too.
            self.bus.write(Register::CONTROL, self.control.bits());
        }
    }

    /// The device's address of byte `at` of a buffer.
    fn address_in(buffer: NonNull<[u8]>, at: usize) -> u64 {
        H::device_address(buffer.cast::<u8>().as_ptr().cast_const().wrapping_add(at))
    }

    /// Gives the card what was queued and lent.
    fn show(&mut self) {
        // Whatever descriptors say is in memory before they are the card's.
        H::barrier();
        let sends = self.transmit.is_fresh();
        self.transmit.show();
        let lends = self.receive.is_fresh();
        let first = self.receive.show();
        // The card gives its last buffer back, then looks at the next; this gives the next, then looks at the last.
        H::barrier();
        let dry = lends && self.receive.ran_dry_at(first);
        self.faults.dry += u64::from(dry && self.running);
        self.running |= lends;
        if sends {
            self.bus.write(Register::CONTROL, (self.control | Control::START).bits());
        } else if dry {
            self.bus.write(Register::CONTROL, self.control.bits());
        }
    }

    #[cold]
    #[inline(never)]
    fn lend_again(&mut self, buffer: &'static mut [u8]) {
        self.faults.descriptors += 1;
        self.lend(buffer);
    }
}

/// Memory for the rings, all zero, never freed: the card knows where it is.
fn shared<H: Hal>(coherent: bool) -> Option<&'static [AtomicU32]> {
    if !coherent {
        return H::uncached(SHARED);
    }
    let words = Vec::leak((0..2 * SHARED).map(|_| AtomicU32::new(0)).collect());
    let skip = words.as_ptr().align_offset(SHARED * size_of::<AtomicU32>());
    words.get(skip..skip + SHARED)
}

impl<H: Hal, B: Bus<Register>> Nic for Gem<H, B> {
    type Interrupt = Interrupt<B>;

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn line(&self) -> usize {
        if self.coherent { LINE } else { H::line().max(LINE) }
    }

    fn station(&self) -> Option<[u8; 6]> {
        self.station
    }

    fn start(&mut self, own: [[u8; 6]; 2], start: usize, most: usize) {
        let most = most.min(self.longest - CHECKSUM);
        (self.start, self.most) = (start, most);
        self.room = (start % 4 + most).next_multiple_of(UNIT);
        for ([a, b, c, d, e, f], number) in own.into_iter().zip(0..) {
            let [low, high] = Register::address(number);
            self.bus.write(low, u32::from_le_bytes([a, b, c, d]));
            self.bus.write(high, u32::from_le_bytes([e, f, 0, 0]));
        }
        let jumbo = most + CHECKSUM > PLAIN_FRAME;
        if jumbo {
            self.bus.write(Register::JUMBO_LENGTH, (most + CHECKSUM) as u32);
        }
        let config = self.width
            | phy::config(self.link)
            | Config::STRIP_CHECKSUM
            | Config::NO_BROADCAST
            | if jumbo { Config::JUMBO } else { Config::empty() };
        self.bus.write(Register::CONFIG, config.bits() | (start as u32 % 4) << 14);
        // Bursts of 16, all packet memory, buffers of so many units, addresses of 64 bits.
        let dma = 0x10 | 7 << 8 | ((self.room / UNIT) as u32) << 16 | u32::from(self.long) << 30;
        self.bus.write(Register::DMA_CONFIG, dma);
        self.set_receive_ring();
        self.set_transmit_ring();
        // The card goes when it is shown the first buffers.
        self.control = Control::PHY | Control::RECEIVE | Control::TRANSMIT;
    }

    #[inline(never)]
    fn has_room(&self) -> bool {
        self.transmit.has_room()
    }

    #[inline(never)]
    unsafe fn transmit(&mut self, front: Lent, lent: [Lent; 2], cookie: u16) -> bool {
        if !self.has_room() {
            return false;
        }
        let mut pieces = [(0, 0); MOST_PIECES];
        let mut count = 0;
        for bytes in [front].iter().chain(&lent).filter(|bytes| bytes.len != 0) {
            if !self.coherent {
                // SAFETY: the caller promises that they can be read, and that nobody writes them.
                H::clean(unsafe { core::slice::from_raw_parts(bytes.pointer, bytes.len) });
            }
            pieces[count] = (H::device_address(bytes.pointer), bytes.len);
            count += 1;
        }
        self.transmit.add(&pieces[..count], cookie);
        true
    }

    #[inline(never)]
    fn reclaim(&mut self) -> Option<u16> {
        let (cookie, sent) = self.transmit.take()?;
        self.faults.unsent += u64::from(!sent);
        Some(cookie)
    }

    #[inline(never)]
    fn lend(&mut self, buffer: &'static mut [u8]) {
        let target = self.target();
        // The card may write all of its room; a buffer that is not one of the user's own stays out.
        if buffer.len() < target + self.room || !self.receive.has_room() {
            return;
        }
        let line = self.line();
        if !buffer.as_ptr().addr().is_multiple_of(line) || !buffer.len().is_multiple_of(line) {
            return;
        }
        if !self.coherent {
            // What harts wrote must not be written back over what the card writes.
            H::invalidate(buffer);
        }
        let buffer = NonNull::from(buffer);
        self.receive.add(buffer, Self::address_in(buffer, target));
    }

    #[inline(never)]
    fn receive(&mut self) -> Option<(&'static mut [u8], usize)> {
        loop {
            let (mut pointer, len) = self.receive.take()?;
            // SAFETY: `lend` got the only reference to this memory and left it with the card, which has just given it
            // back; the ring gives the pointer out once, so this is the only reference again.
            let memory: &'static mut [u8] = unsafe { pointer.as_mut() };
            if let Some(len) = len.filter(|&len| len <= self.most) {
                if !self.coherent {
                    // What was read ahead is from before the card wrote.
                    H::invalidate(&mut memory[..self.start + len]);
                }
                return Some((memory, len));
            }
            self.lend_again(memory);
        }
    }

    #[inline(never)]
    fn flush(&mut self) {
        if self.transmit.is_fresh() || self.receive.is_fresh() {
            self.show();
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(LOOK_EVERY) {
            self.look();
        }
    }

    fn arm(&mut self, sent: bool) -> bool {
        // What interrupts told so far is looked for below.
        self.interrupt().acknowledge();
        let wanted = Interrupts::RECEIVED
            | Interrupts::ERRORS
            | if sent { Interrupts::SENT } else { Interrupts::empty() };
        if wanted != self.enabled {
            self.bus.write(Register::INTERRUPT_DISABLE, (self.enabled - wanted).bits());
            self.bus.write(Register::INTERRUPT_ENABLE, (wanted - self.enabled).bits());
            self.enabled = wanted;
        }
        self.look();
        H::barrier();
        self.receive.has_come() || (sent && self.transmit.has_sent())
    }

    fn interrupt(&self) -> Interrupt<B> {
        Interrupt { bus: self.bus, clears_by_write: self.clears_by_write, phy: self.phy }
    }

    fn faults(&self) -> u64 {
        self.faults.descriptors + self.faults.unsent + self.faults.bus_errors
    }
}

/// Acknowledges the interrupts of one card, from any hart.
#[derive(Clone, Copy)]
pub struct Interrupt<B = Mmio<Register>> {
    bus: B,
    clears_by_write: bool,
    /// The address of its transceiver.
    phy: Option<u8>,
}

impl<B: Bus<Register>> Acknowledge for Interrupt<B> {
    fn acknowledge(&self) {
        let told = self.bus.read(Register::INTERRUPT_STATUS);
        if self.clears_by_write && told != 0 {
            self.bus.write(Register::INTERRUPT_STATUS, told);
        }
    }

    // Nothing is known of a transceiver that does not answer.
    fn link_is_up(&self, was: bool) -> bool {
        let Some(address) = self.phy else { return true };
        let phy = Phy::new(self.bus, address);
        let up = phy.is_up().unwrap_or(true);
        if let (true, false, Ok(mode)) = (up, was, phy.link()) {
            let rest = Config::from_bits_retain(self.bus.read(Register::CONFIG)) - Config::MODE;
            self.bus.write(Register::CONFIG, (rest | phy::config(mode)).bits());
        }
        up
    }
}
