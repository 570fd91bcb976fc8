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
