//! Groups that threads use at the same time (SPEC G-1).

use crate::machine::machine_of;
use crate::tasks::{SMALL, TestLibrary, on_tasks};
use armci::{Error, GlobalAddress, Group, Library, Settings};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// After so long a test has hung.
const HANG_TIMEOUT: Duration = Duration::from_secs(100);

/// What a thread does with its own group again and again.
type Act = fn(&TestLibrary, &Group);

fn allocate(library: &TestLibrary, group: &Group) {
    let mut addresses = vec![GlobalAddress::default(); group.tasks() as usize];
    library.malloc(group, 64, &mut addresses).unwrap();
    for (index, address) in (0..).zip(&addresses) {
        assert_eq!(Some(address.task), group.task(index));
    }
    let own = addresses.into_iter().find(|address| address.task == library.task()).unwrap();
    library.free(group, own).unwrap();
}

/// Thread `number` of `threads` of a task: at each task another of them comes first to its collectives.
fn take_turns(library: TestLibrary, number: u32, threads: u32, act: Act) {
    let group = library.group(1 + number, 0, library.tasks(), 1).unwrap();
    for round in 0..20 {
        if (number + library.task() + round).is_multiple_of(threads) {
            thread::sleep(Duration::from_millis(2));
        }
        act(&library, &group);
    }
    library.end_group(group).unwrap();
}

fn run(threads: u32, act: Act) {
    let (ended, ends) = channel();
    let nodes = machine_of(2, 1);
    for node in &nodes {
        let (node, ended): (_, Sender<()>) = (*node, ended.clone());
        thread::spawn(move || {
            let library = Library::init(node, Settings { allocations: 16, ..SMALL }).unwrap();
            thread::scope(|scope| {
                for number in 0..threads {
                    scope.spawn(move || take_turns(library, number, threads, act));
                }
            });
            library.finalize().unwrap();
            ended.send(()).unwrap();
        });
    }
    for _ in nodes {
        ends.recv_timeout(HANG_TIMEOUT).expect("tasks wait for each other for ever");
    }
}

#[test]
fn r4_threads_meet_in_their_own_groups_in_any_order() {
    for threads in [2, 7] {
        run(threads, |library, group| library.barrier(group).unwrap());
    }
}

#[test]
fn r4_threads_allocate_in_their_own_groups_in_any_order() {
    for threads in [2, 3] {
        run(threads, allocate);
    }
}

#[test]
fn r4_a_task_with_too_few_places_for_addresses_is_an_error_at_all() {
    on_tasks(3, 1, SMALL, |library| {
        let places = if library.task() == 1 { 2 } else { 3 };
        let mut addresses = vec![GlobalAddress::default(); places];
        let world = library.world();
        let outcome = library.malloc(&world, 64, &mut addresses);
        assert_eq!(outcome, Err(Error::Addresses { given: 2, wanted: 3 }));
        // Nothing of it stays allocated: there is room for as many as ever.
        let mut addresses = [GlobalAddress::default(); 3];
        for _ in 0..8 {
            library.malloc(&world, 64, &mut addresses).unwrap();
        }
    });
}
