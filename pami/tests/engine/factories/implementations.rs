//! Several implementations of one function, each with its settings (SPEC M-5).

use super::*;

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
        let fetch = a.register(&far, RmwFunction { local_paths: Some(false) }).unwrap();
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
        let op = RmwOp { width: Width::Eight, update: Update::Swap(u64::MAX) };
        let update = Rmw { target: to, region: handle, offset: 8, op, done: on_fetched(0) };
        assert_eq!(fetch.execute(&mut origin, update), Ok(()));
        let into = buffer(8).share();
        let read = Get { done: done(1), ..get(to, handle, 8, &into) };
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
    let create = |node| {
        ClientBuilder::new(node, "c").pools(Pools::LARGE).factories(4).collectives(Limits::default()).create()
    };
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
