use super::*;
use crate::topology::{TorusCoord, TorusShape};
use core::sync::atomic::AtomicU32;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const CLIENT: ClientId = ClientId(3);

fn population(tasks: u32, contexts: u8) -> Population {
    Population { client: CLIENT, tasks, contexts }
}

fn endpoint(task: u32, context: u8) -> Endpoint {
    Endpoint::from_parts(CLIENT, task, ContextOffset(context))
}

/// Both numberings are inverse, agree with each other, and have no member that `has` denies.
fn check(members: &Members, population: Population, has: impl Fn(Endpoint) -> bool) {
    let mut next = 0;
    for index in 0..members.task_count() {
        let task = members.task(index).unwrap();
        assert_eq!(members.task_index(task), Some(index));
        let ranks = members.ranks(index).unwrap();
        assert_eq!(ranks.start, next);
        assert!(!ranks.is_empty());
        assert_eq!(members.endpoint(ranks.start).unwrap().task(), task);
        for rank in ranks.clone() {
            assert_eq!(members.task_of(rank), Some(index));
            assert_eq!(members.rank(members.endpoint(rank).unwrap()), Some(rank));
        }
        next = ranks.end;
    }
    assert_eq!((next, members.endpoint(next)), (members.size(), None));
    assert_eq!(members.task(members.task_count()), None);
    for task in 0..population.tasks {
        for context in 0..population.contexts {
            assert_eq!(members.rank(endpoint(task, context)).is_some(), has(endpoint(task, context)));
            let foreign = Endpoint::from_parts(ClientId(4), task, ContextOffset(context));
            assert_eq!(members.rank(foreign), None);
        }
    }
}

prop_compose! {
    /// A torus, a mapping, and a box in it, as often as not round the ends.
    fn boxes()(
        dimensions in proptest::collection::vec((1u16..5, any::<bool>(), any::<u16>(), any::<u16>()), 1..=4),
        per_node in 1u32..4,
        nodes_first in any::<bool>(),
    ) -> (TorusShape, TaskMap, TorusCoord, [u16; 5]) {
        let words: Vec<_> = dimensions
            .iter()
            .map(|(extent, mesh, ..)| std::format!("{extent}{}", if *mesh { "m" } else { "" }))
            .collect();
        let shape: TorusShape = words.join("x").parse().unwrap();
        let order = if nodes_first { MapOrder::NodesFirst } else { MapOrder::TasksFirst };
        let (mut low, mut extents) = (TorusCoord::default(), [1; 5]);
        for (dimension, (extent, mesh, start, len)) in dimensions.into_iter().enumerate() {
            low.0[dimension] = start % extent;
            let room = if mesh { extent - low.0[dimension] } else { extent };
            extents[dimension] = 1 + len % room;
        }
        (shape, TaskMap::new(shape.nodes(), per_node, order).unwrap(), low, extents)
    }
}

proptest! {
    #[test]
    fn g1_a_range_has_its_tasks_and_no_others(
        first in 0u32..20, count in 1u32..20, stride in 1u32..5, contexts in 1u8..4, from in 0u8..3
    ) {
        let population = population(120, 6);
        let members = Members::range(population, from..from + contexts, first, count, stride).unwrap();
        check(&members, population, |endpoint| {
            let context = (from..from + contexts).contains(&endpoint.context().0);
            let mut tasks = (0..count).map(|index| first + index * stride);
            context && tasks.any(|task| task == endpoint.task())
        });
    }

    #[test]
    fn g1_equal_members_have_one_digest_in_whatever_form_and_others_another(
        (shape, map, low, extents) in boxes(),
        (tasks, contexts) in (1u32..40, 1u8..4),
        (first, stride, count) in (0u32..40, 1u32..5, 1u32..40),
        swapped in any::<[prop::sample::Index; 2]>(),
    ) {
        let listed = |population, members: &Members| {
            let list: Vec<_> = (0..members.size()).map(|rank| members.endpoint(rank).unwrap()).collect();
            let mut other = list.clone();
            other.swap(swapped[0].index(list.len()), swapped[1].index(list.len()));
            let digests = |list: &[Endpoint]| {
                let mut index = vec![0; 2 * list.len()];
                Some(Members::endpoints(population, list, &mut index).ok()?.digests())
            };
            (digests(&list).unwrap(), (list != other).then(|| digests(&other)).flatten())
        };
        let machine = population(map.tasks(), contexts);
        let rectangle = Rectangle::new(shape, map, low, extents).unwrap();
        let rectangle = Members::rectangle(machine, 0..contexts, rectangle).unwrap();
        let (first, count) = (first.min(tasks - 1), count.min((tasks - first.min(tasks - 1)).div_ceil(stride)));
        let job = population(tasks, contexts);
        let range = Members::range(job, 0..contexts, first, count, stride).unwrap();
        for (population, members) in [(machine, rectangle), (job, range)] {
            let (same, other) = listed(population, &members);
            prop_assert_eq!(members.digests(), same);
            prop_assert_ne!(Some(same), other);
            let tasks: Vec<_> = (0..members.task_count()).map(|index| members.task(index).unwrap()).collect();
            let mut index = vec![0; tasks.len()];
            let by_task = Members::tasks(population, 0..contexts, &tasks, &mut index).unwrap();
            prop_assert_eq!(by_task.digests(), same);
        }
    }

    #[test]
    fn g1_a_rectangle_has_the_tasks_of_its_nodes_and_no_others((shape, map, low, extents) in boxes()) {
        let population = population(map.tasks(), 2);
        let rectangle = Rectangle::new(shape, map, low, extents).unwrap();
        let members = Members::rectangle(population, 0..2, rectangle).unwrap();
        check(&members, population, |endpoint| {
            let coord = shape.coord(map.place(endpoint.task()).unwrap().node).unwrap();
            (0..5).all(|d| {
                let mut line = (0..extents[d]).map(|step| (low.0[d] + step) % shape.extent(d));
                line.any(|place| place == coord.0[d])
            })
        });
        let placement = members.placement(&map).unwrap();
        prop_assert_eq!(placement.map.tasks(), members.task_count());
        prop_assert_eq!(members.grid().unwrap().size(), members.task_count());
        for index in 0..members.task_count() {
            let local = map.place(members.task(index).unwrap()).unwrap().local;
            prop_assert_eq!(placement.map.place(index).unwrap().local, local);
        }
    }

    #[test]
    fn g1_a_list_of_tasks_keeps_its_order(
        list in proptest::collection::hash_set(0u32..60, 1..30).prop_map(Vec::from_iter), contexts in 1u8..4
    ) {
        let population = population(60, 3);
        let mut memory = vec![0; list.len()];
        let members = Members::tasks(population, 0..contexts, &list, &mut memory).unwrap();
        for (index, &task) in list.iter().enumerate() {
            prop_assert_eq!(members.task(index as u32), Some(task));
        }
        check(&members, population, |endpoint| {
            list.contains(&endpoint.task()) && endpoint.context().0 < contexts
        });
        let mut index: Vec<_> = (0..list.len() as u32).collect();
        index.sort_by_key(|&place| list[place as usize]);
        let pool = |words: &[u32]| words.iter().map(|&word| AtomicU32::new(word)).collect::<Vec<_>>();
        let (pooled, names) = (pool(&list), pool(&index));
        let pooled = Members::pooled(population, 0..contexts, &pooled, &names).unwrap();
        check(&pooled, population, |endpoint| members.rank(endpoint).is_some());
        let again: Vec<_> = list.iter().copied().chain([list[0]]).collect();
        let mut memory = vec![0; again.len()];
        let refused = Members::tasks(population, 0..1, &again, &mut memory).unwrap_err();
        prop_assert_eq!(refused, MembersError::Duplicate(list.len()));
    }

    #[test]
    fn g1_a_list_of_endpoints_keeps_its_order(
        tasks in proptest::collection::hash_map(0u32..40, 1u8..5, 1..20)
    ) {
        let population = population(40, 4);
        let list: Vec<_> = tasks
            .iter()
            .flat_map(|(&task, &contexts)| (0..contexts).rev().map(move |context| endpoint(task, context)))
            .collect();
        let mut memory = vec![0; 2 * list.len()];
        let members = Members::endpoints(population, &list, &mut memory).unwrap();
        for (rank, &endpoint) in list.iter().enumerate() {
            prop_assert_eq!(members.endpoint(rank as u32), Some(endpoint));
        }
        prop_assert_eq!(members.task_count() as usize, tasks.len());
        check(&members, population, |endpoint| list.contains(&endpoint));
    }
}

#[test]
fn g1_a_million_tasks_need_no_memory() {
    let population = population(1 << 20, 4);
    let world = Members::world(population, 0..4).unwrap();
    assert!(size_of::<Members>() <= 128);
    assert_eq!((world.size(), world.task_count()), (1 << 22, 1 << 20));
    let shape: TorusShape = "32x32x32x32".parse().unwrap();
    let map = TaskMap::new(1 << 20, 1, MapOrder::NodesFirst).unwrap();
    let rectangle = Rectangle::new(shape, map, TorusCoord::default(), [32, 32, 32, 16, 1]).unwrap();
    let half = Members::rectangle(population, 1..2, rectangle).unwrap();
    assert_eq!(half.size(), 1 << 19);
    for rank in (0..1 << 19).step_by(997) {
        assert_eq!(half.rank(half.endpoint(rank).unwrap()), Some(rank));
        assert_eq!(world.rank(world.endpoint(rank).unwrap()), Some(rank));
    }
}

#[test]
fn g5_endpoints_of_neighbours_can_serve_a_task() {
    let population = population(8, 2);
    let list = [endpoint(4, 0), endpoint(5, 1), endpoint(3, 1), endpoint(5, 0), endpoint(3, 0)];
    let mut memory = [0; 5];
    let members = Members::grouped(population, &list, &[0, 3, 4], &mut memory).unwrap();
    check(&members, population, |endpoint| list.contains(&endpoint));
    assert_eq!(members.ranks(0), Some(0..3));
    assert_eq!((members.task(0), members.task(1), members.task(2)), (Some(4), Some(5), Some(3)));
}

#[test]
fn g1_members_that_do_not_exist_or_are_named_twice_are_refused() {
    let population = population(8, 2);
    let refused = |members: Result<Members, MembersError>| members.unwrap_err();
    assert_eq!(refused(Members::range(population, 0..1, 0, 0, 1)), MembersError::Empty);
    assert_eq!(refused(Members::range(population, 0..1, 0, 3, 0)), MembersError::Empty);
    assert_eq!(refused(Members::range(population, 1..1, 0, 3, 1)), MembersError::Empty);
    assert_eq!(refused(Members::range(population, 0..1, 2, 3, 3)), MembersError::UnknownTask(8));
    assert_eq!(refused(Members::world(population, 1..3)), MembersError::UnknownContext(2));
    let huge = Population { tasks: u32::MAX, ..population };
    assert_eq!(refused(Members::world(huge, 0..2)), MembersError::TooMany);
    let tasks = |list| refused(Members::tasks(population, 0..1, list, &mut [0; 4]));
    assert_eq!(tasks(&[]), MembersError::Empty);
    assert_eq!(tasks(&[7, 8]), MembersError::UnknownTask(8));
    assert_eq!(tasks(&[1, 1]), MembersError::Duplicate(1));
    assert_eq!(tasks(&[5, 4, 3, 2, 1]), MembersError::IndexMemory(5));
    let pool = |words: &[u32]| words.iter().map(|&word| AtomicU32::new(word)).collect::<Vec<_>>();
    let pooled = |list: &[u32], index: &[u32]| {
        Members::pooled(population, 0..1, &pool(list), &pool(index)).map(drop).unwrap_err()
    };
    assert_eq!(pooled(&[7, 8], &[]), MembersError::UnknownTask(8));
    assert_eq!(pooled(&[2, 1], &[]), MembersError::IndexMemory(2));
    assert_eq!(pooled(&[2, 1], &[0, 1]), MembersError::Index);
    assert_eq!(pooled(&[2, 1], &[1, 9]), MembersError::Index);
    assert_eq!(pooled(&[2, 1], &[1]), MembersError::Index);
    assert_eq!(pooled(&[1, 1], &[0, 1]), MembersError::Index);
    let endpoints = |list: &[Endpoint]| Members::endpoints(population, list, &mut [0; 8]).unwrap_err();
    assert_eq!(endpoints(&[]), MembersError::Empty);
    assert_eq!(endpoints(&[endpoint(8, 0)]), MembersError::UnknownTask(8));
    assert_eq!(endpoints(&[endpoint(1, 2)]), MembersError::UnknownContext(2));
    let foreign = Endpoint::from_parts(ClientId(9), 1, ContextOffset(0));
    assert_eq!(endpoints(&[endpoint(1, 0), foreign]), MembersError::ForeignClient(1));
    assert_eq!(endpoints(&[endpoint(1, 0), endpoint(1, 0)]), MembersError::Duplicate(1));
    let apart = [endpoint(1, 0), endpoint(2, 0), endpoint(1, 1)];
    assert_eq!(endpoints(&apart), MembersError::Scattered(1));
    let groups = |groups| Members::grouped(population, &apart, groups, &mut [0; 3]).unwrap_err();
    assert_eq!(groups(&[]), MembersError::Groups);
    assert_eq!(groups(&[1]), MembersError::Groups);
    assert_eq!(groups(&[0, 3]), MembersError::Groups);
    assert_eq!(groups(&[0, 2, 1]), MembersError::Groups);
}

#[test]
fn g1_a_rectangle_that_leaves_the_torus_is_refused() {
    let shape: TorusShape = "4x4m".parse().unwrap();
    let map = TaskMap::new(16, 2, MapOrder::NodesFirst).unwrap();
    let rectangle = |x, y, width, height| {
        Rectangle::new(shape, map, TorusCoord([x, y, 0, 0, 0]), [width, height, 1, 1, 1])
    };
    assert!(rectangle(3, 2, 4, 2).is_ok());
    assert_eq!(rectangle(0, 3, 1, 2), Err(MembersError::Edge(1)));
    assert_eq!(rectangle(4, 0, 1, 1), Err(MembersError::Edge(0)));
    assert_eq!(rectangle(0, 0, 5, 1), Err(MembersError::Edge(0)));
    assert_eq!(rectangle(0, 0, 0, 1), Err(MembersError::Empty));
    let other = TaskMap::new(15, 2, MapOrder::NodesFirst).unwrap();
    assert_eq!(Rectangle::new(shape, other, TorusCoord::default(), [1; 5]), Err(MembersError::Mapping));
    let members = Members::rectangle(population(16, 1), 0..1, rectangle(0, 0, 1, 1).unwrap());
    assert_eq!(members.unwrap_err(), MembersError::Mapping);
}
