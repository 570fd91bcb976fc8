//! Message unit, torus adapter and virtqueues together, on fake cards that a thread of their own connects.

use super::*;
use crate::torus::{ETHERTYPE, TorusAdapter, mac};
use crate::unit::Platform;
use crate::virtio::fake::FakeCard;
use crate::virtio::{Features, VirtioError};
use core::sync::atomic::{AtomicBool, Ordering};
use pami::packet::{Header, Packet};
use zerocopy::IntoBytes;

type CardUnit<const TEST: usize> = MessageUnit<Host<TEST>, TorusAdapter<Host<TEST>, FakeCard>>;

const CARD_MTU: u16 = 1024;

fn unit<const TEST: usize>(card: &FakeCard, node: u32, nodes: u32) -> &'static CardUnit<TEST> {
    let map = TaskMap::new(nodes, 1, MapOrder::NodesFirst).unwrap();
    let adapter = Some(TorusAdapter::new(card.clone(), node).unwrap());
    MessageUnit::start(Setup { adapter, node, map, contexts: 2, harts: 32, agent: None }).unwrap()
}

fn frame(to: u32, from: u32, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&mac(to)[..], &mac(from), &ethertype.to_be_bytes(), packet].concat()
}

/// Moves frames between the cards, and answers the fabric's part, until told to stop.
fn run_wires<const TEST: usize>(cards: &[FakeCard], stop: &AtomicBool) {
    let mut hello = std::vec![false; cards.len()];
    while !stop.load(Ordering::Acquire) {
        let mut moved = false;
        for (node, card) in cards.iter().enumerate() {
            while let Some((bytes, interrupt)) = card.transmit() {
                moved = true;
                if interrupt {
                    Host::<TEST>::interrupt(node);
                }
                assert_eq!(bytes[6..12], mac(node as u32));
                let mut to = std::vec![u32::from_be_bytes(bytes[2..6].try_into().unwrap())];
                let mut bytes = bytes;
                if to == [crate::adapter::FABRIC] {
                    let packet = Packet::parse(&bytes[14..]).unwrap().envelope;
                    assert_eq!((packet.kind, packet.total), (Kind::Hello, cards.len() as u32));
                    hello[packet.origin.task() as usize] = true;
                    if !hello.iter().all(|&up| up) {
                        continue;
                    }
                    to = (0..cards.len() as u32).collect();
                    let go = Header::new(&Envelope { kind: Kind::Go, ..packet }, 0, 0);
                    bytes = frame(0, crate::adapter::FABRIC, ETHERTYPE, go.as_bytes());
                }
                for to in to {
                    bytes[..6].copy_from_slice(&mac(to));
                    cards[to as usize].card().waiting.push_back(bytes.clone());
                }
            }
        }
        for (node, card) in cards.iter().enumerate() {
            while let Some(bytes) = { card.card().waiting.front().cloned() } {
                let Some(interrupt) = card.receive(&bytes) else { break };
                moved = true;
                card.card().waiting.pop_front();
                if interrupt {
                    Host::<TEST>::interrupt(node);
                }
            }
        }
        if !moved {
            std::thread::yield_now();
        }
    }
}

#[test]
fn d1_two_nodes_join_and_exchange_packets_over_virtio_cards() {
    let cards = [FakeCard::new(CARD_MTU), FakeCard::new(CARD_MTU)];
    let units = [0, 1].map(|node| unit::<17>(&cards[node as usize], node, 2));
    let stop = AtomicBool::new(false);
    let rounds = if cfg!(miri) { 10 } else { 3_000 };
    std::thread::scope(|scope| {
        scope.spawn(|| run_wires::<17>(&cards, &stop));
        let nodes = [0usize, 1].map(|node| {
            scope.spawn(move || {
                Host::<17>::be(8 * node);
                units[node].join(2);
                let (me, peer) = (endpoint(node as u32, 0), endpoint(1 - node as u32, 0));
                let mut port = units[node].open(0, 0, 0, Sharing::Exclusive).unwrap();
                assert_eq!(port.mtu(), usize::from(CARD_MTU) - 32);
                let path = port.locate(peer, true).unwrap();
                // Both send all the time, and sleep whenever there is nothing to do.
                let (mut sent, mut received) = (0, 0);
                while sent < rounds || received < rounds {
                    let mut moved = port.drive();
                    if sent < rounds {
                        let data = pattern(sent, sent as usize % (port.mtu() - 4));
                        let envelope = envelope(me, peer, sent);
                        if port.push_copy(path, &envelope, &sent.to_le_bytes(), &data).is_ok() {
                            (sent, moved) = (sent + 1, true);
                        }
                    }
                    while let Some(arrival) = port.pull() {
                        assert_eq!(arrival.header(), received.to_le_bytes());
                        assert_eq!(arrival.data(), pattern(received, received as usize % (port.mtu() - 4)));
                        port.release(arrival);
                        (received, moved) = (received + 1, true);
                    }
                    if !moved {
                        port.arm();
                        if !port.drive() {
                            port.sleep(Some(Host::<17>::now_ns() + 1_000_000_000));
                        }
                        port.disarm();
                    }
                }
                units[node].drain();
            })
        });
        for node in nodes {
            node.join().unwrap();
        }
        stop.store(true, Ordering::Release);
    });
    for unit in units {
        let statistics = unit.statistics();
        assert_eq!(statistics.dropped.total(), 0);
        assert_eq!((statistics.sent_packets, statistics.received_packets), (rounds.into(), rounds.into()));
    }
}

#[test]
fn d9_frames_that_are_not_for_this_node_are_counted_and_their_buffers_used_again() {
    let card = FakeCard::new(CARD_MTU);
    let unit = unit::<18>(&card, 1, 2);
    let mut port = unit.open(0, 0, 0, Sharing::Exclusive).unwrap();
    let good = envelope(endpoint(0, 0), endpoint(1, 0), 1);
    let header = Header::new(&good, 0, 0);
    let packet = header.as_bytes();
    // More than there are buffers of each.
    for _ in 0..300 {
        for bytes in [
            frame(1, 0, 0x0800, packet),
            frame(2, 0, ETHERTYPE, packet),
            frame(1, 0, ETHERTYPE, &packet[..31]),
            std::vec![1, 2, 3],
        ] {
            card.receive(&bytes).expect("a buffer");
        }
        port.drive();
    }
    let dropped = unit.statistics().dropped;
    assert_eq!((dropped.foreign, dropped.stray, dropped.runts), (300, 300, 600));
    card.receive(&frame(1, 0, ETHERTYPE, packet)).unwrap();
    assert_eq!(*next(&mut port, || ()).envelope(), good);
}

#[test]
fn d9_used_entries_that_cannot_be_are_counted_by_the_unit() {
    let card = FakeCard::new(CARD_MTU);
    let unit = unit::<19>(&card, 0, 2);
    let mut port = unit.open(0, 0, 0, Sharing::Exclusive).unwrap();
    for id in [256, u32::MAX, 7, 7] {
        card.card().queues[0].as_mut().unwrap().put(id, 100_000);
    }
    card.card().queues[1].as_mut().unwrap().put(3, 0);
    port.drive();
    // Two ids beyond the table, two lengths that cannot be, and an index of the transmit queue that is ahead of
    // what was sent.
    let dropped = unit.statistics().dropped;
    assert_eq!((dropped.rings, dropped.total()), (5, 5));
}

#[test]
fn d1_devices_that_cannot_be_used_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut crate::virtio::fake::Card)| {
        let card = FakeCard::new(CARD_MTU);
        change(&mut card.card());
        TorusAdapter::<Host<20>, _>::new(card, 0).map(|_| ()).unwrap_err()
    };
    assert_eq!(refused(&|card| card.id = 2), VirtioError::WrongDevice { id: 2 });
    assert_eq!(refused(&|card| card.id = 0), VirtioError::WrongDevice { id: 0 });
    assert_eq!(refused(&|card| card.offered &= !(1 << 29)), VirtioError::Lacks(Features::EVENT_IDX));
    assert_eq!(refused(&|card| card.offered &= !(1 << 32)), VirtioError::Lacks(Features::VERSION_1));
    assert_eq!(refused(&|card| card.refuses = true), VirtioError::Refused);
    assert_eq!(refused(&|card| card.queue_max = 128), VirtioError::Queue { index: 0, max: 128 });
    assert_eq!(refused(&|card| card.config[10..].fill(0)), VirtioError::Mtu(0));
    let card = FakeCard::new(CARD_MTU);
    TorusAdapter::<Host<20>, _>::new(card.clone(), 0).unwrap();
    assert_eq!(card.card().accepted, 1 << 3 | 1 << 5 | 1 << 29 | 1 << 32, "no more than is used");
    assert_eq!(card.card().status, 1 | 2 | 4 | 8);
}
