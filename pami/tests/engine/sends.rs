//! Immediate and eager sends: content, order, back-pressure and completions.

use crate::machine::{CONTEXTS, MTU, QUEUE, buffer, filled, machine_of, pattern};
use crate::shapes::{self, gathered, layouts, reach, scattered};
use crate::stage::{Port, Stage, Told, envelope, handler, leak, message};
use pami::context::ARRIVALS_PER_ADVANCE;
use pami::endpoint::ContextOffset;
use pami::packet::{DEFERRING, Envelope, HEADER_LIMIT, Kind};
use pami::receive::HALVES_LIMIT;
use pami::send::OPERATIONS;
use pami::{
    Active, Completion, Done, Endpoint, Layout, Message, Payload, Progress, Receive, Send, SendError, Work,
    WorkSlot,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SIZES: [usize; 9] = [0, 1, 8, 64, MTU - 1, MTU, MTU + 1, 3 * MTU, 1 << 20];

fn two(local: bool) -> Stage {
    Stage::pair(local, |client| client)
}

/// What a message's data begins with.
fn number(data: &[u8]) -> u32 {
    u32::from_le_bytes(*data.first_chunk().unwrap())
}

fn every_size_arrives(local: bool) {
    let told = Told::new();
    let mut stage = Stage::hears(2, local, told, told.taker(), |client| client.dispatch(3, told.taker()));
    // To the target's other context, too.
    let target = stage.open(1, 1);
    for (seed, size) in SIZES.into_iter().enumerate() {
        let (header, data) = (pattern(seed * 12, 7), pattern(size, seed));
        let expected = (0, header.clone(), data.clone());
        stage.send(0, Send { dispatch: 3, header: &header, ..stage.message(target, data.clone()) });
        stage.quiet();
        assert_eq!(stage.got(), std::slice::from_ref(&expected), "size {size}");
        if header.len() + size <= stage[0].immediate_limit() {
            let to = stage.at(target);
            stage[0].send_immediate(to, 3, &header, &data).unwrap();
            stage.quiet();
            assert_eq!(stage.got(), [expected], "size {size}");
        }
    }
    assert_eq!((stage.protocol_errors(), stage[0].counters().sent), (0, stage[target].counters().received));
}

#[test]
fn p6_messages_of_every_size_arrive_whole_over_the_torus() {
    every_size_arrives(false);
}

#[test]
fn p6_messages_of_every_size_arrive_whole_through_shared_memory() {
    every_size_arrives(true);
}

#[test]
fn p5_a_handler_may_take_packets() {
    let told = Told::new();
    let mut stage = Stage::hears(2, false, told, handler(move |_| told.parts(5)), |client| client);
    let data = pattern(10 * MTU + 3, 1);
    stage.send(0, Send { header: b"h", ..stage.message(1, data.clone()) });
    stage.quiet();
    let parts = stage.parts();
    let mut seen: Vec<u8> = Vec::new();
    for part in &parts {
        assert_eq!((part.offset, part.cookie), (seen.len(), 5));
        seen.extend(&part.data);
        assert_eq!(part.is_last, seen.len() == data.len());
    }
    assert_eq!(seen, data);
}

#[test]
fn p5_completions_give_the_buffer_back_and_tell_of_the_target() {
    let mut stage = two(true);
    let (len, done) = (4 * MTU, stage.done(2));
    stage.send(0, Send { remote_done: done, ..stage.buffered(1, &pattern(len, 0), 1) });
    stage.quiet_of(&[0]);
    assert_eq!(stage.ends(), [], "the target still reads the buffer");
    stage.quiet_of(&[1]);
    stage.quiet();
    assert_eq!(stage.ends(), [(1, Some(len), Ok(())), (2, None, Ok(()))]);
}

#[test]
fn p5_callbacks_may_send() {
    let count: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let bounce = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
        if count.fetch_add(1, Relaxed) < 100 {
            active.send_immediate(message.origin, 0, &[], message.data).unwrap();
        }
        Receive::Done
    });
    let mut stage = Stage::hears(2, false, Told::new(), bounce, |client| client);
    assert_eq!(stage.immediate(0, 1, b"ping"), Ok(()));
    stage.quiet();
    assert_eq!(count.load(Relaxed), 101);
}

#[test]
fn p11_posted_work_waits_in_order_for_a_stalled_receiver() {
    const POSTS: usize = 100_000;
    static SLOTS: [WorkSlot<Port>; POSTS] = [const { WorkSlot::new() }; POSTS];
    let seen: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let in_order = handler(move |message| {
        let number = u64::from_le_bytes(message.data.try_into().unwrap());
        assert_eq!(number, seen.fetch_add(1, Relaxed) as u64);
        Receive::Done
    });
    let mut stage = Stage::hears(2, false, Told::new(), in_order, |client| client);
    let to = stage.at(1);
    let work = leak(move |active: &mut Active<Port>, cookie: usize| {
        match active.send_immediate(to, 0, &[], &(cookie as u64).to_le_bytes()) {
            Ok(()) => Progress::Done,
            Err(SendError::Again) => Progress::Again,
            Err(other) => panic!("{other}"),
        }
    });
    let poster = stage[0].poster();
    for (cookie, slot) in SLOTS.iter().enumerate() {
        poster.post(slot, Work { run: work, cookie }).unwrap();
    }
    stage.advance(0, 100);
    assert_eq!(seen.load(Relaxed), 0);
    let again = poster.post(&SLOTS[POSTS - 1], Work { run: work, cookie: 0 });
    assert!(again.is_err(), "its slot is in the queue");
    while seen.load(Relaxed) < POSTS {
        stage[1].advance();
        stage[0].advance();
    }
}

#[test]
fn p2_who_advances_by_one_gets_one_message_and_is_held_up_by_no_number_of_them() {
    let mut stage = two(true);
    let to = stage.at(1);
    stage.advance(1, 2);
    stage.world.stepped();
    stage.world.lock().ready = true;
    for byte in 0..3 {
        stage[0].send_immediate(to, 0, &[], &[byte]).unwrap();
    }
    for byte in 0..3 {
        assert_eq!((stage[1].advance_by_one(), stage.data()), (1, vec![vec![byte]]));
    }
    assert_eq!(stage[1].advance_by_one(), 0);
    // Messages come as fast as they are taken: what was posted is done all the same.
    let run: &AtomicUsize = leak(AtomicUsize::new(0));
    let work = leak(move |_: &mut Active<Port>, _: usize| {
        run.fetch_add(1, Relaxed);
        Progress::Done
    });
    stage[1].poster().post(leak(WorkSlot::new()), Work { run: work, cookie: 0 }).unwrap();
    for _ in 0..ARRIVALS_PER_ADVANCE {
        stage[0].send_immediate(to, 0, &[], &[3]).unwrap();
        assert!(stage[1].advance_by_one() > 0);
    }
    assert_eq!(run.load(Relaxed), 1);
    assert_eq!(stage.data().len(), ARRIVALS_PER_ADVANCE);
}

#[test]
fn n8_a_post_wakes_who_sleeps_unless_it_has_to_wait_behind_another() {
    let mut stage = two(false);
    let (world, context) = (stage.world, &mut stage[0]);
    let poster = context.poster();
    let slots: [&'static WorkSlot<_>; 3] = core::array::from_fn(|_| leak(WorkSlot::new()));
    let (room, run): (&AtomicUsize, &AtomicUsize) = (leak(AtomicUsize::new(0)), leak(AtomicUsize::new(0)));
    let work = leak(move |_: &mut Active<Port>, _: usize| {
        let may = room.load(Relaxed) > 0;
        run.fetch_add(may.into(), Relaxed);
        if may { Progress::Done } else { Progress::Again }
    });
    let mut posted_asleep = |slot: usize| {
        let before = world.wakes.load(Relaxed);
        let post = move || poster.post(slots[slot], Work { run: work, cookie: 0 }).unwrap();
        *world.meanwhile.lock().unwrap() = Some(Box::new(post));
        context.wait_for(1, |_| world.meanwhile.lock().unwrap().is_none());
        context.advance();
        (world.wakes.load(Relaxed) - before, run.load(Relaxed))
    };
    assert_eq!(posted_asleep(0), (1, 0), "it is woken, and the work finds no room");
    assert_eq!(posted_asleep(1), (0, 0), "it would have to wait as well");
    room.store(1, Relaxed);
    assert_eq!(posted_asleep(2).1, 3);
}

#[test]
fn n8_a_wait_ends_in_time_however_long_it_polls_and_whatever_comes() {
    let mut stage = two(false);
    let world = stage.world;
    let mut rounds = 0;
    let mut pass = |_: &mut Active<Port>| {
        rounds += 1;
        world.lock().now += 1000;
        false
    };
    assert!(!stage[0].wait_for(100_000, &mut pass));
    assert!((100..=200).contains(&rounds), "{rounds} rounds of one microsecond");
    // A message to itself in each round.
    let (me, mut rounds) = (stage.at(0), 0);
    let again = |active: &mut Active<Port>| {
        rounds += 1;
        world.lock().now += 1000;
        active.send_immediate(me, 0, &[], &[0; 8]).unwrap();
        rounds == 10_000
    };
    assert!(!stage[0].wait_for(100_000, again), "it never looks at the clock while messages come");
}

#[test]
fn p11_sends_go_on_when_the_receiver_does_and_stay_in_order() {
    let mut stage = two(false);
    let mut sent = 0u32;
    let mut send = |stage: &mut Stage| {
        let mut data = pattern(2 * MTU, 3);
        data[..4].copy_from_slice(&sent.to_le_bytes());
        let result = stage.try_send(0, stage.message(1, data));
        sent += u32::from(result.is_ok());
        (result, sent)
    };
    let taken = std::iter::repeat_with(|| send(&mut stage).0).take_while(Result::is_ok).count();
    assert!(taken >= OPERATIONS);
    assert_eq!(stage.immediate(0, 1, &[]), Err(SendError::Again), "it would overtake");
    loop {
        stage[1].advance();
        stage[0].advance();
        if send(&mut stage).1 == 300 {
            break;
        }
    }
    stage.quiet();
    assert!(stage.data().iter().map(|data| number(data)).eq(0..300));
}

#[test]
fn p6_a_message_of_one_packet_that_nobody_is_told_of_takes_no_place() {
    let mut stage = two(false);
    let send = |stage: &mut Stage, number: usize, told: bool| {
        let remote_done = stage.done(number).filter(|_| told);
        let bytes = stage.message(1, vec![number as u8; 300]);
        stage.try_send(0, Send { header: &[7], remote_done, ..bytes })
    };
    for number in 0..OPERATIONS {
        assert_eq!(send(&mut stage, number, true), Ok(()));
        // The port's room is not what is in question.
        stage[1].advance();
    }
    assert_eq!(send(&mut stage, OPERATIONS, true), Err(SendError::Again));
    assert_eq!(send(&mut stage, OPERATIONS, false), Ok(()));
    stage.quiet();
    assert_eq!(send(&mut stage, OPERATIONS + 1, true), Ok(()));
    stage.quiet();
    let first = stage.data().into_iter().map(|data| usize::from(data[0]));
    assert!(first.eq(0..OPERATIONS + 2), "in order");
    assert!(stage.cookies().into_iter().eq((0..OPERATIONS).chain([OPERATIONS + 1])));
}

#[test]
fn p5_a_short_buffer_comes_back_before_its_message_is_read() {
    for local in [false, true] {
        let mut stage = two(local);
        let payload = Payload::Buffer(buffer(100), 10..90);
        let (local_done, remote_done) = (stage.done(1), stage.done(2));
        stage.send(0, Send { payload, local_done, remote_done, ..stage.message(1, Vec::new()) });
        assert_eq!(stage.ends(), [], "callbacks are called by advances");
        stage[0].advance();
        let ends = stage.ends();
        assert!(matches!(ends[..], [(1, Some(90..), Ok(()))]), "{ends:?}");
        stage.quiet();
        assert_eq!(stage.ends(), [(2, None, Ok(()))]);
    }
}

#[test]
fn p6_a_bad_send_is_refused_and_its_payload_given_back() {
    let whole = handler(|_| Receive::Done);
    let mut stage = Stage::hears(2, false, Told::new(), whole, |client| client);
    let to = stage.at(1);
    let origin = &mut stage[0];
    let long = vec![0; origin.immediate_limit() + 1];
    assert_eq!(origin.send_immediate(to, 0, &[], &long), Err(SendError::TooLong));
    assert_eq!(origin.send_immediate(to, 40, &[], &[]), Err(SendError::DispatchId));
    let (error, _) = origin.send(Send { dispatch: 40, ..message(to, vec![0]) }).err().unwrap();
    assert_eq!(error, SendError::DispatchId);
    // What may be wanted later has to lie here as long.
    let (header, one_more) = ([0; HEADER_LIMIT], [0; HEADER_LIMIT + 1]);
    assert_eq!(origin.send_immediate(to, DEFERRING, &header, &[0]), Err(SendError::TooLong));
    for dispatch in [0, DEFERRING] {
        assert_eq!(origin.send_immediate(to, dispatch, &one_more, &[]), Err(SendError::TooLong));
        assert_eq!(origin.send_immediate(to, dispatch, &header, &[]), Ok(()));
    }
    stage.quiet();
    assert_eq!((stage.kept(1), stage[1].counters().received), (1, 2));
    let at = |client, task| Endpoint::from_parts(client, task, ContextOffset(0));
    let foreign = at(pami::endpoint::ClientId(1), 1);
    assert_eq!(stage[0].send_immediate(foreign, 0, &[], &[]), Err(SendError::ForeignClient));
    let nowhere = at(stage.clients[0].id(), 9);
    let payload = Payload::Buffer(buffer(10), 0..10);
    let (error, payload) = stage[0].send(Send { payload, ..message(nowhere, vec![]) }).err().unwrap();
    assert_eq!(error, SendError::Unreachable);
    assert!(matches!(payload, Payload::Buffer(..)));
}

#[test]
fn p6_a_send_from_a_completion_does_not_cut_into_an_earlier_one() {
    let mut stage = two(false);
    let to = stage.at(1);
    let again = leak(move |active: &mut Active<Port>, _: Completion| {
        assert!(active.send(message(to, vec![3; 10])).is_ok());
    });
    // The first fills the queue, so that the second, whose completion sends the fourth, waits in front of the third.
    stage.say(0, 1, vec![0; 2 * QUEUE * MTU]);
    let local_done = Some(Done { call: again, cookie: 0 });
    stage.send(0, Send { local_done, ..stage.message(1, vec![1; 10]) });
    stage.say(0, 1, vec![2; 30 * MTU]);
    for _ in 0..100 {
        stage[1].advance();
        stage[0].advance();
    }
    let seen: Vec<_> = stage.data().into_iter().map(|data| (data[0], data.len())).collect();
    assert_eq!(seen, [(0, 2 * QUEUE * MTU), (1, 10), (2, 30 * MTU), (3, 10)]);
    assert_eq!(stage[1].counters().protocol_errors, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p10_a_send_gathers_and_its_handler_scatters_as_a_naive_reading_of_the_layouts_says(
        local in any::<bool>(), from in layouts(), to in layouts(), extent in 0usize..4000, room in 0usize..6000,
        header in 0usize..100
    ) {
        // What has an end is used whole.
        let extent = shapes::extent(&from, extent);
        let data = pattern(extent, 2);
        let moved = gathered(&from, &data);
        let told = Told::torn();
        let handler = handler(move |message| {
            assert_eq!(message.header.len(), header);
            Receive::Scatter(buffer(room), to, told.on_received(message.header))
        });
        let mut stage = Stage::hears(2, local, told, handler, |client| client.rendezvous_from(1500));
        let payload = Payload::Buffer(filled(&data), 0..extent);
        let header = pattern(header, 1);
        stage.send(0, Send { header: &header, payload, layout: from, ..stage.message(1, Vec::new()) });
        stage.quiet();
        let got = stage.receptions().pop().unwrap();
        prop_assert_eq!(got.total, moved.len());
        // Placing ends at the first run that does not fit; runs may come cut into packets.
        prop_assert!(got.len <= got.total);
        prop_assert_eq!(&got.memory, &scattered(&to, &vec![0; room], 0, &moved[..got.len]));
        if reach(&to, got.total).is_some_and(|end| end <= room) {
            prop_assert_eq!(got.len, got.total);
        }
    }
}

#[test]
fn p5_every_endpoint_may_be_in_the_middle_of_a_message_to_the_same_context() {
    // As many endpoints as there are places: the table is full.
    const TASKS: u32 = HALVES_LIMIT as u32 / CONTEXTS as u32;
    const PART: usize = 5;
    let mut stage = Stage::talk(TASKS, false, |client| client);
    let to = stage.at(0);
    let seed =
        |task: u32, context: u8, message: usize| task as usize * 100 + usize::from(context) * 10 + message;
    // Of each endpoint how many packets it has sent; each has three messages of four packets to send.
    let mut left: Vec<_> =
        (0..TASKS).flat_map(|task| (0..CONTEXTS).map(move |context| (task, context, 0))).collect();
    let mut random = 7usize;
    while !left.is_empty() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (random >> 33) % left.len();
        let (task, context, sent) = &mut left[at];
        let origin = Endpoint::from_parts(to.client(), *task, ContextOffset(*context));
        let (message, offset) = (*sent / 4, *sent % 4 * PART);
        let kind = if offset == 0 { Kind::EagerFirst } else { Kind::EagerNext };
        let total = 4 * PART as u32;
        let envelope = envelope(kind, origin, to);
        let envelope = Envelope { message: message as u32, offset: offset as u32, total, ..envelope };
        let data = pattern(4 * PART, seed(*task, *context, message));
        stage.forge(envelope, &[*context, message as u8], &data[offset..offset + PART]);
        *sent += 1;
        if *sent == 12 {
            left.swap_remove(at);
        }
        stage[0].advance();
    }
    assert_eq!(stage.protocol_errors(), 0);
    let got = stage.got();
    assert_eq!(got.len(), TASKS as usize * usize::from(CONTEXTS) * 3);
    for (task, header, data) in got {
        assert_eq!(data, pattern(4 * PART, seed(task, header[0], header[1].into())));
    }
    assert_eq!(stage.destroy(0), Ok(()));
}

#[test]
fn r2_who_finds_no_room_for_long_tries_again_less_and_less_often() {
    let mut stage = Stage::talk(1, true, |client| client);
    let context = &mut stage[0];
    context.set_polls(0);
    // Nothing comes that would end a sleep; there is room after ten seconds.
    let mut tries = 0;
    let sent = context.retry(|active| {
        tries += 1;
        if active.now_ns() < 10_000_000_000 { Err(SendError::Again) } else { Ok(()) }
    });
    assert_eq!(sent, Ok(()));
    assert!(tries < 400, "{tries} tries");
    // It was not overslept by more than the longest pause.
    assert!(context.now_ns() < 10_150_000_000, "{} ns", context.now_ns());
}

#[test]
fn r1_p11_what_waits_for_room_on_one_path_keeps_nothing_from_another() {
    let told = Told::new();
    let mut stage = Stage::of(machine_of(3, 2), 1, told, |client| client.dispatch(0, told.taker()));
    let (near, far) = (1, 2);
    stage.world.stepped();
    while stage.immediate(0, far, &[1]) == Ok(()) {}
    stage.say(0, far, pattern(10, 0));
    assert_eq!(stage.immediate(0, near, b"past it"), Ok(()));
    stage[near].advance();
    assert_eq!(stage.data(), [b"past it"]);
}

#[test]
fn p10_memory_that_is_shared_is_gathered_from_where_the_range_begins() {
    let layout = Layout::Strided { block: 5, stride: 9 };
    for local in [false, true] {
        let mut stage = two(local);
        let data = pattern(300, 4);
        let payload = Payload::Shared(filled(&data).share(), 30..data.len());
        stage.send(0, Send { payload, layout, ..stage.message(1, Vec::new()) });
        stage.quiet();
        assert_eq!(stage.data(), [gathered(&layout, &data[30..])]);
    }
}

#[test]
fn p5_a_message_that_nobody_handles_is_counted_and_acknowledged() {
    for len in [0, 10, 3 * MTU] {
        let mut stage = Stage::of(machine_of(2, 1), 1, Told::new(), |client| client.contexts(2));
        stage.say_told(0, 1, pattern(len, 0), 0);
        stage.quiet();
        let counters = stage[1].counters();
        assert_eq!((counters.unknown_dispatch, counters.protocol_errors), (1, 0));
        assert_eq!((stage.ends().len(), stage.destroy(1)), (1, Ok(())));
    }
}
