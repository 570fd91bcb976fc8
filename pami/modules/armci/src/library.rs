//! An instance of the library: what it has, and how its calls go forward (SPEC M-4).

use crate::accumulated::Accumulated;
use crate::address::{GlobalAddress, Local};
use crate::error::Error;
use crate::exchange::Areas;
use crate::lock_table::Mutexes;
use crate::protocols::{Protocols, Registered};
use crate::requests::{RequestKind, Requests};
use crate::settings::{Settings, Wait};
use crate::shape::{Plan, Shape};
use base::{Instance, Lane};
use pami::{Active, Context, Endpoint, Node, RegionHandle, SendError, Shared};
use spin::Mutex;

/// The library at one task, as it acts on one context: a small handle, which may be copied.
pub struct Library<N: Node> {
    pub(crate) inner: &'static Inner<N>,
    pub(crate) context: u8,
}

impl<N: Node> Clone for Library<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Node> Copy for Library<N> {}

/// All that the library has at one task.
pub(crate) struct Inner<N: Node> {
    pub(crate) instance: &'static Instance<N>,
    /// By context.
    pub(crate) accumulated: &'static [Accumulated],
    pub(crate) settings: Mutex<Settings>,
    pub(crate) requests: &'static Requests,
    pub(crate) protocols: Protocols<N::Port>,
    pub(crate) registered: &'static Registered<N::Port>,
    pub(crate) mutexes: &'static Mutexes<N::Port>,
    pub(crate) areas: Areas,
}

impl<N: Node> Library<N> {
    /// The same library, acting on another of its contexts.
    ///
    /// # Errors
    /// [`Error::Context`]
    pub fn on_context(self, context: u8) -> Result<Self, Error> {
        let contexts = self.settings().contexts;
        if context < contexts {
            Ok(Self { context, ..self })
        } else {
            Err(Error::Context { context, contexts })
        }
    }

    /// The context that calls act on.
    pub fn context(&self) -> u8 {
        self.context
    }

    /// This task.
    pub fn task(&self) -> u32 {
        self.inner.instance.node().task()
    }

    /// Number of tasks.
    pub fn tasks(&self) -> u32 {
        self.inner.instance.node().tasks()
    }

    /// What the library is set to.
    pub fn settings(&self) -> Settings {
        *self.inner.settings.lock()
    }

    /// Changes how calls wait, on all contexts.
    ///
    /// # Errors
    /// [`Error::Finalized`]
    pub fn set_wait(&self, wait: Wait) -> Result<(), Error> {
        for context in 0..self.settings().contexts {
            Self { context, ..*self }.with(|context| context.set_polls(wait.polls()))?;
        }
        self.inner.settings.lock().wait = wait;
        Ok(())
    }

    /// Changes how many handles can be in use at a time.
    ///
    /// # Errors
    /// [`Error::Setting`] beyond what there were at the start.
    pub fn set_handles(&self, handles: usize) -> Result<(), Error> {
        if handles == 0 || handles > self.inner.requests.limit() {
            return Err(Error::Setting("handles", "from 1 to what they were at the start"));
        }
        self.inner.settings.lock().handles = handles;
        Ok(())
    }

    /// The memory of this task's slab: what is allocated here lies in it at its address's offset.
    ///
    /// # Errors
    /// [`Error::Finalized`]
    pub fn slab(&self) -> Result<Shared, Error> {
        self.inner.instance.segment().cloned().ok_or(Error::Finalized)
    }

    /// Advances all contexts that no other thread has. Returns how much happened.
    pub fn progress(&self) -> usize {
        self.inner.instance.progress()
    }

    pub(crate) fn lane(&self) -> Result<&'static Lane<N::Port>, Error> {
        self.inner.instance.lane(self.context).ok_or(Error::Finalized)
    }

    pub(crate) fn accumulated(&self) -> Result<&'static Accumulated, Error> {
        self.inner.accumulated.get(usize::from(self.context)).ok_or(Error::Finalized)
    }

    /// Calls `act` with this context, when it is this thread's turn.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Context<N::Port>) -> T) -> Result<T, Error> {
        self.inner.instance.with(self.context, act).ok_or(Error::Finalized)
    }

    /// The same library on context 0, which all collectives go through.
    pub(crate) fn first(&self) -> Self {
        Self { context: 0, ..*self }
    }

    /// The endpoint of a task that answers what is begun on this context.
    pub(crate) fn endpoint(&self, task: u32) -> Result<Endpoint, Error> {
        let client = self.inner.instance.client();
        let client = client.as_ref().ok_or(Error::Finalized)?;
        client.endpoint(task, self.context).map_err(|_| Error::Task(task))
    }

    /// What a call has to move.
    ///
    /// # Errors
    /// [`Error::Levels`], [`Error::TooLong`]
    pub(crate) fn plan<'a>(&self, shape: Shape<'a>, slot: usize) -> Result<Plan<'a>, Error> {
        let limit = self.settings().handles;
        Plan::new(shape, self.inner.requests.tables(slot).ok_or(Error::NoHandle { limit })?)
    }

    /// Whether a transfer stays inside the memory on both sides; the region of the remote one.
    pub(crate) fn check(
        &self,
        local: Local,
        remote: GlobalAddress,
        plan: &Plan,
    ) -> Result<RegionHandle, Error> {
        let reach = plan.reach;
        let (offset, len) = (local.offset, local.memory.len());
        // The messaging layer names places in 32 bits.
        let most = len.min(u32::MAX as usize) as u64;
        if (offset as u64).checked_add(reach.local).is_none_or(|end| end > most) {
            return Err(Error::Local { offset, reach: reach.local, len });
        }
        self.check_remote(remote, reach.remote)
    }

    /// The region of an address's task, if `reach` bytes from the address on lie in it.
    pub(crate) fn check_remote(&self, remote: GlobalAddress, reach: u64) -> Result<RegionHandle, Error> {
        let handles = self.inner.instance.handles().ok_or(Error::Finalized)?;
        let region = handles.get(remote.task as usize).ok_or(Error::Task(remote.task))?;
        if u64::from(remote.offset).saturating_add(reach) > u64::from(region.len()) {
            return Err(Error::Outside { address: remote, reach });
        }
        Ok(*region)
    }

    /// Advances this context until `until` holds, for `timeout_ns` at most; and now and then others that nobody has, so that
    /// no task waits for a context whose thread is elsewhere. Returns whether it held.
    pub(crate) fn advance_for(
        &self,
        timeout_ns: u64,
        until: impl FnMut(&mut Active<N::Port>) -> bool,
    ) -> Result<bool, Error> {
        self.inner.instance.advance_for(self.context, timeout_ns, until).ok_or(Error::Finalized)
    }

    /// As [`advance_for`](Self::advance_for), for as long as it takes.
    pub(crate) fn advance_until(
        &self,
        mut until: impl FnMut(&mut Active<N::Port>) -> bool,
    ) -> Result<(), Error> {
        while !self.advance_for(u64::MAX, &mut until)? {}
        Ok(())
    }

    /// Tries until there is room.
    pub(crate) fn attempt<T>(
        &self,
        mut attempt: impl FnMut(&mut Active<N::Port>) -> Result<T, SendError>,
    ) -> Result<T, Error> {
        let mut outcome = Err(SendError::Again);
        self.advance_until(|active| {
            outcome = attempt(active);
            !matches!(outcome, Err(SendError::Again))
        })?;
        Ok(outcome?)
    }

    /// Begins a call of this context.
    pub(crate) fn begin(&self, kind: RequestKind, task: u32) -> Result<usize, Error> {
        let (requests, limit) = (self.inner.requests, self.settings().handles);
        if kind == RequestKind::Handle && requests.handles() >= limit {
            return Err(Error::NoHandle { limit });
        }
        let mut slot = None;
        self.advance_until(|_| {
            slot = requests.begin(kind, task, self.context);
            slot.is_some()
        })?;
        // The wait ended because there is one.
        slot.ok_or(Error::NoHandle { limit })
    }

    /// Begins an operation of a call.
    pub(crate) fn operate(
        &self,
        slot: usize,
        attempt: impl FnMut(&mut Active<N::Port>) -> Result<(), SendError>,
    ) -> Result<(), Error> {
        self.inner.requests.add(slot);
        let outcome = self.attempt(attempt);
        if outcome.is_err() {
            self.inner.requests.end(slot, Ok(0));
        }
        outcome
    }

    /// A call was issued, or was found impossible on the way: it ends when what was begun of it has ended.
    pub(crate) fn issued(&self, slot: usize, outcome: Result<(), Error>) -> Result<(), Error> {
        self.inner.requests.end(slot, Ok(0));
        outcome
    }

    /// Waits for a call of the library's own.
    pub(crate) fn finish(&self, slot: usize, outcome: Result<(), Error>) -> Result<u64, Error> {
        let requests = self.inner.requests;
        let issued = self.issued(slot, outcome);
        self.advance_until(|_| requests.is_done(slot))?;
        let result = requests.take(slot).map_err(Error::Operation);
        issued.and(result)
    }
}
