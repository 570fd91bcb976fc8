//! Which algorithm carries a collective out (SPEC G-2, A-5).
//!
//! Every rank must choose the same, so the choice depends only on what all ranks know.

use super::algorithm_list::AlgorithmList;
use super::call::{Algorithm, Collective, Tuning};
use super::catalogue::{self, AlgorithmEntry, Metadata};
use super::cost::{self, PlacementStatistics};
use super::memory::Demand;
use super::need::{Need, Unmet};
use core::fmt;

/// What a leader of affinity domains passes on goes by them if it is at most this many bytes. More does if that is
/// cheapest: a tree hands each rank the whole vector, which other algorithms cut up.
pub const AFFINITY_LIMIT: usize = 16 * 1024;

/// What is known of a collective before it starts.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// The collective.
    pub collective: Collective,
    /// The geometry's list: nothing else is chosen.
    pub algorithms: AlgorithmList,
    /// Bytes of the vector, or of the longest block; 0 for a barrier.
    pub bytes: usize,
    /// Bytes of an element, at least 1.
    pub element_len: usize,
    /// What holds of the call.
    pub metadata: Metadata,
    /// Most bytes of scratch memory that every rank has.
    pub scratch: usize,
    /// The call is in place. All ranks of an alltoall agree in it; elsewhere it decides nothing.
    pub in_place: bool,
    /// An alltoall's blocks arrive elsewhere than they leave from.
    pub moves: bool,
    /// Where the geometry is.
    pub placement: PlacementStatistics,
    /// What the algorithms are tuned by; [`cost::tuning`] if the caller says nothing.
    pub tuning: Tuning,
}

/// Why no algorithm was chosen. The caller is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SelectionError {
    /// The collective has no such algorithm.
    Unknown(Collective, Algorithm),
    /// The algorithm that is asked for is not in the geometry's list.
    Unlisted(Collective, Algorithm),
    /// The algorithm that is asked for, or the first of the list if none works, does not work here.
    Unmet(Algorithm, Unmet),
    /// The geometry's list has no algorithm of the collective.
    Empty(Collective),
}

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(collective, algorithm) => {
                write!(f, "{collective} has no algorithm {algorithm}: ask for the list")
            }
            Self::Unlisted(collective, algorithm) => {
                write!(
                    f,
                    "{algorithm} is not in the geometry's list for {collective}: add it at every member"
                )
            }
            Self::Unmet(algorithm, unmet) => write!(f, "{algorithm} does not work here: {unmet}"),
            Self::Empty(collective) => {
                write!(f, "the geometry's list has no algorithm for {collective}: add one at every member")
            }
        }
    }
}

impl core::error::Error for SelectionError {}

/// An algorithm as a query finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The algorithm and what it needs.
    pub entry: &'static AlgorithmEntry,
    /// Whether it is valid, or what is missing.
    pub valid: Result<(), Unmet>,
    /// Most elements of the vector, or of each block, at a time: `usize::MAX` if scratch memory suffices for all.
    pub run: usize,
    /// Picoseconds that it is reckoned to take.
    pub cost: u128,
}

/// Bytes of scratch memory for each of so many that share it: each begins at a whole word.
pub fn share(bytes: usize, sharers: usize) -> usize {
    if sharers > 1 { (bytes / sharers) & !7 } else { bytes }
}

impl Query {
    fn candidate(&self, entry: &'static AlgorithmEntry) -> Candidate {
        let chunk = self.tuning.chunk.saturating_mul(self.element_len);
        let (collective, algorithm) = (self.collective, entry.algorithm);
        let radix = self.tuning.radix;
        let estimate = |bytes| cost::estimate(&self.placement, collective, algorithm, bytes, radix, chunk);
        let run = self.run(algorithm, self.scratch);
        let valid = entry.check(&self.metadata).and(run.map(drop).ok_or(Need::Scratch));
        let run = run.unwrap_or(usize::MAX);
        let bytes = run.saturating_mul(self.element_len).clamp(1, self.bytes.max(1));
        let runs = (self.bytes / bytes) as u128;
        let last = match self.bytes % bytes {
            0 if runs > 0 => 0,
            rest => estimate(rest),
        };
        Candidate { entry, valid, run, cost: runs * estimate(bytes) + last }
    }

    /// Elements at a time by an algorithm if each rank has so many bytes of scratch memory; see [`Candidate::run`].
    pub(super) fn run(&self, algorithm: Algorithm, scratch: usize) -> Option<usize> {
        let demand = Demand {
            collective: self.collective,
            algorithm,
            size: self.placement.size,
            per_node: self.placement.per_node,
            fanout: self.placement.fanout,
            chunk: self.tuning.chunk,
            in_place: self.in_place,
            moves: self.moves,
        };
        let element_len = self.element_len.max(1);
        demand.run(self.bytes.div_ceil(element_len), scratch / element_len)
    }

    /// Whether an algorithm is valid here; what it costs is not reckoned.
    fn check(&self, entry: &AlgorithmEntry) -> Result<(), Unmet> {
        entry.check(&self.metadata)?;
        self.run(entry.algorithm, self.scratch).map(drop).ok_or(Need::Scratch)
    }

    /// The geometry's algorithms of the collective: first those that are always valid, then those that need metadata to hold.
    fn entries(&self) -> impl Iterator<Item = &'static AlgorithmEntry> + use<> {
        let entries = self.algorithms.entries(self.collective);
        let list = move |always| entries.clone().filter(move |entry| entry.is_always_valid() == always);
        list(true).chain(list(false))
    }

    /// Every algorithm of the collective that is in the geometry's list: first those that are always valid, then those that need metadata to hold.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.entries().map(|entry| self.candidate(entry))
    }

    /// Bytes that a leader of affinity domains hands to each below it: a vector, or all blocks. Of a gather or scatter it is the
    /// longest block: all are the root's anyway.
    fn passed_on(&self) -> usize {
        match self.collective {
            Collective::Allgather | Collective::ReduceScatter => {
                self.bytes.saturating_mul(self.placement.size as usize)
            }
            _ => self.bytes,
        }
    }

    /// Those that [`choose`](Self::choose) chooses from: valid ones. Where ranks share a node and short vectors may go by
    /// affinity domains, no others but the tree network are, and bulletins, which are to be had where no boundary matters:
    /// the model knows nothing of what a domain's boundary costs those beside it. In an alltoall leaders do the work of all, and a
    /// scan takes a tree twice as many steps as doubling: there the model decides.
    fn permitted(&self) -> impl Iterator<Item = &'static AlgorithmEntry> + '_ {
        let affinity = || self.listed(Algorithm::Affinity).ok();
        let favoured =
            !matches!(self.collective, Collective::Alltoall | Collective::Scan | Collective::Exscan)
                && self.placement.per_node > 1
                && self.passed_on() <= AFFINITY_LIMIT
                && affinity().is_some_and(|entry| self.check(entry).is_ok());
        let may = move |entry: &&AlgorithmEntry| {
            let beside = matches!(
                entry.algorithm,
                Algorithm::TreeNetwork | Algorithm::SharedMemory | Algorithm::DirectRead
            );
            !favoured || beside || entry.algorithm == Algorithm::Affinity
        };
        self.entries().filter(may).filter(|entry| self.check(entry).is_ok())
    }

    /// An algorithm of the geometry's list.
    ///
    /// # Errors
    /// [`SelectionError::Unknown`], [`SelectionError::Unlisted`].
    fn listed(&self, algorithm: Algorithm) -> Result<&'static AlgorithmEntry, SelectionError> {
        let entry = catalogue::entry(self.collective, algorithm)
            .ok_or(SelectionError::Unknown(self.collective, algorithm))?;
        let listed = self.algorithms.has(self.collective, algorithm);
        if listed { Ok(entry) } else { Err(SelectionError::Unlisted(self.collective, algorithm)) }
    }

    /// The algorithm to use: of the geometry's list the cheapest that is permitted, or a forced one, which need only be valid.
    ///
    /// # Errors
    /// [`SelectionError`]: for a forced algorithm, or if none of the list works here.
    pub fn choose(&self, forced: Option<Algorithm>) -> Result<&'static AlgorithmEntry, SelectionError> {
        if let Some(algorithm) = forced {
            let entry = self.listed(algorithm)?;
            return self
                .check(entry)
                .map(|()| entry)
                .map_err(|unmet| SelectionError::Unmet(algorithm, unmet));
        }
        self.cheapest()
    }

    /// How so many endpoints of every task each carry out a slice of the vector, or of each block, in geometries of their own
    /// (SPEC G-8); `None` if it is not reckoned to pay, or if such a collective has no slices. It is reckoned that endpoints
    /// work beside each other, on harts and links of their own; that one more message is handled for each, at its start and end;
    /// and that members agree on it first. Of the tree network, which there is one of, and of affinity domains, slices have
    /// nothing. All have equal parts of the scratch memory.
    pub fn divided(&self, endpoints: u32) -> Option<(Algorithm, Tuning)> {
        use Collective as C;
        let forced = match self.collective {
            C::Broadcast | C::Reduce | C::Allreduce => None,
            // These send each block by itself, of which there may be a part.
            C::Scatter | C::Gather => Some(Algorithm::Flat),
            C::Allgather => Some(Algorithm::Ring),
            _ => return None,
        };
        if endpoints < 2 || self.bytes <= self.placement.costs.eager_limit {
            return None;
        }
        let alone = |metadata| Metadata {
            class_route: false,
            domains: false,
            ordered_domains: false,
            bulletins: false,
            reach: false,
            ..metadata
        };
        let slice = Query {
            bytes: self.bytes.div_ceil(endpoints as usize),
            scratch: share(self.scratch, endpoints as usize),
            metadata: alone(self.metadata),
            ..*self
        };
        let agreement = Query {
            collective: C::Allreduce,
            bytes: size_of::<u64>(),
            element_len: size_of::<u64>(),
            metadata: alone(Metadata { commutative: true, ..self.metadata }),
            ..*self
        };
        let cost = |query: &Query, forced| query.choose(forced).map(|entry| query.candidate(entry).cost).ok();
        let ends = 2 * u128::from(self.placement.costs.overhead) * u128::from(endpoints);
        let divided = cost(&slice, forced)? + cost(&agreement, None)? + ends;
        let entry = slice.choose(forced).ok()?;
        (divided < cost(self, None)?).then_some((entry.algorithm, self.tuning))
    }

    /// Why none of the list works.
    #[cold]
    fn lack(&self) -> SelectionError {
        let first = self.entries().next();
        let unmet =
            first.and_then(|entry| Some(SelectionError::Unmet(entry.algorithm, self.check(entry).err()?)));
        unmet.unwrap_or(SelectionError::Empty(self.collective))
    }

    fn cheapest(&self) -> Result<&'static AlgorithmEntry, SelectionError> {
        let mut permitted = self.permitted();
        match (permitted.next(), permitted.next()) {
            // What there is only one of need not be reckoned.
            (Some(only), None) => Ok(only),
            (first, second) => {
                let all = first.into_iter().chain(second).chain(permitted);
                let cheapest = all.min_by_key(|entry| self.candidate(entry).cost);
                cheapest.ok_or_else(|| self.lack())
            }
        }
    }
}

#[cfg(test)]
mod tests;
