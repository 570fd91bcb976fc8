//! What went through a tree adapter, and what went wrong.

/// What an adapter caught its device or its network at (SPEC D-9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeFaults {
    /// Used ids, lengths or indices that cannot be.
    pub rings: u64,
    /// Frames too short to hold a packet.
    pub runts: u64,
    /// Frames of another protocol, or not from the network.
    pub foreign: u64,
    /// Frames that are addressed to another node.
    pub stray: u64,
    /// No packets, or none that the network sends.
    pub malformed: u64,
    /// On class routes that are not open here.
    pub no_route: u64,
    /// Beyond credit, or with counts that cannot be.
    pub overrun: u64,
}

impl TreeFaults {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self { rings, runts, foreign, stray, malformed, no_route, overrun } = *self;
        rings + runts + foreign + stray + malformed + no_route + overrun
    }
}

/// What went through an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeCounters {
    /// Contributions and broadcasts sent.
    pub sent: u64,
    /// Results and broadcasts that have arrived.
    pub received: u64,
    /// Packets of credit alone that were sent.
    pub credits: u64,
    /// Arrivals that were thrown away because their class route was given up before anybody took them.
    pub abandoned: u64,
}
