//! Factories that a library has for each of its contexts, and gives up when it ends.

use core::ops::Range;
use heapless::Vec;
use pami::collective::Collective;
use pami::device::Port;
use pami::factory::{
    CollectFunction, Contribution, FenceFunction, Function, GetFunction, ProcessFunction, PutFunction,
    RmwFunction,
};
use pami::{
    Active, Client, Collect, CollectError, CollectMemory, Done, Endpoint, Factory, FactoryError, FenceScope,
    GeometryId, Get, Node, Protocol, Put, Rmw, SendError, Split,
};

/// Gives a factory up; its memory is the client's again.
///
/// # Errors
/// See [`Client::deregister`].
pub fn deregister<N: Node, F: Function<N>>(
    client: &mut Client<N>,
    factory: Factory<F>,
) -> Result<(), FactoryError> {
    client.deregister(factory).map(drop).map_err(|(error, _)| error)
}

/// One for each function that acts on memory of another task.
pub struct OneSided {
    put: Factory<PutFunction>,
    get: Factory<GetFunction>,
    rmw: Factory<RmwFunction>,
    process: Factory<ProcessFunction>,
    fence: Factory<FenceFunction>,
}

impl OneSided {
    /// How many there are.
    pub const FACTORIES: usize = 5;

    /// Registers them; what is added to numbers is split in this way.
    ///
    /// # Errors
    /// See [`Client::register`].
    pub fn register<N: Node>(
        client: &mut Client<N>,
        protocol: &Protocol,
        split: Split,
    ) -> Result<Self, FactoryError> {
        Ok(Self {
            put: client.register(protocol, PutFunction::default())?,
            get: client.register(protocol, GetFunction::default())?,
            rmw: client.register(protocol, RmwFunction::default())?,
            process: client.register(protocol, ProcessFunction { split })?,
            fence: client.register(protocol, FenceFunction)?,
        })
    }

    /// Gives them up.
    ///
    /// # Errors
    /// See [`deregister`].
    pub fn end<N: Node>(self, client: &mut Client<N>) -> Result<(), FactoryError> {
        let Self { put, get, rmw, process, fence } = self;
        deregister(client, put)?;
        deregister(client, get)?;
        deregister(client, rmw)?;
        deregister(client, process)?;
        deregister(client, fence)
    }

    /// Writes into a region of another task.
    ///
    /// # Errors
    /// See [`Active::put`].
    pub fn put<P: Port>(&self, active: &mut Active<P>, put: Put<P>) -> Result<(), SendError> {
        self.put.execute(active, put).map_err(|(error, _)| error)
    }

    /// Reads from a region of another task.
    ///
    /// # Errors
    /// See [`Active::get`].
    pub fn get<P: Port>(&self, active: &mut Active<P>, get: Get<P>) -> Result<(), SendError> {
        self.get.execute(active, get)
    }

    /// Updates a word of a region of another task.
    ///
    /// # Errors
    /// See [`Active::rmw`].
    pub fn rmw<P: Port>(&self, active: &mut Active<P>, rmw: Rmw<P>) -> Result<(), SendError> {
        self.rmw.execute(active, rmw)
    }

    /// Adds numbers to those in a region of another task.
    ///
    /// # Errors
    /// See [`Active::process`].
    pub fn process<P: Port>(
        &self,
        active: &mut Active<P>,
        contribution: Contribution<P>,
    ) -> Result<(), SendError> {
        self.process.execute(active, contribution)
    }

    /// Tells when all that went to a task before is there.
    ///
    /// # Errors
    /// See [`Active::fence`].
    pub fn fence<P: Port>(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.fence.execute(active, target, done)
    }

    /// The same of puts, gets and updates alone, which nobody has to advance the task for.
    ///
    /// # Errors
    /// See [`Active::fence_rma`].
    pub fn fence_rma<P: Port>(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.fence.execute_rma(active, target, done)
    }

    /// As [`fence`](Self::fence) of one context of every one of `tasks`; one operation.
    ///
    /// # Errors
    /// See [`Active::fence_contexts`].
    pub fn fence_contexts<P: Port>(
        &self,
        active: &mut Active<P>,
        tasks: Range<u32>,
        context: u8,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.fence.execute_contexts(active, tasks, context..context + 1, done)
    }

    /// The same of all endpoints of a geometry; one operation.
    ///
    /// # Errors
    /// See [`Active::fence_geometry`].
    pub fn fence_geometry<P: Port>(
        &self,
        active: &mut Active<P>,
        geometry: GeometryId,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.fence.execute_geometry(active, geometry, FenceScope::Members, done)
    }
}

/// One for each collective, whose algorithm is for PAMI to choose.
pub struct Collectives(Vec<Factory<CollectFunction>, { Collectives::FACTORIES }>);

impl Collectives {
    /// How many there are.
    pub const FACTORIES: usize = Collective::ALL.len();

    /// Registers them.
    ///
    /// # Errors
    /// See [`Client::register`].
    pub fn register<N: Node>(client: &mut Client<N>, protocol: &Protocol) -> Result<Self, FactoryError> {
        Self::by(|function| client.register(protocol, function))
    }

    /// Registers them by `register`, which may have memory of its own for them.
    ///
    /// # Errors
    /// Of `register`.
    pub fn by<E>(
        mut register: impl FnMut(CollectFunction) -> Result<Factory<CollectFunction>, E>,
    ) -> Result<Self, E> {
        let mut all = Vec::new();
        for what in Collective::ALL {
            // There is room for all.
            let _ = all.push(register(CollectFunction { what, algorithm: None })?);
        }
        Ok(Self(all))
    }

    /// Gives them up.
    ///
    /// # Errors
    /// See [`deregister`].
    pub fn end<N: Node>(self, client: &mut Client<N>) -> Result<(), FactoryError> {
        self.0.into_iter().try_for_each(|factory| deregister(client, factory))
    }

    /// Starts a collective.
    ///
    /// # Errors
    /// See [`Active::collect`].
    pub fn collect<P: Port>(&self, active: &mut Active<P>, collect: Collect<P>) -> Result<(), CollectError> {
        // They are registered in the order of their numbers.
        match self.0.get(collect.what as usize) {
            Some(factory) => factory.execute(active, collect),
            None => Err(CollectError::UnknownGeometry(collect.geometry)),
        }
    }

    /// The same, with the object in the library's memory.
    ///
    /// # Errors
    /// See [`Factory::execute_in`].
    pub fn collect_in<P: Port>(
        &self,
        memory: &'static CollectMemory<P>,
        active: &mut Active<P>,
        collect: Collect<P>,
    ) -> Result<(), CollectError> {
        match self.0.get(collect.what as usize) {
            Some(factory) => factory.execute_in(memory, active, collect),
            None => Err(CollectError::UnknownGeometry(collect.geometry)),
        }
    }
}
