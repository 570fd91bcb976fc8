//! To which tasks a context has accumulated since it fenced them: what is begun towards them next has to wait.

use heapless::Vec;
use spin::Mutex;

/// Tasks that accumulates under way are noted for, one by one.
const NOTED: usize = 16;

/// What is known of one context.
#[derive(Default)]
pub(crate) struct Accumulated(Mutex<Notes>);

#[derive(Default)]
struct Notes {
    /// Task and number of its last accumulate.
    tasks: Vec<(u32, u64), NOTED>,
    /// Number of the last accumulate to a task that found no room: then all tasks are meant.
    others: Option<u64>,
    count: u64,
}

impl Accumulated {
    /// An accumulate to `task` begins.
    pub(crate) fn note(&self, task: u32) {
        let mut noted = self.0.lock();
        noted.count += 1;
        let count = noted.count;
        if let Some(place) = noted.tasks.iter_mut().find(|place| place.0 == task) {
            place.1 = count;
        } else if noted.tasks.push((task, count)).is_err() {
            noted.others = Some(count);
        }
    }

    /// Whether accumulates to `task` may be under way.
    pub(crate) fn has(&self, task: u32) -> bool {
        let noted = self.0.lock();
        noted.others.is_some() || noted.tasks.iter().any(|place| place.0 == task)
    }

    /// Accumulates so far.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// `task`, or every task, was fenced: its accumulates up to this number have been carried out.
    pub(crate) fn forget(&self, task: Option<u32>, number: u64) {
        let mut noted = self.0.lock();
        let meant = |place: &(u32, u64)| task.is_none_or(|task| task == place.0) && place.1 <= number;
        noted.tasks.retain(|place| !meant(place));
        noted.others = noted.others.filter(|&others| task.is_some() || others > number);
    }
}
