//! A swap of data between two tasks, by messages: both send before they wait.
//!
//! A message that comes before it is waited for is kept (SPEC P-6). As both sides wait for each other, a partner is at most
//! one swap ahead. Data goes in chunks for which a context has room, so no message ever stands in the way of
//! another.

use core::ops::Range;
use kernel::{
    Active, Buffer, ClientBuilder, Completion, Context, Done, Endpoint, JobError, Message, OnReceived,
    OperationError, Payload, Pools, Receive, Received, Send, SendError, Shared, Task,
};
use spin::Mutex;

const DATA: u8 = kernel::DEFERRING;
/// Most bytes of a message.
const CHUNK: usize = 16 << 10;
/// Messages that are kept: two of each neighbour in a box of tasks, and some. There is room for them wherever others lie.
const UNEXPECTED: usize = 16;
const POOLS: Pools =
    Pools { unexpected: UNEXPECTED, unexpected_bytes: 2 * UNEXPECTED * CHUNK, ..Pools::LARGE };

/// What handlers and callbacks share with the task.
struct State {
    /// Whose message is waited for, and its buffer.
    wanted: Mutex<Option<(Endpoint, Buffer)>>,
    received: Mutex<Option<Received>>,
    /// How the message that leaves did.
    sent: Mutex<Option<Result<(), OperationError>>>,
}

/// One task's end of all swaps.
pub struct Swap {
    state: &'static State,
    then: OnReceived,
    done: Done,
    room: Option<Buffer>,
    out: Shared,
}

impl Swap {
    /// Adds what swaps need to the client that they go through.
    pub fn prepare(task: &'static Task, builder: ClientBuilder) -> Result<(Self, ClientBuilder), JobError> {
        let memory = task.memory();
        let state: &'static State = memory.place(State {
            wanted: Mutex::new(None),
            received: Mutex::new(None),
            sent: Mutex::new(None),
        })?;
        let received = memory
            .place(move |_: &mut Active, received: Received| *state.received.lock() = Some(received))?;
        let then = OnReceived { call: received, cookie: 0 };
        let sent = memory.place(move |_: &mut Active, completion: Completion| {
            *state.sent.lock() = Some(completion.result)
        })?;
        let data = memory.place(move |_: &mut Active, message: &Message| {
            let wanted = state.wanted.lock().take_if(|(origin, _)| *origin == message.origin);
            wanted.map(|(_, room)| Receive::Into(room, then))
        })?;
        let room = Some(memory.buffer(CHUNK)?);
        let out = memory.buffer(CHUNK)?.share();
        let swap = Self { state, then, done: Done { call: sent, cookie: 0 }, room, out };
        Ok((swap, builder.dispatch_deferring(DATA, data).pools(POOLS)))
    }

    /// Sends `send` to a partner that calls this with this task, and takes in what it sends.
    pub fn swap(
        &mut self,
        context: &mut Context,
        partner: Endpoint,
        send: &[u8],
        received: &mut [u8],
    ) -> Result<(), JobError> {
        let mut start = 0;
        loop {
            let part = |len: usize| -> Range<usize> { start.min(len)..(start + CHUNK).min(len) };
            let (out, back) = (part(send.len()), part(received.len()));
            self.send(context, partner, &send[out])?;
            self.receive(context, partner)?;
            self.wait(context, &mut received[back])?;
            start += CHUNK;
            if start >= send.len().max(received.len()) {
                return Ok(());
            }
        }
    }

    fn send(&mut self, context: &mut Context, target: Endpoint, data: &[u8]) -> Result<(), JobError> {
        self.out.write(0, data).map_err(|_| SendError::Range)?;
        context.retry(|active| {
            let send = Send {
                target,
                dispatch: DATA,
                header: &[],
                payload: Payload::Shared(self.out.clone(), 0..data.len()),
                layout: kernel::Layout::Contiguous,
                local_done: Some(self.done),
                remote_done: None,
            };
            active.send(send).map_err(|(error, _)| error)
        })?;
        Ok(())
    }

    /// Takes the partner's message if it is there, or waits for it.
    fn receive(&mut self, context: &mut Context, partner: Endpoint) -> Result<(), JobError> {
        let unexpected = context
            .unexpected()
            .find(|unexpected| unexpected.origin == partner)
            .map(|unexpected| unexpected.id);
        let Some(id) = unexpected else {
            *self.state.wanted.lock() = self.room.take().map(|room| (partner, room));
            return Ok(());
        };
        context.retry(|active| {
            let room = self.room.take().ok_or(SendError::NoSuchMessage)?;
            active.accept(id, room, self.then).map_err(|(error, room)| {
                self.room = Some(room);
                error
            })
        })?;
        Ok(())
    }

    /// Waits until both messages are through.
    fn wait(&mut self, context: &mut Context, into: &mut [u8]) -> Result<(), JobError> {
        let State { received, sent, .. } = self.state;
        let mut dead = None;
        context.wait(|active| {
            dead = active.dead_node();
            dead.is_some() || received.lock().is_some() && sent.lock().is_some()
        });
        if let Some(node) = dead {
            return Err(JobError::Dead(node));
        }
        sent.lock().take().unwrap_or(Ok(()))?;
        let Some(Received { buffer, total, result, .. }) = received.lock().take() else {
            return Err(JobError::Other("a swap ended without a message"));
        };
        result?;
        if total != into.len() {
            return Err(JobError::Other("tasks are out of step: a message came that nobody waits for"));
        }
        into.copy_from_slice(&buffer.as_slice()[..total]);
        self.room = Some(buffer);
        Ok(())
    }
}
