//! An instance of the library: init, finalize, and what it can be asked (the standard's chapter on environments).

use crate::attribute::Attributes;
use crate::communicator::{AGREEMENT_BYTES, Ids, SEEKERS, SELF};
use crate::datatype::Types;
use crate::error::{Error, Result};
use crate::group::Lists;
use crate::lane::{Lane, State};
use crate::message::{Attached, Handling, SPARES};
use crate::protocols::{Declared, factories};
use crate::request::LANES;
use crate::settings::{Setting, Settings};
use crate::window::{self, Ends};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use heapless::Vec;
use pami::client::{Client, ClientError, Node};
use pami::{ClientBuilder, Shared};
use spin::{Mutex, Once};

/// Levels of support for threads, in the standard's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(i32)]
pub enum Threads {
    /// One thread only.
    Single,
    /// Only the thread that called init calls.
    Funneled,
    /// Any thread calls, one at a time.
    Serialized,
    /// Any thread calls at any time.
    Multiple,
}

/// An instance, as all of its handles know it.
pub(crate) struct Library<N: Node> {
    pub(crate) node: &'static N,
    pub(crate) lanes: &'static [Lane<N::Port>],
    settings: Mutex<Settings>,
    pub(crate) eager_limit: AtomicUsize,
    pub(crate) sleeps: AtomicBool,
    pub(crate) finalized: AtomicBool,
    threads: Threads,
    declared: Mutex<Option<Declared<N::Port>>>,
    client: Mutex<Option<Client<N>>>,
    pub(crate) ids: Mutex<Ids>,
    /// Memory of threads that make communicators.
    pub(crate) proposals: Mutex<Vec<Shared, SEEKERS>>,
    /// Counts communicators that were to be made.
    pub(crate) shades: AtomicU32,
    pub(crate) lists: Mutex<Lists>,
    pub(crate) attributes: Mutex<Attributes<N>>,
    pub(crate) attached: Mutex<Attached>,
    /// Memories for copies that nobody has now.
    pub(crate) spare: Mutex<Vec<Shared, SPARES>>,
    pub(crate) handling: Once<Handling<N::Port>>,
    pub(crate) window_ends: Once<Ends<N::Port>>,
    types: Types,
}

/// A library instance (the standard has one for each process; this can have several). `Copy`, and usable by all
/// threads.
pub struct Mpi<N: Node> {
    pub(crate) library: &'static Library<N>,
}

impl<N: Node> Clone for Mpi<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Node> Copy for Mpi<N> {}

/// Memory of a node for one value.
pub(crate) fn place<N: Node, T: Send>(node: &N, value: T) -> Result<&'static mut T> {
    let mut value = Some(value);
    let slice = node.memory(1, || value.take()).ok_or(out_of_memory())?;
    slice.first_mut().and_then(Option::as_mut).ok_or(out_of_memory())
}

/// Memory of a node for several.
pub(crate) fn fill<N: Node, T: Send>(
    node: &N,
    len: usize,
    value: impl FnMut() -> T,
) -> Result<&'static mut [T]> {
    node.memory(len, value).ok_or(out_of_memory())
}

/// Memory that collectives can use.
pub(crate) fn shared<N: Node>(node: &N, len: usize) -> Result<Shared> {
    // The count in front, and its alignment.
    let memory = fill(node, len + 2 * pami::CONTROL_BYTES, || 0u8)?;
    Ok(pami::Buffer::new(memory).map_err(|_| out_of_memory())?.share())
}

fn out_of_memory() -> Error {
    Error::NoMem { what: "bytes of the task's memory", limit: 0 }
}

impl<N: Node> Mpi<N> {
    /// `MPI_Init` with default settings.
    ///
    /// # Errors
    /// As [`init_thread`](Self::init_thread).
    pub fn init(node: &'static N) -> Result<Self> {
        Self::init_thread(node, Settings::default(), Threads::Single)
    }

    /// `MPI_Init_thread`. All tasks of the job call it, in the same order among other libraries' inits, with the same
    /// settings where [`Settings`] says so. Returns when all have.
    ///
    /// # Errors
    /// What ran out, or what is wrong with the settings.
    pub fn init_thread(node: &'static N, settings: Settings, threads: Threads) -> Result<Self> {
        let lanes = usize::from(settings.contexts);
        if lanes > LANES || lanes == 0 {
            return Err(ClientError::Exhausted { what: "contexts", limit: LANES }.into());
        }
        let lanes: &'static [Lane<N::Port>] = fill(node, lanes, Lane::new)?;
        for (number, lane) in lanes.iter().enumerate() {
            *lane.state.lock() = State::new(node, number as u8, &settings)?;
        }
        let mut proposals = Vec::new();
        while !proposals.is_full() {
            let _ = proposals.push(shared(node, AGREEMENT_BYTES)?);
        }
        let library: &'static Library<N> = place(
            node,
            Library {
                node,
                lanes,
                eager_limit: AtomicUsize::new(settings.eager_limit),
                sleeps: AtomicBool::new(settings.sleeps),
                settings: Mutex::new(settings),
                finalized: AtomicBool::new(false),
                threads,
                declared: Mutex::new(None),
                client: Mutex::new(None),
                ids: Mutex::new(Ids::from(SELF.0 + 1)),
                proposals: Mutex::new(proposals),
                shades: AtomicU32::new(0),
                lists: Mutex::new(Lists::new(node, &settings)?),
                attributes: Mutex::new(Attributes::new(node, &settings)?),
                attached: Mutex::new(Attached::default()),
                spare: Mutex::new(Vec::new()),
                handling: Once::new(),
                window_ends: Once::new(),
                types: Types::new(node, settings.types, settings.type_runs)?,
            },
        )?;
        let builder = ClientBuilder::new(node, settings.name)
            .contexts(settings.contexts)
            .sharing(settings.sharing)
            .kept(0)
            .collectives(settings.limits());
        let mut client = builder.factories(factories(lanes.len())).create()?;
        let handling = Handling::new(library)?;
        library.handling.call_once(|| handling);
        let ends = Ends::new(library)?;
        library.window_ends.call_once(|| ends);
        let handlers = (Handling::handlers(library)?, window::handlers(library)?);
        let declared = Declared::new(&mut client, handlers)?;
        for lane in lanes {
            lane.state.lock().protocols = Some(declared.register(&mut client, settings.accumulate)?);
        }
        *library.declared.lock() = Some(declared);
        for (number, lane) in lanes.iter().enumerate() {
            let memory = client.context_memory()?;
            lane.open(client.create_context(number as u8, memory)?);
        }
        *library.client.lock() = Some(client);
        let mpi = Self { library };
        mpi.first_communicators()?;
        Ok(mpi)
    }

    /// `MPI_Finalize`: all tasks call it. Returns when all have, and gives the client back to the node.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if requests are under way, [`Error::Elsewhere`] if some are at another process: then nobody has
    /// finalized, and all may call it again. [`Error::Finalized`].
    pub fn finalize(&self) -> Result<()> {
        if self.finalized() {
            return Err(Error::Finalized);
        }
        self.check_finished().inspect_err(|error| self.world().refuse(*error))?;
        // The last to leave still answers those that wait for it.
        self.world().barrier()?;
        if self.library.finalized.swap(true, Ordering::AcqRel) {
            return Err(Error::Finalized);
        }
        self.library.close()
    }

    /// Whether nothing is left that finalize would cut short.
    fn check_finished(&self) -> Result<()> {
        let used = |lane: &Lane<N::Port>| lane.state.lock().requests.used();
        let count = self.library.lanes.iter().map(used).sum();
        if count > 0 {
            return Err(Error::Unfinished { what: "requests", count });
        }
        let windows = |lane: &Lane<N::Port>| lane.state.lock().windows.used();
        let count = self.library.lanes.iter().map(windows).sum();
        if count > 0 {
            return Err(Error::Unfinished { what: "windows", count });
        }
        self.itself().delete_attributes()
    }

    /// `MPI_Finalized`.
    pub fn finalized(&self) -> bool {
        self.library.finalized.load(Ordering::Acquire)
    }

    /// `MPI_Query_thread`: what init asked for, which is there.
    pub fn query_thread(&self) -> Threads {
        self.library.threads
    }

    /// The settings as they are now.
    pub fn settings(&self) -> Settings {
        *self.library.settings.lock()
    }

    /// Changes a setting, of this instance only.
    pub fn set(&self, setting: Setting) {
        let mut settings = self.library.settings.lock();
        match setting {
            Setting::EagerLimit(bytes) => {
                settings.eager_limit = bytes;
                self.library.eager_limit.store(bytes, Ordering::Relaxed);
            }
            Setting::Sleeps(sleeps) => {
                settings.sleeps = sleeps;
                self.library.sleeps.store(sleeps, Ordering::Relaxed);
            }
        }
    }

    /// Where derived datatypes are made.
    pub fn types(&self) -> &'static Types {
        &self.library.types
    }

    /// The node that it was made for.
    pub fn node(&self) -> &'static N {
        self.library.node
    }
}

impl<N: Node> Library<N> {
    /// Destroys contexts and client, once what they have under way is over.
    fn close(&'static self) -> Result<()> {
        let mut client = self.client.lock().take().ok_or(Error::Finalized)?;
        for lane in self.lanes {
            let mut context = lane.enter(|| self.node.rest()).take().ok_or(Error::Finalized)?;
            lane.state.lock().windows.close(&mut context);
            loop {
                context = match client.destroy_context(context) {
                    Ok(_) => break,
                    Err((ClientError::SendsUnderWay | ClientError::ReceivesUnderWay, context)) => context,
                    Err((error, _)) => return Err(error.into()),
                };
                context.advance();
            }
            if let Some(protocols) = lane.state.lock().protocols.take() {
                protocols.end(&mut client)?;
            }
        }
        if let Some(declared) = self.declared.lock().take() {
            declared.end(&mut client)?;
        }
        client.destroy().map_err(|(error, _)| error.into())
    }
}
