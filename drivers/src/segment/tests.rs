use super::*;
use crate::adapter::{Frame, Frames as _};
use crate::linux::SegmentError;
use core::cell::RefCell;
use rings::packets::Segment;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::dup;

use std::collections::VecDeque;
use std::rc::Rc;
use std::vec::Vec;

#[derive(Clone, Copy)]
struct Nothing;

impl Acknowledge for Nothing {
    fn acknowledge(&self) {}
}

/// What the fabric has for a node, by who is said to have sent it; and what the node has sent.
#[derive(Default)]
struct Told {
    here: VecDeque<(u32, Vec<u8>)>,
    sent: VecDeque<u16>,
    looks: usize,
}

#[derive(Clone, Default)]
struct Fabric(Rc<RefCell<Told>>);

// SAFETY: a test is one thread.
unsafe impl Send for Fabric {}

impl Fabric {
    fn say(&self, source: u32, bytes: &[u8]) {
        self.0.borrow_mut().here.push_back((source, bytes.to_vec()));
    }
}

impl Adapter for Fabric {
    type Interrupt = Nothing;

    fn mtu(&self) -> usize {
        256
    }

    fn has_room(&self) -> bool {
        true
    }

    unsafe fn transmit(&mut self, node: u32, _: &[u8], _: &[u8], _: [Lent; 2], cookie: u16) -> bool {
        assert_eq!(node, FABRIC);
        self.0.borrow_mut().sent.push_back(cookie);
        true
    }

    fn reclaim(&mut self) -> Option<(u16, Outcome)> {
        self.0.borrow_mut().sent.pop_front().map(|cookie| (cookie, Outcome::Sent))
    }

    fn receive(&mut self) -> Option<RxBuffer> {
        let mut told = self.0.borrow_mut();
        told.looks += 1;
        let (source, bytes) = told.here.pop_front()?;
        let len = bytes.len() as u16;
        Some(RxBuffer::new(bytes.leak(), 0, len).sent_by(source))
    }

    fn recycle(&mut self, _: RxBuffer) {}

    fn flush(&mut self) {}

    fn arm(&mut self, _: bool) -> bool {
        !self.0.borrow().here.is_empty()
    }

    fn interrupt(&self) -> Nothing {
        Nothing
    }

    fn faults(&self) -> AdapterFaults {
        AdapterFaults::default()
    }
}

type Node = SegmentAdapter<Fabric>;

/// What such nodes share, as each of them has it, and a view of it from outside.
fn shared(nodes: usize) -> (Vec<Peers>, Segment) {
    let memory = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, Segment::bytes(nodes) as u64).unwrap();
    fcntl_add_seals(&memory, SealFlags::SHRINK).unwrap();
    let bells: Vec<_> = (0..nodes).map(|_| eventfd(0, EventfdFlags::NONBLOCK).unwrap()).collect();
    let peers = || {
        let bells = bells.iter().map(|bell| dup(bell).unwrap()).collect();
        Peers::new(dup(&memory).unwrap(), bells, nodes).unwrap()
    };
    let segment = *peers().segment();
    ((0..nodes).map(|_| peers()).collect(), segment)
}

fn nodes(count: usize) -> (Vec<Node>, Vec<Fabric>, Segment) {
    let (peers, segment) = shared(count);
    let fabrics: Vec<_> = (0..count).map(|_| Fabric::default()).collect();
    let nodes = peers.into_iter().zip(&fabrics).zip(0..);
    let nodes = nodes.map(|((peers, fabric), node)| Node::new(fabric.clone(), peers, node, 0).unwrap());
    (nodes.collect(), fabrics, segment)
}

/// Sends a packet of these parts. The cookie comes back at once.
fn send(node: &mut Node, to: u32, header: &[u8], data: &'static [u8]) -> bool {
    // SAFETY: what is lent lives for ever, and the cookie is taken back below.
    let taken = unsafe { node.transmit(to, header, &[], [Lent::NONE, Lent::new(data)], 7) };
    assert_eq!(node.reclaim(), taken.then_some((7, Outcome::Sent)));
    taken
}

/// The next packet that came, and from whom.
fn next(node: &mut Node) -> Option<(u32, Vec<u8>)> {
    let buffer = node.receive()?;
    let got = (buffer.source(), buffer.packet().to_vec());
    node.recycle(buffer);
    Some(got)
}

#[test]
fn h1_packets_go_between_all_nodes_and_to_oneself() {
    let (mut all, ..) = nodes(3);
    let data: &'static [u8] = (0..MOST_BULK).map(|at| (at % 251) as u8).collect::<Vec<_>>().leak();
    for len in [0, 1, 8, 24, 25, 500, MOST_BULK] {
        for from in 0..3 {
            for to in 0..3 {
                let header = [from as u8 + 1; HEADER_BYTES];
                assert!(send(&mut all[from], to as u32, &header, &data[..len]));
                all[from].flush();
                let whole = [&header[..], &data[..len]].concat();
                assert_eq!(next(&mut all[to]), Some((from as u32, whole)));
                assert_eq!(next(&mut all[to]), None);
            }
        }
    }
    assert!(!send(&mut all[0], 3, &[], &[]) && !send(&mut all[0], 64, &[], &[]));
    assert_eq!(all[1].faults(), AdapterFaults::default());
}

#[test]
fn d9_payload_in_a_buffer_is_aligned_and_a_packet_that_is_none_is_counted() {
    let (mut all, _, segment) = nodes(2);
    assert!(send(&mut all[0], 1, &[1; HEADER_BYTES], &[2; 100]));
    let buffer = all[1].receive().unwrap();
    assert_eq!(buffer.packet()[HEADER_BYTES..].as_ptr().addr() % 64, 0);
    all[1].recycle(buffer);
    // Another process writes to a ring what it wants.
    let mut forger = segment.sender(1, 0);
    segment.desk(0).call(1);
    segment.desk(0).call(63);
    assert!(forger.push(Form::Packet, &[&[0; MOST_PACKET + 1]]));
    assert!(forger.push(Form::Packet, &[b"after"]));
    assert_eq!(next(&mut all[0]), Some((1, b"after".to_vec())));
    assert_eq!(all[0].faults().runts, 1);
    assert_eq!(all[0].spare.len(), RX_BUFFERS);
}

#[test]
fn r1_a_node_that_takes_nothing_holds_up_those_that_send_to_it_alone() {
    let (mut all, ..) = nodes(3);
    while all[0].has_room_for(1) {
        assert!(send(&mut all[0], 1, &[0; HEADER_BYTES], &[0; 4096]));
    }
    assert!(all[0].has_room_for(2) && send(&mut all[0], 2, &[0; HEADER_BYTES], &[]));
    assert!(all[2].has_room_for(1) && send(&mut all[2], 1, b"too", &[]));
    // Who wants room is woken for it.
    assert!(!all[0].arm(true));
    let came: Vec<_> = core::iter::from_fn(|| next(&mut all[1])).map(|(node, _)| node).collect();
    assert_eq!(came.iter().position(|&node| node == 2), Some(1), "nodes take turns");
    all[1].flush();
    assert_eq!(all[0].peers.take_rings(0), 1);
    assert!(all[0].has_room_for(1));
}

#[test]
fn r1_behind_links_packets_are_longer_and_one_without_room_is_lost() {
    let mut peers = shared(2).0.into_iter();
    let [mut own, mut other] =
        [0, 1].map(|node| Node::new(Fabric::default(), peers.next().unwrap(), node, LINK_BYTES).unwrap());
    assert_eq!(own.mtu(), MOST_BULK + LINK_BYTES);
    let data: &'static [u8] = vec![5; MOST_BULK].leak();
    let front = [3; LINK_BYTES + HEADER_BYTES];
    // A window of the longest packets has room; twice as many have not.
    for _ in 0..2 * 64 {
        assert!(send(&mut own, 1, &front, data));
    }
    assert!(send(&mut own, 9, &front, data));
    let buffer = other.receive().unwrap();
    assert_eq!(buffer.packet(), [&front[..], data].concat());
    assert_eq!(buffer.packet()[front.len()..].as_ptr().addr() % 64, 0);
    let came = 1 + core::iter::from_fn(|| next(&mut other)).count();
    assert!((64..2 * 64).contains(&came), "{came}");
}

#[test]
fn n8_a_node_without_buffers_sleeps_until_one_is_given_back() {
    let (mut all, ..) = nodes(2);
    for _ in 0..RX_BUFFERS + 1 {
        assert!(send(&mut all[0], 1, &[0; HEADER_BYTES], &[]));
    }
    let mut held: Vec<_> = core::iter::from_fn(|| all[1].receive()).collect();
    assert_eq!(held.len(), RX_BUFFERS);
    assert!(!all[1].arm(false));
    all[1].recycle(held.pop().unwrap());
    assert!(all[1].arm(false) && all[1].receive().is_some());
}

#[test]
fn n8_who_sleeps_is_rung_once_and_who_is_awake_never() {
    let (mut all, ..) = nodes(2);
    assert!(send(&mut all[0], 1, b"awake", &[]));
    all[0].flush();
    assert_eq!(all[1].peers.take_rings(1), 0);
    assert!(all[1].arm(false), "there is something already");
    assert!(next(&mut all[1]).is_some());
    // Armed again and again: it still is.
    assert!(!all[1].arm(false) && !all[1].arm(false));
    for _ in 0..3 {
        assert!(send(&mut all[0], 1, b"asleep", &[]));
        all[0].flush();
    }
    // What rang is heard before the next sleep, so that this does not end at once.
    assert!(all[1].arm(false));
    assert_eq!(all[1].peers.take_rings(1), 0);
    while next(&mut all[1]).is_some() {}
    // One that is about to ring, and does so after the next sleep has begun, or never.
    assert!(!all[1].arm(false));
    all[1].desk.clone().wake(PACKET, || {
        assert!(!all[1].arm(false));
        assert_eq!(all[1].peers.take_rings(1), 0);
        all[1].peers.ring(1);
    });
    assert!(!all[1].arm(false));
    assert_eq!((all[1].heard, all[1].peers.take_rings(1)), (all[1].desk.rings(), 0));
}

#[test]
fn n8_who_stands_still_before_it_rings_keeps_nobody_asleep() {
    let (mut all, ..) = nodes(3);
    assert!(!all[2].arm(false));
    let desk = all[2].desk;
    desk.wake(PACKET, || {
        // Node 0 stands still here.
        assert!(send(&mut all[1], 2, b"of another", &[]));
        all[1].flush();
        assert_eq!(all[2].peers.take_rings(2), 1);
        // The next sleep is not ended by what was meant for this one.
        assert!(next(&mut all[2]).is_some() && !all[2].arm(false));
    });
    assert!(send(&mut all[1], 2, b"again", &[]));
    all[1].flush();
    assert_eq!(all[2].peers.take_rings(2), 1);
}

#[test]
fn n8_a_ring_that_has_room_again_ends_one_sleep_of_who_has_nothing_more_for_it() {
    let (mut all, ..) = nodes(2);
    while all[0].has_room_for(1) {
        assert!(send(&mut all[0], 1, &[0; HEADER_BYTES], &[0; 4096]));
    }
    while next(&mut all[1]).is_some() {}
    assert!(all[0].arm(true));
    assert!(!all[0].arm(true));
}

#[test]
fn r2_that_a_node_is_gone_comes_after_what_it_has_sent() {
    let (mut all, fabrics, _) = nodes(2);
    assert_eq!(next(&mut all[1]), None);
    // The fabric was just looked at: it is next looked at after an interrupt.
    fabrics[1].say(FABRIC, b"gone");
    assert_eq!(next(&mut all[1]), None);
    assert!(send(&mut all[0], 1, b"last words", &[]));
    Adapter::interrupt(&all[1]).acknowledge();
    assert_eq!(next(&mut all[1]), Some((0, b"last words".to_vec())));
    assert_eq!(next(&mut all[1]), Some((FABRIC, b"gone".to_vec())));
    // Its word that comes while the fabric is looked at is before it as well.
    fabrics[1].say(FABRIC, b"gone");
    assert!(all[1].listen().is_none() && all[1].said.is_some());
    assert!(send(&mut all[0], 1, b"more", &[]));
    assert_eq!(next(&mut all[1]), Some((0, b"more".to_vec())));
    assert_eq!(next(&mut all[1]), Some((FABRIC, b"gone".to_vec())));
    all[1].node_died(0);
    all[1].node_died(u32::MAX);
    assert!(all[1].has_room_for(0) && !send(&mut all[1], 0, &[], &[]));
}

#[test]
fn r2_that_a_node_is_gone_comes_after_what_it_has_sent_whatever_others_send() {
    let (mut all, fabrics, _) = nodes(3);
    for _ in 0..1000 {
        assert!(send(&mut all[0], 1, b"word", &[]));
    }
    assert!(send(&mut all[2], 1, b"flood", &[]));
    fabrics[1].say(FABRIC, b"gone");
    let mut words = 0;
    for packets in 0.. {
        assert!(send(&mut all[2], 1, b"flood", &[]));
        match next(&mut all[1]).unwrap() {
            (FABRIC, _) => break,
            (node, _) => words += usize::from(node == 0),
        }
        assert!(packets < 4 * RING_LINES, "the fabric is not heard");
    }
    assert_eq!(words, 1000);
    fabrics[1].say(FABRIC, b"more");
    assert_eq!(next(&mut all[1]).map(|(node, _)| node), Some(2), "what it says later is later");
}

#[test]
fn r2_without_a_buffer_that_a_node_is_gone_waits_for_what_it_has_sent() {
    let (mut all, fabrics, _) = nodes(2);
    for _ in 0..RX_BUFFERS + 1 {
        assert!(send(&mut all[0], 1, b"word", &[]));
    }
    let mut held: Vec<_> = core::iter::from_fn(|| all[1].receive()).collect();
    assert_eq!(held.len(), RX_BUFFERS);
    fabrics[1].say(FABRIC, b"gone");
    fabrics[1].say(FABRIC, b"end");
    Adapter::interrupt(&all[1]).acknowledge();
    assert!(all[1].receive().is_none() && all[1].receive_frame().is_none());
    // Nothing can be taken before a buffer is given back.
    assert!(!all[1].arm(false) && !all[1].arm_frames(false));
    all[1].recycle(held.pop().unwrap());
    assert!(all[1].arm(false));
    // Those that have the last buffer may be waiting for it.
    held.push(all[1].receive().unwrap());
    assert!(all[1].arm(false));
    assert_eq!(next(&mut all[1]), Some((FABRIC, b"gone".to_vec())));
    assert!(all[1].arm(false));
    assert_eq!(next(&mut all[1]), Some((FABRIC, b"end".to_vec())));
}

#[test]
fn n8_who_waits_for_room_is_told_by_one_that_takes_no_frame() {
    let (mut all, ..) = nodes(2);
    let data: &'static [u8] = vec![0; MOST_BULK].leak();
    while all[0].has_room_for(1) {
        assert!(send(&mut all[0], 1, &[0; HEADER_BYTES], data));
    }
    assert!(!all[0].arm(true));
    while all[1].told == 0 {
        assert!(next(&mut all[1]).is_some());
    }
    assert!(all[1].receive_frame().is_none());
    assert_eq!(all[0].peers.take_rings(0), 1);
}

#[test]
fn h1_the_fabric_is_heard_now_and_then_and_without_an_interrupt() {
    let (mut all, fabrics, _) = nodes(2);
    assert_eq!(next(&mut all[0]), None);
    fabrics[0].say(1, b"of another node");
    fabrics[0].say(FABRIC, b"go");
    let looks =
        (0..).find(|_| next(&mut all[0]).is_some_and(|(node, said)| (node, &said[..]) == (FABRIC, b"go")));
    assert_eq!(looks, Some(LOOKS as usize - 1));
    assert!(fabrics[0].0.borrow().looks <= 4);
    assert_eq!(all[0].faults().foreign, 1);
    // Before a sleep it is looked at in any case.
    fabrics[0].say(FABRIC, b"gone");
    assert!(all[0].arm(false));
    assert_eq!(next(&mut all[0]), Some((FABRIC, b"gone".to_vec())));
    assert!(!all[0].arm(false));
    // SAFETY: nothing is lent.
    assert!(unsafe { all[0].transmit(FABRIC, b"hello", &[], [Lent::NONE; 2], 3) });
    assert_eq!((all[0].reclaim(), all[0].reclaim()), (Some((3, Outcome::Sent)), None));
}

#[test]
fn q4_bare_frames_go_beside_packets_which_keep_their_order() {
    let (mut all, ..) = nodes(2);
    assert!(send(&mut all[0], 1, b"first", &[]));
    assert!(all[0].send_frame(1, 5, &[1; 10]));
    assert!(send(&mut all[0], 1, b"second", &[]));
    let frame = all[1].receive_frame();
    assert!(matches!(frame, Some(Frame::From { node: 0, word: 5, len: 10 })), "{frame:?}");
    assert!(all[1].receive_frame().is_none());
    assert!(!all[1].is_settled());
    assert_eq!(next(&mut all[1]), Some((0, b"first".to_vec())));
    assert_eq!(next(&mut all[1]), Some((0, b"second".to_vec())));
    // One that nobody waits for is lost, and no packet.
    assert!(all[0].send_frame(1, 6, &[]) && send(&mut all[0], 1, b"third", &[]));
    assert_eq!(next(&mut all[1]), Some((0, b"third".to_vec())));
    assert_eq!(all[1].faults().reliability.stale, 1);
    assert!(!all[1].arm_frames(false) && all[0].send_frame(1, 7, &[]) && all[1].arm_frames(false));
}

#[test]
fn h1_memory_that_may_shrink_or_is_of_another_size_or_number_of_nodes_is_refused() {
    let sealed = |bytes: u64, seals: SealFlags| {
        let memory = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&memory, bytes).unwrap();
        fcntl_add_seals(&memory, seals).unwrap();
        memory
    };
    let memory = |bytes| sealed(bytes, SealFlags::SHRINK);
    let bells = |count: usize| (0..count).map(|_| eventfd(0, EventfdFlags::NONBLOCK).unwrap()).collect();
    let error = |memory, bells, nodes| Peers::new(memory, bells, nodes).err();
    let (of_two, short) = (Segment::bytes(2) as u64, Segment::bytes(2) as u64 - 64);
    assert_eq!(error(memory(short), bells(2), 2), Some(SegmentError::Bytes(short)));
    assert_eq!(error(memory(of_two), bells(1), 2), Some(SegmentError::Nodes(2)));
    assert_eq!(error(memory(of_two), bells(17), 17), Some(SegmentError::Nodes(17)));
    assert_eq!(error(sealed(of_two, SealFlags::GROW), bells(2), 2), Some(SegmentError::MayShrink));
    assert_eq!(error(memory(of_two), bells(2), 2), None);
    assert!(Node::new(Fabric::default(), shared(2).0.remove(0), 2, 0).is_none());
}
