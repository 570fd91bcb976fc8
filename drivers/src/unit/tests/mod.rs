//! Message units of several nodes in one process.

mod askers;
mod card;
mod edges;
mod generations;
mod host;
mod hostile;
mod joining;
mod near;
mod one_sided;
mod quiet;
mod regions;
mod stepped;
mod stopped;
mod threads;
mod wires;

use super::{MessageUnit, NodePort, Setup, Sharing};
use host::{FakeAdapter, Host, Net};
use pami::device::{Arrival, Completed, Path, Port};
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::mapping::{MapOrder, TaskMap};
use pami::packet::{Envelope, Kind};
use pami::region::{Memory, RegionFault, RegionId, Rights, RmwOp};
use rings::buffer::{Buffer, CONTROL_BYTES};
use rings::shared::{Shared, Update, Width};
use std::vec::Vec;

const MTU: usize = 512;

type Unit<const TEST: usize> = MessageUnit<Host<TEST>, FakeAdapter<TEST>>;
type TestPort<const TEST: usize> = NodePort<Host<TEST>, FakeAdapter<TEST>>;

/// What a unit on a network with a fabric is started with, for two contexts a task.
pub(crate) fn setup<A>(adapter: Option<A>, node: u32, map: TaskMap) -> Setup<A> {
    Setup { adapter, node, map, contexts: 2, harts: 32, agent: None, near: None, plain: None }
}

/// The units of `nodes` nodes of `tasks` tasks of two contexts each.
fn units<const TEST: usize>(
    net: &Net,
    nodes: u32,
    tasks: u32,
    agent: Option<usize>,
) -> Vec<&'static Unit<TEST>> {
    units_of(net, (nodes, tasks), agent, MTU)
}

/// As [`units`], on a network of packets of `mtu` bytes.
fn units_of<const TEST: usize>(
    net: &Net,
    (nodes, tasks): (u32, u32),
    agent: Option<usize>,
    mtu: usize,
) -> Vec<&'static Unit<TEST>> {
    let map = TaskMap::new(nodes, tasks, MapOrder::TasksFirst).unwrap();
    (0..nodes)
        .map(|node| {
            let adapter = Some(FakeAdapter::new(net, node as usize, mtu));
            MessageUnit::start(Setup { agent, ..setup(adapter, node, map) }).unwrap()
        })
        .collect()
}

pub(crate) fn endpoint(task: u32, context: u8) -> Endpoint {
    Endpoint::from_parts(ClientId(0), task, ContextOffset(context))
}

pub(crate) fn envelope(origin: Endpoint, target: Endpoint, message: u32) -> Envelope {
    Envelope { kind: Kind::EagerNext, dispatch: 7, origin, target, message, offset: 0, total: 1 << 20 }
}

/// Bytes that tell message and place.
pub(crate) fn pattern(message: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (message as usize * 31 + i * 7) as u8).collect()
}

fn open<const TEST: usize>(unit: &'static Unit<TEST>, context: u8) -> TestPort<TEST> {
    unit.open(ClientId(0), 0, context, Sharing::Exclusive).unwrap()
}

/// Drives until `port` has an arrival.
fn next<P: Port>(port: &mut P, mut others: impl FnMut()) -> P::Arrival {
    for _ in 0..10_000 {
        others();
        port.progress();
        if let Some(arrival) = port.pull() {
            return arrival;
        }
    }
    panic!("nothing arrives");
}

/// Memory that holds `bytes`, in shared use.
pub(crate) fn shared(bytes: &[u8]) -> Shared {
    let memory = std::vec![0; bytes.len() + CONTROL_BYTES + 63].leak();
    let skip = memory.as_ptr().align_offset(64);
    let memory = &mut memory[skip..skip + CONTROL_BYTES + bytes.len()];
    let mut buffer = Buffer::new(memory).unwrap();
    buffer.as_mut_slice().copy_from_slice(bytes);
    buffer.share()
}

pub(crate) fn bytes(memory: &Shared) -> Vec<u8> {
    let mut bytes = std::vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

/// A region that holds `bytes` and allows all.
fn region(port: &mut impl Port, bytes: &[u8]) -> (RegionId, Shared) {
    let memory = shared(bytes);
    (port.register(Memory::Shared(memory.clone()), Rights::all()).unwrap(), memory)
}

/// Drives until `port` has the end of a request.
fn ended<P: Port>(port: &mut P, mut others: impl FnMut()) -> Completed {
    for _ in 0..10_000 {
        others();
        port.progress();
        if let Some(completed) = port.completed() {
            return completed;
        }
    }
    panic!("nothing ends");
}

/// The same, and its peer is driven beside it.
fn ended_by<P: Port, Q: Port>(port: &mut P, peer: &mut Q) -> Completed {
    ended(port, || _ = peer.progress())
}

fn torus(node: u32) -> Path {
    Path::Torus(node)
}
