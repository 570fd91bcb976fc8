//! Memory in shared use that is sent: got from where it lies into its place, by whatever path (SPEC P-6, Q-2).

use crate::machine::{MTU, QUEUE, Step, TestNode, World, buffer, filled, pattern};
use crate::scene::{
    Ends, Port, advance_all, always_later, clients, collector, context, deferred, ends, leak, message, pair,
    send,
};
use pami::packet::{DEFERRING, Kind};
use pami::{
    Active, Client, Completion, Context, Layout, Message, OnPart, OnReceived, OperationError, Part, Payload,
    Receive, Received, RegionFault, Send, Shared,
};
use std::ops::Range;
use std::sync::Mutex;

const SWITCH: usize = 2048;
/// What an RTS takes of a packet: the name of a region.
const RTS_BYTES: usize = 8;
/// And an acknowledgement: a bit for each operation.
const ACK_BYTES: usize = 8;

/// Whether both are on one node, and whether that is gone round.
const PATHS: [(bool, bool); 3] = [(true, true), (true, false), (false, false)];

fn two(
    (local, local_paths): (bool, bool),
    handler: crate::scene::Handler,
) -> ([Client<TestNode>; 2], Context<Port>, Context<Port>) {
    let mut clients = pair(local, |client| {
        client
            .local_paths(local_paths)
            .rendezvous_from(SWITCH)
            .dispatch(0, handler)
            .dispatch_deferring(DEFERRING, always_later())
    });
    let (origin, target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
    (clients, origin, target)
}

fn shared(
    target: &Context<Port>,
    memory: &Shared,
    range: Range<usize>,
    done: impl Fn(usize) -> Option<pami::Done<Port>>,
) -> Send<'static, Port> {
    let payload = Payload::Shared(memory.clone(), range);
    Send { payload, local_done: done(1), remote_done: done(2), ..message(target.endpoint(), Vec::new()) }
}

fn sorted(ends: &Ends) -> Vec<(usize, Option<usize>, Result<(), OperationError>)> {
    let mut ends = ends.lock().unwrap().clone();
    ends.sort_unstable_by_key(|end| end.0);
    ends
}

const BOTH: [(usize, Option<usize>, Result<(), OperationError>); 2] = [(1, None, Ok(())), (2, None, Ok(()))];

#[test]
fn p6_q2_shared_memory_is_got_from_where_it_lies_into_its_place_and_copied_nowhere_else() {
    let all = pattern((1 << 18) + 40, 9);
    let memory = filled(&all).share();
    for path in PATHS {
        let (log, handler) = collector();
        let (clients, mut origin, mut target) = two(path, handler);
        let world = clients[0].node().world;
        let lens = [SWITCH, SWITCH + 1, 40 * MTU - 3, 1 << 18];
        for (start, len) in lens.into_iter().flat_map(|len| [0, 1, 7, 8, 13].map(|start| (start, len))) {
            let (ends, done) = ends();
            let before = {
                let state = world.lock();
                (state.carried, state.got)
            };
            send(&mut origin, shared(&target, &memory, start..start + len, done));
            advance_all(&mut [&mut origin, &mut target]);
            assert_eq!(log.lock().unwrap().pop().unwrap().2, all[start..start + len]);
            assert_eq!(sorted(ends), BOTH);
            let state = world.lock();
            // One get of it all: no piece landed anywhere, no packet of the contexts had any of it.
            assert_eq!((state.carried - before.0, state.got - before.1), (RTS_BYTES, len), "{path:?}");
            assert_eq!(state.seen.iter().filter(|seen| seen.0.is_first()).count(), 0);
        }
        let gets = world.count(Kind::Get);
        assert_eq!(gets, if path == (true, true) { 0 } else { 5 * lens.len() });
        assert_eq!(origin.counters().protocol_errors + target.counters().protocol_errors, 0);
    }
    assert!(memory.reclaim().is_ok(), "nobody has it any more");
}

#[test]
fn p6_shared_memory_goes_by_packets_where_there_is_no_region() {
    // What is short, lies in pieces, or finds no region left.
    let strided = Layout::Strided { block: 60, stride: 90 };
    let cases = [
        (SWITCH - 1, Layout::Contiguous, 16),
        (4 * SWITCH, strided, 16),
        (4 * SWITCH, Layout::Contiguous, 0),
    ];
    for ((len, layout, regions), path) in cases.into_iter().flat_map(|case| PATHS.map(|path| (case, path))) {
        let (log, handler) = collector();
        let (clients, mut origin, mut target) = two(path, handler);
        let world = clients[0].node().world;
        world.lock().unit(0).limit = Some(regions);
        let (all, (ends, done)) = (pattern(len + 3, 2), ends());
        let memory = filled(&all).share();
        send(&mut origin, Send { layout, ..shared(&target, &memory, 3..len + 3, done) });
        advance_all(&mut [&mut origin, &mut target]);
        let data = log.lock().unwrap().pop().unwrap().2;
        let expected: Vec<u8> = match layout {
            Layout::Contiguous => all[3..].to_vec(),
            _ => all[3..].chunks(90).flat_map(|chunk| &chunk[..chunk.len().min(60)]).copied().collect(),
        };
        assert_eq!(data, expected[..data.len()]);
        assert!(data.len() + 60 > expected.len(), "but for a run that is not whole");
        let state = world.lock();
        assert_eq!((state.carried, state.got), (data.len() + ACK_BYTES, 0), "{path:?}");
        drop(state);
        assert_eq!(sorted(ends), BOTH);
        assert!(memory.reclaim().is_ok());
    }
}

#[test]
fn p6_the_senders_memory_is_let_go_only_after_the_end() {
    for path in PATHS {
        let ended: &'static Mutex<Vec<usize>> = leak(Mutex::default());
        let call = leak(move |_: &mut Active<Port>, completion: Completion| {
            ended.lock().unwrap().push(completion.cookie);
        });
        let done = |cookie| Some(pami::Done { call, cookie });
        let (log, handler) = collector();
        let (clients, mut origin, mut target) = two(path, handler);
        let world = clients[0].node().world;
        world.stepped();
        let memory = filled(&pattern(8 * MTU, 1)).share();
        send(&mut origin, shared(&target, &memory, 5..8 * MTU, done));
        let mut memory = Some(memory);
        for _ in 0..200 {
            memory = match memory.take().unwrap().reclaim() {
                // Nobody else has it: then all was told, or is about to be.
                Ok(buffer) => {
                    assert_eq!(ended.lock().unwrap().len(), 2, "{path:?}");
                    assert_eq!(buffer.as_slice(), pattern(8 * MTU, 1));
                    break;
                }
                Err(memory) => Some(memory),
            };
            assert_eq!((ended.lock().unwrap().len(), world.lock().unit(0).regions()), (0, 1));
            target.advance();
            let step = world.lock().steps().first().copied();
            if let Some(step) = step {
                world.lock().step(step);
            }
            origin.advance();
        }
        assert!(memory.is_none(), "it comes back");
        assert_eq!(log.lock().unwrap()[0].2, pattern(8 * MTU, 1)[5..]);
    }
}

#[test]
fn p6_shared_memory_that_nobody_wants_yet_waits_at_its_sender() {
    for (path, wanted) in PATHS.into_iter().flat_map(|path| [(path, true), (path, false)]) {
        let (_, handler) = collector();
        let (clients, mut origin, mut target) = two(path, handler);
        let world = clients[0].node().world;
        let (ends, done) = ends();
        let (all, end) = (pattern(3 * SWITCH, 3), 3 * SWITCH - 1);
        let memory = filled(&all).share();
        let later = deferred(target.endpoint(), Vec::new());
        send(&mut origin, Send { dispatch: later.dispatch, ..shared(&target, &memory, 9..end, done) });
        advance_all(&mut [&mut origin, &mut target]);
        assert_eq!((ends.lock().unwrap().len(), world.lock().unit(0).regions()), (0, 1));
        let id = target.unexpected().next().unwrap().id;
        let got: &'static Mutex<Vec<u8>> = leak(Mutex::default());
        let call = leak(move |_: &mut Active<Port>, received: Received| {
            assert_eq!((received.len, received.result), (received.total, Ok(())));
            *got.lock().unwrap() = received.buffer.as_slice().to_vec();
        });
        if wanted {
            let len = end - 9;
            assert!(target.accept(id, buffer(len), OnReceived { call, cookie: 0 }).is_ok());
        } else {
            assert_eq!(target.discard(id), Ok(()));
        }
        advance_all(&mut [&mut origin, &mut target]);
        assert_eq!(*got.lock().unwrap(), if wanted { all[9..end].to_vec() } else { Vec::new() });
        assert_eq!((sorted(ends), world.lock().unit(0).regions()), (BOTH.to_vec(), 0));
        assert!(memory.reclaim().is_ok());
    }
}

#[test]
fn r1_r4_shared_memory_that_is_refused_comes_again_and_all_of_it_is_let_go() {
    const MESSAGES: usize = 30;
    for path in PATHS {
        let (log, handler) = collector();
        let mut clients = pair(path.0, |client| {
            client.local_paths(path.1).rendezvous_from(SWITCH).receive_requests(1).dispatch(0, handler)
        });
        let (mut origin, mut target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
        let world = clients[0].node().world;
        world.lock().unit(0).limit = Some(MESSAGES);
        let (all, (ends, done)) = (pattern(3 * SWITCH, 7), ends());
        let memory = filled(&all).share();
        for start in 0..MESSAGES {
            send(&mut origin, shared(&target, &memory, start..start + 2 * SWITCH, done));
        }
        assert_eq!(world.lock().unit(0).regions(), MESSAGES);
        for _ in 0..QUEUE * MESSAGES {
            origin.advance();
            target.advance();
        }
        advance_all(&mut [&mut origin, &mut target]);
        let log = log.lock().unwrap();
        let mut came: Vec<_> = log.iter().map(|(_, _, data)| data.clone()).collect();
        came.sort();
        let mut expected: Vec<_> =
            (0..MESSAGES).map(|start| all[start..start + 2 * SWITCH].to_vec()).collect();
        expected.sort();
        assert!(came == expected, "{path:?}: each of them once");
        assert_eq!((ends.lock().unwrap().len(), world.lock().unit(0).regions()), (2 * MESSAGES, 0));
        assert!(memory.reclaim().is_ok());
        assert_eq!(origin.counters().protocol_errors + target.counters().protocol_errors, 0);
    }
}

#[test]
fn r2_r4_who_dies_in_the_middle_of_a_get_leaves_nothing_held_at_the_other() {
    type Ended = (usize, Result<(), OperationError>);
    // One after the other: after the RTS, the get, and some of the data.
    for (dies, steps) in [0, 1].into_iter().flat_map(|dies| (0..6).map(move |steps| (dies, steps))) {
        let seen: &'static Mutex<Vec<Ended>> = leak(Mutex::default());
        let call = leak(move |_: &mut Active<Port>, received: Received| {
            seen.lock().unwrap().push((received.buffer.len(), received.result));
        });
        let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
            Receive::Into(buffer(message.total), OnReceived { call, cookie: 0 })
        });
        let mut clients = clients(2, false, |client| client.rendezvous_from(SWITCH).dispatch(0, handler));
        let [mut origin, mut target] = [0, 1].map(|task| context(&mut clients[task], 0));
        let world = clients[0].node().world;
        world.stepped();
        let (ends, done) = ends();
        let memory = filled(&pattern(8 * MTU, 1)).share();
        send(&mut origin, shared(&target, &memory, 0..8 * MTU, done));
        for _ in 0..steps {
            let step = world.lock().steps()[0];
            assert!(!matches!(step, Step::Tree));
            world.lock().step(step);
            target.advance();
        }
        world.kill(dies);
        world.free_running();
        let dead = Err(OperationError::NodeDead(dies));
        if dies == 0 {
            advance_all(&mut [&mut target]);
            let began = if steps == 0 { vec![] } else { vec![(8 * MTU, dead)] };
            assert_eq!(*seen.lock().unwrap(), began, "{steps}");
            assert!(clients.pop().unwrap().destroy_context(target).is_ok(), "nothing is under way");
        } else {
            advance_all(&mut [&mut origin]);
            assert_eq!(sorted(ends), [(1, None, dead), (2, None, dead)]);
            assert_eq!(world.lock().unit(0).regions(), 0);
            assert!(memory.reclaim().is_ok(), "after {steps} steps");
            assert!(clients.remove(0).destroy_context(origin).is_ok(), "nothing is under way");
        }
    }
}

/// The part's first byte and its bytes.
type Parts = Mutex<Vec<(usize, usize)>>;

#[test]
fn p6_q2_the_next_piece_is_asked_for_before_the_former_one_is_put_in_its_place() {
    // Within a node a piece is there when it is asked for.
    for path in [(true, false), (false, false)] {
        let parts: &'static Parts = leak(Mutex::default());
        let world: &'static Mutex<Option<&'static World>> = leak(Mutex::default());
        let call = leak(move |_: &mut Active<Port>, part: &Part<'_>| {
            assert_eq!(part.result, Ok(()));
            assert_eq!(part.data, &pattern(part.total + 3, 1)[3 + part.offset..][..part.data.len()]);
            let asked = world.lock().unwrap().unwrap().lock().got;
            let next = (part.offset + 2 * part.data.len()).min(part.total);
            assert!(asked >= next, "{asked} of {next} bytes at {}", part.offset);
            parts.lock().unwrap().push((part.offset, part.data.len()));
        });
        let handler =
            leak(move |_: &mut Active<Port>, _: &Message<'_>| Receive::Packets(OnPart { call, cookie: 0 }));
        let (clients, mut origin, mut target) = two(path, handler);
        let machine = clients[0].node().world;
        *world.lock().unwrap() = Some(machine);
        machine.stepped();
        let (ends, done) = ends();
        let len = 200_001;
        let memory = filled(&pattern(len + 3, 1)).share();
        send(&mut origin, shared(&target, &memory, 3..len + 3, done));
        while ends.lock().unwrap().len() < 2 {
            // One packet, then a look.
            let step = machine.lock().steps().first().copied();
            step.into_iter().for_each(|step| machine.lock().step(step));
            target.advance();
            origin.advance();
        }
        let parts = parts.lock().unwrap();
        assert_eq!(parts.iter().map(|part| part.1).sum::<usize>(), len);
        assert!(parts.len() > 8, "{} pieces", parts.len());
        assert!(parts.iter().all(|part| part.1 <= 16 << 10));
        assert_eq!((machine.lock().got, sorted(ends)), (len, BOTH.to_vec()));
    }
}

#[test]
fn r2_r4_pieces_of_one_that_dies_or_refuses_leave_their_memory_to_others() {
    type Ended = (u32, usize, Result<(), OperationError>);
    const LEN: usize = 100_000;
    // Packets that move before it happens; and what happens.
    for (steps, dies) in (1..240).step_by(7).flat_map(|steps| [(steps, true), (steps, false)]) {
        let seen: &'static Mutex<Vec<Ended>> = leak(Mutex::default());
        let call = leak(move |_: &mut Active<Port>, received: Received| {
            let Received { origin, len, result, buffer, .. } = received;
            assert_eq!(buffer.as_slice()[..len], pattern(LEN, origin.task() as usize)[..len]);
            seen.lock().unwrap().push((origin.task(), len, result));
        });
        let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
            Receive::Scatter(buffer(message.total), Layout::Contiguous, OnReceived { call, cookie: 0 })
        });
        let mut clients = clients(3, false, |client| client.rendezvous_from(SWITCH).dispatch(0, handler));
        let [mut origin, mut target, mut other] = [0, 1, 2].map(|task| context(&mut clients[task], 0));
        let world = clients[0].node().world;
        world.stepped();
        send(&mut origin, message(target.endpoint(), pattern(LEN, 0)));
        for _ in 0..steps {
            let step = world.lock().steps().first().copied();
            step.into_iter().for_each(|step| world.lock().step(step));
            target.advance();
        }
        let (whole, fault) = (seen.lock().unwrap().len() == 1, RegionFault::Stale);
        let error = if dies {
            world.kill(0);
            OperationError::NodeDead(0)
        } else {
            let region = pami::region::RegionId { index: 0.into(), generation: 1.into() };
            world.lock().unit(0).deregister(region);
            OperationError::Region(fault)
        };
        world.free_running();
        advance_all(&mut [&mut target]);
        send(&mut other, message(target.endpoint(), pattern(LEN, 2)));
        advance_all(&mut [&mut other, &mut target]);
        let seen = seen.lock().unwrap();
        let [(0, len, result), second] = seen[..] else { panic!("{seen:?} after {steps} packets") };
        assert_eq!(second, (2, LEN, Ok(())));
        assert_eq!((result, len == LEN), if whole { (Ok(()), true) } else { (Err(error), false) });
        assert!(clients.remove(1).destroy_context(target).is_ok(), "nothing is under way");
    }
}
