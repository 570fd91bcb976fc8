//! Where factories and objects lie, and how objects end (SPEC M-2, M-3).

use super::*;

#[test]
fn m2_every_function_is_carried_out_by_an_object_that_calls_back_and_is_free_then() {
    for (local, with_memory) in [(false, false), (false, true), (true, false), (true, true)] {
        let (log, handler) = collector();
        let [mut a, mut b] = factories(local, |client| client.dispatch(0, handler));
        let protocol = a.protocol("all").unwrap();
        let send = a.register(&protocol, SEND).unwrap();
        let puts = a.register(&protocol, PutFunction::default()).unwrap();
        let gets = a.register(&protocol, GetFunction::default()).unwrap();
        let fetch = a.register(&protocol, RmwFunction::default()).unwrap();
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
        let op = RmwOp { width: Width::Eight, update: Update::Add(5) };
        let update = Rmw { target: to, region: handle, offset: 0, op, done: on_fetched(4) };
        let read = Get { done: done(3), ..get(to, handle, 0, &into) };
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
        b.register(&protocol, DeferringReceiveFunction { dispatch: None, handler: always_later() }).unwrap();
    assert_eq!(receive.dispatch(), DEFERRING);
    let protocol = a.protocol("later").unwrap();
    let send = a.register(&protocol, SendFunction { dispatch: DEFERRING, ..SEND }).unwrap();
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    assert!(send.execute(&mut origin, outgoing(target.endpoint(), b"unexpected")).is_ok());
    advance_all(&mut [&mut origin, &mut target]);
    let id = target.unexpected().next().unwrap().id;
    let call = leak(move |_: &mut Active<Port>, received: Received| {
        got.lock().unwrap().push(received.buffer.as_slice()[..received.len].to_vec());
    });
    let then = OnReceived { call, cookie: 0 };
    assert!(receive.execute(&mut target, id, buffer(10), then).is_ok());
    let again = receive.execute(&mut target, id, buffer(10), then).err().unwrap();
    assert_eq!(again.0, SendError::NoSuchMessage);
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
    assert_eq!(target.counters().protocol_errors, 0);
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
    assert_eq!(size_of::<Factory<SendFunction>>(), size_of::<usize>());
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

#[test]
fn m3_objects_that_wait_for_a_place_do_what_takes_no_packet_when_they_get_one() {
    for local in [false, true] {
        let [mut a, mut b] = factories(local, |client| client);
        let protocol = a.protocol("all").unwrap();
        let puts = a.register(&protocol, PutFunction::default()).unwrap();
        let gets = a.register(&protocol, GetFunction::default()).unwrap();
        let fetch = a.register(&protocol, RmwFunction::default()).unwrap();
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let (to, region) =
            (target.endpoint(), target.register(filled(&[0; 64]), Rights::all()).ok().unwrap());
        let ((ends, done), (fetched, on_fetched)) = (ends(), fetches());
        for _ in 0..OPERATIONS {
            assert_eq!(origin.fence(to, done(0).unwrap()), Ok(()));
        }
        let (into, handle) = (buffer(8).share(), region.handle());
        let active: &mut Active<Port> = &mut origin;
        let put = Put { remote_done: done(1), ..put(to, handle, &7u64.to_ne_bytes()) };
        assert!(puts.execute_in(own(), active, put).is_ok());
        let op = RmwOp { width: Width::Eight, update: Update::Add(5) };
        let update = Rmw { target: to, region: handle, offset: 0, op, done: on_fetched(2) };
        assert_eq!(fetch.execute_in(own(), active, update), Ok(()));
        let read = Get { done: done(3), ..get(to, handle, 0, &into) };
        assert_eq!(gets.execute_in(own(), active, Get { len: 0, ..read }), Ok(()));
        let read = Get { done: done(4), ..get(to, handle, 0, &into) };
        assert_eq!(gets.execute_in(own(), active, read), Ok(()));
        advance_all(&mut [&mut origin, &mut target]);
        let mut ended: Vec<_> = ends.lock().unwrap().iter().map(|end| end.0).filter(|&end| end > 0).collect();
        ended.sort_unstable();
        assert_eq!((ended, fetched.lock().unwrap().len()), (vec![1, 3, 4], 1));
        let mut word = [0; 8];
        into.read(0, &mut word).unwrap();
        assert_eq!(u64::from_ne_bytes(word), 12, "in the order in which they were started");
    }
}
