//! Ethernet frames of the torus: addresses, Hello, Go and Gone.
//!
//! `dst | src | 0x88B5 | rank of the target | rank of the source | packet`, with ranks or [`FABRIC`], little-endian. The
//! target's address is that of its card or its rank address, `02:50:rr:rr:rr:rr`, where `rr` is the rank, big-endian; the
//! source's is that of its card. Between nodes that mend losses the type is 0x88B6, and a link header comes before the
//! packet or stands alone; what it says is no concern of the fabric's.

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
/// Bytes in front of a packet, or of a link header: an Ethernet header and two ranks.
pub const FRAME_HEADER_BYTES: usize = ETHERNET_BYTES + 8;
/// The first two bytes of each rank address: locally administered, not a group.
const PREFIX: [u8; 2] = [0x02, 0x50];

/// What stands in front of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// The target's address.
    pub destination: [u8; 6],
    /// The source's.
    pub station: [u8; 6],
    /// The EtherType.
    pub ether_type: u16,
    /// Rank of the target.
    pub target: u32,
    /// Rank of the source.
    pub source: u32,
}

impl FrameHeader {
    /// Reads it, or `None` if `frame` is shorter than one.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let (destination, rest) = frame.split_first_chunk()?;
        let (station, rest) = rest.split_first_chunk()?;
        let (ether_type, rest) = rest.split_first_chunk()?;
        let (target, rest) = rest.split_first_chunk()?;
        Some(Self {
            destination: *destination,
            station: *station,
            ether_type: u16::from_be_bytes(*ether_type),
            target: u32::from_le_bytes(*target),
            source: u32::from_le_bytes(*rest.first_chunk()?),
        })
    }
}

/// The address that each card takes frames for beside its own.
pub fn rank_address(rank: u32) -> [u8; 6] {
    let ([a, b], [c, d, e, f]) = (PREFIX, rank.to_be_bytes());
    [a, b, c, d, e, f]
}

/// A frame of `packet` from one rank to another, by rank addresses.
pub fn write(target: u32, source: u32, packet: &[u8]) -> Vec<u8> {
    let ranks = [target, source];
    [
        ranks.map(rank_address).as_flattened(),
        &ETHER_TYPE.to_be_bytes(),
        ranks.map(u32::to_le_bytes).as_flattened(),
        packet,
    ]
    .concat()
}

/// Rank and number of nodes that a frame for the fabric claims, if it is a Hello.
pub fn read_hello(frame: &[u8]) -> Option<(u32, u32)> {
    let packet = Packet::parse(frame.get(FRAME_HEADER_BYTES..)?).ok()?;
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
