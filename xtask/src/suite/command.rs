//! A stage's command: run until its deadline, with all that it says passed on, and the tests in it counted.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::helper::Helper;

/// How a stage went.
#[derive(Default)]
pub(super) enum Verdict {
    #[default]
    Passed,
    Failed(String),
    Skipped(String),
}

/// A test that a command ran.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Test {
    /// Its name.
    pub(super) name: String,
    /// Whether it passed.
    pub(super) passed: bool,
    /// When it was over, in seconds since the command began.
    pub(super) ended: f64,
}

/// How a command went, and what it says of its tests.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) verdict: Verdict,
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) tests: Vec<Test>,
    /// Test programs that ended before their tests did, by what they said last.
    pub(super) cut: Vec<String>,
}

/// Runs a command until its deadline, passes its output on to `out`, and counts cargo's test results in it.
pub(super) fn stream(mut command: Command, deadline: Duration, out: &mut impl Write) -> Result<Counted> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let program = command.get_program().display().to_string();
    let mut helper = Helper::start(&mut command).with_context(|| format!("cannot run {program}"))?;
    let (stdout, group) = (helper.stdout(), helper.group());
    let (done, watch) = channel::<()>();
    std::thread::scope(|scope| {
        // Ended with all that it started, which might hold its output open.
        let watchdog = scope.spawn(move || {
            let late = watch.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout);
            if late {
                group.end();
            }
            late
        });
        let counted = stdout.map_or_else(|| Ok(Counted::default()), |stdout| pass_on(stdout, out));
        let status = helper.wait().context("waiting for a stage");
        drop(done);
        let late = watchdog.join().unwrap_or(false);
        let (counted, status) = (counted?, status?);
        let verdict = match (late, status.success()) {
            (true, _) => Verdict::Failed(format!("not done after {} s: ended", deadline.as_secs())),
            (_, true) => Verdict::Passed,
            _ => Verdict::Failed(status.to_string()),
        };
        Ok(Counted { verdict, ..counted })
    })
}

/// Passes all output on, and counts tests that passed and failed.
fn pass_on(from: impl Read, out: &mut impl Write) -> Result<Counted> {
    let (start, mut counted) = (Instant::now(), Counted::default());
    // How many tests the program under way has, and where those begin that it is done with.
    let mut program: Option<(u64, usize)> = None;
    for line in BufReader::new(from).split(b'\n') {
        let mut line = line.context("reading a stage's output")?;
        let text = String::from_utf8_lossy(&line);
        if let Some(tests) = announced(&text) {
            let begun = program.replace((tests, counted.tests.len()));
            counted.cut.extend(begun.map(|(tests, from)| cut(tests, &counted.tests[from..])));
        }
        if let Some((good, bad)) = results(&text) {
            counted.passed += good;
            counted.failed += bad;
            program = None;
        }
        if let Some((name, passed)) = verdict(&text) {
            let ended = start.elapsed().as_secs_f64();
            counted.tests.push(Test { name: name.to_owned(), passed, ended });
        }
        line.push(b'\n');
        // Whoever reads may have gone; the verdict stays.
        let _ = out.write_all(&line);
    }
    counted.cut.extend(program.map(|(tests, from)| cut(tests, &counted.tests[from..])));
    Ok(counted)
}

/// What there is to say of a program of so many `tests` that ended when those in `over` were.
fn cut(tests: u64, over: &[Test]) -> String {
    let after = over.last().map(|last| format!(", after {}", last.name)).unwrap_or_default();
    format!("a test program ended when {} of its {tests} tests were over{after}", over.len())
}

/// The number in a line such as `running 12 tests`.
fn announced(line: &str) -> Option<u64> {
    let (count, word) = line.trim().strip_prefix("running ")?.split_once(' ')?;
    ["test", "tests"].contains(&word).then(|| count.parse().ok())?
}

/// The name in a line such as `test n8_wakes ... ok`, and whether it passed.
fn verdict(line: &str) -> Option<(&str, bool)> {
    let (name, word) = line.trim().strip_prefix("test ")?.split_once(" ... ")?;
    ["ok", "FAILED"].contains(&word).then_some((name, word == "ok"))
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

    #[test]
    fn x4_what_became_of_each_test_is_told() {
        assert_eq!(verdict("test n8_wakes ... ok"), Some(("n8_wakes", true)));
        assert_eq!(verdict("test a::b - should panic ... FAILED"), Some(("a::b - should panic", false)));
        assert_eq!(verdict("test result: ok. 3 passed; 1 failed; 0 ignored"), None);
        let (counted, _) = shell("echo 'test a ... ok'; echo 'test b ... FAILED'", Duration::from_secs(600));
        let told: Vec<_> = counted.tests.iter().map(|test| (test.name.as_str(), test.passed)).collect();
        assert_eq!(told, [("a", true), ("b", false)]);
        assert!(counted.tests[0].ended <= counted.tests[1].ended);
    }

    #[test]
    fn x4_a_test_program_that_ends_before_its_tests_is_told() {
        let (counted, _) = shell(
            "echo 'running 3 tests'; echo 'test a ... ok'; echo 'running 1 test'; echo 'test b ... ok'; \
             echo 'test result: ok. 1 passed; 0 failed'; echo 'running 2 tests'; exit 101",
            Duration::from_secs(600),
        );
        assert!(matches!(counted.verdict, Verdict::Failed(_)));
        assert_eq!(
            counted.cut,
            [
                "a test program ended when 1 of its 3 tests were over, after a",
                "a test program ended when 0 of its 2 tests were over",
            ]
        );
    }

    fn shell(script: &str, deadline: Duration) -> (Counted, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut said = Vec::new();
        let counted = stream(command, deadline, &mut said).expect("a shell");
        (counted, String::from_utf8(said).expect("text"))
    }

    #[test]
    fn r6_a_stage_past_its_deadline_is_ended_with_all_it_started() {
        // What it started holds the output open: reading it would take a minute.
        let start = Instant::now();
        let (counted, said) = shell("echo begun; sleep 60 & wait", Duration::from_millis(300));
        assert!(matches!(counted.verdict, Verdict::Failed(why) if why.contains("not done after")));
        assert_eq!(said, "begun\n");
        assert!(start.elapsed() < Duration::from_secs(50), "it was waited for");
        let (counted, _) = shell("echo 'test result: ok. 3 passed; 0 failed'", Duration::from_secs(600));
        assert!(matches!(counted.verdict, Verdict::Passed) && counted.passed == 3);
    }
}
