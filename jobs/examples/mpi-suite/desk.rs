//! Memory that chapters work on, and values that no two ranks have in common.

use heapless::Vec;
use kernel::Task;
use mpi::{Data, Error, Native, Result};
use pami::Shared;

/// Bytes of each memory.
const BYTES: usize = 32 << 10;
/// Most values of a check.
pub const VALUES: usize = 1024;

pub struct Desk {
    pub left: Shared,
    pub right: Shared,
}

impl Desk {
    pub fn new(task: &'static Task) -> Result<Self> {
        let memory = || {
            let buffer = task.memory().buffer(BYTES);
            buffer
                .map(|buffer| buffer.share())
                .map_err(|_| Error::NoMem { what: "bytes of a desk", limit: BYTES })
        };
        Ok(Self { left: memory()?, right: memory()? })
    }

    /// Fills both memories with what no check expects.
    pub fn clear(&self) -> Result<()> {
        for memory in [&self.left, &self.right] {
            for at in (0..BYTES).step_by(256) {
                memory.write(at, &[0xa5; 256]).map_err(|_| Error::Buffer)?;
            }
        }
        Ok(())
    }
}

/// Number of basic values in some data.
pub fn values(data: &Data) -> usize {
    data.datatype().elements() * data.count()
}

/// Writes value `at` at each place of the type.
pub fn put<T: Native + Default>(data: &Data, value: impl Fn(usize) -> T) -> Result<()> {
    let list: Vec<T, VALUES> = (0..values(data)).map(value).collect();
    data.write(&list).map_err(Error::from)
}

/// Whether every value is this one.
pub fn holds<T: Native + Default + PartialEq>(data: &Data, value: impl Fn(usize) -> T) -> Result<bool> {
    let mut list: Vec<T, VALUES> = (0..values(data)).map(|_| T::default()).collect();
    data.read(&mut list)?;
    Ok(list.iter().enumerate().all(|(at, &found)| found == value(at)))
}

/// The value at a place of what a rank contributes to a round.
pub fn word(round: u32, rank: u32, at: usize) -> i32 {
    let mixed = (round << 20 ^ rank << 10 ^ at as u32).wrapping_add(1).wrapping_mul(0x9e37_79b9);
    // So that products and sums over all ranks tell one from the other.
    mixed as i32
}
