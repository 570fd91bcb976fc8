//! One task's node: ports of a message unit over a bad wire.

pub use crate::reliable::tests::nodes::{Port, Unit};
use crate::unit::{OpenError, Sharing as Fifos};
use pami::client::{ClientError, Node, Sharing};
use pami::endpoint::{ClientId, ContextOffset};
use pami::topology::{TorusCoord, TorusShape};
use std::boxed::Box;

pub struct TestNode {
    pub unit: &'static Unit,
    pub task: u32,
    pub tasks: u32,
    pub contexts: u8,
}

impl Node for TestNode {
    type Port = Port;

    fn task(&self) -> u32 {
        self.task
    }

    fn tasks(&self) -> u32 {
        self.tasks
    }

    fn context_limit(&self) -> u8 {
        self.contexts
    }

    fn torus(&self) -> (TorusShape, TorusCoord) {
        let shape: TorusShape = std::format!("{}", self.tasks).parse().unwrap();
        (shape, shape.coord(self.task).unwrap())
    }

    fn clock_hz(&self) -> u64 {
        1_000_000_000
    }

    /// There is one client.
    fn claim_client(&self, _name: &'static str) -> Result<ClientId, ClientError> {
        Ok(ClientId(0))
    }

    fn release_client(&self, _id: ClientId) {}

    fn open(&self, id: ClientId, context: ContextOffset, sharing: Sharing) -> Result<Port, ClientError> {
        let fifos = match sharing {
            Sharing::Exclusive => Fifos::Exclusive,
            Sharing::Shared => Fifos::Shared,
        };
        self.unit.open(id, 0, context.0, fifos).map_err(|error| match error {
            OpenError::InUse => ClientError::ContextTaken,
            _ => ClientError::Exhausted { what: "ports", limit: usize::from(self.contexts) },
        })
    }

    fn memory<T: Send>(&self, len: usize, mut value: impl FnMut() -> T) -> Option<&'static mut [T]> {
        Some(Box::leak((0..len).map(|_| value()).collect()))
    }
}
