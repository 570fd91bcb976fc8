//! Every table of the engine at its smallest, and random schedules of all that there is (SPEC R-1): all ends, in order, once.
//!
//! A failing seed is printed; `PAMIR_SEED=n` runs it alone. `PAMIR_SEEDS=n` tries that many, `PAMIR_LONG=1` ten thousand.

use crate::machine::{MTU, TestNode, World, buffer, filled, free, machine_of, pattern};
use crate::scene::{Port, leak};
use crate::stage::{Case, Play, Random, Stage, words};
use pami::collective::Collective;
use pami::geometry::Members;
use pami::packet::DEFERRING;
use pami::{
    Active, Client, ClientBuilder, Completion, Done, Factor, Fetched, Get, Layout, Limits, Message,
    OnFetched, OnPart, OnReceived, Part, Payload, Process, Put, Receive, Received, Recipe, Region, Rights,
    Rmw, RmwOp, Send, Shared, Split, Update, Width,
};
use std::collections::BTreeSet;
use std::sync::Mutex;

const NODES: u32 = 3;
const CONTEXTS: u8 = 2;
const ALL: usize = NODES as usize * CONTEXTS as usize;
const SWITCH: usize = 2 * MTU;
const SEEDS: u64 = 500;
const LONG: u64 = 10_000;

/// Handler's choices.
const DONE: u8 = 0;
const LATER_ON: u8 = 1;
const INTO: u8 = 2;
const PACKETS: u8 = 3;

#[derive(Default)]
struct Book {
    open: BTreeSet<usize>,
    /// Fences, with what was started before them.
    behind: Vec<(usize, Vec<usize>)>,
    /// Next message from each to each.
    expected: [[u32; ALL]; ALL],
    /// Messages whose data has come, from each to each.
    whole: [[Vec<u32>; ALL]; ALL],
    wrong: Vec<String>,
    unexpected: usize,
}

fn place_of(endpoint: pami::Endpoint) -> usize {
    endpoint.task() as usize * usize::from(CONTEXTS) + usize::from(endpoint.context().0)
}

type Call<T> = &'static (dyn Fn(&mut Active<Port>, T) + Sync);

struct Run {
    stage: Stage,
    book: &'static Mutex<Book>,
    done: Call<Completion>,
    received: Call<Received>,
    regions: Vec<Region>,
    sums: Vec<Shared>,
    /// What processing should have added up to.
    added: Vec<u64>,
    /// A word of each context for what others put there, and one for what they add up.
    boards: Vec<Region>,
    /// A word of each context for what it gets from others.
    into: Vec<Shared>,
    fetched: Call<Fetched>,
    /// From each to each.
    puts: [[u64; ALL]; ALL],
    updates: [[u64; ALL]; ALL],
    started: Vec<(usize, usize)>,
    sent: [[u32; ALL]; ALL],
    unexpected: usize,
}

fn build(
    node: &'static TestNode,
    book: &'static Mutex<Book>,
    received: Call<Received>,
    sizes: (usize, usize, usize),
    limits: Limits,
) -> Client<TestNode> {
    let (operations, receptions, unexpected) = sizes;
    let part = leak(move |_: &mut Active<Port>, part: &Part<'_>| {
        let (number, from) = (part.cookie as u32, place_of(part.origin));
        let mut book = book.lock().unwrap();
        if pattern(part.total, number as usize)[part.offset..][..part.data.len()] != *part.data {
            book.wrong.push(format!("a part of message {number} of {from}"));
        }
    });
    let take = move |active: &mut Active<Port>, message: &Message<'_>| {
        let number = u32::from_le_bytes(message.header[..4].try_into().unwrap());
        let (from, to) = (place_of(message.origin), place_of(active.endpoint()));
        let mut book = book.lock().unwrap();
        if book.expected[from][to] != number {
            let due = book.expected[from][to];
            book.wrong.push(format!("{from} to {to}: message {number} when {due} was due"));
        }
        let on = OnReceived { call: received, cookie: number as usize };
        let wish = match message.header[4] {
            DONE => Some(Receive::Done),
            LATER_ON if active.can_keep(message) => None,
            PACKETS => Some(Receive::Packets(OnPart { call: part, cookie: number as usize })),
            _ => Some(Receive::Into(buffer(message.total), on)),
        };
        let refused = wish.is_none() && active.unexpected().count() == book.unexpected;
        book.expected[from][to] += u32::from(!refused);
        wish
    };
    let plain = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
        take(active, message).expect("what may be wanted later goes to the other id")
    });
    ClientBuilder::new(node, "smallest")
        .contexts(CONTEXTS)
        .rendezvous_from(SWITCH)
        .operations(operations)
        .receive_requests(receptions)
        .unexpected(unexpected)
        .collectives(limits)
        .dispatch(0, plain)
        .dispatch_deferring(DEFERRING, leak(take))
        .create()
        .unwrap()
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let book: &'static Mutex<Book> = leak(Mutex::default());
        let received = leak(move |active: &mut Active<Port>, received: Received| {
            let number = received.cookie as u32;
            let (from, to) = (place_of(received.origin), place_of(active.endpoint()));
            let mut book = book.lock().unwrap();
            let whole = received.result.is_ok() && received.len == received.total;
            if !whole
                || received.buffer.as_slice()[..received.len] != pattern(received.total, number as usize)
            {
                book.wrong.push(format!("{from} to {to}: message {number}"));
            }
            if book.whole[from][to].contains(&number) {
                book.wrong.push(format!("{from} to {to}: message {number} twice"));
            }
            book.whole[from][to].push(number);
            drop(book);
            free(received.buffer);
        });
        let done = leak(move |_: &mut Active<Port>, completion: Completion| {
            let mut book = book.lock().unwrap();
            let operation = completion.cookie;
            if !book.open.remove(&operation) || completion.result.is_err() {
                book.wrong.push(format!("operation {operation} ended twice or with {:?}", completion.result));
            }
            if let Some(at) = book.behind.iter().position(|(fence, _)| *fence == operation) {
                let (_, before) = book.behind.swap_remove(at);
                if let Some(early) = before.iter().find(|before| book.open.contains(before)) {
                    book.wrong.push(format!("fence {operation} ended before {early}"));
                }
            }
            drop(book);
            if let Some(buffer) = completion.buffer {
                free(buffer);
            }
        });
        let fetched = leak(move |_: &mut Active<Port>, fetched: Fetched| {
            let mut book = book.lock().unwrap();
            let operation = fetched.cookie;
            if !book.open.remove(&operation) || fetched.result.is_err() {
                book.wrong.push(format!("update {operation} ended twice or with {:?}", fetched.result));
            }
        });
        let sizes = (1 + random.below(2), 1 + random.below(2), 1 + random.below(2));
        book.lock().unwrap().unexpected = sizes.2;
        let limits = Limits {
            geometries: 3,
            in_flight: 1 + random.below(2),
            always: 2,
            queued: random.below(3),
            early: random.below(3),
            domains: None,
        };
        let nodes = machine_of(NODES, 1);
        let mut clients: Vec<_> =
            nodes.iter().map(|node| build(node, book, received, sizes, limits)).collect();
        let mut contexts = Vec::new();
        for client in &mut clients {
            contexts.extend((0..CONTEXTS).map(|offset| crate::scene::context(client, offset)));
        }
        let world: &'static World = clients[0].node().world;
        world.stepped();
        world.lock().moody = seed + 1;
        let mut regions = Vec::new();
        let mut sums = Vec::new();
        let (mut boards, mut into) = (Vec::new(), Vec::new());
        for context in &mut contexts {
            boards.push(context.register(filled(&[0; 16 * ALL]), Rights::all()).ok().unwrap());
            into.push(filled(&[0; 8 * ALL]).share());
            let region = context.register(filled(&[0; 64]), Rights::all()).ok().unwrap();
            sums.push(region.memory().clone());
            regions.push(region);
        }
        let told = crate::stage::Told::new();
        let stage = Stage { clients, contexts, per_task: CONTEXTS.into(), world, random, told };
        let (started, sent, added, unexpected) = (Vec::new(), Default::default(), vec![0; ALL], sizes.2);
        let (puts, updates) = Default::default();
        Self {
            stage,
            book,
            done,
            received,
            regions,
            sums,
            added,
            boards,
            into,
            fetched,
            puts,
            updates,
            started,
            sent,
            unexpected,
        }
    }

    fn open(&mut self, from: usize, to: usize) -> usize {
        let operation = self.started.len();
        self.started.push((from, to));
        self.book.lock().unwrap().open.insert(operation);
        operation
    }

    fn refused(&mut self, operation: usize) {
        self.book.lock().unwrap().open.remove(&operation);
    }

    fn done(&self, cookie: usize) -> Option<Done<Port>> {
        Some(Done { call: self.done, cookie })
    }

    fn start(&mut self) {
        let (from, to) = (self.stage.random.below(ALL), self.stage.random.below(ALL));
        match self.stage.random.below(8) {
            0..3 => self.send(from, to),
            3 => self.fence(from, to),
            4 => self.process(from, to),
            5 => self.one_sided(from, to),
            6 => self.update(from, to),
            _ => _ = self.accept(from, 1),
        }
    }

    fn send(&mut self, from: usize, to: usize) {
        let number = self.sent[from][to];
        let len = [0, 9, 100, 300, SWITCH - 1, SWITCH, 3 * SWITCH][self.stage.random.below(7)];
        let choice = [DONE, LATER_ON, INTO, PACKETS][self.stage.random.below(4)];
        let mut header = number.to_le_bytes().to_vec();
        header.push(choice);
        let dispatch = if choice == LATER_ON || self.stage.random.below(4) == 0 { DEFERRING } else { 0 };
        let (data, target) = (pattern(len, number as usize), self.stage.contexts[to].endpoint());
        if len < 400 && self.stage.random.below(2) == 0 {
            let sent = self.stage.contexts[from].send_immediate(target, dispatch, &header, &data);
            self.sent[from][to] += u32::from(sent.is_ok());
            return;
        }
        let (local, remote) = (self.open(from, to), self.open(from, to));
        let wants = self.stage.random.below(2) == 0;
        let send = Send {
            target,
            dispatch,
            header: &header,
            payload: Payload::Buffer(filled(&data), 0..len),
            layout: Layout::Contiguous,
            local_done: self.done(local),
            remote_done: self.done(remote).filter(|_| wants),
        };
        let sent = self.stage.contexts[from].send(send).is_ok();
        self.sent[from][to] += u32::from(sent);
        if !sent {
            self.refused(local);
        }
        if !sent || !wants {
            self.refused(remote);
        }
    }

    /// Puts the next number into the origin's word at the target, or gets it.
    fn one_sided(&mut self, from: usize, to: usize) {
        let operation = self.open(from, to);
        let (target, region) = (self.stage.contexts[to].endpoint(), self.boards[to].handle());
        let (offset, done) = (8 * from as u32, self.done(operation));
        let contiguous = || Layout::Contiguous;
        let begun = if self.stage.random.below(2) == 0 {
            let number = self.puts[from][to] + 1;
            let put = Put {
                target,
                region,
                offset,
                layout: contiguous(),
                payload: Payload::Buffer(filled(&number.to_ne_bytes()), 0..8),
                payload_layout: contiguous(),
                local_done: None,
                remote_done: done,
            };
            let begun = self.stage.contexts[from].put(put).is_ok();
            self.puts[from][to] += u64::from(begun);
            begun
        } else {
            let (into, at) = (self.into[from].clone(), 8 * to as u32);
            let into_layout = contiguous();
            let get =
                Get { target, region, offset, layout: contiguous(), into, at, into_layout, len: 8, done };
            self.stage.contexts[from].get(get).is_ok()
        };
        if !begun {
            self.refused(operation);
        }
    }

    fn update(&mut self, from: usize, to: usize) {
        let operation = self.open(from, to);
        let (target, region) = (self.stage.contexts[to].endpoint(), self.boards[to].handle());
        let op = RmwOp { width: Width::Eight, update: Update::Add(1) };
        let done = Some(OnFetched { call: self.fetched, cookie: operation });
        let rmw = Rmw { target, region, offset: 8 * (ALL + from) as u32, op, done };
        if self.stage.contexts[from].rmw(rmw).is_ok() {
            self.updates[from][to] += 1;
        } else {
            self.refused(operation);
        }
    }

    fn fence(&mut self, from: usize, to: usize) {
        let all = self.stage.random.below(3) == 0;
        // A fence of one endpoint does not wait for one of many.
        let operation = self.open(from, if all { ALL } else { to });
        let (done, target) = (self.done(operation).unwrap(), self.stage.contexts[to].endpoint());
        let context = &mut self.stage.contexts[from];
        let begun = if all { context.fence_tasks(0..NODES, done) } else { context.fence(target, done) };
        if begun.is_err() {
            return self.refused(operation);
        }
        let mut book = self.book.lock().unwrap();
        let covers = |&(origin, place): &(usize, usize)| origin == from && (all || place == to);
        let earlier = self.started[..operation].iter().enumerate().filter(|(_, started)| covers(started));
        let before = earlier.map(|(other, _)| other).filter(|other| book.open.contains(other)).collect();
        book.behind.push((operation, before));
    }

    fn process(&mut self, from: usize, to: usize) {
        let (local, remote) = (self.open(from, to), self.open(from, to));
        let message = filled(&[1u64.to_ne_bytes(); 8].concat()).share();
        let process = Process {
            target: self.stage.contexts[to].endpoint(),
            region: self.regions[to].handle(),
            offset: 0,
            memory: message,
            range: 0..64,
            recipe: Recipe::accumulate(Factor::I64(3)),
            split: if self.stage.random.below(2) == 0 { Split::TargetOnly } else { Split::Advice },
            local_done: self.done(local),
            remote_done: self.done(remote),
        };
        if self.stage.contexts[from].process(process).is_ok() {
            self.added[to] += 3;
        } else {
            self.refused(local);
            self.refused(remote);
        }
    }

    /// Accepts some of what a context keeps. Returns how many.
    fn accept(&mut self, place: usize, most: usize) -> usize {
        let unexpected: Vec<_> = self.stage.contexts[place]
            .unexpected()
            .map(|unexpected| {
                (
                    unexpected.id,
                    unexpected.total,
                    u32::from_le_bytes(unexpected.header[..4].try_into().unwrap()),
                )
            })
            .take(most)
            .collect();
        let mut accepted = 0;
        for (id, total, number) in unexpected {
            let then = OnReceived { call: self.received, cookie: number as usize };
            accepted += usize::from(self.stage.contexts[place].accept(id, buffer(total), then).is_ok());
        }
        accepted
    }

    /// Collectives on two geometries that share members.
    fn collectives(&mut self) -> Play {
        let population = self.stage.population();
        let geometries = [1, CONTEXTS].map(|contexts| {
            let members = Members::world(population, 0..contexts).unwrap();
            (self.stage.create(contexts.into(), members, None), members)
        });
        let random = &mut self.stage.random;
        let mut cases = Vec::new();
        for salt in 0..random.below(8) as u64 {
            let what = [
                Collective::Barrier,
                Collective::Broadcast,
                Collective::Gather,
                Collective::Allreduce,
                Collective::Alltoall,
                Collective::Scatter,
            ][random.below(6)];
            let (geometry, members) = geometries[random.below(2)];
            let size = members.size();
            let (root, len) = (random.below(size as usize) as u32, [1, 20, 300][random.below(3)]);
            cases.push((
                Case {
                    geometry,
                    what,
                    algorithm: None,
                    size,
                    root,
                    len,
                    in_place: false,
                    salt,
                    aligned: false,
                    scratch_limit: usize::MAX,
                },
                members,
            ));
        }
        Play::new(&self.stage, cases)
    }

    fn is_over(&self, play: &Play) -> bool {
        let book = self.book.lock().unwrap();
        let idle = self.stage.contexts.iter().all(|context| context.unexpected().count() == 0);
        book.open.is_empty() && play.is_over() && self.sent == book.expected && idle
    }

    fn play(mut self) -> Vec<String> {
        let mut play = self.collectives();
        let length = 40 + self.stage.random.below(120);
        for _ in 0..length {
            match self.stage.random.below(5) {
                0 | 1 => self.start(),
                2 => _ = play.start_one(&mut self.stage),
                _ => {}
            }
            for _ in 0..self.stage.random.below(6) {
                self.stage.tick();
            }
        }
        // What is left to be started is, and everything ends.
        for _ in 0..100_000 {
            play.start_one(&mut self.stage);
            for _ in 0..4 {
                self.stage.tick();
            }
            // Time passes, for those that ask again after a while.
            self.stage.world.lock().now += 1_000_000;
            let which = self.stage.random.below(ALL);
            self.accept(which, self.unexpected);
            if self.is_over(&play) {
                break;
            }
        }
        let mut book = self.book.lock().unwrap();
        let mut wrong = std::mem::take(&mut book.wrong);
        let open: Vec<_> = book.open.iter().map(|&number| (number, self.started[number])).collect();
        if !open.is_empty() {
            wrong.push(format!("never ended: {open:?}"));
        }
        for from in 0..ALL {
            for to in 0..ALL {
                let (sent, came) = (self.sent[from][to], book.expected[from][to]);
                if sent != came {
                    wrong.push(format!("{from} to {to}: {came} of {sent} messages came"));
                }
            }
        }
        for (place, (sum, &expected)) in self.sums.iter().zip(&self.added).enumerate() {
            if words(sum) != [expected; 8] {
                wrong.push(format!("{place}: {:?} instead of {expected}", words(sum)));
            }
        }
        for (to, board) in self.boards.iter().enumerate() {
            let (board, puts) = (words(board.memory()), self.puts.map(|puts| puts[to]));
            let updates = self.updates.map(|updates| updates[to]);
            if board[..ALL] != puts || board[ALL..] != updates {
                wrong.push(format!("{to}: {board:?} instead of {puts:?} and {updates:?}"));
            }
            let got = words(&self.into[to]);
            if got.iter().zip(&self.puts[to]).any(|(got, put)| got > put) {
                wrong.push(format!("{to} got {got:?} of {:?}", self.puts[to]));
            }
        }
        if !play.is_over() {
            wrong.push("a collective never ended".into());
        } else {
            play.check();
        }
        for context in &self.stage.contexts {
            if context.counters().protocol_errors > 0 {
                wrong.push(format!(
                    "{:?} counts {} strays",
                    context.endpoint(),
                    context.counters().protocol_errors
                ));
            }
        }
        wrong
    }
}

#[test]
fn r1_with_tables_of_one_or_two_places_every_schedule_ends() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let long = std::env::var("PAMIR_LONG").is_ok_and(|set| set == "1");
    let seeds = match number("PAMIR_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PAMIR_SEEDS").unwrap_or(if long { LONG } else { SEEDS }),
    };
    for seed in seeds {
        let wrong = Run::new(seed).play();
        assert!(wrong.is_empty(), "PAMIR_SEED={seed} runs it again: {wrong:#?}");
    }
}
