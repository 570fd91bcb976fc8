//! How many harts of what kind a node has, for boards whose device tree does not say (SPEC A-2).

use super::MAX_HARTS;
use core::fmt;
use core::str::FromStr;
use pami::affinity::HartPlace;

/// Sockets of the node, clusters of each, cores of each, threads of each: `2x1x2x2`. `2x2x2` is the same with one
/// cluster a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HartTopology {
    /// Processors.
    pub sockets: u16,
    /// Chips of each processor.
    pub clusters: u16,
    /// Cores of each chip.
    pub cores: u16,
    /// Hardware threads of each core.
    pub threads: u16,
}

/// Why a topology's text was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopologyError {
    /// It is not three or four numbers from 1 on.
    Numbers,
    /// It is more than [`MAX_HARTS`] harts.
    Harts,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbers => f.write_str(
                "a topology is sockets x cores x threads, as in 2x2x2, or sockets x clusters x cores x threads",
            ),
            Self::Harts => write!(f, "a node has 1 to {MAX_HARTS} harts"),
        }
    }
}

impl core::error::Error for TopologyError {}

impl HartTopology {
    /// Number of harts, 1 to [`MAX_HARTS`].
    pub fn harts(&self) -> usize {
        [self.sockets, self.clusters, self.cores, self.threads].into_iter().map(usize::from).product()
    }

    /// Where the hart with this number is: threads of a core come first, then its chip's cores, and so on.
    pub fn place(&self, hart: u16) -> HartPlace {
        let (core, cluster) = (hart / self.threads, hart / self.threads / self.cores);
        HartPlace {
            socket: cluster / self.clusters,
            cluster: cluster % self.clusters,
            core: core % self.cores,
            thread: hart % self.threads,
        }
    }
}

impl FromStr for HartTopology {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let mut numbers = [0; 4];
        let mut count = 0;
        for word in text.split('x') {
            let number = super::number(word).filter(|&number| number > 0).ok_or(TopologyError::Numbers)?;
            *numbers.get_mut(count).ok_or(TopologyError::Numbers)? = number;
            count += 1;
        }
        let harts = numbers[..count].iter().try_fold(1u32, |harts, &number| harts.checked_mul(number));
        if harts.is_none_or(|harts| harts as usize > MAX_HARTS) {
            return Err(TopologyError::Harts);
        }
        // None is above the number of harts.
        let numbers = numbers.map(|number| number as u16);
        let (sockets, clusters, cores, threads) = match (count, numbers) {
            (3, [sockets, cores, threads, _]) => (sockets, 1, cores, threads),
            (4, [sockets, clusters, cores, threads]) => (sockets, clusters, cores, threads),
            _ => return Err(TopologyError::Numbers),
        };
        Ok(Self { sockets, clusters, cores, threads })
    }
}

impl fmt::Display for HartTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sockets, clusters, cores, threads } = self;
        write!(f, "{sockets}x{clusters}x{cores}x{threads}")
    }
}
