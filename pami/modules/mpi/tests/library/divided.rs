//! Long collectives, a slice in each context: as those that are not divided, and only where it pays (SPEC G-8).

use crate::machine::buffer;
use crate::scene::{Comm, Library, numbers, room, run_tasks, run_threads, run_with, values};
use mpi::{Blocks, Class, Data, Datatype, Error, IN_PLACE, Op, Settings, Threads};
use pami::collective::Order;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

/// Words of a long vector, no multiple of anything.
const LONG: u32 = (64 << 10) + 5;
const SHORT: u32 = 100;
/// Contexts of a library here.
const MOST_CONTEXTS: u8 = 8;
/// The gather's place in what [`all`] returns.
const GATHER: usize = 4;

fn contexts(contexts: u8) -> Settings {
    Settings {
        contexts,
        requests: 1024,
        communicators: 32,
        collective_scratch: 4 << 20,
        ..Settings::default()
    }
}

fn value(rank: u32, at: u32) -> u32 {
    at.wrapping_mul(2 * rank + 3) ^ rank << 20
}

fn vector(rank: u32, len: u32) -> Vec<u32> {
    (0..len).map(|at| value(rank, at)).collect()
}

/// How many contexts carried data of what `call` does with vectors of `len` words: at least half of a slice, where there are most. The
/// words by which processes agree may be late, and belong to an earlier call.
fn busy(mpi: Library, len: u32, call: impl FnOnce()) -> usize {
    let slice = u64::from(len) * size_of::<u32>() as u64 / u64::from(MOST_CONTEXTS);
    let bytes = || -> Vec<u64> {
        (0..).map_while(|context| mpi.collective_bytes(context)).map(|[sent, got]| sent + got).collect()
    };
    let before = bytes();
    call();
    bytes().into_iter().zip(before).filter(|(now, before)| now - before >= slice / 2).count()
}

/// Every collective that is divided, compared with what it must come to. Returns how many contexts were busy with each.
fn all(comm: Comm, len: u32) -> Vec<usize> {
    let (rank, size) = (comm.rank(), comm.size());
    let last = size - 1;
    let own = numbers(&vector(rank, len));
    let all: Vec<u32> = (0..size).flat_map(|rank| vector(rank, len)).collect();
    let sums: Vec<u32> =
        (0..len).map(|at| (0..size).fold(0, |sum: u32, rank| sum.wrapping_add(value(rank, at)))).collect();
    let mut contexts = Vec::new();
    let mut count = |call: &dyn Fn()| contexts.push(busy(comm.library(), len, call));
    count(&|| {
        let data = numbers(&vector(rank, len));
        comm.bcast(&data, last).unwrap();
        assert!(values(&data) == vector(last, len));
    });
    count(&|| {
        let into = room(len as usize);
        comm.reduce(&own, (rank == last).then_some(&into), Op::Sum, last).unwrap();
        assert!(rank != last || values(&into) == sums);
    });
    count(&|| {
        let into = room(len as usize);
        comm.allreduce(&own, &into, Op::Sum).unwrap();
        assert!(values(&into) == sums);
        let both = numbers(&vector(rank, len));
        comm.allreduce(IN_PLACE, &both, Op::Sum).unwrap();
        assert!(values(&both) == sums);
    });
    count(&|| {
        let (from, into) = (numbers(&all), room(len as usize));
        let part = |data: &Data| data.part(0, len as usize).unwrap();
        comm.scatter((rank == last).then_some(&part(&from)), &into, last).unwrap();
        assert!(values(&into) == vector(rank, len));
        let into = if rank == 0 { IN_PLACE } else { (&into).into() };
        comm.scatter((rank == 0).then_some(&part(&from)), into, 0).unwrap();
    });
    count(&|| {
        let into = room(all.len());
        let part = into.part(0, len as usize).unwrap();
        comm.gather(&own, (rank == last).then_some(&part), last).unwrap();
        assert!(rank != last || values(&into) == all);
    });
    count(&|| {
        let into = room(all.len());
        comm.allgather(&own, &into.part(0, len as usize).unwrap()).unwrap();
        assert!(values(&into) == all);
    });
    count(&|| {
        // Longer ones behind shorter ones, in the order of ranks from the end.
        let counts: Vec<usize> = (0..size).map(|rank| len as usize + rank as usize * 7).collect();
        let mut place = 0;
        let mut places = vec![0; counts.len()];
        for rank in (0..counts.len()).rev() {
            places[rank] = place;
            place += counts[rank] as isize;
        }
        let into = room(place as usize);
        let own = numbers(&vector(rank, counts[rank as usize] as u32));
        comm.allgatherv(&own, Blocks { data: &into, counts: &counts, displacements: &places }).unwrap();
        let wanted: Vec<u32> =
            (0..size).rev().flat_map(|rank| vector(rank, counts[rank as usize] as u32)).collect();
        assert!(values(&into) == wanted);
    });
    contexts
}

#[test]
fn g8_long_collectives_go_through_all_contexts_and_short_ones_through_one() {
    for (tasks, per_node, number) in [(5, 1, 4), (4, 2, 8), (2, 1, 2)] {
        run_with(tasks, per_node, contexts(number), move |mpi| {
            let world = mpi.world();
            for _ in 0..2 {
                assert!(all(world, SHORT).iter().all(|&busy| busy <= 1));
                let long = all(world, LONG);
                // Whoever's memory the root reads within a node sends nothing.
                let pulled = |at| at == GATHER && per_node > 1 && world.rank() < tasks - 1;
                let good = |(at, &busy)| busy == usize::from(number) || pulled(at);
                assert!(long.iter().enumerate().all(good), "{long:?}");
            }
            let alone = mpi.itself();
            assert!(all(alone, LONG).iter().all(|&busy| busy <= 1));
        });
    }
}

#[test]
fn g8_every_communicator_is_divided_while_there_are_places() {
    let settings = Settings { divided: 3, ..contexts(3) };
    run_with(6, 1, settings, |mpi| {
        let world = mpi.world();
        let grid = world.cart_create(&[3, 2], &[true, false], true).unwrap().unwrap();
        assert_eq!(all(grid, LONG), [3; 7]);
        let half = world.split((world.rank() % 2) as i32, -(world.rank() as i32)).unwrap().unwrap();
        assert_eq!(all(half, LONG), [3; 7]);
        let fourth = half.dup().unwrap();
        assert_eq!(all(fourth, LONG), [1; 7]);
        // What is freed has left its place.
        half.free().unwrap();
        let fifth = fourth.dup().unwrap();
        assert_eq!(all(fifth, LONG), [3; 7]);
        assert_eq!(all(world, LONG), [3; 7]);
    });
    run_with(3, 1, Settings { divided: 0, ..contexts(3) }, |mpi| {
        assert_eq!(all(mpi.world(), LONG), [1; 7]);
        assert_eq!(all(mpi.world().dup().unwrap(), LONG), [1; 7]);
    });
}

/// `x -> a x + b`, with `a` and `b` in the halves of a word: maps composed, which is associative and not commutative.
fn compose(into: &mut [u8], from: &[u8], order: Order, _: &Datatype) {
    for (into, from) in into.chunks_exact_mut(4).zip(from.chunks_exact(4)) {
        let word = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().unwrap());
        let (into_word, from_word) = (word(into), word(from));
        let (first, then) =
            if order == Order::IntoFirst { (into_word, from_word) } else { (from_word, into_word) };
        into.copy_from_slice(&composed(first, then).to_ne_bytes());
    }
}

fn composed(first: u32, then: u32) -> u32 {
    let [(a, b), (c, d)] = [first, then].map(|map| ((map >> 16) as u16, map as u16));
    u32::from(a.wrapping_mul(c)) << 16 | u32::from(c.wrapping_mul(b).wrapping_add(d))
}

#[test]
fn g8_operands_keep_their_order_and_derived_data_its_gaps() {
    run_with(5, 1, contexts(4), |mpi| {
        let world = mpi.world();
        let rank = world.rank();
        let (own, into) = (numbers(&vector(rank, LONG)), room(LONG as usize));
        let busy = busy(mpi, LONG, || world.allreduce(&own, &into, Op::create(compose, false)).unwrap());
        let wanted = |at: u32| (0..5).map(|rank| value(rank, at)).reduce(composed).unwrap();
        assert!(values(&into).into_iter().zip(0..).all(|(got, at)| got == wanted(at)));
        assert_eq!(busy, 4);
        let datatype = mpi.types().resized(&Datatype::of::<u32>(), 0, 12).unwrap();
        datatype.commit();
        let words = 16 << 10;
        let data = Data::new(buffer(12 * words).share(), 0, words, datatype).unwrap();
        data.write(&vector(rank, words as u32)).unwrap();
        world.bcast(&data, 3).unwrap();
        assert!(values(&data) == vector(3, words as u32));
    });
}

#[test]
fn r1_threads_divide_in_any_order_and_none_waits_for_another() {
    let settings = Settings { collectives: 2, collective_requests: 8, ..contexts(4) };
    run_threads(3, 1, settings, Threads::Multiple, |mpi| {
        let comms: Vec<Comm> = (0..4).map(|_| mpi.world().dup().unwrap()).collect();
        thread::scope(|scope| {
            for (number, comm) in comms.iter().enumerate() {
                scope.spawn(move || {
                    // Tasks begin with different ones.
                    for round in 0..4 {
                        if (round + comm.rank() as usize + number).is_multiple_of(2) {
                            thread::yield_now();
                        }
                        all(*comm, LONG / 4);
                    }
                });
            }
        });
        // By one thread, in different orders.
        let size = comms.len();
        let vectors = || comms.iter().map(|comm| numbers(&vector(comm.rank(), LONG))).collect();
        let (sent, reduced): (Vec<Data>, Vec<Data>) = (vectors(), vectors());
        let mut requests = Vec::new();
        for number in (0..size).map(|n| (n + mpi.world().rank() as usize) % size) {
            let comm = comms[number];
            requests.push(comm.ibcast(&sent[number], 1).unwrap());
            requests.push(comm.iallreduce(IN_PLACE, &reduced[number], Op::Bor).unwrap());
        }
        mpi.wait_all(&mut requests, &mut []).unwrap();
        assert!(sent.iter().all(|data| values(data) == vector(1, LONG)));
        let all = |at| (0..3).fold(0, |all, rank| all | value(rank, at));
        assert!(reduced.iter().all(|data| values(data).into_iter().zip(0..).all(|(got, at)| got == all(at))));
    });
}

#[test]
fn r4_one_that_cannot_take_part_is_heard_of_and_the_next_is_divided_again() {
    run_with(4, 1, contexts(3), |mpi| {
        let world = mpi.world();
        for _ in 0..3 {
            let data = numbers(&vector(world.rank(), LONG));
            if world.rank() == 2 {
                assert_eq!(world.bcast(&data, 7).unwrap_err(), Error::Root(7));
            } else {
                assert_eq!(world.bcast(&data, 0).unwrap_err(), Error::Elsewhere(Class::Root));
            }
            // Another length at one of them, which thus divides nothing.
            let data = if world.rank() == 1 { room(1) } else { data };
            assert!(world.allreduce(IN_PLACE, &data, Op::Sum).is_err());
            assert_eq!(all(world, LONG), [3; 7]);
        }
    });
}

#[test]
fn r2_a_death_ends_every_slice() {
    let posted = AtomicBool::new(false);
    run_tasks(3, 1, contexts(4), Threads::Single, move |mpi| {
        let world = mpi.world();
        let data = numbers(&vector(world.rank(), LONG));
        let begun = world.bcast(&data, 0).and_then(|()| world.iallreduce(IN_PLACE, &data, Op::Max));
        let mut request = match begun {
            // The others were that far ahead.
            Err(Error::NodeDead(2)) if world.rank() == 1 => return,
            begun => begun.unwrap(),
        };
        match world.rank() {
            2 => {
                // It takes part for a while, and dies in the middle.
                for _ in 0..20 {
                    let _ = mpi.test(&mut request);
                }
                posted.store(true, SeqCst);
            }
            0 => {
                while !posted.load(SeqCst) {
                    if mpi.test(&mut request).is_ok_and(|ended| ended.is_some()) {
                        break;
                    }
                }
                mpi.node().world.kill(2);
                let ended = mpi.wait(&mut request).map(drop);
                assert!(matches!(ended, Ok(()) | Err(Error::NodeDead(2))), "{ended:?}");
                assert_eq!(world.bcast(&data, 0).unwrap_err(), Error::NodeDead(2));
            }
            _ => {
                let ended = mpi.wait(&mut request).map(drop);
                assert!(matches!(ended, Ok(()) | Err(Error::NodeDead(2))), "{ended:?}");
                while world.bcast(&data, 0).is_ok() {}
            }
        }
    });
}

/// One process has gaps between its words, and no memory to pack them in.
#[test]
fn r4_one_without_memory_for_its_gaps_leaves_no_slice_waiting() {
    run_with(3, 1, Settings { collective_scratch: 64 << 10, ..contexts(3) }, |mpi| {
        let world = mpi.world();
        let broadcast = |behind: bool| {
            // With one before it, it starts when that has ended.
            let first = behind.then(|| world.ibarrier().unwrap());
            let ended = if world.rank() == 1 {
                let datatype = mpi.types().resized(&Datatype::of::<u32>(), 0, 12).unwrap();
                datatype.commit();
                let words = LONG as usize;
                let data = Data::new(buffer(12 * words).share(), 0, words, datatype).unwrap();
                world.bcast(&data, 0)
            } else {
                world.bcast(&numbers(&vector(world.rank(), LONG)), 0)
            };
            first.into_iter().for_each(|mut request| _ = mpi.wait(&mut request).unwrap());
            let error = ended.unwrap_err();
            match world.rank() {
                1 => assert_eq!(error.class(), Class::NoMem),
                _ => assert_eq!(error, Error::Elsewhere(Class::NoMem)),
            }
        };
        broadcast(false);
        broadcast(true);
    });
}
