//! Collectives are data (DESIGN decision 6).

pub mod blocks;
mod bruck;
pub mod call;
pub mod catalogue;
mod dissemination;
pub mod division;
mod doubling;
mod fan;
mod gather;
pub mod grid;
mod halving;
pub(crate) mod nary;
pub mod operator;
mod pairwise;
mod ring;
mod scan;
mod schedule;
pub mod step;
mod tree;

pub use blocks::{Blocks, Partition};
pub use call::{Algorithm, Call, CallError, Collective, Tuning};
pub use division::{Division, Form};
pub use grid::Grid;
pub use operator::{Element, Operator, ReduceError, Reducer, UserOperator};
pub use schedule::Schedule;
pub use step::{Area, Order, Span, Step};

#[cfg(test)]
pub(crate) mod simulation;
