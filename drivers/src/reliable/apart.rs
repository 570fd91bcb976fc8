//! What nodes say to each other outside of all connections: how they come together on a plain Ethernet (SPEC R-7).
//!
//! Such a packet is sealed as all are, and no more: it may get lost, or come twice, late or from a node of another shape of the job. Whoever
//! says it says it again. So it needs no place at its target, and nothing of it is kept, however many nodes there are. It goes to all that
//! play a rank: one may be known by its address, and another be meant.

use super::handshake::{Number, Word, Words};
use super::outgoing::link_of;
use super::{Core, Reliable};
use crate::adapter::{APART, Adapter, FRONT_BYTES, RxBuffer};
use crate::link::{Flags, LINK_BYTES, Link};
use pami::packet::Packet;

impl<A: Adapter, C: Core> Reliable<A, C> {
    /// As [`ReliableAdapter::say`](crate::adapter::ReliableAdapter::say).
    #[cold]
    pub(super) fn say_apart(&mut self, node: u32, [header, data]: [&[u8]; 2]) -> bool {
        self.take_back();
        let len = header.len() + data.len();
        let Some(spare) = self.spares.checked_sub(1).filter(|_| self.inner.has_room()) else { return false };
        let mut space = [0; FRONT_BYTES];
        let Some(frame) = space.get_mut(..LINK_BYTES + len) else { return false };
        let (front, rest) = frame[LINK_BYTES..].split_at_mut(header.len());
        front.copy_from_slice(header);
        rest.copy_from_slice(data);
        let nobody = Words { word: Word::Plain, to: Number::NONE, own: Number::NONE, attempt: 0 };
        let link = Link { length: len as u16, flags: Flags::APART, ..link_of(self.life, nobody) };
        link.seal(self.node, node, frame, [], C::crc32c);
        // SAFETY: nothing is lent, and the cookie is this layer's own and free.
        let taken = unsafe { self.inner.transmit_by_rank(node, frame, self.spare[spare]) };
        if taken {
            self.spares = spare;
        }
        taken
    }

    /// Takes a frame in that is damaged, or whose sender is none of the job's nodes.
    #[cold]
    #[inline(never)]
    pub(super) fn take_odd(&mut self, buffer: RxBuffer) {
        let link = Link::open(buffer.packet(), buffer.source(), self.node, C::crc32c);
        let unused = match link {
            Ok(link) if link.flags == Flags::APART && link.life == self.life => self.put_apart(&link, buffer),
            _ => {
                self.reliability.corrupt += 1;
                Some(buffer)
            }
        };
        if let Some(unused) = unused {
            self.inner.recycle(unused);
        }
    }

    /// Keeps a packet that came by itself until the end of the round. One that finds no room is said again.
    #[cold]
    pub(super) fn put_apart(&mut self, link: &Link, buffer: RxBuffer) -> Option<RxBuffer> {
        let source = buffer.source();
        let packet = buffer.packet().get(LINK_BYTES..).and_then(|packet| packet.get(..link.length.into()));
        let is_its_own = packet.and_then(|packet| Packet::parse(packet).ok()).is_some_and(|packet| {
            packet.envelope.kind.is_control() && packet.envelope.origin.task() == source
        });
        if !is_its_own {
            self.reliability.corrupt += 1;
            return Some(buffer);
        }
        // Who said it may wait for an answer that gets lost.
        self.last_answer = Some(self.now());
        let packet = buffer.trimmed(LINK_BYTES as u16, link.length).sent_by(APART);
        self.short = true;
        self.apart.push_back(packet).err()
    }
}
