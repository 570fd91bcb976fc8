//! The link header, between a frame's ranks, which lie behind its Ethernet header, and its packet; little-endian. What it is
//! for: [`reliable`](crate::reliable).
//!
//! | bytes | field | what |
//! |---|---|---|
//! | 0..4 | checksum | CRC-32C of both ranks, of the header from here on, and of the packet; all ones on a [lossless](crate::lossless) network |
//! | 4..8 | life | of the job's nodes: frames of another job or life are dropped |
//! | 8..12 | connection | the number that the other side gave to the connection; 0 if it is not known |
//! | 12..16 | sequence | the packet's number, or that of the next one if there is none |
//! | 16..20 | acknowledged | all earlier packets of the other direction have arrived |
//! | 20..28 | sack | bit `i`: so has the packet `i + 1` after that one |
//! | 28..30 | length | bytes of packet or word behind this header; what a network adds behind them is ignored |
//! | 30 | credit | packets from the one acknowledged on that the other side may send |
//! | 31 | flags | [`Flags`] |
//!
//! A frame of the connections' handshake has no `sack`; in its place are the number that its sender gave to the
//! connection and the number of the release that is asked for or refused, 4 bytes each (SPEC R-3). One with all its flags is of no
//! connection: its packet goes by itself ([`Flags::APART`]).
//!
//! The ranks are not in the header but in front of it. With them in the checksum a frame whose ranks were damaged is not taken
//! for another node's. The addresses are not in it.

pub(crate) mod bare;
mod checksum;

pub use checksum::{agrees, crc32c, crc32c_by_products, crc32c_by_shifts};

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of the header.
pub const LINK_BYTES: usize = 32;

/// Bytes of the checksum, which it leaves out.
const CHECKSUM_BYTES: usize = 4;

/// The number of a packet among those from one node to another: 32 bits that wrap, compared within half their range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seq(u32);

impl Seq {
    /// The number of the first packet: so near the end that every job of any length wraps.
    pub const FIRST: Self = Self(0u32.wrapping_sub(48));

    /// The number with this wire form.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The wire form.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The number `count` packets later.
    #[inline]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The number before this.
    #[inline]
    pub const fn minus_one(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// Packets from `earlier` to this one; over 2^31 if `earlier` is in truth the later one.
    #[inline]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this comes before `other`; they are less than 2^31 apart.
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        (self.since(other) as i32) < 0
    }
}

bitflags! {
    /// What a frame is besides an acknowledgement.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Flags: u8 {
        /// A packet follows.
        const PACKET = 1;
        /// The sender has packets but no credit, and wants an answer.
        const PROBE = 2;
        /// The sender calls, or answers a call.
        const CONNECT = 4;
        /// The sender has nothing on the way and would forget the connection.
        const RELEASE = 8;
        /// The sender has forgotten the connection, or never had it.
        const RELEASED = 16;
        /// Not now: the connection goes on, or a call has to wait.
        const KEEP = 32;
        /// The packet `acknowledged` has come, and its receiver is not ready: see `aside`.
        const REFUSED = 64;
        /// A word follows. With `PACKET` the packet is a *void*, and bit `i` says that the one `i + 1` behind it is one too;
        /// else the context with these [bits](pami::endpoint::Endpoint::to_bits), which was not ready, is.
        const WORD = 128;
        /// The other side has acknowledged all that the sender sent: it need not stay to do so again.
        const LAST = Self::RELEASE.bits() | Self::KEEP.bits();
        /// A packet follows that is of no connection.
        const APART = Self::PACKET.bits() | Self::CONNECT.bits() | Self::RELEASE.bits() | Self::RELEASED.bits() | Self::KEEP.bits();
    }
}

impl Flags {
    /// Whether the frame is of the connections' handshake.
    #[inline]
    pub const fn is_handshake(self) -> bool {
        self.intersects(Self::CONNECT.union(Self::RELEASE).union(Self::RELEASED).union(Self::KEEP))
    }
}

/// Little-endian numbers, as aligned as where they lie, so that a core reads each at once, and all of them by words.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C, align(8))]
struct Wire {
    checksum: u32,
    life: u32,
    connection: u32,
    sequence: u32,
    acknowledged: u32,
    /// Lower half, upper half.
    sack: [u32; 2],
    length: u16,
    credit: u8,
    flags: u8,
}

const _: () = assert!(size_of::<Wire>() == LINK_BYTES);

/// A link header taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Of the job's nodes.
    pub life: u32,
    /// The other side's number of the connection; 0 for none.
    pub connection: u32,
    /// In a handshake's frame, the sender's.
    pub own: u32,
    /// In a handshake's frame, which release it is about.
    pub attempt: u32,
    /// The packet's number, or that of the next one.
    pub sequence: Seq,
    /// The first number of the other direction that has not arrived.
    pub acknowledged: Seq,
    /// Which of those behind it have.
    pub sack: u64,
    /// Packets from `acknowledged` on that may be sent.
    pub credit: u8,
    /// Bytes of the packet.
    pub length: u16,
    /// What the frame is.
    pub flags: Flags,
}

/// The frame is not what its sender sent, or no frame with a link header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged;

/// In the place of [`crc32c`] where nothing is damaged: all frames have the same checksum, all ones.
#[inline(always)]
pub fn unsealed(_state: u32, _bytes: &[u8]) -> u32 {
    0
}

/// Both ranks spread over the checksum's start, so that each pair of ranks below 2^16 has its own.
fn start(source: u32, target: u32) -> u32 {
    !(source ^ target.rotate_left(16))
}

/// The wire form at the front of `frame`, wherever that lies. Apart, as both ways would be one, byte by byte.
#[cold]
#[inline(never)]
fn read_anywhere(frame: &[u8]) -> Result<Wire, Damaged> {
    Wire::read_from_prefix(frame).map(|(wire, _)| wire).map_err(|_| Damaged)
}

/// Writes it there.
#[cold]
#[inline(never)]
fn write_anywhere(wire: &Wire, frame: &mut [u8]) {
    let _ = wire.write_to_prefix(frame);
}

/// Likewise.
#[cold]
#[inline(never)]
fn write_checksum_anywhere(place: &mut [u8; CHECKSUM_BYTES], checksum: u32) {
    *place = checksum.to_le_bytes();
}

impl Link {
    /// Writes the wire form to the first [`LINK_BYTES`] of `frame`, in front of a packet that begins with the rest of it and
    /// goes on with `pieces`; `crc` is [`crc32c`], or agrees with it. A shorter frame stays as it is.
    #[inline(always)]
    pub fn seal<const N: usize>(
        &self,
        source: u32,
        target: u32,
        frame: &mut [u8],
        pieces: [&[u8]; N],
        crc: impl Fn(u32, &[u8]) -> u32,
    ) {
        let sack = if self.flags.is_handshake() {
            [self.own, self.attempt]
        } else {
            [self.sack as u32, (self.sack >> 32) as u32]
        };
        let wire = Wire {
            checksum: 0,
            life: self.life.to_le(),
            connection: self.connection.to_le(),
            sequence: self.sequence.number().to_le(),
            acknowledged: self.acknowledged.number().to_le(),
            sack: sack.map(u32::to_le),
            length: self.length.to_le(),
            credit: self.credit,
            flags: self.flags.bits(),
        };
        // Where it lies if it is aligned there.
        match Wire::mut_from_prefix(frame) {
            Ok((place, _)) => *place = wire,
            Err(_) => write_anywhere(&wire, frame),
        }
        let Some((checksum, sealed)) = frame.split_first_chunk_mut::<CHECKSUM_BYTES>() else { return };
        let mut state = crc(start(source, target), sealed);
        for piece in pieces {
            if !piece.is_empty() {
                state = crc(state, piece);
            }
        }
        match u32::mut_from_bytes(checksum) {
            Ok(place) => *place = (!state).to_le(),
            Err(_) => write_checksum_anywhere(checksum, !state),
        }
    }

    /// The life that a frame says, whatever else is wrong with it.
    pub fn life_of(frame: &[u8]) -> Option<u32> {
        read_anywhere(frame).ok().map(|wire| u32::from_le(wire.life))
    }

    /// Reads the header at the front of `frame`, if header and packet are whole. `crc` as for [`seal`](Self::seal).
    ///
    /// # Errors
    /// [`Damaged`], whatever is wrong.
    #[inline(always)]
    pub fn open(
        frame: &[u8],
        source: u32,
        target: u32,
        crc: impl Fn(u32, &[u8]) -> u32,
    ) -> Result<Self, Damaged> {
        // Where it lies if it is aligned there.
        let wire = match Wire::ref_from_prefix(frame) {
            Ok((wire, _)) => *wire,
            Err(_) => read_anywhere(frame)?,
        };
        let length = u16::from_le(wire.length);
        let sealed = frame.get(CHECKSUM_BYTES..LINK_BYTES + usize::from(length)).ok_or(Damaged)?;
        let flags = Flags::from_bits(wire.flags).ok_or(Damaged)?;
        if !crc(start(source, target), sealed) != u32::from_le(wire.checksum) {
            return Err(Damaged);
        }
        let [low, high] = wire.sack.map(u32::from_le);
        let sack = u64::from(low) | u64::from(high) << 32;
        let (own, attempt, sack) = if flags.is_handshake() { (low, high, 0) } else { (0, 0, sack) };
        Ok(Self {
            life: u32::from_le(wire.life),
            connection: u32::from_le(wire.connection),
            own,
            attempt,
            sequence: Seq::new(u32::from_le(wire.sequence)),
            acknowledged: Seq::new(u32::from_le(wire.acknowledged)),
            sack,
            credit: wire.credit,
            length,
            flags,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn links() -> impl Strategy<Value = Link> {
        (any::<[u32; 4]>(), any::<u64>(), any::<u8>(), any::<u8>()).prop_map(
            |([life, connection, sequence, acknowledged], sack, credit, flags)| {
                let flags = Flags::from_bits_truncate(flags);
                let (own, attempt, sack) =
                    if flags.is_handshake() { (sack as u32, (sack >> 32) as u32, 0) } else { (0, 0, sack) };
                Link {
                    life,
                    connection,
                    own,
                    attempt,
                    sequence: Seq::new(sequence),
                    acknowledged: Seq::new(acknowledged),
                    sack,
                    credit,
                    length: 0,
                    flags,
                }
            },
        )
    }

    fn frame(link: &Link, source: u32, target: u32, packet: &[u8]) -> Vec<u8> {
        let (front, rest) = packet.split_at(packet.len() / 3);
        let (middle, _) = rest.split_at(rest.len() / 2);
        let mut sealed = [&[0; LINK_BYTES][..], front].concat();
        link.seal(source, target, &mut sealed, [middle, &rest[middle.len()..]], crc32c);
        [&sealed[..], rest].concat()
    }

    proptest! {
        #[test]
        fn d8_a_frame_reads_back_what_was_written_whatever_follows_it(
            link in links(), ranks in any::<(u32, u32)>(),
            packet in proptest::collection::vec(any::<u8>(), 0..100),
            behind in proptest::collection::vec(any::<u8>(), 0..40)
        ) {
            let link = Link { length: packet.len() as u16, ..link };
            let mut bytes = frame(&link, ranks.0, ranks.1, &packet);
            bytes.extend(behind);
            prop_assert_eq!(Link::open(&bytes, ranks.0, ranks.1, crc32c), Ok(link));
        }

        #[test]
        fn d8_damage_of_up_to_32_adjacent_bits_is_seen(
            link in links(), packet in proptest::collection::vec(any::<u8>(), 0..100),
            at in 0usize..1000, pattern in 1u32..
        ) {
            let link = Link { length: packet.len() as u16, ..link };
            let mut bytes = frame(&link, 1, 2, &packet);
            let last = bytes.len() - 4;
            let bytes_hit = &mut bytes[at % (last + 1)..][..4];
            for (byte, bits) in bytes_hit.iter_mut().zip(pattern.to_le_bytes()) {
                *byte ^= bits;
            }
            prop_assert_eq!(Link::open(&bytes, 1, 2, crc32c), Err(Damaged));
        }

        #[test]
        fn d8_a_frame_that_went_to_another_node_is_seen(
            link in links(), pair in (0u32..1 << 16, 0u32..1 << 16), other in (0u32..1 << 16, 0u32..1 << 16)
        ) {
            prop_assume!(pair != other);
            let bytes = frame(&link, pair.0, pair.1, &[]);
            prop_assert_eq!(Link::open(&bytes, other.0, other.1, crc32c), Err(Damaged));
        }

        #[test]
        fn d9_any_bytes_are_a_frame_or_damaged(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Link::open(&bytes, 0, 1, crc32c);
        }
    }

    proptest! {
        #[test]
        fn d8_order_and_distance_hold_wherever_the_numbers_wrap(
            start in any::<u32>(), step in 0u32..1 << 31, other in 0u32..1 << 31
        ) {
            let seq = Seq::new(start);
            let (a, b) = (seq.plus(step), seq.plus(other));
            prop_assert_eq!(a.since(seq), step);
            prop_assert_eq!(a.is_before(b), step < other);
            prop_assert_eq!(seq.is_before(a), step > 0);
            prop_assert!(!a.is_before(seq));
            prop_assert_eq!(Seq::new(a.number()), a);
        }

        #[test]
        fn d8_a_window_is_the_numbers_that_are_near_enough(
            start in any::<u32>(), window in 1u32..64, number in any::<u32>()
        ) {
            let (first, seq) = (Seq::new(start), Seq::new(number));
            let inside = (0..window).any(|step| first.plus(step) == seq);
            prop_assert_eq!(seq.since(first) < window, inside);
        }
    }
}
