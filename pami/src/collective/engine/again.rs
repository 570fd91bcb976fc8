//! A call that was called before, while nothing is in flight: what it comes to is known, and where its steps are.

use super::Engine;
use super::check;
use super::request::Collect;
use super::start::{is_gated, see_areas};
use super::wire::Wire;
use crate::device::Port;
use crate::transport::Transport;

/// What became of it.
pub(super) enum Again {
    /// It is to start as any other.
    No,
    /// It has started in this slot, and is to go on.
    Started(u32),
    /// It has, and what it sends before it has to wait is out.
    Opened,
}

impl<A> Engine<A> {
    /// Starts a call in the slot that has its steps, if there is one. Nothing is to be worked out then, there is room, and
    /// nothing is in front of it.
    pub(super) fn start_again<P: Port>(
        &mut self,
        collect: &mut Collect<A>,
        port: &mut P,
        transport: &mut Transport<P>,
    ) -> Again {
        // Where none is in flight none waits.
        if !self.is_idle() {
            return Again::No;
        }
        let Self { slots, geometries, in_flight, early, .. } = self;
        let mut entries = geometries.iter_mut().flatten();
        let Some(entry) = entries.find(|entry| entry.name == Some(collect.geometry)) else {
            return Again::No;
        };
        let known = check::find_known(entry, collect).ok().flatten().and_then(|place| entry.known.get(place));
        let Some(answer) = known else { return Again::No };
        let Some(number) = answer.slot else { return Again::No };
        if is_gated(entry, &answer.gist)
            || !entry.doomed.is_empty()
            || see_areas(collect, &answer.gist).is_err()
        {
            return Again::No;
        }
        let Some((number, slot)) = slots.take_again(number, answer.name) else { return Again::No };
        #[cfg(feature = "trace")]
        port.note(super::start::called_as(collect, entry.id, entry.next, false));
        slot.open_again(entry.next, collect);
        entry.next = entry.next.wrapping_add(1);
        let wire = &mut Wire::new(port, transport);
        let opened = if slot.begin_on_bulletins(early) {
            slot.follow_bulletins(entry, wire, false);
            self.on_bulletins = slot.on_bulletins();
            true
        } else {
            slot.send_first(entry, early, wire)
        };
        in_flight.push(slots, number);
        if opened { Again::Opened } else { Again::Started(number) }
    }
}
