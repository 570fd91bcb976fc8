//! What one endpoint does of a collective: all of it, or its share of what its task's endpoints do together (SPEC G-4, G-5).
//!
//! A collective over tasks runs as several schedules, *parts*, each over some of the geometry's endpoints; see
//! [`division`](crate::collective::division). An endpoint takes part in some, in *turns*: a part begins when those of
//! earlier turns are done here.
//!
//! | collective | parts, with P endpoints of the root |
//! |---|---|
//! | broadcast | P groups of tasks, each with its lowest endpoint; then each other task's others, which discard what they receive |
//! | scatter, gather | P groups of tasks, each with its lowest endpoint |
//! | reduce, allreduce | P slices of the vector; of each task, its endpoints in turn |
//! | allgather | gather to the first task; a barrier of its endpoints; broadcast from it |
//!
//! If an endpoint of the root is another task's, as on a neighbouring node, the root's data is no memory of its own: the
//! first one hands it what it is to serve, or its slice of the operand, into scratch memory, and takes what it has gathered, or its
//! slice of the result. Such endpoints stand behind the task's own. Those of another task than the root have nothing to do.

use super::geometry::GeometryState;
use super::part::{OWN, Peers, SchedulePart, is_at_home};
use super::request::{Collect, CollectError};
use super::wire::MOST_PARTS;
use crate::collective::division::{Group, Places};
use crate::collective::memory::Demand;
use crate::collective::need::Need;
use crate::collective::{
    Algorithm, Area, Blocks, Call, Collective, Division, SelectionError, Tuning, division, selection,
};
use crate::geometry::Members;
use core::ops::Range;
use heapless::Vec;

/// Most parts of one endpoint that are no slices, with the barrier in front of all.
const FEW: usize = 6;
/// Number of the first slice; other parts have the numbers of their turns.
const FIRST_SLICE: u32 = 16;

/// The parts of an endpoint: a few, and slices of a vector, which are worked out one at a time, however many there are.
pub(super) struct Parts {
    few: Vec<SchedulePart, FEW>,
    slices: Option<Slices>,
}

impl Parts {
    pub(super) fn new() -> Self {
        Self { few: Vec::new(), slices: None }
    }

    /// One more, for which there is a place.
    pub(super) fn push(&mut self, part: SchedulePart) {
        let pushed = self.few.push(part);
        debug_assert!(pushed.is_ok(), "an endpoint has at most {FEW} parts but slices");
    }

    /// Those that are no slices.
    pub(super) fn few(&self) -> &[SchedulePart] {
        &self.few
    }

    /// Those that are.
    pub(super) fn slices(&self) -> Option<Slices> {
        self.slices
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = SchedulePart> {
        self.few.iter().copied().chain(self.slices.into_iter().flatten())
    }

    pub(super) fn len(&self) -> usize {
        self.few.len() + self.slices.as_ref().map_or(0, |slices| slices.numbers().count())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.slices.is_none()
    }
}

/// Most parts of any endpoint, the barrier in front not among them: the same at all of them.
pub(super) fn most<A>(entry: &GeometryState, collect: &Collect<A>, call: &Call<'static>) -> usize {
    use Collective as C;
    let servers = entry.members.ranks(call.root).map_or(1, |root| root.len());
    match call.collective {
        _ if !collect.divided => 1,
        C::Barrier => 1,
        C::Scatter | C::Gather | C::Broadcast => 2,
        C::Allgather => 5,
        // Where all tasks have as many endpoints each has one slice.
        _ if entry.members.contexts().is_some() => 1,
        // One for each slice; or the operand, a slice, and the result of it.
        _ => servers.max(3),
    }
}

/// Bytes of scratch memory that every endpoint has for a part: it may have one for each endpoint of the root.
pub(super) fn share<A>(entry: &GeometryState, collect: &Collect<A>, root: u32) -> usize {
    let servers = entry.members.ranks(root).filter(|_| collect.divided).map_or(1, |root| root.len());
    selection::share(collect.scratch_limit, servers)
}

/// How many of a task's endpoints, which these are, have access to its memory: its own, which are in front.
fn at_home(members: &Members<'_>, ranks: &Range<u32>) -> u32 {
    ranks.clone().take_while(|&rank| is_at_home(members, ranks.start, rank)).count() as u32
}

/// Adds a part, with scratch memory of its own from this byte on. Returns the first byte behind it.
fn with_scratch(
    part: SchedulePart,
    element_len: usize,
    room: usize,
    scratch: usize,
) -> (SchedulePart, usize) {
    let demand = Demand::new(&part.call, 1);
    // Where too little is there for one element, nothing was chosen.
    let run = demand.run(part.call.longest(), room).unwrap_or(usize::MAX);
    let mut part = SchedulePart { run, ..part };
    part.areas[Area::Scratch as usize] = (Area::Scratch, scratch);
    let bytes = part.scratch_len() * element_len;
    (part, scratch + bytes.next_multiple_of(8))
}

/// Divides a call over tasks.
struct Divider<'a> {
    /// Elements of scratch memory that every endpoint has for a part.
    room: usize,
    members: &'a Members<'static>,
    call: Call<'static>,
    element_len: usize,
    rank: u32,
    /// The ranks of this endpoint's task, and of the root's.
    own: Range<u32>,
    root: Range<u32>,
    /// Endpoints of the root that have access to its memory.
    home: u32,
    /// Scratch bytes that are given away.
    scratch: usize,
    parts: &'a mut Parts,
}

/// Adds what an endpoint has to do of a collective to `parts`, which is empty. `call` is the whole, of the geometry's
/// ranks or of its tasks.
pub(super) fn divide<A>(
    entry: &GeometryState,
    collect: &Collect<A>,
    call: &Call<'static>,
    element_len: usize,
    parts: &mut Parts,
) -> Result<(), CollectError> {
    let members = &entry.members;
    if !collect.divided || call.collective == Collective::Barrier {
        // A barrier is of all endpoints.
        let whole = Call { size: members.size(), rank: entry.rank, ..*call };
        let demand = Demand::new(&whole, entry.placement.per_node);
        let run = demand.run(whole.longest(), collect.scratch_limit / element_len);
        parts.push(SchedulePart { run: run.unwrap_or(usize::MAX), ..SchedulePart::whole(0, 1, whole) });
        return Ok(());
    }
    let root = members.ranks(call.root).unwrap_or_default();
    let own = members.task_of(entry.rank).and_then(|task| members.ranks(task)).unwrap_or_default();
    if root.is_empty() || own.is_empty() || root.end - root.start > MOST_PARTS - FIRST_SLICE {
        return Err(CollectError::NotDivisible(call.collective));
    }
    let (room, home) = (share(entry, collect, call.root) / element_len, at_home(members, &root));
    let (call, rank, scratch) = (*call, entry.rank, 0);
    let mut divider = Divider { room, members, call, element_len, rank, own, root, home, scratch, parts };
    divider.divide()
}

impl Divider<'_> {
    fn divide(&mut self) -> Result<(), CollectError> {
        let what = self.call.collective;
        if self.is_staged() {
            // Of blocks of any length an endpoint on another node does not know where its own begin.
            if !what.is_of_vectors() && !self.call.blocks.are_equal() {
                return Err(CollectError::NotDivisible(what));
            }
            if self.staged_len() > self.room {
                let unmet = SelectionError::Unmet(self.call.algorithm, Need::Scratch);
                return Err(CollectError::Selection(unmet));
            }
        }
        match what {
            Collective::Broadcast => {
                self.broadcast(1, if self.call.in_place { Area::Output } else { Area::Input })
            }
            Collective::Scatter => self.scatter(),
            Collective::Gather => _ = self.gather(),
            Collective::Reduce | Collective::Allreduce => self.sliced(),
            Collective::Allgather => self.allgather(),
            _ => return Err(CollectError::NotDivisible(what)),
        }
        Ok(())
    }

    /// Elements of scratch memory that an endpoint of the root takes for what it serves, or combines, at most.
    fn staged_len(&self) -> usize {
        let (len, servers) = (self.call.len(), self.servers());
        match self.call.collective {
            Collective::Broadcast => len,
            Collective::Reduce | Collective::Allreduce => len.div_ceil(servers as usize),
            Collective::Allgather => len.saturating_mul(self.members.task_count() as usize),
            _ => len.saturating_mul(self.members.task_count().div_ceil(servers) as usize),
        }
    }

    /// Whether some endpoint of the root has no access to its memory.
    fn is_staged(&self) -> bool {
        self.home < self.servers()
    }

    fn servers(&self) -> u32 {
        self.root.end - self.root.start
    }

    /// This endpoint's place among the root's.
    fn place(&self) -> Option<u32> {
        self.root.contains(&self.rank).then(|| self.rank - self.root.start)
    }

    fn bytes(&self, elements: usize) -> usize {
        elements * self.element_len
    }

    /// Scratch memory for so many elements of the root's, if this endpoint is one of the root's without access to them.
    fn staging(&mut self, elements: usize) -> Option<(Area, usize)> {
        self.place().filter(|&place| place >= self.home)?;
        let at = self.scratch;
        self.scratch += self.bytes(elements).next_multiple_of(8);
        Some((Area::Scratch, at))
    }

    fn add(&mut self, part: SchedulePart) {
        let (part, scratch) = with_scratch(part, self.element_len, self.room, self.scratch);
        self.scratch = scratch;
        self.parts.push(part);
    }

    fn group(&self, group: &Group, rank: u32, blocks: Blocks<'static>) -> Call<'static> {
        let (size, root) = (group.size(), group.root());
        Call { size, rank, root, blocks, sources: blocks, grid: None, domains: None, ..self.call }
    }

    /// A call among some endpoints of one task, whose root works in place.
    fn among(
        &self,
        collective: Collective,
        [size, rank, root]: [u32; 3],
        blocks: Blocks<'static>,
    ) -> Call<'static> {
        let algorithm = match collective {
            Collective::Barrier => Algorithm::Dissemination,
            Collective::Broadcast => Algorithm::Binomial,
            _ => Algorithm::Flat,
        };
        Call {
            collective,
            algorithm,
            size,
            rank,
            root,
            blocks,
            sources: blocks,
            in_place: rank == root,
            tuning: Tuning { radix: 2, chunk: 1 },
            grid: None,
            domains: None,
            ..self.call
        }
    }

    /// The call among a task's first `count` endpoints, if this one is among them, and who they are.
    fn first_ones(
        &self,
        collective: Collective,
        ranks: &Range<u32>,
        count: u32,
        blocks: Blocks<'static>,
    ) -> Option<(Call<'static>, Peers)> {
        let place = self.rank.checked_sub(ranks.start).filter(|&place| place < count && count > 1)?;
        Some((self.among(collective, [count, place, 0], blocks), Peers::Endpoints { first: ranks.start }))
    }

    /// What the root's endpoints without access to its memory are to have of the root's data, or are to bring it: the first one hands
    /// it out, or takes it. `blocks` are of their segments; `at_first` is where the first has all, `memory` where one of
    /// the others has its own.
    fn stage(
        &mut self,
        (collective, turn): (Collective, u8),
        places: Places,
        blocks: Blocks<'static>,
        at_first: Area,
        memory: Option<(Area, usize)>,
    ) {
        if !self.is_staged() || self.place().is_none_or(|place| place > 0 && place < self.home) {
            return;
        }
        let group = places.beyond(self.home, self.servers());
        let Some(rank) = self.place().and_then(|place| group.rank(places.segment(place))) else { return };
        let (own, start) = if collective.is_of_vectors() {
            (blocks, 0)
        } else {
            (group.blocks(blocks), self.bytes(blocks.start(group.first())))
        };
        let call = self.among(collective, [group.size(), rank, group.root()], own);
        // Who works in place broadcasts from its output.
        let area = match (collective, memory) {
            (Collective::Gather, Some(_)) | (Collective::Scatter, None) => Area::Input,
            _ => Area::Output,
        };
        let mut areas = OWN;
        areas[area as usize] = memory.unwrap_or((at_first, start));
        let peers = Peers::Servers { group, first: self.root.start };
        self.add(SchedulePart { areas, ..SchedulePart::of(turn.into(), turn, call, peers) });
    }

    /// Broadcasts the vector. At the root it lies in the area `from`, and stays there. Takes three turns, from `turn` on.
    fn broadcast(&mut self, turn: u8, from: Area) {
        let Some(division) = self.of_tasks() else { return };
        let memory = self.staging(self.call.len());
        self.stage((Collective::Broadcast, turn), division.places(), self.call.blocks, from, memory);
        let own = if self.place().is_some() { (from, 0) } else { OWN[1] };
        let areas = [OWN[0], memory.unwrap_or(own), OWN[2]];
        if let Some((group, rank, peers)) = self.group_of_task(&division) {
            let mut call = self.group(&group, rank, self.call.blocks);
            // The server's data is where it sends from.
            call.in_place = true;
            let turn = turn + 1;
            self.add(SchedulePart { areas, ..SchedulePart::of(turn.into(), turn, call, peers) });
        }
        let home = at_home(self.members, &self.own);
        let others = self.first_ones(Collective::Broadcast, &self.own, home, self.call.blocks);
        if let Some((call, peers)) = others.filter(|_| self.place().is_none()) {
            // The data is there with the lowest; the others hear of it. The root's need not: they have it.
            let discards = division::is_redundant(self.rank, &self.own);
            let turn = turn + 2;
            self.add(SchedulePart { areas, discards, ..SchedulePart::of(turn.into(), turn, call, peers) });
        }
    }

    /// The group of tasks that this endpoint serves, or is served in, this endpoint's rank in it, and who the others are. Of
    /// several endpoints of another task than the root the lowest is in one.
    fn group_of_task(&self, division: &Division) -> Option<(Group, u32, Peers)> {
        let places = division.places();
        let serves = self.place().map(|place| places.segment(place));
        if serves.is_none() && !division::speaks(self.rank, &self.own) {
            return None;
        }
        let task = self.members.task_of(self.rank)?;
        let segment = serves.unwrap_or_else(|| division.server_of(task));
        let group = division.group(segment);
        let server = self.root.start + places.place(segment);
        let rank = if serves.is_some() { group.root() } else { group.rank(task)? };
        Some((group, rank, Peers::Tasks { group, server }))
    }

    /// The part of a group of tasks. `memory` is what the server has its segment in, if it is not the root's own.
    fn task_group(&mut self, division: &Division, turn: u8, memory: Option<(Area, usize)>) {
        let Some((group, rank, peers)) = self.group_of_task(division) else { return };
        let call = self.group(&group, rank, group.blocks(self.call.blocks));
        let mut areas = OWN;
        if rank == group.root() {
            let own = if call.collective == Collective::Gather { Area::Output } else { Area::Input };
            let base = self.bytes(self.call.blocks.start(group.first()));
            areas[own as usize] = memory.unwrap_or((own, base));
        }
        self.add(SchedulePart { areas, ..SchedulePart::of(turn.into(), turn, call, peers) });
    }

    /// Scratch memory for the segment that this endpoint serves, if it needs some, and the segments as blocks.
    fn segments(&mut self, division: &Division) -> (Option<(Area, usize)>, Blocks<'static>) {
        // Blocks of different lengths are not staged.
        let blocks = division.stage(self.call.blocks.len(0));
        let segment = self.place().map_or(0, |place| division.places().segment(place));
        (self.staging(blocks.len(segment)), blocks)
    }

    fn scatter(&mut self) {
        let Some(division) = self.of_tasks() else { return };
        let (memory, blocks) = self.segments(&division);
        self.stage((Collective::Scatter, 1), division.places(), blocks, Area::Input, memory);
        self.task_group(&division, 2, memory);
    }

    /// Takes two turns.
    fn gather(&mut self) -> Option<()> {
        let division = self.of_tasks()?;
        let (memory, blocks) = self.segments(&division);
        self.task_group(&division, 1, memory);
        self.stage((Collective::Gather, 2), division.places(), blocks, Area::Output, memory);
        Some(())
    }

    fn of_tasks(&self) -> Option<Division> {
        Division::of_tasks(self.members.task_count(), self.call.root, self.servers())
    }

    /// Each slice of the vector is combined by one endpoint of every task, at the root by the one with its number.
    fn sliced(&mut self) {
        let (servers, places) = (self.servers(), Places::IN_ORDER);
        let blocks = division::slices(self.call.len(), servers);
        let memory = self.staging(self.place().map_or(0, |place| blocks.len(place)));
        let operand = if self.call.in_place { Area::Output } else { Area::Input };
        self.stage((Collective::Scatter, 1), places, blocks, operand, memory);
        self.stage((Collective::Gather, 3), places, blocks, Area::Output, memory);
        let (own, turn) = (self.own.end - self.own.start, self.rank - self.own.start);
        let home = if self.place().is_some() { own } else { at_home(self.members, &self.own) };
        let slices = Slices {
            call: self.call,
            element_len: self.element_len,
            room: self.room,
            servers,
            next: 0,
            own,
            turn,
            home,
            memory,
            scratch: self.scratch,
        };
        self.parts.slices = Some(slices).filter(|slices| slices.numbers().next().is_some());
    }

    fn allgather(&mut self) {
        let (whole, before) = (self.call, self.parts.few.len());
        self.call = Call { collective: Collective::Gather, algorithm: Algorithm::Flat, ..whole };
        // A task other than the first has its block at the front of its input, or in its place in the output.
        if self.gather().is_some()
            && whole.in_place
            && whole.rank != whole.root
            && let Some(part) = self.parts.few.get_mut(before)
        {
            part.areas[Area::Input as usize] =
                (Area::Output, self.element_len * whole.blocks.start(whole.rank));
        }
        let barrier = self.first_ones(Collective::Barrier, &self.root, self.home, Blocks::equal(0));
        if let Some((call, peers)) = barrier {
            self.add(SchedulePart::of(3, 3, call, peers));
        }
        let vector = Blocks::equal(whole.blocks.start(whole.size));
        self.call = Call {
            collective: Collective::Broadcast,
            algorithm: Algorithm::Binomial,
            blocks: vector,
            sources: vector,
            ..whole
        };
        self.broadcast(4, Area::Output);
        self.call = whole;
    }
}

/// The slices of a vector that an endpoint combines, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Slices {
    /// The collective, of tasks.
    call: Call<'static>,
    element_len: usize,
    /// Elements of scratch memory that there are for a slice.
    room: usize,
    /// How many slices there are, and the number of the next one that may be this endpoint's.
    servers: u32,
    next: u32,
    /// Endpoints of the task, this one's place among them, and those with access to its memory; the root's are all like those.
    own: u32,
    turn: u32,
    home: u32,
    /// Where the slice is, if it is not in the task's memory.
    memory: Option<(Area, usize)>,
    /// Scratch bytes that are given away.
    scratch: usize,
}

impl Slices {
    /// Those that are left.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        let &Self { next, servers, own, turn, home, .. } = self;
        (next..servers).filter(move |number| {
            let place = number % own;
            (if place < home { place } else { 0 }) == turn
        })
    }
}

impl Iterator for Slices {
    type Item = SchedulePart;

    fn next(&mut self) -> Option<SchedulePart> {
        let number = self.numbers().next()?;
        self.next = number + 1;
        let slice = division::slice(self.call.len(), number, self.servers);
        let (blocks, base) = (Blocks::equal(slice.len()), slice.start * self.element_len);
        let call = Call { blocks, sources: blocks, ..self.call };
        let (call, areas) = match self.memory {
            // The result goes where the operand is.
            Some(memory) => (Call { in_place: true, ..call }, [OWN[0], memory, OWN[2]]),
            None => (call, [(Area::Input, base), (Area::Output, base), OWN[2]]),
        };
        let peers = Peers::Slice { number, root: call.root };
        let part = SchedulePart { areas, ..SchedulePart::of(FIRST_SLICE + number, 2, call, peers) };
        let (part, scratch) = with_scratch(part, self.element_len, self.room, self.scratch);
        self.scratch = scratch;
        Some(part)
    }
}
