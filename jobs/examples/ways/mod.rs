//! The ways from a task to what it can reach: to itself, through its node's shared memory, over the network's loop-back,
//! over the torus (SPEC D-6, P-9).
//!
//! Two clients: of the second nothing stays in the node. Each has two contexts and one region in every task.

use super::meeting::{Meeting, wait_among_living};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{
    Active, Client, ClientBuilder, Completion, Context, Done, Endpoint, JobError, Message, Pools, Receive,
    Region, RegionHandle, Rights, SendError, Task,
};
use pami::mapping::TaskLocation;

/// Clients: that of all paths, that of the network alone.
pub const SIDES: usize = 2;
/// Dispatch id of what tasks are told: task 0 that another is silent, the others that it is over. Behind those of meetings.
const TELL: u8 = 29;
/// Contexts of each client.
pub const CONTEXTS: usize = 2;

/// One task's end of all ways.
pub struct Ways {
    pub task: &'static Task,
    pub clients: [Client; SIDES],
    /// Those of the first client, then those of the second.
    pub contexts: heapless::Vec<Context, { SIDES * CONTEXTS }>,
    /// By client.
    pub regions: [Region; SIDES],
    /// By client, then by task.
    handles: [&'static [RegionHandle]; SIDES],
    meeting: Meeting,
    /// How often this task was told something.
    told: &'static AtomicU32,
}

/// A way to a task.
#[derive(Clone, Copy)]
pub struct Way {
    pub name: &'static str,
    /// The number of the context here that goes this way.
    pub context: usize,
    pub target: Endpoint,
    /// The target's region.
    pub region: RegionHandle,
    /// Whether packets leave by the adapter.
    pub network: bool,
}

fn collect<T, const N: usize>(
    mut make: impl FnMut(usize) -> Result<T, JobError>,
) -> Result<[T; N], JobError> {
    let mut all = heapless::Vec::<T, N>::new();
    for number in 0..N {
        let _ = all.push(make(number)?);
    }
    all.into_array().map_err(|_| JobError::Other("a collection is not full"))
}

impl Ways {
    /// Sets both clients, 0 and 1, up as `settings` says, with regions of `bytes` bytes. Every task of the job calls it.
    pub fn new(
        task: &'static Task,
        bytes: usize,
        settings: impl Fn(usize, ClientBuilder) -> ClientBuilder,
    ) -> Result<Self, JobError> {
        let builder =
            |side, name| settings(side, task.client(name).pools(Pools::LARGE)).contexts(CONTEXTS as u8);
        let told: &'static AtomicU32 = task.memory().place(AtomicU32::new(0))?;
        let tell = task.memory().place(|_: &mut Active, _: &Message| {
            told.fetch_add(1, Relaxed);
            Receive::Done
        })?;
        let (mut meeting, near) = Meeting::prepare(task, builder(0, "near").dispatch(TELL, tell))?;
        let mut clients = [near.create()?, builder(1, "far").local_paths(false).create()?];
        let mut contexts = heapless::Vec::<Context, { SIDES * CONTEXTS }>::new();
        for client in &mut clients {
            for offset in 0..CONTEXTS as u8 {
                let _ = contexts.push(kernel::context(client, offset)?);
            }
        }
        let contexts_of = &mut contexts;
        let regions: [Region; SIDES] = collect(|side| {
            let rights = Rights::READ | Rights::WRITE | Rights::UPDATE;
            let buffer = task.memory().buffer(bytes)?;
            Ok(contexts_of[side * CONTEXTS].register(buffer, rights).map_err(|(error, _)| error)?)
        })?;
        let handles = collect(|side| meeting.handles(&clients[0], contexts_of, regions[side].handle()))?;
        Ok(Self { task, clients, contexts, regions, handles, meeting, told })
    }

    /// A way to a context of a task.
    pub fn way(
        &self,
        name: &'static str,
        side: usize,
        task: u32,
        context: u8,
        network: bool,
    ) -> Result<Way, JobError> {
        let target = self.clients[side].endpoint(task, context)?;
        let region = self.handles[side][task as usize];
        Ok(Way { name, context: side * CONTEXTS, target, region, network })
    }

    /// One way of each kind that there is.
    pub fn list(&self) -> Result<heapless::Vec<Way, 5>, JobError> {
        let (task, me) = (self.task, self.task.number());
        let map = task.map();
        let lives_here = |&other: &u32| map.place(other).is_some_and(|place| place.node == task.node());
        let neighbour = (0..task.tasks()).filter(|&other| other != me).find(lives_here);
        let mut ways = heapless::Vec::new();
        let mut add = |way| _ = ways.push(way);
        add(self.way("self", 0, me, 0, false)?);
        // With no other task in the node, to the other context of this one.
        add(self.way("shared memory", 0, neighbour.unwrap_or(me), neighbour.is_none().into(), false)?);
        add(self.way("loop-back", 1, neighbour.unwrap_or(me), 0, true)?);
        if let Some(far) = self.next_node() {
            if task.shares_memory() {
                add(self.way("other node", 0, far, 0, false)?);
            }
            add(self.way("torus", usize::from(task.shares_memory()), far, 0, true)?);
        }
        Ok(ways)
    }

    /// The first task of a node that is one hop away.
    pub fn next_node(&self) -> Option<u32> {
        let shape = self.task.shape();
        let distance = |node: u32| shape.coord(node).map_or(0, |there| shape.hops(self.task.coord(), there));
        let node = (0..shape.nodes()).find(|&node| distance(node) == 1)?;
        self.task.map().task(TaskLocation { node, local: 0 })
    }

    /// Waits for all tasks.
    pub fn meet(&mut self) -> Result<(), JobError> {
        self.meeting.meet(&self.clients[0], &mut self.contexts, [0; 2]).map(drop)
    }

    /// What all tasks but 0 do while that one is at work: nothing but what it asks of them.
    pub fn serve(&mut self) -> Result<(), JobError> {
        // Nothing of this task's own is on the network any more when task 0 hears of it.
        let fenced: &'static AtomicU32 = self.task.memory().place(AtomicU32::new(0))?;
        let call = self.task.memory().place(|_: &mut Active, _: Completion| {
            fenced.fetch_add(1, Relaxed);
        })?;
        let (tasks, done) = (self.task.tasks(), Done { call, cookie: 0 });
        self.attempt(0, |active| active.fence_tasks(0..tasks, done))?;
        self.wait(|| fenced.load(Relaxed) > 0)?;
        let first = self.clients[0].endpoint(0, 0)?;
        self.attempt(0, |active| active.send_immediate(first, TELL, &[], &[]))?;
        let told = self.told;
        self.wait(|| told.load(Relaxed) > 0)
    }

    /// What task 0 does before it counts bytes: all others serve, and what they sent before has come.
    pub fn await_silence(&mut self) -> Result<(), JobError> {
        let (told, others) = (self.told, self.task.tasks() - 1);
        self.wait(|| told.load(Relaxed) >= others)
    }

    /// Task 0 is done: the others need not serve any longer.
    pub fn end(&mut self) -> Result<(), JobError> {
        for task in 1..self.task.tasks() {
            let target = self.clients[0].endpoint(task, 0)?;
            self.attempt(0, |active| active.send_immediate(target, TELL, &[], &[]))?;
        }
        Ok(())
    }

    /// Tries until there is room.
    pub fn attempt(
        &mut self,
        context: usize,
        mut attempt: impl FnMut(&mut Active) -> Result<(), SendError>,
    ) -> Result<(), JobError> {
        match attempt(&mut self.contexts[context]) {
            Err(SendError::Again) => {}
            outcome => return Ok(outcome?),
        }
        wait_among_living(&mut self.contexts, |contexts| match attempt(&mut contexts[context]) {
            Err(SendError::Again) => Ok(false),
            outcome => Ok(outcome.map(|()| true)?),
        })
    }

    /// Advances all contexts until `until` holds.
    pub fn wait(&mut self, until: impl Fn() -> bool) -> Result<(), JobError> {
        wait_among_living(&mut self.contexts, |_| Ok(until()))
    }
}
