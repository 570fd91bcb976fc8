//! Several implementations of one function, each with its settings (SPEC M-5).

use super::*;

#[test]
fn m5_each_factory_has_its_own_switch_over_size() {
    let (mut stage, protocol) = factories(false, |client| client.rendezvous_from(4 * MTU));
    let ways = [Some(usize::MAX), Some(0), None]
        .map(|rendezvous_from| stage.register(&protocol, SendFunction { dispatch: 0, rendezvous_from }));
    let [eager, pulled, usual] = &ways;
    let to = stage.at(1);
    let mut requests = 0;
    for size in [0, 1, 100, 4 * MTU - 1, 4 * MTU, 20 * MTU] {
        let as_usual = usize::from(size >= 4 * MTU);
        let data = pattern(size, 5);
        let turns = [(eager, 0), (pulled, usize::from(size > 0)), (usual, as_usual), (eager, 0)];
        let turns = turns.map(|(factory, expected)| (Some(factory), expected));
        // Nor does the client's own way change.
        for (turn, (factory, expected)) in turns.into_iter().chain([(None, as_usual)]).enumerate() {
            match factory {
                Some(factory) => assert!(factory.execute(&mut stage[0], outgoing(to, &data)).is_ok()),
                None => stage.say(0, 1, data.clone()),
            }
            stage.quiet();
            requests += expected;
            assert_eq!(stage.count(Kind::Rts), requests, "{size}, turn {turn}");
            assert_eq!(stage.data(), [&data[..]]);
        }
    }
}

/// A factory that sends.
enum Way {
    Usual(Factory<SendFunction>),
    Path(Factory<PathSendFunction>),
}

impl Way {
    /// Of messages that are pulled from so many bytes on, over the client's path or, if it is some, one of the factory's own.
    fn register(
        stage: &mut Stage,
        protocol: &Protocol,
        (rendezvous_from, local_paths): (Option<usize>, Option<bool>),
    ) -> Self {
        let dispatch = 0;
        match local_paths {
            None => Self::Usual(stage.register(protocol, SendFunction { dispatch, rendezvous_from })),
            Some(local_paths) => Self::Path(
                stage.register(protocol, PathSendFunction { dispatch, rendezvous_from, local_paths }),
            ),
        }
    }

    fn send(
        &self,
        active: &mut Active<Port>,
        memory: Option<&'static ObjectMemory<Port>>,
        outgoing: Outgoing<'_, Port>,
    ) -> Result<(), SendError> {
        match (self, memory) {
            (Self::Usual(factory), None) => factory.execute(active, outgoing),
            (Self::Usual(factory), Some(memory)) => factory.execute_in(memory, active, outgoing),
            (Self::Path(factory), None) => factory.execute(active, outgoing),
            (Self::Path(factory), Some(memory)) => factory.execute_in(memory, active, outgoing),
        }
        .map_err(|(error, _)| error)
    }
}

/// Five ways to send, each with a count of what goes over the network and is not the usual way's.
#[test]
fn m5_sends_go_eagerly_in_bulk_through_memory_or_by_loop_back_as_their_factory_says() {
    for (clients_own, with_memory) in [(true, false), (true, true), (false, false), (false, true)] {
        let (mut stage, protocol) = factories(true, |client| client.local_paths(clients_own));
        let ways = [
            ("eager", (Some(usize::MAX), None), !clients_own, false),
            ("bulk", (Some(0), None), !clients_own, !clients_own),
            ("shared memory", (None, Some(true)), false, false),
            ("loop-back", (None, Some(false)), true, false),
            ("loop-back in bulk", (Some(0), Some(false)), true, true),
        ];
        let ways =
            ways.map(|(name, way, far, bulk)| (name, Way::register(&mut stage, &protocol, way), far, bulk));
        let fence = stage.register(&protocol, FenceFunction);
        let (to, told) = (stage.at(1), stage.told);
        let data = |stage: &Stage| {
            [Kind::EagerFirst, Kind::EagerFirstAcked, Kind::EagerNext, Kind::GetLast]
                .map(|kind| stage.count(kind))
                .iter()
                .sum::<usize>()
        };
        for size in [0, 1, 100, MTU, 3 * MTU] {
            for (name, factory, far, bulk) in ways.iter().chain(&ways) {
                let (before, gets) = (data(&stage), stage.count(Kind::Get));
                let bytes = pattern(size, 7);
                let message = outgoing(to, &bytes);
                let memory = with_memory.then(own);
                assert_eq!(factory.send(&mut stage[0], memory, message), Ok(()), "{name}");
                // Though nobody asked to be told, the fence knows, whatever path it takes itself.
                assert_eq!(fence.execute(&mut stage[0], to, told.done(0).unwrap()), Ok(()));
                while stage.ends().is_empty() {
                    stage.turn(&[0, 1]);
                }
                assert_eq!(stage.data(), [&bytes[..]], "{name}, {size}");
                // A fence over the network gets nothing, once.
                let fence_gets = usize::from(!clients_own);
                let pulled = stage.count(Kind::Get) > gets + fence_gets;
                assert_eq!(
                    data(&stage) > before + fence_gets,
                    *far,
                    "{name}, {size}, as the client says: {clients_own}"
                );
                if name.ends_with("bulk") {
                    assert_eq!(pulled, *bulk && size > 0, "{name}, {size}");
                }
            }
        }
        assert_eq!((stage[0].counters().protocol_errors, stage[1].counters().protocol_errors), (0, 0));
    }
}

/// One that may be kept for later, to the same task over each path, and the data of both.
#[test]
fn m5_p6_what_may_be_kept_for_later_is_pulled_over_the_factorys_path() {
    let (mut stage, protocol) = factories(true, |client| client);
    let to = stage.at(1);
    for local in [false, true] {
        let function =
            PathSendFunction { dispatch: DEFERRING, rendezvous_from: Some(MTU), local_paths: local };
        let factory = stage.register(&protocol, function);
        for size in [10, 3 * MTU] {
            let (gets, bytes) = (stage.count(Kind::Get), pattern(size, 2));
            assert!(factory.execute(&mut stage[0], outgoing(to, &bytes)).is_ok());
            stage.quiet();
            let kept: Vec<_> =
                stage[1].unexpected().map(|kept| (kept.id, kept.dispatch, kept.total)).collect();
            assert_eq!((kept.len(), kept[0].1, kept[0].2), (1, DEFERRING, size));
            let then = stage.told.on_received(&[]);
            assert!(stage[1].accept(kept[0].0, buffer(size), then).is_ok());
            stage.quiet();
            assert_eq!(stage.data(), [bytes]);
            assert_eq!(stage.count(Kind::Get) > gets, !local && size > MTU);
        }
    }
}

proptest! {
    /// Whatever order paths have among them, all comes once and whole, and a fence ends behind all.
    #[test]
    fn m5_p9_messages_over_several_paths_all_come_once(
        sends in prop::collection::vec((0..4usize, prop::sample::select(vec![0, 1, MTU, 2 * MTU, 5 * MTU])), 1..40),
        seed in any::<u64>(),
    ) {
        let (mut stage, protocol) = factories(true, |client| client);
        stage.world.stepped();
        stage.random = crate::stage::Random::new(seed);
        let ways = [
            (Some(usize::MAX), None),
            (Some(0), Some(false)),
            (None, Some(false)),
            (Some(0), None),
        ]
                .map(|way| Way::register(&mut stage, &protocol, way));
        let to = stage.at(1);
        let mut expected: Vec<Vec<Vec<u8>>> = vec![Vec::new(); ways.len()];
        for (number, &(way, size)) in sends.iter().enumerate() {
            let mut message = vec![way as u8, number as u8];
            message.extend(pattern(size, number));
            let payload = Payload::Shared(filled(&message).share(), 0..message.len());
            let outgoing = Outgoing::new(to, payload);
            prop_assert_eq!(ways[way].send(&mut stage[0], Some(own()), outgoing), Ok(()));
            expected[way].push(message);
            (0..stage.random.below(4)).for_each(|_| stage.tick());
        }
        stage.fence(0, 1, 9);
        stage.until(1);
        let got = stage.data();
        prop_assert_eq!(got.len(), sends.len(), "behind the fence all is there");
        for (way, expected) in expected.iter().enumerate() {
            let mut of_way: Vec<_> = got.iter().filter(|message| message[0] == way as u8).cloned().collect();
            of_way.sort_by_key(|message| message[1]);
            prop_assert_eq!(&of_way, expected);
        }
        prop_assert_eq!(stage[1].counters().protocol_errors, 0);
    }
}

#[test]
fn m5_one_sided_factories_go_through_memory_or_the_network_as_each_says() {
    for clients_own in [true, false] {
        let (mut stage, protocol) = factories(true, |client| client.local_paths(clients_own));
        let puts = [("near", Some(true), false), ("far", Some(false), true), ("usual", None, !clients_own)];
        let puts = puts.map(|(name, local_paths, by_network)| {
            (name, stage.register(&protocol, PutFunction { local_paths }), by_network)
        });
        let fetch = stage.register(&protocol, RmwFunction { local_paths: Some(false) });
        let gets = stage.register(&protocol, GetFunction { local_paths: Some(false) });
        let fence = stage.register(&protocol, FenceFunction);
        let region = stage.region(1, &pattern(64, 0), Rights::all());
        let (to, handle, told) = (stage.at(1), region.handle(), stage.told);
        let packets = |stage: &Stage| stage.count(Kind::Put) + stage.count(Kind::PutLast);
        for (name, factory, by_network) in &puts {
            let before = packets(&stage);
            assert!(factory.execute(&mut stage[0], put_of(to, handle, name.as_bytes())).is_ok());
            // Though nobody asked to be told, the fence knows, whatever path it takes itself.
            assert_eq!(fence.execute(&mut stage[0], to, told.done(0).unwrap()), Ok(()));
            while stage.ends().is_empty() {
                stage.turn(&[0, 1]);
            }
            assert_eq!(packets(&stage) - before, usize::from(*by_network), "{name}");
            assert!(bytes(region.memory()).starts_with(name.as_bytes()));
        }
        let before = [Kind::Rmw, Kind::Get].map(|kind| stage.count(kind));
        let update = Rmw { done: told.on_fetched(0), ..rmw(to, handle, 8, Update::Swap(u64::MAX)) };
        assert_eq!(fetch.execute(&mut stage[0], update), Ok(()));
        let into = buffer(8).share();
        let read = Get { done: told.done(1), ..get(to, handle, 8, &into, 8) };
        assert_eq!(gets.execute(&mut stage[0], read), Ok(()));
        stage.quiet();
        let after = [Kind::Rmw, Kind::Get].map(|kind| stage.count(kind));
        assert_eq!(after, before.map(|count| count + 1));
        assert!(stage.fetched()[0].result.is_ok());
        assert_eq!(word(&into), u64::MAX);
    }
}

#[test]
fn m5_each_factory_splits_what_it_processes_by_its_own_rules() {
    const COUNT: usize = 500;
    let (mut stage, protocol) = factories(true, |client| client);
    let quarter = Rule {
        element: None,
        from_bytes: 0,
        origin: SubOperations::all(),
        chunks: 250,
        others: SubOperations::empty(),
    };
    let rules = Split::Rules(leak([quarter]));
    let [there, here, some, unused] = [Split::TargetOnly, Split::OriginOnly, rules, Split::Advice]
        .map(|split| stage.register(&protocol, ProcessFunction { split }));
    assert_eq!([there.split(), here.split(), some.split()], [Split::TargetOnly, Split::OriginOnly, rules]);
    // Those that are there do not change with another.
    assert!(stage.clients[0].deregister(unused).is_ok());
    let region = stage.region(1, &[0; 8 * COUNT], Rights::all());
    let (to, handle, told) = (stage.at(1), region.handle(), stage.told);
    let memory = filled(&0.7f64.to_ne_bytes().repeat(COUNT)).share();
    let (mut expected, mut all) = (0.0f64, 0);
    let turns =
        [(&here, 4000..4001), (&there, 0..1), (&some, 500..1500), (&here, 4000..4001), (&some, 500..1500)];
    for (turn, (factory, share)) in turns.into_iter().enumerate() {
        let before = stage[0].counters().placed_bytes;
        let all_of_it = || Contribution {
            local_done: told.done(0),
            remote_done: told.done(1),
            ..contribution(to, handle, &memory)
        };
        // With the object here, or with the caller.
        if turn < 3 {
            assert_eq!(factory.execute(&mut stage[0], all_of_it()), Ok(()));
        } else {
            let object = own();
            assert_eq!(factory.execute_in(object, &mut stage[0], all_of_it()), Ok(()));
            assert!(object.is_busy());
            let again = factory.execute_in(object, &mut stage[0], all_of_it());
            assert_eq!(again, Err(SendError::MemoryInUse));
        }
        stage.quiet();
        all += 8 * COUNT as u64;
        let placed = stage[0].counters().placed_bytes - before;
        assert!(share.contains(&placed), "turn {turn}: {placed} bytes were added by the origin");
        assert_eq!(stage[0].counters().placed_bytes + stage[1].counters().processed_bytes, all);
        expected += 0.1 * 0.7;
        assert_eq!(bytes(region.memory()), expected.to_ne_bytes().repeat(COUNT), "turn {turn}");
        assert_eq!(stage.ends(), [(0, None, Ok(())), (1, None, Ok(()))]);
    }
}

#[test]
fn m3_what_is_processed_waits_in_the_callers_memory_for_a_place() {
    const MORE: usize = 10;
    let (mut stage, protocol) = factories(false, |client| client);
    let process = stage.register(&protocol, ProcessFunction { split: Split::TargetOnly });
    let fence = stage.register(&protocol, FenceFunction);
    let region = stage.region(1, &[0; 8], Rights::all());
    let memory = filled(&0.7f64.to_ne_bytes()).share();
    let (to, handle, told) = (stage.at(1), region.handle(), stage.told);
    let one = || contribution(to, handle, &memory);
    for _ in 0..OPERATIONS {
        assert_eq!(process.execute(&mut stage[0], one()), Ok(()));
    }
    assert_eq!(process.execute(&mut stage[0], one()), Err(SendError::Again));
    for cookie in 0..MORE {
        let one = Contribution { remote_done: told.done(cookie), ..one() };
        assert_eq!(process.execute_in(own(), &mut stage[0], one), Ok(()));
    }
    assert_eq!(fence.execute_in(own(), &mut stage[0], to, told.done(MORE).unwrap()), Ok(()));
    stage.quiet();
    assert!(stage.cookies().into_iter().eq(0..=MORE));
    let expected = (0..OPERATIONS + MORE).fold(0.0, |sum, _| sum + 0.1 * 0.7);
    assert_eq!(f64::from_bits(word(region.memory())), expected);
}

#[test]
fn m5_the_same_collective_by_several_algorithms() {
    const TASKS: u32 = 5;
    let tuning = Tuning { radix: 2, chunk: 16 };
    let mut stage = Stage::of(machine_of(TASKS, 1), 1, Told::new(), |client| {
        client.factories(4).collectives(Limits::default())
    });
    let mut registered = Vec::new();
    for client in &mut stage.clients {
        let protocol = client.protocol("barriers").unwrap();
        let by = |algorithm| CollectFunction { what: Collective::Barrier, algorithm };
        let ways = [Some((Algorithm::Dissemination, tuning)), Some((Algorithm::Nary, tuning)), None];
        registered.push(ways.map(|algorithm| client.register(&protocol, by(algorithm)).unwrap()));
        let flat = Tuning { radix: 1, chunk: 0 };
        for (wrong, error) in [
            ((Algorithm::Ring, tuning), CallError::Algorithm(Collective::Barrier, Algorithm::Ring)),
            ((Algorithm::Dissemination, flat), CallError::Tuning),
        ] {
            let none = client.register(&protocol, by(Some(wrong))).err();
            assert_eq!(none, Some(FactoryError::Call(error)));
        }
    }
    let done = stage.done(0).unwrap();
    let barrier = |what| Collect::<Port>::new(WORLD, what, done);
    // Three rounds of a signal from each; up and down a tree of five; what the call says.
    for (way, signals) in [(0, 15), (1, 8), (0, 15), (2, 8), (1, 8)] {
        let before = stage.count(Kind::Collective);
        for (context, factories) in stage.contexts.iter_mut().zip(&registered) {
            let call = barrier(Collective::Barrier);
            let call = Collect { algorithm: Some((Algorithm::Nary, tuning)), ..call };
            assert_eq!(factories[way].scratch_len(context, &call), Ok(0));
            assert_eq!(factories[way].execute(context, call), Ok(()));
            let wrong = factories[way].execute(context, barrier(Collective::Broadcast));
            assert_eq!(wrong, Err(CollectError::OtherCollective(Collective::Barrier)));
        }
        stage.quiet();
        assert_eq!(stage.ends(), [(0, None, Ok(())); TASKS as usize]);
        assert_eq!(stage.count(Kind::Collective) - before, signals, "way {way}");
    }
}
