//! One run of a peer's program: how it is launched, what it says, and its deadline.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::catalogue::{Kind, MEMORY, Method, Mpi, Row, START};
use super::deadline::Deadline;
use super::npb;
use super::obtain::{Folders, Ready, last_words};
use super::{processes, steps};
use crate::helper::Helper;
use crate::setup;

/// A node's memory, where each task of a job of ours is a node; and what a task takes where one node has all, at least.
const NODE_MIB: u32 = 128;
const TASK_MIB: u32 = 20;
const LEAST_MIB: u32 = 256;

/// Of each process of GASNet-EX's, so that the longest message has room.
const GASNET_SEGMENT: &str = "32MB/P";

/// What a line of a program says.
#[derive(Clone, PartialEq, Debug)]
pub enum Word {
    /// A first message went round.
    First,
    /// All tasks stand still, so that what memory they have can be seen.
    Still,
    /// A row's value.
    Value(String, f64),
    /// What a benchmark took, in milliseconds.
    Time(f64),
}

impl Word {
    /// Of a line; `None` of one that is nothing of ours. Our own jobs' lines have node and time before it.
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [.., "row", name, value] => {
                let value = value.parse().ok().filter(|value: &f64| value.is_finite())?;
                Some(Self::Value(name.to_owned(), value))
            }
            [.., "first"] => Some(Self::First),
            [.., value, "us"] => Some(Self::Time(f64::from(value.parse::<u32>().ok()?) / 1e3)),
            [.., "still"] => Some(Self::Still),
            _ => None,
        }
    }
}

/// The command that runs `tasks` tasks of a peer's program, which measures `rows`. What it writes beside is in `scratch`.
pub fn command(
    ready: &Ready,
    rows: &[&Row],
    tasks: u32,
    cores: [usize; 2],
    scratch: &Path,
) -> Result<Command> {
    let mut words: Vec<_> = rows.iter().map(|row| row.word).filter(|&word| word != START).collect();
    let benchmark = rows.iter().find(|row| row.method() == Method::Benchmark).map(|row| row.word);
    let program = ready.program_of(rows);
    let mut command = match ready.peer.kind {
        Kind::Ring | Kind::Ucx => outliving_nobody(program),
        Kind::Gasnet => {
            let mut command = outliving_nobody(program);
            // It looks for the most memory that it can have, unless it is told.
            command.env("GASNET_PSHM_NODES", tasks.to_string()).env("GASNET_MAX_SEGSIZE", GASNET_SEGMENT);
            command
        }
        Kind::Ours { over, threads } => {
            let own = std::env::current_exe().context("cannot find this program")?;
            let mut command = outliving_nobody(&own);
            let count = tasks.to_string();
            command.args(["host", benchmark.unwrap_or(super::JOB), "--image"]).arg(program);
            let each = if benchmark.is_some() { npb::TASK_MIB } else { TASK_MIB };
            match threads {
                true => {
                    let memory = LEAST_MIB.max(each * tasks).to_string();
                    command.args([
                        "--nodes",
                        "1",
                        "--mode",
                        "vn",
                        "--harts",
                        &count,
                        "--memory",
                        &memory,
                        "--contexts",
                        "1",
                    ])
                }
                false => {
                    let memory = NODE_MIB.max(each).to_string();
                    command.args(["--nodes", &count, "--harts", "1", "--memory", &memory])
                }
            };
            command.args(["--", "--over", over]);
            if benchmark.is_some() {
                command.args(["--class", npb::CLASS]);
                return Ok(command);
            }
            // What is measured is one row at least.
            let rows = if words.is_empty() { "barrier".to_owned() } else { words.join(",") };
            command.args(["--rows", &rows]);
            return Ok(command);
        }
        Kind::Mpi(mpi) => launcher(mpi, ready, tasks, scratch, program)?,
    };
    words.extend(benchmark.map(|_| npb::CLASS));
    let list = cores.map(|core| core.to_string()).join(",");
    command.args(words).env("PEERS_CORES", list).env("TMPDIR", scratch);
    let libraries =
        std::env::join_paths(&ready.folders.libraries).context("folders with a colon in their name")?;
    Ok(match ready.folders.libraries.is_empty() {
        true => command,
        false => {
            command.env("LD_LIBRARY_PATH", libraries);
            command
        }
    })
}

/// A command that ends when this program does, however that ends.
fn outliving_nobody(program: &Path) -> Command {
    match setup::setpriv() {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// An MPI's own launcher, up to and with our program. Tasks bind themselves to cores.
fn launcher(mpi: Mpi, ready: &Ready, tasks: u32, scratch: &Path, program: &Path) -> Result<Command> {
    let Folders { bin, prefix, .. } = &ready.folders;
    let names: &[&str] = match mpi {
        Mpi::Open => &["mpiexec.openmpi", "mpiexec"],
        Mpi::Mpich | Mpi::Intel => &["mpiexec.hydra", "mpiexec"],
    };
    let launcher = names.iter().map(|name| bin.join(name)).find(|path| path.is_file());
    let launcher = launcher.with_context(|| format!("no {} in {}", names.join(" and no "), bin.display()))?;
    let mut command = outliving_nobody(&launcher);
    command.args(["-n", &tasks.to_string()]);
    match mpi {
        Mpi::Open => {
            command.args(["--oversubscribe", "--bind-to", "none"]);
            command.env("OPAL_PREFIX", prefix).env("OMPI_ALLOW_RUN_AS_ROOT", "1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            // What is left of a run that was ended is in a folder that goes.
            for name in ["vader", "sm"] {
                command.env(format!("OMPI_MCA_btl_{name}_backing_directory"), scratch);
            }
        }
        Mpi::Mpich => {}
        Mpi::Intel => {
            command.env("I_MPI_ROOT", prefix).env("I_MPI_FABRICS", "shm").env("I_MPI_PIN", "0");
        }
    }
    let mut path = bin.clone().into_os_string();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    command.env("PATH", path).arg(program);
    Ok(command)
}

/// The values of rows, by their names.
pub type Values = BTreeMap<String, f64>;

/// Runs it until its end; what its tasks run is `program`. Adds the values of `rows` to `values` as they come.
///
/// # Errors
/// It did not start, ended badly, said nothing that was asked for, could not be stepped through, or was not done by the deadline.
pub fn launch(
    mut command: Command,
    program: &Path,
    rows: &[&Row],
    deadline: Duration,
    values: &mut Values,
) -> Result<()> {
    let said = tempfile::NamedTempFile::new().context("cannot make a file for what a program says")?;
    let errors = said.reopen().context("cannot open a file for what a program says")?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let begun = Instant::now();
    let mut helper = Helper::start(&mut command).context("it cannot be started")?;
    let stdout = helper.stdout().context("a program without output")?;
    let patience = Deadline::of(helper.group(), deadline);
    let mut note = |word: &str, value: f64| {
        let row = rows.iter().find(|row| row.word == word);
        row.into_iter().for_each(|row| _ = values.insert(row.name.to_owned(), value));
    };
    let mut last = String::new();
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { break };
        match Word::parse(&line) {
            Some(Word::First) => {
                note(START, begun.elapsed().as_secs_f64() * 1e3);
                if rows.iter().any(|row| row.method() == Method::Stepped) {
                    steps::count(helper.id(), program)?.iter().for_each(|(row, &value)| note(row, value));
                }
            }
            Some(Word::Still) => {
                let all = processes::memory_kib(&processes::running(helper.id(), program))?;
                note(MEMORY, all / f64::from(rows.first().map_or(1, |row| row.tasks)));
            }
            Some(Word::Value(word, value)) => note(&word, value),
            // A benchmark has a run of its own.
            Some(Word::Time(value))
                if let [row] = rows
                    && row.method() == Method::Benchmark =>
            {
                note(row.word, value);
            }
            Some(Word::Time(_)) | None => last = line,
        }
    }
    let status = helper.wait().context("waiting for its end")?;
    // Only now: one that has closed its output may still go on.
    if patience.was_missed() {
        bail!("it was not done after {} s", deadline.as_secs());
    }
    if !status.success() {
        let said = std::fs::read_to_string(said.path()).unwrap_or_default();
        let words = last_words(&said);
        bail!("{status}: {}", if words.is_empty() { last } else { words });
    }
    if values.is_empty() {
        bail!("it gave none of the rows");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::catalogue;

    fn rows(words: &str) -> Vec<&'static Row> {
        catalogue::rows(Some(words)).unwrap()
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn h6_lines_of_programs_and_of_jobs_are_read() {
        assert_eq!(Word::parse("row half-8 88.300"), Some(Word::Value("half-8".to_owned(), 88.3)));
        let job = "0.0    0.519406       row rate-8 1.037";
        assert_eq!(Word::parse(job), Some(Word::Value("rate-8".to_owned(), 1.037)));
        assert_eq!(Word::parse("0.0    0.119227       first"), Some(Word::First));
        assert_eq!(Word::parse("0.0    0.850573       315501 us"), Some(Word::Time(315.501)));
        assert_eq!(Word::parse("0.0    0.119228       still"), Some(Word::Still));
        for none in [
            "row half-8",
            "row half-8 nan",
            "row half-8 fast",
            "pamir: booting 2 nodes",
            "",
            "first row",
            "so us",
        ] {
            assert_eq!(Word::parse(none), None, "{none}");
        }
    }

    /// Of `barrier-4` and `start-16`; what came out, and what there was until then.
    fn launched(script: &str, patience: u64) -> (Result<()>, Values) {
        let (mut values, rows) = (Values::new(), rows("barrier-4,start-16"));
        let patience = Duration::from_secs(patience);
        let result = launch(shell(script), Path::new("sh"), &rows, patience, &mut values);
        (result, values)
    }

    #[test]
    fn h6_a_run_gives_the_rows_that_were_asked_for_by_their_names() {
        let (result, values) =
            launched("echo noise; echo first; echo row barrier 7.5; echo row half-8 9", 20);
        result.unwrap();
        assert_eq!(values["barrier-4"], 7.5);
        assert!(values["start-16"] >= 0.0 && values.len() == 2, "{values:?}");
    }

    #[test]
    fn h6_a_benchmark_gives_its_time_if_it_verifies() {
        let run = |script: &str| {
            let mut values = Values::new();
            let deadline = Duration::from_secs(20);
            let ended = launch(shell(script), Path::new("sh"), &rows("npb-cg"), deadline, &mut values);
            ended.map(|()| values)
        };
        let values = run("echo iteration 1; echo 0.0 0.5 2041135 us; echo zeta 17.1: verified").unwrap();
        assert_eq!(values, [("npb-cg".to_owned(), 2041.135)].into());
        let error = run("echo 2041135 us; echo zeta 3: WRONG; exit 1").unwrap_err().to_string();
        assert_eq!(error, "exit status: 1: zeta 3: WRONG");
        // What others say of time is none of their rows.
        assert_eq!(launched("echo 5 us", 20).0.unwrap_err().to_string(), "it gave none of the rows");
    }

    #[test]
    fn h6_a_run_that_fails_says_why_and_what_it_gave_before_stays() {
        let error = |script: &str, patience: u64| launched(script, patience).0.unwrap_err().to_string();
        assert_eq!(error("echo row barrier 1; echo no luck >&2; exit 2", 20), "exit status: 2: no luck");
        assert_eq!(error("echo refused; exit 3", 20), "exit status: 3: refused");
        assert_eq!(error("echo row half-8 1", 20), "it gave none of the rows");
        // All of it is gone by then: its output is closed.
        assert_eq!(error("sleep 600 & sleep 600", 1), "it was not done after 1 s");
        let (result, values) = launched("echo row barrier 3; sleep 600", 1);
        assert!(result.is_err() && values == [("barrier-4".to_owned(), 3.0)].into(), "{values:?}");
    }

    #[test]
    fn h6_our_job_is_launched_with_the_words_of_the_rows() {
        let peers = catalogue::peers(Some("pamir-mpi,pamir-threads")).unwrap();
        let said = |peer, names: &str, tasks| {
            let ready = Ready {
                peer,
                version: String::new(),
                program: "job".into(),
                benchmarks: [("npb-ft", "ft".into())].into(),
                folders: Folders::default(),
            };
            let command = command(&ready, &rows(names), tasks, [0, 1], Path::new("/dev/shm")).unwrap();
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
            words.join(" ")
        };
        let processes = said(peers[0], "barrier-4,alltoall-8-4", 4);
        let end =
            "host peers --image job --nodes 4 --harts 1 --memory 128 -- --over mpi --rows barrier,alltoall-8";
        assert!(processes.ends_with(end), "{processes}");
        let threads = said(peers[1], "start-16", 16);
        let end = "host peers --image job --nodes 1 --mode vn --harts 16 --memory 320 --contexts 1 -- --over pami --rows barrier";
        assert!(threads.ends_with(end), "{threads}");
        let benchmark = said(peers[0], "npb-ft", 2);
        let end = "host npb-ft --image ft --nodes 2 --harts 1 --memory 384 -- --over mpi --class A";
        assert!(benchmark.ends_with(end), "{benchmark}");
        let benchmark = said(peers[1], "npb-ft", 2);
        let end = "host npb-ft --image ft --nodes 1 --mode vn --harts 2 --memory 768 --contexts 1 -- --over pami --class A";
        assert!(benchmark.ends_with(end), "{benchmark}");
    }
}
