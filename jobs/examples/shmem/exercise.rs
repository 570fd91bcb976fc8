//! Everything that the module can do, with checks; the module's own tests run it on the host.

use pami::Node;
use shmem::{Compare, Error, Integer, Number, Shmem, Signal, Sym, Team};

/// Checks that were made, and those that failed.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub checks: u64,
    pub wrong: u64,
}

impl Tally {
    fn check(&mut self, holds: bool) {
        self.checks += 1;
        self.wrong += u64::from(!holds);
    }

    pub fn and(self, other: Self) -> Self {
        Self { checks: self.checks + other.checks, wrong: self.wrong + other.wrong }
    }
}

/// Elements of the longest objects: many packets.
const LONG: usize = 1000;
/// More than there are places for operations.
const MANY: usize = 80;
const ROUNDS: u64 = 5;

fn value(pe: u32, at: usize) -> u64 {
    (u64::from(pe) + 1) << 32 | at as u64
}

fn at<T>(object: Sym<T>, index: usize) -> Result<Sym<T>, Error> {
    object.at(index).ok_or(Error::Short { has: object.len(), wanted: index + 1 })
}

/// What element `index` of this PE is.
fn own<N: Node, T: Number + Default>(shmem: &Shmem<N>, object: Sym<T>, index: usize) -> Result<T, Error> {
    let mut one = [T::default()];
    shmem.read(at(object, index)?, &mut one)?;
    Ok(one[0])
}

fn holds<N: Node>(shmem: &Shmem<N>, object: Sym<u64>, what: impl Fn(usize) -> u64) -> Result<bool, Error> {
    for index in 0..object.len() {
        if own(shmem, object, index)? != what(index) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One PE's part, on context 0. Collective.
pub fn exercise<N: Node>(shmem: &Shmem<N>) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    heap(shmem, &mut tally)?;
    transfers(shmem, &mut tally)?;
    signals(shmem, &mut tally)?;
    atomics::<N, i32>(shmem, &mut tally)?;
    atomics::<N, u32>(shmem, &mut tally)?;
    atomics::<N, i64>(shmem, &mut tally)?;
    atomics::<N, u64>(shmem, &mut tally)?;
    waits(shmem, &mut tally)?;
    locks(shmem, &mut tally)?;
    let world = shmem.team_world();
    collectives(shmem, &world, &mut tally)?;
    teams(shmem, &world, &mut tally)?;
    refusals(shmem, &world, &mut tally)?;
    Ok(tally)
}

/// What each of a PE's threads does on a context of its own: it puts to, gets from and counts at every PE.
pub fn on_context<N: Node>(
    shmem: &Shmem<N>,
    mine: Sym<u64>,
    room: Sym<u64>,
    counters: Sym<u64>,
) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    for pe in 0..shmem.n_pes() {
        shmem.p(mine, value(pe, shmem.context().into()), pe)?;
        shmem.atomic_inc(counters, pe)?;
        tally.check(shmem.g(mine, pe)? >> 32 == u64::from(pe) + 1);
        shmem.get_nbi(room, mine, pe)?;
        shmem.quiet()?;
        tally.check(own(shmem, room, 0)? == value(pe, shmem.context().into()));
    }
    Ok(tally)
}

fn heap<N: Node>(shmem: &Shmem<N>, tally: &mut Tally) -> Result<(), Error> {
    let first = shmem.malloc::<u64>(10)?;
    let zeros = shmem.calloc::<u64>(33)?;
    tally.check(holds(shmem, zeros, |_| 0)?);
    let aligned = shmem.align::<u8>(1024, 3)?;
    tally.check(aligned.offset() % 1024 == 0);
    let me = shmem.my_pe();
    for index in 0..first.len() {
        shmem.write(at(first, index)?, &[value(me, index)])?;
    }
    let longer = shmem.realloc(first, 200)?;
    tally.check(longer.len() == 200 && longer.offset() != first.offset());
    tally.check(holds(shmem, longer.part(0..10).unwrap_or(longer), |index| value(me, index))?);
    // All found the same place.
    let next = (me + 1) % shmem.n_pes();
    tally.check(shmem.g(at(longer, 9)?, next)? == value(next, 9));
    shmem.free(aligned)?;
    shmem.free(zeros)?;
    tally.check(shmem.free(zeros) == Err(Error::NotAllocated { offset: zeros.offset() }));
    shmem.free(longer)
}

fn transfers<N: Node>(shmem: &Shmem<N>, tally: &mut Tally) -> Result<(), Error> {
    let (me, pes) = (shmem.my_pe(), shmem.n_pes());
    let (next, previous) = ((me + 1) % pes, (me + pes - 1) % pes);
    let (source, dest) = (shmem.malloc::<u64>(LONG)?, shmem.calloc::<u64>(LONG)?);
    for index in 0..LONG {
        shmem.write(at(source, index)?, &[value(me, index)])?;
    }
    shmem.barrier_all()?;
    shmem.put(dest, source, next)?;
    shmem.barrier_all()?;
    tally.check(holds(shmem, dest, |index| value(previous, index))?);
    shmem.barrier_all()?;
    shmem.get(dest, source, next)?;
    tally.check(holds(shmem, dest, |index| value(next, index))?);
    shmem.barrier_all()?;
    // One behind the other, and all of them are there: the last one counts.
    for round in 0..MANY {
        shmem.p(at(dest, 3)?, value(me, round), next)?;
    }
    shmem.fence()?;
    tally.check(shmem.g(at(dest, 3)?, next)? == value(me, MANY - 1));
    shmem.barrier_all()?;
    tally.check(own(shmem, dest, 3)? == value(previous, MANY - 1));
    let (zeros, strided) = (shmem.calloc::<u64>(LONG)?, shmem.calloc::<u64>(LONG)?);
    shmem.iput(zeros, source, 3, 2, LONG / 3, next)?;
    shmem.iget(strided, source, 2, 3, LONG / 3, next)?;
    shmem.barrier_all()?;
    let every = |step, from: u32, other: usize| {
        move |index: usize| {
            if index.is_multiple_of(step) && index / step < LONG / 3 {
                value(from, index / step * other)
            } else {
                0
            }
        }
    };
    tally.check(holds(shmem, zeros, every(3, previous, 2))?);
    tally.check(holds(shmem, strided, every(2, next, 3))?);
    shmem.barrier_all()?;
    for index in 0..MANY {
        shmem.put_nbi(at(zeros, index)?, at(source, MANY - index)?, next)?;
        shmem.get_nbi(at(strided, index)?, at(source, LONG - 1 - index)?, next)?;
    }
    shmem.quiet()?;
    tally.check(holds(shmem, strided.part(0..MANY).unwrap_or(strided), |index| {
        value(next, LONG - 1 - index)
    })?);
    shmem.barrier_all()?;
    tally.check(holds(shmem, zeros.part(0..MANY).unwrap_or(zeros), |index| value(previous, MANY - index))?);
    for object in [strided, zeros, dest, source] {
        shmem.free(object)?;
    }
    Ok(())
}

fn signals<N: Node>(shmem: &Shmem<N>, tally: &mut Tally) -> Result<(), Error> {
    let (me, pes) = (shmem.my_pe(), shmem.n_pes());
    let (next, previous) = ((me + 1) % pes, (me + pes - 1) % pes);
    let (source, dest) = (shmem.malloc::<u64>(LONG)?, shmem.calloc::<u64>(LONG)?);
    let signal = shmem.calloc::<u64>(2)?;
    let seen = at(signal, 1)?;
    for round in 1..=ROUNDS {
        for index in 0..LONG {
            shmem.write(at(source, index)?, &[value(me, index) * round])?;
        }
        if round % 2 == 0 {
            shmem.put_signal(dest, source, signal, Signal::Add(1), next)?;
        } else {
            shmem.put_signal_nbi(dest, source, signal, Signal::Set(round), next)?;
        }
        tally.check(shmem.signal_wait_until(signal, Compare::Ge, round)? == round);
        tally.check(shmem.signal_fetch(signal)? == round);
        tally.check(holds(shmem, dest, |index| value(previous, index) * round)?);
        // Only then may the next come.
        shmem.atomic_set(seen, round, previous)?;
        shmem.wait_until(seen, Compare::Eq, round)?;
        shmem.quiet()?;
    }
    shmem.free(signal)?;
    shmem.free(dest)?;
    shmem.free(source)
}

fn atomics<N: Node, T: Integer + From<u8> + Default>(
    shmem: &Shmem<N>,
    tally: &mut Tally,
) -> Result<(), Error> {
    let v = |number: u8| T::from(number);
    let next = (shmem.my_pe() + 1) % shmem.n_pes();
    let (words, fetched) = (shmem.calloc::<T>(3)?, shmem.calloc::<T>(8)?);
    let (word, counter) = (at(words, 0)?, at(words, 1)?);
    shmem.atomic_set(word, v(12), next)?;
    tally.check(shmem.atomic_fetch(word, next)? == v(12));
    shmem.atomic_add(word, v(4), next)?;
    shmem.atomic_inc(word, next)?;
    tally.check(shmem.atomic_fetch_add(word, v(3), next)? == v(17));
    tally.check(shmem.atomic_fetch_inc(word, next)? == v(20));
    shmem.atomic_and(word, v(0b10110), next)?;
    tally.check(shmem.atomic_fetch_and(word, v(0b00111), next)? == v(0b10100));
    shmem.atomic_or(word, v(0b01000), next)?;
    tally.check(shmem.atomic_fetch_or(word, v(1), next)? == v(0b01100));
    shmem.atomic_xor(word, v(0b11), next)?;
    tally.check(shmem.atomic_fetch_xor(word, v(0b110), next)? == v(0b01110));
    tally.check(shmem.atomic_swap(word, v(77), next)? == v(0b01000));
    tally.check(shmem.atomic_compare_swap(word, v(1), v(2), next)? == v(77));
    tally.check(shmem.atomic_compare_swap(word, v(77), v(5), next)? == v(77));
    shmem.atomic_fetch_nbi(at(fetched, 0)?, word, next)?;
    shmem.atomic_fetch_add_nbi(at(fetched, 1)?, word, v(2), next)?;
    shmem.atomic_fetch_inc_nbi(at(fetched, 2)?, word, next)?;
    shmem.atomic_fetch_and_nbi(at(fetched, 3)?, word, v(12), next)?;
    shmem.atomic_fetch_or_nbi(at(fetched, 4)?, word, v(3), next)?;
    shmem.atomic_fetch_xor_nbi(at(fetched, 5)?, word, v(15), next)?;
    shmem.atomic_swap_nbi(at(fetched, 6)?, word, v(9), next)?;
    shmem.atomic_compare_swap_nbi(at(fetched, 7)?, word, v(9), v(10), next)?;
    shmem.quiet()?;
    for (index, expected) in [5, 5, 7, 8, 8 & 12, 8 & 12 | 3, (8 & 12 | 3) ^ 15, 9].into_iter().enumerate() {
        tally.check(own(shmem, fetched, index)? == v(expected));
    }
    tally.check(shmem.g(word, next)? == v(10));
    // All count at one PE: the numbers that they get are all different, so their sum is known.
    let sum = at(words, 2)?;
    for _ in 0..ROUNDS {
        let mine = shmem.atomic_fetch_inc(counter, 0)?;
        shmem.atomic_add(sum, mine, 0)?;
    }
    shmem.barrier_all()?;
    let count = ROUNDS * u64::from(shmem.n_pes());
    tally.check(shmem.atomic_fetch(counter, 0)?.to_bits() == count);
    tally.check(shmem.atomic_fetch(sum, 0)?.to_bits() == count * (count - 1) / 2);
    shmem.free(fetched)?;
    shmem.free(words)
}

fn waits<N: Node>(shmem: &Shmem<N>, tally: &mut Tally) -> Result<(), Error> {
    let pes = shmem.n_pes() as usize;
    let flags = shmem.calloc::<i32>(pes)?;
    let floats = shmem.calloc::<f64>(1)?;
    tally.check(shmem.test_any(flags, 0, Compare::Ne, 0)?.is_none());
    shmem.barrier_all()?;
    for pe in 0..shmem.n_pes() {
        shmem.atomic_set(at(flags, shmem.my_pe() as usize)?, -1 - shmem.my_pe() as i32, pe)?;
    }
    let any = shmem.wait_until_any(flags, 1, Compare::Lt, 0)?;
    tally.check(own(shmem, flags, any)? == -1 - any as i32);
    let mut numbers = [0; 64];
    tally.check(shmem.wait_until_some(flags, &mut numbers, Compare::Le, -1)? > 0);
    shmem.wait_until_all(flags, Compare::Ne, 0)?;
    let room = numbers.len().min(pes);
    tally.check(shmem.test_some(flags, &mut numbers, Compare::Lt, 0)? == room);
    tally.check(numbers.iter().take(room).enumerate().all(|(index, &number)| index == number));
    tally.check(shmem.test_all(flags, Compare::Ge, -(pes as i32))? && shmem.test(flags, Compare::Eq, -1)?);
    let next = (shmem.my_pe() + 1) % shmem.n_pes();
    tally.check(shmem.atomic_swap(floats, 0.75, next)? == 0.0);
    shmem.wait_until(floats, Compare::Gt, 0.5)?;
    shmem.free(floats)?;
    shmem.free(flags)
}

fn locks<N: Node>(shmem: &Shmem<N>, tally: &mut Tally) -> Result<(), Error> {
    let (lock, count) = (shmem.calloc::<u64>(1)?, shmem.calloc::<u64>(1)?);
    tally.check(shmem.clear_lock(lock) == Err(Error::NotHeld));
    shmem.barrier_all()?;
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            shmem.set_lock(lock)?;
        } else {
            while !shmem.test_lock(lock)? {
                shmem.progress();
            }
        }
        tally.check(!shmem.test_lock(lock)?);
        let before = shmem.g(count, 0)?;
        shmem.p(count, before + 1, 0)?;
        shmem.clear_lock(lock)?;
    }
    shmem.barrier_all()?;
    tally.check(shmem.g(count, 0)? == ROUNDS * u64::from(shmem.n_pes()));
    shmem.free(count)?;
    shmem.free(lock)
}

fn teams<N: Node>(shmem: &Shmem<N>, world: &Team, tally: &mut Tally) -> Result<(), Error> {
    let (me, pes) = (shmem.my_pe(), shmem.n_pes());
    let even = shmem.team_split_strided(world, 0, 2, pes.div_ceil(2))?;
    tally.check(even.is_some() == (me % 2 == 0));
    // Of those of a team of a team only every fourth of all is left.
    if let Some(even) = even {
        tally.check((even.my_pe(), even.n_pes()) == (me / 2, pes.div_ceil(2)));
        tally.check(even.translate_pe(even.my_pe(), world) == Some(me));
        let fourth = shmem.team_split_strided(&even, 0, 2, even.n_pes().div_ceil(2))?;
        tally.check(fourth.is_some() == (me % 4 == 0));
        if let Some(fourth) = fourth {
            tally.check(world.translate_pe(me, &fourth) == Some(me / 4));
            shmem.sync(&fourth)?;
            shmem.team_destroy(fourth)?;
        }
    }
    // Objects are all PEs': those that are in no team have as many of the calls.
    let rest = if pes > 1 { shmem.team_split_strided(world, 1, 2, pes / 2)? } else { None };
    tally.check(rest.is_some() == (me % 2 == 1));
    let room = shmem.calloc::<u64>(4 * pes as usize)?;
    if let Some(team) = even.or(rest) {
        let out = room.part(0..1).unwrap_or(room);
        let all = room.part(1..1 + team.n_pes() as usize).unwrap_or(room);
        shmem.write(out, &[value(me, 1)])?;
        shmem.fcollect(&team, all, out)?;
        let parity = me % 2;
        tally.check(holds(shmem, all, |index| value(2 * index as u32 + parity, 1))?);
        shmem.sum_reduce(&team, out, out)?;
        let sum = (0..pes).filter(|pe| pe % 2 == parity).map(|pe| value(pe, 1)).sum::<u64>();
        tally.check(own(shmem, out, 0)? == sum);
        shmem.team_destroy(team)?;
    }
    shmem.free(room)
}

fn collectives<N: Node>(shmem: &Shmem<N>, team: &Team, tally: &mut Tally) -> Result<(), Error> {
    let (me, pes) = (team.my_pe(), team.n_pes());
    let each = 5;
    let (source, dest) = (shmem.calloc::<u64>(LONG)?, shmem.calloc::<u64>(LONG)?);
    for root in [0, pes - 1] {
        for index in 0..LONG {
            shmem.write(at(source, index)?, &[value(me, index + root as usize)])?;
        }
        shmem.broadcast(team, dest, source, root)?;
        tally.check(holds(shmem, dest, |index| value(root, index + root as usize))?);
    }
    let (some, all) =
        (shmem.malloc::<u64>(each * pes as usize)?, shmem.malloc::<u64>(each * pes as usize * pes as usize)?);
    for index in 0..some.len() {
        shmem.write(at(some, index)?, &[value(me, index)])?;
    }
    let few = some.part(0..each).unwrap_or(some);
    let every = all.part(0..each * pes as usize).unwrap_or(all);
    shmem.fcollect(team, every, few)?;
    tally.check(holds(shmem, every, |index| value((index / each) as u32, index % each))?);
    // PE i brings i + 1 elements.
    shmem.collect_all(team, all, some.part(0..me as usize + 1).unwrap_or(some))?;
    let mut index = 0;
    for pe in 0..pes {
        for element in 0..=pe as usize {
            tally.check(own(shmem, all, index)? == value(pe, element));
            index += 1;
        }
    }
    shmem.alltoall(team, every, some)?;
    tally
        .check(holds(shmem, every, |index| value((index / each) as u32, me as usize * each + index % each))?);
    let operand = |pe: u32, index: usize| value(pe, index) ^ (u64::from(pe) << (index % 16));
    let fill = |object: Sym<u64>| -> Result<(), Error> {
        (0..LONG).try_for_each(|index| shmem.write(at(object, index)?, &[operand(me, index)]))
    };
    let fold = |from: fn(u64, u64) -> u64| {
        move |index: usize| (1..pes).fold(operand(0, index), |sum, pe| from(sum, operand(pe, index)))
    };
    fill(source)?;
    shmem.and_reduce(team, dest, source)?;
    tally.check(holds(shmem, dest, fold(|a, b| a & b))?);
    shmem.or_reduce(team, dest, source)?;
    tally.check(holds(shmem, dest, fold(|a, b| a | b))?);
    shmem.xor_reduce(team, dest, source)?;
    tally.check(holds(shmem, dest, fold(|a, b| a ^ b))?);
    shmem.max_reduce(team, dest, source)?;
    tally.check(holds(shmem, dest, fold(u64::max))?);
    shmem.min_reduce(team, dest, source)?;
    tally.check(holds(shmem, dest, fold(u64::min))?);
    shmem.prod_reduce(team, dest, source)?;
    tally.check(holds(shmem, dest, fold(u64::wrapping_mul))?);
    shmem.sum_reduce(team, source, source)?;
    tally.check(holds(shmem, source, fold(u64::wrapping_add))?);
    for object in [all, some, dest, source] {
        shmem.free(object)?;
    }
    Ok(())
}

fn refusals<N: Node>(shmem: &Shmem<N>, world: &Team, tally: &mut Tally) -> Result<(), Error> {
    let pes = shmem.n_pes();
    let (one, two) = (shmem.calloc::<u64>(1)?, shmem.calloc::<u64>(2)?);
    let floats = shmem.calloc::<f64>(1)?;
    let nobody = Error::Pe { pe: pes, pes };
    tally.check(shmem.p(one, 1, pes) == Err(nobody) && shmem.get(one, one, pes) == Err(nobody));
    tally.check(shmem.put(one, two, 0) == Err(Error::Short { has: 1, wanted: 2 }));
    tally.check(shmem.iput(two, one, 0, 1, 1, 0) == Err(Error::Stride));
    tally.check(matches!(shmem.and_reduce(world, floats, floats), Err(Error::Reduce(_))));
    tally.check(shmem.broadcast(world, one, one, pes) == Err(nobody));
    tally.check(matches!(shmem.malloc::<u64>(1 << 28), Err(Error::Full { .. })));
    tally.check(matches!(shmem.malloc::<u64>(usize::MAX), Err(Error::Full { .. })));
    tally.check(shmem.team_split_strided(world, 1, 1, pes) == Err(Error::Pe { pe: pes, pes }));
    if pes > 1 {
        let unlike = shmem.malloc::<u64>(1 + shmem.my_pe() as usize);
        tally.check(unlike == Err(Error::Asymmetric("malloc")));
    }
    shmem.free(floats)?;
    shmem.free(two)?;
    shmem.free(one)
}
