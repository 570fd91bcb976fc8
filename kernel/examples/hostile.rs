//! Node 0 throws garbage at all others, which count it, drop it, and go on serving honest messages.
//!
//! A third of the garbage is random bytes, a third packets with one random byte in an honest header, a third
//! well-formed packets that name clients, contexts, tasks or lengths that cannot be.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{Active, JobError, Message, Receive, Task};
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::{Envelope, Header, Kind};
use zerocopy::IntoBytes;

kernel::entry!(main);

const HONEST: u8 = 5;
const MESSAGES: u32 = 100;
const GARBAGE_PER_MESSAGE: u32 = 20;
const WORDS: &[u8] = b"an honest message";

/// A small generator: the run is the same every time.
struct XorShift(u64);

impl XorShift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let honest = task.memory().place(AtomicU32::new(0))?;
    let honest: &'static AtomicU32 = honest;
    let handler = task.memory().place(move |_: &mut Active, message: &Message| {
        // What is forged well enough to reach a handler does not say these words.
        if message.data == WORDS && message.origin.task() == 0 {
            honest.fetch_add(1, Relaxed);
        }
        Receive::Done
    })?;
    let mut client = task.client("hostile").dispatch(HONEST, handler).create()?;
    let mut context = kernel::context(&mut client, 0)?;
    if task.number() > 0 {
        context.wait(|_| honest.load(Relaxed) == MESSAGES);
        defmt::println!("all {=u32} honest messages arrived", MESSAGES);
        return Ok(());
    }
    let mut random = XorShift(0x9e37_79b9_7f4a_7c15);
    for _ in 0..MESSAGES {
        for victim in 1..task.tasks() {
            let target = client.endpoint(victim, 0)?;
            for _ in 0..GARBAGE_PER_MESSAGE {
                throw(task, &mut context, target, &mut random);
            }
            context.retry(|active| active.send_immediate(target, HONEST, &[], WORDS))?;
        }
    }
    Ok(())
}

/// Sends one piece of garbage to the target's node.
fn throw(task: &'static Task, context: &mut kernel::Context, target: Endpoint, random: &mut XorShift) {
    let Some(place) = task.map().place(target.task()) else { return };
    let mut bytes = [0u8; 96];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
    }
    let choice = random.next();
    let len = 32 + (choice >> 8) as usize % 65;
    match choice % 3 {
        0 => {}
        1 => {
            let noise = bytes[0];
            bytes[..32].copy_from_slice(header(target, choice).as_bytes());
            bytes[(choice >> 16) as usize % 32] = noise;
        }
        _ => {
            let (client, context) = (ClientId((choice >> 16) as u8), ContextOffset((choice >> 24) as u8));
            let impossible = Endpoint::from_parts(client, (choice >> 32) as u32, context);
            bytes[..32].copy_from_slice(header(impossible, choice).as_bytes());
        }
    }
    while !task.unit().send_raw(place.node, &bytes[..len]) {
        context.advance();
    }
    context.advance();
}

fn header(target: Endpoint, choice: u64) -> Header {
    let kinds = [Kind::First, Kind::Next, Kind::FirstAcked, Kind::Ack, Kind::Hello, Kind::Go];
    let kind = kinds[(choice >> 40) as usize % kinds.len()];
    let origin = Endpoint::from_parts(target.client(), 0, ContextOffset(0));
    let envelope = Envelope {
        kind,
        dispatch: (choice >> 44) as u8,
        origin,
        target,
        message: (choice >> 20) as u32,
        offset: (choice >> 30) as u32,
        total: choice as u32,
    };
    Header::new(&envelope, 0, (choice >> 50) as u16)
}
