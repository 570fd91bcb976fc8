use super::*;
use crate::nic::Acknowledge;
use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec::Vec;

std::thread_local! {
    static NOW: RefCell<u64> = const { RefCell::new(0) };
    static BREACHES: RefCell<Vec<(u32, Breach)>> = const { RefCell::new(Vec::new()) };
}

struct Hart;

impl Platform for Hart {
    type Card = crate::virtio::VirtioNet<Self, crate::virtio::fake::FakeCard>;

    fn hart() -> usize {
        0
    }

    fn now_ns() -> u64 {
        NOW.with_borrow(|now| *now)
    }

    fn wake(_hart: usize) {}

    fn wait(_deadline_ns: Option<u64>, _acknowledge: impl FnMut()) {}

    fn network_failed(node: u32, breach: Breach) {
        BREACHES.with_borrow_mut(|breaches| breaches.push((node, breach)));
    }
}

/// What became of the network since this was last asked.
fn breaches() -> Vec<(u32, Breach)> {
    BREACHES.take()
}

type Wire = Rc<RefCell<[VecDeque<Vec<u8>>; 2]>>;

/// One end of a wire between two nodes.
struct End {
    node: usize,
    /// On their way to each node.
    frames: Wire,
    sent: VecDeque<u16>,
    /// Receive buffers that are here.
    buffers: usize,
    /// Whose addresses were learnt.
    learnt: Vec<u32>,
}

// SAFETY: a test is one thread.
unsafe impl Send for End {}

#[derive(Clone, Copy)]
struct Nothing;

impl Acknowledge for Nothing {
    fn acknowledge(&self) {}
}

impl Adapter for End {
    type Interrupt = Nothing;

    fn mtu(&self) -> usize {
        1024
    }

    fn has_room(&self) -> bool {
        true
    }

    unsafe fn transmit(
        &mut self,
        node: u32,
        header: &[u8],
        inline: &[u8],
        _lent: [Lent; 2],
        cookie: u16,
    ) -> bool {
        self.frames.borrow_mut()[node as usize].push_back([header, inline].concat());
        self.sent.push_back(cookie);
        true
    }

    fn reclaim(&mut self) -> Option<(u16, Outcome)> {
        Some((self.sent.pop_front()?, Outcome::Sent))
    }

    fn receive(&mut self) -> Option<RxBuffer> {
        let buffers = self.buffers.checked_sub(1)?;
        let frame = self.frames.borrow_mut()[self.node].pop_front()?;
        self.buffers = buffers;
        let len = frame.len() as u16;
        Some(RxBuffer::new(frame.leak(), 0, len).sent_by(1 - self.node as u32))
    }

    fn recycle(&mut self, _buffer: RxBuffer) {
        self.buffers += 1;
    }

    fn learn(&mut self, came: &RxBuffer) {
        self.learnt.push(came.source());
    }

    fn flush(&mut self) {}

    fn arm(&mut self, _sent: bool) -> bool {
        false
    }

    fn interrupt(&self) -> Nothing {
        Nothing
    }

    fn faults(&self) -> AdapterFaults {
        AdapterFaults::default()
    }
}

type Node = Lossless<End, Hart>;

fn pair() -> (Wire, [Node; 2]) {
    let frames = Wire::default();
    let end = |node| {
        let (frames, buffers) = (frames.clone(), RX_BUFFERS);
        End { node, frames, sent: VecDeque::new(), buffers, learnt: Vec::new() }
    };
    let nodes = [0, 1].map(|node| Lossless::new(end(node), node as u32, 2).with_life(7));
    (frames, nodes)
}

/// Sends packet number `at` from the first node to the second.
fn send(node: &mut Node, at: u16) -> bool {
    // SAFETY: nothing is lent, and no two packets on the way have the same cookie.
    unsafe { node.transmit(1, &[at as u8; 32], &[at as u8], [Lent::NONE; 2], at) }
}

/// A round of the engine's in which nothing is to be sent. What came in.
fn round(node: &mut Node) -> Vec<u8> {
    while node.reclaim().is_some() {}
    let mut came = Vec::new();
    while let Some(buffer) = node.receive() {
        came.push(buffer.packet()[0]);
        node.recycle(buffer);
    }
    node.flush();
    let _ = node.due();
    came
}

/// Lets so much time pass, in which both nodes do what they do now and then.
fn elapse(nodes: &mut [Node; 2], ns: u64) {
    for _ in 0..4 {
        NOW.with_borrow_mut(|now| *now += ns / 4);
        nodes.iter_mut().for_each(|node| _ = round(node));
    }
}

#[test]
fn d8_packets_arrive_and_are_confirmed_and_the_node_may_go() {
    let (_, mut nodes) = pair();
    // Beyond where numbers wrap.
    for at in 0..100 {
        assert!(send(&mut nodes[0], at));
        assert_eq!(nodes[0].linger_until(), u64::MAX);
        assert_eq!(round(&mut nodes[1]), [at as u8]);
    }
    elapse(&mut nodes, 8 * FIRST_NS);
    assert_eq!((nodes[0].linger_until(), nodes[0].deadline()), (0, None));
    assert_eq!(breaches(), []);
}

#[test]
fn d1_where_a_peer_is_its_first_packet_says_and_each_frame_without_one() {
    let (_, mut nodes) = pair();
    for at in 0..3 {
        assert!(send(&mut nodes[0], at));
        assert_eq!(round(&mut nodes[1]), [at as u8]);
    }
    assert_eq!(nodes[1].inner.learnt, [0]);
    // A question, and its answer.
    elapse(&mut nodes, 8 * FIRST_NS);
    assert_eq!((&nodes[0].inner.learnt[..], &nodes[1].inner.learnt[..]), (&[1][..], &[0, 0][..]));
}

#[test]
fn d8_a_frame_that_is_missing_is_named_by_the_next() {
    let (frames, mut nodes) = pair();
    assert!((0..4).all(|at| send(&mut nodes[0], at)));
    let _ = frames.borrow_mut()[1].drain(1..3).count();
    assert_eq!(round(&mut nodes[1]), [0]);
    assert_eq!(breaches(), [(0, Breach::Lost(2))]);
}

#[test]
fn d8_frames_that_are_lost_last_are_named_when_the_sender_asks() {
    let (frames, mut nodes) = pair();
    assert!((0..3).all(|at| send(&mut nodes[0], at)));
    frames.borrow_mut()[1].clear();
    elapse(&mut nodes, FIRST_NS / 2);
    assert_eq!(breaches(), []);
    // The first question is lost as well.
    let _ = round(&mut nodes[0]);
    NOW.with_borrow_mut(|now| *now += 2 * FIRST_NS);
    let _ = round(&mut nodes[0]);
    assert_eq!(frames.borrow_mut()[1].drain(..).count(), 1);
    elapse(&mut nodes, 8 * FIRST_NS);
    assert_eq!(breaches().first(), Some(&(0, Breach::Lost(3))));
    assert_eq!(nodes[0].linger_until(), u64::MAX, "what was lost is confirmed");
}

#[test]
fn d8_what_is_doubled_damaged_or_of_another_life_is_not_taken() {
    let (frames, mut nodes) = pair();
    assert!(send(&mut nodes[0], 0));
    let frame = frames.borrow()[1][0].clone();
    frames.borrow_mut()[1].push_back(frame.clone());
    assert_eq!(round(&mut nodes[1]), [0]);
    assert_eq!(breaches(), [(0, Breach::Again)]);
    // The checksum of a network that may lose frames.
    let mut sealed = frame.clone();
    sealed[0] ^= 1;
    let mut other = frame;
    other[4] ^= 1;
    // That of another job may have been sealed.
    let mut both = other.clone();
    both[0] ^= 1;
    frames.borrow_mut()[1].extend([sealed, other, both]);
    let learnt = nodes[1].inner.learnt.clone();
    assert!(round(&mut nodes[1]).is_empty());
    assert_eq!(breaches(), [(0, Breach::Damaged)]);
    assert_eq!(nodes[1].inner.learnt, learnt);
    let counted = nodes[1].faults().reliability;
    assert_eq!((counted.duplicates, counted.corrupt, counted.stale), (1, 1, 2));
}

#[test]
fn r1_packets_that_nobody_takes_hold_up_all_behind_them_and_end_nothing() {
    let (_, mut nodes) = pair();
    for at in 0..=RX_BUFFERS {
        assert!(send(&mut nodes[0], (at % IN_FLIGHT) as u16));
        while nodes[0].reclaim().is_some() {}
    }
    let mut taken: Vec<_> = core::iter::from_fn(|| nodes[1].receive()).collect();
    assert_eq!((taken.len(), nodes[1].receive().is_some()), (RX_BUFFERS, false));
    // Long silence is no loss: the question lies behind them too.
    for _ in 0..8 {
        NOW.with_borrow_mut(|now| *now += LAST_NS);
        let _ = (round(&mut nodes[0]), nodes[1].receive().map(|_| panic!("there is no buffer")));
    }
    taken.drain(..).for_each(|buffer| nodes[1].recycle(buffer));
    assert_eq!(round(&mut nodes[1]), [(RX_BUFFERS % IN_FLIGHT) as u8]);
    elapse(&mut nodes, 8 * LAST_NS);
    assert_eq!((nodes[0].linger_until(), breaches()), (0, Vec::new()));
}

#[test]
fn r2_a_node_that_is_gone_is_sent_nothing_and_asked_nothing() {
    let (frames, mut nodes) = pair();
    assert!(send(&mut nodes[0], 0));
    nodes[0].node_died(1);
    assert!(!send(&mut nodes[0], 1));
    frames.borrow_mut()[1].clear();
    elapse(&mut nodes, 8 * FIRST_NS);
    assert_eq!((nodes[0].linger_until(), frames.borrow()[1].len()), (0, 0));
    // What it sent last is dropped.
    // SAFETY: nothing is lent, and nothing else is on its way.
    assert!(unsafe { nodes[1].transmit(0, &[9; 32], &[], [Lent::NONE; 2], 0) });
    assert_eq!((round(&mut nodes[0]), breaches()), (Vec::new(), Vec::new()));
}

#[test]
fn q4_bare_frames_go_beside_packets_and_neither_is_lost() {
    let (_, mut nodes) = pair();
    assert!(send(&mut nodes[0], 3));
    assert!(nodes[0].send_frame(1, 5, &[]));
    assert_eq!(nodes[0].reclaim(), Some((3, Outcome::Sent)));
    assert!(matches!(nodes[1].receive_frame(), Some(Frame::From { node: 0, word: 5, len: 0 })));
    assert!(nodes[1].receive_frame().is_none() && !nodes[1].is_settled());
    assert_eq!(round(&mut nodes[1]), [3]);
    assert_eq!(breaches(), []);
}
