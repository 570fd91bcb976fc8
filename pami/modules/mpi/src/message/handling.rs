//! The functions that the layer below calls, made once for an instance.

use super::At;
use crate::error::Result;
use crate::lane::{Lane, State};
use crate::library::{Library, place};
use crate::protocols::Handlers;
use crate::status::Status;
use core::sync::atomic::{AtomicUsize, Ordering};
use pami::client::Node;
use pami::device::Port;
use pami::{Active, Completion, Done, Message, OnPart, Part, Receive};

type OnDone<P> = &'static (dyn Fn(&mut Active<P>, Completion) + Sync);

/// Callbacks that requests give to the layer below.
pub(crate) struct Handling<P: Port> {
    ended: OnDone<P>,
    copied: OnDone<P>,
    part: &'static (dyn Fn(&mut Active<P>, &Part<'_>) + Sync),
    eager_limit: &'static AtomicUsize,
}

impl<N: Node> Library<N> {
    /// Calls `work` with what belongs to the context that calls.
    fn at<T>(
        &'static self,
        active: &mut Active<N::Port>,
        work: impl FnOnce(&mut At<'_, N::Port>) -> T,
    ) -> Option<T> {
        let lane: &Lane<N::Port> = self.lanes.get(usize::from(active.endpoint().context().0))?;
        let handling = self.handling.get()?;
        let mut state = lane.state.lock();
        At::new(active, &mut state, lane, handling).ok().map(|mut at| work(&mut at))
    }
}

impl<P: Port> Handling<P> {
    pub(crate) fn new<N: Node<Port = P>>(library: &'static Library<N>) -> Result<Self> {
        let node = library.node;
        let ended = place(node, move |active: &mut Active<P>, completion: Completion| {
            let error = completion.result.err().map(Into::into);
            let Some(lane) = library.lanes.get(usize::from(active.endpoint().context().0)) else { return };
            let State { requests, collectives, .. } = &mut *lane.state.lock();
            if let Some(slot) = requests.of_cookie(completion.cookie) {
                match collectives.end(slot, Status { error, ..Status::EMPTY }) {
                    Some(status) => requests.complete(slot, status),
                    None => lane.collecting.store(true, Ordering::Relaxed),
                }
            }
        })?;
        let copied = place(node, move |active: &mut Active<P>, completion: Completion| {
            library.at(active, |at| at.copied(completion.cookie, completion.result));
        })?;
        let part = place(node, move |active: &mut Active<P>, part: &Part<'_>| {
            library.at(active, |at| at.part_came(part));
        })?;
        Ok(Self { ended, copied, part, eager_limit: &library.eager_limit })
    }

    /// What completes a request of a collective or a window, known by its cookie.
    pub(crate) fn ended(&self, cookie: usize) -> Done<P> {
        Done { call: self.ended, cookie }
    }

    /// What tells a send that its data was read.
    pub(super) fn copied(&self, cookie: usize) -> Done<P> {
        Done { call: self.copied, cookie }
    }

    /// What takes parts of a message in.
    pub(super) fn part(&self, cookie: usize) -> OnPart<P> {
        OnPart { call: self.part, cookie }
    }

    pub(super) fn eager_limit(&self) -> usize {
        self.eager_limit.load(Ordering::Relaxed)
    }

    pub(crate) fn handlers<N: Node<Port = P>>(library: &'static Library<N>) -> Result<Handlers<P>> {
        let node = library.node;
        let message = place(node, move |active: &mut Active<P>, message: &Message<'_>| {
            library.at(active, |at| at.message_came(message)).unwrap_or(Receive::Done)
        })?;
        let control = place(node, move |active: &mut Active<P>, message: &Message<'_>| {
            library.at(active, |at| at.control_came(message));
            Receive::Done
        })?;
        let data = place(node, move |active: &mut Active<P>, message: &Message<'_>| {
            library.at(active, |at| at.data_arrived(message)).unwrap_or(Receive::Done)
        })?;
        Ok(Handlers { message, control, data })
    }
}

impl<P: Port> Lane<P> {
    /// Goes on with what found no room below.
    pub(crate) fn go_on(&self, active: &mut Active<P>, handling: &Handling<P>) {
        let mut state = self.state.lock();
        self.pending.store(false, Ordering::Relaxed);
        let Ok(mut at) = At::new(active, &mut state, self, handling) else { return };
        at.go_on();
        if at.messages.waits() {
            self.pending.store(true, Ordering::Relaxed);
        }
    }
}
