//! Acknowledgements (SPEC P-5).

use crate::machine::{Step, pattern};
use crate::stage::{Stage, Told, handler};
use pami::send::OPERATIONS;
use pami::{ClientError, Receive};

const ORIGINS: usize = 7;

/// Context 0, which takes messages, and those that send to it.
fn stage() -> Stage {
    Stage::hears(ORIGINS as u32 + 1, false, Told::new(), handler(|_| Receive::Done), |client| client)
}

#[test]
fn p5_no_acknowledgement_that_can_be_owed_keeps_a_context_from_taking_messages_in() {
    let mut stage = stage();
    stage.world.stepped();
    for (origin, operation) in (1..=ORIGINS).flat_map(|origin| (0..OPERATIONS).map(move |it| (origin, it))) {
        let number = origin * OPERATIONS + operation;
        stage.say_told(origin, 0, pattern(9, number), number);
    }
    // Nothing leaves the target.
    let everyone: Vec<_> = (0..=ORIGINS).collect();
    stage.run(&everyone, |step| !matches!(step, Step::Send((_, 0, _))));
    let all = ORIGINS * OPERATIONS;
    assert_eq!((stage[0].counters().received, stage.counts().1), (all as u64, 0));
    stage.world.free_running();
    stage.quiet();
    assert!(stage.ends().into_iter().map(|end| end.0).eq(OPERATIONS..OPERATIONS + all));
}

#[test]
fn p3_p5_a_context_that_owes_an_answer_is_not_destroyed_before_that_went() {
    let mut stage = stage();
    stage.say_told(1, 0, pattern(9, 1), 1);
    stage.world.lock().muted = Some(0);
    stage.quiet_of(&[1, 0]);
    assert_eq!(stage.destroy(0), Err(ClientError::SendsUnderWay));
    stage.world.lock().muted = None;
    stage.quiet_of(&[1, 0]);
    assert_eq!((stage.cookies(), stage.destroy(0)), (vec![1], Ok(())));
}
