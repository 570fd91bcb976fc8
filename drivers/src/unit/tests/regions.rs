//! Regions: who may reach what of whom, and for how long.

use super::one_sided::{add, ports, push_put, push_rmw, request, statistics};
use super::*;
use crate::unit::REGIONS;
use pami::device::Receiving;
use pami::device::{NoRegion, RemoteMemory, Sending};
use pami::packet::ENDS;
use pami::region::RegionHandle;
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn p8_local_operations_are_checked_as_those_of_other_nodes() {
    let net = Net::new(1);
    let unit = units::<0>(&net, 1, 2, None)[0];
    let (mut a, mut b) = (open(unit, 0), unit.open(ClientId(0), 1, 0, Sharing::Exclusive).unwrap());
    let owner = endpoint(1, 1);
    let memory = shared(&pattern(1, 100));
    let register = |b: &mut TestPort<0>, rights| b.register(Memory::Shared(memory.clone()), rights).unwrap();
    let all = register(&mut b, Rights::all());
    assert_eq!(a.put_local(owner, all, 90, &[1; 10]), Ok(()));
    assert_eq!(a.put_local(owner, all, 91, &[2; 10]), Err(RegionFault::Bounds));
    assert_eq!(a.put_local(owner, all, u32::MAX, &[2; 10]), Err(RegionFault::Bounds));
    let into = shared(&[0; 50]);
    assert_eq!(a.get_local(owner, all, 0, (&into, 10), 40), Ok(()));
    assert_eq!(bytes(&into)[10..], pattern(1, 100)[..40]);
    assert_eq!(a.get_local(owner, all, 0, (&into, 11), 40), Err(RegionFault::Bounds));
    assert_eq!(a.get_local(owner, all, 61, (&into, 0), 40), Err(RegionFault::Bounds));
    // Another task, another client.
    assert_eq!(a.put_local(endpoint(0, 0), all, 0, &[2]), Err(RegionFault::Foreign));
    let client = Endpoint::from_parts(ClientId(1), 1, ContextOffset(0));
    assert_eq!(a.get_local(client, all, 0, (&into, 0), 1), Err(RegionFault::Foreign));
    for rights in [Rights::empty(), Rights::READ, Rights::WRITE, Rights::UPDATE] {
        let region = register(&mut b, rights);
        let allowed = |right| if rights.contains(right) { Ok(()) } else { Err(RegionFault::Rights) };
        assert_eq!(a.get_local(owner, region, 0, (&into, 0), 1), allowed(Rights::READ));
        assert_eq!(a.put_local(owner, region, 0, &[2]), allowed(Rights::WRITE));
        assert_eq!(a.rmw_local(owner, region, 0, add(0)).map(|_| ()), allowed(Rights::UPDATE));
        for wanted in [Rights::READ, Rights::UPDATE] {
            assert_eq!(a.reach(owner, region, wanted, |_| ()), allowed(wanted));
        }
        b.deregister(region);
    }
    // What is lent is not written, whatever the rights.
    let lent = b.register(Memory::Lent((&b"constant"[..]).into()), Rights::all()).unwrap();
    assert_eq!(a.put_local(owner, lent, 0, &[2]), Err(RegionFault::Rights));
    assert_eq!(a.rmw_local(owner, lent, 0, add(1)), Err(RegionFault::Rights));
    assert_eq!(a.get_local(owner, lent, 3, (&into, 0), 5), Ok(()));
    assert_eq!(bytes(&into)[..5], b"stant"[..]);
    // Only its owner can end it.
    a.deregister(all);
    assert_eq!(a.put_local(owner, all, 0, &[]), Ok(()));
    b.deregister(all);
    assert_eq!(a.put_local(owner, all, 0, &[]), Err(RegionFault::Stale));
    assert_eq!(a.put_local(owner, RegionId::NONE, 0, &[]), Err(RegionFault::Stale));
    assert!(memory.reclaim().is_ok());
}

/// The handle of a region of task 1 that has so many bytes.
fn handle(region: RegionId, len: u32) -> RegionHandle {
    let words = [1, region.index.get(), region.generation.get(), len];
    RegionHandle::read_from_bytes(words.as_bytes()).unwrap()
}

fn put_word(a: &mut TestPort<0>, target: Endpoint, region: RegionId, offset: u32, word: u64) -> bool {
    let words = a.reach_words(target, &handle(region, 28), Rights::WRITE);
    words.is_some_and(|words| a.put_word(&words, offset, word))
}

fn add_to_word(
    a: &mut TestPort<0>,
    target: Endpoint,
    region: RegionId,
    offset: u32,
    word: u64,
) -> Option<u64> {
    let words = a.reach_words(target, &handle(region, 28), Rights::UPDATE)?;
    a.add_to_word(&words, offset, word)
}

#[test]
fn p8_the_quick_ways_to_a_word_go_where_the_others_do_and_nowhere_else() {
    let net = Net::new(1);
    let unit = units::<0>(&net, 1, 2, None)[0];
    let (mut a, mut b) = (open(unit, 0), unit.open(ClientId(0), 1, 0, Sharing::Exclusive).unwrap());
    let owner = endpoint(1, 1);
    let memory = shared(&[0; 28]);
    let mut register = |rights| b.register(Memory::Shared(memory.clone()), rights).unwrap();
    let [mut all, put, update] =
        [Rights::all(), Rights::all() - Rights::UPDATE, Rights::all() - Rights::WRITE].map(&mut register);
    let lent = b.register(Memory::Lent((&b"constant"[..]).into()), Rights::all()).unwrap();
    let stale = b.register(Memory::Shared(memory.clone()), Rights::all()).unwrap();
    b.deregister(stale);
    let even = RegionId { generation: (all.generation.get() + 1).into(), ..all };
    let beyond = RegionId { index: (REGIONS as u32).into(), ..all };
    let client = Endpoint::from_parts(ClientId(1), 1, ContextOffset(1));
    // Another context of the task is as good.
    let allowed = [(owner, all, 8), (endpoint(1, 0), all, 16)];
    let others = [
        (endpoint(0, 1), all, 8),
        (client, all, 8),
        (owner, lent, 0),
        (owner, stale, 8),
        (owner, even, 8),
        (owner, beyond, 8),
        (owner, RegionId::NONE, 8),
        // Unaligned, not whole, outside.
        (owner, all, 4),
        (owner, all, 24),
        (owner, all, 32),
        (owner, all, u32::MAX - 7),
    ];
    for (target, region, offset) in others {
        assert!(!put_word(&mut a, target, region, offset, 1), "{target:?} {region:?} {offset}");
        assert_eq!(add_to_word(&mut a, target, region, offset, 1), None, "{target:?} {region:?} {offset}");
    }
    assert!(!put_word(&mut a, owner, update, 8, 1));
    assert_eq!(add_to_word(&mut a, owner, put, 8, 1), None);
    assert_eq!(bytes(&memory), [0; 28]);
    for (target, region, offset) in allowed {
        assert!(put_word(&mut a, target, region, offset, 5));
        assert_eq!(add_to_word(&mut a, target, region, offset, 2), Some(5));
        assert_eq!(a.rmw_local(target, region, offset, add(0)), Ok(7));
    }
    assert!(put_word(&mut a, owner, put, 8, 9));
    assert_eq!(add_to_word(&mut a, owner, update, 8, 1), Some(9));
    // As much of it as the handle tells, and none that tells of more.
    let words = a.reach_words(owner, &handle(all, 16), Rights::WRITE).unwrap();
    assert!(a.put_word(&words, 8, 10) && !a.put_word(&words, 16, 10));
    assert!(a.reach_words(owner, &handle(all, 29), Rights::WRITE).is_none());
    // It leads to the region that it was made for, as long as that is there, and to no later one.
    let windows =
        [Rights::WRITE, Rights::UPDATE].map(|wanted| a.reach_words(owner, &handle(all, 28), wanted).unwrap());
    let refused = |a: &mut TestPort<0>| {
        assert!(!a.put_word(&windows[0], 8, 11));
        assert_eq!(a.add_to_word(&windows[1], 8, 11), None);
        assert_eq!(bytes(&memory)[8..16], 10u64.to_le_bytes());
    };
    b.deregister(all);
    refused(&mut a);
    all = b.register(Memory::Shared(memory.clone()), Rights::all()).unwrap();
    refused(&mut a);
    // Nobody is taken to be at them any more.
    [all, put, update, lent].into_iter().for_each(|region| b.deregister(region));
    assert!(memory.reclaim().is_ok());
}

#[test]
fn p8_regions_are_as_many_as_there_are_places_and_places_are_used_again() {
    let net = Net::new(1);
    let unit = units::<0>(&net, 1, 1, None)[0];
    let mut port = open(unit, 0);
    let memory = shared(&[0; 8]);
    for _ in 0..3 {
        let regions: Vec<_> = (0..REGIONS)
            .map(|_| port.register(Memory::Shared(memory.clone()), Rights::READ).unwrap())
            .collect();
        let one_more = port.register(Memory::Shared(memory.clone()), Rights::READ);
        assert_eq!(one_more, Err(NoRegion::NoneLeft { limit: REGIONS }));
        regions.into_iter().for_each(|region| port.deregister(region));
    }
    assert!(memory.reclaim().is_ok());
}

#[test]
fn p8_every_fault_of_a_remote_operation_is_told_to_its_origin() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let memory = shared(&[0; 100]);
    let stale = b.register(Memory::Shared(memory.clone()), Rights::all()).unwrap();
    b.deregister(stale);
    let read = b.register(Memory::Shared(memory.clone()), Rights::READ).unwrap();
    let other = b.register(Memory::Shared(memory.clone()), Rights::all() - Rights::READ).unwrap();
    let forged = RegionId { index: 5000.into(), ..read };
    let into = shared(&[0; 200]);
    let mut message = 0;
    let mut check = |what: &dyn Fn(&mut TestPort<0>, u32), fault| {
        message += 1;
        what(&mut a, message);
        assert_eq!(ended_by(&mut a, &mut b), Completed { message, result: Err(fault) });
    };
    let get = |region, offset, total| {
        let into = &into;
        move |a: &mut TestPort<0>, message| {
            let envelope = request(Kind::Get, 1, message, offset, total);
            a.push_get(1, &envelope, region, Some((into, 0)), true).unwrap();
        }
    };
    for region in [stale, forged, RegionId::NONE] {
        check(&get(region, 0, 10), RegionFault::Stale);
        check(&|a, message| push_put(a, 1, message, region, 0, b"data"), RegionFault::Stale);
        check(&|a, message| push_rmw(a, 1, message, region, 0, add(1)).unwrap(), RegionFault::Stale);
    }
    check(&get(other, 0, 10), RegionFault::Rights);
    check(&|a, message| push_put(a, 1, message, read, 0, b"data"), RegionFault::Rights);
    check(&|a, message| push_rmw(a, 1, message, read, 0, add(1)).unwrap(), RegionFault::Rights);
    check(&get(read, 0, 101), RegionFault::Bounds);
    check(&get(read, u32::MAX, u32::MAX), RegionFault::Bounds);
    check(&|a, message| push_put(a, 1, message, other, 97, b"data"), RegionFault::Bounds);
    assert!(bytes(&memory).iter().all(|&byte| byte == 0));
    let after = statistics(&b);
    assert_eq!((after.refused, after.dropped.total()), (u64::from(message), 0));
}

#[test]
fn p8_a_region_is_reached_as_its_own_tasks_only() {
    let net = Net::new(2);
    let units = units::<0>(&net, 2, 2, None);
    let (mut a, mut b) = (open(units[0], 0), open(units[1], 0));
    let (region, memory) = region(&mut b, &[0; 100]);
    for (task, result) in [(3, Err(RegionFault::Foreign)), (2, Ok(0))] {
        let envelope = Envelope { target: endpoint(task, 0), ..request(Kind::PutLast, 1, 1, 0, 4) };
        a.push_bcopy(torus(1), &envelope, region.as_bytes(), b"data").unwrap();
        assert_eq!(ended_by(&mut a, &mut b).result, result);
        assert_eq!(bytes(&memory).starts_with(b"data"), result.is_ok());
    }
}

#[test]
fn p8_a_put_whose_middle_is_refused_fails_although_its_end_is_not() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let (region, _) = region(&mut b, &[0; 100]);
    let put = |a: &mut TestPort<0>, kind, message, offset| {
        a.push_bcopy(torus(1), &request(kind, 1, message, offset, 20), region.as_bytes(), &[1; 10]).unwrap();
    };
    // Two messages under way at once; only one is torn.
    put(&mut a, Kind::Put, 1, 95);
    put(&mut a, Kind::Put, 2, 50);
    put(&mut a, Kind::PutLast, 2, 60);
    put(&mut a, Kind::PutLast, 1, 0);
    put(&mut a, Kind::PutLast, 1, 0);
    for (message, result) in [(2, Ok(0)), (1, Err(RegionFault::Bounds)), (1, Ok(0))] {
        assert_eq!(ended_by(&mut a, &mut b), Completed { message, result });
    }
}

#[test]
fn d5_the_target_of_a_put_with_signal_sees_whether_all_of_it_was_placed() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let (region, memory) = region(&mut b, &[0; 100]);
    let put = |a: &mut TestPort<0>, kind, message, offset| {
        let header = [region.as_bytes(), b"a signal"].concat();
        let header = if kind == Kind::Put { region.as_bytes() } else { &header };
        a.push_bcopy(torus(1), &request(kind, 1, message, offset, 20), header, &[1; 10]).unwrap();
    };
    for (message, middle, end) in [(1, 20, 30), (2, 95, 40), (3, 20, 95), (2, 50, 60)] {
        put(&mut a, Kind::Put, message, middle);
        put(&mut a, Kind::PutSignal, message, end);
        let arrival = next(&mut b, || _ = a.progress());
        let envelope = arrival.envelope();
        let refused = [middle, end].contains(&95);
        let fault = if refused { RegionFault::Bounds as u32 } else { 0 };
        assert_eq!((envelope.kind, envelope.message, envelope.offset), (Kind::PutSignal, message, fault));
        assert_eq!(arrival.header()[8..], *b"a signal");
        b.release(arrival);
        assert!(refused || bytes(&memory)[end as usize..][..10] == [1; 10]);
    }
    let after = statistics(&b);
    // Packets, and what a packet tells of those before it.
    assert_eq!((after.refused, after.dropped.total(), after.sent_packets), (3, 0, 0));
}

#[test]
fn p8_a_refused_put_that_nobody_is_told_of_spoils_no_other() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let (region, _) = region(&mut b, &[0; 100]);
    let put = |a: &mut TestPort<0>, kind, dispatch, message, offset| {
        let envelope = Envelope { dispatch, ..request(kind, 1, message, offset, 20) };
        a.push_bcopy(torus(1), &envelope, region.as_bytes(), &[1; 10]).unwrap();
    };
    put(&mut a, Kind::Put, ENDS, 1, 95);
    for message in 2..12 {
        put(&mut a, Kind::Put, 0, message, 95);
    }
    // Numbers come again in time.
    for (message, result) in [(2, Ok(0)), (11, Ok(0)), (1, Err(RegionFault::Bounds))] {
        put(&mut a, Kind::PutLast, 0, message, 0);
        assert_eq!(ended_by(&mut a, &mut b), Completed { message, result });
    }
    assert_eq!(statistics(&b).refused, 12);
}

#[test]
fn p8_a_region_that_goes_in_the_middle_of_a_get_ends_it() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let len = if cfg!(miri) { 1 << 16 } else { 1 << 20 };
    let (region, memory) = region(&mut b, &pattern(1, len));
    let into = shared(&std::vec![0; len]);
    a.push_get(1, &request(Kind::Get, 1, 1, 0, len as u32), region, Some((&into, 0)), true).unwrap();
    let began = |into| bytes(into)[..8] == pattern(1, 8);
    (0..20).take_while(|_| !began(&into)).for_each(|_| _ = (a.progress(), b.progress()));
    assert!(began(&into) && a.completed().is_none(), "it is under way");
    b.deregister(region);
    assert!(memory.reclaim().is_ok(), "nobody uses it any more");
    assert_eq!(ended_by(&mut a, &mut b), Completed { message: 1, result: Err(RegionFault::Stale) });
}
