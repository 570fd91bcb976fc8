//! Random access (GUPS): exclusive-or updates of a table over all tasks, by atomics and by active messages.
//!
//! The table of `2^--log2` words of 64 bits lies in regions of all tasks, in equal parts. Every task takes its share
//! of HPC Challenge's random stream; each number is xored into the word that its low bits name. In the form `rmw` the
//! message unit of the owner does it (a fetch of its region), in the form `am` a handler. A form runs the same updates
//! twice. Behind the first every word is compared with what this task computes by itself, behind the second with what it was
//! before: a lost, doubled, torn or misplaced update shows as an error, and errors must be none (the benchmark allows 1 %).
//! Between its start and end no task waits for another.
//!
//! Arguments: `--updates N` in all and per run, `--log2 N`, `--form rmw|am|both`. Rates are the host's: compare them with
//! each other. If a node dies, every other task ends with an error that names it.
#![no_std]
#![no_main]

#[path = "../meeting/mod.rs"]
mod meeting;
mod random;

use core::slice;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use kernel::{
    Active, Client, Context, Done, Endpoint, Fetched, JobError, Message, OnFetched, Pools, Receive, Region,
    RegionHandle, Rights, Rmw, RmwOp, SendError, Shared, Task, Update, Width,
};
use meeting::{Meeting, wait_among_living};
use random::Stream;
use spin::Once;
use zerocopy::FromBytes;

kernel::entry!(main, jobs::USAGE);

const UPDATE: u8 = 1;
const WORD: u64 = size_of::<u64>() as u64;

/// How an update reaches its word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Rmw,
    Am,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Rmw => "rmw",
            Self::Am => "am",
        }
    }
}

struct Settings {
    updates: u64,
    log2: u32,
    forms: &'static [Form],
}

/// What handlers and callbacks share.
struct State {
    /// This task's part of the table.
    part: Once<Shared>,
    /// Updates of this task that are done, in the form `rmw`.
    done: AtomicU64,
    /// 1 + the node whose death ended an update.
    lost: AtomicU32,
    refused: AtomicU32,
    fences: AtomicU32,
}

/// One task's end of the benchmark.
struct Gups {
    task: &'static Task,
    client: Client,
    context: Context,
    meeting: Meeting,
    region: Region,
    handles: &'static [RegionHandle],
    /// What this task's part should hold.
    expected: &'static mut [u64],
    state: &'static State,
    settings: Settings,
    on_fetched: OnFetched,
    on_fenced: Done,
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let settings = settings(task)?;
    // Operations to a dead node end with its name.
    task.survive_deaths();
    let memory = task.memory();
    let state: &'static State = memory.place(State {
        part: Once::new(),
        done: AtomicU64::new(0),
        lost: AtomicU32::new(0),
        refused: AtomicU32::new(0),
        fences: AtomicU32::new(0),
    })?;
    let update = memory.place(move |_: &mut Active, message: &Message| {
        let words = <[u64; 2]>::read_from_bytes(message.data).ok().zip(state.part.get());
        let done = words.map(|([place, value], part)| {
            part.update((place * WORD) as usize, Width::Eight, Update::Xor(value)).is_ok()
        });
        state.refused.fetch_add(u32::from(done != Some(true)), Relaxed);
        Receive::Done
    })?;
    let fetched = memory.place(move |_: &mut Active, fetched: Fetched| match fetched.result {
        Ok(_) => _ = state.done.fetch_add(1, Relaxed),
        Err(kernel::OperationError::NodeDead(node)) => state.lost.store(node + 1, Relaxed),
        // No others are of updates.
        Err(_) => _ = state.refused.fetch_add(1, Relaxed),
    })?;
    let fenced = memory.place(move |_: &mut Active, fenced: kernel::Completion| {
        state.fences.fetch_add(u32::from(fenced.result.is_ok()), Relaxed);
    })?;
    let (mut meeting, builder) = Meeting::prepare(task, task.client("gups").pools(Pools::LARGE))?;
    let mut client = builder.dispatch(UPDATE, update).create()?;
    let mut context = kernel::context(&mut client, 0)?;

    let part = part_words(task, settings.log2);
    let buffer = memory.buffer((part * WORD) as usize)?;
    let region = context.register(buffer, Rights::UPDATE).map_err(|(error, _)| error)?;
    state.part.call_once(|| region.memory().clone());
    let handles = meeting.handles(&client, slice::from_mut(&mut context), region.handle())?;
    let mut gups = Gups {
        task,
        client,
        context,
        meeting,
        region,
        handles,
        expected: memory.fill(part as usize, || 0)?,
        state,
        settings,
        on_fetched: OnFetched { call: fetched, cookie: 0 },
        on_fenced: Done { call: fenced, cookie: 0 },
    };
    gups.run()
}

/// Words of each task's part; the last ones may go beyond the table.
fn part_words(task: &Task, log2: u32) -> u64 {
    (1u64 << log2).div_ceil(u64::from(task.tasks()))
}

fn settings(task: &Task) -> Result<Settings, JobError> {
    let arguments = task.arguments();
    let forms: &[Form] = match arguments.word("--form") {
        Some("rmw") => &[Form::Rmw],
        Some("am") => &[Form::Am],
        _ => &[Form::Rmw, Form::Am],
    };
    let updates = arguments.get("--updates")?.unwrap_or(20_000);
    Ok(Settings { updates, log2: arguments.get("--log2")?.unwrap_or(14), forms })
}

impl Gups {
    fn run(&mut self) -> Result<(), JobError> {
        let Settings { updates, log2, forms } = self.settings;
        let first = self.task.number() == 0;
        let mut rates = [None; 2];
        if first {
            let tasks = self.task.tasks();
            defmt::println!(
                "table of 2^{=u32} words over {=u32} tasks; each run {=u64} updates",
                log2,
                tasks,
                updates
            );
        }
        for (rate, &form) in rates.iter_mut().zip(forms) {
            self.fill()?;
            let start = self.task.now_ns();
            self.updates(form)?;
            let elapsed_ns = (self.task.now_ns() - start).max(1);
            self.updated();
            let mut errors = self.errors()?;
            self.updates(form)?;
            self.numbered();
            errors += self.errors()?;
            let per_second = (u128::from(updates) * 1_000_000_000 / u128::from(elapsed_ns)) as u64;
            *rate = Some(per_second);
            if first {
                let verdict = if errors == 0 { "verified" } else { "WRONG" };
                defmt::println!(
                    "{=str}: {=u64} updates in {=u64} us, {=u64} updates/s; computed and run twice, {=u64} of {=u64} words differ: {=str}",
                    form.name(),
                    updates,
                    elapsed_ns / 1000,
                    per_second,
                    errors,
                    1u64 << log2,
                    verdict
                );
            }
            if errors > 0 {
                return Err(JobError::Other("the table is not what it should be"));
            }
        }
        if let ([Some(rmw), Some(am)], true) = (rates, first) {
            let hundredths = rmw * 100 / am.max(1);
            defmt::println!(
                "rmw/am {=u64}.{=u64}{=u64}",
                hundredths / 100,
                hundredths / 10 % 10,
                hundredths % 10
            );
        }
        Ok(())
    }

    /// Gives every word of this task's part its number in the table.
    fn fill(&mut self) -> Result<(), JobError> {
        let part = part_words(self.task, self.settings.log2);
        for place in 0..part {
            let value = u64::from(self.task.number()) * part + place;
            let _ = self.region.memory().write((place * WORD) as usize, &value.to_ne_bytes());
        }
        self.meeting.meet(&self.client, slice::from_mut(&mut self.context), [0; 2]).map(drop)
    }

    /// Expects every word of this task's part to be its number in the table.
    fn numbered(&mut self) {
        let first = u64::from(self.task.number()) * self.expected.len() as u64;
        self.expected.iter_mut().zip(first..).for_each(|(word, number)| *word = number);
    }

    /// Expects what all updates, one after the other, make of that.
    fn updated(&mut self) {
        self.numbered();
        let Settings { updates, log2, .. } = self.settings;
        let part = self.expected.len() as u64;
        for value in Stream::after(0).take(updates as usize) {
            let place = value & ((1 << log2) - 1);
            if place / part == u64::from(self.task.number()) {
                self.expected[(place % part) as usize] ^= value;
            }
        }
    }

    /// Words of all parts that are not what is expected.
    fn errors(&mut self) -> Result<u64, JobError> {
        let mut wrong = u64::from(self.state.refused.load(Relaxed));
        for (place, expected) in self.expected.iter().enumerate() {
            let mut bytes = [0; 8];
            let read = self.region.memory().read(place * size_of::<u64>(), &mut bytes);
            wrong += u64::from(read.is_err() || u64::from_ne_bytes(bytes) != *expected);
        }
        Ok(self
            .meeting
            .meet(&self.client, slice::from_mut(&mut self.context), [wrong, 0])?
            .map(|words| words[0])
            .sum())
    }

    /// This task's share of the updates, until all tasks' are done.
    fn updates(&mut self, form: Form) -> Result<(), JobError> {
        let Settings { updates, log2, .. } = self.settings;
        let (me, tasks) = (u64::from(self.task.number()), u64::from(self.task.tasks()));
        let start = (u128::from(updates) * u128::from(me) / u128::from(tasks)) as u64;
        let end = (u128::from(updates) * u128::from(me + 1) / u128::from(tasks)) as u64;
        let part = part_words(self.task, log2);
        let done_before = self.state.done.load(Relaxed);
        for value in Stream::after(start).take((end - start) as usize) {
            let place = value & ((1 << log2) - 1);
            let owner = (place / part) as u32;
            let target = self.client.endpoint(owner, 0)?;
            match form {
                Form::Rmw => self.rmw(target, place % part, value)?,
                Form::Am => self.send(target, place % part, value)?,
            }
        }
        match form {
            Form::Rmw => {
                let (state, wanted) = (self.state, done_before + (end - start));
                self.wait(|_| {
                    Ok(state.done.load(Relaxed) + u64::from(state.refused.load(Relaxed)) >= wanted)
                })?;
            }
            Form::Am => {
                // Nobody counts messages: the fence says that all have been received.
                let (state, on_fenced) = (self.state, self.on_fenced);
                let wanted = state.fences.load(Relaxed) + 1;
                self.attempt(|active| active.fence_tasks(0..tasks as u32, on_fenced))?;
                self.wait(|_| Ok(state.fences.load(Relaxed) >= wanted))?;
            }
        }
        self.meeting.meet(&self.client, slice::from_mut(&mut self.context), [0; 2]).map(drop)
    }

    fn rmw(&mut self, target: Endpoint, place: u64, value: u64) -> Result<(), JobError> {
        let region = self.handles[target.task() as usize];
        let (offset, done) = ((place * WORD) as u32, Some(self.on_fetched));
        let op = RmwOp { width: Width::Eight, update: Update::Xor(value) };
        self.attempt(|active| active.rmw(Rmw { target, region, offset, op, done }))
    }

    fn send(&mut self, target: Endpoint, place: u64, value: u64) -> Result<(), JobError> {
        let data = [place, value];
        self.attempt(|active| {
            active.send_immediate(target, UPDATE, &[], zerocopy::IntoBytes::as_bytes(&data))
        })
    }

    /// Tries until there is room.
    fn attempt(
        &mut self,
        mut attempt: impl FnMut(&mut Active) -> Result<(), SendError>,
    ) -> Result<(), JobError> {
        match attempt(&mut self.context) {
            Err(SendError::Again) => {}
            outcome => return Ok(outcome?),
        }
        self.wait(|active| match attempt(active) {
            Err(SendError::Again) => Ok(false),
            outcome => Ok(outcome.map(|()| true)?),
        })
    }

    fn wait(&mut self, mut until: impl FnMut(&mut Active) -> Result<bool, JobError>) -> Result<(), JobError> {
        let lost = &self.state.lost;
        wait_among_living(slice::from_mut(&mut self.context), |contexts| {
            match lost.load(Relaxed).checked_sub(1) {
                Some(node) => Err(JobError::Dead(node)),
                None => until(&mut contexts[0]),
            }
        })
    }
}
