use super::*;
use crate::collective::simulation::reference::{memory, values};
use crate::collective::simulation::{Outcome, POISON, run, run_instructed};
use crate::collective::{Call, Schedule, Tuning, catalogue};
use std::vec;
use std::vec::Vec;

/// Runs one group's collective; `memory` makes the input and output of each rank of the group.
fn perform<'a>(
    group: &Group,
    collective: Collective,
    algorithm: Algorithm,
    blocks: Blocks<'a>,
    memory: impl Fn(u32) -> [Vec<u64>; 2],
) -> Outcome {
    let calls: Vec<_> =
        (0..group.size()).map(|rank| call(group, collective, algorithm, blocks, rank)).collect();
    run(&calls, |call| memory(call.rank), u64::wrapping_add, u64::from(group.first()) + 1)
}

fn call<'a>(
    group: &Group,
    collective: Collective,
    algorithm: Algorithm,
    blocks: Blocks<'a>,
    rank: u32,
) -> Call<'a> {
    Call {
        collective,
        algorithm,
        size: group.size(),
        rank,
        root: group.root(),
        blocks,
        sources: blocks,
        in_place: false,
        commutative: true,
        tuning: Tuning { radix: 2, chunk: 4 },
        grid: None,
        domains: None,
    }
}

/// All geometries of so many tasks, roots in them, and so many endpoints of the root.
fn for_all_divisions(mut claim: impl FnMut(u32, u32, u32)) {
    for tasks in [1, 2, 3, 7, 8, 17, 33] {
        for root in [0, tasks / 2, tasks - 1] {
            (1..=8).chain([40]).for_each(|servers| claim(tasks, root, servers));
        }
    }
}

#[test]
fn g4_every_task_has_one_server_and_servers_have_even_shares() {
    for_all_divisions(|tasks, root, servers| {
        let division = Division::of_tasks(tasks, root, servers).unwrap();
        let mut served = vec![0; tasks as usize];
        for server in 0..servers {
            let segment = division.segment(server);
            assert!(segment.len() <= tasks.div_ceil(servers) as usize);
            // What is the root's own need not be sent to.
            let others = segment.clone().filter(|&task| task != root).count() as u32;
            assert!(others <= (tasks - 1).div_ceil(servers), "{tasks} by {servers} from {root}");
            let group = division.group(server);
            for task in segment {
                served[task as usize] += 1;
                assert_eq!(division.server_of(task), server);
                assert_eq!(group.task(group.rank(task).unwrap()), Some(task));
            }
            assert_eq!(group.task(group.root()), Some(root));
            assert_eq!(group.task(group.size()), None);
            let members = (0..tasks).filter(|&task| group.rank(task).is_some());
            assert_eq!(members.count(), group.size() as usize);
        }
        assert!(served.iter().all(|&times| times == 1));
    });
}

/// The boundaries of equal blocks and of others, some empty, for so many tasks.
fn layouts(tasks: u32) -> [Vec<usize>; 2] {
    [|_| 3, |task: u32| (task * 7 + 3) as usize % 5]
        .map(|len: fn(u32) -> usize| (0..=tasks).map(|end| (0..end).map(len).sum()).collect())
}

#[test]
fn g4_a_divided_scatter_gives_each_task_its_portion() {
    for_all_divisions(|tasks, root, servers| {
        for bounds in layouts(tasks) {
            let blocks = Blocks::listed(&bounds).unwrap();
            let portions = values(root, bounds[tasks as usize]);
            let division = Division::of_tasks(tasks, root, servers).unwrap();
            let mut received = vec![vec![]; tasks as usize];
            for algorithm in catalogue::entries(Collective::Scatter).map(|entry| entry.algorithm) {
                for server in 0..servers {
                    let group = division.group(server);
                    let window = group.blocks(blocks);
                    let memory = |rank| {
                        let from = blocks.start(group.first());
                        let input = &portions[from..from + window.start(group.size())];
                        let input = if rank == group.root() { input } else { &[] };
                        [input.to_vec(), vec![POISON; window.len(rank)]]
                    };
                    if algorithm == Algorithm::Affinity {
                        continue;
                    }
                    let outcome = perform(&group, Collective::Scatter, algorithm, window, memory);
                    for task in division.segment(server) {
                        received[task as usize] = outcome.outputs[group.rank(task).unwrap() as usize].clone();
                    }
                }
                for (task, portion) in received.iter().enumerate() {
                    assert_eq!(portion[..], portions[bounds[task]..bounds[task + 1]]);
                }
            }
        }
    });
}

#[test]
fn g4_a_divided_gather_ends_in_one_buffer() {
    for_all_divisions(|tasks, root, servers| {
        for bounds in layouts(tasks) {
            let blocks = Blocks::listed(&bounds).unwrap();
            let division = Division::of_tasks(tasks, root, servers).unwrap();
            let mut gathered = vec![POISON; bounds[tasks as usize]];
            for server in 0..servers {
                let group = division.group(server);
                let window = group.blocks(blocks);
                let total = window.start(group.size());
                let memory = |rank| {
                    let task = group.task(rank).unwrap();
                    let output = if rank == group.root() { total } else { 0 };
                    [values(task, window.len(rank)), vec![POISON; output]]
                };
                let outcome = perform(&group, Collective::Gather, Algorithm::Flat, window, memory);
                let from = blocks.start(group.first());
                gathered[from..from + total].copy_from_slice(&outcome.outputs[group.root() as usize]);
            }
            let expected: Vec<_> = (0..tasks).flat_map(|task| values(task, blocks.len(task))).collect();
            assert_eq!(gathered, expected);
        }
    });
}

#[test]
fn g4_a_divided_broadcast_reaches_every_other_task_once() {
    for_all_divisions(|tasks, root, servers| {
        let division = Division::of_tasks(tasks, root, servers).unwrap();
        let mut received = vec![0; tasks as usize];
        for server in 0..servers {
            let group = division.group(server);
            for algorithm in [Algorithm::Flat, Algorithm::Binomial, Algorithm::Pipeline] {
                let memory = |rank| {
                    let input = if rank == group.root() { values(root, 4) } else { vec![] };
                    [input, vec![POISON; 4]]
                };
                let outcome = perform(&group, Collective::Broadcast, algorithm, Blocks::equal(4), memory);
                assert!(outcome.outputs.iter().all(|output| *output == values(root, 4)));
                assert!(outcome.messages.len() <= tasks.div_ceil(servers) as usize);
                for (_, to) in outcome.messages {
                    received[group.task(to).unwrap() as usize] += 1;
                }
            }
        }
        assert!((0..).zip(received).all(|(task, times)| times == if task == root { 0 } else { 3 }));
    });
}

#[test]
fn g4_of_several_endpoints_the_lowest_speaks_and_keeps() {
    let own = 4..7;
    assert_eq!([4, 5, 6].map(|rank| speaks(rank, &own)), [true, false, false]);
    assert_eq!([4, 5, 6].map(|rank| is_redundant(rank, &own)), [false, true, true]);
}

#[test]
fn g4_servers_reduce_every_element_once() {
    for len in [0, 1, 5, 64] {
        for servers in 1..=8 {
            let elements: Vec<_> = (0..servers).flat_map(|server| slice(len, server, servers)).collect();
            assert_eq!(elements, (0..len).collect::<Vec<_>>());
        }
    }
}

#[test]
fn g5_endpoints_without_the_roots_memory_and_the_first_are_a_group_of_segments_next_to_each_other() {
    for servers in 2..=9 {
        let division = Division::of_tasks(3 * servers + 1, 3 * servers, servers).unwrap();
        let blocks = division.stage(5);
        for (own, home) in (0..servers).flat_map(|own| (1..servers).map(move |home| (own, home))) {
            let places = Places { own };
            for place in 0..servers {
                assert_eq!(places.place(places.segment(place)), place, "{own} of {servers}");
            }
            let group = places.beyond(home, servers);
            let window = group.blocks(blocks);
            let mut members: Vec<_> = (0..group.size()).map(|rank| group.place(rank).unwrap()).collect();
            assert_eq!(members[group.root() as usize], 0);
            for (rank, &place) in (0..).zip(&members).filter(|(_, place)| **place > 0) {
                let segment = places.segment(place);
                assert_eq!(group.rank(segment), Some(rank));
                assert_eq!(window.len(rank), blocks.len(segment));
                assert_eq!(blocks.start(group.first()) + window.start(rank), blocks.start(segment));
            }
            members.sort_unstable();
            assert_eq!(members, [0].into_iter().chain(home..servers).collect::<Vec<_>>());
        }
    }
}

#[test]
fn g5_distant_servers_are_staged_what_they_serve() {
    let division = Division::of_tasks(10, 3, 4).unwrap();
    let stage = division.stage(6);
    for server in 0..4 {
        let segment = division.segment(server);
        assert_eq!(stage.start(server), segment.start as usize * 6);
        assert_eq!(stage.len(server), segment.len() * 6);
    }
}

#[test]
fn g6_who_is_not_instructed_is_called_by_a_message() {
    let mut allowed = 0;
    for form in [Form::RootOnly, Form::OthersOnly] {
        for entry in catalogue::CATALOGUE {
            // With nobody to call it, a lone rank waits for ever.
            for (size, commutative) in (2..=17).flat_map(|size| [(size, false), (size, true)]) {
                let group = Division::of_tasks(size, size / 2, 1).unwrap().group(0);
                let blocks = Blocks::equal(20);
                let call = |rank| Call {
                    commutative,
                    ..call(&group, entry.collective, entry.algorithm, blocks, rank)
                };
                let calls: Vec<_> = (0..size).map(call).collect();
                if !form.allows(&calls[0]) || Schedule::new(&calls[0]).is_err() {
                    continue;
                }
                let instructs = |rank| (rank == group.root()) == (form == Form::RootOnly);
                let memory = |call: &Call| memory(call, values);
                run_instructed(&calls, memory, u64::wrapping_add, size.into(), instructs);
                allowed += 1;
            }
        }
    }
    assert!(allowed > 300, "only {allowed} calls were allowed");
}

#[test]
fn g6_data_must_flow_away_from_who_is_instructed() {
    let group = Division::of_tasks(5, 2, 1).unwrap().group(0);
    let allows = |form: Form, collective, algorithm, commutative| {
        form.allows(&Call { commutative, ..call(&group, collective, algorithm, Blocks::equal(1), 0) })
    };
    assert!(allows(Form::RootOnly, Collective::Scatter, Algorithm::Binomial, true));
    assert!(!allows(Form::RootOnly, Collective::Gather, Algorithm::Flat, true));
    assert!(!allows(Form::RootOnly, Collective::Broadcast, Algorithm::TreeNetwork, true));
    assert!(!allows(Form::OthersOnly, Collective::Scatter, Algorithm::Flat, true));
    assert!(allows(Form::OthersOnly, Collective::Reduce, Algorithm::Binomial, true));
    assert!(!allows(Form::OthersOnly, Collective::Reduce, Algorithm::Binomial, false));
    assert!(!allows(Form::OthersOnly, Collective::Reduce, Algorithm::RecursiveDoubling, true));
    assert!(allows(Form::All, Collective::Barrier, Algorithm::TreeNetwork, true));
}

#[test]
fn g4_a_root_without_endpoints_or_outside_is_refused() {
    assert_eq!(Division::of_tasks(4, 4, 1), None);
    assert_eq!(Division::of_tasks(4, 0, 0), None);
}
