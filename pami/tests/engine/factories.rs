//! Protocols, factories and communication objects (SPEC M-1 to M-6).

use crate::machine::{MTU, TestNode, buffer, filled, machine, machine_of, pattern};
use crate::scene::{Port, advance_all, always_later, collector, context, ends, fetches, leak, pair};
use pami::collective::{Algorithm, CallError, Collective, Tuning};
use pami::dispatch::LATER;
use pami::factory::{
    CollectFunction, Contribution, FenceFunction, FetchFunction, GetFunction, ImmediateFunction, PROTOCOLS,
    ProcessFunction, PutFunction, ReceiveFunction, ReceiveLaterFunction, SendFunction,
};
use pami::packet::Kind;
use pami::send::OPERATIONS;
use pami::{
    Active, Client, ClientBuilder, ClientError, Collect, CollectError, Endpoint, Factor, Factory,
    FactoryError, FactoryMemory, Fetch, Get, Layout, Limits, ObjectMemory, OnReceived, OperationError,
    Outgoing, Payload, Put, Received, Recipe, RegionHandle, Rights, Rmw, Rule, SendError, Shared, Split,
    SubOperations, Update, WORLD, Width,
};
use proptest::prelude::*;
use std::sync::Mutex;

const EAGER: SendFunction = SendFunction { dispatch: 0, rendezvous_from: Some(usize::MAX) };
const SEND: SendFunction = SendFunction { dispatch: 0, rendezvous_from: None };

fn in_words(error: FactoryError) -> String {
    let text = error.to_string();
    assert!(!text.is_empty());
    text
}

fn outgoing(target: Endpoint, bytes: &[u8]) -> Outgoing<'static, Port> {
    Outgoing::new(target, Payload::Static(bytes.to_vec().leak()))
}

fn put(target: Endpoint, region: RegionHandle, bytes: &[u8]) -> Put<Port> {
    Put {
        target,
        region,
        offset: 0,
        layout: Layout::Contiguous,
        payload: Payload::Static(bytes.to_vec().leak()),
        payload_layout: Layout::Contiguous,
        local_done: None,
        remote_done: None,
    }
}

fn own() -> &'static ObjectMemory<Port> {
    leak(ObjectMemory::new())
}

fn factories(
    local: bool,
    build: impl Fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode>,
) -> [Client<TestNode>; 2] {
    pair(local, |client| build(client.factories(8)))
}

#[test]
fn m1_a_protocol_has_a_name_of_its_own_until_it_ends() {
    let nodes = machine(1, true);
    let mut first = ClientBuilder::new(nodes[0], "first").factories(1).create().unwrap();
    let mut second = ClientBuilder::new(nodes[0], "second").create().unwrap();
    let small = first.protocol("small").unwrap();
    assert_eq!(small.name(), "small");
    assert_eq!(first.protocol("small"), Err(FactoryError::NameTaken("small")));
    let others = second.protocol("small").unwrap();
    let factory = first.register(&small, SEND).unwrap();
    assert_eq!(factory.protocol(), "small");
    assert_eq!(first.protocols().collect::<Vec<_>>(), [("small", 1)]);
    let (error, small) = first.end_protocol(small).err().unwrap();
    assert_eq!(error, FactoryError::FactoriesAlive(1));
    let (error, others) = first.end_protocol(others).err().unwrap();
    assert_eq!(error, FactoryError::ForeignProtocol("small"));
    assert!(second.end_protocol(others).is_ok());
    assert!(first.deregister(factory).is_ok());
    assert!(first.end_protocol(small).is_ok());
    for number in 0..PROTOCOLS {
        assert!(first.protocol(format!("protocol {number}").leak()).is_ok());
    }
    let exhausted = FactoryError::Exhausted { what: "protocols", limit: PROTOCOLS };
    assert_eq!(first.protocol("one more"), Err(exhausted));
    assert!(in_words(exhausted).contains("protocols"));
}

#[test]
fn m1_handlers_are_registered_in_protocols_and_get_the_lowest_free_ids() {
    let (log, handler) = collector();
    let [mut a, mut b] = factories(false, |client| client.dispatch(0, handler));
    let mut ids = Vec::new();
    let mut receive = [&mut a, &mut b].map(|client| {
        let protocol = client.protocol("p").unwrap();
        let first = client.register(&protocol, ReceiveFunction { dispatch: None, handler }).unwrap();
        let third = client.register(&protocol, ReceiveFunction { dispatch: Some(3), handler }).unwrap();
        let taken = client.register(&protocol, ReceiveFunction { dispatch: Some(3), handler });
        assert_eq!(taken.err(), Some(FactoryError::DispatchId(3)));
        ids.push((first.dispatch(), third.dispatch()));
        (protocol, first)
    });
    assert_eq!(ids, [(1, 3), (1, 3)]);
    let (protocol, first) = &mut receive[0];
    let send = ImmediateFunction { dispatch: first.dispatch() };
    let send = a.register(protocol, send).unwrap();
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    assert_eq!(send.execute(&mut origin, target.endpoint(), b"head", b"data"), Ok(()));
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(*log.lock().unwrap(), [(0, b"head".to_vec(), b"data".to_vec())]);
    let late = a.register(protocol, ReceiveFunction { dispatch: None, handler }).err();
    assert_eq!(late, Some(FactoryError::ContextsAlive(1)));
    let [(_, first), _] = receive;
    let (error, first) = a.deregister(first).err().unwrap();
    assert_eq!(error, FactoryError::ContextsAlive(1));
    assert!(a.destroy_context(origin).is_ok());
    assert!(a.deregister(first).is_ok());
    assert!(in_words(error).contains('1'));
}

#[test]
fn m2_every_function_is_carried_out_by_an_object_that_calls_back_and_is_free_then() {
    for (local, with_memory) in [(false, false), (false, true), (true, false), (true, true)] {
        let (log, handler) = collector();
        let [mut a, mut b] = factories(local, |client| client.dispatch(0, handler));
        let protocol = a.protocol("all").unwrap();
        let send = a.register(&protocol, SEND).unwrap();
        let puts = a.register(&protocol, PutFunction::default()).unwrap();
        let gets = a.register(&protocol, GetFunction::default()).unwrap();
        let fetch = a.register(&protocol, FetchFunction::default()).unwrap();
        let fence = a.register(&protocol, FenceFunction).unwrap();
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let (mut second, mut fourth) = (context(&mut a, 1), context(&mut b, 1));
        let (to, region) = (target.endpoint(), target.register(buffer(64), Rights::all()).ok().unwrap());
        let handle = region.handle();
        let (ends, done) = ends();
        let (fetched, on_fetched) = fetches();
        let objects: Vec<_> = (0..6).map(|_| own()).collect();
        let into = buffer(8).share();
        let data = pattern(3 * MTU, 4);
        let outgoing = Outgoing { remote_done: done(1), ..outgoing(to, &data) };
        let put = Put { remote_done: done(2), ..put(to, handle, &7u64.to_ne_bytes()) };
        let rmw = Rmw { width: Width::Eight, update: Update::Add(5) };
        let update = Fetch { target: to, region: handle, offset: 0, rmw, done: on_fetched(4) };
        let layout = Layout::Contiguous;
        let read = Get {
            target: to,
            region: handle,
            offset: 0,
            layout,
            into: into.clone(),
            at: 0,
            into_layout: layout,
            len: 8,
            done: done(3),
        };
        let fenced = [done(5).unwrap(), done(6).unwrap()];
        let active: &mut Active<Port> = &mut origin;
        if with_memory {
            assert!(send.execute_in(objects[0], active, outgoing).is_ok());
            assert!(puts.execute_in(objects[1], active, put).is_ok());
            assert_eq!(fetch.execute_in(objects[2], active, update), Ok(()));
            assert_eq!(gets.execute_in(objects[3], active, read), Ok(()));
            assert_eq!(fence.execute_in(objects[4], active, to, fenced[0]), Ok(()));
            assert_eq!(fence.execute_tasks_in(objects[5], active, 0..2, fenced[1]), Ok(()));
            assert!(objects.iter().all(|object| object.is_busy()));
        } else {
            assert!(send.execute(active, outgoing).is_ok());
            assert!(puts.execute(active, put).is_ok());
            assert_eq!(fetch.execute(active, update), Ok(()));
            assert_eq!(gets.execute(active, read), Ok(()));
            assert_eq!(fence.execute(active, to, fenced[0]), Ok(()));
            assert_eq!(fence.execute_tasks(active, 0..2, fenced[1]), Ok(()));
        }
        assert!(ends.lock().unwrap().is_empty() && fetched.lock().unwrap().is_empty());
        advance_all(&mut [&mut origin, &mut target, &mut second, &mut fourth]);
        let mut seen = ends.lock().unwrap().clone();
        seen.sort_unstable_by_key(|end| end.0);
        assert_eq!(seen, [1, 2, 3, 5, 6].map(|cookie| (cookie, None, Ok(()))));
        assert_eq!(fetched.lock().unwrap()[0].result, Ok(7));
        let mut read = [0; 8];
        into.read(0, &mut read).unwrap();
        assert_eq!(u64::from_ne_bytes(read), 12);
        assert_eq!(log.lock().unwrap().pop().unwrap().2, data);
        assert!(objects.iter().all(|object| !object.is_busy()));
        assert!(a.destroy_context(origin).is_ok());
    }
}

#[test]
fn m2_a_receive_factory_accepts_what_its_handler_wanted_later() {
    let got: &'static Mutex<Vec<Vec<u8>>> = leak(Mutex::default());
    let [mut a, mut b] = factories(false, |client| client);
    let protocol = b.protocol("later").unwrap();
    let receive =
        b.register(&protocol, ReceiveLaterFunction { dispatch: None, handler: always_later() }).unwrap();
    assert_eq!(receive.dispatch(), LATER);
    let protocol = a.protocol("later").unwrap();
    let send = a.register(&protocol, SendFunction { dispatch: LATER, ..SEND }).unwrap();
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    assert!(send.execute(&mut origin, outgoing(target.endpoint(), b"unexpected")).is_ok());
    advance_all(&mut [&mut origin, &mut target]);
    let id = target.kept().next().unwrap().id;
    let call = leak(move |_: &mut Active<Port>, received: Received| {
        got.lock().unwrap().push(received.buffer.as_slice()[..received.len].to_vec());
    });
    let then = OnReceived { call, cookie: 0 };
    assert!(receive.execute(&mut target, id, buffer(10), then).is_ok());
    let again = receive.execute(&mut target, id, buffer(10), then).err().unwrap();
    assert_eq!(again.0, SendError::NotKept);
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(*got.lock().unwrap(), [b"unexpected".to_vec()]);
}

#[test]
fn m3_objects_in_the_contexts_memory_are_as_many_as_it_has_places() {
    let (log, handler) = collector();
    let [mut a, mut b] = factories(false, |client| client.dispatch(0, handler));
    let protocol = a.protocol("p").unwrap();
    let send = a.register(&protocol, EAGER).unwrap();
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let data = pattern(2 * MTU, 1);
    let mut taken = 0;
    let (error, payload) = loop {
        match send.execute(&mut origin, outgoing(target.endpoint(), &data)) {
            Ok(()) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!((error, taken), (SendError::Again, OPERATIONS));
    assert!(matches!(payload, Payload::Static(bytes) if bytes == data));
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(log.lock().unwrap().len(), OPERATIONS);
}

#[test]
fn m3_objects_in_the_callers_memory_need_no_other_and_stay_in_order() {
    const MORE: usize = 100;
    let (log, handler) = collector();
    let [mut a, mut b] = factories(false, |client| client.dispatch(0, handler));
    let protocol = a.protocol("p").unwrap();
    let send = a.register(&protocol, EAGER).unwrap();
    let immediate = a.register(&protocol, ImmediateFunction { dispatch: 0 }).unwrap();
    let fence = a.register(&protocol, FenceFunction).unwrap();
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let to = target.endpoint();
    let mut data = pattern(2 * MTU, 1);
    let mut number = 0u32;
    let mut next = || {
        data[..4].copy_from_slice(&number.to_le_bytes());
        number += 1;
        outgoing(to, &data)
    };
    for _ in 0..OPERATIONS {
        assert!(send.execute(&mut origin, next()).is_ok());
    }
    let objects: Vec<_> = (0..MORE).map(|_| own()).collect();
    let (ended, done) = ends();
    for (cookie, &object) in objects.iter().enumerate() {
        let outgoing = Outgoing { local_done: done(cookie), ..next() };
        assert!(send.execute_in(object, &mut origin, outgoing).is_ok());
    }
    assert_eq!(fence.execute_in(own(), &mut origin, to, done(MORE).unwrap()), Ok(()));
    let (error, _) = send.execute_in(objects[3], &mut origin, outgoing(to, b"twice")).err().unwrap();
    assert_eq!(error, SendError::MemoryInUse);
    assert_eq!(immediate.execute(&mut origin, to, &[], b"quick"), Err(SendError::Again), "it would overtake");
    assert_eq!(origin.send_immediate(to, 0, &[], b"quick"), Err(SendError::Again), "it would overtake");
    for _ in 0..1000 {
        origin.advance();
    }
    assert_eq!(send.execute(&mut origin, outgoing(to, b"direct")).err().unwrap().0, SendError::Again);
    let (error, mut origin) = a.destroy_context(origin).err().unwrap();
    assert_eq!(error, ClientError::SendsUnderWay);
    advance_all(&mut [&mut origin, &mut target]);
    let log = log.lock().unwrap();
    let numbers = log.iter().map(|(_, _, data)| u32::from_le_bytes(data[..4].try_into().unwrap()));
    assert_eq!(numbers.collect::<Vec<_>>(), (0..(OPERATIONS + MORE) as u32).collect::<Vec<_>>());
    let ended: Vec<_> = ended.lock().unwrap().iter().map(|end| (end.0, end.2)).collect();
    assert_eq!(ended, (0..=MORE).map(|cookie| (cookie, Ok(()))).collect::<Vec<_>>());
    assert!(objects.iter().all(|object| !object.is_busy()));
    assert_eq!(target.counters().strays, 0);
}

#[test]
fn m3_a_callback_may_pass_its_objects_memory_on() {
    const ROUNDS: usize = 10;
    let (log, handler) = collector();
    let [mut a, mut b] = factories(false, |client| client.dispatch(0, handler));
    let protocol = a.protocol("p").unwrap();
    let send: &'static Factory<SendFunction> = leak(a.register(&protocol, SEND).unwrap());
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let (to, object) = (target.endpoint(), own());
    struct Chain(Mutex<Option<pami::Done<Port>>>);
    let chain: &'static Chain = leak(Chain(Mutex::new(None)));
    let call = leak(move |active: &mut Active<Port>, completion: pami::Completion| {
        let done = chain.0.lock().unwrap().unwrap();
        if completion.cookie < ROUNDS {
            let remote_done = Some(pami::Done { cookie: completion.cookie + 1, ..done });
            assert!(!object.is_busy());
            assert!(send.execute_in(object, active, Outgoing { remote_done, ..outgoing(to, b"x") }).is_ok());
        }
    });
    *chain.0.lock().unwrap() = Some(pami::Done { call, cookie: 0 });
    let remote_done = Some(pami::Done { call, cookie: 1 });
    assert!(send.execute_in(object, &mut origin, Outgoing { remote_done, ..outgoing(to, b"x") }).is_ok());
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(log.lock().unwrap().len(), ROUNDS);
}

#[test]
fn m3_factories_in_the_callers_memory_need_none_of_the_clients() {
    let [mut client, _other] = pair(false, |client| client);
    let protocol = client.protocol("p").unwrap();
    let exhausted = FactoryError::Exhausted { what: "memory for factories", limit: 0 };
    assert_eq!(client.register(&protocol, SEND).err(), Some(exhausted));
    let memory: &'static mut FactoryMemory = Box::leak(Box::new(FactoryMemory::new()));
    let place = std::ptr::from_ref(memory);
    let bad = SendFunction { dispatch: 40, ..SEND };
    let (error, memory) = client.register_in(memory, &protocol, bad).err().unwrap();
    assert_eq!(error, FactoryError::DispatchId(40));
    let factory = client.register_in(memory, &protocol, SEND).ok().unwrap();
    let memory = client.deregister(factory).ok().unwrap().expect("it was not the client's");
    assert_eq!(std::ptr::from_ref(memory), place);
    // Of another kind, in the same memory.
    let fence = client.register_in(memory, &protocol, FenceFunction).ok().unwrap();
    assert!(client.deregister(fence).is_ok_and(|memory| memory.is_some()));
}

#[test]
fn m3_factories_in_the_clients_memory_are_as_many_as_it_was_set_up_for() {
    let nodes = machine(1, true);
    let mut client = ClientBuilder::new(nodes[0], "c").factories(3).create().unwrap();
    let protocol = client.protocol("p").unwrap();
    let exhausted = FactoryError::Exhausted { what: "memory for factories", limit: 3 };
    for _ in 0..5 {
        let mut factories: Vec<_> = (0..3).map(|_| client.register(&protocol, SEND).unwrap()).collect();
        assert_eq!(client.register(&protocol, SEND).err(), Some(exhausted));
        // What is wrong with the settings takes no memory.
        assert!(client.deregister(factories.pop().unwrap()).is_ok_and(|memory| memory.is_none()));
        let bad = ImmediateFunction { dispatch: 77 };
        assert_eq!(client.register(&protocol, bad).err(), Some(FactoryError::DispatchId(77)));
        let fence = client.register(&protocol, FenceFunction).unwrap();
        assert!(client.deregister(fence).is_ok());
        factories.into_iter().for_each(|factory| assert!(client.deregister(factory).is_ok()));
    }
    assert_eq!(client.protocols().collect::<Vec<_>>(), [("p", 0)]);
}

#[test]
fn m3_opaque_types_have_the_sizes_that_their_documentation_says() {
    assert_eq!((FactoryMemory::SIZE, FactoryMemory::ALIGN), (88, 8));
    assert_eq!((size_of::<FactoryMemory>(), align_of::<FactoryMemory>()), (88, 8));
    assert_eq!((ObjectMemory::<Port>::SIZE, ObjectMemory::<Port>::ALIGN), (360, 8));
    assert_eq!(size_of::<ObjectMemory<Port>>(), ObjectMemory::<Port>::SIZE);
    assert_eq!(size_of::<Factory<SendFunction>>(), size_of::<usize>());
}

#[test]
fn m5_each_factory_has_its_own_switch_over_size() {
    let (log, handler) = collector();
    let [mut a, mut b] = factories(false, |client| client.dispatch(0, handler).rendezvous_from(4 * MTU));
    let protocols = ["small", "large", "usual"].map(|name| a.protocol(name).unwrap());
    let from = |rendezvous_from| SendFunction { dispatch: 0, rendezvous_from };
    let eager = a.register(&protocols[0], from(Some(usize::MAX))).unwrap();
    let pulled = a.register(&protocols[1], from(Some(0))).unwrap();
    let usual = a.register(&protocols[2], from(None)).unwrap();
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let to = target.endpoint();
    let world = a.node().world;
    let mut requests = 0;
    for size in [0, 1, 100, 4 * MTU - 1, 4 * MTU, 20 * MTU] {
        let as_usual = usize::from(size >= 4 * MTU);
        for (factory, expected) in
            [(&eager, 0), (&pulled, usize::from(size > 0)), (&usual, as_usual), (&eager, 0)]
        {
            assert!(factory.execute(&mut origin, outgoing(to, &pattern(size, 5))).is_ok());
            advance_all(&mut [&mut origin, &mut target]);
            requests += expected;
            assert_eq!(world.count(Kind::Rts), requests, "{size}, {}", factory.protocol());
            assert_eq!(log.lock().unwrap().pop().unwrap().2, pattern(size, 5));
        }
        // Nor does the client's own way change.
        crate::scene::send(&mut origin, crate::scene::message(to, pattern(size, 5)));
        advance_all(&mut [&mut origin, &mut target]);
        requests += as_usual;
        assert_eq!(world.count(Kind::Rts), requests);
    }
}

#[test]
fn m5_one_sided_factories_go_through_memory_or_the_network_as_each_says() {
    for clients_own in [true, false] {
        let [mut a, mut b] = factories(true, |client| client.local_paths(clients_own));
        let [near, far, usual] = ["near", "far", "usual"].map(|name| a.protocol(name).unwrap());
        let puts = [(&near, Some(true)), (&far, Some(false)), (&usual, None)];
        let puts = puts.map(|(protocol, local_paths)| a.register(protocol, PutFunction { local_paths }));
        let [near_put, far_put, usual_put] = puts.map(Result::unwrap);
        let fetch = a.register(&far, FetchFunction { local_paths: Some(false) }).unwrap();
        let gets = a.register(&far, GetFunction { local_paths: Some(false) }).unwrap();
        let fence = a.register(&usual, FenceFunction).unwrap();
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let region = target.register(filled(&pattern(64, 0)), Rights::all()).ok().unwrap();
        let (to, handle, world) = (target.endpoint(), region.handle(), a.node().world);
        let packets = || world.count(Kind::Put) + world.count(Kind::PutLast);
        let (ends, done) = ends();
        for (factory, by_network) in [(&near_put, false), (&far_put, true), (&usual_put, !clients_own)] {
            let before = packets();
            assert!(factory.execute(&mut origin, put(to, handle, factory.protocol().as_bytes())).is_ok());
            // Though nobody asked to be told, the fence knows, whatever path it takes itself.
            assert_eq!(fence.execute(&mut origin, to, done(0).unwrap()), Ok(()));
            while ends.lock().unwrap().is_empty() {
                origin.advance();
                target.advance();
            }
            ends.lock().unwrap().clear();
            assert_eq!(packets() - before, usize::from(by_network), "{}", factory.protocol());
            let mut seen = vec![0; factory.protocol().len()];
            region.memory().read(0, &mut seen).unwrap();
            assert_eq!(seen, factory.protocol().as_bytes());
        }
        let (fetched, on_fetched) = fetches();
        let before = [Kind::Rmw, Kind::Get].map(|kind| world.count(kind));
        let rmw = Rmw { width: Width::Eight, update: Update::Swap(u64::MAX) };
        let update = Fetch { target: to, region: handle, offset: 8, rmw, done: on_fetched(0) };
        assert_eq!(fetch.execute(&mut origin, update), Ok(()));
        let into = buffer(8).share();
        let layout = Layout::Contiguous;
        let read = Get {
            target: to,
            region: handle,
            offset: 8,
            layout,
            into: into.clone(),
            at: 0,
            into_layout: layout,
            len: 8,
            done: done(1),
        };
        assert_eq!(gets.execute(&mut origin, read), Ok(()));
        advance_all(&mut [&mut origin, &mut target]);
        let after = [Kind::Rmw, Kind::Get].map(|kind| world.count(kind));
        assert_eq!(after, before.map(|count| count + 1));
        assert!(fetched.lock().unwrap()[0].result.is_ok());
        let mut read = [0; 8];
        into.read(0, &mut read).unwrap();
        assert_eq!(u64::from_ne_bytes(read), u64::MAX);
    }
}

fn contribution(target: Endpoint, region: RegionHandle, memory: &Shared) -> Contribution<Port> {
    Contribution {
        target,
        region,
        offset: 0,
        memory: memory.clone(),
        range: 0..memory.len(),
        recipe: Recipe::accumulate(Factor::F64(0.1)),
        local_done: None,
        remote_done: None,
    }
}

#[test]
fn m5_each_factory_splits_what_it_processes_by_its_own_rules() {
    const COUNT: usize = 500;
    let [mut a, mut b] = factories(true, |client| client);
    let protocol = a.protocol("accumulate").unwrap();
    let quarter = Rule { element: None, from_bytes: 0, origin: SubOperations::all(), chunks: 250 };
    let rules = Split::Rules(leak([quarter]));
    let [there, here, some, unused] = [Split::TargetOnly, Split::OriginOnly, rules, Split::Advice]
        .map(|split| a.register(&protocol, ProcessFunction { split }).unwrap());
    assert_eq!([there.split(), here.split(), some.split()], [Split::TargetOnly, Split::OriginOnly, rules]);
    // Those that are there do not change with another.
    assert!(a.deregister(unused).is_ok());
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let region = target.register(filled(&[0; 8 * COUNT]), Rights::all()).ok().unwrap();
    let (to, handle) = (target.endpoint(), region.handle());
    let memory = filled(&0.7f64.to_ne_bytes().repeat(COUNT)).share();
    let (ends, done) = ends();
    let (mut expected, mut all) = (0.0f64, 0);
    let turns =
        [(&here, 4000..4001), (&there, 0..1), (&some, 500..1500), (&here, 4000..4001), (&some, 500..1500)];
    for (turn, (factory, share)) in turns.into_iter().enumerate() {
        let before = origin.counters().placed_bytes;
        let all_of_it = || Contribution {
            local_done: done(0),
            remote_done: done(1),
            ..contribution(to, handle, &memory)
        };
        // With the object here, or with the caller.
        if turn < 3 {
            assert_eq!(factory.execute(&mut origin, all_of_it()), Ok(()));
        } else {
            let object = own();
            assert_eq!(factory.execute_in(object, &mut origin, all_of_it()), Ok(()));
            assert!(object.is_busy());
            assert_eq!(factory.execute_in(object, &mut origin, all_of_it()), Err(SendError::MemoryInUse));
        }
        advance_all(&mut [&mut origin, &mut target]);
        all += 8 * COUNT as u64;
        let placed = origin.counters().placed_bytes - before;
        assert!(share.contains(&placed), "turn {turn}: {placed} bytes were added by the origin");
        assert_eq!(origin.counters().placed_bytes + target.counters().processed_bytes, all);
        expected += 0.1 * 0.7;
        let mut seen = [0; 8 * COUNT];
        region.memory().read(0, &mut seen).unwrap();
        assert_eq!(seen[..], expected.to_ne_bytes().repeat(COUNT), "turn {turn}");
        let mut ended: Vec<_> = std::mem::take(&mut *ends.lock().unwrap());
        ended.sort_by_key(|end| end.0);
        assert_eq!(ended, [(0, None, Ok(())), (1, None, Ok(()))]);
    }
}

#[test]
fn m3_what_is_processed_waits_in_the_callers_memory_for_a_place() {
    const MORE: usize = 10;
    let [mut a, mut b] = factories(false, |client| client);
    let protocol = a.protocol("accumulate").unwrap();
    let process = a.register(&protocol, ProcessFunction { split: Split::TargetOnly }).unwrap();
    let fence = a.register(&protocol, FenceFunction).unwrap();
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let region = target.register(filled(&[0; 8]), Rights::all()).ok().unwrap();
    let memory = filled(&0.7f64.to_ne_bytes()).share();
    let (ends, done) = ends();
    let one = || contribution(target.endpoint(), region.handle(), &memory);
    for _ in 0..OPERATIONS {
        assert_eq!(process.execute(&mut origin, one()), Ok(()));
    }
    assert_eq!(process.execute(&mut origin, one()), Err(SendError::Again));
    for cookie in 0..MORE {
        let one = Contribution { remote_done: done(cookie), ..one() };
        assert_eq!(process.execute_in(own(), &mut origin, one), Ok(()));
    }
    assert_eq!(fence.execute_in(own(), &mut origin, target.endpoint(), done(MORE).unwrap()), Ok(()));
    advance_all(&mut [&mut origin, &mut target]);
    let ended: Vec<_> = ends.lock().unwrap().iter().map(|end| (end.0, end.2)).collect();
    assert_eq!(ended, (0..=MORE).map(|cookie| (cookie, Ok(()))).collect::<Vec<_>>());
    let mut seen = [0; 8];
    region.memory().read(0, &mut seen).unwrap();
    let expected = (0..OPERATIONS + MORE).fold(0.0, |sum, _| sum + 0.1 * 0.7);
    assert_eq!(f64::from_ne_bytes(seen), expected);
}

#[test]
fn m5_the_same_collective_by_several_algorithms() {
    const TASKS: u32 = 5;
    let tuning = Tuning { radix: 2, chunk: 16 };
    let create = |node| ClientBuilder::new(node, "c").factories(4).collectives(Limits::default()).create();
    let mut clients: Vec<_> = machine_of(TASKS, 1).into_iter().map(|node| create(node).unwrap()).collect();
    let mut registered = Vec::new();
    for client in &mut clients {
        let protocol = client.protocol("barriers").unwrap();
        let by = |algorithm| CollectFunction { what: Collective::Barrier, algorithm };
        let ways = [Some((Algorithm::Dissemination, tuning)), Some((Algorithm::Nary, tuning)), None];
        registered.push(ways.map(|algorithm| client.register(&protocol, by(algorithm)).unwrap()));
        let none = client.register(&protocol, by(Some((Algorithm::Ring, tuning)))).err();
        let unknown = CallError::Algorithm(Collective::Barrier, Algorithm::Ring);
        assert_eq!(none, Some(FactoryError::Call(unknown)));
        let flat = Tuning { radix: 1, chunk: 0 };
        let bad = client.register(&protocol, by(Some((Algorithm::Dissemination, flat)))).err();
        assert_eq!(bad, Some(FactoryError::Call(CallError::Tuning)));
    }
    let mut contexts: Vec<_> = clients.iter_mut().map(|client| context(client, 0)).collect();
    let (ends, done) = ends();
    let barrier = |what| Collect::<Port>::new(WORLD, what, done(0).unwrap());
    let world = clients[0].node().world;
    // Three rounds of a signal from each; up and down a tree of five; what the call says.
    for (way, signals) in [(0, 15), (1, 8), (0, 15), (2, 8), (1, 8)] {
        let before = world.count(Kind::Collective);
        for (context, factories) in contexts.iter_mut().zip(&registered) {
            let call = barrier(Collective::Barrier);
            let call = Collect { algorithm: Some((Algorithm::Nary, tuning)), ..call };
            assert_eq!(factories[way].scratch_len(context, &call), Ok(0));
            assert_eq!(factories[way].execute(context, call), Ok(()));
            let wrong = factories[way].execute(context, barrier(Collective::Broadcast));
            assert_eq!(wrong, Err(CollectError::OtherCollective(Collective::Barrier)));
        }
        advance_all(&mut contexts.iter_mut().collect::<Vec<_>>());
        assert_eq!(std::mem::take(&mut *ends.lock().unwrap()), vec![(0, None, Ok(())); TASKS as usize]);
        assert_eq!(world.count(Kind::Collective) - before, signals, "way {way}");
    }
}

#[test]
fn m6_what_belongs_to_another_client_is_refused() {
    let nodes = machine(1, true);
    let limits = Limits::default();
    let create = |name| ClientBuilder::new(nodes[0], name).factories(8).collectives(limits).create().unwrap();
    let (mut mine, mut other) = (create("mine"), create("other"));
    let protocol = other.protocol("theirs").unwrap();
    let foreign = FactoryError::ForeignProtocol("theirs");
    assert_eq!(mine.register(&protocol, FenceFunction).err(), Some(foreign));
    let immediate = other.register(&protocol, ImmediateFunction { dispatch: 0 }).unwrap();
    let send = other.register(&protocol, SEND).unwrap();
    let puts = other.register(&protocol, PutFunction::default()).unwrap();
    let fetch = other.register(&protocol, FetchFunction::default()).unwrap();
    let process = other.register(&protocol, ProcessFunction::default()).unwrap();
    let memory = buffer(8).share();
    let fence = other.register(&protocol, FenceFunction).unwrap();
    let collect = CollectFunction { what: Collective::Barrier, algorithm: None };
    let collect = other.register(&protocol, collect).unwrap();
    let mut context = context(&mut mine, 0);
    let me = context.endpoint();
    let region = context.register(buffer(8), Rights::all()).ok().unwrap().handle();
    let wrong = SendError::ForeignFactory;
    let done = pami::Done { call: &|_: &mut Active<Port>, _| panic!("nothing was begun"), cookie: 0 };
    // Also when the context has just sent there.
    for _ in 0..2 {
        assert_eq!(immediate.execute(&mut context, me, &[], &[1]), Err(wrong));
        let theirs = Endpoint::from_parts(other.id(), 0, me.context());
        assert_eq!(immediate.execute(&mut context, theirs, &[], &[1]), Err(wrong));
        assert_eq!(send.execute(&mut context, outgoing(me, b"x")).err().unwrap().0, wrong);
        assert_eq!(send.execute_in(own(), &mut context, outgoing(me, b"x")).err().unwrap().0, wrong);
        assert_eq!(puts.execute(&mut context, put(me, region, b"x")).err().unwrap().0, wrong);
        let rmw = Rmw { width: Width::Eight, update: Update::Add(1) };
        let update = || Fetch { target: me, region, offset: 0, rmw, done: None };
        assert_eq!(fetch.execute(&mut context, update()), Err(wrong));
        assert_eq!(fetch.execute_in(own(), &mut context, update()), Err(wrong));
        assert_eq!(process.execute(&mut context, contribution(me, region, &memory)), Err(wrong));
        assert_eq!(process.execute_in(own(), &mut context, contribution(me, region, &memory)), Err(wrong));
        assert_eq!(fence.execute(&mut context, me, done), Err(wrong));
        let barrier = Collect::new(WORLD, Collective::Barrier, done);
        assert_eq!(collect.execute(&mut context, barrier), Err(CollectError::ForeignFactory));
        assert_eq!(context.send_immediate(me, 0, &[], &[1]), Ok(()));
    }
    let (error, fence) = mine.deregister(fence).err().unwrap();
    assert_eq!(error, FactoryError::ForeignFactory("theirs"));
    assert!(other.deregister(fence).is_ok());
    let (error, _other) = other.destroy().err().unwrap();
    assert_eq!(error, ClientError::FactoriesAlive(6));
    for text in [in_words(foreign), in_words(FactoryError::ForeignFactory("theirs"))] {
        assert!(text.contains("theirs"), "{text}");
    }
}

#[test]
fn m6_a_client_without_collectives_registers_none() {
    let [mut client, _other] = factories(false, |client| client);
    let protocol = client.protocol("p").unwrap();
    let collect = CollectFunction { what: Collective::Barrier, algorithm: None };
    assert_eq!(client.register(&protocol, collect).err(), Some(FactoryError::NoCollectives));
}

#[test]
fn m4_two_clients_with_conflicting_settings_do_not_touch_each_other() {
    let (log, handler) = collector();
    let nodes = machine(2, false);
    let create = |node, name, from| {
        let client = ClientBuilder::new(node, name).factories(2).rendezvous_from(from);
        let mut client: Client<TestNode> = client.dispatch(0, handler).create().unwrap();
        let protocol = client.protocol("send").unwrap();
        let send = client.register(&protocol, SEND).unwrap();
        (client, send)
    };
    let mut all: Vec<_> =
        nodes.iter().flat_map(|&node| [create(node, "a", 0), create(node, "b", usize::MAX)]).collect();
    let mut contexts: Vec<_> = all.iter_mut().map(|(client, _)| context(client, 0)).collect();
    let world = nodes[0].world;
    for (client, requests) in [(0, 1), (1, 1), (0, 2), (1, 2)] {
        let to = contexts[client + 2].endpoint();
        assert!(all[client].1.execute(&mut contexts[client], outgoing(to, &pattern(900, 2))).is_ok());
        let [a, b, c, d] = &mut contexts[..] else { unreachable!() };
        advance_all(&mut [a, b, c, d]);
        assert_eq!(world.count(Kind::Rts), requests);
        assert_eq!(log.lock().unwrap().pop().unwrap().2, pattern(900, 2));
    }
}

#[test]
fn d8_objects_that_wait_for_a_place_hear_of_a_death() {
    let (_log, handler) = collector();
    let [mut a, mut b] = factories(false, |client| client.dispatch(0, handler));
    let protocol = a.protocol("p").unwrap();
    let send = a.register(&protocol, EAGER).unwrap();
    let fence = a.register(&protocol, FenceFunction).unwrap();
    let (mut origin, target) = (context(&mut a, 0), context(&mut b, 0));
    let to = target.endpoint();
    let (ended, done) = ends();
    for _ in 0..OPERATIONS {
        assert!(send.execute(&mut origin, outgoing(to, &pattern(2 * MTU, 0))).is_ok());
    }
    for cookie in 0..80 {
        let outgoing = Outgoing { local_done: done(cookie), ..outgoing(to, &pattern(2 * MTU, 0)) };
        assert!(send.execute_in(own(), &mut origin, outgoing).is_ok());
    }
    assert_eq!(fence.execute_in(own(), &mut origin, to, done(80).unwrap()), Ok(()));
    a.node().world.kill(1);
    for _ in 0..1000 {
        origin.advance();
    }
    let ended = ended.lock().unwrap();
    let dead = Err(OperationError::NodeDead(1));
    assert_eq!(*ended, (0..=80).map(|cookie| (cookie, None, dead)).collect::<Vec<_>>());
    assert!(a.destroy_context(origin).is_ok());
}

/// One instruction of a random program.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send { len: usize, with_memory: bool, rendezvous: bool },
    Immediate,
    Put { with_memory: bool, by_network: bool },
    Advance { target: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..4 * MTU, any::<bool>(), any::<bool>()).prop_map(|(len, with_memory, rendezvous)| {
            Step::Send { len, with_memory, rendezvous }
        }),
        2 => Just(Step::Immediate),
        2 => any::<(bool, bool)>().prop_map(|(with_memory, by_network)| Step::Put { with_memory, by_network }),
        1 => any::<bool>().prop_map(|target| Step::Advance { target }),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn m3_messages_arrive_once_in_order_wherever_their_objects_lie(local in any::<bool>(), steps in steps()) {
        let (log, handler) = collector();
        let [mut a, mut b] = factories(local, |client| client.dispatch(0, handler));
        let protocol = a.protocol("p").unwrap();
        let eager = a.register(&protocol, EAGER).unwrap();
        let pulled = SendFunction { dispatch: 0, rendezvous_from: Some(1) };
        let pulled = a.register(&protocol, pulled).unwrap();
        let immediate = a.register(&protocol, ImmediateFunction { dispatch: 0 }).unwrap();
        let puts = a.register(&protocol, PutFunction::default()).unwrap();
        let by_network = a.register(&protocol, PutFunction { local_paths: Some(false) }).unwrap();
        let fence = a.register(&protocol, FenceFunction).unwrap();
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let (to, region) = (target.endpoint(), target.register(buffer(8), Rights::all()).ok().unwrap());
        let (ended, done) = ends();
        let (mut sent, mut eager_sent, mut ends_due) = (Vec::new(), Vec::new(), 0);
        for (number, step) in (0u32..).zip(steps) {
            match step {
                Step::Advance { target: false } => { origin.advance(); }
                Step::Advance { target: true } => { target.advance(); }
                Step::Immediate => match immediate.execute(&mut origin, to, &number.to_le_bytes(), &[]) {
                    Ok(()) => { sent.push((number, 0)); eager_sent.push(number); }
                    Err(error) => prop_assert_eq!(error, SendError::Again),
                },
                Step::Send { len, with_memory, rendezvous } => {
                    let factory = if rendezvous { &pulled } else { &eager };
                    let header = number.to_le_bytes();
                    let data = pattern(len, number as usize);
                    let outgoing = Outgoing { header: &header, remote_done: done(0), ..outgoing(to, &data) };
                    let outcome = if with_memory {
                        factory.execute_in(own(), &mut origin, outgoing)
                    } else {
                        factory.execute(&mut origin, outgoing)
                    };
                    match outcome {
                        Ok(()) => {
                            sent.push((number, len));
                            if local || !rendezvous || len == 0 { eager_sent.push(number); }
                            ends_due += 1;
                        }
                        Err((error, _)) => prop_assert!(!with_memory && error == SendError::Again),
                    }
                }
                Step::Put { with_memory, by_network: far } => {
                    let factory = if far { &by_network } else { &puts };
                    let put = Put { remote_done: done(1), ..put(to, region.handle(), &[1; 8]) };
                    let outcome = if with_memory {
                        factory.execute_in(own(), &mut origin, put)
                    } else {
                        factory.execute(&mut origin, put)
                    };
                    match outcome {
                        Ok(()) => ends_due += 1,
                        Err((error, _)) => prop_assert!(!with_memory && error == SendError::Again),
                    }
                }
            }
        }
        prop_assert_eq!(fence.execute_in(own(), &mut origin, to, done(2).unwrap()), Ok(()));
        advance_all(&mut [&mut origin, &mut target]);
        let ended = ended.lock().unwrap();
        prop_assert_eq!(ended.len(), ends_due + 1);
        prop_assert!(ended.iter().all(|end| end.2.is_ok()));
        prop_assert_eq!(ended.last().map(|end| end.0), Some(2), "the fence is behind all");
        let log = log.lock().unwrap();
        let mut seen: Vec<_> = log.iter().map(|(_, header, data)| {
            let number = u32::from_le_bytes(header[..].try_into().unwrap());
            assert_eq!(*data, pattern(data.len(), number as usize));
            (number, data.len())
        }).collect();
        let eager_seen: Vec<_> =
            seen.iter().map(|message| message.0).filter(|number| eager_sent.contains(number)).collect();
        prop_assert_eq!(eager_seen, eager_sent);
        seen.sort_unstable();
        prop_assert_eq!(seen, sent);
        prop_assert_eq!((origin.counters().strays, target.counters().strays), (0, 0));
        prop_assert!(a.destroy_context(origin).is_ok());
    }
}
