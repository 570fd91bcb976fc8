//! Regions, puts, gets and updates (SPEC D-5, P-7, P-8, P-10).

use crate::machine::{MTU, buffer, filled, machine_of, pattern};
use crate::shapes::{self, gathered, layouts, reach, scattered};
use crate::stage::{Port, Stage, Told, bytes, get, leak, put, rmw};
use pami::packet::Kind;
use pami::{
    Active, Buffer, Done, Get, Layout, OperationError, Payload, Put, Region, RegionFault, RegionHandle,
    RegisterError, Rights, Rmw, RmwOp, SendError, Update, Width,
};
use proptest::prelude::*;
use std::sync::Mutex;
use zerocopy::{FromBytes, IntoBytes};

/// Where origin and target are, and which way it goes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    TwoNodes,
    LoopBack,
    SharedMemory,
}

const WAYS: [Way; 3] = [Way::TwoNodes, Way::LoopBack, Way::SharedMemory];

/// Context 0 is the origin, context 1 the target.
fn scene(way: Way) -> Stage {
    Stage::pair(way != Way::TwoNodes, |client| client.local_paths(way == Way::SharedMemory))
}

/// A handle that says what its region's owner did not.
pub fn forged(handle: RegionHandle, index: usize, value: u32) -> RegionHandle {
    let mut words: [u32; 4] = FromBytes::read_from_bytes(handle.as_bytes()).unwrap();
    words[index] = value;
    FromBytes::read_from_bytes(words.as_bytes()).unwrap()
}

#[test]
fn p8_a_handle_is_sixteen_bytes_of_data_that_can_be_sent() {
    let mut stage = scene(Way::TwoNodes);
    let region = stage.region(1, &[0; 100], Rights::READ);
    let sent = region.handle().as_bytes().to_vec();
    assert_eq!(sent.len(), 16);
    let handle = RegionHandle::read_from_bytes(&sent).unwrap();
    assert_eq!(handle, region.handle());
    assert_eq!((handle.task(), handle.len()), (1, 100));
}

#[test]
fn p8_a_node_without_room_for_a_region_gives_the_buffer_back() {
    let mut stage = scene(Way::TwoNodes);
    let mut regions: Vec<Region> = Vec::new();
    let (error, buffer) = loop {
        match stage[1].register(filled(b"mine"), Rights::all()) {
            Ok(region) => regions.push(region),
            Err(refused) => break refused,
        }
    };
    assert_eq!(error, RegisterError::NoneLeft { limit: regions.len() });
    assert_eq!(buffer.as_slice(), b"mine");
    assert!(stage[1].deregister(regions.pop().unwrap()).is_ok());
    assert!(stage[1].register(buffer, Rights::all()).is_ok());
}

#[test]
fn p8_memory_that_others_still_use_comes_back_shared() {
    let mut stage = scene(Way::TwoNodes);
    let region = stage.region(1, b"0123", Rights::all());
    let mine = region.memory().clone();
    let still = stage[1].deregister(region).err().unwrap();
    drop(mine);
    assert_eq!(still.reclaim().ok().map(|buffer| buffer.as_slice().to_vec()), Some(b"0123".to_vec()));
}

#[test]
fn d5_the_targets_context_does_nothing_for_any_of_it() {
    for way in WAYS {
        let mut stage = scene(way);
        let told = stage.told;
        let region = stage.region(1, &vec![0; 4096], Rights::all());
        let (to, handle) = (stage.at(1), region.handle());
        let payload = Payload::Buffer(filled(&pattern(3000, 1)), 0..3000);
        let request =
            Put { local_done: told.done(1), remote_done: told.done(2), ..put(to, handle, 8, payload) };
        assert!(stage[0].put(request).is_ok());
        assert_eq!(stage.counts().1, 0, "no callback inside the call");
        stage.quiet_of(&[0]);
        let into = buffer(3000).share();
        assert_eq!(stage[0].get(Get { done: told.done(3), ..get(to, handle, 8, &into, 3000) }), Ok(()));
        let add = Rmw { done: told.on_fetched(4), ..rmw(to, handle, 0, Update::Add(7)) };
        assert_eq!(stage[0].rmw(add), Ok(()));
        assert!(told.notes().fetched.is_empty() && stage.counts().1 == 2, "no callback inside");
        stage.quiet_of(&[0]);
        assert_eq!(stage.ends(), [(1, Some(3000), Ok(())), (2, None, Ok(())), (3, None, Ok(()))], "{way:?}");
        assert_eq!(stage.fetched()[0].result, Ok(0));
        assert_eq!(bytes(&into), pattern(3000, 1));
        assert_eq!(bytes(region.memory())[..8], 7u64.to_le_bytes());
        assert_eq!(stage.world.count(Kind::Rmw), usize::from(way != Way::SharedMemory));
        assert!(stage[1].deregister(region).is_ok(), "nobody holds it");
        assert!(into.reclaim().is_ok());
    }
}

#[test]
fn p7_nothing_and_everything_can_be_put_and_got() {
    for way in WAYS {
        let mut stage = scene(way);
        let told = stage.told;
        let region = stage.region(1, &vec![0; 300_001], Rights::all());
        let (to, handle) = (stage.at(1), region.handle());
        for len in [0, 1, MTU - 9, MTU - 8, MTU - 7, MTU, 300_001] {
            let payload = Payload::Static(pattern(len, len).leak());
            assert!(stage[0].put(Put { remote_done: told.done(0), ..put(to, handle, 0, payload) }).is_ok());
            let into = buffer(len).share();
            stage.quiet_of(&[0]);
            assert_eq!(stage[0].get(Get { done: told.done(1), ..get(to, handle, 0, &into, len) }), Ok(()));
            stage.quiet_of(&[0]);
            assert_eq!(stage.ends(), [(0, None, Ok(())), (1, None, Ok(()))], "{way:?} {len}");
            assert_eq!(bytes(&into), pattern(len, len));
        }
    }
}

fn model(update: Update, old: u64) -> u64 {
    match update {
        Update::Add(operand) => old.wrapping_add(operand),
        Update::And(operand) => old & operand,
        Update::Or(operand) => old | operand,
        Update::Xor(operand) => old ^ operand,
        Update::Swap(operand) => operand,
        Update::CompareSwap { expected, new } => {
            if old == expected {
                new
            } else {
                old
            }
        }
    }
}

#[test]
fn p7_every_operator_changes_its_word_and_says_what_it_was() {
    const OLD: u64 = 0xfedc_ba98_7654_3210;
    let operands = [0, 1, OLD, u64::MAX, 0x0000_0001_8000_0000];
    for way in WAYS {
        let mut stage = scene(way);
        let told = stage.told;
        let region = stage.region(1, &[0; 24], Rights::UPDATE);
        let to = stage.at(1);
        for (operand, (width, offset, mask)) in operands.into_iter().flat_map(|operand| {
            let words =
                [(Width::Eight, 8, u64::MAX), (Width::Four, 8, 0xffff_ffff), (Width::Four, 12, 0xffff_ffff)];
            words.into_iter().map(move |word| (operand, word))
        }) {
            let shift = if offset == 12 { 32 } else { 0 };
            let hits = Update::CompareSwap { expected: OLD >> shift & mask, new: operand };
            let misses = Update::CompareSwap { expected: !OLD >> shift & mask, new: operand };
            for update in [
                Update::Add(operand),
                Update::And(operand),
                Update::Or(operand),
                Update::Xor(operand),
                Update::Swap(operand),
                hits,
                misses,
            ] {
                region.memory().write(8, &OLD.to_le_bytes()).unwrap();
                let op = RmwOp { width, update };
                let rmw = Rmw { target: to, region: region.handle(), offset, op, done: told.on_fetched(5) };
                assert_eq!(stage[0].rmw(rmw), Ok(()));
                stage.quiet_of(&[0]);
                let old = OLD >> shift & mask;
                let said = stage.fetched()[0];
                assert_eq!((said.result, said.cookie, said.target), (Ok(old), 5, to), "{update:?}");
                let new = OLD & !(mask << shift) | (model(update, old) & mask) << shift;
                assert_eq!(bytes(region.memory())[8..16], new.to_le_bytes(), "{way:?} {width:?} {update:?}");
                assert_eq!(bytes(region.memory())[..8], [0; 8]);
            }
        }
    }
}

#[test]
fn p7_updates_from_several_places_add_up() {
    let mut stage = Stage::of(machine_of(4, 2), 1, Told::new(), |client| client);
    let region = stage.region(0, &[0; 8], Rights::UPDATE);
    let to = stage.at(0);
    for round in 0..50 {
        for context in &mut stage.contexts {
            context.retry(|active| active.rmw(rmw(to, region.handle(), 0, Update::Add(round)))).unwrap();
        }
        region.memory().update(0, Width::Eight, Update::Add(1000)).unwrap();
    }
    stage.quiet();
    assert_eq!(bytes(region.memory()), (4 * (0..50).sum::<u64>() + 50_000).to_le_bytes());
}

/// All three operations on a region of the target's, and what became of them.
fn outcomes(stage: &mut Stage, handle: RegionHandle, offset: u32) -> [Result<(), OperationError>; 3] {
    let (to, told, into) = (stage.at(1), stage.told, buffer(8).share());
    let (local_done, remote_done) = (told.done(0), told.done(1));
    stage.put(0, Put { local_done, remote_done, ..put(to, handle, offset, Payload::Static(&[1; 8])) });
    assert_eq!(stage[0].get(Get { done: told.done(2), ..get(to, handle, offset, &into, 8) }), Ok(()));
    let op = RmwOp { width: Width::Four, update: Update::Or(0) };
    assert_eq!(
        stage[0].rmw(Rmw { target: to, region: handle, offset, op, done: told.on_fetched(0) }),
        Ok(())
    );
    stage.quiet_of(&[0]);
    let ends = stage.results();
    let of = |cookie| ends.iter().find(|end| end.0 == cookie).unwrap().1;
    assert_eq!(of(0), Ok(()), "the payload is back all the same");
    assert!(into.reclaim().is_ok());
    [of(1), of(2), stage.fetched()[0].result.map(drop)]
}

#[test]
fn p8_what_the_owner_refuses_is_told_to_the_completion() {
    let fault = |fault| Err(OperationError::Region(fault));
    for way in WAYS {
        let mut stage = scene(way);
        let to = stage.at(1);
        for (rights, expected) in [
            (Rights::WRITE, [Ok(()), fault(RegionFault::Rights), fault(RegionFault::Rights)]),
            (Rights::READ, [fault(RegionFault::Rights), Ok(()), fault(RegionFault::Rights)]),
            (Rights::UPDATE, [fault(RegionFault::Rights), fault(RegionFault::Rights), Ok(())]),
            (Rights::all(), [Ok(()); 3]),
        ] {
            let region = stage[1].register(buffer(64), rights).ok().unwrap();
            assert_eq!(outcomes(&mut stage, region.handle(), 16), expected, "{way:?}");
            assert!(stage[1].deregister(region).is_ok());
        }
        let region = stage.region(1, &[0; 64], Rights::all());
        let handle = region.handle();
        // It says that it is longer than it is.
        let long = forged(handle, 3, 1000);
        assert_eq!(outcomes(&mut stage, long, 64), [fault(RegionFault::Bounds); 3]);
        // A region of the other task of the node, or of none.
        let own = stage[0].register(buffer(64), Rights::all()).ok().unwrap();
        let expected = if way == Way::TwoNodes { RegionFault::Stale } else { RegionFault::Foreign };
        let expected = [fault(expected); 3];
        let foreign = forged(own.handle(), 0, to.task());
        assert_eq!(outcomes(&mut stage, foreign, 0), expected, "{way:?}: a table of each node's own");
        assert!(stage[1].deregister(region).is_ok());
        assert_eq!(outcomes(&mut stage, handle, 0), [fault(RegionFault::Stale); 3]);
        let again = stage.region(1, &[0; 64], Rights::all());
        assert_eq!(again.handle().id().index, handle.id().index, "at the same place");
        assert_eq!(outcomes(&mut stage, handle, 0), [fault(RegionFault::Stale); 3]);
    }
}

#[test]
fn p8_what_a_handle_tells_is_refused_at_once() {
    let mut stage = scene(Way::TwoNodes);
    let region = stage.region(1, &[0; 64], Rights::all());
    let (to, handle) = (stage.at(1), region.handle());
    let into = buffer(32).share();
    let refused = |fault| Err(SendError::Region(fault));
    let (error, payload) = stage[0].put(put(to, handle, 60, Payload::Buffer(buffer(5), 0..5))).err().unwrap();
    assert_eq!(error, SendError::Region(RegionFault::Bounds));
    assert!(matches!(payload, Payload::Buffer(..)));
    assert_eq!(stage[0].get(get(to, handle, 40, &into, 25)), refused(RegionFault::Bounds));
    assert_eq!(stage[0].get(get(to, handle, u32::MAX, &into, 2)), refused(RegionFault::Bounds));
    assert_eq!(stage[0].get(get(to, handle, 0, &into, 33)), Err(SendError::Range));
    assert_eq!(stage[0].get(Get { at: u32::MAX, ..get(to, handle, 0, &into, 33) }), Err(SendError::Range));
    let me = stage.at(0);
    assert_eq!(stage[0].get(get(me, handle, 0, &into, 1)), refused(RegionFault::Foreign));
    let none = Layout::Strided { block: 0, stride: 4 };
    assert_eq!(stage[0].get(Get { layout: none, ..get(to, handle, 0, &into, 1) }), Err(SendError::Layout));
    let short = Layout::Indexed(&[(0, 3)]);
    assert_eq!(
        stage[0].get(Get { into_layout: short, ..get(to, handle, 0, &into, 4) }),
        Err(SendError::Layout)
    );
    let far = Layout::Strided { block: 1, stride: u32::MAX };
    assert_eq!(stage[0].get(Get { layout: far, ..get(to, handle, 0, &into, 4) }), Err(SendError::Layout));
    let wide =
        Put { payload_layout: Layout::Indexed(&[(3, 3)]), ..put(to, handle, 0, Payload::Static(b"12345")) };
    assert_eq!(stage[0].put(wide).map_err(|(error, _)| error), Err(SendError::Layout));
    let outside = Payload::Shared(into.clone(), 30..33);
    assert_eq!(stage[0].put(put(to, handle, 0, outside)).map_err(|(error, _)| error), Err(SendError::Range));
    let rmw = |width| RmwOp { width, update: Update::Add(1) };
    let mut fetch = |offset, op| stage[0].rmw(Rmw { target: to, region: handle, offset, op, done: None });
    assert_eq!(fetch(60, rmw(Width::Eight)), refused(RegionFault::Bounds));
    assert_eq!(fetch(4, rmw(Width::Eight)), refused(RegionFault::Unaligned));
    assert_eq!(fetch(6, rmw(Width::Four)), refused(RegionFault::Unaligned));
    assert_eq!(stage.world.lock().seen, []);
}

#[test]
fn d7_a_region_that_ends_during_a_get_ends_it_with_the_fault() {
    let mut stage = scene(Way::TwoNodes);
    let told = stage.told;
    let region = stage.region(1, &vec![0; 10 * MTU], Rights::READ);
    stage.world.stepped();
    let into = buffer(10 * MTU).share();
    let request = get(stage.at(1), region.handle(), 0, &into, 10 * MTU);
    assert_eq!(stage[0].get(Get { done: told.done(0), ..request }), Ok(()));
    for _ in 0..4 {
        assert!(stage.step(|_| true));
    }
    assert!(stage[1].deregister(region).is_ok());
    stage.world.free_running();
    stage.quiet_of(&[0]);
    assert_eq!(stage.ends(), [(0, None, Err(OperationError::Region(RegionFault::Stale)))]);
    assert!(into.reclaim().is_ok());
}

#[test]
fn p11_puts_beyond_all_queues_wait_in_order_and_none_is_lost() {
    const PUTS: u32 = 5000;
    let mut stage = scene(Way::TwoNodes);
    let region = stage.region(1, &vec![0; 4 * PUTS as usize], Rights::WRITE);
    let (to, handle) = (stage.at(1), region.handle());
    let told: &'static Mutex<Vec<usize>> = leak(Mutex::default());
    let call = leak(move |_: &mut Active<Port>, completion: pami::Completion| {
        told.lock().unwrap().push(completion.cookie)
    });
    for number in 0..PUTS {
        stage[0]
            .retry(|active| {
                let payload = Payload::Static(number.to_le_bytes().to_vec().leak());
                let remote_done = (number % 7 == 0).then_some(Done { call, cookie: number as usize });
                active
                    .put(Put { remote_done, ..put(to, handle, 4 * number, payload) })
                    .map_err(|(error, _)| error)
            })
            .unwrap();
    }
    stage.quiet_of(&[0]);
    let expected: Vec<u8> = (0..PUTS).flat_map(u32::to_le_bytes).collect();
    assert_eq!(bytes(region.memory()), expected);
    assert_eq!(*told.lock().unwrap(), (0..PUTS as usize).step_by(7).collect::<Vec<_>>());
    let replies = stage.world.count(Kind::Reply);
    assert_eq!(replies, told.lock().unwrap().len(), "only those that somebody waits for");
}

/// A payload of one of the four sorts.
fn payload(sort: u8, data: &[u8]) -> Payload {
    let padded = |data: &[u8]| -> Buffer { filled(&[&[0xaa; 5], data, &[0xbb; 3]].concat()) };
    let range = 5..5 + data.len();
    match sort {
        0 => Payload::Static(data.to_vec().leak()),
        1 => Payload::Buffer(padded(data), range),
        2 => Payload::Source(padded(data).lend().source().slice(range).unwrap()),
        _ => Payload::Shared(padded(data).share(), range),
    }
}

fn ways() -> impl Strategy<Value = Way> {
    prop_oneof![Just(Way::TwoNodes), Just(Way::LoopBack), Just(Way::SharedMemory)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p10_a_put_places_what_a_naive_reading_of_the_layouts_says(
        way in ways(), sort in 0u8..4, from in layouts(), to in layouts(), offset in 0usize..100, extent in 0usize..4000
    ) {
        let data = pattern(extent, 3);
        // What has an end is used whole.
        let extent = shapes::extent(&from, extent);
        let data = if extent > data.len() { pattern(extent, 3) } else { data };
        let moved = gathered(&from, &data);
        let reaches = reach(&to, moved.len());
        let mut stage = scene(way);
 let told = stage.told;
        let size = offset + reaches.unwrap_or(0) + 50;
        let region = stage.region(1, &vec![0; size], Rights::WRITE);
        let before = pattern(size, 77);
        region.memory().write(0, &before).unwrap();
        let request = put(stage.at(1), region.handle(), offset as u32, payload(sort, &data));
        let request = Put { layout: to, payload_layout: from, local_done: told.done(0), remote_done: told.done(1), ..request };
        let taken = stage[0].put(request).map_err(|(error, _)| error);
        stage.quiet();
        if reaches.is_none() {
            prop_assert_eq!(taken, Err(SendError::Layout));
            return Ok(());
        }
        prop_assert_eq!(taken, Ok(()));
        prop_assert_eq!(bytes(region.memory()), scattered(&to, &before, offset, &moved));
        prop_assert_eq!(stage.results(), [(0, Ok(())), (1, Ok(()))]);
        prop_assert!(stage[1].deregister(region).is_ok());
    }

    #[test]
    fn p10_a_get_fetches_what_a_naive_reading_of_the_layouts_says(
        way in ways(), from in layouts(), to in layouts(), offset in 0usize..100, at in 0usize..100, len in 0usize..3000
    ) {
        let reaches = (reach(&from, len), reach(&to, len));
        let size = offset + reaches.0.unwrap_or(0) + 20;
        let mut stage = scene(way);
 let told = stage.told;
        let region = stage.region(1, &pattern(size, 5), Rights::READ);
        let before = pattern(at + reaches.1.unwrap_or(0) + 30, 9);
        let into = filled(&before).share();
        let request = get(stage.at(1), region.handle(), offset as u32, &into, len);
        let request = Get { layout: from, into_layout: to, at: at as u32, done: told.done(0), ..request };
        let taken = stage[0].get(request);
        stage.quiet();
        if reaches.0.is_none() || reaches.1.is_none() {
            prop_assert_eq!(taken, Err(SendError::Layout));
            return Ok(());
        }
        prop_assert_eq!(taken, Ok(()));
        let source = pattern(size, 5);
        let moved = &gathered(&from, &source[offset..])[..];
        prop_assert_eq!(bytes(&into), scattered(&to, &before, at, &moved[..len]));
        prop_assert_eq!(stage.ends(), [(0, None, Ok(()))]);
        prop_assert!(into.reclaim().is_ok());
    }
}
