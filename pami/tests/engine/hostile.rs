//! Packets that no honest peer sends (SPEC D-9).

use crate::machine::{CONTEXTS, buffer, machine, pattern};
use crate::stage::{DeferringHandler, Handler, Port, Stage, Told, envelope, get, handler, leak, put, rmw};
use pami::client::PEERS;
use pami::device::{Arrival, REQUESTS};
use pami::endpoint::ContextOffset;
use pami::packet::{DEFERRING, Envelope, HEADER_LIMIT, Kind};
use pami::send::OPERATIONS;
use pami::{
    Active, ClientBuilder, ClientError, Endpoint, Get, Layout, Message, OnPart, OnReceived, Part, Payload,
    Pools, Put, Receive, Received, RegionFault, Rights, Rmw, Send, Update,
};
use proptest::prelude::*;

/// Kind, dispatch, task, message, offset and total, header, data.
type Forged = (Kind, u8, u32, u32, u32, u32, Vec<u8>, Vec<u8>);

fn any_packet() -> impl Strategy<Value = Forged> {
    let kind = proptest::sample::select((0..=u8::MAX).filter_map(Kind::from_byte).collect::<Vec<_>>());
    let small = || prop_oneof![0u32..40, any::<u32>()];
    // Numbers of operations and receptions that are under way, too.
    let message = prop_oneof![0u32..700, any::<u32>()];
    let bytes = || prop_oneof![Just(vec![0; 8]), proptest::collection::vec(any::<u8>(), 0..40)];
    let region = (0u8..3, 0u8..3).prop_map(|(index, generation)| vec![index, 0, 0, 0, generation, 0, 0, 0]);
    let data = prop_oneof![bytes(), region];
    (kind, 0u8..40, 0u32..6, message, small(), small(), bytes(), data)
}

fn forge(stage: &Stage, target: usize, forged: Forged) {
    let (kind, dispatch, task, message, offset, total, header, data) = forged;
    let (total, to) = (total.min(1 << 16), stage.at(target));
    let origin = Endpoint::from_parts(to.client(), task, ContextOffset(task as u8 % 3));
    // What the packet parser sees to.
    let fits = kind.is_first() || kind == Kind::EagerNext;
    let len = if fits { data.len().min(total.saturating_sub(offset) as usize) } else { data.len() };
    let total = if fits && len == 0 && kind != Kind::EagerNext { 0 } else { total };
    let envelope = Envelope { dispatch, message, offset, total, ..envelope(kind, origin, to) };
    stage.forge(envelope, &header, &data[..len]);
}

/// A handler that does all that a handler can.
fn anything() -> (Handler, DeferringHandler) {
    let part =
        leak(|_: &mut Active<Port>, part: &Part<'_>| assert!(part.offset + part.data.len() <= part.total));
    let whole = leak(|_: &mut Active<Port>, received: Received| {
        assert!(received.len <= received.total && received.len <= received.buffer.len());
    });
    let take = move |message: &Message<'_>| {
        let on = OnReceived { call: whole, cookie: 0 };
        match (message.header.len() + message.total) % 5 {
            0 => Some(Receive::Into(buffer(20), on)),
            1 => Some(Receive::Done),
            2 => Some(Receive::Packets(OnPart { call: part, cookie: 0 })),
            3 => Some(Receive::Scatter(buffer(20), Layout::Strided { block: 3, stride: 4 }, on)),
            _ => None,
        }
    };
    let plain = handler(move |message| take(message).unwrap_or(Receive::Done));
    let later = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
        // What no place has room for would be offered for ever.
        take(message).or(if active.can_keep(message) { None } else { Some(Receive::Done) })
    });
    (plain, later)
}

/// A pair of which the target keeps one message at most, and wants none yet.
fn keeps_one(tasks: u32) -> Stage {
    Stage::talk(tasks, false, |client| client.pools(Pools { unexpected: 1, ..Pools::LARGE }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn d9_no_sequence_of_packets_disturbs_a_context(
        packets in proptest::collection::vec(any_packet(), 0..60),
        peers in prop_oneof![Just(1), Just(PEERS)],
    ) {
        let (take, later) = anything();
        let build = |client: ClientBuilder<_>| {
            let client = client.contexts(2).peers(peers).rendezvous_from(1000).dispatch(0, take);
            client.dispatch(31, handler(|_| Receive::Done)).dispatch_deferring(DEFERRING, later)
        };
        let mut stage = Stage::of(machine(2, false), 1, Told::torn(), build);
        // Some of its own is under way.
        for (cookie, len) in [10, 600, 3000].into_iter().enumerate() {
            let bytes = stage.message(0, pattern(len, 0));
            stage.send(1, Send { dispatch: 31, remote_done: stage.done(cookie), ..bytes });
        }
        stage.fence(1, 0, 3);
        stage.turn(&[1]);
        for forged in packets {
            forge(&stage, 1, forged);
            stage.turn(&[1]);
        }
        // What waits for a place of the unexpected queue gets one in time.
        for _ in 0..40 {
            for id in stage.kept_ids(1) {
                let _ = stage[1].discard(id);
            }
            stage.quiet();
            // Who has found no place for an answer is asked in time.
            for _ in 0..if peers == 1 { 500 } else { 0 } {
                stage.turn(&[1, 0]);
            }
        }
        // It still serves its own, and each operation has ended once.
        let (before, to) = (stage[1].counters().received, stage.at(1));
        prop_assert!(stage[0].send_immediate(to, 31, &[], &[1]).is_ok());
        stage.quiet();
        prop_assert_eq!(stage[1].counters().received, before + 1);
        let ends: Vec<_> = stage.ends().iter().map(|end| end.0).collect();
        prop_assert_eq!(ends, [0, 1, 2, 3]);
    }
}

#[test]
fn d9_packets_of_one_origin_that_do_not_go_together_are_strays_and_its_next_message_comes() {
    type Row = (&'static [(Kind, u32, u32, usize)], [u64; 2], bool);
    // Kind, offset, total and length of each; then how many messages and protocol errors there were, and whether half a message is there.
    let rows: [Row; 3] = [
        // A first packet may have no second.
        (&[(Kind::EagerFirst, 0, 11, 1)], [1, 0], true),
        // One begins in the middle.
        (&[(Kind::EagerFirst, 8, 20, 12)], [0, 1], false),
        // The second changes its message's length.
        (&[(Kind::EagerFirst, 0, 102, 60), (Kind::EagerNext, 60, u32::MAX, 400)], [1, 1], true),
    ];
    for (packets, [received, protocol_errors], half) in rows {
        let mut stage = Stage::hears(2, false, Told::torn(), anything().0, |client| client);
        for &(kind, offset, total, len) in packets {
            let packet = envelope(kind, stage.at(0), stage.at(1));
            stage.forge(Envelope { message: 1, offset, total, ..packet }, &[], &pattern(len, 0));
            stage.turn(&[1]);
        }
        let counted = |stage: &Stage| {
            let counters = stage[1].counters();
            [counters.received, counters.protocol_errors]
        };
        assert_eq!(counted(&stage), [received, protocol_errors], "{packets:?}");
        if half {
            assert_eq!(stage.destroy(1), Err(ClientError::ReceivesUnderWay), "{packets:?}");
        }
        // The half that is missing does not come any more.
        assert_eq!(stage.immediate(0, 1, &[1]), Ok(()));
        stage.quiet();
        assert_eq!(counted(&stage), [received + 1, protocol_errors + u64::from(half)], "{packets:?}");
        assert_eq!(stage.destroy(1), Ok(()), "{packets:?}");
    }
}

#[test]
fn d9_r1_a_forged_answer_is_a_stray_that_ends_nothing_and_sends_nothing_again() {
    let mut stage = keeps_one(3);
    let [from, to, other] = [0, 1, 2].map(|at| stage.at(at));
    stage.send(0, Send { remote_done: stage.done(0), ..stage.deferred(1, pattern(10, 0)) });
    stage.say_later(0, 1, pattern(10, 1));
    stage.quiet_of(&[0]);
    let numbers: Vec<_> =
        stage.world.lock().port(to).reception.iter().map(|packet| packet.envelope().message).collect();
    let [unexpected, refused] = numbers[..] else { panic!("{numbers:?}") };
    stage.quiet_of(&[0, 1]);
    assert_eq!(stage.kept(1), 1);
    let sent = stage.world.lock().seen.len();
    let set = (1u64 << (unexpected as usize % REQUESTS)).to_le_bytes();
    let forged: [(_, _, _, &[u8]); 6] = [
        (Kind::Retry, to, unexpected, &[]),
        (Kind::Retry, to, refused.wrapping_add(REQUESTS as u32), &[]),
        (Kind::Retry, other, refused, &[]),
        // Nor is another's answer one, or one to a rendezvous that it is not.
        (Kind::Ack, other, 0, &set),
        (Kind::Admitted, other, 0, &set),
        (Kind::RendezvousDone, to, unexpected, &[]),
    ];
    for (count, (kind, by, message, data)) in forged.into_iter().enumerate() {
        stage.forge(Envelope { message, ..envelope(kind, by, from) }, &[], data);
        stage.quiet_of(&[0]);
        assert_eq!(stage[0].counters().protocol_errors, count as u64 + 1, "{kind:?}");
    }
    assert_eq!((stage.world.lock().seen.len(), stage.ends()), (sent, vec![]));
}

#[test]
fn d9_a_context_ends_nothing_that_its_message_unit_answers() {
    let mut stage = Stage::pair(false, |client| client);
    let (from, to) = (stage.at(0), stage.at(1));
    let region = stage.region(1, &pattern(2000, 1), Rights::all()).handle();
    stage.world.stepped();
    let into = buffer(2000).share();
    let (got, was_put, on_fetched) = (stage.done(0), stage.done(1), stage.told.on_fetched(2));
    assert_eq!(stage[0].get(Get { done: got, ..get(to, region, 0, &into, 2000) }), Ok(()));
    stage.put(0, Put { remote_done: was_put, ..put(to, region, 0, Payload::Static(&[1; 8])) });
    assert_eq!(stage[0].rmw(Rmw { done: on_fetched, ..rmw(to, region, 8, Update::Add(7)) }), Ok(()));
    for (count, kind) in [Kind::Ack, Kind::Admitted, Kind::FenceAck, Kind::Refused].into_iter().enumerate() {
        let dispatch = if kind == Kind::Refused { RegionFault::Rights as u8 } else { 0 };
        stage.forge(Envelope { dispatch, ..envelope(kind, to, from) }, &[], &7u64.to_le_bytes());
        stage.quiet_of(&[0]);
        assert!(stage.ends().is_empty() && stage.fetched().is_empty(), "{kind:?}");
        assert_eq!(stage[0].counters().protocol_errors, 3 * (count as u64 + 1), "{kind:?}");
    }
    stage.world.free_running();
    stage.quiet();
    assert_eq!(stage.results(), [(0, Ok(())), (1, Ok(()))]);
    assert!(stage.fetched()[0].result.is_ok() && into.reclaim().is_ok());
}

#[test]
fn d9_nothing_is_owed_to_an_endpoint_that_does_not_exist() {
    let mut stage = keeps_one(2);
    let (to, requests) = (stage.at(1), REQUESTS as u32);
    for (count, (kind, context, message, header)) in [
        // One is kept and wants to be acknowledged, another is refused, and a third's fence is behind nothing.
        (Kind::Asked, CONTEXTS, requests, 0),
        (Kind::Asked, CONTEXTS + 1, requests, 0),
        (Kind::Fence, CONTEXTS + 2, requests, 0),
        // An endpoint that does has so many operations, and so much of a header.
        (Kind::Fence, 0, OPERATIONS as u32, 0),
        (Kind::Asked, 0, requests, HEADER_LIMIT + 1),
    ]
    .into_iter()
    .enumerate()
    {
        let origin = Endpoint::from_parts(to.client(), 0, ContextOffset(context));
        let packet = envelope(kind, origin, to);
        stage.forge(Envelope { dispatch: DEFERRING, message, ..packet }, &vec![0; header], &[]);
        stage.quiet_of(&[1]);
        assert_eq!(stage[1].counters().protocol_errors, count as u64 + 1, "{kind:?} of {context}");
    }
    stage.discard(1);
    assert_eq!(stage.destroy(1), Ok(()));
}

#[test]
fn d9_an_rts_whose_data_reaches_beyond_what_a_region_can_have_is_dropped() {
    const TOTAL: u32 = 100;
    for local in [false, true] {
        let mut stage = Stage::of(machine(2, local), 1, Told::new(), |client| client);
        let counts = [u32::MAX, u32::MAX - TOTAL + 1, u32::MAX - TOTAL].map(|offset| {
            let rts = envelope(Kind::Rts, stage.at(0), stage.at(1));
            stage.forge(Envelope { offset, total: TOTAL, ..rts }, &[], &[0; 8]);
            stage.quiet_of(&[1]);
            let counters = stage[1].counters();
            (counters.protocol_errors, counters.unknown_dispatch)
        });
        assert_eq!(counts, [(1, 0), (2, 0), (2, 1)]);
    }
}
