//! What the two cores do at this moment, measured before and after each run.
//!
//! A virtual machine's cores wander: other guests slow one down, or the two no longer share a cache, and the same program
//! takes 1.3 to 4.4 times as long. A run counts only if the probes on both of its sides are near what is typical of the
//! session: the middle of all speeds, and the middle of the ways of a line between cores that share a cache. The best
//! would be no measure: at times both cores are one core's threads, and a line's way is half as long.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::summary::median;

/// Dependent steps of the speed's measurement.
const STEPS: u64 = 4_000_000;
/// Round trips of a cache line, and how long they may take in all.
const TRIPS: u64 = 50_000;
const TRIPS_TIMEOUT: Duration = Duration::from_millis(30);
/// A core's speed is another if a step takes over so many times as long as it typically does, or as much less.
const OTHER_SPEED: f64 = 1.10;
/// A line's way is another if it takes over so many times as long as it typically does, or as much less.
const OTHER_WAY: f64 = 1.5;
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

/// What is typical of some probes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Typical {
    speed: f64,
    /// Of cores that share a cache; as far as that if they never did.
    bounce: f64,
}

impl Typical {
    /// The middle of `probes`; `None` if there are none.
    pub fn of(probes: impl Iterator<Item = Probe> + Clone) -> Option<Self> {
        // Both cores are of one kind: what one can do, the other can.
        let speed = median(probes.clone().flat_map(|probe| probe.speed).collect())?;
        let near = probes.map(|probe| probe.bounce).filter(|&bounce| bounce <= NEAR_NS).collect();
        Some(Self { speed, bounce: median(near).unwrap_or(NEAR_NS) })
    }
}

impl Probe {
    /// Why a run beside this probe does not count.
    pub fn objection(&self, typical: &Typical) -> Option<&'static str> {
        if self.speed.iter().any(|&core| core > typical.speed * OTHER_SPEED) {
            return Some("a core was slowed");
        }
        if self.speed.iter().any(|&core| core < typical.speed / OTHER_SPEED) {
            return Some("a core was faster than it typically is");
        }
        if self.bounce > NEAR_NS {
            return Some("the cores shared no cache");
        }
        if self.bounce > typical.bounce * OTHER_WAY {
            return Some("a cache line took longer than it typically does");
        }
        (self.bounce < typical.bounce / OTHER_WAY).then_some("both cores were threads of one")
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
        black_box(multiply(black_box(side as u64)));
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

/// All steps, in registers: an iterator would go through memory in a build without inlining, which takes now 5 ns and now 8.
#[inline(never)]
fn multiply(mut word: u64) -> u64 {
    let mut step = 0;
    while step < STEPS {
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (word >> 32);
        step += 1;
    }
    word
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
    fn h6_a_run_beside_cores_that_are_not_as_they_typically_are_does_not_count() {
        let usual = Probe { speed: [1000.0, 1010.0], bounce: 50.0 };
        let one = Probe { bounce: 24.0, ..usual };
        let far = Probe { bounce: 220.0, ..usual };
        let slowed = Probe { speed: [1000.0, 1112.0], ..usual };
        let faster = Probe { speed: [700.0, 1010.0], ..usual };
        // However many are far, and however good the best is.
        let typical = Typical::of([far, far, far, usual, slowed, usual, one].into_iter()).unwrap();
        assert_eq!(typical, Typical { speed: 1005.0, bounce: 50.0 });
        assert_eq!(usual.objection(&typical), None);
        let wandering = Probe { speed: [1090.0, 1095.0], bounce: 74.0 };
        assert_eq!(wandering.objection(&typical), None);
        assert_eq!(slowed.objection(&typical), Some("a core was slowed"));
        assert_eq!(faster.objection(&typical), Some("a core was faster than it typically is"));
        assert_eq!(far.objection(&typical), Some("the cores shared no cache"));
        let longer = Probe { bounce: 76.0, ..usual };
        assert_eq!(longer.objection(&typical), Some("a cache line took longer than it typically does"));
        assert_eq!(one.objection(&typical), Some("both cores were threads of one"));
        // What is typical of cores that never share one is none that counts.
        let typical = Typical::of([far, far].into_iter()).unwrap();
        assert_eq!(far.objection(&typical), Some("the cores shared no cache"));
        assert_eq!(Typical::of([].into_iter()), None);
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
