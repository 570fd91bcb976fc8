//! The end: of nodes, of the library.

use crate::scene::{numbers, room, run, run_tasks};
use mpi::{ANY_SOURCE, Class, Error, Mpi, Settings, Threads};

#[test]
fn what_waits_for_a_dead_node_ends_with_its_name() {
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
