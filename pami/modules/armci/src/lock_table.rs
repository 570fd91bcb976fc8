//! What a task keeps for the mutexes that it owns, and for its threads that wait for others' mutexes.
//!
//! ```text
//! LOCK   waiter -> owner    free: answered at once; held: queued
//! UNLOCK holder -> owner    the first of the queue is answered
//! ANSWER owner -> waiter    it holds the mutex, or there is no such mutex
//! ```
//!
//! A waiter is a context of a task, and waits for one mutex at a time; so the queues of all mutexes are lists through one
//! table of waiters. An answer that finds no room is sent by work that is posted to the context.

use crate::error::Error;
use crate::protocols::Registered;
use crate::settings::Settings;
use base::{OutOfMemory, fill, place};
use pami::device::Port;
use pami::endpoint::ContextOffset;
use pami::{Active, Endpoint, Node, Progress, SendError, Work, WorkSlot};
use rings::list::{Link, List};
use spin::Mutex;
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const LOCK: u8 = 0;
const UNLOCK: u8 = 1;
const GRANTED: u8 = 2;
const REFUSED: u8 = 3;

/// No holder.
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LockMessage {
    what: u8,
    zeros: [u8; 3],
    mutex: U32,
}

impl LockMessage {
    fn new(what: u8, mutex: u32) -> Self {
        Self { what, zeros: [0; 3], mutex: mutex.into() }
    }

    /// Asks the owner for a mutex.
    pub(crate) fn lock(mutex: u32) -> Self {
        Self::new(LOCK, mutex)
    }

    /// Gives it back.
    pub(crate) fn unlock(mutex: u32) -> Self {
        Self::new(UNLOCK, mutex)
    }
}

#[derive(Clone, Copy)]
struct Waiter {
    /// In a mutex's queue, or to be answered.
    listed: bool,
    mutex: u32,
    granted: bool,
}

/// A mutex of this task's.
#[derive(Clone, Copy)]
struct Owned {
    holder: u32,
    queue: List,
}

/// What this task keeps for the mutexes that it owns.
struct Table {
    mutexes: &'static mut [Owned],
    created: u32,
    waiters: &'static mut [Waiter],
    /// By waiter.
    links: &'static mut [Link],
    /// Those that are to be answered.
    answers: List,
}

/// A thread of this task that waits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pending {
    owner: u32,
    mutex: u32,
    /// Whether it has the mutex, once it is answered.
    answer: Option<bool>,
}

/// Mutexes of this task, and what its contexts wait for.
pub(crate) struct Mutexes<P: Port> {
    contexts: u8,
    table: &'static Mutex<Table>,
    pending: &'static [Mutex<Option<Pending>>],
    /// By context.
    slots: &'static [WorkSlot<P>],
    answer: &'static (dyn Fn(&mut Active<P>, usize) -> Progress + Sync),
}

impl Table {
    /// Gives a mutex to the first who waits for it.
    fn pass_on(&mut self, mutex: u32) {
        let Some(owned) = self.mutexes.get_mut(mutex as usize) else { return };
        owned.holder = owned.queue.pop(self.links).unwrap_or(NOBODY);
        if let Some(waiter) = self.waiters.get_mut(owned.holder as usize) {
            waiter.granted = true;
            self.answers.push(self.links, owned.holder);
        }
    }

    /// Whether there is somebody to be answered now.
    fn lock(&mut self, who: u32, mutex: u32) -> bool {
        // Whoever waits already asks for nothing else.
        let Some(waiter) = self.waiters.get_mut(who as usize).filter(|waiter| !waiter.listed) else {
            return false;
        };
        *waiter = Waiter { listed: true, mutex, granted: false };
        match self.mutexes.get_mut(mutex as usize).filter(|_| mutex < self.created) {
            None => self.answers.push(self.links, who),
            Some(owned) => {
                owned.queue.push(self.links, who);
                if owned.holder != NOBODY {
                    return false;
                }
                self.pass_on(mutex);
            }
        }
        true
    }

    /// Whether there is somebody to be answered now. Only the holder can unlock.
    fn unlock(&mut self, who: u32, mutex: u32) -> bool {
        let holds = self.mutexes.get(mutex as usize).is_some_and(|owned| owned.holder == who);
        if holds {
            self.pass_on(mutex);
        }
        holds
    }

    /// Answers as many as there is room for.
    fn answer<P: Port>(
        &mut self,
        active: &mut Active<P>,
        contexts: u8,
        registered: &Registered<P>,
    ) -> Progress {
        let client = active.endpoint().client();
        while let Some(who) = self.answers.first()
            && let Some(waiter) = self.waiters.get_mut(who as usize)
        {
            let (each, Waiter { mutex, granted, .. }) = (u32::from(contexts.max(1)), *waiter);
            let target = Endpoint::from_parts(client, who / each, ContextOffset((who % each) as u8));
            let header = LockMessage::new(if granted { GRANTED } else { REFUSED }, mutex);
            let sent = registered.send(active, target, header.as_bytes());
            if sent == Err(SendError::Again) {
                return Progress::Again;
            }
            waiter.listed = false;
            self.answers.pop(self.links);
            // A holder that does not live any more holds nothing.
            if sent.is_err() && granted {
                self.pass_on(mutex);
            }
        }
        Progress::Done
    }
}

impl<P: Port> Mutexes<P> {
    pub(crate) fn place<N: Node<Port = P>>(
        node: &N,
        settings: &Settings,
        registered: &'static Registered<P>,
    ) -> Result<&'static Self, OutOfMemory> {
        let contexts = settings.contexts;
        let count = (node.tasks() as usize).saturating_mul(contexts.into());
        let nobody = Waiter { listed: false, mutex: 0, granted: false };
        let free = Owned { holder: NOBODY, queue: List::EMPTY };
        let table = Table {
            mutexes: fill(node, "mutexes", settings.mutexes as usize, || free)?,
            created: 0,
            waiters: fill(node, "mutexes", count, || nobody)?,
            links: fill(node, "mutexes", count, Link::default)?,
            answers: List::EMPTY,
        };
        let table: &'static Mutex<Table> = place(node, "mutexes", Mutex::new(table))?;
        let answer = place(node, "mutexes", move |active: &mut Active<P>, _: usize| {
            table.lock().answer(active, contexts, registered)
        })?;
        let pending = fill(node, "mutexes", contexts.into(), || Mutex::new(None))?;
        let slots = fill(node, "mutexes", contexts.into(), WorkSlot::default)?;
        let mutexes = place(node, "mutexes", Self { contexts, table, pending, slots, answer })?;
        Ok(mutexes)
    }

    /// From now on there are `count`, numbered from 0.
    ///
    /// # Errors
    /// [`Error::Mutexes`]: there are some, or there is no room for so many.
    pub(crate) fn create(&self, count: u32) -> Result<(), Error> {
        let mut table = self.table.lock();
        let limit = table.mutexes.len() as u32;
        if table.created > 0 || count > limit {
            return Err(Error::Mutexes { limit });
        }
        table.created = count;
        Ok(())
    }

    /// From now on there are none.
    ///
    /// # Errors
    /// [`Error::MutexHeld`] with one that is in use: then all stay.
    pub(crate) fn destroy(&self) -> Result<(), Error> {
        let mut table = self.table.lock();
        let mut created = table.mutexes.iter().take(table.created as usize);
        if let Some(mutex) = created.position(|owned| owned.holder != NOBODY) {
            return Err(Error::MutexHeld(mutex as u32));
        }
        table.created = 0;
        Ok(())
    }

    /// A thread is about to ask `owner` for a mutex, and waits on this context.
    ///
    /// # Errors
    /// [`Error::LockPending`] if another one does; [`Error::Finalized`] without such a context.
    pub(crate) fn begin_wait(&self, context: u8, owner: u32, mutex: u32) -> Result<(), Error> {
        let mut pending = self.pending.get(usize::from(context)).ok_or(Error::Finalized)?.lock();
        if pending.is_some() {
            return Err(Error::LockPending(context));
        }
        *pending = Some(Pending { owner, mutex, answer: None });
        Ok(())
    }

    /// What the owner has said to the thread that waits on this context: whether it has the mutex.
    pub(crate) fn answer(&self, context: u8) -> Option<bool> {
        self.pending.get(usize::from(context))?.lock().as_ref()?.answer
    }

    /// Nobody waits on this context any more.
    pub(crate) fn end_wait(&self, context: u8) {
        if let Some(pending) = self.pending.get(usize::from(context)) {
            *pending.lock() = None;
        }
    }

    /// A message has come.
    pub(crate) fn handle(&self, active: &mut Active<P>, message: &pami::Message<'_>) {
        let Ok(LockMessage { what, mutex, .. }) = LockMessage::read_from_bytes(message.header) else {
            return;
        };
        let (mutex, origin, context) = (mutex.get(), message.origin, active.endpoint().context());
        if matches!(what, GRANTED | REFUSED) {
            if let Some(pending) = self.pending.get(usize::from(context.0))
                && let Some(pending) = pending.lock().as_mut()
                && (pending.owner, pending.mutex) == (origin.task(), mutex)
            {
                pending.answer = Some(what == GRANTED);
            }
            return;
        }
        if origin.context().0 >= self.contexts {
            return;
        }
        let who =
            origin.task().saturating_mul(self.contexts.into()).saturating_add(origin.context().0.into());
        let due = match what {
            LOCK => self.table.lock().lock(who, mutex),
            UNLOCK => self.table.lock().unlock(who, mutex),
            _ => false,
        };
        if let Some(slot) = self.slots.get(usize::from(context.0)).filter(|_| due) {
            // If it is posted already it answers this one, too.
            let _ = active.poster().post(slot, Work { run: self.answer, cookie: 0 });
        }
    }
}
