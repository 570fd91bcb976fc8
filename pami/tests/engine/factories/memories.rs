//! Objects of collectives and receptions, and of messages of one packet, in their callers' memory (SPEC M-3).

use super::*;
use crate::stage::{Case, LIMITS, ends};
use pami::packet::HEADER_LIMIT;
use pami::{GeometryId, UnexpectedId};

fn room() -> &'static CollectMemory<Port> {
    leak(CollectMemory::new())
}

fn accepting() -> &'static AcceptMemory<Port> {
    leak(AcceptMemory::new())
}

/// A factory for each of these collectives at every task.
fn collectives(stage: &mut Stage, what: &[Collective]) -> Vec<Vec<Factory<CollectFunction>>> {
    let register = |client: &mut Client<TestNode>| {
        let protocol = client.protocol("collectives").unwrap();
        let function = |&what| CollectFunction { what, algorithm: None };
        what.iter().map(|what| client.register(&protocol, function(what)).unwrap()).collect()
    };
    stage.clients.iter_mut().map(register).collect()
}

/// Tasks whose contexts have room for one collective of each geometry besides one, and for so many that wait.
fn tight(tasks: u32, geometries: usize, queued: usize, seed: u64) -> Stage {
    let limits = Limits { geometries, in_flight: 1, always: geometries - 1, queued, ..LIMITS };
    let build = |client: ClientBuilder<_>| client.factories(8).collectives(limits);
    let stage = Stage::of(machine_of(tasks, 1), 1, Told::new(), build);
    stage.world.stepped();
    Stage { random: crate::stage::Random::new(seed), ..stage }
}

#[test]
fn m3_collectives_in_their_callers_memory_are_never_refused_for_want_of_a_place() {
    const MORE: usize = 10;
    let mut stage = tight(2, 1, 2, 1);
    let factories = collectives(&mut stage, &[Collective::Barrier]);
    let factory = &factories[0][0];
    let mut called = 0;
    let full = loop {
        let barrier = stage.barrier(WORLD, called);
        match factory.execute(&mut stage.contexts[0], barrier) {
            Ok(()) => called += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(full, CollectError::Full { limit: 2 });
    let memories: Vec<_> = (0..MORE).map(|_| room()).collect();
    for (more, memory) in memories.iter().enumerate() {
        let barrier = stage.barrier(WORLD, called + more);
        assert_eq!(factory.execute_in(memory, &mut stage.contexts[0], barrier), Ok(()));
        assert!(memory.is_busy());
        // Nothing overtakes it, and nobody has its memory.
        let barrier = stage.barrier(WORLD, 99);
        assert_eq!(factory.execute(&mut stage.contexts[0], barrier.clone()), Err(full));
        let again = factory.execute_in(memory, &mut stage.contexts[0], barrier);
        assert_eq!(again, Err(CollectError::MemoryInUse));
    }
    assert!(CollectError::MemoryInUse.to_string().contains("memory"));
    assert_eq!(stage.destroy(0), Err(ClientError::SendsUnderWay));
    let all = called + MORE;
    for cookie in 0..all {
        let barrier = stage.barrier(WORLD, all + cookie);
        assert_eq!(factories[1][0].execute_in(room(), &mut stage.contexts[1], barrier), Ok(()));
    }
    stage.until(2 * all);
    assert!(memories.iter().all(|memory| !memory.is_busy()));
    let cookies = stage.cookies();
    for own in [0..all, all..2 * all] {
        assert!(cookies.iter().copied().filter(|cookie| own.contains(cookie)).eq(own.clone()), "{cookies:?}");
    }
    // One that finds room needs none of the caller's.
    let [first, second] = [0, 1].map(|at| (at, room()));
    for (at, memory) in [first, second] {
        let barrier = stage.barrier(WORLD, 0);
        assert_eq!(factories[at][0].execute_in(memory, &mut stage.contexts[at], barrier), Ok(()));
        assert!(!memory.is_busy());
    }
    stage.until(2);
}

#[test]
fn m3_r1_collectives_of_several_geometries_end_wherever_their_objects_wait() {
    const WHAT: [Collective; 3] = [Collective::Allreduce, Collective::Barrier, Collective::Gather];
    for seed in 0..8 {
        let (size, each, geometries) = (3, 6, 3);
        let mut stage = tight(size, geometries, 2, seed);
        let factories = collectives(&mut stage, &WHAT);
        let members = stage.everyone();
        (1..geometries as u32).for_each(|id| _ = stage.create(id, members, None));
        let (ended, done) = ends();
        let mut outputs = Vec::new();
        for rank in 0..size {
            let mut called = vec![0; geometries];
            while called.iter().any(|&called| called < each) {
                let id = stage.random.below(geometries);
                if called[id] == each {
                    continue;
                }
                let salt = (id * each + called[id]) as u64;
                let kind = salt as usize % WHAT.len();
                let (geometry, root) = (GeometryId(id as u32), salt as u32 % size);
                let case = Case { geometry, what: WHAT[kind], size, root, len: 9, salt, ..Case::default() };
                let cookie = salt as usize * size as usize + rank as usize;
                let with_memory = stage.random.below(2) == 0;
                let active = &mut stage.contexts[rank as usize];
                let (collect, output) = case.collect(active, rank, done(cookie).unwrap()).unwrap();
                let factory = &factories[rank as usize][kind];
                let started = match with_memory {
                    true => Err(CollectError::Full { limit: 2 }),
                    false => factory.execute(active, collect.clone()),
                };
                if started == (Err(CollectError::Full { limit: 2 })) {
                    assert_eq!(factory.execute_in(room(), active, collect), Ok(()));
                } else {
                    assert_eq!(started, Ok(()));
                }
                outputs.push((case, rank, output));
                called[id] += 1;
            }
        }
        let total = geometries * each * size as usize;
        stage.settle("all", || ended.len() == total);
        assert!(ended.are_good());
        outputs.iter().for_each(|(case, rank, output)| case.check(*rank, output.as_ref()));
    }
}

/// A stage whose second task keeps all that comes, for what is accepted through its factory, and has two receive requests.
fn keeping(
    told: Told,
) -> (Stage, Factory<SendFunction>, Factory<FenceFunction>, Factory<DeferringReceiveFunction<Port>>) {
    let pools = Pools { receive_requests: 2, unexpected: 16, ..Pools::LARGE };
    let build = |client: ClientBuilder<_>| client.factories(8).pools(pools);
    let mut stage = Stage::closed(machine(2, false), 1, told, build);
    let protocol = stage.clients[1].protocol("later").unwrap();
    let later = DeferringReceiveFunction { dispatch: None, handler: always_later() };
    let receive = stage.clients[1].register(&protocol, later).unwrap();
    let protocol = stage.clients[0].protocol("later").unwrap();
    let deferred = SendFunction { dispatch: DEFERRING, rendezvous_from: Some(2 * MTU) };
    let send = stage.register(&protocol, deferred);
    let fence = stage.register(&protocol, FenceFunction);
    (0..2).for_each(|task| _ = stage.open(task, 0));
    (stage, send, fence, receive)
}

#[test]
fn m3_p6_receptions_in_their_callers_memory_wait_for_a_receive_request() {
    let (mut stage, send, fence, receive) = keeping(Told::new());
    let to = stage.at(1);
    // Eagerly and by rendezvous.
    let messages: Vec<_> = (0..10).map(|at| pattern(if at % 2 == 0 { 10 } else { 3 * MTU }, at)).collect();
    for (cookie, message) in messages.iter().enumerate() {
        let outgoing = Outgoing { remote_done: stage.told.done(cookie), ..outgoing(to, message) };
        assert!(send.execute(&mut stage[0], outgoing).is_ok());
    }
    let behind = stage.told.done(99).unwrap();
    assert_eq!(fence.execute(&mut stage[0], to, behind), Ok(()));
    stage.quiet();
    let ids = stage.kept_ids(1);
    assert_eq!((ids.len(), stage.ends()), (messages.len(), vec![]));
    let accept = |stage: &mut Stage, id: UnexpectedId, memory: Option<&'static AcceptMemory<Port>>| {
        let then = stage.told.on_received(&[]);
        match memory {
            Some(memory) => receive.execute_in(memory, &mut stage[1], (id, buffer(3 * MTU)), then),
            None => receive.execute(&mut stage[1], id, buffer(3 * MTU), then),
        }
        .map_err(|(error, _)| error)
    };
    for &id in &ids[..2] {
        assert_eq!(accept(&mut stage, id, None), Ok(()));
    }
    assert_eq!(accept(&mut stage, ids[2], None), Err(SendError::Again));
    let memories: Vec<_> = ids[2..].iter().map(|_| accepting()).collect();
    for (&id, memory) in ids[2..].iter().zip(&memories) {
        assert_eq!(accept(&mut stage, id, Some(memory)), Ok(()));
        assert!(memory.is_busy());
        // It is nobody else's.
        assert_eq!(accept(&mut stage, id, Some(memory)), Err(SendError::MemoryInUse));
        assert_eq!(accept(&mut stage, id, Some(accepting())), Err(SendError::NoSuchMessage));
    }
    assert_eq!(stage.kept_ids(1), []);
    assert_eq!(stage.destroy(1), Err(ClientError::ReceivesUnderWay));
    stage.quiet();
    // What is pulled takes longer.
    let sorted = |mut data: Vec<Vec<u8>>| {
        data.sort();
        data
    };
    assert!(sorted(stage.data()) == sorted(messages.clone()));
    assert!(memories.iter().all(|memory| !memory.is_busy()));
    let told = stage.cookies();
    assert_eq!(
        (told.len(), told.last()),
        (messages.len() + 1, Some(&99)),
        "a fence waits for those that wait"
    );
    assert_eq!(accept(&mut stage, ids[2], Some(memories[0])), Err(SendError::NoSuchMessage));
    assert_eq!(stage.destroy(1), Ok(()));
}

#[test]
fn m3_d8_receptions_that_wait_hear_of_a_death() {
    let (mut stage, send, _, receive) = keeping(Told::torn());
    let to = stage.at(1);
    for at in 0..6 {
        assert!(send.execute(&mut stage[0], outgoing(to, &pattern(3 * MTU, at))).is_ok());
    }
    stage.quiet();
    for id in stage.kept_ids(1) {
        let then = stage.told.on_received(&[]);
        let accepted = receive.execute_in(accepting(), &mut stage[1], (id, buffer(3 * MTU)), then);
        assert!(accepted.is_ok());
    }
    stage.world.kill(0);
    stage.advance(1, 1000);
    assert_eq!(stage.outcomes(), [(0, 0, 3 * MTU, Err(OperationError::NodeDead(0))); 6]);
    assert_eq!(stage.destroy(1), Ok(()));
}

#[test]
fn m3_messages_of_one_packet_in_their_callers_memory_are_kept_and_stay_in_order() {
    for deferred in [false, true] {
        let (mut stage, protocol) = factories(false, |client| client);
        let send = stage.register(&protocol, EAGER);
        let later = stage.register(&protocol, SendFunction { dispatch: DEFERRING, ..EAGER });
        let immediate = stage.register(&protocol, ImmediateFunction { dispatch: 0 });
        let to = stage.at(1);
        for _ in 0..OPERATIONS {
            let factory = if deferred { &later } else { &send };
            assert!(factory.execute(&mut stage[0], outgoing(to, &pattern(2 * MTU, 1))).is_ok());
        }
        assert_eq!(immediate.execute(&mut stage[0], to, &[1], &[2]), Err(SendError::Again));
        let memories: Vec<_> = (0..9u8).map(|_| own()).collect();
        for (at, memory) in (0..).zip(&memories) {
            let active: &mut Active<Port> = &mut stage[0];
            assert_eq!(immediate.execute_in(memory, active, to, &[at], &[at; 99]), Ok(()));
            assert!(memory.is_busy());
            let again = immediate.execute_in(memory, active, to, &[at], &[at]);
            assert_eq!(again, Err(SendError::MemoryInUse));
            let long = immediate.execute_in(own(), active, to, &[at], &[at; HEADER_LIMIT]);
            assert_eq!(long, Err(SendError::TooLong));
        }
        stage.quiet();
        // Behind what its target keeps, and what there is no place for.
        while let ids = stage.kept_ids(1)
            && !ids.is_empty()
        {
            ids.into_iter().for_each(|id| assert_eq!(stage[1].discard(id), Ok(())));
            stage.quiet();
        }
        let short: Vec<_> = stage.got().into_iter().filter(|got| got.2.len() == 99).collect();
        let expected: Vec<_> = (0..9u8).map(|at| (0, vec![at], vec![at; 99])).collect();
        assert_eq!(short, expected);
        assert!(memories.iter().all(|memory| !memory.is_busy()));
        // What finds its way open needs none.
        assert_eq!(immediate.execute_in(memories[0], &mut stage[0], to, &[], &[7]), Ok(()));
        assert!(!memories[0].is_busy());
        stage.quiet();
        assert_eq!(stage.data(), [[7]]);
    }
}
