//! Runs something for many seeds, and says which one fails.

use std::string::String;
use std::time::Instant;

const THREADS: u64 = 2;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value: String| value.parse().ok())
}

/// Calls `run` for the seeds below `count`, or below what `PAMIR_SEEDS` says, and adds up what it returns. Each `batch`
/// seeds in sequence share what `start` makes. With `PAMIR_SEED=n` only seed `n` runs, behind those of its batch before
/// it.
pub fn run<S>(
    count: u64,
    batch: u64,
    start: impl Fn() -> S + Sync,
    run: impl Fn(&mut S, u64) -> u64 + Sync,
) -> u64 {
    if let Some(seed) = variable("PAMIR_SEED") {
        let mut state = start();
        return (seed - seed % batch..=seed).map(|seed| run(&mut state, seed)).sum();
    }
    let count = if cfg!(miri) { 2 } else { variable("PAMIR_SEEDS").unwrap_or(count) };
    let began = Instant::now();
    let share = |worker: u64| {
        let mut total = 0;
        for first in (worker * batch..count).step_by((THREADS * batch) as usize) {
            let mut state = start();
            for seed in first..(first + batch).min(count) {
                let once = std::panic::AssertUnwindSafe(|| run(&mut state, seed));
                let Ok(result) = std::panic::catch_unwind(once) else {
                    panic!("seed {seed} fails; PAMIR_SEED={seed} runs it again");
                };
                total += result;
            }
        }
        total
    };
    let total = std::thread::scope(|scope| {
        let share = &share;
        let workers: std::vec::Vec<_> =
            (0..THREADS).map(|worker| scope.spawn(move || share(worker))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    std::eprintln!("{count} seeds: {total}, in {:?}", began.elapsed());
    total
}
