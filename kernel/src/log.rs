//! Log frames of defmt: one buffer per hart, whole frames to the console's ring (SPEC N-12).
//!
//! A frame begins with the number of its format string. The linker script of defmt puts these in the order of their
//! levels, with marks between them, so that a frame is known by its number to be too light, and is dropped there.

use crate::arch::{self, Frames};
use crate::console::{self, FrameKind};
use crate::personality::Level;
use boot::HARTS;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use spin::Mutex;

/// Most bytes of a frame; a longer one is dropped and counted.
const FRAME_BYTES: usize = 2048;

/// The frames under way, by hart.
struct Log([Frame; HARTS]);

struct Frame {
    /// From begin to end: a log call within a log call would break the frame.
    taken: AtomicBool,
    /// This hart's own: the lock is free.
    state: Mutex<State>,
}

struct State {
    encoder: defmt::Encoder,
    bytes: [u8; FRAME_BYTES],
    /// Those of the frame; more than there are bytes if it is too long.
    len: usize,
    /// Whether the frame is sent, once its first bytes have told.
    sent: Option<bool>,
}

static LOG: Log = Log([const {
    Frame {
        taken: AtomicBool::new(false),
        state: Mutex::new(State {
            encoder: defmt::Encoder::new(),
            bytes: [0; FRAME_BYTES],
            len: 0,
            sent: None,
        }),
    }
}; HARTS]);

/// The [`Level`] from which on frames are sent.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);

/// From now on frames of this level and graver ones are sent.
pub(crate) fn start(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
    arch::log_to(&LOG);
}

/// Whether a frame is sent that begins with `head`, the number of its format string.
fn is_sent(head: &[u8]) -> bool {
    let &[low, high, ..] = head else { return true };
    let number = u16::from_le_bytes([low, high]);
    let marks = arch::level_marks();
    let level = usize::from(LEVEL.load(Ordering::Relaxed)).min(marks.len() - 1);
    !(marks[marks.len() - 1]..marks[level]).contains(&number)
}

impl Log {
    fn frame(&self) -> &Frame {
        &self.0[arch::hart() % HARTS]
    }
}

impl State {
    fn put(bytes: &mut [u8; FRAME_BYTES], len: &mut usize, data: &[u8]) {
        if let Some(place) = bytes.get_mut(*len..).and_then(|free| free.get_mut(..data.len())) {
            place.copy_from_slice(data);
        }
        *len = len.saturating_add(data.len());
    }
}

impl Frames for Log {
    fn begin(&self) {
        let frame = self.frame();
        assert!(!frame.taken.swap(true, Ordering::Relaxed), "a log call within a log call");
        frame.state.lock().sent = None;
    }

    fn part(&self, part: &[u8]) {
        let State { encoder, bytes, len, sent } = &mut *self.frame().state.lock();
        let sent = *sent.get_or_insert_with(|| {
            let sent = is_sent(part);
            if sent {
                *len = 0;
                State::put(bytes, len, &console::head(FrameKind::Log));
                // The separator that the encoder puts before its first frame would end ours.
                encoder.start_frame(|_| {});
            }
            sent
        });
        if sent {
            encoder.write(part, |data| State::put(bytes, len, data));
        }
    }

    fn end(&self) {
        let frame = self.frame();
        let State { encoder, bytes, len, sent } = &mut *frame.state.lock();
        if *sent == Some(true) {
            encoder.end_frame(|data| State::put(bytes, len, data));
            match bytes.get(..*len) {
                Some(frame) => console::frame(frame),
                None => console::drop_frame(),
            }
        }
        frame.taken.store(false, Ordering::Relaxed);
    }
}
