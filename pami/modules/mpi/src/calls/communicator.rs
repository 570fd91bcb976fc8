//! Communicators: who communicates, in a world of its own (the standard's chapter on groups, contexts,
//! communicators): making them, and freeing them.
//!
//! Each is a geometry of the layer below, whose number is the standard's context id, and has one of the library's
//! contexts, chosen by that number.

use crate::cartesian::Grid;
use crate::communicators::CommunicatorEntry;
use crate::context_id::{Agreed, IDS, Ids, Proposal, SELF, UNDIVIDED, WORDS};
use crate::data::Data;
use crate::division::BESIDE;
use crate::envelope::INTERNAL;
use crate::error::{Class, Error, Result};
use crate::group::{Comparison, Group};
use crate::lags::Lag;
use crate::library::{Communicator, Library, Mpi};
use crate::op::Op;
use crate::request::Mode;
use crate::vci::State;
use core::sync::atomic::Ordering::Relaxed;
use pami::client::Node;
use pami::geometry::Members;
use pami::{Active, GeometryError, GeometryId, NewGeometry, Shared, WORLD};

/// The color of a process that wants no part of a split (`MPI_UNDEFINED`).
pub const UNDEFINED: i32 = -32766;

impl<N: Node> Communicator<N> {
    /// `MPI_Comm_group`.
    ///
    /// # Errors
    /// [`Error::Comm`].
    pub fn group(&self) -> Result<Group> {
        self.enter(|_, state| Ok(self.entry(state)?.group.clone()))
    }

    /// Gives it a grid.
    pub(crate) fn with_grid(self, grid: Option<Grid>) -> Result<Self> {
        self.enter(|_, state| {
            self.entry(state)?.grid = grid;
            Ok(self)
        })
    }

    /// Its grid, if it has one.
    pub(crate) fn grid(&self) -> Result<Option<Grid>> {
        self.enter(|_, state| Ok(self.entry(state)?.grid))
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

    /// `MPI_Comm_dup`: the same processes in a world of their own, with the attributes whose keys say so. All call
    /// it.
    ///
    /// # Errors
    /// [`Error::NoMem`] without room at one of them, [`Error::NodeDead`]; [`Error::Callback`] of an attribute. Where
    /// another process fails, [`Error::Elsewhere`].
    pub fn dup(&self) -> Result<Self> {
        let (group, grid) = (self.group()?, self.grid()?);
        // Nobody's, until there is one to have them: a communicator that is not alive.
        let (slot, generation) = (u16::MAX, self.library.shades.fetch_add(1, Relaxed));
        let shade = Self { slot, generation, divides: false, alive: Self::life(self.home, slot), ..*self };
        let copied = self.copy_attributes(&shade);
        match self.make(copied.map(|()| group), |memory| self.combine(memory)) {
            Ok(new) => {
                let new = new.ok_or(Error::Group)?.with_grid(grid)?;
                shade.move_attributes(&new);
                Ok(new)
            }
            Err(error) => {
                // What a delete function says of what never was does not matter.
                shade.delete_attributes().ok();
                Err(error)
            }
        }
    }

    /// `MPI_Comm_create`: the processes of a group, which all are of this communicator. All of this communicator call
    /// it, with the same group, or those of groups that do not meet each with theirs; others with the empty one.
    /// `None` (`MPI_COMM_NULL`) for a process that is not in its group.
    ///
    /// # Errors
    /// [`Error::Group`]; others as [`dup`](Self::dup).
    pub fn create(&self, group: &Group) -> Result<Option<Self>> {
        let own = self.group()?;
        let inside =
            (0..group.size()).all(|rank| group.task(rank).and_then(|task| own.rank_of(task)).is_some());
        let group = if inside { Ok(group.clone()) } else { Err(Error::Group) };
        self.make(group, |memory| self.combine(memory))
    }

    /// `MPI_Comm_create_group`: as [`create`](Self::create), and only the processes of the group call it. The tag
    /// tells several apart that are made at the same time.
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
        self.make(Ok(group.clone()), |memory| self.combine_in_group(group, &own, tag, memory))
    }

    /// `MPI_Comm_split`: the processes with the same color, in the order of their keys and then of their ranks here.
    /// `None` for [`UNDEFINED`]. All call it.
    ///
    /// # Errors
    /// [`Error::Arg`] for another negative color; others as [`dup`](Self::dup).
    pub fn split(&self, color: i32, key: i32) -> Result<Option<Self>> {
        let size = self.size();
        let memory = if color < 0 && color != UNDEFINED {
            Err(Error::Arg("the color of a split is negative: name one from 0 on, or UNDEFINED"))
        } else {
            self.library.take_spare(8 + 8 * size as usize)
        };
        // All bring their color first: those who cannot, say so there.
        let memory = memory.inspect_err(|error| self.refuse(*error))?;
        let brought = self.bring(color, key, &memory);
        let group = brought.map(|()| self.group_of_color(color, &memory));
        self.library.give_spare(memory);
        // One number does for all colors, since they do not meet.
        self.make(group?, |memory| self.combine(memory))
    }

    fn bring(&self, color: i32, key: i32, memory: &Shared) -> Result<()> {
        let mine = Data::of::<i32>(memory, 0, 2)?;
        mine.write(&[color, key])?;
        self.allgather(&mine, &Data::of::<i32>(memory, 8, 2)?)
    }

    /// The processes of a color, of what all brought.
    fn group_of_color(&self, color: i32, memory: &Shared) -> Result<Group> {
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
    /// communicator of a group. What can be lacking here is kept before, so that nothing is lacking afterwards; who lacks it
    /// or has no group takes part in the agreement, and all fail (SPEC R-4).
    fn make(&self, group: Result<Group>, combine: impl FnMut(&Shared) -> Result<()>) -> Result<Option<Self>> {
        let (library, parent) = (self.library, self.id.0);
        while !library.ids.lock().seek(parent) {
            library.rest(self.context().into())?;
        }
        let ready = group.and_then(|group| library.reserve().map(|()| group));
        let mut divisible = library.division().is_some_and(|division| division.take_place());
        let agreed = self.agree(ready.as_ref().err().map(Error::class), divisible, combine);
        library.ids.lock().found(parent);
        let rank = ready.as_ref().ok().and_then(|group| group.rank_of(library.node.task()));
        let alone = ready.as_ref().is_ok_and(|group| group.size() < 2);
        let divides = agreed.is_ok_and(|(_, divides)| divides) && rank.is_some() && !alone;
        if divisible && !divides {
            library.give_divisible();
            divisible = false;
        }
        match (ready, agreed, rank) {
            (Ok(group), Ok((id, _)), Some(rank)) => {
                self.make_geometry(group, GeometryId(id), rank, divisible).map(Some)
            }
            (Ok(_), agreed, _) => {
                library.give_back(None);
                agreed.map(|_| None)
            }
            (Err(error), ..) => Err(error),
        }
    }

    /// Agrees on a number, which is used then, and on whether collectives are divided.
    fn agree(
        &self,
        failed: Option<Class>,
        divisible: bool,
        mut combine: impl FnMut(&Shared) -> Result<()>,
    ) -> Result<(u32, bool)> {
        let library = self.library;
        // As many as there can be seekers.
        let memory = library.proposals.lock().pop().ok_or(Error::Finalized)?;
        let agreed = loop {
            let mut mine = library.ids.lock().propose(self.id.0, failed);
            mine[UNDIVIDED] = (!divisible).into();
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
                    Agreed::Id(id) => break Ok((id, all[UNDIVIDED] == 0)),
                    Agreed::Full => {
                        break Err(Error::NoMem { what: "numbers of communicators", limit: IDS as usize });
                    }
                    Agreed::Failed(class) => break Err(Error::Elsewhere(class)),
                },
                Err(error) => {
                    ids.give_up(&mine);
                    break Err(error);
                }
            }
        };
        let _ = library.proposals.lock().push(memory);
        agreed
    }

    /// Makes a communicator for which everything was kept.
    fn make_geometry(&self, group: Group, id: GeometryId, rank: u32, divides: bool) -> Result<Self> {
        let library = self.library;
        let vci = (id.0 as usize % library.vcis.len()) as u8;
        library.give_back(Some(vci.into()));
        let size = group.size();
        let begin = |active: &mut Active<N::Port>, state: &mut State| {
            let members = group.members(active.population(), vci)?;
            let Some(request) = library.create(active, state, (id, members, true))? else { return Ok(None) };
            let (slot, generation) =
                state.communicators.add(CommunicatorEntry { members, group: group.clone(), grid: None })?;
            Ok(Some((slot, generation, state.requests.name(request))))
        };
        let begun = library.retry(vci.into(), begin).inspect_err(|_| {
            library.vcis[usize::from(vci)].state.lock().communicators.give_back();
            if divides {
                library.give_divisible();
            }
        });
        let (slot, generation, mut request) = begun?;
        let home = library.vci(vci.into())?;
        let (first, stride) = group.progression().unwrap_or_default();
        let alive = Self::life(home, slot);
        let new =
            Self { library, id, generation, rank, size, home, first, stride, vci, slot, divides, alive };
        let made = self.library().wait(&mut request).map(drop);
        match made.and_then(|()| if divides { new.create_beside(&group) } else { Ok(()) }) {
            Ok(()) => Ok(new),
            Err(error) => {
                new.end()?;
                Err(error)
            }
        }
    }

    /// Combines the words in the memory's front over all processes.
    fn combine(&self, memory: &Shared) -> Result<()> {
        let words = Data::of::<u64>(memory, 0, WORDS)?;
        let all = Data::of::<u64>(memory, size_of::<Proposal>(), WORDS)?;
        self.allreduce(&words, &all, Op::Max)?;
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
        // Whoever fails, the others wait for what comes of it.
        let mut outcome = Ok(());
        let (mut all, mut one) = ([0; WORDS], [0; WORDS]);
        words.read(&mut all)?;
        for rank in 1..group.size() {
            match receive(&other, rank) {
                Ok(()) => other.read(&mut one)?,
                Err(error) => {
                    one = Ids::failed(error.class());
                    outcome = outcome.and(Err(error));
                }
            }
            Ids::combine(&mut all, &one);
        }
        words.write(&all)?;
        (1..group.size()).fold(outcome, |outcome, rank| outcome.and(send(rank)))
    }

    /// `MPI_Comm_free`: all call it, after their last collective of it. Messages that are under way still arrive.
    ///
    /// # Errors
    /// [`Error::Comm`] for the world and self, and for one that was freed; [`Error::Callback`] of an attribute at this or
    /// [`Error::Elsewhere`] of one at another process, and the communicator stays.
    pub fn free(&self) -> Result<()> {
        if self.id == WORLD || self.id == SELF {
            return Err(Error::Comm);
        }
        self.delete_attributes().inspect_err(|error| self.refuse(*error))?;
        self.barrier()?;
        self.end()
    }

    /// Makes its geometries in the other contexts.
    fn create_beside(&self, group: &Group) -> Result<()> {
        for context in self.beside() {
            let id = GeometryId(self.id.0 | BESIDE);
            let mut request = self.library.retry(context.into(), |active, state| {
                let members = group.members(active.population(), context)?;
                let request = self.library.create(active, state, (id, members, false))?;
                Ok(request.map(|request| state.requests.name(request)))
            })?;
            self.library().wait(&mut request)?;
        }
        Ok(())
    }

    /// The other contexts, if its collectives may be divided.
    fn beside(&self) -> impl Iterator<Item = u8> + use<N> {
        let (vci, contexts) = (self.vci, if self.divides { self.library.vcis.len() as u8 } else { 0 });
        (0..contexts).filter(move |&context| context != vci)
    }

    /// Ends it here.
    fn end(&self) -> Result<()> {
        for context in self.beside() {
            self.library.retry(context.into(), |active, _| {
                match active.destroy_geometry(GeometryId(self.id.0 | BESIDE)) {
                    // One that was not made any more is none.
                    Ok(()) | Err(GeometryError::Unknown(_)) => Ok(Some(())),
                    Err(GeometryError::Again | GeometryError::Busy(_)) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            })?;
        }
        if self.divides {
            self.library.give_divisible();
        }
        self.library.retry(self.context().into(), |active, state| {
            match active.destroy_geometry(self.id) {
                Ok(()) => {}
                Err(GeometryError::Again | GeometryError::Busy(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            state.communicators.remove(self.slot);
            state.messages.forget(self.id.0);
            state.messages.forget(self.id.0 | INTERNAL);
            if state.messages.waits() {
                // Credit may be due: with the next advance.
                self.home.lags.set(Lag::Messages);
            }
            Ok(Some(()))
        })?;
        Ok(())
    }
}

impl<N: Node> Library<N> {
    /// Keeps a place for a communicator in each context: which one it will be in is not known.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    fn reserve(&self) -> Result<()> {
        for (number, vci) in self.vcis.iter().enumerate() {
            if let Err(error) = vci.state.lock().communicators.reserve() {
                self.vcis[..number].iter().for_each(|vci| vci.state.lock().communicators.give_back());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives a communicator's place for being divided back.
    fn give_divisible(&self) {
        if let Some(division) = self.division() {
            division.give_place();
        }
    }

    /// Begins to make a geometry of a context, with a class route if it is `routed`. Returns the library's own request that ends
    /// when it is made; `None` if that has to be tried again.
    ///
    /// # Errors
    /// Of PAMI; [`Error::NoMem`].
    fn create(
        &self,
        active: &mut Active<N::Port>,
        state: &mut State,
        (id, members, routed): (GeometryId, Members<'static>, bool),
    ) -> Result<Option<u16>> {
        let request = state.requests.open_own()?;
        let done = self.callbacks()?.ended(state.requests.cookie(request));
        let new = NewGeometry { routed, ..NewGeometry::new(id, members, done) };
        let created = active.create_geometry(new);
        if created.is_err() {
            state.requests.free(request);
        }
        match created {
            Ok(()) => Ok(Some(request)),
            Err(GeometryError::Again) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives these places back, but for that of one context.
    fn give_back(&self, but: Option<usize>) {
        let others = self.vcis.iter().enumerate().filter(|(number, _)| Some(*number) != but);
        others.for_each(|(_, vci)| vci.state.lock().communicators.give_back());
    }
}

impl<N: Node> Mpi<N> {
    /// World and self, in the first places of the first context.
    pub(crate) fn first_communicators(&self) -> Result<()> {
        let library = self.library;
        let task = library.node.task();
        let mut request = library.enter(0, |active, state| {
            let population = active.population();
            state.communicators.reserve()?;
            state.communicators.reserve()?;
            let members = Members::world(population, 0..1)?;
            state.communicators.add(CommunicatorEntry {
                members,
                group: Group::range(0, library.node.tasks(), 1),
                grid: None,
            })?;
            let members = Members::range(population, 0..1, task, 1, 1)?;
            state.communicators.add(CommunicatorEntry {
                members,
                group: Group::range(task, 1, 1),
                grid: None,
            })?;
            let slot = state.requests.open(None)?;
            let done = library.callbacks()?.ended(state.requests.cookie(slot));
            active.create_geometry(NewGeometry::new(SELF, members, done))?;
            Ok(state.requests.name(slot))
        })?;
        self.wait(&mut request)?;
        self.world().barrier()?;
        // The others' contexts are there.
        self.world().create_beside(&Group::range(0, library.node.tasks(), 1))
    }
}
