//! The NAS Parallel Benchmarks verify on nodes; their numerics are tested on the host, in `kernel/tests/npb`.
//!
//! Of architecture, mode and wire, every two meet in four runs of a benchmark. Two runs have `npb-ep`, which computes long and
//! hardly communicates, and `npb-cg`, whose short messages take longest. `npb-is` on a good wire is among the tests of jobs.

use std::time::Duration;
use tests::{count_lines, expect_clean, on_both_architectures};
use xtask::{Arch, Mode, Run};

const DEADLINE: Duration = Duration::from_secs(240);
const FAULTS: &str = "drop=1%,reorder=5%,seed=4";

/// Eight nodes of two harts run `job`, which verifies so many results.
fn expect_verified(job: &str, arch: Arch, mode: Mode, faults: Option<&str>, results: usize) {
    let mut run = Run::new(job).arch(arch).torus("2x2x2").harts(2).mode(mode).timeout(DEADLINE);
    if let Some(faults) = faults {
        run = run.faults(faults);
    }
    let outcome = run.run().unwrap();
    if faults.is_none() {
        expect_clean(&outcome);
    }
    outcome.expect_success();
    assert_eq!(count_lines(&outcome, "verified"), results, "{}", outcome.explain());
    assert_eq!(count_lines(&outcome, "WRONG"), 0);
}

/// On a good wire: the one architecture in SMP mode, the other in virtual-node mode.
fn on_a_good_wire(job: &str, arch: Arch, results: usize) {
    let mode = if arch == Arch::Aarch64 { Mode::Smp } else { Mode::Vn };
    expect_verified(job, arch, mode, None, results);
}

/// On a bad wire: the other way round.
fn on_a_bad_wire(job: &str, arch: Arch, results: usize) {
    let mode = if arch == Arch::Aarch64 { Mode::Vn } else { Mode::Smp };
    expect_verified(job, arch, mode, Some(FAULTS), results);
}

#[test]
fn g3_npb_ep_verifies() {
    expect_verified("npb-ep", Arch::Aarch64, Mode::Smp, None, 1);
}

#[test]
fn d8_npb_ep_verifies_on_a_wire_that_loses_and_reorders() {
    expect_verified("npb-ep", Arch::Riscv64, Mode::Vn, Some(FAULTS), 1);
}

#[test]
fn g3_npb_cg_verifies() {
    expect_verified("npb-cg", Arch::Riscv64, Mode::Smp, None, 1);
}

#[test]
fn d8_npb_cg_verifies_on_a_wire_that_loses_and_reorders() {
    expect_verified("npb-cg", Arch::Aarch64, Mode::Vn, Some(FAULTS), 1);
}

on_both_architectures! {
    fn g3_npb_mg_verifies(arch) {
        on_a_good_wire("npb-mg", arch, 1);
    }

    fn d8_npb_mg_verifies_on_a_wire_that_loses_and_reorders(arch) {
        on_a_bad_wire("npb-mg", arch, 1);
    }

    fn g3_npb_ft_verifies_every_step(arch) {
        on_a_good_wire("npb-ft", arch, 6);
    }

    fn d8_npb_ft_verifies_every_step_on_a_wire_that_loses_and_reorders(arch) {
        on_a_bad_wire("npb-ft", arch, 6);
    }

    fn d8_npb_is_verifies_on_a_wire_that_loses_and_reorders(arch) {
        on_a_bad_wire("npb-is", arch, 11);
    }
}

#[test]
fn g3_npb_mg_says_what_numbers_of_tasks_it_runs_on() {
    let outcome = Run::new("npb-mg").torus("3").harts(1).timeout(DEADLINE).run().unwrap();
    assert!(!outcome.success());
    assert!(count_lines(&outcome, "npb-mg wants a power of two of tasks") > 0, "{}", outcome.explain());
}
