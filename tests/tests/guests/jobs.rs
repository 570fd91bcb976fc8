//! The jobs that a newcomer runs, and the network's own books.

use std::time::Duration;
use tests::{BAD_WIRE, count_lines, expect_clean, expect_success_on_a_bad_wire, on_both_architectures};
use xtask::{Arch, Mode, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(240);

/// Both grids of `halo3d` and the order of the method.
fn halo3d_verified(outcome: &Outcome) {
    assert_eq!(count_lines(outcome, ": verified"), 3, "{}", outcome.explain());
    assert_eq!(count_lines(outcome, "WRONG"), 0);
}

on_both_architectures! {
    fn p12_hello_greets_from_every_task(arch) {
        let outcome = Run::new("hello").arch(arch).torus("2x2").timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "says: Hello, World!"), 4);
    }

    fn x1_npb_is_verifies_every_iteration(arch) {
        // At full size one of them is of class W.
        let larger = tests::long() && arch == Arch::Riscv64;
        let class: &[&str] = if larger { &["--class", "W"] } else { &[] };
        let run = Run::new("npb-is").arch(arch).torus("2x2x2").args(class.iter().copied());
        let outcome = run.timeout(DEADLINE * if larger { 15 } else { 1 }).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "verified"), 11, "{}", outcome.explain());
        assert_eq!(count_lines(&outcome, "WRONG"), 0);
    }

    fn n6_npb_is_verifies_on_an_odd_torus_in_virtual_node_mode(arch) {
        let run = Run::new("npb-is").arch(arch).torus("3x2m").harts(2).mode(Mode::Vn).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "verified"), 11, "{}", outcome.explain());
    }

    // Many tasks, so that their blocks are short. At full size on a hundred nodes.
    fn g2_npb_is_sends_short_blocks_of_many_tasks_in_few_packets(arch) {
        let (tasks, run) = match (tests::long(), arch) {
            (true, _) => (100, Run::new("npb-is").torus("10x10").harts(1).memory(64)),
            (false, Arch::Aarch64) => (64, Run::new("npb-is").torus("2x2x2").harts(8).mode(Mode::Vn)),
            // The schedule is the same; one run of so many harts is enough.
            (false, _) => return,
        };
        let outcome = run.arch(arch).timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "verified"), 11, "{}", outcome.explain());
        let sent = outcome.nodes.iter().filter_map(|node| node.end()?.number::<u64>("sent")).sum::<u64>();
        // One for each block would be 24 * (tasks - 1) of each task.
        assert!(sent <= 200 * tasks, "{sent} packets");
    }

    // Its exchanges go from all to all, so places change hands all the time.
    fn r3_npb_is_verifies_on_nodes_that_know_three_others_at_once(arch) {
        let run = Run::new("npb-is").arch(arch).torus("3x3").harts(1).peers(3).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "verified"), 11, "{}", outcome.explain());
        for node in &outcome.nodes {
            let count = |name| node.end().and_then(|end| end.number::<u64>(name));
            assert!(count("released") > Some(20), "{}", outcome.explain());
            assert_eq!(count("failed"), Some(0));
        }
    }

    fn d8_npb_is_verifies_every_iteration_on_a_bad_wire(arch) {
        let run = Run::new("npb-is").arch(arch).torus("2x2x2").faults(BAD_WIRE).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_success_on_a_bad_wire(&outcome, BAD_WIRE);
        assert_eq!(count_lines(&outcome, "verified"), 11, "{}", outcome.explain());
    }

    fn p7_d5_halo3d_converges_to_the_analytic_solution_by_puts_with_signal(arch) {
        let run = Run::new("halo3d").arch(arch).torus("2x2x2").mode(Mode::Vn).args(["--size", "11"]);
        let outcome = run.timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        halo3d_verified(&outcome);
    }

    fn d8_halo3d_converges_on_a_bad_wire(arch) {
        let run = Run::new("halo3d").arch(arch).torus("2x2x2").args(["--size", "11"]);
        let outcome = run.faults(BAD_WIRE).timeout(DEADLINE).run().unwrap();
        expect_success_on_a_bad_wire(&outcome, BAD_WIRE);
        halo3d_verified(&outcome);
    }

    fn x1_ping_prints_a_row_per_path_and_size(arch) {
        let run = Run::new("ping").arch(arch).torus("2x2").args(["--rounds", "20"]).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        for path in ["self ", "shared memory, context 1 ", "torus, 1 hop ", "torus, 2 hops "] {
            assert_eq!(count_lines(&outcome, path), 7, "{path}: {}", outcome.explain());
        }
        assert_eq!(count_lines(&outcome, "bare frames, 1 hop "), 5, "{}", outcome.explain());
    }

    fn q4_bare_frames_that_are_lost_are_counted_and_hold_up_nothing(arch) {
        // Some 250 questions and answers: that none is lost is as good as impossible.
        let faults = "drop=5%,seed=5";
        let run = Run::new("ping").arch(arch).torus("2").args(["--rounds", "20"]).faults(faults);
        let outcome = run.timeout(DEADLINE).run().unwrap();
        expect_success_on_a_bad_wire(&outcome, faults);
        assert_eq!(count_lines(&outcome, "bare frames, 1 hop "), 5, "{}", outcome.explain());
        assert_eq!(count_lines(&outcome, " were lost"), 1, "{}", outcome.explain());
    }

    fn x1_rma_prints_a_row_per_path_and_size_and_finds_nothing_wrong(arch) {
        let run = Run::new("rma").arch(arch).torus("2").args(["--rounds", "5"]).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        for path in ["self  ", "shared memory  ", "loop-back  ", "torus  "] {
            // Six sizes of puts and gets, one of updates.
            assert_eq!(count_lines(&outcome, path), 7, "{path}: {}", outcome.explain());
        }
        assert_eq!(count_lines(&outcome, "52 rows, 0 wrong"), 1, "{}", outcome.explain());
    }

    fn p6_eager_and_rendezvous_are_measured_beside_each_other(arch) {
        let run = Run::new("rma").arch(arch).torus("2").harts(1).args(["--switch-over", "--rounds", "3"]);
        let outcome = run.timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "12 sizes, 0 wrong"), 1, "{}", outcome.explain());
    }

    fn p5_p7_random_updates_leave_the_table_as_a_serial_computation_does(arch) {
        let run = Run::new("gups").arch(arch).torus("3").harts(1).args(["--updates", "6000", "--log2", "10"]);
        let outcome = run.timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "0 of 1024 words differ: verified"), 2, "{}", outcome.explain());
    }

    fn x4_the_fabric_counts_hops_and_captures_every_packet(arch) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hello.pcap");
        let run = Run::new("hello").arch(arch).torus("4m").harts(1).pcap(&file).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        // Nodes 1 to 3 talk to node 0 only, along the line; what comes back are link acknowledgements.
        for (distance, node) in outcome.fabric.nodes.iter().enumerate().skip(1) {
            assert!(node.injected.packets > 0);
            assert_eq!(node.hops, distance as u64 * node.injected.packets);
        }
        let packets = tests::capture::packets(&file);
        assert_eq!(packets.iter().filter(|packet| packet.data == b"Hello, World!").count(), 3);
    }
}
