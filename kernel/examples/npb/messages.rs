//! Messages between tasks, on plain active messages.
//!
//! A message's header is its number among those from its origin to its target. Odd and even ones take turns with two
//! places at the target, which is room enough as [`pairwise`](super::pairwise) says.

use super::pairwise::{CHUNK, Link};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use kernel::{
    Active, Buffer, Client, Context, JobError, Lease, Message, OnPart, Part, Payload, Receive, Send,
    SendError, Task,
};
use spin::Mutex;
use zerocopy::{FromBytes, IntoBytes};

const VALUES: u8 = 1;

/// Room for one message.
struct Place {
    values: Mutex<&'static mut [f64]>,
    /// One more than the bytes of the message that is here, all of it; 0 if there is none.
    filled: AtomicUsize,
}

/// What the handlers fill.
struct Arrivals {
    /// Two places for each task.
    places: &'static [Place],
    /// Messages for which there was no room.
    lost: AtomicUsize,
}

impl Arrivals {
    fn place(&self, task: usize, number: u32) -> usize {
        2 * task + number as usize % 2
    }

    /// What becomes of a message.
    fn first(&self, message: &Message, put: OnPartCall) -> Receive {
        let number = u32::read_from_bytes(message.header).unwrap_or(0);
        let place = self.place(message.origin.task() as usize, number);
        let free = self.places.get(place).is_some_and(|place| place.filled.load(Relaxed) == 0);
        if !free || message.total > CHUNK * size_of::<f64>() {
            self.lost.fetch_add(1, Relaxed);
            return Receive::Done;
        }
        Receive::Packets(OnPart { call: put, cookie: place })
    }

    /// Puts one packet's share of a message in its place.
    fn put(&self, part: &Part) {
        let Some(place) = self.places.get(part.cookie) else { return };
        let mut values = place.values.lock();
        if let Some(room) = values.as_mut_bytes().get_mut(part.offset..part.offset + part.data.len()) {
            room.copy_from_slice(part.data);
        }
        if part.is_last() {
            place.filled.store(part.total + 1, Relaxed);
        }
    }
}

type OnPartCall = &'static (dyn Fn(&mut Active, &Part<'_>) + Sync);

/// One task's end of all messages.
pub struct Messages {
    task: &'static Task,
    client: Client,
    context: Context,
    arrivals: &'static Arrivals,
    /// Messages sent to each task.
    sent: &'static mut [u32],
    /// Messages taken from each task.
    taken: &'static mut [u32],
    outgoing: Outgoing,
}

/// The send buffer.
enum Outgoing {
    Free(Buffer),
    /// The message unit may still read it.
    Lent(Lease),
    /// Between the two.
    Nowhere,
}

impl Messages {
    /// One task's end, with room for what may come before it is waited for.
    pub fn new(task: &'static Task) -> Result<Self, JobError> {
        let memory = task.memory();
        let tasks = task.tasks() as usize;
        let mut rooms = memory.slice(2 * tasks * CHUNK)?.chunks_exact_mut(CHUNK);
        let places = memory.fill(2 * tasks, || Place {
            values: Mutex::new(rooms.next().unwrap_or_default()),
            filled: AtomicUsize::new(0),
        })?;
        let arrivals: &'static Arrivals = memory.place(Arrivals { places, lost: AtomicUsize::new(0) })?;
        let put: OnPartCall = memory.place(move |_: &mut Active, part: &Part| arrivals.put(part))?;
        let first = memory.place(move |_: &mut Active, message: &Message| arrivals.first(message, put))?;
        let mut client = task.client("npb").dispatch(VALUES, first).create()?;
        let context = kernel::context(&mut client, 0)?;
        Ok(Self {
            task,
            client,
            context,
            arrivals,
            sent: memory.slice(tasks)?,
            taken: memory.slice(tasks)?,
            outgoing: Outgoing::Free(memory.buffer(CHUNK * size_of::<f64>())?),
        })
    }

    /// The send buffer, once nobody reads it any more.
    fn buffer(&mut self) -> Option<Buffer> {
        loop {
            match core::mem::replace(&mut self.outgoing, Outgoing::Nowhere) {
                Outgoing::Free(buffer) => return Some(buffer),
                Outgoing::Lent(lease) => {
                    self.context.wait(|_| lease.is_idle());
                    self.outgoing = match lease.reclaim() {
                        Ok(buffer) => Outgoing::Free(buffer),
                        Err(lease) => Outgoing::Lent(lease),
                    };
                }
                Outgoing::Nowhere => return None,
            }
        }
    }
}

impl Link for Messages {
    type Error = JobError;

    fn task(&self) -> usize {
        self.task.number() as usize
    }

    fn tasks(&self) -> usize {
        self.task.tasks() as usize
    }

    fn reals(&mut self, len: usize) -> Result<&'static mut [f64], JobError> {
        Ok(self.task.memory().slice(len)?)
    }

    fn indices(&mut self, len: usize) -> Result<&'static mut [u32], JobError> {
        Ok(self.task.memory().slice(len)?)
    }

    fn send(&mut self, partner: usize, values: &[f64]) -> Result<(), JobError> {
        self.sent[partner] += 1;
        let header = self.sent[partner].to_le_bytes();
        let target = self.client.endpoint(partner as u32, 0)?;
        let bytes = values.as_bytes();
        if header.len() + bytes.len() <= self.context.immediate_limit() {
            self.context.retry(|active| active.send_immediate(target, VALUES, &header, bytes))?;
            return Ok(());
        }
        let mut buffer = self.buffer().ok_or(JobError::Other("the send buffer was not given back"))?;
        buffer.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
        let lease = buffer.lend();
        let whole = lease.source().slice(0..bytes.len());
        self.outgoing = Outgoing::Lent(lease);
        let source = whole.ok_or(JobError::Send(SendError::Range))?;
        self.context.retry(|active| {
            let payload = Payload::Source(source.clone());
            let send = Send {
                target,
                dispatch: VALUES,
                header: &header,
                payload,
                layout: kernel::Layout::Contiguous,
                local_done: None,
                remote_done: None,
            };
            active.send(send).map_err(|(error, _)| error)
        })?;
        Ok(())
    }

    fn receive(&mut self, partner: usize, len: usize, take: impl FnOnce(&[f64])) -> Result<(), JobError> {
        self.taken[partner] += 1;
        let arrivals = self.arrivals;
        let place = &arrivals.places[arrivals.place(partner, self.taken[partner])];
        self.context.wait(|_| place.filled.load(Relaxed) > 0 || arrivals.lost.load(Relaxed) > 0);
        if place.filled.swap(0, Relaxed) != len * size_of::<f64>() + 1 {
            return Err(JobError::Other("tasks are out of step: a message came that nobody waits for"));
        }
        take(&place.values.lock()[..len]);
        Ok(())
    }
}
