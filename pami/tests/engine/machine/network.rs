//! The collective network as ports give it.

use super::{Tree, World, tree};
use pami::combine::{AluOperation, ClassRoute, InjectError, Role, RouteMembers, Status, TreeArrival};
use pami::device::CollectiveNetwork;

/// A node's way to the collective network.
#[derive(Clone, Copy)]
pub struct TestNetwork {
    world: &'static World,
    node: u32,
}

impl TestNetwork {
    pub fn new(world: &'static World, node: u32) -> Self {
        Self { world, node }
    }

    fn with<R>(&self, what: impl FnOnce(&mut Tree) -> R) -> R {
        what(self.world.lock().tree.as_mut().expect("a tree stays"))
    }

    /// What `fill` writes, unless the node is to try again for no reason.
    fn filled(&self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<Vec<u8>, InjectError> {
        if self.world.lock().refuses() {
            return Err(InjectError::Full);
        }
        let mut payload = vec![0xee; len];
        fill(&mut payload);
        Ok(payload)
    }
}

impl CollectiveNetwork for TestNetwork {
    fn payload(&self) -> usize {
        tree::PAYLOAD
    }

    fn alignment(&self) -> usize {
        self.with(|tree| tree.alignment)
    }

    fn role(&self, route: ClassRoute) -> Option<Role> {
        self.with(|tree| tree.role(self.node, route))
    }

    fn contribute(
        &self,
        route: ClassRoute,
        operation: AluOperation,
        sequence: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), InjectError> {
        let payload = self.filled(len, fill)?;
        self.with(|tree| tree.contribute(self.node, route, operation, sequence, payload))
    }

    fn broadcast(
        &self,
        route: ClassRoute,
        sequence: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), InjectError> {
        let payload = self.filled(len, fill)?;
        self.with(|tree| tree.broadcast(self.node, route, sequence, payload))
    }

    fn receive(&self, route: ClassRoute, take: impl FnOnce(&TreeArrival<'_>)) -> bool {
        self.with(|tree| tree.receive(self.node, route, take))
    }

    fn allocate(&self, members: &[RouteMembers]) -> Result<(), InjectError> {
        self.with(|tree| tree.allocate(self.node, members))
    }

    fn answer(&self) -> Option<Result<ClassRoute, Status>> {
        self.with(|tree| tree.answer(self.node))
    }

    fn release(&self, route: ClassRoute) -> Result<(), InjectError> {
        self.with(|tree| tree.release(self.node, route))
    }
}
