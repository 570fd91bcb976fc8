//! A network card whose frames are UDP datagrams to the other nodes, with nobody in between (SPEC H-1, D-1).
//!
//! A frame is a datagram, and goes to the address of the node whose Ethernet address its destination is. It leaves with the call that transmits it, gathered from where it lies: its cookie is back at once,
//! whether it left or not. What the host does not take is lost, as on any Ethernet, and counted: the message unit sends it again.
//! So is what comes from elsewhere than the node that it says it is of. A datagram that comes in is written by the host into the
//! buffer that its reader gets.

use super::card::{QUEUE, RESTS, bytes};
use super::{CardError, Signal, StreamInterrupt};
use crate::nic::{ETHERNET_HEADER, Lent, Nic, RX_BUFFERS};
use alloc::boxed::Box;
use core::net::SocketAddr;
use heapless::Deque;
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketFlags, SocketType, bind,
    recv, recvfrom, sendmsg_addr, socket_with, sockopt,
};

/// Bytes of datagrams that the host is asked to keep until they are read, and until they have left; it may keep fewer.
const KEPT: usize = 1 << 20;

/// The card.
pub struct UdpCard {
    line: &'static Signal,
    mtu: u16,
    /// Where frames begin in their buffers, and the most bytes of one.
    start: usize,
    most: usize,
    /// Where each node is, by rank.
    nodes: Box<[SocketAddr]>,
    /// The rank that an Ethernet address is of, if it is one's.
    rank: fn([u8; 6]) -> Option<u32>,
    spare: Deque<&'static mut [u8], RX_BUFFERS>,
    done: Deque<u16, QUEUE>,
    /// Looks that ask nobody before the next that asks the host: each of those is a system call.
    rests: u32,
    faults: u64,
}

impl UdpCard {
    /// The card of node `own` of those at these addresses, whose frames have `mtu` bytes behind their Ethernet header; `rank` says which
    /// node an Ethernet address is of.
    ///
    /// # Errors
    /// [`CardError`]
    pub fn bind(
        own: usize,
        nodes: Box<[SocketAddr]>,
        mtu: u16,
        rank: fn([u8; 6]) -> Option<u32>,
    ) -> Result<Self, CardError> {
        let &address = nodes.get(own).ok_or(CardError::NoAddress)?;
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let open = || {
            let datagrams = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            bind(&datagrams, &address)?;
            // With what the host keeps by itself more is lost, and sent again.
            let _ = sockopt::set_socket_recv_buffer_size(&datagrams, KEPT);
            let _ = sockopt::set_socket_send_buffer_size(&datagrams, KEPT);
            Signal::new(datagrams)
        };
        let line = open().map_err(|error| CardError::Bind(address, error))?;
        Ok(Self {
            line: Box::leak(Box::new(line)),
            mtu,
            start: 0,
            most: 0,
            nodes,
            rank,
            spare: Deque::new(),
            done: Deque::new(),
            rests: 0,
            faults: 0,
        })
    }

    /// What its interrupts come by.
    pub fn line(&self) -> &'static Signal {
        self.line
    }

    /// The address of the node that an Ethernet address is of.
    fn address(&self, station: Option<&[u8; 6]>) -> Option<SocketAddr> {
        self.nodes.get((self.rank)(*station?)? as usize).copied()
    }

    /// Sends the frame of `parts`. False if it is lost.
    fn send(&self, parts: [&[u8]; 3]) -> bool {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let Some(target) = self.address(parts[0].first_chunk()) else { return false };
        if len > ETHERNET_HEADER + usize::from(self.mtu) {
            return false;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            let none = &mut SendAncillaryBuffer::default();
            match sendmsg_addr(self.line.descriptor(), &target, &parts.map(IoSlice::new), none, flags) {
                Err(Errno::INTR) => {}
                // It has no room, or no way there, or has heard that nobody is there yet, or any more.
                sent => return sent == Ok(len),
            }
        }
    }

    /// Whether this frame is from the node that it says it is of.
    fn is_known(&self, frame: &[u8], from: Option<SocketAddrAny>) -> bool {
        let source = frame.get(6..).and_then(|rest| rest.first_chunk());
        let from = from.and_then(|from| SocketAddr::try_from(from).ok());
        // The rest of an IPv6 address, its scope and flow, is each machine's own.
        let told = |address: SocketAddr| (address.ip(), address.port());
        self.address(source).map(told).is_some_and(|node| Some(node) == from.map(told))
    }
}

impl Nic for UdpCard {
    type Interrupt = StreamInterrupt;

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn start(&mut self, _: [[u8; 6]; 2], start: usize, most: usize) {
        (self.start, self.most) = (start, most);
    }

    fn has_room(&self) -> bool {
        !self.done.is_full()
    }

    unsafe fn transmit(&mut self, front: Lent, [first, second]: [Lent; 2], cookie: u16) -> bool {
        if !self.has_room() {
            return false;
        }
        // SAFETY: the caller's promise, and nothing of it is kept.
        let parts = [front, first, second].map(|lent| unsafe { bytes(lent) });
        self.faults += u64::from(!self.send(parts));
        self.done.push_back(cookie).is_ok()
    }

    fn reclaim(&mut self) -> Option<u16> {
        self.done.pop_front()
    }

    fn lend(&mut self, buffer: &'static mut [u8]) {
        if buffer.len() < self.start + self.most {
            // It stays out.
            self.faults += 1;
            return;
        }
        // One beyond those that it takes stays out.
        let _ = self.spare.push_back(buffer);
    }

    fn receive(&mut self) -> Option<(&'static mut [u8], usize)> {
        if let Some(rests) = self.rests.checked_sub(1) {
            self.rests = rests;
            return None;
        }
        let buffer = self.spare.pop_front()?;
        let place = buffer.get_mut(self.start..self.start + self.most)?;
        // The length is the datagram's own, whatever of it found room.
        let came = recvfrom(self.line.descriptor(), &mut *place, RecvFlags::DONTWAIT | RecvFlags::TRUNC);
        match came {
            Ok((_, len, from)) => {
                if place.get(..len).is_some_and(|frame| self.is_known(frame, from)) {
                    return Some((buffer, len));
                }
                self.faults += 1;
            }
            Err(Errno::AGAIN) => self.rests = RESTS,
            // Of a datagram that was sent, if of any. There may be more to read.
            Err(_) => {}
        }
        // There is room: it was there.
        let _ = self.spare.push_front(buffer);
        None
    }

    fn flush(&mut self) {}

    fn arm(&mut self, sent: bool) -> bool {
        // The look before a sleep, and the first after it, ask the host.
        self.rests = 0;
        let peek = || recv(self.line.descriptor(), &mut [0u8; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK);
        let there = !self.spare.is_empty() && peek().is_ok();
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
