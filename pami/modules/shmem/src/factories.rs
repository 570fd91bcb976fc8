//! The library's functions (SPEC M-1, M-2), registered in its own memory (SPEC M-3).

use base::{deregister, place};
use heapless::Vec;
use pami::collective::Collective;
use pami::factory::{CollectFunction, Function, GetFunction, PutFunction, RmwFunction};
use pami::{Client, Factory, FactoryMemory, Node, Protocol};

use crate::error::Error;

/// Those of one context: whoever has the context has them, so nobody waits for their lock.
pub(crate) struct Factories {
    pub(crate) put: Factory<PutFunction>,
    pub(crate) get: Factory<GetFunction>,
    pub(crate) rmw: Factory<RmwFunction>,
    /// In the order of the collectives' numbers.
    collectives: Vec<Factory<CollectFunction>, { Collective::ALL.len() }>,
}

impl Factories {
    pub(crate) fn register<N: Node>(
        node: &N,
        client: &mut Client<N>,
        transfer: &Protocol,
        team: &Protocol,
    ) -> Result<Self, Error> {
        let mut collectives = Vec::new();
        for what in Collective::ALL {
            // There is room for all.
            let _ =
                collectives.push(register(node, client, team, CollectFunction { what, algorithm: None })?);
        }
        Ok(Self {
            put: register(node, client, transfer, PutFunction::default())?,
            get: register(node, client, transfer, GetFunction::default())?,
            rmw: register(node, client, transfer, RmwFunction::default())?,
            collectives,
        })
    }

    pub(crate) fn collective(&self, what: Collective) -> Option<&Factory<CollectFunction>> {
        self.collectives.get(what as usize)
    }

    pub(crate) fn end<N: Node>(self, client: &mut Client<N>) -> Result<(), Error> {
        let Self { put, get, rmw, collectives } = self;
        deregister(client, put)?;
        deregister(client, get)?;
        deregister(client, rmw)?;
        collectives.into_iter().try_for_each(|factory| Ok(deregister(client, factory)?))
    }
}

fn register<N: Node, F: Function<N>>(
    node: &N,
    client: &mut Client<N>,
    protocol: &Protocol,
    function: F,
) -> Result<Factory<F>, Error> {
    let memory = place(node, "factories", FactoryMemory::new())?;
    Ok(client.register_in(memory, protocol, function).map_err(|(error, _)| error)?)
}
