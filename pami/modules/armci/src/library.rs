//! An instance of the library: set up, asked, ended (SPEC M-4).

use crate::error::Error;
use crate::group::{Areas, GROUPS};
use crate::lane::Lane;
use crate::memory::Memory;
use crate::mutex::Mutexes;
use crate::protocols::{Protocols, Registered};
use crate::requests::{Kind, OWN, Requests, Slot};
use crate::settings::{Settings, Wait};
use crate::slab::{ALIGNMENT, Block, Slab};
use pami::{
    Active, Buffer, Client, ClientBuilder, ClientError, Completion, Endpoint, Fetched, Limits, Message, Node,
    OperationError, Receive, Region, RegionHandle, Rights, SendError, Shared,
};
use spin::{Mutex, Once};
use zerocopy::{FromBytes, IntoBytes};

/// Longest wait of a thread before it looks after contexts that nobody has.
const OTHERS_NS: u64 = 1_000_000;
/// Between two looks at whether a context can be ended.
const RELEASE_NS: u64 = 1_000_000;
/// How many of these there are once a node is dead.
const RELEASE_LOOKS: u32 = 1000;
/// What each context has for collectives: one in flight for each group, so that none waits for another's.
const LIMITS: Limits =
    Limits { geometries: GROUPS, in_flight: 1, always: GROUPS - 1, early: 64, domains: None };

/// The library at one task, as it acts on one context: a small handle, which may be copied.
pub struct Library<N: Node> {
    pub(crate) inner: &'static Inner<N>,
    pub(crate) context: u8,
}

impl<N: Node> Clone for Library<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Node> Copy for Library<N> {}

/// All that the library has at one task.
pub(crate) struct Inner<N: Node> {
    pub(crate) node: &'static N,
    pub(crate) client: Mutex<Option<Client<N>>>,
    pub(crate) lanes: &'static [Once<Lane<N::Port>>],
    pub(crate) settings: Mutex<Settings>,
    pub(crate) requests: &'static Requests,
    pub(crate) protocols: Protocols<N::Port>,
    pub(crate) registered: &'static Registered<N::Port>,
    pub(crate) mutexes: &'static Mutexes<N::Port>,
    pub(crate) areas: Areas,
    pub(crate) slab: Mutex<Slab>,
    region: Mutex<Option<Region>>,
    /// The slab's memory.
    memory: &'static Once<Shared>,
    /// By task.
    pub(crate) handles: Once<&'static [RegionHandle]>,
}

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
        let slots = memory.slice("handles", settings.handles.saturating_add(OWN), Slot::new)?;
        let failures = memory.slice("contexts", contexts.into(), || Mutex::new(None))?;
        let requests: &Requests = memory.place("requests", Requests::new(slots, failures))?;
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
        let blocks = memory.slice("allocations", settings.allocations, Block::default)?;
        let lanes = memory.slice("contexts", contexts.into(), Once::new)?;
        let len = settings.slab.next_multiple_of(ALIGNMENT);
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
                slab: Mutex::new(Slab::new(len, blocks)),
                region: Mutex::new(None),
                memory: slab,
                handles: Once::new(),
            },
        )?;
        let buffer = memory.buffer("the slab", len as usize)?;
        let builder = ClientBuilder::new(node, settings.client)
            .contexts(contexts)
            .sharing(settings.sharing)
            // It keeps no messages.
            .kept(0)
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

    /// The same library, acting on another of its contexts.
    ///
    /// # Errors
    /// [`Error::Context`]
    pub fn on_context(self, context: u8) -> Result<Self, Error> {
        let contexts = self.settings().contexts;
        if context < contexts {
            Ok(Self { context, ..self })
        } else {
            Err(Error::Context { context, contexts })
        }
    }

    /// The context that calls act on.
    pub fn context(&self) -> u8 {
        self.context
    }

    /// This task.
    pub fn task(&self) -> u32 {
        self.inner.node.task()
    }

    /// Number of tasks.
    pub fn tasks(&self) -> u32 {
        self.inner.node.tasks()
    }

    /// What the library is set to.
    pub fn settings(&self) -> Settings {
        *self.inner.settings.lock()
    }

    /// Changes how calls wait, on all contexts.
    ///
    /// # Errors
    /// [`Error::Finalized`]
    pub fn set_wait(&self, wait: Wait) -> Result<(), Error> {
        for lane in self.inner.lanes.iter().filter_map(Once::get) {
            lane.with(|context| context.set_polls(wait.polls()))?;
        }
        self.inner.settings.lock().wait = wait;
        Ok(())
    }

    /// Changes how many handles can be in use at a time.
    ///
    /// # Errors
    /// [`Error::Setting`] beyond what there were at the start.
    pub fn set_handles(&self, handles: usize) -> Result<(), Error> {
        if handles == 0 || handles > self.inner.requests.limit() {
            return Err(Error::Setting("handles", "from 1 to what they were at the start"));
        }
        self.inner.settings.lock().handles = handles;
        Ok(())
    }

    /// The memory of this task's slab: what is allocated here lies in it at its address's offset.
    ///
    /// # Errors
    /// [`Error::Finalized`]
    pub fn slab(&self) -> Result<Shared, Error> {
        let alive = self.inner.region.lock().is_some();
        self.inner.memory.get().filter(|_| alive).cloned().ok_or(Error::Finalized)
    }

    /// Advances all contexts that no other thread has. Returns how much happened.
    pub fn progress(&self) -> usize {
        self.inner.lanes.iter().filter_map(Once::get).map(Lane::advance).sum()
    }

    pub(crate) fn lane(&self) -> Result<&'static Lane<N::Port>, Error> {
        let lanes = self.inner.lanes;
        lanes.get(usize::from(self.context)).and_then(Once::get).ok_or(Error::Finalized)
    }

    /// The same library on context 0, which all collectives go through.
    pub(crate) fn first(&self) -> Self {
        Self { context: 0, ..*self }
    }

    /// The endpoint of a task that answers what is begun on this context.
    pub(crate) fn endpoint(&self, task: u32) -> Result<Endpoint, Error> {
        let client = self.inner.client.lock();
        let client = client.as_ref().ok_or(Error::Finalized)?;
        client.endpoint(task, self.context).map_err(|_| Error::Task(task))
    }

    /// Advances this context until `until` holds, for `timeout_ns` at most; and now and then others that nobody has, so that
    /// no task waits for a context whose thread is elsewhere. Returns whether it held.
    pub(crate) fn advance_for(
        &self,
        timeout_ns: u64,
        mut until: impl FnMut(&mut Active<N::Port>) -> bool,
    ) -> Result<bool, Error> {
        let lane = self.lane()?;
        if self.inner.lanes.len() == 1 {
            return lane.wait_for(timeout_ns, until);
        }
        let mut left = timeout_ns;
        loop {
            if lane.wait_for(left.min(OTHERS_NS), &mut until)? {
                return Ok(true);
            }
            left = left.saturating_sub(OTHERS_NS);
            if left == 0 {
                return Ok(false);
            }
            self.progress();
        }
    }

    /// As [`advance_for`](Self::advance_for), for as long as it takes.
    pub(crate) fn advance_until(
        &self,
        mut until: impl FnMut(&mut Active<N::Port>) -> bool,
    ) -> Result<(), Error> {
        while !self.advance_for(u64::MAX, &mut until)? {}
        Ok(())
    }

    /// Tries until there is room.
    pub(crate) fn attempt<T>(
        &self,
        mut attempt: impl FnMut(&mut Active<N::Port>) -> Result<T, SendError>,
    ) -> Result<T, Error> {
        let mut outcome = Err(SendError::Again);
        self.advance_until(|active| {
            outcome = attempt(active);
            !matches!(outcome, Err(SendError::Again))
        })?;
        Ok(outcome?)
    }

    /// Begins a call of this context.
    pub(crate) fn begin(&self, kind: Kind, task: u32) -> Result<usize, Error> {
        let (requests, limit) = (self.inner.requests, self.settings().handles);
        if kind == Kind::Handle && requests.handles() >= limit {
            return Err(Error::NoHandle { limit });
        }
        let mut slot = None;
        self.advance_until(|_| {
            slot = requests.begin(kind, task, self.context);
            slot.is_some()
        })?;
        // The wait ended because there is one.
        slot.ok_or(Error::NoHandle { limit })
    }

    /// Begins an operation of a call.
    pub(crate) fn operate(
        &self,
        slot: usize,
        attempt: impl FnMut(&mut Active<N::Port>) -> Result<(), SendError>,
    ) -> Result<(), Error> {
        self.inner.requests.add(slot);
        let outcome = self.attempt(attempt);
        if outcome.is_err() {
            self.inner.requests.end(slot, Ok(0));
        }
        outcome
    }

    /// A call was issued, or was found impossible on the way: it ends when what was begun of it has ended.
    pub(crate) fn issued(&self, slot: usize, outcome: Result<(), Error>) -> Result<(), Error> {
        self.inner.requests.end(slot, Ok(0));
        outcome
    }

    /// Waits for a call of the library's own.
    pub(crate) fn finish(&self, slot: usize, outcome: Result<(), Error>) -> Result<u64, Error> {
        let requests = self.inner.requests;
        let issued = self.issued(slot, outcome);
        self.advance_until(|_| requests.is_done(slot))?;
        let result = requests.take(slot).map_err(Error::Operation);
        issued.and(result)
    }
}
