//! Collectives that found no room when they were called: they start in the order of calls, as room comes (SPEC ).
//!
//! Those of a geometry start in order, so what is called behind one that waits does too, room or not. Only the first of
//! each geometry may start. It waits for what its own geometry has in flight and for no other's, as long as no more
//! geometries have collectives than [`Limits::always`](super::Limits::always) and one: in [`Engine::room_for`] each keeps
//! those of its places that it has not taken, whether one of it waits or not. So members whose collectives find room in
//! different orders do not wait for each other in a circle.
//!
//! A call that waits was found good, and has no number yet. Its callback is called once:
//!
//! | what happens | what becomes of it |
//! |---|---|
//! | a collective before it fails, or is given up | nothing: it starts in its turn |
//! | it fails, or is given up, at another member | it ends in its turn, as that says |
//! | a member's node dies | it ends with [`NodeDead`](OperationError::NodeDead) |
//! | the only way it can go is the class route, and that goes | it is given up in its turn, as the one before it was |
//! | its geometry is to be destroyed | that is refused, with [`GeometryError::Busy`](super::GeometryError::Busy) |
//! | its context is to be destroyed | that is refused, with [`SendsUnderWay`](crate::ClientError::SendsUnderWay) |
//!
//! What is called with memory of its caller's ([`CollectMemory`]) is not refused for want of a place to wait in: it waits
//! there, behind all that have one, and takes the next that becomes free. Until it has, nothing else takes one, so calls
//! stay in order.
//!
//! A class route goes when a member gives a collective up (`network`). What was begun on it behind that one ends as it does,
//! at all members, with the rank and the reason of who gave up; so does what waits, which thus ends alike at all, too.

use super::Engine;
use super::advance::EndedCollective;
use super::again::Again;
use super::request::{Collect, CollectError};
use super::slot::CollectiveInFlight;
use super::start::Start;
use crate::collective::{Algorithm, Collective, Form, Tuning};
use crate::device::Port;
use crate::dispatch::{Completion, Done};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::geometry::GeometryId;
use crate::object::{WaitingLine, caller_memory};
use crate::transport::Transport;
use rings::list::List;
use rings::slot_table::{self, SlotTable};

/// A call that waits.
pub(crate) struct QueuedCall<A: 'static> {
    /// Place of its geometry in the table.
    geometry: usize,
    collect: Collect<A>,
    /// It is given up in its turn, and ends with this at all members.
    abandoned: Option<OperationError>,
    /// Another one of its geometry is in front.
    behind: bool,
    /// It cannot start any more, and ends with this.
    failed: Option<OperationError>,
}

caller_memory! {
    /// Memory for the object of one collective, the caller's: an instruction that is passed it never fails with
    /// [`CollectError::Full`], of a client whose [`Limits::queued`](super::Limits::queued) is 1 at least. What is in it is nobody
    /// else's matter. 376 bytes, of alignment 8, on machines of 64 bits.
    ///
    /// The object lies in it until it has one of the context's places for those that wait, or for those in flight: the
    /// packets of members find it by that. It is free again then, before the callback at the latest.
    CollectMemory, QueuedCall<A>
}

/// Room for one.
pub(crate) type QueueSlot<A> = slot_table::Slot<QueuedCall<A>>;

/// The calls that wait.
pub(super) struct Queue<A: 'static> {
    calls: SlotTable<QueuedCall<A>>,
    /// In the order of calls.
    order: List,
    /// Those in memory of their callers', behind these. If there are any, no place is free.
    line: WaitingLine<QueuedCall<A>>,
    /// Something has changed since the first ones were last tried.
    retry_due: bool,
}

impl<A> Queue<A> {
    pub(super) fn new(slots: &'static mut [QueueSlot<A>]) -> Self {
        Self { calls: SlotTable::new(slots), order: List::EMPTY, line: WaitingLine::EMPTY, retry_due: false }
    }

    pub(super) fn into_slots(self) -> &'static mut [QueueSlot<A>] {
        self.calls.into_slots()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether the first ones are to be tried.
    #[inline]
    pub(super) fn must_retry(&self) -> bool {
        self.retry_due
    }

    /// There may be room, or one cannot start any more.
    #[inline]
    pub(super) fn note_change(&mut self) {
        self.retry_due = !self.is_empty();
    }

    /// Whether calls of the geometry at this place of the table wait.
    pub(super) fn has(&self, geometry: usize) -> bool {
        let is_of = |call: &QueuedCall<A>| call.geometry == geometry;
        self.calls.values().any(is_of) || self.line.any(is_of)
    }

    /// Whether the call waits of a collective that was announced.
    pub(super) fn has_announced(&self, geometry: GeometryId, number: u32) -> bool {
        let is_it = |QueuedCall { collect, .. }: &QueuedCall<A>| {
            collect.form != Form::All && (collect.geometry, collect.number) == (geometry, number)
        };
        self.calls.values().any(is_it) || self.line.any(is_it)
    }

    fn push(&mut self, call: QueuedCall<A>) -> Result<(), CollectError> {
        let pushed = self.calls.insert(call);
        let key = pushed.map_err(|_| CollectError::Full { limit: self.calls.capacity() })?;
        self.order.push(&mut self.calls, key.index);
        Ok(())
    }

    /// The last one is given up in its turn.
    fn abandon_last(&mut self, error: OperationError) {
        if let Some(call) = self.order.last().and_then(|last| self.calls.get_mut(last)) {
            call.abandoned = Some(error);
        }
    }

    /// Of those that are the first of their geometries, and may start, the one behind so many others.
    fn first(&self, others: usize) -> Option<(u32, &QueuedCall<A>)> {
        let calls = self.order.iter(&self.calls).filter_map(|number| Some((number, self.calls.get(number)?)));
        calls.filter(|(_, call)| !call.behind && call.failed.is_none()).nth(others)
    }

    /// Takes the first one of its geometry out.
    fn remove(&mut self, number: u32) {
        self.order.remove(&mut self.calls, number);
        let Some(QueuedCall { geometry, .. }) = self.calls.remove(number) else { return };
        let next = self.order.iter(&self.calls).find(|&number| {
            let call = self.calls.get(number);
            call.is_some_and(|call| call.geometry == geometry)
        });
        if let Some(call) = next.and_then(|number| self.calls.get_mut(number)) {
            call.behind = false;
        }
        self.admit();
    }

    /// Has the first one of those in memory of their callers' take the place that has become free.
    fn admit(&mut self) {
        let Some(mut call) = self.line.pop().and_then(|memory| memory.resume().take()) else { return };
        call.behind = self.calls.values().any(|other| other.geometry == call.geometry);
        // There is a place.
        if let Ok(key) = self.calls.insert(call) {
            self.order.push(&mut self.calls, key.index);
        }
    }

    /// Takes one out that cannot start any more: what is to be called.
    fn take_failed(&mut self, me: Endpoint) -> Option<EndedCollective<A>> {
        let failed = |(number, call): (u32, &QueuedCall<A>)| Some((number, call.collect.done, call.failed?));
        let found = self.calls.iter().find_map(failed);
        let (number, done, error) = found?;
        self.remove(number);
        Some((done, Completion { target: me, buffer: None, result: Err(error), cookie: done.cookie }))
    }
}

/// What stands for a collective that is given up. It is not carried out.
fn abandonment<A>(geometry: GeometryId, done: Done<A>) -> Collect<A> {
    let tuning = Tuning { radix: 2, chunk: 1 };
    Collect {
        algorithm: Some((Algorithm::Dissemination, tuning)),
        ..Collect::new(geometry, Collective::Barrier, done)
    }
}

impl<A> Engine<A> {
    /// Starts a collective and sends what can go at once, or has it wait for room.
    ///
    /// # Errors
    /// [`CollectError`]; nothing was started, nothing waits.
    pub(crate) fn collect<P: Port>(
        &mut self,
        collect: &mut Collect<A>,
        port: &mut P,
        transport: &mut Transport<P>,
    ) -> Result<(), CollectError> {
        let started = match self.start_again(collect, port, transport) {
            Again::No => self.start(collect, Start::Called, port)?,
            Again::Started(number) => Some(number),
            Again::Opened => None,
        };
        // What is told of one that failed goes before what is said of those behind it.
        if let Some(number) = started
            && (self.slots.len() == 1 || !self.slots.values().any(CollectiveInFlight::tells))
        {
            self.run_slot(number, false, port, transport);
        }
        Ok(())
    }

    /// The same, with the caller's memory to wait in if the context has no place for that.
    ///
    /// # Errors
    /// As [`collect`](Self::collect), and [`CollectError::MemoryInUse`].
    pub(crate) fn collect_in<P: Port>(
        &mut self,
        memory: &'static CollectMemory<A>,
        collect: &mut Collect<A>,
        port: &mut P,
        transport: &mut Transport<P>,
    ) -> Result<(), CollectError> {
        let mut loan = memory.0.take().ok_or(CollectError::MemoryInUse)?;
        match self.collect(collect, port, transport) {
            Err(CollectError::Full { limit: 1.. }) => {
                let (geometry, _) = self.named(collect)?;
                let collect = collect.clone();
                *loan = Some(QueuedCall { geometry, collect, abandoned: None, behind: true, failed: None });
                drop(loan);
                self.queue.line.push(&memory.0);
                Ok(())
            }
            started => started,
        }
    }

    /// Ends the geometry's next collective here without having begun it, and at all members.
    ///
    /// # Errors
    /// [`CollectError::UnknownGeometry`], [`CollectError::NotCreated`], [`CollectError::Dead`], [`CollectError::Full`].
    pub(crate) fn abandon<P: Port>(
        &mut self,
        geometry: GeometryId,
        reason: u16,
        done: Done<A>,
        port: &P,
    ) -> Result<(), CollectError> {
        let (_, entry) = self.entry(geometry).ok_or(CollectError::UnknownGeometry(geometry))?;
        let error = OperationError::Abandoned { rank: entry.rank, reason };
        match self.start(&mut abandonment(geometry, done), Start::Called, port)? {
            Some(number) => self.abandon_started(number, error),
            None => self.queue.abandon_last(error),
        }
        Ok(())
    }

    fn abandon_started(&mut self, number: u32, error: OperationError) {
        if let Some(slot) = self.slots.get_mut(number) {
            slot.fail(error);
            let (place, sequence) = (slot.geometry(), slot.sequence());
            self.forsake_route(place, sequence, error);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn wait(
        &mut self,
        geometry: usize,
        collect: &Collect<A>,
    ) -> Result<Option<u32>, CollectError> {
        let (behind, collect) = (self.queue.has(geometry), collect.clone());
        self.queue
            .push(QueuedCall { geometry, collect, abandoned: None, behind, failed: None })
            .map(|()| None)
    }

    /// Starts those that wait and have room now. Returns how many.
    #[cold]
    #[inline(never)]
    pub(super) fn start_waiting<P: Port>(&mut self, port: &P) -> usize {
        let (mut started, mut stay) = (0, 0);
        while let Some((number, call)) = self.queue.first(stay) {
            let (mut collect, abandoned) = (call.collect.clone(), call.abandoned);
            match self.start(&mut collect, Start::InTurn, port) {
                Ok(None) => stay += 1,
                Ok(Some(slot)) => {
                    if let Some(error) = abandoned {
                        self.abandon_started(slot, error);
                    }
                    self.queue.remove(number);
                    started += 1;
                }
                Err(refused) => self.refused(number, refused),
            }
        }
        self.queue.retry_due = self.queue.calls.values().any(|call| call.failed.is_some());
        started
    }

    /// A call that was found good is not, in its turn: a node has died, or the class route is gone.
    fn refused(&mut self, number: u32, refused: CollectError) {
        let Some(call) = self.queue.calls.get_mut(number) else { return };
        let Some(entry) = &self.geometries[call.geometry] else { return };
        // Those before it that had begun on the route end so, and at all members.
        let lost = entry.way.lost().unwrap_or(OperationError::Abandoned { rank: entry.rank, reason: 0 });
        call.failed = match refused {
            CollectError::Dead(node) => Some(OperationError::NodeDead(node)),
            // It has no number that others would wait for.
            _ if call.collect.form != Form::All => Some(lost),
            _ => call.abandoned,
        };
        if call.failed.is_none() {
            call.collect = abandonment(call.collect.geometry, call.collect.done);
            call.abandoned = Some(lost);
        }
    }

    /// The same, and takes one out that cannot start any more: what is to be called.
    #[cold]
    #[inline(never)]
    pub(super) fn end_waiting<P: Port>(
        &mut self,
        me: Endpoint,
        port: &P,
        moved: &mut usize,
    ) -> Option<EndedCollective<A>> {
        *moved += self.start_waiting(port);
        let ended = self.queue.take_failed(me)?;
        self.queue.note_change();
        *moved += 1;
        Some(ended)
    }
}
