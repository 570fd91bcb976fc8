//! Counting messages that cross the boundaries of domains (SPEC A-6).

use super::{LEVELS, Level};

/// Messages of collectives, by where their two ends meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Crossings {
    met: [u32; LEVELS.len()],
}

impl Crossings {
    /// A message between two ranks that [meet](super::Domains::meet) at `level`.
    #[inline]
    pub fn count(&mut self, level: Level) {
        let met = &mut self.met[level as usize];
        *met = met.wrapping_add(1);
    }

    /// Messages whose ends meet at `level`: they cross the boundaries of every level further in.
    pub fn met(&self, level: Level) -> u32 {
        self.met[level as usize]
    }

    /// Messages from one domain of `level` to another.
    pub fn across(&self, level: Level) -> u32 {
        self.met[level as usize + 1..].iter().fold(0, |sum, &met| sum.wrapping_add(met))
    }

    /// What was counted after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut met = self.met;
        for (met, earlier) in met.iter_mut().zip(earlier.met) {
            *met = met.wrapping_sub(earlier);
        }
        Self { met }
    }
}
