//! GICv2 (Arm's architecture specification IHI 0048). By hand: `arm-gic`'s driver of it routes no interrupt to a hart, sets the
//! priorities of four at once, and claims by registers that only some have.

use super::gicv2m::MessageFrame;
use super::{Accept, CALL, Controller, Delivery, IrqError, Sender};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use spin::Mutex;

/// Registers of the distributor.
const CONTROL: usize = 0x000;
const TYPE: usize = 0x004;
const SET_ENABLE: usize = 0x100;
const CLEAR_ENABLE: usize = 0x180;
const SET_PENDING: usize = 0x200;
const PRIORITY: usize = 0x400;
const TARGETS: usize = 0x800;
const TRIGGER: usize = 0xc00;
const SOFTWARE: usize = 0xf00;
/// Registers of a hart's interface.
const INTERFACE_CONTROL: usize = 0x00;
const MASK: usize = 0x04;
const ACKNOWLEDGE: usize = 0x0c;
const END: usize = 0x10;
/// Bytes of each that are used.
const DISTRIBUTOR_BYTES: usize = 0x1000;
const INTERFACE_BYTES: usize = 0x100;

/// The number in what was acknowledged; above it is the hart that called. From `NONE` on it is no interrupt.
const NUMBER: u32 = 0x3ff;
const NONE: u32 = 1020;
const FIRST_SHARED: u32 = 32;
/// Harts at most.
const HARTS: usize = 8;

/// Priorities: what is less than a hart's mask reaches it.
const PLAIN: u8 = 0x80;
const URGENT: u8 = 0x40;
const ALL: u32 = 0xff;

/// A GICv2. One hart at a time changes how interrupts are routed; a hart's own registers are at the same address for each.
pub struct Gicv2 {
    distributor: NonNull<u8>,
    interface: NonNull<u8>,
    routing: Mutex<()>,
    /// By interface: the affinity of the hart that it is of, plus 1.
    harts: [AtomicU64; HARTS],
    frame: Option<MessageFrame>,
}

// SAFETY: every access is a single load or store of a register. Registers of several interrupts that are read and written back
// are so by `configure` alone, under the lock; the others are a hart's own, or writes that concern the bits that are set.
unsafe impl Send for Gicv2 {}
// SAFETY: as above.
unsafe impl Sync for Gicv2 {}

impl Gicv2 {
    /// Takes the controller over, every shared interrupt off.
    ///
    /// # Safety
    /// The registers of a GICv2 distributor, of 4 KiB, lie at `distributor`, those of its CPU interfaces, of 256 bytes, at
    /// `interface`, mapped as device memory; nobody else uses them.
    pub unsafe fn new(distributor: NonNull<u8>, interface: NonNull<u8>) -> Self {
        let harts = [const { AtomicU64::new(0) }; HARTS];
        let gic = Self { distributor, interface, routing: Mutex::new(()), harts, frame: None };
        gic.write(CONTROL, 0);
        for number in (FIRST_SHARED..gic.interrupts()).step_by(32) {
            gic.write(CLEAR_ENABLE + number as usize / 8, u32::MAX);
        }
        gic.write(CONTROL, 1);
        gic
    }

    /// The same with a frame that takes messages of devices.
    #[must_use]
    pub fn with_frame(self, frame: MessageFrame) -> Self {
        Self { frame: Some(frame), ..self }
    }

    fn read(&self, offset: usize) -> u32 {
        assert!(offset < DISTRIBUTOR_BYTES);
        // SAFETY: a register of the distributor, by the promise to `new`.
        unsafe { self.distributor.add(offset).cast::<u32>().read_volatile() }
    }

    fn write(&self, offset: usize, value: u32) {
        assert!(offset < DISTRIBUTOR_BYTES);
        // SAFETY: as for `read`.
        unsafe { self.distributor.add(offset).cast::<u32>().write_volatile(value) }
    }

    /// Of the registers with a byte for each interrupt.
    fn write_byte(&self, offset: usize, value: u8) {
        assert!(offset < DISTRIBUTOR_BYTES);
        // SAFETY: as for `read`.
        unsafe { self.distributor.add(offset).write_volatile(value) }
    }

    fn read_byte(&self, offset: usize) -> u8 {
        assert!(offset < DISTRIBUTOR_BYTES);
        // SAFETY: as for `read`.
        unsafe { self.distributor.add(offset).read_volatile() }
    }

    fn read_own(&self, offset: usize) -> u32 {
        assert!(offset < INTERFACE_BYTES);
        // SAFETY: a register of the calling hart's interface, by the promise to `new`.
        unsafe { self.interface.add(offset).cast::<u32>().read_volatile() }
    }

    fn write_own(&self, offset: usize, value: u32) {
        assert!(offset < INTERFACE_BYTES);
        // SAFETY: as for `read_own`.
        unsafe { self.interface.add(offset).cast::<u32>().write_volatile(value) }
    }

    /// Interrupts are numbered below this.
    fn interrupts(&self) -> u32 {
        (32 * ((self.read(TYPE) & 0x1f) + 1)).min(NONE)
    }

    fn shared(&self, number: u32) -> Result<u32, IrqError> {
        (FIRST_SHARED..self.interrupts()).contains(&number).then_some(number).ok_or(IrqError::NoInterrupt)
    }

    fn enable(&self, number: u32, on: bool) {
        let register = if on { SET_ENABLE } else { CLEAR_ENABLE };
        self.write(register + number as usize / 32 * 4, 1 << (number % 32));
    }

    /// The bit of the calling hart's interface: the targets of private interrupts are whoever looks. A single hart reads zero.
    fn own(&self) -> u8 {
        self.read_byte(TARGETS).max(1)
    }

    /// An edge that came for the hart before is one for the hart that is now the target: QEMU keeps for whom it is pending.
    fn keep_pending(&self, number: u32) {
        let is_edge = self.read(TRIGGER + number as usize / 16 * 4) & 2 << (number % 16 * 2) != 0;
        let (register, bit) = (SET_PENDING + number as usize / 32 * 4, 1 << (number % 32));
        if is_edge && self.read(register) & bit != 0 {
            self.write(register, bit);
        }
    }

    /// The bit of the interface of a hart.
    fn interface_of(&self, hart: u64) -> Option<u8> {
        let place = self.harts.iter().position(|known| known.load(Ordering::Relaxed) == hart + 1)?;
        Some(1 << place)
    }
}

impl Controller for Gicv2 {
    fn start_hart(&self, here: u64, private: &[u32]) -> Result<(), IrqError> {
        let place = self.own().trailing_zeros() as usize;
        self.harts.get(place).ok_or(IrqError::NoHart)?.store(here + 1, Ordering::Relaxed);
        for &number in private {
            if number >= FIRST_SHARED {
                return Err(IrqError::NoInterrupt);
            }
            self.write_byte(PRIORITY + number as usize, PLAIN);
            self.enable(number, true);
        }
        self.write_own(MASK, ALL);
        self.write_own(INTERFACE_CONTROL, 1);
        Ok(())
    }

    fn configure(&self, interrupt: u32, kind: Delivery) -> Result<(), IrqError> {
        let number = self.shared(interrupt)?;
        let _one = self.routing.lock();
        let trigger = TRIGGER + number as usize / 16 * 4;
        let bit = 2 << (number % 16 * 2);
        let others = self.read(trigger) & !bit;
        self.write(trigger, if kind.edge { others | bit } else { others });
        // An edge needs somebody to be pending for.
        self.write_byte(TARGETS + number as usize, self.own());
        self.write_byte(PRIORITY + number as usize, if kind.urgent { URGENT } else { PLAIN });
        Ok(())
    }

    fn add_sender(&self, sender: &'static dyn Sender, _: u32) -> Result<u32, IrqError> {
        self.frame.as_ref().ok_or(IrqError::NoInterrupt)?.add_sender(sender, self.interrupts())
    }

    fn route(&self, _: u64, interrupts: &[u32], _: Option<u64>, to: Option<u64>) -> Result<(), IrqError> {
        let target = to.map(|to| self.interface_of(to).ok_or(IrqError::NoHart)).transpose()?;
        let _one = self.routing.lock();
        for &interrupt in interrupts {
            let number = self.shared(interrupt)?;
            self.enable(number, false);
            if let Some(target) = target {
                self.write_byte(TARGETS + number as usize, target);
                self.keep_pending(number);
                self.enable(number, true);
            }
        }
        Ok(())
    }

    fn accept(&self, _: u64, what: Accept) {
        let mask = match what {
            Accept::All => ALL,
            Accept::Urgent => u32::from(PLAIN),
        };
        self.write_own(MASK, mask);
    }

    fn claim(&self, _: u64) -> Option<u32> {
        let claimed = self.read_own(ACKNOWLEDGE);
        (claimed & NUMBER < NONE).then_some(claimed)
    }

    fn complete(&self, _: u64, claimed: u32) {
        self.write_own(END, claimed);
    }

    fn call(&self, hart: u64) -> bool {
        if let Some(target) = self.interface_of(hart) {
            self.write(SOFTWARE, u32::from(target) << 16 | CALL);
        }
        true
    }
}

/// Registers are volatile to the driver and plain memory to these tests, which Miri takes for what it is not.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::{Message, gicv2m};
    use super::*;
    use std::boxed::Box;

    const LEVEL: Delivery = Delivery { edge: false, urgent: false };

    /// A controller whose registers are mere memory, distributor first.
    fn fake(interrupts: u32) -> (Gicv2, NonNull<u32>) {
        let memory = Box::leak(Box::new([0u32; 0x800]));
        memory[TYPE / 4] = interrupts / 32 - 1;
        let base = NonNull::from(&mut *memory).cast::<u32>();
        // SAFETY: as large as the registers, never freed.
        let gic = unsafe { Gicv2::new(base.cast(), base.cast().byte_add(DISTRIBUTOR_BYTES)) };
        (gic, base)
    }

    fn word(base: NonNull<u32>, offset: usize) -> u32 {
        // SAFETY: inside of `fake`'s memory.
        unsafe { base.byte_add(offset).read_volatile() }
    }

    fn set(base: NonNull<u32>, offset: usize, value: u32) {
        // SAFETY: inside of `fake`'s memory.
        unsafe { base.byte_add(offset).write_volatile(value) }
    }

    #[test]
    fn b1_gicv2_routes_an_interrupt_to_the_interface_that_a_hart_has() {
        let (gic, base) = fake(64);
        assert_eq!(
            (word(base, CONTROL), word(base, CLEAR_ENABLE), word(base, CLEAR_ENABLE + 4)),
            (1, 0, u32::MAX)
        );
        // Harts of affinities 0x100 and 0 have interfaces 2 and 0.
        for (hart, own) in [(0x100, 1 << 2), (0, 1)] {
            set(base, TARGETS, own);
            gic.start_hart(hart, &[CALL, 27]).unwrap();
        }
        assert_eq!(gic.start_hart(0, &[32]), Err(IrqError::NoInterrupt));
        assert_eq!(word(base, PRIORITY + 24) >> 24, u32::from(PLAIN));
        set(base, TRIGGER + 8, u32::MAX);
        gic.configure(41, LEVEL).unwrap();
        assert_eq!(word(base, TARGETS + 40), 1 << 8, "nobody is the target");
        gic.configure(43, Delivery { edge: true, urgent: true }).unwrap();
        assert_eq!(word(base, TRIGGER + 8), !(2 << 18));
        assert_eq!(word(base, PRIORITY + 40), u32::from(PLAIN) << 8 | u32::from(URGENT) << 24);
        gic.route(0x100, &[41, 43], None, Some(0x100)).unwrap();
        assert_eq!(word(base, TARGETS + 40), 4 << 8 | 4 << 24);
        // What is pending is so for the new target, if it is an edge, which nobody raises again.
        set(base, SET_PENDING + 4, 1 << 9 | 1 << 11 | 1 << 12);
        gic.route(0x100, &[41], Some(0x100), Some(0)).unwrap();
        assert_eq!(word(base, SET_PENDING + 4), 1 << 9 | 1 << 11 | 1 << 12);
        gic.route(0x100, &[43], Some(0x100), Some(0)).unwrap();
        assert_eq!(word(base, SET_PENDING + 4), 1 << 11);
        gic.route(0, &[41, 43], Some(0), Some(0x100)).unwrap();
        assert_eq!((word(base, CLEAR_ENABLE + 4), word(base, SET_ENABLE + 4)), (1 << 11, 1 << 11));
        assert_eq!(gic.route(0x100, &[41], Some(0x100), Some(7)), Err(IrqError::NoHart));
        assert_eq!(gic.configure(64, LEVEL), Err(IrqError::NoInterrupt));
        assert_eq!(gic.configure(31, LEVEL), Err(IrqError::NoInterrupt));
        assert!(gic.call(0x100));
        assert_eq!(word(base, SOFTWARE), 4 << 16);
    }

    #[test]
    fn b1_gicv2_completes_a_call_as_it_was_acknowledged() {
        let (gic, base) = fake(64);
        let own = DISTRIBUTOR_BYTES;
        set(base, own + ACKNOWLEDGE, 1023);
        assert_eq!(gic.claim(0), None);
        // Call 0 by the hart of interface 3.
        set(base, own + ACKNOWLEDGE, 3 << 10);
        let claimed = gic.claim(0).unwrap();
        gic.complete(0, claimed);
        assert_eq!(word(base, own + END), 3 << 10);
        gic.accept(0, Accept::Urgent);
        assert!(u32::from(URGENT) < word(base, own + MASK) && u32::from(PLAIN) >= word(base, own + MASK));
    }

    /// A device's place for its message: the last that it was told.
    #[derive(Default)]
    struct Card(Mutex<Option<Message>>);

    impl Sender for Card {
        fn aim(&self, message: Option<Message>) {
            *self.0.lock() = message;
        }
    }

    #[test]
    fn b5_gicv2_takes_messages_of_devices_by_its_frame() {
        let card: &Card = Box::leak(Box::default());
        let (gic, _) = fake(96);
        assert_eq!(gic.add_sender(card, 0), Err(IrqError::NoInterrupt), "it has no frame");
        let frame = NonNull::from(Box::leak(Box::new([0u32; 0x40]))).cast::<u32>();
        // Four from 93 on, of which the last is none of the controller's.
        set(frame, gicv2m::TYPE, 93 << 16 | 4);
        // SAFETY: as large as the registers that are used, never freed.
        let gic = gic.with_frame(unsafe { MessageFrame::new(frame.cast(), 0x100) });
        for number in 93..96 {
            assert_eq!(gic.add_sender(card, 0), Ok(number));
            let told = Message { address: frame.as_ptr().addr() as u64 + 0x40, data: number };
            assert_eq!(card.0.lock().take(), Some(told));
            gic.configure(number, Delivery { edge: true, urgent: false }).unwrap();
        }
        assert_eq!((gic.add_sender(card, 0), card.0.lock().take()), (Err(IrqError::NoInterrupt), None));
        set(frame, gicv2m::TYPE, 64 << 16 | 3);
        assert_eq!(gic.add_sender(card, 0), Err(IrqError::NoInterrupt), "all are given");
    }
}
