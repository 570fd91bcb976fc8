//! Large messages: pulled from their senders' memory where that goes, and right where it does not.

use crate::machine::{Packet, World};
use crate::scene::{Library, numbers, room, run_in, run_tasks, run_with, values};
use mpi::{ANY_SOURCE, Data, Error, Request, Settings, Threads};
use pami::Shared;
use pami::endpoint::{ContextOffset, Endpoint};
use pami::packet::{Envelope, Kind};

/// Numbers of a large message.
const LONG: usize = 10_000;
const BYTES: usize = 4 * LONG;
/// Most bytes that packets of a test may carry if none of them carries a large message.
const SMALL: usize = 8 << 10;

fn message(salt: u32) -> Vec<u32> {
    (0..LONG as u32).map(|at| at.wrapping_mul(31) ^ salt).collect()
}

fn tally(world: &World) -> [usize; 2] {
    let state = world.lock();
    [state.got, state.carried]
}

/// Regions of a task's node.
fn regions(mpi: &Library) -> usize {
    let node = mpi.node();
    let own = node.world.node_of(node.task).unwrap();
    node.world.lock().unit(own).regions()
}

/// `bytes` were pulled since `before`, and no packet carried them.
fn assert_pulled(world: &World, before: [usize; 2], bytes: usize) {
    let [got, carried] = tally(world);
    assert_eq!(got - before[0], bytes, "bytes that were pulled");
    assert!(carried - before[1] < SMALL, "packets carried {} bytes", carried - before[1]);
}

#[test]
fn p6_large_messages_are_pulled_and_no_packet_carries_them() {
    for per_node in [1, 2] {
        run_in(2, per_node, Settings::default(), |mpi, state| {
            let world = mpi.world();
            for (salt, late) in [(0, false), (1, true)] {
                world.barrier().unwrap();
                let before = tally(state);
                world.barrier().unwrap();
                if world.rank() == 0 {
                    let mut request = world.isend(&numbers(&message(salt)), 1, 3).unwrap();
                    world.send(&room(0), 1, 4).unwrap();
                    mpi.wait(&mut request).unwrap();
                    assert_eq!(regions(&mpi), 0);
                } else {
                    if late {
                        world.recv(&room(0), 0, 4).unwrap();
                    }
                    let data = room(LONG);
                    let status = world.recv(&data, ANY_SOURCE, 3).unwrap();
                    assert_eq!((status.source, status.len), (0, BYTES));
                    assert_eq!(values(&data), message(salt));
                    if !late {
                        world.recv(&room(0), 0, 4).unwrap();
                    }
                }
                world.barrier().unwrap();
                assert_pulled(state, before, BYTES);
            }
        });
    }
}

#[test]
fn p6_blocks_on_either_side_are_pulled_if_they_are_worth_a_request() {
    for per_node in [1, 2] {
        run_in(2, per_node, Settings::default(), |mpi, state| {
            let world = mpi.world();
            let word = mpi::Datatype::of::<u32>();
            let vector = |block: usize, gap: usize| {
                let stride = (block + gap) as isize;
                let datatype = mpi.types().vector(LONG / block, block, stride, &word).unwrap();
                datatype.commit();
                datatype
            };
            let kinds = [vector(LONG, 0), vector(250, 3), vector(200, 7), vector(10, 1)];
            let index = mpi.types().indexed(&[LONG - 7, 7], &[7, 0], &word).unwrap();
            index.commit();
            // Its blocks are large, but an RTS has no room to tell them.
            let halves = mpi.types().indexed_block(LONG / 2, &[LONG as isize / 2, 0], &word).unwrap();
            halves.commit();
            for out in kinds.iter().chain([&index, &halves]) {
                for into in kinds.iter().chain([&index, &halves]) {
                    world.barrier().unwrap();
                    let before = tally(state);
                    world.barrier().unwrap();
                    let memory = room(2 * LONG).memory().clone();
                    if world.rank() == 0 {
                        let data = Data::new(memory, 12, 1, out.clone()).unwrap();
                        data.write(&message(5)).unwrap();
                        world.send(&data, 1, 0).unwrap();
                    } else {
                        let data = Data::new(memory, 4, 1, into.clone()).unwrap();
                        assert_eq!(world.recv(&data, 0, 0).unwrap().len, BYTES);
                        assert_eq!(
                            values(&Data::new(numbers_of(&data), 0, LONG, word.clone()).unwrap()),
                            message(5)
                        );
                    }
                    world.barrier().unwrap();
                    let fine = |datatype: &mpi::Datatype| *datatype == kinds[3] || *datatype == index;
                    if !fine(out) && *out != halves && !fine(into) {
                        assert_pulled(state, before, BYTES);
                    } else {
                        assert_eq!(tally(state)[0], before[0]);
                    }
                    assert_eq!(regions(&mpi), 0);
                }
            }
        });
    }
}

/// The data without its gaps.
fn numbers_of(data: &Data) -> pami::Shared {
    let packed = room(LONG).memory().clone();
    data.pack(&packed, 0).unwrap();
    packed
}

#[test]
fn q2_messages_from_one_memory_share_a_region() {
    const MESSAGES: usize = 20;
    // Where it begins aligned, and where not.
    for skip in [0, 1] {
        run_in(2, 1, Settings { regions: 1, ..Settings::default() }, move |mpi, state| {
            let world = mpi.world();
            let before = tally(state);
            if world.rank() == 0 {
                let mut bytes = vec![0; MESSAGES * BYTES + skip];
                Shared::scope(&mut bytes[skip..], |memory| {
                    let part = |n| Data::of::<u32>(memory, n * BYTES, LONG).unwrap();
                    (0..MESSAGES).for_each(|n| part(n).write(&message(n as u32)).unwrap());
                    let sends = (0..MESSAGES).map(|n| world.isend(&part(n), 1, 0).unwrap());
                    let mut sends: Vec<Request> = sends.collect();
                    assert_eq!(regions(&mpi), 1);
                    world.send(&room(0), 1, 1).unwrap();
                    mpi.wait_all(&mut sends, &mut []).unwrap();
                });
                assert_eq!(regions(&mpi), 0);
            } else {
                world.recv(&room(0), 0, 1).unwrap();
                let data = room(LONG);
                for n in 0..MESSAGES {
                    world.recv(&data, 0, 0).unwrap();
                    assert_eq!(values(&data), message(n as u32));
                }
            }
            world.barrier().unwrap();
            assert_pulled(state, before, MESSAGES * BYTES);
        });
    }
}

#[test]
fn r1_messages_for_which_no_region_is_left_come_all_the_same() {
    const MESSAGES: u32 = 40;
    for (own, node) in [(0, 16), (2, 16), (32, 3), (32, 0)] {
        for per_node in [1, 2] {
            let settings = Settings { regions: own, ..Settings::default() };
            run_in(2, per_node, settings, move |mpi, state| {
                let world = mpi.world();
                state.lock().unit(state.node_of(world.rank()).unwrap()).limit = Some(node);
                world.barrier().unwrap();
                let other = 1 - world.rank() as i32;
                let out: Vec<_> = (0..MESSAGES).map(|n| numbers(&message(n))).collect();
                let into: Vec<_> = (0..MESSAGES).map(|_| room(LONG)).collect();
                let sends = out.iter().map(|data| world.isend(data, other, 0).unwrap());
                let mut requests: Vec<Request> = sends.collect();
                assert!(regions(&mpi) <= 2 * own.min(node));
                requests.extend(into.iter().map(|data| world.irecv(data, other, 0).unwrap()));
                mpi.wait_all(&mut requests, &mut []).unwrap();
                for (data, n) in into.iter().zip(0..) {
                    assert_eq!(values(data), message(n));
                }
                world.barrier().unwrap();
                assert_eq!(regions(&mpi), 0);
            });
        }
    }
}

#[test]
fn p6_one_that_is_too_long_for_its_receive_moves_nothing_and_keeps_no_region() {
    run_in(2, 1, Settings::default(), |mpi, state| {
        let world = mpi.world();
        if world.rank() == 0 {
            world.ssend(&numbers(&message(1)), 1, 0).unwrap();
            assert_eq!(regions(&mpi), 0);
        } else {
            let data = room(LONG - 1);
            let error = world.recv(&data, 0, 0).unwrap_err();
            assert_eq!(error, Error::Truncate { len: BYTES, room: BYTES - 4 });
            assert_eq!(values(&data), vec![0; LONG - 1]);
        }
        world.barrier().unwrap();
        assert_eq!(tally(state)[0], 0);
    });
}

#[test]
fn p6_persistent_and_freed_requests_and_messages_to_oneself_are_pulled() {
    run_in(1, 1, Settings::default(), |mpi, state| {
        let world = mpi.world();
        let (out, into) = (numbers(&message(0)), room(LONG));
        let (send, receive) = (world.ssend_init(&out, 0, 0).unwrap(), world.recv_init(&into, 0, 0).unwrap());
        for salt in 0..3 {
            out.write(&message(salt)).unwrap();
            mpi.start_all(&[send, receive]).unwrap();
            mpi.wait(&mut receive.clone()).unwrap();
            mpi.wait(&mut send.clone()).unwrap();
            assert_eq!((values(&into), regions(&mpi)), (message(salt), 0));
        }
        for request in [send, receive] {
            mpi.request_free(&mut request.clone()).unwrap();
        }
        let mut freed = world.isend(&out, 0, 0).unwrap();
        mpi.request_free(&mut freed).unwrap();
        assert_eq!(regions(&mpi), 1);
        into.write(&message(9)).unwrap();
        world.recv(&into, 0, 0).unwrap();
        assert_eq!(values(&into), message(2));
        // The sender hears of it.
        world.barrier().unwrap();
        while regions(&mpi) > 0 {
            world.iprobe(0, 0).unwrap();
        }
        assert_pulled(state, [0; 2], 4 * BYTES);
    });
}

#[test]
fn r2_a_death_ends_both_sides_and_frees_the_region() {
    // Who dies: the receiver before its match; the sender before the match, and while it is being pulled from.
    for case in 0..3 {
        run_tasks(2, 1, Settings::default(), Threads::Single, move |mpi| {
            let (world, state) = (mpi.world(), mpi.node().world);
            let (own, victim) = (world.rank(), 1);
            if own == victim {
                if case > 0 {
                    let mut request = world.isend(&numbers(&message(0)), 0, 0).unwrap();
                    world.send(&room(0), 0, 1).unwrap();
                    mpi.request_free(&mut request).unwrap();
                } else {
                    world.recv(&room(0), 0, 1).unwrap();
                    world.send(&room(0), 0, 2).unwrap();
                }
                return;
            }
            let data = room(LONG);
            let mut request = match case {
                0 => {
                    let request = world.isend(&data, 1, 0).unwrap();
                    assert_eq!(regions(&mpi), 1);
                    world.send(&room(0), 1, 1).unwrap();
                    world.recv(&room(0), 1, 2).unwrap();
                    request
                }
                1 => {
                    world.recv(&room(0), 1, 1).unwrap();
                    state.kill(victim);
                    world.irecv(&data, 1, 0).unwrap()
                }
                _ => {
                    world.recv(&room(0), 1, 1).unwrap();
                    // The get does not get out.
                    state.stepped();
                    world.irecv(&data, 1, 0).unwrap()
                }
            };
            if case != 1 {
                assert_eq!(mpi.test(&mut request).unwrap(), None);
                state.kill(victim);
                state.free_running();
            }
            assert_eq!(mpi.wait(&mut request), Err(Error::NodeDead(victim)));
            assert_eq!((regions(&mpi), values(&data)), (0, vec![0; LONG]));
        });
    }
}

#[test]
fn d9_nobody_but_its_receiver_ends_a_message_that_waits_to_be_pulled() {
    /// What MPI's messages of control have in front: no bytes, the sender's request, the receiver's, credit, CTS.
    fn cts(slot: u16) -> [u8; 14] {
        let [low, high] = slot.to_le_bytes();
        [0, 0, 0, 0, low, high, 0, 0, 0, 0, 0, 0, 1, 0]
    }
    run_with(3, 1, Settings::default(), |mpi| {
        let world = mpi.world();
        match world.rank() {
            0 => {
                let mut request = world.isend(&numbers(&message(3)), 1, 0).unwrap();
                let me = Endpoint::from_parts(pami::endpoint::ClientId(0), 0, ContextOffset(0));
                let origin = Endpoint::from_parts(me.client(), 2, me.context());
                for slot in (0..20).chain([u16::MAX]) {
                    let envelope = Envelope {
                        kind: Kind::EagerFirst,
                        dispatch: 1,
                        origin,
                        target: me,
                        message: 0,
                        offset: 0,
                        total: 0,
                    };
                    mpi.node().world.forge(Packet::new(envelope, &cts(slot), &[]));
                }
                for _ in 0..100 {
                    assert_eq!(mpi.test(&mut request).unwrap(), None);
                }
                assert_eq!(regions(&mpi), 1);
                world.send(&room(0), 1, 1).unwrap();
                mpi.wait(&mut request).unwrap();
                assert_eq!(regions(&mpi), 0);
            }
            1 => {
                world.recv(&room(0), 0, 1).unwrap();
                let data = room(LONG);
                world.recv(&data, 0, 0).unwrap();
                assert_eq!(values(&data), message(3));
            }
            _ => {}
        }
    });
}

#[test]
fn d9_an_rts_of_nonsense_ends_its_receive_at_most_and_writes_nothing() {
    // Task, region, length; offset, block, stride. What the message unit refuses is an error of the receive; what
    // cannot even be asked for is left to the sender, who never sends it.
    const CASES: [([u32; 7], bool); 4] = [
        ([1, 5, 7, 1 << 20, 0, 0, 0], true),
        ([0, 0, 1, 1 << 20, 0, 0, 0], false),
        ([1, 0, 1, 1 << 20, u32::MAX - 3, 0, 0], false),
        ([1, 0, 1, u32::MAX, 0, 4096, u32::MAX], false),
    ];
    run_tasks(2, 1, Settings::default(), Threads::Single, |mpi| {
        let world = mpi.world();
        if world.rank() != 0 {
            return;
        }
        let me = Endpoint::from_parts(pami::endpoint::ClientId(0), 0, ContextOffset(0));
        let origin = Endpoint::from_parts(me.client(), 1, me.context());
        for (source, refused) in CASES {
            let data = room(LONG);
            let mut request = world.irecv(&data, ANY_SOURCE, 77).unwrap();
            // Communicator, rank, tag, length; request, credit, RTS.
            let words = [0, 1, 77, BYTES as u32].map(u32::to_le_bytes).concat();
            let header = [&words[..], &[0xff, 0x7f, 0, 0, 1, 0, 0, 0]].concat();
            let source = source.map(u32::to_le_bytes).concat();
            let (kind, dispatch, total) = (Kind::EagerFirst, 0, source.len() as u32);
            let envelope = Envelope { kind, dispatch, origin, target: me, message: 0, offset: 0, total };
            mpi.node().world.forge(Packet::new(envelope, &header, &source));
            let outcome = (0..100).map(|_| mpi.test(&mut request)).find(|outcome| *outcome != Ok(None));
            let fault = matches!(outcome, Some(Err(Error::Operation(_))));
            assert_eq!((outcome.is_some(), fault), (refused, refused), "{outcome:?}");
            assert_eq!(values(&data), vec![0; LONG]);
            // It was matched.
            if let Some(request) = Some(request).filter(|_| !refused) {
                mpi.cancel(&request).unwrap();
                assert_eq!(mpi.request_get_status(&request), Ok(None));
            }
        }
    });
}

#[test]
fn r1_a_sender_whose_node_does_not_answer_has_half_of_the_operations() {
    const MESSAGES: usize = 40;
    run_in(2, 1, Settings::default(), |mpi, state| {
        let world = mpi.world();
        let whole = numbers(&vec![1u32; MESSAGES * LONG]);
        let part = |n: usize| whole.part(n * LONG, LONG).unwrap();
        if world.rank() == 0 {
            let receives = (0..MESSAGES).map(|n| world.irecv(&part(n), 1, 0).unwrap());
            let mut receives: Vec<Request> = receives.collect();
            world.barrier().unwrap();
            // No request of this one gets out until all messages have come.
            state.lock().muted = Some(0);
            world.recv(&room(0), 1, 1).unwrap();
            state.lock().muted = None;
            mpi.wait_all(&mut receives, &mut []).unwrap();
            assert!((0..MESSAGES).all(|n| values(&part(n)) == message(n as u32)));
            assert_eq!(state.lock().got, pami::device::OPERATIONS / 2 * BYTES);
        } else {
            (0..MESSAGES).for_each(|n| part(n).write(&message(n as u32)).unwrap());
            world.barrier().unwrap();
            while state.lock().muted.is_none() {
                std::thread::yield_now();
            }
            let sends = (0..MESSAGES).map(|n| world.isend(&part(n), 0, 0).unwrap());
            let mut sends: Vec<Request> = sends.collect();
            world.send(&room(0), 0, 1).unwrap();
            mpi.wait_all(&mut sends, &mut []).unwrap();
            assert_eq!(regions(&mpi), 0);
        }
    });
}
