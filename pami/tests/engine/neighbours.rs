//! Endpoints that share work: those on other nodes than the root's memory, what they need, what they hear (SPEC G-4, G-5).

use crate::divided::{DIVIDED, call, case, members, memories, perform, stage, with_neighbours};
use crate::stage::{Case, LIMITS, Port, Stage, ends, leak};
use pami::collective::{Blocks, Collective};
use pami::endpoint::ContextOffset;
use pami::geometry::{Members, MembersError};
use pami::{Active, Collect, CollectError, Completion, Done, Endpoint, Limits};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// As [`with_neighbours`], but the root is the last task.
fn with_neighbours_of_the_last(stage: &Stage) -> Members<'static> {
    let own = stage.contexts[0].endpoint();
    let at = |task, context| Endpoint::from_parts(own.client(), task, ContextOffset(context));
    let list = vec![at(1, 0), at(2, 0), at(3, 0), at(4, 0), at(0, 0), at(1, 1), at(2, 1)].leak();
    let index = vec![0; list.len()].leak();
    Members::grouped(stage.population(), list, vec![0, 1, 2, 3, 4].leak(), index).unwrap()
}

/// Some tasks, of which the one with index `root` has its own endpoints and so many of each of the others, which have one besides.
fn with_many(stage: &Stage, root: u32, tasks: u32, own: u8, of_each: u8) -> Members<'static> {
    let client = stage.contexts[0].endpoint().client();
    let at = |task, context| Endpoint::from_parts(client, task, ContextOffset(context));
    let (mut list, mut groups) = (Vec::new(), Vec::new());
    for task in 0..tasks {
        groups.push(list.len() as u32);
        let count = if task == root { own } else { 1 };
        list.extend((0..count).map(|context| at(task, context)));
        if task == root {
            let others = (0..tasks).filter(|&other| other != root);
            list.extend(others.flat_map(|other| (1..=of_each).map(move |context| at(other, context))));
        }
    }
    let index = vec![0; list.len()].leak();
    Members::grouped(stage.population(), list.leak(), groups.leak(), index).unwrap()
}

#[test]
fn g4_g5_a_root_shares_every_collective_with_any_number_of_endpoints_here_and_on_its_neighbours() {
    // The root has so many endpoints of its own, and 12 of its neighbours.
    for (root, own) in [(0, 8), (0, 1), (2, 2), (3, 1), (3, 8)] {
        let mut stage = stage(4, 8, 16 + u64::from(root));
        let members = with_many(&stage, root, 4, own, 4);
        let id = stage.create(1, members, None);
        for what in DIVIDED.into_iter().filter(|what| root == 0 || what.is_rooted()) {
            for (len, in_place) in [(1, true), (60, false), (60, true)] {
                let case = Case { in_place, ..case(id, what, &members, root, len) };
                perform(&mut stage, &members, &case);
            }
        }
    }
}

#[test]
fn g5_who_is_no_endpoint_of_the_root_stands_behind_those_of_a_task() {
    let stage = stage(3, 2, 17);
    let own = stage.contexts[0].endpoint();
    let at = |task, context| Endpoint::from_parts(own.client(), task, ContextOffset(context));
    let members = |list: [Endpoint; 4]| {
        let index = vec![0; list.len()].leak();
        Members::grouped(stage.population(), list.to_vec().leak(), vec![0, 3].leak(), index).map(drop)
    };
    assert_eq!(members([at(0, 0), at(0, 1), at(1, 1), at(1, 0)]), Ok(()));
    let between = members([at(0, 0), at(1, 1), at(0, 1), at(1, 0)]);
    assert_eq!(between, Err(MembersError::Scattered(0)));
}

#[test]
fn g5_neighbours_of_any_root_serve_the_segments_of_their_own() {
    let mut stage = stage(5, 2, 13);
    let members = with_neighbours_of_the_last(&stage);
    let id = stage.create(1, members, None);
    for what in DIVIDED.into_iter().filter(|what| what.is_rooted()) {
        for (len, in_place) in [(1, false), (100, true)] {
            let case = Case { in_place, ..case(id, what, &members, 4, len) };
            perform(&mut stage, &members, &case);
        }
    }
}

#[test]
fn g5_r4_memory_to_stage_in_is_enough_at_all_endpoints_or_at_none() {
    let mut stage = stage(5, 2, 14);
    let members = with_neighbours(&stage);
    let id = stage.create(1, members, None);
    // Each of the root's three has a third, for 800 bytes of each task that it serves: of all at once, or of two; for all that is
    // gathered, of five; or for a third of what is combined, of 34 words.
    for (what, least) in [
        (Collective::Broadcast, 2400),
        (Collective::Gather, 4800),
        (Collective::Allgather, 12_000),
        (Collective::Reduce, 816),
        (Collective::Allreduce, 816),
    ] {
        for scratch_limit in [least, least - 1] {
            let case = Case { scratch_limit, ..case(id, what, &members, 0, 100) };
            let memories = memories(&case, &members);
            for rank in 0..members.size() {
                let (_, done) = ends();
                let memory = memories[members.task_of(rank).unwrap() as usize].clone();
                let collect = Collect { divided: true, ..case.call(memory, done(0).unwrap()) };
                let needed = stage.contexts[stage.member(&members, rank)].scratch_len(&collect);
                let fits = needed.as_ref().is_ok_and(|&len| len <= scratch_limit);
                assert_eq!(fits, scratch_limit == least, "{what:?}, rank {rank}: {needed:?}");
                assert!(fits || matches!(needed, Err(CollectError::Selection(_))), "{needed:?}");
            }
        }
    }
}

#[test]
fn g4_what_endpoints_cannot_share_is_refused() {
    let mut stage = stage(5, 2, 15);
    let members = with_neighbours(&stage);
    let id = stage.create(1, members, None);
    let unlike = Blocks::listed(&[0, 1, 3, 3, 4, 5]).unwrap();
    for (what, blocks) in [
        (Collective::Alltoall, Blocks::equal(4)),
        (Collective::Scatter, unlike),
        (Collective::Gather, unlike),
        (Collective::Allgather, unlike),
    ] {
        let (_, done) = ends();
        let case = case(id, what, &members, 0, 4);
        let call = case.call(case.memory(0), done(0).unwrap());
        let collect = Collect { divided: true, blocks, sources: blocks, ..call };
        assert_eq!(stage.contexts[0].collect(collect), Err(CollectError::NotDivisible(what)));
    }
}

#[test]
fn g4_a_reduction_has_a_place_for_each_endpoint_of_the_root_or_is_refused_with_the_number() {
    for in_flight in [11, 12] {
        let mut stage = Stage::with(2, 1, 8, 18, Limits { in_flight, ..LIMITS });
        let members = with_many(&stage, 0, 2, 8, 4);
        let id = stage.create(1, members, None);
        let case = case(id, Collective::Reduce, &members, 0, 40);
        if in_flight == 12 {
            perform(&mut stage, &members, &case);
            continue;
        }
        let (_, done) = ends();
        let collect = call(&stage, &members, &case, &memories(&case, &members), 0, done(0).unwrap());
        let refused = stage.contexts[0].collect(collect);
        assert_eq!(refused, Err(CollectError::InFlight { parts: 13, limit: 12 }));
    }
}

#[test]
fn r4_where_all_tasks_have_as_many_endpoints_each_takes_one_place() {
    let mut stage = Stage::with(3, 1, 4, 1, Limits { in_flight: 1, early: 256, ..LIMITS });
    let members = Members::world(stage.population(), 0..4).unwrap();
    let id = stage.create(1, members, None);
    let case = case(id, Collective::Allreduce, &members, 0, 40);
    (0..10).for_each(|_| perform(&mut stage, &members, &case));
}

#[test]
fn g4_an_endpoint_hears_of_the_end_when_its_tasks_data_is_there() {
    for seed in 0..6 {
        let mut stage = stage(4, 3, seed);
        let members = members(&stage, &[3, 2, 3, 1]);
        let id = stage.create(1, members, None);
        for (what, len) in
            [(Collective::Broadcast, 3), (Collective::Broadcast, 300), (Collective::Allgather, 30)]
        {
            let case = case(id, what, &members, 0, len);
            let memories: &'static [_] = memories(&case, &members).leak();
            let count: &'static AtomicUsize = leak(AtomicUsize::new(0));
            let call_back = leak(move |_: &mut Active<Port>, completion: Completion| {
                let task = completion.cookie;
                if task > 0 {
                    case.check(task as u32, memories[task][1].as_ref());
                }
                count.fetch_add(1, Relaxed);
            });
            for rank in 0..members.size() {
                let cookie = members.task_of(rank).unwrap() as usize;
                let collect = call(&stage, &members, &case, memories, rank, Done { call: call_back, cookie });
                let context = stage.member(&members, rank);
                stage.contexts[context].collect(collect).unwrap();
            }
            stage.settle(&format!("{case:?}"), || count.load(Relaxed) == members.size() as usize);
        }
    }
}
