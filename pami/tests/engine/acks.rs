//! Acknowledgements (SPEC P-5).

use crate::machine::{Step, pattern};
use crate::scene::{advance_all, clients, context, ends, leak, message, send};
use pami::send::OPERATIONS;
use pami::{Active, Context, Message, Receive, Send};

#[test]
fn p5_a_context_takes_nothing_in_whose_acknowledgement_it_could_not_note() {
    const ORIGINS: usize = 7;
    let handler = leak(|_: &mut Active<_>, _: &Message<'_>| Receive::Done);
    let mut clients = clients(ORIGINS as u32 + 1, false, |client| client.dispatch(0, handler));
    let mut contexts: Vec<Context<_>> = clients.iter_mut().map(|client| context(client, 0)).collect();
    let world = clients[0].node().world;
    let to = contexts[0].endpoint();
    let (ends, done) = ends();
    world.stepped();
    for (origin, context) in contexts.iter_mut().enumerate().skip(1) {
        for operation in 0..OPERATIONS {
            let number = origin * OPERATIONS + operation;
            let bytes = message(to, pattern(9, number));
            send(context, Send { remote_done: done(number), ..bytes });
        }
    }
    // Nothing leaves the target.
    loop {
        let steps = world.lock().steps();
        let from_others = |step: &Step| !matches!(step, Step::Send((_, 0, _)));
        let Some(step) = steps.into_iter().find(from_others) else { break };
        world.lock().step(step);
        contexts.iter_mut().for_each(|context| _ = context.advance());
    }
    let all = ORIGINS * OPERATIONS;
    assert!(contexts[0].counters().received < all as u64, "some wait in front of it");
    assert_eq!(*ends.lock().unwrap(), []);
    world.free_running();
    advance_all(&mut contexts.iter_mut().collect::<Vec<_>>());
    let mut ends: Vec<_> = ends.lock().unwrap().iter().map(|end| end.0).collect();
    ends.sort_unstable();
    assert!(ends.into_iter().eq(OPERATIONS..OPERATIONS + all));
}
