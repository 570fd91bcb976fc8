//! What fences put on the wire (SPEC F-2, F-3).

use crate::fences::{SWITCH, answers_last, two};
use crate::machine::{MTU, pattern};
use crate::stage::{GOT, Stage, Told, handler};
use pami::packet::Kind;

#[test]
fn f3_behind_eager_data_the_fence_is_sent_when_all_of_it_was_and_answered_as_any() {
    let mut stage = two(false);
    stage.world.stepped();
    (0..2).for_each(|_| stage.say(0, 1, pattern(SWITCH - 1, 1)));
    stage.fence(0, 1, 1);
    stage.world.free_running();
    stage.quiet();
    assert_eq!(stage.order(), [GOT, GOT, 1]);
    let seen: Vec<_> = stage.world.lock().seen.iter().map(|seen| (seen.0, seen.3 > 0)).collect();
    let eager = SWITCH / MTU;
    let mut expected = vec![(Kind::EagerNext, true); 2 * eager];
    (expected[0], expected[eager]) = ((Kind::EagerFirst, true), (Kind::EagerFirst, true));
    expected.extend([Kind::Fence, Kind::Get, Kind::GetLast].map(|kind| (kind, false)));
    expected.push((Kind::FenceAck, true));
    assert_eq!(seen, expected);
}

#[test]
fn f2_the_synchronisation_message_is_a_get_of_nothing_and_its_answer_is_empty() {
    let mut stage = two(false);
    stage.fence(0, 1, 1);
    stage.quiet();
    let expected =
        [(Kind::Fence, 0, 1, 0), (Kind::Get, 1, 0, 0), (Kind::GetLast, 0, 1, 0), (Kind::FenceAck, 1, 0, 8)];
    assert_eq!(stage.world.lock().seen, expected);
}

#[test]
fn f2_a_fence_behind_a_rendezvous_waits_for_a_pull_that_is_slow() {
    let mut stage = two(false);
    stage.say(0, 1, pattern(20 * MTU, 1));
    stage.fence(0, 1, 1);
    stage.world.stepped();
    loop {
        stage[0].advance();
        stage[1].advance();
        // Whatever else can go does; the data comes last.
        if !answers_last(&stage) {
            break;
        }
        assert_ne!(stage.told.notes().order.first(), Some(&1));
    }
    stage.quiet();
    assert_eq!(stage.order(), [GOT, 1]);
    let state = stage.world.lock();
    let get = state.seen.iter().position(|seen| seen.0 == Kind::Get).unwrap();
    let mut kinds: Vec<_> = state.seen[get..].iter().map(|seen| (seen.0, seen.3 > 0)).collect();
    assert_eq!(kinds.pop(), Some((Kind::FenceAck, true)));
    kinds.retain(|&(kind, _)| !matches!(kind, Kind::GetData | Kind::RendezvousDone));
    let expected = [(Kind::Get, true), (Kind::Get, false), (Kind::GetLast, true), (Kind::GetLast, false)];
    assert_eq!(kinds, expected, "the get of nothing follows that of the data, and so does its answer");
}

#[test]
fn f2_a_fence_behind_pieces_that_are_pulled_one_by_one_waits_for_the_last() {
    let told = Told::new();
    let runs = handler(move |message| told.runs(message));
    let mut stage = Stage::hears(2, false, told, runs, |client| client.rendezvous_from(SWITCH));
    stage.say(0, 1, pattern(200_000, 1));
    stage.say(0, 1, pattern(100_000, 2));
    stage.fence(0, 1, 1);
    stage.quiet();
    assert_eq!(stage.order(), [GOT, GOT, 1]);
}
