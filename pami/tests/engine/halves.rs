//! Jobs of more endpoints than a context has places for half messages (SPEC ).

use crate::machine::{MTU, Packet, Step, TestNode, World, machine, machine_of, pattern};
use crate::scene::{Handler, Port, advance_all, collector, context, ends, message, send};
use pami::packet::{Envelope, Kind};
use pami::receive::HALVES_LIMIT;
use pami::{ClientBuilder, Context, Pools, Send};

/// Tasks of two contexts each, one of which sends to the first.
const TASKS: u32 = 90;
const LEN: usize = 3 * MTU;

/// So many contexts of each task.
fn contexts(nodes: &[&'static TestNode], each: u8, handler: Handler) -> Vec<Vec<Context<Port>>> {
    let create = |&node| {
        ClientBuilder::new(node, "halves")
            .pools(Pools::LARGE)
            .contexts(each)
            .dispatch(0, handler)
            .create()
            .unwrap()
    };
    let mut clients: Vec<_> = nodes.iter().map(create).collect();
    clients.iter_mut().map(|client| (0..each).map(|offset| context(client, offset)).collect()).collect()
}

/// Lets what can happen first happen, and the target take it in.
fn let_first_go(world: &World, target: &mut Context<Port>) -> usize {
    let first = world.lock().steps();
    for &step in &first {
        assert!(matches!(step, Step::Send(_)));
        world.lock().step(step);
        target.advance();
    }
    first.len()
}

#[test]
fn r9_r1_more_origins_are_in_the_middle_of_a_message_than_there_are_places_and_all_comes_in_order() {
    let (log, handler) = collector();
    let nodes = machine(TASKS, false);
    let world = nodes[0].world;
    let mut contexts: Vec<_> = contexts(&nodes, 2, handler).into_iter().flatten().collect();
    // Those of other nodes.
    let (to, origins) = (contexts[0].endpoint(), contexts.len() - 2);
    assert!(origins > HALVES_LIMIT);
    world.stepped();
    let (ended, done) = ends();
    for (number, origin) in contexts.iter_mut().enumerate().skip(2) {
        send(origin, Send { remote_done: done(number), ..message(to, pattern(LEN, number)) });
        // Behind it, and of one packet.
        send(origin, Send { header: b"behind", ..message(to, pattern(10, number)) });
    }
    // The first packet of each.
    assert_eq!(let_first_go(world, &mut contexts[0]), origins);
    assert_eq!(*log.lock().unwrap(), []);
    world.free_running();
    advance_all(&mut contexts.iter_mut().collect::<Vec<_>>());
    let log = log.lock().unwrap();
    assert_eq!((log.len(), ended.lock().unwrap().len()), (2 * origins, origins));
    for number in 2..contexts.len() {
        let task = number as u32 / 2;
        let place = |header: &[u8], data: Vec<u8>| {
            log.iter().position(|entry| *entry == (task, header.to_vec(), data.clone())).unwrap()
        };
        assert!(place(b"", pattern(LEN, number)) < place(b"behind", pattern(10, number)), "{number}");
    }
    assert_eq!(contexts.iter().map(|context| context.counters().protocol_errors).sum::<u64>(), 0);
    let refused = origins - HALVES_LIMIT;
    let called = world.count(Kind::Retry);
    assert!((refused..=2 * refused).contains(&called), "{called} calls for {refused} that found no place");
}

#[test]
fn r9_p6_where_each_endpoint_is_sure_of_a_place_no_message_asks() {
    let (log, handler) = collector();
    // Eight contexts in each task of the model.
    for (tasks, asks) in [(8, false), (9, true)] {
        let nodes = machine(tasks, false);
        let world = nodes[0].world;
        let create = |node| {
            ClientBuilder::new(node, "sure").pools(Pools::LARGE).dispatch(0, handler).create().unwrap()
        };
        let mut clients: Vec<_> = nodes.into_iter().map(create).collect();
        let [mut a, mut b] = [0, 1].map(|task| context(&mut clients[task], 0));
        send(&mut a, message(b.endpoint(), pattern(LEN, 1)));
        send(&mut b, message(a.endpoint(), pattern(MTU, 2)));
        advance_all(&mut [&mut a, &mut b]);
        assert_eq!(std::mem::take(&mut *log.lock().unwrap()).len(), 2);
        assert_eq!(world.count(Kind::Asked), usize::from(asks), "{tasks} tasks");
    }
}

#[test]
fn r1_origins_of_a_node_that_stand_still_in_the_middle_of_messages_leave_places_to_others() {
    let (log, handler) = collector();
    let nodes = machine_of(66, 22);
    let world = nodes[0].world;
    let mut contexts = contexts(&nodes, 8, handler);
    let to = contexts[0][0].endpoint();
    world.stepped();
    // All of the second node: more than there are places.
    for origin in contexts[22..44].iter_mut().flatten() {
        send(origin, message(to, pattern(LEN, 1)));
    }
    assert!(let_first_go(world, &mut contexts[0][0]) > HALVES_LIMIT);
    let still = world.lock().steps();
    // And one of the third, which alone goes on.
    send(&mut contexts[44][0], message(to, pattern(LEN, 2)));
    for _ in 0..200 {
        let moves = world.lock().steps();
        for step in moves.into_iter().filter(|step| !still.contains(step)) {
            world.lock().step(step);
        }
        contexts[0][0].advance();
        contexts[44][0].advance();
    }
    assert_eq!(log.lock().unwrap().iter().map(|entry| entry.0).collect::<Vec<_>>(), [44]);
}

#[test]
fn d9_a_message_that_finds_no_place_and_does_not_ask_is_a_stray_of_which_no_handler_hears() {
    let (_, handler) = collector();
    let nodes = machine(TASKS, false);
    let world = nodes[0].world;
    let mut contexts = contexts(&nodes, 2, handler);
    let to = contexts[0][0].endpoint();
    world.stepped();
    for origin in contexts.iter_mut().skip(1).flatten() {
        send(origin, message(to, pattern(LEN, 1)));
    }
    let_first_go(world, &mut contexts[0][0]);
    let before = contexts[0][0].counters();
    assert_eq!(before.received as usize, HALVES_LIMIT);
    let origin = contexts[TASKS as usize - 1][1].endpoint();
    let kind = Kind::EagerFirst;
    let envelope =
        Envelope { kind, dispatch: 0, origin, target: to, message: 1 << 20, offset: 0, total: LEN as u32 };
    world.forge(Packet::new(envelope, &[], &pattern(MTU, 2)));
    contexts[0][0].advance();
    let after = contexts[0][0].counters();
    assert_eq!((after.received, after.protocol_errors), (before.received, before.protocol_errors + 1));
}
