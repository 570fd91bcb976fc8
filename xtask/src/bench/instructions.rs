//! Counting: boots the guests of the job `instructions` and gathers their rows.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::arch::Arch;
use crate::firmware::{self, Request};
use crate::jobs::INSTRUCTIONS;
use crate::personality::Mode;
use crate::progress::Voice;
use crate::run::Run;

/// Rows that count by how much repeats differ. They are 0, whatever the committed table says.
pub const NOISE: &str = "-noise";
/// A guest takes about a second.
const DEADLINE: Duration = Duration::from_secs(120);

/// One row of one architecture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Count {
    /// The row's name.
    pub row: String,
    /// The median of its repeats.
    pub instructions: u32,
    /// The least and the most of all repeats.
    pub spread: (u32, u32),
}

impl Count {
    /// A row in the job's words: `post: 12 instructions, 12 to 13`.
    fn parse(line: &str) -> Option<Self> {
        let (row, numbers) = line.split_once(": ")?;
        let (instructions, spread) = numbers.split_once(" instructions, ")?;
        let (least, most) = spread.split_once(" to ")?;
        let spread = (least.parse().ok()?, most.parse().ok()?);
        Some(Self { row: row.to_owned(), instructions: instructions.parse().ok()?, spread })
    }

    /// Whether repeats differ.
    pub fn varies(&self) -> bool {
        self.spread.0 != self.spread.1
    }
}

/// The guests of one architecture: the job's argument, harts, most contexts of a client, whether there is an adapter.
const GUESTS: [(&str, u8, u8, bool); 5] = [
    ("alone", 1, 4, true),
    ("pair", 2, 4, true),
    ("bare", 1, 4, false),
    ("team", 1, 8, false),
    ("mpi", 1, 4, false),
];

/// Counts everything on one architecture, in the order of the rows.
///
/// # Errors
/// If a guest fails, with its last words.
pub fn measure(arch: Arch, voice: &Voice) -> Result<Vec<Count>> {
    let image = firmware::build(&Request { arch, job: INSTRUCTIONS.into(), together: false }, voice)?;
    let mut counts: Vec<Count> = Vec::new();
    for (rows, harts, contexts, adapter) in GUESTS {
        voice.busy(&format!("counting on {arch}: {rows}"));
        let mode = if harts > 1 { Mode::Vn } else { Mode::Smp };
        let run =
            Run::new(INSTRUCTIONS).arch(arch).image(&image).torus("1").harts(harts).mode(mode).args([rows]);
        let outcome = run.contexts(contexts).icount(true).adapter(adapter).timeout(DEADLINE).run()?;
        voice.idle();
        if !outcome.success() {
            bail!("counting on {arch} failed ({rows})\n{}", outcome.explain());
        }
        counts.extend(outcome.lines().filter_map(|line| Count::parse(&line.text)));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_rows_are_found_among_the_jobs_lines() {
        let count = Count { row: "post".into(), instructions: 12, spread: (11, 15) };
        assert_eq!(Count::parse("post: 12 instructions, 11 to 15"), Some(count));
        assert_eq!(Count::parse("post: 12 instructions, 11 to many"), None);
        assert_eq!(Count::parse("task 0 says: hello"), None);
    }
}
