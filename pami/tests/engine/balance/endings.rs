//! How operations end, and what comes before and behind them (SPEC F-1, L-1, L-3, D-8).

use super::*;
use pami::Put;
use pami::device::Arrival;
use std::sync::atomic::{AtomicUsize, Ordering};

const REFUSED: Result<(), OperationError> = Err(OperationError::Region(RegionFault::Rights));

#[test]
fn l1_an_answer_never_comes_before_the_origin_has_done_its_part() {
    let rules: &[Rule] = leak([Rule {
        element: None,
        from_bytes: 0,
        origin: SubOperations::all(),
        chunks: 990,
        others: SubOperations::empty(),
    }]);
    let count = 1 << 18;
    let mut stage = pair(true);
    let region = region(&mut stage, &vec![0; 4 * count]);
    let message = filled(&1i32.to_ne_bytes().repeat(count)).share();
    let sum = process(stage.at(1), &region, &message, Recipe::sum(RecipeElement::I32), Split::Rules(rules));
    stage.process(0, Process { remote_done: stage.done(1), ..sum });
    stage.fence(0, 1, 2);
    // The target is quick: it has advanced for each advance of the origin, which takes many to place its part.
    (0..1000).for_each(|_| stage.turn(&[1, 0]));
    assert_eq!(stage.told.list(), [(1, None, Ok(())), (2, None, Ok(()))]);
    assert_eq!(stage[0].counters().protocol_errors, 0);
    assert_eq!(bytes(region.memory()), 1i32.to_ne_bytes().repeat(count));
}

#[test]
fn f1_a_fence_covers_what_is_processed_and_a_put_and_a_get_behind_it_come_later() {
    for (local, split) in [false, true]
        .into_iter()
        .flat_map(|local| [Split::TargetOnly, Split::OriginOnly].map(|split| (local, split)))
    {
        let mut stage = pair(local);
        let count = 30 * MTU / 8;
        let region = region(&mut stage, &f64s(&vec![1.0; count]));
        let message = filled(&f64s(&vec![2.0; count])).share();
        let (to, handle) = (stage.at(1), region.handle());
        stage.process(0, process(to, &region, &message, Recipe::accumulate(Factor::F64(0.5)), split));
        stage.fence(0, 1, 1);
        if !local || split == Split::TargetOnly {
            stage.advance(0, 50);
            assert_eq!(stage.ends(), [], "the target has processed nothing");
        }
        stage.quiet();
        assert_eq!(stage.ends(), [(1, None, Ok(()))]);
        assert_eq!(bytes(region.memory()), f64s(&vec![2.0; count]));
        stage.put(0, put(to, handle, 8, Payload::Static(f64s(&[9.0]).leak())));
        let into = filled(&[0; 24]).share();
        assert_eq!(stage[0].get(get(to, handle, 0, &into, 24)), Ok(()));
        stage.quiet();
        assert_eq!(bytes(&into), f64s(&[2.0, 9.0, 2.0]));
    }
}

#[test]
fn l3_a_refusal_is_told_once_and_nothing_was_changed() {
    for (local, split) in [false, true]
        .into_iter()
        .flat_map(|local| [Split::TargetOnly, Split::OriginOnly, Split::Advice].map(|split| (local, split)))
    {
        let mut stage = pair(local);
        idle(&stage, 1000, 1000);
        let all = f64s(&vec![1.0; 20 * MTU / 8]);
        let region = stage.region(1, &all, Rights::READ | Rights::WRITE);
        let message = filled(&all).share();
        start(&mut stage, &region, &message, Recipe::sum(RecipeElement::F64), split);
        stage.quiet();
        assert_eq!(stage.ends(), [(1, None, Ok(())), (2, None, REFUSED)], "{local} {split:?}");
        assert_eq!(bytes(region.memory()), all);
        assert!(message.reclaim().is_ok());
    }
}

#[test]
fn l1_what_cannot_be_done_is_not_taken() {
    use RegionFault::{Bounds, Foreign, Unaligned};
    let mut stage = pair(false);
    let of_64 = region(&mut stage, &[0; 64]);
    let message = filled(&[0; 64]).share();
    let (me, to) = (stage.at(0), stage.at(1));
    let of = |element| process(to, &of_64, &message, Recipe::sum(element), Split::TargetOnly);
    let (single, double) = (|| of(RecipeElement::F32), || of(RecipeElement::F64));
    for (process, expected) in [
        (Process { range: 0..65, ..single() }, SendError::Range),
        (Process { range: 0..7, ..single() }, SendError::Range),
        (Process { offset: 4, range: 0..8, ..double() }, SendError::Region(Unaligned)),
        (Process { offset: 8, ..double() }, SendError::Region(Bounds)),
        (Process { target: me, ..double() }, SendError::Region(Foreign)),
    ] {
        assert_eq!(stage[0].process(process), Err(expected));
    }
    // Half a word at the end of the memory cannot be changed with the other half.
    let broken = region(&mut stage, &[0; 60]);
    let sum = process(to, &broken, &message, Recipe::sum(RecipeElement::I32), Split::TargetOnly);
    let remote_done = stage.done(0);
    stage.process(0, Process { range: 0..60, remote_done, ..sum });
    stage.quiet();
    assert_eq!(stage.ends()[0].2, Err(OperationError::Region(Unaligned)));
}

#[test]
fn d8_processing_at_a_target_that_dies_ends() {
    for split in [Split::TargetOnly, Split::Advice] {
        let mut stage = pair(false);
        let region = region(&mut stage, &[0; 64]);
        let message = filled(&[0; 64]).share();
        start(&mut stage, &region, &message, Recipe::sum(RecipeElement::F64), split);
        stage.turn(&[0]);
        stage.world.kill(1);
        stage.quiet_of(&[0]);
        let ended = stage.ends().into_iter().find(|end| end.0 == 2).map(|end| end.2);
        assert_eq!(ended, Some(Err(OperationError::NodeDead(1))), "{split:?}");
        assert!(message.reclaim().is_ok());
    }
}

#[test]
fn l1_no_addition_is_lost_between_an_origin_in_place_and_the_target() {
    const ROUNDS: usize = 40;
    let mut stage = tasks(3, true, |client| client);
    let count = 300;
    let region = stage.region(2, &vec![0; 4 * count], Rights::all());
    let to = stage.at(2);
    let [first, second, target] = &mut stage.contexts[..] else { unreachable!() };
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (origin, split) in [(first, Split::OriginOnly), (second, Split::TargetOnly)] {
            let (region, done) = (&region, &done);
            scope.spawn(move || {
                let message = filled(&1i32.to_ne_bytes().repeat(count)).share();
                let told = Told::new();
                for round in 0..ROUNDS {
                    let sum = process(to, region, &message, Recipe::sum(RecipeElement::I32), split);
                    assert_eq!(origin.process(Process { remote_done: told.done(0), ..sum }), Ok(()));
                    while told.len() <= round {
                        origin.advance();
                    }
                }
                done.fetch_add(1, Ordering::Release);
            });
        }
        while done.load(Ordering::Acquire) < 2 {
            target.advance();
        }
    });
    assert_eq!(bytes(region.memory()), (2 * ROUNDS as i32).to_ne_bytes().repeat(count));
}

#[test]
fn d9_l3_a_chunk_that_is_not_what_it_says_or_belongs_between_two_elements_adds_nothing() {
    let mut stage = pair(false);
    let before: Vec<u8> = (0..64).collect();
    let region = region(&mut stage, &before);
    let message = filled(&1i64.to_ne_bytes()).share();
    start(&mut stage, &region, &message, Recipe::sum(RecipeElement::I64), Split::TargetOnly);
    stage.quiet_of(&[0]);
    let to = stage.at(1);
    let chunk = stage.world.lock().port(to).reception.pop_front().expect("the origin sent it");
    let [mut between, mut lent] = [chunk.header().to_vec(), chunk.header().to_vec()];
    between[8] += 4;
    // It says that its elements are lent, and has them with it.
    lent[14] |= 0x40;
    for (header, protocol_errors) in [(between, 0), (lent, 1)] {
        stage.forge(chunk.envelope(), &header, chunk.data());
        stage.turn(&[1]);
        let seen = (bytes(region.memory()), stage[1].counters().protocol_errors);
        assert_eq!(seen, (before.clone(), protocol_errors));
    }
    stage.world.forge(chunk);
    stage.quiet();
    assert_ne!(bytes(region.memory()), before, "as it was it is taken");
}

#[test]
fn l3_p7_a_put_or_a_processed_message_is_answered_over_the_network_only_if_somebody_asked() {
    const COUNT: usize = 3 * MTU / 8;
    for (split, told) in
        [Split::TargetOnly, Split::OriginOnly].into_iter().flat_map(|split| [(split, false), (split, true)])
    {
        let mut stage = pair(false);
        let region = region(&mut stage, &f64s(&vec![1.0; COUNT]));
        let message = filled(&f64s(&vec![2.0; COUNT])).share();
        let (to, handle) = (stage.at(1), region.handle());
        let asks = |cookie| if told { stage.done(cookie) } else { None };
        let (processed, placed) = (asks(2), asks(3));
        let sum = process(to, &region, &message, Recipe::accumulate(Factor::F64(0.5)), split);
        stage.process(0, Process { local_done: stage.done(1), remote_done: processed, ..sum });
        // The memory is the caller's before the target has advanced.
        stage.advance(0, 200);
        assert_eq!(stage.ends(), [(1, None, Ok(()))]);
        stage.fence(0, 1, 4);
        stage.advance(0, 50);
        assert_eq!(stage.ends(), [], "the target has processed nothing");
        stage.quiet();
        assert_eq!(bytes(region.memory()), f64s(&vec![2.0; COUNT]));
        let ends: Vec<_> = if told { vec![2, 4] } else { vec![4] };
        assert_eq!(stage.cookies(), ends);
        let to_both = Payload::Static(f64s(&vec![9.0; COUNT]).leak());
        stage.put(0, Put { remote_done: placed, ..put(to, handle, 0, to_both) });
        stage.quiet();
        assert_eq!(bytes(region.memory()), f64s(&vec![9.0; COUNT]));
        assert_eq!(stage.cookies().len(), usize::from(told));
        let answers = [Kind::Ack, Kind::Refused, Kind::Reply].map(|kind| stage.count(kind));
        assert_eq!(answers, if told { [1, 0, 1] } else { [0; 3] }, "{split:?}");
        assert!(message.reclaim().is_ok());
        assert_eq!([stage.destroy(0), stage.destroy(1)], [Ok(()); 2]);
    }
}

/// One of two messages that go as one may want to hear of it: whichever it is, it does.
#[test]
fn l1_l3_what_was_merged_is_answered_if_either_asked() {
    for told in [[false, false], [true, false], [false, true]] {
        let mut stage = pair(false);
        let region = region(&mut stage, &[0; 64]);
        let message = filled(&1i64.to_ne_bytes().repeat(8)).share();
        for (number, told) in told.into_iter().enumerate() {
            let remote_done = if told { stage.done(number) } else { None };
            let sum = process(stage.at(1), &region, &message, Recipe::sum(RecipeElement::I64), Split::Advice);
            stage.process(0, Process { remote_done, ..sum });
        }
        stage.quiet();
        assert_eq!((stage.count(Kind::Chunk), bytes(region.memory())), (1, 2i64.to_ne_bytes().repeat(8)));
        assert_eq!(stage.count(Kind::Ack), usize::from(told != [false; 2]));
        let wanted: Vec<_> = (0..2).filter(|&number| told[number]).collect();
        assert_eq!(stage.cookies(), wanted);
        assert!(message.reclaim().is_ok());
        assert_eq!(stage.destroy(0), Ok(()));
    }
}
