//! Calls to I/O nodes and their answers, with nodes of both kinds played by the test.

use super::*;
use pami::combine::packet::SHIPPED_CALLS;

const SHIP: TreePacketKind = TreePacketKind::Ship;
const REPLY: TreePacketKind = TreePacketKind::Reply;

impl Bench {
    fn ship(&mut self, node: u32, place: u32, sequence: u32, payload: &[u8]) {
        let call =
            TreeEnvelope { argument: place, sequence, ..TreeEnvelope::new(SHIP, ClassRoute::WORLD, node) };
        self.send(node, call, payload);
        self.run();
    }

    /// The I/O node `rank` answers the call, as if it came from node `to`.
    fn answer(&mut self, rank: u32, to: u32, call: TreeEnvelope, payload: &[u8]) {
        let reply = TreeEnvelope { kind: REPLY, origin: to, ..call };
        self.send_bytes(rank, &frame::from_node(rank, &reply, payload));
        self.run();
    }

    fn overruns(&self, node: usize) -> u64 {
        self.switch.statistics().nodes[node].dropped.overrun
    }
}

#[test]
fn s2_a_call_goes_to_the_nodes_own_io_node_and_its_answer_to_that_node_alone() {
    let mut bench = Bench::with_io_nodes(5, 2, "");
    for (node, io_node) in [(0, 5), (2, 5), (3, 6), (4, 6)] {
        bench.ship(node, 1, 40 + node, b"call");
        let (call, payload) = bench.receive(io_node).expect("a call");
        assert_eq!((call.kind, call.origin, call.argument, call.sequence), (SHIP, node, 1, 40 + node));
        assert_eq!(payload, b"call");
        bench.answer(io_node, node, call, b"answer");
        let (answer, payload) = bench.receive(node).expect("an answer");
        assert_eq!((answer.kind, answer.status), (REPLY, Status::Good));
        assert_eq!((answer.argument, answer.sequence, payload), (1, 40 + node, b"answer".to_vec()));
    }
    assert!((0..7).all(|rank| bench.receive(rank).is_none()));
    let statistics = bench.switch.statistics();
    assert_eq!((statistics.shipped, statistics.steps), (4, 0));
    // Node 4 hangs below 1, which is below 0.
    let (up, down) = (statistics.nodes[4].up, statistics.nodes[1].down[1]);
    assert_eq!((up.packets, down.packets), (1, 1));
    assert_eq!((up.bytes, down.bytes), ((frame::FRAME_BYTES + 4) as u64, (frame::FRAME_BYTES + 6) as u64));
    assert_eq!(statistics.nodes[0].down[0].packets, 2, "those to 3 and 4");
    assert!(bench.switch.complaints().is_empty());
}

#[test]
fn s2_calls_without_an_io_node_are_answered_by_the_network() {
    let mut bench = Bench::new(2, "");
    bench.ship(1, 0, 7, &[]);
    let (answer, _) = bench.receive(1).expect("an answer");
    assert_eq!((answer.kind, answer.status, answer.sequence), (REPLY, Status::NoIoNode, 7));

    let mut bench = Bench::with_io_nodes(2, 1, "");
    bench.ship(1, 0, 1, &[]);
    bench.ship(1, 1, 2, &[]);
    let (answered, _) = bench.receive(2).expect("a call");
    bench.answer(2, 1, answered, &[]);
    assert_eq!(bench.receive(1).unwrap().0.status, Status::Good);
    // It is lost: the call that it had is answered, and so is the next.
    bench.wires[2].0.borrow_mut().closed = true;
    bench.run();
    let (answer, _) = bench.receive(1).expect("an answer");
    assert_eq!((answer.status, answer.argument, answer.sequence), (Status::Dead, 1, 2));
    bench.ship(0, 0, 9, &[]);
    assert_eq!(bench.receive(0).unwrap().0.status, Status::Dead);
    assert!((0..2).all(|node| bench.receive(node).is_none()));
}

#[test]
fn s2_calls_that_came_before_the_io_node_wait_for_it() {
    let mut bench = Bench::with_io_nodes(1, 1, "");
    // As it was before the I/O node connected.
    bench.switch = TreeSwitch::new(1, 1, 8, None);
    bench.switch.connect(0, bench.wires[0].clone());
    bench.ship(0, 0, 3, &[]);
    assert_eq!((bench.receive(0), bench.receive(1)), (None, None));
    bench.switch.connect(1, bench.wires[1].clone());
    bench.run();
    assert_eq!(bench.receive(1).unwrap().0.sequence, 3);
}

#[test]
fn d9_a_node_has_no_more_calls_under_way_than_places_and_answers_fit_one_call_each() {
    let mut bench = Bench::with_io_nodes(2, 1, "");
    // Whoever it says that it is: its stream tells.
    let forged = TreeEnvelope { sequence: 1, ..TreeEnvelope::new(SHIP, ClassRoute::WORLD, 1) };
    bench.send_bytes(0, &frame::from_node(0, &forged, &[]));
    bench.run();
    let (call, _) = bench.receive(2).expect("a call");
    assert_eq!(call.origin, 0);
    for place in [0, SHIPPED_CALLS as u32, u32::MAX] {
        bench.ship(0, place, 2, &[]);
    }
    assert_eq!((bench.overruns(0), bench.receive(2)), (3, None), "its place is taken, or there is none");
    // Answers to nobody, to another node, to an earlier call, twice.
    for (to, sequence) in [(7, 1), (1, 1), (0, 2)] {
        bench.answer(2, to, TreeEnvelope { sequence, ..call }, &[]);
    }
    assert_eq!((bench.receive(0), bench.receive(1)), (None, None));
    bench.wires[0].0.borrow_mut().room = 0;
    bench.answer(2, 0, call, b"one");
    bench.answer(2, 0, call, b"two");
    bench.wires[0].0.borrow_mut().room = usize::MAX;
    bench.run();
    assert_eq!(bench.receive(0).unwrap().1, b"one");
    assert_eq!(bench.receive(0), None);
    // A node may not answer.
    bench.send_bytes(1, &frame::from_node(1, &TreeEnvelope { kind: REPLY, ..call }, &[]));
    bench.run();
    assert_eq!(bench.switch.statistics().nodes[1].dropped.malformed, 1);
}

#[test]
fn s2_a_node_that_does_not_read_its_answers_gets_no_more_calls_and_holds_up_nobody() {
    let mut bench = Bench::with_io_nodes(2, 1, "");
    bench.wires[0].0.borrow_mut().room = 0;
    let long = vec![7; combine::packet::MOST_PAYLOAD];
    let mut answered = 0;
    for sequence in 0..1000 {
        bench.ship(0, sequence % SHIPPED_CALLS as u32, sequence, &[]);
        while let Some((call, _)) = bench.receive(2) {
            bench.answer(2, 0, call, &long);
            answered += 1;
        }
    }
    // What its stream's buffer holds, and an answer for each place.
    let buffered = crate::fabric::stream::BUFFER_BYTES / long.len() + SHIPPED_CALLS;
    assert!((SHIPPED_CALLS..=buffered).contains(&answered), "{answered} of {buffered}");
    bench.ship(1, 0, 0, &[]);
    let (call, _) = bench.receive(2).expect("a call");
    bench.answer(2, 1, call, b"yes");
    assert_eq!(bench.receive(1).unwrap().1, b"yes");
}
