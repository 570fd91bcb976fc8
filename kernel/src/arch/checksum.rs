//! CRC-32C by the fastest ways that this core has: its own instructions, tables where it has none, and for long pieces shifts if
//! those take less time. Which that is cannot be known before: an emulator may take a hundred times as long for an instruction of
//! checksums as for a shift.

use super::{counter, this};
use core::fmt;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use drivers::link;
use zerocopy::IntoBytes;

/// Bytes from which on a piece is long.
const LONG: usize = 512;
/// Pieces of [`LONG`] bytes by which the ways are compared: the fastest of each counts, as what else a host does takes time too.
const TRIES: usize = 8;

/// Pieces shorter than this go by instructions, which are there and do what they should.
static BY_INSTRUCTIONS: AtomicUsize = AtomicUsize::new(0);
/// Long ones go by shifts.
static BY_SHIFTS: AtomicBool = AtomicBool::new(false);

/// The ways that were chosen.
#[derive(Clone, Copy)]
pub(crate) struct Ways {
    short: &'static str,
    shifts: bool,
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short)?;
        if self.shifts { f.write_str(", those of long pieces by shifts") } else { Ok(()) }
    }
}

/// Chooses the ways in which checksums are made: once, before the first of them. Instructions that do not agree with the tables
/// are not trusted.
pub(crate) fn choose_checksum() -> Ways {
    // SAFETY: the core has the instructions.
    let instructions = this::checksum::is_there()
        && link::agrees(|state, bytes| unsafe { this::checksum::crc32c(state, bytes) });
    BY_INSTRUCTIONS.store(if instructions { usize::MAX } else { 0 }, Ordering::Relaxed);
    let shifts = ticks(by_shifts) < ticks(short);
    BY_SHIFTS.store(shifts, Ordering::Relaxed);
    if shifts && instructions {
        BY_INSTRUCTIONS.store(LONG, Ordering::Relaxed);
    }
    Ways { short: if instructions { this::checksum::NAME } else { "tables" }, shifts }
}

/// How long a way takes for a long piece, by the core's counter.
fn ticks(way: fn(u32, &[u8]) -> u32) -> u64 {
    let piece = [0u64; LONG / size_of::<u64>()];
    let tries = (0..TRIES).map(|_| {
        let start = counter();
        black_box(way(!0, black_box(piece.as_bytes())));
        counter().wrapping_sub(start)
    });
    tries.min().unwrap_or(u64::MAX)
}

fn by_shifts(state: u32, bytes: &[u8]) -> u32 {
    link::crc32c_by_shifts(state, bytes, short)
}

/// Without shifts.
fn short(state: u32, bytes: &[u8]) -> u32 {
    if BY_INSTRUCTIONS.load(Ordering::Relaxed) > 0 {
        // SAFETY: the core has the instructions.
        unsafe { this::checksum::crc32c(state, bytes) }
    } else {
        link::crc32c(state, bytes)
    }
}

/// As [`link::crc32c`].
#[inline]
pub(crate) fn crc32c(state: u32, bytes: &[u8]) -> u32 {
    if bytes.len() < BY_INSTRUCTIONS.load(Ordering::Relaxed) {
        // SAFETY: the core has the instructions.
        unsafe { this::checksum::crc32c(state, bytes) }
    } else {
        otherwise(state, bytes)
    }
}

#[cold]
#[inline(never)]
fn otherwise(state: u32, bytes: &[u8]) -> u32 {
    let shifts = bytes.len() >= LONG && BY_SHIFTS.load(Ordering::Relaxed);
    if shifts { by_shifts(state, bytes) } else { short(state, bytes) }
}
