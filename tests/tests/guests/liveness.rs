//! Who computes is alive, who is dead is known to be (SPEC R-2).

use std::time::Duration;
use tests::{expect_clean, long, on_both_architectures, processor_time};
use xtask::run::{Ending, NodeOutcome};
use xtask::{Arch, KillWhen, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(120);

/// A death is known everywhere within the second, on a machine with nothing else to do. The first is a bound that no finding out
/// by silence meets, which took ten seconds and more, however busy the machine is.
const AT_ONCE: [Duration; 2] = [Duration::from_secs(8), Duration::from_secs(2)];

/// So many seconds, or more where tests run at full size.
fn seconds(short: u64, full: u64) -> u64 {
    if long() { full } else { short }
}

/// How long nodes, or this tool, stand still, in seconds; at full size also longer than any silence that was ever taken for
/// death.
fn pauses(short: u64) -> Vec<u64> {
    if long() { vec![5, 20, 45] } else { vec![short] }
}

/// All nodes but `dead` ended with its name, and nobody else's.
#[track_caller]
pub fn expect_death(outcome: &Outcome, dead: usize) {
    assert_eq!(outcome.ending, Ending::Finished, "{}", outcome.explain());
    for (rank, node) in outcome.nodes.iter().enumerate().filter(|&(rank, _)| rank != dead) {
        assert!(node.status().is_some_and(|status| status != 0), "node {rank}: {}", outcome.explain());
        let named = |other: usize| node.said(&format!("node {other} is dead"));
        assert!(named(dead), "node {rank} does not name node {dead}: {}", outcome.explain());
        let blamed = (0..outcome.nodes.len()).find(|&other| other != dead && named(other));
        assert_eq!(blamed, None, "node {rank} blames another: {}", outcome.explain());
    }
}

/// Node `suspect`, and nobody else, was suspected.
#[track_caller]
pub fn expect_suspect(outcome: &Outcome, suspect: usize) {
    let suspected = |&(_, node): &(usize, &NodeOutcome)| node.suspicions > 0;
    let all: Vec<_> = outcome.nodes.iter().enumerate().filter(suspected).map(|(rank, _)| rank).collect();
    assert_eq!(all, [suspect], "{}", outcome.explain());
}

/// A run of `job`, in which a node dies when some node has said `words`.
fn dies(arch: Arch, job: &str, args: &[&str], dead: u32, words: &str) -> Outcome {
    let run = Run::new(job).arch(arch).torus("2x2").harts(1).args(args.iter().copied()).timeout(DEADLINE);
    let outcome = run.kill_node_at(dead, KillWhen::Line(words.into())).go_on().run().unwrap();
    expect_death(&outcome, dead as usize);
    outcome
}

on_both_architectures! {
    fn r2_x4_a_link_that_goes_down_is_named_and_what_waited_goes_on_or_its_node_is_dead(arch) {
        expect_link_noticed(|job| Run::new(job).arch(arch).torus("2"));
    }

    fn r2_a_task_that_computes_is_not_dead_and_loses_nothing(arch) {
        // Longer than any silence that was ever taken for death; with an agent core on one architecture, or on both.
        let agents: &[bool] = if long() { &[false, true] } else { &[arch == Arch::Aarch64] };
        for &agent in agents {
            // No other run has these arguments.
            let seconds = (seconds(12, 60) + 2 * u64::from(agent) + u64::from(arch == Arch::Riscv64)).to_string();
            let run = Run::new("alive").arch(arch).torus("2x2").harts(2).agent_core(agent).timeout(DEADLINE);
            let (outcome, least) = processor_time(run, &["--seconds", &seconds, "--wait", "fence"], 1..4);
            expect_clean(&outcome);
            // They have more to send than there is room for. Three harts that poll take the half of two processors and more.
            assert!(least <= 30, "three emulators that wait for two seconds take {least} hundredths of one at least");
            assert!(outcome.nodes[1..].iter().all(|node| node.said("was answered")), "{}", outcome.explain());
            assert!(!outcome.lines().any(|line| line.text.contains("is dead")), "{}", outcome.explain());
        }
    }

    fn r2_the_death_of_a_node_is_named_by_all_at_once_whatever_they_wait_for(arch) {
        // A message, an operation, a barrier, an MPI_Recv, a collective, a lock.
        for wait in ["message", "fence", "barrier", "recv", "sum", "lock"] {
            let outcome = dies(arch, "alive", &["--seconds", "3600", "--wait", wait], 0, "computes for");
            let killed = outcome.harmed.unwrap();
            for (rank, node) in outcome.nodes.iter().enumerate().skip(1) {
                let took = node.ended.unwrap() - killed;
                assert!(took < AT_ONCE[usize::from(long())], "{wait}: node {rank} took {took:?}");
            }
        }
        // Nobody sends anything at all.
        let run = Run::new("idle").arch(arch).torus("2x2").args(["--seconds", "3600"]).timeout(DEADLINE);
        expect_death(&run.kill("node=3@300ms").run().unwrap(), 3);
    }

    fn r2_a_node_whose_link_closes_is_named_by_all(arch) {
        // Nobody sends anything, or all wait for node 0: for an answer, at a barrier, for a message.
        for (job, wait) in [("idle", None), ("alive", Some("fence")), ("alive", Some("barrier")), ("alive", Some("recv"))] {
            let dead = if wait.is_some() { 0 } else { 2 };
            let wait = wait.into_iter().flat_map(|wait| ["--wait", wait]);
            let run = Run::new(job).arch(arch).torus("2x2").args(["--seconds", "3600"].into_iter().chain(wait));
            let outcome = run.timeout(DEADLINE).cut(format!("node={dead}@300ms")).run().unwrap();
            expect_death(&outcome, dead);
            let closed = format!("node {dead} is dead: its connection to the torus has ended");
            assert!(outcome.failures().any(|failure| failure == closed), "{job}: {}", outcome.explain());
        }
    }

    fn r2_a_node_that_merely_ended_before_is_not_blamed(arch) {
        // Tasks 1 and 2 return at once; task 0 waits for task 3, which dies. On a busy machine their nodes may be late to end,
        // and then name it too: that run is none of those that this is about.
        let had_ended = |outcome: &Outcome| {
            assert_eq!(outcome.ending, Ending::Finished, "{}", outcome.explain());
            assert!(outcome.nodes[0].said("node 3 is dead"), "{}", outcome.explain());
            assert!(!outcome.lines().any(|line| ["node 1 is dead", "node 2 is dead"].iter().any(|it| line.text.contains(it))));
            assert!(outcome.nodes[0].status().is_some_and(|status| status != 0));
            [1, 2].iter().all(|&node: &usize| outcome.nodes[node].status() == Some(0))
        };
        let mut runs = (0..20).map(|_| {
            let run = Run::new("stalled").arch(arch).torus("2x2").harts(1).args(["--messages", "100000"]).timeout(DEADLINE);
            run.kill_node_at(3, KillWhen::Line("posted".into())).go_on().run().unwrap()
        });
        assert!(runs.any(|outcome| had_ended(&outcome)), "tasks 1 and 2 never ended well");
    }

    fn r2_whoever_only_receives_names_a_node_that_dies(arch) {
        for (job, shape) in [("ping", "2"), ("accumulate", "2"), ("endpoints", "2x2"), ("mpi-suite", "2x2")] {
            let run = Run::new(job).arch(arch).torus(shape).harts(2).timeout(DEADLINE);
            let outcome = run.kill("node=1@200ms").run().unwrap();
            assert_eq!(outcome.ending, Ending::Finished, "{job}: {}", outcome.explain());
            let blamed = |other: usize| outcome.lines().any(|line| line.text.contains(&format!("node {other} is dead")));
            assert!(blamed(1), "{job}: {}", outcome.explain());
            assert!(![0, 2, 3].into_iter().any(blamed), "{job}: {}", outcome.explain());
            assert!(outcome.nodes[0].said("node 1 is dead"), "{job}: {}", outcome.explain());
        }
    }

    fn r2_a_tool_that_stood_still_blames_nobody(arch) {
        for length in pauses(4) {
            let run = Run::new("alive").arch(arch).torus("2").harts(1).args(["--seconds", "3"]).timeout(DEADLINE);
            // This process is the tool.
            let tool = std::process::id();
            let words = format!("sleep 2; kill -STOP {tool}; sleep {length}; kill -CONT {tool}");
            let mut shell = std::process::Command::new("sh").args(["-c", &words]).spawn().unwrap();
            let outcome = run.silence(Duration::from_secs(2)).run().unwrap();
            assert!(shell.wait().unwrap().success());
            expect_clean(&outcome);
            assert!(outcome.nodes.iter().all(|node| node.suspicions == 0), "{length} s: {}", outcome.explain());
        }
    }

    fn r2_a_node_that_was_paused_goes_on_as_if_nothing_was(arch) {
        let allreduces: &[&str] =
            &["--collective", "allreduce", "--algorithm", "tree-network,ring", "--sizes", "8", "--rounds", "3000"];
        let jobs = ["coll", "halo3d"];
        let more = [
            "npb-ft", "npb-is", "npb-cg", "npb-ep", "npb-mg", "armci", "mpi-suite", "gups", "modules", "endpoints", "all-pairs",
        ];
        for length in pauses(3) {
            for job in jobs.into_iter().chain(more.into_iter().filter(|_| long())) {
                let args = if job == "coll" { allreduces } else { &[] };
                let run = Run::new(job).arch(arch).torus("2x2").harts(1).args(args.iter().copied());
                let run = run.timeout(2 * DEADLINE);
                let when = KillWhen::After(Duration::from_millis(200));
                let outcome = run.pause_node_at(2, Duration::from_secs(length), when).run().unwrap();
                outcome.expect_success();
                // By name, within 15 s; nobody is after 5.
                if length >= 20 {
                    expect_suspect(&outcome, 2);
                }
                assert!(!outcome.lines().any(|line| line.text.contains("is dead")), "{job}: {}", outcome.explain());
            }
        }
    }

    fn r2_a_kernel_that_takes_no_interrupts_is_suspected_and_then_dead(arch) {
        // One hart of two: the other one answers for nobody but itself.
        let run = Run::new("faults").arch(arch).torus("2").harts(2).args(["hang", "0"]).timeout(DEADLINE);
        let outcome = run.silence(Duration::from_secs(12)).run().unwrap();
        expect_suspect(&outcome, 1);
        expect_death(&outcome, 1);
        assert!(outcome.failures().any(|failure| failure == "node 1 is dead: it gave no sign of life for 12 s"));
        assert_eq!(outcome.nodes[0].suspicions, 0, "{}", outcome.explain());
        assert!(outcome.nodes[0].questions > 0, "it was never asked, and is not suspected for that");
    }

    fn r2_a_kernel_whose_task_computes_is_not_suspected(arch) {
        let run = Run::new("alive").arch(arch).torus("2").harts(2).timeout(DEADLINE);
        let outcome = run.args(["--seconds", "20"]).silence(Duration::from_secs(12)).run().unwrap();
        expect_clean(&outcome);
        assert!(outcome.nodes[0].questions > 0, "node 0 was never asked");
        assert_eq!(outcome.nodes[0].suspicions, 0, "{}", outcome.explain());
    }

    fn n9_nobody_is_asked_while_all_compute(arch) {
        let run = Run::new("alive").arch(arch).torus("2").harts(1).timeout(DEADLINE);
        let outcome = run.args(["--seconds", "10", "--all"]).run().unwrap();
        expect_clean(&outcome);
        assert!(outcome.nodes.iter().all(|node| node.questions == 0), "{}", outcome.explain());
    }
}

/// How often the link of a node's card went down, as far as it said.
pub fn links_lost(node: &NodeOutcome) -> u32 {
    node.statuses.iter().rev().find_map(|status| status.number("lost")).unwrap_or(0)
}

/// The link of one of two nodes goes down and comes up again, or does not. `run` makes a run of a job.
#[track_caller]
pub fn expect_link_noticed(run: impl Fn(&str) -> Run) {
    let alive = || run("alive").args(["--seconds", "3"]).timeout(DEADLINE);
    let told =
        |node: &NodeOutcome| node.statuses.iter().filter_map(|it| it.number("down")).collect::<Vec<u32>>();
    // Node 1 has sent less than it wants to, node 0 answers it when it is off.
    let outcome = alive().unplug("node=1@500ms+6s").run().unwrap();
    expect_clean(&outcome);
    let lost: Vec<_> = outcome.nodes.iter().map(links_lost).collect();
    assert_eq!(lost, [0, 1], "{}", outcome.explain());
    let states = told(&outcome.nodes[1]);
    assert!(states.contains(&1) && states.ends_with(&[0]), "{states:?}\n{}", outcome.explain());
    // For ever: off for so long it is dead, and the other ends with its name.
    let outcome = alive().silence(Duration::from_secs(10)).unplug("node=1@500ms").run().unwrap();
    expect_death(&outcome, 1);
    let why = "node 1 is dead: its link to the torus was down for 10 s";
    assert!(outcome.failures().any(|failure| failure == why), "{}", outcome.explain());
    // Nobody has anything to send, nor to look at: if it does not interrupt, it is asked.
    let idle = run("idle").args(["--seconds", "12"]).timeout(DEADLINE);
    let outcome = idle.unplug("node=0@500ms+60s").run().unwrap();
    expect_clean(&outcome);
    assert!(told(&outcome.nodes[0]).contains(&1), "{}", outcome.explain());
}
