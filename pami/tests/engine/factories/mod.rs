//! Protocols, factories and communication objects (SPEC M-1 to M-6).

mod implementations;
mod objects;
mod orders;
mod protocols;

use crate::machine::{MTU, TestNode, buffer, filled, machine, machine_of, pattern};
use crate::scene::{Port, advance_all, always_later, collector, context, ends, fetches, leak, pair};
use pami::collective::{Algorithm, CallError, Collective, Tuning};
use pami::factory::{
    CollectFunction, Contribution, DeferringReceiveFunction, FenceFunction, GetFunction, ImmediateFunction,
    PROTOCOLS, ProcessFunction, PutFunction, ReceiveFunction, RmwFunction, SendFunction,
};
use pami::packet::{DEFERRING, Kind};
use pami::send::OPERATIONS;
use pami::{
    Active, Client, ClientBuilder, ClientError, Collect, CollectError, Endpoint, Factor, Factory,
    FactoryError, FactoryMemory, Get, Layout, Limits, ObjectMemory, OnReceived, OperationError, Outgoing,
    Payload, Pools, Put, Received, Recipe, RegionHandle, Rights, Rmw, RmwOp, Rule, SendError, Shared, Split,
    SubOperations, Update, WORLD, Width,
};
use proptest::prelude::*;
use std::sync::Mutex;

const EAGER: SendFunction = SendFunction { dispatch: 0, rendezvous_from: Some(usize::MAX) };
const SEND: SendFunction = SendFunction { dispatch: 0, rendezvous_from: None };

fn in_words(error: FactoryError) -> String {
    let text = error.to_string();
    assert!(!text.is_empty());
    text
}

fn outgoing(target: Endpoint, bytes: &[u8]) -> Outgoing<'static, Port> {
    Outgoing::new(target, Payload::Static(bytes.to_vec().leak()))
}

fn put(target: Endpoint, region: RegionHandle, bytes: &[u8]) -> Put<Port> {
    Put {
        target,
        region,
        offset: 0,
        layout: Layout::Contiguous,
        payload: Payload::Static(bytes.to_vec().leak()),
        payload_layout: Layout::Contiguous,
        local_done: None,
        remote_done: None,
    }
}

/// Of eight bytes.
fn get(target: Endpoint, region: RegionHandle, offset: u32, into: &Shared) -> Get<Port> {
    let layout = Layout::Contiguous;
    Get { target, region, offset, layout, into: into.clone(), at: 0, into_layout: layout, len: 8, done: None }
}

fn own() -> &'static ObjectMemory<Port> {
    leak(ObjectMemory::new())
}

fn factories(
    local: bool,
    build: impl Fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode>,
) -> [Client<TestNode>; 2] {
    pair(local, |client| build(client.factories(8)))
}

fn contribution(target: Endpoint, region: RegionHandle, memory: &Shared) -> Contribution<Port> {
    Contribution {
        target,
        region,
        offset: 0,
        memory: memory.clone(),
        range: 0..memory.len(),
        recipe: Recipe::accumulate(Factor::F64(0.1)),
        local_done: None,
        remote_done: None,
    }
}
