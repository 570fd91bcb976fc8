//! Balanced processing: what a message costs its origin and its target, by who of them does what.
//!
//! SPEC L-1 to L-5, seed 004.
//!
//! Task 0 is the origin, task 1 the target. Each row processes one message into a region of task 1: with a target or an origin
//! that was busy all of the last 10 ms, or with both idle; by the target alone, by a rule set, by advice. The result is compared
//! bit for bit with the operation done element by element. `--count N` sets the elements of a message, `--recipe WORD` takes
//! the recipes with that word in their names.
//!
//! Counts are of instructions of advances in which something happened, and exact under `-icount` only. There they are those of
//! all harts of a node together: so two tasks of one node take turns, and one sleeps while the other is counted. `busiest` is
//! the greater count, and the gain how many times smaller it is than that of the target alone.
#![no_std]
#![no_main]

mod cases;
mod origin;
mod target;

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kernel::{
    Active, Client, Context, ElementFunction, Endpoint, Instructions, JobError, Message, Pools, Receive,
    RegionHandle, Task,
};
use pami::factory::SubOperationFunction;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

kernel::entry!(main, jobs::USAGE);

/// Elements of a message, where none says how many.
const COUNT: usize = 8192;
/// Dispatch id of what the tasks say to each other.
const SAY: u8 = 0;
/// Advances without an event after which nothing is left to do.
const QUIET: u32 = 8;
/// How long a busy task was busy, and an idle one idle: longer than what is looked at.
const BEFORE_NS: u64 = 11_000_000;

/// What the origin wants of the target; the numbers are its arguments.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Words([u64; 4]);

/// Puts the region as it was, then is busy for a while if the argument says so. Answered with its handle.
const PREPARE: u64 = 1;
/// Advances until nothing is left to do. Answered with the instructions of that.
const ADVANCE: u64 = 2;
/// Answered at once; then advances until something else is said. The answer to the next [`ADVANCE`] has the count of that.
const ADVANCE_ON: u64 = 3;
/// Looks whether the region is as it should be after recipe number so-and-so. Answered with the elements that are not.
const CHECK: u64 = 4;
const STOP: u64 = 5;
const ANSWER: u64 = 6;

/// One task's means.
struct Side {
    task: &'static Task,
    /// For messages that are processed.
    data: Context,
    /// For what the tasks say to each other.
    talk: Context,
    other: Endpoint,
    heard: &'static Heard,
    instructions: Option<Instructions>,
    counted: u32,
    count: usize,
}

/// The last thing that the other task said.
struct Heard {
    words: [AtomicU64; 4],
    number: AtomicU64,
}

impl Side {
    fn new(task: &'static Task, count: usize) -> Result<(Self, Client), JobError> {
        let word = || AtomicU64::new(0);
        let heard: &'static Heard =
            task.memory().place(Heard { words: [word(), word(), word(), word()], number: word() })?;
        let say = task.memory().place(move |_: &mut Active, message: &Message| {
            if let Ok(Words(words)) = Words::read_from_bytes(message.data) {
                heard.words.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
                heard.number.fetch_add(1, Relaxed);
            }
            Receive::Done
        })?;
        let client = task.client("accumulate").pools(Pools::LARGE).contexts(2).factories(1);
        let mut client = client.dispatch(SAY, say).create()?;
        let protocol = client.protocol("accumulate")?;
        let function = ElementFunction::F64(cases::log_sum_exp);
        let own = SubOperationFunction { function, operand: true, additions: cases::ADDITIONS };
        let number = client.register(&protocol, own)?.number();
        if number != cases::LOG_SUM_EXP {
            return Err(JobError::Other("another function has the number of the job's"));
        }
        let (data, talk) = (kernel::context(&mut client, 0)?, kernel::context(&mut client, 1)?);
        let other = client.endpoint(1 - task.number(), 1)?;
        let instructions = task.instructions();
        Ok((Self { task, data, talk, other, heard, instructions, counted: 0, count }, client))
    }

    fn say(&mut self, words: [u64; 4]) -> Result<(), JobError> {
        let (other, words) = (self.other, Words(words));
        Ok(self.talk.retry(|active| active.send_immediate(other, SAY, &[], words.as_bytes()))?)
    }

    /// What the other says next; sleeps until then. `seen` is how much of it was heard before.
    fn listen(&mut self, seen: u64) -> [u64; 4] {
        let heard = self.heard;
        self.talk.wait(|_| heard.number.load(Relaxed) > seen);
        heard.words.each_ref().map(|word| word.load(Relaxed))
    }

    fn heard(&self) -> u64 {
        self.heard.number.load(Relaxed)
    }

    /// Counts `what`, if it says that something happened.
    #[inline(always)]
    fn counting(&mut self, what: impl FnOnce(&mut Self) -> bool) -> bool {
        let Some(instructions) = self.instructions else { return what(self) };
        let from = instructions.now();
        let happened = what(self);
        let to = instructions.now();
        if happened {
            self.counted += to.wrapping_sub(from);
        }
        happened
    }

    /// Advances until nothing is left to do.
    fn advance(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET {
            quiet = if self.counting(|side| side.data.advance() > 0) { 0 } else { quiet + 1 };
        }
    }

    fn be_busy(&self) {
        let start = self.data.now_ns();
        let mut work = 0u64;
        while self.data.now_ns() < start + BEFORE_NS {
            // The emulator takes long to read a clock.
            for step in 0..10_000 {
                work = core::hint::black_box(work.wrapping_add(step));
            }
        }
    }
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let arguments = task.arguments();
    let (count, word) =
        (arguments.get("--count")?.unwrap_or(COUNT), arguments.word("--recipe").unwrap_or(""));
    if task.tasks() != 2 {
        return Err(JobError::Other(
            "accumulate is for two tasks: --torus 1 --harts 2 --mode vn, or --torus 2",
        ));
    }
    let (side, client) = Side::new(task, count)?;
    if task.number() == 0 { origin::run(side, &client, word) } else { target::run(side) }
}

/// Sixteen bytes of a handle, in words.
fn handle_words(handle: &RegionHandle) -> [u64; 2] {
    <[u64; 2]>::read_from_bytes(handle.as_bytes()).unwrap_or_default()
}

/// Prints one line of at most 160 characters.
fn say(words: fmt::Arguments) {
    let mut line = heapless::String::<160>::new();
    let _ = line.write_fmt(words);
    defmt::println!("{=str}", line.as_str());
}
