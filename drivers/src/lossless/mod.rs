//! A network that loses nothing: frames are counted, and one that is missing is named (SPEC D-8).
//!
//! [`Lossless`] stands where `reliable` does if whoever set the machine up says that the network delivers every frame once, in
//! order and intact, and holds its senders back: so does the emulator's fabric without faults. No packet is kept, nothing is
//! sent again, no checksum is made.
//!
//! - *Counting.* Frames have the link header of `reliable`, of which number, acknowledgement and life are used. A number that is
//!   not the next one ends the trust: [`Platform::network_failed`] hears whose frames are missing, and how many.
//! - *Asking.* A frame that is lost last shows by no later one. So who has sent and heard of nothing for a while asks the
//!   receiver, by how many it has sent. The receiver finds them missing, or says so many.
//! - *Waiting.* The network holds senders back for a node, not for a context: a context that takes nothing holds up what is for
//!   others of its node when receive buffers run out.

#[cfg(test)]
mod tests;

use crate::adapter::{
    Adapter, AdapterFaults, COOKIES, FABRIC, Frame, Frames, HEAD_BYTES, IN_FLIGHT, Lent, Outcome, RX_BUFFERS,
    Reliability, ReliableAdapter, RxBuffer, Watch, copy_front,
};
use crate::link::{Flags, LINK_BYTES, Link, Seq, bare, unsealed};
use crate::platform::{Breach, Platform};
use alloc::boxed::Box;
use core::marker::PhantomData;
use heapless::Deque;

/// When a peer is asked, at first and at last.
const FIRST_NS: u64 = 10_000_000;
const LAST_NS: u64 = 1_000_000_000;
const SPARE: usize = COOKIES - IN_FLIGHT;

/// What is known of the frames to and from a node.
#[derive(Clone, Copy)]
struct FrameCounts {
    /// The number of the next frame.
    sent: Seq,
    received: Seq,
    /// The first that the node has not said to have.
    confirmed: Seq,
    gone: bool,
    /// It is to be answered.
    asks: bool,
}

/// An adapter around one whose network loses nothing.
pub struct Lossless<A, P> {
    inner: A,
    node: u32,
    /// What the frames of this job's nodes say.
    life: u32,
    peers: Box<[FrameCounts]>,
    /// Cookies of frames without packets; the first `spares` are free.
    spare: [u16; SPARE],
    spares: usize,
    /// What came back and came in while bare frames went.
    done: Box<Deque<(u16, Outcome), IN_FLIGHT>>,
    early: Box<Deque<RxBuffer, RX_BUFFERS>>,
    /// Since all was confirmed something was sent.
    unconfirmed: bool,
    /// When to ask, `u64::MAX` if nobody waits for it; and how long after that again.
    ask_at: u64,
    ask_ns: u64,
    /// Peers that ask.
    asking: u32,
    reliability: Reliability,
    platform: PhantomData<fn() -> P>,
}

/// Memory of a frame's headers, as aligned as headers are read.
#[repr(C, align(8))]
struct HeaderBytes<const BYTES: usize>([u8; BYTES]);

impl<A: Adapter, P: Platform> Lossless<A, P> {
    /// A layer around `inner`, for node `node` of `nodes`. Allocates 16 bytes a node.
    pub fn new(inner: A, node: u32, nodes: u32) -> Self {
        let peer = FrameCounts {
            sent: Seq::FIRST,
            received: Seq::FIRST,
            confirmed: Seq::FIRST,
            gone: false,
            asks: false,
        };
        Self {
            inner,
            node,
            life: 0,
            peers: (0..nodes).map(|_| peer).collect(),
            spare: core::array::from_fn(|at| (IN_FLIGHT + at) as u16),
            spares: SPARE,
            done: Box::new(Deque::new()),
            early: Box::new(Deque::new()),
            unconfirmed: false,
            ask_at: u64::MAX,
            ask_ns: FIRST_NS,
            asking: 0,
            reliability: Reliability::default(),
            platform: PhantomData,
        }
    }

    /// Takes only frames of life `life` in, and sends such.
    pub fn with_life(self, life: u32) -> Self {
        Self { life, ..self }
    }

    /// A packet that the adapter has sent; takes back cookies of frames without one.
    #[inline]
    fn take_back(&mut self) -> Option<(u16, Outcome)> {
        loop {
            let (cookie, outcome) = self.inner.reclaim()?;
            if usize::from(cookie) < IN_FLIGHT {
                return Some((cookie, outcome));
            }
            if let Some(place) = self.spare.get_mut(self.spares) {
                *place = cookie;
                self.spares += 1;
            }
        }
    }

    /// What a frame says to a peer, in front of a packet of so many bytes if `flags` says so.
    #[inline(always)]
    fn header(&self, node: u32, peer: &FrameCounts, flags: Flags, length: usize) -> HeaderBytes<LINK_BYTES> {
        let mut front = HeaderBytes([0; LINK_BYTES]);
        let link = Link {
            life: self.life,
            connection: 0,
            own: 0,
            attempt: 0,
            sequence: peer.sent,
            acknowledged: peer.received,
            sack: 0,
            credit: 0,
            length: length as u16,
            flags,
        };
        link.seal(self.node, node, &mut front.0, [], unsealed);
        front
    }

    /// Takes in a frame that is not the packet whose turn it is.
    #[cold]
    #[inline(never)]
    fn take_in(&mut self, source: u32, buffer: &RxBuffer) {
        let frame = buffer.packet();
        // First, as another job's frames may be sealed.
        if Link::life_of(frame).is_some_and(|life| life != self.life) {
            self.reliability.stale += 1;
            return;
        }
        let Some(peer) = self.peers.get_mut(source as usize) else {
            self.reliability.corrupt += 1;
            return;
        };
        let Ok(link) = Link::open(frame, source, self.node, unsealed) else {
            self.reliability.corrupt += 1;
            return P::network_failed(source, Breach::Damaged);
        };
        if peer.gone {
            self.reliability.stale += 1;
            return;
        }
        self.inner.learn(buffer);
        if peer.received.is_before(link.sequence) {
            P::network_failed(source, Breach::Lost(link.sequence.since(peer.received)));
        } else if link.sequence != peer.received {
            self.reliability.duplicates += 1;
            P::network_failed(source, Breach::Again);
        } else {
            peer.confirmed = link.acknowledged;
            if link.flags.contains(Flags::PROBE) && !peer.asks {
                peer.asks = true;
                self.asking += 1;
            }
        }
    }

    /// Sends a peer a frame without a packet. False without room.
    fn say(&mut self, node: u32, flags: Flags) -> bool {
        let Some(peer) = self.peers.get(node as usize) else { return true };
        let front = self.header(node, peer, flags, 0);
        self.send_own(node, &front.0, &[])
    }

    /// Sends a frame of this layer's own. False without room.
    fn send_own(&mut self, node: u32, front: &[u8], data: &'static [u8]) -> bool {
        let Some(spare) = self.spares.checked_sub(1).filter(|_| self.inner.has_room()) else { return false };
        let lent = [Lent::new(data), Lent::NONE];
        // SAFETY: what is lent never changes, and the cookie is this layer's own and free.
        let taken = unsafe { self.inner.transmit(node, front, &[], lent, self.spare[spare]) };
        if taken {
            self.spares = spare;
        }
        taken
    }

    /// Answers those that ask.
    #[cold]
    fn answer(&mut self) {
        for node in 0..self.peers.len() {
            if self.peers[node].asks {
                if !self.say(node as u32, Flags::empty()) {
                    return;
                }
                self.peers[node].asks = false;
                self.asking -= 1;
                self.reliability.acks += 1;
            }
        }
    }

    /// Asks those that have not confirmed all, if it is time.
    #[cold]
    fn look(&mut self) {
        let now = P::now_ns();
        if self.ask_at == u64::MAX {
            (self.ask_ns, self.ask_at) = (FIRST_NS, now + FIRST_NS);
        } else if self.ask_at <= now {
            self.unconfirmed = false;
            for node in 0..self.peers.len() {
                let peer = &self.peers[node];
                if !peer.gone && peer.sent != peer.confirmed {
                    self.unconfirmed = true;
                    if self.say(node as u32, Flags::PROBE) {
                        self.reliability.probes += 1;
                    }
                }
            }
            self.ask_ns = (2 * self.ask_ns).min(LAST_NS);
            self.ask_at = if self.unconfirmed { now + self.ask_ns } else { u64::MAX };
            self.inner.flush();
        }
    }
}

impl<A: Adapter, P: Platform> Adapter for Lossless<A, P> {
    type Interrupt = A::Interrupt;

    fn mtu(&self) -> usize {
        self.inner.mtu().saturating_sub(LINK_BYTES)
    }

    fn buffers(&self) -> usize {
        self.inner.buffers()
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.inner.has_room()
    }

    #[inline(always)]
    unsafe fn transmit(
        &mut self,
        node: u32,
        header: &[u8],
        inline: &[u8],
        lent: [Lent; 2],
        cookie: u16,
    ) -> bool {
        if node == FABRIC {
            // SAFETY: the caller's promise goes on to the adapter.
            return unsafe { self.inner.transmit(FABRIC, header, inline, lent, cookie) };
        }
        let head_len = header.len() + inline.len();
        let Some(peer) = self.peers.get(node as usize).filter(|peer| !peer.gone && head_len <= HEAD_BYTES)
        else {
            return false;
        };
        let front = self.header(node, peer, Flags::PACKET, head_len + lent[0].len + lent[1].len);
        let mut head = HeaderBytes([0; HEAD_BYTES]);
        copy_front(&mut head.0, header, inline);
        // SAFETY: the caller's promise goes on to the adapter.
        let taken = unsafe { self.inner.transmit(node, &front.0, &head.0[..head_len], lent, cookie) };
        if taken && let Some(peer) = self.peers.get_mut(node as usize) {
            peer.sent = peer.sent.plus(1);
            self.unconfirmed = true;
        }
        taken
    }

    #[inline]
    fn reclaim(&mut self) -> Option<(u16, Outcome)> {
        self.done.pop_front().or_else(|| self.take_back())
    }

    #[inline]
    fn receive(&mut self) -> Option<RxBuffer> {
        loop {
            let buffer = self.early.pop_front().or_else(|| self.inner.receive())?;
            let source = buffer.source();
            if source == FABRIC {
                return Some(buffer);
            }
            if let Ok(link) = Link::open(buffer.packet(), source, self.node, unsealed)
                && let Some(peer) = self.peers.get_mut(source as usize)
                && (link.flags, link.sequence, link.life) == (Flags::PACKET, peer.received, self.life)
                && !peer.gone
            {
                if peer.received == Seq::FIRST {
                    self.inner.learn(&buffer);
                }
                (peer.received, peer.confirmed) = (peer.received.plus(1), link.acknowledged);
                return Some(buffer.trimmed(LINK_BYTES as u16, link.length));
            }
            self.take_in(source, &buffer);
            self.inner.recycle(buffer);
        }
    }

    #[inline]
    fn recycle(&mut self, buffer: RxBuffer) {
        self.inner.recycle(buffer);
    }

    #[inline]
    fn flush(&mut self) {
        if self.asking > 0 {
            self.answer();
        }
        self.inner.flush();
    }

    fn kick_again(&mut self) {
        self.inner.kick_again();
    }

    fn arm(&mut self, sent: bool) -> bool {
        self.inner.arm(sent || self.asking > 0) || !self.early.is_empty() || !self.done.is_empty()
    }

    fn watch(&self) -> Option<Watch> {
        self.inner.watch()
    }

    fn interrupt(&self) -> A::Interrupt {
        self.inner.interrupt()
    }

    fn faults(&self) -> AdapterFaults {
        AdapterFaults { reliability: self.reliability, ..self.inner.faults() }
    }
}

impl<A: Adapter, P: Platform> ReliableAdapter for Lossless<A, P> {
    #[inline]
    fn due(&mut self) -> Option<u64> {
        if self.unconfirmed {
            self.look();
        }
        self.deadline()
    }

    #[inline]
    fn deadline(&self) -> Option<u64> {
        (self.ask_at != u64::MAX).then_some(self.ask_at)
    }

    #[inline]
    fn is_settled(&self) -> bool {
        self.early.is_empty() && self.done.is_empty()
    }

    fn linger_until(&self) -> u64 {
        if self.unconfirmed { u64::MAX } else { 0 }
    }

    fn node_died(&mut self, node: u32) {
        if let Some(peer) = self.peers.get_mut(node as usize) {
            self.asking -= u32::from(peer.asks);
            (peer.gone, peer.asks) = (true, false);
        }
    }
}

impl<A: Adapter, P: Platform> Frames for Lossless<A, P> {
    fn send_frame(&mut self, node: u32, word: u64, data: &'static [u8]) -> bool {
        while let Some(done) = self.take_back() {
            // There is room for all.
            let _ = self.done.push_back(done);
        }
        let taken = self.send_own(node, &bare::front(word), data);
        if taken {
            self.inner.flush();
        }
        taken
    }

    fn receive_frame(&mut self) -> Option<Frame> {
        loop {
            let buffer = self.inner.receive()?;
            let node = buffer.source();
            if node == FABRIC {
                return Some(Frame::Control(buffer));
            }
            let Some((word, len)) = bare::read(buffer.packet()) else {
                // There is room for all.
                let _ = self.early.push_back(buffer);
                continue;
            };
            self.inner.recycle(buffer);
            self.inner.flush();
            return Some(Frame::From { node, word, len });
        }
    }

    fn arm_frames(&mut self, sent: bool) -> bool {
        self.inner.arm(sent)
    }
}
