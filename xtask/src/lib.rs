//! The host side: builds, boots and watches emulated nodes, and models the network between them.
//!
//! | module | concern |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`setup`], [`doctor`] | what the host needs, its installation |
//! | [`jobs`], [`firmware`] | what can be run, building it |
//! | [`personality`] | what a node is told at boot |
//! | [`run`] | a run from build to outcome; [`Run`] is also what integration tests use |
//! | [`node`], [`qmp`] | one QEMU: its command line, process and control protocol |
//! | [`console`], [`log`], [`symbols`] | a node's words: frames, log lines, addresses |
//! | [`dump`], [`table`] | the end of a run: state of hung nodes, closing table |
//! | [`fabric`] | the network between nodes |
//! | [`suite`] | `cargo xtask test` |
//! | [`docs`] | `cargo xtask doc` |
//! | [`claims`] | which tests show which requirement |
//! | [`helper`] | programs that work for this one and end with it |
//! | [`mod@bench`] | `cargo xtask bench` |

pub mod arch;
pub mod bench;
pub mod claims;
pub mod cli;
pub mod console;
pub mod docs;
pub mod doctor;
pub mod dump;
pub mod fabric;
pub mod firmware;
pub mod helper;
pub mod jobs;
pub mod log;
pub mod node;
pub mod personality;
pub mod progress;
pub mod qmp;
pub mod run;
pub mod setup;
pub mod suite;
pub mod symbols;
pub mod table;
pub mod workspace;

pub use arch::Arch;
pub use personality::{Level, Map, Mode};
pub use run::{KillWhen, Outcome, Run};
