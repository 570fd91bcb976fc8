//! The accumulate family: operators, atomicity, order, and who does the work.

use super::{NONE, contents, data, locked, one, read, window};
use crate::scene::{room, run, run_in, run_with, values};
use mpi::{Assert, Datatype, LockType, Op, Settings, Target};
use pami::Split;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[test]
fn l1_every_operator_does_to_windows_what_it_does_in_a_plain_loop() {
    fn plain(op: Op, a: i32, b: i32) -> i32 {
        match op {
            Op::Max => a.max(b),
            Op::Min => a.min(b),
            Op::Sum => a.wrapping_add(b),
            Op::Prod => a.wrapping_mul(b),
            Op::Land => (a != 0 && b != 0).into(),
            Op::Band => a & b,
            Op::Lor => (a != 0 || b != 0).into(),
            Op::Bor => a | b,
            Op::Lxor => ((a != 0) != (b != 0)).into(),
            Op::Bxor => a ^ b,
            Op::Replace => b,
            _ => a,
        }
    }
    for per_node in [1, 2] {
        run(2, per_node, |mpi| {
            let world = mpi.world();
            let other = 1 - world.rank() as i32;
            let int = Datatype::of::<i32>();
            let gaps = mpi.types().vector(50, 1, 2, &int).unwrap();
            let odd = mpi.types().indexed(&[20, 30], &[60, 5], &int).unwrap();
            [&gaps, &odd].into_iter().for_each(Datatype::commit);
            let before: Vec<i32> = (0..240).map(|at| (at * 7 % 5 - 2) * at).collect();
            let operands: Vec<i32> = (0..100).map(|at| (at * 11 % 7 - 3) * 1001).collect();
            for op in Op::PREDEFINED {
                if matches!(op, Op::MaxLoc | Op::MinLoc) {
                    continue;
                }
                for (datatype, count) in [(int.clone(), 100), (gaps.clone(), 2), (odd.clone(), 2)] {
                    for fetches in [false, true] {
                        if !fetches && matches!(op, Op::NoOp) {
                            continue;
                        }
                        let (win, memory) = window::<i32>(&world, 240);
                        mpi::Data::all::<i32>(&memory).write(&before).unwrap();
                        win.fence(NONE).unwrap();
                        let there = Target::new(other, 3, count, datatype.clone());
                        let (origin, result) = (data(&operands), data(&[0i32; 100]));
                        if fetches {
                            win.get_accumulate(Some(&origin), &result, &there, op).unwrap();
                        } else {
                            win.accumulate(&origin, &there, op).unwrap();
                        }
                        win.fence(Assert::NOSUCCEED).unwrap();
                        // The places, in the order of the type.
                        let places = data(&(0..240).collect::<Vec<i32>>());
                        let places =
                            mpi::Data::new(places.memory().clone(), 12, count, datatype.clone()).unwrap();
                        let mut order = [0; 100];
                        places.read(&mut order).unwrap();
                        let mut wanted = before.clone();
                        let mut old = vec![0; 100];
                        for (at, &place) in order.iter().enumerate() {
                            old[at] = wanted[place as usize];
                            wanted[place as usize] = plain(op, old[at], operands[at]);
                        }
                        assert_eq!(contents::<i32>(&memory), wanted, "{op:?} {datatype:?}");
                        if fetches {
                            assert_eq!(read::<i32>(&result), old, "{op:?} {datatype:?}");
                        }
                        win.free().unwrap();
                    }
                }
            }
        });
    }
}

#[test]
fn p7_values_of_every_size_are_combined() {
    use pami::operator::LocatedF64;
    run(2, 1, |mpi| {
        let world = mpi.world();
        let other = 1 - world.rank() as i32;
        let win = world.win_allocate(64, 1).unwrap();
        win.fence(NONE).unwrap();
        for _ in 0..3 {
            win.accumulate(&data(&[1u8]), &one::<u8>(other, 1), Op::Sum).unwrap();
            win.accumulate(&data(&[-2i16]), &one::<i16>(other, 2), Op::Sum).unwrap();
            win.accumulate(&data(&[0.5f32]), &one::<f32>(other, 4), Op::Sum).unwrap();
            win.accumulate(&data(&[1.25f64]), &one::<f64>(other, 8), Op::Sum).unwrap();
            win.accumulate(&data(&[[1.0f64, 2.0]]), &one::<[f64; 2]>(other, 16), Op::Sum).unwrap();
        }
        for (value, index) in [(3.0, 5), (9.0, 2), (9.0, 1)] {
            let located = LocatedF64::new(value, index);
            win.accumulate(&data(&[located]), &one::<LocatedF64>(other, 32), Op::MaxLoc).unwrap();
        }
        win.fence(NONE).unwrap();
        fn at<T: mpi::Native + Default>(win: &super::Win, offset: usize) -> T {
            let (memory, base) = win.base().unwrap();
            read::<T>(&mpi::Data::of::<T>(&memory, base + offset, 1).unwrap())[0]
        }
        assert_eq!((at::<u8>(&win, 1), at::<i16>(&win, 2), at::<f32>(&win, 4)), (3, -6, 1.5));
        assert_eq!((at::<f64>(&win, 8), at::<[f64; 2]>(&win, 16)), (3.75, [3.0, 6.0]));
        assert_eq!((at::<f64>(&win, 32), at::<i32>(&win, 40)), (9.0, 1));
        win.fence(Assert::NOSUCCEED).unwrap();
        win.free().unwrap();
    });
}

#[test]
fn p7_concurrent_updates_of_all_kinds_are_atomic_towards_each_other() {
    for per_node in [1, 2, 4] {
        for split in [Split::TargetOnly, Split::OriginOnly, Split::Advice] {
            let settings = Settings { accumulate: split, ..Settings::default() };
            run_with(4, per_node, settings, |mpi| {
                const ROUNDS: u64 = 40;
                let world = mpi.world();
                let (win, memory) = window::<u64>(&world, 2);
                win.lock_all(NONE).unwrap();
                let (one_more, old) = (data(&[1u64]), data(&[0u64]));
                let there = one::<u64>(0, 0);
                for round in 0..ROUNDS {
                    match (round + u64::from(world.rank())) % 4 {
                        // An update of a word.
                        0 => win.fetch_and_op(Some(&one_more), &old, 0, 0, Op::Sum).unwrap(),
                        // Split between origin and target.
                        1 => win.accumulate(&one_more, &there, Op::Sum).unwrap(),
                        // By messages.
                        2 => {
                            let two = Target::new(0, 0, 2, Datatype::of::<u64>());
                            let (ones, olds) = (data(&[1u64, 1]), data(&[0u64, 0]));
                            win.get_accumulate(Some(&ones), &olds, &two, Op::Sum).unwrap();
                            win.flush(0).unwrap();
                        }
                        // Until nobody was in between.
                        _ => loop {
                            win.fetch_and_op(None, &old, 0, 0, Op::NoOp).unwrap();
                            win.flush(0).unwrap();
                            let was = read::<u64>(&old)[0];
                            let swapped = data(&[0u64]);
                            win.compare_and_swap(&data(&[was + 1]), &data(&[was]), &swapped, 0, 0).unwrap();
                            win.flush(0).unwrap();
                            if read::<u64>(&swapped)[0] == was {
                                break;
                            }
                        },
                    }
                }
                win.unlock_all().unwrap();
                world.barrier().unwrap();
                if world.rank() == 0 {
                    assert_eq!(contents::<u64>(&memory), [4 * ROUNDS, ROUNDS]);
                }
                win.free().unwrap();
            });
        }
    }
}

#[test]
fn l5_sums_have_the_same_bits_however_they_are_split() {
    static RESULTS: Mutex<Vec<(usize, Vec<u64>)>> = Mutex::new(Vec::new());
    for (way, per_node) in [1, 2].into_iter().enumerate() {
        for split in [Split::TargetOnly, Split::OriginOnly, Split::Rules(&[]), Split::Advice] {
            let settings = Settings { accumulate: split, ..Settings::default() };
            run_with(2, per_node, settings, move |mpi| {
                let world = mpi.world();
                let (win, memory) = window::<f64>(&world, 1000);
                let value = |at: usize, round: usize| (at * 31 + round * 7) as f64 / 3.0 * 1e-3;
                win.fence(NONE).unwrap();
                if world.rank() == 0 {
                    for round in 0..5 {
                        let values: Vec<f64> = (0..1000).map(|at| value(at, round)).collect();
                        let there = Target::new(1, 0, 1000, Datatype::of::<f64>());
                        win.accumulate(&data(&values), &there, Op::Sum).unwrap();
                    }
                }
                // The fence covers what is split.
                win.fence(Assert::NOSUCCEED).unwrap();
                if world.rank() == 1 {
                    let bits = contents::<f64>(&memory).into_iter().map(f64::to_bits).collect();
                    RESULTS.lock().unwrap().push((way, bits));
                }
                win.free().unwrap();
            });
        }
    }
    let results = RESULTS.lock().unwrap();
    assert_eq!(results.len(), 8);
    assert!(results.iter().all(|(_, bits)| *bits == results[0].1));
    assert!(results[0].1.iter().any(|&bits| bits != 0));
}

#[test]
fn f1_accumulates_of_one_origin_take_effect_in_their_order() {
    for per_node in [1, 2] {
        for split in [Split::TargetOnly, Split::OriginOnly, Split::Advice] {
            let settings = Settings { accumulate: split, ..Settings::default() };
            run_with(2, per_node, settings, |mpi| {
                let world = mpi.world();
                let (win, memory) = window::<u32>(&world, 100);
                if world.rank() == 0 {
                    let there = Target::new(1, 0, 100, Datatype::of::<u32>());
                    let all = |value: u32| data(&[value; 100]);
                    locked(&win, LockType::Shared, 1, || {
                        for round in 0..20u32 {
                            // By messages, split, by a word, by messages: each would give another result in another place.
                            win.accumulate(&all(round), &there, Op::Replace).unwrap();
                            win.accumulate(&all(5), &there, Op::Sum).unwrap();
                            let old = data(&[0u32]);
                            win.fetch_and_op(Some(&data(&[100u32])), &old, 1, 7, Op::Replace).unwrap();
                            let olds = room(100);
                            win.get_accumulate(Some(&all(2)), &olds, &there, Op::Prod).unwrap();
                            win.accumulate(&all(1), &there, Op::Sum).unwrap();
                            win.flush(1).unwrap();
                            assert_eq!(read::<u32>(&old), [round + 5]);
                            let mut wanted = vec![round + 5; 100];
                            wanted[7] = 100;
                            assert_eq!(values(&olds), wanted);
                            // The other way round: what is quick first.
                            let before = data(&[0u32]);
                            win.fetch_and_op(Some(&data(&[3u32])), &before, 1, 7, Op::Replace).unwrap();
                            win.accumulate(&all(1), &there, Op::Sum).unwrap();
                            win.accumulate(&all(10), &there, Op::Prod).unwrap();
                            win.fetch_and_op(Some(&data(&[1u32])), &old, 1, 7, Op::Sum).unwrap();
                            win.flush(1).unwrap();
                            assert_eq!([read::<u32>(&before), read::<u32>(&old)], [[201], [40]]);
                            // Behind a flush a put comes behind an accumulate.
                            win.put(&data(&[77u32]), &one::<u32>(1, 3)).unwrap();
                            win.flush(1).unwrap();
                        }
                    });
                }
                world.barrier().unwrap();
                if world.rank() == 1 {
                    let here = contents::<u32>(&memory);
                    assert_eq!((here[3], here[7], here[0]), (77, 41, 10 * (2 * (19 + 5) + 2)));
                }
                win.free().unwrap();
            });
        }
    }
}

#[test]
fn p7_words_at_the_broken_end_of_memory_are_combined_too() {
    run(2, 1, |mpi| {
        let world = mpi.world();
        let other = 1 - world.rank() as i32;
        let (win, memory) = window::<u32>(&world, 3);
        win.fence(NONE).unwrap();
        let there = Target::new(other, 0, 3, Datatype::of::<u32>());
        win.accumulate(&data(&[1u32, 2, 3]), &there, Op::Sum).unwrap();
        let old = data(&[0u32]);
        win.fetch_and_op(Some(&data(&[10u32])), &old, other, 2, Op::Sum).unwrap();
        win.compare_and_swap(&data(&[5u32]), &data(&[13u32]), &old, other, 2).unwrap();
        win.fence(Assert::NOSUCCEED).unwrap();
        assert_eq!((contents::<u32>(&memory), read::<u32>(&old)), (vec![1, 2, 5], vec![13]));
        win.free().unwrap();
    });
}

#[test]
fn r8_any_number_of_sums_of_a_window_are_under_way_at_once() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    const SUMS: usize = 30;
    for per_node in [1, 2] {
        for split in [Split::TargetOnly, Split::Rules(&[]), Split::Advice] {
            BEGUN.store(false, SeqCst);
            let settings = Settings { accumulate: split, ..Settings::default() };
            run_with(2, per_node, settings, |mpi| {
                let world = mpi.world();
                let (win, memory) = window::<f64>(&world, 200 * SUMS);
                win.fence(NONE).unwrap();
                if world.rank() == 0 {
                    let values = data(&[0.5f64; 200]);
                    for sum in 0..SUMS {
                        let there = Target::new(1, 200 * sum, 200, Datatype::of::<f64>());
                        win.accumulate(&values, &there, Op::Sum).unwrap();
                    }
                    BEGUN.store(true, SeqCst);
                }
                // The target takes no part until all have begun.
                while !BEGUN.load(SeqCst) {
                    std::thread::yield_now();
                }
                win.fence(Assert::NOSUCCEED).unwrap();
                let wanted = if world.rank() == 1 { 0.5 } else { 0.0 };
                assert_eq!(contents::<f64>(&memory), vec![wanted; 200 * SUMS]);
                win.free().unwrap();
            });
        }
    }
}

#[test]
fn f5_behind_messages_to_most_of_a_window_one_fence_of_its_geometry_is_begun() {
    const RANKS: u32 = 5;
    // How many others each accumulates to, and how many fences that takes.
    for (others, fences) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
        let settings = Settings { accumulate: Split::TargetOnly, ..Settings::default() };
        run_in(RANKS, 1, settings, move |mpi, machine| {
            let comm = mpi.world();
            let (win, memory) = window::<i32>(&comm, 100);
            win.fence(NONE).unwrap();
            let before = machine.fences_of(comm.rank()).len();
            let fives = data(&[5i32; 100]);
            for other in 1..=others {
                let rank = ((comm.rank() + other) % RANKS) as i32;
                win.accumulate(&fives, &Target::new(rank, 0, 100, Datatype::of::<i32>()), Op::Max).unwrap();
            }
            win.fence(Assert::NOSUCCEED).unwrap();
            assert_eq!(machine.fences_of(comm.rank()).len() - before, fences, "to {others}");
            assert_eq!(contents::<i32>(&memory), [5; 100]);
            win.free().unwrap();
        });
    }
}
