//! Arithmetic of grids of processes.

use super::MAX_DIMS;
use crate::envelope::PROC_NULL;
use crate::error::{Error, Result};

/// A grid of processes. Ranks count the last dimension fastest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    dims: [u32; MAX_DIMS],
    periods: [bool; MAX_DIMS],
    count: usize,
}

impl Grid {
    /// A grid of these extents, each dimension a ring or not. Without dimensions it is one process.
    ///
    /// # Errors
    /// [`Error::Dims`] if an extent is 0, there are over [`MAX_DIMS`] or not as many of both, or the product is over a
    /// `u32`.
    pub fn new(dims: &[u32], periods: &[bool]) -> Result<Self> {
        let product = dims.iter().try_fold(1u32, |product, &dim| product.checked_mul(dim));
        if product.is_none_or(|product| product == 0) || dims.len() > MAX_DIMS || dims.len() != periods.len()
        {
            return Err(Error::Dims);
        }
        let mut grid = Self { dims: [1; MAX_DIMS], periods: [false; MAX_DIMS], count: dims.len() };
        grid.dims[..dims.len()].copy_from_slice(dims);
        grid.periods[..dims.len()].copy_from_slice(periods);
        Ok(grid)
    }

    /// The extents.
    pub fn dims(&self) -> &[u32] {
        &self.dims[..self.count]
    }

    /// Which dimensions are rings.
    pub fn periods(&self) -> &[bool] {
        &self.periods[..self.count]
    }

    /// Number of processes.
    pub fn size(&self) -> u32 {
        self.dims().iter().product()
    }

    /// `MPI_Cart_coords`, in the first places of the array.
    ///
    /// # Errors
    /// [`Error::Rank`].
    pub fn coords(&self, rank: u32) -> Result<[u32; MAX_DIMS]> {
        if rank >= self.size() {
            return Err(Error::Rank(rank.into()));
        }
        let (mut coords, mut rest) = ([0; MAX_DIMS], rank);
        for (coord, &dim) in coords.iter_mut().zip(self.dims()).rev() {
            *coord = rest % dim;
            rest /= dim;
        }
        Ok(coords)
    }

    /// `MPI_Cart_rank`. In rings coordinates count on round the end.
    ///
    /// # Errors
    /// [`Error::Dims`] if there is not a coordinate for each dimension, [`Error::Arg`] if one is outside and its dimension
    /// no ring.
    pub fn rank(&self, coords: &[i32]) -> Result<u32> {
        if coords.len() != self.count {
            return Err(Error::Dims);
        }
        let mut rank = 0;
        for (dimension, &coord) in coords.iter().enumerate() {
            let inside = self.around(dimension, coord.into());
            rank =
                rank * self.dims[dimension] + inside.ok_or(Error::Arg("a coordinate is outside the grid"))?;
        }
        Ok(rank)
    }

    /// A coordinate on its ring, or `None` if it is outside.
    fn around(&self, dimension: usize, coord: i64) -> Option<u32> {
        let dim = i64::from(self.dims[dimension]);
        let coord = if self.periods[dimension] { coord.rem_euclid(dim) } else { coord };
        u32::try_from(coord).ok().filter(|&coord| i64::from(coord) < dim)
    }

    /// `MPI_Cart_shift` of the process with this rank: who sends to it and whom it sends to, when all send `displacement` on
    /// along a dimension; [`PROC_NULL`] over the edge.
    ///
    /// # Errors
    /// [`Error::Dims`] if there is no such dimension, [`Error::Rank`].
    pub fn shift(&self, rank: u32, dimension: usize, displacement: i32) -> Result<(i32, i32)> {
        if dimension >= self.count {
            return Err(Error::Dims);
        }
        let coords = self.coords(rank)?;
        let weight: u32 = self.dims[dimension + 1..self.count].iter().product();
        let at = |coord: i64| {
            let Some(coord) = self.around(dimension, coord) else { return PROC_NULL };
            (rank - coords[dimension] * weight + coord * weight) as i32
        };
        let (here, step) = (i64::from(coords[dimension]), i64::from(displacement));
        Ok((at(here - step), at(here + step)))
    }

    /// The grid of the dimensions that remain, and for the process with this rank the number of its grid among those and
    /// its rank in it.
    ///
    /// # Errors
    /// [`Error::Dims`] if not every dimension is said to remain or not, [`Error::Rank`].
    pub(crate) fn sub(&self, rank: u32, remain: &[bool]) -> Result<(Self, u32, u32)> {
        if remain.len() != self.count {
            return Err(Error::Dims);
        }
        let coords = self.coords(rank)?;
        let mut sub = Self { dims: [1; MAX_DIMS], periods: [false; MAX_DIMS], count: 0 };
        let (mut color, mut key) = (0, 0);
        for (dimension, &remains) in remain.iter().enumerate() {
            let number = if remains { &mut key } else { &mut color };
            *number = *number * self.dims[dimension] + coords[dimension];
            if remains {
                sub.dims[sub.count] = self.dims[dimension];
                sub.periods[sub.count] = self.periods[dimension];
                sub.count += 1;
            }
        }
        Ok((sub, color, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g1_ranks_and_coordinates_are_inverse() {
        let grid = Grid::new(&[3, 4, 2], &[true, false, true]).unwrap();
        for rank in 0..24 {
            let coords = grid.coords(rank).unwrap();
            assert_eq!(rank, (coords[0] * 4 + coords[1]) * 2 + coords[2]);
            assert_eq!(grid.rank(&[coords[0] as i32 - 3, coords[1] as i32, coords[2] as i32 + 4]), Ok(rank));
        }
        assert_eq!(grid.coords(24), Err(Error::Rank(24)));
        assert!(matches!(grid.rank(&[0, 4, 0]), Err(Error::Arg(_))));
        assert!(matches!(grid.rank(&[0, -1, 0]), Err(Error::Arg(_))));
        assert_eq!(grid.rank(&[0, 0]), Err(Error::Dims));
        assert_eq!(Grid::new(&[2, 0], &[true; 2]), Err(Error::Dims));
        assert_eq!(Grid::new(&[2, 2], &[true]), Err(Error::Dims));
        assert_eq!(Grid::new(&[1 << 16, 1 << 16], &[true; 2]), Err(Error::Dims));
        assert_eq!(Grid::new(&[], &[]).map(|grid| (grid.size(), grid.rank(&[]))), Ok((1, Ok(0))));
    }

    #[test]
    fn g1_shifts_end_at_edges_and_run_round_rings() {
        let grid = Grid::new(&[3, 4], &[true, false]).unwrap();
        // Rank 5 is at (1, 1).
        assert_eq!(grid.shift(5, 0, 1), Ok((1, 9)));
        assert_eq!(grid.shift(5, 0, 2), Ok((9, 1)));
        assert_eq!(grid.shift(5, 0, -4), Ok((9, 1)));
        assert_eq!(grid.shift(5, 1, 1), Ok((4, 6)));
        assert_eq!(grid.shift(5, 1, 2), Ok((PROC_NULL, 7)));
        assert_eq!(grid.shift(5, 1, i32::MIN), Ok((PROC_NULL, PROC_NULL)));
        assert_eq!(grid.shift(5, 2, 1), Err(Error::Dims));
    }

    #[test]
    fn g1_parts_of_a_grid_are_grids() {
        let grid = Grid::new(&[3, 4, 2], &[true, false, true]).unwrap();
        // Rank 13 is at (1, 2, 1).
        let (sub, color, key) = grid.sub(13, &[true, false, true]).unwrap();
        assert_eq!((sub.dims(), sub.periods(), color, key), (&[3, 2][..], &[true, true][..], 2, 3));
        let (sub, color, key) = grid.sub(13, &[false; 3]).unwrap();
        assert_eq!((sub.size(), color, key), (1, 13, 0));
        assert_eq!(grid.sub(13, &[true; 2]), Err(Error::Dims));
    }
}
