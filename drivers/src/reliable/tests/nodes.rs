//! Three nodes of two contexts each, over one bad wire: what the whole engine is tried on.

use super::units::Hart;
use super::wire::{Faults, Lossy, Memory, Wire};
use super::{elapse, now};
use crate::reliable::Reliable;
use crate::unit::tests::setup;
use crate::unit::{MessageUnit, NodePort, Setup};
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::mapping::{MapOrder, TaskMap};
use std::boxed::Box;
use std::vec::Vec;

pub type Unit = MessageUnit<Hart, Reliable<Lossy, Hart>>;
pub type Port = NodePort<Hart, Reliable<Lossy, Hart>>;

pub const NODES: usize = 3;
pub const CONTEXTS: usize = 2;
pub const ACTORS: usize = NODES * CONTEXTS;
/// No run may take longer, in virtual time.
pub const LIMIT_NS: u64 = 600_000_000_000;
pub const MTU: usize = 300;
const BUFFERS: usize = 64;

pub fn endpoint(actor: usize) -> Endpoint {
    let context = ContextOffset((actor % CONTEXTS) as u8);
    Endpoint::from_parts(ClientId(0), (actor / CONTEXTS) as u32, context)
}

/// The number of a context among all.
pub fn place_of(endpoint: Endpoint) -> usize {
    endpoint.task() as usize * CONTEXTS + usize::from(endpoint.context().0)
}

/// The wire and the nodes' units, at the beginning of time. However bad the wire, nobody is to be given up.
pub fn units() -> (Wire, Vec<&'static Unit>) {
    super::NOW.set(0);
    let wire = Wire::new(NODES, 0, Faults::NONE);
    let memory = Box::leak(Box::new(Memory::new()));
    let map = TaskMap::new(NODES as u32, 1, MapOrder::NodesFirst).unwrap();
    let units = (0..NODES as u32).map(|node| {
        let device = Lossy::new(&wire, memory, node, MTU, BUFFERS);
        let adapter = Some(Reliable::new(device, node, NODES as u32));
        let contexts = CONTEXTS as u8;
        MessageUnit::start(Setup { contexts, harts: 1, ..setup(adapter, node, map) }).unwrap()
    });
    let units = units.collect();
    (wire, units)
}

/// Time passes until something arrives, as no more is to be done before.
pub fn wait_for_wire(wire: &Wire) {
    let next = wire.network().next_arrival().unwrap_or(u64::MAX);
    elapse(next.saturating_sub(now()).clamp(1_000, 500_000));
}

/// What had to be mended so far.
pub fn mended(units: &[&'static Unit]) -> u64 {
    let counts = units.iter().map(|unit| unit.statistics().reliability);
    counts.map(|counts| counts.retransmitted + counts.duplicates + counts.corrupt).sum()
}
