//! Words of regions of the node, which are reached more quickly from the second time on, with all that is checked (SPEC P-7, P-8).

use crate::one_sided::forged;
use crate::stage::{Port, Stage, bytes, leak, put, rmw};
use pami::device::OPERATIONS;
use pami::{Active, OnFetched, OperationError, Payload, Put, RegionFault, Rights, Rmw, SendError, Update};
use std::sync::Mutex;
use zerocopy::IntoBytes;

#[test]
fn p8_a_word_is_checked_each_time_as_the_first_time() {
    const WORD: [u64; 1] = [5];
    let mut stage = Stage::pair(true, |client| client);
    let (to, told) = (stage.at(1), stage.told);
    let both = |stage: &mut Stage, to, handle, offset| {
        let payload = Payload::Static(leak(WORD).as_bytes());
        let put = Put { remote_done: told.done(0), ..put(to, handle, offset, payload) };
        let put = stage[0].put(put).map_err(|(error, _)| error);
        let update =
            stage[0].rmw(Rmw { done: told.on_fetched(0), ..rmw(to, handle, offset, Update::Add(2)) });
        stage.quiet_of(&[0]);
        let ends = stage.results().into_iter().map(|(_, end)| end);
        let ends = ends.chain(stage.fetched().into_iter().map(|end| end.result.map(drop)));
        ([put, update], ends.collect::<Vec<_>>())
    };
    let refused = |fault| ([Err(SendError::Region(fault)); 2], vec![]);
    let faulty = |fault| ([Ok(()); 2], vec![Err(OperationError::Region(fault)); 2]);
    let done = ([Ok(()); 2], vec![Ok(()); 2]);
    let region = stage.region(1, &[0; 64], Rights::all());
    let (handle, me) = (region.handle(), stage.at(0));
    for _ in 0..3 {
        assert_eq!(both(&mut stage, to, handle, 8), done);
        assert_eq!(bytes(region.memory())[8..16], 7u64.to_le_bytes());
        assert_eq!(both(&mut stage, to, handle, 64), refused(RegionFault::Bounds));
        assert_eq!(both(&mut stage, to, handle, u32::MAX - 7), refused(RegionFault::Bounds));
        assert_eq!(both(&mut stage, to, forged(handle, 3, 12), 8), refused(RegionFault::Bounds));
        assert_eq!(both(&mut stage, to, forged(handle, 3, 100), 64), faulty(RegionFault::Bounds));
        assert_eq!(both(&mut stage, to, forged(handle, 0, 0), 8), refused(RegionFault::Foreign));
        assert_eq!(both(&mut stage, me, handle, 8), refused(RegionFault::Foreign));
        assert_eq!(both(&mut stage, me, forged(handle, 0, 0), 8), faulty(RegionFault::Foreign));
        assert_eq!(both(&mut stage, to, forged(handle, 2, 0), 8), faulty(RegionFault::Stale));
        let unaligned = Err(SendError::Region(RegionFault::Unaligned));
        assert_eq!(both(&mut stage, to, handle, 44), ([Ok(()), unaligned], vec![Ok(())]));
        assert_eq!(bytes(region.memory())[8..16], 7u64.to_le_bytes(), "as it was before what was refused");
    }
    for (rights, expected) in [
        (Rights::WRITE, [Ok(()), Err(OperationError::Region(RegionFault::Rights))]),
        (Rights::UPDATE, [Err(OperationError::Region(RegionFault::Rights)), Ok(())]),
    ] {
        let limited = stage.region(1, &[0; 64], rights);
        for _ in 0..3 {
            assert_eq!(both(&mut stage, to, limited.handle(), 8), ([Ok(()); 2], expected.to_vec()));
        }
        assert!(stage[1].deregister(limited).is_ok());
    }
    assert_eq!(both(&mut stage, to, handle, 8), done);
    assert!(stage[1].deregister(region).is_ok());
    for round in 0..3 {
        assert_eq!(both(&mut stage, to, handle, 8), faulty(RegionFault::Stale));
        let again = stage.region(1, &[0; 64], Rights::all());
        assert_eq!(again.handle().id().index, handle.id().index, "at the same place");
        assert_eq!(both(&mut stage, to, handle, 8), faulty(RegionFault::Stale), "{round}");
        assert_eq!(both(&mut stage, to, again.handle(), 8), done);
        assert_eq!(both(&mut stage, to, handle, 8), faulty(RegionFault::Stale));
        assert_eq!(bytes(again.memory())[8..16], 7u64.to_le_bytes());
        assert!(stage[1].deregister(again).is_ok());
    }
}

#[test]
fn p7_q4_regions_in_turn_do_not_have_their_windows_opened_each_time() {
    const WORD: [u64; 1] = [5];
    let mut stage = Stage::pair(true, |client| client);
    let (to, told) = (stage.at(1), stage.told);
    let regions = [0; 2].map(|_| stage.region(1, &[0; 64], Rights::all()));
    for round in 0..30 {
        let payload = Payload::Static(leak(WORD).as_bytes());
        let put = put(to, regions[round % 2].handle(), 8 * (round / 2 % 8) as u32, payload);
        assert!(stage[0].put(Put { remote_done: told.done(0), ..put }).is_ok());
        stage.quiet_of(&[0]);
    }
    let opened = stage.world.lock().windows;
    assert!((1..=12).contains(&opened), "{opened} of 30");
    assert!(regions.iter().all(|region| bytes(region.memory()) == [5u64; 8].map(u64::to_le_bytes).concat()));
}

#[test]
fn p7_as_many_ends_as_were_told_of_make_room_for_those_that_callbacks_begin() {
    let mut stage = Stage::pair(true, |client| client);
    let region = stage.region(1, &[0; 8], Rights::all());
    let (to, handle) = (stage.at(1), region.handle());
    let order: &'static Mutex<Vec<usize>> = leak(Mutex::default());
    let last = leak(move |_: &mut Active<Port>, end: pami::Fetched| order.lock().unwrap().push(end.cookie));
    let again = leak(move |active: &mut Active<Port>, end: pami::Fetched| {
        order.lock().unwrap().push(end.cookie);
        let done = Some(OnFetched { call: last, cookie: end.cookie + OPERATIONS });
        assert_eq!(active.rmw(Rmw { done, ..rmw(to, handle, 0, Update::Add(1)) }), Ok(()));
    });
    for cookie in 0..OPERATIONS {
        let done = Some(OnFetched { call: again, cookie });
        assert_eq!(stage[0].rmw(Rmw { done, ..rmw(to, handle, 0, Update::Add(1)) }), Ok(()));
    }
    for op in [Update::Add(1), Update::Or(1)] {
        assert_eq!(stage[0].rmw(rmw(to, handle, 0, op)), Err(SendError::Again));
    }
    stage[0].advance();
    assert_eq!(
        *order.lock().unwrap(),
        (0..OPERATIONS).collect::<Vec<_>>(),
        "the others are the next advance's"
    );
    assert_eq!(stage[0].rmw(rmw(to, handle, 0, Update::Or(1))), Err(SendError::Again));
    stage.quiet_of(&[0]);
    assert_eq!(*order.lock().unwrap(), (0..2 * OPERATIONS).collect::<Vec<_>>());
    assert_eq!(bytes(region.memory()), (2 * OPERATIONS as u64).to_le_bytes());
}
