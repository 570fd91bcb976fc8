//! What the NAS Parallel Benchmarks share. Their numerics know the machine only by [`machine::Machine`], so the same
//! files run on nodes and, as tests, on threads of the host.

#[cfg(any(target_os = "none", hosted))]
mod area;
#[cfg(any(target_os = "none", hosted))]
pub mod collectives;
#[cfg(any(target_os = "none", hosted))]
pub mod job;
pub mod machine;
#[cfg(any(target_os = "none", hosted))]
pub mod mpi;
pub mod random;
#[cfg(any(target_os = "none", hosted))]
mod swap;
#[cfg(any(target_os = "none", hosted))]
mod threads;
