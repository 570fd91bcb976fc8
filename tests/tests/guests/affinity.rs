//! Affinity: where harts are, and collectives that know it.

use std::time::Duration;
use tests::{count_lines, expect_clean, on_both_architectures};
use xtask::{Map, Mode, Outcome, Run};

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

    fn a1_a_task_is_on_the_hart_with_its_number_and_place_on_every_node(arch) {
        // The firmware of one architecture lets any hart boot; that must not show.
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

/// A row of the job `affinity`: `barrier by n-ary: cores 10/6 chips 4/2 processors 4/2 nodes 0/0`.
struct Row {
    what: String,
    algorithm: String,
    /// Messages between cores, between chips, between processors and between nodes.
    crossings: [u32; 4],
    /// Instructions on the critical path.
    path: Option<u32>,
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once(": ")?;
        let (what, algorithm) = name.split_once(" by ")?;
        let words: Vec<_> = rest.split(' ').collect();
        let value = |name| words.iter().position(|&word| word == name).and_then(|at| words.get(at + 1));
        let crossed = |name| value(name)?.split_once('/')?.0.parse().ok();
        let crossings = [crossed("cores")?, crossed("chips")?, crossed("processors")?, crossed("nodes")?];
        let path = value("path").and_then(|path| path.parse().ok());
        Some(Self { what: what.into(), algorithm: algorithm.into(), crossings, path })
    }

    fn all(outcome: &Outcome) -> Vec<Self> {
        outcome.lines().filter_map(|line| Self::parse(&line.text)).collect()
    }

    /// Phases of the collective's tree: up and down, or one of them.
    fn phases(&self) -> u32 {
        if ["broadcast", "reduce", "gather", "scatter"].contains(&self.what.as_str()) { 1 } else { 2 }
    }
}

/// Every collective that can by affinity crosses each level's boundaries once a phase for each of these domains but one;
/// algorithms that know of no places cross them at least as often, and somewhere more often.
#[track_caller]
fn expect_least_crossings(outcome: &Outcome, domains: [u32; 4], collectives: &[&str]) {
    expect_clean(outcome);
    let rows = Row::all(outcome);
    for what in collectives {
        let ours = || rows.iter().filter(|row| row.what == *what);
        let by_affinity = ours().find(|row| row.algorithm == "affinity").expect("an algorithm by affinity");
        let least = domains.map(|count| by_affinity.phases() * (count - 1));
        assert_eq!(by_affinity.crossings, least, "{what}: {}", outcome.explain());
        for flat in ours().filter(|row| row.algorithm != "affinity") {
            assert!(flat.crossings.iter().zip(least).all(|(&crossed, least)| crossed >= least), "{what}");
        }
    }
    let sum = |algorithm: &str| -> u32 {
        let rows = rows.iter().filter(|row| row.what == "barrier" && row.algorithm == algorithm);
        rows.flat_map(|row| row.crossings).sum()
    };
    assert!(
        sum("affinity") < sum("n-ary") && sum("affinity") < sum("dissemination"),
        "{}",
        outcome.explain()
    );
}

/// Along their critical paths, collectives by affinity take fewer instructions together than by the best of the others for each.
#[track_caller]
fn expect_fewer_steps(rows: &[Row]) {
    let path = |what: &str, by_affinity: bool| {
        let rows = rows.iter().filter(|row| row.what == what && (row.algorithm == "affinity") == by_affinity);
        rows.filter_map(|row| row.path).min().expect("a path")
    };
    let sum = |by_affinity| ALWAYS.into_iter().map(|what| path(what, by_affinity)).sum::<u32>();
    assert!(sum(true) < sum(false), "{} for {}", sum(true), sum(false));
    assert!(path("barrier", true) < path("barrier", false));
}

/// What goes by affinity however ranks are numbered, and what needs the ranks of a domain to follow each other.
const ALWAYS: [&str; 8] =
    ["barrier", "broadcast", "reduce", "allreduce", "reduce-scatter", "gather", "scatter", "allgather"];
const ORDERED: [&str; 2] = ["scan", "exscan"];

on_both_architectures! {
    fn a3_a4_a6_each_phase_crosses_a_boundary_once_for_each_domain_but_one(arch) {
        let affinity = |topology: &str| Run::new("affinity").arch(arch).topology(topology).timeout(DEADLINE);
        let all: Vec<_> = ALWAYS.into_iter().chain(ORDERED).collect();
        // A task on each hart, then a context on each thread of one task.
        let outcome = affinity("2x2x2").torus("1").mode(Mode::Vn).run().unwrap();
        expect_least_crossings(&outcome, [4, 2, 2, 1], &all);
        let outcome = affinity("1x4x2").torus("1").contexts(8).run().unwrap();
        expect_least_crossings(&outcome, [4, 1, 1, 1], &all);
        // Over nodes, with ranks that follow each other over the nodes first, then within each.
        let outcome = affinity("2x1x2").torus("2").mode(Mode::Vn).run().unwrap();
        expect_least_crossings(&outcome, [4, 4, 4, 2], &ALWAYS);
        let outcome = affinity("1x2x1x2").torus("2").mode(Mode::Vn).map(Map::Txyz).args(["--radix", "1,2,1,2,1"]);
        expect_least_crossings(&outcome.run().unwrap(), [4, 4, 2, 2], &all);
    }

    fn a4_the_critical_path_of_each_algorithm_is_the_same_in_every_run(arch) {
        let paths = || {
            let run = Run::new("affinity").arch(arch).torus("1").topology("2x2x2").contexts(8).icount(true);
            let outcome = run.adapter(false).args(["--path"]).timeout(DEADLINE).run().unwrap();
            expect_least_crossings(&outcome, [4, 2, 2, 1], &ALWAYS);
            let rows = Row::all(&outcome);
            expect_fewer_steps(&rows);
            rows.into_iter().map(|row| (row.what, row.algorithm, row.path.expect("a path"))).collect::<Vec<_>>()
        };
        let first = paths();
        assert_eq!(first.len(), 24);
        assert!(first.iter().all(|(_, _, path)| *path > 0));
        assert_eq!(first, paths());
    }
}
