//! Counting: boots the guests of the job `instructions` and gathers their rows.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::arch::Arch;
use crate::board::Board;
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

/// A guest of one architecture.
struct Counted {
    /// The job's argument.
    rows: &'static str,
    board: Board,
    harts: u8,
    mode: Mode,
    /// Most contexts of a client.
    contexts: u8,
    adapter: bool,
    /// The network is taken for one that loses nothing.
    lossless: bool,
}

const fn counted(rows: &'static str, contexts: u8, adapter: bool) -> Counted {
    Counted { rows, board: Board::Virt, harts: 1, mode: Mode::Smp, contexts, adapter, lossless: false }
}

/// The guests of one architecture.
fn guests(arch: Arch) -> [Counted; 7] {
    // A board with a GEM, and the least harts that it has.
    let (board, harts) = if arch == Arch::Riscv64 { (Board::SifiveU, 1) } else { (Board::Versal, 2) };
    [
        counted("alone", 4, true),
        Counted { harts: 2, mode: Mode::Vn, ..counted("pair", 4, true) },
        Counted { lossless: true, ..counted("lossless", 4, true) },
        counted("bare", 4, false),
        counted("team", 8, false),
        counted("mpi", 4, false),
        Counted { board, harts, ..counted("gem", 4, true) },
    ]
}

/// Counts everything on one architecture, in the order of the rows.
///
/// # Errors
/// If a guest fails, with its last words.
pub fn measure(arch: Arch, voice: &Voice) -> Result<Vec<Count>> {
    let image = firmware::build(&Request::new(arch, INSTRUCTIONS), voice)?;
    let mut counts: Vec<Count> = Vec::new();
    for Counted { rows, board, harts, mode, contexts, adapter, lossless } in guests(arch) {
        voice.busy(&format!("counting on {arch}: {rows}"));
        let run = Run::new(INSTRUCTIONS).board(board).arch(arch).image(&image).torus("1");
        let run = run.harts(harts).mode(mode).args([rows]).contexts(contexts);
        let outcome = run.icount(true).adapter(adapter).lossless(lossless).timeout(DEADLINE).run()?;
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
