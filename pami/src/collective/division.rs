//! Work of one task divided among several of its endpoints (SPEC G-4, G-5, G-6).
//!
//! A root task with P endpoints takes part in P groups, one for each endpoint, which its *server* is. A group is a
//! small geometry of its own: its ranks run any schedule of the collective with the server as root, and the groups
//! run beside each other, on separate resources, on different hardware threads.
//!
//! | collective | divided are | so that server `p` |
//! |---|---|---|
//! | broadcast | the endpoints of the geometry | sends the vector to the endpoints of segment `p` |
//! | scatter | the tasks | sends their portions to the tasks of segment `p`, to one endpoint each |
//! | gather | the tasks | receives the portions of the tasks of segment `p`, from their lowest endpoints |
//! | reduce, allreduce | the vector's elements | combines segment `p` of the vectors of all tasks |
//! | allgather | | as a gather to the first task, then as a broadcast from it |
//!
//! Reduce is divided by elements, not by tasks: every task's endpoints then share its work, and each element's
//! operands meet in the same order as undivided (G-9).
//!
//! A broadcast goes to every endpoint of the geometry, the root's own among them. Their receptions, and those of
//! every endpoint but the lowest of any task, are redundant: the data is for the task, which has one buffer. The
//! engine receives them and discards them; a schedule whose inner ranks must keep the data runs only with
//! [`Algorithm::Flat`], or among endpoints that keep it.
//!
//! A server on another node than the root task (G-5) has no access to the root's buffer: it is handed its segment
//! by a scatter over the servers with the blocks of [`Division::stage`], and hands back that of a gather likewise.

use super::blocks::{Blocks, Partition};
use super::call::{Algorithm, Call, Collective};
use core::ops::Range;

/// What the root's endpoints are: some of what is divided, or all together one thing of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Root {
    /// Endpoints are divided; the root's have consecutive ranks from this one on.
    Endpoints(u32),
    /// Tasks are divided; this is the root's index.
    Task(u32),
}

/// How the work of a root with several endpoints is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    units: Partition,
    root: Root,
}

impl Division {
    /// For broadcasts: `endpoints` of the geometry among those of the root, whose ranks are `root`. `None` if these
    /// are none or not of the geometry.
    pub fn of_endpoints(endpoints: u32, root: Range<u32>) -> Option<Self> {
        let fits = !root.is_empty() && root.end <= endpoints;
        let units = Partition::new(endpoints as usize, root.end.saturating_sub(root.start));
        fits.then_some(Self { units, root: Root::Endpoints(root.start) })
    }

    /// For scatters and gathers: `tasks` of the geometry among `servers` endpoints of the task with index `root`.
    /// `None` if there are no servers or no such task.
    pub fn of_tasks(tasks: u32, root: u32, servers: u32) -> Option<Self> {
        let units = Partition::new(tasks as usize, servers);
        (root < tasks && servers > 0).then_some(Self { units, root: Root::Task(root) })
    }

    /// Number of groups, and of endpoints of the root.
    pub fn servers(&self) -> u32 {
        self.units.parts()
    }

    /// The endpoints, or the tasks, that a server serves.
    pub fn segment(&self, server: u32) -> Range<u32> {
        let Range { start, end } = self.units.range(server);
        start as u32..end as u32
    }

    /// The server of an endpoint, or of a task, of the geometry.
    pub fn server_of(&self, unit: u32) -> u32 {
        self.units.part_of(unit as usize)
    }

    /// The group of a server.
    pub fn group(&self, server: u32) -> Group {
        let root = match self.root {
            Root::Endpoints(first) => first + server,
            Root::Task(task) => task,
        };
        let segment = self.segment(server);
        Group { first: segment.start, len: segment.end - segment.start, root }
    }

    /// For staging: the data of each server's segment as one block, where each task has `len` elements.
    pub fn stage(&self, len: usize) -> Blocks<'static> {
        Blocks::split(self.units, len)
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

    /// The rank of an endpoint, or a task, of the geometry; `None` if it is not in the group.
    pub fn rank(&self, unit: u32) -> Option<u32> {
        if unit == self.root {
            return Some(self.root());
        }
        let place = unit.checked_sub(self.first).filter(|&place| place < self.len)?;
        Some(place + u32::from(!self.has_root()))
    }

    /// The endpoint, or the task, of the geometry with a rank of the group. The server's is the root's.
    pub fn unit(&self, rank: u32) -> Option<u32> {
        match rank {
            _ if rank >= self.size() => None,
            _ if rank == self.root() => Some(self.root),
            _ => Some(self.first + rank - u32::from(!self.has_root())),
        }
    }

    /// The group's blocks of a geometry's. They start [`Blocks::start`] of [`first`](Self::first) elements into the
    /// root's buffer. A server outside of its segment has an empty one, and so does not even copy to itself.
    pub fn blocks<'a>(&self, blocks: Blocks<'a>) -> Blocks<'a> {
        blocks.window(self.first, (!self.has_root()).then_some(0))
    }

    /// The first endpoint, or task, of the segment.
    pub fn first(&self) -> u32 {
        self.first
    }
}

/// The elements of a vector of `len` that the `server`-th of `servers` endpoints reduces.
pub fn slice(len: usize, server: u32, servers: u32) -> Range<usize> {
    Partition::new(len, servers).range(server)
}

/// Whether a broadcast's data, received by the endpoint with this rank, is redundant: `own` are the ranks of its
/// task, which is the root's or not. One reception of each other task is kept, that of its lowest endpoint.
pub fn is_redundant(rank: u32, own: &Range<u32>, is_root: bool) -> bool {
    is_root || !speaks(rank, own)
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

    /// Whether an endpoint is instructed, or else called back.
    pub fn instructs(self, is_root: bool) -> bool {
        match self {
            Self::All => true,
            Self::RootOnly => is_root,
            Self::OthersOnly => !is_root,
        }
    }
}

#[cfg(test)]
mod tests;
