//! What a barrier is for: everybody writes, all meet, everybody reads.
//!
//! Each rank has a board with a word for every rank. Before the barrier each puts its mark on all boards and waits until it
//! is there; after it each must find all marks on its own. One rank is late on purpose: it writes only when all others have,
//! so that who does not wait for it finds its mark missing.

use super::case::{WORD, get, put};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{
    Active, Completion, Context, Done, Endpoint, JobError, Layout, Payload, Put, Region, RegionHandle,
    Rights, SendError, Shared, Task,
};

/// Nanoseconds that the late one is late by, besides.
const LATE_NS: u64 = 1_000_000;
/// Bytes of a handle.
pub const HANDLE: usize = size_of::<RegionHandle>();

/// A rank's board, and the way to the others'.
pub struct Board {
    rank: usize,
    own: Region,
    /// Every rank's endpoint and board.
    boards: &'static [(Endpoint, RegionHandle)],
    word: Shared,
    /// Puts that have ended, and those that ended badly.
    ended: &'static AtomicU32,
    failed: &'static AtomicU32,
    done: Done,
    /// The last mark.
    mark: u64,
}

/// Registers a board for so many ranks.
pub fn register(task: &'static Task, context: &mut Context, ranks: usize) -> Result<Region, JobError> {
    let memory = task.memory().buffer(ranks * WORD)?.share();
    (0..ranks).for_each(|rank| put(&memory, rank, 0));
    Ok(context.register_shared(memory, Rights::WRITE).map_err(|(error, _)| error)?)
}

impl Board {
    pub fn new(
        task: &'static Task,
        rank: u32,
        own: Region,
        boards: &'static [(Endpoint, RegionHandle)],
    ) -> Result<Self, JobError> {
        let memory = task.memory();
        let ended: &AtomicU32 = memory.place(AtomicU32::new(0))?;
        let failed: &AtomicU32 = memory.place(AtomicU32::new(0))?;
        let call = memory.place(move |_: &mut Active, completion: Completion| {
            failed.fetch_add(u32::from(completion.result.is_err()), Relaxed);
            ended.fetch_add(1, Relaxed);
        })?;
        let (word, done) = (memory.buffer(WORD)?.share(), Done { call, cookie: 0 });
        Ok(Self { rank: rank as usize, own, boards, word, ended, failed, done, mark: 0 })
    }

    /// Puts this rank's next mark on all boards, and waits until it is there.
    pub fn write(&mut self, task: &'static Task, context: &mut Context) -> Result<(), JobError> {
        self.mark += 1;
        let (mark, own, rank) = (self.mark, &self.own, self.rank);
        if rank as u64 == mark % self.boards.len() as u64 {
            let others = (0..self.boards.len()).filter(|&other| other != rank);
            let all = || others.clone().all(|other| get(own.memory(), other) >= Some(mark));
            while !context.wait_for(LATE_NS, |_| all()) {}
            let from = task.now_ns();
            while task.now_ns() < from + LATE_NS {
                context.advance();
            }
        }
        put(&self.word, 0, mark);
        for &(target, region) in self.boards {
            let before = self.ended.load(Relaxed);
            loop {
                let word = Put {
                    target,
                    region,
                    offset: (self.rank * WORD) as u32,
                    layout: Layout::Contiguous,
                    payload: Payload::Shared(self.word.clone(), 0..WORD),
                    payload_layout: Layout::Contiguous,
                    local_done: None,
                    remote_done: Some(self.done),
                };
                match context.put(word) {
                    Err((SendError::Again, _)) => _ = context.advance(),
                    started => break started.map_err(|(error, _)| error)?,
                }
            }
            let ended = self.ended;
            context.wait(|_| ended.load(Relaxed) != before);
        }
        if self.failed.load(Relaxed) > 0 { Err(JobError::Other("a mark did not arrive")) } else { Ok(()) }
    }

    /// Whether everybody's last mark is on this rank's board.
    pub fn holds(&self) -> bool {
        (0..self.boards.len()).all(|rank| get(self.own.memory(), rank) >= Some(self.mark))
    }
}
