//! The service node: who is gone, and who is told (SPEC R-2).
//!
//! A node is alive while its process is and its cable is plugged in. That is seen here, from outside, and needs nothing of its
//! application: it may compute for as long as it likes. When a process ends, or a connection to the torus does and the process
//! does not within [`FAREWELL`], the fabric tells all other nodes, each in the same order: *ended*, if it had told its final
//! status; else *died*. A node that is called dead is dead: what is left of it is killed first.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::watched::Watched;
use crate::fabric::{FabricHandle, Fate};
use crate::node::Exit;

/// How long after its connection a process may end.
const FAREWELL: Duration = Duration::from_millis(1000);

/// What is known of the nodes' lives.
pub struct Life {
    /// When the connection of each ended.
    unplugged: Vec<Option<Instant>>,
    told: Vec<bool>,
    /// The first that died.
    pub first_dead: Option<u32>,
    /// When it did.
    pub died: Option<Instant>,
}

impl Life {
    /// All of `nodes` live.
    pub fn new(nodes: usize) -> Self {
        Self { unplugged: vec![None; nodes], told: vec![false; nodes], first_dead: None, died: None }
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
