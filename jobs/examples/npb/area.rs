//! Memory in shared use for collectives: room between, and blocks that are copied there and back.

use kernel::{JobError, Shared, Task};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Grows until it is as large as the largest needs.
pub struct Area(Shared);

impl Area {
    /// An empty one.
    pub fn new(task: &Task) -> Result<Self, JobError> {
        Ok(Self(task.memory().buffer(0)?.share()))
    }

    /// Sees to room for so many bytes; what it holds is lost if there was less.
    pub fn grow(&mut self, task: &Task, bytes: usize) -> Result<(), JobError> {
        if self.0.len() < bytes {
            self.0 = task.memory().buffer(bytes.next_power_of_two())?.share();
        }
        Ok(())
    }

    /// Puts values where there is room for them, so many bytes from its start.
    pub fn put_at<T: IntoBytes + Immutable>(&self, at: usize, values: &[T]) -> Result<(), JobError> {
        self.0.write(at, values.as_bytes()).map_err(|_| JobError::Other("values outside their memory"))
    }

    /// Takes values from so many bytes behind its start.
    pub fn take_at<T: IntoBytes + FromBytes>(&self, at: usize, values: &mut [T]) -> Result<(), JobError> {
        self.0.read(at, values.as_mut_bytes()).map_err(|_| JobError::Other("values outside their memory"))
    }

    /// Its start, as collectives name it.
    pub fn place(&self) -> Option<(Shared, usize)> {
        Some((self.0.clone(), 0))
    }
}
