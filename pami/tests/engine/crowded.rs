//! Jobs of more endpoints than a context remembers what it owes to (SPEC ).

use crate::machine::{MTU, filled, machine, pattern};
use crate::stage::{Stage, Told, always_later, envelope, process, put, words};
use pami::packet::{DEFERRING, Envelope, Kind};
use pami::wait::wait_on;
use pami::{
    ClientError, Endpoint, Factor, OperationError, Payload, Pools, Process, Put, QUESTIONS_NS, Recipe,
    RegionFault,
};
use pami::{RegionHandle, Rights, Send, Signal, Split};

/// More than the places for two peers.
const TASKS: u32 = 12;
const OTHERS: usize = TASKS as usize - 1;

/// A context of each task, with places for so many peers.
fn crowd(peers: usize, pools: Pools) -> Stage {
    let told = Told::new();
    let mut stage = Stage::of(machine(TASKS, false), 1, told, |client| {
        client
            .pools(pools)
            .peers(peers)
            .dispatch(0, told.taker())
            .dispatch_deferring(DEFERRING, always_later())
    });
    stage.contexts.iter_mut().for_each(|context| context.set_polls(0));
    stage
}

/// Lets time pass, and everybody sleep, until so many messages and ends were told, for some seconds at most.
fn settle(stage: &mut Stage, messages: usize, ends: usize) {
    let told = stage.told;
    wait_on(&mut stage.contexts, 20 * 1_000_000_000, |_| {
        let notes = told.notes();
        (notes.got.len(), notes.ends.len()) == (messages, ends)
    });
}

/// Lets a second pass.
fn rest(stage: &mut Stage) {
    wait_on(&mut stage.contexts, 1_000_000_000, |_| false);
}

#[test]
fn r9_r1_answers_to_more_origins_than_have_places_all_come_and_once() {
    for len in [10, 3 * MTU] {
        let mut stage = crowd(2, Pools::SMALL);
        // The target takes all in, and cannot answer anybody meanwhile.
        stage.world.lock().muted = Some(0);
        for number in 1..=OTHERS {
            for cookie in [2 * number, 2 * number + 1] {
                stage.say_told(number, 0, pattern(len, cookie), cookie);
            }
            stage.fence(number, 0, 100 + number);
        }
        rest(&mut stage);
        assert_eq!(stage.ends(), []);
        stage.world.lock().muted = None;
        settle(&mut stage, 2 * OTHERS, 3 * OTHERS);
        rest(&mut stage);
        assert!(stage.count(Kind::Query) > 0 && stage.count(Kind::Unknown) > 0);
        let expected = (2..2 * OTHERS + 2).chain(101..101 + OTHERS).map(|cookie| (cookie, Ok(())));
        assert!(stage.results().into_iter().eq(expected), "{len} bytes");
        let got = stage.got();
        assert_eq!((got.len(), stage.protocol_errors()), (2 * OTHERS, 0), "{len} bytes");
        for number in 1..=OTHERS {
            let own = got.iter().filter(|entry| entry.0 as usize == number).map(|entry| &entry.2);
            assert!(own.eq(&[0, 1].map(|part| pattern(len, 2 * number + part))), "in order");
        }
    }
}

#[test]
fn r9_l3_a_message_that_is_processed_is_told_of_once_and_is_added_once_though_the_answer_was_forgotten() {
    let mut stage = crowd(2, Pools::SMALL);
    let to = stage.at(0);
    let [sum, sealed] = [Rights::all(), Rights::READ].map(|rights| stage.region(0, &[0; 64], rights));
    stage.world.lock().muted = Some(0);
    let recipe = Recipe::accumulate(Factor::I64(1));
    for number in 1..=OTHERS {
        for (region, cookie) in [(&sum, number), (&sealed, 100 + number)] {
            let memory = filled(&[1u64.to_ne_bytes(); 8].concat()).share();
            let all = process(to, region, &memory, recipe, Split::TargetOnly);
            let remote_done = stage.done(cookie);
            assert_eq!(stage[number].process(Process { remote_done, ..all }), Ok(()));
        }
    }
    rest(&mut stage);
    stage.world.lock().muted = None;
    settle(&mut stage, 0, 2 * OTHERS);
    rest(&mut stage);
    let ended = stage.results();
    let of = |good: bool| ended.iter().filter(move |end| (end.0 < 100) == good && end.1.is_ok() == good);
    assert_eq!((of(true).count(), of(false).count(), ended.len()), (OTHERS, OTHERS, 2 * OTHERS), "{ended:?}");
    assert_eq!(words(sum.memory()), [OTHERS as u64; 8]);
    assert_eq!(stage.protocol_errors(), 0);
}

#[test]
fn r9_r1_who_keeps_messages_of_more_origins_waiting_than_have_places_gets_them_all_in_the_end() {
    let mut stage = crowd(2, Pools { unexpected: 1, ..Pools::LARGE });
    for number in 1..=OTHERS {
        let later = stage.deferred(0, pattern(20, number));
        stage.send(number, Send { remote_done: stage.done(number), ..later });
        // Behind it.
        stage.say(number, 0, pattern(30, number));
    }
    rest(&mut stage);
    assert_eq!((stage.kept(0), stage.ends()), (1, vec![]));
    for number in 0..OTHERS {
        let told = stage.told;
        wait_on(&mut stage.contexts, 20 * 1_000_000_000, |contexts| {
            told.len() >= number && contexts[0].unexpected().count() == 1
        });
        stage.accept(0);
    }
    settle(&mut stage, 2 * OTHERS, OTHERS);
    let lengths = |len| stage.told.notes().got.iter().filter(|got| got.total == len).count();
    assert_eq!(
        (lengths(20), lengths(30), stage.ends().len(), stage.protocol_errors()),
        (OTHERS, OTHERS, OTHERS, 0)
    );
}

#[test]
fn d9_questions_and_answers_to_them_that_nobody_asked_for_change_nothing() {
    let mut stage = crowd(2, Pools::SMALL);
    stage.world.stepped();
    stage.say_told(0, 1, pattern(10, 1), 1);
    let (me, other) = (stage.at(0), stage.at(1));
    for (kind, data) in [(Kind::Unknown, &[0xff; 8][..]), (Kind::Unknown, &[]), (Kind::Query, &[])] {
        stage.forge(envelope(kind, other, me), &[], data);
        stage.turn(&[0]);
    }
    assert_eq!((stage.ends(), stage[0].counters().protocol_errors), (vec![], 2));
    // One who asks for what never was is told so.
    stage.forge(Envelope { message: 9, ..envelope(Kind::Query, other, me) }, &[], &[0xff; 8]);
    stage.world.free_running();
    stage.quiet();
    assert_eq!((stage.count(Kind::Unknown), stage.ends().len()), (1, 1));
}

#[test]
fn r9_d9_an_origin_that_never_asks_holds_no_context_for_ever() {
    let mut stage = crowd(1, Pools::SMALL);
    let me = stage.at(0);
    // Of more origins than have places, each wants to hear of its message, and cannot be told meanwhile.
    stage.world.lock().muted = Some(0);
    for task in 1..TASKS {
        let origin = Endpoint::from_parts(me.client(), task, me.context());
        stage.forge(Envelope { total: 1, ..envelope(Kind::EagerFirstAcked, origin, me) }, &[], &[1]);
        stage.turn(&[0]);
    }
    stage.world.lock().muted = None;
    stage.quiet_of(&[0]);
    assert_eq!((stage.got().len(), stage.protocol_errors()), (OTHERS, 0));
    // Those that found no place may still ask.
    for (passes, destroyed) in [
        (0, Err(ClientError::SendsUnderWay)),
        (QUESTIONS_NS - 1, Err(ClientError::SendsUnderWay)),
        (1, Ok(())),
    ] {
        stage.world.lock().now += passes;
        if passes > 0 {
            stage.turn(&[0]);
        }
        assert_eq!(stage.destroy(0), destroyed);
    }
}

#[test]
fn r9_d5_of_a_put_with_signal_whose_refusal_was_forgotten_it_is_not_told_that_it_is_done() {
    for len in [8, 3 * MTU] {
        let mut stage = crowd(2, Pools::SMALL);
        let open = stage.region(0, &vec![0; len], Rights::all());
        let sealed = stage.region(0, &vec![0; len], Rights::READ);
        stage.world.lock().muted = Some(0);
        let puts = |stage: &mut Stage, handle: RegionHandle, first: usize| {
            for number in 1..=OTHERS {
                let payload = Payload::Static(pattern(len, number).leak());
                let request = put(stage.at(0), handle, 0, payload);
                let remote_done = stage.done(first + number);
                let signal = Signal { dispatch: 0, header: [0; 8] };
                assert!(stage[number].put_signal(Put { remote_done, ..request }, signal).is_ok());
            }
        };
        puts(&mut stage, open.handle(), 0);
        rest(&mut stage);
        stage.world.lock().muted = None;
        settle(&mut stage, OTHERS, OTHERS);
        assert!(stage.results().into_iter().all(|(_, result)| result == Ok(())), "{len} bytes");

        stage.world.lock().muted = Some(0);
        puts(&mut stage, sealed.handle(), 100);
        rest(&mut stage);
        stage.world.lock().muted = None;
        settle(&mut stage, OTHERS, OTHERS);
        let refused = stage.results();
        let told = Err(OperationError::Region(RegionFault::Rights));
        assert!(refused.iter().any(|(_, result)| *result == told), "{refused:?}");
        assert!(refused.iter().any(|(_, result)| *result == Err(OperationError::Forgotten)), "{refused:?}");
        assert!(refused.iter().all(|(_, result)| result.is_err()), "{refused:?}");
        assert_eq!((stage.got().len(), stage.protocol_errors()), (OTHERS, 0));
    }
}
