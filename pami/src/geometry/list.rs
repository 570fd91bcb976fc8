//! Members that are listed.

use super::{MembersError, Population};
use crate::endpoint::Endpoint;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

/// Finds the place of `wanted` among `len` entries of which `key(i)` is the `i`-th in rising order.
fn search<K: Ord>(len: usize, wanted: &K, key: impl Fn(usize) -> K) -> Option<usize> {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if key(middle) < *wanted { low = middle + 1 } else { high = middle }
    }
    (low < len && key(low) == *wanted).then_some(low)
}

/// Makes `index` name the entries in the rising order of `key`, and refuses equal ones.
fn sort<K: Ord>(index: &mut [u32], key: impl Fn(usize) -> K) -> Result<(), MembersError> {
    for (place, entry) in index.iter_mut().enumerate() {
        *entry = place as u32;
    }
    let key = |entry: u32| key(entry as usize);
    // Equal entries stand in the order of the list, so that the later one is blamed.
    index.sort_unstable_by(|&a, &b| key(a).cmp(&key(b)).then(a.cmp(&b)));
    let equal = index.windows(2).find(|pair| key(pair[0]) == key(pair[1]));
    equal.map_or(Ok(()), |pair| Err(MembersError::Duplicate(pair[1] as usize)))
}

/// Numbers of the caller's: borrowed, or in memory that it uses again once the geometry is gone.
#[derive(Clone, Copy, Debug)]
enum Words<'a> {
    Plain(&'a [u32]),
    Pooled(&'a [AtomicU32]),
}

impl Words<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Plain(words) => words.len(),
            Self::Pooled(words) => words.len(),
        }
    }

    fn get(&self, place: usize) -> Option<u32> {
        match self {
            Self::Plain(words) => words.get(place).copied(),
            Self::Pooled(words) => words.get(place).map(|word| word.load(Ordering::Relaxed)),
        }
    }

    fn all(&self) -> impl Iterator<Item = u32> + Clone {
        (0..self.len()).filter_map(|place| self.get(place))
    }
}

/// A list of tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskList<'a> {
    tasks: Words<'a>,
    /// The list in the order of tasks; nothing if the list has that order itself.
    index: Words<'a>,
}

impl<'a> TaskList<'a> {
    pub(super) fn new(
        population: Population,
        tasks: &'a [u32],
        index: &'a mut [u32],
    ) -> Result<Self, MembersError> {
        let words = Words::Plain(tasks);
        check_tasks(population, words)?;
        if tasks.is_sorted_by(|a, b| a < b) {
            return Ok(Self { tasks: words, index: Words::Plain(&[]) });
        }
        let index = index.get_mut(..tasks.len()).ok_or(MembersError::IndexMemory(tasks.len()))?;
        sort(index, |place| tasks[place])?;
        Ok(Self { tasks: words, index: Words::Plain(index) })
    }

    /// With an index that the caller has sorted.
    pub(super) fn pooled(
        population: Population,
        tasks: &'a [AtomicU32],
        index: &'a [AtomicU32],
    ) -> Result<Self, MembersError> {
        let (tasks, index) = (Words::Pooled(tasks), Words::Pooled(index));
        check_tasks(population, tasks)?;
        let rises = |a: &u32, b: &u32| a < b;
        if index.len() == 0 {
            let sorted = tasks.all().is_sorted_by(rises);
            return if sorted {
                Ok(Self { tasks, index })
            } else {
                Err(MembersError::IndexMemory(tasks.len()))
            };
        }
        // Tasks that rise along the index are all different, and so are its entries.
        let named = index.all().filter_map(|place| tasks.get(place as usize));
        let whole = index.len() == tasks.len() && named.clone().count() == tasks.len();
        if whole && named.is_sorted_by(rises) { Ok(Self { tasks, index }) } else { Err(MembersError::Index) }
    }

    pub(super) fn count(&self) -> u32 {
        self.tasks.len() as u32
    }

    pub(super) fn task(&self, index: u32) -> Option<u32> {
        self.tasks.get(index as usize)
    }

    pub(super) fn index(&self, task: u32) -> Option<u32> {
        // Places below their lengths are there.
        let at = |words: &Words<'_>, place: usize| words.get(place).unwrap_or(u32::MAX);
        if self.index.len() == 0 {
            return search(self.tasks.len(), &task, |place| at(&self.tasks, place)).map(|place| place as u32);
        }
        search(self.index.len(), &task, |place| at(&self.tasks, at(&self.index, place) as usize))
            .map(|place| at(&self.index, place))
    }
}

fn check_tasks(population: Population, tasks: Words<'_>) -> Result<(), MembersError> {
    if u32::try_from(tasks.len()).is_err() {
        return Err(MembersError::TooMany);
    }
    let unknown = tasks.all().find(|&task| task >= population.tasks);
    unknown.map_or(Ok(()), |task| Err(MembersError::UnknownTask(task)))
}

/// A list of endpoints.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndpointList<'a> {
    endpoints: &'a [Endpoint],
    /// The rank of the first endpoint of each task.
    groups: &'a [u32],
    /// The ranks in the order of tasks and contexts.
    index: &'a [u32],
}

fn key(endpoint: Endpoint) -> (u32, u8) {
    (endpoint.task(), endpoint.context().0)
}

fn check(population: Population, endpoints: &[Endpoint]) -> Result<(), MembersError> {
    if endpoints.is_empty() {
        return Err(MembersError::Empty);
    }
    if u32::try_from(endpoints.len()).is_err() {
        return Err(MembersError::TooMany);
    }
    let mistake = endpoints.iter().enumerate().find_map(|(place, endpoint)| match endpoint {
        _ if endpoint.client() != population.client => Some(MembersError::ForeignClient(place)),
        _ if endpoint.task() >= population.tasks => Some(MembersError::UnknownTask(endpoint.task())),
        _ if endpoint.context().0 >= population.contexts => {
            Some(MembersError::UnknownContext(endpoint.context().0))
        }
        _ => None,
    });
    mistake.map_or(Ok(()), Err)
}

impl<'a> EndpointList<'a> {
    /// Groups neighbours of one task.
    pub(super) fn by_task(
        population: Population,
        endpoints: &'a [Endpoint],
        memory: &'a mut [u32],
    ) -> Result<Self, MembersError> {
        let needed = 2 * endpoints.len();
        let memory = memory.get_mut(..needed).ok_or(MembersError::IndexMemory(needed))?;
        let (index, groups) = memory.split_at_mut(endpoints.len());
        let mut count = 0;
        for (rank, endpoint) in endpoints.iter().enumerate() {
            if rank == 0 || endpoints[rank - 1].task() != endpoint.task() {
                groups[count] = rank as u32;
                count += 1;
            }
        }
        Self::grouped(population, endpoints, &groups[..count], index)
    }

    pub(super) fn grouped(
        population: Population,
        endpoints: &'a [Endpoint],
        groups: &'a [u32],
        index: &'a mut [u32],
    ) -> Result<Self, MembersError> {
        check(population, endpoints)?;
        let within = groups.last().is_some_and(|&last| (last as usize) < endpoints.len());
        if groups.first() != Some(&0) || !within || !groups.is_sorted_by(|a, b| a < b) {
            return Err(MembersError::Groups);
        }
        let index = index.get_mut(..endpoints.len()).ok_or(MembersError::IndexMemory(endpoints.len()))?;
        sort(index, |place| key(endpoints[place]))?;
        let list = Self { endpoints, groups, index };
        let owner = |group: usize| endpoints[groups[group] as usize].task();
        let scattered = (0..groups.len()).find(|&group| list.task_index(owner(group)) != Some(group as u32));
        // Its own come first, so that it is soon known which they are.
        let scattered = scattered.or_else(|| {
            (0..groups.len()).find(|&group| {
                let ranks = list.ranks(group as u32).unwrap_or_default();
                let mut own = ranks.map(|rank| endpoints[rank as usize].task() == owner(group));
                own.by_ref().any(|own| !own) && own.any(|own| own)
            })
        });
        scattered.map_or(Ok(list), |group| Err(MembersError::Scattered(owner(group))))
    }

    pub(super) fn size(&self) -> u32 {
        self.endpoints.len() as u32
    }

    pub(super) fn task_count(&self) -> u32 {
        self.groups.len() as u32
    }

    pub(super) fn endpoint(&self, rank: u32) -> Option<Endpoint> {
        self.endpoints.get(rank as usize).copied()
    }

    pub(super) fn rank(&self, endpoint: Endpoint) -> Option<u32> {
        let at = |place: usize| key(self.endpoints[self.index[place] as usize]);
        search(self.index.len(), &key(endpoint), at).map(|place| self.index[place])
    }

    pub(super) fn ranks(&self, index: u32) -> Option<Range<u32>> {
        let index = index as usize;
        let end = self.groups.get(index + 1).copied().unwrap_or(self.size());
        Some(*self.groups.get(index)?..end)
    }

    pub(super) fn task_of(&self, rank: u32) -> Option<u32> {
        (rank < self.size()).then(|| self.groups.partition_point(|&start| start <= rank) as u32 - 1)
    }

    pub(super) fn task_index(&self, task: u32) -> Option<u32> {
        let task_at = |&rank: &u32| self.endpoints[rank as usize].task();
        let from = self.index.partition_point(|rank| task_at(rank) < task);
        // Its endpoints that serve other tasks are no first of a group.
        let own = self.index[from..].iter().take_while(|rank| task_at(rank) == task);
        own.filter_map(|rank| self.groups.binary_search(rank).ok()).next().map(|group| group as u32)
    }

    /// The rank of the task's endpoint with the lowest context, whatever task it serves.
    pub(super) fn lowest_of(&self, task: u32) -> Option<u32> {
        let task_at = |&rank: &u32| self.endpoints[rank as usize].task();
        let from = self.index.partition_point(|rank| task_at(rank) < task);
        self.index.get(from).copied().filter(|rank| task_at(rank) == task)
    }
}
