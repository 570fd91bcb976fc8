//! What a call comes to, and whether it can be started.

use super::geometry::Digest;
use super::geometry::GeometryState;
use super::known::{Answer, Gist, Question};
use super::limits::REDUCED_AT_ONCE;
use super::parts::{self, Parts};
use super::request::{Collect, CollectError};
use crate::collective::catalogue::Metadata;
use crate::collective::cost;
use crate::collective::need::Need;
use crate::collective::{
    Algorithm, AlgorithmList, Area, Call, Collective, Form, Query, Reducer, SelectionError,
};
use crate::combine::AluOperation;
use rings::bulletin::PAGE_BYTES;

/// A call that was worked out.
pub(super) struct Checked {
    pub(super) gist: Gist,
    /// Most parts of any endpoint.
    pub(super) most: usize,
}

/// What the geometry is to remember of a call that was worked out, if that can be known again.
#[inline(never)]
pub(super) fn news<A>(
    entry: &GeometryState,
    collect: &Collect<A>,
    gist: Gist,
    parts: &Parts,
    name: u64,
) -> Option<(Question, Answer)> {
    let question = Question::of(collect, entry.way.is_open())?;
    let [part] = parts.few() else { return None };
    Some((question, Answer { name, slot: None, part: *part, gist }))
}

/// Whether nobody is done with the collective before all have begun it.
fn synchronises<A>(collect: &Collect<A>, call: &Call) -> bool {
    use Collective as C;
    // Endpoints of a task do not wait for each other.
    if collect.divided && call.collective != C::Barrier {
        return false;
    }
    let all = matches!(call.collective, C::Allreduce | C::ReduceScatter | C::Allgather | C::Alltoall);
    let data = if call.collective.is_of_vectors() { call.len() > 0 } else { call.blocks.len(0) > 0 };
    let even = call.collective == C::Allreduce || (call.blocks.are_equal() && call.sources.are_equal());
    call.collective == C::Barrier || all && even && data
}

fn digest(call: &Call, reducer: Option<&Reducer>, element_len: usize) -> u32 {
    let mut digest = Digest::new();
    digest.add(call.collective as u32);
    digest.add(call.algorithm as u32);
    digest.add(call.root);
    digest.add(call.tuning.radix);
    digest.add(call.tuning.chunk as u32);
    digest.add(element_len as u32);
    digest.add(reducer.map_or(0, Reducer::code));
    digest.add(call.size);
    if call.collective.is_of_vectors() || call.blocks.are_equal() {
        digest.add(call.len() as u32);
    } else if call.algorithm == Algorithm::TreeNetwork {
        // No message shows the length of a block.
        (1..=call.size).for_each(|end| digest.add(call.blocks.start(end) as u32));
    }
    if call.collective == Collective::Alltoall {
        digest.add(call.in_place.into());
    }
    digest.value()
}

/// Bytes that the parts name of each area.
fn extents(parts: &Parts, element_len: usize) -> [usize; 3] {
    let mut extents = [0; 3];
    for part in parts.iter() {
        let [input, output] = needs(&part.call);
        for ((area, base), elements) in part.areas.into_iter().zip([input, output, part.scratch_len()]) {
            // Of what is nothing, nothing is in front.
            if elements > 0 {
                let extent = &mut extents[area as usize];
                *extent = (*extent).max(base + elements * element_len);
            }
        }
    }
    extents
}

/// Elements that a call names of the input and of the output.
fn needs(call: &Call) -> [usize; 2] {
    use Collective as C;
    let (own, total) = (|| call.own_result().end(), || call.total());
    let in_place = call.operand() == Area::Output;
    let (input, output) = match call.collective {
        C::Barrier => (0, 0),
        C::Broadcast => (if call.is_root() { call.len() } else { 0 }, call.len()),
        C::Reduce => (call.len(), if call.is_root() { call.len() } else { 0 }),
        C::Allreduce | C::Scan | C::Exscan => (call.len(), call.len()),
        C::ReduceScatter => (total(), if in_place { total() } else { own() }),
        C::Gather => (own(), if call.is_root() { total() } else { 0 }),
        C::Allgather => (own(), total()),
        C::Alltoall => {
            let sources = call.sources.start(call.size);
            (total(), if in_place { sources.max(total()) } else { sources })
        }
        C::Scatter if call.is_root() => {
            return [total(), if call.in_place { 0 } else { own() }];
        }
        C::Scatter => return [0, own()],
    };
    [if in_place { 0 } else { input }, output]
}

/// What a divided collective goes by if nothing is said, and the geometry's list has it.
fn directly(what: Collective) -> Option<Algorithm> {
    match what {
        Collective::Scatter | Collective::Gather => Some(Algorithm::Flat),
        Collective::Broadcast => Some(Algorithm::Binomial),
        _ => None,
    }
}

/// The call as a whole, of ranks or of tasks, and the length of an element. Its algorithm is any.
fn whole<A>(entry: &GeometryState, collect: &Collect<A>) -> (Call<'static>, usize) {
    let element_len = collect.reducer.map_or(1, |reducer| reducer.element_len());
    let (members, divided) = (&entry.members, collect.divided);
    let call = Call {
        collective: collect.what,
        algorithm: Algorithm::Binomial,
        size: if divided { members.task_count() } else { members.size() },
        rank: if divided { members.task_of(entry.rank).unwrap_or_default() } else { entry.rank },
        root: collect.root,
        blocks: collect.blocks,
        sources: if collect.what == Collective::Alltoall { collect.sources } else { collect.blocks },
        in_place: collect.in_place,
        commutative: collect.reducer.is_none_or(|reducer| reducer.commutes()),
        tuning: collect
            .algorithm
            .map_or(cost::tuning(entry.placement.costs, element_len), |(_, tuning)| tuning),
        grid: entry.grid.filter(|_| !divided),
        domains: entry.domains.filter(|_| !divided),
    };
    (call, element_len)
}

/// Whether the members show each other what they have.
fn shows<A>(entry: &GeometryState, collect: &Collect<A>) -> bool {
    entry.bulletins.is_some() && !collect.divided && collect.form == Form::All
}

/// Whether each has room on its bulletin for what it would show.
fn has_room(call: &Call, element_len: usize) -> bool {
    let elements = match call.collective {
        Collective::Barrier => 0,
        Collective::Alltoall => call.blocks.longest().saturating_mul(call.size as usize),
        _ if call.collective.is_of_vectors() => call.len(),
        _ => call.blocks.longest(),
    };
    elements.saturating_mul(element_len) <= PAGE_BYTES
}

/// What is known of a collective, to list its algorithms and to choose one (SPEC G-2). `anywhere`: the tree network,
/// if there is one, takes vectors from any address.
pub(super) fn query<A>(entry: &GeometryState, collect: &Collect<A>, anywhere: bool) -> Query {
    let (call, element_len) = whole(entry, collect);
    let shows = shows(entry, collect);
    let metadata = Metadata {
        known_blocks: collect.known_blocks,
        // What only some are told of, and parts of several turns, have no one order.
        class_route: entry.way.is_open() && !collect.divided && collect.form == Form::All,
        aligned: collect.aligned || anywhere,
        bulletins: shows && has_room(&call, element_len),
        reach: shows,
        tree_operator: collect.reducer.is_none_or(|reducer| AluOperation::of(&reducer).is_some()),
        ..Metadata::of(&call)
    };
    let elements = match collect.what {
        Collective::Barrier => 0,
        what if what.is_of_vectors() => collect.blocks.len(0),
        _ if metadata.equal_blocks || metadata.known_blocks => collect.blocks.longest(),
        _ => 0,
    };
    Query {
        collective: collect.what,
        algorithms: entry.algorithms,
        bytes: elements.saturating_mul(element_len),
        element_len,
        metadata,
        scratch: parts::share(entry, collect, call.root),
        in_place: collect.in_place,
        moves: collect.in_place && collect.what == Collective::Alltoall && call.blocks != call.sources,
        placement: entry.placement,
        tuning: call.tuning,
    }
}

/// Whether collectives can be started in a geometry now, and this one's place among those that are known there.
#[inline(always)]
pub(super) fn find_known<A>(
    entry: &GeometryState,
    collect: &Collect<A>,
) -> Result<Option<usize>, CollectError> {
    if let Some(node) = entry.dead {
        return Err(CollectError::Dead(node));
    }
    if entry.way.is_pending() {
        return Err(CollectError::NotCreated(entry.id));
    }
    Ok(entry.known.find(collect, entry.way.is_open()))
}

/// Whether a collective can be started here, and what this endpoint does of it, which is put into `parts`; see
/// [`query`].
#[inline(never)]
pub(super) fn check<A>(
    entry: &GeometryState,
    collect: &Collect<A>,
    anywhere: bool,
    parts: &mut Parts,
) -> Result<Checked, CollectError> {
    let (mut call, element_len) = whole(entry, collect);
    if collect.what.reduces() && collect.reducer.is_none() {
        return Err(CollectError::NoReducer(collect.what));
    }
    if element_len > REDUCED_AT_ONCE {
        return Err(CollectError::ElementLen(element_len));
    }
    let blocks = if collect.what.is_of_vectors() { 1 } else { call.size as usize };
    let longest = collect.blocks.longest().max(collect.sources.longest());
    let bytes = longest.checked_mul(blocks).and_then(|len| len.checked_mul(element_len));
    if bytes.is_none_or(|bytes| u32::try_from(bytes).is_err()) {
        return Err(CollectError::TooLong);
    }
    let mut query = query(entry, collect, anywhere);
    let usual =
        directly(collect.what).filter(|&usual| collect.divided && query.algorithms.has(collect.what, usual));
    let forced = collect.algorithm.map(|(algorithm, _)| algorithm).or(usual);
    if forced.is_some_and(|algorithm| entry.goes_by(collect.what, algorithm)) {
        query.algorithms = AlgorithmList::ALL;
    }
    let chosen = query.choose(forced).map_err(CollectError::Selection)?;
    call.algorithm = chosen.algorithm;
    call.check().map_err(CollectError::Call)?;
    if collect.form != Form::All && !(collect.form.allows(&call) && call.blocks.are_equal()) {
        return Err(CollectError::Form);
    }
    parts::divide(entry, collect, &call, element_len, parts)?;
    // Who is called back is not told of runs.
    if collect.form != Form::All && parts.iter().any(|part| part.run < part.call.longest()) {
        let unmet = SelectionError::Unmet(call.algorithm, Need::Scratch);
        return Err(CollectError::Selection(unmet));
    }
    let most = parts::most(entry, collect, &call);
    let gist = Gist {
        element_len,
        extents: extents(parts, element_len),
        digest: digest(&call, collect.reducer.as_ref(), element_len),
        synchronises: synchronises(collect, &call),
        algorithm: call.algorithm,
        tuning: call.tuning,
    };
    Ok(Checked { gist, most })
}
