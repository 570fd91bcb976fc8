//! Protocols, their names and handlers; what does not belong together (SPEC M-1, M-4, M-6).

use super::*;

#[test]
fn m1_a_protocol_has_a_name_of_its_own_until_it_ends() {
    let nodes = machine(1, true);
    let mut first = ClientBuilder::new(nodes[0], "first").pools(Pools::LARGE).factories(1).create().unwrap();
    let mut second = ClientBuilder::new(nodes[0], "second").pools(Pools::LARGE).create().unwrap();
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
    let told = Told::new();
    let handler = told.taker();
    let build = |client: ClientBuilder<_>| client.factories(8).dispatch(0, handler);
    let mut stage = Stage::closed(machine(2, false), 1, told, build);
    let mut ids = Vec::new();
    let mut receive: Vec<_> = stage
        .clients
        .iter_mut()
        .map(|client| {
            let protocol = client.protocol("p").unwrap();
            let first = client.register(&protocol, ReceiveFunction { dispatch: None, handler }).unwrap();
            let third = client.register(&protocol, ReceiveFunction { dispatch: Some(3), handler }).unwrap();
            let taken = client.register(&protocol, ReceiveFunction { dispatch: Some(3), handler });
            assert_eq!(taken.err(), Some(FactoryError::DispatchId(3)));
            ids.push((first.dispatch(), third.dispatch()));
            (protocol, first)
        })
        .collect();
    assert_eq!(ids, [(1, 3), (1, 3)]);
    let (protocol, first) = receive.swap_remove(0);
    let send = stage.register(&protocol, ImmediateFunction { dispatch: first.dispatch() });
    let (origin, target) = (stage.open(0, 0), stage.open(1, 0));
    let to = stage.at(target);
    assert_eq!(send.execute(&mut stage[origin], to, b"head", b"data"), Ok(()));
    stage.quiet();
    assert_eq!(stage.got(), [(0, b"head".to_vec(), b"data".to_vec())]);
    let late = stage.clients[0].register(&protocol, ReceiveFunction { dispatch: None, handler }).err();
    assert_eq!(late, Some(FactoryError::ContextsAlive(1)));
    let (error, first) = stage.clients[0].deregister(first).err().unwrap();
    assert_eq!(error, FactoryError::ContextsAlive(1));
    let context = stage.contexts.swap_remove(origin);
    assert!(stage.clients[0].destroy_context(context).is_ok());
    assert!(stage.clients[0].deregister(first).is_ok());
    assert!(in_words(error).contains('1'));
}

/// Two tasks with two contexts each, whose clients take handlers while those live.
fn open_late(local: bool) -> Stage {
    let build = |client: ClientBuilder<_>| client.factories(8).late_receives();
    Stage::of(machine(2, local), 2, Told::new(), build)
}

#[test]
fn m1_receives_are_registered_while_contexts_live_and_every_message_finds_them() {
    for local in [false, true] {
        let mut stage = open_late(local);
        let handler = stage.told.taker();
        let to = stage.at(2);
        // One that comes before is discarded, and counted.
        assert_eq!(stage[0].send_immediate(to, 0, &[], &[1]), Ok(()));
        stage.quiet();
        assert_eq!((stage[2].counters().unknown_dispatch, stage.data()), (1, vec![]));
        let protocol = stage.clients[1].protocol("late").unwrap();
        let function = ReceiveFunction { dispatch: None, handler };
        let receive = stage.clients[1].register(&protocol, function).unwrap();
        assert_eq!(receive.dispatch(), 0);
        let taken = ReceiveFunction { dispatch: Some(0), handler };
        assert_eq!(stage.clients[1].register(&protocol, taken).err(), Some(FactoryError::DispatchId(0)));
        let sender = stage.clients[0].protocol("late").unwrap();
        let [eager, bulk] = [EAGER, SendFunction { rendezvous_from: Some(0), ..EAGER }]
            .map(|function| stage.register(&sender, function));
        // The first of each kind, at each context.
        for target in [2, 3] {
            let to = stage.at(target);
            for _ in 0..2 {
                assert_eq!(stage[0].send_immediate(to, 0, &[], &[2]), Ok(()));
                assert!(eager.execute(&mut stage[0], outgoing(to, &pattern(3 * MTU, 0))).is_ok());
                assert!(bulk.execute(&mut stage[0], outgoing(to, &pattern(MTU, 1))).is_ok());
                stage.quiet();
                assert_eq!(stage.data(), [vec![2], pattern(3 * MTU, 0), pattern(MTU, 1)]);
            }
        }
        // A handler goes when no context is left that may have a copy.
        let (error, receive) = stage.clients[1].deregister(receive).err().unwrap();
        assert_eq!(error, FactoryError::ContextsAlive(2));
        for _ in 0..2 {
            let context = stage.contexts.pop().unwrap();
            assert!(stage.clients[1].destroy_context(context).is_ok());
        }
        assert!(stage.clients[1].deregister(receive).is_ok());
        let target = stage.open(1, 0);
        assert_eq!(stage[0].send_immediate(to, 0, &[], &[1]), Ok(()));
        stage.quiet();
        assert_eq!((stage[target].counters().unknown_dispatch, stage.data()), (1, vec![]));
    }
}

#[test]
fn m1_p6_what_comes_before_its_deferring_handler_is_registered_is_kept() {
    for size in [10, 3 * MTU] {
        let mut stage = open_late(false);
        let bytes = pattern(size, 3);
        let sender = stage.clients[0].protocol("late").unwrap();
        let function = SendFunction { dispatch: DEFERRING, rendezvous_from: Some(MTU) };
        let send = stage.register(&sender, function);
        let to = stage.at(2);
        assert!(send.execute(&mut stage[0], outgoing(to, &bytes)).is_ok());
        stage.quiet();
        assert_eq!((stage[2].counters().unknown_dispatch, stage.kept_ids(2).len()), (0, 1));
        // Of an id that no handler can have nothing is kept.
        let stray = pami::packet::Envelope {
            kind: Kind::Asked,
            dispatch: DEFERRING + pami::packet::DEFERRING_IDS as u8,
            origin: stage.at(1),
            target: to,
            message: 1,
            offset: 0,
            total: 1,
        };
        stage.forge(stray, &[], &[1]);
        stage.turn(&[2]);
        assert_eq!((stage[2].counters().unknown_dispatch, stage.kept_ids(2).len()), (1, 1));
        let protocol = stage.clients[1].protocol("late").unwrap();
        let told = stage.told;
        let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| Some(told.whole(message)));
        let function = DeferringReceiveFunction { dispatch: Some(DEFERRING), handler };
        let receive = stage.clients[1].register(&protocol, function).unwrap();
        let (id, then) = (stage.kept_ids(2)[0], told.on_received(&[]));
        assert!(receive.execute(&mut stage[2], id, buffer(size), then).is_ok());
        // The next one finds the handler.
        assert!(send.execute(&mut stage[0], outgoing(to, &bytes)).is_ok());
        stage.quiet();
        assert_eq!((stage.data(), stage.kept_ids(2)), (vec![bytes.clone(), bytes], vec![]));
    }
}

#[test]
fn m6_what_belongs_to_another_client_is_refused() {
    let nodes = machine(1, true);
    let limits = Limits::default();
    let create = |name| {
        ClientBuilder::new(nodes[0], name)
            .pools(Pools::LARGE)
            .factories(8)
            .collectives(limits)
            .create()
            .unwrap()
    };
    let (mut mine, mut other) = (create("mine"), create("other"));
    let protocol = other.protocol("theirs").unwrap();
    let foreign = FactoryError::ForeignProtocol("theirs");
    assert_eq!(mine.register(&protocol, FenceFunction).err(), Some(foreign));
    let immediate = other.register(&protocol, ImmediateFunction { dispatch: 0 }).unwrap();
    let send = other.register(&protocol, SEND).unwrap();
    let puts = other.register(&protocol, PutFunction::default()).unwrap();
    let fetch = other.register(&protocol, RmwFunction::default()).unwrap();
    let process = other.register(&protocol, ProcessFunction::default()).unwrap();
    let memory = buffer(8).share();
    let fence = other.register(&protocol, FenceFunction).unwrap();
    let collect = CollectFunction { what: Collective::Barrier, algorithm: None };
    let collect = other.register(&protocol, collect).unwrap();
    let mut context = context(&mut mine, 0);
    let me = context.endpoint();
    let region = context.register(buffer(8), Rights::all()).ok().unwrap().handle();
    let wrong = SendError::ForeignFactory;
    let done = Done { call: &|_: &mut Active<Port>, _| panic!("nothing was begun"), cookie: 0 };
    // Also when the context has just sent there.
    for _ in 0..2 {
        assert_eq!(immediate.execute(&mut context, me, &[], &[1]), Err(wrong));
        let theirs = Endpoint::from_parts(other.id(), 0, me.context());
        assert_eq!(immediate.execute(&mut context, theirs, &[], &[1]), Err(wrong));
        assert_eq!(send.execute(&mut context, outgoing(me, b"x")).err().unwrap().0, wrong);
        assert_eq!(send.execute_in(own(), &mut context, outgoing(me, b"x")).err().unwrap().0, wrong);
        assert_eq!(puts.execute(&mut context, put_of(me, region, b"x")).err().unwrap().0, wrong);
        let update = || rmw(me, region, 0, Update::Add(1));
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
    let (mut stage, protocol) = factories(false, |client| client);
    let collect = CollectFunction { what: Collective::Barrier, algorithm: None };
    assert_eq!(stage.clients[0].register(&protocol, collect).err(), Some(FactoryError::NoCollectives));
}

#[test]
fn m4_two_clients_with_conflicting_settings_do_not_touch_each_other() {
    let told = Told::new();
    let nodes = machine(2, false);
    let create = |node, name, from| {
        let client = ClientBuilder::new(node, name).pools(Pools::LARGE).factories(2).rendezvous_from(from);
        let mut client: Client<TestNode> = client.dispatch(0, told.taker()).create().unwrap();
        let protocol = client.protocol("send").unwrap();
        let send = client.register(&protocol, SEND).unwrap();
        (client, send)
    };
    let mut all: Vec<_> =
        nodes.iter().flat_map(|&node| [create(node, "a", 0), create(node, "b", usize::MAX)]).collect();
    let mut contexts: Vec<_> = all.iter_mut().map(|(client, _)| context(client, 0)).collect();
    for (client, requests) in [(0, 1), (1, 1), (0, 2), (1, 2)] {
        let to = contexts[client + 2].endpoint();
        assert!(all[client].1.execute(&mut contexts[client], outgoing(to, &pattern(900, 2))).is_ok());
        while contexts.iter_mut().map(|context| context.advance()).sum::<usize>() > 0 {}
        assert_eq!(nodes[0].world.count(Kind::Rts), requests);
        assert_eq!(told.notes().got.pop().unwrap().memory, pattern(900, 2));
    }
}
