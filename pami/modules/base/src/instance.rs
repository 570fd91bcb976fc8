//! A library at one task: its client, a lane for each context, and a segment of memory that it allocates of and that all
//! tasks reach by one region each, from the start to the end (SPEC M-4).

use crate::lane::{Lane, wait_for};
use crate::memory::{OutOfMemory, fill};
use pami::{Active, Client, ClientError, Context, Node, Region, RegionHandle, RegisterError, Rights, Shared};
use rings::first_fit::{FirstFit, Span};
use spin::{Mutex, MutexGuard, Once};
use zerocopy::{FromBytes, IntoBytes};

/// What such a library has. Calls that need a context return `None` without: the library has ended, or not begun.
pub struct Instance<N: Node> {
    node: &'static N,
    client: Mutex<Option<Client<N>>>,
    /// By context.
    lanes: &'static [Lane<N::Port>],
    segment: Once<Shared>,
    region: Mutex<Option<Region>>,
    /// By task.
    handles: Once<&'static [RegionHandle]>,
    /// Which bytes of the segment are allocated.
    allocated: Mutex<FirstFit>,
}

impl<N: Node> Instance<N> {
    /// One for so many contexts, and for a segment of so many bytes in at most so many allocations; it has neither yet.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn new(
        node: &'static N,
        contexts: u8,
        bytes: usize,
        allocations: usize,
    ) -> Result<Self, OutOfMemory> {
        let spans = fill(node, "allocations", allocations, Span::default)?;
        Ok(Self {
            node,
            client: Mutex::new(None),
            lanes: fill(node, "contexts", contexts.into(), Lane::default)?,
            segment: Once::new(),
            region: Mutex::new(None),
            handles: Once::new(),
            allocated: Mutex::new(FirstFit::new(bytes, spans)),
        })
    }

    /// The node that the task is on.
    pub fn node(&self) -> &'static N {
        self.node
    }

    /// The client, from when it is put here to the end.
    pub fn client(&self) -> MutexGuard<'_, Option<Client<N>>> {
        self.client.lock()
    }

    /// Which bytes of the segment are allocated.
    pub fn allocated(&self) -> MutexGuard<'_, FirstFit> {
        self.allocated.lock()
    }

    /// The segment's memory, whether or not tasks reach it still. Takes no lock: callbacks ask for it.
    pub fn memory(&self) -> Option<&Shared> {
        self.segment.get()
    }

    /// The segment's memory, while tasks reach it.
    pub fn segment(&self) -> Option<&Shared> {
        let alive = self.region.lock().is_some();
        self.memory().filter(|_| alive)
    }

    /// The segments of all tasks, once they are [exchanged](Self::exchange).
    pub fn handles(&self) -> Option<&'static [RegionHandle]> {
        self.handles.get().copied()
    }

    /// Gives each lane its context of the client.
    ///
    /// # Errors
    /// See [`Lane::open`].
    pub fn open(&self) -> Result<(), ClientError> {
        let mut client = self.client();
        let Some(client) = client.as_mut() else { return Ok(()) };
        (0..).zip(self.lanes).try_for_each(|(offset, lane)| lane.open(client, offset))
    }

    /// Makes memory the segment, which all tasks may read, write and update.
    pub fn register(&self, memory: Shared) -> Option<Result<RegionHandle, RegisterError>> {
        let rights = Rights::READ | Rights::WRITE | Rights::UPDATE;
        let region = match self.with(0, |context| context.register_shared(memory, rights))? {
            Ok(region) => region,
            Err((error, _)) => return Some(Err(error)),
        };
        self.segment.call_once(|| region.memory().clone());
        let handle = region.handle();
        *self.region.lock() = Some(region);
        Some(Ok(handle))
    }

    /// Has all tasks know all segments. `gather` is handed the bytes of this one's, and calls back with each task's.
    ///
    /// # Errors
    /// [`OutOfMemory`], and those of `gather`.
    pub fn exchange<E: From<OutOfMemory>>(
        &self,
        own: RegionHandle,
        gather: impl FnOnce(&[u8], &mut dyn FnMut(u32, &[u8])) -> Result<(), E>,
    ) -> Result<(), E> {
        let handles = fill(self.node, "handles", self.node.tasks() as usize, || own)?;
        gather(own.as_bytes(), &mut |task, bytes| {
            let place = handles.get_mut(task as usize);
            if let (Some(place), Ok(handle)) = (place, RegionHandle::read_from_bytes(bytes)) {
                *place = handle;
            }
        })?;
        self.handles.call_once(|| handles);
        Ok(())
    }

    /// The lane of a context.
    pub fn lane(&self, context: u8) -> Option<&'static Lane<N::Port>> {
        self.lanes.get(usize::from(context))
    }

    /// Calls `act` with a context, when it is this thread's turn.
    pub fn with<T>(&self, context: u8, act: impl FnOnce(&mut Context<N::Port>) -> T) -> Option<T> {
        self.lane(context)?.with(|| self.node.rest(), act)
    }

    /// Advances all contexts that no other thread has. Returns how much happened.
    pub fn progress(&self) -> usize {
        self.lanes.iter().map(Lane::advance).sum()
    }

    /// Advances a context, and now and then the others, as [`wait_for`].
    pub fn advance_for(
        &self,
        context: u8,
        timeout_ns: u64,
        until: impl FnMut(&mut Active<N::Port>) -> bool,
    ) -> Option<bool> {
        wait_for(self.lanes, context.into(), || self.node.rest(), timeout_ns, until)
    }

    /// Gives back what the node and the messaging layer can take back; `end` does what is to be done once there is no context.
    /// `None`: that was done before.
    ///
    /// # Errors
    /// The first one of them. All the same it has ended.
    pub fn release<E: From<ClientError>>(
        &self,
        end: impl FnOnce(&mut Client<N>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let mut client = self.client.lock().take()?;
        // Not held while a context is waited for, whose holder may ask for it.
        let region = self.region.lock().take();
        if let Some(region) = region {
            // Memory that the caller still has stays with him.
            let _ = self.with(0, |context| context.deregister(region).map(drop));
        }
        let mut outcome = Ok(());
        for lane in self.lanes {
            outcome = outcome.and(lane.close(&mut client, || self.node.rest()).map_err(E::from));
        }
        outcome = outcome.and(end(&mut client));
        Some(outcome.and(client.destroy().map_err(|(error, _)| error.into())))
    }
}
