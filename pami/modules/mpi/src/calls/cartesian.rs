//! Communicators with a grid.

use super::communicator::UNDEFINED;
use crate::cartesian::{Embedding, Grid, MAX_DIMS};
use crate::error::{Error, Result};
use crate::library::Communicator;
use pami::client::Node;

/// As colors and keys are.
fn signed(number: u32) -> Result<i32> {
    i32::try_from(number).map_err(|_| Error::Dims)
}

impl<N: Node> Communicator<N> {
    /// The rank that this process should have in a grid so that neighbours are near (`MPI_Cart_map`): its place in the torus,
    /// if the grid is of all tasks of the job and can be laid into the torus, and its own rank otherwise; `None` if it is
    /// one of those that are left over.
    ///
    /// # Errors
    /// [`Error::Dims`] if the grid is larger than the communicator.
    pub fn cart_map(&self, grid: &Grid) -> Result<Option<u32>> {
        if grid.size() > self.size() {
            return Err(Error::Dims);
        }
        if grid.size() < self.size() {
            return Ok(Some(self.rank()).filter(|&rank| rank < grid.size()));
        }
        let node = self.library.node;
        let laid = || {
            let map = node.affinities().filter(|_| self.size() == node.tasks())?.map;
            let (shape, _) = node.torus();
            let place = map.place(node.task())?;
            let embedding = Embedding::find(&shape, map.tasks_per_node(), grid.dims())?;
            let coords = embedding.coords(shape.coord(place.node)?, place.local).map(|coord| coord as i32);
            grid.rank(coords.get(..grid.dims().len())?).ok()
        };
        Ok(Some(laid().unwrap_or(self.rank())))
    }

    /// `MPI_Cart_create`: a communicator of the processes of a grid; `None` at those that are left over. With `reorder` they
    /// get the ranks of [`cart_map`](Self::cart_map).
    ///
    /// # Errors
    /// [`Error::Dims`], and those of a split.
    pub fn cart_create(&self, dims: &[u32], periods: &[bool], reorder: bool) -> Result<Option<Self>> {
        let placed = Grid::new(dims, periods).and_then(|grid| {
            let place = self.cart_map(&grid)?;
            let key = place.map(|place| if reorder { place } else { self.rank() });
            let (color, key) = key.map_or((UNDEFINED, 0), |key| (0, key));
            Ok((grid, color, signed(key)?))
        });
        let (grid, color, key) = placed.inspect_err(|error| self.refuse(*error))?;
        let made = self.split(color, key)?;
        made.map(|comm| comm.with_grid(Some(grid))).transpose()
    }

    /// `MPI_Cart_get`: its grid.
    ///
    /// # Errors
    /// [`Error::Topology`] if it has none; [`Error::Comm`].
    pub fn cart_get(&self) -> Result<Grid> {
        self.grid()?.ok_or(Error::Topology)
    }

    /// `MPI_Cart_coords`, in the first places of the array.
    ///
    /// # Errors
    /// [`Error::Topology`], [`Error::Rank`], [`Error::Comm`].
    pub fn cart_coords(&self, rank: u32) -> Result<[u32; MAX_DIMS]> {
        self.cart_get()?.coords(rank)
    }

    /// `MPI_Cart_rank`.
    ///
    /// # Errors
    /// [`Error::Topology`], [`Error::Comm`], and those of [`Grid::rank`].
    pub fn cart_rank(&self, coords: &[i32]) -> Result<u32> {
        self.cart_get()?.rank(coords)
    }

    /// `MPI_Cart_shift`: who sends to this process and whom it sends to, when all send `displacement` on along a dimension.
    ///
    /// # Errors
    /// [`Error::Topology`], [`Error::Dims`], [`Error::Comm`].
    pub fn cart_shift(&self, dimension: usize, displacement: i32) -> Result<(i32, i32)> {
        self.cart_get()?.shift(self.rank(), dimension, displacement)
    }

    /// `MPI_Cart_sub`: the communicator of the processes that differ from this one only in the dimensions that remain.
    ///
    /// # Errors
    /// [`Error::Topology`], [`Error::Dims`], and those of a split.
    pub fn cart_sub(&self, remain: &[bool]) -> Result<Self> {
        let place = self.cart_get().and_then(|grid| {
            let (sub, color, key) = grid.sub(self.rank(), remain)?;
            Ok((sub, signed(color)?, signed(key)?))
        });
        let (sub, color, key) = place.inspect_err(|error| self.refuse(*error))?;
        let made = self.split(color, key)?;
        made.ok_or(Error::Topology)?.with_grid(Some(sub))
    }
}
