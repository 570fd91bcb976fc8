//! Acknowledgements of eager messages whose senders want one (SPEC P-5).
//!
//! Each names its message: a message that is kept, or pulled by a rendezvous, is acknowledged after later ones. Those of one
//! origin that are owed in a row go in one packet.

use crate::context::Active;
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::operation::Blocked;
use crate::packet::{Envelope, Kind};
use heapless::{Deque, Vec};
use zerocopy::IntoBytes;
use zerocopy::byteorder::little_endian::U32;

/// Acknowledgements that a context can owe before it stops taking messages in.
pub const ACKS_OWED: usize = 256;
/// Numbers in the data of one packet, besides that in its header: what fits in one line of a shared-memory ring.
const NUMBERS: usize = 10;

/// Acknowledgements that are owed, oldest first.
pub(crate) struct Acks {
    owed: Deque<(Endpoint, u32), ACKS_OWED>,
}

impl Acks {
    pub(crate) fn new() -> Self {
        Self { owed: Deque::new() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// Whether the next message must wait because its acknowledgement could not be noted.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.owed.is_full()
    }

    /// Drops those whose origin `is_dead`.
    pub(crate) fn forget_dead(&mut self, is_dead: impl Fn(Endpoint) -> bool) {
        for _ in 0..self.owed.len() {
            if let Some((origin, message)) = self.owed.pop_front().filter(|&(origin, _)| !is_dead(origin)) {
                let _ = self.owed.push_back((origin, message));
            }
        }
    }
}

impl<P: Port> Active<P> {
    /// Notes that `origin` is to hear of `message`. There is room: nothing is taken in without.
    pub(crate) fn owe_ack(&mut self, origin: Endpoint, message: u32) {
        let _ = self.acks.owed.push_back((origin, message));
        self.stir();
    }

    /// Once round those that are owed. Returns the number of packets that went out.
    pub(crate) fn send_acks(&mut self, blocked: &mut Blocked) -> usize {
        let (mut seen, all, mut events) = (0, self.acks.owed.len(), 0);
        while seen < all {
            let Some((target, message)) = self.acks.owed.pop_front() else { break };
            let mut more: Vec<U32, NUMBERS> = Vec::new();
            while seen + 1 + more.len() < all
                && let Some(&(_, message)) = self.acks.owed.front().filter(|next| next.0 == target)
                && more.push(message.into()).is_ok()
            {
                self.acks.owed.pop_front();
            }
            seen += 1 + more.len();
            if self.send_ack(target, message, more.as_slice().as_bytes(), blocked) {
                events += 1;
            } else {
                let rest = more.into_iter().map(U32::get);
                for message in core::iter::once(message).chain(rest) {
                    let _ = self.acks.owed.push_back((target, message));
                }
            }
        }
        events
    }

    /// Whether the acknowledgement went out, or nobody waits for it. Notes its path if that has no room.
    fn send_ack(&mut self, target: Endpoint, message: u32, more: &[u8], blocked: &mut Blocked) -> bool {
        let Ok(path) = self.port.locate(target, self.local_paths) else {
            // The origin died, or named an endpoint that the job does not have.
            return true;
        };
        if blocked.contains(&path) {
            return false;
        }
        let envelope =
            Envelope { kind: Kind::Ack, dispatch: 0, origin: self.me, target, message, offset: 0, total: 0 };
        let sent = self.port.push_copy(path, &envelope, &[], more).is_ok();
        if !sent {
            let _ = blocked.push(path);
        }
        sent
    }

    /// An acknowledgement arrives.
    pub(crate) fn ack_arrived(&mut self, envelope: &Envelope, data: &[u8]) {
        self.acknowledged(envelope.origin, envelope.message);
        for number in data.chunks_exact(size_of::<U32>()).take(NUMBERS) {
            if let Ok(number) = number.try_into() {
                self.acknowledged(envelope.origin, u32::from_le_bytes(number));
            }
        }
    }
}
