//! The floating-point benchmarks verify on nodes; their numerics are tested on the host, in `kernel/tests/npb`.

use std::time::Duration;
use tests::{count_lines, expect_clean, on_both_architectures};
use xtask::{Arch, Mode, Run};

const DEADLINE: Duration = Duration::from_secs(240);

/// Eight nodes of two harts run `job`, which verifies so many results.
fn expect_verified(job: &str, arch: Arch, mode: Mode, results: usize) {
    let run = Run::new(job).arch(arch).torus("2x2x2").harts(2).mode(mode).timeout(DEADLINE);
    let outcome = run.run().unwrap();
    expect_clean(&outcome);
    assert_eq!(count_lines(&outcome, "verified"), results, "{}", outcome.explain());
    assert_eq!(count_lines(&outcome, "WRONG"), 0);
}

on_both_architectures! {
    fn g3_npb_ep_verifies(arch) {
        expect_verified("npb-ep", arch, Mode::Smp, 1);
    }

    fn n6_npb_ep_verifies_in_virtual_node_mode(arch) {
        expect_verified("npb-ep", arch, Mode::Vn, 1);
    }

    fn g3_npb_cg_verifies(arch) {
        expect_verified("npb-cg", arch, Mode::Smp, 1);
    }

    fn n6_npb_cg_verifies_in_virtual_node_mode(arch) {
        expect_verified("npb-cg", arch, Mode::Vn, 1);
    }

    fn g3_npb_mg_verifies(arch) {
        expect_verified("npb-mg", arch, Mode::Smp, 1);
    }

    fn n6_npb_mg_verifies_in_virtual_node_mode(arch) {
        expect_verified("npb-mg", arch, Mode::Vn, 1);
    }

    fn g3_npb_ft_verifies_every_step(arch) {
        expect_verified("npb-ft", arch, Mode::Smp, 6);
    }

    fn n6_npb_ft_verifies_every_step_in_virtual_node_mode(arch) {
        expect_verified("npb-ft", arch, Mode::Vn, 6);
    }

    fn d8_npb_ft_verifies_every_step_on_a_wire_that_loses_and_reorders(arch) {
        let run = Run::new("npb-ft").arch(arch).torus("2x2x2").faults("drop=1%,reorder=5%,seed=4");
        let outcome = run.timeout(DEADLINE).run().unwrap();
        outcome.expect_success();
        assert_eq!(count_lines(&outcome, "verified"), 6, "{}", outcome.explain());
    }

    fn g3_npb_mg_says_what_numbers_of_tasks_it_runs_on(arch) {
        let outcome = Run::new("npb-mg").arch(arch).torus("3").harts(1).timeout(DEADLINE).run().unwrap();
        assert!(!outcome.success());
        assert!(count_lines(&outcome, "npb-mg wants a power of two of tasks") > 0, "{}", outcome.explain());
    }
}
