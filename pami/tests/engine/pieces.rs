//! What goes by rendezvous beside other things: whose turn it is, what it may hold, in what order it comes (SPEC P-4, P-6, R-1).

use crate::machine::{Step, filled, pattern};
use crate::stage::{Port, Stage, Told, envelope, handler, leak};
use pami::packet::{Envelope, Kind};
use pami::region::Memory;
use pami::{
    Active, Buffer, Completion, Done, Message, OperationError, Payload, Pools, Receive, RegionFault, Rights,
    Send, SendError,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SWITCH: usize = 2048;

/// What becomes of a message: into a buffer, run by run, or part by part.
fn by_turns(told: Told, turn: usize, message: &Message<'_>) -> Receive<Port> {
    match turn % 3 {
        0 => told.whole(message),
        1 => told.runs(message),
        _ => told.parts(turn),
    }
}

#[test]
fn p6_shared_memory_whose_range_ends_behind_four_gib_is_sent_all_the_same() {
    const EDGE: usize = 1 << 32;
    let memory = Buffer::new(vec![0u8; EDGE + (1 << 16)].leak()).ok().unwrap().share();
    let data = pattern(2 * SWITCH, 1);
    for start in [EDGE - 2 * SWITCH - 1, EDGE - 2 * SWITCH, EDGE - 100, EDGE] {
        memory.write(start, &data).unwrap();
        for local in [true, false] {
            let mut stage = Stage::pair(local, |client| client.rendezvous_from(SWITCH));
            let payload = Payload::Shared(memory.clone(), start..start + data.len());
            let (local_done, remote_done) = (stage.done(1), stage.done(2));
            stage.send(0, Send { payload, local_done, remote_done, ..stage.message(1, vec![]) });
            stage.quiet();
            assert!(stage.data() == [&data[..]], "{start} {local}");
            assert_eq!((stage.protocol_errors(), stage.ends().len()), (0, 2), "{start} {local}");
        }
    }
}

#[test]
fn r1_a_node_that_stands_still_leaves_room_for_the_pieces_of_others() {
    const LEN: usize = 100_000;
    const STILL: usize = 0;
    let told = Told::new();
    let runs = handler(move |message| told.runs(message));
    let mut stage = Stage::hears(3, false, told, runs, |client| client.rendezvous_from(SWITCH));
    stage.world.stepped();
    for (at, from) in [STILL, 2].into_iter().enumerate() {
        stage.say(from, 1, pattern(LEN, at));
        for _ in 0..1000 {
            stage.step(|step| !matches!(step, Step::Answer(0, _)));
            stage.turn(&[1, from]);
        }
    }
    assert_eq!(stage.outcomes(), [(2, LEN, LEN, Ok(()))], "node 0 has not answered any get");
    stage.world.free_running();
    stage.quiet();
    assert_eq!(stage.outcomes(), [(0, LEN, LEN, Ok(()))]);
}

#[test]
fn r1_a_short_message_does_not_wait_for_all_pieces_of_a_long_one() {
    const SHORT: usize = 40_000;
    let told = Told::new();
    let parts = handler(move |_| told.parts(0));
    let mut stage = Stage::hears(3, false, told, parts, |client| client.rendezvous_from(SWITCH));
    stage.world.stepped();
    stage.say(0, 1, pattern(4 << 20, 0));
    stage.say(2, 1, pattern(SHORT, 2));
    // Fair steps: each that can happen, in turn. How much of each has come, when the short one was whole.
    let mut came = [0; 3];
    while came[2] < SHORT {
        let steps = stage.world.lock().steps();
        for step in steps {
            stage.world.lock().step(step);
            stage.turn(&[1]);
        }
        stage.turn(&[0, 2, 1]);
        for part in stage.parts() {
            came[part.from as usize] += if came[2] < SHORT { part.data.len() } else { 0 };
        }
    }
    assert!(came[0] <= 4 * SHORT, "{} bytes of the long message came first", came[0]);
}

#[test]
fn p4_handlers_are_called_in_order_whatever_way_messages_go_and_fences_end_behind_their_data() {
    const N: u32 = 120;
    let number = |header: &[u8]| u32::from_le_bytes(header.try_into().unwrap());
    for ((local, paths), (places, moody)) in [(true, true), (true, false), (false, false)]
        .into_iter()
        .flat_map(|path| [(1, 0), (1, 77), (3, 1234567), (40, 99)].map(|it| (path, it)))
    {
        let came: &'static Mutex<Vec<u32>> = leak(Mutex::default());
        let told = Told::new();
        let take = handler(move |message| {
            came.lock().unwrap().push(number(message.header));
            by_turns(told, number(message.header) as usize, message)
        });
        let mut stage = Stage::hears(2, local, told, take, |client| {
            let pools = Pools { receive_requests: places, ..Pools::LARGE };
            client.local_paths(paths).rendezvous_from(SWITCH).pools(pools)
        });
        stage.world.lock().unit(0).limit = Some(8);
        stage.world.lock().moody = moody;
        let to = stage.at(1);
        let memory = filled(&pattern(90_000, 3)).share();
        let fenced: &'static AtomicUsize = leak(AtomicUsize::new(0));
        let call = leak(move |_: &mut Active<Port>, completion: Completion| {
            assert_eq!(completion.result, Ok(()));
            let notes = told.notes();
            let last = notes.parts.iter().filter(|part| part.is_last).map(|part| part.cookie);
            let whole = notes.got.iter().map(|got| number(&got.header) as usize).chain(last);
            assert_eq!(whole.filter(|&it| it <= completion.cookie).count(), completion.cookie + 1);
            fenced.fetch_add(1, Relaxed);
        });
        let mut fences = 0;
        for number in 0..N {
            let header = number.to_le_bytes();
            let mut tried = 0;
            loop {
                let sent = match number * 7 % 5 {
                    0 | 1 => stage[0].send_immediate(to, 0, &header, &[7; 8]),
                    2 => stage.try_send(0, Send { header: &header, ..stage.message(1, pattern(5000, 1)) }),
                    _ => {
                        let range = 5..5 + 700 * (1 + number as usize % 110);
                        let payload = Payload::Shared(memory.clone(), range);
                        stage.try_send(0, Send { header: &header, payload, ..stage.message(1, vec![]) })
                    }
                };
                if sent == Ok(()) {
                    break;
                }
                assert_eq!(sent, Err(SendError::Again));
                tried += 1;
                assert!(tried < 200_000, "stuck at {number}");
                stage.turn(&[1, 0]);
            }
            if number % 10 == 9 {
                while stage[0].fence(to, Done { call, cookie: number as usize }) == Err(SendError::Again) {
                    stage.turn(&[1, 0]);
                }
                fences += 1;
            }
        }
        for _ in 0..200_000 {
            stage.turn(&[1, 0]);
            if fenced.load(Relaxed) == fences {
                break;
            }
        }
        assert_eq!(*came.lock().unwrap(), (0..N).collect::<Vec<_>>(), "{local} {paths} {places} {moody}");
        assert_eq!(fenced.load(Relaxed), fences);
        assert_eq!(stage.world.lock().unit(0).regions(), 0);
        assert!(memory.reclaim().is_ok());
        assert_eq!(stage.protocol_errors(), 0);
    }
}

#[test]
fn r4_a_get_that_is_refused_within_a_node_ends_both_sides_whatever_the_place() {
    for turn in 0..3 {
        let told = Told::torn();
        let take = handler(move |message| by_turns(told, turn, message));
        let mut stage = Stage::hears(2, true, told, take, |client| client.rendezvous_from(SWITCH));
        // A region whose bytes end too early, named by one who lies.
        let memory = filled(&pattern(3 * SWITCH, 3)).share();
        let (lent, me) = (Memory::Shared(memory.clone()), stage.at(0));
        let region = stage.world.lock().unit(0).register(lent, Rights::READ, me).unwrap();
        let rts = envelope(Kind::Rts, me, stage.at(1));
        let rts = Envelope { message: 5, offset: SWITCH as u32, total: 200_000, ..rts };
        stage.forge(rts, &[], zerocopy::IntoBytes::as_bytes(&region));
        stage.quiet();
        let seen: Vec<_> = stage.receptions().into_iter().map(|got| (got.len, got.result)).collect();
        let parts: Vec<_> = stage.parts().into_iter().map(|part| (part.data.len(), part.result)).collect();
        let refused = (0, Err(OperationError::Region(RegionFault::Bounds)));
        assert_eq!([seen, parts].concat(), [refused], "{turn}");
        stage.world.lock().unit(0).deregister(region);
        assert!(memory.reclaim().is_ok());
        assert_eq!(stage.destroy(1), Ok(()));
    }
}
