//! Accumulates: order, atomicity, shapes (SPEC P-5, P-10, F-1).

use crate::machine::{buffer, filled};
use crate::tasks::{SMALL, TestLibrary, barrier, got, malloc, on_tasks, own_bytes};
use crate::transfers::{Owned, model, shapes};
use armci::{Error, GlobalAddress, Local, Scale, Settings, Shape};
use pami::Shared;
use proptest::prelude::*;
use std::sync::Mutex;

fn shared(bytes: &[u8]) -> Shared {
    filled(bytes).share()
}

fn clear(library: &TestLibrary, address: GlobalAddress, len: usize) {
    library.slab().unwrap().write(address.offset as usize, &vec![0; len]).unwrap();
    barrier(library);
}

macro_rules! words {
    ($bytes:expr, $type:ty) => {
        $bytes.chunks(size_of::<$type>()).map(|word| <$type>::from_le_bytes(word.try_into().unwrap()))
    };
}

#[test]
fn p5_elements_of_all_types_are_scaled_and_added() {
    on_tasks(2, 1, SMALL, |library| {
        let mine = malloc(&library, 64);
        let other = mine[1 - library.task() as usize];
        let own = mine[library.task() as usize];
        macro_rules! case {
            ($type:ty, $scale:expr, $values:expr, $adds:expr, $sums:expr) => {
                let start: Vec<u8> = $values.iter().flat_map(|value: &$type| value.to_le_bytes()).collect();
                library.slab().unwrap().write(own.offset as usize, &start).unwrap();
                barrier(&library);
                let adds: Vec<u8> = $adds.iter().flat_map(|value: &$type| value.to_le_bytes()).collect();
                library.accumulate($scale, Local::new(&shared(&adds), 0), other, adds.len() as u32).unwrap();
                barrier(&library);
                let sums: Vec<$type> = words!(own_bytes(&library, own, start.len()), $type).collect();
                assert_eq!(sums, $sums);
                barrier(&library);
            };
        }
        case!(i32, Scale::I32(-3), [1, i32::MAX, -5], [2, -1, 0], [-5, i32::MIN + 2, -5]);
        case!(i64, Scale::I64(2), [i64::MAX, 0, 7], [1, -1, i64::MIN], [i64::MIN + 1, -2, 7]);
        case!(
            f32,
            Scale::F32(0.5),
            [1.0, 0.1, f32::INFINITY],
            [3.0, 0.1, 1.0],
            [2.5, 0.1 + 0.5 * 0.1, f32::INFINITY]
        );
        case!(f64, Scale::F64(-1.5), [0.1, 0.0, 1e300], [0.3, -0.0, 1.0], [0.1 + -1.5 * 0.3, 0.0, 1e300]);
    });
}

#[test]
fn f1_an_accumulate_is_carried_out_before_puts_gets_and_updates_behind_it() {
    for (tasks, per_node) in [(2, 1), (2, 2)] {
        on_tasks(tasks, per_node, SMALL, |library| {
            let mine = malloc(&library, 4000);
            clear(&library, mine[library.task() as usize], 4000);
            if library.task() == 0 {
                let ones = shared(&1i64.to_le_bytes().repeat(500));
                let sevens = shared(&7i64.to_le_bytes().repeat(500));
                let from = |memory| Local::new(memory, 0);
                library.accumulate(Scale::I64(5), from(&ones), mine[1], 4000).unwrap();
                assert_eq!(
                    got(&library, mine[1], 4000).unwrap(),
                    5i64.to_le_bytes().repeat(500),
                    "then a get"
                );
                library.accumulate(Scale::I64(1), from(&ones), mine[1], 4000).unwrap();
                library.put(from(&sevens), mine[1], 4000).unwrap();
                assert_eq!(
                    got(&library, mine[1], 4000).unwrap(),
                    7i64.to_le_bytes().repeat(500),
                    "then a put"
                );
                library.accumulate(Scale::I64(1), from(&ones), mine[1], 4000).unwrap();
                assert_eq!(library.fetch_and_add(mine[1], 1i64), Ok(8), "then an update");
                library.put(from(&sevens), mine[1], 4000).unwrap();
                library.accumulate(Scale::I64(1), from(&ones), mine[1], 4000).unwrap();
                assert_eq!(
                    got(&library, mine[1], 4000).unwrap(),
                    8i64.to_le_bytes().repeat(500),
                    "behind a put"
                );
            }
            barrier(&library);
        });
    }
}

#[test]
fn f1_a_fence_covers_accumulates() {
    on_tasks(3, 1, SMALL, |library| {
        let mine = malloc(&library, 2048);
        clear(&library, mine[library.task() as usize], 2048);
        let ones = shared(&1i32.to_le_bytes().repeat(512));
        for _ in 0..3 {
            for to in &mine {
                let handle = library.accumulate_nb(Scale::I32(1), Local::new(&ones, 0), *to, 2048).unwrap();
                library.wait(handle).unwrap();
            }
        }
        // A barrier fences, and asks nobody but by messages.
        barrier(&library);
        assert_eq!(own_bytes(&library, mine[library.task() as usize], 2048), 9i32.to_le_bytes().repeat(512));
    });
}

#[test]
fn p7_accumulates_of_all_tasks_and_updates_of_the_same_element_add_up() {
    const ROUNDS: usize = 50;
    for (tasks, per_node) in [(4, 1), (4, 4)] {
        on_tasks(tasks, per_node, SMALL, |library| {
            let mine = malloc(&library, 64);
            clear(&library, mine[library.task() as usize], 64);
            let halves = shared(&0.5f64.to_le_bytes().repeat(4));
            let counter = mine[0].checked_add(32).unwrap();
            for _ in 0..ROUNDS {
                library.accumulate(Scale::F64(2.0), Local::new(&halves, 0), mine[0], 32).unwrap();
                library.fetch_and_add(counter, 1i32).unwrap();
                library.accumulate(Scale::I32(1), Local::new(&shared(&[1, 0, 0, 0]), 0), counter, 4).unwrap();
            }
            barrier(&library);
            if library.task() == 0 {
                let all = ROUNDS * tasks as usize;
                let seen = own_bytes(&library, mine[0], 36);
                assert_eq!(seen[..32], (all as f64).to_le_bytes().repeat(4));
                assert_eq!(seen[32..], (2 * all as i32).to_le_bytes());
            }
            barrier(&library);
        });
    }
}

#[test]
fn p8_elements_that_are_not_whole_or_not_aligned_are_refused() {
    on_tasks(1, 1, SMALL, |library| {
        let memory = buffer(128).share();
        let accumulate = |offset, shape| {
            let to = GlobalAddress { task: 0, offset };
            library.accumulate(Scale::F64(1.0), Local::new(&memory, 0), to, shape)
        };
        let refused = Err(Error::Unaligned { size: 8 });
        assert_eq!(accumulate(4, Shape::Contiguous(8)), refused);
        assert_eq!(accumulate(0, Shape::Contiguous(12)), refused);
        let strided = |remote| Shape::Strided { count: &[8, 2], local: &[9], remote };
        assert_eq!(accumulate(0, strided(&[12])), refused);
        assert_eq!(accumulate(0, strided(&[16])), Ok(()), "local memory may lie as it likes");
        assert_eq!(accumulate(0, Shape::Vector { bytes: 8, places: &[(0, 0), (8, 4)] }), refused);
    });
}

/// What an accumulate by this shape makes of zeros.
fn accumulated(shape: &Owned, source: &[i32], reach: usize, chunk: usize) -> Vec<i32> {
    let seen = Mutex::new(Vec::new());
    let settings = Settings { slab: (reach as u32).max(64), accumulate_chunk: chunk, ..SMALL };
    on_tasks(2, 1, settings, |library| {
        if library.task() == 0 {
            let bytes: Vec<u8> = source.iter().flat_map(|value| value.to_le_bytes()).collect();
            let to = GlobalAddress { task: 1, offset: 0 };
            library.accumulate(Scale::I32(3), Local::new(&shared(&bytes), 0), to, shape.shape()).unwrap();
            let sums = got(&library, to, reach).unwrap();
            *seen.lock().unwrap() = words!(sums, i32).collect();
        }
        barrier(&library);
    });
    seen.into_inner().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn p10_strided_and_vector_accumulates_are_plain_loops(shape in shapes(4), chunk in 1usize..20) {
        let (mut reach, mut words) = ((0, 0), Vec::new());
        model(&shape, |a, b| {
            reach = (reach.0.max(a + 1), reach.1.max(b + 1));
            if b % 4 == 0 {
                words.push((a / 4, b / 4));
            }
        });
        let source: Vec<i32> = (0..reach.0 / 4).map(|at| 7 * at as i32 - 100).collect();
        let mut sums = vec![0; reach.1 / 4];
        for (a, b) in words {
            sums[b] += 3 * source[a];
        }
        prop_assert_eq!(accumulated(&shape, &source, reach.1, 8 * chunk), sums);
    }
}
