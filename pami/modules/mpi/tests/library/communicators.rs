//! Communicators: worlds of their own, agreed on by all that are in them.

use crate::scene::{Comm, numbers, room, run, run_threads, run_with, values};
use mpi::{Class, Comparison, Copying, Error, Keyval, Op, Settings, Threads, UNDEFINED};
use std::sync::Mutex;

fn two_contexts() -> Settings {
    Settings { contexts: 2, ..Settings::default() }
}

fn sum(comm: &Comm, value: u32) -> u32 {
    let into = room(1);
    comm.allreduce(&numbers(&[value]), &into, Op::Sum).unwrap();
    values(&into)[0]
}

#[test]
fn g1_a_duplicate_is_a_world_of_its_own() {
    run_with(3, 1, two_contexts(), |mpi| {
        let world = mpi.world();
        let twin = world.dup().unwrap();
        assert_eq!(world.compare(&twin), Ok(Comparison::Congruent));
        assert_eq!((twin.rank(), twin.size()), (world.rank(), 3));
        let (next, before) = ((world.rank() as i32 + 1) % 3, (world.rank() as i32 + 2) % 3);
        let mut sends = [
            twin.isend(&numbers(&[2u32]), next, 1).unwrap(),
            world.isend(&numbers(&[1u32]), next, 1).unwrap(),
        ];
        let (a, b) = (room(1), room(1));
        world.recv(&a, before, 1).unwrap();
        twin.recv(&b, before, 1).unwrap();
        assert_eq!((values(&a), values(&b)), (vec![1], vec![2]));
        mpi.wait_all(&mut sends, &mut []).unwrap();
        assert_eq!(sum(&twin, 1), 3);
        twin.free().unwrap();
        assert_eq!(twin.free().unwrap_err().class(), Class::Comm);
        assert_eq!(world.free().unwrap_err().class(), Class::Comm);
        // Its place has another then, of which the old handle knows nothing.
        let heir = world.dup().unwrap();
        let (sent, received) = (twin.isend(&numbers(&[3]), next, 1), twin.irecv(&a, before, 1));
        assert_eq!([sent, received].map(|call| call.unwrap_err().class()), [Class::Comm; 2]);
        assert_eq!(sum(&heir, 1), 3);
    });
}

#[test]
fn g1_a_split_orders_by_key_and_then_by_rank() {
    run_with(7, 2, two_contexts(), |mpi| {
        let world = mpi.world();
        let rank = world.rank();
        let part = world.split(rank as i32 % 2, if rank < 3 { 5 } else { 1 }).unwrap().unwrap();
        // Of 0 2 4 6 the keys are 5 5 1 1; of 1 3 5 they are 5 1 1.
        let order: &[u32] = if rank.is_multiple_of(2) { &[4, 6, 0, 2] } else { &[3, 5, 1] };
        assert_eq!(part.size() as usize, order.len());
        assert_eq!(order[part.rank() as usize], rank);
        assert_eq!(sum(&part, rank), order.iter().sum::<u32>());
        let none = part.split(UNDEFINED, 0).unwrap();
        assert!(none.is_none());
        part.free().unwrap();
    });
}

#[test]
fn g1_groups_make_communicators_with_or_without_the_others() {
    run(5, 1, |mpi| {
        let world = mpi.world();
        let group = mpi.group_incl(&world.group().unwrap(), &[4, 0, 2]).unwrap();
        let made = world.create(&group).unwrap();
        assert_eq!(made.map(|made| made.rank()), mpi.group_rank(&group));
        let Some(made) = made else { return };
        assert_eq!(sum(&made, world.rank()), 6);
        let again = world.create_group(&group, 1).unwrap().unwrap();
        assert_eq!(again.compare(&made), Ok(Comparison::Congruent));
        again.free().unwrap();
        made.free().unwrap();
    });
}

#[test]
fn p11_numbers_and_places_of_communicators_are_used_again() {
    run_with(2, 1, Settings { communicators: 5, ..two_contexts() }, |mpi| {
        let world = mpi.world();
        for round in 0..40 {
            let twins: Vec<Comm> = (0..3).map(|_| world.dup().unwrap()).collect();
            for twin in twins {
                assert_eq!(sum(&twin, round), 2 * round);
                twin.free().unwrap();
            }
        }
        // Self and the world have places as well.
        let mut twins: Vec<Comm> = (0..3).map(|_| world.dup().unwrap()).collect();
        let full = loop {
            match world.dup() {
                Ok(twin) => twins.push(twin),
                Err(error) => break error,
            }
        };
        assert_eq!(full.class(), Class::NoMem);
        for twin in twins {
            twin.free().unwrap();
        }
    });
}

#[test]
fn g1_threads_make_communicators_of_different_parents_at_once() {
    run_threads(2, 1, two_contexts(), Threads::Multiple, |mpi| {
        let parents = [mpi.world().dup().unwrap(), mpi.world().dup().unwrap()];
        std::thread::scope(|scope| {
            for parent in parents {
                scope.spawn(move || {
                    for round in 0..10 {
                        let child = parent.dup().unwrap();
                        assert_eq!(sum(&child, round), 2 * round);
                        child.free().unwrap();
                    }
                });
            }
        });
        for parent in parents {
            parent.free().unwrap();
        }
    });
}

#[test]
fn p3_threads_share_a_communicator_and_even_its_context() {
    run_threads(2, 1, Settings::default(), Threads::Multiple, |mpi| {
        let world = mpi.world();
        let other = 1 - world.rank() as i32;
        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || {
                    for round in 0..20u32 {
                        let (out, into) = (numbers(&[round * 3 + thread]), room(1));
                        world.sendrecv(&out, other, thread as i32, &into, other, thread as i32).unwrap();
                        assert_eq!(values(&into), [round * 3 + thread]);
                    }
                });
            }
        });
    });
}

#[test]
fn m6_attributes_are_copied_and_deleted_as_their_keys_say() {
    run(1, 1, |mpi| {
        let world = mpi.world();
        let copied = mpi.create_keyval(Copying::Same, None, 0).unwrap();
        let mut stays = mpi.create_keyval(Copying::Never, None, 0).unwrap();
        world.set_attr(copied, 5).unwrap();
        world.set_attr(stays, 6).unwrap();
        let twin = world.dup().unwrap();
        assert_eq!((twin.get_attr(copied), twin.get_attr(stays)), (Ok(Some(5)), Ok(None)));
        assert_eq!(world.get_attr(Keyval::TAG_UB), Ok(Some(i32::MAX as usize)));
        assert_eq!(world.set_attr(Keyval::TAG_UB, 1).unwrap_err().class(), Class::Keyval);
        let old = stays;
        mpi.free_keyval(&mut stays).unwrap();
        assert_eq!((stays, world.get_attr(old)), (Keyval::INVALID, Ok(Some(6))));
        world.delete_attr(old).unwrap();
        assert_eq!(world.get_attr(old).unwrap_err().class(), Class::Keyval);
        twin.free().unwrap();
    });
}

#[test]
fn m6_what_a_delete_function_is_handed_behind_a_dup_that_failed_is_no_communicator() {
    run(1, 1, |mpi| {
        let (world, outcomes) = (mpi.world(), &*Box::leak(Box::new(Mutex::new(Vec::new()))));
        let fails = Box::leak(Box::new(|_, _, _, _| Err(7)));
        let sends = Box::leak(Box::new(move |comm: Comm, _, _, _| {
            if comm == world {
                return Ok(());
            }
            let (sent, received) = (comm.isend(&numbers(&[3u32]), 0, 1), comm.irecv(&room(1), 0, 1));
            outcomes.lock().unwrap().push([sent.err(), received.err()]);
            Ok(())
        }));
        // The latest is copied first, and deleted when the next one fails.
        let failing = mpi.create_keyval(Copying::With(fails), None, 0).unwrap();
        let copied = mpi.create_keyval(Copying::Same, Some(sends), 0).unwrap();
        world.set_attr(failing, 5).unwrap();
        world.set_attr(copied, 6).unwrap();
        for _ in 0..2 {
            assert_eq!(world.dup().err(), Some(Error::Callback(7)));
        }
        assert_eq!(*outcomes.lock().unwrap(), [[Some(Error::Comm); 2]; 2]);
        assert_eq!(world.iprobe(0, 1), Ok(None));
        world.delete_attr(failing).unwrap();
        world.delete_attr(copied).unwrap();
    });
}
