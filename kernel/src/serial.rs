//! The serial line behind its ring: who sends when (SPEC N-12).
//!
//! A frame goes to the ring, and what the UART has room for goes on at once. The rest leaves when the UART interrupts as it has
//! room again; where no interrupt serves, a hart that is idle looks now and then. Who ends the node sends all by polling.

use crate::frame_ring::FrameRing;
use crate::pace::Pace;

/// Bytes that may wait for the line.
pub const RING_BYTES: usize = 16 * 1024;
/// Of these are kept for what the service node is told, whatever is logged.
pub const STATUS_BYTES: usize = 1024;
/// How often an idle hart looks where no interrupt tells: as long as 16 bytes take at 115200 baud.
const LOOK_EVERY_NS: u64 = 1_400_000;

/// What the line needs of a UART.
pub trait SerialPort {
    /// Takes what it has room for of `bytes`, from the front; returns how many.
    fn fill(&mut self, bytes: &[u8]) -> usize;
    /// Whether it has room for a byte or more.
    fn has_room(&mut self) -> bool;
    /// Interrupts from now on while something was received, and when room has come since it was last full; or not.
    fn interrupt_for(&mut self, received: bool, room: bool);
}

/// What a frame is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Worth {
    /// A log line: leaves room for statuses.
    Log,
    /// A status: goes as long as there is room at all.
    Status,
}

/// The line. All of it is called by one hart at a time; `now` tells the node's time in nanoseconds.
pub struct Serial<U> {
    uart: U,
    ring: FrameRing<RING_BYTES>,
    pace: Option<Pace>,
    /// Whether the UART's interrupts reach a hart.
    serves: bool,
    /// Whether they are held back for now.
    held: bool,
    /// Whether room interrupts.
    wants_room: bool,
    /// When a hart is to look, as nothing else tells of room.
    due_ns: Option<u64>,
}

impl<U: SerialPort> Serial<U> {
    /// The line of `uart`, whose interrupts reach nobody yet.
    pub const fn new(uart: U) -> Self {
        let (ring, pace) = (FrameRing::new(), None);
        Self { uart, ring, pace, serves: false, held: false, wants_room: false, due_ns: None }
    }

    /// The UART.
    pub fn uart(&mut self) -> &mut U {
        &mut self.uart
    }

    /// From now on no faster than so many bits a second.
    pub fn slow_down(&mut self, baud: u32) {
        self.pace = Some(Pace::new(baud));
    }

    /// The UART's interrupts reach a hart from now on, or again.
    pub fn listen(&mut self, now: impl Fn() -> u64) {
        (self.serves, self.held) = (true, false);
        if self.wants_room || self.due_ns.is_some() {
            // Room that came meanwhile may have told nobody.
            self.pump(now);
        }
        self.apply();
    }

    /// The UART does not interrupt until the next [`listen`](Self::listen).
    pub fn hold(&mut self) {
        self.held = true;
        self.apply();
    }

    fn apply(&mut self) {
        self.uart.interrupt_for(self.serves && !self.held, self.wants_room && !self.held);
    }

    fn want_room(&mut self, wanted: bool) {
        if self.wants_room != wanted {
            self.wants_room = wanted;
            self.apply();
        }
    }

    /// Puts a frame in, or drops and counts it; sends what there is room for. Returns whether it is in.
    pub fn push(&mut self, parts: &[&[u8]], worth: Worth, now: impl Fn() -> u64) -> bool {
        let spare = if worth == Worth::Log { STATUS_BYTES } else { 0 };
        let is_in = self.ring.push(parts, spare);
        self.look(now);
        is_in
    }

    /// Whether a status of so many bytes would go in.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        RING_BYTES - self.ring.len() >= bytes
    }

    /// Sends what there is room for, unless an interrupt or the time is to tell when there is.
    pub fn look(&mut self, now: impl Fn() -> u64) {
        // The hart that it goes to may take none for long.
        if self.wants_room && self.ring.len() < RING_BYTES / 2 {
            return;
        }
        if let Some(due_ns) = self.due_ns {
            if now() < due_ns {
                return;
            }
            if self.serves {
                // A paced line: it interrupts when all has been sent.
                self.due_ns = None;
                return self.want_room(true);
            }
        }
        self.pump(now);
    }

    /// The UART has interrupted.
    pub fn serve(&mut self, now: impl Fn() -> u64) {
        if self.wants_room {
            self.pump(now);
        }
    }

    /// Sends what there is room for, and sees to it that somebody comes for the rest.
    fn pump(&mut self, now: impl Fn() -> u64) {
        loop {
            // First off, then the look: room that comes behind the look interrupts when it is on again.
            self.want_room(false);
            self.send(&now);
            self.due_ns = None;
            if self.ring.is_empty() {
                return;
            }
            let idle_ns = self.pace.map(|pace| pace.idle_ns());
            if let Some(due_ns) = idle_ns.filter(|&idle_ns| idle_ns > now()) {
                self.due_ns = Some(due_ns);
                return;
            }
            // No pace, or one that the UART itself does not keep up with.
            if !self.serves {
                self.due_ns = Some(now() + LOOK_EVERY_NS);
                return;
            }
            self.want_room(true);
            if self.held || !self.uart.has_room() {
                return;
            }
        }
    }

    fn send(&mut self, now: impl Fn() -> u64) {
        while !self.ring.is_empty() {
            let sent = Self::fill(&mut self.uart, &mut self.pace, self.ring.next(), &now);
            if sent == 0 {
                return;
            }
            self.ring.take(sent);
        }
    }

    fn fill(uart: &mut U, pace: &mut Option<Pace>, bytes: &[u8], now: impl Fn() -> u64) -> usize {
        let Some(pace) = pace else { return uart.fill(bytes) };
        let now = now();
        let sent = uart.fill(&bytes[..bytes.len().min(pace.room(now))]);
        pace.put(sent, now);
        sent
    }

    /// Sends all that waits, then `parts`, by polling; nothing interrupts any more.
    pub fn say(&mut self, parts: &[&[u8]], now: impl Fn() -> u64) {
        (self.serves, self.wants_room) = (false, false);
        self.apply();
        while !self.ring.is_empty() {
            self.send(&now);
            core::hint::spin_loop();
        }
        for mut part in parts.iter().copied() {
            while !part.is_empty() {
                part = &part[Self::fill(&mut self.uart, &mut self.pace, part, &now)..];
                core::hint::spin_loop();
            }
        }
    }

    /// When a hart is to [look](Self::look), if nothing else tells it.
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Counts a frame that was too long to come here.
    pub fn drop_one(&mut self) {
        self.ring.drop_one();
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.ring.len()
    }

    /// Frames that wait, the first perhaps in part.
    pub fn frames(&self) -> u32 {
        self.ring.frames()
    }

    /// Frames that were dropped.
    pub fn dropped(&self) -> u32 {
        self.ring.dropped()
    }
}

#[cfg(test)]
mod tests;
