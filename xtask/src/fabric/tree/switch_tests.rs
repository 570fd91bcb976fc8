//! The switch with nodes played by the test, over streams in memory.

use super::*;
use crate::fabric::quantity::time;
use pami::combine::{AluOperation, CreditWindow, Element, Operator, Role, WINDOW, WORLDS};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::rc::Rc;

#[path = "shipping_tests.rs"]
mod shipping;

/// Both directions of a stream.
#[derive(Default)]
struct Wires {
    to_fabric: VecDeque<u8>,
    to_node: VecDeque<u8>,
    /// Bytes that the node's side still takes.
    room: usize,
    closed: bool,
}

#[derive(Clone, Default)]
struct Wire(Rc<RefCell<Wires>>);

impl Read for Wire {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut wires = self.0.borrow_mut();
        if wires.to_fabric.is_empty() && !wires.closed {
            return Err(ErrorKind::WouldBlock.into());
        }
        wires.to_fabric.read(bytes)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut wires = self.0.borrow_mut();
        let taken = bytes.len().min(wires.room);
        wires.room -= taken;
        wires.to_node.extend(&bytes[..taken]);
        if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A whole tree, and all its nodes.
struct Bench {
    switch: TreeSwitch<Wire>,
    wires: Vec<Wire>,
    /// Each node's ends, by route id.
    windows: Vec<[CreditWindow; CLASS_ROUTES]>,
    now: Duration,
}

impl Bench {
    fn new(nodes: u32, faults: &str) -> Self {
        Self::with_io_nodes(nodes, 0, faults)
    }

    /// I/O nodes have the ranks behind the nodes.
    fn with_io_nodes(nodes: u32, io_nodes: u32, faults: &str) -> Self {
        let faults = (!faults.is_empty()).then(|| faults.parse().unwrap());
        let mut switch = TreeSwitch::new(nodes, io_nodes, 8, faults);
        let nodes = nodes + io_nodes;
        let wires: Vec<Wire> = (0..nodes).map(|_| Wire::default()).collect();
        for (rank, wire) in (0..).zip(&wires) {
            wire.0.borrow_mut().room = usize::MAX;
            switch.connect(rank, wire.clone());
        }
        let windows = vec![[CreditWindow::new(); CLASS_ROUTES]; nodes as usize];
        Self { switch, wires, windows, now: Duration::ZERO }
    }

    fn send_bytes(&self, node: u32, frame: &[u8]) {
        let mut wires = self.wires[node as usize].0.borrow_mut();
        wires.to_fabric.extend((frame.len() as u32).to_be_bytes());
        wires.to_fabric.extend(frame);
    }

    fn send(&mut self, node: u32, envelope: TreeEnvelope, payload: &[u8]) {
        let window = &mut self.windows[node as usize][usize::from(envelope.route.id)];
        if is_data(envelope.kind) {
            assert!(window.may_send());
            window.send();
        }
        let envelope = TreeEnvelope { taken: window.tell(), origin: node, ..envelope };
        self.send_bytes(node, &frame::from_node(node, &envelope, payload));
    }

    fn contribute(&mut self, node: u32, route: ClassRoute, sequence: u32, payload: &[u8]) {
        self.send(
            node,
            TreeEnvelope {
                sequence,
                operation: SUM,
                ..TreeEnvelope::new(TreePacketKind::Contribute, route, node)
            },
            payload,
        );
    }

    fn run(&mut self) {
        loop {
            for node in 0..self.wires.len() {
                self.switch.ready(node as u32, true, true);
            }
            let changed = self.switch.exchange(self.now, &mut |_| {});
            if !(self.switch.deliver(drop) | changed) {
                return;
            }
        }
    }

    /// The next packet that `node` reads; data counts as taken.
    fn receive(&mut self, node: u32) -> Option<(TreeEnvelope, Vec<u8>)> {
        let mut wires = self.wires[node as usize].0.borrow_mut();
        let length: Vec<u8> = wires.to_node.iter().take(4).copied().collect();
        let length = u32::from_be_bytes(*length.first_chunk()?) as usize;
        if wires.to_node.len() < 4 + length {
            return None;
        }
        let frame: Vec<u8> = wires.to_node.drain(..4 + length).skip(4).collect();
        assert_eq!(frame[..6], combine::packet::mac(node));
        let packet = combine::TreePacket::parse(&frame[14..]).expect("a packet");
        let id = usize::from(packet.envelope.route.id);
        if packet.envelope.kind == TreePacketKind::Opened {
            self.windows[node as usize][id] = CreditWindow::new();
        }
        let window = &mut self.windows[node as usize][id];
        if is_data(packet.envelope.kind) {
            assert!(window.arrive(), "node {node} is overrun");
            window.take_all_but(0);
        }
        if is_data(packet.envelope.kind) || packet.envelope.kind == TreePacketKind::Credit {
            assert!(window.hear(packet.envelope.taken));
        }
        Some((packet.envelope, packet.payload.to_vec()))
    }

    fn allocate(&mut self, node: u32, tag: u32, members: &[RouteMembers]) {
        use zerocopy::IntoBytes as _;
        let list: Vec<u8> = members.iter().flat_map(|it| it.to_wire().as_bytes().to_vec()).collect();
        let request = TreeEnvelope {
            argument: tag,
            ..TreeEnvelope::new(TreePacketKind::Allocate, ClassRoute::WORLD, node)
        };
        self.send(node, request, &list);
        self.run();
    }
}

const SUM: AluOperation = AluOperation::new(Operator::Sum, Element::U32).unwrap();

/// Whether packets of this kind count in the route's window.
fn is_data(kind: TreePacketKind) -> bool {
    matches!(kind, TreePacketKind::Contribute | TreePacketKind::Result | TreePacketKind::Broadcast)
}

#[test]
fn x4_nodes_are_welcomed_and_their_sums_come_to_all_on_the_class_route_of_each_client() {
    let mut bench = Bench::new(5, "");
    for node in 0..5 {
        bench.send(
            node,
            TreeEnvelope { argument: 5, ..TreeEnvelope::new(TreePacketKind::Hello, ClassRoute::WORLD, node) },
            &[],
        );
        for world in ClassRoute::worlds() {
            bench.contribute(node, world, world.id.into(), &node.to_le_bytes());
        }
    }
    bench.run();
    for node in 0..5 {
        assert_eq!(bench.receive(node).unwrap().0.kind, TreePacketKind::Welcome);
        let mut came: Vec<_> = (0..WORLDS).map(|_| bench.receive(node).unwrap()).collect();
        came.sort_by_key(|(envelope, _)| envelope.route.id);
        for ((envelope, payload), world) in came.into_iter().zip(ClassRoute::worlds()) {
            let result = (TreePacketKind::Result, world, u32::from(world.id), SUM);
            assert_eq!((envelope.kind, envelope.route, envelope.sequence, envelope.operation), result);
            assert_eq!(payload, 10u32.to_le_bytes());
        }
        assert_eq!(bench.receive(node), None);
    }
    let statistics = bench.switch.statistics();
    assert!(
        statistics
            .nodes
            .iter()
            .all(|node| node.joined && node.delivered.packets == WORLDS as u64 && node.control == 2)
    );
    // One packet behind the other.
    assert_eq!(statistics.steps, 5 + WORLDS as u64 - 1);
    assert!(bench.switch.complaints().is_empty());
}

#[test]
fn d3_windows_let_long_vectors_through_and_never_more_than_a_node_has_places_for() {
    let mut bench = Bench::new(6, "");
    let (mut sent, mut got) = ([0; 6], [0; 6]);
    while got.iter().any(|&got| got < 100) {
        for (node, sent) in sent.iter_mut().enumerate() {
            while *sent < 100 && bench.windows[node][0].may_send() {
                bench.contribute(node as u32, ClassRoute::WORLD, *sent, &[1; 8]);
                *sent += 1;
            }
        }
        bench.run();
        for (node, got) in got.iter_mut().enumerate() {
            while let Some((envelope, payload)) = bench.receive(node as u32) {
                if envelope.kind == TreePacketKind::Result {
                    assert_eq!((envelope.sequence, payload), (*got, vec![6; 8]));
                    *got += 1;
                }
            }
        }
    }
    assert_eq!(bench.switch.statistics().nodes.iter().map(|node| node.dropped.total()).sum::<u64>(), 0);
}

#[test]
fn d3_members_hear_of_a_class_route_before_anything_comes_on_it_and_of_its_end() {
    let mut bench = Bench::new(7, "");
    let (both, receives) = (Role::BOTH, Role::RECEIVES);
    bench.allocate(2, 77, &[RouteMembers::range(2, 3, both), RouteMembers::range(6, 6, receives)]);
    let mut opened = None;
    for (node, role) in [(2, both), (3, both), (6, receives)] {
        let (envelope, _) = bench.receive(node).unwrap();
        assert_eq!(
            (envelope.kind, envelope.argument, envelope.role, envelope.origin),
            (TreePacketKind::Opened, 77, role, 2)
        );
        opened = Some(envelope.route);
    }
    let route = opened.unwrap();
    bench.contribute(2, route, 0, &2u32.to_le_bytes());
    bench.contribute(3, route, 0, &3u32.to_le_bytes());
    bench.run();
    for node in [2, 3, 6] {
        assert_eq!(bench.receive(node).unwrap().1, 5u32.to_le_bytes());
    }
    // Neither is it anybody's who is no member, nor may one that receives contribute.
    for node in [0, 6] {
        bench.contribute(node, route, 1, &[0; 4]);
    }
    bench.run();
    let dropped = |bench: &Bench, node: usize| bench.switch.statistics().nodes[node].dropped.no_route;
    assert_eq!((dropped(&bench, 0), dropped(&bench, 6)), (1, 1));
    for (node, ends) in [(3, false), (2, true)] {
        bench.send(node, TreeEnvelope::new(TreePacketKind::Release, route, node), &[]);
        bench.run();
        for member in [2, 3, 6] {
            let notice = bench.receive(member);
            assert_eq!(
                notice.map(|(envelope, _)| (envelope.kind, envelope.route)),
                ends.then_some((TreePacketKind::Closed, route))
            );
        }
    }
    assert!((0..7).all(|node| bench.receive(node).is_none()));
}

#[test]
fn d3_a_requester_is_told_why_there_is_no_class_route() {
    let mut bench = Bench::new(4, "");
    let refusal = |bench: &mut Bench, members: &[RouteMembers]| {
        bench.allocate(1, 5, members);
        let (envelope, _) = bench.receive(1).unwrap();
        (envelope.kind, envelope.status, envelope.argument)
    };
    let bad = (TreePacketKind::Refused, Status::BadMembers, 5);
    assert_eq!(refusal(&mut bench, &[]), bad);
    assert_eq!(refusal(&mut bench, &[RouteMembers::range(0, 4, Role::BOTH)]), bad);
    assert_eq!(refusal(&mut bench, &[RouteMembers::range(2, 3, Role::BOTH)]), bad);
    assert_eq!(refusal(&mut bench, &[RouteMembers::range(0, 3, Role::default())]), bad);
    for _ in WORLDS..CLASS_ROUTES {
        assert_eq!(refusal(&mut bench, &[RouteMembers::range(0, 3, Role::BOTH)]).0, TreePacketKind::Opened);
    }
    let exhausted = (TreePacketKind::Refused, Status::Exhausted, 5);
    assert_eq!(refusal(&mut bench, &[RouteMembers::range(0, 3, Role::BOTH)]), exhausted);
    let statistics = bench.switch.statistics();
    assert_eq!((statistics.opened, statistics.refused), ((CLASS_ROUTES - WORLDS) as u64, 5));
    // Whoever does not read is on no more class routes once enough notices wait for it.
    bench.wires[0].0.borrow_mut().room = 0;
    let mut last = TreePacketKind::Opened;
    for _ in 0..3000 {
        let route = (0..=255).find_map(|generation| {
            let route = ClassRoute { id: WORLDS as u8, generation };
            bench.switch.tree.role(1, route).map(|_| route)
        });
        if let Some(route) = route {
            bench.send(1, TreeEnvelope::new(TreePacketKind::Release, route, 1), &[]);
        }
        bench.allocate(1, 5, &[RouteMembers::range(0, 1, Role::BOTH)]);
        while let Some((envelope, _)) = bench.receive(1) {
            last = envelope.kind;
            if envelope.status == Status::Busy {
                return;
            }
        }
    }
    panic!("never busy; the last answer was {last:?}");
}

#[test]
fn d9_what_is_no_packet_of_a_node_is_counted_and_dropped() {
    let mut bench = Bench::new(3, "");
    let good = TreeEnvelope {
        operation: SUM,
        ..TreeEnvelope::new(TreePacketKind::Contribute, ClassRoute::WORLD, 0)
    };
    let good = frame::from_node(0, &good, &[1; 4]);
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    let frames = [
        with(12, 8),
        with(1, 0x50), // another type, another network
        with(11, 2),   // another's address
        with(5, 1),    // to a node
        with(14, 9),
        with(15, 3),
        with(15, 13),
        with(16, 16),
        with(30, 6),
        with(36, 3), // version, kind, ...
        with(17, 7), // another generation
        vec![0; 20],
    ];
    for frame in &frames {
        bench.send_bytes(0, frame);
    }
    bench.run();
    let dropped = bench.switch.statistics().nodes[0].dropped;
    assert_eq!((dropped.foreign, dropped.forged, dropped.unroutable), (2, 1, 1));
    assert_eq!((dropped.malformed, dropped.no_route, dropped.unfit, dropped.total()), (6, 1, 1, 12));
    // Beyond its credit.
    for _ in 0..WINDOW + 5 {
        bench.send_bytes(0, &good);
    }
    bench.run();
    assert_eq!(bench.switch.statistics().nodes[0].dropped.overrun, 5);
    assert!(!bench.switch.complaints().is_empty());
    // The others are none the worse for it.
    for node in 1..3 {
        bench.contribute(node, ClassRoute::WORLD, 0, &[1; 4]);
    }
    bench.run();
    assert_eq!(bench.receive(2).unwrap().1, [3; 4]);
}

#[test]
fn x4_packets_are_held_back_for_as_long_as_asked_for_and_stay_in_order() {
    let mut bench = Bench::new(2, "delay=5ms..20ms,seed=3");
    for sequence in 0..6 {
        for node in 0..2 {
            bench.contribute(node, ClassRoute::WORLD, sequence, &sequence.to_le_bytes());
        }
    }
    bench.run();
    assert_eq!(bench.receive(0), None);
    assert!(bench.switch.due().unwrap() >= time("5ms").unwrap());
    let mut got = 0;
    while got < 6 {
        bench.now = bench.switch.due().expect("something is held back");
        bench.run();
        while let Some((envelope, payload)) = bench.receive(0) {
            if envelope.kind == TreePacketKind::Result {
                assert_eq!((envelope.sequence, payload), (got, (got * 2u32).to_le_bytes().to_vec()));
                got += 1;
            }
        }
    }
    assert!(bench.now <= time("20ms").unwrap());
    assert_eq!(bench.switch.due(), None);
    assert_eq!(bench.switch.statistics().nodes[1].delayed, 6);
}

#[test]
fn g3_a_node_that_leaves_is_waited_for_no_more() {
    let mut bench = Bench::new(4, "");
    bench.contribute(3, ClassRoute::WORLD, 0, &[1; 4]);
    bench.wires[3].0.borrow_mut().closed = true;
    bench.run();
    for sequence in 0..2 {
        for node in 0..3 {
            bench.contribute(node, ClassRoute::WORLD, sequence, &[1; 4]);
        }
    }
    bench.run();
    for node in 0..3 {
        let results = [bench.receive(node).unwrap(), bench.receive(node).unwrap()];
        let [good, dead] = results.map(|(envelope, payload)| (envelope.status, envelope.origin, payload));
        assert_eq!(good, (Status::Good, 0, vec![4; 4]), "what it had sent counts");
        assert_eq!(dead, (Status::Dead, 3, vec![]));
    }
    let gone = &bench.switch.statistics().nodes[3];
    assert!(gone.left.is_some());
    assert_eq!(gone.dropped.undelivered, 2);
    assert!(bench.switch.dump().contains("node 3: tree router empty; left"));
}

#[test]
fn x4_a_node_that_does_not_read_stalls_its_class_route_only() {
    let mut bench = Bench::new(3, "");
    bench.allocate(1, 1, &[RouteMembers::range(0, 1, Role::BOTH)]);
    let route = bench.receive(1).unwrap().0.route;
    bench.receive(0);
    // Node 2 reads nothing: results of the world's class route do not get through.
    bench.wires[2].0.borrow_mut().room = 0;
    let mut sequence = 0;
    while (0..3).all(|node| bench.windows[node][0].may_send()) {
        for node in 0..3 {
            bench.contribute(node, ClassRoute::WORLD, sequence, &vec![0; 4096]);
        }
        bench.run();
        for node in 0..2 {
            while bench.receive(node).is_some() {}
        }
        sequence += 1;
        assert!(sequence < 100, "nothing holds them back");
    }
    for sequence in 0..50 {
        for node in 0..2 {
            bench.contribute(node, route, sequence, &[1; 4]);
        }
        bench.run();
        for node in 0..2 {
            assert_eq!(bench.receive(node).unwrap().0.sequence, sequence);
        }
    }
    assert!(bench.switch.dump().contains("the node does not read"), "{}", bench.switch.dump());
    bench.wires[2].0.borrow_mut().room = usize::MAX;
    bench.run();
    let results = std::iter::from_fn(|| bench.receive(2))
        .filter(|(envelope, _)| envelope.kind == TreePacketKind::Result);
    assert_eq!(results.count(), usize::from(WINDOW), "as many as it has places for");
}
