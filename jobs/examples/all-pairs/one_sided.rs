//! Puts, gets and updates: each context writes to and reads from a region of every context of the job, itself included.
//!
//! A region has words that others update, the data that others get, and a slot for the puts of each endpoint:
//!
//! | part | what |
//! |---|---|
//! | words | two counters that all update, of 64 and of 32 bits; then the same for each endpoint alone |
//! | data | the pattern of the region's endpoint |
//! | slots | zeros, and what was put |

use super::meeting::wait_among_living;
use super::pattern::{GUARD, LARGEST, Like, SHAPES, Shape, byte, clear, difference, shapes};
use super::{EACH, Pairs, endpoint_number};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use kernel::{
    Active, Completion, Done, Endpoint, Fetched, Get, JobError, OnFetched, Payload, Put, Region,
    RegionHandle, Rights, Rmw, RmwOp, SendError, Shared, Update, Width,
};

/// Bytes of a pair of words, of 64 and of 32 bits.
const WORDS: usize = 16;
/// Most bytes by which data is off an aligned place.
const SKEWS: usize = 16;
/// What one piece of data may take, a multiple of any alignment.
const SLOT: usize = LARGEST + 4096;
/// Pairs of a context of this task with one of another.
const PER_TASK: usize = EACH * EACH;
/// How often each context adds 1 to each counter of all.
const ADDITIONS: u64 = 4;

/// What becomes of an endpoint's own word, and what each update finds there.
const UPDATES: [(Update, u64); 8] = [
    (Update::Add(5), 0),
    (Update::Or(0xF0), 5),
    (Update::And(0x3C), 0xF5),
    (Update::Xor(u64::MAX), 0x34),
    (Update::Swap(7), !0x34),
    (Update::CompareSwap { expected: 7, new: 9 }, 7),
    (Update::CompareSwap { expected: 7, new: 1 }, 9),
    (Update::Add(u64::MAX), 9),
];
/// What it is then.
const UPDATED: u64 = 8;

struct State {
    /// Puts that were answered, gets, updates.
    ended: AtomicU32,
    fences: AtomicU32,
    wrong: AtomicU64,
    /// The sum of all that counters were found at.
    found: AtomicU64,
}

impl State {
    fn count_wrong(&self, wrong: bool) {
        self.wrong.fetch_add(wrong.into(), Relaxed);
    }
}

/// One task's end of the one-sided operations.
pub struct OneSided<'a> {
    pairs: &'a mut Pairs,
    state: &'static State,
    regions: [Region; EACH],
    /// Everybody's, by context and task.
    handles: [&'static [RegionHandle]; EACH],
    /// What is got lands here.
    landing: Shared,
    on_ended: Done,
    on_fenced: Done,
    on_fetched: OnFetched,
    on_counted: OnFetched,
    /// Operations so far that call back.
    begun: u32,
}

impl<'a> OneSided<'a> {
    pub fn new(pairs: &'a mut Pairs) -> Result<Self, JobError> {
        let (memory, endpoints) = (pairs.task.memory(), pairs.endpoints());
        let state: &'static State = memory.place(State {
            ended: AtomicU32::new(0),
            fences: AtomicU32::new(0),
            wrong: AtomicU64::new(0),
            found: AtomicU64::new(0),
        })?;
        let ended = memory.place(move |_: &mut Active, completion: Completion| {
            state.count_wrong(completion.result.is_err());
            state.ended.fetch_add(1, Relaxed);
        })?;
        let fenced = memory.place(move |_: &mut Active, completion: Completion| {
            state.count_wrong(completion.result.is_err());
            state.fences.fetch_add(1, Relaxed);
        })?;
        let fetched = memory.place(move |_: &mut Active, fetched: Fetched| {
            state.count_wrong(fetched.result != Ok(fetched.cookie as u64));
            state.ended.fetch_add(1, Relaxed);
        })?;
        let counted = memory.place(move |_: &mut Active, fetched: Fetched| {
            state.count_wrong(fetched.result.is_err());
            state.found.fetch_add(fetched.result.unwrap_or(0), Relaxed);
            state.ended.fetch_add(1, Relaxed);
        })?;
        let mut regions = heapless::Vec::<Region, EACH>::new();
        let mut handles: [&[RegionHandle]; EACH] = [&[]; EACH];
        for (context, handles) in handles.iter_mut().enumerate() {
            let mut buffer = memory.buffer(slot(endpoints, endpoints))?;
            let from = endpoint_number(pairs.contexts[context].endpoint());
            let data = &mut buffer.as_mut_slice()[data(endpoints)..][..SLOT];
            data.iter_mut().enumerate().for_each(|(at, place)| *place = byte(at, from));
            let rights = Rights::READ | Rights::WRITE | Rights::UPDATE;
            let region = pairs.contexts[context].register(buffer, rights).map_err(|(error, _)| error)?;
            *handles = pairs.meeting.handles(&pairs.client, &mut pairs.contexts, region.handle())?;
            let _ = regions.push(region);
        }
        let landing = memory.buffer(PER_TASK * SLOT)?.share();
        Ok(Self {
            pairs,
            state,
            regions: regions.into_array().map_err(|_| JobError::Other("a context has no region"))?,
            handles,
            landing,
            on_ended: Done { call: ended, cookie: 0 },
            on_fenced: Done { call: fenced, cookie: 0 },
            on_fetched: OnFetched { call: fetched, cookie: 0 },
            on_counted: OnFetched { call: counted, cookie: 0 },
            begun: 0,
        })
    }

    /// Returns how much was wrong.
    pub fn run(&mut self) -> Result<u64, JobError> {
        let mtu = self.pairs.contexts[0].immediate_limit();
        for (number, shape) in shapes(mtu).into_iter().enumerate() {
            self.put_all(number, &shape)?;
            self.fence()?;
            self.meet([0; 2])?;
            self.check_slots(number, &shape);
            self.get_all(number, &shape)?;
            self.meet([0; 2])?;
        }
        self.update_all()?;
        let wrong = self.state.wrong.load(Relaxed) + self.pairs.protocol_errors();
        let endpoints = self.pairs.endpoints() as u64;
        let wrong = self.meet([wrong, 0])?[0];
        if self.pairs.task.number() == 0 {
            let moves = endpoints * endpoints * SHAPES as u64;
            let updates = endpoints * endpoints * 2 * (ADDITIONS + UPDATES.len() as u64);
            defmt::println!(
                "{=u64} puts and gets, {=u64} updates between {=u64} endpoints, {=u64} wrong",
                moves,
                updates,
                endpoints,
                wrong
            );
        }
        Ok(wrong)
    }

    fn put_all(&mut self, number: usize, shape: &Shape) -> Result<(), JobError> {
        for (context, to, to_context) in self.each_pair() {
            let target = self.pairs.client.endpoint(to, to_context)?;
            let from = endpoint_number(self.pairs.contexts[context].endpoint());
            let (region, offset) = (self.handle(target), self.slot(from) + skew(number, from));
            let (memory, start) = (self.regions[context].memory().clone(), self.data() + number);
            // Half of them are answered; the fence waits for the others all the same.
            let remote_done = (target.context().0 == 1).then_some(self.on_ended);
            self.begun += u32::from(remote_done.is_some());
            let end = start + shape.source.reach(shape.len as u32).unwrap_or(0) as usize;
            self.attempt(context, |active| {
                let put = Put {
                    target,
                    region,
                    offset: offset as u32,
                    layout: shape.sink,
                    payload: Payload::Shared(memory.clone(), start..end),
                    payload_layout: shape.source,
                    local_done: None,
                    remote_done,
                };
                active.put(put).map_err(|(error, _)| error)
            })?;
        }
        Ok(())
    }

    /// All that this task has put is in its place then.
    fn fence(&mut self) -> Result<(), JobError> {
        let (state, tasks, done) = (self.state, self.pairs.task.tasks(), self.on_fenced);
        let wanted = state.fences.load(Relaxed) + EACH as u32;
        for context in 0..EACH {
            self.attempt(context, |active| active.fence_tasks(0..tasks, done))?;
        }
        self.wait(|| state.fences.load(Relaxed) >= wanted)?;
        state.count_wrong(state.ended.load(Relaxed) != self.begun);
        Ok(())
    }

    /// Looks at what the others have put, and makes room for more.
    fn check_slots(&mut self, number: usize, shape: &Shape) {
        for region in &self.regions {
            for from in 0..self.pairs.endpoints() {
                let slot = self.slot(from);
                let good = shape.is_in(region.memory(), slot + skew(number, from), self.like(number, from));
                self.state.count_wrong(!good);
                if number + 1 < SHAPES {
                    clear(region.memory(), slot, SKEWS + shape.reach());
                }
            }
        }
    }

    fn get_all(&mut self, number: usize, shape: &Shape) -> Result<(), JobError> {
        let state = self.state;
        let place = |at: usize| at % PER_TASK * SLOT + skew(number, at % PER_TASK);
        for (at, (context, to, to_context)) in self.each_pair().enumerate() {
            let target = self.pairs.client.endpoint(to, to_context)?;
            let (region, start) = (self.handle(target), self.data() + number);
            let (into, done) = (self.landing.clone(), self.on_ended);
            self.begun += 1;
            self.attempt(context, |active| {
                active.get(Get {
                    target,
                    region,
                    offset: start as u32,
                    layout: shape.source,
                    into: into.clone(),
                    at: place(at) as u32,
                    into_layout: shape.sink,
                    len: shape.len as u32,
                    done: Some(done),
                })
            })?;
            if (at + 1) % PER_TASK > 0 {
                continue;
            }
            let begun = self.begun;
            self.wait(|| state.ended.load(Relaxed) >= begun)?;
            for at in 0..PER_TASK {
                let from = to as usize * EACH + at % EACH;
                let like = self.like(number, from);
                state.count_wrong(!shape.is_in(&self.landing, place(at), like));
            }
        }
        if number + 1 < SHAPES {
            (0..PER_TASK).for_each(|at| clear(&self.landing, at * SLOT, SKEWS + shape.reach()));
        }
        Ok(())
    }

    fn update_all(&mut self) -> Result<(), JobError> {
        for (context, to, to_context) in self.each_pair() {
            let target = self.pairs.client.endpoint(to, to_context)?;
            let own = (1 + endpoint_number(self.pairs.contexts[context].endpoint())) * WORDS;
            for (width, place) in [(Width::Eight, 0), (Width::Four, 8)] {
                let mask = if width == Width::Four { u64::from(u32::MAX) } else { u64::MAX };
                for (update, found) in UPDATES {
                    let done = OnFetched { cookie: (found & mask) as usize, ..self.on_fetched };
                    self.rmw(context, target, own + place, RmwOp { width, update }, done)?;
                }
                for _ in 0..ADDITIONS {
                    let op = RmwOp { width, update: Update::Add(1) };
                    self.rmw(context, target, place, op, self.on_counted)?;
                }
            }
        }
        let (state, begun) = (self.state, self.begun);
        self.wait(|| state.ended.load(Relaxed) >= begun)?;
        let found = self.meet([state.found.load(Relaxed), 0])?[0];
        // Each counter was found at each number below its last once.
        let endpoints = self.pairs.endpoints() as u64;
        let counted = endpoints * ADDITIONS;
        state.count_wrong(found != 2 * endpoints * (counted * (counted - 1) / 2));
        for region in &self.regions {
            for (place, wanted) in [counted].into_iter().chain((0..endpoints).map(|_| UPDATED)).enumerate() {
                let (mut long, mut short) = ([0; 8], [0; 4]);
                let read = region.memory().read(place * WORDS, &mut long);
                let read = read.and_then(|()| region.memory().read(place * WORDS + 8, &mut short));
                let good =
                    u64::from_ne_bytes(long) == wanted && u64::from(u32::from_ne_bytes(short)) == wanted;
                state.count_wrong(read.is_err() || !good);
            }
        }
        Ok(())
    }

    fn rmw(
        &mut self,
        context: usize,
        target: Endpoint,
        offset: usize,
        op: RmwOp,
        done: OnFetched,
    ) -> Result<(), JobError> {
        let (region, offset) = (self.handle(target), offset as u32);
        self.begun += 1;
        self.attempt(context, |active| active.rmw(Rmw { target, region, offset, op, done: Some(done) }))
    }

    /// Each context of this task with the task and context of each endpoint of the job, task by task from this one on.
    fn each_pair(&self) -> impl Iterator<Item = (usize, u32, u8)> + use<> {
        let (me, tasks) = (self.pairs.task.number(), self.pairs.task.tasks());
        (0..tasks as usize * PER_TASK).map(move |at| {
            let to = (me + (at / PER_TASK) as u32) % tasks;
            (at % PER_TASK / EACH, to, (at % EACH) as u8)
        })
    }

    fn handle(&self, target: Endpoint) -> RegionHandle {
        self.handles[usize::from(target.context().0)][target.task() as usize]
    }

    /// What the data of endpoint `from` looks like from place `number` on.
    fn like(&self, number: usize, from: usize) -> Like<'_> {
        let mine = endpoint_number(self.pairs.contexts[0].endpoint());
        Like {
            memory: self.regions[0].memory(),
            start: self.data() + number,
            difference: difference(mine, from),
        }
    }

    fn data(&self) -> usize {
        data(self.pairs.endpoints())
    }

    fn slot(&self, number: usize) -> usize {
        slot(self.pairs.endpoints(), number)
    }

    /// The sums of what all tasks bring.
    fn meet(&mut self, words: [u64; 2]) -> Result<[u64; 2], JobError> {
        let all = self.pairs.meeting.meet(&self.pairs.client, &mut self.pairs.contexts, words)?;
        Ok(all.fold([0; 2], |[a, b], [c, d]| [a + c, b + d]))
    }

    /// Tries until there is room.
    fn attempt(
        &mut self,
        context: usize,
        mut attempt: impl FnMut(&mut Active) -> Result<(), SendError>,
    ) -> Result<(), JobError> {
        wait_among_living(&mut self.pairs.contexts, |contexts| match attempt(&mut contexts[context]) {
            Err(SendError::Again) => Ok(false),
            outcome => Ok(outcome.map(|()| true)?),
        })
    }

    fn wait(&mut self, until: impl Fn() -> bool) -> Result<(), JobError> {
        wait_among_living(&mut self.pairs.contexts, |_| Ok(until()))
    }
}

/// How far data is off an aligned place.
fn skew(number: usize, from: usize) -> usize {
    (3 * number + from) % SKEWS
}

/// Start of the data in a region.
fn data(endpoints: usize) -> usize {
    ((1 + endpoints) * WORDS).next_multiple_of(GUARD)
}

/// Start of an endpoint's slot in a region.
fn slot(endpoints: usize, number: usize) -> usize {
    data(endpoints) + (1 + number) * SLOT
}
