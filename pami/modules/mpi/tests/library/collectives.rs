//! Collectives with little room, in many at a time, and with what they refuse.

use crate::machine::buffer;
use crate::scene::{Comm, Library, numbers, room, run, run_with, values};
use mpi::{Basic, Blocks, Class, Data, Datatype, Error, IN_PLACE, Op, Request, Settings, reduce_local};
use pami::collective::Order;

fn tight() -> Settings {
    Settings {
        collectives: 2,
        collective_requests: 40,
        collective_work: 1024,
        collective_scratch: 2048,
        ..Settings::default()
    }
}

/// A vector of `count` words with a gap behind each.
fn gaps(comm: Comm, words: &[u32]) -> Data {
    let types = comm.library().types();
    let datatype = types.resized(&Datatype::of::<u32>(), 0, 12).unwrap();
    datatype.commit();
    let data = Data::new(buffer(12 * words.len()).share(), 0, words.len(), datatype).unwrap();
    data.write(words).unwrap();
    data
}

#[test]
fn p11_more_than_there_is_room_for_wait_and_keep_their_order() {
    run_with(4, 2, tight(), |mpi| {
        let world = mpi.world();
        let data: Vec<_> = (0..40).map(|n| gaps(world, &[1000 * n + world.rank(); 100])).collect();
        let mut requests: Vec<Request> = data
            .iter()
            .zip(0..)
            .map(|(data, n)| match n % 3 {
                0 => world.ibcast(data, n % 4).unwrap(),
                1 => world.iallreduce(IN_PLACE, data, Op::create(first, false)).unwrap(),
                _ => world.iallreduce(IN_PLACE, data, Op::create(last, false)).unwrap(),
            })
            .collect();
        assert_eq!(world.ibarrier().unwrap_err().class(), Class::NoMem, "40 are all that the settings allow");
        while let Some(mut request) = requests.pop() {
            mpi.wait(&mut request).unwrap();
        }
        for (data, n) in data.iter().zip(0..) {
            let of = [n % 4, 0, 3][n as usize % 3];
            assert_eq!(values(data), [1000 * n + of; 100], "the {n}th");
        }
    });
}

fn first(into: &mut [u8], from: &[u8], order: Order, _: &Datatype) {
    if order == Order::FromFirst {
        into.copy_from_slice(from);
    }
}

fn last(into: &mut [u8], from: &[u8], order: Order, _: &Datatype) {
    if order == Order::IntoFirst {
        into.copy_from_slice(from);
    }
}

/// Adds numbers of the type that it is told.
fn add(into: &mut [u8], from: &[u8], _: Order, datatype: &Datatype) {
    for (into, from) in into.chunks_exact_mut(4).zip(from.chunks_exact(4)) {
        let (a, b): ([u8; 4], [u8; 4]) = ((&*into).try_into().unwrap(), from.try_into().unwrap());
        let sum = match datatype.uniform() {
            Some(Basic::F32) => (f32::from_ne_bytes(a) + f32::from_ne_bytes(b)).to_ne_bytes(),
            Some(Basic::U32) => (u32::from_ne_bytes(a) + u32::from_ne_bytes(b)).to_ne_bytes(),
            other => panic!("nobody reduces {other:?}"),
        };
        into.copy_from_slice(&sum);
    }
}

#[test]
fn g3_an_applications_operator_is_told_its_datatype() {
    run(5, 1, |mpi| {
        let (world, op) = (mpi.world(), Op::create(add, true));
        let rank = world.rank();
        let (whole, real) = (gaps(world, &[rank; 70]), numbers(&[rank as f32 + 0.5; 70]));
        let mut both =
            [world.iallreduce(IN_PLACE, &whole, op).unwrap(), world.iallreduce(IN_PLACE, &real, op).unwrap()];
        mpi.wait_all(&mut both, &mut []).unwrap();
        assert_eq!(values(&whole), [10; 70]);
        let mut sums = [0f32; 70];
        real.read(&mut sums).unwrap();
        assert_eq!(sums, [12.5; 70]);
        reduce_local(&whole, &whole, op).unwrap();
        assert_eq!(values(&whole), [20; 70]);
    });
}

#[test]
fn r4_reductions_of_any_size_work_with_default_settings() {
    for (tasks, words) in [(2, 64 << 10), (3, (256 << 10) + 3)] {
        run(tasks, 1, move |mpi| {
            let world = mpi.world();
            let (rank, size) = (world.rank(), world.size());
            let value = |rank: u32| move |at: u32| at.wrapping_mul(rank + 3) ^ rank;
            let own: Vec<u32> = (0..words).map(value(rank)).collect();
            let sum_to =
                |ranks: u32, at: u32| (0..ranks).fold(0u32, |sum, rank| sum.wrapping_add(value(rank)(at)));
            let sums: Vec<u32> = (0..words).map(|at| sum_to(size, at)).collect();
            let (from, into) = (numbers(&own), room(words as usize));
            world.allreduce(&from, &into, Op::Sum).unwrap();
            assert!(values(&into) == sums);
            let both = numbers(&own);
            world.allreduce(IN_PLACE, &both, Op::Sum).unwrap();
            assert!(values(&both) == sums);
            let at_root = room(words as usize);
            world.reduce(&from, (rank == 1).then_some(&at_root), Op::Sum, 1).unwrap();
            assert!(rank != 1 || values(&at_root) == sums);
            world.scan(&from, &into, Op::Sum).unwrap();
            assert!(values(&into).into_iter().zip(0..).all(|(sum, at)| sum == sum_to(rank + 1, at)));
            let counts: Vec<usize> =
                (0..size as usize).map(|rank| if rank == 0 { words as usize } else { 0 }).collect();
            let part = room(if rank == 0 { words as usize } else { 0 });
            world.reduce_scatter(&from, &part, &counts, Op::Sum).unwrap();
            assert!(rank != 0 || values(&part) == sums);
        });
    }
}

#[test]
fn r8_one_that_never_fits_is_refused_by_name() {
    run_with(2, 1, tight(), |mpi| {
        let world = mpi.world();
        let large = gaps(world, &[7; 600]);
        let refused = world.bcast(&large, 0).unwrap_err();
        assert!(matches!(refused, Error::NoMem { limit, .. } if limit >= 2048), "{refused}");
        // What needs no scratch memory is not held up.
        let plain = numbers(&[world.rank(); 600]);
        world.bcast(&plain, 1).unwrap();
        assert_eq!(values(&plain), [1; 600]);
    });
}

#[test]
fn r8_lists_of_counts_run_out_and_come_back() {
    let lists = Settings { collective_lists: 2, ..tight() };
    let counts = Settings { collective_lists: 5, collective_counts: 6, ..tight() };
    let both = Settings { collective_lists: 2, collective_counts: 6, ..tight() };
    for settings in [lists, counts, both] {
        run_with(3, 1, settings, two_lists_and_no_more);
    }
}

fn two_lists_and_no_more(mpi: Library) {
    let (world, data) = (mpi.world(), room(6));
    let list = Blocks { data: &data, counts: &[1, 2, 3], displacements: &[5, 3, 0] };
    for _ in 0..5 {
        let own = numbers(&vec![world.rank(); world.rank() as usize + 1]);
        let mut both = [world.iallgatherv(&own, list).unwrap(), world.iallgatherv(&own, list).unwrap()];
        assert_eq!(world.iallgatherv(&own, list).unwrap_err().class(), Class::NoMem);
        mpi.wait_all(&mut both, &mut []).unwrap();
        assert_eq!(values(&data), [2, 2, 2, 1, 1, 0]);
    }
    // A call that is refused keeps none.
    for _ in 0..5 {
        let own = room(9);
        assert_eq!(world.iallgatherv(&own, list).unwrap_err().class(), Class::Truncate);
        let outside = Blocks { displacements: &[6, 3, 0], ..list };
        assert_eq!(world.ialltoallv(Some(outside), list).unwrap_err().class(), Class::Buffer);
        assert_eq!(world.ialltoallv(Some(list), outside).unwrap_err().class(), Class::Buffer);
    }
    let (going, coming) = (list, room(9));
    let counts = [world.rank() as usize + 1; 3];
    let coming = Blocks { data: &coming, counts: &counts, displacements: &[0, 3, 6] };
    world.alltoallv(Some(going), coming).unwrap();
}

#[test]
fn r4_what_other_members_call_differently_ends_with_an_error() {
    run_with(2, 1, Settings::default(), |mpi| {
        let world = mpi.world();
        let data = room(2 + world.rank() as usize);
        assert!(world.allreduce(IN_PLACE, &data, Op::Sum).is_err());
        world.barrier().unwrap();
    });
}

#[test]
fn g3_every_size_of_communicator_gathers_scans_and_scatters() {
    for tasks in 1..=9 {
        run_with(tasks, 1, Settings::default(), |mpi| {
            let world = mpi.world();
            let (rank, size) = (world.rank(), world.size());
            let all = gaps(world, &vec![0; size as usize]);
            let one = all.part(0, 1).unwrap();
            world.allgather(&numbers(&[rank * rank]), &one).unwrap();
            assert_eq!(values(&all), (0..size).map(|rank| rank * rank).collect::<Vec<_>>());
            let sum = numbers(&[rank + 1]);
            world.scan(IN_PLACE, &sum, Op::Sum).unwrap();
            assert_eq!(values(&sum), [(rank + 1) * (rank + 2) / 2]);
            for root in 0..size {
                let own = room(1);
                world.scatter((rank == root).then_some(&one), &own, root).unwrap();
                assert_eq!(values(&own), [rank * rank]);
            }
        });
    }
}
