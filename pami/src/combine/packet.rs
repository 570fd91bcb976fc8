//! Packets of the collective network: a fixed header of 24 bytes, little-endian, and a payload (SPEC D-9).
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | version | [`VERSION`] |
//! | 1 | kind | [`TreePacketKind`] |
//! | 2, 3 | class route | id and generation |
//! | 4..8 | origin | rank of the node that it comes from; [`NETWORK`] for the network |
//! | 8..12 | sequence | the contributors' or the broadcaster's number |
//! | 12..16 | argument | see [`TreePacketKind`] |
//! | 16, 17 | operator, element | of contributions and results |
//! | 18 | status | [`Status`] of results and refusals |
//! | 19 | role | [`Role`] of the node that is told of a route |
//! | 20..22 | taken | packets of this route that the sender has taken from the receiver, modulo 2^16 |
//! | 22..24 | payload length | bytes behind this header that belong to the packet |
//!
//! A packet travels in an Ethernet frame between a node and the network; the addresses are [`mac`] of the node's rank
//! and of [`NETWORK`], the type is [`ETHER_TYPE`].

use super::alu::AluOperation;
use super::route::{CLASS_ROUTES, ClassRoute, Role};
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the layout; a packet with another one is dropped.
pub const VERSION: u8 = 1;
/// Bytes of the header on the wire.
pub const HEADER_BYTES: usize = 24;
/// Most bytes of payload.
pub const MOST_PAYLOAD: usize = 4096;
/// Calls of one node to its I/O node that may be on their way at once.
pub const SHIPPED_CALLS: usize = 8;
/// Ethernet protocol number: one of those for local experiments.
pub const ETHER_TYPE: u16 = 0x88b5;
/// The rank that stands for the network itself.
pub const NETWORK: u32 = u32::MAX;
/// The first two bytes of each hardware address on this network: locally administered, not a group.
pub const MAC_PREFIX: [u8; 2] = [0x02, 0x54];

/// The hardware address of the node with this rank, or of [`NETWORK`].
pub const fn mac(rank: u32) -> [u8; 6] {
    let [a, b, c, d] = rank.to_be_bytes();
    let [p0, p1] = MAC_PREFIX;
    [p0, p1, a, b, c, d]
}

/// What a packet is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum TreePacketKind {
    /// A node is up; the argument is the number of nodes that it knows of.
    Hello = 0,
    /// The network's answer; the argument is the number of nodes.
    Welcome = 1,
    /// A node's part in a combination.
    Contribute = 2,
    /// A combination, for those that receive. The origin is 0, or the node that spoiled it.
    Result = 3,
    /// From one node, by the network, to all that receive, the origin included.
    Broadcast = 4,
    /// Nothing but what was taken.
    Credit = 5,
    /// A node wants a class route for the members in the payload; the argument is a tag of its own choice.
    Allocate = 6,
    /// To each member: the route is there. The argument is the tag, the origin the node that wanted it.
    Opened = 7,
    /// To the requester: there is none. The argument is the tag, the status says why.
    Refused = 8,
    /// The node that wanted the route has done with it.
    Release = 9,
    /// To each member: the route is gone.
    Closed = 10,
    /// A node's call to its I/O node; the argument is its place among the node's [`SHIPPED_CALLS`], the sequence tells it from
    /// earlier ones there. The payload is the I/O node's concern.
    Ship = 11,
    /// The answer to that node alone, with place and sequence of the call. A status other than good is the network's own: there
    /// was nobody to answer, and there is no payload. Towards the network the origin is the node that called.
    Reply = 12,
}

impl TreePacketKind {
    const ALL: [Self; 13] = [
        Self::Hello,
        Self::Welcome,
        Self::Contribute,
        Self::Result,
        Self::Broadcast,
        Self::Credit,
        Self::Allocate,
        Self::Opened,
        Self::Refused,
        Self::Release,
        Self::Closed,
        Self::Ship,
        Self::Reply,
    ];
}

/// How it went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Status {
    /// Well.
    #[default]
    Good = 0,
    /// Contributions differ in sequence, operation or length: the job is at fault. There is no result.
    Mismatch = 1,
    /// A node that had to contribute has left, see the origin, or the I/O node that had to answer. There is no result.
    Dead = 2,
    /// At some router between the members no class route is free.
    Exhausted = 3,
    /// The members are none, outside the tree, or not with the requester among them: the requester is at fault.
    BadMembers = 4,
    /// A member has not read for long.
    Busy = 5,
    /// The job was given no I/O nodes: who started it has to.
    NoIoNode = 6,
}

impl Status {
    const ALL: [Self; 7] = [
        Self::Good,
        Self::Mismatch,
        Self::Dead,
        Self::Exhausted,
        Self::BadMembers,
        Self::Busy,
        Self::NoIoNode,
    ];
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Good => "good",
            Self::Mismatch => "contributions differ in sequence, operation or length",
            Self::Dead => "a node that had to contribute has left",
            Self::Exhausted => "no class route is free at some router between the members",
            Self::BadMembers => "the members are none, outside the tree or without the requester",
            Self::Busy => "a member of the class route does not read: try again later",
            Self::NoIoNode => "the job was given no I/O nodes",
        })
    }
}

/// What a packet says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeEnvelope {
    /// What it is for.
    pub kind: TreePacketKind,
    /// The class route it is on.
    pub route: ClassRoute,
    /// Where it comes from.
    pub origin: u32,
    /// The contributors' or the broadcaster's number.
    pub sequence: u32,
    /// See [`TreePacketKind`].
    pub argument: u32,
    /// How it is combined.
    pub operation: AluOperation,
    /// How it went.
    pub status: Status,
    /// What the receiver does on the route.
    pub role: Role,
    /// Packets of this route taken so far.
    pub taken: u16,
}

impl TreeEnvelope {
    /// A packet of `kind` on `route` from `origin`, everything else 0.
    pub fn new(kind: TreePacketKind, route: ClassRoute, origin: u32) -> Self {
        Self {
            kind,
            route,
            origin,
            sequence: 0,
            argument: 0,
            operation: AluOperation::NOTHING,
            status: Status::Good,
            role: Role::default(),
            taken: 0,
        }
    }
}

/// Why bytes are no packet. All of it comes from the wire, so the sender is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MalformedTreePacket {
    /// Shorter than a header, or than its payload length says.
    Short,
    /// Another version.
    Version,
    /// A kind, operation, status or role that there is not.
    Unknown,
    /// No class route has this id.
    Route,
    /// More than [`MOST_PAYLOAD`], or a combination's payload is not whole elements.
    Length,
}

/// The header as it lies on the wire.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct TreeHeader {
    version: u8,
    kind: u8,
    route: u8,
    generation: u8,
    origin: U32,
    sequence: U32,
    argument: U32,
    operator: u8,
    element: u8,
    status: u8,
    role: u8,
    taken: U16,
    payload_len: U16,
}

const _: () = assert!(size_of::<TreeHeader>() == HEADER_BYTES);

impl TreeHeader {
    /// The wire form of `envelope` in front of `payload_len` bytes.
    pub fn new(envelope: &TreeEnvelope, payload_len: u16) -> Self {
        let (operator, element) = envelope.operation.to_wire();
        Self {
            version: VERSION,
            kind: envelope.kind as u8,
            route: envelope.route.id,
            generation: envelope.route.generation,
            origin: envelope.origin.into(),
            sequence: envelope.sequence.into(),
            argument: envelope.argument.into(),
            operator,
            element,
            status: envelope.status as u8,
            role: envelope.role.to_byte(),
            taken: envelope.taken.into(),
            payload_len: payload_len.into(),
        }
    }
}

/// A packet taken apart; borrows the buffer it came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreePacket<'a> {
    /// What it says of itself.
    pub envelope: TreeEnvelope,
    /// What it carries.
    pub payload: &'a [u8],
}

impl<'a> TreePacket<'a> {
    /// Takes a packet apart. Never panics, whatever the bytes; bytes behind the payload are ignored.
    ///
    /// # Errors
    /// What makes the bytes no packet.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MalformedTreePacket> {
        let (wire, rest) = TreeHeader::ref_from_prefix(bytes).map_err(|_| MalformedTreePacket::Short)?;
        if wire.version != VERSION {
            return Err(MalformedTreePacket::Version);
        }
        let known = |byte: u8| usize::from(byte);
        let kind = *TreePacketKind::ALL.get(known(wire.kind)).ok_or(MalformedTreePacket::Unknown)?;
        let status = *Status::ALL.get(known(wire.status)).ok_or(MalformedTreePacket::Unknown)?;
        let operation =
            AluOperation::from_wire(wire.operator, wire.element).ok_or(MalformedTreePacket::Unknown)?;
        let role = Role::from_byte(wire.role).ok_or(MalformedTreePacket::Unknown)?;
        if usize::from(wire.route) >= CLASS_ROUTES {
            return Err(MalformedTreePacket::Route);
        }
        let payload = rest.get(..usize::from(wire.payload_len.get())).ok_or(MalformedTreePacket::Short)?;
        let combines = matches!(kind, TreePacketKind::Contribute | TreePacketKind::Result);
        if payload.len() > MOST_PAYLOAD
            || (combines && !payload.len().is_multiple_of(operation.element_len()))
        {
            return Err(MalformedTreePacket::Length);
        }
        let envelope = TreeEnvelope {
            kind,
            route: ClassRoute { id: wire.route, generation: wire.generation },
            origin: wire.origin.get(),
            sequence: wire.sequence.get(),
            argument: wire.argument.get(),
            operation,
            status,
            role,
            taken: wire.taken.get(),
        };
        Ok(Self { envelope, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::combine::{Element, Operator};
    use proptest::prelude::*;
    use std::vec::Vec;

    fn envelopes() -> impl Strategy<Value = TreeEnvelope> {
        let bytes = (0usize..13, 0u8..16, any::<u8>(), 0usize..30, 0usize..7, 0u8..4);
        (bytes, any::<[u32; 3]>(), any::<u16>()).prop_map(
            |((kind, id, generation, operation, status, role), [origin, sequence, argument], taken)| {
                TreeEnvelope {
                    kind: TreePacketKind::ALL[kind],
                    route: ClassRoute { id, generation },
                    origin,
                    sequence,
                    argument,
                    operation: AluOperation::all().nth(operation).unwrap(),
                    status: Status::ALL[status],
                    role: Role::from_byte(role).unwrap(),
                    taken,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn d9_any_bytes_are_a_packet_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = TreePacket::parse(&bytes);
        }

        #[test]
        fn d9_a_damaged_packet_never_reaches_outside_its_buffer(
            envelope in envelopes(), payload in proptest::collection::vec(any::<u8>(), 0..100),
            at in 0usize..HEADER_BYTES, byte in any::<u8>()
        ) {
            let mut bytes = Vec::from(TreeHeader::new(&envelope, payload.len() as u16).as_bytes());
            bytes.extend(&payload);
            bytes[at] = byte;
            if let Ok(packet) = TreePacket::parse(&bytes) {
                prop_assert!(packet.payload.len() <= payload.len());
                prop_assert!(usize::from(packet.envelope.route.id) < CLASS_ROUTES);
            }
        }

        #[test]
        fn d3_a_packet_reads_back_what_was_written(
            envelope in envelopes(), words in proptest::collection::vec(any::<u64>(), 0..16)
        ) {
            let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut bytes = Vec::from(TreeHeader::new(&envelope, payload.len() as u16).as_bytes());
            bytes.extend(&payload);
            prop_assert_eq!(TreePacket::parse(&bytes), Ok(TreePacket { envelope, payload: &payload }));
        }
    }

    #[test]
    fn d9_kinds_and_statuses_are_numbered_as_they_are_listed() {
        assert!(TreePacketKind::ALL.iter().enumerate().all(|(number, &kind)| kind as usize == number));
        assert!(Status::ALL.iter().enumerate().all(|(number, &status)| status as usize == number));
    }

    #[test]
    fn d9_a_combination_of_half_an_element_is_refused() {
        let contribution = TreeEnvelope {
            operation: AluOperation::new(Operator::Sum, Element::F64).unwrap(),
            ..TreeEnvelope::new(TreePacketKind::Contribute, ClassRoute::WORLD, 3)
        };
        let mut bytes = Vec::from(TreeHeader::new(&contribution, 4).as_bytes());
        bytes.extend([0; 8]);
        assert_eq!(TreePacket::parse(&bytes), Err(MalformedTreePacket::Length));
        bytes[22] = 8;
        assert_eq!(TreePacket::parse(&bytes).unwrap().payload, [0; 8]);
    }
}
