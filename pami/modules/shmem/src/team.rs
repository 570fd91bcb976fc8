//! Teams: PEs that make collectives together (SPEC G-2 by way of PAMI's geometries).

use crate::area::{AGREED, ALL, Area, BLOCK, OWN, TEAMS};
use crate::error::{Error, Result};
use crate::library::Shmem;
use crate::operations::{Keeper, PendingOperation};
use pami::collective::{Blocks, Collective};
use pami::geometry::Members;
use pami::operator::{Element, Operator, Reducer};
use pami::{Collect, GeometryError, GeometryId, NewGeometry, Node, Shared, WORLD};
use zerocopy::IntoBytes;

/// Some PEs, at equal distances, as one of them sees it; members are numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Team {
    pub(crate) id: GeometryId,
    first: u32,
    stride: u32,
    size: u32,
    me: u32,
    area: usize,
}

impl Team {
    /// This PE's number in the team.
    pub fn my_pe(&self) -> u32 {
        self.me
    }

    /// How many members there are.
    pub fn n_pes(&self) -> u32 {
        self.size
    }

    /// What `pe` of this team is called in `other`, if it is in both.
    pub fn translate_pe(&self, pe: u32, other: &Self) -> Option<u32> {
        let world = (pe < self.size).then(|| self.first + pe * self.stride)?;
        let distance = world.checked_sub(other.first)?;
        let index = distance / other.stride;
        (distance.is_multiple_of(other.stride) && index < other.size).then_some(index)
    }
}

impl<N: Node> Shmem<N> {
    /// All PEs (`SHMEM_TEAM_WORLD`).
    pub fn team_world(&self) -> Team {
        Team { id: WORLD, first: 0, stride: 1, size: self.n_pes(), me: self.my_pe(), area: 0 }
    }

    /// Makes a team of the members `start`, `start + stride` and so on of `parent`, `size` of them. Collective over the
    /// parent, with the same arguments; who is not in the new team gets `None`.
    ///
    /// # Errors
    /// [`Error::Stride`], [`Error::Teams`], [`Error::Asymmetric`], the same at all; [`Error::Geometry`].
    pub fn team_split_strided(
        &self,
        parent: &Team,
        start: u32,
        stride: u32,
        size: u32,
    ) -> Result<Option<Team>> {
        // From here on, as another thread may split another team meanwhile.
        let (area, next) = self.inner.teams.lock().take();
        let team = self.split(parent, (start, stride, size), (area, next));
        if let (Some(area), Ok(None) | Err(_)) = (area, &team) {
            self.inner.teams.lock().give_back(area);
        }
        team
    }

    /// Splits, with an area for the new team if there is one, and the least number that it may have.
    fn split(
        &self,
        parent: &Team,
        (start, stride, size): (u32, u32, u32),
        (area, next): (Option<usize>, u64),
    ) -> Result<Option<Team>> {
        const FULL: u64 = u64::MAX;
        let mix =
            |sum: u64, word: u32| (sum ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let arguments = [start, stride, size].into_iter().fold(0, mix);
        // The first member's area is told to all.
        let told = area.map_or(FULL, |area| if parent.me == 0 { area as u64 } else { 0 });
        let [next, told, greatest, complement] =
            self.greatest(parent, [next, told, arguments, !arguments])?;
        if greatest != !complement {
            return Err(Error::Asymmetric("team_split_strided"));
        }
        let last = size.checked_sub(1).and_then(|steps| steps.checked_mul(stride)?.checked_add(start));
        if last.is_none_or(|last| last >= parent.size) {
            return Err(Error::Pe { pe: last.unwrap_or(start), pes: parent.size });
        }
        if stride == 0 {
            return Err(Error::Stride);
        }
        if told == FULL {
            return Err(Error::Teams { limit: TEAMS });
        }
        // What the first members of two parents are, or the areas that one has for two at a time, makes the number unique.
        let number = next.checked_mul(TEAMS as u64).and_then(|number| {
            (number + told).checked_mul(self.n_pes().into())?.checked_add(u64::from(parent.first) + 1)
        });
        let number = number.and_then(|number| u32::try_from(number).ok());
        let (Some(area), Some(number)) = (area, number) else {
            return Err(Error::Teams { limit: TEAMS });
        };
        self.inner.teams.lock().follow(next);
        let index = parent.me.checked_sub(start).filter(|distance| distance.is_multiple_of(stride));
        let Some(me) = index.map(|distance| distance / stride).filter(|&index| index < size) else {
            return Ok(None);
        };
        // A step of a single member is none.
        let stride = if size == 1 { 1 } else { stride };
        let stride = stride.checked_mul(parent.stride).ok_or(Error::Stride)?;
        let first = parent.first + start * parent.stride;
        let team = Team { id: GeometryId(number), first, stride, size, me, area };
        self.create(&team)?;
        Ok(Some(team))
    }

    fn create(&self, team: &Team) -> Result {
        let first = self.first();
        let population = first.with(|context| context.population())?;
        let members = Members::range(population, 0..1, team.first, team.size, team.stride)?;
        let completions = &self.inner.completions;
        loop {
            let begun = first.begin(PendingOperation::of(Keeper::Team), |active, start| {
                let done = completions.done(start.cookie);
                Ok(active.create_geometry(NewGeometry::new(team.id, members, done))?)
            });
            match begun.and_then(|at| first.end(at, Keeper::Team)) {
                // Geometries that are being given up have the room.
                Err(Error::Geometry(GeometryError::Again)) => self.progress(),
                created => return created.map(drop),
            };
        }
    }

    /// Ends a team. Collective over it. [`Error::Geometry`] if it is none any more.
    pub fn team_destroy(&self, team: Team) -> Result {
        self.sync(&team)?;
        let mut ended = Err(GeometryError::Again);
        self.first().advance_until(|active| {
            ended = active.destroy_geometry(team.id);
            !matches!(ended, Err(GeometryError::Again))
        })?;
        ended?;
        self.inner.teams.lock().give_back(team.area);
        Ok(())
    }

    pub(crate) fn area(&self, team: &Team) -> Result<&'static Area<N::Port>> {
        self.inner.areas.get(team.area).ok_or(Error::Finalized)
    }

    /// Waits until all members are here. What they began need not have been carried out.
    pub fn sync(&self, team: &Team) -> Result {
        self.collect(team, Collective::Barrier, |_| {})
    }

    /// As [`sync`](Self::sync), of all PEs.
    pub fn sync_all(&self) -> Result {
        self.sync(&self.team_world())
    }

    /// Waits until all PEs are here, and all that they began on the contexts that they call this on has been carried out.
    pub fn barrier_all(&self) -> Result {
        let quiet = self.quiet();
        // The others wait for this PE also if something of its failed.
        quiet.and(self.sync_all())
    }

    /// Makes a collective, and waits for this PE's part of it.
    pub(crate) fn collect(
        &self,
        team: &Team,
        what: Collective,
        fill_in: impl Fn(&mut Collect<N::Port>),
    ) -> Result {
        let (area, first) = (self.area(team)?, self.first());
        let at = first.begin(PendingOperation::of(Keeper::Team), |active, start| {
            let mut collect = Collect {
                scratch: Some((area.memory.clone(), area.scratch)),
                scratch_limit: self.inner.settings.scratch as usize,
                ..Collect::new(team.id, what, self.inner.completions.done(start.cookie))
            };
            fill_in(&mut collect);
            Ok(start.factories.collectives.collect_in(&area.object, active, collect)?)
        })?;
        first.end(at, Keeper::Team).map(drop)
    }

    /// Makes a collective that may prove a mistake of this PE's before it is begun: the others, who would wait, are told.
    pub(crate) fn or_abandon(&self, team: &Team, make: impl FnOnce() -> Result) -> Result {
        let (outcome, first) = (make(), self.first());
        if !matches!(outcome, Ok(()) | Err(Error::Operation(_) | Error::Finalized)) {
            let begun = first.begin(PendingOperation::of(Keeper::Team), |active, start| {
                Ok(active.abandon(team.id, 0, self.inner.completions.done(start.cookie))?)
            });
            // This PE hears what it did wrong.
            let _ = begun.and_then(|at| first.end(at, Keeper::Team));
        }
        outcome
    }

    /// Makes a collective of what this PE brings, whose outcome lies in the team's area at `to`.
    fn exchange(
        &self,
        team: &Team,
        what: Collective,
        (own, to): (&[u8], usize),
        fill_in: impl Fn(&mut Collect<N::Port>),
    ) -> Result<&'static Shared> {
        let Area { memory, .. } = self.area(team)?;
        memory.write(OWN, own).map_err(|_| Error::Finalized)?;
        self.collect(team, what, |collect| {
            collect.input = Some((memory.clone(), OWN));
            collect.output = Some((memory.clone(), to));
            fill_in(collect);
        })?;
        Ok(memory)
    }

    /// The greatest of each word among all members.
    fn greatest(&self, team: &Team, mut words: [u64; 4]) -> Result<[u64; 4]> {
        let (blocks, reducer) = (Blocks::equal(words.len()), Reducer::new(Operator::Max, Element::U64)?);
        let memory = self.exchange(team, Collective::Allreduce, (words.as_bytes(), AGREED), |collect| {
            (collect.blocks, collect.reducer) = (blocks, Some(reducer));
        })?;
        memory.read(AGREED, words.as_mut_bytes()).map_err(|_| Error::Finalized)?;
        Ok(words)
    }

    /// Every member's sixteen bytes, in the order of their numbers.
    pub(crate) fn gather(&self, team: &Team, own: &[u8], mut each: impl FnMut(u32, &[u8])) -> Result {
        let memory = self.exchange(team, Collective::Allgather, (own, ALL), |collect| {
            (collect.blocks, collect.sources) = (Blocks::equal(BLOCK), Blocks::equal(BLOCK));
        })?;
        for pe in 0..team.size {
            let mut block = [0; BLOCK];
            memory.read(ALL + pe as usize * BLOCK, &mut block).map_err(|_| Error::Finalized)?;
            each(pe, &block);
        }
        Ok(())
    }

    /// Waits until all PEs are here with the same arguments, and all that they began on this context has been carried out.
    pub(crate) fn agree(&self, call: &'static str, [first, second]: [u64; 2]) -> Result {
        let quiet = self.quiet();
        let words = [first, !first, second, !second];
        let agreed = self.greatest(&self.team_world(), words);
        quiet?;
        let agreed = agreed?;
        if agreed == words { Ok(()) } else { Err(Error::Asymmetric(call)) }
    }
}
