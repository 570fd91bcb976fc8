//! The collective (tree) network: combinations in the routers, broadcasts, class routes, delays, deaths.

use std::time::Duration;
use tests::{count_lines, expect_clean, expect_report, on_both_architectures};
use xtask::fabric::TreeStatistics;
use xtask::{Arch, Mode, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(120);

fn job(arch: Arch, torus: &str) -> Run {
    Run::new("tree").arch(arch).torus(torus).timeout(DEADLINE)
}

fn tree(outcome: &Outcome) -> &TreeStatistics {
    outcome.fabric.tree.as_ref().expect("a tree")
}

/// The job's whole round went well, and neither nodes nor network dropped anything.
fn all_is_right(outcome: &Outcome) {
    expect_clean(outcome);
    for line in [
        "120 combinations of all operators and types, all right",
        "a vector of 262144 bytes, all right",
        "broadcasts, all right",
        "class routes ran out after 12 more, and came back",
        "contributions that differ were reported",
    ] {
        assert_eq!(count_lines(outcome, line), 1, "{line}: {}", outcome.explain());
    }
    for (rank, node) in outcome.nodes.iter().enumerate() {
        let end = node.end().expect("an end");
        assert_eq!(end.number("tree_dropped"), Some(0), "node {rank}: {}", outcome.explain());
        assert_eq!(tree(outcome).nodes[rank].dropped.total(), 0, "node {rank}: {}", outcome.explain());
        assert_eq!(end.number("tree_sent"), Some(tree(outcome).nodes[rank].injected.packets));
    }
}

fn checksums(outcome: &Outcome) -> Vec<&str> {
    outcome.lines().filter_map(|line| line.text.split_once("checksum ")).map(|(_, sum)| sum).collect()
}

on_both_architectures! {
    fn d3_every_operator_and_type_broadcasts_and_class_routes_work_on_2x2x2(arch) {
        let outcome = job(arch, "2x2x2").run().unwrap();
        all_is_right(&outcome);
        assert_eq!(count_lines(&outcome, "sums on sub-trees, all right"), 8);
        assert_eq!(outcome.fabric.nodes.iter().map(|node| node.injected.packets).sum::<u64>(), 0, "over the torus");
        // Three routes for sub-trees, 12 twice until there are no more.
        assert_eq!((tree(&outcome).opened, tree(&outcome).refused), (27, 2));
    }

    fn d3_the_tree_works_on_odd_shapes_and_in_virtual_node_mode(arch) {
        all_is_right(&job(arch, "3x2m").harts(2).mode(Mode::Vn).run().unwrap());
    }

    fn d3_a_tree_of_one_node_is_its_own_root(arch) {
        all_is_right(&job(arch, "1").harts(1).run().unwrap());
    }

    fn x4_a_sum_takes_one_packet_over_each_link_each_way_and_few_steps(arch) {
        const COUNT: u64 = 50;
        let outcome = job(arch, "2x2x2").args(["--allreduce", "50"]).run().unwrap();
        expect_clean(&outcome);
        let tree = tree(&outcome);
        for (rank, node) in tree.nodes.iter().enumerate() {
            assert_eq!(node.up.packets, if rank == 0 { 0 } else { COUNT });
            let children = [1, 2].into_iter().filter(|side| 2 * rank + side < 8).count() as u64;
            assert_eq!(node.down.iter().map(|link| link.packets).sum::<u64>(), children * COUNT);
            assert_eq!(node.combined, if children > 0 { COUNT } else { 0 });
        }
        // All seven links up one after the other, and four steps down to the last node.
        assert!(tree.steps <= 11 * COUNT, "{} steps", tree.steps);
    }

    fn g9_float_sums_have_the_same_bits_with_random_delays(arch) {
        let mut seen = Vec::new();
        for faults in ["delay=0..1ms,seed=1", "delay=0..4ms,seed=2", "delay=0..4ms,seed=3"] {
            let outcome = job(arch, "2x2x2").args(["--sum", "8"]).faults(faults).run().unwrap();
            expect_clean(&outcome);
            assert!(tree(&outcome).nodes.iter().all(|node| node.delayed >= 8));
            assert_eq!(checksums(&outcome).len(), 8, "{}", outcome.explain());
            seen.extend(checksums(&outcome).into_iter().map(str::to_owned));
        }
        assert!(seen.iter().all(|sum| *sum == seen[0]), "{seen:?}");
    }

    fn d8_faults_of_the_torus_leave_the_tree_alone(arch) {
        let faults = "drop=5%,corrupt=5%,dup=5%,reorder=5%,seed=7";
        all_is_right(&job(arch, "2x2").faults(faults).run().unwrap());
    }

    fn g3_nobody_waits_for_a_node_that_was_killed(arch) {
        let run = job(arch, "2x2x2").args(["--allreduce", "100000000"]).kill("node=5@500ms");
        let outcome = run.run().unwrap();
        assert_eq!(count_lines(&outcome, "a node that had to contribute has left"), 7, "{}", outcome.explain());
        assert_eq!(outcome.unfinished().count(), 0, "{}", outcome.explain());
    }

    fn n4_nodes_are_off_the_tree_if_they_are_told_so(arch) {
        let outcome = job(arch, "2").tree(false).run().unwrap();
        assert!(outcome.fabric.tree.is_none());
        assert_eq!(count_lines(&outcome, "leave --no-tree out"), 2, "{}", outcome.explain());
    }

    fn n4_a_node_told_of_a_tree_without_a_card_for_it_is_refused_by_what_it_lacks(arch) {
        let lone = Run::new("hello").arch(arch).torus("1").harts(1).tree(false).timeout(DEADLINE);
        let outcome = lone.bootargs_override(0, "node=0 torus=1 fabric=1 tree=1 job=hello").run().unwrap();
        expect_report(&outcome, 0, 69, &["second network card"]);
    }
}
