//! What a context has to do with the sleep of its hart (SPEC N-8).

use super::{Active, Due};
use crate::adaptive_spin::AdaptiveSpin;
use crate::device::Port;

impl<P: Port> Active<P> {
    /// Has waits poll so many rounds at most before they sleep; with 0 they sleep as soon as there is nothing to do, and
    /// what arrives interrupts that. Waits on several contexts go by the first.
    pub fn set_polls(&mut self, most: u32) {
        self.spin = AdaptiveSpin::of_at_most(most);
    }

    /// Rounds to poll before the next sleep.
    pub(crate) fn polls(&self) -> u32 {
        self.spin.rounds()
    }

    /// The hart found nothing to do in this time.
    pub(crate) fn note_idle(&mut self, from: u64, until: u64) {
        self.port.note_idle(from, until);
    }

    /// Sleeps until something comes, or until `deadline`; every context of the hart is armed.
    pub(crate) fn sleep(&mut self, deadline: Option<u64>) {
        let start = self.now_ns();
        self.port.sleep(deadline);
        self.spin.learn(self.now_ns().saturating_sub(start));
    }

    /// The hart was woken: anything may have come, and time has passed.
    pub(crate) fn note_woken(&mut self) {
        if self.due.is_look() {
            self.due = Due::ALL;
        }
        self.forget_awaited();
        self.acks.end_pauses();
        self.questions.end_pause();
    }
}
