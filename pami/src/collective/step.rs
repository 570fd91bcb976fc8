//! The steps that schedules are made of.

use crate::operator::Order;
use heapless::Vec;

/// One of the three memories of a collective at one rank. They never overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    /// What the caller contributes; only read. Absent when the call is in place.
    Input,
    /// What the caller gets.
    Output,
    /// Memory of the engine, [`scratch_len`](super::Schedule::scratch_len) elements, undefined at the start.
    Scratch,
}

/// Consecutive elements of an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Where they are.
    pub area: Area,
    /// Elements of the area before the first.
    pub offset: usize,
    /// Number of elements.
    pub len: usize,
}

impl Span {
    /// `len` elements of `area` from `offset` on.
    pub const fn new(area: Area, offset: usize, len: usize) -> Self {
        Self { area, offset, len }
    }

    /// `len` elements of this span from its element `offset` on.
    pub const fn part(self, offset: usize, len: usize) -> Self {
        Self { area: self.area, offset: self.offset + offset, len }
    }

    /// The first elements, `len` of them.
    pub const fn first(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// The `index`-th piece of `chunk` elements; the last is shorter, those behind it are empty.
    pub fn chunk(self, index: usize, chunk: usize) -> Self {
        let offset = index.saturating_mul(chunk).min(self.len);
        self.part(offset, chunk.min(self.len - offset))
    }

    /// Elements of the area up to the end of the span.
    pub const fn end(self) -> usize {
        self.offset + self.len
    }
}

/// Bits of a tag that number the message within its phase; those above number the phase.
const ROUND_BITS: u32 = 24;
/// Most messages between two ranks, one way, in one phase.
pub(super) const TAG_LIMIT: usize = 1 << ROUND_BITS;

/// One instruction to the engine. Counts are elements, peers are ranks of the geometry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Starts to send `span`. It may be read until the round ends.
    Send {
        /// The receiving rank, never this one.
        to: u32,
        /// No other message of this collective between the two ranks, this way, has the same.
        tag: u32,
        /// Empty only in barriers.
        span: Span,
    },
    /// Starts to receive into `span`, which may be written from now until the round ends.
    Receive {
        /// The sending rank, never this one.
        from: u32,
        /// The tag that it sends with.
        tag: u32,
        /// As long as the span that is sent.
        span: Span,
    },
    /// The round ends when every send and every receive that was started is done. The next step comes after that.
    Wait,
    /// Combines `from` into `into`, element by element, at once.
    Reduce {
        /// Left or right operand and the result. Never of [`Area::Input`].
        into: Span,
        /// The other operand; as long, and apart from `into`.
        from: Span,
        /// Which one is the left operand.
        order: Order,
    },
    /// Copies `from` to `into`, at once.
    Copy {
        /// Never of [`Area::Input`].
        into: Span,
        /// As long, and apart from `into`.
        from: Span,
    },
    /// Begins, as a rank that shows nothing.
    Begin,
    /// Shows `span` to all that reach this rank's memory, as it is now. Once in a collective, and before anything is read; waits
    /// until nobody reads any more what is shown no longer then.
    Show {
        /// Empty if the rank has nothing to show but that it is there.
        span: Span,
    },
    /// Reads what another rank shows, once that is there.
    Fetch {
        /// That rank, never this one.
        from: u32,
        /// Elements of what it shows in front of those that are read.
        offset: usize,
        /// Never of [`Area::Input`]. Empty if only that it is there matters.
        into: Span,
    },
    /// Shows where memory lies, to be read there until all have come to the stage that ends that. Else as [`Show`](Self::Show).
    Expose {
        /// Of the operand.
        operand: Span,
        /// Of the part of the result that this rank makes; may be of memory that is not written yet.
        result: Span,
    },
    /// Reads what another rank has [exposed](Self::Expose), where it lies.
    Pull {
        /// That rank, never this one.
        from: u32,
        /// What of it.
        of: Shown,
        /// Elements of that in front of those that are read.
        offset: usize,
        /// Never of [`Area::Input`].
        into: Span,
    },
    /// Tells all that reach this rank's memory that it has come to a stage.
    Reach {
        /// Later than those before: 1 or more.
        stage: u8,
    },
    /// Done once another rank has come to a stage.
    Await {
        /// That rank, never this one.
        from: u32,
        /// Of that rank.
        stage: u8,
    },
    /// Hands `span` to the tree network, which combines what the leaders of all nodes hand in, in the order that it
    /// fixes, and writes the result over each one's span before the round ends. An empty span only synchronises.
    Combine {
        /// Operand and result. Never of [`Area::Input`].
        span: Span,
    },
    /// Hands `own` to the tree network, which brings together what the leaders of all nodes hand in, and writes it over each one's
    /// `span` before the round ends.
    Assemble {
        /// The whole. Never of [`Area::Input`].
        span: Span,
        /// Those elements of it that are of this node, and of no other.
        own: Span,
    },
    /// The tree network writes the span of the one leader that is the source over those of the others before the round
    /// ends.
    Spread {
        /// As long at all. Never of [`Area::Input`].
        span: Span,
        /// Whether this is the source.
        source: bool,
    },
}

/// What of an [exposed](Step::Expose) memory is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// The operand.
    Operand,
    /// The rank's part of the result.
    Result,
}

/// Most steps that an algorithm writes at a time.
pub(super) const STEPS: usize = 8;
/// Steps that are kept: of most schedules all, so that nothing is worked out when they come again.
const KEPT: usize = 3 * STEPS;

/// What an algorithm writes its next steps to. Drops those without effect: empty messages that are no signals,
/// empty copies, and waits for nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    steps: Vec<Step, KEPT>,
    /// Those of them that are done.
    done: usize,
    /// Others were in front of them.
    dropped: bool,
    phase: u8,
    started: bool,
}

impl Round {
    /// Begins anew, without steps.
    pub(super) fn restart(&mut self) {
        self.steps.clear();
        self.done = 0;
        self.dropped = false;
        self.phase = 0;
        self.started = false;
    }

    /// Has all that were written be to do again. Returns `false` if some are not there any more.
    #[inline]
    pub(super) fn rewind(&mut self) -> bool {
        self.rewind_behind(0)
    }

    /// All that were written, if they are there still.
    pub(super) fn all(&self) -> Option<&[Step]> {
        (!self.dropped).then_some(&self.steps)
    }

    /// Has those behind the first ones be to do again. Returns whether all that were written are there still.
    #[inline]
    pub(super) fn rewind_behind(&mut self, first: usize) -> bool {
        self.done = first;
        !self.dropped
    }

    /// Tags from here on belong to `phase`.
    pub(super) fn set_phase(&mut self, phase: u8) {
        self.phase = phase;
    }

    /// The oldest step that is not done.
    #[inline]
    pub(super) fn first(&self) -> Option<&Step> {
        self.steps.get(self.done)
    }

    /// The oldest step is done.
    #[inline]
    pub(super) fn finish_step(&mut self) {
        self.done += 1;
    }

    #[inline]
    fn push(&mut self, step: Step) {
        // Every algorithm writes a bounded number of steps at a time, whatever its arguments, and those before are done then.
        debug_assert!(self.steps.len() - self.done < STEPS, "more than {STEPS} steps at a time");
        if self.steps.is_full() {
            self.steps.copy_within(self.done.., 0);
            self.steps.truncate(self.steps.len() - self.done);
            self.done = 0;
            self.dropped = true;
        }
        let _ = self.steps.push(step);
    }

    fn tag(&self, number: usize) -> u32 {
        debug_assert!(number < TAG_LIMIT);
        u32::from(self.phase) << ROUND_BITS | number as u32
    }

    pub(super) fn send(&mut self, to: u32, number: usize, span: Span) {
        if span.len > 0 {
            self.started = true;
            self.push(Step::Send { to, tag: self.tag(number), span });
        }
    }

    pub(super) fn receive(&mut self, from: u32, number: usize, span: Span) {
        if span.len > 0 {
            self.started = true;
            self.push(Step::Receive { from, tag: self.tag(number), span });
        }
    }

    /// Sends a message without data.
    pub(super) fn signal(&mut self, to: u32, number: usize) {
        self.started = true;
        self.push(Step::Send { to, tag: self.tag(number), span: Span::new(Area::Scratch, 0, 0) });
    }

    /// Receives a message without data.
    pub(super) fn expect(&mut self, from: u32, number: usize) {
        self.started = true;
        self.push(Step::Receive { from, tag: self.tag(number), span: Span::new(Area::Scratch, 0, 0) });
    }

    pub(super) fn wait(&mut self) {
        if core::mem::take(&mut self.started) {
            self.push(Step::Wait);
        }
    }

    pub(super) fn reduce(&mut self, into: Span, from: Span, order: Order) {
        if into.len > 0 {
            self.push(Step::Reduce { into, from, order });
        }
    }

    pub(super) fn copy(&mut self, into: Span, from: Span) {
        if into.len > 0 && into != from {
            self.push(Step::Copy { into, from });
        }
    }

    pub(super) fn begin(&mut self) {
        self.push(Step::Begin);
    }

    pub(super) fn expose(&mut self, operand: Span, result: Span) {
        self.push(Step::Expose { operand, result });
    }

    pub(super) fn pull(&mut self, from: u32, of: Shown, offset: usize, into: Span) {
        if into.len > 0 {
            self.push(Step::Pull { from, of, offset, into });
        }
    }

    pub(super) fn reach(&mut self, stage: u8) {
        self.push(Step::Reach { stage });
    }

    pub(super) fn await_stage(&mut self, from: u32, stage: u8) {
        self.push(Step::Await { from, stage });
    }

    /// Shows `span`, be it empty.
    pub(super) fn show(&mut self, span: Span) {
        self.push(Step::Show { span });
    }

    pub(super) fn fetch(&mut self, from: u32, offset: usize, into: Span) {
        if into.len > 0 {
            self.push(Step::Fetch { from, offset, into });
        }
    }

    /// Waits until a rank shows something, be it nothing.
    pub(super) fn look(&mut self, from: u32) {
        self.push(Step::Fetch { from, offset: 0, into: Span::new(Area::Scratch, 0, 0) });
    }

    pub(super) fn combine(&mut self, span: Span) {
        self.started = true;
        self.push(Step::Combine { span });
    }

    pub(super) fn assemble(&mut self, span: Span, own: Span) {
        self.started = true;
        self.push(Step::Assemble { span, own });
    }

    pub(super) fn spread(&mut self, span: Span, source: bool) {
        self.started = true;
        self.push(Step::Spread { span, source });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g3_q4_as_many_steps_are_kept_as_there_is_room_for_and_the_next_ones_push_out_those_that_are_done() {
        let span = |at| Span::new(Area::Output, at, 1);
        let mut round = Round::default();
        for at in 0..KEPT {
            round.copy(span(at), span(KEPT + at));
            assert!(round.first().is_some());
            round.finish_step();
        }
        assert!(round.rewind(), "all are there");
        (0..KEPT).for_each(|_| round.finish_step());
        (0..3).for_each(|at| round.copy(span(at), span(9)));
        for at in 0..3 {
            assert_eq!(round.first(), Some(&Step::Copy { into: span(at), from: span(9) }));
            round.finish_step();
        }
        assert!(round.first().is_none() && !round.rewind(), "the first ones are gone");
    }

    #[test]
    #[should_panic(expected = "more than 8 steps at a time")]
    fn g3_more_steps_at_a_time_than_an_algorithm_may_write_are_told() {
        let mut round = Round::default();
        (0..=STEPS)
            .for_each(|at| round.copy(Span::new(Area::Output, at, 1), Span::new(Area::Scratch, at, 1)));
    }
}
