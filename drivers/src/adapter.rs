//! What the message unit needs of a network adapter. The torus is one; a tree, a loop-back or an adapter with
//! reliability of its own can stand here as well.

use crate::link::LINK_BYTES;
use crate::nic::Acknowledge;
use pami::packet::HEADER_BYTES;
use zerocopy::FromBytes;

pub use crate::nic::{Lent, RX_BUFFERS, Watch};

/// Packets that the message unit may have in flight at once; its cookies are below it.
pub const IN_FLIGHT: usize = 256;
/// Cookies that an adapter must take: those of the message unit, then some for a layer between the two.
pub const COOKIES: usize = IN_FLIGHT + 32;
/// Most bytes of header and inline data of one packet of the message unit's.
pub const HEAD_BYTES: usize = 96;
/// Most bytes of header and inline data of one [`Adapter::transmit`]: a layer between may put a header before both.
pub const FRONT_BYTES: usize = HEAD_BYTES + LINK_BYTES;
/// Most payload of a packet that is copied on its way, in bytes, whatever the device could carry: the kernel lays its memory
/// out for it.
pub const MOST_MTU: usize = 4096;
/// The same of a packet of bulk data, which goes from where it lies to its place.
pub const MOST_BULK: usize = 16 << 10;
/// The rank that means the network itself instead of a node.
pub const FABRIC: u32 = u32::MAX;
/// The source of what another node has [said](ReliableAdapter::say) by itself: who it is from its envelope tells.
pub(crate) const APART: u32 = FABRIC - 1;

/// Copies the two parts of a packet's front to the front of `to`, which has room for both.
#[inline(always)]
pub(crate) fn copy_front(to: &mut [u8], header: &[u8], inline: &[u8]) {
    let (front, rest) = to.split_at_mut(header.len());
    // Packets' headers, and links', are of this length, and lie at words.
    match (
        <[u64; HEADER_BYTES / 8]>::mut_from_bytes(front),
        <[u64; HEADER_BYTES / 8]>::ref_from_bytes(header),
    ) {
        (Ok(front), Ok(header)) => *front = *header,
        _ => copy_anywhere(front, header),
    }
    rest[..inline.len()].copy_from_slice(inline);
}

/// As `copy_from_slice`. Apart, as both ways would be one, byte by byte.
#[cold]
#[inline(never)]
fn copy_anywhere(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The network has it and will deliver it.
    Sent,
    /// It may or may not have arrived: its node is gone.
    Failed,
}

/// A receive buffer with a packet in it, lent by the adapter. It must go back by [`Adapter::recycle`].
#[derive(Debug)]
pub struct RxBuffer {
    memory: &'static mut [u8],
    start: u16,
    len: u16,
    source: u32,
}

impl RxBuffer {
    /// A buffer whose packet lies at `start..start + len`.
    pub fn new(memory: &'static mut [u8], start: u16, len: u16) -> Self {
        Self { memory, start, len, source: FABRIC }
    }

    /// The same, sent by the node with rank `source`.
    pub fn sent_by(self, source: u32) -> Self {
        Self { source, ..self }
    }

    /// Rank of the node that says it sent the packet; [`FABRIC`] for the network itself.
    #[inline]
    pub fn source(&self) -> u32 {
        self.source
    }

    /// Takes `front` bytes off the packet's front and leaves at most `len` behind them.
    #[inline]
    pub fn trimmed(self, front: u16, len: u16) -> Self {
        let front = front.min(self.len);
        Self { start: self.start + front, len: len.min(self.len - front), ..self }
    }

    /// The packet: header, payload, and whatever the network put behind them.
    #[inline]
    pub fn packet(&self) -> &[u8] {
        self.memory
            .get(usize::from(self.start)..)
            .and_then(|rest| rest.get(..usize::from(self.len)))
            .unwrap_or(&[])
    }

    /// What lies before the packet.
    pub(crate) fn before(&self) -> &[u8] {
        self.memory.get(..usize::from(self.start)).unwrap_or(&[])
    }

    /// The same as [`packet`](Self::packet), to be changed before anybody else sees it.
    pub(crate) fn packet_mut(&mut self) -> &mut [u8] {
        let start = usize::from(self.start);
        self.memory
            .get_mut(start..)
            .and_then(|rest| rest.get_mut(..usize::from(self.len)))
            .unwrap_or_default()
    }

    /// Two parts of the packet, one behind the other from byte `from` on, of these lengths, which it was seen to have.
    #[inline(always)]
    pub(crate) fn parts(&self, from: u16, (first, second): (u16, u16)) -> (&[u8], &[u8]) {
        let (from, first) = (usize::from(self.start) + usize::from(from), usize::from(first));
        match self.memory.get(from..from + first + usize::from(second)) {
            Some(both) => both.split_at_checked(first).unwrap_or((both, &[])),
            None => Self::no_parts(),
        }
    }

    #[cold]
    #[inline(never)]
    fn no_parts() -> (&'static [u8], &'static [u8]) {
        (&[], &[])
    }

    /// The whole memory again.
    pub fn into_memory(self) -> &'static mut [u8] {
        self.memory
    }
}

/// What an adapter caught its device or its network at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AdapterFaults {
    /// Used ids, lengths or indices that cannot be.
    pub rings: u64,
    /// Frames for this node's card that are too short to hold a packet.
    pub runts: u64,
    /// Such of another protocol.
    pub foreign: u64,
    /// Such that name another rank than this node's as their target.
    pub stray: u64,
    /// What a reliable layer had to mend.
    pub reliability: Reliability,
}

/// Counters of a reliable layer (SPEC D-8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reliability {
    /// Packets sent again.
    pub retransmitted: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Frames whose checksum or fields are wrong.
    pub corrupt: u64,
    /// Packets that arrived before an earlier one.
    pub out_of_order: u64,
    /// Packets beyond what the peer was allowed to send.
    pub beyond_credit: u64,
    /// Frames of only an acknowledgement that were sent.
    pub acks: u64,
    /// Times that a peer was asked for credit.
    pub probes: u64,
    /// Packets that had to wait for credit.
    pub stalls: u64,
    /// Peers that are gone.
    pub dead_peers: u64,
    /// Times that a peer's receiver was not ready for a packet.
    pub refused: u64,
    /// Frames of another job, of an earlier life, or of an earlier connection.
    pub stale: u64,
    /// Calls of nodes that had to wait for a place, or until all nodes were up.
    pub waits: u64,
    /// Peers that both sides forgot, for others to have their places.
    pub released: u64,
}

impl Reliability {
    /// Frames that were thrown away.
    pub fn dropped(&self) -> u64 {
        self.duplicates + self.corrupt + self.beyond_credit + self.stale
    }
}

/// A network adapter: what the driver of a card implements. All methods are called with the message unit's token held.
///
/// It says what its packets hold and how many buffers there are; that it is reliable, by a trait ([`ReliableAdapter`]). Nothing above would
/// act on more:
/// - *In order.* Of the networks that lose packets none can promise it: frames for a node go by two addresses, between which a switch
///   changes its way, and a card that is reset sends again. Nor is a gap a loss then, as what was lost goes again behind what was
///   sent later; so `reliable` waits for three later packets. The last two of a burst need a timer either way.
/// - *Offloads.* The checksum that a card makes is over one hop, that of the link header from memory to memory, over both ranks;
///   those of IP cover nothing here. That it gathers what is lent is asked of every adapter.
pub trait Adapter: Send + 'static {
    /// Acknowledges the adapter's interrupts without the token.
    type Interrupt: Acknowledge;

    /// Most bytes of payload behind a packet's header.
    fn mtu(&self) -> usize;

    /// Receive buffers that the adapter has.
    fn buffers(&self) -> usize {
        RX_BUFFERS
    }

    /// Whether [`transmit`](Self::transmit) has room for one more packet.
    fn has_room(&self) -> bool;

    /// Queues the packet `header`, `inline`, `lent` for node `node` ([`FABRIC`]: for the network itself). The first
    /// two are copied and are together at most [`FRONT_BYTES`]. Returns whether it was queued; if so, `cookie`
    /// comes back from [`reclaim`](Self::reclaim) once nobody needs the bytes any more. If not, there was no room,
    /// or the node is gone.
    ///
    /// # Safety
    /// `lent` stays readable and unchanged, and `cookie`, less than [`COOKIES`], is not used again, until it
    /// comes back.
    unsafe fn transmit(
        &mut self,
        node: u32,
        header: &[u8],
        inline: &[u8],
        lent: [Lent; 2],
        cookie: u16,
    ) -> bool;

    /// As [`transmit`](Self::transmit) of `front` alone, to all that play rank `node`, whatever was [learnt](Self::learn).
    ///
    /// # Safety
    /// As that of [`transmit`](Self::transmit).
    unsafe fn transmit_by_rank(&mut self, node: u32, front: &[u8], cookie: u16) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.transmit(node, front, &[], [Lent::NONE; 2], cookie) }
    }

    /// A packet that the adapter is done with, and what became of it.
    fn reclaim(&mut self) -> Option<(u16, Outcome)>;

    /// The next packet that came in.
    fn receive(&mut self) -> Option<RxBuffer>;

    /// Takes a receive buffer back.
    fn recycle(&mut self, buffer: RxBuffer);

    /// Believes what a frame that came in says of where its sender is: frames for that go there from now on.
    fn learn(&mut self, _came: &RxBuffer) {}

    /// Shows the device what was queued and recycled since the last time.
    fn flush(&mut self);

    /// Has the device look again, if it may have missed that there is something.
    fn kick_again(&mut self) {}

    /// Asks for an interrupt when the next packet comes in and, if `sent`, when the next has been sent. Returns
    /// whether there is one already; then no interrupt may come for it.
    fn arm(&mut self, sent: bool) -> bool;

    /// What changes when there is something to receive or to reclaim. Without it the adapter is asked all the time.
    fn watch(&self) -> Option<Watch> {
        None
    }

    /// The handle that acknowledges interrupts.
    fn interrupt(&self) -> Self::Interrupt;

    /// What went wrong so far.
    fn faults(&self) -> AdapterFaults;
}

/// An adapter whose network delivers everything once, in order and intact, and holds senders back rather than losing packets
/// (libfabric's reliable datagrams): what a message unit stands on. `reliable` makes one of any adapter. One whose network does all that by itself needs none of the methods.
pub trait ReliableAdapter: Adapter {
    /// Whether there is also room for one to node `node`. True for a node that is gone: its packets are refused.
    fn has_room_for(&mut self, _node: u32) -> bool {
        true
    }

    /// Whether packets wait for contexts that are not ready.
    #[inline]
    fn has_aside(&self) -> bool {
        false
    }

    /// Whether such are for the context of node `node` with these [bits](pami::endpoint::Endpoint::to_bits): then none may
    /// follow.
    fn holds_aside(&self, _node: u32, _target: u64) -> bool {
        false
    }

    /// How many packets the receiver of the last one may be given without taking any, this one among them: fewer if buffers run
    /// out.
    #[inline]
    fn patience(&self) -> u32 {
        u32::MAX
    }

    /// Has the packet that was received last sent again, when its context is [`ready`](Self::ready).
    ///
    /// # Errors
    /// The packet, if the network cannot do that.
    fn refuse(&mut self, buffer: RxBuffer) -> Result<(), RxBuffer> {
        Err(buffer)
    }

    /// The context with these [bits](pami::endpoint::Endpoint::to_bits) may be ready.
    fn ready(&mut self, _target: u64) {}

    /// Sends what would have waited a little longer: no hart may run the engine for a while.
    fn settle(&mut self) {}

    /// Whether the round that ends left nothing to the next that could be done without news from the device.
    fn is_settled(&self) -> bool {
        true
    }

    /// By when to run the next round of a hart that does not sleep, if the device has no news.
    fn due(&mut self) -> Option<u64> {
        self.deadline()
    }

    /// When the adapter wants to be flushed again, if nothing else happens, in nanoseconds since the node started.
    fn deadline(&self) -> Option<u64> {
        None
    }

    /// Most nodes that can have something under way with this one at once. Others wait until one of them has not.
    fn most_peers(&self) -> usize {
        usize::MAX
    }

    /// Whether nodes wait for that, here or there, or one has said something by itself: then [`take_said`](Self::take_said) and
    /// [`make_room`](Self::make_room) are to be called in this round.
    fn wants_room(&self) -> bool {
        false
    }

    /// Lets go of nodes that have nothing under way, except those to which `owes` says this node has still to answer.
    fn make_room(&mut self, _owes: impl Fn(u32) -> bool) {}

    /// Sends node `node`, which may be none of the job's, a control packet of these two parts, at most [`HEAD_BYTES`] together,
    /// outside of what is under way between the two: it may get lost, and if it arrives it is whole. False without room.
    fn say(&mut self, _node: u32, _packet: [&[u8]; 2]) -> bool {
        false
    }

    /// The next of what nodes have said so to this one, with the source `APART`; looked for while nodes
    /// [want room](Self::wants_room).
    fn take_said(&mut self) -> Option<RxBuffer> {
        None
    }

    /// All nodes are up: calls of other nodes are answered from now on.
    fn admit(&mut self) {}

    /// This node has nothing under way: peers need not stay for it.
    fn say_last(&mut self) {}

    /// Until when to run the engine, although all is sent, so that peers hear what arrived here.
    fn linger_until(&self) -> u64 {
        0
    }

    /// Node `node` is gone, as the network says: what waits for it comes back as [`Outcome::Failed`], and further packets to
    /// it are refused.
    fn node_died(&mut self, _node: u32) {}
}

/// What came in by [`Frames::receive_frame`].
#[derive(Debug)]
pub enum Frame {
    /// Another node's frame.
    From {
        /// Rank of the node that says it sent it.
        node: u32,
        /// Its word.
        word: u64,
        /// Bytes of data behind that.
        len: usize,
    },
    /// A packet of the network itself. It must go back by [`Adapter::recycle`].
    Control(RxBuffer),
}

/// An adapter that sends frames as they are besides: no window, no order, no acknowledgement, and one that is lost stays lost.
/// What the layers above cost is measured against them (SPEC Q-4).
pub trait Frames: ReliableAdapter {
    /// Sends node `node` a frame of `word` and `data` at once. False without room.
    fn send_frame(&mut self, node: u32, word: u64, data: &'static [u8]) -> bool;

    /// The next such frame. What comes before it is taken in as ever.
    fn receive_frame(&mut self) -> Option<Frame>;

    /// As [`Adapter::arm`], for such frames.
    fn arm_frames(&mut self, sent: bool) -> bool;
}
