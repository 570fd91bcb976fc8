//! The service node: who is gone, and who is told (SPEC R-2).
//!
//! A node is alive while its process is and its cable is plugged in. That is seen here, from outside, and needs nothing of its
//! application: it may compute for as long as it likes. When a process ends, or a connection to the torus does and the process
//! does not within [`FAREWELL`], the fabric tells all other nodes, each in the same order: *ended*, if it had told its final
//! status; else *died*. A node that is called dead is dead: what is left of it is killed first.
//!
//! A process that is there and stands still gives no sign of life: somebody stopped it, or the host does not run it. It is
//! *suspected* by name after [`SUSPICION`], and everybody goes on waiting: it may come back, and nothing is lost then. When it
//! has stood still for as long as the user gives it (`--silence`), it counts as dead. Time in which this tool stood still
//! itself does not count. A kernel that runs in a circle with interrupts off looks from here as one whose task computes; it
//! meets the deadline, and the dump names it and who waits for it.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::watched::Watched;
use crate::fabric::{FabricHandle, Fate};
use crate::node::Exit;
use crate::progress::Voice;

/// How long after its connection a process may end.
const FAREWELL: Duration = Duration::from_millis(1000);

/// How long a node may give no sign of life before it is suspected; or a quarter of the time after which it counts as dead.
const SUSPICION: Duration = Duration::from_secs(10);
/// Time between two looks for signs of life.
const PULSE: Duration = Duration::from_millis(250);
/// Who looks this long after the last time was not running itself.
const ABSENCE: Duration = Duration::from_secs(2);

/// What is known of the nodes' lives.
pub struct Life {
    /// After how long without a sign of life a node counts as dead, if ever.
    silence: Option<Duration>,
    /// When the processes were last looked at, and since when each stands still.
    pulse: Instant,
    still: Vec<Option<Instant>>,
    /// When the connection of each ended.
    unplugged: Vec<Option<Instant>>,
    told: Vec<bool>,
    /// The first that died.
    pub first_dead: Option<u32>,
    /// When it did.
    pub died: Option<Instant>,
}

impl Life {
    /// All of `nodes` live; who gives no sign of life for `silence` counts as dead.
    pub fn new(nodes: usize, silence: Option<Duration>) -> Self {
        Self {
            silence,
            pulse: Instant::now(),
            still: vec![None; nodes],
            unplugged: vec![None; nodes],
            told: vec![false; nodes],
            first_dead: None,
            died: None,
        }
    }

    /// Looks for signs of life. Returns how long this tool itself stood still since the last call.
    pub fn feel(&mut self, nodes: &mut [Watched], voice: &Voice) -> Result<Duration> {
        let since = self.pulse.elapsed();
        let absence = if since > ABSENCE { since } else { Duration::ZERO };
        if since < PULSE {
            return Ok(Duration::ZERO);
        }
        self.pulse = Instant::now();
        for (node, still) in nodes.iter_mut().zip(&mut self.still) {
            let suspected = node.outcome.suspected;
            if node.outcome.exit.is_some() || !node.guest.stands_still() {
                *still = None;
                node.outcome.suspected = false;
                if suspected && node.outcome.exit.is_none() {
                    node.note("gives signs of life again", voice)?;
                }
                continue;
            }
            let since = *still.get_or_insert(self.pulse) + absence;
            *still = Some(since);
            let length = self.pulse.saturating_duration_since(since);
            if !suspected && length >= self.silence.map_or(SUSPICION, |silence| SUSPICION.min(silence / 4)) {
                node.outcome.suspected = true;
                node.outcome.suspicions += 1;
                let end = self.silence.map_or("it counts as dead never".to_owned(), |silence| {
                    format!("it counts as dead after {} s", silence.as_secs_f32())
                });
                let seconds = length.as_secs_f32();
                node.note(
                    &format!("has given no sign of life for {seconds:.1} s: all go on waiting, {end}"),
                    voice,
                )?;
            }
            if let Some(silence) = self.silence.filter(|&silence| length >= silence) {
                node.lose(&format!("it gave no sign of life for {} s", silence.as_secs_f32()))?;
            }
        }
        Ok(absence)
    }

    /// Looks who is gone, and has it told.
    pub fn look(&mut self, nodes: &mut [Watched], fabric: &FabricHandle) -> Result<()> {
        for rank in fabric.departed() {
            if let Some(since) = self.unplugged.get_mut(rank as usize) {
                since.get_or_insert_with(Instant::now);
            }
        }
        for (node, since) in nodes.iter_mut().zip(&self.unplugged) {
            if node.outcome.exit.is_none() && since.is_some_and(|since| since.elapsed() > FAREWELL) {
                node.lose("its connection to the torus has ended")?;
            }
        }
        // Of several that are found at once, those that died go first: who ended did so in time.
        for fate in [Fate::Died, Fate::Ended] {
            for (place, node) in nodes.iter_mut().enumerate() {
                if self.told[place] || fate_of(node) != Some(fate) {
                    continue;
                }
                self.told[place] = true;
                node.outcome.suspected = false;
                fabric.announce(node.rank, fate);
                if fate == Fate::Died && self.first_dead.is_none() {
                    (self.first_dead, self.died) = (Some(node.rank), Some(Instant::now()));
                }
            }
        }
        Ok(())
    }
}

/// How a node went, if it did.
fn fate_of(node: &Watched) -> Option<Fate> {
    if node.lost {
        return Some(Fate::Died);
    }
    match node.outcome.exit? {
        Exit::Code(_) if node.outcome.end().is_some() => Some(Fate::Ended),
        _ => Some(Fate::Died),
    }
}
