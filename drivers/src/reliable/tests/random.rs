//! Ten thousand wires, each with its own faults and its own jobs.

use super::bench::Bench;
use super::dice::Dice;
use super::wire::Faults;
use crate::adapter::{Adapter, Reliability};
use std::time::Instant;

const SEEDS: u64 = 10_000;
/// No run may take longer, in virtual time.
const LIMIT_NS: u64 = 600_000_000_000;

fn faults(dice: &mut Dice) -> Faults {
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
    for node in &mut bench.nodes {
        // However bad the wire, nobody is to be given up.
        node.link.silence_ns = u64::MAX;
    }
    for _ in 0..1 + dice.below(5) {
        let (from, to) = (dice.below(nodes) as u32, dice.below(nodes) as u32);
        bench.order(from, to, 1 + dice.below(40) as usize);
    }
    bench.run(LIMIT_NS);
    let mut sum = Reliability::default();
    for node in &bench.nodes {
        let counters = node.link.faults().reliability;
        assert_eq!((counters.beyond_credit, counters.strangers, counters.dead_peers), (0, 0, 0));
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

/// `PAMIR_SEED=n` runs only seed `n`.
#[test]
fn d8_ten_thousand_bad_wires_deliver_everything_once_in_order_and_intact() {
    if let Some(seed) = std::env::var("PAMIR_SEED").ok().and_then(|seed| seed.parse().ok()) {
        std::eprintln!("seed {seed}: {:?}", run(seed));
        return;
    }
    let seeds = if cfg!(miri) { 3 } else { SEEDS };
    let start = Instant::now();
    let threads = 2;
    let total = std::thread::scope(|scope| {
        let workers: std::vec::Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let mut total = 0;
                    for seed in (worker..seeds).step_by(threads as usize) {
                        let result = std::panic::catch_unwind(|| run(seed));
                        let Ok(counters) = result else {
                            panic!("seed {seed} fails; PAMIR_SEED={seed} runs it again");
                        };
                        total += counters.retransmitted + counters.duplicates + counters.corrupt;
                    }
                    total
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u64>()
    });
    std::eprintln!("{seeds} seeds, {total} frames mended, {:?}", start.elapsed());
    assert!(total > seeds, "the wires were too good");
}
