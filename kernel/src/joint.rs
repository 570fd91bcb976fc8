//! One call for all endpoints of a task: the job issues one collective, its endpoints share the work (SPEC G-8).

use crate::arena::OutOfMemory;
use crate::job_error::JobError;
use crate::messaging::{Active, Collect, Completion, Done, OperationError, Poster, Progress};
use crate::messaging::{CollectError, GeometryId, Work, WorkSlot};
use crate::task::Task;
use spin::Mutex;

/// The collective that is under way.
struct UnderWay {
    call: Option<Collect>,
    /// Endpoints that are not done.
    left: usize,
    result: Result<(), OperationError>,
}

/// Issues collectives at several endpoints of this task as one. Each of their contexts must be advanced, by whatever
/// hart.
pub struct Joint {
    endpoints: &'static [(Option<Poster>, WorkSlot)],
    under_way: &'static Mutex<UnderWay>,
    run: &'static (dyn Fn(&mut Active, usize) -> Progress + Sync),
}

/// Why a collective was not issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JointError {
    /// The one before is not done.
    Busy,
    /// What the calling endpoint says of it.
    Refused(CollectError),
}

impl From<JointError> for JobError {
    fn from(error: JointError) -> Self {
        match error {
            JointError::Busy => Self::Other("the collective before is under way: wait for it"),
            JointError::Refused(error) => error.into(),
        }
    }
}

impl Joint {
    /// Takes the endpoints, in the order of their ranks, from the task's memory what it needs for them.
    ///
    /// # Errors
    /// The task is [out of memory](crate::OutOfMemory).
    pub fn new(task: &'static Task, posters: &[Poster]) -> Result<Self, OutOfMemory> {
        let memory = task.memory();
        let count = posters.len();
        let nothing = UnderWay { call: None, left: 0, result: Ok(()) };
        let under_way: &'static Mutex<UnderWay> = memory.place(Mutex::new(nothing))?;
        let ended = &*memory.place(move |active: &mut Active, completion: Completion| {
            let last = under_way.lock().end(completion.result);
            if let Some((done, result)) = last {
                let target = completion.target;
                (done.call)(active, Completion { target, buffer: None, result, cookie: done.cookie });
            }
        })?;
        let run = memory.place(move |active: &mut Active, place: usize| {
            let done = Done { call: ended, cookie: place };
            let Some(call) = under_way.lock().share(place, count, done) else { return Progress::Done };
            let geometry = call.geometry;
            match active.collect(call) {
                Ok(()) => Progress::Done,
                Err(CollectError::NotCreated(_) | CollectError::Full { .. }) => Progress::Again,
                Err(_) => give_up(active, geometry, done),
            }
        })?;
        let mut posters = posters.iter().cloned();
        let endpoints = memory.fill(count, || (posters.next(), WorkSlot::default()))?;
        Ok(Self { endpoints, under_way, run })
    }

    /// Issues a collective at all endpoints: [`Collect::divided`], all in the same memory, but that scratch memory is cut
    /// in equal pieces. `active` is one of the endpoints; it says whether the call is right. The callback is called by the
    /// endpoint that is the last to be done.
    ///
    /// # Errors
    /// [`JointError`]; nothing was started.
    pub fn issue(&self, active: &Active, collect: Collect) -> Result<(), JointError> {
        active.scratch_len(&collect).map_err(JointError::Refused)?;
        let mut under_way = self.under_way.lock();
        if under_way.left > 0 {
            return Err(JointError::Busy);
        }
        *under_way = UnderWay { call: Some(collect), left: self.endpoints.len(), result: Ok(()) };
        drop(under_way);
        for ((poster, slot), cookie) in self.endpoints.iter().zip(0..) {
            // Its last post was run, or the one before would not be done.
            let _ = poster.as_ref().map(|poster| poster.post(slot, Work { run: self.run, cookie }));
        }
        Ok(())
    }
}

/// No endpoint is to wait for one that cannot begin.
fn give_up(active: &mut Active, geometry: GeometryId, done: Done) -> Progress {
    match active.abandon(geometry, 0, done) {
        Err(CollectError::NotCreated(_) | CollectError::Full { .. }) => Progress::Again,
        Ok(()) => Progress::Done,
        Err(_) => {
            let target = active.endpoint();
            let result = Err(OperationError::Abandoned { rank: 0, reason: 0 });
            (done.call)(active, Completion { target, buffer: None, result, cookie: done.cookie });
            Progress::Done
        }
    }
}

impl UnderWay {
    /// What one endpoint calls.
    fn share(&self, place: usize, count: usize, done: Done) -> Option<Collect> {
        let call = self.call.clone()?;
        let scratch = call.scratch.clone().map(|(memory, base)| {
            let each = (memory.len().saturating_sub(base) / count.max(1)) & !7;
            (memory, base + place * each)
        });
        Some(Collect { scratch, done, ..call })
    }

    /// One endpoint is done. Whom to tell, if it was the last.
    fn end(&mut self, result: Result<(), OperationError>) -> Option<(Done, Result<(), OperationError>)> {
        self.result = self.result.and(result);
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return None;
        }
        let call = self.call.take()?;
        Some((call.done, self.result))
    }
}
