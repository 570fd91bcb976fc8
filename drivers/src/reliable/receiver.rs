//! What a node knows of one peer's packets to it.

use super::credit::WINDOW;
use crate::adapter::RxBuffer;
use crate::link::Seq;

/// Packets after which an acknowledgement waits no longer: a quarter of the window, so that the peer need not stop.
const ACK_EVERY: u32 = WINDOW / 4;
/// How long an acknowledgement waits for a packet to travel with.
pub(super) const ACK_DELAY_NS: u64 = 500_000;

/// What to do with a packet.
pub(super) enum Verdict {
    /// It is kept until its turn.
    Kept {
        /// Whether that is now.
        in_order: bool,
    },
    /// It has arrived before.
    Duplicate(RxBuffer),
    /// The peer had no leave to send it.
    Beyond(RxBuffer),
}

/// `expected` is the next packet for the message unit, `limit` the first that the peer may not send.
pub(super) struct Receiver {
    expected: Seq,
    limit: Seq,
    /// By number modulo [`WINDOW`].
    held: [Option<RxBuffer>; WINDOW as usize],
    /// Bit `i`: packet `expected + i` is held.
    present: u64,
    /// Buffers that the message unit has.
    lent: u32,
    /// Packets that arrived since the peer was told of any, and since when.
    unacked: u32,
    unacked_since: u64,
    /// The peer should hear at once.
    ack_now: bool,
    /// Packet `expected` was not taken: it will be void.
    refused: bool,
    /// The peer has packets aside that were not.
    put_off: bool,
    /// It asks for credit.
    asks: bool,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self {
            expected: Seq::FIRST,
            limit: Seq::FIRST,
            held: [const { None }; WINDOW as usize],
            present: 0,
            lent: 0,
            unacked: 0,
            unacked_since: 0,
            ack_now: false,
            refused: false,
            put_off: false,
            asks: false,
        }
    }

    /// Whether all that came was delivered and given back.
    pub(super) fn is_idle(&self) -> bool {
        self.present == 0 && self.lent == 0 && !self.refused
    }

    /// Packets that the peer may send and that were not given to the message unit.
    #[inline]
    pub(super) fn promised(&self) -> u32 {
        self.limit.since(self.expected)
    }

    /// Lets the peer send `count` more; then `promised` is at most [`WINDOW`].
    #[inline]
    pub(super) fn promise(&mut self, count: u32) {
        self.limit = self.limit.plus(count);
    }

    /// The first packet that was not taken, which of those behind it have arrived, and how many from it on may come. While it
    /// has arrived itself, and may still be refused, nothing is said of those behind it: it would seem lost.
    #[inline]
    pub(super) fn says(&self) -> (Seq, u64, u8) {
        let sack = if self.is_ready() { 0 } else { self.present >> 1 };
        (self.expected, sack, self.promised() as u8)
    }

    /// Takes a packet in.
    #[inline(always)]
    pub(super) fn accept(&mut self, seq: Seq, buffer: RxBuffer) -> Verdict {
        let ahead = seq.since(self.expected);
        if seq.is_before(self.expected) {
            return Verdict::Duplicate(buffer);
        }
        // Promises are never over the window, so the place is this packet's.
        if ahead >= self.promised().min(WINDOW) {
            return Verdict::Beyond(buffer);
        }
        if self.present & 1 << ahead != 0 || (self.refused && ahead == 0) {
            return Verdict::Duplicate(buffer);
        }
        self.held[(seq.number() % WINDOW) as usize] = Some(buffer);
        self.present |= 1 << ahead;
        // Who sends again wants to hear at once that a gap is filled, and who sees a gap, that there is one.
        self.ack_now |= self.present != 1;
        Verdict::Kept { in_order: ahead == 0 }
    }

    /// Whether a packet's turn has come.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.present & 1 != 0
    }

    /// The next packet in order, for the message unit, behind the voids in front of it.
    #[inline]
    pub(super) fn deliver(&mut self) -> Option<RxBuffer> {
        while self.is_ready() {
            let buffer = self.held[(self.expected.number() % WINDOW) as usize].take();
            self.present >>= 1;
            self.expected = self.expected.plus(1);
            self.refused = false;
            if buffer.is_some() {
                self.lent += 1;
                return buffer;
            }
        }
        None
    }

    /// The packet that was delivered last is not taken: it comes as a void, and may come again later by another number.
    pub(super) fn refuse(&mut self) {
        self.expected = self.expected.minus_one();
        self.present <<= 1;
        self.lent -= 1;
        (self.refused, self.put_off, self.ack_now) = (true, true, true);
    }

    /// Takes in that packet `seq` is void, and with bit `i` of `behind` the one `i + 1` behind it. Those that came as packets
    /// are given to `drop`. False if there is no leave for them.
    pub(super) fn accept_voids(&mut self, seq: Seq, behind: u64, mut drop: impl FnMut(RxBuffer)) -> bool {
        let voids = u128::from(behind) << 1 | 1;
        for at in (0..128 - voids.leading_zeros()).filter(|at| voids >> at & 1 != 0) {
            let seq = seq.plus(at);
            if seq.is_before(self.expected) {
                continue;
            }
            let ahead = seq.since(self.expected);
            if ahead >= self.promised().min(WINDOW) {
                return false;
            }
            self.present |= 1 << ahead;
            if let Some(packet) = self.held[(seq.number() % WINDOW) as usize].take() {
                drop(packet);
            }
        }
        true
    }

    /// Whether it may have the buffers that are spared.
    #[inline]
    pub(super) fn gets_all(&self) -> bool {
        self.asks || self.put_off || self.refused
    }

    /// Whether what the peer hears is that packet `expected` was not taken.
    #[inline]
    pub(super) fn has_refused(&self) -> bool {
        self.refused && self.present & 1 == 0
    }

    /// Buffers that the message unit has.
    #[inline]
    pub(super) fn lent(&self) -> u32 {
        self.lent
    }

    /// The message unit gave a buffer back.
    #[inline]
    pub(super) fn given_back(&mut self) {
        self.lent = self.lent.saturating_sub(1);
    }

    /// The peer asks for credit.
    pub(super) fn asked(&mut self) {
        (self.ack_now, self.asks) = (true, true);
    }

    /// Whether the peer still has packets aside that were not taken.
    pub(super) fn note_put_off(&mut self, still: bool) {
        self.put_off = still;
    }

    /// The peer is to hear at once.
    #[inline]
    pub(super) fn ack_at_once(&mut self) {
        self.ack_now = true;
    }

    /// One packet more to tell the peer of.
    #[inline]
    pub(super) fn ack_later(&mut self, now: u64) {
        if self.unacked == 0 {
            self.unacked_since = now;
        }
        self.unacked += 1;
    }

    /// When the peer should hear; `u64::MAX` if there is nothing to tell.
    #[inline]
    pub(super) fn due_at(&self) -> u64 {
        let enough = ACK_EVERY.min(self.promised()).max(1);
        if self.ack_now || self.unacked >= enough {
            0
        } else if self.unacked > 0 {
            self.unacked_since + ACK_DELAY_NS
        } else {
            u64::MAX
        }
    }

    /// The peer was told.
    #[inline]
    pub(super) fn told(&mut self) {
        (self.unacked, self.ack_now, self.asks) = (0, false, false);
    }

    /// A packet that was held and will never be delivered, and no more come.
    pub(super) fn give_up(&mut self) -> Option<RxBuffer> {
        self.limit = self.expected;
        self.present = 0;
        self.held.iter_mut().find_map(Option::take)
    }
}
