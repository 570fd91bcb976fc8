//! Messages that a context has processed, and processes for others (SPEC L-1 to L-4): see [`crate::balance`].

mod advice;
mod arrival;
mod decision;
mod origin;
