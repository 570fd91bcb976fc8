//! Windows as a context knows them: what it has of each, what it does for others, what it waits for.

pub(crate) mod answer;
pub(crate) mod answers;
pub(crate) mod ends;
pub(crate) mod epoch;
pub(crate) mod operate;
pub(crate) mod outstanding;
pub(crate) mod peer;
pub(crate) mod table;
pub(crate) mod wire;

pub(crate) use ends::Name;
pub use epoch::Assert;
pub use peer::LockType;
pub(crate) use table::Windows;
