//! What went over the wire: the packets of a capture file.

use drivers::link::{LINK_BYTES, Link, crc32c};
use drivers::torus::FRAME_HEADER;
use pami::packet::{Envelope, Packet};
use std::collections::HashSet;
use std::path::Path;

/// Bytes of the file's header, and of that of each record.
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
/// The EtherType of frames with a link header.
const RELIABLE: [u8; 2] = [0x88, 0xb6];

/// A packet from one node to another.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The sending node.
    pub from: u32,
    /// The receiving node.
    pub to: u32,
    /// The Ethernet addresses: where it went, and whose it is.
    pub addresses: [[u8; 6]; 2],
    /// The number that the receiving node gave to their connection.
    pub connection: u32,
    /// Its number among the packets of the connection from the one to the other.
    pub number: u32,
    /// What it says of itself.
    pub envelope: Envelope,
    /// The message's header.
    pub header: Vec<u8>,
    /// The message's data.
    pub data: Vec<u8>,
}

/// The packets in a capture that nodes sent each other, each once, in the order in which they first came by. Frames that were
/// damaged on their way or carry no packet are left out.
///
/// # Panics
/// If the file is no capture, or has a frame without damage that is no packet.
pub fn packets(file: &Path) -> Vec<Captured> {
    let bytes = std::fs::read(file).expect("a capture");
    let (header, mut rest) = bytes.split_at(FILE_HEADER);
    assert_eq!(header[..4], 0xa1b2_c3d4u32.to_le_bytes(), "no capture");
    let (mut packets, mut seen) = (Vec::new(), HashSet::new());
    while let Some((record, behind)) = rest.split_first_chunk::<RECORD_HEADER>() {
        let len = u32::from_le_bytes(record[8..12].try_into().expect("four bytes")) as usize;
        let (frame, behind) = behind.split_at(len);
        rest = behind;
        if frame[12..14] != RELIABLE {
            continue;
        }
        let (front, body) = frame.split_at(FRAME_HEADER);
        let rank = |at: usize| u32::from_le_bytes(front[at..at + 4].try_into().expect("four bytes"));
        let (to, from) = (rank(14), rank(18));
        let addresses = [0, 6].map(|at| front[at..at + 6].try_into().expect("six bytes"));
        let Ok(link) = Link::open(body, from, to, crc32c) else { continue };
        let (connection, number) = (link.connection, link.sequence.number());
        if link.length == 0 || !seen.insert((from, to, connection, number)) {
            continue;
        }
        let Packet { envelope, header, data } = Packet::parse(&body[LINK_BYTES..]).expect("a packet");
        let (header, data) = (header.to_vec(), data.to_vec());
        packets.push(Captured { from, to, addresses, connection, number, envelope, header, data });
    }
    packets
}

/// The packets from one node to another in the order in which they were sent, and taken in.
pub fn in_order(packets: &[Captured], from: u32, to: u32) -> Vec<&Captured> {
    let mut between: Vec<_> =
        packets.iter().filter(|packet| (packet.from, packet.to) == (from, to)).collect();
    // Numbers begin below their wrap, and a capture begins with the first.
    let Some(first) = between.first().map(|packet| packet.number) else { return between };
    between.sort_by_key(|packet| (packet.connection, packet.number.wrapping_sub(first) as i32));
    between
}
