//! What happens when there is little room: nothing is lost, and nothing that is allowed hangs.

use crate::scene::{numbers, room, run, run_in, run_with, values};
use mpi::{
    BSEND_OVERHEAD, Class, Data, Datatype, Error, Group, IN_PLACE, Op, PROC_NULL, Request, Settings, Status,
};
use pami::collective::Order;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn tight() -> Settings {
    Settings { unexpected_bytes: 4096, requests: 120, ..Settings::default() }
}

#[test]
fn p6_a_hundred_unexpected_messages_are_received_from_the_last_to_the_first() {
    run_with(2, 1, tight(), |mpi| {
        let world = mpi.world();
        if world.rank() == 0 {
            let data: Vec<_> = (0..100).map(|n| numbers(&vec![n; n as usize * 3])).collect();
            let sends = data.iter().zip(0..).map(|(data, tag)| world.isend(data, 1, tag).unwrap());
            let mut sends: Vec<Request> = sends.collect();
            mpi.wait_all(&mut sends, &mut []).unwrap();
        } else {
            for n in (0..100u32).rev() {
                let data = room(n as usize * 3);
                world.recv(&data, 0, n as i32).unwrap();
                assert_eq!(values(&data), vec![n; n as usize * 3]);
            }
        }
    });
}

#[test]
fn p11_senders_that_run_ahead_are_held_back_and_lose_nothing() {
    run_with(4, 2, tight(), |mpi| {
        let world = mpi.world();
        if world.rank() == 0 {
            let data = room(1);
            let mut next = [0; 4];
            for _ in 0..3 * 300 {
                let status = world.recv(&data, mpi::ANY_SOURCE, 0).unwrap();
                let source = status.source as usize;
                assert_eq!(values(&data), [next[source]]);
                next[source] += 1;
            }
        } else {
            for n in 0..300u32 {
                world.send(&numbers(&[n]), 0, 0).unwrap();
            }
        }
    });
}

#[test]
fn r8_without_requests_there_is_an_error_and_the_rest_goes_on() {
    run_with(1, 1, Settings { requests: 3, ..tight() }, |mpi| {
        let (world, data) = (mpi.world(), room(1));
        let mut requests: Vec<Request> = (0..3).map(|_| world.irecv(&data, 0, 0).unwrap()).collect();
        assert_eq!(world.irecv(&data, 0, 0).unwrap_err().class(), Class::NoMem);
        world.send(&numbers(&[9u32]), 0, 0).unwrap();
        mpi.wait(&mut requests[0]).unwrap();
        let again = world.irecv(&data, 0, 0).unwrap();
        for request in [requests[1], requests[2], again] {
            mpi.cancel(&request).unwrap();
            mpi.wait(&mut request.clone()).unwrap();
        }
    });
}

#[test]
fn q4_a_short_send_that_leaves_at_once_takes_no_request_and_is_one_like_any_other() {
    run_with(2, 1, Settings { requests: 3, ..Settings::default() }, |mpi| {
        let (world, data) = (mpi.world(), room(1));
        if world.rank() == 1 {
            for n in 0..8u32 {
                world.recv(&data, 0, 0).unwrap();
                assert_eq!(values(&data), [n]);
            }
            return world.send(&data, 0, 0).unwrap();
        }
        // More than there are requests, and of these one is a receive's.
        let mut waits = world.irecv(&data, 1, 0).unwrap();
        let mut sends: Vec<Request> = (0..8u32).map(|n| world.isend(&numbers(&[n]), 1, 0).unwrap()).collect();
        assert!(sends.iter().all(|send| !send.is_null()));
        let empty = Status::EMPTY;
        assert_eq!(mpi.wait(&mut sends[0]).unwrap(), empty);
        assert_eq!(mpi.test(&mut sends[1]).unwrap(), Some(empty));
        assert!(sends[0].is_null() && sends[1].is_null());
        assert_eq!(mpi.request_get_status(&sends[2]).unwrap(), Some(empty));
        mpi.cancel(&sends[2]).unwrap();
        assert_eq!(mpi.start(&sends[2]).unwrap_err().class(), Class::Request);
        mpi.request_free(&mut sends[2]).unwrap();
        assert!(sends[2].is_null());
        // It is found among null requests and one that waits.
        let mut some = [sends[0], waits, sends[3]];
        let (place, status) = mpi.wait_any(&mut some).unwrap().unwrap();
        assert!(place == 2 && status == Ok(empty) && some[2].is_null());
        mpi.wait_all(&mut sends[4..], &mut []).unwrap();
        assert!(sends[4..].iter().all(Request::is_null));
        mpi.wait(&mut waits).unwrap();
    });
}

#[test]
fn r1_one_target_that_stalls_holds_up_no_message_to_another() {
    static RELEASED: AtomicBool = AtomicBool::new(false);
    run(3, 3, |mpi| {
        let world = mpi.world();
        match world.rank() {
            0 => {
                // More than rings hold, of every kind: the last ones cannot even be offered.
                let data: Vec<_> =
                    (0..90).map(|n| numbers(&vec![n; [1, 700, 9000][n as usize % 3]])).collect();
                let sends = data.iter().zip(0..).map(|(data, tag)| world.isend(data, 1, tag).unwrap());
                let mut sends: Vec<Request> = sends.collect();
                for len in [1, 700, 9000] {
                    world.ssend(&room(len), 2, 1).unwrap();
                }
                RELEASED.store(true, SeqCst);
                mpi.wait_all(&mut sends, &mut []).unwrap();
            }
            1 => {
                let start = Instant::now();
                while !RELEASED.load(SeqCst) {
                    assert!(start.elapsed() < Duration::from_secs(20), "the other one waits for this one");
                    std::thread::yield_now();
                }
                for n in 0..90u32 {
                    let data = room([1, 700, 9000][n as usize % 3]);
                    world.recv(&data, 0, n as i32).unwrap();
                    assert_eq!(values(&data)[0], n);
                }
            }
            _ => {
                for len in [1, 700, 9000] {
                    world.recv(&room(len), 0, 1).unwrap();
                }
            }
        }
    });
}

#[test]
fn r1_offers_that_find_no_place_are_refused_and_others_come() {
    run_with(3, 1, Settings { rts_places: 8, ..tight() }, |mpi| {
        let world = mpi.world();
        let large = |n: u32| numbers(&vec![n; 5000]);
        match world.rank() {
            0 => {
                // Both have offered all.
                world.recv(&room(0), 1, 1).unwrap();
                world.send(&room(0), 2, 1).unwrap();
                let data = room(5000);
                for n in 0..8 {
                    let status = world.recv(&data, 1, 0).unwrap();
                    assert_eq!((status.len, values(&data)), (20_000, vec![n; 5000]));
                }
                world.send(&room(0), 2, 2).unwrap();
                world.recv(&data, 2, 0).unwrap();
                assert_eq!(values(&data), [9; 5000]);
            }
            1 => {
                let data: Vec<_> = (0..20).map(large).collect();
                let mut sends: Vec<Request> =
                    data.iter().map(|data| world.isend(data, 0, 0).unwrap()).collect();
                world.send(&room(0), 0, 1).unwrap();
                let mut statuses = [Status::EMPTY; 20];
                assert_eq!(mpi.wait_all(&mut sends, &mut statuses), Err(Error::InStatus));
                for (n, status) in statuses.iter().enumerate() {
                    let limit = matches!(status.error, Some(Error::NoMem { limit: 8, .. }));
                    assert_eq!((status.error.is_none(), limit), (n < 8, n >= 8), "{n}");
                }
            }
            _ => {
                world.recv(&room(0), 0, 1).unwrap();
                world.recv(&room(0), 0, 2).unwrap();
                world.send(&large(9), 0, 0).unwrap();
            }
        }
    });
}

#[test]
fn r1_any_number_of_refusals_waits_for_room() {
    const OFFERS: usize = 3000;
    run_in(2, 1, Settings { rts_places: 8, ..Settings::default() }, |mpi, state| {
        let world = mpi.world();
        if world.rank() == 0 {
            // Nothing of this one gets out until all offers have come.
            let first = room(5000);
            let mut receive = world.irecv(&first, 1, 5).unwrap();
            world.barrier().unwrap();
            state.lock().muted = Some(0);
            world.recv(&room(0), 1, 1).unwrap();
            state.lock().muted = None;
            mpi.wait(&mut receive).unwrap();
            assert_eq!(values(&first), [8; 5000]);
            let data = room(5000);
            for n in 0..8 {
                world.recv(&data, 1, 0).unwrap();
                assert_eq!(values(&data), [n; 5000]);
            }
        } else {
            world.barrier().unwrap();
            let data: Vec<_> = (0..9u32).map(|n| numbers(&[n; 5000])).collect();
            // One among those that are refused has a receive.
            let tag = |n: usize| if n == OFFERS / 2 { 5 } else { 0 };
            let sends = (0..OFFERS).map(|n| world.isend(&data[n.min(8)], 0, tag(n)).unwrap());
            let mut sends: Vec<Request> = sends.collect();
            world.send(&room(0), 0, 1).unwrap();
            let mut statuses = [Status::EMPTY; OFFERS];
            assert_eq!(mpi.wait_all(&mut sends, &mut statuses), Err(Error::InStatus));
            for (n, status) in statuses.iter().enumerate() {
                let well = n < 8 || n == OFFERS / 2;
                let limit = matches!(status.error, Some(Error::NoMem { limit: 8, .. }));
                assert_eq!((status.error.is_none(), limit), (well, !well), "{n}");
            }
        }
    });
}

#[test]
fn r8_a_program_has_ten_thousand_requests_and_a_thousand_of_everything_else() {
    run(2, 1, |mpi| {
        let world = mpi.world();
        let (rank, other) = (world.rank(), 1 - world.rank() as i32);
        let into = room(5000);
        let one = |n: usize| into.part(n, 1).unwrap();
        let receives = (0..5000).map(|n| world.irecv(&one(n), other, n as i32).unwrap());
        let mut requests: Vec<Request> = receives.collect();
        let out = numbers(&(0..5000).collect::<Vec<u32>>());
        let part = |n: usize| out.part(n, 1).unwrap();
        requests.extend((0..5000).map(|n| world.isend(&part(n), other, n as i32).unwrap()));
        mpi.wait_all(&mut requests, &mut []).unwrap();
        assert_eq!(values(&into), (0..5000).collect::<Vec<u32>>());
        let mirror = mpi.group_incl(&world.group().unwrap(), &[1, 0]).unwrap();
        let comms: Vec<_> = (0..1000)
            .map(|n| world.split(0, if n % 2 == 0 { 1 } else { -(rank as i32) }).unwrap().unwrap())
            .collect();
        assert_eq!([comms[0].rank(), comms[1].rank()], [rank, 1 - rank]);
        let groups: Vec<Group> = (0..1000).map(|_| mpi.group_incl(&mirror, &[0, 1]).unwrap()).collect();
        assert_eq!(groups[999].rank_of(1), Some(0));
        let double = Datatype::of::<f64>();
        let types: Vec<Datatype> =
            (0..1000).map(|n| mpi.types().indexed(&[1, 1], &[0, 3 + n], &double).unwrap()).collect();
        assert_eq!(types[999].run_count(), 1);
        let sum = numbers(&[1u32]);
        comms[999].allreduce(mpi::IN_PLACE, &sum, Op::Sum).unwrap();
        assert_eq!(values(&sum), [2]);
        comms.into_iter().for_each(|comm| comm.free().unwrap());
    });
}

#[test]
fn r8_a_hundred_thousand_of_everything_come_and_go() {
    // The agreement on each new communicator takes a minute in all.
    let long = std::env::var_os("PAMIR_LONG").is_some();
    run(1, 1, move |mpi| {
        let own = mpi.itself();
        let data = numbers(&[7u32]);
        let all = mpi.world().group().unwrap();
        for n in 0..100_000u32 {
            let mut request = own.irecv(&data, 0, 1).unwrap();
            own.send(&data, 0, 1).unwrap();
            mpi.wait(&mut request).unwrap();
            let datatype = mpi.types().indexed(&[1, 2], &[0, 5], &Datatype::of::<u32>()).unwrap();
            assert_eq!(datatype.size(), 12);
            if long || n % 16 == 0 {
                let twin = own.dup().unwrap();
                twin.free().unwrap();
            }
            assert_eq!(mpi.group_incl(&all, &[0]).unwrap().size(), 1);
        }
    });
    run_with(3, 1, Settings { groups: 3, group_ranks: 20, ..Settings::default() }, |mpi| {
        let all = mpi.world().group().unwrap();
        for n in 0..100_000i32 {
            // No range, and each another one than the last.
            let ranks: [i32; 3] = [[1, 0, 2], [2, 0, 1], [0, 2, 1]][n as usize % 3];
            let group = mpi.group_incl(&all, &ranks).unwrap();
            let twin = group.clone();
            drop(group);
            assert_eq!([0, 1, 2].map(|rank| twin.task(rank).unwrap() as i32), ranks);
            assert_eq!(ranks.map(|task| twin.rank_of(task as u32)), [Some(0), Some(1), Some(2)]);
        }
        let keep: Vec<Group> = [[1, 0, 2], [2, 0, 1], [0, 2, 1]]
            .iter()
            .map(|ranks| mpi.group_incl(&all, ranks).unwrap())
            .collect();
        let refused = mpi.group_incl(&all, &[2, 1, 0]).unwrap_err();
        assert!(matches!(refused, Error::NoMem { .. }), "{refused}");
        drop(keep);
    });
}

#[test]
fn p10_types_of_any_number_of_runs_go_round() {
    run(2, 1, |mpi| {
        let world = mpi.world();
        let (rank, other) = (world.rank(), 1 - world.rank() as i32);
        let types = mpi.types();
        let byte = Datatype::of::<u32>();
        // No two are as far from each other as others.
        let far: Vec<isize> = (0..3000).map(|n| n * n + n).collect();
        let scattered = types.indexed_block(1, &far, &byte).unwrap();
        let inner = types.subarray(&[12, 11, 10, 9], &[9, 8, 7, 6], &[1, 2, 0, 3], &byte).unwrap();
        assert!(scattered.run_count() >= 1500 && inner.run_count() == 1, "a box is one run");
        for datatype in [scattered, inner] {
            datatype.commit();
            let words = datatype.extent() as usize / 4 + 4;
            let out = Data::new(room(words).memory().clone(), 0, 1, datatype.clone()).unwrap();
            let list: Vec<u32> = (0..datatype.elements() as u32).map(|n| n * 3 + rank).collect();
            out.write(&list).unwrap();
            let into = Data::new(room(words).memory().clone(), 0, 1, datatype).unwrap();
            world.sendrecv(&out, other, 1, &into, other, 1).unwrap();
            let mut came = vec![0u32; list.len()];
            into.read(&mut came).unwrap();
            assert_eq!(came, (0..list.len() as u32).map(|n| n * 3 + other as u32).collect::<Vec<_>>());
        }
    });
}

#[test]
fn m6_the_one_of_several_that_failed_is_named() {
    run(1, 1, |mpi| {
        let (world, short, data) = (mpi.world(), room(1), room(4));
        let mut requests = [0, 1, 2].map(|tag| world.irecv(&short, 0, tag).unwrap());
        world.send(&data, 0, 1).unwrap();
        let (place, outcome) = mpi.wait_any(&mut requests).unwrap().unwrap();
        assert_eq!((place, outcome.unwrap_err().class()), (1, Class::Truncate));
        world.send(&short, 0, 0).unwrap();
        world.send(&data, 0, 2).unwrap();
        let (mut places, mut statuses, mut seen) = ([9; 3], [Status::EMPTY; 3], Vec::new());
        while let Some((count, outcome)) = mpi.wait_some(&mut requests, &mut places, &mut statuses).unwrap() {
            let failed = statuses[..count].iter().any(|status| status.error.is_some());
            assert_eq!(outcome.err(), failed.then_some(Error::InStatus));
            seen.extend(
                places[..count].iter().zip(&statuses).map(|(place, status)| (*place, status.error.is_some())),
            );
        }
        seen.sort();
        assert_eq!(seen, [(0, false), (2, true)]);
    });
}

#[test]
fn r8_a_buffer_takes_as_many_messages_as_fit() {
    run(2, 1, |mpi| {
        const COUNT: usize = 1500;
        let world = mpi.world();
        if world.rank() == 0 {
            // Of three bytes each, and not a byte more.
            mpi.buffer_attach(crate::machine::buffer(COUNT * (3 + BSEND_OVERHEAD)).share()).unwrap();
            for round in 0..3u8 {
                for n in 0..COUNT {
                    let bytes = numbers(&[n as u8, (n >> 8) as u8, round]);
                    world.bsend(&bytes, 1, 0).unwrap();
                }
                world.recv(&room(0), 1, 1).unwrap();
            }
            let memory = mpi.buffer_detach().unwrap();
            mpi.buffer_attach(memory).unwrap();
            mpi.buffer_detach().unwrap();
        } else {
            for round in 0..3u8 {
                // All are on their way before one is received.
                while world.iprobe(0, 0).unwrap().is_none() {}
                for n in 0..COUNT {
                    let bytes = numbers(&[0u8; 3]);
                    world.recv(&bytes, 0, 0).unwrap();
                    let mut got = [0u8; 3];
                    bytes.read(&mut got).unwrap();
                    assert_eq!(got, [n as u8, (n >> 8) as u8, round]);
                }
                world.send(&room(0), 0, 1).unwrap();
            }
        }
    });
}

#[test]
fn g3_a_barrier_lets_nobody_through_before_all_have_come() {
    static CAME: AtomicU32 = AtomicU32::new(0);
    run(5, 1, |mpi| {
        let world = mpi.world();
        let twin = world.dup().unwrap();
        for round in 1..=200u32 {
            if (round + world.rank()).is_multiple_of(7) {
                std::thread::sleep(Duration::from_micros(300));
            }
            CAME.fetch_add(1, SeqCst);
            let comm = if round.is_multiple_of(2) { world } else { twin };
            if round.is_multiple_of(3) {
                mpi.wait(&mut comm.ibarrier().unwrap()).unwrap();
            } else {
                comm.barrier().unwrap();
            }
            assert!(CAME.load(SeqCst) >= 5 * round, "round {round}");
            // Nobody goes on before all have looked.
            world.barrier().unwrap();
            assert!(CAME.load(SeqCst) < 5 * (round + 1) + 5);
        }
        twin.free().unwrap();
    });
}

#[test]
fn r1_reductions_of_many_communicators_in_any_order_find_scratch_memory() {
    let settings = Settings { collective_large: 16 << 10, ..Settings::default() };
    run_with(3, 1, settings, |mpi| {
        let world = mpi.world();
        let comms: Vec<_> = (0..3).map(|_| world.dup().unwrap()).collect();
        let (me, len) = (world.rank() as usize, 16 << 10);
        for round in 0..20 {
            let data: Vec<_> = (0..3).map(|_| numbers(&vec![1u32; len])).collect();
            let order = (0..3).map(|step| (me * round + step) % 3);
            let start = |at: usize| comms[at].iallreduce(IN_PLACE, &data[at], Op::Sum).unwrap();
            let mut requests: Vec<_> = order.map(start).collect();
            for request in &mut requests {
                mpi.wait(request).unwrap();
            }
            assert!(data.iter().all(|data| values(data) == vec![3; len]), "round {round}");
        }
    });
}

#[test]
fn r1_collectives_of_as_many_communicators_as_can_be_called_go_in_any_order() {
    const TASKS: u32 = 8;
    run(TASKS, 1, |mpi| {
        let world = mpi.world();
        let comms: Vec<_> = (0..64).map(|_| world.dup().unwrap()).collect();
        for round in 1..4 {
            let data: Vec<_> = comms.iter().map(|_| numbers(&[1u32; 9])).collect();
            // Each begins somewhere else: what the first comes to last is what another begins with.
            let order = (0..64).map(|step| (step + 8 * round * world.rank() as usize) % 64);
            let start = |at: usize| comms[at].iallreduce(IN_PLACE, &data[at], Op::Sum).unwrap();
            let mut requests: Vec<_> = order.map(start).collect();
            for request in &mut requests {
                mpi.wait(request).unwrap();
            }
            assert!(data.iter().all(|data| values(data) == vec![TASKS; 9]), "round {round}");
        }
    });
}

/// How often the operator was called.
static COMBINED: AtomicUsize = AtomicUsize::new(0);

fn combine(into: &mut [u8], from: &[u8], _: Order, _: &Datatype) {
    COMBINED.fetch_add(1, SeqCst);
    into.copy_from_slice(from);
}

#[test]
fn p11_a_long_reduction_has_the_large_place_if_that_is_free_and_goes_in_short_runs_else() {
    let calls = |collective_large| {
        let settings = Settings { collective_work: 64, collective_large, ..Settings::default() };
        COMBINED.store(0, SeqCst);
        run_with(2, 1, settings, |mpi| {
            let data = numbers(&[0u64; 2048]);
            mpi.world().allreduce(IN_PLACE, &data, Op::create(combine, true)).unwrap();
        });
        COMBINED.load(SeqCst)
    };
    // 8 numbers at a time, or 128.
    let [runs, whole] = [calls(0), calls(32 << 10)];
    assert!(whole > 0 && runs >= 8 * whole, "{runs} and {whole} calls");
}

#[test]
fn r4_what_waits_behind_a_reduction_that_fails_before_it_begins_goes_on() {
    run(2, 1, |mpi| {
        let world = mpi.world();
        // Long enough to ask for the large place.
        let long = numbers(&[1u32; 8 << 10]);
        if world.rank() == 0 {
            let mut asks = world.iallreduce(IN_PLACE, &long, Op::Sum).unwrap();
            let sums: Vec<_> = (0..3).map(|_| numbers(&[1u32; 9])).collect();
            let start = |sum: &Data| world.iallreduce(IN_PLACE, sum, Op::Sum).unwrap();
            let mut behind: Vec<_> = sums.iter().map(start).collect();
            mpi.wait_all(&mut behind, &mut []).unwrap();
            assert!(sums.iter().all(|sum| values(sum) == [2; 9]));
            assert_eq!(mpi.wait(&mut asks).unwrap_err().class(), Class::Op);
        } else {
            let loose = mpi.types().contiguous(1, &Datatype::of::<u32>()).unwrap();
            let loose = Data::new(crate::machine::buffer(16).share(), 0, 1, loose).unwrap();
            assert_eq!(world.allreduce(IN_PLACE, &loose, Op::Sum).unwrap_err().class(), Class::Op);
            for _ in 0..3 {
                world.allreduce(IN_PLACE, &numbers(&[1u32; 9]), Op::Sum).unwrap();
            }
        }
    });
}

#[test]
fn p11_a_send_to_nobody_takes_no_request() {
    run_with(1, 1, Settings { requests: 3, ..tight() }, |mpi| {
        let (world, data) = (mpi.world(), room(1));
        let mut requests: Vec<Request> = (0..3).map(|_| world.irecv(&data, 0, 0).unwrap()).collect();
        assert_eq!(world.irecv(&data, 0, 0).unwrap_err().class(), Class::NoMem);
        assert_eq!(world.send(&data, PROC_NULL, 0), Ok(()));
        assert_eq!(world.ssend(&data, PROC_NULL, 0), Ok(()));
        let mut sent = world.isend(&data, PROC_NULL, 0).unwrap();
        assert_eq!(mpi.test(&mut sent).unwrap().map(|status| status.len), Some(0));
        assert!(sent.is_null());
        (0..3).for_each(|n| world.send(&numbers(&[n]), 0, 0).unwrap());
        mpi.wait_all(&mut requests, &mut []).unwrap();
    });
}
