use super::*;
use std::boxed::Box;
use std::thread;
use std::vec::Vec;

fn queue<W: Copy + Send>() -> &'static PostQueue<W> {
    Box::leak(Box::new(PostQueue::new()))
}

fn slots<W>(count: usize) -> &'static [PostSlot<W>] {
    (0..count).map(|_| PostSlot::new()).collect::<Vec<_>>().leak()
}

#[test]
fn p2_posts_are_taken_in_their_order_and_their_slots_are_free_again() {
    static QUEUE: PostQueue<usize> = PostQueue::new();
    static SLOTS: [PostSlot<usize>; 3] = [const { PostSlot::new() }; 3];
    let mut consumer = QUEUE.consumer().unwrap();
    for round in 0..5 {
        for (at, slot) in SLOTS.iter().enumerate().take(1 + round % 3) {
            assert!(!slot.is_busy());
            QUEUE.post(slot, round * 10 + at).unwrap();
            assert_eq!(QUEUE.post(slot, 99), Err(Busy));
        }
        for at in 0..1 + round % 3 {
            assert!(!QUEUE.is_empty());
            assert_eq!((consumer.peek(), consumer.peek()), (Some(round * 10 + at), Some(round * 10 + at)));
            consumer.pop();
        }
        assert_eq!((consumer.peek(), QUEUE.is_empty()), (None, true));
        consumer.pop();
    }
}

#[test]
fn p2_one_consumer_at_a_time_and_the_next_goes_on_where_the_last_stopped() {
    let (queue, slots) = (queue(), slots(3));
    for (number, slot) in slots.iter().enumerate() {
        queue.post(slot, number).unwrap();
    }
    let mut consumer = queue.consumer().unwrap();
    assert!(queue.consumer().is_none());
    assert_eq!(consumer.peek(), Some(0));
    consumer.pop();
    assert_eq!(consumer.peek(), Some(1));
    drop(consumer);
    let mut consumer = queue.consumer().unwrap();
    assert_eq!(consumer.peek(), Some(1));
    consumer.pop();
    queue.post(&slots[0], 3).unwrap();
    assert_eq!(consumer.peek(), Some(2));
}

#[test]
fn p2_a_slot_is_in_one_queue_at_a_time() {
    let (one, other, slots) = (queue(), queue(), slots(1));
    one.post(&slots[0], 1).unwrap();
    assert_eq!(other.post(&slots[0], 2), Err(Busy));
    let mut consumer = one.consumer().unwrap();
    consumer.peek();
    consumer.pop();
    assert_eq!(other.post(&slots[0], 2), Ok(false));
}

#[test]
fn n8_a_post_tells_whether_its_consumer_sleeps() {
    let (queue, slots) = (queue(), slots(3));
    let mut consumer = queue.consumer().unwrap();
    assert_eq!(queue.post(&slots[0], 0), Ok(false));
    assert!(!consumer.sleep(), "it sleeps on a post");
    consumer.peek();
    consumer.pop();
    assert!(consumer.sleep() && consumer.sleep() && queue.is_empty());
    assert_eq!(queue.post(&slots[1], 1), Ok(true));
    assert_eq!(queue.post(&slots[2], 2), Ok(false));
    for number in 1..3 {
        assert_eq!(consumer.peek(), Some(number));
        consumer.pop();
    }
    assert!(consumer.sleep());
    consumer.awake();
    assert_eq!((queue.post(&slots[0], 3), consumer.peek()), (Ok(false), Some(3)));
    consumer.pop();
    assert!(consumer.sleep());
    // The next consumer is awake until it says otherwise.
    drop(consumer);
    assert_eq!(queue.post(&slots[0], 4), Ok(false));
}

#[test]
fn p11_a_million_posts_wait_without_memory_of_the_queue() {
    let count = if cfg!(miri) { 1000 } else { 1_000_000 };
    let (queue, slots) = (queue(), slots(count));
    for (number, slot) in slots.iter().enumerate() {
        queue.post(slot, number).unwrap();
    }
    let mut consumer = queue.consumer().unwrap();
    for number in 0..count {
        assert_eq!(consumer.peek(), Some(number));
        consumer.pop();
    }
    assert!(queue.is_empty() && slots.iter().all(|slot| !slot.is_busy()));
}

#[test]
fn p2_posts_of_many_threads_all_arrive_in_each_threads_order() {
    const THREADS: usize = 4;
    let count = if cfg!(miri) { 20 } else { 50_000 };
    let queue = queue();
    let posters: Vec<_> = (0..THREADS)
        .map(|thread| {
            let slots = slots(3);
            thread::spawn(move || {
                for number in 0..count {
                    while queue.post(&slots[number % 3], (thread, number)).is_err() {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let mut consumer = queue.consumer().unwrap();
    let mut next = [0; THREADS];
    while next.iter().any(|&next| next < count) {
        match consumer.peek() {
            Some((thread, number)) => {
                assert_eq!(next[thread], number);
                next[thread] += 1;
                consumer.pop();
            }
            None => thread::yield_now(),
        }
    }
    for poster in posters {
        poster.join().unwrap();
    }
    assert!(consumer.peek().is_none() && queue.is_empty());
}
