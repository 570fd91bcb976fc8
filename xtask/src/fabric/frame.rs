//! Ethernet frames of the torus: addresses, Hello, Go and Gone.
//!
//! `dst 02:50:rr:rr:rr:rr | src 02:50:rr:rr:rr:rr | 0x88B5 | packet`, where `rr` is a rank, big-endian, or
//! [`FABRIC`]. Between nodes that mend losses the type is 0x88B6, and a link header comes before the packet or
//! stands alone; what it says is no concern of the fabric's.

use super::Fate;
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::{ENDED, Envelope, Header, Kind, Packet};
use zerocopy::IntoBytes;

/// EtherType of the torus: the first of the two for local experiments.
pub const ETHER_TYPE: u16 = 0x88B5;
/// The other: frames with a link header.
pub const ETHER_TYPE_RELIABLE: u16 = 0x88B6;
/// Bytes of a link header.
pub const LINK_BYTES: usize = 32;
/// The rank that stands for the fabric itself.
pub const FABRIC: u32 = u32::MAX;
/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// The first two bytes of each address: locally administered, not a group.
const PREFIX: [u8; 2] = [0x02, 0x50];

/// What the Ethernet header of a frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// Rank in the target address; `None` if it is no address of ours.
    pub target: Option<u32>,
    /// Likewise of the source address.
    pub source: Option<u32>,
    /// The EtherType.
    pub ether_type: u16,
}

impl Addresses {
    /// Reads the header, or `None` if `frame` is shorter than one.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let header = frame.first_chunk::<ETHERNET_BYTES>()?;
        let [target @ .., _, _, _, _, _, _, _, _] = header;
        let [_, _, _, _, _, _, source @ .., high, low] = header;
        Some(Self {
            target: rank(target),
            source: rank(source),
            ether_type: u16::from_be_bytes([*high, *low]),
        })
    }
}

fn rank(&[a, b, rank @ ..]: &[u8; 6]) -> Option<u32> {
    ([a, b] == PREFIX).then_some(u32::from_be_bytes(rank))
}

/// A frame of `packet` from one rank to another.
pub fn write(target: u32, source: u32, packet: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET_BYTES + packet.len());
    for rank in [target, source] {
        frame.extend(PREFIX);
        frame.extend(rank.to_be_bytes());
    }
    frame.extend(ETHER_TYPE.to_be_bytes());
    frame.extend(packet);
    frame
}

/// Rank and number of nodes that a frame for the fabric claims, if it is a Hello.
pub fn read_hello(frame: &[u8]) -> Option<(u32, u32)> {
    let packet = Packet::parse(frame.get(ETHERNET_BYTES..)?).ok()?;
    let envelope = packet.envelope;
    (envelope.kind == Kind::Hello).then_some((envelope.origin.task(), envelope.total))
}

/// The fabric's leave to start.
pub fn go(node: u32, nodes: u32) -> Vec<u8> {
    write(node, FABRIC, Header::new(&control(Kind::Go, FABRIC, node, nodes), 0, 0).as_bytes())
}

/// The fabric's notice to `node` that another is gone.
pub fn gone(node: u32, nodes: u32, departed: u32, fate: Fate) -> Vec<u8> {
    let dispatch = if fate == Fate::Ended { ENDED } else { 0 };
    let envelope = Envelope { dispatch, ..control(Kind::Gone, departed, node, nodes) };
    write(node, FABRIC, Header::new(&envelope, 0, 0).as_bytes())
}

/// What a control packet says besides its kind: who, whom, and how many nodes there are.
fn control(kind: Kind, origin: u32, target: u32, nodes: u32) -> Envelope {
    let endpoint = |task| Endpoint::from_parts(ClientId(0), task, ContextOffset(0));
    Envelope {
        kind,
        dispatch: 0,
        origin: endpoint(origin),
        target: endpoint(target),
        message: 0,
        offset: 0,
        total: nodes,
    }
}

/// A node's Hello, as the firmware sends it.
#[cfg(test)]
pub fn hello(node: u32, nodes: u32) -> Vec<u8> {
    write(FABRIC, node, Header::new(&control(Kind::Hello, node, FABRIC, nodes), 0, 0).as_bytes())
}
