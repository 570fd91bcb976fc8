//! Combining in the network: what nodes and the routers of the collective (tree) network agree on (SPEC D-3).
//!
//! | module | what |
//! |---|---|
//! | [`alu`] | operators and element types, and what each does to bytes |
//! | [`tree`] | who is whose parent |
//! | [`route`] | class routes: sub-trees and what their nodes do |
//! | [`window`] | credits between a node and its router |
//! | [`packet`] | the wire format |
//! | [`arrival`] | what a node gets of it |
//! | [`census`] | the nodes of a geometry, as a class route needs them |
//!
//! A node *contributes* a packet to a class route. Each router of the route combines what its own node and the routers
//! below contributed, in that order, and sends one packet up; the topmost router sends the result down to all nodes
//! that *receive*. A packet may also be *broadcast*: it goes up as it is, then down.
//!
//! Per class route everything is in order: what one node injects, and what any two nodes receive. So the n-th result
//! answers the n-th contribution of every node. Nothing is lost: see [`route::WINDOW`].

pub mod alu;
pub mod arrival;
pub mod census;
pub mod packet;
pub mod route;
pub mod tree;
pub mod window;

pub use alu::{AluOperation, Element, Operator, Unlike, combine};
pub use arrival::{InjectError, TreeArrival};
pub use census::{Census, CensusError};
pub use packet::{Status, TreeEnvelope, TreePacket, TreePacketKind};
pub use route::{CLASS_ROUTES, ClassRoute, MOST_MEMBERS, Role, RouteMembers, WINDOW, WORLDS};
pub use tree::TreeShape;
pub use window::CreditWindow;
