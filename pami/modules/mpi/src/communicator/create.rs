//! Making communicators, and freeing them.

use super::ids::{Agreed, Proposal, WORDS};
use super::{Communicator, Entry, SELF};
use crate::data::Data;
use crate::error::{Error, Result};
use crate::group::{Comparison, Group};
use crate::message::{INTERNAL, Mode};
use crate::op::Op;
use core::mem::size_of;
use pami::client::Node;
use pami::{GeometryError, GeometryId, NewGeometry, Shared, WORLD};

/// The color of a process that wants no part of a split (`MPI_UNDEFINED`).
pub const UNDEFINED: i32 = -32766;

impl<N: Node> Communicator<N> {
    /// `MPI_Comm_group`.
    ///
    /// # Errors
    /// [`Error::Comm`].
    pub fn group(&self) -> Result<Group> {
        self.enter(|_, state| Ok(self.entry(state)?.group))
    }

    /// `MPI_Comm_compare`.
    ///
    /// # Errors
    /// [`Error::Comm`].
    pub fn compare(&self, other: &Self) -> Result<Comparison> {
        let groups = (self.group()?, other.group()?);
        Ok(match groups.0.compare(&groups.1) {
            Comparison::Ident if self == other => Comparison::Ident,
            Comparison::Ident => Comparison::Congruent,
            other => other,
        })
    }

    /// `MPI_Comm_dup`: the same processes in a world of their own, with the attributes whose keys say so. All call it.
    ///
    /// # Errors
    /// [`Error::NoMem`] without room at one of them, [`Error::NodeDead`]; [`Error::Callback`] of an attribute.
    pub fn dup(&self) -> Result<Self> {
        let new = self.create(&self.group()?)?.ok_or(Error::Group)?;
        let new = new.with_grid(self.grid()?)?;
        match self.copy_attributes(&new) {
            Ok(()) => Ok(new),
            Err(error) => {
                new.free()?;
                Err(error)
            }
        }
    }

    /// `MPI_Comm_create`: the processes of a group, which all are of this communicator. All of this communicator call it,
    /// with the same group, or those of groups that do not meet each with theirs; others with the empty one. `None`
    /// (`MPI_COMM_NULL`) for a process that is not in its group.
    ///
    /// # Errors
    /// [`Error::Group`]; others as [`dup`](Self::dup).
    pub fn create(&self, group: &Group) -> Result<Option<Self>> {
        let own = self.group()?;
        let inside =
            (0..group.size()).all(|rank| group.task(rank).and_then(|task| own.rank_of(task)).is_some());
        self.make(group, inside, |memory| self.combine(memory))
    }

    /// `MPI_Comm_create_group`: as [`create`](Self::create), and only the processes of the group call it. The tag tells
    /// several apart that are made at the same time.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Option<Self>> {
        let own = self.group()?;
        let rank_of = |rank| group.task(rank).and_then(|task| own.rank_of(task));
        if !(0..group.size()).all(|rank| rank_of(rank).is_some()) {
            return Err(Error::Group);
        }
        if group.rank_of(self.library.node.task()).is_none() {
            return Ok(None);
        }
        self.make(group, true, |memory| self.combine_in_group(group, &own, tag, memory))
    }

    /// `MPI_Comm_split`: the processes with the same color, in the order of their keys and then of their ranks here. `None`
    /// for [`UNDEFINED`]. All call it.
    ///
    /// # Errors
    /// [`Error::Arg`] for another negative color; others as [`dup`](Self::dup).
    pub fn split(&self, color: i32, key: i32) -> Result<Option<Self>> {
        if color < 0 && color != UNDEFINED {
            return Err(Error::Arg("the color of a split is negative: name one from 0 on, or UNDEFINED"));
        }
        let size = self.size();
        let memory = self.library.take_spare(8 + 8 * size as usize)?;
        let group = self.group_of_color(color, key, &memory);
        self.library.give_spare(memory);
        let group = group?;
        // One number does for all colors, since they do not meet.
        self.make(&group, true, |memory| self.combine(memory))
    }

    fn group_of_color(&self, color: i32, key: i32, memory: &Shared) -> Result<Group> {
        let mine = Data::of::<i32>(memory, 0, 2)?;
        mine.write(&[color, key])?;
        self.allgather(&mine, &Data::of::<i32>(memory, 8, 2)?)?;
        let brought = |rank: u32| {
            let mut words = [UNDEFINED; 2];
            // It has room for all ranks.
            let _ = memory.read(8 + 8 * rank as usize, zerocopy::IntoBytes::as_mut_bytes(&mut words));
            words
        };
        if color == UNDEFINED {
            return Ok(Group::EMPTY);
        }
        let own = self.group()?;
        let mut lists = self.library.lists.lock();
        lists.group_by(
            self.size(),
            |rank| brought(rank)[0] == color,
            |rank| brought(rank)[1],
            |rank| own.task(rank),
        )
    }

    /// Agrees on a number, by what `combine` makes of everybody's proposals in the memory's front, and makes the
    /// communicator.
    fn make(
        &self,
        group: &Group,
        good: bool,
        mut combine: impl FnMut(&Shared) -> Result<()>,
    ) -> Result<Option<Self>> {
        let parent = self.id.0;
        let library = self.library;
        library.release_unused();
        if !library.ids.lock().seek(parent) {
            return Err(Error::NoMem { what: "threads that make communicators", limit: 16 });
        }
        let memory = library.take_spare(2 * size_of::<Proposal>())?;
        let agreed = loop {
            let room = good && library.has_room();
            let mine = library.ids.lock().propose(parent, room);
            let all = Data::of::<u64>(&memory, 0, WORDS)
                .and_then(|data| data.write(&mine))
                .map_err(Error::from)
                .and_then(|()| combine(&memory))
                .and_then(|()| {
                    let mut all = [0; WORDS];
                    Data::of::<u64>(&memory, 0, WORDS)?.read(&mut all)?;
                    Ok(all)
                });
            let mut ids = library.ids.lock();
            match all {
                Ok(all) => match ids.agree(&mine, &all) {
                    Agreed::Again => {}
                    Agreed::Id(id) => break Ok(id),
                    Agreed::Full => {
                        break Err(Error::NoMem { what: "communicators", limit: super::ids::IDS });
                    }
                },
                Err(error) => {
                    let _ = ids.agree(&mine, &[0; WORDS]);
                    break Err(error);
                }
            }
        };
        library.ids.lock().found(parent);
        library.give_spare(memory);
        if !good {
            agreed?;
            return Err(Error::Group);
        }
        let id = agreed?;
        let Some(rank) = group.rank_of(library.node.task()) else {
            library.ids.lock().release(id);
            return Ok(None);
        };
        self.make_geometry(group, GeometryId(id), rank).map(Some)
    }

    fn make_geometry(&self, group: &Group, id: GeometryId, rank: u32) -> Result<Self> {
        let library = self.library;
        let lane = (id.0 as usize % library.lanes.len()) as u8;
        let (slot, generation, mut request) = library.enter(lane.into(), |active, state| {
            let members = library.lists.lock().members(group, active.population(), lane)?;
            let request = state.requests.open(None)?;
            let (slot, generation) =
                state.communicators.add(Entry { id, members, rank, group: *group, grid: None })?;
            let handling = library.handling.get().ok_or(Error::Finalized)?;
            let done = handling.ended(state.requests.cookie(request));
            active.create_geometry(NewGeometry { id, members, domains: None, done })?;
            Ok((slot, generation, state.requests.name(request)))
        })?;
        self.library().wait(&mut request)?;
        Ok(Self { library, id, generation, rank, size: group.size(), lane, slot })
    }

    /// Combines the words in the memory's front over all processes.
    fn combine(&self, memory: &Shared) -> Result<()> {
        let words = Data::of::<u64>(memory, 0, WORDS)?;
        let all = Data::of::<u64>(memory, size_of::<Proposal>(), WORDS)?;
        self.allreduce(&words, &all, Op::Band)?;
        Ok(all.copy(&words)?)
    }

    /// As [`combine`](Self::combine), over a group, by messages: to its first process and back.
    fn combine_in_group(&self, group: &Group, own: &Group, tag: i32, memory: &Shared) -> Result<()> {
        let words = Data::of::<u64>(memory, 0, WORDS)?;
        let other = Data::of::<u64>(memory, size_of::<Proposal>(), WORDS)?;
        let rank_of = |rank| group.task(rank).and_then(|task| own.rank_of(task)).ok_or(Error::Group);
        let mpi = self.library();
        let send = |rank: u32| {
            let mut request = self.begin_send(&words, rank_of(rank)? as i32, tag, Mode::Standard, true)?;
            mpi.wait(&mut request).map(drop)
        };
        let receive = |data: &Data, rank: u32| {
            let mut request = self.begin_receive(data, rank_of(rank)? as i32, tag, true)?;
            mpi.wait(&mut request).map(drop)
        };
        if group.rank_of(self.library.node.task()) != Some(0) {
            send(0)?;
            return receive(&words, 0);
        }
        for rank in 1..group.size() {
            receive(&other, rank)?;
            let (mut all, mut one) = ([0; WORDS], [0; WORDS]);
            words.read(&mut all)?;
            other.read(&mut one)?;
            words.write(&core::array::from_fn::<u64, WORDS, _>(|at| all[at] & one[at]))?;
        }
        (1..group.size()).try_for_each(send)
    }

    /// `MPI_Comm_free`: all call it, after their last collective of it. Messages that are under way still arrive.
    ///
    /// # Errors
    /// [`Error::Comm`] for the world and self, and for one that was freed; [`Error::Callback`] of an attribute, and the
    /// communicator stays.
    pub fn free(&self) -> Result<()> {
        if self.id == WORLD || self.id == SELF {
            return Err(Error::Comm);
        }
        self.delete_attributes()?;
        self.meet()?;
        loop {
            let destroyed = self.enter(|active, _| match active.destroy_geometry(self.id) {
                Ok(()) => Ok(true),
                Err(GeometryError::Again | GeometryError::Busy(_)) => Ok(false),
                Err(error) => Err(error.into()),
            })?;
            if destroyed {
                break;
            }
            self.library.advance()?;
        }
        self.enter(|_, state| {
            state.communicators.remove(self.slot);
            state.messages.forget(self.id.0);
            state.messages.forget(self.id.0 | INTERNAL);
            Ok(())
        })?;
        let mut unused = self.library.unused.lock();
        // As many as there are numbers.
        let _ = unused.push(self.id.0);
        drop(unused);
        self.library.release_unused();
        Ok(())
    }
}
