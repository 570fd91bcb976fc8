//! Several messaging libraries in one program.

use std::time::Duration;
use tests::{count_lines, expect_clean, on_both_architectures};
use xtask::{Arch, Mode, Run};

const DEADLINE: Duration = Duration::from_secs(120);

on_both_architectures! {
    fn m4_mpi_and_armci_run_together_in_either_order_with_settings_that_conflict(arch) {
        // Each mode with each order on one of the architectures.
        for (mode, first) in [(Mode::Smp, "mpi"), (Mode::Vn, "armci")] {
            let (first, polls) = match (arch, first) {
                (Arch::Aarch64, first) => (first, first),
                (Arch::Riscv64, "mpi") => ("armci", "mpi"),
                (Arch::Riscv64, _) => ("mpi", "armci"),
            };
            let args = ["--first", first, "--polls", polls, "--rounds", "2"];
            let run = Run::new("modules").arch(arch).torus("2x2").harts(2).mode(mode).args(args);
            let outcome = run.timeout(DEADLINE).run().unwrap();
            expect_clean(&outcome);
            let tasks = if mode == Mode::Smp { 4 } else { 8 };
            assert_eq!(count_lines(&outcome, " checks, 0 failed"), tasks, "{}", outcome.explain());
            let gone = if first == "mpi" { "MPI without ARMCI" } else { "ARMCI without MPI" };
            assert_eq!(count_lines(&outcome, gone), 1, "{}", outcome.explain());
        }
    }
}
