//! Groups of tasks, and what they do together: malloc, free, barrier (SPEC G-1).
//!
//! All of it goes through context 0 of every task, in the same order at all members of a group. What threads do in different
//! groups has no order: one never waits for another's, so tasks may meet in them in any order. Each group can have a collective
//! in flight and memory for it at the same time as all others.

use crate::address::GlobalAddress;
use crate::error::Error;
use crate::exchange::{Area, BLOCK};
use crate::library::Library;
use crate::requests::RequestKind;
use base::{OutOfMemory, fill};
use pami::collective::{Blocks, Collective};
use pami::geometry::Members;
use pami::{Collect, Done, GeometryError, GeometryId, NewGeometry, Node, WORLD};
use zerocopy::{FromBytes, IntoBytes};

/// Allocations are multiples of this many bytes, and start at such: a cache line.
pub(crate) const ALIGNMENT: u32 = 64;

/// Some of the job's tasks; an index is a task's place among them.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    id: GeometryId,
    /// `None`: all.
    members: Option<Members<'static>>,
    tasks: u32,
}

impl Group {
    /// How many tasks there are.
    pub fn tasks(&self) -> u32 {
        self.tasks
    }

    /// The task with this index.
    pub fn task(&self, index: u32) -> Option<u32> {
        match &self.members {
            None => (index < self.tasks).then_some(index),
            Some(members) => members.task(index),
        }
    }
}

impl<N: Node> Library<N> {
    /// All tasks.
    pub fn world(&self) -> Group {
        Group { id: WORLD, members: None, tasks: self.tasks() }
    }

    /// Makes a group of the tasks `first`, `first + stride` and so on, `count` of them. Collective over these, which name
    /// the same `number` above 0 for it, which no other group has or had.
    ///
    /// # Errors
    /// [`Error::Members`], [`Error::Geometry`], [`Error::Operation`]
    pub fn group(&self, number: u32, first: u32, count: u32, stride: u32) -> Result<Group, Error> {
        let population = self.first().with(|context| context.population())?;
        self.make_group(number, Members::range(population, 0..1, first, count, stride)?)
    }

    /// As [`group`](Self::group), of any tasks.
    ///
    /// # Errors
    /// As there; [`Error::Memory`].
    pub fn group_of(&self, number: u32, tasks: &'static [u32]) -> Result<Group, Error> {
        let population = self.first().with(|context| context.population())?;
        let index = fill(self.inner.instance.node(), "a group", tasks.len(), || 0u32)?;
        self.make_group(number, Members::tasks(population, 0..1, tasks, index)?)
    }

    fn make_group(&self, number: u32, members: Members<'static>) -> Result<Group, Error> {
        let (id, first) = (GeometryId(number), self.first());
        let slot = first.begin(RequestKind::Own, self.task())?;
        let requests = self.inner.requests;
        requests.add(slot);
        let mut made = Err(GeometryError::Again);
        let waited = first.advance_until(|active| {
            let done = self.inner.protocols.callback(slot);
            made = active.create_geometry(NewGeometry::new(id, members, done));
            !matches!(made, Err(GeometryError::Again))
        });
        if made.is_err() {
            requests.end(slot, Ok(0));
        }
        first.finish(slot, waited.and(made.map_err(Error::Geometry)))?;
        Ok(Group { id, members: Some(members), tasks: members.task_count() })
    }

    /// Forgets a group, after its last collective. Every member does so for itself.
    ///
    /// # Errors
    /// [`Error::Geometry`]
    pub fn end_group(&self, group: Group) -> Result<(), Error> {
        let mut ended = Err(GeometryError::Again);
        self.first().advance_until(|active| {
            ended = active.destroy_geometry(group.id);
            !matches!(ended, Err(GeometryError::Again))
        })?;
        Ok(ended?)
    }

    /// Starts a collective on context 0 and waits for it.
    fn collect(&self, make: impl FnOnce(Done<N::Port>) -> Collect<N::Port>) -> Result<(), Error> {
        let first = self.first();
        let slot = first.begin(RequestKind::Own, self.task())?;
        let requests = self.inner.requests;
        requests.add(slot);
        let started =
            first.with(|active| Ok(self.inner.protocols.collect(active, slot, make)?)).and_then(|it| it);
        if started.is_err() {
            requests.end(slot, Ok(0));
        }
        first.finish(slot, started).map(drop)
    }

    /// Every member's sixteen bytes, in the order of indices.
    pub(crate) fn gather(
        &self,
        group: &Group,
        own: &[u8],
        mut each: impl FnMut(u32, &[u8]),
    ) -> Result<(), Error> {
        let (first, areas) = (self.first(), &self.inner.areas);
        let mut area = None;
        // Only more threads of one group than there are groups wait here, for those before them.
        first.advance_until(|_| {
            area = area.take().or_else(|| areas.take());
            area.is_some()
        })?;
        let Some(area) = area else { return Err(Error::Finalized) };
        let outcome = self.gather_in(&area, group, own, &mut each);
        areas.give_back(area);
        first.lane()?.nudge();
        outcome
    }

    fn gather_in(
        &self,
        area: &Area,
        group: &Group,
        own: &[u8],
        each: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<(), Error> {
        let inside = |_| OutOfMemory { what: "exchanges", bytes: BLOCK };
        area.own.write(0, own).map_err(inside)?;
        self.collect(|done| Collect {
            input: Some((area.own.clone(), 0)),
            output: Some((area.all.clone(), 0)),
            scratch: Some((area.scratch.clone(), 0)),
            blocks: Blocks::equal(BLOCK),
            sources: Blocks::equal(BLOCK),
            ..Collect::new(group.id, Collective::Allgather, done)
        })?;
        for index in 0..group.tasks {
            let mut block = [0; BLOCK];
            area.all.read(index as usize * BLOCK, &mut block).map_err(inside)?;
            each(index, &block);
        }
        Ok(())
    }

    /// Waits until all tasks of the group are here. What they began need not have been carried out.
    pub(crate) fn group_barrier(&self, group: &Group) -> Result<(), Error> {
        self.collect(|done| Collect::new(group.id, Collective::Barrier, done))
    }

    /// Waits until all tasks of the group are here, and all that they began on the contexts that they call this on has been
    /// carried out. Collective.
    ///
    /// # Errors
    /// [`Error::Operation`], [`Error::Collect`]
    pub fn barrier(&self, group: &Group) -> Result<(), Error> {
        self.all_fence()?;
        self.group_barrier(group)
    }

    /// The offset of `bytes` bytes that are the caller's from now on. Of no bytes there is one, too: all addresses differ.
    fn allocate(&self, bytes: u32) -> Option<u32> {
        let len = bytes.max(1).checked_next_multiple_of(ALIGNMENT)?;
        self.inner.instance.allocated().allocate(len as usize).map(|offset| offset as u32)
    }

    /// Allocates `bytes` in this task's slab, and says where each task of the group has its own, by index. Collective; each
    /// task may ask for another length. What is allocated starts at a multiple of 64; it holds whatever it did before.
    ///
    /// # Errors
    /// [`Error::Full`] at all tasks if one has no room, [`Error::Addresses`] at all if one has places for another number of
    /// them, [`Error::Operation`], [`Error::Collect`].
    pub fn malloc(&self, group: &Group, bytes: u32, addresses: &mut [GlobalAddress]) -> Result<(), Error> {
        let (wanted, given) = (group.tasks as usize, addresses.len());
        // The others are not to wait for a task that is mistaken.
        let offset = if given == wanted { self.allocate(bytes) } else { None };
        let own: [u32; 4] = [offset.is_some().into(), offset.unwrap_or(0), self.task(), given as u32];
        let mut outcome = Ok(());
        let exchanged = self.gather(group, own.as_bytes(), |index, block| {
            let [has, offset, task, given] = <[u32; 4]>::read_from_bytes(block).unwrap_or_default();
            if let Some(address) = addresses.get_mut(index as usize) {
                *address = GlobalAddress { task, offset };
            }
            let given = given as usize;
            if given != wanted {
                outcome = outcome.and(Err(Error::Addresses { given, wanted }));
            } else if has == 0 {
                outcome = outcome.and(Err(Error::Full { task }));
            }
        });
        outcome = exchanged.and(outcome);
        if let (Err(_), Some(offset)) = (outcome, offset) {
            self.inner.instance.allocated().free(offset as usize);
        }
        outcome
    }

    /// Gives back what this task allocated at `address`. Collective over the group; all that was begun towards it, on the
    /// contexts that the tasks call this on, has been carried out before.
    ///
    /// # Errors
    /// [`Error::NotAllocated`], [`Error::Operation`], [`Error::Collect`]
    pub fn free(&self, group: &Group, address: GlobalAddress) -> Result<(), Error> {
        let mine =
            address.task == self.task() && self.inner.instance.allocated().contains(address.offset as usize);
        // The others are not to wait for a task that is mistaken.
        self.barrier(group)?;
        if !mine {
            return Err(Error::NotAllocated(address));
        }
        self.inner.instance.allocated().free(address.offset as usize);
        Ok(())
    }

    /// As [`malloc`](Self::malloc), without asking others: they may be told the address.
    ///
    /// # Errors
    /// [`Error::Full`]
    pub fn malloc_local(&self, bytes: u32) -> Result<GlobalAddress, Error> {
        let task = self.task();
        let offset = self.allocate(bytes).ok_or(Error::Full { task })?;
        Ok(GlobalAddress { task, offset })
    }

    /// As [`free`](Self::free), without asking others: they must have no more to do with it.
    ///
    /// # Errors
    /// [`Error::NotAllocated`]
    pub fn free_local(&self, address: GlobalAddress) -> Result<(), Error> {
        let mine =
            address.task == self.task() && self.inner.instance.allocated().free(address.offset as usize);
        if mine { Ok(()) } else { Err(Error::NotAllocated(address)) }
    }
}
