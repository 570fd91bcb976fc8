//! Who does how much: the limit computation of seed 004 (SPEC L-2, L-4).
//!
//! A message has `n` chunks. For one set `s` of origin sub-operations after the other, and the fewest `m` that the target
//! needs to have done, the origin reckons what a chunk costs each side, `o(s)`, `t(s)`, `o(m)` and `t(m)`, by the amount of
//! processing of each sub-operation and of sending. Let `a` and `b` be the shares of their time that origin and target can
//! give. If `L` chunks are processed with `s` and the rest with `m`, both sides are done at the same time when
//!
//! ```text
//! (L o(s) + (n - L) o(m)) / a  =  (L t(s) + (n - L) t(m)) / b
//!
//!            a t(m) - b o(m)
//! L = n ---------------------------------------      between 0 and n
//!        a (t(m) - t(s)) + b (o(s) - o(m))
//! ```
//!
//! `L` is the limit on the number of chunks with `s`; the `s` that is done first is taken. `a` and `b` are
//! the idle shares: what a side does is time of its application. So an origin that is busy leaves all to the target, whatever
//! that says; one that is not does all that it can for a target that is busy.

use super::recipe::{Foreign, Recipe, SubOperations};

/// The whole of a side's time.
pub(crate) const ALL_TIME: u16 = 1000;

/// How the elements get from the origin to the target's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// The origin reaches the target's memory, and the target the origin's.
    Local,
    /// In packets.
    Torus,
}

/// Who does what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// What the origin does with the first chunks.
    pub(crate) first: SubOperations,
    /// With how many of them.
    pub(crate) limit: u32,
    /// What it does with the others.
    pub(crate) others: SubOperations,
}

/// What both sides say of themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Workloads {
    /// Share of the origin's time that is idle, of [`ALL_TIME`].
    pub(crate) origin: u16,
    /// Share of the target's.
    pub(crate) target: u16,
    /// Sub-operations that the target has.
    pub(crate) available: SubOperations,
}

// Instructions for a word of one element or two, times ten; counted by the job `accumulate`, means of both architectures.
/// To lend it to a target in this node, or to copy it into a packet for one, or for another node; and to take it in there.
const LEND: u64 = 8;
const COPY: u64 = 40;
const SEND: u64 = 600;
const TAKE: u64 = 550;
/// To load and store it, once in each loop over the elements.
const LOOP: u64 = 50;
const SWAP: u64 = 110;
/// To scale an element, and to add one; to load and store the sum of a word.
const SCALE: u64 = 12;
const SUM: u64 = 10;
const ADD: u64 = 120;

/// Of the sub-operations `steps` in one pass.
fn effort(recipe: &Recipe, steps: SubOperations) -> u64 {
    let elements = 8 / recipe.element().bytes() as u64;
    let adds = steps.contains(SubOperations::ADD);
    // A foreign target's words are swapped to be added and swapped again; what was swapped before need not be swapped twice.
    let swaps = match (recipe.foreign(), steps.contains(SubOperations::SWAP), adds) {
        (Foreign::Target, true, true) => 2,
        (Foreign::Target, false, true) => 3,
        (_, swaps, _) => u64::from(swaps),
    };
    let scale = if steps.contains(SubOperations::SCALE) { SCALE * elements } else { 0 };
    let sum = if adds { ADD + SUM * elements } else { 0 };
    LOOP + swaps * SWAP + scale + sum
}

/// What a word costs the origin that does `steps` with it.
fn origin(recipe: &Recipe, steps: SubOperations, way: Way) -> u64 {
    let process = if steps.is_empty() { 0 } else { effort(recipe, steps) };
    let send = match way {
        _ if steps.contains(SubOperations::ADD) => 0,
        Way::Local if steps.is_empty() => LEND,
        Way::Local => COPY,
        Way::Torus => SEND,
    };
    process + send
}

/// What it costs the target that does the others.
fn target(recipe: &Recipe, done: SubOperations, way: Way) -> u64 {
    let left = recipe.sub_operations().difference(done);
    let take = if way == Way::Torus { TAKE } else { LEND };
    if left.is_empty() { 0 } else { take + effort(recipe, left) }
}

/// The fewest of the first sub-operations without which the target cannot do the rest.
pub(crate) fn fewest(recipe: &Recipe, available: SubOperations) -> SubOperations {
    let mut done = SubOperations::empty();
    let mut fewest = done;
    for step in recipe.sequence() {
        done |= step;
        if !available.contains(step) {
            fewest = done;
        }
    }
    fewest
}

/// All that an origin can do on this way.
pub(crate) fn most(recipe: &Recipe, way: Way) -> SubOperations {
    match way {
        Way::Local => recipe.sub_operations(),
        Way::Torus => recipe.prefix(SubOperations::ADD.complement()),
    }
}

/// How many of `chunks` the origin processes, and how.
pub(crate) fn balance(recipe: &Recipe, way: Way, workloads: &Workloads, chunks: u32) -> Plan {
    let most = most(recipe, way);
    let others = fewest(recipe, workloads.available).intersection(most);
    let mut plan = Plan { first: others, limit: 0, others };
    let (a, b) = (u64::from(workloads.origin.min(ALL_TIME)), u64::from(workloads.target.min(ALL_TIME)));
    let (origin_m, target_m) = (origin(recipe, others, way), target(recipe, others, way));
    let n = u64::from(chunks);
    // The later of both, times a and b.
    let mut soonest = (n * origin_m * b).max(n * target_m * a);
    let mut selected = others;
    for step in recipe.sequence() {
        if selected.contains(step) || !most.contains(step) {
            continue;
        }
        selected |= step;
        let (origin_s, target_s) = (origin(recipe, selected, way), target(recipe, selected, way));
        let limit = limit(n, (a, b), (origin_s, target_s), (origin_m, target_m));
        let origin_end = (limit * origin_s + (n - limit) * origin_m) * b;
        let target_end = (limit * target_s + (n - limit) * target_m) * a;
        let end = origin_end.max(target_end);
        if limit > 0 && end < soonest {
            soonest = end;
            plan = Plan { first: selected, limit: limit as u32, others };
        }
    }
    plan
}

/// The limit: chunks of `n` that are processed at the origin.
fn limit(
    n: u64,
    (a, b): (u64, u64),
    (origin_s, target_s): (u64, u64),
    (origin_m, target_m): (u64, u64),
) -> u64 {
    let Some(late) = (a * target_m).checked_sub(b * origin_m) else { return 0 };
    let gained = (a * target_m + b * origin_s).saturating_sub(a * target_s + b * origin_m);
    // If a chunk more at the origin lets nobody end sooner, none is processed there.
    (n * late).checked_div(gained).unwrap_or(0).min(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{Factor, RecipeElement};
    use proptest::prelude::*;
    use std::vec::Vec;

    const ALL: SubOperations = SubOperations::all();

    fn workloads(origin: u16, target: u16) -> Workloads {
        Workloads { origin, target, available: ALL }
    }

    #[test]
    fn l4_the_limit_lets_both_sides_end_at_once() {
        // n, shares, what a processed chunk costs each side, and one that is not.
        let cases = [
            ((100, (1, 1), (20, 0), (0, 20)), 50),
            ((100, (1, 1), (20, 0), (4, 20)), 44),
            ((100, (1, 1), (10, 0), (0, 30)), 75),
            ((100, (1, 2), (20, 0), (0, 20)), 33),
            ((100, (2, 1), (20, 0), (0, 20)), 66),
            // A busy origin does nothing, and so does one that sends for longer than the target takes.
            ((100, (0, 1), (20, 0), (0, 20)), 0),
            ((100, (1, 1), (20, 10), (15, 12)), 0),
            ((100, (1, 1), (20, 12), (5, 40)), 81),
            ((100, (1, 1), (5, 30), (5, 40)), 100),
            ((0, (1, 1), (20, 0), (0, 20)), 0),
        ];
        for ((n, shares, processed, others), expected) in cases {
            assert_eq!(
                limit(n, shares, processed, others),
                expected,
                "{n} {shares:?} {processed:?} {others:?}"
            );
        }
    }

    #[test]
    fn l2_a_busy_origin_gives_the_work_to_the_target() {
        for recipe in
            [Recipe::sum(RecipeElement::F64), Recipe::accumulate(Factor::F32(2.0)).converted(Foreign::Target)]
        {
            for way in [Way::Local, Way::Torus] {
                let plan = balance(&recipe, way, &workloads(0, 1000), 64);
                assert_eq!((plan.limit, plan.others), (0, SubOperations::empty()), "{recipe:?} {way:?}");
            }
        }
    }

    #[test]
    fn l2_the_targets_share_moves_the_split_over_its_whole_range() {
        let recipe = Recipe::accumulate(Factor::F64(2.0));
        let plans: Vec<Plan> = (0..=1000)
            .step_by(100)
            .map(|target| balance(&recipe, Way::Local, &workloads(1000, target), 1000))
            .collect();
        let limits: Vec<u32> = plans.iter().map(|plan| plan.limit).collect();
        assert!(limits.is_sorted_by(|busier, idler| busier > idler), "{limits:?}");
        assert!(limits[0] == 1000 && (450..550).contains(&limits[10]), "{limits:?}");
        for plan in plans {
            assert_eq!((plan.first, plan.others), (recipe.sub_operations(), SubOperations::empty()));
        }
        // Over the torus the addition is left to the target however busy it is.
        let recipe = recipe.converted(Foreign::Message);
        let plan = balance(&recipe, Way::Torus, &workloads(1000, 0), 1000);
        assert_eq!((plan.first, plan.limit), (SubOperations::SWAP | SubOperations::SCALE, 1000));
    }

    #[test]
    fn l2_what_the_target_does_not_have_is_done_at_the_origin() {
        let recipe = Recipe::accumulate(Factor::I32(2)).converted(Foreign::Message);
        let available = SubOperations::ADD | SubOperations::SWAP;
        let plan = balance(&recipe, Way::Torus, &Workloads { origin: 0, target: 1000, available }, 10);
        assert_eq!((plan.limit, plan.others), (0, SubOperations::SWAP | SubOperations::SCALE));
        // The addition is the target's, over the torus, whatever it says; it will refuse.
        let none = SubOperations::empty();
        assert_eq!(
            balance(&recipe, Way::Torus, &Workloads { origin: 0, target: 0, available: none }, 10).others,
            most(&recipe, Way::Torus)
        );
        assert_eq!(
            balance(&recipe, Way::Local, &Workloads { origin: 0, target: 0, available: none }, 10).others,
            recipe.sub_operations()
        );
    }

    proptest! {
        #[test]
        fn l4_no_other_limit_ends_much_sooner(
            n in 1u64..200, shares in (1u64..1000, 1u64..1000),
            costs in (1u64..100, 0u64..100, 1u64..100, 1u64..100)
        ) {
            let (a, b) = shares;
            let (origin_s, target_s, origin_m, target_m) = costs;
            prop_assume!(origin_s >= origin_m && target_s <= target_m);
            let end = |l: u64| ((l * origin_s + (n - l) * origin_m) * b).max((l * target_s + (n - l) * target_m) * a);
            let found = limit(n, shares, (origin_s, target_s), (origin_m, target_m));
            let best = (0..=n).map(end).min().unwrap();
            // A chunk is not cut in two.
            prop_assert!(end(found) <= best + (origin_s * b).max(target_m * a));
        }
    }
}
