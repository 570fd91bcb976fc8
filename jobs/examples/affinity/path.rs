//! The critical path of a collective, in instructions.
//!
//! One thread drives the contexts of all ranks and counts what each of their calls takes, so counts are exact, and
//! polls that find nothing cost nothing. Each rank has a clock of its own instructions (Lamport, Time, Clocks, and the
//! Ordering of Events, 1978). An advance that moves something was caused by the last advance of one other rank, since
//! all ranks are polled after each: it begins at the later of the two clocks. The path is the last clock's end.
//!
//! What a rank does before its first message comes is not caused by anyone. It is counted in a run in which the rank
//! is the first to advance.

use super::case::{CASES, Case, Comparison};
use super::count::Count;
use super::rank::Rank;
use super::{head, row, verdict};
use heapless::Vec;
use kernel::{JobError, Task};
use pami::affinity::{Crossings, LEVELS};

/// Most ranks: contexts of a task.
const RANKS: usize = 8;
/// Polls in which nothing may happen before something is wrong.
const IDLE_POLLS: u32 = 1000;

/// Prints the table with the critical path of each case.
pub fn table(task: &'static Task, ranks: &mut [Option<Rank>]) -> Result<(), JobError> {
    let count = Count::new(task)?;
    let ranks: Vec<&mut Rank, RANKS> = ranks.iter_mut().flatten().collect();
    let mut driver = Driver { count, ranks, clocks: [0; RANKS], beginnings: [None; RANKS] };
    driver.finish()?;
    driver.ranks.iter().try_for_each(|rank| rank.look())?;
    head(driver.ranks[0]);
    let mut comparison = Comparison::default();
    for case in &CASES {
        if !driver.ranks[0].is_valid(case) {
            continue;
        }
        let (crossings, path) = driver.measure(case)?;
        let domains = driver.ranks[0].domains;
        comparison.add(case, &domains, &crossings);
        row(&domains, case, &crossings, Some(path));
    }
    verdict(&comparison)
}

struct Driver<'a> {
    count: Count,
    ranks: Vec<&'a mut Rank, RANKS>,
    clocks: [u64; RANKS],
    /// What each rank's first advance takes if no message is there.
    beginnings: [Option<u64>; RANKS],
}

impl Driver<'_> {
    /// Runs a case so often that every rank is the first once. Returns the crossings of one run and the critical path.
    fn measure(&mut self, case: &Case) -> Result<(Crossings, u64), JobError> {
        self.beginnings = [None; RANKS];
        // One more before, since first times are different.
        self.pass_the_gate()?;
        self.run(case, 0)?;
        self.beginnings = [None; RANKS];
        let mut last = None;
        for first in (0..self.ranks.len()).chain([0]) {
            self.pass_the_gate()?;
            let before: Vec<Crossings, RANKS> = self.ranks.iter().map(|rank| rank.crossings()).collect();
            let path = self.run(case, first)?;
            let mut all = Crossings::default();
            for (rank, before) in self.ranks.iter().zip(&before) {
                rank.check(case)?;
                let own = rank.crossings().since(before);
                for level in LEVELS {
                    (0..own.met(level)).for_each(|_| all.count(level));
                }
            }
            // Only the last run knows every rank's beginning.
            last = Some((all, path));
        }
        last.ok_or(JobError::Other("there are no ranks"))
    }

    /// Advances a rank. Returns the instructions that it took, if anything moved.
    #[inline(never)]
    fn advance(&mut self, rank: usize) -> Option<u64> {
        let from = self.count.now();
        let events = self.ranks[rank].context.advance();
        let to = self.count.now();
        (events > 0).then(|| self.count.between((from, to)))
    }

    /// Advances a rank as long as it goes on by itself.
    fn exhaust(&mut self, rank: usize) {
        while let Some(took) = self.advance(rank) {
            self.clocks[rank] += took;
        }
    }

    /// Runs a case once; rank `first` is the first to advance. Returns the critical path.
    fn run(&mut self, case: &Case, first: usize) -> Result<u64, JobError> {
        let count = self.count;
        for (rank, clock) in self.ranks.iter_mut().zip(&mut self.clocks) {
            rank.fill(case)?;
            *clock = count.between(rank.start_counted(case, || count.now())?);
        }
        // Ranks that moved and whose messages nobody has looked for yet.
        let mut moved: Vec<usize, RANKS> = Vec::new();
        let mut begun = [false; RANKS];
        self.beginnings[first] = self.advance(first);
        self.clocks[first] += self.beginnings[first].unwrap_or(0);
        begun[first] = true;
        self.exhaust(first);
        let _ = moved.push(first);
        loop {
            let earliest = (0..moved.len()).min_by_key(|&index| self.clocks[moved[index]]);
            let cause = match earliest {
                Some(index) => moved.swap_remove(index),
                // Nobody has anything to do until another begins.
                None => match begun.iter().take(self.ranks.len()).position(|begun| !begun) {
                    Some(rank) => {
                        begun[rank] = true;
                        self.exhaust(rank);
                        rank
                    }
                    None => break,
                },
            };
            for rank in (0..self.ranks.len()).filter(|&rank| rank != cause) {
                let Some(took) = self.advance(rank) else { continue };
                // Its beginning was in it, and needed no message.
                let alone = if begun[rank] { 0 } else { self.beginnings[rank].unwrap_or(0).min(took) };
                begun[rank] = true;
                self.clocks[rank] = (self.clocks[rank] + alone).max(self.clocks[cause]) + took - alone;
                self.exhaust(rank);
                if !moved.contains(&rank) {
                    let _ = moved.push(rank);
                }
            }
        }
        self.finish()?;
        Ok(self.clocks.iter().take(self.ranks.len()).copied().max().unwrap_or(0))
    }

    /// Sees to it that the engine does not begin the next collective with a barrier of its own.
    fn pass_the_gate(&mut self) -> Result<(), JobError> {
        if self.ranks[0].is_before_gate() {
            let barrier = &CASES[0];
            self.ranks.iter_mut().try_for_each(|rank| rank.start(barrier))?;
            self.finish()?;
        }
        Ok(())
    }

    /// Advances all ranks until each has ended what it began.
    fn finish(&mut self) -> Result<(), JobError> {
        let mut ended = [false; RANKS];
        for _ in 0..IDLE_POLLS {
            for (rank, ended) in self.ranks.iter_mut().zip(&mut ended) {
                *ended = *ended || rank.has_ended()?;
                if !*ended {
                    rank.context.advance();
                }
            }
            if ended.iter().take(self.ranks.len()).all(|&ended| ended) {
                return Ok(());
            }
        }
        Err(JobError::Other("a collective does not end"))
    }
}
