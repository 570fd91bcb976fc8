//! Endpoints join and leave a living geometry: it has one epoch after the other (SPEC G-1).
//!
//! An epoch is a geometry of its own to messages, with its number and members. The application goes on naming the first one's
//! number, which finds the last epoch. Old members end theirs by a barrier in it, its last collective, which compares what they
//! think the next one is. Behind that the members of the next one create it as they would any geometry. What is in flight ends in
//! its epoch, which is forgotten then.
//!
//! | who | ends the old epoch | creates the new one | is called back |
//! |---|---|---|---|
//! | stays | yes | yes | when the new one is created |
//! | joins | no | yes | when it is |
//! | leaves | yes | no | when all have ended the old one |
//!
//! Where old members do not agree, the barrier fails at all of them, and those who stay fail the creation with it, before they
//! have begun it. So nobody has it.

use super::Engine;
use super::geometries::{GeometryError, NewGeometry, domains_of, meeting, refusal};
use super::geometry::{EpochEnd, GeometryState, digest};
use super::request::CollectError;
use super::slot::CollectiveInFlight;
use super::start::Start;
use super::wire::{CREATION, Key};
use crate::collective::Algorithm;
use crate::device::Port;
use crate::dispatch::Done;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::geometry::{GeometryId, WORLD};

impl<A> Engine<A> {
    /// Has a geometry go on with the members of another epoch. Old and new members do.
    ///
    /// # Errors
    /// See [`GeometryError`]; nothing has changed.
    pub(crate) fn change<P: Port>(
        &mut self,
        me: Endpoint,
        id: GeometryId,
        epoch: NewGeometry<A>,
        port: &P,
    ) -> Result<(), GeometryError> {
        if id == WORLD {
            return Err(GeometryError::World);
        }
        let (old, is_member) = (self.entry(id).map(|(old, _)| old), epoch.members.rank(me).is_some());
        let Some(old) = old else { return self.create(me, id, epoch, port) };
        let busy = |entry: &GeometryState| entry.fences > 0 || self.queue.has(old);
        if self.geometries[old].as_ref().is_some_and(busy) {
            return Err(GeometryError::Busy(id));
        }
        let domains = domains_of(&epoch.members, epoch.domains, self.affinities);
        let agreed = digest(&epoch.members, domains.as_ref(), &epoch.algorithms) ^ epoch.id.0;
        // Each starts one collective, whichever is first.
        let place = if is_member { Some(self.place(me, &epoch, port)?) } else { None };
        let has_room = |index| self.room_for(index) >= 2;
        let started = if has_room(old) && place.is_none_or(has_room) {
            let done = if is_member { Done { call: &|_, _| {}, cookie: 0 } } else { epoch.done };
            self.end_epoch(old, id, agreed, done, port)
        } else {
            Ok(None)
        };
        let (Ok(Some(_)), Some(entry)) = (&started, &mut self.geometries[old]) else {
            place.into_iter().for_each(|place| self.take_back(place));
            return Err(refusal(started));
        };
        let key = |geometry: GeometryId, sequence| Key { geometry: geometry.0, sequence, part: 0 };
        let last = key(entry.id, entry.next.wrapping_sub(1));
        entry.end = Some(EpochEnd { last, next: place.map(|_| key(epoch.id, CREATION)) });
        entry.name = None;
        self.retires = true;
        match place {
            Some(place) => self.begin(place, id, epoch.routed, epoch.done, port),
            None => Ok(()),
        }
    }

    fn end_epoch<P: Port>(
        &mut self,
        old: usize,
        id: GeometryId,
        agreed: u32,
        done: Done<A>,
        port: &P,
    ) -> Result<Option<u32>, CollectError> {
        let algorithm =
            self.geometries[old].as_ref().map_or(Algorithm::Dissemination, GeometryState::barrier);
        self.start(&mut meeting(id, algorithm, done), Start::EpochEnd(agreed), port)
    }

    /// Whether a collective creates an epoch, and the last one of the epoch before has not ended here.
    #[cold]
    pub(super) fn awaits_epoch(&self, slot: &CollectiveInFlight<A>) -> bool {
        let ends = self.geometries.iter().flatten().filter_map(|entry| entry.end);
        let mut lasts = ends.filter(|end| end.next.is_some_and(|next| slot.is_of(next))).map(|end| end.last);
        lasts.any(|last| self.slots.values().any(|other| other.is_of(last)))
    }

    /// A collective has ended badly: if it was the last one of its epoch, the next one is not created.
    #[cold]
    pub(super) fn spoil_epoch(&mut self, geometry: usize, key: Key, error: OperationError) {
        let end = self.geometries[geometry].as_ref().and_then(|entry| entry.end);
        let Some(EpochEnd { next: Some(next), .. }) = end.filter(|end| end.last.is_of(key)) else { return };
        let creates = |slot: &&mut CollectiveInFlight<A>| slot.is_of(next);
        self.slots.values_mut().filter(creates).for_each(|slot| slot.fail(error));
    }

    /// Forgets the epochs that have ended.
    #[cold]
    pub(super) fn retire(&mut self) {
        self.retires = false;
        for index in 0..self.geometries.len() {
            let has_ended = |entry: &GeometryState| entry.name.is_none();
            if self.geometries[index].as_ref().is_some_and(has_ended) {
                self.retires |= self.forget(index).is_err();
            }
        }
    }
}
