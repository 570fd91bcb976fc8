//! What the NAS Parallel Benchmarks share. They know the machine only by [`machine::Machine`], so the same files run on nodes,
//! as tests on threads of the host, and over other libraries beside ours (`cargo xtask bench peers --rows npb`).

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
pub mod report;
#[cfg(node)]
mod swap;
#[cfg(node)]
mod threads;
