//! Who does what: advice, idle time, rules (SPEC L-1, L-2, L-4).

use super::*;

const REFUSED: Result<(), OperationError> = Err(OperationError::Region(RegionFault::Rights));

/// Of 20 packets' bytes that are accumulated by advice, those that an origin adds when it and its target are so idle.
fn placed_by_origin(origin: u16, target: u16) -> u64 {
    let count = 20 * MTU / 8;
    let mut stage = pair(true);
    idle(&stage, origin, target);
    let region = region(&mut stage, &vec![0; 8 * count]);
    let message = filled(&f64s(&vec![1.0; count])).share();
    start(&mut stage, &region, &message, Recipe::accumulate(Factor::F64(2.0)), Split::Advice);
    stage.quiet();
    let here = stage[0].counters().placed_bytes;
    assert_eq!(here + stage[1].counters().processed_bytes, 8 * count as u64);
    assert_eq!(bytes(region.memory()), f64s(&vec![2.0; count]));
    here
}

#[test]
fn l2_the_idler_an_origin_is_beside_its_target_the_more_it_does() {
    let all = 20 * MTU as u64;
    for (origin, target, expected) in [
        // A busy origin leaves all to the target.
        (0, 0, 0..1),
        (0, 500, 0..1),
        (0, 1000, 0..1),
        // Two that are idle do half each; a target with half as much time does half as much, and one with none nothing.
        (1000, 1000, 4000..6000),
        (1000, 500, 6200..7200),
        (1000, 0, all..all + 1),
    ] {
        let here = placed_by_origin(origin, target);
        assert!(expected.contains(&here), "{here} at {origin} and {target}");
    }
    let here = [1000, 750, 500, 250, 50, 0].map(|target| placed_by_origin(1000, target));
    assert!(here.is_sorted_by(|more, most| more < most), "{here:?}");
}

#[test]
fn l2_a_target_needs_what_rules_leave_it_of_any_chunk_and_nothing_that_the_origin_does_to_every_one() {
    let recipe = Recipe::accumulate(Factor::I32(3)).converted(Foreign::Message);
    let available = SubOperations::ADD | SubOperations::SCALE;
    for (local, chunks, count) in [false, true].into_iter().flat_map(|local| {
        let long = 20 * MTU / 4;
        [(1, long), (500, long), (999, long), (1000, long), (1000, 16), (1000, 10)]
            .map(|(chunks, count)| (local, chunks, count))
    }) {
        let rules: &[Rule] = leak([Rule {
            element: None,
            from_bytes: 0,
            origin: SubOperations::SWAP,
            chunks,
            others: SubOperations::empty(),
        }]);
        let mut stage = tasks(2, local, |client| client.sub_operations(available));
        let region = region(&mut stage, &vec![0; 4 * count]);
        let message = filled(&2i32.swap_bytes().to_ne_bytes().repeat(count)).share();
        start(&mut stage, &region, &message, recipe, Split::Rules(rules));
        stage.quiet();
        // Where one chunk is refused those are not added either that the target could have.
        let (ended, sum) = if chunks < 1000 { (REFUSED, 0) } else { (Ok(()), 6i32) };
        let what = format!("{local}, {chunks} of 1000 chunks of {count} elements");
        assert_eq!(stage.ends(), [(1, None, Ok(())), (2, None, ended)], "{what}");
        assert_eq!(bytes(region.memory()), sum.to_ne_bytes().repeat(count), "{what}");
    }
}

#[test]
fn l2_polls_that_find_nothing_are_idle_time_and_what_was_found_is_not() {
    const ROUND_NS: u64 = 100;
    let mut stage = pair(false);
    let world = stage.world;
    let idle = |context: &Context<_>| world.lock().port(context.endpoint()).idle_ns;
    let mut rounds = 0;
    // Each round takes so long; the first few in a row are not worth a look at the clock.
    stage[0].wait(|_| {
        world.lock().now += ROUND_NS;
        rounds += 1;
        rounds == 1000
    });
    let noted = idle(&stage[0]);
    assert!((900 * ROUND_NS..1000 * ROUND_NS).contains(&noted), "{noted}");
    // Work of an hour that comes between idle rounds.
    let slot = leak(WorkSlot::new());
    let run = leak(move |_: &mut Active<Port>, _: usize| {
        world.lock().now += 3_600_000_000_000;
        Progress::Done
    });
    let poster = stage[0].poster();
    stage[0].wait(|_| {
        world.lock().now += ROUND_NS;
        rounds += 1;
        if rounds == 1100 {
            assert!(poster.post(slot, Work { run, cookie: 0 }).is_ok());
        }
        rounds == 1200
    });
    let more = idle(&stage[0]) - noted;
    assert!((120 * ROUND_NS..200 * ROUND_NS).contains(&more), "{more}");
    assert_eq!(idle(&stage[1]), 0);
    stage.turn(&[1]);
    assert_eq!(idle(&stage[1]), 0, "the caller may have computed between two calls");
}

#[test]
fn l2_advice_is_asked_for_once_and_again_when_it_is_old() {
    let mut stage = pair(false);
    idle(&stage, 1000, 300);
    let available = SubOperations::OWN.complement();
    assert_eq!(stage[1].advice(), Advice { available, idle: 300 });
    let region = region(&mut stage, &[0; 64]);
    let message = filled(&[0; 64]).share();
    for (passed, asked) in [(0, 1), (ADVICE_NS, 1), (1, 2)] {
        stage.world.lock().now += passed;
        start(&mut stage, &region, &message, Recipe::sum(RecipeElement::I32), Split::Advice);
        stage.quiet();
        assert_eq!([Kind::AskAdvice, Kind::Advice].map(|kind| stage.count(kind)), [asked; 2]);
    }
    assert_eq!(stage[1].counters().processed_bytes, 3 * 64);
}

#[test]
fn l2_an_origin_does_without_advice_that_does_not_come() {
    let mut stage = pair(false);
    let region = region(&mut stage, &[0; 64]);
    let message = filled(&f64s(&[1.0; 8])).share();
    start(&mut stage, &region, &message, Recipe::sum(RecipeElement::F64), Split::Advice);
    let sent = |stage: &Stage| [Kind::AskAdvice, Kind::Chunk].map(|kind| stage.count(kind));
    // The target does not advance.
    stage.advance(0, 10);
    assert_eq!(sent(&stage), [1, 0]);
    stage.world.lock().now += 2 * ADVICE_NS;
    stage.turn(&[0]);
    assert_eq!(sent(&stage), [1, 1]);
    stage.quiet();
    assert_eq!(bytes(region.memory()), f64s(&[1.0; 8]));
}

#[test]
fn l2_what_a_target_does_not_have_is_done_at_the_origin_or_refused() {
    let recipe = Recipe::accumulate(Factor::F64(2.0));
    for (local, available, advised) in [
        (false, SubOperations::ADD, Ok(())),
        (true, SubOperations::ADD, Ok(())),
        (true, SubOperations::empty(), Ok(())),
        (false, SubOperations::empty(), REFUSED),
    ] {
        let mut stage = tasks(2, local, |client| client.sub_operations(available));
        let region = region(&mut stage, &[0; 64]);
        let message = filled(&f64s(&[1.0; 8])).share();
        for (split, expected) in [(Split::TargetOnly, REFUSED), (Split::Advice, advised)] {
            start(&mut stage, &region, &message, recipe, split);
            stage.quiet();
            let ends = stage.ends();
            assert_eq!(ends, [(1, None, Ok(())), (2, None, expected)], "{local} {available:?} {split:?}");
        }
        let expected = if advised.is_ok() { 2.0 } else { 0.0 };
        assert_eq!(bytes(region.memory()), f64s(&[expected; 8]));
    }
}

#[test]
fn l4_rules_say_who_does_how_many_chunks_of_which_messages() {
    let rules: &[Rule] = leak([
        Rule {
            element: Some(RecipeElement::I32),
            from_bytes: 0,
            origin: SubOperations::all(),
            chunks: 1000,
            others: SubOperations::empty(),
        },
        Rule {
            element: None,
            from_bytes: 4096,
            origin: SubOperations::all(),
            chunks: 250,
            others: SubOperations::empty(),
        },
    ]);
    // Chunks of 488 bytes: as much as a packet has room for.
    for (element, bytes, placed) in [
        (RecipeElement::I32, 64, 64),
        (RecipeElement::I64, 4088, 0),
        (RecipeElement::I64, 4096, 2 * 488),
        (RecipeElement::F32, 40 * 488, 10 * 488),
    ] {
        let mut stage = pair(true);
        let region = region(&mut stage, &vec![0; bytes]);
        let message = filled(&vec![0; bytes]).share();
        start(&mut stage, &region, &message, Recipe::sum(element), Split::Rules(rules));
        stage.quiet();
        assert_eq!(stage[0].counters().placed_bytes, placed, "{element:?}");
        assert_eq!(stage[1].counters().processed_bytes, bytes as u64 - placed);
    }
}

/// Within a node the message is added from where it lies; to a node whose memory is reached it goes in packets, as who holds it
/// there may die over it.
#[test]
fn h4_a_message_is_lent_to_tasks_of_the_node_alone() {
    let (count, recipe) = (20 * MTU / 4, Recipe::accumulate(Factor::I32(1)));
    for lives_here in [true, false] {
        let mut stage = pair(lives_here);
        stage.world.lock().near = true;
        let region = region(&mut stage, &vec![0; 4 * count]);
        let message = filled(&2i32.to_ne_bytes().repeat(count)).share();
        start(&mut stage, &region, &message, recipe, Split::TargetOnly);
        stage.quiet();
        assert_eq!(stage.ends(), [(1, None, Ok(())), (2, None, Ok(()))]);
        assert_eq!(bytes(region.memory()), 2i32.to_ne_bytes().repeat(count));
        assert_eq!(stage.world.lock().carried < 4 * count, lives_here);
    }
}

/// Two messages that wait to be added to the same elements go as one; a third with the next, if there is one.
#[test]
fn l1_messages_to_the_same_elements_are_merged_if_that_is_exact_or_wanted() {
    let (ints, floats) = (Recipe::sum(RecipeElement::I64), Recipe::sum(RecipeElement::F64));
    let accumulated = Recipe::accumulate(Factor::I64(-3));
    let (advice, target) = (Split::Advice, Split::TargetOnly);
    for (recipe, split, count, sent) in [
        (ints, advice, 2, 1),
        (ints, advice, 3, 2),
        (ints, advice, 4, 2),
        (accumulated, advice, 2, 1),
        (floats.merged(), advice, 2, 1),
        (floats, advice, 2, 2),
        (ints, target, 2, 2),
        (ints.converted(Foreign::Message), advice, 2, 2),
        (ints.combined(Combination::Max), advice, 2, 2),
    ] {
        let mut stage = pair(false);
        let region = region(&mut stage, &[0; 64]);
        let messages: Vec<_> = (0..count).map(|_| filled(&[0; 64]).share()).collect();
        for (number, message) in messages.iter().enumerate() {
            let (local_done, remote_done) = (stage.done(2 * number), stage.done(2 * number + 1));
            let operand = recipe.has_operand().then(|| Operand { memory: message.clone(), start: 0 });
            let all = process(stage.at(1), &region, message, recipe, split);
            stage.process(0, Process { operand, local_done, remote_done, ..all });
        }
        stage.quiet();
        assert_eq!(stage.count(Kind::Chunk), sent, "{recipe:?} {split:?} {count}");
        let mut ends = stage.ends();
        ends.sort_by_key(|end| end.0);
        assert_eq!(ends, (0..2 * count).map(|number| (number, None, Ok(()))).collect::<Vec<_>>());
        assert!(messages.into_iter().all(|message| message.reclaim().is_ok()), "{recipe:?}");
    }
}

#[test]
fn l1_what_was_merged_ends_as_the_message_that_took_it() {
    // The target has no addition: both are refused.
    let mut stage = tasks(2, false, |client| client.sub_operations(SubOperations::empty()));
    let region = region(&mut stage, &[0; 64]);
    let message = filled(&[1; 64]).share();
    for number in 0..2 {
        let (local_done, remote_done) = (stage.done(2 * number), stage.done(2 * number + 1));
        let all = process(stage.at(1), &region, &message, Recipe::sum(RecipeElement::I32), Split::Advice);
        stage.process(0, Process { local_done, remote_done, ..all });
    }
    stage.quiet();
    let mut ends = stage.ends();
    ends.sort_by_key(|end| end.0);
    assert_eq!(stage.count(Kind::Chunk), 1);
    let results: Vec<_> = ends.into_iter().map(|(_, _, result)| result).collect();
    assert_eq!([results[1], results[3]], [REFUSED; 2]);
    assert_eq!(bytes(region.memory()), [0; 64]);
}

/// A rule is for messages as they are begun; and what was merged may change once it was sent, though the target does not answer.
#[test]
fn l2_merged_messages_keep_their_rule_and_end_locally_without_their_target() {
    let rules: &[Rule] = leak([Rule {
        element: None,
        from_bytes: 0,
        origin: SubOperations::SCALE,
        chunks: 1000,
        others: SubOperations::empty(),
    }]);
    let mut stage = tasks(2, false, |client| client.sub_operations(SubOperations::ADD));
    let region = region(&mut stage, &[0; 64]);
    let message = filled(&1i32.to_ne_bytes().repeat(16)).share();
    // They stand in line behind one that waits for advice, which does not come.
    let none = filled(&[0; 64]).share();
    let first = process(stage.at(1), &region, &none, Recipe::sum(RecipeElement::F32), Split::Advice);
    stage.process(0, first);
    for number in 0..2 {
        let (local_done, remote_done) = (stage.done(number), stage.done(2 + number));
        let recipe = Recipe::accumulate(Factor::I32(3));
        let all = process(stage.at(1), &region, &message, recipe, Split::Rules(rules));
        stage.process(0, Process { local_done, remote_done, ..all });
    }
    stage.advance(0, 10);
    assert_eq!((stage.ends(), stage.count(Kind::Chunk)), (vec![], 0));
    stage.world.lock().now += 2 * ADVICE_NS;
    stage.advance(0, 10);
    let mut ends = stage.ends();
    ends.sort_by_key(|end| end.0);
    assert_eq!(ends, [(0, None, Ok(())), (1, None, Ok(()))]);
    assert_eq!(stage.count(Kind::Chunk), 2);
    stage.quiet();
    let mut ends = stage.ends();
    ends.sort_by_key(|end| end.0);
    assert_eq!(ends, [(2, None, Ok(())), (3, None, Ok(()))]);
    assert_eq!(bytes(region.memory()), 6i32.to_ne_bytes().repeat(16));
}
