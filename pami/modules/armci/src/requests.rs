//! What is under way: a slot for each call that was begun, which counts the operations that it was made of.

use crate::shape::Tables;
use pami::OperationError;
use pami::layout::Cell;
use spin::Mutex;

/// Slots of the library's own and of implicit calls, beside those of handles.
pub(crate) const OWN: usize = 16;

/// Who looks after the end of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Whoever has the handle.
    Handle,
    /// Nobody: the slot is free when all is done.
    Implicit,
    /// The call itself, before it returns.
    Own,
}

#[derive(Clone, Copy)]
struct Call {
    kind: Kind,
    task: u32,
    context: u8,
    /// Operations that are under way, and one while the call is being issued.
    pending: u32,
    /// What a word was.
    value: u64,
    result: Result<(), OperationError>,
}

/// All slots of a task.
pub(crate) struct Requests {
    slots: &'static [Slot],
    /// The first failure among implicit calls, by context.
    failures: &'static [Mutex<Option<OperationError>>],
}

pub(crate) struct Slot {
    call: Mutex<Option<Call>>,
    tables: Tables,
}

impl Slot {
    /// With [`Tables::CELLS`] cells.
    pub(crate) fn new(cells: &'static [Cell]) -> Self {
        Self { call: Mutex::new(None), tables: Tables::new(cells) }
    }
}

impl Requests {
    pub(crate) fn new(slots: &'static [Slot], failures: &'static [Mutex<Option<OperationError>>]) -> Self {
        Self { slots, failures }
    }

    /// Begins a call towards `task`, if there is a slot.
    pub(crate) fn begin(&self, kind: Kind, task: u32, context: u8) -> Option<usize> {
        let call = Call { kind, task, context, pending: 1, value: 0, result: Ok(()) };
        self.slots.iter().position(|slot| {
            let mut slot = slot.call.lock();
            let free = slot.is_none();
            if free {
                *slot = Some(call);
            }
            free
        })
    }

    /// Where the layouts of a call lie, until it has ended.
    pub(crate) fn tables(&self, slot: usize) -> Option<&'static Tables> {
        self.slots.get(slot).map(|slot| &slot.tables)
    }

    /// Most handles that there can be.
    pub(crate) fn limit(&self) -> usize {
        self.slots.len().saturating_sub(OWN)
    }

    /// How many calls have handles.
    pub(crate) fn handles(&self) -> usize {
        let has = |slot: &&Slot| slot.call.lock().is_some_and(|call| call.kind == Kind::Handle);
        self.slots.iter().filter(has).count()
    }

    /// One more operation of a call begins.
    pub(crate) fn add(&self, slot: usize) {
        if let Some(slot) = self.slots.get(slot)
            && let Some(call) = slot.call.lock().as_mut()
        {
            call.pending += 1;
        }
    }

    /// An operation of a call, or its issue, has ended.
    pub(crate) fn end(&self, slot: usize, result: Result<u64, OperationError>) {
        let Some(place) = self.slots.get(slot) else { return };
        let mut place = place.call.lock();
        let Some(call) = place.as_mut() else { return };
        call.pending = call.pending.saturating_sub(1);
        match result {
            Ok(value) => call.value |= value,
            Err(error) => call.result = call.result.and(Err(error)),
        }
        let Call { kind, context, pending, result, .. } = *call;
        if pending == 0 && kind == Kind::Implicit {
            *place = None;
            if let (Err(error), Some(failure)) = (result, self.failures.get(usize::from(context))) {
                failure.lock().get_or_insert(error);
            }
        }
    }

    /// Whether nothing of a call is under way.
    pub(crate) fn is_done(&self, slot: usize) -> bool {
        self.slots.get(slot).is_none_or(|slot| slot.call.lock().is_none_or(|call| call.pending == 0))
    }

    /// The end of a call that is done: its slot is free.
    pub(crate) fn take(&self, slot: usize) -> Result<u64, OperationError> {
        let call = self.slots.get(slot).and_then(|slot| slot.call.lock().take());
        call.map_or(Ok(0), |call| call.result.map(|()| call.value))
    }

    /// Whether an implicit call of `context` is under way, towards `task` or anyone.
    pub(crate) fn has_implicit(&self, context: u8, task: Option<u32>) -> bool {
        self.slots.iter().any(|slot| {
            slot.call.lock().is_some_and(|call| {
                let meant = task.is_none_or(|task| task == call.task);
                meant && call.kind == Kind::Implicit && call.context == context
            })
        })
    }

    /// The first failure of implicit calls of `context` since this was last asked.
    pub(crate) fn failure(&self, context: u8) -> Result<(), OperationError> {
        let failure = self.failures.get(usize::from(context)).and_then(|failure| failure.lock().take());
        failure.map_or(Ok(()), Err)
    }
}
