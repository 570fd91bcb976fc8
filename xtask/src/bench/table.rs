//! The committed table of instruction counts, what is printed of it, and what is wrong with new counts.
//!
//! The file has a line per row, `post = { aarch64 = 12, riscv64 = 12 }`, in the order of the job.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::instructions::{Count, NOISE};
use crate::arch::Arch;
use crate::workspace;

/// Writes the committed table anew.
pub const UPDATE: &str = "cargo xtask bench instructions --update";
/// A row may rise by this part of what is committed, and by one instruction at least.
const SLACK_PERCENT: u32 = 5;
const HEAD: &str = "\
# Instructions on a message's way. `jobs/examples/instructions` says what each row counts
# from and to. Tests fail when one rises or falls by more than 5 %, so that a fall is committed
# and stays, or passes its ceiling. Written by:
#   cargo xtask bench instructions --update
";

/// Most that rows may ever take, whatever is committed: what their calls were made for (SPEC Q-4). Aarch64, riscv64.
const CEILINGS: [(&str, [u32; 2]); 40] = [
    ("post", [12, 12]),
    ("advance-empty", [20, 20]),
    ("advance-empty-no-adapter", [20, 20]),
    ("send-immediate-8-shared-memory", [49, 53]),
    ("send-immediate-8", [57, 59]),
    ("send-immediate-8-after-fences", [57, 59]),
    ("receive-self", [58, 71]),
    ("receive-shared-memory", [58, 71]),
    ("receive-shared-memory-tasks", [58, 71]),
    ("receive-shared-memory-no-adapter", [58, 71]),
    ("send-512-shared-memory", [190, 230]),
    ("send-512", [210, 250]),
    ("put-8-shared-memory", [65, 70]),
    ("rmw-8-shared-memory", [60, 61]),
    ("receive-torus-fifo", [79, 107]),
    ("receive-torus", [1245, 1645]),
    ("send-immediate-8-kick", [1200, 1580]),
    ("put-8", [151, 192]),
    ("gem-send-immediate-8-kick", [1480, 2740]),
    ("gem-send-512", [210, 250]),
    ("gem-receive-torus", [1420, 2630]),
    ("gem-put-8", [151, 192]),
    ("rmw-8", [162, 202]),
    ("put-signal-8", [381, 506]),
    ("fence-after-0-sends", [496, 642]),
    ("fence-after-10-sends", [496, 642]),
    ("fence-after-1000-sends", [496, 642]),
    ("send-512-after-fences", [210, 250]),
    ("get-1m-shared-memory", [345000, 328000]),
    ("get-1m-skewed-shared-memory", [793000, 793000]),
    ("mpi-isend-8-shared-memory", [176, 204]),
    ("mpi-irecv-8", [136, 146]),
    ("mpi-matched-receive-8-shared-memory", [322, 382]),
    ("mpi-waited-receive-8-shared-memory", [312, 366]),
    ("mpi-second-receive-8-shared-memory", [562, 660]),
    ("mpi-unexpected-receive-8-shared-memory", [1105, 1325]),
    ("mpi-test-empty", [40, 44]),
    ("allreduce-8-first-packet", [770, 900]),
    ("allreduce-8-all-endpoints", [65000, 80000]),
    // Half an instruction a byte.
    ("mpi-1-mib-shared-memory", [1 << 19, 1 << 19]),
];

/// The ceiling of a row.
fn ceiling(row: &str, arch: Arch) -> Option<u32> {
    let (_, most) = CEILINGS.iter().find(|(name, _)| *name == row)?;
    Some(most[usize::from(arch == Arch::Riscv64)])
}

/// Counts of one row by architecture.
type Row = BTreeMap<&'static str, u32>;

/// The committed table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Committed(BTreeMap<String, Row>);

/// What is wrong with a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Complaint {
    /// It takes more instructions than it may.
    Risen {
        /// The row.
        row: String,
        /// As committed.
        committed: u32,
        /// As counted.
        counted: u32,
    },
    /// It takes fewer than are committed: the table is to say so, or the gain may be lost again unseen.
    Fallen {
        /// The row.
        row: String,
        /// As committed.
        committed: u32,
        /// As counted.
        counted: u32,
    },
    /// It takes more than its ceiling.
    Over {
        /// The row.
        row: String,
        /// The ceiling.
        ceiling: u32,
        /// As counted.
        counted: u32,
    },
    /// Repeats of what always does the same differ.
    Noisy {
        /// The row.
        row: String,
        /// By how much.
        counted: u32,
    },
    /// It was counted and is not in the committed table.
    NotCommitted {
        /// The row.
        row: String,
        /// As counted.
        counted: u32,
    },
    /// It is in the committed table and was not counted.
    NotCounted {
        /// The row.
        row: String,
        /// As committed.
        committed: u32,
    },
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Risen { row, committed, counted } => {
                write!(
                    f,
                    "{row}: {counted} instructions, over {SLACK_PERCENT} % more than the committed {committed}"
                )
            }
            Self::Fallen { row, committed, counted } => {
                write!(
                    f,
                    "{row}: {counted} instructions, over {SLACK_PERCENT} % fewer than the committed {committed}: commit them"
                )
            }
            Self::Over { row, ceiling, counted } => {
                write!(f, "{row}: {counted} instructions, and {ceiling} are the most it may ever take")
            }
            Self::Noisy { row, counted } => {
                write!(f, "{row}: repeats differ by {counted} instructions, not 0")
            }
            Self::NotCommitted { row, counted } => {
                write!(f, "{row}: {counted} instructions, and the committed table has no such row")
            }
            Self::NotCounted { row, committed } => {
                write!(f, "{row}: {committed} instructions are committed, and the row was not counted")
            }
        }
    }
}

impl Committed {
    /// Where it lies.
    pub fn path() -> PathBuf {
        workspace::root().join("tests/instructions.toml")
    }

    /// Reads it; without a file it is empty.
    ///
    /// # Errors
    /// If the file cannot be read or is no such table.
    pub fn load() -> Result<Self> {
        let path = Self::path();
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        Self::parse(&text).with_context(|| format!("{} is no table of instructions", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let file: BTreeMap<String, BTreeMap<String, u32>> = toml::from_str(text)?;
        let row = |counts: BTreeMap<String, u32>| {
            let count = |arch: Arch| Some((arch.name(), *counts.get(arch.name())?));
            Arch::ALL.into_iter().filter_map(count).collect()
        };
        Ok(Self(file.into_iter().map(|(name, counts)| (name, row(counts))).collect()))
    }

    /// The count of `row` on `arch`.
    pub fn get(&self, row: &str, arch: Arch) -> Option<u32> {
        self.0.get(row)?.get(arch.name()).copied()
    }

    /// All that is wrong with `counts` of `arch`.
    pub fn complaints(&self, arch: Arch, counts: &[Count]) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        for Count { row, instructions, .. } in counts {
            let (row, counted) = (row.clone(), *instructions);
            if row.ends_with(NOISE) && counted != 0 {
                complaints.push(Complaint::Noisy { row: row.clone(), counted });
            }
            if let Some(ceiling) = ceiling(&row, arch).filter(|&ceiling| counted > ceiling) {
                complaints.push(Complaint::Over { row: row.clone(), ceiling, counted });
            }
            let slack = |committed: u32| (committed * SLACK_PERCENT / 100).max(1);
            match self.get(&row, arch) {
                None => complaints.push(Complaint::NotCommitted { row, counted }),
                Some(committed) if counted > committed + slack(committed) => {
                    complaints.push(Complaint::Risen { row, committed, counted });
                }
                Some(committed) if counted + slack(committed) < committed => {
                    complaints.push(Complaint::Fallen { row, committed, counted });
                }
                Some(_) => {}
            }
        }
        let was_counted = |row: &str| counts.iter().any(|count| count.row == row);
        let here = self.0.keys().filter_map(|row| Some((row, self.get(row, arch)?)));
        let lost = here.filter(|(row, _)| !was_counted(row));
        complaints.extend(lost.map(|(row, committed)| Complaint::NotCounted { row: row.clone(), committed }));
        complaints
    }

    /// Takes the counts of `arch` over; rows that it no longer has lose theirs.
    pub fn update(&mut self, arch: Arch, counts: &[Count]) {
        for row in self.0.values_mut() {
            row.remove(arch.name());
        }
        for count in counts {
            self.0.entry(count.row.clone()).or_default().insert(arch.name(), count.instructions);
        }
        self.0.retain(|_, row| !row.is_empty());
    }

    /// Writes it to `path`, rows in the order of `counts`, others behind.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path, counts: &[Count]) -> Result<()> {
        std::fs::write(path, self.text(counts)).with_context(|| format!("cannot write {}", path.display()))
    }

    fn text(&self, counts: &[Count]) -> String {
        let mut text = HEAD.to_owned();
        for name in self.names(counts) {
            let Some(row) = self.0.get(name) else { continue };
            let counts: Vec<_> = row.iter().map(|(arch, count)| format!("{arch} = {count}")).collect();
            text.push_str(&format!("{name} = {{ {} }}\n", counts.join(", ")));
        }
        text
    }

    /// Names of all rows, those of `counts` first.
    fn names<'a>(&'a self, counts: &'a [Count]) -> Vec<&'a str> {
        let counted: Vec<&str> = counts.iter().map(|count| count.row.as_str()).collect();
        let others =
            self.0.keys().map(String::as_str).filter(|row| !counted.contains(row)).collect::<Vec<_>>();
        counted.into_iter().chain(others).collect()
    }

    /// What was counted beside what is committed, for people.
    pub fn render(&self, all: &[(Arch, Vec<Count>)]) -> String {
        let names = all.first().map(|(_, counts)| self.names(counts)).unwrap_or_default();
        let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
        let mut text = format!("{:width$}", "instructions");
        for (arch, _) in all {
            text.push_str(&format!("  | {:>8} {:>9} {:>8}", arch.name(), "committed", "change"));
        }
        text.push_str(&format!("\n{}\n", "-".repeat(width + 30 * all.len())));
        for name in names {
            let mut line = format!("{name:width$}");
            for (arch, counts) in all {
                let count = counts.iter().find(|count| count.row == name);
                let committed = self.get(name, *arch);
                let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
                line.push_str(&format!(
                    "  | {:>8} {:>9} {:>8}",
                    number(count.map(|count| count.instructions)),
                    number(committed),
                    change(committed, count.map(|count| count.instructions)),
                ));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

fn change(from: Option<u32>, to: Option<u32>) -> String {
    match (from, to) {
        (Some(from), Some(to)) if from == to => "=".into(),
        (Some(from), Some(to)) if from > 0 => {
            format!("{:+.1} %", (f64::from(to) - f64::from(from)) * 100.0 / f64::from(from))
        }
        (None, Some(_)) => "new".into(),
        (_, None) => "gone".into(),
        _ => "!".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARCH: Arch = Arch::Riscv64;

    fn counts(rows: &[(&str, u32)]) -> Vec<Count> {
        let count = |&(row, instructions): &(&str, u32)| Count {
            row: row.into(),
            instructions,
            spread: (instructions, instructions),
        };
        rows.iter().map(count).collect()
    }

    fn committed(rows: &[(&str, u32)]) -> Committed {
        let mut committed = Committed::default();
        committed.update(ARCH, &counts(rows));
        committed
    }

    #[test]
    fn n9_a_rise_over_5_percent_is_told_one_instruction_is_not() {
        let table = committed(&[("look", 12), ("advance", 100)]);
        assert_eq!(table.complaints(ARCH, &counts(&[("look", 13), ("advance", 105)])), []);
        assert_eq!(table.complaints(ARCH, &counts(&[("look", 11), ("advance", 95)])), []);
        let risen = |row: &str, committed, counted| Complaint::Risen { row: row.into(), committed, counted };
        let complaints = table.complaints(ARCH, &counts(&[("look", 14), ("advance", 106)]));
        assert_eq!(complaints, [risen("look", 12, 14), risen("advance", 100, 106)]);
        let text = complaints[0].to_string();
        assert!(["look", "12", "14"].iter().all(|word| text.contains(word)), "{text}");
    }

    #[test]
    fn q4_r6_a_fall_is_to_be_committed_and_no_update_goes_over_a_ceiling() {
        let table = committed(&[("post", 12), ("advance", 100)]);
        let fallen =
            |row: &str, committed, counted| Complaint::Fallen { row: row.into(), committed, counted };
        let complaints = table.complaints(ARCH, &counts(&[("post", 10), ("advance", 94)]));
        assert_eq!(complaints, [fallen("post", 12, 10), fallen("advance", 100, 94)]);
        let updated = [("post", 13), ("put-8-shared-memory", 71), ("fixed-loop", 5000)];
        let over = |row: &str, ceiling, counted| Complaint::Over { row: row.into(), ceiling, counted };
        let complaints = committed(&updated).complaints(ARCH, &counts(&updated));
        assert_eq!(complaints, [over("post", 12, 13), over("put-8-shared-memory", 70, 71)]);
    }

    #[test]
    fn n9_a_row_that_is_missing_on_either_side_is_told() {
        let table = committed(&[("post", 12)]);
        let complaints = table.complaints(ARCH, &counts(&[("put", 40)]));
        let new = Complaint::NotCommitted { row: "put".into(), counted: 40 };
        assert_eq!(complaints, [new, Complaint::NotCounted { row: "post".into(), committed: 12 }]);
        // The other architecture's rows are no matter of this one's.
        assert_eq!(table.complaints(Arch::Aarch64, &[]), []);
    }

    #[test]
    fn n9_noise_is_told_even_if_it_is_committed() {
        let noisy = [("loop-noise", 3)];
        let complaints = committed(&noisy).complaints(ARCH, &counts(&noisy));
        assert_eq!(complaints, [Complaint::Noisy { row: "loop-noise".into(), counted: 3 }]);
    }

    #[test]
    fn n9_the_committed_table_reads_as_it_was_written() {
        let mut table = committed(&[("post", 12), ("advance", 20)]);
        table.update(Arch::Aarch64, &counts(&[("post", 11)]));
        let text = table.text(&counts(&[("post", 12)]));
        assert!(
            text.contains("post = { aarch64 = 11, riscv64 = 12 }\nadvance = { riscv64 = 20 }\n"),
            "{text}"
        );
        assert_eq!(Committed::parse(&text).unwrap(), table);
        table.update(ARCH, &[]);
        assert_eq!((table.get("post", ARCH), table.get("post", Arch::Aarch64)), (None, Some(11)));
        assert!(Committed::parse("post = 12").is_err());
    }
}
