//! Free functions for tests that are not on a [`Stage`](crate::stage::Stage) yet.

use crate::machine::{TestNode, buffer, machine};
pub use crate::stage::{Handler, Port, always_later, deferred, leak, message};
use pami::{
    Active, Client, ClientBuilder, Completion, Context, Done, Fetched, Message, OnFetched, OnReceived,
    OperationError, Pools, Receive, Received, Send,
};
use std::sync::Mutex;

/// Origin's task, header and data of each message.
pub type Log = Mutex<Vec<(u32, Vec<u8>, Vec<u8>)>>;
/// Cookie, bytes of the buffer that came back, and result of each completion.
pub type Ends = Mutex<Vec<(usize, Option<usize>, Result<(), OperationError>)>>;

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
    let create =
        |node| build(ClientBuilder::new(node, "test").pools(Pools::LARGE).contexts(2)).create().unwrap();
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

/// Starts a send that is refused only for want of room, advancing meanwhile.
pub fn send(origin: &mut Context<Port>, send: Send<'_, Port>) {
    assert!(origin.send(send).map_err(|(error, _)| error) == Ok(()));
}
