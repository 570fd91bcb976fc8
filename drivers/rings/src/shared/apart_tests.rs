//! Memory that is somebody else's (SPEC Q-3): every alignment, against a model of plain bytes.

use super::*;
use crate::buffer::{Apart, ControlBlock};
use proptest::prelude::*;
use std::boxed::Box;
use std::{panic, thread, vec, vec::Vec};

/// Bytes around the memory, which nothing may touch.
const GUARD: u8 = 0xee;
/// Most bytes of a memory: more than a loop copies in a turn, on both sides of whole words.
const MOST: usize = 100;

/// `len` bytes at `skip` bytes behind a multiple of eight, with guards around them.
struct Somebodys {
    memory: *mut [u64],
    skip: usize,
    len: usize,
}

impl Somebodys {
    fn new(skip: usize, len: usize) -> Self {
        let words = vec![u64::from_ne_bytes([GUARD; WORD]); 4 + len / WORD].into_boxed_slice();
        Self { memory: Box::into_raw(words), skip, len }
    }

    /// Puts them into shared use.
    fn share(&self) -> Shared {
        let control = Box::leak(Box::default());
        let data = self.memory.cast::<u8>().wrapping_add(WORD + self.skip);
        // SAFETY: inside the box; until `back` only through handles.
        unsafe { Buffer::over(data, self.len, control) }.unwrap().share()
    }

    /// Takes them back. The guards are as they were.
    fn back(self, memory: Shared) -> Vec<u8> {
        let buffer = memory.reclaim().ok().unwrap();
        assert_eq!(buffer.as_slice().len(), self.len);
        let Apart { data, len, .. } = buffer.into_memory().unwrap_err();
        assert_eq!((data.addr() % WORD, len), (self.skip, self.len));
        // SAFETY: made by `Box::into_raw`, and nobody else uses it any more.
        let words = unsafe { Box::from_raw(self.memory) };
        let all: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (front, rest) = all.split_at(WORD + self.skip);
        let (bytes, behind) = rest.split_at(self.len);
        assert!(front.iter().chain(behind).all(|&byte| byte == GUARD));
        bytes.into()
    }
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed + 7 * at) as u8).collect()
}

/// Copies `len` bytes from memory to memory, in three ways, and compares with the same done to plain bytes.
fn compare((from_skip, from): (usize, usize), (to_skip, to): (usize, usize), len: usize, plain_skip: usize) {
    let sizes @ [from_len, to_len] = [from + len + 3, to + len + 5];
    let [mut expected_from, mut expected_to] = sizes.map(|len| pattern(len, len));
    let places = [Somebodys::new(from_skip, from_len), Somebodys::new(to_skip, to_len)];
    let [source, target] = [&places[0], &places[1]].map(Somebodys::share);
    source.write(0, &expected_from).unwrap();
    target.write(0, &expected_to).unwrap();

    source.copy(from, &target, to, len).unwrap();
    expected_to[to..to + len].copy_from_slice(&expected_from[from..from + len]);
    let mut plain = vec![0u64; 2 + MOST / WORD + 1];
    // SAFETY: the bytes of the words.
    let plain = unsafe { slice::from_raw_parts_mut(plain.as_mut_ptr().cast::<u8>(), plain.len() * WORD) };
    plain.fill(GUARD);
    let room = &mut plain[plain_skip..plain_skip + len];
    target.read(to, room).unwrap();
    assert_eq!(room, &expected_to[to..to + len]);
    room.reverse();
    source.write(from, room).unwrap();
    expected_from[from..from + len].copy_from_slice(room);
    assert!(plain[..plain_skip].iter().chain(&plain[plain_skip + len..]).all(|&byte| byte == GUARD));

    let [from_place, to_place] = places;
    assert_eq!(from_place.back(source), expected_from);
    assert_eq!(to_place.back(target), expected_to);
}

#[test]
fn q3_every_alignment_of_both_sides_is_copied_as_plain_bytes_are() {
    // All heads and tails, without a word between them, with some, and with more than a turn of the loop.
    let lens: &[usize] = if cfg!(miri) {
        &[0, 3, 8, 31, 79]
    } else {
        &[0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 40, 63, 64, 71, 72, 73, 80]
    };
    for &len in lens {
        for from_skip in 0..WORD {
            for to_skip in 0..WORD {
                compare((from_skip, 0), (to_skip, 0), len, (from_skip + to_skip) % WORD);
                if !cfg!(miri) {
                    compare((from_skip, 5), (to_skip, 3), len, to_skip);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn q3_any_range_of_any_memory_is_copied_as_plain_bytes_are(
        from in (0..WORD, 0..2 * WORD),
        to in (0..WORD, 0..2 * WORD),
        len in 0..MOST,
        plain_skip in 0..WORD,
    ) {
        compare(from, to, len, plain_skip);
    }
}

#[test]
fn q3_words_and_updates_are_aligned_by_address_and_whole() {
    for skip in 0..WORD {
        for len in 0..3 * WORD {
            let place = Somebodys::new(skip, len);
            let memory = place.share();
            assert_eq!(memory.is_aligned(), skip == 0);
            let zero = vec![0; len];
            memory.write(0, &zero).unwrap();
            let mut sum = 0u64;
            for offset in 0..=len {
                let at = skip + offset;
                let whole = |start: usize| skip <= start && start + WORD <= skip + len;
                for (width, size) in [(Width::Four, 4), (Width::Eight, WORD)] {
                    let expected = match () {
                        () if offset + size > len => Err(Misplaced::Bounds),
                        () if !at.is_multiple_of(size) || !whole(at - at % WORD) => Err(Misplaced::Unaligned),
                        () => Ok(()),
                    };
                    assert_eq!(
                        memory.update(offset, width, Update::Add(1)).map(drop),
                        expected,
                        "{skip} {len}"
                    );
                    sum += u64::from(expected.is_ok());
                }
                let words = memory.words(offset, 1).map(<[_]>::len);
                let outside = offset + WORD > len;
                // What would be whole but for the broken end.
                let broken = offset + WORD <= len + (skip + len).wrapping_neg() % WORD;
                match words {
                    Ok(count) => assert!(count == 1 && !outside && at.is_multiple_of(WORD)),
                    Err(Misplaced::Unaligned) => {
                        assert!(if outside { broken } else { !at.is_multiple_of(WORD) })
                    }
                    Err(Misplaced::Bounds) => assert!(outside && !broken),
                }
            }
            // Each addition counted once at its place, and nothing else changed.
            let bytes = place.back(memory);
            assert_eq!(bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>(), sum);
        }
    }
}

#[test]
fn q3_threads_meet_in_memory_that_begins_and_ends_in_a_word() {
    let rounds = if cfg!(miri) { 10 } else { 5_000 };
    // Bytes 5 to 8 of a word, two words, four bytes of another; in the first word is 0 to 4 of nobody's.
    let place = Somebodys::new(5, 3 + 2 * WORD + 4);
    let memory = place.share();
    let thread = |number: usize| {
        let memory = memory.clone();
        thread::spawn(move || {
            let mut bytes = [0; 3 + 2 * WORD + 4];
            for round in 0..rounds {
                memory.write(number, &[round as u8]).unwrap();
                memory.write(3 + WORD + number, &[round as u8]).unwrap();
                memory.update(3, Width::Eight, Update::Add(1)).unwrap();
                memory.read(number, &mut bytes[number..]).unwrap();
                memory.copy(number, &memory, 3 + 2 * WORD + number, 1).unwrap();
            }
        })
    };
    memory.write(0, &[0; 3 + 2 * WORD + 4]).unwrap();
    [0, 1, 2].map(thread).into_iter().for_each(|thread| thread.join().unwrap());
    let last = (rounds - 1) as u8;
    let bytes = place.back(memory);
    assert_eq!(bytes[..3], [last; 3]);
    assert_eq!(bytes[3..3 + WORD], (3 * rounds as u64).to_ne_bytes());
    assert_eq!(bytes[3 + WORD..3 + 2 * WORD], [last, last, last, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[3 + 2 * WORD..], [last, last, last, 0]);
}

#[test]
fn q3_memory_that_cannot_be_is_refused_and_none_may_be_anywhere() {
    let mut control: &'static mut ControlBlock = Box::leak(Box::default());
    let null = core::ptr::null_mut::<u8>();
    let far = null.with_addr(usize::MAX - 6);
    for (data, len) in [(null, 1), (far, 7), (far, usize::MAX), (null.with_addr(8), 1 << 63)] {
        // SAFETY: there is no such memory, which is what it finds.
        control = unsafe { Buffer::over(data, len, control) }.err().unwrap();
    }
    for (data, aligned) in [(null, true), (far, false), (null.with_addr(usize::MAX), false)] {
        // SAFETY: no bytes are accessed.
        let memory = unsafe { Buffer::over(data, 0, control) }.unwrap().share();
        assert_eq!((memory.len(), memory.is_aligned()), (0, aligned));
        assert_eq!((memory.write(0, &[]), memory.read(0, &mut [])), (Ok(()), Ok(())));
        assert_eq!(memory.copy(0, &memory, 0, 0), Ok(()));
        assert_eq!(memory.write(0, &[1]), Err(Misplaced::Bounds));
        assert_eq!(memory.update(0, Width::Four, Update::Add(1)), Err(Misplaced::Bounds));
        assert_eq!(
            memory.words(0, 0).map(<[_]>::len),
            if aligned { Ok(0) } else { Err(Misplaced::Unaligned) }
        );
        control = memory.reclaim().ok().unwrap().into_memory().unwrap_err().control;
    }
}

#[test]
fn q3_the_owner_is_told_when_nobody_uses_the_memory_and_a_drop_frees_nothing() {
    let mut words = [1u64; 4];
    let data = words.as_mut_ptr().cast::<u8>();
    let control: &'static mut ControlBlock = Box::leak(Box::default());
    // SAFETY: the words are not used before they come back.
    let lease = unsafe { Buffer::over(data.wrapping_add(1), 30, control) }.unwrap().lend();
    let source = lease.source();
    let lease = lease.reclaim().err().unwrap();
    assert_eq!(source.as_slice()[7], u64::to_ne_bytes(1)[0]);
    drop(source);
    let memory = lease.reclaim().ok().unwrap().share();
    let other = memory.clone();
    let memory = memory.reclaim().err().unwrap();
    other.write(0, &[0; 30]).unwrap();
    drop(other);
    let Apart { control, .. } = memory.reclaim().ok().unwrap().into_memory().unwrap_err();
    let (first, last) = (1u64.to_ne_bytes(), 1u64.to_ne_bytes());
    let kept = |bytes: [u8; WORD], at: usize| {
        u64::from_ne_bytes(core::array::from_fn(|byte| if byte == at { bytes[at] } else { 0 }))
    };
    assert_eq!(words, [kept(first, 0), 0, 0, kept(last, 7)]);
    // SAFETY: as above; what is dropped is not used any more.
    drop(unsafe { Buffer::over(words.as_mut_ptr().cast(), 8, control) }.unwrap().share());
    words[0] = 5;
    assert_eq!(words[0], 5);
}

#[test]
fn q3_a_scope_ends_when_the_last_handle_is_gone() {
    let mut bytes = pattern(3, 50);
    let (thread, read) = Shared::scope(&mut bytes[3..44], |memory| {
        let other = memory.clone();
        assert!(memory.clone().reclaim().is_err());
        let thread = thread::spawn(move || {
            (0..other.len()).for_each(|at| other.write(at, &[at as u8]).unwrap());
        });
        let mut byte = [0];
        memory.read(40, &mut byte).unwrap();
        (thread, byte[0])
    });
    // Its handle is gone, so all that it did is seen, though nobody has joined it.
    assert!(bytes[3..44].iter().enumerate().all(|(at, &byte)| byte == at as u8));
    assert!(read == 40 || read == pattern(3, 50)[43]);
    thread.join().unwrap();
    assert_eq!((&bytes[..3], &bytes[44..]), (&pattern(3, 50)[..3], &pattern(3, 50)[44..]));
}

/// What Miri is there for: the block of the count is gone while the drop that made it fall has not returned.
#[test]
fn q3_a_scope_may_end_before_the_drop_of_the_last_handle_returns() {
    let (send, handles) = std::sync::mpsc::channel::<Shared>();
    let thread = thread::spawn(move || handles.into_iter().for_each(drop));
    for _ in 0..200 {
        Shared::scope(&mut [0; 16], |memory| send.send(memory.clone()).unwrap());
    }
    drop(send);
    thread.join().unwrap();
}

#[test]
fn q3_a_scope_that_unwinds_waits_too() {
    let mut bytes = [0; 16];
    let (said, heard) = std::sync::mpsc::channel();
    let unwound = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        Shared::scope(&mut bytes, |memory| {
            let other = memory.clone();
            thread::spawn(move || {
                heard.recv().unwrap();
                other.write(0, &[7; 16]).unwrap();
            });
            said.send(()).unwrap();
            panic::resume_unwind(Box::new(()));
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(bytes, [7; 16]);
}
