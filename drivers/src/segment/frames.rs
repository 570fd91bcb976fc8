//! Bare frames beside packets (SPEC Q-4).

use super::{MOST_PACKET, SegmentAdapter};
use crate::adapter::{Adapter, Frame, Frames};
use rings::packets::Form;

impl<A: Adapter> Frames for SegmentAdapter<A> {
    fn send_frame(&mut self, node: u32, word: u64, data: &'static [u8]) -> bool {
        let data = &data[..data.len().min(MOST_PACKET - 8)];
        let taken = self.push(node, Form::Bare, &[&word.to_le_bytes(), data]);
        self.flush();
        taken
    }

    fn receive_frame(&mut self) -> Option<Frame> {
        loop {
            if self.listens()
                && let Some(said) = self.listen()
            {
                return Some(Frame::Control(said));
            }
            match self.pull() {
                Some((Form::Packet, buffer)) => {
                    self.looks -= 1;
                    // There is room for all.
                    let _ = self.early.push_back(buffer);
                    self.flush();
                }
                Some((Form::Bare, buffer)) => {
                    self.looks -= 1;
                    let node = buffer.source();
                    let word = buffer.packet().split_first_chunk().map(|(word, data)| (*word, data.len()));
                    self.spare.push(buffer.into_memory());
                    self.flush();
                    if let Some((word, len)) = word {
                        return Some(Frame::From { node, word: u64::from_le_bytes(word), len });
                    }
                    self.runts += 1;
                }
                None if self.said_is_next() => return self.take_said().map(Frame::Control),
                None => {
                    self.looks -= u32::from(self.said.is_none());
                    return None;
                }
            }
        }
    }

    fn arm_frames(&mut self, sent: bool) -> bool {
        let (inner, desk) = (self.arm_inner(), self.arm_desk(sent));
        inner || desk || self.said_is_next()
    }
}
