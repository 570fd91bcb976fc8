//! Half round trip and message rate for each path: self, shared memory, torus one hop, torus farthest, bare frames.
//!
//! Bare frames go one hop without any of what makes messages of them: no message can be faster.
//!
//! Task 0 measures, everyone else answers. Times are of the host that emulates the nodes: compare the rows of one
//! run, not runs. `--rounds N` sets the round trips per row.
#![no_std]
#![no_main]

use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{
    Active, Bare, Client, Context, Endpoint, JobError, Layout, Message, OnPart, OnReceived, Part, Payload,
    Pools, Receive, Received, Send, SendError, Task,
};
use pami::mapping::TaskLocation;
use spin::Mutex;

kernel::entry!(main, jobs::USAGE);

const PING: u8 = 0;
const PONG: u8 = 1;
const COUNT: u8 = 2;
const STOP: u8 = 3;
/// Asks for an exchange of bare frames.
const FRAMES: u8 = 4;
const SIZES: [usize; 7] = [0, 8, 64, 512, 4096, 65536, 1 << 20];
/// Messages of a rate measurement.
const BURST: u32 = 1000;
/// Words of bare frames: what they are for, the number of the question, and in its answer how many frames were counted.
const KIND: u64 = !0 << 48;
const ECHO: u64 = 1 << 48;
const COUNTED: u64 = 2 << 48;
const LAST: u64 = 3 << 48;
const END: u64 = 4 << 48;
const COUNT_BITS: u32 = 16;
const _: () = assert!(BURST < 1 << COUNT_BITS);
/// After so long without an answer a frame, or its answer, is lost or late, and asked for again; after so long without a
/// frame the other node is gone.
const LOST_NS: u64 = 500_000_000;
const GIVE_UP_NS: u64 = 20_000_000_000;
/// So long is waited for the first frame, and so often.
const FIRST_NS: u64 = 1_000_000_000;
const TRIES: u32 = 20;
/// So often is said that there will be no more frames, if nobody answers.
const END_TRIES: u32 = 4;
/// For what is owed to leave a node before it lets messages be.
const SETTLE_NS: u64 = 10_000_000;

/// What handlers share.
struct State {
    pongs: AtomicU32,
    counted: AtomicU32,
    /// Stop messages that came.
    stopped: AtomicU32,
    /// The exchange of bare frames is asked for.
    frames: AtomicU32,
    buffers: Mutex<heapless::Vec<kernel::Buffer, 2>>,
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let rounds = task.arguments().get("--rounds")?.unwrap_or(200);
    let memory = task.memory();
    let state: &'static State = memory.place(State {
        pongs: AtomicU32::new(0),
        counted: AtomicU32::new(0),
        stopped: AtomicU32::new(0),
        frames: AtomicU32::new(0),
        buffers: Mutex::new(heapless::Vec::new()),
    })?;
    for _ in 0..2 {
        let _ = state.buffers.lock().push(memory.buffer(SIZES[SIZES.len() - 1])?);
    }
    let data: &'static [u8] = memory.slice(SIZES[SIZES.len() - 1])?;
    let answer = memory.place(move |active: &mut Active, received: Received| {
        let payload = Payload::Static(&data[..received.len]);
        let target = received.origin;
        // At once, not when the answer is out: the next message may come before that is known.
        let _ = state.buffers.lock().push(received.buffer);
        // One round trip is under way at a time, so there is room.
        let _ = active.send(Send {
            target,
            dispatch: PONG,
            header: &[],
            payload,
            layout: Layout::Contiguous,
            local_done: None,
            remote_done: None,
        });
    })?;
    let answer = &*answer;
    let ping = memory.place(move |active: &mut Active, message: &Message| {
        if message.is_whole() && active.send_immediate(message.origin, PONG, &[], message.data).is_ok() {
            return Receive::Done;
        }
        match state.buffers.lock().pop() {
            Some(buffer) => Receive::Into(buffer, OnReceived { call: answer, cookie: 0 }),
            None => Receive::Done,
        }
    })?;
    let arrived = memory.place(move |_: &mut Active, received: Received| {
        let _ = state.buffers.lock().push(received.buffer);
        state.pongs.fetch_add(1, Relaxed);
    })?;
    let arrived = &*arrived;
    let pong = memory.place(move |_: &mut Active, message: &Message| {
        if !message.is_whole()
            && let Some(buffer) = state.buffers.lock().pop()
        {
            return Receive::Into(buffer, OnReceived { call: arrived, cookie: 0 });
        }
        state.pongs.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let sink = Mutex::new(memory.slice::<u8>(SIZES[SIZES.len() - 1])?);
    let part = memory.place(move |active: &mut Active, part: &Part| {
        // As a receiver does that keeps what it gets; without it a lent message would not be touched at all.
        if let Some(room) = sink.lock().get_mut(part.offset..part.offset + part.data.len()) {
            room.copy_from_slice(part.data);
        }
        if part.is_last() && state.counted.fetch_add(1, Relaxed) + 1 == part.cookie as u32 {
            state.counted.store(0, Relaxed);
            // The last message of a burst says that all have come. The burst's end leaves room for the answer.
            let _ = active.send_immediate(part.origin, PONG, &[], &[]);
        }
    })?;
    let part = &*part;
    let count = memory.place(move |_: &mut Active, message: &Message| {
        let burst = message.header.try_into().map_or(0, u32::from_le_bytes);
        Receive::Packets(OnPart { call: part, cookie: burst as usize })
    })?;
    let stop = memory.place(move |_: &mut Active, _: &Message| {
        state.stopped.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let frames = task.memory().place(move |active: &mut Active, message: &Message| {
        state.frames.fetch_add(1, Relaxed);
        // Nothing else is under way, so there is room.
        let _ = active.send_immediate(message.origin, PONG, &[], &[]);
        Receive::Done
    })?;
    let builder =
        task.client("ping").pools(Pools::LARGE).contexts(2).dispatch(PING, ping).dispatch(PONG, pong);
    let builder = builder.dispatch(COUNT, count).dispatch(STOP, stop).dispatch(FRAMES, frames);
    let mut client = builder.create()?;
    let mut context = kernel::context(&mut client, 0)?;
    if task.number() > 0 {
        context.wait(|_| state.stopped.load(Relaxed) + state.frames.load(Relaxed) > 0);
        if state.frames.load(Relaxed) > 0 {
            // Time for the answer to leave. One that was lost goes again before the next try.
            for _ in 0..TRIES {
                context.wait_for(SETTLE_NS, |_| false);
                if answer_frames(task, data) {
                    break;
                }
            }
            context.wait(|_| state.stopped.load(Relaxed) > 0);
        }
        return Ok(());
    }
    let other = kernel::context(&mut client, 1)?;
    measure(task, &client, [context, other], state, data, rounds)
}

/// A node one hop from this one.
fn neighbour(task: &Task) -> Option<u32> {
    let hops = |node: u32| task.shape().coord(node).map(|there| task.shape().hops(task.coord(), there));
    (0..task.shape().nodes()).find(|&node| hops(node) == Some(1))
}

/// A way from task 0 and what answers at its end.
struct Way {
    name: heapless::String<40>,
    to: Endpoint,
}

fn ways(task: &'static Task, client: &Client) -> Result<heapless::Vec<Way, 4>, JobError> {
    let mut ways = heapless::Vec::new();
    let mut add = |name: core::fmt::Arguments, to| {
        let mut text = heapless::String::new();
        let _ = text.write_fmt(name);
        let _ = ways.push(Way { name: text, to });
    };
    add(format_args!("self"), client.endpoint(0, 0)?);
    let nodes = task.shape().nodes();
    let task_on = |node: u32| task.map().task(TaskLocation { node, local: 0 });
    let local =
        (1..task.tasks()).find(|&t| task.map().place(t).is_some_and(|place| place.node == task.node()));
    match local {
        Some(other) => add(format_args!("shared memory, task {other}"), client.endpoint(other, 0)?),
        None => add(format_args!("shared memory, context 1"), client.endpoint(0, 1)?),
    }
    let distance =
        |node: u32| task.shape().coord(node).map_or(0, |there| task.shape().hops(task.coord(), there));
    let way = if task.shares_memory() { "other node" } else { "torus" };
    if let Some(near) = neighbour(task).and_then(task_on) {
        add(format_args!("{way}, 1 hop"), client.endpoint(near, 0)?);
    }
    let far = (0..nodes).max_by_key(|&node| distance(node)).filter(|&node| distance(node) > 1);
    if let Some(node) = far
        && let Some(far) = task_on(node)
    {
        add(format_args!("{way}, {} hops", distance(node)), client.endpoint(far, 0)?);
    }
    Ok(ways)
}

/// Sends a frame, once there is room. What comes meanwhile is nobody's: one question is under way at a time.
fn send_frame(bare: &mut Bare, node: u32, word: u64, data: &'static [u8]) {
    while !bare.send(node, word, data) {
        while bare.receive().is_some() {}
        bare.wait(u64::MAX);
    }
}

/// Answers task 0's frames until it says that this was all, or is silent for too long. Returns whether there were any.
fn answer_frames(task: &Task, data: &'static [u8]) -> bool {
    let Some(mut bare) = task.unit().bare() else { return true };
    // The burst, and what came of it.
    let (mut heard, mut burst, mut counted) = (task.now_ns(), 0, 0);
    let mut patience = FIRST_NS;
    while task.now_ns() - heard < patience {
        let Some((node, word, len)) = bare.receive() else {
            bare.wait(heard + patience);
            continue;
        };
        (heard, patience) = (task.now_ns(), GIVE_UP_NS);
        let (answer, len) = match word & KIND {
            COUNTED => {
                counted = if word == burst { counted + 1 } else { 1 };
                burst = word;
                continue;
            }
            LAST => (word | if word & !KIND == burst & !KIND { counted } else { 0 }, 0),
            _ => (word, len),
        };
        send_frame(&mut bare, node, answer, &data[..len]);
        if word & KIND == END {
            return true;
        }
    }
    patience != FIRST_NS
}

/// Bare frames between this node and another, from the side that measures.
struct Frames<'a> {
    task: &'a Task,
    bare: Bare<'a>,
    node: u32,
    data: &'static [u8],
    /// The last question's number.
    number: u64,
    /// Questions that were asked again, and answers to such that came after all.
    again: u32,
    late: u32,
}

impl Frames<'_> {
    /// The word of the next question.
    fn next(&mut self, kind: u64) -> u64 {
        self.number += 1;
        kind | self.number << COUNT_BITS
    }

    /// Sends a frame until it is answered. Returns how many frames the answer says were counted.
    fn ask(&mut self, word: u64, size: usize) -> Result<u64, JobError> {
        let start = self.task.now_ns();
        loop {
            if let Some(count) = self.try_to_ask(word, size) {
                return Ok(count);
            }
            if self.task.now_ns() - start > GIVE_UP_NS {
                return Err(JobError::Other("the other node does not answer bare frames"));
            }
        }
    }

    /// Sends a frame. Returns what is counted by its answer, if one comes in time.
    fn try_to_ask(&mut self, word: u64, size: usize) -> Option<u64> {
        send_frame(&mut self.bare, self.node, word, &self.data[..size]);
        let until = self.task.now_ns() + LOST_NS;
        while self.task.now_ns() < until {
            match self.bare.receive() {
                Some((_, got, _)) if got >> COUNT_BITS == word >> COUNT_BITS => {
                    return Some(got & ((1 << COUNT_BITS) - 1));
                }
                // An answer of before, which was thought lost.
                Some(_) => self.late += 1,
                None => self.bare.wait(until),
            }
        }
        self.again += 1;
        None
    }

    /// Says that this was all. Whoever has answered that listens no more: silence may mean that its answer was lost,
    /// and then nothing is left to ask for.
    fn end(&mut self) {
        let end = self.next(END);
        for _ in 0..END_TRIES {
            if self.try_to_ask(end, 0).is_some() {
                return;
            }
        }
    }

    /// Nanoseconds of one half round trip, the mean of `rounds`.
    fn half_round_trip(&mut self, size: usize, rounds: u32) -> Result<u64, JobError> {
        let (warm_up, mut start) = (rounds / 10 + 1, 0);
        for round in 0..warm_up + rounds {
            if round == warm_up {
                start = self.task.now_ns();
            }
            let word = self.next(ECHO);
            self.ask(word, size)?;
        }
        Ok((self.task.now_ns() - start) / u64::from(2 * rounds))
    }

    /// How many of `count` frames came, and the nanoseconds until all had.
    fn burst(&mut self, size: usize, count: u32) -> Result<(u64, u64), JobError> {
        let start = self.task.now_ns();
        let last = self.next(LAST);
        for _ in 0..count {
            send_frame(&mut self.bare, self.node, last ^ LAST ^ COUNTED, &self.data[..size]);
        }
        let came = self.ask(last, 0)?;
        Ok((came, self.task.now_ns() - start))
    }
}

/// What task 0 measures with.
struct Bench {
    task: &'static Task,
    /// Context 0, and context 1 if no other hart advances it.
    contexts: heapless::Vec<Context, 2>,
    state: &'static State,
    data: &'static [u8],
}

impl Bench {
    fn send(&mut self, target: Endpoint, dispatch: u8, header: &[u8], size: usize) -> Result<(), JobError> {
        let data = &self.data[..size];
        loop {
            let active = &mut self.contexts[0];
            let outcome = if header.len() + size <= active.immediate_limit() {
                active.send_immediate(target, dispatch, header, data)
            } else {
                let (payload, layout) = (Payload::Static(data), Layout::Contiguous);
                let send =
                    Send { target, dispatch, header, payload, layout, local_done: None, remote_done: None };
                active.send(send).map_err(|(error, _)| error)
            };
            match outcome {
                Err(SendError::Again) => _ = kernel::wait_on(&mut self.contexts, 1_000_000, |_| true),
                other => return Ok(other?),
            }
        }
    }

    fn await_pongs(&mut self, wanted: u32) {
        let state = self.state;
        kernel::wait_on(&mut self.contexts, u64::MAX, |_| state.pongs.load(Relaxed) >= wanted);
    }

    /// Nanoseconds of one half round trip, the mean of `rounds`.
    fn half_round_trip(&mut self, target: Endpoint, size: usize, rounds: u32) -> Result<u64, JobError> {
        let warm_up = rounds / 10 + 1;
        let mut start = 0;
        for round in 0..warm_up + rounds {
            if round == warm_up {
                start = self.task.now_ns();
            }
            let wanted = self.state.pongs.load(Relaxed) + 1;
            self.send(target, PING, &[], size)?;
            self.await_pongs(wanted);
        }
        Ok((self.task.now_ns() - start) / u64::from(2 * rounds))
    }

    /// Measures bare frames to the node of a neighbour that waits for messages.
    fn frames(&mut self, client: &Client, node: u32, rounds: u32) -> Result<(), JobError> {
        let task = self.task;
        let Some(to) = task.map().task(TaskLocation { node, local: 0 }) else { return Ok(()) };
        let wanted = self.state.pongs.load(Relaxed) + 1;
        self.send(client.endpoint(to, 0)?, FRAMES, &[], 0)?;
        self.await_pongs(wanted);
        kernel::wait_on(&mut self.contexts, SETTLE_NS, |_| false);
        let Some(bare) = task.unit().bare() else { return Ok(()) };
        let mtu = bare.mtu();
        let mut frames = Frames { task, bare, node, data: self.data, number: 0, again: 0, late: 0 };
        for size in [0, 8, 64, 512, mtu] {
            let half_ns = frames.half_round_trip(size, rounds)?;
            let (came, ns) = frames.burst(size, BURST)?;
            print_row("bare frames, 1 hop", size, half_ns, came * 1_000_000_000 / ns.max(1));
        }
        frames.end();
        // A card without buffers may lose what comes in, and a burst is of more frames than a card has buffers.
        let lost = frames.again.saturating_sub(frames.late);
        if frames.again > 0 {
            defmt::println!("{=u32} bare frames or their answers were lost, {=u32} late", lost, frames.late);
        }
        Ok(())
    }

    /// Nanoseconds of `count` messages one way, until the target has had them all.
    fn burst(&mut self, target: Endpoint, size: usize, count: u32) -> Result<u64, JobError> {
        let wanted = self.state.pongs.load(Relaxed) + 1;
        let start = self.task.now_ns();
        for _ in 0..count {
            self.send(target, COUNT, &count.to_le_bytes(), size)?;
        }
        self.await_pongs(wanted);
        Ok(self.task.now_ns() - start)
    }
}

fn print_row(name: &str, size: usize, half_ns: u64, per_second: u64) {
    let (us, hundredths) = (half_ns / 1000, half_ns % 1000 / 10);
    let megabytes = per_second * size as u64 / 1_000_000;
    let mut line = heapless::String::<120>::new();
    let _ = write!(line, "{name:<26} {size:>8} {us:>10}.{hundredths:02} {per_second:>12} {megabytes:>10}");
    defmt::println!("{=str}", line.as_str());
}

fn measure(
    task: &'static Task,
    client: &Client,
    [context, other]: [Context; 2],
    state: &'static State,
    data: &'static [u8],
    rounds: u32,
) -> Result<(), JobError> {
    let mut contexts = heapless::Vec::new();
    let _ = contexts.push(context);
    // Context 1 answers from another hart where the task has one, so that its row measures two.
    let threaded = task.harts() > 1;
    if threaded {
        let other = Mutex::new(Some(other));
        let serve = task.memory().place(move |_: &'static Task| {
            if let Some(mut context) = other.lock().take() {
                context.wait(|_| state.stopped.load(Relaxed) > 1);
            }
        })?;
        task.spawn(1, serve)?;
    } else {
        let _ = contexts.push(other);
    }
    let mut bench = Bench { task, contexts, state, data };
    defmt::println!(
        "from task 0; {=u32} round trips a row, fewer for long messages; times are the host's",
        rounds
    );
    defmt::println!("path                          bytes   half rtt us   messages/s       MB/s");
    for way in ways(task, client)? {
        for size in SIZES {
            // Long messages need no more rounds than show a difference.
            let long = size > bench.contexts[0].immediate_limit();
            let (rounds, count) = if long { (rounds.div_ceil(20), BURST / 50) } else { (rounds, BURST) };
            let half_ns = bench.half_round_trip(way.to, size, rounds)?;
            let per_second = u64::from(count) * 1_000_000_000 / bench.burst(way.to, size, count)?.max(1);
            print_row(&way.name, size, half_ns, per_second);
        }
    }
    if let Some(node) = neighbour(task) {
        bench.frames(client, node, rounds)?;
    }
    for number in 0..task.tasks() {
        bench.send(client.endpoint(number, 0)?, STOP, &[], 0)?;
    }
    kernel::wait_on(&mut bench.contexts, u64::MAX, |_| state.stopped.load(Relaxed) > 0);
    if threaded {
        bench.send(client.endpoint(0, 1)?, STOP, &[], 0)?;
        task.join(1);
    }
    Ok(())
}
