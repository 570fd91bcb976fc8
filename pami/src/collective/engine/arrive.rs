//! Packets of collectives as they come in, and deaths.

use super::Engine;
use super::bulk::Pull;
use super::herald::Herald;
use super::slot::{CollectiveInFlight, Taken};
use super::wire::{CALLED, Label, Word, before};
use crate::collective::cost::SHORT_LIMIT;
use crate::device::{Completed, Port};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::geometry::GeometryId;
use crate::packet::Envelope;
use crate::region::RegionFault;
use crate::transport::Transport;

impl<A> Engine<A> {
    /// A packet of a collective.
    pub(crate) fn arrive<P: Port>(
        &mut self,
        port: &P,
        transport: &mut Transport<P>,
        envelope: &Envelope,
        header: &[u8],
        data: &[u8],
    ) {
        let origin = envelope.origin;
        let ours = origin.context().0 < self.population.contexts && port.node_of(origin.task()).is_some();
        let label = Label::parse(header).filter(|_| ours && self.slots.capacity() > 0);
        let (Some(word), Some(label)) = (Word::from_byte(envelope.dispatch), label) else {
            transport.protocol_error();
            return;
        };
        if !data.is_empty() {
            transport.note_collective_received(data.len());
        }
        let whole = data.len() == envelope.total as usize && data.len() <= SHORT_LIMIT;
        match word {
            Word::Abort => return self.abort_arrived(transport, envelope.origin, label),
            Word::Report => return self.report_arrived(transport, envelope.origin, label),
            Word::Tell => return self.tell_after_all(label),
            Word::Credit => return self.early.regain(envelope.origin, envelope.total),
            Word::Short if !whole => {
                transport.protocol_error();
                return;
            }
            Word::Clear | Word::Request | Word::Offer | Word::Taken if !data.is_empty() => {
                transport.protocol_error();
                return;
            }
            _ => {}
        }
        let Self { slots, geometries, .. } = self;
        let slot = slots.values_mut().find(|slot| slot.is(label.key));
        let taken = slot.and_then(|slot| {
            let entry = geometries[slot.geometry()].as_ref()?;
            let measures = (envelope.offset, envelope.total);
            Some(slot.take(entry, (envelope.origin, word, &label), measures, data))
        });
        match taken {
            Some(Taken::Yes) => {
                if word == Word::Short {
                    self.early.took(envelope.origin);
                }
            }
            // It is asked for again, or for another reason heard of.
            None | Some(Taken::Early) if word == Word::Request && label.notice.is_none() => {
                if !self.is_past(&label) {
                    self.early.note_asked(envelope.origin);
                }
            }
            None | Some(Taken::Early)
                if matches!(word, Word::Short | Word::Clear | Word::Request) && !self.is_past(&label) =>
            {
                let unexpected = self.keep(envelope.origin, word, label, envelope.total, data);
                // Others are asked for again.
                if !unexpected && word == Word::Short {
                    transport.protocol_error();
                }
            }
            _ => {
                // Of one that is over here, though not there, whatever was on its way.
                let failed = |herald: &&mut Herald| herald.knows(label.key);
                let late = word.may_come_late()
                    || word.may_be_cut_off() && self.is_past(&label)
                    || word == Word::Short
                        && (self.was_destroyed(GeometryId(label.key.geometry))
                            || self.herald.as_ref().is_some_and(failed));
                if !late {
                    transport.protocol_error();
                }
                if word == Word::Short {
                    self.early.took(envelope.origin);
                }
            }
        }
    }

    /// Another member says that a collective ended badly.
    #[cold]
    fn abort_arrived<P: Port>(&mut self, transport: &mut Transport<P>, origin: Endpoint, label: Label) {
        let Some(error) = self.heard(origin, &label) else { return transport.protocol_error() };
        if let Some(herald) = &mut self.herald {
            herald.note(label.key);
        }
        let (geometry, found) = self.end_named(origin, &label, error, false);
        let (sequence, called) = (label.key.sequence, label.key.part & CALLED != 0);
        if found || self.is_past(&label) {
            return self.forsake(geometry, &label, error);
        }
        match geometry.and_then(|index| self.geometries[index].as_mut()) {
            Some(entry) if entry.members.rank(origin).is_some() => entry.doomed.add(sequence, called, error),
            Some(_) => transport.protocol_error(),
            None => {
                if let Some(unmade) = &mut self.unmade {
                    unmade.add(&label, called, error);
                }
            }
        }
    }

    /// Another member has seen that a collective ends badly, and this one is to tell all.
    #[cold]
    fn report_arrived<P: Port>(&mut self, transport: &mut Transport<P>, origin: Endpoint, label: Label) {
        let Some(error) = self.heard(origin, &label) else { return transport.protocol_error() };
        let agrees = self.slots.values().all(|slot| !slot.is_of(label.key) || slot.agrees(&label));
        let (geometry, found) = self.end_named(origin, &label, error, true);
        if found {
            self.forsake(geometry, &label, error);
        }
        if (!found || !agrees)
            && let Some(herald) = &mut self.herald
        {
            herald.answer(origin, label);
            self.answers = !herald.has_answered();
        }
    }

    /// Why a collective ended badly, if that is for `origin` to say. Who creates a geometry may name members that do not name it.
    fn heard(&self, origin: Endpoint, label: &Label) -> Option<OperationError> {
        let mut known = self.geometries.iter().flatten();
        let is_no_member =
            known.any(|entry| entry.id.0 == label.key.geometry && entry.members.rank(origin).is_none());
        label.reason().filter(|_| label.key.is_creation() || !is_no_member)
    }

    /// What was reported is not in flight at the herald.
    #[cold]
    fn tell_after_all(&mut self, label: Label) {
        self.slots
            .values_mut()
            .filter(|slot| slot.is_of(label.key))
            .for_each(CollectiveInFlight::tell_after_all);
    }

    /// What comes after a collective that was given up does without the class route.
    fn forsake(&mut self, geometry: Option<usize>, label: &Label, error: OperationError) {
        let counted = label.key.part & CALLED == 0;
        if let (OperationError::Abandoned { .. }, Some(geometry), true) = (error, geometry, counted) {
            self.forsake_route(geometry, label.key.sequence, error);
        }
    }

    /// Ends what a member says has ended badly, and tells all members of it if it `tells`. Returns the place of the geometry, and
    /// whether the collective is in flight here.
    fn end_named(
        &mut self,
        origin: Endpoint,
        label: &Label,
        error: OperationError,
        tells: bool,
    ) -> (Option<usize>, bool) {
        let geometry = self.geometries.iter_mut().position(|entry| {
            let known = entry.as_mut().filter(|entry| entry.id.0 == label.key.geometry);
            known.is_some_and(|entry| {
                if let OperationError::NodeDead(node) = error
                    && entry.members.rank(origin).is_some()
                {
                    entry.dead.get_or_insert(node);
                }
                true
            })
        });
        let death = matches!(error, OperationError::NodeDead(_));
        if death {
            // What waits ends too.
            self.queue.note_change();
        }
        let mut found = false;
        for slot in self.slots.values_mut() {
            let dies = death && geometry == Some(slot.geometry());
            let named = slot.is_of(label.key);
            if dies || named {
                // One of its parts tells for all. Who does not agree on the members does not tell all of them.
                if named && tells && !found || !slot.agrees(label) {
                    slot.tell_all(error)
                } else {
                    slot.end(error)
                }
                found |= named;
            }
        }
        (geometry, found)
    }

    /// A get of a collective's data has ended.
    pub(crate) fn pull_ended(&mut self, completed: Completed) {
        if let Some(pull) = self.bulk.end(completed.message) {
            self.note_pull(pull, completed.result.map(drop));
        }
    }

    fn note_pull(&mut self, pull: Pull, result: Result<(), RegionFault>) {
        if let Some(slot) = self.slots.get_mut(pull.slot) {
            slot.pull_ended((pull.from, pull.tag), result);
        }
    }

    /// Ends the collectives of geometries that have members on nodes that died.
    #[cold]
    pub(crate) fn end_those_of_dead<P: Port>(&mut self, port: &P) {
        while let Some(pull) = self.bulk.take_lost(|node| port.gone(node).is_some()) {
            self.note_pull(pull, Err(RegionFault::Stale));
        }
        for index in 0..self.geometries.len() {
            self.mark_dead(index, port);
        }
        let Self { slots, geometries, early, .. } = self;
        for slot in slots.values_mut() {
            let entry = geometries[slot.geometry()].as_ref();
            if let Some(node) = entry.and_then(|entry| entry.dead) {
                slot.fail(OperationError::NodeDead(node));
            }
        }
        let gone =
            |id: u32| geometries.iter().flatten().any(|entry| entry.id.0 == id && entry.dead.is_some());
        early.forget(|key| gone(key.geometry));
        self.queue.note_change();
    }

    /// Whether the collective is one that was started here, or of a geometry that was destroyed here.
    fn is_past(&self, label: &Label) -> bool {
        let key = label.key;
        if self.was_destroyed(GeometryId(key.geometry)) {
            return true;
        }
        let started = |slot: &CollectiveInFlight<A>| slot.is_of(key);
        let entry = self.geometries.iter().flatten().find(|entry| entry.id.0 == key.geometry);
        key.part & CALLED == 0
            && entry.is_some_and(|entry| before(key.sequence, entry.next))
            && !self.slots.values().any(started)
    }

    /// Keeps a message for later. Returns whether there is a place.
    fn keep(&mut self, origin: Endpoint, word: Word, label: Label, total: u32, data: &[u8]) -> bool {
        let unexpected = self.early.keep(origin, word, label, total, data);
        self.calls |= unexpected && label.notice.is_some();
        unexpected
    }
}
