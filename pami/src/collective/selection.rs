//! Which algorithm carries a collective out (SPEC G-2, A-5).
//!
//! Every rank must choose the same, so the choice depends only on what all ranks know.

use super::call::{Algorithm, Collective, Tuning};
use super::catalogue::{self, Entry, Metadata, Unmet};
use super::cost::{self, Costs, Terrain};
use core::fmt;
use core::str::FromStr;

/// Vectors of at most this many bytes go by affinity domains if there are any. Longer ones do if that is
/// cheapest: a tree hands each rank the whole vector, which other algorithms cut up.
pub const AFFINITY_LIMIT: usize = 16 * 1024;

/// Every algorithm with its name.
const NAMES: [(Algorithm, &str); 16] = [
    (Algorithm::Dissemination, "dissemination"),
    (Algorithm::Binomial, "binomial"),
    (Algorithm::Nary, "n-ary"),
    (Algorithm::Flat, "flat"),
    (Algorithm::Pipeline, "pipeline"),
    (Algorithm::Rectangle, "rectangle"),
    (Algorithm::ScatterAllgather, "scatter-allgather"),
    (Algorithm::RecursiveDoubling, "recursive-doubling"),
    (Algorithm::Rabenseifner, "rabenseifner"),
    (Algorithm::RecursiveHalving, "recursive-halving"),
    (Algorithm::Ring, "ring"),
    (Algorithm::Bruck, "bruck"),
    (Algorithm::Pairwise, "pairwise"),
    (Algorithm::GatherBroadcast, "gather-broadcast"),
    (Algorithm::Affinity, "affinity"),
    (Algorithm::TreeNetwork, "tree-network"),
];

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(algorithm, _)| algorithm == self).map_or("?", |(_, name)| name);
        f.pad(name)
    }
}

/// The word names no algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an algorithm is one of")?;
        NAMES.iter().try_for_each(|(_, name)| write!(f, " {name}"))
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        NAMES.iter().find(|(_, name)| *name == text).map(|(algorithm, _)| *algorithm).ok_or(UnknownAlgorithm)
    }
}

/// What is known of a collective before it starts.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The collective.
    pub collective: Collective,
    /// Bytes of the vector, or of the longest block; 0 for a barrier.
    pub bytes: usize,
    /// Bytes of an element, at least 1.
    pub element_len: usize,
    /// What holds of the call.
    pub metadata: Metadata,
    /// Where the geometry is.
    pub terrain: Terrain,
    /// What things cost; [`cost::COSTS`] if nobody measured.
    pub costs: &'a Costs,
    /// What the algorithms are tuned by; [`cost::tuning`] if the caller says nothing.
    pub tuning: Tuning,
}

/// Why no algorithm was chosen. The caller is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SelectionError {
    /// The collective has no such algorithm.
    Unknown(Collective, Algorithm),
    /// The algorithm that is asked for does not work here.
    Unmet(Algorithm, Unmet),
}

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(collective, algorithm) => {
                write!(f, "{collective:?} has no algorithm {algorithm}: ask for the list")
            }
            Self::Unmet(algorithm, unmet) => write!(f, "{algorithm} does not work here: {unmet}"),
        }
    }
}

impl core::error::Error for SelectionError {}

/// An algorithm as a query finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The algorithm and what it needs.
    pub entry: &'static Entry,
    /// Whether it is valid, or what is missing.
    pub valid: Result<(), Unmet>,
    /// Picoseconds that it is reckoned to take.
    pub cost: u128,
}

impl Query<'_> {
    fn candidate(&self, entry: &'static Entry) -> Candidate {
        let chunk = self.tuning.chunk.saturating_mul(self.element_len);
        let (collective, algorithm) = (self.collective, entry.algorithm);
        let radix = self.tuning.radix;
        let cost = cost::estimate(self.costs, &self.terrain, collective, algorithm, self.bytes, radix, chunk);
        Candidate { entry, valid: entry.check(&self.metadata), cost }
    }

    /// Every algorithm of the collective: first those that are always valid, then those that need metadata to hold.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        let list = |always| {
            catalogue::entries(self.collective).filter(move |entry| entry.is_always_valid() == always)
        };
        list(true).chain(list(false)).map(|entry| self.candidate(entry))
    }

    /// The algorithm to use: the cheapest valid one, or a forced one. Short vectors go by affinity domains wherever
    /// ranks share a node, unless the tree network is cheaper.
    ///
    /// # Errors
    /// [`SelectionError`], only for a forced algorithm.
    pub fn choose(&self, forced: Option<Algorithm>) -> Result<&'static Entry, SelectionError> {
        if let Some(algorithm) = forced {
            let entry = catalogue::entry(self.collective, algorithm)
                .ok_or(SelectionError::Unknown(self.collective, algorithm))?;
            return entry
                .check(&self.metadata)
                .map(|()| entry)
                .map_err(|unmet| SelectionError::Unmet(algorithm, unmet));
        }
        let valid = || self.candidates().filter(|candidate| candidate.valid.is_ok());
        let favoured = self.terrain.per_node > 1
            && self.bytes <= AFFINITY_LIMIT
            && valid().any(|candidate| candidate.entry.algorithm == Algorithm::Affinity);
        let admitted = |candidate: &Candidate| {
            !favoured || matches!(candidate.entry.algorithm, Algorithm::Affinity | Algorithm::TreeNetwork)
        };
        // The first of each collective's list is always valid, so the default is never used.
        let cheapest = valid().filter(admitted).min_by_key(|candidate| candidate.cost);
        Ok(cheapest.map_or(&catalogue::CATALOGUE[0], |candidate| candidate.entry))
    }
}

#[cfg(test)]
mod tests;
