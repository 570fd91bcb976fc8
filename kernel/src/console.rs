//! Frames to the host tool, over the one serial line (SPEC N-12).
//!
//! A frame is a kind, the hart, a payload without zero bytes, and a zero byte. A frame leaves whole: it goes to the line's ring
//! under a lock that is held for no longer than that takes, and no hart waits for the line. Interrupts are not taken meanwhile:
//! what serves the line's own takes the lock as well. A report and the end status go behind all that waits, when every other hart
//! has been told to stop.

use crate::serial::{Serial, SerialPort, Worth};
use crate::{arch, board, clock, links};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use drivers::console::Console;
use rings::sleep::SleepSet;
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
    /// What a hart did: a payload of [`timeline`](crate::timeline).
    Timeline,
}

static LINE: Mutex<Option<Serial<Console>>> = Mutex::new(None);

/// The hart that ends the node, plus 1; 0 while nobody does.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// Longest line of a report or status; the rest is cut off.
const LINE_BYTES: usize = 480;

impl SerialPort for Console {
    fn fill(&mut self, bytes: &[u8]) -> usize {
        self.fill(bytes)
    }

    fn has_room(&mut self) -> bool {
        self.has_room()
    }

    fn interrupt_for(&mut self, received: bool, room: bool) {
        self.interrupt_for(received, room);
    }
}

/// Takes the console into use and closes whatever the firmware printed.
pub fn start(mut console: Console) {
    console.write(&[0]);
    *LINE.lock() = Some(Serial::new(console));
}

/// Does `what` with the line, if there is one and this hart does not end the node: then it is taken for good. Never returns if
/// another hart ends the node meanwhile.
fn with<R>(what: impl FnOnce(&mut Serial<Console>) -> R) -> Option<R> {
    let (result, wake) = arch::without_interrupts(|| {
        let mut line = loop {
            if ends_here() {
                return (None, false);
            }
            match LINE.try_lock() {
                Some(line) => break line,
                None => core::hint::spin_loop(),
            }
        };
        let Some(line) = line.as_mut() else { return (None, false) };
        let result = what(line);
        give_answer(line);
        WAITING.store(line.waiting(), Ordering::Relaxed);
        FRAMES.store(line.frames(), Ordering::Relaxed);
        DROPPED.store(line.dropped(), Ordering::Relaxed);
        let due_ns = line.due_ns().unwrap_or(NEVER);
        (Some(result), DUE_NS.swap(due_ns, Ordering::Relaxed) == NEVER && due_ns != NEVER)
    });
    if wake {
        SLEEPERS.wake().for_each(board::interrupt_hart);
    }
    result
}

/// Puts a frame in, or drops and counts it.
pub fn frame(frame: &[u8]) {
    with(|line| line.push(&[frame], Worth::Log, clock::now_ns));
}

/// Counts a frame that is not put in.
pub fn drop_frame() {
    with(Serial::drop_one);
}

/// Copies of what the line says of itself, for who looks often or cannot have it.
static WAITING: AtomicUsize = AtomicUsize::new(0);
static FRAMES: AtomicU32 = AtomicU32::new(0);
static DROPPED: AtomicU32 = AtomicU32::new(0);

/// Bytes that wait for the line.
pub fn waiting() -> usize {
    WAITING.load(Ordering::Relaxed)
}

/// Frames that were dropped, as too many waited or they were too long.
pub fn dropped() -> u32 {
    DROPPED.load(Ordering::Relaxed)
}

/// From now on the line is no faster than so many bits a second, whatever it is (SPEC N-12).
pub fn slow_down(baud: u32) {
    LOOKS.store(true, Ordering::Relaxed);
    with(|line| line.slow_down(baud));
}

/// From now on the line's interrupts reach a hart. What came in before is dropped.
pub fn listen() {
    with(|line| {
        line.uart().drain();
        line.listen(clock::now_ns);
    });
}

/// They do again, after a [`hold`].
pub fn listen_again() {
    with(|line| line.listen(clock::now_ns));
}

/// The line does not interrupt until [`listen_again`].
pub fn hold() {
    with(Serial::hold);
}

/// A byte that came in.
pub fn read() -> Option<u8> {
    with(|line| line.uart().read()).flatten()
}

/// Reads all that came in.
pub fn drain() {
    with(|line| line.uart().drain());
}

/// The line has interrupted. Returns whether there is something to read.
pub fn serve() -> bool {
    with(|line| {
        line.serve(clock::now_ns);
        line.uart().has_received()
    })
    .unwrap_or(false)
}

/// Whether harts look at the line before they sleep: no interrupt tells of its room, or not in time.
static LOOKS: AtomicBool = AtomicBool::new(false);
/// When one is to look, or [`NEVER`].
static DUE_NS: AtomicU64 = AtomicU64::new(NEVER);
const NEVER: u64 = u64::MAX;
/// Harts that sleep and would look.
static SLEEPERS: SleepSet = SleepSet::new();

/// No interrupt of the line reaches a hart: those that are idle look after it.
pub fn look_when_idle() {
    LOOKS.store(true, Ordering::Relaxed);
    // Who sleeps already did not say so: it does from its next sleep on.
    let harts = arch::machine().map_or(0, |machine| machine.harts.len());
    (0..harts).filter(|&hart| hart != arch::hart()).for_each(board::interrupt_hart);
}

/// This hart is about to sleep: says until when at most. To be followed by [`wake_up`].
pub fn fall_asleep() -> Option<u64> {
    if !LOOKS.load(Ordering::Relaxed) {
        return None;
    }
    // Armed before the look at when: whoever says so later wakes this hart.
    SLEEPERS.arm(arch::hart());
    Some(DUE_NS.load(Ordering::Relaxed)).filter(|&due_ns| due_ns != NEVER)
}

/// This hart has slept.
pub fn wake_up() {
    if LOOKS.load(Ordering::Relaxed) {
        SLEEPERS.disarm(arch::hart());
        if DUE_NS.load(Ordering::Relaxed) != NEVER {
            with(|line| line.look(clock::now_ns));
        }
    }
}

/// The service node waits for an answer, or is to have one unasked, as something has changed.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Answers the service node, with the state of the links.
pub fn answer() {
    // Who answers sees the links as they are here.
    ASKED.store(true, Ordering::Release);
    with(|_| ());
}

/// Puts the answer in that is due. If there is no room, whoever uses the line next tries again.
fn give_answer(line: &mut Serial<Console>) {
    if !ASKED.load(Ordering::Relaxed) || !line.has_room_for(ANSWER_BYTES) {
        return;
    }
    ASKED.swap(false, Ordering::Acquire);
    let text = Text::new(format_args!("alive down={} lost={}", links::down(), links::lost()));
    line.push(&[&head(FrameKind::Status), text.as_bytes(), &[0]], Worth::Status, clock::now_ns);
}

/// Most bytes of an answer.
const ANSWER_BYTES: usize = 64;

/// Whether this hart ends the node. Never returns if another one does: whatever this hart holds it keeps, so the other is to need
/// none of it.
fn ends_here() -> bool {
    match ENDING.load(Ordering::Relaxed) {
        0 => false,
        ending if ending == arch::hart() + 1 => true,
        _ => arch::park(),
    }
}

/// Keeps the line for so many nanoseconds, for the job that tests reports.
pub fn keep(ns: u64) {
    let until_ns = clock::now_ns().saturating_add(ns);
    with(|_| {
        while clock::now_ns() < until_ns {
            // Seldom: a turn given away each time would have the others' time pass too slowly.
            (0..256).for_each(|_| core::hint::spin_loop());
            arch::relax();
        }
    });
}

/// Whether this hart is the one to end the node, the first time it asks. A second time it is told so; any other
/// hart stops here for good.
pub fn begin_ending() -> Ending {
    // What serves an interrupt would wait for the line, which is this hart's for good.
    arch::mask_interrupts();
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

/// The line, for a hart that ends the node.
pub enum LastWords {
    /// Behind all that waits.
    Line(&'static mut Serial<Console>),
    /// Past it, as whoever had it does not give it back: what waits is lost, so many frames.
    Raw(Console, u32),
    /// There is no console.
    Nowhere,
}

/// The line for a hart that ends the node: waits a second for another hart that has it, which an emulator may keep from running
/// for long, then takes it all the same. Needs no lock that might be held.
pub fn seize() -> LastWords {
    let patience = arch::counter() + arch::counter_hz();
    let guard = loop {
        let guard = LINE.try_lock();
        if guard.is_some() || arch::counter() > patience {
            break guard;
        }
        core::hint::spin_loop();
    };
    // Never given back: nobody else sends from here on.
    if let Some(line) = guard.and_then(|guard| MutexGuard::leak(guard).as_mut()) {
        return LastWords::Line(line);
    }
    let Some(mut console) = board::console() else { return LastWords::Nowhere };
    // Ends a frame that was cut off.
    console.write(&[0]);
    LastWords::Raw(console, FRAMES.load(Ordering::Relaxed))
}

impl LastWords {
    /// Sends a frame, when all that waited before it is sent. `payload` holds no zero byte.
    pub fn send(&mut self, kind: FrameKind, payload: &[u8]) {
        let head = head(kind);
        match self {
            Self::Line(line) => line.say(&[&head, payload, &[0]], clock::now_ns),
            Self::Raw(console, _) => [&head, payload, &[0]].iter().for_each(|part| console.write(part)),
            Self::Nowhere => {}
        }
    }

    /// Waits until all has left the line.
    pub fn flush(&mut self) {
        match self {
            Self::Line(line) => line.uart().flush(),
            Self::Raw(console, _) => console.flush(),
            Self::Nowhere => {}
        }
    }

    /// A byte that came in.
    pub fn read(&mut self) -> Option<u8> {
        match self {
            Self::Line(line) => line.uart().read(),
            Self::Raw(console, _) => console.read(),
            Self::Nowhere => None,
        }
    }

    /// Frames that are lost, as another hart kept the line.
    pub fn lost(&self) -> u32 {
        match *self {
            Self::Raw(_, lost) => lost,
            Self::Line(_) | Self::Nowhere => 0,
        }
    }
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

    /// The same as text; up to where a character was cut off.
    pub fn as_str(&self) -> &str {
        let bytes = self.as_bytes();
        str::from_utf8(bytes)
            .unwrap_or_else(|error| str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""))
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
        FrameKind::Timeline => b'T',
    };
    // A digit, or what is no character: not what a firmware's text might go on with.
    let hart = arch::hart() as u8;
    [kind, if hart < 10 { b'0' + hart } else { 0x80 | hart }]
}

/// Tells the host tool.
pub fn status(arguments: fmt::Arguments<'_>) {
    let text = Text::new(arguments);
    with(|line| line.push(&[&head(FrameKind::Status), text.as_bytes(), &[0]], Worth::Status, clock::now_ns));
}
