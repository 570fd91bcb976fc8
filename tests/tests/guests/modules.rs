//! Messaging libraries over PAMI.

use std::time::Duration;
use tests::{count_lines, expect_clean, expect_success_despite_losses, on_both_architectures};
use xtask::{Mode, Run};

const DEADLINE: Duration = Duration::from_secs(240);

on_both_architectures! {
    fn m4_the_mpi_suite_finds_nothing_wrong(arch) {
        let run = Run::new("mpi-suite").arch(arch).torus("2x2x2").harts(2).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, " checks, 0 failed"), 8, "{}", outcome.explain());
    }

    fn d8_the_mpi_suite_finds_nothing_wrong_on_a_bad_wire_in_virtual_node_mode(arch) {
        let run = Run::new("mpi-suite").arch(arch).torus("2x2x2").harts(2).mode(Mode::Vn);
        let outcome = run.faults("drop=1%,reorder=5%,seed=4").timeout(DEADLINE).run().unwrap();
        expect_success_despite_losses(&outcome);
        assert_eq!(count_lines(&outcome, " checks, 0 failed"), 16, "{}", outcome.explain());
    }
}
