//! The global logger of defmt: one frame buffer per hart, whole frames to the console (SPEC N-12).
//!
//! A frame begins with the number of its format string. The linker script of defmt puts these in the order of their
//! levels, with marks between them, so that a frame is known by its number to be too light, and is dropped there.

use crate::console::{self, Kind};
use crate::personality::Level;
use boot::HARTS;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// A frame up to this long is sent under one short lock; a longer one holds the lock while it is made.
const FRAME_BYTES: usize = 512;

#[defmt::global_logger]
struct Logger;

struct Frame {
    /// From acquire to release: a log call within a log call would break the frame.
    taken: AtomicBool,
    state: UnsafeCell<State>,
}

/// The console, while a frame is passed on.
type Line = Option<console::Line>;

struct State {
    encoder: defmt::Encoder,
    bytes: [u8; FRAME_BYTES],
    len: usize,
    line: Line,
    /// Whether the frame is sent, once its first bytes have told.
    sent: Option<bool>,
}

/// The [`Level`] from which on frames are sent.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);

/// Frames of this level and graver ones are sent from now on.
pub(crate) fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

unsafe extern "C" {
    static __DEFMT_MARKER_TRACE_START: u8;
    static __DEFMT_MARKER_DEBUG_START: u8;
    static __DEFMT_MARKER_INFO_START: u8;
    static __DEFMT_MARKER_WARN_START: u8;
    static __DEFMT_MARKER_ERROR_START: u8;
    static __DEFMT_MARKER_ERROR_END: u8;
}

/// Whether a frame is sent that begins with `head`, the number of its format string.
fn is_sent(head: &[u8]) -> bool {
    let &[low, high, ..] = head else { return true };
    let number = usize::from(u16::from_le_bytes([low, high]));
    // By rising level, as numbers.
    let firsts = [
        &raw const __DEFMT_MARKER_ERROR_END,
        &raw const __DEFMT_MARKER_ERROR_START,
        &raw const __DEFMT_MARKER_WARN_START,
        &raw const __DEFMT_MARKER_INFO_START,
        &raw const __DEFMT_MARKER_DEBUG_START,
        &raw const __DEFMT_MARKER_TRACE_START,
    ];
    let level = usize::from(LEVEL.load(Ordering::Relaxed)).min(firsts.len() - 1);
    !(firsts[firsts.len() - 1].addr()..firsts[level].addr()).contains(&number)
}

// SAFETY: a hart uses the frame of its own number only, and while `taken`.
unsafe impl Sync for Frame {}

static FRAMES: [Frame; HARTS] = [const {
    Frame {
        taken: AtomicBool::new(false),
        state: UnsafeCell::new(State {
            encoder: defmt::Encoder::new(),
            bytes: [0; FRAME_BYTES],
            len: 0,
            line: None,
            sent: None,
        }),
    }
}; HARTS];

fn frame() -> &'static Frame {
    &FRAMES[super::hart() % HARTS]
}

impl State {
    fn put(bytes: &mut [u8; FRAME_BYTES], len: &mut usize, line: &mut Line, data: &[u8]) {
        for &byte in data {
            if *len == FRAME_BYTES {
                Self::pass_on(&bytes[..*len], line);
                *len = 0;
            }
            bytes[*len] = byte;
            *len += 1;
        }
    }

    fn pass_on(bytes: &[u8], line: &mut Line) {
        if let Some(console) = line.get_or_insert_with(console::lock).as_mut() {
            console.write(bytes);
        }
    }
}

// SAFETY: `acquire` gives a hart exclusive use of its frame until `release`; harts do not share frames.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        let frame = frame();
        assert!(!frame.taken.swap(true, Ordering::Relaxed), "a log call within a log call");
        // SAFETY: this hart's own, and not in use by it, by the flag.
        unsafe { &mut *frame.state.get() }.sent = None;
    }

    unsafe fn flush() {}

    unsafe fn release() {
        let frame = frame();
        // SAFETY: this hart's own; it acquired it.
        let State { encoder, bytes, len, line, sent } = unsafe { &mut *frame.state.get() };
        if *sent == Some(true) {
            encoder.end_frame(|data| State::put(bytes, len, line, data));
            State::pass_on(&bytes[..*len], line);
            *line = None;
        }
        frame.taken.store(false, Ordering::Relaxed);
    }

    unsafe fn write(data: &[u8]) {
        // SAFETY: this hart's own; it acquired it.
        let State { encoder, bytes, len, line, sent } = unsafe { &mut *frame().state.get() };
        let sent = *sent.get_or_insert_with(|| {
            let sent = is_sent(data);
            if sent {
                *len = 0;
                State::put(bytes, len, line, &console::head(Kind::Log));
                // The separator that the encoder puts before its first frame would end ours.
                encoder.start_frame(|_| {});
            }
            sent
        });
        if sent {
            encoder.write(data, |data| State::put(bytes, len, line, data));
        }
    }
}
