//! Every job, run by processes of this machine: on a good wire, on a bad one, and with a task on each hart (SPEC H-1, H-2).

use std::time::Duration;
use tests::{count_lines, expect_clean, long};
use xtask::run::Way;
use xtask::setup::has_nightly_source;
use xtask::{Arch, Board, Mode, Outcome, Run, jobs};

const DEADLINE: Duration = Duration::from_secs(120);
/// A wire that loses and reorders, always the same packets.
const BAD_WIRE: &str = "drop=1%,reorder=5%,seed=3";

/// How a job ends.
#[derive(Clone, Copy)]
enum End {
    /// Well, having said this; nothing if it is empty.
    Well(&'static str),
    /// By a report with these words: to fail is what it is for.
    Report(&'static str),
    /// It does not begin: the host has not what it asks for. These words of the error say what has.
    Refused(&'static str),
}
use End::{Refused, Report, Well};

/// One job, small.
struct Job {
    name: &'static str,
    args: &'static [&'static str],
    torus: &'static str,
    end: End,
    /// Words of the error with a task on each hart, if it is none for that.
    one_task: Option<&'static str>,
    /// What it says with a task on each hart in the place of what it says else.
    in_vn: Option<&'static str>,
    /// Runs in each test of this file, not only in those at full size: its traffic is like no other's.
    always: bool,
}

const fn job(name: &'static str, args: &'static [&'static str], torus: &'static str, end: End) -> Job {
    Job { name, args, torus, end, one_task: None, in_vn: None, always: false }
}

impl Job {
    const fn with_one_task(self, refusal: &'static str) -> Self {
        Self { one_task: Some(refusal), ..self }
    }

    const fn says_in_vn(self, line: &'static str) -> Self {
        Self { in_vn: Some(line), ..self }
    }

    const fn always(self) -> Self {
        Self { always: true, ..self }
    }

    fn run(&self) -> Run {
        let run = Run::new(self.name).board(Board::Linux).torus(self.torus).args(self.args.iter().copied());
        run.timeout(DEADLINE).refuse_early()
    }

    /// Runs it as `change` has it, and looks how it ends.
    #[track_caller]
    fn expect(&self, change: impl FnOnce(Run) -> Run) -> Option<Outcome> {
        // For the one that wants a directory of the host's.
        let place = tempfile::tempdir().unwrap();
        let run = match self.name {
            "io" => self.run().files(place.path()).io_program(env!("CARGO_BIN_EXE_io-node")),
            _ => self.run(),
        };
        let outcome = change(run).run();
        let name = self.name;
        let outcome = match self.end {
            Refused(why) => {
                let error = outcome.map(|_| ()).expect_err(name).to_string();
                assert!(error.contains(why), "{name}: {error}");
                return None;
            }
            Well(_) | Report(_) => outcome.unwrap_or_else(|error| panic!("{name}: {error:#}")),
        };
        match self.end {
            Well(line) => {
                assert!(outcome.success(), "{name}: {}", outcome.explain());
                outcome.expect_success();
                assert!(
                    line.is_empty() || count_lines(&outcome, line) > 0,
                    "{name} does not say {line:?}: {}",
                    outcome.explain()
                );
                assert_eq!(count_lines(&outcome, "WRONG"), 0, "{name}: {}", outcome.explain());
                Some(outcome)
            }
            Report(words) => {
                assert!(!outcome.success(), "{name}");
                let reported = outcome.reports().any(|line| line.contains(words));
                assert!(reported, "{name}: {}", outcome.explain());
                None
            }
            Refused(_) => None,
        }
    }
}

const VERIFIED: End = Well(": verified");

const JOBS: &[Job] = &[
    job("accumulate", &["--count", "1001"], "2", Well("advice")).with_one_task("for two tasks"),
    job("affinity", &[], "2x2", Well("messages between them")),
    job("alive", &["--seconds", "1"], "2x2", Well("was answered")),
    job("all-pairs", &[], "2x2", Well(" 0 wrong, 0 protocol errors")),
    job("anew", &[], "2x2", Well("heard 20 words, 0 of another client")),
    job("armci", &[], "2x2", Well(" 0 wrong")),
    job("board", &[], "1", Well("cache line, to a hart and back")).says_in_vn("copy: "),
    job("chatter", &["--lines", "80"], "1", Well("lines were dropped")).with_one_task("in SMP mode"),
    job("coll", &["--sizes", "8,4096", "--rounds", "2"], "2x2", Well(" rows, 0 wrong results")),
    job("copies", &[], "1", Well("were copied and moved right")),
    job("endpoints", &[], "2x2", Well("root with 2 links")).with_one_task("--mode smp"),
    job("faults", &["panic"], "2", Report("a panic, as asked for")),
    job("fence", &[], "2x2", Well("all done")),
    job("gups", &["--updates", "2000", "--log2", "10"], "2x2", VERIFIED),
    job("halo3d", &["--size", "11"], "2x2", VERIFIED),
    job("harts", &[], "2x2", Well("runs on its hart 1")).says_in_vn("runs on its hart 0"),
    job("hello", &[], "2x2", Well("tasks said hello")),
    job("hostile", &[], "2x2", Well("honest messages arrived")),
    job("idle", &["--seconds", "1"], "2x2", Well("")),
    job("instructions", &["alone"], "1", Refused("cargo xtask bench instructions")),
    job("io", &["--size", "1"], "2x2", Well("file per task")),
    job("modules", &["--rounds", "20"], "2x2", Well(" checks, 0 failed")),
    job("mpi-suite", &[], "2x2", Well(" checks, 0 failed")),
    job("npb-cg", &[], "2x2", VERIFIED),
    job("npb-ep", &[], "2x2", VERIFIED),
    job("npb-ft", &[], "2x2", VERIFIED),
    job("npb-is", &[], "2x2", VERIFIED),
    job("npb-mg", &[], "2x2", VERIFIED).always(),
    job("peers", &["--rows", "half-8,rate-8,allreduce-8"], "2", Well("row allreduce-8 ")),
    job("ping", &["--rounds", "20"], "2x2", Well("bare frames, 1 hop")),
    job("rma", &["--rounds", "5"], "2", Well(" rows, 0 wrong")),
    job("segments", &[], "2x2", Well("whose numbers add up to")),
    job("shmem", &[], "2x2", Well(" 0 wrong")),
    job("snippets", &[], "2x2", Well("the sum of all numbers is")),
    job("stalled", &["--messages", "20000"], "2x2", Well("20000 messages came, 0 out of order")),
    job("tree", &[], "2x2", Well("combinations of all operators and types, all right")),
    job("wake", &[], "2", Well("woken by a timer, not before its time"))
        .says_in_vn("questions were answered"),
];

#[test]
fn h1_the_table_has_every_job() {
    let listed: Vec<_> = jobs::list().unwrap().into_iter().map(|job| job.name).collect();
    assert_eq!(JOBS.iter().map(|job| job.name).collect::<Vec<_>>(), listed);
}

#[test]
fn h1_h2_every_job_runs_in_shared_memory() {
    for job in JOBS {
        let Some(outcome) = job.expect(|run| run) else { continue };
        // One throws garbage, which others drop.
        if job.name != "hostile" {
            expect_clean(&outcome);
        }
        let shared = job.torus != "1";
        assert_eq!(outcome.way == Way::Segment, shared, "{}", outcome.explain());
    }
}

/// On an AArch64 machine the others are those.
#[test]
fn h1_jobs_run_on_linux_of_another_processor() {
    for (job, &arch) in
        JOBS.iter().flat_map(|job| Arch::of_processes()[1..].iter().map(move |arch| (job, arch)))
    {
        if ["copies", "hello", "mpi-suite", "npb-mg", "rma", "shmem"].contains(&job.name) || long() {
            job.expect(|run| run.arch(arch));
            job.expect(|run| run.arch(arch).faults(BAD_WIRE));
        }
    }
}

/// In shared memory with a task on each hart, where that can be; on a bad wire with one task to a node.
#[test]
fn h1_no_harts_of_a_job_race() {
    if !has_nightly_source() {
        return;
    }
    for job in JOBS.iter().filter(|job| ["all-pairs", "mpi-suite"].contains(&job.name) || long()) {
        if job.one_task.is_none() {
            let job = Job { end: job.in_vn.map_or(job.end, Well), ..*job };
            job.expect(|run| run.races(true).mode(Mode::Vn));
        }
        job.expect(|run| run.races(true).faults(BAD_WIRE));
    }
}

#[test]
fn h1_r1_every_job_runs_on_a_wire_that_loses_and_reorders() {
    for job in JOBS {
        if let Some(outcome) = job.expect(|run| run.faults(BAD_WIRE)) {
            assert!(matches!(outcome.way, Way::Fabric(_)));
        }
    }
}

#[test]
fn h1_n6_jobs_run_with_a_task_on_each_hart_or_say_why_not() {
    for job in JOBS {
        if let Some(why) = job.one_task {
            let error = job.run().mode(Mode::Vn).run().map(|_| ()).expect_err(job.name).to_string();
            assert!(error.contains(why), "{}: {error}", job.name);
        } else if job.always || long() {
            let job = Job { end: job.in_vn.map_or(job.end, Well), ..*job };
            job.expect(|run| run.mode(Mode::Vn));
            job.expect(|run| run.mode(Mode::Vn).faults(BAD_WIRE));
        }
    }
}
