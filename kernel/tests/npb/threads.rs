//! A machine whose tasks are threads and whose links are channels.

use crate::npb::pairwise::{CHUNK, Link};
use std::sync::mpsc::{Receiver, Sender, channel};

/// One task.
pub struct Thread {
    task: usize,
    to: Vec<Sender<Vec<f64>>>,
    from: Vec<Receiver<Vec<f64>>>,
}

/// What a receiver finds wrong.
#[derive(Debug)]
pub enum Broken {
    /// The other task ended.
    Gone,
    /// The message has another length than expected.
    Length,
}

impl Link for Thread {
    type Error = Broken;

    fn task(&self) -> usize {
        self.task
    }

    fn tasks(&self) -> usize {
        self.to.len()
    }

    fn reals(&mut self, len: usize) -> Result<&'static mut [f64], Broken> {
        Ok(vec![0.0; len].leak())
    }

    fn indices(&mut self, len: usize) -> Result<&'static mut [u32], Broken> {
        Ok(vec![0; len].leak())
    }

    fn send(&mut self, partner: usize, values: &[f64]) -> Result<(), Broken> {
        assert!(values.len() <= CHUNK && partner != self.task);
        self.to[partner].send(values.to_vec()).map_err(|_| Broken::Gone)
    }

    fn receive(&mut self, partner: usize, len: usize, take: impl FnOnce(&[f64])) -> Result<(), Broken> {
        let message = self.from[partner].recv().map_err(|_| Broken::Gone)?;
        if message.len() != len {
            return Err(Broken::Length);
        }
        take(&message);
        Ok(())
    }
}

/// Runs `work` as each of `tasks` tasks; what they return, by task.
///
/// # Panics
/// If one of them does, or if a message is left that nobody took.
pub fn on_tasks<T: Send>(tasks: usize, work: impl Fn(&mut Thread) -> T + Sync) -> Vec<T> {
    let mut threads: Vec<_> =
        (0..tasks).map(|task| Thread { task, to: Vec::new(), from: Vec::new() }).collect();
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
