//! The rows over PAMI: active messages that the other side's handler answers, puts that it waits for in its memory, atomics, and
//! collectives of the world.

mod steps;

use super::{HALVES, RATE_BYTES, WINDOW, Wanted, first, measure, rate, stand_still, tell};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed},
};
use kernel::{
    Active, Buffer, Client, Collect, Completion, Context, Done, Endpoint, Fetched, JobError, Layout, Limits,
    Message, OnFetched, OnReceived, OperationError, Payload, Pools, Put, Receive, Received, Region,
    RegionHandle, Rights, Rmw, RmwOp, Send, Shared, Task, Update, WORLD, Width,
};
use pami::collective::{Blocks, Collective, Element, Operator, Reducer};
use spin::Mutex;
use zerocopy::{FromBytes, IntoBytes};

const PING: u8 = 1;
const PONG: u8 = 2;
const TICK: u8 = 3;
const STOP: u8 = 4;
/// Names the sender's window.
const WINDOW_IS: u8 = 5;
/// So many puts are to be answered by puts.
const PUTS: u8 = 6;
/// One of many that nobody answers.
const ONE_OF_MANY: u8 = 7;
/// Words of what is put, one after the other: each is another than the one before.
const NUMBERS: u32 = 256;
const WORD: usize = size_of::<u64>();
/// Messages longer than a packet are read where they lie.
const SHORT: usize = 4096;
/// Places in a window: of what is put, and of what is added to.
const PUT_AT: u32 = 0;
const ADD_AT: u32 = 64;

/// What handlers share.
struct State {
    pongs: AtomicU32,
    ticks: AtomicU32,
    stopped: AtomicU32,
    /// Bytes of the long answer that is owed, and one more.
    owed: AtomicU32,
    /// Collectives that have ended, and how the last one failed.
    ended: AtomicU32,
    failed: Mutex<Option<OperationError>>,
    /// The other task's window, and how many puts are to be answered.
    window: Mutex<Option<RegionHandle>>,
    puts: AtomicU32,
    /// Ends of puts and atomics.
    done: AtomicU32,
    /// For long messages, one of which is under way at a time.
    buffers: Mutex<heapless::Vec<Buffer, 2>>,
}

struct Side {
    task: &'static Task,
    context: Context,
    /// Contexts are the client's.
    client: Client,
    state: &'static State,
    data: &'static [u8],
    other: Endpoint,
    /// Of puts and atomics: the own window, the numbers that are put, the last of them, and who hears of ends.
    window: Region,
    numbers: &'static [u8],
    number: u32,
    put_done: Done,
    added: OnFetched,
    done: Done,
    /// Of collectives: what goes in, what comes out, and between.
    input: Shared,
    output: Shared,
    scratch: Shared,
}

pub fn run(task: &'static Task, wanted: Wanted) -> Result<(), JobError> {
    let mut side = Side::new(task, wanted)?;
    if task.tasks() == 2 {
        side.exchange_windows()?;
    }
    if task.number() > 0 {
        side.answer(wanted.steps())?;
    } else {
        side.half(1, 4)?;
        first();
        if task.tasks() == 2 {
            side.messages(wanted)?;
        }
        for other in 1..task.tasks() {
            let other = side.client.endpoint(other, 0)?;
            side.context.retry(|active| active.send_immediate(other, STOP, &[], &[]))?;
        }
    }
    if wanted.names("memory") {
        side.collect(Collective::Barrier, 0, 0)?;
        if task.number() == 0 {
            stand_still(task);
        }
        side.collect(Collective::Barrier, 0, 0)?;
    }
    let barrier = wanted.has("barrier").then_some(("barrier", Collective::Barrier, 0));
    for (row, what, bytes) in barrier.into_iter().chain(wanted.collectives()) {
        let each = measure(
            &mut side,
            |side, rounds| {
                let start = side.task.now_ns();
                for round in 0..rounds {
                    side.collect(what, bytes, round % side.task.tasks())?;
                }
                Ok(side.task.now_ns() - start)
            },
            Side::agree,
        )?;
        if task.number() == 0 {
            tell(row, each);
        }
    }
    Ok(())
}

impl Side {
    fn new(task: &'static Task, wanted: Wanted) -> Result<Self, JobError> {
        let memory = task.memory();
        let state: &'static State = memory.place(State {
            pongs: AtomicU32::new(0),
            ticks: AtomicU32::new(0),
            stopped: AtomicU32::new(0),
            owed: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            failed: Mutex::new(None),
            window: Mutex::new(None),
            puts: AtomicU32::new(0),
            done: AtomicU32::new(0),
            buffers: Mutex::new(heapless::Vec::new()),
        })?;
        let long = if task.tasks() == 2 { wanted.longest() } else { 0 };
        for _ in 0..2 {
            let _ = state.buffers.lock().push(memory.buffer(long)?);
        }
        let data: &'static [u8] = memory.slice(long.max(64))?;
        let into = move |call| match state.buffers.lock().pop() {
            Some(buffer) => Receive::Into(buffer, OnReceived { call, cookie: 0 }),
            None => Receive::Done,
        };
        let answer = memory.place(move |_: &mut Active, received: Received| {
            let _ = state.buffers.lock().push(received.buffer);
            state.owed.store(received.len as u32 + 1, Relaxed);
        })?;
        let answer = &*answer;
        let ping = memory.place(move |active: &mut Active, message: &Message| {
            if message.is_whole() && active.send_immediate(message.origin, PONG, &[], message.data).is_ok() {
                return Receive::Done;
            }
            into(answer)
        })?;
        let answered = memory.place(move |_: &mut Active, received: Received| {
            let _ = state.buffers.lock().push(received.buffer);
            state.pongs.fetch_add(1, Relaxed);
        })?;
        let answered = &*answered;
        let pong = memory.place(move |_: &mut Active, message: &Message| {
            // What lies in the sender's memory is received into one's own, as the others do.
            if !message.is_whole() || message.data.len() > SHORT {
                return into(answered);
            }
            state.pongs.fetch_add(1, Relaxed);
            Receive::Done
        })?;
        let tick = memory.place(move |active: &mut Active, message: &Message| {
            // Nobody else counts.
            let ticks = state.ticks.load(Relaxed) + 1;
            state.ticks.store(ticks, Relaxed);
            if ticks.is_multiple_of(WINDOW) {
                let _ = active.send_immediate(message.origin, PONG, &[], &[]);
            }
            Receive::Done
        })?;
        let one_of_many = memory.place(move |_: &mut Active, _: &Message| Receive::Done)?;
        let stop = memory.place(move |_: &mut Active, _: &Message| {
            state.stopped.fetch_add(1, Relaxed);
            Receive::Done
        })?;
        let window_is = memory.place(move |_: &mut Active, message: &Message| {
            *state.window.lock() = RegionHandle::read_from_bytes(message.data).ok();
            Receive::Done
        })?;
        let puts = memory.place(move |_: &mut Active, message: &Message| {
            state.puts.store(u32::read_from_bytes(message.data).unwrap_or(0), Relaxed);
            Receive::Done
        })?;
        let end = memory.place(move |_: &mut Active, _: Completion| _ = state.done.fetch_add(1, Relaxed))?;
        let added = memory.place(move |_: &mut Active, _: Fetched| _ = state.done.fetch_add(1, Relaxed))?;
        let call = memory.place(move |_: &mut Active, completion: Completion| {
            if let Err(error) = completion.result {
                *state.failed.lock() = Some(error);
            }
            // Nobody else counts.
            state.ended.store(state.ended.load(Relaxed).wrapping_add(1), Relaxed);
        })?;
        let builder = task.client("peers").pools(Pools::LARGE).collectives(Limits::default());
        let builder = builder.dispatch(PING, ping).dispatch(PONG, pong).dispatch(TICK, tick);
        let builder = builder.dispatch(WINDOW_IS, window_is).dispatch(PUTS, puts);
        let builder = builder.dispatch(ONE_OF_MANY, one_of_many);
        let mut client = builder.dispatch(STOP, stop).create()?;
        let mut context = kernel::context(&mut client, 0)?;
        let other = client.endpoint(if task.number() == 0 { task.tasks() - 1 } else { 0 }, 0)?;
        let longest = wanted.collectives().map(|(_, _, bytes)| bytes).max();
        let room = (longest.unwrap_or(0) * task.tasks() as usize).max(64);
        let [input, output, none] =
            [memory.buffer(room)?.share(), memory.buffer(room)?.share(), memory.buffer(0)?.share()];
        let done = Done { call, cookie: 0 };
        let rights = Rights::WRITE | Rights::UPDATE;
        let window =
            context.register(memory.buffer(ADD_AT as usize + WORD)?, rights).map_err(|(error, _)| error)?;
        let numbers: &mut [u8] = memory.slice(NUMBERS as usize * WORD)?;
        for (number, word) in (0u64..).zip(numbers.chunks_exact_mut(WORD)) {
            word.copy_from_slice(&number.to_le_bytes());
        }
        let mut side = Self {
            task,
            context,
            client,
            state,
            data,
            other,
            window,
            numbers,
            number: 0,
            put_done: Done { call: end, cookie: 0 },
            added: OnFetched { call: added, cookie: 0 },
            done,
            input,
            output,
            scratch: none,
        };
        let mut scratch = side.context.scratch_len(&side.call(Collective::Allreduce, 8, 0)?)?;
        for (_, what, bytes) in wanted.collectives() {
            scratch = scratch.max(side.context.scratch_len(&side.call(what, bytes, 0)?)?);
        }
        side.scratch = memory.buffer(scratch)?.share();
        Ok(side)
    }

    /// The rows of task 0, which the other answers.
    fn messages(&mut self, wanted: Wanted) -> Result<(), JobError> {
        for (row, bytes) in HALVES.into_iter().filter(|(row, _)| wanted.has(row)) {
            let each = measure(self, |side, rounds| side.half(rounds, bytes), |_, rounds| Ok(rounds))?;
            tell(row, each / 2);
        }
        if wanted.has("rate-8") {
            tell("rate-8", rate(WINDOW, measure(self, Self::rate, |_, rounds| Ok(rounds))?));
        }
        if wanted.has("stream-8") {
            tell("stream-8", rate(1, measure(self, Self::stream, |_, rounds| Ok(rounds))?));
        }
        if wanted.has("put-8") {
            tell("put-8", measure(self, Self::puts, |_, rounds| Ok(rounds))? / 2);
        }
        if wanted.has("fetch-add") {
            tell("fetch-add", measure(self, Self::additions, |_, rounds| Ok(rounds))?);
        }
        if wanted.steps() {
            self.steps()?;
        }
        Ok(())
    }

    /// Tells the other task of the own window, and waits for its.
    fn exchange_windows(&mut self) -> Result<(), JobError> {
        let (other, handle, state) = (self.other, self.window.handle(), self.state);
        self.context.retry(|active| active.send_immediate(other, WINDOW_IS, &[], handle.as_bytes()))?;
        self.context.wait(|_| state.window.lock().is_some());
        Ok(())
    }

    fn their_window(&self) -> Result<RegionHandle, JobError> {
        self.state.window.lock().ok_or(JobError::Other("the other task has not told of its window"))
    }

    /// The put of the next number into the other's window.
    fn next_put(&mut self, region: RegionHandle) -> impl Fn() -> Put + 'static {
        self.number += 1;
        let at = (self.number % NUMBERS) as usize * WORD;
        let (target, numbers, remote_done) = (self.other, self.numbers, Some(self.put_done));
        move || Put {
            target,
            region,
            offset: PUT_AT,
            layout: Layout::Contiguous,
            payload: Payload::Static(&numbers[at..at + WORD]),
            payload_layout: Layout::Contiguous,
            local_done: None,
            remote_done,
        }
    }

    /// Puts the next number into the other's window.
    fn put_next(&mut self, region: RegionHandle) -> Result<(), JobError> {
        let put = self.next_put(region);
        Ok(self.context.retry(|active| active.put(put()).map_err(|(error, _)| error))?)
    }

    /// Waits in memory until so many numbers were put here. Nobody tells: a put is not heard of.
    fn await_put(&mut self, number: u32) -> Result<(), JobError> {
        let word = &self.window.memory().words(PUT_AT as usize, 1)?[0];
        let mut turns = 0u32;
        while word.load(Acquire) != u64::from(number % NUMBERS) {
            turns += 1;
            // The first looks are the row's; who waits longer may share its core.
            if turns.is_multiple_of(1024) {
                self.context.wait_for(1, |_| false);
            } else {
                self.context.advance();
            }
        }
        Ok(())
    }

    /// Nanoseconds of puts to and fro.
    fn puts(&mut self, rounds: u32) -> Result<u64, JobError> {
        let (region, other) = (self.their_window()?, self.other);
        self.context.retry(|active| active.send_immediate(other, PUTS, &[], &rounds.to_le_bytes()))?;
        let start = self.task.now_ns();
        for _ in 0..rounds {
            self.put_next(region)?;
            self.await_put(self.number)?;
        }
        Ok(self.task.now_ns() - start)
    }

    /// Answers so many.
    fn answer_puts(&mut self, rounds: u32) -> Result<(), JobError> {
        let region = self.their_window()?;
        for _ in 0..rounds {
            self.await_put(self.number + 1)?;
            self.put_next(region)?;
        }
        Ok(())
    }

    /// Nanoseconds of atomics, one after the other.
    fn additions(&mut self, rounds: u32) -> Result<u64, JobError> {
        let (region, target, added, state) = (self.their_window()?, self.other, self.added, self.state);
        let op = RmwOp { width: Width::Eight, update: Update::Add(1) };
        let start = self.task.now_ns();
        for _ in 0..rounds {
            let wanted = state.done.load(Relaxed).wrapping_add(1);
            self.context
                .retry(|active| active.rmw(Rmw { target, region, offset: ADD_AT, op, done: Some(added) }))?;
            self.context.wait(|_| state.done.load(Relaxed) == wanted);
        }
        Ok(self.task.now_ns() - start)
    }

    /// Advances until task 0 says that this was all. Handlers give the short answers; a long one may find no room at once. Who is
    /// to be awake never sleeps: nobody has to wake it.
    fn answer(&mut self, awake: bool) -> Result<(), JobError> {
        let state = self.state;
        let is_due = || state.stopped.load(Relaxed) + state.owed.load(Relaxed) + state.puts.load(Relaxed) > 0;
        loop {
            while awake && !is_due() {
                self.context.advance();
            }
            self.context.wait(|_| is_due());
            if let puts @ 1.. = state.puts.swap(0, Relaxed) {
                self.answer_puts(puts)?;
                continue;
            }
            match state.owed.swap(0, Relaxed) {
                0 => return Ok(()),
                more => self.give(PONG, more as usize - 1)?,
            }
        }
    }

    fn give(&mut self, dispatch: u8, bytes: usize) -> Result<(), JobError> {
        let (target, data) = (self.other, &self.data[..bytes]);
        if bytes <= self.context.immediate_limit() {
            self.context.retry(|active| active.send_immediate(target, dispatch, &[], data))?;
            return Ok(());
        }
        let give = |active: &mut Active| {
            active.send(send(target, dispatch, Payload::Static(data))).map_err(|(error, _)| error)
        };
        Ok(self.context.retry(give)?)
    }

    fn await_pong(&mut self, wanted: u32) {
        let state = self.state;
        self.context.wait(|_| state.pongs.load(Relaxed) == wanted);
    }

    /// Nanoseconds of whole round trips.
    fn half(&mut self, rounds: u32, bytes: usize) -> Result<u64, JobError> {
        let start = self.task.now_ns();
        for _ in 0..rounds {
            let wanted = self.state.pongs.load(Relaxed).wrapping_add(1);
            self.give(PING, bytes)?;
            self.await_pong(wanted);
        }
        Ok(self.task.now_ns() - start)
    }

    /// Nanoseconds of windows of messages, each with the answer to it.
    fn rate(&mut self, rounds: u32) -> Result<u64, JobError> {
        let start = self.task.now_ns();
        for _ in 0..rounds {
            let wanted = self.state.pongs.load(Relaxed).wrapping_add(1);
            for _ in 0..WINDOW {
                self.give(TICK, RATE_BYTES)?;
            }
            self.await_pong(wanted);
        }
        Ok(self.task.now_ns() - start)
    }

    /// Nanoseconds of messages that nobody answers, but to the one behind them.
    fn stream(&mut self, rounds: u32) -> Result<u64, JobError> {
        let start = self.task.now_ns();
        for _ in 0..rounds {
            self.give(ONE_OF_MANY, RATE_BYTES)?;
        }
        let wanted = self.state.pongs.load(Relaxed).wrapping_add(1);
        self.give(PING, 0)?;
        self.await_pong(wanted);
        Ok(self.task.now_ns() - start)
    }

    fn call(&self, what: Collective, bytes: usize, root: u32) -> Result<Collect, JobError> {
        let (reduces, blank) = (what.reduces(), Collect::new(WORLD, what, self.done));
        if what == Collective::Barrier {
            return Ok(blank);
        }
        let blocks = Blocks::equal(if reduces { bytes / 8 } else { bytes });
        Ok(Collect {
            input: Some((self.input.clone(), 0)),
            output: Some((self.output.clone(), 0)),
            scratch: Some((self.scratch.clone(), 0)),
            blocks,
            sources: blocks,
            root: if what == Collective::Broadcast { root } else { 0 },
            reducer: if reduces { Some(Reducer::new(Operator::Sum, Element::U64)?) } else { None },
            ..blank
        })
    }

    fn collect(&mut self, what: Collective, bytes: usize, root: u32) -> Result<(), JobError> {
        let call = self.call(what, bytes, root)?;
        let state = self.state;
        let before = state.ended.load(Relaxed);
        self.context.collect(call)?;
        self.context.wait(|_| state.ended.load(Relaxed) != before);
        match state.failed.lock().take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// A sum to which task 0 alone gives something.
    fn agree(&mut self, rounds: u32) -> Result<u32, JobError> {
        let own = if self.task.number() == 0 { u64::from(rounds) } else { 0 };
        self.input.write(0, &own.to_le_bytes())?;
        self.collect(Collective::Allreduce, 8, 0)?;
        Ok(self.output.words(0, 1)?[0].load(Relaxed) as u32)
    }
}

fn send(target: Endpoint, dispatch: u8, payload: Payload) -> Send<'static> {
    let layout = Layout::Contiguous;
    Send { target, dispatch, header: &[], payload, layout, local_done: None, remote_done: None }
}
