//! What the integration tests share: each boots real guests and judges by their exits, statuses and decoded logs.
//! Tests are named after the claim and the SPEC id that they show.

pub mod capture;
pub mod tree;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
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

/// The processor time, in hundredths of a second, that each node's process of a run has taken so far, by node: of the run whose
/// job's arguments `args` are no other's.
fn processor_times(args: &str) -> BTreeMap<u32, u64> {
    let time = |process: std::fs::DirEntry| {
        let words = String::from_utf8(std::fs::read(process.path().join("cmdline")).ok()?).ok()?;
        let words = words.replace('\0', " ");
        let is_node = words.contains("qemu-system-") || words.contains("bootargs=node=");
        let named = is_node && words.contains(&format!(" -- {args} "));
        let node = words.split_once("node=").filter(|_| named)?.1.split(' ').next()?.parse().ok()?;
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // User and system time are the 14th and 15th field; the second is a name in parentheses.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
        let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
        Some((node, user + system))
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(time).collect()
}

/// Runs `run`, whose job's arguments `args` are no other run's, and looks every two seconds at the processor time that the
/// processes of the nodes `waiting` took together. Returns the least of these, in hundredths of a second: what it takes them
/// to wait, if all of them wait for two such seconds.
///
/// # Panics
/// If the run cannot be made, or ends sooner than anything could be seen.
pub fn processor_time(run: Run, args: &[&str], waiting: Range<u32>) -> (Outcome, u64) {
    let args = args.join(" ");
    let run = run.args(args.split(' '));
    let running = std::thread::spawn(move || run.run().unwrap());
    let (mut least, mut before) = (None::<u64>, None::<u64>);
    while !running.is_finished() {
        std::thread::sleep(Duration::from_secs(2));
        let times = processor_times(&args);
        let each: Option<Vec<u64>> = waiting.clone().map(|node| times.get(&node).copied()).collect();
        let now = each.map(|each| each.iter().sum());
        if let Some(took) = now.zip(before).map(|(now, before)| now - before) {
            least = Some(least.map_or(took, |least| least.min(took)));
        }
        before = now;
    }
    let outcome = running.join().unwrap();
    let least = least.unwrap_or_else(|| panic!("no two seconds to look at: {}", outcome.explain()));
    (outcome, least)
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

/// The host tool, as it is now.
pub fn tool() -> &'static Path {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    TOOL.get_or_init(|| {
        let built = Command::new("cargo").args(["xtask", "top", "--help"]).output().expect("cargo");
        let said = String::from_utf8_lossy(&built.stdout);
        assert!(built.status.success() && said.contains("--every"), "{said}");
        let own = std::env::current_exe().expect("a path");
        own.ancestors().nth(2).expect("the folder of programs").join("xtask")
    })
}
