//! One context with its lock, and how threads take turns on it.

use crate::error::Error;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};
use heapless::Vec;
use pami::device::Port;
use pami::{Active, Context, Poster, Progress, Work, WorkSlot};
use spin::Mutex;

/// Tasks that accumulates under way are noted for, one by one.
const NOTED: usize = 16;

/// A context of the library. It has a place for one and no [`LockedContext`](pami::LockedContext), since it is taken out
/// again when the library ends.
pub(crate) struct Lane<P: Port> {
    context: Mutex<Option<Context<P>>>,
    poster: Poster<P>,
    /// Threads that wait for the lock.
    wanted: AtomicU32,
    /// Wakes whoever sleeps with the lock.
    nudge: WorkSlot<P>,
    accumulated: Mutex<Accumulated>,
}

/// Which tasks this context has accumulated to since it fenced them: what is begun towards them next has to wait.
#[derive(Default)]
struct Accumulated {
    /// Task and number of its last accumulate.
    tasks: Vec<(u32, u64), NOTED>,
    /// Number of the last accumulate to a task that found no room: then all tasks are meant.
    others: Option<u64>,
    count: u64,
}

impl<P: Port> Lane<P> {
    pub(crate) fn new(context: Context<P>) -> Self {
        Self {
            poster: context.poster(),
            context: Mutex::new(Some(context)),
            wanted: AtomicU32::new(0),
            nudge: WorkSlot::default(),
            accumulated: Mutex::new(Accumulated::default()),
        }
    }

    /// Takes the context out for good.
    pub(crate) fn take(&self) -> Option<Context<P>> {
        self.context.lock().take()
    }

    /// Has whoever sleeps with the context look again at what it waits for.
    pub(crate) fn nudge(&'static self) {
        // If the slot is busy the sleeper is being woken already.
        let _ = self.poster.post(&self.nudge, Work { run: &|_, _| Progress::Done, cookie: 0 });
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Calls `act` with the context, when it is this thread's turn.
    pub(crate) fn with<T>(&'static self, act: impl FnOnce(&mut Context<P>) -> T) -> Result<T, Error> {
        let mut guard = match self.context.try_lock() {
            Some(guard) => guard,
            None => {
                self.wanted.fetch_add(1, Ordering::Relaxed);
                self.nudge();
                let guard = self.context.lock();
                self.wanted.fetch_sub(1, Ordering::Relaxed);
                guard
            }
        };
        guard.as_mut().map(act).ok_or(Error::Finalized)
    }

    /// Advances the context until `until` holds, for `timeout_ns` at most, and lets other threads have it in between.
    /// Returns whether it held.
    pub(crate) fn wait_for(
        &'static self,
        timeout_ns: u64,
        mut until: impl FnMut(&mut Active<P>) -> bool,
    ) -> Result<bool, Error> {
        loop {
            let (mut held, mut wanted) = (false, false);
            self.with(|context| {
                held = until(context);
                if !held {
                    context.wait_for(timeout_ns, |active| {
                        held = until(active);
                        wanted = self.is_wanted();
                        held || wanted
                    });
                }
            })?;
            if held || !wanted {
                return Ok(held);
            }
            while self.is_wanted() {
                spin_loop();
            }
        }
    }

    /// Advances the context if nobody has it.
    pub(crate) fn advance(&'static self) -> usize {
        self.context.try_lock().and_then(|mut guard| guard.as_mut().map(Context::advance)).unwrap_or(0)
    }

    /// An accumulate to `task` begins.
    pub(crate) fn note_accumulate(&self, task: u32) {
        let mut noted = self.accumulated.lock();
        noted.count += 1;
        let count = noted.count;
        if let Some(place) = noted.tasks.iter_mut().find(|place| place.0 == task) {
            place.1 = count;
        } else if noted.tasks.push((task, count)).is_err() {
            noted.others = Some(count);
        }
    }

    /// Whether accumulates to `task` may be under way.
    pub(crate) fn has_accumulated(&self, task: u32) -> bool {
        let noted = self.accumulated.lock();
        noted.others.is_some() || noted.tasks.iter().any(|place| place.0 == task)
    }

    /// Accumulates so far.
    pub(crate) fn accumulates(&self) -> u64 {
        self.accumulated.lock().count
    }

    /// `task`, or every task, was fenced: its accumulates up to this number have been carried out.
    pub(crate) fn forget_accumulates(&self, task: Option<u32>, number: u64) {
        let mut noted = self.accumulated.lock();
        let meant = |place: &(u32, u64)| task.is_none_or(|task| task == place.0) && place.1 <= number;
        noted.tasks.retain(|place| !meant(place));
        noted.others = noted.others.filter(|&others| task.is_some() || others > number);
    }
}
