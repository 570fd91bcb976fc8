//! Messaging modules on nodes; their claims are tested on the host, in `pami/modules`.

use std::time::Duration;
use tests::{LOSSY_WIRE, count_lines, expect_clean, on_both_architectures, on_eight_nodes};
use xtask::{Arch, Mode, Run};

const DEADLINE: Duration = Duration::from_secs(240);

/// Eight nodes of two harts do everything that the module of this job can, from every thread to every one of what it calls its
/// tasks.
#[track_caller]
fn finds_nothing_wrong((job, tasks): (&str, &str), arch: Arch, mode: Mode, faults: Option<&str>) {
    let outcome = on_eight_nodes(job, &[], arch, mode, faults);
    let (count, threads) = if mode == Mode::Smp { (8, 2) } else { (16, 1) };
    let line = format!("by {count} {tasks} of {threads} threads, 0 wrong");
    assert_eq!(count_lines(&outcome, &line), 1, "{}", outcome.explain());
}

const ARMCI: (&str, &str) = ("armci", "tasks");
const SHMEM: (&str, &str) = ("shmem", "PEs");

/// The conformance run of the MPI module, all chapters of it at every task.
fn mpi_conforms(arch: Arch, mode: Mode, faults: Option<&str>) {
    let outcome = on_eight_nodes("mpi-suite", &[], arch, mode, faults);
    let checks =
        |line: &str| line.rsplit_once(" checks, 0 failed")?.0.rsplit(' ').next()?.parse::<u32>().ok();
    let checks: Vec<_> = outcome.lines().filter_map(|line| checks(&line.text)).collect();
    assert_eq!(checks.len(), if mode == Mode::Smp { 8 } else { 16 }, "{}", outcome.explain());
    assert!(checks.iter().all(|&checks| checks >= 300), "{checks:?}");
}

on_both_architectures! {
    fn m4_mpi_does_what_the_standard_says(arch) {
        let mode = if arch == Arch::Aarch64 { Mode::Vn } else { Mode::Smp };
        mpi_conforms(arch, mode, None);
    }

    fn d8_mpi_does_so_on_a_wire_that_loses_and_reorders(arch) {
        let mode = if arch == Arch::Aarch64 { Mode::Smp } else { Mode::Vn };
        mpi_conforms(arch, mode, Some(LOSSY_WIRE));
    }

    fn p7_armci_moves_and_updates_memory_of_all_tasks(arch) {
        let mode = if arch == Arch::Aarch64 { Mode::Smp } else { Mode::Vn };
        finds_nothing_wrong(ARMCI, arch, mode, None);
    }

    fn d8_armci_does_so_on_a_wire_that_loses_and_reorders(arch) {
        let mode = if arch == Arch::Aarch64 { Mode::Vn } else { Mode::Smp };
        finds_nothing_wrong(ARMCI, arch, mode, Some(LOSSY_WIRE));
    }

    fn m3_shmem_does_what_openshmem_says_with_objects_in_its_own_memory(arch) {
        let mode = if arch == Arch::Aarch64 { Mode::Smp } else { Mode::Vn };
        finds_nothing_wrong(SHMEM, arch, mode, None);
    }

    fn d8_shmem_does_so_on_a_wire_that_loses_and_reorders(arch) {
        let mode = if arch == Arch::Aarch64 { Mode::Vn } else { Mode::Smp };
        finds_nothing_wrong(SHMEM, arch, mode, Some(LOSSY_WIRE));
    }

    fn m4_mpi_and_armci_run_together_in_either_order_with_settings_that_conflict(arch) {
        // Each mode with each order on one of the architectures.
        for (mode, first) in [(Mode::Smp, "mpi"), (Mode::Vn, "armci")] {
            let (first, polls) = match (arch, first) {
                (Arch::Aarch64, first) => (first, first),
                (Arch::Riscv64, "mpi") => ("armci", "mpi"),
                _ => ("mpi", "armci"),
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
