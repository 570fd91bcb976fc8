//! What a port hears of without looking everywhere (SPEC N-8).

use super::*;
use pami::context::{Active, Progress, Work, WorkSlot};
use std::boxed::Box;

/// Two ports of a node without an adapter that have looked everywhere.
fn looked_around<const TEST: usize>() -> [TestPort<TEST>; 2] {
    let map = TaskMap::new(1, 1, MapOrder::TasksFirst).unwrap();
    let setup = Setup { adapter: None, node: 0, map, contexts: 2, harts: 1, agent: None };
    let unit: &'static Unit<TEST> = MessageUnit::start(setup).unwrap();
    let mut ports = [open(unit, 0), open(unit, 1)];
    for port in &mut ports {
        assert!(port.pull().is_none() && !port.drive() && port.is_quiet());
    }
    ports
}

fn blocked<const TEST: usize>(_: &mut Active<TestPort<TEST>>, _: usize) -> Progress {
    Progress::Again
}

#[test]
fn n8_a_port_is_quiet_until_something_comes_and_again_when_all_was_taken() {
    let [mut a, mut b] = looked_around::<23>();
    let path = a.locate(endpoint(0, 1), true).unwrap();
    for message in 0..3 {
        a.push_copy(path, &envelope(endpoint(0, 0), endpoint(0, 1), message), &[], b"here").unwrap();
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
    a.push_copy(path, &envelope(endpoint(0, 0), target, 9), &[], &[]).unwrap();
    let arrival = b.pull().unwrap();
    b.release(arrival);
    assert!(b.pull().is_none() && b.is_quiet());
    a.push_whole(&route, 3, b"head", b"data").unwrap();
    assert!(!b.is_quiet());
    let arrival = b.pull_ready().unwrap();
    assert_eq!((arrival.whole(), arrival.parts()), (Some((3, endpoint(0, 0))), (&b"head"[..], &b"data"[..])));
    let whole = Envelope { kind: Kind::First, dispatch: 3, total: 4, ..envelope(endpoint(0, 0), target, 0) };
    assert_eq!(arrival.envelope(), whole);
    b.release(arrival);
    assert!(b.pull_ready().is_none() && b.pull().is_none() && b.is_quiet());
    assert!(a.push_whole(&route, 3, &[0; 20], &[0; 21]).is_err(), "longer than a line");
}

#[test]
fn n8_a_port_sleeps_though_work_waits_for_room_but_not_though_work_was_just_posted() {
    let [mut port, _] = looked_around::<25>();
    let slots: [&'static WorkSlot<_>; 2] = core::array::from_fn(|_| &*Box::leak(Box::new(WorkSlot::new())));
    let work = Work { run: &blocked::<25>, cookie: 0 };
    assert!(port.arm());
    assert_eq!(port.posts().post(slots[0], work), Ok(true), "its hart is to be woken");
    port.disarm();
    assert!(!port.is_quiet() && port.posted().peek().is_some());
    // As when it was run and said that it has to wait.
    assert!(port.arm());
    assert_eq!(port.posts().post(slots[1], work), Ok(false), "it would have to wait as well");
    port.disarm();
    port.posted().pop();
    port.posted().pop();
    assert!(port.posted().peek().is_none());
    assert!(port.pull().is_none() && port.is_quiet());
}
