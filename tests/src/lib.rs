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
    let mut run = run.timeout(Duration::from_secs(if long() { 3600 } else { 240 }));
    if let Some(faults) = faults {
        run = run.faults(faults);
    }
    let outcome = run.run().unwrap();
    match faults {
        None => expect_clean(&outcome),
        Some(faults) => expect_success_on_a_bad_wire(&outcome, faults),
    }
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
        assert_eq!(end.number("dropped"), Some(0), "node {rank} dropped packets: {}", outcome.explain());
    }
}

/// Every node ended well, allocated nothing after the job's start, and the wire struck packets in each of the ways of `faults`,
/// which are those of the run (SPEC D-8, R-6).
///
/// # Panics
/// With the whole story, if not so.
#[track_caller]
pub fn expect_success_on_a_bad_wire(outcome: &Outcome, faults: &str) {
    outcome.expect_success();
    for fault in
        faults.split(',').filter_map(|fault| Some(fault.split_once('=')?.0)).filter(|&it| it != "seed")
    {
        let struck: u64 = outcome
            .fabric
            .nodes
            .iter()
            .map(|node| match fault {
                "drop" => node.faults.dropped,
                "corrupt" => node.faults.corrupted,
                "dup" => node.faults.duplicated,
                "reorder" => node.faults.reordered,
                "delay" => node.faults.delayed,
                _ => panic!("{fault} is no fault of a wire"),
            })
            .sum();
        assert!(struck > 0, "no packet met with {fault}: {}", outcome.explain());
    }
}

/// The processor time that each emulator whose command line has `words` in it has taken so far, in clock ticks.
pub fn emulators(words: &str) -> Vec<u64> {
    let time = |process: std::fs::DirEntry| {
        let words_of = std::fs::read(process.path().join("cmdline")).ok()?;
        let words_of = String::from_utf8_lossy(&words_of).replace('\0', " ").replace(['=', ','], " ");
        let named = words_of.contains("qemu-system-") && words_of.contains(&words.replace(['=', ','], " "));
        let stat = std::fs::read_to_string(process.path().join("stat")).ok().filter(|_| named)?;
        // User and system time are the 14th and 15th field; the second is a name in parentheses.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
        let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
        Some(user + system)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(time).collect()
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
