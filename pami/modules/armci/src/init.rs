//! The library is set up, and ended (SPEC M-4).

use crate::accumulated::Accumulated;
use crate::error::Error;
use crate::exchange::{Areas, GROUPS};
use crate::group::ALIGNMENT;
use crate::library::{Inner, Library};
use crate::lock_table::Mutexes;
use crate::protocols::{Protocols, Registered};
use crate::requests::{OWN, Requests};
use crate::settings::Settings;
use crate::shape::Tables;
use base::{Completions, Instance, fill, place, shared};
use pami::layout::Cell;
use pami::{Active, ClientBuilder, Limits, Message, Node, OperationError, Receive, Shared};
use rings::slot_table::Slot;
use spin::Mutex;

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
        let contexts = settings.contexts;
        let calls = settings.handles.saturating_add(OWN);
        let cells: &[Cell] = fill(node, "shapes of handles", calls.saturating_mul(Tables::CELLS), Cell::new)?;
        let mut cells = cells.chunks_exact(Tables::CELLS);
        let tables =
            fill(node, "shapes of handles", calls, || Tables::new(cells.next().unwrap_or_default()))?;
        let slots = fill(node, "handles", calls, Slot::new)?;
        let failures = fill(node, "contexts", contexts.into(), || None)?;
        let requests: &Requests = place(node, "requests", Requests::new(slots, tables, failures))?;
        let completions = Completions::new(
            node,
            move |_, completion| requests.end(completion.cookie, completion.result.map(|()| 0)),
            move |_, fetched| requests.end(fetched.cookie, fetched.result),
        )?;
        let registered: &Registered<N::Port> = place(node, "factories", Registered::new(node, contexts)?)?;
        let mutexes = Mutexes::place(node, &settings, registered)?;
        let on_mutex =
            place(node, "handlers", move |active: &mut Active<N::Port>, message: &Message<'_>| {
                mutexes.handle(active, message);
                Receive::Done
            })?;
        let accumulated = fill(node, "contexts", contexts.into(), Accumulated::default)?;
        let len = settings.slab.next_multiple_of(ALIGNMENT) as usize;
        let instance = Instance::new(node, contexts, len, settings.allocations)?;
        let instance: &Instance<N> = place(node, "the library", instance)?;
        let areas = Areas::new(node, node.tasks())?;
        let inner: &'static Inner<N> = place(
            node,
            "the library",
            Inner {
                instance,
                accumulated,
                settings: Mutex::new(settings),
                requests,
                protocols: Protocols::new(registered, completions),
                registered,
                mutexes,
                areas,
            },
        )?;
        let memory = shared(node, "the slab", len)?;
        let builder = ClientBuilder::new(node, settings.client)
            .contexts(contexts)
            .sharing(settings.sharing)
            .pools(base::POOLS)
            .collectives(LIMITS);
        *instance.client() = Some(registered.register(builder, settings.accumulate, on_mutex)?);
        let library = Self { inner, context: 0 };
        match library.start(memory) {
            Ok(()) => Ok(library),
            Err(error) => {
                // The first reason is the one to tell.
                let _ = library.release();
                Err(error)
            }
        }
    }

    /// The contexts, the region, and what others have to know of it.
    fn start(&self, memory: Shared) -> Result<(), Error> {
        let instance = self.inner.instance;
        instance.open()?;
        self.set_wait(self.settings().wait)?;
        let own = instance.register(memory).ok_or(Error::Finalized)??;
        instance.exchange(own, |own, each| self.gather(&self.world(), own, each))
    }

    /// Ends the library. Collective; all that was begun has been carried out before. Handles, and memory that was allocated,
    /// are of no use any more, and every further call is refused.
    ///
    /// # Errors
    /// Of fences and barrier; [`Error::Client`]. The library has ended all the same. If a node is dead nobody is waited for,
    /// and the error names it: what is under way from others may hang.
    pub fn finalize(self) -> Result<(), Error> {
        if let Some(node) = self.first().with(|context| context.dead_node())? {
            return self.release().and(Err(Error::Operation(OperationError::NodeDead(node))));
        }
        let fenced = self.fence_contexts().and(self.group_barrier(&self.world()));
        fenced.and(self.release())
    }

    /// Gives back what the node and the messaging layer can take back.
    fn release(&self) -> Result<(), Error> {
        let inner = self.inner;
        inner.instance.release(|client| inner.registered.end(client)).unwrap_or(Err(Error::Finalized))
    }
}
