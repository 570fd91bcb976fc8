//! The job's arguments.

use super::floats;
use core::str::FromStr;
use heapless::Vec;
use kernel::{JobError, Task};
use pami::collective::{Algorithm, Collective};

const SIZES: [usize; 4] = [8, 512, 8192, 65536];
const ROUNDS: u32 = 10;

/// What to measure.
pub struct Arguments {
    pub list: bool,
    /// How often floats are summed instead.
    pub floats: Option<u32>,
    pub collectives: Vec<Collective, 16>,
    /// None: every valid one. Of these, none: the one that is chosen.
    pub algorithms: Vec<Option<Algorithm>, 20>,
    pub sizes: Vec<usize, 16>,
    pub rounds: u32,
    pub root: u32,
}

impl Arguments {
    pub fn parse(task: &'static Task) -> Result<Self, JobError> {
        let given = task.arguments();
        let mut arguments = Self {
            list: given.has("--list"),
            floats: given.get("--floats")?,
            collectives: given.list("--collective")?.unwrap_or_else(|| Collective::ALL.into_iter().collect()),
            algorithms: Vec::new(),
            sizes: given.list("--sizes")?.unwrap_or_else(|| SIZES.into_iter().collect()),
            rounds: given.get("--rounds")?.unwrap_or(ROUNDS),
            root: given.get("--root")?.unwrap_or(0),
        };
        if let Some(choices) = given.list::<Choice, 20>("--algorithm")? {
            arguments.algorithms = choices.into_iter().map(|choice| choice.0).collect();
        }
        if arguments.floats.is_some() {
            arguments.collectives = [Collective::Allreduce].into_iter().collect();
            arguments.sizes = [floats::BYTES].into_iter().collect();
        }
        Ok(arguments)
    }
}

/// An algorithm, or the one that is chosen.
struct Choice(Option<Algorithm>);

impl FromStr for Choice {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "chosen" => Ok(Self(None)),
            word => word.parse().map(|algorithm| Self(Some(algorithm))).map_err(|_| ()),
        }
    }
}
