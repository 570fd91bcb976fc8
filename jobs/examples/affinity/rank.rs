//! One rank: its context, its memory, its end of the geometry.

use super::Radix;
use super::case::Case;
use kernel::{
    Active, Collect, Completion, Context, Done, GeometryId, JobError, Members, NewGeometry, OperationError,
    Shared, Task,
};
use pami::affinity::{Crossings, Domains, LEVELS};
use pami::collective::engine::WINDOW;
use pami::collective::{Algorithm, Blocks, Collective, Element, Operator, Reducer, Tuning};
use spin::Mutex;

const GEOMETRY: GeometryId = GeometryId(1);
const WORD: usize = 8;
const TUNING: Tuning = Tuning { radix: 2, chunk: 1 };

/// How what is waited for ended.
type Ended = Mutex<Option<Result<(), OperationError>>>;

pub struct Rank {
    pub context: Context,
    pub number: u32,
    pub size: u32,
    pub domains: Domains<'static>,
    ended: &'static Ended,
    done: Done,
    input: Shared,
    output: Shared,
    scratch: Shared,
}

impl Rank {
    /// Starts to create the geometry of all ranks: so many contexts of each task. It is there when all have come.
    pub fn new(task: &'static Task, context: Context, contexts: u8, radix: Radix) -> Result<Self, JobError> {
        let memory = task.memory();
        let ended: &'static Ended = memory.place(Mutex::new(None))?;
        let call = memory.place(move |_: &mut Active, completion: Completion| {
            *ended.lock() = Some(completion.result);
        })?;
        let done = Done { call, cookie: 0 };
        let members = Members::world(context.population(), 0..contexts)?;
        let domains = task.affinities().domains(&members, radix);
        let domains = domains.ok_or(JobError::Other("the kernel does not know where these ranks are"))?;
        // Every case's vector or blocks, and the sum over all.
        let words = (members.size() as usize).max(LEVELS.len());
        let mut rank = Self {
            number: members.rank(context.endpoint()).unwrap_or(0),
            context,
            size: members.size(),
            domains,
            ended,
            done,
            input: memory.buffer(words * WORD)?.share(),
            output: memory.buffer(words * WORD)?.share(),
            scratch: memory.buffer(2 * words * WORD)?.share(),
        };
        rank.context.create_geometry(NewGeometry {
            domains: Some(domains),
            ..NewGeometry::new(GEOMETRY, members, done)
        })?;
        Ok(rank)
    }

    /// Whether the geometry has what was asked for.
    pub fn look(&self) -> Result<(), JobError> {
        let geometry = self.context.geometry(GEOMETRY);
        let same = geometry.is_some_and(|geometry| {
            (geometry.rank, geometry.size, geometry.domains) == (self.number, self.size, Some(&self.domains))
        });
        if same { Ok(()) } else { Err(JobError::Other("the geometry is not what was asked for")) }
    }

    /// Whether the algorithm works here.
    pub fn is_valid(&self, case: &Case) -> bool {
        self.collect(case).is_ok_and(|collect| self.context.scratch_len(&collect).is_ok())
    }

    fn collect(&self, case: &Case) -> Result<Collect, JobError> {
        let reduces = case.what.reduces();
        let sum = Reducer::new(Operator::Sum, Element::U64);
        let sum = sum.map_err(|_| JobError::Other("there is no sum of words"))?;
        let blocks = Blocks::equal(if reduces { 1 } else { WORD });
        Ok(Collect {
            root: case.root(self.size),
            input: Some((self.input.clone(), 0)),
            output: Some((self.output.clone(), 0)),
            scratch: Some((self.scratch.clone(), 0)),
            blocks,
            sources: blocks,
            reducer: reduces.then_some(sum),
            algorithm: Some((case.algorithm, TUNING)),
            ..Collect::new(GEOMETRY, case.what, self.done)
        })
    }

    /// Puts in place what the case's collective takes, and spoils what it is to give.
    pub fn fill(&self, case: &Case) -> Result<(), JobError> {
        for place in 0..self.size {
            let word =
                if case.what == Collective::Scatter { case.word(place) } else { case.word(self.number) };
            put(&self.input, place, word)?;
            put(&self.output, place, u64::MAX)?;
        }
        Ok(())
    }

    /// Begins a case.
    pub fn start(&mut self, case: &Case) -> Result<(), JobError> {
        self.fill(case)?;
        let collect = self.collect(case)?;
        Ok(self.context.collect(collect)?)
    }

    /// Whether the engine is to begin the next collective with a barrier of its own, whose messages would count with its.
    pub fn is_before_gate(&self) -> bool {
        self.context.geometry(GEOMETRY).is_some_and(|geometry| geometry.started % WINDOW == WINDOW - 1)
    }

    /// Begins a case whose data are in place; returns the readings of a counter before and after.
    #[inline(never)]
    pub fn start_counted(&mut self, case: &Case, now: impl Fn() -> u32) -> Result<(u32, u32), JobError> {
        let collect = self.collect(case)?;
        let before = now();
        let started = self.context.collect(collect);
        let readings = (before, now());
        started?;
        Ok(readings)
    }

    /// Whether what was begun has ended; it is an error if it did not end well.
    pub fn has_ended(&self) -> Result<bool, JobError> {
        let result = self.ended.lock().take();
        result.map_or(Ok(false), |result| Ok(result.map(|()| true)?))
    }

    /// Waits for the end of what was begun.
    pub fn wait(&mut self) -> Result<(), JobError> {
        let ended = self.ended;
        self.context.wait(|_| ended.lock().is_some());
        self.has_ended().map(|_| ())
    }

    pub fn crossings(&self) -> Crossings {
        self.context.geometry(GEOMETRY).map(|geometry| geometry.crossings).unwrap_or_default()
    }

    /// Whether the case gave what it must.
    pub fn check(&self, case: &Case) -> Result<(), JobError> {
        for place in 0..case.output_len(self.size) {
            let expected = case.expected(self.size, self.number, place);
            if expected.is_some() && Some(get(&self.output, place)?) != expected {
                return Err(JobError::Other("a collective gave a wrong result"));
            }
        }
        Ok(())
    }

    /// Sums of words over all ranks.
    pub fn over_all(&mut self, words: [u32; LEVELS.len()]) -> Result<[u32; LEVELS.len()], JobError> {
        for (place, word) in (0..).zip(words) {
            put(&self.input, place, word.into())?;
        }
        let sum = Case { what: Collective::Allreduce, algorithm: Algorithm::RecursiveDoubling };
        let collect = Collect { blocks: Blocks::equal(words.len()), ..self.collect(&sum)? };
        self.context.collect(collect)?;
        self.wait()?;
        let mut sums = words;
        for (place, sum) in (0..).zip(&mut sums) {
            *sum = get(&self.output, place)? as u32;
        }
        Ok(sums)
    }
}

const OUTSIDE: JobError = JobError::Other("a word outside its memory");

fn put(memory: &Shared, place: u32, word: u64) -> Result<(), JobError> {
    memory.write(place as usize * WORD, &word.to_ne_bytes()).map_err(|_| OUTSIDE)
}

fn get(memory: &Shared, place: u32) -> Result<u64, JobError> {
    let mut bytes = [0; WORD];
    memory.read(place as usize * WORD, &mut bytes).map_err(|_| OUTSIDE)?;
    Ok(u64::from_ne_bytes(bytes))
}
