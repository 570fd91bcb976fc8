//! The packet: one fixed 32-byte header, little-endian, and a payload up to the adapter's MTU
//! (docs/design.md decision 7, SPEC D-9).
//!
//! | bytes | field | unit |
//! |---|---|---|
//! | 0 | kind, version | bits 0 to 5 [`Kind`], 5 to 8 [`VERSION`] |
//! | 1 | dispatch | id of the handler |
//! | 2..4 | client | [number of the client](ClientId) at every task |
//! | 4..8, 8..12 | origin task, target task | |
//! | 12, 13 | origin context, target context | offset in the client |
//! | 14..16 | header length | bytes of the message's header at the front of the payload |
//! | 16..20 | message | the origin's number of the message |
//! | 20..24 | offset | bytes of data in the message before this packet's, or a [place in memory](Kind) |
//! | 24..28 | total | bytes of data in the whole message |
//! | 28..30 | payload length | bytes behind this header that belong to the packet |
//! | 30..32 | reserved | 0 |

use crate::endpoint::{ClientId, ContextOffset, Endpoint};
use crate::region::RegionFault;
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the layout, below 8; a packet with another one is dropped.
pub const VERSION: u8 = 2;
/// Bytes of the header on the wire.
pub const HEADER_BYTES: usize = 32;

/// Most bytes of a message's header.
pub const HEADER_LIMIT: usize = 128;
/// Number of dispatch ids of a client; ids run from 0.
pub const DISPATCH_IDS: usize = 32;
/// The first of the ids whose handlers may want a message later.
pub const DEFERRING: u8 = DISPATCH_IDS as u8;
/// Number of those.
pub const DEFERRING_IDS: usize = 8;

/// Whether `id` is a dispatch id of either sort.
pub(crate) fn is_dispatch_id(id: u8) -> bool {
    usize::from(id) < DISPATCH_IDS + DEFERRING_IDS
}

/// Bits of the dispatch field of an [`Kind::Rts`] that are the id; the others say how its data is to be got.
const RTS_ID: u8 = 0x3f;
/// Through the node's memory.
const PULL_NEAR: u8 = 0x40;
/// Over the network.
const PULL_FAR: u8 = 0x80;

/// The dispatch field of an [`Kind::Rts`] whose data is to be got through the node's memory, if `local`, or over the network.
pub(crate) fn pulled_over(id: u8, local: bool) -> u8 {
    id | if local { PULL_NEAR } else { PULL_FAR }
}

/// The id in the dispatch field of a message that may be an [`Kind::Rts`].
pub(crate) fn dispatch_id(dispatch: u8) -> u8 {
    dispatch & RTS_ID
}

/// Whether its data is to be got through memory; `None`: as the target does otherwise.
pub(crate) fn pulls_locally(dispatch: u8) -> Option<bool> {
    (dispatch > RTS_ID).then_some(dispatch & PULL_NEAR != 0)
}

/// Bytes of the header of a signal behind a put.
pub const SIGNAL_BYTES: usize = 8;
/// In the dispatch field of a [`Kind::Put`]: its origin will ask what became of the message.
pub const ENDS: u8 = 1;
/// In the dispatch field of a [`Kind::Gone`]: the node's job returned.
pub const ENDED: u8 = 1;
/// In the dispatch field of a [`Kind::Hello`] to node 0: its sender has heard Go.
pub const STARTED: u8 = 1;
/// In the dispatch field of a [`Kind::Go`] of node 0: its target is told other things of the job, or was reset since that started, and must not
/// start.
pub const REFUSED: u8 = 1;

/// What a packet is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A node tells the fabric that it is up: origin task is the node's rank, total the number of nodes. Where there is no fabric it
    /// tells node 0, the message number is that of its incarnation, data are the words that must be alike at all nodes of a
    /// job, and `dispatch` is [`STARTED`] once it has heard Go.
    Hello = 0,
    /// The answer, once every node has said hello: the job may start. That of node 0 repeats the incarnation, and its data are node
    /// 0's words; with `dispatch` [`REFUSED`] the job may not start there: the words differ, or it has started already.
    Go = 1,
    /// The first packet of an active message; the only one when the data fits.
    EagerFirst = 2,
    /// A later packet of an active message: data only.
    EagerNext = 3,
    /// As `EagerFirst`, and the origin wants an [`Ack`](Kind::Ack) when the target has the whole message.
    EagerFirstAcked = 4,
    /// The target has the messages that its data names: eight bytes, a bit for each of the origin's places of operations.
    Ack = 5,
    /// A message whose data waits at its origin: this packet's data is the [`RegionId`](crate::region::RegionId) to get the
    /// message's from, `total` bytes from `offset` of the region on. The lower six bits of `dispatch` are the handler's; bit 6 says
    /// that the data is to be got through the node's memory, bit 7 over the network, whatever the target does otherwise.
    Rts = 6,
    /// The target has, or does not want, the data of the `Rts` whose number this carries.
    RendezvousDone = 7,
    /// Asks for a [`FenceAck`](Kind::FenceAck) when all that came before it is done (SPEC F-2).
    Fence = 8,
    /// All that came before the fences that its data names, as in an [`Ack`](Kind::Ack), is done.
    FenceAck = 9,
    /// For the target's message unit: data to be placed in the region whose name is the first eight bytes of the
    /// packet's header. If the header ends there, all of it at `offset`; else the header goes on with
    /// [`Segment`](crate::layout::Segment)s of the region, whose lengths add up to the data's; `offset` then means
    /// nothing. `dispatch` is [`ENDS`] if a `PutLast` or `PutSignal` of the same number will follow.
    Put = 10,
    /// As `Put`, and the last of a message: its origin wants a [`Reply`](Kind::Reply).
    PutLast = 11,
    /// For the target's message unit: asks for `total` bytes from `offset` of the region that the header names. Data is
    /// the place that the origin wants them at, four bytes. Nothing is asked for to follow what was asked before.
    Get = 12,
    /// Part of what was asked for, whose place at the origin is `offset`.
    GetData = 13,
    /// As `GetData`, and the last of its request; or the whole answer, if `dispatch` is a [`RegionFault`].
    GetLast = 14,
    /// For the target's message unit: an update of the word at `offset` of the region that the header names; `dispatch`
    /// and data are the encoded [`Rmw`](crate::region::RmwOp).
    Rmw = 15,
    /// The answer to `PutLast` and `Rmw`: `dispatch` is 0 or a [`RegionFault`], data the old value of the word in
    /// eight bytes, or nothing.
    Reply = 16,
    /// One message of a collective, or a piece of one: `dispatch`, header and data are the engine's of collectives
    /// ([`crate::collective::engine`]).
    Collective = 17,
    /// A chunk of a message to be processed (SPEC L-3): the header is a [`ChunkHeader`](crate::balance::ChunkHeader), the data
    /// begins `offset` bytes into the message, its operand's behind its own if there is one, or names memory of the origin's in
    /// this node where they lie.
    Chunk = 18,
    /// The last chunks of the messages that its data names, as in an [`Ack`](Kind::Ack), were refused: `dispatch` is a
    /// [`RegionFault`].
    Refused = 19,
    /// Asks for [`Advice`](Kind::Advice) (SPEC L-2).
    AskAdvice = 20,
    /// What the target can do: `dispatch` are the sub-operations that it has, the lower half of `offset` is the share of its time,
    /// of 1000, that it could give, and bits 16 to 23 are the registered functions that it has.
    Advice = 21,
    /// The fabric's notice that a node is gone and will send nothing more (SPEC R-2): the origin task is the node's rank,
    /// `dispatch` is 0 if it died, [`ENDED`] if its job ended. Believed from the fabric only.
    Gone = 22,
    /// As `EagerFirst`, of a message that the target may refuse (SPEC R-1), and it is to send an [`Ack`](Kind::Ack) when it has all
    /// of it, kept or not.
    Asked = 23,
    /// As `Asked`, but of one that is kept comes [`Admitted`](Kind::Admitted) first, and the [`Ack`](Kind::Ack) when it is
    /// accepted.
    AskedAcked = 24,
    /// The target keeps the messages that its data names, as in an [`Ack`](Kind::Ack).
    Admitted = 25,
    /// The target has refused the `Asked`, `AskedAcked` or `Rts` with this number, and whatever of the kind came behind it: it
    /// is to be sent again.
    Retry = 26,
    /// In a job of more endpoints than have records at each other (`acks`): asks what became of the operations that
    /// the data names, as in an [`Ack`](Kind::Ack). The message number is that of the question.
    Query = 27,
    /// The answer: nothing is known of the operations that its data names. What had an end has been told of before.
    Unknown = 28,
    /// As `Put`, and the last of a put with signal: the last [`SIGNAL_BYTES`] of the packet's header are the signal's. Once the
    /// data is in place the target's message unit puts the packet into the reception FIFO of its target, `offset` 0, whose
    /// context calls handler `dispatch`; or `offset` a [`RegionFault`], if it or a packet before it was refused.
    PutSignal = 29,
    /// As `PutSignal`, and the origin wants an [`Ack`](Kind::Ack) when the handler was called, or a
    /// [`Refused`](Kind::Refused).
    PutSignalAcked = 30,
}

impl Kind {
    /// The kind that a byte stands for.
    pub fn from_byte(byte: u8) -> Option<Self> {
        const KINDS: [Kind; 31] = [
            Kind::Hello,
            Kind::Go,
            Kind::EagerFirst,
            Kind::EagerNext,
            Kind::EagerFirstAcked,
            Kind::Ack,
            Kind::Rts,
            Kind::RendezvousDone,
            Kind::Fence,
            Kind::FenceAck,
            Kind::Put,
            Kind::PutLast,
            Kind::Get,
            Kind::GetData,
            Kind::GetLast,
            Kind::Rmw,
            Kind::Reply,
            Kind::Collective,
            Kind::Chunk,
            Kind::Refused,
            Kind::AskAdvice,
            Kind::Advice,
            Kind::Gone,
            Kind::Asked,
            Kind::AskedAcked,
            Kind::Admitted,
            Kind::Retry,
            Kind::Query,
            Kind::Unknown,
            Kind::PutSignal,
            Kind::PutSignalAcked,
        ];
        KINDS.get(usize::from(byte)).copied()
    }

    /// Whether only a node or the network itself speaks so to the other, outside of any message.
    pub fn is_control(self) -> bool {
        matches!(self, Self::Hello | Self::Go | Self::Gone)
    }

    /// Whether it is the first packet of an eager message.
    pub fn is_first(self) -> bool {
        matches!(self, Self::EagerFirst | Self::EagerFirstAcked | Self::Asked | Self::AskedAcked)
    }

    /// Whether it brings a message to the target's context, and the first of it: a handler's, one of a collective, a chunk.
    pub fn begins_message(self) -> bool {
        self.is_first()
            || matches!(
                self,
                Self::Rts | Self::PutSignal | Self::PutSignalAcked | Self::Collective | Self::Chunk
            )
    }

    /// Whether it is for the target's message unit, whatever its application does (SPEC D-5).
    pub fn is_one_sided(self) -> bool {
        matches!(self, Self::Put | Self::PutLast | Self::Get | Self::Rmw)
    }

    /// Whether the target's message unit answers it without the target's application (SPEC D-5).
    pub fn is_request(self) -> bool {
        matches!(self, Self::PutLast | Self::Get | Self::Rmw)
    }

    /// Whether it is such an answer: what it is for has room for it, whatever its application does.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Reply | Self::GetData | Self::GetLast)
    }
}

/// What a packet says of itself, however it travels: over the torus or through shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// What the packet is for.
    pub kind: Kind,
    /// Id of the handler at the target.
    pub dispatch: u8,
    /// Who sent the message.
    pub origin: Endpoint,
    /// Who is to have it; of the same client as the origin.
    pub target: Endpoint,
    /// The origin context's number of the message; in answers, the number that was asked with.
    pub message: u32,
    /// Bytes of the message's data before this packet's; in one-sided operations and an `Rts` a place in memory, see [`Kind`].
    pub offset: u32,
    /// Bytes of data in the whole message.
    pub total: u32,
}

/// Why bytes are no packet. All of it comes from the wire, so the sender is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Shorter than a header, or than its payload length says.
    Short,
    /// Another version.
    Version,
    /// An unknown kind.
    Kind,
    /// The header length is over the payload length.
    HeaderLength,
    /// The data of the packet lies outside the message's total, or a first packet has none although the message has.
    Range,
}

/// Bits of a kind in the first byte, the version's behind them.
const KIND_BITS: u32 = 5;
const KINDS: u8 = (1 << KIND_BITS) - 1;

/// The first byte.
const fn what(kind: Kind) -> u8 {
    kind as u8 | VERSION << KIND_BITS
}

/// The header as it lies on the wire: numbers are little-endian, and as aligned as where they lie, so that a core reads each at
/// once.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
pub struct Header {
    what: u8,
    dispatch: u8,
    client: u16,
    origin_task: u32,
    target_task: u32,
    origin_context: u8,
    target_context: u8,
    header_len: u16,
    message: u32,
    offset: u32,
    total: u32,
    payload_len: u16,
    reserved: u16,
}

/// A packet taken apart; borrows the buffer it came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Who, whom, what.
    pub envelope: Envelope,
    /// The active message's header; empty but in first packets.
    pub header: &'a [u8],
    /// This packet's part of the message's data.
    pub data: &'a [u8],
}

/// What the headers of all messages of one packet from one endpoint to another have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderTemplate {
    /// Bytes 0 to 8, with dispatch 0, and 8 to 16, with an empty header, as the machine reads them.
    words: [u64; 2],
}

impl HeaderTemplate {
    /// For messages from `origin` to `target`, of the same client.
    pub fn new(origin: Endpoint, target: Endpoint) -> Self {
        let envelope =
            Envelope { kind: Kind::EagerFirst, dispatch: 0, origin, target, message: 0, offset: 0, total: 0 };
        let [first, second, _, _]: [U64; 4] = zerocopy::transmute!(Header::new(&envelope, 0, 0));
        Self { words: [first.get(), second.get()] }
    }

    /// The header of a message for handler `dispatch`, with so many bytes of header and data, together at most a `u16`. Its
    /// number is 0: no answer comes.
    #[inline]
    pub fn header(&self, dispatch: u8, header_len: u16, data_len: u16) -> Header {
        let [first, second] = self.words;
        let words: [U64; 4] = [
            (first | u64::from(dispatch) << 8).into(),
            (second | u64::from(header_len) << 48).into(),
            0.into(),
            (u64::from(data_len) | u64::from(header_len + data_len) << 32).into(),
        ];
        zerocopy::transmute!(words)
    }
}

impl Header {
    /// The wire form of `envelope` in front of `header_len` and `data_len` bytes, which together fit in a `u16`.
    // Where it is no call, most of an envelope is known, and none of it lies in memory.
    #[inline(always)]
    pub fn new(envelope: &Envelope, header_len: u16, data_len: u16) -> Self {
        let &Envelope { kind, dispatch, origin, target, message, offset, total } = envelope;
        // Four words, not thirteen fields, to be stored.
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (client, contexts) = (origin.client().0, [origin, target].map(|it| u32::from(it.context().0)));
        let first = u32::from(what(kind)) | u32::from(dispatch) << 8 | u32::from(client) << 16;
        let words: [U64; 4] = [
            pair(first, origin.task()).into(),
            pair(target.task(), contexts[0] | contexts[1] << 8 | u32::from(header_len) << 16).into(),
            pair(message, offset).into(),
            pair(total, u32::from(header_len + data_len)).into(),
        ];
        zerocopy::transmute!(words)
    }

    /// Writes into the header at the front of `packet`, of a put with signal, what became of it.
    pub fn note_placed(packet: &mut [u8], fault: Option<RegionFault>) {
        if let Ok((header, _)) = Self::mut_from_prefix(packet) {
            header.offset = fault.map_or(0, |fault| fault as u32).to_le();
        }
    }

    /// The header at the front of `bytes`, and what is behind it. It is read where it lies if it is aligned there.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        match Self::ref_from_prefix(bytes) {
            Ok((header, rest)) => Some((*header, rest)),
            Err(_) => Self::read_anywhere(bytes),
        }
    }

    /// Apart, as both ways would be one, byte by byte.
    #[cold]
    #[inline(never)]
    fn read_anywhere(bytes: &[u8]) -> Option<(Self, &[u8])> {
        Self::read_from_prefix(bytes).ok()
    }

    /// What the packet is for; `None` if the byte stands for nothing.
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_byte(self.what & KINDS)
    }

    /// What the packet says of itself; `None` if its kind is none.
    #[inline]
    pub fn envelope(&self) -> Option<Envelope> {
        let client = self.client();
        let endpoint =
            |task, context| Endpoint::from_parts(client, u32::from_le(task), ContextOffset(context));
        Some(Envelope {
            kind: self.kind()?,
            dispatch: self.dispatch,
            origin: endpoint(self.origin_task, self.origin_context),
            target: endpoint(self.target_task, self.target_context),
            message: u32::from_le(self.message),
            offset: u32::from_le(self.offset),
            total: u32::from_le(self.total),
        })
    }

    /// Bytes of the message's header at the front of the payload.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(u16::from_le(self.header_len))
    }

    /// Whether the packet is all of a message that wants no answer.
    #[inline]
    pub fn is_whole(&self) -> bool {
        let data_len = u16::from_le(self.payload_len).wrapping_sub(u16::from_le(self.header_len));
        self.what == what(Kind::EagerFirst)
            && self.offset == 0
            && u32::from_le(self.total) == u32::from(data_len)
    }

    /// The header of a packet that is [whole](Self::is_whole), without taking it apart: [`Packet::parse`] finds no fault with
    /// it either. `None` for any other, and where it is not aligned.
    #[inline]
    pub fn of_whole(bytes: &[u8]) -> Option<&Self> {
        let (header, rest) = Self::ref_from_prefix(bytes).ok()?;
        let fits = header.header_len() <= header.payload_len() && header.payload_len() <= rest.len();
        (fits && header.is_whole()).then_some(header)
    }

    /// Id of the handler at the target.
    #[inline]
    pub fn dispatch(&self) -> u8 {
        self.dispatch
    }

    /// The client of origin and target.
    #[inline]
    fn client(&self) -> ClientId {
        ClientId(u16::from_le(self.client))
    }

    /// Who sent the message.
    #[inline]
    pub fn origin(&self) -> Endpoint {
        Endpoint::from_parts(
            self.client(),
            u32::from_le(self.origin_task),
            ContextOffset(self.origin_context),
        )
    }

    /// Who the message is for.
    #[inline]
    pub fn target(&self) -> Endpoint {
        Endpoint::from_parts(
            self.client(),
            u32::from_le(self.target_task),
            ContextOffset(self.target_context),
        )
    }

    /// Bytes behind this header that belong to the packet.
    #[inline]
    pub fn payload_len(&self) -> usize {
        usize::from(u16::from_le(self.payload_len))
    }
}

impl<'a> Packet<'a> {
    /// Takes a packet apart. Never panics, whatever the bytes; bytes behind the payload are ignored.
    ///
    /// # Errors
    /// What makes the bytes no packet.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (wire, rest) = Header::read(bytes).ok_or(Malformed::Short)?;
        if wire.what & !KINDS != VERSION << KIND_BITS {
            return Err(Malformed::Version);
        }
        let envelope = wire.envelope().ok_or(Malformed::Kind)?;
        let payload = rest.get(..wire.payload_len()).ok_or(Malformed::Short)?;
        let (header, data) = payload.split_at_checked(wire.header_len()).ok_or(Malformed::HeaderLength)?;
        let carries_data = envelope.kind.is_first() || envelope.kind == Kind::EagerNext;
        let end = u64::from(envelope.offset) + data.len() as u64;
        // No data in front of some is how handlers tell a rendezvous.
        let empty = data.is_empty() && envelope.total > 0 && envelope.kind != Kind::EagerNext;
        if carries_data && (empty || end > u64::from(envelope.total)) {
            return Err(Malformed::Range);
        }
        Ok(Self { envelope, header, data })
    }
}

#[cfg(test)]
mod tests;
