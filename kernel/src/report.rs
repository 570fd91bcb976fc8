//! One readable report when something ends the node: a panic, a fault, a refused personality (SPEC N-10).
//!
//! What waits for the serial line goes out before it. Takes no lock that may be held and allocates nothing. Other harts stop at
//! their next frame; the emulator's end stops them all. What this hart logs from here on is not sent. Trouble within a report
//! ends the node at once.

use crate::arch::{self, Access, Incident};
use crate::board;
use crate::console::{self, Ending, FrameKind, LastWords, Text};
use crate::status::{self, Exit};
use boot::Fault;
use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};

/// Most addresses of a backtrace.
const DEPTH: usize = 32;

static NODE: AtomicU32 = AtomicU32::new(u32::MAX);

/// Reports name the node with this rank from now on.
pub fn set_node(rank: u32) {
    NODE.store(rank, Ordering::Relaxed);
}

/// Where a report is from: `node 3, hart 0`.
struct Origin;

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NODE.load(Ordering::Relaxed) {
            u32::MAX => f.write_str("unnamed node")?,
            rank => write!(f, "node {rank}")?,
        }
        write!(f, ", hart {}", arch::hart())
    }
}

struct Report(LastWords);

impl Report {
    /// Begins the node's last report; ends the node at once if one was under way on this hart.
    fn begin(exit: Exit) -> Self {
        if console::begin_ending() == Ending::Again {
            board::exit(exit as u8);
        }
        Self(console::seize())
    }

    fn line(&mut self, arguments: fmt::Arguments<'_>) {
        let text = Text::new(arguments);
        if let LastWords::Nowhere = self.0 {
            // Nothing has told of a console yet, or nothing maps it.
            arch::last_words(console::head(FrameKind::Report), text.as_bytes());
        }
        self.0.send(FrameKind::Report, text.as_bytes());
    }

    fn backtrace(&mut self, frame: usize, pc: Option<usize>) {
        if let Some(pc) = pc {
            self.line(format_args!("  at {pc:#x}"));
        }
        for address in arch::Backtrace::from(frame).take(DEPTH) {
            self.line(format_args!("  at {address:#x}"));
        }
    }

    fn end(self, exit: Exit) -> ! {
        status::finish(self.0, exit as u8, "", None)
    }
}

/// Reports a panic and ends the node.
#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    let mut report = Report::begin(Exit::Panic);
    report.line(format_args!("panic on {Origin}: {}", info.message()));
    if let Some(location) = info.location() {
        report.line(format_args!("  in {location}"));
    }
    report.backtrace(arch::frame_pointer(), None);
    report.end(Exit::Panic)
}

/// Reports a fault and ends the node.
pub fn faulted(fault: &Fault) -> ! {
    let mut report = Report::begin(Exit::Exception);
    let incident = arch::incident(fault);
    report.line(format_args!("exception on {Origin}: {}", Cause(fault, incident)));
    let Fault { pc, sp, address, cause, .. } = *fault;
    report.line(format_args!("  pc {pc:#x}, address {address:#x}, sp {sp:#x}, cause {cause:#x}"));
    // A jump to nowhere has no pc worth a line, but the caller's address.
    let at = if arch::is_code(pc) { pc } else { fault.ra };
    report.backtrace(fault.fp, Some(at));
    report.end(Exit::Exception)
}

/// Reports that the node cannot start and ends it.
pub fn refused(exit: Exit, reason: impl fmt::Display) -> ! {
    let mut report = Report::begin(exit);
    report.line(format_args!("{Origin} cannot start: {reason}"));
    report.end(exit)
}

/// Reports that the machine under the node failed and ends it.
pub fn broken(exit: Exit, reason: impl fmt::Display) -> ! {
    let mut report = Report::begin(exit);
    report.line(format_args!("{Origin} cannot go on: {reason}"));
    report.end(exit)
}

/// What happened, in words.
struct Cause<'a>(&'a Fault, Incident);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(fault, incident) = self;
        let address = fault.address;
        let (verb, to) = match incident {
            Incident::Other(words) => return f.write_str(words),
            Incident::Access(Access::Read) => ("read", "from"),
            Incident::Access(Access::Write) => ("write", "to"),
            Incident::Access(Access::Execute) => ("jump", "to"),
        };
        if let Some(hart) = (0..boot::HARTS).find(|&hart| arch::in_guard(hart, address)) {
            return write!(f, "stack overflow of hart {hart}");
        }
        if address < crate::paging::PAGE {
            return write!(f, "null dereference: {verb} {to} {address:#x}");
        }
        match incident {
            Incident::Access(Access::Write) if arch::is_constant(address) => {
                write!(f, "write to read-only memory at {address:#x}")
            }
            Incident::Access(Access::Execute) if arch::is_memory(address) => {
                write!(f, "jump to memory that is no code at {address:#x}")
            }
            _ => write!(f, "{verb} {to} {address:#x}, where nothing is mapped"),
        }
    }
}
