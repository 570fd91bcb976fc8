//! The end of a node: its last status frame and its exit code (SPEC N-11).

use crate::arch::Alone;
use crate::board;
use crate::console::{self, Ending, FrameKind, LastWords, Text};
use crate::heap;
use crate::job_error::JobError;
use crate::kept;
use crate::links;
use crate::trace;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

/// Exit codes of the kernel itself; jobs have theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// The firmware or the machine is not as the kernel needs it (EX_UNAVAILABLE).
    Machine = 69,
    /// The personality was refused (EX_CONFIG).
    Personality = 78,
    /// A panic.
    Panic = 101,
    /// An exception.
    Exception = 102,
}

/// The exit code for a job's status: 0 for 0, else 1 to 255, whatever the host would cut off.
pub fn exit_code(status: i32) -> u8 {
    match status {
        0 => 0,
        other => u8::try_from(other).unwrap_or(255),
    }
}

/// Sends the end status, with `counters` in it, each followed by a blank, then what harts did, and leaves the emulator. It waits for
/// no other hart: those have stopped, whatever they held; or they are off, as `alone` says.
pub(crate) fn finish(mut line: LastWords, code: u8, counters: &str, alone: Option<Alone>) -> ! {
    let allocations = heap::allocations_since_start();
    let (down, lost) = (links::down(), links::lost());
    let frames = line.lost();
    if frames > 0 {
        let text = Text::new(format_args!(
            "a hart kept the serial line for more than a second: {frames} frames that waited for it are lost"
        ));
        line.send(FrameKind::Report, text.as_bytes());
    }
    let unlogged = console::dropped().saturating_add(frames);
    let text = Text::new(format_args!(
        "end status={code} {counters}allocations={allocations} down={down} lost={lost} unlogged={unlogged}"
    ));
    line.send(FrameKind::Status, text.as_bytes());
    // Behind the status: it takes long, and of a run that has failed the host does not wait for the rest.
    trace::send(|payload| line.send(FrameKind::Timeline, payload));
    if kept::stays() {
        kept::park(line, code, alone)
    }
    line.flush();
    board::exit(code)
}

/// Ends the node with the job's status; `alone` if all other harts are off.
pub(crate) fn end_job(status: i32, counters: impl fmt::Display, alone: Option<Alone>) -> ! {
    let code = exit_code(status);
    // Before the others stop: one of them may keep what counts.
    let counters = Text::new(format_args!("{counters}"));
    if console::begin_ending() == Ending::Again {
        board::exit(code);
    }
    // What came up, or went down, since the last sleep.
    links::look();
    finish(console::seize(), code, counters.as_str(), alone)
}

/// Whether the job goes on when a node dies.
static LIVES_ON: AtomicBool = AtomicBool::new(false);

/// From now on the death of a node does not end the job here.
pub(crate) fn live_on() {
    LIVES_ON.store(true, Ordering::Relaxed);
}

/// Node `node` has died: this one ends with its name, whatever its tasks do or wait for, unless they live on (SPEC R-2).
#[cold]
pub(crate) fn lose(node: u32) {
    if !LIVES_ON.load(Ordering::Relaxed) {
        let error = JobError::Dead(node);
        defmt::error!("{}", defmt::Display2Format(&error));
        // The message unit's token may be this hart's: its counters are left out.
        end_job(1, "", None);
    }
    defmt::info!("node {=u32} is gone; the job lives on", node);
}
