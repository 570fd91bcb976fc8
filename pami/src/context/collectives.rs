//! Collectives of a context: what its [engine](crate::collective::engine) does for those who hold it.

use super::{Active, Collect, CollectMemory, Done, Due, NewGeometry, OnAnnounced, QUIET_LOOKS};
use crate::collective::engine::{CollectError, Geometry, GeometryError, GeometryId};
use crate::collective::{AlgorithmList, Query};
use crate::device::Port;
use crate::geometry::Population;
use crate::packet::Envelope;

impl<P: Port> Active<P> {
    /// What endpoints this context's client has, to make [`Members`](crate::geometry::Members) of.
    pub fn population(&self) -> Population {
        self.collectives.population()
    }

    /// Creates a geometry, of which this context's endpoint must be a member; all members do, in any order among other
    /// geometries. On nodes with a tree network its collectives may be started once it is created, elsewhere at once. The
    /// callback is not called before the next advance; it hears
    /// [`OperationError::Mismatch`](crate::OperationError::Mismatch) if another member named others.
    ///
    /// # Errors
    /// See [`GeometryError`].
    pub fn create_geometry(&mut self, new: NewGeometry<P>) -> Result<(), GeometryError> {
        self.collectives.create(self.transport.me(), new.id, new, &self.port)?;
        self.note_work();
        Ok(())
    }

    /// Has a geometry go on with other members, in a new epoch of the number `epoch.id`: all of the old and of the new ones call
    /// this, the old ones between the same two of its collectives. The number of the geometry stays, and names what the
    /// new members have; `epoch.id` is as unused as that of a new geometry. What is in flight ends among those who began it. Who
    /// joins has no geometry of that number before, who leaves has none afterwards. The callback is not called before the next
    /// advance: at a new member when all of them have come, at one that leaves when all old ones have. It hears
    /// [`OperationError::Mismatch`](crate::OperationError::Mismatch) if another member named others, or had called something else;
    /// the geometry is to be destroyed then.
    ///
    /// # Errors
    /// See [`GeometryError`]; nothing has changed here. [`GeometryError::Busy`] while collectives of it wait for room or fences of it
    /// have not ended; [`GeometryError::Dead`] if a member's node is dead: make a new geometry.
    pub fn change_geometry(&mut self, id: GeometryId, epoch: NewGeometry<P>) -> Result<(), GeometryError> {
        self.collectives.change(self.transport.me(), id, epoch, &self.port)?;
        self.note_work();
        Ok(())
    }

    /// Forgets a geometry here. Every member does so for itself, after its last collective of the geometry. What comes of it
    /// later is dropped.
    ///
    /// # Errors
    /// [`GeometryError::Unknown`], [`GeometryError::Busy`], [`GeometryError::World`]; [`GeometryError::Again`] while too many
    /// are being given up.
    pub fn destroy_geometry(&mut self, id: GeometryId) -> Result<(), GeometryError> {
        self.collectives.destroy(id)?;
        self.note_work();
        Ok(())
    }

    /// A geometry of this context.
    pub fn geometry(&self, id: GeometryId) -> Option<Geometry<'_>> {
        self.collectives.geometry(id)
    }

    /// Has the geometry's collectives that are called from now on be chosen from this list: who adds to the
    /// [present one](Geometry::algorithms), or removes from it, hands the outcome back here. Every member does so with the same
    /// list between the same two of the geometry's collectives. Where members' lists make them choose differently the collective
    /// ends with [`OperationError::Mismatch`](crate::OperationError::Mismatch) at all of them; where the list has nothing for it,
    /// it is refused at all with [`CollectError::Selection`].
    ///
    /// # Errors
    /// [`GeometryError::Unknown`]; [`GeometryError::Busy`] while collectives of the geometry wait for room.
    pub fn set_algorithms(&mut self, id: GeometryId, algorithms: AlgorithmList) -> Result<(), GeometryError> {
        self.collectives.set_algorithms(id, algorithms)
    }

    /// What is known of a collective, to list its algorithms and to choose one (SPEC G-2).
    ///
    /// # Errors
    /// [`CollectError`]
    pub fn query(&self, collect: &Collect<P>) -> Result<Query, CollectError> {
        self.collectives.query(collect, &self.port)
    }

    /// Bytes of scratch memory that a collective needs at this member.
    ///
    /// # Errors
    /// [`CollectError`]
    pub fn scratch_len(&self, collect: &Collect<P>) -> Result<usize, CollectError> {
        self.collectives.scratch_len(collect, &self.port)
    }

    /// Starts a collective, and sends what need not wait for others before it returns. Several may be in flight; those of a geometry are matched by the order in which each member
    /// calls them. One that finds no room waits for it, and those of its geometry behind it; an advance starts it. If a
    /// member [abandons](Self::abandon) one before it and it cannot do without the class route that goes with that, it ends
    /// at all members as that one does. The callback is not called before the next advance. It hears
    /// [`OperationError::NodeDead`](crate::OperationError::NodeDead) if a member's node dies,
    /// [`OperationError::Mismatch`](crate::OperationError::Mismatch) if another member's call was another one or had other
    /// lengths, [`OperationError::Abandoned`](crate::OperationError::Abandoned) if a member gave up.
    ///
    /// # Errors
    /// [`CollectError`]; nothing was started, nothing waits, and the other members wait until this one starts or
    /// [abandons](Self::abandon) it.
    // What the caller has made is looked at where it lies.
    #[inline(always)]
    pub fn collect(&mut self, mut collect: Collect<P>) -> Result<(), CollectError> {
        self.collectives.collect(&mut collect, &mut self.port, &mut self.transport)?;
        self.note_collective();
        Ok(())
    }

    /// The same, with its object in the caller's memory.
    pub(crate) fn collect_in(
        &mut self,
        memory: &'static CollectMemory<P>,
        mut collect: Collect<P>,
    ) -> Result<(), CollectError> {
        self.collectives.collect_in(memory, &mut collect, &mut self.port, &mut self.transport)?;
        self.note_collective();
        Ok(())
    }

    /// A collective has started, or waits.
    #[inline(always)]
    fn note_collective(&mut self) {
        if !self.due.is_some() && self.collectives.is_on_bulletins_alone() {
            self.due = Due::looks(QUIET_LOOKS);
        } else {
            self.note_work();
        }
    }

    /// Ends the geometry's next collective here without having begun it, and at all members with
    /// [`OperationError::Abandoned`](crate::OperationError::Abandoned), this endpoint's rank and the caller's `reason`. The
    /// callback hears that too.
    ///
    /// # Errors
    /// [`CollectError::UnknownGeometry`], [`CollectError::NotCreated`], [`CollectError::Dead`], [`CollectError::Full`]
    pub fn abandon(&mut self, geometry: GeometryId, reason: u16, done: Done<P>) -> Result<(), CollectError> {
        self.collectives.abandon(geometry, reason, done, &self.port)?;
        self.note_work();
        Ok(())
    }

    /// What is called when a collective begins that this endpoint was not instructed to start.
    pub fn on_announced(&mut self, on: Option<OnAnnounced<P>>) {
        self.collectives.on_announced(on);
        self.note_work();
    }

    /// A packet of a collective.
    #[inline(never)]
    pub(crate) fn collective_arrived(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        self.collectives.arrive(&self.port, &mut self.transport, envelope, header, data);
        if !self.collectives.rests() {
            self.note_work();
        }
    }

    /// Calls those back that have to begin something. Returns how many.
    fn call_back(&mut self) -> usize {
        let (mut called, mut last) = (0, None);
        // One that was not begun found no room: the next advance asks again.
        while let Some((on, announcement)) = self.collectives.announced()
            && last != Some(announcement)
        {
            called += 1;
            last = Some(announcement);
            (on.call)(self, announcement, on.cookie);
        }
        called
    }

    /// Goes on with the collective that waits for what was shown just now, and calls back if it is over. Returns how many are.
    #[inline(never)]
    pub(super) fn advance_on_bulletins(&mut self) -> usize {
        let Some((done, completion)) =
            self.collectives.advance_on_bulletins(&mut self.port, &mut self.transport)
        else {
            return 0;
        };
        (done.call)(self, completion);
        1
    }

    /// Goes on with every collective in flight, and calls back for those that are over. Returns how many moved.
    #[inline(never)]
    pub(super) fn run_collectives(&mut self) -> usize {
        let called = if self.collectives.calls() { self.call_back() } else { 0 };
        let mut sweep = self.collectives.sweep();
        while let Some((done, completion)) =
            self.collectives.advance(&mut self.port, &mut self.transport, &mut sweep)
        {
            (done.call)(self, completion);
        }
        called + sweep.moved()
    }
}
