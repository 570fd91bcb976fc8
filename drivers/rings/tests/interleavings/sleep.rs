//! Sleepers that wait for one end.

use crate::{explore, forever};
use loom::sync::Arc;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use rings::sleep::SleepSet;

#[test]
fn n8_nobody_of_two_who_wait_for_the_same_end_sleeps_through_it() {
    explore(3, || {
        let set = forever(SleepSet::new());
        let done = forever(AtomicUsize::new(0));
        let interrupts = [0, 1].map(|_| Arc::new(Notify::new()));
        let waiters = [0, 1].map(|hart| {
            let interrupt = interrupts[hart].clone();
            thread::spawn(move || {
                loop {
                    set.arm(hart);
                    if done.load(Ordering::Acquire) == 1 {
                        break;
                    }
                    interrupt.wait();
                }
                set.disarm(hart);
            })
        });
        done.store(1, Ordering::Release);
        set.wake().for_each(|hart| interrupts[hart].notify());
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}
