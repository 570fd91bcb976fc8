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
    pub collectives: Vec<Collective, 3>,
    /// Of each task's portion, or of the vector.
    pub bytes: usize,
}

impl Arguments {
    pub fn parse(task: &'static Task) -> Result<Self, JobError> {
        let collectives = [Collective::Broadcast, Collective::Scatter, Collective::Gather];
        let contexts = task.contexts();
        let mut arguments = Self {
            endpoints: ENDPOINTS.into_iter().filter(|&endpoints| endpoints <= contexts).collect(),
            collectives: collectives.into_iter().collect(),
            bytes: BYTES,
        };
        let mut words = task.args();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(JobError::Argument(word, "wants a value behind it"))?;
            let wrong = |problem| JobError::Argument(value, problem);
            match word {
                "--endpoints" => {
                    let endpoints = value.parse().ok().filter(|&number| (1..=contexts).contains(&number));
                    let endpoints = endpoints.ok_or(wrong("is no number of contexts that the root has"))?;
                    arguments.endpoints = [endpoints].into_iter().collect();
                }
                "--collective" => {
                    let what = value.parse().ok().filter(|what| collectives.contains(what));
                    let what = what.ok_or(wrong("is neither broadcast, scatter nor gather"))?;
                    arguments.collectives = [what].into_iter().collect();
                }
                "--bytes" => {
                    let bytes = value.parse().ok().filter(|&bytes: &usize| bytes > 0 && bytes <= 1 << 22);
                    arguments.bytes = bytes.ok_or(wrong("is no number of bytes from 1 to 4194304"))?;
                }
                _ => {
                    const KNOWN: &str = "is unknown: endpoints takes --endpoints, --collective, --bytes";
                    return Err(JobError::Argument(word, KNOWN));
                }
            }
        }
        Ok(arguments)
    }
}
