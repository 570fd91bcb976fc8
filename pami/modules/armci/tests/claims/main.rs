//! The library over an in-process machine, each task a thread.

mod accumulates;
mod beside;
mod groups;
#[allow(dead_code, unused_imports, reason = "the messaging layer's own tests use more of it")]
#[path = "../../../../tests/engine/machine/mod.rs"]
mod machine;
mod mutexes;
mod settings;
mod slabs;
mod tasks;
mod threads;
mod transfers;
mod updates;
