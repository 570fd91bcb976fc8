//! Mutexes: each has an owner, a task that keeps who holds it and a fair queue of who waits.

use crate::error::Error;
use crate::library::Library;
use crate::lock_table::LockMessage;
use pami::Node;
use zerocopy::IntoBytes;

/// How long a thread waits before it asks whether the owner still lives.
const PROBE_NS: u64 = 500_000_000;

/// A mutex that this task holds, until it is given to [`Library::unlock`].
#[must_use = "a mutex is held until it is unlocked"]
#[derive(PartialEq, Eq, Debug)]
pub struct Held {
    owner: u32,
    mutex: u32,
    context: u8,
}

impl<N: Node> Library<N> {
    /// Creates `count` mutexes at this task, numbered from 0. Collective; each task may create another number.
    ///
    /// # Errors
    /// [`Error::Mutexes`] if there are some, or more than the settings have places for; [`Error::Operation`],
    /// [`Error::Collect`].
    pub fn create_mutexes(&self, count: u32) -> Result<(), Error> {
        let created = self.register_mutexes().and_then(|()| self.inner.mutexes.create(count));
        // The others are not to wait for a task that is mistaken.
        self.group_barrier(&self.world())?;
        created
    }

    fn register_mutexes(&self) -> Result<(), Error> {
        let mut client = self.inner.instance.client();
        self.inner.registered.register_mutexes(client.as_mut().ok_or(Error::Finalized)?)
    }

    /// Destroys the mutexes of all tasks. Collective; whoever asks for one afterwards is refused.
    ///
    /// # Errors
    /// [`Error::MutexHeld`] with one of this task's that is in use: then this task's stay. [`Error::Operation`],
    /// [`Error::Collect`].
    pub fn destroy_mutexes(&self) -> Result<(), Error> {
        // The owner hears of what was unlocked first, on whatever context.
        self.fence_contexts()?;
        self.group_barrier(&self.world())?;
        let destroyed = self.inner.mutexes.destroy();
        // Nobody is to ask an owner that has yet to come out of the first barrier.
        self.group_barrier(&self.world())?;
        destroyed
    }

    /// Waits for a mutex of `owner`. Those that wait get it in the order in which the owner heard of them.
    ///
    /// # Errors
    /// [`Error::NoMutex`], [`Error::LockPending`], [`Error::Task`], [`Error::Send`]; [`Error::Operation`] if the owner has
    /// died.
    pub fn lock(&self, mutex: u32, owner: u32) -> Result<Held, Error> {
        let target = self.endpoint(owner)?;
        if !self.inner.registered.has_mutexes() {
            return Err(Error::NoMutex { task: owner, mutex });
        }
        let mutexes = self.inner.mutexes;
        mutexes.begin_wait(self.context, owner, mutex)?;
        let header = LockMessage::lock(mutex);
        let asked = self.attempt(|active| self.inner.protocols.send(active, target, header.as_bytes()));
        let answered = asked.and_then(|()| self.await_answer(owner));
        mutexes.end_wait(self.context);
        if answered? {
            Ok(Held { owner, mutex, context: self.context })
        } else {
            Err(Error::NoMutex { task: owner, mutex })
        }
    }

    fn await_answer(&self, owner: u32) -> Result<bool, Error> {
        loop {
            let mut answer = None;
            self.advance_for(PROBE_NS, |_| {
                answer = self.inner.mutexes.answer(self.context);
                answer.is_some()
            })?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
            // An owner that died never answers, and a fence finds that out.
            self.fence(owner)?;
        }
    }

    /// Gives a mutex to the next who waits for it. What was put or accumulated under it is there for him only if it was
    /// fenced.
    ///
    /// # Errors
    /// [`Error::Send`]
    pub fn unlock(&self, held: Held) -> Result<(), Error> {
        let on = Self { context: held.context, ..*self };
        let (target, header) = (on.endpoint(held.owner)?, LockMessage::unlock(held.mutex));
        on.attempt(|active| self.inner.protocols.send(active, target, header.as_bytes()))
    }
}
