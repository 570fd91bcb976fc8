//! What the benchmark needs of communication: a sum over all tasks and an all-to-all of keys, on plain active
//! messages.
//!
//! A sum goes to task 0 and comes back, so no task can start the next before all have started this one. Keys of
//! an exchange may come before its own start here, but not before the sum in front of it was started: whoever
//! starts that sum has room for them.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use kernel::{
    Active, Client, Context, JobError, Layout, Lease, Message, OnPart, Part, Payload, Receive, Send, Task,
};
use spin::Mutex;
use zerocopy::{FromBytes, IntoBytes};

const TERMS: u8 = 1;
const SUM: u8 = 2;
const KEYS: u8 = 3;

/// Longest vector that can be summed, in elements.
pub const SUM_LIMIT: usize = 2048;

/// What the handlers fill.
struct Arrivals {
    /// At task 0 the sum of what has come; at the others the sum of all.
    sum: Mutex<[u32; SUM_LIMIT]>,
    terms: AtomicU32,
    sums: AtomicU32,
    keys: Mutex<&'static mut [u32]>,
    /// Bytes of `keys` promised to messages so far.
    promised: AtomicUsize,
    /// Bytes of `keys` filled.
    filled: AtomicUsize,
    /// Messages of keys whose last part is in.
    senders: AtomicU32,
    overflow: AtomicU32,
}

/// One task's end of all exchanges.
pub struct Exchange {
    task: &'static Task,
    client: Client,
    context: Context,
    arrivals: &'static Arrivals,
    sums: u32,
}

impl Exchange {
    /// Has room for `keys` incoming keys.
    pub fn new(task: &'static Task, keys: usize) -> Result<Self, JobError> {
        let memory = task.memory();
        let arrivals: &'static Arrivals = memory.place(Arrivals {
            sum: Mutex::new([0; SUM_LIMIT]),
            terms: AtomicU32::new(0),
            sums: AtomicU32::new(0),
            keys: Mutex::new(memory.slice(keys)?),
            promised: AtomicUsize::new(0),
            filled: AtomicUsize::new(0),
            senders: AtomicU32::new(0),
            overflow: AtomicU32::new(0),
        })?;
        let add = memory.place(move |_: &mut Active, part: &Part| {
            let mut sum = arrivals.sum.lock();
            let places = &mut sum.as_mut_slice()[part.offset / 4..];
            for (place, term) in places.iter_mut().zip(part.data.chunks_exact(4)) {
                *place += u32::read_from_bytes(term).unwrap_or(0);
            }
            arrivals.terms.fetch_add(u32::from(part.is_last()), Relaxed);
        })?;
        let set = memory.place(move |_: &mut Active, part: &Part| {
            let mut sum = arrivals.sum.lock();
            sum.as_mut_slice().as_mut_bytes()[part.offset..part.offset + part.data.len()]
                .copy_from_slice(part.data);
            arrivals.sums.fetch_add(u32::from(part.is_last()), Relaxed);
        })?;
        let fill = memory.place(move |_: &mut Active, part: &Part| {
            let mut keys = arrivals.keys.lock();
            let start = part.cookie + part.offset;
            if let Some(room) = keys.as_mut_bytes().get_mut(start..start + part.data.len()) {
                room.copy_from_slice(part.data);
                arrivals.filled.fetch_add(part.data.len(), Relaxed);
            } else {
                arrivals.overflow.fetch_add(1, Relaxed);
            }
            arrivals.senders.fetch_add(u32::from(part.is_last()), Relaxed);
        })?;
        let (add, set, fill) = (&*add, &*set, &*fill);
        let terms = memory
            .place(move |_: &mut Active, _: &Message| Receive::Packets(OnPart { call: add, cookie: 0 }))?;
        let sum = memory
            .place(move |_: &mut Active, _: &Message| Receive::Packets(OnPart { call: set, cookie: 0 }))?;
        let keys = memory.place(move |_: &mut Active, message: &Message| {
            let start = arrivals.promised.fetch_add(message.total, Relaxed);
            Receive::Packets(OnPart { call: fill, cookie: start })
        })?;
        let client = task.client("is").dispatch(TERMS, terms).dispatch(SUM, sum).dispatch(KEYS, keys);
        let mut client = client.create()?;
        let context = kernel::context(&mut client, 0)?;
        Ok(Self { task, client, context, arrivals, sums: 0 })
    }

    /// Replaces `values`, at most [`SUM_LIMIT`], by their sums over all tasks.
    pub fn sum(&mut self, values: &mut [u32], buffer: &mut Option<kernel::Buffer>) -> Result<(), JobError> {
        self.sums += 1;
        let arrivals = self.arrivals;
        let tasks = self.task.tasks();
        if self.task.number() == 0 {
            let others = (tasks - 1) * self.sums;
            self.context.wait(|_| arrivals.terms.load(Relaxed) == others);
            let mut sum = arrivals.sum.lock();
            for (value, place) in values.iter_mut().zip(sum.iter_mut()) {
                *value += core::mem::take(place);
            }
            drop(sum);
            self.send_bytes(1..tasks, SUM, values.as_bytes(), buffer)
        } else {
            self.send_bytes(0..1, TERMS, values.as_bytes(), buffer)?;
            let wanted = self.sums;
            self.context.wait(|_| arrivals.sums.load(Relaxed) == wanted);
            values.copy_from_slice(&arrivals.sum.lock()[..values.len()]);
            Ok(())
        }
    }

    /// Sends the same bytes to several tasks, from `buffer`, and waits until it is back.
    fn send_bytes(
        &mut self,
        targets: core::ops::Range<u32>,
        dispatch: u8,
        bytes: &[u8],
        buffer: &mut Option<kernel::Buffer>,
    ) -> Result<(), JobError> {
        let Some(mut lent) = buffer.take() else { return Err(JobError::Other("the send buffer is out")) };
        lent.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
        let lease = lent.lend();
        for task in targets {
            self.send_part(task, dispatch, &lease, 0..bytes.len())?;
        }
        *buffer = Some(self.reclaim(lease));
        Ok(())
    }

    fn send_part(
        &mut self,
        task: u32,
        dispatch: u8,
        lease: &Lease,
        range: core::ops::Range<usize>,
    ) -> Result<(), JobError> {
        let target = self.client.endpoint(task, 0)?;
        let part = lease.source().slice(range).ok_or(JobError::Other("a part outside the send buffer"))?;
        self.context.retry(|active| {
            let (header, payload, layout) = (&[][..], Payload::Source(part.clone()), Layout::Contiguous);
            let send =
                Send { target, dispatch, header, payload, layout, local_done: None, remote_done: None };
            active.send(send).map_err(|(error, _)| error)
        })?;
        Ok(())
    }

    fn reclaim(&mut self, lease: Lease) -> kernel::Buffer {
        let mut lease = lease;
        loop {
            self.context.wait(|_| lease.is_idle());
            match lease.reclaim() {
                Ok(buffer) => return buffer,
                Err(still_out) => lease = still_out,
            }
        }
    }

    /// Sends to each task `t` the keys `starts[t]..starts[t + 1]` of `buffer`, and takes in the keys for this
    /// one. Returns how many came; [`keys`](Self::keys) has them.
    pub fn keys_to_owners(
        &mut self,
        buffer: kernel::Buffer,
        starts: &[u32],
    ) -> Result<(kernel::Buffer, usize), JobError> {
        let lease = buffer.lend();
        let me = self.task.number();
        let tasks = self.task.tasks();
        // Everyone starts with the task behind it, so that no task is everybody's first.
        for step in 1..=tasks {
            let to = (me + step) % tasks;
            let range = 4 * starts[to as usize] as usize..4 * starts[to as usize + 1] as usize;
            self.send_part(to, KEYS, &lease, range)?;
        }
        let arrivals = self.arrivals;
        self.context.wait(|_| arrivals.senders.load(Relaxed) == tasks);
        if arrivals.overflow.load(Relaxed) > 0 {
            return Err(JobError::Other("more keys came than a task has room for"));
        }
        Ok((self.reclaim(lease), arrivals.filled.load(Relaxed) / 4))
    }

    /// Makes room for the keys of the next exchange; to be called before the sum in front of it.
    pub fn expect_keys(&mut self) {
        self.arrivals.promised.store(0, Relaxed);
        self.arrivals.filled.store(0, Relaxed);
        self.arrivals.senders.store(0, Relaxed);
    }

    /// Works on the keys that came, `count` of them.
    pub fn with_keys<T>(&mut self, count: usize, work: impl FnOnce(&mut [u32]) -> T) -> T {
        work(&mut self.arrivals.keys.lock()[..count])
    }
}
