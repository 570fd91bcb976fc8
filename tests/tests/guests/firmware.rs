//! What firmware and boards may do to a node: the level that they enter it at, what they leave out, what they say wrong
//! (SPEC N-2, N-10, N-11, R-5).

use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::tree::{dumped, patched};
use tests::{count_lines, expect_clean, expect_report};
use xtask::node::Exit;
use xtask::run::Ending;
use xtask::{Arch, Board, Run};

const DEADLINE: Duration = Duration::from_secs(60);

/// A node by itself, with `harts` harts, and these words for its emulator behind the others.
fn alone(job: &str, harts: u8, options: &[&str]) -> Run {
    let run = Run::new(job).arch(Arch::Aarch64).torus("1").harts(harts).timeout(DEADLINE);
    options.iter().fold(run, |run, option| run.qemu_option(*option))
}

/// The tree of the board that [`alone`] runs on, with more options of its machine and some of its bytes replaced, in a file.
fn tree(folder: &Path, harts: u32, options: &str, old: &[u8], new: &[u8]) -> PathBuf {
    let mut tree = dumped(folder, Arch::Aarch64, harts, options);
    // Without the room behind it, or two of it would be as long as where the image lies.
    let field = |number: usize| u32::from_be_bytes(tree[4 * number..][..4].try_into().unwrap());
    let end = field(3) + field(8);
    tree.truncate(end as usize);
    tree[4..8].copy_from_slice(&end.to_be_bytes());
    let path = folder.join("board.dtb");
    std::fs::write(&path, patched(&tree, old, new)).unwrap();
    path
}

const NO_SEMIHOSTING: [&str; 2] = ["-semihosting-config", "enable=off"];

#[test]
fn n2_r5_a_node_entered_at_el2_starts_its_harts_by_smc_as_its_tree_says() {
    // With the hypervisor's level to be had the firmware answers to SMCs alone; else to HVCs, as all other tests show.
    let method = |options: &str, word: &[u8]| {
        let tree = dumped(tempfile::tempdir().unwrap().path(), Arch::Aarch64, 3, options);
        tree.windows(word.len()).any(|bytes| bytes == word)
    };
    assert!(method(",virtualization=on", b"smc\0") && !method(",virtualization=on", b"hvc\0"));
    assert!(method("", b"hvc\0") && !method("", b"smc\0"));
    let run = Run::new("harts").arch(Arch::Aarch64).torus("2").harts(3).timeout(DEADLINE);
    let outcome = run.qemu_option("-machine").qemu_option("virtualization=on").run().unwrap();
    expect_clean(&outcome);
    for hart in 0..3 {
        assert_eq!(count_lines(&outcome, &format!("runs on its hart {hart};")), 2, "{}", outcome.explain());
    }
}

#[test]
fn r5_a_node_entered_at_el3_says_so_and_ends() {
    for machine in ["secure=on", "secure=on,virtualization=on"] {
        let outcome = alone("hello", 1, &["-machine", machine]).run().unwrap();
        expect_report(&outcome, 0, 69, &["EL3"]);
    }
}

#[test]
fn n11_without_semihosting_the_firmware_ends_the_node() {
    let outcome = alone("hello", 2, &NO_SEMIHOSTING).run().unwrap();
    expect_clean(&outcome);
    // What the firmware cannot carry, the node has said.
    let outcome = alone("faults", 1, &NO_SEMIHOSTING).args(["status"]).run().unwrap();
    assert_eq!(outcome.nodes[0].status(), Some(255), "{}", outcome.explain());
    assert!(!outcome.success());
    let outcome = alone("faults", 2, &NO_SEMIHOSTING).args(["panic"]).run().unwrap();
    assert_eq!((outcome.ending, outcome.nodes[0].exit), (Ending::Finished, Some(Exit::Code(0))));
    assert!(outcome.reports().any(|line| line.contains("a panic, as asked for")) && !outcome.success());
}

#[test]
fn n10_a_node_that_is_told_of_no_console_says_why_to_whoever_listens() {
    let folder = tempfile::tempdir().unwrap();
    let tree = tree(folder.path(), 1, "", b"arm,pl011\0", b"arm,pl0xx\0");
    let options = ["-dtb", tree.to_str().unwrap()];
    let outcome = alone("hello", 1, &options).adapter(false).run().unwrap();
    assert_eq!(outcome.nodes[0].exit, Some(Exit::Code(69)), "{}", outcome.explain());
    assert!(outcome.failures().any(|failure| failure.contains("no uart")), "{}", outcome.explain());
    // Nobody listens, nothing ends the machine that the tree could name: the words are in the memory that is dumped.
    let run = alone("hello", 1, &[&options[..], &NO_SEMIHOSTING[..]].concat()).adapter(false);
    let outcome = run.qemu_option("-no-shutdown").timeout(Duration::from_secs(6)).run().unwrap();
    let dump = outcome.dump.as_deref().unwrap_or_default();
    assert!(dump.contains("said to no console: unnamed node, hart 0 cannot start"), "{}", outcome.explain());
}

#[test]
fn n10_a_board_without_a_console_that_the_kernel_drives_is_refused_through_the_firmware() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.dtb");
    // The line's status in place of its clock: it is off, to who looks there, which this firmware does not.
    let tree = patched(
        &dumped(folder.path(), Arch::Riscv64, 2, ""),
        b"clock-frequency\0",
        b"status\0\0\0\0\0\0\0\0\0\0",
    );
    std::fs::write(&path, patched(tree, &3_686_400u32.to_be_bytes(), b"off\0")).unwrap();
    let run = Run::new("hello").arch(Arch::Riscv64).torus("1").harts(2).adapter(false).timeout(DEADLINE);
    let outcome = run.qemu_option("-dtb").qemu_option(path.to_str().unwrap()).run().unwrap();
    let report = outcome.reports().collect::<Vec<_>>().join(" ");
    assert!(report.contains("cannot start") && report.contains("no uart"), "{}", outcome.explain());
    assert!(!outcome.success());
}

#[test]
fn n10_memory_that_cannot_be_mapped_is_reported_on_the_console() {
    let folder = tempfile::tempdir().unwrap();
    // The interrupt controller where the console is.
    let gic = [[0, 0, 0, 0, 8, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0]].concat();
    let clash = [[0, 0, 0, 0, 9, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0]].concat();
    let tree = tree(folder.path(), 1, "", &gic, &clash);
    let outcome = alone("hello", 1, &["-dtb", tree.to_str().unwrap()]).adapter(false).run().unwrap();
    expect_report(&outcome, 0, 69, &["cannot be mapped"]);
}

#[test]
fn b4_cards_that_do_not_see_the_caches_are_refused_by_the_name_of_their_node() {
    let folder = tempfile::tempdir().unwrap();
    let tree = tree(folder.path(), 1, "", b"dma-coherent\0", b"dma-coherenz\0");
    for (board, node) in [(Board::Virt, "virtio_mmio@"), (Board::VirtE1000e, "pcie@10000000")] {
        let run = alone("hello", 1, &["-dtb", tree.to_str().unwrap()]).board(board);
        expect_report(&run.run().unwrap(), 0, 69, &["dma-coherent is wanted", node]);
    }
}

#[test]
fn r5_a_core_without_a_performance_monitor_runs_what_would_count() {
    let run = Run::new("accumulate").arch(Arch::Aarch64).torus("2").harts(1).timeout(DEADLINE);
    let outcome = run.qemu_option("-cpu").qemu_option("cortex-a72,pmu=off").run().unwrap();
    outcome.expect_success();
}

#[test]
fn b5_cards_whose_messages_the_controller_does_not_take_interrupt_by_their_pins() {
    let folder = tempfile::tempdir().unwrap();
    // The frame that raises a GICv2's interrupts where the real-time clock is, which has 0 for their number.
    let region = |base: u32| [0, base, 0, 0x1000].map(u32::to_be_bytes).concat();
    let tree = tree(folder.path(), 2, ",gic-version=2", &region(0x802_0000), &region(0x901_0000));
    for board in [Board::VirtPci, Board::VirtE1000e] {
        let run = Run::new("wake").board(board).arch(Arch::Aarch64).torus("2").harts(2).timeout(2 * DEADLINE);
        let options = ["-machine", "gic-version=2", "-dtb", tree.to_str().unwrap()];
        let outcome = options.iter().fold(run, |run, option| run.qemu_option(*option)).run().unwrap();
        expect_clean(&outcome);
        for node in &outcome.nodes {
            let up = node.up().expect("an up status");
            assert_eq!(up.get("interrupts"), Some("intx,intx"), "{}", outcome.explain());
        }
    }
}

#[test]
fn n8_harts_of_riscv64_set_their_timers_themselves_where_the_tree_says_so_and_else_by_the_firmware() {
    // `idle` sleeps until its timer.
    let run = |options: &[&str]| {
        let run = Run::new("idle").arch(Arch::Riscv64).torus("1").harts(2).args(["--seconds", "1"]);
        options.iter().fold(run.timeout(DEADLINE), |run, option| run.qemu_option(*option)).run().unwrap()
    };
    let without = ["-cpu", "rv64,sstc=off"];
    expect_clean(&run(&[]));
    expect_clean(&run(&without));
    // A tree that says so of harts that cannot shows who set it.
    let folder = tempfile::tempdir().unwrap();
    dumped(folder.path(), Arch::Riscv64, 2, "");
    let tree = folder.path().join("board.dtb");
    let outcome = run(&[&without[..], &["-dtb", tree.to_str().unwrap()]].concat());
    expect_report(&outcome, 0, 102, &["illegal instruction"]);
}
