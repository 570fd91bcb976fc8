//! One context: what it is to send, what it waits for, and how it checks what comes.

use crate::reliable::tests::nodes::{ACTORS, CONTEXTS, Port, place_of};
use crate::unit::tests::bytes;
use pami::device::{Arrival, Completed, Full, Path, REQUESTS, Receiving, Sending};
use pami::endpoint::Endpoint;
use pami::packet::{Envelope, Kind};
use pami::region::{RegionFault, RegionId};
use rings::buffer::Source;
use rings::shared::Shared;
use std::collections::{BTreeSet, VecDeque};
use std::vec::Vec;
use zerocopy::IntoBytes;

/// A packet that is to be pushed.
pub enum Push {
    Copy(Envelope, Vec<u8>, Vec<u8>),
    Filled(Envelope, Vec<u8>, Vec<u8>),
    Lent(Envelope, Vec<u8>, Source),
    Get(Envelope, RegionId, Option<(Shared, u32)>, bool),
}

/// What is to come of a request.
pub enum Expected {
    Nothing,
    Fault(RegionFault),
    /// The next ticket of a node's counter.
    Ticket(usize),
    /// Runs of `content` at these places of `into`, the rest of which stays as it is.
    Data {
        into: Shared,
        at: Vec<(usize, usize)>,
        content: Vec<u8>,
        may_go: bool,
    },
    /// `content` as arrivals.
    Parts {
        content: Vec<u8>,
        received: usize,
    },
}

/// Bytes that a put with signal brings.
pub const SIGNALLED: usize = 64;
/// What memory holds that nothing was placed in.
pub const UNTOUCHED: u8 = 0xa5;

pub struct Actor {
    pub port: Port,
    pub me: Endpoint,
    pub pushes: VecDeque<(u32, Push)>,
    /// By message: its target, how old it is, what it is to bring.
    pub waits: Vec<Option<(u32, u64, Expected)>>,
    next: u32,
    age: u64,
    /// By peer: messages sent and received.
    pub sent: Vec<u32>,
    pub received: Vec<u32>,
    /// By peer: puts with signal to it, and signals of its.
    pub signals: Vec<u32>,
    pub signalled: Vec<u32>,
    /// What its peers put to before they signal.
    pub words: Option<Shared>,
    /// By node: gets under way. What this context put there stays as it is meanwhile.
    pub reads: Vec<u32>,
}

/// The bytes of message `number` between two contexts.
pub fn content(from: Endpoint, to: Endpoint, number: u32) -> Vec<u8> {
    let [from, to] = [from, to].map(|end| end.task() * 2 + u32::from(end.context().0));
    let len = number.wrapping_mul(37) % 150;
    (0..len).map(|i| (number * 31 + from * 7 + to * 13 + i) as u8).collect()
}

impl Actor {
    pub fn new(port: Port, me: Endpoint, actors: usize, nodes: usize) -> Self {
        Self {
            port,
            me,
            pushes: VecDeque::new(),
            waits: (0..REQUESTS).map(|_| None).collect(),
            next: 0,
            age: 0,
            sent: std::vec![0; actors],
            received: std::vec![0; actors],
            signals: std::vec![0; actors],
            signalled: std::vec![0; actors],
            words: None,
            reads: std::vec![0; nodes],
        }
    }

    /// A number for a request to `target`, and a note of what it is to bring. `None` if too many are under way.
    pub fn expect(&mut self, target: u32, expected: Expected) -> Option<u32> {
        let message = self.next;
        let wait = self.waits.get_mut(message as usize % REQUESTS).filter(|wait| wait.is_none())?;
        *wait = Some((target, self.age, expected));
        (self.next, self.age) = (self.next.wrapping_add(1), self.age + 1);
        Some(message)
    }

    pub fn envelope(
        &self,
        kind: Kind,
        target: Endpoint,
        message: u32,
        offset: u32,
        total: usize,
    ) -> Envelope {
        Envelope { kind, dispatch: 0, origin: self.me, target, message, offset, total: total as u32 }
    }

    pub fn is_idle(&self) -> bool {
        self.pushes.is_empty() && self.waits.iter().all(Option::is_none)
    }

    /// Pushes what there is room for, and takes in what has come.
    pub fn step(&mut self, tickets: &mut [BTreeSet<u64>]) -> bool {
        let mut moved = false;
        while let Some((node, push)) = self.pushes.front() {
            let (node, path) = (*node, Path::Torus(*node));
            let pushed = match push {
                Push::Copy(envelope, header, data) => self.port.push_bcopy(path, envelope, header, data),
                Push::Filled(envelope, header, data) => {
                    let fill = |to: &mut [u8]| to.copy_from_slice(data);
                    self.port.push_packed(path, envelope, header, data.len(), fill)
                }
                Push::Lent(envelope, header, data) => self.port.push_zcopy(path, envelope, header, data),
                Push::Get(envelope, region, into, last) => {
                    let into = into.as_ref().map(|(memory, at)| (memory, *at));
                    self.port.push_get(node, envelope, *region, into, *last)
                }
            };
            let Err(Full) = pushed else {
                self.pushes.pop_front();
                moved = true;
                continue;
            };
            break;
        }
        while let Some(arrival) = self.port.pull() {
            moved = true;
            let (envelope, data) = (arrival.envelope(), arrival.data().to_vec());
            let header = arrival.header().to_vec();
            self.port.release(arrival);
            if envelope.kind == Kind::PutSignal {
                self.signal_arrived(&envelope, &header);
                continue;
            }
            assert!(header.is_empty());
            self.arrived(&envelope, &data);
        }
        while let Some(completed) = self.port.completed() {
            moved = true;
            self.ended(completed, tickets);
        }
        moved
    }

    /// A signal: they come in order, once, and what was put is there, or what the next ones of the origin put.
    fn signal_arrived(&mut self, envelope: &Envelope, header: &[u8]) {
        assert_eq!((envelope.target, envelope.offset), (self.me, 0));
        let from = place_of(envelope.origin);
        let number = self.signalled[from];
        assert_eq!((envelope.message, &header[8..]), (number, &u64::from(number).to_le_bytes()[..]));
        self.signalled[from] += 1;
        let mut there = [0; SIGNALLED];
        self.words.as_ref().unwrap().read(signal_place(from, place_of(self.me)), &mut there).unwrap();
        let (words, _) = there.as_chunks();
        let newest = u32::from_le_bytes(words[0]);
        assert!(
            newest >= number && words.iter().all(|&word| word == newest.to_le_bytes()),
            "{number}: {there:?}"
        );
    }

    fn arrived(&mut self, envelope: &Envelope, data: &[u8]) {
        assert_eq!(envelope.target, self.me);
        if envelope.kind == Kind::EagerFirst {
            let received = &mut self.received[place_of(envelope.origin)];
            assert_eq!(envelope.message, *received, "messages come in order and once");
            assert_eq!(data, content(envelope.origin, self.me, *received));
            *received += 1;
            return;
        }
        let wait = &mut self.waits[envelope.message as usize % REQUESTS];
        let Some((_, _, Expected::Parts { content, received })) = wait else {
            panic!("{envelope:?} was not asked for");
        };
        assert_eq!(data, &content[*received..*received + data.len()]);
        *received += data.len();
        assert_eq!(envelope.dispatch, 0);
        assert_eq!(envelope.kind == Kind::GetLast, *received == content.len());
        if *received == content.len() {
            *wait = None;
        }
    }

    fn ended(&mut self, completed: Completed, tickets: &mut [BTreeSet<u64>]) {
        let Completed { message, result } = completed;
        let wait = self.waits[message as usize % REQUESTS].take();
        let Some((target, age, expected)) = wait else { panic!("{message} was not asked for") };
        match expected {
            Expected::Nothing => {
                assert_eq!(result, Ok(0));
                let older = self.waits.iter().flatten().find(|wait| wait.0 == target && wait.1 < age);
                assert!(older.is_none(), "what was asked for before has ended");
            }
            Expected::Fault(fault) => assert_eq!(result, Err(fault)),
            Expected::Ticket(node) => {
                let old = result.unwrap();
                assert!(tickets[node].insert(old), "ticket {old} of node {node} twice");
            }
            Expected::Data { into, at, content, may_go } => {
                let whole = bytes(&into);
                if result == Ok(0) {
                    let mut wanted = std::vec![UNTOUCHED; whole.len()];
                    let mut rest = &content[..];
                    for (at, len) in at {
                        let (now, later) = rest.split_at(len);
                        wanted[at..at + len].copy_from_slice(now);
                        rest = later;
                    }
                    let wrong = (0..whole.len()).find(|&at| whole[at] != wanted[at]);
                    assert_eq!(wrong, None, "of {} bytes at {:?}", whole.len(), self.me);
                } else {
                    assert!(may_go && result == Err(RegionFault::Stale), "{result:?}");
                }
                assert!(into.reclaim().is_ok(), "the engine keeps no memory");
                self.reads[target as usize] -= 1;
            }
            Expected::Parts { .. } => panic!("its end is an arrival"),
        }
    }
}

/// Where the data of signals lies.
pub fn signal_place(from: usize, to: usize) -> usize {
    (to % CONTEXTS * ACTORS + from) * SIGNALLED
}

/// A request's header: the region's name.
pub fn name(region: RegionId) -> Vec<u8> {
    region.as_bytes().to_vec()
}
