//! Memory for unexpected messages: one pool for all peers, of which each has what it uses (SPEC ).

use crate::machine::{Packet, node_among};
use crate::scene::{Comm, Library, await_flag, numbers, room, run_in, run_tasks, run_with, values};
use mpi::{Error, Mpi, Request, Settings, Threads};
use pami::endpoint::{ClientId, ContextOffset};
use pami::packet::{Envelope, Kind};
use pami::{ClientBuilder, Endpoint};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Tag of what follows a burst.
const SEEN: i32 = 99;

/// So many pieces for unexpected messages.
fn pieces(count: usize) -> Settings {
    Settings { unexpected_bytes: 256 * count, ..Settings::default() }
}

/// Begins sends of one number each to rank 0, and returns them with how many of them are complete although nobody receives:
/// rank 0 is in [`seen`] from before they are counted until they are.
fn burst(mpi: Library, count: u32, tag: i32) -> (Vec<Request>, usize) {
    let world = mpi.world();
    let send = |n| world.isend(&numbers(&[n]), 0, tag).unwrap();
    let mut sends: Vec<Request> = (0..count).map(send).collect();
    let mut last = world.isend(&room(0), 0, SEEN).unwrap();
    world.recv(&room(0), 0, SEEN).unwrap();
    mpi.wait(&mut last).unwrap();
    let complete = sends.iter_mut().filter_map(|send| mpi.test(send).unwrap()).count();
    world.send(&room(0), 0, SEEN).unwrap();
    (sends, complete)
}

/// All messages of a [`burst`] have come, and its rank has counted.
fn seen(world: Comm, source: i32) {
    world.recv(&room(0), source, SEEN).unwrap();
    world.send(&room(0), source, SEEN).unwrap();
    world.recv(&room(0), source, SEEN).unwrap();
}

/// Receives as many from a rank, in their order.
fn drain(world: Comm, count: u32, source: i32, tag: i32) {
    let data = room(1);
    for n in 0..count {
        world.recv(&data, source, tag).unwrap();
        assert_eq!(values(&data), [n], "from {source}");
    }
}

#[test]
fn r9_what_a_library_takes_hardly_grows_with_the_tasks_of_its_job() {
    let taken = |tasks| {
        let node = node_among(tasks);
        // The library takes its memory, and then finds its name taken.
        let _taken = ClientBuilder::new(node, "mpi").create().unwrap();
        let before = node.world.lock().taken;
        assert!(Mpi::init_thread(node, Settings::default(), Threads::Single).is_err());
        node.world.lock().taken - before
    };
    let alone = taken(1);
    for tasks in [1, 1000, 1_000_000] {
        let more = taken(tasks) - alone;
        println!("{tasks} tasks: {alone} bytes and {more}, {} a task", more / tasks as usize);
        // What is known of a peer, and room for two ranks in groups; up to some size counts of collectives and answers of windows.
        let known =
            |tasks: usize| 16 * (8 * (tasks + 1)).min((32 << 10) + 8) + 320 * tasks.min(1024) + 72 * tasks;
        let most = known(tasks as usize) - known(1);
        assert!(more <= most, "{more} bytes more for {tasks} tasks, of {most}");
    }
}

#[test]
fn r9_more_requests_than_their_numbers_reach_are_refused_by_name() {
    let node = node_among(1);
    for (requests, refused) in [(u16::MAX, true), (65_504, true), (65_503, false)] {
        let settings = Settings { requests, ..Settings::default() };
        let outcome = Mpi::init_thread(node, settings, Threads::Single);
        let what = Error::NoMem { what: "requests", limit: 65_503 };
        assert_eq!(outcome.err(), refused.then_some(what), "{requests}");
    }
}

#[test]
fn r9_r1_a_flood_of_one_origin_leaves_all_others_what_they_are_sure_of_and_their_turn() {
    const FLOOD: u32 = 3000;
    // Each is sure of 5.
    run_with(6, 2, pieces(64), |mpi| {
        let world = mpi.world();
        match world.rank() {
            0 => {
                // The flood has come, and nobody receives it.
                seen(world, 1);
                for other in 2..6 {
                    world.send(&room(0), other, 1).unwrap();
                    seen(world, other);
                    drain(world, 40, other, 0);
                }
                drain(world, FLOOD, 1, 0);
            }
            1 => {
                let (mut sends, complete) = burst(mpi, FLOOD, 0);
                assert!(complete < 40, "{complete} are half the pool or less");
                mpi.wait_all(&mut sends, &mut []).unwrap();
            }
            _ => {
                world.recv(&room(0), 0, 1).unwrap();
                let (mut sends, complete) = burst(mpi, 40, 0);
                assert!(complete >= 5, "{complete} in the middle of a flood");
                mpi.wait_all(&mut sends, &mut []).unwrap();
            }
        }
    });
}

#[test]
fn r9_a_busy_peer_has_more_than_it_is_sure_of_and_gives_it_back_when_it_is_idle() {
    const BURST: u32 = 60;
    // Each is sure of 21 of 128. One that is busy has 43, a second one beside it 32, and 43 if the first one gives back.
    run_with(3, 1, pieces(128), |mpi| {
        let world = mpi.world();
        if world.rank() == 0 {
            for other in [1, 2] {
                for _ in 0..10 {
                    seen(world, other);
                    drain(world, BURST, other, 0);
                }
                world.send(&room(0), 3 - other, 2).unwrap();
            }
            seen(world, 1);
            drain(world, BURST, 1, 0);
            return;
        }
        if world.rank() == 2 {
            world.recv(&room(0), 0, 2).unwrap();
        }
        let mut most = 0;
        for _ in 0..10 {
            let (mut sends, complete) = burst(mpi, BURST, 0);
            mpi.wait_all(&mut sends, &mut []).unwrap();
            most = most.max(complete);
        }
        assert!((35..=44).contains(&most), "rank {}: {most}", world.rank());
        if world.rank() == 1 {
            world.recv(&room(0), 0, 2).unwrap();
            // What it was sure of at first is its own still.
            let (mut sends, complete) = burst(mpi, BURST, 0);
            assert!(complete >= 20, "{complete}");
            mpi.wait_all(&mut sends, &mut []).unwrap();
        }
    });
}

#[test]
fn r9_where_nobody_is_sure_of_anything_the_first_message_asks_and_two_that_send_first_do_not_hang() {
    run_with(4, 2, pieces(7), |mpi| {
        let world = mpi.world();
        let (me, other) = (world.rank(), world.rank() ^ 1);
        for n in 0..50u32 {
            // Complete before anybody receives.
            world.send(&numbers(&[n * 10 + me]), other as i32, 0).unwrap();
            let data = room(1);
            world.recv(&data, other as i32, 0).unwrap();
            assert_eq!(values(&data), [n * 10 + other]);
        }
    });
}

#[test]
fn r9_messages_of_a_freed_communicator_give_their_credit_back() {
    // Each is sure of 16.
    const UNITS: u32 = 16;
    let (freed, paid) = (AtomicBool::new(false), AtomicBool::new(false));
    run_with(2, 1, pieces(64), move |mpi| {
        let world = mpi.world();
        let freeing = world.dup().unwrap();
        if world.rank() == 0 {
            world.recv(&room(0), 1, 1).unwrap();
            freeing.free().unwrap();
            await_flag(&freed);
            // Nothing else goes there that it could go with.
            (0..20).for_each(|_| assert_eq!(world.iprobe(1, 0), Ok(None)));
            paid.store(true, SeqCst);
            seen(world, 1);
            drain(world, UNITS - 1, 1, 0);
            return;
        }
        let send = |_| freeing.isend(&numbers(&[7]), 0, 0).unwrap();
        let mut sends: Vec<Request> = (0..UNITS - 1).map(send).collect();
        world.send(&room(0), 0, 1).unwrap();
        mpi.wait_all(&mut sends, &mut []).unwrap();
        freeing.free().unwrap();
        freed.store(true, SeqCst);
        await_flag(&paid);
        assert_eq!(world.iprobe(0, 0), Ok(None));
        let (mut sends, complete) = burst(mpi, UNITS - 1, 0);
        assert_eq!(complete, UNITS as usize - 1);
        mpi.wait_all(&mut sends, &mut []).unwrap();
    });
}

#[test]
fn r9_half_a_message_of_a_freed_communicator_goes_when_the_rest_has_come() {
    // Each is sure of 16.
    run_in(2, 1, pieces(64), |mpi, machine| {
        let world = mpi.world();
        let freeing = world.dup().unwrap();
        if world.rank() > 0 {
            return freeing.free().unwrap();
        }
        let forge = |header: &[u8], offset: u32, data: &[u8], total: u32| {
            let kind = if offset == 0 { Kind::EagerFirst } else { Kind::EagerNext };
            let target = Endpoint::from_parts(ClientId(0), 0, ContextOffset(0));
            let origin = Endpoint::from_parts(target.client(), 1, target.context());
            let envelope = Envelope { kind, dispatch: 0, origin, target, message: 0, offset, total };
            machine.forge(Packet::new(envelope, header, data));
        };
        // Communicator, rank, tag, length; request, credit, flags.
        let header = |communicator: u32, len: u32| {
            let words = [communicator, 1, 77, len].map(u32::to_le_bytes).concat();
            [&words[..], &[0xff, 0x7f, 0, 0, 0, 0, 0, 0]].concat()
        };
        forge(&header(2, 2100), 0, &[1; 400], 2100);
        assert!(freeing.iprobe(1, 77).unwrap().is_some());
        freeing.free().unwrap();
        forge(&[], 400, &[1; 1700], 2100);
        (0..20).for_each(|_| assert_eq!(world.iprobe(1, 77), Ok(None)));
        // It was told, so all that it was granted has room again.
        (0..16).for_each(|_| forge(&header(0, 4), 0, &[1; 4], 4));
        for _ in 0..16 {
            world.recv(&room(1), 1, 77).unwrap();
        }
        assert_eq!(mpi.protocol_errors(), 0);
    });
}

#[test]
fn r9_r1_without_any_memory_messages_stay_with_their_senders_until_they_are_wanted() {
    run_with(3, 1, pieces(0), |mpi| {
        let world = mpi.world();
        if world.rank() == 0 {
            // The last ones first.
            for other in [2, 1] {
                for tag in (0..20).rev() {
                    let data = room(1 + tag as usize);
                    world.recv(&data, other, tag).unwrap();
                    assert_eq!(values(&data), vec![tag as u32; 1 + tag as usize]);
                }
            }
        } else {
            let data: Vec<_> = (0..20u32).map(|tag| numbers(&vec![tag; 1 + tag as usize])).collect();
            let sends = data.iter().zip(0..).map(|(data, tag)| world.isend(data, 0, tag).unwrap());
            let mut sends: Vec<Request> = sends.collect();
            mpi.wait_all(&mut sends, &mut []).unwrap();
        }
    });
}

#[test]
fn r1_q4_who_sleeps_with_the_context_holds_up_no_receive_of_what_came_and_is_woken_to_give_its_credit_back() {
    const SENT: u32 = 15;
    // Each is sure of 16.
    let taken: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    run_in(2, 1, pieces(64), move |mpi, machine| {
        let world = mpi.world();
        if world.rank() == 1 {
            (0..SENT).for_each(|n| world.send(&numbers(&[n]), 0, 1).unwrap());
            world.send(&room(0), 0, 2).unwrap();
            // It must not sleep itself.
            while !taken.load(SeqCst) {
                std::thread::yield_now();
            }
            world.send(&room(0), 0, 3).unwrap();
            let (mut sends, complete) = burst(mpi, SENT, 0);
            assert!(complete >= SENT as usize, "{complete}");
            return mpi.wait_all(&mut sends, &mut []).unwrap();
        }
        world.recv(&room(0), 1, 2).unwrap();
        let wakes = move || mpi.node().world.wakes.load(SeqCst);
        *machine.meanwhile.lock().unwrap() = Some(Box::new(move || {
            let before = wakes();
            for n in 0..SENT {
                // What is too long for its room is an error as ever.
                let data = room((n % 2) as usize);
                let mut request = world.irecv(&data, 1, 1).unwrap();
                let status = mpi.test(&mut request).map(|status| status.unwrap().len);
                match n % 2 {
                    0 => assert_eq!(status, Err(Error::Truncate { len: 4, room: 0 })),
                    _ => assert_eq!((status, values(&data)), (Ok(4), vec![n])),
                }
            }
            // Once in the middle, as all that is due by then goes at once.
            assert_eq!(wakes() - before, 1);
            taken.store(true, SeqCst);
        }));
        world.recv(&room(0), 1, 3).unwrap();
        seen(world, 1);
        drain(world, SENT, 1, 0);
    });
}

#[test]
fn d9_r9_who_ignores_what_it_was_granted_takes_no_place_of_others_and_is_counted() {
    // Each is sure of 10.
    run_in(3, 1, pieces(64), |mpi, _| {
        let world = mpi.world();
        match world.rank() {
            0 => {
                let me = Endpoint::from_parts(ClientId(0), 0, ContextOffset(0));
                let origin = Endpoint::from_parts(me.client(), 1, me.context());
                // Communicator, rank, tag, length; request, credit, flags.
                let words = [0, 1, 77, 4].map(u32::to_le_bytes).concat();
                let header = [&words[..], &[0xff, 0x7f, 0, 0, 0, 0, 0, 0]].concat();
                for _ in 0..100 {
                    let (kind, dispatch, total) = (Kind::EagerFirst, 0, 4);
                    let envelope =
                        Envelope { kind, dispatch, origin, target: me, message: 0, offset: 0, total };
                    mpi.node().world.forge(Packet::new(envelope, &header, &[1; 4]));
                }
                assert_eq!(world.iprobe(2, 0), Ok(None));
                world.send(&room(0), 2, 1).unwrap();
                seen(world, 2);
                drain(world, 10, 2, 0);
                // What it was granted is there.
                let data = room(1);
                for _ in 0..10 {
                    world.recv(&data, 1, 77).unwrap();
                }
                assert_eq!(world.iprobe(1, 77), Ok(None));
                assert!(mpi.protocol_errors() >= 90, "{}", mpi.protocol_errors());
                world.send(&room(0), 1, 1).unwrap();
            }
            1 => drop(world.recv(&room(0), 0, 1).unwrap()),
            _ => {
                world.recv(&room(0), 0, 1).unwrap();
                let (mut sends, complete) = burst(mpi, 10, 0);
                assert!(complete >= 9, "{complete}");
                mpi.wait_all(&mut sends, &mut []).unwrap();
            }
        }
    });
}

#[test]
fn r2_who_only_tests_sees_that_the_peer_died_that_its_first_send_or_its_receive_waits_for() {
    // Nobody is sure of anything.
    for probes in [false, true] {
        let over = AtomicBool::new(false);
        run_tasks(2, 1, pieces(0), Threads::Single, move |mpi| {
            let world = mpi.world();
            // Nobody dies in the middle of init.
            if world.rank() == 1 {
                world.send(&room(0), 0, 9).unwrap();
                return over.store(true, SeqCst);
            }
            world.recv(&room(0), 1, 9).unwrap();
            while !over.load(SeqCst) {
                let _ = world.iprobe(1, 5);
                std::thread::yield_now();
            }
            let mut requests =
                [world.isend(&numbers(&[1]), 1, 0).unwrap(), world.irecv(&room(1), 1, 0).unwrap()];
            let _ = mpi.test(&mut requests[0]);
            mpi.node().world.kill(1);
            if probes {
                (0..20).for_each(|_| assert_eq!(world.iprobe(1, 5), Ok(None)));
            }
            for request in &mut requests {
                let looks = if probes { 1 } else { 20 };
                let outcome = (0..looks).map(|_| mpi.test(request)).find(|outcome| *outcome != Ok(None));
                assert_eq!(outcome, Some(Err(Error::NodeDead(1))), "probes: {probes}");
            }
        });
    }
}
