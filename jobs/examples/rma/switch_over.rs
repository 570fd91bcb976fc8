//! Eager and rendezvous sends beside each other: from which size on a rendezvous takes less time (SPEC P-6).
//!
//! Two clients, one of which sends all messages eagerly, the other all by rendezvous. Round trips of the two take turns, and
//! the medians are compared: what else the host does hits both.

use super::table::Microseconds;
use super::ways::{Way, Ways};
use super::{LONGEST, pattern, say};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{
    Active, Buffer, Completion, Done, Endpoint, JobError, Layout, Message, OnReceived, Payload, Receive,
    Received, Send, Task,
};
use spin::Mutex;

const PING: u8 = 1;
const PONG: u8 = 2;
const COUNT: u8 = 3;
const SIZES: [usize; 12] = [512, 1024, 2048, 4096, 6144, 8192, 12288, 16384, 32768, 65536, 1 << 18, LONGEST];
/// Round trips for each size, where none says how many.
const ROUNDS: u32 = 51;
const MOST_ROUNDS: usize = 201;
/// Above this size there are fewer.
const LONG: usize = 1 << 16;
/// Messages that follow each other.
const BURST: u32 = 8;
/// From which size on messages are sent by rendezvous, by client.
const FROM: [usize; 2] = [usize::MAX, 1];

struct State {
    buffers: Mutex<heapless::Vec<Buffer, { BURST as usize + 1 }>>,
    /// Answers and acknowledgements.
    ended: AtomicU32,
    /// The last answer.
    answer: Mutex<Option<Received>>,
    wrong: AtomicU32,
}

impl State {
    fn count_wrong(&self, wrong: bool) {
        self.wrong.fetch_add(wrong.into(), Relaxed);
    }

    fn give_back(&self, buffer: Option<Buffer>) {
        let mut buffers = self.buffers.lock();
        buffer.map(|buffer| buffers.push(buffer));
    }
}

pub fn run(task: &'static Task, rounds: Option<u32>) -> Result<(), JobError> {
    let (memory, pattern) = (task.memory(), pattern(task)?);
    let state: &'static State = memory.place(State {
        buffers: Mutex::new(heapless::Vec::new()),
        ended: AtomicU32::new(0),
        answer: Mutex::new(None),
        wrong: AtomicU32::new(0),
    })?;
    for _ in 0..=BURST {
        let _ = state.buffers.lock().push(memory.buffer(LONGEST)?);
    }
    let into = move |call| match state.buffers.lock().pop() {
        Some(buffer) => Receive::Into(buffer, OnReceived { call, cookie: 0 }),
        None => {
            state.count_wrong(true);
            Receive::Done
        }
    };
    let returned = memory.place(move |_: &mut Active, sent: Completion| state.give_back(sent.buffer))?;
    let returned = Done { call: returned, cookie: 0 };
    // What came goes back, so that the answer tells of both directions.
    let answer = memory.place(move |active: &mut Active, received: Received| {
        let payload = Payload::Buffer(received.buffer, 0..received.len);
        let send = Send { local_done: Some(returned), ..send(received.origin, PONG, payload) };
        // One round trip is under way at a time, so there is room.
        state.count_wrong(active.send(send).is_err());
    })?;
    let answer = &*answer;
    let ping = memory.place(move |_: &mut Active, _: &Message| into(answer))?;
    let answered = memory.place(move |_: &mut Active, received: Received| {
        *state.answer.lock() = Some(received);
        state.ended.fetch_add(1, Relaxed);
    })?;
    let answered = &*answered;
    let pong = memory.place(move |_: &mut Active, _: &Message| into(answered))?;
    let counted =
        memory.place(move |_: &mut Active, received: Received| state.give_back(Some(received.buffer)))?;
    let counted = &*counted;
    let count = memory.place(move |_: &mut Active, _: &Message| into(counted))?;
    let (ping, pong, count) = (&*ping, &*pong, &*count);
    let mut ways = Ways::new(task, 64, |side, builder| {
        let builder = builder.dispatch(PING, ping).dispatch(PONG, pong).dispatch(COUNT, count);
        builder.rendezvous_from(FROM[side])
    })?;
    ways.meet()?;
    if task.number() > 0 {
        let outcome = ways.serve();
        return match state.wrong.load(Relaxed) {
            0 => outcome,
            _ => Err(JobError::Other("a message found no buffer, or an answer no room")),
        };
    }
    let rounds = rounds.unwrap_or(ROUNDS).min(MOST_ROUNDS as u32);
    let far = ways.next_node().ok_or(JobError::Other("--switch-over wants a node one hop away"))?;
    let both = [ways.way("eager", 0, far, 0, true)?, ways.way("rendezvous", 1, far, 0, true)?];
    let acked = memory.place(move |_: &mut Active, acked: Completion| {
        state.count_wrong(acked.result.is_err());
        state.ended.fetch_add(1, Relaxed);
    })?;
    let mut bench = Bench { ways, state, pattern, on_acked: Done { call: acked, cookie: 0 }, begun: 0 };
    say(format_args!(
        "one hop; medians of {rounds}   half a round trip, us      one of {BURST} messages, us"
    ));
    say(format_args!("        bytes           eager  rendezvous       eager  rendezvous"));
    for size in SIZES {
        bench.row(&both, size, rounds)?;
    }
    bench.ways.end()?;
    let wrong = state.wrong.load(Relaxed);
    say(format_args!("{} sizes, {wrong} wrong", SIZES.len()));
    if wrong == 0 { Ok(()) } else { Err(JobError::Other("data came wrong")) }
}

fn send(target: Endpoint, dispatch: u8, payload: Payload) -> Send<'static> {
    let layout = Layout::Contiguous;
    Send { target, dispatch, header: &[], payload, layout, local_done: None, remote_done: None }
}

struct Bench {
    ways: Ways,
    state: &'static State,
    pattern: &'static [u8],
    on_acked: Done,
    begun: u32,
}

impl Bench {
    fn row(&mut self, both: &[Way; 2], size: usize, rounds: u32) -> Result<(), JobError> {
        let mut times = [const { heapless::Vec::<u64, MOST_ROUNDS>::new() }; 4];
        let rounds = if size > LONG { rounds.div_ceil(8) } else { rounds };
        for round in 0..rounds as usize {
            for (way, place) in both.iter().zip(0..) {
                let _ = times[place].push(self.half_round_trip(way, size, round % 256)?);
                let _ = times[place + 2].push(self.burst(way, size)?);
            }
        }
        let [a, b, c, d] = times.map(|mut times| {
            times.sort_unstable();
            Microseconds(times[times.len() / 2])
        });
        say(format_args!("{size:>13} {a:>15} {b:>11} {c:>11} {d:>11}"));
        Ok(())
    }

    fn half_round_trip(&mut self, way: &Way, size: usize, start: usize) -> Result<u64, JobError> {
        let begin = self.ways.task.now_ns();
        self.send(way, PING, start, size, None)?;
        self.wait()?;
        let end = self.ways.task.now_ns();
        if let Some(Received { buffer, len, result, .. }) = self.state.answer.lock().take() {
            let data = &self.pattern[start..start + size];
            self.state.count_wrong(result.is_err() || buffer.as_slice()[..len] != *data);
            self.state.give_back(Some(buffer));
        }
        Ok((end - begin) / 2)
    }

    fn burst(&mut self, way: &Way, size: usize) -> Result<u64, JobError> {
        let begin = self.ways.task.now_ns();
        for _ in 0..BURST {
            self.send(way, COUNT, 0, size, Some(self.on_acked))?;
        }
        self.wait()?;
        Ok((self.ways.task.now_ns() - begin) / u64::from(BURST))
    }

    fn send(
        &mut self,
        way: &Way,
        dispatch: u8,
        start: usize,
        size: usize,
        remote_done: Option<Done>,
    ) -> Result<(), JobError> {
        let (target, pattern) = (way.target, self.pattern);
        self.begun += 1;
        self.ways.attempt(way.context, |active| {
            let payload = Payload::Static(&pattern[start..start + size]);
            let send = Send { remote_done, ..send(target, dispatch, payload) };
            active.send(send).map_err(|(error, _)| error)
        })
    }

    /// Waits for the answers and acknowledgements of all that was sent.
    fn wait(&mut self) -> Result<(), JobError> {
        let (state, begun) = (self.state, self.begun);
        self.ways.wait(|| state.ended.load(Relaxed) >= begun)
    }
}
