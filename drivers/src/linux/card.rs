//! A network card that is a stream of frames to the fabric, each behind its length in four bytes, as emulators speak it
//! (SPEC H-1, D-1).
//!
//! A frame leaves with the call that transmits it, gathered from where it lies: its cookie is back at once. What the host
//! does not take is kept and goes first, and nothing else is sent meanwhile: its cookie comes back when all of it went, so that
//! whoever finds no room hears of it by a cookie, as with every card. Frames come in as many at once as the host
//! has, and are copied to where they are wanted. A fabric that is gone is a cable that was pulled: nothing comes, and what
//! is sent is lost.

use super::Signal;
use crate::nic::{Acknowledge, ETHERNET_HEADER, Lent, Nic, RX_BUFFERS};
use alloc::boxed::Box;
use alloc::vec;
use core::fmt;
use core::marker::PhantomData;
use core::net::SocketAddr;
use core::ops::Range;
use core::slice;
use heapless::Deque;
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketType, connect, recv,
    sendmsg, socket,
};

/// Frames whose cookies were not asked for.
pub(super) const QUEUE: usize = 64;
/// Bytes of the length before a frame.
const PREFIX: usize = 4;
/// Bytes that are read at once, at most.
const INPUT: usize = 256 << 10;
/// See [`Card::next`].
pub(super) const RESTS: u32 = 63;

/// Why there is no card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CardError {
    /// Nobody listens there.
    NoFabric(Errno),
    /// Frames would not fit into what is read at once.
    Mtu(u16),
    /// The list of all nodes' addresses has none of this one.
    NoAddress,
    /// The node's address cannot be had on this machine.
    Bind(SocketAddr, Errno),
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFabric(error) => {
                write!(f, "the fabric cannot be reached (error {})", error.raw_os_error())
            }
            Self::Mtu(mtu) => write!(f, "frames of {mtu} bytes are too long"),
            Self::NoAddress => f.write_str("this node has no address in the list of them"),
            Self::Bind(address, error) => {
                write!(f, "the address {address} cannot be bound (error {})", error.raw_os_error())
            }
        }
    }
}

impl core::error::Error for CardError {}

/// Acknowledges the card's interrupts, of which there is nothing to be said: they last until what came in was read.
#[derive(Clone, Copy, Debug)]
pub struct StreamInterrupt;

impl Acknowledge for StreamInterrupt {
    fn acknowledge(&self) {}
}

/// The card. What it is reached by is the host's own memory, so `H` is nothing to it.
pub struct Card<H> {
    line: &'static Signal,
    mtu: u16,
    /// Where frames begin in their buffers, and the most bytes of one.
    start: usize,
    most: usize,
    spare: Deque<&'static mut [u8], RX_BUFFERS>,
    done: Deque<u16, QUEUE>,
    /// What was read; the part that was not looked at.
    input: Box<[u8]>,
    unread: Range<usize>,
    /// A frame that the host has taken in part; the part that it has not.
    output: Box<[u8]>,
    unsent: Range<usize>,
    /// That frame's cookie.
    kept: Option<u16>,
    /// Looks at what was read alone before the next that asks the host: each of those is a system call.
    rests: u32,
    /// Somebody may sleep until something comes in.
    armed: bool,
    faults: u64,
    hal: PhantomData<fn() -> H>,
}

impl<H> Card<H> {
    /// The card behind the listener at `path`, whose frames have `mtu` bytes behind their Ethernet header.
    ///
    /// # Errors
    /// [`CardError`]
    pub fn connect(path: &str, mtu: u16) -> Result<Self, CardError> {
        let longest = PREFIX + ETHERNET_HEADER + usize::from(mtu);
        if 2 * longest > INPUT {
            return Err(CardError::Mtu(mtu));
        }
        let stream = socket(AddressFamily::UNIX, SocketType::STREAM, None).map_err(CardError::NoFabric)?;
        let address = SocketAddrUnix::new(path).map_err(CardError::NoFabric)?;
        connect(&stream, &address).map_err(CardError::NoFabric)?;
        Ok(Self {
            line: Box::leak(Box::new(Signal::new(stream).map_err(CardError::NoFabric)?)),
            mtu,
            start: 0,
            most: 0,
            spare: Deque::new(),
            done: Deque::new(),
            input: vec![0; INPUT].into_boxed_slice(),
            unread: 0..0,
            output: vec![0; longest].into_boxed_slice(),
            unsent: 0..0,
            kept: None,
            rests: 0,
            armed: false,
            faults: 0,
            hal: PhantomData,
        })
    }

    /// What its interrupts come by.
    pub fn line(&self) -> &'static Signal {
        self.line
    }

    fn is_gone(&self) -> bool {
        self.line.is_gone()
    }

    fn lose(&mut self) {
        self.line.lose();
        self.unsent = 0..0;
        self.give_back();
    }

    /// The frame that was kept has left.
    fn give_back(&mut self) {
        if let Some(cookie) = self.kept.take() {
            // It was kept while there was room.
            let _ = self.done.push_back(cookie);
        }
    }

    /// Sends `parts`. Returns how many bytes the host took.
    fn send(&mut self, parts: &[IoSlice<'_>]) -> usize {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match sendmsg(self.line.descriptor(), parts, &mut SendAncillaryBuffer::default(), flags) {
                Ok(bytes) => return bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return 0,
                Err(_) => {
                    self.lose();
                    return 0;
                }
            }
        }
    }

    /// Sends what is left of a frame.
    fn send_rest(&mut self) {
        if !self.unsent.is_empty() {
            let output = core::mem::take(&mut self.output);
            let sent = self.send(&[IoSlice::new(&output[self.unsent.clone()])]);
            self.output = output;
            self.unsent.start = (self.unsent.start + sent).min(self.unsent.end);
            if self.unsent.is_empty() {
                self.give_back();
            }
        }
    }

    /// Keeps what is left of a frame of `parts` behind its first `sent` bytes.
    fn keep(&mut self, parts: [&[u8]; 4], sent: usize, cookie: u16) {
        let mut end = 0;
        for part in parts {
            self.output[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        (self.unsent, self.kept) = (sent..end, Some(cookie));
    }

    /// Where the next whole frame lies in what was read. Reads once if there is none, but for [`RESTS`] times after it read nothing.
    fn next(&mut self) -> Option<Range<usize>> {
        let found = self.whole();
        if found.is_some() || self.is_gone() {
            return found;
        }
        if let Some(rests) = self.rests.checked_sub(1) {
            self.rests = rests;
            return None;
        }
        self.input.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        match recv(self.line.descriptor(), &mut self.input[self.unread.end..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.lose(),
            Ok((bytes, _)) => self.unread.end += bytes,
            Err(Errno::AGAIN | Errno::INTR) => {
                self.rests = RESTS;
                return None;
            }
            Err(_) => self.lose(),
        }
        self.whole()
    }

    /// Interrupts if there is a frame that was read with others: the host interrupts for what was not read alone.
    fn tell(&mut self) {
        if self.armed && self.whole().is_some() {
            self.armed = false;
            self.line.tell();
        }
    }

    fn whole(&mut self) -> Option<Range<usize>> {
        let (&prefix, rest) = self.input[self.unread.clone()].split_first_chunk::<PREFIX>()?;
        let len = u32::from_be_bytes(prefix) as usize;
        if len > INPUT - PREFIX {
            // Nothing behind it can be told apart any more.
            self.faults += 1;
            self.lose();
            self.unread = 0..0;
            return None;
        }
        let from = self.unread.start + PREFIX;
        (rest.len() >= len).then(|| from..from + len)
    }
}

/// The bytes of `lent`.
///
/// # Safety
/// They are readable and unchanged as long as the result lives.
pub(super) unsafe fn bytes<'a>(lent: Lent) -> &'a [u8] {
    if lent.len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(lent.pointer, lent.len) }
}

impl<H: 'static> Nic for Card<H> {
    type Interrupt = StreamInterrupt;

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn start(&mut self, _: [[u8; 6]; 2], start: usize, most: usize) {
        (self.start, self.most) = (start, most);
    }

    fn has_room(&self) -> bool {
        self.unsent.is_empty() && !self.done.is_full()
    }

    unsafe fn transmit(&mut self, front: Lent, lent: [Lent; 2], cookie: u16) -> bool {
        self.send_rest();
        if !self.has_room() {
            return false;
        }
        let [first, second] = lent;
        // SAFETY: the caller's promise, and nothing of it is kept.
        let [front, first, second] = [front, first, second].map(|lent| unsafe { bytes(lent) });
        let len = front.len() + first.len() + second.len();
        if PREFIX + len > self.output.len() {
            self.faults += 1;
        } else if !self.is_gone() {
            let prefix = (len as u32).to_be_bytes();
            let parts = [&prefix[..], front, first, second];
            let sent = self.send(&parts.map(IoSlice::new));
            if sent < PREFIX + len && !self.is_gone() {
                self.keep(parts, sent, cookie);
                return true;
            }
        }
        // There is room, as was seen.
        self.done.push_back(cookie).is_ok()
    }

    fn reclaim(&mut self) -> Option<u16> {
        self.done.pop_front()
    }

    fn lend(&mut self, buffer: &'static mut [u8]) {
        if self.spare.is_empty() {
            self.tell();
        }
        // One beyond those that it takes stays out.
        let _ = self.spare.push_back(buffer);
    }

    fn receive(&mut self) -> Option<(&'static mut [u8], usize)> {
        if self.spare.is_empty() {
            return None;
        }
        loop {
            let frame = self.next()?;
            self.unread.start = frame.end;
            let len = frame.len();
            if len > self.most {
                self.faults += 1;
                continue;
            }
            let buffer = self.spare.pop_front()?;
            let Some(place) = buffer.get_mut(self.start..self.start + len) else {
                // A buffer that is too short stays out.
                self.faults += 1;
                return None;
            };
            place.copy_from_slice(&self.input[frame]);
            self.tell();
            return Some((buffer, len));
        }
    }

    fn flush(&mut self) {
        self.send_rest();
    }

    fn arm(&mut self, sent: bool) -> bool {
        self.send_rest();
        self.line.want_room(!self.unsent.is_empty());
        self.line.take_back();
        // The look before a sleep, and the first after it, ask the host.
        self.rests = 0;
        let there = !self.spare.is_empty() && self.next().is_some();
        self.rests = 0;
        self.armed = !there;
        (sent && !self.done.is_empty()) || there
    }

    fn interrupt(&self) -> StreamInterrupt {
        StreamInterrupt
    }

    fn faults(&self) -> u64 {
        self.faults
    }
}

#[cfg(test)]
mod tests;
