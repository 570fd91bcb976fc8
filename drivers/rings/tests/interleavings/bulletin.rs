//! Bulletins: what is shown is whole, and is replaced only behind its readers.

use crate::{explore, forever};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use rings::bulletin::{Bulletin, PAGES, number};

#[test]
fn h5_two_that_read_before_they_show_more_read_whole_words() {
    explore(3, || {
        let bulletins = forever([Bulletin::default(), Bulletin::default()]);
        let member = |own: usize| {
            let other = &bulletins[1 - own];
            // Two that share a page.
            for turn in [0, PAGES as u32, 2 * PAGES as u32] {
                let number = number(0, turn);
                // What each has shown says that it has read all before.
                let replaced = bulletins[own].replaces(number);
                while replaced != 0 && !other.is_done_with(replaced) {
                    thread::yield_now();
                }
                bulletins[own].show(number, turn.into(), [u64::from(turn) * 3].into_iter());
                let shown = loop {
                    match other.find(number) {
                        Some(shown) => break shown,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!((shown.tag(), shown.word(0)), (turn.into(), u64::from(turn) * 3));
                bulletins[own].end(number);
            }
        };
        let peer = thread::spawn(move || member(1));
        member(0);
        peer.join().unwrap();
    });
}

/// Memory beside the bulletins, which the owner writes before it says so, and again once the other has read it.
#[test]
fn h5_what_lies_elsewhere_is_read_between_two_stages() {
    explore(3, || {
        let bulletins = forever([Bulletin::default(), Bulletin::default()]);
        let word = forever(AtomicU64::new(0));
        let wait = |whose: usize, at: u64, stage: u8| {
            while !bulletins[whose].has_reached(at, stage) {
                thread::yield_now();
            }
        };
        let owner = move || {
            for turn in 0..2 {
                word.store(u64::from(turn) + 7, Ordering::Relaxed);
                bulletins[0].reach(number(0, turn), 1);
                wait(1, number(0, turn), 2);
            }
        };
        let peer = thread::spawn(owner);
        for turn in 0..2 {
            wait(0, number(0, turn), 1);
            assert_eq!(word.load(Ordering::Relaxed), u64::from(turn) + 7);
            bulletins[1].reach(number(0, turn), 2);
        }
        peer.join().unwrap();
    });
}
