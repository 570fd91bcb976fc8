//! Long data of collectives, got from where it lies to where it is wanted (SPEC Q-2).

use crate::deaths::awaited;
use crate::machine::Step;
use crate::stage::{Case, LIMITS, Stage, bytes, words};
use crate::stray_collectives::forge;
use pami::collective::{Algorithm as A, Collective as C};
use pami::packet::Kind;
use pami::{Collect, CollectError, Limits, OperationError};

/// Words of what each member sends.
const LEN: usize = 3001;
const SIZE: u32 = 4;

const OFFER: u8 = 5;
const TAKEN: u8 = 9;

fn case(what: C, algorithm: A) -> Case {
    Case { what, algorithm: Some(algorithm), size: SIZE, root: 1, len: LEN, ..Case::default() }
}

/// Bytes in packets, bytes that were got.
fn moved(stage: &Stage) -> (usize, usize) {
    let state = stage.world.lock();
    (state.carried, state.got)
}

fn regions(stage: &Stage, nodes: u32) -> usize {
    (0..nodes).map(|node| stage.world.lock().unit(node).regions()).sum()
}

#[test]
fn q2_long_data_is_got_from_where_it_lies_into_its_place_and_copied_nowhere_else() {
    // With how many messages of all that a member sends, in all of it.
    let cases = [
        (C::Broadcast, A::Binomial, 3),
        (C::Scatter, A::Flat, 3),
        (C::Gather, A::Flat, 3),
        (C::Allgather, A::Ring, 12),
        (C::Alltoall, A::Pairwise, 12),
        (C::Reduce, A::Binomial, 3),
        (C::Allreduce, A::RecursiveDoubling, 8),
    ];
    for per_node in [1, SIZE] {
        for (seed, (what, algorithm, messages)) in (1..).zip(cases) {
            let mut stage = Stage::new(SIZE, per_node, 1, seed);
            let members = stage.everyone();
            stage.play(&[(case(what, algorithm), members)]);
            // One get for each message; within a node it is copied in parts, by nobody twice.
            assert_eq!(moved(&stage), (0, messages * 8 * LEN), "{what} with {per_node} on a node");
            assert_eq!(stage.count(Kind::Get), if per_node == 1 { messages } else { 0 }, "{what}");
            assert_eq!((regions(&stage, SIZE / per_node), stage.protocol_errors()), (0, 0), "{what}");
            // What tells that a node has no region left.
            let mut stage = Stage::new(SIZE, per_node, 1, seed);
            (0..SIZE / per_node).for_each(|node| stage.world.lock().unit(node).limit = Some(0));
            stage.play(&[(case(what, algorithm), members)]);
            assert_eq!(moved(&stage), (messages * 8 * LEN, 0), "{what} in packets");
        }
    }
}

#[test]
fn q2_r1_more_messages_than_can_be_got_at_once_and_more_regions_than_there_are_take_longer() {
    const MANY: u32 = 40;
    for (per_node, seed) in [(1, 1), (MANY, 2)] {
        let mut stage = Stage::with(MANY, per_node, 1, seed, Limits { early: 512, ..LIMITS });
        let members = stage.everyone();
        let long = |what, root| Case { size: MANY, root, len: 200, ..case(what, A::Flat) };
        // Regions of eight collectives of each member are more than a node has.
        let cases: Vec<_> = (0..8)
            .flat_map(|root| [(long(C::Gather, root), members), (long(C::Scatter, root), members)])
            .collect();
        stage.play(&cases);
        assert_eq!(regions(&stage, MANY / per_node), 0);
        let (carried, got) = moved(&stage);
        assert_eq!(carried + got, cases.len() * 39 * 1600);
        assert!(got > 0 && (per_node == 1 || carried > 0), "{carried} carried, {got} got");
    }
}

#[test]
fn q2_r2_a_sender_waits_for_whom_it_has_offered_its_data_to() {
    let (mut stage, _outputs) = being_got(9);
    stage.world.stepped();
    let nodes = awaited(&mut stage, 0);
    assert!(!nodes.is_empty() && nodes.iter().all(|&node| node == 1), "{nodes:?}");
}

/// Three members of a flat broadcast from the first, until the second gets the data. Outputs of the others.
fn being_got(seed: u64) -> (Stage, [pami::Shared; 2]) {
    let mut stage = Stage::new(3, 1, 1, seed);
    let case = Case { root: 0, size: 3, ..case(C::Broadcast, A::Flat) };
    stage.start(0, case, 0);
    let outputs = [1, 2].map(|rank| stage.start(rank, case, rank as usize).unwrap());
    let under_way = |step: &Step| !matches!(step, Step::Answer(0, 1));
    stage.run(&[0, 1, 2], under_way);
    assert_eq!((stage.count(Kind::Get), stage.results()), (2, vec![(2, Ok(()))]));
    (stage, outputs)
}

#[test]
fn q2_memory_is_the_callers_alone_when_a_collective_has_failed() {
    let (mut stage, [output, _]) = being_got(3);
    assert_eq!(regions(&stage, 1), 1);
    // The sender hears that another member gave up.
    let peer = stage.at(2);
    let abandoned = Err(OperationError::Abandoned { rank: 2, reason: 7 });
    for to in [0, 1] {
        abort(&mut stage, to, peer);
    }
    stage.run(&[0, 1], |step| !matches!(step, Step::Answer(0, 1)));
    // It has its memory back; the get is not over, so its receiver has not.
    assert_eq!((regions(&stage, 1), stage.results()), (0, vec![(0, abandoned)]));
    stage.run(&[0, 1], |_| true);
    assert_eq!(stage.results(), [(1, abandoned)]);
    let left = bytes(&output);
    assert!(output.reclaim().is_ok(), "nobody writes it any more, {} bytes", left.len());
}

/// A packet that says that member 2 has given the broadcast up, at the member of a context.
fn abort(stage: &mut Stage, to: usize, peer: pami::Endpoint) {
    let label = [0, 0, 0, 2 | 7 << 16, 2];
    if to == 0 {
        return forge(stage, peer, crate::stray_collectives::ABORT, label, &[]);
    }
    stage.contexts.swap(0, to);
    forge(stage, peer, crate::stray_collectives::ABORT, label, &[]);
    stage.contexts.swap(0, to);
}

#[test]
fn q2_r2_what_is_got_from_a_node_that_dies_ends_and_its_numbers_are_free_again() {
    // Three nodes of eight tasks; the last task of the second gets from all of the third, as many as it can at once.
    let mut stage = Stage::new(24, 8, 1, 4);
    let gather = Case { root: 15, size: 24, ..case(C::Gather, A::Flat) };
    (15..24).for_each(|rank| _ = stage.start(rank, gather, rank as usize));
    stage.run(&[15, 16, 17, 18, 19, 20, 21, 22, 23], |step| !matches!(step, Step::Answer(2, 1)));
    assert_eq!((stage.count(Kind::Get), stage.results()), (8, vec![]));
    stage.world.kill(2);
    stage.run(&[0, 15], |_| true);
    assert_eq!(stage.results(), [(15, Err(OperationError::NodeDead(2)))]);
    let pair = stage.listed(&[15, 0]);
    let id = stage.create(1, pair, None);
    let case = Case { geometry: id, size: 2, root: 1, ..case(C::Broadcast, A::Flat) };
    stage.play(&[(case, pair)]);
    assert_eq!(stage.count(Kind::Get), 9);
}

#[test]
fn d9_an_offer_of_nothing_that_was_asked_for_is_a_stray_and_one_of_no_region_gets_nothing() {
    let mut stage = Stage::new(2, 1, 1, 5);
    let case = Case { root: 1, size: 2, ..case(C::Broadcast, A::Flat) };
    let output = stage.start(0, case, 0).unwrap();
    let peer = stage.at(1);
    // The receive's label, from what clears it.
    let digest = {
        stage.contexts[0].advance();
        let first = stage.world.lock().steps()[0];
        stage.world.lock().step(first);
        let mut state = stage.world.lock();
        let clear = state.port(peer).reception.front().expect("a clear");
        let header = pami::device::Arrival::parts(clear).0;
        [3, 4].map(|at: usize| u32::from_le_bytes(header[4 * at..][..4].try_into().unwrap()))
    };
    let [tag, _] = digest;
    forge(&mut stage, peer, OFFER, [0, 0, 0, tag + 1, 0], &[]);
    forge(&mut stage, peer, TAKEN, [0, 0, 0, tag, 0], &[]);
    forge(&mut stage, peer, OFFER, [0, 0, 0, tag, 0], &[1]);
    assert_eq!(stage.contexts[0].counters().protocol_errors, 3);
    // Generation 0 is no region's.
    forge(&mut stage, peer, OFFER, [0, 0, 0, tag, 3], &[]);
    stage.run(&[0], |_| true);
    assert_eq!((stage.counts(), words(&output)[0]), ((0, 0), crate::stage::POISON));
    // Who gives the collective up tells.
    stage.abandon(1, 5, 1);
    stage.run(&[0, 1], |_| true);
    let abandoned = Err(OperationError::Abandoned { rank: 1, reason: 5 });
    assert_eq!(stage.results(), [(0, abandoned), (1, abandoned)]);
}

#[cfg(not(miri))]
#[test]
fn q2_memory_beyond_what_message_units_count_is_refused() {
    let mut stage = Stage::new(1, 1, 1, 6);
    // Nobody looks at it.
    let mut long = vec![0; (1 << 32) + 8];
    for (len, refused) in [(u32::MAX as usize, Ok(())), (1 << 32, Err(CollectError::TooLong))] {
        pami::Shared::scope(&mut long[..len], |long| {
            let done = stage.done(0).unwrap();
            let barrier = Case::default().call([None, None], done);
            let called = stage.contexts[0].collect(Collect { input: Some((long.clone(), 0)), ..barrier });
            assert_eq!(called, refused, "{len}");
            stage.rest();
        });
    }
}
