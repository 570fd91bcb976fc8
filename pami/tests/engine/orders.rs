//! Many random programs on a machine that moves packets in random order: whatever the order, what the contract says holds.
//!
//! A failing seed is printed; `PAMIR_SEED=n` runs it alone. `PAMIR_SEEDS=n` tries that many.

use crate::machine::{MTU, QUEUE, TestNode, TestPort, World, buffer, filled, free, pattern};
use crate::scene::{Port, clients, leak};
use pami::memory::ContextMemory;
use pami::packet::DEFERRING;
use pami::{
    Active, Client, Completion, Context, Done, Endpoint, Fetched, Get, Layout, Message, OnFetched, OnPart,
    OnReceived, OperationError, Part, Payload, Put, Receive, Received, Region, Rights, Rmw, RmwOp, Send,
    Shared, UnexpectedId, Update, Width,
};
use std::collections::BTreeSet;
use std::sync::Mutex;

const TASKS: usize = 3;
const SWITCH: usize = 3 * MTU;
const SEEDS: u64 = 10_000;

/// A small generator of numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % below
    }
}

/// What all handlers and callbacks write down, and check.
#[derive(Default)]
struct Book {
    /// Callbacks that must still come, by operation; two for a send.
    open: BTreeSet<usize>,
    /// Operations that a fence comes behind.
    behind: Vec<(usize, Vec<usize>)>,
    /// Next number of a message from each task to each.
    expected: [[u32; TASKS]; TASKS],
    violations: Vec<String>,
    killed: bool,
}

impl Book {
    fn end(&mut self, operation: usize, result: Result<(), OperationError>) {
        if !self.open.remove(&operation) {
            self.violations.push(format!("operation {operation} ended twice"));
        }
        match result {
            Ok(()) => {}
            Err(OperationError::NodeDead(node)) if self.killed && node == TASKS as u32 - 1 => {}
            Err(error) => self.violations.push(format!("operation {operation}: {error}")),
        }
        if let Some(at) = self.behind.iter().position(|(fence, _)| *fence == operation) {
            let (_, before) = self.behind.swap_remove(at);
            if let Some(early) = before.iter().find(|operation| self.open.contains(operation)) {
                self.violations.push(format!("fence {operation} ended before {early}"));
            }
        }
    }
}

/// Message data: number, length, then a pattern.
fn data_of(number: u32, len: usize) -> Vec<u8> {
    pattern(len, number as usize)
}

struct Run {
    dice: Dice,
    book: &'static Mutex<Book>,
    world: &'static World,
    clients: Vec<Client<TestNode>>,
    contexts: Vec<Context<Port>>,
    regions: Vec<Region>,
    into: Vec<Shared>,
    /// Every operation so far with its origin and target.
    started: Vec<(usize, usize)>,
    sent: [[u32; TASKS]; TASKS],
    done: &'static (dyn Fn(&mut Active<Port>, Completion) + Sync),
    fetched: &'static (dyn Fn(&mut Active<Port>, Fetched) + Sync),
    then: &'static (dyn Fn(&mut Active<Port>, Received) + Sync),
}

/// The handler of a task: what it does with a message hangs on the message's number.
fn handlers(
    book: &'static Mutex<Book>,
    then: &'static (dyn Fn(&mut Active<Port>, Received) + Sync),
) -> (crate::scene::Handler, crate::scene::DeferringHandler) {
    let part = leak(move |_: &mut Active<Port>, part: &Part<'_>| {
        let number = part.cookie as u32;
        if part.result.is_ok() && data_of(number, part.total)[part.offset..][..part.data.len()] != *part.data
        {
            book.lock().unwrap().violations.push(format!("part of message {number} is wrong"));
        }
    });
    let take = move |active: &mut Active<Port>, message: &Message<'_>| {
        let number = u32::from_le_bytes(message.header[..4].try_into().unwrap());
        let again = message.header[4];
        let mut book = book.lock().unwrap();
        let (from, to) = (message.origin.task() as usize, active.endpoint().task() as usize);
        // A message that found no place is offered again, and no other before it.
        let expected = &mut book.expected[from][to];
        if number != *expected {
            let text = format!("{from} to {to}: message {number} came when {expected} was due");
            book.violations.push(text);
        }
        let on = OnReceived { call: then, cookie: number as usize };
        let room = || buffer(message.total);
        let received = match again {
            0 => Some(Receive::Done),
            1 => Some(Receive::Scatter(room(), Layout::Contiguous, on)),
            2 => Some(Receive::Packets(OnPart { call: part, cookie: number as usize })),
            // What no place has room for would be offered for ever.
            3 if active.can_keep(message) => None,
            _ => Some(Receive::Into(room(), on)),
        };
        // If no place is free it comes again.
        let refused = received.is_none() && active.unexpected().count() == UNEXPECTED;
        book.expected[from][to] += u32::from(!refused);
        received
    };
    let plain = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
        take(active, message).expect("what may be wanted later goes to the other id")
    });
    (plain, leak(take))
}

const UNEXPECTED: usize = 3;

impl Run {
    fn new(seed: u64, pool: &mut Vec<ContextMemory<TestPort>>) -> Self {
        let book: &'static Mutex<Book> = leak(Mutex::default());
        let then = leak(move |_: &mut Active<Port>, received: Received| {
            let mut book = book.lock().unwrap();
            let number = received.cookie as u32;
            let expected = data_of(number, received.total);
            if received.buffer.as_slice()[..received.len] != expected[..received.len] {
                book.violations.push(format!("message {number} is wrong"));
            }
            if received.result.is_ok() && received.len != received.total {
                book.violations.push(format!("message {number} is short"));
            }
            drop(book);
            free(received.buffer);
        });
        let done = leak(move |_: &mut Active<Port>, completion: Completion| {
            book.lock().unwrap().end(completion.cookie, completion.result);
            if let Some(completion_buffer) = completion.buffer {
                free(completion_buffer)
            }
        });
        let fetched = leak(move |_: &mut Active<Port>, fetched: Fetched| {
            book.lock().unwrap().end(fetched.cookie, fetched.result.map(drop));
        });
        let (handler, later) = handlers(book, then);
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        dice.roll(2);
        let local = dice.roll(4) == 0;
        let build = |client: pami::ClientBuilder<TestNode>| {
            client
                .contexts(1)
                .rendezvous_from(SWITCH)
                .unexpected(UNEXPECTED)
                .dispatch(0, handler)
                .dispatch_deferring(DEFERRING, later)
        };
        let mut clients = clients(TASKS as u32, local, build);
        let world = clients[0].node().world;
        world.stepped();
        world.lock().moody = seed + 1;
        let mut contexts: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                let memory = pool.pop().unwrap_or_else(|| client.context_memory().unwrap());
                client.create_context(0, memory).unwrap()
            })
            .collect();
        let region =
            |context: &mut Context<Port>| context.register(buffer(2048), Rights::all()).ok().unwrap();
        let regions = contexts.iter_mut().map(region).collect();
        let into = (0..TASKS).map(|_| buffer(2048).share()).collect();
        let (started, sent) = (Vec::new(), Default::default());
        Self { dice, book, world, clients, contexts, regions, into, started, sent, done, fetched, then }
    }

    fn open(&mut self, from: usize, to: usize) -> usize {
        let operation = self.started.len();
        self.started.push((from, to));
        self.book.lock().unwrap().open.insert(operation);
        operation
    }

    /// Takes an operation back that was refused.
    fn refused(&mut self, operation: usize) {
        self.book.lock().unwrap().open.remove(&operation);
    }

    fn done(&self, cookie: usize) -> Option<Done<Port>> {
        Some(Done { call: self.done, cookie })
    }

    fn start(&mut self) {
        let (from, to) = (self.dice.roll(TASKS), self.dice.roll(TASKS));
        let target = self.contexts[to].endpoint();
        match self.dice.roll(6) {
            0 | 1 => self.send(from, to, target),
            2 => self.put_or_get(from, to, target),
            3 => {
                let operation = self.open(from, to);
                let op = RmwOp { width: Width::Eight, update: Update::Xor(operation as u64) };
                let done = Some(OnFetched { call: self.fetched, cookie: operation });
                let rmw = Rmw { target, region: self.regions[to].handle(), offset: 8, op, done };
                if self.contexts[from].rmw(rmw).is_err() {
                    self.refused(operation);
                }
            }
            4 => self.fence(from, to, target),
            _ => {
                // The unexpected messages of one task.
                let ids: Vec<(UnexpectedId, usize, u32)> = self.contexts[from]
                    .unexpected()
                    .map(|unexpected| {
                        (
                            unexpected.id,
                            unexpected.total,
                            u32::from_le_bytes(unexpected.header[..4].try_into().unwrap()),
                        )
                    })
                    .collect();
                if !ids.is_empty() {
                    let (id, total, number) = ids[self.dice.roll(ids.len())];
                    let then = OnReceived { call: self.then, cookie: number as usize };
                    let _ = self.contexts[from].accept(id, buffer(total), then);
                }
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, target: Endpoint) {
        let number = self.sent[from][to];
        let len = [0, 9, 300, 2 * MTU, SWITCH - 1, SWITCH, 4 * SWITCH][self.dice.roll(7)];
        let mut header = number.to_le_bytes().to_vec();
        let again = self.dice.roll(5) as u8;
        header.push(again);
        let dispatch = if again == 3 || self.dice.roll(4) == 0 { DEFERRING } else { 0 };
        let data = data_of(number, len);
        if len < 400 && self.dice.roll(2) == 0 {
            if self.contexts[from].send_immediate(target, dispatch, &header, &data).is_ok() {
                self.sent[from][to] += 1;
            }
            return;
        }
        let (local, remote) = (self.open(from, to), self.open(from, to));
        let send = Send {
            target,
            dispatch,
            header: &header,
            payload: Payload::Buffer(filled(&data), 0..len),
            layout: Layout::Contiguous,
            local_done: self.done(local),
            remote_done: self.done(remote),
        };
        if self.contexts[from].send(send).is_ok() {
            self.sent[from][to] += 1;
        } else {
            self.refused(local);
            self.refused(remote);
        }
    }

    fn put_or_get(&mut self, from: usize, to: usize, target: Endpoint) {
        let operation = self.open(from, to);
        let (region, len) = (self.regions[to].handle(), 1 + self.dice.roll(1900));
        let done = self.done(operation);
        let layout = if self.dice.roll(2) == 0 {
            Layout::Contiguous
        } else {
            Layout::Strided { block: 100, stride: 101 }
        };
        let refused = if self.dice.roll(2) == 0 {
            let payload = Payload::Static(&[0x5a; 2000][..len]);
            let put = Put {
                target,
                region,
                offset: 64,
                layout,
                payload,
                payload_layout: Layout::Contiguous,
                local_done: None,
                remote_done: done,
            };
            self.contexts[from].put(put).is_err()
        } else {
            let into = self.into[from].clone();
            let into_layout = Layout::Contiguous;
            let get =
                Get { target, region, offset: 64, layout, into, at: 0, into_layout, len: len as u32, done };
            self.contexts[from].get(get).is_err()
        };
        if refused {
            self.refused(operation);
        }
    }

    fn fence(&mut self, from: usize, to: usize, target: Endpoint) {
        let all = self.dice.roll(3) == 0;
        let operation = self.open(from, if all { TASKS } else { to });
        let done = self.done(operation).unwrap();
        let context = &mut self.contexts[from];
        let taken =
            if all { context.fence_tasks(0..TASKS as u32, done) } else { context.fence(target, done) };
        if taken.is_err() {
            self.refused(operation);
            return;
        }
        let mut book = self.book.lock().unwrap();
        let covers = |&(origin, task): &(usize, usize)| origin == from && (all || task == to);
        let earlier = self.started[..operation].iter().enumerate().filter(|(_, started)| covers(started));
        let before = earlier.map(|(other, _)| other).filter(|other| book.open.contains(other)).collect();
        book.behind.push((operation, before));
    }

    fn step(&mut self) {
        let mut state = self.world.lock();
        let steps = state.steps();
        if !steps.is_empty() {
            let step = steps[self.dice.roll(steps.len())];
            state.step(step);
        }
    }

    fn advance(&mut self, task: usize) -> usize {
        let dead = self.book.lock().unwrap().killed && task == TASKS - 1;
        if dead { 0 } else { self.contexts[task].advance() }
    }

    fn accept_all(&mut self) -> usize {
        let mut accepted = 0;
        for context in &mut self.contexts {
            let ids: Vec<_> = context
                .unexpected()
                .map(|unexpected| {
                    (
                        unexpected.id,
                        unexpected.total,
                        u32::from_le_bytes(unexpected.header[..4].try_into().unwrap()),
                    )
                })
                .collect();
            for (id, total, number) in ids {
                let then = OnReceived { call: self.then, cookie: number as usize };
                accepted += usize::from(context.accept(id, buffer(total), then).is_ok());
            }
        }
        accepted
    }

    /// Plays a program to its end and says what went wrong.
    fn play(mut self, pool: &mut Vec<ContextMemory<TestPort>>) -> Vec<String> {
        let deadly = self.dice.roll(8) == 0;
        let length = 20 + self.dice.roll(150);
        for turn in 0..length {
            match self.dice.roll(4) {
                0 => self.start(),
                1 => drop(self.advance_any()),
                _ => self.step(),
            }
            let far = self.clients[0].node().world.node_of(TASKS as u32 - 1) == Some(TASKS as u32 - 1);
            if deadly && far && turn == length / 2 {
                self.book.lock().unwrap().killed = true;
                self.world.kill(TASKS as u32 - 1);
            }
        }
        self.world.free_running();
        let mut quiet = 0;
        while quiet < 3 {
            let events = (0..TASKS).map(|task| self.advance(task)).sum::<usize>() + self.accept_all();
            quiet = if events == 0 { quiet + 1 } else { 0 };
        }
        self.judge(pool)
    }

    fn advance_any(&mut self) -> usize {
        let task = self.dice.roll(TASKS);
        self.advance(task)
    }

    fn judge(self, pool: &mut Vec<ContextMemory<TestPort>>) -> Vec<String> {
        let mut book = self.book.lock().unwrap();
        let killed = book.killed;
        let mut violations = std::mem::take(&mut book.violations);
        let lives = |task: usize| !killed || task < TASKS - 1;
        for operation in &book.open {
            if lives(self.started[*operation].0) {
                violations.push(format!("operation {operation} never ended"));
            }
        }
        for (from, row) in self.sent.iter().enumerate() {
            for (to, &sent) in row.iter().enumerate() {
                if lives(from) && lives(to) && book.expected[from][to] != sent {
                    violations.push(format!("{from} to {to}: {} of {sent} came", book.expected[from][to]));
                }
            }
        }
        drop(book);
        for ((context, mut client), task) in self.contexts.into_iter().zip(self.clients).zip(0..) {
            if context.counters().protocol_errors > 0 && !killed {
                violations.push(format!("task {task} counts {} strays", context.counters().protocol_errors));
            }
            if lives(task) {
                match client.destroy_context(context) {
                    Ok(memory) => pool.push(memory),
                    Err((error, _)) => violations.push(format!("task {task}: {error}")),
                }
            }
        }
        violations
    }
}

#[test]
fn d8_f6_p11_ten_thousand_random_orders_violate_nothing() {
    const { assert!(QUEUE < 150, "programs must be long enough to fill the queues") };
    let mut pool = Vec::new();
    let variable = |name| std::env::var(name).ok().and_then(|number: String| number.parse::<u64>().ok());
    let seeds = 0..variable("PAMIR_SEEDS").unwrap_or(SEEDS);
    for seed in variable("PAMIR_SEED").map_or(seeds, |seed| seed..seed + 1) {
        let violations = Run::new(seed, &mut pool).play(&mut pool);
        assert!(violations.is_empty(), "PAMIR_SEED={seed} runs it again: {violations:#?}");
    }
}
