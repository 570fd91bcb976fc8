//! Each of two cards behind one type, told apart by their frames and by what they offer.

use super::Either;
use crate::adapter::{Adapter as _, Lent};
use crate::nic::{Acknowledge, Nic as _, Told};
use crate::torus::{ETHERTYPE_RELIABLE, TorusAdapter, frame, mac};
use crate::virtio::VirtioNet;
use crate::virtio::fake::{FakeCard, HostHal};
use core::sync::atomic::{AtomicU32, Ordering};

type Nic = VirtioNet<HostHal, FakeCard>;

#[test]
fn b5_a_card_of_either_kind_does_what_it_does_alone() {
    let cards = [(); 2].map(|()| FakeCard::new(1024));
    let made = |at: usize| Nic::new(cards[at].clone()).unwrap();
    let nics: [Either<Nic, Nic>; 2] = [Either::First(made(0)), Either::Second(made(1))];
    for (node, (nic, card)) in (0u32..).zip(nics.into_iter().zip(&cards)) {
        assert_eq!(nic.mtu(), 1024);
        let mut adapter = TorusAdapter::new(nic, node).unwrap();
        assert!(adapter.has_room() && adapter.watch().is_some());
        // SAFETY: nothing is lent.
        assert!(unsafe { adapter.transmit(7, &[1; 32], &[2; 24], [Lent::NONE; 2], 5) });
        adapter.flush();
        let (left, _) = card.transmit().unwrap();
        assert_eq!((&left[..6], &left[6..12]), (&mac(7)[..], &mac(node)[..]));
        assert_eq!(adapter.reclaim().map(|(cookie, _)| cookie), Some(5));
        assert!(!adapter.arm(true));
        let came = frame(node, 9, ETHERTYPE_RELIABLE, &[3; 64]);
        assert_eq!(card.receive(&came), Some(true), "an interrupt was asked for");
        assert!(adapter.arm(false));
        let buffer = adapter.receive().unwrap();
        assert_eq!((buffer.source(), buffer.packet()), (9, &[3; 64][..]));
        adapter.recycle(buffer);
        card.card().queues[0].as_mut().unwrap().put(u32::MAX, 1);
        assert!(adapter.receive().is_none());
        assert_eq!(adapter.faults().rings, 1);
    }
    // What came to the one is not seen by the other.
    assert_eq!(cards[0].transmit(), None);
}

static SERVED: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// An interrupt whose device works, or not.
#[derive(Clone, Copy)]
struct TestLine(usize);

impl Acknowledge for TestLine {
    fn acknowledge(&self) {
        SERVED[self.0].fetch_add(1, Ordering::Relaxed);
    }

    fn serve(&self) -> Told {
        [Told::Frames, Told::Broken][self.0]
    }

    fn link_is_up(&self, was: bool) -> bool {
        (self.0 == 0) == was
    }
}

#[test]
fn b5_interrupts_of_either_kind_are_served_by_their_own() {
    let lines: [Either<TestLine, TestLine>; 2] = [Either::First(TestLine(0)), Either::Second(TestLine(1))];
    assert_eq!(lines.map(|line| line.serve()), [Told::Frames, Told::Broken]);
    assert_eq!(lines.map(|line| line.link_is_up(true)), [true, false]);
    lines[1].acknowledge();
    assert_eq!(SERVED.each_ref().map(|served| served.load(Ordering::Relaxed)), [0, 1]);
}
