//! What tasks send, and must get.

use kernel::{JobError, Shared, Task};
use pami::collective::Collective;

/// One task's memory.
pub struct Data {
    /// Its index among the tasks; the root's is 0.
    index: usize,
    tasks: usize,
    bytes: usize,
    /// A portion for each task, at the root; else its own.
    pub input: Shared,
    pub output: Shared,
}

/// Byte `at` of the portion of the task with this index.
fn byte(index: usize, at: usize) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 8) ^ index.wrapping_mul(101)) as u8
}

impl Data {
    pub fn new(task: &'static Task, neighbours: &[u32], bytes: usize) -> Result<Self, JobError> {
        let index =
            neighbours.iter().position(|&number| number == task.number()).map_or(0, |place| place + 1);
        let tasks = neighbours.len() + 1;
        let memory = task.memory();
        let mut input = memory.buffer(tasks * bytes)?;
        for (at, place) in input.as_mut_slice().iter_mut().enumerate() {
            // At the root a portion of each; elsewhere its own comes first.
            *place = byte(if index == 0 { at / bytes } else { index }, at % bytes);
        }
        let output = memory.buffer(tasks * bytes)?.share();
        Ok(Self { index, tasks, bytes, input: input.share(), output })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the output is what it must be; then it is spoilt for the next.
    pub fn holds(&self, what: Collective) -> bool {
        let portions = match (what, self.index) {
            // The root's vector stays where it is, and others have nothing gathered.
            (Collective::Broadcast, 0) => 0..0,
            (Collective::Broadcast, _) => 0..1,
            (Collective::Gather, 0) => 0..self.tasks,
            (Collective::Gather, _) => 0..0,
            (_, index) => index..index + 1,
        };
        let mut word = [0];
        let good = portions.enumerate().all(|(place, portion)| {
            (0..self.bytes).all(|at| {
                self.output.read(place * self.bytes + at, &mut word).is_ok() && word[0] == byte(portion, at)
            })
        });
        for at in 0..self.output.len() {
            // Inside the memory.
            let _ = self.output.write(at, &[0xee]);
        }
        good
    }
}
