//! Collectives at run time that know where their ranks are, and how often their messages cross boundaries.

use crate::machine::machine_of;
use crate::stage::{Case, LIMITS, Play, Port, Stage, ends};
use pami::affinity::{Crossings, Domains, HartPlace, LEVELS};
use pami::collective::engine::WINDOW;
use pami::collective::{Algorithm, Collective, Element, Operator, Reducer};
use pami::geometry::Members;
use pami::mapping::{MapOrder, TaskMap};
use pami::{Collect, Context, GeometryId};

/// The harts of a node of so many sockets, clusters, cores and threads.
fn harts([sockets, clusters, cores, threads]: [u16; 4]) -> &'static [HartPlace] {
    let place = |hart: u16| HartPlace {
        socket: hart / threads / cores / clusters,
        cluster: hart / threads / cores % clusters,
        core: hart / threads % cores,
        thread: hart % threads,
    };
    (0..sockets * clusters * cores * threads).map(place).collect::<Vec<_>>().leak()
}

/// Domains of tasks on nodes of that shape.
fn domains(nodes: u32, shape: [u16; 4], order: MapOrder, radix: u32) -> Domains<'static> {
    let harts = harts(shape);
    let map = TaskMap::new(nodes, harts.len() as u32, order).unwrap();
    Domains::new(map, harts, [radix; 5]).unwrap()
}

/// All tasks, each a rank, in a geometry with these domains.
fn stage(domains: Domains<'static>) -> (Stage, GeometryId, Members<'static>) {
    let mut stage = Stage::new(domains.size(), domains.per_node(), 1, 7);
    let members = stage.everyone();
    let id = stage.create(1, members, Some(domains));
    (stage, id, members)
}

/// What all ranks counted so far.
fn crossings(stage: &Stage, id: GeometryId) -> Vec<Crossings> {
    let crossings = |context: &Context<Port>| context.geometry(id).map(|geometry| geometry.crossings);
    stage.contexts.iter().map(|context| crossings(context).unwrap_or_default()).collect()
}

/// Messages from one domain of each level to another that a collective sends.
fn count(
    stage: &mut Stage,
    id: GeometryId,
    members: Members<'static>,
    (what, algorithm, root): (Collective, Option<Algorithm>, u32),
) -> [u32; LEVELS.len()] {
    let before = crossings(stage, id);
    let size = members.size();
    let case = Case {
        geometry: id,
        what,
        algorithm,
        size,
        root,
        len: 3,
        in_place: false,
        salt: 1,
        ..Case::default()
    };
    Play::new(stage, vec![(case, members)]).run(stage);
    let after = crossings(stage, id);
    let all = || after.iter().zip(&before).map(|(after, before)| after.since(before));
    LEVELS.map(|level| all().map(|crossings| crossings.across(level)).sum())
}

/// The same, with no barrier of the engine's in front.
fn count_alone(
    stage: &mut Stage,
    id: GeometryId,
    members: Members<'static>,
    case: (Collective, Option<Algorithm>, u32),
) -> [u32; LEVELS.len()] {
    let started = stage.contexts.iter().find_map(|context| Some(context.geometry(id)?.started)).unwrap();
    if started % WINDOW == WINDOW - 1 {
        count(stage, id, members, (Collective::Barrier, None, 0));
    }
    count(stage, id, members, case)
}

const SHAPES: [[u16; 4]; 3] = [[2, 1, 2, 2], [1, 1, 4, 2], [2, 2, 2, 1]];

/// What goes along the tree over all domains however ranks are numbered.
const BY_TREE: [Collective; 8] = {
    use Collective::{Allgather, Allreduce, Barrier, Broadcast, Gather, Reduce, ReduceScatter, Scatter};
    [Barrier, Broadcast, Reduce, Allreduce, ReduceScatter, Gather, Scatter, Allgather]
};

#[test]
fn a6_each_phase_crosses_the_boundaries_of_a_level_once_for_each_domain_but_one() {
    use Collective::{Exscan, Scan};
    for shape in SHAPES {
        for (nodes, order, radix) in
            [(1, MapOrder::TasksFirst, 2), (2, MapOrder::TasksFirst, 4), (3, MapOrder::NodesFirst, 1)]
        {
            let domains = domains(nodes, shape, order, radix);
            let (mut stage, id, members) = stage(domains);
            for what in BY_TREE.into_iter().chain([Scan, Exscan].into_iter().filter(|_| domains.are_ranges()))
            {
                let phases = if what.is_rooted() { 1 } else { 2 };
                let root = if what.is_rooted() { domains.size() - 2 } else { 0 };
                let counted = count_alone(&mut stage, id, members, (what, Some(Algorithm::Affinity), root));
                let least = LEVELS.map(|level| phases * (domains.count(level) - 1));
                assert_eq!(counted, least, "{what:?} on {nodes} nodes of {shape:?}");
            }
        }
    }
}

#[test]
fn a6_what_does_not_know_of_domains_crosses_more_boundaries() {
    let (mut stage, id, members) = stage(domains(1, [2, 1, 2, 2], MapOrder::TasksFirst, 2));
    let mut count = |what, algorithm| count(&mut stage, id, members, (what, Some(algorithm), 0));
    // With radix 3, each of eight ranks signals to those 1, 2, 3 and 6 on.
    assert_eq!(count(Collective::Barrier, Algorithm::Dissemination), [28, 16, 16, 0, 0]);
    assert_eq!(count(Collective::Broadcast, Algorithm::Flat), [6, 4, 4, 0, 0]);
    assert_eq!(count(Collective::Broadcast, Algorithm::Affinity), [3, 1, 1, 0, 0]);
}

#[test]
fn a5_ranks_that_share_a_node_use_their_domains_by_default() {
    for shape in SHAPES {
        let (mut stage, id, members) = stage(domains(2, shape, MapOrder::NodesFirst, 2));
        for what in BY_TREE {
            let (_, done) = ends();
            let mut collect = Collect::new(id, what, done(0).unwrap());
            collect.reducer = what.reduces().then(|| Reducer::new(Operator::Sum, Element::U64).unwrap());
            let chosen = stage.contexts[0].query(&collect).unwrap().choose(None).unwrap();
            assert_eq!(chosen.algorithm, Algorithm::Affinity, "{what:?}");
            let by_default = count_alone(&mut stage, id, members, (what, None, 0));
            let forced = (what, Some(Algorithm::Affinity), 0);
            assert_eq!(by_default, count_alone(&mut stage, id, members, forced));
        }
    }
}

#[test]
fn a3_every_radix_gives_the_same_result_with_as_many_crossings() {
    for radix in [1, 2, 3, 8] {
        let domains = domains(2, [2, 1, 2, 2], MapOrder::TasksFirst, radix);
        let (mut stage, id, members) = stage(domains);
        let case = (Collective::Allreduce, Some(Algorithm::Affinity), 0);
        let counted = count(&mut stage, id, members, case);
        assert_eq!(counted, LEVELS.map(|level| 2 * (domains.count(level) - 1)), "radix {radix}");
    }
}

/// The engine's own messages, which create the geometry and keep its members together, cross as little as can be.
#[test]
fn a6_the_engines_own_barriers_are_counted_and_cross_as_little_as_can_be() {
    for (nodes, shape) in [(1, [1, 1, 4, 1]), (2, [2, 1, 2, 2])] {
        let domains = domains(nodes, shape, MapOrder::TasksFirst, 2);
        let (mut stage, id, members) = stage(domains);
        let least = LEVELS.map(|level| domains.count(level) - 1);
        assert_eq!(sum(&stage, id), least.map(|least| 2 * least), "the creation");
        for _ in 0..20 {
            count(&mut stage, id, members, (Collective::Broadcast, Some(Algorithm::Affinity), 0));
        }
        // Of 21 collectives the 8th and the 16th have a barrier in front.
        assert_eq!(sum(&stage, id), least.map(|least| (2 + 20 + 2 * 2) * least));
    }
}

/// Messages from one domain of each level to another that all members have sent in a geometry.
fn sum(stage: &Stage, id: GeometryId) -> [u32; LEVELS.len()] {
    let all = crossings(stage, id);
    LEVELS.map(|level| all.iter().map(|crossings| crossings.across(level)).sum())
}

/// The processor of the documents (seed 003): four chips of four cores of four threads.
#[test]
fn a2_a6_on_a_processor_of_4_by_4_by_4_threads_each_phase_crosses_cores_15_times_and_chips_3() {
    let nodes = machine_of(64, 64);
    nodes[0].world.pin(harts([1, 4, 4, 4]));
    let mut stage = Stage::steps(nodes, 1, 3, LIMITS);
    let (members, least) = (stage.everyone(), [15, 3, 0, 0, 0]);
    // What the kernel says is enough, and the creation crosses no more than a barrier does.
    let id = stage.create(1, members, None);
    assert_eq!(
        LEVELS.map(|level| stage[9].geometry(id).unwrap().domains.unwrap().count(level)),
        [16, 4, 1, 1, 1]
    );
    assert_eq!(sum(&stage, id), least.map(|least| 2 * least));
    use Collective::{Alltoall, Exscan, Scan};
    for what in BY_TREE.into_iter().chain([Scan, Exscan, Alltoall]) {
        let (phases, root) = if what.is_rooted() { (1, 38) } else { (2, 0) };
        let counted = count_alone(&mut stage, id, members, (what, Some(Algorithm::Affinity), root));
        assert_eq!(counted, least.map(|least| phases * least), "{what:?}");
        if BY_TREE.contains(&what) {
            assert_eq!(
                count_alone(&mut stage, id, members, (what, None, root)),
                counted,
                "{what:?} by default"
            );
        }
    }
    // Those that know of no places: every thread with each 32, 16, ... threads on.
    let flat = (Collective::Barrier, Some(Algorithm::Dissemination), 0);
    let crossed = count_alone(&mut stage, id, members, flat);
    assert!(crossed[0] > 10 * least[0] && crossed[1] > 10 * least[1], "{crossed:?}");
}

#[test]
fn a2_a5_rows_columns_halves_and_several_contexts_of_each_task_have_the_domains_of_their_places() {
    let nodes = machine_of(16, 8);
    nodes[0].world.pin(harts([2, 1, 2, 2]));
    let mut stage = Stage::steps(nodes, 2, 5, LIMITS);
    let world = Members::world(stage.population(), 0..2).unwrap();
    for (number, (members, domains)) in [
        // Cores, chips, processors, nodes.
        (stage.range(0, 8, 1), [4, 2, 2, 1]),
        (stage.range(8, 4, 1), [2, 1, 1, 1]),
        (stage.range(1, 8, 2), [8, 4, 4, 2]),
        (stage.range(3, 2, 8), [2, 2, 2, 2]),
        (world, [8, 4, 4, 2]),
    ]
    .into_iter()
    .enumerate()
    {
        let id = stage.create(1 + number as u32, members, None);
        let least = [domains[0], domains[1], domains[2], domains[3], 1].map(|domains| domains - 1);
        assert_eq!(sum(&stage, id), least.map(|least| 2 * least), "the creation of {number}");
        for what in BY_TREE {
            let phases = if what.is_rooted() { 1 } else { 2 };
            let root = if what.is_rooted() { members.size() - 1 } else { 0 };
            let counted = count_alone(&mut stage, id, members, (what, Some(Algorithm::Affinity), root));
            assert_eq!(counted, least.map(|least| phases * least), "{what:?} in {number}");
            // A rank that is alone on its node has no domain that matters.
            if domains[3] < members.size() {
                assert_eq!(
                    count_alone(&mut stage, id, members, (what, None, root)),
                    counted,
                    "{what:?} in {number}"
                );
            }
        }
    }
}
