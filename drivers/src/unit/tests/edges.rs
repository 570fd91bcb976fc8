//! What only the network, a job that ends, or a hostile node asks of a unit.

use super::hostile::packet;
use super::*;
use crate::adapter::HEAD_BYTES;
use crate::platform::Platform;
use crate::unit::slots::{CopySlots, SHORT_BYTES};
use core::cell::RefCell;
use pami::device::{Gone, Sending};
use pami::packet::ENDED;
use zerocopy::IntoBytes;

std::thread_local! {
    static DIED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// A hart that notes which nodes it is told have died.
struct Mourner;

impl Platform for Mourner {
    type Card = crate::virtio::VirtioNet<Self, crate::virtio::fake::FakeCard>;

    fn hart() -> usize {
        0
    }

    fn now_ns() -> u64 {
        0
    }

    fn wake(_: usize) {}

    fn wait(_: Option<u64>, _: impl FnMut()) {}

    fn node_died(node: u32) {
        DIED.with_borrow_mut(|died| died.push(node));
    }
}

#[test]
fn r2_the_network_tells_who_died_and_who_only_ended() {
    let net = Net::new(3);
    let map = TaskMap::new(3, 1, MapOrder::TasksFirst).unwrap();
    let adapter = Some(FakeAdapter::<0>::new(&net, 0, MTU));
    let unit: &MessageUnit<Mourner, _> =
        MessageUnit::start(Setup { contexts: 1, harts: 1, ..setup(adapter, 0, map) }).unwrap();
    for (node, dispatch) in [(1, ENDED), (2, 0)] {
        let gone = Envelope { kind: Kind::Gone, dispatch, ..envelope(endpoint(node, 0), endpoint(0, 0), 0) };
        net.inject(0, &packet(&gone, &[], &[]));
        unit.progress();
    }
    assert_eq!([0, 1, 2].map(|node| unit.gone(node)), [None, Some(Gone::Ended), Some(Gone::Died)]);
    assert_eq!((unit.first_dead(), DIED.take()), (Some(2), std::vec![2]));
}

#[test]
fn r2_a_node_rests_when_all_is_sent_and_answered_and_peers_had_time_to_hear() {
    let net = Net::new(2);
    let map = TaskMap::new(2, 1, MapOrder::TasksFirst).unwrap();
    let adapter = Some(FakeAdapter::new(&net, 0, MTU).with_linger(500));
    let unit: &'static Unit<0> = MessageUnit::start(setup(adapter, 0, map)).unwrap();
    let mut port = open(unit, 0);
    let (region, _) = region(&mut port, &[0; 8]);
    let may_rest = |now| unit.with_engine(|engine| engine.may_rest(now)).unwrap();
    assert_eq!([499, 500].map(may_rest), [false, true]);
    port.push_bcopy(torus(1), &envelope(endpoint(0, 0), endpoint(1, 0), 0), &[], b"word").unwrap();
    assert!(!may_rest(500), "a packet is in the FIFO");
    net.stop(1, true);
    port.progress();
    assert!(!may_rest(500), "the adapter has it");
    net.stop(1, false);
    port.progress();
    assert!(may_rest(500));
    let get =
        Envelope { kind: Kind::Get, dispatch: 0, total: 8, ..envelope(endpoint(1, 0), endpoint(0, 0), 0) };
    net.inject(0, &packet(&get, region.as_bytes(), &[0; 4]));
    unit.with_engine(|engine| engine.receive(unit));
    assert!(!may_rest(500), "an answer is owed");
    while port.progress() {}
    assert!(may_rest(500));
}

#[test]
fn d9_raw_bytes_arrive_as_they_are_or_are_refused_and_leave_nothing_behind() {
    let net = Net::new(3);
    let unit = units::<0>(&net, 3, 1, None)[0];
    let raw = [7; HEAD_BYTES + 1];
    assert!(!unit.send_raw(1, &raw), "too many");
    assert!(unit.send_raw(1, &raw[1..]));
    unit.progress();
    assert_eq!(net.take(1).as_deref(), Some(&raw[1..]));
    // As many as the adapter has room for.
    let sent = (0..100).take_while(|_| unit.send_raw(1, b"raw")).count();
    assert_eq!(sent, 32);
    unit.progress();
    while net.take(1).is_some() {
        unit.progress();
    }
    unit.announce(2, Gone::Died);
    assert!(!unit.send_raw(2, b"raw"), "to a node that died");
    assert_eq!(unit.with_engine(|engine| engine.may_rest(0)), Some(true));
}

#[test]
fn d4_a_slot_of_a_larger_slab_lies_inside_this_one() {
    let (small, _, short) = CopySlots::new((2, 64), 3);
    let (_, long, _) = CopySlots::new((9, 64), 0);
    let [last, beyond] =
        [short.last().unwrap(), long.last().unwrap()].map(|slot| small.bytes(&slot).as_ptr());
    assert_eq!(beyond, last);
}

#[test]
fn d4_long_and_short_slots_lie_beside_each_other() {
    let (slab, long, short) = CopySlots::new((3, 100), 4);
    let mut all: Vec<_> = long.chain(short).collect();
    let lengths: Vec<_> = all.iter().map(|slot| slab.bytes(slot).len()).collect();
    assert_eq!(lengths, [100, 100, 100, SHORT_BYTES, SHORT_BYTES, SHORT_BYTES, SHORT_BYTES]);
    let is_short: Vec<_> = all.iter().map(|slot| slab.is_short(slot)).collect();
    assert_eq!(is_short, [false, false, false, true, true, true, true]);
    for (number, slot) in all.iter_mut().enumerate() {
        slab.bytes_mut(slot).fill(number as u8);
    }
    for (number, slot) in all.iter().enumerate() {
        assert!(slab.bytes(slot).iter().all(|&byte| byte == number as u8), "{number}");
        assert_eq!(slab.bytes(slot).as_ptr().align_offset(64), 0, "{number}");
    }
}
