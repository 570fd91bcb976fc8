//! A virtual communication interface (VCI): a context of the library, with what belongs to it, and what is left to do.
//!
//! Everything of a communicator happens in one VCI: its messages, its requests, its collectives.

use crate::callbacks::Callbacks;
use crate::collective::Collectives;
use crate::communicators::Communicators;
use crate::error::{Error, Result};
use crate::message::{At, Messages, Wanted};
use crate::protocols::{Protocols, windows};
use crate::request::{OWN, Requests, Slot};
use crate::settings::Settings;
use crate::window::Windows;
use base::{Lane, fill};
use core::sync::atomic::{AtomicBool, Ordering};
use pami::Active;
use pami::client::Node;
use pami::device::Port;
use spin::Mutex;

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
            requests: Requests::new(
                vci,
                fill(node, "requests", usize::from(settings.requests) + OWN, Slot::new)?,
            ),
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
#[repr(C)]
pub(crate) struct Vci<P: Port> {
    /// Something waits for room below. Every call looks at these three: here their offsets are short.
    pub(crate) pending: AtomicBool,
    /// A collective does.
    pub(crate) collecting: AtomicBool,
    /// An answer of a window does.
    pub(crate) answering: AtomicBool,
    pub(crate) state: Mutex<State>,
    pub(crate) lane: Lane<P>,
}

impl<P: Port> Vci<P> {
    pub(crate) fn new() -> Self {
        let requests = Requests::new(0, &mut []);
        let (messages, communicators) = (Messages::default(), Communicators::default());
        let (collectives, windows) = (Collectives::default(), Windows::default());
        Self {
            lane: Lane::default(),
            state: Mutex::new(State {
                requests,
                messages,
                communicators,
                collectives,
                windows,
                protocols: None,
            }),
            pending: AtomicBool::new(false),
            collecting: AtomicBool::new(false),
            answering: AtomicBool::new(false),
        }
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
}
