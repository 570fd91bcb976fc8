//! How much there may be of everything with default settings, what comes past that, and what one rank's failure does to the
//! others. And a barrier that nobody may leave early.

use super::check::{Outcome, Suite};
use kernel::OutOfMemory;
use mpi::{Assert, Blocks, Class, Communicator, Data, Datatype, Error, Group, IN_PLACE, Op, Request, Target};

/// Messages to a neighbour that are under way at a time.
const MESSAGES: usize = 600;
/// Communicators at a time.
const COMMUNICATORS: usize = 20;
/// Types and groups at a time.
const MANY: usize = 1000;
/// Numbers of a vector that is larger than all scratch memory.
const VECTOR: usize = 96 << 10;
/// Rounds of barriers.
const ROUNDS: u32 = 12;

pub fn run(suite: &Suite) -> Outcome {
    messages(suite)?;
    communicators(suite)?;
    types_and_groups(suite)?;
    reductions(suite)?;
    failures(suite)?;
    barriers(suite)
}

fn memory(error: OutOfMemory) -> Error {
    let _ = error;
    Error::NoMem { what: "bytes of the task's memory", limit: 0 }
}

fn messages(suite: &Suite) -> Outcome {
    let (next, before) = suite.neighbours();
    let requests = suite.task.memory().fill(2 * MESSAGES, || Request::NULL).map_err(memory)?;
    let (out, into) = (suite.room::<i32>(MESSAGES)?, suite.room::<i32>(MESSAGES)?);
    let (receives, sends) = requests.split_at_mut(MESSAGES);
    for (at, receive) in receives.iter_mut().enumerate() {
        *receive = suite.world.irecv(&into.part(at, 1)?, before, at as i32)?;
    }
    for (at, send) in sends.iter_mut().enumerate() {
        out.part(at, 1)?.write(&[suite.rank * 1000 + at as i32])?;
        *send = suite.world.isend(&out.part(at, 1)?, next, at as i32)?;
    }
    suite.mpi.wait_all(requests, &mut [])?;
    let mut good = true;
    for at in 0..MESSAGES {
        good &= suite.values::<i32, 1>(&into.part(at, 1)?)? == [before * 1000 + at as i32];
    }
    suite.that("many messages at a time", good);
    Ok(())
}

fn communicators(suite: &Suite) -> Outcome {
    let mut comms = [suite.world; COMMUNICATORS];
    for comm in &mut comms {
        *comm = suite.world.dup()?;
    }
    let sum = suite.numbers(&[suite.rank + 1])?;
    comms[COMMUNICATORS - 1].allreduce(IN_PLACE, &sum, Op::Sum)?;
    let all = suite.size * (suite.size + 1) / 2;
    suite.equal("the last of many", suite.values::<i32, 1>(&sum)?, [all]);
    comms.iter().try_for_each(Communicator::free)
}

fn types_and_groups(suite: &Suite) -> Outcome {
    let (types, double) = (suite.mpi.types(), Datatype::of::<f64>());
    let world = suite.world.group()?;
    let mut order = heapless::Vec::<i32, 64>::new();
    // The first two change places: no range.
    order.extend((0..suite.size).map(|rank| if rank < 2 && suite.size > 2 { 1 - rank } else { rank }));
    let mut made = 0;
    let room = suite.task.memory().fill(MANY, || None).map_err(memory)?;
    for place in room.iter_mut() {
        *place = Some((types.indexed(&[1, 2], &[0, 3], &double)?, suite.mpi.group_incl(&world, &order)?));
        made += 1;
    }
    suite.equal("types and groups at a time", made, MANY);
    suite.that("types are counted", types.alive() >= MANY);
    let last: Option<&(Datatype, Group)> = room.last().and_then(Option::as_ref);
    suite.equal("the last group's size", last.map(|(_, group)| group.size()), Some(suite.size as u32));
    room.fill_with(|| None);
    suite.that("freed", types.alive() < MANY);
    Ok(())
}

fn reductions(suite: &Suite) -> Outcome {
    let vector = suite.room::<u32>(VECTOR)?;
    let value = |rank: u32, at: usize| (at as u32).wrapping_mul(rank + 7) ^ rank;
    let sum = |at: usize| (0..suite.size as u32).fold(0u32, |sum, rank| sum.wrapping_add(value(rank, at)));
    let mut piece = [0u32; 512];
    for start in (0..VECTOR).step_by(piece.len()) {
        for (at, number) in piece.iter_mut().enumerate() {
            *number = value(suite.rank as u32, start + at);
        }
        vector.part(start, piece.len())?.write(&piece)?;
    }
    suite.world.allreduce(IN_PLACE, &vector, Op::Sum)?;
    let mut good = true;
    for start in (0..VECTOR).step_by(piece.len()) {
        vector.part(start, piece.len())?.read(&mut piece)?;
        good &= piece.iter().enumerate().all(|(at, number)| *number == sum(start + at));
    }
    suite.that("a reduction of more than there is scratch memory", good);
    Ok(())
}

/// One rank cannot take its part: all hear of it, and go on.
fn failures(suite: &Suite) -> Outcome {
    let class = |outcome: Result<(), Error>| outcome.map_err(|error| error.class());
    let last = suite.rank == suite.size - 1;
    let loose = suite.mpi.types().contiguous(1, &Datatype::of::<i32>())?;
    let loose = Data::new(suite.memory(8)?, 0, 1, loose)?;
    let (own, all) = (suite.numbers(&[suite.rank])?, suite.room::<i32>(suite.size as usize)?);
    for _ in 0..3 {
        let sum = if last { &loose } else { &own };
        suite.equal(
            "a type of one rank",
            class(suite.world.allreduce(IN_PLACE, sum, Op::Sum)),
            Err(Class::Op),
        );
        let color = if last { -1 } else { 0 };
        suite.equal("a color of one rank", class(suite.world.split(color, 0).map(drop)), Err(Class::Arg));
        let (counts, displacements) = ([1usize; 64], core::array::from_fn::<isize, 64, _>(|at| at as isize));
        let (size, short) = (suite.size as usize, if last { 1 } else { 0 });
        let blocks =
            Blocks { data: &all, counts: &counts[..size], displacements: &displacements[..size - short] };
        let outcome = class(suite.world.allgatherv(&own, blocks));
        suite.equal("lists of one rank", outcome, Err(Class::Arg));
        suite.world.barrier()?;
    }
    let twin = suite.world.dup()?;
    twin.free()
}

/// Everybody writes, barrier, everybody reads.
fn barriers(suite: &Suite) -> Outcome {
    let size = suite.size as usize;
    let memory = suite.memory(4 * size)?;
    let win = suite.world.win_create(&memory, 0..4 * size, 4)?;
    let mine = suite.room::<u32>(1)?;
    win.lock_all(Assert::empty())?;
    for round in 1..=ROUNDS {
        // Each in turn comes late.
        if round as i32 % suite.size == suite.rank {
            let until = suite.task.now_ns() + 2_000_000;
            while suite.task.now_ns() < until {}
        }
        mine.write(&[round])?;
        for rank in 0..suite.size {
            win.put(&mine, &Target::new(rank, suite.rank as usize, 1, Datatype::of::<u32>()))?;
        }
        win.flush_all()?;
        if round % 2 == 0 {
            suite.world.barrier()?;
        } else {
            suite.mpi.wait(&mut suite.world.ibarrier()?)?;
        }
        win.sync()?;
        let mut seen = [0u32; 64];
        let seen = &mut seen[..size];
        Data::of::<u32>(&memory, 0, size)?.read(seen)?;
        suite
            .that("nobody leaves a barrier before all have come", seen.iter().all(|&number| number == round));
        // Nobody writes on before all have read.
        suite.world.barrier()?;
    }
    win.unlock_all()?;
    win.free()
}
