//! Living runs are looked into while they go on (SPEC S-1, S-3).

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tests::{expect_clean, on_both_architectures};
use xtask::inspect::inspect;
use xtask::{Board, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(120);

/// What is told of a node of the run `name`, or why nothing is.
pub fn told(name: &str, node: u32) -> String {
    inspect(None, Some(node), Some(name)).unwrap_or_else(|error| error.to_string())
}

/// Has `run` run, under a name that no other has, and calls `look` with that every tenth of a second until it has seen all.
pub fn look(run: Run, mut look: impl FnMut(&str) -> bool) -> Outcome {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let name = format!("inspected-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let parent = tempfile::tempdir().unwrap();
    let run = run.logs(parent.path().join(&name)).timeout(DEADLINE);
    let running = std::thread::spawn(move || run.run().unwrap());
    let mut seen = false;
    // It has a deadline, once its image is built.
    while !seen && !running.is_finished() {
        std::thread::sleep(Duration::from_millis(100));
        seen = look(&name);
    }
    let last = [0, 1].map(|node| told(&name, node));
    let outcome = running.join().unwrap();
    assert!(seen, "not seen: {last:#?}\n{}", outcome.explain());
    assert!(told(&name, 0).contains("alive"), "it is over");
    outcome
}

#[test]
fn s3_without_a_living_run_there_is_an_error() {
    let nowhere = tempfile::tempdir().unwrap();
    for (node, run) in [(None, None), (Some(0), None), (None, Some("run-1"))] {
        let error = inspect(Some(nowhere.path()), node, run).unwrap_err().to_string();
        assert!(error.starts_with("no run of this workspace is alive"), "{error}");
    }
    assert!(inspect(Some(Path::new("none")), None, None).is_err());
}

on_both_architectures! {
    fn s1_s3_a_living_job_is_seen_and_ends_well(arch) {
        let run = Run::new("alive").arch(arch).torus("2").args(["--seconds", "15"]);
        let outcome = look(run, |name| {
            // It sent all that it may, and sleeps until the other, which computes, takes it.
            let sleeps = "(kernel::wakeup::sleep";
            let fifos = "FIFOs of client 0 task 0 context 0: injected ";
            let waits = ["  hart 0 pc 0x", "  hart 1 pc 0x", sleeps, fifos, "retired 0 (50 waiting)", "no place for more to node 0", "; link +x to node 0: "];
            let computes = ["  hart 0 pc 0x", "alive::compute", sleeps, fifos, "computes for 15 seconds"];
            let line = format!("{name}: alive on board virt, {arch}, torus 2");
            let both = [&line, "\n  node 0 (alive): sent ", "\n  node 1 (alive): sent "];
            let has = |told: &str, words: &[&str]| words.iter().all(|word| told.contains(word));
            if !has(&told(name, 1), &waits) || !has(&told(name, 0), &computes) {
                return false;
            }
            let all = inspect(None, None, Some(name)).unwrap();
            assert!(has(&all, &both), "{all}");
            assert_eq!(told(name, 9), format!("{name}: there is no node 9: the last one is 1"));
            true
        });
        expect_clean(&outcome);
    }
}

#[test]
fn s3_h1_of_a_node_that_is_a_process_is_said_what_is_not_to_be_had() {
    let run = Run::new("idle").board(Board::Linux).torus("2").args(["--seconds", "5"]);
    let outcome = look(run, |name| {
        let seen = told(name, 1);
        let words = ["thread ", "FIFOs of client ", "no control channel", "messages go through memory"];
        words.iter().all(|word| seen.contains(word))
    });
    expect_clean(&outcome);
}
