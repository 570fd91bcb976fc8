//! Grids of processes (MPI chapter 8, cartesian topologies).
//!
//! With `reorder`, a grid of all tasks of the job is laid into the torus where its extents allow: neighbours in the
//! grid are then neighbours in the torus, or on one node.

mod dims;
mod embedding;
mod grid;

pub use dims::dims_create;
pub(crate) use embedding::Embedding;
pub use grid::Grid;

/// Most dimensions of a grid.
pub const MAX_DIMS: usize = 8;
