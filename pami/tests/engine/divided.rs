//! Endpoints of a task share the work of a collective (SPEC G-4 to G-6).

use crate::stage::{Case, LIMITS, POISON, Port, Stage, Told, ends, leak, with_scratch, words};
use pami::collective::{Algorithm, Collective, Form};
use pami::endpoint::ContextOffset;
use pami::geometry::Members;
use pami::{
    Active, Announcement, Collect, CollectError, Done, Endpoint, GeometryId, Limits, OnAnnounced, Shared,
    WORLD,
};
use std::sync::Mutex;

pub const DIVIDED: [Collective; 6] = [
    Collective::Broadcast,
    Collective::Scatter,
    Collective::Gather,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::Allgather,
];

pub fn stage(tasks: u32, per_task: u8, seed: u64) -> Stage {
    Stage::with(tasks, 1, per_task, seed, Limits { in_flight: 48, early: 256, ..LIMITS })
}

/// A geometry with so many endpoints of each task.
pub fn members(stage: &Stage, counts: &[u8]) -> Members<'static> {
    let own = stage.contexts[0].endpoint();
    let tasks = counts.iter().zip(0..);
    let list: Vec<Endpoint> = tasks
        .flat_map(|(&count, task)| {
            (0..count).map(move |context| Endpoint::from_parts(own.client(), task, ContextOffset(context)))
        })
        .collect();
    let index = vec![0; 2 * list.len()].leak();
    Members::endpoints(stage.population(), list.leak(), index).unwrap()
}

/// The root of this geometry is task 0, which has endpoints on the nodes of tasks 1 and 2 too.
pub fn with_neighbours(stage: &Stage) -> Members<'static> {
    let own = stage.contexts[0].endpoint();
    let at = |task, context| Endpoint::from_parts(own.client(), task, ContextOffset(context));
    let list = vec![at(0, 0), at(1, 1), at(2, 1), at(1, 0), at(2, 0), at(3, 0), at(4, 0)].leak();
    let index = vec![0; list.len()].leak();
    Members::grouped(stage.population(), list, vec![0, 3, 4, 5, 6].leak(), index).unwrap()
}

/// The memory of each task, which its endpoints share.
pub fn memories(case: &Case, members: &Members) -> Vec<[Option<Shared>; 2]> {
    (0..members.task_count()).map(|task| case.memory(task)).collect()
}

/// An endpoint's call. Endpoints on other nodes than their task have no access to its memory.
pub fn call(
    stage: &Stage,
    members: &Members,
    case: &Case,
    memories: &[[Option<Shared>; 2]],
    rank: u32,
    done: Done<Port>,
) -> Collect<Port> {
    let task = members.task_of(rank).unwrap();
    let at_home = members.endpoint(rank).unwrap().task() == members.task(task).unwrap();
    let memory = if at_home { memories[task as usize].clone() } else { [None, None] };
    let context = &stage.contexts[stage.member(members, rank)];
    with_scratch(context, Collect { divided: true, ..case.call(memory, done) }).unwrap()
}

fn check(case: &Case, memories: &[[Option<Shared>; 2]]) {
    for (task, [_, output]) in memories.iter().enumerate() {
        let root = task as u32 == case.root;
        if case.what == Collective::Broadcast && root && !case.in_place {
            // The root's vector stays where it is.
            assert!(words(output.as_ref().unwrap()).iter().all(|&word| word == POISON));
        } else {
            case.check(task as u32, output.as_ref());
        }
    }
}

/// All endpoints start it, in random order, and all tasks have what they must have.
pub fn perform(stage: &mut Stage, members: &Members, case: &Case) {
    let memories = memories(case, members);
    let (ended, done) = ends();
    let mut waiting: Vec<u32> = (0..members.size()).collect();
    while !waiting.is_empty() {
        let rank = waiting.swap_remove(stage.random.below(waiting.len()));
        let collect = call(stage, members, case, &memories, rank, done(rank as usize).unwrap());
        let context = stage.member(members, rank);
        stage.contexts[context].collect(collect).unwrap();
        stage.some_ticks(10);
    }
    finish(stage, members, case, ended);
    check(case, &memories);
}

fn finish(stage: &mut Stage, members: &Members, case: &Case, ended: Told) {
    stage.settle(&format!("{case:?}"), || ended.len() == members.size() as usize);
    assert!(ended.are_good(), "{case:?}: {:?}", ended.results());
}

pub fn case(geometry: GeometryId, what: Collective, members: &Members, root: u32, len: usize) -> Case {
    let size = members.task_count();
    Case {
        geometry,
        what,
        algorithm: None,
        size,
        root,
        len,
        in_place: false,
        salt: u64::from(root) + 5,
        ..Case::default()
    }
}

#[test]
fn g4_endpoints_of_the_root_share_every_collective() {
    for counts in [[1u8, 1, 1, 1, 1], [2, 1, 1, 1, 1], [3, 3, 3, 3, 3], [1, 2, 4, 1, 3]] {
        let mut stage = stage(5, 4, counts.iter().map(|&count| u64::from(count)).sum());
        let members = members(&stage, &counts);
        let id = stage.create(1, members, None);
        for what in DIVIDED {
            let roots = if what.is_rooted() { &[0, 2, 4][..] } else { &[0] };
            for &root in roots {
                for len in [0, 1, 7, 130] {
                    for in_place in [false, true] {
                        let case = Case { in_place, ..case(id, what, &members, root, len) };
                        perform(&mut stage, &members, &case);
                    }
                }
            }
        }
    }
}

#[test]
fn g4_one_to_eight_endpoints_of_the_root_serve_all_tasks() {
    for servers in 1..=8 {
        let mut stage = stage(9, 8, servers.into());
        let mut counts = [1; 9];
        counts[3] = servers;
        let members = members(&stage, &counts);
        let id = stage.create(1, members, None);
        for what in [Collective::Broadcast, Collective::Scatter, Collective::Gather, Collective::Reduce] {
            perform(&mut stage, &members, &case(id, what, &members, 3, 90));
        }
    }
}

#[test]
fn g4_endpoints_of_the_root_have_its_data_and_wait_for_none_of_each_other() {
    let mut stage = stage(4, 3, 19);
    let members = members(&stage, &[3, 1, 1, 1]);
    let id = stage.create(1, members, None);
    for len in [3, 700] {
        let case = case(id, Collective::Broadcast, &members, 0, len);
        let memories = memories(&case, &members);
        let (ended, done) = ends();
        // The root's second endpoint serves the third task, the third one the fourth; the first one comes late.
        for ranks in [&[1, 2, 4, 5][..], &[0, 3]] {
            for &rank in ranks {
                let collect = call(&stage, &members, &case, &memories, rank, done(rank as usize).unwrap());
                let context = stage.member(&members, rank);
                stage.contexts[context].collect(collect).unwrap();
            }
            let all = if ranks.len() == 4 { 4 } else { 6 };
            stage.settle(&format!("{all} of {len}"), || ended.len() == all);
        }
        finish(&mut stage, &members, &case, ended);
        check(&case, &memories);
    }
}

#[test]
fn g4_a_divided_broadcast_goes_by_any_tree() {
    let mut stage = stage(6, 3, 7);
    let members = members(&stage, &[3, 2, 1, 3, 1, 2]);
    let id = stage.create(1, members, None);
    use Algorithm::{Binomial, Flat, Nary, Pipeline, ScatterAllgather};
    for algorithm in [Binomial, Flat, Nary, Pipeline, ScatterAllgather] {
        for root in [0, 3] {
            let case = case(id, Collective::Broadcast, &members, root, 200);
            perform(&mut stage, &members, &Case { algorithm: Some(algorithm), ..case });
        }
    }
}

#[test]
fn g4_what_every_endpoint_but_the_lowest_of_its_task_receives_is_discarded() {
    let mut stage = stage(5, 4, 6);
    let members = members(&stage, &[3, 2, 4, 1, 3]);
    let id = stage.create(1, members, None);
    use Algorithm::{Binomial, Flat, Nary, Pipeline, ScatterAllgather};
    for algorithm in [None, Some(Binomial), Some(Flat), Some(Nary), Some(Pipeline), Some(ScatterAllgather)] {
        for (root, len) in [(0, 3), (2, 700), (3, 60)] {
            let case = Case { algorithm, ..case(id, Collective::Broadcast, &members, root, len) };
            // Endpoints of one task, each with memory of its own, so that it shows who writes.
            let memories: Vec<_> =
                (0..members.size()).map(|rank| case.memory(members.task_of(rank).unwrap())).collect();
            let (ended, done) = ends();
            for (rank, memory) in (0..).zip(&memories) {
                let call = Collect { divided: true, ..case.call(memory.clone(), done(0).unwrap()) };
                let context = stage.member(&members, rank);
                let call = with_scratch(&stage.contexts[context], call).unwrap();
                stage.contexts[context].collect(call).unwrap();
            }
            finish(&mut stage, &members, &case, ended);
            for (rank, [_, output]) in (0..).zip(&memories) {
                let task = members.task_of(rank).unwrap();
                let output = output.as_ref();
                if task != root && members.ranks(task).unwrap().start == rank {
                    case.check(task, output);
                } else {
                    assert!(
                        words(output.unwrap()).iter().all(|&word| word == POISON),
                        "rank {rank}, {case:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn r4_more_shares_than_places_are_an_error_at_every_endpoint_at_once() {
    for (in_flight, fits) in [(1, false), (3, false), (4, true), (16, true)] {
        let limits = Limits { in_flight, early: 256, ..LIMITS };
        let mut stage = Stage::with(3, 1, 4, 1, limits);
        let members = members(&stage, &[4, 1, 2]);
        let id = stage.create(1, members, None);
        // The first task has four endpoints, so the second one's takes part in four slices.
        let case = case(id, Collective::Allreduce, &members, 0, 40);
        if fits {
            // The eighth has a barrier in front.
            (0..10).for_each(|_| perform(&mut stage, &members, &case));
            continue;
        }
        let memories = memories(&case, &members);
        for rank in 0..members.size() {
            let (_, done) = ends();
            let collect = call(&stage, &members, &case, &memories, rank, done(0).unwrap());
            let context = stage.member(&members, rank);
            let refused = CollectError::InFlight { parts: 5, limit: in_flight + 1 };
            assert_eq!(stage.contexts[context].collect(collect), Err(refused));
        }
    }
}

#[test]
fn r4_divided_reductions_share_the_scratch_memory_that_all_have() {
    for counts in [[1u8, 1, 1, 1, 1], [3, 3, 3, 3, 3], [4, 1, 2, 1, 3]] {
        let mut stage = stage(5, 4, 3);
        let members = members(&stage, &counts);
        let id = stage.create(1, members, None);
        for what in [Collective::Reduce, Collective::Allreduce] {
            for scratch_limit in [100, 1000] {
                let case = case(id, what, &members, 0, 130);
                perform(&mut stage, &members, &Case { scratch_limit, ..case });
            }
        }
    }
}

#[test]
fn g5_endpoints_of_the_root_on_neighbouring_nodes_get_their_segment_first() {
    let mut stage = stage(5, 2, 8);
    let members = with_neighbours(&stage);
    let id = stage.create(1, members, None);
    for what in DIVIDED {
        // The root, and a task whose endpoints are all its own.
        for root in if what.is_rooted() { 0..2 } else { 0..1 } {
            for len in [0, 1, 2, 100] {
                for in_place in [false, true] {
                    let case = Case { in_place, ..case(id, what, &members, root, len) };
                    perform(&mut stage, &members, &case);
                }
            }
        }
    }
}

#[test]
fn g4_many_divided_collectives_are_in_flight_at_once() {
    let mut stage = stage(4, 3, 9);
    let members = members(&stage, &[3, 1, 2, 3]);
    let id = stage.create(1, members, None);
    let cases: Vec<Case> = (0..24)
        .map(|number| {
            let what = DIVIDED[stage.random.below(6)];
            let root = if what.is_rooted() { stage.random.below(4) as u32 } else { 0 };
            Case { salt: number, ..case(id, what, &members, root, [0, 3, 80][stage.random.below(3)]) }
        })
        .collect();
    let memories: Vec<_> = cases.iter().map(|case| memories(case, &members)).collect();
    let (ended, done) = ends();
    let mut started = vec![0; members.size() as usize];
    while started.iter().any(|&started| started < cases.len()) {
        let rank = stage.random.below(started.len());
        let number = started[rank];
        if number < cases.len() {
            let (case, memory) = (&cases[number], &memories[number]);
            let collect = call(&stage, &members, case, memory, rank as u32, done(number).unwrap());
            let context = stage.member(&members, rank as u32);
            match stage.contexts[context].collect(collect) {
                Err(CollectError::Full { .. }) => {}
                outcome => {
                    outcome.unwrap();
                    started[rank] += 1;
                }
            }
        }
        stage.tick();
    }
    stage.settle("all of them", || ended.len() == 24 * members.size() as usize);
    for (case, memories) in cases.iter().zip(&memories) {
        check(case, memories);
    }
}

/// What an endpoint that was called back has to know.
struct Called {
    announced: Vec<Announcement>,
    /// What it calls: its memory and the case.
    case: Case,
    memory: [Option<Shared>; 2],
    done: Done<Port>,
}

/// Only some are instructed; the others are called back and get, or bring, the same.
fn instructed(stage: &mut Stage, members: &Members, case: &Case, form: Form, number: u32, divided: bool) {
    let memories = memories(case, members);
    let (ended, done) = ends();
    let mut called: Vec<(usize, &'static Mutex<Called>)> = Vec::new();
    for rank in 0..members.size() {
        let done = done(rank as usize).unwrap();
        let task = members.task_of(rank).unwrap();
        let collect = if divided {
            call(stage, members, case, &memories, rank, done)
        } else {
            let memory = memories[task as usize].clone();
            with_scratch(&stage.contexts[stage.member(members, rank)], case.call(memory, done)).unwrap()
        };
        let context = stage.member(members, rank);
        let root = if divided { task == case.root } else { rank == case.root };
        if root == (form == Form::RootOnly) {
            let collect = Collect { form, number, ..collect };
            stage.contexts[context].collect(collect).unwrap();
            continue;
        }
        let memory = memories[task as usize].clone();
        let state: &'static Mutex<Called> =
            leak(Mutex::new(Called { announced: Vec::new(), case: *case, memory, done }));
        let answer = leak(move |active: &mut Active<Port>, announcement: Announcement, _: usize| {
            let mut called = state.lock().unwrap();
            called.announced.push(announcement);
            let own = called.case.call(called.memory.clone(), called.done);
            let mut collect = announcement.collect(called.done);
            (collect.input, collect.output) = (own.input, own.output);
            (collect.reducer, collect.in_place) = (own.reducer, own.in_place);
            active.collect(with_scratch(active, collect).unwrap()).unwrap();
        });
        stage.contexts[context].on_announced(Some(OnAnnounced { call: answer, cookie: 0 }));
        called.push((context, state));
    }
    finish(stage, members, case, ended);
    check(case, &memories);
    for (context, state) in called {
        assert_eq!(state.lock().unwrap().announced.len(), 1, "{case:?}");
        let announced = state.lock().unwrap().announced[0];
        assert_eq!(announced.form, form);
        let plain = if case.what == Collective::Broadcast { Algorithm::Binomial } else { Algorithm::Flat };
        assert!(!divided || announced.algorithm.0 == plain, "{:?}", announced.algorithm);
        stage.contexts[context].on_announced(None);
    }
}

#[test]
fn g6_endpoints_that_are_not_instructed_are_called_back() {
    let mut stage = stage(5, 1, 10);
    let members = stage.everyone();
    let mut number = 0;
    for (what, form) in [
        (Collective::Broadcast, Form::RootOnly),
        (Collective::Scatter, Form::RootOnly),
        (Collective::Gather, Form::OthersOnly),
        (Collective::Reduce, Form::OthersOnly),
    ] {
        for algorithm in [None, Some(Algorithm::Binomial)] {
            for (root, len) in [(0, 1), (3, 200)] {
                // The root works in place: a broadcast leaves its output alone then.
                let case = Case { algorithm, in_place: true, ..case(WORLD, what, &members, root, len) };
                let algorithm = algorithm.or(Some(if what.is_of_vectors() {
                    Algorithm::Binomial
                } else {
                    Algorithm::Flat
                }));
                number += 1;
                instructed(&mut stage, &members, &Case { algorithm, ..case }, form, number, false);
            }
        }
    }
}

#[test]
fn g6_the_roots_endpoints_are_instructed_together_or_called_back_together() {
    let mut stage = stage(5, 3, 11);
    for (id, members) in [(1, members(&stage, &[3, 1, 1, 1, 1])), (2, with_neighbours(&stage))] {
        let id = stage.create(id, members, None);
        for (number, (what, form)) in [
            (Collective::Broadcast, Form::RootOnly),
            (Collective::Scatter, Form::RootOnly),
            (Collective::Gather, Form::OthersOnly),
        ]
        .into_iter()
        .enumerate()
        {
            let case = case(id, what, &members, 0, 40);
            instructed(&mut stage, &members, &case, form, number as u32, true);
        }
    }
}

#[test]
fn g6_what_would_not_flow_to_those_who_wait_is_refused() {
    let mut stage = stage(3, 1, 12);
    let members = stage.everyone();
    let (_, done) = ends();
    for (what, form) in [
        (Collective::Allreduce, Form::RootOnly),
        (Collective::Gather, Form::RootOnly),
        (Collective::Broadcast, Form::OthersOnly),
    ] {
        let case = case(WORLD, what, &members, 0, 4);
        let collect = Collect { form, ..case.call(case.memory(0), done(0).unwrap()) };
        assert_eq!(stage.contexts[0].collect(collect), Err(CollectError::Form), "{what:?}");
    }
}

/// Rounds in which something moves until a collective has ended: in each, one packet leaves every injection FIFO, and one of the
/// answers to each other node every message unit, as all do at once in hardware, and every context is advanced. Nodes have so
/// many regions.
fn rounds(what: Collective, root: u32, servers: u8, words: usize, regions: usize) -> usize {
    let mut stage = stage(9, 8, servers.into());
    (0..9).for_each(|node| stage.world.lock().unit(node).limit = Some(regions));
    let mut counts = [1; 9];
    counts[root as usize] = servers;
    let members = members(&stage, &counts);
    let id = stage.create(1, members, None);
    stage.rest();
    let case = Case { algorithm: Some(Algorithm::Flat), ..case(id, what, &members, root, words) };
    let memories = memories(&case, &members);
    let (ended, done) = ends();
    for rank in 0..members.size() {
        let collect = call(&stage, &members, &case, &memories, rank, done(rank as usize).unwrap());
        let context = stage.member(&members, rank);
        stage.contexts[context].collect(collect).unwrap();
    }
    let mut rounds = 0;
    for _ in 0..100_000 {
        if ended.len() == members.size() as usize {
            break;
        }
        stage.contexts.iter_mut().for_each(|context| _ = context.advance());
        let mut state = stage.world.lock();
        let steps = state.steps();
        rounds += usize::from(!steps.is_empty());
        steps.into_iter().for_each(|step| state.step(step));
    }
    finish(&mut stage, &members, &case, ended);
    check(&case, &memories);
    rounds
}

#[test]
fn g5_endpoints_of_the_root_send_at_once_from_fifos_of_their_own() {
    for (what, root) in
        [Collective::Broadcast, Collective::Scatter].into_iter().flat_map(|what| [(what, 0), (what, 8)])
    {
        // Data in packets: where there are regions the message units carry it.
        let rounds = |servers, regions| rounds(what, root, servers, 2400, regions);
        let [one, two, four, eight] = [1, 2, 4, 8].map(|servers| rounds(servers, 0));
        println!("{what} from {root}: {one} {two} {four} {eight}");
        // Each has an even share; a few rounds pass before all know of the call, and after the last packet.
        for (servers, rounds) in [(2, two), (4, four), (8, eight)] {
            assert!(rounds <= one / servers + 4, "{what}: {rounds} of {one} rounds with {servers} endpoints");
        }
        // A unit answers all who get from its node at once, whoever offered what they get.
        let got = [1, 8].map(|servers| rounds(servers, 16));
        println!("{what}: {got:?} where it is got");
        assert!(got.iter().all(|&rounds| rounds < two), "{what}: {got:?} rounds, {two} by packets of two");
    }
}
