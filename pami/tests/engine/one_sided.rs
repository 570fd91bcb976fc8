//! Regions, puts, gets and updates (SPEC D-5, P-7, P-8, P-10).

use crate::machine::{MTU, TestNode, buffer, filled, machine_of, pattern};
use crate::scene::{Port, advance_all, context, ends, fetches, leak, pair};
use crate::shapes::{self, gathered, layouts, reach, scattered};
use pami::packet::Kind;
use pami::{
    Active, Buffer, Client, ClientBuilder, Context, Done, Endpoint, Get, Layout, OperationError, Payload,
    Put, Region, RegionFault, RegionHandle, RegisterError, Rights, Rmw, RmwOp, SendError, Shared, Update,
    Width,
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

struct Scene {
    clients: [Client<TestNode>; 2],
    origin: Context<Port>,
    target: Context<Port>,
}

fn scene(way: Way) -> Scene {
    let mut clients = pair(way != Way::TwoNodes, |client| client.local_paths(way == Way::SharedMemory));
    let (origin, target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
    Scene { clients, origin, target }
}

fn put(to: Endpoint, region: RegionHandle, offset: u32, payload: Payload) -> Put<Port> {
    Put {
        target: to,
        region,
        offset,
        layout: Layout::Contiguous,
        payload,
        payload_layout: Layout::Contiguous,
        local_done: None,
        remote_done: None,
    }
}

fn get(to: Endpoint, region: RegionHandle, offset: u32, into: &Shared, len: u32) -> Get<Port> {
    Get {
        target: to,
        region,
        offset,
        layout: Layout::Contiguous,
        into: into.clone(),
        at: 0,
        into_layout: Layout::Contiguous,
        len,
        done: None,
    }
}

fn bytes(memory: &Shared) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

/// A handle that says what its region's owner did not.
fn forged(handle: RegionHandle, index: usize, value: u32) -> RegionHandle {
    let mut words: [u32; 4] = FromBytes::read_from_bytes(handle.as_bytes()).unwrap();
    words[index] = value;
    FromBytes::read_from_bytes(words.as_bytes()).unwrap()
}

#[test]
fn p8_a_handle_is_sixteen_bytes_of_data_that_can_be_sent() {
    let Scene { mut target, .. } = scene(Way::TwoNodes);
    let region = target.register(buffer(100), Rights::READ).ok().unwrap();
    let sent = region.handle().as_bytes().to_vec();
    assert_eq!(sent.len(), 16);
    let handle = RegionHandle::read_from_bytes(&sent).unwrap();
    assert_eq!(handle, region.handle());
    assert_eq!((handle.task(), handle.len()), (1, 100));
}

#[test]
fn p8_a_node_without_room_for_a_region_gives_the_buffer_back() {
    let Scene { mut target, .. } = scene(Way::TwoNodes);
    let mut regions: Vec<Region> = Vec::new();
    let (error, buffer) = loop {
        match target.register(filled(b"mine"), Rights::all()) {
            Ok(region) => regions.push(region),
            Err(refused) => break refused,
        }
    };
    assert_eq!(error, RegisterError::NoneLeft { limit: regions.len() });
    assert_eq!(buffer.as_slice(), b"mine");
    assert!(target.deregister(regions.pop().unwrap()).is_ok());
    assert!(target.register(buffer, Rights::all()).is_ok());
}

#[test]
fn p8_memory_that_others_still_use_comes_back_shared() {
    let Scene { mut target, .. } = scene(Way::TwoNodes);
    let region = target.register(filled(b"0123"), Rights::all()).ok().unwrap();
    let mine = region.memory().clone();
    let still = target.deregister(region).err().unwrap();
    drop(mine);
    assert_eq!(still.reclaim().ok().map(|buffer| buffer.as_slice().to_vec()), Some(b"0123".to_vec()));
}

#[test]
fn d5_the_targets_context_does_nothing_for_any_of_it() {
    for way in WAYS {
        let Scene { mut origin, mut target, clients } = scene(way);
        let region = target.register(buffer(4096), Rights::all()).ok().unwrap();
        let (to, handle) = (target.endpoint(), region.handle());
        let (ends, done) = ends();
        let (fetched, on_fetched) = fetches();
        let payload = Payload::Buffer(filled(&pattern(3000, 1)), 0..3000);
        let request = Put { local_done: done(1), remote_done: done(2), ..put(to, handle, 8, payload) };
        assert!(origin.put(request).is_ok());
        assert!(ends.lock().unwrap().is_empty(), "no callback inside the call");
        advance_all(&mut [&mut origin]);
        let into = buffer(3000).share();
        assert_eq!(origin.get(Get { done: done(3), ..get(to, handle, 8, &into, 3000) }), Ok(()));
        let op = RmwOp { width: Width::Eight, update: Update::Add(7) };
        assert_eq!(
            origin.rmw(Rmw { target: to, region: handle, offset: 0, op, done: on_fetched(4) }),
            Ok(())
        );
        assert!(fetched.lock().unwrap().is_empty() && ends.lock().unwrap().len() == 2, "no callback inside");
        advance_all(&mut [&mut origin]);
        let mut seen = ends.lock().unwrap().clone();
        seen.sort_unstable_by_key(|end| end.0);
        assert_eq!(seen, [(1, Some(3000), Ok(())), (2, None, Ok(())), (3, None, Ok(()))], "{way:?}");
        assert_eq!(fetched.lock().unwrap()[0].result, Ok(0));
        assert_eq!(bytes(&into), pattern(3000, 1));
        assert_eq!(bytes(region.memory())[..8], 7u64.to_le_bytes());
        assert_eq!(clients[0].node().world.count(Kind::Rmw), usize::from(way != Way::SharedMemory));
        assert!(target.deregister(region).is_ok(), "nobody holds it");
        assert!(into.reclaim().is_ok());
    }
}

#[test]
fn p7_nothing_and_everything_can_be_put_and_got() {
    for way in WAYS {
        let Scene { mut origin, mut target, .. } = scene(way);
        let region = target.register(buffer(300_001), Rights::all()).ok().unwrap();
        let (to, handle) = (target.endpoint(), region.handle());
        for len in [0, 1, MTU - 9, MTU - 8, MTU - 7, MTU, 300_001] {
            let (ends, done) = ends();
            let payload = Payload::Static(pattern(len, len).leak());
            assert!(origin.put(Put { remote_done: done(0), ..put(to, handle, 0, payload) }).is_ok());
            let into = buffer(len).share();
            advance_all(&mut [&mut origin]);
            assert_eq!(origin.get(Get { done: done(1), ..get(to, handle, 0, &into, len as u32) }), Ok(()));
            advance_all(&mut [&mut origin]);
            assert_eq!(*ends.lock().unwrap(), [(0, None, Ok(())), (1, None, Ok(()))], "{way:?} {len}");
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
        let Scene { mut origin, mut target, .. } = scene(way);
        let region = target.register(buffer(24), Rights::UPDATE).ok().unwrap();
        let to = target.endpoint();
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
                let (fetched, done) = fetches();
                let op = RmwOp { width, update };
                let rmw = Rmw { target: to, region: region.handle(), offset, op, done: done(5) };
                assert_eq!(origin.rmw(rmw), Ok(()));
                advance_all(&mut [&mut origin]);
                let old = OLD >> shift & mask;
                let said = fetched.lock().unwrap()[0];
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
    let nodes = machine_of(4, 2);
    let mut clients: Vec<_> =
        nodes.iter().map(|&node| ClientBuilder::new(node, "sum").create().unwrap()).collect();
    let mut contexts: Vec<_> = clients.iter_mut().map(|client| context(client, 0)).collect();
    let region = contexts[0].register(buffer(8), Rights::UPDATE).ok().unwrap();
    let to = contexts[0].endpoint();
    for round in 0..50 {
        for context in &mut contexts {
            let op = RmwOp { width: Width::Eight, update: Update::Add(round) };
            let rmw = Rmw { target: to, region: region.handle(), offset: 0, op, done: None };
            context.retry(|active| active.rmw(Rmw { ..copy(&rmw) })).unwrap();
        }
        region.memory().update(0, Width::Eight, Update::Add(1000)).unwrap();
    }
    advance_all(&mut contexts.iter_mut().collect::<Vec<_>>());
    assert_eq!(bytes(region.memory()), (4 * (0..50).sum::<u64>() + 50_000).to_le_bytes());
}

fn copy(rmw: &Rmw<Port>) -> Rmw<Port> {
    Rmw { target: rmw.target, region: rmw.region, offset: rmw.offset, op: rmw.op, done: rmw.done }
}

/// All three operations on a region, and what became of them.
fn outcomes(
    origin: &mut Context<Port>,
    to: Endpoint,
    handle: RegionHandle,
    offset: u32,
) -> [Result<(), OperationError>; 3] {
    let (ends, done) = ends();
    let (fetched, on_fetched) = fetches();
    let payload = Payload::Static(&[1; 8]);
    assert!(
        origin
            .put(Put { local_done: done(0), remote_done: done(1), ..put(to, handle, offset, payload) })
            .is_ok()
    );
    let into = buffer(8).share();
    assert_eq!(origin.get(Get { done: done(2), ..get(to, handle, offset, &into, 8) }), Ok(()));
    let op = RmwOp { width: Width::Four, update: Update::Or(0) };
    assert_eq!(origin.rmw(Rmw { target: to, region: handle, offset, op, done: on_fetched(0) }), Ok(()));
    advance_all(&mut [origin]);
    let ends = ends.lock().unwrap();
    let of = |cookie| ends.iter().find(|end| end.0 == cookie).unwrap().2;
    assert_eq!(of(0), Ok(()), "the payload is back all the same");
    assert!(into.reclaim().is_ok());
    [of(1), of(2), fetched.lock().unwrap()[0].result.map(drop)]
}

#[test]
fn p8_what_the_owner_refuses_is_told_to_the_completion() {
    let fault = |fault| Err(OperationError::Region(fault));
    for way in WAYS {
        let Scene { mut origin, mut target, .. } = scene(way);
        let to = target.endpoint();
        for (rights, expected) in [
            (Rights::WRITE, [Ok(()), fault(RegionFault::Rights), fault(RegionFault::Rights)]),
            (Rights::READ, [fault(RegionFault::Rights), Ok(()), fault(RegionFault::Rights)]),
            (Rights::UPDATE, [fault(RegionFault::Rights), fault(RegionFault::Rights), Ok(())]),
            (Rights::all(), [Ok(()); 3]),
        ] {
            let region = target.register(buffer(64), rights).ok().unwrap();
            assert_eq!(outcomes(&mut origin, to, region.handle(), 16), expected, "{way:?}");
            assert!(target.deregister(region).is_ok());
        }
        let region = target.register(buffer(64), Rights::all()).ok().unwrap();
        let handle = region.handle();
        // It says that it is longer than it is.
        let long = forged(handle, 3, 1000);
        assert_eq!(outcomes(&mut origin, to, long, 64), [fault(RegionFault::Bounds); 3]);
        // A region of the other task of the node, or of none.
        let own = origin.register(buffer(64), Rights::all()).ok().unwrap();
        let expected = if way == Way::TwoNodes { RegionFault::Stale } else { RegionFault::Foreign };
        let expected = [fault(expected); 3];
        let foreign = forged(own.handle(), 0, to.task());
        assert_eq!(outcomes(&mut origin, to, foreign, 0), expected, "{way:?}: a table of each node's own");
        assert!(target.deregister(region).is_ok());
        assert_eq!(outcomes(&mut origin, to, handle, 0), [fault(RegionFault::Stale); 3]);
        let again = target.register(buffer(64), Rights::all()).ok().unwrap();
        assert_eq!(again.handle().id().index, handle.id().index, "at the same place");
        assert_eq!(outcomes(&mut origin, to, handle, 0), [fault(RegionFault::Stale); 3]);
    }
}

#[test]
fn p8_what_a_handle_tells_is_refused_at_once() {
    let Scene { mut origin, mut target, clients } = scene(Way::TwoNodes);
    let region = target.register(buffer(64), Rights::all()).ok().unwrap();
    let (to, handle) = (target.endpoint(), region.handle());
    let into = buffer(32).share();
    let refused = |fault| Err(SendError::Region(fault));
    let (error, payload) = origin.put(put(to, handle, 60, Payload::Buffer(buffer(5), 0..5))).err().unwrap();
    assert_eq!(error, SendError::Region(RegionFault::Bounds));
    assert!(matches!(payload, Payload::Buffer(..)));
    assert_eq!(origin.get(get(to, handle, 40, &into, 25)), refused(RegionFault::Bounds));
    assert_eq!(origin.get(get(to, handle, u32::MAX, &into, 2)), refused(RegionFault::Bounds));
    assert_eq!(origin.get(get(to, handle, 0, &into, 33)), Err(SendError::Range));
    assert_eq!(origin.get(Get { at: u32::MAX, ..get(to, handle, 0, &into, 33) }), Err(SendError::Range));
    let me = origin.endpoint();
    assert_eq!(origin.get(get(me, handle, 0, &into, 1)), refused(RegionFault::Foreign));
    let none = Layout::Strided { block: 0, stride: 4 };
    assert_eq!(origin.get(Get { layout: none, ..get(to, handle, 0, &into, 1) }), Err(SendError::Layout));
    let short = Layout::Indexed(&[(0, 3)]);
    assert_eq!(
        origin.get(Get { into_layout: short, ..get(to, handle, 0, &into, 4) }),
        Err(SendError::Layout)
    );
    let far = Layout::Strided { block: 1, stride: u32::MAX };
    assert_eq!(origin.get(Get { layout: far, ..get(to, handle, 0, &into, 4) }), Err(SendError::Layout));
    let wide =
        Put { payload_layout: Layout::Indexed(&[(3, 3)]), ..put(to, handle, 0, Payload::Static(b"12345")) };
    assert_eq!(origin.put(wide).map_err(|(error, _)| error), Err(SendError::Layout));
    let outside = Payload::Shared(into.clone(), 30..33);
    assert_eq!(origin.put(put(to, handle, 0, outside)).map_err(|(error, _)| error), Err(SendError::Range));
    let rmw = |width| RmwOp { width, update: Update::Add(1) };
    let mut fetch = |offset, op| origin.rmw(Rmw { target: to, region: handle, offset, op, done: None });
    assert_eq!(fetch(60, rmw(Width::Eight)), refused(RegionFault::Bounds));
    assert_eq!(fetch(4, rmw(Width::Eight)), refused(RegionFault::Unaligned));
    assert_eq!(fetch(6, rmw(Width::Four)), refused(RegionFault::Unaligned));
    assert_eq!(clients[0].node().world.lock().seen, []);
}

#[test]
fn d7_a_region_that_ends_during_a_get_ends_it_with_the_fault() {
    let Scene { mut origin, mut target, clients } = scene(Way::TwoNodes);
    let region = target.register(buffer(10 * MTU), Rights::READ).ok().unwrap();
    let world = &clients[0].node().world;
    world.stepped();
    let (ends, done) = ends();
    let into = buffer(10 * MTU).share();
    let request = get(target.endpoint(), region.handle(), 0, &into, 10 * MTU as u32);
    assert_eq!(origin.get(Get { done: done(0), ..request }), Ok(()));
    for _ in 0..4 {
        let mut state = world.lock();
        let step = state.steps()[0];
        state.step(step);
    }
    assert!(target.deregister(region).is_ok());
    world.free_running();
    advance_all(&mut [&mut origin]);
    assert_eq!(*ends.lock().unwrap(), [(0, None, Err(OperationError::Region(RegionFault::Stale)))]);
    assert!(into.reclaim().is_ok());
}

#[test]
fn p11_puts_beyond_all_queues_wait_in_order_and_none_is_lost() {
    const PUTS: u32 = 5000;
    let Scene { mut origin, mut target, clients } = scene(Way::TwoNodes);
    let region = target.register(buffer(4 * PUTS as usize), Rights::WRITE).ok().unwrap();
    let (to, handle) = (target.endpoint(), region.handle());
    let told: &'static Mutex<Vec<usize>> = leak(Mutex::default());
    let call = leak(move |_: &mut Active<Port>, completion: pami::Completion| {
        told.lock().unwrap().push(completion.cookie)
    });
    for number in 0..PUTS {
        origin
            .retry(|active| {
                let payload = Payload::Static(number.to_le_bytes().to_vec().leak());
                let remote_done = (number % 7 == 0).then_some(Done { call, cookie: number as usize });
                active
                    .put(Put { remote_done, ..put(to, handle, 4 * number, payload) })
                    .map_err(|(error, _)| error)
            })
            .unwrap();
    }
    advance_all(&mut [&mut origin]);
    let expected: Vec<u8> = (0..PUTS).flat_map(u32::to_le_bytes).collect();
    assert_eq!(bytes(region.memory()), expected);
    assert_eq!(*told.lock().unwrap(), (0..PUTS as usize).step_by(7).collect::<Vec<_>>());
    let replies = clients[0].node().world.count(Kind::Reply);
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
        let Scene { mut origin, mut target, .. } = scene(way);
        let size = offset + reaches.unwrap_or(0) + 50;
        let region = target.register(buffer(size), Rights::WRITE).ok().unwrap();
        let before = pattern(size, 77);
        region.memory().write(0, &before).unwrap();
        let (ends, done) = ends();
        let request = put(target.endpoint(), region.handle(), offset as u32, payload(sort, &data));
        let request = Put { layout: to, payload_layout: from, local_done: done(0), remote_done: done(1), ..request };
        let taken = origin.put(request).map_err(|(error, _)| error);
        advance_all(&mut [&mut origin, &mut target]);
        if reaches.is_none() {
            prop_assert_eq!(taken, Err(SendError::Layout));
            return Ok(());
        }
        prop_assert_eq!(taken, Ok(()));
        prop_assert_eq!(bytes(region.memory()), scattered(&to, &before, offset, &moved));
        prop_assert_eq!(ends.lock().unwrap().len(), 2);
        prop_assert!(ends.lock().unwrap().iter().all(|end| end.2 == Ok(())));
        prop_assert!(target.deregister(region).is_ok());
    }

    #[test]
    fn p10_a_get_fetches_what_a_naive_reading_of_the_layouts_says(
        way in ways(), from in layouts(), to in layouts(), offset in 0usize..100, at in 0usize..100, len in 0usize..3000
    ) {
        let reaches = (reach(&from, len), reach(&to, len));
        let size = offset + reaches.0.unwrap_or(0) + 20;
        let Scene { mut origin, mut target, .. } = scene(way);
        let region = target.register(filled(&pattern(size, 5)), Rights::READ).ok().unwrap();
        let before = pattern(at + reaches.1.unwrap_or(0) + 30, 9);
        let into = filled(&before).share();
        let (ends, done) = ends();
        let request = get(target.endpoint(), region.handle(), offset as u32, &into, len as u32);
        let request = Get { layout: from, into_layout: to, at: at as u32, done: done(0), ..request };
        let taken = origin.get(request);
        advance_all(&mut [&mut origin, &mut target]);
        if reaches.0.is_none() || reaches.1.is_none() {
            prop_assert_eq!(taken, Err(SendError::Layout));
            return Ok(());
        }
        prop_assert_eq!(taken, Ok(()));
        let source = pattern(size, 5);
        let moved = &gathered(&from, &source[offset..])[..];
        prop_assert_eq!(bytes(&into), scattered(&to, &before, at, &moved[..len]));
        prop_assert_eq!(&*ends.lock().unwrap(), &[(0, None, Ok(()))]);
        prop_assert!(into.reclaim().is_ok());
    }
}
