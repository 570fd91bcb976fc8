//! What the NAS Parallel Benchmarks share. Their numerics know the machine only by [`machine::Machine`], so the same
//! files run on nodes and, as tests, on threads of the host.

#[cfg(node)]
mod area;
#[cfg(node)]
pub mod collectives;
#[cfg(node)]
pub mod job;
pub mod machine;
#[cfg(node)]
pub mod mpi;
pub mod random;
#[cfg(node)]
mod swap;
#[cfg(node)]
mod threads;
