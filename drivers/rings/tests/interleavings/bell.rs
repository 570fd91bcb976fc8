//! Bells: what was rung for is looked at.

use crate::{explore, forever};
use loom::sync::Arc;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;
use rings::bell::{Bell, Rest};

#[test]
fn n8_nothing_that_was_rung_for_is_overlooked_or_slept_through() {
    explore(4, || {
        let bell = forever(Bell::new());
        let published = forever([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let interrupt = Arc::new(Notify::new());
        let ringers = [0, 1].map(|number| {
            let interrupt = interrupt.clone();
            thread::spawn(move || {
                published[number].store(1, Ordering::Relaxed);
                if let Some(hart) = bell.ring() {
                    assert_eq!(hart, 3);
                    interrupt.notify();
                }
            })
        });
        let seen = || published.iter().map(|word| word.load(Ordering::Relaxed)).sum::<usize>();
        // One that looks only when it heard the bell.
        let mut found = if bell.take(Rest::Quiet) { seen() } else { 0 };
        while found < 2 {
            bell.arm(3);
            if seen() == found {
                // Loom reports a deadlock when nobody notifies.
                interrupt.wait();
            }
            bell.disarm(Rest::Quiet);
            found = seen();
        }
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
    });
}

#[test]
fn n8_a_bell_that_is_quiet_hides_nothing() {
    explore(4, || {
        let bell = forever(Bell::new());
        let published = forever([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let ringers = [0, 1].map(|number| {
            thread::spawn(move || {
                published[number].store(1, Ordering::Relaxed);
                bell.ring();
            })
        });
        let seen = || published.iter().map(|word| word.load(Ordering::Relaxed)).sum::<usize>();
        let early = if bell.take(Rest::Quiet) { seen() } else { 0 };
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
        // What an earlier look did not see rings again.
        assert!(early == 2 || !bell.rests(Rest::Quiet) || seen() == early);
        let late = if bell.take(Rest::Quiet) { seen() } else { early };
        assert_eq!(late, 2);
    });
}

#[test]
fn h5_n8_nothing_is_slept_through_that_a_watched_bell_was_not_rung_for() {
    explore(4, || {
        let bell = forever(Bell::new());
        bell.disarm(Rest::Watched);
        let published = forever(AtomicUsize::new(0));
        let interrupt = Arc::new(Notify::new());
        let notifier = interrupt.clone();
        let publisher = thread::spawn(move || {
            published.store(1, Ordering::Release);
            fence(Ordering::SeqCst);
            if !bell.is_watched() && bell.ring().is_some() {
                notifier.notify();
            }
        });
        while published.load(Ordering::Acquire) == 0 {
            bell.arm(3);
            if published.load(Ordering::Acquire) == 0 {
                interrupt.wait();
            }
            bell.disarm(Rest::Watched);
        }
        publisher.join().unwrap();
    });
}
