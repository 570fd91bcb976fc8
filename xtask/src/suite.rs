//! `cargo xtask test`: every check and test there is, stage by stage.

use std::io::{BufRead as _, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use crate::arch::Arch;
use crate::doctor::succeeds;
use crate::progress::Voice;
use crate::{firmware, setup, workspace};

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

/// How long each fuzz target runs.
const FUZZ_SECONDS: u32 = 10;
/// Instrumentation that tells libFuzzer which code an input reached.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

/// How a stage went.
enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

struct Stage {
    name: String,
    time: Duration,
    verdict: Verdict,
    passed: u64,
    failed: u64,
}

/// A stage to be run beside others.
struct Task {
    name: String,
    command: Result<Command>,
}

struct Suite<'a> {
    voice: &'a Voice,
    filter: Option<&'a str>,
    stages: Vec<Stage>,
}

/// Runs the suite; with a filter only the tests whose name contains it. True if nothing failed.
pub fn run(filter: Option<&str>, scope: Scope, voice: &Voice) -> Result<bool> {
    let mut suite = Suite { voice, filter, stages: Vec::new() };
    if scope != Scope::Guests {
        if filter.is_none() {
            suite.checks();
        }
        suite.host_tests();
    }
    if scope != Scope::Host {
        suite.guest_tests();
    }
    Ok(suite.close())
}

impl Suite<'_> {
    fn checks(&mut self) {
        self.stage("format", |_| Ok(cargo(["fmt", "--all", "--check"])));
        self.stage("clippy: host", |_| {
            let mut command = cargo(["clippy", "--workspace", "--lib", "--bins", "--tests"]);
            command.args(["--quiet", "--", "-D", "warnings"]);
            Ok(command)
        });
        for arch in Arch::ALL {
            self.stage(&format!("clippy: {arch}"), |voice| {
                let mut command = setup::toolchain(arch, voice)?.cargo("clippy", arch);
                // The kernel and its jobs, and with them every package below.
                command.args([
                    "--package",
                    "kernel",
                    "--lib",
                    "--examples",
                    "--quiet",
                    "--",
                    "-D",
                    "warnings",
                ]);
                Ok(command)
            });
        }
    }

    fn host_tests(&mut self) {
        let mut command = cargo(["test", "--workspace", "--exclude", "tests", "--lib", "--bins", "--tests"]);
        command.arg("--no-fail-fast");
        self.tests("unit tests", command);
        let command = cargo(["test", "--doc", "--workspace", "--exclude", "tests", "--no-fail-fast"]);
        self.tests("documentation tests", command);
        let mut side_by_side = vec![self.loom()];
        side_by_side.extend(self.miri());
        if self.filter.is_none() {
            side_by_side.extend(self.fuzz());
        }
        self.together(side_by_side);
    }

    fn loom(&self) -> Task {
        let mut command = cargo(["test", "--package", "rings", "--release", "--lib", "--tests"]);
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", own_target("loom"));
        Task { name: "loom: rings".to_owned(), command: Ok(self.filtered(command)) }
    }

    fn miri(&mut self) -> Option<Task> {
        let name = "Miri: rings".to_owned();
        if !succeeds(nightly(["miri", "--version"]).current_dir(workspace::root())) {
            self.skip(&name, "no nightly toolchain with Miri");
            return None;
        }
        let mut command = nightly(["miri", "test", "--package", "rings", "--lib", "--tests"]);
        // Buffers are lent for ever: tests leak their memory as jobs do.
        command.env("MIRIFLAGS", "-Zmiri-ignore-leaks").env("CARGO_TARGET_DIR", own_target("miri"));
        Some(Task { name, command: Ok(self.filtered(command)) })
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
                let mut command = cargo(["run", "--quiet", "--release", "--manifest-path"]);
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
        let start = Instant::now();
        self.announce("all jobs");
        // What is missing is installed here, once, before tests run side by side.
        let emulators =
            Arch::ALL.into_iter().try_for_each(|arch| setup::emulator(arch, self.voice).map(drop));
        let built = emulators
            .and_then(|()| setup::setpriv(self.voice))
            .and_then(|_| firmware::build_all("info", self.voice));
        let verdict = match built {
            Ok(()) => Verdict::Passed,
            Err(error) => Verdict::Failed(format!("{error:#}")),
        };
        let name = "all jobs".to_owned();
        self.record(Stage { name, time: start.elapsed(), verdict, passed: 0, failed: 0 });
        let mut command = cargo(["test", "--package", "tests", "--no-fail-fast"]);
        command.env(firmware::ONE_IMAGE, "1");
        self.tests("integration tests", command);
    }

    /// One stage. What it says of cargo's tests is counted.
    fn stage(&mut self, name: &str, command: impl FnOnce(&Voice) -> Result<Command>) {
        self.announce(name);
        let start = Instant::now();
        let outcome = command(self.voice).and_then(|command| stream(command, &mut std::io::stdout()));
        self.finish(name.to_owned(), start.elapsed(), outcome);
    }

    /// A stage of cargo's tests.
    fn tests(&mut self, name: &str, command: Command) {
        let command = self.filtered(command);
        self.stage(name, |_| Ok(command));
    }

    /// Stages that each keep about one processor busy, side by side; what one says is shown when it is over.
    fn together(&mut self, tasks: Vec<Task>) {
        let run = |command: Result<Command>| {
            let (start, mut said) = (Instant::now(), Vec::new());
            let outcome = command.and_then(|command| stream(command, &mut said));
            (start.elapsed(), said, outcome)
        };
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for Task { name, command } in tasks {
                self.announce(&name);
                running.push((name, scope.spawn(move || run(command))));
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

    /// A command of cargo's tests, with the suite's filter.
    fn filtered(&self, mut command: Command) -> Command {
        if let Some(filter) = self.filter {
            command.args(["--", filter]);
        }
        command
    }

    fn skip(&mut self, name: &str, why: &str) {
        let verdict = Verdict::Skipped(why.to_owned());
        self.record(Stage { name: name.to_owned(), time: Duration::ZERO, verdict, passed: 0, failed: 0 });
    }

    fn announce(&self, name: &str) {
        self.voice.say(&format!("{} {name}", console::style("stage:").for_stderr().bold()));
    }

    fn finish(&mut self, name: String, time: Duration, outcome: Result<(Verdict, u64, u64)>) {
        let failed = |error| (Verdict::Failed(format!("{error:#}")), 0, 0);
        let (verdict, passed, failed) = outcome.unwrap_or_else(failed);
        self.record(Stage { name, time, verdict, passed, failed });
    }

    fn record(&mut self, mut stage: Stage) {
        // A stage may fail without any of its tests failing: by a warning, or because it does not build.
        if matches!(stage.verdict, Verdict::Failed(_)) && stage.failed == 0 {
            stage.failed = 1;
        }
        if let Verdict::Failed(why) | Verdict::Skipped(why) = &stage.verdict {
            self.voice.say(&format!("{}: {why}", stage.name));
        }
        self.stages.push(stage);
    }

    /// The summary. True if nothing failed.
    fn close(&self) -> bool {
        let width = self.stages.iter().map(|stage| stage.name.len()).max().unwrap_or(0);
        let (mut passed, mut failed) = (0, 0);
        for stage in &self.stages {
            let (word, remark) = match &stage.verdict {
                Verdict::Passed => (console::style("passed ").green(), ""),
                Verdict::Failed(_) => (console::style("failed ").red(), ""),
                Verdict::Skipped(why) => (console::style("skipped").yellow(), why.as_str()),
            };
            let seconds = stage.time.as_secs_f64();
            let tests = match stage.passed + stage.failed {
                0 => String::new(),
                _ => format!("{} passed, {} failed", stage.passed, stage.failed),
            };
            let line = format!("{word} {:width$} {seconds:>7.1} s  {tests}{remark}", stage.name);
            self.voice.print(line.trim_end());
            passed += stage.passed;
            failed += stage.failed;
        }
        self.voice.print(&format!("{passed} passed, {failed} failed"));
        failed == 0
    }
}

fn cargo<const N: usize>(words: [&str; N]) -> Command {
    let mut command = workspace::cargo();
    command.args(words);
    command
}

/// A cargo command of rustup's nightly toolchain.
fn nightly<const N: usize>(words: [&str; N]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root()).arg("+nightly").args(words);
    // These name the toolchain that built this program.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTDOC");
    command
}

/// Builds with other flags must not push each other out of one folder.
fn own_target(name: &str) -> PathBuf {
    workspace::target().join(name)
}

/// Runs a command, passes its output on to `out`, and counts cargo's test results in it.
fn stream(mut command: Command, out: &mut impl Write) -> Result<(Verdict, u64, u64)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let program = command.get_program().display().to_string();
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let (mut passed, mut failed) = (0, 0);
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let mut line = line.context("reading a stage's output")?;
            if let Some((good, bad)) = results(&String::from_utf8_lossy(&line)) {
                passed += good;
                failed += bad;
            }
            line.push(b'\n');
            out.write_all(&line).context("writing to the standard output")?;
        }
    }
    let status = child.wait().context("waiting for a stage")?;
    let verdict = if status.success() { Verdict::Passed } else { Verdict::Failed(status.to_string()) };
    Ok((verdict, passed, failed))
}

/// The counts in a line such as `test result: ok. 3 passed; 1 failed; 0 ignored; ...`.
fn results(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
    let count =
        |word: &str| counts.split("; ").find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok());
    Some((count("passed")?, count("failed")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_results_of_cargo_test_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!(results(line), Some((12, 3)));
        assert_eq!(results("test result: ok. 7 passed; 0 failed; 0 ignored"), Some((7, 0)));
        assert_eq!(results("test n8_wakes ... ok"), None);
        assert_eq!(results(""), None);
    }
}
