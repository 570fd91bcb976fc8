//! What is under way on a context: a place for each operation, with the memory of PAMI's object for it; and the library's
//! functions (SPEC M-1, M-2), registered in its own memory (SPEC M-3).

use crate::error::Result;
use base::{Collectives, OutOfMemory, deregister, fill};
use pami::device::Port;
use pami::factory::{Function, GetFunction, PutFunction, RmwFunction};
use pami::{
    Client, Factory, FactoryMemory, Node, ObjectMemory, OperationError, Protocol, Shared, Update, Width,
};
use spin::Mutex;

/// Those of one context: whoever has the context has them, so nobody waits for their lock.
pub(crate) struct Factories {
    pub(crate) put: Factory<PutFunction>,
    pub(crate) get: Factory<GetFunction>,
    pub(crate) rmw: Factory<RmwFunction>,
    pub(crate) collectives: Collectives,
}

/// Memory for factories, taken before there is a client: half of them registered are in nobody's hands.
pub(crate) type FactoryMemories = core::slice::IterMut<'static, FactoryMemory>;

impl Factories {
    /// How many there are.
    pub(crate) const EACH: usize = 3 + Collectives::FACTORIES;

    pub(crate) fn register<N: Node>(
        memories: &mut FactoryMemories,
        client: &mut Client<N>,
        [transfer, team]: &[Protocol; 2],
    ) -> Result<Self> {
        Ok(Self {
            put: register(memories, client, transfer, PutFunction::default())?,
            get: register(memories, client, transfer, GetFunction::default())?,
            rmw: register(memories, client, transfer, RmwFunction::default())?,
            collectives: Collectives::by(|function| register(memories, client, team, function))?,
        })
    }

    pub(crate) fn end<N: Node>(self, client: &mut Client<N>) -> Result {
        let Self { put, get, rmw, collectives } = self;
        deregister(client, put)?;
        deregister(client, get)?;
        deregister(client, rmw)?;
        Ok(collectives.end(client)?)
    }
}

fn register<N: Node, F: Function<N>>(
    memories: &mut FactoryMemories,
    client: &mut Client<N>,
    protocol: &Protocol,
    function: F,
) -> Result<Factory<F>> {
    let memory =
        memories.next().ok_or(OutOfMemory { what: "factories", bytes: size_of::<FactoryMemory>() })?;
    Ok(client.register_in(memory, protocol, function).map_err(|(error, _)| error)?)
}

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
pub(crate) struct PendingOperation {
    pub(crate) keeper: Keeper,
    /// Callbacks that are to come.
    pub(crate) callbacks: u8,
    /// Where a fetched word goes in this PE's heap.
    pub(crate) into: Option<(u32, Width)>,
    /// Whether one of the callbacks has come, and what a word was.
    pub(crate) called: bool,
    pub(crate) outcome: Result<u64, OperationError>,
}

impl PendingOperation {
    /// With one callback.
    pub(crate) const fn of(keeper: Keeper) -> Self {
        Self { keeper, callbacks: 1, into: None, called: false, outcome: Ok(0) }
    }
}

struct Places {
    /// By bit: which places are in use, and which of these `quiet` does not wait for.
    busy: u32,
    team: u32,
    places: [PendingOperation; PLACES],
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
        let operations = fill(node, "operations", contexts.into(), || Self {
            objects: [const { ObjectMemory::new() }; PLACES],
            places: Mutex::new(Places {
                busy: 0,
                team: 0,
                places: [PendingOperation::of(Keeper::Quiet); PLACES],
                failure: Ok(()),
            }),
        })?;
        Ok(operations)
    }

    /// Takes a place, if one is free, and says which.
    pub(crate) fn take(
        &'static self,
        operation: PendingOperation,
    ) -> Option<(usize, &'static ObjectMemory<P>)> {
        let mut places = self.places.lock();
        let at = places.busy.trailing_ones() as usize;
        *places.places.get_mut(at)? = operation;
        places.busy |= 1 << at;
        places.team |= u32::from(operation.keeper == Keeper::Team) << at;
        Some((at, self.objects.get(at)?))
    }

    /// One of an operation's callbacks has come.
    pub(crate) fn end(&self, at: usize, outcome: Result<u64, OperationError>, heap: Option<&Shared>) {
        let mut places = self.places.lock();
        let Some(place) = places.places.get_mut(at) else { return };
        place.called = true;
        place.callbacks = place.callbacks.saturating_sub(1);
        place.outcome = place.outcome.and(outcome);
        if let (Ok(word), Some((offset, width)), Some(heap)) = (outcome, place.into, heap) {
            // It was seen to lie in the heap.
            let _ = heap.update(offset as usize, width, Update::Swap(word));
        }
        let PendingOperation { keeper, callbacks, outcome, .. } = *place;
        if callbacks == 0 && keeper == Keeper::Quiet {
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
        place.keeper = Keeper::Quiet;
        let PendingOperation { callbacks, outcome, .. } = *place;
        if callbacks == 0 {
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
