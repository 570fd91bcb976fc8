//! What single faults do.

use super::bench::{BUFFERS, Bench, Node};
use super::wire::Faults;
use super::{ALLOCATIONS, elapse, now};
use crate::adapter::{Adapter, Frame, Frames, Lent, ReliableAdapter};
use crate::link::Seq;
use crate::reliable::LINGER_NS;
use crate::reliable::rto::LEAST_NS;
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::{Envelope, Header, Kind, Packet};
use std::vec::Vec;
use zerocopy::IntoBytes;

const SECOND: u64 = 1_000_000_000;

const BAD: Faults =
    Faults { drop: 100, corrupt: 50, duplicate: 100, reorder: 200, latency: 50_000, jitter: 500_000 };

/// Receive buffers that are never promised.
const RESERVE: usize = BUFFERS / 8;

#[test]
fn d8_sequence_numbers_wrap_without_a_trace() {
    assert!(Seq::FIRST.plus(200).number() < Seq::FIRST.number());
    for (seed, faults) in [Faults::NONE, BAD].into_iter().enumerate() {
        let mut bench = Bench::new(2, seed as u64, faults);
        bench.order(0, 1, 200);
        bench.order(1, 0, 200);
        bench.run(100 * SECOND);
    }
}

#[test]
fn d8_a_good_wire_costs_no_repetition_and_few_acknowledgements() {
    let mut bench = Bench::new(2, 3, Faults::NONE);
    // One way.
    bench.order(0, 1, 1000);
    bench.run(SECOND);
    // To and fro: answers carry the acknowledgements.
    for turn in 0..200 {
        let (from, to) = (turn % 2, 1 - turn % 2);
        let before = bench.nodes[to as usize].received[from as usize];
        bench.order(from, to, 1);
        bench.run_until(SECOND, |bench| bench.nodes[to as usize].received[from as usize] > before);
    }
    bench.run(SECOND);
    let [a, b] = [0, 1].map(|node: usize| bench.nodes[node].link.faults().reliability);
    for counters in [a, b] {
        assert_eq!((counters.retransmitted, counters.duplicates, counters.out_of_order), (0, 0, 0));
        assert_eq!((counters.corrupt, counters.beyond_credit, counters.probes), (0, 0, 0));
    }
    assert!(a.acks <= 10, "{a:?}");
    assert!(b.acks <= 1000 / 4, "{b:?}");
    assert_eq!(bench.overflows(), 0);
}

#[test]
fn r2_a_peer_may_be_silent_for_minutes_and_loses_nothing() {
    let mut bench = Bench::new(2, 1, Faults::NONE);
    bench.order(0, 1, 200);
    bench.round(|_| true);
    // Node 1 computes, so its frames are lost where they come in.
    for _ in 0..600 {
        bench.round(|node| node == 0);
        elapse(SECOND);
    }
    assert_eq!(bench.nodes[0].failed + bench.nodes[0].refused, 0);
    assert!(bench.nodes[0].orders.len() > 100, "it stalls by credit");
    bench.run_until(100 * SECOND, |bench| bench.nodes[1].received[0] == 200 && bench.nodes[0].is_idle());
    // And the other way: who did not listen for long blames nobody.
    bench.order(0, 1, 10);
    bench.round(|_| true);
    for _ in 0..600 {
        bench.round(|node| node == 1);
        elapse(SECOND);
    }
    bench.run_until(100 * SECOND, |bench| bench.nodes[1].received[0] == 210 && bench.nodes[0].is_idle());
    let deaths = bench.nodes.iter().map(|node| node.link.faults().reliability.dead_peers);
    assert_eq!(deaths.sum::<u64>(), 0);
}

#[test]
fn d8_an_acknowledgement_that_is_lost_is_asked_for_when_nothing_is_left_to_send_again() {
    let mut bench = Bench::new(2, 1, Faults::NONE);
    let only = |bench: &mut Bench, node: u32, burst: usize, rounds: u32| {
        bench.nodes[node as usize].burst = burst;
        for _ in 0..rounds {
            bench.round(|other| other == node);
            elapse(1_000);
        }
    };
    bench.order(0, 1, 1);
    bench.run(SECOND);
    // The first of six is lost; node 1 says so, and has it anew.
    bench.wire.network().faults.drop = 1000;
    bench.order(0, 1, 1);
    only(&mut bench, 0, usize::MAX, 10);
    bench.wire.network().faults.drop = 0;
    bench.order(0, 1, 5);
    for node in [0, 1, 0] {
        only(&mut bench, node, usize::MAX, 10);
    }
    assert_eq!(bench.nodes[1].received[0], 1);
    // It takes one of those that it has now, and says so. That it took the others is lost.
    for _ in 0..1000 {
        if bench.nodes[1].received[0] > 1 {
            break;
        }
        only(&mut bench, 0, usize::MAX, 1);
        only(&mut bench, 1, 1, 1);
        elapse(20_000);
    }
    only(&mut bench, 1, 0, 10);
    only(&mut bench, 0, usize::MAX, 10);
    bench.wire.network().faults.drop = 1000;
    only(&mut bench, 1, usize::MAX, 10);
    assert_eq!(bench.nodes[1].received[0], 7);
    bench.wire.network().faults.drop = 0;
    bench.run_until(SECOND, |bench| bench.nodes[0].is_idle());
    assert_eq!(bench.nodes[0].link.faults().reliability.probes, 1);
}

#[test]
fn d8_what_is_under_way_to_a_peer_that_is_gone_comes_back_and_the_rest_goes_on() {
    let mut bench = Bench::new(4, 1, Faults::NONE);
    bench.wire.network().cut[2] = true;
    bench.order(0, 2, 1);
    bench.order(0, 1, 300);
    bench.order(0, 2, 19);
    bench.order(1, 0, 300);
    bench.run_until(SECOND, |bench| {
        let [a, b, ..] = &bench.nodes[..] else { unreachable!() };
        b.received[0] == 300 && a.received[1] == 300
    });
    assert_eq!(bench.nodes[0].failed + bench.nodes[0].refused, 0, "nobody said so yet");
    bench.nodes[0].node_died(2);
    bench.run_until(SECOND, |bench| {
        bench.nodes[0].orders.is_empty() && bench.nodes[0].failed + bench.nodes[0].refused == 20
    });
    let sender = &bench.nodes[0];
    assert!(sender.failed >= 1 && sender.refused == 20 - sender.failed);
    // What is sent to it from now on is refused at once, what is sent to others is not. So is what is sent to one that was
    // gone before anything was sent to it.
    bench.nodes[0].node_died(3);
    bench.order(0, 2, 5);
    bench.order(0, 3, 5);
    bench.order(0, 1, 50);
    bench.run_until(SECOND, |bench| bench.nodes[0].is_idle() && bench.nodes[1].received[0] == 350);
    assert_eq!(bench.nodes[0].failed + bench.nodes[0].refused, 30);
    assert_eq!(bench.nodes[0].link.deadline(), None, "nothing is left to wait for");
    assert_eq!(bench.nodes[0].link.faults().reliability.dead_peers, 1);
    // What they sent last is dropped.
    bench.wire.network().cut[2] = false;
    bench.order(2, 0, 3);
    bench.order(3, 0, 3);
    for _ in 0..100 {
        bench.round(|_| true);
        elapse(SECOND / 100);
    }
    assert_eq!(bench.nodes[0].received[2..], [0, 0]);
}

#[test]
fn d8_a_slow_receiver_stalls_its_senders_and_no_packet_finds_no_buffer() {
    let mut bench = Bench::new(3, 5, Faults::NONE);
    bench.nodes[2].stalled = true;
    bench.order(0, 2, 500);
    bench.order(1, 2, 500);
    bench.order(2, 0, 400);
    // The stalled node's own packets go on: it hears that they arrived.
    bench.run_until(SECOND, |bench| bench.nodes[0].received[2] == 400 && bench.nodes[2].orders.is_empty());
    bench.run_until(SECOND, |bench| bench.nodes[2].link.deadline().is_none());
    for _ in 0..2_000 {
        let moved = bench.round(|_| true);
        bench.elapse(|_| true, moved);
    }
    let stalled = &bench.nodes[2];
    assert!(stalled.kept.len() <= BUFFERS - RESERVE, "{}", stalled.kept.len());
    assert_eq!(stalled.link.inner.free(), BUFFERS - stalled.kept.len());
    for sender in [0, 1] {
        assert!(stalled.received[sender] >= 8, "both had their share: {:?}", stalled.received);
        let probes = bench.nodes[sender].link.faults().reliability.probes;
        assert!((1..100).contains(&probes), "asked again and again, but not all the time: {probes}");
    }
    bench.nodes[2].stalled = false;
    bench.run(10 * SECOND);
    assert_eq!(bench.overflows(), 0);
    for node in &bench.nodes {
        let counters = node.link.faults().reliability;
        assert_eq!((counters.beyond_credit, counters.retransmitted, node.dead.len()), (0, 0, 0));
    }
}

#[test]
fn d8_credit_that_is_lost_on_the_way_is_asked_for_again() {
    let mut bench = Bench::new(2, 5, Faults::NONE);
    bench.nodes[1].stalled = true;
    bench.order(0, 1, 200);
    bench.run_until(10 * SECOND, |bench| bench.nodes[0].link.faults().reliability.probes > 2);
    // All that tells of the credit is lost.
    bench.nodes[1].stalled = false;
    bench.wire.network().faults.drop = 1000;
    for _ in 0..100 {
        let moved = bench.round(|_| true);
        bench.elapse(|_| true, moved);
    }
    assert!(bench.nodes[1].received[0] < 100);
    bench.wire.network().faults.drop = 0;
    bench.run(10 * SECOND);
}

#[test]
fn d8_many_senders_to_one_slow_node_share_its_buffers() {
    // As many as have places at once.
    let nodes = 29;
    let mut bench = Bench::new(nodes, 7, Faults::NONE);
    for sender in 1..nodes as u32 {
        bench.order(sender, 0, 20);
    }
    bench.nodes[0].stalled = true;
    for _ in 0..300 {
        let moved = bench.round(|_| true);
        bench.elapse(|_| true, moved);
    }
    assert!(bench.nodes[0].received[1..].iter().all(|&count| count >= 1), "each has at least one buffer");
    assert!(bench.nodes[0].kept.len() <= BUFFERS - RESERVE);
    bench.nodes[0].stalled = false;
    bench.run(100 * SECOND);
    assert_eq!(bench.overflows(), 0);
    assert!(bench.nodes.iter().all(|node| node.link.faults().reliability.beyond_credit == 0));
}

#[test]
fn d8_memory_stays_the_same_whatever_the_wire_does() {
    let packets = if cfg!(miri) { 40 } else { 1000 };
    let mut bench = Bench::new(3, 11, BAD);
    for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 2)] {
        bench.order(from, to, packets);
    }
    let before = ALLOCATIONS.get();
    bench.run(1000 * SECOND);
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(before > 100, "allocations are counted");
    let mended = bench.nodes.iter().map(|node| node.link.faults().reliability.retransmitted);
    assert!(mended.sum::<u64>() > packets as u64 * 4 / 10);
}

#[test]
fn d8_a_node_stays_until_its_peer_had_time_to_hear_that_all_arrived() {
    let mut bench = Bench::new(2, 1, Faults::NONE);
    assert_eq!(bench.nodes[1].link.linger_until(), 0, "nothing came, so nobody waits");
    bench.order(0, 1, 1);
    bench.run(SECOND);
    assert!(bench.nodes[1].link.linger_until() > now());
    assert!(bench.nodes[1].link.linger_until() <= now() + LINGER_NS);
}

#[test]
fn d8_a_node_stays_for_no_peer_that_has_all_acknowledged_and_says_so() {
    for mut bench in [Bench::new(2, 1, Faults::NONE), Bench::new(2, 1, Faults::NONE).without_fabric()] {
        bench.order(0, 1, 5);
        bench.order(1, 0, 3);
        bench.run(SECOND);
        let stays = |bench: &Bench| [0, 1].map(|node: usize| bench.nodes[node].link.linger_until() > 0);
        assert_eq!(stays(&bench), [true, true]);
        // What it says may get lost: then the other stays as long as ever.
        bench.wire.network().cut[1] = true;
        bench.nodes[1].link.say_last();
        let start = now();
        bench.run_until(SECOND, |_| now() > start + 1_000_000);
        bench.wire.network().cut[1] = false;
        bench.nodes[0].link.say_last();
        bench.run_until(LINGER_NS / 2, |bench| bench.nodes[1].link.linger_until() == 0);
        assert_eq!(stays(&bench), [true, false]);
        // It says so once; but again after another packet, for which it is stayed for again.
        let said = |bench: &Bench| bench.nodes[0].link.faults().reliability.acks;
        let before = said(&bench);
        bench.nodes[0].link.say_last();
        assert_eq!(said(&bench), before);
        bench.order(0, 1, 1);
        bench.nodes[0].link.say_last();
        bench.run(SECOND);
        assert_eq!((said(&bench), stays(&bench)), (before, [true, true]), "a packet was on its way");
        bench.nodes[0].link.say_last();
        bench.order(1, 0, 1);
        bench.run(SECOND);
        bench.nodes[1].link.say_last();
        bench.run_until(LINGER_NS / 2, |bench| bench.nodes.iter().all(|node| node.link.linger_until() == 0));
    }
}

#[test]
fn d8_without_a_fabric_a_node_stays_until_its_peer_had_time_to_ask_again() {
    let mut bench = Bench::new(2, 1, Faults::NONE).without_fabric();
    bench.order(0, 1, 1);
    bench.run(SECOND);
    // So long nothing gets through that the peer asks most seldom; then a packet does, and what acknowledges it is lost.
    bench.order(0, 1, 1);
    bench.wire.network().cut[0] = true;
    let start = now();
    bench.run_until(20 * SECOND, |_| now() > start + 10 * SECOND);
    bench.wire.network().cut[0] = false;
    bench.wire.network().watch = Some(|source, _| source == 1);
    bench.run_until(2 * SECOND, |bench| bench.nodes[1].received[0] == 2);
    let stays = bench.nodes[1].link.linger_until();
    bench.run_until(2 * SECOND, |bench| bench.nodes[1].link.faults().reliability.duplicates == 1);
    assert!(now() < stays, "asked again {} ms late", (now() - stays) / 1_000_000);
    bench.wire.network().watch = None;
    bench.run(2 * SECOND);
}

#[test]
fn d8_a_lost_packet_is_sent_again_as_soon_as_later_ones_show_the_gap() {
    let mut bench = Bench::new(2, 2, Faults::NONE);
    bench.order(0, 1, 30);
    bench.run(SECOND);
    // One packet is lost, once.
    bench.wire.network().watch = Some(|source, bytes| {
        let number = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
        static LOST: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);
        source == 0
            && number == Seq::FIRST.plus(35).number()
            && !LOST.swap(true, core::sync::atomic::Ordering::Relaxed)
    });
    let start = now();
    bench.order(0, 1, 30);
    bench.run_until(SECOND, |bench| bench.nodes[1].received[0] == 60);
    assert_eq!(bench.nodes[0].link.faults().reliability.retransmitted, 1);
    assert!(now() - start < LEAST_NS, "without waiting for the timer");
}

#[test]
fn d8_buffers_that_one_peer_frees_let_another_go_on() {
    let mut bench = Bench::new(3, 2, Faults::NONE);
    bench.nodes[2].stalled = true;
    // All that one may have while the others are yet to come.
    bench.order(0, 2, 38);
    bench.run_until(SECOND, |bench| bench.nodes[2].received[0] == 38);
    bench.order(1, 2, 100);
    let start = now();
    while now() < start + 5 * SECOND {
        let moved = bench.round(|_| true);
        bench.elapse(|_| true, moved);
    }
    let before = bench.nodes[2].received[1];
    assert!((1..28).contains(&before), "{before}");
    let kept = core::mem::take(&mut bench.nodes[2].kept);
    let (freed, kept) = kept.into_iter().partition(|buffer| buffer.source() == 0);
    bench.nodes[2].kept = kept;
    let freed: std::vec::Vec<_> = freed;
    freed.into_iter().for_each(|buffer| bench.nodes[2].link.recycle(buffer));
    // Node 1 asks once in a second by now; it need not.
    bench.run_until(SECOND / 10, |bench| bench.nodes[2].received[1] >= before + 5);
}

#[test]
fn d8_silent_peers_leave_cookies_for_the_others() {
    let nodes = if cfg!(miri) { 5 } else { 20 };
    let mut bench = Bench::new(nodes, 2, Faults::NONE);
    // All hear of node 0 and let it send much.
    for peer in 1..nodes as u32 {
        bench.order(0, peer, 30);
    }
    bench.run(SECOND);
    for silent in 2..nodes as u32 {
        bench.wire.network().cut[silent as usize] = true;
        bench.order(0, silent, 60);
    }
    bench.order(0, 1, 200);
    let start = now();
    while bench.nodes[1].received[0] < 230 {
        assert!(now() < start + SECOND);
        // The engine has a queue for each context; this bench has one, so what has no room goes to its end.
        let Node { link, orders, .. } = &mut bench.nodes[0];
        let blocked = orders.iter().take_while(|order| !link.has_room_for(order.to)).count();
        orders.rotate_left(blocked);
        let moved = bench.round(|_| true);
        bench.elapse(|_| true, moved);
    }
    assert!(bench.nodes[0].dead.is_empty());
}

#[test]
fn d8_a_new_peer_is_waited_for_as_long_as_the_others_take() {
    // Each answer takes ten times as long as a peer is waited for of which nothing is known.
    let mut bench = Bench::new(8, 1, Faults { latency: 100_000_000, ..Faults::NONE });
    for peer in 1..8 {
        bench.order(0, peer, 1);
        bench.run(10_000_000_000);
    }
    let again = bench.nodes[0].link.faults().reliability.retransmitted;
    assert!(again <= 8, "{again} packets were sent again to seven peers, for nothing");
}

#[test]
fn q4_bare_frames_go_as_they_are_beside_packets_and_neither_is_taken_for_the_other() {
    const DATA: [u8; 100] = [7; 100];
    let mut bench = Bench::new(2, 1, Faults::NONE);
    bench.order(0, 1, 30);
    bench.order(1, 0, 30);
    bench.round(|_| true);
    for (word, len) in [(0, 0), (u64::MAX, 1), (17, DATA.len())] {
        assert!(bench.nodes[0].link.send_frame(1, word, &DATA[..len]));
        let came = (0..100).find_map(|_| {
            // The frame leaves; packets that came before it are taken in.
            bench.round(|node| node == 0);
            elapse(100_000);
            bench.nodes[1].link.receive_frame()
        });
        let Some(Frame::From { node, word: got, len: bytes }) = came else { panic!("{came:?}") };
        assert_eq!((node, got, bytes), (0, word, len));
    }
    // A node that does not look for frames throws one away, and misses no packet for it.
    assert!(bench.nodes[1].link.send_frame(0, 3, &DATA));
    bench.order(0, 1, 30);
    bench.run(SECOND);
    assert_eq!(bench.nodes.iter().map(|node| node.link.faults().reliability.corrupt).sum::<u64>(), 1);
}

#[test]
fn r1_d5_one_sided_operations_and_answers_behind_a_message_that_was_refused_go_on_in_order() {
    for pair in [[Kind::Put, Kind::PutLast], [Kind::GetData, Kind::GetLast], [Kind::Rmw, Kind::Reply]] {
        go_on_behind_a_message_that_was_refused(pair);
    }
}

fn go_on_behind_a_message_that_was_refused([first, last]: [Kind; 2]) {
    let mut bench = Bench::new(2, 1, Faults::NONE);
    // They know each other.
    bench.order(0, 1, 1);
    bench.run(SECOND);
    let [origin, target] = [0, 1].map(|task| Endpoint::from_parts(ClientId(0), task, ContextOffset(0)));
    let kinds = [Kind::EagerFirst, first, Kind::EagerFirst, last];
    let headers = [0, 1, 2, 3].map(|at| {
        let (kind, message) = (kinds[at], at as u32);
        let envelope = Envelope { kind, dispatch: 0, origin, target, message, offset: 0, total: 0 };
        Header::new(&envelope, 0, 0)
    });
    let send = |bench: &mut Bench, at: usize| {
        let (link, none) = (&mut bench.nodes[0].link, [Lent::NONE; 2]);
        assert!(link.has_room() && link.has_room_for(1));
        // SAFETY: nothing is lent, and each packet has a cookie of its own.
        assert!(unsafe { link.transmit(1, headers[at].as_bytes(), &[], none, at as u16) });
    };
    // What node 1 takes. Its context takes nothing, or all.
    let mut taken = Vec::new();
    let mut rounds = |bench: &mut Bench, count: usize, takes: bool| {
        for _ in 0..count {
            for node in &mut bench.nodes {
                let link = &mut node.link;
                while link.reclaim().is_some() {}
                while let Some(buffer) = link.receive() {
                    let Envelope { kind, message, .. } = Packet::parse(buffer.packet()).unwrap().envelope;
                    if kind != Kind::EagerFirst || takes {
                        taken.push(message);
                        link.recycle(buffer);
                    } else {
                        assert!(link.refuse(buffer).is_ok());
                    }
                }
                link.flush();
            }
            elapse(10_000);
        }
        taken.clone()
    };
    (0..3).for_each(|at| send(&mut bench, at));
    assert_eq!(rounds(&mut bench, 20, false), [1]);
    send(&mut bench, 3);
    assert_eq!(rounds(&mut bench, 20, false), [1, 3]);
    assert_eq!(rounds(&mut bench, 500, true), [1, 3, 0, 2]);
}
