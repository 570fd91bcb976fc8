//! Who does how much: the limit computation of seed 004 (SPEC L-2, L-4).
//!
//! A message has `n` chunks. For each two sets `s` and `m` of origin sub-operations, which have the fewest that the target needs to
//! have done, the origin reckons what a chunk costs each side, `o(s)`, `t(s)`, `o(m)` and `t(m)`, by the amount of processing of
//! each sub-operation, as it was measured on this hart, and of sending. Let `a` and `b` be the shares of their time that origin
//! and target can
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
//! `L` is the limit on the number of chunks with `s`; the two that are done first are taken. `a` and `b` are
//! the idle shares: what a side does is time of its application. So an origin that is busy does what is least work for it, which
//! is to leave all to the target, or to combine what would have to be sent twice; one that is not does all that it can for a
//! target that is busy.

use super::cost::StepCosts;
use super::recipe::{Recipe, SubOperations};
use heapless::Vec;

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

/// What a side's part costs, reckoned by what each sub-operation was measured to cost (`cost`).
struct Reckoning<'a> {
    recipe: &'a Recipe,
    way: Way,
    costs: &'a StepCosts,
    /// Of the registered function that the recipe has, for an element; 0 without one.
    additions: u64,
}

impl Reckoning<'_> {
    /// Of `steps` with a word of elements, where the origin does `done`. A swap falls on the side that does it; a side computes
    /// in its own order. What is not combined before has to be swapped twice.
    fn steps(&self, steps: SubOperations, done: SubOperations) -> u64 {
        let costs = self.costs;
        let both = self.recipe.has_operand() && !done.contains(SubOperations::COMBINE);
        let elements = 8 / self.recipe.element().bytes() as u64;
        let combine = match self.additions {
            0 => costs.combine,
            additions => additions * elements * costs.add,
        };
        let cost: u64 = [
            (SubOperations::SWAP, costs.swap * (1 + u64::from(both))),
            (SubOperations::COMBINE, combine),
            (SubOperations::SCALE, costs.scale),
            (SubOperations::NARROW, costs.narrow),
            (SubOperations::ADD, costs.add),
        ]
        .into_iter()
        .filter(|&(step, _)| steps.contains(step))
        .map(|(_, cost)| cost)
        .sum();
        cost.min(DEAREST)
    }

    /// Words that are on the way for one of elements, in halves.
    fn wire(&self, done: SubOperations) -> u64 {
        self.recipe.wire_bytes(16, done) as u64 / 8
    }

    /// What a word costs the origin that does `done` with it.
    fn origin(&self, done: SubOperations) -> u64 {
        let costs = self.costs;
        let work = if done.is_empty() { 0 } else { self.steps(done, done) + self.loads() };
        let send = match self.way {
            _ if done.contains(SubOperations::ADD) => 0,
            Way::Local if done.is_empty() => costs.copy / LENT,
            Way::Local => self.wire(done) * costs.copy / 2,
            Way::Torus => self.wire(done) * costs.copy * CARRIED / 2,
        };
        work + send
    }

    /// What it costs the target that does the others.
    fn target(&self, done: SubOperations) -> u64 {
        let left = self.recipe.sub_operations().difference(done);
        if left.is_empty() {
            return 0;
        }
        let take = if self.way == Way::Torus { CARRIED } else { 0 };
        let widen = if done.contains(SubOperations::NARROW) { self.costs.narrow } else { 0 };
        self.wire(done) * self.costs.copy * (1 + take) / 2 + widen + self.steps(left, done)
    }

    /// To have message and operand at hand.
    fn loads(&self) -> u64 {
        self.wire(SubOperations::empty()) * self.costs.copy / 2
    }
}

/// No word is reckoned dearer: so many times all chunks and both shares are less than a number has room for.
const DEAREST: u64 = 1 << 28;
/// A message that is lent costs its origin so much less than a copy.
const LENT: u64 = 8;
/// A word that goes over the torus costs each side so much more than a copy; counted by the job `accumulate`.
const CARRIED: u64 = 3;

/// The fewest of the first sub-operations without which the target cannot do the rest.
pub(crate) fn fewest(recipe: &Recipe, available: SubOperations) -> SubOperations {
    let all = recipe.sub_operations();
    let available = recipe.among(available);
    let mut done = SubOperations::empty();
    let mut fewest = done;
    for step in recipe.sequence() {
        done |= step;
        if !available.contains(step) {
            fewest = done;
        }
    }
    // The addition is behind all others, the swap too.
    let swap = if fewest.contains(SubOperations::ADD) { all } else { all.difference(available) };
    fewest | swap.intersection(SubOperations::SWAP)
}

/// All that an origin can do on this way.
pub(crate) fn most(recipe: &Recipe, way: Way) -> SubOperations {
    match way {
        Way::Local => recipe.sub_operations(),
        Way::Torus => recipe.sub_operations().difference(SubOperations::ADD),
    }
}

/// What an origin may do of a recipe, least first: at most `most`, and at least `least`.
fn parts(recipe: &Recipe, most: SubOperations, least: SubOperations) -> Vec<SubOperations, 10> {
    let mut parts = Vec::new();
    let mut done = SubOperations::empty();
    let swap = recipe.sub_operations().intersection(SubOperations::SWAP);
    for step in core::iter::once(SubOperations::empty()).chain(recipe.sequence()) {
        done |= step;
        for part in [done, done | swap].map(|part| recipe.prefix(part)) {
            if most.contains(part) && part.contains(least) && !parts.contains(&part) {
                // There are four steps at most.
                let _ = parts.push(part);
            }
        }
    }
    parts
}

/// How many of `chunks` the origin processes, and how. `additions` is what the recipe's registered function costs.
pub(crate) fn balance(
    (recipe, additions): (&Recipe, u16),
    way: Way,
    (costs, workloads): (&StepCosts, &Workloads),
    chunks: u32,
) -> Plan {
    let most = most(recipe, way);
    let least = fewest(recipe, workloads.available).intersection(most);
    let reckoning = Reckoning { recipe, way, costs, additions: additions.into() };
    let (a, b) = (u64::from(workloads.origin.min(ALL_TIME)), u64::from(workloads.target.min(ALL_TIME)));
    let n = u64::from(chunks);
    let parts = parts(recipe, most, least);
    let mut plan = Plan { first: least, limit: 0, others: least };
    // The later of both, times a and b.
    let mut soonest = u64::MAX;
    // Some chunks with one part, the others with another: the one converts where the other combines.
    for &others in &parts {
        if others.contains(SubOperations::ADD) && others != least {
            continue;
        }
        let (origin_m, target_m) = (reckoning.origin(others), reckoning.target(others));
        for &first in &parts {
            let (origin_s, target_s) = (reckoning.origin(first), reckoning.target(first));
            let limit = limit(n, (a, b), (origin_s, target_s), (origin_m, target_m));
            let origin_end = (limit * origin_s + (n - limit) * origin_m) * b;
            let target_end = (limit * target_s + (n - limit) * target_m) * a;
            let end = origin_end.max(target_end);
            if end < soonest {
                soonest = end;
                plan = Plan { first, limit: limit as u32, others };
            }
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
    use crate::balance::{Combination, Factor, Foreign, RecipeElement};
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

    const SWAP: SubOperations = SubOperations::SWAP;

    /// With the usual costs, those of a clock that stands still.
    fn plan(recipe: &Recipe, additions: u16, way: Way, workloads: Workloads, chunks: u32) -> Plan {
        balance(
            (recipe, additions),
            way,
            (&StepCosts::measure(|| 0, |words, addends| addends.add_to(words)), &workloads),
            chunks,
        )
    }

    #[test]
    fn l2_a_busy_origin_gives_the_work_to_the_target() {
        let sum = Recipe::sum(RecipeElement::F64);
        for recipe in [
            sum,
            sum.combined(Combination::Max),
            Recipe::accumulate(Factor::F32(2.0)).converted(Foreign::Target),
        ] {
            for way in [Way::Local, Way::Torus] {
                let plan = plan(&recipe, 0, way, workloads(0, 1000), 64);
                let all = [(plan.first, plan.limit > 0), (plan.others, plan.limit < 64)];
                let none = all.into_iter().all(|(part, some)| !some || part.is_empty());
                assert!(none, "{recipe:?} {way:?} {plan:?}");
            }
        }
    }

    #[test]
    fn l2_the_targets_share_moves_the_split_over_its_whole_range() {
        let recipe = Recipe::accumulate(Factor::F64(2.0));
        let plans: Vec<Plan> = (0..=1000)
            .step_by(100)
            .map(|target| plan(&recipe, 0, Way::Local, workloads(1000, target), 1000))
            .collect();
        let limits: Vec<u32> = plans.iter().map(|plan| plan.limit).collect();
        assert!(limits.is_sorted_by(|busier, idler| busier > idler), "{limits:?}");
        assert!(limits[0] == 1000 && (450..550).contains(&limits[10]), "{limits:?}");
        for plan in &plans[1..] {
            assert_eq!((plan.first, plan.others), (recipe.sub_operations(), SubOperations::empty()));
        }
        // Over the torus the addition is left to the target however busy it is.
        let recipe = recipe.converted(Foreign::Message);
        let plan = plan(&recipe, 0, Way::Torus, workloads(1000, 0), 1000);
        assert_eq!((plan.first, plan.limit), (SWAP | SubOperations::SCALE, 1000));
    }

    #[test]
    fn l2_what_the_target_does_not_have_is_done_at_the_origin() {
        let recipe = Recipe::accumulate(Factor::I32(2)).converted(Foreign::Message);
        let available = SubOperations::ADD | SWAP;
        let workloads = |available| Workloads { origin: 0, target: 1000, available };
        let plan = |available, way| super::tests::plan(&recipe, 0, way, workloads(available), 10);
        assert_eq!(fewest(&recipe, available), SubOperations::SCALE);
        let found = plan(available, Way::Torus);
        assert!(found.first.union(found.others).contains(SubOperations::SCALE), "{found:?}");
        // Who adds has swapped, though the target could.
        let swap = recipe.converted(Foreign::Target).prefix(SubOperations::all());
        assert_eq!(plan(SWAP | SubOperations::SCALE, Way::Local).others, swap);
        // The addition is the target's, over the torus, whatever it says; it will refuse.
        let none = SubOperations::empty();
        assert_eq!(plan(none, Way::Torus).others, most(&recipe, Way::Torus));
        assert_eq!(plan(none, Way::Local).others, recipe.sub_operations());
    }

    /// However dear conversion and combination are to each other, both sides end at about the same time.
    #[test]
    fn l4_conversion_and_combination_are_shared_out() {
        for (combine, additions, swap) in [
            (Combination::OwnAlone(0), 1, 400),
            (Combination::OwnAlone(0), 50, 400),
            (Combination::Own(0), 9, 100),
        ] {
            let recipe = Recipe::sum(RecipeElement::F64).combined(combine).converted(Foreign::Target);
            let costs = StepCosts { copy: 1, swap, combine: 1, scale: 1, narrow: 1, add: 100 };
            let reckoning =
                Reckoning { recipe: &recipe, way: Way::Torus, costs: &costs, additions: additions.into() };
            let Plan { first, limit, others } =
                balance((&recipe, additions), Way::Torus, (&costs, &workloads(1000, 1000)), 1000);
            let ends = |side: &dyn Fn(SubOperations) -> u64| {
                u64::from(limit) * side(first) + u64::from(1000 - limit) * side(others)
            };
            let origin = ends(&|part| reckoning.origin(part));
            let target = ends(&|part| reckoning.target(part));
            assert!(origin.abs_diff(target) * 50 < origin, "{origin} {target}: {first:?} {limit} {others:?}");
            let alone = 1000 * reckoning.target(SubOperations::empty());
            assert!(target * 9 < alone * 5, "{target} of {alone}");
        }
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
