//! What collectives' messages cost: packets, and the time of those that wait for them.

use crate::machine::Step;
use crate::stage::{Case, Stage};
use pami::collective::engine::PROBE_NS;
use pami::collective::{Algorithm, Collective};
use pami::packet::Kind;
use pami::{Collect, OperationError, WORLD};

fn case(what: Collective, algorithm: Algorithm, size: u32, len: usize) -> Case {
    let algorithm = Some(algorithm);
    Case { geometry: WORLD, what, algorithm, size, root: 0, len, in_place: false, salt: 3, ..Case::default() }
}

#[test]
fn g3_short_data_takes_one_packet_and_longer_data_three_and_a_get_whatever_its_length() {
    // A packet has room for 59 words. What is longer is cleared, offered, got and taken.
    for (words, packets, gets) in [(1, 1, 0), (59, 1, 0), (60, 3, 1), (118, 3, 1), (119, 3, 1), (5000, 3, 1)]
    {
        for seed in 0..10 {
            let mut stage = Stage::new(2, 1, 1, seed);
            let members = stage.everyone();
            let case = case(Collective::Allreduce, Algorithm::RecursiveDoubling, 2, words);
            stage.play(&[(case, members)]);
            let count = |kind| stage.world.count(kind);
            let counted = (count(Kind::Collective), count(Kind::Get));
            assert_eq!(counted, (2 * packets, 2 * gets), "{words} words");
        }
    }
    // Without a region one is cleared, and goes in as many as it fills.
    for (words, packets) in [(60, 3), (118, 3), (119, 4)] {
        let mut stage = Stage::new(2, 1, 1, 11);
        (0..2).for_each(|node| stage.world.lock().unit(node).limit = Some(0));
        let members = stage.everyone();
        let case = case(Collective::Allreduce, Algorithm::RecursiveDoubling, 2, words);
        stage.play(&[(case, members)]);
        assert_eq!(stage.world.count(Kind::Collective), 2 * packets, "{words} words");
    }
}

#[test]
fn g3_data_that_was_cleared_before_it_is_there_goes_at_once() {
    // Offered to be got, or in packets.
    for (regions, packets) in [(16, 1), (0, 2)] {
        let mut stage = Stage::new(2, 1, 1, 4);
        stage.world.lock().unit(0).limit = Some(regions);
        let case = case(Collective::Broadcast, Algorithm::Binomial, 2, 100);
        for rank in [1, 0] {
            stage.start(rank as u32, case, rank);
            if rank == 1 {
                stage.rest();
                assert_eq!(stage.world.count(Kind::Collective), 1);
            }
        }
        // The root hears of nothing more before all that it has to send leaves.
        stage.contexts[0].advance();
        stage.contexts[0].advance();
        while stage.step(|step| matches!(step, Step::Send((_, 0, _)))) {}
        assert_eq!(stage.world.count(Kind::Collective), 1 + packets);
        // With its data in packets it is done; else when that was taken.
        let ended: &[_] = if regions > 0 { &[] } else { &[(0, Ok(()))] };
        assert_eq!(stage.results(), ended);
        stage.until(if regions > 0 { 2 } else { 1 });
        stage.all_good();
    }
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
            stage.world.lock().now += PROBE_NS;
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
