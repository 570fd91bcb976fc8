//! Puts, gets and accumulates, blocking and not (SPEC P-7, P-10).

use crate::address::{GlobalAddress, Local};
use crate::error::Error;
use crate::library::Library;
use crate::protocols::Ends;
use crate::requests::RequestKind;
use crate::shape::Shape;
use crate::update::Integer;
use pami::{Factor, Node};

/// A call that was begun: to be waited for, once.
#[must_use = "a handle is in use until it is waited for"]
#[derive(PartialEq, Eq, Debug)]
pub struct Handle {
    slot: usize,
    context: u8,
}

/// Which way data flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Put,
    Get,
}

impl<N: Node> Library<N> {
    /// Writes from local memory to `to`. Returns when the local memory may change.
    ///
    /// # Errors
    /// [`Error::Local`], [`Error::Outside`], [`Error::Levels`], [`Error::TooLong`], [`Error::Task`], [`Error::Send`],
    /// [`Error::Operation`]
    pub fn put<'a>(&self, from: Local, to: GlobalAddress, shape: impl Into<Shape<'a>>) -> Result<(), Error> {
        self.blocking(to.task, |slot| self.move_data(Direction::Put, from, to, shape.into(), slot))
    }

    /// Reads from `from` into local memory. Returns when the data is there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn get<'a>(
        &self,
        from: GlobalAddress,
        into: Local,
        shape: impl Into<Shape<'a>>,
    ) -> Result<(), Error> {
        self.blocking(from.task, |slot| self.move_data(Direction::Get, into, from, shape.into(), slot))
    }

    /// As [`put`](Self::put); the handle ends when the local memory may change.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::NoHandle`].
    pub fn put_nb<'a>(
        &self,
        from: Local,
        to: GlobalAddress,
        shape: impl Into<Shape<'a>>,
    ) -> Result<Handle, Error> {
        self.with_handle(to.task, |slot| self.move_data(Direction::Put, from, to, shape.into(), slot))
    }

    /// As [`get`](Self::get); the handle ends when the data is there.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::NoHandle`].
    pub fn get_nb<'a>(
        &self,
        from: GlobalAddress,
        into: Local,
        shape: impl Into<Shape<'a>>,
    ) -> Result<Handle, Error> {
        self.with_handle(from.task, |slot| self.move_data(Direction::Get, into, from, shape.into(), slot))
    }

    /// As [`put_nb`](Self::put_nb), for [`wait_all`](Self::wait_all) or [`wait_task`](Self::wait_task) to wait for.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_implicit<'a>(
        &self,
        from: Local,
        to: GlobalAddress,
        shape: impl Into<Shape<'a>>,
    ) -> Result<(), Error> {
        self.implicit(to.task, |slot| self.move_data(Direction::Put, from, to, shape.into(), slot))
    }

    /// As [`get_nb`](Self::get_nb), for [`wait_all`](Self::wait_all) or [`wait_task`](Self::wait_task) to wait for.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn get_implicit<'a>(
        &self,
        from: GlobalAddress,
        into: Local,
        shape: impl Into<Shape<'a>>,
    ) -> Result<(), Error> {
        self.implicit(from.task, |slot| self.move_data(Direction::Get, into, from, shape.into(), slot))
    }

    /// As [`put`](Self::put), and behind the data sets the integer at `flag`, which must be of the same task: whoever sees it
    /// set finds the data.
    ///
    /// # Errors
    /// As [`put`](Self::put) and [`swap`](Self::swap); [`Error::Task`] if the flag is another task's.
    pub fn put_flag<'a, T: Integer>(
        &self,
        from: Local,
        to: GlobalAddress,
        shape: impl Into<Shape<'a>>,
        flag: GlobalAddress,
        value: T,
    ) -> Result<(), Error> {
        if flag.task != to.task {
            return Err(Error::Task(flag.task));
        }
        self.check_word(flag, T::WIDTH)?;
        self.blocking(to.task, |slot| {
            self.move_data(Direction::Put, from, to, shape.into(), slot)?;
            self.set(flag, value, slot)
        })
    }

    /// Adds `scale` times the local elements to those at `to`, each atomically. Returns when the local memory may change, which
    /// may be not before the target was in a call of the library's.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::Unaligned`].
    pub fn accumulate<'a>(
        &self,
        scale: Factor,
        from: Local,
        to: GlobalAddress,
        shape: impl Into<Shape<'a>>,
    ) -> Result<(), Error> {
        self.blocking(to.task, |slot| self.begin_accumulate(scale, from, to, shape.into(), slot))
    }

    /// As [`accumulate`](Self::accumulate), with a handle, which ends when the local memory may change.
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate); [`Error::NoHandle`].
    pub fn accumulate_nb<'a>(
        &self,
        scale: Factor,
        from: Local,
        to: GlobalAddress,
        shape: impl Into<Shape<'a>>,
    ) -> Result<Handle, Error> {
        self.with_handle(to.task, |slot| self.begin_accumulate(scale, from, to, shape.into(), slot))
    }

    /// Waits for the end of a call.
    ///
    /// # Errors
    /// [`Error::Operation`]
    pub fn wait(&self, handle: Handle) -> Result<(), Error> {
        let (slot, requests) = (handle.slot, self.inner.requests);
        Self { context: handle.context, ..*self }.advance_until(|_| requests.is_done(slot))?;
        requests.take(slot).map(drop).map_err(Error::Operation)
    }

    /// Advances the library and says whether a call has ended; [`wait`](Self::wait) then returns at once.
    ///
    /// # Errors
    /// [`Error::Finalized`]
    pub fn test(&self, handle: &Handle) -> Result<bool, Error> {
        Self { context: handle.context, ..*self }.lane()?.advance();
        Ok(self.inner.requests.is_done(handle.slot))
    }

    /// Waits for all implicit calls of this context.
    ///
    /// # Errors
    /// [`Error::Operation`]: the first failure among them.
    pub fn wait_all(&self) -> Result<(), Error> {
        self.wait_implicit(None)
    }

    /// Waits for all implicit calls of this context towards `task`.
    ///
    /// # Errors
    /// [`Error::Operation`]: the first failure among implicit calls.
    pub fn wait_task(&self, task: u32) -> Result<(), Error> {
        self.wait_implicit(Some(task))
    }

    fn wait_implicit(&self, task: Option<u32>) -> Result<(), Error> {
        let requests = self.inner.requests;
        self.advance_until(|_| !requests.has_implicit(self.context, task))?;
        Ok(requests.failure(self.context)?)
    }

    fn blocking(&self, task: u32, issue: impl FnOnce(usize) -> Result<(), Error>) -> Result<(), Error> {
        let slot = self.begin(RequestKind::Own, task)?;
        self.finish(slot, issue(slot)).map(drop)
    }

    fn implicit(&self, task: u32, issue: impl FnOnce(usize) -> Result<(), Error>) -> Result<(), Error> {
        let slot = self.begin(RequestKind::Implicit, task)?;
        self.issued(slot, issue(slot))
    }

    fn with_handle(
        &self,
        task: u32,
        issue: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<Handle, Error> {
        let slot = self.begin(RequestKind::Handle, task)?;
        let outcome = issue(slot);
        if outcome.is_err() {
            // What was begun of it is over before the caller has its memory back.
            self.finish(slot, outcome)?;
        } else {
            self.issued(slot, outcome)?;
        }
        Ok(Handle { slot, context: self.context })
    }

    /// Begins the operations of a put or get.
    fn move_data(
        &self,
        direction: Direction,
        local: Local,
        remote: GlobalAddress,
        shape: Shape,
        slot: usize,
    ) -> Result<(), Error> {
        let plan = self.plan(shape, slot)?;
        let region = self.check(local, remote, &plan)?;
        self.follow_accumulates(remote.task)?;
        let target = self.endpoint(remote.task)?;
        let (memory, at, offset) = (local.memory, local.offset, remote.offset);
        let ends = Ends { target, region, offset, memory, at };
        let protocols = &self.inner.protocols;
        plan.pieces(|piece| {
            self.operate(slot, |active| match direction {
                Direction::Put => protocols.put(active, &ends, &piece, slot),
                Direction::Get => protocols.get(active, &ends, &piece, slot),
            })
        })
    }
}
