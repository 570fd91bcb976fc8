//! Collectives are data: an algorithm is a pure function from a call to steps (docs/design.md decision 6, SPEC G-2 to G-9).
//!
//! A [`Call`] says what one rank is asked to do: collective, algorithm, size, rank, root, blocks, tuning. Its
//! [`Schedule`] hands out [`Step`]s until the collective is complete at that rank. Neither knows of a network, so
//! every algorithm is tested on the host, for every size and root, against plain loops.
//!
//! # Steps
//!
//! | step | meaning |
//! |---|---|
//! | `Send`, `Receive` | start; done some time before the round ends |
//! | `Wait` | ends the round: all that was started is done |
//! | `Reduce`, `Copy` | are done at once, element by element |
//! | `Show`, `Fetch` | what all that reach the rank's memory may read, and what others show: done once that is there |
//! | `Expose`, `Pull` | the same of memory, which is read where it lies |
//! | `Reach`, `Await` | a stage, after which others may read more, or write what was read |
//! | `Combine`, `Assemble`, `Spread` | a vector through the tree network; the result is there when the round ends |
//!
//! A step names peers by rank and memory by [`Span`]: elements of the input, of the output, or of scratch memory.
//! All three are apart; the input is only read. What a schedule keeps to, and the tests hold it to:
//!
//! - From a `Send` to the end of its round nothing writes its span; from a `Receive` to the end of its round nothing
//!   else touches its span. So an engine may read and write at any time in between, eagerly or by rendezvous.
//! - Both ends of a message name the same length, and the same tag. Between two ranks, one way, no tag is used
//!   twice in a collective, so messages match whatever order they come in.
//! - Operands of a reduction are apart, and in the order of ranks unless the [catalogue] says that the
//!   algorithm needs an operator that commutes. The order depends on the call alone, never on time (G-9): an
//!   allreduce gives the same bits at all ranks and in all runs.
//! - No message is empty but a barrier's. Without data there are no messages.
//! - Every rank ends with its rounds closed, and receives every message that is sent to it.
//! - No rank waits for another to *end* a round: sends and receives of all ranks may all be blocking-free rendezvous
//!   and nothing deadlocks.
//! - A round that has both sends and receives starts at most `3 * radix` of each, a torus box at most 13. Other
//!   rounds, such as a flat root's, start as many as there are children, of one kind; there an engine may hold the
//!   schedule back until some are done.
//!
//! # What runs them
//!
//! The [`engine`] of a context runs the schedules of all its collectives inside `advance`, in slots of a fixed size: of the
//! size of [`Schedule`] nothing depends on ranks or data. Any other engine has to provide:
//!
//! - **Loop.** Take a step; if it cannot start now (no operation, no ring place), keep it and try again on the next
//!   advance. On `Wait`, go on to the next collective until nothing is under way. Do a bounded number of steps each advance.
//! - **Matching.** Messages carry the geometry, the number of the collective in it (every member starts the
//!   collectives of a geometry in one order) and the tag; a message that comes before its receive is kept.
//! - **Elements.** Offsets and lengths times the length of an element.
//! - **Memory.** Within a round, spans of one area are sent and received at the same time, though never the same elements.
//! - **Long reductions.** A `Reduce` or `Copy` may be done piece by piece, so that one advance stays short.
//! - **In place.** The caller says so; schedules then name no input. See the table at [`Call`].
//! - **Forms.** An endpoint that is not instructed (G-6) makes its schedule when the first message of a collective
//!   comes; besides the above that message must say collective, algorithm, root, lengths and tuning.
//! - **Tree network.** `Combine`, `Assemble` and `Spread` go to the adapter with the geometry's class route, at one rank of each
//!   node and once in a collective; those of one geometry in the order of its collectives. Without a class route the call is
//!   never made with that algorithm. The network does not assemble: it combines, by bitwise or, packets that are zero but for the
//!   node's own elements, and behind the last one up to a whole element of the network's.
//! - **Empty work.** The next step can take time in the number of ranks where a rank has nothing to do, as in an
//!   alltoall of empty blocks.
//!
//! # Folder
//!
//! [`step`], [`blocks`] and [`call`] are the vocabulary. `tree`, [`Grid`] and
//! [`affinity`](crate::affinity) are shapes that the algorithms of `fan` (up and down a tree) and `gather` run
//! along; `network` goes through the routers, `leaders` from node to node, `bulletin` and `direct` through memory that all reach;
//! `dissemination`, `ring`, `doubling`, `halving`, `bruck`, `pairwise` and
//! `scan` are the others. `schedule` puts them together, [`catalogue`] lists them, `names` names them, [`selection`]
//! chooses by [`cost`], [`division`] shares work among the endpoints of a task, [`operator`](crate::operator) combines. [`engine`] runs
//! schedules.

mod algorithm_list;
pub mod blocks;
mod bruck;
mod bulletin;
pub mod call;
pub mod catalogue;
pub mod cost;
mod direct;
mod dissemination;
pub mod division;
mod doubling;
pub mod engine;
mod fan;
mod gather;
mod halving;
mod leaders;
mod memory;
mod names;
pub mod need;
mod network;
mod pairwise;
mod phase;
mod ring;
mod scan;
mod schedule;
pub mod selection;
pub mod step;
mod tree;

pub use crate::geometry::Grid;
pub use crate::operator::{Combine, Element, Operator, Order, ReduceError, Reducer, UserOperator};
pub use crate::partition::Partition;
pub use algorithm_list::AlgorithmList;
pub use blocks::Blocks;
pub use call::{Algorithm, Call, CallError, Collective, Tuning};
pub use division::{Division, Form};
pub use names::UnknownName;
pub use need::Need;
pub use schedule::Schedule;
pub use selection::{Candidate, Query, SelectionError};
pub use step::{Area, Shown, Span, Step};

#[cfg(test)]
pub(crate) mod simulation;
