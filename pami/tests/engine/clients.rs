//! Clients, contexts, endpoints and posts.

use crate::machine::{CONTEXTS, MTU, TestNode, machine, node_among};
use crate::stage::{Port, Stage, Told, context, handler, leak};
use pami::client::{Clients, PEERS};
use pami::endpoint::{ClientId, GENERATIONS};
use pami::memory::Footprint;
use pami::receive::HALVES_LIMIT;
use pami::receive_request::{PIECES, RECEIVE_REQUESTS};
use pami::send::OPERATIONS;
use pami::unexpected::UNEXPECTED_LIMIT;
use pami::{Active, ClientBuilder, ClientError, Limits, Pools, Progress, Receive, Work, WorkSlot};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a place for half a message, for what is owed to an endpoint, and for what collectives know of one.
const HALF_CEILING: usize = 128;
const RECORD_CEILING: usize = 136;
const PEER_STATES_CEILING: usize = 32;

#[test]
fn p4_every_context_reaches_every_context_itself_included() {
    let told = Told::new();
    let mut stage = Stage::of(machine(2, true), 2, told, |client| client.dispatch(0, told.taker()));
    for (from, to) in (0..4u8).flat_map(|from| (0..4u8).map(move |to| (from, to))) {
        let endpoint = stage.clients[0].endpoint(u32::from(to / 2), to % 2).unwrap();
        assert_eq!(stage[from.into()].send_immediate(endpoint, 0, &[], &[from, to]), Ok(()));
    }
    stage.quiet();
    let mut seen = stage.data();
    seen.sort_unstable();
    assert!(seen.into_iter().eq((0..16).map(|n| vec![n / 4, n % 4])));
}

#[test]
fn p1_r8_running_out_says_of_what() {
    let nodes = machine(1, true);
    let client = |name| ClientBuilder::new(nodes[0], name);
    let first = client("a").create().unwrap();
    assert_eq!(client("a").create().err(), Some(ClientError::NameTaken));
    let _second = client("b").create().unwrap();
    assert_eq!(client("c").create().err(), Some(ClientError::Exhausted { what: "clients", limit: 2 }));
    assert!(first.destroy().is_ok());
    let mut third = client("c").contexts(2).create().unwrap();
    assert_eq!(
        client("d").contexts(9).create().err(),
        Some(ClientError::Exhausted { what: "contexts", limit: CONTEXTS.into() })
    );
    let context = context(&mut third, 1);
    let (error, mut third) = third.destroy().err().unwrap();
    assert_eq!(error, ClientError::ContextsAlive(1));
    let memory = third.destroy_context(context).ok().unwrap();
    let context = third.create_context(0, memory).unwrap();
    assert!(third.destroy_context(context).is_ok());
    assert!(third.destroy().is_ok());
}

#[test]
fn p4_only_the_clients_own_endpoints_have_addresses() {
    let nodes = machine(3, true);
    let client = ClientBuilder::new(nodes[0], "few").task_list(&[0, 2]).contexts(2).create().unwrap();
    assert!(client.endpoint(2, 1).is_ok());
    assert_eq!(client.endpoint(1, 0), Err(ClientError::UnknownTask(1)));
    assert_eq!(client.endpoint(2, 2), Err(ClientError::UnknownContext(2)));
    let mistake = ClientBuilder::new(nodes[0], "bad").task_range(1..4).create().err();
    assert_eq!(mistake, Some(ClientError::UnknownTask(3)));
    let done = handler(|_| Receive::Done);
    let twice = ClientBuilder::new(nodes[0], "twice").dispatch(1, done).dispatch(1, done).create().err();
    assert_eq!(twice, Some(ClientError::DispatchId(1)));
}

#[test]
fn p2_several_threads_post_to_a_locked_context_while_another_advances_it() {
    const THREADS: usize = 4;
    const POSTS: usize = 500;
    let ran: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let work = leak(move |_: &mut Active<Port>, cookie: usize| {
        ran.fetch_add(cookie, Relaxed);
        Progress::Done
    });
    let mut stage = Stage::pair(true, |client| client);
    let locked = pami::LockedContext::new(stage.contexts.swap_remove(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let poster = locked.poster();
            scope.spawn(move || {
                for _ in 0..POSTS {
                    poster.post(leak(WorkSlot::new()), Work { run: work, cookie: 1 }).unwrap();
                }
            });
        }
        while ran.load(Relaxed) < THREADS * POSTS {
            let mut guard = locked.lock();
            assert!(locked.try_lock().is_none(), "two ways into one context");
            guard.advance();
        }
    });
    assert!(locked.try_lock().is_some());
    assert_eq!(locked.into_inner().advance(), 0);
}

#[test]
fn p13_a_client_tells_its_attributes_and_a_context_its_immediate_size() {
    let nodes = machine(6, false);
    let mut client = ClientBuilder::new(nodes[4], "told").contexts(3).create().unwrap();
    let context = context(&mut client, 0);
    assert_eq!(context.immediate_limit(), MTU);
    let attributes = client.attributes();
    assert_eq!((attributes.task, attributes.tasks, attributes.contexts), (4, 6, 3));
    assert_eq!((attributes.clock_hz, attributes.dispatch_ids), (1_000_000_000, 32));
    assert_eq!(attributes.torus.coord(4), Some(attributes.coord));
    assert_ne!(attributes.torus.coord(0), Some(attributes.coord));
    assert_eq!((client.name(), client.id().0), ("told", 0));
}

#[test]
fn r9_nothing_of_a_context_grows_with_tasks_or_contexts_beyond_the_peers_that_it_has_places_for() {
    // A client for `tasks` tasks, with all that collectives take.
    let of = |tasks: u32, contexts: u8| {
        let client = ClientBuilder::new(node_among(tasks), "size").contexts(contexts).pools(Pools::LARGE);
        client.collectives(Limits::default()).create().unwrap().footprint()
    };
    let alone = of(1, 1);
    assert!(alone.origin <= HALF_CEILING && alone.ack <= RECORD_CEILING, "{alone:?}");
    for (tasks, contexts) in [(1, 1), (1, 4), (1000, 1), (1000, 4), (1_000_000, 1), (1_000_000, 4)] {
        let among = of(tasks, contexts);
        let Footprint { halves, records, collectives, origin, .. } = among;
        println!("{tasks} tasks x {contexts} contexts: {} bytes", among.bytes());
        println!("  {among:?}");
        assert_eq!(among, Footprint { halves, records, collectives, ..alone }, "{tasks} x {contexts}");
        assert!(halves <= HALVES_LIMIT && halves * origin <= 16 << 10, "{halves} halves of {origin} bytes");
        // At most two for each early message, and that a power of two.
        let states = collectives.saturating_sub(alone.collectives);
        assert!(
            states <= 4 * Limits::default().early * PEER_STATES_CEILING,
            "{states} bytes of peers' states"
        );
        // Twice as many places as there are peers at a time, and that a power of two.
        let peers = PEERS.min(tasks as usize * usize::from(CONTEXTS));
        assert!((2 * peers..4 * peers).contains(&records), "{records} places, {tasks} tasks");
    }
}

#[test]
fn r9_a_context_with_its_pools_takes_at_most_16_kib_besides_what_it_owes_to_endpoints() {
    let table = |name: &str, tasks: u32, build: fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode>| {
        let it = build(ClientBuilder::new(node_among(tasks), "size")).create().unwrap().footprint();
        let owed = it.records * it.ack;
        let rest = it.bytes() - owed;
        println!("{name}, {tasks} tasks: {rest} bytes, and {owed} for what is owed");
        for (what, number, bytes) in [
            ("the context", 1, it.context),
            ("its queue of posts", 1, it.posts),
            ("operations", it.operations, it.operations * it.operation),
            ("receive requests", it.receive_requests, it.receive_requests * it.receive_request),
            ("half messages", it.halves, it.halves * it.origin),
            ("unexpected messages", it.unexpected_places, it.unexpected_places * it.unexpected),
            ("their data", 1, it.unexpected_data),
            ("landings", it.landings, it.landings * it.landing),
            ("collectives", 1, it.collectives),
        ] {
            println!("  {bytes:>7} bytes: {number} {what}");
        }
        rest
    };
    for tasks in [1, 1000, 1_000_000] {
        let rest = table("what names nothing", tasks, |client| client);
        assert!(rest <= 16 << 10, "{rest} bytes");
        table("large pools", tasks, |client| client.pools(Pools::LARGE));
        table("large pools, collectives", tasks, |client| {
            client.pools(Pools::LARGE).collectives(Limits::default())
        });
    }
}

#[test]
fn r8_r9_of_what_there_is_none_or_not_so_many_a_builder_says() {
    let small = Pools::SMALL;
    for (pools, what, limit) in [
        (Pools { operations: 0, ..small }, "places for operations", OPERATIONS),
        (Pools { operations: OPERATIONS + 1, ..small }, "places for operations", OPERATIONS),
        (Pools { receive_requests: 0, ..small }, "receive requests", RECEIVE_REQUESTS),
        (Pools { receive_requests: RECEIVE_REQUESTS + 1, ..small }, "receive requests", RECEIVE_REQUESTS),
        (Pools { halves: 0, ..small }, "places for half messages", HALVES_LIMIT),
        (Pools { halves: HALVES_LIMIT + 1, ..small }, "places for half messages", HALVES_LIMIT),
        (
            Pools { unexpected: UNEXPECTED_LIMIT + 1, ..small },
            "places of the unexpected queue",
            UNEXPECTED_LIMIT,
        ),
        (Pools { pieces: 0, ..small }, "pieces at a time", PIECES),
        (Pools { pieces: PIECES + 1, ..small }, "pieces at a time", PIECES),
        (Pools { piece_bytes: 0, ..small }, "bytes of a piece", u32::MAX as usize),
        (Pools { unexpected_bytes: 1 << 32, ..small }, "bytes of unexpected messages", u32::MAX as usize),
    ] {
        let client = ClientBuilder::new(machine(1, true)[0], "wrong").pools(pools).create();
        assert_eq!(client.err(), Some(ClientError::Exhausted { what, limit }), "{pools:?}");
    }
    for pools in [Pools::SMALL, Pools::LARGE, Pools { unexpected: 0, unexpected_bytes: 0, ..small }] {
        assert!(ClientBuilder::new(machine(1, true)[0], "right").pools(pools).create().is_ok());
    }
}

#[test]
fn r9_a_contexts_footprint_is_what_it_takes_of_its_nodes_memory() {
    for (limits, pools) in [
        (Limits::default(), Pools::LARGE),
        (
            Limits { geometries: 20, in_flight: 5, always: 3, queued: 6, early: 7, domains: None },
            Pools::SMALL,
        ),
    ] {
        let node = machine(3, false)[0];
        let client = ClientBuilder::new(node, "size").contexts(2).pools(pools);
        let client = client.collectives(limits).create().unwrap();
        let before = node.world.lock().taken;
        let _memory = client.context_memory().unwrap();
        let footprint = client.footprint();
        assert_eq!(node.world.lock().taken - before, footprint.bytes() - footprint.context);
    }
}

#[test]
fn p1_a_place_has_so_many_clients_one_after_the_other_and_no_number_twice() {
    let mut clients = Clients::<2>::new();
    assert_eq!(clients.claim("kept"), Ok(ClientId::new(0, 0)));
    for generation in 0..GENERATIONS {
        let id = clients.claim("one");
        assert_eq!(id, Ok(ClientId::new(1, generation)));
        assert_eq!(clients.claim("one"), Err(ClientError::NameTaken));
        assert_eq!(clients.claim("two"), Err(ClientError::Exhausted { what: "clients", limit: 2 }));
        clients.release(id.unwrap());
        // Again, or an older one: nothing.
        clients.release(id.unwrap());
    }
    let worn =
        ClientError::Exhausted { what: "clients one after the other in a place", limit: GENERATIONS.into() };
    assert_eq!(clients.claim("one"), Err(worn));
    clients.release(ClientId::new(0, 0));
    assert_eq!(clients.claim("one"), Ok(ClientId::new(0, 1)));
}
