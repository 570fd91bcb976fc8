//! Who takes part in collectives: the tasks and endpoints of a geometry (SPEC G-1).
//!
//! Members are numbered twice. Each *endpoint* has a rank, which schedules speak of; each *task* has an index. The
//! endpoints of a task have consecutive ranks, and tasks stand in the order of their indices, so the lowest
//! endpoint of a task is the first of its ranks.
//!
//! Ranges and rectangles are worked out, in O(1) memory and time, whatever their size. Lists are borrowed from the
//! caller; an index that the caller gives memory for finds a member in O(log n).

mod digest;
pub(crate) mod grid;
mod list;
mod placement;
mod rectangle;

use crate::endpoint::{ClientId, ContextOffset, Endpoint};
use crate::mapping::{MapOrder, TaskMap};
use core::fmt;
use core::ops::Range;
use core::sync::atomic::AtomicU32;
use digest::Sequence;
pub use grid::Grid;
use list::{EndpointList, TaskList};
pub use placement::Placement;
pub use rectangle::Rectangle;

/// What endpoints exist: those of a client that has the same contexts in every task of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Population {
    /// The client that the geometry belongs to.
    pub client: ClientId,
    /// Number of tasks in the job.
    pub tasks: u32,
    /// Number of the client's contexts in each task.
    pub contexts: u8,
}

/// Number of a geometry, the same at all its members. A number is used once: what is still under way of a geometry that was
/// destroyed is told by it from what is of a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct GeometryId(pub u32);

/// All tasks of the client, each with its context 0. It is there from the start.
pub const WORLD: GeometryId = GeometryId(0);

/// Why members were refused. The caller is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MembersError {
    /// No task, no endpoint of a task, or a stride of 0.
    Empty,
    /// More endpoints than a `u32` counts.
    TooMany,
    /// The job has no such task.
    UnknownTask(u32),
    /// The client has no such context.
    UnknownContext(u8),
    /// The endpoint with this place in the list belongs to another client.
    ForeignClient(usize),
    /// The member with this place in the list is in it before.
    Duplicate(usize),
    /// The task has two groups of endpoints in the list, or others' between its own.
    Scattered(u32),
    /// Group boundaries that do not rise from 0, or go past the list.
    Groups,
    /// The index needs memory for this many numbers.
    IndexMemory(usize),
    /// The index is none of the list in rising order.
    Index,
    /// The rectangle reaches over the edge of this dimension of the torus.
    Edge(usize),
    /// The task mapping is not of the torus's nodes.
    Mapping,
}

impl fmt::Display for MembersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a geometry needs at least one endpoint of one task"),
            Self::TooMany => f.write_str("a geometry has at most 4294967295 endpoints"),
            Self::UnknownTask(task) => write!(f, "task {task} is not in the job"),
            Self::UnknownContext(context) => write!(f, "the client has no context {context}"),
            Self::ForeignClient(place) => write!(f, "endpoint {place} of the list is another client's"),
            Self::Duplicate(place) => write!(f, "entry {place} of the list is in it before: name it once"),
            Self::Scattered(task) => {
                write!(f, "the endpoints of task {task} are not together: put them next to each other")
            }
            Self::Groups => f.write_str("group boundaries must rise from 0 and stay within the list"),
            Self::IndexMemory(len) => write!(f, "the index of this list needs memory for {len} numbers"),
            Self::Index => f.write_str("the index must name the entries of the list in rising order"),
            Self::Edge(dimension) => {
                write!(f, "the rectangle reaches over the edge of dimension {dimension}")
            }
            Self::Mapping => f.write_str("the task mapping is not of this torus"),
        }
    }
}

impl core::error::Error for MembersError {}

/// The tasks of a geometry whose tasks all have the same contexts in it.
#[derive(Clone, Copy, Debug)]
enum Tasks<'a> {
    Range { first: u32, count: u32, stride: u32 },
    Rectangle(Rectangle),
    List(TaskList<'a>),
}

#[derive(Clone, Copy, Debug)]
enum Set<'a> {
    /// The same contexts of every task, `per_task` of them from `first` on.
    Uniform {
        tasks: Tasks<'a>,
        first: u8,
        per_task: u8,
    },
    Endpoints(EndpointList<'a>),
}

/// The members of a geometry.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    client: ClientId,
    set: Set<'a>,
}

impl<'a> Members<'a> {
    fn uniform(population: Population, tasks: Tasks<'a>, contexts: Range<u8>) -> Result<Self, MembersError> {
        if contexts.is_empty() || tasks.count() == 0 {
            return Err(MembersError::Empty);
        }
        if contexts.end > population.contexts {
            return Err(MembersError::UnknownContext(contexts.end - 1));
        }
        let per_task = contexts.end - contexts.start;
        tasks.count().checked_mul(per_task.into()).ok_or(MembersError::TooMany)?;
        let set = Set::Uniform { tasks, first: contexts.start, per_task };
        Ok(Self { client: population.client, set })
    }

    /// All tasks of the job, with these contexts of each.
    ///
    /// # Errors
    /// See [`MembersError`].
    pub fn world(population: Population, contexts: Range<u8>) -> Result<Self, MembersError> {
        Self::range(population, contexts, 0, population.tasks, 1)
    }

    /// `count` tasks, the first and every `stride`-th after it, with these contexts of each.
    ///
    /// # Errors
    /// See [`MembersError`].
    pub fn range(
        population: Population,
        contexts: Range<u8>,
        first: u32,
        count: u32,
        stride: u32,
    ) -> Result<Self, MembersError> {
        if count == 0 || stride == 0 {
            return Err(MembersError::Empty);
        }
        let last = u64::from(first) + u64::from(stride) * u64::from(count - 1);
        if last >= population.tasks.into() {
            return Err(MembersError::UnknownTask(u32::try_from(last).unwrap_or(u32::MAX)));
        }
        Self::uniform(population, Tasks::Range { first, count, stride }, contexts)
    }

    /// All tasks of a box of nodes, with these contexts of each. Indices count the tasks of a node fastest, then
    /// the torus's first dimension, and so on.
    ///
    /// # Errors
    /// See [`MembersError`].
    pub fn rectangle(
        population: Population,
        contexts: Range<u8>,
        rectangle: Rectangle,
    ) -> Result<Self, MembersError> {
        if rectangle.machine_tasks() != population.tasks {
            return Err(MembersError::Mapping);
        }
        Self::uniform(population, Tasks::Rectangle(rectangle), contexts)
    }

    /// The tasks of a list in its order, with these contexts of each. A list that does not rise needs `index`
    /// memory as long as itself.
    ///
    /// # Errors
    /// See [`MembersError`].
    pub fn tasks(
        population: Population,
        contexts: Range<u8>,
        list: &'a [u32],
        index: &'a mut [u32],
    ) -> Result<Self, MembersError> {
        let list = TaskList::new(population, list, index)?;
        Self::uniform(population, Tasks::List(list), contexts)
    }

    /// As [`tasks`](Self::tasks), of memory that the caller uses again once the geometry was destroyed. `index` names the
    /// entries of the list in rising order; a list that rises needs none. Neither changes before.
    ///
    /// # Errors
    /// See [`MembersError`].
    pub fn pooled(
        population: Population,
        contexts: Range<u8>,
        list: &'a [AtomicU32],
        index: &'a [AtomicU32],
    ) -> Result<Self, MembersError> {
        let list = TaskList::pooled(population, list, index)?;
        Self::uniform(population, Tasks::List(list), contexts)
    }

    /// The endpoints of a list in its order, those of a task next to each other. `index` is memory twice as long.
    ///
    /// # Errors
    /// See [`MembersError`].
    pub fn endpoints(
        population: Population,
        list: &'a [Endpoint],
        index: &'a mut [u32],
    ) -> Result<Self, MembersError> {
        let list = EndpointList::by_task(population, list, index)?;
        Ok(Self { client: population.client, set: Set::Endpoints(list) })
    }

    /// The endpoints of a list, with endpoints of other tasks serving a task, as when endpoints on neighbouring
    /// nodes send for it (SPEC G-5). Group `i` is from `groups[i]` up to the next; its task is its first endpoint's, of whom
    /// others follow before those of other tasks.
    /// `index` is memory as long as the list.
    ///
    /// # Errors
    /// See [`MembersError`].
    pub fn grouped(
        population: Population,
        list: &'a [Endpoint],
        groups: &'a [u32],
        index: &'a mut [u32],
    ) -> Result<Self, MembersError> {
        let list = EndpointList::grouped(population, list, groups, index)?;
        Ok(Self { client: population.client, set: Set::Endpoints(list) })
    }

    /// The client that the members are of.
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// Number of endpoints.
    pub fn size(&self) -> u32 {
        match &self.set {
            Set::Uniform { tasks, per_task, .. } => tasks.count() * u32::from(*per_task),
            Set::Endpoints(list) => list.size(),
        }
    }

    /// Number of tasks.
    pub fn task_count(&self) -> u32 {
        match &self.set {
            Set::Uniform { tasks, .. } => tasks.count(),
            Set::Endpoints(list) => list.task_count(),
        }
    }

    /// The contexts of each task, where all have the same.
    pub fn contexts(&self) -> Option<Range<u8>> {
        match &self.set {
            Set::Uniform { first, per_task, .. } => Some(*first..first + per_task),
            Set::Endpoints(_) => None,
        }
    }

    /// The endpoint with this rank.
    #[inline]
    pub fn endpoint(&self, rank: u32) -> Option<Endpoint> {
        match &self.set {
            Set::Uniform { tasks, first, per_task } => {
                let (index, context) = (rank / u32::from(*per_task), rank % u32::from(*per_task));
                let context = ContextOffset(first + context as u8);
                Some(Endpoint::from_parts(self.client, tasks.task(index)?, context))
            }
            Set::Endpoints(list) => list.endpoint(rank),
        }
    }

    /// The rank of an endpoint, or `None` if it is no member.
    pub fn rank(&self, endpoint: Endpoint) -> Option<u32> {
        match &self.set {
            _ if endpoint.client() != self.client => None,
            Set::Uniform { tasks, first, per_task } => {
                let context =
                    endpoint.context().0.checked_sub(*first).filter(|context| context < per_task)?;
                Some(tasks.index(endpoint.task())? * u32::from(*per_task) + u32::from(context))
            }
            Set::Endpoints(list) => list.rank(endpoint),
        }
    }

    /// The task with this index.
    pub fn task(&self, index: u32) -> Option<u32> {
        match &self.set {
            Set::Uniform { tasks, .. } => tasks.task(index),
            Set::Endpoints(list) => Some(list.endpoint(list.ranks(index)?.start)?.task()),
        }
    }

    /// The index of a task, or `None` if it is no member.
    pub fn task_index(&self, task: u32) -> Option<u32> {
        match &self.set {
            Set::Uniform { tasks, .. } => tasks.index(task),
            Set::Endpoints(list) => list.task_index(task),
        }
    }

    /// Whether an endpoint of this task is a member.
    pub(crate) fn has_task(&self, task: u32) -> bool {
        match &self.set {
            Set::Uniform { tasks, .. } => tasks.index(task).is_some(),
            Set::Endpoints(list) => list.lowest_of(task).is_some(),
        }
    }

    /// Whether of the members that are of its task the one with this rank is the one with the lowest context.
    pub(crate) fn leads_task(&self, rank: u32) -> bool {
        match &self.set {
            Set::Uniform { per_task, .. } => rank.is_multiple_of(u32::from(*per_task)),
            Set::Endpoints(list) => {
                list.endpoint(rank).is_some_and(|member| list.lowest_of(member.task()) == Some(rank))
            }
        }
    }

    /// The ranks of the endpoints of the task with this index.
    pub fn ranks(&self, index: u32) -> Option<Range<u32>> {
        match &self.set {
            Set::Uniform { tasks, per_task, .. } => {
                let per_task = u32::from(*per_task);
                (index < tasks.count()).then(|| index * per_task..(index + 1) * per_task)
            }
            Set::Endpoints(list) => list.ranks(index),
        }
    }

    /// The index of the task that the endpoint with this rank serves.
    pub fn task_of(&self, rank: u32) -> Option<u32> {
        match &self.set {
            Set::Uniform { per_task, .. } => (rank < self.size()).then(|| rank / u32::from(*per_task)),
            Set::Endpoints(list) => list.task_of(rank),
        }
    }

    /// Digests of the endpoints in the order of ranks, and of where each task's begin: equal for equal members, in whatever
    /// form they were given. In O(log n) but for lists.
    pub(crate) fn digests(&self) -> [u64; 2] {
        let (endpoints, firsts) = match &self.set {
            Set::Uniform { tasks, first, per_task } => {
                let contexts = Sequence::of((*first..first + per_task).map(u64::from));
                let firsts = Sequence::one(0).repeated(tasks.count(), (*per_task).into());
                (tasks.sequence(contexts), firsts)
            }
            Set::Endpoints(list) => {
                let number = |rank| {
                    let endpoint = list.endpoint(rank)?;
                    Some(task_part(endpoint.task()) + u64::from(endpoint.context().0))
                };
                let firsts = (0..list.task_count()).filter_map(|index| Some(list.ranks(index)?.start.into()));
                (Sequence::of((0..list.size()).filter_map(number)), Sequence::of(firsts))
            }
        };
        [endpoints.digest(), firsts.digest()]
    }

    /// The task indices as a box of the torus, for algorithms that follow its links.
    pub fn grid(&self) -> Option<Grid> {
        match &self.set {
            Set::Uniform { tasks: Tasks::Rectangle(rectangle), .. } => rectangle.grid(),
            _ => None,
        }
    }

    /// Where the tasks are, if all nodes that have some have the same ones: known for rectangles and ranges, in the job that
    /// `machine` places. For affinity domains.
    pub fn placement(&self, machine: &TaskMap) -> Option<Placement> {
        let Set::Uniform { tasks, .. } = &self.set else { return None };
        match tasks {
            Tasks::Rectangle(rectangle) => {
                let per_node = rectangle.tasks_per_node();
                let map = TaskMap::new(rectangle.tasks() / per_node, per_node, MapOrder::TasksFirst)?;
                Some(Placement { map, first: 0, stride: 1 })
            }
            Tasks::Range { first, count, stride } => Placement::of_range(machine, *first, *count, *stride),
            Tasks::List(_) => None,
        }
    }
}

/// What a task adds to the number of an endpoint.
fn task_part(task: u32) -> u64 {
    u64::from(task) << 8
}

impl Tasks<'_> {
    /// The numbers of all endpoints, where `contexts` are those of task 0.
    fn sequence(&self, contexts: Sequence) -> Sequence {
        match self {
            Self::Range { first, count, stride } => {
                contexts.raised(task_part(*first)).repeated(*count, task_part(*stride))
            }
            Self::Rectangle(rectangle) => rectangle.sequence(contexts),
            Self::List(list) => {
                let tasks = (0..list.count()).filter_map(|index| list.task(index));
                tasks.fold(Sequence::EMPTY, |all, task| all.then(contexts.raised(task_part(task))))
            }
        }
    }

    fn count(&self) -> u32 {
        match self {
            Self::Range { count, .. } => *count,
            Self::Rectangle(rectangle) => rectangle.tasks(),
            Self::List(list) => list.count(),
        }
    }

    #[inline]
    fn task(&self, index: u32) -> Option<u32> {
        match self {
            Self::Range { first, count, stride } => (index < *count).then(|| first + index * stride),
            Self::Rectangle(rectangle) => rectangle.task(index),
            Self::List(list) => list.task(index),
        }
    }

    fn index(&self, task: u32) -> Option<u32> {
        match self {
            Self::Range { first, count, stride } => {
                let distance = task.checked_sub(*first)?;
                (distance.is_multiple_of(*stride) && distance / stride < *count).then(|| distance / stride)
            }
            Self::Rectangle(rectangle) => rectangle.index(task),
            Self::List(list) => list.index(task),
        }
    }
}

#[cfg(test)]
mod tests;
