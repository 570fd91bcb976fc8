//! What the tests play with: tasks with a context or two, handlers that write down what they saw.

use crate::machine::{TestNode, TestPort, buffer, machine};
use pami::packet::DEFERRING;
use pami::{
    Active, Client, ClientBuilder, Completion, Context, Done, Endpoint, Fetched, Layout, Message, OnFetched,
    OnReceived, OperationError, Payload, Receive, Received, Send,
};
use std::sync::Mutex;

pub type Port = TestPort;
pub type Handler = pami::context::Handler<Port>;
pub type DeferringHandler = pami::context::DeferringHandler<Port>;
/// Origin's task, header and data of each message.
pub type Log = Mutex<Vec<(u32, Vec<u8>, Vec<u8>)>>;
/// Cookie, bytes of the buffer that came back, and result of each completion.
pub type Ends = Mutex<Vec<(usize, Option<usize>, Result<(), OperationError>)>>;

pub fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

pub fn context(client: &mut Client<TestNode>, offset: u8) -> Context<Port> {
    let memory = client.context_memory().unwrap();
    client.create_context(offset, memory).unwrap()
}

/// A handler that takes messages into buffers, and the list that they end in.
pub fn collector() -> (&'static Log, Handler) {
    let log: &'static Log = leak(Mutex::new(Vec::new()));
    let headers: &'static Mutex<Vec<Vec<u8>>> = leak(Mutex::new(Vec::new()));
    let whole = leak(move |_: &mut Active<Port>, received: Received| {
        assert_eq!((received.len, received.result), (received.total, Ok(())));
        let header = headers.lock().unwrap()[received.cookie].clone();
        let data = received.buffer.as_slice()[..received.len].to_vec();
        log.lock().unwrap().push((received.origin.task(), header, data));
    });
    let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
        let mut headers = headers.lock().unwrap();
        headers.push(message.header.to_vec());
        Receive::Into(buffer(message.total), OnReceived { call: whole, cookie: headers.len() - 1 })
    });
    (log, handler)
}

/// A callback that writes completions down.
pub fn ends() -> (&'static Ends, impl Fn(usize) -> Option<Done<Port>> + Copy) {
    let ends: &'static Ends = leak(Mutex::new(Vec::new()));
    let call = leak(move |_: &mut Active<Port>, completion: Completion| {
        let Completion { buffer, result, cookie, .. } = completion;
        ends.lock().unwrap().push((cookie, buffer.map(|buffer| buffer.len()), result));
    });
    (ends, move |cookie| Some(Done { call, cookie }))
}

/// A callback that writes down what updates said.
pub fn fetches() -> (&'static Mutex<Vec<Fetched>>, impl Fn(usize) -> Option<OnFetched<Port>> + Copy) {
    let seen: &'static Mutex<Vec<Fetched>> = leak(Mutex::new(Vec::new()));
    let call = leak(move |_: &mut Active<Port>, fetched: Fetched| seen.lock().unwrap().push(fetched));
    (seen, move |cookie| Some(OnFetched { call, cookie }))
}

/// Clients of `tasks` tasks, each on a node of its own unless `local`; two contexts each.
pub fn clients(
    tasks: u32,
    local: bool,
    build: impl Fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode>,
) -> Vec<Client<TestNode>> {
    let nodes = machine(tasks, local);
    let create = |node| build(ClientBuilder::new(node, "test").contexts(2)).create().unwrap();
    nodes.into_iter().map(create).collect()
}

pub fn pair(
    local: bool,
    build: impl Fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode>,
) -> [Client<TestNode>; 2] {
    clients(2, local, build).try_into().ok().expect("two of them")
}

pub fn advance_all(contexts: &mut [&mut Context<Port>]) {
    while contexts.iter_mut().map(|context| context.advance()).sum::<usize>() > 0 {}
}

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

/// A handler that wants all later.
pub fn always_later() -> DeferringHandler {
    leak(|_: &mut Active<Port>, _: &Message<'_>| None)
}

/// Starts a send that is refused only for want of room, advancing meanwhile.
pub fn send(origin: &mut Context<Port>, send: Send<'_, Port>) {
    assert!(origin.send(send).map_err(|(error, _)| error) == Ok(()));
}
