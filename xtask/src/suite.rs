//! `cargo xtask test`: every check and test there is, stage by stage.

mod command;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::arch::Arch;
use crate::doctor::succeeds;
use crate::progress::Voice;
use crate::{docs, doctor, firmware, json, run, setup, workspace};
use command::{Counted, Verdict, stream};

/// Which part of the suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All of it.
    All,
    /// What runs on the host alone.
    Host,
    /// What boots guests.
    Guests,
}

/// With this variable in the environment tests run at full size.
pub const LONG: &str = "PAMIR_LONG";
/// How long a stage may take, and that of the guests' tests.
const DEADLINES: [Duration; 2] = [Duration::from_secs(40 * 60), Duration::from_secs(90 * 60)];
/// So many times that when tests run at full size.
const LONG_TIMES: u32 = 8;
/// The stage that builds what guests boot.
const JOBS: &str = "all jobs";
/// The stage that boots guests.
const GUESTS: &str = "integration tests";
/// Integration tests that show what is an architecture's own; of other pairs of tests one is run where not all do.
const OF_AN_ARCHITECTURE: [&str; 6] =
    ["boards::", "boot::", "boot_loader::", "debugger::", "instructions::", "liveness::"];
/// All stages by name, or by the part before the colon.
const STAGES: [&str; 9] =
    ["format", "clippy", "docs", "unit tests", "documentation tests", "loom", "Miri", "fuzz", GUESTS];
/// What runs under Miri: the stage, its package, and of its tests those that run where not all do, which takes an hour; none
/// named is all. They are those next to what a device and other tasks write.
const MIRI: [(&str, &str, &[&str]); 2] = [
    ("Miri: rings", "rings", &[]),
    ("Miri: drivers", "drivers", &["virtio::", "shm::", "tree_network::", "unit::tests::card"]),
];
/// Cases of each test by properties under Miri.
const MIRI_CASES: &str = "3";
/// Says how many tests run side by side.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// How long each fuzz target runs.
const FUZZ_SECONDS: u32 = 10;
/// Instrumentation that tells libFuzzer which code an input reached.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

#[derive(Default)]
struct Stage {
    name: String,
    time: Duration,
    counted: Counted,
}

impl Stage {
    /// What failed in it, a line each: tests by their names, programs that ended before them, or else all that is known.
    fn reasons(&self) -> Vec<String> {
        let Counted { verdict, tests, cut, .. } = &self.counted;
        let failed = tests.iter().filter(|test| !test.passed).map(|test| format!("{} failed", test.name));
        let mut lines: Vec<_> = failed.chain(cut.iter().cloned()).collect();
        if let (true, Verdict::Failed(why)) = (lines.is_empty(), verdict) {
            lines.push(why.clone());
        }
        lines
    }
}

/// A stage to be run beside others.
struct Task {
    name: String,
    command: Result<Command>,
}

struct Suite<'a> {
    voice: &'a Voice,
    /// The stages to run, if not all.
    only: Option<&'a str>,
    /// What names of tests have to contain.
    filter: Option<&'a str>,
    long: bool,
    stages: Vec<Stage>,
}

/// Runs the suite; with a filter that names stages (`Miri: drivers`, `clippy`) only these, with another only the tests whose
/// name contains it, of which there must be one. `long` tests run at full size. What became of all goes into the file `json`.
/// True if nothing failed.
///
/// # Errors
/// The file cannot be written.
pub fn run(
    filter: Option<&str>,
    scope: Scope,
    long: bool,
    json: Option<&Path>,
    voice: &Voice,
) -> Result<bool> {
    json.map_or(Ok(()), json::check)?;
    let long = long || std::env::var_os(LONG).is_some();
    let (only, filter) = if filter.is_some_and(names_stages) { (filter, None) } else { (None, filter) };
    let mut suite = Suite { voice, only, filter, long, stages: Vec::new() };
    if scope != Scope::Guests {
        if filter.is_none() {
            suite.checks();
            suite.docs();
        }
        suite.host_tests();
    }
    if scope != Scope::Host {
        suite.guest_tests();
    }
    let good = suite.close();
    json.map_or(Ok(()), |file| json::write(file, &suite.results(), voice))?;
    Ok(good)
}

/// Whether `name` names a stage, or is the first word of some stages' names.
fn names_stages(name: &str) -> bool {
    STAGES.contains(&name.split(':').next().unwrap_or(name))
}

impl Suite<'_> {
    /// Whether stage `name` is one of those that run.
    fn runs(&self, name: &str) -> bool {
        let name = if name == JOBS { GUESTS } else { name };
        self.only.is_none_or(|only| name == only || name.split(':').next() == Some(only))
    }

    fn checks(&mut self) {
        self.stage("format", |voice| {
            setup::component("fmt", "rustfmt", voice)?;
            Ok(cargo(["fmt", "--all", "--check"]))
        });
        self.stage("clippy: host", |voice| {
            setup::component("clippy", "clippy", voice)?;
            let mut command = cargo(["clippy", "--workspace", "--lib", "--bins", "--tests"]);
            command.args(["--quiet", "--", "-D", "warnings"]);
            Ok(command)
        });
        for arch in Arch::ALL {
            self.stage(&format!("clippy: {arch}"), |voice| {
                let mut command = setup::toolchain(arch, voice)?.cargo("clippy", arch);
                // The kernel and the jobs, and with them every package below.
                command.args(["--package", "kernel", "--package", "jobs", "--lib", "--examples"]);
                if arch == Arch::Riscv64 {
                    // What is for timelines alone, on one of them: nothing of it is an architecture's.
                    command.args(["--features", "trace"]);
                }
                command.args(["--quiet", "--", "-D", "warnings"]);
                Ok(command)
            });
        }
        for &arch in Arch::of_processes() {
            self.stage(&format!("clippy: nodes on Linux, {arch}"), |voice| {
                let mut command = setup::toolchain(arch, voice)?.cargo("clippy", arch);
                // All packages below the jobs; what tests of the kernel need has the standard library, which a node has not.
                command.args(["--profile", "firmware", "--package", "jobs", "--examples"]);
                command.args(["--quiet", "--", "-D", "warnings"]);
                Ok(command)
            });
        }
    }

    fn docs(&mut self) {
        if self.only.is_some_and(|only| !only.starts_with("docs")) {
            return;
        }
        match docs::builds(self.voice) {
            Ok(builds) => builds.into_iter().for_each(|build| self.stage(&build.name, |_| Ok(build.command))),
            Err(error) => self.stage("docs", |_| Err(error)),
        }
    }

    fn host_tests(&mut self) {
        let mut command = cargo(["test", "--workspace", "--exclude", "tests", "--lib", "--bins", "--tests"]);
        command.arg("--no-fail-fast");
        self.tests("unit tests", command);
        let command = cargo(["test", "--doc", "--workspace", "--exclude", "tests", "--no-fail-fast"]);
        self.tests("documentation tests", command);
        let mut side_by_side = vec![self.loom()];
        if MIRI.iter().any(|(name, ..)| self.runs(name)) {
            side_by_side.extend(self.miri());
        }
        if self.filter.is_none() && self.only.is_none_or(|only| only.starts_with("fuzz")) {
            side_by_side.extend(self.fuzz());
        }
        side_by_side.retain(|task| self.runs(&task.name));
        self.together(side_by_side);
    }

    fn loom(&self) -> Task {
        let mut command = cargo(["test", "--package", "rings", "--release", "--lib", "--tests"]);
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", own_target("loom"));
        Task { name: "loom: rings".to_owned(), command: Ok(self.filtered(command)) }
    }

    fn miri(&mut self) -> Vec<Task> {
        if !succeeds(&mut setup::nightly(["miri", "--version"])) {
            doctor::miri(self.voice);
        }
        if !succeeds(&mut setup::nightly(["miri", "--version"])) {
            MIRI.iter().for_each(|(name, ..)| self.skip(name, "no nightly toolchain with Miri"));
            return Vec::new();
        }
        let task = |&(name, package, short): &(&str, &str, &[&str])| {
            let mut command = setup::nightly(["miri", "test", "--package", package, "--lib", "--tests"]);
            // Buffers are lent for ever: tests leak their memory as jobs do.
            command.env(
                "MIRIFLAGS",
                "-Zmiri-ignore-leaks -Zmiri-disable-isolation -Zmiri-permissive-provenance",
            );
            command.env("CARGO_TARGET_DIR", own_target("miri")).env("PROPTEST_CASES", MIRI_CASES);
            let all = if self.long { &[] } else { short };
            command.arg("--").args(self.filter.as_ref().map_or(all, core::slice::from_ref));
            Task { name: name.to_owned(), command: Ok(command) }
        };
        MIRI.iter().filter(|(name, ..)| self.runs(name)).map(task).collect()
    }

    fn fuzz(&mut self) -> Vec<Task> {
        let folder = workspace::root().join("drivers/fuzz");
        let sources = std::fs::read_dir(folder.join("src/bin")).into_iter().flatten().flatten();
        let mut targets: Vec<_> =
            sources.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned())).collect();
        targets.sort();
        let name = |target: &str| format!("fuzz: {target}");
        if let Err(error) = setup::cxx(self.voice) {
            targets.iter().for_each(|target| self.skip(&name(target), &format!("{error:#}")));
            return Vec::new();
        }
        let task = |target: &String| {
            let command = || {
                let corpus = own_target("fuzz").join("corpus").join(target);
                std::fs::create_dir_all(&corpus)
                    .with_context(|| format!("cannot make {}", corpus.display()))?;
                let host = workspace::host().context("rustc does not say what this machine is")?;
                // With the target named, build scripts and macros stay without the instrumentation.
                let mut command = cargo(["run", "--quiet", "--release", "--locked", "--manifest-path"]);
                command.arg(folder.join("Cargo.toml")).args(["--target", &host, "--bin", target, "--"]);
                command.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", own_target("fuzz"));
                command.arg(format!("-max_total_time={FUZZ_SECONDS}"));
                command.arg(format!("-artifact_prefix={}/{target}-", own_target("fuzz").display()));
                command.args(["-verbosity=0", "-print_final_stats=1"]).arg(corpus);
                Ok(command)
            };
            Task { name: name(target), command: command() }
        };
        targets.iter().map(task).collect()
    }

    fn guest_tests(&mut self) {
        if !self.runs(GUESTS) {
            return;
        }
        // Before tests run side by side, so that they find all there is to build and to install.
        self.stage(JOBS, |_| Ok(cargo(["xtask", "images"])));
        let mut command = cargo(["test", "--package", "tests", "--no-fail-fast"]);
        command.env(firmware::ONE_IMAGE, "1");
        // Guests wait more than they reckon: for timers, for each other, for deadlines.
        if std::env::var_os(TEST_THREADS).is_none() {
            command.env(TEST_THREADS, (2 * run::core_count()).to_string());
        }
        let mut command = self.filtered(command);
        let both = self.long || self.filter.is_some();
        self.stage(GUESTS, |voice| {
            if !both {
                let skipped = second_of_pairs(&guest_tests()?);
                voice.say(&format!(
                    "{} tests run on one of both architectures; cargo xtask test --long runs them on both",
                    skipped.len()
                ));
                command.arg("--");
                skipped.iter().for_each(|test| _ = command.args(["--skip", test]));
            }
            Ok(command)
        });
    }

    /// One stage. What it says of cargo's tests is counted.
    fn stage(&mut self, name: &str, command: impl FnOnce(&Voice) -> Result<Command>) {
        if !self.runs(name) {
            return;
        }
        self.announce(name);
        let start = Instant::now();
        let deadline = self.deadline(name);
        let outcome =
            command(self.voice).and_then(|command| stream(command, deadline, &mut std::io::stdout()));
        self.finish(name.to_owned(), start.elapsed(), outcome);
    }

    /// A stage of cargo's tests.
    fn tests(&mut self, name: &str, command: Command) {
        let command = self.filtered(command);
        self.stage(name, |_| Ok(command));
    }

    /// Stages that each keep about one processor busy, side by side; what one says is shown when it is over.
    fn together(&mut self, tasks: Vec<Task>) {
        let run = |command: Result<Command>, deadline| {
            let (start, mut said) = (Instant::now(), Vec::new());
            let outcome = command.and_then(|command| stream(command, deadline, &mut said));
            (start.elapsed(), said, outcome)
        };
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for Task { name, command } in tasks {
                self.announce(&name);
                let deadline = self.deadline(&name);
                running.push((name, scope.spawn(move || run(command, deadline))));
            }
            for (name, thread) in running {
                let failed =
                    || (Duration::ZERO, Vec::new(), Err(anyhow!("this program's own thread failed")));
                let (time, said, outcome) = thread.join().unwrap_or_else(|_| failed());
                // Whoever reads may have gone; the verdict stays.
                let _ = std::io::stdout().write_all(&said);
                self.finish(name, time, outcome);
            }
        });
    }

    /// How long a stage may take.
    fn deadline(&self, name: &str) -> Duration {
        DEADLINES[usize::from(name == GUESTS)] * if self.long { LONG_TIMES } else { 1 }
    }

    /// A command of cargo's tests, with the suite's filter and size.
    fn filtered(&self, mut command: Command) -> Command {
        if self.long {
            command.env(LONG, "1");
        }
        if let Some(filter) = self.filter {
            command.args(["--", filter]);
        }
        command
    }

    fn skip(&mut self, name: &str, why: &str) {
        let verdict = Verdict::Skipped(why.to_owned());
        let counted = Counted { verdict, ..Counted::default() };
        self.record(Stage { name: name.to_owned(), counted, ..Stage::default() });
    }

    fn announce(&self, name: &str) {
        self.voice.say(&format!("{} {name}", console::style("stage:").for_stderr().bold()));
    }

    fn finish(&mut self, name: String, time: Duration, outcome: Result<Counted>) {
        let failed = |error| Counted { verdict: Verdict::Failed(format!("{error:#}")), ..Counted::default() };
        self.record(Stage { name, time, counted: outcome.unwrap_or_else(failed) });
    }

    fn record(&mut self, mut stage: Stage) {
        // A stage may fail without any of its tests failing: by a warning, or because it does not build.
        let counted = &mut stage.counted;
        if matches!(counted.verdict, Verdict::Failed(_)) && counted.failed == 0 {
            counted.failed = 1;
        }
        if let Verdict::Failed(why) | Verdict::Skipped(why) = &counted.verdict {
            self.voice.say(&format!("{}: {why}", stage.name));
        }
        self.stages.push(stage);
    }

    /// What became of all stages and tests (SPEC X-4).
    fn results(&self) -> Value {
        let stage = |stage: &Stage| {
            let (outcome, why) = match &stage.counted.verdict {
                Verdict::Passed => ("passed", None),
                Verdict::Failed(why) => ("failed", Some(why)),
                Verdict::Skipped(why) => ("skipped", Some(why)),
            };
            let Counted { passed, failed, tests, .. } = &stage.counted;
            json!({
                "name": stage.name,
                "outcome": outcome,
                "why": why,
                "seconds": stage.time.as_secs_f64(),
                "passed": passed,
                "failed": failed,
                "tests": tests,
            })
        };
        let stages: Vec<_> = self.stages.iter().map(stage).collect();
        json::results(
            "test",
            json!({ "long": self.long, "filter": self.filter.or(self.only), "stages": stages }),
        )
    }

    /// The summary. True if nothing failed.
    fn close(&self) -> bool {
        let width = self.stages.iter().map(|stage| stage.name.len()).max().unwrap_or(0);
        let (mut passed, mut failed) = (0, 0);
        for stage in &self.stages {
            let counted = &stage.counted;
            let (word, remark) = match &counted.verdict {
                Verdict::Passed => (console::style("passed ").green(), ""),
                Verdict::Failed(_) => (console::style("failed ").red(), ""),
                Verdict::Skipped(why) => (console::style("skipped").yellow(), why.as_str()),
            };
            let seconds = stage.time.as_secs_f64();
            let tests = match counted.passed + counted.failed {
                0 => String::new(),
                _ => format!("{} passed, {} failed", counted.passed, counted.failed),
            };
            let line = format!("{word} {:width$} {seconds:>7.1} s  {tests}{remark}", stage.name);
            self.voice.print(line.trim_end());
            passed += counted.passed;
            failed += counted.failed;
        }
        if let Some(filter) = self.filter
            && passed + failed == 0
        {
            self.voice.print(&format!("no test's name contains {filter:?}, and no stage has it"));
            return false;
        }
        if let Some(only) = self.only
            && self.stages.is_empty()
        {
            self.voice.print(&format!("no stage has the name {only:?}"));
            return false;
        }
        for stage in &self.stages {
            for why in stage.reasons() {
                self.voice.print(&format!("{}: {why}", stage.name));
            }
        }
        let skipped = |stage: &Stage| match &stage.counted.verdict {
            Verdict::Skipped(why) => Some(format!("{} ({why})", stage.name)),
            _ => None,
        };
        let skipped: Vec<_> = self.stages.iter().filter_map(skipped).collect();
        let skipped = if skipped.is_empty() { "nothing".into() } else { skipped.join(", ") };
        self.voice.print(&format!("{passed} passed, {failed} failed, skipped: {skipped}"));
        failed == 0
    }
}

/// The names of the tests that boot guests.
fn guest_tests() -> Result<String> {
    let mut command = cargo(["test", "--quiet", "--package", "tests", "--test", "guests"]);
    let listed = command.args(["--", "--list", "--format", "terse"]).stderr(Stdio::inherit()).output();
    let listed = listed.context("cannot list the integration tests")?;
    ensure!(listed.status.success(), "the integration tests do not build");
    Ok(String::from_utf8_lossy(&listed.stdout).into_owned())
}

/// Of each pair of tests in `listed` that differ in the architecture alone and show nothing of its own, the one that is not run where
/// not all are. Which one depends on its name only, so that about as many are of either.
fn second_of_pairs(listed: &str) -> Vec<String> {
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let pairs = names.filter_map(|name| name.strip_suffix("::aarch64"));
    let same = pairs.filter(|pair| OF_AN_ARCHITECTURE.iter().all(|own| !pair.starts_with(own)));
    let second = |pair: &str| {
        let even = pair.bytes().map(u32::from).sum::<u32>().is_multiple_of(2);
        format!("{pair}::{}", if even { Arch::Aarch64 } else { Arch::Riscv64 })
    };
    same.map(second).collect()
}

fn cargo<const N: usize>(words: [&str; N]) -> Command {
    let mut command = workspace::cargo();
    command.args(words);
    command
}

/// Builds with other flags must not push each other out of one folder.
fn own_target(name: &str) -> PathBuf {
    workspace::target().join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r6_what_miri_runs_of_a_package_is_there() {
        for (name, package, parts) in MIRI {
            let folder = workspace::root().join(package).join("src");
            for part in parts {
                let file = folder.join(part.trim_end_matches("::").replace("::", "/"));
                assert!(file.is_dir() || file.with_extension("rs").is_file(), "{name}: there is no {part}");
            }
        }
    }

    #[test]
    fn r6_of_two_tests_that_differ_in_the_architecture_alone_one_is_run_unless_they_show_what_is_its_own() {
        let listed = "a::r1_x::aarch64: test\na::r1_x::riscv64: test\na::r1_y::aarch64: test\na::r1_y::riscv64: test\n\
            boot::n1_z::aarch64: test\nboot::n1_z::riscv64: test\nhost::h1_w: test\n";
        assert_eq!(second_of_pairs(listed), ["a::r1_x::riscv64", "a::r1_y::aarch64"]);
        let folder = workspace::root().join("tests/tests/guests");
        for own in OF_AN_ARCHITECTURE {
            let file = folder.join(own.trim_end_matches("::")).with_extension("rs");
            assert!(file.is_file(), "there is no {own}");
        }
    }

    #[test]
    fn r6_a_filter_that_matches_no_test_is_an_error() {
        let voice = Voice::quiet();
        let stage = |passed| Stage {
            name: "tests".into(),
            counted: Counted { passed, ..Counted::default() },
            ..Stage::default()
        };
        let good = |filter, passed| {
            Suite { voice: &voice, only: None, filter, long: false, stages: vec![stage(passed)] }.close()
        };
        assert!(!good(Some("NOSUCH"), 0));
        assert!(good(Some("n8_"), 1) && good(None, 0));
    }

    #[test]
    fn x4_the_schema_of_a_test_run_is_as_the_document_says() {
        let test = command::Test { name: "n8_wakes".into(), passed: true, ended: 1.5 };
        let counted = Counted { passed: 1, tests: vec![test], ..Counted::default() };
        let stages = vec![Stage { name: "unit tests".into(), counted, ..Stage::default() }];
        let suite = Suite { voice: &Voice::quiet(), only: None, filter: None, long: false, stages };
        let results = suite.results();
        json::tests::same(&results, "## `cargo xtask test`");
        assert_eq!(results["stages"][0]["tests"][0]["name"], "n8_wakes");
    }

    #[test]
    fn r6_a_filter_may_name_stages_and_then_no_other_runs() {
        let voice = Voice::quiet();
        let suite = |only| Suite { voice: &voice, only, filter: None, long: false, stages: Vec::new() };
        for (name, runs) in
            [("Miri: drivers", [true, false, false]), ("Miri", [true, true, false]), ("loom", [false; 3])]
        {
            assert!(names_stages(name));
            let suite = suite(Some(name));
            assert_eq!(["Miri: drivers", "Miri: rings", "unit tests"].map(|stage| suite.runs(stage)), runs);
        }
        assert!(suite(None).runs("unit tests") && !suite(Some("clippy: moon")).close());
        assert!(!names_stages("n8_") && !names_stages("unit::tests"));
    }

    #[test]
    fn r6_long_tests_are_told_so_and_have_more_time() {
        let voice = Voice::quiet();
        let told = |long| {
            let suite = Suite { voice: &voice, only: None, filter: None, long, stages: Vec::new() };
            let command = suite.filtered(Command::new("true"));
            (command.get_envs().any(|(name, _)| name == LONG), suite.deadline(GUESTS))
        };
        let (short, long) = (told(false), told(true));
        assert!(!short.0 && long.0 && long.1 > short.1);
    }
}
