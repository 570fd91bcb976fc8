//! What fences put on the wire (SPEC F-2, F-3).

use crate::fences::{SWITCH, events, noting, taken, two};
use crate::machine::{MTU, Step, buffer, pattern};
use crate::scene::{Port, advance_all, leak, message, send};
use pami::packet::Kind;
use pami::{Active, Layout, Message, OnReceived, Receive, Received};

#[test]
fn f3_behind_eager_data_the_fence_is_sent_when_all_of_it_was_and_answered_as_any() {
    let (events, note) = events();
    let (clients, mut origin, mut target) = two(false, noting(events));
    let world = &clients[0].node().world;
    world.stepped();
    for _ in 0..2 {
        send(&mut origin, message(target.endpoint(), pattern(SWITCH - 1, 1)));
    }
    assert_eq!(origin.fence(target.endpoint(), note("fenced")), Ok(()));
    world.free_running();
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(taken(events), ["received", "received", "fenced"]);
    let seen: Vec<_> = world.lock().seen.iter().map(|seen| (seen.0, seen.3 > 0)).collect();
    let eager = SWITCH / MTU;
    let mut expected = vec![(Kind::EagerNext, true); 2 * eager];
    (expected[0], expected[eager]) = ((Kind::EagerFirst, true), (Kind::EagerFirst, true));
    expected.extend([Kind::Fence, Kind::Get, Kind::GetLast].map(|kind| (kind, false)));
    expected.push((Kind::FenceAck, true));
    assert_eq!(seen, expected);
}

#[test]
fn f2_the_synchronisation_message_is_a_get_of_nothing_and_its_answer_is_empty() {
    let (events, note) = events();
    let (clients, mut origin, mut target) = two(false, noting(events));
    let world = &clients[0].node().world;
    assert_eq!(origin.fence(target.endpoint(), note("fenced")), Ok(()));
    advance_all(&mut [&mut origin, &mut target]);
    let expected =
        [(Kind::Fence, 0, 1, 0), (Kind::Get, 1, 0, 0), (Kind::GetLast, 0, 1, 0), (Kind::FenceAck, 1, 0, 8)];
    assert_eq!(world.lock().seen, expected);
}

#[test]
fn f2_a_fence_behind_a_rendezvous_waits_for_a_pull_that_is_slow() {
    let (events, note) = events();
    let (clients, mut origin, mut target) = two(false, noting(events));
    let world = clients[0].node().world;
    send(&mut origin, message(target.endpoint(), pattern(20 * MTU, 1)));
    assert_eq!(origin.fence(target.endpoint(), note("fenced")), Ok(()));
    world.stepped();
    let mut steps = 0;
    loop {
        origin.advance();
        target.advance();
        let mut state = world.lock();
        let ready = state.steps();
        // Whatever else can go does; the data comes last.
        let Some(&step) = ready.iter().find(|step| matches!(step, Step::Send(_))).or(ready.first()) else {
            break;
        };
        state.step(step);
        steps += 1;
        drop(state);
        let seen = events.lock().unwrap().clone();
        assert!(seen.first() != Some(&"fenced"), "after {steps} steps: {seen:?}");
    }
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(taken(events), ["received", "fenced"]);
    let state = world.lock();
    let get = state.seen.iter().position(|seen| seen.0 == Kind::Get).unwrap();
    let mut kinds: Vec<_> = state.seen[get..].iter().map(|seen| (seen.0, seen.3 > 0)).collect();
    assert_eq!(kinds.pop(), Some((Kind::FenceAck, true)));
    kinds.retain(|&(kind, _)| !matches!(kind, Kind::GetData | Kind::RendezvousDone));
    let expected = [(Kind::Get, true), (Kind::Get, false), (Kind::GetLast, true), (Kind::GetLast, false)];
    assert_eq!(kinds, expected, "the get of nothing follows that of the data, and so does its answer");
}

#[test]
fn f2_a_fence_behind_pieces_that_are_pulled_one_by_one_waits_for_the_last() {
    let (events, note) = events();
    let whole = leak(move |_: &mut Active<Port>, received: Received| {
        assert_eq!(received.len, received.total);
        events.lock().unwrap().push("received");
    });
    let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
        Receive::Scatter(buffer(message.total), Layout::Contiguous, OnReceived { call: whole, cookie: 0 })
    });
    let (_clients, mut origin, mut target) = two(false, handler);
    send(&mut origin, message(target.endpoint(), pattern(200_000, 1)));
    send(&mut origin, message(target.endpoint(), pattern(100_000, 2)));
    assert_eq!(origin.fence(target.endpoint(), note("fenced")), Ok(()));
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(taken(events), ["received", "received", "fenced"]);
}
