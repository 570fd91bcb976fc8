//! Lanes on the model machine, whose clock stands unless somebody moves it.

#[allow(dead_code, unused_imports, reason = "the messaging layer's own tests use more of it")]
#[path = "../../../../tests/engine/machine/mod.rs"]
mod machine;

use base::Lane;
use machine::{Packet, TestPort, machine, machine_of};
use pami::packet::{Envelope, Kind};
use pami::{ClientBuilder, Message, Receive};
use std::boxed::Box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

const TIMEOUT_NS: u64 = 1_000_000;
const STEP_NS: u64 = 10_000;
/// Far more turns than the wait has steps.
const TURNS: usize = 10_000;

#[test]
fn p2_a_wait_in_a_lane_ends_in_time_however_often_others_want_the_context() {
    let node = machine_of(1, 1)[0];
    let mut client = ClientBuilder::new(node, "lane").contexts(1).create().unwrap();
    let lane: &'static Lane<TestPort> = Box::leak(Box::default());
    lane.open(&mut client, 0).unwrap();
    // It never sleeps: that would move the clock.
    lane.with(thread::yield_now, |context| context.set_polls(u32::MAX)).unwrap();
    let (over, given_up, looks) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TURNS {
                // Time passes while the other thread waits: it looks once before, and then again and again.
                let seen = looks.load(SeqCst);
                while looks.load(SeqCst) < seen + 2 {
                    if over.load(SeqCst) {
                        return;
                    }
                    thread::yield_now();
                }
                node.world.lock().now += STEP_NS;
                lane.with(thread::yield_now, |_| ()).unwrap();
            }
            given_up.store(true, SeqCst);
        });
        let held = lane.wait_for(thread::yield_now, TIMEOUT_NS, |_| {
            looks.fetch_add(1, SeqCst);
            given_up.load(SeqCst)
        });
        over.store(true, SeqCst);
        assert_eq!(held, Some(false), "it ended when nobody wanted the context any more");
    });
    lane.close(&mut client, thread::yield_now).unwrap();
    assert_eq!(lane.wait_for(thread::yield_now, TIMEOUT_NS, |_| true), None);
    client.destroy().map_err(|(error, _)| error).unwrap();
}

#[test]
fn r2_r9_a_lane_closes_after_a_death_though_origins_of_a_crowded_job_may_still_ask_what_became_of_messages() {
    const TASKS: u32 = 12;
    let node = machine(TASKS, false)[0];
    let handler: &'static _ =
        Box::leak(Box::new(|_: &mut pami::Active<TestPort>, _: &Message<'_>| Receive::Done));
    let mut client = ClientBuilder::new(node, "lane").peers(1).dispatch(0, handler).create().unwrap();
    let lane: &'static Lane<TestPort> = Box::leak(Box::default());
    lane.open(&mut client, 0).unwrap();
    // Of more origins than have places, each wants to hear of its message, and cannot be told meanwhile.
    node.world.lock().muted = Some(0);
    for task in 1..TASKS {
        let (origin, kind) = (client.endpoint(task, 0).unwrap(), Kind::EagerFirstAcked);
        let target = client.endpoint(0, 0).unwrap();
        let envelope = Envelope { kind, dispatch: 0, origin, target, message: 0, offset: 0, total: 1 };
        node.world.forge(Packet::new(envelope, &[], &[1]));
        lane.with(thread::yield_now, |context| context.advance()).unwrap();
    }
    node.world.lock().muted = None;
    node.world.kill(TASKS - 1);
    lane.close(&mut client, thread::yield_now).unwrap();
    client.destroy().map_err(|(error, _)| error).unwrap();
}
