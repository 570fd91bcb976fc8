//! Messages: every pair, every size, every path, order, back-pressure, garbage.

use std::time::Duration;
use tests::{BAD_WIRE, count_lines, expect_clean, expect_success_on_a_bad_wire, on_both_architectures};
use xtask::{Arch, Mode, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(240);

/// Sends, and puts, gets and updates.
fn all_pairs_are_right(outcome: &Outcome) {
    assert_eq!(count_lines(outcome, " 0 wrong, 0 protocol errors"), 1, "{}", outcome.explain());
    assert_eq!(count_lines(outcome, " endpoints, 0 wrong"), 2, "{}", outcome.explain());
}

on_both_architectures! {
    fn p4_p6_p9_every_pair_of_endpoints_exchanges_every_size_in_order(arch) {
        let run = Run::new("all-pairs").arch(arch).torus("2x2x2").args(["--only", "sends"]);
        let outcome = run.timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, " 0 wrong, 0 protocol errors"), 1, "{}", outcome.explain());
        assert_eq!(count_lines(&outcome, "256 messages from 16 endpoints"), 1, "{}", outcome.explain());
    }

    fn m5_every_way_to_send_carries_every_size_within_a_node_and_between_two(arch) {
        let run = Run::new("all-pairs").arch(arch).torus("2").harts(2).mode(Mode::Vn);
        let outcome = run.args(["--only", "sends", "--ways"]).timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, " 0 wrong, 0 protocol errors"), 1, "{}", outcome.explain());
        assert_eq!(count_lines(&outcome, "640 messages from 8 endpoints"), 1, "{}", outcome.explain());
    }

    fn p7_p10_every_pair_puts_gets_and_updates_every_size_and_shape(arch) {
        let run = Run::new("all-pairs").arch(arch).torus("2").args(["--only", "one-sided"]);
        let outcome = run.timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        let line = "176 puts and gets, 384 updates between 4 endpoints, 0 wrong";
        assert_eq!(count_lines(&outcome, line), 1, "{}", outcome.explain());
    }

    fn p9_tasks_of_one_node_exchange_every_size_through_shared_memory(arch) {
        let run = Run::new("all-pairs").arch(arch).torus("1").harts(4).mode(Mode::Vn).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        all_pairs_are_right(&outcome);
        assert_eq!(outcome.fabric.nodes[0].injected.packets, 0, "a local message went over the torus");
    }

    fn n7_tasks_of_a_node_share_the_segments_that_they_ask_for(arch) {
        let outcome = Run::new("segments").arch(arch).torus("2").harts(3).mode(Mode::Vn).timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        for sum in ["met 3 tasks whose numbers add up to 6", "met 3 tasks whose numbers add up to 9"] {
            assert_eq!(count_lines(&outcome, sum), 3, "{}", outcome.explain());
        }
    }

    fn p9_the_networks_loop_back_carries_every_size(arch) {
        let run = Run::new("all-pairs").arch(arch).torus("1").harts(2).mode(Mode::Vn).args(["--loop-back"]);
        let outcome = run.timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        all_pairs_are_right(&outcome);
        assert!(outcome.fabric.nodes[0].injected.packets > 4000, "the messages stayed in the node");
    }

    fn p3_contexts_may_share_an_injection_fifo(arch) {
        let run = Run::new("all-pairs").arch(arch).torus("2").args(["--shared"]).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        all_pairs_are_right(&outcome);
    }

    fn d8_every_pair_sends_puts_gets_and_updates_every_size_in_order_on_a_bad_wire(arch) {
        let run = Run::new("all-pairs").arch(arch).torus("2x2").faults(BAD_WIRE).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_success_on_a_bad_wire(&outcome, BAD_WIRE);
        all_pairs_are_right(&outcome);
        let lost: u64 = outcome.fabric.nodes.iter().map(|node| node.faults.dropped).sum();
        assert!(lost > 100, "only {lost} packets were lost");
    }

    fn d8_p6_every_pair_sends_every_size_by_rendezvous_on_a_bad_wire(arch) {
        let run = Run::new("all-pairs").arch(arch).torus("2x2").faults(BAD_WIRE).timeout(DEADLINE);
        let outcome = run.args(["--only", "sends", "--rendezvous-from", "1"]).run().unwrap();
        expect_success_on_a_bad_wire(&outcome, BAD_WIRE);
        assert_eq!(count_lines(&outcome, " 0 wrong, 0 protocol errors"), 1, "{}", outcome.explain());
    }

    fn d7_an_agent_core_may_run_the_message_unit(arch) {
        let run = Run::new("all-pairs").arch(arch).torus("2").harts(2).agent_core(true).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        all_pairs_are_right(&outcome);
    }

    fn p11_a_million_posts_to_a_stalled_receiver_all_arrive_in_order(arch) {
        let outcome = Run::new("stalled").arch(arch).torus("2").timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "1000000 messages came, 0 out of order"), 1, "{}", outcome.explain());
    }

    fn p1_r1_clients_one_after_the_other_in_one_place_hear_only_what_is_for_them(arch) {
        for (shape, mode) in [("1", Mode::Vn), ("3", Mode::Smp), ("2", Mode::Vn)] {
            let run = Run::new("anew").arch(arch).torus(shape).harts(2).mode(mode);
            let outcome = run.timeout(DEADLINE).run().unwrap();
            expect_clean(&outcome);
            let tasks = shape.parse::<usize>().unwrap() * if mode == Mode::Vn { 2 } else { 1 };
            assert_eq!(count_lines(&outcome, "heard 20 words, 0 of another client"), tasks, "{}", outcome.explain());
        }
    }

    fn d9_garbage_from_a_hostile_node_is_counted_and_dropped(arch) {
        let outcome = Run::new("hostile").arch(arch).torus("2x2").timeout(DEADLINE).run().unwrap();
        outcome.expect_success();
        assert_eq!(count_lines(&outcome, "honest messages arrived"), 3, "{}", outcome.explain());
        for node in &outcome.nodes[1..] {
            let dropped = node.end().and_then(|end| end.number::<u64>("dropped"));
            assert!(dropped.is_some_and(|dropped| dropped > 0), "nothing dropped: {}", outcome.explain());
        }
    }

    fn n8_d10_sleeping_harts_are_woken_by_other_harts_the_adapter_and_timers_and_by_nothing_else(arch) {
        let outcome = Run::new("wake").arch(arch).torus("2").harts(4).timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        // An interrupt between harts, another for the ring in shared memory, the network card's through the controller.
        for source in ["post", "local message", "torus message"] {
            let line = outcome.lines().find(|line| line.text.contains(&format!("50 touches by a {source}, ")));
            let line = line.unwrap_or_else(|| panic!("no {source}: {}", outcome.explain()));
            let sleeps = line.text.rsplit_once(", ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok());
            // Most find the hart asleep, and it does not wake up again and again by itself.
            assert!(sleeps.is_some_and(|sleeps| (25..500).contains(&sleeps)), "{}", line.text);
        }
        assert_eq!(count_lines(&outcome, "woken by a timer, not before its time"), 1, "{}", outcome.explain());
    }

    fn n8_nodes_that_all_wait_take_no_processor_time(arch) {
        // No other test has these arguments.
        let args = ["--seconds", if arch == Arch::Aarch64 { "21" } else { "22" }];
        let run = Run::new("idle").arch(arch).torus("2x2").harts(2).timeout(DEADLINE);
        let (outcome, least) = tests::processor_time(run, &args, 0..4);
        expect_clean(&outcome);
        // Eight harts that poll take all of two processors, or 400 ticks.
        assert!(least <= 20, "in two seconds in which all wait four emulators take {least} hundredths at least");
    }
}
