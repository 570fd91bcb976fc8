//! A node that the service node keeps from job to job (SPEC S-1).
//!
//! Its boot arguments are [`ASKS`] alone: it asks for its personality over the serial line, a line of text. At its end it does not
//! leave the machine but says `parked`, and waits for a line. With that it begins again at `boot`, where all memory of its own is made
//! what it was at first, so no job finds anything that one before it left. The firmware has no part in it, so that takes milliseconds.
//!
//! To begin again, this hart must be the only one that runs, and no device may write to memory. A node that reports what went wrong,
//! whose other harts stop somewhere, has an agent, or was started by another way than its firmware's cannot, and says so: it is for
//! whoever started it to start it again.

use crate::arch::Alone;
use crate::board::Resting;
use crate::console::{FrameKind, LastWords, Text};
use crate::personality::{AGAIN, ASKS};
use crate::{arch, console};
use core::sync::atomic::{AtomicBool, Ordering};
use heapless::Vec;
use spin::Once;

/// Longest personality that is told so, in bytes, and the end of its line.
const MOST_BYTES: usize = 8192;

static KEPT: AtomicBool = AtomicBool::new(false);
static TOLD: Once<Vec<u8, MOST_BYTES>> = Once::new();

/// The words of the personality: the boot arguments, or what the service node tells when asked. It is waited for: without it the
/// node is none.
///
/// # Errors
/// What is wrong with what it told.
pub(crate) fn personality(bootargs: &'static str) -> Result<&'static str, &'static str> {
    if bootargs.trim_ascii() != ASKS {
        return Ok(bootargs);
    }
    KEPT.store(true, Ordering::Relaxed);
    console::status(format_args!("wants personality=1"));
    let told = TOLD.call_once(|| {
        let mut line = Vec::new();
        loop {
            match console::read() {
                Some(b'\n' | b'\r') => return line,
                // What is too long is refused below.
                Some(byte) => _ = line.push(byte),
                None => arch::relax(),
            }
        }
    });
    if told.is_full() {
        return Err("the personality that it was told is over 8191 bytes");
    }
    core::str::from_utf8(told).map_err(|_| "the personality that it was told is no text")
}

/// Whether the node stays in the machine at its end.
pub(crate) fn stays() -> bool {
    KEPT.load(Ordering::Relaxed)
}

/// Says that the job is over with `code`, and waits to begin again, if all other harts are off and devices come to rest.
pub(crate) fn park(mut line: LastWords, code: u8, alone: Option<Alone>) -> ! {
    let resting = alone.and_then(Resting::begin);
    let again = u8::from(resting.is_some());
    line.send(FrameKind::Status, Text::new(format_args!("parked code={code} again={again}")).as_bytes());
    line.flush();
    let Some(resting) = resting else { arch::park() };
    while line.read() != Some(AGAIN) {
        arch::relax();
    }
    resting.begin_again()
}
