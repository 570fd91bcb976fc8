//! Collectives on nodes: every algorithm gives what a plain loop gives; the lists; what goes wrong.

use std::time::Duration;
use tests::{
    LOSSY_WIRE, count_lines, expect_clean, expect_success_on_a_bad_wire, long, on_both_architectures,
};
use xtask::{Arch, Board, Mode, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(400);

/// Every algorithm once, with data of one packet and of several.
fn coll(arch: Arch, mode: Mode) -> Run {
    let args = ["--sizes", "8,3000", "--rounds", "1"];
    Run::new("coll").arch(arch).torus("2x2x2").harts(2).mode(mode).args(args).timeout(DEADLINE)
}

const LOSSY: &str = "drop=1%,reorder=5%,seed=5";

/// What the tree network does, with data of one packet and of many.
fn tree(arch: Arch, mode: Mode) -> Run {
    let args =
        ["--collective", "barrier,broadcast,reduce,allreduce,allgather", "--algorithm", "tree-network"];
    let more = ["--sizes", "8,3000,40000", "--rounds", "3", "--root", "5"];
    let run = Run::new("coll").arch(arch).torus("2x2x2").harts(2).mode(mode).timeout(DEADLINE);
    run.args(args.into_iter().chain(more))
}

/// There were so many rows at least, one for each valid algorithm and size, and all results were right.
fn all_is_right(outcome: &Outcome, least: usize) {
    let rows = outcome.lines().filter(|line| line.text.ends_with(" rows, 0 wrong results"));
    let rows: Vec<usize> = rows.map(|line| line.text.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(matches!(rows[..], [rows] if rows >= least), "{rows:?}: {}", outcome.explain());
    assert_eq!(count_lines(outcome, "WRONG"), 0);
}

/// Rows with so many sizes: three barriers, and 35 algorithms of the other collectives that need no affinity domains, on a
/// rectangle of a power of two of tasks on the tree network.
const fn smp_rows(sizes: usize) -> usize {
    3 + 35 * sizes
}

/// Affinity domains bring eight more, however ranks are numbered.
const fn vn_rows(sizes: usize) -> usize {
    smp_rows(sizes) + 1 + 7 * sizes
}

on_both_architectures! {
    fn g3_every_algorithm_of_every_collective_is_right(arch) {
        let outcome = coll(arch, Mode::Smp).run().unwrap();
        expect_clean(&outcome);
        all_is_right(&outcome, smp_rows(2));
    }

    fn d2_vectors_go_along_four_and_five_dimensions(arch) {
        for torus in ["2x2x2x2", "2x2x2x2x2"].into_iter().take(1 + usize::from(long())) {
            let args = ["--collective", "broadcast,alltoall,barrier", "--sizes", "3000", "--rounds", "1"];
            let outcome = coll(arch, Mode::Smp).torus(torus).harts(1).args(args).run().unwrap();
            expect_clean(&outcome);
            // One of each way that these have without affinity domains.
            all_is_right(&outcome, 3 + 7 + 2);
        }
    }

    fn n6_every_algorithm_of_every_collective_is_right_in_virtual_node_mode(arch) {
        let outcome = coll(arch, Mode::Vn).run().unwrap();
        expect_clean(&outcome);
        all_is_right(&outcome, vn_rows(2));
    }

    fn d8_every_algorithm_is_right_on_a_wire_that_loses_and_reorders(arch) {
        let outcome = coll(arch, Mode::Smp).faults("drop=1%,reorder=5%,seed=3").run().unwrap();
        expect_success_on_a_bad_wire(&outcome, "drop=1%,reorder=5%");
        all_is_right(&outcome, smp_rows(2));
    }

    fn d8_every_algorithm_is_right_in_virtual_node_mode_on_a_wire_that_loses(arch) {
        // One size: sixteen tasks that wait for lost packets take their time.
        let run = coll(arch, Mode::Vn).args(["--sizes", "3000", "--rounds", "1"]);
        let outcome = run.faults(LOSSY_WIRE).run().unwrap();
        expect_success_on_a_bad_wire(&outcome, "drop=1%,reorder=5%");
        all_is_right(&outcome, vn_rows(1));
    }

    fn g2_the_lists_of_a_geometry_are_printed_with_the_choice_for_each_size(arch) {
        let run = Run::new("coll").arch(arch).torus("2x2").harts(2).mode(Mode::Vn).timeout(DEADLINE);
        let outcome = run.args(["--list"]).run().unwrap();
        expect_clean(&outcome);
        for line in ["always valid:", "must be asked:", "chosen:"] {
            assert_eq!(count_lines(&outcome, line), 11, "{line}: {}", outcome.explain());
        }
        assert_eq!(count_lines(&outcome, "always valid: dissemination n-ary"), 1);
        let refused = "tree-network (no: the geometry must have a class route";
        // Listed five times, and chosen for each of the five.
        assert_eq!((count_lines(&outcome, "tree-network"), count_lines(&outcome, refused)), (10, 0));
        let run = Run::new("coll").arch(arch).torus("2x2").harts(1).tree(false).timeout(DEADLINE);
        let outcome = run.args(["--list"]).run().unwrap();
        assert_eq!(count_lines(&outcome, refused), 5, "{}", outcome.explain());
    }

    fn g7_collectives_go_through_the_tree_network(arch) {
        for run in [tree(arch, Mode::Smp), tree(arch, Mode::Vn), tree(arch, Mode::Vn).faults(LOSSY)] {
            let outcome = run.run().unwrap();
            outcome.expect_success();
            // A barrier and four collectives with three sizes.
            all_is_right(&outcome, 1 + 4 * 3);
            let network = outcome.fabric.tree.as_ref().expect("a tree");
            // The class route of the job's geometry.
            assert!(network.opened >= 1 && network.steps > 0);
            // Each node but the root sends up, however many tasks it has.
            assert!(network.nodes[1..].iter().all(|node| node.up.packets > 0), "{}", outcome.explain());
            assert!(network.nodes.iter().all(|node| node.dropped.total() == 0), "{}", outcome.explain());
        }
    }

    fn g7_an_allreduce_or_allgather_of_8_bytes_takes_half_the_steps_through_the_tree_network(arch) {
        // The network's steps in which any packet moved, for one round of the collective and the barrier before it.
        const ROUNDS: u64 = 40;
        let run = |what: &str, algorithm: &str, rounds: u64| {
            let rounds = rounds.to_string();
            let args = ["--collective", what, "--algorithm", algorithm, "--sizes", "8", "--rounds", &rounds];
            let run = Run::new("coll").arch(arch).torus("2x2x2").harts(1).timeout(DEADLINE);
            let outcome = run.args(args).run().unwrap();
            expect_clean(&outcome);
            outcome.fabric.steps + outcome.fabric.tree.as_ref().expect("a tree").steps
        };
        // What a run takes besides.
        let rest = run("barrier", "tree-network", 1);
        let steps = |what: &str, algorithm: &str| {
            run(what, algorithm, ROUNDS + 1).saturating_sub(rest) as f64 / ROUNDS as f64
        };
        // A round of barriers has two.
        let barrier = steps("barrier", "tree-network") / 2.0;
        for (what, others) in [
            ("allreduce", ["recursive-doubling", "binomial", "rabenseifner", "ring"]),
            ("allgather", ["recursive-doubling", "bruck", "gather-broadcast", "ring"]),
        ] {
            let through_the_tree = steps(what, "tree-network") - barrier;
            for software in others {
                let steps = steps(what, software) - barrier;
                let figures = format!("{what}: {software} {steps:.1}, tree network {through_the_tree:.1}");
                println!("{arch}: {figures}, barrier {barrier:.1}");
                assert!(2.0 * through_the_tree <= steps, "{figures}");
            }
        }
    }

    fn g9_a_hundred_sums_of_floats_have_the_same_bits_whatever_the_network_delays(arch) {
        let checksums = |seed: u32| {
            let run = Run::new("coll").arch(arch).torus("2x2").harts(2).mode(Mode::Vn).timeout(DEADLINE);
            let faults = format!("delay=0..1ms,reorder=20%,seed={seed}");
            let outcome = run.args(["--floats", "50"]).faults(&faults).run().unwrap();
            outcome.expect_success();
            assert!(outcome.fabric.nodes.iter().all(|node| node.faults.delayed > 0));
            let lines = outcome.lines().filter(|line| line.text.contains("checksum"));
            let mut sums: Vec<_> = lines.map(|line| line.text.clone()).collect();
            assert_eq!(sums.len(), 8 * 6, "eight tasks, six algorithms: {}", outcome.explain());
            sums.sort();
            sums.dedup();
            sums
        };
        let first = checksums(1);
        assert_eq!(first.len(), 6, "one checksum for each algorithm: {first:?}");
        assert_eq!(first, checksums(2));
    }

    fn d8_the_death_of_a_node_ends_what_goes_through_the_tree_network(arch) {
        let run = Run::new("coll").arch(arch).torus("2x2").harts(1).kill("node=3@3s");
        let args = ["--collective", "allreduce", "--algorithm", "tree-network", "--sizes", "8", "--rounds", "1000000"];
        let outcome = run.args(args).timeout(Duration::from_secs(120)).run().unwrap();
        assert!(count_lines(&outcome, "node 3 is dead") >= 3, "{}", outcome.explain());
        assert_eq!(outcome.unfinished().count(), 0, "{}", outcome.explain());
    }

    fn g2_an_algorithm_can_be_named(arch) {
        let run = Run::new("coll").arch(arch).torus("3").harts(1).timeout(DEADLINE);
        let args = ["--collective", "allreduce,scan", "--algorithm", "ring,chosen", "--sizes", "16", "--rounds", "1"];
        let outcome = run.args(args).run().unwrap();
        expect_clean(&outcome);
        all_is_right(&outcome, 3);
        assert_eq!(count_lines(&outcome, "allreduce      ring "), 1, "{}", outcome.explain());
    }

    fn g2_a_word_that_names_nothing_is_named(arch) {
        for (args, words) in [
            (["--algorithm", "ring,rinq"], "\"rinq\" names no algorithm"),
            (["--collective", "brodcast"], "\"brodcast\" names no collective"),
            (["--sizes", "8,12"], "\"12\" is no multiple of 8"),
            (["--root", "4"], "\"4\" is more than this machine has"),
        ] {
            let run = Run::new("coll").arch(arch).torus("2").harts(1).timeout(DEADLINE);
            let outcome = run.args(args).run().unwrap();
            assert!(!outcome.success());
            assert!(count_lines(&outcome, words) > 0, "{words}: {}", outcome.explain());
        }
    }

    fn d8_a_node_that_dies_ends_the_collectives_of_all_others_with_its_name(arch) {
        let args = ["--collective", "reduce,gather", "--sizes", "8", "--rounds", "100000"];
        let run = Run::new("coll").arch(arch).torus("2x2").harts(1).args(args).kill("node=3@3s");
        let outcome = run.timeout(Duration::from_secs(120)).run().unwrap();
        assert!(count_lines(&outcome, "node 3 is dead") >= 3, "{}", outcome.explain());
        assert_eq!(outcome.unfinished().count(), 0, "{}", outcome.explain());
    }
}

/// A row of the table of job `endpoints`.
struct Share {
    what: String,
    endpoints: u64,
    /// Bytes of data that all endpoints of the root sent or took, and the busiest.
    bytes: u64,
    busiest: u64,
    calls: u64,
    completions: u64,
}

impl Share {
    fn all(outcome: &Outcome) -> Vec<Self> {
        let rows = outcome.lines().filter_map(|line| {
            let words: Vec<&str> = line.text.split_whitespace().collect();
            let [what @ ("broadcast" | "scatter" | "gather"), ref numbers @ ..] = words[..] else {
                return None;
            };
            let numbers: Vec<u64> = numbers.iter().map(|word| word.parse().unwrap()).collect();
            let [endpoints, bytes, busiest, calls, completions, _] = numbers[..] else { return None };
            Some(Self { what: what.to_owned(), endpoints, bytes, busiest, calls, completions })
        });
        rows.collect()
    }
}

/// A row of the table of that job over MPI.
struct Slices {
    what: String,
    endpoints: u64,
    /// Bytes for each task.
    each: u64,
    /// Bytes of data that all contexts of the root sent and took, the busiest, and how many did.
    bytes: u64,
    busiest: u64,
    at_work: u64,
}

impl Slices {
    fn all(outcome: &Outcome) -> Vec<Self> {
        let rows = outcome.lines().filter_map(|line| {
            let words: Vec<&str> = line.text.split_whitespace().collect();
            let [what, ref numbers @ ..] = words[..] else { return None };
            let numbers: Vec<u64> = numbers.iter().map_while(|word| word.parse().ok()).collect();
            let [endpoints, each, bytes, busiest, at_work, _] = numbers[..] else { return None };
            Some(Self { what: what.to_owned(), endpoints, each, bytes, busiest, at_work })
        });
        rows.collect()
    }
}

/// The root, task 0, in the middle of its four neighbours: bytes that left over each link of a node.
fn used_links(outcome: &Outcome, node: usize) -> Vec<u64> {
    outcome.fabric.nodes[node].links.map(|link| link.bytes).into_iter().filter(|&bytes| bytes > 0).collect()
}

/// Bytes that a collective of the job `endpoints` may put on a link of a node besides the data: headers, barriers,
/// acknowledgements, and what a slow host made that node send twice.
fn with_rest(outcome: &Outcome, node: usize, data: u64) -> u64 {
    let resent: u64 = outcome.nodes[node].end().and_then(|end| end.number("resent")).unwrap();
    data + data / 5 + resent * (4096 + 128)
}

const NEIGHBOURS: [usize; 4] = [1, 2, 3, 6];

on_both_architectures! {
    fn g4_endpoints_of_the_root_share_its_data_evenly(arch) {
        // Four links, each to a node of its own; three collectives with 1, 2, 4 and 8 endpoints each.
        let run = Run::new("endpoints").arch(arch).torus("3x3").harts(4).contexts(8).timeout(DEADLINE);
        let outcome = run.args(["--bytes", "32768"]).run().unwrap();
        expect_clean(&outcome);
        let rows = Share::all(&outcome);
        assert_eq!(rows.len(), 12, "{}", outcome.explain());
        for row in &rows {
            // Endpoints that have no neighbour to serve do nothing.
            let (what, endpoints, each) = (&row.what, row.endpoints, row.bytes.div_ceil(row.endpoints.min(4)));
            assert!(row.busiest <= each, "{} of {} by one of {endpoints}, {what}", row.busiest, row.bytes);
            let alone = rows.iter().find(|row| row.what == *what && row.endpoints == 1).unwrap();
            assert_eq!((row.bytes, alone.busiest), (alone.bytes, alone.bytes), "{what} with {endpoints}");
        }
    }

    fn g4_g5_all_links_of_the_root_carry_their_portion_and_no_more_of_every_collective(arch) {
        // What the fabric counted. A node has one port, which takes a packet a step whatever the number of endpoints, so their
        // speed shows in the links; that they send at once, each from its own FIFO, a test of the engine shows.
        const BYTES: u64 = 65536;
        for what in ["broadcast", "scatter", "gather"] {
            let run = Run::new("endpoints").arch(arch).torus("3x3").harts(2).contexts(4).timeout(DEADLINE);
            let args = ["--collective", what, "--endpoints", "4", "--bytes", "65536"];
            let outcome = run.args(args).run().unwrap();
            expect_clean(&outcome);
            let root = &outcome.fabric.nodes[0];
            assert_eq!(root.hops, root.injected.packets, "{what}: the root talks to its neighbours alone");
            let used = used_links(&outcome, 0);
            assert_eq!(used.len(), 4, "{what}: {used:?}");
            let portion = |node| BYTES..with_rest(&outcome, node, BYTES);
            if what == "gather" {
                for node in NEIGHBOURS {
                    let busiest = used_links(&outcome, node).into_iter().max().unwrap_or(0);
                    assert!(portion(node).contains(&busiest), "{what}: node {node} sent {busiest}");
                }
            } else {
                assert!(used.iter().all(|bytes| portion(0).contains(bytes)), "{what}: {used:?}");
            }
        }
    }

    fn g5_a_root_with_an_endpoint_in_each_row_sends_one_vector_down_each(arch) {
        // Three rows of four: those of the root's endpoints that are not at home are its neighbours. The job checks six collectives.
        const BYTES: u64 = 32768;
        let run = |rows: &str, args: &[&str]| {
            let run = Run::new("endpoints").arch(arch).torus("4x3").harts(1).contexts(2).timeout(2 * DEADLINE);
            let outcome =
                run.args(["--rows", rows, "--bytes", "32768"].iter().chain(args).copied()).run().unwrap();
            expect_clean(&outcome);
            outcome
        };
        // Alone the root sends to all others; else to two neighbours and its own row, and those to theirs.
        for (rows, nodes) in [("1", &[(0, 11)][..]), ("3", &[(0, 5), (4, 3), (8, 3)])] {
            let outcome = run(rows, &["--collective", "broadcast"]);
            for &(node, vectors) in nodes {
                let sent = outcome.fabric.nodes[node].injected.bytes;
                let expected = vectors * BYTES..with_rest(&outcome, node, vectors * BYTES);
                assert!(expected.contains(&sent), "node {node} of {rows} rows sent {sent}, not {expected:?}");
            }
        }
        let all = run("3", &[]);
        for what in ["broadcast", "scatter", "gather", "allgather", "reduce", "allreduce"] {
            assert_eq!(count_lines(&all, &format!("{what:<11}    32768")), 1, "{}", all.explain());
        }
    }

    fn g8_mpi_divides_long_collectives_by_itself_and_no_short_ones(arch) {
        // The job compares every result, bit for bit, with what one context makes it.
        let run = |wire: Option<&str>, args: &[&str]| {
            let run = Run::new("endpoints").arch(arch).torus("3x3").harts(4).contexts(4).timeout(2 * DEADLINE);
            let run = run.args(["--over", "mpi", "--endpoints", "4"].iter().chain(args).copied());
            let run = if let Some(wire) = wire { run.faults(wire) } else { run };
            run.run().unwrap()
        };
        for wire in [None, Some(LOSSY_WIRE)] {
            let outcome = run(wire, &[]);
            assert!(outcome.success(), "{}", outcome.explain());
            let rows = Slices::all(&outcome);
            assert_eq!(rows.len(), 12, "six collectives, long and short: {}", outcome.explain());
            for Slices { what, endpoints, each, bytes, busiest, at_work } in rows {
                assert_eq!(endpoints, 4);
                if each == 64 {
                    assert!(at_work <= 1, "a short {what} by {at_work} contexts");
                } else {
                    assert_eq!(at_work, 4, "a long {what}");
                    assert!(busiest <= bytes / 4 + bytes / 64, "{what}: {busiest} of {bytes} by one");
                }
            }
        }
        // What the fabric counted: a portion for each neighbour twice, by one context and by four, over a link of its own.
        const BYTES: u64 = 65536;
        let outcome = run(None, &["--collective", "scatter"]);
        expect_clean(&outcome);
        let used = used_links(&outcome, 0);
        let portion = 2 * BYTES..with_rest(&outcome, 0, 2 * BYTES);
        assert!(used.len() == 4 && used.iter().all(|bytes| portion.contains(bytes)), "{used:?}");
    }

    fn g8_one_call_is_one_collective_whatever_the_number_of_endpoints(arch) {
        // The job checks the data, and that the call is the same whether the root has one endpoint or four.
        let run = Run::new("endpoints").arch(arch).torus("2x2").harts(2).contexts(4).timeout(DEADLINE);
        let outcome = run.args(["--collective", "broadcast", "--bytes", "5000"]).run().unwrap();
        expect_clean(&outcome);
        let rows = Share::all(&outcome);
        assert_eq!(rows.iter().map(|row| row.endpoints).collect::<Vec<_>>(), [1, 2, 4], "{}", outcome.explain());
        for row in rows {
            assert_eq!((row.calls, row.completions), (1, 1), "{} endpoints", row.endpoints);
        }
    }
}

#[test]
fn g1_geometries_of_the_job_and_of_the_command_line_are_there_from_the_start() {
    let run = |words: &[&str], args: &[&str]| {
        let run = Run::new("coll").board(Board::Linux).torus("4").timeout(DEADLINE);
        words.iter().fold(run, |run, word| run.geometry(*word)).args(args.iter().copied()).run()
    };
    let told = "coll.verdict:3,1,0,2:0:allreduce=binomial,barrier=n-ary";
    for (words, line) in [
        (&[][..], "configured: verdict of 4 ranks, allreduce=recursive-doubling"),
        // What is told goes before what the job has by itself; other clients' are nobody's here.
        (&[told, "mpi.row:0-2/2:0-3"], "configured: verdict of 4 ranks, barrier=n-ary,allreduce=binomial"),
    ] {
        let outcome = run(words, &["--list"]).unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, line), 1, "{}", outcome.explain());
    }
    let outcome = run(&[told], &["--collective", "barrier,scan", "--sizes", "8", "--rounds", "1"]).unwrap();
    expect_clean(&outcome);
    all_is_right(&outcome, 4);
    let refused = run(&["coll.verdict:0-4"], &[]).unwrap_err().to_string();
    assert!(
        refused.contains("coll.verdict:0-4") && refused.contains("task 4 is not in the job"),
        "{refused}"
    );
}
