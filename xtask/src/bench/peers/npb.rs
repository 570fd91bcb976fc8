//! The NAS Parallel Benchmarks as rows, from the same files at all: ours are the jobs `npb-*`; over an MPI they are the package
//! `npb`, built as the jobs are, in the program that xtask/peers/npb.c is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;

use super::catalogue::{Kind, Method, Peer, Row};
use super::obtain::{self, Folders};
use crate::arch::Arch;
use crate::progress::Voice;
use crate::{firmware, setup, workspace};

/// Of the problems.
pub const CLASS: &str = "A";
/// What a task takes of a node's memory, in MiB.
pub const TASK_MIB: u32 = 384;

/// The package, and the profile of jobs.
const PACKAGE: &str = "npb";
const PROFILE: &str = "firmware";
/// What its library wants: that of the compiler's which it is, at the addresses of its making, and what Rust's own needs.
const FLAGS: [&str; 5] = ["-lnpb", "-no-pie", "-lpthread", "-ldl", "-lm"];

/// Programs by the words of those of `rows` that are benchmarks.
///
/// # Errors
/// They do not build.
pub fn programs(
    peer: &Peer,
    rows: &[&Row],
    folders: &Folders,
    voice: &Voice,
) -> Result<BTreeMap<&'static str, PathBuf>> {
    let words: Vec<_> = rows
        .iter()
        .filter(|row| row.method() == Method::Benchmark && peer.measures(row))
        .map(|row| row.word)
        .collect();
    match peer.kind {
        Kind::Ours { .. } => {
            let build =
                |word| Ok((word, firmware::build(&firmware::Request::new(Arch::Native, word), voice)?));
            words.into_iter().map(build).collect()
        }
        Kind::Mpi(_) if !words.is_empty() => {
            let program = over(peer, folders, voice)?;
            Ok(words.into_iter().map(|word| (word, program.clone())).collect())
        }
        _ => Ok(BTreeMap::new()),
    }
}

/// The program of all benchmarks over an MPI.
fn over(peer: &Peer, folders: &Folders, voice: &Voice) -> Result<PathBuf> {
    let mut cargo = setup::toolchain(Arch::Native, voice)?.cargo("build", Arch::Native);
    voice.busy("building the benchmarks for MPIs");
    obtain::run(cargo.args(["--quiet", "--package", PACKAGE, "--profile", PROFILE]))?;
    let mut folders = folders.clone();
    folders.libraries.push(workspace::target().join(Arch::Native.target()).join(PROFILE));
    let libraries: Vec<_> = FLAGS.into_iter().chain([obtain::library(peer)]).collect();
    obtain::compile(&format!("{}-npb", peer.name), "npb.c", &libraries, &folders, voice)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::bench::peers::catalogue;
    use crate::bench::peers::launch::{Values, command, launch};
    use crate::bench::peers::obtain::Ready;

    /// The programs end themselves a little later.
    const DEADLINE: Duration = Duration::from_secs(110);

    /// The same command, of the smallest class and bound to no cores: other tests have them too.
    fn smallest(command: &Command) -> Command {
        let words: Vec<_> = command.get_args().collect();
        let (class, others) = words.split_last().expect("words");
        assert_eq!(*class, CLASS);
        let mut smallest = Command::new(command.get_program());
        smallest.args(others).arg("S");
        for (name, value) in command.get_envs().filter(|(name, _)| *name != "PEERS_CORES") {
            value.into_iter().for_each(|value| _ = smallest.env(name, value));
        }
        smallest
    }

    #[test]
    fn h6_every_benchmark_verifies_over_an_mpi() {
        let peer = catalogue::peers(Some("mpich-pypi")).unwrap()[0];
        let rows = catalogue::rows(Some("npb")).unwrap();
        let (folders, version) =
            match obtain::fetch(peer, |_, _, _| unreachable!("it is a wheel"), &Voice::quiet()) {
                Ok(found) => found,
                Err(error) => return eprintln!("skipped: {} cannot be had: {error:#}", peer.name),
            };
        if obtain::compiler().is_err() {
            return eprintln!("skipped: there is no C compiler");
        }
        let benchmarks = programs(peer, &rows, &folders, &Voice::quiet()).unwrap();
        assert_eq!(benchmarks.len(), 5);
        let ready = Ready { peer, version, program: PathBuf::new(), benchmarks, folders };
        let scratch = tempfile::tempdir().unwrap();
        for row in rows {
            let command = command(&ready, &[row], 2, [0, 1], scratch.path()).unwrap();
            let program = ready.program_of(&[row]);
            let mut values = Values::new();
            launch(smallest(&command), program, &[row], DEADLINE, &mut values).unwrap();
            assert!(values[row.name] > 0.0, "{values:?}");
        }
    }
}
