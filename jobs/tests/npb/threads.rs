//! A machine whose tasks are threads and whose messages go through channels.

use crate::npb::machine::{Machine, Tasks};
use std::fmt::Arguments;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// Threads of each task.
const THREADS: usize = 2;

/// One task.
pub struct Thread {
    task: usize,
    begun: Instant,
    to: Vec<Sender<Vec<u64>>>,
    from: Vec<Receiver<Vec<u64>>>,
}

/// What a receiver finds wrong.
#[derive(Debug)]
pub enum Broken {
    /// The other task ended.
    Gone,
    /// The message has another length than expected.
    Length,
}

fn words(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

impl Thread {
    fn send(&self, target: usize, message: Vec<u64>) -> Result<(), Broken> {
        self.to[target].send(message).map_err(|_| Broken::Gone)
    }

    fn receive(&self, origin: usize) -> Result<Vec<u64>, Broken> {
        self.from[origin].recv().map_err(|_| Broken::Gone)
    }

    /// Sends each member its message. Returns theirs, in the order of ranks.
    fn all(
        &self,
        group: &Tasks,
        message: impl Fn(usize) -> Vec<u64>,
    ) -> Result<std::vec::IntoIter<Vec<u64>>, Broken> {
        for rank in 0..group.count {
            self.send(group.member(rank), message(rank))?;
        }
        let received: Result<Vec<_>, _> =
            (0..group.count).map(|rank| self.receive(group.member(rank))).collect();
        Ok(received?.into_iter())
    }

    fn fill(into: &mut [f64], messages: impl Iterator<Item = Vec<u64>>) -> Result<(), Broken> {
        let values: Vec<_> = messages.flatten().map(f64::from_bits).collect();
        if values.len() != into.len() {
            return Err(Broken::Length);
        }
        into.copy_from_slice(&values);
        Ok(())
    }
}

impl Machine for Thread {
    type Group = Tasks;
    type Error = Broken;

    fn task(&self) -> usize {
        self.task
    }

    fn tasks(&self) -> usize {
        self.to.len()
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn say(&self, line: Arguments) {
        if self.task == 0 {
            println!("{line}");
        }
    }

    fn reals(&mut self, len: usize) -> Result<&'static mut [f64], Broken> {
        Ok(vec![0.0; len].leak())
    }

    fn indices(&mut self, len: usize) -> Result<&'static mut [u32], Broken> {
        Ok(vec![0; len].leak())
    }

    fn on_threads<T: Send + 'static>(
        &mut self,
        work: impl Fn(usize, usize) -> T + Send + Sync + 'static,
        take: impl FnMut(T),
    ) -> Result<(), Broken> {
        let work = &work;
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|number| scope.spawn(move || work(number, THREADS))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        results.into_iter().for_each(take);
        Ok(())
    }

    fn group(&mut self, tasks: Tasks) -> Result<Tasks, Broken> {
        Ok(tasks)
    }

    fn barrier(&mut self, group: &Tasks) -> Result<(), Broken> {
        self.all(group, |_| Vec::new()).map(drop)
    }

    fn sum(&mut self, group: &Tasks, values: &mut [f64]) -> Result<(), Broken> {
        let all = self.all(group, |_| words(values))?;
        values.fill(0.0);
        for theirs in all {
            if theirs.len() != values.len() {
                return Err(Broken::Length);
            }
            values.iter_mut().zip(theirs).for_each(|(sum, theirs)| *sum += f64::from_bits(theirs));
        }
        Ok(())
    }

    fn sum_indices(&mut self, group: &Tasks, values: &mut [u32]) -> Result<(), Broken> {
        // Exact: they are integers.
        let mut sums: Vec<_> = values.iter().map(|&value| f64::from(value)).collect();
        self.sum(group, &mut sums)?;
        values.iter_mut().zip(sums).for_each(|(value, sum)| *value = sum as u32);
        Ok(())
    }

    fn all_gather(&mut self, group: &Tasks, mine: &mut [f64], all: &mut [f64]) -> Result<(), Broken> {
        Self::fill(all, self.all(group, |_| words(mine))?)
    }

    fn all_to_all(&mut self, group: &Tasks, send: &mut [f64], received: &mut [f64]) -> Result<(), Broken> {
        let block = send.len() / group.count;
        Self::fill(received, self.all(group, |rank| words(&send[rank * block..][..block]))?)
    }

    fn all_to_all_indices(
        &mut self,
        group: &Tasks,
        send: &mut [u32],
        starts: &[usize],
        received: &mut [u32],
    ) -> Result<usize, Broken> {
        let block = |rank: usize| send[starts[rank]..starts[rank + 1]].iter().map(|&key| key.into());
        let values: Vec<_> = self.all(group, |rank| block(rank).collect())?.flatten().collect();
        let room = received.get_mut(..values.len()).ok_or(Broken::Length)?;
        room.iter_mut().zip(&values).for_each(|(place, &value)| *place = value as u32);
        Ok(values.len())
    }

    fn exchange(&mut self, partner: usize, send: &mut [f64], received: &mut [f64]) -> Result<(), Broken> {
        self.send(partner, words(send))?;
        Self::fill(received, std::iter::once(self.receive(partner)?))
    }
}

/// Runs `work` as each of `tasks` tasks; what they return, by task.
///
/// # Panics
/// If one of them does, or if a message is left that nobody took.
pub fn on_tasks<T: Send>(tasks: usize, work: impl Fn(&mut Thread) -> T + Sync) -> Vec<T> {
    let begun = Instant::now();
    let mut threads: Vec<_> =
        (0..tasks).map(|task| Thread { task, begun, to: Vec::new(), from: Vec::new() }).collect();
    for from in 0..tasks {
        for to in 0..tasks {
            let (sender, receiver) = channel();
            threads[from].to.push(sender);
            threads[to].from.push(receiver);
        }
    }
    let results: Vec<_> = std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> =
            threads.into_iter().map(|mut thread| scope.spawn(move || (work(&mut thread), thread))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (_, thread) in &results {
        assert!(thread.from.iter().all(|from| from.try_recv().is_err()), "a message was left");
    }
    results.into_iter().map(|(result, _)| result).collect()
}
