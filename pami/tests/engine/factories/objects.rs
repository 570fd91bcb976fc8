//! Where factories and objects lie, and how objects end (SPEC M-2, M-3).

use super::*;

#[test]
fn m2_every_function_is_carried_out_by_an_object_that_calls_back_and_is_free_then() {
    for (local, with_memory) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut stage, protocol) = factories(local, |client| client);
        let (_, _) = (stage.open(0, 1), stage.open(1, 1));
        let send = stage.register(&protocol, SEND);
        let puts = stage.register(&protocol, PutFunction::default());
        let gets = stage.register(&protocol, GetFunction::default());
        let fetch = stage.register(&protocol, RmwFunction::default());
        let fence = stage.register(&protocol, FenceFunction);
        let region = stage.region(1, &[0; 64], Rights::all());
        let (to, handle, told) = (stage.at(1), region.handle(), stage.told);
        let objects: Vec<_> = (0..7).map(|_| own()).collect();
        let into = buffer(8).share();
        let data = pattern(3 * MTU, 4);
        let outgoing = Outgoing { remote_done: told.done(1), ..outgoing(to, &data) };
        let put = Put { remote_done: told.done(2), ..put_of(to, handle, &7u64.to_ne_bytes()) };
        let update = Rmw { done: told.on_fetched(4), ..rmw(to, handle, 0, Update::Add(5)) };
        let read = Get { done: told.done(3), ..get(to, handle, 0, &into, 8) };
        let fenced = [5, 6, 7].map(|cookie| told.done(cookie).unwrap());
        let active: &mut Active<Port> = &mut stage[0];
        if with_memory {
            assert!(send.execute_in(objects[0], active, outgoing).is_ok());
            assert!(puts.execute_in(objects[1], active, put).is_ok());
            assert_eq!(fetch.execute_in(objects[2], active, update), Ok(()));
            assert_eq!(gets.execute_in(objects[3], active, read), Ok(()));
            assert_eq!(fence.execute_in(objects[4], active, to, fenced[0]), Ok(()));
            assert_eq!(fence.execute_tasks_in(objects[5], active, 0..2, fenced[1]), Ok(()));
            assert_eq!(fence.execute_contexts_in(objects[6], active, (0..2, 0..1), fenced[2]), Ok(()));
            assert!(objects.iter().all(|object| object.is_busy()));
        } else {
            assert!(send.execute(active, outgoing).is_ok());
            assert!(puts.execute(active, put).is_ok());
            assert_eq!(fetch.execute(active, update), Ok(()));
            assert_eq!(gets.execute(active, read), Ok(()));
            assert_eq!(fence.execute(active, to, fenced[0]), Ok(()));
            assert_eq!(fence.execute_tasks(active, 0..2, fenced[1]), Ok(()));
            assert_eq!(fence.execute_contexts(active, 0..2, 0..1, fenced[2]), Ok(()));
        }
        assert_eq!((stage.ends(), stage.fetched()), (vec![], vec![]));
        stage.quiet();
        assert_eq!(stage.ends(), [1, 2, 3, 5, 6, 7].map(|cookie| (cookie, None, Ok(()))));
        assert_eq!((stage.fetched()[0].result, word(&into)), (Ok(7), 12));
        assert_eq!(stage.data(), [data]);
        assert!(objects.iter().all(|object| !object.is_busy()));
        assert_eq!(stage.destroy(0), Ok(()));
    }
}

#[test]
fn m2_a_receive_factory_accepts_what_its_handler_wanted_later() {
    let mut stage = Stage::closed(machine(2, false), 1, Told::new(), |client| client.factories(8));
    let protocol = stage.clients[1].protocol("later").unwrap();
    let later = DeferringReceiveFunction { dispatch: None, handler: always_later() };
    let receive = stage.clients[1].register(&protocol, later).unwrap();
    assert_eq!(receive.dispatch(), DEFERRING);
    let protocol = stage.clients[0].protocol("later").unwrap();
    let send = stage.register(&protocol, SendFunction { dispatch: DEFERRING, ..SEND });
    let (origin, target) = (stage.open(0, 0), stage.open(1, 0));
    let outgoing = outgoing(stage.at(target), b"unexpected");
    assert!(send.execute(&mut stage[origin], outgoing).is_ok());
    stage.quiet();
    let (id, then) = (stage.kept_ids(target)[0], stage.told.on_received(&[]));
    assert!(receive.execute(&mut stage[target], id, buffer(10), then).is_ok());
    let again = receive.execute(&mut stage[target], id, buffer(10), then).err().unwrap();
    assert_eq!(again.0, SendError::NoSuchMessage);
    stage.quiet();
    assert_eq!(stage.data(), [b"unexpected"]);
}

#[test]
fn m3_objects_in_the_contexts_memory_are_as_many_as_it_has_places() {
    let (mut stage, protocol) = factories(false, |client| client);
    let send = stage.register(&protocol, EAGER);
    let (to, data) = (stage.at(1), pattern(2 * MTU, 1));
    let mut taken = 0;
    let (error, payload) = loop {
        match send.execute(&mut stage[0], outgoing(to, &data)) {
            Ok(()) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!((error, taken), (SendError::Again, OPERATIONS));
    assert!(matches!(payload, Payload::Static(bytes) if bytes == data));
    stage.quiet();
    assert_eq!(stage.got().len(), OPERATIONS);
}

#[test]
fn m3_objects_in_the_callers_memory_need_no_other_and_stay_in_order() {
    const MORE: usize = 100;
    let (mut stage, protocol) = factories(false, |client| client);
    let send = stage.register(&protocol, EAGER);
    let immediate = stage.register(&protocol, ImmediateFunction { dispatch: 0 });
    let fence = stage.register(&protocol, FenceFunction);
    let (to, told) = (stage.at(1), stage.told);
    let mut data = pattern(2 * MTU, 1);
    let mut number = 0u32;
    let mut next = || {
        data[..4].copy_from_slice(&number.to_le_bytes());
        number += 1;
        outgoing(to, &data)
    };
    for _ in 0..OPERATIONS {
        assert!(send.execute(&mut stage[0], next()).is_ok());
    }
    let objects: Vec<_> = (0..MORE).map(|_| own()).collect();
    for (cookie, &object) in objects.iter().enumerate() {
        let outgoing = Outgoing { local_done: told.done(cookie), ..next() };
        assert!(send.execute_in(object, &mut stage[0], outgoing).is_ok());
    }
    assert_eq!(fence.execute_in(own(), &mut stage[0], to, told.done(MORE).unwrap()), Ok(()));
    let (error, _) = send.execute_in(objects[3], &mut stage[0], outgoing(to, b"twice")).err().unwrap();
    assert_eq!(error, SendError::MemoryInUse);
    let quick = immediate.execute(&mut stage[0], to, &[], b"quick");
    assert_eq!(quick, Err(SendError::Again), "it would overtake");
    assert_eq!(stage.immediate(0, 1, b"quick"), Err(SendError::Again), "it would overtake");
    stage.advance(0, 1000);
    let direct = send.execute(&mut stage[0], outgoing(to, b"direct"));
    assert_eq!(direct.err().unwrap().0, SendError::Again);
    assert_eq!(stage.destroy(0), Err(ClientError::SendsUnderWay));
    stage.quiet();
    let numbers = stage.data().into_iter().map(|data| u32::from_le_bytes(data[..4].try_into().unwrap()));
    assert!(numbers.eq(0..(OPERATIONS + MORE) as u32));
    assert!(stage.cookies().into_iter().eq(0..=MORE));
    assert!(objects.iter().all(|object| !object.is_busy()));
    assert_eq!(stage.protocol_errors(), 0);
}

#[test]
fn m3_a_callback_may_pass_its_objects_memory_on() {
    const ROUNDS: usize = 10;
    let (mut stage, protocol) = factories(false, |client| client);
    let send: &'static Factory<SendFunction> = leak(stage.register(&protocol, SEND));
    let (to, object) = (stage.at(1), own());
    struct Chain(Mutex<Option<Done<Port>>>);
    let chain: &'static Chain = leak(Chain(Mutex::new(None)));
    let call = leak(move |active: &mut Active<Port>, completion: Completion| {
        let done = chain.0.lock().unwrap().unwrap();
        if completion.cookie < ROUNDS {
            let remote_done = Some(Done { cookie: completion.cookie + 1, ..done });
            assert!(!object.is_busy());
            assert!(send.execute_in(object, active, Outgoing { remote_done, ..outgoing(to, b"x") }).is_ok());
        }
    });
    *chain.0.lock().unwrap() = Some(Done { call, cookie: 0 });
    let remote_done = Some(Done { call, cookie: 1 });
    let first = Outgoing { remote_done, ..outgoing(to, b"x") };
    assert!(send.execute_in(object, &mut stage[0], first).is_ok());
    stage.quiet();
    assert_eq!(stage.got().len(), ROUNDS);
}

#[test]
fn m3_factories_in_the_callers_memory_need_none_of_the_clients() {
    let mut stage = Stage::pair(false, |client| client);
    let client = &mut stage.clients[0];
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
    let mut client = ClientBuilder::new(nodes[0], "c").pools(Pools::LARGE).factories(3).create().unwrap();
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
    assert_eq!((ObjectMemory::<Port>::SIZE, ObjectMemory::<Port>::ALIGN), (368, 8));
    assert_eq!(size_of::<ObjectMemory<Port>>(), ObjectMemory::<Port>::SIZE);
    assert_eq!((CollectMemory::<Port>::SIZE, CollectMemory::<Port>::ALIGN), (376, 8));
    assert_eq!((AcceptMemory::<Port>::SIZE, AcceptMemory::<Port>::ALIGN), (80, 8));
    assert_eq!(size_of::<Factory<SendFunction>>(), size_of::<usize>());
}

#[test]
fn d8_objects_that_wait_for_a_place_hear_of_a_death() {
    let (mut stage, protocol) = factories(false, |client| client);
    let send = stage.register(&protocol, EAGER);
    let fence = stage.register(&protocol, FenceFunction);
    let (to, told) = (stage.at(1), stage.told);
    for _ in 0..OPERATIONS {
        assert!(send.execute(&mut stage[0], outgoing(to, &pattern(2 * MTU, 0))).is_ok());
    }
    for cookie in 0..80 {
        let outgoing = Outgoing { local_done: told.done(cookie), ..outgoing(to, &pattern(2 * MTU, 0)) };
        assert!(send.execute_in(own(), &mut stage[0], outgoing).is_ok());
    }
    assert_eq!(fence.execute_in(own(), &mut stage[0], to, told.done(80).unwrap()), Ok(()));
    stage.world.kill(1);
    stage.advance(0, 1000);
    let dead = Err(OperationError::NodeDead(1));
    assert!(told.list().into_iter().eq((0..=80).map(|cookie| (cookie, None, dead))));
    assert_eq!(stage.destroy(0), Ok(()));
}

#[test]
fn m3_objects_that_wait_for_a_place_end_in_the_order_in_which_they_were_started() {
    for local in [false, true] {
        let (mut stage, protocol) = factories(local, |client| client);
        let puts = stage.register(&protocol, PutFunction::default());
        let gets = stage.register(&protocol, GetFunction::default());
        let fetch = stage.register(&protocol, RmwFunction::default());
        let region = stage.region(1, &[0; 64], Rights::all());
        let (to, handle, told) = (stage.at(1), region.handle(), stage.told);
        (0..OPERATIONS).for_each(|_| stage.fence(0, 1, 0));
        let into = buffer(8).share();
        let active: &mut Active<Port> = &mut stage[0];
        let put = Put { remote_done: told.done(1), ..put_of(to, handle, &7u64.to_ne_bytes()) };
        assert!(puts.execute_in(own(), active, put).is_ok());
        let update = Rmw { done: told.on_fetched(2), ..rmw(to, handle, 0, Update::Add(5)) };
        assert_eq!(fetch.execute_in(own(), active, update), Ok(()));
        for (len, cookie) in [(0, 3), (8, 4)] {
            let read = Get { done: told.done(cookie), ..get(to, handle, 0, &into, len) };
            assert_eq!(gets.execute_in(own(), active, read), Ok(()));
        }
        stage.quiet();
        let ended: Vec<_> = stage.ends().iter().map(|end| end.0).filter(|&end| end > 0).collect();
        assert_eq!((ended, stage.fetched().len()), (vec![1, 3, 4], 1));
        assert_eq!(word(&into), 12, "in the order in which they were started");
    }
}

#[test]
fn m3_p7_nothing_within_a_node_overtakes_an_object_that_waits_for_a_place() {
    let (mut stage, protocol) = factories(true, |client| client);
    let puts = stage.register(&protocol, PutFunction::default());
    let gets = stage.register(&protocol, GetFunction::default());
    let fetch = stage.register(&protocol, RmwFunction::default());
    let region = stage.region(1, &[0; 64], Rights::all());
    let (to, handle, told) = (stage.at(1), region.handle(), stage.told);
    let value = |value: u64| put_of(to, handle, &value.to_ne_bytes());
    let told_of = |put| Put { remote_done: told.done(9), ..put };
    let add = |add, cookie| Rmw { done: told.on_fetched(cookie), ..rmw(to, handle, 0, Update::Add(add)) };
    // From here on words go there at once.
    for _ in 0..2 {
        assert!(stage[0].put(told_of(value(1))).is_ok());
        assert_eq!(stage[0].rmw(add(0, 0)), Ok(()));
    }
    stage.quiet();
    let _ = (stage.ends(), stage.fetched());
    for at_once in [told_of(value(3)), value(3)] {
        (0..OPERATIONS).for_each(|_| stage.fence(0, 1, 0));
        let into = buffer(8).share();
        assert!(puts.execute_in(own(), &mut stage[0], value(2)).is_ok());
        let read = Get { done: told.done(1), ..get(to, handle, 0, &into, 8) };
        assert_eq!(gets.execute_in(own(), &mut stage[0], read), Ok(()));
        assert_eq!(fetch.execute_in(own(), &mut stage[0], add(10, 1)), Ok(()));
        assert_eq!(stage[0].rmw(add(20, 2)), Ok(()));
        assert!(stage[0].put(at_once).is_ok());
        assert_eq!(stage[0].rmw(add(30, 3)), Ok(()));
        stage.quiet();
        let mut fetched: Vec<_> = stage.fetched().iter().map(|it| (it.cookie, it.result)).collect();
        fetched.sort_by_key(|it| it.0);
        assert_eq!((word(&into), word(region.memory())), (2, 33));
        assert_eq!(fetched, [(1, Ok(2)), (2, Ok(12)), (3, Ok(3))]);
    }
}
