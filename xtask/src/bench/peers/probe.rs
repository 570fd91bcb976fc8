//! What the two cores do at this moment, measured before and after each run.
//!
//! A virtual machine's cores wander: other guests slow one down, or the two no longer share a cache, and the same program
//! takes 1.3 to 4.4 times as long. A run counts only if the probes on both of its sides are near the best of the session.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// Dependent steps of the speed's measurement.
const STEPS: u64 = 4_000_000;
/// Round trips of a cache line, and how long they may take in all.
const TRIPS: u64 = 50_000;
const TRIPS_TIMEOUT: Duration = Duration::from_millis(30);
/// A core is slowed if a step takes over so many times the best.
const SLOWED: f64 = 1.10;
/// A line's way is longer than it was if it takes over so many times the best.
const FARTHER: f64 = 1.5;
/// Cores that share a cache bounce a line within so many nanoseconds.
const NEAR_NS: f64 = 150.0;

/// What a probe found.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// Nanoseconds of a thousand dependent multiplications, of each core.
    pub speed: [f64; 2],
    /// Nanoseconds of a cache line's way from one core to the other.
    pub bounce: f64,
}

impl Probe {
    /// The best of both.
    pub fn best(self, other: Self) -> Self {
        let speed = [0, 1].map(|core| self.speed[core].min(other.speed[core]));
        Self { speed, bounce: self.bounce.min(other.bounce) }
    }

    /// Why a run beside this probe does not count, where `best` is what these cores can do.
    pub fn objection(&self, best: &Self) -> Option<&'static str> {
        // Both are of one kind: what one can do, the other can.
        let speed = best.speed[0].min(best.speed[1]);
        if self.speed.iter().any(|&core| core > speed * SLOWED) {
            return Some("a core was slowed");
        }
        if self.bounce > NEAR_NS {
            return Some("the cores shared no cache");
        }
        (self.bounce > best.bounce * FARTHER).then_some("a cache line took longer than it can")
    }
}

/// Has the calling thread, and what it starts, run on `cores` alone.
///
/// # Errors
/// The machine has no such cores, or does not let this process have them.
pub fn bind(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on the cores {cores:?}"))
}

/// A cache line, and the next one, which is fetched along with it.
#[repr(align(128))]
#[derive(Default)]
struct PaddedWord(AtomicU64);

/// Measures the cores.
///
/// # Errors
/// They cannot be had.
pub fn probe(cores: [usize; 2]) -> Result<Probe> {
    let (lines, over, together) = (<[PaddedWord; 2]>::default(), AtomicBool::new(false), Barrier::new(2));
    let unbound = AtomicBool::new(false);
    let side = |side: usize| -> Result<(f64, f64)> {
        let bound = bind(&cores[side..=side]);
        if bound.is_err() {
            unbound.store(true, Relaxed);
        }
        together.wait();
        bound?;
        // Nobody waits for one that has no core.
        if unbound.load(Relaxed) {
            return Ok((0.0, 0.0));
        }
        let start = Instant::now();
        let mut word = black_box(side as u64);
        for _ in 0..STEPS {
            word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        }
        black_box(word);
        let speed = start.elapsed().as_nanos() as f64 * 1000.0 / STEPS as f64;
        together.wait();
        Ok((speed, bounce(side, &lines, &over)))
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| side(1));
        let own = scope.spawn(|| side(0));
        let join = |result: std::thread::Result<Result<(f64, f64)>>| {
            result.map_err(|_| anyhow!("a probe ended early"))?
        };
        let (own, other) = (join(own.join()), join(other.join()));
        let ((first, bounce), (second, _)) = (own?, other?);
        Ok(Probe { speed: [first, second], bounce })
    })
}

/// Nanoseconds of a line's way, the mean of many; of use from side 0, which asks.
fn bounce(side: usize, [there, back]: &[PaddedWord; 2], over: &AtomicBool) -> f64 {
    if side == 1 {
        for trip in 1.. {
            while there.0.load(Relaxed) != trip {
                if over.load(Relaxed) {
                    return 0.0;
                }
                std::hint::spin_loop();
            }
            back.0.store(trip, Relaxed);
        }
    }
    let (start, mut trips) = (Instant::now(), 0);
    while trips < TRIPS && (trips % 64 > 0 || start.elapsed() < TRIPS_TIMEOUT) {
        trips += 1;
        there.0.store(trips, Relaxed);
        while back.0.load(Relaxed) != trips {
            std::hint::spin_loop();
        }
    }
    let elapsed = start.elapsed();
    over.store(true, Relaxed);
    elapsed.as_nanos() as f64 / trips as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h6_a_run_beside_a_slowed_core_or_a_far_one_does_not_count() {
        let best = Probe { speed: [1000.0, 1010.0], bounce: 40.0 };
        assert_eq!(best.objection(&best), None);
        let wandering = Probe { speed: [1090.0, 1095.0], bounce: 55.0 };
        assert_eq!(wandering.objection(&best), None);
        let slowed = Probe { speed: [1000.0, 1111.0], ..best };
        assert_eq!(slowed.objection(&best), Some("a core was slowed"));
        let longer = Probe { bounce: 61.0, ..best };
        assert_eq!(longer.objection(&best), Some("a cache line took longer than it can"));
        // However far it is at best.
        let far = Probe { bounce: 200.0, ..best };
        assert_eq!(far.objection(&far), Some("the cores shared no cache"));
        let other = Probe { speed: [990.0, 1200.0], bounce: 50.0 };
        assert_eq!(best.best(other), Probe { speed: [990.0, 1010.0], bounce: 40.0 });
    }

    #[test]
    fn h6_a_probe_measures_what_it_can_have_and_names_cores_that_it_cannot() {
        let own = rustix::thread::sched_getaffinity(None).unwrap();
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| own.is_set(core));
        let first = cores.next().unwrap();
        let found = probe([first, cores.next().unwrap_or(first)]).unwrap();
        assert!(found.speed.iter().all(|&speed| speed > 0.0) && found.bounce > 0.0, "{found:?}");
        let error = probe([first, CpuSet::MAX_CPU - 1]).unwrap_err().to_string();
        assert_eq!(error, format!("cannot run on the cores [{}]", CpuSet::MAX_CPU - 1));
    }
}
