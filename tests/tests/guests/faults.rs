//! Faults: each gives one readable report, a non-zero exit and the end of the whole job (SPEC N-10, N-11).

use std::time::Duration;
use tests::{expect_report, on_both_architectures};
use xtask::run::Ending;
use xtask::{Arch, KillWhen, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(60);

/// Two nodes; node 1 meets with `fault` while node 0 waits for it.
fn faulty(arch: Arch, fault: &str) -> Outcome {
    let run = Run::new("faults").arch(arch).torus("2").harts(2).args(fault.split(' ')).timeout(DEADLINE);
    let outcome = run.run().unwrap();
    assert_eq!(outcome.ending, Ending::NodeFailed, "{}", outcome.explain());
    outcome
}

on_both_architectures! {
    fn n10_a_panic_is_reported_with_place_and_backtrace(arch) {
        let outcome = faulty(arch, "panic");
        expect_report(&outcome, 1, 101, &["panic on node 1, hart 0", "in jobs/examples/faults.rs", "at 0x"]);
        // The host names the functions of the backtrace.
        assert!(outcome.reports().any(|line| line.contains("main")), "{}", outcome.explain());
    }

    fn d8_a_torus_without_faults_may_be_taken_for_lossless(arch) {
        let run = Run::new("npb-is").arch(arch).torus("2").lossless(true).timeout(Duration::from_secs(120));
        let outcome = run.run().unwrap();
        assert!(outcome.success(), "{}", outcome.explain());
    }

    fn d8_a_frame_that_a_lossless_torus_loses_ends_the_job_by_name(arch) {
        let told = |node| format!("node={node} torus=2 fabric=1 lossless=1 job=npb-is");
        let run = Run::new("npb-is").arch(arch).torus("2").tree(false).faults("drop=10%,seed=1");
        let run = run.bootargs_override(0, told(0)).bootargs_override(1, told(1)).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        // Each may miss a frame of the other's, and then both are gone before either is stopped.
        assert!(!outcome.success() && outcome.ending != Ending::Deadline, "{}", outcome.explain());
        let mut reports = outcome.reports();
        assert!(reports.any(|line| line.contains("said to lose nothing")), "{}", outcome.explain());
    }

    fn n10_a_panic_in_a_callback_is_reported(arch) {
        expect_report(&faulty(arch, "callback"), 1, 101, &["panic", "in a callback"]);
    }

    fn n10_what_is_logged_within_a_report_does_not_keep_it_back(arch) {
        let outcome = faulty(arch, "words");
        expect_report(&outcome, 1, 101, &["a panic whose words log, as asked for"]);
        assert!(!outcome.nodes[1].said("logged while a panic"), "{}", outcome.explain());
    }

    fn n10_a_stack_overflow_meets_the_guard_page(arch) {
        expect_report(&faulty(arch, "overflow"), 1, 102, &["stack overflow"]);
    }

    fn n10_a_stack_overflow_of_another_hart_names_the_hart(arch) {
        expect_report(&faulty(arch, "overflow 1"), 1, 102, &["stack overflow", "hart 1"]);
    }

    fn n10_a_null_dereference_is_named(arch) {
        expect_report(&faulty(arch, "null"), 1, 102, &["null dereference", "node 1, hart 0", "pc 0x", "at 0x"]);
    }

    fn n10_read_only_memory_cannot_be_written(arch) {
        expect_report(&faulty(arch, "readonly"), 1, 102, &["read-only"]);
    }

    fn n10_an_illegal_instruction_is_named(arch) {
        expect_report(&faulty(arch, "illegal"), 1, 102, &["instruction"]);
    }

    fn n10_data_cannot_be_executed(arch) {
        expect_report(&faulty(arch, "execute"), 1, 102, &["jump to memory that is no code"]);
    }

    fn n10_out_of_memory_is_reported(arch) {
        expect_report(&faulty(arch, "oom"), 1, 101, &["memory"]);
    }

    fn s1_n11_a_status_of_the_job_reaches_the_host(arch) {
        let run = Run::new("faults").arch(arch).torus("1").harts(1).args(["status"]).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        // The job's 256 is not cut down to a 0 on its way.
        assert_eq!(outcome.nodes[0].status(), Some(255), "{}", outcome.explain());
        assert_eq!(outcome.nodes[0].exit, Some(xtask::node::Exit::Code(255)));
        assert!(!outcome.success());
    }

    fn n5_an_allocation_after_the_start_is_counted(arch) {
        let run = Run::new("faults").arch(arch).torus("1").harts(1).args(["allocate"]).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        let counted = outcome.nodes[0].end().and_then(|end| end.number::<u32>("allocations"));
        assert!(counted.is_some_and(|count| count > 0), "{}", outcome.explain());
    }

    fn x2_a_killed_node_ends_the_job_with_its_name(arch) {
        let run = Run::new("idle").arch(arch).torus("2x2").args(["--seconds", "3600"]).timeout(DEADLINE);
        let outcome = run.kill_node_at(3, KillWhen::After(Duration::from_millis(300))).run().unwrap();
        let failures: Vec<_> = outcome.failures().collect();
        assert!(failures.iter().any(|failure| failure.contains("node 3") && failure.contains("kill")), "{failures:?}");
        assert_ne!(outcome.exit_code(), 0);
        // All others end by themselves, and say who died.
        assert_eq!(outcome.ending, Ending::Finished, "{}", outcome.explain());
        for rank in 0..3 {
            assert!(outcome.nodes[rank].status().is_some_and(|status| status != 0), "{}", outcome.explain());
            let mut lines = outcome.nodes[rank].lines.iter().map(|line| &line.text);
            assert!(lines.any(|text| text.contains("node 3 is dead")), "{}", outcome.explain());
        }
        let dump = outcome.dump.as_deref().unwrap_or_default();
        for word in ["node 0", "node 3 (gone, exit signal 9)", "fabric"] {
            assert!(dump.contains(word), "no {word:?} in the dump:\n{dump}");
        }
    }

    fn s3_x2_a_hung_node_is_stopped_at_the_deadline_with_its_state(arch) {
        let run = Run::new("idle").arch(arch).torus("2").args(["--seconds", "3600"]);
        let outcome = run.timeout(Duration::from_secs(4)).run().unwrap();
        assert_eq!((outcome.ending, outcome.exit_code()), (Ending::Deadline, 124), "{}", outcome.explain());
        let dump = outcome.dump.as_deref().unwrap_or_default();
        assert!(dump.contains("injected") && dump.contains("delivered"), "no FIFOs in the dump:\n{dump}");
    }
    fn d8_x4_all_others_end_with_the_name_of_a_node_that_was_killed(arch) {
        // Nothing but the death ends it.
        let run = Run::new("gups").arch(arch).torus("2x2").harts(1).args(["--updates", "1000000000"]);
        let outcome = run.kill("node=3@1s").timeout(Duration::from_secs(180)).run().unwrap();
        assert_eq!(outcome.ending, Ending::Finished, "{}", outcome.explain());
        for node in &outcome.nodes[..3] {
            assert_eq!(node.status(), Some(1), "{}", outcome.explain());
            assert!(node.said("node 3 is dead"), "{}", outcome.explain());
            assert!(!(0..3).any(|other| node.said(&format!("node {other} is dead"))), "{}", outcome.explain());
        }
        assert!(outcome.failures().any(|failure| failure.contains("node 3") && failure.contains("kill")));
    }
}
