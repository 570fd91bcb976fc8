//! Credits of one class route between a node and its router; both ends keep one of these.

use super::route::WINDOW;

/// Counts of packets, modulo 2^16: what this end sent and the other took, and the reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CreditWindow {
    sent: u16,
    heard: u16,
    arrived: u16,
    taken: u16,
    told: u16,
}

impl CreditWindow {
    /// Nothing was sent yet.
    pub const fn new() -> Self {
        Self { sent: 0, heard: 0, arrived: 0, taken: 0, told: 0 }
    }

    /// Whether the other end has a place for one more packet.
    #[inline]
    pub fn may_send(&self) -> bool {
        self.in_flight() < WINDOW
    }

    /// Packets that this end sent and the other has not taken, as far as is known here.
    #[inline]
    pub fn in_flight(&self) -> u16 {
        self.sent.wrapping_sub(self.heard)
    }

    /// One packet was sent.
    #[inline]
    pub fn send(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// The other end says how many it has taken. False if that cannot be, and then nothing changes.
    #[inline]
    pub fn hear(&mut self, taken: u16) -> bool {
        let possible = taken.wrapping_sub(self.heard) <= self.in_flight();
        if possible {
            self.heard = taken;
        }
        possible
    }

    /// One packet has arrived. False if the other end had no credit for it: it is then not counted, and to be dropped.
    #[inline]
    pub fn arrive(&mut self) -> bool {
        let allowed = self.untaken() < WINDOW;
        self.arrived = self.arrived.wrapping_add(u16::from(allowed));
        allowed
    }

    /// Packets that have arrived and were not taken.
    #[inline]
    pub fn untaken(&self) -> u16 {
        self.arrived.wrapping_sub(self.taken)
    }

    /// All that has arrived was taken but for `left` packets.
    #[inline]
    pub fn take_all_but(&mut self, left: u16) {
        self.taken = self.arrived.wrapping_sub(left);
    }

    /// What to tell the other end with the next packet.
    #[inline]
    pub fn tell(&mut self) -> u16 {
        self.told = self.taken;
        self.taken
    }

    /// Whether so much was taken and not told that the other end is to hear of it without waiting for a packet.
    #[inline]
    pub fn owes(&self) -> bool {
        self.taken.wrapping_sub(self.told) >= WINDOW / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Two ends over a wire that delays, stepped at random: never more than a window is on the way, and it is never
        /// stuck.
        #[test]
        fn d3_a_window_is_never_overrun_and_never_stuck(steps in proptest::collection::vec(0u8..4, 0..3000)) {
            let (mut near, mut far) = (CreditWindow::new(), CreditWindow::new());
            let (mut out, mut back) = (VecDeque::new(), VecDeque::new());
            let mut taken = 0u32;
            for step in steps.into_iter().chain((0..400u16).map(|i| (i % 4) as u8)) {
                match step {
                    0 if near.may_send() => { near.send(); out.push_back(near.tell()); }
                    1 => if let Some(told) = out.pop_front() {
                        prop_assert!(far.hear(told));
                        prop_assert!(far.arrive(), "overrun");
                    },
                    2 if far.untaken() > 0 => {
                        far.take_all_but(far.untaken() - 1);
                        taken += 1;
                        if far.owes() { back.push_back(far.tell()); }
                    }
                    3 => if let Some(told) = back.pop_front() { prop_assert!(near.hear(told)); },
                    _ => {}
                }
                prop_assert!(out.len() + usize::from(far.untaken()) <= usize::from(WINDOW));
            }
            prop_assert!(taken >= 50, "only {} in the last 100 turns and before", taken);
        }

        #[test]
        fn d9_a_count_that_cannot_be_changes_nothing(sent in 0u16..=8, told: u16) {
            let mut window = CreditWindow::new();
            for _ in 0..sent {
                window.send();
            }
            prop_assert_eq!(window.hear(told), told <= sent);
            prop_assert!(window.in_flight() <= sent);
        }
    }

    #[test]
    fn d9_packets_without_credit_are_not_counted() {
        let mut window = CreditWindow::new();
        assert_eq!((0..20).filter(|_| window.arrive()).count(), usize::from(WINDOW));
        window.take_all_but(WINDOW - 1);
        assert!(window.arrive() && !window.arrive());
    }
}
