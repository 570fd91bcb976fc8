//! Messages of all lengths, from memory of all kinds, to handlers of all wishes, over all paths at once, at small tables, with a
//! node that dies in the middle: every one ends once at both sides, and nothing is left (SPEC P-6, R-1, R-2, R-4).

use crate::machine::{buffer, filled, machine_of, pattern};
use crate::stage::{Port, Random, Stage, Told, handler, leak};
use pami::packet::DEFERRING;
use pami::{
    Active, ClientBuilder, Completion, Done, Layout, Message, OnPart, OnReceived, OperationError, Part,
    Payload, Pools, Receive, Received, Send, SendError,
};
use std::sync::Mutex;

const SWITCH: usize = 2048;
const TASKS: u32 = 6;
const PER_NODE: u32 = 2;
const LENGTHS: [usize; 9] = [0, 1, 8, 300, 700, SWITCH - 1, SWITCH, 9000, 50_000];

type Outcome = Result<(), OperationError>;

/// What became of one message.
#[derive(Default, Clone, Debug)]
struct Fate {
    from: usize,
    to: usize,
    len: usize,
    wish: u8,
    local: Vec<Outcome>,
    remote: Vec<Outcome>,
    handled: usize,
    parts: usize,
    received: Vec<Outcome>,
}

type Fates = Mutex<Vec<Fate>>;

/// The callback of messages that were wanted whole.
fn on_received(fates: &'static Fates, cookie: usize) -> OnReceived<Port> {
    let call = leak(move |_: &mut Active<Port>, received: Received| {
        let mut fates = fates.lock().unwrap();
        let fate = &mut fates[received.cookie];
        if received.result.is_ok() {
            assert_eq!(received.len, received.total);
            assert!(received.buffer.as_slice()[..received.len] == pattern(fate.len, received.cookie));
        }
        fate.received.push(received.result);
    });
    OnReceived { call, cookie }
}

fn wish(fates: &'static Fates, number: usize) -> Receive<Port> {
    let part = leak(move |_: &mut Active<Port>, part: &Part<'_>| {
        let mut fates = fates.lock().unwrap();
        let fate = &mut fates[part.cookie];
        match part.result {
            Ok(()) => {
                assert_eq!(part.offset, fate.parts);
                assert!(part.data == &pattern(fate.len, part.cookie)[part.offset..][..part.data.len()]);
                fate.parts += part.data.len();
                if fate.parts == fate.len {
                    fate.received.push(Ok(()));
                }
            }
            result => fate.received.push(result),
        }
    });
    let mut all = fates.lock().unwrap();
    let fate = &mut all[number];
    fate.handled += 1;
    let len = fate.len;
    match fate.wish {
        0 => Receive::Into(buffer(len), on_received(fates, number)),
        1 => Receive::Scatter(buffer(len), Layout::Contiguous, on_received(fates, number)),
        2 if len > 0 => Receive::Packets(OnPart { call: part, cookie: number }),
        _ => {
            fate.received.push(Ok(()));
            Receive::Done
        }
    }
}

fn number_of(header: &[u8]) -> usize {
    u32::from_le_bytes(header.try_into().unwrap()) as usize
}

fn run(seed: u64) {
    let mut dice = Random::new(seed);
    let fates: &'static Fates = leak(Mutex::default());
    let moods: &'static Mutex<Random> = leak(Mutex::new(Random::new(!seed)));
    let take = handler(move |message| wish(fates, number_of(message.header)));
    let deferring = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
        let later = moods.lock().unwrap().below(2) == 0;
        if later { None } else { Some(wish(fates, number_of(message.header))) }
    });
    let of = |receive_requests, operations, unexpected| Pools {
        receive_requests,
        operations,
        unexpected,
        ..Pools::LARGE
    };
    let pools = match dice.below(4) {
        0 => of(1, 2, 1),
        1 => of(3, 6, 2),
        2 => of(40, 40, 8),
        _ => Pools::SMALL,
    };
    let paths = dice.below(4) > 0;
    let build = |client: ClientBuilder<_>| {
        let client = client.local_paths(paths).rendezvous_from(SWITCH).pools(pools);
        client.dispatch(0, take).dispatch_deferring(DEFERRING, deferring)
    };
    let mut stage = Stage::of(machine_of(TASKS, PER_NODE), 1, Told::torn(), build);
    let world = stage.world;
    for node in 0..TASKS / PER_NODE {
        world.lock().unit(node).limit = Some(1 + dice.below(6));
    }
    if dice.below(2) == 0 {
        world.stepped();
    }
    if dice.below(2) == 0 {
        world.lock().moody = seed | 1;
    }
    let local = leak(move |_: &mut Active<Port>, completion: Completion| {
        fates.lock().unwrap()[completion.cookie].local.push(completion.result);
    });
    let remote = leak(move |_: &mut Active<Port>, completion: Completion| {
        fates.lock().unwrap()[completion.cookie].remote.push(completion.result);
    });
    let count = 20 + dice.below(60);
    let dies = (dice.below(2) == 0).then(|| (dice.below(3) as u32, dice.below(8 * count)));
    let mut dead: Option<u32> = None;
    let (mut sent, mut rounds) = (0, 0);
    let mut lent = Vec::new();
    let tasks = TASKS as usize;
    let is_dead = |dead: Option<u32>, task: usize| dead == Some(task as u32 / PER_NODE);
    let mut quiet = 0;
    loop {
        rounds += 1;
        assert!(rounds < 40_000, "seed {seed}: {:?}", fates.lock().unwrap());
        if let Some((node, _)) = dies.filter(|&(_, when)| dead.is_none() && (rounds >= when)) {
            world.kill(node);
            dead = Some(node);
        }
        if sent < count && dice.below(3) == 0 {
            let (from, to) = (dice.below(tasks), dice.below(tasks));
            if !is_dead(dead, from) {
                let len = LENGTHS[dice.below(LENGTHS.len())];
                let number = fates.lock().unwrap().len();
                let data = pattern(len, number);
                let payload = match dice.below(3) {
                    0 => Payload::Static(data.leak()),
                    1 => Payload::Buffer(filled(&data), 0..len),
                    _ => {
                        let start = dice.below(20);
                        let mut memory = vec![0; start];
                        memory.extend(&data);
                        let memory = filled(&memory).share();
                        lent.push(memory.clone());
                        Payload::Shared(memory, start..start + len)
                    }
                };
                let wish = dice.below(4) as u8;
                fates.lock().unwrap().push(Fate { from, to, len, wish, ..Fate::default() });
                let dispatch = if dice.below(3) == 0 { DEFERRING } else { 0 };
                let send = Send {
                    dispatch,
                    header: &(number as u32).to_le_bytes(),
                    payload,
                    local_done: Some(Done { call: local, cookie: number }),
                    remote_done: Some(Done { call: remote, cookie: number }),
                    ..stage.message(to, vec![])
                };
                let result = stage.try_send(from, send);
                if result.is_err() {
                    assert!(result == Err(SendError::Again) || is_dead(dead, to), "{result:?}");
                    fates.lock().unwrap().pop();
                } else {
                    sent += 1;
                }
            }
        }
        for _ in 0..dice.below(4) {
            let task = dice.below(tasks);
            if !is_dead(dead, task) {
                stage.turn(&[task]);
            }
        }
        for _ in 0..dice.below(4) {
            let mut state = world.lock();
            if state.stepped {
                let steps = state.steps();
                if !steps.is_empty() {
                    let step = steps[dice.below(steps.len())];
                    state.step(step);
                }
            }
        }
        if dice.below(5) == 0 {
            let task = dice.below(tasks);
            if !is_dead(dead, task) {
                let context = &mut stage[task];
                let kept = context.unexpected().next().map(|it| (it.id, number_of(it.header), it.total));
                if let Some((id, number, total)) = kept {
                    if dice.below(4) == 0 {
                        if context.discard(id) == Ok(()) {
                            let mut fates = fates.lock().unwrap();
                            fates[number].handled += 1;
                            fates[number].received.push(Ok(()));
                        }
                    } else {
                        let accepted = context.accept(id, buffer(total), on_received(fates, number));
                        if accepted.is_ok() {
                            fates.lock().unwrap()[number].handled += 1;
                        }
                    }
                }
            }
        }
        if sent == count {
            // To the end, as far as there is one: what was refused may pause for long.
            (0..tasks).filter(|&task| !is_dead(dead, task)).for_each(|task| stage.turn(&[task]));
            if dies.is_some() == dead.is_some() && rounds % 64 == 0 {
                let fates = fates.lock().unwrap();
                let ends = |fate: &Fate| {
                    let (from, to) = (is_dead(dead, fate.from), is_dead(dead, fate.to));
                    let told = from || fate.local.len() == 1 && fate.remote.len() == 1;
                    let came = to || fate.received.len() == usize::from(!from || fate.handled > 0);
                    told && came
                };
                quiet = if fates.iter().all(ends) { quiet + 1 } else { 0 };
                if quiet == 4 {
                    break;
                }
            }
        }
    }
    for (number, fate) in fates.lock().unwrap().iter().enumerate() {
        let (from, to) = (is_dead(dead, fate.from), is_dead(dead, fate.to));
        let hint = format!("seed {seed}, message {number}: {fate:?}");
        assert!(fate.handled <= 1 && fate.local.len() <= 1 && fate.remote.len() <= 1, "{hint}");
        assert!(fate.received.len() <= 1, "{hint}");
        if !from {
            assert!(fate.local.len() == 1 && fate.remote.len() == 1, "{hint}");
        }
        if !from && !to {
            assert_eq!((fate.local[0], fate.remote[0]), (Ok(()), Ok(())), "{hint}");
            assert_eq!((fate.handled, fate.received.as_slice()), (1, &[Ok(())][..]), "{hint}");
        }
        if from && !to {
            assert_eq!(fate.received.len(), fate.handled, "{hint}");
        }
    }
    for task in 0..tasks {
        let context = &mut stage[task];
        // What one who died has left here.
        let alive = !is_dead(dead, task);
        let kept: Vec<_> = context.unexpected().map(|it| it.id).filter(|_| alive).collect();
        for id in kept {
            let mut tried = 0;
            while let Err(error) = context.discard(id) {
                context.advance();
                tried += 1;
                assert!(tried < 1000, "seed {seed}, task {task}: {error:?}, dead {dead:?}");
            }
        }
        (0..100).for_each(|_| _ = context.advance());
        let errors = context.counters().protocol_errors;
        assert!(dead.is_some() || errors == 0, "seed {seed}, task {task}: {errors}");
        if alive {
            assert_eq!(stage.destroy(task), Ok(()), "seed {seed}, task {task}");
            assert_eq!(world.lock().unit(task as u32 / PER_NODE).regions(), 0, "seed {seed}");
        }
    }
    if dead.is_none() {
        lent.into_iter().for_each(|memory| assert!(memory.reclaim().is_ok()));
    }
}

#[test]
fn p6_r1_r2_messages_of_all_kinds_at_once_end_once_each_and_leave_nothing() {
    let seeds = if cfg!(miri) { 2 } else { 100 };
    (1..=seeds).for_each(run);
}
