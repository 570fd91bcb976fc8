//! What goes by rendezvous beside other things: whose turn it is, what it may hold, in what order it comes (SPEC P-4, P-6, R-1).

use crate::machine::{Step, buffer, pattern};
use crate::scene::{advance_all, clients, collector, context, ends, leak, message, pair, send};
use pami::{
    Active, Buffer, Layout, Message, OnPart, OnReceived, Part, Payload, Pools, Receive, Received, Send,
};
use std::sync::Mutex;

const SWITCH: usize = 2048;

#[test]
fn p6_shared_memory_whose_range_ends_behind_four_gib_is_sent_all_the_same() {
    const EDGE: usize = 1 << 32;
    let memory = Buffer::new(vec![0u8; EDGE + (1 << 16)].leak()).ok().unwrap().share();
    let data = pattern(2 * SWITCH, 1);
    for (start, local) in [EDGE - 2 * SWITCH - 1, EDGE - 2 * SWITCH, EDGE - 100, EDGE]
        .into_iter()
        .flat_map(|start| [(start, true), (start, false)])
    {
        memory.write(start, &data).unwrap();
        let (log, handler) = collector();
        let mut clients = pair(local, |client| client.rendezvous_from(SWITCH).dispatch(0, handler));
        let (mut origin, mut target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
        let (ends, done) = ends();
        let payload = Payload::Shared(memory.clone(), start..start + data.len());
        let to = target.endpoint();
        send(&mut origin, Send { payload, local_done: done(1), remote_done: done(2), ..message(to, vec![]) });
        advance_all(&mut [&mut origin, &mut target]);
        let came = log.lock().unwrap().pop().map(|(_, _, data)| data);
        assert_eq!(target.counters().protocol_errors, 0, "{start} {local}");
        assert!(came.as_ref() == Some(&data), "{start} {local}");
        assert_eq!(ends.lock().unwrap().len(), 2);
    }
}

#[test]
fn r1_a_node_that_stands_still_leaves_room_for_the_pieces_of_others() {
    const LEN: usize = 100_000;
    let seen: &'static Mutex<Vec<u32>> = leak(Mutex::default());
    let call = leak(move |_: &mut Active<_>, received: Received| {
        assert_eq!((received.len, received.result), (LEN, Ok(())));
        seen.lock().unwrap().push(received.origin.task());
    });
    let handler = leak(move |_: &mut Active<_>, message: &Message<'_>| {
        Receive::Scatter(buffer(message.total), Layout::Contiguous, OnReceived { call, cookie: 0 })
    });
    let mut clients = clients(3, false, |client| client.rendezvous_from(SWITCH).dispatch(0, handler));
    let [mut still, mut target, mut other] = [0, 1, 2].map(|task| context(&mut clients[task], 0));
    let world = clients[0].node().world;
    world.stepped();
    let to = target.endpoint();
    for (at, from) in [&mut still, &mut other].into_iter().enumerate() {
        send(from, message(to, pattern(LEN, at)));
        for _ in 0..1000 {
            let step = world.lock().steps().into_iter().find(|step| !matches!(step, Step::Answer(0, _)));
            step.into_iter().for_each(|step| world.lock().step(step));
            target.advance();
            from.advance();
        }
    }
    assert_eq!(*seen.lock().unwrap(), [2], "node 0 has not answered any get");
    world.free_running();
    advance_all(&mut [&mut still, &mut target, &mut other]);
    assert_eq!(*seen.lock().unwrap(), [2, 0]);
}

#[test]
fn r1_a_short_message_does_not_wait_for_all_pieces_of_a_long_one() {
    let seen: &'static Mutex<[usize; 3]> = leak(Mutex::default());
    let at_end: &'static Mutex<Option<usize>> = leak(Mutex::default());
    let call = leak(move |_: &mut Active<_>, part: &Part<'_>| {
        let mut seen = seen.lock().unwrap();
        seen[part.origin.task() as usize] += part.data.len();
        if seen[2] == 40_000 {
            at_end.lock().unwrap().get_or_insert(seen[0]);
        }
    });
    let handler =
        leak(move |_: &mut Active<_>, _: &Message<'_>| Receive::Packets(OnPart { call, cookie: 0 }));
    let mut clients = clients(3, false, |client| client.rendezvous_from(SWITCH).dispatch(0, handler));
    let [mut long, mut target, mut short] = [0, 1, 2].map(|task| context(&mut clients[task], 0));
    let world = clients[0].node().world;
    world.stepped();
    let to = target.endpoint();
    send(&mut long, message(to, pattern(4 << 20, 0)));
    send(&mut short, message(to, pattern(40_000, 2)));
    // Fair steps: each that can happen, in turn.
    while at_end.lock().unwrap().is_none() {
        let steps = world.lock().steps();
        for step in steps {
            world.lock().step(step);
            target.advance();
        }
        long.advance();
        short.advance();
        target.advance();
    }
    let before = at_end.lock().unwrap().unwrap();
    assert!(before <= 4 * 40_000, "{before} bytes of the long message came first");
}

#[test]
fn p4_handlers_are_called_in_order_whatever_way_messages_go_and_fences_end_behind_their_data() {
    use crate::machine::filled;
    use pami::SendError;
    const N: u32 = 120;
    for ((local, paths), (places, moody)) in [(true, true), (true, false), (false, false)]
        .into_iter()
        .flat_map(|path| [(1, 0), (1, 77), (3, 1234567), (40, 99)].map(|it| (path, it)))
    {
        let came: &'static Mutex<Vec<u32>> = leak(Mutex::default());
        let whole: &'static Mutex<Vec<usize>> = leak(Mutex::default());
        let received = leak(move |_: &mut Active<_>, received: Received| {
            assert_eq!((received.len, received.result), (received.total, Ok(())));
            whole.lock().unwrap().push(received.cookie);
        });
        let part = leak(move |_: &mut Active<_>, part: &Part<'_>| {
            assert_eq!(part.result, Ok(()));
            if part.offset + part.data.len() == part.total {
                whole.lock().unwrap().push(part.cookie);
            }
        });
        let handler = leak(move |_: &mut Active<_>, message: &Message<'_>| {
            let number = u32::from_le_bytes(message.header.try_into().unwrap());
            came.lock().unwrap().push(number);
            let cookie = number as usize;
            match number % 3 {
                0 => Receive::Into(buffer(message.total), OnReceived { call: received, cookie }),
                1 => Receive::Scatter(
                    buffer(message.total),
                    Layout::Contiguous,
                    OnReceived { call: received, cookie },
                ),
                _ => Receive::Packets(OnPart { call: part, cookie }),
            }
        });
        let mut clients = pair(local, |client| {
            client
                .local_paths(paths)
                .rendezvous_from(SWITCH)
                .pools(Pools { receive_requests: places, ..Pools::LARGE })
                .dispatch(0, handler)
        });
        let (mut origin, mut target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
        let world = clients[0].node().world;
        world.lock().unit(0).limit = Some(8);
        world.lock().moody = moody;
        let to = target.endpoint();
        let memory = filled(&pattern(90_000, 3)).share();
        let fenced: &'static Mutex<usize> = leak(Mutex::new(0));
        let mut fences = 0;
        for number in 0..N {
            let header = number.to_le_bytes();
            let mut tried = 0;
            loop {
                let sent = match number * 7 % 5 {
                    0 | 1 => origin.send_immediate(to, 0, &header, &[7; 8]),
                    2 => origin
                        .send(Send { header: &header, ..message(to, pattern(5000, 1)) })
                        .map_err(|it| it.0),
                    _ => {
                        let payload =
                            Payload::Shared(memory.clone(), 5..5 + 700 * (1 + number as usize % 110));
                        origin
                            .send(Send { header: &header, payload, ..message(to, vec![]) })
                            .map_err(|it| it.0)
                    }
                };
                if sent == Ok(()) {
                    break;
                }
                assert_eq!(sent, Err(SendError::Again));
                tried += 1;
                assert!(tried < 200_000, "stuck at {number}");
                target.advance();
                origin.advance();
            }
            if number % 10 == 9 {
                let call = leak(move |_: &mut Active<_>, completion: pami::Completion| {
                    assert_eq!(completion.result, Ok(()));
                    let below = whole.lock().unwrap().iter().filter(|&&it| it <= completion.cookie).count();
                    assert_eq!(below, completion.cookie + 1);
                    *fenced.lock().unwrap() += 1;
                });
                let done = pami::Done { call, cookie: number as usize };
                while origin.fence(to, done) == Err(SendError::Again) {
                    target.advance();
                    origin.advance();
                }
                fences += 1;
            }
        }
        for _ in 0..200_000 {
            target.advance();
            origin.advance();
            if *fenced.lock().unwrap() == fences {
                break;
            }
        }
        assert_eq!(*came.lock().unwrap(), (0..N).collect::<Vec<_>>(), "{local} {paths} {places} {moody}");
        assert_eq!(*fenced.lock().unwrap(), fences);
        assert_eq!(world.lock().unit(0).regions(), 0);
        assert!(memory.reclaim().is_ok());
        assert_eq!(origin.counters().protocol_errors + target.counters().protocol_errors, 0);
    }
}

#[test]
fn r4_a_get_that_is_refused_within_a_node_ends_both_sides_whatever_the_place() {
    use crate::machine::filled;
    use pami::region::RegionId;
    use pami::{OperationError, RegionFault};
    for kind in 0..3 {
        let seen: &'static Mutex<Vec<(usize, Result<(), OperationError>)>> = leak(Mutex::default());
        let received = leak(move |_: &mut Active<_>, received: Received| {
            seen.lock().unwrap().push((received.len, received.result));
        });
        let part = leak(move |_: &mut Active<_>, part: &Part<'_>| {
            seen.lock().unwrap().push((part.data.len(), part.result));
        });
        let handler = leak(move |_: &mut Active<_>, message: &Message<'_>| match kind {
            0 => Receive::Into(buffer(message.total), OnReceived { call: received, cookie: 0 }),
            1 => Receive::Scatter(
                buffer(message.total),
                Layout::Contiguous,
                OnReceived { call: received, cookie: 0 },
            ),
            _ => Receive::Packets(OnPart { call: part, cookie: 0 }),
        });
        let mut clients = pair(true, |client| client.rendezvous_from(SWITCH).dispatch(0, handler));
        let (mut origin, mut target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
        let world = clients[0].node().world;
        // A region whose bytes end too early, named by one who lies.
        let memory = filled(&pattern(3 * SWITCH, 3)).share();
        let me = origin.endpoint();
        let region: RegionId = world
            .lock()
            .unit(0)
            .register(pami::region::Memory::Shared(memory.clone()), pami::Rights::READ, me)
            .unwrap();
        let envelope = pami::packet::Envelope {
            kind: pami::packet::Kind::Rts,
            dispatch: 0,
            origin: me,
            target: target.endpoint(),
            message: 5,
            offset: SWITCH as u32,
            total: 200_000,
        };
        world.forge(crate::machine::Packet::new(envelope, &[], zerocopy::IntoBytes::as_bytes(&region)));
        advance_all(&mut [&mut target, &mut origin]);
        assert_eq!(*seen.lock().unwrap(), [(0, Err(OperationError::Region(RegionFault::Bounds)))], "{kind}");
        world.lock().unit(0).deregister(region);
        assert!(memory.reclaim().is_ok());
        assert!(clients.into_iter().nth(1).unwrap().destroy_context(target).is_ok());
    }
}
