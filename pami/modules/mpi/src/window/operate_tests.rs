use super::*;
use std::boxed::Box;
use std::vec::Vec;

fn memory(bytes: &[u8]) -> Shared {
    let room = Box::leak(std::vec![0; bytes.len() + 2 * pami::CONTROL_BYTES].into_boxed_slice());
    // Cut to exactly as many bytes as are wanted.
    let skip = room.as_ptr().align_offset(64);
    let room = &mut room[skip..skip + pami::CONTROL_BYTES + bytes.len()];
    let memory = pami::Buffer::new(room).unwrap().share();
    assert_eq!(memory.len(), bytes.len());
    memory.write(0, bytes).unwrap();
    memory
}

fn read(memory: &Shared) -> Vec<u8> {
    let mut bytes = std::vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn p7_blocks_are_combined_and_what_lies_between_stays() {
    let memory = memory(&(0..40).collect::<Vec<u8>>());
    let operation = WindowOperation::new(Op::Sum, Basic::U8, AccumulateKind::Fetch).unwrap();
    let places = WindowBlocks { first: 3, block: 2, stride: 5, skip: 1, len: 4 };
    assert!(operation.fits(&places));
    assert_eq!(places.end(), Some(3 + 2 * 5 + 1));
    let mut old = [0; 4];
    operation.carry_out(&memory, places, &[100, 101, 102, 103], Some(&mut old)).unwrap();
    assert_eq!(old, [4, 8, 9, 13]);
    let mut wanted: Vec<u8> = (0..40).collect();
    for (at, add) in [(4, 100), (8, 101), (9, 102), (13, 103)] {
        wanted[at] += add;
    }
    assert_eq!(read(&memory), wanted);
}

#[test]
fn p7_words_that_are_broken_or_unaligned_are_values_too() {
    for (len, at) in [(12, 8), (16, 2), (16, 6)] {
        let memory = memory(&[0; 16][..len]);
        memory.write(at, &7u32.to_ne_bytes()).unwrap();
        let operation = WindowOperation::new(Op::Prod, Basic::U32, AccumulateKind::Combine).unwrap();
        let places = WindowBlocks { first: at, block: 4, stride: 4, skip: 0, len: 4 };
        operation.carry_out(&memory, places, &6u32.to_ne_bytes(), None).unwrap();
        assert_eq!(read(&memory)[at..at + 4], 42u32.to_ne_bytes());
    }
}

#[test]
fn p7_a_value_is_swapped_only_for_what_is_expected() {
    let memory = memory(&5u16.to_ne_bytes());
    let operation = WindowOperation::new(Op::NoOp, Basic::U16, AccumulateKind::Compare).unwrap();
    let places = WindowBlocks { first: 0, block: 2, stride: 2, skip: 0, len: 2 };
    let swap = |expected: u16, new: u16| {
        let data = [expected.to_ne_bytes(), new.to_ne_bytes()].concat();
        let mut old = [0; 2];
        operation.carry_out(&memory, places, &data, Some(&mut old)).unwrap();
        u16::from_ne_bytes(old)
    };
    assert_eq!((swap(4, 9), swap(5, 9), swap(5, 1)), (5, 5, 9));
    assert_eq!(read(&memory), 9u16.to_ne_bytes());
}

#[test]
fn p7_sums_of_several_threads_and_updates_of_words_are_all_there() {
    let memory = memory(&[0; 64]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    memory.update(8, Width::Four, Update::Add(1)).unwrap();
                    memory.update(12, Width::Four, Update::Add(1)).unwrap();
                }
            });
        }
        let operation = WindowOperation::new(Op::Sum, Basic::I32, AccumulateKind::Combine).unwrap();
        let places = WindowBlocks { first: 8, block: 8, stride: 8, skip: 0, len: 8 };
        for _ in 0..1000 {
            let ones = [1i32.to_ne_bytes(), 1i32.to_ne_bytes()].concat();
            operation.carry_out(&memory, places, &ones, None).unwrap();
        }
    });
    assert_eq!(read(&memory)[8..16], [3000i32.to_ne_bytes(), 3000i32.to_ne_bytes()].concat());
}

#[test]
fn d9_requests_that_no_origin_sends_do_not_fit() {
    let operation = WindowOperation::new(Op::Sum, Basic::I32, AccumulateKind::Combine).unwrap();
    for places in [
        WindowBlocks { first: 0, block: 6, stride: 8, skip: 0, len: 12 },
        WindowBlocks { first: 0, block: 8, stride: 8, skip: 2, len: 8 },
        WindowBlocks { first: 0, block: 8, stride: 8, skip: 0, len: 7 },
    ] {
        assert!(!operation.fits(&places));
    }
    let overflow = WindowBlocks { first: usize::MAX, block: 4, stride: 8, skip: 0, len: 4 };
    assert_eq!(overflow.end(), None);
    let empty = WindowBlocks { first: 0, block: 0, stride: 8, skip: 0, len: 4 };
    assert_eq!(empty.end(), None);
    assert_eq!(WindowOperation::new(Op::Band, Basic::F32, AccumulateKind::Combine).err(), Some(Error::Op));
}
