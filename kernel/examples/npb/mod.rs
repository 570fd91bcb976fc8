//! What the benchmarks EP, CG, MG and FT share. Their numerics know the machine only by [`machine::Machine`], so the
//! same files run on nodes and, as tests, on threads of the host.

#[cfg(target_os = "none")]
pub mod job;
pub mod machine;
#[cfg(target_os = "none")]
pub mod messages;
pub mod pairwise;
pub mod random;
