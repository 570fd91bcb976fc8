//! What a port hears of without looking everywhere (SPEC N-8).

use super::*;
use crate::platform::Platform;
use core::sync::atomic::Ordering;
use pami::device::{Receiving, Sending, Sleeping, Wake};

/// Two ports of a node without an adapter that have looked everywhere.
fn looked_around<const TEST: usize>() -> [TestPort<TEST>; 2] {
    let map = TaskMap::new(1, 1, MapOrder::TasksFirst).unwrap();
    let setup = Setup { harts: 1, ..setup(None, 0, map) };
    let unit: &'static Unit<TEST> = MessageUnit::start(setup).unwrap();
    let mut ports = [open(unit, 0), open(unit, 1)];
    for port in &mut ports {
        assert!(port.pull().is_none() && !port.progress() && port.is_quiet());
    }
    ports
}

#[test]
fn n8_a_port_is_quiet_until_something_comes_and_again_when_all_was_taken() {
    let [mut a, mut b] = looked_around::<23>();
    let path = a.locate(endpoint(0, 1), true).unwrap();
    for message in 0..3 {
        a.push_bcopy(path, &envelope(endpoint(0, 0), endpoint(0, 1), message), &[], b"here").unwrap();
        assert!(a.is_quiet() && !b.is_quiet());
    }
    for message in 0..3 {
        let arrival = b.pull().unwrap();
        assert_eq!(arrival.envelope().message, message);
        b.release(arrival);
    }
    assert!(b.pull().is_none() && b.is_quiet());
    for _ in 0..1000 {
        assert!(b.is_quiet(), "longer looks find nothing either");
    }
    b.look();
    assert!(!b.is_quiet() && b.pull().is_none() && b.is_quiet(), "looks everywhere when told to");
}

#[test]
fn n8_a_message_of_one_line_rings_as_any_other() {
    let [mut a, mut b] = looked_around::<24>();
    let target = endpoint(0, 1);
    let path = a.locate(target, true).unwrap();
    let route = a.route(target, path).unwrap();
    // The first word of a pair is found by a look everywhere.
    a.push_bcopy(path, &envelope(endpoint(0, 0), target, 9), &[], &[]).unwrap();
    let arrival = b.pull().unwrap();
    b.release(arrival);
    assert!(b.pull().is_none() && b.is_quiet());
    a.push_short(&route, 3, b"head", b"data").unwrap();
    assert!(!b.is_quiet());
    let arrival = b.pull_ready().unwrap();
    assert_eq!((arrival.whole(), arrival.parts()), (Some((3, endpoint(0, 0))), (&b"head"[..], &b"data"[..])));
    let whole =
        Envelope { kind: Kind::EagerFirst, dispatch: 3, total: 4, ..envelope(endpoint(0, 0), target, 0) };
    assert_eq!(arrival.envelope(), whole);
    b.release(arrival);
    assert!(b.pull_ready().is_none() && b.pull().is_none() && b.is_quiet());
    assert!(a.push_short(&route, 3, &[0; 20], &[0; 21]).is_err(), "longer than a line");
}

#[test]
fn n8_behind_a_message_a_port_is_drained_if_its_one_ring_is_empty_and_no_other_is_announced() {
    let [mut a, mut b] = looked_around::<30>();
    let target = endpoint(0, 1);
    let path = a.locate(target, true).unwrap();
    let from = |sender: u8| envelope(endpoint(0, sender), target, 9);
    let take = |port: &mut TestPort<30>| {
        let arrival = port.pull_ready().unwrap();
        port.release(arrival);
        port.is_drained()
    };
    a.push_bcopy(path, &from(0), &[], &[]).unwrap();
    assert!(!b.is_drained(), "a ring was announced");
    let arrival = b.pull().unwrap();
    b.release(arrival);
    for _ in 0..2 {
        a.push_bcopy(path, &from(0), &[], &[]).unwrap();
    }
    assert!(!take(&mut b), "a second message waits");
    assert!(take(&mut b) && b.is_quiet() && b.pull().is_none());
    a.push_bcopy(path, &from(0), &[], &[]).unwrap();
    // Its own ring is a second one.
    b.push_bcopy(path, &from(1), &[], b"other").unwrap();
    assert!(!take(&mut b), "another ring has a message");
    let arrival = b.pull().unwrap();
    assert_eq!(arrival.parts().1, b"other");
    b.release(arrival);
    a.push_bcopy(path, &from(0), &[], &[]).unwrap();
    let arrival = b.pull().unwrap();
    b.release(arrival);
    assert!(!b.is_drained(), "of several rings a short look sees one");
    assert!(b.pull().is_none() && b.is_quiet());
}

#[test]
fn r2_a_port_that_waits_for_room_is_woken_when_there_is_some_and_not_before() {
    let net = Net::new(2);
    let units = units::<26>(&net, 2, 1, None);
    // Two contexts of one node: one fills all there is on the way to a node that computes, the other runs the engine.
    let (mut full, mut other, mut receiver) = (open(units[0], 0), open(units[0], 1), open(units[1], 0));
    let envelope = envelope(endpoint(0, 0), endpoint(1, 0), 0);
    let mut push = || full.push_bcopy(torus(1), &envelope, &[], b"short");
    while push().is_ok() || other.progress() {}
    Host::<26>::be(3);
    full.arm();
    for _ in 0..100 {
        other.look();
        other.progress();
        assert!(!Host::<26>::take_woken(3), "woken, with as little room as before");
    }
    let arrival = next(&mut receiver, || ());
    receiver.release(arrival);
    while !other.progress() {
        other.look();
    }
    assert!(Host::<26>::take_woken(3), "there is room, and it was not woken");
}

#[test]
fn r2_an_agent_does_not_end_its_own_sleep_for_a_deadline_that_it_knows() {
    const AGENT: usize = 7;
    let net = Net::new(1);
    let map = TaskMap::new(1, 1, MapOrder::TasksFirst).unwrap();
    let adapter = FakeAdapter::new(&net, 0, MTU).with_deadline(u64::MAX - 1);
    let setup = Setup { contexts: 1, harts: 8, agent: Some(AGENT), ..setup(Some(adapter), 0, map) };
    let unit: &'static Unit<27> = MessageUnit::start(setup).unwrap();
    unit.note_go();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Host::<27>::be(0);
            unit.sleep(None);
        });
        while unit.sleeping.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        Host::<27>::be(AGENT);
        unit.progress();
        let itself = Host::<27>::take_woken(AGENT);
        // Another hart that ran the engine has the agent look: it may sleep past the deadline.
        Host::<27>::be(1);
        unit.progress();
        let by_another = Host::<27>::take_woken(AGENT);
        Host::<27>::wake(0);
        assert!(!itself && by_another, "the agent was woken by itself: {itself}, by another: {by_another}");
    });
}

#[test]
fn r2_who_finds_work_on_its_way_to_sleep_leaves_the_others_an_armed_card() {
    let net = Net::new(2);
    let units = units::<29>(&net, 2, 1, None);
    let mut sender = open(units[1], 0);
    sender.push_bcopy(torus(0), &envelope(endpoint(1, 0), endpoint(0, 0), 0), &[], b"here").unwrap();
    while net.on_the_way(0) == 0 {
        sender.progress();
    }
    // Hart 1 sleeps until the card interrupts, and the card's interrupt was for the packet that hart 0 finds.
    units[0].sleeping.fetch_or(1 << 1, Ordering::SeqCst);
    net.disarm(0);
    Host::<29>::be(0);
    units[0].sleep(None);
    assert_eq!(net.on_the_way(0), 0, "it was taken in");
    assert!(net.is_armed(0), "the next packet wakes nobody");
}

#[test]
fn n8_a_waker_is_quiet_while_nobody_rang_if_somebody_rings_for_what_the_card_received() {
    let [mut a, mut b] = looked_around::<31>();
    let (path, waker) = (a.locate(endpoint(0, 1), true).unwrap(), b.waker());
    assert!(waker.is_quiet());
    a.push_bcopy(path, &envelope(endpoint(0, 0), endpoint(0, 1), 0), &[], b"here").unwrap();
    assert!(!waker.is_quiet(), "a message came");
    let arrival = b.pull().unwrap();
    b.release(arrival);
    assert!(b.pull().is_none() && waker.is_quiet(), "it was taken");
    Host::<31>::be(3);
    b.arm();
    assert!(!waker.is_quiet(), "somebody sleeps");
    b.disarm();
    assert!(b.pull().is_none() && waker.is_quiet());
    waker.wake();
    assert!(!waker.is_quiet(), "it was rung");
    for (agent, hears) in [(None, false), (Some(7), true)] {
        let mut port = open(units::<32>(&Net::new(2), 2, 1, agent)[0], 0);
        assert!(port.pull().is_none());
        assert_eq!(port.waker().is_quiet(), hears, "with the agent {agent:?}");
    }
}
