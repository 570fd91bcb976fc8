//! The jobs of this repository.

use super::{Argument, Shape, Usage, Value};
use core::ops::RangeInclusive;
use pami::collective::{Algorithm, Collective};

const MANY: u64 = u32::MAX as u64;

const fn argument(name: &'static str, value: Value, help: &'static str) -> Argument {
    Argument { name, value, help }
}

/// A job that runs on any shape, by default on eight nodes.
pub(super) const fn job(job: &'static str, arguments: &'static [Argument]) -> Usage {
    Usage { job, arguments, words: &[], torus: "2x2x2", alone: false, refuses: |_| None, counts: false }
}

impl Usage {
    const fn on(self, torus: &'static str) -> Self {
        Self { torus, ..self }
    }

    const fn refusing(self, refuses: fn(&Shape) -> Option<&'static str>) -> Self {
        Self { refuses, ..self }
    }
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

fn one_task_each(shape: &Shape) -> Option<&'static str> {
    (shape.tasks != shape.nodes).then_some("wants one task per node: --mode smp")
}

fn sleepers(shape: &Shape) -> Option<&'static str> {
    let good = shape.harts >= 2 && shape.nodes >= 2 && shape.tasks == shape.nodes;
    (!good).then_some("takes two harts and two nodes at least, in SMP mode")
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

fn is_size(word: &str) -> bool {
    word.parse().is_ok_and(|size: usize| size.is_multiple_of(8) && size <= 1 << 24)
}

fn is_collective(word: &str) -> bool {
    word.parse::<Collective>().is_ok()
}

fn is_algorithm(word: &str) -> bool {
    word == "chosen" || word.parse::<Algorithm>().is_ok()
}

/// Names of what `accumulate` measures.
pub const RECIPES: [&str; 7] = [
    "accumulate-f64",
    "accumulate-f32",
    "accumulate-i64",
    "accumulate-i32",
    "sum-f64",
    "combine-swap-f64",
    "combine-swap-to-foreign-f64",
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
pub const ALL: &[Usage] = &[
    Usage {
        counts: true,
        // Only within a node can the origin add.
        alone: true,
        ..job(
            "accumulate",
            &[
                argument("--count", Value::Number(1, 1 << 18), "elements of a message [default: 8192]"),
                argument(
                    "--recipe",
                    Value::Such(
                        "a part of accumulate-f64, accumulate-f32, accumulate-i64, accumulate-i32, sum-f64, \
                         combine-swap-f64 or combine-swap-to-foreign-f64",
                        is_in_a_recipe,
                    ),
                    "only the recipes that have it in their names",
                ),
            ],
        )
    }
    .on("2")
    .refusing(two_tasks),
    job(
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
    job(
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
    job(
        "all-pairs",
        &[
            argument("--only", Value::Word(&["sends", "one-sided"]), "one part of it"),
            argument("--rendezvous-from", Value::Number(0, MANY), "bytes from which sends are rendezvous"),
            argument("--loop-back", Value::Flag, "no shared memory: all through the network"),
            argument("--shared", Value::Flag, "contexts share their FIFOs"),
        ],
    ),
    job("anew", &[]),
    job("armci", &[]).refusing(at_most_64),
    job(
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
                     affinity and tree-network",
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
    ),
    job("copies", &[]),
    job(
        "endpoints",
        &[
            argument(
                "--endpoints",
                Value::Within("a number from 1 to a task's contexts, 8 at most", endpoints),
                "only so many at work",
            ),
            argument("--collective", Value::Word(&["broadcast", "scatter", "gather"]), "only that one"),
            argument("--bytes", Value::Number(1, 1 << 22), "bytes of each rank"),
        ],
    )
    .refusing(one_task_each),
    Usage {
        words: &[
            Value::Word(&[
                "panic", "callback", "log", "overflow", "null", "readonly", "execute", "illegal", "oom",
                "allocate", "status", "hang",
            ]),
            Value::Such("all, or a hart's number, 0 to 7", are_harts),
        ],
        ..job("faults", &[])
    },
    job("fence", &[]),
    job(
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
    job(
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
    job("harts", &[]),
    job("hello", &[]),
    job("hostile", &[]),
    job("idle", &[argument("--seconds", Value::Number(0, 3600), "how long [default: 10]")]),
    Usage { words: &[Value::Word(&["alone", "bare", "pair", "team"])], ..job("instructions", &[]) },
    job(
        "modules",
        &[
            argument("--first", Value::Word(&["mpi", "armci"]), "which is set up first [default: mpi]"),
            argument("--polls", Value::Word(&["mpi", "armci"]), "which is asked for progress [default: mpi]"),
            ROUNDS,
        ],
    ),
    job(
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
    job("npb-cg", NPB),
    job("npb-ep", NPB),
    job("npb-ft", NPB).refusing(powers),
    job("npb-is", NPB).refusing(at_most_512),
    job("npb-mg", NPB).refusing(powers),
    job("ping", &[ROUNDS]),
    job("rma", &[ROUNDS, argument("--switch-over", Value::Flag, "eager beside rendezvous sends")]),
    job("segments", &[]),
    job("snippets", &[]),
    job("stalled", &[argument("--messages", Value::Number(1, MANY), "how many [default: 1000000]")]),
    job(
        "tree",
        &[
            argument("--allreduce", Value::Number(1, MANY), "only so many of one element"),
            argument("--sum", Value::Number(1, MANY), "only so many of as many elements as a packet has"),
        ],
    )
    .refusing(on_the_tree),
    job("wake", &[]).on("2").refusing(sleepers),
];

fn is_size_of_grid(word: &str) -> bool {
    word.parse().is_ok_and(|size: u32| (3..=255).contains(&size) && size % 4 == 3)
}
