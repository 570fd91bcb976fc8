//! The endpoints that one hart drives.

use super::data::Data;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use heapless::Vec;
use kernel::{
    Active, Client, Collect, Completion, Context, Done, Endpoint, GeometryId, JobError, Joint, Limits,
    Members, NewGeometry, OperationError, Pools, Poster, Task, wait_on,
};
use pami::collective::{Algorithm, Blocks, Collective, Tuning};
use spin::Mutex;

/// Most endpoints of the root.
const MOST: usize = 8;
/// What all phases call their geometry by: endpoints of the root join and leave it.
const TEAM: GeometryId = GeometryId(1);

/// A collective with so many endpoints of the root.
#[derive(Clone, Copy)]
pub struct Phase {
    pub what: Collective,
    pub endpoints: u8,
    pub number: u32,
}

/// What the endpoints of a task share.
pub struct Shared {
    pub data: Data,
    pub phases: Vec<Phase, 16>,
    /// For each phase, bytes of each endpoint.
    bytes: &'static [[AtomicU64; MOST]],
    /// For each phase, endpoints that wait for it to begin, how often it was called, how often its callback was and with an
    /// error, endpoints that know that.
    ready: &'static [AtomicU32],
    called: &'static [AtomicU32],
    ended: &'static [AtomicU32],
    failed: &'static [AtomicU32],
    counted: &'static [AtomicU32],
    /// For each phase, the task's endpoints as one.
    joints: Vec<Joint, 16>,
    done: Vec<Done, 16>,
    root: bool,
}

/// Bytes of data of the root's endpoints.
pub struct Counts {
    pub all: u64,
    pub busiest: u64,
}

impl Shared {
    /// `posters` are those of the task's contexts.
    pub fn new(
        task: &'static Task,
        data: Data,
        phases: &Vec<Phase, 16>,
        posters: &[Poster],
    ) -> Result<Self, JobError> {
        let (memory, root) = (task.memory(), task.number() == 0);
        let counters = || memory.fill(phases.len(), || AtomicU32::new(0));
        let bytes = memory.fill(phases.len(), || core::array::from_fn(|_| AtomicU64::new(0)))?;
        let (ready, called, ended) = (&*counters()?, &*counters()?, &*counters()?);
        let (failed, counted) = (&*counters()?, &*counters()?);
        let (mut joints, mut done) = (Vec::new(), Vec::new());
        for phase in phases {
            let own = if root { usize::from(phase.endpoints) } else { 1 };
            let _ = joints.push(Joint::new(task, &posters[..own.min(posters.len())])?);
            let number = phase.number as usize;
            let call = memory.place(move |_: &mut Active, completion: Completion| {
                failed[number].fetch_add(u32::from(completion.result.is_err()), Relaxed);
                ended[number].fetch_add(1, Relaxed);
            })?;
            let _ = done.push(Done { call, cookie: 0 });
        }
        Ok(Self {
            data,
            phases: phases.clone(),
            bytes,
            ready,
            called,
            ended,
            failed,
            counted,
            joints,
            done,
            root,
        })
    }

    pub fn counts(&self, phase: &Phase) -> Counts {
        let bytes = || self.bytes[phase.number as usize].iter().map(|bytes| bytes.load(Relaxed));
        Counts { all: bytes().sum(), busiest: bytes().max().unwrap_or(0) }
    }

    /// How often a phase was called in this task, and how often that it is complete was told.
    pub fn calls(&self, phase: &Phase) -> [u32; 2] {
        [self.called, self.ended].map(|counters| counters[phase.number as usize].load(Relaxed))
    }

    /// Endpoints of this task in a phase.
    fn own(&self, phase: &Phase) -> u32 {
        if self.root { phase.endpoints.into() } else { 1 }
    }
}

/// How the operation that an endpoint waits for ended.
type Ended = Mutex<Option<Result<(), OperationError>>>;

/// An endpoint, but for its context.
struct Member {
    offset: u8,
    ended: &'static Ended,
    done: Done,
}

/// The endpoints of one hart.
pub struct Team {
    task: &'static Task,
    contexts: Vec<Context, MOST>,
    members: Vec<Member, MOST>,
    others: Vec<u32, 10>,
    /// Endpoints of the root that are in the geometry.
    at_work: u8,
}

impl Team {
    /// Those of its contexts.
    pub fn posters(&self) -> impl Iterator<Item = (u8, Poster)> {
        self.members.iter().zip(&self.contexts).map(|(member, context)| (member.offset, context.poster()))
    }

    pub fn client(task: &'static Task, contexts: u8) -> Result<Client, JobError> {
        // The world, the team, and its epoch before that.
        let limits = Limits { geometries: 3, ..Limits::default() };
        Ok(task.client("endpoints").pools(Pools::LARGE).contexts(contexts).collectives(limits).create()?)
    }

    pub fn new(
        task: &'static Task,
        client: &mut Client,
        offsets: impl Iterator<Item = u8>,
        others: &[u32],
    ) -> Result<Self, JobError> {
        let (mut contexts, mut members) = (Vec::new(), Vec::new());
        for offset in offsets {
            let ended: &'static Ended = task.memory().place(Mutex::new(None))?;
            let call = task.memory().place(move |_: &mut Active, completion: Completion| {
                *ended.lock() = Some(completion.result);
            })?;
            let _ = contexts.push(kernel::context(client, offset)?);
            let _ = members.push(Member { offset, ended, done: Done { call, cookie: 0 } });
        }
        Ok(Self { task, contexts, members, others: others.iter().copied().collect(), at_work: 0 })
    }

    /// The endpoints of a phase: those of the root, then one of each other task.
    fn geometry(&self, phase: &Phase, context: usize) -> Result<Members<'static>, JobError> {
        let client = self.contexts[context].endpoint().client();
        let endpoint =
            |task, offset| Endpoint::from_parts(client, task, pami::endpoint::ContextOffset(offset));
        let own = (0..phase.endpoints).map(|offset| endpoint(0, offset));
        let mut list = own.chain(self.others.iter().map(|&task| endpoint(task, 0)));
        let count = usize::from(phase.endpoints) + self.others.len();
        let memory = self.task.memory();
        let first = endpoint(0, 0);
        let list = memory.fill(count, || list.next().unwrap_or(first))?;
        let index = memory.slice(2 * count)?;
        Ok(Members::endpoints(self.contexts[context].population(), list, index)?)
    }

    /// Starts something at every endpoint of a task up to this one and waits until all of this hart are done.
    fn together(
        &mut self,
        endpoints: u8,
        mut start: impl FnMut(&mut Self, usize) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let ours = |member: &Member| member.offset < endpoints;
        for place in 0..self.members.len() {
            if ours(&self.members[place]) {
                start(self, place)?;
            }
        }
        let members = &self.members;
        let all = || members.iter().filter(|member| ours(member)).all(|member| member.ended.lock().is_some());
        wait_on(&mut self.contexts, u64::MAX, |_| all());
        for member in members.iter().filter(|member| ours(member)) {
            let ended = member.ended.lock().take();
            ended.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// Does this hart's share of a phase. Returns the nanoseconds until all endpoints of the task are done.
    pub fn run(&mut self, phase: &Phase, shared: &'static Shared) -> Result<u64, JobError> {
        // Endpoints that were not at work before join, those that are not any more leave.
        self.together(phase.endpoints.max(self.at_work), |team, place| {
            let members = team.geometry(phase, place)?;
            let epoch = GeometryId(2 + phase.number);
            let new = NewGeometry::new(epoch, members, team.members[place].done);
            Ok(team.contexts[place].change_geometry(TEAM, new)?)
        })?;
        self.at_work = phase.endpoints;
        self.barrier(phase)?;
        let counters = |context: &Context| {
            let counters = context.counters();
            if phase.what == Collective::Gather {
                counters.collective_received
            } else {
                counters.collective_sent
            }
        };
        let mut before = [0; MOST];
        for (context, before) in self.contexts.iter().zip(&mut before) {
            *before = counters(context);
        }
        let (number, all) = (phase.number as usize, shared.own(phase));
        let ours = self.members.iter().filter(|member| member.offset < phase.endpoints).count() as u32;
        shared.ready[number].fetch_add(ours, Relaxed);
        let start = self.task.now_ns();
        if self.members.iter().any(|member| member.offset == 0) {
            self.until(|| shared.ready[number].load(Relaxed) == all);
            // One call, whatever the number of endpoints.
            let collect = Collect {
                input: Some((shared.data.input.clone(), 0)),
                output: Some((shared.data.output.clone(), 0)),
                blocks: Blocks::equal(shared.data.bytes()),
                algorithm: Some((Algorithm::Flat, Tuning { radix: 2, chunk: 1 })),
                divided: true,
                ..Collect::new(TEAM, phase.what, shared.done[number])
            };
            shared.called[number].fetch_add(1, Relaxed);
            shared.joints[number].issue(&self.contexts[0], collect)?;
        }
        self.until(|| shared.ended[number].load(Relaxed) > 0);
        let elapsed = self.task.now_ns() - start;
        if shared.failed[number].load(Relaxed) > 0 {
            return Err(JobError::Other("a collective did not end well"));
        }
        for (place, context) in self.contexts.iter().enumerate() {
            if self.members[place].offset < phase.endpoints {
                let bytes = counters(context) - before[place];
                shared.bytes[number][usize::from(self.members[place].offset)].store(bytes, Relaxed);
            }
        }
        shared.counted[number].fetch_add(ours, Relaxed);
        self.until(|| shared.counted[number].load(Relaxed) == all);
        // Nobody begins another before this one was looked at.
        self.barrier(phase)?;
        Ok(elapsed)
    }

    /// Advances until something holds that other harts may bring about, which do not wake this one.
    fn until(&mut self, holds: impl Fn() -> bool) {
        while !wait_on(&mut self.contexts, 1_000_000, |_| holds()) {}
    }

    fn barrier(&mut self, phase: &Phase) -> Result<(), JobError> {
        self.together(phase.endpoints, |team, place| {
            let barrier = Collect::new(TEAM, Collective::Barrier, team.members[place].done);
            Ok(team.contexts[place].collect(barrier)?)
        })
    }
}
