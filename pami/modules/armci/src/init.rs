//! The library is set up, and ended (SPEC M-4).

use crate::error::Error;
use crate::exchange::{Areas, GROUPS};
use crate::group::ALIGNMENT;
use crate::lane::Lane;
use crate::library::{Inner, Library};
use crate::lock_table::Mutexes;
use crate::memory::Memory;
use crate::protocols::{Protocols, Registered};
use crate::requests::{OWN, Requests};
use crate::settings::Settings;
use crate::shape::Tables;
use pami::layout::Cell;
use pami::{
    Active, Buffer, ClientBuilder, ClientError, Completion, Fetched, Limits, Message, Node, OperationError,
    Receive, RegionHandle, Rights, Shared,
};
use rings::first_fit::{FirstFit, Span};
use rings::slot_table::Slot;
use spin::{Mutex, Once};
use zerocopy::{FromBytes, IntoBytes};

/// Between two looks at whether a context can be ended.
const RELEASE_NS: u64 = 1_000_000;
/// How many of these there are once a node is dead.
const RELEASE_LOOKS: u32 = 1000;
/// What each context has for collectives: one in flight for each group, so that none waits for another's.
const LIMITS: Limits =
    Limits { geometries: GROUPS, in_flight: 1, always: GROUPS - 1, queued: OWN, early: 64, domains: None };

impl<N: Node> Library<N> {
    /// Sets the library up. Collective: every task of the job calls it, with the same client, contexts and sharing, and in
    /// the same order among other libraries.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Client`], [`Error::Memory`], [`Error::Register`], [`Error::Collect`],
    /// [`Error::Operation`]. What was taken is given back, but for memory, and the other tasks wait for this one.
    pub fn init(node: &'static N, settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let memory = Memory(node);
        let (contexts, tasks) = (settings.contexts, node.tasks());
        let calls = settings.handles.saturating_add(OWN);
        let cells: &[Cell] =
            memory.slice("shapes of handles", calls.saturating_mul(Tables::CELLS), Cell::new)?;
        let mut cells = cells.chunks_exact(Tables::CELLS);
        let tables =
            memory.slice("shapes of handles", calls, || Tables::new(cells.next().unwrap_or_default()))?;
        let slots = memory.slice("handles", calls, Slot::new)?;
        let failures = memory.slice("contexts", contexts.into(), || None)?;
        let requests: &Requests = memory.place("requests", Requests::new(slots, tables, failures))?;
        let completed =
            memory.place("callbacks", move |_: &mut Active<N::Port>, completion: Completion| {
                requests.end(completion.cookie, completion.result.map(|()| 0));
            })?;
        let fetched = memory.place("callbacks", move |_: &mut Active<N::Port>, fetched: Fetched| {
            requests.end(fetched.cookie, fetched.result);
        })?;
        let slab: &'static Once<Shared> = memory.place("the slab", Once::new())?;
        let registered: &Registered<N::Port> =
            memory.place("factories", Registered::new(&memory, contexts)?)?;
        let mutexes = Mutexes::place(&memory, tasks, &settings, registered)?;
        let on_mutex =
            memory.place("handlers", move |active: &mut Active<N::Port>, message: &Message<'_>| {
                mutexes.handle(active, message);
                Receive::Done
            })?;
        let spans = memory.slice("allocations", settings.allocations, Span::default)?;
        let lanes = memory.slice("contexts", contexts.into(), Once::new)?;
        let len = settings.slab.next_multiple_of(ALIGNMENT) as usize;
        let areas = Areas::new(&memory, tasks)?;
        let inner: &'static Inner<N> = memory.place(
            "the library",
            Inner {
                node,
                client: Mutex::new(None),
                lanes,
                settings: Mutex::new(settings),
                requests,
                protocols: Protocols::new(registered, completed, fetched),
                registered,
                mutexes,
                areas,
                slab: Mutex::new(FirstFit::new(len, spans)),
                region: Mutex::new(None),
                memory: slab,
                handles: Once::new(),
            },
        )?;
        let buffer = memory.buffer("the slab", len)?;
        let builder = ClientBuilder::new(node, settings.client)
            .contexts(contexts)
            .sharing(settings.sharing)
            // It keeps no messages.
            .unexpected(0)
            .collectives(LIMITS);
        *inner.client.lock() = Some(registered.register(builder, settings.accumulate, on_mutex)?);
        let library = Self { inner, context: 0 };
        match library.start(buffer) {
            Ok(()) => Ok(library),
            Err(error) => {
                // The first reason is the one to tell.
                let _ = library.release();
                Err(error)
            }
        }
    }

    /// The contexts, the region, and what others have to know of it.
    fn start(&self, buffer: Buffer) -> Result<(), Error> {
        let (inner, settings) = (self.inner, self.settings());
        if let Some(client) = inner.client.lock().as_mut() {
            for (offset, lane) in (0..).zip(inner.lanes) {
                let memory = client.context_memory()?;
                let mut context = client.create_context(offset, memory)?;
                context.set_polls(settings.wait.polls());
                lane.call_once(|| Lane::new(context));
            }
        }
        let rights = Rights::READ | Rights::WRITE | Rights::UPDATE;
        let region = self.lane()?.with(|context| context.register(buffer, rights))?;
        let region = region.map_err(|(error, _)| error)?;
        inner.memory.call_once(|| region.memory().clone());
        let handle = region.handle();
        *inner.region.lock() = Some(region);
        let handles = Memory(inner.node).slice("handles", self.tasks() as usize, || handle)?;
        self.gather(&self.world(), handle.as_bytes(), |index, bytes| {
            let place = handles.get_mut(index as usize);
            if let (Some(place), Ok(handle)) = (place, RegionHandle::read_from_bytes(bytes)) {
                *place = handle;
            }
        })?;
        inner.handles.call_once(|| handles);
        Ok(())
    }

    /// Ends the library. Collective; all that was begun has been carried out before. Handles, and memory that was allocated,
    /// are of no use any more, and every further call is refused.
    ///
    /// # Errors
    /// Of fences and barrier; [`Error::Client`]. The library has ended all the same. If a node is dead nobody is waited for,
    /// and the error names it: what is under way from others may hang.
    pub fn finalize(self) -> Result<(), Error> {
        if let Some(node) = self.first().lane()?.with(|context| context.dead_node())? {
            return self.release().and(Err(Error::Operation(OperationError::NodeDead(node))));
        }
        let mut outcome = Ok(());
        for context in 0..self.settings().contexts {
            outcome = outcome.and(Self { context, ..self }.all_fence());
        }
        outcome = outcome.and(self.group_barrier(&self.world()));
        outcome.and(self.release())
    }

    /// Gives back what the node and the messaging layer can take back.
    fn release(&self) -> Result<(), Error> {
        let inner = self.inner;
        let Some(mut client) = inner.client.lock().take() else { return Err(Error::Finalized) };
        if let Some(region) = inner.region.lock().take()
            && let Some(lane) = inner.lanes.first().and_then(Once::get)
        {
            // If the caller still has the memory it stays with him.
            let _ = lane.with(|context| context.deregister(region).map(drop))?;
        }
        let mut outcome = Ok(());
        for lane in inner.lanes.iter().filter_map(Once::get) {
            let Some(mut context) = lane.take() else { continue };
            // What others still have to hear of this task goes out first; who died hears nothing.
            let mut looks = 0;
            while let Err((error, back)) = client.destroy_context(context) {
                context = back;
                looks += u32::from(context.dead_node().is_some());
                let passes = matches!(error, ClientError::SendsUnderWay | ClientError::ReceivesUnderWay);
                if !passes || looks > RELEASE_LOOKS {
                    outcome = outcome.and(Err(Error::Client(error)));
                    break;
                }
                context.wait_for(RELEASE_NS, |_| false);
            }
        }
        outcome = outcome.and(inner.registered.end(&mut client));
        outcome.and(client.destroy().map_err(|(error, _)| Error::Client(error)))
    }
}
