//! Instructions to execute a function: each is passed a factory, which creates the communication object (SPEC M-2).

use super::Factory;
use super::function::{
    CollectFunction, DeferringReceiveFunction, FenceFunction, GetFunction, ImmediateFunction,
    PathSendFunction, PutFunction, ReceiveFunction, RmwFunction, SendFunction,
};
use crate::collective::engine::CollectError;
use crate::collective::{Algorithm, Tuning};
use crate::context::terms::{Here, InMemory, Terms};
use crate::context::{
    AcceptMemory, Active, Collect, CollectMemory, Done, Get, ObjectMemory, OnReceived, Put, Rmw, Send,
};
use crate::device::Port;
use crate::endpoint::{Endpoint, TaskList};
use crate::error::SendError;
use crate::fence::FenceScope;
use crate::geometry::GeometryId;
use crate::layout::Layout;
use crate::payload::Payload;
use crate::registry::Settings;
use crate::unexpected::UnexpectedId;
use core::ops::Range;
use rings::buffer::Buffer;

/// What one send brings; the rest its factory knows. As in [`Send`].
pub struct Outgoing<'a, P: Port> {
    /// Who is to have it.
    pub target: Endpoint,
    /// Copied before the call returns; at most [`HEADER_LIMIT`](crate::packet::HEADER_LIMIT) bytes.
    pub header: &'a [u8],
    /// At most `u32::MAX` bytes.
    pub payload: Payload,
    /// Which bytes of the payload the message is made of.
    pub layout: Layout,
    /// Called when the payload is the caller's again. Without it a payload's buffer is not given back.
    pub local_done: Option<Done<P>>,
    /// Called when the target's handler has had the whole message.
    pub remote_done: Option<Done<P>>,
}

impl<'a, P: Port> Outgoing<'a, P> {
    /// All bytes of a payload, without header and callbacks; those are to be filled in.
    pub fn new(target: Endpoint, payload: Payload) -> Self {
        Self { target, header: &[], payload, layout: Layout::Contiguous, local_done: None, remote_done: None }
    }

    #[inline(always)]
    fn to(self, dispatch: u8) -> Send<'a, P> {
        let Self { target, header, payload, layout, local_done, remote_done } = self;
        Send { target, dispatch, header, payload, layout, local_done, remote_done }
    }
}

impl<F> Factory<F> {
    /// Whether it was registered by the context's client.
    #[inline(always)]
    pub(super) fn check<P: Port>(&self, active: &Active<P>) -> Result<(), SendError> {
        if self.settings().client == active.endpoint().client() {
            Ok(())
        } else {
            Err(SendError::ForeignFactory)
        }
    }
}

impl Factory<ImmediateFunction> {
    /// Sends a message that fits one packet, as [`Active::send_immediate`]. One that goes at once needs no object but its packet; one
    /// that has to be kept has it in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    #[inline(always)]
    pub fn execute<P: Port>(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), SendError> {
        let settings = self.settings();
        // The context has a route to endpoints of its own client only, so one comparison tells for both.
        if target.client() == settings.client && active.send_on_route(target, settings.dispatch, header, data)
        {
            return Ok(());
        }
        self.execute_otherwise(active, target, header, data)
    }

    #[cold]
    #[inline(never)]
    fn execute_otherwise<P: Port>(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.send_packet(target, self.settings().dispatch, header, data)
    }

    /// The same with the object in the caller's memory: what finds no room is kept there and goes in later advances.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), with [`SendError::MemoryInUse`] instead of [`SendError::Again`];
    /// [`SendError::TooLong`] if header and data have more than [`HEADER_LIMIT`](crate::packet::HEADER_LIMIT) bytes together,
    /// for which the object has room.
    pub fn execute_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        target: Endpoint,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.send_packet_in(InMemory(self.settings(), memory), target, header, data)
    }
}

impl Factory<SendFunction> {
    /// Sends a message of any length, as [`Active::send`]; its object lies in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    // Where it is no call, what is sent need not be moved to it: 75 instructions.
    #[inline(always)]
    pub fn execute<P: Port>(
        &self,
        active: &mut Active<P>,
        outgoing: Outgoing<'_, P>,
    ) -> Result<(), (SendError, Payload)> {
        if let Err(error) = self.check(active) {
            return Err((error, outgoing.payload));
        }
        let settings = self.settings();
        active.send_on(outgoing.to(settings.dispatch), Here(Some(settings)))
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        outgoing: Outgoing<'_, P>,
    ) -> Result<(), (SendError, Payload)> {
        if let Err(error) = self.check(active) {
            return Err((error, outgoing.payload));
        }
        let settings = self.settings();
        active.send_on(outgoing.to(settings.dispatch), InMemory(settings, memory))
    }
}

impl Factory<PathSendFunction> {
    /// Sends a message of any length over the factory's path; its object lies in the context's memory.
    ///
    /// # Errors
    /// As [`Active::send`], and [`SendError::ForeignFactory`].
    pub fn execute<P: Port>(
        &self,
        active: &mut Active<P>,
        outgoing: Outgoing<'_, P>,
    ) -> Result<(), (SendError, Payload)> {
        self.execute_on(active, outgoing, Here(Some(self.settings())))
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        outgoing: Outgoing<'_, P>,
    ) -> Result<(), (SendError, Payload)> {
        self.execute_on(active, outgoing, InMemory(self.settings(), memory))
    }

    fn execute_on<P: Port, T: Terms<P>>(
        &self,
        active: &mut Active<P>,
        outgoing: Outgoing<'_, P>,
        terms: T,
    ) -> Result<(), (SendError, Payload)> {
        if let Err(error) = self.check(active) {
            return Err((error, outgoing.payload));
        }
        let Settings { dispatch, local_paths, .. } = *self.settings();
        let mut send = outgoing.to(dispatch);
        active.send_apart(&mut send, local_paths, terms).map_err(|error| (error, send.payload))
    }
}

impl Factory<PutFunction> {
    /// Writes into a region, as [`Active::put`]; its object lies in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    #[inline(always)]
    pub fn execute<P: Port>(&self, active: &mut Active<P>, put: Put<P>) -> Result<(), (SendError, Payload)> {
        if self.settings().usual_for != put.target.client() {
            return self.execute_otherwise(active, put);
        }
        active.put(put)
    }

    /// Over a path of the factory's own.
    #[cold]
    #[inline(never)]
    fn execute_otherwise<P: Port>(
        &self,
        active: &mut Active<P>,
        mut put: Put<P>,
    ) -> Result<(), (SendError, Payload)> {
        if let Err(error) = self.check(active) {
            return Err((error, put.payload));
        }
        active.put_by(&mut put, Here(Some(self.settings()))).map_err(|error| (error, put.payload))
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        mut put: Put<P>,
    ) -> Result<(), (SendError, Payload)> {
        if let Err(error) = self.check(active) {
            return Err((error, put.payload));
        }
        active.put_by(&mut put, InMemory(self.settings(), memory)).map_err(|error| (error, put.payload))
    }
}

impl Factory<GetFunction> {
    /// Reads from a region, as [`Active::get`]; its object lies in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    pub fn execute<P: Port>(&self, active: &mut Active<P>, get: Get<P>) -> Result<(), SendError> {
        if self.settings().usual_for == active.endpoint().client() {
            return active.get_on(get, Here(None));
        }
        self.execute_otherwise(active, get)
    }

    /// Over a path of the factory's own.
    #[inline(never)]
    fn execute_otherwise<P: Port>(&self, active: &mut Active<P>, get: Get<P>) -> Result<(), SendError> {
        self.check(active)?;
        active.get_on(get, Here(Some(self.settings())))
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        get: Get<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.get_on(get, InMemory(self.settings(), memory))
    }
}

impl Factory<RmwFunction> {
    /// Updates a word of a region, as [`Active::rmw`]; its object lies in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    #[inline(always)]
    pub fn execute<P: Port>(&self, active: &mut Active<P>, rmw: Rmw<P>) -> Result<(), SendError> {
        if self.settings().usual_for != active.endpoint().client() {
            return self.execute_otherwise(active, rmw);
        }
        active.rmw(rmw)
    }

    /// Over a path of the factory's own.
    #[cold]
    #[inline(never)]
    fn execute_otherwise<P: Port>(&self, active: &mut Active<P>, rmw: Rmw<P>) -> Result<(), SendError> {
        self.check(active)?;
        active.rmw_on(&rmw, Here(Some(self.settings())))
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        rmw: Rmw<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.rmw_on(&rmw, InMemory(self.settings(), memory))
    }
}

impl Factory<FenceFunction> {
    /// Fences one endpoint, as [`Active::fence`]; its object lies in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    #[inline]
    pub fn execute<P: Port>(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.fence(target, done)
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        target: Endpoint,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.fence_on(target, done, InMemory(self.settings(), memory))
    }

    /// Fences the puts, gets and updates to one endpoint, as [`Active::fence_rma`]; its object lies in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    pub fn execute_rma<P: Port>(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.fence_rma(target, done)
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute_rma`](Self::execute_rma), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_rma_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        target: Endpoint,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.fence_rma_on(target, done, InMemory(self.settings(), memory))
    }

    /// Fences all contexts of some tasks, as [`Active::fence_tasks`]; its object lies in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    pub fn execute_tasks<P: Port>(
        &self,
        active: &mut Active<P>,
        tasks: impl Into<TaskList>,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.fence_tasks(tasks, done)
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute_tasks`](Self::execute_tasks), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_tasks_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        tasks: impl Into<TaskList>,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.fence_contexts_on((tasks.into(), None), done, InMemory(self.settings(), memory))
    }

    /// Fences some contexts of some tasks, as [`Active::fence_contexts`]; its object lies in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    pub fn execute_contexts<P: Port>(
        &self,
        active: &mut Active<P>,
        tasks: impl Into<TaskList>,
        contexts: Range<u8>,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.fence_contexts(tasks, contexts, done)
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute_contexts`](Self::execute_contexts), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_contexts_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        (tasks, contexts): (impl Into<TaskList>, Range<u8>),
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.fence_contexts_on((tasks.into(), Some(contexts)), done, InMemory(self.settings(), memory))
    }

    /// Fences a geometry, as [`Active::fence_geometry`]; its object lies in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    pub fn execute_geometry<P: Port>(
        &self,
        active: &mut Active<P>,
        geometry: GeometryId,
        scope: FenceScope,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.fence_geometry(geometry, scope, done)
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute_geometry`](Self::execute_geometry), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_geometry_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        (geometry, scope): (GeometryId, FenceScope),
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.fence_geometry_on(geometry, scope, done, InMemory(self.settings(), memory))
    }
}

impl Factory<CollectFunction> {
    /// Starts the collective that the factory is for, as [`Active::collect`], with the factory's algorithm if it has
    /// one; its object lies in the memory that the context has for collectives.
    ///
    /// # Errors
    /// Those, [`CollectError::ForeignFactory`], and [`CollectError::OtherCollective`].
    pub fn execute<P: Port>(
        &self,
        active: &mut Active<P>,
        mut collect: Collect<P>,
    ) -> Result<(), CollectError> {
        collect.algorithm = self.algorithm(active, &collect)?;
        active.collect(collect)
    }

    /// The same with the object in the caller's memory until there is room for the collective to start.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), with [`CollectError::MemoryInUse`] instead of [`CollectError::Full`], unless the client
    /// has [`Limits::queued`](crate::Limits::queued) 0.
    pub fn execute_in<P: Port>(
        &self,
        memory: &'static CollectMemory<P>,
        active: &mut Active<P>,
        mut collect: Collect<P>,
    ) -> Result<(), CollectError> {
        collect.algorithm = self.algorithm(active, &collect)?;
        active.collect_in(memory, collect)
    }

    /// Bytes of scratch memory that the call needs, as [`Active::scratch_len`].
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn scratch_len<P: Port>(
        &self,
        active: &Active<P>,
        collect: &Collect<P>,
    ) -> Result<usize, CollectError> {
        let mut collect = collect.clone();
        collect.algorithm = self.algorithm(active, &collect)?;
        active.scratch_len(&collect)
    }

    /// The algorithm of a call: the factory's, if it has one.
    fn algorithm<P: Port>(
        &self,
        active: &Active<P>,
        collect: &Collect<P>,
    ) -> Result<Option<(Algorithm, Tuning)>, CollectError> {
        let settings = self.settings();
        self.check(active).map_err(|_| CollectError::ForeignFactory)?;
        if collect.what != settings.collective {
            return Err(CollectError::OtherCollective(settings.collective));
        }
        Ok(settings.algorithm.or(collect.algorithm))
    }
}

impl<P: Port> Factory<ReceiveFunction<P>> {
    /// The id that messages for the handler carry.
    pub fn dispatch(&self) -> u8 {
        self.settings().dispatch
    }
}

impl<P: Port> Factory<DeferringReceiveFunction<P>> {
    /// Receives an unexpected message, as [`Active::accept`]. Others need no instruction: the handler says where they go.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    pub fn execute(
        &self,
        active: &mut Active<P>,
        id: UnexpectedId,
        buffer: Buffer,
        then: OnReceived<P>,
    ) -> Result<(), (SendError, Buffer)> {
        if let Err(error) = self.check(active) {
            return Err((error, buffer));
        }
        active.accept(id, buffer, then)
    }

    /// The same with the object in the caller's memory until the context has a place for it; the message is nobody else's
    /// from here on.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_in(
        &self,
        memory: &'static AcceptMemory<P>,
        active: &mut Active<P>,
        (id, buffer): (UnexpectedId, Buffer),
        then: OnReceived<P>,
    ) -> Result<(), (SendError, Buffer)> {
        if let Err(error) = self.check(active) {
            return Err((error, buffer));
        }
        active.accept_in(memory, id, buffer, then)
    }

    /// The id that messages for the handler carry.
    pub fn dispatch(&self) -> u8 {
        self.settings().dispatch
    }
}
