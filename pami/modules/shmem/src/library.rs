//! An instance of the library: what it has, and how its calls go forward (SPEC M-4).

use crate::area::{Area, TEAMS, Teams};
use crate::error::{Error, Result};
use crate::operations::{Factories, Keeper, Operations, PLACES, PendingOperation};
use crate::settings::Settings;
use base::{Completions, Instance};
use heapless::Vec;
use pami::{Active, Context, Endpoint, Node, ObjectMemory, RegionHandle, Shared};
use spin::Mutex;

/// The library at one PE, as it acts on one context: a small handle, which may be copied.
pub struct Shmem<N: Node> {
    pub(crate) inner: &'static Inner<N>,
    pub(crate) context: u8,
}

impl<N: Node> Clone for Shmem<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Node> Copy for Shmem<N> {}

/// All that the library has at one PE. Slices are by context.
pub(crate) struct Inner<N: Node> {
    pub(crate) instance: &'static Instance<N>,
    pub(crate) settings: Settings,
    pub(crate) factories: &'static [Mutex<Option<Factories>>],
    pub(crate) operations: &'static [Operations<N::Port>],
    pub(crate) completions: Completions<N::Port>,
    /// A word for each operation, by its cookie: what is put by value, or got.
    pub(crate) values: Shared,
    pub(crate) teams: Mutex<Teams>,
    pub(crate) areas: Vec<Area<N::Port>, TEAMS>,
}

/// What an operation is begun with.
pub(crate) struct Start<'a, N: Node> {
    pub(crate) factories: &'a Factories,
    /// Memory for PAMI's object.
    pub(crate) object: &'static ObjectMemory<N::Port>,
    /// The number that its callbacks know it by.
    pub(crate) cookie: usize,
}

/// The endpoint of a PE that what is begun on this context goes to.
pub(crate) fn endpoint<N: Node>(active: &Active<N::Port>, pe: u32) -> Endpoint {
    let me = active.endpoint();
    Endpoint::from_parts(me.client(), pe, me.context())
}

impl<N: Node> Shmem<N> {
    /// The same library, acting on another of its contexts (`shmem_ctx_create`).
    ///
    /// # Errors
    /// [`Error::Context`]
    pub fn on_context(self, context: u8) -> Result<Self> {
        let contexts = self.inner.settings.contexts;
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

    /// This PE's number.
    pub fn my_pe(&self) -> u32 {
        self.inner.instance.node().task()
    }

    /// How many PEs there are.
    pub fn n_pes(&self) -> u32 {
        self.inner.instance.node().tasks()
    }

    /// What the library is set to.
    pub fn settings(&self) -> Settings {
        self.inner.settings
    }

    /// Advances all contexts that no other thread has. Returns how much happened.
    pub fn progress(&self) -> usize {
        self.inner.instance.progress()
    }

    /// Has what this context puts to a PE from here on come behind what it put there before, signals and atomics included.
    /// All that is begun on a context towards one PE is carried out in the order of the calls, so there is nothing to do.
    ///
    /// # Errors
    /// [`Error::Finalized`]
    pub fn fence(&self) -> Result {
        self.memory().map(drop)
    }

    /// Waits until all that was begun on this context has been carried out, everywhere.
    ///
    /// # Errors
    /// [`Error::Operation`]: the first failure among operations that nobody waited for.
    pub fn quiet(&self) -> Result {
        let operations = self.operations()?;
        self.advance_until(|_| operations.is_quiet())?;
        Ok(operations.failure()?)
    }

    pub(crate) fn operations(&self) -> Result<&'static Operations<N::Port>> {
        self.inner.operations.get(usize::from(self.context)).ok_or(Error::Finalized)
    }

    /// This PE's heap.
    pub(crate) fn memory(&self) -> Result<&'static Shared> {
        self.inner.instance.segment().ok_or(Error::Finalized)
    }

    /// The heap of another PE.
    pub(crate) fn heap_of(&self, pe: u32) -> Result<RegionHandle> {
        let handles = self.inner.instance.handles().ok_or(Error::Finalized)?;
        handles.get(pe as usize).copied().ok_or(Error::Pe { pe, pes: self.n_pes() })
    }

    /// Calls `act` with this context, when it is this thread's turn.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Context<N::Port>) -> T) -> Result<T> {
        self.inner.instance.with(self.context, act).ok_or(Error::Finalized)
    }

    /// The same library on context 0, which all collectives go through.
    pub(crate) fn first(&self) -> Self {
        Self { context: 0, ..*self }
    }

    /// Advances this context until `until` holds, for `timeout_ns` at most; and now and then others that nobody has, so that
    /// no PE waits for a context whose thread is elsewhere. Returns whether it held.
    pub(crate) fn advance_for(
        &self,
        timeout_ns: u64,
        until: impl FnMut(&mut Active<N::Port>) -> bool,
    ) -> Result<bool> {
        self.inner.instance.advance_for(self.context, timeout_ns, until).ok_or(Error::Finalized)
    }

    /// As [`advance_for`](Self::advance_for), for as long as it takes.
    pub(crate) fn advance_until(&self, mut until: impl FnMut(&mut Active<N::Port>) -> bool) -> Result {
        while !self.advance_for(u64::MAX, &mut until)? {}
        Ok(())
    }

    /// Begins an operation, as soon as there is a place for it. Returns the place.
    pub(crate) fn begin(
        &self,
        operation: PendingOperation,
        mut begin: impl FnMut(&mut Active<N::Port>, Start<N>) -> Result,
    ) -> Result<usize> {
        let (context, operations) = (usize::from(self.context), self.operations()?);
        let factories = self.inner.factories.get(context).ok_or(Error::Finalized)?;
        let mut begun = Err(Error::Finalized);
        self.advance_until(|active| {
            let Some((at, object)) = operations.take(operation) else { return false };
            if let Some(factories) = factories.lock().as_ref() {
                begun =
                    begin(active, Start { factories, object, cookie: context * PLACES + at }).map(|()| at);
            }
            if begun.is_err() {
                operations.cancel(at);
            }
            true
        })?;
        begun
    }

    /// Waits for the first callback of the operation at a place, and leaves it; not if `quiet` does. Returns what a word was.
    pub(crate) fn end(&self, at: usize, keeper: Keeper) -> Result<u64> {
        if keeper == Keeper::Quiet {
            return Ok(0);
        }
        let operations = self.operations()?;
        self.advance_until(|_| operations.is_called(at))?;
        Ok(operations.leave(at)?)
    }
}
