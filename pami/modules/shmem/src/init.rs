//! The library is set up, and ended (SPEC M-4).

use crate::area::{Area, TEAMS, Teams};
use crate::error::{Error, Result};
use crate::heap::ALIGNMENT;
use crate::library::{Inner, Shmem};
use crate::operations::{Factories, FactoryMemories, Operations, PLACES};
use crate::settings::Settings;
use base::{Completions, Instance, fill, place, shared};
use heapless::Vec;
use pami::{Client, ClientBuilder, FactoryMemory, Limits, Node, OperationError, Shared};
use spin::Mutex;

/// What context 0 has for collectives: one in flight for each team, so that none waits for another's. One that waits for its own
/// team's does so in the team's area; here is room for one that is given up.
const LIMITS: Limits =
    Limits { geometries: TEAMS, in_flight: 1, always: TEAMS - 1, queued: TEAMS, early: 64, domains: None };

/// Bytes that the collectives of a team have to work in, at least.
const SCRATCH: u32 = 1024;

fn check(settings: &Settings) -> Result {
    if settings.heap == 0 || settings.heap > u32::MAX / 2 {
        return Err(Error::Setting("heap", "from 1 to 2^31 - 1"));
    }
    if settings.contexts == 0 {
        return Err(Error::Setting("contexts", "1 at least"));
    }
    if settings.scratch < SCRATCH {
        return Err(Error::Setting("scratch", "1024 at least"));
    }
    Ok(())
}

impl<N: Node> Shmem<N> {
    /// Sets the library up. Collective: every PE calls it, with the same settings, and in the same order among other
    /// libraries.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Client`], [`Error::Memory`], [`Error::Factory`], [`Error::Register`],
    /// [`Error::Asymmetric`] if the heaps differ in size. What was taken is given back, but for memory, and the other PEs wait
    /// for this one.
    pub fn init(node: &'static N, settings: Settings) -> Result<Self> {
        check(&settings)?;
        let contexts = settings.contexts;
        let operations = Operations::place(node, contexts)?;
        let bytes = settings.heap.next_multiple_of(ALIGNMENT) as usize;
        let instance = Instance::new(node, contexts, bytes, settings.allocations)?;
        let instance: &Instance<N> = place(node, "the library", instance)?;
        let end = move |cookie: usize, outcome: Result<u64, OperationError>| {
            if let Some(operations) = operations.get(cookie / PLACES) {
                operations.end(cookie % PLACES, outcome, instance.memory());
            }
        };
        let completions = Completions::new(
            node,
            move |_, completion| end(completion.cookie, completion.result.map(|()| 0)),
            move |_, fetched| end(fetched.cookie, fetched.result),
        )?;
        let mut areas = Vec::new();
        while !areas.is_full() {
            // There is room.
            let _ = areas.push(Area::new(node, settings.scratch)?);
        }
        let memories = fill(node, "factories", usize::from(contexts) * Factories::EACH, FactoryMemory::new)?;
        let inner = Inner {
            instance,
            settings,
            factories: fill(node, "factories", contexts.into(), || Mutex::new(None))?,
            operations,
            completions,
            values: shared(node, "words", usize::from(contexts) * PLACES * size_of::<u64>())?,
            teams: Mutex::new(Teams::default()),
            areas,
        };
        let library = Self { inner: place(node, "the library", inner)?, context: 0 };
        // Last: only a client has to be given back.
        let client = ClientBuilder::new(node, settings.client)
            .contexts(contexts)
            .sharing(settings.sharing)
            .pools(base::POOLS)
            .collectives(LIMITS);
        *instance.client() = Some(client.create()?);
        let heap = shared(node, "the heap", bytes).map_err(Error::from);
        heap.and_then(|heap| library.start(heap, memories.iter_mut())).map(|()| library).inspect_err(|_| {
            // The first reason is the one to tell.
            let _ = library.release();
        })
    }

    /// The factories, the contexts, the region, and what others have to know of it.
    fn start(&self, memory: Shared, mut memories: FactoryMemories) -> Result {
        let (inner, instance) = (self.inner, self.inner.instance);
        if let Some(client) = instance.client().as_mut() {
            let protocols = [client.protocol("shmem-transfer")?, client.protocol("shmem-team")?];
            for factories in inner.factories {
                *factories.lock() = Some(Factories::register(&mut memories, client, &protocols)?);
            }
        }
        instance.open()?;
        for context in 0..inner.settings.contexts {
            Self { context, ..*self }.with(|context| context.set_polls(inner.settings.polls))?;
        }
        // Area 0 is the world's.
        inner.teams.lock().take();
        let own = instance.register(memory).ok_or(Error::Finalized)??;
        instance.exchange(own, |own, each| self.gather(&self.team_world(), own, each))?;
        let mut all = instance.handles().unwrap_or_default().iter();
        if all.any(|other| other.len() != own.len()) { Err(Error::Asymmetric("init")) } else { Ok(()) }
    }

    /// Ends the library. Collective; all that was begun has been carried out before. Symmetric objects are of no use any
    /// more, and every further call is refused.
    ///
    /// # Errors
    /// Of [`barrier_all`](Self::barrier_all); [`Error::Client`]. The library has ended all the same. If a node is dead
    /// nobody is waited for, and the error names it: what is under way from others may hang.
    pub fn finalize(self) -> Result {
        if let Some(node) = self.first().with(|context| context.dead_node())? {
            return self.release().and(Err(Error::Operation(OperationError::NodeDead(node))));
        }
        let contexts = 0..self.inner.settings.contexts;
        let quiet = contexts.map(|context| Self { context, ..self }.quiet()).fold(Ok(()), Result::and);
        quiet.and(self.sync_all()).and(self.release())
    }

    /// Gives back what the node and the messaging layer can take back.
    fn release(&self) -> Result {
        let inner = self.inner;
        let end = |client: &mut Client<N>| {
            let registered = inner.factories.iter().filter_map(|place| place.lock().take());
            registered.map(|factories| factories.end(client)).fold(Ok(()), Result::and)
        };
        inner.instance.release(end).unwrap_or(Err(Error::Finalized))
    }
}
