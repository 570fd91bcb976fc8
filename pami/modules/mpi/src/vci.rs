//! A virtual communication interface (VCI): a context of the library, with what belongs to it, and who may use it.
//!
//! Everything of a communicator happens in one VCI: its messages, its requests, its collectives. A thread that wants
//! a VCI which another one waits in makes that one give way.

use crate::callbacks::Callbacks;
use crate::collective::Collectives;
use crate::communicators::Communicators;
use crate::error::{Error, Result};
use crate::memory::fill;
use crate::message::{At, Messages, Wanted};
use crate::protocols::{Protocols, windows};
use crate::request::{OWN, Requests, Slot};
use crate::settings::Settings;
use crate::window::Windows;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use pami::client::Node;
use pami::device::Port;
use pami::{Active, Context, Poster, Progress, Work, WorkSlot};
use spin::{Mutex, MutexGuard, Once};

/// Whoever holds it has the VCI's context.
pub(crate) type ContextGuard<'a, P> = MutexGuard<'a, Option<Context<P>>>;

/// What a VCI's handlers and callers change, always with the context at hand, but for a look at a request.
pub(crate) struct State {
    pub(crate) requests: Requests,
    pub(crate) messages: Messages,
    pub(crate) communicators: Communicators,
    pub(crate) collectives: Collectives,
    pub(crate) windows: Windows,
    /// While the library is not finalized.
    pub(crate) protocols: Option<Protocols>,
}

impl State {
    /// Takes the memory that the settings say.
    pub(crate) fn new<N: Node>(node: &N, vci: u8, settings: &Settings) -> Result<Self> {
        Ok(Self {
            requests: Requests::new(vci, fill(node, usize::from(settings.requests) + OWN, Slot::new)?),
            messages: Messages::new(node, settings)?,
            communicators: Communicators::new(node, settings)?,
            collectives: Collectives::new(node, settings)?,
            windows: Windows::new(node, settings)?,
            protocols: None,
        })
    }

    /// The factories of windows.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    pub(crate) fn window_protocols(&self) -> Result<&windows::Protocols> {
        self.protocols.as_ref().map(|protocols| &protocols.windows).ok_or(Error::Finalized)
    }

    /// What carries point to point out, with the context of the VCI that has this state.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    pub(crate) fn at<'a, P: Port>(
        &'a mut self,
        active: &'a mut Active<P>,
        vci: &'a Vci<P>,
        callbacks: &'a Callbacks<P>,
    ) -> Result<At<'a, P>> {
        let State { requests, messages, protocols, .. } = self;
        let protocols = protocols.as_ref().ok_or(Error::Finalized)?;
        Ok(At { active, requests, messages, protocols, pending: &vci.pending, callbacks })
    }

    /// Whether a message waits that is wanted.
    pub(crate) fn has_waiting(&self, wanted: &Wanted) -> bool {
        self.messages.has_waiting(wanted)
    }
}

/// A virtual communication interface: a context and what belongs to it.
pub(crate) struct Vci<P: Port> {
    pub(crate) context: Mutex<Option<Context<P>>>,
    pub(crate) state: Mutex<State>,
    /// Threads that want the context.
    wanted: AtomicU32,
    /// Something waits for room below.
    pub(crate) pending: AtomicBool,
    /// A collective does.
    pub(crate) collecting: AtomicBool,
    /// An answer of a window does.
    pub(crate) answering: AtomicBool,
    poster: Once<Poster<P>>,
    wake: WorkSlot<P>,
}

fn nothing<P: Port>(_: &mut Active<P>, _: usize) -> Progress {
    Progress::Done
}

impl<P: Port> Vci<P> {
    pub(crate) fn new() -> Self {
        let requests = Requests::new(0, &mut []);
        let (messages, communicators) = (Messages::default(), Communicators::default());
        let (collectives, windows) = (Collectives::default(), Windows::default());
        Self {
            context: Mutex::new(None),
            state: Mutex::new(State {
                requests,
                messages,
                communicators,
                collectives,
                windows,
                protocols: None,
            }),
            wanted: AtomicU32::new(0),
            pending: AtomicBool::new(false),
            collecting: AtomicBool::new(false),
            answering: AtomicBool::new(false),
            poster: Once::new(),
            wake: WorkSlot::new(),
        }
    }

    /// Gives it its context.
    pub(crate) fn open(&self, context: Context<P>) {
        self.poster.call_once(|| context.poster());
        *self.context.lock() = Some(context);
    }

    /// Whether another thread wants the context.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Whether something waits for room below.
    pub(crate) fn lags(&self) -> bool {
        [&self.pending, &self.collecting, &self.answering].iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    /// Goes on with what found no room below.
    pub(crate) fn catch_up(&self, active: &mut Active<P>, callbacks: &Callbacks<P>) {
        if self.pending.load(Ordering::Relaxed) {
            self.pending.store(false, Ordering::Relaxed);
            if let Ok(mut at) = self.state.lock().at(active, self, callbacks) {
                at.go_on();
            }
        }
        if self.collecting.load(Ordering::Relaxed) {
            let mut state = self.state.lock();
            let State { collectives, requests, protocols, .. } = &mut *state;
            let Some(protocols) = protocols else { return };
            collectives.go_on(active, requests, (callbacks, protocols));
            self.collecting.store(collectives.are_waiting(), Ordering::Relaxed);
        }
        if self.answering.load(Ordering::Relaxed) {
            let State { windows, protocols, .. } = &mut *self.state.lock();
            let Some(protocols) = protocols else { return };
            self.answering.store(windows.go_on_answering(active, &protocols.windows), Ordering::Relaxed);
        }
    }

    /// Ends what waits for nodes that died, and notes for whom the rest waits: a dump tells.
    pub(crate) fn look_after(&self, active: &mut Active<P>, callbacks: &Callbacks<P>) {
        let mut state = self.state.lock();
        if let Ok(mut at) = state.at(active, self, callbacks) {
            at.look_after();
        }
        let State { windows, requests, .. } = &mut *state;
        windows.look_after(active, requests);
    }

    /// The context. Whoever waits with it gives it up for this.
    pub(crate) fn enter(&'static self, rest: impl Fn()) -> ContextGuard<'static, P> {
        if let Some(guard) = self.context.try_lock() {
            return guard;
        }
        self.wanted.fetch_add(1, Ordering::Relaxed);
        if let Some(poster) = self.poster.get() {
            // Still posted means that it wakes up anyway.
            let _ = poster.post(&self.wake, Work { run: &nothing::<P>, cookie: 0 });
        }
        let guard = loop {
            match self.context.try_lock() {
                Some(guard) => break guard,
                None => rest(),
            }
        };
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// The context, if nobody has or wants it.
    pub(crate) fn try_enter(&self) -> Option<ContextGuard<'_, P>> {
        if self.is_wanted() { None } else { self.context.try_lock() }
    }
}
