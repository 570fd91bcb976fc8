//! What is written: each word is a function of its file and of its place in it, so that a byte in a wrong place is a wrong byte.

use kernel::{JobError, Shared, Task};
use mpi::{Communicator, Data};

/// Memory of a task for a transfer.
pub struct Block(&'static mut [u8]);

/// The word at `offset`, a multiple of 8, of the file that `tag` says; the test of the host's files knows it too.
fn word(tag: u64, offset: u64) -> u64 {
    (offset / 8 + (tag << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

impl Block {
    /// So many bytes of the task's memory.
    pub fn new(task: &'static Task, len: usize) -> Result<Self, JobError> {
        Ok(Self(task.memory().slice(len)?))
    }

    /// The first `len` bytes become what is in a file at `place` of the first of their parts, of so many bytes each, and so on.
    pub fn fill(&mut self, len: usize, tag: u64, part: usize, place: impl Fn(u64) -> u64) {
        for (number, part) in self.0[..len].chunks_mut(part).enumerate() {
            let offset = place(number as u64);
            for (at, bytes) in part.chunks_exact_mut(8).enumerate() {
                bytes.copy_from_slice(&word(tag, offset + 8 * at as u64).to_le_bytes());
            }
        }
    }

    /// Whether they are that.
    pub fn is_right(&self, len: usize, tag: u64, part: usize, place: impl Fn(u64) -> u64) -> bool {
        self.0[..len].chunks(part).enumerate().all(|(number, part)| {
            let offset = place(number as u64);
            let mut words = part.chunks_exact(8).enumerate();
            words.all(|(at, bytes)| bytes == word(tag, offset + 8 * at as u64).to_le_bytes())
        })
    }

    /// The first `len` bytes.
    pub fn bytes(&self, len: usize) -> &[u8] {
        &self.0[..len]
    }

    /// The first `len` bytes, to be read into.
    pub fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.0[..len]
    }

    /// Lends the first `len` bytes to `work`.
    pub fn lend<R>(
        &mut self,
        len: usize,
        work: impl FnOnce(&Data) -> Result<R, JobError>,
    ) -> Result<R, JobError> {
        Shared::scope(&mut self.0[..len], |memory| work(&Data::all::<u8>(memory)))
    }

    /// Sends the first `len` bytes to task `next`, and gets as many from task `before` into `into`.
    pub fn shift(
        &mut self,
        into: &mut Self,
        len: usize,
        world: &Communicator<Task>,
        [next, before]: [u64; 2],
    ) -> Result<(), JobError> {
        self.lend(len, |from| {
            into.lend(len, |into| {
                Ok(world.sendrecv(from, next as i32, 1, into, before as i32, 1).map(drop)?)
            })
        })
    }
}
