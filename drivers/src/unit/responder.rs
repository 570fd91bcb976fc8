//! What other nodes ask of this one: carried out as it arrives, without the application (SPEC D-5).
//!
//! Puts and updates are done at once. Their answers, and what is got, leave from a queue for each node in the order in
//! which they were asked for; the nodes take turns. A queue holds as much as a node may ask for ahead of the answers,
//! so only a node that asks for more finds it full. Each packet of a get looks its region up anew: when that is
//! deregistered, the get ends.

use super::descriptor::{Body, INLINE_BYTES};
use super::outstanding::WINDOW;
use super::regions::Regions;
use super::slots::{CopySlot, CopySlots, Stock};
use crate::ranks::NodeSet;
use alloc::boxed::Box;
use heapless::Deque;
use pami::endpoint::Endpoint;
use pami::layout::Segment;
use pami::packet::{ENDS, Envelope, Header, Kind, Packet, SIGNAL_BYTES};
use pami::region::{Memory, RegionFault, RegionId, RmwOp};
use zerocopy::FromBytes;

/// Packets of answers that may lie in copy slots at once.
pub const ANSWER_SLOTS: usize = 64;
/// Messages of one node of which a part was refused and the end has not come, beyond which the oldest is forgotten.
const FAILED_PUTS: usize = 4;
/// Packets of answers are cut so that their places keep their alignment.
const ALIGNMENT: usize = 64;
/// The encoding of a region's name, in front of a request.
const NAME: usize = size_of::<RegionId>();

/// Why a request was not carried out, and is not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rejected {
    /// It says nothing that can be done.
    Malformed,
    /// The node has asked for more than it may.
    Beyond,
}

/// Who asked, whom, under which number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Route {
    origin: Endpoint,
    target: Endpoint,
    message: u32,
}

impl Route {
    fn of(envelope: &Envelope) -> Self {
        Self { origin: envelope.origin, target: envelope.target, message: envelope.message }
    }

    /// The answer's envelope.
    fn back(&self, kind: Kind, fault: Option<RegionFault>, offset: u32, total: u32) -> Envelope {
        let dispatch = fault.map_or(0, |fault| fault as u8);
        let Self { origin, target, message } = *self;
        Envelope { kind, dispatch, origin: target, target: origin, message, offset, total }
    }
}

/// An answer that is to be sent.
enum Answer {
    End(Route, Result<(), RegionFault>),
    Word(Route, Result<u64, RegionFault>),
    /// `left` of `total` bytes from `next` of the region, for place `at` at the origin.
    Data {
        route: Route,
        region: RegionId,
        next: u32,
        at: u32,
        left: u32,
        total: u32,
    },
    /// To a get that is refused as a whole.
    Refused {
        route: Route,
        at: u32,
        total: u32,
        fault: RegionFault,
    },
}

/// A part of a put was refused with this; its end is to be answered so.
struct FailedPut {
    route: Route,
    fault: RegionFault,
}

#[derive(Default)]
struct Requester {
    answers: Deque<Answer, WINDOW>,
    failed: Deque<FailedPut, FAILED_PUTS>,
}

/// The next packet of a node's answers.
pub(crate) enum Next {
    Packet(Header, Body),
    /// There is one, and no copy slot for it now.
    NoSlot,
    Nothing,
}

/// What is owed to other nodes, by node in use.
pub(crate) struct Responder {
    requesters: Box<[Requester]>,
    /// Nodes that are owed something, and whose turn it is.
    owed: NodeSet,
    turn: u16,
    slots: Stock<ANSWER_SLOTS>,
}

impl Responder {
    /// For `nodes` nodes in use. Allocates.
    pub(crate) fn new(nodes: usize, own: impl Iterator<Item = CopySlot>) -> Self {
        let mut slots = Stock::new();
        own.take(ANSWER_SLOTS).for_each(|slot| slots.give_back(slot));
        Self {
            requesters: (0..nodes).map(|_| Requester::default()).collect(),
            owed: NodeSet::EMPTY,
            turn: 0,
            slots,
        }
    }

    /// About how many bytes of heap it takes.
    pub(crate) const fn heap_bytes(nodes: usize) -> usize {
        nodes * size_of::<Requester>()
    }

    /// Carries a request out. Returns why it was refused, if it was.
    pub(crate) fn serve(
        &mut self,
        node: u16,
        regions: &Regions,
        packet: &Packet<'_>,
    ) -> Result<Option<RegionFault>, Rejected> {
        let Packet { envelope, header, data } = packet;
        let (region, segments) = named(header)?;
        let (target, route) = (envelope.target, Route::of(envelope));
        let requester = self.requesters.get_mut(usize::from(node)).ok_or(Rejected::Beyond)?;
        if envelope.kind != Kind::Put && requester.answers.is_full() {
            return Err(Rejected::Beyond);
        }
        let (answer, refused) = match envelope.kind {
            Kind::Put | Kind::PutLast => {
                let put = put(regions, target, region, envelope.offset, segments, data)?;
                let failed = requester.failure_of(route);
                if envelope.kind == Kind::Put {
                    // Without an end a note would wait for another message of this number.
                    if let (Err(fault), None, ENDS) = (put, failed, envelope.dispatch) {
                        if requester.failed.is_full() {
                            requester.failed.pop_front();
                        }
                        let _ = requester.failed.push_back(FailedPut { route, fault });
                    }
                    return Ok(put.err());
                }
                let result =
                    failed.and_then(|at| requester.take_failed(at)).map_or(put, |failed| Err(failed.fault));
                (Answer::End(route, result), result.err())
            }
            Kind::Rmw if segments.is_empty() => {
                let op = RmwOp::decode(envelope.dispatch, data).ok_or(Rejected::Malformed)?;
                let result = regions.update(target, region, envelope.offset, op, None);
                (Answer::Word(route, result), result.err())
            }
            Kind::Get if segments.is_empty() => {
                let at = <[u8; 4]>::try_from(*data).map_err(|_| Rejected::Malformed)?;
                let Envelope { offset: next, total, .. } = *envelope;
                let nothing = region == RegionId::NONE && total == 0;
                let checked =
                    if nothing { Ok(()) } else { regions.read(target, region, next, total, None, |_, _| ()) };
                let at = u32::from_le_bytes(at);
                match checked {
                    Ok(()) => (Answer::Data { route, region, next, at, left: total, total }, None),
                    Err(fault) => (Answer::Refused { route, at, total, fault }, Some(fault)),
                }
            }
            _ => return Err(Rejected::Malformed),
        };
        let _ = requester.answers.push_back(answer);
        self.owed.insert(node);
        Ok(refused)
    }

    /// Places what the last packet of a put with signal brings. Returns why it, or one before it, was refused, if it was.
    pub(crate) fn place(
        &mut self,
        node: u16,
        regions: &Regions,
        packet: &Packet<'_>,
    ) -> Result<Option<RegionFault>, Rejected> {
        let Packet { envelope, header, data } = packet;
        let (region, segments) = named(header)?;
        let (segments, _) = segments.split_last_chunk::<SIGNAL_BYTES>().ok_or(Rejected::Malformed)?;
        let requester = self.requesters.get_mut(usize::from(node)).ok_or(Rejected::Beyond)?;
        let put = put(regions, envelope.target, region, envelope.offset, segments, data)?;
        let failed = requester.failure_of(Route::of(envelope));
        Ok(failed.and_then(|at| requester.take_failed(at)).map_or(put.err(), |failed| Some(failed.fault)))
    }

    /// The next packet of the answers that are owed to node `rank`.
    pub(crate) fn next(
        &mut self,
        node: u16,
        rank: u32,
        regions: &Regions,
        memory: CopySlots,
        mtu: usize,
    ) -> Next {
        let Some(requester) = self.requesters.get_mut(usize::from(node)) else { return Next::Nothing };
        let Some(answer) = requester.answers.front_mut() else { return Next::Nothing };
        let (envelope, body, len) = match answer {
            Answer::End(route, result) => {
                (route.back(Kind::Reply, result.err(), 0, 0), Body::inline(rank, &[]), 0)
            }
            Answer::Word(route, Err(fault)) => {
                (route.back(Kind::Reply, Some(*fault), 0, 0), Body::inline(rank, &[]), 0)
            }
            Answer::Word(route, Ok(word)) => {
                let word = word.to_le_bytes();
                (route.back(Kind::Reply, None, 0, word.len() as u32), Body::inline(rank, &word), word.len())
            }
            Answer::Refused { route, at, total, fault } => {
                (route.back(Kind::GetLast, Some(*fault), *at, *total), Body::inline(rank, &[]), 0)
            }
            Answer::Data { route, region, next, at, left, total } => {
                let len = (*left).min(aligned(mtu) as u32);
                let part = if *total == 0 && *region == RegionId::NONE {
                    Ok(Some((Body::inline(rank, &[]), 0)))
                } else {
                    regions
                        .read(route.target, *region, *next, len, None, |bytes, offset| {
                            part(bytes, offset, len as usize, rank, &mut self.slots, memory)
                        })
                        .flatten()
                };
                match part {
                    Ok(None) => return Next::NoSlot,
                    Err(fault) => {
                        (route.back(Kind::GetLast, Some(fault), *at, *total), Body::inline(rank, &[]), 0)
                    }
                    Ok(Some((body, len))) if len < *left => {
                        let envelope = route.back(Kind::GetData, None, *at, *total);
                        (*next, *at, *left) = (next.wrapping_add(len), at.wrapping_add(len), *left - len);
                        return Next::Packet(Header::new(&envelope, 0, len as u16), body);
                    }
                    Ok(Some((body, len))) => {
                        (route.back(Kind::GetLast, None, *at, *total), body, len as usize)
                    }
                }
            }
        };
        requester.answers.pop_front();
        if requester.answers.is_empty() {
            self.owed.remove(node);
        }
        Next::Packet(Header::new(&envelope, 0, len as u16), body)
    }

    /// Whether no node is owed anything.
    #[inline]
    pub(crate) fn owes_nothing(&self) -> bool {
        self.owed.is_empty()
    }

    /// The nodes that are owed something.
    #[inline]
    pub(crate) fn owed(&self) -> NodeSet {
        self.owed
    }

    /// The first node that has its turn, if it is owed something.
    #[inline]
    pub(crate) fn turn(&self) -> u16 {
        self.turn
    }

    /// Node `node` had its turn.
    #[inline]
    pub(crate) fn had_turn(&mut self, node: u16) {
        self.turn = node + 1;
    }

    /// Whether a node is owed nothing, and nothing is noted that its next request needs.
    pub(crate) fn is_idle(&self, node: u16) -> bool {
        self.requesters
            .get(usize::from(node))
            .is_none_or(|requester| requester.answers.is_empty() && requester.failed.is_empty())
    }

    /// Takes a copy slot back.
    pub(crate) fn give_back(&mut self, slot: CopySlot) {
        self.slots.give_back(slot);
    }

    /// Nobody wants a node's answers any more.
    #[cold]
    pub(crate) fn purge(&mut self, node: u16) {
        if let Some(requester) = self.requesters.get_mut(usize::from(node)) {
            *requester = Requester::default();
            self.owed.remove(node);
        }
    }
}

impl Requester {
    /// Where it is noted that a packet of this put was refused, if one was.
    fn failure_of(&self, route: Route) -> Option<usize> {
        self.failed.iter().position(|failed| failed.route == route)
    }

    /// Takes out what was noted of a message.
    fn take_failed(&mut self, at: usize) -> Option<FailedPut> {
        for _ in 0..at {
            let before = self.failed.pop_front()?;
            let _ = self.failed.push_back(before);
        }
        self.failed.pop_front()
    }
}

/// The region that a header names, and what is behind its name.
fn named(header: &[u8]) -> Result<(RegionId, &[u8]), Rejected> {
    let (region, rest) = header.split_at_checked(NAME).ok_or(Rejected::Malformed)?;
    let region = RegionId::read_from_bytes(region).map_err(|_| Rejected::Malformed)?;
    Ok((region, rest))
}

/// Places what a packet brings.
fn put(
    regions: &Regions,
    target: Endpoint,
    region: RegionId,
    offset: u32,
    segments: &[u8],
    data: &[u8],
) -> Result<Result<(), RegionFault>, Rejected> {
    if segments.is_empty() {
        return Ok(regions.put(target, region, offset, data, None));
    }
    let segments = <[Segment]>::ref_from_bytes(segments).map_err(|_| Rejected::Malformed)?;
    let len: u64 = segments.iter().map(|segment| u64::from(segment.len.get())).sum();
    if len != data.len() as u64 {
        return Err(Rejected::Malformed);
    }
    Ok(regions.scatter(target, region, segments, data))
}

/// Of so many bytes, those that keep the places of what follows aligned, if there are any.
fn aligned(bytes: usize) -> usize {
    if bytes > ALIGNMENT { bytes - bytes % ALIGNMENT } else { bytes }
}

/// A packet's share of a region, which it lies inside, and its bytes: copied, and no longer than a slot, if it may change while
/// it is sent. `None` if that takes a copy slot and there is none.
fn part(
    bytes: &Memory,
    offset: usize,
    len: usize,
    rank: u32,
    slots: &mut Stock<ANSWER_SLOTS>,
    memory: CopySlots,
) -> Result<Option<(Body, u32)>, RegionFault> {
    match bytes {
        Memory::Lent(source) => {
            let data = source.slice(offset..offset + len).ok_or(RegionFault::Bounds)?;
            let body = if len <= INLINE_BYTES {
                Body::inline(rank, data.as_slice())
            } else {
                Body::Lent { node: rank, header: None, data }
            };
            Ok(Some((body, len as u32)))
        }
        Memory::Shared(shared) if len <= INLINE_BYTES => {
            let mut bytes = [0; INLINE_BYTES];
            shared.read(offset, &mut bytes[..len])?;
            Ok(Some((Body::Inline { node: rank, len: len as u8, bytes }, len as u32)))
        }
        Memory::Shared(shared) => {
            let Some(mut slot) = slots.take(rank.into()) else { return Ok(None) };
            let len = len.min(aligned(memory.bytes_len()));
            let read = memory
                .bytes_mut(&mut slot)
                .get_mut(..len)
                .map_or(Err(RegionFault::Bounds), |into| Ok(shared.read(offset, into)?));
            if let Err(fault) = read {
                slots.give_back(slot);
                return Err(fault);
            }
            Ok(Some((Body::Copied { node: rank, slot }, len as u32)))
        }
    }
}
