//! From a call to its steps: each algorithm is a few phases, each phase numbered rounds of a few steps.

use super::blocks::Blocks;
use super::call::{Algorithm, Call, CallError, Collective};
use super::fan::{self, Reduction};
use super::gather::{self, Store};
use super::phase::Phase;
use super::step::{Area, Round, Span, Step};
use super::tree::{FLAT, Shape, Tree};
use super::{
    bruck, bulletin, direct, dissemination, doubling, halving, leaders, network, pairwise, ring, scan,
};
use crate::partition::Partition;

/// The steps of one rank of one collective, handed out one at a time.
///
/// All that it keeps is the call, the phase with the rank's place in it, two counters and the last steps that were written:
/// its size depends neither on the number of ranks nor on the data.
pub struct Schedule<'a> {
    call: Call<'a>,
    phase: u8,
    /// The phase of that number, once it has begun.
    current: Option<Phase>,
    /// The tree that it goes along, if it does.
    tree: Tree<'a>,
    at: usize,
    /// All steps were written.
    written: bool,
    round: Round,
}

impl<'a> Schedule<'a> {
    /// The schedule of a call.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn new(call: &Call<'a>) -> Result<Self, CallError> {
        call.check()?;
        Ok(Self::idle(&cut(call)))
    }

    /// What a schedule is before it [begins](Self::restart). Inlined, so that nothing of it is moved but the call.
    #[inline(always)]
    pub(super) fn idle(call: &Call<'a>) -> Self {
        let (tree, round) = (Tree::alone(), Round::default());
        Self { call: *call, phase: 0, current: None, tree, at: 0, written: false, round }
    }

    /// How it is carried out.
    pub(super) fn algorithm(&self) -> Algorithm {
        self.call.algorithm
    }

    /// What it is of.
    pub(super) fn call(&self) -> &Call<'a> {
        &self.call
    }

    /// Has it be one of another call, which is known to be good. It is to [begin](Self::begin).
    pub(super) fn set(&mut self, call: &Call<'a>) {
        debug_assert_eq!(call.check(), Ok(()));
        self.call = cut(call);
        self.written = false;
    }

    /// Begins anew, with a call that is known to be good.
    pub(super) fn restart(&mut self, call: &Call<'a>) {
        self.set(call);
        self.begin();
    }

    /// Begins with its call, again if it has done so before.
    #[inline]
    pub(super) fn begin(&mut self) {
        if !(self.written && self.round.rewind()) {
            self.phase = 0;
            self.current = None;
            self.at = 0;
            self.written = false;
            self.round.restart();
        }
    }

    /// Begins again behind the first steps, which were carried out without it. Returns `false` if not all steps are there.
    #[inline]
    pub(super) fn begin_behind(&mut self, first: usize) -> bool {
        self.written && self.round.rewind_behind(first)
    }

    /// All its steps, if they are there.
    pub(super) fn all(&self) -> Option<&[Step]> {
        self.round.all().filter(|_| self.written)
    }

    /// Whether there are more steps than are kept.
    pub(super) fn drops(&self) -> bool {
        self.round.all().is_none()
    }

    /// Elements of scratch memory that the steps name, at most.
    pub fn scratch_len(&self) -> usize {
        scratch(&self.call)
    }

    /// The next step, if it was [written](Self::write_ahead). It stays the next one until it is [finished](Self::finish_step).
    #[inline]
    pub(super) fn first(&self) -> Option<&Step> {
        self.round.first()
    }

    /// The next step is done.
    #[inline]
    pub(super) fn finish_step(&mut self) {
        self.round.finish_step();
    }

    /// Writes the next step, and some after it. Returns `false` if none are left.
    #[inline]
    pub(super) fn write_ahead(&mut self) -> bool {
        if self.first().is_none() && !self.written {
            self.write_round();
        }
        self.first().is_some()
    }

    #[inline(never)]
    fn write_round(&mut self) {
        while self.round.first().is_none() {
            if self.current.is_none() {
                self.current = phase(&self.call, self.phase, &mut self.tree);
            }
            let Some(current) = &self.current else {
                self.written = true;
                return;
            };
            if current.write(&self.call, &self.tree, self.at, &mut self.round) {
                self.at += 1;
            } else {
                self.phase += 1;
                self.current = None;
                self.at = 0;
                self.round.set_phase(self.phase);
            }
        }
    }
}

/// The call, with its vector cut if the algorithm does so.
fn cut<'a>(call: &Call<'a>) -> Call<'a> {
    let mut call = *call;
    if cuts(&call) {
        call.blocks = Blocks::split(Partition::new(call.len(), call.size), 1);
        call.sources = call.blocks;
    }
    call
}

/// Elements of scratch memory that the steps of a call that is known to be good name, at most.
pub(super) fn scratch_len(call: &Call) -> usize {
    debug_assert_eq!(call.check(), Ok(()));
    scratch(&cut(call))
}

fn scratch(call: &Call) -> usize {
    let mut tree = Tree::alone();
    let next = |index| phase(call, index, &mut tree).map(|phase| phase.scratch(call, &tree));
    (0..).map_while(next).max().unwrap_or(0)
}

/// Whether the algorithm cuts the call's vector in a block for each rank.
fn cuts(call: &Call) -> bool {
    use Algorithm::{Rabenseifner, Ring, ScatterAllgather};
    use Collective::{Allreduce, Broadcast, Reduce};
    matches!(
        (call.collective, call.algorithm),
        (Broadcast, ScatterAllgather) | (Reduce | Allreduce, Ring) | (Reduce, Rabenseifner)
    )
}

/// The phase of an algorithm with this number. Writes the tree that it goes along, if any.
fn phase<'a>(call: &Call<'a>, index: u8, tree: &mut Tree<'a>) -> Option<Phase> {
    use Algorithm as A;
    use Collective as C;
    if call.collective != C::Barrier && call.total() == 0 && call.sources.start(call.size) == 0 {
        return None;
    }
    let mut along = |root, phase| {
        *tree = Tree::new(shape(call), call.size, root, call.rank);
        Some(phase)
    };
    let output = Span::new(Area::Output, 0, if cuts(call) { call.total() } else { call.len() });
    let operand = Span { area: call.operand(), ..output };
    // The root's input, brought to where all have the vector.
    let publish = |next: Option<Phase>| match index {
        0 if call.is_root() => Some(Phase::Copy { into: output, from: operand }),
        0 => Some(Phase::NOTHING),
        _ => next,
    };
    let own_output = || call.own_result();
    match (call.collective, call.algorithm, index) {
        (C::Barrier, A::Dissemination, 0) => Some(Phase::Dissemination),
        (C::Barrier, A::Nary | A::Affinity, 0) => along(0, Phase::Up),
        (C::Barrier, A::Nary | A::Affinity, 1) => along(0, Phase::Down),
        (_, A::TreeNetwork, _) => network::phase(call, index, tree),
        (_, A::SharedMemory, 0) => Some(Phase::Bulletin),
        (_, A::SharedMemory, _) => None,
        (_, A::DirectRead, 0) => Some(Phase::Direct),
        (_, A::DirectRead, _) => None,

        (C::Broadcast, A::ScatterAllgather, _) => publish(match index {
            1 => along(call.root, Phase::Scatter { store: Store::Whole(Area::Output), own: None }),
            2 => Some(Phase::RingAllgather),
            _ => None,
        }),
        (C::Broadcast, ..) => {
            publish(if index == 1 { along(call.root, broadcast(call, output)) } else { None })
        }

        (C::Reduce | C::Allreduce, A::Ring | A::Rabenseifner | A::RecursiveDoubling, _) => {
            exchange(call, output, index, tree)
        }
        (C::Reduce | C::Allreduce, _, 0) => {
            // An operator that does not commute wants the order of ranks, which trees from rank 0 have.
            let turns = call.collective == C::Reduce && (call.commutative || call.algorithm == A::Affinity);
            let root = if turns { call.root } else { 0 };
            let has_room = call.collective == C::Allreduce || call.is_root();
            let reduction = Reduction {
                operand,
                result: has_room.then_some(output),
                heir: (call.root != root).then_some(call.root),
                chunk: chunk(call, output),
            };
            along(root, Phase::Reduction(reduction))
        }
        (C::Allreduce, _, 1) => along(0, broadcast(call, output)),

        (C::ReduceScatter, A::Pairwise, 0) => Some(Phase::PairwiseReduceScatter),
        (C::ReduceScatter, A::Ring, 0) => Some(Phase::RingReduceScatter(own_output())),
        (C::ReduceScatter, A::RecursiveHalving, 0) => Some(Phase::HalvingReduceScatter(own_output())),

        (C::ReduceScatter, A::Affinity, 0) => {
            let operand = Span::new(call.operand(), 0, call.total());
            let chunk = operand.len.max(1);
            along(0, Phase::Reduction(Reduction { operand, result: None, heir: None, chunk }))
        }
        (C::ReduceScatter, A::Affinity, 1) => {
            let store = if call.rank == 0 { Store::Whole(Area::Scratch) } else { Store::Subtree(0) };
            along(0, Phase::Scatter { store, own: Some(own_output()) })
        }

        (C::Gather, _, 0) => {
            let store = if call.is_root() { Store::Whole(Area::Output) } else { Store::Subtree(0) };
            along(call.root, Phase::Gather { store, own: call.own_operand() })
        }
        (C::Scatter, _, 0) => {
            let store = if call.is_root() { Store::Whole(Area::Input) } else { Store::Subtree(0) };
            let stays = call.is_root() && call.in_place;
            along(call.root, Phase::Scatter { store, own: (!stays).then(own_output) })
        }
        (C::Allgather, A::Bruck, 0) => Some(Phase::BruckAllgather),
        (C::Allgather, A::GatherBroadcast | A::Affinity, 0) => {
            // On the way to the root, what is below a rank stands together, though its blocks may not.
            let scattered = call.rank > 0
                && call.algorithm == A::Affinity
                && call.domains.is_some_and(|domains| !domains.are_ranges());
            let store = if scattered { Store::Subtree(0) } else { Store::Whole(Area::Output) };
            along(0, Phase::Gather { store, own: call.own_operand() })
        }
        (C::Allgather, A::GatherBroadcast | A::Affinity, 1) => {
            along(0, broadcast(call, Span::new(Area::Output, 0, call.total())))
        }
        (C::Allgather, _, 0) => {
            Some(Phase::Copy { into: call.block(Area::Output, call.rank), from: call.own_operand() })
        }
        (C::Allgather, A::Ring, 1) => Some(Phase::RingAllgather),
        (C::Allgather, A::RecursiveDoubling, 1) => Some(Phase::DoublingAllgather),

        (C::Alltoall, A::Affinity, 0..=2) => {
            *tree = leaders::within(call);
            [Phase::CollectRows, Phase::LeadersAlltoall, Phase::DealRows].into_iter().nth(index.into())
        }
        (C::Alltoall, A::Bruck, 0) => Some(Phase::BruckAlltoall),
        (C::Alltoall, A::Pairwise, 0) => {
            // What arrives in place would overwrite what is yet to leave.
            Some(if call.in_place { Phase::Save } else { Phase::NOTHING })
        }
        (C::Alltoall, A::Pairwise, 1) => Some(Phase::PairwiseAlltoall),
        (C::Scan | C::Exscan, A::Affinity, 0) => along(0, Phase::ScanUp),
        (C::Scan | C::Exscan, A::Affinity, 1) => {
            along(0, Phase::ScanDown { exclusive: call.collective == C::Exscan })
        }
        (C::Scan | C::Exscan, A::Affinity, _) => None,
        (C::Scan, _, 0) => Some(Phase::Copy { into: output, from: operand }),
        (C::Scan, _, 1) => Some(Phase::Scan { first: 0 }),
        (C::Exscan, _, 0) => Some(Phase::Shift),
        (C::Exscan, _, 1) => Some(Phase::Scan { first: 1 }),
        _ => None,
    }
}

/// Reductions and allreductions that do not go along a tree.
fn exchange(call: &Call, output: Span, index: u8, tree: &mut Tree) -> Option<Phase> {
    use Algorithm as A;
    let all = call.collective == Collective::Allreduce;
    // Who has no room for the result has it in scratch memory.
    let partial = if all || call.is_root() { output } else { Span { area: Area::Scratch, ..output } };
    let arrival = Span::new(Area::Scratch, if partial == output { 0 } else { output.len }, output.len);
    let block = |area| call.block(area, call.rank);
    match (call.algorithm, index) {
        (A::RecursiveDoubling, 0) => Some(Phase::DoublingAllreduce { partial, arrival }),
        (A::Rabenseifner, 0) if all => Some(Phase::HalvingAllreduce),
        (A::Rabenseifner, 0) => Some(Phase::HalvingReduceScatter(block(partial.area))),
        (A::Ring, 0) if all || call.is_root() => Some(Phase::RingReduceScatter(block(Area::Output))),
        (A::Ring, 0) => Some(Phase::RingReduceScatter(ring_block(call))),
        (A::Ring, 1) if all => Some(Phase::RingAllgather),
        (A::Rabenseifner | A::Ring, 1) if !all => {
            *tree = Tree::new(Shape::Binomial, call.size, call.root, call.rank);
            let (store, own) = match call.algorithm {
                _ if call.is_root() => (Store::Whole(Area::Output), block(Area::Output)),
                A::Ring => (Store::Subtree(ring_block(call).end()), ring_block(call)),
                _ => (Store::Whole(Area::Scratch), block(Area::Scratch)),
            };
            Some(Phase::Gather { store, own })
        }
        _ => None,
    }
}

/// Where the ring leaves a block of a result that the rank has no other room for.
fn ring_block(call: &Call) -> Span {
    Span::new(Area::Scratch, ring::scratch(call), call.blocks.len(call.rank))
}

/// The tree of the algorithm, or the binomial one.
fn shape<'a>(call: &Call<'a>) -> Shape<'a> {
    match (call.algorithm, call.grid, call.domains) {
        (Algorithm::Nary, ..) => Shape::Nary(call.tuning.radix),
        (Algorithm::Flat, ..) => FLAT,
        (Algorithm::Pipeline, ..) => Shape::Nary(1),
        (Algorithm::Rectangle, Some(grid), _) => Shape::Grid(grid),
        (Algorithm::Affinity, _, Some(domains)) => Shape::Domains(domains),
        _ => Shape::Binomial,
    }
}

/// Elements that the algorithm sends at a time; at least 1.
fn chunk(call: &Call, vector: Span) -> usize {
    match call.algorithm {
        Algorithm::Pipeline | Algorithm::Rectangle => fan::chunk(call.tuning.chunk, vector.len),
        _ => vector.len.max(1),
    }
}

fn broadcast(call: &Call, vector: Span) -> Phase {
    Phase::Broadcast { vector, chunk: chunk(call, vector) }
}

impl Phase {
    /// Where other ranks have something to do.
    pub(super) const NOTHING: Self =
        Self::Copy { into: Span::new(Area::Output, 0, 0), from: Span::new(Area::Output, 0, 0) };

    /// Writes the steps of round `at`, of a phase along `tree` if along any; `false` if there was none.
    fn write(&self, call: &Call, tree: &Tree, at: usize, out: &mut Round) -> bool {
        match self {
            Self::Copy { into, from } => {
                out.copy(*into, *from);
                false
            }
            Self::Combine(span) => {
                out.combine(*span);
                out.wait();
                false
            }
            Self::Assemble { span, own } => {
                out.assemble(*span, *own);
                out.wait();
                false
            }
            Self::Spread { span, source } => {
                out.spread(*span, *source);
                out.wait();
                false
            }
            Self::Hand { from, to } => {
                if from.0 != to.0 && call.rank == from.0 {
                    out.send(to.0, 0, from.1);
                } else if from.0 != to.0 && call.rank == to.0 {
                    out.receive(from.0, 0, to.1);
                }
                out.wait();
                false
            }
            Self::Dissemination => dissemination::steps(call, at, out),
            Self::Bulletin => bulletin::steps(call, at, out),
            Self::Direct => direct::steps(call, at, out),
            Self::Up => fan::up(tree, at, out),
            Self::Down => fan::down(tree, at, out),
            Self::Broadcast { vector, chunk } => fan::broadcast(tree, *vector, *chunk, at, out),
            Self::Reduction(reduction) => reduction.steps(call, tree, at, out),
            Self::Gather { store, own } => gather::gather(call, tree, *store, *own, at, out),
            Self::Scatter { store, own } => gather::scatter(call, tree, *store, *own, at, out),
            Self::RingAllgather => ring::allgather(call, at, out),
            Self::DoublingAllgather => doubling::allgather(call, at, out),
            Self::BruckAllgather => bruck::allgather(call, at, out),
            Self::RingReduceScatter(own) => ring::reduce_scatter(call, call.operand(), *own, at, out),
            Self::HalvingReduceScatter(own) => halving::reduce_scatter(call, call.operand(), *own, at, out),
            Self::PairwiseReduceScatter => pairwise::reduce_scatter(call, at, out),
            Self::DoublingAllreduce { partial, arrival } => {
                let operand = Span { area: call.operand(), ..*partial };
                doubling::allreduce(call, operand, *partial, *arrival, at, out)
            }
            Self::HalvingAllreduce => halving::allreduce(call, at, out),
            Self::Save => pairwise::save(call, at, out),
            Self::PairwiseAlltoall => pairwise::alltoall(call, at, out),
            Self::BruckAlltoall => bruck::alltoall(call, at, out),
            Self::CollectRows => leaders::collect(call, tree, at, out),
            Self::LeadersAlltoall => leaders::exchange(call, tree, at, out),
            Self::DealRows => leaders::deal(call, tree, at, out),
            Self::Shift => scan::shift(call, at, out),
            Self::Scan { first } => scan::steps(call, *first, at, out),
            Self::ScanUp => scan::up(call, tree, at, out),
            Self::ScanDown { exclusive } => scan::down(call, tree, *exclusive, at, out),
        }
    }

    /// Elements of scratch memory up to the last that the phase names.
    fn scratch(&self, call: &Call, tree: &Tree) -> usize {
        let end = |span: &Span| if span.area == Area::Scratch { span.end() } else { 0 };
        match self {
            Self::Copy { into, from } => end(into).max(end(from)),
            Self::Combine(span) | Self::Assemble { span, .. } | Self::Spread { span, .. } => end(span),
            Self::Hand { from, .. } if call.rank == from.0 => end(&from.1),
            Self::Hand { to, .. } if call.rank == to.0 => end(&to.1),
            Self::Reduction(reduction) => reduction.scratch(tree),
            Self::Gather { store, own } => end(own).max(gather::scratch(call, tree, *store)),
            Self::Scatter { store, .. } => gather::scratch(call, tree, *store),
            Self::BruckAllgather => call.total(),
            Self::Bulletin => bulletin::scratch(call),
            Self::Direct => direct::scratch(call),
            Self::RingReduceScatter(own) => ring::scratch(call).max(end(own)),
            Self::HalvingReduceScatter(_) => halving::scratch(call),
            Self::PairwiseReduceScatter => pairwise::scratch(call),
            Self::Save => pairwise::saved(call),
            Self::DoublingAllreduce { partial, arrival } => end(partial).max(end(arrival)),
            Self::BruckAlltoall => bruck::scratch(call),
            Self::CollectRows | Self::LeadersAlltoall | Self::DealRows => leaders::scratch(call, tree),
            Self::HalvingAllreduce | Self::Shift | Self::Scan { .. } => call.len(),
            Self::ScanUp => tree.children() * call.len(),
            Self::ScanDown { exclusive } => scan::scratch(call, tree, *exclusive),
            Self::Dissemination
            | Self::Hand { .. }
            | Self::Up
            | Self::Down
            | Self::Broadcast { .. }
            | Self::RingAllgather
            | Self::DoublingAllgather
            | Self::PairwiseAlltoall => 0,
        }
    }
}
