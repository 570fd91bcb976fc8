//! Rows of one task on one hart: to itself, to its other context, and by the network's loop-back.

use super::count::{Count, noise, row, slow_row};
use super::factories::{By, FACTORIES, Factories};
use super::{Arrivals, COUNTED, WORD, one_sided};
use core::hint::black_box;
use kernel::{
    Active, Client, Context, Endpoint, JobError, Payload, Port, Poster, Progress, Send, SendError, Sharing,
    Task, Work, WorkSlot,
};
use pami::device::Port as _;
use pami::endpoint::ClientId;

/// Turns of the loop whose count is to be the same always.
const TURNS: u32 = 20_000;
/// Packets reach a node whose instructions are counted at multiples of this much of its time.
const PACE_NS: u64 = 2_000_000;
/// So many times the network has to bring an acknowledgement back, mostly; a slower one disturbs single repeats.
const REST_PACES: u64 = 4;
/// Most that a packet is waited for.
const MOST_PACES: u64 = 16;
/// The client whose port only runs the engine; the job's clients have lower numbers.
const ENGINE_CLIENT: ClientId = ClientId(3);
/// Bytes of an eager message.
pub static EAGER: Words<512> = Words([0xaa; 512]);

/// Bytes that begin at a word whatever lies before them, so that copies take the same instructions in every build.
#[repr(align(8))]
pub struct Words<const N: usize>(pub [u8; N]);

/// Two readings of the counter.
pub type Readings = (u32, u32);
/// What a post runs.
type Run = &'static (dyn Fn(&mut Active, usize) -> Progress + Sync);

/// Two contexts of one client.
pub struct Contexts {
    pub first: Context,
    pub second: Context,
    pub to_first: Endpoint,
    pub to_second: Endpoint,
    pub arrivals: &'static Arrivals,
    pub count: Count,
    pub factories: Factories,
}

impl Contexts {
    fn new(task: &'static Task, count: Count, name: &'static str, local: bool) -> Result<Self, JobError> {
        let (arrivals, handler) = Arrivals::new(task, count)?;
        let builder =
            task.client(name).contexts(2).factories(FACTORIES).local_paths(local).sharing(Sharing::Exclusive);
        let mut client: Client = builder.dispatch(COUNTED, handler).create()?;
        let (first, second) = (kernel::context(&mut client, 0)?, kernel::context(&mut client, 1)?);
        let (to_first, to_second) = (client.endpoint(0, 0)?, client.endpoint(0, 1)?);
        let factories = Factories::register(&mut client)?;
        Ok(Self { first, second, to_first, to_second, arrivals, count, factories })
    }

    /// Advances until `number` messages have come.
    pub fn settle(&mut self, number: u32) {
        while self.arrivals.number() != number {
            self.first.advance();
            self.second.advance();
        }
    }

    /// Leaves nothing under way, and the time half way between two at which packets come. Returns that time.
    ///
    /// A message says when such a time is. The hart that then falls asleep sends the acknowledgement that it owes, and
    /// that has come back some such times later.
    pub fn rest(&mut self) -> Result<u64, JobError> {
        let number = self.arrivals.number();
        self.send(self.to_first, By::Call)?;
        self.settle(number + 1);
        let rested = self.first.now_ns() + REST_PACES * PACE_NS + PACE_NS / 2;
        while self.first.now_ns() < rested {
            self.first.wait_for(rested.saturating_sub(self.first.now_ns()), |_| false);
        }
        Ok(rested)
    }

    /// `send_immediate` of 8 bytes from the first context, counted; the message is still under way.
    fn send(&mut self, target: Endpoint, by: By) -> Result<u32, JobError> {
        let (count, word) = (self.count, black_box(WORD));
        Ok(count.between(match by {
            By::Call => send_immediate(count, &mut self.first, target, word)?,
            By::Factory => self.factories.send_immediate(count, &mut self.first, target, word)?,
        }))
    }

    /// The same to itself by the torus, from rest, and its reception.
    pub fn send_and_settle(&mut self, by: By) -> Result<u32, JobError> {
        self.rest()?;
        let number = self.arrivals.number();
        let instructions = self.send(self.to_first, by)?;
        self.settle(number + 1);
        Ok(instructions)
    }

    /// `send` of 512 bytes from the first context, counted, and its reception.
    pub fn send_eager(&mut self, target: Endpoint, by: By) -> Result<u32, JobError> {
        let number = self.arrivals.number();
        let readings = match by {
            By::Call => send_eager(self.count, &mut self.first, target)?,
            By::Factory => self.factories.send_eager(self.count, &mut self.first, target)?,
        };
        self.settle(number + 1);
        Ok(self.count.between(readings))
    }

    /// The reception of one 8-byte message that the first context sends to itself.
    fn receive_self(&mut self) -> Result<u32, JobError> {
        self.send(self.to_first, By::Call)?;
        self.arrivals.reception(self.count, &mut self.first).ok_or(JobError::Other("no message from self"))
    }

    /// The reception of one 8-byte message by the second context.
    fn receive_shared(&mut self) -> Result<u32, JobError> {
        self.send(self.to_second, By::Call)?;
        self.arrivals.reception(self.count, &mut self.second).ok_or(JobError::Other("no message in the ring"))
    }

    fn advance_empty(&mut self) -> Result<u32, JobError> {
        loop {
            if let Some(readings) = advance(self.count, &mut self.second) {
                return Ok(self.count.between(readings));
            }
        }
    }
}

/// The rows of a node without an adapter.
pub fn without_adapter(task: &'static Task, count: Count) -> Result<(), JobError> {
    let mut near = Contexts::new(task, count, "near", true)?;
    row("receive-shared-memory-no-adapter", || near.receive_shared())?;
    row("advance-empty-no-adapter", || near.advance_empty())
}

/// The rows of a node with an adapter.
pub fn with_adapter(task: &'static Task, count: Count) -> Result<(), JobError> {
    let mut near = Contexts::new(task, count, "near", true)?;
    let mut far = Contexts::new(task, count, "far", false)?;
    let mut engine = engine(task)?;
    quiet_rows(task, &mut near)?;
    one_sided::near_rows(task, &mut near)?;
    torus_rows(task, &mut far, &mut engine)?;
    one_sided::far_rows(task, &mut far)?;
    fixed_loop("fixed-loop-noise", count)
}

/// The rows in which an adapter has a part, of a node whose adapter is a GEM.
pub fn with_gem(task: &'static Task, count: Count) -> Result<(), JobError> {
    let mut far = Contexts::new(task, count, "far", false)?;
    let mut engine = engine(task)?;
    slow_row("gem-send-immediate-8-kick", || send_and_kick(&mut far, &mut engine))?;
    slow_row("gem-send-512", || {
        far.rest()?;
        far.send_eager(far.to_first, By::Call)
    })?;
    slow_row("gem-receive-torus", || receive(task, &mut far, &mut engine, false))?;
    one_sided::put_row("gem-put-8", task, &mut far)?;
    fixed_loop("gem-fixed-loop-noise", count)
}

/// The rows in which the link has a part, of a node that takes its network for one that loses nothing (`--lossless`).
pub fn without_losses(task: &'static Task, count: Count) -> Result<(), JobError> {
    let mut far = Contexts::new(task, count, "far", false)?;
    let mut engine = engine(task)?;
    slow_row("lossless-send-immediate-8-kick", || send_and_kick(&mut far, &mut engine))?;
    slow_row("lossless-receive-torus", || receive(task, &mut far, &mut engine, false))
}

/// A port that only runs the engine.
fn engine(task: &'static Task) -> Result<Port, JobError> {
    let engine = task.unit().open(ENGINE_CLIENT, task.local(), 0, drivers::Sharing::Exclusive);
    engine.map_err(|_| JobError::Other("no port is left to run the engine with"))
}

/// By how much repeats of a loop without a message differ.
fn fixed_loop(name: &str, count: Count) -> Result<(), JobError> {
    noise(name, || {
        let from = count.now();
        black_box(wait(TURNS));
        count.between((from, count.now()))
    })
}

/// The rows in which no packet moves.
fn quiet_rows(task: &'static Task, near: &mut Contexts) -> Result<(), JobError> {
    let count = near.count;
    let poster = near.second.poster();
    let slot: &'static WorkSlot = task.memory().place(WorkSlot::new())?;
    let run: Run = &|_, _| Progress::Done;
    row("post", || {
        let readings = post(count, poster, slot, run, 0);
        near.second.advance();
        Ok(count.between(readings))
    })?;
    let mut send = |by| {
        let (number, target) = (near.arrivals.number(), near.to_second);
        let instructions = near.send(target, by)?;
        near.settle(number + 1);
        Ok(instructions)
    };
    row("send-immediate-8-shared-memory", || send(By::Call))?;
    row("send-immediate-8-shared-memory-factory", || send(By::Factory))?;
    row("send-512-shared-memory", || near.send_eager(near.to_second, By::Call))?;
    row("send-512-shared-memory-factory", || near.send_eager(near.to_second, By::Factory))?;
    row("receive-self", || near.receive_self())?;
    row("receive-shared-memory", || near.receive_shared())?;
    row("advance-empty", || near.advance_empty())
}

/// The rows in which packets leave the node and come back.
fn torus_rows(task: &Task, far: &mut Contexts, engine: &mut Port) -> Result<(), JobError> {
    let target = far.to_first;
    slow_row("send-immediate-8", || far.send_and_settle(By::Call))?;
    slow_row("send-immediate-8-factory", || far.send_and_settle(By::Factory))?;
    slow_row("send-immediate-8-kick", || send_and_kick(far, engine))?;
    slow_row("send-512", || {
        far.rest()?;
        far.send_eager(target, By::Call)
    })?;
    slow_row("send-512-factory", || {
        far.rest()?;
        far.send_eager(target, By::Factory)
    })?;
    slow_row("receive-torus", || receive(task, far, engine, false))?;
    slow_row("receive-torus-fifo", || receive(task, far, engine, true))
}

/// `send_immediate` of 8 bytes to itself by the torus, from rest, and the call of the engine's `progress` that gives it to the device.
fn send_and_kick(far: &mut Contexts, engine: &mut Port) -> Result<u32, JobError> {
    far.rest()?;
    let (number, target) = (far.arrivals.number(), far.to_first);
    let readings = send_and_drive(far.count, &mut far.first, target, engine)?;
    far.settle(number + 1);
    Ok(far.count.between(readings))
}

/// The reception of one 8-byte message from the network, from the reception FIFO or from the virtqueue. The engine
/// stands still until the packet is there.
fn receive(task: &Task, far: &mut Contexts, engine: &mut Port, fifo: bool) -> Result<u32, JobError> {
    let received = || task.unit().statistics().received_packets;
    let mut paces = 1;
    loop {
        let rested = far.rest()?;
        let (number, before) = (far.arrivals.number(), received());
        far.send(far.to_first, By::Call)?;
        engine.progress();
        while task.now_ns() < rested + paces * PACE_NS {}
        if fifo {
            engine.progress();
        }
        let in_fifo = received() != before;
        let counted = far.arrivals.reception(far.count, &mut far.first);
        if let Some(instructions) = counted.filter(|_| in_fifo == fifo) {
            return Ok(instructions);
        }
        // The network was slower than that.
        far.settle(number + 1);
        paces = (2 * paces).min(MOST_PACES);
    }
}

/// Work without any access to memory.
fn wait(turns: u32) -> u32 {
    (0..black_box(turns)).fold(0, |sum: u32, turn| black_box(sum.rotate_left(5) ^ turn))
}

// What is counted stands in functions of its own: what is around it must not change how it is compiled.

#[inline(never)]
fn post(count: Count, poster: Poster, slot: &'static WorkSlot, run: Run, cookie: usize) -> Readings {
    let from = count.now();
    poster.post(slot, Work { run, cookie }).expect("the slot is free");
    (from, count.now())
}

/// `None` if there was something to do.
#[inline(never)]
fn advance(count: Count, context: &mut Context) -> Option<Readings> {
    count.around(|| if context.advance() == 0 { Ok(()) } else { Err(()) }).ok()
}

#[inline(never)]
fn send_immediate(
    count: Count,
    context: &mut Context,
    target: Endpoint,
    word: u64,
) -> Result<Readings, SendError> {
    count.around(|| context.send_immediate(target, COUNTED, &[], &word.to_ne_bytes()))
}

#[inline(never)]
fn send_and_drive(
    count: Count,
    context: &mut Context,
    target: Endpoint,
    engine: &mut Port,
) -> Result<Readings, SendError> {
    count.around(|| {
        context.send_immediate(target, COUNTED, &[], &WORD.to_ne_bytes())?;
        engine.progress();
        Ok(())
    })
}

#[inline(never)]
fn send_eager(count: Count, context: &mut Context, target: Endpoint) -> Result<Readings, SendError> {
    count.around(|| {
        let payload = Payload::Static(&EAGER.0);
        let send = Send {
            target,
            dispatch: COUNTED,
            header: &[],
            payload,
            local_done: None,
            remote_done: None,
            layout: kernel::Layout::Contiguous,
        };
        context.send(send).map_err(|(error, _)| error)
    })
}
