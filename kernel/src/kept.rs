//! A node that the service node keeps from job to job (SPEC S-1).
//!
//! Its boot arguments are [`ASKS`] alone: it asks for its personality over the serial line, a line of text. At its end it does not
//! leave the machine but says `parked`, and waits to be reset; what comes then begins at `boot` again, so no job finds anything that
//! one before it left.

use crate::personality::ASKS;
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
