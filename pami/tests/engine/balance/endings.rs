//! How operations end, and what comes before and behind them (SPEC F-1, L-1, L-3, D-8).

use super::*;
use pami::device::Arrival;

#[test]
fn l1_an_answer_never_comes_before_the_origin_has_done_its_part() {
    let rules: &[Rule] =
        leak([Rule { element: None, from_bytes: 0, origin: SubOperations::all(), chunks: 990 }]);
    let count = 1 << 18;
    let mut pair = pair(true);
    let region = pair.region(&vec![0; 4 * count]);
    let message = filled(&1i32.to_ne_bytes().repeat(count)).share();
    let (ends, end) = ends();
    let to = pair.target.endpoint();
    let process = Process {
        remote_done: end(1),
        ..process(to, &region, &message, Recipe::sum(RecipeElement::I32), Split::Rules(rules))
    };
    assert_eq!(pair.origin.process(process), Ok(()));
    assert_eq!(pair.origin.fence(to, end(2).unwrap()), Ok(()));
    // The target is quick: it has advanced for each advance of the origin, which takes many to place its part.
    for _ in 0..1000 {
        pair.target.advance();
        pair.origin.advance();
    }
    assert_eq!(*ends.lock().unwrap(), [(1, None, Ok(())), (2, None, Ok(()))]);
    assert_eq!(pair.origin.counters().protocol_errors, 0);
    assert_eq!(bytes(region.memory()), 1i32.to_ne_bytes().repeat(count));
}

#[test]
fn f1_a_fence_covers_what_is_processed_and_a_put_and_a_get_behind_it_come_later() {
    for (local, split) in [false, true]
        .into_iter()
        .flat_map(|local| [Split::TargetOnly, Split::OriginOnly].map(|split| (local, split)))
    {
        let mut pair = pair(local);
        let count = 30 * MTU / 8;
        let region = pair.region(&f64s(&vec![1.0; count]));
        let message = filled(&f64s(&vec![2.0; count])).share();
        let (ends, end) = ends();
        let to = pair.target.endpoint();
        let recipe = Recipe::accumulate(Factor::F64(0.5));
        assert_eq!(pair.origin.process(process(to, &region, &message, recipe, split)), Ok(()));
        assert_eq!(pair.origin.fence(to, end(1).unwrap()), Ok(()));
        if !local || split == Split::TargetOnly {
            for _ in 0..50 {
                pair.origin.advance();
            }
            assert_eq!(*ends.lock().unwrap(), [], "the target has processed nothing");
        }
        pair.advance();
        assert_eq!(*ends.lock().unwrap(), [(1, None, Ok(()))]);
        assert_eq!(bytes(region.memory()), f64s(&vec![2.0; count]));
        let put = Put {
            target: to,
            region: region.handle(),
            offset: 8,
            layout: Layout::Contiguous,
            payload: Payload::Static(f64s(&[9.0]).leak()),
            payload_layout: Layout::Contiguous,
            local_done: None,
            remote_done: end(2),
        };
        assert!(pair.origin.put(put).is_ok());
        let into = filled(&[0; 24]).share();
        let get = Get {
            target: to,
            region: region.handle(),
            offset: 0,
            layout: Layout::Contiguous,
            into: into.clone(),
            at: 0,
            into_layout: Layout::Contiguous,
            len: 24,
            done: end(3),
        };
        assert_eq!(pair.origin.get(get), Ok(()));
        pair.advance();
        assert_eq!(bytes(&into), f64s(&[2.0, 9.0, 2.0]));
    }
}

#[test]
fn l3_a_refusal_is_told_once_and_nothing_was_changed() {
    for local in [false, true] {
        for split in [Split::TargetOnly, Split::OriginOnly, Split::Advice] {
            let mut pair = pair(local);
            pair.idle(1000, 1000);
            let count = 20 * MTU / 8;
            let all = f64s(&vec![1.0; count]);
            let region = pair.target.register(filled(&all), Rights::READ | Rights::WRITE);
            let region = region.map_err(|(error, _)| error).unwrap();
            let message = filled(&all).share();
            let (ends, end) = ends();
            let process = Process {
                local_done: end(1),
                remote_done: end(2),
                ..process(pair.target.endpoint(), &region, &message, Recipe::sum(RecipeElement::F64), split)
            };
            assert_eq!(pair.origin.process(process), Ok(()));
            pair.advance();
            let mut ends = ends.lock().unwrap().clone();
            ends.sort_by_key(|end| end.0);
            let refused = Err(OperationError::Region(RegionFault::Rights));
            assert_eq!(ends, [(1, None, Ok(())), (2, None, refused)], "{local} {split:?}");
            assert_eq!(bytes(region.memory()), all);
            assert!(message.reclaim().is_ok());
        }
    }
}

#[test]
fn l1_what_cannot_be_done_is_not_taken() {
    let mut pair = pair(false);
    let region = pair.region(&[0; 64]);
    let message = filled(&[0; 64]).share();
    let to = pair.target.endpoint();
    let of = |element| process(to, &region, &message, Recipe::sum(element), Split::TargetOnly);
    let ends: [(Process<Port>, SendError); 5] = [
        (Process { range: 0..65, ..of(RecipeElement::F32) }, SendError::Range),
        (Process { range: 0..7, ..of(RecipeElement::F32) }, SendError::Range),
        (
            Process { offset: 4, range: 0..8, ..of(RecipeElement::F64) },
            SendError::Region(RegionFault::Unaligned),
        ),
        (Process { offset: 8, ..of(RecipeElement::F64) }, SendError::Region(RegionFault::Bounds)),
        (
            Process { target: pair.origin.endpoint(), ..of(RecipeElement::F64) },
            SendError::Region(RegionFault::Foreign),
        ),
    ];
    for (process, expected) in ends {
        assert_eq!(pair.origin.process(process), Err(expected));
    }
    // Half a word at the end of the memory cannot be changed with the other half.
    let broken = pair.region(&[0; 60]);
    let (told, end) = crate::scene::ends();
    let process = Process {
        range: 0..60,
        remote_done: end(0),
        ..process(to, &broken, &message, Recipe::sum(RecipeElement::I32), Split::TargetOnly)
    };
    assert_eq!(pair.origin.process(process), Ok(()));
    pair.advance();
    assert_eq!(told.lock().unwrap()[0].2, Err(OperationError::Region(RegionFault::Unaligned)));
}

#[test]
fn d8_processing_at_a_target_that_dies_ends() {
    for split in [Split::TargetOnly, Split::Advice] {
        let mut pair = pair(false);
        let region = pair.region(&[0; 64]);
        let message = filled(&[0; 64]).share();
        let (ends, end) = ends();
        let to = pair.target.endpoint();
        let process = Process {
            local_done: end(1),
            remote_done: end(2),
            ..process(to, &region, &message, Recipe::sum(RecipeElement::F64), split)
        };
        assert_eq!(pair.origin.process(process), Ok(()));
        pair.origin.advance();
        pair.clients[0].node().world.kill(1);
        advance_all(&mut [&mut pair.origin]);
        let dead = Err(OperationError::NodeDead(1));
        let ended = ends.lock().unwrap().iter().find(|end| end.0 == 2).map(|end| end.2);
        assert_eq!(ended, Some(dead), "{split:?}");
        assert!(message.reclaim().is_ok());
    }
}

#[test]
fn l1_no_addition_is_lost_between_an_origin_in_place_and_the_target() {
    const ROUNDS: usize = 40;
    let mut clients = clients(3, true, |client| client.pools(Pools { unexpected: 0, ..Pools::LARGE }));
    let [first, second, mut target] = [0, 1, 2].map(|task| context(&mut clients[task], 0));
    let count = 300;
    let region =
        target.register(filled(&vec![0; 4 * count]), Rights::all()).map_err(|(error, _)| error).unwrap();
    let to = target.endpoint();
    let done = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (mut origin, split) in [(first, Split::OriginOnly), (second, Split::TargetOnly)] {
            let (region, done) = (&region, &done);
            scope.spawn(move || {
                let message = filled(&1i32.to_ne_bytes().repeat(count)).share();
                let (ends, end) = ends();
                for round in 0..ROUNDS {
                    let process = Process {
                        remote_done: end(0),
                        ..process(to, region, &message, Recipe::sum(RecipeElement::I32), split)
                    };
                    assert_eq!(origin.process(process), Ok(()));
                    while ends.lock().unwrap().len() <= round {
                        origin.advance();
                    }
                }
                done.fetch_add(1, std::sync::atomic::Ordering::Release);
            });
        }
        while done.load(std::sync::atomic::Ordering::Acquire) < 2 {
            target.advance();
        }
    });
    let expected = (2 * ROUNDS as i32).to_ne_bytes().repeat(count);
    assert_eq!(bytes(region.memory()), expected);
}

#[test]
fn d9_l3_a_chunk_that_is_not_what_it_says_or_belongs_between_two_elements_adds_nothing() {
    let mut pair = pair(false);
    let before: Vec<u8> = (0..64).collect();
    let region = pair.region(&before);
    let message = filled(&1i64.to_ne_bytes()).share();
    let (to, recipe) = (pair.target.endpoint(), Recipe::sum(RecipeElement::I64));
    assert_eq!(pair.origin.process(process(to, &region, &message, recipe, Split::TargetOnly)), Ok(()));
    while pair.origin.advance() > 0 {}
    let world = pair.clients[0].node().world;
    let chunk = world.lock().port(to).reception.pop_front().expect("the origin sent it");
    let [mut between, mut lent] = [chunk.header().to_vec(), chunk.header().to_vec()];
    between[8] += 4;
    // It says that its elements are lent, and has them with it.
    lent[14] |= 2;
    for (header, strays) in [(between, 0), (lent, 1)] {
        world.forge(Packet::new(chunk.envelope(), &header, chunk.data()));
        pair.target.advance();
        assert_eq!(
            (bytes(region.memory()), pair.target.counters().protocol_errors),
            (before.clone(), strays)
        );
    }
    world.forge(chunk);
    pair.advance();
    assert_ne!(bytes(region.memory()), before, "as it was it is taken");
}
