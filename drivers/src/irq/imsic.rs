//! RISC-V's incoming message-signalled interrupt controllers (Advanced Interrupt Architecture 1.0, chapter 3), one of each hart,
//! with an [`aplic`](super::aplic) that turns devices' wires into messages for them. By hand, for the same reason.
//!
//! A message is a store of an identity to a hart's page, and stays pending there: the one who routes a source elsewhere cannot
//! take back what was sent. So each identity is written down with the hart that it is for. Another that finds it drops it, and the
//! one that it is for has been sent it again.
//!
//! Devices behind PCI send such messages themselves: an identity of theirs is routed by where its device is told to send it.

use super::aplic::{Domain, TARGET_HART};
use super::{Accept, Controller, Delivery, IrqError, Message, Sender};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use spin::{Mutex, Once};

/// Registers of a hart's file of interrupts, behind its select register.
const DELIVERY: usize = 0x70;
const THRESHOLD: usize = 0x72;
const PENDING: usize = 0x80;
const ENABLE: usize = 0xc0;

/// Identities that are used; every file has these. A threshold lets what is below it through, 0 lets all.
const IDENTITIES: usize = 64;
const FIRST_URGENT: usize = 1;
const CALL: usize = 8;
const FIRST_PLAIN: usize = CALL + 1;
/// What a call is claimed as: no source has that number.
const CALLED: u32 = u32::MAX;
/// What the interrupt of a device that sends messages is claimed as: its identity above this, where no source is numbered.
const SENT: u32 = 1 << 16;
/// Bytes of a file's page.
const PAGE: usize = 4096;
/// Most regions of files.
pub const MOST_REGIONS: usize = 4;

/// The calling hart's file.
pub trait File: Sync {
    /// Writes the register that is selected so.
    fn set(&self, register: usize, value: u64);
    /// Whether an identity is pending.
    fn is_pending(&self, identity: usize) -> bool;
    /// The most urgent identity that is pending and let through, which ends to be pending; 0 if there is none.
    fn claim(&self) -> u32;
    /// Orders accesses of memory and of devices before it to those behind it.
    fn io_barrier(&self);
}

/// Where the harts' files lie.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// Regions of pages, one after the other; what is not there has none.
    pub regions: [(NonNull<u8>, usize); MOST_REGIONS],
    /// Each hart's first page of `1 << guest_bits` is its file.
    pub guest_bits: u32,
    /// Bits of an address above those of a hart's pages that number it in its group.
    pub hart_bits: u32,
    /// Bits that number the group, and the place of the first.
    pub group_bits: u32,
    /// See `group_bits`.
    pub group_shift: u32,
    /// Identities that a file has, at least 63.
    pub identities: u32,
}

impl Files {
    /// The page of hart `hart`.
    fn page(&self, hart: u64) -> Option<NonNull<u32>> {
        let mut offset = usize::try_from(hart).ok()?.checked_mul(PAGE << self.guest_bits)?;
        for &(base, bytes) in &self.regions {
            if offset < bytes {
                return NonNull::new(base.as_ptr().wrapping_add(offset).cast());
            }
            offset -= bytes;
        }
        None
    }

    /// What the APLIC calls that hart.
    fn number(&self, page: NonNull<u32>) -> u32 {
        let bits = |from: u32, count: u32| (page.addr().get() >> from & ((1 << count) - 1)) as u32;
        bits(PAGE.ilog2() + self.guest_bits, self.hart_bits)
            | bits(self.group_shift, self.group_bits) << self.hart_bits
    }
}

/// What an identity stands for.
struct Wire {
    /// The source; 0 is none.
    source: AtomicU32,
    edge: AtomicBool,
    /// The name of the hart that it is for, plus 1; 0 is nobody.
    to: AtomicU64,
    /// The device that sends it, if it is not the APLIC.
    sender: Once<&'static dyn Sender>,
}

impl Wire {
    const fn new() -> Self {
        Self {
            source: AtomicU32::new(0),
            edge: AtomicBool::new(false),
            to: AtomicU64::new(0),
            sender: Once::new(),
        }
    }

    fn is_free(&self) -> bool {
        self.source.load(Ordering::Relaxed) == 0
    }
}

/// An APLIC and the harts' files. A hart's name is the number of its file.
pub struct Imsic<I> {
    domain: Domain,
    files: Files,
    interface: I,
    wires: [Wire; IDENTITIES],
    routing: Mutex<()>,
}

// SAFETY: the pages of files are stored to alone, each store a message of its own.
unsafe impl<I: Send> Send for Imsic<I> {}
// SAFETY: as above.
unsafe impl<I: Sync> Sync for Imsic<I> {}

impl<I: File> Imsic<I> {
    /// Takes the controllers over: the APLIC with `bytes` of registers at `base` and sources up to `sources`, and the files.
    ///
    /// # Errors
    /// [`IrqError::NotOurs`] if the APLIC does not send messages.
    ///
    /// # Safety
    /// The registers of an APLIC's domain for supervisors lie at `base`, the harts' files for supervisors where `files` says, all
    /// mapped as device memory; nobody else uses them.
    pub unsafe fn new(
        base: NonNull<u8>,
        bytes: usize,
        sources: u32,
        files: Files,
        interface: I,
    ) -> Result<Self, IrqError> {
        // SAFETY: the caller's promise.
        let domain = unsafe { Domain::new(base, bytes, sources) };
        if !domain.start(true) {
            return Err(IrqError::NotOurs);
        }
        let wires = [const { Wire::new() }; IDENTITIES];
        Ok(Self { domain, files, interface, wires, routing: Mutex::new(()) })
    }

    /// The identity of a source that is configured.
    fn find(&self, source: u32) -> Option<usize> {
        self.wires.iter().position(|wire| source != 0 && wire.source.load(Ordering::Relaxed) == source)
    }

    /// Stores an identity to a file.
    fn send(&self, page: NonNull<u32>, identity: usize) {
        // SAFETY: a hart's file lies there, by the promise to `new`, which takes messages from whoever sends them.
        unsafe { page.write_volatile(identity as u32) }
    }

    /// Lets a device send an identity to a file, or to none.
    fn aim(&self, here: u64, identity: usize, sender: &dyn Sender, to: Option<(u64, NonNull<u32>)>) {
        let wire = &self.wires[identity];
        sender.aim(None);
        let before = wire.to.swap(to.map_or(0, |(hart, _)| hart + 1), Ordering::Relaxed);
        self.interface.io_barrier();
        let Some((_, page)) = to else { return };
        let address = page.as_ptr().expose_provenance() as u64;
        sender.aim(Some(Message { address, data: identity as u32 }));
        // What was sent to the hart before is dropped by that. Whether there is such a thing, that hart alone can see.
        let left = before != 0 && (before != here + 1 || self.interface.is_pending(identity));
        if left {
            self.send(page, identity);
        }
    }

    /// Lets a source go to a file, or to none.
    fn send_to(&self, here: u64, identity: usize, to: Option<(u64, NonNull<u32>)>) {
        let wire = &self.wires[identity];
        let source = wire.source.load(Ordering::Relaxed);
        let name = to.map_or(0, |(hart, _)| hart + 1);
        if wire.to.load(Ordering::Relaxed) == name {
            return;
        }
        if let Some(&sender) = wire.sender.get() {
            return self.aim(here, identity, sender, to);
        }
        self.domain.enable(source, false);
        wire.to.store(name, Ordering::Relaxed);
        // Who finds the message finds that it is his.
        self.interface.io_barrier();
        let Some((_, page)) = to else { return };
        self.domain.set_target(source, self.files.number(page) << TARGET_HART | identity as u32);
        self.domain.enable(source, true);
        // It may have been sent to the hart before, which drops it from now on. An edge leaves no trace of that.
        if wire.edge.load(Ordering::Relaxed) || self.domain.wants(source) {
            self.domain.set_pending(source);
        }
    }
}

impl<I: File> Controller for Imsic<I> {
    /// Harts have no private interrupts here but calls, which are always let through.
    fn start_hart(&self, here: u64, _: &[u32]) -> Result<(), IrqError> {
        self.files.page(here).ok_or(IrqError::NoHart)?;
        // Each register holds 64 identities, under the number of the first half.
        for half in (0..=self.files.identities as usize / 32).step_by(2) {
            self.interface.set(ENABLE + half, if half == 0 { !1 } else { 0 });
            self.interface.set(PENDING + half, 0);
        }
        self.interface.set(THRESHOLD, 0);
        self.interface.set(DELIVERY, 1);
        Ok(())
    }

    fn configure(&self, interrupt: u32, kind: Delivery) -> Result<(), IrqError> {
        if interrupt > SENT {
            let known = self.find(interrupt).filter(|_| kind.edge && !kind.urgent);
            return known.map(|_| ()).ok_or(IrqError::NoInterrupt);
        }
        self.domain.configure(interrupt, kind.edge)?;
        let _one = self.routing.lock();
        let mut places = if kind.urgent { FIRST_URGENT..CALL } else { FIRST_PLAIN..IDENTITIES };
        let known = self.find(interrupt).filter(|identity| places.contains(identity));
        let free = || places.find(|&identity| self.wires[identity].is_free());
        let identity = known.or_else(free).ok_or(IrqError::NoInterrupt)?;
        self.wires[identity].edge.store(kind.edge, Ordering::Relaxed);
        self.wires[identity].source.store(interrupt, Ordering::Relaxed);
        Ok(())
    }

    fn add_sender(&self, sender: &'static dyn Sender) -> Result<u32, IrqError> {
        let _one = self.routing.lock();
        let free = (FIRST_PLAIN..IDENTITIES).find(|&identity| self.wires[identity].is_free());
        let identity = free.ok_or(IrqError::NoInterrupt)?;
        sender.aim(None);
        self.wires[identity].sender.call_once(|| sender);
        self.wires[identity].edge.store(true, Ordering::Relaxed);
        let number = SENT | identity as u32;
        self.wires[identity].source.store(number, Ordering::Relaxed);
        Ok(number)
    }

    fn route(&self, here: u64, interrupts: &[u32], _: Option<u64>, to: Option<u64>) -> Result<(), IrqError> {
        let page = |hart| self.files.page(hart).map(|page| (hart, page)).ok_or(IrqError::NoHart);
        let to = to.map(page).transpose()?;
        let _one = self.routing.lock();
        for &interrupt in interrupts {
            self.send_to(here, self.find(interrupt).ok_or(IrqError::NoInterrupt)?, to);
        }
        Ok(())
    }

    fn accept(&self, _: u64, what: Accept) {
        let threshold = match what {
            Accept::All => 0,
            Accept::Urgent => CALL,
        };
        self.interface.set(THRESHOLD, threshold as u64);
    }

    fn claim(&self, here: u64) -> Option<u32> {
        loop {
            let claimed = self.interface.claim() as usize;
            self.interface.io_barrier();
            match claimed {
                0 => return None,
                CALL => return Some(CALLED),
                identity => {
                    // Sent before it was routed elsewhere, or by nobody.
                    let wire = self.wires.get(identity);
                    let wire = wire.filter(|wire| wire.to.load(Ordering::Relaxed) == here + 1);
                    if let Some(wire) = wire {
                        return Some(wire.source.load(Ordering::Relaxed));
                    }
                }
            }
        }
    }

    /// A level that is still there is sent again: the APLIC sends it when it comes, and no more.
    fn complete(&self, _: u64, claimed: u32) {
        let wire = self.find(claimed).map(|identity| &self.wires[identity]);
        if wire.is_some_and(|wire| !wire.edge.load(Ordering::Relaxed)) && self.domain.wants(claimed) {
            self.domain.set_pending(claimed);
        }
    }

    fn call(&self, hart: u64) -> bool {
        let Some(page) = self.files.page(hart) else { return false };
        self.send(page, CALL);
        true
    }
}

/// Registers are volatile to the driver and plain memory to these tests, which Miri takes for what it is not.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::aplic::tests::{BYTES, SOURCES, memory, set, word};
    use super::super::aplic::{CLEAR_ENABLE, INPUT, SET_ENABLE, SET_PENDING, TARGET};
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    const LEVEL: Delivery = Delivery { edge: false, urgent: false };

    /// The file of whoever asks: what it was set to, the identities that are to be claimed, and how often memory and devices were
    /// put in order.
    #[derive(Default)]
    struct Fake(Mutex<(BTreeMap<usize, u64>, Vec<u32>, usize)>);

    impl File for Fake {
        fn set(&self, register: usize, value: u64) {
            self.0.lock().0.insert(register, value);
        }

        fn is_pending(&self, identity: usize) -> bool {
            self.0.lock().1.contains(&(identity as u32))
        }

        fn claim(&self) -> u32 {
            self.0.lock().1.pop().unwrap_or(0)
        }

        fn io_barrier(&self) {
            self.0.lock().2 += 1;
        }
    }

    /// Controllers of two groups of two harts with a guest each, whose registers are mere memory: the APLIC's and the files.
    fn fake() -> (Imsic<Fake>, NonNull<u32>, [NonNull<u32>; 2]) {
        let (base, groups) = (memory(BYTES), [memory(4 * PAGE), memory(4 * PAGE)]);
        let none = (NonNull::dangling(), 0);
        let [a, b] = groups.map(|group| (group.cast(), 4 * PAGE));
        let files = Files {
            regions: [a, b, none, none],
            guest_bits: 1,
            hart_bits: 1,
            group_bits: 0,
            group_shift: 24,
            identities: 127,
        };
        // SAFETY: as large as the registers, never freed.
        let imsic = unsafe { Imsic::new(base.cast(), BYTES, SOURCES, files, Fake::default()) };
        (imsic.unwrap(), base, groups)
    }

    fn target(base: NonNull<u32>, source: usize) -> u32 {
        word(base, TARGET + (source - 1) * 4)
    }

    #[test]
    fn b1_imsic_numbers_harts_as_their_pages_lie() {
        let (imsic, ..) = fake();
        assert_eq!((imsic.files.page(4), imsic.start_hart(4, &[])), (None, Err(IrqError::NoHart)));
        let files = Files { group_bits: 2, hart_bits: 3, ..imsic.files };
        let page = |address: usize| NonNull::new(core::ptr::without_provenance_mut(address)).unwrap();
        // Hart 5 of group 2, whatever is above.
        assert_eq!(files.number(page(0x1c_0200_0000 + 5 * 2 * PAGE)), 2 << 3 | 5);
    }

    #[test]
    fn b1_imsic_sends_a_source_to_the_hart_that_it_is_routed_to() {
        let (imsic, base, groups) = fake();
        imsic.start_hart(3, &[]).unwrap();
        let set_to = imsic.interface.0.lock().0.clone();
        let wanted = [(DELIVERY, 1), (THRESHOLD, 0), (PENDING, 0), (PENDING + 2, 0), (ENABLE, !1)];
        assert_eq!(set_to, wanted.into_iter().chain([(ENABLE + 2, 0)]).collect());

        assert_eq!(imsic.configure(SOURCES + 1, LEVEL), Err(IrqError::NoInterrupt));
        assert_eq!(imsic.route(3, &[7], None, Some(3)), Err(IrqError::NoInterrupt));
        imsic.configure(7, LEVEL).unwrap();
        imsic.configure(10, Delivery { edge: false, urgent: true }).unwrap();
        imsic.configure(7, LEVEL).unwrap();
        assert_eq!(imsic.route(4, &[7], None, Some(4)), Err(IrqError::NoHart));
        imsic.route(3, &[7, 10], None, Some(3)).unwrap();
        let number = imsic.files.number(imsic.files.page(3).unwrap());
        assert_eq!(target(base, 7), number << TARGET_HART | FIRST_PLAIN as u32);
        assert_eq!(target(base, 10), number << TARGET_HART | FIRST_URGENT as u32);
        assert_eq!((word(base, SET_ENABLE), word(base, SET_PENDING)), (10, 0));
        // An urgent one comes whatever a hart accepts, a call and a plain one do not.
        imsic.accept(3, Accept::Urgent);
        let threshold = imsic.interface.0.lock().0[&THRESHOLD] as usize;
        assert!(FIRST_URGENT < threshold && CALL >= threshold && FIRST_PLAIN >= threshold);

        // Guests' pages are passed over.
        assert_eq!([3, 0, 4].map(|hart| imsic.call(hart)), [true, true, false]);
        let told = [0, 2 * PAGE].map(|page| groups.map(|group| word(group, page)));
        assert_eq!(told, [[CALL as u32, 0], [0, CALL as u32]]);
    }

    #[test]
    fn r5_whom_a_message_is_for_is_known_before_it_is_sent_and_looked_up_after_it_is_taken() {
        let (imsic, ..) = fake();
        let barriers = || imsic.interface.0.lock().2;
        imsic.configure(7, LEVEL).unwrap();
        imsic.route(0, &[7], None, Some(0)).unwrap();
        assert_eq!(barriers(), 1);
        imsic.interface.0.lock().1.push(FIRST_PLAIN as u32);
        assert_eq!((imsic.claim(0), barriers()), (Some(7), 2));
    }

    #[test]
    fn b1_imsic_loses_nothing_that_was_sent_to_the_hart_before() {
        let (imsic, base, _) = fake();
        imsic.configure(7, LEVEL).unwrap();
        imsic.configure(8, Delivery { edge: true, urgent: false }).unwrap();
        imsic.route(0, &[7, 8], None, Some(0)).unwrap();
        let pending = || (word(base, SET_PENDING), set(base, SET_PENDING, 0)).0;
        assert_eq!(pending(), 8);
        imsic.route(0, &[7, 8], Some(0), Some(0)).unwrap();
        assert_eq!(pending(), 0, "nothing changed");

        // Both were sent to hart 0, and are then routed to hart 1.
        let first = FIRST_PLAIN as u32;
        let sent = || imsic.interface.0.lock().1 = std::vec![CALL as u32, 63, first + 1, first];
        sent();
        imsic.route(0, &[8], Some(0), Some(1)).unwrap();
        assert_eq!(pending(), 8);
        imsic.route(0, &[7], Some(0), Some(1)).unwrap();
        assert_eq!(pending(), 0, "its device wants nothing");
        imsic.route(1, &[7], Some(1), Some(0)).unwrap();
        set(base, INPUT, 1 << 7);
        imsic.route(0, &[7], Some(0), Some(1)).unwrap();
        assert_eq!(pending(), 7);
        assert_eq!((imsic.claim(0), imsic.claim(0)), (Some(CALLED), None));
        sent();
        assert_eq!([(); 4].map(|()| imsic.claim(1)), [Some(7), Some(8), Some(CALLED), None]);

        // A level that is still there comes again, an edge and a call do not.
        for claimed in [8, CALLED] {
            imsic.complete(1, claimed);
        }
        assert_eq!(pending(), 0);
        imsic.complete(1, 7);
        assert_eq!(pending(), 7);
        set(base, INPUT, 0);
        imsic.complete(1, 7);
        assert_eq!(pending(), 0);

        imsic.route(1, &[7], Some(1), None).unwrap();
        assert_eq!(word(base, CLEAR_ENABLE), 7);
        sent();
        assert_eq!(imsic.claim(1), Some(8), "it is for nobody");
    }

    /// A device's place for its message: all that it was told.
    #[derive(Default)]
    struct Card(Mutex<Vec<Option<Message>>>);

    impl Sender for Card {
        fn aim(&self, message: Option<Message>) {
            self.0.lock().push(message);
        }
    }

    #[test]
    fn b5_a_device_is_told_whom_to_send_its_message_and_what_went_elsewhere_meanwhile_comes_again() {
        let (imsic, base, groups) = fake();
        let card: &Card = std::boxed::Box::leak(Default::default());
        let told = || core::mem::take(&mut *card.0.lock());
        imsic.configure(7, LEVEL).unwrap();
        let number = imsic.add_sender(card).unwrap();
        assert!(number > SOURCES.max(1023) && told() == [None]);
        let edge = Delivery { edge: true, urgent: false };
        assert_eq!([number, number + 1].map(|number| imsic.configure(number, edge).is_ok()), [true, false]);
        assert_eq!(imsic.configure(number, LEVEL), Err(IrqError::NoInterrupt));

        let identity = FIRST_PLAIN as u32 + 1;
        let page = |hart: u64| imsic.files.page(hart).unwrap();
        let to = |hart| Some(Message { address: page(hart).as_ptr().addr() as u64, data: identity });
        let sent = |hart| (word(page(hart), 0), set(page(hart), 0, 0)).0;
        imsic.route(1, &[number], None, Some(1)).unwrap();
        assert_eq!((told(), sent(1)), (std::vec![None, to(1)], 0), "nothing was sent before");
        imsic.route(1, &[number], Some(1), Some(1)).unwrap();
        assert_eq!(told(), []);
        // By the hart that it went to: which sees what is pending.
        imsic.route(1, &[number], Some(1), Some(3)).unwrap();
        assert_eq!((told(), sent(3)), (std::vec![None, to(3)], 0));
        imsic.interface.0.lock().1.push(identity);
        imsic.route(3, &[number], Some(3), Some(2)).unwrap();
        assert_eq!((told(), sent(2)), (std::vec![None, to(2)], identity));
        assert_eq!(imsic.claim(3), None, "it is for another by now");
        imsic.interface.0.lock().1.push(identity);
        assert_eq!(imsic.claim(2), Some(number));
        imsic.complete(2, number);
        // By the hart that it is to go to.
        imsic.route(0, &[number], Some(2), Some(0)).unwrap();
        assert_eq!((told(), sent(0)), (std::vec![None, to(0)], identity));
        imsic.route(0, &[number], Some(0), None).unwrap();
        assert_eq!((told(), groups.map(|group| word(group, 0))), (std::vec![None], [0, 0]));
        // None of it is the APLIC's business.
        assert_eq!([SET_PENDING, SET_ENABLE, CLEAR_ENABLE].map(|at| word(base, at)), [0; 3]);
        while imsic.add_sender(card).is_ok() {}
        let places = IDENTITIES - FIRST_PLAIN - 2;
        assert_eq!((told().len(), imsic.add_sender(card)), (places, Err(IrqError::NoInterrupt)));
    }
}
