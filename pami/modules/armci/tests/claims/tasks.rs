//! Tasks as threads.

use crate::machine::{TestNode, machine_of};
use crate::threads::on_nodes;
use armci::{Error, GlobalAddress, Library, Local, Settings};
use pami::Shared;

pub type TestLibrary = Library<TestNode>;

/// Small, so that borders are near.
pub const SMALL: Settings = Settings {
    client: "armci",
    contexts: 1,
    sharing: pami::Sharing::Exclusive,
    wait: armci::Wait::Poll(64),
    slab: 8192,
    allocations: 8,
    mutexes: 4,
    handles: 4,
    accumulate: armci::Split::Advice,
};

/// Runs `body` at each of `tasks` tasks, so many on each node; returns what they return, by task.
pub fn on_tasks<T: Send>(
    tasks: u32,
    per_node: u32,
    settings: Settings,
    body: impl Fn(TestLibrary) -> T + Sync,
) -> Vec<T> {
    on_nodes(machine_of(tasks, per_node), |node| {
        let library = Library::init(node, settings).unwrap();
        let result = body(library);
        library.finalize().unwrap();
        result
    })
}

/// Allocates as many bytes at each task.
pub fn malloc(library: &TestLibrary, bytes: u32) -> Vec<GlobalAddress> {
    let mut addresses = vec![GlobalAddress::default(); library.tasks() as usize];
    library.malloc(&library.world(), bytes, &mut addresses).unwrap();
    addresses
}

pub fn barrier(library: &TestLibrary) {
    library.barrier(&library.world()).unwrap();
}

pub fn bytes(memory: &Shared, offset: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    memory.read(offset, &mut bytes).unwrap();
    bytes
}

/// What this task has at one of its own addresses.
pub fn own_bytes(library: &TestLibrary, address: GlobalAddress, len: usize) -> Vec<u8> {
    assert_eq!(address.task, library.task());
    bytes(&library.slab().unwrap(), address.offset as usize, len)
}

/// A get of so many bytes.
pub fn got(library: &TestLibrary, from: GlobalAddress, len: usize) -> Result<Vec<u8>, Error> {
    let into = crate::machine::buffer(len).share();
    library.get(from, Local::new(&into, 0), len as u32)?;
    let got = bytes(&into, 0, len);
    if let Ok(buffer) = into.reclaim() {
        crate::machine::free(buffer);
    }
    Ok(got)
}
