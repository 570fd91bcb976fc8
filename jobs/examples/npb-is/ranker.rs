//! Ranking by buckets.
//!
//! Each iteration counts keys into buckets, sums the counts over all tasks, gives each task a range of buckets of about
//! equal load, sends the keys to their owners and ranks them there.

use super::class::{Class, TEST_KEYS};
use super::npb::machine::{Machine, Tasks};
use super::npb::random::{Random, SEED};
use core::ops::Range;

const BUCKETS_LOG2: u32 = 9;
const BUCKETS: usize = 1 << BUCKETS_LOG2;
/// Most tasks that can share the keys.
pub const TASKS: usize = BUCKETS;

/// How the keys lie after an exchange.
#[derive(Default)]
struct Owned {
    /// Keys of this task.
    count: usize,
    /// Keys of all tasks that lie below this task's range.
    below: u32,
    /// Key values of this task: from here up to, not including, there.
    values: Range<u32>,
}

/// One task's share of the benchmark.
pub struct Ranker<M: Machine> {
    class: &'static Class,
    all_tasks: M::Group,
    /// Place of this task's first key in the whole sequence.
    first: usize,
    keys: &'static mut [u32],
    /// The keys by bucket.
    sorted: &'static mut [u32],
    /// The keys that came, of this task's range.
    received: &'static mut [u32],
    /// Keys up to a value of the range, of those.
    counts: &'static mut [u32],
    ranked: &'static mut [u32],
    /// Two for each task, and two more.
    words: &'static mut [u32],
    owned: Owned,
}

impl<M: Machine> Ranker<M> {
    /// Draws the keys. For at most [`TASKS`] tasks.
    pub fn new(machine: &mut M, class: &'static Class) -> Result<Self, M::Error> {
        let (tasks, me) = (machine.tasks(), machine.task());
        let first = class.keys() * me / tasks;
        let share = class.keys() * (me + 1) / tasks - first;
        // Buckets are not split, so a task's load is uneven by up to a bucket; the middle ones are the fullest.
        let room = (2 * class.keys() / tasks + class.keys() / 64).min(class.keys());
        let keys = machine.indices(share)?;
        let mut random = Random::after(SEED, 4 * first as u64);
        for key in keys.iter_mut() {
            *key = next_key(&mut random, class.values());
        }
        Ok(Self {
            class,
            all_tasks: machine.group(Tasks::all(tasks))?,
            first,
            keys,
            sorted: machine.indices(share)?,
            received: machine.indices(room)?,
            counts: machine.indices(class.values() as usize)?,
            ranked: machine.indices(room)?,
            words: machine.indices(2 * tasks + 2)?,
            owned: Owned::default(),
        })
    }

    fn bucket(&self, key: u32) -> usize {
        (key >> (self.class.values_log2 - BUCKETS_LOG2)) as usize
    }

    /// The key with this place in the whole sequence, if it is here.
    fn key(&mut self, place: usize) -> Option<&mut u32> {
        self.keys.get_mut(place.checked_sub(self.first)?)
    }

    /// One iteration, which changes two keys. Returns the ranks of the test keys.
    pub fn rank(&mut self, machine: &mut M, iteration: u32) -> Result<[u32; TEST_KEYS], M::Error> {
        for (place, value) in self.class.changed(iteration) {
            if let Some(key) = self.key(place) {
                *key = value;
            }
        }
        let tests = self.send_to_owners(machine)?;
        self.count();
        let mut ranks = [0; TEST_KEYS];
        for (rank, key) in ranks.iter_mut().zip(tests) {
            if self.owned.values.contains(&key) {
                let lower = (key - self.owned.values.start).checked_sub(1);
                *rank = self.owned.below + lower.map_or(0, |at| self.counts[at as usize]);
            }
        }
        machine.sum_indices(&self.all_tasks, &mut ranks)?;
        Ok(ranks)
    }

    /// Brings each key to the task whose range it is in. Returns the values of the test keys.
    fn send_to_owners(&mut self, machine: &mut M) -> Result<[u32; TEST_KEYS], M::Error> {
        let mut sums = [0; BUCKETS + TEST_KEYS];
        for &key in self.keys.iter() {
            sums[self.bucket(key)] += 1;
        }
        // Where this task's keys of each bucket begin.
        let mut starts = [0; BUCKETS + 1];
        for bucket in 0..BUCKETS {
            starts[bucket + 1] = starts[bucket] + sums[bucket] as usize;
        }
        let mut cursors = starts;
        for &key in self.keys.iter() {
            let cursor = &mut cursors[self.bucket(key)];
            self.sorted[*cursor] = key;
            *cursor += 1;
        }
        for test in 0..TEST_KEYS {
            if let Some(key) = self.key(self.class.place(test)) {
                sums[BUCKETS + test] = *key;
            }
        }
        machine.sum_indices(&self.all_tasks, &mut sums)?;
        let (counts, tests) = sums.split_at(BUCKETS);
        let first_bucket = self.share_out(counts, machine.tasks());
        let mut bounds = first_bucket;
        for bound in &mut bounds {
            *bound = starts[*bound];
        }
        let (tasks, me) = (machine.tasks(), machine.task());
        let count =
            machine.all_to_all_indices(&self.all_tasks, self.sorted, &bounds[..=tasks], self.received)?;
        let shift = self.class.values_log2 - BUCKETS_LOG2;
        let values = (first_bucket[me] as u32) << shift..(first_bucket[me + 1] as u32) << shift;
        self.owned = Owned { count, below: counts[..first_bucket[me]].iter().sum(), values };
        let mut keys = [0; TEST_KEYS];
        keys.copy_from_slice(tests);
        Ok(keys)
    }

    /// The first bucket of each task, and from the last task's end on [`BUCKETS`]; the same arithmetic at every task.
    fn share_out(&self, counts: &[u32], tasks: usize) -> [usize; BUCKETS + 1] {
        let mut first_bucket = [BUCKETS; BUCKETS + 1];
        first_bucket[0] = 0;
        let (mut owner, mut load) = (0, 0);
        for (bucket, &count) in counts.iter().enumerate() {
            // The bucket goes to the task in whose share its middle lies.
            let middle = load + u64::from(count) / 2;
            let wanted = ((middle * tasks as u64) >> self.class.keys_log2) as usize;
            while owner < wanted.min(tasks - 1) {
                owner += 1;
                first_bucket[owner] = bucket;
            }
            load += u64::from(count);
        }
        first_bucket
    }

    /// Counts the keys of each value; the place of a value among this task's is the count below it.
    fn count(&mut self) {
        let Owned { count, values, .. } = &self.owned;
        let counts = &mut self.counts[..values.len()];
        counts.fill(0);
        for key in &self.received[..*count] {
            // A key outside the range would show as a wrong rank.
            if let Some(count) = counts.get_mut(key.wrapping_sub(values.start) as usize) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for count in counts.iter_mut() {
            sum += *count;
            *count = sum;
        }
    }

    /// Sorts the keys by the ranks of the last iteration. Returns whether all are there and in order, here and from
    /// task to task.
    pub fn sort(&mut self, machine: &mut M) -> Result<bool, M::Error> {
        let ranked = &mut self.ranked[..self.owned.count];
        let mut in_order = true;
        for &key in &self.received[..self.owned.count] {
            let count = self.counts.get_mut(key.wrapping_sub(self.owned.values.start) as usize);
            let place = count.and_then(|count| {
                *count = count.checked_sub(1)?;
                ranked.get_mut(*count as usize)
            });
            match place {
                Some(place) => *place = key,
                None => in_order = false,
            }
        }
        in_order &= ranked.is_sorted();
        // Every task's least and most, and the number of keys and of tasks with a disorder.
        let (tasks, me) = (machine.tasks(), machine.task());
        self.words.fill(0);
        // Shifted by one: 0 says that the task has no keys.
        self.words[2 * me] = ranked.first().map_or(0, |key| key + 1);
        self.words[2 * me + 1] = ranked.last().map_or(0, |key| key + 1);
        self.words[2 * tasks] = ranked.len() as u32;
        self.words[2 * tasks + 1] = u32::from(!in_order);
        machine.sum_indices(&self.all_tasks, self.words)?;
        let (bounds, totals) = self.words.split_at(2 * tasks);
        let held = bounds.iter().filter(|&&bound| bound != 0);
        Ok(totals == [self.class.keys() as u32, 0] && held.is_sorted())
    }
}

/// The next key below `values`: the mean of four numbers, which heaps the keys up in the middle.
fn next_key(random: &mut Random, values: u32) -> u32 {
    let sum = random.next() + random.next() + random.next() + random.next();
    (f64::from(values / 4) * sum) as u32
}
