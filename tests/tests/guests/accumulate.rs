//! Balanced processing of messages (SPEC L-1 to L-5).

use std::collections::BTreeMap;
use std::time::Duration;
use tests::{expect_clean, on_both_architectures};
use xtask::{Arch, Mode, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(120);

/// A row of the job `accumulate`: `accumulate-f64, both idle, advice: 88084 89737 89737, gain 1.97, 49 % by the origin, 219 us`.
struct Row {
    /// Instructions of the origin, of the target, of the busiest of them.
    origin: u64,
    target: u64,
    busiest: u64,
    /// Part of the message that the origin has added in place.
    by_origin: u64,
}

/// By recipe, who was busy, and split.
type Rows = BTreeMap<(String, String, String), Row>;

fn parse(line: &str) -> Option<((String, String, String), Row)> {
    let (name, rest) = line.split_once(": ")?;
    let mut names = name.split(", ").map(String::from);
    let name = (names.next()?, names.next()?, names.next()?);
    let numbers: Vec<u64> = rest.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let &[origin, target, busiest, by_origin, _] = numbers.as_slice() else { return None };
    Some((name, Row { origin, target, busiest, by_origin }))
}

fn rows(outcome: &Outcome) -> Rows {
    expect_clean(outcome);
    let rows: Rows = outcome.lines().filter_map(|line| parse(&line.text)).collect();
    assert_eq!(rows.len(), 13 * 3 * 3, "{}", outcome.explain());
    assert!(outcome.lines().any(|line| line.text.contains("117 rows, 0 elements wrong")));
    rows
}

fn row<'a>(rows: &'a Rows, recipe: &str, busy: &str, split: &str) -> &'a Row {
    &rows[&(recipe.to_string(), busy.to_string(), split.to_string())]
}

/// How many times fewer instructions of the busiest hart a split takes than the target alone.
fn gain_by(rows: &Rows, recipe: &str, busy: &str, split: &str) -> f64 {
    let alone = row(rows, recipe, busy, "target only");
    assert_eq!(alone.by_origin, 0);
    alone.busiest as f64 / row(rows, recipe, busy, split).busiest as f64
}

/// The same of advice.
fn gain(rows: &Rows, recipe: &str, busy: &str) -> f64 {
    gain_by(rows, recipe, busy, "advice")
}

fn job(arch: Arch) -> Run {
    Run::new("accumulate").arch(arch).timeout(DEADLINE)
}

on_both_architectures! {
    fn l2_l5_advice_has_idle_sides_work_alike_and_busy_ones_hardly_and_all_bits_are_the_same(arch) {
        let run = job(arch).torus("1").harts(2).mode(Mode::Vn).icount(true);
        let rows = rows(&run.run().unwrap());
        let recipes = ["accumulate-f64", "accumulate-f32", "accumulate-i64", "accumulate-i32", "sum-f64"];
        let others = ["swap-f64", "swap-to-foreign-f64", "narrow-f64", "combine-f64", "combine-narrow-f64", "log-sum-exp-f64"];
        for recipe in recipes {
            let gain = gain(&rows, recipe, "both idle");
            assert!(gain >= 1.8, "{recipe}: {gain:.2}");
            let advice = row(&rows, recipe, "both idle", "advice");
            assert!((40..=60).contains(&advice.by_origin) && advice.target > 0, "{recipe}");
        }
        for recipe in others {
            let gain = gain(&rows, recipe, "both idle");
            assert!(gain >= 1.5, "{recipe}: {gain:.2}");
        }
        for recipe in recipes.into_iter().chain(others) {
            let (alone, advice) = (row(&rows, recipe, "busy target", "target only"), row(&rows, recipe, "busy target", "advice"));
            // Of what is dear before the addition, more of the additions may be left to it.
            assert!(advice.by_origin > 0 && advice.target * 20 < advice.origin && advice.target * 8 < alone.target, "{recipe}: {} % by the origin, {} of the target", advice.by_origin, advice.target);
            let (alone, advice) = (row(&rows, recipe, "busy origin", "target only"), row(&rows, recipe, "busy origin", "advice"));
            assert_eq!(advice.by_origin, 0, "{recipe}");
            // What is left to the origin is to name the message.
            assert!(advice.origin * 10 < advice.target && advice.target * 100 < alone.target * 105, "{recipe}");
        }
    }

    /// What is combined has half as many bytes to go, and what is dear is shared out; the addition is the target's.
    fn l2_l5_over_the_torus_what_is_combined_by_advice_has_the_same_bits_and_pays(arch) {
        rows(&job(arch).torus("2").args(["--count", "1001"]).run().unwrap());
        let counted = job(arch).torus("2").icount(true).run().unwrap();
        let counted = rows(&counted);
        // Of one operand or number half as long there is half as much to take in, too. What it takes to ask for advice is in the count.
        for (recipe, rules, least) in [
            ("combine-f64", 1.8, 1.8),
            ("narrow-f64", 1.8, 1.7),
            ("combine-narrow-f64", 1.8, 1.8),
            ("combine-swap-to-foreign-f64", 1.3, 1.3),
            ("log-sum-exp-f64", 1.0, 1.6),
            ("log-sum-exp-narrow-f64", 1.0, 1.6),
        ] {
            let ruled = gain_by(&counted, recipe, "both idle", "rule set");
            assert!(ruled >= rules, "{recipe}: {ruled:.2} by rules");
            let idle = gain(&counted, recipe, "both idle");
            assert!(idle >= least, "{recipe}: {idle:.2}");
            let busy = gain(&counted, recipe, "busy target");
            assert!(busy >= 1.15, "{recipe}: {busy:.2}, with a busy target");
        }
    }
}
