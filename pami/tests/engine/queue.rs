//! Collectives that find no room when they are called (SPEC ).

use crate::stage::{Case, LIMITS, Port, Stage, ends, leak, shared};
use crate::stray_collectives::{ABORT, forge};
use pami::collective::{Algorithm, Area, Collective, Form};
use pami::{
    Active, Announcement, ClientError, Collect, CollectError, Completion, Done, GeometryError, GeometryId,
    Limits, OnAnnounced, OperationError, Shared, WORLD,
};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One in flight besides what is kept for each of so many geometries; so many wait.
fn tight(geometries: usize, queued: usize) -> Limits {
    Limits { geometries, in_flight: 1, always: geometries - 1, queued, ..LIMITS }
}

/// Calls what a rank brings; what it gets.
fn call(stage: &mut Stage, rank: u32, case: Case, done: Option<Done<Port>>) -> Option<Shared> {
    let active = &mut stage.contexts[rank as usize];
    let (collect, output) = case.collect(active, rank, done.unwrap()).unwrap();
    assert_eq!(active.collect(collect), Ok(()), "rank {rank}, {case:?}");
    output
}

fn barrier(done: Option<Done<Port>>) -> Collect<Port> {
    Collect::new(WORLD, Collective::Barrier, done.unwrap())
}

/// Calls barriers of the world at a member until so many wait.
fn fill(stage: &mut Stage, rank: usize, queued: usize, done: impl Fn(usize) -> Option<Done<Port>>) -> usize {
    let calls = (0..60).take_while(|&at| stage.contexts[rank].collect(barrier(done(at))).is_ok()).count();
    assert!((queued + 1..60).contains(&calls), "{calls} calls");
    calls
}

#[test]
fn r1_q2_more_collectives_than_places_called_in_different_orders_all_end() {
    const WHAT: [Collective; 5] = [
        Collective::Allreduce,
        Collective::Broadcast,
        Collective::Alltoall,
        Collective::Barrier,
        Collective::Gather,
    ];
    for seed in 0..12 {
        let (size, each) = (4, 5 + seed as usize % 7);
        let number = 1 + seed as u32 % 6;
        let geometries = 1 + number as usize;
        let mut stage = Stage::with(size, 1 + seed as u32 % 2, 1, seed, tight(geometries, geometries * each));
        let members = stage.everyone();
        (1..=number).for_each(|id| _ = stage.create(id, members, None));
        let (ended, done) = ends();
        let mut outputs = Vec::new();
        // All is called before anything moves, at each member in an order of its own but within geometries.
        for rank in 0..size {
            let mut left = vec![0; geometries];
            while left.iter().any(|&called| called < each) {
                let id = stage.random.below(geometries);
                if left[id] == each {
                    continue;
                }
                let salt = (id * each + left[id]) as u64;
                let what = WHAT[salt as usize % WHAT.len()];
                let root = salt as u32 % size;
                let geometry = GeometryId(id as u32);
                let case = Case { geometry, what, size, root, len: 9, salt, ..Case::default() };
                let cookie = (salt as usize) * size as usize + rank as usize;
                outputs.push((case, rank, call(&mut stage, rank, case, done(cookie))));
                left[id] += 1;
            }
        }
        let total = geometries * each * size as usize;
        stage.settle("all", || ended.len() == total);
        let results = ended.results();
        assert!(results.iter().all(|end| end.1.is_ok()), "{results:?}");
        assert!(results.windows(2).all(|two| two[0].0 < two[1].0), "a callback was called twice");
        outputs.iter().for_each(|(case, rank, output)| case.check(*rank, output.as_ref()));
    }
}

#[test]
fn r1_q2_what_a_geometry_has_not_taken_of_its_places_is_not_taken_by_others() {
    let mut stage = Stage::with(2, 1, 1, 4, tight(3, 8));
    let id = stage.create(1, stage.everyone(), None);
    let told = stage.told;
    let mut cookies = 0..;
    let mut call = |stage: &mut Stage, rank: usize, geometry, what| {
        let done = told.done(cookies.next().unwrap());
        stage.collect(rank, Collect { geometry, ..Collect::new(WORLD, what, done.unwrap()) });
    };
    let both = |stage: &mut Stage| {
        stage.until(2);
        stage.all_good();
    };
    for _ in 0..6 {
        (0..2).for_each(|rank| call(&mut stage, rank, WORLD, Collective::Barrier));
        both(&mut stage);
    }
    // One place of the world's two is taken, and the other geometry goes on until it finds no more.
    call(&mut stage, 0, WORLD, Collective::Barrier);
    (0..4).for_each(|_| call(&mut stage, 0, id, Collective::Barrier));
    call(&mut stage, 1, WORLD, Collective::Barrier);
    both(&mut stage);
    // The next one of the world takes both, as a barrier goes in front. The other member waits for it first.
    (0..2).for_each(|rank| call(&mut stage, rank, WORLD, Collective::Broadcast));
    both(&mut stage);
    (0..4).for_each(|_| call(&mut stage, 1, id, Collective::Barrier));
    stage.until(8);
    stage.all_good();
}

#[test]
fn r1_q2_what_callbacks_call_goes_behind_what_waits() {
    const CALLS: usize = 40;
    const AT_ONCE: usize = 5;
    let mut stage = Stage::with(2, 1, 1, 3, tight(1, AT_ONCE - 1));
    let order: &'static std::sync::Mutex<[Vec<usize>; 2]> = leak(Default::default());
    let next: &'static [AtomicUsize; 2] = leak([AtomicUsize::new(AT_ONCE), AtomicUsize::new(AT_ONCE)]);
    // Whoever ends starts another one; all are of lengths of their own, so one that overtook would differ.
    type Ended = dyn Fn(&mut Active<Port>, Completion) + Sync;
    let ended: &'static std::sync::OnceLock<&'static Ended> = leak(std::sync::OnceLock::new());
    let one = |number: usize, done| Collect {
        output: Some((shared(&[0; CALLS]), 0)),
        in_place: true,
        blocks: pami::collective::Blocks::equal(number + 1),
        ..Collect::new(WORLD, Collective::Broadcast, done)
    };
    let call = leak(move |active: &mut Active<Port>, completion: Completion| {
        let rank = active.endpoint().task() as usize;
        assert_eq!(completion.result, Ok(()));
        order.lock().unwrap()[rank].push(completion.cookie);
        let number = next[rank].fetch_add(1, Relaxed);
        if number < CALLS {
            let done = Done { call: *ended.get().unwrap(), cookie: number };
            assert_eq!(active.collect(one(number, done)), Ok(()));
        }
    });
    assert!(ended.set(call).is_ok());
    for rank in 0..2 {
        // One more than can wait: that many may be under way always.
        for number in 0..AT_ONCE {
            let done = Done { call: *ended.get().unwrap(), cookie: number };
            assert_eq!(stage.contexts[rank].collect(one(number, done)), Ok(()));
        }
    }
    stage.settle("all", || order.lock().unwrap().iter().all(|ended| ended.len() == CALLS));
    let order = order.lock().unwrap();
    assert!(order.iter().all(|ended| ended.iter().copied().eq(0..CALLS)), "{order:?}");
}

#[test]
fn r1_q2_a_full_queue_is_an_error_that_names_it_and_has_room_again() {
    for queued in [0, 1, 5] {
        let mut stage = Stage::with(2, 1, 1, 1, tight(1, queued));
        let (ended, done) = ends();
        let calls = fill(&mut stage, 0, queued, done);
        let full = CollectError::Full { limit: queued };
        assert_eq!(stage.contexts[0].collect(barrier(done(0))), Err(full));
        assert_eq!(stage.contexts[0].abandon(WORLD, 1, done(0).unwrap()), Err(full));
        let text = full.to_string();
        assert!(text.contains("Limits::queued") && text.contains(&queued.to_string()), "{text}");
        // What is wrong is said, whether there is room or not.
        let wrong = Collect { root: 2, ..barrier(done(0)) };
        let wrong = Collect { what: Collective::Broadcast, ..wrong };
        assert!(matches!(stage.contexts[0].collect(wrong), Err(CollectError::Call(_))));
        for call in 0..calls {
            assert_eq!(stage.contexts[1].collect(barrier(done(100 + call))), Ok(()));
            stage.settle("one more", || ended.list().iter().filter(|end| end.0 >= 100).count() > call);
        }
        stage.settle("all", || ended.len() == 2 * calls);
        assert_eq!(stage.contexts[0].collect(barrier(done(0))), Ok(()));
    }
}

#[test]
fn g3_q2_one_that_has_to_wait_and_is_wrong_is_refused_when_it_is_called() {
    let mut stage = Stage::with(2, 1, 1, 1, tight(1, 8));
    let (_, done) = ends();
    (0..4).for_each(|at| stage.contexts[0].collect(barrier(done(at))).unwrap());
    let started = stage.contexts[0].geometry(WORLD).unwrap().started;
    assert!(started < 4, "some wait");
    let case = Case { what: Collective::Broadcast, size: 2, len: 3, ..Case::default() };
    let short = Collect { output: Some((shared(&[0; 2]), 0)), ..case.call(case.memory(0), done(9).unwrap()) };
    let refused = CollectError::TooSmall { area: Area::Output, bytes: 24 };
    assert_eq!(stage.contexts[0].collect(short), Err(refused));
    assert_eq!(stage.contexts[0].geometry(WORLD).unwrap().started, started);
}

#[test]
fn r2_q2_the_death_of_a_node_ends_what_waits_with_its_name_once() {
    for seed in 0..8 {
        let mut stage = Stage::with(4, 1, 1, seed, tight(2, 12));
        let alive = stage.range(1, 3, 1);
        let id = stage.create(1, alive, None);
        let (ended, done) = ends();
        for rank in 1..4usize {
            for call in 0..6 {
                stage.contexts[rank].collect(barrier(done(100 * rank + call))).unwrap();
            }
            // Those of a geometry without it go on; at the last member they are called after the death.
            for call in 6..10 {
                let of_others = Collect { geometry: id, ..barrier(done(100 * rank + call)) };
                stage.contexts[rank].collect(of_others).unwrap();
            }
            if rank == 2 {
                (0..stage.random.below(200)).for_each(|_| stage.tick());
                stage.world.kill(0);
            }
        }
        stage.settle("all", || ended.len() == 30);
        stage.rest();
        let results = ended.results();
        assert!(results.windows(2).all(|two| two[0].0 < two[1].0), "a callback was called twice");
        for (cookie, result) in results {
            let dead = Err(OperationError::NodeDead(0));
            assert_eq!(result, if cookie % 100 < 6 { dead } else { Ok(()) }, "{cookie} of {seed}");
        }
    }
}

#[test]
fn r2_q2_the_death_of_a_node_ends_what_waits_for_others_room() {
    let limits = Limits { geometries: 3, in_flight: 2, always: 0, queued: 4, ..LIMITS };
    let mut stage = Stage::with(3, 1, 1, 5, limits);
    let pair = |first| stage.range(first, 2, 1);
    let (alive, dies) = (pair(1), pair(0));
    let (alive, dies) = (stage.create(1, alive, None), stage.create(2, dies, None));
    let (ended, done) = ends();
    // Nobody else begins these, and they take all places.
    for at in 0..3 {
        stage.contexts[1].collect(Collect { geometry: alive, ..barrier(done(at)) }).unwrap();
    }
    stage.contexts[1].collect(Collect { geometry: dies, ..barrier(done(3)) }).unwrap();
    assert_eq!(stage.contexts[1].geometry(dies).unwrap().started, 1, "the creation");
    stage.rest();
    assert_eq!(ended.len(), 0);
    assert_eq!(stage.contexts[1].destroy_geometry(dies), Err(GeometryError::Busy(dies)));
    stage.world.kill(0);
    stage.settle("the death", || ended.len() == 1);
    assert_eq!(ended.results(), [(3, Err(OperationError::NodeDead(0)))]);
    for at in 0..3 {
        stage.contexts[2].collect(Collect { geometry: alive, ..barrier(done(10 + at)) }).unwrap();
    }
    stage.settle("the others", || ended.len() == 7);
}

#[test]
fn r2_q2_what_waits_for_others_room_ends_when_a_member_tells_of_a_death() {
    let limits = Limits { geometries: 3, in_flight: 2, always: 0, queued: 4, ..LIMITS };
    let mut stage = Stage::with(3, 1, 1, 6, limits);
    let pair = |second| stage.range(0, 2, second);
    let (alive, dies) = (pair(1), pair(2));
    let (alive, dies) = (stage.create(1, alive, None), stage.create(2, dies, None));
    let (ended, done) = ends();
    for at in 0..3 {
        stage.contexts[0].collect(Collect { geometry: alive, ..barrier(done(at)) }).unwrap();
    }
    stage.contexts[0].collect(Collect { geometry: dies, ..barrier(done(3)) }).unwrap();
    stage.rest();
    // Of a collective that is not begun here, from one who knows more.
    let member = stage.contexts[2].endpoint();
    forge(&mut stage, member, ABORT, [dies.0, 1, 0, 0, 2], &[]);
    stage.settle("the death", || ended.len() == 1);
    assert_eq!(ended.results(), [(3, Err(OperationError::NodeDead(2)))]);
}

#[test]
fn r4_q2_what_waits_behind_a_collective_that_fails_goes_on() {
    for seed in 0..8 {
        let mut stage = Stage::with(3, 1, 1, seed, tight(1, 16));
        let (ended, done) = ends();
        let sum = |len| Case { what: Collective::Allreduce, size: 3, len, ..Case::default() };
        for rank in [2, 0, 1] {
            for at in 0..12 {
                let cookie = done(100 * rank as usize + at);
                match (at, rank) {
                    // In its turn, behind what waits.
                    (3, 1) => stage.contexts[1].abandon(WORLD, 9, cookie.unwrap()).unwrap(),
                    (6, 2) => _ = call(&mut stage, rank, sum(4), cookie),
                    _ => _ = call(&mut stage, rank, sum(3), cookie),
                }
            }
            (0..stage.random.below(30)).for_each(|_| stage.tick());
        }
        stage.settle("all", || ended.len() == 36);
        let results = ended.results();
        assert!(results.windows(2).all(|two| two[0].0 < two[1].0), "a callback was called twice");
        for (cookie, result) in results {
            match cookie % 100 {
                3 => assert_eq!(result, Err(OperationError::Abandoned { rank: 1, reason: 9 }), "{cookie}"),
                6 => assert!(matches!(result, Err(OperationError::Mismatch(_))), "{cookie}: {result:?}"),
                _ => assert_eq!(result, Ok(()), "{cookie}"),
            }
        }
    }
}

#[test]
fn g1_q2_neither_geometry_nor_context_of_what_waits_is_destroyed() {
    let mut stage = Stage::with(2, 1, 1, 2, tight(2, 8));
    let members = stage.everyone();
    let id = stage.create(1, members, None);
    let (ended, done) = ends();
    for at in 0..6 {
        stage.contexts[0].collect(Collect { geometry: id, ..barrier(done(at)) }).unwrap();
    }
    assert!(stage.contexts[0].geometry(id).unwrap().started < 7, "the creation, and some wait");
    for at in 0..6 {
        assert_eq!(stage.contexts[0].destroy_geometry(id), Err(GeometryError::Busy(id)));
        assert_eq!(stage.destroy(0), Err(ClientError::SendsUnderWay));
        stage.contexts[1].collect(Collect { geometry: id, ..barrier(done(100 + at)) }).unwrap();
        let here = || ended.list().iter().filter(|end| end.0 < 100).count();
        stage.settle("one", || here() == at + 1);
    }
    stage.settle("all", || ended.len() == 12);
    assert!(ended.are_good());
    assert_eq!(stage.contexts[0].destroy_geometry(id), Ok(()));
}

#[test]
fn g6_q2_who_is_called_back_and_finds_no_room_is_not_called_again() {
    let mut stage = Stage::with(2, 1, 1, 4, tight(1, 8));
    let (ended, done) = ends();
    let own = done(50).unwrap();
    let calls: &'static AtomicUsize = leak(0.into());
    let answer = leak(move |active: &mut Active<Port>, announcement: Announcement, _: usize| {
        calls.fetch_add(1, Relaxed);
        let output = Some((shared(&[0; 3]), 0));
        active.collect(Collect { output, ..announcement.collect(own) }).unwrap();
    });
    stage.contexts[1].on_announced(Some(OnAnnounced { call: answer, cookie: 0 }));
    let case = Case {
        what: Collective::Broadcast,
        algorithm: Some(Algorithm::Flat),
        in_place: true,
        size: 2,
        len: 3,
        ..Case::default()
    };
    (0..6).for_each(|at| stage.contexts[1].collect(barrier(done(at))).unwrap());
    let announced = case.call(case.memory(0), done(51).unwrap());
    stage.contexts[0].collect(Collect { form: Form::RootOnly, number: 7, ..announced }).unwrap();
    stage.rest();
    assert_eq!((calls.load(Relaxed), ended.list().iter().any(|end| end.0 == 50)), (1, false));
    (0..6).for_each(|at| stage.contexts[0].collect(barrier(done(10 + at))).unwrap());
    stage.settle("all", || ended.len() == 14);
    assert!(ended.are_good());
    assert_eq!(calls.load(Relaxed), 1);
}

#[test]
fn r4_q2_what_waits_and_loses_its_class_route_ends_at_all_as_what_was_given_up() {
    for seed in 0..6 {
        let limits = Limits { geometries: 2, in_flight: 2, always: 0, queued: 8, ..LIMITS };
        let mut stage = Stage::on_tree(3, 1, 1, seed, limits);
        let pair = stage.range(1, 2, 1);
        let geometry = stage.create(1, pair, None);
        let (ended, done) = ends();
        let sum = |algorithm| Case {
            what: Collective::Allreduce,
            algorithm: Some(algorithm),
            size: 3,
            len: 5,
            ..Case::default()
        };
        let together = |stage: &mut Stage, rank: usize| {
            for at in 10..12 {
                let of_pair = Collect { geometry, ..barrier(done(100 * rank + at)) };
                stage.contexts[rank].collect(of_pair).unwrap();
            }
        };
        // So here the third one waits, and there it is in flight.
        together(&mut stage, 1);
        for rank in 0..3 {
            let cookie = |at: usize| done(100 * rank as usize + at);
            stage.contexts[rank as usize].collect(barrier(cookie(0))).unwrap();
            if rank == 1 {
                stage.contexts[1].abandon(WORLD, 7, cookie(1).unwrap()).unwrap();
            } else {
                call(&mut stage, rank, sum(Algorithm::Ring), cookie(1));
            }
            call(&mut stage, rank, sum(Algorithm::TreeNetwork), cookie(2));
            call(&mut stage, rank, sum(Algorithm::Ring), cookie(3));
        }
        stage.settle("the world's", || ended.len() == 12);
        together(&mut stage, 2);
        stage.settle("the pair's", || ended.len() == 16);
        let results = ended.results();
        assert!(results.windows(2).all(|two| two[0].0 < two[1].0), "a callback was called twice");
        for (cookie, result) in results {
            let given_up = Err(OperationError::Abandoned { rank: 1, reason: 7 });
            let ends = matches!(cookie % 100, 1 | 2);
            assert_eq!(result, if ends { given_up } else { Ok(()) }, "{cookie} of {seed}");
        }
    }
}

#[test]
fn g3_q2_one_that_needs_less_room_than_what_waits_in_front_of_it_does_not_overtake_it() {
    // Of eight broadcasts one goes behind a barrier, and so takes two places; whichever of those here it is.
    for before in 0..8 {
        let limits = Limits { geometries: 1, in_flight: 2, ..LIMITS };
        let mut stage = Stage::with(2, 1, 1, before, limits);
        let members = stage.everyone();
        let broadcast = Case { what: Collective::Broadcast, size: 2, root: 1, len: 3, ..Case::default() };
        (0..before).for_each(|_| stage.play(&[(broadcast, members)]));
        let (ended, done) = ends();
        // The root is done with each at once, the other one has no room for the fourth.
        for at in 0..4 {
            call(&mut stage, 0, broadcast, done(at));
        }
        assert_eq!(stage.contexts[0].collect(barrier(done(4))), Ok(()));
        for at in 5..9 {
            call(&mut stage, 1, broadcast, done(at));
            stage.rest();
        }
        assert_eq!(stage.contexts[1].collect(barrier(done(9))), Ok(()));
        stage.settle("all", || ended.len() == 10);
        assert!(ended.are_good(), "{before} before: {:?}", ended.list());
    }
}
