//! What the last calls in a geometry came to: a call that comes again is not worked out again.

use super::part::SchedulePart;
use super::request::Collect;
use crate::collective::{Algorithm, Collective, Element, Form, Operator, Reducer, Tuning};

/// Calls of a geometry that are remembered.
const CALLS: usize = 2;

/// All that decides what a call comes to in a geometry, if it is of one part and of blocks of one length.
pub(super) struct Question {
    what: Collective,
    root: u32,
    len: usize,
    sources: usize,
    known_blocks: bool,
    in_place: bool,
    /// Operator and type; of an application's operator, the length of an element and whether operands may change places.
    reducer: Option<ReducerKind>,
    algorithm: Option<(Algorithm, Tuning)>,
    form: Form,
    aligned: bool,
    scratch_limit: usize,
    has_route: bool,
}

type ReducerKind = Result<(Operator, Element), (usize, bool)>;

#[inline]
fn kind(reducer: &Reducer) -> ReducerKind {
    reducer.known().ok_or_else(|| (reducer.element_len(), reducer.commutes()))
}

impl Question {
    /// Of a call in a geometry that has a class route, or none.
    pub(super) fn of<A>(collect: &Collect<A>, has_route: bool) -> Option<Self> {
        let (len, sources) = (collect.blocks.only_len()?, collect.sources.only_len()?);
        (!collect.divided).then(|| Self {
            what: collect.what,
            root: collect.root,
            len,
            sources,
            known_blocks: collect.known_blocks,
            in_place: collect.in_place,
            reducer: collect.reducer.as_ref().map(kind),
            algorithm: collect.algorithm,
            form: collect.form,
            aligned: collect.aligned,
            scratch_limit: collect.scratch_limit,
            has_route,
        })
    }

    /// Whether a call in a geometry that has a class route, or none, is that. What most calls differ in is looked at first.
    #[inline(always)]
    fn is_of<A>(&self, collect: &Collect<A>, has_route: bool) -> bool {
        self.what == collect.what && self.has_terms_of(collect, has_route)
    }

    /// Apart from the loop over those that are known, which would else look at all beforehand.
    #[inline(never)]
    fn has_terms_of<A>(&self, collect: &Collect<A>, has_route: bool) -> bool {
        // All, by name: the compiler tells of one that is not compared.
        let &Self {
            what: _,
            root,
            len,
            sources,
            known_blocks,
            in_place,
            reducer,
            algorithm,
            form,
            aligned,
            scratch_limit,
            has_route: had_route,
        } = self;
        Some(len) == collect.blocks.only_len()
            && Some(sources) == collect.sources.only_len()
            && !collect.divided
            && root == collect.root
            && known_blocks == collect.known_blocks
            && in_place == collect.in_place
            && reducer == collect.reducer.as_ref().map(kind)
            && algorithm == collect.algorithm
            && form == collect.form
            && aligned == collect.aligned
            && scratch_limit == collect.scratch_limit
            && had_route == has_route
    }
}

/// What a call that was found good comes to.
pub(super) struct Answer {
    /// No other one of the context has the same; not 0.
    pub(super) name: u64,
    /// The slot that it was last given.
    pub(super) slot: Option<u32>,
    /// The only one.
    pub(super) part: SchedulePart,
    pub(super) gist: Gist,
}

/// What the start of a call has to know of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gist {
    pub(super) element_len: usize,
    /// Bytes that it names of each area.
    pub(super) extents: [usize; 3],
    /// The same at all members that mean the same.
    pub(super) digest: u32,
    /// Nobody is done with it before all have begun it.
    pub(super) synchronises: bool,
    pub(super) algorithm: Algorithm,
    pub(super) tuning: Tuning,
}

/// The last calls of a geometry that were found good.
#[derive(Default)]
pub(super) struct Known {
    calls: [Option<(Question, Answer)>; CALLS],
    /// The place that is taken next.
    next: usize,
}

impl Known {
    /// The place of a call.
    #[inline]
    pub(super) fn find<A>(&self, collect: &Collect<A>, has_route: bool) -> Option<usize> {
        let is_it = |known: &Option<(Question, Answer)>| {
            known.as_ref().is_some_and(|(question, _)| question.is_of(collect, has_route))
        };
        self.calls.iter().position(is_it)
    }

    /// What is in a place.
    #[inline]
    pub(super) fn get(&self, place: usize) -> Option<&Answer> {
        self.calls.get(place)?.as_ref().map(|(_, answer)| answer)
    }

    /// A slot has the steps of what is in a place.
    pub(super) fn note_slot(&mut self, place: usize, slot: u32) {
        if let Some((_, answer)) = &mut self.calls[place] {
            answer.slot = Some(slot);
        }
    }

    pub(super) fn note(&mut self, question: Question, answer: Answer) {
        self.calls[self.next] = Some((question, answer));
        self.next = (self.next + 1) % CALLS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Blocks, Call, Order, UserOperator};
    use crate::dispatch::Done;
    use crate::geometry::WORLD;
    use std::boxed::Box;

    const TUNING: Tuning = Tuning { radix: 2, chunk: 1 };

    fn call(change: impl FnOnce(&mut Collect<()>)) -> Collect<()> {
        let done = Done { call: &|(), _| {}, cookie: 0 };
        let mut collect = Collect::new(WORLD, Collective::Allreduce, done);
        collect.reducer = Reducer::new(Operator::Sum, Element::U64).ok();
        change(&mut collect);
        collect
    }

    fn user(element_len: usize, commutes: bool) -> Option<Reducer> {
        let combine = &|_: &mut [u8], _: &[u8], _: Order| {};
        Reducer::user(UserOperator { combine, element_len, commutes }).ok()
    }

    #[test]
    fn g2_a_call_that_differs_in_what_decides_is_another_question() {
        let same = Question::of(&call(|it| it.number = 7), false).unwrap();
        assert!(same.is_of(&call(|it| it.done.cookie = 1), false), "that decides nothing");
        assert!(!same.is_of(&call(|_| {}), true));
        let changes: [fn(&mut Collect<()>); 17] = [
            |it| it.what = Collective::Reduce,
            |it| it.root = 1,
            |it| it.blocks = Blocks::equal(1),
            |it| it.sources = Blocks::equal(1),
            |it| it.known_blocks = false,
            |it| it.in_place = true,
            |it| it.reducer = None,
            |it| it.reducer = Reducer::new(Operator::Sum, Element::I64).ok(),
            |it| it.reducer = Reducer::new(Operator::Max, Element::U64).ok(),
            |it| it.reducer = user(8, true),
            |it| it.reducer = user(8, false),
            |it| it.reducer = user(4, true),
            |it| it.algorithm = Some((Algorithm::Ring, TUNING)),
            |it| it.algorithm = Some((Algorithm::Ring, Tuning { chunk: 2, ..TUNING })),
            |it| it.form = Form::RootOnly,
            |it| it.aligned = true,
            |it| it.scratch_limit = 8,
        ];
        for (at, change) in changes.iter().enumerate() {
            let other = Question::of(&call(change), false).unwrap();
            let is_of = |change: &fn(&mut Collect<()>)| other.is_of(&call(change), false);
            assert!(!same.is_of(&call(change), false) && !other.is_of(&call(|_| {}), false), "change {at}");
            assert!(
                changes.iter().enumerate().all(|(of, change)| is_of(change) == (of == at)),
                "change {at}"
            );
        }
        // What is not to be told by a few numbers is always worked out.
        let few = Blocks::listed(&[0, 1, 2]).unwrap();
        for change in [
            Box::new(|it: &mut Collect<()>| it.divided = true) as Box<dyn Fn(&mut Collect<()>)>,
            Box::new(move |it| it.blocks = few),
            Box::new(move |it| it.sources = few),
            Box::new(|it| it.blocks = Blocks::equal(1).window(1, None)),
            Box::new(|it| it.blocks = Blocks::equal(2).cut(0, 1)),
        ] {
            let call = call(change);
            assert!(Question::of(&call, false).is_none() && !same.is_of(&call, false));
        }
    }

    #[test]
    fn g2_the_last_calls_are_known_and_older_ones_are_not() {
        let calls = [1, 2, 3].map(|len| call(|it| it.blocks = Blocks::equal(len)));
        let call = Call::barrier(Algorithm::Dissemination, 1, 0);
        let mut known = Known::default();
        for (run, question) in calls.iter().map(|call| Question::of(call, false).unwrap()).enumerate() {
            let gist = Gist {
                element_len: 1,
                extents: [0; 3],
                digest: 0,
                synchronises: true,
                algorithm: call.algorithm,
                tuning: call.tuning,
            };
            known.note(
                question,
                Answer {
                    name: 1,
                    slot: None,
                    part: SchedulePart { run, ..SchedulePart::whole(0, 1, call) },
                    gist,
                },
            );
        }
        let runs = calls.map(|call| Some(known.get(known.find(&call, false)?)?.part.run));
        assert_eq!(runs, [None, Some(1), Some(2)]);
    }
}
