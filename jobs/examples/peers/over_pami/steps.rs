//! Calls whose instructions are counted from outside.

use super::super::mark::{self, EMPTY, NOT_THIS, NOTHING, PROGRESS, PUT, SEND, marked, that_was};
use super::{PING, Side, WORD};
use core::sync::atomic::Ordering::Relaxed;
use kernel::JobError;

impl Side {
    /// Marks them; the other task answers.
    pub(super) fn steps(&mut self) -> Result<(), JobError> {
        let (state, other, region) = (self.state, self.other, self.their_window()?);
        let data = &self.numbers[..WORD];
        mark::await_stepper(self.task)?;
        for _ in 0..mark::CALLS {
            let before = state.pongs.load(Relaxed);
            let sent = marked(|| self.context.send_immediate(other, PING, &[], data));
            that_was(if sent.is_ok() { SEND } else { NOT_THIS });
            if sent.is_err() {
                self.give(PING, WORD)?;
            }
            mark::pause_for_a_message(self.task);
            let early = state.pongs.load(Relaxed) != before;
            marked(|| self.context.advance());
            let came = state.pongs.load(Relaxed) != before;
            that_was(if came && !early { PROGRESS } else { NOT_THIS });
            self.await_pong(before.wrapping_add(1));
            for _ in 0..10 {
                self.context.advance();
            }
            let moved = marked(|| self.context.advance());
            that_was(if moved == 0 { EMPTY } else { NOT_THIS });
            let put = self.next_put(region);
            let done = state.done.load(Relaxed).wrapping_add(1);
            let put = marked(|| self.context.put(put()));
            that_was(if put.is_ok() { PUT } else { NOT_THIS });
            if put.is_ok() {
                self.context.wait(|_| state.done.load(Relaxed) == done);
            }
            marked(|| ());
            that_was(NOTHING);
        }
        mark::over();
        Ok(())
    }
}
