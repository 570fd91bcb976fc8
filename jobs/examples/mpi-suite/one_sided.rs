//! One-sided communication: windows in all kinds of epochs, against plain models.

use super::check::{Library, Outcome, Suite};
use kernel::{Shared, Task};
use mpi::{Assert, Class, Data, Datatype, Error, LockType, Native, Op, PROC_NULL, Request, Target, Window};

type Win = Window<Task>;

const NONE: Assert = Assert::empty();
/// Numbers of a window.
const NUMBERS: usize = 600;
/// Updates of a counter by each task.
const ROUNDS: u64 = 4;

/// What all parts use.
struct Parts<'a> {
    suite: &'a Suite,
    mpi: Library,
    memory: Shared,
    /// Of this task, for what it sends and gets.
    own: Shared,
    next: i32,
}

pub fn run(suite: &Suite) -> Outcome {
    let bytes = NUMBERS * size_of::<u64>();
    let (memory, own) = (suite.memory(bytes)?, suite.memory(3 * bytes)?);
    let parts = Parts { suite, mpi: suite.mpi, memory, own, next: suite.neighbours().0 };
    parts.fences()?;
    parts.types()?;
    parts.groups()?;
    parts.locks()?;
    parts.operators()?;
    parts.sums()?;
    parts.counters()?;
    parts.order()?;
    parts.requests()?;
    parts.refusals()
}

/// One number in a window.
fn one<T: Native>(rank: i32, disp: usize) -> Target {
    Target::new(rank, disp, 1, Datatype::of::<T>())
}

impl Parts<'_> {
    /// A window of zeros.
    fn window<T: Native>(&self) -> Result<Win, Error> {
        for at in 0..self.memory.len() / 64 {
            self.memory.write(64 * at, &[0; 64]).map_err(|_| Error::Buffer)?;
        }
        self.suite.world.win_create(&self.memory, 0..self.memory.len(), size_of::<T>() as u32)
    }

    /// Place `index` of this task's own for a number.
    fn own<T: Native>(&self, index: usize, value: T) -> Result<Data, Error> {
        let data = Data::of::<T>(&self.own, 16 * index, 1)?;
        data.write(&[value])?;
        Ok(data)
    }

    /// Numbers of this task's own, in the first or second half of that.
    fn list<T: Native + Default>(
        &self,
        half: usize,
        count: usize,
        value: impl Fn(usize) -> T,
    ) -> Result<Data, Error> {
        let start = NUMBERS * size_of::<u64>() * (1 + half);
        for at in 0..count {
            Data::of::<T>(&self.own, start + at * size_of::<T>(), 1)?.write(&[value(at)])?;
        }
        Ok(Data::of::<T>(&self.own, start, count)?)
    }

    /// Number `at` of the data.
    fn get<T: Native + Default>(&self, data: &Data, at: usize) -> Result<T, Error> {
        let mut value = [T::default()];
        data.part(at, 1)?.read(&mut value)?;
        Ok(value[0])
    }

    /// Whether all numbers of this task's window are as they should be.
    fn holds<T: Native + Default + PartialEq>(
        &self,
        count: usize,
        value: impl Fn(usize) -> T,
    ) -> Result<bool, Error> {
        let data = Data::all::<T>(&self.memory);
        for at in 0..count {
            if self.get::<T>(&data, at)? != value(at) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fences(&self) -> Outcome {
        let suite = self.suite;
        let (rank, size) = (suite.rank, suite.size);
        let win = self.window::<i32>()?;
        suite.equal("size", win.size(), self.memory.len());
        suite.equal("displacement unit", win.disp_unit(), 4);
        suite.equal("base", win.base()?.1, 0);
        suite.equal("group", win.group()?.size(), size as u32);
        win.fence(Assert::NOPRECEDE)?;
        for round in 0..2 {
            let mine = self.own(0, 100 * rank + round)?;
            for to in 0..size {
                win.put(&mine, &one::<i32>(to, rank as usize))?;
            }
            win.put(&mine, &one::<i32>(PROC_NULL, 0))?;
            win.fence(NONE)?;
            let held = self.holds(size as usize, |from| 100 * from as i32 + round)?;
            suite.that("what all have put", held);
            let got = self.list(0, size as usize, |_| -1)?;
            win.get(&got, &Target::like(self.next, 0, &got))?;
            win.fence(NONE)?;
            suite.equal("what the neighbour has", self.get(&got, 0)?, round);
            suite.equal("to the end", self.get(&got, size as usize - 1)?, 100 * (size - 1) + round);
        }
        let many = self.list(0, NUMBERS, |at| at as i32 ^ rank)?;
        win.put(&many, &Target::like(self.next, 0, &many))?;
        win.fence(Assert::NOSUCCEED)?;
        let before = suite.neighbours().1;
        suite.that("several packets", self.holds(NUMBERS, |at| at as i32 ^ before)?);
        win.free()
    }

    fn types(&self) -> Outcome {
        let (suite, types, int) = (self.suite, self.mpi.types(), Datatype::of::<i32>());
        let gaps = types.vector(6, 1, 3, &int)?;
        let odd = types.indexed(&[1, 3, 2], &[9, 0, 5], &int)?;
        let six = types.contiguous(6, &int)?;
        [&gaps, &odd, &six].into_iter().for_each(Datatype::commit);
        for (here, there) in [(&six, &gaps), (&gaps, &six), (&gaps, &gaps), (&odd, &gaps), (&six, &odd)] {
            let win = self.window::<i32>()?;
            let source = self.list(0, 64, |at| at as i32 + 1)?;
            let origin = Data::new(source.memory().clone(), source.offset(), 2, here.clone())?;
            let back = self.list(1, 64, |_| 0i32)?;
            let into = Data::new(back.memory().clone(), back.offset(), 2, here.clone())?;
            let target = Target::new(self.next, 2, 2, there.clone());
            win.fence(NONE)?;
            win.put(&origin, &target)?;
            win.fence(NONE)?;
            let local = Data::new(self.memory.clone(), 8, 2, there.clone())?;
            let (mut sent, mut held, mut got) = ([0; 48], [0; 48], [0; 48]);
            origin.pack_bytes(0, &mut sent)?;
            local.pack_bytes(0, &mut held)?;
            suite.that("put by types", held == sent);
            win.get(&into, &target)?;
            win.fence(Assert::NOSUCCEED)?;
            into.pack_bytes(0, &mut got)?;
            suite.that("got by types", got == sent);
            win.free()?;
        }
        Ok(())
    }

    fn groups(&self) -> Outcome {
        let (suite, mpi) = (self.suite, self.mpi);
        let world = suite.world.group()?;
        let (next, before) = suite.neighbours();
        let to = mpi.group_incl(&world, &[next])?;
        let from = mpi.group_incl(&world, &[before])?;
        let win = self.window::<i32>()?;
        for round in 1..4 {
            win.post(&from, NONE)?;
            win.start(&to, NONE)?;
            let value = self.own(0, round * 1000 + suite.rank)?;
            win.put(&value, &one::<i32>(next, 3))?;
            win.accumulate(&self.own(1, round)?, &one::<i32>(next, 4), Op::Sum)?;
            win.complete()?;
            if round == 2 {
                while !win.test()? {}
            } else {
                win.wait()?;
            }
            let wanted = [0, 0, 0, round * 1000 + before, round * (round + 1) / 2];
            suite.that("post to wait", self.holds(5, |at| wanted[at])?);
        }
        suite.equal("an empty group", win.start(&mpi::Group::EMPTY, NONE), Ok(()));
        win.complete()?;
        win.free()
    }

    fn locks(&self) -> Outcome {
        let suite = self.suite;
        let win = suite.world.win_allocate(64, 8)?;
        let (memory, base) = win.base()?;
        let target = suite.size / 2;
        for _ in 0..2 {
            win.lock(LockType::Exclusive, target, NONE)?;
            let count = self.own(0, 0u64)?;
            win.get(&count, &one::<u64>(target, 1))?;
            win.flush(target)?;
            // Only who is alone loses nothing.
            let more = self.own(1, self.get::<u64>(&count, 0)? + 1)?;
            win.put(&more, &one::<u64>(target, 1))?;
            win.unlock(target)?;
        }
        suite.world.barrier()?;
        win.lock(LockType::Shared, target, NONE)?;
        // All have it at once.
        suite.world.barrier()?;
        let count = self.own(0, 0u64)?;
        win.get(&count, &one::<u64>(target, 1))?;
        win.unlock(target)?;
        suite.equal("counted under exclusive locks", self.get::<u64>(&count, 0)?, 2 * suite.size as u64);
        suite.world.barrier()?;
        win.lock_all(NONE)?;
        let value = self.own(0, suite.rank as u64 + 7)?;
        win.put(&value, &one::<u64>(self.next, 2))?;
        win.flush_local(self.next)?;
        win.flush_all()?;
        win.unlock_all()?;
        suite.world.barrier()?;
        win.sync()?;
        let here = Data::of::<u64>(&memory, base + 16, 1)?;
        suite.equal("under lock_all", self.get::<u64>(&here, 0)?, suite.neighbours().1 as u64 + 7);
        win.free()
    }

    fn operators(&self) -> Outcome {
        let suite = self.suite;
        let win = self.window::<i32>()?;
        let start = |at: usize| at as i32 * 5 - 40;
        let operand = |at: usize| at as i32 % 7 - 3;
        type Case = (&'static str, Op, fn(i32, i32) -> i32);
        let cases: [Case; 12] = [
            ("max", Op::Max, i32::max),
            ("min", Op::Min, i32::min),
            ("sum", Op::Sum, |a, b| a + b),
            ("prod", Op::Prod, |a, b| a * b),
            ("land", Op::Land, |a, b| (a != 0 && b != 0).into()),
            ("lor", Op::Lor, |a, b| (a != 0 || b != 0).into()),
            ("lxor", Op::Lxor, |a, b| ((a != 0) != (b != 0)).into()),
            ("band", Op::Band, |a, b| a & b),
            ("bor", Op::Bor, |a, b| a | b),
            ("bxor", Op::Bxor, |a, b| a ^ b),
            ("replace", Op::Replace, |_, b| b),
            ("no_op", Op::NoOp, |a, _| a),
        ];
        for (name, op, plain) in cases {
            let here = Data::of::<i32>(&self.memory, 0, 100)?;
            for at in 0..100 {
                here.part(at, 1)?.write(&[start(at)])?;
            }
            let (origin, result) = (self.list(0, 100, operand)?, self.list(1, 100, |_| 0)?);
            win.fence(NONE)?;
            if !matches!(op, Op::NoOp) {
                win.accumulate(&origin, &Target::like(self.next, 0, &origin), op)?;
            }
            win.fence(NONE)?;
            let applied = |at| if matches!(op, Op::NoOp) { start(at) } else { plain(start(at), operand(at)) };
            suite.that(name, self.holds(100, applied)?);
            // Nobody goes on before all have looked.
            win.fence(NONE)?;
            win.get_accumulate(Some(&origin), &result, &Target::like(self.next, 0, &origin), op)?;
            win.fence(Assert::NOSUCCEED)?;
            let mut same = true;
            for at in 0..100 {
                same &= self.get::<i32>(&result, at)? == applied(at);
            }
            suite.that("what was there before", same);
            suite.that(name, self.holds(100, |at| plain(applied(at), operand(at)))?);
        }
        win.free()
    }

    fn sums(&self) -> Outcome {
        let suite = self.suite;
        let size = suite.size as usize;
        let win = self.window::<f64>()?;
        win.fence(NONE)?;
        // Halves are added exactly, in whatever order they come.
        let values = self.list(0, NUMBERS, |at| at as f64 + 0.5)?;
        for to in 0..suite.size {
            win.accumulate(&values, &Target::like(to, 0, &values), Op::Sum)?;
        }
        win.fence(Assert::NOSUCCEED)?;
        suite.that("sums of all", self.holds(NUMBERS, |at| size as f64 * (at as f64 + 0.5))?);
        win.free()
    }

    /// Every task adds to counters of the first, in every way there is.
    fn counters(&self) -> Outcome {
        let suite = self.suite;
        let size = suite.size as u64;
        let win = self.window::<u64>()?;
        let (one_more, old) = (self.own(0, 1u64)?, self.own(1, 0u64)?);
        win.lock_all(NONE)?;
        let mut rises = true;
        let mut last = None;
        for _ in 0..ROUNDS {
            win.fetch_and_op(Some(&one_more), &old, 0, 0, Op::Sum)?;
            win.flush(0)?;
            let now = self.get::<u64>(&old, 0)?;
            rises &= last.is_none_or(|last| now > last);
            last = Some(now);
            win.accumulate(&one_more, &one::<u64>(0, 0), Op::Sum)?;
            let (ones, olds) = (self.list(0, 2, |_| 1u64)?, self.list(1, 2, |_| 0u64)?);
            win.get_accumulate(Some(&ones), &olds, &Target::like(0, 0, &ones), Op::Sum)?;
            win.flush(0)?;
        }
        suite.that("a counter only rises", rises);
        // Each takes the value that its predecessor left, once it is there.
        let (mine, wanted) = (self.own(2, suite.rank as u64 + 1)?, self.own(3, suite.rank as u64)?);
        loop {
            win.compare_and_swap(&mine, &wanted, &old, 0, 5)?;
            win.flush(0)?;
            if self.get::<u64>(&old, 0)? == suite.rank as u64 {
                break;
            }
        }
        win.unlock_all()?;
        suite.world.barrier()?;
        if suite.rank == 0 {
            let wanted = [3 * ROUNDS * size, ROUNDS * size, 0, 0, 0, size];
            suite.that("all updates are there", self.holds(6, |at| wanted[at])?);
        }
        win.free()
    }

    fn order(&self) -> Outcome {
        let (suite, next) = (self.suite, self.next);
        let win = self.window::<i32>()?;
        let there = Target::new(next, 0, 50, Datatype::of::<i32>());
        let (old, word) = (self.own(0, 0)?, self.own(1, 100)?);
        let (result, before) = (self.list(1, 50, |_| 0i32)?, suite.neighbours().1);
        win.fence(NONE)?;
        for round in 0..3 {
            let five = self.list(0, 50, |_| 5)?;
            let base = self.own(2, round)?;
            for at in [0, 7] {
                win.accumulate(&base, &one::<i32>(next, at), Op::Replace)?;
            }
            win.accumulate(&five, &there, Op::Sum)?;
            win.fetch_and_op(Some(&word), &old, next, 7, Op::Replace)?;
            win.get_accumulate(Some(&five), &result, &there, Op::Prod)?;
            win.fence(NONE)?;
            suite.equal("in order: a word", self.get(&old, 0)?, round + 5);
            suite.equal("in order: many", self.get(&result, 0)?, round + 5);
            suite.equal("in order: that word", self.get(&result, 7)?, 100);
            let first = self.holds(1, |_| 5 * (round + 5))?;
            suite.that("in order: the end", first);
            win.fence(NONE)?;
            // A put behind an epoch comes behind its accumulates.
            win.put(&self.own(3, before + 9)?, &one::<i32>(next, 9))?;
            win.fence(NONE)?;
            let ninth = Data::of::<i32>(&self.memory, 36, 1)?;
            let from = (before + suite.size - 1) % suite.size;
            suite.equal("put behind accumulate", self.get(&ninth, 0)?, from + 9);
            win.fence(NONE)?;
        }
        win.fence(Assert::NOSUCCEED)?;
        win.free()
    }

    fn requests(&self) -> Outcome {
        let (suite, mpi, next) = (self.suite, self.mpi, self.next);
        let win = self.window::<i32>()?;
        let (values, got) = (self.list(0, 40, |at| at as i32)?, self.list(1, 40, |_| 0)?);
        let there = Target::like(next, 0, &values);
        win.lock_all(NONE)?;
        let mut put = win.rput(&values, &there)?;
        mpi.wait(&mut put)?;
        win.flush(next)?;
        let mut add = win.raccumulate(&values, &there, Op::Sum)?;
        mpi.wait(&mut add)?;
        win.flush(next)?;
        let mut requests =
            [win.rget(&got, &there)?, Request::NULL, win.rput(&got, &Target::like(PROC_NULL, 0, &got))?];
        mpi.wait_all(&mut requests, &mut [])?;
        suite.equal("what rget got", self.get(&got, 39)?, 78);
        let mut fetch = win.rget_accumulate(None, &got, &there, Op::NoOp)?;
        mpi.wait(&mut fetch)?;
        suite.equal("what rget_accumulate got", self.get(&got, 20)?, 40);
        win.unlock_all()?;
        win.free()
    }

    fn refusals(&self) -> Outcome {
        let (suite, next) = (self.suite, self.next);
        let win = self.window::<i32>()?;
        let value = self.own(0, 1)?;
        let class = |outcome: Result<(), Error>| outcome.map_err(|error| error.class());
        suite.equal("no epoch", class(win.put(&value, &one::<i32>(next, 0))), Err(Class::RmaSync));
        suite.equal("not locked", class(win.unlock(next)), Err(Class::RmaSync));
        suite.equal("not started", class(win.complete()), Err(Class::RmaSync));
        suite.equal("flush of nothing", class(win.flush(next)), Err(Class::RmaSync));
        win.fence(NONE)?;
        suite.equal("too far", class(win.put(&value, &one::<i32>(next, 2 * NUMBERS))), Err(Class::RmaRange));
        suite.equal("nobody", class(win.put(&value, &one::<i32>(suite.size, 0))), Err(Class::Rank));
        suite.equal("types", class(win.put(&value, &one::<f32>(next, 0))), Err(Class::Type));
        let located = win.accumulate(&value, &one::<i32>(next, 0), Op::MaxLoc);
        suite.equal("operator", class(located), Err(Class::Op));
        suite.equal(
            "only fetching",
            class(win.accumulate(&value, &one::<i32>(next, 0), Op::NoOp)),
            Err(Class::Op),
        );
        win.fence(Assert::NOSUCCEED)?;
        win.free()?;
        suite.equal("freed", class(win.fence(NONE)), Err(Class::Win));
        suite.equal("freed twice", class(win.free()), Err(Class::Win));
        let big = suite.world.win_allocate(1 << 30, 1);
        suite.equal("no memory", class(big.map(drop)), Err(Class::NoMem));
        Ok(())
    }
}
