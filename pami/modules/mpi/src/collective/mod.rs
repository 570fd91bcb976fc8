//! Collectives (MPI chapter 6), blocking and non-blocking, on intra-communicators.
//!
//! Each is a collective of PAMI in the communicator's geometry. Data that does not lie in one piece is packed into
//! scratch memory of the communicator's context before, and unpacked from there after.
//!
//! # Order and room
//!
//! Processes match the collectives of a communicator by the order in which they call them. Where there is no room for
//! another one in flight it waits in PAMI. Where the memory to pack its data in is in use, or a reduction has to ask
//! for the large place, it waits in its context's table, and those of its communicator behind it; calls return at once.
//! Room comes as others end. One that needs more scratch memory than there is at all is refused.
//!
//! # Buffers
//!
//! As in the standard, the data that a call names where there is a block for each process is that of *one* block: the
//! count is that of one process, and the others follow at multiples of count times extent. The v forms name the blocks
//! by [`Blocks`]. Operands of operators that do not commute are combined in the order of ranks.

mod arena;
mod arguments;
mod flight;
mod lists;
mod side;

pub use arguments::{Blocks, IN_PLACE, Operand};
pub(crate) use flight::{Caller, Collectives, Plan, Sizes};
pub(crate) use side::Side;
