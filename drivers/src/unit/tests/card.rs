//! Message unit, torus adapter and virtqueues together, on fake cards.

use super::*;
use crate::link::{Flags, Link, Seq, unsealed};
use crate::lossless::Lossless;
use crate::nic::SmallMtu;
use crate::torus::{ETHERTYPE, ETHERTYPE_RELIABLE, TorusAdapter, mac};
use crate::virtio::fake::FakeCard;
use crate::virtio::{Features, VirtioError, VirtioNet};
use pami::packet::Header;
use zerocopy::IntoBytes;

type Nic<const TEST: usize> = VirtioNet<Host<TEST>, FakeCard>;
pub(super) type CardUnit<const TEST: usize> =
    MessageUnit<Host<TEST>, Lossless<TorusAdapter<Nic<TEST>>, Host<TEST>>>;

pub(super) const CARD_MTU: u16 = 1024;

pub(super) fn unit<const TEST: usize>(card: &FakeCard, node: u32, nodes: u32) -> &'static CardUnit<TEST> {
    let map = TaskMap::new(nodes, 1, MapOrder::NodesFirst).unwrap();
    let torus = TorusAdapter::new(Nic::<TEST>::new(card.clone()).unwrap(), node).unwrap();
    let adapter = Some(Lossless::new(torus, node, nodes));
    MessageUnit::start(setup(adapter, node, map)).unwrap()
}

pub(super) use crate::torus::frame;

/// A packet of node `from` behind the link header of its frame number `at` on a lossless network.
pub(super) fn counted(to: u32, from: u32, at: u32, packet: &[u8]) -> Vec<u8> {
    let link = Link {
        life: 0,
        connection: 0,
        own: 0,
        attempt: 0,
        sequence: Seq::FIRST.plus(at),
        acknowledged: Seq::FIRST,
        sack: 0,
        credit: 0,
        length: packet.len() as u16,
        flags: Flags::PACKET,
    };
    let mut bytes = [&[0; 32][..], packet].concat();
    link.seal(from, to, &mut bytes, [], unsealed);
    frame(to, from, ETHERTYPE_RELIABLE, &bytes)
}

#[test]
fn d9_frames_that_are_not_for_this_node_are_counted_and_their_buffers_used_again() {
    let card = FakeCard::new(CARD_MTU);
    let unit = unit::<18>(&card, 1, 2);
    let mut port = unit.open(ClientId(0), 0, 0, Sharing::Exclusive).unwrap();
    let good = envelope(endpoint(0, 0), endpoint(1, 0), 1);
    let header = Header::new(&good, 0, 0);
    let packet = header.as_bytes();
    // More than there are buffers of each.
    let rounds = if cfg!(miri) { 3 } else { 300 };
    for _ in 0..rounds {
        for bytes in [
            frame(1, 0, 0x0800, packet),
            frame(1, 0, ETHERTYPE, packet),
            [&mac(1)[..], &counted(2, 0, 0, packet)[6..]].concat(),
            frame(1, 0, ETHERTYPE_RELIABLE, &packet[..31]),
            mac(1).to_vec(),
        ] {
            card.receive(&bytes).expect("a buffer");
        }
        port.progress();
    }
    let dropped = unit.statistics().dropped;
    assert_eq!((dropped.foreign, dropped.stray, dropped.runts), (2 * rounds, rounds, 2 * rounds));
    card.receive(&counted(1, 0, 0, packet)).unwrap();
    assert_eq!(next(&mut port, || ()).envelope(), good);
}

#[test]
fn d9_used_entries_that_cannot_be_are_counted_by_the_unit() {
    let card = FakeCard::new(CARD_MTU);
    let unit = unit::<19>(&card, 0, 2);
    let mut port = unit.open(ClientId(0), 0, 0, Sharing::Exclusive).unwrap();
    for id in [256, u32::MAX, 7, 7] {
        card.card().queues[0].as_mut().unwrap().put(id, 100_000);
    }
    card.card().queues[1].as_mut().unwrap().put(3, 0);
    port.progress();
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
        Nic::<20>::new(card).map(|_| ()).unwrap_err()
    };
    assert_eq!(refused(&|card| card.id = 2), VirtioError::WrongDevice { id: 2 });
    assert_eq!(refused(&|card| card.id = 0), VirtioError::WrongDevice { id: 0 });
    assert_eq!(refused(&|card| card.offered &= !(1 << 29)), VirtioError::Lacks(Features::EVENT_IDX));
    assert_eq!(refused(&|card| card.offered &= !(1 << 32)), VirtioError::Lacks(Features::VERSION_1));
    assert_eq!(refused(&|card| card.refuses = true), VirtioError::Refused);
    assert_eq!(refused(&|card| card.queue_max = 128), VirtioError::Queue { index: 0, max: 128 });
    let small = Nic::<20>::new(FakeCard::new(0)).unwrap();
    assert_eq!(TorusAdapter::new(small, 0).map(|_| ()).unwrap_err(), SmallMtu(0));
    let card = FakeCard::new(CARD_MTU);
    TorusAdapter::new(Nic::<20>::new(card.clone()).unwrap(), 0).unwrap();
    assert_eq!(card.card().accepted, 1 << 3 | 1 << 5 | 1 << 29 | 1 << 32, "no more than is used");
    assert_eq!(card.card().status, 1 | 2 | 4 | 8);
}

#[test]
fn r7_only_the_network_says_go() {
    let card = FakeCard::new(CARD_MTU);
    let unit = unit::<38>(&card, 1, 3);
    let mut port = unit.open(ClientId(0), 0, 0, Sharing::Exclusive).unwrap();
    let go = Envelope { kind: Kind::Go, total: 3, ..envelope(endpoint(0, 0), endpoint(1, 0), 0) };
    let go = Header::new(&go, 0, 0);
    let mut says_go = |source| {
        let frame = match source {
            crate::adapter::FABRIC => frame(1, source, ETHERTYPE, go.as_bytes()),
            node => counted(1, node, 0, go.as_bytes()),
        };
        card.receive(&frame).unwrap();
        port.progress();
        unit.joined.load(std::sync::atomic::Ordering::Relaxed)
    };
    assert!(!says_go(0) && !says_go(2), "a node's word is taken for the network's");
    assert!(says_go(crate::adapter::FABRIC));
    assert_eq!(unit.statistics().dropped.unexpected, 2);
}
