//! Processing of messages, split between origin and target (SPEC L-1 to L-5).

use crate::machine::{MTU, Packet, TestNode, filled};
use crate::scene::{Port, advance_all, clients, context, ends, leak};
use pami::balance::{ADVICE_NS, Advice};
use pami::endpoint::Endpoint;
use pami::packet::{Envelope, Kind};
use pami::{
    Client, ClientBuilder, Context, Element, Factor, Foreign, Get, Layout, OperationError, Payload, Process,
    Put, Recipe, Region, RegionFault, Rights, Rule, SendError, Shared, Split, SubOperations,
};
use proptest::prelude::*;

/// An origin and a target, with their tasks' clients.
struct Pair {
    clients: Vec<Client<TestNode>>,
    origin: Context<Port>,
    target: Context<Port>,
}

fn pair_with(local: bool, build: impl Fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode>) -> Pair {
    let mut clients = clients(2, local, |client| build(client.kept(0)));
    let (origin, target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
    Pair { clients, origin, target }
}

fn pair(local: bool) -> Pair {
    pair_with(local, |client| client)
}

impl Pair {
    fn advance(&mut self) {
        advance_all(&mut [&mut self.origin, &mut self.target]);
    }

    fn idle(&self, origin: u16, target: u16) {
        let mut world = self.clients[0].node().world.lock();
        world.port(self.origin.endpoint()).idle = origin;
        world.port(self.target.endpoint()).idle = target;
    }

    fn region(&mut self, bytes: &[u8]) -> Region {
        self.target.register(filled(bytes), Rights::all()).map_err(|(error, _)| error).unwrap()
    }
}

fn process(
    target: Endpoint,
    region: &Region,
    message: &Shared,
    recipe: Recipe,
    split: Split,
) -> Process<Port> {
    Process {
        target,
        region: region.handle(),
        offset: 0,
        memory: message.clone(),
        range: 0..message.len(),
        recipe,
        split,
        local_done: None,
        remote_done: None,
    }
}

fn bytes_of(memory: &Shared) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

/// The operation as it is defined: element by element, one sub-operation after the other.
fn unsplit(region: &mut [u8], message: &[u8], factor: Option<Factor>, element: Element, foreign: Foreign) {
    let size = element.bytes();
    let reversed = |bytes: &[u8], yes: bool| -> Vec<u8> {
        if yes { bytes.iter().rev().copied().collect() } else { bytes.to_vec() }
    };
    macro_rules! add {
        ($type:ty, $variant:path, $scale:expr, $add:expr) => {
            for (old, new) in region.chunks_mut(size).zip(message.chunks(size)) {
                let read = |bytes: Vec<u8>| <$type>::from_ne_bytes(bytes.try_into().unwrap());
                let mut new = read(reversed(new, foreign == Foreign::Message));
                if let Some($variant(factor)) = factor {
                    new = $scale(new, factor);
                }
                let sum: $type = $add(read(reversed(old, foreign == Foreign::Target)), new);
                old.copy_from_slice(&reversed(&sum.to_ne_bytes(), foreign == Foreign::Target));
            }
        };
    }
    match element {
        Element::F32 => add!(f32, Factor::F32, |a, b| a * b, |a, b| a + b),
        Element::F64 => add!(f64, Factor::F64, |a, b| a * b, |a, b| a + b),
        Element::I32 => add!(i32, Factor::I32, i32::wrapping_mul, i32::wrapping_add),
        Element::I64 => add!(i64, Factor::I64, i64::wrapping_mul, i64::wrapping_add),
    }
}

/// Bytes of `count` elements without a NaN, which the hardware may choose among; of very different size.
fn numbers(element: Element, foreign: bool, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::new();
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let scale = (state >> 40) as i32 % 20;
        let real = (state as i32 as f64) * 2f64.powi(scale);
        let mut one = match element {
            Element::F32 => (real as f32).to_ne_bytes().to_vec(),
            Element::F64 => real.to_ne_bytes().to_vec(),
            Element::I32 => (state as i32).to_ne_bytes().to_vec(),
            Element::I64 => (state as i64).to_ne_bytes().to_vec(),
        };
        if foreign {
            one.reverse();
        }
        bytes.extend(one);
    }
    bytes
}

fn factor_of(element: Element) -> Factor {
    match element {
        Element::F32 => Factor::F32(-1.1),
        Element::F64 => Factor::F64(0.3),
        Element::I32 => Factor::I32(-77_777_777),
        Element::I64 => Factor::I64(0x1234_5678_9abc_def1),
    }
}

fn recipe_of(element: Element, scaled: bool, foreign: Foreign) -> (Recipe, Option<Factor>) {
    let factor = scaled.then(|| factor_of(element));
    let recipe = factor.map_or(Recipe::sum(element), Recipe::accumulate);
    (recipe.converted(foreign), factor)
}

const SHAREABLE: [SubOperations; 4] =
    [SubOperations::SWAP, SubOperations::SCALE, SubOperations::ADD, SubOperations::all()];

fn splits() -> impl Strategy<Value = Split> {
    let rule = (0usize..4, 0u16..1001).prop_map(|(origin, chunks)| {
        let rule = Rule { element: None, from_bytes: 0, origin: SHAREABLE[origin], chunks };
        Split::Rules(vec![rule].leak())
    });
    prop_oneof![Just(Split::TargetOnly), Just(Split::OriginOnly), Just(Split::Advice), rule]
}

fn elements() -> impl Strategy<Value = Element> {
    (0usize..4).prop_map(|at| Element::ALL[at])
}

fn foreigns() -> impl Strategy<Value = Foreign> {
    prop_oneof![Just(Foreign::Neither), Just(Foreign::Message), Just(Foreign::Target)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn l5_every_split_has_the_unsplit_operations_bits(
        local in any::<bool>(), element in elements(), scaled in any::<bool>(), foreign in foreigns(), split in splits(),
        count in 1usize..400, offset in 0usize..4, start in 0usize..9, idle in (0u16..1001, 0u16..1001), seed in any::<u64>()
    ) {
        let (recipe, factor) = recipe_of(element, scaled, foreign);
        let size = element.bytes();
        let old = numbers(element, foreign == Foreign::Target, count + 8, seed);
        let new = numbers(element, foreign == Foreign::Message, count, !seed);
        let mut expected = old.clone();
        unsplit(&mut expected[offset * size..], &new, factor, element, foreign);
        // No broken word in the region.
        let mut memory = old.clone();
        memory.resize(memory.len().next_multiple_of(8), 0);
        let mut pair = pair(local);
        pair.idle(idle.0, idle.1);
        let region = pair.region(&memory);
        let message = filled(&[vec![0xee; start], new].concat()).share();
        let (ends, end) = ends();
        let process = Process {
            offset: (offset * size) as u32,
            range: start..message.len(),
            local_done: end(1),
            remote_done: end(2),
            ..process(pair.target.endpoint(), &region, &message, recipe, split)
        };
        prop_assert_eq!(pair.origin.process(process), Ok(()));
        prop_assert!(ends.lock().unwrap().is_empty());
        pair.advance();
        let mut ends = ends.lock().unwrap().clone();
        ends.sort_by_key(|end| end.0);
        prop_assert_eq!(ends, [(1, None, Ok(())), (2, None, Ok(()))]);
        prop_assert_eq!(&bytes_of(region.memory())[..expected.len()], &expected);
        // The message is the caller's again.
        prop_assert!(message.reclaim().is_ok());
    }

    #[test]
    fn l5_operations_of_one_context_are_added_in_their_order(
        local in any::<bool>(), list in proptest::collection::vec((splits(), 0usize..40, 1usize..300), 2..8), seed in any::<u64>()
    ) {
        let mut pair = pair(local);
        pair.idle(1000, 500);
        let old = numbers(Element::F64, false, 400, seed);
        let mut expected = old.clone();
        let region = pair.region(&old);
        let recipe = Recipe::accumulate(factor_of(Element::F64));
        for (number, (split, at, count)) in list.into_iter().enumerate() {
            let new = numbers(Element::F64, false, count, seed ^ number as u64);
            unsplit(&mut expected[8 * at..], &new, Some(factor_of(Element::F64)), Element::F64, Foreign::Neither);
            let message = filled(&new).share();
            let process = Process {
                offset: 8 * at as u32,
                ..process(pair.target.endpoint(), &region, &message, recipe, split)
            };
            prop_assert_eq!(pair.origin.process(process), Ok(()));
            if seed >> number & 1 == 1 {
                pair.origin.advance();
            }
        }
        pair.advance();
        prop_assert_eq!(bytes_of(region.memory()), expected);
    }

    #[test]
    fn l3_hostile_chunks_change_nothing_outside_their_region(
        header in any::<[u8; 24]>(), sane in any::<bool>(), data in proptest::collection::vec(any::<u8>(), 0..64),
        offset in 0u32..80, total in 0u32..100, kind in 0usize..4
    ) {
        let mut pair = pair(true);
        let before = [7; 64];
        let bystander = pair.target.register(filled(&before), Rights::READ).map_err(|(error, _)| error).unwrap();
        let region = pair.region(&before);
        let mut header = header;
        if sane {
            header[..4].copy_from_slice(&region.handle().id().index.get().to_le_bytes());
            header[4..8].copy_from_slice(&region.handle().id().generation.get().to_le_bytes());
            let place = u32::from(header[8]) % 80;
            header[8..12].copy_from_slice(&place.to_le_bytes());
            header[12] %= 24;
            (header[13], header[14], header[15]) = (header[13] & 3 | 4, header[14] & 3, 0);
        }
        let kind = [Kind::Chunk, Kind::Refused, Kind::AskAdvice, Kind::Advice][kind];
        let (origin, target) = (pair.origin.endpoint(), pair.target.endpoint());
        let envelope = Envelope { kind, dispatch: header[0], origin, target, message: 5, offset, total };
        pair.clients[0].node().world.forge(Packet::new(envelope, &header, &data));
        pair.advance();
        prop_assert_eq!(bytes_of(bystander.memory()), before);
        prop_assert!(bytes_of(region.memory()) == before || sane);
    }
}

fn f64s(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

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
    assert_eq!(bytes_of(region.memory()), f64s(&vec![2.0; count]));
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
        ..process(to, &region, &message, Recipe::sum(Element::I32), Split::Rules(rules))
    };
    assert_eq!(pair.origin.process(process), Ok(()));
    assert_eq!(pair.origin.fence(to, end(2).unwrap()), Ok(()));
    // The target is quick: it has advanced for each advance of the origin, which takes many to place its part.
    for _ in 0..1000 {
        pair.target.advance();
        pair.origin.advance();
    }
    assert_eq!(*ends.lock().unwrap(), [(1, None, Ok(())), (2, None, Ok(()))]);
    assert_eq!(pair.origin.counters().strays, 0);
    assert_eq!(bytes_of(region.memory()), 1i32.to_ne_bytes().repeat(count));
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
        assert_eq!(bytes_of(region.memory()), vec![0; 4 * count]);
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
        let process =
            process(pair.target.endpoint(), &region, &message, Recipe::sum(Element::I32), Split::Advice);
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
        process(pair.target.endpoint(), &region, &message, Recipe::sum(Element::F64), Split::Advice);
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
    assert_eq!(bytes_of(region.memory()), f64s(&[1.0; 8]));
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
        assert_eq!(bytes_of(region.memory()), f64s(&[expected; 8]));
    }
}

#[test]
fn l4_rules_say_who_does_how_many_chunks_of_which_messages() {
    let rules: &[Rule] = leak([
        Rule { element: Some(Element::I32), from_bytes: 0, origin: SubOperations::all(), chunks: 1000 },
        Rule { element: None, from_bytes: 4096, origin: SubOperations::all(), chunks: 250 },
    ]);
    // Chunks of 488 bytes: as much as a packet has room for.
    for (element, bytes, placed) in
        [(Element::I32, 64, 64), (Element::I64, 4088, 0), (Element::F32, 40 * 488, 10 * 488)]
    {
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
        assert_eq!(bytes_of(region.memory()), f64s(&vec![2.0; count]));
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
        assert_eq!(bytes_of(&into), f64s(&[2.0, 9.0, 2.0]));
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
                ..process(pair.target.endpoint(), &region, &message, Recipe::sum(Element::F64), split)
            };
            assert_eq!(pair.origin.process(process), Ok(()));
            pair.advance();
            let mut ends = ends.lock().unwrap().clone();
            ends.sort_by_key(|end| end.0);
            let refused = Err(OperationError::Region(RegionFault::Rights));
            assert_eq!(ends, [(1, None, Ok(())), (2, None, refused)], "{local} {split:?}");
            assert_eq!(bytes_of(region.memory()), all);
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
        (Process { range: 0..65, ..of(Element::F32) }, SendError::Range),
        (Process { range: 0..7, ..of(Element::F32) }, SendError::Range),
        (Process { offset: 4, range: 0..8, ..of(Element::F64) }, SendError::Region(RegionFault::Unaligned)),
        (Process { offset: 8, ..of(Element::F64) }, SendError::Region(RegionFault::Bounds)),
        (
            Process { target: pair.origin.endpoint(), ..of(Element::F64) },
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
        ..process(to, &broken, &message, Recipe::sum(Element::I32), Split::TargetOnly)
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
            ..process(to, &region, &message, Recipe::sum(Element::F64), split)
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
    let mut clients = clients(3, true, |client| client.kept(0));
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
                        ..process(to, region, &message, Recipe::sum(Element::I32), split)
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
    assert_eq!(bytes_of(region.memory()), expected);
}
