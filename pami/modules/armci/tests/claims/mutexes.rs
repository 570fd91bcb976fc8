//! Mutexes: exclusion, fairness, mistakes.

use crate::machine::{Step, World, buffer, filled, machine_of};
use crate::tasks::{SMALL, barrier, got, malloc, on_tasks};
use crate::threads::on_nodes;
use armci::{Error, Library, Local, Settings};
use pami::device::Arrival;
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::Kind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;

#[test]
fn p7_a_mutex_keeps_others_out_and_what_is_fenced_under_it_is_seen() {
    const ROUNDS: u32 = 30;
    for (tasks, per_node) in [(4, 1), (4, 4), (3, 2)] {
        let inside = [const { AtomicBool::new(false) }; 2];
        on_tasks(tasks, per_node, SMALL, |library| {
            let mine = malloc(&library, 64);
            library.create_mutexes(library.task() % 3).unwrap();
            if library.task() == 0 {
                library.slab().unwrap().write(mine[0].offset as usize, &[0; 16]).unwrap();
            }
            barrier(&library);
            for round in 0..ROUNDS {
                // Task 2 has two mutexes, each guards a number in the slab of task 0.
                let mutex = (round + library.task()) % 2;
                let number = mine[0].checked_add(8 * mutex).unwrap();
                let held = library.lock(mutex, 2).unwrap();
                assert!(!inside[mutex as usize].swap(true, SeqCst));
                let old = u64::from_le_bytes(got(&library, number, 8).unwrap().try_into().unwrap());
                let new = filled(&(old + 1).to_le_bytes()).share();
                library.put(Local::new(&new, 0), number, 8).unwrap();
                library.fence(0).unwrap();
                assert!(inside[mutex as usize].swap(false, SeqCst));
                library.unlock(held).unwrap();
            }
            barrier(&library);
            let sums = got(&library, mine[0], 16).unwrap();
            let sum: u64 = sums.chunks(8).map(|sum| u64::from_le_bytes(sum.try_into().unwrap())).sum();
            assert_eq!(sum, u64::from(tasks * ROUNDS));
            library.destroy_mutexes().unwrap();
        });
    }
}

#[test]
fn p7_mutexes_are_given_in_the_order_of_asking() {
    // Tasks ask one after the other while task 0 holds it; the owner is task 4.
    let (asked, order) = (AtomicU32::new(0), AtomicU32::new(0));
    on_tasks(5, 1, SMALL, |library| {
        library.create_mutexes(1).unwrap();
        let task = library.task();
        if task == 0 {
            let held = library.lock(0, 4).unwrap();
            asked.store(1, SeqCst);
            while asked.load(SeqCst) < 4 {
                library.progress();
                std::thread::yield_now();
            }
            // Behind the request of the last, which was sent by then.
            for _ in 0..1000 {
                library.progress();
                std::thread::yield_now();
                thread::yield_now();
            }
            library.unlock(held).unwrap();
        } else if task < 4 {
            while asked.load(SeqCst) < task {
                library.progress();
                std::thread::yield_now();
            }
            // The next is let in a good while behind the request.
            thread::scope(|scope| {
                scope.spawn(|| {
                    (0..2000).for_each(|_| thread::yield_now());
                    asked.fetch_add(1, SeqCst);
                });
                let held = library.lock(0, 4).unwrap();
                assert_eq!(order.fetch_add(1, SeqCst), task - 1);
                library.unlock(held).unwrap();
            });
        }
        barrier(&library);
    });
}

#[test]
fn r8_a_mutex_that_does_not_exist_is_refused_by_its_owner() {
    on_tasks(2, 1, SMALL, |library| {
        assert_eq!(library.lock(0, 1), Err(Error::NoMutex { task: 1, mutex: 0 }));
        let too_many = library.create_mutexes(SMALL.mutexes + library.task());
        assert_eq!(too_many.is_err(), library.task() > 0);
        assert_eq!(library.lock(4, 0), Err(Error::NoMutex { task: 0, mutex: 4 }));
        assert_eq!(library.lock(0, 2), Err(Error::Task(2)));
        let held = (library.task() == 1).then(|| library.lock(3, 0).unwrap());
        barrier(&library);
        let destroyed = library.destroy_mutexes();
        assert_eq!(destroyed, if library.task() == 0 { Err(Error::MutexHeld(3)) } else { Ok(()) });
        assert_eq!(library.create_mutexes(1).is_err(), library.task() == 0);
        if let Some(held) = held {
            library.unlock(held).unwrap();
        }
        library.destroy_mutexes().unwrap();
        assert_eq!(library.lock(3, 0), Err(Error::NoMutex { task: 0, mutex: 3 }));
    });
}

/// Moves packets by steps, but keeps task 1's signal of a barrier back until another packet is behind it: then task 0 gets both
/// at once. `entered` is set when task 0 is in the barrier.
fn hold_back_a_signal(world: &World, entered: &AtomicBool) {
    loop {
        let mut state = world.lock();
        for step in state.steps() {
            let Step::Send((client, task, context)) = step else {
                state.step(step);
                continue;
            };
            let port = Endpoint::from_parts(ClientId(client), task, ContextOffset(context));
            let queue = &state.port(port).injection;
            let (packets, is_signal) = (queue.len(), queue[0].packet.envelope().kind == Kind::Collective);
            if task == 1 && is_signal {
                if packets > 1 {
                    state.step(step);
                    state.step(step);
                    state.stepped = false;
                    return;
                }
            } else {
                state.step(step);
                entered.fetch_or(is_signal, SeqCst);
            }
        }
        drop(state);
        thread::yield_now();
    }
}

#[test]
fn m6_a_mutex_is_refused_by_an_owner_that_has_yet_to_leave_the_barrier_before_its_destruction() {
    let (stepped, entered) = (Barrier::new(2), AtomicBool::new(false));
    on_nodes(machine_of(2, 1), |node| {
        let library = Library::init(node, SMALL).unwrap();
        library.create_mutexes(1).unwrap();
        stepped.wait();
        if library.task() == 0 {
            stepped.wait();
            assert_eq!(library.destroy_mutexes(), Ok(()));
        } else {
            node.world.stepped();
            stepped.wait();
            thread::scope(|scope| {
                scope.spawn(|| hold_back_a_signal(node.world, &entered));
                while !entered.load(SeqCst) {
                    library.progress();
                    thread::yield_now();
                }
                assert_eq!(library.destroy_mutexes(), Ok(()));
                assert_eq!(library.lock(0, 0), Err(Error::NoMutex { task: 0, mutex: 0 }));
            });
        }
        library.finalize().unwrap();
    });
}

#[test]
fn p3_a_mutex_that_was_unlocked_on_another_context_is_free_when_mutexes_are_destroyed() {
    let over = AtomicBool::new(false);
    // What task 1 sends on context 1 goes when nothing else has moved for long.
    let hold_back = |world: &World| {
        let mut still = 0;
        while !over.load(SeqCst) {
            let mut state = world.lock();
            for step in state.steps() {
                if matches!(step, Step::Send((_, 1, 1))) && still < 10_000 {
                    continue;
                }
                state.step(step);
                still = 0;
            }
            still += 1;
            drop(state);
            thread::yield_now();
        }
        world.lock().stepped = false;
    };
    on_nodes(machine_of(2, 1), |node| {
        let library = Library::init(node, Settings { contexts: 2, ..SMALL }).unwrap();
        library.create_mutexes(1).unwrap();
        if library.task() == 0 {
            assert_eq!(library.destroy_mutexes(), Ok(()));
        } else {
            let on = library.on_context(1).unwrap();
            let held = on.lock(0, 0).unwrap();
            node.world.stepped();
            on.unlock(held).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| hold_back(node.world));
                assert_eq!(library.destroy_mutexes(), Ok(()));
                over.store(true, SeqCst);
            });
        }
        library.finalize().unwrap();
    });
}

#[test]
fn p3_threads_with_contexts_of_their_own_wait_for_each_other() {
    const ROUNDS: u32 = 40;
    let settings = Settings { contexts: 2, ..SMALL };
    let (inside, left) = (AtomicBool::new(false), AtomicU32::new(4));
    on_tasks(2, 1, settings, |library| {
        library.create_mutexes(1).unwrap();
        assert_eq!(library.on_context(2).err(), Some(Error::Context { context: 2, contexts: 2 }));
        let counter = malloc(&library, 64)[0];
        library.slab().unwrap().write(counter.offset as usize, &[0; 64]).unwrap();
        barrier(&library);
        let work = |context| {
            let library = library.on_context(context).unwrap();
            let into = buffer(8).share();
            for _ in 0..ROUNDS {
                let held = library.lock(0, 1).unwrap();
                assert!(!inside.swap(true, SeqCst));
                library.get(counter, Local::new(&into, 0), 8).unwrap();
                let mut word = [0; 8];
                into.read(0, &mut word).unwrap();
                into.write(0, &(u64::from_le_bytes(word) + 1).to_le_bytes()).unwrap();
                library.put(Local::new(&into, 0), counter, 8).unwrap();
                library.fence(0).unwrap();
                assert!(inside.swap(false, SeqCst));
                library.unlock(held).unwrap();
            }
            left.fetch_sub(1, SeqCst);
            // The other task's threads want answers until they are through as well.
            while left.load(SeqCst) > 0 {
                library.progress();
                std::thread::yield_now();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| work(1));
            work(0);
        });
        assert_eq!(got(&library, counter, 8).unwrap(), u64::from(4 * ROUNDS).to_le_bytes());
        barrier(&library);
    });
}
