//! The library on the model machine: a thread for each task, each with its instance.

mod bulk;
mod collectives;
mod communicators;
mod credit;
mod divided;
mod endings;
mod files;
#[allow(dead_code, unused_imports, reason = "shared with the engine's tests, which use all of it")]
#[path = "../../../../tests/engine/machine/mod.rs"]
mod machine;
mod matching;
mod pressure;
mod scene;
mod uniform;
mod windows;
