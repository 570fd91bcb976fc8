//! Affinity: where harts are, and collectives that know it.

use std::time::Duration;
use tests::{count_lines, expect_clean, on_both_architectures};
use xtask::{Mode, Run};

const DEADLINE: Duration = Duration::from_secs(60);

on_both_architectures! {
    fn a1_a2_every_thread_is_told_where_it_runs(arch) {
        let topologies = [("2x2x2", [2, 1, 2, 2]), ("1x4x2", [1, 1, 4, 2]), ("1x2x3x1", [1, 2, 3, 1])];
        for (topology, [sockets, clusters, cores, threads]) in topologies {
            for mode in [Mode::Smp, Mode::Vn] {
                let run = Run::new("harts").arch(arch).torus("1").topology(topology).mode(mode);
                let outcome = run.timeout(DEADLINE).run().unwrap();
                expect_clean(&outcome);
                for hart in 0..sockets * clusters * cores * threads {
                    let (core, thread) = (hart / threads, hart % threads);
                    let (cluster, core) = (core / cores, core % cores);
                    let (socket, cluster) = (cluster / clusters, cluster % clusters);
                    let who = if mode == Mode::Vn { (hart, 0) } else { (0, hart) };
                    let line = format!(
                        "task {}, hart {}: socket {socket}, cluster {cluster}, core {core}, thread {thread}",
                        who.0, who.1
                    );
                    assert_eq!(count_lines(&outcome, &line), 1, "{line}: {}", outcome.explain());
                }
            }
        }
    }

    fn a2_harts_have_the_same_numbers_and_places_whichever_boots(arch) {
        // The firmware of one architecture lets any hart boot, so every node is another try.
        let run = Run::new("harts").arch(arch).torus("4").topology("2x1x2").mode(Mode::Vn).timeout(DEADLINE);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        for task in 0..16 {
            let hart = task / 4;
            let place = format!("task {task}, hart 0: socket {}, cluster 0, core 0, thread {}", hart / 2, hart % 2);
            let line = outcome.lines().find(|line| line.text.contains(&place)).expect("its line");
            assert_eq!((line.node, line.hart), (task % 4, hart as u8), "{}", outcome.explain());
        }
    }

    fn a2_without_a_topology_all_harts_are_cores_of_one_chip(arch) {
        let outcome = Run::new("harts").arch(arch).torus("1").harts(3).timeout(DEADLINE).run().unwrap();
        expect_clean(&outcome);
        for hart in 0..3 {
            let line = format!("task 0, hart {hart}: socket 0, cluster 0, core {hart}, thread 0");
            assert_eq!(count_lines(&outcome, &line), 1, "{}", outcome.explain());
        }
    }

    fn a2_a_topology_of_other_harts_is_refused_by_its_word(arch) {
        let run = Run::new("harts").arch(arch).torus("1").harts(2).timeout(DEADLINE);
        let outcome = run.bootargs_override(0, "node=0 torus=1 topology=2x2x2 job=harts").run().unwrap();
        tests::expect_report(&outcome, 0, 78, &["topology", "2x1x2x2", "2 harts"]);
    }
}
