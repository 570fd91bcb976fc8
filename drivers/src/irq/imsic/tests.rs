//! Controllers whose registers are mere memory.

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

    fn top(&self) -> u32 {
        self.0.lock().1.last().copied().unwrap_or(0)
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
fn n8_a_message_that_came_while_others_were_claimed_is_pending_whatever_the_line_says() {
    let (imsic, ..) = fake();
    assert!(!imsic.is_pending(0));
    imsic.interface.0.lock().1.extend([CALL as u32; 2]);
    assert!(imsic.is_pending(0));
    assert_eq!((imsic.claim(0), imsic.is_pending(0)), (Some(CALLED), true));
    assert_eq!((imsic.claim(0), imsic.is_pending(0)), (Some(CALLED), false));
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
    let number = imsic.add_sender(card, 0).unwrap();
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
    // To nobody, and on from there: what it sent to the hart before comes again once somebody is there.
    imsic.route(0, &[number], Some(0), None).unwrap();
    assert_eq!((told(), sent(0)), (std::vec![None], 0));
    imsic.route(1, &[number], None, Some(1)).unwrap();
    assert_eq!((told(), sent(1)), (std::vec![None, to(1)], 0), "nothing was pending at hart 0");
    for (by, of) in [(1, "itself, which sees its message"), (3, "another, which cannot")] {
        if by == 1 {
            imsic.interface.0.lock().1.push(identity);
        }
        imsic.route(by, &[number], Some(1), None).unwrap();
        assert_eq!(imsic.claim(1), None, "it is for nobody, by {of}");
        imsic.route(by, &[number], None, None).unwrap();
        assert_eq!((told(), [1, 2].map(sent)), (std::vec![None], [0, 0]));
        imsic.route(2, &[number], None, Some(2)).unwrap();
        assert_eq!((told(), sent(2)), (std::vec![None, to(2)], identity), "by {of}");
        imsic.route(2, &[number], Some(2), None).unwrap();
        imsic.route(2, &[number], None, Some(1)).unwrap();
        assert_eq!((told(), sent(1)), (std::vec![None, None, to(1)], 0), "once, by {of}");
    }
    imsic.route(1, &[number], Some(1), None).unwrap();
    assert_eq!((told(), groups.map(|group| word(group, 0))), (std::vec![None], [0, 0]));
    // None of it is the APLIC's business.
    assert_eq!([SET_PENDING, SET_ENABLE, CLEAR_ENABLE].map(|at| word(base, at)), [0; 3]);
    while imsic.add_sender(card, 0).is_ok() {}
    let places = IDENTITIES - FIRST_PLAIN - 2;
    assert_eq!((told().len(), imsic.add_sender(card, 0)), (places, Err(IrqError::NoInterrupt)));
}
