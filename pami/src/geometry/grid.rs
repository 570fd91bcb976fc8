//! A box of the torus, and the tree that covers it link by link.

use crate::topology::MAX_DIMENSIONS;

/// Dimensions of a grid: the tasks within a node, then those of the torus.
const DIMENSIONS: usize = 1 + MAX_DIMENSIONS;

/// A box of the torus whose ranks count the tasks of a node fastest, then the first dimension, and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    extents: [u32; DIMENSIONS],
    wraps: [bool; DIMENSIONS],
}

impl Grid {
    /// A box of `extents` nodes with `tasks` tasks each. Where `wraps` holds, the ends of the dimension are joined,
    /// so the box spans all of it. `None` if that is no rank, or more than a `u32` counts.
    pub fn new(tasks: u32, extents: [u16; MAX_DIMENSIONS], wraps: [bool; MAX_DIMENSIONS]) -> Option<Self> {
        let mut grid = Self { extents: [tasks; DIMENSIONS], wraps: [false; DIMENSIONS] };
        for dimension in 0..MAX_DIMENSIONS {
            grid.extents[dimension + 1] = u32::from(extents[dimension]);
            grid.wraps[dimension + 1] = wraps[dimension];
        }
        let size = grid.extents.iter().try_fold(1u32, |size, &extent| size.checked_mul(extent));
        size.filter(|&size| size > 0).map(|_| grid)
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.extents.iter().product()
    }

    fn coord(&self, rank: u32) -> [u32; DIMENSIONS] {
        let mut rest = rank;
        self.extents.map(|extent| {
            let place = rest % extent;
            rest /= extent;
            place
        })
    }

    fn rank(&self, coord: [u32; DIMENSIONS]) -> u32 {
        coord.iter().zip(self.extents).rev().fold(0, |rank, (place, extent)| rank * extent + place)
    }
}

/// A rank's place in the tree that covers a grid from `root`: along the last dimension both ways, from each node
/// of that line along the one before, and so on; within a node from task to task. Every edge is one link, and no
/// link is used twice.
#[derive(Clone, Copy)]
pub(crate) struct GridTree {
    grid: Grid,
    coord: [u32; DIMENSIONS],
    root: [u32; DIMENSIONS],
    /// The dimension that the data came along; one past the last at the root.
    came: usize,
}

impl GridTree {
    pub(crate) fn new(grid: Grid, root: u32, rank: u32) -> Self {
        let (coord, root) = (grid.coord(rank), grid.coord(root));
        let came = (0..DIMENSIONS).find(|&d| coord[d] != root[d]).unwrap_or(DIMENSIONS);
        Self { grid, coord, root, came }
    }

    /// Steps from the root along `dimension`, negative where the data went that way.
    fn offset(&self, dimension: usize) -> i64 {
        let (extent, here) = (i64::from(self.grid.extents[dimension]), i64::from(self.coord[dimension]));
        let line = here - i64::from(self.root[dimension]);
        if !self.grid.wraps[dimension] {
            return line;
        }
        let ahead = line.rem_euclid(extent);
        if ahead <= extent / 2 { ahead } else { ahead - extent }
    }

    /// How far the line along `dimension` goes, backwards and forwards.
    fn reach(&self, dimension: usize) -> [i64; 2] {
        let (extent, root) = (i64::from(self.grid.extents[dimension]), i64::from(self.root[dimension]));
        if self.grid.wraps[dimension] {
            [-((extent - 1) / 2), extent / 2]
        } else {
            [-root, extent - 1 - root]
        }
    }

    fn at(&self, dimension: usize, offset: i64) -> u32 {
        let extent = i64::from(self.grid.extents[dimension]);
        let mut coord = self.coord;
        coord[dimension] = (i64::from(self.root[dimension]) + offset).rem_euclid(extent) as u32;
        self.grid.rank(coord)
    }

    pub(crate) fn parent(&self) -> Option<u32> {
        if self.came == DIMENSIONS {
            return None;
        }
        let offset = self.offset(self.came);
        Some(self.at(self.came, offset - offset.signum()))
    }

    pub(crate) fn children(&self) -> impl Iterator<Item = u32> + '_ {
        (0..=self.came.min(DIMENSIONS - 1)).rev().flat_map(move |dimension| {
            let (offset, reach) = (self.offset(dimension), self.reach(dimension));
            [-1, 1].into_iter().filter_map(move |step| {
                let further = offset + step;
                let onwards = offset * step >= 0 && (reach[0]..=reach[1]).contains(&further);
                onwards.then(|| self.at(dimension, further))
            })
        })
    }
}
