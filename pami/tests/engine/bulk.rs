//! Memory in shared use that is sent: got from where it lies into its place, by whatever path (SPEC P-6, Q-2).

use crate::machine::{MTU, QUEUE, filled, pattern};
use crate::stage::{Build, End, Handler, Port, Stage, Told, handler, leak};
use pami::packet::{DEFERRING, Kind};
use pami::region::RegionId;
use pami::{
    Active, ClientBuilder, Layout, Message, OnPart, OperationError, Part, Payload, Pools, Receive,
    RegionFault, Send, Shared,
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

/// Tasks that send by rendezvous from [`SWITCH`] bytes on.
fn far(tasks: u32, told: Told, handler: Handler) -> Stage {
    Stage::hears(tasks, false, told, handler, |client| client.rendezvous_from(SWITCH))
}

fn two(path: (bool, bool)) -> Stage {
    two_with(path, |client| client)
}

fn two_with((local, local_paths): (bool, bool), build: impl Build) -> Stage {
    Stage::pair(local, |client: ClientBuilder<_>| {
        build(client.local_paths(local_paths).rendezvous_from(SWITCH))
    })
}

/// A send of shared memory to the target, whose ends are told under 1 and 2.
fn shared(stage: &Stage, memory: &Shared, range: Range<usize>) -> Send<'static, Port> {
    let payload = Payload::Shared(memory.clone(), range);
    let (local_done, remote_done) = (stage.done(1), stage.done(2));
    Send { payload, local_done, remote_done, ..stage.message(1, Vec::new()) }
}

const BOTH: [End; 2] = [(1, None, Ok(())), (2, None, Ok(()))];

fn regions(stage: &Stage) -> usize {
    stage.world.lock().unit(0).regions()
}

#[test]
fn p6_q2_shared_memory_is_got_from_where_it_lies_into_its_place_and_copied_nowhere_else() {
    let all = pattern((1 << 18) + 40, 9);
    let memory = filled(&all).share();
    for path in PATHS {
        let mut stage = two(path);
        let lens = [SWITCH, SWITCH + 1, 40 * MTU - 3, 1 << 18];
        for (start, len) in lens.into_iter().flat_map(|len| [0, 1, 7, 8, 13].map(|start| (start, len))) {
            let moved = |stage: &Stage| {
                let state = stage.world.lock();
                (state.carried, state.got)
            };
            let before = moved(&stage);
            stage.send(0, shared(&stage, &memory, start..start + len));
            stage.quiet();
            assert!(stage.data() == [&all[start..start + len]]);
            assert_eq!(stage.ends(), BOTH);
            // One get of it all: no piece landed anywhere, no packet of the contexts had any of it.
            let after = moved(&stage);
            assert_eq!((after.0 - before.0, after.1 - before.1), (RTS_BYTES, len), "{path:?}");
            assert_eq!(stage.world.lock().seen.iter().filter(|seen| seen.0.is_first()).count(), 0);
        }
        let gets = if path == (true, true) { 0 } else { 5 * lens.len() };
        assert_eq!((stage.count(Kind::Get), stage.protocol_errors()), (gets, 0));
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
        let mut stage = two(path);
        stage.world.lock().unit(0).limit = Some(regions);
        let all = pattern(len + 3, 2);
        let memory = filled(&all).share();
        stage.send(0, Send { layout, ..shared(&stage, &memory, 3..len + 3) });
        stage.quiet();
        let data = stage.data().pop().unwrap();
        let expected: Vec<u8> = match layout {
            Layout::Contiguous => all[3..].to_vec(),
            _ => all[3..].chunks(90).flat_map(|chunk| &chunk[..chunk.len().min(60)]).copied().collect(),
        };
        assert_eq!(data, expected[..data.len()]);
        assert!(data.len() + 60 > expected.len(), "but for a run that is not whole");
        let carried = stage.world.lock().carried;
        let moved = (carried, stage.world.lock().got);
        assert_eq!(moved, (data.len() + ACK_BYTES, 0), "{path:?}");
        assert_eq!(stage.ends(), BOTH);
        assert!(memory.reclaim().is_ok());
    }
}

#[test]
fn p6_the_senders_memory_is_let_go_only_after_the_end() {
    for path in PATHS {
        let mut stage = two(path);
        stage.world.stepped();
        let memory = filled(&pattern(8 * MTU, 1)).share();
        stage.send(0, shared(&stage, &memory, 5..8 * MTU));
        let mut memory = Some(memory);
        for _ in 0..200 {
            memory = match memory.take().unwrap().reclaim() {
                // Nobody else has it: then all was told, or is about to be.
                Ok(buffer) => {
                    assert_eq!(stage.counts().1, 2, "{path:?}");
                    assert_eq!(buffer.as_slice(), pattern(8 * MTU, 1));
                    break;
                }
                Err(memory) => Some(memory),
            };
            assert_eq!((stage.counts().1, regions(&stage)), (0, 1));
            stage[1].advance();
            stage.step(|_| true);
            stage[0].advance();
        }
        assert!(memory.is_none(), "it comes back");
        assert_eq!(stage.data(), [&pattern(8 * MTU, 1)[5..]]);
    }
}

#[test]
fn p6_shared_memory_that_nobody_wants_yet_waits_at_its_sender() {
    for (path, wanted) in PATHS.into_iter().flat_map(|path| [(path, true), (path, false)]) {
        let mut stage = two(path);
        let (all, end) = (pattern(3 * SWITCH, 3), 3 * SWITCH - 1);
        let memory = filled(&all).share();
        stage.send(0, Send { dispatch: DEFERRING, ..shared(&stage, &memory, 9..end) });
        stage.quiet();
        assert_eq!((stage.counts().1, regions(&stage)), (0, 1));
        if wanted {
            stage.accept(1)
        } else {
            stage.discard(1)
        }
        stage.quiet();
        let expected = if wanted { vec![all[9..end].to_vec()] } else { vec![] };
        assert_eq!((stage.data(), stage.ends(), regions(&stage)), (expected, BOTH.to_vec(), 0));
        assert!(memory.reclaim().is_ok());
    }
}

#[test]
fn r1_r4_shared_memory_that_is_refused_comes_again_and_all_of_it_is_let_go() {
    const MESSAGES: usize = 30;
    for path in PATHS {
        let mut stage = two_with(path, |client| client.pools(Pools { receive_requests: 1, ..Pools::LARGE }));
        stage.world.lock().unit(0).limit = Some(MESSAGES);
        let all = pattern(3 * SWITCH, 7);
        let memory = filled(&all).share();
        for start in 0..MESSAGES {
            stage.send(0, shared(&stage, &memory, start..start + 2 * SWITCH));
        }
        assert_eq!(regions(&stage), MESSAGES);
        for _ in 0..QUEUE * MESSAGES {
            stage[0].advance();
            stage[1].advance();
        }
        stage.quiet();
        let mut came = stage.data();
        let mut expected: Vec<_> =
            (0..MESSAGES).map(|start| all[start..start + 2 * SWITCH].to_vec()).collect();
        came.sort();
        expected.sort();
        assert!(came == expected, "{path:?}: each of them once");
        assert_eq!((stage.counts().1, regions(&stage), stage.protocol_errors()), (2 * MESSAGES, 0, 0));
        assert!(memory.reclaim().is_ok());
    }
}

#[test]
fn r2_r4_who_dies_in_the_middle_of_a_get_leaves_nothing_held_at_the_other() {
    // One after the other: after the RTS, the get, and some of the data.
    for (dies, steps) in [0, 1].into_iter().flat_map(|dies| (0..6).map(move |steps| (dies, steps))) {
        let told = Told::torn();
        let mut stage = far(2, told, told.taker());
        stage.world.stepped();
        let memory = filled(&pattern(8 * MTU, 1)).share();
        stage.send(0, shared(&stage, &memory, 0..8 * MTU));
        for _ in 0..steps {
            assert!(stage.step(|_| true));
            stage[1].advance();
        }
        stage.world.kill(dies);
        stage.world.free_running();
        let dead = Err(OperationError::NodeDead(dies));
        let lives = 1 - dies as usize;
        stage.quiet_of(&[lives]);
        if dies == 0 {
            let began: &[_] = if steps == 0 { &[] } else { &[(8 * MTU, dead)] };
            let seen = stage.receptions().into_iter().map(|got| (got.memory.len(), got.result));
            assert!(seen.eq(began.iter().copied()), "{steps}");
        } else {
            assert_eq!(stage.ends(), [(1, None, dead), (2, None, dead)]);
            assert_eq!(regions(&stage), 0);
            assert!(memory.reclaim().is_ok(), "after {steps} steps");
        }
        assert_eq!(stage.destroy(lives), Ok(()), "nothing is under way");
    }
}

#[test]
fn p6_q2_the_next_piece_is_asked_for_before_the_former_one_is_put_in_its_place() {
    // Within a node a piece is there when it is asked for.
    for path in [(true, false), (false, false)] {
        // The part's first byte and its bytes.
        let parts: &'static Mutex<Vec<(usize, usize)>> = leak(Mutex::default());
        let world: &'static Mutex<Option<&'static crate::machine::World>> = leak(Mutex::default());
        let call = leak(move |_: &mut Active<Port>, part: &Part<'_>| {
            assert_eq!(part.result, Ok(()));
            assert_eq!(part.data, &pattern(part.total + 3, 1)[3 + part.offset..][..part.data.len()]);
            let asked = world.lock().unwrap().unwrap().lock().got;
            let next = (part.offset + 2 * part.data.len()).min(part.total);
            assert!(asked >= next, "{asked} of {next} bytes at {}", part.offset);
            parts.lock().unwrap().push((part.offset, part.data.len()));
        });
        let takes = handler(move |_: &Message<'_>| Receive::Packets(OnPart { call, cookie: 0 }));
        let (local, local_paths) = path;
        let mut stage = Stage::hears(2, local, Told::new(), takes, |client| {
            let pools = Pools { piece_bytes: 8 << 10, ..Pools::LARGE };
            client.local_paths(local_paths).rendezvous_from(SWITCH).pools(pools)
        });
        *world.lock().unwrap() = Some(stage.world);
        stage.world.stepped();
        let len = 200_001;
        let memory = filled(&pattern(len + 3, 1)).share();
        stage.send(0, shared(&stage, &memory, 3..len + 3));
        while stage.counts().1 < 2 {
            // One packet, then a look.
            stage.step(|_| true);
            stage[1].advance();
            stage[0].advance();
        }
        let parts = parts.lock().unwrap();
        assert_eq!(parts.iter().map(|part| part.1).sum::<usize>(), len);
        assert!(parts.len() > 8, "{} pieces", parts.len());
        assert!(parts.iter().all(|part| part.1 <= 16 << 10));
        let got = stage.world.lock().got;
        assert_eq!((got, stage.ends()), (len, BOTH.to_vec()));
    }
}

#[test]
fn r2_r4_pieces_of_one_that_dies_or_refuses_leave_their_memory_to_others() {
    const LEN: usize = 100_000;
    // Packets that move before it happens; and what happens.
    for (steps, dies) in (1..240).step_by(7).flat_map(|steps| [(steps, true), (steps, false)]) {
        let told = Told::torn();
        let mut stage = far(3, told, handler(move |message| told.runs(message)));
        let (target, other) = (1, 2);
        stage.world.stepped();
        stage.say(0, target, pattern(LEN, 0));
        for _ in 0..steps {
            stage.step(|_| true);
            stage[target].advance();
        }
        let whole = stage.counts().0 == 1;
        let error = if dies {
            stage.world.kill(0);
            OperationError::NodeDead(0)
        } else {
            stage.world.lock().unit(0).deregister(RegionId { index: 0.into(), generation: 1.into() });
            OperationError::Region(RegionFault::Stale)
        };
        stage.world.free_running();
        stage.quiet_of(&[target]);
        stage.say(other, target, pattern(LEN, 2));
        stage.quiet_of(&[other, target]);
        let seen = stage.receptions();
        for got in &seen {
            assert_eq!(got.memory[..got.len], pattern(LEN, got.from as usize)[..got.len]);
        }
        let seen: Vec<_> = seen.into_iter().map(|got| (got.from, got.len, got.result)).collect();
        let [(0, len, result), second] = seen[..] else { panic!("{seen:?} after {steps} packets") };
        assert_eq!(second, (2, LEN, Ok(())));
        assert_eq!((result, len == LEN), if whole { (Ok(()), true) } else { (Err(error), false) });
        assert_eq!(stage.destroy(target), Ok(()), "nothing is under way");
    }
}
