//! Rows of one-sided operations and of fences, and of sends in a program that has fenced (SPEC F-4).

use super::alone::{Contexts, EAGER, Readings};
use super::count::{Count, row, slow_row};
use super::factories::By;
use super::{Arrivals, WORD};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{
    Active, Completion, Context, Done, Endpoint, Fetched, Get, JobError, Layout, OnFetched, Payload, Put,
    RegionHandle, Rights, Rmw, RmwOp, SendError, Shared, Signal, Task, Update, Width,
};

/// Operations that have ended.
static ENDED: AtomicU32 = AtomicU32::new(0);

pub fn ended(_: &mut Active, _: Completion) {
    ENDED.fetch_add(1, Relaxed);
}

fn fetched(_: &mut Active, _: Fetched) {
    ENDED.fetch_add(1, Relaxed);
}

/// Bytes of a long get.
const LONG: usize = 1 << 20;

/// Rows of puts and updates of a word of the second context's, and of long gets, through the memory of the node.
pub fn near_rows(task: &Task, near: &mut Contexts) -> Result<(), JobError> {
    let region = region(task, near)?;
    row("put-8-shared-memory", || near.put(region, By::Call))?;
    row("put-8-shared-memory-factory", || near.put(region, By::Factory))?;
    row("rmw-8-shared-memory", || near.rmw(region, By::Call))?;
    row("rmw-8-shared-memory-factory", || near.rmw(region, By::Factory))?;
    let source = near.second.register(task.memory().buffer(LONG + 1)?, Rights::READ);
    let (source, into) = (source.map_err(|(error, _)| error)?.handle(), task.memory().buffer(LONG)?.share());
    slow_row("get-1m-shared-memory", || near.get(source, 0, &into))?;
    slow_row("get-1m-skewed-shared-memory", || near.get(source, 1, &into))
}

/// The same over the network, then fences, then what they cost those who send.
pub fn far_rows(task: &Task, far: &mut Contexts) -> Result<(), JobError> {
    let region = region(task, far)?;
    for (name, by) in [("put-8", By::Call), ("put-8-factory", By::Factory)] {
        slow_row(name, || {
            far.rest()?;
            far.put(region, by)
        })?;
    }
    for (name, by) in [("rmw-8", By::Call), ("rmw-8-factory", By::Factory)] {
        slow_row(name, || {
            far.rest()?;
            far.rmw(region, by)
        })?;
    }
    slow_row("put-signal-8", || {
        far.rest()?;
        far.put_signal(region)
    })?;
    slow_row("fence-after-0-sends", || far.fence(0, By::Call))?;
    slow_row("fence-after-0-sends-factory", || far.fence(0, By::Factory))?;
    slow_row("fence-after-10-sends", || far.fence(10, By::Call))?;
    slow_row("fence-after-1000-sends", || far.fence(1000, By::Call))?;
    slow_row("send-immediate-8-after-fences", || far.send_and_settle(By::Call))?;
    slow_row("send-512-after-fences", || {
        far.rest()?;
        far.send_eager(far.to_first, By::Call)
    })
}

/// A put of a word of the second context's, over the network.
pub fn put_row(name: &str, task: &Task, far: &mut Contexts) -> Result<(), JobError> {
    let region = region(task, far)?;
    slow_row(name, || {
        far.rest()?;
        far.put(region, By::Call)
    })
}

/// A word that the second context lets others write and update.
fn region(task: &Task, contexts: &mut Contexts) -> Result<RegionHandle, JobError> {
    let memory = task.memory().buffer(size_of::<u64>())?;
    let region = contexts.second.register(memory, Rights::all());
    Ok(region.map_err(|(error, _)| error)?.handle())
}

impl Contexts {
    /// A put of a word.
    fn word(&self, region: RegionHandle) -> Put {
        Put {
            target: self.to_second,
            region,
            offset: 0,
            layout: Layout::Contiguous,
            payload: Payload::Static(&EAGER.0[..size_of::<u64>()]),
            payload_layout: Layout::Contiguous,
            local_done: None,
            remote_done: None,
        }
    }

    fn put(&mut self, region: RegionHandle, by: By) -> Result<u32, JobError> {
        let operation = Put { remote_done: Some(Done { call: &ended, cookie: 0 }), ..self.word(region) };
        let before = ENDED.load(Relaxed);
        let readings = match by {
            By::Call => put(self.count, &mut self.first, operation)?,
            By::Factory => self.factories.put(self.count, &mut self.first, operation)?,
        };
        self.settle_operation(before);
        Ok(self.count.between(readings))
    }

    /// A put of a word whose signal is a message as all others of the row's.
    fn put_signal(&mut self, region: RegionHandle) -> Result<u32, JobError> {
        let (number, operation) = (self.arrivals.number(), self.word(region));
        let readings = put_signal(self.count, &mut self.first, operation, Arrivals::SIGNAL)?;
        self.settle(number + 1);
        Ok(self.count.between(readings))
    }

    fn rmw(&mut self, region: RegionHandle, by: By) -> Result<u32, JobError> {
        let operation = Rmw {
            target: self.to_second,
            region,
            offset: 0,
            op: RmwOp { width: Width::Eight, update: Update::Add(WORD) },
            done: Some(OnFetched { call: &fetched, cookie: 0 }),
        };
        let before = ENDED.load(Relaxed);
        let readings = match by {
            By::Call => rmw(self.count, &mut self.first, operation)?,
            By::Factory => self.factories.rmw(self.count, &mut self.first, operation)?,
        };
        self.settle_operation(before);
        Ok(self.count.between(readings))
    }

    /// A long get from `offset` on, to its callback.
    fn get(&mut self, region: RegionHandle, offset: u32, into: &Shared) -> Result<u32, JobError> {
        let operation = Get {
            target: self.to_second,
            region,
            offset,
            layout: Layout::Contiguous,
            into: into.clone(),
            at: 0,
            into_layout: Layout::Contiguous,
            len: LONG as u32,
            done: Some(Done { call: &ended, cookie: 0 }),
        };
        let before = ENDED.load(Relaxed);
        let readings = self.count.around(|| {
            self.first.get(operation)?;
            while ENDED.load(Relaxed) == before {
                self.first.advance();
            }
            Ok::<_, SendError>(())
        })?;
        Ok(self.count.between(readings))
    }

    /// A fence behind `sends` messages that were just sent.
    fn fence(&mut self, sends: u32, by: By) -> Result<u32, JobError> {
        self.rest()?;
        let (target, before, number) = (self.to_first, ENDED.load(Relaxed), self.arrivals.number());
        for _ in 0..sends {
            self.first.retry(|active| Arrivals::send(active, target))?;
        }
        // Leaves room for the fence, as it does without messages.
        self.first.advance();
        let readings = match by {
            By::Call => fence(self.count, &mut self.first, target)?,
            By::Factory => self.factories.fence(self.count, &mut self.first, target)?,
        };
        self.settle_operation(before);
        self.settle(number + sends);
        Ok(self.count.between(readings))
    }

    /// Advances until one more operation has ended.
    fn settle_operation(&mut self, before: u32) {
        while ENDED.load(Relaxed) == before {
            self.first.advance();
            self.second.advance();
        }
    }
}

// In functions of their own, as in `alone`.

#[inline(never)]
fn put_signal(count: Count, context: &mut Context, put: Put, signal: Signal) -> Result<Readings, SendError> {
    let from = count.now();
    context.put_signal(put, signal).map_err(|(error, _)| error)?;
    Ok((from, count.now()))
}

#[inline(never)]
fn put(count: Count, context: &mut Context, put: Put) -> Result<Readings, SendError> {
    // Not `around`: a closure would move what it is given once more.
    let from = count.now();
    context.put(put).map_err(|(error, _)| error)?;
    Ok((from, count.now()))
}

#[inline(never)]
fn rmw(count: Count, context: &mut Context, rmw: Rmw) -> Result<Readings, SendError> {
    // As in `put`.
    let from = count.now();
    context.rmw(rmw)?;
    Ok((from, count.now()))
}

#[inline(never)]
fn fence(count: Count, context: &mut Context, target: Endpoint) -> Result<Readings, SendError> {
    count.around(|| context.fence(target, Done { call: &ended, cookie: 0 }))
}
