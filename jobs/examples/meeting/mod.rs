//! All tasks of a job meet: each brings two words, and each has everybody's when all have come.
//!
//! That is a barrier, a sum and the way that handles of regions become known. A task can be one meeting ahead of
//! another at most, so each task has two places, which take turns. The death of a node ends the wait with its name: the
//! network tells, nobody has to ask (SPEC R-2).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use kernel::{
    Active, Client, ClientBuilder, Context, JobError, Message, Receive, RegionHandle, SendError, Task,
    wait_on,
};
use zerocopy::{FromBytes, IntoBytes};

/// Dispatch id of the meetings; a job's own are below.
const BRING: u8 = 30;

/// What a task brings to a meeting.
pub type Words = [u64; 2];

struct Brought {
    words: [AtomicU64; 2],
    /// The number of the meeting that the words are for.
    meeting: AtomicU32,
}

/// One task's share of all meetings.
pub struct Meeting {
    task: &'static Task,
    places: &'static [[Brought; 2]],
    held: u32,
}

impl Meeting {
    /// Adds what meetings need to the client that they are to be held through, by its context 0. The task's other contexts,
    /// where they are handed over as well, are advanced meanwhile.
    pub fn prepare(task: &'static Task, builder: ClientBuilder) -> Result<(Self, ClientBuilder), JobError> {
        let memory = task.memory();
        let zero = || AtomicU64::new(0);
        let place = || Brought { words: [zero(), zero()], meeting: AtomicU32::new(0) };
        let places: &'static [[Brought; 2]] = memory.fill(task.tasks() as usize, || [place(), place()])?;
        let bring = memory.place(move |_: &mut Active, message: &Message| {
            let number = u32::read_from_bytes(message.header).unwrap_or(0);
            let words = Words::read_from_bytes(message.data).unwrap_or([0; 2]);
            if let Some(places) = places.get(message.origin.task() as usize) {
                put(&places[number as usize % 2], words, number);
            }
            Receive::Done
        })?;
        Ok((Self { task, places, held: 0 }, builder.dispatch(BRING, bring)))
    }

    /// Brings `words` and waits for those of all others. Returns them by task.
    pub fn meet(
        &mut self,
        client: &Client,
        contexts: &mut [Context],
        words: Words,
    ) -> Result<impl Iterator<Item = Words> + use<>, JobError> {
        self.held += 1;
        let (held, me, tasks) = (self.held, self.task.number(), self.task.tasks());
        let parity = held as usize % 2;
        let places = self.places;
        put(&places[me as usize][parity], words, held);
        for step in 1..tasks {
            // Everyone starts with the task behind it, so that no task is everybody's first.
            let target = client.endpoint((me + step) % tasks, 0)?;
            let (header, data) = (held.to_le_bytes(), words);
            wait_among_living(contexts, |contexts| {
                match contexts[0].send_immediate(target, BRING, &header, data.as_bytes()) {
                    Err(SendError::Again) => Ok(false),
                    outcome => Ok(outcome.map(|()| true)?),
                }
            })?;
        }
        wait_among_living(contexts, |_| {
            Ok(places.iter().all(|place| place[parity].meeting.load(Relaxed) == held))
        })?;
        Ok(places.iter().map(move |place| place[parity].words.each_ref().map(|word| word.load(Relaxed))))
    }

    /// Tells everybody the handle of this task's region. Returns all tasks' handles.
    pub fn handles(
        &mut self,
        client: &Client,
        contexts: &mut [Context],
        mine: RegionHandle,
    ) -> Result<&'static [RegionHandle], JobError> {
        let words = Words::read_from_bytes(mine.as_bytes()).unwrap_or([0; 2]);
        let all = self.meet(client, contexts, words)?;
        let mut all = all.flat_map(|words| RegionHandle::read_from_bytes(words.as_bytes()).ok());
        Ok(self.task.memory().fill(self.task.tasks() as usize, || all.next().unwrap_or(mine))?)
    }
}

fn put(place: &Brought, words: Words, meeting: u32) {
    for (room, word) in place.words.iter().zip(words) {
        room.store(word, Relaxed);
    }
    // One hart advances the context that writes and reads them.
    place.meeting.store(meeting, Relaxed);
}

/// Advances `contexts` until `until` says so.
///
/// # Errors
/// What `until` finds wrong, or [`JobError::Dead`] with the first node that died.
pub fn wait_among_living(
    contexts: &mut [Context],
    mut until: impl FnMut(&mut [Context]) -> Result<bool, JobError>,
) -> Result<(), JobError> {
    let mut outcome = Ok(false);
    // A death ends sleeps as well.
    wait_on(contexts, u64::MAX, |contexts| {
        outcome = match contexts[0].dead_node() {
            Some(node) => Err(JobError::Dead(node)),
            None => until(contexts),
        };
        !matches!(outcome, Ok(false))
    });
    outcome.map(drop)
}
