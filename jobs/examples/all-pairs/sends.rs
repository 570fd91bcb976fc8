//! Sends: each context sends every size to every endpoint of the job, itself included, and takes as many from each: by the
//! call, then, if asked for, by each of the factories that a send has ways for.

use super::pattern::{LARGEST, SIZES, byte, sizes};
use super::ways::{Way, Ways};
use super::{EACH, Pairs, endpoint_number, endpoints};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{
    Active, Buffer, Completion, Done, JobError, Layout, Message, OnPart, OnReceived, Part, Payload, Receive,
    Received, Send, SendError, Task,
};
use pami::factory::Outgoing;
use spin::Mutex;

/// The dispatch id.
pub const MESSAGE: u8 = 9;
/// Receive buffers of the largest size that a task has for each context; further large messages come in parts.
const ROOM: usize = 2;
const SMALL_BUFFERS: usize = 64;

/// What the handlers of one task share.
struct State {
    endpoints: usize,
    /// Messages taken from each endpoint by each context: they must come in the order of the sizes.
    taken: &'static [AtomicU32],
    small: Mutex<heapless::Vec<Buffer, SMALL_BUFFERS>>,
    large: Mutex<heapless::Vec<Buffer, { ROOM * EACH }>>,
    whole: AtomicU32,
    wrong: AtomicU32,
    acked: AtomicU32,
    /// Each context's send buffer, while it is not out.
    back: [Mutex<Option<Buffer>>; EACH],
}

impl State {
    fn count_wrong(&self, wrong: bool) {
        self.wrong.fetch_add(wrong.into(), Relaxed);
    }
}

/// A task's handlers.
pub struct Sends {
    state: &'static State,
    pub handler: &'static (dyn Fn(&mut Active, &Message) -> Receive + Sync),
}

impl Sends {
    pub fn new(task: &'static Task) -> Result<Self, JobError> {
        let (memory, endpoints) = (task.memory(), endpoints(task));
        let state: &'static State = memory.place(State {
            endpoints,
            taken: memory.fill(endpoints * EACH, || AtomicU32::new(0))?,
            small: Mutex::new(heapless::Vec::new()),
            large: Mutex::new(heapless::Vec::new()),
            whole: AtomicU32::new(0),
            wrong: AtomicU32::new(0),
            acked: AtomicU32::new(0),
            back: [const { Mutex::new(None) }; EACH],
        })?;
        let whole = memory.place(move |active: &mut Active, received: Received| {
            let Received { origin, buffer, len, total, result, cookie } = received;
            let from = endpoint_number(origin);
            let bytes = &buffer.as_slice()[..len];
            let expected = sizes(active.immediate_limit())[cookie];
            let good = result.is_ok() && len == total && len == expected;
            let good = good && bytes.iter().enumerate().all(|(at, &seen)| seen == byte(at, from));
            state.count_wrong(!good);
            state.whole.fetch_add(1, Relaxed);
            let _ = if buffer.len() >= LARGEST {
                state.large.lock().push(buffer)
            } else {
                state.small.lock().push(buffer)
            };
        })?;
        let whole = &*whole;
        // No buffer was free: bytes are checked as they pass.
        let part = memory.place(move |active: &mut Active, part: &Part| {
            let from = endpoint_number(part.origin);
            let bytes = part.data.iter().enumerate();
            let wrong = bytes.filter(|&(at, &seen)| seen != byte(part.offset + at, from)).count();
            state.count_wrong(wrong > 0 || part.result.is_err());
            if part.is_last() {
                state.count_wrong(part.total != sizes(active.immediate_limit())[part.cookie]);
                state.whole.fetch_add(1, Relaxed);
            }
        })?;
        let part = &*part;
        let handler = memory.place(move |active: &mut Active, message: &Message| {
            let from = endpoint_number(message.origin);
            let pair = endpoint_number(active.endpoint()) % EACH * state.endpoints + from;
            let number = state.taken[pair].fetch_add(1, Relaxed) as usize % SIZES;
            state.count_wrong(message.total != sizes(active.immediate_limit())[number]);
            let large = message.total > LARGEST / 2;
            let buffer = if large { state.large.lock().pop() } else { state.small.lock().pop() };
            match buffer {
                Some(buffer) => Receive::Into(buffer, OnReceived { call: whole, cookie: number }),
                None => Receive::Packets(OnPart { call: part, cookie: number }),
            }
        })?;
        Ok(Self { state, handler })
    }

    /// Returns how much was wrong.
    pub fn exchange(&self, pairs: &mut Pairs, ways: Option<&Ways>) -> Result<u64, JobError> {
        let (state, task) = (self.state, pairs.task);
        let memory = task.memory();
        for _ in 0..SMALL_BUFFERS {
            let _ = state.small.lock().push(memory.buffer(pairs.contexts[0].immediate_limit() + 1)?);
        }
        for _ in 0..ROOM * EACH {
            let _ = state.large.lock().push(memory.buffer(LARGEST)?);
        }
        for context in &pairs.contexts {
            let mut buffer = memory.buffer(LARGEST)?;
            let from = endpoint_number(context.endpoint());
            for (at, place) in buffer.as_mut_slice().iter_mut().enumerate() {
                *place = byte(at, from);
            }
            *state.back[from % EACH].lock() = Some(buffer);
        }
        let mut wanted = 0;
        for way in core::iter::once(None).chain(ways.into_iter().flat_map(Ways::each).map(Some)) {
            self.send_all(pairs, way)?;
            wanted += (state.endpoints * SIZES * EACH) as u32;
            kernel::wait_on(&mut pairs.contexts, u64::MAX, |_| {
                state.whole.load(Relaxed) >= wanted && state.acked.load(Relaxed) >= wanted
            });
            // Nothing more comes from anybody when all have what they want.
            pairs.meeting.meet(&pairs.client, &mut pairs.contexts, [0; 2]).map(drop)?;
        }
        let (wrong, protocol_errors) = (state.wrong.load(Relaxed), pairs.protocol_errors());
        let more = state.whole.load(Relaxed) - wanted;
        if task.number() == 0 {
            defmt::println!(
                "{=u32} messages from {=usize} endpoints, {=u32} wrong, {=u64} protocol errors",
                wanted,
                state.endpoints,
                wrong,
                protocol_errors
            );
        }
        Ok(u64::from(wrong) + u64::from(more) + protocol_errors)
    }

    /// By a factory each message follows the one before once that is in: they may take different paths.
    fn send_all(&self, pairs: &mut Pairs, way: Option<&Way>) -> Result<(), JobError> {
        let Pairs { task, client, contexts, .. } = pairs;
        let state = self.state;
        let returned = task.memory().place(move |_: &mut Active, completion: Completion| {
            *state.back[completion.cookie].lock() = completion.buffer;
        })?;
        let acked = task.memory().place(move |_: &mut Active, completion: Completion| {
            state.count_wrong(completion.result.is_err());
            state.acked.fetch_add(1, Relaxed);
        })?;
        let (returned, acked) = (&*returned, &*acked);
        let tasks = task.tasks();
        let mut sent = state.acked.load(Relaxed);
        let targets = (0..tasks).map(|step| (task.number() + step) % tasks);
        let each = targets.flat_map(|to| (0..SIZES).map(move |number| (to, number)));
        for (to, number) in each {
            for (context, to_context) in (0..EACH).flat_map(|from| (0..EACH).map(move |to| (from, to))) {
                let target = client.endpoint(to, to_context as u8)?;
                let size = sizes(contexts[context].immediate_limit())[number];
                let mut taken = None;
                kernel::wait_on(contexts, u64::MAX, |_| {
                    taken = state.back[context].lock().take();
                    taken.is_some()
                });
                let mut payload = taken.map(|buffer| Payload::Buffer(buffer, 0..size));
                while let Some(again) = payload.take() {
                    let (local_done, remote_done) = (
                        Some(Done { call: returned, cookie: context }),
                        Some(Done { call: acked, cookie: 0 }),
                    );
                    let (header, layout) = (&[][..], Layout::Contiguous);
                    let active = &mut contexts[context];
                    let outcome = match way {
                        None => active.send(Send {
                            target,
                            dispatch: MESSAGE,
                            header,
                            payload: again,
                            layout,
                            local_done,
                            remote_done,
                        }),
                        Some(way) => {
                            let outgoing =
                                Outgoing { target, header, payload: again, layout, local_done, remote_done };
                            way.execute(active, outgoing)
                        }
                    };
                    match outcome {
                        Ok(()) => {}
                        Err((SendError::Again, back)) => {
                            payload = Some(back);
                            kernel::wait_on(contexts, 1_000_000, |_| false);
                        }
                        Err((error, _)) => return Err(error.into()),
                    }
                }
                sent += 1;
                if way.is_some() {
                    kernel::wait_on(contexts, u64::MAX, |_| state.acked.load(Relaxed) >= sent);
                }
            }
        }
        Ok(())
    }
}
