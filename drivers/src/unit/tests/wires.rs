//! Two nodes on fake cards that a thread of their own connects. Too much for an interpreter.
#![cfg(not(miri))]

use super::card::{CARD_MTU, frame, unit};
use super::*;
use crate::gathering::{Identity, JobWords};
use crate::link::LINK_BYTES;
use crate::platform::Platform;
use crate::reliable::Reliable;
use crate::torus::{ETHERTYPE, FRAME_HEADER, TorusAdapter, mac};
use crate::virtio::VirtioNet;
use crate::virtio::fake::FakeCard;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use pami::device::{Receiving, Sending, Sleeping};
use pami::packet::{Header, Packet};
use zerocopy::IntoBytes;

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
                let mut to = std::vec![u32::from_le_bytes(bytes[14..18].try_into().unwrap())];
                let mut bytes = bytes;
                if to == [crate::adapter::FABRIC] {
                    let packet = Packet::parse(&bytes[FRAME_HEADER..]).unwrap().envelope;
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
                    bytes[14..18].copy_from_slice(&to.to_le_bytes());
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
    let drained = &AtomicUsize::new(0);
    let rounds = 3_000;
    std::thread::scope(|scope| {
        scope.spawn(|| run_wires::<17>(&cards, &stop));
        let nodes = [0usize, 1].map(|node| {
            scope.spawn(move || {
                Host::<17>::be(8 * node);
                units[node].join(2);
                let (me, peer) = (endpoint(node as u32, 0), endpoint(1 - node as u32, 0));
                let mut port = units[node].open(ClientId(0), 0, 0, Sharing::Exclusive).unwrap();
                assert_eq!(port.mtu(), usize::from(CARD_MTU) - 8 - 32 - LINK_BYTES);
                let path = port.locate(peer, true).unwrap();
                // Both send all the time, and sleep whenever there is nothing to do.
                let (mut sent, mut received) = (0, 0);
                while sent < rounds || received < rounds {
                    let mut moved = port.progress();
                    if sent < rounds {
                        let data = pattern(sent, sent as usize % (port.mtu() - 4));
                        let envelope = envelope(me, peer, sent);
                        if port.push_bcopy(path, &envelope, &sent.to_le_bytes(), &data).is_ok() {
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
                        if !port.progress() {
                            port.sleep(Some(Host::<17>::now_ns() + 1_000_000_000));
                        }
                        port.disarm();
                    }
                }
                units[node].drain();
                // Who is done still answers the other.
                drained.fetch_add(1, Ordering::AcqRel);
                while drained.load(Ordering::Acquire) < 2 {
                    port.progress();
                    std::thread::yield_now();
                }
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
fn r7_nodes_without_a_fabric_gather_at_node_0_whichever_is_up_first() {
    for first in [0, 2] {
        let cards = [(); 3].map(|()| FakeCard::new(CARD_MTU));
        let map = TaskMap::new(3, 1, MapOrder::NodesFirst).unwrap();
        let units: [&'static MessageUnit<Host<25>, _>; 3] = [0, 1, 2].map(|node| {
            let nic = VirtioNet::<Host<25>, _>::new(cards[node as usize].clone()).unwrap();
            let adapter = Some(Reliable::<_, Host<25>>::new(TorusAdapter::new(nic, node).unwrap(), node, 3));
            let plain = Some(Identity { incarnation: 1, words: JobWords::new(format_args!("torus=3")) });
            let setup = Setup { contexts: 1, plain, ..setup(adapter, node, map) };
            MessageUnit::start(setup).unwrap()
        });
        let (stop, up) = (AtomicBool::new(false), &AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| run_wires::<25>(&cards, &stop));
            let nodes = [0, 1, 2].map(|node| {
                scope.spawn(move || {
                    Host::<25>::be(8 * node);
                    while node != first && up.load(Ordering::Acquire) == 0 {
                        std::thread::yield_now();
                    }
                    up.fetch_add(1, Ordering::AcqRel);
                    units[node].join(3);
                    assert_eq!(up.load(Ordering::Acquire), 3, "it has started before all were up");
                    units[node].drain();
                })
            });
            for node in nodes {
                node.join().unwrap();
            }
            stop.store(true, Ordering::Release);
        });
        assert!(units.iter().all(|unit| unit.statistics().dropped.total() == 0));
    }
}
