//! What the last calls in a geometry came to: a call that comes again is not worked out again.

use super::part::SchedulePart;
use super::request::Collect;
use crate::collective::{Algorithm, Collective, Form, Tuning};

/// Calls of a geometry that are remembered.
const CALLS: usize = 2;

/// All that decides what a call comes to in a geometry, if it is of one part and of blocks of one length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Question {
    what: Collective,
    root: u32,
    len: usize,
    sources: usize,
    known_blocks: bool,
    in_place: bool,
    /// The operator's number, which is all users' the same, the length of an element, whether operands may change places.
    reducer: Option<(u32, usize, bool)>,
    algorithm: Option<(Algorithm, Tuning)>,
    form: Form,
    aligned: bool,
    scratch_limit: usize,
    has_route: bool,
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
            reducer: collect.reducer.map(|it| (it.code(), it.element_len(), it.commutes())),
            algorithm: collect.algorithm,
            form: collect.form,
            aligned: collect.aligned,
            scratch_limit: collect.scratch_limit,
            has_route,
        })
    }
}

/// What a call that was found good comes to.
pub(super) struct Answer {
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
    pub(super) fn find(&self, question: &Question) -> Option<usize> {
        for (place, known) in self.calls.iter().enumerate() {
            if let Some((known, _)) = known
                && known == question
            {
                return Some(place);
            }
        }
        None
    }

    /// What is in a place.
    #[inline]
    pub(super) fn get(&self, place: usize) -> Option<&Answer> {
        self.calls.get(place)?.as_ref().map(|(_, answer)| answer)
    }

    pub(super) fn note(&mut self, question: Question, answer: Answer) {
        self.calls[self.next] = Some((question, answer));
        self.next = (self.next + 1) % CALLS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Blocks, Call, Element, Operator, Reducer};
    use crate::dispatch::Done;
    use crate::geometry::WORLD;
    use std::boxed::Box;

    const TUNING: Tuning = Tuning { radix: 2, chunk: 1 };

    fn question(change: impl FnOnce(&mut Collect<()>)) -> Option<Question> {
        let done = Done { call: &|(), _| {}, cookie: 0 };
        let mut collect = Collect::new(WORLD, Collective::Allreduce, done);
        collect.reducer = Reducer::new(Operator::Sum, Element::U64).ok();
        change(&mut collect);
        Question::of(&collect, false)
    }

    #[test]
    fn g2_a_call_that_differs_in_what_decides_is_another_question() {
        let same = question(|it| it.number = 7).unwrap();
        assert_eq!(question(|it| it.done.cookie = 1), Some(same), "that decides nothing");
        let changes: [fn(&mut Collect<()>); 13] = [
            |it| it.what = Collective::Reduce,
            |it| it.root = 1,
            |it| it.blocks = Blocks::equal(1),
            |it| it.sources = Blocks::equal(1),
            |it| it.known_blocks = false,
            |it| it.in_place = true,
            |it| it.reducer = None,
            |it| it.reducer = Reducer::new(Operator::Sum, Element::I64).ok(),
            |it| it.algorithm = Some((Algorithm::Ring, TUNING)),
            |it| it.algorithm = Some((Algorithm::Ring, Tuning { chunk: 2, ..TUNING })),
            |it| it.form = Form::RootOnly,
            |it| it.aligned = true,
            |it| it.scratch_limit = 8,
        ];
        let others: std::vec::Vec<_> = changes.into_iter().map(|change| question(change).unwrap()).collect();
        for (at, other) in others.iter().enumerate() {
            assert!(*other != same && !others[..at].contains(other), "change {at}");
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
            assert_eq!(question(change), None);
        }
    }

    #[test]
    fn g2_the_last_calls_are_known_and_older_ones_are_not() {
        let questions = [1, 2, 3].map(|len| question(|it| it.blocks = Blocks::equal(len)).unwrap());
        let call = Call {
            collective: Collective::Barrier,
            algorithm: Algorithm::Dissemination,
            size: 1,
            rank: 0,
            root: 0,
            blocks: Blocks::equal(0),
            sources: Blocks::equal(0),
            in_place: false,
            commutative: true,
            tuning: TUNING,
            grid: None,
            domains: None,
        };
        let mut known = Known::default();
        for (run, question) in questions.into_iter().enumerate() {
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
                Answer { part: SchedulePart { run, ..SchedulePart::whole(0, 1, call) }, gist },
            );
        }
        let runs = questions
            .map(|question| known.find(&question).and_then(|place| Some(known.get(place)?.part.run)));
        assert_eq!(runs, [None, Some(1), Some(2)]);
    }
}
