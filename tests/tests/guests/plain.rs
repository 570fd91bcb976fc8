//! Nodes on a plain Ethernet switch, as on most real boards: they gather themselves, without a fabric of ours (SPEC ).

use std::time::Duration;
use tests::{LOSSY_WIRE, count_lines, on_both_architectures};
use xtask::{Arch, Board, Mode, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(60);

/// The run ended well, and the switch was all that there was: it said nothing, and no frame crossed a link.
#[track_caller]
fn expect_plain(outcome: &Outcome) {
    outcome.expect_success();
    assert!(outcome.fabric.tree.is_none(), "{}", outcome.explain());
    for node in &outcome.fabric.nodes {
        assert!(node.injected.packets > 0 && node.hops == 0 && node.control == 0, "{}", outcome.explain());
    }
}

on_both_architectures! {
    fn x3_nodes_on_a_plain_switch_gather_and_greet(arch) {
        let outcome = Run::new("hello").arch(arch).torus("2x2").plain().timeout(DEADLINE).run().unwrap();
        expect_plain(&outcome);
        assert_eq!(count_lines(&outcome, "all 4 tasks said hello"), 1);
    }

    fn x3_jobs_on_a_plain_switch_compute_what_they_do_elsewhere(arch) {
        for job in ["npb-is", "mpi-suite"] {
            let run = Run::new(job).arch(arch).torus("3").mode(Mode::Vn).plain().timeout(2 * DEADLINE);
            expect_plain(&run.run().unwrap());
        }
        let run = Run::new("halo3d").arch(arch).torus("2x2").plain().faults(LOSSY_WIRE).timeout(2 * DEADLINE);
        expect_plain(&run.run().unwrap());
    }
}

#[test]
fn x3_boards_with_a_gem_gather_on_a_plain_switch_too() {
    for (board, arch) in [(Board::Zcu102, Arch::Aarch64), (Board::SifiveU, Arch::Riscv64)] {
        let run = Run::new("npb-is").board(board).arch(arch).torus("2").plain().timeout(2 * DEADLINE);
        expect_plain(&run.run().unwrap());
    }
}
