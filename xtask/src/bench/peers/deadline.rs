//! An end to patience with a program, whatever it does.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::helper::Group;

/// Ends a program and all that it started after a time, unless it is dropped or asked before.
pub struct Deadline {
    over: Sender<()>,
    watchdog: JoinHandle<bool>,
}

impl Deadline {
    /// From now on.
    pub fn of(group: Group, patience: Duration) -> Self {
        let (over, ended) = channel::<()>();
        let watchdog = std::thread::spawn(move || {
            let late = matches!(ended.recv_timeout(patience), Err(RecvTimeoutError::Timeout));
            if late {
                group.end();
            }
            late
        });
        Self { over, watchdog }
    }

    /// To be asked when the program has been waited for: whether this ended it.
    pub fn was_missed(self) -> bool {
        drop(self.over);
        self.watchdog.join().unwrap_or(false)
    }
}
