//! The job's arguments.

use heapless::Vec;
use kernel::{JobError, Task};
use pami::collective::Collective;

const BYTES: usize = 1 << 16;
const ENDPOINTS: [u8; 4] = [1, 2, 4, 8];

/// What to measure.
pub struct Arguments {
    /// Endpoints of the root.
    pub endpoints: Vec<u8, 4>,
    pub collectives: Vec<Collective, 6>,
    pub over_mpi: bool,
    /// Rows of tasks, each with an endpoint of the root.
    pub rows: Option<u32>,
    /// Of each task's portion, or of the vector.
    pub bytes: usize,
}

impl Arguments {
    pub fn parse(task: &'static Task) -> Result<Self, JobError> {
        let given = task.arguments();
        let over_mpi = given.word("--over") == Some("mpi");
        let all = [
            Collective::Broadcast,
            Collective::Scatter,
            Collective::Gather,
            Collective::Allgather,
            Collective::Reduce,
            Collective::Allreduce,
        ];
        let rows = given.get::<u32>("--rows")?;
        let collectives = if over_mpi || rows.is_some() { &all[..] } else { &all[..3] };
        let endpoints = match given.get::<u8>("--endpoints")? {
            Some(one) => [one].into_iter().collect(),
            None => ENDPOINTS.into_iter().filter(|&endpoints| endpoints <= task.contexts()).collect(),
        };
        let only = given.get::<Collective>("--collective")?;
        let collectives =
            collectives.iter().copied().filter(|&one| only.is_none_or(|only| only == one)).collect();
        let bytes = given.get("--bytes")?.unwrap_or(BYTES);
        Ok(Self { endpoints, collectives, over_mpi, rows, bytes })
    }
}
