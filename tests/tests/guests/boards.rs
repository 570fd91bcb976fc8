//! Boards, and how they boot (SPEC B-1, B-2, B-6).

use crate::liveness::links_lost;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tests::{
    LOSSY_WIRE, count_lines, expect_clean, expect_report, long, on_both_architectures, processor_time,
};
use xtask::conform;
use xtask::firmware::{self, ONE_IMAGE, Request};
use xtask::image::flat;
use xtask::progress::Voice;
use xtask::{Arch, Board, Level, Mode, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(60);

/// The image of a job.
fn image(arch: Arch, job: &str) -> PathBuf {
    firmware::build(&Request::new(arch, job).together(std::env::var_os(ONE_IMAGE).is_some()), &Voice::quiet())
        .unwrap()
}

/// A number of `bytes` bytes of an ELF file.
fn number(file: &[u8], at: usize, bytes: usize) -> u64 {
    file[at..at + bytes].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The image in a file of `folder`, to be loaded so many bytes higher. It stays linked for where it was.
fn moved(folder: &Path, image: &Path, by: u64) -> PathBuf {
    let mut file = std::fs::read(image).unwrap();
    let (headers, length, count) = (number(&file, 32, 8), number(&file, 54, 2), number(&file, 56, 2));
    // The physical address of each segment; the emulator takes the entry for a linked one.
    for at in (0..count).map(|index| (headers + index * length + 24) as usize) {
        let higher = number(&file, at, 8) + by;
        file[at..at + 8].copy_from_slice(&higher.to_le_bytes());
    }
    let path = folder.join("moved");
    std::fs::write(&path, file).unwrap();
    path
}

on_both_architectures! {
    fn b2_an_image_carries_the_header_of_a_linux_image(arch) {
        let image = flat(&std::fs::read(image(arch, "hello")).unwrap()).unwrap();
        let bytes = number(&image, 16, 8);
        // What is not in the file is the image's too: stacks and variables.
        assert!(bytes > image.len() as u64 && bytes <= 16 << 20, "{bytes:#x}");
        match arch {
            Arch::Aarch64 => {
                assert_eq!((number(&image, 8, 8), &image[56..60]), (0, &b"ARM\x64"[..]));
                // Little-endian, pages of 4 KiB, at any multiple of 2 MiB.
                assert_eq!(number(&image, 24, 8), 0b1010);
            }
            Arch::Native | Arch::LinuxAarch64 => unreachable!("it is not emulated"),
            Arch::Riscv64 => {
                assert_eq!((number(&image, 8, 8), number(&image, 24, 8)), (0x20_0000, 0));
                assert_eq!((number(&image, 32, 4), &image[48..56], &image[56..60]), (2, &b"RISCV\0\0\0"[..], &b"RSC\x05"[..]));
            }
        }
    }

    fn b2_an_image_runs_wherever_it_is_loaded(arch) {
        let folder = tempfile::tempdir().unwrap();
        // Whole pages of 2 MiB, and more than what the names of log lines are counted in.
        for by in [0x20_0000, 0x1e0_0000] {
            let file = moved(folder.path(), &image(arch, "mpi-suite"), by);
            let run = Run::new("mpi-suite").arch(arch).torus("2").harts(2).image(file).log(Level::Info);
            let outcome = run.timeout(2 * DEADLINE).run().unwrap();
            expect_clean(&outcome);
            assert_eq!(count_lines(&outcome, "all 2 nodes are there; the job starts"), 2, "{}", outcome.explain());
            let file = moved(folder.path(), &image(arch, "faults"), by);
            let faults = |word: &str| {
                let run = Run::new("faults").arch(arch).torus("1").harts(2).image(&file).args([word]);
                run.timeout(DEADLINE).run().unwrap()
            };
            // Functions have their names, constants are read-only, stacks have an end.
            expect_report(&faults("panic"), 0, 101, &["a panic, as asked for", "main"]);
            expect_report(&faults("readonly"), 0, 102, &["write to read-only memory"]);
            expect_report(&faults("overflow"), 0, 102, &["stack overflow of hart"]);
        }
    }
}

#[test]
fn b6_versal_runs_what_one_node_runs() {
    alone_on(Board::Versal, 2);
}

#[test]
fn b6_sifive_u_runs_what_one_node_runs() {
    alone_on(Board::SifiveU, 4);
}

#[test]
fn b6_zcu102_runs_what_one_node_runs() {
    for harts in [1, 4] {
        alone_on(Board::Zcu102, harts);
    }
}

/// One node of `board` with `harts` harts.
fn alone_on(board: Board, harts: u8) {
    let run = |job: &str| Run::new(job).board(board).torus("1").harts(harts).mode(Mode::Vn).timeout(DEADLINE);
    for job in ["harts", "segments", "mpi-suite"] {
        let outcome = run(job).run().unwrap();
        expect_clean(&outcome);
        let up = outcome.nodes[0].up().expect("an up status");
        // It can be asked for by its line.
        assert_eq!(
            (up.number("harts"), up.number("answers")),
            (Some(harts), Some(1)),
            "{}",
            outcome.explain()
        );
    }
    expect_report(&run("faults").args(["panic"]).run().unwrap(), 0, 101, &["a panic, as asked for", "main"]);
    expect_report(&run("faults").args(["overflow"]).run().unwrap(), 0, 102, &["stack overflow of hart"]);
}

#[test]
fn b7_versal_conforms() {
    conforms(Board::Versal, Arch::Aarch64);
}

#[test]
fn b7_sifive_u_conforms() {
    conforms(Board::SifiveU, Arch::Riscv64);
}

#[test]
fn b7_zcu102_conforms() {
    conforms(Board::Zcu102, Arch::Aarch64);
}

#[test]
fn b7_linux_conforms() {
    conforms(Board::Linux, Arch::Native);
}

#[test]
fn b7_cards_behind_pci_conform_on_aarch64() {
    conforms(Board::VirtPci, Arch::Aarch64);
}

#[test]
fn b7_cards_behind_pci_conform_on_riscv64() {
    conforms(Board::VirtPci, Arch::Riscv64);
}

#[test]
fn b7_cards_of_intels_conform_on_aarch64() {
    conforms(Board::VirtE1000e, Arch::Aarch64);
}

#[test]
fn b7_cards_of_intels_conform_on_riscv64() {
    conforms(Board::VirtE1000e, Arch::Riscv64);
}

#[test]
fn b7_virt_conforms_on_aarch64() {
    conforms(Board::Virt, Arch::Aarch64);
}

#[test]
fn b7_virt_conforms_on_riscv64() {
    conforms(Board::Virt, Arch::Riscv64);
}

#[test]
fn b7_harts_with_files_of_interrupts_conform() {
    conforms(Board::VirtAia, Arch::Riscv64);
}

/// How both cards of each node interrupt, that of the torus and that of the tree, as its `up` status says.
fn expect_interrupts_by(outcome: &Outcome, way: &str) {
    let both = format!("{way},{way}");
    for node in &outcome.nodes {
        let up = node.up().expect("an up status");
        assert_eq!(up.get("interrupts"), Some(both.as_str()), "{}", outcome.explain());
    }
}

/// An APLIC that interrupts harts itself, where cards behind PCI have pins, and IMSICs, to which they send messages.
#[test]
fn b1_the_same_image_drives_the_aplic_that_the_tree_names() {
    for (board, aia, way) in [
        (Board::Virt, "aia=aplic", "wire"),
        (Board::VirtPci, "aia=aplic", "intx"),
        (Board::VirtPci, "aia=aplic-imsic", "msi-x"),
        (Board::VirtE1000e, "aia=aplic-imsic", "msi-x"),
    ] {
        for job in ["wake", "mpi-suite"] {
            let run = Run::new(job).board(board).arch(Arch::Riscv64).torus("2").harts(3);
            let outcome = run.qemu_option("-machine").qemu_option(aia).timeout(2 * DEADLINE).run().unwrap();
            expect_clean(&outcome);
            expect_interrupts_by(&outcome, way);
            for node in &outcome.nodes {
                let up = node.up().expect("an up status");
                assert_eq!(up.number("answers"), Some(1), "{}", outcome.explain());
            }
        }
        // Harts that neither sleep nor call anything are asked by the line's interrupt, the only one that they take.
        let run = Run::new("alive").board(board).arch(Arch::Riscv64).torus("2").harts(3);
        let run = run.args(["--seconds", "4", "--all"]).silence(Duration::from_secs(2)).timeout(DEADLINE);
        expect_clean(&run.qemu_option("-machine").qemu_option(aia).run().unwrap());
    }
}

#[test]
fn n8_harts_that_interrupt_one_another_all_the_time_sleep_through_nothing() {
    for (board, arch) in
        [(Board::VirtAia, Arch::Riscv64), (Board::Virt, Arch::Riscv64), (Board::Virt, Arch::Aarch64)]
    {
        let run = Run::new("wake").board(board).arch(arch).torus("1").harts(8).mode(Mode::Vn);
        // What harts are asked interrupts them too.
        let outcome = run.silence(Duration::ZERO).timeout(2 * DEADLINE).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "35000 questions were answered"), 1, "{}", outcome.explain());
    }
}

/// Nodes whose cards interrupt by messages: what went to one of several harts that sleep is not lost when another takes its place,
/// harts do not wake each other for nothing, and a link that goes down is told so too. Nothing else runs `idle` for so many seconds.
fn messages(board: Board, arch: Arch, machine: &str, seconds: &str) {
    let run = |job: &str| Run::new(job).board(board).arch(arch).torus("2x2").harts(4).timeout(3 * DEADLINE);
    let run = |job: &str| run(job).qemu_option("-machine").qemu_option(machine);
    let outcome = run("mpi-suite").run().unwrap();
    expect_clean(&outcome);
    expect_interrupts_by(&outcome, "msi-x");
    run("halo3d").mode(Mode::Vn).faults(LOSSY_WIRE).run().unwrap().expect_success();
    let (outcome, least) = processor_time(run("idle").torus("2"), &["--seconds", seconds], 0..2);
    expect_clean(&outcome);
    assert!(least <= 20, "two nodes that wait for two seconds take {least} hundredths at least");
    let unplugged = run("idle").torus("2").args(["--seconds", "8"]).unplug("node=1@500ms+3s").run().unwrap();
    expect_clean(&unplugged);
    assert_eq!(links_lost(&unplugged.nodes[1]), 1, "{}", unplugged.explain());
}

#[test]
fn b5_cards_behind_pci_send_messages_to_harts_files() {
    messages(Board::VirtPci, Arch::Riscv64, "aia=aplic-imsic", "18");
}

#[test]
fn b5_cards_of_intels_send_messages_to_harts_files() {
    messages(Board::VirtE1000e, Arch::Riscv64, "aia=aplic-imsic", "19");
}

#[test]
fn b5_cards_behind_pci_send_messages_to_the_frame_of_a_gicv2() {
    messages(Board::VirtPci, Arch::Aarch64, "gic-version=2", "23");
}

#[test]
fn b5_cards_of_intels_send_messages_to_the_frame_of_a_gicv2() {
    messages(Board::VirtE1000e, Arch::Aarch64, "gic-version=2", "24");
}

#[test]
fn b5_cards_behind_pci_interrupt_by_pins_where_nothing_takes_messages() {
    for (arch, machine) in [(Arch::Aarch64, "its=off"), (Arch::Riscv64, "aia=none")] {
        let run = Run::new("wake").board(Board::VirtPci).arch(arch).torus("2").timeout(2 * DEADLINE);
        expect_interrupts_by(&run.qemu_option("-machine").qemu_option(machine).run().unwrap(), "intx");
    }
}

/// The board's GICv3 has a service of messages: those of both cards of a node are its first two LPIs.
#[test]
fn b5_messages_of_cards_behind_pci_come_as_lpis_of_a_gicv3() {
    for board in [Board::VirtPci, Board::VirtE1000e] {
        let run = Run::new("wake").board(board).arch(Arch::Aarch64).torus("2").harts(4);
        let outcome = run.log(Level::Debug).timeout(2 * DEADLINE).run().unwrap();
        expect_clean(&outcome);
        expect_interrupts_by(&outcome, "msi-x");
        for number in [8192, 8193] {
            let line = format!("network card with interrupt {number}, by msi-x");
            assert_eq!(count_lines(&outcome, &line), 2, "{}", outcome.explain());
        }
    }
}

#[test]
fn b5_cards_behind_pci_carry_torus_and_tree_on_a_bad_wire_too() {
    bad_wire(Board::VirtPci);
}

#[test]
fn b5_cards_of_intels_carry_torus_and_tree_on_a_bad_wire_too() {
    bad_wire(Board::VirtE1000e);
}

fn bad_wire(board: Board) {
    for arch in Arch::ALL {
        let run = |job: &str| Run::new(job).board(board).arch(arch).torus("2x2").timeout(2 * DEADLINE);
        // Each node sleeps until its card, or another hart, interrupts it.
        expect_clean(&run("wake").harts(2).run().unwrap());
        let tree = run("tree").run().unwrap();
        expect_clean(&tree);
        expect_interrupts_by(&tree, if arch == Arch::Aarch64 { "msi-x" } else { "intx" });
        run("npb-is").faults(LOSSY_WIRE).run().unwrap().expect_success();
    }
}

on_both_architectures! {
    fn b3_a_node_has_up_to_64_harts(arch) {
        // Each runs a thread, and each is asked for by the line.
        let run = Run::new("harts").arch(arch).torus("1").harts(64).timeout(3 * DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "task 0, hart "), 64, "{}", outcome.explain());
        let run = Run::new("npb-is").arch(arch).torus("2").harts(16).mode(Mode::Vn).timeout(2 * DEADLINE);
        run.run().unwrap().expect_success();
    }

    fn b3_harts_have_numbers_with_gaps_and_some_are_not_for_us(arch) {
        let (file, of, ours) = match arch {
            // Clusters of 16; two harts are disabled.
            Arch::Aarch64 => ("aarch64-gaps.dtb", 20, 18),
            Arch::Riscv64 => ("riscv64-gaps.dtb", 10, 7),
            Arch::Native | Arch::LinuxAarch64 => unreachable!("it has no device tree"),
        };
        let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/src/devicetree/trees");
        for job in ["harts", "segments"] {
            let run = Run::new(job).arch(arch).torus("1").harts(of).mode(Mode::Vn).contexts(2).timeout(DEADLINE);
            let run = run.qemu_option("-dtb").qemu_option(trees.join(file).display().to_string());
            let outcome = run.run().unwrap();
            expect_clean(&outcome);
            let up = outcome.nodes[0].up().expect("an up status");
            let told = ["harts", "tasks", "answers"].map(|key| up.number::<u8>(key));
            assert_eq!(told, [Some(ours), Some(ours), Some(1)], "{}", outcome.explain());
        }
    }
}

/// The last task's memory is all where 39 bits do not reach; the host promises none of it before it is touched.
#[test]
fn b3_memory_above_39_bits_is_used() {
    for (board, arch, harts, ram, gib) in
        [(Board::Versal, Arch::Aarch64, 2, "ddr", 290), (Board::Virt, Arch::Riscv64, 8, "ram", 300)]
    {
        let run = Run::new("segments").board(board).arch(arch).torus("1").harts(harts).mode(Mode::Vn);
        let backend = format!("memory-backend-ram,id={ram},size={gib}G,reserve=off");
        let run =
            run.qemu_option("-m").qemu_option(format!("{gib}G")).qemu_option("-object").qemu_option(backend);
        let run = run.qemu_option("-machine").qemu_option(format!("memory-backend={ram}"));
        let outcome = run.log(Level::Debug).timeout(2 * DEADLINE).run().unwrap();
        expect_clean(&outcome);
        let (bytes, _) = memory(&outcome);
        assert!(bytes > ((gib - 1) / u64::from(harts)) << 30, "{bytes:#x}");
    }
}

/// Boards that are always tried with the whole suite. On others the last steps, from PAMI on, with which nothing of a board is new
/// and which take most of the time, run at full size only.
const WHOLE: [Board; 3] = [Board::Versal, Board::SifiveU, Board::Linux];
const LAST: [&str; 4] = ["PAMI", "collectives", "MPI", "NAS benchmarks"];

/// The suite that every board is tried with; what it says is in the test's output.
fn conforms(board: Board, arch: Arch) {
    let interrupt = Arc::new(AtomicBool::new(false));
    let all = conform::steps().count();
    let most = match board {
        _ if long() || WHOLE.contains(&board) => all,
        // What its steps run, all other tests do.
        Board::Virt => 1,
        _ => all - LAST.len(),
    };
    for (step, _) in conform::steps().take(most) {
        let passed = conform::run(board, Some(arch), Some(step), &interrupt, &Voice::quiet()).unwrap();
        assert!(passed, "{board} {arch}: {step}");
    }
    assert_eq!(conform::steps().map(|(name, _)| name).skip(all - LAST.len()).collect::<Vec<_>>(), LAST);
}

#[test]
fn b1_the_same_image_drives_the_gic_that_the_tree_names() {
    for job in ["wake", "mpi-suite"] {
        let run = Run::new(job).arch(Arch::Aarch64).torus("2").harts(2).timeout(2 * DEADLINE);
        let outcome = run.qemu_option("-machine").qemu_option("gic-version=2").run().unwrap();
        expect_clean(&outcome);
        for node in &outcome.nodes {
            let up = node.up().expect("an up status");
            assert_eq!(up.number("answers"), Some(1), "{}", outcome.explain());
        }
    }
    // A hart that neither sleeps nor calls anything is asked by its line's interrupt, the only one that it takes, and answers.
    let run = Run::new("alive")
        .arch(Arch::Aarch64)
        .torus("2")
        .harts(2)
        .args(["--seconds", "4", "--all"])
        .timeout(DEADLINE);
    let run = run.qemu_option("-machine").qemu_option("gic-version=2").silence(Duration::from_secs(2));
    expect_clean(&run.run().unwrap());
}

/// Bytes of a task's memory, and the pieces that the memory of each task is in.
fn memory(outcome: &Outcome) -> (u64, Vec<String>) {
    let node = &outcome.nodes[0];
    let up = node.up().expect("an up status");
    let pieces = node.lines.iter().filter(|line| line.text.starts_with("the memory of its task"));
    (up.number("memory").expect("bytes"), pieces.map(|line| line.text.clone()).collect())
}

#[test]
fn b3_all_banks_of_memory_are_used() {
    let run = Run::new("mpi-suite").board(Board::Versal).torus("1").harts(2).memory(2304).log(Level::Debug);
    let outcome = run.timeout(2 * DEADLINE).run().unwrap();
    expect_clean(&outcome);
    // The upper 256 MiB lie at 32 GiB.
    let (bytes, pieces) = memory(&outcome);
    assert!(bytes > 2200 << 20, "{bytes:#x}");
    assert_eq!(pieces, ["the memory of its task 0 is in 4 pieces"], "{}", outcome.explain());
}

#[test]
fn b3_a_tasks_memory_is_that_of_its_harts_numa_node() {
    // Riscv64's two sockets have an APLIC each, and files of all harts: cards send to those.
    for (board, arch, machine) in
        [(Board::Virt, Arch::Aarch64, "gic-version=3"), (Board::VirtPci, Arch::Riscv64, "aia=aplic-imsic")]
    {
        let run =
            Run::new("mpi-suite").board(board).arch(arch).torus("2").harts(2).mode(Mode::Vn).memory(256);
        let run = numa(run, 2, 1, 128).qemu_option("-machine").qemu_option(machine);
        let outcome = run.log(Level::Debug).timeout(2 * DEADLINE).run().unwrap();
        expect_clean(&outcome);
        let (bytes, pieces) = memory(&outcome);
        // The heap comes out of the first node's, so the second has some over; the image too.
        assert!((112 << 20..128 << 20).contains(&bytes), "{bytes:#x}");
        assert!(
            pieces.iter().any(|line| line == "the memory of its task 1 is in 1 pieces"),
            "{}",
            outcome.explain()
        );
    }
}

/// A run whose machine has `nodes` NUMA nodes of so many MiB with as many harts each.
fn numa(run: Run, nodes: u8, harts: u8, mib: u32) -> Run {
    (0..nodes).fold(run, |run, node| {
        let memory = format!("memory-backend-ram,id=bank{node},size={mib}M");
        let (first, last) = (node * harts, (node + 1) * harts - 1);
        let part = format!("node,nodeid={node},memdev=bank{node},cpus={first}-{last}");
        ["-object", &memory, "-numa", &part].into_iter().fold(run, |run, word| run.qemu_option(word))
    })
}

#[test]
fn b3_machines_beyond_the_limits_are_refused_with_the_limit() {
    let refused = |run: Run, words: &[&str]| {
        expect_report(&run.torus("1").adapter(false).timeout(DEADLINE).run().unwrap(), 0, 69, words);
    };
    for arch in Arch::ALL {
        let run = Run::new("hello").arch(arch).qemu_option("-smp").qemu_option("65");
        refused(run, &["cannot start", "more than 64 harts"]);
    }
    let banks = Run::new("hello").arch(Arch::Aarch64).harts(9).memory(288);
    refused(numa(banks, 9, 1, 32), &["cannot start", "more banks of memory than 8"]);
}

/// This emulator's riscv64 has a socket for each NUMA node, and a controller for each socket; files (IMSICs) are all harts'.
#[test]
fn b1_sockets_with_a_controller_each_are_refused_as_such() {
    for aia in ["aia=none", "aia=aplic"] {
        let run = Run::new("hello").arch(Arch::Riscv64).torus("1").harts(4).memory(256).adapter(false);
        let run = numa(run, 2, 2, 128).qemu_option("-machine").qemu_option(aia);
        let words =
            ["cannot start", "each interrupt some of the harts only", "one for all of them is wanted"];
        expect_report(&run.timeout(DEADLINE).run().unwrap(), 0, 69, &words);
    }
}
