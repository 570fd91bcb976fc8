//! The packets of collectives.
//!
//! The envelope's dispatch byte is the [`Word`]; `offset` and `total` are bytes of the message that the packet is of. The
//! header is 20 bytes, little-endian: geometry, sequence, part, tag, digest, four each; then 20 of the call's
//! [`Notice`], if not all endpoints are instructed. An offer's digest and total are the region's name, its offset is
//! where the message lies in it. The tag of an abort, a report or a tell is the reason and its digest the
//! rank or node that it is about; that of a geometry's creation has the digest of the members in its part.

use super::bulk::{BYTES_PER_ADVANCE, Bulk};
use crate::collective::cost::SHORT_LIMIT;
use crate::device::{Full, Gone, Path, Port, Unreachable};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::packet::{Envelope, Kind};
use crate::region::{RegionFault, RegionId, RemoteData};
use crate::transport::Transport;
use rings::bulletin::Bulletin;
use rings::shared::{Extent, Shared};
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What a packet says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Word {
    Short = 0,
    Request = 1,
    Clear = 2,
    Data = 3,
    Abort = 4,
    Offer = 5,
    Credit = 6,
    Report = 7,
    Tell = 8,
    Taken = 9,
}

impl Word {
    /// Whether it is of a message that may come after its collective has ended.
    pub(super) fn may_come_late(self) -> bool {
        matches!(self, Self::Clear | Self::Request)
    }

    /// Whether it is of a message that may come after its collective has failed.
    pub(super) fn may_be_cut_off(self) -> bool {
        matches!(self, Self::Data | Self::Offer | Self::Taken)
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        use Word::{Abort, Clear, Credit, Data, Offer, Report, Request, Short, Taken, Tell};
        const WORDS: [Word; 10] = [Short, Request, Clear, Data, Abort, Offer, Credit, Report, Tell, Taken];
        WORDS.get(usize::from(byte)).copied()
    }
}

/// The collective that a message is of, at any member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub(super) geometry: u32,
    pub(super) sequence: u32,
    /// Which of several schedules of the collective, and above [`RUN`] which run of it; [`CALLED`] is set if the number
    /// of the collective is the caller's.
    pub(super) part: u32,
}

/// Of a part: one run more. Runs as far apart as it takes to count round are never under way together.
const RUN: u32 = 1 << 20;
/// Where in an abort's tag the reason of the member that gave up begins.
const REASON: u32 = 16;
/// Of a part: not all endpoints were instructed.
pub(super) const CALLED: u32 = 1 << 31;
/// Number of a geometry's creation; the world has none.
pub(super) const CREATION: u32 = 0;
/// Parts that can be told from each other and from the barrier in front of them.
pub(super) const MOST_PARTS: u32 = RUN - 1;
/// The part of the barrier in front of the others.
pub(super) const GATE: u32 = CALLED - 1;

impl Key {
    /// Whether both are of one collective.
    pub(super) fn is_of(self, other: Self) -> bool {
        (self.geometry, self.sequence, self.part & CALLED)
            == (other.geometry, other.sequence, other.part & CALLED)
    }

    /// Whether it is a geometry's creation.
    pub(super) fn is_creation(self) -> bool {
        self.sequence == CREATION && self.part & CALLED == 0
    }

    /// Of the next run.
    pub(super) fn next_run(self) -> Self {
        let unexpected = CALLED | (RUN - 1);
        Self { part: (self.part & unexpected) | (self.part.wrapping_add(RUN) & !unexpected), ..self }
    }
}

/// Whether sequence number `a` comes before `b`.
pub(super) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

// Words, for processors that load them from multiples only.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C, align(4))]
struct CallHeader {
    geometry: U32,
    sequence: U32,
    part: U32,
    tag: U32,
    digest: U32,
}

/// The call, in the header of a packet to an endpoint that may not have been instructed.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(4))]
pub(super) struct Notice {
    pub(super) what: u8,
    pub(super) algorithm: u8,
    pub(super) form: u8,
    pub(super) divided: u8,
    pub(super) root: U32,
    pub(super) len: U32,
    pub(super) radix: U32,
    pub(super) chunk: U32,
}

/// All that can be in a packet's header.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct WithNotice {
    header: CallHeader,
    notice: Notice,
}

/// Most bytes of a packet's header.
const HEADER_BYTES: usize = size_of::<WithNotice>();

/// What a packet's header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label {
    pub(super) key: Key,
    pub(super) tag: u32,
    /// Of the call, the same at all members that mean the same.
    pub(super) digest: u32,
    pub(super) notice: Option<Notice>,
}

impl Label {
    pub(super) fn parse(header: &[u8]) -> Option<Self> {
        // Where it lies, if it can be read there.
        let (header, rest) = match CallHeader::ref_from_prefix(header) {
            Ok((header, rest)) => (*header, rest),
            Err(_) => CallHeader::read_from_prefix(header).ok()?,
        };
        let notice = if rest.is_empty() { None } else { Some(Notice::read_from_bytes(rest).ok()?) };
        let key =
            Key { geometry: header.geometry.get(), sequence: header.sequence.get(), part: header.part.get() };
        Some(Self { key, tag: header.tag.get(), digest: header.digest.get(), notice })
    }

    fn wire(&self) -> CallHeader {
        let Key { geometry, sequence, part } = self.key;
        CallHeader {
            geometry: geometry.into(),
            sequence: sequence.into(),
            part: part.into(),
            tag: self.tag.into(),
            digest: self.digest.into(),
        }
    }

    /// Of a packet that is of no collective.
    pub(super) const NONE: Self =
        Self { key: Key { geometry: 0, sequence: 0, part: 0 }, tag: 0, digest: 0, notice: None };

    /// The abort of a collective that ended with an error.
    pub(super) fn abort(key: Key, error: OperationError) -> Self {
        let (tag, digest) = match error {
            OperationError::NodeDead(node) => (0, node),
            OperationError::Mismatch(rank) => (1, rank),
            OperationError::Abandoned { rank, reason } => (2 | u32::from(reason) << REASON, rank),
            OperationError::Unreachable(rank) => (3, rank),
            OperationError::Differs => (4, 0),
            // None takes part.
            OperationError::Region(_) | OperationError::NodeEnded(_) | OperationError::Forgotten => (2, 0),
        };
        Self { key, tag, digest, notice: None }
    }

    /// The same of a geometry's creation, with the digest of its members if there is one.
    pub(super) fn of_members(self, digest: Option<u32>) -> Self {
        let part = digest.map_or(self.key.part, |digest| self.key.part & CALLED | digest & !CALLED);
        Self { key: Key { part, ..self.key }, ..self }
    }

    /// What is known of the members' digest by the abort of a creation.
    pub(super) fn members(&self) -> u32 {
        self.key.part & !CALLED
    }

    /// Why the collective was aborted.
    pub(super) fn reason(&self) -> Option<OperationError> {
        if self.tag & 0xffff == 2 {
            return Some(OperationError::Abandoned {
                rank: self.digest,
                reason: (self.tag >> REASON) as u16,
            });
        }
        match self.tag {
            0 => Some(OperationError::NodeDead(self.digest)),
            1 => Some(OperationError::Mismatch(self.digest)),
            3 => Some(OperationError::Unreachable(self.digest)),
            4 => Some(OperationError::Differs),
            _ => None,
        }
    }
}

/// Why a packet did not go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// No room now.
    Full,
    /// The target's node is dead.
    Dead(u32),
    /// Nobody can reach it.
    Unreachable,
    /// It has offered what it does not have.
    Refused,
}

/// How far data is that is got.
pub(super) enum Pulling {
    /// So many bytes of it are there.
    There(usize),
    /// The get is under way.
    Begun,
    /// There is no such region, or not any more.
    Refused(RegionFault),
}

/// Where packets go out, and data is got.
pub(super) struct Wire<'a, P: Port> {
    port: &'a mut P,
    transport: &'a mut Transport<P>,
    /// Something found no room.
    refused: bool,
}

impl<'a, P: Port> Wire<'a, P> {
    pub(super) fn new(port: &'a mut P, transport: &'a mut Transport<P>) -> Self {
        Self { port, transport, refused: false }
    }

    /// Whether something found no room.
    pub(super) fn has_refused(&self) -> bool {
        self.refused
    }

    /// Something else than a packet found no room.
    pub(super) fn note_refused(&mut self) {
        self.refused = true;
    }

    /// Whether packets can go to an endpoint.
    pub(super) fn reaches(&self, target: Endpoint) -> bool {
        self.transport.locate(self.port, target).is_ok()
    }

    /// Bytes of data that a packet has room for.
    pub(super) fn room(&self) -> usize {
        self.port.mtu().saturating_sub(HEADER_BYTES)
    }

    /// Most bytes of a message that goes eagerly; the same at both ends.
    pub(super) fn short_limit(&self) -> usize {
        SHORT_LIMIT.min(self.room())
    }

    /// Ends the sleep of whoever may wait for what was shown.
    #[inline]
    pub(super) fn tell_reader(&self, bulletin: &'static Bulletin) {
        self.port.tell_reader(bulletin);
    }

    /// Where others find this memory, if they reach it.
    pub(super) fn exposed(&self, memory: &Shared) -> Option<Extent> {
        self.port.exposed(memory)
    }

    /// Reads so many bytes of what another one has exposed. `false` if it has not so many.
    pub(super) fn read_exposed(
        &self,
        from: Extent,
        offset: usize,
        into: (&Shared, usize),
        len: usize,
    ) -> bool {
        self.port.read_exposed(from, offset, into, len)
    }

    /// Nodes that are gone so far.
    #[inline]
    pub(super) fn deaths(&self) -> u32 {
        self.port.deaths()
    }

    /// Queues a packet whose `len` bytes of data `fill` writes.
    pub(super) fn push(
        &mut self,
        target: Endpoint,
        word: Word,
        label: &Label,
        measures: (usize, usize, usize),
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Stop> {
        // Who has ended did so well without that.
        let Some(path) = self.path(target)? else { return Ok(()) };
        self.push_along(path, target, word, label, measures, fill)
    }

    /// The same, where the path to the target is known.
    #[inline]
    pub(super) fn push_along(
        &mut self,
        path: Path,
        target: Endpoint,
        word: Word,
        label: &Label,
        (offset, len, total): (usize, usize, usize),
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Stop> {
        let envelope = self.envelope(target, word, offset, total);
        let header = label.wire();
        let pushed = match label.notice {
            None => self.queue(path, &envelope, header.as_bytes(), len, fill),
            Some(notice) => self.queue_notice(path, &envelope, &WithNotice { header, notice }, len, fill),
        };
        self.pushed(path, len, pushed)
    }

    /// Queues a short message of one word, of a collective that all are instructed to start.
    #[inline(always)]
    pub(super) fn push_word(
        &mut self,
        path: Path,
        target: Endpoint,
        label: &Label,
        word: u64,
    ) -> Result<(), Stop> {
        debug_assert_eq!(label.notice, None, "there is no notice in the header");
        let data = word.to_ne_bytes();
        let envelope = self.envelope(target, Word::Short, 0, data.len());
        let fill = |into: &mut [u8]| into.copy_from_slice(&data);
        let pushed = self.port.push_packed(path, &envelope, label.wire().as_bytes(), data.len(), fill);
        self.pushed(path, data.len(), pushed)
    }

    #[inline(always)]
    fn envelope(&self, target: Endpoint, word: Word, offset: usize, total: usize) -> Envelope {
        Envelope {
            kind: Kind::Collective,
            dispatch: word as u8,
            origin: self.transport.me(),
            target,
            message: 0,
            offset: offset as u32,
            total: total as u32,
        }
    }

    #[inline(always)]
    fn pushed(&mut self, path: Path, len: usize, pushed: Result<(), Full>) -> Result<(), Stop> {
        self.refused |= pushed.is_err();
        pushed.map_err(|Full| Stop::Full)?;
        if len > 0 && matches!(path, Path::Torus(_)) {
            self.transport.note_collective_sent(len);
        }
        Ok(())
    }

    #[inline(always)]
    fn queue(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        if len == 0 {
            self.port.push_bcopy(path, envelope, header, &[])
        } else {
            self.port.push_packed(path, envelope, header, len, fill)
        }
    }

    /// The same, apart: most headers are of one length.
    #[cold]
    #[inline(never)]
    fn queue_notice(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &WithNotice,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        self.queue(path, envelope, header.as_bytes(), len, fill)
    }

    /// Tells an endpoint that a message of so many bytes lies in a region of this task's.
    pub(super) fn offer(
        &mut self,
        target: Endpoint,
        label: &Label,
        data: RemoteData,
        len: usize,
    ) -> Result<(), Stop> {
        let RegionId { index, generation } = data.region;
        let label = Label { digest: index.get(), ..*label };
        self.push(target, Word::Offer, &label, (data.offset as usize, 0, generation.get() as usize), |_| {})?;
        if matches!(self.path(target), Ok(Some(Path::Torus(_)))) {
            self.transport.note_collective_sent(len);
        }
        Ok(())
    }

    /// Lets others get from memory of a collective.
    pub(super) fn lend(&mut self, memory: &Shared, (bulk, slot): (&mut Bulk, u32)) -> Option<RegionId> {
        bulk.lend(slot, memory, self.port)
    }

    /// Gets on with `len` bytes at `origin`'s of a message that lie there and are wanted in the memory: within the node some
    /// of them, from another all of them by a get that `begin` is handed. Returns how many are there now.
    pub(super) fn pull(
        &mut self,
        (origin, data): (Endpoint, RemoteData),
        (into, at): (&Shared, usize),
        (done, len): (usize, usize),
        bulk: &mut Bulk,
        (slot, tag): (u32, u32),
    ) -> Result<Pulling, Stop> {
        let (at, left) = (at as u32, (len - done) as u32);
        match self.path(origin)? {
            Some(Path::Local(_)) => {
                let some = left.min(BYTES_PER_ADVANCE as u32);
                let (offset, at) = (data.offset + done as u32, at + done as u32);
                let got = self.port.get_local(origin, data.region, offset, (into, at), some);
                if matches!(got, Ok(())) {
                    self.transport.note_collective_received(some as usize);
                }
                got.map(|()| Pulling::There(done + some as usize))
                    .or_else(|fault| Ok(Pulling::Refused(fault)))
            }
            Some(Path::Torus(node)) => {
                let Self { port, transport, .. } = self;
                let me = transport.me();
                let begun = bulk.pull((slot, origin, tag, node), |message| {
                    let envelope = Envelope {
                        kind: Kind::Get,
                        dispatch: 0,
                        origin: me,
                        target: origin,
                        message,
                        offset: data.offset,
                        total: left,
                    };
                    port.push_get(node, &envelope, data.region, Some((into, at)), true)
                });
                self.refused |= !begun;
                if !begun {
                    return Err(Stop::Full);
                }
                transport.note_collective_received(left as usize);
                Ok(Pulling::Begun)
            }
            None => Ok(Pulling::Refused(RegionFault::Stale)),
        }
    }

    /// The path to an endpoint; `None`: its node ended well.
    pub(super) fn path(&self, target: Endpoint) -> Result<Option<Path>, Stop> {
        match self.transport.locate(self.port, target) {
            Ok(path) => Ok(Some(path)),
            Err(Unreachable::NoSuchEndpoint) => Err(Stop::Unreachable),
            Err(Unreachable::Gone(node, Gone::Died)) => Err(Stop::Dead(node)),
            Err(Unreachable::Gone(_, Gone::Ended)) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r4_runs_of_a_part_are_told_apart_from_each_other_and_from_other_parts() {
        // All there are, so that they count round.
        for first in [5, RUN - 1, CALLED | 9, !0] {
            let mut key = Key { geometry: 1, sequence: 2, part: first };
            for run in 1..=CALLED / RUN {
                key = key.next_run();
                let part = (first & CALLED) | (first.wrapping_add(run * RUN) & !CALLED);
                assert_eq!(key, Key { part, ..key }, "run {run} of {first:#x}");
            }
            assert_eq!(key.part, first);
        }
    }
}
