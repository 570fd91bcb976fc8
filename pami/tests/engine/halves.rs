//! Jobs of more endpoints than a context has places for half messages (SPEC ).

use crate::machine::{MTU, Step, TestNode, machine, machine_of, pattern};
use crate::stage::{Stage, Told, envelope};
use pami::Send;
use pami::packet::{Envelope, Kind};
use pami::receive::HALVES_LIMIT;

/// Tasks of two contexts each, one of which sends to the first.
const TASKS: u32 = 90;
const LEN: usize = 3 * MTU;

/// So many contexts of each task.
fn contexts(nodes: Vec<&'static TestNode>, each: u8) -> Stage {
    let told = Told::new();
    Stage::of(nodes, each, told, |client| client.dispatch(0, told.taker()))
}

/// Each of these sends a message to the first context. Lets what can happen first happen, and the target take it in. Says how
/// many packets that were.
fn begin(stage: &mut Stage, origins: std::ops::Range<usize>) -> usize {
    stage.world.stepped();
    for origin in origins {
        stage.say(origin, 0, pattern(LEN, 1));
    }
    let_first_go(stage)
}

fn let_first_go(stage: &mut Stage) -> usize {
    let first = stage.world.lock().steps();
    for &step in &first {
        assert!(matches!(step, Step::Send(_)));
        stage.world.lock().step(step);
        stage.turn(&[0]);
    }
    first.len()
}

#[test]
fn r9_r1_more_origins_are_in_the_middle_of_a_message_than_there_are_places_and_all_comes_in_order() {
    let mut stage = contexts(machine(TASKS, false), 2);
    // Those of other nodes.
    let all = 2..stage.contexts.len();
    assert!(all.len() > HALVES_LIMIT);
    stage.world.stepped();
    for number in all.clone() {
        stage.say_told(number, 0, pattern(LEN, number), number);
        // Behind it, and of one packet.
        stage.send(number, Send { header: b"behind", ..stage.message(0, pattern(10, number)) });
    }
    // The first packet of each.
    assert_eq!(let_first_go(&mut stage), all.len());
    assert_eq!(stage.got(), []);
    stage.world.free_running();
    stage.quiet();
    let got = stage.got();
    assert_eq!((got.len(), stage.ends().len()), (2 * all.len(), all.len()));
    for number in all.clone() {
        let place = |header: &[u8], len| {
            let message = (number as u32 / 2, header.to_vec(), pattern(len, number));
            got.iter().position(|entry| *entry == message).unwrap()
        };
        assert!(place(b"", LEN) < place(b"behind", 10), "{number}");
    }
    assert_eq!(stage.protocol_errors(), 0);
    let refused = all.len() - HALVES_LIMIT;
    let called = stage.count(Kind::Retry);
    assert!((refused..=2 * refused).contains(&called), "{called} calls for {refused} that found no place");
}

#[test]
fn r9_p6_where_each_endpoint_is_sure_of_a_place_no_message_asks() {
    // Eight contexts in each task of the model.
    for (tasks, asks) in [(8, 0), (9, 1)] {
        let mut stage = contexts(machine(tasks, false), 1);
        stage.say(0, 1, pattern(LEN, 1));
        stage.say(1, 0, pattern(MTU, 2));
        stage.quiet();
        assert_eq!((stage.got().len(), stage.count(Kind::Asked)), (2, asks), "{tasks} tasks");
    }
}

#[test]
fn r1_origins_of_a_node_that_stand_still_in_the_middle_of_messages_leave_places_to_others() {
    let mut stage = contexts(machine_of(66, 22), 8);
    let [second, third] = [22, 44].map(|task| task * stage.per_task);
    // All of the second node: more than there are places.
    assert!(begin(&mut stage, second..third) > HALVES_LIMIT);
    let still = stage.world.lock().steps();
    // And one of the third, which alone goes on.
    stage.say(third, 0, pattern(LEN, 2));
    for _ in 0..200 {
        let moves = stage.world.lock().steps();
        for step in moves.into_iter().filter(|step| !still.contains(step)) {
            stage.world.lock().step(step);
        }
        stage.turn(&[0, third]);
    }
    assert_eq!(stage.got(), [(44, vec![], pattern(LEN, 2))]);
}

#[test]
fn d9_a_message_that_finds_no_place_and_does_not_ask_is_a_stray_of_which_no_handler_hears() {
    let mut stage = contexts(machine(TASKS, false), 2);
    let all = 2..stage.contexts.len();
    begin(&mut stage, all.clone());
    let before = stage[0].counters();
    assert_eq!(before.received as usize, HALVES_LIMIT);
    let packet = envelope(Kind::EagerFirst, stage.at(all.end - 1), stage.at(0));
    stage.forge(Envelope { message: 1 << 20, total: LEN as u32, ..packet }, &[], &pattern(MTU, 2));
    stage.turn(&[0]);
    let after = stage[0].counters();
    assert_eq!((after.received, after.protocol_errors), (before.received, before.protocol_errors + 1));
}
