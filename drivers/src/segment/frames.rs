//! Bare frames beside packets (SPEC Q-4).

use super::{MOST_PACKET, SegmentAdapter};
use crate::adapter::{Adapter, FABRIC, Frame, Frames};
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
            match self.next()? {
                (Form::Packet, said) if said.source() == FABRIC => return Some(Frame::Control(said)),
                (Form::Packet, buffer) => {
                    // There is room for all.
                    let _ = self.early.push_back(buffer);
                    self.flush();
                }
                (Form::Bare, buffer) => {
                    let node = buffer.source();
                    let word = buffer.packet().split_first_chunk().map(|(word, data)| (*word, data.len()));
                    self.spare.push(buffer.into_memory());
                    self.flush();
                    if let Some((word, len)) = word {
                        return Some(Frame::From { node, word: u64::from_le_bytes(word), len });
                    }
                    self.runts += 1;
                }
            }
        }
    }

    fn arm_frames(&mut self, sent: bool) -> bool {
        let (inner, desk) = (self.arm_inner(), self.arm_desk(sent));
        inner || desk || self.said_is_next()
    }
}
