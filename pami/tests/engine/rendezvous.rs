//! Messages whose data stays with the sender until the target wants it (SPEC P-6).

use crate::machine::{MTU, QUEUE, Step, buffer, machine, pattern};
use crate::stage::{Stage, Told, handler};
use pami::packet::{HEADER_LIMIT, Kind};
use pami::region::RegionId;
use pami::{Layout, OperationError, Receive, RegionFault, Send};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SWITCH: usize = 2048;

/// A pair on two nodes that sends by rendezvous from [`SWITCH`] bytes on.
fn far() -> Stage {
    Stage::pair(false, |client| client.rendezvous_from(SWITCH))
}

fn far_with(told: Told, handler: crate::stage::Handler) -> Stage {
    Stage::hears(2, false, told, handler, |client| client.rendezvous_from(SWITCH))
}

/// A send of a buffer, whose ends are told under 1 and 2.
fn lent(stage: &Stage, bytes: &[u8]) -> Send<'static, crate::stage::Port> {
    Send { remote_done: stage.done(2), ..stage.buffered(1, bytes, 1) }
}

#[test]
fn p6_the_switch_over_size_decides_and_can_be_set() {
    let mut stage = far();
    assert_eq!(stage.clients[0].attributes().rendezvous_from, SWITCH);
    let world = stage.world;
    let counts = || [Kind::Rts, Kind::Get, Kind::RendezvousDone].map(|kind| world.count(kind));
    for (size, requests) in [(SWITCH - 1, 0), (SWITCH, 1), (SWITCH + 1, 1), (1 << 20, 1)] {
        let before = counts();
        stage.say(0, 1, pattern(size, 3));
        stage.quiet();
        assert_eq!(counts(), before.map(|count| count + requests), "{size}");
        assert!(stage.data() == [pattern(size, 3)]);
    }
    assert_eq!((stage.world.lock().unit(0).regions(), stage.protocol_errors()), (0, 0));
}

#[test]
fn p6_a_client_that_wants_none_sends_all_eagerly() {
    let mut stage = Stage::pair(false, |client| client.rendezvous_from(usize::MAX));
    stage.say(0, 1, pattern(1 << 18, 0));
    stage.quiet();
    assert!(stage.data() == [pattern(1 << 18, 0)]);
    assert_eq!(stage.count(Kind::Rts), 0);
}

#[test]
fn p6_the_payload_is_the_senders_again_only_when_it_was_pulled() {
    let mut stage = far();
    let bytes = pattern(3 * SWITCH, 8);
    stage.send(0, lent(&stage, &bytes));
    stage.advance(0, 10);
    assert_eq!(stage.ends(), [], "nobody has asked for it");
    assert_eq!(stage.world.lock().unit(0).regions(), 1);
    stage.quiet();
    assert_eq!(stage.ends(), [(1, Some(bytes.len()), Ok(())), (2, None, Ok(()))]);
    assert_eq!(stage.data(), [bytes]);
    assert_eq!(stage.world.lock().unit(0).regions(), 0);
}

#[test]
fn p6_the_data_goes_from_the_senders_memory_to_the_handlers_buffer_and_nowhere_else() {
    // Pulled bytes cross as answers of the unit, none as packets of the contexts.
    let mut stage = far();
    let size = 5 * SWITCH + 3;
    stage.say(0, 1, pattern(size, 1));
    stage.quiet();
    let state = stage.world.lock();
    let bytes = |kinds: &[Kind]| -> usize {
        state.seen.iter().filter(|seen| kinds.contains(&seen.0)).map(|seen| seen.3).sum()
    };
    assert_eq!(bytes(&[Kind::GetData, Kind::GetLast]), size);
    assert_eq!(bytes(&[Kind::EagerFirst, Kind::EagerFirstAcked, Kind::EagerNext]), 0);
    let kinds = state.seen.iter().map(|seen| seen.0).filter(|&kind| kind != Kind::GetData);
    assert!(kinds.eq([Kind::Rts, Kind::Get, Kind::GetLast, Kind::RendezvousDone]));
}

#[test]
fn p6_the_header_comes_with_the_request_and_the_data_does_not() {
    let header = pattern(HEADER_LIMIT, 4);
    let (expected, calls) = (header.clone(), crate::stage::leak(AtomicUsize::new(0)));
    let refuses = handler(move |message| {
        assert_eq!((message.header, message.data.len()), (&expected[..], 0));
        assert_eq!((message.total, message.is_whole()), (SWITCH, false));
        calls.fetch_add(1, Relaxed);
        Receive::Done
    });
    let mut stage = far_with(Told::new(), refuses);
    stage.send(0, Send { header: &header, ..lent(&stage, &pattern(SWITCH, 0)) });
    stage.quiet();
    assert_eq!(calls.load(Relaxed), 1);
    // It is not wanted: the sender has its payload back all the same.
    assert_eq!(stage.ends(), [(1, Some(SWITCH), Ok(())), (2, None, Ok(()))]);
    assert_eq!(stage.count(Kind::Get), 0);
}

#[test]
fn p6_a_buffer_that_is_too_small_gets_the_front() {
    let bytes = pattern(2 * SWITCH, 5);
    for len in [0, 1, SWITCH, 2 * SWITCH, 2 * SWITCH + 9] {
        let told = Told::torn();
        let into = handler(move |message| Receive::Into(buffer(len), told.on_received(message.header)));
        let mut stage = far_with(told, into);
        stage.say(0, 1, bytes.clone());
        stage.quiet();
        let got = stage.receptions().pop().unwrap();
        let front = len.min(bytes.len());
        assert_eq!((got.len, got.total, got.result), (front, bytes.len(), Ok(())));
        assert_eq!(got.memory[..front], bytes[..front]);
        assert!(got.memory[front..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn p6_pulled_data_can_be_had_in_pieces_and_scattered() {
    const STRIDED: Layout = Layout::Strided { block: 24, stride: 40 };
    let told = Told::new();
    let takes = handler(move |message| match message.header {
        b"pieces" => told.parts(0),
        header => Receive::Scatter(buffer(2 * message.total), STRIDED, told.on_received(header)),
    });
    let mut stage = far_with(told, takes);
    let bytes = pattern(100_000, 6);
    for header in [&b"pieces"[..], b"runs"] {
        stage.send(0, Send { header, ..stage.message(1, bytes.clone()) });
    }
    stage.quiet();
    let mut pieces: Vec<u8> = Vec::new();
    for part in stage.parts() {
        assert_eq!((part.offset, part.result), (pieces.len(), Ok(())));
        pieces.extend(part.data);
        assert_eq!(part.is_last, pieces.len() == bytes.len());
    }
    assert_eq!(pieces, bytes);
    let mut expected = vec![0; 2 * bytes.len()];
    for (run, block) in bytes.chunks(24).enumerate() {
        expected[run * 40..run * 40 + block.len()].copy_from_slice(block);
    }
    assert!(stage.receptions().pop().unwrap().memory == expected);
}

#[test]
fn p6_with_no_region_left_the_message_goes_eagerly() {
    let mut stage = far();
    stage.world.lock().unit(0).limit = Some(1);
    (0..3).for_each(|seed| stage.send(0, lent(&stage, &pattern(SWITCH, seed))));
    stage.quiet();
    // Behind one that may be refused.
    assert_eq!([Kind::Rts, Kind::AskedAcked].map(|kind| stage.count(kind)), [1, 2]);
    let (mut seen, mut expected) = (stage.data(), [0, 1, 2].map(|seed| pattern(SWITCH, seed)));
    seen.sort();
    expected.sort();
    assert_eq!((seen, stage.ends().len()), (expected.to_vec(), 6));
}

#[test]
fn p6_more_rendezvous_than_places_wait_and_none_is_lost() {
    const ORIGINS: usize = 4;
    let (told, nodes) = (Told::new(), machine(ORIGINS as u32 + 1, false));
    for node in &nodes {
        node.world.lock().unit(node.task).limit = Some(1000);
    }
    let mut stage =
        Stage::of(nodes, 1, told, |client| client.rendezvous_from(SWITCH).dispatch(0, told.taker()));
    for (origin, seed) in (1..=ORIGINS).flat_map(|origin| (0..40).map(move |seed| (origin, seed))) {
        stage.say(origin, 0, pattern(SWITCH, seed));
    }
    // The answers are slow, so the requests pile up.
    stage.world.stepped();
    for _ in 0..2000 {
        (0..=ORIGINS).for_each(|at| _ = stage[at].advance());
        let mut state = stage.world.lock();
        let steps = state.steps().into_iter().filter(|step| matches!(step, Step::Send(_)));
        steps.collect::<Vec<_>>().into_iter().for_each(|step| state.step(step));
    }
    assert_eq!(stage.counts().0, 0);
    let places = pami::receive_request::RECEIVE_REQUESTS + QUEUE;
    assert!(stage.count(Kind::Rts) >= places, "the places are full");
    stage.world.free_running();
    stage.quiet();
    let data = stage.data();
    assert_eq!(data.len(), 40 * ORIGINS);
    assert!(data.iter().all(|data| data.len() == SWITCH));
}

#[test]
fn p6_a_region_that_ends_under_a_pull_ends_the_reception_with_the_fault() {
    let told = Told::torn();
    let mut stage = far_with(told, told.taker());
    stage.world.stepped();
    stage.say(0, 1, pattern(4 * MTU, 0));
    // The request, the get and a part of the answer.
    for _ in 0..3 {
        stage[1].advance();
        assert!(stage.step(|_| true));
    }
    stage.world.lock().unit(0).deregister(RegionId { index: 0.into(), generation: 1.into() });
    stage.world.free_running();
    stage.advance(1, 2);
    let got = stage.receptions();
    let stale = Err(OperationError::Region(RegionFault::Stale));
    assert_eq!(
        got.iter().map(|got| (got.len, got.memory.len(), got.result)).collect::<Vec<_>>(),
        [(0, 4 * MTU, stale)]
    );
    assert_eq!(stage.destroy(1), Ok(()));
}
