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
        let mut arguments = Self {
            list: false,
            floats: None,
            collectives: Collective::ALL.into_iter().collect(),
            algorithms: Vec::new(),
            sizes: SIZES.into_iter().collect(),
            rounds: ROUNDS,
            root: 0,
        };
        let mut words = task.args();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(JobError::Argument(word, "wants a value behind it"));
            match word {
                "--list" => arguments.list = true,
                "--floats" => {
                    arguments.floats = Some(number(value()?, |rounds| rounds > 0, "is no number from 1 up")?);
                    arguments.collectives = [Collective::Allreduce].into_iter().collect();
                    arguments.sizes = [floats::BYTES].into_iter().collect();
                }
                "--collective" => {
                    arguments.collectives = listed(value()?, "names no collective: see --list")?;
                }
                "--algorithm" => {
                    arguments.algorithms = listed::<Choice, 20>(value()?, "names no algorithm: see --list")?
                        .into_iter()
                        .map(|choice| choice.0)
                        .collect();
                }
                "--sizes" => {
                    const WORDS: &str = "is no multiple of 8 bytes, up to 16777216";
                    let value = value()?;
                    arguments.sizes = listed(value, WORDS)?;
                    if arguments.sizes.iter().any(|size| size % 8 != 0 || *size > 1 << 24) {
                        return Err(JobError::Argument(value, WORDS));
                    }
                }
                "--rounds" => {
                    arguments.rounds = number(value()?, |rounds| rounds > 0, "is no number from 1 up")?
                }
                "--root" => {
                    let tasks = task.tasks();
                    arguments.root =
                        number(value()?, |root| root < tasks, "is no rank: take one below the tasks")?;
                }
                _ => {
                    const KNOWN: &str = "is unknown: coll takes --list, --floats, --collective, --algorithm, \
                        --sizes, --rounds, --root";
                    return Err(JobError::Argument(word, KNOWN));
                }
            }
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

fn number(word: &'static str, good: impl Fn(u32) -> bool, problem: &'static str) -> Result<u32, JobError> {
    word.parse().ok().filter(|&number| good(number)).ok_or(JobError::Argument(word, problem))
}

/// Values with commas between them; an error names the one that is wrong.
fn listed<T: FromStr, const N: usize>(
    words: &'static str,
    problem: &'static str,
) -> Result<Vec<T, N>, JobError> {
    let mut list = Vec::new();
    for word in words.split(',') {
        let value = word.parse().map_err(|_| JobError::Argument(word, problem))?;
        list.push(value).map_err(|_| JobError::Argument(word, "is one too many"))?;
    }
    Ok(list)
}
