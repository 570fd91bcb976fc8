//! What is done, and what each rank must get.

use pami::affinity::{Crossings, Domains, LEVELS, Level};
use pami::collective::{Algorithm, Collective};

/// A collective by an algorithm.
pub struct Case {
    pub what: Collective,
    pub algorithm: Algorithm,
}

const fn case(what: Collective, algorithm: Algorithm) -> Case {
    Case { what, algorithm }
}

/// All cases; those of a collective stand together.
pub const CASES: [Case; 24] = {
    use Algorithm as A;
    use Collective as C;
    [
        case(C::Barrier, A::Dissemination),
        case(C::Barrier, A::Nary),
        case(C::Barrier, A::Affinity),
        case(C::Broadcast, A::Flat),
        case(C::Broadcast, A::Binomial),
        case(C::Broadcast, A::Affinity),
        case(C::Reduce, A::Binomial),
        case(C::Reduce, A::Affinity),
        case(C::Allreduce, A::RecursiveDoubling),
        case(C::Allreduce, A::Binomial),
        case(C::Allreduce, A::Affinity),
        case(C::ReduceScatter, A::Pairwise),
        case(C::ReduceScatter, A::RecursiveHalving),
        case(C::ReduceScatter, A::Affinity),
        case(C::Gather, A::Binomial),
        case(C::Gather, A::Affinity),
        case(C::Scatter, A::Binomial),
        case(C::Scatter, A::Affinity),
        case(C::Allgather, A::GatherBroadcast),
        case(C::Allgather, A::Affinity),
        case(C::Scan, A::RecursiveDoubling),
        case(C::Scan, A::Affinity),
        case(C::Exscan, A::RecursiveDoubling),
        case(C::Exscan, A::Affinity),
    ]
};

impl Case {
    /// Phases of a tree: up, down, or both.
    fn phases(&self) -> u32 {
        if self.what.is_rooted() { 1 } else { 2 }
    }

    /// The fewest messages from one domain of `level` to another.
    pub fn least(&self, domains: &Domains, level: Level) -> u32 {
        self.phases() * (domains.count(level) - 1)
    }

    /// Whether that is what was counted, at every level.
    pub fn is_least(&self, domains: &Domains, crossings: &Crossings) -> bool {
        LEVELS.into_iter().all(|level| crossings.across(level) == self.least(domains, level))
    }

    /// The root. Not the first rank, which trees that know nothing of places begin at with luck.
    pub fn root(&self, size: u32) -> u32 {
        if self.what.is_rooted() { size.saturating_sub(2) } else { 0 }
    }

    /// The word that a rank brings.
    pub fn word(&self, rank: u32) -> u64 {
        u64::from(rank + 1).pow(2) + (self.what as u64) * 10_000
    }

    /// What a rank must get: words of the output, by place.
    pub fn expected(&self, size: u32, rank: u32, place: u32) -> Option<u64> {
        use Collective as C;
        match self.what {
            C::Broadcast => Some(self.word(self.root(size))),
            C::Reduce | C::Gather if rank != self.root(size) => None,
            C::Scan => Some((0..rank + 1).map(|rank| self.word(rank)).sum()),
            C::Exscan => (rank > 0).then(|| (0..rank).map(|rank| self.word(rank)).sum()),
            C::Reduce | C::Allreduce | C::ReduceScatter => Some((0..size).map(|rank| self.word(rank)).sum()),
            C::Gather | C::Allgather => Some(self.word(place)),
            // Of the root's block for this rank.
            C::Scatter => Some(self.word(rank)),
            _ => None,
        }
    }

    /// Words that a rank of `size` gets.
    pub fn output_len(&self, size: u32) -> u32 {
        match self.what {
            Collective::Barrier => 0,
            Collective::Gather | Collective::Allgather => size,
            _ => 1,
        }
    }
}

/// What the cases of one collective after another came to.
#[derive(Default)]
pub struct Comparison {
    /// The fewest boundaries of each level that an algorithm crossed which knows nothing of places.
    flat: Option<(Collective, [u32; LEVELS.len()])>,
    /// Boundaries that such ones crossed at least, and those that affinity crossed, of all collectives and levels.
    sums: [u32; 2],
    /// Affinity crossed more boundaries of a level than another, or than it must.
    pub worse: bool,
}

impl Comparison {
    /// Takes a case in. Those of a collective stand together, affinity last.
    pub fn add(&mut self, case: &Case, domains: &Domains, crossings: &Crossings) {
        let crossed = LEVELS.map(|level| crossings.across(level));
        let so_far = self.flat.filter(|(what, _)| *what == case.what);
        if case.algorithm != Algorithm::Affinity {
            let fewest = so_far
                .map_or(crossed, |(_, flat)| core::array::from_fn(|level| flat[level].min(crossed[level])));
            self.flat = Some((case.what, fewest));
            return;
        }
        self.worse |= !case.is_least(domains, crossings);
        // A scan of few ranks may hand each rank's prefix to the next one, and has no phase upwards then.
        let scans = matches!(case.what, Collective::Scan | Collective::Exscan);
        if let Some((_, flat)) = so_far.filter(|_| !scans && domains.matter()) {
            self.worse |= crossed.iter().zip(&flat).any(|(crossed, flat)| crossed > flat);
            for (sum, levels) in self.sums.iter_mut().zip([flat, crossed]) {
                *sum += levels.iter().sum::<u32>();
            }
        }
    }

    /// Whether affinity crosses fewer boundaries, where there are any inside nodes, and never more.
    pub fn is_won(&self) -> bool {
        let [flat, ours] = self.sums;
        !self.worse && (ours < flat || ours == 0)
    }
}
