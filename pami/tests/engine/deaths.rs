//! Nodes that die: what waits for them ends with an error that names them, the rest goes on (SPEC D-8).

use crate::machine::{MTU, Step, buffer, pattern};
use crate::stage::{Handler, Port, Stage, Told, get, handler, put, rmw};
use pami::packet::{DEFERRING, Kind};
use pami::{
    Context, Get, OperationError, Payload, Pools, Put, RegionHandle, Rights, Rmw, Send, SendError, Update,
};

const SWITCH: usize = 4 * MTU;
const FINE: Result<(), OperationError> = Ok(());
const DEAD: Result<(), OperationError> = Err(OperationError::NodeDead(1));

/// Three tasks on three nodes; the second is the one that dies.
const ORIGIN: usize = 0;
const DYING: usize = 1;
const OTHER: usize = 2;

fn scene() -> Stage {
    let told = Told::torn();
    scene_with(told, told.taker())
}

fn scene_with(told: Told, handler: Handler) -> Stage {
    Stage::hears(3, false, told, handler, |client| client.rendezvous_from(SWITCH))
}

/// Starts a get of so many bytes of the one that dies.
fn start_get(stage: &mut Stage, region: RegionHandle, len: usize, cookie: usize) -> pami::Shared {
    let into = buffer(len).share();
    let get = Get { done: stage.done(cookie), ..get(stage.at(DYING), region, 0, &into, len) };
    assert_eq!(stage[ORIGIN].get(get), Ok(()));
    into
}

fn start_update(stage: &mut Stage, region: RegionHandle) {
    let done = stage.told.on_fetched(0);
    let add = Rmw { done, ..rmw(stage.at(DYING), region, 0, Update::Add(1)) };
    assert_eq!(stage[ORIGIN].rmw(add), Ok(()));
}

#[test]
fn d8_every_operation_to_a_dead_node_ends_with_its_name_and_gives_its_buffer_back() {
    let mut stage = scene();
    // The fence over all tasks asks these as well.
    let (_own, _far) = (stage.open(0, 1), stage.open(2, 1));
    let region = stage.region(DYING, &[0; 10_000], Rights::all());
    let handle = region.handle();
    // Nothing moves any more, so all of it is under way: some in line, some in the FIFO, some on its way.
    stage.send(ORIGIN, stage.buffered(DYING, &pattern(SWITCH, 0), 0));
    stage[ORIGIN].advance();
    stage.world.stepped();
    stage.send(ORIGIN, stage.buffered(DYING, &pattern(300, 1), 1));
    stage.send(ORIGIN, stage.buffered(DYING, &pattern(3 * MTU, 2), 2));
    let into = start_get(&mut stage, handle, 1000, 4);
    start_update(&mut stage, handle);
    let (local_done, remote_done) = (stage.done(3), stage.done(3));
    let payload = Payload::Buffer(buffer(9000), 0..9000);
    stage.put(ORIGIN, Put { local_done, remote_done, ..put(stage.at(DYING), handle, 0, payload) });
    stage.fence(ORIGIN, DYING, 5);
    assert_eq!(stage.fence_tasks(ORIGIN, 0..3, 6), Ok(()));
    stage.send(ORIGIN, stage.buffered(OTHER, &pattern(20, 7), 7));
    stage.send(ORIGIN, stage.buffered(OTHER, &pattern(2 * SWITCH, 8), 8));
    stage.advance(ORIGIN, 10);
    assert_eq!((stage.ends(), stage[ORIGIN].dead_node()), (vec![], None));
    stage.world.kill(1);
    stage.world.free_running();
    stage.quiet_of(&[ORIGIN, OTHER, 3, 4]);
    assert_eq!(stage[ORIGIN].dead_node(), Some(1));
    let expected = [
        (0, Some(SWITCH), DEAD),
        (0, None, DEAD),
        (1, Some(300), DEAD),
        (1, None, DEAD),
        (2, Some(3 * MTU), DEAD),
        (2, None, DEAD),
        (3, Some(9000), DEAD),
        (3, None, DEAD),
        (4, None, DEAD),
        (5, None, DEAD),
        // The other tasks are fenced.
        (6, None, DEAD),
        (7, Some(20), FINE),
        (7, None, FINE),
        (8, Some(2 * SWITCH), FINE),
        (8, None, FINE),
    ];
    assert_eq!(stage.ends(), expected);
    assert_eq!(stage.fetched()[0].result, Err(OperationError::NodeDead(1)));
    let expected = [(0, 20, 20, FINE), (0, 2 * SWITCH, 2 * SWITCH, FINE)];
    assert_eq!(stage.outcomes(), expected, "what was for the living is there");
    assert!(into.reclaim().is_ok());
    assert_eq!(stage.world.lock().unit(0).regions(), 0);
    assert_eq!([stage.destroy(ORIGIN), stage.destroy(OTHER)], [Ok(()); 2]);
}

#[test]
fn d8_a_new_operation_to_a_dead_node_is_refused_with_its_name() {
    let mut stage = scene();
    let to = stage.at(DYING);
    // The path is known from before.
    assert_eq!(stage.immediate(ORIGIN, DYING, &[]), Ok(()));
    assert_eq!((stage[ORIGIN].dead_node(), stage[ORIGIN].death_of(to)), (None, None));
    stage.world.kill(1);
    let deaths = |stage: &Stage| [DYING, OTHER].map(|whom| stage[ORIGIN].death_of(stage.at(whom)));
    assert_eq!(deaths(&stage), [None; 2], "what came from there is still to be taken in");
    assert_eq!(stage.immediate(ORIGIN, DYING, &[]), Err(SendError::Dead(1)));
    let send = stage.buffered(DYING, &pattern(10, 0), 0);
    let (error, payload) = stage[ORIGIN].send(send).err().unwrap();
    assert_eq!(error, SendError::Dead(1));
    assert!(matches!(payload, Payload::Buffer(..)));
    let done = stage.done(0).unwrap();
    assert_eq!(stage[ORIGIN].fence(to, done), Err(SendError::Dead(1)));
    assert_eq!(stage.immediate(ORIGIN, OTHER, &[1]), Ok(()));
    stage.quiet_of(&[ORIGIN, OTHER]);
    assert_eq!(stage.outcomes(), [(0, 1, 1, FINE)]);
    assert_eq!(deaths(&stage), [Some(1), None]);
}

#[test]
fn d8_a_fence_over_tasks_with_a_dead_one_fences_the_others_and_names_it() {
    let mut stage = scene();
    let (own, far) = (stage.open(0, 1), stage.open(2, 1));
    stage.world.kill(1);
    assert_eq!(stage.fence_tasks(ORIGIN, 0..3, 0), Ok(()));
    stage.quiet_of(&[ORIGIN, OTHER]);
    assert_eq!(stage.ends(), [], "two contexts have not answered");
    stage.quiet_of(&[ORIGIN, OTHER, own, far]);
    assert_eq!(stage.ends(), [(0, None, DEAD)]);
}

/// A message of each sort that is half-way when its sender dies.
#[test]
fn d8_receptions_from_a_dead_node_end_with_its_name() {
    for (header, len) in [
        ("into", 20 * MTU - 8000),
        ("into", 2 * SWITCH),
        ("parts", SWITCH - 1),
        ("parts", 2 * SWITCH),
        ("runs", SWITCH - 1),
        ("runs", 3 * SWITCH),
        ("later", SWITCH - 1),
        ("later", 2 * SWITCH),
    ] {
        let told = Told::torn();
        let handler = handler(move |message| match message.header {
            b"parts" => told.parts(0),
            b"runs" => told.runs(message),
            _ => told.whole(message),
        });
        let mut stage = scene_with(told, handler);
        stage.world.stepped();
        let dispatch = if header == "later" { DEFERRING } else { 0 };
        let bytes = stage.message(ORIGIN, pattern(len, 1));
        stage.send(DYING, Send { header: header.as_bytes(), dispatch, ..bytes });
        // A few packets come through: the request, the get and some data, or the first of the eager data.
        for _ in 0..3 {
            stage.step(|_| true);
            stage[ORIGIN].advance();
        }
        assert_eq!(stage.receptions(), []);
        stage.world.kill(1);
        stage.world.free_running();
        stage.quiet_of(&[ORIGIN, OTHER]);
        if header == "later" {
            let id = stage.kept_ids(ORIGIN)[0];
            let then = told.on_received(b"later");
            assert!(stage[ORIGIN].accept(id, buffer(len), then).is_ok());
            stage.quiet_of(&[ORIGIN, OTHER]);
        }
        if header == "parts" {
            let parts = stage.parts();
            let (last, before) = parts.split_last().unwrap();
            assert!(before.iter().all(|part| part.result == FINE));
            let came = before.iter().map(|part| part.data.len()).sum();
            assert_eq!((last.offset, last.data.len(), last.result), (came, 0, DEAD));
        } else {
            let got = stage.receptions().pop().expect("the callback is called");
            assert!((got.from, got.total, got.result) == (1, len, DEAD) && got.len < len, "{header} {len}");
            assert_eq!(got.memory[..got.len], pattern(len, 1)[..got.len]);
        }
        // The rest goes on, and nothing is left behind.
        stage.say(OTHER, ORIGIN, pattern(SWITCH, 1));
        stage.quiet_of(&[ORIGIN, OTHER]);
        assert_eq!(stage.got(), [(2, vec![], pattern(SWITCH, 1))]);
        assert_eq!(stage.destroy(ORIGIN), Ok(()), "{header} {len}");
    }
}

#[test]
fn d8_what_is_owed_to_a_dead_node_is_dropped() {
    let mut stage = scene();
    for len in [10, SWITCH] {
        stage.send(DYING, stage.buffered(ORIGIN, &pattern(len, 0), 0));
    }
    stage.fence(DYING, ORIGIN, 1);
    stage[DYING].advance();
    stage.world.kill(1);
    stage.quiet_of(&[ORIGIN]);
    assert_eq!(stage.destroy(ORIGIN), Ok(()));
}

#[test]
fn d8_a_fence_whose_target_dies_before_an_older_get_is_done_names_it() {
    let mut stage = scene();
    let region = stage.region(DYING, &[0; 10_000], Rights::READ);
    stage.world.stepped();
    let _into = start_get(&mut stage, region.handle(), 10_000, 0);
    stage.fence(ORIGIN, DYING, 1);
    // The fence is answered, and the get is not.
    for _ in 0..20 {
        stage.step(|&step| step != Step::Answer(1, 0));
        stage[ORIGIN].advance();
        stage[DYING].advance();
    }
    assert_eq!((stage.count(Kind::FenceAck), stage.ends()), (1, vec![]));
    stage.world.kill(1);
    stage.quiet_of(&[ORIGIN]);
    assert_eq!(stage.ends(), [(0, None, DEAD), (1, None, DEAD)]);
}

#[test]
fn d8_a_message_without_payload_in_line_to_a_dead_node_ends_with_its_name() {
    let mut stage = scene();
    stage.world.stepped();
    // More than the FIFO holds, so that the other is in line.
    stage.send(ORIGIN, stage.buffered(DYING, &pattern(3 * MTU, 0), 0));
    for cookie in 1..20 {
        let local_done = stage.done(cookie);
        stage.send(ORIGIN, Send { local_done, ..stage.message(DYING, Vec::new()) });
    }
    stage[ORIGIN].advance();
    let sent = stage.ends();
    assert!(sent.len() < 19 && sent.iter().all(|end| end.2.is_ok()), "{sent:?}");
    stage.world.kill(1);
    stage.quiet_of(&[ORIGIN]);
    let ended = stage.ends();
    let dead = ended.iter().filter(|end| end.0 > 0 && end.2 == DEAD);
    assert_eq!(dead.count() + sent.len(), 19, "{ended:?}");
}

#[test]
fn d8_a_message_whose_rest_is_in_the_fifo_when_its_sender_dies_is_received_whole() {
    let mut stage = scene();
    stage.world.stepped();
    stage.say(DYING, ORIGIN, pattern(2 * MTU, 0));
    assert!(stage.step(|_| true));
    stage.quiet_of(&[ORIGIN]);
    assert_eq!(stage.receptions(), []);
    // Another node's death has the context look for halves; when it sees its FIFO empty the rest comes, and then the death.
    stage.world.lock().last_words = Some(1);
    stage.world.kill(2);
    stage.advance(ORIGIN, 5);
    assert_eq!(stage.outcomes(), [(1, 2 * MTU, 2 * MTU, FINE)]);
}

#[test]
fn d8_a_reception_of_a_dead_node_ends_when_its_memory_is_back_though_another_goes_on_meanwhile() {
    let told = Told::torn();
    let handler = handler(move |message| match message.origin.task() {
        1 => told.whole(message),
        _ => told.parts(0),
    });
    let mut stage = scene_with(told, handler);
    // The first is pulled in more pieces than are under way at once.
    for (from, len) in [(OTHER, 2 * Pools::LARGE.piece_bytes + 8), (DYING, SWITCH)] {
        stage.say(from, ORIGIN, pattern(len, 0));
        stage.quiet_of(&[from]);
    }
    stage.world.stepped();
    stage.quiet_of(&[ORIGIN]);
    for _ in 0..2 {
        assert!(stage.step(|step| matches!(step, Step::Send(key) if key.1 == 0)), "the get of a piece");
    }
    let to = stage.at(ORIGIN);
    assert_eq!(stage.world.lock().port(to).injection.len(), 1, "the other get lends memory");
    stage.world.kill(1);
    stage.quiet_of(&[ORIGIN]);
    while stage.step(|step| matches!(step, Step::Answer(2, 0))) {}
    stage.quiet_of(&[ORIGIN]);
    assert_eq!(stage.receptions(), []);
    stage.world.free_running();
    stage.quiet_of(&[ORIGIN, OTHER]);
    assert_eq!(stage.outcomes(), [(1, 0, SWITCH, DEAD)]);
}

/// Nodes that a context says it waits for while it sleeps.
pub(crate) fn awaited(stage: &mut Stage, context: usize) -> Vec<u32> {
    const SECOND: u64 = 1_000_000_000;
    stage.world.lock().awaited.clear();
    // Each sleep notes it once.
    assert!(!stage[context].wait_for(10 * SECOND + SECOND / 2, |_| false));
    let mut awaited = std::mem::take(&mut stage.world.lock().awaited);
    assert!(awaited.pop().is_none_or(|last| last.is_none()), "the wait is over");
    awaited.into_iter().flatten().collect()
}

#[test]
fn r2_for_whom_a_context_waits_is_noted_and_nobody_wakes_to_look_after_them() {
    let mut stage = scene();
    let region = stage.region(DYING, &[0; 1000], Rights::all());
    let handle = region.handle();
    assert_eq!(awaited(&mut stage, ORIGIN), [0; 0], "nobody is waited for");
    // Somebody may say whom it waits for.
    let to = stage.at(DYING);
    stage[ORIGIN].watch(to);
    let noted = stage.world.lock().awaited.pop();
    assert_eq!((noted, awaited(&mut stage, ORIGIN)), (Some(Some(1)), vec![]));
    stage.world.stepped();
    let asks: [&dyn Fn(&mut Stage); 5] = [
        &|stage| drop(start_get(stage, handle, 1000, 0)),
        &|stage| start_update(stage, handle),
        &|stage| stage.fence(ORIGIN, DYING, 0),
        &|stage| stage.say_told(ORIGIN, DYING, vec![1; 10], 0),
        &|stage| stage.say(ORIGIN, DYING, vec![1; SWITCH]),
    ];
    for ask in asks {
        ask(&mut stage);
        assert_eq!(awaited(&mut stage, ORIGIN), [1]);
        stage.world.free_running();
        stage.quiet_of(&[ORIGIN, DYING]);
        stage.world.stepped();
    }
    assert_eq!(stage.ends().len(), 3);
    // Nor does a message stop in the middle unnoticed, whether its sender was to bring the rest or to be asked for it.
    for len in [2 * MTU, SWITCH] {
        stage.say(DYING, OTHER, pattern(len, 0));
        assert!(stage.step(|_| true));
        stage.quiet_of(&[OTHER]);
        assert_eq!(awaited(&mut stage, OTHER), [1]);
        stage.world.free_running();
        stage.quiet_of(&[DYING, OTHER]);
        stage.world.stepped();
    }
    assert_eq!([OTHER, ORIGIN].map(|context| awaited(&mut stage, context)), [[0; 0]; 2]);
}

#[test]
fn r2_a_node_whose_job_ended_is_no_dead_one_and_what_wants_something_of_it_ends() {
    const ENDED: Result<(), OperationError> = Err(OperationError::NodeEnded(1));
    let mut stage = scene();
    // What it sent before its end arrives after it.
    stage.say(DYING, ORIGIN, pattern(10, 0));
    stage.quiet_of(&[DYING]);
    stage.world.stepped();
    stage.say_told(ORIGIN, DYING, vec![1; 10], 0);
    stage.fence(ORIGIN, DYING, 1);
    stage.world.lock().ended.insert(1);
    stage.advance(ORIGIN, 5);
    assert_eq!(stage.outcomes(), [(1, 10, 10, FINE)]);
    assert_eq!(stage.ends(), [(0, None, ENDED), (1, None, ENDED)]);
    assert_eq!(stage.immediate(ORIGIN, DYING, &[]), Err(SendError::Ended(1)));
    let send = stage.buffered(DYING, &pattern(10, 0), 0);
    assert_eq!(stage.try_send(ORIGIN, send), Err(SendError::Ended(1)));
    let origin: &Context<Port> = &stage[ORIGIN];
    assert_eq!((origin.dead_node(), origin.death_of(stage.at(DYING))), (None, None), "it did not die");
    // Who dies first is named first, whatever its rank, and whoever ended before.
    stage.world.kill(2);
    stage.world.kill(0);
    assert_eq!(stage[OTHER].dead_node(), Some(2));
    stage[OTHER].advance();
}

#[test]
fn d8_who_dies_before_it_is_asked_for_its_data_keeps_nobody_else_from_being_asked() {
    for senders in [[DYING, OTHER], [OTHER, DYING]] {
        let mut stage = scene();
        stage.world.lock().muted = Some(0);
        for sender in senders {
            stage.say(sender, ORIGIN, pattern(SWITCH, 0));
            stage.quiet_of(&[sender, ORIGIN]);
        }
        stage.world.kill(1);
        stage.quiet_of(&[ORIGIN]);
        stage.world.lock().muted = None;
        stage.quiet_of(&[ORIGIN, OTHER]);
        let mut got = stage.outcomes();
        got.sort_unstable_by_key(|one| one.0);
        assert_eq!(got, [(1, 0, SWITCH, DEAD), (2, SWITCH, SWITCH, FINE)]);
    }
}

#[test]
fn h4_what_went_by_a_nodes_memory_ends_with_it_and_nothing_goes_there_any_more() {
    let mut stage = scene();
    stage.world.lock().near = true;
    let region = stage.region(DYING, &[0; 64], Rights::all());
    let handle = region.handle();
    let put_word = |stage: &mut Stage, cookie| {
        let put = Put {
            remote_done: stage.done(cookie),
            ..put(stage.at(DYING), handle, 0, Payload::Static(&[7; 8]))
        };
        stage[ORIGIN].put(put).map_err(|(error, _)| error)
    };
    let add = |stage: &mut Stage| {
        let add = Rmw { done: stage.told.on_fetched(9), ..rmw(stage.at(DYING), handle, 8, Update::Add(1)) };
        stage[ORIGIN].rmw(add)
    };
    // Often enough for the shortest way.
    for _ in 0..3 {
        assert_eq!((put_word(&mut stage, 1), add(&mut stage)), (Ok(()), Ok(())));
    }
    // Read where it lies, which is not done yet.
    stage.send(ORIGIN, stage.buffered(DYING, &pattern(SWITCH, 0), 2));
    stage.advance(ORIGIN, 3);
    assert_eq!(stage.world.count(Kind::Put) + stage.world.count(Kind::Rmw), 0);
    stage.world.kill(1);
    stage.advance(ORIGIN, 10);
    let ends = stage.ends();
    assert!(ends.iter().any(|end| (end.0, end.2) == (2, DEAD) && end.1.is_some()), "{ends:?}");
    assert_eq!(put_word(&mut stage, 3), Err(SendError::Dead(1)));
    assert_eq!(add(&mut stage), Err(SendError::Dead(1)));
    assert_eq!(stage.immediate(ORIGIN, DYING, &[]), Err(SendError::Dead(1)));
    let mut word = [0; 16];
    region.memory().read(0, &mut word).unwrap();
    assert_eq!(word, [7, 7, 7, 7, 7, 7, 7, 7, 3, 0, 0, 0, 0, 0, 0, 0]);
}
