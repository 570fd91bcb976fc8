//! Puts and gets in all kinds of epochs.

use super::{NONE, contents, data, locked, one, read, window};
use crate::scene::{room, run, run_threads, values};
use mpi::{Assert, Data, Datatype, LockType, Op, PROC_NULL, Request, Settings, Target, Threads};

#[test]
fn f1_a_fence_ends_the_puts_and_gets_of_all() {
    for (tasks, per_node) in [(1, 1), (4, 1), (4, 2), (4, 4)] {
        run(tasks, per_node, |mpi| {
            let world = mpi.world();
            let (rank, size) = (world.rank(), world.size());
            let (win, memory) = window::<u32>(&world, 64);
            win.fence(Assert::NOPRECEDE).unwrap();
            for round in 0..3u32 {
                let mine = data(&[rank * 100 + round]);
                for to in 0..size {
                    win.put(&mine, &one::<u32>(to as i32, rank as usize)).unwrap();
                }
                win.fence(NONE).unwrap();
                let here = contents::<u32>(&memory);
                assert!((0..size).all(|from| here[from as usize] == from * 100 + round));
                let got = room(size as usize);
                win.get(&got, &Target::like(((rank + 1) % size) as i32, 0, &got)).unwrap();
                win.fence(NONE).unwrap();
                assert_eq!(values(&got), here[..size as usize]);
            }
            win.fence(Assert::NOSUCCEED).unwrap();
            win.free().unwrap();
        });
    }
}

#[test]
fn p10_every_pair_of_types_goes_where_it_belongs() {
    for per_node in [1, 2] {
        run(2, per_node, |mpi| {
            let (world, types, int) = (mpi.world(), mpi.types(), Datatype::of::<u32>());
            let gaps = types.vector(6, 1, 3, &int).unwrap();
            let blocks = types.vector(3, 2, 5, &int).unwrap();
            let odd = types.indexed(&[1, 3, 2], &[9, 0, 5], &int).unwrap();
            let six = types.contiguous(6, &int).unwrap();
            let all = [six, gaps, blocks, odd];
            all.iter().for_each(|datatype| datatype.commit());
            let other = 1 - world.rank() as i32;
            for (a, here) in all.iter().enumerate() {
                for (b, there) in all.iter().enumerate() {
                    let (win, memory) = window::<u32>(&world, 64);
                    let source: Vec<u32> = (0..64).map(|at| at + 100 * (a as u32) + 1).collect();
                    let bytes = data(&source);
                    let origin = Data::new(bytes.memory().clone(), 4, 2, here.clone()).unwrap();
                    // What is put comes as if it had been unpacked there; what is got is what was put.
                    let wanted = room(64);
                    let model = Data::new(wanted.memory().clone(), 8, 2, there.clone()).unwrap();
                    origin.copy(&model).unwrap();
                    let back = room(64);
                    let into = Data::new(back.memory().clone(), 4, 2, here.clone()).unwrap();
                    win.fence(NONE).unwrap();
                    win.put(&origin, &Target::new(other, 2, 2, there.clone())).unwrap();
                    win.fence(NONE).unwrap();
                    win.get(&into, &Target::new(other, 2, 2, there.clone())).unwrap();
                    win.fence(Assert::NOSUCCEED).unwrap();
                    assert_eq!(contents::<u32>(&memory), values(&wanted), "{a} to {b}");
                    let (mut sent, mut got) = ([0; 48], [0; 48]);
                    origin.pack_bytes(0, &mut sent).unwrap();
                    into.pack_bytes(0, &mut got).unwrap();
                    assert_eq!(got, sent, "{a} from {b}");
                    win.free().unwrap();
                }
            }
        });
    }
}

#[test]
fn f1_post_start_complete_wait_move_data_between_some() {
    for per_node in [1, 3] {
        run(3, per_node, |mpi| {
            let world = mpi.world();
            let (win, memory) = window::<u32>(&world, 4);
            let group = world.group().unwrap();
            let targets = mpi.group_incl(&group, &[1, 2]).unwrap();
            let origin = mpi.group_incl(&group, &[0]).unwrap();
            for round in 1..5u32 {
                if world.rank() == 0 {
                    win.start(&targets, NONE).unwrap();
                    win.put(&data(&[round, 10 * round]), &Target::new(1, 1, 2, Datatype::of::<u32>()))
                        .unwrap();
                    win.accumulate(&data(&[round]), &one::<u32>(2, 0), mpi::Op::Sum).unwrap();
                    win.complete().unwrap();
                } else {
                    win.post(&origin, NONE).unwrap();
                    if round % 2 == 0 {
                        while !win.test().unwrap() {}
                    } else {
                        win.wait().unwrap();
                    }
                    let wanted = if world.rank() == 1 {
                        [0, round, 10 * round, 0]
                    } else {
                        [round * (round + 1) / 2, 0, 0, 0]
                    };
                    assert_eq!(contents::<u32>(&memory), wanted);
                }
            }
            win.free().unwrap();
        });
    }
}

#[test]
fn f1_flush_and_unlock_complete_what_was_begun() {
    for per_node in [1, 2] {
        run(2, per_node, |mpi| {
            let world = mpi.world();
            let (win, memory) = window::<u32>(&world, 1000);
            if world.rank() == 0 {
                let many: Vec<u32> = (0..1000).collect();
                let got = room(1000);
                win.lock(LockType::Exclusive, 1, NONE).unwrap();
                win.put(&data(&many), &Target::new(1, 0, 1000, Datatype::of::<u32>())).unwrap();
                win.flush(1).unwrap();
                win.get(&got, &Target::like(1, 0, &got)).unwrap();
                win.flush_local(1).unwrap();
                assert_eq!(values(&got), many);
                win.accumulate(&data(&many), &Target::like(1, 0, &got), mpi::Op::Sum).unwrap();
                win.flush_all().unwrap();
                win.get(&got, &Target::like(1, 0, &got)).unwrap();
                win.unlock(1).unwrap();
                let twice: Vec<u32> = (0..1000).map(|at| 2 * at).collect();
                assert_eq!(values(&got), twice);
            }
            world.barrier().unwrap();
            if world.rank() == 1 {
                win.sync().unwrap();
                assert_eq!(contents::<u32>(&memory)[999], 1998);
            }
            win.free().unwrap();
        });
    }
}

#[test]
fn p7_exclusive_locks_keep_others_out_and_shared_ones_do_not() {
    for per_node in [1, 4] {
        run(4, per_node, |mpi| {
            let world = mpi.world();
            let win = world.win_allocate(16, 8).unwrap();
            for _ in 0..5 {
                locked(&win, LockType::Exclusive, 2, || {
                    // Read, then write what is one more: only who is alone loses nothing.
                    let count = data(&[0u64]);
                    win.get(&count, &one::<u64>(2, 0)).unwrap();
                    win.flush(2).unwrap();
                    let more = data(&[read::<u64>(&count)[0] + 1]);
                    win.put(&more, &one::<u64>(2, 0)).unwrap();
                });
            }
            world.barrier().unwrap();
            win.lock(LockType::Shared, 2, NONE).unwrap();
            // All have it at once.
            world.barrier().unwrap();
            let count = data(&[0u64]);
            win.get(&count, &one::<u64>(2, 0)).unwrap();
            win.unlock(2).unwrap();
            assert_eq!(read::<u64>(&count), [20]);
            win.free().unwrap();
        });
    }
}

#[test]
fn p7_lock_all_shares_everybody_and_several_locks_are_one_epoch() {
    run(3, 2, |mpi| {
        let world = mpi.world();
        let (win, memory) = window::<u32>(&world, 3);
        let rank = world.rank();
        win.lock_all(NONE).unwrap();
        for to in 0..3 {
            win.put(&data(&[rank + 1]), &one::<u32>(to, rank as usize)).unwrap();
        }
        win.unlock_all().unwrap();
        world.barrier().unwrap();
        assert_eq!(contents::<u32>(&memory), [1, 2, 3]);
        world.barrier().unwrap();
        if rank == 0 {
            win.lock(LockType::Exclusive, 1, NONE).unwrap();
            win.lock(LockType::Shared, 2, Assert::NOCHECK).unwrap();
            for to in [1, 2] {
                win.put(&data(&[7u32]), &one::<u32>(to, 0)).unwrap();
            }
            win.unlock(1).unwrap();
            win.unlock(2).unwrap();
        }
        world.barrier().unwrap();
        assert_eq!(contents::<u32>(&memory)[0], if rank == 0 { 1 } else { 7 });
        win.free().unwrap();
    });
}

#[test]
fn f1_requests_of_accesses_are_waited_for_as_all_are() {
    run(2, 1, |mpi| {
        let world = mpi.world();
        let (win, _) = window::<u32>(&world, 8);
        if world.rank() == 0 {
            let (there, got) = (Target::new(1, 0, 8, Datatype::of::<u32>()), room(8));
            win.lock_all(NONE).unwrap();
            let mut put = win.rput(&data(&[3u32; 8]), &there).unwrap();
            mpi.wait(&mut put).unwrap();
            win.flush(1).unwrap();
            let mut add = win.raccumulate(&data(&[4u32; 8]), &there, mpi::Op::Max).unwrap();
            mpi.wait(&mut add).unwrap();
            win.flush(1).unwrap();
            let old = room(8);
            let fetch = win.rget_accumulate(Some(&data(&[1u32; 8])), &old, &there, mpi::Op::Sum).unwrap();
            let mut requests = [fetch, Request::NULL];
            mpi.wait_all(&mut requests, &mut []).unwrap();
            let mut get = win.rget(&got, &there).unwrap();
            mpi.wait(&mut get).unwrap();
            assert_eq!((values(&old), values(&got)), (vec![4; 8], vec![5; 8]));
            let mut nobody = win.rput(&got, &Target::like(PROC_NULL, 99, &got)).unwrap();
            mpi.wait(&mut nobody).unwrap();
            win.unlock_all().unwrap();
        }
        world.barrier().unwrap();
        win.free().unwrap();
    });
}

#[test]
fn p3_threads_have_windows_of_their_own_at_work_at_once() {
    let settings = Settings { contexts: 2, ..Settings::default() };
    run_threads(2, 1, settings, Threads::Multiple, |mpi| {
        let first = mpi.world();
        let second = first.dup().unwrap();
        let other = 1 - first.rank() as i32;
        let wins = [&first, &second].map(|comm| comm.win_allocate(8, 8).unwrap());
        std::thread::scope(|scope| {
            for win in wins {
                scope.spawn(move || {
                    let (one_more, old) = (data(&[1u64]), data(&[0u64]));
                    win.lock_all(NONE).unwrap();
                    for count in 0..50u64 {
                        win.fetch_and_op(Some(&one_more), &old, other, 0, mpi::Op::Sum).unwrap();
                        win.flush(other).unwrap();
                        assert_eq!(read::<u64>(&old), [count]);
                    }
                    win.unlock_all().unwrap();
                });
            }
        });
        wins.into_iter().for_each(|win| win.free().unwrap());
        second.free().unwrap();
    });
}

#[test]
fn n8_an_origin_sleeps_while_its_target_has_no_room() {
    run(2, 2, |mpi| {
        let world = mpi.world();
        let (win, _) = window::<u32>(&world, 5000);
        world.barrier().unwrap();
        win.lock_all(Assert::NOCHECK).unwrap();
        if world.rank() == 0 {
            // By messages, more than the target's ring holds.
            let there = Target::new(1, 0, 5000, Datatype::of::<u32>());
            win.accumulate(&data(&[1u32; 5000]), &there, Op::Replace).unwrap();
        } else {
            // Time goes on in sleep only.
            let now = || mpi.node().world.lock().now;
            let (first, start) = (now(), std::time::Instant::now());
            while now() == first {
                assert!(start.elapsed().as_secs() < 20, "the origin polls and polls");
                std::thread::yield_now();
            }
        }
        win.unlock_all().unwrap();
        world.barrier().unwrap();
        win.free().unwrap();
    });
}
