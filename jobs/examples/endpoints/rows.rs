//! Tasks in rows, and an endpoint of the root for each (SPEC G-5): the documents' example.
//!
//! The tasks are so many rows of equally many. Task 0 is the root: its first endpoint is at home, and of each other row the first
//! task's node gives it one, with a context besides that task's own. On a torus of three rows those are the root's neighbours. Each serves its row:
//! the root's node sends one vector to each other row, and not one to each task.
//!
//! All six collectives that can be divided are carried out, and every result is checked. A broadcast is flat, so that links show who
//! sends to whom.

use super::arguments::Arguments;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use heapless::{String, Vec};
use kernel::{
    Active, Client, Collect, Completion, Context, Done, Endpoint, GeometryId, JobError, Limits, Members,
    NewGeometry, Pools, Shared, Task, wait_on,
};
use pami::collective::{Algorithm, Blocks, Collective, Element, Operator, Reducer, Tuning};
use pami::endpoint::ContextOffset;

const WORD: usize = size_of::<u64>();
const GEOMETRY: GeometryId = GeometryId(1);

/// Word `at` of a task's input.
fn word(task: usize, at: usize) -> u64 {
    (task as u64 * 1009 + at as u64 * 31 + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The endpoints of one task: its own, and the root's beside it if it is the first of a row.
struct Row {
    task: &'static Task,
    contexts: Vec<Context, 2>,
    _client: Client,
    ended: &'static AtomicU32,
    failed: &'static AtomicU32,
    done: Done,
    words: usize,
    input: Shared,
    output: Shared,
}

pub fn run(task: &'static Task, arguments: &Arguments, rows: u32) -> Result<(), JobError> {
    if !task.tasks().is_multiple_of(rows) {
        return Err(JobError::Other("the tasks are not so many rows: --rows must divide their number"));
    }
    let length = task.tasks() / rows;
    let mut row = Row::new(task, (arguments.bytes / WORD).max(1), rows)?;
    if task.number() == 0 {
        defmt::println!("root with an endpoint for each of {=u32} rows of {=u32}", rows, length);
        defmt::println!("collective     bytes        us");
    }
    for &what in &arguments.collectives {
        row.prepare(what);
        row.barrier()?;
        let start = task.now_ns();
        row.carry_out(what)?;
        let elapsed = task.now_ns() - start;
        row.barrier()?;
        if !row.holds(what) {
            return Err(JobError::Other("a result is not what it must be"));
        }
        if task.number() == 0 {
            let mut line = String::<80>::new();
            let _ = write!(line, "{what:<11} {:>8} {:>9}", row.words * WORD, elapsed / 1000);
            defmt::println!("{=str}", line.as_str());
        }
    }
    Ok(())
}

/// The root's endpoints, row by row, then one of each other task.
fn members(task: &'static Task, context: &Context, rows: u32) -> Result<Members<'static>, JobError> {
    let (tasks, memory) = (task.tasks(), task.memory());
    let client = context.endpoint().client();
    let at = |task, context| Endpoint::from_parts(client, task, ContextOffset(context));
    let (mut places, mut firsts) = (0.., 0..);
    let list = memory.fill((rows + tasks - 1) as usize, || match places.next().unwrap_or(0) {
        0 => at(0, 0),
        row if row < rows => at(row * (tasks / rows), 1),
        place => at(place - rows + 1, 0),
    })?;
    let groups = memory.fill(tasks as usize, || match firsts.next().unwrap_or(0) {
        0 => 0,
        task => rows + task - 1,
    })?;
    Ok(Members::grouped(context.population(), list, groups, memory.slice(list.len())?)?)
}

impl Row {
    fn new(task: &'static Task, words: usize, rows: u32) -> Result<Self, JobError> {
        let memory = task.memory();
        // Each task has a slice of a reduction for each endpoint of the root.
        let limits = Limits { in_flight: 16.max(rows as usize + 1), ..Limits::default() };
        let mut client = task.client("rows").pools(Pools::LARGE).contexts(2).collectives(limits).create()?;
        let mut contexts = Vec::new();
        let serves = task.number() > 0 && task.number().is_multiple_of(task.tasks() / rows);
        for offset in 0..=u8::from(serves) {
            let _ = contexts.push(kernel::context(&mut client, offset)?);
        }
        let ended: &'static AtomicU32 = memory.place(AtomicU32::new(0))?;
        let failed: &'static AtomicU32 = memory.place(AtomicU32::new(0))?;
        let call = memory.place(move |_: &mut Active, completion: Completion| {
            failed.fetch_add(u32::from(completion.result.is_err()), Relaxed);
            ended.fetch_add(1, Relaxed);
        })?;
        let done = Done { call, cookie: 0 };
        let room = || Ok::<_, JobError>(memory.buffer(task.tasks() as usize * words * WORD)?.share());
        let (input, output) = (room()?, room()?);
        let mut row = Self { task, contexts, _client: client, ended, failed, done, words, input, output };
        let members = members(task, &row.contexts[0], rows)?;
        row.together(|context, _| {
            let new = NewGeometry { routed: false, ..NewGeometry::new(GEOMETRY, members, done) };
            Ok(context.create_geometry(new)?)
        })?;
        Ok(row)
    }

    /// Starts something at each endpoint here, and waits until all are done.
    fn together(
        &mut self,
        mut start: impl FnMut(&mut Context, bool) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let all = self.contexts.len() as u32;
        for (context, own) in self.contexts.iter_mut().zip([true, false]) {
            start(context, own)?;
        }
        let ended = self.ended;
        wait_on(&mut self.contexts, u64::MAX, |_| ended.load(Relaxed) == all);
        ended.store(0, Relaxed);
        let failed = self.failed.load(Relaxed) > 0;
        if failed { Err(JobError::Other("a collective did not end well")) } else { Ok(()) }
    }

    fn barrier(&mut self) -> Result<(), JobError> {
        let done = self.done;
        self.together(|context, _| Ok(context.collect(Collect::new(GEOMETRY, Collective::Barrier, done))?))
    }

    fn carry_out(&mut self, what: Collective) -> Result<(), JobError> {
        let (task, done, words) = (self.task, self.done, self.words);
        let (input, output) = (self.input.clone(), self.output.clone());
        let reducer = if what.reduces() { Some(Reducer::new(Operator::Sum, Element::U64)?) } else { None };
        let blocks = Blocks::equal(if what.reduces() { words } else { words * WORD });
        let flat = (Algorithm::Flat, Tuning { radix: 2, chunk: 1 });
        self.together(|context, own| {
            // The root's endpoints in other rows have none of its memory.
            let area = |memory: &Shared| own.then(|| (memory.clone(), 0));
            let mut collect = Collect {
                input: area(&input),
                output: area(&output),
                blocks,
                sources: blocks,
                reducer,
                algorithm: (what == Collective::Broadcast).then_some(flat),
                divided: true,
                ..Collect::new(GEOMETRY, what, done)
            };
            let scratch = task.memory().buffer(context.scratch_len(&collect)?)?.share();
            collect.scratch = Some((scratch, 0));
            Ok(context.collect(collect)?)
        })
    }

    /// Words of the input are the task's, those of the output nobody's.
    fn prepare(&self, what: Collective) {
        let own = self.task.number() as usize;
        let len =
            if what == Collective::Scatter { self.words * self.task.tasks() as usize } else { self.words };
        for at in 0..len {
            // Inside the memory.
            let _ = self.input.write(at * WORD, &word(own, at).to_ne_bytes());
        }
        for at in 0..self.output.len() / WORD {
            let _ = self.output.write(at * WORD, &[0xee; WORD]);
        }
    }

    fn holds(&self, what: Collective) -> bool {
        let (own, tasks, words) = (self.task.number() as usize, self.task.tasks() as usize, self.words);
        let sum = |at| (0..tasks).fold(0u64, |sum, task| sum.wrapping_add(word(task, at)));
        let len = match what {
            // The root's vector stays where it is.
            Collective::Broadcast if own == 0 => 0,
            Collective::Gather | Collective::Reduce if own > 0 => 0,
            Collective::Gather | Collective::Allgather => tasks * words,
            _ => words,
        };
        let expected = |at: usize| match what {
            Collective::Broadcast => word(0, at),
            Collective::Scatter => word(0, own * words + at),
            Collective::Gather | Collective::Allgather => word(at / words, at % words),
            _ => sum(at),
        };
        let mut got = [0; WORD];
        (0..self.output.len() / WORD).all(|at| {
            let right = if at < len { expected(at).to_ne_bytes() } else { [0xee; WORD] };
            self.output.read(at * WORD, &mut got).is_ok() && got == right
        })
    }
}
