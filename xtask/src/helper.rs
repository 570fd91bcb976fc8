//! Programs that work for this one, such as cargo: each in a process group of its own, so that it can be ended with all
//! that it started, at a deadline or when the user has had enough.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// Groups at work; `None` once [`end_all`] was called.
static GROUPS: Mutex<Option<Vec<Pid>>> = Mutex::new(Some(Vec::new()));

/// A program at work. Dropping it ends it and all that it started.
pub struct Helper {
    child: Child,
    group: Pid,
}

/// The handle by which another thread ends a helper, or has it stand still.
#[derive(Clone, Copy)]
pub struct Group(Pid);

impl Group {
    /// Ends the helper and all that it started.
    pub fn end(self) {
        // It may have ended by itself.
        let _ = kill_process_group(self.0, Signal::KILL);
    }

    /// Has them stand still.
    pub fn pause(self) {
        let _ = kill_process_group(self.0, Signal::STOP);
    }

    /// Has them go on.
    pub fn resume(self) {
        let _ = kill_process_group(self.0, Signal::CONT);
    }
}

impl Helper {
    /// Starts the program.
    ///
    /// # Errors
    /// It cannot be started, or the user wants everything to end.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(groups) = groups.as_mut() else {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
        };
        let child = command.process_group(0).spawn()?;
        let group = Pid::from_child(&child);
        groups.push(group);
        Ok(Self { child, group })
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What ends it from another thread. Of use until [`wait`](Self::wait) has returned.
    pub fn group(&self) -> Group {
        Group(self.group)
    }

    /// Its standard output, if that is a pipe; once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, if that is a pipe; once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait();
        if let Some(groups) = GROUPS.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            groups.retain(|&group| group != self.group);
        }
        status
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // One that has been waited for is no longer there, and its number may be another's.
        if let Ok(None) = self.child.try_wait() {
            self.group().end();
        }
        let _ = self.wait();
    }
}

/// Whether the user wants everything to end.
pub fn over() -> bool {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner).is_none()
}

/// Ends all helpers; none can be started after it.
pub fn end_all() {
    let groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner).take();
    groups.into_iter().flatten().for_each(|group| Group(group).end());
}
