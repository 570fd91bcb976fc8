//! The network by itself (SPEC Q-4): a node exchanges frames with another without any of what makes messages of them.
//!
//! What messages cost beyond that is what Pamir costs; and it is the first thing to try of a new adapter, with nothing in
//! between.

use super::super::MessageUnit;
use super::super::network::{HeldFrames, Network, Token};
use crate::nic::Acknowledge;
use crate::platform::Platform;

/// The node's network, held: as long as this lives, no message of the node moves.
pub struct Bare<'a, P: Platform, N: Network> {
    unit: &'a MessageUnit<P, N>,
    engine: <N::Engine as Token>::Held<'a>,
    /// There was no room for the last frame.
    full: bool,
}

impl<P: Platform, N: Network> MessageUnit<P, N> {
    /// Holds the network, once nobody else does; `None` without one. Nothing should be under way.
    pub fn bare(&self) -> Option<Bare<'_, P, N>> {
        Some(Bare { unit: self, engine: self.engine.as_ref()?.hold(), full: false })
    }
}

impl<'a, P: Platform, N: Network> Bare<'a, P, N>
where
    <N::Engine as Token>::Held<'a>: HeldFrames,
{
    /// Most bytes of data in a frame.
    pub fn mtu(&self) -> usize {
        self.unit.bulk
    }

    /// Sends node `node` a frame. False without room: take in what there is, and try again.
    pub fn send(&mut self, node: u32, word: u64, data: &'static [u8]) -> bool {
        let data = &data[..data.len().min(self.unit.bulk)];
        self.full = !self.engine.send_frame(node, word, data);
        !self.full
    }

    /// The next frame: who sent it, its word, and how many bytes of data it had.
    pub fn receive(&mut self) -> Option<(u32, u64, usize)> {
        self.engine.receive_frame(self.unit)
    }

    /// Sleeps until something comes in, or there is room again, at the latest at `deadline_ns`; may return early.
    pub fn wait(&mut self, deadline_ns: u64) {
        let Self { unit, engine, full } = self;
        // Another hart that sleeps may be interrupted in this one's stead.
        unit.bare_bell.arm(P::hart());
        if !engine.arm_frames(*full) {
            P::wait(Some(deadline_ns), || {
                if let Some(interrupt) = &unit.interrupt {
                    interrupt.acknowledge();
                }
            });
        }
        unit.bare_bell.disarm(rings::bell::Rest::Quiet);
    }
}
