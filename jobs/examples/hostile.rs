//! Node 0 throws garbage at all others, which count it, drop it, and go on serving honest messages.
//!
//! A quarter of the garbage is random bytes, a quarter packets with one random byte in an honest header, a quarter packets
//! that name clients, contexts or tasks that cannot be, and a quarter is right in all of that, of any kind, and says anything:
//! requests for regions, fences, answers to what nobody asked, ends and middles of messages.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{Active, JobError, Message, Receive, Task};
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::{Envelope, Header, Kind};
use zerocopy::IntoBytes;

kernel::entry!(main, jobs::USAGE);

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
    match choice % 4 {
        0 => {}
        1 => {
            let noise = bytes[0];
            bytes[..32].copy_from_slice(header(target, random, len - 32).as_bytes());
            bytes[(choice >> 16) as usize % 32] = noise;
        }
        2 => {
            let (client, context) = (ClientId((choice >> 8) as u16), ContextOffset((choice >> 24) as u8));
            let impossible = Endpoint::from_parts(client, (choice >> 32) as u32, context);
            bytes[..32].copy_from_slice(header(impossible, random, len - 32).as_bytes());
        }
        _ => bytes[..32].copy_from_slice(header(target, random, len - 32).as_bytes()),
    }
    while !task.unit().send_raw(place.node, &bytes[..len]) {
        context.advance();
    }
    context.advance();
}

/// The header of a packet of any kind with `payload` bytes. Half of the numbers in it are small, as honest ones are.
fn header(target: Endpoint, random: &mut XorShift, payload: usize) -> Header {
    let choice = random.next();
    let kinds = (0..=u8::MAX).map_while(Kind::from_byte).count();
    let mut number = || {
        let number = random.next();
        if number & 1 == 0 { (number >> 8) as u32 % 100 } else { (number >> 8) as u32 }
    };
    let envelope = Envelope {
        kind: Kind::from_byte((choice as usize % kinds) as u8).unwrap_or(Kind::EagerFirst),
        dispatch: number() as u8,
        origin: Endpoint::from_parts(target.client(), 0, ContextOffset(0)),
        target,
        message: number(),
        offset: number(),
        total: number(),
    };
    // A region's name, a name and a segment, or any length.
    let header = [0, 8, 16, (choice >> 8) as usize % 65][(choice >> 16) as usize % 4].min(payload);
    Header::new(&envelope, header as u16, (payload - header) as u16)
}
