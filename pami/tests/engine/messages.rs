//! What collectives' messages cost: packets, and the time of those that wait for them.

use crate::stage::{Case, Stage};
use pami::collective::engine::PATIENCE_NS;
use pami::collective::{Algorithm, Collective};
use pami::packet::Kind;
use pami::{Collect, OperationError, WORLD};

fn case(what: Collective, algorithm: Algorithm, size: u32, len: usize) -> Case {
    let algorithm = Some(algorithm);
    Case { geometry: WORLD, what, algorithm, size, root: 0, len, in_place: false, salt: 3, ..Case::default() }
}

#[test]
fn g3_short_data_takes_one_packet_and_longer_data_one_more_than_it_fills() {
    // A packet has room for 59 words.
    for (words, packets) in [(1, 1), (59, 1), (60, 3), (118, 3), (119, 4)] {
        for seed in 0..10 {
            let mut stage = Stage::new(2, 1, 1, seed);
            let members = stage.everyone();
            let case = case(Collective::Allreduce, Algorithm::RecursiveDoubling, 2, words);
            stage.play(&[(case, members)]);
            assert_eq!(stage.world.count(Kind::Collective), 2 * packets, "{words} words");
        }
    }
}

#[test]
fn g3_data_that_was_cleared_before_it_is_there_goes_at_once() {
    let mut stage = Stage::new(2, 1, 1, 4);
    let case = case(Collective::Broadcast, Algorithm::Binomial, 2, 100);
    for rank in [1, 0] {
        stage.start(rank as u32, case, rank);
        if rank == 1 {
            stage.rest();
            assert_eq!(stage.world.count(Kind::Collective), 1);
        }
    }
    // The root hears of nothing more, and is done.
    stage.contexts[0].advance();
    stage.contexts[0].advance();
    assert_eq!(stage.results(), [(0, Ok(()))]);
    stage.until(1);
}

#[test]
fn g3_members_that_differ_in_who_is_to_speak_first_find_out_in_time() {
    for lens in [[100, 10], [10, 100], [100, 101]] {
        let mut stage = Stage::new(2, 1, 1, lens[0] as u64);
        for (rank, len) in lens.into_iter().enumerate() {
            let case = case(Collective::Broadcast, Algorithm::Binomial, 2, len);
            stage.start(rank as u32, case, rank);
        }
        for _ in 0..3 {
            stage.rest();
            stage.world.lock().now += PATIENCE_NS;
        }
        stage.rest();
        // A root whose data was short is done with it.
        let ended = stage.results();
        assert_eq!(ended.len(), 2, "{lens:?}");
        assert!(matches!(ended[1].1, Err(OperationError::Mismatch(0 | 1))), "{lens:?}: {ended:?}");
    }
}

#[test]
fn n8_who_waits_for_the_others_only_looks_whether_something_came() {
    let mut stage = Stage::new(2, 1, 1, 6);
    let told = stage.told;
    let world = stage.world;
    for (rank, context) in stage.contexts.iter_mut().enumerate() {
        context.collect(Collect::new(WORLD, Collective::Barrier, told.done(rank).unwrap())).unwrap();
        if rank == 0 {
            (0..5).for_each(|_| _ = context.advance());
            let before = world.lock().drives;
            assert_eq!((0..1000).map(|_| context.advance()).sum::<usize>(), 0);
            assert!(world.lock().drives - before < 10);
        }
    }
    stage.until(2);
}
