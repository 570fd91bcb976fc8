//! Accumulates: order, atomicity, shapes, splits (SPEC P-5, P-10, F-1, L-5).

use crate::machine::{buffer, filled, machine_of};
use crate::tasks::{SMALL, TestLibrary, barrier, got, malloc, on_tasks, own_bytes};
use crate::threads::on_nodes;
use crate::transfers::{Owned, model, shapes};
use armci::{Error, GlobalAddress, Library, Local, Scale, Settings, Shape, Split};
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::{OperationError, Rule, Shared, SubOperations};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Barrier, Mutex};

/// Half of the chunks are scaled here, within a node added too.
const HALF: &[Rule] = &[Rule {
    element: None,
    from_bytes: 0,
    origin: SubOperations::all(),
    chunks: 500,
    others: SubOperations::empty(),
}];
const SPLITS: [Split; 4] = [Split::TargetOnly, Split::OriginOnly, Split::Rules(HALF), Split::Advice];

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
    for (per_node, accumulate) in [1, 2].into_iter().flat_map(|nodes| SPLITS.map(|split| (nodes, split))) {
        on_tasks(2, per_node, Settings { accumulate, ..SMALL }, |library| {
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
    on_tasks(3, 2, SMALL, |library| {
        let mine = malloc(&library, 2048);
        clear(&library, mine[library.task() as usize], 2048);
        let ones = shared(&1i32.to_le_bytes().repeat(512));
        for split in SPLITS {
            library.set_accumulate(split).unwrap();
            for to in &mine {
                let handle = library.accumulate_nb(Scale::I32(1), Local::new(&ones, 0), *to, 2048).unwrap();
                library.wait(handle).unwrap();
            }
        }
        // A barrier fences, and asks nobody but by messages.
        barrier(&library);
        assert_eq!(own_bytes(&library, mine[library.task() as usize], 2048), 12i32.to_le_bytes().repeat(512));
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
            // Some tasks add in place what others send.
            library.set_accumulate(SPLITS[library.task() as usize]).unwrap();
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

/// An element as it is defined: the product, then the sum.
fn sum(scale: Scale, old: &[u8], new: &[u8]) -> Vec<u8> {
    macro_rules! sum {
        ($type:ty, $sum:expr) => {{
            let read = |bytes: &[u8]| <$type>::from_le_bytes(bytes.try_into().unwrap());
            let sum: $type = $sum(read(old), read(new));
            sum.to_le_bytes().to_vec()
        }};
    }
    match scale {
        Scale::F32(scale) => sum!(f32, |old, new: f32| old + scale * new),
        Scale::F64(scale) => sum!(f64, |old, new: f64| old + scale * new),
        Scale::I32(scale) => sum!(i32, |old: i32, new: i32| old.wrapping_add(scale.wrapping_mul(new))),
        Scale::I64(scale) => sum!(i64, |old: i64, new: i64| old.wrapping_add(scale.wrapping_mul(new))),
    }
}

/// Elements whose sums are rounded.
fn elements(scale: Scale, len: usize, seed: usize) -> Vec<u8> {
    let value = |at: usize| ((at + seed) * 7919 % 1013) as f64 * 1.1f64.powi(((at * 31 + seed) % 40) as i32);
    let bytes = |at| match scale {
        Scale::F32(_) => (value(at) as f32).to_le_bytes().to_vec(),
        Scale::F64(_) => value(at).to_le_bytes().to_vec(),
        Scale::I32(_) => (at * seed * 7919).to_le_bytes()[..4].to_vec(),
        Scale::I64(_) => (at * seed * 7919).to_le_bytes().to_vec(),
    };
    (0..len / scale.element().bytes()).flat_map(bytes).collect()
}

#[test]
fn l5_all_splits_have_the_same_bits_for_all_types_and_shapes() {
    const LEN: usize = 7200;
    let strided = |count: &[u32], local: &[u32], remote: &[u32]| Owned::Strided {
        count: count.to_vec(),
        local: local.to_vec(),
        remote: remote.to_vec(),
    };
    // In a row; rows; more small rows than operations can be under way; segments, some of them neighbours.
    let shapes = [
        strided(&[4000], &[], &[]),
        strided(&[640, 3, 2], &[648, 2000], &[704, 3000]),
        strided(&[8, 100], &[16], &[24]),
        Owned::Vector { bytes: 200, places: vec![(0, 400), (200, 600), (1000, 0), (3000, 6400)] },
    ];
    let scales = [Scale::F32(-1.1), Scale::F64(0.3), Scale::I32(-77_777), Scale::I64(0x1234_5678_9abc_def1)];
    for per_node in [1, 2] {
        on_nodes(machine_of(2, per_node), |node| {
            let library = Library::init(node, SMALL).unwrap();
            let me = Endpoint::from_parts(ClientId(0), library.task(), ContextOffset(0));
            node.world.lock().port(me).idle = 700;
            let mine = malloc(&library, LEN as u32);
            let own = mine[library.task() as usize];
            for (scale, shape) in
                scales.into_iter().flat_map(|scale| shapes.each_ref().map(|shape| (scale, shape)))
            {
                let (old, new) = (elements(scale, LEN, 3), elements(scale, LEN, 5));
                let (size, mut expected) = (scale.element().bytes(), old.clone());
                model(shape, |a, b| {
                    if b % size == 0 {
                        let sum = sum(scale, &expected[b..b + size], &new[a..a + size]);
                        expected[b..b + size].copy_from_slice(&sum);
                    }
                });
                assert_ne!(expected, old);
                for split in SPLITS {
                    library.set_accumulate(split).unwrap();
                    library.slab().unwrap().write(own.offset as usize, &old).unwrap();
                    barrier(&library);
                    if library.task() == 0 {
                        // It need not lie aligned.
                        let memory = shared(&[&[0; 3], &new[..]].concat());
                        library.accumulate(scale, Local::new(&memory, 3), mine[1], shape.shape()).unwrap();
                        assert!(memory.reclaim().is_ok(), "it is the caller's again");
                    }
                    barrier(&library);
                    let seen = own_bytes(&library, own, LEN);
                    let right = if library.task() == 1 { &expected } else { &old };
                    assert!(seen == *right, "{scale:?} {shape:?} {split:?} {per_node}");
                }
            }
            library.finalize().unwrap();
        });
    }
}

#[test]
fn l4_accumulates_are_split_as_the_setting_says() {
    let (out, meet) = (AtomicBool::new(true), Barrier::new(2));
    on_nodes(machine_of(2, 2), |node| {
        let library = Library::init(node, SMALL).unwrap();
        let mine = malloc(&library, 4096);
        let own = mine[library.task() as usize];
        clear(&library, own, 4096);
        // A task may be in the library's barrier after another has left it.
        meet.wait();
        if library.task() == 0 {
            let ones = shared(&1i32.to_le_bytes().repeat(1024));
            let from = Local::new(&ones, 0);
            // The target is in no call of the library's: what it is to do is not done, and the rest is.
            let mut late = Vec::new();
            for (split, here) in
                [(Split::OriginOnly, true), (Split::TargetOnly, false), (Split::OriginOnly, true)]
            {
                library.set_accumulate(split).unwrap();
                assert_eq!(library.settings(), Settings { accumulate: split, ..SMALL });
                let to = mine[1].checked_add(if here { 0 } else { 2048 }).unwrap();
                let handle = library.accumulate_nb(Scale::I32(1), from, to, 2048).unwrap();
                for _ in 0..100 {
                    library.progress();
                }
                assert_eq!(library.test(&handle), Ok(here), "{split:?}");
                late.push(handle);
            }
            out.store(false, SeqCst);
            late.into_iter().for_each(|handle| library.wait(handle).unwrap());
        }
        while out.load(SeqCst) {
            std::thread::yield_now();
        }
        barrier(&library);
        if library.task() == 1 {
            let sums = [2i32, 1].map(|sum| sum.to_le_bytes().repeat(512)).concat();
            assert_eq!(own_bytes(&library, own, 4096), sums);
        }
        barrier(&library);
        library.finalize().unwrap();
    });
}

#[test]
fn d8_accumulates_to_a_node_that_dies_end() {
    for split in SPLITS {
        let (ready, dead) = (AtomicBool::new(false), AtomicBool::new(false));
        on_nodes(machine_of(2, 1), |node| {
            let library = Library::init(node, Settings { accumulate: split, ..SMALL }).unwrap();
            if library.task() == 1 {
                ready.store(true, SeqCst);
                // Some time, without a call of the library's.
                while !dead.load(SeqCst) {
                    std::thread::yield_now();
                }
                return;
            }
            let (ones, to) = (shared(&[1; 64]), GlobalAddress { task: 1, offset: 0 });
            let handle = library.accumulate_nb(Scale::I64(1), Local::new(&ones, 0), to, 64).unwrap();
            library.progress();
            // It is not to die in its `init`.
            while !ready.load(SeqCst) {
                std::thread::yield_now();
            }
            node.world.kill(1);
            dead.store(true, SeqCst);
            let ended = library.wait(handle);
            let died = Err(Error::Operation(OperationError::NodeDead(1)));
            // By advice nothing was sent before.
            assert_eq!(ended, if split == Split::Advice { died } else { Ok(()) }, "{split:?}");
            assert!(ones.reclaim().is_ok());
            assert!(library.fence(1).is_err());
            assert_eq!(library.finalize(), died);
        });
    }
}

/// What an accumulate by this shape makes of zeros.
fn accumulated(shape: &Owned, source: &[i32], reach: usize, accumulate: Split) -> Vec<i32> {
    let seen = Mutex::new(Vec::new());
    let settings = Settings { slab: (reach as u32).max(64), accumulate, ..SMALL };
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
    fn p10_strided_and_vector_accumulates_are_plain_loops(shape in shapes(4), split in 0usize..4) {
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
        prop_assert_eq!(accumulated(&shape, &source, reach.1, SPLITS[split]), sums);
    }
}
