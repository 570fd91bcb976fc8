use super::*;
use crate::buffer::CONTROL_BYTES;
use core::sync::atomic::AtomicUsize;
use std::{thread, vec, vec::Vec};

fn shared(len: usize) -> Shared {
    let memory = vec![0; len + CONTROL_BYTES + 63].leak();
    let skip = memory.as_ptr().align_offset(64);
    Buffer::new(&mut memory[skip..skip + CONTROL_BYTES + len]).unwrap().share()
}

#[test]
fn p8_every_range_is_written_and_read_and_nothing_beside_it() {
    for len in [0, 1, 7, 8, 9, 21] {
        let memory = shared(len);
        for offset in 0..=len {
            for end in offset..=len {
                memory.write(0, &vec![1; len]).unwrap();
                let bytes: Vec<u8> = (0..end - offset).map(|at| 10 + at as u8).collect();
                memory.write(offset, &bytes).unwrap();
                let mut all = vec![0; len];
                memory.read(0, &mut all).unwrap();
                let mut part = vec![0; end - offset];
                memory.read(offset, &mut part).unwrap();
                assert_eq!(part, bytes);
                assert!(all[..offset].iter().chain(&all[end..]).all(|&byte| byte == 1));
                assert_eq!(all[offset..end], bytes);
            }
        }
    }
}

/// Lines that were copied by [`word_by_word`].
static COPIED: AtomicUsize = AtomicUsize::new(0);

unsafe fn word_by_word(source: *const u64, target: *mut u64, lines: usize) {
    COPIED.fetch_add(lines, Ordering::Relaxed);
    for word in 0..lines * 8 {
        // SAFETY: words that may be accessed as atomics, says the caller.
        unsafe {
            let word =
                (AtomicU64::from_ptr(source.add(word).cast_mut()), AtomicU64::from_ptr(target.add(word)));
            word.1.store(word.0.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

#[test]
fn h5_lines_are_copied_by_what_the_port_has_for_that() {
    let (memory, bytes) = (shared(300), Vec::from_iter(0..=255));
    memory.write(3, &bytes).unwrap();
    // SAFETY: it accesses those words alone.
    unsafe { copy_lines_by(word_by_word) };
    let before = COPIED.load(Ordering::Relaxed);
    let into = shared(300);
    memory.copy(3, &into, 11, 256).unwrap();
    assert!(COPIED.load(Ordering::Relaxed) >= before + 3);
    let mut read = vec![0; 256];
    into.read(11, &mut read).unwrap();
    assert_eq!(read, bytes);
}

#[test]
fn d9_a_range_outside_the_memory_is_refused_and_changes_nothing() {
    let memory = shared(20);
    for (offset, len) in [(0, 21), (20, 1), (21, 0), (usize::MAX, 2), (13, 8)] {
        assert_eq!(memory.write(offset, &vec![9; len]), Err(Misplaced::Bounds));
        assert_eq!(memory.read(offset, &mut vec![9; len]), Err(Misplaced::Bounds));
        assert_eq!(memory.copy(offset, &memory, 0, len), Err(Misplaced::Bounds));
        assert_eq!(memory.copy(0, &memory, offset, len), Err(Misplaced::Bounds));
    }
    let mut all = [7; 20];
    memory.read(0, &mut all).unwrap();
    assert_eq!(all, [0; 20]);
}

#[test]
fn p7_every_operator_changes_its_word_alone() {
    let cases = [
        (Update::Add(3), 8),
        (Update::And(6), 4),
        (Update::Or(6), 7),
        (Update::Xor(6), 3),
        (Update::Swap(9), 9),
        (Update::CompareSwap { expected: 5, new: 1 }, 1),
        (Update::CompareSwap { expected: 4, new: 1 }, 5),
    ];
    for (width, size) in [(Width::Four, 4), (Width::Eight, 8)] {
        for offset in (0..24).step_by(size) {
            for (update, wanted) in cases {
                let memory = shared(24);
                memory.write(0, &[0xff; 24]).unwrap();
                memory.update(offset, width, Update::Swap(5)).unwrap();
                assert_eq!(memory.update(offset, width, update), Ok(5));
                assert_eq!(memory.update(offset, width, Update::Or(0)), Ok(wanted));
                let mut all = [0; 24];
                memory.read(0, &mut all).unwrap();
                let others = all[..offset].iter().chain(&all[offset + size..]);
                assert!(others.copied().all(|byte| byte == 0xff), "{update:?} at {offset}");
            }
        }
    }
    let memory = shared(8);
    memory.update(0, Width::Four, Update::Swap(u64::from(u32::MAX))).unwrap();
    assert_eq!(memory.update(0, Width::Four, Update::Add(2)), Ok(u64::from(u32::MAX)), "sums wrap");
    assert_eq!(memory.update(0, Width::Eight, Update::Or(0)), Ok(1), "and carry nothing over");
}

#[test]
fn p7_a_word_that_is_not_aligned_or_not_whole_is_refused() {
    let memory = shared(20);
    for offset in [1, 2, 3, 5] {
        assert_eq!(memory.update(offset, Width::Four, Update::Add(1)), Err(Misplaced::Unaligned));
    }
    assert_eq!(memory.update(4, Width::Eight, Update::Add(1)), Err(Misplaced::Unaligned));
    // Bytes 16 to 19 are not a whole word.
    assert_eq!(memory.update(16, Width::Four, Update::Add(1)), Err(Misplaced::Unaligned));
    assert_eq!(memory.update(16, Width::Eight, Update::Add(1)), Err(Misplaced::Bounds));
}

#[test]
fn p8_the_last_handle_gives_the_buffer_back() {
    let memory = shared(16);
    let other = memory.clone();
    let memory = memory.reclaim().err().unwrap();
    other.write(3, b"abc").unwrap();
    drop(other);
    assert_eq!(memory.reclaim().ok().unwrap().as_slice()[3..6], *b"abc");
}

#[test]
fn p7_updates_from_many_threads_are_all_counted() {
    let rounds = if cfg!(miri) { 20 } else { 10_000 };
    let memory = shared(8);
    let threads: Vec<_> = (0..4usize)
        .map(|number| {
            let memory = memory.clone();
            thread::spawn(move || {
                for _ in 0..rounds {
                    let offset = number % 2 * 4;
                    memory.update(offset, Width::Four, Update::Add(1)).unwrap();
                    // Part of a word, beside others'.
                    let mut byte = [0];
                    memory.read(7, &mut byte).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(memory.update(0, Width::Four, Update::Or(0)), Ok(2 * rounds));
    assert_eq!(memory.update(4, Width::Four, Update::Or(0)), Ok(2 * rounds));
}

#[test]
fn p7_words_are_those_that_all_others_access_and_only_whole_ones() {
    let shared = shared(20);
    shared.write(8, &7u64.to_ne_bytes()).unwrap();
    let words = shared.words(0, 2).unwrap();
    assert_eq!(words[1].load(Ordering::Relaxed), 7);
    words[0].store(u64::MAX, Ordering::Relaxed);
    let mut bytes = [0; 9];
    shared.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [255, 255, 255, 255, 255, 255, 255, 255, bytes[8]]);
    assert_eq!(shared.words(16, 0).map(<[_]>::len), Ok(0));
    for (offset, count, error) in [
        (4, 1, Misplaced::Unaligned),
        // The last four bytes are no word.
        (16, 1, Misplaced::Unaligned),
        (0, 3, Misplaced::Unaligned),
        (8, 3, Misplaced::Bounds),
        (24, 1, Misplaced::Bounds),
        (8, usize::MAX / 8, Misplaced::Bounds),
        (8, usize::MAX, Misplaced::Bounds),
    ] {
        assert_eq!(shared.words(offset, count).map(<[_]>::len), Err(error), "{offset} {count}");
    }
}

#[test]
fn p8_d9_a_spot_is_a_whole_word_at_a_multiple_of_eight_and_keeps_its_memory() {
    let memory = shared(21);
    for offset in [1, 7, 12, 14, 16, 21, usize::MAX - 7, usize::MAX] {
        assert!(Spot::at(memory.clone(), offset).word().is_none(), "{offset}");
    }
    assert!(Spot::of(memory.clone()).word().is_none());
    let spots = [0, 8].map(|offset| Spot::at(memory.clone(), offset));
    assert!(spots.iter().all(|spot| spot.memory().is_same(&memory)));
    drop(memory);
    for (spot, word) in spots.iter().zip([5_u64, 6]) {
        spot.clone().word().unwrap().store(word, Ordering::Relaxed);
    }
    let read = |offset| spots[0].memory().read_word(offset);
    assert_eq!([0, 8].map(read), [Some(5), Some(6)]);
}
