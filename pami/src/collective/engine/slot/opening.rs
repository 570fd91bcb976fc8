//! The first round of a call that comes again, where it is a word to one member and one from one, as most reductions of a
//! word begin: it goes without a look at its steps.

use super::super::contacts::Contact;
use super::super::early::EarlyMessages;
use super::super::geometry::GeometryState;
use super::super::transfer::{Incoming, ReceiveStage};
use super::super::wire::{Label, Wire};
use super::run::contact;
use super::{CollectiveInFlight, Phase};
use crate::collective::{Span, Step};
use crate::device::Port;

/// How the call that a slot has the steps of begins.
pub(super) enum Opening {
    /// Nobody has looked.
    Unknown,
    /// As its steps say.
    BySteps,
    /// With a word each way.
    Words(WordsRound),
}

/// A round of a word each way.
#[derive(Clone, Copy)]
pub(super) struct WordsRound {
    word: Span,
    /// Where it is copied to before it goes.
    copy: Option<Span>,
    to: Contact,
    sent_tag: u32,
    from: Contact,
    received: Span,
    received_tag: u32,
    /// Steps that it is, the wait among them.
    steps: usize,
}

impl WordsRound {
    /// The first round of these steps, if it is such a one. Ranks are the geometry's.
    fn of(steps: &[Step], mut contact: impl FnMut(u32) -> Option<Contact>) -> Option<Self> {
        let (copied, rest) = match steps {
            [Step::Copy { into, from }, rest @ ..] => (Some((*into, *from)), rest),
            rest => (None, rest),
        };
        let [
            Step::Send { to, tag, span },
            Step::Receive { from, tag: received_tag, span: received },
            rest @ ..,
        ] = rest
        else {
            return None;
        };
        let [Step::Wait, ..] = rest else { return None };
        let (copy, word) = match copied {
            None => (None, *span),
            Some((into, from)) if into == *span => (Some(into), from),
            Some(_) => return None,
        };
        let (steps, to, from) = (steps.len() - rest.len() + 1, contact(*to)?, contact(*from)?);
        let (sent_tag, received, received_tag) = (*tag, *received, *received_tag);
        Some(Self { word, copy, to, sent_tag, from, received, received_tag, steps })
    }
}

impl<A> CollectiveInFlight<A> {
    /// Sends the first round of the call that has just opened the slot again, if it is a word each way and nothing has it
    /// take another way. Returns whether it did; else nothing has happened that its steps would not do as well.
    #[inline(always)]
    pub(in super::super) fn send_first<P: Port>(
        &mut self,
        entry: &mut GeometryState,
        early: &mut EarlyMessages,
        wire: &mut Wire<'_, P>,
    ) -> bool {
        match &self.opening {
            Opening::Words(_) => self.send_words(entry, early, wire),
            Opening::BySteps => false,
            Opening::Unknown => {
                self.learn_opening(entry, early, wire);
                false
            }
        }
    }

    #[inline(always)]
    fn send_words<P: Port>(
        &mut self,
        entry: &GeometryState,
        early: &mut EarlyMessages,
        wire: &mut Wire<'_, P>,
    ) -> bool {
        let Opening::Words(round) = &self.opening else { return false };
        let Some(path) = round.to.known_path(wire.deaths()) else {
            self.opening = Opening::Unknown;
            return false;
        };
        // What came early is looked for, and what is asked for is cleared.
        if !early.is_empty() || early.must_clear(round.from.number()) {
            return false;
        }
        let Some(credit) = round.to.number().and_then(|number| early.credit(number)) else { return false };
        let Some(word) = self.areas.word(self.areas.piece(round.word)) else { return false };
        if let Some(copy) = &round.copy
            && !self.areas.write_word(self.areas.piece(*copy), word)
        {
            return false;
        }
        let label = Label { key: self.key, tag: round.sent_tag, digest: self.digest, notice: None };
        if !self.schedule.begin_behind(round.steps)
            || wire.push_word(path, round.to.endpoint(), &label, word).is_err()
        {
            return false;
        }
        credit.spend();
        entry.count(round.to.rank());
        let (from, rank) = (round.from.endpoint(), round.from.rank());
        let (piece, tag) = (self.areas.piece(round.received), round.received_tag);
        // There is room: it is the first one.
        let _ =
            self.receives.push(Incoming { from, rank, tag, piece, again: false, stage: ReceiveStage::Open });
        self.waiting = true;
        self.phase = Phase::Runs;
        true
    }

    /// Looks how the call begins, if all its steps are there or cannot be.
    #[cold]
    #[inline(never)]
    fn learn_opening<P: Port>(
        &mut self,
        entry: &mut GeometryState,
        early: &mut EarlyMessages,
        wire: &Wire<'_, P>,
    ) {
        let Some(steps) = self.schedule.all() else {
            // Else not all were written yet.
            if self.schedule.drops() {
                self.opening = Opening::BySteps;
            }
            return;
        };
        let peers = &self.peers;
        let round = WordsRound::of(steps, |rank| {
            let contact = contact(entry, peers.member(&entry.members, rank)?, early)?;
            let _ = contact.path(wire.deaths(), |to| wire.path(to));
            Some(*contact)
        });
        let short = |round: &WordsRound| {
            self.areas.piece(round.received).len == size_of::<u64>() && wire.short_limit() >= size_of::<u64>()
        };
        self.opening = round.filter(short).map_or(Opening::BySteps, Opening::Words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Area, Order};
    use crate::endpoint::{ClientId, ContextOffset, Endpoint};

    fn contact(rank: u32) -> Option<Contact> {
        Some(Contact::new(rank, Endpoint::from_parts(ClientId(0), rank, ContextOffset(0)), None))
    }

    #[test]
    fn q4_a_round_of_a_word_each_way_is_known_by_its_steps() {
        let span = |area| Span::new(area, 0, 1);
        let [input, output, scratch] = [Area::Input, Area::Output, Area::Scratch].map(span);
        let copy = Step::Copy { into: output, from: input };
        let send = |span| Step::Send { to: 5, tag: 6, span };
        let receive = Step::Receive { from: 7, tag: 8, span: scratch };
        let reduce = Step::Reduce { into: output, from: scratch, order: Order::IntoFirst };
        let of = |steps: &[Step]| {
            let round = WordsRound::of(steps, contact)?;
            let names = [round.to.rank(), round.sent_tag, round.from.rank(), round.received_tag];
            assert_eq!((names, round.received), ([5, 6, 7, 8], scratch));
            Some((round.word, round.copy, round.steps))
        };
        assert_eq!(of(&[copy, send(output), receive, Step::Wait, reduce]), Some((input, Some(output), 4)));
        assert_eq!(of(&[send(output), receive, Step::Wait]), Some((output, None, 3)));
        let others: [&[Step]; 7] = [
            // What is sent is not what is copied.
            &[copy, send(scratch), receive, Step::Wait],
            &[copy, send(output), receive],
            &[copy, send(output), receive, receive, Step::Wait],
            &[send(output), send(output), receive, Step::Wait],
            &[send(output), Step::Wait, receive],
            &[receive, send(output), Step::Wait],
            &[copy],
        ];
        others.iter().for_each(|steps| assert_eq!(of(steps), None, "{steps:?}"));
        assert!(WordsRound::of(&[send(output), receive, Step::Wait], |_| None).is_none(), "nobody is there");
    }
}
