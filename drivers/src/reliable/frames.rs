//! Frames that nothing here mends.

use super::{Core, Reliable};
use crate::adapter::{Adapter, FABRIC, Frame, Frames, Lent};
use crate::link::LINK_BYTES;

/// First bytes of such a frame: no link header has them, but by a chance of one in 2^64.
const MARK: [u8; 8] = *b"no link:";

impl<A: Adapter, C: Core> Frames for Reliable<A, C> {
    fn send_frame(&mut self, node: u32, word: u64, data: &'static [u8]) -> bool {
        self.take_back();
        let Some(spare) = self.spares.checked_sub(1).filter(|_| self.inner.has_room()) else { return false };
        let mut front = [0; LINK_BYTES];
        front[..8].copy_from_slice(&MARK);
        front[8..16].copy_from_slice(&word.to_le_bytes());
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
            let Some((word, len)) = read(buffer.packet()) else {
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

/// The word of such a frame, and how many bytes of data it has.
fn read(frame: &[u8]) -> Option<(u64, usize)> {
    let (front, data) = frame.split_first_chunk::<LINK_BYTES>()?;
    let (word, _) = front.strip_prefix(&MARK)?.split_first_chunk()?;
    Some((u64::from_le_bytes(*word), data.len()))
}
