//! Many random programs on a machine that moves packets in random order: whatever the order, what the contract says holds.
//! With large tables, or those of a client that names none (SPEC R-9), nodes die; with every table at its smallest (SPEC R-1)
//! there are collectives.
//!
//! A failing seed is printed; `PAMIR_SEED=n` runs it alone. `PAMIR_SEEDS=n` tries that many, `PAMIR_LONG=1` ten thousand.

mod book;

use crate::machine::{MTU, QUEUE, TestPort, buffer, filled, machine_of, pattern};
use crate::stage::{Case, Play, Port, Random, Stage, Told, get, leak, message, process, put, rmw, words};
use book::{Book, Calls, DONE, INTO, LATER, PACKETS, RUNS, calls, handlers};
use pami::collective::Collective;
use pami::geometry::Members;
use pami::memory::ContextMemory;
use pami::packet::DEFERRING;
use pami::{
    ClientBuilder, Done, Factor, Get, Layout, Limits, OnFetched, OnReceived, Payload, Pools, Process, Put,
    Recipe, Region, Rights, Rmw, Send, Shared, Split, Update,
};
use std::sync::Mutex;

const TASKS: usize = 3;
/// Most contexts of all tasks.
const MOST: usize = 2 * TASKS;
/// Places for what is owed to peers, for all.
const ENOUGH: usize = 100;
const SWITCH: usize = 3 * MTU;
const LENGTHS: [usize; 7] = [0, 9, 300, 2 * MTU, SWITCH - 1, SWITCH, 4 * SWITCH];
/// Bytes of a region, of which the first word is updated, and puts go behind it.
const REGION: usize = 2048;

/// How large every table is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    Large,
    /// As of a client that names none.
    Small,
    /// One or two places.
    Tight,
}

struct Run {
    stage: Stage,
    /// Whether every table is at its smallest.
    tight: bool,
    /// Whether there are more endpoints than places for what is owed to them.
    crowded: bool,
    book: &'static Mutex<Book>,
    calls: Calls,
    regions: Vec<Region>,
    into: Vec<Shared>,
    /// A word of each context for what others put there, and one for what they add up.
    boards: Vec<Region>,
    /// A word of each context for what it gets from others.
    got: Vec<Shared>,
    /// What is processed, and what it should have added up to.
    sums: Vec<Region>,
    added: Vec<u64>,
    /// From each to each.
    puts: [[u64; MOST]; MOST],
    updates: [[u64; MOST]; MOST],
    sent: [[u32; MOST]; MOST],
    /// Every operation so far with its origin and target.
    started: Vec<(usize, usize)>,
}

impl Run {
    fn new(seed: u64, tables: Tables, peers: usize, pool: &mut Vec<ContextMemory<TestPort>>) -> Self {
        let mut random = Random::new(seed);
        random.below(2);
        let (tight, small) = (tables == Tables::Tight, tables == Tables::Small);
        let contexts: u8 = if tight { 2 } else { 1 };
        let (operations, receive_requests) = (1 + random.below(2), 1 + random.below(2));
        let pools = match tables {
            Tables::Large => Pools { unexpected: 3, ..Pools::LARGE },
            Tables::Small => Pools::SMALL,
            Tables::Tight => {
                Pools { operations, receive_requests, unexpected: 1 + random.below(2), ..Pools::LARGE }
            }
        };
        let unexpected = pools.unexpected;
        let (in_flight, queued, early) = (1 + random.below(2), random.below(3), random.below(3));
        // More than there are endpoints: without questions.
        let peers = if tight { [1, 1, 2, ENOUGH][random.below(4)] } else { peers };
        let limits = Limits { geometries: 3, in_flight, always: 2, queued, early, domains: None };
        let book: &'static Mutex<Book> =
            leak(Mutex::new(Book { contexts: contexts.into(), unexpected, small, ..Book::default() }));
        let calls = calls(book);
        let (plain, later) = handlers(book, calls.received);
        let build = |client: ClientBuilder<_>| {
            // With small tables more goes eagerly than they keep.
            let client = if small { client } else { client.rendezvous_from(SWITCH) };
            let client = client.contexts(contexts).pools(pools).peers(peers);
            let client = client.dispatch(0, plain).dispatch_deferring(DEFERRING, later);
            if !tight {
                return client;
            }
            client.collectives(limits)
        };
        let local = !tight && random.below(4) == 0;
        let nodes = machine_of(TASKS as u32, if local { TASKS as u32 } else { 1 });
        let mut stage =
            Stage { random, per_task: contexts.into(), ..Stage::of(nodes, 0, Told::new(), build) };
        for client in &mut stage.clients {
            for offset in 0..contexts {
                let memory = pool.pop().unwrap_or_else(|| client.context_memory().unwrap());
                stage.contexts.push(client.create_context(offset, memory).unwrap());
            }
        }
        stage.world.stepped();
        stage.world.lock().moody = seed + 1;
        let all = stage.contexts.len();
        let mut regions = |len: usize| -> Vec<Region> {
            (0..all).map(|at| stage.region(at, &vec![0; len], Rights::all())).collect()
        };
        let (regions, boards, sums) = (regions(REGION), regions(16 * all), regions(64));
        let memory = |len| (0..all).map(|_| buffer(len).share()).collect();
        let (into, got, added) = (memory(REGION), memory(8 * all), vec![0; all]);
        let ((puts, updates), sent, started) = Default::default();
        Self {
            stage,
            tight,
            crowded: peers < ENOUGH,
            book,
            calls,
            regions,
            into,
            boards,
            got,
            sums,
            added,
            puts,
            updates,
            sent,
            started,
        }
    }

    fn all(&self) -> usize {
        self.stage.contexts.len()
    }

    fn roll(&mut self, below: usize) -> usize {
        self.stage.random.below(below)
    }

    fn done(&self, cookie: usize) -> Option<Done<Port>> {
        Some(Done { call: self.calls.done, cookie })
    }

    fn open(&mut self, from: usize, to: usize) -> usize {
        let operation = self.started.len();
        self.started.push((from, to));
        self.book.lock().unwrap().open.insert(operation);
        operation
    }

    /// Takes an operation back that was refused. Returns whether it was taken.
    fn taken(&mut self, operation: usize, taken: bool) -> bool {
        if !taken {
            self.book.lock().unwrap().open.remove(&operation);
        }
        taken
    }

    fn start(&mut self) {
        let all = self.all();
        let (from, to) = (self.roll(all), self.roll(all));
        match self.roll(8) {
            0..3 => self.send(from, to),
            3 => self.fence(from, to),
            4 if self.tight => self.process(from, to),
            5 if self.tight => self.numbers(from, to),
            4 | 5 => self.runs(from, to),
            6 => self.update(from, to),
            _ => _ = self.accept(from, 1),
        }
    }

    fn send(&mut self, from: usize, to: usize) {
        let (number, len) = (self.sent[from][to], LENGTHS[self.roll(7)]);
        let choice = [DONE, RUNS, PACKETS, LATER, INTO][self.roll(5)];
        let mut header = number.to_le_bytes().to_vec();
        header.push(choice);
        let dispatch = if choice == LATER || self.roll(4) == 0 { DEFERRING } else { 0 };
        let (data, target) = (pattern(len, number as usize), self.stage.at(to));
        if len < 400 && self.roll(2) == 0 {
            let sent = self.stage[from].send_immediate(target, dispatch, &header, &data);
            self.sent[from][to] += u32::from(sent.is_ok());
            return;
        }
        let (local, remote) = (self.open(from, to), self.open(from, to));
        let wants = !self.tight || self.roll(2) == 0;
        let payload = Payload::Buffer(filled(&data), 0..len);
        let (local_done, remote_done) = (self.done(local), self.done(remote).filter(|_| wants));
        let bytes = message(target, Vec::new());
        let send = Send { dispatch, header: &header, payload, local_done, remote_done, ..bytes };
        let sent = self.stage[from].send(send).is_ok();
        self.sent[from][to] += u32::from(sent);
        self.taken(local, sent);
        self.taken(remote, sent && wants);
    }

    /// Puts or gets many bytes, in one run or some.
    fn runs(&mut self, from: usize, to: usize) {
        let (operation, len) = (self.open(from, to), 1 + self.roll(1900));
        let (target, region, done) = (self.stage.at(to), self.regions[to].handle(), self.done(operation));
        let strided = Layout::Strided { block: 100, stride: 101 };
        let layout = if self.roll(2) == 0 { Layout::Contiguous } else { strided };
        let taken = if self.roll(2) == 0 {
            let payload = Payload::Static(&[0x5a; 2000][..len]);
            let put = Put { layout, remote_done: done, ..put(target, region, 64, payload) };
            self.stage[from].put(put).is_ok()
        } else {
            let get = Get { layout, done, ..get(target, region, 64, &self.into[from], len) };
            self.stage[from].get(get).is_ok()
        };
        self.taken(operation, taken);
    }

    /// Puts the next number into the origin's word at the target, or gets it.
    fn numbers(&mut self, from: usize, to: usize) {
        let operation = self.open(from, to);
        let (target, region, done) = (self.stage.at(to), self.boards[to].handle(), self.done(operation));
        let offset = 8 * from as u32;
        let taken = if self.roll(2) == 0 {
            let number = self.puts[from][to] + 1;
            let payload = Payload::Buffer(filled(&number.to_ne_bytes()), 0..8);
            let put = Put { remote_done: done, ..put(target, region, offset, payload) };
            let taken = self.stage[from].put(put).is_ok();
            self.puts[from][to] += u64::from(taken);
            taken
        } else {
            let get = Get { at: 8 * to as u32, done, ..get(target, region, offset, &self.got[from], 8) };
            self.stage[from].get(get).is_ok()
        };
        self.taken(operation, taken);
    }

    fn update(&mut self, from: usize, to: usize) {
        let (operation, offset) = (self.open(from, to), 8 * (self.all() + from) as u32);
        let done = Some(OnFetched { call: self.calls.fetched, cookie: operation });
        let add = rmw(self.stage.at(to), self.boards[to].handle(), offset, Update::Add(1));
        let taken = self.stage[from].rmw(Rmw { done, ..add }).is_ok();
        self.updates[from][to] += u64::from(self.taken(operation, taken));
    }

    fn fence(&mut self, from: usize, to: usize) {
        let all = self.roll(3) == 0;
        // A fence of one endpoint does not wait for one of many.
        let operation = self.open(from, if all { MOST } else { to });
        let (done, target) = (self.done(operation).unwrap(), self.stage.at(to));
        let context = &mut self.stage[from];
        let taken =
            if all { context.fence_tasks(0..TASKS as u32, done) } else { context.fence(target, done) };
        if !self.taken(operation, taken.is_ok()) {
            return;
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
        let split = if self.roll(2) == 0 { Split::TargetOnly } else { Split::Advice };
        let recipe = Recipe::accumulate(Factor::I64(3));
        let all = process(self.stage.at(to), &self.sums[to], &message, recipe, split);
        let (local_done, remote_done) = (self.done(local), self.done(remote));
        let taken = self.stage[from].process(Process { local_done, remote_done, ..all }).is_ok();
        self.added[to] += if taken { 3 } else { 0 };
        self.taken(local, taken);
        self.taken(remote, taken);
    }

    /// Accepts some of what a context keeps. Returns how many.
    fn accept(&mut self, at: usize, most: usize) -> usize {
        let number = |header: &[u8]| u32::from_le_bytes(*header.first_chunk().unwrap());
        let kept = self.stage[at].unexpected().map(|kept| (kept.id, kept.total, number(kept.header)));
        let mut kept: Vec<_> = kept.collect();
        let first = if kept.is_empty() { 0 } else { self.roll(kept.len()) };
        kept.rotate_left(first);
        let mut accept = |&(id, total, number): &(_, usize, u32)| {
            let then = OnReceived { call: self.calls.received, cookie: number as usize };
            self.stage.contexts[at].accept(id, buffer(total), then).is_ok()
        };
        kept.iter().take(most).filter(|&&it| accept(&it)).count()
    }

    /// Collectives on two geometries that share members.
    fn collectives(&mut self) -> Play {
        use Collective::{Allreduce, Alltoall, Barrier, Broadcast, Gather, Scatter};
        if !self.tight {
            return Play::new(&self.stage, Vec::new());
        }
        let geometries = [1, 2].map(|contexts| {
            let members = Members::world(self.stage.population(), 0..contexts).unwrap();
            (self.stage.create(contexts.into(), members, None), members)
        });
        let random = &mut self.stage.random;
        let mut cases = Vec::new();
        for salt in 0..random.below(8) as u64 {
            let what = [Barrier, Broadcast, Gather, Allreduce, Alltoall, Scatter][random.below(6)];
            let (geometry, members) = geometries[random.below(2)];
            let size = members.size();
            let (root, len) = (random.below(size as usize) as u32, [1, 20, 300][random.below(3)]);
            cases.push((Case { geometry, what, size, root, len, salt, ..Case::default() }, members));
        }
        Play::new(&self.stage, cases)
    }

    /// How many contexts live: all, or all but the last.
    fn living(&self) -> usize {
        if self.book.lock().unwrap().killed { TASKS - 1 } else { self.all() }
    }

    fn lives(&self, context: usize) -> bool {
        context < self.living()
    }

    fn advance(&mut self, context: usize) -> usize {
        if self.lives(context) { self.stage[context].advance() } else { 0 }
    }

    fn is_over(&self, play: &Play) -> bool {
        let book = self.book.lock().unwrap();
        let idle = self.stage.contexts.iter().all(|context| context.unexpected().count() == 0);
        book.open.is_empty() && play.is_over() && self.sent == book.expected && idle
    }

    /// Plays a program to its end and says what went wrong.
    fn play(mut self, pool: &mut Vec<ContextMemory<TestPort>>) -> Vec<String> {
        let mut play = self.collectives();
        let far = self.stage.world.node_of(TASKS as u32 - 1) == Some(TASKS as u32 - 1);
        let deadly = !self.tight && far && self.roll(8) == 0;
        let length = 40 + self.roll(120);
        for turn in 0..length {
            match self.roll(5) {
                0 | 1 => self.start(),
                2 => _ = play.start_one(&mut self.stage),
                _ => {}
            }
            for _ in 0..self.roll(6) {
                self.stage.tick_of(self.living());
            }
            if deadly && turn == length / 2 {
                self.book.lock().unwrap().killed = true;
                self.stage.world.kill(TASKS as u32 - 1);
            }
        }
        // What is left to be started is, and everything ends.
        if self.tight {
            self.step_to_the_end(&mut play)
        } else {
            self.run_to_the_end()
        }
        self.judge(&play, pool)
    }

    fn step_to_the_end(&mut self, play: &mut Play) {
        let (all, most) = (self.all(), self.book.lock().unwrap().unexpected);
        for _ in 0..100_000 {
            play.start_one(&mut self.stage);
            (0..4).for_each(|_| self.stage.tick_of(self.living()));
            // Time passes, for those that ask again after a while.
            self.stage.world.lock().now += 1_000_000;
            let which = self.roll(all);
            self.accept(which, most);
            if self.is_over(play) {
                break;
            }
        }
    }

    fn run_to_the_end(&mut self) {
        self.stage.world.free_running();
        // Who has found no place for an answer is asked after some rounds.
        let enough = if self.crowded { 20_000 } else { 3 };
        let mut quiet = 0;
        while quiet < enough {
            let advanced: usize = (0..self.all()).map(|context| self.advance(context)).sum();
            let accepted: usize = (0..self.all()).map(|context| self.accept(context, usize::MAX)).sum();
            quiet = if advanced + accepted == 0 { quiet + 1 } else { 0 };
        }
        // Some that have died never ask.
        self.stage.world.lock().now += 64_000_000_000;
    }

    fn judge(self, play: &Play, pool: &mut Vec<ContextMemory<TestPort>>) -> Vec<String> {
        let mut wrong = std::mem::take(&mut self.book.lock().unwrap().wrong);
        let open = self.book.lock().unwrap().open.clone();
        for operation in open.into_iter().filter(|&operation| self.lives(self.started[operation].0)) {
            wrong.push(format!("operation {operation} never ended: {:?}", self.started[operation]));
        }
        let all = self.all();
        for (from, to) in (0..all).flat_map(|from| (0..all).map(move |to| (from, to))) {
            let (sent, came) = (self.sent[from][to], self.book.lock().unwrap().expected[from][to]);
            if sent != came && self.lives(from) && self.lives(to) {
                wrong.push(format!("{from} to {to}: {came} of {sent} messages came"));
            }
        }
        let killed = self.book.lock().unwrap().killed;
        for to in (0..all).filter(|_| !killed) {
            let (sum, added) = (words(self.sums[to].memory()), [self.added[to]; 8]);
            if sum != added {
                wrong.push(format!("{to}: {sum:?} instead of {added:?}"));
            }
            let (board, puts) = (words(self.boards[to].memory()), self.puts.map(|puts| puts[to]));
            let updates = self.updates.map(|updates| updates[to]);
            if board[..all] != puts[..all] || board[all..] != updates[..all] {
                wrong.push(format!("{to}: {board:?} instead of {puts:?} and {updates:?}"));
            }
            let got = words(&self.got[to]);
            if got.iter().zip(&self.puts[to]).any(|(got, put)| got > put) {
                wrong.push(format!("{to} got {got:?} of {:?}", self.puts[to]));
            }
            if self.stage[to].counters().protocol_errors > 0 {
                wrong.push(format!(
                    "{to} counts {} protocol errors",
                    self.stage[to].counters().protocol_errors
                ));
            }
        }
        if play.is_over() {
            play.check();
        } else {
            wrong.push("a collective never ended".into());
        }
        let lives: Vec<_> = (0..all).map(|context| !self.tight && self.lives(context)).collect();
        let contexts = self.stage.contexts.into_iter().zip(self.stage.clients).zip(lives);
        for ((context, mut client), _) in contexts.filter(|(_, lives)| *lives) {
            match client.destroy_context(context) {
                Ok(memory) => pool.push(memory),
                Err((error, context)) => wrong.push(format!("{:?}: {error}", context.endpoint())),
            }
        }
        wrong
    }
}

/// So many seeds, unless the environment says otherwise.
fn programs(count: u64, tables: Tables) {
    let variable = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = 0..variable("PAMIR_SEEDS").unwrap_or(count);
    // By the places for peers: one of a few runs has too few.
    let mut pools = [const { Vec::new() }; 2];
    for seed in variable("PAMIR_SEED").map_or(seeds, |seed| seed..seed + 1) {
        let (peers, pool) = if seed % 32 == 7 { (1, &mut pools[1]) } else { (ENOUGH, &mut pools[0]) };
        let wrong = Run::new(seed, tables, peers, pool).play(pool);
        assert!(wrong.is_empty(), "PAMIR_SEED={seed} runs it again: {wrong:#?}");
    }
}

#[test]
fn d8_f6_p11_ten_thousand_random_orders_violate_nothing() {
    const { assert!(QUEUE < 150, "programs must be long enough to fill the queues") };
    programs(10_000, Tables::Large);
}

#[test]
fn r1_with_tables_of_one_or_two_places_every_schedule_ends() {
    let long = std::env::var("PAMIR_LONG").is_ok_and(|set| set == "1");
    programs(if long { 10_000 } else { 500 }, Tables::Tight);
}

#[test]
fn r9_d8_f6_p11_with_the_pools_of_a_client_that_names_none_random_orders_violate_nothing() {
    programs(3_000, Tables::Small);
}
