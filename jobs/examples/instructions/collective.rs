//! Rows of collectives: eight endpoints of one task, all on one hart, in its memory.

use super::alone::Readings;
use super::count::{Count, row};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use heapless::Vec;
use kernel::{
    Active, Collect, Completion, Context, Done, GeometryId, JobError, Limits, Members, NewGeometry, Pools,
    Shared, Task,
};
use pami::CollectError;
use pami::collective::{Blocks, Collective, Element, Operator, Reducer};

/// Endpoints.
const SIZE: u8 = 8;
const GEOMETRY: GeometryId = GeometryId(1);
const WORD: usize = size_of::<u64>();

/// Parts of collectives that have ended, and those that did not end well.
static ENDED: AtomicU32 = AtomicU32::new(0);
static FAILED: AtomicU32 = AtomicU32::new(0);

fn ended(_: &mut Active, completion: Completion) {
    ENDED.fetch_add(1, Relaxed);
    FAILED.fetch_add(completion.result.is_err().into(), Relaxed);
}

const MEMORY: JobError = JobError::Other("a word has no room");
const DONE: Done = Done { call: &ended, cookie: 0 };

/// One endpoint with its data.
struct Rank {
    context: Context,
    input: Shared,
    output: Shared,
    scratch: Shared,
    sum: Reducer,
}

impl Rank {
    fn collect(&self) -> Collect {
        Collect {
            input: Some((self.input.clone(), 0)),
            output: Some((self.output.clone(), 0)),
            scratch: Some((self.scratch.clone(), 0)),
            blocks: Blocks::equal(1),
            sources: Blocks::equal(1),
            reducer: Some(self.sum),
            ..Collect::new(GEOMETRY, Collective::Allreduce, DONE)
        }
    }
}

/// Advances each once. Returns how much happened.
fn advance(ranks: &mut [Rank]) -> usize {
    ranks.iter_mut().map(|rank| rank.context.advance()).sum()
}

/// All of them.
struct Team {
    ranks: Vec<Rank, { SIZE as usize }>,
    count: Count,
}

impl Team {
    /// Makes the contexts where they stay: eight of them are too much for a stack to hold more than once.
    fn join(&mut self, task: &'static Task) -> Result<(), JobError> {
        let limits = Limits { geometries: 2, in_flight: 4, ..Limits::default() };
        let mut client =
            task.client("team").pools(Pools::LARGE).contexts(SIZE).collectives(limits).create()?;
        let memory = task.memory();
        let sum = Reducer::new(Operator::Sum, Element::U64);
        let sum = sum.map_err(|_| JobError::Other("there is no sum of words"))?;
        for number in 0..SIZE {
            let mut context = kernel::context(&mut client, number)?;
            let members = Members::world(context.population(), 0..SIZE)?;
            context.create_geometry(NewGeometry::new(GEOMETRY, members, DONE))?;
            let area = |words: usize| Ok::<_, JobError>(memory.buffer(words * WORD)?.share());
            let (input, output, scratch) = (area(1)?, area(1)?, area(2)?);
            input.write(0, &u64::from(number).to_ne_bytes()).map_err(|_| MEMORY)?;
            let _ = self.ranks.push(Rank { context, input, output, scratch, sum });
        }
        self.settle(0);
        Ok(())
    }

    /// Advances until the collective that began when so many parts had ended is over.
    fn settle(&mut self, before: u32) {
        while ENDED.load(Relaxed) != before + u32::from(SIZE) {
            advance(&mut self.ranks);
        }
    }

    /// Whether all have the sum; spoils it.
    fn check(&self) -> Result<(), JobError> {
        let sum: u64 = (0..u64::from(SIZE)).sum();
        for rank in &self.ranks {
            let mut word = [0; WORD];
            rank.output.read(0, &mut word).map_err(|_| MEMORY)?;
            if FAILED.load(Relaxed) > 0 || u64::from_ne_bytes(word) != sum {
                return Err(JobError::Other("an allreduce gave no sum"));
            }
            rank.output.write(0, &[0; WORD]).map_err(|_| MEMORY)?;
        }
        Ok(())
    }

    /// An allreduce of a word. Returns what its call takes at the last rank, to which nobody has sent yet: its first packet
    /// has left when it returns.
    fn allreduce(&mut self) -> Result<u32, JobError> {
        let before = ENDED.load(Relaxed);
        while advance(&mut self.ranks) > 0 {}
        let Some((last, others)) = self.ranks.split_last_mut() else { return Ok(0) };
        let collect = last.collect();
        let readings = start(self.count, &mut last.context, collect)?;
        if advance(others) == 0 {
            return Err(JobError::Other("the first packet of an allreduce does not leave in the call"));
        }
        for rank in others {
            let collect = rank.collect();
            rank.context.collect(collect)?;
        }
        self.settle(before);
        self.check()?;
        Ok(self.count.between(readings))
    }

    /// The same; returns what all of it takes at all ranks, their calls among it.
    fn allreduce_whole(&mut self) -> Result<u32, JobError> {
        let before = ENDED.load(Relaxed);
        let from = self.count.now();
        for rank in &mut self.ranks {
            let collect = rank.collect();
            rank.context.collect(collect)?;
        }
        self.settle(before);
        let readings = (from, self.count.now());
        self.check()?;
        Ok(self.count.between(readings))
    }
}

/// The rows.
pub fn rows(task: &'static Task, count: Count) -> Result<(), JobError> {
    let mut team = Team { ranks: Vec::new(), count };
    team.join(task)?;
    row("allreduce-8-first-packet", || team.allreduce())?;
    row("allreduce-8-all-endpoints", || team.allreduce_whole())
}

// In functions of their own, as in `alone`.

#[inline(never)]
fn start(count: Count, context: &mut Context, collect: Collect) -> Result<Readings, CollectError> {
    count.around(|| context.collect(collect))
}
