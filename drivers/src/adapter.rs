//! What the message unit needs of a network adapter. The torus is one; a tree, a loop-back or an adapter with
//! reliability of its own can stand here as well.

use crate::virtio::Acknowledge;

/// Packets that an adapter may have in flight at once; cookies are below it.
pub const IN_FLIGHT: usize = 256;
/// Receive buffers of a node, over all its contexts.
pub const RX_BUFFERS: usize = 256;
/// Most bytes of header and inline data of one [`Adapter::transmit`].
pub const HEAD_BYTES: usize = 96;
/// The rank that means the network itself instead of a node.
pub const FABRIC: u32 = u32::MAX;

/// Bytes that an adapter reads some time later.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    /// The first byte.
    pub pointer: *const u8,
    /// Number of bytes.
    pub len: usize,
}

impl Lent {
    /// No bytes.
    pub const NONE: Self = Self { pointer: core::ptr::null(), len: 0 };

    /// The bytes of `slice`, without its lifetime.
    pub fn new(slice: &[u8]) -> Self {
        Self { pointer: slice.as_ptr(), len: slice.len() }
    }
}

/// A receive buffer with a packet in it, lent by the adapter. It must go back by [`Adapter::recycle`].
#[derive(Debug)]
pub struct RxBuffer {
    memory: &'static mut [u8],
    start: u16,
    len: u16,
}

impl RxBuffer {
    /// A buffer whose packet lies at `start..start + len`.
    pub fn new(memory: &'static mut [u8], start: u16, len: u16) -> Self {
        Self { memory, start, len }
    }

    /// The packet: header, payload, and whatever the network put behind them.
    #[inline]
    pub fn packet(&self) -> &[u8] {
        self.memory
            .get(usize::from(self.start)..)
            .and_then(|rest| rest.get(..usize::from(self.len)))
            .unwrap_or(&[])
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
    /// Frames too short to hold a packet.
    pub runts: u64,
    /// Frames of another protocol.
    pub foreign: u64,
    /// Frames that are addressed to another node.
    pub stray: u64,
}

/// A network adapter. All methods are called with the message unit's token held.
pub trait Adapter: Send + 'static {
    /// Whether the network delivers everything once, in order and intact, and holds senders back rather than
    /// losing packets.
    const RELIABLE: bool;
    /// Acknowledges the adapter's interrupts without the token.
    type Interrupt: Acknowledge;

    /// Most bytes of payload behind a packet's header.
    fn mtu(&self) -> usize;

    /// Whether [`transmit`](Self::transmit) has room for one more packet.
    fn has_room(&self) -> bool;

    /// Queues the packet `header`, `inline`, `lent` for node `node` ([`FABRIC`]: for the network itself). The first
    /// two are copied and are together at most [`HEAD_BYTES`]. Returns whether it was queued; if so, `cookie`
    /// comes back from [`reclaim`](Self::reclaim) once the device has read everything.
    ///
    /// # Safety
    /// `lent` stays readable and unchanged, and `cookie`, less than [`IN_FLIGHT`], is not used again, until it
    /// comes back.
    unsafe fn transmit(
        &mut self,
        node: u32,
        header: &[u8],
        inline: &[u8],
        lent: [Lent; 2],
        cookie: u16,
    ) -> bool;

    /// A packet that was sent.
    fn reclaim(&mut self) -> Option<u16>;

    /// The next packet that came in.
    fn receive(&mut self) -> Option<RxBuffer>;

    /// Takes a receive buffer back.
    fn recycle(&mut self, buffer: RxBuffer);

    /// Shows the device what was queued and recycled since the last time.
    fn flush(&mut self);

    /// Asks for an interrupt when the next packet comes in and, if `sent`, when the next has been sent. Returns
    /// whether there is one already; then no interrupt may come for it.
    fn arm(&mut self, sent: bool) -> bool;

    /// The handle that acknowledges interrupts.
    fn interrupt(&self) -> Self::Interrupt;

    /// What went wrong so far.
    fn faults(&self) -> AdapterFaults;
}
