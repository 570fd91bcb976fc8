//! Collectives of a stage: what each rank brings, what a plain loop makes of it, and many at once.

use super::{Port, Stage, Told, ends, shared, words};
use crate::machine::buffer;
use pami::affinity::{Domains, HartPlace};
use pami::collective::{Algorithm, Blocks, Collective, Element, Operator, Reducer, Tuning};
use pami::geometry::{Members, Population};
use pami::mapping::{MapOrder, TaskMap};
use pami::{
    Active, Collect, CollectError, Done, GeometryError, GeometryId, Limits, NewGeometry, Shared, WORLD,
};

/// What untouched memory holds.
pub const POISON: u64 = 0xdead_beef_dead_beef;
pub const TUNING: Tuning = Tuning { radix: 3, chunk: 40 };

pub const LIMITS: Limits =
    Limits { geometries: 8, in_flight: 32, always: 15, queued: 4, early: 128, domains: None };

impl Stage {
    pub fn population(&self) -> Population {
        self.clients[0].population()
    }

    /// The first context of every task.
    pub fn everyone(&self) -> Members<'static> {
        Members::world(self.population(), 0..1).unwrap()
    }

    /// The first contexts of `count` tasks, every `stride`th from `first` on.
    pub fn range(&self, first: u32, count: u32, stride: u32) -> Members<'static> {
        Members::range(self.population(), 0..1, first, count, stride).unwrap()
    }

    /// The first contexts of these tasks, in this order.
    pub fn listed(&self, tasks: &[u32]) -> Members<'static> {
        let index = vec![0; tasks.len()].leak();
        Members::tasks(self.population(), 0..1, tasks.to_vec().leak(), index).unwrap()
    }

    /// A geometry at all its members.
    pub fn create(
        &mut self,
        id: u32,
        members: Members<'static>,
        domains: Option<Domains<'static>>,
    ) -> GeometryId {
        let (ended, done) = ends();
        for rank in 0..members.size() {
            let context = self.member(&members, rank);
            let done = done(rank as usize).unwrap();
            let new = NewGeometry { domains, ..NewGeometry::new(GeometryId(id), members, done) };
            self.contexts[context].create_geometry(new).unwrap();
        }
        self.settle("creation", || ended.len() == members.size() as usize);
        assert!(ended.are_good());
        GeometryId(id)
    }

    /// A member's part of a creation.
    pub fn new_geometry(
        &mut self,
        context: usize,
        id: u32,
        members: Members<'static>,
        cookie: usize,
    ) -> Result<(), GeometryError> {
        let done = self.done(cookie).unwrap();
        let new = NewGeometry::new(GeometryId(id), members, done);
        self.contexts[context].create_geometry(new)
    }

    /// Place among the contexts of a rank.
    pub fn member(&self, members: &Members, rank: u32) -> usize {
        let endpoint = members.endpoint(rank).unwrap();
        endpoint.task() as usize * self.per_task + usize::from(endpoint.context().0)
    }

    /// A rank of the world, or of a geometry with the same ranks, begins a collective. What it gets.
    pub fn start(&mut self, rank: u32, case: Case, cookie: usize) -> Option<Shared> {
        let active = &mut self.contexts[rank as usize];
        let (collect, output) = case.collect(active, rank, self.told.done(cookie).unwrap()).unwrap();
        assert_eq!(active.collect(collect), Ok(()), "rank {rank}, {case:?}");
        output
    }

    pub fn collect(&mut self, context: usize, collect: Collect<Port>) {
        assert_eq!(self.contexts[context].collect(collect), Ok(()));
    }

    pub fn barrier(&self, geometry: GeometryId, cookie: usize) -> Collect<Port> {
        Collect::new(geometry, Collective::Barrier, self.done(cookie).unwrap())
    }

    pub fn abandon(&mut self, context: usize, reason: u16, cookie: usize) {
        let done = self.done(cookie).unwrap();
        assert_eq!(self.contexts[context].abandon(WORLD, reason, done), Ok(()));
    }

    /// All members carry these out, and have what they should have.
    pub fn play(&mut self, cases: &[(Case, Members<'static>)]) {
        Play::new(self, cases.to_vec()).run(self);
    }
}

/// One collective, at all ranks of a geometry. Blocks are `len` words each.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub geometry: GeometryId,
    pub what: Collective,
    pub algorithm: Option<Algorithm>,
    pub size: u32,
    pub root: u32,
    pub len: usize,
    pub in_place: bool,
    pub salt: u64,
    /// Bytes of scratch memory that all ranks have.
    pub scratch_limit: usize,
    pub aligned: bool,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            geometry: WORLD,
            what: Collective::Barrier,
            algorithm: None,
            size: 1,
            root: 0,
            len: 0,
            in_place: false,
            salt: 1,
            scratch_limit: usize::MAX,
            aligned: false,
        }
    }
}

impl Case {
    fn word(&self, rank: u32, at: usize) -> u64 {
        (u64::from(rank) * 1009 + at as u64 * 31 + self.salt * 7919 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn total(&self) -> usize {
        self.size as usize * self.len
    }

    /// Words of the input that rank contributes.
    fn contribution(&self, rank: u32) -> Vec<u64> {
        use Collective as C;
        let len = match self.what {
            C::Barrier => 0,
            C::Broadcast if rank != self.root => 0,
            C::Scatter => {
                if rank == self.root {
                    self.total()
                } else {
                    0
                }
            }
            C::ReduceScatter | C::Alltoall => self.total(),
            _ => self.len,
        };
        (0..len).map(|at| self.word(rank, at)).collect()
    }

    fn output_len(&self, rank: u32) -> usize {
        use Collective as C;
        match self.what {
            C::Barrier => 0,
            C::Reduce if rank != self.root => 0,
            C::Gather => {
                if rank == self.root {
                    self.total()
                } else {
                    0
                }
            }
            C::Allgather | C::Alltoall => self.total(),
            C::ReduceScatter if self.in_place => self.total(),
            _ => self.len,
        }
    }

    fn works_in_place(&self, rank: u32) -> bool {
        self.in_place && (!self.what.is_rooted() || rank == self.root)
    }

    /// What a plain loop makes of the contributions.
    fn expected(&self, rank: u32) -> Option<Vec<u64>> {
        use Collective as C;
        let sum = |ranks: std::ops::Range<u32>, at: usize| {
            ranks.map(|rank| self.word(rank, at)).fold(0u64, u64::wrapping_add)
        };
        let sums = |ranks: std::ops::Range<u32>, from: usize| {
            (from..from + self.len).map(|at| sum(ranks.clone(), at)).collect::<Vec<_>>()
        };
        let own = rank as usize * self.len;
        Some(match self.what {
            C::Barrier => return None,
            C::Broadcast => self.contribution(self.root),
            C::Reduce | C::Gather if rank != self.root => return None,
            C::Scatter if self.works_in_place(rank) => return None,
            C::Reduce | C::Allreduce => sums(0..self.size, 0),
            C::ReduceScatter => sums(0..self.size, own),
            C::Gather | C::Allgather => (0..self.size).flat_map(|rank| self.contribution(rank)).collect(),
            C::Scatter => self.contribution(self.root)[own..own + self.len].to_vec(),
            C::Alltoall => (0..self.size)
                .flat_map(|from| self.contribution(from)[own..own + self.len].to_vec())
                .collect(),
            C::Scan => sums(0..rank + 1, 0),
            C::Exscan if rank == 0 => return None,
            C::Exscan => sums(0..rank, 0),
        })
    }

    /// Where the contribution lies in the output of a rank that works in place.
    fn own_place(&self, rank: u32) -> usize {
        match self.what {
            Collective::Gather | Collective::Allgather => rank as usize * self.len,
            _ => 0,
        }
    }

    /// What one rank brings, and where it gets something.
    pub fn memory(&self, rank: u32) -> [Option<Shared>; 2] {
        let contribution = self.contribution(rank);
        let mut output = vec![POISON; self.output_len(rank)];
        let in_place = self.works_in_place(rank);
        let stays = self.what == Collective::Scatter;
        if in_place && !stays {
            let at = self.own_place(rank);
            output[at..at + contribution.len()].copy_from_slice(&contribution);
        }
        let output = (!(in_place && stays)).then(|| shared(&output));
        let input = (!in_place || stays).then(|| shared(&contribution));
        [input, output]
    }

    /// What a rank calls with that memory.
    pub fn call(&self, [input, output]: [Option<Shared>; 2], done: Done<Port>) -> Collect<Port> {
        let element = if self.what.reduces() { 1 } else { 8 };
        let blocks = Blocks::equal(self.len * element);
        Collect {
            root: self.root,
            input: input.map(|input| (input, 0)),
            output: output.map(|output| (output, 0)),
            blocks,
            sources: blocks,
            reducer: self.what.reduces().then(|| Reducer::new(Operator::Sum, Element::U64).unwrap()),
            in_place: self.in_place,
            scratch_limit: self.scratch_limit,
            aligned: self.aligned,
            algorithm: self.algorithm.map(|algorithm| (algorithm, TUNING)),
            ..Collect::new(self.geometry, self.what, done)
        }
    }

    /// What one rank calls, and its output.
    pub fn collect(
        &self,
        active: &Active<Port>,
        rank: u32,
        done: Done<Port>,
    ) -> Result<(Collect<Port>, Option<Shared>), CollectError> {
        let memory = self.memory(rank);
        let collect = with_scratch(active, self.call(memory.clone(), done))?;
        Ok((collect, memory[1].clone()))
    }

    pub fn check(&self, rank: u32, output: Option<&Shared>) {
        let Some(expected) = self.expected(rank) else { return };
        let output = words(output.expect("an output"));
        assert_eq!(output[..expected.len()], expected, "rank {rank} of {self:?}");
    }
}

/// The same, with the scratch memory that it needs.
pub fn with_scratch(active: &Active<Port>, collect: Collect<Port>) -> Result<Collect<Port>, CollectError> {
    let scratch = active.scratch_len(&collect)?;
    assert!(scratch <= collect.scratch_limit, "{scratch} bytes");
    Ok(Collect { scratch: Some((buffer(scratch).share(), 0)), ..collect })
}

/// Cases that run at once.
pub struct Play {
    cases: Vec<(Case, Members<'static>)>,
    outputs: Vec<Vec<Option<Shared>>>,
    pub ended: Told,
    /// For each member that is still to start some: its context, rank and the cases in order.
    waiting: Vec<(usize, u32, Vec<usize>)>,
    done: Box<dyn Fn(usize) -> Option<Done<Port>>>,
}

impl Play {
    pub fn new(stage: &Stage, cases: Vec<(Case, Members<'static>)>) -> Self {
        let (ended, done) = ends();
        let mut waiting = Vec::new();
        let mut geometries: Vec<GeometryId> = cases.iter().map(|(case, _)| case.geometry).collect();
        geometries.sort_unstable();
        geometries.dedup();
        for geometry in geometries {
            let ours = |&index: &usize| cases[index].0.geometry == geometry;
            let order: Vec<usize> = (0..cases.len()).filter(ours).collect();
            let members = cases[order[0]].1;
            for rank in 0..members.size() {
                waiting.push((stage.member(&members, rank), rank, order.iter().rev().copied().collect()));
            }
        }
        let outputs = cases.iter().map(|(case, _)| vec![None; case.size as usize]).collect();
        Self { cases, outputs, ended, waiting, done: Box::new(done) }
    }

    /// Some member starts its next collective, if there is room.
    pub fn start_one(&mut self, stage: &mut Stage) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let which = stage.random.below(self.waiting.len());
        let (context, rank, order) = &mut self.waiting[which];
        let index = *order.last().unwrap();
        let case = self.cases[index].0;
        let active = &mut stage.contexts[*context];
        let done = (self.done)(index * 1000 + *rank as usize).unwrap();
        let (collect, output) = case.collect(active, *rank, done).unwrap();
        match active.collect(collect) {
            Err(CollectError::Full { .. }) => return true,
            started => started.unwrap_or_else(|error| panic!("{case:?}: {error}")),
        }
        self.outputs[index][*rank as usize] = output;
        order.pop();
        if order.is_empty() {
            self.waiting.swap_remove(which);
        }
        true
    }

    /// All members start all, in random order; the results are checked.
    pub fn run(mut self, stage: &mut Stage) {
        let mut patience = 1_000_000;
        while self.start_one(stage) {
            patience -= 1;
            assert!(patience > 0, "there is never room: {:?}", self.cases);
            for _ in 0..stage.random.below(8) {
                stage.tick();
            }
        }
        let cases = format!("{:?}", self.cases.last().map(|case| case.0));
        stage.settle(&cases, || self.is_over());
        self.check();
    }

    /// Whether every member has started and ended all.
    pub fn is_over(&self) -> bool {
        let total: usize = self.cases.iter().map(|(case, _)| case.size as usize).sum();
        self.waiting.is_empty() && self.ended.len() == total
    }

    /// Whether all ended well, with what they should have.
    pub fn check(&self) {
        let ended = self.ended;
        for (cookie, result) in ended.results() {
            assert_eq!(result, Ok(()), "rank {} of {:?}", cookie % 1000, self.cases[cookie / 1000].0);
        }
        for ((case, _), outputs) in self.cases.iter().zip(&self.outputs) {
            for (rank, output) in outputs.iter().enumerate() {
                case.check(rank as u32, output.as_ref());
            }
        }
    }
}

/// Domains of tasks that are numbered node by node: two chips of two cores, or what there is of them.
pub fn domains(nodes: u32, per_node: u32) -> Domains<'static> {
    let harts: Vec<HartPlace> = (0..per_node as u16)
        .map(|hart| HartPlace { socket: 0, cluster: hart / 2, core: hart % 2, thread: 0 })
        .collect();
    let map = TaskMap::new(nodes, per_node, MapOrder::TasksFirst).unwrap();
    Domains::new(map, harts.leak(), [2; 5]).unwrap()
}
