//! Nodes that reach each other's memory: messages by rings, memory by hand, deaths (SPEC H-1, H-5).

use super::host::OUT_OF_REACH;
use super::*;
use crate::near::{Desk, Near};
use core::ptr::NonNull;
use pami::device::{Gone, Liveness, NoRegion, Receiving, RemoteMemory, Sending, Sleeping, Unreachable};
use std::boxed::Box;

/// Units of two nodes of one task of two contexts that reach each other's memory, and may have a network beside that.
fn near<const TEST: usize>(net: Option<&Net>) -> [&'static Unit<TEST>; 2] {
    let memory = std::vec![0u64; 64].leak();
    let skip = memory.as_ptr().align_offset(64);
    let place = NonNull::from(&mut memory[skip..skip + 2 * size_of::<Desk>() / 8]).cast::<u8>();
    // SAFETY: zeros at a multiple of 64 that nobody else uses; one process has one address space and one image.
    let desks = unsafe { Desk::all(NonNull::slice_from_raw_parts(place, 2 * size_of::<Desk>())) };
    let map = TaskMap::new(2, 1, MapOrder::TasksFirst).unwrap();
    [0, 1].map(|node| {
        let adapter = net.map(|net| FakeAdapter::new(net, node as usize, MTU));
        let near = Some(Near { desks, node });
        MessageUnit::start(Setup { near, ..setup(adapter, node, map) }).unwrap()
    })
}

fn number(path: Path) -> u16 {
    match path {
        Path::Local(number) => number,
        Path::Torus(node) => panic!("by the network to node {node}"),
    }
}

#[test]
fn h5_contexts_of_two_nodes_talk_through_memory_and_wake_each_other() {
    let [first, second] = near::<40>(None);
    let [mut a, mut b] = [open(first, 1), open(second, 0)];
    Host::<40>::be(9);
    let (own, other) = (endpoint(0, 1), endpoint(1, 0));
    let to = a.locate(other, true).unwrap();
    let back = b.locate(own, true).unwrap();
    assert_ne!(
        number(to),
        number(a.locate(endpoint(0, 0), true).unwrap()),
        "its own node's port of that number"
    );
    assert_eq!(a.locate(endpoint(2, 0), true), Err(Unreachable::NoSuchEndpoint));
    // The first word of a pair is found by a look everywhere.
    a.push_bcopy(to, &envelope(own, other, 1), b"head", &pattern(1, 300)).unwrap();
    let arrival = b.pull().unwrap();
    assert_eq!((arrival.envelope().origin, arrival.envelope().target), (own, other));
    assert_eq!(arrival.parts(), (&b"head"[..], &pattern(1, 300)[..]));
    b.release(arrival);
    assert!(b.pull().is_none());
    b.arm();
    let route = a.route(other, to).unwrap();
    a.push_short(&route, 3, b"", b"data").unwrap();
    assert!(Host::<40>::take_woken(9), "whoever pushes wakes the other node's hart");
    b.disarm();
    let arrival = b.pull_ready().unwrap();
    assert_eq!((arrival.whole(), arrival.data()), (Some((3, own)), &b"data"[..]));
    b.release(arrival);
    // And back, of any length: it is read where it lies.
    let memory = std::vec![0; 100_000 + CONTROL_BYTES + 63].leak();
    let mut buffer = Buffer::new(memory).unwrap();
    buffer.as_mut_slice()[..100_000].copy_from_slice(&pattern(2, 100_000));
    let lease = buffer.lend();
    let source = lease.source().slice(0..100_000).unwrap();
    assert!(b.lends(back, &source) && !b.lends(torus(0), &source));
    b.push_zcopy(back, &envelope(other, own, 2), &[], &source).unwrap();
    drop(source);
    let arrival = a.pull().unwrap();
    assert_eq!(arrival.data().as_ptr(), lease.as_slice().as_ptr());
    assert!(arrival.data() == pattern(2, 100_000) && !lease.is_idle());
    a.release(arrival);
    assert!(lease.reclaim().is_ok());
}

#[test]
fn h5_a_ring_that_is_full_tells_its_sender_of_room_across_nodes() {
    let [first, second] = near::<40>(None);
    let [mut a, mut b] = [open(first, 0), open(second, 0)];
    let (own, other) = (endpoint(0, 0), endpoint(1, 0));
    let to = a.locate(other, true).unwrap();
    let sent =
        (0..).take_while(|&message| a.push_bcopy(to, &envelope(own, other, message), &[], b"x").is_ok());
    let sent = sent.count() as u32;
    assert!(sent > 1);
    Host::<40>::be(17);
    a.arm();
    for message in 0..sent {
        let arrival = b.pull().unwrap();
        assert_eq!(arrival.envelope().message, message);
        b.release(arrival);
    }
    assert!(Host::<40>::take_woken(17));
    a.disarm();
    a.push_bcopy(to, &envelope(own, other, sent), &[], b"x").unwrap();
    assert_eq!(b.pull().unwrap().envelope().message, sent);
}

#[test]
fn h5_memory_of_another_node_is_reached_at_once_and_with_its_rights() {
    let [first, second] = near::<41>(None);
    let [mut a, mut b] = [open(first, 0), open(second, 0)];
    let (own, other) = (endpoint(0, 0), endpoint(1, 0));
    // As many there that the names differ.
    let (_, _first_of_b) = region(&mut b, &[7; 64]);
    let (named, memory) = region(&mut b, &[0; 64]);
    a.put_local(other, named, 8, b"put here").unwrap();
    assert_eq!(&bytes(&memory)[8..16], b"put here");
    let into = shared(&[0; 8]);
    a.get_local(other, named, 8, (&into, 0), 8).unwrap();
    assert_eq!(bytes(&into), b"put here");
    let add = RmwOp { width: Width::Eight, update: Update::Add(5) };
    assert_eq!(a.rmw_local(other, named, 16, add), Ok(0));
    assert_eq!(b.rmw_local(other, named, 16, add), Ok(5));
    assert_eq!(a.put_local(other, named, 60, b"too long"), Err(RegionFault::Bounds));
    assert_eq!(a.put_local(own, named, 0, b"x"), Err(RegionFault::Stale), "node 0 has no such region");
    b.deregister(named);
    assert_eq!(a.put_local(other, named, 0, b"x"), Err(RegionFault::Stale));
}

#[test]
fn h5_what_other_nodes_do_not_reach_is_copied_and_is_no_region() {
    let [first, second] = near::<42>(None);
    let [mut a, mut b] = [open(first, 0), open(second, 0)];
    let memory = OUT_OF_REACH.take();
    let mut buffer = Buffer::new(memory).unwrap();
    buffer.as_mut_slice()[..200].copy_from_slice(&pattern(3, 200));
    let lease = buffer.lend();
    let source = lease.source().slice(0..200).unwrap();
    let (own, other) = (endpoint(0, 0), endpoint(1, 0));
    let [there, here] = [other, endpoint(0, 1)].map(|target| a.locate(target, true).unwrap());
    assert!(!a.lends(there, &source) && a.lends(here, &source));
    a.push_zcopy(there, &envelope(own, other, 3), &[], &source).unwrap();
    let arrival = b.pull().unwrap();
    assert!(arrival.data() == pattern(3, 200) && arrival.data().as_ptr() != source.as_slice().as_ptr());
    assert_eq!(a.register(Memory::Lent(source), Rights::READ), Err(NoRegion::OutOfReach));
}

#[test]
fn h4_a_node_that_is_gone_is_reached_no_more_and_what_it_sent_before_is() {
    let net = Net::new(2);
    let [first, second] = near::<43>(Some(&net));
    let [mut a, mut b] = [open(first, 0), open(second, 0)];
    let (own, other) = (endpoint(0, 0), endpoint(1, 0));
    let back = b.locate(own, true).unwrap();
    b.push_bcopy(back, &envelope(other, own, 4), &[], b"last words").unwrap();
    let mut buffer = Buffer::new(std::vec![0; 1000].leak()).unwrap();
    buffer.as_mut_slice()[..400].copy_from_slice(&pattern(5, 400));
    let lease = buffer.lend();
    let there = a.locate(other, true).unwrap();
    a.push_zcopy(there, &envelope(own, other, 5), &[], &lease.source().slice(0..400).unwrap()).unwrap();
    a.take_back_from_gone();
    assert!(!lease.is_idle(), "it may be read still");
    first.announce(1, Gone::Died);
    a.take_back_from_gone();
    assert!(lease.reclaim().is_ok(), "nobody reads it any more");
    assert_eq!((a.deaths(), a.locate(other, true)), (1, Err(Unreachable::Gone(1, Gone::Died))));
    assert_eq!(a.pull().unwrap().data(), b"last words");
}

#[test]
fn h1_who_has_published_nothing_is_reached_by_the_network() {
    let net = Net::new(2);
    let desks: &'static [Desk] = std::vec![Desk::default(), Desk::default()].leak();
    let map = TaskMap::new(2, 1, MapOrder::TasksFirst).unwrap();
    let adapter = Some(FakeAdapter::new(&net, 0, MTU));
    let near = Some(Near { desks, node: 0 });
    let unit: &'static Unit<43> = MessageUnit::start(Setup { near, ..setup(adapter, 0, map) }).unwrap();
    let a = open(unit, 0);
    assert_eq!(a.locate(endpoint(1, 0), true), Ok(torus(1)));
    assert_ne!(a.locate(endpoint(0, 1), true), Ok(torus(0)));
    assert_eq!(a.locate(endpoint(0, 1), false), Ok(torus(0)));
}

/// A region ends while another node is at it: its owner waits, but not for a node that is gone. Which here lives on, and has a
/// reference to what has ended: not under Miri.
#[cfg(not(miri))]
#[test]
fn h5_a_region_ends_once_no_node_that_lives_is_at_it() {
    let net = Net::new(2);
    let [first, second] = near::<44>(Some(&net));
    let (mut a, mut b) = (open(first, 0), open(second, 0));
    let other = endpoint(1, 0);
    let (named, memory) = region(&mut b, &[1; 64]);
    let (told, began) = std::sync::mpsc::channel();
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let looker = std::thread::spawn(move || {
        let reached = a.reach(other, named, Rights::READ, |_| {
            told.send(()).unwrap();
            // Until the other end is dropped.
            let _ = waits.recv();
        });
        assert_eq!(reached, Ok(()));
    });
    began.recv().unwrap();
    // The node is at it for ever; only that it dies lets its owner go on.
    let owner = std::thread::spawn(move || {
        b.deregister(named);
        drop(memory);
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!owner.is_finished());
    second.announce(0, Gone::Died);
    owner.join().unwrap();
    drop(go_on);
    looker.join().unwrap();
}

/// Who was told to wake a sleeper and dies before it does: the death wakes it.
#[test]
fn h4_a_sleeper_whose_waker_dies_is_woken_by_the_death() {
    let net = Net::new(2);
    let [first, _second] = near::<45>(Some(&net));
    let mut a = open(first, 0);
    let bell = a.bell();
    let sleeper = std::thread::spawn(move || {
        Host::<45>::be(3);
        a.arm();
        a.sleep(None);
    });
    while bell.rests(rings::bell::Rest::Watched) {
        std::thread::yield_now();
    }
    // As the other node would ring, without what follows.
    while bell.ring().is_none() {
        std::thread::yield_now();
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    first.announce(1, Gone::Died);
    sleeper.join().unwrap();
}

#[test]
fn h5_no_bytes_may_be_anywhere() {
    let [first, second] = near::<46>(None);
    let [mut a, _b] = [open(first, 0), open(second, 0)];
    let control = Box::leak(Box::new(rings::buffer::ControlBlock::new()));
    // SAFETY: no bytes.
    let Ok(none) = (unsafe { Buffer::over(core::ptr::null_mut(), 0, control) }) else { panic!("no bytes") };
    assert!(a.register(Memory::Shared(none.share()), Rights::READ).is_ok());
}
