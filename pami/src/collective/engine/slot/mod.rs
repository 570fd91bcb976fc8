//! A collective in flight at one member: what it is, what messages do to it, how it ends; what it does is in `run`.

mod creation;
mod opening;
mod pump;
mod run;
mod showing;
mod take;

use super::areas::Areas;
use super::bulletins::{Awaited, OnBulletins};
use super::doomed::Doomed;
use super::limits::WINDOW;
use super::part::{OWN, Peers, SchedulePart};
use super::passage::Passage;
use super::request::Collect;
use super::transfer::{Incoming, Outgoing, SendStage};
use super::wire::{CALLED, Key, Label, Notice, before};
use crate::collective::{Algorithm, Call, Reducer, Schedule};
use crate::dispatch::Done;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use creation::Creation;
use heapless::Vec;
use opening::Opening;
pub(super) use run::May;
pub(super) use take::Taken;

/// Messages each way that a round has under way at once; further ones are started when some are done.
const TRANSFERS: usize = 16;

/// Where a collective is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No collective is there.
    Rests,
    /// It has to wait for others.
    Waits,
    /// For a class route.
    Asks,
    Runs,
    /// It failed, and the herald is to know; whether it was told so.
    Reports(bool),
    /// It failed, and the members from this rank on are to be told.
    Tells(u32),
    Over,
}

/// A collective in flight, or a part of one; or the last one of a slot, kept for the next call.
pub(crate) struct CollectiveInFlight<A: 'static> {
    /// Place of its geometry in the table.
    geometry: u16,
    key: Key,
    digest: u32,
    notice: Option<Notice>,
    /// All of it, if it goes in runs, or creates its geometry.
    whole: Call<'static>,
    /// Elements of the vector, or of each block, that go at a time, and how many have gone.
    run: usize,
    from: usize,
    peers: Peers,
    /// It begins when the parts of earlier turns are done here.
    turn: u8,
    /// It creates the geometry.
    creates: bool,
    phase: Phase,
    /// Which known call the schedule, and what else is set with it, is of; 0 if of none.
    known: u64,
    /// How that call begins.
    opening: Opening,
    /// What is left to do, if it runs.
    schedule: Schedule<'static>,
    areas: Areas,
    reducer: Option<Reducer>,
    /// Its place among those that go through the tree network, if this member has to do with it.
    ticket: Option<u32>,
    passage: Option<Passage>,
    /// Set if it creates its geometry.
    creation: Option<Creation>,
    /// The network was asked for a class route and has not answered.
    asked: bool,
    /// How many bytes of the next step are done.
    position: usize,
    /// The round ends when nothing is under way.
    waiting: bool,
    sends: Vec<Outgoing, TRANSFERS>,
    receives: Vec<Incoming, TRANSFERS>,
    /// What it waits for on a bulletin, and of which member.
    awaited: Option<Awaited>,
    /// Something of it found no room, and is tried again.
    refused: bool,
    /// Whether anything became of it since it was last looked at.
    moved: bool,
    result: Result<(), OperationError>,
    done: Done<A>,
}

/// What a part of a collective is when it starts.
pub(super) struct NewSlot<'a> {
    /// Place of its geometry in the table.
    pub(super) geometry: usize,
    pub(super) key: Key,
    pub(super) digest: u32,
    pub(super) notice: Option<&'a Notice>,
    /// It is the barrier that creates the geometry.
    pub(super) creates: bool,
    /// Its place among those that go through the tree network, if this member has to do with it.
    pub(super) ticket: Option<u32>,
    pub(super) element_len: usize,
    /// It is the only part, and takes the caller's areas.
    pub(super) alone: bool,
}

/// What is left of one that is over.
pub(super) struct Ending<A: 'static> {
    /// Place of its geometry in the table.
    pub(super) geometry: usize,
    pub(super) key: Key,
    /// It had a place among those that go through the tree network.
    pub(super) ticketed: bool,
    /// The network was asked for a class route and has not answered.
    pub(super) asked: bool,
    pub(super) result: Result<(), OperationError>,
    pub(super) done: Done<A>,
}

impl<A> CollectiveInFlight<A> {
    /// Room for one, where none has been.
    pub(super) fn resting(key: Key, done: Done<A>, part: &SchedulePart) -> Self {
        Self {
            geometry: 0,
            key,
            digest: 0,
            notice: None,
            whole: part.call,
            run: usize::MAX,
            from: 0,
            peers: part.peers,
            turn: 0,
            creates: false,
            phase: Phase::Rests,
            known: 0,
            opening: Opening::Unknown,
            schedule: Schedule::idle(&part.call),
            areas: Areas::default(),
            reducer: None,
            ticket: None,
            passage: None,
            creation: None,
            asked: false,
            position: 0,
            waiting: false,
            sends: Vec::new(),
            receives: Vec::new(),
            awaited: None,
            refused: false,
            moved: false,
            result: Ok(()),
            done,
        }
    }

    /// One that waits for its turn takes the slot. What is not written here, a slot that rests has as it is to be, or is
    /// written before it is read. `known` is the name of the part's call, 0 if it has none.
    #[inline(always)]
    pub(super) fn open(
        &mut self,
        new: NewSlot<'_>,
        part: &SchedulePart,
        known: u64,
        collect: &mut Collect<A>,
    ) {
        if known == 0 || known != self.known {
            self.set(part, new.creates, known);
        }
        let NewSlot { geometry, key, digest, notice, creates, ticket, element_len, alone } = new;
        self.geometry = geometry as u16;
        self.key = key;
        self.digest = digest;
        self.notice = None;
        if notice.is_some() {
            self.notice = notice.copied();
        }
        self.from = 0;
        self.creates = creates;
        self.phase = Phase::Waits;
        self.areas.set(element_len, part.discards);
        if alone {
            debug_assert_eq!(part.areas, OWN, "what is not divided has the caller's areas");
            self.areas.take([&mut collect.input, &mut collect.output, &mut collect.scratch]);
        } else {
            self.areas.share([&collect.input, &collect.output, &collect.scratch], &part.areas);
        }
        self.reducer = collect.reducer;
        self.ticket = ticket;
        self.creation = creates.then_some(Creation::Meets);
        self.moved = true;
        self.result = Ok(());
        self.done = collect.done;
    }

    /// Whether all steps are there of the call with this name, which its next collective is, the same but for what
    /// [`open_again`](Self::open_again) writes.
    #[inline]
    pub(super) fn has_all_of(&self, name: u64) -> bool {
        self.known == name
    }

    /// Whether nothing is lost if the call with this name, 0 if it has none, [opens](Self::open) it: it has all steps of no
    /// other one.
    #[inline]
    pub(super) fn is_free_for(&self, name: u64) -> bool {
        self.known == 0 || self.known == name
    }

    /// As [`open`](Self::open), for the call of which it has all.
    #[inline(always)]
    pub(super) fn open_again(&mut self, sequence: u32, collect: &mut Collect<A>) {
        self.key.sequence = sequence;
        self.phase = Phase::Waits;
        self.areas.take([&mut collect.input, &mut collect.output, &mut collect.scratch]);
        self.reducer = collect.reducer;
        self.moved = true;
        self.result = Ok(());
        self.done = collect.done;
    }

    /// Sets what depends on the part alone.
    #[inline(never)]
    fn set(&mut self, part: &SchedulePart, creates: bool, known: u64) {
        let at_once = part.run == usize::MAX && !creates;
        // Else the schedule is set again on the way.
        self.known = if at_once { known } else { 0 };
        if !at_once {
            self.whole = part.call;
        }
        self.run = part.run;
        self.peers = part.peers;
        self.turn = part.turn;
        self.opening = Opening::Unknown;
        self.schedule.set(&part.call);
    }

    /// It is over, and its slot is for another one to take.
    pub(super) fn rest(&mut self) {
        self.phase = Phase::Rests;
        self.areas.clear();
        self.passage = None;
        self.asked = false;
        self.position = 0;
        self.waiting = false;
        self.sends.clear();
        self.receives.clear();
        self.awaited = None;
        self.refused = false;
    }

    /// Whether there is no collective in the slot.
    #[inline]
    pub(super) fn rests(&self) -> bool {
        self.phase == Phase::Rests
    }

    /// Place of its geometry in the table.
    #[inline]
    pub(super) fn geometry(&self) -> usize {
        self.geometry.into()
    }

    /// Whether it is this part, in this run.
    #[inline]
    pub(super) fn is(&self, key: Key) -> bool {
        self.key == key
    }

    /// Whether it is of the same collective.
    #[inline]
    pub(super) fn is_of(&self, key: Key) -> bool {
        self.key.is_of(key)
    }

    /// Which part of which collective it is.
    #[cfg(feature = "trace")]
    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// Number of its collective in the geometry.
    pub(super) fn sequence(&self) -> u32 {
        self.key.sequence
    }

    /// Whether its collective has this number, which is the caller's if it is `called`.
    pub(super) fn is_numbered(&self, geometry: usize, sequence: u32, called: bool) -> bool {
        self.geometry() == geometry
            && self.key.sequence == sequence
            && (self.key.part & CALLED != 0) == called
    }

    /// Whether it goes by the class route of a geometry, behind this collective.
    pub(super) fn is_on_route_behind(&self, geometry: usize, sequence: u32) -> bool {
        self.geometry() == geometry
            && before(sequence, self.key.sequence)
            && self.schedule.algorithm() == Algorithm::TreeNetwork
    }

    /// Whether both are of one geometry, and `other` at least one collective more than `distance` behind.
    fn is_ahead(&self, other: &Self, distance: u32) -> bool {
        self.geometry == other.geometry
            && (self.key.part | other.key.part) & CALLED == 0
            && before(self.key.sequence.wrapping_add(distance), other.key.sequence)
    }

    /// Whether it is for it to ask for a class route.
    #[inline]
    pub(super) fn asks(&self) -> bool {
        self.phase == Phase::Asks
    }

    /// Whether it waits for its turn.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.phase == Phase::Waits
    }

    /// Whether `other` has to wait for it: it is a part of an earlier turn, or a much older collective of the geometry.
    #[inline]
    pub(super) fn holds(&self, other: &Self) -> bool {
        self.is_ahead(other, WINDOW - 1)
            || self.is_of(other.key) && self.turn < other.turn
            || self.shows() && other.shows() && self.is_ahead(other, 0)
    }

    /// Whether it goes by bulletins.
    #[inline]
    pub(super) fn shows(&self) -> bool {
        matches!(self.schedule.algorithm(), Algorithm::SharedMemory | Algorithm::DirectRead)
    }

    /// What has become of it on bulletins.
    #[inline]
    pub(super) fn on_bulletins(&self) -> OnBulletins {
        match self.awaited {
            Some(awaited) => OnBulletins::Awaits(awaited),
            _ if self.phase == Phase::Over && self.shows() => OnBulletins::Over,
            _ => OnBulletins::Nothing,
        }
    }

    /// Whether it is to tell that it failed before `other` does: it is an older one of the geometry.
    #[inline]
    pub(super) fn tells_before(&self, other: &Self) -> bool {
        self.tells() && self.is_ahead(other, 0)
    }

    /// Whether nothing is left to be done for it.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// What is left of one that is over.
    pub(super) fn ending(&self) -> Ending<A> {
        let &Self { geometry, key, ticket, asked, result, done, .. } = self;
        Ending { geometry: geometry.into(), key, ticketed: ticket.is_some(), asked, result, done }
    }

    /// Ends it as another part of it ended.
    pub(super) fn end_likewise(&mut self, error: OperationError) {
        self.end(error);
        self.result = Err(error);
    }

    /// Whether those who gave its collective up named the same members, whom they told all.
    pub(super) fn agrees_with(&self, doomed: &Doomed) -> bool {
        !self.creates || doomed.agree(self.digest)
    }

    /// Calls `note` with each endpoint that it waits for.
    pub(super) fn for_awaited(&self, note: &mut impl FnMut(Endpoint)) {
        self.receives.iter().for_each(|receive| note(receive.from));
        self.sends.iter().filter(|send| send.stage.waits()).for_each(|send| note(send.to));
        self.awaited.iter().for_each(|awaited| note(awaited.of));
    }

    /// Messages that their targets are still to clear.
    fn unanswered(&self) -> impl Iterator<Item = &Outgoing> {
        self.sends.iter().filter(|send| send.stage == SendStage::Waits)
    }

    fn label(&self, tag: u32) -> Label {
        let label = Label { key: self.key, tag, digest: self.digest, notice: None };
        // Most have none, and need not copy one.
        if self.notice.is_none() { label } else { Label { notice: self.notice, ..label } }
    }

    /// Goes by the schedule of a call, which was checked when it was made.
    fn follow(&mut self, call: &Call<'static>) {
        self.schedule.restart(call);
        self.phase = Phase::Runs;
    }

    /// Whether only others are still to hear how it ended.
    fn has_failed(&self) -> bool {
        matches!(self.phase, Phase::Reports(_) | Phase::Tells(_) | Phase::Over)
    }

    /// Whether others are to be told of its failure, from here or by the herald.
    #[inline]
    pub(super) fn tells(&self) -> bool {
        matches!(self.phase, Phase::Reports(_) | Phase::Tells(_))
    }

    /// Ends it, and has the others told.
    pub(super) fn fail(&mut self, error: OperationError) {
        if !self.has_failed() {
            self.end(error);
            self.phase = Phase::Reports(false);
        }
    }

    /// Ends it, and tells the others from here.
    pub(super) fn tell_all(&mut self, error: OperationError) {
        if !matches!(self.phase, Phase::Tells(_) | Phase::Over) {
            self.end(error);
            self.phase = Phase::Tells(0);
        }
    }

    /// Nobody else tells the others of a failure that was reported.
    pub(super) fn tell_after_all(&mut self) {
        if self.phase == Phase::Reports(true) {
            self.phase = Phase::Tells(0);
        }
    }

    /// What others are told of how it ended.
    pub(super) fn abort(&self, error: OperationError) -> Label {
        Label::abort(self.key, error).of_members(self.creates.then_some(self.digest))
    }

    /// Whether one who tells of its end names the same members, whom it tells all.
    pub(super) fn agrees(&self, label: &Label) -> bool {
        !self.creates || label.members() == Label::NONE.of_members(Some(self.digest)).members()
    }

    /// Ends it. One that tells all goes on with that, whoever else does.
    pub(super) fn end(&mut self, error: OperationError) {
        if matches!(self.phase, Phase::Tells(_) | Phase::Over) {
            return;
        }
        if self.result.is_ok() {
            self.result = Err(error);
        }
        self.phase = Phase::Over;
        self.waiting = false;
        self.sends.clear();
        self.receives.clear();
        self.awaited = None;
        self.passage = None;
        self.moved = true;
    }

    /// Whether it only waits for messages, or for other collectives.
    pub(super) fn is_stalled(&self) -> bool {
        let waits = matches!(self.phase, Phase::Waits | Phase::Runs | Phase::Reports(true));
        waits && self.passage.is_none() && !self.refused
    }
}
