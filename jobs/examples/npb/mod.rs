//! What the NAS Parallel Benchmarks share. Their numerics know the machine only by [`machine::Machine`], so the same
//! files run on nodes and, as tests, on threads of the host.

#[cfg(target_os = "none")]
mod area;
#[cfg(target_os = "none")]
pub mod collectives;
#[cfg(target_os = "none")]
pub mod job;
pub mod machine;
#[cfg(target_os = "none")]
pub mod mpi;
pub mod random;
#[cfg(target_os = "none")]
mod swap;
#[cfg(target_os = "none")]
mod threads;
