//! What arrives, moves and leaves in one round: the nodes' streams around the tree.

use super::super::awake::{Awake, Plug, Rounds, describe};
use super::super::dice::Dice;
use super::super::faults::Faults;
use super::super::stream::FrameStream;
use super::frame::{self, Wrong};
use super::model::{Body, Change, RoutedPacket, Tree};
use super::port::{NodeLink, Port, Recorder};
use super::shipping::{self, IoNode, Shipping};
use super::statistics::{TreeNodeStatistics, TreeStatistics};
use pami::combine::packet::NETWORK;
use pami::combine::{
    self, AluOperation, CLASS_ROUTES, ClassRoute, RouteMembers, Status, TreeEnvelope, TreePacketKind,
};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::time::Duration;

/// Complaints kept per node: a hostile one must not fill the memory.
const MAX_COMPLAINTS: u8 = 8;
/// Notices that wait for one node; while there are as many, it is on no new class route.
const MOST_NOTICES: usize = 64;

/// The tree with a stream at each node.
pub struct TreeSwitch<S> {
    tree: Tree,
    links: Vec<NodeLink<S>>,
    shipping: Shipping<S>,
    delay: Option<(Duration, Duration)>,
    seed: u64,
    opened: u64,
    refused: u64,
    complaints: Vec<String>,
    awake: Awake,
}

impl<S: Read + Write> NodeLink<S> {
    /// Its end of `route`, if it is on it.
    fn port(&mut self, route: ClassRoute) -> Option<&mut Port> {
        let port = self.ports.get_mut(usize::from(route.id))?.as_mut();
        port.filter(|port| port.route == route)
    }

    /// Sends it a frame; returns whether that can still arrive.
    fn send(&mut self, rank: u32, envelope: &TreeEnvelope, payload: &[u8], record: Recorder) -> bool {
        let frame = frame::write(rank, envelope, payload);
        record(&frame);
        self.stream.as_mut().is_some_and(|stream| stream.send(&frame))
    }
}

impl<S: Read + Write> TreeSwitch<S> {
    /// A tree of `nodes` nodes, with so many I/O nodes, without any stream yet; its queues have room for `room` packets each.
    /// I/O nodes have the ranks behind those of the nodes.
    pub fn new(nodes: u32, io_nodes: u32, room: usize, faults: Option<Faults>) -> Self {
        Self {
            tree: Tree::new(nodes, room),
            links: (0..nodes).map(|_| NodeLink::new()).collect(),
            shipping: Shipping::new(nodes, io_nodes),
            delay: faults.and_then(|faults| faults.delay),
            seed: faults.map_or(0, |faults| faults.seed),
            opened: 0,
            refused: 0,
            complaints: Vec::new(),
            awake: Awake::default(),
        }
    }

    /// The stream of `node`, while it lives.
    pub fn stream(&self, node: u32) -> Option<&S> {
        self.links.get(node as usize)?.stream.as_ref().map(FrameStream::get_ref)
    }

    /// `node` has died.
    pub fn blame(&mut self, node: u32) {
        self.tree.blame(node);
    }

    /// Looks at a node so far.
    pub fn looks(&self) -> u64 {
        self.awake.looks()
    }

    /// The first half of a round, as `exchange` of the torus.
    pub fn exchange(&mut self, now: Duration, record: Recorder) -> bool {
        let mut changed = self.fill();
        // Ends: each turn takes from finite input buffers or moves packets towards finite output buffers.
        loop {
            let mut moved = self.look(|switch, rank| {
                let taken = switch.take_in(rank, now, record);
                switch.inject(rank, now) | taken
            });
            moved |= self.tree.step() > 0;
            self.awake.wake(self.tree.take_changed());
            moved |= self.look(|switch, rank| switch.give_out(rank, record));
            changed |= moved;
            if !moved {
                return changed;
            }
        }
    }

    /// When a packet that was held back can go into the tree.
    pub fn due(&self) -> Option<Duration> {
        self.delay?;
        let due = |(rank, link): (u32, &NodeLink<S>)| {
            let routes = link.ports.iter().flatten().filter(|port| self.tree.has_room(rank, port.route));
            routes.filter_map(|port| port.pending.front()).map(|&(due, _)| due).min()
        };
        self.awake.holding().map(|rank| (rank, &self.links[rank as usize])).filter_map(due).min()
    }

    /// Takes all whole frames of one node in. None has to wait: what has no credit is dropped.
    fn take_in(&mut self, rank: u32, now: Duration, record: Recorder) -> bool {
        let mut taken = false;
        loop {
            let Some(link) = self.links.get_mut(rank as usize) else {
                return self.take_answers(rank, record);
            };
            let Some(stream) = &mut link.stream else { return taken };
            let frame = stream.frame().map(<[u8]>::to_vec);
            let skipped = stream.take_skipped();
            let unfit = skipped.short + skipped.long;
            if frame.is_some() {
                stream.consume();
            }
            link.dropped.unfit += unfit;
            if unfit > 0 {
                self.complain(rank, || "it sent a frame of an unfit length".into());
            }
            let Some(frame) = frame else { return taken };
            record(&frame);
            self.admit(rank, &frame, now);
            taken = true;
        }
    }

    /// Takes all whole frames of an I/O node in: answers to calls. It is the host tool's own, and only dropped from.
    fn take_answers(&mut self, rank: u32, record: Recorder) -> bool {
        let mut taken = false;
        loop {
            let Some(frame) = self.shipping.io_node(rank).and_then(IoNode::take_frame) else { return taken };
            record(&frame);
            taken = true;
            let packet =
                frame::read(&frame, rank).ok().and_then(|packet| combine::TreePacket::parse(packet).ok());
            let Some(combine::TreePacket { envelope, payload }) = packet else { continue };
            if let Some(link) = self.links.get_mut(envelope.origin as usize)
                && envelope.kind == TreePacketKind::Reply
                && self.shipping.answer(rank, &mut link.calls, &envelope, payload)
            {
                self.awake.wake([envelope.origin]);
            }
        }
    }

    /// A node's call goes to its I/O node.
    fn ship(&mut self, rank: u32, envelope: TreeEnvelope, payload: &[u8]) {
        let link = &mut self.links[rank as usize];
        link.control += 1;
        match self.shipping.call(rank, &mut link.calls, envelope, payload) {
            Ok(to) => {
                self.tree.carry_up(rank, frame::FRAME_BYTES + payload.len());
                self.awake.wake(to);
            }
            Err(()) => {
                link.dropped.overrun += 1;
                self.complain(rank, || "it sent more calls than it may have under way".into());
            }
        }
    }

    /// Does what a frame asks for, or counts why not.
    fn admit(&mut self, rank: u32, frame: &[u8], now: Duration) {
        let dropped = &mut self.links[rank as usize].dropped;
        let packet = match frame::read(frame, rank) {
            Ok(packet) => packet,
            Err(wrong) => {
                let (count, why) = match wrong {
                    Wrong::Foreign => (&mut dropped.foreign, "it sent a frame of another network"),
                    Wrong::Forged => (&mut dropped.forged, "it sent a frame with another's source address"),
                    Wrong::Unroutable => {
                        (&mut dropped.unroutable, "it sent a frame that is not for the network")
                    }
                    Wrong::Short => (&mut dropped.unfit, "it sent a frame without a header"),
                };
                *count += 1;
                return self.complain(rank, || why.into());
            }
        };
        let Ok(combine::TreePacket { envelope, payload }) = combine::TreePacket::parse(packet) else {
            dropped.malformed += 1;
            return self.complain(rank, || "it sent a frame that holds no packet".into());
        };
        match envelope.kind {
            TreePacketKind::Hello => self.hello(rank, envelope.argument),
            TreePacketKind::Contribute | TreePacketKind::Broadcast | TreePacketKind::Credit => {
                self.accept(rank, &envelope, payload, now)
            }
            TreePacketKind::Allocate => self.allocate(rank, envelope.argument, payload),
            TreePacketKind::Release => self.release(rank, envelope.route),
            TreePacketKind::Ship => self.ship(rank, envelope, payload),
            TreePacketKind::Welcome
            | TreePacketKind::Result
            | TreePacketKind::Opened
            | TreePacketKind::Refused
            | TreePacketKind::Closed
            | TreePacketKind::Reply => {
                dropped.malformed += 1;
                self.complain(rank, || "it sent what only the network sends".into());
            }
        }
    }

    fn hello(&mut self, rank: u32, claimed: u32) {
        let nodes = self.links.len();
        let link = &mut self.links[rank as usize];
        link.control += 1;
        if claimed as usize != nodes {
            link.dropped.malformed += 1;
            return self.complain(rank, || format!("it says there are {claimed} nodes, there are {nodes}"));
        }
        link.joined = true;
        // A hurried one gets one answer.
        if link.notices.iter().all(|notice| notice.kind != TreePacketKind::Welcome) {
            let welcome = TreeEnvelope::new(TreePacketKind::Welcome, ClassRoute::WORLD, NETWORK);
            link.notices.push_back(TreeEnvelope { argument: claimed, ..welcome });
        }
    }

    /// Takes in what counts in a window: credit, and data that waits for its time.
    fn accept(&mut self, rank: u32, envelope: &TreeEnvelope, payload: &[u8], now: Duration) {
        let role = self.tree.role(rank, envelope.route);
        let link = &mut self.links[rank as usize];
        let number = link.delayed;
        let may = role.is_some_and(|role| role.contributes || envelope.kind != TreePacketKind::Contribute);
        let Some(port) = link.port(envelope.route).filter(|_| may) else {
            // The route may have been given up when this was on its way.
            link.dropped.no_route += 1;
            return;
        };
        let possible = port.window.hear(envelope.taken);
        if envelope.kind == TreePacketKind::Credit {
            link.control += 1;
            return;
        }
        if !possible || !port.window.arrive() {
            link.dropped.overrun += 1;
            return self.complain(rank, || "it sent more than it had credit for".into());
        }
        let packet = match envelope.kind {
            TreePacketKind::Broadcast => RoutedPacket::broadcast(rank, envelope.sequence, payload.to_vec()),
            _ => RoutedPacket::contribution(envelope.operation, envelope.sequence, payload.to_vec()),
        };
        let due = self.delay.map_or(Duration::ZERO, |(from, to)| {
            let mut dice = Dice::new(self.seed, rank, NETWORK, number);
            now + from + Duration::from_nanos(dice.below(((to - from).as_nanos() as u64).saturating_add(1)))
        });
        // What is held back stays in order.
        let last = port.pending.back().map_or(Duration::ZERO, |&(due, _)| due);
        port.pending.push_back((due.max(last), packet));
        link.delayed += u64::from(self.delay.is_some());
    }

    fn allocate(&mut self, rank: u32, tag: u32, payload: &[u8]) {
        self.links[rank as usize].control += 1;
        if self.links[rank as usize].notices.len() >= MOST_NOTICES {
            self.links[rank as usize].dropped.overrun += 1;
            return;
        }
        let roles = RouteMembers::read(payload).and_then(|members| self.tree.roles(rank, members));
        let change = roles.ok_or(Status::BadMembers).and_then(|roles| {
            let mut members = roles.iter().zip(&self.links).filter(|(role, _)| role.is_member());
            if members.any(|(_, link)| link.notices.len() >= MOST_NOTICES) {
                return Err(Status::Busy);
            }
            self.tree.allocate(rank, tag, &roles)
        });
        match change {
            Ok(Change { route, tag, members }) => {
                self.opened += 1;
                for (member, role) in members {
                    let link = &mut self.links[member as usize];
                    link.ports[usize::from(route.id)] = Some(Port::new(route));
                    let opened = TreeEnvelope::new(TreePacketKind::Opened, route, rank);
                    link.notices.push_back(TreeEnvelope { argument: tag, role, ..opened });
                    self.awake.wake([member]);
                }
            }
            Err(status) => {
                self.refused += 1;
                let refused = TreeEnvelope::new(TreePacketKind::Refused, ClassRoute::WORLD, NETWORK);
                let refused = TreeEnvelope { argument: tag, status, ..refused };
                self.links[rank as usize].notices.push_back(refused);
            }
        }
    }

    fn release(&mut self, rank: u32, route: ClassRoute) {
        self.links[rank as usize].control += 1;
        let Some(Change { tag, members, .. }) = self.tree.release(rank, route) else {
            self.links[rank as usize].dropped.no_route += 1;
            return;
        };
        for (member, role) in members {
            let link = &mut self.links[member as usize];
            link.ports[usize::from(route.id)] = None;
            let closed = TreeEnvelope::new(TreePacketKind::Closed, route, rank);
            link.notices.push_back(TreeEnvelope { argument: tag, role, ..closed });
            self.awake.wake([member]);
        }
    }

    /// Puts what is due into the tree, as far as there is room.
    fn inject(&mut self, rank: u32, now: Duration) -> bool {
        let Self { tree, links, .. } = self;
        let Some(link) = links.get_mut(rank as usize) else { return false };
        let (mut moved, mut left) = (false, 0);
        for port in link.ports.iter_mut().flatten() {
            while port.pending.front().is_some_and(|&(due, _)| due <= now) && tree.has_room(rank, port.route)
            {
                let Some((_, packet)) = port.pending.pop_front() else { break };
                // There is room, and the role was looked at.
                moved |= tree.inject(rank, port.route, packet).is_ok();
            }
            left += port.pending.len();
        }
        self.awake.hold(rank, left > 0);
        if left == 0 && link.left.is_some() && !std::mem::replace(&mut link.death_told, true) {
            tree.node_died(rank);
            moved = true;
        }
        moved
    }

    /// Gives one node its notices, packets and credits while its stream has room for them.
    fn give_out(&mut self, rank: u32, record: Recorder) -> bool {
        let Self { tree, links, shipping, .. } = self;
        let Some(link) = links.get_mut(rank as usize) else {
            return shipping.io_node(rank).is_some_and(|io_node| io_node.give_out(rank, record));
        };
        let mut given = false;
        while link.takes()
            && let Some((answer, payload)) = link.calls.next()
        {
            tree.carry_down(rank, frame::FRAME_BYTES + payload.len());
            link.send(rank, &answer, &payload, record);
            link.control += 1;
            given = true;
        }
        while link.takes()
            && let Some(notice) = link.notices.pop_front()
        {
            link.send(rank, &notice, &[], record);
            link.control += 1;
            given = true;
        }
        for offset in 0..CLASS_ROUTES {
            let id = (link.turn + offset) % CLASS_ROUTES;
            while link.takes()
                && let Some(port) = &mut link.ports[id]
                && (link.left.is_some() || port.window.may_send())
                && let Some(packet) = tree.eject(rank, port.route)
            {
                port.window.take_all_but((port.pending.len() + tree.waiting(rank, port.route)) as u16);
                let kind =
                    if packet.is_broadcast() { TreePacketKind::Broadcast } else { TreePacketKind::Result };
                let (operation, status) = match packet.body {
                    Body::Combine { operation, status } => (operation, status),
                    Body::Broadcast => (AluOperation::NOTHING, Status::Good),
                };
                let envelope = TreeEnvelope {
                    sequence: packet.sequence,
                    operation,
                    status,
                    taken: port.window.tell(),
                    ..TreeEnvelope::new(kind, port.route, packet.origin)
                };
                port.window.send();
                link.turn = id + 1;
                if link.send(rank, &envelope, &packet.payload, record) {
                    link.delivered += packet.frame_bytes();
                } else {
                    link.dropped.undelivered += 1;
                }
                given = true;
            }
        }
        for id in 0..CLASS_ROUTES {
            let Some(port) = &mut link.ports[id] else { continue };
            port.window.take_all_but((port.pending.len() + tree.waiting(rank, port.route)) as u16);
            let route = port.route;
            if port.window.owes() && link.stream.is_some() && link.takes() {
                let taken = link.port(route).map_or(0, |port| port.window.tell());
                link.send(
                    rank,
                    &TreeEnvelope { taken, ..TreeEnvelope::new(TreePacketKind::Credit, route, NETWORK) },
                    &[],
                    record,
                );
                link.control += 1;
                given = true;
            }
        }
        given
    }

    /// Notes what is wrong with a node, unless it is known.
    pub fn complain(&mut self, rank: u32, why: impl FnOnce() -> String) {
        let Some(link) = self.links.get_mut(rank as usize) else { return };
        if link.complaints == MAX_COMPLAINTS {
            return;
        }
        let text = format!("node {rank}, tree: {}", why());
        if !self.complaints.contains(&text) {
            link.complaints += 1;
            self.complaints.push(text);
        }
    }

    /// What went wrong, each with the node's name.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// All counters.
    pub fn statistics(&self) -> TreeStatistics {
        let node = |(link, counters): (&NodeLink<S>, &super::model::TreeCounters)| TreeNodeStatistics {
            joined: link.joined,
            left: link.left.clone(),
            injected: counters.injected,
            delivered: link.delivered,
            up: counters.up,
            down: counters.down,
            combined: counters.combined,
            control: link.control,
            delayed: link.delayed,
            dropped: link.dropped,
        };
        TreeStatistics {
            steps: self.tree.steps(),
            opened: self.opened,
            refused: self.refused,
            shipped: self.shipping.shipped(),
            nodes: self.links.iter().zip(self.tree.counters()).map(node).collect(),
        }
    }

    /// What every router and stream holds, for people.
    pub fn dump(&self) -> String {
        let mut text = format!("tree: {} packets in flight\n", self.tree.in_flight());
        for (rank, link) in (0..).zip(&self.links) {
            // Writing to a String cannot fail.
            let _ = write!(text, "node {rank}: tree router ");
            let _ = self.tree.describe(rank, &mut text);
            let pending: usize = link.ports.iter().flatten().map(|port| port.pending.len()).sum();
            if pending > 0 {
                let _ = write!(text, "; {pending} packets wait before it");
            }
            let _ = describe(&link.stream, &link.left, &mut text);
        }
        self.shipping.describe(&mut text);
        text
    }
}

impl<S: Read + Write> Rounds<S> for TreeSwitch<S> {
    fn awake(&mut self) -> &mut Awake {
        &mut self.awake
    }

    fn plug(&mut self, rank: u32) -> Option<Plug<'_, S>> {
        if let Some(io_node) = self.shipping.io_node(rank) {
            return Some(io_node.plug());
        }
        let link = self.links.get_mut(rank as usize)?;
        Some(Plug { stream: &mut link.stream, left: &mut link.left })
    }

    fn departed(&mut self, rank: u32) {
        let Some(io_node) = self.shipping.io_node(rank) else { return };
        for call in io_node.abandon() {
            shipping::fail(&mut self.links[call.origin as usize].calls, &call);
            self.awake.changed_also(call.origin);
        }
    }
}

#[cfg(test)]
#[path = "switch_tests.rs"]
mod tests;
