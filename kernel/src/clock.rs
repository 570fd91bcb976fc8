//! The node's clock: nanoseconds since the node started, the same on all harts.

use crate::arch;
use core::sync::atomic::{AtomicU64, Ordering};

static START: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per tick, as a fraction of 2^32.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);
const NS_PER_S: u128 = 1_000_000_000;

/// Sets the clock to 0.
pub fn start() {
    START.store(arch::counter(), Ordering::Relaxed);
    NS_PER_TICK.store(((NS_PER_S << 32) / u128::from(arch::counter_hz())) as u64, Ordering::Relaxed);
}

/// Nanoseconds since [`start`].
#[inline]
pub fn now_ns() -> u64 {
    let ticks = arch::counter().wrapping_sub(START.load(Ordering::Relaxed));
    ((u128::from(ticks) * u128::from(NS_PER_TICK.load(Ordering::Relaxed))) >> 32) as u64
}

/// The counter's value when the clock reads `ns`, or the last one before that is out of reach.
pub fn counter_at(ns: u64) -> u64 {
    // Rounded up: the clock has reached `ns` then.
    let ticks = (u128::from(ns) * u128::from(arch::counter_hz())).div_ceil(NS_PER_S);
    START.load(Ordering::Relaxed).saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX))
}

defmt::timestamp!("{=u64:us}", now_ns() / 1000);
