//! Collectives: those that move data, those that reduce, and each of both as a call that waits.

mod blocking;
mod moving;
mod reducing;
