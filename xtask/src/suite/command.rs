//! A stage's command: run until its deadline, with all that it says passed on, and the tests in it counted.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::helper::Helper;

/// How a stage went.
pub(super) enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

/// How a command went, and how many tests it says have passed and failed.
pub(super) type Counted = (Verdict, u64, u64);

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
        let counts = stdout.map_or(Ok((0, 0)), |stdout| pass_on(stdout, out));
        let status = helper.wait().context("waiting for a stage");
        drop(done);
        let late = watchdog.join().unwrap_or(false);
        let (passed, failed) = counts?;
        let status = status?;
        let verdict = match (late, status.success()) {
            (true, _) => Verdict::Failed(format!("not done after {} s: ended", deadline.as_secs())),
            (_, true) => Verdict::Passed,
            _ => Verdict::Failed(status.to_string()),
        };
        Ok((verdict, passed, failed))
    })
}

/// Passes all output on, and counts tests that passed and failed.
fn pass_on(from: impl Read, out: &mut impl Write) -> Result<(u64, u64)> {
    let (mut passed, mut failed) = (0, 0);
    for line in BufReader::new(from).split(b'\n') {
        let mut line = line.context("reading a stage's output")?;
        if let Some((good, bad)) = results(&String::from_utf8_lossy(&line)) {
            passed += good;
            failed += bad;
        }
        line.push(b'\n');
        // Whoever reads may have gone; the verdict stays.
        let _ = out.write_all(&line);
    }
    Ok((passed, failed))
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
    use std::time::Instant;

    #[test]
    fn x1_results_of_cargo_test_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!(results(line), Some((12, 3)));
        assert_eq!(results("test result: ok. 7 passed; 0 failed; 0 ignored"), Some((7, 0)));
        assert_eq!(results("test n8_wakes ... ok"), None);
        assert_eq!(results(""), None);
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
        let ((verdict, ..), said) = shell("echo begun; sleep 60 & wait", Duration::from_millis(300));
        assert!(matches!(verdict, Verdict::Failed(why) if why.contains("not done after")));
        assert_eq!(said, "begun\n");
        assert!(start.elapsed() < Duration::from_secs(50), "it was waited for");
        let ((verdict, passed, _), _) =
            shell("echo 'test result: ok. 3 passed; 0 failed'", Duration::from_secs(600));
        assert!(matches!(verdict, Verdict::Passed) && passed == 3);
    }
}
