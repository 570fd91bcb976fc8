//! Which receive gets which message.

use crate::machine::World;
use crate::scene::{Comm, Library, numbers, room, run, run_in, run_with, values};
use mpi::{ANY_SOURCE, ANY_TAG, Class, Data, Datatype, Error, PROC_NULL, Request, Settings, Status};
use std::sync::atomic::Ordering::SeqCst;

/// Bytes of a message that goes in each way: nothing, in a packet, in several, by RTS.
const LENGTHS: [usize; 4] = [0, 4, 1000, 5000];

fn message(len: usize, salt: u32) -> Vec<u32> {
    (0..len as u32).map(|at| at.wrapping_mul(31) ^ salt).collect()
}

fn send(comm: &Comm, len: usize, salt: u32, dest: i32, tag: i32) {
    comm.send(&numbers(&message(len, salt)), dest, tag).unwrap();
}

fn receive(comm: &Comm, len: usize, salt: u32, source: i32, tag: i32) -> Status {
    let data = room(len);
    let status = comm.recv(&data, source, tag).unwrap();
    assert_eq!(values(&data), message(len, salt));
    assert_eq!(status.len, 4 * len);
    status
}

#[test]
fn p6_every_length_arrives_whether_it_is_waited_for_or_not() {
    for per_node in [1, 2] {
        run(2, per_node, |mpi| {
            let world = mpi.world();
            for len in LENGTHS {
                for late in [false, true] {
                    if world.rank() == 0 {
                        send(&world, len, 7, 1, 3);
                        send(&world, 0, 0, 1, 4);
                    } else {
                        if late {
                            world.probe(0, 3).unwrap();
                        }
                        let status = receive(&world, len, 7, 0, 3);
                        assert_eq!((status.source, status.tag), (0, 3));
                        receive(&world, 0, 0, 0, 4);
                    }
                }
            }
        });
    }
}

/// Whether a test of a request for which nothing has come looks at the port.
fn looks(mpi: Library, machine: &World, request: &mut Request) -> bool {
    let count = || {
        let state = machine.lock();
        state.looks + state.drives
    };
    let before = count();
    assert_eq!(mpi.test(request), Ok(None));
    count() > before
}

#[test]
fn n8_a_few_tests_in_a_row_go_by_the_bell_alone_and_the_next_one_looks() {
    run_in(1, 1, Settings::default(), |mpi, machine| {
        let (world, data) = (mpi.world(), room(1));
        // Here a context may rest; bells say nothing.
        machine.stepped();
        let mut receive = world.irecv(&data, 0, 1).unwrap();
        let looked: Vec<_> = (0..100).map(|_| looks(mpi, machine, &mut receive)).collect();
        assert!(looked.chunks(5).all(|few| few == [true, false, false, false, false]), "{looked:?}");
        assert!(looks(mpi, machine, &mut receive) && !looks(mpi, machine, &mut receive));
        machine.rung.store(true, SeqCst);
        assert!(looks(mpi, machine, &mut receive), "the bell was rung");
        machine.rung.store(false, SeqCst);
        world.send(&numbers(&[7u32]), 0, 1).unwrap();
        let over = (1..=100).find(|_| mpi.test(&mut receive).unwrap().is_some());
        // One of the four behind a look.
        assert!(over.is_some_and(|tests| tests <= 5), "after {over:?} tests");
        assert_eq!(values(&data), [7]);
        machine.lock().stepped = false;
    });
}

#[test]
fn n8_a_test_behind_what_began_or_came_meanwhile_looks() {
    run_in(1, 1, Settings::default(), |mpi, machine| {
        let world = mpi.world();
        machine.stepped();
        let mut receive = world.irecv(&room(1), 0, 1).unwrap();
        let rests = |receive: &mut Request| (0..10).any(|_| !looks(mpi, machine, receive));
        let large = room(256 << 10);
        assert!(rests(&mut receive));
        let mut send = world.isend(&large, 0, 2).unwrap();
        assert!(looks(mpi, machine, &mut receive), "a long send began");
        assert!(rests(&mut receive));
        let mut barrier = world.ibarrier().unwrap();
        assert!(looks(mpi, machine, &mut receive), "a barrier began");
        assert!(rests(&mut receive));
        // A message that nobody waits for comes, and the bell says so once.
        world.send(&numbers(&[7u32]), 0, 3).unwrap();
        machine.rung.store(true, SeqCst);
        assert_eq!(mpi.test(&mut receive), Ok(None));
        machine.rung.store(false, SeqCst);
        assert!(looks(mpi, machine, &mut receive), "something came");
        machine.free_running();
        world.recv(&room(1), 0, 3).unwrap();
        world.recv(&large, 0, 2).unwrap();
        mpi.wait(&mut send).unwrap();
        mpi.wait(&mut barrier).unwrap();
        world.send(&room(1), 0, 1).unwrap();
        mpi.wait(&mut receive).unwrap();
    });
}

#[test]
fn p10_however_data_lies_it_goes_as_what_lies_in_one_piece_and_its_type_may_be_freed() {
    for per_node in [1, 2] {
        run(2, per_node, |mpi| {
            let world = mpi.world();
            for (len, eager) in [(LENGTHS[1], true), (LENGTHS[2], true), (LENGTHS[3], false)] {
                let scattered = |factor: isize| {
                    let places: Vec<_> = (0..len as isize).map(|n| factor * n + n % 3).collect();
                    let datatype = mpi.types().indexed_block(1, &places, &Datatype::of::<u32>()).unwrap();
                    datatype.commit();
                    datatype
                };
                let place = |factor: isize| {
                    Data::new(room(factor as usize * len).memory().clone(), 0, 1, scattered(factor)).unwrap()
                };
                if world.rank() == 0 {
                    let data = place(4);
                    let packed = numbers(&message(len, 5));
                    data.unpack(packed.memory(), 0, 4 * len).unwrap();
                    let mut request = world.isend(&data, 1, 0).unwrap();
                    drop(data);
                    // Nobody receives it yet.
                    if eager {
                        mpi.wait(&mut request).unwrap();
                    }
                    assert!(eager || (0..1000).all(|_| mpi.test(&mut request).unwrap().is_none()));
                    // These have the room of the one that was dropped, if it is free.
                    let others = [5, 6, 7].map(scattered);
                    world.send(&room(0), 1, 1).unwrap();
                    mpi.wait(&mut request).unwrap();
                    drop(others);
                } else {
                    world.recv(&room(0), 0, 1).unwrap();
                    let data = place(5);
                    world.recv(&data, 0, 0).unwrap();
                    let packed = room(len);
                    data.pack(packed.memory(), 0).unwrap();
                    assert_eq!(values(&packed), message(len, 5));
                }
            }
        });
    }
}

#[test]
fn p6_messages_do_not_overtake_whatever_way_they_take() {
    run(2, 1, |mpi| {
        let world = mpi.world();
        let lengths: Vec<usize> = (0..40).map(|n| LENGTHS[n * 7 % 4]).collect();
        if world.rank() == 0 {
            let data: Vec<_> =
                lengths.iter().zip(0..).map(|(&len, salt)| numbers(&message(len, salt))).collect();
            let mut requests: Vec<Request> =
                data.iter().map(|data| world.isend(data, 1, 5).unwrap()).collect();
            mpi.wait_all(&mut requests, &mut []).unwrap();
        } else {
            for (&len, salt) in lengths.iter().zip(0..) {
                let (source, tag) = if salt % 3 == 0 { (ANY_SOURCE, ANY_TAG) } else { (0, 5) };
                receive(&world, len, salt, source, tag);
            }
        }
    });
}

#[test]
fn p5_posted_receives_are_served_in_order_and_wildcards_take_what_comes_first() {
    run(3, 1, |mpi| {
        let world = mpi.world();
        match world.rank() {
            0 => {
                let data: Vec<_> = (0..4).map(|_| room(1)).collect();
                let wanted = [(ANY_SOURCE, 1), (2, ANY_TAG), (1, 1), (ANY_SOURCE, ANY_TAG)];
                let mut requests: Vec<Request> = data
                    .iter()
                    .zip(wanted)
                    .map(|(data, (source, tag))| world.irecv(data, source, tag).unwrap())
                    .collect();
                let mut statuses = [Status::EMPTY; 4];
                mpi.wait_all(&mut requests, &mut statuses).unwrap();
                let got: Vec<_> = data.iter().map(|data| values(data)[0]).collect();
                assert_eq!(got, [10, 20, 11, 12]);
                assert_eq!(
                    statuses.map(|status| (status.source, status.tag)),
                    [(1, 1), (2, 9), (1, 1), (1, 2)]
                );
            }
            1 => {
                for (value, tag) in [(10, 1), (11, 1), (12, 2)] {
                    world.send(&numbers(&[value]), 0, tag).unwrap();
                }
                world.send(&room(0), 2, 0).unwrap();
            }
            _ => {
                world.recv(&room(0), 1, 0).unwrap();
                world.send(&numbers(&[20u32]), 0, 9).unwrap();
            }
        }
    });
}

#[test]
fn p8_a_message_that_is_too_long_is_an_error_and_nothing_behind_the_room_is_touched() {
    run(2, 1, |mpi| {
        let world = mpi.world();
        for len in [2usize, 1000, 5000] {
            for late in [false, true] {
                if world.rank() == 0 {
                    let data = numbers(&message(len, 3));
                    let mut request = world.isend(&data, 1, 1).unwrap();
                    send(&world, 1, 4, 1, 2);
                    mpi.wait(&mut request).unwrap();
                } else {
                    if late {
                        world.probe(0, 2).unwrap();
                    }
                    let memory = numbers(&vec![0xabcd_u32; len]);
                    let data = memory.part(0, len - 1).unwrap();
                    let error = world.recv(&data, 0, 1).unwrap_err();
                    assert_eq!(error, Error::Truncate { len: 4 * len, room: 4 * (len - 1) });
                    assert_eq!(error.class(), Class::Truncate);
                    assert_eq!(values(&memory)[len - 1], 0xabcd);
                    receive(&world, 1, 4, 0, 2);
                }
            }
        }
    });
}

#[test]
fn p5_a_receive_is_cancelled_only_before_its_match() {
    run(2, 1, |mpi| {
        let world = mpi.world();
        if world.rank() == 0 {
            world.recv(&room(0), 1, 1).unwrap();
            send(&world, 1, 5, 1, 2);
            send(&world, 1, 6, 1, 3);
        } else {
            let (first, second) = (room(1), room(1));
            let mut cancelled = world.irecv(&first, 0, 2).unwrap();
            let mut other = world.irecv(&second, 0, 2).unwrap();
            mpi.cancel(&cancelled).unwrap();
            let status = mpi.wait(&mut cancelled).unwrap();
            assert!(status.cancelled && cancelled.is_null());
            send(&world, 0, 0, 0, 1);
            assert!(!mpi.wait(&mut other).unwrap().cancelled);
            assert_eq!((values(&first)[0], values(&second)), (0, message(1, 5)));
            let mut late = world.irecv(&first, 0, 3).unwrap();
            while mpi.request_get_status(&late).unwrap().is_none() {}
            mpi.cancel(&late).unwrap();
            assert!(!mpi.wait(&mut late).unwrap().cancelled);
            assert_eq!(mpi.cancel(&late), Err(Error::Request));
        }
    });
}

#[test]
fn p6_probes_tell_what_is_there_and_a_matched_one_keeps_it() {
    run(2, 1, |mpi| {
        let world = mpi.world();
        if world.rank() == 0 {
            send(&world, 3, 1, 1, 8);
            let data = numbers(&message(5000, 2));
            let mut request = world.isend(&data, 1, 8).unwrap();
            send(&world, 0, 0, 1, 9);
            mpi.wait(&mut request).unwrap();
        } else {
            world.probe(0, 9).unwrap();
            assert_eq!(world.iprobe(0, 7).unwrap(), None);
            let status = world.iprobe(ANY_SOURCE, 8).unwrap().unwrap();
            assert_eq!((status.source, status.tag, status.len), (0, 8, 12));
            let (first, status) = world.mprobe(0, 8).unwrap();
            assert_eq!(status.len, 12);
            let (second, status) = world.improbe(ANY_SOURCE, ANY_TAG).unwrap().unwrap();
            assert_eq!(status.len, 20000);
            assert_eq!(world.iprobe(0, 8).unwrap(), None);
            let data = room(5000);
            world.mrecv(&data, second).unwrap();
            assert_eq!(values(&data), message(5000, 2));
            let data = room(3);
            let mut request = world.imrecv(&data, first).unwrap();
            mpi.wait(&mut request).unwrap();
            assert_eq!(values(&data), message(3, 1));
            assert_eq!(world.imrecv(&data, first), Err(Error::Request));
            receive(&world, 0, 0, 0, 9);
        }
    });
}

#[test]
fn p4_nobody_is_a_partner_that_is_always_ready() {
    run(1, 1, |mpi| {
        let world = mpi.world();
        let data = room(2);
        world.send(&data, PROC_NULL, 0).unwrap();
        world.ssend(&data, PROC_NULL, 0).unwrap();
        let status = world.recv(&data, PROC_NULL, ANY_TAG).unwrap();
        assert_eq!((status.source, status.tag, status.len), (PROC_NULL, ANY_TAG, 0));
        assert_eq!(world.probe(PROC_NULL, 3).unwrap(), Status::NOBODY);
        let (message, _) = world.mprobe(PROC_NULL, 3).unwrap();
        assert_eq!(world.mrecv(&data, message).unwrap(), Status::NOBODY);
    });
}

#[test]
fn p5_a_synchronous_send_is_complete_once_a_receive_has_matched() {
    run(2, 2, |mpi| {
        let world = mpi.world();
        for len in LENGTHS {
            if world.rank() == 0 {
                let mut request = world.issend(&numbers(&message(len, 1)), 1, 1).unwrap();
                send(&world, 0, 0, 1, 2);
                // The other one receives only after this.
                assert_eq!(mpi.test(&mut request).unwrap(), None);
                send(&world, 0, 0, 1, 3);
                mpi.wait(&mut request).unwrap();
            } else {
                receive(&world, 0, 0, 0, 2);
                receive(&world, 0, 0, 0, 3);
                receive(&world, len, 1, 0, 1);
            }
        }
    });
}

#[test]
fn m6_mistakes_have_the_classes_of_the_standard() {
    run(1, 1, |mpi| {
        let (world, data) = (mpi.world(), room(1));
        assert_eq!(world.send(&data, 1, 0).unwrap_err().class(), Class::Rank);
        assert_eq!(world.send(&data, ANY_SOURCE, 0).unwrap_err().class(), Class::Rank);
        assert_eq!(world.send(&data, 0, -1).unwrap_err().class(), Class::Tag);
        assert_eq!(world.recv(&data, 3, 0).unwrap_err().class(), Class::Rank);
        assert_eq!(world.recv(&data, 0, -7).unwrap_err().class(), Class::Tag);
        assert_eq!(world.iprobe(-9, 0).unwrap_err().class(), Class::Rank);
        let mut request = world.irecv(&data, 0, 1).unwrap();
        let mut copy = request;
        mpi.cancel(&request).unwrap();
        mpi.wait(&mut request).unwrap();
        assert_eq!(mpi.wait(&mut copy).unwrap_err().class(), Class::Request);
        assert_eq!(mpi.wait(&mut request), Ok(Status::EMPTY));
    });
}

/// Two numbers: a word.
fn word(round: u32, salt: u32) -> Data {
    numbers(&[round, salt])
}

/// Tests a request until it is over.
fn tested(mpi: Library, request: &mut Request) -> Status {
    loop {
        if let Some(status) = mpi.test(request).unwrap() {
            return status;
        }
    }
}

#[test]
fn q4_a_word_that_ends_what_is_looked_at_tells_whose_it_is_and_leaves_no_request() {
    for per_node in [1, 2] {
        // What is not free again is missed soon.
        run_with(2, per_node, Settings { requests: 6, ..Settings::default() }, |mpi| {
            let world = mpi.world();
            let other = 1 - world.rank() as i32;
            // A persistent one stays, and can be started anew.
            let lasting = room(2);
            let mut again = world.recv_init(&lasting, ANY_SOURCE, 3).unwrap();
            for round in 0..60u32 {
                let into = [0; 3].map(|_| room(2));
                let wanted = [(other, 0), (ANY_SOURCE, 1), (other, ANY_TAG)];
                let freed = room(2);
                mpi.request_free(&mut world.irecv(&freed, other, 4).unwrap()).unwrap();
                mpi.start(&again).unwrap();
                let mut requests: Vec<_> =
                    (0..3).map(|n| world.irecv(&into[n], wanted[n].0, wanted[n].1).unwrap()).collect();
                world.barrier().unwrap();
                for tag in [4, 0, 1, 2, 3] {
                    world.send(&word(round, tag), other, tag as i32).unwrap();
                }
                // The first that is looked at is not always the first that ends.
                for n in (0..3).map(|n| (n + round as usize) % 3) {
                    let request = &mut requests[n];
                    let status =
                        if round % 2 == 0 { tested(mpi, request) } else { mpi.wait(request).unwrap() };
                    let told = (status.source, status.tag, status.len, status.cancelled, status.error);
                    assert_eq!(told, (other, n as i32, 8, false, None), "round {round}");
                    assert!(request.is_null());
                    assert_eq!(values(&into[n]), [round, n as u32]);
                }
                let status = tested(mpi, &mut again);
                assert_eq!((status.source, status.tag, again.is_null()), (other, 3, false));
                assert_eq!((values(&freed), values(&lasting)), (vec![round, 4], vec![round, 3]));
                world.barrier().unwrap();
            }
            mpi.request_free(&mut again).unwrap();
        });
    }
}
