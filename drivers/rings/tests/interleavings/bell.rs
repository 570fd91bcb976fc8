//! Bells: what was rung for is looked at.

use crate::{explore, forever};
use loom::sync::Arc;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use rings::bell::Bell;

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
        let mut found = if bell.take() { seen() } else { 0 };
        while found < 2 {
            bell.arm(3);
            if seen() == found {
                // Loom reports a deadlock when nobody notifies.
                interrupt.wait();
            }
            bell.disarm();
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
        let early = if bell.take() { seen() } else { 0 };
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
        // What an earlier look did not see rings again.
        assert!(early == 2 || !bell.is_quiet() || seen() == early);
        let late = if bell.take() { seen() } else { early };
        assert_eq!(late, 2);
    });
}
