//! The links of the node's network cards: one that goes down after the start is noticed, counted and told (SPEC R-2, B-5).
//!
//! Who serves a card hears from it that it has changed, if it is one that interrupts for that. Others are looked at before a
//! sleep, now and then, and before the service node's question is answered: that comes when a node says nothing that others
//! wait for. Nothing ticks. What was lost meanwhile goes again, as everything that the torus loses.

use crate::board::{self, CardInterrupt};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use drivers::nic::{Acknowledge as _, Told};
use spin::Once;

/// Least time from one look before a sleep to the next.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// The cards, in the order in which they were found: that on the torus, then that on the tree.
static CARDS: [Once<CardInterrupt>; board::ADAPTERS] = [const { Once::new() }; board::ADAPTERS];

/// How many want to know of the links and have not been looked for: the first of them looks, for all.
static ASKING: AtomicU32 = AtomicU32::new(0);
/// The cards whose link is down, as a set of bits, and how often one has gone down.
static DOWN: AtomicU32 = AtomicU32::new(0);
static LOST: AtomicU32 = AtomicU32::new(0);
/// When to look before a sleep.
static NEXT_NS: AtomicU64 = AtomicU64::new(LOOK_EVERY_NS);

/// The node has one more card, whose link is up.
pub(crate) fn add(card: CardInterrupt) {
    if let Some(free) = CARDS.iter().find(|card| !card.is_completed()) {
        free.call_once(|| card);
    }
}

fn cards() -> impl Iterator<Item = &'static CardInterrupt> {
    CARDS.iter().filter_map(Once::get)
}

/// Takes note of what all cards interrupt for.
pub(crate) fn serve() -> Told {
    cards().map(CardInterrupt::serve).fold(Told::Frames, |told, next| match (told, next) {
        (Told::Broken, _) | (_, Told::Broken) => Told::Broken,
        (Told::Changed, _) | (_, Told::Changed) => Told::Changed,
        (Told::Frames, Told::Frames) => Told::Frames,
    })
}

/// Whether a link has gone down or come up. To be asked while no interrupt is taken.
pub(crate) fn look() -> bool {
    if ASKING.fetch_add(1, Ordering::AcqRel) != 0 {
        // Who looks just now looks again for this one.
        return false;
    }
    let mut changed = false;
    loop {
        let asking = ASKING.load(Ordering::Acquire);
        let was = DOWN.load(Ordering::Relaxed);
        let down = cards().enumerate().fold(0, |down, (at, card)| {
            let bit = 1 << at;
            if card.link_is_up(was & bit == 0) { down } else { down | bit }
        });
        DOWN.store(down, Ordering::Relaxed);
        LOST.fetch_add((down & !was).count_ones(), Ordering::Relaxed);
        changed |= down != was;
        if ASKING.compare_exchange(asking, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return changed;
        }
    }
}

/// The same before a sleep, if the last such look is long enough ago.
pub(crate) fn look_again(now_ns: u64) -> bool {
    if now_ns < NEXT_NS.load(Ordering::Relaxed) {
        return false;
    }
    NEXT_NS.store(now_ns + LOOK_EVERY_NS, Ordering::Relaxed);
    look()
}

/// The cards whose link is down, the first as bit 0.
pub(crate) fn down() -> u32 {
    DOWN.load(Ordering::Relaxed)
}

/// How often a link has gone down.
pub(crate) fn lost() -> u32 {
    LOST.load(Ordering::Relaxed)
}
