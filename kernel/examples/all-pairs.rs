//! Every pair of endpoints, two contexts a task, exchanges messages of eight sizes; content and order checked.
//!
//! Each context sends to every endpoint of the job, itself included, the sizes in turn, and takes as many from
//! each. Arguments: `--loop-back` sends what could stay in a node over the network; `--shared` has the contexts
//! share their injection FIFO.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{
    Active, Buffer, Client, Completion, Context, Done, JobError, Layout, Message, OnReceived, Payload,
    Receive, Received, Send, Task,
};
use spin::Mutex;

kernel::entry!(main);

const CONTEXTS: u8 = 2;
const SIZES: usize = 8;
const LARGEST: usize = 1 << 20;

/// Receive buffers of the largest size that one context has; more large messages than this wait for one.
const ROOM: usize = 2;

/// What the handlers of one task share.
struct State {
    /// Messages taken from each endpoint by each context: they must come in the order of the sizes.
    taken: &'static [AtomicU32],
    small: Mutex<heapless::Vec<Buffer, 64>>,
    large: Mutex<heapless::Vec<Buffer, { ROOM * CONTEXTS as usize }>>,
    whole: AtomicU32,
    wrong: AtomicU32,
    acked: AtomicU32,
    /// Each context's send buffer, while it is not out.
    back: [Mutex<Option<Buffer>>; CONTEXTS as usize],
}

fn byte(at: usize, from: usize) -> u8 {
    (at.wrapping_mul(7) ^ (at >> 9) ^ from.wrapping_mul(31)) as u8
}

fn sizes(mtu: usize) -> [usize; SIZES] {
    [0, 1, 8, 64, mtu - 1, mtu, mtu + 1, LARGEST]
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let memory = task.memory();
    let endpoints = task.tasks() as usize * usize::from(CONTEXTS);
    let per_context = endpoints * SIZES;
    let state: &'static State = memory.place(State {
        taken: memory.fill(endpoints * usize::from(CONTEXTS), || AtomicU32::new(0))?,
        small: Mutex::new(heapless::Vec::new()),
        large: Mutex::new(heapless::Vec::new()),
        whole: AtomicU32::new(0),
        wrong: AtomicU32::new(0),
        acked: AtomicU32::new(0),
        back: [const { Mutex::new(None) }; CONTEXTS as usize],
    })?;
    let whole = memory.place(move |active: &mut Active, received: Received| {
        let Received { origin, buffer, len, total, result, cookie } = received;
        let from = endpoint_number(origin);
        let taken =
            &state.taken[endpoint_number(active.endpoint()) % usize::from(CONTEXTS) * endpoints + from];
        let expected = sizes(active.immediate_limit())[taken.fetch_add(1, Relaxed) as usize % SIZES];
        let bytes = &buffer.as_slice()[..len];
        let good = result.is_ok() && len == total && cookie == from && len == expected;
        if !good || bytes.iter().enumerate().any(|(at, &seen)| seen != byte(at, from)) {
            state.wrong.fetch_add(1, Relaxed);
        }
        state.whole.fetch_add(1, Relaxed);
        let _ = if buffer.len() >= LARGEST {
            state.large.lock().push(buffer)
        } else {
            state.small.lock().push(buffer)
        };
    })?;
    let whole = &*whole;
    let part = memory.place(move |active: &mut Active, part: &kernel::Part| {
        // No buffer was free: check the bytes as they pass.
        let from = endpoint_number(part.origin);
        let bytes = part.data.iter().enumerate();
        let wrong = bytes.filter(|&(at, &seen)| seen != byte(part.offset + at, from)).count();
        state.wrong.fetch_add((wrong > 0) as u32, Relaxed);
        if part.is_last() {
            let me = endpoint_number(active.endpoint()) % usize::from(CONTEXTS);
            let taken = state.taken[me * endpoints + from].fetch_add(1, Relaxed);
            let expected = sizes(active.immediate_limit())[taken as usize % SIZES];
            state.wrong.fetch_add((part.total != expected) as u32, Relaxed);
            state.whole.fetch_add(1, Relaxed);
        }
    })?;
    let part = &*part;
    let handler = memory.place(move |_: &mut Active, message: &Message| {
        let from = endpoint_number(message.origin);
        let large = message.total > LARGEST / 2;
        let buffer = if large { state.large.lock().pop() } else { state.small.lock().pop() };
        match buffer {
            Some(buffer) => Receive::Into(buffer, OnReceived { call: whole, cookie: from }),
            None => Receive::Packets(kernel::OnPart { call: part, cookie: from }),
        }
    })?;

    let shared = task.args().any(|arg| arg == "--shared");
    let loop_back = task.args().any(|arg| arg == "--loop-back");
    let sharing = if shared { kernel::Sharing::Shared } else { kernel::Sharing::Exclusive };
    let builder = task.client("pairs").contexts(CONTEXTS).dispatch(9, handler);
    let mut client = builder.sharing(sharing).local_paths(!loop_back).create()?;
    let mut contexts = [kernel::context(&mut client, 0)?, kernel::context(&mut client, 1)?];
    let mtu = contexts[0].immediate_limit();
    for _ in 0..64 {
        let _ = state.small.lock().push(memory.buffer(mtu + 1)?);
    }
    for _ in 0..ROOM * usize::from(CONTEXTS) {
        let _ = state.large.lock().push(memory.buffer(LARGEST)?);
    }
    for context in &contexts {
        let mut buffer = memory.buffer(LARGEST)?;
        let from = endpoint_number(context.endpoint());
        for (at, place) in buffer.as_mut_slice().iter_mut().enumerate() {
            *place = byte(at, from);
        }
        *state.back[from % usize::from(CONTEXTS)].lock() = Some(buffer);
    }
    exchange(task, &client, &mut contexts, state)?;

    let wanted = (per_context * usize::from(CONTEXTS)) as u32;
    kernel::wait_on(&mut contexts, u64::MAX, |_| {
        state.whole.load(Relaxed) >= wanted && state.acked.load(Relaxed) >= wanted
    });
    let strays: u64 = contexts.iter().map(|context| context.counters().strays).sum();
    let wrong = state.wrong.load(Relaxed);
    if task.number() == 0 {
        defmt::println!(
            "{=u32} messages from {=usize} endpoints, {=u32} wrong, {=u64} strays",
            wanted,
            endpoints,
            wrong,
            strays
        );
    }
    if wrong > 0 || strays > 0 || state.whole.load(Relaxed) != wanted {
        return Err(JobError::Other("messages came wrong, doubled or out of order"));
    }
    Ok(())
}

fn endpoint_number(endpoint: kernel::Endpoint) -> usize {
    endpoint.task() as usize * usize::from(CONTEXTS) + usize::from(endpoint.context().0)
}

fn exchange(
    task: &'static Task,
    client: &Client,
    contexts: &mut [Context; CONTEXTS as usize],
    state: &'static State,
) -> Result<(), JobError> {
    let returned = task.memory().place(move |_: &mut Active, completion: Completion| {
        *state.back[completion.cookie].lock() = completion.buffer;
    })?;
    let acked = task.memory().place(move |_: &mut Active, _: Completion| {
        state.acked.fetch_add(1, Relaxed);
    })?;
    let (returned, acked) = (&*returned, &*acked);
    let me = task.number();
    for step in 0..task.tasks() {
        let to = (me + step) % task.tasks();
        for number in 0..SIZES {
            for (from, target_context) in
                (0..CONTEXTS).flat_map(|from| (0..CONTEXTS).map(move |to| (from, to)))
            {
                let target = client.endpoint(to, target_context)?;
                let context = usize::from(from);
                let size = sizes(contexts[context].immediate_limit())[number];
                let mut taken = None;
                kernel::wait_on(contexts, u64::MAX, |_| {
                    taken = state.back[context].lock().take();
                    taken.is_some()
                });
                let Some(buffer) = taken else { continue };
                let mut payload = Some(Payload::Buffer(buffer, 0..size));
                while let Some(again) = payload.take() {
                    let send = Send {
                        target,
                        dispatch: 9,
                        header: &[],
                        payload: again,
                        layout: Layout::Contiguous,
                        local_done: Some(Done { call: returned, cookie: context }),
                        remote_done: Some(Done { call: acked, cookie: 0 }),
                    };
                    match contexts[context].send(send) {
                        Ok(()) => {}
                        Err((kernel::SendError::Again, back)) => {
                            payload = Some(back);
                            kernel::wait_on(contexts, 1_000_000, |_| false);
                        }
                        Err((error, _)) => return Err(error.into()),
                    }
                }
            }
        }
    }
    Ok(())
}
