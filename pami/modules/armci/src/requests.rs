//! What is under way: a slot for each call that was begun, which counts the operations that it was made of.

use crate::shape::Tables;
use pami::OperationError;
use rings::slot_table::{Slot, SlotTable};
use spin::Mutex;

/// Slots of the library's own and of implicit calls, beside those of handles.
pub(crate) const OWN: usize = 16;

/// Who looks after the end of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestKind {
    /// Whoever has the handle.
    Handle,
    /// Nobody: the slot is free when all is done.
    Implicit,
    /// The call itself, before it returns.
    Own,
}

pub(crate) struct Call {
    kind: RequestKind,
    task: u32,
    context: u8,
    /// Operations that are under way, and one while the call is being issued.
    pending: u32,
    /// What a word was.
    value: u64,
    result: Result<(), OperationError>,
}

/// What is under way of a task.
pub(crate) struct Requests {
    calls: Mutex<Calls>,
    /// By slot.
    tables: &'static [Tables],
}

struct Calls {
    table: SlotTable<Call>,
    /// The first failure among implicit calls, by context.
    failures: &'static mut [Option<OperationError>],
}

impl Requests {
    /// Calls have [`Tables::CELLS`] cells each, by slot.
    pub(crate) fn new(
        slots: &'static mut [Slot<Call>],
        tables: &'static [Tables],
        failures: &'static mut [Option<OperationError>],
    ) -> Self {
        Self { calls: Mutex::new(Calls { table: SlotTable::new(slots), failures }), tables }
    }

    /// Begins a call towards `task`, if there is a slot.
    pub(crate) fn begin(&self, kind: RequestKind, task: u32, context: u8) -> Option<usize> {
        let call = Call { kind, task, context, pending: 1, value: 0, result: Ok(()) };
        self.calls.lock().table.insert(call).ok().map(|key| key.index as usize)
    }

    /// Where the layouts of a call lie, until it has ended.
    pub(crate) fn tables(&self, slot: usize) -> Option<&'static Tables> {
        self.tables.get(slot)
    }

    /// Most handles that there can be.
    pub(crate) fn limit(&self) -> usize {
        self.tables.len().saturating_sub(OWN)
    }

    /// How many calls have handles.
    pub(crate) fn handles(&self) -> usize {
        self.calls.lock().table.values().filter(|call| call.kind == RequestKind::Handle).count()
    }

    /// One more operation of a call begins.
    pub(crate) fn add(&self, slot: usize) {
        if let Some(call) = self.calls.lock().table.get_mut(slot as u32) {
            call.pending += 1;
        }
    }

    /// An operation of a call, or its issue, has ended.
    pub(crate) fn end(&self, slot: usize, result: Result<u64, OperationError>) {
        let Calls { table, failures } = &mut *self.calls.lock();
        let Some(call) = table.get_mut(slot as u32) else { return };
        call.pending = call.pending.saturating_sub(1);
        match result {
            Ok(value) => call.value |= value,
            Err(error) => call.result = call.result.and(Err(error)),
        }
        if call.pending == 0 && call.kind == RequestKind::Implicit {
            if let (Err(error), Some(failure)) = (call.result, failures.get_mut(usize::from(call.context))) {
                failure.get_or_insert(error);
            }
            table.discard(slot as u32);
        }
    }

    /// Whether nothing of a call is under way.
    pub(crate) fn is_done(&self, slot: usize) -> bool {
        self.calls.lock().table.get(slot as u32).is_none_or(|call| call.pending == 0)
    }

    /// The end of a call that is done: its slot is free.
    pub(crate) fn take(&self, slot: usize) -> Result<u64, OperationError> {
        let call = self.calls.lock().table.remove(slot as u32);
        call.map_or(Ok(0), |call| call.result.map(|()| call.value))
    }

    /// Whether an implicit call of `context` is under way, towards `task` or anyone.
    pub(crate) fn has_implicit(&self, context: u8, task: Option<u32>) -> bool {
        self.calls.lock().table.values().any(|call| {
            let meant = task.is_none_or(|task| task == call.task);
            meant && call.kind == RequestKind::Implicit && call.context == context
        })
    }

    /// The first failure of implicit calls of `context` since this was last asked.
    pub(crate) fn failure(&self, context: u8) -> Result<(), OperationError> {
        let failure = self.calls.lock().failures.get_mut(usize::from(context)).and_then(Option::take);
        failure.map_or(Ok(()), Err)
    }
}
