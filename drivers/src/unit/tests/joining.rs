//! How often a node calls that waits for others to boot, on a clock of the test's own.

use super::card::{CARD_MTU, frame};
use super::*;
use crate::TreeUnit;
use crate::adapter::FABRIC;
use crate::lossless::Lossless;
use crate::platform::Platform;
use crate::torus::{ETHERTYPE, TorusAdapter};
use crate::tree_network::TreeAdapter;
use crate::virtio::VirtioNet;
use crate::virtio::fake::FakeCard;
use core::cell::{Cell, RefCell};
use pami::combine::packet as combine;
use pami::packet::Header;
use zerocopy::IntoBytes;

/// So long the last node takes to boot.
const LATE_NS: u64 = 30_000_000_000;
/// Calls of a node in that time: at 0, 10, 30, 70 ms and so on, then every 5 s.
const CALLS: usize = 20;

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static CARD: RefCell<Option<(FakeCard, Vec<u8>)>> = const { RefCell::new(None) };
    static CALLED: Cell<usize> = const { Cell::new(0) };
}

/// A node whose sleeps take no time. When the last node is up, the network sends the frame that the node waits for.
struct Patient;

impl Platform for Patient {
    type Card = crate::virtio::VirtioNet<Self, crate::virtio::fake::FakeCard>;

    fn hart() -> usize {
        0
    }

    fn now_ns() -> u64 {
        NOW.get()
    }

    fn wake(_: usize) {}

    fn wait(deadline_ns: Option<u64>, _: impl FnMut()) {
        NOW.set(deadline_ns.unwrap_or(LATE_NS).max(NOW.get()));
        CARD.with_borrow(|card| {
            let Some((card, answer)) = card else { return };
            while card.transmit().is_some() {
                CALLED.set(CALLED.get() + 1);
            }
            if NOW.get() >= LATE_NS {
                card.receive(answer).expect("a buffer");
            }
        });
    }
}

fn nic(card: &FakeCard) -> VirtioNet<Patient, FakeCard> {
    VirtioNet::new(card.clone()).unwrap()
}

#[test]
fn n8_a_node_that_waits_for_the_torus_calls_less_and_less_often() {
    let card = FakeCard::new(CARD_MTU);
    let adapter = Some(Lossless::<_, Patient>::new(TorusAdapter::new(nic(&card), 1).unwrap(), 1, 3));
    let map = TaskMap::new(3, 1, MapOrder::NodesFirst).unwrap();
    let unit: &MessageUnit<Patient, _> =
        MessageUnit::start(Setup { contexts: 1, harts: 1, ..setup(adapter, 1, map) }).unwrap();
    let go = Envelope { kind: Kind::Go, total: 3, ..envelope(endpoint(0, 0), endpoint(1, 0), 0) };
    let go = frame(1, FABRIC, ETHERTYPE, Header::new(&go, 0, 0).as_bytes());
    CARD.set(Some((card, go)));
    unit.join(3);
    assert!((2..CALLS).contains(&CALLED.get()), "{} calls", CALLED.get());
}

#[test]
fn n8_a_node_by_itself_waits_for_nobody_behind_its_card_and_sends_nothing() {
    let card = FakeCard::new(CARD_MTU);
    let adapter = Some(Lossless::<_, Patient>::new(TorusAdapter::new(nic(&card), 0).unwrap(), 0, 1));
    let map = TaskMap::new(1, 1, MapOrder::NodesFirst).unwrap();
    let unit: &MessageUnit<Patient, _> =
        MessageUnit::start(Setup { contexts: 1, harts: 1, fabric: false, ..setup(adapter, 0, map) }).unwrap();
    unit.join(1);
    assert!(card.transmit().is_none());
    unit.drain();
}

#[test]
fn n8_a_node_that_waits_for_the_tree_calls_less_and_less_often() {
    let card = FakeCard::new(CARD_MTU);
    let unit: TreeUnit<Patient, _> = TreeUnit::new(TreeAdapter::new(nic(&card), 1, 3).unwrap());
    let world = pami::combine::ClassRoute::WORLD;
    let welcome = pami::combine::TreeEnvelope {
        argument: 3,
        ..pami::combine::TreeEnvelope::new(pami::combine::TreePacketKind::Welcome, world, combine::NETWORK)
    };
    let header = combine::TreeHeader::new(&welcome, 0);
    let ether_type = combine::ETHER_TYPE.to_be_bytes();
    let welcome =
        [&combine::mac(1)[..], &combine::mac(combine::NETWORK), &ether_type, header.as_bytes()].concat();
    CARD.set(Some((card, welcome)));
    unit.join();
    assert!((2..CALLS).contains(&CALLED.get()), "{} calls", CALLED.get());
}
