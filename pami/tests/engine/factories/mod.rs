//! Protocols, factories and communication objects (SPEC M-1 to M-6).

mod implementations;
mod memories;
mod objects;
mod orders;
mod protocols;

use crate::machine::{MTU, TestNode, buffer, filled, machine, machine_of, pattern};
use crate::stage::{Build, Port, Stage, Told, always_later, bytes, context, get, leak, put, rmw};
use pami::collective::{Algorithm, CallError, Collective, Tuning};
use pami::factory::{
    CollectFunction, Contribution, DeferringReceiveFunction, FenceFunction, Function, GetFunction,
    ImmediateFunction, PROTOCOLS, PathSendFunction, ProcessFunction, Protocol, PutFunction, ReceiveFunction,
    RmwFunction, SendFunction,
};
use pami::packet::{DEFERRING, Kind};
use pami::send::OPERATIONS;
use pami::{
    AcceptMemory, Active, Client, ClientBuilder, ClientError, Collect, CollectError, CollectMemory,
    Completion, Done, Endpoint, Factor, Factory, FactoryError, FactoryMemory, Get, Limits, Message,
    ObjectMemory, OperationError, Outgoing, Payload, Pools, Put, Recipe, RegionHandle, Rights, Rmw, Rule,
    SendError, Shared, Split, SubOperations, Update, WORLD,
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

/// Of these bytes, to the front.
fn put_of(target: Endpoint, region: RegionHandle, bytes: &[u8]) -> Put<Port> {
    put(target, region, 0, Payload::Static(bytes.to_vec().leak()))
}

fn word(memory: &Shared) -> u64 {
    u64::from_ne_bytes(bytes(memory)[..8].try_into().unwrap())
}

fn own() -> &'static ObjectMemory<Port> {
    leak(ObjectMemory::new())
}

/// Two tasks that talk, with room for eight factories each, and a protocol of the first.
fn factories(local: bool, build: impl Build) -> (Stage, Protocol) {
    let mut stage = Stage::pair(local, |client| build(client.factories(8)));
    let protocol = stage.clients[0].protocol("p").unwrap();
    (stage, protocol)
}

impl Stage {
    /// A factory of the first task's.
    fn register<F: Function<TestNode>>(&mut self, protocol: &Protocol, function: F) -> Factory<F> {
        self.clients[0].register(protocol, function).unwrap()
    }
}

fn contribution(target: Endpoint, region: RegionHandle, memory: &Shared) -> Contribution<Port> {
    Contribution {
        target,
        region,
        offset: 0,
        memory: memory.clone(),
        range: 0..memory.len(),
        operand: None,
        recipe: Recipe::accumulate(Factor::F64(0.1)),
        local_done: None,
        remote_done: None,
    }
}
