//! Collectives at run time: every algorithm gives what a plain loop gives, whatever the order of things (SPEC G-3).

use crate::stage::{Case, LIMITS, Play, Port, Stage, domains, leak};
use pami::collective::{Algorithm, Blocks, Collective, Need, SelectionError};
use pami::geometry::{Members, Rectangle};
use pami::mapping::{MapOrder, TaskMap};
use pami::topology::TorusShape;
use pami::{Active, Collect, CollectError, Completion, Done, GeometryId, Limits, WORLD};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

pub const COLLECTIVES: [Collective; 11] = [
    Collective::Barrier,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::ReduceScatter,
    Collective::Gather,
    Collective::Scatter,
    Collective::Allgather,
    Collective::Alltoall,
    Collective::Scan,
    Collective::Exscan,
];

/// The algorithms of a collective that are valid in a geometry.
fn valid(stage: &Stage, context: usize, geometry: GeometryId, what: Collective, root: u32) -> Vec<Algorithm> {
    let told = stage.told;
    let mut collect = Collect { root, ..Collect::new(geometry, what, told.done(0).unwrap()) };
    if what.reduces() {
        use pami::collective::{Element, Operator, Reducer};
        collect.reducer = Some(Reducer::new(Operator::Sum, Element::U64).unwrap());
    }
    let query = stage.contexts[context].query(&collect).unwrap();
    query.candidates().filter(|it| it.valid.is_ok()).map(|it| it.entry.algorithm).collect()
}

/// Every valid algorithm of every collective, from some roots.
pub fn all_algorithms(
    stage: &mut Stage,
    geometry: GeometryId,
    members: Members<'static>,
    lens: &[usize],
) -> usize {
    let size = members.size();
    let first = stage.member(&members, 0);
    let mut runs = 0;
    for what in COLLECTIVES {
        let mut roots = if what.is_rooted() { vec![0, size / 2, size - 1] } else { vec![0] };
        roots.dedup();
        for root in roots {
            for algorithm in valid(stage, first, geometry, what, root) {
                for &len in lens {
                    for in_place in [false, true] {
                        let salt = runs as u64;
                        let algorithm = Some(algorithm);
                        let case = Case {
                            geometry,
                            what,
                            algorithm,
                            size,
                            root,
                            len,
                            in_place,
                            salt,
                            ..Case::default()
                        };
                        Play::new(stage, vec![(case, members)]).run(stage);
                        runs += 1;
                    }
                }
            }
        }
    }
    runs
}

#[test]
fn g3_every_algorithm_of_every_collective_gives_what_a_plain_loop_gives() {
    for size in [1, 2, 3, 5, 8] {
        let mut stage = Stage::new(size, 1, 1, u64::from(size));
        let members = stage.everyone();
        let runs = all_algorithms(&mut stage, WORLD, members, &[0, 1, 7, 130]);
        // 32 algorithms need neither tree network, torus nor domains.
        assert!(runs >= 32 * 4 * 2, "{runs} runs");
    }
}

#[test]
fn g3_long_vectors_go_in_many_packets() {
    let mut stage = Stage::new(4, 1, 1, 1);
    let members = stage.everyone();
    all_algorithms(&mut stage, WORLD, members, &[2500]);
}

#[test]
fn g3_rectangles_and_affinity_domains_have_their_own_algorithms() {
    let mut stage = Stage::new(8, 2, 1, 2);
    let shape: TorusShape = "2x2".parse().unwrap();
    let map = TaskMap::new(4, 2, MapOrder::TasksFirst).unwrap();
    let rectangle = Rectangle::new(shape, map, shape.coord(0).unwrap(), [2, 2, 1, 1, 1]).unwrap();
    let members = Members::rectangle(stage.population(), 0..1, rectangle).unwrap();
    let id = stage.create(7, members, Some(domains(4, 2)));
    for what in [Collective::Barrier, Collective::Broadcast, Collective::Allreduce] {
        assert!(valid(&stage, 0, id, what, 0).contains(&Algorithm::Affinity));
    }
    assert!(valid(&stage, 0, id, Collective::Broadcast, 0).contains(&Algorithm::Rectangle));
    all_algorithms(&mut stage, id, members, &[1, 130]);
}

#[test]
fn g1_several_endpoints_of_a_task_take_part_each_on_its_context() {
    let mut stage = Stage::new(3, 1, 3, 3);
    let members = Members::range(stage.population(), 1..3, 0, 3, 1).unwrap();
    let id = stage.create(1, members, None);
    assert_eq!(members.size(), 6);
    all_algorithms(&mut stage, id, members, &[1, 130]);
}

#[test]
fn g3_what_finds_no_room_goes_on_later() {
    let mut stage = Stage::new(5, 1, 1, 4);
    stage.world.lock().moody = 99;
    let members = stage.everyone();
    all_algorithms(&mut stage, WORLD, members, &[3, 200]);
}

#[test]
fn g3_q4_the_first_packet_of_a_collective_leaves_in_the_call() {
    for per_node in [1, 4] {
        let mut stage = Stage::new(4, per_node, 1, 5);
        let algorithm = Some(Algorithm::RecursiveDoubling);
        let case = Case { what: Collective::Allreduce, algorithm, size: 4, len: 1, ..Case::default() };
        // The second one is known to the geometry, the third one finds its steps in its slot, and from the fourth one on the
        // first round goes without a look at them.
        for time in 0..5 {
            let outputs = [0, 1, 2, 3].map(|rank| {
                let before = stage.world.lock().carried;
                let output = stage.start(rank, case, rank as usize);
                assert_eq!(stage.world.lock().carried - before, 8, "rank {rank}, time {time}");
                output
            });
            assert_eq!(stage.results(), [], "nobody is called back in a call");
            stage.until(4);
            assert!(stage.results().iter().all(|(_, result)| result.is_ok()));
            (0..4).zip(&outputs).for_each(|(rank, output)| case.check(rank, output.as_ref()));
        }
    }
}

/// Collectives of random kinds on overlapping geometries, all in flight together.
fn many_at_once(seed: u64, limits: Limits, count: usize) {
    let mut stage = Stage::with(6, 2, 1, seed, limits);
    let members =
        [stage.range(0, 6, 1), stage.range(0, 3, 2), stage.range(2, 4, 1), stage.listed(&[4, 0, 3])];
    for (members, id) in members.iter().zip(0..) {
        if id > 0 {
            stage.create(id, *members, None);
        }
    }
    let cases = (0..count).map(|number| {
        let which = stage.random.below(members.len());
        let size = members[which].size();
        let case = Case {
            geometry: GeometryId(which as u32),
            what: COLLECTIVES[stage.random.below(COLLECTIVES.len())],
            size,
            root: stage.random.below(size as usize) as u32,
            len: [0, 1, 5, 60, 61, 300][stage.random.below(6)],
            in_place: stage.random.below(2) == 0,
            salt: number as u64,
            ..Case::default()
        };
        // Members must agree in the root even where it means nothing.
        let root = if case.what.is_rooted() { case.root } else { 0 };
        (Case { root, ..case }, members[which])
    });
    let cases: Vec<_> = cases.collect();
    stage.play(&cases);
}

#[test]
fn g3_a_hundred_collectives_on_four_overlapping_geometries_in_any_order_of_arrival() {
    for seed in 0..12 {
        many_at_once(seed, Limits { in_flight: 128, early: 512, ..LIMITS }, 100);
    }
}

#[test]
fn g3_a_member_may_be_far_behind_the_others() {
    // The root is done with each at once; the last task starts none before all the others have started all they can.
    let mut stage = Stage::with(4, 1, 1, 5, Limits { early: 24, in_flight: 8, ..LIMITS });
    let members = stage.everyone();
    let told = stage.told;
    let count = 60;
    let case = |number: usize| Case {
        geometry: WORLD,
        what: [Collective::Broadcast, Collective::Gather][number % 2],
        size: 4,
        root: 0,
        len: 3,
        salt: number as u64,
        ..Case::default()
    };
    let mut started = [0; 4];
    let mut patience = 0;
    while started.iter().any(|&started| started < count) {
        let rank = stage.random.below(4);
        patience += 1;
        if started[rank] < count && (rank < 3 || patience > 5000) {
            let active = &mut stage.contexts[rank];
            let done = told.done(rank).unwrap();
            let (collect, _) = case(started[rank]).collect(active, rank as u32, done).unwrap();
            started[rank] += usize::from(active.collect(collect).is_ok());
        }
        stage.tick();
        // Nobody gets away from the one that has not begun.
        assert!(patience > 5000 || started.iter().all(|&started| started < 30), "{started:?}");
    }
    stage.until(4 * count);
    stage.all_good();
    let _ = members;
}

#[test]
fn g3_what_all_wrote_before_a_barrier_all_read_after_it() {
    let mut stage = Stage::on_tree(8, 2, 1, 4, Limits { domains: Some(domains(4, 2)), ..LIMITS });
    let barriers = [Algorithm::Dissemination, Algorithm::Nary, Algorithm::Affinity, Algorithm::TreeNetwork];
    for (algorithm, late) in barriers.into_iter().map(Some).chain([None]).zip([7, 0, 3, 5, 4]) {
        let board: &Board = leak(Board::default());
        let call = leak(move |_: &mut Active<Port>, completion: Completion| {
            assert_eq!(completion.result, Ok(()));
            board.read.lock().unwrap().push(board.written.lock().unwrap().len());
        });
        let barrier = Case { what: Collective::Barrier, algorithm, size: 8, ..Case::default() };
        let mut others: Vec<u32> = (0..8).filter(|&rank| rank != late).collect();
        while let Some(count) = others.len().checked_sub(1) {
            let rank = others.swap_remove(stage.random.below(count + 1));
            board.written.lock().unwrap().push(rank);
            let collect = barrier.call([None, None], Done { call, cookie: 0 });
            stage.contexts[rank as usize].collect(collect).unwrap();
            (0..20).for_each(|_| stage.tick());
        }
        stage.rest();
        board.written.lock().unwrap().push(late);
        let collect = barrier.call([None, None], Done { call, cookie: 0 });
        stage.contexts[late as usize].collect(collect).unwrap();
        stage.settle("the barrier", || board.read.lock().unwrap().len() == 8);
        assert_eq!(*board.read.lock().unwrap(), [8; 8], "{algorithm:?}: marks that each has read");
    }
}

/// What ranks have written, and how many marks each has found.
#[derive(Default)]
struct Board {
    written: Mutex<Vec<u32>>,
    read: Mutex<Vec<usize>>,
}

/// The collectives that take scratch memory and can do with little of it.
const IN_RUNS: [Collective; 6] = [
    Collective::Reduce,
    Collective::Allreduce,
    Collective::ReduceScatter,
    Collective::Scan,
    Collective::Exscan,
    Collective::Alltoall,
];

/// Every algorithm that is valid with so much scratch memory, and the one that is chosen, with 5000 bytes or so.
fn with_little_scratch(size: u32, limit: usize) -> usize {
    let mut stage = Stage::new(size, 1, 1, u64::from(size) + limit as u64);
    let members = stage.everyone();
    let mut runs = 0;
    for what in IN_RUNS {
        for in_place in [false, true] {
            let case = Case {
                geometry: WORLD,
                what,
                size,
                root: if what.is_rooted() { size - 1 } else { 0 },
                len: if what.is_of_vectors() { 600 } else { 130 },
                in_place,
                salt: runs as u64,
                scratch_limit: limit,
                ..Case::default()
            };
            let told = stage.told;
            let collect = case.call(case.memory(0), told.done(0).unwrap());
            let query = stage.contexts[0].query(&collect).unwrap();
            let valid = query.candidates().filter(|it| it.valid.is_ok());
            let algorithms: Vec<_> = valid.map(|it| Some(it.entry.algorithm)).chain([None]).collect();
            assert!(algorithms.len() > 1, "{what:?} in {limit} bytes");
            for algorithm in algorithms {
                stage.play(&[(Case { algorithm, ..case }, members)]);
                runs += 1;
            }
        }
    }
    runs
}

#[test]
fn r4_reductions_of_any_size_go_with_the_scratch_memory_that_all_ranks_have() {
    for size in [1, 2, 3, 8] {
        for limit in [8 * size as usize, 100, 2000] {
            let runs = with_little_scratch(size, limit.max(16));
            assert!(runs > 2 * IN_RUNS.len(), "{runs} runs");
        }
    }
}

/// Where blocks arrive elsewhere than they leave from, a run in place would overwrite what the next one is to send.
#[test]
fn r4_an_alltoall_in_place_whose_blocks_move_goes_whole_or_not_at_all() {
    let blocks = |end: usize| {
        let bounds: &[AtomicUsize] = Box::leak(Box::new([0, 64, end].map(AtomicUsize::new)));
        Blocks::pooled(bounds).unwrap()
    };
    let stage = Stage::new(2, 1, 1, 1);
    let needs = |known_blocks, sources| {
        let told = stage.told;
        let collect = Collect {
            in_place: true,
            known_blocks,
            blocks: blocks(128),
            sources,
            scratch_limit: 64,
            ..Collect::new(WORLD, Collective::Alltoall, told.done(0).unwrap())
        };
        stage.contexts[0].scratch_len(&collect)
    };
    let unmet = SelectionError::Unmet(Algorithm::Pairwise, Need::Scratch);
    assert_eq!(needs(true, blocks(96)), Err(CollectError::Selection(unmet)));
    // Who does not know all blocks cannot know that others lack the memory either.
    assert_eq!(needs(false, blocks(96)), Ok(128));
    for known in [false, true] {
        assert_eq!(needs(known, blocks(128)), Ok(64), "in runs");
    }
}
