//! What adapters need of a network card: frames out, gathered from memory that is lent; frames in, into buffers that are
//! lent; and how a card's device reaches memory (SPEC D-1, B-4).
//!
//! A card knows nothing of what is in a frame. Whoever uses one is compiled for it: no call is virtual.

use core::fmt;
use core::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};

/// Buffers that a card takes to receive into.
pub const RX_BUFFERS: usize = 256;
/// Bytes in front of a frame that are the card's, there and back: zeros as the frame leaves.
pub const HEADROOM: usize = 12;
/// Bytes behind a frame, in a buffer to receive into, that are the card's.
pub const TAILROOM: usize = 64;
/// Bytes of a cache line, where nobody says otherwise.
pub const LINE: usize = 64;
/// Bytes of an Ethernet header.
pub const ETHERNET_HEADER: usize = 14;
/// Frames of a card that does not say have so many bytes behind the Ethernet header.
pub const ETHERNET_MTU: u16 = 1500;

/// Whether an address is one card's: not a group's, and not none.
pub const fn is_station(address: [u8; 6]) -> bool {
    let [a, b, c, d, e, f] = address;
    a & 1 == 0 && a | b | c | d | e | f != 0
}

/// How a device sees memory, and how accesses to memory are ordered against those to its registers.
///
/// There is no mapping and unmapping for each frame: all memory is mapped for devices from boot on, as registered memory
/// may be sent at any time. A port with an IOMMU maps the banks once, where cards are found.
///
/// # Safety
/// At [`device_address`](Self::device_address) of a pointer the device reaches the memory that the pointer points to, and
/// no other.
pub unsafe trait Hal: Send + Sync + 'static {
    /// The device's address of memory that this hart sees at `pointer`. Memory is mapped one to one.
    fn device_address(pointer: *const u8) -> u64 {
        pointer.expose_provenance() as u64
    }

    /// Orders all earlier accesses, to memory and to registers, before all later ones.
    fn barrier() {
        fence(Ordering::SeqCst);
    }

    /// Bytes of a line of the caches, a power of two. This and what follows is for devices that do not see the caches alone.
    fn line() -> usize {
        LINE
    }

    /// `words` words of memory, all zero, aligned to as many bytes as they are, a power of two: harts and devices see them
    /// alike, without caches between. Never given back. None if there are no more, or none at all.
    fn uncached(_words: usize) -> Option<&'static [AtomicU32]> {
        None
    }

    /// Brings what harts wrote there to memory, where devices read it.
    fn clean(_bytes: &[u8]) {}

    /// Forgets what caches hold of these bytes: what devices wrote is read from now on. What harts wrote since they were
    /// [cleaned](Self::clean) may be lost, but for that in lines of which others have a part.
    fn invalidate(_bytes: &mut [u8]) {}
}

/// What a device interrupted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// Nothing but frames that came in or were sent.
    Frames,
    /// What it says of itself has changed: its link, it may be.
    Changed,
    /// It cannot go on until it is reset.
    Broken,
}

/// Acknowledges a card's interrupts; any hart may, at any time.
pub trait Acknowledge: Copy + Send + Sync + 'static {
    /// Makes the device take its interrupt line back that says that frames came in or were sent.
    fn acknowledge(&self);

    /// Takes note of all that the device interrupts for.
    fn serve(&self) -> Told {
        self.acknowledge();
        Told::Frames
    }

    /// Whether the link is up, as the device says now. To be asked by one hart at a time, with what it `was` the last time: a
    /// card whose link comes up again is set to what both sides have agreed on.
    fn link_is_up(&self, _was: bool) -> bool {
        true
    }
}

/// Bytes that a card reads some time later.
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

/// Words that a card changes when there is something to do. Anybody may look at them.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// When something came in.
    pub received: &'static AtomicU16,
    /// When something was sent.
    pub sent: &'static AtomicU16,
}

/// What both sides of a card's link agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkMode {
    /// Megabits a second: 10, 100 or 1000.
    pub speed: u16,
    /// Both ways at once.
    pub full_duplex: bool,
}

/// Frames of the card cannot hold its user's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmallMtu(pub u16);

impl fmt::Display for SmallMtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an MTU of {} bytes holds no packet", self.0)
    }
}

impl core::error::Error for SmallMtu {}

/// A network card.
pub trait Nic: Send + 'static {
    /// Acknowledges the card's interrupts.
    type Interrupt: Acknowledge;

    /// Most bytes of a frame behind its Ethernet header, as the card says.
    fn mtu(&self) -> u16;

    /// Bytes that buffers to receive into are a multiple of and aligned to; a power of two.
    fn line(&self) -> usize {
        LINE
    }

    /// The address that is the card's own, as its node in the device tree or the card itself says, if either does.
    fn station(&self) -> Option<[u8; 6]> {
        None
    }

    /// Lets the card run: it takes frames for either of `own`, which may be the same; those that come in are placed `start` bytes, at least [`HEADROOM`] of them,
    /// into a buffer and have at most `most` bytes, behind which lies [`TAILROOM`]. To be called once, before buffers are lent.
    fn start(&mut self, own: [[u8; 6]; 2], start: usize, most: usize);

    /// Whether [`transmit`](Self::transmit) has room for one more frame.
    fn has_room(&self) -> bool;

    /// Queues the frame of `front`, which begins with the Ethernet header, and `lent`. Returns whether it did; if so, `cookie`
    /// comes back from [`reclaim`](Self::reclaim) once the card needs the bytes no more.
    ///
    /// # Safety
    /// Before `front` lie [`HEADROOM`] zeros, of the same allocation. All that stays readable and unchanged until the cookie
    /// comes back.
    unsafe fn transmit(&mut self, front: Lent, lent: [Lent; 2], cookie: u16) -> bool;

    /// The cookie of a frame that the card is done with: it left, or is lost.
    fn reclaim(&mut self) -> Option<u16>;

    /// Gives the card a buffer to receive into. One that is too short, or beyond [`RX_BUFFERS`], stays out.
    fn lend(&mut self, buffer: &'static mut [u8]);

    /// The next frame that came in: its buffer, and how many bytes it has in there. It is as the wire had it, or longer.
    fn receive(&mut self) -> Option<(&'static mut [u8], usize)>;

    /// Shows the device what was queued and lent since the last time.
    fn flush(&mut self);

    /// Tells the device again of all that it was shown: what told it may have been lost. A card that looks by itself needs
    /// none.
    fn kick_again(&mut self) {}

    /// Asks for an interrupt when the next frame comes in and, if `sent`, when the next has been sent. Returns whether there
    /// is one already; then no interrupt may come for it.
    fn arm(&mut self, sent: bool) -> bool;

    /// What changes when there is something to receive or to reclaim. Without it the card is asked all the time.
    fn watch(&self) -> Option<Watch> {
        None
    }

    /// The handle that acknowledges interrupts.
    fn interrupt(&self) -> Self::Interrupt;

    /// How often the device said something that cannot be, or did not work.
    fn faults(&self) -> u64;
}

#[cfg(test)]
pub(crate) mod fake;
