//! What applications call, by chapters of the standard.

mod attribute;
mod buffered;
mod cartesian;
mod collectives;
mod communicator;
pub mod environment;
mod group;
mod persistent;
mod point_to_point;
mod probe;
mod wait;
pub mod window;

pub use buffered::BSEND_OVERHEAD;
pub use communicator::UNDEFINED;
pub use probe::Matched;
pub use wait::Ended;
pub use window::{Target, Window};
