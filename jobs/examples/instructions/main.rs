//! Counts the instructions of posts, sends, advances and receptions; for `cargo xtask bench instructions`.
//!
//! One argument says which rows, and so which guest it takes:
//!
//! | argument | guest |
//! |---|---|
//! | `alone` | one task on one hart, with an adapter whose packets come back by the network's loop-back |
//! | `gem` | as `alone`, on a board whose adapter is a Cadence GEM |
//! | `lossless` | as `alone`, on a network that loses nothing (`--lossless`) |
//! | `bare` | one task on one hart, no adapter |
//! | `pair` | two tasks on two harts of one node |
//! | `team` | one task on one hart with eight contexts, no adapter |
//! | `mpi` | one task on one hart, no adapter |
//!
//! Each row is counted many times after a warm-up; printed are the median, and the least and the most of all. What is
//! counted lies between two readings of the counter in this job, less what two readings with nothing between them cost. So a call's own
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
//! | `send-immediate-8-kick` | the same | the return of the call of the engine's `progress` that puts it into the virtqueue and notifies the device |
//! | `send-immediate-8-shared-memory` | the same, to a context of the node | its return: the receiver can see the line |
//! | `send-512`, `send-512-shared-memory` | call of `send` of 512 bytes that lie still | its return: all is queued |
//! | `put-8`, `rmw-8` | call of `put` of 8 bytes, of `rmw` of 8 bytes, by the torus | its return: the engine can see the descriptor |
//! | `put-signal-8` | call of `put_signal` of 8 bytes, by the torus | the same: that descriptor is the signal as well |
//! | `put-8-shared-memory`, `rmw-8-shared-memory` | the same, to a task of the node | its return: it is done |
//! | `get-1m-shared-memory` | call of `get` of 1 MiB from a task of the node | its callback |
//! | `get-1m-skewed-shared-memory` | the same, the source's words in the middle of two of the target's | its callback |
//! | `fence-after-N-sends` | call of `fence`, N messages of 8 bytes were just sent | its return: the fence is queued |
//! | `*-factory` | call of `execute` of a factory for it (SPEC M-2) | as without |
//! | `*-after-fences` | as without, in a program that has fenced: the same (SPEC F-4) | |
//! | `receive-*` | call of the `advance` that takes an 8-byte message in | first statement of its handler |
//! | `receive-torus` | the same; the packet lies in the virtqueue | the same, through engine and reception FIFO |
//! | `receive-torus-fifo` | the same; the packet lies in the reception FIFO | the same |
//! | `allreduce-8-first-packet` | call of `collect` of an allreduce of 8 bytes over eight endpoints of the node, at one to which nobody has sent | its return: its first packet lies in the ring |
//! | `allreduce-8-all-endpoints` | the first call, at all eight endpoints in turn | the last callback: what all of them take together |
//! | `mpi-isend-8-shared-memory` | call of `isend` of 8 bytes to the task itself | its return: the message lies in the ring, the request is complete |
//! | `mpi-irecv-8` | call of `irecv` of 8 bytes that have not come | its return: the receive is posted |
//! | `mpi-matched-receive-8-shared-memory` | call of `test` of a receive whose message lies in the ring | its return with the status |
//! | `mpi-waited-receive-8-shared-memory` | the same with `wait` in the place of `test` | the same |
//! | `mpi-second-receive-8-shared-memory` | as `mpi-matched-receive-8-shared-memory`, of a receive that was posted behind another one | the same |
//! | `mpi-unexpected-receive-8-shared-memory` | call of `test` of another receive while a message that no receive wants lies in the ring; then `irecv` of that message, and `test` of it | its return with the status: what keeping the message takes is in it |
//! | `mpi-test-empty` | call of `test` of a receive without a message, behind another such: of five in a row four go by the bell alone | its return with none |
//! | `mpi-1-mib-shared-memory` | call of `irecv`, then of `isend`, of 1 MiB between two memories of the task | the return of `wait_all` of both: what both sides take together |
//! | `gem-*` | as without, the adapter being a GEM: to the register that has it read its ring, from the ring where it left the packet | |
//! | `lossless-*` | as without, with `--lossless` | |
//! | `fixed-loop-noise` | most less least of a fixed loop's count, over many runs without a message (SPEC N-9) | |
//!
//! # What the instructions are for
//!
//! The 8 bytes are a word in a register, and the length is known where the call is compiled; a length that is not costs a
//! call of `memcpy`. Numbers are those of aarch64, which has exclusives instead of atomic instructions, then of riscv64.
//!
//! | row | instructions |
//! |---|---|
//! | `post` (12, 9) | take the slot 4, 2; store the work 2, 3; become the last of the queue 3, 1; was it idle 1, 1; say so 2, 2 |
//! | `advance-empty` (19, 17) | is anything under way 2, 2; bell 3, 3; post queue 3, 3; looks left until timers and other ports are looked at 4, 4; has the device received 5, 4; call 2, 1 |
//! | `send-immediate-8-shared-memory` (47, 51) | is it the last target, which way, is the line of operations empty 9; the ring to it 7; its next line 5, free 2; data, tag, mark 7; tail 2; bell 7; counters 7; spilt register 1 |
//! | `send-immediate-8` (55, 58) | as before 9; has a node died 5; the FIFO, room in it 5; its next entry 3; header and body of the descriptor 14; tail 3; doorbell 5; engine wanted, agent, starvation 5; counters 5; spilt register 1 |
//! | `receive-shared-memory` (56, 69) | look at flag and bell, call 9; frame 4; the ring whose turn it is 2, its next line 5, is it filled 5, head 2; tag, origin 4; handler of the id 6; where header and data lie 7; the message for the handler 8; call 2; the handler's entry 2 |
//!
//! On riscv64 a reception takes 13 more: each saved register is a store of its own, as is each word of the message, a bit
//! field is two shifts, a call two instructions, the comparison of two halves of words one more, acquiring a fence.
//!
//! The longer rows:
//!
//! - `receive-torus-fifo` (76, 103): as `receive-shared-memory` to where a ring has nothing 9, 19; frame 3, 6; is
//!   there a FIFO, is it filled 9, 8; its next entry 6, 8; the packet taken out 13, 21; head 2, 3;
//!   its handler 6, 8; where header and data lie 12, 12; the message 5, 7; call 4, 4, and the handler's entry 3, 5.
//! - `send-immediate-8-kick`, `receive-torus`: one round of the engine over the reliable layer. The link header and the
//!   checksum of every byte of it and of the packet, the clock, the chain of descriptors, the notification of the device;
//!   on the way in besides the checks of all that a stranger wrote. One round serves all that is there, so a stream of
//!   packets shares its fixed part.
//!   `send-immediate-8-kick` (1184, 1559): to the descriptor 60, 62; the token, when the next round is due, whom to wake
//!   109, 194; looks at doorbells and ports 96, 111, at what came and what was sent 30, 31; whose turn it is, the descriptor,
//!   may it go 267, 331; noting it as under way 106, 115; its peer, number, window and timer, and keeping it to be sent again
//!   157, 181; the link header 91, 112, the checksum 32, 123, the frame to the card 98, 139, what the peer was told 77, 86;
//!   the notification and the rest 61, 74.
//!   `receive-torus` (1232, 1656), about: looks before the round 72, 88; the token, when the next is due, whom to wake 153, 258; what
//!   was sent 66, 77; the frame from the card, its addresses 114, 136; the link header 126, 156, the checksum 36, 130; order,
//!   window, acknowledgement 247, 288; to the reception FIFO 154, 174; looks for more, acknowledgements that are due, and
//!   the rest 93, 100; from the FIFO to the handler 183, 222.
//! - `gem-send-immediate-8-kick` (1437, 2671), `gem-receive-torus` (1378, 2559): a frame is as many descriptors as it has pieces,
//!   and every round looks at the rings themselves. The rest of riscv64's is its board's: cores without carry-less multiply, so
//!   checksums are by table, and without a clock that can be read, so each reading is a call of the firmware.
//! - `put-8-shared-memory` (62, 67): is it the last target and region 11; is it a word, aligned, in one piece on both sides, for
//!   one callback 17; room for its end 8; is the word whole in the region 5; the region's looker counted and let go 8, is it the
//!   same region 2, where the word is 1; the word itself 2; its end noted 6; result, jump 2. `rmw-8-shared-memory` (57, 58), of
//!   an addition, has the same parts. All else of the region was checked when another was the last.
//! - `put-8`, `rmw-8`: looks as at those, then a place of the context and some twelve stores to it, the header in four words
//!   and the descriptor, written where they lie, and the doorbell. All other puts and updates take a longer way.
//! - `send-512`: a packet that finds its way open is made of the caller's words at once. What is to be told of later is noted
//!   in a place of the context; a message that nobody is told of needs none.
//! - `fence-*`: the state of a fence is built and moved to a place, and passes the line of operations.
//!
//! # Where the rest goes
//!
//! Of rows that take more than was aimed at: what they take (aarch64, riscv64), and the functions that aarch64's go to.
//!
//! | row | aim | takes | instructions of |
//! |---|---|---|---|
//! | `mpi-matched-receive-8-shared-memory` | 150 | 298, 354 | handler 141: `end_first` 83, which matches, puts the word, ends the receive, frees its slot, credit 20, `plain` 15, the state's lock 5; PAMI's `advance_by_one` 78: `take_next` 43, of which the line's release 17, `pull_ready` 14; `test_with` 52 with the status, `test` 27 |
//! | `mpi-isend-8-shared-memory` | 120 | 160, 186 | PAMI's `send_immediate` 57; frame and result of `begin_send` 20; the peer's line and credit, the envelope 18; two locks 13; `member` 12; its caller 10 |
//! | `mpi-test-empty` | 25 | 36, 42 | `test` 31: is it active 8, the bell 8, frame and result 8; its caller 5 |
//! | `allreduce-8-first-packet` | 300 | 712, 836 | `send_words` 205, and the ring 41 more; `has_terms_of` 97: is it the call that was before; `see_areas` 56, `areas.take` 19: the memories; copies 53; `find_known` 25; the slot 57; `collect` 19 |
//!
//! The parts of all other rows are above. Of `send-immediate-8-kick` and `receive-torus`, at which 1200 was aimed, riscv64's checksum takes
//! 91 to 94 more than aarch64's, the token with what is due and whom to wake 85 to 105.
#![no_std]
#![no_main]

mod alone;
mod collective;
mod count;
mod factories;
mod mpi;
mod one_sided;
mod pair;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use count::Count;
use kernel::{Active, Context, Endpoint, JobError, Message, Receive, SendError, Signal, Task};

kernel::entry!(main, jobs::USAGE);

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

    /// One that a put brings.
    const SIGNAL: Signal = Signal { dispatch: COUNTED, header: WORD.to_ne_bytes() };

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
    match task.arguments().plain().next() {
        Some("alone") => alone::with_adapter(task, count),
        Some("gem") => alone::with_gem(task, count),
        Some("lossless") => alone::without_losses(task, count),
        Some("bare") => alone::without_adapter(task, count),
        Some("pair") => pair::rows(task, count),
        Some("team") => collective::rows(task, count),
        Some("mpi") => mpi::rows(task, count),
        Some(word) => {
            Err(JobError::Argument(word, "is none of: alone, gem, lossless, bare, pair, team, mpi"))
        }
        None => Err(JobError::Other(
            "which rows? alone, gem, lossless, bare, pair, team or mpi; `cargo xtask bench instructions` runs all",
        )),
    }
}
