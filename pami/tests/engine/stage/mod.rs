//! The harness: tasks with contexts on a modelled machine, what happens there, and what callbacks were told of it.
//!
//! A scenario is told in a few lines:
//!
//! ```text
//! let mut stage = Stage::pair(local, |client| client.rendezvous_from(SWITCH));
//! stage.say(0, 1, pattern(10, 0));            // a message from context 0 to context 1,
//! stage.fence(0, 1, 7);                       // a fence behind it, whose end has the cookie 7;
//! stage.quiet();                              // all moves until nothing does,
//! assert_eq!(stage.order(), [GOT, 7]);        // and this was told, in this order.
//! ```
//!
//! Contexts have the numbers of their places in [`Stage::contexts`]. What was told is taken by looking at it.

mod cases;
mod operations;
mod told;

use crate::machine::{Packet, Step, TestNode, TestPort, World, buffer, filled, machine, machine_of};
pub use cases::*;
pub use operations::*;
use pami::packet::{DEFERRING, Envelope, Kind};
use pami::{
    Client, ClientBuilder, ClientError, Context, Done, Endpoint, Fetched, Limits, Payload, Pools, Process,
    Put, Region, Rights, Send, SendError, Shared, UnexpectedId,
};
use std::ops::{Index, IndexMut};
pub use told::*;

pub type Port = TestPort;

/// What a builder gets besides what the harness says.
pub trait Build: Fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode> {}
impl<F: Fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode>> Build for F {}

pub fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % bound
    }
}

pub fn context(client: &mut Client<TestNode>, offset: u8) -> Context<Port> {
    let memory = client.context_memory().unwrap();
    client.create_context(offset, memory).unwrap()
}

/// Tasks with some contexts each.
pub struct Stage {
    pub clients: Vec<Client<TestNode>>,
    /// Those of task 0, then those of task 1, and so on; then those that were opened later.
    pub contexts: Vec<Context<Port>>,
    pub per_task: usize,
    pub world: &'static World,
    pub random: Random,
    /// How much time passes when a packet may move.
    pub tick_ns: u64,
    pub told: Told,
}

impl Index<usize> for Stage {
    type Output = Context<Port>;

    fn index(&self, context: usize) -> &Context<Port> {
        &self.contexts[context]
    }
}

impl IndexMut<usize> for Stage {
    fn index_mut(&mut self, context: usize) -> &mut Context<Port> {
        &mut self.contexts[context]
    }
}

/// How a stage is set.
impl Stage {
    /// Two tasks that talk, see [`talk`](Self::talk).
    pub fn pair(local: bool, build: impl Build) -> Self {
        Self::talk(2, local, build)
    }

    /// Tasks, each on a node of its own unless `local`, with room for two contexts and one of them. Messages to dispatch id 0
    /// go into buffers, those to [`DEFERRING`] are wanted later.
    pub fn talk(tasks: u32, local: bool, build: impl Build) -> Self {
        let told = Told::new();
        Self::hears(tasks, local, told, told.taker(), build)
    }

    /// The same, with another handler of dispatch id 0.
    pub fn hears(tasks: u32, local: bool, told: Told, handler: Handler, build: impl Build) -> Self {
        let build = |client: ClientBuilder<_>| {
            build(client.contexts(2).dispatch(0, handler).dispatch_deferring(DEFERRING, always_later()))
        };
        Self::of(machine(tasks, local), 1, told, build)
    }

    /// So many contexts of each task, without any handler.
    pub fn of(nodes: Vec<&'static TestNode>, per_task: u8, told: Told, build: impl Build) -> Self {
        let mut stage = Self::closed(nodes, per_task, told, build);
        for task in 0..stage.clients.len() {
            (0..per_task).for_each(|offset| _ = stage.open(task, offset));
        }
        stage
    }

    /// The same, none of which is open.
    pub fn closed(nodes: Vec<&'static TestNode>, per_task: u8, told: Told, build: impl Build) -> Self {
        let world = nodes[0].world;
        let builder = |node| ClientBuilder::new(node, "stage").pools(Pools::LARGE).contexts(per_task);
        let create = |node| build(builder(node)).create().unwrap();
        let clients = nodes.into_iter().map(create).collect();
        let random = Random::new(0);
        Self { clients, contexts: Vec::new(), per_task: per_task.into(), world, random, tick_ns: 0, told }
    }

    /// One more context; its number.
    pub fn open(&mut self, task: usize, offset: u8) -> usize {
        self.contexts.push(context(&mut self.clients[task], offset));
        self.contexts.len() - 1
    }

    /// For collectives: packets move by steps, in random order.
    pub fn new(tasks: u32, per_node: u32, per_task: u8, seed: u64) -> Self {
        Self::with(tasks, per_node, per_task, seed, LIMITS)
    }

    pub fn with(tasks: u32, per_node: u32, per_task: u8, seed: u64, limits: Limits) -> Self {
        Self::steps(machine_of(tasks, per_node), per_task, seed, limits)
    }

    /// On nodes that are on a collective network.
    pub fn on_tree(tasks: u32, per_node: u32, per_task: u8, seed: u64, limits: Limits) -> Self {
        let nodes = machine_of(tasks, per_node);
        nodes[0].world.plant();
        Self::steps(nodes, per_task, seed, limits)
    }

    /// On these, whatever has been there before.
    pub fn steps(nodes: Vec<&'static TestNode>, per_task: u8, seed: u64, limits: Limits) -> Self {
        let stage = Self::of(nodes, per_task, Told::new(), |client| client.collectives(limits));
        stage.world.stepped();
        Self { random: Random::new(seed), ..stage }
    }
}

/// What contexts start.
impl Stage {
    pub fn at(&self, context: usize) -> Endpoint {
        self.contexts[context].endpoint()
    }

    pub fn done(&self, cookie: usize) -> Option<Done<Port>> {
        self.told.done(cookie)
    }

    pub fn message(&self, to: usize, bytes: Vec<u8>) -> Send<'static, Port> {
        message(self.at(to), bytes)
    }

    /// One that its target may want later.
    pub fn deferred(&self, to: usize, bytes: Vec<u8>) -> Send<'static, Port> {
        deferred(self.at(to), bytes)
    }

    /// One from a buffer, both of whose ends are told under this cookie.
    pub fn buffered(&self, to: usize, bytes: &[u8], cookie: usize) -> Send<'static, Port> {
        let payload = Payload::Buffer(filled(bytes), 0..bytes.len());
        let (local_done, remote_done) = (self.done(cookie), self.done(cookie));
        Send { payload, local_done, remote_done, ..self.message(to, Vec::new()) }
    }

    pub fn send(&mut self, from: usize, send: Send<'_, Port>) {
        assert_eq!(self.try_send(from, send), Ok(()));
    }

    pub fn try_send(&mut self, from: usize, send: Send<'_, Port>) -> Result<(), SendError> {
        self.contexts[from].send(send).map_err(|(error, _)| error)
    }

    pub fn say(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        self.send(from, self.message(to, bytes));
    }

    /// The same, and its end at the target is told.
    pub fn say_told(&mut self, from: usize, to: usize, bytes: Vec<u8>, cookie: usize) {
        self.send(from, Send { remote_done: self.done(cookie), ..self.message(to, bytes) });
    }

    pub fn say_later(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        self.send(from, self.deferred(to, bytes));
    }

    pub fn immediate(&mut self, from: usize, to: usize, data: &[u8]) -> Result<(), SendError> {
        let target = self.at(to);
        self.contexts[from].send_immediate(target, 0, &[], data)
    }

    pub fn fence(&mut self, from: usize, to: usize, cookie: usize) {
        let (target, done) = (self.at(to), self.done(cookie).unwrap());
        assert_eq!(self.contexts[from].fence(target, done), Ok(()));
    }

    pub fn fence_tasks(
        &mut self,
        from: usize,
        tasks: impl Into<pami::TaskList>,
        cookie: usize,
    ) -> Result<(), SendError> {
        let done = self.done(cookie).unwrap();
        self.contexts[from].fence_tasks(tasks, done)
    }

    pub fn region(&mut self, at: usize, bytes: &[u8], rights: Rights) -> Region {
        self.contexts[at].register(filled(bytes), rights).map_err(|(error, _)| error).unwrap()
    }

    pub fn put(&mut self, from: usize, put: Put<Port>) {
        assert_eq!(self.contexts[from].put(put).map_err(|(error, _)| error), Ok(()));
    }

    pub fn process(&mut self, from: usize, process: Process<Port>) {
        assert_eq!(self.contexts[from].process(process), Ok(()));
    }

    /// Accepts the first message that a context keeps.
    pub fn accept(&mut self, at: usize) {
        let unexpected = self.contexts[at].unexpected().next().expect("one is kept");
        let (id, total) = (unexpected.id, unexpected.total);
        let then = self.told.on_received(unexpected.header);
        assert_eq!(self.contexts[at].accept(id, buffer(total), then).map_err(|(error, _)| error), Ok(()));
    }

    /// Drops the first one.
    pub fn discard(&mut self, at: usize) {
        let id = self.kept_ids(at)[0];
        assert_eq!(self.contexts[at].discard(id), Ok(()));
    }

    /// How many messages a context keeps.
    pub fn kept(&self, at: usize) -> usize {
        self.contexts[at].unexpected().count()
    }

    pub fn kept_ids(&self, at: usize) -> Vec<UnexpectedId> {
        self.contexts[at].unexpected().map(|unexpected| unexpected.id).collect()
    }

    /// Puts a packet that nobody sent into its target's FIFO.
    pub fn forge(&self, envelope: Envelope, header: &[u8], data: &[u8]) {
        self.world.forge(Packet::new(envelope, header, data));
    }

    /// Destroys a context, if it can be, and makes another one of its memory.
    pub fn destroy(&mut self, at: usize) -> Result<(), ClientError> {
        let last = self.contexts.len() - 1;
        let context = self.contexts.swap_remove(at);
        let (client, offset) =
            (&mut self.clients[context.endpoint().task() as usize], context.endpoint().context());
        let (context, destroyed) = match client.destroy_context(context) {
            Ok(memory) => (client.create_context(offset.0, memory).unwrap(), Ok(())),
            Err((error, context)) => (context, Err(error)),
        };
        self.contexts.push(context);
        self.contexts.swap(at, last);
        destroyed
    }
}

/// What moves.
impl Stage {
    /// All contexts advance until nothing moves.
    pub fn quiet(&mut self) {
        while self.contexts.iter_mut().map(|context| context.advance()).sum::<usize>() > 0 {}
    }

    /// Only these do.
    pub fn quiet_of(&mut self, contexts: &[usize]) {
        while contexts.iter().map(|&at| self.contexts[at].advance()).sum::<usize>() > 0 {}
    }

    /// Each of these advances once, in this order.
    pub fn turn(&mut self, contexts: &[usize]) {
        contexts.iter().for_each(|&at| _ = self.contexts[at].advance());
    }

    /// A context advances so many times.
    pub fn advance(&mut self, at: usize, times: usize) {
        (0..times).for_each(|_| _ = self.contexts[at].advance());
    }

    /// These contexts advance, and what may happen does, until nothing moves.
    pub fn run(&mut self, contexts: &[usize], may: impl Fn(&Step) -> bool) {
        loop {
            let moved: usize = contexts.iter().map(|&at| self.contexts[at].advance()).sum();
            if !self.step(&may) && moved == 0 {
                return;
            }
        }
    }

    /// The first thing happens that can and may. Returns whether there was one.
    pub fn step(&self, may: impl Fn(&Step) -> bool) -> bool {
        let mut state = self.world.lock();
        let step = state.steps().into_iter().find(may);
        step.inspect(|&step| state.step(step)).is_some()
    }

    /// Something happens: a context advances, or a packet moves.
    pub fn tick(&mut self) {
        self.tick_of(self.contexts.len());
    }

    /// The same, but only the first so many contexts advance.
    pub fn tick_of(&mut self, contexts: usize) {
        if self.random.below(3) == 0 {
            let which = self.random.below(contexts);
            return self.turn(&[which]);
        }
        let mut state = self.world.lock();
        let steps = state.steps();
        if !steps.is_empty() {
            state.step(steps[self.random.below(steps.len())]);
        }
        state.now += self.tick_ns;
    }

    /// So many things happen, fewer than `bound`.
    pub fn some_ticks(&mut self, bound: usize) {
        (0..self.random.below(bound)).for_each(|_| self.tick());
    }

    /// Things happen until `until` holds.
    pub fn settle(&mut self, what: &str, mut until: impl FnMut() -> bool) {
        for _ in 0..2_000_000 {
            if until() {
                return;
            }
            self.tick();
        }
        panic!("{what}: nothing happens any more");
    }

    /// Things happen until so many ends are told.
    pub fn until(&mut self, ends: usize) {
        let told = self.told;
        self.settle(&format!("{ends} ends"), || told.notes().ends.len() == ends);
    }

    /// Lets everything happen that can.
    pub fn rest(&mut self) {
        (0..20_000).for_each(|_| self.tick());
    }
}

/// What was told.
impl Stage {
    /// Messages in buffers: task, header, data.
    pub fn got(&self) -> Vec<(u32, Vec<u8>, Vec<u8>)> {
        let cut = |got: Got| (got.from, got.header, got.memory[..got.len].to_vec());
        self.receptions().into_iter().map(cut).collect()
    }

    pub fn data(&self) -> Vec<Vec<u8>> {
        self.got().into_iter().map(|(_, _, data)| data).collect()
    }

    pub fn receptions(&self) -> Vec<Got> {
        std::mem::take(&mut self.told.notes().got)
    }

    /// Task, length, total and result of messages in buffers.
    pub fn outcomes(&self) -> Vec<(u32, usize, usize, Result<(), pami::OperationError>)> {
        self.receptions().into_iter().map(|got| (got.from, got.len, got.total, got.result)).collect()
    }

    pub fn parts(&self) -> Vec<Came> {
        std::mem::take(&mut self.told.notes().parts)
    }

    /// Ends by cookie; those of a cookie that gave a buffer back first.
    pub fn ends(&self) -> Vec<End> {
        let mut ends = std::mem::take(&mut self.told.notes().ends);
        ends.sort_by_key(|end| (end.0, end.1.is_none()));
        ends
    }

    /// Results by cookie.
    pub fn results(&self) -> Vec<(usize, Result<(), pami::OperationError>)> {
        self.ends().into_iter().map(|end| (end.0, end.2)).collect()
    }

    /// Cookies of ends, all of which are good, in the order that they were told in.
    pub fn cookies(&self) -> Vec<usize> {
        let ends = std::mem::take(&mut self.told.notes().ends);
        assert!(ends.iter().all(|end| end.2.is_ok()), "{ends:?}");
        ends.into_iter().map(|end| end.0).collect()
    }

    /// All ends were good. They count as looked at.
    pub fn all_good(&self) {
        self.cookies();
    }

    pub fn fetched(&self) -> Vec<Fetched> {
        std::mem::take(&mut self.told.notes().fetched)
    }

    /// Cookies of ends, all of which are good, and [`GOT`] for each message, in the order that they were told in.
    pub fn order(&self) -> Vec<usize> {
        let mut notes = self.told.notes();
        assert!(notes.ends.iter().all(|end| end.2.is_ok()), "{:?}", notes.ends);
        std::mem::take(&mut notes.order)
    }

    /// How many messages, and how many ends, were told and not looked at.
    pub fn counts(&self) -> (usize, usize) {
        let notes = self.told.notes();
        (notes.got.len(), notes.ends.len())
    }

    /// Packets that no context could make sense of.
    pub fn protocol_errors(&self) -> u64 {
        self.contexts.iter().map(|context| context.counters().protocol_errors).sum()
    }

    /// How many packets of this kind crossed the network.
    pub fn count(&self, kind: Kind) -> usize {
        self.world.count(kind)
    }
}

/// Memory that holds these words.
pub fn shared(words: &[u64]) -> Shared {
    let memory = buffer(words.len() * 8).share();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    memory.write(0, &bytes).unwrap();
    memory
}

pub fn words(memory: &Shared) -> Vec<u64> {
    bytes(memory).chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}
