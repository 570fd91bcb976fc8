//! Acknowledgements (SPEC P-5).

use crate::machine::{Step, World, pattern};
use crate::scene::{Port, advance_all, clients, context, ends, leak, message, send};
use pami::send::OPERATIONS;
use pami::{Active, Client, ClientError, Context, Message, Receive, Send};

const ORIGINS: usize = 7;

fn stage() -> (Vec<Client<crate::machine::TestNode>>, Vec<Context<Port>>, &'static World) {
    let handler = leak(|_: &mut Active<_>, _: &Message<'_>| Receive::Done);
    let mut clients = clients(ORIGINS as u32 + 1, false, |client| client.dispatch(0, handler));
    let contexts: Vec<Context<_>> = clients.iter_mut().map(|client| context(client, 0)).collect();
    let world = clients[0].node().world;
    world.stepped();
    (clients, contexts, world)
}

#[test]
fn p5_no_acknowledgement_that_can_be_owed_keeps_a_context_from_taking_messages_in() {
    let (_clients, mut contexts, world) = stage();
    let to = contexts[0].endpoint();
    let (ends, done) = ends();
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
    assert_eq!(contexts[0].counters().received, all as u64);
    assert_eq!(*ends.lock().unwrap(), []);
    world.free_running();
    advance_all(&mut contexts.iter_mut().collect::<Vec<_>>());
    let mut ends: Vec<_> = ends.lock().unwrap().iter().map(|end| end.0).collect();
    ends.sort_unstable();
    assert!(ends.into_iter().eq(OPERATIONS..OPERATIONS + all));
}

#[test]
fn p3_p5_a_context_that_owes_an_answer_is_not_destroyed_before_that_went() {
    let (mut clients, mut contexts, world) = stage();
    world.free_running();
    let mut target = contexts.remove(0);
    let (ends, done) = ends();
    send(&mut contexts[0], Send { remote_done: done(1), ..message(target.endpoint(), pattern(9, 1)) });
    world.lock().muted = Some(0);
    advance_all(&mut [&mut contexts[0], &mut target]);
    let (error, mut target) = clients[0].destroy_context(target).err().expect("an answer is owed");
    assert_eq!(error, ClientError::SendsUnderWay);
    world.lock().muted = None;
    advance_all(&mut [&mut contexts[0], &mut target]);
    assert_eq!(ends.lock().unwrap().len(), 1);
    assert!(clients[0].destroy_context(target).is_ok());
}
