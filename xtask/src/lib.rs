//! The host side: builds, boots and watches emulated nodes, and models the network between them.
//!
//! The crate's `README.md` has the way of a run, what each room is for, and which knows of which.

pub mod arch;
pub mod bench;
pub mod board;
pub mod claims;
pub mod cli;
pub mod conform;
pub mod console;
pub mod docs;
pub mod doctor;
pub mod dump;
pub mod fabric;
pub mod firmware;
pub mod helper;
pub mod image;
pub mod inspect;
pub mod io_node;
pub mod jobs;
pub mod json;
pub mod log;
pub mod node;
pub mod personality;
pub mod picture;
pub mod progress;
pub mod qmp;
pub mod run;
pub mod serial;
pub mod service;
pub mod setup;
pub mod suite;
pub mod symbols;
pub mod table;
pub mod top;
pub mod trace;
pub mod workspace;

pub use arch::Arch;
pub use board::Board;
pub use personality::{Level, Map, Mode};
pub use run::{Harm, KillWhen, Outcome, Partition, Run};
