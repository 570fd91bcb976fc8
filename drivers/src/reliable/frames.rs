//! Frames that nothing here mends.

use super::{Core, Reliable};
use crate::adapter::{Adapter, FABRIC, Frame, Frames, Lent};
use crate::link::bare;

impl<A: Adapter, C: Core> Frames for Reliable<A, C> {
    fn send_frame(&mut self, node: u32, word: u64, data: &'static [u8]) -> bool {
        self.take_back();
        let Some(spare) = self.spares.checked_sub(1).filter(|_| self.inner.has_room()) else { return false };
        let front = bare::front(word);
        let lent = [Lent::new(data), Lent::NONE];
        // SAFETY: what is lent never changes, and the cookie is this layer's own and free.
        let taken = unsafe { self.inner.transmit(node, &front, &[], lent, self.spare[spare]) };
        if taken {
            self.spares = spare;
            self.inner.flush();
        }
        taken
    }

    fn receive_frame(&mut self) -> Option<Frame> {
        loop {
            let buffer = self.inner.receive()?;
            if buffer.source() == FABRIC {
                return Some(Frame::Control(buffer));
            }
            let Some((word, len)) = bare::read(buffer.packet()) else {
                self.take_in(buffer);
                continue;
            };
            let node = buffer.source();
            self.inner.recycle(buffer);
            self.inner.flush();
            return Some(Frame::From { node, word, len });
        }
    }

    fn arm_frames(&mut self, sent: bool) -> bool {
        self.inner.arm(sent)
    }
}
