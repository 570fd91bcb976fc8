//! Collectives of which every step is a swap between two tasks.
//!
//! As both sides of a swap send before they wait, a task that has finished one is at most one message ahead of its
//! partner: two places for arrivals from each task are enough, and nothing ever has to be told to wait.

use super::machine::{Machine, Tasks};

/// Most reals in one message.
pub const CHUNK: usize = 4096;

/// A machine that moves messages and leaves the rest to this module.
pub trait Link {
    /// What can go wrong.
    type Error;

    /// The task's number.
    fn task(&self) -> usize;

    /// How many tasks there are.
    fn tasks(&self) -> usize;

    /// `len` zeros.
    fn reals(&mut self, len: usize) -> Result<&'static mut [f64], Self::Error>;

    /// `len` zeros.
    fn indices(&mut self, len: usize) -> Result<&'static mut [u32], Self::Error>;

    /// Sends at most [`CHUNK`] reals to another task, which sends a message to this one before it waits.
    fn send(&mut self, partner: usize, values: &[f64]) -> Result<(), Self::Error>;

    /// Hands `take` the next message from another task, which must have this length.
    fn receive(&mut self, partner: usize, len: usize, take: impl FnOnce(&[f64])) -> Result<(), Self::Error>;
}

impl<L: Link> Machine for L {
    type Group = Tasks;
    type Error = L::Error;

    fn task(&self) -> usize {
        Link::task(self)
    }

    fn tasks(&self) -> usize {
        Link::tasks(self)
    }

    fn reals(&mut self, len: usize) -> Result<&'static mut [f64], L::Error> {
        Link::reals(self, len)
    }

    fn indices(&mut self, len: usize) -> Result<&'static mut [u32], L::Error> {
        Link::indices(self, len)
    }

    fn group(&mut self, tasks: Tasks) -> Result<Tasks, L::Error> {
        Ok(tasks)
    }

    fn barrier(&mut self, group: &Tasks) -> Result<(), L::Error> {
        self.sum(group, &mut [])
    }

    fn sum(&mut self, group: &Tasks, values: &mut [f64]) -> Result<(), L::Error> {
        let rank = group.rank(Link::task(self));
        // Members beyond a power of two hand their values to one below it and wait for the sums.
        let doubling = 1 << group.count.ilog2();
        if rank >= doubling {
            let partner = group.member(rank - doubling);
            add_partner(self, partner, values)?;
            return self.exchange(partner, &[], values);
        }
        let beyond = (rank + doubling < group.count).then(|| group.member(rank + doubling));
        if let Some(partner) = beyond {
            add_partner(self, partner, values)?;
        }
        let mut distance = 1;
        while distance < doubling {
            add_partner(self, group.member(rank ^ distance), values)?;
            distance *= 2;
        }
        beyond.map_or(Ok(()), |partner| self.exchange(partner, values, &mut []))
    }

    fn all_gather(&mut self, group: &Tasks, mine: &[f64], all: &mut [f64]) -> Result<(), L::Error> {
        let block = mine.len();
        for partner in partners(group, Link::task(self)) {
            self.exchange(group.member(partner), mine, &mut all[partner * block..][..block])?;
        }
        Ok(())
    }

    fn all_to_all(&mut self, group: &Tasks, send: &[f64], received: &mut [f64]) -> Result<(), L::Error> {
        let block = send.len() / group.count;
        for partner in partners(group, Link::task(self)) {
            let there = partner * block..(partner + 1) * block;
            self.exchange(group.member(partner), &send[there.clone()], &mut received[there])?;
        }
        Ok(())
    }

    fn exchange(&mut self, partner: usize, send: &[f64], received: &mut [f64]) -> Result<(), L::Error> {
        if partner == Link::task(self) {
            received.copy_from_slice(send);
            return Ok(());
        }
        let longer = send.len().max(received.len());
        let mut start = 0;
        loop {
            let part = |len: usize| start.min(len)..(start + CHUNK).min(len);
            self.send(partner, &send[part(send.len())])?;
            let here = part(received.len());
            let room = &mut received[here];
            self.receive(partner, room.len(), |values| room.copy_from_slice(values))?;
            start += CHUNK;
            if start >= longer {
                return Ok(());
            }
        }
    }
}

/// The ranks with which a task swaps in turn, itself included: in step `s`, ranks whose sum is `s` modulo the count.
fn partners(group: &Tasks, task: usize) -> impl Iterator<Item = usize> {
    let (count, rank) = (group.count, group.rank(task));
    (0..count).map(move |step| (step + count - rank) % count)
}

/// Adds the partner's values to the own ones, as the partner does. Both have the same bits then: a sum of two does
/// not depend on their order.
fn add_partner<L: Link>(link: &mut L, partner: usize, values: &mut [f64]) -> Result<(), L::Error> {
    let mut start = 0;
    loop {
        let end = (start + CHUNK).min(values.len());
        let part = &mut values[start..end];
        link.send(partner, part)?;
        link.receive(partner, part.len(), |theirs| {
            for (mine, theirs) in part.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        })?;
        start = end;
        if start == values.len() {
            return Ok(());
        }
    }
}
