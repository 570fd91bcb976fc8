//! What a node knows of its packets to one peer.

use super::credit::WINDOW;
use super::flights::{Flights, Trip};
use super::rto::Rto;
use crate::adapter::Outcome;
use crate::link::{Link, Seq};

/// No packet, in a window.
const NONE: u16 = u16::MAX;
/// A void: what had the number is aside.
const VOID: u16 = u16::MAX - 1;
/// Later packets that must have arrived for a gap to mean a loss rather than another order on the way.
const REORDERED: u32 = 3;

/// What has a number in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// The packet with this cookie.
    Packet(u16),
    /// Nothing.
    Void,
}

/// An acknowledgement of packets that were never sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bogus;

/// `oldest..unsent` are on the way, `unsent..next` wait for credit, and `limit` is the first that may not be sent.
pub(super) struct Sender {
    oldest: Seq,
    unsent: Seq,
    next: Seq,
    limit: Seq,
    /// Cookies by number modulo [`WINDOW`].
    window: [u16; WINDOW as usize],
    /// Packets of the peer's that are aside.
    aside: u32,
    /// The first on the way is a void, and the peer is to hear so.
    void_due: bool,
    rto: Rto,
    /// Timeouts since the peer last took something.
    backoff: u32,
    /// The handshake waits for an answer.
    asks: bool,
    /// The peer goes on with the connection, and is asked for release again later.
    rests: bool,
    /// When to do something if nothing is heard; `u64::MAX` if nothing waits.
    timer: u64,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Progress {
    /// Packets that are known to have arrived now.
    pub(super) arrived: u32,
    /// Packets can be sent: there is credit for them, or they were lost.
    pub(super) to_send: bool,
    /// There is room in the window, or credit.
    pub(super) room: bool,
}

impl Sender {
    /// One that has no credit and asks for the connection, of whose peer so much is guessed.
    pub(super) fn new(rto: Rto) -> Self {
        Self {
            oldest: Seq::FIRST,
            unsent: Seq::FIRST,
            next: Seq::FIRST,
            limit: Seq::FIRST,
            window: [NONE; WINDOW as usize],
            aside: 0,
            void_due: false,
            rto,
            backoff: 0,
            asks: false,
            rests: false,
            timer: u64::MAX,
        }
    }

    /// How long the peer takes to answer.
    pub(super) fn rto(&self) -> Rto {
        self.rto
    }

    /// The handshake waits for an answer from now on.
    pub(super) fn ask(&mut self, now: u64) {
        (self.backoff, self.asks) = (0, true);
        self.restart_timer(now);
    }

    /// The handshake has its answer.
    pub(super) fn answered(&mut self, now: u64) {
        if core::mem::take(&mut self.asks) {
            self.backoff = 0;
            self.restart_timer(now);
        }
    }

    /// The number of the next packet.
    #[inline]
    pub(super) fn next(&self) -> Seq {
        self.next
    }

    /// Packets that the peer has not acknowledged in order.
    #[inline]
    pub(super) fn outstanding(&self) -> u32 {
        self.next.since(self.oldest)
    }

    /// Whether one more packet can be queued, if there are `spare` cookies that nobody else needs. Peers that take
    /// nothing must not hold all: at most one packet waits for credit, and who has some on the way gets no more than
    /// are spare.
    #[inline]
    pub(super) fn has_room(&self, spare: u32) -> bool {
        let outstanding = self.outstanding();
        self.unsent == self.next && ((outstanding == 0 && self.aside == 0) || outstanding < WINDOW.min(spare))
    }

    #[inline]
    fn slot(&mut self, seq: Seq) -> &mut u16 {
        &mut self.window[(seq.number() % WINDOW) as usize]
    }

    /// Queues a packet; there is room.
    #[inline]
    pub(super) fn queue(&mut self, cookie: u16) {
        let seq = self.next;
        *self.slot(seq) = cookie;
        self.next = seq.plus(1);
    }

    #[inline]
    fn content(&mut self, seq: Seq) -> Content {
        match *self.slot(seq) {
            VOID => Content::Void,
            cookie => Content::Packet(cookie),
        }
    }

    /// The next packet that may be sent and was not.
    #[inline]
    pub(super) fn sendable(&mut self) -> Option<(Seq, Content)> {
        let seq = self.unsent;
        (seq != self.next && seq.is_before(self.limit)).then(|| (seq, self.content(seq)))
    }

    /// The packet from [`sendable`](Self::sendable) was sent.
    #[inline]
    pub(super) fn sent(&mut self) {
        self.unsent = self.unsent.plus(1);
    }

    /// The `step`-th of the packets on the way. `None` beyond the last.
    #[inline]
    pub(super) fn on_the_way(&mut self, step: u32) -> Option<(Seq, Content)> {
        let seq = self.oldest.plus(step);
        (step < self.unsent.since(self.oldest)).then(|| (seq, self.content(seq)))
    }

    /// Which of the packets on the way behind void `seq` are voids too: bit `i` means the one `i + 1` behind it.
    pub(super) fn voids_behind(&mut self, seq: Seq) -> u64 {
        let behind = if seq.is_before(self.unsent) { self.unsent.since(seq) } else { 0 };
        (1..behind.min(WINDOW))
            .filter(|&at| *self.slot(seq.plus(at)) == VOID)
            .fold(0, |bits, at| bits | 1 << (at - 1))
    }

    /// The receiver of packet `seq` is not ready. What `is_for_it` picks of the window is given to `put_aside`, in order, and
    /// leaves voids.
    pub(super) fn refused(
        &mut self,
        seq: Seq,
        mut is_for_it: impl FnMut(u16) -> bool,
        mut put_aside: impl FnMut(u16),
    ) {
        if seq != self.oldest || self.oldest == self.unsent {
            return;
        }
        // It may not have heard yet.
        self.void_due = true;
        if *self.slot(seq) == VOID {
            return;
        }
        for at in 0..self.next.since(seq) {
            let slot = self.slot(seq.plus(at));
            if *slot != VOID && is_for_it(*slot) {
                put_aside(core::mem::replace(slot, VOID));
                self.aside += 1;
            }
        }
    }

    /// Whether packets of the peer's are aside.
    #[inline]
    pub(super) fn has_aside(&self) -> bool {
        self.aside > 0
    }

    /// A packet that was aside is to be queued again.
    pub(super) fn take_from_aside(&mut self) {
        self.aside -= 1;
    }

    /// The number of the void that the peer is to hear of: the first on the way.
    #[inline]
    pub(super) fn take_due_void(&mut self) -> Option<Seq> {
        let due = core::mem::take(&mut self.void_due);
        self.on_the_way(0).filter(|&(_, content)| due && content == Content::Void).map(|(seq, _)| seq)
    }

    /// That void could not be told.
    pub(super) fn keep_due_void(&mut self) {
        self.void_due = true;
    }

    /// When to do something if nothing is heard; `u64::MAX` if nothing waits.
    #[inline]
    pub(super) fn timer(&self) -> u64 {
        self.timer
    }

    /// Starts the timer, unless it runs. Returns when it ends.
    #[inline]
    pub(super) fn start_timer(&mut self, now: u64) -> u64 {
        if self.timer == u64::MAX || self.rests {
            self.restart_timer(now);
        }
        self.timer
    }

    /// Starts the timer anew if anything waits for it.
    #[inline]
    fn restart_timer(&mut self, now: u64) {
        self.rests = false;
        let waits = self.outstanding() > 0 || self.asks;
        self.timer = if waits { now + self.rto.timeout(self.backoff) } else { u64::MAX };
    }

    /// The timer ended; it starts anew and runs longer.
    pub(super) fn timed_out(&mut self, now: u64) {
        self.backoff = (self.backoff + 1).min(16);
        self.restart_timer(now);
    }

    /// The peer refused `times` releases: the next waits a while. Returns until when.
    pub(super) fn rest(&mut self, now: u64, times: u32) -> u64 {
        self.answered(now);
        if self.timer == u64::MAX {
            (self.rests, self.timer) = (true, now + self.rto.timeout(times));
        }
        self.timer
    }

    pub(super) fn is_resting(&self) -> bool {
        self.rests
    }

    /// Whether the peer lets itself be waited for.
    #[inline]
    pub(super) fn is_late(&self) -> bool {
        self.backoff > 0
    }

    /// How many packets to send again after so many timeouts: few, if it does not help.
    pub(super) fn burst(&self) -> u32 {
        (8 >> self.backoff.min(3)).max(1)
    }

    /// Takes in what the peer says has arrived.
    ///
    /// # Errors
    /// [`Bogus`]; nothing changed.
    #[inline(always)]
    pub(super) fn acknowledge(
        &mut self,
        link: &Link,
        flights: &mut Flights,
        now: u64,
    ) -> Result<Progress, Bogus> {
        let mut progress = Progress::default();
        let on_the_way = self.unsent.since(self.oldest);
        let taken = link.acknowledged.since(self.oldest);
        if taken > on_the_way {
            // Overtaken by a later one, or a lie.
            return if link.acknowledged.is_before(self.oldest) { Ok(progress) } else { Err(Bogus) };
        }
        let mut measured = None;
        for _ in 0..taken {
            let seq = self.oldest;
            self.note_arrived(seq, flights, now, &mut progress, &mut measured);
            flights.resolve(core::mem::replace(self.slot(seq), NONE), Outcome::Sent);
            self.oldest = seq.plus(1);
        }
        // Without any behind a gap there is none.
        let mut later = if link.sack == 0 { 0 } else { link.sack.count_ones() };
        let steps = if later == 0 { 0 } else { on_the_way - taken };
        for step in 0..steps {
            let seq = self.oldest.plus(step);
            if step > 0 && link.sack & 1 << (step - 1) != 0 {
                later -= 1;
                self.note_arrived(seq, flights, now, &mut progress, &mut measured);
            } else if later >= REORDERED
                && let Some(flight) = flights.get(*self.slot(seq))
            {
                progress.to_send |= flight.note_gap();
            }
        }
        if let Some(ns) = measured {
            self.rto.measured(ns);
        }
        let limit = link.acknowledged.plus(u32::from(link.credit).min(WINDOW));
        if self.limit.is_before(limit) {
            self.limit = limit;
            progress.room = true;
            progress.to_send |= self.sendable().is_some();
        }
        if taken > 0 || progress.arrived > 0 || (progress.room && self.oldest == self.unsent) {
            self.backoff = 0;
            self.restart_timer(now);
        }
        progress.room |= taken > 0;
        Ok(progress)
    }

    /// Packet `seq` arrived. Until all before it have, it may still have to be sent anew.
    #[inline]
    fn note_arrived(
        &mut self,
        seq: Seq,
        flights: &mut Flights,
        now: u64,
        progress: &mut Progress,
        measured: &mut Option<u64>,
    ) {
        let Some(trip) = flights.get(*self.slot(seq)).and_then(|flight| flight.note_arrived(now)) else {
            return;
        };
        *measured = Some(match trip {
            Trip::Of(ns) => ns,
            Trip::AtMost(ns) => self.rto.at_most(ns),
        });
        progress.arrived += 1;
    }

    /// Gives all packets up. Returns how many were outstanding.
    pub(super) fn give_up(&mut self, flights: &mut Flights) -> u32 {
        let outstanding = self.outstanding();
        while self.oldest != self.next {
            let seq = self.oldest;
            let cookie = core::mem::replace(self.slot(seq), NONE);
            flights.resolve(cookie, Outcome::Failed);
            self.oldest = seq.plus(1);
        }
        self.unsent = self.next;
        (self.asks, self.rests, self.timer) = (false, false, u64::MAX);
        (self.aside, self.void_due) = (0, false);
        outstanding
    }
}
