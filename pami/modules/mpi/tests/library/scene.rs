//! Tasks that run the same function, as a job does.

use crate::machine::{TestNode, World, buffer, machine_of};
use mpi::{Communicator, Data, Mpi, Native, Settings, Threads};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

pub type Library = Mpi<TestNode>;
pub type Comm = Communicator<TestNode>;

/// After so long a test has hung.
const HANG_TIMEOUT: Duration = Duration::from_secs(100);

/// Runs `task` in so many tasks, so many of them on each node.
pub fn run(tasks: u32, per_node: u32, task: impl Fn(Library) + Send + Sync + 'static) {
    run_with(tasks, per_node, Settings::default(), task);
}

/// As [`run`], with settings.
pub fn run_with(
    tasks: u32,
    per_node: u32,
    settings: Settings,
    task: impl Fn(Library) + Send + Sync + 'static,
) {
    run_threads(tasks, per_node, settings, Threads::Single, task);
}

/// As [`run_with`], with a level of thread support.
pub fn run_threads(
    tasks: u32,
    per_node: u32,
    settings: Settings,
    threads: Threads,
    task: impl Fn(Library) + Send + Sync + 'static,
) {
    run_tasks(tasks, per_node, settings, threads, move |library| {
        task(library);
        library.finalize().unwrap();
    });
}

/// As [`run_with`], with settings of each rank's own, with and without a tree network.
pub fn run_each(
    tasks: u32,
    per_node: u32,
    settings: impl Fn(u32) -> Settings + Clone + Send + Sync + 'static,
    task: impl Fn(Library) + Send + Sync + 'static,
) {
    let task: &'static _ = Box::leak(Box::new(task));
    for tree in [false, true] {
        run_all((tasks, per_node, tree), settings.clone(), Threads::Single, move |library, _| {
            task(library);
            library.finalize().unwrap();
        });
    }
}

/// As [`run_threads`], of tasks that do not all come to an end together.
pub fn run_tasks(
    tasks: u32,
    per_node: u32,
    settings: Settings,
    threads: Threads,
    task: impl Fn(Library) + Send + Sync + 'static,
) {
    run_all((tasks, per_node, false), move |_| settings, threads, move |library, _| task(library));
}

/// As [`run_with`], of tasks that may change the world.
pub fn run_in(
    tasks: u32,
    per_node: u32,
    settings: Settings,
    task: impl Fn(Library, &World) + Send + Sync + 'static,
) {
    run_all(
        (tasks, per_node, false),
        move |_| settings,
        Threads::Single,
        move |library, world| {
            task(library, world);
            library.finalize().unwrap();
        },
    );
}

fn run_all(
    (tasks, per_node, tree): (u32, u32, bool),
    settings: impl Fn(u32) -> Settings + Send + Sync + 'static,
    threads: Threads,
    task: impl Fn(Library, &World) + Send + Sync + 'static,
) {
    let settings: &'static _ = Box::leak(Box::new(settings));
    let task: &'static _ = Box::leak(Box::new(task));
    let (ended, ends) = mpsc::channel();
    let nodes = machine_of(tasks, per_node);
    if tree {
        nodes[0].world.plant();
    }
    for node in nodes {
        let ended = ended.clone();
        thread::spawn(move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let library = Mpi::init_thread(node, settings(node.task), threads).unwrap();
                task(library, node.world);
            }));
            let _ = ended.send(outcome.is_ok());
        });
    }
    for _ in 0..tasks {
        assert!(ends.recv_timeout(HANG_TIMEOUT).expect("a task hangs"), "a task failed");
    }
}

/// Waits for another task without a call of the library's.
pub fn await_flag(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        thread::yield_now();
    }
}

/// Data that holds these numbers.
pub fn numbers<T: Native>(values: &[T]) -> Data {
    let memory = buffer(size_of_val(values)).share();
    let data = Data::all::<T>(&memory);
    data.write(values).unwrap();
    data
}

/// Room for so many numbers, all 0.
pub fn room(count: usize) -> Data {
    numbers(&vec![0u32; count])
}

/// The numbers that some data holds.
pub fn values(data: &Data) -> Vec<u32> {
    let mut values = vec![0; data.count()];
    data.read(&mut values).unwrap();
    values
}
