//! The collective network: a model of the tree's routers, their ALUs and class routes (SPEC D-3, X-4).
//!
//! Each node connects its second network card to a listener of its own. What it contributes is combined on the way up,
//! results and broadcasts are multiplied on the way down; [`pami::combine`] has the wire format, the arithmetic and the
//! shape.
//!
//! | module | concern |
//! |---|---|
//! | [`model`] | routers and links: pure and deterministic |
//! | `model::route_state` | one class route at one router |
//! | `model::routes` | setting class routes up and giving them up |
//! | `switch` | what arrives, moves and leaves in one round |
//! | `shipping` | calls of nodes to their I/O nodes |
//! | `port` | one node: its stream and its ends of class routes |
//! | `frame` | Ethernet frames |
//! | [`statistics`] | what is counted |
//!
//! *Lossless by construction.* A packet leaves a node only if its router has a place for it, and a router only if the
//! next one, or the node, has: credits on the link to the node, room in the queues between routers. So there is nothing
//! to mend, and the nodes' adapters keep no copies, timers or sequence numbers for it; a combination that has gone into
//! an ALU could not be sent again by anybody. A link that damages or loses packets is a torus's affair; of the faults
//! asked for, the tree knows `delay`, and nodes that die: a combination that waits for one ends with a status.

mod frame;
pub mod model;
mod port;
mod shipping;
pub mod statistics;
mod switch;

pub use statistics::{TreeDropped, TreeNodeStatistics, TreeStatistics};
pub use switch::TreeSwitch;
