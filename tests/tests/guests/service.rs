//! Nodes that stay do one job after the other (SPEC S-1).

use std::sync::Arc;
use std::time::Duration;
use tests::{BAD_WIRE, expect_clean, on_both_architectures};
use xtask::progress::Voice;
use xtask::service::{self, Then};
use xtask::{Arch, Board, Mode, Outcome, Partition, Run};

const DEADLINE: Duration = Duration::from_secs(120);

fn job(name: &str, arch: Arch, nodes: u32) -> Run {
    Run::new(name).arch(arch).torus(nodes.to_string()).timeout(DEADLINE)
}

/// How `run` went, and how many emulators were started for it.
fn on(partition: &mut Partition, run: Run) -> (Outcome, u32) {
    let outcome = run.run_on(partition).unwrap();
    (outcome, partition.started())
}

#[test]
fn s1_nodes_of_each_board_stay() {
    for board in Board::ALL.into_iter().filter(|board| board.is_emulated()) {
        let arch = board.archs()[0];
        let mut partition = Partition::new(2).unwrap();
        for started in [2, 0] {
            let (outcome, starts) = on(&mut partition, job("hello", arch, 2).board(board));
            expect_clean(&outcome);
            assert_eq!(starts, started, "{board}");
        }
    }
}

on_both_architectures! {
    fn s1_twenty_jobs_run_on_nodes_that_were_started_once(arch) {
        let mut partition = Partition::new(2).unwrap();
        for turn in 0..20 {
            let run = match turn % 5 {
                0 => job("hello", arch, 2),
                1 => job("hello", arch, 2).mode(Mode::Vn).tree(false),
                2 => job("fence", arch, 2).faults(BAD_WIRE),
                3 => job("coll", arch, 2).args(["--collective", "allreduce", "--sizes", "8"]),
                _ => job("tree", arch, 2),
            };
            let (outcome, started) = on(&mut partition, run);
            outcome.expect_success();
            if turn % 5 != 2 {
                expect_clean(&outcome);
            }
            assert_eq!(started, if turn == 0 { 2 } else { 0 }, "turn {turn}");
        }
    }

    fn s1_a_job_that_crashes_hangs_or_loses_a_node_leaves_its_nodes_to_the_next(arch) {
        let mut partition = Partition::new(2).unwrap();
        on(&mut partition, job("hello", arch, 2)).0.expect_success();
        let next = |partition: &mut Partition| {
            let (outcome, started) = on(partition, job("hello", arch, 2));
            expect_clean(&outcome);
            started
        };
        // The kernel reports; the other node's hears of nothing and is stopped.
        let (crashed, started) = on(&mut partition, job("faults", arch, 2).args(["panic"]));
        assert!(!crashed.success() && crashed.reports().any(|line| line.contains("panic on node")), "{}", crashed.explain());
        assert_eq!((started, next(&mut partition)), (0, 2));
        // What it was told is more than it takes.
        let (refused, _) = on(&mut partition, job("hello", arch, 2).bootargs_override(1, "x".repeat(9000)));
        assert!(refused.reports().any(|line| line.contains("over 8191 bytes")), "{}", refused.explain());
        next(&mut partition);
        let (hangs, _) = on(&mut partition, job("alive", arch, 2).timeout(Duration::from_secs(3)));
        assert_eq!(hangs.exit_code(), 124, "{}", hangs.explain());
        assert_eq!(next(&mut partition), 2);
        let (killed, _) = on(&mut partition, job("alive", arch, 2).kill("node=1@100ms"));
        assert!(killed.failures().any(|failure| failure.contains("signal 9")), "{}", killed.explain());
        assert!(next(&mut partition) >= 1);
        // An agent never ends: its harts are not turned off.
        on(&mut partition, job("hello", arch, 2).agent_core(true)).0.expect_success();
        assert_eq!(next(&mut partition), 2);
        // A cable that was pulled is plugged in again.
        let unplugged = job("alive", arch, 2).unplug("node=1@0s").silence(Duration::from_secs(2));
        let (unplugged, _) = on(&mut partition, unplugged);
        assert!(unplugged.failures().any(|failure| failure.contains("its link to the torus was down")), "{}", unplugged.explain());
        next(&mut partition);
    }

    fn s1_two_jobs_at_once_have_nodes_of_their_own(arch) {
        let reader = |words: &str| {
            let (nodes, name) = words.split_once(' ').expect("nodes and a job");
            let run = job(name, arch, nodes.parse().expect("a number"));
            let run = if name == "alive" { run.args(["--seconds", "3"]) } else { run };
            Ok((run, Box::new(|_: &Outcome, _: &Voice| Ok(())) as Then))
        };
        let lines = "2 alive\n2 hello\n4 hello\n";
        let served =
            service::serve(4, false, Box::new(lines.as_bytes()), &reader, &Arc::default(), &Voice::quiet()).unwrap();
        let results = served.json();
        assert!(served.success(), "{results:#}");
        let of = |job: usize, key: &str| results["jobs"][job][key].to_string();
        assert_eq!([0, 1, 2].map(|job| of(job, "nodes")), ["[0,1]", "[2,3]", "[0,1,2,3]"]);
        assert_eq!([0, 1, 2].map(|job| of(job, "started")), ["2", "2", "0"]);
    }
}
