//! Work of one task divided among several of its endpoints (SPEC G-4, G-5, G-6).
//!
//! A root task with P endpoints takes part in P groups, one for each endpoint, which its *server* is. A group is a
//! small geometry of its own: its ranks run any schedule of the collective with the server as root, and the groups
//! run beside each other, on separate resources, on different hardware threads.
//!
//! | collective | divided are | so that server `p` |
//! |---|---|---|
//! | broadcast | the tasks, and with them their endpoints | sends the vector to the tasks of segment `p`, to one endpoint each |
//! | scatter | the tasks | sends their portions to the tasks of segment `p`, to one endpoint each |
//! | gather | the tasks | receives the portions of the tasks of segment `p`, from their lowest endpoints |
//! | reduce, allreduce | the vector's elements | combines segment `p` of the vectors of all tasks |
//! | allgather | | as a gather to the first task, then as a broadcast from it |
//!
//! Reduce is divided by elements, not by tasks: every task's endpoints then share its work, and each element's
//! operands meet in the same order as undivided (G-9).
//!
//! A broadcast goes to every endpoint of the geometry but the root's own, which have the data. What every endpoint receives
//! but the lowest of its task is redundant: the data is for the task, which has one buffer. So those endpoints get it
//! from the lowest, discard it, and pass nothing on: only endpoints that keep the data are within a group's tree.
//!
//! The root is in the segment of its first endpoint, which is one of the longer ones if some are: no server has more to
//! send to than an even share of the other tasks, so that P endpoints are P times as fast.
//!
//! A server on another node than the root task (G-5) has no access to the root's buffer: it is handed its segment
//! by a scatter over the servers with the blocks of [`Division::stage`], and hands back that of a gather likewise. So it is with its
//! slice of a vector that is reduced; of a broadcast it gets the vector.

use super::blocks::Blocks;
use super::call::{Algorithm, Call, Collective};
use crate::partition::{Partition, PartitionAround};
use core::ops::Range;

/// How the work of a root with several endpoints is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    tasks: PartitionAround,
    /// The root's index.
    root: u32,
}

impl Division {
    /// `tasks` of the geometry among `servers` endpoints of the task with index `root`. `None` if there are no servers
    /// or no such task.
    pub fn of_tasks(tasks: u32, root: u32, servers: u32) -> Option<Self> {
        let partition = || PartitionAround::new(tasks as usize, servers, root as usize);
        (root < tasks && servers > 0).then(|| Self { tasks: partition(), root })
    }

    /// The tasks that a server serves.
    pub fn segment(&self, server: u32) -> Range<u32> {
        let Range { start, end } = self.tasks.range(server);
        start as u32..end as u32
    }

    /// The server of a task of the geometry.
    pub fn server_of(&self, task: u32) -> u32 {
        self.tasks.part_of(task as usize)
    }

    /// The group of a server.
    pub fn group(&self, server: u32) -> Group {
        let segment = self.segment(server);
        Group { first: segment.start, len: segment.end - segment.start, root: self.root }
    }

    /// Which segments the root's endpoints serve.
    pub fn places(&self) -> Places {
        Places { own: self.server_of(self.root) }
    }

    /// For staging: the data of each server's segment as one block, where each task has `len` elements.
    pub fn stage(&self, len: usize) -> Blocks<'static> {
        Blocks::split_around(self.tasks, len)
    }
}

/// Which segments the root's endpoints serve: the first of them the segment that the root is in, so that the root's own data is
/// where the root is, the others the rest in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// The first one's segment.
    own: u32,
}

impl Places {
    /// Each serves the segment with the number of its place.
    pub const IN_ORDER: Self = Self { own: 0 };

    /// The segment of the endpoint at this place among the root's.
    pub fn segment(&self, place: u32) -> u32 {
        match place {
            0 => self.own,
            _ if place <= self.own => place - 1,
            _ => place,
        }
    }

    /// The place of the endpoint that serves a segment.
    pub fn place(&self, segment: u32) -> u32 {
        match segment {
            _ if segment == self.own => 0,
            _ if segment < self.own => segment + 1,
            _ => segment,
        }
    }

    /// The endpoints from place `home` on, of `servers`, and the first: as a group whose tasks are segments.
    pub fn beyond(&self, home: u32, servers: u32) -> Group {
        let lowest = if home <= self.own { home.saturating_sub(1) } else { home };
        Group { first: lowest, len: servers.saturating_sub(lowest), root: self.own }
    }
}

/// A server and what it serves, as ranks of a schedule: the segment in its order, and the server in front of it,
/// if it is not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    first: u32,
    len: u32,
    root: u32,
}

impl Group {
    fn has_root(&self) -> bool {
        (self.first..self.first + self.len).contains(&self.root)
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.len + u32::from(!self.has_root())
    }

    /// The server's rank in the group.
    pub fn root(&self) -> u32 {
        if self.has_root() { self.root - self.first } else { 0 }
    }

    /// The rank of a task of the geometry; `None` if it is not in the group.
    pub fn rank(&self, task: u32) -> Option<u32> {
        if task == self.root {
            return Some(self.root());
        }
        let place = task.checked_sub(self.first).filter(|&place| place < self.len)?;
        Some(place + u32::from(!self.has_root()))
    }

    /// The task of the geometry with a rank of the group. The server's is the root's.
    pub fn task(&self, rank: u32) -> Option<u32> {
        match rank {
            _ if rank >= self.size() => None,
            _ if rank == self.root() => Some(self.root),
            _ => Some(self.first + rank - u32::from(!self.has_root())),
        }
    }

    /// Of a group of servers, see [`Places::beyond`]: the place of the one with a rank among the root's endpoints.
    pub fn place(&self, rank: u32) -> Option<u32> {
        self.task(rank).map(|segment| Places { own: self.root }.place(segment))
    }

    /// The group's blocks of a geometry's. They start [`Blocks::start`] of [`first`](Self::first) elements into the
    /// root's buffer. A server outside of its segment has an empty one, and so does not even copy to itself.
    pub fn blocks<'a>(&self, blocks: Blocks<'a>) -> Blocks<'a> {
        blocks.window(self.first, (!self.has_root()).then_some(0))
    }

    /// The first task of the segment.
    pub fn first(&self) -> u32 {
        self.first
    }
}

/// The slices of a vector of `len` elements, as one block for each server.
pub fn slices(len: usize, servers: u32) -> Blocks<'static> {
    Blocks::split(Partition::new(len, servers), 1)
}

/// The elements of a vector of `len` that the `server`-th of `servers` endpoints reduces.
pub fn slice(len: usize, server: u32, servers: u32) -> Range<usize> {
    Partition::new(len, servers).range(server)
}

/// Whether a broadcast's data, received by the endpoint with this rank, is redundant: `own` are the ranks of its task,
/// which all have the data once the lowest has it.
pub fn is_redundant(rank: u32, own: &Range<u32>) -> bool {
    !speaks(rank, own)
}

/// Whether the endpoint with this rank is the one of its task, which has the ranks `own`, that sends the task's
/// data in a gather and gets its portion in a scatter: the lowest. The others do nothing.
pub fn speaks(rank: u32, own: &Range<u32>) -> bool {
    rank == own.start
}

/// Who is instructed to carry out a collective (SPEC G-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// Every endpoint of the geometry.
    #[default]
    All,
    /// The root's endpoints; the others act when the first message calls their dispatch callback.
    RootOnly,
    /// The others; the root's endpoints act when the first message calls their dispatch callback.
    OthersOnly,
}

impl Form {
    /// Whether a call can be carried out so: its data must flow along a tree from those who are instructed to those
    /// who are not, else one could wait for the other to begin. Who is not instructed hears nothing of empty data.
    pub fn allows(self, call: &Call) -> bool {
        use Algorithm::{Affinity, Binomial, Flat, Nary, Pipeline, Rectangle, ScatterAllgather};
        let tree = match call.algorithm {
            Affinity | Flat | Rectangle | ScatterAllgather => true,
            // An operator that does not commute is combined towards rank 0.
            Binomial | Nary | Pipeline => {
                call.commutative || call.root == 0 || call.collective != Collective::Reduce
            }
            _ => false,
        };
        match self {
            Self::All => true,
            Self::RootOnly => tree && matches!(call.collective, Collective::Broadcast | Collective::Scatter),
            Self::OthersOnly => tree && matches!(call.collective, Collective::Gather | Collective::Reduce),
        }
    }
}

#[cfg(test)]
mod tests;
