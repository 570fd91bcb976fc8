//! Class routes: who is on them, through which routers they run, which numbers are free.

use super::{RouteState, Tree};
use pami::combine::{CLASS_ROUTES, ClassRoute, Role, RouteMembers, Status};

/// A class route that was set up or given up, and who is to hear of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The route.
    pub route: ClassRoute,
    /// The requester's tag.
    pub tag: u32,
    /// Its members by rank, with their roles.
    pub members: Vec<(u32, Role)>,
}

impl Tree {
    /// The role of each node by rank, if the members lie in the tree and `owner` is one of them.
    pub fn roles(&self, owner: u32, members: impl IntoIterator<Item = RouteMembers>) -> Option<Vec<Role>> {
        let mut roles = vec![Role::default(); self.routers.len()];
        for members in members {
            if members.last >= self.shape.nodes() || !members.role.is_member() {
                return None;
            }
            for rank in members.ranks() {
                roles[rank as usize] = roles[rank as usize].or(members.role);
            }
        }
        roles.get(owner as usize).is_some_and(|role| role.is_member()).then_some(roles)
    }

    /// Sets a class route up on behalf of `owner` for nodes with these roles.
    ///
    /// # Errors
    /// [`Status::BadMembers`] if nobody is on it, [`Status::Exhausted`] if no number is free at all routers between the
    /// members.
    pub fn allocate(&mut self, owner: u32, tag: u32, roles: &[Role]) -> Result<Change, Status> {
        let routers = self.between(roles);
        if routers.is_empty() {
            return Err(Status::BadMembers);
        }
        let is_free =
            |id: &usize| routers.iter().all(|&rank| self.routers[rank as usize].states[*id].is_none());
        let id = (0..CLASS_ROUTES).find(is_free).ok_or(Status::Exhausted)?;
        self.generations[id] = self.generations[id].wrapping_add(1);
        let route = ClassRoute { id: id as u8, generation: self.generations[id] };
        self.lay(route, Some(owner), tag, roles);
        let members = (0..).zip(roles).filter(|(_, role)| role.is_member());
        Ok(Change { route, tag, members: members.map(|(rank, &role)| (rank, role)).collect() })
    }

    /// Takes a class route away, with all that is on it; `None` if `owner` has none of this name.
    pub fn release(&mut self, owner: u32, route: ClassRoute) -> Option<Change> {
        let state = self.state(owner, route).filter(|state| state.owner == Some(owner))?;
        let tag = state.tag;
        let mut top = owner;
        while !self.state(top, route)?.top {
            top = self.shape.parent(top)?;
        }
        let (mut below, mut members) = (vec![top], Vec::new());
        while let Some(rank) = below.pop() {
            let state = self.routers[rank as usize].states[usize::from(route.id)].take();
            let Some(state) = state else { continue };
            if state.role.is_member() {
                members.push((rank, state.role));
            }
            let children = (0..2).filter(|&side| state.children[side]);
            below.extend(children.filter_map(|side| self.shape.child(rank, side)));
        }
        members.sort_unstable_by_key(|&(rank, _)| rank);
        self.touch_all();
        Some(Change { route, tag, members })
    }

    /// The routers of the smallest sub-tree with all members, the highest rank first; its top is the last.
    fn between(&self, roles: &[Role]) -> Vec<u32> {
        let members = || (0..).zip(roles).filter(|(_, role)| role.is_member()).map(|(rank, _)| rank);
        let Some(top) = members().reduce(|a, b| self.shape.meeting(a, b)) else { return Vec::new() };
        let mut marked = vec![false; roles.len()];
        for member in members() {
            let mut rank = member;
            while !std::mem::replace(&mut marked[rank as usize], true) && rank != top {
                rank = (rank - 1) / 2;
            }
        }
        (0..roles.len()).rev().filter(|&rank| marked[rank]).map(|rank| rank as u32).collect()
    }

    /// Sets up the states of a class route whose number is free.
    pub(super) fn lay(&mut self, route: ClassRoute, owner: Option<u32>, tag: u32, roles: &[Role]) {
        let id = usize::from(route.id);
        let routers = self.between(roles);
        let top = routers.last().copied();
        // Children come before their parents.
        for rank in routers {
            let mut state = RouteState::new(route.generation, owner, tag, roles[rank as usize]);
            state.top = Some(rank) == top;
            for side in 0..2 {
                let child = self.shape.child(rank, side);
                let child = child.and_then(|child| self.routers[child as usize].states[id].as_deref());
                // Another route below may have the same number; its top is its own.
                let child = child.filter(|child| child.generation == route.generation && !child.top);
                state.children[side] = child.is_some();
                state.contributors[1 + side] =
                    child.is_some_and(|child| child.contributors.iter().any(|&contributes| contributes));
            }
            self.routers[rank as usize].states[id] = Some(Box::new(state));
        }
        self.touch_all();
    }
}
