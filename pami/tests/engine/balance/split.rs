//! Who does what: advice, idle time, rules (SPEC L-1, L-2, L-4).

use super::*;

/// Of 20 packets' bytes that are accumulated by advice, those that an origin adds when it and its target are so idle.
fn placed_by_origin(origin: u16, target: u16) -> u64 {
    let recipe = Recipe::accumulate(Factor::F64(2.0));
    let count = 20 * MTU / 8;
    let mut pair = pair(true);
    pair.idle(origin, target);
    let region = pair.region(&vec![0; 8 * count]);
    let message = filled(&f64s(&vec![1.0; count])).share();
    let process = process(pair.target.endpoint(), &region, &message, recipe, Split::Advice);
    assert_eq!(pair.origin.process(process), Ok(()));
    pair.advance();
    let here = pair.origin.counters().placed_bytes;
    assert_eq!(here + pair.target.counters().processed_bytes, 8 * count as u64);
    assert_eq!(bytes(region.memory()), f64s(&vec![2.0; count]));
    here
}

#[test]
fn l2_a_busy_origin_leaves_all_to_the_target() {
    assert_eq!([0, 500, 1000].map(|target| placed_by_origin(0, target)), [0; 3]);
}

#[test]
fn l2_an_idle_origin_and_an_idle_target_do_half_each() {
    let here = placed_by_origin(1000, 1000);
    assert!((4000..6000).contains(&here), "{here}");
}

#[test]
fn l2_an_idle_origin_does_all_that_a_busy_target_would_have_to() {
    assert_eq!(placed_by_origin(1000, 0), 20 * MTU as u64);
}

#[test]
fn l2_the_busier_the_target_the_more_is_done_at_the_origin() {
    let here = [1000, 750, 500, 250, 50, 0].map(|target| placed_by_origin(1000, target));
    assert!(here.is_sorted_by(|more, most| more < most), "{here:?}");
    // A target with half as much time does half as much.
    assert!((6200..7200).contains(&here[2]), "{here:?}");
}

#[test]
fn l2_rules_that_leave_a_target_what_it_does_not_have_in_some_chunks_end_with_its_refusal() {
    let recipe = Recipe::accumulate(Factor::I32(3)).converted(Foreign::Message);
    let available = SubOperations::ADD | SubOperations::SCALE;
    let count = 20 * MTU / 4;
    for (local, chunks) in [false, true].into_iter().flat_map(|local| [1, 500, 999].map(|part| (local, part)))
    {
        let rules: &[Rule] =
            leak([Rule { element: None, from_bytes: 0, origin: SubOperations::SWAP, chunks }]);
        let mut pair = pair_with(local, |client| client.sub_operations(available));
        let region = pair.region(&vec![0; 4 * count]);
        let message = filled(&1i32.to_ne_bytes().repeat(count)).share();
        let (ends, end) = ends();
        let to = pair.target.endpoint();
        let process =
            Process { remote_done: end(0), ..process(to, &region, &message, recipe, Split::Rules(rules)) };
        assert_eq!(pair.origin.process(process), Ok(()));
        pair.advance();
        let refused = Err(OperationError::Region(RegionFault::Rights));
        assert_eq!(*ends.lock().unwrap(), [(0, None, refused)], "{local}, {chunks} of 1000 chunks");
        // Nor are those added that it could have.
        assert_eq!(bytes(region.memory()), vec![0; 4 * count]);
    }
}

#[test]
fn l2_a_rule_that_leaves_a_target_no_more_than_it_has_in_any_chunk_is_carried_out() {
    let recipe = Recipe::accumulate(Factor::I32(3)).converted(Foreign::Message);
    let rules: &[Rule] =
        leak([Rule { element: None, from_bytes: 0, origin: SubOperations::SWAP, chunks: 1000 }]);
    for local in [false, true] {
        let mut pair =
            pair_with(local, |client| client.sub_operations(SubOperations::ADD | SubOperations::SCALE));
        let region = pair.region(&[0; 64]);
        let message = filled(&1i32.swap_bytes().to_ne_bytes().repeat(16)).share();
        let (ends, end) = ends();
        let to = pair.target.endpoint();
        let process =
            Process { remote_done: end(0), ..process(to, &region, &message, recipe, Split::Rules(rules)) };
        assert_eq!(pair.origin.process(process), Ok(()));
        pair.advance();
        assert_eq!(*ends.lock().unwrap(), [(0, None, Ok(()))], "{local}");
        assert_eq!(bytes(region.memory()), 3i32.to_ne_bytes().repeat(16));
    }
}

#[test]
fn l2_polls_that_find_nothing_are_idle_time_and_what_was_found_is_not() {
    const ROUND_NS: u64 = 100;
    let mut pair = pair(false);
    let world = pair.clients[0].node().world;
    let idle = |context: &Context<Port>| world.lock().port(context.endpoint()).idle_ns;
    let mut rounds = 0;
    // Each round takes so long; the first few in a row are not worth a look at the clock.
    pair.origin.wait(|_| {
        world.lock().now += ROUND_NS;
        rounds += 1;
        rounds == 1000
    });
    let noted = idle(&pair.origin);
    assert!((900 * ROUND_NS..1000 * ROUND_NS).contains(&noted), "{noted}");
    // Work of an hour that comes between idle rounds.
    let slot: &'static pami::WorkSlot<Port> = leak([pami::WorkSlot::new()]).first().unwrap();
    let run = move |_: &mut pami::context::Active<Port>, _: usize| {
        world.lock().now += 3_600_000_000_000;
        pami::context::Progress::Done
    };
    let (run, poster) = (Box::leak(Box::new(run)), pair.origin.poster());
    pair.origin.wait(|_| {
        world.lock().now += ROUND_NS;
        rounds += 1;
        if rounds == 1100 {
            assert!(poster.post(slot, pami::context::Work { run, cookie: 0 }).is_ok());
        }
        rounds == 1200
    });
    let more = idle(&pair.origin) - noted;
    assert!((120 * ROUND_NS..200 * ROUND_NS).contains(&more), "{more}");
    assert_eq!(idle(&pair.target), 0);
    pair.target.advance();
    assert_eq!(idle(&pair.target), 0, "the caller may have computed between two calls");
}

#[test]
fn l2_advice_is_asked_for_once_and_again_when_it_is_old() {
    let mut pair = pair(false);
    pair.idle(1000, 300);
    assert_eq!(pair.target.advice(), Advice { available: SubOperations::all(), idle: 300 });
    let region = pair.region(&[0; 64]);
    let message = filled(&[0; 64]).share();
    let world = pair.clients[0].node().world;
    for (passed, asked) in [(0, 1), (ADVICE_NS, 1), (1, 2)] {
        world.lock().now += passed;
        let process = process(
            pair.target.endpoint(),
            &region,
            &message,
            Recipe::sum(RecipeElement::I32),
            Split::Advice,
        );
        assert_eq!(pair.origin.process(process), Ok(()));
        pair.advance();
        assert_eq!((world.count(Kind::AskAdvice), world.count(Kind::Advice)), (asked, asked));
    }
    assert_eq!(pair.target.counters().processed_bytes, 3 * 64);
}

#[test]
fn l2_an_origin_does_without_advice_that_does_not_come() {
    let mut pair = pair(false);
    let region = pair.region(&[0; 64]);
    let message = filled(&f64s(&[1.0; 8])).share();
    let world = pair.clients[0].node().world;
    let process =
        process(pair.target.endpoint(), &region, &message, Recipe::sum(RecipeElement::F64), Split::Advice);
    assert_eq!(pair.origin.process(process), Ok(()));
    // The target does not advance.
    for _ in 0..10 {
        pair.origin.advance();
    }
    assert_eq!((world.count(Kind::AskAdvice), world.count(Kind::Chunk)), (1, 0));
    world.lock().now += 2 * ADVICE_NS;
    pair.origin.advance();
    assert_eq!((world.count(Kind::AskAdvice), world.count(Kind::Chunk)), (1, 1));
    pair.advance();
    assert_eq!(bytes(region.memory()), f64s(&[1.0; 8]));
}

#[test]
fn l2_what_a_target_does_not_have_is_done_at_the_origin_or_refused() {
    let recipe = Recipe::accumulate(Factor::F64(2.0));
    for (local, available, advised) in [
        (false, SubOperations::ADD, Ok(())),
        (true, SubOperations::ADD, Ok(())),
        (true, SubOperations::empty(), Ok(())),
        (false, SubOperations::empty(), Err(OperationError::Region(RegionFault::Rights))),
    ] {
        let mut pair = pair_with(local, |client| client.sub_operations(available));
        let region = pair.region(&[0; 64]);
        let message = filled(&f64s(&[1.0; 8])).share();
        for (split, expected) in
            [(Split::TargetOnly, Err(OperationError::Region(RegionFault::Rights))), (Split::Advice, advised)]
        {
            let (ends, end) = ends();
            let process = Process {
                remote_done: end(0),
                ..process(pair.target.endpoint(), &region, &message, recipe, split)
            };
            assert_eq!(pair.origin.process(process), Ok(()));
            pair.advance();
            assert_eq!(*ends.lock().unwrap(), [(0, None, expected)], "{local} {available:?} {split:?}");
        }
        let expected = if advised.is_ok() { 2.0 } else { 0.0 };
        assert_eq!(bytes(region.memory()), f64s(&[expected; 8]));
    }
}

#[test]
fn l4_rules_say_who_does_how_many_chunks_of_which_messages() {
    let rules: &[Rule] = leak([
        Rule { element: Some(RecipeElement::I32), from_bytes: 0, origin: SubOperations::all(), chunks: 1000 },
        Rule { element: None, from_bytes: 4096, origin: SubOperations::all(), chunks: 250 },
    ]);
    // Chunks of 488 bytes: as much as a packet has room for.
    for (element, bytes, placed) in [
        (RecipeElement::I32, 64, 64),
        (RecipeElement::I64, 4088, 0),
        (RecipeElement::I64, 4096, 2 * 488),
        (RecipeElement::F32, 40 * 488, 10 * 488),
    ] {
        let mut pair = pair(true);
        let region = pair.region(&vec![0; bytes]);
        let message = filled(&vec![0; bytes]).share();
        let process =
            process(pair.target.endpoint(), &region, &message, Recipe::sum(element), Split::Rules(rules));
        assert_eq!(pair.origin.process(process), Ok(()));
        pair.advance();
        assert_eq!(pair.origin.counters().placed_bytes, placed, "{element:?}");
        assert_eq!(pair.target.counters().processed_bytes, bytes as u64 - placed);
    }
}

#[test]
fn l2_a_target_needs_nothing_that_the_origin_does_to_every_chunk() {
    let recipe = Recipe::accumulate(Factor::I32(3)).converted(Foreign::Message);
    let rules: &[Rule] =
        leak([Rule { element: None, from_bytes: 0, origin: SubOperations::SWAP, chunks: 1000 }]);
    let mut pair =
        pair_with(false, |client| client.sub_operations(SubOperations::ADD | SubOperations::SCALE));
    let region = pair.region(&[0; 40]);
    let message = filled(&2i32.to_be_bytes().repeat(10)).share();
    let (ends, end) = ends();
    let process = process(pair.target.endpoint(), &region, &message, recipe, Split::Rules(rules));
    assert_eq!(pair.origin.process(Process { remote_done: end(0), ..process }), Ok(()));
    pair.advance();
    assert_eq!(*ends.lock().unwrap(), [(0, None, Ok(()))]);
    assert_eq!(bytes(region.memory()), 6i32.to_ne_bytes().repeat(10));
}
