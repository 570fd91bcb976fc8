//! What befalls packets: they are lost, damaged, doubled, late or overtaken (SPEC X-4).
//!
//! A packet's fate is drawn as it leaves the torus, at its target's door. Until then it is carried like any
//! other: it takes its places in queues and is counted on links. So a share of 1 % means 1 % of packets at
//! any distance, and a packet held back here keeps no other from moving. It is numbered within its pair when
//! it enters, so that fates do not depend on what a dead link has swallowed before.
//!
//! - *drop*: gone.
//! - *dup*: two of it go on, and each is drawn for the following.
//! - *corrupt*: one to eight places behind the Ethernet header change, a bit each or any bits of a byte each.
//! - *reorder*: held back until one to eight later packets of its pair have gone by, at most [`OVERTAKEN_TIMEOUT`].
//! - *delay*: held back for a time within the given bounds. One that was held back to be overtaken is not
//!   delayed besides.
//!
//! At most [`MOST_HELD`] packets are held back per target; beyond that they pass at once and are not counted.
//! Packets that are not held back keep their order.

use super::dice::Dice;
use super::faults::Faults;
use super::frame::ETHERNET_BYTES;
use super::statistics::FaultCounts;
use super::torus::Packet;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// The longest time that a packet waits to be overtaken.
pub const OVERTAKEN_TIMEOUT: Duration = Duration::from_millis(10);
/// The most packets that may overtake one.
const MOST_OVERTAKERS: u64 = 8;
/// The most places of a packet that are changed.
const MOST_CHANGES: u64 = 8;
/// The most packets held back before one target: with the longest frames, some 4 MiB.
pub const MOST_HELD: usize = 512;

/// A packet that waits to be overtaken.
struct Overtaken {
    packet: Packet,
    /// Packets of its pair that shall still go by.
    left: u64,
    due: Duration,
}

/// What is before one target.
#[derive(Default)]
struct Door {
    ready: VecDeque<Packet>,
    /// By when they are due and then by when they came.
    delayed: BTreeMap<(Duration, u64), Packet>,
    overtaken: Vec<Overtaken>,
    came: u64,
}

/// The faults at work. Times count from any moment before the first one given.
pub struct FaultInjector {
    faults: Faults,
    /// Packets sent so far, by origin and target.
    sent: HashMap<(u32, u32), u64>,
    /// By target.
    doors: Vec<Door>,
    /// By origin.
    counts: Vec<FaultCounts>,
}

impl FaultInjector {
    /// No packet yet between any of `nodes` nodes.
    pub fn new(faults: Faults, nodes: u32) -> Self {
        let nodes = nodes as usize;
        Self {
            faults,
            sent: HashMap::new(),
            doors: (0..nodes).map(|_| Door::default()).collect(),
            counts: vec![FaultCounts::default(); nodes],
        }
    }

    /// The number of the next packet of a pair.
    pub fn number(&mut self, origin: u32, target: u32) -> u64 {
        let sent = self.sent.entry((origin, target)).or_default();
        *sent += 1;
        *sent - 1
    }

    /// The next packet that `target` gets `now`; takes further ones from `arrive` as long as there are any
    /// and none is ready.
    pub fn next(
        &mut self,
        target: u32,
        now: Duration,
        mut arrive: impl FnMut() -> Option<Packet>,
    ) -> Option<Packet> {
        loop {
            let door = self.doors.get_mut(target as usize)?;
            door.release(now);
            if let Some(packet) = door.ready.pop_front() {
                door.passes(&packet);
                return Some(packet);
            }
            self.judge(arrive()?, now);
        }
    }

    /// When a packet for `target` will be due next.
    pub fn due(&self, target: u32) -> Option<Duration> {
        let door = self.doors.get(target as usize)?;
        let delayed = door.delayed.keys().next().map(|&(due, _)| due);
        door.overtaken.iter().map(|held| held.due).chain(delayed).min()
    }

    /// Packets held back before `target`.
    pub fn held(&self, target: u32) -> usize {
        self.doors.get(target as usize).map_or(0, Door::held)
    }

    /// What befell the packets of `origin`.
    pub fn counts(&self, origin: u32) -> FaultCounts {
        self.counts.get(origin as usize).copied().unwrap_or_default()
    }

    /// Draws a packet's fate. Every draw is made for every packet, so that another share of one fault does
    /// not change where the others strike.
    fn judge(&mut self, packet: Packet, now: Duration) {
        let (faults, origin) = (self.faults, packet.origin as usize);
        let Some(counts) = self.counts.get_mut(origin) else { return };
        let Some(door) = self.doors.get_mut(packet.target as usize) else { return };
        let mut dice = Dice::new(faults.seed, packet.origin, packet.target, packet.number);
        if dice.chance(faults.drop.value()) {
            counts.dropped += 1;
            return;
        }
        let (doubled, mut of_copy) = (dice.chance(faults.duplicate.value()), dice.fork());
        let copy = doubled.then(|| packet.clone());
        *counts += door.admit(packet, &faults, &mut dice, now);
        if let Some(copy) = copy {
            counts.duplicated += 1;
            *counts += door.admit(copy, &faults, &mut of_copy, now);
        }
    }
}

impl Door {
    fn held(&self) -> usize {
        self.delayed.len() + self.overtaken.len()
    }

    /// Changes a packet, and holds it back or not, as the dice say. Returns what befell it.
    fn admit(&mut self, mut packet: Packet, faults: &Faults, dice: &mut Dice, now: Duration) -> FaultCounts {
        let mut counts = FaultCounts::default();
        let (corrupt, mut damage) = (dice.chance(faults.corrupt.value()), dice.fork());
        let (reorder, left) = (dice.chance(faults.reorder.value()), 1 + dice.below(MOST_OVERTAKERS));
        let delay = faults.delay.map_or(Duration::ZERO, |(from, to)| {
            let span = (to - from).as_nanos() as u64;
            from + Duration::from_nanos(dice.below(span.saturating_add(1)))
        });
        if corrupt && change(&mut packet.frame, &mut damage) {
            counts.corrupted += 1;
        }
        let room = self.held() < MOST_HELD;
        if reorder && room {
            counts.reordered += 1;
            self.overtaken.push(Overtaken { packet, left, due: now + OVERTAKEN_TIMEOUT });
        } else if delay > Duration::ZERO && room {
            counts.delayed += 1;
            self.delayed.insert((now + delay, self.came), packet);
            self.came += 1;
        } else {
            self.ready.push_back(packet);
        }
        counts
    }

    /// Makes ready what is due.
    fn release(&mut self, now: Duration) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            self.ready.push_back(entry.remove());
        }
        let due = self.overtaken.extract_if(.., |held| held.due <= now);
        self.ready.extend(due.map(|held| held.packet));
    }

    /// Notes that `packet` goes by, and makes ready whom enough have overtaken.
    fn passes(&mut self, packet: &Packet) {
        let done = self.overtaken.extract_if(.., |held| {
            let overtakes = held.packet.origin == packet.origin && held.packet.number < packet.number;
            held.left -= u64::from(overtakes);
            held.left == 0
        });
        self.ready.extend(done.map(|held| held.packet));
    }
}

/// Changes some places behind the Ethernet header, each at most once; whether there were any.
fn change(frame: &mut [u8], dice: &mut Dice) -> bool {
    let body = frame.get_mut(ETHERNET_BYTES..).unwrap_or_default();
    let (changes, single) = (1 + dice.below(MOST_CHANGES), dice.chance(50.0));
    let mut changed = Vec::new();
    for _ in 0..changes {
        let (at, bits) = (dice.below(body.len() as u64) as usize, dice.fork().below(255) as u8 + 1);
        let mask = if single { 1 << (bits % 8) } else { bits };
        if !changed.contains(&at)
            && let Some(byte) = body.get_mut(at)
        {
            *byte ^= mask;
            changed.push(at);
        }
    }
    !changed.is_empty()
}

#[cfg(test)]
#[path = "fault_injector_tests.rs"]
mod tests;
