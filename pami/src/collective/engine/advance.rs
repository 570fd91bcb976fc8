//! One sweep over the collectives in flight.

use super::Engine;
use super::bulletins::OnBulletins;
use super::limits::PROBE_NS;
use super::route::Leaving;
use super::slot::{CollectiveInFlight, Ending, May};
use super::wire::{CALLED, Label, Stop, Wire, Word};
use crate::device::Port;
use crate::dispatch::{Completion, Done};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::transport::Transport;

/// A collective that is over, and what is to be called.
pub(crate) type EndedCollective<A> = (Done<A>, Completion);

/// How far a sweep over the collectives in flight is.
pub(crate) struct Sweep {
    next: Option<u32>,
    /// Those that were in flight when it began and that it has not come to.
    left: usize,
    moved: usize,
}

impl Sweep {
    /// How much moved.
    pub(crate) fn moved(&self) -> usize {
        self.moved
    }
}

/// What is noted of a collective that is over.
#[cfg(feature = "trace")]
fn ended_as(key: super::wire::Key) -> crate::trace::Event {
    let (geometry, number, called) = (key.geometry, key.sequence, key.part & CALLED != 0);
    crate::trace::Event::CollectiveEnded(crate::trace::CollectiveCall { what: 0, geometry, number, called })
}

impl<A> Engine<A> {
    /// A sweep over those that are in flight now.
    pub(crate) fn sweep(&self) -> Sweep {
        Sweep { next: self.in_flight.first(), left: self.slots.len(), moved: 0 }
    }

    /// Goes on with every collective in flight, up to one that is over. `None`: the sweep is. What is called in
    /// between may start others, which find their turn in this sweep or in the next one.
    #[inline(never)]
    pub(crate) fn advance<P: Port>(
        &mut self,
        port: &mut P,
        transport: &mut Transport<P>,
        sweep: &mut Sweep,
    ) -> Option<EndedCollective<A>> {
        while let Some(number) = sweep.next.filter(|_| sweep.left > 0) {
            sweep.next = self.in_flight.after(&self.slots, number);
            sweep.left -= 1;
            sweep.moved += usize::from(self.run_slot(number, true, port, transport));
            if self.slots.get(number).is_some_and(CollectiveInFlight::is_over)
                && (self.bulk.is_empty() || self.bulk.take_back(number, port))
            {
                sweep.moved += 1;
                #[cfg(feature = "trace")]
                let key = self.slots.get(number).map(CollectiveInFlight::key);
                let ended = self.end_slot(number, transport.me());
                #[cfg(feature = "trace")]
                if let (Some(key), Some(_)) = (key, &ended) {
                    port.note(ended_as(key));
                }
                if self.queue.must_retry() {
                    // Before the callback, which may call another one.
                    sweep.moved += self.start_waiting(port);
                }
                if ended.is_some() {
                    return ended;
                }
            }
        }
        if self.queue.must_retry() {
            let ended = self.end_waiting(transport.me(), port, &mut sweep.moved);
            if ended.is_some() {
                return ended;
            }
        }
        if !self.leaving.is_empty() {
            sweep.moved += usize::from(self.leave_routes(port.network()));
            // There may be room for the route of one more.
            if self.retires {
                self.retire();
            }
        }
        if !self.slots.is_empty() {
            self.ask_the_awaited(port, transport);
        }
        if self.early.owes_credit() {
            sweep.moved += self.give_credit_back(port, transport);
        }
        if self.answers
            && let Some(herald) = &mut self.herald
        {
            sweep.moved += herald.send_answers(&mut Wire::new(port, transport));
            self.answers = !herald.has_answered();
        }
        None
    }

    /// Goes on with the only collective in flight, which waits for what a member shows, if that has [come](Self::sees). What is to
    /// be called, if it is over.
    #[inline(never)]
    pub(crate) fn advance_on_bulletins<P: Port>(
        &mut self,
        port: &mut P,
        transport: &mut Transport<P>,
    ) -> Option<EndedCollective<A>> {
        let number = self.in_flight.first()?;
        let Self { slots, geometries, .. } = self;
        let slot = slots.get_mut(number).filter(|slot| slot.shows())?;
        let entry = geometries[slot.geometry()].as_mut()?;
        slot.follow_bulletins(entry, &mut Wire::new(port, transport), true);
        self.on_bulletins = slot.on_bulletins();
        if !slot.is_over() {
            return None;
        }
        #[cfg(feature = "trace")]
        port.note(ended_as(slot.key()));
        self.end_slot(number, transport.me())
    }

    /// Has others hear of the short messages of theirs that were taken. Returns the number of packets that went out.
    #[inline(never)]
    fn give_credit_back<P: Port>(&mut self, port: &mut P, transport: &mut Transport<P>) -> usize {
        let mut wire = Wire::new(port, transport);
        self.early.give_back(|peer, taken| {
            let pushed = wire.push(peer, Word::Credit, &Label::NONE, (0, 0, taken.into()), |_| {});
            // Who is dead needs no credit.
            pushed != Err(Stop::Full)
        })
    }

    /// Asks those that are to clear data of a collective which has not moved for long: they may mean another one.
    fn ask_the_awaited<P: Port>(&mut self, port: &mut P, transport: &mut Transport<P>) {
        let now = port.now_ns();
        if now < self.looked_ns.saturating_add(PROBE_NS) {
            return;
        }
        self.looked_ns = now;
        let mut wire = Wire::new(port, transport);
        for slot in self.slots.values_mut() {
            let entry = self.geometries[slot.geometry()].as_ref();
            slot.ask_if_stuck(entry.and_then(|entry| entry.bulletins.as_ref()), &mut wire);
        }
    }

    /// Whether a turn has come: no part of an earlier one, and no much older collective of the geometry, is in flight.
    fn may_begin(&self, slot: &CollectiveInFlight<A>) -> bool {
        let alone = self.slots.len() == 1;
        slot.waits()
            && (alone
                || !(self.slots.values().any(|other| other.holds(slot))
                    || self.retires && self.awaits_epoch(slot)))
    }

    /// Whether one is to tell that it failed, and no older one of its geometry: who is far behind hears of them in order.
    fn may_tell(&self, slot: &CollectiveInFlight<A>) -> bool {
        slot.tells() && !self.slots.values().any(|other| other.tells_before(slot))
    }

    /// Goes on with a collective as far as it can, in an advance or in its call. Returns whether anything moved.
    pub(super) fn run_slot<P: Port>(
        &mut self,
        number: u32,
        in_advance: bool,
        port: &mut P,
        transport: &mut Transport<P>,
    ) -> bool {
        let Some(slot) = self.slots.get(number) else { return false };
        let may = May { begin: self.may_begin(slot), tell: self.may_tell(slot), call_users: in_advance };
        let asked = slot.asks() && self.ask(number, port);
        let Self { slots, geometries, early, bulk, .. } = self;
        let Some(slot) = slots.get_mut(number) else { return false };
        let Some(entry) = &mut geometries[slot.geometry()] else { return false };
        let network = port.network();
        let room = (early, bulk, number);
        let moved = slot.advance(entry, room, Wire::new(port, transport), network, may) | asked;
        self.on_bulletins = slot.on_bulletins();
        moved
    }

    /// Lets a collective that is over go, unless it goes on. Returns what is to be called.
    fn end_slot(&mut self, number: u32, me: Endpoint) -> Option<EndedCollective<A>> {
        if self.goes_on(number) {
            return None;
        }
        let slot = self.slots.get(number)?;
        if let Some(entry) = self.geometries[slot.geometry()].as_mut() {
            slot.end_on_bulletins(entry);
        }
        let Ending { geometry, key, ticketed, asked, result, done } = slot.ending();
        if let (Err(error), Some(herald)) = (result, &mut self.herald) {
            herald.note(slot.abort(error).key);
        }
        // The caller may want to have its memory to itself.
        self.in_flight.remove(&mut self.slots, number);
        self.slots.close(number);
        self.on_bulletins = OnBulletins::Nothing;
        self.queue.note_change();
        if asked {
            // There is a place for every class route.
            let _ = self.give_up(Leaving::Unwanted);
        }
        // Of one that was given up those before it go on.
        if let (Err(error), true, Some(entry)) = (result, ticketed, &mut self.geometries[geometry])
            && let Some(channel) = entry.way.channel()
            && !matches!(error, OperationError::Abandoned { .. })
        {
            channel.spoil(error);
        }
        if let Err(error) = result {
            // What else came of it, nobody will ask for.
            self.early.forget(|other| other.is_of(key));
            self.spoil_epoch(geometry, key, error);
        }
        if self.retires {
            self.retire();
        }
        let mut parts = 0;
        for other in self.slots.values_mut().filter(|other| other.is_of(key)) {
            parts += 1;
            if let Err(error) = result {
                other.end_likewise(error);
            }
        }
        if parts > 0 {
            // The last part tells for all.
            return None;
        }
        if result.is_ok() && key.part & CALLED == 0 {
            // A clear that was sent twice.
            self.early.forget(|other| other.is_of(key));
        }
        Some((done, Completion { target: me, buffer: None, result, cookie: done.cookie }))
    }
}
