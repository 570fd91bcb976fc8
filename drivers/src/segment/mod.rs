//! The network of nodes that share memory: packets in rings, without a card, a frame or a fabric between (SPEC H-1).
//!
//! [`SegmentAdapter`] stands on [`rings::packets`]: a ring for each pair of nodes, with a bell for each node that sleeps. It loses
//! nothing, keeps order and holds senders back, so it is reliable by itself. A packet is copied twice, into the ring and out of it:
//! its sender has its memory back at once, and what another process does to the ring afterwards changes no packet.
//!
//! - *The fabric.* What a node and the network itself say to each other (that all are up, who is gone) goes by the adapter
//!   inside. That is looked at now and then, and before a sleep, which its interrupt ends as the bell does. What it says comes
//!   after all that was in the rings when it came: that a node is gone comes after what the node had sent. A node that sends and
//!   sends holds that up for a while, not for ever.
//! - *Room.* A node that takes nothing fills the rings to it and nobody else's. A context that takes nothing holds up its node once
//!   receive buffers run out, as on every network that loses nothing. Where that must not be (SPEC R-1), `reliable` stands around
//!   this adapter, whose refusals, windows and credits then hold; a ring has room for a whole window, and a packet that finds none
//!   (it was sent again and again to a node that stands still) is lost as on a wire.
//! - *Sleep.* Packets are published at once, and sleepers looked for once a round, in [`flush`](Adapter::flush).

mod frames;
#[cfg(test)]
mod tests;

use crate::adapter::{
    Adapter, AdapterFaults, COOKIES, FABRIC, Lent, MOST_BULK, Outcome, RX_BUFFERS, Reliability,
    ReliableAdapter, RxBuffer,
};
use crate::link::LINK_BYTES;
use crate::linux::Peers;
use crate::nic::{Acknowledge, Told};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};
use heapless::Deque;
use pami::packet::HEADER_BYTES;
use rings::packets::{
    Desk, Form, MOST_BYTES, PACKET, PacketReceiver, PacketSender, RING_LINES, ROOM, lines_of, published,
};

/// Longest packet, and the lines that it takes.
const MOST_PACKET: usize = LINK_BYTES + HEADER_BYTES + MOST_BULK;
const PACKET_LINES: usize = lines_of(MOST_PACKET);
// What the receiver has not told of yet leaves room for one.
const _: () = assert!(MOST_PACKET <= MOST_BYTES && PACKET_LINES <= RING_LINES * 3 / 4);
/// Where a packet's payload lies in a receive buffer: at a line.
const PAYLOAD: usize = (LINK_BYTES + HEADER_BYTES).next_multiple_of(64);
/// Looks at the rings for each at the fabric.
const LOOKS: u32 = 256;

/// A set of nodes.
type Nodes = u64;

/// The adapter of a node that shares memory with all others, around one to the fabric.
pub struct SegmentAdapter<A> {
    inner: A,
    peers: Peers,
    /// Bytes that the layer between puts in front of each packet: 0 if there is none.
    link: usize,
    node: usize,
    desk: Desk,
    /// By node.
    desks: Box<[Desk]>,
    senders: Box<[PacketSender]>,
    receivers: Box<[PacketReceiver]>,
    /// Nodes that were called; that were sent something, or told of room, since the last flush; whose rings were full; that are
    /// gone.
    called: Nodes,
    sent: Nodes,
    told: Nodes,
    full: Nodes,
    gone: Nodes,
    /// The node whose ring is looked at first.
    turn: u32,
    /// Looks before the next at the fabric; once that has said something, packets that may still come before it.
    looks: u32,
    /// What the fabric said, and the rings may have something that came before.
    said: Option<RxBuffer>,
    /// The fabric was not heard since it was armed.
    armed: bool,
    /// An interrupt came since the fabric was looked at.
    interrupted: &'static AtomicBool,
    /// Packets to the fabric that have not come back.
    under_way: u32,
    /// How often the bell was heard.
    heard: u64,
    spare: Vec<&'static mut [u8]>,
    /// Packets that came in while bare frames went.
    early: Box<Deque<RxBuffer, RX_BUFFERS>>,
    done: Box<Deque<u16, COOKIES>>,
    /// Packets that are none, and what the fabric has of other nodes.
    runts: u64,
    foreign: u64,
    /// Bare frames that came while nobody waited for such.
    stale: u64,
}

/// Acknowledges interrupts of the fabric's adapter, and has that looked at.
#[derive(Clone, Copy, Debug)]
pub struct SegmentInterrupt<I> {
    inner: I,
    interrupted: &'static AtomicBool,
}

impl<I: Acknowledge> Acknowledge for SegmentInterrupt<I> {
    fn acknowledge(&self) {
        self.inner.acknowledge();
        self.interrupted.store(true, Ordering::Relaxed);
    }

    fn serve(&self) -> Told {
        self.interrupted.store(true, Ordering::Relaxed);
        self.inner.serve()
    }

    fn link_is_up(&self, was: bool) -> bool {
        self.inner.link_is_up(was)
    }
}

/// The bytes of `lent`.
///
/// # Safety
/// They are readable and unchanged as long as the result lives.
unsafe fn bytes<'a>(lent: Lent) -> &'a [u8] {
    if lent.len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(lent.pointer, lent.len) }
}

/// The nodes of a set.
fn each(mut nodes: Nodes) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let node = (nodes != 0).then(|| nodes.trailing_zeros() as usize)?;
        nodes &= nodes - 1;
        Some(node)
    })
}

impl<A: Adapter> SegmentAdapter<A> {
    /// The adapter of node `node` among `peers`; `None` if there is no such node. `inner` leads to the fabric. A layer between,
    /// which mends losses, puts `link` bytes in front of each packet, at most [`LINK_BYTES`]; with 0 there is none. Allocates
    /// [`RX_BUFFERS`] receive buffers.
    pub fn new(inner: A, peers: Peers, node: u32, link: usize) -> Option<Self> {
        let segment = *peers.segment();
        let node = usize::try_from(node).ok().filter(|&node| node < segment.nodes())?;
        let all = 0..segment.nodes();
        let link = link.min(LINK_BYTES);
        let stride = PAYLOAD + MOST_BULK;
        let memory = Box::leak(vec![0u8; RX_BUFFERS * stride + 64].into_boxed_slice());
        let skip = memory.as_ptr().align_offset(64).min(64);
        Some(Self {
            inner,
            link,
            node,
            desk: segment.desk(node),
            desks: all.clone().map(|peer| segment.desk(peer)).collect(),
            senders: all.clone().map(|peer| segment.sender(node, peer)).collect(),
            receivers: all.map(|peer| segment.receiver(peer, node)).collect(),
            peers,
            called: 0,
            sent: 0,
            told: 0,
            full: 0,
            gone: 0,
            turn: 0,
            looks: 0,
            said: None,
            armed: false,
            under_way: 0,
            heard: 0,
            interrupted: Box::leak(Box::new(AtomicBool::new(false))),
            spare: memory[skip..].chunks_exact_mut(stride).take(RX_BUFFERS).collect(),
            early: Box::new(Deque::new()),
            done: Box::new(Deque::new()),
            runts: 0,
            foreign: 0,
            stale: 0,
        })
    }

    fn is_gone(&self, node: usize) -> bool {
        self.gone & 1 << node != 0
    }

    /// Puts a packet into the ring to `node`. False without room, or if there is no such node any more.
    #[inline]
    fn push(&mut self, node: u32, form: Form, parts: &[&[u8]]) -> bool {
        let node = node as usize;
        let Some(sender) = self.senders.get_mut(node) else { return false };
        let bit = 1 << node;
        if self.gone & bit != 0 {
            return false;
        }
        if !sender.push(form, parts) {
            self.full |= bit;
            return false;
        }
        self.sent |= bit;
        if self.called & bit == 0 {
            self.called |= bit;
            self.desks[node].call(self.node);
        }
        true
    }

    /// The next packet in the rings, the nodes taking turns.
    #[inline]
    fn pull(&mut self) -> Option<(Form, RxBuffer)> {
        let mut left = self.desk.callers();
        while left != 0 {
            let behind = left & (Nodes::MAX << self.turn);
            let node = if behind != 0 { behind } else { left }.trailing_zeros();
            let receiver = &mut self.receivers[node as usize];
            if receiver.is_empty() {
                left &= !(1 << node);
                continue;
            }
            let buffer = self.spare.pop()?;
            let start = PAYLOAD - HEADER_BYTES - self.link;
            let pulled = receiver.pull(&mut buffer[start..]);
            if receiver.tell() {
                self.told |= 1 << node;
            }
            self.turn = (node + 1) % Nodes::BITS;
            match pulled {
                Some(Ok((form, len))) => {
                    return Some((form, RxBuffer::new(buffer, start as u16, len as u16).sent_by(node)));
                }
                wrong => {
                    self.runts += u64::from(wrong.is_some());
                    self.spare.push(buffer);
                }
            }
        }
        None
    }

    /// What the fabric said, if it is the next that comes: nothing is in the rings any more that was there before. A look at them
    /// that finds nothing does not tell that if there was no buffer for it.
    fn said_is_next(&self) -> bool {
        let emptied = || each(self.desk.callers()).all(|node| self.receivers[node].is_empty());
        self.said.is_some() && (self.looks == 0 || !self.spare.is_empty() || emptied())
    }

    fn take_said(&mut self) -> Option<RxBuffer> {
        // There may be more.
        self.looks = 0;
        self.said.take()
    }

    /// Whether the fabric is to be looked at, whatever the rings have.
    #[inline]
    fn listens(&self) -> bool {
        self.looks == 0 || self.interrupted.load(Ordering::Relaxed)
    }

    /// Hears what the fabric says, which comes once the rings have nothing that was there before. If they never are empty, that is
    /// when as many packets have come as could be there: nodes take turns. Returns what comes now.
    #[cold]
    #[inline(never)]
    fn listen(&mut self) -> Option<RxBuffer> {
        self.interrupted.store(false, Ordering::Relaxed);
        if self.said.is_some() {
            return if self.looks == 0 { self.take_said() } else { None };
        }
        self.looks = LOOKS;
        while let Some(buffer) = self.inner.receive() {
            self.armed = false;
            if buffer.source() == FABRIC {
                self.said = Some(buffer);
                self.looks = (self.receivers.len() * RING_LINES) as u32;
                break;
            }
            // The fabric has nothing of other nodes.
            self.foreign += 1;
            self.inner.recycle(buffer);
        }
        None
    }

    /// What comes next: out of a ring, or a packet that the fabric said.
    #[inline]
    fn next(&mut self) -> Option<(Form, RxBuffer)> {
        if self.listens()
            && let Some(said) = self.listen()
        {
            return Some((Form::Packet, said));
        }
        match self.pull() {
            Some(came) => {
                self.looks -= 1;
                Some(came)
            }
            None if self.said_is_next() => self.take_said().map(|said| (Form::Packet, said)),
            None => {
                self.looks -= u32::from(self.said.is_none());
                None
            }
        }
    }

    /// Has the fabric interrupt. Returns whether there is something already that can be heard now.
    fn arm_inner(&mut self) -> bool {
        if !self.armed || self.under_way > 0 {
            self.armed = !self.inner.arm(self.under_way > 0);
            if !self.armed && self.said.is_none() {
                self.looks = 0;
            }
        }
        !self.armed && (self.said.is_none() || self.under_way > 0)
    }

    /// Has others ring. Returns whether there is something already.
    fn arm_desk(&mut self, sent: bool) -> bool {
        let room = sent && self.full != 0;
        self.desk.arm(if room { PACKET | ROOM } else { PACKET });
        // Who counts a ring rings, now or a little later.
        if self.desk.rings() != self.heard {
            self.heard = self.heard.wrapping_add(self.peers.take_rings(self.node));
        }
        let full = self.full;
        let freed = room && each(full).any(|node| self.has_room_for(node as u32));
        freed
            || (!self.spare.is_empty()
                && each(self.desk.callers()).any(|node| !self.receivers[node].is_empty()))
    }
}

impl<A: Adapter> Adapter for SegmentAdapter<A> {
    type Interrupt = SegmentInterrupt<A::Interrupt>;

    fn mtu(&self) -> usize {
        MOST_BULK + self.link
    }

    #[inline]
    fn has_room(&self) -> bool {
        !self.done.is_full()
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
            let taken = unsafe { self.inner.transmit(FABRIC, header, inline, lent, cookie) };
            self.under_way += u32::from(taken);
            return taken;
        }
        if self.done.is_full() {
            return false;
        }
        // SAFETY: the caller's promise, and nothing of it is kept.
        let [first, second] = lent.map(|lent| unsafe { bytes(lent) });
        let parts = [header, inline, first, second];
        let pushed = self.push(node, Form::Packet, &parts);
        // Who mends losses is not to wait for one node. There is room for the cookie, as was seen.
        (pushed || self.link > 0) && self.done.push_back(cookie).is_ok()
    }

    #[inline]
    fn reclaim(&mut self) -> Option<(u16, Outcome)> {
        if let Some(cookie) = self.done.pop_front() {
            return Some((cookie, Outcome::Sent));
        }
        if self.under_way == 0 {
            return None;
        }
        let back = self.inner.reclaim();
        self.under_way -= u32::from(back.is_some());
        back
    }

    #[inline]
    fn receive(&mut self) -> Option<RxBuffer> {
        if let Some(early) = self.early.pop_front() {
            return Some(early);
        }
        loop {
            match self.next()? {
                (Form::Packet, buffer) => return Some(buffer),
                (Form::Bare, buffer) => {
                    self.stale += 1;
                    self.spare.push(buffer.into_memory());
                }
            }
        }
    }

    #[inline]
    fn recycle(&mut self, buffer: RxBuffer) {
        if buffer.source() == FABRIC {
            self.armed = false;
            self.inner.recycle(buffer);
        } else {
            // As many as there are have room.
            self.spare.push(buffer.into_memory());
        }
    }

    #[inline]
    fn flush(&mut self) {
        self.inner.flush();
        if self.sent | self.told == 0 {
            return;
        }
        published();
        let (sent, told) = (core::mem::take(&mut self.sent), core::mem::take(&mut self.told));
        for node in each(sent | told) {
            let what = if sent & 1 << node != 0 { PACKET } else { 0 };
            let what = what | if told & 1 << node != 0 { ROOM } else { 0 };
            self.desks[node].wake(what, || self.peers.ring(node));
        }
    }

    fn kick_again(&mut self) {
        self.inner.kick_again();
    }

    fn arm(&mut self, sent: bool) -> bool {
        let (inner, desk) = (self.arm_inner(), self.arm_desk(sent));
        inner || desk || self.said_is_next() || !self.early.is_empty() || !self.done.is_empty()
    }

    fn interrupt(&self) -> Self::Interrupt {
        SegmentInterrupt { inner: self.inner.interrupt(), interrupted: self.interrupted }
    }

    fn faults(&self) -> AdapterFaults {
        let inner = self.inner.faults();
        let (runts, foreign) = (inner.runts + self.runts, inner.foreign + self.foreign);
        let reliability = Reliability { stale: self.stale, ..Reliability::default() };
        AdapterFaults { runts, foreign, reliability, ..inner }
    }
}

impl<A: Adapter> ReliableAdapter for SegmentAdapter<A> {
    #[inline]
    fn has_room_for(&mut self, node: u32) -> bool {
        let node = node as usize;
        let Some(sender) = self.senders.get_mut(node) else { return true };
        let room = sender.has_room(PACKET_LINES);
        let bit = 1 << node;
        if room {
            self.full &= !bit;
        } else {
            self.full |= bit;
        }
        room || self.is_gone(node)
    }

    fn is_settled(&self) -> bool {
        self.early.is_empty() && self.done.is_empty()
    }

    fn node_died(&mut self, node: u32) {
        if (node as usize) < self.senders.len() {
            self.gone |= 1 << node;
            self.full &= !self.gone;
        }
    }
}
