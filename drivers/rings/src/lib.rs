//! Lock-free structures that contexts, engines and harts share. No `std`, no allocation: every structure lives
//! in storage that its user provides for the life of the program.
//!
//! | module | what | who writes, who reads |
//! |---|---|---|
//! | [`bulletin`] | what one shows to many (SPEC H-5) | one, any number |
//! | [`buffer`] | memory lent to a device or to another context, and taken back when nobody reads it any more | one owner, any number of readers |
//! | [`segment`] | where memory lies that nodes of one machine have in common (SPEC H-1) | |
//! | [`shared`] | memory that local and remote operations read and write at the same time (SPEC P-7, P-8) | any number |
//! | [`post`] | queue whose links live in the posted slots (SPEC P-2, P-11) | many, one |
//! | [`spsc`] | bounded ring of descriptors (SPEC D-4) | one, one |
//! | [`lines`] | ring of 64-byte lines, a message in each (SPEC P-9) | one, one |
//! | [`table`] | entries that are found by key while others come and go (SPEC P-8) | any number, any number |
//! | [`first_fit`] | which of a number of items are free (SPEC Q-2) | one, one |
//! | [`list`] | lists whose links lie in what is listed (SPEC Q-2) | one, one |
//! | [`slot_table`] | entries that are found by number or key (SPEC Q-2) | one, one |
//! | [`open_addressing`] | entries that are found by what they are of (SPEC Q-2) | one, one |
//! | [`sleep`] | flag of a sleeping hart (SPEC N-8) | one sleeper, any number of wakers |
//! | [`bell`] | says that something is new, and whom to wake for it (SPEC N-8) | any number, one |
//!
//! Built with `--cfg loom`, atomics and cells are those of `loom`, and `cargo test` explores the interleavings:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p rings --release
//! MIRIFLAGS="-Zmiri-ignore-leaks" cargo +nightly miri test -p rings
//! ```
#![no_std]
#![deny(clippy::undocumented_unsafe_blocks)]

#[cfg(test)]
extern crate std;

pub mod bell;
pub mod buffer;
pub mod bulletin;
pub mod first_fit;
pub mod lines;
pub mod list;
pub mod open_addressing;
pub mod post;
pub mod segment;
pub mod shared;
pub mod sleep;
pub mod slot_table;
pub mod spsc;
mod sync;
pub mod table;

/// Keeps what two harts write apart, so that they do not fight over a cache line.
#[repr(align(64))]
pub(crate) struct CachePadded<T>(pub(crate) T);
