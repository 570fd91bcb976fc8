//! An instance's beginning and end: init, finalize.

use crate::attribute::Attributes;
use crate::context_id::{AGREEMENT_BYTES, Ids, SELF};
use crate::datatype::Types;
use crate::error::{Error, Result};
use crate::group::Lists;
use crate::handlers;
use crate::library::{Library, Mpi, Threads};
use crate::protocols::{Declared, factories};
use crate::request::{Activity, NONE, OWN};
use crate::settings::{CONTEXTS, Settings};
use crate::vci::{State, Vci};
use base::{fill, place, shared};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use heapless::Vec;
use pami::ClientBuilder;
use pami::client::{ClientError, Node};
use spin::{Mutex, Once};

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
        let vcis = usize::from(settings.contexts);
        if vcis > CONTEXTS || vcis == 0 {
            return Err(ClientError::Exhausted { what: "contexts", limit: CONTEXTS }.into());
        }
        let each = usize::from(settings.requests) + OWN;
        let most = usize::from(NONE);
        if each > most {
            return Err(Error::NoMem { what: "requests", limit: most - OWN });
        }
        let activity: &'static [AtomicU32] = fill(node, "requests", vcis * each, || AtomicU32::new(0))?;
        let mut activities = activity.chunks(each).map(Activity::new);
        let each = usize::from(settings.communicators).max(1);
        let alive: &'static [AtomicU32] = fill(node, "communicators", vcis * each, || AtomicU32::new(0))?;
        let mut alive = alive.chunks(each).map(Activity::new);
        let vci = || Vci::new(activities.next().unwrap_or_default(), alive.next().unwrap_or_default());
        let vcis: &'static [Vci<N::Port>] = fill(node, "contexts", vcis, vci)?;
        for (number, vci) in vcis.iter().enumerate() {
            *vci.state.lock() = State::new(node, number as u8, (vci.activity, vci.alive), &settings)?;
        }
        let mut proposals = Vec::new();
        while !proposals.is_full() {
            let _ = proposals.push(shared(node, "agreements", AGREEMENT_BYTES)?);
        }
        let library: &'static Library<N> = place(
            node,
            "the library",
            Library {
                node,
                vcis,
                only: vcis.first().filter(|_| vcis.len() == 1),
                first: vcis.first().ok_or(Error::Count(0))?,
                eager_limit: AtomicUsize::new(settings.eager_limit),
                sleeps: AtomicBool::new(settings.sleeps),
                settings: Mutex::new(settings),
                finalized: AtomicBool::new(false),
                threads,
                declared: Mutex::new(None),
                client: Mutex::new(None),
                ids: Mutex::new(Ids::from(SELF.0 + 1)),
                proposals: Mutex::new(proposals),
                shades: AtomicU32::new(1),
                lists: Mutex::new(Lists::new(node, &settings)?),
                attributes: Mutex::new(Attributes::new(node, &settings)?),
                attached: Mutex::new(None),
                spare: Mutex::new(Vec::new()),
                callbacks: Once::new(),
                accesses: Once::new(),
                types: Types::new(node, settings.types, settings.type_runs)?,
            },
        )?;
        let builder = ClientBuilder::new(node, settings.name)
            .contexts(settings.contexts)
            .sharing(settings.sharing)
            .pools(base::POOLS)
            .collectives(settings.limits());
        let mut client = builder.factories(factories(vcis.len())).create()?;
        let callbacks = handlers::callbacks(library)?;
        library.callbacks.call_once(|| callbacks);
        let completions = handlers::of_accesses(library)?;
        library.accesses.call_once(|| completions);
        let handlers = (handlers::of_messages(library)?, handlers::of_windows(library)?);
        let declared = Declared::new(&mut client, handlers)?;
        for vci in vcis {
            vci.state.lock().protocols = Some(declared.register(&mut client, settings.accumulate)?);
        }
        *library.declared.lock() = Some(declared);
        for (number, vci) in vcis.iter().enumerate() {
            vci.lane.open(&mut client, number as u8)?;
            let on_deaths = library.callbacks()?.deaths;
            vci.lane.with(
                || node.rest(),
                |context| {
                    context.on_deaths(Some(on_deaths));
                    vci.state.lock().me = context.endpoint();
                },
            );
        }
        handlers::open_division(library)?;
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
        let used = |vci: &Vci<N::Port>| vci.state.lock().requests.used();
        let count = self.library.vcis.iter().map(used).sum();
        if count > 0 {
            return Err(Error::Unfinished { what: "requests", count });
        }
        let windows = |vci: &Vci<N::Port>| vci.state.lock().windows.used();
        let count = self.library.vcis.iter().map(windows).sum();
        if count > 0 {
            return Err(Error::Unfinished { what: "windows", count });
        }
        self.itself().delete_attributes()
    }
}

impl<N: Node> Library<N> {
    /// Destroys contexts and client, once what they have under way is over.
    fn close(&'static self) -> Result<()> {
        let mut client = self.client.lock().take().ok_or(Error::Finalized)?;
        for vci in self.vcis {
            vci.lane.with(|| self.node.rest(), |context| vci.state.lock().windows.close(context));
            vci.lane.close(&mut client, || self.node.rest())?;
            if let Some(protocols) = vci.state.lock().protocols.take() {
                protocols.end(&mut client)?;
            }
        }
        if let Some(declared) = self.declared.lock().take() {
            declared.end(&mut client)?;
        }
        client.destroy().map_err(|(error, _)| error.into())
    }
}
