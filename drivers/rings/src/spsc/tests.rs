use super::*;
use std::boxed::Box;
use std::collections::VecDeque;
use std::thread;
use std::vec::Vec;

fn make<T: Send>(capacity: usize, index: usize) -> &'static Ring<T> {
    let entries: Vec<Entry<T>> = (0..capacity).map(|_| Entry::new()).collect();
    Box::leak(Box::new(Ring::starting_at(entries.leak(), index).unwrap()))
}

#[test]
fn d4_a_ring_of_any_size_wraps_at_any_index() {
    for capacity in [1, 2, 4, 16] {
        for start in [0, 1, capacity - 1, usize::MAX, usize::MAX - capacity, usize::MAX - capacity / 2] {
            let ring = make(capacity, start);
            let (mut producer, mut consumer) = ring.split().unwrap();
            let mut model = VecDeque::new();
            for step in 0..if cfg!(miri) { 50u32 } else { 500 } {
                if step.wrapping_mul(2_654_435_761) >> 31 == 0 {
                    let pushed = producer.push(step);
                    assert_eq!(pushed, if model.len() < capacity { Ok(()) } else { Err(step) });
                    if pushed.is_ok() {
                        model.push_back(step);
                    }
                } else {
                    assert_eq!(consumer.peek().copied(), model.front().copied());
                    assert_eq!(consumer.pop(), model.pop_front());
                }
                assert_eq!((ring.len(), ring.is_empty()), (model.len(), model.is_empty()));
                assert_eq!(producer.room(), capacity - model.len());
                assert_eq!(ring.tail().wrapping_sub(ring.head()), model.len());
            }
        }
    }
}

#[test]
fn d4_r1_entries_that_are_kept_back_are_for_those_who_ask_for_all() {
    const CAPACITY: usize = 8;
    for (kept, start) in
        [0, 3, 8, 20].into_iter().flat_map(|kept| [0, usize::MAX - 2].map(|start| (kept, start)))
    {
        let (mut producer, mut consumer) = make(CAPACITY, start).split().unwrap();
        producer.keep_back(kept);
        let most = CAPACITY.saturating_sub(kept);
        let mut model = VecDeque::new();
        for step in 0..if cfg!(miri) { 100u32 } else { 2000 } {
            let number = step.wrapping_mul(2_654_435_761) >> 29;
            // Fills and empties by turns.
            let fills = step / 20 % 2;
            match number {
                0 | 1 => {
                    let pushed = producer.push(step);
                    assert_eq!(pushed, if model.len() < most { Ok(()) } else { Err(step) });
                    model.extend(pushed.is_ok().then_some(step));
                }
                2 => assert_eq!(producer.is_full(), model.len() >= most),
                3 => assert_eq!(producer.room(), most.saturating_sub(model.len())),
                4.. if number % 2 == fills => {
                    let vacant = producer.vacant_of_all();
                    assert_eq!(vacant.is_some(), model.len() < CAPACITY);
                    model.extend(vacant.map(|vacant| {
                        vacant.fill(step);
                        step
                    }));
                }
                _ => {
                    assert_eq!(consumer.pop(), model.pop_front());
                }
            }
            for at in 0..=CAPACITY {
                assert_eq!(consumer.get(at), model.get(at));
            }
            assert_eq!(consumer.popped().wrapping_add(model.len()), producer.pushed());
        }
    }
}

#[test]
fn d4_two_threads_keep_the_order() {
    let (mut producer, mut consumer) = make(4, usize::MAX - 7).split().unwrap();
    let count = if cfg!(miri) { 50 } else { 200_000 };
    let pushing = thread::spawn(move || {
        for number in 0..count {
            let mut element = Box::new(number);
            while let Err(back) = producer.push(element) {
                element = back;
                thread::yield_now();
            }
        }
    });
    for number in 0..count {
        let element = loop {
            match consumer.pop() {
                Some(element) => break element,
                None => thread::yield_now(),
            }
        };
        assert_eq!(*element, number);
    }
    pushing.join().unwrap();
}

#[test]
fn d4_a_ring_has_one_pair_of_ends_at_a_time_and_keeps_its_elements() {
    let ring = make(4, 0);
    let (mut producer, consumer) = ring.split().unwrap();
    producer.push(1).unwrap();
    drop(consumer);
    assert!(ring.split().is_none());
    drop(producer);
    let (mut producer, mut consumer) = ring.split().unwrap();
    producer.push(2).unwrap();
    *consumer.peek().unwrap() = 3;
    assert_eq!([consumer.pop(), consumer.pop(), consumer.pop()], [Some(3), Some(2), None]);
}

#[test]
fn d4_sizes_are_powers_of_two() {
    assert!(Ring::<u8>::new(&mut []).is_err());
    let entries: Vec<Entry<u8>> = (0..3).map(|_| Entry::new()).collect();
    assert!(Ring::new(entries.leak()).is_err());
}
