//! Names of collectives and of their algorithms, as people type and read them.

use super::call::{Algorithm, Collective};
use super::catalogue;
use core::fmt;
use core::str::FromStr;

impl Collective {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Barrier,
        Self::Broadcast,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatter,
        Self::Gather,
        Self::Scatter,
        Self::Allgather,
        Self::Alltoall,
        Self::Scan,
        Self::Exscan,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Allgather => "allgather",
            Self::Alltoall => "alltoall",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
        }
    }
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Dissemination,
        Self::Binomial,
        Self::Nary,
        Self::Flat,
        Self::Pipeline,
        Self::Rectangle,
        Self::ScatterAllgather,
        Self::RecursiveDoubling,
        Self::Rabenseifner,
        Self::RecursiveHalving,
        Self::Ring,
        Self::Bruck,
        Self::Pairwise,
        Self::GatherBroadcast,
        Self::Affinity,
        Self::TreeNetwork,
        Self::SharedMemory,
        Self::DirectRead,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dissemination => "dissemination",
            Self::Binomial => "binomial",
            Self::Nary => "n-ary",
            Self::Flat => "flat",
            Self::Pipeline => "pipeline",
            Self::Rectangle => "rectangle",
            Self::ScatterAllgather => "scatter-allgather",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::Rabenseifner => "rabenseifner",
            Self::RecursiveHalving => "recursive-halving",
            Self::Ring => "ring",
            Self::Bruck => "bruck",
            Self::Pairwise => "pairwise",
            Self::GatherBroadcast => "gather-broadcast",
            Self::Affinity => "affinity",
            Self::TreeNetwork => "tree-network",
            Self::SharedMemory => "shared-memory",
            Self::DirectRead => "direct-read",
        }
    }
}

/// The word names nothing of its kind. Who typed it is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnknownName {
    /// No collective.
    Collective,
    /// No algorithm.
    Algorithm,
    /// No pair of a collective and its algorithms, with `=` between them.
    Pair,
    /// The collective has no such algorithm.
    Mismatched(Collective, Algorithm),
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Collective => {
                f.write_str("a collective is one of")?;
                Collective::ALL.iter().try_for_each(|collective| write!(f, " {collective}"))
            }
            Self::Algorithm => {
                f.write_str("an algorithm is one of")?;
                Algorithm::ALL.iter().try_for_each(|algorithm| write!(f, " {algorithm}"))
            }
            Self::Pair => f.write_str("name algorithms as in broadcast=binomial+flat,allreduce=ring"),
            Self::Mismatched(collective, algorithm) => {
                write!(f, "{collective} has no algorithm {algorithm}; it has")?;
                catalogue::entries(*collective).try_for_each(|entry| write!(f, " {}", entry.algorithm))
            }
        }
    }
}

impl core::error::Error for UnknownName {}

macro_rules! named {
    ($($kind:ident)*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $kind {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.into_iter().find(|it| it.name() == text).ok_or(UnknownName::$kind)
            }
        }
    )*};
}
named!(Collective Algorithm);

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::ToString;

    #[test]
    fn g2_collectives_and_algorithms_have_names_of_their_own() {
        for (place, collective) in Collective::ALL.into_iter().enumerate() {
            assert_eq!(collective.to_string().parse(), Ok(collective));
            assert_eq!(collective as usize, place);
        }
        for (place, algorithm) in Algorithm::ALL.into_iter().enumerate() {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            assert_eq!(algorithm as usize, place);
        }
        assert_eq!("bogus".parse::<Algorithm>(), Err(UnknownName::Algorithm));
        assert_eq!("Barrier".parse::<Collective>(), Err(UnknownName::Collective));
        assert_eq!(format!("{:>9}|", Algorithm::Ring), "     ring|");
    }
}
