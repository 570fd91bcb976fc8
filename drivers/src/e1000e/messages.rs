//! A card that interrupts by messages, in the place of its pin.

use super::fake::{FakeE1000e, LINK};
use super::tests::{Card, MOST, OWN, START, buffer, stand_still, transmit};
use crate::nic::{Acknowledge as _, Nic as _, Told};
use std::vec;

#[test]
fn b5_a_card_sends_one_message_for_frames_and_its_link_once_each_time_that_it_is_armed_also_after_a_reset() {
    let bus = FakeE1000e::new();
    let mut card = Card::new(bus).unwrap().by_message();
    card.start([OWN; 2], START, MOST);
    (0..8).for_each(|_| card.lend(buffer()));
    card.flush();
    let interrupt = card.interrupt();
    let messages = || core::mem::take(&mut bus.device().messages);
    for round in 0..3 {
        bus.device().receive(&[1; 60]);
        assert_eq!(messages().len(), usize::from(round > 0), "interrupts stay enabled");
        assert!(card.arm(true), "it came before");
        let (memory, _) = card.receive().unwrap();
        card.lend(memory);
        card.flush();
        assert!(!card.arm(true));
        bus.device().receive(&[2; 60]);
        bus.device().receive(&[3; 60]);
        assert_eq!(messages(), [0], "it was told that something came");
        assert!(transmit(&mut card, &[1; 20], [&[]; 2], 1));
        card.flush();
        bus.device().send().unwrap();
        assert_eq!(messages(), [0]);
        assert_eq!(interrupt.serve(), Told::Frames);
        bus.device().raise(LINK);
        assert_eq!((messages(), interrupt.serve()), (vec![0], Told::Changed));
        assert!(card.arm(false));
        core::iter::from_fn(|| card.receive()).for_each(drop);
        card.reclaim().unwrap();
        (0..2).for_each(|_| card.lend(buffer()));
        card.flush();
        assert!(!card.arm(false));
        transmit(&mut card, &[1; 20], [&[]; 2], 1);
        card.flush();
        bus.device().send().unwrap();
        assert_eq!(messages(), [0; 0], "sent, which nobody asked for");
        card.reclaim().unwrap();
        // It is reset, and goes on in the same way.
        assert!(transmit(&mut card, &[1; 20], [&[]; 2], 1));
        card.flush();
        stand_still(&mut card);
        assert_eq!(bus.device().resets, 2 + round);
        card.reclaim().unwrap();
        messages();
    }
}
