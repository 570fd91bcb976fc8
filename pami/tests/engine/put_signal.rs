//! Puts with signal: the target is told, once, when all data is there (SPEC D-5).

use crate::machine::{MTU, filled, pattern};
use crate::shapes::{gathered, layouts, reach, scattered};
use crate::stage::{Port, Random, Stage, bytes, ends, handler, leak, put};
use pami::packet::{DISPATCH_IDS, Kind};
use pami::{
    Layout, OperationError, Payload, Pools, Put, Receive, Region, RegionFault, Rights, Send, SendError,
    Shared, Signal,
};
use proptest::prelude::*;
use std::sync::Mutex;

const SIGNALS: u8 = 3;

/// What the target was told: the signal's header, and the region as it was then.
type Signals = &'static Mutex<Vec<(u64, Vec<u8>)>>;

/// Context 0 is the origin, context 1 the target, which has a region of so many bytes.
fn scene(local: bool, len: usize) -> (Stage, Region, Signals) {
    scene_of(local, len, Pools::LARGE.unexpected)
}

/// The same; the target keeps so many messages at most.
fn scene_of(local: bool, len: usize, unexpected: usize) -> (Stage, Region, Signals) {
    let seen: Signals = leak(Mutex::default());
    let memory: &'static Mutex<Option<Shared>> = leak(Mutex::default());
    let signals = handler(move |message| {
        assert_eq!((message.data, message.total), (&[][..], 0));
        let memory = bytes(memory.lock().unwrap().as_ref().unwrap());
        seen.lock().unwrap().push((u64::from_le_bytes(message.header.try_into().unwrap()), memory));
        Receive::Done
    });
    let mut stage = Stage::pair(local, |client| {
        client.pools(Pools { unexpected, ..Pools::LARGE }).dispatch(SIGNALS, signals)
    });
    let region = stage.region(1, &vec![0; len], Rights::all());
    *memory.lock().unwrap() = Some(region.memory().clone());
    (stage, region, seen)
}

fn signal(number: u64) -> Signal {
    Signal { dispatch: SIGNALS, header: number.to_le_bytes() }
}

fn put_signal(stage: &mut Stage, put: Put<Port>, number: u64) -> Result<(), SendError> {
    stage[0].put_signal(put, signal(number)).map_err(|(error, _)| error)
}

#[test]
fn d5_a_signal_is_the_last_packet_of_its_put() {
    for (len, packets) in [(0, 1), (8, 1), (MTU - 16, 1), (MTU - 15, 2), (MTU, 2), (3 * MTU, 4)] {
        let (mut stage, region, seen) = scene(false, len);
        let data = pattern(len, 1);
        let request = put(stage.at(1), region.handle(), 0, Payload::Static(data.clone().leak()));
        assert_eq!(put_signal(&mut stage, request, 7), Ok(()));
        stage.quiet();
        assert_eq!(*seen.lock().unwrap(), [(7, data)], "{len} bytes");
        let all = stage.world.lock().seen.len();
        assert_eq!((stage.count(Kind::PutSignal), all), (1, packets), "{len} bytes: nothing else goes");
    }
}

#[test]
fn d5_its_end_is_told_to_the_origin_when_the_target_was() {
    for local in [false, true] {
        let (mut stage, region, seen) = scene(local, 2000);
        let payload = Payload::Buffer(filled(&pattern(2000, 1)), 0..2000);
        let request = put(stage.at(1), region.handle(), 0, payload);
        let (local_done, remote_done) = (stage.done(1), stage.done(2));
        assert_eq!(put_signal(&mut stage, Put { local_done, remote_done, ..request }, 9), Ok(()));
        stage.quiet_of(&[0]);
        assert_eq!((stage.ends(), seen.lock().unwrap().len()), (vec![(1, Some(2000), Ok(()))], 0), "{local}");
        stage.quiet();
        assert_eq!((stage.ends(), seen.lock().unwrap().len()), (vec![(2, None, Ok(()))], 1), "{local}");
        assert_eq!(stage[1].counters().received, 1);
    }
}

#[test]
fn d5_a_put_that_is_refused_is_not_signalled_and_its_origin_hears_why() {
    let fault = |fault| Err(OperationError::Region(fault));
    for local in [false, true] {
        let (mut stage, _, seen) = scene(local, 8);
        let read_only = stage.region(1, &[0; 3000], Rights::READ);
        let gone = stage.region(1, &[0; 3000], Rights::all());
        let stale = gone.handle();
        assert!(stage[1].deregister(gone).is_ok());
        for (handle, expected) in [(read_only.handle(), RegionFault::Rights), (stale, RegionFault::Stale)] {
            for len in [8, 3000] {
                let request = put(stage.at(1), handle, 0, Payload::Static(pattern(len, 1).leak()));
                let remote_done = stage.done(len);
                assert_eq!(put_signal(&mut stage, Put { remote_done, ..request }, 1), Ok(()));
                stage.quiet();
                assert_eq!(stage.ends(), [(len, None, fault(expected))], "{local}");
            }
            // One that nobody is told of.
            let request = put(stage.at(1), handle, 0, Payload::Static(&[1; 8]));
            assert_eq!(put_signal(&mut stage, request, 1), Ok(()));
        }
        stage.quiet();
        assert_eq!((seen.lock().unwrap().len(), stage.protocol_errors()), (0, 0));
    }
}

#[test]
fn d5_a_put_whose_region_goes_in_the_middle_is_not_signalled() {
    for packets in 0..4 {
        let (mut stage, region, seen) = scene(false, 3 * MTU);
        stage.world.stepped();
        let payload = Payload::Static(pattern(3 * MTU, 1).leak());
        let request = put(stage.at(1), region.handle(), 0, payload);
        let remote_done = stage.done(0);
        assert_eq!(put_signal(&mut stage, Put { remote_done, ..request }, 1), Ok(()));
        (0..packets).for_each(|_| assert!(stage.step(|_| true)));
        assert!(stage[1].deregister(region).is_err(), "the handler has its memory");
        stage.world.free_running();
        stage.quiet();
        assert_eq!(stage.ends(), [(0, None, Err(OperationError::Region(RegionFault::Stale)))]);
        assert!(seen.lock().unwrap().is_empty());
    }
}

#[test]
fn d5_signals_come_in_order_and_fences_end_behind_them() {
    for (local, seed) in [false, true].into_iter().flat_map(|local| (0..200).map(move |seed| (local, seed))) {
        let (mut stage, region, seen) = scene(local, 40 * MTU);
        stage.world.stepped();
        stage.world.lock().moody = seed + 1;
        stage.random = Random::new(seed);
        let (fences, done) = ends();
        let mut sent = Vec::new();
        for number in 0..20 {
            let len = stage.random.below(2 * MTU);
            sent.push(len);
            let at = number * 2 * MTU;
            let data: &'static [u8] = pattern(len, number).leak();
            let mut outcome = Err(SendError::Again);
            while outcome == Err(SendError::Again) {
                let payload = Payload::Static(data);
                let request = put(stage.at(1), region.handle(), at as u32, payload);
                outcome = put_signal(&mut stage, request, number as u64);
                stage.some_ticks(4);
            }
            assert_eq!(outcome, Ok(()));
            if number % 5 == 4 {
                let (target, told) = (stage.at(1), done(number).unwrap());
                assert_eq!(stage[0].fence(target, told), Ok(()));
            }
            stage.some_ticks(10);
            let told = seen.lock().unwrap().len();
            assert!(fences.list().iter().all(|end| end.0 < told), "a fence ends too early");
        }
        stage.settle("20 signals", || seen.lock().unwrap().len() == 20 && fences.len() == 4);
        for (number, (told, memory)) in seen.lock().unwrap().iter().enumerate() {
            assert_eq!(*told, number as u64, "in order");
            let run = &memory[number * 2 * MTU..][..2 * MTU];
            let len = sent[number];
            assert_eq!(run[..len], pattern(len, number), "seed {seed}: put {number}");
            assert!(run[len..].iter().all(|&byte| byte == 0));
        }
        assert_eq!(stage.protocol_errors(), 0);
    }
}

/// A message that the target has refused goes again, and so does all that came behind it: a signal between them would tell the
/// origin that they are in.
#[test]
fn d5_r1_a_put_with_signal_waits_for_messages_that_the_target_may_refuse() {
    for local in [false, true] {
        let (mut stage, region, seen) = scene_of(local, 8, 1);
        (0..2).for_each(|number| {
            let message = stage.deferred(1, pattern(10, number));
            stage.send(0, Send { remote_done: stage.done(number), ..message });
        });
        let again = |stage: &mut Stage| {
            let request = put(stage.at(1), region.handle(), 0, Payload::Static(&[7; 8]));
            let remote_done = stage.done(9);
            put_signal(stage, Put { remote_done, ..request }, 1)
        };
        for _ in 0..3 {
            assert_eq!(again(&mut stage), Err(SendError::Again), "{local}");
            stage.quiet();
        }
        assert_eq!((stage.kept(1), seen.lock().unwrap().len()), (1, 0));
        // The first one is taken: there is room for the second, which comes again.
        for taken in 1..=2 {
            stage.quiet();
            assert_eq!(stage.kept(1), 1);
            stage.accept(1);
            stage.until(taken);
        }
        assert_eq!(again(&mut stage), Ok(()));
        stage.quiet();
        assert_eq!(*seen.lock().unwrap(), [(1, vec![7; 8])]);
        let mut ends = stage.cookies();
        ends.sort_unstable();
        assert_eq!((ends, stage.protocol_errors()), (vec![0, 1, 9], 0), "{local}");
    }
}

#[test]
fn d5_a_signal_names_a_handler_that_there_can_be() {
    let (mut stage, region, _) = scene(false, 8);
    let request = put(stage.at(1), region.handle(), 0, Payload::Static(&[1; 8]));
    let refused = stage[0].put_signal(request, Signal { dispatch: DISPATCH_IDS as u8, header: [0; 8] });
    let (error, payload) = refused.err().unwrap();
    assert_eq!(error, SendError::DispatchId);
    assert!(matches!(payload, Payload::Static(&[1, ..])));
    // One that nobody registered is discarded as any message's.
    let request = put(stage.at(1), region.handle(), 0, Payload::Static(&[1; 8]));
    let remote_done = stage.done(0);
    let none = Signal { dispatch: SIGNALS + 1, header: [0; 8] };
    assert!(stage[0].put_signal(Put { remote_done, ..request }, none).is_ok());
    stage.quiet();
    assert_eq!((stage.ends(), bytes(region.memory())), (vec![(0, None, Ok(()))], vec![1; 8]));
    assert_eq!(stage[1].counters().unknown_dispatch, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn d5_a_put_with_signal_places_what_a_put_does(
        local in any::<bool>(), to in layouts(), offset in 0usize..100, len in 0usize..4000
    ) {
        let data = pattern(len, 3);
        let moved = gathered(&Layout::Contiguous, &data);
        let Some(reaches) = reach(&to, moved.len()) else { return Ok(()) };
        let (mut stage, region, seen) = scene(local, offset + reaches + 50);
        let before = bytes(region.memory());
        let request = put(stage.at(1), region.handle(), offset as u32, Payload::Static(data.leak()));
        prop_assert_eq!(put_signal(&mut stage, Put { layout: to, ..request }, 5), Ok(()));
        stage.quiet();
        prop_assert_eq!(&*seen.lock().unwrap(), &[(5, scattered(&to, &before, offset, &moved))]);
    }
}
