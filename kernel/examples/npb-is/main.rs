//! NAS Parallel Benchmark IS: ranks integer keys, with the official verification (`--class S|W|A`).
//!
//! Any number of tasks may share the keys. Each iteration counts keys into buckets, sums the counts over all
//! tasks, gives each task a range of buckets of about equal load, sends the keys to their owners and ranks them
//! there. The ranks of five test keys are compared with the official ones; after the last iteration the keys are
//! sorted and checked over the whole machine.
#![no_std]
#![no_main]

mod class;
mod exchange;
#[path = "../npb/random.rs"]
mod random;

use class::{Class, ITERATIONS, TEST_KEYS};
use core::fmt::Write;
use exchange::{Exchange, SUM_LIMIT};
use kernel::{JobError, Task};
use random::{Random, SEED};
use zerocopy::IntoBytes;

kernel::entry!(main);

const BUCKETS_LOG2: u32 = 9;
const BUCKETS: usize = 1 << BUCKETS_LOG2;
const _: () = assert!(BUCKETS + TEST_KEYS <= SUM_LIMIT);

/// One task's share of the benchmark.
struct Ranker {
    task: &'static Task,
    class: &'static Class,
    exchange: Exchange,
    /// Place of this task's first key in the whole sequence.
    first: usize,
    keys: &'static mut [u32],
    sorted: Option<kernel::Buffer>,
    words: Option<kernel::Buffer>,
    counts: &'static mut [u32],
    ranked: &'static mut [u32],
}

/// How the keys lie after an exchange.
struct Owned {
    /// Keys of this task.
    count: usize,
    /// Keys of all tasks that lie below this task's range.
    below: u32,
    /// Key values of this task: from here up to, not including, there.
    values: core::ops::Range<u32>,
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let class = chosen_class(task)?;
    let (tasks, me) = (task.tasks() as usize, task.number() as usize);
    if tasks > SUM_LIMIT / 2 || tasks > BUCKETS {
        return Err(JobError::Other("npb-is runs on at most 512 tasks"));
    }
    let first = class.keys() * me / tasks;
    let share = class.keys() * (me + 1) / tasks - first;
    // Buckets are not split, so a task's load is uneven by up to a bucket; the middle ones are the fullest.
    let room = (2 * class.keys() / tasks + class.keys() / 64).min(class.keys());
    let memory = task.memory();
    let mut ranker = Ranker {
        task,
        class,
        exchange: Exchange::new(task, room)?,
        first,
        keys: memory.slice(share)?,
        sorted: Some(memory.buffer(4 * share)?),
        words: Some(memory.buffer(4 * SUM_LIMIT)?),
        counts: memory.slice(class.values() as usize)?,
        ranked: memory.slice(room)?,
    };
    let mut random = Random::after(SEED, 4 * first as u64);
    for key in ranker.keys.iter_mut() {
        *key = next_key(&mut random, class.values());
    }
    if me == 0 {
        defmt::println!(
            "NPB IS class {=str}: {=usize} keys below {=u32} on {=usize} tasks, {=u32} iterations",
            class.name,
            class.keys(),
            class.values(),
            tasks,
            ITERATIONS
        );
    }
    ranker.iterate()?; // untimed and unverified, as the benchmark has it: touches all memory once
    let start = task.now_ns();
    let mut owned = None;
    for iteration in 1..=ITERATIONS {
        owned = Some(ranker.verified_iteration(iteration)?);
    }
    let elapsed_us = (task.now_ns() - start) / 1000;
    let Some(owned) = owned else { return Ok(()) };
    ranker.verify_all(&owned)?;
    if me == 0 {
        let keys_ranked = class.keys() as u64 * u64::from(ITERATIONS);
        defmt::println!(
            "full verification: all {=usize} keys in order: verified; {=u64} us, {=u64} thousand keys/s",
            class.keys(),
            elapsed_us,
            keys_ranked * 1000 / elapsed_us.max(1)
        );
    }
    Ok(())
}

/// The next key below `values`: the mean of four numbers, which heaps the keys up in the middle.
fn next_key(random: &mut Random, values: u32) -> u32 {
    let sum = random.next() + random.next() + random.next() + random.next();
    (f64::from(values / 4) * sum) as u32
}

fn chosen_class(task: &'static Task) -> Result<&'static Class, JobError> {
    let mut name = "S";
    let mut args = task.args();
    while let Some(arg) = args.next() {
        name = match (arg, args.next()) {
            ("--class", Some(class)) => class,
            ("--class", None) => return Err(JobError::Argument(arg, "wants a class: S, W or A")),
            _ => return Err(JobError::Argument(arg, "is unknown: npb-is takes --class S, W or A")),
        };
    }
    Class::named(name).ok_or(JobError::Argument(name, "is no class: npb-is has S, W and A"))
}

impl Ranker {
    fn bucket(&self, key: u32) -> usize {
        (key >> (self.class.values_log2 - BUCKETS_LOG2)) as usize
    }

    /// One ranking. Returns how the keys lie and the values of the test keys.
    fn iterate(&mut self) -> Result<(Owned, [u32; TEST_KEYS]), JobError> {
        self.exchange.expect_keys();
        let mut sums = [0u32; BUCKETS + TEST_KEYS];
        for &key in self.keys.iter() {
            sums[self.bucket(key)] += 1;
        }
        // Place this task's keys by bucket.
        let mut cursors = [0u32; BUCKETS];
        let mut next = 0;
        for (cursor, &count) in cursors.iter_mut().zip(&sums) {
            *cursor = next;
            next += count;
        }
        let starts_here = cursors;
        let Some(mut sorted) = self.sorted.take() else {
            return Err(JobError::Other("the key buffer is out"));
        };
        let places = sorted.as_mut_slice();
        for &key in self.keys.iter() {
            let cursor = &mut cursors[self.bucket(key)];
            let at = 4 * *cursor as usize;
            places[at..at + 4].copy_from_slice(key.as_bytes());
            *cursor += 1;
        }
        for test in 0..TEST_KEYS {
            if let Some(key) = self.class.place(test).checked_sub(self.first).and_then(|at| self.keys.get(at))
            {
                sums[BUCKETS + test] = *key;
            }
        }
        let mine = self.keys.len() as u32;
        self.exchange.sum(&mut sums, &mut self.words)?;

        // Give each task buckets until it has its share; the same arithmetic at every task.
        let (tasks, me) = (self.task.tasks() as usize, self.task.number() as usize);
        let mut first_bucket = [0usize; BUCKETS + 1];
        let (mut owner, mut load) = (0, 0u64);
        for (bucket, &count) in sums[..BUCKETS].iter().enumerate() {
            // The bucket goes to the task in whose share its middle lies.
            let middle = load + u64::from(count) / 2;
            let wanted = ((middle * tasks as u64) >> self.class.keys_log2) as usize;
            while owner < wanted.min(tasks - 1) {
                owner += 1;
                first_bucket[owner] = bucket;
            }
            load += u64::from(count);
        }
        while owner < tasks {
            owner += 1;
            first_bucket[owner] = BUCKETS;
        }
        let mut starts = [0u32; BUCKETS + 1];
        for (start, &bucket) in starts.iter_mut().zip(&first_bucket[..=tasks]) {
            *start = if bucket == BUCKETS { mine } else { starts_here[bucket] };
        }
        let (sorted, count) = self.exchange.keys_to_owners(sorted, &starts[..=tasks])?;
        self.sorted = Some(sorted);
        let shift = self.class.values_log2 - BUCKETS_LOG2;
        let values = (first_bucket[me] as u32) << shift..(first_bucket[me + 1] as u32) << shift;
        let below = sums[..first_bucket[me]].iter().sum();
        let mut tests = [0; TEST_KEYS];
        tests.copy_from_slice(&sums[BUCKETS..]);

        // Count the keys of each value; then the place of a value among this task's is the count below it.
        let counts = &mut self.counts[..values.len()];
        counts.fill(0);
        self.exchange.with_keys(count, |keys| {
            for key in keys.iter() {
                // A key outside the range would show as a wrong rank.
                if let Some(count) = counts.get_mut(key.wrapping_sub(values.start) as usize) {
                    *count += 1;
                }
            }
        });
        let mut sum = 0;
        for count in counts.iter_mut() {
            sum += *count;
            *count = sum;
        }
        Ok((Owned { count, below, values }, tests))
    }

    /// An iteration with the benchmark's changes of two keys and its partial verification.
    fn verified_iteration(&mut self, iteration: u32) -> Result<Owned, JobError> {
        let places = [iteration, iteration + ITERATIONS];
        for (place, key) in places.into_iter().zip([iteration, self.class.values() - iteration]) {
            if let Some(changed) =
                (place as usize).checked_sub(self.first).and_then(|at| self.keys.get_mut(at))
            {
                *changed = key;
            }
        }
        let (owned, tests) = self.iterate()?;
        let mut ranks = [0u32; TEST_KEYS];
        for (rank, key) in ranks.iter_mut().zip(tests) {
            if owned.values.contains(&key) {
                let lower = (key - owned.values.start).checked_sub(1);
                *rank = owned.below + lower.map_or(0, |at| self.counts[at as usize]);
            }
        }
        self.exchange.sum(&mut ranks, &mut self.words)?;
        let good =
            (0..TEST_KEYS).all(|test| i64::from(ranks[test]) == self.class.official_rank(test, iteration));
        if self.task.number() == 0 {
            let mut line = heapless::String::<96>::new();
            for rank in ranks {
                let _ = write!(line, " {rank}");
            }
            let verdict = if good { "verified" } else { "WRONG" };
            defmt::println!(
                "iteration {=u32}: ranks of the test keys{=str}: {=str}",
                iteration,
                line.as_str(),
                verdict
            );
        }
        if good { Ok(owned) } else { Err(JobError::Other("a test key has the wrong rank")) }
    }

    /// Sorts this task's keys by their ranks and checks the order here and against all other tasks.
    fn verify_all(&mut self, owned: &Owned) -> Result<(), JobError> {
        let counts = &mut *self.counts;
        let ranked = &mut self.ranked[..owned.count];
        let placed = self.exchange.with_keys(owned.count, |keys| {
            for &key in keys.iter() {
                let count = counts.get_mut(key.wrapping_sub(owned.values.start) as usize)?;
                *count = count.checked_sub(1)?;
                *ranked.get_mut(*count as usize)? = key;
            }
            Some(())
        });
        let (least, most) = (ranked.first().copied(), ranked.last().copied());
        let in_order = placed.is_some() && ranked.is_sorted();
        // Every task's least and most, and the number of keys and of tasks with a disorder.
        let (tasks, me) = (self.task.tasks() as usize, self.task.number() as usize);
        let mut words = [0u32; SUM_LIMIT];
        let words = &mut words[..2 * tasks + 2];
        // Shifted by one: 0 says that the task has no keys.
        words[2 * me] = least.map_or(0, |key| key + 1);
        words[2 * me + 1] = most.map_or(0, |key| key + 1);
        words[2 * tasks] = owned.count as u32;
        words[2 * tasks + 1] = u32::from(!in_order);
        self.exchange.sum(words, &mut self.words)?;
        let (bounds, totals) = words.split_at(2 * tasks);
        let held = bounds.iter().filter(|&&bound| bound != 0);
        if totals != [self.class.keys() as u32, 0] || !held.is_sorted() {
            return Err(JobError::Other("the keys are not in order"));
        }
        Ok(())
    }
}
