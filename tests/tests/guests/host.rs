//! Nodes that are processes of this machine (SPEC H-1, H-2, H-4).

use std::time::Duration;
use tests::{count_lines, expect_clean, expect_success_on_a_bad_wire, long};
use xtask::node::Exit;
use xtask::run::{Ending, Way};
use xtask::{Board, Mode, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(120);

fn host(job: &str) -> Run {
    Run::new(job).board(Board::Linux).timeout(DEADLINE)
}

/// All nodes ended well and allocated nothing once the job ran.
#[track_caller]
fn expect_good(outcome: &Outcome) {
    expect_clean(outcome);
    for node in &outcome.nodes {
        assert_eq!(node.end().and_then(|end| end.number("allocations")), Some(0), "{}", outcome.explain());
    }
}

#[test]
fn h1_processes_greet_as_nodes_do() {
    for (mode, tasks) in [(Mode::Smp, 3), (Mode::Vn, 6)] {
        let outcome = host("hello").torus("3").mode(mode).run().unwrap();
        expect_good(&outcome);
        assert_eq!(
            count_lines(&outcome, &format!("all {tasks} tasks said hello")),
            1,
            "{}",
            outcome.explain()
        );
    }
}

#[test]
fn h1_harts_are_threads_of_which_there_may_be_more_than_cores() {
    let outcome = host("harts").torus("4").harts(8).run().unwrap();
    expect_good(&outcome);
    for hart in 0..8 {
        assert_eq!(count_lines(&outcome, &format!("runs on its hart {hart};")), 4, "{}", outcome.explain());
    }
}

#[test]
fn h1_keys_are_sorted_in_either_mode() {
    for mode in [Mode::Smp, Mode::Vn] {
        let outcome = host("npb-is").torus("2x2").mode(mode).run().unwrap();
        expect_good(&outcome);
        assert_eq!(count_lines(&outcome, "full verification: all 65536 keys in order: verified"), 1);
    }
}

/// That packets went from node to node without the fabric, which has let all nodes start.
#[track_caller]
fn expect_shared(outcome: &Outcome) {
    assert_eq!(outcome.way, Way::Segment);
    for (node, fabric) in outcome.nodes.iter().zip(&outcome.fabric.nodes) {
        let sent = node.end().and_then(|end| end.number::<u64>("sent"));
        assert!(sent.is_some_and(|sent| sent > 0), "{}", outcome.explain());
        assert_eq!(fabric.injected.packets, 0, "{}", outcome.explain());
        assert!(fabric.joined && fabric.control > 0, "{}", outcome.explain());
    }
}

#[test]
fn h2_processes_share_memory_by_default_and_take_the_fabric_if_told() {
    let run = || host("npb-is").torus("2x2").tree(false);
    expect_shared(&run().run().unwrap());
    let outcome = run().by_fabric(true).run().unwrap();
    expect_good(&outcome);
    assert!(matches!(outcome.way, Way::Fabric(_)));
    assert!(outcome.fabric.nodes.iter().all(|node| node.injected.packets > 0), "{}", outcome.explain());
}

#[test]
fn h2_jobs_of_every_kind_do_well_in_shared_memory() {
    for (job, torus, mode) in [
        ("all-pairs", "2x2", Mode::Smp),
        ("coll", "3", Mode::Smp),
        ("fence", "2", Mode::Vn),
        ("halo3d", "2x2", Mode::Smp),
        ("mpi-suite", "2x2", Mode::Smp),
        ("npb-cg", "2x2", Mode::Vn),
        ("rma", "2", Mode::Smp),
    ] {
        let outcome = host(job).torus(torus).mode(mode).run().unwrap();
        expect_good(&outcome);
        expect_shared(&outcome);
    }
}

#[test]
fn h1_jobs_do_well_on_good_and_bad_wires_and_as_many_tasks() {
    for job in [
        "affinity",
        "all-pairs",
        "anew",
        "armci",
        "endpoints",
        "fence",
        "gups",
        "halo3d",
        "harts",
        "hello",
        "modules",
        "npb-cg",
        "npb-ep",
        "npb-is",
    ] {
        let run = || host(job).torus("2x2");
        expect_good(&run().run().unwrap());
        if job != "endpoints" {
            expect_good(&run().mode(Mode::Vn).run().unwrap());
        }
        let outcome = run().faults("drop=1%,reorder=5%,seed=3").run().unwrap();
        assert!(outcome.success(), "{job}: {}", outcome.explain());
        assert!(matches!(outcome.way, Way::Fabric(_)));
    }
}

#[test]
fn h2_d8_shared_memory_may_be_taken_for_lossless() {
    for (job, mode) in [("npb-is", Mode::Vn), ("rma", Mode::Smp), ("mpi-suite", Mode::Smp)] {
        let outcome = host(job).torus("2x2").mode(mode).lossless(true).run().unwrap();
        expect_good(&outcome);
        expect_shared(&outcome);
    }
}

#[test]
fn h2_r1_a_context_that_takes_nothing_holds_up_no_other_in_shared_memory() {
    let outcome = host("stalled").torus("2").args(["--messages", "100000"]).run().unwrap();
    expect_good(&outcome);
    expect_shared(&outcome);
}

#[test]
fn h2_an_agent_core_runs_the_engine_in_shared_memory() {
    let outcome = host("rma").torus("2").agent_core(true).run().unwrap();
    expect_good(&outcome);
    expect_shared(&outcome);
}

#[test]
fn h1_frames_that_the_host_takes_in_part_are_whole_at_the_other_end() {
    // A burst of bare frames fills the stream faster than the fabric empties it.
    let outcome = host("ping").torus("2").harts(1).by_fabric(true).run().unwrap();
    expect_good(&outcome);
    assert_eq!(count_lines(&outcome, "bare frames, 1 hop"), 5, "{}", outcome.explain());
}

#[test]
fn h6_rows_of_ours_are_measured_by_processes_and_by_threads() {
    for (over, mode, torus, harts) in
        [("pami", Mode::Smp, "2", 1), ("mpi", Mode::Smp, "3", 1), ("mpi", Mode::Vn, "1", 2)]
    {
        let run = host("peers").torus(torus).mode(mode).harts(harts);
        let outcome = run.args(["--over", over, "--rows", "half-8,half-64k,allreduce-8"]).run().unwrap();
        expect_good(&outcome);
        assert_eq!(count_lines(&outcome, "first"), 1, "{}", outcome.explain());
        let two = usize::from(torus != "3");
        for (row, count) in [("half-8", two), ("half-64k", two), ("allreduce-8", 1), ("barrier", 0)] {
            assert_eq!(count_lines(&outcome, &format!("row {row} ")), count, "{row}: {}", outcome.explain());
        }
    }
}

#[test]
fn h1_r1_a_bad_wire_is_mended_between_processes() {
    for job in ["rma", "fence"] {
        let outcome = host(job).torus("2").faults("drop=1%,reorder=5%,seed=5").run().unwrap();
        expect_success_on_a_bad_wire(&outcome, "drop=1%,reorder=5%");
    }
}

#[test]
fn h1_d8_streams_lose_nothing_and_may_be_taken_for_lossless() {
    for mode in [Mode::Smp, Mode::Vn] {
        let run = host("npb-is").torus("2x2").mode(mode).lossless(true);
        let outcome = run.by_fabric(true).run().unwrap();
        expect_good(&outcome);
        assert_eq!(count_lines(&outcome, "full verification: all 65536 keys in order: verified"), 1);
    }
}

#[test]
fn h1_n10_faults_of_a_process_are_reported_as_a_nodes_are() {
    for (word, report) in [
        ("null", "null dereference: read from 0x8"),
        ("overflow", "stack overflow of hart"),
        ("illegal", "illegal instruction"),
        ("panic", "panic on node 0"),
    ] {
        let outcome = host("faults").torus("1").args([word]).run().unwrap();
        assert!(!outcome.success());
        assert!(outcome.reports().any(|line| line.contains(report)), "{word}: {}", outcome.explain());
    }
}

#[test]
fn h1_n11_a_jobs_status_is_the_runs() {
    let outcome =
        host("hello").torus("2").bootargs_override(1, "node=1 torus=2 job=hello nonsense").run().unwrap();
    assert_eq!(
        outcome.nodes[1].exit.map(|exit| exit.to_string()).as_deref(),
        Some("78"),
        "{}",
        outcome.explain()
    );
}

#[test]
fn h4_who_is_killed_is_named_by_all_others_which_end() {
    for by_fabric in [false, true] {
        let run = host("idle").torus("4").args(["--seconds", "3600"]).by_fabric(by_fabric);
        let outcome = run.kill("node=2@300ms").run().unwrap();
        assert_eq!(outcome.ending, Ending::Finished, "{}", outcome.explain());
        for (rank, node) in outcome.nodes.iter().enumerate().filter(|&(rank, _)| rank != 2) {
            assert!(node.said("node 2 is dead"), "node {rank}: {}", outcome.explain());
            assert!(node.exit.is_some() && node.status() != Some(0), "node {rank}: {}", outcome.explain());
        }
    }
}

/// Whether a process of this machine has `word` in its command line.
fn runs_with(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok()).any(|line| {
        line.split(|&byte| byte == 0).any(|argument| String::from_utf8_lossy(argument).contains(word))
    })
}

#[test]
fn h4_whoever_is_killed_at_whatever_moment_is_named_and_leaves_nothing_behind() {
    // The same moments each time, as far as the machine is the same.
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for _ in 0..if long() { 1000 } else { 20 } {
        let job = ["idle", "all-pairs", "npb-is", "halo3d", "mpi-suite"][random(5) as usize];
        let (node, us) = (random(4) as usize, random(300_000));
        let run = host(job).torus("4").by_fabric(random(4) == 0);
        let run = if job == "idle" { run.args(["--seconds", "3600"]) } else { run };
        let outcome = run.kill(format!("node={node}@{us}us")).run().unwrap();
        let told = || format!("{job}, node {node} at {us} us: {}", outcome.explain());
        assert_eq!(outcome.ending, Ending::Finished, "{}", told());
        let commands = std::fs::read_to_string(outcome.logs.path().join("commands.txt")).unwrap();
        let folder = commands.split_once("torus=").unwrap().1.split_once(',').unwrap().1;
        let folder = folder.split_once("/node-").unwrap().0;
        assert!(folder.contains("pamir-"), "{folder}");
        assert!(!std::path::Path::new(folder).exists() && !runs_with(folder), "{}", told());
        if !matches!(outcome.nodes[node].exit, Some(Exit::Signal(9))) {
            // The job was faster.
            assert!(outcome.nodes.iter().all(|node| node.exit == Some(Exit::Code(0))), "{}", told());
            continue;
        }
        for (rank, other) in outcome.nodes.iter().enumerate().filter(|&(rank, _)| rank != node) {
            let named = other.said(&format!("node {node} is dead"));
            // Who had ended before has nothing to say.
            assert!(named || other.status() == Some(0), "node {rank}: {}", told());
        }
    }
}
