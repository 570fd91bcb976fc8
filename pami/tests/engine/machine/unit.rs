//! One node's message unit: its regions, and the answers that it owes.

use super::Packet;
use pami::device::{Arrival, Completed, NoRegion};
use pami::endpoint::Endpoint;
use pami::layout::Segment;
use pami::packet::{ENDS, Envelope, Kind, SIGNAL_BYTES};
use pami::region::{Memory, RegionFault, RegionId, Rights, RmwOp};
use rings::shared::Shared;
use std::collections::{BTreeMap, VecDeque};
use zerocopy::{FromBytes, IntoBytes};

/// Regions of a node.
pub const REGIONS: usize = 16;

/// A descriptor in an injection FIFO.
pub struct Injected {
    pub node: u32,
    pub packet: Packet,
    /// Where the answer to a get goes.
    pub into: Option<(Shared, u32)>,
    pub last: bool,
}

impl Injected {
    pub fn packet(node: u32, packet: Packet) -> Self {
        Self { node, packet, into: None, last: true }
    }

    pub fn get(
        node: u32,
        envelope: Envelope,
        region: RegionId,
        into: Option<(Shared, u32)>,
        last: bool,
    ) -> Self {
        Self { node, packet: Packet::new(envelope, region.as_bytes(), &[]), into, last }
    }
}

/// What a port waits for under one number.
pub struct Ask {
    pub message: u32,
    pub node: u32,
    /// Requests that were sent and not answered, and whether the last was sent.
    pub open: usize,
    pub last: bool,
    pub fault: Option<RegionFault>,
}

impl Ask {
    /// The end, if this was it.
    pub fn completed(&self, value: u64) -> Option<Completed> {
        let result = self.fault.map_or(Ok(value), Err);
        (self.open == 0 && self.last).then_some(Completed { message: self.message, result })
    }
}

/// What a unit owes to a port of another.
pub enum Answer {
    /// The end of a put or an update.
    Reply { to: Endpoint, message: u32, result: Result<u64, RegionFault> },
    /// Data from `offset` of a region; `done` bytes of it have been sent.
    Data {
        to: Endpoint,
        message: u32,
        from: Endpoint,
        region: RegionId,
        offset: u32,
        len: u32,
        done: u32,
        into: Option<(Shared, u32)>,
    },
}

struct Region {
    memory: Memory,
    rights: Rights,
    owner: Endpoint,
}

/// A message unit.
#[derive(Default)]
pub struct Unit {
    regions: Vec<(u32, Option<Region>)>,
    pub limit: Option<usize>,
    /// Answers in order, for each node.
    pub answers: BTreeMap<u32, VecDeque<Answer>>,
    /// Puts with an end to come of which a part was refused, by origin and message.
    failed: BTreeMap<(u64, u32), RegionFault>,
}

impl Unit {
    pub fn register(
        &mut self,
        memory: Memory,
        rights: Rights,
        owner: Endpoint,
    ) -> Result<RegionId, NoRegion> {
        let limit = self.limit.unwrap_or(REGIONS);
        self.regions.resize_with(limit.max(self.regions.len()), || (0, None));
        let free = self.regions[..limit].iter().position(|(_, region)| region.is_none());
        let index = free.ok_or(NoRegion::NoneLeft { limit })?;
        let (generation, region) = &mut self.regions[index];
        *generation += 1;
        *region = Some(Region { memory, rights, owner });
        Ok(RegionId { index: (index as u32).into(), generation: (*generation).into() })
    }

    pub fn deregister(&mut self, id: RegionId) {
        let (generation, region) = &mut self.regions[id.index.get() as usize];
        assert_eq!(*generation, id.generation.get(), "deregistered twice");
        assert!(region.take().is_some(), "deregistered twice");
    }

    /// Regions that are registered.
    pub fn regions(&self) -> usize {
        self.regions.iter().filter(|(_, region)| region.is_some()).count()
    }

    fn find(&self, target: Endpoint, id: RegionId, rights: Rights) -> Result<&Memory, RegionFault> {
        let (generation, region) = self.regions.get(id.index.get() as usize).ok_or(RegionFault::Stale)?;
        let region = region.as_ref().filter(|_| *generation == id.generation.get());
        let region = region.ok_or(RegionFault::Stale)?;
        if (region.owner.client(), region.owner.task()) != (target.client(), target.task()) {
            return Err(RegionFault::Foreign);
        }
        if !region.rights.contains(rights) {
            return Err(RegionFault::Rights);
        }
        Ok(&region.memory)
    }

    pub fn memory(&self, owner: Endpoint, id: RegionId, wanted: Rights) -> Result<Memory, RegionFault> {
        self.find(owner, id, wanted).cloned()
    }

    pub fn put(
        &mut self,
        target: Endpoint,
        id: RegionId,
        offset: u32,
        data: &[u8],
    ) -> Result<(), RegionFault> {
        match self.find(target, id, Rights::WRITE)? {
            Memory::Shared(memory) => Ok(memory.write(offset as usize, data)?),
            Memory::Lent(_) => Err(RegionFault::Rights),
        }
    }

    pub fn get(
        &mut self,
        target: Endpoint,
        id: RegionId,
        offset: u32,
        len: u32,
    ) -> Result<Vec<u8>, RegionFault> {
        let mut bytes = vec![0; len as usize];
        match self.find(target, id, Rights::READ)? {
            Memory::Shared(memory) => memory.read(offset as usize, &mut bytes)?,
            Memory::Lent(source) => {
                let end = offset as usize + len as usize;
                let run = source.as_slice().get(offset as usize..end).ok_or(RegionFault::Bounds)?;
                bytes.copy_from_slice(run);
            }
        }
        Ok(bytes)
    }

    pub fn update(
        &mut self,
        target: Endpoint,
        id: RegionId,
        offset: u32,
        op: RmwOp,
    ) -> Result<u64, RegionFault> {
        match self.find(target, id, Rights::UPDATE)? {
            Memory::Shared(memory) => Ok(memory.update(offset as usize, op.width, op.update)?),
            Memory::Lent(_) => Err(RegionFault::Rights),
        }
    }

    /// Carries out a request that arrived from a port of `node`.
    pub fn serve(&mut self, node: u32, injected: Injected) {
        let Injected { packet, into, .. } = injected;
        let Envelope { kind, origin: to, target, message, offset, total, dispatch, .. } = packet.envelope();
        let (name, segments) = packet.header().split_at(size_of::<RegionId>());
        let id = RegionId::read_from_bytes(name).unwrap();
        let answer = match kind {
            Kind::Put | Kind::PutLast => {
                let result = self.scatter(target, id, offset, segments, packet.data()).map(|()| 0);
                if let (Kind::Put, ENDS, Err(fault)) = (kind, dispatch, result) {
                    self.failed.entry((to.to_bits(), message)).or_insert(fault);
                }
                Answer::Reply { to, message, result }
            }
            Kind::Rmw => {
                let op = RmwOp::decode(dispatch, packet.data()).expect("pami encoded it");
                Answer::Reply { to, message, result: self.update(target, id, offset, op) }
            }
            Kind::Get => {
                Answer::Data { to, message, from: target, region: id, offset, len: total, done: 0, into }
            }
            _ => unreachable!("no request"),
        };
        if kind != Kind::Put {
            self.answers.entry(node).or_default().push_back(answer);
        }
    }

    /// Places the last data of a put with signal. What the target's context is to see of it.
    pub fn signalled(&mut self, packet: Packet) -> Packet {
        let Envelope { origin, target, message, offset, .. } = packet.envelope();
        let (name, rest) = packet.header().split_at(size_of::<RegionId>());
        let (segments, _) = rest.split_last_chunk::<SIGNAL_BYTES>().expect("pami wrote it");
        let id = RegionId::read_from_bytes(name).unwrap();
        let placed = self.scatter(target, id, offset, segments, packet.data());
        let before = self.failed.remove(&(origin.to_bits(), message));
        let fault = before.or(placed.err()).map_or(0, |fault| fault as u32);
        Packet::new(Envelope { offset: fault, ..packet.envelope() }, packet.header(), packet.data())
    }

    fn scatter(
        &mut self,
        target: Endpoint,
        id: RegionId,
        offset: u32,
        segments: &[u8],
        data: &[u8],
    ) -> Result<(), RegionFault> {
        if segments.is_empty() {
            return self.put(target, id, offset, data);
        }
        let mut rest = data;
        for segment in <[Segment]>::ref_from_bytes(segments).unwrap() {
            let (run, later) = rest.split_at(segment.len.get() as usize);
            self.put(target, id, segment.offset.get(), run)?;
            rest = later;
        }
        assert!(rest.is_empty(), "the segments' lengths add up to the data's");
        Ok(())
    }
}
