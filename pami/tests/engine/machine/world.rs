//! The nodes and the network between them.

use super::unit::{Answer, Ask, Injected, Unit};
use super::{MTU, Packet, QUEUE, Tree};
use pami::affinity::{Affinities, HartPlace};
use pami::device::{Arrival, Completed, Full, Path, REQUESTS};
use pami::endpoint::Endpoint;
use pami::mapping::{MapOrder, TaskMap};
use pami::packet::Kind;
use rings::bulletin::Bulletin;
use rings::shared::Shared;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Requests of a node to another that may be under way.
const WINDOW: usize = 16;

type Key = (u16, u32, u8);

fn key(endpoint: Endpoint) -> Key {
    (endpoint.client().0, endpoint.task(), endpoint.context().0)
}

/// A packet that crossed the network: what, from node, to node, bytes of data or, of gets, asked for.
pub type Seen = (Kind, u32, u32, usize);

/// What all tasks share.
pub struct World {
    per_node: u32,
    tasks: u32,
    state: Mutex<State>,
    /// How often somebody who may sleep was woken.
    pub wakes: AtomicU32,
    /// Whether wakers say that something has come.
    pub rung: AtomicBool,
    /// Where threads run, if the kernel knows.
    pub threads: OnceLock<Affinities>,
    /// What configuration has of geometries, as each task's node reads it.
    pub geometries: OnceLock<fn(u32) -> &'static str>,
    /// What happens in the next sleep.
    pub meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// One thing that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first descriptor of this port's injection FIFO goes.
    Send(Key),
    /// The first answer of a node to another goes on by a packet.
    Answer(u32, u32),
    /// Something goes through the collective network.
    Tree,
}

#[derive(Default)]
pub struct PortState {
    pub reception: VecDeque<Packet>,
    pub local: VecDeque<Packet>,
    pub injection: VecDeque<Injected>,
    pub completions: VecDeque<Completed>,
    asks: BTreeMap<usize, Ask>,
    /// Share of the time that its hart slept, of 1000.
    pub idle: u16,
    /// Time that it said it was idle.
    pub idle_ns: u64,
}

pub struct State {
    per_node: u32,
    ports: BTreeMap<Key, PortState>,
    units: Vec<Unit>,
    pub dead: BTreeSet<u32>,
    pub first_dead: Option<u32>,
    pub ended: BTreeSet<u32>,
    pub stepped: bool,
    /// Whether what came within a node lies ready: a first look finds it.
    pub ready: bool,
    /// Refuses packets now and then although there is room, as a unit on another hart that makes room may seem to. 0: never.
    pub moody: u64,
    /// Windows that were opened.
    pub windows: usize,
    /// Whether nodes reach each other's memory.
    pub near: bool,
    /// Whether contexts show each other what they have, and what they show, by place, task and context.
    pub shows: bool,
    /// A task whose memory others do not reach, and what those that they do have exposed.
    pub hides: Option<u32>,
    pub exposed: Vec<Shared>,
    bulletins: BTreeMap<(u8, u32, u8), &'static Bulletin>,
    /// A task whose packets find no room.
    pub muted: Option<u32>,
    pub seen: Vec<Seen>,
    /// Who asked whom, under which message number, in each FENCE packet of the network.
    pub fences: Vec<(Endpoint, u32, Endpoint)>,
    /// Times that a unit was driven.
    pub drives: usize,
    /// Times that a port was asked whether it is quiet.
    pub looks: usize,
    /// Times that a port was asked for its collective network.
    pub network_looks: usize,
    /// The time, which only passes while somebody sleeps.
    pub now: u64,
    /// Nodes that contexts had looked after, in that order; none when a wait was over.
    pub awaited: Vec<Option<u32>>,
    /// A node whose injected packets arrive, and which dies, between a look at a FIFO that finds it empty and the next.
    pub last_words: Option<u32>,
    /// A node that dies when a unit is driven the next time.
    pub dies_driven: Option<u32>,
    /// The collective network, if the nodes are on it.
    pub tree: Option<Tree>,
    /// Bytes of memory that nodes have handed out, and that they have.
    pub taken: usize,
    pub memory: usize,
    /// Bytes of data in the packets that ports took, and bytes that gets asked for.
    pub carried: usize,
    pub got: usize,
}

impl World {
    pub fn new(tasks: u32, per_node: u32) -> Self {
        let units = (0..tasks.div_ceil(per_node)).map(|_| Unit::default()).collect();
        let ports = BTreeMap::new();
        let state = State {
            per_node,
            ports,
            units,
            dead: BTreeSet::new(),
            first_dead: None,
            ended: BTreeSet::new(),
            stepped: false,
            ready: false,
            moody: 0,
            windows: 0,
            near: false,
            shows: false,
            hides: None,
            exposed: Vec::new(),
            bulletins: BTreeMap::new(),
            muted: None,
            seen: Vec::new(),
            fences: Vec::new(),
            drives: 0,
            looks: 0,
            network_looks: 0,
            now: 0,
            awaited: Vec::new(),
            last_words: None,
            dies_driven: None,
            tree: None,
            taken: 0,
            memory: usize::MAX,
            carried: 0,
            got: 0,
        };
        let (state, wakes, meanwhile) = (Mutex::new(state), AtomicU32::new(0), Mutex::new(None));
        Self {
            per_node,
            tasks,
            state,
            wakes,
            rung: AtomicBool::new(false),
            threads: OnceLock::new(),
            geometries: OnceLock::new(),
            meanwhile,
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn node_of(&self, task: u32) -> Option<u32> {
        (task < self.tasks).then_some(task / self.per_node)
    }

    /// Puts all nodes on a collective network, before they are used.
    pub fn plant(&self) {
        self.lock().tree = Some(Tree::new(self.tasks.div_ceil(self.per_node)));
    }

    /// The kernel knows that the `local`-th task of each node runs at `harts[local]`.
    pub fn pin(&self, harts: &'static [HartPlace]) {
        let map = TaskMap::new(self.tasks / self.per_node, self.per_node, MapOrder::TasksFirst).unwrap();
        self.threads.set(Affinities { map, harts }).unwrap();
    }

    /// From now on packets move only by [`step`](State::step).
    pub fn stepped(&self) {
        let mut state = self.lock();
        state.stepped = true;
        if let Some(tree) = &mut state.tree {
            tree.stepped = true;
        }
    }

    /// Back to the default.
    pub fn free_running(&self) {
        let mut state = self.lock();
        (state.stepped, state.moody) = (false, 0);
    }

    /// Puts a packet into a reception FIFO, however full, as a hostile peer might.
    pub fn forge(&self, packet: Packet) {
        let target = packet.envelope().target;
        self.lock().port(target).reception.push_back(packet);
    }

    /// Declares a node dead.
    pub fn kill(&self, node: u32) {
        let mut state = self.lock();
        for (key, port) in &mut state.ports {
            port.asks.retain(|_, ask| ask.node != node);
            if key.1 / self.per_node == node {
                // Real data would have been copied onto the wire; here it is still lent by its sender.
                port.reception.clear();
                port.injection.clear();
            }
        }
        for unit in &mut state.units {
            unit.answers.remove(&node);
        }
        state.units[node as usize].answers.clear();
        state.die(node);
        if let Some(tree) = &mut state.tree {
            tree.dead.insert(node);
        }
    }

    /// How many of the network's packets so far were of this kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.lock().seen.iter().filter(|seen| seen.0 == kind).count()
    }

    /// How many fences of a task the network has seen, by whom they asked: contexts of other nodes.
    pub fn fences_of(&self, task: u32) -> BTreeMap<(u8, u32), Vec<(u32, u8)>> {
        let mut operations = BTreeMap::<_, Vec<_>>::new();
        for &(origin, message, target) in self.lock().fences.iter().filter(|fence| fence.0.task() == task) {
            let asked = operations.entry((origin.context().0, message)).or_default();
            asked.push((target.task(), target.context().0));
        }
        operations
    }
}

impl State {
    /// What a context shows, if any do.
    pub fn bulletin(&mut self, of: Endpoint) -> Option<&'static Bulletin> {
        let key = (of.client().place(), of.task(), of.context().0);
        self.shows.then(|| *self.bulletins.entry(key).or_insert_with(|| Box::leak(Box::default())))
    }

    pub fn port(&mut self, endpoint: Endpoint) -> &mut PortState {
        self.ports.entry(key(endpoint)).or_default()
    }

    pub fn unit_of(&mut self, endpoint: Endpoint) -> &mut Unit {
        &mut self.units[(endpoint.task() / self.per_node) as usize]
    }

    pub fn unit(&mut self, node: u32) -> &mut Unit {
        &mut self.units[node as usize]
    }

    /// A port has seen its FIFOs empty.
    pub fn found_nothing(&mut self) {
        let Some(node) = self.last_words.take() else { return };
        for step in self.steps() {
            while matches!(step, Step::Send(key) if key.1 / self.per_node == node) && self.can(step) {
                self.step(step);
            }
        }
        self.die(node);
    }

    fn die(&mut self, node: u32) {
        self.dead.insert(node);
        self.first_dead = self.first_dead.or(Some(node));
    }

    /// Nodes that are gone.
    pub fn gone(&self) -> u32 {
        (self.dead.len() + self.ended.len()) as u32
    }

    /// Whether a packet of `me` finds no room.
    pub fn holds_back(&mut self, me: Endpoint) -> bool {
        self.muted == Some(me.task()) || self.refuses()
    }

    /// Whether the next packet is refused for no reason.
    pub fn refuses(&mut self) -> bool {
        self.moody ^= self.moody << 13;
        self.moody ^= self.moody >> 7;
        self.moody ^= self.moody << 17;
        self.moody >> 40 & 3 == 1
    }

    pub fn has_room(&mut self, me: Endpoint, path: Path, target: Endpoint) -> bool {
        match path {
            Path::Local(_) => self.port(target).local.len() < QUEUE,
            Path::Torus(_) => self.port(me).injection.len() < QUEUE,
        }
    }

    pub fn push_local(&mut self, packet: Packet) -> Result<(), Full> {
        let local = &mut self.port(packet.envelope().target).local;
        if local.len() >= QUEUE {
            return Err(Full);
        }
        let bytes = packet.data().len();
        local.push_back(packet);
        self.carried += bytes;
        Ok(())
    }

    /// What lies in memory for contexts of nodes that are gone is dropped.
    pub fn drop_local_of_gone(&mut self) {
        let Self { ports, per_node, dead, ended, .. } = self;
        for port in ports.values_mut() {
            port.local.retain(|packet| {
                let node = packet.envelope().target.task() / *per_node;
                !dead.contains(&node) && !ended.contains(&node)
            });
        }
    }

    pub fn inject(&mut self, me: Endpoint, injected: Injected) -> Result<(), Full> {
        let injection = &mut self.port(me).injection;
        if injection.len() >= QUEUE {
            return Err(Full);
        }
        let (envelope, bytes) = (injected.packet.envelope(), injected.packet.data().len());
        injection.push_back(injected);
        if envelope.kind == Kind::Get {
            self.got += envelope.total as usize;
        } else {
            self.carried += bytes;
        }
        Ok(())
    }

    /// What a port's advance does to the machine.
    pub fn progress(&mut self, me: Endpoint) -> bool {
        if self.stepped || self.dead.contains(&(me.task() / self.per_node)) {
            return false;
        }
        let mut moved = false;
        loop {
            let steps = self.steps();
            if steps.is_empty() {
                return moved;
            }
            moved = true;
            for step in steps {
                while self.can(step) {
                    self.step(step);
                }
            }
        }
    }

    /// All that can happen next.
    pub fn steps(&self) -> Vec<Step> {
        let sends = self.ports.keys().copied().map(Step::Send);
        let answers = self
            .units
            .iter()
            .zip(0..)
            .flat_map(|(unit, from)| unit.answers.keys().copied().map(move |to| Step::Answer(from, to)));
        let tree = self.tree.as_ref().filter(|tree| tree.stepped).map(|_| Step::Tree);
        sends.chain(answers).filter(|&step| self.can(step)).chain(tree).collect()
    }

    fn can(&self, step: Step) -> bool {
        match step {
            Step::Send(from) => {
                let (port, own) = (&self.ports[&from], from.1 / self.per_node);
                let Some(first) = port.injection.front().filter(|_| !self.dead.contains(&own)) else {
                    return false;
                };
                let envelope = first.packet.envelope();
                if self.dead.contains(&first.node) {
                    return true;
                }
                if envelope.kind.is_request() {
                    let asks = self.ports.iter().filter(|(key, _)| key.1 / self.per_node == own);
                    let asks = asks.flat_map(|(_, port)| port.asks.values());
                    return asks.filter(|ask| ask.node == first.node).map(|ask| ask.open).sum::<usize>()
                        < WINDOW;
                }
                let target = self.ports.get(&key(envelope.target));
                envelope.kind == Kind::Put || target.is_none_or(|target| target.reception.len() < QUEUE)
            }
            Step::Tree => true,
            Step::Answer(from, to) => {
                let alive = !self.dead.contains(&from) && !self.dead.contains(&to);
                alive && self.units[from as usize].answers.get(&to).is_some_and(|queue| !queue.is_empty())
            }
        }
    }

    /// Lets a thing happen that can.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Send(from) => self.send(from),
            Step::Answer(from, to) => self.answer(from, to),
            Step::Tree => _ = self.tree.as_mut().is_some_and(Tree::step),
        }
    }

    fn send(&mut self, from: Key) {
        let own = from.1 / self.per_node;
        let Some(port) = self.ports.get_mut(&from) else { return };
        let Some(injected) = port.injection.pop_front() else { return };
        let (node, envelope) = (injected.node, injected.packet.envelope());
        if self.dead.contains(&node) {
            return;
        }
        let bytes =
            if envelope.kind == Kind::Get { envelope.total as usize } else { injected.packet.data().len() };
        self.seen.push((envelope.kind, own, node, bytes));
        if envelope.kind == Kind::Fence {
            self.fences.push((envelope.origin, envelope.message, envelope.target));
        }
        if envelope.kind.is_request() {
            let message = envelope.message;
            let ask = Ask { message, node, open: 0, last: false, fault: None };
            let ask = port.asks.entry(message as usize % REQUESTS).or_insert(ask);
            assert_eq!((ask.message, ask.node, ask.last), (message, node, false), "a number in use");
            ask.open += 1;
            ask.last = injected.last;
        }
        if envelope.kind.is_request() || envelope.kind == Kind::Put {
            self.units[node as usize].serve(own, injected);
        } else {
            let signals = matches!(envelope.kind, Kind::PutSignal | Kind::PutSignalAcked);
            let packet = injected.packet;
            let packet = if signals { self.units[node as usize].signalled(packet) } else { packet };
            self.port(envelope.target).reception.push_back(packet);
        }
    }

    fn answer(&mut self, from: u32, to: u32) {
        let unit = &mut self.units[from as usize];
        let Some(queue) = unit.answers.get_mut(&to) else { return };
        let Some(answer) = queue.pop_front() else { return };
        match answer {
            Answer::Reply { to: port, message, result } => {
                self.seen.push((Kind::Reply, from, to, 0));
                self.ended(port, message, result);
            }
            Answer::Data { to: port, message, from: owner, region, offset, len, done, into } => {
                let part = (len - done).min(MTU as u32);
                let bytes =
                    if len == 0 { Ok(Vec::new()) } else { unit.get(owner, region, offset + done, part) };
                let last = bytes.is_err() || done + part == len;
                if !last {
                    let (into, done) = (into.clone(), done + part);
                    let rest =
                        Answer::Data { to: port, message, from: owner, region, offset, len, done, into };
                    self.units[from as usize].answers.entry(to).or_default().push_front(rest);
                }
                let kind = if last { Kind::GetLast } else { Kind::GetData };
                self.seen.push((kind, from, to, bytes.as_ref().map_or(0, Vec::len)));
                if let (Ok(bytes), Some((memory, at))) = (&bytes, &into) {
                    memory.write((at + done) as usize, bytes).expect("pami checks where data goes");
                }
                drop(into);
                if last {
                    self.ended(port, message, bytes.map(|_| 0));
                }
            }
        }
    }

    fn ended(&mut self, port: Endpoint, message: u32, result: Result<u64, pami::RegionFault>) {
        let port = self.port(port);
        let index = message as usize % REQUESTS;
        let Some(ask) = port.asks.get_mut(&index).filter(|ask| ask.message == message) else { return };
        ask.open -= 1;
        ask.fault = ask.fault.or(result.err());
        if let Some(completed) = ask.completed(result.unwrap_or(0)) {
            port.asks.remove(&index);
            port.completions.push_back(completed);
        }
    }
}
