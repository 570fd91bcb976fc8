//! Bulletins: what is shown is whole, and is replaced only behind its readers.

use crate::{explore, forever};
use loom::thread;
use rings::bulletin::{Bulletin, is_later, number};

#[test]
fn h5_two_that_read_before_they_show_more_read_whole_words() {
    explore(3, || {
        let bulletins = forever([Bulletin::default(), Bulletin::default()]);
        let member = |own: usize| {
            let other = &bulletins[1 - own];
            for turn in 0..3 {
                let number = number(0, turn);
                // What each has shown says that it has read all before.
                while !is_later(other.latest(), bulletins[own].replaces()) && bulletins[own].replaces() != 0 {
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
            }
        };
        let peer = thread::spawn(move || member(1));
        member(0);
        peer.join().unwrap();
    });
}
