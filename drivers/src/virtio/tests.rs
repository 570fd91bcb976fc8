//! The virtqueue against a device that is stepped by hand, honest or not.

use super::fake::{DeviceQueue, HostHal};
use super::queue::{Piece, Virtqueue, need_event};
use proptest::prelude::*;
use std::boxed::Box;
use std::vec::Vec;

const SIZE: u16 = 8;
type Queue = Virtqueue<{ SIZE as usize }, HostHal>;

/// Adds a chain whose addresses nobody follows.
fn add(queue: &mut Queue, pieces: &[Piece], writable: bool) -> Option<u16> {
    // SAFETY: the fake device only copies descriptors.
    unsafe { queue.add(pieces, writable) }
}

fn pair() -> (Queue, DeviceQueue) {
    let queue = Queue::new(Box::leak(Box::default()));
    let device = DeviceQueue::new(queue.addresses(), SIZE);
    (queue, device)
}

fn pieces(count: usize) -> Vec<Piece> {
    (0..count).map(|i| Piece { address: 0x1000 * (i as u64 + 1), len: 100 + i as u32 }).collect()
}

#[test]
fn d1_a_chain_reaches_the_device_and_comes_back() {
    let (mut queue, mut device) = pair();
    let head = add(&mut queue, &pieces(3), false).unwrap();
    assert_eq!(device.take(), None, "not published yet");
    assert!(queue.publish());
    let chain = [(0x1000, 100, 1), (0x2000, 101, 1), (0x3000, 102, 0)].to_vec();
    assert_eq!(device.take(), Some((head, chain)));
    assert_eq!(queue.take_used(), None);
    assert_eq!(queue.room(), SIZE - 3);
    device.put(u32::from(head), 0);
    assert_eq!(queue.take_used().unwrap().head, head);
    assert_eq!((queue.room(), queue.outstanding()), (SIZE, 0));
}

#[test]
fn d1_a_full_queue_takes_nothing() {
    let (mut queue, _) = pair();
    assert_eq!(add(&mut queue, &[], false), None);
    assert!(add(&mut queue, &pieces(6), false).is_some());
    assert_eq!(add(&mut queue, &pieces(3), false), None);
    assert!(add(&mut queue, &pieces(2), false).is_some());
    assert_eq!(add(&mut queue, &pieces(1), false), None);
}

#[test]
fn d9_ids_that_the_device_does_not_have_are_counted_and_ignored() {
    let (mut queue, mut device) = pair();
    for _ in 0..SIZE / 2 {
        add(&mut queue, &pieces(2), true);
    }
    queue.publish();
    let (head, _) = device.take().unwrap();
    let inner = device.next_of(head);
    for id in [u32::from(SIZE), u32::MAX, 0x1_0000 + u32::from(head), u32::from(inner)] {
        device.put(id, 1);
    }
    assert_eq!(queue.take_used(), None);
    assert_eq!(queue.faults().ids, 4);
    // The used index is as many ahead as the device has chains, so this takes another honest one.
    device.put(u32::from(head), 1);
    assert_eq!(queue.take_used().unwrap().head, head);
    device.put(u32::from(head), 1);
    assert_eq!(queue.take_used(), None, "a second time is once too often");
    assert_eq!(queue.faults().ids, 5);
    assert_eq!(queue.room(), 2);
}

#[test]
fn d9_a_length_beyond_the_chain_counts_as_nothing_written() {
    let (mut queue, mut device) = pair();
    let head =
        add(&mut queue, &[Piece { address: 64, len: 10 }, Piece { address: 128, len: 5 }], true).unwrap();
    queue.publish();
    device.take();
    device.put(u32::from(head), 16);
    assert_eq!(queue.take_used().unwrap().written, 0);
    assert_eq!(queue.faults().lengths, 1);
    let head =
        add(&mut queue, &[Piece { address: 64, len: 10 }, Piece { address: 128, len: 5 }], true).unwrap();
    queue.publish();
    device.put(u32::from(head), 15);
    assert_eq!(queue.take_used().unwrap().written, 15);
    let head = add(&mut queue, &pieces(1), false).unwrap();
    queue.publish();
    device.put(u32::from(head), 1);
    assert_eq!(queue.take_used().unwrap().written, 0, "a chain to read was written");
    assert_eq!(queue.faults().lengths, 2);
}

#[test]
fn d9_an_index_that_jumps_is_counted_once_and_ignored_until_it_is_right() {
    let (mut queue, mut device) = pair();
    let head = add(&mut queue, &pieces(1), true).unwrap();
    queue.publish();
    device.take();
    let right = device.used_index();
    for index in [right.wrapping_add(2), right.wrapping_sub(1), right.wrapping_add(0x8000)] {
        device.set_used_index(index);
        for _ in 0..3 {
            assert_eq!(queue.take_used(), None);
        }
        assert!(!queue.arm());
    }
    assert_eq!(queue.faults().indices, 3);
    device.set_used_index(right);
    device.put(u32::from(head), 7);
    assert_eq!(queue.take_used().unwrap().written, 7);
}

#[test]
fn d1_interrupts_come_only_when_armed_and_then_once() {
    let (mut queue, mut device) = pair();
    let mut step = |queue: &mut Queue, arm: bool| {
        let head = add(queue, &pieces(1), true).unwrap();
        queue.publish();
        device.take();
        if arm {
            assert!(!queue.arm());
        }
        let interrupt = device.put(u32::from(head), 0);
        queue.take_used().unwrap();
        interrupt
    };
    // Far beyond one turn of the 16-bit index. Unarmed, one interrupt at most comes per turn: that of the entry
    // armed for 2^16 entries before.
    let turns = if cfg!(miri) { 300 } else { 200_000 };
    let unarmed = (0..turns).filter(|_| step(&mut queue, false)).count();
    assert!(unarmed <= 4, "{unarmed}");
    for _ in 0..turns.min(100) {
        assert!(step(&mut queue, true));
        assert!(!step(&mut queue, false));
    }
}

#[test]
fn d1_arming_says_what_came_before() {
    let (mut queue, mut device) = pair();
    let head = add(&mut queue, &pieces(1), true).unwrap();
    queue.publish();
    device.take();
    device.put(u32::from(head), 0);
    assert!(queue.arm());
    queue.take_used().unwrap();
    assert!(!queue.arm());
}

proptest! {
    #[test]
    fn d1_an_event_is_heard_if_and_only_if_the_index_steps_over_it(event: u16, old: u16, step in 0u16..=32768) {
        let new = old.wrapping_add(step);
        // Among the entries old..new, counted without wrapping.
        let expected = (0..u32::from(step)).any(|i| (u32::from(old) + i) as u16 == event);
        prop_assert_eq!(need_event(event, new, old), expected);
    }

    #[test]
    fn d1_an_event_at_the_edge_of_a_step_is_heard(old: u16, step in 1u16..=32768) {
        let new = old.wrapping_add(step);
        prop_assert!(need_event(old, new, old));
        prop_assert!(need_event(new.wrapping_sub(1), new, old));
        prop_assert!(!need_event(new, new, old));
        prop_assert!(!need_event(old.wrapping_sub(1), new, old));
    }

    #[test]
    fn d9_whatever_a_device_puts_into_the_ring_every_chain_comes_back_once(
        steps in proptest::collection::vec((0u8..6, any::<u32>(), any::<u32>()), 0..if cfg!(miri) { 20 } else { 200 })
    ) {
        let (mut queue, mut device) = pair();
        let mut held = Vec::new();
        let mut out = std::collections::BTreeSet::new();
        for (what, a, b) in steps {
            match what {
                0 => if let Some(head) = add(&mut queue, &pieces(1 + a as usize % 3), b % 2 == 0) {
                    prop_assert!(out.insert(head), "head {} is out already", head);
                },
                1 => { queue.publish(); }
                2 => held.extend(device.take().map(|(head, _)| head)),
                3 if !held.is_empty() => {
                    let head = held.swap_remove(a as usize % held.len());
                    device.put(u32::from(head), b % 400);
                }
                4 => { device.put(a % 12, b); }
                _ => { device.set_used_index(device.used_index().wrapping_add((a % 3) as u16)); }
            }
            while let Some(done) = queue.take_used() {
                prop_assert!(out.remove(&done.head), "head {} was not out", done.head);
                prop_assert!(done.written <= 400);
            }
            prop_assert_eq!(usize::from(queue.outstanding()), out.len());
            prop_assert!(queue.room() <= SIZE);
        }
    }
}
