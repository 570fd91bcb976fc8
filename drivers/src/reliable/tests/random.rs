//! Ten thousand wires, each with its own faults and its own jobs.

use super::bench::Bench;
use super::dice::Dice;
use super::seeds;
use super::wire::Faults;
use crate::adapter::{Adapter, Reliability};

const SEEDS: u64 = 10_000;
/// No run may take longer, in virtual time.
const LIMIT_NS: u64 = 600_000_000_000;

pub fn faults(dice: &mut Dice) -> Faults {
    let share = |dice: &mut Dice, most: u64| if dice.per_mille(500) { dice.below(most) } else { 0 };
    Faults {
        drop: share(dice, 200),
        corrupt: share(dice, 60),
        duplicate: share(dice, 150),
        reorder: share(dice, 300),
        latency: 1_000 + dice.below(300_000),
        jitter: if dice.per_mille(200) { dice.below(20_000_000) } else { dice.below(100_000) },
    }
}

/// One run. Returns what the wire did and what that took.
fn run(seed: u64) -> Reliability {
    super::NOW.set(0);
    let mut dice = Dice::new(seed);
    let nodes = 2 + dice.below(2);
    let faults = faults(&mut dice);
    let mut bench = Bench::new(nodes as usize, seed, faults);
    for _ in 0..1 + dice.below(5) {
        let (from, to) = (dice.below(nodes) as u32, dice.below(nodes) as u32);
        bench.order(from, to, 1 + dice.below(40) as usize);
    }
    bench.run(LIMIT_NS);
    let mut sum = Reliability::default();
    for node in &bench.nodes {
        let counters = node.link.faults().reliability;
        assert_eq!((counters.beyond_credit, counters.dead_peers), (0, 0));
        sum.retransmitted += counters.retransmitted;
        sum.duplicates += counters.duplicates;
        sum.corrupt += counters.corrupt;
        sum.out_of_order += counters.out_of_order;
        sum.acks += counters.acks;
        sum.probes += counters.probes;
        sum.stalls += counters.stalls;
    }
    sum
}

#[test]
fn d8_ten_thousand_bad_wires_deliver_everything_once_in_order_and_intact() {
    let mended = seeds::run(
        SEEDS,
        1,
        || (),
        |(), seed| {
            let counters = run(seed);
            counters.retransmitted + counters.duplicates + counters.corrupt
        },
    );
    assert!(mended > 0, "the wires were too good");
}
