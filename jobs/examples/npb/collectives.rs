//! The machine of the jobs: groups are geometries, and what groups do are their collectives, one at a time.
//!
//! Collectives work on a benchmark's own arrays, where they lie (SPEC Q-3); blocks that are made as long as the longest are
//! copied. The task's first hart communicates; the others work when a benchmark calls [`Machine::on_threads`].

use super::area::Area;
use super::job::say;
use super::machine::{Machine, Tasks};
use super::swap::Swap;
use super::threads::on_threads;
use core::fmt::Arguments;
use kernel::{
    Active, Client, Collect, Completion, Context, Done, GeometryId, JobError, Limits, Members, NewGeometry,
    OperationError, Shared, Task, WORLD,
};
use pami::collective::{Blocks, Collective, Element, Operator, Reducer};
use spin::Mutex;
use zerocopy::{FromBytes, IntoBytes};

/// Values of a block that travels in one message with those for others, at most.
const SHORT: u32 = 128;

const TOO_MANY: JobError = JobError::Other("more values came than a task has room for");

/// How what is waited for ended.
type Ended = Mutex<Option<Result<(), OperationError>>>;

/// A geometry.
pub struct Group {
    id: GeometryId,
    size: usize,
}

/// The start of memory, as collectives name it.
fn place(memory: &Shared) -> Option<(Shared, usize)> {
    Some((memory.clone(), 0))
}

/// One task's end of all collectives.
pub struct Collectives {
    task: &'static Task,
    client: Client,
    context: Context,
    swap: Swap,
    ended: &'static Ended,
    done: Done,
    /// Of blocks that are made as long as the longest: those that go, and those that come.
    going: Area,
    coming: Area,
    scratch: Area,
    /// Geometries made so far.
    made: u32,
}

impl Collectives {
    /// One task's end, with the world as its first geometry.
    pub fn new(task: &'static Task) -> Result<Self, JobError> {
        let memory = task.memory();
        let (swap, builder) = Swap::prepare(task, task.client("npb"))?;
        let mut client = builder.collectives(Limits::default()).create()?;
        let context = kernel::context(&mut client, 0)?;
        let ended: &'static Ended = memory.place(Mutex::new(None))?;
        let call = memory.place(move |_: &mut Active, completion: Completion| {
            *ended.lock() = Some(completion.result);
        })?;
        Ok(Self {
            task,
            client,
            context,
            swap,
            ended,
            done: Done { call, cookie: 0 },
            going: Area::new(task)?,
            coming: Area::new(task)?,
            scratch: Area::new(task)?,
            made: 0,
        })
    }

    fn wait(&mut self) -> Result<(), JobError> {
        let ended = self.ended;
        self.context.wait(|_| ended.lock().is_some());
        Ok(ended.lock().take().unwrap_or(Ok(()))?)
    }

    fn collect(&mut self, collect: Collect) -> Result<(), JobError> {
        self.scratch.grow(self.task, self.context.scratch_len(&collect)?)?;
        let scratch = self.scratch.place();
        // One is in flight at a time: there is room for it.
        self.context.collect(Collect { scratch, ..collect })?;
        self.wait()
    }

    fn call(&self, group: &Group, what: Collective) -> Collect {
        Collect::new(group.id, what, self.done)
    }

    fn all_reduce<T>(
        &mut self,
        group: &Group,
        (operator, element): (Operator, Element),
        values: &mut [T],
    ) -> Result<(), JobError>
    where
        T: IntoBytes + FromBytes,
    {
        let reducer =
            Reducer::new(operator, element).map_err(|_| JobError::Other("there is no such reduction"))?;
        let blocks = Blocks::equal(values.len());
        Shared::scope(values.as_mut_bytes(), |values| {
            self.collect(Collect {
                output: place(values),
                in_place: true,
                blocks,
                reducer: Some(reducer),
                ..self.call(group, Collective::Allreduce)
            })
        })
    }

    /// A collective of blocks of `block` bytes.
    fn blockwise<T>(
        &mut self,
        group: &Group,
        what: Collective,
        block: usize,
        send: &mut [T],
        received: &mut [T],
    ) -> Result<(), JobError>
    where
        T: IntoBytes + FromBytes,
    {
        let blocks = Blocks::equal(block);
        Shared::scope(send.as_mut_bytes(), |send| {
            Shared::scope(received.as_mut_bytes(), |received| {
                let (input, output) = (place(send), place(received));
                self.collect(Collect { input, output, blocks, sources: blocks, ..self.call(group, what) })
            })
        })
    }

    /// An all-to-all of blocks of up to `longest` values, all made as long as that, each behind its length: equal blocks
    /// that are short go by few messages, each with blocks for many tasks.
    fn all_to_all_short(
        &mut self,
        group: &Group,
        longest: u32,
        send: &[u32],
        starts: &[usize],
        received: &mut [u32],
    ) -> Result<usize, JobError> {
        let word = size_of::<u32>();
        let block = word * (1 + longest as usize);
        self.going.grow(self.task, group.size * block)?;
        self.coming.grow(self.task, group.size * block)?;
        for (rank, bounds) in starts.windows(2).enumerate() {
            let values = &send[bounds[0]..bounds[1]];
            self.going.put_at(rank * block, &[values.len() as u32])?;
            self.going.put_at(rank * block + word, values)?;
        }
        let (input, output, blocks) = (self.going.place(), self.coming.place(), Blocks::equal(block));
        let what = self.call(group, Collective::Alltoall);
        self.collect(Collect { input, output, blocks, sources: blocks, ..what })?;
        let mut total = 0;
        for rank in 0..group.size {
            let mut len = [0u32];
            self.coming.take_at(rank * block, &mut len)?;
            let end = total + len[0] as usize;
            let room = received.get_mut(total..end).ok_or(TOO_MANY)?;
            self.coming.take_at(rank * block + word, room)?;
            total = end;
        }
        Ok(total)
    }

    /// Blocks of so many words. The list of their bounds stays in the task's memory.
    fn listed(&self, lens: &[u32]) -> Result<Blocks<'static>, JobError> {
        let (mut lens, places) = (lens.iter(), lens.len() + 1);
        let mut next = 0;
        let bounds = self.task.memory().fill(places, || {
            let bound = next;
            next += lens.next().map_or(0, |&len| len as usize * size_of::<u32>());
            bound
        })?;
        Blocks::listed(bounds).map_err(|_| JobError::Other("blocks do not follow each other"))
    }
}

impl Machine for Collectives {
    type Group = Group;
    type Error = JobError;

    fn task(&self) -> usize {
        self.task.number() as usize
    }

    fn tasks(&self) -> usize {
        self.task.tasks() as usize
    }

    fn now_ns(&self) -> u64 {
        self.task.now_ns()
    }

    fn say(&self, line: Arguments) {
        say(self.task, line);
    }

    fn reals(&mut self, len: usize) -> Result<&'static mut [f64], JobError> {
        Ok(self.task.memory().slice(len)?)
    }

    fn indices(&mut self, len: usize) -> Result<&'static mut [u32], JobError> {
        Ok(self.task.memory().slice(len)?)
    }

    fn on_threads<T: Send + 'static>(
        &mut self,
        work: impl Fn(usize, usize) -> T + Send + Sync + 'static,
        take: impl FnMut(T),
    ) -> Result<(), JobError> {
        on_threads(self.task, work, take)
    }

    fn group(&mut self, tasks: Tasks) -> Result<Group, JobError> {
        if tasks == Tasks::all(Machine::tasks(self)) {
            return Ok(Group { id: WORLD, size: tasks.count });
        }
        let Tasks { first, stride, count } = tasks;
        let population = self.context.population();
        let members = Members::range(population, 0..1, first as u32, count as u32, stride as u32)?;
        self.made += 1;
        let id = GeometryId(self.made);
        self.context.create_geometry(NewGeometry::new(id, members, self.done))?;
        self.wait()?;
        Ok(Group { id, size: count })
    }

    fn barrier(&mut self, group: &Group) -> Result<(), JobError> {
        self.collect(self.call(group, Collective::Barrier))
    }

    fn sum(&mut self, group: &Group, values: &mut [f64]) -> Result<(), JobError> {
        self.all_reduce(group, (Operator::Sum, Element::F64), values)
    }

    fn sum_indices(&mut self, group: &Group, values: &mut [u32]) -> Result<(), JobError> {
        self.all_reduce(group, (Operator::Sum, Element::U32), values)
    }

    fn all_gather(&mut self, group: &Group, mine: &mut [f64], all: &mut [f64]) -> Result<(), JobError> {
        self.blockwise(group, Collective::Allgather, size_of_val(mine), mine, all)
    }

    fn all_to_all(&mut self, group: &Group, send: &mut [f64], received: &mut [f64]) -> Result<(), JobError> {
        self.blockwise(group, Collective::Alltoall, size_of_val(send) / group.size, send, received)
    }

    fn all_to_all_indices(
        &mut self,
        group: &Group,
        send: &mut [u32],
        starts: &[usize],
        received: &mut [u32],
    ) -> Result<usize, JobError> {
        let longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let mut longest = [u32::try_from(longest).unwrap_or(u32::MAX)];
        self.all_reduce(group, (Operator::Max, Element::U32), &mut longest)?;
        if longest[0] <= SHORT {
            return self.all_to_all_short(group, longest[0], send, starts, received);
        }
        // First everybody is told how much comes.
        let mut lens = starts.windows(2).map(|pair| (pair[1] - pair[0]) as u32);
        let going = self.task.memory().fill(group.size, || lens.next().unwrap_or(0))?;
        let coming = self.indices(group.size)?;
        self.blockwise(group, Collective::Alltoall, size_of::<u32>(), going, coming)?;
        let total = coming.iter().sum::<u32>() as usize;
        let room = received.get_mut(..total);
        let room = room.ok_or(TOO_MANY)?;
        let (blocks, sources) = (self.listed(going)?, self.listed(coming)?);
        let send = &mut send[starts[0]..starts[group.size]];
        Shared::scope(send.as_mut_bytes(), |send| {
            Shared::scope(room.as_mut_bytes(), |room| {
                let (input, output, known_blocks) = (place(send), place(room), false);
                let what = self.call(group, Collective::Alltoall);
                self.collect(Collect { input, output, blocks, sources, known_blocks, ..what })
            })
        })?;
        Ok(total)
    }

    fn exchange(&mut self, partner: usize, send: &mut [f64], received: &mut [f64]) -> Result<(), JobError> {
        if partner == Machine::task(self) {
            received.copy_from_slice(send);
            return Ok(());
        }
        let partner = self.client.endpoint(partner as u32, 0)?;
        self.swap.swap(&mut self.context, partner, send.as_bytes(), received.as_mut_bytes())
    }
}
