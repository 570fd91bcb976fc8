//! Whole message units over bad wires: messages, puts, gets and updates of several nodes at once, each checked byte for
//! byte.

mod actor;
mod world;

use super::random::faults;
use super::seeds;
use world::World;

/// Runs by default; `PAMIR_SEEDS=10000` runs more. What is above the units runs ten thousand, see [`super::whole`].
const SEEDS: u64 = 2000;
/// Seeds that the same units go through one after the other: units are never freed.
const BATCH: u64 = 100;

#[test]
fn d8_message_units_are_exact_under_random_faults() {
    let mended = seeds::run(SEEDS, BATCH, World::new, World::run);
    assert!(mended > 0, "the wires were too good");
}
