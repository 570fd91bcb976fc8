//! Groups, communicators and their attributes.

use super::check::{Comm, Outcome, Suite};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use kernel::Task;
use mpi::{Class, Comparison, Copying, Error, Group, Keyval, Op, UNDEFINED};

pub fn run(suite: &Suite) -> Outcome {
    worlds(suite)?;
    groups(suite)?;
    duplicates(suite)?;
    splits(suite)?;
    created(suite)?;
    many(suite)?;
    attributes(suite)
}

fn class<T>(outcome: Result<T, Error>) -> Result<(), Class> {
    outcome.map(drop).map_err(|error| error.class())
}

/// The sum of all ranks of the world that are in a communicator.
fn sum(suite: &Suite, comm: &Comm) -> Result<i32, Error> {
    let (mine, all) = (suite.numbers(&[suite.rank])?, suite.room::<i32>(1)?);
    comm.allreduce(&mine, &all, Op::Sum)?;
    Ok(suite.values::<i32, 1>(&all)?[0])
}

fn worlds(suite: &Suite) -> Outcome {
    let (world, own) = (suite.world, suite.mpi.itself());
    suite.equal("world's size", world.size(), suite.task.tasks());
    suite.equal("world's rank", world.rank(), suite.task.number());
    suite.equal("self", (own.size(), own.rank()), (1, 0));
    suite.equal("the sum over self", sum(suite, &own)?, suite.rank);
    let (mine, into) = (suite.numbers(&[5])?, suite.room::<i32>(1)?);
    own.sendrecv(&mine, 0, 1, &into, 0, 1)?;
    suite.equal("a message to self", suite.values::<i32, 1>(&into)?, [5]);
    suite.equal("not to be freed", class(world.free()), Err(Class::Comm));
    suite.equal("nor self", class(own.free()), Err(Class::Comm));
    suite.equal("self's group", own.group()?.task(0), Some(suite.task.number()));
    Ok(())
}

fn groups(suite: &Suite) -> Outcome {
    let mpi = &suite.mpi;
    let world = suite.world.group()?;
    let size = world.size();
    suite.equal("group's size", size, suite.task.tasks());
    suite.equal("rank in the group", mpi.group_rank(&world), Some(suite.task.number()));
    suite.equal("empty", Group::EMPTY.size(), 0);
    let last = size as i32 - 1;
    let reverse = mpi.group_range_incl(&world, &[(last, 0, -1)])?;
    suite.equal("reversed", reverse.task(0), Some(size - 1));
    suite.equal("translated", reverse.translate_rank(0, &world)?, Some(size - 1));
    let same = if size == 1 { Comparison::Ident } else { Comparison::Similar };
    suite.equal("similar", reverse.compare(&world), same);
    suite.equal("identical", world.compare(&mpi.group_incl(&world, &[])?), Comparison::Unequal);
    let even = mpi.group_range_incl(&world, &[(0, last, 2)])?;
    let odd = mpi.group_difference(&world, &even)?;
    suite.equal("even and odd", even.size() + odd.size(), size);
    suite.equal("they do not meet", mpi.group_intersection(&even, &odd)?.size(), 0);
    let both = mpi.group_union(&even, &odd)?;
    suite.equal("together", both.size(), size);
    suite.that("all of them", both.compare(&world) != Comparison::Unequal);
    suite.equal("twice", mpi.group_intersection(&even, &even)?.compare(&even), Comparison::Ident);
    let others = mpi.group_excl(&world, &[0])?;
    suite.equal("all but one", (others.size(), others.rank_of(0)), (size - 1, None));
    let others = mpi.group_range_excl(&world, &[(0, last, 1)])?;
    suite.equal("none", others.size(), 0);
    suite.equal("no such rank", class(mpi.group_incl(&world, &[size as i32])), Err(Class::Rank));
    suite.equal("a rank twice", class(mpi.group_incl(&world, &[0, 0])), Err(Class::Rank));
    suite.equal("no stride", class(mpi.group_range_incl(&world, &[(0, 1, 0)])), Err(Class::Arg));
    Ok(())
}

fn duplicates(suite: &Suite) -> Outcome {
    let (next, before) = suite.neighbours();
    let twin = suite.world.dup()?;
    suite.equal("congruent", suite.world.compare(&twin)?, Comparison::Congruent);
    suite.equal("identical", twin.compare(&twin)?, Comparison::Ident);
    let (a, b) = (suite.room::<i32>(1)?, suite.room::<i32>(1)?);
    // Worlds do not mix: the first message is not for the first receive.
    let mut sends =
        [twin.isend(&suite.numbers(&[2])?, next, 1)?, suite.world.isend(&suite.numbers(&[1])?, next, 1)?];
    suite.world.recv(&a, before, 1)?;
    twin.recv(&b, before, 1)?;
    suite.mpi.wait_all(&mut sends, &mut [])?;
    let values = (suite.values::<i32, 1>(&a)?[0], suite.values::<i32, 1>(&b)?[0]);
    suite.equal("worlds of their own", values, (1, 2));
    suite.equal("sum", sum(suite, &twin)?, suite.size * (suite.size - 1) / 2);
    twin.free()?;
    suite.equal("freed", class(twin.send(&a, next, 1)), Err(Class::Comm));
    suite.equal("freed twice", class(twin.free()), Err(Class::Comm));
    Ok(())
}

fn splits(suite: &Suite) -> Outcome {
    // Thirds, each in reverse.
    let part = suite.world.split(suite.rank % 3, -suite.rank)?;
    let Some(part) = part else { return Err(Error::Comm) };
    let of_color = |color: i32| (0..suite.size).filter(move |rank| rank % 3 == color);
    let color = suite.rank % 3;
    suite.equal("size of a part", part.size() as usize, of_color(color).count());
    let behind = of_color(color).filter(|&rank| rank > suite.rank).count();
    suite.equal("rank in it", part.rank() as usize, behind);
    suite.equal("sum of a part", sum(suite, &part)?, of_color(color).sum());
    let half = part.split(if part.rank() == 0 { 7 } else { UNDEFINED }, 0)?;
    suite.equal("undefined", half.is_some(), part.rank() == 0);
    if let Some(half) = half {
        suite.equal("alone", (half.size(), sum(suite, &half)?), (1, suite.rank));
        half.free()?;
    }
    part.free()?;
    let wrong = suite.mpi.itself().split(-1, 0);
    suite.equal("a negative color", class(wrong), Err(Class::Arg));
    Ok(())
}

fn created(suite: &Suite) -> Outcome {
    let world = suite.world.group()?;
    let last = suite.size - 1;
    let reverse = suite.mpi.group_range_incl(&world, &[(last, 0, -1)])?;
    let Some(mirror) = suite.world.create(&reverse)? else { return Err(Error::Comm) };
    suite.equal("mirrored", mirror.rank() as i32, last - suite.rank);
    suite.equal("sum of the mirror", sum(suite, &mirror)?, suite.size * last / 2);
    mirror.free()?;
    let even = suite.mpi.group_range_incl(&world, &[(0, last, 2)])?;
    let some = suite.world.create(&even)?;
    suite.equal("only those", some.is_some(), suite.rank % 2 == 0);
    if let Some(some) = some {
        let evens = (0..suite.size).step_by(2).sum();
        suite.equal("their sum", sum(suite, &some)?, evens);
        some.free()?;
    }
    // The others are not asked.
    if suite.rank % 2 == 0 {
        let some = suite.world.create_group(&even, 3)?;
        suite.equal("without the others", some.map(|some| some.size()), Some(even.size()));
        if let Some(some) = some {
            some.free()?;
        }
    }
    Ok(())
}

/// Communicators come and go: numbers and places are used again.
fn many(suite: &Suite) -> Outcome {
    for round in 0..3 {
        let mut comms = [suite.world; 4];
        for comm in &mut comms {
            *comm = suite.world.dup()?;
        }
        for comm in &comms {
            suite.equal("sum of many", sum(suite, comm)?, suite.size * (suite.size - 1) / 2);
        }
        for comm in comms.iter().rev() {
            comm.free()?;
        }
        suite.that("rounds", round < 3);
    }
    Ok(())
}

fn attributes(suite: &Suite) -> Outcome {
    let world = suite.world;
    suite.equal("tag bound", world.get_attr(Keyval::TAG_UB)?, Some(i32::MAX as usize));
    suite.equal("clocks", world.get_attr(Keyval::WTIME_IS_GLOBAL)?, Some(0));
    suite.equal("universe", world.get_attr(Keyval::UNIVERSE_SIZE)?, Some(suite.size as usize));
    let memory = suite.task.memory();
    let none = |_| Error::NoMem { what: "bytes of the task's memory", limit: memory.left() };
    let deleted: &'static AtomicUsize = memory.place(AtomicUsize::new(0)).map_err(none)?;
    let delete = memory.place(move |_: mpi::Communicator<Task>, _: Keyval, extra: usize, value: usize| {
        deleted.fetch_add(extra + value, Relaxed);
        if value == 99 { Err(7) } else { Ok(()) }
    });
    let delete = &*delete.map_err(none)?;
    let copy = memory
        .place(|_: mpi::Communicator<Task>, _: Keyval, extra: usize, value: usize| Ok(Some(value + extra)));
    let copy = &*copy.map_err(none)?;
    let mut keys = [
        suite.mpi.create_keyval(Copying::With(copy), Some(delete), 1000)?,
        suite.mpi.create_keyval(Copying::Never, None, 0)?,
        suite.mpi.create_keyval(Copying::Same, None, 0)?,
    ];
    suite.equal("nothing yet", world.get_attr(keys[0])?, None);
    for (key, value) in keys.into_iter().zip([1, 2, 3]) {
        world.set_attr(key, value)?;
        suite.equal("set", world.get_attr(key)?, Some(value));
    }
    let twin = world.dup()?;
    suite.equal("copied by a function", twin.get_attr(keys[0])?, Some(1001));
    suite.equal("never copied", twin.get_attr(keys[1])?, None);
    suite.equal("copied as it is", twin.get_attr(keys[2])?, Some(3));
    twin.free()?;
    suite.equal("deleted with the communicator", deleted.load(Relaxed), 2001);
    world.set_attr(keys[0], 99)?;
    suite.equal("deleted by a new value", deleted.load(Relaxed), 3002);
    suite.equal("a delete function's error", world.delete_attr(keys[0]), Err(Error::Callback(7)));
    suite.equal("it stays", world.get_attr(keys[0])?, Some(99));
    world.delete_attr(keys[1])?;
    world.delete_attr(keys[2])?;
    suite.equal("deleted twice", class(world.delete_attr(keys[1])), Err(Class::Keyval));
    for key in &mut keys[1..] {
        let old = *key;
        suite.mpi.free_keyval(key)?;
        suite.equal("invalid", *key, Keyval::INVALID);
        suite.equal("freed key", class(world.set_attr(old, 1)), Err(Class::Keyval));
    }
    Ok(())
}
