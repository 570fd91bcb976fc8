//! Boot: harts, modes, personality, memory, log.

use std::time::Duration;
use tests::{count_lines, expect_clean, expect_report, on_both_architectures};
use xtask::{Arch, Level, Map, Mode, Run};

const DEADLINE: Duration = Duration::from_secs(60);

on_both_architectures! {
    fn n1_n2_one_to_eight_harts_come_up(arch) {
        for harts in 1..=8 {
            let outcome = Run::new("harts").arch(arch).torus("1").harts(harts).timeout(DEADLINE).run().unwrap();
            expect_clean(&outcome);
            for hart in 0..harts {
                assert_eq!(count_lines(&outcome, &format!("runs on its hart {hart};")), 1, "{}", outcome.explain());
            }
            let up = outcome.nodes[0].up().expect("an up status");
            assert_eq!(up.number("harts"), Some(harts));
        }
    }

    fn n1_pieces_of_memory_of_any_length_and_place_are_copied_right(arch) {
        let outcome = Run::new("copies").arch(arch).torus("1").harts(1).timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        let line = "51456 pieces of up to 200 bytes were copied and moved right";
        assert_eq!(count_lines(&outcome, line), 1, "{}", outcome.explain());
    }

    fn n4_tasks_are_numbered_as_the_personality_says(arch) {
        for map in [Map::Xyzt, Map::Txyz] {
            let run = Run::new("harts").arch(arch).torus("2").harts(3).mode(Mode::Vn).map(map);
            let outcome = run.timeout(DEADLINE).run().unwrap();
            expect_clean(&outcome);
            for task in 0..6 {
                assert_eq!(count_lines(&outcome, &format!("task {task} of node")), 1, "{}", outcome.explain());
            }
            // Node first, or hart first.
            for (node, hart) in (0..2).flat_map(|node| (0..3).map(move |hart| (node, hart))) {
                let task = if map == Map::Xyzt { 2 * hart + node } else { 3 * node + hart };
                let line = format!("task {task} of node {node} runs on its hart 0;");
                let said = outcome.nodes[node].lines.iter().filter(|at| at.text.contains(&line)).count();
                assert_eq!(said, 1, "{map:?}, {line}: {}", outcome.explain());
            }
        }
    }

    fn x1_a_node_with_too_little_memory_says_how_much_is_enough(arch) {
        let run = |memory| {
            let run = Run::new("hello").arch(arch).torus("2").harts(8).mode(Mode::Vn).contexts(8).memory(memory);
            run.timeout(DEADLINE).run().unwrap()
        };
        let refused = run(40).grouped();
        let enough = refused[0].split_once("too few: ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        let enough: u32 = enough.unwrap_or_else(|| panic!("{refused:?}"));
        assert!(refused.len() == 1 && refused[0].starts_with("nodes 0, 1 reported: cannot start"), "{refused:?}");
        expect_clean(&run(enough));
        assert!(!run(enough - 4).success());
    }

    fn n6_virtual_node_mode_gives_each_hart_a_task_and_its_part_of_the_memory(arch) {
        let arena = |mode| {
            let run = Run::new("hello").arch(arch).torus("1").harts(4).mode(mode).timeout(DEADLINE);
            let outcome = run.run().unwrap();
            expect_clean(&outcome);
            let up = outcome.nodes[0].up().expect("an up status");
            (up.number::<u64>("tasks").unwrap(), up.number::<u64>("memory").unwrap())
        };
        let (smp_tasks, smp_arena) = arena(Mode::Smp);
        let (vn_tasks, vn_arena) = arena(Mode::Vn);
        assert_eq!((smp_tasks, vn_tasks), (1, 4));
        assert!(smp_arena > 128 << 20, "a 256 MiB node gives its task {smp_arena} bytes");
        // Four tasks need more FIFOs than one, which come off the top.
        let fourth = smp_arena / 4;
        assert!((fourth * 9 / 10..=fourth).contains(&vn_arena), "{vn_arena} is not a fourth of {smp_arena}");
    }

    fn n4_a_bad_personality_is_refused_by_its_bad_word(arch) {
        let cases = [
            ("node=0 torus=2y2 job=hello", "torus=2y2"),
            ("node=9 torus=2x2 job=hello", "node=9"),
            ("torus=1 job=hello", "node"),
            ("node=0 job=hello", "torus"),
            ("node=0 torus=1 mode=dual job=hello", "mode=dual"),
            ("node=0 torus=1 map=zyx job=hello", "map=zyx"),
            ("node=0 torus=1 contexts=9 job=hello", "contexts=9"),
            ("node=0 torus=1 color=red job=hello", "color=red"),
            ("node=0 node=0 torus=1 job=hello", "node=0"),
        ];
        for (bootargs, word) in cases {
            let run = Run::new("hello").arch(arch).torus("1").harts(1).timeout(DEADLINE);
            let outcome = run.bootargs_override(0, bootargs).run().unwrap();
            expect_report(&outcome, 0, 78, &[word]);
        }
    }

    fn n12_the_level_of_a_run_tells_which_lines_are_sent(arch) {
        // A job that fails; its image is the same each time.
        let levels = |run: Run| {
            let outcome = run.arch(arch).torus("2").args(["--nonsense"]).timeout(DEADLINE).run().unwrap();
            assert_eq!(outcome.nodes.iter().map(|node| node.status()).collect::<Vec<_>>(), [Some(1), Some(1)]);
            let lines = outcome.nodes.iter().flat_map(|node| &node.lines);
            lines.map(|line| line.level).collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        let job = || Run::new("hello");
        assert_eq!(levels(job()), ["error"]);
        assert_eq!(levels(job().log(Level::Off)), [""; 0]);
        assert_eq!(levels(job().log(Level::Info)), ["error", "info"]);
        assert_eq!(levels(job().log(Level::Debug)), ["debug", "error", "info"]);
        // A line without a level is the job's own word.
        let outcome = job().arch(arch).torus("2").log(Level::Off).timeout(DEADLINE).run().unwrap();
        assert_eq!(count_lines(&outcome, "all 2 tasks said hello"), 1);
    }

    fn d8_checksums_are_made_by_the_instructions_of_the_core(arch) {
        let outcome = Run::new("hello").arch(arch).torus("2").log(Level::Debug).timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        let instruction = if arch == Arch::Aarch64 { "crc32cx" } else { "clmul" };
        assert_eq!(count_lines(&outcome, &format!("checksums are made by {instruction}")), 2);
    }

    fn n12_log_lines_carry_node_hart_and_time(arch) {
        let run = Run::new("harts").arch(arch).torus("2").harts(2).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        // Seconds since the node's start.
        let time = |line: &xtask::log::LogLine| line.time.parse::<f64>().expect("a time");
        for (rank, node) in outcome.nodes.iter().enumerate() {
            for hart in 0..2 {
                let line = node.lines.iter().find(|line| line.text.contains(&format!("runs on its hart {hart};")));
                let line = line.expect("its line");
                assert_eq!((line.node, line.hart), (rank as u32, hart));
            }
            for hart in 0..2 {
                let times: Vec<_> = node.lines.iter().filter(|line| line.hart == hart).map(time).collect();
                // The run had no longer.
                let range = 0.0..DEADLINE.as_secs_f64();
                assert!(times.is_sorted() && times.iter().all(|time| range.contains(time)), "{times:?}");
                assert!(times[0] > 0.0, "no clock runs: {times:?}");
            }
        }
    }
}
