//! Starting a collective.

use super::Engine;
use super::check;
use super::geometry::GeometryState;
use super::known::Gist;
use super::limits::WINDOW;
use super::part::SchedulePart;
use super::parts::Parts;
use super::request::{Collect, CollectError};
use super::route::Channel;
use super::slot::{CollectiveInFlight, NewSlot};
use super::wire::{CALLED, GATE, Key, Notice};
use crate::collective::need::ALIGNMENT;
use crate::collective::{Algorithm, Area, Call, Form, Query, network};
use crate::device::{CollectiveNetwork, Port};
use crate::error::OperationError;
#[cfg(feature = "trace")]
use crate::geometry::GeometryId;
use core::slice;
use rings::shared::Shared;

/// How a collective comes to its start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// It waits if there is no room, or others of its geometry wait.
    Called,
    /// Those that wait of its geometry are behind it.
    InTurn,
    /// It creates its geometry; members agree in this digest instead of the call's.
    Creation(u32),
    /// It is the last one of an epoch, and begins at once or not at all; the same of that.
    EpochEnd(u32),
}

/// Whether the areas are as long as a call names them.
///
/// # Errors
/// [`CollectError::TooSmall`], [`CollectError::TooLong`], [`CollectError::Unaligned`].
#[inline(always)]
pub(super) fn see_areas<A>(collect: &Collect<A>, gist: &Gist) -> Result<(), CollectError> {
    let areas = [&collect.input, &collect.output, &collect.scratch];
    let mut longest = 0;
    for (area, place) in [Area::Input, Area::Output, Area::Scratch].into_iter().zip(areas) {
        let bytes = gist.extents[area as usize];
        let (len, base) = place.as_ref().map_or((0, 0), |(memory, base)| (memory.len(), *base));
        if len.saturating_sub(base) < bytes {
            return Err(CollectError::TooSmall { area, bytes });
        }
        longest |= len;
    }
    // Message units count so far.
    if longest > u32::MAX as usize {
        return Err(CollectError::TooLong);
    }
    if collect.aligned { see_alignment(areas) } else { Ok(()) }
}

/// # Errors
/// [`CollectError::Unaligned`].
#[cold]
fn see_alignment(areas: [&Option<(Shared, usize)>; 3]) -> Result<(), CollectError> {
    for (area, place) in [Area::Input, Area::Output, Area::Scratch].into_iter().zip(areas) {
        let aligned =
            |(memory, base): &(Shared, usize)| memory.is_aligned() && base.is_multiple_of(ALIGNMENT);
        if !place.as_ref().is_none_or(aligned) {
            return Err(CollectError::Unaligned(area));
        }
    }
    Ok(())
}

/// A barrier of all ranks.
fn barrier(entry: &GeometryState) -> Call<'static> {
    let algorithm = entry.bulletins.as_ref().map_or(entry.barrier(), |_| Algorithm::SharedMemory);
    let barrier = Call::barrier(algorithm, entry.members.size(), entry.rank);
    Call { domains: entry.domains, ..barrier }
}

/// The parts of a collective that has a barrier in front, if it is `gated`, or of which this endpoint has no share: it is
/// done when the barrier is, or at once.
#[cold]
#[inline(never)]
fn put_in_front(parts: &mut Parts, gated: bool, entry: &GeometryState) {
    let barrier = barrier(entry);
    let alone = Call { algorithm: Algorithm::Dissemination, size: 1, rank: 0, domains: None, ..barrier };
    parts.push(SchedulePart::whole(GATE, 0, if gated { barrier } else { alone }));
}

/// Whether the next collective of a geometry has a barrier in front, if the members count it.
#[inline(always)]
pub(super) fn is_gated(entry: &GeometryState, gist: &Gist) -> bool {
    entry.next % WINDOW == WINDOW - 1 && !gist.synchronises
}

/// Whether the tree network, if there is one, takes vectors from any address.
fn takes_any_address<P: Port>(port: &P) -> bool {
    port.network().is_none_or(|network| network.alignment() <= 1)
}

/// What is noted of a call that has this number in its geometry.
#[cfg(feature = "trace")]
pub(super) fn called_as<A>(
    collect: &Collect<A>,
    epoch: GeometryId,
    number: u32,
    called: bool,
) -> crate::trace::Event {
    let (what, geometry) = (collect.what as u8, epoch.0);
    crate::trace::Event::Collective(crate::trace::CollectiveCall { what, geometry, number, called })
}

impl<A> Engine<A> {
    /// The geometry of a collective, with its place in the table.
    pub(super) fn named(&self, collect: &Collect<A>) -> Result<(usize, &GeometryState), CollectError> {
        self.entry(collect.geometry).ok_or(CollectError::UnknownGeometry(collect.geometry))
    }

    /// What is known of a collective, to list its algorithms and to choose one.
    ///
    /// # Errors
    /// [`CollectError::UnknownGeometry`]
    pub(crate) fn query<P: Port>(&self, collect: &Collect<A>, port: &P) -> Result<Query, CollectError> {
        let (_, entry) = self.named(collect)?;
        Ok(check::query(entry, collect, takes_any_address(port)))
    }

    /// Bytes of scratch memory that a collective needs at this member.
    ///
    /// # Errors
    /// [`CollectError`]
    pub(crate) fn scratch_len<P: Port>(&self, collect: &Collect<A>, port: &P) -> Result<usize, CollectError> {
        let (_, entry) = self.named(collect)?;
        let known = check::find_known(entry, collect)?.and_then(|place| entry.known.get(place));
        let extents = match known {
            Some(answer) => answer.gist.extents,
            None => check::check(entry, collect, takes_any_address(port), &mut Parts::new())?.gist.extents,
        };
        Ok(extents[Area::Scratch as usize])
    }

    /// Starts a collective. Returns a slot of it; `None` if it has to wait for room or its turn.
    ///
    /// # Errors
    /// [`CollectError`]; nothing was started, nothing waits.
    pub(super) fn start<P: Port>(
        &mut self,
        collect: &mut Collect<A>,
        how: Start,
        port: &P,
    ) -> Result<Option<u32>, CollectError> {
        let (index, entry) = self.named(collect)?;
        let mut parts = Parts::new();
        // Where its only part is, unless it has `parts`.
        let mut known = check::find_known(entry, collect)?;
        let mut checked = None;
        let (gist, most) = match known.and_then(|place| entry.known.get(place)) {
            Some(answer) => (&answer.gist, 1),
            None => {
                let checked =
                    checked.insert(check::check(entry, collect, takes_any_address(port), &mut parts)?);
                (&checked.gist, checked.most)
            }
        };
        see_areas(collect, gist)?;
        // With a barrier in front, whether this one has one or not.
        let limit = self.most_places();
        if 1 + most > limit {
            return Err(CollectError::InFlight { parts: 1 + most, limit });
        }
        let called = collect.form != Form::All;
        let notice = called.then(|| Notice::new(collect, (gist.algorithm, gist.tuning)));
        let agreed = match how {
            Start::Creation(digest) | Start::EpochEnd(digest) => Some(digest),
            Start::Called | Start::InTurn => None,
        };
        let (element_len, gated) = (gist.element_len, !called && is_gated(entry, gist));
        let digest = agreed.unwrap_or(gist.digest);
        let behind = how == Start::Called && !self.queue.is_empty() && self.queue.has(index);
        let room = if behind { 0 } else { self.room_for(index) };
        let Some(entry) = &mut self.geometries[index] else {
            return Err(CollectError::UnknownGeometry(collect.geometry));
        };
        if let Some(checked) = checked
            && let Some((question, answer)) =
                check::news(entry, collect, checked.gist, &parts, self.noted + 1)
        {
            self.noted += 1;
            entry.known.note(question, answer);
        }
        if gated || known.is_none() && parts.is_empty() {
            if let Some(answer) = known.take().and_then(|place| entry.known.get(place)) {
                parts.push(answer.part);
            }
            put_in_front(&mut parts, gated, entry);
        }
        let count = if known.is_some() { 1 } else { parts.len() };
        if room < count {
            return if how == Start::Called { self.wait(index, collect) } else { Ok(None) };
        }
        let sequence = if called { collect.number } else { entry.next };
        if !called {
            entry.next = sequence.wrapping_add(1);
        }
        if self.is_idle() {
            self.looked_ns = port.now_ns();
        }
        // A call of one part hands its areas on, which are its own.
        let alone = count == 1 && !collect.divided;
        let (mut last, mut on_route) = (0, false);
        let Self { slots, geometries, in_flight, .. } = self;
        let Some(GeometryState { id, way, known: calls, doomed, .. }) = &mut geometries[index] else {
            return Err(CollectError::UnknownGeometry(collect.geometry));
        };
        let doomed = !doomed.is_empty();
        let (mut some, mut slices, name) = match known.and_then(|place| calls.get(place)) {
            Some(answer) => (slice::from_ref(&answer.part), None, answer.name),
            None => (parts.few(), parts.slices(), 0),
        };
        let mut one;
        loop {
            for part in some {
                let ticket = way.channel().filter(|_| network::speaks(&part.call)).map(Channel::ticket);
                on_route |= ticket.is_some();
                let number = if called { CALLED | part.number } else { part.number };
                let key = Key { geometry: id.0, sequence, part: number };
                // There is room for all of them.
                let Some((number, slot)) =
                    slots.take(name, || CollectiveInFlight::resting(key, collect.done, part))
                else {
                    break;
                };
                let new = NewSlot {
                    geometry: index,
                    key,
                    digest,
                    notice: notice.as_ref(),
                    creates: matches!(how, Start::Creation(_)),
                    ticket,
                    element_len,
                    alone,
                };
                slot.open(new, part, name, collect);
                last = number;
                in_flight.push(slots, number);
            }
            let Some(slice) = slices.as_mut().and_then(Iterator::next) else { break };
            one = slice;
            some = slice::from_ref(&one);
        }
        // Whose number is the caller's, or whose turn on a class route is told, is opened in full each time.
        if let Some(place) = known.filter(|_| !called && !on_route) {
            calls.note_slot(place, last);
        }
        #[cfg(feature = "trace")]
        port.note(called_as(collect, *id, sequence, called));
        if doomed {
            self.end_doomed(index, sequence, called);
        }
        Ok(Some(last))
    }

    /// Ends a collective if it was given up before it began here.
    #[cold]
    fn end_doomed(&mut self, index: usize, sequence: u32, called: bool) {
        let Self { slots, geometries, .. } = self;
        let Some(entry) = &mut geometries[index] else { return };
        let Some((error, told)) = entry.doomed.take(sequence, called) else { return };
        let of_it = |slot: &&mut CollectiveInFlight<A>| slot.is_numbered(index, sequence, called);
        // One of its parts tells for all.
        let mut told = told;
        for slot in slots.values_mut().filter(of_it) {
            // Who does not agree on the members did not tell all of them.
            if !slot.agrees_with(&entry.doomed) {
                slot.tell_all(error)
            } else if told {
                slot.end(error)
            } else {
                slot.fail(error)
            }
            told = true;
        }
        if matches!(error, OperationError::Abandoned { .. }) && !called {
            self.forsake_route(index, sequence, error);
        }
    }
}
