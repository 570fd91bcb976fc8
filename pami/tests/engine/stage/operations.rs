//! What contexts start, with all that a scenario does not care for left out.

use super::Port;
use pami::packet::{DEFERRING, Envelope, Kind};
use pami::{
    Endpoint, Get, Layout, Payload, Process, Put, Recipe, Region, RegionHandle, Rmw, RmwOp, Send, Shared,
    Split, Update, Width,
};

/// A message without header or callbacks, to dispatch id 0.
pub fn message(target: Endpoint, bytes: Vec<u8>) -> Send<'static, Port> {
    Send {
        target,
        dispatch: 0,
        header: &[],
        payload: Payload::Static(bytes.leak()),
        layout: Layout::Contiguous,
        local_done: None,
        remote_done: None,
    }
}

/// The same, to a handler that may want it later.
pub fn deferred(target: Endpoint, bytes: Vec<u8>) -> Send<'static, Port> {
    Send { dispatch: DEFERRING, ..message(target, bytes) }
}

pub fn put(target: Endpoint, region: RegionHandle, offset: u32, payload: Payload) -> Put<Port> {
    Put {
        target,
        region,
        offset,
        layout: Layout::Contiguous,
        payload,
        payload_layout: Layout::Contiguous,
        local_done: None,
        remote_done: None,
    }
}

/// To the front of `into`.
pub fn get(target: Endpoint, region: RegionHandle, offset: u32, into: &Shared, len: usize) -> Get<Port> {
    Get {
        target,
        region,
        offset,
        layout: Layout::Contiguous,
        into: into.clone(),
        at: 0,
        into_layout: Layout::Contiguous,
        len: len as u32,
        done: None,
    }
}

/// Of a word of eight bytes.
pub fn rmw(target: Endpoint, region: RegionHandle, offset: u32, update: Update) -> Rmw<Port> {
    Rmw { target, region, offset, op: RmwOp { width: Width::Eight, update }, done: None }
}

/// Of all of `message`, at the front of the region.
pub fn process(
    target: Endpoint,
    region: &Region,
    message: &Shared,
    recipe: Recipe,
    split: Split,
) -> Process<Port> {
    Process {
        target,
        region: region.handle(),
        offset: 0,
        memory: message.clone(),
        range: 0..message.len(),
        operand: None,
        recipe,
        split,
        local_done: None,
        remote_done: None,
    }
}

/// Of a packet of no message in particular, without data.
pub fn envelope(kind: Kind, origin: Endpoint, target: Endpoint) -> Envelope {
    Envelope { kind, dispatch: 0, origin, target, message: 0, offset: 0, total: 0 }
}

pub fn bytes(memory: &Shared) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    bytes
}
