//! Counts the instructions of posts, sends, advances and receptions; for `cargo xtask bench instructions`.
//!
//! One argument says which rows, and so which guest it takes:
//!
//! | argument | guest |
//! |---|---|
//! | `alone` | one task on one hart, with an adapter whose packets come back by the network's loop-back |
//! | `bare` | one task on one hart, no adapter |
//! | `pair` | two tasks on two harts of one node |
//!
//! Each row is counted many times after a warm-up; printed are the least count that several repeats agree on, and the
//! least and the most of all. What is counted lies between
//! two readings of the counter in this job, less what two readings with nothing between them cost. So a call's own
//! jump, the set-up of its arguments and the look at its result are in it.
//!
//! Before each row of the torus nothing is under way, and packets come at certain times only (`xtask::node`), so that
//! none comes in the middle. A new row is a function that counts one repeat, and a line that calls `count::row`.
//!
//! | row | from | to |
//! |---|---|---|
//! | `post` | call of `Poster::post`, slot free, target's hart awake | its return |
//! | `advance-empty` | call of `Context::advance`, nothing to do, one peer in shared memory known | its return |
//! | `send-immediate-8` | call of `send_immediate`, 8 bytes, by the torus | its return: the engine can see the descriptor, as nobody but an advance runs the engine |
//! | `send-immediate-8-kick` | the same | the return of the engine's pass that puts it into the virtqueue and notifies the device |
//! | `send-immediate-8-shared-memory` | the same, to a context of the node | its return: the receiver can see the line |
//! | `send-512`, `send-512-shared-memory` | call of `send` of 512 bytes that lie still | its return: all is queued |
//! | `receive-*` | call of the `advance` that takes an 8-byte message in | first statement of its handler |
//! | `receive-torus` | the same; the packet lies in the virtqueue | the same, through engine and reception FIFO |
//! | `receive-torus-fifo` | the same; the packet lies in the reception FIFO | the same |
//! | `fixed-loop-noise` | most less least of a fixed loop's count, over many runs without a message (SPEC N-9) | |
#![no_std]
#![no_main]

mod alone;
mod count;
mod one_sided;
mod pair;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use count::Count;
use kernel::{Active, Context, Endpoint, JobError, Message, Receive, SendError, Task};

kernel::entry!(main);

/// Dispatch id of the messages whose reception is counted.
const COUNTED: u8 = 0;
/// What they carry.
const WORD: u64 = 0x5555_5555_5555_5555;

/// What their handler leaves.
struct Arrivals {
    /// The count at the last one's first statement.
    at: AtomicU32,
    /// How many there were.
    number: AtomicU32,
}

impl Arrivals {
    /// In memory of the task, with the handler that writes there.
    fn new(task: &'static Task, count: Count) -> Result<(&'static Self, Handler), JobError> {
        let arrivals: &Self =
            task.memory().place(Self { at: AtomicU32::new(0), number: AtomicU32::new(0) })?;
        let handler = task.memory().place(move |_: &mut Active, _: &Message| {
            arrivals.at.store(count.now(), Relaxed);
            arrivals.number.store(arrivals.number.load(Relaxed) + 1, Relaxed);
            Receive::Done
        })?;
        Ok((arrivals, handler))
    }

    /// Sends one such message.
    fn send(active: &mut Active, target: Endpoint) -> Result<(), SendError> {
        active.send_immediate(target, COUNTED, &[], &WORD.to_ne_bytes())
    }

    fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Instructions from the start of an advance to the handler that it ran; `None` if it ran none.
    fn reception(&self, count: Count, context: &mut Context) -> Option<u32> {
        let number = self.number();
        let from = advance(count, context);
        (self.number() != number).then(|| count.between((from, self.at.load(Relaxed))))
    }
}

/// Advances. Returns the count before; in a function of its own, so that all rows have the same code.
#[inline(never)]
fn advance(count: Count, context: &mut Context) -> u32 {
    let from = count.now();
    context.advance();
    from
}

type Handler = &'static (dyn Fn(&mut Active, &Message) -> Receive + Sync);

fn main(task: &'static Task) -> Result<(), JobError> {
    let count = Count::new(task)?;
    match task.args().next() {
        Some("alone") => alone::with_adapter(task, count),
        Some("bare") => alone::without_adapter(task, count),
        Some("pair") => pair::rows(task, count),
        Some(word) => Err(JobError::Argument(word, "is none of: alone, bare, pair")),
        None => {
            Err(JobError::Other("which rows? alone, bare or pair; `cargo xtask bench instructions` runs all"))
        }
    }
}
