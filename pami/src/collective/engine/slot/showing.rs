//! The steps of a collective that take no messages and no network: within a member's memory, and between members that reach each other's,
//! what one shows, and what it reads of others.

use super::super::bulletins::Awaited;
use super::super::early::EarlyMessages;
use super::super::geometry::GeometryState;
use super::super::wire::Wire;
use super::run::Carried;
use super::{CollectiveInFlight, Phase};
use crate::collective::memory::Demand;
use crate::collective::{Algorithm, Call, Order, Shown, Span, Step, direct};
use crate::device::Port;
use crate::error::OperationError;
use rings::bulletin::{Bulletin, PageView};
use rings::shared::{Extent, Shared};

/// Words that say where a span lies.
const PLACE: usize = 3;

impl<A> CollectiveInFlight<A> {
    /// Goes on with one that runs, and [goes by bulletins](Self::shows): it has no messages, so that there is nothing but its steps to
    /// look after. Returns whether anything moved.
    #[inline(always)]
    pub(in super::super) fn follow_bulletins<P: Port>(
        &mut self,
        entry: &mut GeometryState,
        wire: &mut Wire<'_, P>,
        call_users: bool,
    ) -> bool {
        let mut moved = false;
        while self.phase == Phase::Runs {
            let Some(&step) = self.schedule.first() else {
                if !self.schedule.write_ahead() {
                    self.phase = Phase::Over;
                    moved = true;
                }
                continue;
            };
            let carried = match step {
                Step::Reduce { .. } if !call_users && self.has_users_operator() => Carried::Blocked,
                Step::Reduce { into, from, order } => self.reduce(into, from, order),
                Step::Copy { into, from } => self.copy(into, from),
                step => self.carry_on_bulletins(step, entry, wire),
            };
            if !matches!(carried, Carried::Done) {
                moved |= !matches!(carried, Carried::Blocked);
                break;
            }
            self.schedule.finish_step();
            moved = true;
        }
        self.moved |= moved;
        self.refused = wire.has_refused();
        moved
    }

    /// Has one that goes by bulletins, and whose turn it is, run, if it came again and nothing was said of it before.
    #[inline(always)]
    pub(in super::super) fn begin_on_bulletins(&mut self, early: &EarlyMessages) -> bool {
        let begins = self.shows() && early.is_empty();
        if begins {
            self.schedule.begin();
            self.phase = Phase::Runs;
        }
        begins
    }

    /// Carries out a step of those that go by bulletins.
    #[inline]
    pub(super) fn carry_on_bulletins<P: Port>(
        &mut self,
        step: Step,
        entry: &mut GeometryState,
        wire: &mut Wire<'_, P>,
    ) -> Carried {
        match step {
            Step::Show { span } => self.show(span, entry, wire),
            Step::Fetch { from, offset, into } => self.fetch((from, offset, into), entry),
            Step::Begin => {
                let Some(bulletins) = &entry.bulletins else { return Carried::Blocked };
                bulletins.own().inspect(|own| own.begin(bulletins.number(self.key)));
                Carried::Done
            }
            Step::Expose { operand, result } => self.expose([operand, result], entry, wire),
            Step::Pull { from, of, offset, into } => self.pull((from, of, offset, into), entry, wire),
            Step::Reach { stage } => self.reach(stage, entry, wire),
            Step::Await { from, stage } => self.await_stage(from, stage, entry),
            _ => Carried::Blocked,
        }
    }

    /// Whether the application combines.
    pub(super) fn has_users_operator(&self) -> bool {
        self.reducer.is_some_and(|it| it.is_user())
    }

    /// Goes on with a reduction, from `position`.
    pub(super) fn reduce(&mut self, into: Span, from: Span, order: Order) -> Carried {
        let pieces = (self.areas.piece(into), self.areas.piece(from));
        let Some(reducer) = &self.reducer else { return Carried::Done };
        let position = self.areas.reduce(reducer, pieces, order, self.position);
        self.comes_to(position, pieces.0.len)
    }

    /// Goes on with a copy, from `position`.
    pub(super) fn copy(&mut self, into: Span, from: Span) -> Carried {
        let pieces = (self.areas.piece(into), self.areas.piece(from));
        let position = self.areas.copy(pieces, self.position);
        self.comes_to(position, pieces.0.len)
    }

    /// A step has come to `position` of `len` bytes.
    fn comes_to(&mut self, position: usize, len: usize) -> Carried {
        let ends = position >= len;
        self.position = if ends { 0 } else { position };
        if ends { Carried::Done } else { Carried::Part }
    }

    /// Shows what the others read.
    fn show<P: Port>(&mut self, span: Span, entry: &mut GeometryState, wire: &mut Wire<'_, P>) -> Carried {
        let (piece, tag) = (self.areas.piece(span), self.digest.into());
        self.publish(entry, wire, |slot, own, number| slot.areas.show(piece, own, number, tag))
    }

    /// Shows where memory lies that the others read.
    fn expose<P: Port>(
        &mut self,
        spans: [Span; 2],
        entry: &mut GeometryState,
        wire: &mut Wire<'_, P>,
    ) -> Carried {
        let places = spans.map(|span| self.place(span, wire));
        let reached = places.iter().all(Option::is_some);
        let words = places.map(|place| place.filter(|_| reached).unwrap_or_default()).into_iter().flatten();
        let tag = self.digest.into();
        let shown = self.publish(entry, wire, |_, own, number| own.show(number, tag, words));
        if matches!(shown, Carried::Done) && !reached { self.go_instead(entry) } else { shown }
    }

    /// Where others find a span: the memory's start and length, of which the first is not 0, and the bytes in front of it. `None` if
    /// they do not reach it.
    fn place<P: Port>(&self, span: Span, wire: &Wire<'_, P>) -> Option<[u64; PLACE]> {
        if span.len == 0 {
            return Some([1, 0, 0]);
        }
        let (memory, at) = self.areas.place(self.areas.piece(span))?;
        let Extent { start, len } = wire.exposed(memory)?;
        Some([start, len, at].map(|word| word as u64))
    }

    /// Has something be on the own bulletin, once there is room, and the others look at it.
    #[inline(always)]
    fn publish<P: Port>(
        &mut self,
        entry: &mut GeometryState,
        wire: &mut Wire<'_, P>,
        show: impl FnOnce(&Self, &Bulletin, u64),
    ) -> Carried {
        let Some(bulletins) = &mut entry.bulletins else { return Carried::Blocked };
        let number = bulletins.number(self.key);
        let Some(own) = bulletins.free(number) else {
            wire.note_refused();
            return Carried::Blocked;
        };
        show(self, own, number);
        bulletins.others().for_each(|bulletin| wire.tell_reader(bulletin));
        Carried::Done
    }

    /// What a member shows, if it does and means the same collective.
    ///
    /// # Errors
    /// What becomes of the step.
    #[inline]
    fn shown_by(&mut self, rank: u32, entry: &mut GeometryState) -> Result<PageView<'static>, Carried> {
        let Some(bulletins) = &mut entry.bulletins else { return Err(Carried::Blocked) };
        let number = bulletins.number(self.key);
        let Some(bulletin) = bulletins.of_rank(rank) else { return Err(Carried::Blocked) };
        let Some(shown) = bulletin.find(number) else {
            let of = entry.members.endpoint(rank);
            self.awaited = of.map(|of| Awaited { bulletin, of, number, stage: 0 });
            return Err(Carried::Blocked);
        };
        self.awaited = None;
        if shown.tag() != u64::from(self.digest) {
            self.fail(OperationError::Mismatch(rank));
            return Err(Carried::Done);
        }
        bulletins.note_begun(number, rank);
        Ok(shown)
    }

    /// Reads what a member shows, if it does.
    #[inline]
    fn fetch(&mut self, (rank, offset, into): (u32, usize, Span), entry: &mut GeometryState) -> Carried {
        match self.shown_by(rank, entry) {
            Ok(shown) if self.exposes() => {
                if shown.word(0) == 0 {
                    self.go_instead(entry)
                } else {
                    Carried::Done
                }
            }
            Ok(shown) => {
                self.areas.fetch(self.areas.piece(into), shown, offset);
                Carried::Done
            }
            Err(carried) => carried,
        }
    }

    /// Reads on of what a member exposes, from `position`.
    fn pull<P: Port>(
        &mut self,
        (rank, of, offset, into): (u32, Shown, usize, Span),
        entry: &mut GeometryState,
        wire: &mut Wire<'_, P>,
    ) -> Carried {
        let shown = match self.shown_by(rank, entry) {
            Ok(shown) => shown,
            Err(carried) => return carried,
        };
        let word = |at: usize| shown.word((of as usize * PLACE + at) * size_of::<u64>()) as usize;
        let (place, base) = (Extent { start: word(0), len: word(1) }, word(2));
        if place.start == 0 {
            return self.go_instead(entry);
        }
        let (piece, position) = (self.areas.piece(into), self.position);
        let from = base.saturating_add(self.areas.bytes(offset)).saturating_add(position);
        let read = |to: &Shared, at, len| wire.read_exposed(place, from, (to, at), len);
        let Some(position) = self.areas.pull(piece, position, read) else {
            self.fail(OperationError::Mismatch(rank));
            return Carried::Done;
        };
        self.comes_to(position, piece.len)
    }

    /// Tells the others of a stage.
    fn reach<P: Port>(&mut self, stage: u8, entry: &mut GeometryState, wire: &mut Wire<'_, P>) -> Carried {
        let Some(bulletins) = &mut entry.bulletins else { return Carried::Blocked };
        let number = bulletins.number(self.key);
        let Some(own) = bulletins.stages(number) else {
            wire.note_refused();
            return Carried::Blocked;
        };
        own.reach(number, stage);
        bulletins.others().for_each(|bulletin| wire.tell_reader(bulletin));
        Carried::Done
    }

    fn await_stage(&mut self, rank: u32, stage: u8, entry: &GeometryState) -> Carried {
        let Some(bulletins) = &entry.bulletins else { return Carried::Blocked };
        let number = bulletins.number(self.key);
        let Some(bulletin) = bulletins.of_rank(rank) else { return Carried::Blocked };
        let reached = bulletin.has_reached(number, stage);
        let of = entry.members.endpoint(rank).filter(|_| !reached);
        self.awaited = of.map(|of| Awaited { bulletin, of, number, stage });
        if reached { Carried::Done } else { Carried::Blocked }
    }

    /// Memory of a member is not reached: it goes by messages, as it does at all others.
    #[cold]
    fn go_instead(&mut self, entry: &GeometryState) -> Carried {
        let direct = *self.schedule.call();
        let call = Call { algorithm: direct::instead(direct.collective), ..direct };
        let demand = |call: &Call| Demand::new(call, entry.placement.per_node);
        let longest = call.longest();
        self.run = demand(&call).run(longest, demand(&direct).of(longest)).unwrap_or(usize::MAX);
        self.known = 0;
        (self.from, self.position, self.whole, self.awaited) = (0, 0, call, None);
        self.schedule.set(&call);
        self.begin_run();
        // It reads nothing more.
        if let Some(bulletins) = &entry.bulletins {
            bulletins.own().inspect(|own| own.end(bulletins.number(self.key)));
        }
        Carried::Anew
    }

    /// Whether others read its memory where it lies.
    fn exposes(&self) -> bool {
        self.schedule.algorithm() == Algorithm::DirectRead
    }

    /// It ends here: others may show something else in place of what it read, and wait for no stage of it.
    #[inline]
    pub(in super::super) fn end_on_bulletins(&self, entry: &mut GeometryState) {
        let Some(bulletins) = entry.bulletins.as_mut().filter(|_| self.shows()) else { return };
        let number = bulletins.number(self.key);
        bulletins.own().inspect(|own| own.end(number));
        if self.result.is_err() && self.exposes() {
            bulletins.spoil(number);
            // Others may be reading it still.
            self.areas.keep();
        }
    }
}
