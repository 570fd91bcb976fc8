//! What shall go wrong in the network, as words: `drop=1%,delay=0..20ms,seed=7` and `0:+x@1s..3s` (SPEC X-4).
//!
//! A probability is that of a packet, from its origin to its target, however many links lie between;
//! `fault_injector` says what befalls it. A packet is what one node sends to another or to itself; Hello and Go are
//! none. A link that is down loses every packet that would cross it.

use super::quantity::{Percent, Time, interval, time};
use pami::topology::{Direction, MAX_DIMENSIONS, TorusShape};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How often packets meet which fate. The default is never.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Packets lost.
    pub drop: Percent,
    /// Packets of which some bits or bytes behind the Ethernet header arrive flipped.
    pub corrupt: Percent,
    /// Packets that arrive twice; each of the two meets its own further fate.
    pub duplicate: Percent,
    /// Packets held back so that later ones of their pair overtake them.
    pub reorder: Percent,
    /// The shortest and the longest time that each packet is late; even between them.
    pub delay: Option<(Duration, Duration)>,
    /// The same seed and the same packets of a pair give the same fates.
    pub seed: u64,
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        let mut seen = Vec::new();
        for word in text.split(',').map(str::trim) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let place = match name {
                "drop" => Some(&mut faults.drop),
                "corrupt" => Some(&mut faults.corrupt),
                "dup" => Some(&mut faults.duplicate),
                "reorder" => Some(&mut faults.reorder),
                "delay" | "seed" => None,
                _ => {
                    return Err(format!(
                        "there is no fault {name:?}: there are drop=1%, corrupt=1%, dup=1%, reorder=1%, \
                         delay=0..20ms, and seed=7 to vary them"
                    ));
                }
            };
            if seen.contains(&name) {
                return Err(format!("{name} is given twice"));
            }
            seen.push(name);
            let in_word = |why| format!("{name}: {why}");
            match place {
                Some(percent) => *percent = value.parse().map_err(in_word)?,
                None if name == "delay" => faults.delay = Some(delay(value).map_err(in_word)?),
                None => {
                    faults.seed = value.parse().map_err(|_| {
                        format!("seed: {value:?} is no seed: write a whole number from 0 to {}", u64::MAX)
                    })?;
                }
            }
        }
        Ok(faults)
    }
}

/// `0..20ms`, or `20ms` for always the same.
fn delay(text: &str) -> Result<(Duration, Duration), String> {
    match text.split_once("..") {
        Some((from, to)) => interval(from, to),
        None => time(text).map(|time| (time, time)),
    }
}

impl fmt::Display for Faults {
    /// What is not never, and the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = [self.drop, self.corrupt, self.duplicate, self.reorder];
        for (name, share) in ["drop", "corrupt", "dup", "reorder"].into_iter().zip(shares) {
            if share > Percent::default() {
                write!(f, "{name}={share},")?;
            }
        }
        if let Some((from, to)) = self.delay {
            write!(f, "delay={}..{},", Time(from), Time(to))?;
        }
        write!(f, "seed={}", self.seed)
    }
}

/// A link that carries nothing for a while, in one direction.
///
/// The other direction is a link of the neighbour's: both are down after `0:+x@1s..3s` and `1:-x@1s..3s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkDown {
    /// The node whose packets leave over the link.
    pub node: u32,
    /// The link's direction as this node sees it.
    pub direction: Direction,
    /// When it goes down, from the first Go on.
    pub from: Duration,
    /// When it is up again; `None` for never.
    pub until: Option<Duration>,
}

impl LinkDown {
    /// Whether the link is down `time` after Go.
    pub fn covers(&self, time: Duration) -> bool {
        time >= self.from && self.until.is_none_or(|until| time < until)
    }

    /// Whether `shape` has the link and routes packets over it.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, shape: TorusShape) -> Result<(), String> {
        let Self { node, direction, .. } = *self;
        let Some(coord) = shape.coord(node) else {
            return Err(format!("there is no node {node}: the last one of {shape} is {}", shape.nodes() - 1));
        };
        let dimension = usize::from(direction.dimension);
        if dimension >= shape.dimensions() || shape.neighbour(coord, direction).is_none() {
            return Err(format!("node {node} of {shape} has no link {direction}"));
        }
        if shape.wraps(dimension) && shape.extent(dimension) == 2 && !direction.positive {
            let used = direction.opposite();
            return Err(format!(
                "no packet takes {direction} in {shape}: between two nodes the way is {used}"
            ));
        }
        Ok(())
    }
}

impl FromStr for LinkDown {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write NODE:LINK@FROM..UNTIL, as in 0:+x@1s..3s".to_owned();
        let (node, rest) = text.split_once(':').ok_or_else(form)?;
        let (link, times) = rest.split_once('@').ok_or_else(form)?;
        let (from, until) = times.split_once("..").ok_or_else(form)?;
        let node = node.parse().map_err(|_| format!("{node:?} is no node: write its number, as in 0:+x"))?;
        let direction = (0..2 * MAX_DIMENSIONS).map(Direction::from_index).find(|it| it.to_string() == link);
        let direction =
            direction.ok_or_else(|| format!("{link:?} is no link: write + or - and one of x, y, z, u, v"))?;
        let (from, until) = match until {
            "" => (time(from)?, None),
            _ => interval(from, until).map(|(from, until)| (from, Some(until)))?,
        };
        Ok(Self { node, direction, from, until })
    }
}

impl fmt::Display for LinkDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}..", self.node, self.direction, Time(self.from))?;
        self.until.map_or(Ok(()), |until| Time(until).fmt(f))
    }
}

#[cfg(test)]
#[path = "faults_tests.rs"]
mod tests;
