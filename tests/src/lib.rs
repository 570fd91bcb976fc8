//! What the integration tests share: each boots real guests and judges by their exits, statuses and decoded logs.
//! Tests are named after the claim and the SPEC id that they show.

pub mod capture;

use std::time::Duration;
use xtask::{Arch, Mode, Outcome, Run};

/// What a bad wire does to packets, always to the same ones.
pub const BAD_WIRE: &str = "drop=2%,corrupt=1%,dup=2%,reorder=10%,seed=7";

/// A wire that loses and reorders, always the same packets.
pub const LOSSY_WIRE: &str = "drop=1%,reorder=5%,seed=4";

/// Whether tests run at full size (`cargo xtask test --long`). Those that do not then run a smaller one.
pub fn long() -> bool {
    std::env::var_os(xtask::suite::LONG).is_some()
}

/// Eight nodes of two harts run `job`; on a good wire nothing is allocated after its start and no packet dropped.
///
/// # Panics
/// With the whole story, if it does not end well.
#[track_caller]
pub fn on_eight_nodes(job: &str, args: &[&str], arch: Arch, mode: Mode, faults: Option<&str>) -> Outcome {
    let run = Run::new(job).arch(arch).torus("2x2x2").harts(2).mode(mode).args(args.iter().copied());
    let mut run = run.timeout(Duration::from_secs(240));
    if let Some(faults) = faults {
        run = run.faults(faults);
    }
    let outcome = run.run().unwrap();
    if faults.is_none() {
        expect_clean(&outcome);
    }
    outcome.expect_success();
    outcome
}

/// Makes of each function a module with one test for each architecture, `aarch64` and `riscv64`.
#[macro_export]
macro_rules! on_both_architectures {
    ($($(#[$attribute:meta])* fn $name:ident($arch:ident) $body:block)*) => {$(
        $(#[$attribute])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn run($arch: xtask::Arch) $body

            #[test]
            fn aarch64() {
                run(xtask::Arch::Aarch64);
            }

            #[test]
            fn riscv64() {
                run(xtask::Arch::Riscv64);
            }
        }
    )*};
}

/// Every node ended well, allocated nothing after the job's start (SPEC N-5) and dropped no packet.
///
/// # Panics
/// With the whole story, if not so.
#[track_caller]
pub fn expect_clean(outcome: &Outcome) {
    outcome.expect_success();
    for (rank, node) in outcome.nodes.iter().enumerate() {
        let end = node.end().unwrap_or_else(|| panic!("node {rank} ended without a status"));
        assert_eq!(end.number("allocations"), Some(0), "node {rank} allocated: {}", outcome.explain());
        assert_eq!(end.number("dropped"), Some(0), "node {rank} dropped packets: {}", outcome.explain());
    }
}

/// Every node ended well, and the wire did lose packets.
///
/// # Panics
/// With the whole story, if not so.
#[track_caller]
pub fn expect_success_despite_losses(outcome: &Outcome) {
    outcome.expect_success();
    let lost: u64 = outcome.fabric.nodes.iter().map(|node| node.faults.dropped).sum();
    assert!(lost > 0, "no packet was lost: {}", outcome.explain());
}

/// The number of log lines, over all nodes, that contain `text`.
pub fn count_lines(outcome: &Outcome, text: &str) -> usize {
    outcome.lines().filter(|line| line.text.contains(text)).count()
}

/// Node `rank` ended the run: it reported each of `words`, its emulator's exit was `code`, and all other nodes
/// were torn down or gone.
///
/// # Panics
/// With the whole story, if not so.
#[track_caller]
pub fn expect_report(outcome: &Outcome, rank: usize, code: i32, words: &[&str]) {
    let story = outcome.explain();
    let node = &outcome.nodes[rank];
    let report = node.reports.join("\n");
    for word in words {
        assert!(report.contains(word), "node {rank}'s report lacks {word:?}:\n{report}\n{story}");
    }
    assert_eq!(node.exit, Some(xtask::node::Exit::Code(code)), "{story}");
    assert!(!outcome.success() && outcome.exit_code() != 0);
    assert!(outcome.nodes.iter().all(|node| node.exit.is_some()), "a node was left running: {story}");
    assert!(outcome.failures().any(|failure| failure.contains(&format!("node {rank}"))), "{story}");
}
