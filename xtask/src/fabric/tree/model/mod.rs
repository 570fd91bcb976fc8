//! The routers and links of the tree as a pure, deterministic model: no time, no sockets (SPEC D-3, X-4).
//!
//! Each router keeps a `RouteState` for each class route that runs through it: bounded input queues from its own node and
//! from the routers below, a place for what its ALU has put out, and bounded queues for what goes down and for its
//! node. A [`step`](Tree::step) moves at most one packet over each link in each direction and one to each node; all
//! moves of a step are chosen from the state at its beginning. Class routes that want the same link take turns. The ALU
//! takes no step of its own: a packet that completes a combination and the result lie in the router at the same time.
//!
//! # Why it cannot deadlock
//! Lanes share links and nothing else, so a class route never waits for a place that another holds. Within one, what
//! goes down waits only for nodes that do not read, and what goes up only for that and for contributions that are yet
//! to come. Both are the job's matter.
//!
//! # Why results are the same each time
//! A router combines own, left, right, in that order, whichever came first, and only when all are there.

mod route_state;
mod routes;

pub use route_state::{Body, RoutedPacket};
pub use routes::Change;

use crate::fabric::traffic::Traffic;
use pami::combine::tree::CHILDREN;
use pami::combine::{CLASS_ROUTES, ClassRoute, Role, TreeShape};
use route_state::{INPUTS, Input, OWN, Output};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// What a router has counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeCounters {
    /// Packets that left over the link to the parent.
    pub up: Traffic,
    /// Packets that left over the links to the children, left and right.
    pub down: [Traffic; CHILDREN],
    /// Packets its node injected.
    pub injected: Traffic,
    /// Packets its node took.
    pub ejected: Traffic,
    /// Packets that its ALU made of two or more.
    pub combined: u64,
}

/// One class route at one router.
struct RouteState {
    /// That of the class route.
    generation: u8,
    /// What the router's own node does.
    role: Role,
    /// The node that had the route set up; `None` for the network itself.
    owner: Option<u32>,
    /// The owner's tag.
    tag: u32,
    /// The route's topmost router is this one.
    top: bool,
    /// The children that the route goes on to.
    children: [bool; CHILDREN],
    /// The inputs that combinations wait for.
    contributors: [bool; INPUTS],
    /// What came in.
    inputs: [VecDeque<RoutedPacket>; INPUTS],
    /// What the ALU put out, on its way to the parent.
    up: Option<RoutedPacket>,
    /// What goes down, each with a bit for every output that it is still to leave by.
    down: VecDeque<(Arc<RoutedPacket>, u8)>,
    /// What the node is to take.
    ejection: VecDeque<Arc<RoutedPacket>>,
    /// The input whose broadcasts go first.
    turn: usize,
}

/// A router: the states of the class routes that run through it.
#[derive(Default)]
struct Router {
    states: [Option<Box<RouteState>>; CLASS_ROUTES],
    /// The class route that is served next, for the link up, for those down and for the node.
    turn: [usize; 1 + CHILDREN + 1],
    /// Its node has left.
    dead: bool,
    counters: TreeCounters,
}

/// A chosen move: one packet of one class route to one output.
struct Move {
    router: usize,
    id: usize,
    output: Output,
}

/// All routers.
pub struct Tree {
    shape: TreeShape,
    routers: Vec<Router>,
    generations: [u8; CLASS_ROUTES],
    room: usize,
    deaths: usize,
    /// The first node that died rather than ended.
    first_dead: Option<u32>,
    steps: u64,
    moves: Vec<Move>,
    /// Routers to look at: something has changed in their states or behind their links.
    busy: BTreeSet<u32>,
    /// Nodes that can inject or take something that they could not before the last steps.
    changed: BTreeSet<u32>,
}

impl Tree {
    /// A packet of so many bytes goes from `rank` up to the root outside of class routes: it is counted.
    pub fn carry_up(&mut self, mut rank: u32, bytes: usize) {
        while let Some(parent) = self.shape.parent(rank) {
            self.routers[rank as usize].counters.up += bytes;
            rank = parent;
        }
    }

    /// The same from the root down to `rank`.
    pub fn carry_down(&mut self, mut rank: u32, bytes: usize) {
        while let Some(parent) = self.shape.parent(rank) {
            self.routers[parent as usize].counters.down[self.shape.side(rank)] += bytes;
            rank = parent;
        }
    }

    /// An empty tree over `nodes` nodes whose queues have room for `room` packets each, at least one. It has the class
    /// routes of all nodes.
    pub fn new(nodes: u32, room: usize) -> Self {
        let mut tree = Self {
            shape: TreeShape::new(nodes),
            routers: (0..nodes).map(|_| Router::default()).collect(),
            generations: [0; CLASS_ROUTES],
            room: room.max(1),
            deaths: 0,
            first_dead: None,
            steps: 0,
            moves: Vec::new(),
            busy: BTreeSet::new(),
            changed: BTreeSet::new(),
        };
        let all = vec![Role::BOTH; nodes as usize];
        ClassRoute::worlds().for_each(|world| tree.lay(world, None, 0, &all));
        tree
    }

    /// The state of `route` at `node`, if it is there.
    fn state(&self, node: u32, route: ClassRoute) -> Option<&RouteState> {
        let state = self.routers.get(node as usize)?.states.get(usize::from(route.id))?.as_deref()?;
        (state.generation == route.generation).then_some(state)
    }

    fn state_mut(&mut self, node: u32, route: ClassRoute) -> Option<&mut RouteState> {
        let state =
            self.routers.get_mut(node as usize)?.states.get_mut(usize::from(route.id))?.as_deref_mut()?;
        (state.generation == route.generation).then_some(state)
    }

    /// What `node` does on `route`; `None` if the route is not there.
    pub fn role(&self, node: u32, route: ClassRoute) -> Option<Role> {
        self.state(node, route).map(|state| state.role)
    }

    /// Whether `node` may inject a packet on `route` now.
    pub fn has_room(&self, node: u32, route: ClassRoute) -> bool {
        self.state(node, route).is_some_and(|state| state.inputs[OWN].len() < self.room)
    }

    /// Packets that `node` has injected on `route` and the router has not looked at.
    pub fn waiting(&self, node: u32, route: ClassRoute) -> usize {
        self.state(node, route).map_or(0, |state| state.inputs[OWN].len())
    }

    /// Takes a packet in at `node`.
    ///
    /// # Errors
    /// The packet itself, when there is no room or the node has no such part in the route: who contributes must have
    /// that role, who broadcasts any.
    pub fn inject(&mut self, node: u32, route: ClassRoute, packet: RoutedPacket) -> Result<(), RoutedPacket> {
        let may = self.role(node, route).is_some_and(|role| role.contributes || packet.is_broadcast());
        if !may || !self.has_room(node, route) {
            return Err(packet);
        }
        self.routers[node as usize].counters.injected += packet.frame_bytes();
        if let Some(state) = self.state_mut(node, route) {
            state.inputs[OWN].push_back(packet);
        }
        self.touch(node);
        self.run_alu(node, usize::from(route.id));
        Ok(())
    }

    /// Packets that lie ready for `node` on `route`.
    pub fn ready(&self, node: u32, route: ClassRoute) -> usize {
        self.state(node, route).map_or(0, |state| state.ejection.len())
    }

    /// The next packet for `node` on `route`.
    pub fn eject(&mut self, node: u32, route: ClassRoute) -> Option<Arc<RoutedPacket>> {
        let packet = self.state_mut(node, route)?.ejection.pop_front()?;
        self.touch(node);
        self.routers[node as usize].counters.ejected += packet.frame_bytes();
        Some(packet)
    }

    /// `node` contributes nothing any more, beyond what is in its queues. Combinations that wait for it have no result.
    pub fn node_died(&mut self, node: u32) {
        let Some(router) = self.routers.get_mut(node as usize) else { return };
        if !std::mem::replace(&mut router.dead, true) {
            self.deaths += 1;
            self.touch_all();
            let all = self.busy.clone();
            self.run_alus(&all);
        }
    }

    /// `node` has died: if it is the first, then it is to blame for all results that there are not.
    pub fn blame(&mut self, node: u32) {
        self.first_dead = self.first_dead.or(Some(node));
    }

    /// Moves what can move by one place; returns how many packets moved or were combined, 0 if all are blocked or there
    /// are none.
    pub fn step(&mut self) -> usize {
        let mut moves = std::mem::take(&mut self.moves);
        moves.clear();
        let mut looked = std::mem::take(&mut self.busy);
        for &router in &looked {
            self.choose(router as usize, &mut moves);
        }
        for chosen in &moves {
            self.carry_out(chosen);
            self.touch(chosen.router as u32);
        }
        let moved = moves.len();
        self.moves = moves;
        self.steps += u64::from(moved > 0);
        looked.extend(&self.busy);
        moved + self.run_alus(&looked)
    }

    /// Something has changed at a router: it and those that it has links with may have something to do.
    fn touch(&mut self, rank: u32) {
        if self.deaths > 0 {
            // What nobody will contribute any more is seen from afar.
            return self.touch_all();
        }
        let shape = self.shape;
        self.busy.insert(rank);
        self.busy.extend(shape.parent(rank));
        self.busy.extend((0..CHILDREN).filter_map(|side| shape.child(rank, side)));
    }

    /// Something has changed everywhere.
    fn touch_all(&mut self) {
        self.busy.extend(0..self.routers.len() as u32);
    }

    /// The nodes for which the steps since the last call made room, or that have something to take of them.
    pub fn take_changed(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.changed)
    }

    /// Steps in which something moved.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// What each router has counted, by rank.
    pub fn counters(&self) -> impl Iterator<Item = &TreeCounters> {
        self.routers.iter().map(|router| &router.counters)
    }

    /// Packets in queues.
    pub fn in_flight(&self) -> usize {
        self.routers
            .iter()
            .flat_map(|router| router.states.iter().flatten())
            .map(|state| state.packets())
            .sum()
    }

    /// Writes what `node`'s router holds, such as `route 0: own 8, left 1, up, down 2, node 8`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn describe(&self, node: u32, out: &mut String) -> fmt::Result {
        let Some(router) = self.routers.get(node as usize) else { return Ok(()) };
        let start = out.len();
        let states = router.states.iter().enumerate().filter_map(|(id, state)| Some((id, state.as_deref()?)));
        for (id, state) in states.filter(|(_, state)| state.packets() > 0) {
            write!(out, "{}route {id}: {state}", if out.len() > start { "; " } else { "" })?;
        }
        if out.len() == start { write!(out, "empty") } else { Ok(()) }
    }

    /// Chooses this step's class route for each output of one router.
    fn choose(&self, router: usize, moves: &mut Vec<Move>) {
        let from = &self.routers[router];
        for (output, turn) in Output::ALL.into_iter().zip(from.turn) {
            let in_turn = (0..CLASS_ROUTES).map(|i| (turn + i) % CLASS_ROUTES);
            let wants = |&id: &usize| from.states[id].as_ref().is_some_and(|state| state.wants(output));
            if let Some(id) = in_turn.filter(wants).find(|&id| self.is_free(router, id, output)) {
                moves.push(Move { router, id, output });
            }
        }
    }

    /// Whether there is a place behind an output.
    fn is_free(&self, router: usize, id: usize, output: Output) -> bool {
        let behind = |router: Option<u32>, queue: fn(&RouteState, usize) -> usize, at: usize| {
            let state = router.and_then(|router| self.routers[router as usize].states[id].as_deref());
            state.is_some_and(|state| queue(state, at) < self.room)
        };
        let rank = router as u32;
        match output {
            Output::Up => {
                let input = 1 + self.shape.side(rank);
                behind(self.shape.parent(rank), |state, at| state.inputs[at].len(), input)
            }
            Output::Down(side) => behind(self.shape.child(rank, side), |state, _| state.down.len(), 0),
            Output::Node => behind(Some(rank), |state, _| state.ejection.len(), 0),
        }
    }

    fn carry_out(&mut self, &Move { router, id, output }: &Move) {
        let (rank, shape) = (router as u32, self.shape);
        let from = &mut self.routers[router];
        from.turn[output.index()] = (id + 1) % CLASS_ROUTES;
        let Some(state) = from.states[id].as_deref_mut() else { return };
        match output {
            Output::Up => {
                let Some(packet) = state.up.take() else { return };
                from.counters.up += packet.frame_bytes();
                let parent =
                    shape.parent(rank).and_then(|parent| self.routers[parent as usize].states[id].as_mut());
                if let Some(parent) = parent {
                    parent.inputs[1 + shape.side(rank)].push_back(packet);
                }
            }
            Output::Down(side) => {
                let Some(packet) = state.copy_down(output) else { return };
                from.counters.down[side] += packet.frame_bytes();
                let child = shape
                    .child(rank, side)
                    .and_then(|child| self.routers[child as usize].states[id].as_mut());
                if let Some(child) = child {
                    child.push_down(packet);
                }
            }
            Output::Node => {
                if let Some(packet) = state.copy_down(output) {
                    state.ejection.push_back(packet);
                    self.changed.insert(rank);
                }
            }
        }
    }

    /// Runs the ALUs of these routers once; returns how many put something out.
    fn run_alus(&mut self, routers: &BTreeSet<u32>) -> usize {
        let mut ran = 0;
        for &rank in routers {
            for id in 0..CLASS_ROUTES {
                ran += usize::from(self.run_alu(rank, id));
            }
        }
        ran
    }

    /// Passes a broadcast on or combines one packet of each input, if there is a place for the result and all are there.
    fn run_alu(&mut self, rank: u32, id: usize) -> bool {
        let room = self.room;
        let Some(state) = self.routers[rank as usize].states[id].as_deref() else { return false };
        let blocked = if state.top { state.down.len() >= room } else { state.up.is_some() };
        if blocked || state.inputs.iter().all(|queue| queue.is_empty()) {
            return false;
        }
        let out = if let Some(input) = state.next_broadcast() {
            self.routers[rank as usize].states[id]
                .as_deref_mut()
                .and_then(|state| state.take_broadcast(input))
        } else {
            let states = [0, 1, 2].map(|input| self.input(rank, id, input));
            if states.contains(&Input::Waiting) {
                return false;
            }
            let parts = states.iter().filter(|&&state| state == Input::Ready).count();
            let missing =
                states.iter().find_map(|state| if let Input::Dead(who) = state { Some(*who) } else { None });
            let missing = missing.map(|missing| self.first_dead.unwrap_or(missing));
            let router = &mut self.routers[rank as usize];
            router.counters.combined += u64::from(parts > 1);
            router.states[id].as_deref_mut().and_then(|state| state.combine(missing))
        };
        let (Some(packet), Some(state)) = (out, self.routers[rank as usize].states[id].as_deref_mut()) else {
            return false;
        };
        if state.top {
            state.push_down(Arc::new(packet));
        } else {
            state.up = Some(packet);
        }
        // There may be a place more for what its node, or the routers below, have.
        self.changed.insert(rank);
        self.touch(rank);
        true
    }

    /// What an input of a class route has for the next combination.
    fn input(&self, rank: u32, id: usize, input: usize) -> Input {
        let router = &self.routers[rank as usize];
        let Some(state) = router.states[id].as_deref() else { return Input::Unused };
        if !state.contributors[input] {
            return Input::Unused;
        }
        if !state.inputs[input].is_empty() {
            return Input::Ready;
        }
        let dead = if input == OWN {
            router.dead.then_some(rank)
        } else {
            self.shape.child(rank, input - 1).and_then(|child| self.nobody_below(child, id))
        };
        dead.map_or(Input::Waiting, Input::Dead)
    }

    /// The first node that has left, if nothing will come up from `rank` because all contributors at and below it have.
    fn nobody_below(&self, rank: u32, id: usize) -> Option<u32> {
        let state = self.routers[rank as usize].states[id].as_deref().filter(|_| self.deaths > 0)?;
        if state.up.is_some() || state.inputs.iter().any(|queue| !queue.is_empty()) {
            return None;
        }
        let mut first = None;
        for input in 0..state.inputs.len() {
            match self.input(rank, id, input) {
                Input::Unused => {}
                Input::Dead(who) => first = first.or(Some(who)),
                Input::Ready | Input::Waiting => return None,
            }
        }
        first
    }
}

#[cfg(test)]
mod tests;
