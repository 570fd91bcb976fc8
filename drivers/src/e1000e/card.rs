//! The card: its start, frames out and in, interrupts, errors (SPEC B-5, D-1, D-9).

use super::registers::{
    ADDRESSES, AT_ONCE, BY_MESSAGE, COPPER_GAP, CardControl, CardStatus, Causes, EEPROM_READ, IntelRegister,
    MULTICASTS, ONE_VECTOR, ReceiveControl, RingRegisters, TRANSMIT_AT_ONCE, TransmitControl, VALID,
};
use super::rings::{DESCRIPTORS, MOST_PIECES, RING_BYTES, ReceiveRing, RingWords, TransmitRing};
use super::{E1000eError, E1000eFaults};
use crate::nic::{Acknowledge, ETHERNET_HEADER, Hal, Lent, LinkMode, Nic, RX_BUFFERS, Told, is_station};
use crate::registers::{Bus, Mmio};
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

const _: () = assert!(RX_BUFFERS < DESCRIPTORS);

/// Bytes of a buffer that the card may be told of.
const LEAST_ROOM: usize = 256;
const MOST_ROOM: usize = 4096;
/// So often a register is looked at for what takes the card microseconds; for the link, which takes seconds. A look
/// takes a bus about half a microsecond.
const RESET_LOOKS: u32 = if cfg!(miri) { 1 << 4 } else { 1 << 14 };
const LINK_LOOKS: u32 = if cfg!(miri) { 1 << 4 } else { 1 << 23 };
/// Rounds from one look at the card's status to the next.
const LOOK_EVERY: u32 = 256;
/// After so many looks, between which nothing was sent of what is to be sent, the card stands still: about a tenth of a
/// second.
pub(super) const STILL_LOOKS: u32 = 1024;
/// So many buffers are worth a word to the card that has more.
const DOZEN: u16 = 12;

/// An 82574L.
pub struct E1000e<H, B: Bus<IntelRegister> = Mmio<IntelRegister>> {
    bus: B,
    interrupt: E1000eInterrupt<B>,
    receive: ReceiveRing,
    transmit: TransmitRing,
    /// What it says is its own, and what it takes frames for.
    station: Option<[u8; 6]>,
    own: [[u8; 6]; 2],
    link: LinkMode,
    enabled: Causes,
    by_message: bool,
    /// Where a frame begins in a buffer, most bytes of one, and bytes from there on of which the card may write all.
    start: usize,
    most: usize,
    room: usize,
    rounds: u32,
    /// As it was at the last look: whether the link was up, where the card was in its transmit ring, and looks since it
    /// got there.
    up: bool,
    sent_to: u32,
    still: u32,
    faults: E1000eFaults,
    hal: PhantomData<fn() -> H>,
}

// SAFETY: the pointers in `receive` are each the only way to their memory; the card as a whole may move between harts
// as the buffers could.
unsafe impl<H: Hal, B: Bus<IntelRegister>> Send for E1000e<H, B> {}

/// The address that a card which was reset has read from its memory.
fn station(bus: impl Bus<IntelRegister>) -> Option<[u8; 6]> {
    let high = bus.read(IntelRegister::address_high(0));
    let ([a, b, c, d], [e, f, ..]) =
        (bus.read(IntelRegister::address_low(0)).to_le_bytes(), high.to_le_bytes());
    let station = [a, b, c, d, e, f];
    (high & VALID != 0 && is_station(station)).then_some(station)
}

impl<H: Hal, B: Bus<IntelRegister>> E1000e<H, B> {
    /// Resets the card behind `bus` and waits for its link. Allocates its rings, and nothing later.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn new(bus: B) -> Result<Self, E1000eError> {
        reset(bus)?;
        let status = || CardStatus::from_bits_retain(bus.read(IntelRegister::STATUS));
        let up = (0..LINK_LOOKS).map(|_| status()).find(|status| status.contains(CardStatus::LINK_UP));
        Ok(Self {
            bus,
            interrupt: E1000eInterrupt { bus, changed: Box::leak(Box::new(AtomicBool::new(false))) },
            receive: ReceiveRing::new(),
            transmit: TransmitRing::new(),
            station: station(bus),
            own: [[0; 6]; 2],
            link: link(up.ok_or(E1000eError::NoLink)?),
            enabled: Causes::empty(),
            by_message: false,
            start: 0,
            most: 0,
            room: LEAST_ROOM,
            rounds: 0,
            up: true,
            sent_to: 0,
            still: 0,
            faults: E1000eFaults::default(),
            hal: PhantomData,
        })
    }

    /// The same, but that it interrupts by the first of its messages, not by its pin. To be called before it starts.
    #[must_use]
    pub fn by_message(self) -> Self {
        Self { by_message: true, ..self }
    }

    /// What the link is, or was when it was up.
    pub fn link(&self) -> LinkMode {
        self.link
    }

    /// What went wrong so far.
    pub fn counts(&self) -> E1000eFaults {
        self.faults
    }

    /// Tells the card of a ring of which it has nothing yet.
    fn set_ring(&self, ring: RingRegisters, words: &'static RingWords) {
        let address = H::device_address(core::ptr::from_ref(words).cast());
        let [low, high] = ring.base();
        self.bus.write(low, address as u32);
        self.bus.write(high, (address >> 32) as u32);
        self.bus.write(ring.bytes(), RING_BYTES as u32);
        self.bus.write(ring.head(), 0);
        self.bus.write(ring.tail(), 0);
    }

    /// Sets up a card that was reset, and lets it run.
    fn set_up(&self) {
        let bus = &self.bus;
        (0..MULTICASTS).for_each(|entry| bus.write(IntelRegister::multicast(entry), 0));
        (2..ADDRESSES).for_each(|entry| bus.write(IntelRegister::address_high(entry), 0));
        for ([a, b, c, d, e, f], entry) in self.own.into_iter().zip(0..) {
            bus.write(IntelRegister::address_low(entry), u32::from_le_bytes([a, b, c, d]));
            bus.write(IntelRegister::address_high(entry), u32::from_le_bytes([e, f, 0, 0]) | VALID);
        }
        for register in [
            IntelRegister::THROTTLE,
            IntelRegister::RECEIVE_DELAY,
            IntelRegister::RECEIVE_LATEST,
            IntelRegister::RECEIVE_CHECKSUM,
        ] {
            bus.write(register, 0);
        }
        if self.by_message {
            bus.write(IntelRegister::MORE_CONTROL, bus.read(IntelRegister::MORE_CONTROL) | BY_MESSAGE);
            bus.write(IntelRegister::FORGOTTEN, 0);
            bus.write(IntelRegister::VECTOR_THROTTLE, 0);
            bus.write(IntelRegister::VECTORS, ONE_VECTOR);
        }
        bus.write(IntelRegister::GAP, COPPER_GAP);
        bus.write(IntelRegister::RECEIVE_POLICY, AT_ONCE);
        bus.write(IntelRegister::TRANSMIT_POLICY, TRANSMIT_AT_ONCE);
        // Whatever descriptors say is in memory.
        H::barrier();
        self.set_ring(IntelRegister::RECEIVE_RING, self.receive.words());
        self.set_ring(IntelRegister::TRANSMIT_RING, self.transmit.words());
        let receive = ReceiveControl::ENABLE | ReceiveControl::JUMBO | ReceiveControl::STRIP_CHECKSUM;
        bus.write(IntelRegister::RECEIVE, (receive | ReceiveControl::buffers_of(self.room)).bits());
        let transmit = TransmitControl::ENABLE | TransmitControl::PAD | TransmitControl::COLLISIONS;
        bus.write(IntelRegister::TRANSMIT, transmit.bits());
        bus.write(IntelRegister::ENABLE, self.enabled.bits());
    }

    /// The device's address of where a frame begins in a buffer.
    fn address_in(buffer: NonNull<[u8]>, start: usize) -> u64 {
        H::device_address(buffer.cast::<u8>().as_ptr().cast_const().wrapping_add(start))
    }

    /// Looks at the card's status, and mends what is to be mended.
    #[cold]
    fn look(&mut self) {
        let status = CardStatus::from_bits_retain(self.bus.read(IntelRegister::STATUS));
        // One that is gone is not asked for more: its interrupt tells.
        if status == CardStatus::all() {
            return;
        }
        let up = status.contains(CardStatus::LINK_UP);
        if up && !self.up {
            self.link = link(status);
        }
        self.up = up;
        self.faults.overruns += u64::from(self.bus.read(IntelRegister::MISSED));
        // Without a link, frames wait. Who has it looked at counts how often it goes down.
        if !up || !self.transmit.has_unsent() {
            self.still = 0;
            return;
        }
        let sent_to = self.bus.read(IntelRegister::TRANSMIT_RING.head());
        self.still = if sent_to == self.sent_to { self.still + 1 } else { 0 };
        self.sent_to = sent_to;
        if self.still >= STILL_LOOKS {
            self.restart();
        }
    }

    /// Has the card begin anew.
    fn restart(&mut self) {
        self.faults.halts += 1;
        self.still = 0;
        // One that stays in its reset comes to nothing, and is reset again.
        let _ = reset(self.bus);
        self.transmit.restart();
        let start = self.start;
        self.receive.restart(|buffer| Self::address_in(buffer, start));
        self.set_up();
        self.show();
    }

    /// Gives the card what was queued and lent.
    fn show(&mut self) {
        // Whatever descriptors say is in memory before they are the card's.
        H::barrier();
        if self.transmit.is_fresh() {
            self.bus.write(IntelRegister::TRANSMIT_RING.tail(), self.transmit.show() as u32);
        }
        if self.receive.fresh().0 != 0 {
            self.bus.write(IntelRegister::RECEIVE_RING.tail(), self.receive.show() as u32);
        }
    }

    #[cold]
    #[inline(never)]
    fn lend_again(&mut self, buffer: &'static mut [u8]) {
        self.faults.descriptors += 1;
        self.lend(buffer);
    }
}

/// Stops a card, has it forget everything, and lets it look for its link.
fn reset<B: Bus<IntelRegister>>(bus: B) -> Result<(), E1000eError> {
    bus.write(IntelRegister::DISABLE, u32::MAX);
    bus.write(IntelRegister::RECEIVE, 0);
    bus.write(IntelRegister::TRANSMIT, 0);
    // What it is at ends before it is reset.
    bus.write(IntelRegister::CONTROL, CardControl::NO_MASTER.bits());
    let _ = (0..RESET_LOOKS).any(|_| bus.read(IntelRegister::STATUS) & CardStatus::MASTER.bits() == 0);
    bus.write(IntelRegister::CONTROL, (CardControl::NO_MASTER | CardControl::RESET).bits());
    let is_out = |_| {
        bus.read(IntelRegister::CONTROL) & CardControl::RESET.bits() == 0
            && bus.read(IntelRegister::EEPROM) & EEPROM_READ != 0
    };
    if !(0..RESET_LOOKS).any(is_out) {
        return Err(E1000eError::InReset);
    }
    bus.write(IntelRegister::DISABLE, u32::MAX);
    bus.write(IntelRegister::CAUSES, u32::MAX);
    let control = CardControl::FULL_DUPLEX | CardControl::DETECT_SPEED | CardControl::LINK_UP;
    bus.write(IntelRegister::CONTROL, control.bits());
    Ok(())
}

/// What the status says of a link that is up.
fn link(status: CardStatus) -> LinkMode {
    let speed = match () {
        () if status.contains(CardStatus::SPEED_1000) => 1000,
        () if status.contains(CardStatus::SPEED_100) => 100,
        () => 10,
    };
    LinkMode { speed, full_duplex: status.contains(CardStatus::FULL_DUPLEX) }
}

impl<H: Hal, B: Bus<IntelRegister>> Nic for E1000e<H, B> {
    type Interrupt = E1000eInterrupt<B>;

    fn mtu(&self) -> u16 {
        (MOST_ROOM - ETHERNET_HEADER) as u16
    }

    fn station(&self) -> Option<[u8; 6]> {
        self.station
    }

    fn start(&mut self, own: [[u8; 6]; 2], start: usize, most: usize) {
        (self.own, self.start, self.most) = (own, start, most.min(MOST_ROOM));
        self.room = self.most.next_power_of_two().max(LEAST_ROOM);
        self.set_up();
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
        // The card may write all of its room; a buffer that is not one of the user's own stays out.
        if buffer.len() < self.start + self.room || self.receive.len() >= RX_BUFFERS {
            return;
        }
        let buffer = NonNull::from(buffer);
        self.receive.add(buffer, Self::address_in(buffer, self.start));
    }

    #[inline(never)]
    fn receive(&mut self) -> Option<(&'static mut [u8], usize)> {
        loop {
            let (mut pointer, len) = self.receive.take()?;
            // SAFETY: `lend` got the only reference to this memory and left it with the card, which has just given it
            // back; the ring gives the pointer out once, so this is the only reference again.
            let memory: &'static mut [u8] = unsafe { pointer.as_mut() };
            if let Some(len) = len.filter(|&len| len <= self.most) {
                return Some((memory, len));
            }
            self.lend_again(memory);
        }
    }

    #[inline(never)]
    fn flush(&mut self) {
        let (fresh, has) = self.receive.fresh();
        if self.transmit.is_fresh() || fresh >= DOZEN || (fresh != 0 && has < 2 * DOZEN) {
            self.show();
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(LOOK_EVERY) {
            self.look();
        }
    }

    fn arm(&mut self, sent: bool) -> bool {
        // What interrupts told so far is looked for below.
        self.interrupt.acknowledge();
        let (received, was_sent) = if self.by_message {
            (Causes::RECEIVE_RING | Causes::OTHERS, Causes::TRANSMIT_RING)
        } else {
            (Causes::RECEIVED, Causes::SENT)
        };
        let wanted =
            received | Causes::OVERRUN | Causes::LINK | if sent { was_sent } else { Causes::empty() };
        if wanted != self.enabled {
            self.bus.write(IntelRegister::DISABLE, (self.enabled - wanted).bits());
            self.bus.write(IntelRegister::ENABLE, (wanted - self.enabled).bits());
            self.enabled = wanted;
        }
        self.look();
        H::barrier();
        self.receive.has_come() || (sent && self.transmit.has_sent())
    }

    fn interrupt(&self) -> E1000eInterrupt<B> {
        self.interrupt
    }

    fn faults(&self) -> u64 {
        self.faults.descriptors + self.faults.unsent + self.faults.halts
    }
}

/// Acknowledges the interrupts of one card, from any hart.
#[derive(Clone, Copy)]
pub struct E1000eInterrupt<B = Mmio<IntelRegister>> {
    bus: B,
    /// That the link changed, if it was told to one that only wanted the line back.
    changed: &'static AtomicBool,
}

impl<B: Bus<IntelRegister>> E1000eInterrupt<B> {
    /// What it told; it is cleared.
    fn take(&self) -> u32 {
        let told = self.bus.read(IntelRegister::CAUSES);
        // Reading clears it only while it interrupts.
        if told != 0 {
            self.bus.write(IntelRegister::CAUSES, told);
        }
        told
    }
}

impl<B: Bus<IntelRegister>> Acknowledge for E1000eInterrupt<B> {
    fn acknowledge(&self) {
        if self.take() & Causes::LINK.bits() != 0 {
            self.changed.store(true, Ordering::Relaxed);
        }
    }

    fn serve(&self) -> Told {
        let told = self.take();
        let changed = told & Causes::LINK.bits() != 0;
        match told {
            // A card that is no more on its bus reads so.
            u32::MAX => Told::Broken,
            _ if self.changed.swap(false, Ordering::Relaxed) || changed => Told::Changed,
            _ => Told::Frames,
        }
    }

    fn link_is_up(&self, _was: bool) -> bool {
        self.bus.read(IntelRegister::STATUS) & CardStatus::LINK_UP.bits() != 0
    }
}
