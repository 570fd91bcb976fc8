//! What is shown of `virt` elsewhere, on each board with controllers or cards of its own: nodes that wait, die, hang, are
//! interrupted, held and asked (SPEC B-6, N-8, R-2, X-2).

use crate::debugger::held;
use crate::liveness::{expect_death, expect_link_noticed, expect_suspect};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::{LOSSY_WIRE, expect_clean, expect_success_on_a_bad_wire, long, processor_time};
use xtask::run::Ending;
use xtask::{Arch, Board, Run};

/// The boards, and the most harts of a node: each card, controller and serial line once.
const FEW: [(Board, Arch, u8); 5] = [
    (Board::SifiveU, Arch::Riscv64, 4),
    (Board::Zcu102, Arch::Aarch64, 4),
    (Board::VirtE1000e, Arch::Aarch64, 4),
    (Board::VirtPci, Arch::Riscv64, 4),
    (Board::VirtAia, Arch::Riscv64, 4),
];
/// The same together otherwise, at full size.
const OTHERS: [(Board, Arch, u8); 3] = [
    (Board::Versal, Arch::Aarch64, 2),
    (Board::VirtE1000e, Arch::Riscv64, 4),
    (Board::VirtPci, Arch::Aarch64, 4),
];
const DEADLINE: Duration = Duration::from_secs(120);

/// Those that are tried now.
fn boards() -> impl Iterator<Item = (Board, Arch, u8)> {
    FEW.into_iter().chain(OTHERS.into_iter().filter(|_| long()))
}

/// Two nodes that wait for an hour.
fn waiting(board: Board, arch: Arch) -> Run {
    Run::new("idle").board(board).arch(arch).torus("2").args(["--seconds", "3600"]).timeout(DEADLINE)
}

#[test]
fn n8_nodes_of_each_board_that_all_wait_take_no_processor_time() {
    for ((board, arch, harts), seconds) in boards().zip(25..) {
        let run = Run::new("idle").board(board).arch(arch).torus("2").harts(harts).timeout(DEADLINE);
        // No other test has these arguments.
        let (outcome, least) = processor_time(run, &["--seconds", &format!("{seconds}")], 0..2);
        expect_clean(&outcome);
        // One core that never sleeps, such as a monitor's, takes up to 200 of them.
        assert!(
            least <= 20,
            "{board}, {arch}: two nodes that wait for two seconds take {least} hundredths at least"
        );
    }
}

/// The address of a card of the emulator's, as `xtask` numbers them.
fn card(rank: u32) -> [u8; 6] {
    [0x52, 0x54, 0, 0, 0, rank as u8]
}

#[test]
fn b5_packets_are_of_the_address_that_tree_or_card_have_and_go_to_the_peers() {
    // The tree says it; the card does, of virtio, of Intel, and a GEM that was given it before.
    let boards = [
        (Board::SifiveU, Arch::Riscv64),
        (Board::Virt, Arch::Aarch64),
        (Board::VirtE1000e, Arch::Riscv64),
        (Board::Versal, Arch::Aarch64),
    ];
    for (board, arch) in boards {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("snippets.pcap");
        let run = Run::new("snippets").board(board).arch(arch).torus("2").pcap(&file).timeout(DEADLINE);
        expect_clean(&run.run().unwrap());
        let packets = tests::capture::packets(&file);
        assert!([0, 1].into_iter().all(|from| packets.iter().any(|packet| packet.from == from)), "{board}");
        for packet in packets {
            assert_eq!(packet.addresses, [packet.to, packet.from].map(card), "{board}");
        }
    }
}

#[test]
fn b6_r2_the_death_of_a_node_of_each_board_is_named_by_all() {
    for (board, arch, _) in boards() {
        let run = waiting(board, arch).torus("2x2");
        expect_death(&run.kill("node=3@300ms").run().unwrap(), 3);
        let alive = Run::new("alive").board(board).arch(arch).torus("2x2").args([
            "--seconds",
            "3600",
            "--wait",
            "barrier",
        ]);
        let outcome = alive.timeout(DEADLINE).cut("node=0@300ms").run().unwrap();
        expect_death(&outcome, 0);
        let closed = "node 0 is dead: its connection to the torus has ended";
        assert!(outcome.failures().any(|failure| failure == closed), "{}", outcome.explain());
    }
}

#[test]
fn b5_r2_a_link_of_each_board_that_goes_down_is_named_and_what_waited_goes_on_or_its_node_is_dead() {
    for (board, arch, _) in boards() {
        expect_link_noticed(|job| Run::new(job).board(board).arch(arch).torus("2"));
    }
}

#[test]
fn b6_x2_a_hung_run_of_each_board_is_stopped_at_the_deadline_and_by_ctrl_c_with_its_state() {
    for (board, arch, _) in boards() {
        let outcome = waiting(board, arch).timeout(Duration::from_secs(12)).run().unwrap();
        assert_eq!((outcome.ending, outcome.exit_code()), (Ending::Deadline, 124), "{}", outcome.explain());
        let interrupt = Arc::new(AtomicBool::new(false));
        let logs = tempfile::tempdir().unwrap();
        let (flag, folder) = (Arc::clone(&interrupt), logs.path().to_owned());
        let user = std::thread::spawn(move || {
            let is_up = |node: usize| {
                let log =
                    std::fs::read_to_string(folder.join(format!("node-{node}.log"))).unwrap_or_default();
                log.contains("STATUS up")
            };
            let start = Instant::now();
            while !(is_up(0) && is_up(1)) && start.elapsed() < DEADLINE {
                std::thread::sleep(Duration::from_millis(100));
            }
            flag.store(true, Ordering::Relaxed);
        });
        let stopped = waiting(board, arch).logs(logs.path()).interrupt(interrupt).run().unwrap();
        user.join().unwrap();
        assert_eq!(
            (stopped.ending, stopped.exit_code()),
            (Ending::Interrupted, 130),
            "{}",
            stopped.explain()
        );
        for outcome in [outcome, stopped] {
            // All that is known of a node comes through its control socket and its memory.
            let dump = outcome.dump.as_deref().unwrap_or_default();
            for word in ["node 0", "node 1", "injected", "delivered"] {
                assert!(dump.contains(word), "{board}, {arch}: no {word:?} in the dump:\n{dump}");
            }
        }
    }
}

#[test]
fn b6_r2_a_kernel_of_each_board_answers_while_it_computes_and_is_suspected_when_it_does_not() {
    for (board, arch, harts) in boards() {
        // Harts that neither sleep nor call anything are asked by the line's interrupt, the only one that they take.
        let run = Run::new("alive").board(board).arch(arch).torus("2").harts(harts).timeout(DEADLINE);
        let run = run.args(["--seconds", "4", "--all"]).silence(Duration::from_secs(2));
        expect_clean(&run.run().unwrap());
        if long() {
            let run = Run::new("faults")
                .board(board)
                .arch(arch)
                .torus("2")
                .harts(2)
                .args(["hang", "0"])
                .timeout(DEADLINE);
            let outcome = run.silence(Duration::from_secs(12)).run().unwrap();
            expect_suspect(&outcome, 1);
            expect_death(&outcome, 1);
        }
    }
}

#[test]
fn b6_r2_a_node_of_each_board_that_a_debugger_holds_does_not_end_the_run() {
    for (board, arch, _) in boards() {
        let run =
            Run::new("alive").board(board).arch(arch).torus("2").args(["--seconds", "3"]).timeout(DEADLINE);
        let length = Duration::from_secs(if long() { 45 } else { 4 });
        expect_clean(&held(run, Duration::from_secs(1), length));
    }
}

#[test]
fn b6_each_board_computes_on_several_nodes_on_a_bad_wire_too() {
    // Others run that on a bad wire with the whole suite of boards, or have the cards of the board that most tests have.
    let is_new = |board| matches!(board, Board::Zcu102 | Board::VirtE1000e | Board::VirtPci);
    for (board, arch, _) in boards().filter(|&(board, ..)| long() || is_new(board)) {
        let jobs = ["npb-is", "npb-cg", "halo3d", "mpi-suite"];
        for job in &jobs[..if long() { jobs.len() } else { 1 }] {
            let run = Run::new(*job).board(board).arch(arch).torus("2x2").timeout(3 * DEADLINE);
            expect_success_on_a_bad_wire(&run.faults(LOSSY_WIRE).run().unwrap(), LOSSY_WIRE);
        }
    }
}
