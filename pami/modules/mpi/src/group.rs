//! Groups: ordered sets of processes (the standard's chapter on groups, contexts, communicators).
//!
//! A group is a range of tasks or a list. Lists live in a pool that the library takes when it is set up:
//! clones of a group share its list, and the last that is dropped gives it back. So `MPI_Group_free` is `drop`.

use crate::error::{Error, Result};
use crate::pool::{self, Lacks, Pool};
use crate::settings::Settings;
use base::fill;
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use pami::client::Node;
use pami::geometry::{Members, Population};

/// What a comparison of groups or communicators says, in the standard's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Comparison {
    /// The same.
    Ident,
    /// Communicators of the same group, in other worlds.
    Congruent,
    /// The same processes in another order.
    Similar,
    /// Neither.
    Unequal,
}

/// A group: a small handle.
#[derive(Clone, Debug)]
pub struct Group(Ranks);

#[derive(Clone, Debug)]
enum Ranks {
    Range { first: u32, count: u32, stride: u32 },
    List(List),
}

/// Tasks in the order of their ranks; behind them the ranks in the order of tasks, if that is another one.
#[derive(Clone)]
struct List(pool::Handle<AtomicU32, AtomicUsize>);

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts().0).finish()
    }
}

fn get(words: &[AtomicU32], place: usize) -> Option<u32> {
    words.get(place).map(|word| word.load(Ordering::Relaxed))
}

impl List {
    /// Number of tasks.
    fn len(&self) -> usize {
        self.0.what().load(Ordering::Relaxed)
    }

    fn parts(&self) -> (&'static [AtomicU32], &'static [AtomicU32]) {
        let cells = self.0.cells();
        cells.split_at(self.len().min(cells.len()))
    }

    fn rank_of(&self, task: u32) -> Option<u32> {
        let (tasks, index) = self.parts();
        let place = |at: usize| if index.is_empty() { Some(at as u32) } else { get(index, at) };
        let (mut low, mut high) = (0, tasks.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if get(tasks, place(middle)? as usize)? < task { low = middle + 1 } else { high = middle }
        }
        let rank = if low < tasks.len() { place(low)? } else { return None };
        (get(tasks, rank as usize)? == task).then_some(rank)
    }
}

/// Tasks from the first rank to the last, by steps (`MPI_Group_range_incl`).
pub type Range = (i32, i32, i32);

impl Group {
    /// `MPI_GROUP_EMPTY`.
    pub const EMPTY: Self = Self::range(0, 0, 1);

    pub(crate) const fn range(first: u32, count: u32, stride: u32) -> Self {
        Self(Ranks::Range { first, count, stride })
    }

    /// `MPI_Group_size`.
    pub fn size(&self) -> u32 {
        match &self.0 {
            Ranks::Range { count, .. } => *count,
            Ranks::List(list) => list.len() as u32,
        }
    }

    /// The task with this rank.
    pub fn task(&self, rank: u32) -> Option<u32> {
        match &self.0 {
            Ranks::Range { first, count, stride } => (rank < *count).then(|| first + rank * stride),
            Ranks::List(list) => get(list.parts().0, rank as usize),
        }
    }

    /// The rank of a task; `None` (`MPI_UNDEFINED`) if it is not in the group.
    pub fn rank_of(&self, task: u32) -> Option<u32> {
        match &self.0 {
            Ranks::Range { first, count, stride } => {
                let distance = task.checked_sub(*first)?;
                (distance.is_multiple_of(*stride) && distance / stride < *count).then(|| distance / stride)
            }
            Ranks::List(list) => list.rank_of(task),
        }
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        (0..self.size()).filter_map(|rank| self.task(rank))
    }

    /// `MPI_Group_translate_ranks`, of one rank: what the process with a rank here has as its rank in another group.
    ///
    /// # Errors
    /// [`Error::Rank`].
    pub fn translate_rank(&self, rank: u32, other: &Self) -> Result<Option<u32>> {
        let task = self.task(rank).ok_or(Error::Rank(rank.into()))?;
        Ok(other.rank_of(task))
    }

    /// `MPI_Group_compare`.
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.size() != other.size() {
            Comparison::Unequal
        } else if self.tasks().eq(other.tasks()) {
            Comparison::Ident
        } else if self.tasks().all(|task| other.rank_of(task).is_some()) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    pub(crate) fn check(&self, rank: i32) -> Result<u32> {
        let task = u32::try_from(rank).ok().and_then(|rank| self.task(rank));
        task.ok_or(Error::Rank(rank.into()))
    }

    /// Whether the rank is one of the list, which has no rank twice.
    pub(crate) fn check_list(&self, ranks: impl Iterator<Item = i32> + Clone) -> Result<()> {
        let mut rest = ranks;
        while let Some(rank) = rest.next() {
            self.check(rank)?;
            if rest.clone().any(|other| other == rank) {
                return Err(Error::Rank(rank.into()));
            }
        }
        Ok(())
    }
}

/// What groups that are no ranges are made of.
#[derive(Default)]
pub(crate) struct Lists {
    pool: Option<Pool<AtomicU32, AtomicUsize>>,
    /// Twice as long as the job has tasks.
    scratch: &'static mut [u32],
}

impl Lists {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        let (groups, ranks) = (settings.groups, settings.group_ranks);
        let pool = Pool::new(node, (groups, |_| AtomicUsize::default()), (ranks, AtomicU32::default));
        let bytes = Pool::<AtomicU32, AtomicUsize>::bytes(groups, ranks);
        let none = Error::NoMem { what: "bytes of the task's memory for groups", limit: bytes };
        Ok(Self {
            pool: Some(pool.ok_or(none)?),
            scratch: fill(node, "groups", 2 * node.tasks() as usize, || 0)?,
        })
    }

    /// The group of these tasks, in that order; they differ from each other.
    pub(crate) fn group(&mut self, tasks: impl Iterator<Item = u32>) -> Result<Group> {
        let half = self.scratch.len() / 2;
        let mut len = 0;
        for task in tasks {
            *self.scratch[..half].get_mut(len).ok_or(Error::Group)? = task;
            len += 1;
        }
        self.group_of_scratch(len)
    }

    /// The group of the tasks below the job's that `holds` holds for, in the order of a key.
    pub(crate) fn group_by<K: Ord>(
        &mut self,
        count: u32,
        holds: impl Fn(u32) -> bool,
        key: impl Fn(u32) -> K,
        task: impl Fn(u32) -> Option<u32>,
    ) -> Result<Group> {
        let mut len = 0;
        for rank in (0..count).filter(|&rank| holds(rank)) {
            *self.scratch.get_mut(len).ok_or(Error::Group)? = rank;
            len += 1;
        }
        let ranks = &mut self.scratch[..len];
        ranks.sort_unstable_by_key(|&rank| (key(rank), rank));
        for rank in ranks {
            *rank = task(*rank).ok_or(Error::Group)?;
        }
        self.group_of_scratch(len)
    }

    fn group_of_scratch(&mut self, len: usize) -> Result<Group> {
        let (tasks, rest) = self.scratch.split_at_mut(self.scratch.len() / 2);
        let tasks = tasks.get(..len).ok_or(Error::Group)?;
        let Some(&first) = tasks.first() else { return Ok(Group::EMPTY) };
        let stride =
            tasks.get(1).map_or(Some(1), |second| second.checked_sub(first)).filter(|&stride| stride > 0);
        if let Some(stride) = stride
            && tasks.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(stride))
        {
            return Ok(Group::range(first, len as u32, stride));
        }
        let index: &mut [u32] = if tasks.is_sorted() { &mut [] } else { &mut rest[..len] };
        index.iter_mut().zip(0..).for_each(|(entry, place)| *entry = place);
        index.sort_unstable_by_key(|&place| tasks[place as usize]);
        let pool = self.pool.as_ref().ok_or(Error::Group)?;
        let lacks = |lacks: Lacks| match lacks {
            Lacks::Places => Error::NoMem { what: "groups that are no ranges", limit: pool.limit() },
            Lacks::Cells => Error::NoMem { what: "ranks of groups", limit: pool.cell_limit() },
        };
        let list = pool.claim().map_err(lacks)?;
        list.lengthen(len + index.len(), |_, _| ()).map_err(lacks)?;
        list.close();
        list.what().store(len, Ordering::Relaxed);
        for (cell, &value) in list.cells().iter().zip(tasks.iter().chain(&*index)) {
            cell.store(value, Ordering::Relaxed);
        }
        Ok(Group(Ranks::List(List(list))))
    }
}

impl Group {
    /// The task of rank 0 and by how much tasks rise from rank to rank, if they do by the same everywhere.
    pub(crate) fn progression(&self) -> Option<(u32, u32)> {
        match self.0 {
            Ranks::Range { first, stride, .. } => Some((first, stride)),
            Ranks::List(_) => None,
        }
    }

    /// The members of a communicator of it, in one context.
    pub(crate) fn members(&self, population: Population, context: u8) -> Result<Members<'static>> {
        let contexts = context..context + 1;
        Ok(match &self.0 {
            Ranks::Range { first, count, stride } => {
                Members::range(population, contexts, *first, *count, *stride)?
            }
            Ranks::List(list) => {
                let (tasks, index) = list.parts();
                Members::pooled(population, contexts, tasks, index)?
            }
        })
    }
}
