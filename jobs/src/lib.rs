//! What arguments the jobs of this repository take, and which shapes of machine; the jobs themselves are the examples of
//! this crate. Both sides read it: the host tool, and each job's `kernel::entry!`.
#![cfg_attr(not(test), no_std)]

use core::ops::RangeInclusive;
use kernel::usage::{Argument, Shape, Usage, Value};
use pami::collective::{Algorithm, Collective};

const MANY: u64 = u32::MAX as u64;

const fn argument(name: &'static str, value: Value, help: &'static str) -> Argument {
    Argument { name, value, help }
}

const NPB: &[Argument] = &[
    argument("--class", Value::Word(&["S", "W", "A"]), "size of the problem [default: S]"),
    argument("--over", Value::Word(&["pami", "mpi"]), "what carries its messages [default: pami]"),
];

fn powers(shape: &Shape) -> Option<&'static str> {
    (!shape.tasks.is_power_of_two()).then_some("takes a number of tasks that is a power of two")
}

fn at_most_512(shape: &Shape) -> Option<&'static str> {
    (shape.tasks > 512).then_some("runs on at most 512 tasks")
}

fn at_most_64(shape: &Shape) -> Option<&'static str> {
    (shape.tasks > 64).then_some("runs on at most 64 tasks")
}

fn two_tasks(shape: &Shape) -> Option<&'static str> {
    (shape.tasks != 2).then_some("is for two tasks: --torus 2, or --torus 1 --harts 2 --mode vn")
}

fn several_tasks(shape: &Shape) -> Option<&'static str> {
    (shape.tasks < 2).then_some("is for two tasks or more: --torus 2, or --torus 1 --harts 2 --mode vn")
}

fn one_task_each(shape: &Shape) -> Option<&'static str> {
    (shape.tasks != shape.nodes).then_some("wants one task per node: --mode smp")
}

fn sleepers(shape: &Shape) -> Option<&'static str> {
    let good = shape.harts >= 2 && (shape.nodes >= 2 || shape.tasks > shape.nodes);
    (!good).then_some("takes two harts at least, and two nodes or a task on each hart")
}

fn with_an_idle_hart(shape: &Shape) -> Option<&'static str> {
    let good = shape.nodes == 1 && shape.tasks == 1 && shape.harts >= 2;
    (!good).then_some("takes one node of two harts at least, in SMP mode: --torus 1")
}

fn on_the_tree(shape: &Shape) -> Option<&'static str> {
    (!shape.tree).then_some("needs the tree network: leave --no-tree out")
}

fn ranks(shape: &Shape) -> RangeInclusive<u64> {
    0..=u64::from(shape.tasks) - 1
}

fn endpoints(shape: &Shape) -> RangeInclusive<u64> {
    1..=u64::from(shape.contexts.min(8))
}

fn rows(shape: &Shape) -> RangeInclusive<u64> {
    1..=u64::from(shape.tasks)
}

fn is_size(word: &str) -> bool {
    word.parse().is_ok_and(|size: usize| size.is_multiple_of(8) && size <= 1 << 24)
}

fn is_collective(word: &str) -> bool {
    word.parse::<Collective>().is_ok()
}

fn is_algorithm(word: &str) -> bool {
    word == "chosen" || word.parse::<Algorithm>().is_ok()
}

/// What `peers` measures.
const ROWS: [&str; 23] = [
    "half-0",
    "half-8",
    "half-64",
    "half-1k",
    "half-64k",
    "half-1m",
    "half-16m",
    "put-8",
    "fetch-add",
    "rate-8",
    "stream-8",
    "barrier",
    "allreduce-8",
    "allreduce-64k",
    "broadcast-8",
    "broadcast-64k",
    "alltoall-8",
    "alltoall-64k",
    "memory",
    "insn-send",
    "insn-progress",
    "insn-empty",
    "insn-put",
];

fn is_row(word: &str) -> bool {
    ROWS.contains(&word)
}

/// Names of what `accumulate` measures.
const RECIPES: [&str; 13] = [
    "accumulate-f64",
    "accumulate-f32",
    "accumulate-i64",
    "accumulate-i32",
    "sum-f64",
    "swap-f64",
    "swap-to-foreign-f64",
    "narrow-f64",
    "combine-f64",
    "combine-swap-to-foreign-f64",
    "combine-narrow-f64",
    "log-sum-exp-f64",
    "log-sum-exp-narrow-f64",
];

fn is_in_a_recipe(word: &str) -> bool {
    RECIPES.iter().any(|recipe| recipe.contains(word))
}

fn are_harts(word: &str) -> bool {
    word == "all" || word.parse().is_ok_and(|hart: u32| hart < 8)
}

fn are_radixes(word: &str) -> bool {
    let is_radix = |word: &str| word.parse().is_ok_and(|radix: u32| radix > 0);
    word.split(',').count() == 5 && word.split(',').all(is_radix)
}

const ROUNDS: Argument = argument("--rounds", Value::Number(1, MANY), "how often each thing is done");

/// All jobs that are described.
pub const USAGE: &[Usage] = &[
    Usage {
        counts: true,
        // Only within a node can the origin add.
        alone: true,
        ..Usage::new(
            "accumulate",
            &[
                argument("--count", Value::Number(1, 1 << 18), "elements of a message [default: 8192]"),
                argument(
                    "--recipe",
                    Value::Such(
                        "a part of accumulate-f64, -f32, -i64 or -i32, sum-f64, swap-f64, swap-to-foreign-f64, narrow-f64, \
                         combine-f64, combine-swap-to-foreign-f64, combine-narrow-f64, log-sum-exp-f64 or \
                         log-sum-exp-narrow-f64",
                        is_in_a_recipe,
                    ),
                    "only the recipes that have it in their names",
                ),
            ],
        )
    }
    .on("2")
    .refusing(two_tasks),
    Usage::new(
        "affinity",
        &[
            argument("--path", Value::Flag, "tell the way of each message"),
            argument(
                "--radix",
                Value::Such("five numbers from 1 up, as in 2,2,2,2,2", are_radixes),
                "children at each level",
            ),
        ],
    ),
    Usage::new(
        "alive",
        &[
            argument("--seconds", Value::Number(0, 3600), "how long one task computes"),
            argument(
                "--wait",
                Value::Word(&["message", "fence", "barrier", "recv", "sum", "lock"]),
                "what the others wait for",
            ),
            argument("--all", Value::Flag, "all tasks compute"),
        ],
    ),
    Usage::new(
        "all-pairs",
        &[
            argument("--only", Value::Word(&["sends", "one-sided"]), "one part of it"),
            argument("--rendezvous-from", Value::Number(0, MANY), "bytes from which sends are rendezvous"),
            argument("--ways", Value::Flag, "sends by each way that a factory can have besides"),
            argument("--loop-back", Value::Flag, "no shared memory: all through the network"),
            argument("--shared", Value::Flag, "contexts share their FIFOs"),
        ],
    ),
    Usage::new("anew", &[]),
    Usage::new("armci", &[]).refusing(at_most_64),
    Usage::new("board", &[]),
    Usage::new(
        "chatter",
        &[
            argument("--lines", Value::Number(1, 1 << 20), "lines of each hart [default: 400]"),
            argument("--busy", Value::Flag, "one hart neither sleeps nor logs until the line has sent all"),
            argument("--panic", Value::Flag, "panic when all is said"),
        ],
    )
    .on("1")
    .refusing(with_an_idle_hart),
    Usage {
        geometries: "coll.verdict:all:0:allreduce=recursive-doubling",
        ..Usage::new(
        "coll",
        &[
            argument("--list", Value::Flag, "print the algorithms and what is chosen, and measure nothing"),
            argument(
                "--collective",
                Value::List(
                    "any of barrier, broadcast, reduce, allreduce, reduce-scatter, gather, scatter, allgather, \
                     alltoall, scan and exscan",
                    is_collective,
                    "names no collective: see --list",
                ),
                "only those",
            ),
            argument(
                "--algorithm",
                Value::List(
                    "any of chosen, dissemination, binomial, n-ary, flat, pipeline, rectangle, scatter-allgather, \
                     recursive-doubling, rabenseifner, recursive-halving, ring, bruck, pairwise, gather-broadcast, \
                     affinity, tree-network, shared-memory and direct-read",
                    is_algorithm,
                    "names no algorithm: see --list",
                ),
                "only those",
            ),
            argument(
                "--sizes",
                Value::List("multiples of 8 up to 16777216", is_size, "is no multiple of 8"),
                "bytes of each rank",
            ),
            ROUNDS,
            argument("--root", Value::Within("a task's number", ranks), "the root's rank [default: 0]"),
            argument("--floats", Value::Number(1, MANY), "sum floats so many times instead"),
        ],
    )},
    Usage::new("copies", &[]),
    Usage::new(
        "endpoints",
        &[
            argument(
                "--endpoints",
                Value::Within("a number from 1 to a task's contexts, 8 at most", endpoints),
                "only so many at work",
            ),
            argument("--collective", Value::Word(&["broadcast", "scatter", "gather"]), "only that one"),
            argument("--bytes", Value::Number(1, 1 << 22), "bytes of each rank"),
            argument("--rows", Value::Within("a number from 1 to that of tasks", rows), "so many rows of tasks, each with an endpoint of the root on its first node; six collectives"),
            argument("--over", Value::Word(&["pami", "mpi"]), "the layer that has the endpoints; mpi does allgather and reductions too"),
        ],
    )
    .refusing(one_task_each),
    Usage {
        words: &[
            Value::Word(&[
                "panic", "callback", "log", "words", "held", "kept", "overflow", "null", "readonly", "execute", "illegal", "race", "oom",
                "allocate", "status", "hang",
            ]),
            Value::Such("all, or a hart's number, 0 to 7", are_harts),
        ],
        ..Usage::new("faults", &[])
    },
    Usage::new(
        "fence",
        &[
            argument("--shared", Value::Flag, "contexts share their FIFOs"),
            argument("--deaf", Value::Flag, "a target advances nothing meanwhile: needs an agent core"),
        ],
    ),
    Usage::new(
        "gups",
        &[
            argument("--updates", Value::Number(1, u64::MAX / 2), "updates of each task [default: 20000]"),
            argument("--log2", Value::Number(1, 28), "the table has 2^N words [default: 14]"),
            argument(
                "--form",
                Value::Word(&["rmw", "am", "both"]),
                "atomics, active messages [default: both]",
            ),
        ],
    ),
    Usage::new(
        "halo3d",
        &[
            argument(
                "--size",
                Value::Such("one of 3, 7, 11 and so on to 255", is_size_of_grid),
                "points of an edge [default: 15]",
            ),
            argument("--iterations", Value::Number(1, MANY), "most steps"),
        ],
    ),
    Usage::new("harts", &[]),
    Usage::new("hello", &[]),
    Usage::new("hostile", &[]),
    Usage::new("idle", &[argument("--seconds", Value::Number(0, 3600), "how long [default: 10]")]),
    Usage {
        words: &[Value::Word(&["alone", "gem", "lossless", "bare", "pair", "team", "mpi"])],
        ..Usage::new("instructions", &[])
    },
    Usage::new(
        "io",
        &[
            argument("--size", Value::Number(1, 1 << 20), "MiB of all tasks in each file [default: 8]"),
            argument("--keep", Value::Flag, "leave the files"),
            argument("--hostile", Value::Flag, "calls that must fail, in place of all else"),
            argument(
                "--read",
                Value::Such("a file's name", |name| !name.is_empty()),
                "reads this file whole, in place of all else",
            ),
        ],
    )
    .refusing(on_the_tree),
    Usage::new(
        "modules",
        &[
            argument("--first", Value::Word(&["mpi", "armci"]), "which is set up first [default: mpi]"),
            argument("--polls", Value::Word(&["mpi", "armci"]), "which is asked for progress [default: mpi]"),
            ROUNDS,
        ],
    ),
    Usage::new(
        "mpi-suite",
        &[argument(
            "--chapter",
            Value::Word(&[
                "point-to-point",
                "datatypes",
                "operators",
                "collectives",
                "communicators",
                "topologies",
                "environment",
                "one-sided",
                "limits",
                "threads",
            ]),
            "only that one",
        )],
    ),
    Usage::new("npb-cg", NPB),
    Usage::new("npb-ep", NPB),
    Usage::new("npb-ft", NPB).refusing(powers),
    Usage::new("npb-is", NPB).refusing(at_most_512),
    Usage::new("npb-mg", NPB).refusing(powers),
    Usage::new(
        "peers",
        &[
            argument(
                "--rows",
                Value::List(
                    "any of half-0, half-8, half-64, half-1k, half-64k, half-1m, half-16m, rate-8, stream-8, put-8, fetch-add, \
                     barrier, allreduce-8, allreduce-64k, broadcast-8, broadcast-64k, alltoall-8, alltoall-64k, and memory, \
                     insn-send, insn-progress, insn-empty and insn-put, which `cargo xtask bench peers` looks at",
                    is_row,
                    "names no row",
                ),
                "only those [default: all that need nobody outside]",
            ),
            argument("--over", Value::Word(&["pami", "mpi"]), "what carries its messages [default: pami]"),
        ],
    )
    .on("2")
    .refusing(several_tasks),
    Usage::new("ping", &[ROUNDS]),
    Usage::new("rma", &[ROUNDS, argument("--switch-over", Value::Flag, "eager beside rendezvous sends")]),
    Usage::new("segments", &[]),
    Usage::new("shmem", &[]).refusing(at_most_64),
    Usage::new("snippets", &[]),
    Usage::new("stalled", &[argument("--messages", Value::Number(1, MANY), "how many [default: 1000000]")]),
    Usage::new(
        "tree",
        &[
            argument("--allreduce", Value::Number(1, MANY), "only so many of one element"),
            argument("--sum", Value::Number(1, MANY), "only so many of as many elements as a packet has"),
        ],
    )
    .refusing(on_the_tree),
    Usage::new("wake", &[]).on("2").refusing(sleepers),
];

fn is_size_of_grid(word: &str) -> bool {
    word.parse().is_ok_and(|size: u32| (3..=255).contains(&size) && size % 4 == 3)
}

/// What the job of this name takes, if there is one.
pub fn usage(job: &str) -> Option<&'static Usage> {
    Usage::of(job, USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::usage::{NO_VALUE, Problem};
    use pami::client::ConfiguredGeometry;

    fn check<'a>(job: &str, words: &[&'a str]) -> Result<(), (&'a str, Problem)> {
        let usage = usage(job).expect("a job that is described");
        let shape = Shape { nodes: 8, harts: 2, tasks: 8, contexts: 4, tree: true };
        usage.check(words.iter().copied(), &shape).map_err(|wrong| (wrong.word, wrong.problem))
    }

    #[test]
    fn n4_arguments_are_taken_or_the_bad_word_is_named() {
        assert_eq!(check("ping", &["--rounds", "20"]), Ok(()));
        assert_eq!(check("ping", &["--rounds"]), Err(("--rounds", Problem::NoValue)));
        assert_eq!(check("ping", &["--rounds", "0"]), Err(("0", Problem::Value("--rounds", NO_VALUE))));
        assert_eq!(check("hello", &["--anything"]), Err(("--anything", Problem::Unknown)));
        assert_eq!(check("npb-is", &["--class", "w", "--over", "mpi"]), Ok(()));
        assert_eq!(check("npb-is", &["--class", "C"]), Err(("C", Problem::Value("--class", NO_VALUE))));
        assert_eq!(check("coll", &["--collective", "allreduce,barrier", "--sizes", "8,4096"]), Ok(()));
        assert_eq!(
            check("coll", &["--sizes", "8,7"]),
            Err(("7", Problem::Value("--sizes", "is no multiple of 8")))
        );
        assert_eq!(check("faults", &["panic", "all"]), Ok(()));
        assert_eq!(check("faults", &[]), Err(("", Problem::NoWord)));
        for wrong in [&["blah"][..], &["panic", "8"], &["panic", "some"]] {
            let word = wrong[wrong.len() - 1];
            assert_eq!(check("faults", wrong), Err((word, Problem::Value("", NO_VALUE))));
        }
        assert_eq!(check("accumulate", &["--recipe", "f64"]), Ok(()));
        let nosuch = Err(("nosuch", Problem::Value("--recipe", NO_VALUE)));
        assert_eq!(check("accumulate", &["--recipe", "nosuch"]), nosuch);
        let size = |size| check("halo3d", &["--size", size]);
        assert_eq!([size("7"), size("15"), size("255")], [Ok(()); 3]);
        for wrong in ["3,7", "6", "259", "-1", ""] {
            assert_eq!(size(wrong), Err((wrong, Problem::Value("--size", NO_VALUE))));
        }
        assert_eq!(check("affinity", &["--radix", "2,2,2,2,2"]), Ok(()));
        for wrong in ["2,2", "2,2,2,2,2,2", "2,2,2,2,0", "2"] {
            assert_eq!(
                check("affinity", &["--radix", wrong]),
                Err((wrong, Problem::Value("--radix", NO_VALUE)))
            );
        }
        let beyond = |name, from, to| Problem::Range(name, from, to);
        assert_eq!(check("coll", &["--root", "7"]), Ok(()));
        assert_eq!(check("coll", &["--root", "8"]), Err(("8", beyond("--root", 0, 7))));
        assert_eq!(check("coll", &["--root", "-1"]), Err(("-1", Problem::Value("--root", NO_VALUE))));
        assert_eq!(check("endpoints", &["--endpoints", "4"]), Ok(()));
        for wrong in ["0", "5"] {
            assert_eq!(
                check("endpoints", &["--endpoints", wrong]),
                Err((wrong, beyond("--endpoints", 1, 4)))
            );
        }
        assert_eq!(check("instructions", &["nothing"]), Err(("nothing", Problem::Value("", NO_VALUE))));
    }

    #[test]
    fn g1_geometries_of_jobs_are_good_on_any_machine() {
        for usage in USAGE {
            for read in ConfiguredGeometry::all(usage.geometries) {
                let (word, geometry) = read.expect(usage.job);
                assert_eq!(geometry.check(1, 1), Ok(()), "{word}");
            }
        }
        assert!(usage("coll").is_some_and(|coll| !coll.geometries.is_empty()));
    }

    #[test]
    fn n4_shapes_that_a_job_cannot_have_are_refused() {
        let shape = |nodes| Shape { nodes, harts: 2, tasks: nodes, contexts: 4, tree: true };
        let refused = |job, nodes| (usage(job).expect("described").refuses)(&shape(nodes)).is_some();
        assert!(refused("npb-ft", 6) && !refused("npb-ft", 8));
        assert!(refused("accumulate", 8) && !refused("accumulate", 2));
        assert!(refused("wake", 1) && !refused("hello", 1));
    }
}
