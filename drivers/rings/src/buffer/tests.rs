use super::*;
use std::boxed::Box;
use std::{thread, vec};

fn memory(len: usize) -> &'static mut [u8] {
    vec![7; len].leak()
}

#[test]
fn p6_a_buffer_is_aligned_and_gives_all_its_memory_back() {
    for (skip, len) in (0..64).step_by(9).flat_map(|skip| (0..260).step_by(13).map(move |len| (skip, len))) {
        let memory = &mut memory(skip + len)[skip..];
        match Buffer::new(memory) {
            Ok(mut buffer) => {
                assert_eq!(buffer.as_slice().as_ptr().addr() % 64, 0);
                assert!(buffer.len() + CONTROL_BYTES <= len && len <= buffer.len() + CONTROL_BYTES + 63);
                buffer.as_mut_slice().fill(1);
                let back = buffer.into_memory().unwrap();
                assert_eq!(back.len(), len);
                back.fill(2);
            }
            Err(TooSmall(back)) => assert!(back.len() == len && len < CONTROL_BYTES + 63),
        }
    }
}

#[test]
fn p6_a_buffer_comes_back_when_the_last_source_is_gone() {
    let mut buffer = Buffer::new(memory(400)).unwrap();
    buffer.as_mut_slice()[..4].copy_from_slice(b"abcd");
    let lease = buffer.lend();
    let source = lease.source();
    let part = source.slice(1..3).unwrap();
    drop(source);
    assert_eq!((part.as_slice(), part.len(), lease.is_idle()), (&b"bc"[..], 2, false));
    let lease = lease.reclaim().err().unwrap();
    let copy = part.clone();
    drop(part);
    assert_eq!(copy.as_slice(), b"bc");
    drop(copy);
    let mut buffer = lease.reclaim().ok().unwrap();
    buffer.as_mut_slice()[0] = b'z';
    assert_eq!(buffer.as_slice()[..4], *b"zbcd");
}

#[test]
fn d9_a_part_outside_the_source_is_none() {
    let source = Source::from(&b"0123"[..]);
    assert_eq!(source.slice(4..4).unwrap().len(), 0);
    assert_eq!(source.slice(0..4).unwrap().as_slice(), b"0123");
    for (start, end) in [(0, 5), (5, 5), (3, 2), (usize::MAX, 0), (0, usize::MAX)] {
        assert!(source.slice(start..end).is_none());
    }
}

#[test]
fn p6_sources_travel_raw_and_between_threads() {
    assert!(size_of::<Source>() == 24 && size_of::<Option<Source>>() == 24);
    let lease = Buffer::new(memory(200)).unwrap().lend();
    let raw = lease.source().into_raw();
    assert!(!lease.is_idle());
    let reader = thread::spawn(move || {
        // SAFETY: taken apart above, put together once.
        let source = unsafe { Source::from_raw(raw) };
        source.clone().as_slice().iter().map(|&byte| usize::from(byte)).sum::<usize>()
    });
    let mut lease = lease;
    let mut buffer = loop {
        match lease.reclaim() {
            Ok(buffer) => break buffer,
            Err(back) => lease = back,
        }
        thread::yield_now();
    };
    buffer.as_mut_slice().fill(0);
    assert_eq!(reader.join().unwrap(), buffer.len() * 7);
}

#[test]
fn p6_a_dropped_lease_leaves_its_sources_valid() {
    let source = Box::new({
        let lease = Buffer::new(memory(200)).unwrap().lend();
        lease.source()
    });
    assert!(source.as_slice().iter().all(|&byte| byte == 7));
}
