//! The ways that a send has, each a factory of its own (SPEC M-5).

use super::sends::MESSAGE;
use kernel::{Active, Client, JobError, Payload, Port, SendError};
use pami::factory::{Outgoing, PathSendFunction, SendFunction};
use pami::{Factory, FactoryError};

/// One of them.
pub enum Way {
    Usual(Factory<SendFunction>),
    Path(Factory<PathSendFunction>),
}

/// Eager, bulk, shared memory, loop-back.
pub struct Ways([Way; Ways::FACTORIES]);

impl Way {
    pub fn execute(
        &self,
        active: &mut Active,
        outgoing: Outgoing<'_, Port>,
    ) -> Result<(), (SendError, Payload)> {
        match self {
            Self::Usual(factory) => factory.execute(active, outgoing),
            Self::Path(factory) => factory.execute(active, outgoing),
        }
    }
}

impl Ways {
    /// How many factories the client has to have memory for.
    pub const FACTORIES: usize = 4;

    pub fn register(client: &mut Client) -> Result<Self, JobError> {
        Self::all(client).map_err(|_| JobError::Other("a factory could not be registered"))
    }

    fn all(client: &mut Client) -> Result<Self, FactoryError> {
        let protocol = client.protocol("ways")?;
        let mut usual = |bytes| {
            let function = SendFunction { dispatch: MESSAGE, rendezvous_from: Some(bytes) };
            client.register(&protocol, function).map(Way::Usual)
        };
        let (eager, bulk) = (usual(usize::MAX)?, usual(0)?);
        let mut path = |local_paths| {
            let function = PathSendFunction { dispatch: MESSAGE, rendezvous_from: None, local_paths };
            client.register(&protocol, function).map(Way::Path)
        };
        Ok(Self([eager, bulk, path(true)?, path(false)?]))
    }

    pub fn each(&self) -> impl Iterator<Item = &Way> {
        self.0.iter()
    }
}
