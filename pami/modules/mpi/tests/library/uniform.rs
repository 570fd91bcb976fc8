//! One rank cannot take its part in a collective call: all get an error of that class, and everything goes on (SPEC R-4).

use crate::machine::buffer;
use crate::scene::{Comm, Library, numbers, room, run_each, values};
use mpi::{Blocks, Class, Data, Datatype, IN_PLACE, Op, Request, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The rank that fails.
const ONE: u32 = 1;
/// More than anything that could leak has places.
const ROUNDS: usize = 60;

/// What is small enough for that.
fn small() -> Settings {
    Settings {
        requests: 48,
        communicators: 12,
        types: 8,
        groups: 8,
        keyvals: 8,
        attributes: 8,
        ..Settings::default()
    }
}

/// Nobody runs far ahead of others by failing.
const TOGETHER: usize = 10;

/// Runs three tasks of which one has settings of its own.
fn with_one(one: Settings, task: impl Fn(Library) + Send + Sync + 'static) {
    let settings = move |rank| if rank == ONE { one } else { small() };
    run_each(3, 1, settings, task);
}

fn class<T>(result: mpi::Result<T>) -> Class {
    result.map(drop).unwrap_err().class()
}

/// Lets nobody get far ahead.
fn together(comm: Comm, round: usize) {
    if round.is_multiple_of(TOGETHER) {
        comm.barrier().unwrap();
    }
}

/// Everything works as if nothing had been.
fn goes_on(comm: Comm) {
    let sum = numbers(&[comm.rank() + 1]);
    comm.allreduce(IN_PLACE, &sum, Op::Sum).unwrap();
    assert_eq!(values(&sum), [comm.size() * (comm.size() + 1) / 2]);
    let twin = comm.dup().unwrap();
    twin.barrier().unwrap();
    twin.free().unwrap();
}

#[test]
fn r4_a_list_of_counts_that_one_rank_cannot_keep_is_an_error_at_all() {
    with_one(Settings { collective_lists: 0, ..small() }, |mpi| {
        let (world, data) = (mpi.world(), room(3));
        for round in 0..ROUNDS {
            together(world, round);
            let list = Blocks { data: &data, counts: &[1; 3], displacements: &[2, 1, 0] };
            assert_eq!(class(world.allgatherv(&numbers(&[5u32]), list)), Class::NoMem);
        }
        goes_on(world);
    });
}

#[test]
fn r4_scratch_memory_that_one_rank_has_not_is_an_error_at_all() {
    with_one(small(), |mpi| {
        let world = mpi.world();
        let spread = mpi.types().resized(&Datatype::of::<u32>(), 0, 12).unwrap();
        spread.commit();
        let count = Settings::default().collective_scratch / 12 + 100;
        let one = Data::new(buffer(36 * count).share(), 0, count, spread).unwrap();
        let block = if world.rank() == ONE { one } else { room(3 * count).part(0, count).unwrap() };
        let own = numbers(&vec![7u32; count]);
        for round in 0..ROUNDS {
            together(world, round);
            assert_eq!(class(world.allgather(&own, &block)), Class::NoMem);
        }
        goes_on(world);
    });
}

#[test]
fn r4_a_request_that_one_rank_has_not_is_an_error_at_all() {
    with_one(Settings { requests: 4, ..small() }, |mpi| {
        let world = mpi.world();
        let mut others = Vec::new();
        for round in 0..ROUNDS {
            together(world, round);
            if world.rank() == ONE {
                others.extend((0..4).map(|_| world.irecv(&room(1), 0, 9).unwrap()));
            }
            assert_eq!(class(world.barrier()), Class::NoMem);
            assert_eq!(class(world.dup()), Class::NoMem);
            assert_eq!(class(world.split(0, 0)), Class::NoMem);
            for mut request in others.drain(..) {
                mpi.cancel(&request).unwrap();
                mpi.wait(&mut request).unwrap();
            }
        }
        goes_on(world);
    });
}

#[test]
fn r4_a_full_table_of_collectives_at_one_rank_is_an_error_of_those_that_found_it_full() {
    with_one(Settings { collective_requests: 1, ..small() }, |mpi| {
        let world = mpi.world();
        for _ in 0..ROUNDS / 10 {
            if world.rank() == ONE {
                let mut first = world.ibarrier().unwrap();
                let sum = numbers(&[1u32]);
                assert_eq!(class(world.iallreduce(IN_PLACE, &sum, Op::Sum)), Class::NoMem);
                assert_eq!(class(world.ibarrier()), Class::NoMem);
                // Nobody has come so far.
                for rank in [0, 2] {
                    world.send(&room(0), rank, 1).unwrap();
                }
                mpi.wait(&mut first).unwrap();
            } else {
                world.recv(&room(0), ONE as i32, 1).unwrap();
                let sum = numbers(&[1u32]);
                let mut first = world.ibarrier().unwrap();
                let mut second = world.iallreduce(IN_PLACE, &sum, Op::Sum).unwrap();
                let mut third = world.ibarrier().unwrap();
                mpi.wait(&mut first).unwrap();
                assert_eq!(class(mpi.wait(&mut third)), Class::NoMem);
                assert_eq!(class(mpi.wait(&mut second)), Class::NoMem);
            }
            goes_on(world);
        }
    });
}

#[test]
fn r4_a_rank_that_fails_hundreds_of_times_in_a_row_runs_ahead_and_all_hear_of_each() {
    with_one(small(), |mpi| {
        let world = mpi.world();
        let loose = mpi.types().contiguous(1, &Datatype::of::<u32>()).unwrap();
        let loose = Data::new(buffer(16).share(), 0, 1, loose).unwrap();
        for _ in 0..400 {
            let sum = if world.rank() == ONE { loose.clone() } else { numbers(&[1u32]) };
            assert_eq!(class(world.allreduce(IN_PLACE, &sum, Op::Sum)), Class::Op);
        }
        goes_on(world);
    });
}

#[test]
fn r1_what_is_called_behind_more_failures_than_can_wait_below_waits_itself() {
    const FAILURES: usize = 40;
    let settings = Settings { collectives: 2, collective_requests: 4, ..small() };
    let called = Arc::new(AtomicBool::new(false));
    run_each(
        3,
        1,
        move |_| settings,
        move |mpi| {
            let world = mpi.world();
            let loose = mpi.types().contiguous(1, &Datatype::of::<u32>()).unwrap();
            let loose = Data::new(buffer(16).share(), 0, 1, loose).unwrap();
            // The others do not even advance before all is called.
            while world.rank() != ONE && !called.load(SeqCst) {
                std::thread::yield_now();
            }
            let fail = || assert_eq!(class(world.allreduce(IN_PLACE, &loose, Op::Sum)), Class::Op);
            (0..FAILURES).for_each(|_| fail());
            let sum = numbers(&[world.rank() + 1]);
            let mut good = world.iallreduce(IN_PLACE, &sum, Op::Sum).unwrap();
            fail();
            called.store(true, SeqCst);
            mpi.wait(&mut good).unwrap();
            assert_eq!(values(&sum), [6]);
            goes_on(world);
        },
    );
}

#[test]
fn r4_a_wrong_argument_at_one_rank_is_an_error_at_all_that_wait_for_it() {
    with_one(small(), |mpi| {
        let world = mpi.world();
        let is_one = world.rank() == ONE;
        let loose = mpi.types().contiguous(1, &Datatype::of::<u32>()).unwrap();
        let loose = Data::new(buffer(16).share(), 0, 1, loose).unwrap();
        for round in 0..ROUNDS {
            together(world, round);
            let sum = if is_one { loose.clone() } else { numbers(&[1u32]) };
            assert_eq!(class(world.allreduce(IN_PLACE, &sum, Op::Sum)), Class::Op);
            assert_eq!(class(world.allgather(&sum, &room(1).displaced(0, 0).unwrap())), Class::Truncate);
            let root = if is_one { 17 } else { 0 };
            let outcome = world.reduce(&numbers(&[1u32]), Some(&room(1)), Op::Sum, root);
            // A leaf of the tree waits for nobody: it may have given its share before it hears of the failure.
            let leaf = world.rank() == 2;
            assert!(leaf && outcome.is_ok() || class(outcome) == Class::Root);
            // Who wants nothing of a broadcast holds nobody up.
            let data = if is_one { loose.clone() } else { numbers(&[1u32]) };
            let outcome = world.bcast(&data, 0);
            assert!(outcome.is_ok() || class(outcome) == Class::Type);
            world.barrier().unwrap();
        }
        goes_on(world);
    });
}

#[test]
fn r4_a_group_that_one_rank_has_no_room_for_fails_the_split_at_all() {
    with_one(Settings { group_ranks: 0, ..small() }, |mpi| {
        let world = mpi.world();
        // 1 0 2: no range.
        let key = [1, 0, 2][world.rank() as usize];
        for round in 0..ROUNDS {
            together(world, round);
            assert_eq!(class(world.split(0, key)), Class::NoMem);
        }
        goes_on(world);
    });
}

#[test]
fn r4_a_communicator_that_one_rank_has_no_place_for_is_made_nowhere() {
    with_one(Settings { communicators: 3, ..small() }, |mpi| {
        let world = mpi.world();
        let only = world.dup().unwrap();
        for round in 0..ROUNDS {
            together(world, round);
            assert_eq!(class(world.dup()), Class::NoMem);
            assert_eq!(class(only.split(0, 0)), Class::NoMem);
            assert_eq!(class(world.win_allocate(8, 1)), Class::NoMem);
        }
        only.free().unwrap();
        goes_on(world);
    });
}

#[test]
fn r4_a_group_that_is_wrong_at_one_rank_is_an_error_at_all() {
    with_one(small(), |mpi| {
        let world = mpi.world();
        let all = world.group().unwrap();
        let some = mpi.group_incl(&all, &[2, 0]).unwrap();
        let part = world.create(&some).unwrap();
        for round in 0..ROUNDS {
            together(world, round);
            if let Some(part) = part {
                // Rank 0 of it names a process that is not in it.
                let outside = if part.rank() == 0 { &all } else { &some };
                assert_eq!(class(part.create(outside)), Class::Group);
            }
        }
        if let Some(part) = part {
            goes_on(part);
            part.free().unwrap();
        }
        goes_on(world);
    });
}

#[test]
fn r4_a_negative_color_at_one_rank_fails_the_split_at_all() {
    with_one(small(), |mpi| {
        let world = mpi.world();
        for round in 0..ROUNDS {
            together(world, round);
            let color = if world.rank() == ONE { -1 } else { 0 };
            assert_eq!(class(world.split(color, 0)), Class::Arg);
        }
        goes_on(world);
    });
}

#[test]
fn r4_a_window_that_is_wrong_at_one_rank_is_made_nowhere() {
    with_one(small(), |mpi| {
        let (world, memory) = (mpi.world(), buffer(64).share());
        for round in 0..ROUNDS / 3 {
            together(world, round);
            let unit = if world.rank() == ONE { 0 } else { 1 };
            assert_eq!(class(world.win_create(&memory, 0..64, unit)), Class::Arg);
        }
        goes_on(world);
    });
}

#[test]
fn r4_a_failed_collective_lets_those_of_other_communicators_be() {
    with_one(Settings { collective_lists: 0, ..small() }, |mpi| {
        let world = mpi.world();
        let twin = world.dup().unwrap();
        let (data, sum) = (room(3), numbers(&[1u32]));
        let mut other: Request = twin.iallreduce(IN_PLACE, &sum, Op::Sum).unwrap();
        let list = Blocks { data: &data, counts: &[1; 3], displacements: &[0, 1, 2] };
        assert_eq!(class(world.allgatherv(&numbers(&[5u32]), list)), Class::NoMem);
        mpi.wait(&mut other).unwrap();
        assert_eq!(values(&sum), [3]);
        twin.free().unwrap();
    });
}
