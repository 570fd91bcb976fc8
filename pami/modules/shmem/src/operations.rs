//! What is under way on a context: a place for each operation, with the memory of PAMI's object for it (SPEC M-3).

use base::{OutOfMemory, fill};
use pami::device::Port;
use pami::{Node, ObjectMemory, OperationError, Shared, Update, Width};
use spin::Mutex;

/// Operations that a context can have under way at a time: those beyond wait for one to end.
pub(crate) const PLACES: usize = 32;

/// Who looks after the end of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeper {
    /// The call that began it, before it returns.
    Call,
    /// `quiet`.
    Quiet,
    /// The call; it waits for other PEs, so that nobody else may wait for it.
    Team,
}

/// An operation under way.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) keeper: Keeper,
    /// Callbacks that are to come.
    pub(crate) callbacks: u8,
    /// Where a fetched word goes in this PE's heap.
    pub(crate) into: Option<(u32, Width)>,
}

#[derive(Clone, Copy)]
struct Place {
    operation: Operation,
    /// Whether one of the callbacks has come.
    called: bool,
    /// What a word was.
    outcome: Result<u64, OperationError>,
}

struct Places {
    /// By bit: which places are in use, and which of these `quiet` does not wait for.
    busy: u32,
    team: u32,
    places: [Place; PLACES],
    /// The first failure of an operation that nobody waited for.
    failure: Result<(), OperationError>,
}

/// Those of one context.
pub(crate) struct Operations<P: Port> {
    objects: [ObjectMemory<P>; PLACES],
    places: Mutex<Places>,
}

impl<P: Port> Operations<P> {
    pub(crate) fn place<N: Node<Port = P>>(node: &N, contexts: u8) -> Result<&'static [Self], OutOfMemory> {
        let operation = Operation { keeper: Keeper::Quiet, callbacks: 0, into: None };
        let place = Place { operation, called: false, outcome: Ok(0) };
        let operations = fill(node, "operations", contexts.into(), || Self {
            objects: [const { ObjectMemory::new() }; PLACES],
            places: Mutex::new(Places { busy: 0, team: 0, places: [place; PLACES], failure: Ok(()) }),
        })?;
        Ok(operations)
    }

    /// Takes a place, if one is free, and says which.
    pub(crate) fn take(&'static self, operation: Operation) -> Option<(usize, &'static ObjectMemory<P>)> {
        let mut places = self.places.lock();
        let at = places.busy.trailing_ones() as usize;
        *places.places.get_mut(at)? = Place { operation, called: false, outcome: Ok(0) };
        places.busy |= 1 << at;
        places.team |= u32::from(operation.keeper == Keeper::Team) << at;
        Some((at, self.objects.get(at)?))
    }

    /// One of an operation's callbacks has come.
    pub(crate) fn end(&self, at: usize, outcome: Result<u64, OperationError>, heap: Option<&Shared>) {
        let mut places = self.places.lock();
        let Some(place) = places.places.get_mut(at) else { return };
        place.called = true;
        place.operation.callbacks = place.operation.callbacks.saturating_sub(1);
        match outcome {
            Err(_) => place.outcome = place.outcome.and(outcome),
            Ok(word) => {
                place.outcome = place.outcome.map(|_| word);
                if let (Some((offset, width)), Some(heap)) = (place.operation.into, heap) {
                    // It was seen to lie in the heap.
                    let _ = heap.update(offset as usize, width, Update::Swap(word));
                }
            }
        }
        let Place { operation, outcome, .. } = *place;
        if operation.callbacks == 0 && operation.keeper == Keeper::Quiet {
            places.failure = places.failure.and(outcome.map(drop));
            places.free(at);
        }
    }

    /// Whether one of an operation's callbacks has come.
    pub(crate) fn is_called(&self, at: usize) -> bool {
        self.places.lock().places.get(at).is_none_or(|place| place.called)
    }

    /// The call that looks after an operation is done with it; if there are callbacks to come, `quiet` waits for them.
    pub(crate) fn leave(&self, at: usize) -> Result<u64, OperationError> {
        let mut places = self.places.lock();
        let Some(place) = places.places.get_mut(at) else { return Ok(0) };
        place.operation.keeper = Keeper::Quiet;
        let Place { operation, outcome, .. } = *place;
        if operation.callbacks == 0 {
            places.free(at);
        }
        outcome
    }

    /// The operation was not taken.
    pub(crate) fn cancel(&self, at: usize) {
        self.places.lock().free(at);
    }

    /// Whether nothing is under way that `quiet` waits for.
    pub(crate) fn is_quiet(&self) -> bool {
        let places = self.places.lock();
        places.busy & !places.team == 0
    }

    /// The first failure since this was last asked.
    pub(crate) fn failure(&self) -> Result<(), OperationError> {
        core::mem::replace(&mut self.places.lock().failure, Ok(()))
    }
}

impl Places {
    fn free(&mut self, at: usize) {
        self.busy &= !(1 << at);
        self.team &= !(1 << at);
    }
}
