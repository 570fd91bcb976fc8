use super::*;
use std::vec::Vec;

#[test]
fn h5_numbers_are_later_by_sequence_which_wraps_and_by_epoch() {
    let later = [
        (number(0, 1), number(0, 0)),
        (number(0, 0), number(0, u32::MAX)),
        (number(1, 0), number(0, 9)),
        (number(0, 5), number(u16::MAX, 7)),
        (number(0, 0), 0),
    ];
    for (one, other) in later {
        assert!(is_later(one, other) && !is_later(other, one), "{one:#x} {other:#x}");
    }
    assert_eq!([number(7, 1), number(0, 0), 0].map(epoch), [Some(7), Some(0), None]);
    assert!(!is_later(0, 0) && !is_later(number(3, 4), number(3, 4)));
}

#[test]
fn h5_what_is_shown_is_found_by_its_number_for_as_many_more_as_there_are_pages() {
    let bulletin = Bulletin::default();
    assert_eq!((bulletin.latest(), bulletin.replaces(number(2, 0))), (0, 0));
    let shown = |number| bulletin.find(number).map(|shown| (shown.tag(), shown.word(0), shown.word(8)));
    for turn in 0..PAGES as u32 * 3 {
        let number = number(2, turn);
        let before = turn.checked_sub(PAGES as u32);
        assert_eq!(bulletin.replaces(number), before.map_or(0, |before| super::number(2, before)));
        bulletin.show(number, u64::from(turn) + 50, [u64::from(turn), 9].into_iter());
        assert_eq!(
            (bulletin.latest(), shown(number)),
            (number, Some((u64::from(turn) + 50, turn.into(), 9)))
        );
        for before in 0..turn {
            let there = turn - before < PAGES as u32;
            assert_eq!(shown(super::number(2, before)).is_some(), there);
        }
    }
    // What shows nothing takes no page.
    let next = number(2, PAGES as u32 * 3);
    bulletin.begin(next);
    assert_eq!((bulletin.latest(), shown(next)), (next, None));
    assert_ne!(bulletin.replaces(next), 0);
    let done = |at: u32| bulletin.is_done_with(number(2, at));
    let at = PAGES as u32 * 3;
    assert_eq!([done(at - 1), done(at)], [true, false]);
    bulletin.end(next);
    assert_eq!([done(at - 1), done(at), done(at + 1)], [true, true, false]);
}

#[test]
fn h5_stages_are_reached_one_after_the_other_and_all_of_what_is_earlier() {
    let bulletin = Bulletin::default();
    let reached = |at: u32| [1, 2, LAST_STAGE].map(|stage| bulletin.has_reached(number(9, at), stage));
    assert_eq!(reached(0), [false; 3]);
    for at in [4, 5] {
        for stage in 1..=LAST_STAGE {
            bulletin.reach(number(9, at), stage);
            assert_eq!(reached(at), [true, stage >= 2, stage >= 3]);
            assert_eq!((reached(at - 1), reached(at + 1)), ([true; 3], [false; 3]));
        }
    }
    bulletin.reach(number(10, 0), 1);
    assert_eq!(reached(u32::MAX / 3), [true; 3], "of a later epoch");
}

#[test]
fn h5_bytes_are_read_from_any_offset_and_are_zeros_beyond_the_page() {
    let bulletin = Bulletin::default();
    let bytes: Vec<u8> = (0..PAGE_BYTES).map(|at| at as u8 ^ 0x5a).collect();
    let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    bulletin.show(number(0, 0), 0, words.chain([7; 4]));
    let shown = bulletin.find(number(0, 0)).unwrap();
    for offset in (0..PAGE_BYTES).step_by(if cfg!(miri) { 37 } else { 1 }) {
        for len in [0, 1, 4, 7, 8, 9, 30] {
            let mut into = [0xff; 30];
            shown.read(offset, &mut into[..len]);
            let expected = bytes[offset..].iter().copied().chain(std::iter::repeat(0));
            assert!(into[..len].iter().copied().eq(expected.take(len)), "{len} bytes from {offset}");
        }
    }
}
