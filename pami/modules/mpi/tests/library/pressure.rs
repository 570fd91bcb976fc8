//! What happens when there is little room: nothing is lost, and nothing that is allowed hangs.

use crate::scene::{numbers, room, run_with, values};
use mpi::{Class, Request, Settings};

fn tight() -> Settings {
    Settings { unexpected_bytes: 1024, unexpected_messages: 4, requests: 120, ..Settings::default() }
}

#[test]
fn a_hundred_unexpected_messages_are_received_from_the_last_to_the_first() {
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
fn senders_that_run_ahead_are_held_back_and_lose_nothing() {
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
fn without_requests_there_is_an_error_and_the_rest_goes_on() {
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
