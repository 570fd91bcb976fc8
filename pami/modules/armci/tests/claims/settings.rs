//! Settings, life and end of an instance (SPEC M-4, P-1, P-3, N-8).

use crate::machine::{filled, machine_of};
use crate::tasks::{SMALL, TestLibrary, barrier, got, malloc, on_tasks, own_bytes};
use crate::threads::on_nodes;
use armci::{Error, GlobalAddress, Library, Local, Scale, Settings, Split, Wait};
use pami::{ClientError, OperationError, Sharing};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn m4_two_instances_keep_their_settings_apart_and_one_outlives_the_other() {
    on_nodes(machine_of(2, 1), |node| {
        let second = Settings {
            client: "second",
            contexts: 2,
            sharing: Sharing::Shared,
            wait: Wait::Interrupt,
            handles: 9,
            slab: 1024,
            ..SMALL
        };
        let a = Library::init(node, SMALL).unwrap();
        let b = Library::init(node, second).unwrap();
        assert_eq!(Library::init(node, SMALL).err(), Some(Error::Client(ClientError::NameTaken)));
        b.set_wait(Wait::Poll(3)).unwrap();
        b.set_handles(5).unwrap();
        b.set_accumulate(Split::OriginOnly).unwrap();
        assert_eq!(a.settings(), SMALL);
        let changed = Settings { wait: Wait::Poll(3), handles: 5, accumulate: Split::OriginOnly, ..second };
        assert_eq!(b.settings(), changed);
        assert!(b.set_handles(10).is_err());
        let (there, here) = (malloc(&a, 1000), malloc(&b, 1000));
        let other = 1 - a.task() as usize;
        let (ones, twos) = (filled(&[1; 800]).share(), filled(&[2; 800]).share());
        let handle = a.put_nb(Local::new(&ones, 0), there[other], 800).unwrap();
        b.put(Local::new(&twos, 0), here[other], 800).unwrap();
        a.wait(handle).unwrap();
        assert_eq!(got(&a, there[other], 800).unwrap(), [1; 800]);
        assert_eq!(got(&b, here[other], 800).unwrap(), [2; 800]);
        a.finalize().unwrap();
        assert_eq!(a.put(Local::new(&ones, 0), there[other], 8), Err(Error::Finalized));
        assert_eq!(a.slab().err(), Some(Error::Finalized));
        assert_eq!(a.finalize(), Err(Error::Finalized));
        b.accumulate(Scale::I64(1), Local::new(&twos, 0), here[other], 800).unwrap();
        assert_eq!(got(&b, here[other], 800).unwrap(), [4; 800]);
        // The name is free again.
        let again = Library::init(node, SMALL).unwrap();
        barrier(&again);
        again.finalize().unwrap();
        b.finalize().unwrap();
        assert_eq!(b.set_accumulate(Split::Advice), Err(Error::Finalized));
    });
}

#[test]
fn m4_settings_that_cannot_be_are_refused_by_name() {
    let node = machine_of(1, 1)[0];
    let refused = |settings| match Library::init(node, settings) {
        Err(Error::Setting(name, _)) => name,
        other => panic!("{:?}", other.err()),
    };
    assert_eq!(refused(Settings { slab: 0, ..SMALL }), "slab");
    assert_eq!(refused(Settings { slab: u32::MAX, ..SMALL }), "slab");
    assert_eq!(refused(Settings { handles: 0, ..SMALL }), "handles");
    let contexts = Library::init(node, Settings { contexts: 200, ..SMALL });
    assert!(matches!(contexts.err(), Some(Error::Client(ClientError::Exhausted { what: "contexts", .. }))));
    // Nothing of it stays.
    let library = Library::init(node, SMALL).unwrap();
    library.finalize().unwrap();
}

#[test]
fn n8_tasks_that_sleep_at_once_wake_up_for_what_comes() {
    on_tasks(3, 1, Settings { wait: Wait::Interrupt, ..SMALL }, |library| {
        let mine = malloc(&library, 64);
        for round in 0..20u32 {
            let (next, word) = (mine[(library.task() as usize + 1) % 3], round.to_le_bytes());
            library.put(Local::new(&filled(&word).share(), 0), next, 4).unwrap();
            barrier(&library);
            assert_eq!(got(&library, mine[library.task() as usize], 4).unwrap(), word);
            barrier(&library);
        }
    });
}

#[test]
fn p2_threads_take_turns_on_one_context() {
    on_tasks(2, 1, SMALL, |library| {
        let mine = malloc(&library, 256);
        let other = mine[1 - library.task() as usize];
        thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    let to = other.checked_add(64 * u32::from(thread)).unwrap();
                    for round in 0..30 {
                        let bytes = [thread ^ round; 64];
                        library.put(Local::new(&filled(&bytes).share(), 0), to, 64).unwrap();
                        assert_eq!(got(&library, to, 64).unwrap(), bytes);
                    }
                });
            }
        });
        barrier(&library);
    });
}

/// Waits for so many tasks, without a message.
fn meet(library: &TestLibrary, here: &AtomicU32, tasks: u32) {
    here.fetch_add(1, SeqCst);
    while here.load(SeqCst) < tasks {
        library.progress();
        std::thread::yield_now();
    }
}

#[test]
fn d8_a_dead_node_is_an_error_and_no_hang() {
    let (all, living) = (AtomicU32::new(0), AtomicU32::new(0));
    on_nodes(machine_of(3, 1), |node| {
        let library = Library::init(node, SMALL).unwrap();
        library.create_mutexes(1).unwrap();
        meet(&library, &all, 3);
        if library.task() == 2 {
            node.world.kill(2);
            return;
        }
        while !matches!(library.fence(2), Err(Error::Send(_) | Error::Operation(_))) {}
        let to = GlobalAddress { task: 2, offset: 0 };
        let source = filled(&[1; 64]).share();
        assert!(library.put(Local::new(&source, 0), to, 64).is_err());
        assert!(library.accumulate(Scale::I64(1), Local::new(&source, 0), to, 64).is_err());
        assert!(got(&library, to, 64).is_err() && library.fetch_and_add(to, 1i32).is_err());
        assert!(library.lock(0, 2).is_err() && library.all_fence().is_err());
        // The living go on.
        let held = library.lock(0, 1).unwrap();
        library.unlock(held).unwrap();
        library.fence(1).unwrap();
        meet(&library, &living, 2);
        assert_eq!(library.finalize(), Err(Error::Operation(OperationError::NodeDead(2))));
    });
}

#[test]
fn f5_a_fence_of_all_tasks_is_one_operation_on_the_context_that_it_is_called_on() {
    const TASKS: u32 = 3;
    let (here, over) = (AtomicU32::new(0), AtomicU32::new(0));
    on_nodes(machine_of(TASKS, 1), |node| {
        let settings = Settings { contexts: 2, ..SMALL };
        let library = Library::init(node, settings).unwrap();
        library.barrier(&library.world()).unwrap();
        meet(&library, &here, TASKS);
        if library.task() == 0 {
            let before = node.world.fences_of(0);
            library.on_context(1).unwrap().all_fence().unwrap();
            let fences = node.world.fences_of(0);
            let new: Vec<_> = fences.iter().filter(|fence| !before.contains_key(fence.0)).collect();
            assert_eq!(new.len(), 1, "{new:?}");
            assert_eq!((new[0].0.0, new[0].1.as_slice()), (1, &[(1, 1), (2, 1)][..]));
        }
        meet(&library, &over, TASKS);
        library.finalize().unwrap();
    });
}

#[test]
fn f5_d5_a_fence_behind_puts_alone_needs_nothing_of_the_targets_threads() {
    let (ready, fenced) = (AtomicU32::new(0), AtomicU32::new(0));
    on_nodes(machine_of(2, 1), |node| {
        let library = Library::init(node, SMALL).unwrap();
        let mine = malloc(&library, 64);
        meet(&library, &ready, 2);
        if library.task() == 0 {
            library.put(Local::new(&filled(&[7; 64]).share(), 0), mine[1], 64).unwrap();
            library.fence(1).unwrap();
            fenced.fetch_add(1, SeqCst);
        } else {
            // Without a call. One that is needed is made in the end, so that the test fails and does not hang.
            let started = Instant::now();
            while fenced.load(SeqCst) == 0 && started.elapsed() < Duration::from_secs(60) {
                thread::yield_now();
            }
            assert_eq!((fenced.load(SeqCst), own_bytes(&library, mine[1], 64)), (1, vec![7; 64]));
        }
        library.finalize().unwrap();
    });
}
