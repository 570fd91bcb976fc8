//! The operations that are fenced, and how to tell that they are done.

use super::ways::{SIDES, Way, Ways};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use kernel::{
    Active, Buffer, Completion, Done, FenceScope, Fetched, Get, JobError, Layout, Message, OnFetched, OnPart,
    OnReceived, Part, Payload, Put, Receive, Received, Rmw, RmwOp, Send, Shared, Task, Update, WORLD, Width,
};
use pami::endpoint::ClientId;
use spin::{Mutex, Once};

type Handler = pami::context::Handler<kernel::Port>;

/// The dispatch id of messages.
pub const MESSAGE: u8 = 1;
/// Operations before each fence.
pub const COUNT: usize = 20;
/// Messages from this size on go by rendezvous, where there is a network between.
pub const RENDEZVOUS_FROM: usize = 8192;
/// All kinds of operations.
pub const KINDS: [OperationKind; 5] = [
    OperationKind::Eager,
    OperationKind::Rendezvous,
    OperationKind::Put,
    OperationKind::Get,
    OperationKind::Update,
];

/// Places in a region: bytes that handlers took in, the word that updates add to, that which a task that ignores all looks at,
/// what was put, the pattern.
const TAKEN: u32 = 0;
const ADDED: u32 = 8;
const SPOKEN: u32 = 16;
const PLACES: u32 = 64;
const PATTERN: u32 = PLACES + (COUNT * LONG) as u32;
/// Bytes of a put or get.
const LONG: usize = 20_000;
/// Bytes of the longest message.
const LONGEST: usize = 40_000;
/// Bytes of the pattern: the data of each operation starts at another place of it, and in each round.
const SPAN: usize = LONGEST + 256;
/// Bytes of a region.
pub const REGION: usize = PATTERN as usize + SPAN;
/// As many long messages as may be under way.
const BUFFERS: usize = 2 * COUNT;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    Eager,
    Rendezvous,
    Put,
    Get,
    Update,
}

impl OperationKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager sends",
            Self::Rendezvous => "rendezvous sends",
            Self::Put => "puts",
            Self::Get => "gets",
            Self::Update => "updates",
        }
    }

    /// Bytes of one operation.
    pub fn size(self) -> usize {
        match self {
            Self::Eager => 3000,
            Self::Rendezvous => LONGEST,
            Self::Put | Self::Get => LONG,
            Self::Update => size_of::<u64>(),
        }
    }
}

fn byte(at: usize) -> u8 {
    (at.wrapping_mul(7) ^ (at >> 8)) as u8
}

/// Whether `bytes` are the pattern's from place `at` on.
fn is_pattern(bytes: &[u8], at: usize) -> bool {
    bytes.iter().zip(at..).all(|(&seen, at)| seen == byte(at))
}

/// Whether each place in `memory` has the pattern from its number and `round` on.
fn has_pattern(memory: &Shared, start: usize, round: usize) -> bool {
    let mut bytes = [0; 512];
    (0..COUNT).all(|number| {
        (0..LONG).step_by(bytes.len()).all(|at| {
            let piece = &mut bytes[..(LONG - at).min(512)];
            memory.read(start + number * LONG + at, piece).is_ok() && is_pattern(piece, number + round + at)
        })
    })
}

/// What handlers and callbacks share.
pub struct State {
    /// The memory of the regions, with the clients that they are for.
    regions: Once<[(ClientId, Shared); SIDES]>,
    buffers: Mutex<heapless::Vec<Buffer, BUFFERS>>,
    /// What was got, and the round of the gets.
    landing: Once<Shared>,
    round: AtomicU32,
    /// Whether all gets of the round had landed when the last fence ended.
    landed: AtomicBool,
    /// Fences that have ended; whether each was the next.
    fences: AtomicU32,
    in_order: AtomicBool,
    /// What the last word was, and how many were fetched.
    word: AtomicU64,
    fetched: AtomicU32,
    failed: AtomicU32,
}

impl State {
    pub fn new(task: &'static Task) -> Result<&'static Self, JobError> {
        let state = task.memory().place(Self {
            regions: Once::new(),
            buffers: Mutex::new(heapless::Vec::new()),
            landing: Once::new(),
            round: AtomicU32::new(0),
            landed: AtomicBool::new(false),
            fences: AtomicU32::new(0),
            in_order: AtomicBool::new(true),
            word: AtomicU64::new(0),
            fetched: AtomicU32::new(0),
            failed: AtomicU32::new(0),
        })?;
        Ok(state)
    }

    /// Notes the regions and gives them their patterns.
    pub fn know(&self, task: &'static Task, ways: &Ways) -> Result<(), JobError> {
        let side = |side: usize| (ways.clients[side].id(), ways.regions[side].memory().clone());
        for (_, memory) in self.regions.call_once(|| [side(0), side(1)]) {
            for at in 0..SPAN {
                let _ = memory.write(PATTERN as usize + at, &[byte(at)]);
            }
        }
        for _ in 0..BUFFERS {
            let _ = self.buffers.lock().push(task.memory().buffer(LONGEST)?);
        }
        Ok(())
    }

    /// Adds to the bytes that came right to this client.
    fn take_in(&self, active: &Active, bytes: &[u8], at: usize) {
        let mut regions = self.regions.get().into_iter().flatten();
        let region = regions.find(|(client, _)| *client == active.endpoint().client());
        if let Some((_, memory)) = region.filter(|_| is_pattern(bytes, at)) {
            let _ = memory.update(TAKEN as usize, Width::Eight, Update::Add(bytes.len() as u64));
        }
    }

    /// The handler of messages: long ones go into buffers while there are some, others are looked at as they pass.
    pub fn handler(&'static self, task: &'static Task) -> Result<Handler, JobError> {
        let whole = task.memory().place(move |active: &mut Active, received: Received| {
            self.take_in(active, &received.buffer.as_slice()[..received.len], received.cookie);
            let _ = self.buffers.lock().push(received.buffer);
        })?;
        let whole = &*whole;
        let part = task.memory().place(move |active: &mut Active, part: &Part| {
            self.take_in(active, part.data, part.cookie + part.offset);
        })?;
        let part = &*part;
        let handler = task.memory().place(move |_: &mut Active, message: &Message| {
            // Where in the pattern its data starts.
            let cookie = message.header.first().map_or(0, |&at| usize::from(at));
            let long = message.total >= RENDEZVOUS_FROM;
            let buffer = if long { self.buffers.lock().pop() } else { None };
            match buffer {
                Some(buffer) => Receive::Into(buffer, OnReceived { call: whole, cookie }),
                None => Receive::Packets(OnPart { call: part, cookie }),
            }
        })?;
        Ok(handler)
    }
}

/// A task's operations and fences.
pub struct Fenced {
    pub ways: Ways,
    state: &'static State,
    pattern: &'static [u8],
    landing: Shared,
    /// By task: what the word was that shows its operations.
    before: &'static mut [u64],
    round: usize,
    fences: u32,
    fetches: u32,
    on_fenced: Done,
    on_fetched: OnFetched,
}

impl Fenced {
    pub fn new(ways: Ways, state: &'static State) -> Result<Self, JobError> {
        let memory = ways.task.memory();
        let mut place = 0..;
        let pattern = memory.fill(SPAN, || place.next().map_or(0, byte))?;
        let landing = memory.buffer(COUNT * LONG)?.share();
        state.landing.call_once(|| landing.clone());
        let fenced = memory.place(move |_: &mut Active, completion: Completion| {
            let ended = state.fences.fetch_add(1, Relaxed) as usize;
            let good = completion.result.is_ok() && completion.cookie == ended;
            state.in_order.fetch_and(good, Relaxed);
            let round = state.round.load(Relaxed) as usize;
            let landed = state.landing.get().is_some_and(|landing| has_pattern(landing, 0, round));
            state.landed.store(landed, Relaxed);
        })?;
        let fetched = memory.place(move |_: &mut Active, fetched: Fetched| {
            state.failed.fetch_add(fetched.result.is_err().into(), Relaxed);
            state.word.store(fetched.result.unwrap_or(0), Relaxed);
            state.fetched.fetch_add(1, Relaxed);
        })?;
        Ok(Self {
            state,
            pattern,
            landing,
            before: memory.fill(ways.task.tasks() as usize, || 0)?,
            round: 0,
            fences: 0,
            fetches: 0,
            on_fenced: Done { call: fenced, cookie: 0 },
            on_fetched: OnFetched { call: fetched, cookie: 0 },
            ways,
        })
    }

    /// Bytes that went to the adapter so far.
    pub fn sent_bytes(&self) -> u64 {
        self.ways.task.unit().statistics().sent_bytes
    }

    /// From now on the data is another.
    pub fn next_round(&mut self) {
        self.round += 1;
        self.state.round.store(self.round as u32, Relaxed);
    }

    /// Notes how things are before operations of `kind` along `way`.
    pub fn prepare(&mut self, way: &Way, kind: OperationKind) -> Result<(), JobError> {
        self.before[way.target.task() as usize] = self.progress(way, kind)?;
        Ok(())
    }

    /// The word that shows how far operations of `kind` have come.
    fn progress(&mut self, way: &Way, kind: OperationKind) -> Result<u64, JobError> {
        match kind {
            OperationKind::Eager | OperationKind::Rendezvous => self.rmw(way, TAKEN),
            OperationKind::Update => self.rmw(way, ADDED),
            OperationKind::Put | OperationKind::Get => Ok(0),
        }
    }

    /// Begins an operation that calls nobody back.
    pub fn begin(&mut self, way: &Way, kind: OperationKind, number: usize) -> Result<(), JobError> {
        let &Way { context, target, region, .. } = way;
        let start = number + self.round;
        let payload = &self.pattern[start..start + kind.size()];
        let into = self.landing.clone();
        let place = (number * LONG) as u32;
        self.ways.attempt(context, |active| match kind {
            OperationKind::Eager | OperationKind::Rendezvous => {
                let send = Send {
                    target,
                    dispatch: MESSAGE,
                    header: &[start as u8],
                    payload: Payload::Static(payload),
                    layout: Layout::Contiguous,
                    local_done: None,
                    remote_done: None,
                };
                active.send(send).map_err(|(error, _)| error)
            }
            OperationKind::Put => {
                let put = Put {
                    target,
                    region,
                    offset: PLACES + place,
                    layout: Layout::Contiguous,
                    payload: Payload::Static(payload),
                    payload_layout: Layout::Contiguous,
                    local_done: None,
                    remote_done: None,
                };
                active.put(put).map_err(|(error, _)| error)
            }
            OperationKind::Get => active.get(Get {
                target,
                region,
                offset: PATTERN + start as u32,
                layout: Layout::Contiguous,
                into: into.clone(),
                at: place,
                into_layout: Layout::Contiguous,
                len: kind.size() as u32,
                done: None,
            }),
            OperationKind::Update => {
                let op = RmwOp { width: Width::Eight, update: Update::Add(number as u64 + 1) };
                active.rmw(Rmw { target, region, offset: ADDED, op, done: None })
            }
        })
    }

    fn next_fence(&mut self) -> Done {
        let done = Done { cookie: self.fences as usize, ..self.on_fenced };
        self.fences += 1;
        done
    }

    /// Begins a fence towards the end of a way.
    pub fn begin_fence(&mut self, way: &Way) -> Result<(), JobError> {
        let (target, done) = (way.target, self.next_fence());
        self.ways.attempt(way.context, |active| active.fence(target, done))
    }

    /// Begins a fence of the puts, gets and updates along a way.
    pub fn begin_fence_of_rma(&mut self, way: &Way) -> Result<(), JobError> {
        let (target, done) = (way.target, self.next_fence());
        self.ways.attempt(way.context, |active| active.fence_rma(target, done))
    }

    /// Advances nothing until [`speak_up`](Self::speak_up) is meant for this task.
    pub fn ignore_all(&self) {
        let memory = self.ways.regions[0].memory();
        let mut word = [0; 8];
        while word == [0; 8] {
            core::hint::spin_loop();
            let _ = memory.read(SPOKEN as usize, &mut word);
        }
    }

    /// Ends the silence of the task at the end of a way.
    pub fn speak_up(&mut self, way: &Way) -> Result<(), JobError> {
        let &Way { context, target, region, .. } = way;
        let op = RmwOp { width: Width::Eight, update: Update::Add(1) };
        self.ways
            .attempt(context, |active| active.rmw(Rmw { target, region, offset: SPOKEN, op, done: None }))
    }

    /// Begins a fence over all contexts of all tasks, or of the geometry of these.
    pub fn begin_fence_of_all(&mut self, of_geometry: bool) -> Result<(), JobError> {
        let (tasks, done) = (self.ways.task.tasks(), self.next_fence());
        self.ways.attempt(0, |active| match of_geometry {
            true => active.fence_geometry(WORLD, FenceScope::AllContexts, done),
            false => active.fence_tasks(0..tasks, done),
        })
    }

    /// Waits for the fences.
    pub fn end_fences(&mut self) -> Result<(), JobError> {
        let (state, fences) = (self.state, self.fences);
        self.ways.wait(|| state.fences.load(Relaxed) >= fences)
    }

    /// Whether every fence ended well, behind those that began before it.
    pub fn in_order(&self) -> bool {
        self.state.in_order.load(Relaxed)
    }

    /// Whether all operations of a kind are done. To be asked once the fence has ended.
    pub fn is_done(&mut self, way: &Way, kind: OperationKind) -> Result<bool, JobError> {
        let since = self.progress(way, kind)?.wrapping_sub(self.before[way.target.task() as usize]);
        let done = match kind {
            OperationKind::Eager | OperationKind::Rendezvous => since == (COUNT * kind.size()) as u64,
            OperationKind::Update => since == (1..=COUNT as u64).sum(),
            OperationKind::Get => self.state.landed.load(Relaxed),
            OperationKind::Put => {
                self.get_back(way)?;
                has_pattern(&self.landing, 0, self.round)
            }
        };
        Ok(done && self.in_order() && self.state.failed.load(Relaxed) == 0)
    }

    /// What was put, by another context than that which put it: its request may overtake what is not on its way.
    fn get_back(&mut self, way: &Way) -> Result<(), JobError> {
        let (target, region, into) = (way.target, way.region, self.landing.clone());
        for at in (0..COUNT * LONG).step_by(512) {
            let _ = into.write(at, &[0; 512][..(COUNT * LONG - at).min(512)]);
        }
        self.ways.attempt(way.context + 1, |active| {
            active.get(Get {
                target,
                region,
                offset: PLACES,
                layout: Layout::Contiguous,
                into: into.clone(),
                at: 0,
                into_layout: Layout::Contiguous,
                len: (COUNT * LONG) as u32,
                done: None,
            })
        })?;
        // In order behind the get.
        self.rmw(way, ADDED).map(drop)
    }

    /// A word of the region at the end of a way.
    fn rmw(&mut self, way: &Way, offset: u32) -> Result<u64, JobError> {
        let (target, region, done) = (way.target, way.region, Some(self.on_fetched));
        let op = RmwOp { width: Width::Eight, update: Update::Add(0) };
        self.fetches += 1;
        self.ways.attempt(way.context + 1, |active| active.rmw(Rmw { target, region, offset, op, done }))?;
        let (state, wanted) = (self.state, self.fetches);
        self.ways.wait(|| state.fetched.load(Relaxed) >= wanted)?;
        Ok(state.word.load(Relaxed))
    }
}
