//! Packets of collectives as they come in, and deaths.

use super::early::may_come_late;
use super::run::before;
use super::slot::Taken;
use super::wire::{CALLED, Label, Word};
use super::{Engine, GeometryId, SHORT_LIMIT};
use crate::context::Active;
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::packet::Envelope;

impl<P: Port> Active<P> {
    /// A packet of a collective.
    #[inline(never)]
    pub(crate) fn collective_arrived(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        let origin = envelope.origin;
        let ours = origin.context().0 < self.contexts && self.transport.port.node_of(origin.task()).is_some();
        let label = Label::parse(header).filter(|_| ours && self.collectives.slots.capacity() > 0);
        let (Some(word), Some(label)) = (Word::from_byte(envelope.dispatch), label) else {
            self.transport.stray();
            return;
        };
        self.transport.counters.collective_received += u64::from(!data.is_empty());
        let whole = data.len() == envelope.total as usize && data.len() <= SHORT_LIMIT;
        match word {
            Word::Abort => return self.abort_arrived(envelope.origin, label),
            Word::Credit => return self.collectives.early.regain(envelope.origin, envelope.total),
            Word::Short | Word::Answer if !whole => {
                self.transport.stray();
                return;
            }
            Word::Clear | Word::Request if !data.is_empty() => {
                self.transport.stray();
                return;
            }
            _ => {}
        }
        let Engine { slots, geometries, .. } = &mut self.collectives;
        let slot = slots.iter_mut().find(|slot| slot.key == label.key);
        let taken = slot.and_then(|slot| {
            let entry = geometries[usize::from(slot.geometry)].as_ref()?;
            let measures = (envelope.offset, envelope.total);
            Some(slot.take(entry, (envelope.origin, word, &label), measures, data))
        });
        match taken {
            Some(Taken::Yes) => {
                if word == Word::Short {
                    self.took_short(envelope.origin);
                }
            }
            // It is asked for again, or for another reason heard of.
            None | Some(Taken::Early) if word == Word::Request && label.notice.is_none() => {
                if !self.collectives.is_past(&label) {
                    self.collectives.early.note_asked(envelope.origin);
                }
            }
            None | Some(Taken::Early)
                if matches!(word, Word::Short | Word::Clear | Word::Request)
                    && !self.collectives.is_past(&label) =>
            {
                let kept = self.collectives.keep(envelope.origin, word, label, envelope.total, data);
                // Others are asked for again.
                self.transport.counters.strays += u64::from(!kept && word == Word::Short);
                // Somebody may have to be called back.
                self.busy |= self.collectives.calls;
            }
            _ => {
                self.transport.counters.strays += u64::from(!may_come_late(word));
                if word == Word::Short {
                    self.took_short(envelope.origin);
                }
            }
        }
    }

    /// A short message is no longer in the way of others.
    fn took_short(&mut self, origin: Endpoint) {
        self.collectives.early.took(origin);
        if self.collectives.early.owes() {
            self.stir();
        }
    }

    /// Another member says that a collective ended badly.
    #[cold]
    fn abort_arrived(&mut self, origin: Endpoint, label: Label) {
        let Some(error) = label.reason() else {
            self.transport.stray();
            return;
        };
        let engine = &mut self.collectives;
        let geometry = engine.geometries.iter_mut().position(|entry| {
            let known = entry.as_mut().filter(|entry| entry.id.0 == label.key.geometry);
            known.is_some_and(|entry| {
                if let OperationError::NodeDead(node) = error
                    && entry.members.rank(origin).is_some()
                {
                    entry.dead = entry.dead.or(Some(node));
                }
                true
            })
        });
        let mut found = false;
        for slot in engine.slots.iter_mut() {
            let dies = matches!(error, OperationError::NodeDead(_)) && geometry == Some(slot.geometry.into());
            let named = slot.key.is_of(label.key);
            if dies || named {
                // Who does not agree on the members does not tell all of them.
                if slot.creates {
                    slot.fail(error)
                } else {
                    slot.end(error)
                }
                found |= named;
            }
        }
        let (sequence, called) = (label.key.sequence, label.key.part & CALLED != 0);
        if found || engine.is_past(&label) {
            if let (OperationError::Abandoned { .. }, Some(geometry), false) = (error, geometry, called) {
                engine.forsake_route(geometry, sequence, error);
            }
            return;
        }
        match geometry.and_then(|index| engine.geometries[index].as_mut()) {
            Some(entry) if entry.members.rank(origin).is_some() => entry.doomed.add(sequence, called, error),
            Some(_) => self.transport.counters.strays += 1,
            None => engine.unmade.add(label.key.geometry, sequence, called, error),
        }
    }

    /// Ends the collectives of geometries that have members on nodes that died.
    #[cold]
    pub(crate) fn end_collectives_of_dead(&mut self) {
        for index in 0..self.collectives.geometries.len() {
            self.mark_dead(index);
        }
        let Engine { slots, geometries, early, .. } = &mut self.collectives;
        for slot in slots.iter_mut() {
            let entry = geometries[usize::from(slot.geometry)].as_ref();
            if let Some(node) = entry.and_then(|entry| entry.dead) {
                slot.fail(OperationError::NodeDead(node));
            }
        }
        let gone =
            |id: u32| geometries.iter().flatten().any(|entry| entry.id.0 == id && entry.dead.is_some());
        early.forget(|key| gone(key.geometry));
    }

    /// Notes a node of a geometry's members that is dead.
    pub(super) fn mark_dead(&mut self, index: usize) {
        if self.transport.port.deaths() == 0 {
            return;
        }
        let port = &self.transport.port;
        let Some(entry) = self.collectives.geometries[index].as_mut().filter(|entry| entry.dead.is_none())
        else {
            return;
        };
        let node = |rank| port.node_of(entry.members.endpoint(rank)?.task());
        entry.dead = (0..entry.members.size()).filter_map(node).find(|&node| port.is_dead(node));
    }
}

impl<P: Port> Engine<P> {
    /// Whether the collective is one that was started here, or of a geometry that was destroyed here.
    fn is_past(&self, label: &Label) -> bool {
        let key = label.key;
        if self.was_destroyed(GeometryId(key.geometry)) {
            return true;
        }
        let started = |slot: &super::Slot<P>| slot.key.is_of(key);
        let entry = self.geometries.iter().flatten().find(|entry| entry.id.0 == key.geometry);
        key.part & CALLED == 0
            && entry.is_some_and(|entry| before(key.sequence, entry.next))
            && !self.slots.iter().any(started)
    }

    /// Keeps a message for later. Returns whether there is a place.
    fn keep(&mut self, origin: Endpoint, word: Word, label: Label, total: u32, data: &[u8]) -> bool {
        let kept = self.early.keep(origin, word, label, total, data);
        self.calls |= kept && label.notice.is_some();
        kept
    }
}
