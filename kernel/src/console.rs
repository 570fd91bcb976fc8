//! Frames to the host tool, over the one serial line (SPEC N-12).
//!
//! A frame is a kind, the hart, a payload without zero bytes, and a zero byte. A frame leaves whole: under a
//! short lock, or, for a report, when every other hart has been told to stop.

use crate::{arch, board, links};
use core::fmt::{self, Write};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use drivers::console::Console;
use spin::{Mutex, MutexGuard};

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// An encoded defmt frame.
    Log,
    /// A line of a report.
    Report,
    /// Status for the host tool: `word key=value ...`.
    Status,
}

static LINE: Mutex<Option<Console>> = Mutex::new(None);

/// The hart that ends the node, plus 1; 0 while nobody does.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// Longest line of a report or status; the rest is cut off.
const LINE_BYTES: usize = 480;

/// Takes the console into use and closes whatever the firmware printed.
pub fn start(mut console: Console) {
    console.write(&[0]);
    *LINE.lock() = Some(console);
}

/// The line for one frame. Who gives it back answers the service node, if that has asked meanwhile.
pub struct Line {
    // Given back first.
    line: MutexGuard<'static, Option<Console>>,
    _answer: Answer,
}

struct Answer;

impl Drop for Answer {
    fn drop(&mut self) {
        give_answer();
    }
}

impl Deref for Line {
    type Target = Option<Console>;

    fn deref(&self) -> &Option<Console> {
        &self.line
    }
}

impl DerefMut for Line {
    fn deref_mut(&mut self) -> &mut Option<Console> {
        &mut self.line
    }
}

/// Exclusive use of the line for one frame. Never returns if another hart ends the node meanwhile.
pub fn lock() -> Line {
    loop {
        stop_if_ending();
        if let Some(line) = LINE.try_lock() {
            return Line { line, _answer: Answer };
        }
        core::hint::spin_loop();
    }
}

/// The service node waits for an answer, or is to have one unasked, as something has changed.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Answers the service node, with the state of the links: now, or, if the line is in use, maybe by what this very hart was
/// doing, when it is given back.
pub fn answer() {
    // Who answers sees the links as they are here.
    ASKED.store(true, Ordering::Release);
    give_answer();
}

/// Sends the answer that is due, unless the line is in use: whoever uses it comes here next. Of one who says that it is due and
/// then finds the line in use, and one who gives the line back and then looks whether it is due, one sees the other, by the fence.
fn give_answer() {
    loop {
        fence(Ordering::SeqCst);
        if !ASKED.load(Ordering::Relaxed) || ENDING.load(Ordering::Relaxed) != 0 {
            return;
        }
        let Some(mut line) = LINE.try_lock() else { return };
        if let Some(console) = line.as_mut().filter(|_| ASKED.swap(false, Ordering::Acquire)) {
            let text = Text::new(format_args!("alive down={} lost={}", links::down(), links::lost()));
            send(console, FrameKind::Status, text.as_bytes());
        } else {
            return;
        }
    }
}

fn stop_if_ending() {
    let ending = ENDING.load(Ordering::Relaxed);
    if ending != 0 && ending != arch::hart() + 1 {
        arch::park();
    }
}

/// Whether this hart is the one to end the node, the first time it asks. A second time it is told so; any other
/// hart stops here for good.
pub fn begin_ending() -> Ending {
    let me = arch::hart() + 1;
    match ENDING.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ending::First,
        Err(other) if other == me => Ending::Again,
        Err(_) => arch::park(),
    }
}

/// See [`begin_ending`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The node ends here.
    First,
    /// It was ending here already: something went wrong in a report.
    Again,
}

/// The line for a hart that ends the node: waits a little for a frame that another hart is sending, then takes it
/// all the same. Needs no lock that might be held.
pub fn seize() -> Option<Console> {
    let patience = arch::counter() + arch::counter_hz() / 50;
    let guard = loop {
        let guard = LINE.try_lock();
        if guard.is_some() || arch::counter() > patience {
            break guard;
        }
        core::hint::spin_loop();
    };
    // Never given back: nobody else sends from here on.
    core::mem::forget(guard);
    board::console()
}

/// A line of text in place, cut off at its end.
pub struct Text {
    bytes: [u8; LINE_BYTES],
    len: usize,
}

impl Text {
    /// The formatted text.
    pub fn new(arguments: fmt::Arguments<'_>) -> Self {
        let mut text = Self { bytes: [0; LINE_BYTES], len: 0 };
        // Too long a text is cut.
        let _ = text.write_fmt(arguments);
        text
    }

    /// Its bytes, none of them zero or a line feed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let place = self.bytes.get_mut(self.len).ok_or(fmt::Error)?;
            *place = if byte == 0 || byte == b'\n' { b' ' } else { byte };
            self.len += 1;
        }
        Ok(())
    }
}

/// The first two bytes of a frame of this hart.
pub fn head(kind: FrameKind) -> [u8; 2] {
    let kind = match kind {
        FrameKind::Log => b'D',
        FrameKind::Report => b'R',
        FrameKind::Status => b'S',
    };
    // A digit, or what is no character: not what a firmware's text might go on with.
    let hart = arch::hart() as u8;
    [kind, if hart < 10 { b'0' + hart } else { 0x80 | hart }]
}

/// Sends a whole frame on `console`. `payload` holds no zero byte.
pub fn send(console: &mut Console, kind: FrameKind, payload: &[u8]) {
    console.write(&head(kind));
    console.write(payload);
    console.write(&[0]);
}

/// Tells the host tool.
pub fn status(arguments: fmt::Arguments<'_>) {
    let text = Text::new(arguments);
    if let Some(console) = lock().as_mut() {
        send(console, FrameKind::Status, text.as_bytes());
    }
}
