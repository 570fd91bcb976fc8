//! The packets in flight, by cookie: what it takes to send each again.

use crate::adapter::{FRONT_BYTES, HEAD_BYTES, IN_FLIGHT, Lent, Outcome, copy_front};
use crate::link::LINK_BYTES;
use alloc::boxed::Box;

/// Room for a link header, then a packet's header and inline data.
#[repr(C, align(64))]
struct HeaderCopy([u8; FRONT_BYTES]);

/// A packet that was taken from the message unit and not given back.
pub(super) struct Flight {
    front: HeaderCopy,
    head_len: u8,
    lent: [Lent; 2],
    /// When it was first given to the device.
    first_sent: u64,
    /// How often it was; more than 200 are not told apart.
    sends: u8,
    /// A gap in what arrived says that it was lost.
    lost: bool,
    /// The peer has it, but not all before it.
    arrived: bool,
    in_device: bool,
    outcome: Option<Outcome>,
}

// SAFETY: nothing is read through `lent` here; whoever does owes the reason why it may.
unsafe impl Send for Flight {}

impl Flight {
    const NONE: Self = Self {
        front: HeaderCopy([0; FRONT_BYTES]),
        head_len: 0,
        lent: [Lent::NONE; 2],
        first_sent: 0,
        sends: 0,
        lost: false,
        arrived: false,
        in_device: false,
        outcome: None,
    };

    /// As if it had never been sent, with `head_len` bytes of header and inline data.
    #[inline]
    fn renew(&mut self, head_len: usize, lent: [Lent; 2]) {
        self.head_len = head_len as u8;
        self.lent = lent;
        (self.sends, self.lost, self.arrived, self.in_device) = (0, false, false, false);
        self.outcome = None;
    }

    /// The packet's header and inline data.
    pub(super) fn head(&self) -> &[u8] {
        self.split_front().1
    }

    /// The same behind room for a link header, whose content is that of the last time.
    #[inline]
    pub(super) fn front(&mut self) -> &mut [u8] {
        self.front.0.get_mut(..LINK_BYTES + usize::from(self.head_len)).unwrap_or_default()
    }

    /// The link header that is in front, and the packet's header and inline data.
    #[inline]
    pub(super) fn split_front(&self) -> (&[u8; LINK_BYTES], &[u8]) {
        let (link, head) = self.front.0.split_first_chunk().unwrap_or((&[0; LINK_BYTES], &[]));
        (link, head.get(..usize::from(self.head_len)).unwrap_or(&[]))
    }

    /// The rest of the packet.
    #[inline]
    pub(super) fn lent(&self) -> [Lent; 2] {
        self.lent
    }

    /// Bytes of the packet.
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.head_len) + self.lent[0].len + self.lent[1].len
    }

    /// Whether the device still has it, from the last time it was sent.
    pub(super) fn in_device(&self) -> bool {
        self.in_device
    }

    /// It was given to the device.
    #[inline]
    pub(super) fn sent(&mut self, now: u64) {
        if self.sends == 0 {
            self.first_sent = now;
        }
        self.sends = self.sends.saturating_add(1);
        (self.lost, self.in_device) = (false, true);
    }

    /// Later packets have arrived without it. Returns whether that says that it was lost: not if it was sent again since.
    #[inline]
    pub(super) fn note_gap(&mut self) -> bool {
        let lost = self.sends == 1 && !self.arrived;
        self.lost |= lost;
        lost
    }

    /// Whether it is known to be lost.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// The peer has it. Returns how long it took, if this is news.
    #[inline]
    pub(super) fn note_arrived(&mut self, now: u64) -> Option<Trip> {
        if self.arrived {
            return None;
        }
        (self.arrived, self.lost) = (true, false);
        let ns = now.saturating_sub(self.first_sent);
        Some(if self.sends == 1 { Trip::Of(ns) } else { Trip::AtMost(ns) })
    }

    /// Whether it may be sent again, if `which` says so. Otherwise it does not count as lost: what has arrived is not, nor is
    /// what the device has not sent yet.
    #[inline]
    pub(super) fn may_go_again(&mut self, which: impl Fn(&Self) -> bool) -> bool {
        let may = !self.arrived && which(self) && !self.in_device;
        self.lost &= may;
        may
    }
}

/// Nanoseconds from a packet's first leaving to the answer.
pub(super) enum Trip {
    /// It was sent once.
    Of(u64),
    /// It was sent more often, and nobody knows which the peer has.
    AtMost(u64),
}

/// All packets in flight.
pub(super) struct Flights {
    by_cookie: Box<[Flight]>,
    /// The first `done` are cookies to give back.
    finished: Box<[u16]>,
    done: usize,
    /// Packets that are here.
    count: usize,
    /// Packets whose end is known but which the device still has.
    waiting: usize,
}

impl Flights {
    /// None. Allocates.
    pub(super) fn new() -> Self {
        Self {
            by_cookie: (0..IN_FLIGHT).map(|_| Flight::NONE).collect(),
            finished: (0..IN_FLIGHT).map(|_| 0).collect(),
            done: 0,
            count: 0,
            waiting: 0,
        }
    }

    #[inline]
    pub(super) fn get(&mut self, cookie: u16) -> Option<&mut Flight> {
        self.by_cookie.get_mut(usize::from(cookie))
    }

    /// Keeps a packet. False if its head is too long, or the cookie is none.
    #[inline]
    pub(super) fn keep(&mut self, cookie: u16, header: &[u8], inline: &[u8], lent: [Lent; 2]) -> bool {
        let len = header.len() + inline.len();
        let Some(flight) = self.by_cookie.get_mut(usize::from(cookie)).filter(|_| len <= HEAD_BYTES) else {
            return false;
        };
        flight.renew(len, lent);
        copy_front(&mut flight.front.0[LINK_BYTES..], header, inline);
        self.count += 1;
        true
    }

    /// A packet that needs no care went to the device.
    pub(super) fn note_unkept(&mut self, cookie: u16) {
        if let Some(flight) = self.get(cookie) {
            flight.renew(0, [Lent::NONE; 2]);
            (flight.in_device, flight.outcome) = (true, Some(Outcome::Sent));
            self.waiting += 1;
            self.count += 1;
        }
    }

    /// The packet is to be sent once more, as if it never had been.
    pub(super) fn put_aside(&mut self, cookie: u16) {
        if let Some(flight) = self.get(cookie) {
            (flight.sends, flight.lost, flight.arrived) = (0, false, false);
        }
    }

    /// The device is done with the packet.
    #[inline]
    pub(super) fn returned(&mut self, cookie: u16) {
        let Some(flight) = self.get(cookie) else { return };
        flight.in_device = false;
        if flight.outcome.is_some() {
            self.waiting -= 1;
            self.finish(cookie);
        }
    }

    /// It is known what became of the packet. It goes back once the device does not read it either.
    #[inline]
    pub(super) fn resolve(&mut self, cookie: u16, outcome: Outcome) {
        let Some(flight) = self.get(cookie) else { return };
        flight.outcome = Some(outcome);
        if flight.in_device {
            self.waiting += 1;
        } else {
            self.finish(cookie);
        }
    }

    fn finish(&mut self, cookie: u16) {
        if let Some(place) = self.finished.get_mut(self.done) {
            *place = cookie;
            self.done += 1;
        }
    }

    /// Cookies that are not here.
    #[inline]
    pub(super) fn free(&self) -> u32 {
        IN_FLIGHT.saturating_sub(self.count) as u32
    }

    /// Whether only the device keeps some packet from going back.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether [`take_done`](Self::take_done) has something.
    #[inline]
    pub(super) fn has_done(&self) -> bool {
        self.done > 0
    }

    /// A packet to give back.
    #[inline]
    pub(super) fn take_done(&mut self) -> Option<(u16, Outcome)> {
        self.done = self.done.checked_sub(1)?;
        let cookie = *self.finished.get(self.done)?;
        let outcome = self.get(cookie)?.outcome.take()?;
        self.count = self.count.saturating_sub(1);
        Some((cookie, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d8_a_packet_goes_back_when_its_end_is_known_and_the_device_has_done_with_it() {
        let mut flights = Flights::new();
        let all = flights.free();
        assert!(!flights.keep(0, &[0; HEAD_BYTES], &[0], [Lent::NONE; 2]));
        assert!(!flights.keep(IN_FLIGHT as u16, &[], &[], [Lent::NONE; 2]));
        assert!(flights.keep(0, &[1; HEAD_BYTES - 1], &[2], [Lent::NONE; 2]));
        assert!(flights.keep(1, &[], &[], [Lent::NONE; 2]));
        assert_eq!((flights.get(0).unwrap().len(), flights.free()), (HEAD_BYTES, all - 2));
        let state = |flights: &Flights| (flights.is_waiting(), flights.has_done());
        // The device has them, and nobody knows whether they came.
        (0..2).for_each(|cookie| flights.get(cookie).unwrap().sent(5));
        assert_eq!(state(&flights), (false, false));
        // One is acknowledged before the device gave it back, the other after.
        flights.resolve(0, Outcome::Sent);
        assert_eq!(state(&flights), (true, false));
        flights.returned(1);
        assert_eq!(state(&flights), (true, false));
        flights.returned(0);
        assert_eq!((state(&flights), flights.take_done()), ((false, true), Some((0, Outcome::Sent))));
        flights.resolve(1, Outcome::Failed);
        assert_eq!((state(&flights), flights.take_done()), ((false, true), Some((1, Outcome::Failed))));
        assert_eq!((state(&flights), flights.take_done(), flights.free()), ((false, false), None, all));
        // What needs no care goes back when the device has done with it.
        flights.note_unkept(2);
        assert_eq!((state(&flights), flights.free()), ((true, false), all - 1));
        flights.returned(2);
        assert_eq!((state(&flights), flights.take_done()), ((false, true), Some((2, Outcome::Sent))));
        assert_eq!(flights.free(), all);
    }
}
