use super::*;
use crate::collective::catalogue::entry;
use crate::collective::simulation::reference::{memory, values};
use crate::collective::simulation::{Outcome, run};
use crate::collective::{Algorithm, Blocks, Call, Collective, Tuning};
use crate::mapping::MapOrder;
use std::vec::Vec;

/// The harts of a node of so many sockets, clusters, cores and threads.
fn harts([sockets, clusters, cores, threads]: [u16; 4]) -> Vec<HartPlace> {
    let mut harts = Vec::new();
    for hart in 0..sockets * clusters * cores * threads {
        let (core, thread) = (hart / threads, hart % threads);
        let (cluster, core) = (core / cores, core % cores);
        harts.push(HartPlace { socket: cluster / clusters, cluster: cluster % clusters, core, thread });
    }
    harts
}

const SHAPES: [[u16; 4]; 6] =
    [[2, 1, 2, 2], [1, 1, 4, 2], [2, 2, 2, 1], [1, 1, 1, 1], [1, 3, 2, 1], [2, 2, 2, 4]];
const RADICES: [[u32; 5]; 3] = [[2; 5], [1, 2, 3, 1, 4], [8; 5]];

/// Calls `claim` with domains of several shapes.
fn for_all_shapes(mut claim: impl FnMut(&Domains)) {
    for shape in SHAPES {
        let harts = harts(shape);
        for nodes in [1, 2, 7] {
            for order in [MapOrder::TasksFirst, MapOrder::NodesFirst] {
                for radix in RADICES {
                    let map = TaskMap::new(nodes, harts.len() as u32, order).unwrap();
                    claim(&Domains::new(map, &harts, radix).unwrap());
                    if nodes == 2 && harts.len() == 8 {
                        claim(&Domains::of_crews(map, 3, &harts, 1, radix).unwrap());
                    }
                }
            }
        }
    }
}

fn perform(domains: &Domains, collective: Collective, algorithm: Algorithm, root: u32) -> Outcome {
    let call = |rank| Call {
        collective,
        algorithm,
        size: domains.size(),
        rank,
        root,
        blocks: Blocks::equal(1),
        sources: Blocks::equal(1),
        in_place: false,
        commutative: true,
        tuning: Tuning { radix: 2, chunk: 1 },
        grid: None,
        domains: Some(*domains),
    };
    let calls: Vec<_> = (0..domains.size()).map(call).collect();
    run(&calls, |call| memory(call, values), u64::wrapping_add, 1)
}

/// Messages whose ends are in different domains of a level.
fn crossings(domains: &Domains, outcome: &Outcome, level: Level) -> usize {
    outcome.messages.iter().filter(|(from, to)| domains.meet(*from, *to).unwrap() > level).count()
}

#[test]
fn a3_the_trees_of_all_domains_are_one_tree_below_the_root() {
    for_all_shapes(|domains| {
        for root in [0, domains.size() / 2, domains.size() - 1] {
            let tree = |rank| DomainTree::new(*domains, root, rank);
            let mut parents: Vec<_> = (0..domains.size()).map(|_| None).collect();
            for rank in 0..domains.size() {
                for index in 0..tree(rank).children() {
                    let child = tree(rank).child(index);
                    assert_eq!(parents[child as usize].replace(rank), None, "two parents of {child}");
                }
            }
            for (rank, &parent) in parents.iter().enumerate() {
                assert_eq!(tree(rank as u32).parent(), parent);
                assert_eq!(parent.is_none(), rank as u32 == root);
            }
        }
    });
}

#[test]
fn a3_a_member_has_at_most_as_many_children_at_a_level_as_the_radix() {
    for_all_shapes(|domains| {
        for rank in 0..domains.size() {
            let tree = DomainTree::new(*domains, 0, rank);
            let met = |index| domains.meet(rank, tree.child(index));
            for level in LEVELS {
                let children = (0..tree.children()).filter(|&index| met(index) == Some(level)).count();
                assert!(children <= domains.radix(level) as usize, "{children} at {level:?}");
            }
        }
    });
}

#[test]
fn a3_the_ranks_below_each_child_have_numbers_that_follow_each_other() {
    for_all_shapes(|domains| {
        for root in [0, domains.size() / 2, domains.size() - 1] {
            // In preorder.
            fn below(domains: &Domains, root: u32, rank: u32) -> Vec<u32> {
                let tree = DomainTree::new(*domains, root, rank);
                let mut ranks = std::vec![rank];
                for index in 0..tree.children() {
                    assert_eq!(tree.below(index) as usize, ranks.len());
                    ranks.extend(below(domains, root, tree.child(index)));
                }
                assert_eq!(tree.extent() as usize, ranks.len());
                ranks
            }
            let all = below(domains, root, root);
            assert_eq!(all.len(), domains.size() as usize);
            for rank in [root, (root + 1) % domains.size(), domains.size() / 3] {
                let (tree, expected) = (DomainTree::new(*domains, root, rank), below(domains, root, rank));
                let numbers: Vec<_> = (0..tree.extent()).map(|number| tree.entry(number)).collect();
                assert_eq!(numbers, expected, "below {rank} from {root}");
                for first in 0..tree.extent() {
                    let (count, some) = (tree.extent() - first, &mut expected[first as usize..].to_vec());
                    let in_order = some.windows(2).all(|pair| pair[1] == pair[0] + 1);
                    let range = tree.range(first, count);
                    assert!(range.is_none_or(|range| range.eq(some.iter().copied())));
                    assert!(tree.range(first, count).is_some() || !(in_order && domains.are_ranges()));
                    let mut ranges: Vec<_> = tree.ranks(first, count).flatten().collect();
                    ranges.sort();
                    some.sort();
                    assert_eq!(&ranges, some);
                }
            }
        }
    });
}

#[test]
fn a6_each_phase_crosses_as_many_boundaries_of_a_level_as_there_are_domains_less_one() {
    use Collective::{Alltoall, Broadcast, Exscan, Gather, Reduce, Scan, Scatter};
    let has_affinity = |collective: &Collective| entry(*collective, Algorithm::Affinity).is_some();
    let all: Vec<_> = Collective::ALL.into_iter().filter(has_affinity).collect();
    for_all_shapes(|domains| {
        for &collective in &all {
            let phases = if matches!(collective, Reduce | Broadcast | Gather | Scatter) { 1 } else { 2 };
            // What those before a rank have is of no domain if its ranks do not follow each other.
            if matches!(collective, Scan | Exscan) && !domains.are_ranges() {
                continue;
            }
            let roots = [0, domains.size() / 2, domains.size() - 1];
            for root in roots.into_iter().take(if collective.is_rooted() { 3 } else { 1 }) {
                let outcome = perform(domains, collective, Algorithm::Affinity, root);
                for level in LEVELS {
                    let (count, nodes) = (domains.count(level) as usize, domains.nodes() as usize);
                    let least = match collective {
                        // Up and down in each node, and from each node to each other.
                        Alltoall if level < Level::Machine => 2 * (count - nodes) + nodes * (nodes - 1),
                        _ => phases * (count - 1),
                    };
                    assert_eq!(crossings(domains, &outcome, level), least, "{collective:?} at {level:?}");
                }
            }
        }
    });
}

#[test]
fn a6_a_tree_that_does_not_know_of_domains_crosses_more() {
    for shape in [[2, 1, 2, 2], [1, 1, 4, 2]] {
        let harts = harts(shape);
        let map = TaskMap::new(8, 8, MapOrder::NodesFirst).unwrap();
        let domains = Domains::new(map, &harts, [2; 5]).unwrap();
        let cost = |algorithm| {
            let outcome = perform(&domains, Collective::Reduce, algorithm, 0);
            crossings(&domains, &outcome, Level::Node)
        };
        assert!(cost(Algorithm::Affinity) < cost(Algorithm::Binomial));
    }
}

#[test]
fn a2_domains_are_counted_at_every_level() {
    let harts = harts([2, 1, 2, 2]);
    let map = TaskMap::new(3, 8, MapOrder::TasksFirst).unwrap();
    let domains = Domains::new(map, &harts, [2; 5]).unwrap();
    assert_eq!(LEVELS.map(|level| domains.count(level)), [12, 6, 6, 3, 1]);
    assert_eq!(domains.meet(0, 1), Some(Level::Core));
    assert_eq!(domains.meet(0, 2), Some(Level::Chip));
    assert_eq!(domains.meet(0, 4), Some(Level::Node));
    assert_eq!(domains.meet(0, 8), Some(Level::Machine));
    assert_eq!(domains.meet(0, 24), None);
}

#[test]
fn a2_a_table_that_does_not_fit_is_refused() {
    let map = TaskMap::new(2, 2, MapOrder::TasksFirst).unwrap();
    let table = harts([1, 1, 2, 1]);
    let radix = [2; 5];
    assert_eq!(Domains::new(map, &table[..1], radix), Err(DomainsError::Count { tasks: 2, places: 1 }));
    assert_eq!(Domains::new(map, &[table[1], table[0]], radix), Err(DomainsError::Order(1)));
    assert_eq!(Domains::new(map, &table, [2, 2, 0, 2, 2]), Err(DomainsError::Radix(Level::Processor)));
    assert!(Domains::new(map, &table, radix).is_ok());
}

#[test]
fn a3_a_million_ranks_need_no_more_memory_than_one_node() {
    let harts = harts([2, 2, 2, 1]);
    let map = TaskMap::new(1 << 17, 8, MapOrder::TasksFirst).unwrap();
    let domains = Domains::new(map, &harts, [2; 5]).unwrap();
    let (mut rank, mut depth) = (domains.size() - 1, 0);
    while let Some(parent) = DomainTree::new(domains, 12_345, rank).parent() {
        (rank, depth) = (parent, depth + 1);
    }
    assert_eq!(rank, 12_345);
    // 17 levels of nodes, and at most one of sockets, clusters and cores each.
    assert!(depth <= 20, "{depth} levels");
}

#[test]
fn a1_a2_domains_are_made_of_the_affinities_of_threads() {
    use crate::endpoint::ClientId;
    use crate::geometry::{Members, Population, Rectangle};
    let harts = || &*harts([2, 1, 2, 2]).leak();
    let population = |tasks, contexts| Population { client: ClientId(0), tasks, contexts };
    // A task for each hart of three nodes, however they are numbered.
    for order in [MapOrder::TasksFirst, MapOrder::NodesFirst] {
        let map = TaskMap::new(3, 8, order).unwrap();
        let affinities = Affinities { map, harts: harts() };
        let world = Members::world(population(24, 2), 0..1).unwrap();
        let domains = affinities.domains(&world, [3; 5]).unwrap();
        assert_eq!(domains, Domains::new(map, harts(), [3; 5]).unwrap());
        let shape: crate::topology::TorusShape = "3".parse().unwrap();
        let rectangle = Rectangle::new(shape, map, shape.coord(1).unwrap(), [2, 1, 1, 1, 1]).unwrap();
        let members = Members::rectangle(population(24, 2), 1..2, rectangle).unwrap();
        let domains = affinities.domains(&members, RADIX).unwrap();
        assert_eq!((domains.size(), domains.nodes(), domains.per_node()), (16, 2, 8));
        assert_eq!(domains.meet(0, 8), Some(Level::Machine));
    }
    // A task for each node, a context for each of its threads.
    let affinities = Affinities { map: TaskMap::new(3, 1, MapOrder::NodesFirst).unwrap(), harts: harts() };
    let threads = Members::world(population(3, 8), 0..8).unwrap();
    let domains = affinities.domains(&threads, RADIX).unwrap();
    assert_eq!(LEVELS.map(|level| domains.count(level)), [12, 6, 6, 3, 1]);
    assert_eq!(domains.meet(9, 11), Some(Level::Chip));
    let upper = Members::world(population(3, 8), 4..8).unwrap();
    assert_eq!(affinities.domains(&upper, RADIX).unwrap().count(Level::Processor), 3);
    let many = Members::world(population(3, 12), 0..12).unwrap();
    assert_eq!(affinities.domains(&many, RADIX), None);
    let one = Members::world(population(3, 8), 2..3).unwrap();
    assert!(!affinities.domains(&one, RADIX).unwrap().matter());
}

/// Ranges are what rows and columns of grids, halves of a split, groups of ARMCI and teams of OpenSHMEM are.
#[test]
fn a1_a2_domains_of_ranges_and_of_several_contexts_are_those_that_the_kernels_places_say() {
    use crate::endpoint::ClientId;
    use crate::geometry::{Members, Population};
    let (nodes, harts) = (3, &*harts([2, 1, 2, 2]).leak());
    let population = Population { client: ClientId(0), tasks: 24, contexts: 3 };
    for order in [MapOrder::TasksFirst, MapOrder::NodesFirst] {
        let map = TaskMap::new(nodes, 8, order).unwrap();
        let affinities = Affinities { map, harts };
        let mut several = 0;
        for (first, count, stride) in [
            (0, 24, 1),
            (0, 12, 2),
            (1, 12, 2),
            (8, 16, 1),
            (8, 8, 1),
            (2, 3, 8),
            (1, 8, 3),
            (0, 2, 4),
            (3, 2, 1),
        ] {
            for contexts in [0..1, 1..3, 0..3] {
                let members = Members::range(population, contexts.clone(), first, count, stride).unwrap();
                let Some(domains) = affinities.domains(&members, RADIX) else { continue };
                several += usize::from(contexts.len() > 1 && domains.per_node() as usize > contexts.len());
                assert_eq!(domains.size(), members.size());
                let place = |rank| map.place(members.endpoint(rank).unwrap().task()).unwrap();
                for (a, b) in (0..members.size()).flat_map(|a| (0..members.size()).map(move |b| (a, b))) {
                    let (one, other) = (place(a), place(b));
                    let met = harts[one.local as usize].meet(harts[other.local as usize]);
                    let met = if one.node == other.node { met } else { Level::Machine };
                    assert_eq!(
                        domains.meet(a, b),
                        Some(met),
                        "{first} {count} {stride} {contexts:?}: {a}, {b}"
                    );
                }
                let phases = [(Collective::Reduce, 1), (Collective::Allgather, 2), (Collective::Gather, 1)];
                for (collective, phases) in phases {
                    let root = if collective.is_rooted() { domains.size() / 2 } else { 0 };
                    let outcome = perform(&domains, collective, Algorithm::Affinity, root);
                    for level in LEVELS {
                        let least = phases * (domains.count(level) as usize - 1);
                        assert_eq!(
                            crossings(&domains, &outcome, level),
                            least,
                            "{collective:?} at {level:?}"
                        );
                    }
                }
            }
        }
        assert!(several >= 4, "{several} geometries of several contexts");
        // Nodes that have different ones.
        let ragged = Members::range(population, 0..1, 1, 11, 2).unwrap();
        assert_eq!(affinities.domains(&ragged, RADIX), None);
    }
}

#[test]
fn a6_crossings_are_counted_by_where_ends_meet() {
    let mut crossings = Crossings::default();
    for level in [Level::Core, Level::Chip, Level::Chip, Level::Machine] {
        crossings.count(level);
    }
    assert_eq!(LEVELS.map(|level| crossings.met(level)), [1, 2, 0, 0, 1]);
    assert_eq!(LEVELS.map(|level| crossings.across(level)), [3, 1, 1, 1, 0]);
    let earlier = crossings;
    crossings.count(Level::Node);
    assert_eq!(LEVELS.map(|level| crossings.since(&earlier).across(level)), [1, 1, 1, 0, 0]);
}
