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
fn h5_what_is_shown_is_found_by_its_number_until_the_second_one_after_it() {
    let bulletin = Bulletin::default();
    assert_eq!((bulletin.latest(), bulletin.replaces()), (0, 0));
    let shown = |number| bulletin.find(number).map(|shown| (shown.tag(), shown.word(0), shown.word(8)));
    for turn in 0..7 {
        let number = number(2, turn);
        assert_eq!(bulletin.replaces(), if turn < 2 { 0 } else { super::number(2, turn - 2) });
        bulletin.show(number, u64::from(turn) + 50, [u64::from(turn), 9].into_iter());
        assert_eq!(
            (bulletin.latest(), shown(number)),
            (number, Some((u64::from(turn) + 50, turn.into(), 9)))
        );
        for before in 0..turn {
            assert_eq!(shown(super::number(2, before)).is_some(), before + 1 == turn);
        }
    }
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
