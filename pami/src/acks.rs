//! Answers that are owed to origins: acknowledgements of messages whose senders want one (SPEC P-5), and refusals of messages
//! to be processed (SPEC L-3).
//!
//! Each names its message: a message that is kept, or pulled by a rendezvous, is acknowledged after later ones. Those of one
//! origin that are owed in a row go in one packet.
//!
//! An answer waits for room in the injection FIFO, and must not stop arrivals meanwhile: what is in front of it in the FIFO may
//! wait for a peer that does the same. An origin has at most [`OPERATIONS`](crate::operation::OPERATIONS) under way, each of
//! which is answered once; so there are as many places for every endpoint that may send. In a job of very many endpoints they
//! have fewer each, [`Acks::each`], to which an origin keeps with what it has processed; if eager messages take more,
//! arrivals do wait.

use crate::context::Active;
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::operation::Blocked;
use crate::packet::{Envelope, Kind};
use crate::region::RegionFault;
use heapless::Vec;
use zerocopy::IntoBytes;
use zerocopy::byteorder::little_endian::U32;

/// Numbers in the data of one packet, besides that in its header: what fits in one line of a shared-memory ring.
const NUMBERS: usize = 10;

/// One place for an answer that is owed.
pub(crate) type Place = Option<Owed>;

/// An answer that is owed.
#[derive(Clone, Copy)]
pub(crate) struct Owed {
    origin: Endpoint,
    message: u32,
    refusal: Option<RegionFault>,
}

/// Answers that are owed, oldest first: a ring.
pub(crate) struct Acks {
    places: &'static mut [Place],
    /// Place of the oldest.
    first: usize,
    owed: usize,
    /// Places for each endpoint that may send.
    each: usize,
}

impl Acks {
    /// Places for the answers to `endpoints` endpoints.
    pub(crate) fn new(places: &'static mut [Place], endpoints: usize) -> Self {
        let each = places.len() / endpoints.max(1);
        Self { places, first: 0, owed: 0, each }
    }

    /// Answers of one context that its peers have places for, as they are all set up alike.
    pub(crate) fn each(&self) -> usize {
        self.each
    }

    pub(crate) fn into_places(self) -> &'static mut [Place] {
        self.places
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.owed == 0
    }

    /// Whether the next message must wait because its acknowledgement could not be noted.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.owed >= self.places.len()
    }

    #[inline]
    fn push(&mut self, owed: Owed) {
        let at = self.first + self.owed;
        let at = if at >= self.places.len() { at - self.places.len() } else { at };
        if !self.is_full()
            && let Some(place) = self.places.get_mut(at)
        {
            *place = Some(owed);
            self.owed += 1;
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Owed> {
        if self.is_empty() {
            return None;
        }
        let owed = self.places.get_mut(self.first)?.take();
        self.first = if self.first + 1 >= self.places.len() { 0 } else { self.first + 1 };
        self.owed -= 1;
        owed
    }

    /// The oldest, if it is to go in a packet with others for `target`.
    fn next_for(&self, target: Endpoint) -> Option<u32> {
        let owed = self.places.get(self.first)?.as_ref()?;
        (owed.origin == target && owed.refusal.is_none()).then_some(owed.message)
    }

    /// Drops those whose origin `is_dead`.
    pub(crate) fn forget_dead(&mut self, is_dead: impl Fn(Endpoint) -> bool) {
        for _ in 0..self.owed {
            if let Some(owed) = self.pop().filter(|owed| !is_dead(owed.origin)) {
                self.push(owed);
            }
        }
    }
}

impl<P: Port> Active<P> {
    /// Notes that `origin` is to hear of `message`. There is room: nothing is taken in without.
    pub(crate) fn owe_ack(&mut self, origin: Endpoint, message: u32) {
        self.acks.push(Owed { origin, message, refusal: None });
        self.stir();
    }

    /// Notes that `origin` is to hear that its `message` was refused.
    pub(crate) fn owe_refusal(&mut self, origin: Endpoint, message: u32, fault: RegionFault) {
        self.acks.push(Owed { origin, message, refusal: Some(fault) });
        self.stir();
    }

    /// Once round those that are owed. Returns the number of packets that went out.
    pub(crate) fn send_acks(&mut self, blocked: &mut Blocked) -> usize {
        let (mut seen, all, mut events) = (0, self.acks.owed, 0);
        while seen < all {
            let Some(owed) = self.acks.pop() else { break };
            let mut more: Vec<U32, NUMBERS> = Vec::new();
            while owed.refusal.is_none()
                && seen + 1 + more.len() < all
                && let Some(message) = self.acks.next_for(owed.origin)
                && more.push(message.into()).is_ok()
            {
                self.acks.pop();
            }
            seen += 1 + more.len();
            if self.send_ack(&owed, more.as_slice().as_bytes(), blocked) {
                events += 1;
            } else {
                self.acks.push(owed);
                for message in more.into_iter().map(U32::get) {
                    self.acks.push(Owed { message, ..owed });
                }
            }
        }
        events
    }

    /// Whether the answer went out, or nobody waits for it. Notes its path if that has no room.
    fn send_ack(&mut self, owed: &Owed, more: &[u8], blocked: &mut Blocked) -> bool {
        let Owed { origin: target, message, refusal } = *owed;
        let Ok(path) = self.port.locate(target, self.local_paths) else {
            // The origin died, or named an endpoint that the job does not have.
            return true;
        };
        if blocked.contains(&path) {
            return false;
        }
        let (kind, dispatch) = refusal.map_or((Kind::Ack, 0), |fault| (Kind::Refused, fault as u8));
        let envelope = Envelope { kind, dispatch, origin: self.me, target, message, offset: 0, total: 0 };
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
