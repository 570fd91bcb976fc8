//! The end: of nodes, of the library.

use crate::machine::Step;
use crate::scene::{await_flag, numbers, room, run, run_tasks, values};
use mpi::{ANY_SOURCE, Class, Error, Mpi, Settings, Threads};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[test]
fn r2_what_waits_for_a_dead_node_ends_with_its_name() {
    run_tasks(3, 1, Settings::default(), Threads::Single, |mpi| {
        let world = mpi.world();
        // Nobody dies in the middle of init.
        if world.rank() > 0 {
            world.send(&room(0), 0, 0).unwrap();
        }
        if world.rank() == 2 {
            return;
        }
        if world.rank() == 0 {
            let data = room(1);
            for rank in [1, 2] {
                world.recv(&room(0), rank, 0).unwrap();
            }
            let mut requests = [
                world.irecv(&data, 2, 1).unwrap(),
                world.irecv(&room(1), ANY_SOURCE, 2).unwrap(),
                world.issend(&data, 2, 3).unwrap(),
            ];
            mpi.node().world.kill(2);
            for request in &mut requests {
                assert_eq!(mpi.wait(request).unwrap_err(), Error::NodeDead(2));
            }
            assert_eq!(world.send(&data, 2, 1).unwrap_err().class(), Class::ProcAborted);
            // The living go on.
            world.send(&numbers(&[1u32]), 1, 4).unwrap();
        } else {
            world.recv(&room(1), 0, 4).unwrap();
        }
    });
}

#[test]
fn r2_half_a_message_of_a_dead_node_ends_its_own_receive_and_touches_no_other() {
    const LEN: usize = 300;
    let (still, sent) = (AtomicBool::new(false), AtomicBool::new(false));
    run_tasks(3, 1, Settings::default(), Threads::Single, move |mpi| {
        let (world, machine) = (mpi.world(), mpi.node().world);
        // Nobody dies in the middle of init.
        if world.rank() > 0 {
            world.send(&room(0), 0, 9).unwrap();
        }
        if world.rank() == 1 {
            await_flag(&still);
            world.isend(&numbers(&[7u32; LEN]), 0, 0).unwrap();
            sent.store(true, SeqCst);
        }
        if world.rank() > 0 {
            return;
        }
        for rank in [1, 2] {
            world.recv(&room(0), rank, 9).unwrap();
        }
        machine.stepped();
        still.store(true, SeqCst);
        await_flag(&sent);
        let first = |step: &Step| matches!(step, Step::Send((_, 1, _)));
        let mut state = machine.lock();
        let step = state.steps().into_iter().find(first).unwrap();
        state.step(step);
        drop(state);
        assert!(world.iprobe(1, 0).unwrap().is_some());
        let data = room(LEN);
        let mut request = world.irecv(&data, 1, 0).unwrap();
        // While all is done that another node's death makes for, its own node dies.
        machine.kill(2);
        assert_eq!(mpi.test(&mut request), Ok(None));
        machine.lock().dies_driven = Some(1);
        let outcome = (0..20).map(|_| mpi.test(&mut request)).find(|outcome| *outcome != Ok(None));
        assert_eq!((outcome, machine.lock().dies_driven), (Some(Err(Error::NodeDead(1))), None));
        // This one may have its place in the table.
        let data = room(LEN);
        let mut request = world.irecv(&data, 0, 1).unwrap();
        (0..20).for_each(|_| assert_eq!(mpi.test(&mut request), Ok(None)));
        assert_eq!(values(&data), [0; LEN]);
        world.isend(&numbers(&[8u32; LEN]), 0, 1).unwrap();
        mpi.wait(&mut request).unwrap();
        assert_eq!(values(&data), [8; LEN]);
    });
}

#[test]
fn m4_settings_are_the_instances_own() {
    run(1, 1, |mpi| {
        let settings = Settings { name: "other", eager_limit: 77, ..Settings::default() };
        let other = Mpi::init_thread(mpi.node(), settings, Threads::Single).unwrap();
        other.set(mpi::Setting::EagerLimit(99));
        assert_eq!((other.settings().eager_limit, mpi.settings()), (99, Settings::default()));
        let request = other.world().irecv(&room(1), 0, 0).unwrap();
        assert_eq!(other.finalize(), Err(Error::Unfinished { what: "requests", count: 1 }));
        other.cancel(&request).unwrap();
        other.wait(&mut request.clone()).unwrap();
        other.finalize().unwrap();
        assert!(other.finalized() && !mpi.finalized());
        assert_eq!(other.world().send(&room(1), 0, 0), Err(Error::Finalized));
        mpi.world().dup().unwrap().free().unwrap();
    });
}
