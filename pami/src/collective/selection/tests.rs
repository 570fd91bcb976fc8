use super::*;
use crate::collective::catalogue::CATALOGUE;
use crate::collective::cost::{COSTS, CROWDED_COSTS, Costs, MEMORY_COSTS, SHORT_LIMIT};
use crate::collective::need::Need;
use proptest::prelude::*;
use std::boxed::Box;
use std::vec::Vec;

/// Makes a condition false.
type TakeAway = fn(&mut Metadata);

/// Makes what a shape of a geometry or a call has true.
type Holds = fn(&mut Query);

/// A query of which only what is always so holds.
fn plain(collective: Collective, size: u32, bytes: usize) -> Query {
    let metadata = Metadata {
        size,
        commutative: false,
        equal_blocks: false,
        known_blocks: false,
        rectangle: false,
        domains: false,
        ordered_domains: false,
        node_ranges: false,
        class_route: false,
        tree_operator: false,
        aligned: false,
        bulletins: false,
        reach: false,
    };
    let placement = PlacementStatistics { size, per_node: 1, fanout: 3, hops: 3, diameter: 6, costs: &COSTS };
    let tuning = cost::tuning(&COSTS, 8);
    Query {
        collective,
        algorithms: AlgorithmList::ALL,
        bytes,
        element_len: 8,
        metadata,
        scratch: usize::MAX,
        in_place: false,
        moves: false,
        placement,
        tuning,
    }
}

/// As [`plain`], and all that an algorithm can ask for holds.
fn rich(collective: Collective, size: u32, bytes: usize) -> Query {
    let metadata = Metadata {
        size,
        commutative: true,
        equal_blocks: true,
        known_blocks: true,
        rectangle: true,
        domains: true,
        ordered_domains: true,
        node_ranges: true,
        class_route: true,
        tree_operator: true,
        aligned: true,
        bulletins: true,
        reach: true,
    };
    Query { metadata, ..plain(collective, size, bytes) }
}

#[test]
fn g2_every_collective_has_an_algorithm_that_is_always_valid() {
    for collective in Collective::ALL {
        for size in [1, 2, 3, 8, 100, 1 << 20] {
            for bytes in [0, 8, 1000, 1 << 20] {
                let query = plain(collective, size, bytes);
                let chosen = query.choose(None).unwrap();
                assert_eq!(chosen.collective, collective);
                assert!(chosen.check(&query.metadata).is_ok());
            }
        }
    }
}

#[test]
fn g2_lists_have_the_always_valid_ones_first_and_every_algorithm_once() {
    let mut listed = 0;
    for collective in Collective::ALL {
        let candidates: Vec<_> = plain(collective, 6, 64).candidates().collect();
        let always = candidates.iter().take_while(|candidate| candidate.entry.is_always_valid()).count();
        assert!(always > 0);
        assert!(candidates[..always].iter().all(|candidate| candidate.valid.is_ok()));
        assert!(candidates[always..].iter().all(|candidate| candidate.valid.is_err()));
        assert!(rich(collective, 8, 64).candidates().all(|candidate| candidate.valid.is_ok()));
        listed += candidates.len();
    }
    assert_eq!(listed, CATALOGUE.len());
}

#[test]
fn g2_each_condition_shuts_out_who_needs_it_and_nobody_else() {
    let shut: [(Need, TakeAway); 9] = [
        (Need::Commutative, |metadata| metadata.commutative = false),
        (Need::PowerOfTwo, |metadata| metadata.size = 12),
        (Need::EqualBlocks, |metadata| metadata.equal_blocks = false),
        (Need::Rectangle, |metadata| metadata.rectangle = false),
        (Need::Domains, |metadata| metadata.domains = false),
        (Need::ClassRoute, |metadata| metadata.class_route = false),
        (Need::TreeOperator, |metadata| metadata.tree_operator = false),
        (Need::NodeRanges, |metadata| metadata.node_ranges = false),
        (Need::Aligned, |metadata| metadata.aligned = false),
    ];
    for (need, take_away) in shut {
        for entry in CATALOGUE {
            let mut metadata = rich(entry.collective, 8, 64).metadata;
            take_away(&mut metadata);
            let expected = if entry.needs.contains(&need) { Err(need) } else { Ok(()) };
            assert_eq!(entry.check(&metadata), expected, "{entry:?}");
        }
    }
    let reduce = catalogue::entry(Collective::Reduce, Algorithm::Affinity).unwrap();
    let mut metadata = rich(Collective::Reduce, 8, 64).metadata;
    metadata.commutative = false;
    assert_eq!(reduce.check(&metadata), Ok(()));
    metadata.ordered_domains = false;
    assert_eq!(reduce.check(&metadata), Err(Need::CommutativeOrOrdered));
    metadata.commutative = true;
    assert_eq!(reduce.check(&metadata), Ok(()));
}

#[test]
fn g2_blocks_that_only_the_root_knows_go_flat() {
    let mut query = plain(Collective::Gather, 64, 8);
    assert_eq!(query.choose(None).unwrap().algorithm, Algorithm::Flat);
    query.metadata.known_blocks = true;
    assert_eq!(query.choose(None).unwrap().algorithm, Algorithm::Binomial);
}

#[test]
fn g2_short_vectors_take_few_rounds_and_long_ones_little_bandwidth() {
    use {Algorithm as A, Collective as C};
    let plain_one: Holds = |_| ();
    let commutes: Holds = |query| query.metadata.commutative = true;
    let equal: Holds = |query| (query.metadata.equal_blocks, query.metadata.known_blocks) = (true, true);
    let rectangle: Holds = |query| query.metadata.rectangle = true;
    let routed: Holds = |query| {
        let metadata = Metadata { class_route: true, node_ranges: true, aligned: true, ..query.metadata };
        query.metadata = metadata;
    };
    let shared: Holds = |query| {
        query.placement.per_node = 8;
        query.metadata = Metadata {
            class_route: false,
            bulletins: false,
            reach: false,
            ..rich(query.collective, query.metadata.size, 0).metadata
        };
    };
    for (collective, size, bytes, holds, expected) in [
        (C::Barrier, 64, 0, plain_one, A::Dissemination),
        (C::Barrier, 64, 0, shared, A::Affinity),
        (C::Barrier, 64, 0, routed, A::TreeNetwork),
        (C::Broadcast, 64, 8, plain_one, A::Nary),
        (C::Broadcast, 64, 1 << 24, plain_one, A::ScatterAllgather),
        (C::Broadcast, 64, 1 << 14, rectangle, A::Rectangle),
        (C::Broadcast, 64, 1 << 20, routed, A::TreeNetwork),
        (C::Broadcast, 64, 1 << 17, shared, A::Rectangle),
        (C::Broadcast, 64, 1 << 24, shared, A::ScatterAllgather),
        (C::Reduce, 64, 8, commutes, A::Nary),
        (C::Reduce, 1024, 1 << 17, commutes, A::Rabenseifner),
        (C::Reduce, 64, 1 << 24, commutes, A::Ring),
        (C::Reduce, 64, 1 << 24, plain_one, A::Pipeline),
        (C::Allreduce, 64, 8, plain_one, A::RecursiveDoubling),
        (C::Allreduce, 63, 8, plain_one, A::RecursiveDoubling),
        (C::Allreduce, 64, 1 << 24, plain_one, A::Rabenseifner),
        (C::Allreduce, 64, 1 << 24, commutes, A::Ring),
        (C::Allreduce, 64, 1 << 17, shared, A::Ring),
        (C::ReduceScatter, 64, 8, commutes, A::RecursiveHalving),
        (C::ReduceScatter, 64, 1 << 20, commutes, A::Ring),
        (C::Gather, 64, 8, equal, A::Binomial),
        // The root's own link is what takes long, so forwarding saves nothing.
        (C::Gather, 16, 1 << 20, equal, A::Flat),
        (C::Allgather, 64, 8, plain_one, A::RecursiveDoubling),
        // Bruck's rotation is the price of sizes that are no power of two.
        (C::Allgather, 63, 8, plain_one, A::Bruck),
        (C::Allgather, 64, 1 << 20, plain_one, A::Ring),
        (C::Allgather, 64, 8, routed, A::TreeNetwork),
        (C::Allgather, 64, 1 << 20, routed, A::Ring),
        (C::Allgather, 64, 1 << 20, shared, A::Ring),
        (C::Alltoall, 64, 8, equal, A::Bruck),
        (C::Alltoall, 64, 1 << 20, equal, A::Pairwise),
    ] {
        let mut query = plain(collective, size, bytes);
        holds(&mut query);
        let chosen = query.choose(None).unwrap().algorithm;
        assert_eq!(chosen, expected, "{collective}, {bytes} bytes among {size}");
    }
}

#[test]
fn g2_more_data_never_costs_less() {
    for collective in Collective::ALL {
        for size in [2, 7, 64, 1000] {
            for entry in catalogue::entries(collective) {
                let costs = [0, 1, 100, 10_000, 1 << 20, 1 << 30]
                    .map(|bytes| rich(collective, size, bytes).candidate(entry).cost);
                assert!(costs.is_sorted(), "{entry:?} among {size}: {costs:?}");
            }
        }
    }
}

#[test]
fn g2_the_tree_network_combines_small_vectors() {
    for per_node in [1, 2] {
        let mut query = rich(Collective::Allreduce, 16, 8);
        query.placement.per_node = per_node;
        query.metadata.bulletins = false;
        assert_eq!(query.choose(None).unwrap().algorithm, Algorithm::TreeNetwork);
    }
}

/// Measured with 4 and 16 processes on two cores: 27 for 67 us, 180 for 930 us.
#[test]
fn g2_h3_where_harts_share_cores_vectors_go_whole_in_few_steps() {
    for (costs, expected) in
        [(&MEMORY_COSTS, Algorithm::ScatterAllgather), (&CROWDED_COSTS, Algorithm::Binomial)]
    {
        for size in [4, 16] {
            let mut query = plain(Collective::Broadcast, size, 1 << 16);
            (query.metadata.equal_blocks, query.metadata.known_blocks) = (true, true);
            query.placement.costs = costs;
            assert_eq!(query.choose(None).unwrap().algorithm, expected, "{size}");
        }
    }
}

#[test]
fn g2_a_dearer_machine_costs_more() {
    let dearer: [fn(&mut Costs, &mut PlacementStatistics); 13] = [
        |costs, _| costs.overhead *= 2,
        |costs, _| costs.latency *= 2,
        |costs, _| costs.byte *= 2,
        |costs, _| costs.reduce *= 2,
        |costs, _| costs.hop *= 2,
        |costs, _| costs.local_latency *= 2,
        |costs, _| costs.local_byte *= 2,
        |costs, _| costs.copy *= 2,
        |costs, _| costs.tree_stage *= 2,
        |costs, _| costs.tree_byte *= 2,
        |costs, _| costs.eager_limit = 0,
        |_, placement| placement.hops *= 2,
        |_, placement| placement.diameter *= 2,
    ];
    for entry in CATALOGUE {
        for (size, bytes) in [(7, 1000), (64, 8), (64, 1 << 20), (1000, 1 << 14)] {
            let bytes = if entry.collective == Collective::Barrier { 0 } else { bytes };
            let mut query = rich(entry.collective, size, bytes);
            query.placement.per_node = 2;
            let cost = query.candidate(entry).cost;
            for (what, dearer) in dearer.iter().enumerate() {
                let (mut costs, mut placement) = (COSTS, query.placement);
                dearer(&mut costs, &mut placement);
                placement.costs = Box::leak(Box::new(costs));
                let other = Query { placement, ..query }.candidate(entry).cost;
                // Of the first four everything takes some that sends, of bytes if it sends any over links.
                let counts = match what {
                    1 | 2 if entry.algorithm == Algorithm::SharedMemory => false,
                    1 if entry.algorithm == Algorithm::DirectRead => false,
                    0 | 1 => true,
                    2 => bytes > 0 && entry.algorithm != Algorithm::TreeNetwork,
                    3 => entry.collective.reduces(),
                    _ => false,
                };
                let least = cost + u128::from(counts);
                assert!(
                    other >= least,
                    "{entry:?} among {size}, {bytes} bytes, figure {what}: {cost}, {other}"
                );
            }
        }
    }
}

#[test]
fn g2_runs_cost_what_each_of_them_costs() {
    let cost = |elements: usize| {
        let query = Query { scratch: 4 * 8, ..plain(Collective::Scan, 8, elements * 8) };
        query.candidates().next().unwrap().cost
    };
    assert_eq!(cost(8), 2 * cost(4));
    assert_eq!(cost(10), 2 * cost(4) + cost(2));
}

#[test]
fn g2_a_forced_algorithm_is_taken_or_refused() {
    let query = plain(Collective::Allgather, 6, 64);
    assert_eq!(query.choose(Some(Algorithm::Ring)).unwrap().algorithm, Algorithm::Ring);
    let doubling = Algorithm::RecursiveDoubling;
    assert_eq!(query.choose(Some(doubling)), Err(SelectionError::Unmet(doubling, Need::PowerOfTwo)));
    let pairwise = Algorithm::Pairwise;
    let unknown = SelectionError::Unknown(Collective::Allgather, pairwise);
    assert_eq!(query.choose(Some(pairwise)), Err(unknown));
}

#[test]
fn a5_ranks_that_share_a_node_use_their_domains() {
    use Collective::{Alltoall, Exscan, Scan};
    for collective in Collective::ALL {
        let mut query = rich(collective, 64, 64);
        (query.metadata.class_route, query.metadata.bulletins, query.metadata.reach) = (false, false, false);
        query.placement.per_node = 8;
        let by_affinity = query.choose(None).unwrap().algorithm == Algorithm::Affinity;
        // Where a tree of leaders takes longer it is not chosen: measured by `affinity --path`, 11270 instructions for 8659.
        assert_eq!(by_affinity, !matches!(collective, Alltoall | Scan | Exscan), "{collective}");
    }
}

/// Where ranks reach each other's memory a look at each is less than messages in rounds, with a core for each and without.
#[test]
fn h5_g2_what_is_short_is_shown_where_all_can_see_it() {
    use Collective::{Allgather, Allreduce, Alltoall, Barrier, Broadcast, Reduce};
    for costs in [&MEMORY_COSTS, &CROWDED_COSTS] {
        for size in [2, 4, 16] {
            for collective in [Barrier, Broadcast, Reduce, Allreduce, Allgather, Alltoall] {
                let bytes = if collective == Barrier { 0 } else { 8 };
                let mut query = rich(collective, size, bytes);
                query.placement.costs = costs;
                let chosen = query.choose(None).unwrap().algorithm;
                assert_eq!(chosen, Algorithm::SharedMemory, "{collective} among {size}");
            }
        }
    }
}

/// And what is long is read where it lies.
#[test]
fn h5_g2_what_is_long_is_read_where_it_lies() {
    use Collective::{Allgather, Allreduce, Alltoall, Broadcast, Reduce, ReduceScatter};
    for costs in [&MEMORY_COSTS, &CROWDED_COSTS] {
        for size in [2, 4, 16] {
            for collective in [Broadcast, Reduce, Allreduce, ReduceScatter, Allgather, Alltoall] {
                let mut query = rich(collective, size, 1 << 16);
                query.placement.costs = costs;
                query.metadata.bulletins = false;
                let chosen = query.choose(None).unwrap().algorithm;
                assert_eq!(chosen, Algorithm::DirectRead, "{collective} among {size}");
            }
        }
    }
}

#[test]
fn a5_blocks_go_by_affinity_from_any_root_and_however_ranks_are_numbered() {
    use Collective::{Allgather, Gather, Scatter};
    for (collective, most) in
        [(Gather, AFFINITY_LIMIT), (Scatter, AFFINITY_LIMIT), (Allgather, AFFINITY_LIMIT / 64)]
    {
        for (bytes, expected) in [(8, true), (most, true), (1 << 20, false)] {
            let mut query = rich(collective, 64, bytes);
            (query.metadata.class_route, query.metadata.bulletins, query.metadata.reach) =
                (false, false, false);
            (query.metadata.ordered_domains, query.metadata.node_ranges) = (false, false);
            query.placement.per_node = 8;
            let by_affinity = query.choose(None).unwrap().algorithm == Algorithm::Affinity;
            assert_eq!(by_affinity, expected, "{collective}, {bytes} bytes");
        }
    }
}

#[test]
fn a5_short_vectors_of_ranks_that_share_a_node_are_kept_to_their_domains_and_no_others() {
    for (per_node, bytes, unexpected) in
        [(2, AFFINITY_LIMIT, true), (2, AFFINITY_LIMIT + 1, false), (1, AFFINITY_LIMIT, false)]
    {
        let mut query = rich(Collective::Allreduce, 64, bytes);
        query.placement.per_node = per_node;
        let expected = if unexpected { 4 } else { query.candidates().count() };
        assert_eq!(query.permitted().count(), expected, "{bytes} bytes, {per_node} on a node");
    }
}

prop_compose! {
    /// Anything that can be asked.
    fn queries()(
        collective in 0..Collective::ALL.len(), size in 1u32..100_000, bytes in 0usize..1 << 26,
        holds in any::<[bool; 11]>(), per_node in 1u32..64, diameter in 1u32..64,
        costs in any::<[u16; 10]>(), eager_limit in 0usize..1 << 20, radix in 0u32..20, chunk in 0usize..100_000
    ) -> (Query, Costs) {
        let [commutative, equal_blocks, known_blocks, rectangle, domains, ordered, route, on_tree, aligned, reach, shows] =
            holds;
        let metadata = Metadata {
            size,
            commutative,
            equal_blocks,
            known_blocks,
            rectangle,
            domains,
            ordered_domains: domains && ordered,
            node_ranges: ordered,
            class_route: route,
            tree_operator: on_tree,
            aligned,
            bulletins: reach && shows,
            reach,
        };
        let hops = diameter.div_ceil(2);
        let placement = PlacementStatistics { size, per_node, fanout: per_node, hops, diameter, costs: &COSTS };
        let tuning = Tuning { radix, chunk };
        let collective = Collective::ALL[collective];
        let query = Query { metadata, placement, tuning, ..plain(collective, size, bytes) };
        let [overhead, latency, hop, byte, local_latency, local_byte, copy, reduce, tree_stage, tree_byte] =
            costs.map(u64::from);
        let costs = Costs {
            overhead, latency, hop, byte, local_latency, local_byte, copy, reduce, tree_stage, tree_byte,
            eager_limit,
        };
        (query, costs)
    }
}

proptest! {
    #[test]
    fn g2_no_permitted_algorithm_is_cheaper_than_the_one_that_is_chosen((query, costs) in queries()) {
        for costs in [&COSTS, &*Box::leak(Box::new(costs))] {
            let query = Query { placement: PlacementStatistics { costs, ..query.placement }, ..query };
            let chosen = query.choose(None).unwrap();
            let cost = query.candidate(chosen).cost;
            prop_assert_eq!(chosen.check(&query.metadata), Ok(()));
            prop_assert!(query.permitted().any(|entry| entry == chosen));
            for candidate in query.permitted().map(|entry| query.candidate(entry)) {
                prop_assert!(cost <= candidate.cost, "{} for {}", chosen.algorithm, candidate.entry.algorithm);
            }
            // What is kept out is kept out by affinity alone, which is then there.
            for candidate in query.candidates().filter(|candidate| candidate.valid.is_ok() && candidate.cost < cost) {
                prop_assert!(query.placement.per_node > 1 && query.passed_on() <= AFFINITY_LIMIT && query.metadata.domains);
                use Algorithm::{Affinity, DirectRead, SharedMemory, TreeNetwork};
                let beside = matches!(candidate.entry.algorithm, Affinity | DirectRead | SharedMemory | TreeNetwork);
                prop_assert!(!beside);
            }
        }
    }

    #[test]
    fn g2_an_algorithm_is_taken_if_forced_exactly_where_it_is_valid((query, _) in queries()) {
        for algorithm in Algorithm::ALL {
            let listed = query.candidates().find(|candidate| candidate.entry.algorithm == algorithm);
            let expected = match listed {
                None => Err(SelectionError::Unknown(query.collective, algorithm)),
                Some(Candidate { entry, valid, .. }) => {
                    valid.map(|()| entry).map_err(|unmet| SelectionError::Unmet(algorithm, unmet))
                }
            };
            prop_assert_eq!(query.choose(Some(algorithm)), expected);
        }
    }
}

#[test]
fn g8_long_data_is_divided_among_endpoints_and_short_data_is_not() {
    use Collective as C;
    for collective in [C::Broadcast, C::Reduce, C::Allreduce, C::Scatter, C::Gather, C::Allgather] {
        for size in [2, 8, 100] {
            for endpoints in [2, 4, 8] {
                let divided = |bytes| {
                    let mut query = rich(collective, size, bytes);
                    // There is one tree, and slices have no bulletins.
                    (query.metadata.class_route, query.metadata.bulletins, query.metadata.reach) =
                        (false, false, false);
                    query.divided(endpoints)
                };
                let which = std::format!("{collective:?} of {size} by {endpoints}");
                assert_eq!([8, SHORT_LIMIT].map(divided), [None; 2], "{which}");
                assert!(divided(4 << 20).is_some(), "{which}");
                // Once it pays, it does for all that is longer.
                let pays: Vec<_> = (0..23).map(|log| divided(1 << log).is_some()).collect();
                assert!(pays.is_sorted(), "{which}: {pays:?}");
            }
            assert_eq!(rich(collective, size, 4 << 20).divided(1), None);
        }
    }
    // The tree network is faster than two endpoints, and there is one of it.
    let (by_tree, beside_it) =
        (rich(C::Reduce, 100, 4 << 20).divided(2), rich(C::Reduce, 100, 4 << 20).divided(8));
    assert_eq!(by_tree, None);
    assert!(beside_it.is_some_and(|(algorithm, _)| algorithm != Algorithm::TreeNetwork));
    assert_eq!(rich(C::Scan, 8, 4 << 20).divided(4), None, "it has no slices");
    let unknown = Query { bytes: 0, ..rich(C::Scatter, 8, 4 << 20) };
    assert_eq!(unknown.divided(4), None, "members that do not know all blocks cannot agree");
}
