//! The host side: builds, boots and watches emulated nodes, and models the network between them.

pub mod fabric;
