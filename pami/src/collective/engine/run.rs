//! Steps, carried out in an advance.

use super::early::{Early, EarlyMessages};
use super::geometry::Entry;
use super::network::Leaving;
use super::passage::{Part, Passage};
use super::slot::{Phase, Slot};
use super::transfer::{Incoming, Outgoing, ReceiveStage, SendStage};
use super::wire::{CALLED, Label, Stop, Wire, Word};
use super::{Engine, WINDOW};
use crate::collective::{Area, Schedule, Span, Step};
use crate::combine::Operation;
use crate::context::Active;
use crate::device::Port;
use crate::dispatch::Completion;
use crate::error::OperationError;

/// Steps of one collective that an advance carries out.
const STEPS_PER_ADVANCE: usize = 64;
/// Packets of one message that an advance sends.
const PACKETS_PER_ADVANCE: usize = 64;

/// What became of a step.
enum Carried {
    Done,
    /// Some of it is done.
    Part,
    /// It has to wait.
    Blocked,
}

/// Whether sequence number `a` comes before `b`.
pub(super) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl<P: Port> Engine<P> {
    /// Whether no part of an earlier turn, and no much older collective of the geometry, is in flight.
    fn may_begin(&self, number: usize) -> bool {
        let Some(slot) = self.slots.get(number) else { return false };
        let key = slot.key;
        let holds = |other: &Slot<P>| {
            let old = other.geometry == slot.geometry
                && (other.key.part | key.part) & CALLED == 0
                && before(other.key.sequence.wrapping_add(WINDOW - 1), key.sequence);
            old || other.key.is_of(key) && other.turn < slot.turn
        };
        !self.slots.iter().any(holds)
    }
}

impl<P: Port> Active<P> {
    /// Goes on with every collective in flight, and ends those that are done. Returns how many moved.
    #[inline(never)]
    pub(crate) fn run_collectives(&mut self) -> usize {
        let mut events = if self.collectives.calls { self.call_back() } else { 0 };
        // A callback may start others, which find their turn here or in the next advance.
        let (mut number, mut left) = (0, self.collectives.slots.len());
        while left > 0 && number < self.collectives.slots.capacity() {
            if self.collectives.slots.get(number).is_some() {
                events += usize::from(self.run_slot(number)) + usize::from(self.end_slot(number));
                left -= 1;
            }
            number += 1;
        }
        events += usize::from(!self.collectives.leaving.is_empty() && self.leave_routes());
        if !self.collectives.slots.is_empty() {
            self.ask_the_awaited();
        }
        if self.collectives.early.owes() {
            events += self.give_credit_back();
        }
        events
    }

    /// Has others hear of the short messages of theirs that were taken. Returns the number of packets that went out.
    #[inline(never)]
    fn give_credit_back(&mut self) -> usize {
        let Self { collectives: Engine { early, .. }, transport, .. } = self;
        let mut wire = Wire::new(transport);
        early.give_back(|peer, taken| {
            let pushed = wire.push(peer, Word::Credit, &Label::NONE, (0, 0, taken.into()), |_| {});
            // Who is dead needs no credit.
            pushed != Err(Stop::Full)
        })
    }

    fn run_slot(&mut self, number: usize) -> bool {
        let waits = matches!(self.collectives.slots.get(number), Some(Slot { phase: Phase::Waits, .. }));
        let begins = waits && self.collectives.may_begin(number);
        let asked = self.collectives.ask(number, &self.transport.port);
        let Self { collectives: Engine { slots, geometries, early, .. }, transport, .. } = self;
        let Some(slot) = slots.get_mut(number) else { return false };
        let Some(entry) = &mut geometries[usize::from(slot.geometry)] else { return false };
        let network = transport.port.network();
        let mut wire = Wire::new(transport);
        if begins {
            slot.begin(entry, early);
        }
        let mut moved = slot.run(entry, early, &mut wire);
        if slot.pass(&mut entry.way, network) {
            moved = true;
            slot.run(entry, early, &mut wire);
        }
        slot.refused = wire.refused;
        moved | asked
    }

    /// Lets a collective that is over go, and tells its caller.
    fn end_slot(&mut self, number: usize) -> bool {
        let over = matches!(self.collectives.slots.get(number), Some(Slot { phase: Phase::Over, .. }));
        if over && self.goes_on(number) {
            return true;
        }
        let Some(slot) = over.then(|| self.collectives.slots.close(number)).flatten() else { return false };
        let Slot { result, done, areas, key, ticket, geometry, asked, .. } = slot;
        if asked {
            // There is a place for every class route.
            let _ = self.collectives.give_up(Leaving::Unwanted);
        }
        // Of one that was given up those before it go on.
        if let (Err(error), Some(_), Some(entry)) =
            (result, ticket, &mut self.collectives.geometries[usize::from(geometry)])
            && !matches!(error, OperationError::Abandoned { .. })
        {
            entry.spoil(error);
        }
        if result.is_err() {
            // What else came of it, nobody will ask for.
            self.collectives.early.forget(|other| other.is_of(key));
        }
        let mut parts = 0;
        for other in self.collectives.slots.iter_mut().filter(|other| other.key.is_of(key)) {
            parts += 1;
            if let Err(error) = result {
                other.end(error);
                other.result = result;
            }
        }
        if parts > 0 {
            // The last part tells for all.
            return true;
        }
        if result.is_ok() && key.part & CALLED == 0 {
            // A clear that was sent twice.
            self.collectives.early.forget(|other| other.is_of(key));
        }
        // The caller may want to have its memory to itself.
        drop(areas);
        let completion = Completion { target: self.transport.me, buffer: None, result, cookie: done.cookie };
        (done.call)(self, completion);
        true
    }
}

impl<P: Port> Slot<P> {
    /// Its turn has come.
    fn begin(&mut self, entry: &Entry, early: &mut EarlyMessages) {
        match early.take_objection(self.key, self.digest) {
            Some(Early { origin, label, .. }) => _ = self.differs(entry, origin, &label),
            None => self.begin_run(),
        }
    }

    fn begin_run(&mut self) {
        // The call was checked when it was made.
        let call = self.call.run(self.from, self.run);
        self.phase = Schedule::new(&call).map_or(Phase::Over, Phase::Runs);
    }

    /// Begins the next run, if there is one.
    #[cold]
    fn next_run(&mut self) -> bool {
        self.from = self.from.saturating_add(self.run);
        if self.from >= self.call.longest() {
            self.phase = Phase::Over;
            return false;
        }
        if self.call.collective.is_of_vectors() {
            for area in [Area::Input, Area::Output] {
                if let Some((_, base)) = &mut self.areas[area as usize] {
                    *base += self.run * self.element_len;
                }
            }
        }
        self.key = self.key.next_run();
        self.begin_run();
        true
    }

    fn next_step(&mut self) -> Option<Step> {
        loop {
            let Phase::Runs(schedule) = &mut self.phase else { return None };
            let step = schedule.next_step();
            if step.is_some() || !self.next_run() {
                return step;
            }
        }
    }

    /// Goes on as far as it can. Returns whether anything moved.
    fn run(&mut self, entry: &Entry, early: &mut EarlyMessages, wire: &mut Wire<'_, P>) -> bool {
        let mut moved = self.pump(wire);
        for _ in 0..STEPS_PER_ADVANCE {
            let quiet = self.sends.is_empty() && self.receives.is_empty() && self.passage.is_none();
            if self.waiting && !quiet {
                break;
            }
            self.waiting = false;
            let Some(step) = self.step.take().or_else(|| self.next_step()) else { break };
            match self.carry_out(step, entry, early, wire) {
                Carried::Done => moved = true,
                Carried::Part => {
                    self.step = Some(step);
                    moved = true;
                    break;
                }
                Carried::Blocked => {
                    self.step = Some(step);
                    break;
                }
            }
        }
        moved |= self.pump(wire);
        moved |= self.tell(entry, wire);
        self.moved |= moved;
        moved
    }

    fn carry_out(
        &mut self,
        step: Step,
        entry: &Entry,
        early: &mut EarlyMessages,
        wire: &mut Wire<'_, P>,
    ) -> Carried {
        match step {
            Step::Send { to, tag, span } => self.send((to, tag, span), entry, early, wire),
            Step::Receive { from, tag, span } => {
                self.receive((from, tag, span), entry, early, self.short_limit(wire))
            }
            Step::Wait => {
                self.waiting = true;
                Carried::Done
            }
            Step::Reduce { into, from, order } => {
                if self.reduce(into, from, order) {
                    Carried::Done
                } else {
                    Carried::Part
                }
            }
            Step::Copy { into, from } => {
                if self.copy(into, from) {
                    Carried::Done
                } else {
                    Carried::Part
                }
            }
            Step::Combine { span } => {
                let operation = self.reducer.and_then(|reducer| Operation::of(&reducer));
                let part = Part::Combine(operation.unwrap_or(Operation::NOTHING));
                self.passage = Some(Passage::new(self.piece(span), part));
                Carried::Done
            }
            Step::Spread { span, source } => {
                let part = if source { Part::Source } else { Part::Sink };
                self.passage = Some(Passage::new(self.piece(span), part));
                Carried::Done
            }
        }
    }

    fn send(
        &mut self,
        (rank, tag, span): (u32, u32, Span),
        entry: &Entry,
        early: &mut EarlyMessages,
        wire: &mut Wire<'_, P>,
    ) -> Carried {
        let Some(rank) = self.peers.member(&entry.members, rank) else { return Carried::Done };
        let Some(to) = entry.members.endpoint(rank) else { return Carried::Done };
        let piece = self.piece(span);
        let short = piece.len <= self.short_limit(wire);
        if !short || !early.has_credit(to) {
            // A short one is not expected to ask, unless nobody has credit.
            let asks = self.notice.is_some() || early.has_forgotten() || short && !early.is_strict();
            let stage = if asks { SendStage::Announce } else { SendStage::Waits };
            if self.sends.push(Outgoing { to, rank, tag, piece, short, stage }).is_err() {
                return Carried::Blocked;
            }
            entry.count(rank);
            if let Some(clear) = early.take(self.key, (to, tag), true) {
                self.take(entry, (to, Word::Clear, &clear.label), (0, clear.total), &[]);
            }
            return Carried::Done;
        }
        let measures = (0, piece.len, piece.len);
        let label = self.label(tag);
        match wire.push(to, Word::Short, &label, measures, |into| self.read(piece, 0, into)) {
            Ok(()) => {
                early.use_credit(to);
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

    /// Most bytes of a message that goes unasked. In runs nothing does: who has nothing to wait for would else send those of
    /// many runs to one that is behind.
    fn short_limit(&self, wire: &Wire<'_, P>) -> usize {
        if self.run == usize::MAX { wire.short_limit() } else { 0 }
    }

    fn receive(
        &mut self,
        (rank, tag, span): (u32, u32, Span),
        entry: &Entry,
        early: &mut EarlyMessages,
        short_limit: usize,
    ) -> Carried {
        let Some(rank) = self.peers.member(&entry.members, rank) else { return Carried::Done };
        let Some(from) = entry.members.endpoint(rank) else { return Carried::Done };
        let piece = self.piece(span);
        let clears = piece.len > short_limit || early.must_clear(from);
        let stage = if clears { ReceiveStage::ToClear } else { ReceiveStage::Open };
        if self.receives.push(Incoming { from, rank, tag, piece, again: false, stage }).is_err() {
            return Carried::Blocked;
        }
        if let Some(early) = early.take(self.key, (from, tag), false) {
            self.take(entry, (from, early.word, &early.label), (0, early.total), &early.data);
        }
        Carried::Done
    }

    /// A packet cannot go, now or ever.
    fn stopped(&mut self, stop: Stop, rank: u32) {
        match stop {
            Stop::Full => {}
            Stop::Dead(node) => self.fail(OperationError::NodeDead(node)),
            Stop::Unreachable => self.fail(OperationError::Unreachable(rank)),
        }
    }

    /// Sends what long messages have to send. Returns whether anything went.
    fn pump(&mut self, wire: &mut Wire<'_, P>) -> bool {
        let mut moved = false;
        let mut index = 0;
        while let Some(&incoming) = self.receives.get(index) {
            index += 1;
            let again = incoming.again && incoming.stage == ReceiveStage::Cleared(0);
            if incoming.stage == ReceiveStage::ToClear || again {
                let label = self.label(incoming.tag);
                let measures = (0, 0, incoming.piece.len);
                match wire.push(incoming.from, Word::Clear, &label, measures, |_| {}) {
                    Ok(()) => {
                        self.receives[index - 1].stage = ReceiveStage::Cleared(0);
                        self.receives[index - 1].again = false;
                        moved = true;
                    }
                    Err(stop) => self.stopped(stop, incoming.rank),
                }
            }
        }
        let mut index = 0;
        while let Some(&outgoing) = self.sends.get(index) {
            match self.pump_out(outgoing, wire) {
                Ok(stage) if stage == SendStage::Clear(outgoing.piece.len) => {
                    self.sends.swap_remove(index);
                    moved = true;
                }
                Ok(stage) => {
                    moved |= stage != outgoing.stage;
                    self.sends[index].stage = stage;
                    index += 1;
                }
                Err(stop) => {
                    self.stopped(stop, outgoing.rank);
                    return true;
                }
            }
        }
        moved
    }

    /// Sends what one long message has to send now. Returns how far it is.
    fn pump_out(&self, outgoing: Outgoing, wire: &mut Wire<'_, P>) -> Result<SendStage, Stop> {
        let Outgoing { to, tag, piece, stage, .. } = outgoing;
        let label = self.label(tag);
        let full = |stop, stage| if stop == Stop::Full { Ok(stage) } else { Err(stop) };
        let mut gone = match stage {
            SendStage::Announce => {
                let pushed = wire.push(to, Word::Request, &label, (0, 0, piece.len), |_| {});
                return pushed.map_or_else(|stop| full(stop, stage), |()| Ok(SendStage::Waits));
            }
            SendStage::Waits => return Ok(stage),
            SendStage::Answer => {
                let measures = (0, piece.len, piece.len);
                let pushed = wire.push(to, Word::Answer, &label, measures, |into| self.read(piece, 0, into));
                return pushed.map_or_else(|stop| full(stop, stage), |()| Ok(SendStage::Clear(piece.len)));
            }
            SendStage::Clear(gone) => gone,
        };
        // Whole words, so that the target writes whole words.
        let room = (wire.room() & !7).max(1);
        for _ in 0..PACKETS_PER_ADVANCE {
            let len = room.min(piece.len - gone);
            if len == 0 {
                break;
            }
            let measures = (gone, len, piece.len);
            if let Err(stop) =
                wire.push(to, Word::Data, &label, measures, |into| self.read(piece, gone, into))
            {
                return full(stop, SendStage::Clear(gone));
            }
            gone += len;
        }
        Ok(SendStage::Clear(gone))
    }

    /// Tells the members that are left to tell how it ended.
    fn tell(&mut self, entry: &Entry, wire: &mut Wire<'_, P>) -> bool {
        let (Phase::Tells(first), Err(error)) = (&self.phase, self.result) else { return false };
        let (first, size) = (*first, entry.members.size());
        let label = Label::abort(self.key, error);
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
