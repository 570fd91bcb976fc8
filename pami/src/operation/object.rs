//! Operations in memory of those who call (SPEC M-3).
//!
//! The object lies there from the call to its last callback. To be found by the answers of its packets it needs the
//! number of one of the context's places besides. If none is free it waits for one, in the order of the calls; places
//! that become free go to those that wait, so nobody else finds one before.

use super::Operation;
use crate::object::caller_memory;

caller_memory! {
    /// Memory for one communication object, the caller's: an instruction that is passed it needs no other and so never
    /// fails with [`SendError::Again`](crate::SendError::Again). What is in it is nobody else's matter. 368 bytes, of
    /// alignment 8, on machines of 64 bits.
    ///
    /// It is free at first, and again when the last callback of its operation is called.
    ObjectMemory, Operation<A>
}
