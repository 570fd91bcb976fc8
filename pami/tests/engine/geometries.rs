//! Geometries at run time, and collectives that go wrong (SPEC G-1, D-8).

use crate::machine::{Packet, buffer};
use crate::stage::{Case, LIMITS, Play, Port, Stage, ends};
use pami::collective::{Algorithm, Area, Blocks, CallError, Collective, Element, Operator, Reducer};
use pami::device::Arrival;
use pami::geometry::{Members, MembersError};
use pami::{
    ClientError, Collect, CollectError, Endpoint, GeometryError, GeometryId, Limits, NewGeometry,
    OperationError, WORLD,
};

fn allreduce(geometry: GeometryId, size: u32, len: usize) -> Case {
    let what = Collective::Allreduce;
    Case { geometry, what, algorithm: None, size, root: 0, len, in_place: false, salt: 1, ..Case::default() }
}

#[test]
fn g1_geometries_can_be_created_at_the_same_time_in_any_order() {
    for seed in 0..10 {
        let mut stage = Stage::new(4, 2, 1, seed);
        let all = stage.range(0, 4, 1);
        let odd = stage.range(1, 2, 2);
        let high = stage.range(1, 3, 1);
        let (ended, done) = ends();
        let mut wanted: Vec<(u32, Members<'static>, u32)> = Vec::new();
        for (id, members) in [(3, all), (4, odd), (9, high)] {
            wanted.extend((0..members.size()).map(|rank| (id, members, rank)));
        }
        let total = wanted.len();
        while !wanted.is_empty() {
            let (id, members, rank) = wanted.swap_remove(stage.random.below(wanted.len()));
            let context = stage.member(&members, rank);
            let done = done(id as usize * 10 + rank as usize).unwrap();
            let new = NewGeometry::new(GeometryId(id), members, done);
            stage.contexts[context].create_geometry(new).unwrap();
            stage.tick();
        }
        stage.settle("creation", || ended.len() == total);
        assert!(ended.are_good());
        let geometry = stage.contexts[3].geometry(GeometryId(4)).unwrap();
        assert_eq!((geometry.rank, geometry.size, geometry.started), (1, 2, 1));
        let cases = [(3, all), (4, odd), (9, high)];
        let cases = cases.map(|(id, members)| (allreduce(GeometryId(id), members.size(), 9), members));
        Play::new(&stage, cases.to_vec()).run(&mut stage);
    }
}

#[test]
fn g1_wrong_geometries_are_refused_where_they_are_made() {
    let mut stage = Stage::new(3, 1, 1, 1);
    let population = stage.population();
    let (_, done) = ends();
    let done = done(0).unwrap();
    let two = stage.range(0, 2, 1);
    let new = |id, members| NewGeometry::new(GeometryId(id), members, done);
    assert_eq!(stage.contexts[2].create_geometry(new(1, two)), Err(GeometryError::NotMember));
    assert_eq!(stage.contexts[0].create_geometry(new(0, two)), Err(GeometryError::Taken(WORLD)));
    assert_eq!(stage.contexts[0].create_geometry(new(1, two)), Ok(()));
    assert_eq!(stage.contexts[0].create_geometry(new(1, two)), Err(GeometryError::Taken(GeometryId(1))));
    assert_eq!(stage.contexts[0].destroy_geometry(GeometryId(1)), Err(GeometryError::Busy(GeometryId(1))));
    assert_eq!(stage.contexts[0].destroy_geometry(GeometryId(5)), Err(GeometryError::Unknown(GeometryId(5))));
    assert_eq!(stage.contexts[0].destroy_geometry(WORLD), Err(GeometryError::World));
    for id in 2..8 {
        assert_eq!(stage.contexts[0].create_geometry(new(id, two)), Ok(()));
    }
    let full = Err(GeometryError::Full { limit: LIMITS.geometries });
    assert_eq!(stage.contexts[0].create_geometry(new(8, two)), full);
    // Another client's endpoints, and one that is named twice.
    let own = stage.contexts[0].endpoint();
    let foreign = Endpoint::from_parts(pami::endpoint::ClientId(1), 1, own.context());
    let index = || vec![0; 4].leak();
    let list = |list: &[Endpoint]| Members::endpoints(population, list.to_vec().leak(), index()).err();
    assert_eq!(list(&[own, foreign]), Some(MembersError::ForeignClient(1)));
    assert_eq!(list(&[own, own]), Some(MembersError::Duplicate(1)));
    let mut bare = Stage::with(
        1,
        1,
        1,
        1,
        Limits { geometries: 0, in_flight: 0, always: 0, queued: 0, early: 0, domains: None },
    );
    assert_eq!(bare.contexts[0].create_geometry(new(1, two)), Err(GeometryError::NotSetUp));
}

#[test]
fn g1_a_destroyed_geometry_leaves_room_for_another() {
    let mut stage = Stage::new(3, 1, 1, 6);
    let members = stage.everyone();
    for round in 0..20 {
        let id = stage.create(1 + round, members, None);
        stage.play(&[(allreduce(id, 3, 70), members)]);
        for context in &mut stage.contexts {
            assert_eq!(context.destroy_geometry(id), Ok(()));
            assert!(context.geometry(id).is_none());
        }
    }
}

/// A clear that was asked for twice may come when its collective is over everywhere, and the geometry gone. It is of no other.
#[test]
fn r1_what_is_late_of_a_destroyed_geometry_is_of_no_other() {
    const CLEAR: u8 = 2;
    for seed in 0..8 {
        let mut stage = Stage::new(2, 1, 1, seed);
        let members = stage.everyone();
        let broadcast = |geometry| {
            let case = Case { geometry, size: 2, len: 700, what: Collective::Broadcast, ..Case::default() };
            (Case { algorithm: Some(Algorithm::Binomial), ..case }, members)
        };
        let id = stage.create(1, members, None);
        let mut play = Play::new(&stage, vec![broadcast(id)]);
        while play.start_one(&mut stage) {}
        let mut clears = Vec::new();
        while !play.is_over() {
            stage.contexts[1].advance();
            let receiver = stage.contexts[1].endpoint();
            let mut world = stage.world.lock();
            let sent = world.port(receiver).injection.iter().map(|injected| &injected.packet);
            clears.extend(sent.filter(|packet| packet.envelope().dispatch == CLEAR).map(|packet| {
                let (header, _) = packet.parts();
                Packet::new(packet.envelope(), header, &[])
            }));
            drop(world);
            (0..10).for_each(|_| stage.tick());
        }
        play.check();
        assert!(!clears.is_empty());
        for context in &mut stage.contexts {
            assert_eq!(context.destroy_geometry(id), Ok(()));
        }
        clears.into_iter().for_each(|clear| stage.world.forge(clear));
        stage.rest();
        let again = NewGeometry::new(id, members, ends().1(0).unwrap());
        assert_eq!(stage.contexts[0].create_geometry(again), Err(GeometryError::Used(id)));
        let id = stage.create(2, members, None);
        // Its root begins long before the other is there.
        let mut play = Play::new(&stage, vec![broadcast(id)]);
        while play.start_one(&mut stage) {
            stage.rest();
        }
        stage.settle("the broadcast", || play.is_over());
        play.check();
    }
}

/// What a member sent of a collective that another gave up may come when that one has destroyed the geometry.
#[test]
fn r1_a_short_message_of_a_destroyed_geometry_is_no_breach() {
    let mut stage = Stage::new(2, 1, 1, 4);
    let members = stage.everyone();
    let id = stage.create(1, members, None);
    let sum = Case { root: 1, what: Collective::Broadcast, ..allreduce(id, 2, 3) };
    stage.start(1, sum, 1);
    let abandoned = stage.done(0).unwrap();
    stage[0].abandon(id, 7, abandoned).unwrap();
    // Nothing moves between them before that.
    stage.run(&[0], |_| false);
    assert_eq!(stage.results(), [(0, Err(OperationError::Abandoned { rank: 0, reason: 7 }))]);
    assert_eq!(stage[0].destroy_geometry(id), Ok(()));
    stage.rest();
    assert_eq!(stage[0].counters().protocol_errors, 0);
    // The root waits for nobody.
    assert_eq!(stage.results(), [(1, Ok(()))]);
}

#[test]
fn g1_members_that_mean_different_geometries_all_hear_of_it() {
    let mut stage = Stage::new(4, 1, 1, 7);
    for (task, members) in [4, 4, 3, 4].into_iter().enumerate() {
        assert_eq!(stage.new_geometry(task, 2, stage.range(0, members, 1), task), Ok(()));
    }
    stage.until(4);
    let ended = stage.results();
    assert!(ended.iter().all(|end| matches!(end.1, Err(OperationError::Mismatch(_)))), "{ended:?}");
}

/// Creates a geometry at the members of each list; returns how it ended.
fn create_each(stage: &mut Stage, lists: &[(usize, Members<'static>)]) -> Vec<Result<(), OperationError>> {
    let mut waiting = lists.to_vec();
    while !waiting.is_empty() {
        let (task, members) = waiting.swap_remove(stage.random.below(waiting.len()));
        assert_eq!(stage.new_geometry(task, 2, members, task), Ok(()));
        stage.some_ticks(30);
    }
    stage.until(lists.len());
    stage.results().into_iter().map(|(_, result)| result).collect()
}

#[test]
fn g1_members_are_compared_all_of_them_in_whatever_form() {
    for seed in 0..6 {
        // One has two in the middle the other way round.
        let mut stage = Stage::new(8, 1, 1, seed);
        let right = stage.range(0, 8, 1);
        let same = stage.listed(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let wrong = stage.listed(&[0, 1, 2, 3, 4, 6, 5, 7]);
        let all = |odd: Members<'static>, odd_at: usize| -> Vec<_> {
            (0..8).map(|task| (task, if task == odd_at { odd } else { right })).collect()
        };
        let ends = create_each(&mut stage, &all(wrong, seed as usize));
        assert!(ends.iter().all(|end| matches!(end, Err(OperationError::Mismatch(_)))), "{ends:?}");
        let mut stage = Stage::new(8, 1, 1, seed);
        let ends = create_each(&mut stage, &all(same, seed as usize));
        assert!(ends.iter().all(Result::is_ok), "{ends:?}");
        // Neither waits for a message of the other: what comes says enough.
        let mut stage = Stage::new(8, 1, 1, seed);
        let lists = [
            (0, stage.listed(&[0, 1, 2, 3, 4])),
            (1, stage.listed(&[5, 0, 1])),
            (5, stage.listed(&[0, 1, 5])),
        ];
        let ends = create_each(&mut stage, &lists);
        assert!(ends.iter().all(|end| matches!(end, Err(OperationError::Mismatch(_)))), "{ends:?}");
    }
}

#[test]
fn g1_domains_are_compared_too() {
    let mut stage = Stage::new(4, 2, 1, 3);
    let members = stage.everyone();
    let (ended, done) = ends();
    for task in 0..4 {
        let domains = (task != 2).then(|| crate::stage::domains(2, 2));
        let new = NewGeometry { domains, ..NewGeometry::new(GeometryId(2), members, done(task).unwrap()) };
        stage.contexts[task].create_geometry(new).unwrap();
    }
    stage.settle("creation", || ended.len() == 4);
    assert!(ended.results().iter().all(|end| matches!(end.1, Err(OperationError::Mismatch(_)))));
}

#[test]
fn r2_a_geometry_with_a_dead_member_is_refused_by_its_node() {
    let mut stage = Stage::new(3, 1, 1, 3);
    let members = stage.everyone();
    stage.world.kill(1);
    stage.rest();
    let (_, done) = ends();
    let new = NewGeometry::new(GeometryId(1), members, done(0).unwrap());
    assert_eq!(stage.contexts[0].create_geometry(new), Err(GeometryError::Dead(1)));
}

#[test]
fn r4_one_collective_in_flight_is_enough_for_any_number() {
    let mut stage = Stage::with(3, 1, 1, 2, Limits { in_flight: 1, ..LIMITS });
    let members = stage.everyone();
    // The engine puts a barrier in front of every eighth broadcast.
    for salt in 0..20 {
        let case = Case { what: Collective::Broadcast, salt, ..allreduce(WORLD, 3, 9) };
        stage.play(&[(case, members)]);
    }
}

#[test]
fn r1_r4_members_that_start_collectives_of_many_geometries_in_any_order_find_room_for_each() {
    for seed in 0..20 {
        let number = if seed < 2 { 40 } else { 7 };
        let (geometries, in_flight) = (1 + number as usize, 1 + seed as usize % 3);
        let always = geometries - 1;
        let mut stage = Stage::with(3, 1, 1, seed, Limits { geometries, in_flight, always, ..LIMITS });
        let members = stage.everyone();
        (1..=number).for_each(|id| _ = stage.create(id, members, None));
        let (ended, done) = ends();
        // Each goes through the geometries in an order of its own, for some with barriers in front.
        let mut orders: Vec<Vec<u32>> = (0..3).map(|_| (0..=number).collect()).collect();
        orders[1].reverse();
        orders[2].rotate_left(1 + stage.random.below(number as usize));
        for round in 0..9 {
            let (mut at, mut patience) = ([0; 3], 200_000);
            while at.iter().any(|&at| at < orders[0].len()) {
                patience -= 1;
                assert!(patience > 0, "there is never room again: {at:?} in round {round} of {seed}");
                let rank = stage.random.below(3);
                stage.tick();
                let Some(&id) = orders[rank].get(at[rank]) else { continue };
                let case = Case { what: Collective::Broadcast, ..allreduce(GeometryId(id), 3, 9) };
                let active = &mut stage.contexts[rank];
                let (collect, _) = case.collect(active, rank as u32, done(0).unwrap()).unwrap();
                match active.collect(collect) {
                    Ok(()) => at[rank] += 1,
                    Err(error) => assert_eq!(error, CollectError::Full { limit: LIMITS.queued }),
                }
            }
            let total = 3 * geometries * (round + 1);
            stage.settle("collectives", || ended.len() == total);
        }
    }
}

#[test]
fn g1_a_context_with_collectives_in_flight_is_not_destroyed() {
    let mut stage = Stage::new(2, 1, 1, 8);
    stage.collect(0, stage.barrier(WORLD, 0));
    assert_eq!(stage.destroy(0), Err(ClientError::SendsUnderWay));
}

fn collect(what: Collective) -> Collect<Port> {
    let (_, done) = ends();
    Collect::new(WORLD, what, done(0).unwrap())
}

#[test]
fn g3_wrong_arguments_are_refused_at_the_caller() {
    let mut stage = Stage::new(2, 1, 1, 9);
    let memory = || Some((buffer(64).share(), 0));
    let context = &mut stage.contexts[0];
    let mut refused = |wrong| context.collect(wrong).err().unwrap();
    let eight = Blocks::equal(8);
    let wrong = Collect { geometry: GeometryId(3), ..collect(Collective::Barrier) };
    assert_eq!(refused(wrong), CollectError::UnknownGeometry(GeometryId(3)));
    let wrong = Collect {
        root: 2,
        input: memory(),
        output: memory(),
        blocks: eight,
        ..collect(Collective::Broadcast)
    };
    assert_eq!(refused(wrong), CollectError::Call(CallError::Root(2)));
    let wrong = Collect { input: memory(), blocks: eight, ..collect(Collective::Allreduce) };
    assert_eq!(refused(wrong), CollectError::NoReducer(Collective::Allreduce));
    let sum = Reducer::new(Operator::Sum, Element::F64).ok();
    let wrong = Collect { input: memory(), blocks: eight, reducer: sum, ..collect(Collective::Allreduce) };
    assert_eq!(refused(wrong), CollectError::TooSmall { area: Area::Output, bytes: 64 });
    let long = Collect {
        input: memory(),
        output: memory(),
        blocks: Blocks::equal(9),
        reducer: sum,
        ..collect(Collective::Allreduce)
    };
    assert_eq!(refused(long), CollectError::TooSmall { area: Area::Input, bytes: 72 });
    let wrong =
        Collect { input: memory(), output: memory(), blocks: eight, ..collect(Collective::Allgather) };
    let forced = pami::collective::Tuning { radix: 2, chunk: 1 };
    let wrong = Collect { algorithm: Some((Algorithm::Rabenseifner, forced)), ..wrong };
    assert!(matches!(refused(wrong), CollectError::Selection(_)));
    let wrong = Collect { blocks: Blocks::equal(usize::MAX / 2), ..collect(Collective::Allgather) };
    assert_eq!(refused(wrong), CollectError::TooLong);
    // Nothing was started.
    assert_eq!(stage.contexts[0].geometry(WORLD).unwrap().started, 0);
    assert!(Reducer::new(Operator::BitAnd, Element::F32).is_err());
}

#[test]
fn g3_members_that_disagree_all_get_an_error() {
    for seed in 0..6 {
        let mut stage = Stage::new(4, 1, 1, seed);
        let (ended, done) = ends();
        for rank in 0..4u32 {
            let case = Case { len: if rank == 1 { 80 } else { 81 }, ..allreduce(WORLD, 4, 0) };
            let active = &mut stage.contexts[rank as usize];
            let (collect, _) = case.collect(active, rank, done(rank as usize).unwrap()).unwrap();
            active.collect(collect).unwrap();
        }
        stage.settle("disagreement", || ended.len() == 4);
        let mismatch = |result| matches!(result, Err(OperationError::Mismatch(_)));
        assert!(ended.results().into_iter().all(|(_, result)| mismatch(result)), "{:?}", ended.results());
        // The next one is right again.
        stage.rest();
        let members = stage.everyone();
        stage.play(&[(allreduce(WORLD, 4, 20), members)]);
    }
}

#[test]
fn g3_a_member_that_gives_up_ends_the_collective_for_all() {
    for seed in 0..6 {
        let mut stage = Stage::new(4, 1, 1, seed);
        let (ended, done) = ends();
        for rank in [2, 0, 1, 3] {
            let active = &mut stage.contexts[rank];
            if rank == 2 {
                active.abandon(WORLD, 513, done(rank).unwrap()).unwrap();
            } else {
                let case = allreduce(WORLD, 4, 100);
                let (collect, _) = case.collect(active, rank as u32, done(rank).unwrap()).unwrap();
                active.collect(collect).unwrap();
            }
            for _ in 0..stage.random.below(40) {
                stage.tick();
            }
        }
        stage.settle("abandoned", || ended.len() == 4);
        let abandoned = Err(OperationError::Abandoned { rank: 2, reason: 513 });
        assert!(ended.results().into_iter().all(|(_, result)| result == abandoned), "{:?}", ended.results());
        stage.rest();
        let members = stage.everyone();
        stage.play(&[(allreduce(WORLD, 4, 20), members)]);
    }
}

#[test]
fn r1_r4_a_member_that_gives_up_far_ahead_of_the_others_ends_each_collective_for_all() {
    const CALLS: usize = 100;
    for (seed, early) in [(0, 0), (1, 3), (2, 128)] {
        let mut stage = Stage::with(3, 1, 1, seed, Limits { early, ..LIMITS });
        let members = stage.everyone();
        let (ended, done) = ends();
        let reason = |call: usize| 513 + (call / 40) as u16;
        let (mut left, mut patience) = ([CALLS; 3], 100_000);
        // One gives up all of them before anybody else begins the first.
        for rank in [1, 0, 2] {
            while left[rank] > 0 {
                let (call, active) = (CALLS - left[rank], &mut stage.contexts[rank]);
                let done = done(rank * CALLS + call).unwrap();
                let started = if rank == 1 {
                    active.abandon(WORLD, reason(call), done)
                } else {
                    let case = Case { what: Collective::Broadcast, ..allreduce(WORLD, 3, 1 + call % 9) };
                    let (collect, _) = case.collect(active, rank as u32, done).unwrap();
                    active.collect(collect)
                };
                match started {
                    Ok(()) => left[rank] -= 1,
                    Err(error) => assert_eq!(error, CollectError::Full { limit: LIMITS.queued }),
                }
                patience -= 1;
                assert!(patience > 0, "there is never room again");
                stage.some_ticks(20);
            }
        }
        stage.settle("abandoned", || ended.len() == 3 * CALLS);
        for (call, result) in ended.results() {
            // Who begins a broadcast may be done with it before it hears.
            let error = OperationError::Abandoned { rank: 1, reason: reason(call % CALLS) };
            assert!(result == Err(error) || call < CALLS && result == Ok(()), "{call}: {result:?}");
        }
        stage.rest();
        stage.play(&[(allreduce(WORLD, 3, 20), members)]);
    }
}

#[test]
fn d8_a_dead_member_ends_collectives_with_its_node_and_the_rest_goes_on() {
    for seed in 0..12 {
        let mut stage = Stage::new(5, 1, 1, seed);
        let alive = stage.range(1, 4, 1);
        let id = stage.create(1, alive, None);
        let (ended, done) = ends();
        let what = [Collective::Reduce, Collective::Broadcast, Collective::Alltoall][seed as usize % 3];
        let case = Case { what, len: 200, ..allreduce(WORLD, 5, 0) };
        // The dying one has begun, or not.
        for rank in (seed as u32 % 2)..5 {
            let active = &mut stage.contexts[rank as usize];
            let (collect, _) = case.collect(active, rank, done(rank as usize).unwrap()).unwrap();
            active.collect(collect).unwrap();
        }
        for _ in 0..stage.random.below(100) {
            stage.tick();
        }
        stage.world.kill(0);
        let before = ended.len();
        // Rank 0 hangs with its node; those that were done before stay done.
        stage.settle("deaths", || (1..5).all(|rank| ended.list().iter().any(|end| end.0 == rank)));
        for (place, end) in ended.list().iter().enumerate() {
            assert!(place < before || end.2 == Err(OperationError::NodeDead(0)), "{end:?}");
        }
        for context in &mut stage.contexts[1..] {
            let barrier = Collect::new(WORLD, Collective::Barrier, done(9).unwrap());
            assert_eq!(context.collect(barrier), Err(CollectError::Dead(0)));
            assert_eq!(context.geometry(WORLD).unwrap().dead, Some(0));
        }
        stage.play(&[(allreduce(id, 4, 150), alive)]);
    }
}

#[test]
fn d9_packets_that_make_no_sense_are_counted_and_change_nothing() {
    use crate::machine::Packet;
    use pami::packet::{Envelope, Kind};
    let mut stage = Stage::new(3, 1, 1, 10);
    let (origin, target) = (stage.contexts[1].endpoint(), stage.contexts[0].endpoint());
    let mut envelope =
        Envelope { kind: Kind::Collective, dispatch: 0, origin, target, message: 0, offset: 0, total: 0 };
    let (_, done) = ends();
    stage.contexts[0].collect(Collect::new(WORLD, Collective::Barrier, done(0).unwrap())).unwrap();
    stage.contexts[0].advance();
    let header = [0u8; 20];
    // No header, no such word, data and clears that nobody waits for, a length that lies, a reason that is none.
    let mut forged = vec![(0, 0, vec![0; 19], vec![]), (9, 0, header.to_vec(), vec![])];
    forged.extend([2, 3].map(|word| (word, 4, header.to_vec(), vec![1; 4])));
    forged.push((0, 4, header.to_vec(), vec![1; 5]));
    forged.push((4, 0, [[0u8; 12].as_slice(), &[77; 8]].concat(), vec![]));
    let count = forged.len() as u64;
    for (word, total, header, data) in forged {
        (envelope.dispatch, envelope.total) = (word, total);
        stage.world.forge(Packet::new(envelope, &header, &data));
        stage.contexts[0].advance();
    }
    assert_eq!(stage.contexts[0].counters().protocol_errors, count);
    let (ended, done) = ends();
    for rank in 1..3 {
        let barrier = Collect::new(WORLD, Collective::Barrier, done(rank).unwrap());
        stage.contexts[rank].collect(barrier).unwrap();
    }
    stage.settle("the barrier", || ended.len() == 2);
    assert!(ended.are_good());
}
