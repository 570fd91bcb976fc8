//! What can be asked of the environment: clocks, names, versions.

use crate::error::Result;
use crate::library::{Communicator, Mpi};
use core::fmt::Write;
use heapless::String;
use pami::client::Node;

/// `MPI_Get_version`: the version of the standard whose chapters the module's table goes through.
pub const VERSION: (u32, u32) = (4, 0);
/// `MPI_MAX_PROCESSOR_NAME`.
pub const NAME_LIMIT: usize = 64;

impl<N: Node> Mpi<N> {
    /// `MPI_Wtime`: seconds since this node started.
    ///
    /// # Errors
    /// [`Error::Finalized`](crate::Error::Finalized).
    pub fn wtime(&self) -> Result<f64> {
        self.library.enter(0, |active, _| Ok(active.now_ns() as f64 * 1e-9))
    }

    /// `MPI_Wtick`: seconds between two ticks of its clock.
    pub fn wtick(&self) -> f64 {
        1.0 / self.library.node.clock_hz() as f64
    }

    /// `MPI_Get_processor_name`: the node's place in the torus.
    pub fn processor_name(&self) -> String<NAME_LIMIT> {
        let (shape, coord) = self.library.node.torus();
        let mut name = String::new();
        // It fits.
        let _ = write!(name, "node {} of {shape}", shape.rank(coord).unwrap_or(0));
        name
    }
}

impl<N: Node> Communicator<N> {
    /// Whether a node of one of its processes is known to be dead: its rank in the machine.
    ///
    /// # Errors
    /// [`Error::Comm`](crate::Error::Comm).
    pub fn dead_node(&self) -> Result<Option<u32>> {
        self.enter(|active, _| Ok(active.geometry(self.geometry()).and_then(|geometry| geometry.dead)))
    }
}
