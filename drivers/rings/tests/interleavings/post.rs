//! Posts: none is lost, doubled or slept through.

use crate::{explore, forever};
use loom::sync::Arc;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use rings::bell::{Bell, Rest};
use rings::post::{PostQueue, PostSlot};

/// Takes what can be taken now, `tries` times.
fn take<W: Copy + Send>(consumer: &mut rings::post::PostConsumer<W>, tries: usize, into: &mut Vec<W>) {
    for _ in 0..tries {
        if let Some(work) = consumer.peek() {
            into.push(work);
            consumer.pop();
        }
    }
}

#[test]
fn p2_posts_of_two_threads_arrive_once_each_in_its_threads_order() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let poster = |first: u32, count: u32| {
            thread::spawn(move || {
                for number in first..first + count {
                    queue.post(forever(PostSlot::new()), number).unwrap();
                }
            })
        };
        let posters = [poster(10, 2), poster(20, 1)];
        let mut consumer = queue.consumer().unwrap();
        let mut taken = Vec::new();
        take(&mut consumer, 2, &mut taken);
        posters.into_iter().for_each(|poster| poster.join().unwrap());
        take(&mut consumer, 3, &mut taken);
        assert!(queue.is_empty() && consumer.peek().is_none());
        assert_eq!(taken.iter().filter(|&&work| work < 20).collect::<Vec<_>>(), [&10, &11]);
        assert!(taken.len() == 3 && taken.contains(&20));
    });
}

#[test]
fn p2_a_slot_is_posted_again_only_when_its_work_was_taken() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let slot = forever(PostSlot::new());
        let other = thread::spawn(move || queue.post(forever(PostSlot::new()), 100).unwrap());
        let poster =
            thread::spawn(move || (0..3).filter(|&number| queue.post(slot, number).is_ok()).collect());
        let mut consumer = queue.consumer().unwrap();
        let mut taken = Vec::new();
        take(&mut consumer, 2, &mut taken);
        let posted: Vec<u32> = poster.join().unwrap();
        other.join().unwrap();
        take(&mut consumer, 4, &mut taken);
        assert!(!slot.is_busy() && queue.is_empty());
        taken.retain(|&work| work != 100);
        assert_eq!(taken, posted);
    });
}

#[test]
fn n8_what_was_written_before_a_refused_post_is_seen_once_the_slot_is_free() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let (slot, word) = (forever(PostSlot::new()), forever(AtomicUsize::new(0)));
        queue.post(slot, 1).unwrap();
        let poster = thread::spawn(move || {
            word.store(1, Ordering::Relaxed);
            queue.post(slot, 2).is_err()
        });
        let mut taken = Vec::new();
        take(&mut queue.consumer().unwrap(), 1, &mut taken);
        let seen = word.load(Ordering::Relaxed);
        assert!(!poster.join().unwrap() || seen == 1);
    });
}

#[test]
fn p2_of_two_threads_one_gets_the_slot() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let slot = forever(PostSlot::new());
        let poster = thread::spawn(move || queue.post(slot, 1).is_ok());
        let mine = queue.post(slot, 2).is_ok();
        assert!(poster.join().unwrap() != mine);
        assert_eq!(queue.consumer().unwrap().peek(), Some(if mine { 2 } else { 1 }));
    });
}

#[test]
fn p2_the_next_consumer_goes_on_where_the_last_stopped() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        for number in 0..2 {
            queue.post(forever(PostSlot::new()), number).unwrap();
        }
        let step = move || {
            let mut taken = Vec::new();
            if let Some(mut consumer) = queue.consumer() {
                take(&mut consumer, 1, &mut taken);
            }
            taken
        };
        let other = thread::spawn(step);
        let mut taken = step();
        taken.extend(other.join().unwrap());
        taken.extend(step());
        taken.sort();
        assert_eq!(taken, [0, 1]);
    });
}

#[test]
fn n8_no_post_is_slept_through() {
    explore(3, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let bell = forever(Bell::new());
        let interrupt = Arc::new(Notify::new());
        let posters = [1, 2].map(|number| {
            let interrupt = interrupt.clone();
            thread::spawn(move || {
                queue.post(forever(PostSlot::new()), number).unwrap();
                if let Some(hart) = bell.ring() {
                    assert_eq!(hart, 3);
                    interrupt.notify();
                }
            })
        });
        let mut consumer = queue.consumer().unwrap();
        let mut taken = Vec::new();
        while taken.len() < 2 {
            bell.arm(3);
            let before = taken.len();
            take(&mut consumer, 2, &mut taken);
            if taken.len() == before {
                // Loom reports a deadlock when nobody notifies.
                interrupt.wait();
            }
            bell.disarm(Rest::Quiet);
        }
        posters.into_iter().for_each(|poster| poster.join().unwrap());
    });
}

#[test]
fn n8_one_poster_hears_of_a_consumer_that_sleeps() {
    explore(3, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let hart = forever(AtomicUsize::new(0));
        let interrupt = Arc::new(Notify::new());
        let posters = [1, 2].map(|number| {
            let interrupt = interrupt.clone();
            thread::spawn(move || {
                if queue.post(forever(PostSlot::new()), number).unwrap() {
                    // What the consumer wrote before it said that it sleeps.
                    assert_eq!(hart.load(Ordering::Relaxed), 3);
                    interrupt.notify();
                }
            })
        });
        let mut consumer = queue.consumer().unwrap();
        let mut taken = Vec::new();
        while taken.len() < 2 {
            hart.store(3, Ordering::Relaxed);
            if consumer.sleep() {
                // Loom reports a deadlock when nobody notifies.
                interrupt.wait();
                consumer.awake();
            }
            take(&mut consumer, 2, &mut taken);
            thread::yield_now();
        }
        posters.into_iter().for_each(|poster| poster.join().unwrap());
        taken.sort();
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn n8_a_consumer_that_woke_by_itself_takes_back_that_it_sleeps() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let mut consumer = queue.consumer().unwrap();
        assert!(consumer.sleep());
        let poster = thread::spawn(move || queue.post(forever(PostSlot::new()), 1).unwrap());
        consumer.awake();
        let late = queue.post(forever(PostSlot::new()), 2).unwrap();
        let told = poster.join().unwrap();
        assert!(!late && !queue.is_empty(), "awake, and told to wake");
        let mut taken = Vec::new();
        take(&mut consumer, 4, &mut taken);
        taken.sort();
        assert_eq!(taken, [1, 2]);
        // Whether the other came before or behind is a matter of chance; it is empty and asleep again either way.
        let _ = told;
        assert!(queue.is_empty() && consumer.sleep());
    });
}
