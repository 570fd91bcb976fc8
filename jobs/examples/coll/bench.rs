//! The geometry, the memory and the clock.

use super::arguments::Arguments;
use super::board::{self, Board, HANDLE};
use super::case::{Case, WORD, get, put};
use super::floats;
use heapless::Vec;
use kernel::{
    Active, Client, Collect, Completion, Context, Done, Geometry, GeometryId, JobError, Limits, Members,
    NewGeometry, OperationError, Pools, Rectangle, RegionHandle, Shared, Task,
};
use pami::collective::selection::Candidate;
use pami::collective::{Algorithm, Blocks, Collective, Element, Operator, Query, Reducer, Tuning, cost};
use pami::topology::{MAX_DIMENSIONS, TorusCoord};
use spin::Mutex;
use zerocopy::{FromBytes, IntoBytes};

const GEOMETRY: GeometryId = GeometryId(1);
/// Rounds before those that count.
const WARM_UP: u32 = 2;

/// How the collective that is waited for ended.
type Ended = Mutex<Option<Result<(), OperationError>>>;

/// One rank's end of the benchmark.
pub struct Bench {
    task: &'static Task,
    context: Context,
    /// Contexts are the client's.
    _client: Client,
    ended: &'static Ended,
    done: Done,
    rank: u32,
    size: u32,
    input: Shared,
    output: Shared,
    scratch: Shared,
    /// Where barriers show whether they are any; there if some are run.
    board: Option<Board>,
    /// For results of the benchmark itself: a geometry of its own, so that those that are measured go by what they choose, and
    /// memory.
    judges: GeometryId,
    verdict: [Shared; 3],
}

/// A line of the table.
pub struct Row {
    pub average_ns: u64,
    pub least_ns: u64,
    pub greatest_ns: u64,
    /// This rank's result was wrong.
    pub wrong: bool,
}

impl Bench {
    pub fn new(task: &'static Task, arguments: &Arguments) -> Result<Self, JobError> {
        let memory = task.memory();
        let mut client = task.client("coll").pools(Pools::LARGE).collectives(Limits::default()).create()?;
        let context = kernel::context(&mut client, 0)?;
        let judges =
            client.geometry("verdict").ok_or(JobError::Other("no configuration has coll.verdict"))?;
        let ended: &'static Ended = memory.place(Mutex::new(None))?;
        let call = memory.place(move |_: &mut Active, completion: Completion| {
            *ended.lock() = Some(completion.result);
        })?;
        let none = || Ok::<_, JobError>(memory.buffer(0)?.share());
        let verdict = [memory.buffer(WORD)?.share(), memory.buffer(WORD)?.share(), none()?];
        let mut bench = Self {
            task,
            context,
            _client: client,
            ended,
            done: Done { call, cookie: 0 },
            rank: 0,
            size: task.tasks(),
            input: none()?,
            output: none()?,
            scratch: none()?,
            board: None,
            judges,
            verdict,
        };
        bench.create()?;
        // As much as the algorithm takes that its list has.
        let scratch = bench.context.scratch_len(&bench.combination(Operator::Sum)?)?;
        bench.verdict[2] = memory.buffer(scratch)?.share();
        bench.provide(arguments)?;
        if arguments.collectives.contains(&Collective::Barrier) {
            bench.board = Some(bench.set_up_boards()?);
        }
        Ok(bench)
    }

    /// Makes all tasks a rectangle: the whole torus.
    fn create(&mut self) -> Result<(), JobError> {
        let task = self.task;
        let mut extents = [1; MAX_DIMENSIONS];
        for (d, extent) in extents.iter_mut().enumerate() {
            *extent = task.shape().extent(d);
        }
        let rectangle = Rectangle::new(task.shape(), *task.map(), TorusCoord::default(), extents)?;
        let members = Members::rectangle(self.context.population(), 0..1, rectangle)?;
        let new = NewGeometry::new(GEOMETRY, members, self.done);
        self.context.create_geometry(new)?;
        self.wait()?;
        self.rank = self.context.geometry(GEOMETRY).map_or(0, |geometry| geometry.rank);
        Ok(())
    }

    /// Takes memory for the largest case.
    fn provide(&mut self, arguments: &Arguments) -> Result<(), JobError> {
        let (mut input, mut output, mut scratch) = (0, 0, 0);
        for &what in &arguments.collectives {
            for &bytes in &arguments.sizes {
                let case = Case { what, bytes, root: arguments.root, ..self.case() };
                for algorithm in self.valid(&case)? {
                    let collect = self.collect(&Case { algorithm: Some(algorithm), ..case })?;
                    scratch = scratch.max(self.context.scratch_len(&collect)?);
                }
                input = input.max(case.input_len() * WORD);
                output = output.max(case.output_len() * WORD);
            }
        }
        let memory = self.task.memory();
        self.input = memory.buffer(input)?.share();
        self.output = memory.buffer(output)?.share();
        self.scratch = memory.buffer(scratch)?.share();
        Ok(())
    }

    /// Every rank learns where the boards of all are.
    fn set_up_boards(&mut self) -> Result<Board, JobError> {
        let (task, ranks) = (self.task, self.size as usize);
        let memory = task.memory();
        let own = board::register(task, &mut self.context, ranks)?;
        let (mine, all) = (memory.buffer(HANDLE)?.share(), memory.buffer(ranks * HANDLE)?.share());
        let outside = |_| JobError::Other("a handle outside its memory");
        mine.write(0, own.handle().as_bytes()).map_err(outside)?;
        self.context.collect(Collect {
            input: Some((mine, 0)),
            output: Some((all.clone(), 0)),
            blocks: Blocks::equal(HANDLE),
            sources: Blocks::equal(HANDLE),
            algorithm: Some((Algorithm::Ring, Tuning { radix: 2, chunk: 1 })),
            ..Collect::new(GEOMETRY, Collective::Allgather, self.done)
        })?;
        self.wait()?;
        let members = self.context.geometry(GEOMETRY).map(|geometry| *geometry.members);
        let mut boards = (0..self.size).map(|rank| {
            let mut bytes = [0; HANDLE];
            all.read(rank as usize * HANDLE, &mut bytes).ok()?;
            Some((members?.endpoint(rank)?, RegionHandle::read_from_bytes(&bytes).ok()?))
        });
        let first = (self.context.endpoint(), own.handle());
        let boards = memory.fill(ranks, || boards.next().flatten().unwrap_or(first))?;
        Board::new(task, self.rank, own, boards)
    }

    pub fn rank(&self) -> u32 {
        self.rank
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    /// The geometry that results of the benchmark itself go by.
    pub fn judges(&self) -> Option<Geometry<'_>> {
        self.context.geometry(self.judges)
    }

    /// A case, to be changed.
    pub fn case(&self) -> Case {
        let (size, rank) = (self.size, self.rank);
        Case { what: Collective::Barrier, algorithm: None, bytes: 0, root: 0, size, rank, round: 0 }
    }

    fn collect(&self, case: &Case) -> Result<Collect, JobError> {
        let reduces = case.what.reduces();
        let sum = reducer(Operator::Sum, Element::U64)?;
        let blocks = Blocks::equal(if reduces { case.words() } else { case.bytes });
        let tuning = cost::tuning(&cost::COSTS, if reduces { WORD } else { 1 });
        let rooted = case.what.is_rooted();
        Ok(Collect {
            root: if rooted { case.root } else { 0 },
            input: Some((self.input.clone(), 0)),
            output: Some((self.output.clone(), 0)),
            scratch: Some((self.scratch.clone(), 0)),
            blocks,
            sources: blocks,
            reducer: reduces.then_some(sum),
            algorithm: case.algorithm.map(|algorithm| (algorithm, tuning)),
            ..Collect::new(GEOMETRY, case.what, self.done)
        })
    }

    /// What is known of a case before it starts.
    pub fn query(&self, case: &Case) -> Result<Query, JobError> {
        Ok(self.context.query(&self.collect(case)?)?)
    }

    /// The algorithms that are valid.
    pub fn valid(&self, case: &Case) -> Result<Vec<Algorithm, 16>, JobError> {
        let query = self.query(case)?;
        let valid = query.candidates().filter(|candidate: &Candidate| candidate.valid.is_ok());
        Ok(valid.map(|candidate| candidate.entry.algorithm).collect())
    }

    fn wait(&mut self) -> Result<(), JobError> {
        let ended = self.ended;
        self.context.wait(|_| ended.lock().is_some());
        let result = ended.lock().take();
        Ok(result.unwrap_or(Ok(()))?)
    }

    fn run(&mut self, case: &Case) -> Result<(), JobError> {
        let collect = self.collect(case)?;
        self.context.collect(collect)?;
        self.wait()
    }

    /// Sums floats, and returns a checksum of the result.
    pub fn sum_floats(&mut self, case: &Case) -> Result<u64, JobError> {
        let sum = reducer(Operator::Sum, Element::F64)?;
        floats::fill(case, &self.input);
        let collect = Collect { reducer: Some(sum), ..self.collect(case)? };
        self.context.collect(collect)?;
        self.wait()?;
        Ok(floats::checksum(case, &self.output))
    }

    /// Measures a case.
    pub fn row(&mut self, case: &Case, rounds: u32) -> Result<Row, JobError> {
        let barrier = self.case();
        let (mut elapsed, mut wrong) = (0, false);
        for round in 0..WARM_UP + rounds {
            let case = Case { round, ..*case };
            // The first result and the last are looked at.
            let checks = round == 0 || round + 1 == WARM_UP + rounds;
            if checks {
                case.fill(&self.input, &self.output);
            }
            self.run(&barrier)?;
            let board = self.board.as_mut().filter(|_| checks && case.what == Collective::Barrier);
            if let Some(board) = board {
                board.write(self.task, &mut self.context)?;
            }
            let start = self.task.now_ns();
            self.run(&case)?;
            if round >= WARM_UP {
                elapsed += self.task.now_ns() - start;
            }
            let all_met = self.board.as_ref().is_none_or(Board::holds);
            wrong |= checks && !(case.holds(&self.output) && all_met);
        }
        let mean = elapsed / u64::from(rounds);
        Ok(Row {
            average_ns: self.over_all(Operator::Sum, mean)? / u64::from(self.size),
            least_ns: self.over_all(Operator::Min, mean)?,
            greatest_ns: self.over_all(Operator::Max, mean)?,
            wrong,
        })
    }

    /// Combines a word over all ranks.
    fn over_all(&mut self, operator: Operator, word: u64) -> Result<u64, JobError> {
        put(&self.verdict[0], 0, word);
        let collect = self.combination(operator)?;
        self.context.collect(collect)?;
        self.wait()?;
        Ok(get(&self.verdict[1], 0).unwrap_or(0))
    }

    fn combination(&self, operator: Operator) -> Result<Collect, JobError> {
        let [input, output, scratch] = &self.verdict;
        Ok(Collect {
            input: Some((input.clone(), 0)),
            output: Some((output.clone(), 0)),
            scratch: Some((scratch.clone(), 0)),
            blocks: Blocks::equal(1),
            reducer: Some(reducer(operator, Element::U64)?),
            ..Collect::new(self.judges, Collective::Allreduce, self.done)
        })
    }
}

fn reducer(operator: Operator, element: Element) -> Result<Reducer, JobError> {
    Reducer::new(operator, element).map_err(|_| JobError::Other("there is no such operator on such elements"))
}
