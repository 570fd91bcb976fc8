//! A virtual communication interface (VCI): a context of the library, with what belongs to it, and what is left to do.
//!
//! Everything of a communicator happens in one VCI: its messages, its requests, its collectives.

use crate::callbacks::Callbacks;
use crate::collective::Collectives;
use crate::communicators::Communicators;
use crate::error::{Error, Result};
use crate::lags::{Lag, Lags};
use crate::message::{At, Messages, Wanted};
use crate::protocols::{Protocols, windows};
use crate::request::{Activity, Awaited, OWN, Requests, Slot};
use crate::settings::Settings;
use crate::window::Windows;
use base::{Lane, fill};
use core::sync::atomic::{AtomicU32, Ordering};
use pami::client::Node;
use pami::device::Port;
use pami::{Active, Endpoint};
use spin::Mutex;

/// Empty tests without a lock behind one with it.
const LOOKS: u32 = 4;

/// What a VCI's handlers and callers change, with the context at hand as far as anything goes to others: a receive may be posted,
/// or take a message that waits, and a request be looked at and taken without.
pub(crate) struct State {
    pub(crate) requests: Requests,
    pub(crate) messages: Messages,
    pub(crate) communicators: Communicators,
    pub(crate) collectives: Collectives,
    pub(crate) windows: Windows,
    /// The endpoint that the context is.
    pub(crate) me: Endpoint,
    /// While the library is not finalized.
    pub(crate) protocols: Option<Protocols>,
}

impl State {
    /// Takes the memory that the settings say.
    pub(crate) fn new<N: Node>(
        node: &N,
        vci: u8,
        (activity, alive): (Activity, Activity),
        settings: &Settings,
    ) -> Result<Self> {
        let requests = fill(node, "requests", usize::from(settings.requests) + OWN, Slot::new)?;
        Ok(Self {
            requests: Requests::new(vci, requests, activity),
            messages: Messages::new(node, settings)?,
            communicators: Communicators::new(node, alive, settings)?,
            collectives: Collectives::new(node, settings)?,
            windows: Windows::new(node, settings)?,
            me: Endpoint::from_bits(u64::MAX),
            protocols: None,
        })
    }

    /// The factories of windows.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    pub(crate) fn window_protocols(&self) -> Result<&windows::WindowProtocols> {
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
        Ok(At { active, requests, messages, protocols, lags: &vci.lags, callbacks })
    }

    /// Whether a message waits that is wanted.
    pub(crate) fn has_waiting(&self, wanted: &Wanted) -> bool {
        self.messages.has_waiting(wanted)
    }
}

/// A virtual communication interface: a context and what belongs to it.
#[repr(C)]
pub(crate) struct Vci<P: Port> {
    /// Every call looks at these: here their offsets are short.
    pub(crate) lags: Lags,
    pub(crate) activity: Activity,
    pub(crate) awaited: Awaited,
    /// Empty tests that may go by a look at the bell alone ([`rests_on`](Self::rests_on)).
    looks: AtomicU32,
    pub(crate) state: Mutex<State>,
    pub(crate) lane: Lane<P>,
    /// Which communicators it has.
    pub(crate) alive: Activity,
}

impl<P: Port> Vci<P> {
    /// Without memory so far, but for what is said of its requests.
    pub(crate) fn new(activity: Activity, alive: Activity) -> Self {
        let requests = Requests::new(0, &mut [], activity);
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
                me: Endpoint::from_bits(u64::MAX),
                protocols: None,
            }),
            lags: Lags::default(),
            activity,
            awaited: Awaited::default(),
            looks: AtomicU32::new(0),
            alive,
        }
    }

    /// Whether something waits for room below.
    #[inline]
    pub(crate) fn lags(&self) -> bool {
        self.lags.any()
    }

    /// Whether nothing has come since its context was found [at rest](Self::note_rest): of a few looks each is at one word, and
    /// needs no lock. What tells nobody, such as a timer, they overlook.
    #[inline(always)]
    pub(crate) fn rests_on(&'static self) -> bool {
        let left = self.looks.load(Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        if !self.lane.is_quiet() {
            // What has come may begin something.
            self.note_begun();
            return false;
        }
        self.looks.store(left - 1, Ordering::Relaxed);
        true
    }

    /// Something began that an advance may carry on: the next test looks.
    #[inline(always)]
    pub(crate) fn note_begun(&self) {
        self.looks.store(0, Ordering::Relaxed);
    }

    /// Its context was found at rest by whoever has it.
    #[inline(always)]
    pub(crate) fn note_rest(&self) {
        self.looks.store(LOOKS, Ordering::Relaxed);
    }

    /// Something of its messages is to go to a peer, such as credit, and the caller has not the context: whoever sleeps with it
    /// sends that, or the next one who advances it.
    #[cold]
    pub(crate) fn hasten(&'static self) {
        self.note_begun();
        self.lags.set(Lag::Messages);
        self.lane.nudge();
    }

    /// Goes on with what found no room below.
    pub(crate) fn catch_up(&self, active: &mut Active<P>, callbacks: &Callbacks<P>) {
        if self.lags.take(Lag::Messages)
            && let Ok(mut at) = self.state.lock().at(active, self, callbacks)
        {
            at.go_on();
        }
        if self.lags.take(Lag::Deaths) {
            if let Ok(mut at) = self.state.lock().at(active, self, callbacks) {
                at.reclaim_from_dead();
            }
            self.look_after(active, callbacks);
        }
        if self.lags.take(Lag::Collectives) {
            let mut state = self.state.lock();
            let State { collectives, requests, protocols, .. } = &mut *state;
            let Some(protocols) = protocols else { return };
            collectives.go_on(active, requests, (callbacks, protocols));
            if collectives.are_waiting() {
                self.lags.set(Lag::Collectives);
            }
        }
        if self.lags.take(Lag::Answers) {
            let State { windows, protocols, .. } = &mut *self.state.lock();
            let Some(protocols) = protocols else { return };
            if windows.go_on_answering(active, &protocols.windows) {
                self.lags.set(Lag::Answers);
            }
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
