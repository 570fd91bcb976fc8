//! The collective network of the machine: class routes, and an ALU that combines in the order of the tree.

use pami::combine::{
    AluOperation, CLASS_ROUTES, ClassRoute, InjectError, Role, RouteMembers, Status, TreeArrival, TreeShape,
    WINDOW, WORLDS, combine,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of a packet: few, so that vectors are cut.
pub const PAYLOAD: usize = 128;

/// What a node sends, or gets.
#[derive(Clone)]
struct Packet {
    /// Who broadcast it.
    broadcast: Option<u32>,
    operation: AluOperation,
    sequence: u32,
    status: Status,
    blame: u32,
    payload: Vec<u8>,
}

#[derive(Default)]
struct NodeQueues {
    sent: VecDeque<Packet>,
    arrived: VecDeque<Packet>,
}

struct Route {
    name: ClassRoute,
    owner: u32,
    queues: BTreeMap<u32, NodeQueues>,
    /// Combinations and broadcasts so far.
    operations: usize,
}

/// The network.
pub struct Tree {
    shape: TreeShape,
    routes: Vec<Route>,
    generation: u8,
    answers: BTreeMap<u32, Result<ClassRoute, Status>>,
    /// Class routes that there are.
    pub limit: usize,
    /// Combinations and broadcasts so far.
    pub operations: usize,
    pub dead: BTreeSet<u32>,
    /// Packets wait until [`step`](Self::step) takes them on.
    pub stepped: bool,
    /// What it asks of the addresses of vectors.
    pub alignment: usize,
}

impl Tree {
    pub fn new(nodes: u32) -> Self {
        let mut tree = Self {
            shape: TreeShape::new(nodes),
            routes: Vec::new(),
            generation: 0,
            answers: BTreeMap::new(),
            limit: CLASS_ROUTES,
            operations: 0,
            dead: BTreeSet::new(),
            alignment: 1,
            stepped: false,
        };
        ClassRoute::worlds().for_each(|world| tree.open(world, u32::MAX, (0..nodes).collect()));
        tree
    }

    fn open(&mut self, name: ClassRoute, owner: u32, nodes: BTreeSet<u32>) {
        let queues = nodes.into_iter().map(|node| (node, NodeQueues::default())).collect();
        self.routes.push(Route { name, owner, queues, operations: 0 });
    }

    /// Combinations and broadcasts on a class route.
    pub fn operations_of(&self, name: ClassRoute) -> usize {
        self.routes.iter().find(|route| route.name == name).map_or(0, |route| route.operations)
    }

    /// Class routes that geometries have asked for.
    pub fn routes(&self) -> usize {
        self.routes.len() - WORLDS
    }

    fn queues(&mut self, node: u32, name: ClassRoute) -> Option<&mut NodeQueues> {
        self.routes.iter_mut().find(|route| route.name == name)?.queues.get_mut(&node)
    }

    pub fn role(&mut self, node: u32, name: ClassRoute) -> Option<Role> {
        self.queues(node, name).map(|_| Role::BOTH)
    }

    fn inject(&mut self, node: u32, name: ClassRoute, packet: Packet) -> Result<(), InjectError> {
        let queues = self.queues(node, name).ok_or(InjectError::NoRoute)?;
        if queues.sent.len() >= usize::from(WINDOW) {
            return Err(InjectError::Full);
        }
        queues.sent.push_back(packet);
        while !self.stepped && self.step() {}
        Ok(())
    }

    pub fn contribute(
        &mut self,
        node: u32,
        name: ClassRoute,
        operation: AluOperation,
        sequence: u32,
        payload: Vec<u8>,
    ) -> Result<(), InjectError> {
        assert!(payload.len() <= PAYLOAD && payload.len().is_multiple_of(operation.element_len()));
        let packet = Packet { broadcast: None, operation, sequence, status: Status::Good, blame: 0, payload };
        self.inject(node, name, packet)
    }

    pub fn broadcast(
        &mut self,
        node: u32,
        name: ClassRoute,
        sequence: u32,
        payload: Vec<u8>,
    ) -> Result<(), InjectError> {
        assert!(payload.len() <= PAYLOAD);
        let operation = AluOperation::NOTHING;
        let packet =
            Packet { broadcast: Some(node), operation, sequence, status: Status::Good, blame: 0, payload };
        self.inject(node, name, packet)
    }

    pub fn receive(&mut self, node: u32, name: ClassRoute, take: impl FnOnce(&TreeArrival<'_>)) -> bool {
        let Some(packet) = self.queues(node, name).and_then(|queues| queues.arrived.pop_front()) else {
            return false;
        };
        let Packet { broadcast, operation, sequence, status, blame, .. } = packet;
        take(&TreeArrival { broadcast, operation, sequence, status, blame, payload: &packet.payload });
        while !self.stepped && self.step() {}
        true
    }

    /// One broadcast or combination on some route goes to all. Returns `false` if none can.
    pub fn step(&mut self) -> bool {
        (0..self.routes.len()).any(|index| self.step_route(index))
    }

    fn step_route(&mut self, index: usize) -> bool {
        let route = &mut self.routes[index];
        // There is a place for every credit, so nobody holds up another route.
        if route.queues.values().any(|queues| queues.arrived.len() >= usize::from(WINDOW)) {
            return false;
        }
        let broadcaster =
            |queues: &NodeQueues| queues.sent.front().is_some_and(|packet| packet.broadcast.is_some());
        let result = if let Some(queues) = route.queues.values_mut().find(|queues| broadcaster(queues)) {
            queues.sent.pop_front().unwrap()
        } else {
            let dead =
                route.queues.iter().find(|(node, queues)| self.dead.contains(node) && queues.sent.is_empty());
            let dead = dead.map(|(&node, _)| node);
            let ready = |(node, queues): (&u32, &NodeQueues)| !queues.sent.is_empty() || Some(*node) == dead;
            if !route.queues.iter().all(ready) || route.queues.values().all(|queues| queues.sent.is_empty()) {
                return false;
            }
            let mut parts: BTreeMap<u32, Packet> = route
                .queues
                .iter_mut()
                .filter_map(|(&node, queues)| Some((node, queues.sent.pop_front()?)))
                .collect();
            let mut result = fold(self.shape, 0, &mut parts).expect("a contribution");
            if let Some(dead) = dead {
                (result.status, result.blame) = (Status::Dead, dead);
                result.payload.clear();
            }
            result
        };
        self.operations += 1;
        route.operations += 1;
        for queues in route.queues.values_mut() {
            queues.arrived.push_back(result.clone());
        }
        true
    }

    pub fn allocate(&mut self, node: u32, members: &[RouteMembers]) -> Result<(), InjectError> {
        if self.answers.contains_key(&node) {
            return Err(InjectError::Pending);
        }
        let nodes: BTreeSet<u32> = members.iter().flat_map(RouteMembers::ranks).collect();
        assert!(nodes.contains(&node) && nodes.iter().all(|&node| node < self.shape.nodes()));
        let free = (0..self.limit as u8).find(|&id| self.routes.iter().all(|route| route.name.id != id));
        let answer = free.ok_or(Status::Exhausted).map(|id| {
            self.generation = self.generation.wrapping_add(1);
            let name = ClassRoute { id, generation: self.generation };
            self.open(name, node, nodes);
            name
        });
        self.answers.insert(node, answer);
        Ok(())
    }

    pub fn answer(&mut self, node: u32) -> Option<Result<ClassRoute, Status>> {
        self.answers.remove(&node)
    }

    pub fn release(&mut self, node: u32, name: ClassRoute) -> Result<(), InjectError> {
        let mine = |route: &Route| (route.name, route.owner) == (name, node);
        let place = self.routes.iter().position(mine).ok_or(InjectError::NoRoute)?;
        self.routes.remove(place);
        Ok(())
    }
}

/// What a router makes of its own node's part, then of those below.
fn fold(shape: TreeShape, rank: u32, parts: &mut BTreeMap<u32, Packet>) -> Option<Packet> {
    let own = parts.remove(&rank);
    let below = [0, 1].map(|side| shape.child(rank, side).and_then(|child| fold(shape, child, parts)));
    let [left, right] = below;
    [own, left, right].into_iter().flatten().reduce(|mut left, right| {
        let alike = (left.operation, left.sequence) == (right.operation, right.sequence);
        let good = left.status == Status::Good && right.status == Status::Good;
        if !good || !alike || combine(left.operation, &mut left.payload, &right.payload).is_err() {
            left.status = Status::Mismatch;
            left.payload.clear();
        }
        left
    })
}
