//! Teams: PEs that make collectives together (SPEC G-2 by way of PAMI's geometries).

use crate::area::{AGREED, ALL, Area, BLOCK, OWN, TEAMS};
use crate::error::Error;
use crate::library::{Shmem, Start};
use crate::operations::Keeper;
use pami::collective::{Blocks, Collective};
use pami::geometry::Members;
use pami::operator::{Element, Operator, Reducer};
use pami::{Active, Collect, CollectError, GeometryError, GeometryId, NewGeometry, Node, WORLD};
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
    /// [`Error::Pe`] if the parent has no such member, [`Error::Stride`], [`Error::Teams`], [`Error::Asymmetric`], the same at
    /// all; [`Error::Geometry`], [`Error::Operation`].
    pub fn team_split_strided(
        &self,
        parent: &Team,
        start: u32,
        stride: u32,
        size: u32,
    ) -> Result<Option<Team>, Error> {
        let (area, next) = {
            let teams = self.inner.teams.lock();
            (teams.used.iter().position(|used| !used), teams.next)
        };
        let arguments = u64::from(start) ^ u64::from(stride) << 20 ^ u64::from(size).rotate_left(40);
        let agreed = self.greatest(parent, [next, area.is_none().into(), arguments, !arguments])?;
        let [next, full, greatest, complement] = agreed;
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
        // Parents that agree on a number at the same time have no member in common, so the first one's makes it unique.
        let number = next.checked_mul(self.n_pes().into()).map(|number| number + u64::from(parent.first) + 1);
        let number = number.and_then(|number| u32::try_from(number).ok());
        let (Some(area), Some(number), 0) = (area, number, full) else {
            return Err(Error::Teams { limit: TEAMS });
        };
        self.inner.teams.lock().next = next + 1;
        let index = parent.me.checked_sub(start).filter(|distance| distance.is_multiple_of(stride));
        let Some(me) = index.map(|distance| distance / stride).filter(|&index| index < size) else {
            return Ok(None);
        };
        let (first, stride) = (parent.first + start * parent.stride, stride * parent.stride);
        let team = Team { id: GeometryId(number), first, stride, size, me, area };
        self.create(&team)?;
        if let Some(used) = self.inner.teams.lock().used.get_mut(area) {
            *used = true;
        }
        Ok(Some(team))
    }

    fn create(&self, team: &Team) -> Result<(), Error> {
        let first = self.first();
        let population = first.with(|context| context.population())?;
        let members = Members::range(population, 0..1, team.first, team.size, team.stride)?;
        let completions = &self.inner.completions;
        loop {
            let created = first.complete((Keeper::Team, 1), |active, start| {
                let done = completions.done(start.cookie);
                active.create_geometry(NewGeometry { id: team.id, members, domains: None, done })
            });
            match created {
                // Geometries that are being given up have the room.
                Err(Error::Geometry(GeometryError::Again)) => self.progress(),
                created => return created.map(drop),
            };
        }
    }

    /// Ends a team. Collective over it.
    ///
    /// # Errors
    /// [`Error::Geometry`], [`Error::Operation`]
    pub fn team_destroy(&self, team: Team) -> Result<(), Error> {
        self.sync(&team)?;
        let mut ended = Err(GeometryError::Again);
        self.first().advance_until(|active| {
            ended = active.destroy_geometry(team.id);
            !matches!(ended, Err(GeometryError::Again))
        })?;
        ended?;
        if let Some(used) = self.inner.teams.lock().used.get_mut(team.area) {
            *used = false;
        }
        Ok(())
    }

    pub(crate) fn area(&self, team: &Team) -> Result<&'static Area, Error> {
        self.inner.areas.get(team.area).ok_or(Error::Finalized)
    }

    /// Makes a collective, and waits for this PE's part of it.
    pub(crate) fn collect(
        &self,
        team: &Team,
        what: Collective,
        fill_in: impl Fn(&mut Collect<N::Port>),
    ) -> Result<(), Error> {
        let (area, completions) = (self.area(team)?, &self.inner.completions);
        let begin = |active: &mut Active<N::Port>, start: Start<N>| {
            let mut collect = Collect {
                scratch: Some((area.memory.clone(), area.scratch)),
                scratch_limit: self.inner.settings.scratch as usize,
                ..Collect::new(team.id, what, completions.done(start.cookie))
            };
            fill_in(&mut collect);
            let factory = start.factories.collective(what);
            factory.ok_or(CollectError::UnknownGeometry(team.id))?.execute(active, collect)
        };
        self.first().complete((Keeper::Team, 1), begin).map(drop)
    }

    /// The greatest of each word among all members.
    pub(crate) fn greatest(&self, team: &Team, words: [u64; 4]) -> Result<[u64; 4], Error> {
        let area = self.area(team)?;
        let inside = |_| Error::Finalized;
        let reducer = Reducer::new(Operator::Max, Element::U64)?;
        area.memory.write(OWN, words.as_bytes()).map_err(inside)?;
        self.collect(team, Collective::Allreduce, |collect| {
            collect.input = Some((area.memory.clone(), OWN));
            collect.output = Some((area.memory.clone(), AGREED));
            collect.blocks = Blocks::equal(words.len());
            collect.reducer = Some(reducer);
        })?;
        let mut greatest = [0; 4];
        area.memory.read(AGREED, greatest.as_mut_bytes()).map_err(inside)?;
        Ok(greatest)
    }

    /// Every member's sixteen bytes, in the order of their numbers.
    pub(crate) fn gather(
        &self,
        team: &Team,
        own: &[u8],
        mut each: impl FnMut(u32, &[u8]),
    ) -> Result<(), Error> {
        let area = self.area(team)?;
        let inside = |_| Error::Finalized;
        area.memory.write(OWN, own).map_err(inside)?;
        self.collect(team, Collective::Allgather, |collect| {
            collect.input = Some((area.memory.clone(), OWN));
            collect.output = Some((area.memory.clone(), ALL));
            (collect.blocks, collect.sources) = (Blocks::equal(BLOCK), Blocks::equal(BLOCK));
        })?;
        for pe in 0..team.size {
            let mut block = [0; BLOCK];
            area.memory.read(ALL + pe as usize * BLOCK, &mut block).map_err(inside)?;
            each(pe, &block);
        }
        Ok(())
    }

    /// Waits until all PEs are here with the same arguments, and all that they began on this context has been carried out.
    pub(crate) fn agree(&self, call: &'static str, arguments: [u64; 2]) -> Result<(), Error> {
        self.quiet()?;
        let [first, second] = arguments;
        let agreed = self.greatest(&self.team_world(), [first, !first, second, !second])?;
        if agreed == [first, !first, second, !second] { Ok(()) } else { Err(Error::Asymmetric(call)) }
    }
}
