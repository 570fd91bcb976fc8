//! The NAS Parallel Benchmarks verify on nodes; their numerics are tested on the host, in `jobs/tests/npb`.
//!
//! Of architecture, mode and wire, every two meet in four runs of a benchmark. Two runs have `npb-ep`, which computes long and
//! hardly communicates, and `npb-cg`, whose short messages take longest. `npb-is` on a good wire is among the tests of jobs.
//! Over MPI each runs once, two of them on a bad wire. At full size (`cargo xtask test --long`) one run of each is of class W,
//! and all run over both on a bad wire, on both architectures and in both modes.

use std::time::Duration;
use tests::{BAD_WIRE, LOSSY_WIRE, count_lines, long, on_both_architectures, on_eight_nodes};
use xtask::{Arch, Mode, Run};

const DEADLINE: Duration = Duration::from_secs(240);

/// Eight nodes of two harts run `job`, which verifies so many results.
fn expect_verified(job: &str, arch: Arch, mode: Mode, faults: Option<&str>, results: usize) {
    let at_full_size = [
        ("npb-ep", Arch::Aarch64),
        ("npb-cg", Arch::Riscv64),
        ("npb-mg", Arch::Aarch64),
        ("npb-ft", Arch::Riscv64),
    ];
    let larger = long() && faults.is_none() && at_full_size.contains(&(job, arch));
    let class: &[&str] = if larger { &["--class", "W"] } else { &[] };
    expect_verified_with(class, job, arch, mode, faults, results);
}

/// The same with arguments of the job.
fn expect_verified_with(
    args: &[&str],
    job: &str,
    arch: Arch,
    mode: Mode,
    faults: Option<&str>,
    results: usize,
) {
    let outcome = on_eight_nodes(job, args, arch, mode, faults);
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
    expect_verified(job, arch, mode, Some(LOSSY_WIRE), results);
}

#[test]
fn g3_npb_ep_verifies() {
    expect_verified("npb-ep", Arch::Aarch64, Mode::Smp, None, 1);
}

#[test]
fn g7_npb_ep_verifies_with_a_task_on_each_hart() {
    // It sums by the tree network alone: a bad torus would show nothing.
    expect_verified("npb-ep", Arch::Riscv64, Mode::Vn, None, 1);
}

#[test]
fn g3_npb_cg_verifies() {
    expect_verified("npb-cg", Arch::Riscv64, Mode::Smp, None, 1);
}

#[test]
fn d8_npb_cg_verifies_on_a_wire_that_loses_and_reorders() {
    expect_verified("npb-cg", Arch::Aarch64, Mode::Vn, Some(LOSSY_WIRE), 1);
}

#[test]
fn m4_the_benchmarks_verify_over_mpi() {
    use {
        Arch::{Aarch64, Riscv64},
        Mode::{Smp, Vn},
    };
    let runs = [
        ("npb-is", Riscv64, Vn, Some(LOSSY_WIRE), 11),
        ("npb-cg", Aarch64, Smp, Some(LOSSY_WIRE), 1),
        ("npb-mg", Aarch64, Vn, None, 1),
        ("npb-ft", Riscv64, Smp, None, 6),
        ("npb-ep", Riscv64, Smp, None, 1),
    ];
    for (job, arch, mode, faults, results) in runs {
        expect_verified_with(&["--over", "mpi"], job, arch, mode, faults, results);
    }
    let each = [(Aarch64, Vn), (Aarch64, Smp), (Riscv64, Vn), (Riscv64, Smp)];
    for (arch, mode) in each.into_iter().filter(|_| long()) {
        for args in [&["--over", "mpi"][..], &[]] {
            for (job, results) in [("npb-is", 11), ("npb-cg", 1), ("npb-mg", 1), ("npb-ft", 6)] {
                expect_verified_with(args, job, arch, mode, Some(LOSSY_WIRE), results);
            }
            // Its few packets meet with something on a worse wire only, and where there is no tree network.
            let run = Run::new("npb-ep").arch(arch).torus("2x2x2").harts(2).mode(mode).tree(false);
            let run = run.args(args.iter().copied()).faults(BAD_WIRE).timeout(Duration::from_secs(3600));
            let outcome = run.run().unwrap();
            outcome.expect_success();
            assert_eq!(count_lines(&outcome, "verified"), 1, "{}", outcome.explain());
        }
    }
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
