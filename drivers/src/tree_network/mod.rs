//! The collective (tree) network's adapter: combinations and broadcasts done by the routers (SPEC D-3, G-7).
//!
//! | module | what |
//! |---|---|
//! | [`adapter`] | one virtio network card: what goes out, what comes in, class routes |
//! | `card` | frames on its queues |
//! | `counters` | what went through, and what went wrong |
//! | `route` | one class route at this node |
//! | [`shipped`] | this node's calls to its I/O node |
//! | [`mod@unit`] | the adapter shared by the harts of a node, and their sleep |
//!
//! # How it is driven
//! A collective of the tree is a number of contributions or broadcasts on one class route, each of at most
//! [`payload`](TreeAdapter::payload) bytes; a vector is cut in pieces, and up to [`WINDOW`](pami::combine::WINDOW) of
//! them are on their way at once. Per class route results come in the order of the contributions, so the n-th result is
//! that of the n-th contribution; the caller's sequence number is compared by the routers. Nothing allocates, nothing
//! blocks, nothing is lost: what has no credit is refused with [`InjectError::Full`] and tried again after something
//! was [taken](TreeAdapter::take).
//!
//! What arrives stays in its receive buffer, by class route, until it is taken. There is a buffer for every credit of
//! every class route, so one that nobody takes from does not hold up another.
//!
//! The network is lossless and in order, so there are no copies to send again, no timers and no acknowledgements but
//! credits, which go along with data. A node that dies shows as a result with [`Status::Dead`](pami::combine::Status),
//! to all that receive.
//!
//! A node's calls to its I/O node go the same way, outside of class routes: the answer comes to that node alone.
//!
//! # Who uses it
//! Engines in `pami`, by [`CollectiveNetwork`](pami::device::CollectiveNetwork), and jobs that want it bare; the kernel's files for calls to the
//! I/O node.
//!
//! A geometry is on the tree if its nodes are the members of a class route: a world's, or one that its lowest node
//! asked for under a tag that all agree on. Nodes with several endpoints combine among them first.

pub mod adapter;
mod card;
mod counters;
mod route;
pub mod shipped;
pub mod unit;

#[cfg(test)]
mod tests;

pub use adapter::TreeAdapter;
pub use counters::{TreeCounters, TreeFaults};
pub use pami::combine::{InjectError, TreeArrival};
pub use shipped::ShippedCall;
pub use unit::TreeUnit;
