//! The steps of one collective, carried out in an advance.

use super::super::areas::Piece;
use super::super::bulk::Bulk;
use super::super::bulletins::Bulletins;
use super::super::contacts::Contact;
use super::super::early::{Early, EarlyMessages};
use super::super::geometry::GeometryState;
use super::super::passage::{LeaderDuty, Passage, TOGETHER, Turn};
use super::super::route::Way;
use super::super::transfer::{Incoming, Outgoing, ReceiveStage, SendStage};
use super::super::wire::{Stop, Wire, Word};
use super::{CollectiveInFlight, Phase};
use crate::collective::need::MOST_SHOWING;
use crate::collective::{Area, Span, Step};
use crate::combine::AluOperation;
use crate::device::{CollectiveNetwork, Path, Port};
use crate::endpoint::Endpoint;
use crate::error::OperationError;

/// Steps of one collective that an advance carries out.
const STEPS_PER_ADVANCE: usize = 64;

/// What a collective uses of its engine, and its place among those in flight.
type Room<'a> = (&'a mut EarlyMessages, &'a mut Bulk, u32);

/// What is permitted to a collective that goes on.
#[derive(Clone, Copy)]
pub(in super::super) struct May {
    /// Its turn has come.
    pub(in super::super) begin: bool,
    /// It is its turn to tell how it ended.
    pub(in super::super) tell: bool,
    /// Operators of users may run. In a call they may not: who calls may hold what they wait for.
    pub(in super::super) call_users: bool,
}

/// What became of a step.
pub(super) enum Carried {
    Done,
    /// Some of it is done.
    Part,
    /// Others are there in place of all.
    Anew,
    /// It has to wait.
    Blocked,
}

/// A member of a geometry, by rank.
#[inline(always)]
pub(super) fn contact<'a>(
    entry: &'a mut GeometryState,
    rank: u32,
    early: &mut EarlyMessages,
) -> Option<&'a mut Contact> {
    let GeometryState { members, contacts, .. } = entry;
    contacts.of(rank, || {
        let endpoint = members.endpoint(rank)?;
        Some(Contact::new(rank, endpoint, early.number(endpoint)))
    })
}

impl<A> CollectiveInFlight<A> {
    /// Goes on as far as it can and `may`. Returns whether anything moved.
    #[inline]
    pub(in super::super) fn advance<P: Port>(
        &mut self,
        entry: &mut GeometryState,
        (early, bulk, number): Room<'_>,
        mut wire: Wire<'_, P>,
        network: Option<impl CollectiveNetwork>,
        may: May,
    ) -> bool {
        if may.begin {
            self.begin(entry, early);
        }
        let (mut moved, mut again) = (false, false);
        loop {
            moved |= self.run(entry, early, (bulk, number), &mut wire, may.call_users);
            if again || !self.advance_passage(&mut entry.way, network) {
                break;
            }
            (moved, again) = (true, true);
        }
        if may.tell {
            moved |= self.tell(entry, &mut wire);
        }
        self.refused = wire.has_refused();
        moved
    }

    /// If nothing became of it since this was last called, asks those that are to clear data: they may mean another
    /// collective.
    pub(in super::super) fn ask_if_stuck<P: Port>(
        &mut self,
        bulletins: Option<&Bulletins>,
        wire: &mut Wire<'_, P>,
    ) {
        if core::mem::take(&mut self.moved) {
            return;
        }
        // Who shows something means another one than this, which waits for messages.
        if let Some(bulletins) = bulletins.filter(|_| !self.shows() && self.phase == Phase::Runs) {
            let number = bulletins.number(self.key);
            let shows = |rank: &u32| {
                let shown = bulletins.of_rank(*rank).and_then(|bulletin| bulletin.find(number));
                shown.is_some_and(|shown| shown.tag() != u64::from(self.digest))
            };
            if let Some(rank) = (0..MOST_SHOWING).find(shows) {
                self.fail(OperationError::Mismatch(rank));
                return;
            }
        }
        self.tell_after_all();
        // One question is enough: nothing is lost if it finds no room.
        for send in self.unanswered() {
            let label = self.label(send.tag);
            let _ = wire.push(send.to, Word::Request, &label, (0, 0, send.piece.len), |_| {});
        }
    }

    /// Its turn has come.
    fn begin(&mut self, entry: &GeometryState, early: &mut EarlyMessages) {
        match early.take_objection(self.key, self.digest) {
            Some(Early { origin, label, .. }) => _ = self.differs(entry, origin, &label),
            None => self.begin_run(),
        }
    }

    pub(super) fn begin_run(&mut self) {
        if self.run == usize::MAX {
            // It has all of the call.
            self.schedule.begin();
            self.phase = Phase::Runs;
        } else {
            self.follow(&self.whole.run(self.from, self.run));
        }
    }

    /// Begins the next run, or is over if there is none.
    #[cold]
    fn next_run(&mut self) {
        self.from = self.from.saturating_add(self.run);
        if self.run == usize::MAX || self.from >= self.whole.longest() {
            self.phase = Phase::Over;
            return;
        }
        if self.whole.collective.is_of_vectors() {
            for area in [Area::Input, Area::Output] {
                self.areas.skip(area, self.run);
            }
        }
        self.key = self.key.next_run();
        self.begin_run();
    }

    /// Goes on with a vector that is on its way through the tree network. Returns whether anything moved.
    fn advance_passage(&mut self, way: &mut Way, network: Option<impl CollectiveNetwork>) -> bool {
        let (Some(passage), Some(ticket), Some(network)) = (&mut self.passage, self.ticket, network) else {
            return false;
        };
        let Some(channel) = way.channel() else { return false };
        let turn = Turn { ticket, digest: self.digest ^ self.key.sequence.rotate_left(16) };
        let moved = match passage.advance(&self.areas, turn, channel, network) {
            Ok(moved) => moved,
            Err(error) => {
                self.fail(error);
                return true;
            }
        };
        if passage.is_over(network) {
            self.passage = None;
        }
        self.moved |= moved;
        moved
    }

    /// Whether there is a step to do next.
    #[inline]
    fn has_step(&mut self) -> bool {
        while self.phase == Phase::Runs {
            if self.schedule.write_ahead() {
                return true;
            }
            self.next_run();
        }
        false
    }

    /// Goes on as far as it can. Returns whether anything moved.
    fn run<P: Port>(
        &mut self,
        entry: &mut GeometryState,
        early: &mut EarlyMessages,
        (bulk, number): (&mut Bulk, u32),
        wire: &mut Wire<'_, P>,
        call_users: bool,
    ) -> bool {
        let mut moved = self.pump(bulk, number, wire);
        for _ in 0..STEPS_PER_ADVANCE {
            if self.waiting {
                if !self.sends.is_empty() || !self.receives.is_empty() || self.passage.is_some() {
                    break;
                }
                self.waiting = false;
            }
            if !self.has_step() {
                break;
            }
            match self.carry_out(entry, early, wire, call_users) {
                Carried::Done => {
                    self.schedule.finish_step();
                    moved = true;
                }
                Carried::Anew => moved = true,
                Carried::Part => {
                    moved = true;
                    break;
                }
                Carried::Blocked => break,
            }
        }
        moved |= self.pump(bulk, number, wire);
        moved |= self.report(entry, wire);
        self.moved |= moved;
        moved
    }

    /// Carries out the next step.
    fn carry_out<P: Port>(
        &mut self,
        entry: &mut GeometryState,
        early: &mut EarlyMessages,
        wire: &mut Wire<'_, P>,
        call_users: bool,
    ) -> Carried {
        let Some(&step) = self.schedule.first() else { return Carried::Blocked };
        match step {
            Step::Send { to, tag, span } => self.send((to, tag, span), entry, early, wire),
            Step::Receive { from, tag, span } => {
                self.receive((from, tag, span), entry, early, self.short_limit(wire))
            }
            Step::Wait => {
                self.waiting = true;
                Carried::Done
            }
            // Those that go by bulletins match these as well: behind one match more an allreduce by messages takes 2 % more.
            Step::Reduce { .. } if !call_users && self.has_users_operator() => Carried::Blocked,
            Step::Reduce { into, from, order } => self.reduce(into, from, order),
            Step::Copy { into, from } => self.copy(into, from),
            Step::Combine { span } => {
                let piece = self.areas.piece(span);
                let operation = self.reducer.and_then(|reducer| AluOperation::of(&reducer));
                let operation = operation.unwrap_or(AluOperation::NOTHING);
                let duty = LeaderDuty::Combine { operation, own: 0..piece.len };
                self.passage = Some(Passage::new(piece, duty));
                Carried::Done
            }
            Step::Assemble { span, own } => {
                let (piece, own) = (self.areas.piece(span), self.areas.piece(own));
                let start = own.start - piece.start;
                let duty = LeaderDuty::Combine { operation: TOGETHER, own: start..start + own.len };
                self.passage = Some(Passage::new(piece, duty));
                Carried::Done
            }
            Step::Spread { span, source } => {
                let duty = if source { LeaderDuty::Source } else { LeaderDuty::Sink };
                self.passage = Some(Passage::new(self.areas.piece(span), duty));
                Carried::Done
            }
            _ => self.carry_on_bulletins(step, entry, wire),
        }
    }

    fn send<P: Port>(
        &mut self,
        (rank, tag, span): (u32, u32, Span),
        entry: &mut GeometryState,
        early: &mut EarlyMessages,
        wire: &mut Wire<'_, P>,
    ) -> Carried {
        let Some(rank) = self.peers.member(&entry.members, rank) else { return Carried::Done };
        let Some(contact) = contact(entry, rank, early) else { return Carried::Done };
        let (to, number) = (contact.endpoint(), contact.number());
        let piece = self.areas.piece(span);
        let short = piece.len <= self.short_limit(wire);
        let credit = if short { number.and_then(|number| early.credit(number)) } else { None };
        let Some(credit) = credit else {
            // A short one is not expected to ask, unless nobody has credit.
            let asks = self.notice.is_some() || early.has_forgotten() || short && !early.is_strict();
            let stage = if asks { SendStage::Announce } else { SendStage::Waits };
            if self.sends.push(Outgoing { to, rank, tag, piece, stage }).is_err() {
                return Carried::Blocked;
            }
            entry.count(rank);
            if let Some((clear, _)) = early.take(self.key, (to, tag), true) {
                self.take(entry, (to, Word::Clear, &clear.label), (0, clear.total), &[]);
            }
            return Carried::Done;
        };
        let pushed = match contact.path(wire.deaths(), |to| wire.path(to)) {
            Ok(Some(path)) => self.push_short(path, to, tag, piece, wire),
            // Who has ended did so well without that.
            Ok(None) => Ok(()),
            Err(stop) => Err(stop),
        };
        match pushed {
            Ok(()) => {
                credit.spend();
                entry.count(rank);
                Carried::Done
            }
            Err(Stop::Full) => Carried::Blocked,
            Err(stop) => {
                self.stopped(stop, rank);
                Carried::Done
            }
        }
    }

    #[inline(always)]
    fn push_short<P: Port>(
        &self,
        path: Path,
        to: Endpoint,
        tag: u32,
        piece: Piece,
        wire: &mut Wire<'_, P>,
    ) -> Result<(), Stop> {
        let label = self.label(tag);
        match self.areas.word(piece).filter(|_| label.notice.is_none()) {
            Some(word) => wire.push_word(path, to, &label, word),
            None => {
                let measures = (0, piece.len, piece.len);
                wire.push_along(path, to, Word::Short, &label, measures, |into| {
                    self.areas.read(piece, 0, into)
                })
            }
        }
    }

    /// Most bytes of a message that goes eagerly. In runs nothing does: who has nothing to wait for would else send those of
    /// many runs to one that is behind.
    fn short_limit<P: Port>(&self, wire: &Wire<'_, P>) -> usize {
        if self.run == usize::MAX { wire.short_limit() } else { 0 }
    }

    fn receive(
        &mut self,
        (rank, tag, span): (u32, u32, Span),
        entry: &mut GeometryState,
        early: &mut EarlyMessages,
        short_limit: usize,
    ) -> Carried {
        let Some(rank) = self.peers.member(&entry.members, rank) else { return Carried::Done };
        let Some(contact) = contact(entry, rank, early) else { return Carried::Done };
        let (from, number) = (contact.endpoint(), contact.number());
        let piece = self.areas.piece(span);
        let clears = piece.len > short_limit || early.must_clear(number);
        let stage = if clears { ReceiveStage::ToClear } else { ReceiveStage::Open };
        if self.receives.push(Incoming { from, rank, tag, piece, again: false, stage }).is_err() {
            return Carried::Blocked;
        }
        if let Some((early, data)) = early.take(self.key, (from, tag), false) {
            self.take(entry, (from, early.word, &early.label), (0, early.total), data);
        }
        Carried::Done
    }

    /// A packet cannot go, now or ever.
    pub(super) fn stopped(&mut self, stop: Stop, rank: u32) {
        match stop {
            Stop::Full => {}
            Stop::Dead(node) => self.fail(OperationError::NodeDead(node)),
            Stop::Unreachable => self.fail(OperationError::Unreachable(rank)),
            Stop::Refused => self.fail(OperationError::Mismatch(rank)),
        }
    }

    /// Has the first member that lives tell the others, unless it is this one.
    fn report<P: Port>(&mut self, entry: &GeometryState, wire: &mut Wire<'_, P>) -> bool {
        let (Phase::Reports(false), Err(error)) = (self.phase, self.result) else { return false };
        let lives = |to: &Endpoint| wire.reaches(*to);
        let herald = (0..entry.rank).find_map(|rank| entry.members.endpoint(rank).filter(lives));
        let pushed = herald.map(|to| wire.push(to, Word::Report, &self.abort(error), (0, 0, 0), |_| {}));
        match pushed {
            Some(Err(Stop::Full)) => return false,
            Some(Ok(())) => self.phase = Phase::Reports(true),
            Some(Err(_)) | None => self.phase = Phase::Tells(0),
        }
        true
    }

    /// Tells the members that are left to tell how it ended.
    fn tell<P: Port>(&mut self, entry: &GeometryState, wire: &mut Wire<'_, P>) -> bool {
        let (Phase::Tells(first), Err(error)) = (&self.phase, self.result) else { return false };
        let (first, size) = (*first, entry.members.size());
        let label = self.abort(error);
        for rank in first..size {
            let Some(to) = entry.members.endpoint(rank).filter(|_| rank != entry.rank) else { continue };
            if wire.push(to, Word::Abort, &label, (0, 0, 0), |_| {}) == Err(Stop::Full) {
                self.phase = Phase::Tells(rank);
                return rank != first;
            }
        }
        self.phase = Phase::Over;
        true
    }
}
