//! Groups made of groups.

use crate::error::{Error, Result};
use crate::group::{Group, Range};
use crate::library::Mpi;
use pami::client::Node;

/// The ranks that ranges name.
fn ranks_of(ranges: &[Range]) -> Result<impl Iterator<Item = i32> + Clone + '_> {
    if ranges.iter().any(|&(_, _, stride)| stride == 0) {
        return Err(Error::Arg("the stride of a range is 0"));
    }
    Ok(ranges.iter().flat_map(|&(first, last, stride)| {
        let steps = (i64::from(last) - i64::from(first)) / i64::from(stride);
        (0..=steps).map(move |step| (i64::from(first) + step * i64::from(stride)) as i32)
    }))
}

impl<N: Node> Mpi<N> {
    fn group_of(&self, tasks: impl Iterator<Item = u32>) -> Result<Group> {
        self.library.lists.lock().group(tasks)
    }

    /// `MPI_Group_rank`: this process's rank; `None` if it is not in the group.
    pub fn group_rank(&self, group: &Group) -> Option<u32> {
        group.rank_of(self.library.node.task())
    }

    /// `MPI_Group_incl`: the processes with these ranks, in that order.
    ///
    /// # Errors
    /// [`Error::Rank`] if one does not exist or is there twice; [`Error::NoMem`].
    pub fn group_incl(&self, group: &Group, ranks: &[i32]) -> Result<Group> {
        group.check_list(ranks.iter().copied())?;
        self.group_of(ranks.iter().filter_map(|&rank| group.check(rank).ok()))
    }

    /// `MPI_Group_excl`: all but the processes with these ranks.
    ///
    /// # Errors
    /// As [`group_incl`](Self::group_incl).
    pub fn group_excl(&self, group: &Group, ranks: &[i32]) -> Result<Group> {
        group.check_list(ranks.iter().copied())?;
        let stays = |rank: &u32| !ranks.contains(&(*rank as i32));
        self.group_of((0..group.size()).filter(stays).filter_map(|rank| group.task(rank)))
    }

    /// `MPI_Group_range_incl`.
    ///
    /// # Errors
    /// As [`group_incl`](Self::group_incl); [`Error::Arg`] for a stride of 0.
    pub fn group_range_incl(&self, group: &Group, ranges: &[Range]) -> Result<Group> {
        let ranks = ranks_of(ranges)?;
        group.check_list(ranks.clone())?;
        self.group_of(ranks.filter_map(|rank| group.check(rank).ok()))
    }

    /// `MPI_Group_range_excl`.
    ///
    /// # Errors
    /// As [`group_range_incl`](Self::group_range_incl).
    pub fn group_range_excl(&self, group: &Group, ranges: &[Range]) -> Result<Group> {
        let ranks = ranks_of(ranges)?;
        group.check_list(ranks.clone())?;
        let stays = |rank: &u32| !ranks.clone().any(|other| other == *rank as i32);
        self.group_of((0..group.size()).filter(stays).filter_map(|rank| group.task(rank)))
    }

    /// `MPI_Group_union`: all of the first, then those of the second that are not in the first.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub fn group_union(&self, a: &Group, b: &Group) -> Result<Group> {
        self.group_of(a.tasks().chain(b.tasks().filter(|&task| a.rank_of(task).is_none())))
    }

    /// `MPI_Group_intersection`: those of the first that are in the second.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub fn group_intersection(&self, a: &Group, b: &Group) -> Result<Group> {
        self.group_of(a.tasks().filter(|&task| b.rank_of(task).is_some()))
    }

    /// `MPI_Group_difference`: those of the first that are not in the second.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub fn group_difference(&self, a: &Group, b: &Group) -> Result<Group> {
        self.group_of(a.tasks().filter(|&task| b.rank_of(task).is_none()))
    }
}
