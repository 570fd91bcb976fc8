//! The collective (tree) network, as the contexts of a node share it (SPEC D-3, G-7, P-3).
//!
//! All contexts of a node have one adapter, so every method takes `&self` and the adapter sees to its own lock. A class
//! route is used by one context of each node at a time, that of its geometry's *leader* there: so nobody else takes
//! what comes for it, and what the node contributes has one order.

use crate::combine::{AluOperation, ClassRoute, InjectError, Role, RouteMembers, Status, TreeArrival};

/// A node's way to the collective network.
pub trait CollectiveNetwork: Copy + Send + 'static {
    /// Most bytes of one contribution or broadcast; a multiple of 8.
    fn payload(&self) -> usize;

    /// What the address of a vector must be a multiple of, at most
    /// [`ALIGNMENT`](crate::collective::need::ALIGNMENT). 1 where the processor writes the packets.
    fn alignment(&self) -> usize {
        1
    }

    /// What this node does on `route`; `None` if it is not open here.
    fn role(&self, route: ClassRoute) -> Option<Role>;

    /// Contributes `len` bytes, which `fill` writes, to the next combination on `route`: whole elements, at most
    /// [`payload`](Self::payload). `sequence`, operation and length must be the same at all contributors, else all get
    /// [`Status::Mismatch`]. `fill` is not called if there is an error.
    ///
    /// # Errors
    /// [`InjectError`]; nothing was sent.
    fn contribute(
        &self,
        route: ClassRoute,
        operation: AluOperation,
        sequence: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), InjectError>;

    /// Sends `len` bytes, which `fill` writes, to all that receive on `route`, this node among them.
    ///
    /// # Errors
    /// [`InjectError`]; nothing was sent.
    fn broadcast(
        &self,
        route: ClassRoute,
        sequence: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), InjectError>;

    /// Hands the oldest arrival on `route` to `take` and is done with it. Returns `false` if there is none.
    fn receive(&self, route: ClassRoute, take: impl FnOnce(&TreeArrival<'_>)) -> bool;

    /// Asks for a class route for `members`, this node among them; [`answer`](Self::answer) says what came of it.
    ///
    /// # Errors
    /// [`InjectError::Full`]; [`InjectError::Pending`] while anybody's request on this node has no answer, or one that
    /// was not taken; [`InjectError::Length`] if the list is too long.
    fn allocate(&self, members: &[RouteMembers]) -> Result<(), InjectError>;

    /// The answer to the request for a class route, once.
    fn answer(&self) -> Option<Result<ClassRoute, Status>>;

    /// Gives up a class route that this node asked for: all members must have done with it.
    ///
    /// # Errors
    /// [`InjectError::Full`]; [`InjectError::NoRoute`] also if another node has asked for it.
    fn release(&self, route: ClassRoute) -> Result<(), InjectError>;
}
