//! What one endpoint does of a collective: all of it, or its share of what its task's endpoints do together (SPEC G-4, G-5).
//!
//! A collective over tasks runs as several schedules, *parts*, each over some of the geometry's endpoints; see
//! [`division`](crate::collective::division). An endpoint takes part in some, in *turns*: a part begins when those of
//! earlier turns are done here.
//!
//! | collective | parts, with P endpoints of the root |
//! |---|---|
//! | broadcast | P groups of tasks, each with its lowest endpoint; then each task's others, which discard what they receive |
//! | scatter, gather | P groups of tasks, each with its lowest endpoint |
//! | reduce, allreduce | P slices of the vector; of each task, its endpoints in turn |
//! | allgather | gather to the first task; a barrier of its endpoints; broadcast from it |
//!
//! If an endpoint of the root is another task's, as on a neighbouring node, the root's data is no memory of its own: the
//! first one's hands it its segment first, into scratch memory, or takes it at the end.

use super::geometry::GeometryState;
use super::limits::SERVERS;
use super::part::{OWN, Peers, SchedulePart};
use super::request::{Collect, CollectError};
use crate::collective::division::Group;
use crate::collective::memory::Demand;
use crate::collective::need::Need;
use crate::collective::{
    Algorithm, Area, Blocks, Call, Collective, Division, SelectionError, Tuning, division, selection,
};
use crate::geometry::Members;
use core::ops::Range;
use heapless::Vec;

/// Most parts of one endpoint, with the barrier in front of all.
const PARTS: usize = SERVERS as usize + 2;

/// The parts of an endpoint.
pub(super) type Parts = Vec<SchedulePart, PARTS>;

/// Most parts of any endpoint, the barrier in front not among them: the same at all of them.
pub(super) fn most<A>(entry: &GeometryState, collect: &Collect<A>, call: &Call<'static>) -> usize {
    use Collective as C;
    let servers = entry.members.ranks(call.root).map_or(1, |root| root.len());
    match call.collective {
        _ if !collect.divided => 1,
        C::Barrier => 1,
        C::Scatter | C::Gather => 2,
        C::Broadcast => 3,
        C::Allgather => 4,
        // Where all tasks have as many endpoints each has one slice.
        _ if entry.members.contexts().is_some() => 1,
        _ => servers,
    }
}

/// Bytes of scratch memory that every endpoint has for a part: it may have one for each endpoint of the root.
pub(super) fn share<A>(entry: &GeometryState, collect: &Collect<A>, root: u32) -> usize {
    let servers = entry.members.ranks(root).filter(|_| collect.divided).map_or(1, |root| root.len());
    selection::share(collect.scratch_limit, servers)
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
        let _ =
            parts.push(SchedulePart { run: run.unwrap_or(usize::MAX), ..SchedulePart::whole(0, 1, whole) });
        return Ok(());
    }
    let root = members.ranks(call.root).unwrap_or_default();
    let own = members.task_of(entry.rank).and_then(|task| members.ranks(task)).unwrap_or_default();
    if root.is_empty() || own.is_empty() || root.end - root.start > SERVERS {
        return Err(CollectError::NotDivisible(call.collective));
    }
    let room = share(entry, collect, call.root) / element_len;
    let mut divider =
        Divider { room, members, call: *call, element_len, rank: entry.rank, own, root, scratch: 0, parts };
    divider.divide()
}

impl Divider<'_> {
    fn divide(&mut self) -> Result<(), CollectError> {
        let staged = self.is_staged();
        let what = self.call.collective;
        if staged && self.staged_len() > self.room {
            let unmet = SelectionError::Unmet(self.call.algorithm, Need::Scratch);
            return Err(CollectError::Selection(unmet));
        }
        match what {
            Collective::Broadcast => self.broadcast(0, 1, staged, !self.call.in_place),
            Collective::Scatter => self.scatter(staged),
            Collective::Gather => self.gather(staged),
            Collective::Reduce | Collective::Allreduce if !staged => self.sliced(),
            Collective::Allgather if !staged => self.allgather(),
            _ => return Err(CollectError::NotDivisible(what)),
        }
        if staged && !self.call.blocks.are_equal() {
            return Err(CollectError::NotDivisible(what));
        }
        Ok(())
    }

    /// Elements of scratch memory that a staging endpoint of the root takes for what it serves, at most.
    fn staged_len(&self) -> usize {
        let tasks = if self.call.collective == Collective::Broadcast {
            1
        } else {
            self.members.task_count().div_ceil(self.servers())
        };
        self.call.len().saturating_mul(tasks as usize)
    }

    /// Whether some endpoint of the root has no access to its memory.
    fn is_staged(&self) -> bool {
        let task = |rank| self.members.endpoint(rank).map(|endpoint| endpoint.task());
        self.root.clone().any(|rank| task(rank) != task(self.root.start))
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

    /// Gives `bytes` of scratch memory away. Returns where they are.
    fn take_scratch(&mut self, bytes: usize) -> usize {
        let at = self.scratch;
        self.scratch += bytes.next_multiple_of(8);
        at
    }

    /// Adds a part, with scratch memory of its own.
    fn add(&mut self, mut part: SchedulePart) {
        let demand = Demand::new(&part.call, 1);
        // Where too little is there for one element, nothing was chosen.
        part.run = demand.run(part.call.longest(), self.room).unwrap_or(usize::MAX);
        let bytes = self.bytes(part.scratch_len());
        part.areas[Area::Scratch as usize] = (Area::Scratch, self.take_scratch(bytes));
        // As long as there are servers.
        let _ = self.parts.push(part);
    }

    fn group(&self, group: &Group, rank: u32, blocks: Blocks<'static>) -> Call<'static> {
        let (size, root) = (group.size(), group.root());
        Call { size, rank, root, blocks, sources: blocks, grid: None, domains: None, ..self.call }
    }

    /// A call among endpoints that follow each other, the rank and the root counted from the first of them.
    fn among(
        &self,
        peers: Peers,
        collective: Collective,
        rank: u32,
        root: u32,
        blocks: Blocks<'static>,
    ) -> Call<'static> {
        let algorithm = match collective {
            Collective::Barrier => Algorithm::Dissemination,
            _ => Algorithm::Flat,
        };
        let size = if let Peers::Endpoints { count, .. } = peers { count } else { 1 };
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

    /// Broadcasts the vector. At the root it lies in the input, or in the output, and stays there.
    fn broadcast(&mut self, number: u32, turn: u8, staged: bool, from_input: bool) {
        let Some(division) = self.of_tasks() else { return };
        let place = self.place();
        let mut output = (if from_input && place.is_some() { Area::Input } else { Area::Output }, 0);
        let mut turn = turn;
        if let (Some(place), true) = (place, staged) {
            let servers = Peers::Endpoints { first: self.root.start, count: self.servers(), shift: 0 };
            let call = self.among(servers, Collective::Broadcast, place, 0, self.call.blocks);
            if place > 0 {
                output = (Area::Scratch, self.take_scratch(self.bytes(self.call.len())));
            }
            let areas = [OWN[0], output, OWN[2]];
            self.add(SchedulePart { areas, ..SchedulePart::of(number + SERVERS, turn, call, servers) });
            turn += 1;
        }
        let areas = [OWN[0], output, OWN[2]];
        if let Some((server, group, rank, peers)) = self.group_of_task(&division) {
            let mut call = self.group(&group, rank, self.call.blocks);
            // The server's data is where it sends from.
            call.in_place = true;
            self.add(SchedulePart { areas, ..SchedulePart::of(number + server, turn, call, peers) });
        }
        let own = self.own.end - self.own.start;
        if own > 1 && !(staged && place.is_some()) {
            // The data is there with the lowest; the others hear of it.
            let peers = Peers::Endpoints { first: self.own.start, count: own, shift: 0 };
            let blocks = self.call.blocks;
            let call = self.among(peers, Collective::Broadcast, self.rank - self.own.start, 0, blocks);
            let discards = division::is_redundant(self.rank, &self.own);
            let number = number + SERVERS + 1;
            self.add(SchedulePart { areas, discards, ..SchedulePart::of(number, turn + 1, call, peers) });
        }
    }

    /// What this endpoint serves, if it is one of the root's. The first serves the segment that the root is in, so that the
    /// root's own data is where the root is.
    fn serves(&self, division: &Division) -> (u32, Option<u32>) {
        let shift = division.server_of(self.call.root);
        (shift, self.place().map(|place| (place + shift) % self.servers()))
    }

    /// The group of tasks that this endpoint serves, or is served in: its server's number, the group, this endpoint's rank in
    /// it, and who the others are. Of several endpoints of another task than the root the lowest is in one.
    fn group_of_task(&self, division: &Division) -> Option<(u32, Group, u32, Peers)> {
        let (shift, serves) = self.serves(division);
        if serves.is_none() && !division::speaks(self.rank, &self.own) {
            return None;
        }
        let task = self.members.task_of(self.rank)?;
        let server = serves.unwrap_or_else(|| division.server_of(task));
        let group = division.group(server);
        let endpoint = self.root.start + (server + self.servers() - shift) % self.servers();
        let rank = if serves.is_some() { group.root() } else { group.rank(task)? };
        Some((server, group, rank, Peers::Tasks { group, server: endpoint }))
    }

    /// The part of a group of tasks. `memory` is what the server has its segment in, if it is not the root's own.
    fn task_group(&mut self, division: &Division, turn: u8, memory: Option<(Area, usize)>) {
        let Some((server, group, rank, peers)) = self.group_of_task(division) else { return };
        let call = self.group(&group, rank, group.blocks(self.call.blocks));
        let gathers = call.collective == Collective::Gather;
        let mut areas = OWN;
        if rank == group.root() {
            let own = if gathers { Area::Output } else { Area::Input };
            let base = self.bytes(self.call.blocks.start(group.first()));
            areas[own as usize] = memory.unwrap_or((own, base));
        }
        self.add(SchedulePart { areas, ..SchedulePart::of(server, turn, call, peers) });
    }

    /// The segments of the root's endpoints, handed out or taken back.
    fn stage(&mut self, division: &Division, turn: u8, memory: (Area, usize)) {
        let (shift, Some(serves)) = self.serves(division) else { return };
        let blocks = division.stage(self.call.blocks.len(0));
        let peers = Peers::Endpoints { first: self.root.start, count: self.servers(), shift };
        let call = self.among(peers, self.call.collective, serves, shift, blocks);
        let gathers = call.collective == Collective::Gather;
        let mut areas = OWN;
        if serves != shift {
            areas[if gathers { Area::Input } else { Area::Output } as usize] = memory;
        }
        self.add(SchedulePart { areas, ..SchedulePart::of(SERVERS, turn, call, peers) });
    }

    /// Scratch memory for the segment of a server that is not the first; the first has the root's memory.
    fn staging(&mut self, division: &Division) -> Option<(Area, usize)> {
        let (shift, serves) = self.serves(division);
        let serves = serves.filter(|&serves| serves != shift)?;
        let len = division.stage(self.call.blocks.len(0)).len(serves);
        Some((Area::Scratch, self.take_scratch(self.bytes(len))))
    }

    fn scatter(&mut self, staged: bool) {
        let Some(division) = self.of_tasks() else { return };
        let memory = if staged { self.staging(&division) } else { None };
        if staged {
            self.stage(&division, 1, memory.unwrap_or(OWN[0]));
        }
        self.task_group(&division, 2, memory);
    }

    fn gather(&mut self, staged: bool) {
        let Some(division) = self.of_tasks() else { return };
        let memory = if staged { self.staging(&division) } else { None };
        self.task_group(&division, 1, memory);
        if staged {
            self.stage(&division, 2, memory.unwrap_or(OWN[1]));
        }
    }

    fn of_tasks(&self) -> Option<Division> {
        Division::of_tasks(self.members.task_count(), self.call.root, self.servers())
    }

    /// Each slice of the vector is combined by one endpoint of every task.
    fn sliced(&mut self) {
        let (count, turns) = (self.servers(), self.own.end - self.own.start);
        let turn = self.rank - self.own.start;
        for number in (turn..count).step_by(turns as usize) {
            let slice = division::slice(self.call.len(), number, count);
            let base = self.bytes(slice.start);
            let blocks = Blocks::equal(slice.len());
            let call = Call { blocks, sources: blocks, ..self.call };
            let areas = [(Area::Input, base), (Area::Output, base), OWN[2]];
            self.add(SchedulePart {
                number,
                turn: 1,
                call,
                peers: Peers::Spread(number),
                areas,
                run: usize::MAX,
                discards: false,
            });
        }
    }

    fn allgather(&mut self) {
        let (whole, in_place) = (self.call, self.call.in_place);
        self.call = Call { collective: Collective::Gather, algorithm: Algorithm::Flat, ..whole };
        if let Some(division) = self.of_tasks() {
            // A task other than the first has its block at the front of its input, or in its place in the output.
            let own = self.bytes(whole.blocks.start(whole.rank));
            let before = self.parts.len();
            self.task_group(&division, 1, None);
            if let Some(part) = self.parts.get_mut(before)
                && in_place
                && whole.rank != whole.root
            {
                part.areas[Area::Input as usize] = (Area::Output, own);
            }
        }
        if let Some(place) = self.place()
            && self.servers() > 1
        {
            let peers = Peers::Endpoints { first: self.root.start, count: self.servers(), shift: 0 };
            let call = self.among(peers, Collective::Barrier, place, 0, Blocks::equal(0));
            self.add(SchedulePart::of(SERVERS, 2, call, peers));
        }
        let vector = Blocks::equal(whole.blocks.start(whole.size));
        self.call = Call {
            collective: Collective::Broadcast,
            algorithm: Algorithm::Binomial,
            blocks: vector,
            sources: vector,
            ..whole
        };
        self.broadcast(2 * SERVERS, 3, false, false);
        self.call = whole;
    }
}
