//! What arrives, moves and leaves in one round: the nodes' streams around the torus.

use super::awake::{Awake, Plug, Rounds, describe};
use super::fault_injector::FaultInjector;
use super::faults::LinkDown;
use super::frame::{self, ETHER_TYPE, ETHER_TYPE_RELIABLE, FABRIC, FrameHeader, rank_address};
use super::muster::{Answer, Muster};
use super::pcap::Capture;
use super::plain::Ports;
use super::statistics::{Dropped, FaultCounts, NodeStatistics, Statistics};
use super::stream::FrameStream;
use super::torus::{Packet, Torus};
use super::traffic::Traffic;
use super::{Config, Fate};
use pami::topology::TorusShape;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::time::Duration;

/// Complaints kept per node: a hostile one must not fill the memory.
const MAX_COMPLAINTS: u8 = 8;

struct Node<S> {
    stream: Option<FrameStream<S>>,
    left: Option<String>,
    /// The address of its card, from the first frame on that was carried.
    station: Option<[u8; 6]>,
    /// A Go is to be sent.
    go: bool,
    /// Of the notices that nodes are gone, those that were sent.
    told: usize,
    control: u64,
    /// What it sent through a plain switch.
    sent: Traffic,
    delivered: Traffic,
    dropped: Dropped,
    complaints: u8,
}

impl<S: Read + Write> Node<S> {
    /// Whether it can be given a packet. Before it has connected, its packets wait; after it has left, they
    /// are lost.
    fn takes(&self) -> bool {
        self.stream.as_ref().map_or(self.left.is_some(), FrameStream::has_room)
    }
}

/// The torus, or a plain switch, with a stream at each node.
pub struct Switch<S, W: Write> {
    shape: TorusShape,
    torus: Torus,
    nodes: Vec<Node<S>>,
    muster: Muster,
    /// If frames go by their addresses alone, and cross no link.
    plain: Option<Ports>,
    injector: Option<FaultInjector>,
    links_down: Vec<LinkDown>,
    fault_words: Option<String>,
    /// Nodes that are gone, in the order in which that was announced.
    gone: Vec<(u32, Fate)>,
    /// Nodes whose streams have ended since somebody asked.
    departed: Vec<u32>,
    /// The first Go.
    started_at: Option<Duration>,
    rounds: u64,
    awake: Awake,
    capture: Option<Capture<W>>,
    /// Why the capture ended early.
    capture_fault: Option<io::Error>,
    complaints: Vec<String>,
}

impl<S: Read + Write, W: Write> Switch<S, W> {
    /// A torus without any stream yet.
    pub fn new(config: &Config, capture: Option<Capture<W>>) -> Self {
        let shape = config.shape;
        let node = |_| Node {
            stream: None,
            left: None,
            station: None,
            go: false,
            told: 0,
            control: 0,
            sent: Traffic::default(),
            delivered: Traffic::default(),
            dropped: Dropped::default(),
            complaints: 0,
        };
        let nodes = shape.nodes();
        Self {
            shape,
            torus: Torus::new(shape, config.queue_room),
            nodes: (0..nodes).map(node).collect(),
            muster: if config.plain { Muster::of_all(nodes as usize) } else { Muster::new(nodes as usize) },
            plain: config.plain.then(|| Ports::new(nodes as usize)),
            injector: config.faults.map(|faults| FaultInjector::new(faults, nodes)),
            links_down: config.links_down.clone(),
            fault_words: config.fault_words(),
            gone: Vec::new(),
            departed: Vec::new(),
            started_at: None,
            rounds: 0,
            awake: Awake::default(),
            capture,
            capture_fault: None,
            complaints: Vec::new(),
        }
    }

    /// The stream of `node`, while it lives.
    pub fn stream(&self, node: u32) -> Option<&S> {
        self.nodes.get(node as usize)?.stream.as_ref().map(FrameStream::get_ref)
    }

    /// The nodes whose streams have ended since the last call.
    pub fn take_departed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.departed)
    }

    /// All others are to hear that `node` is gone, each as soon as it takes frames; from a plain switch nobody does.
    pub fn announce(&mut self, node: u32, fate: Fate) {
        if self.plain.is_none() && self.gone.iter().all(|&(other, _)| other != node) {
            self.gone.push((node, fate));
            self.awake.wake(0..self.shape.nodes());
        }
    }

    /// Who has joined.
    pub fn muster(&self) -> &Muster {
        &self.muster
    }

    /// The first half of a round: reads, and moves packets as far as they can go; returns whether anything
    /// changed. If neither half changes anything, nothing will before a stream becomes ready or it is
    /// [`due`](Self::due). `now` counts from any moment before the first call.
    pub fn exchange(&mut self, now: Duration) -> bool {
        self.rounds += 1;
        self.set_links(now);
        let mut changed = self.fill();
        // Ends: each turn takes from finite input buffers or moves packets towards finite output buffers.
        loop {
            let mut moved = self.look(Self::take_in);
            moved |= self.torus.step() > 0;
            let routers = self.torus.take_changed();
            // Any node may wait for room at a port of a plain switch.
            if self.plain.is_some() && !routers.is_empty() {
                self.awake.wake(0..self.shape.nodes());
            }
            self.awake.wake(routers);
            moved |= self.look(|switch, rank| switch.give_out(rank, now));
            changed |= moved;
            if !moved {
                if self.muster.started() {
                    self.started_at.get_or_insert(now);
                }
                return changed;
            }
        }
    }

    /// When a packet that was held back can be given to its node.
    pub fn due(&self) -> Option<Duration> {
        let injector = self.injector.as_ref()?;
        let takes = |&rank: &u32| self.nodes[rank as usize].takes();
        self.awake.holding().filter(takes).filter_map(|rank| injector.due(rank)).min()
    }

    /// Takes links down and up as their times come.
    fn set_links(&mut self, now: Duration) {
        let Some(started) = self.started_at else { return };
        for down in &self.links_down {
            self.torus.set_down(down.node, down.direction, false);
        }
        for down in self.links_down.iter().filter(|down| down.covers(now - started)) {
            self.torus.set_down(down.node, down.direction, true);
        }
    }

    /// Takes frames of one node in while the torus has room for them.
    fn take_in(&mut self, rank: u32) -> bool {
        let mut taken = false;
        while self.plain.is_some() || self.torus.has_room(rank) {
            let Some(stream) = &mut self.nodes[rank as usize].stream else { break };
            let frame = stream.frame().map(<[u8]>::to_vec);
            let target =
                self.plain.as_ref().zip(frame.as_ref()).and_then(|(ports, frame)| ports.target(frame));
            if target.is_some_and(|target| !self.torus.has_room(target)) {
                break;
            }
            let node = &mut self.nodes[rank as usize];
            let Some(stream) = &mut node.stream else { break };
            let skipped = stream.take_skipped();
            if frame.is_some() {
                stream.consume();
            }
            node.dropped.short += skipped.short;
            node.dropped.long += skipped.long;
            if skipped.short + skipped.long > 0 {
                self.complain(rank, || "it sent a frame of an unfit length".into());
            }
            let Some(frame) = frame else { break };
            self.record(&frame);
            self.carry(rank, frame);
            taken = true;
        }
        taken
    }

    /// Carries a frame as a plain switch does, or the torus. Of one for all, a port without room gets none.
    fn carry(&mut self, rank: u32, frame: Vec<u8>) {
        let Some(ports) = &mut self.plain else { return self.admit(rank, frame) };
        self.nodes[rank as usize].sent += frame.len();
        for port in ports.forward(rank, &frame) {
            let number = self.injector.as_mut().map_or(0, |injector| injector.number(rank, port));
            let packet = Packet { number, ..Packet::new(rank, port, frame.clone()) };
            if self.torus.deliver(packet).is_err() {
                self.nodes[port as usize].dropped.undelivered += 1;
            }
        }
    }

    /// Puts a frame on its way, or counts why not.
    fn admit(&mut self, rank: u32, frame: Vec<u8>) {
        let Some(header) = FrameHeader::read(&frame) else { return };
        let stations = |node: u32| self.nodes.get(node as usize).and_then(|node| node.station);
        let is_for = |node: u32| {
            header.destination == rank_address(node) || stations(node) == Some(header.destination)
        };
        let is_one_cards = header.station[0] & 1 == 0 && header.station != [0; 6];
        let is_own = is_one_cards && stations(rank).is_none_or(|own| own == header.station);
        let is_for_target = is_for(header.target);
        let find_twin = || (0..self.shape.nodes()).find(|&node| stations(node) == Some(header.station));
        let twin = if stations(rank).is_none() { find_twin() } else { None };
        let Node { dropped, station, .. } = &mut self.nodes[rank as usize];
        let (count, why) = match header {
            FrameHeader { ether_type, .. } if ![ETHER_TYPE, ETHER_TYPE_RELIABLE].contains(&ether_type) => {
                (&mut dropped.foreign, format!("it sent a frame of EtherType {ether_type:#06x}"))
            }
            FrameHeader { source, .. } if source != rank || !is_own => {
                (&mut dropped.forged, "it sent a frame with a source that is not its own".into())
            }
            FrameHeader { target, .. } if !is_for_target => (
                &mut dropped.unroutable,
                format!("it sent node {target} a frame by an address that is not that node's"),
            ),
            FrameHeader { target: FABRIC, .. } => {
                *station = Some(header.station);
                // Frames by rank still arrive.
                if let Some(twin) = twin {
                    self.complain(rank, || format!("its card has the address of node {twin}'s"));
                }
                return self.control(rank, &frame);
            }
            FrameHeader { target, .. } if target < self.shape.nodes() => {
                *station = Some(header.station);
                let number = self.injector.as_mut().map_or(0, |injector| injector.number(rank, target));
                // There is room and both ranks are checked, so it is taken.
                let _ = self.torus.inject(Packet { number, ..Packet::new(rank, target, frame) });
                return;
            }
            FrameHeader { target, .. } => {
                (&mut dropped.unroutable, format!("it sent a frame to node {target}"))
            }
        };
        *count += 1;
        self.complain(rank, || why);
    }

    fn control(&mut self, rank: u32, frame: &[u8]) {
        let node = &mut self.nodes[rank as usize];
        node.control += 1;
        let answer = match frame::read_hello(frame) {
            Some((claimed, nodes)) => self.muster.hello(rank, claimed, nodes),
            None => Answer::Refused("it sent the fabric a frame that is no Hello".into()),
        };
        match answer {
            Answer::Wait => {}
            Answer::GoAgain => node.go = true,
            Answer::GoToAll => {
                self.nodes.iter_mut().for_each(|node| node.go = true);
                self.awake.wake(0..self.shape.nodes());
            }
            Answer::Refused(why) => {
                node.dropped.control += 1;
                self.complain(rank, || why);
            }
        }
    }

    /// Gives one node its packets while its stream has room for them.
    fn give_out(&mut self, rank: u32, now: Duration) -> bool {
        let mut given = false;
        let node = &mut self.nodes[rank as usize];
        if node.go && node.stream.as_ref().is_some_and(FrameStream::has_room) {
            let go = frame::go(rank, self.shape.nodes());
            node.go = false;
            node.control += 1;
            if let Some(stream) = &mut node.stream {
                given |= stream.send(&go);
            }
            self.record(&go);
        }
        given |= self.tell_gone(rank);
        let node = &mut self.nodes[rank as usize];
        while node.takes() {
            let mut eject = || {
                let packet = self.torus.eject(rank);
                // Even if none comes out of it now, places have become free.
                given |= packet.is_some();
                packet
            };
            let next = match &mut self.injector {
                Some(injector) => injector.next(rank, now, eject),
                None => eject(),
            };
            let Some(packet) = next else { break };
            node.delivered += packet.frame.len();
            if !node.stream.as_mut().is_some_and(|stream| stream.send(&packet.frame)) {
                node.dropped.undelivered += 1;
            }
            given = true;
        }
        if let Some(injector) = &self.injector {
            self.awake.hold(rank, injector.held(rank) > 0);
        }
        given
    }

    /// Tells one node who is gone, as far as it has not heard and its stream has room.
    fn tell_gone(&mut self, rank: u32) -> bool {
        let mut told = false;
        while let Some(&(departed, fate)) = self.gone.get(self.nodes[rank as usize].told) {
            let node = &mut self.nodes[rank as usize];
            let Some(stream) = node.stream.as_mut().filter(|stream| stream.has_room()) else { break };
            node.told += 1;
            if departed == rank {
                continue;
            }
            let notice = frame::gone(rank, self.shape.nodes(), departed, fate);
            node.control += 1;
            told |= stream.send(&notice);
            self.record(&notice);
        }
        told
    }

    /// Puts a frame into the capture, if there is one.
    pub fn record(&mut self, frame: &[u8]) {
        if let Some(capture) = &mut self.capture
            && let Err(error) = capture.record(frame)
        {
            self.end_capture(error);
        }
    }

    /// Hands the capture so far to its file.
    pub fn flush_capture(&mut self) {
        if let Some(Err(error)) = self.capture.as_mut().map(Capture::flush) {
            self.end_capture(error);
        }
    }

    fn end_capture(&mut self, error: io::Error) {
        self.capture = None;
        self.complaints.push(format!("the capture ends early: {error}"));
        self.capture_fault = Some(error);
    }

    /// Notes what is wrong with a node, unless it is known.
    pub fn complain(&mut self, rank: u32, why: impl FnOnce() -> String) {
        let Some(node) = self.nodes.get_mut(rank as usize) else { return };
        if node.complaints == MAX_COMPLAINTS {
            return;
        }
        let text = format!("node {rank}: {}", why());
        if !self.complaints.contains(&text) {
            node.complaints += 1;
            self.complaints.push(text);
        }
    }

    /// All counters.
    pub fn statistics(&self) -> Statistics {
        let node = |((rank, node), counters): ((usize, &Node<S>), &super::torus::Counters)| NodeStatistics {
            joined: self.muster.has(rank as u32),
            left: node.left.clone(),
            injected: if self.plain.is_some() { node.sent } else { counters.injected },
            delivered: node.delivered,
            hops: counters.hops,
            links: counters.links,
            control: node.control,
            dropped: node.dropped,
            faults: FaultCounts {
                cut: counters.cut,
                ..self.injector.as_ref().map(|injector| injector.counts(rank as u32)).unwrap_or_default()
            },
        };
        Statistics {
            faults: self.fault_words.clone(),
            steps: self.torus.steps(),
            rounds: self.rounds,
            looks: self.awake.looks(),
            nodes: self.nodes.iter().enumerate().zip(self.torus.counters()).map(node).collect(),
            complaints: self.complaints.clone(),
            tree: None,
        }
    }

    /// What every router and stream holds, for people.
    pub fn dump(&self) -> String {
        let (joined, nodes) = (self.muster.count(), self.nodes.len());
        let packets = self.torus.in_flight();
        let mut text = format!("fabric: {joined} of {nodes} nodes joined, {packets} packets in flight\n");
        for (rank, node) in (0..).zip(&self.nodes) {
            // Writing to a String cannot fail.
            let _ = write!(text, "node {rank}: router ");
            let _ = self.torus.describe(rank, &mut text);
            let held = self.injector.as_ref().map_or(0, |injector| injector.held(rank));
            if held > 0 {
                let _ = write!(text, "; {held} held back by faults");
            }
            let _ = describe(&node.stream, &node.left, &mut text);
        }
        text
    }

    /// The last snapshot, with the capture complete.
    ///
    /// # Errors
    /// What kept the capture from being written.
    pub fn finish(mut self) -> io::Result<Statistics> {
        self.flush_capture();
        let statistics = self.statistics();
        self.capture_fault.map_or(Ok(statistics), Err)
    }
}

impl<S: Read + Write, W: Write> Rounds<S> for Switch<S, W> {
    fn awake(&mut self) -> &mut Awake {
        &mut self.awake
    }

    fn plug(&mut self, rank: u32) -> Option<Plug<'_, S>> {
        let node = self.nodes.get_mut(rank as usize)?;
        Some(Plug { stream: &mut node.stream, left: &mut node.left })
    }

    fn departed(&mut self, rank: u32) {
        self.departed.push(rank);
    }
}
