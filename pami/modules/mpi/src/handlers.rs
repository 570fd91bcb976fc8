//! The functions that the layer below calls, made once for an instance.

use crate::callbacks::Callbacks;
use crate::division::Division;
use crate::error::{Error, Result};
use crate::lags::Lag;
use crate::library::Library;
use crate::message::{At, Taken};
use crate::protocols::{Handlers, windows};
use crate::status::Status;
use crate::vci::{State, Vci};
use crate::window::Name;
use base::{Completions, place};
use pami::client::Node;
use pami::device::Port;
use pami::dispatch::Fetched;
use pami::{
    Active, CollectError, Completion, Done, GeometryId, Message, OperationError, Part, Progress, Receive,
};
use spin::MutexGuard;

type Context<N> = Active<<N as Node>::Port>;

impl<N: Node> Library<N> {
    /// The VCI of the context that calls.
    fn vci_of(&self, active: &Context<N>) -> Option<&'static Vci<N::Port>> {
        self.only.or_else(|| self.vcis.get(usize::from(active.endpoint().context().0)))
    }

    /// A message that is not [taken at once](crate::message::Messages::take_at_once), at a VCI whose state the caller has.
    #[inline(never)]
    fn message_came(
        &'static self,
        active: &mut Context<N>,
        (vci, mut state): (&'static Vci<N::Port>, MutexGuard<'_, State>),
        message: &Message<'_>,
    ) -> Receive<N::Port> {
        let State { messages, requests, .. } = &mut *state;
        if messages.take_or_keep(requests, &vci.lags, message) {
            return Receive::Done;
        }
        let Some(callbacks) = self.callbacks.get() else { return Receive::Done };
        let Ok(mut at) = state.at(active, vci, callbacks) else { return Receive::Done };
        at.message_came(message)
    }

    /// The sender of a message that was taken at once is credited, at a VCI whose state the caller has.
    #[inline(never)]
    fn credit_taken(
        (vci, mut state): (&'static Vci<N::Port>, MutexGuard<'_, State>),
        message: &Message<'_>,
    ) -> Receive<N::Port> {
        state.messages.credit_taken(&vci.lags, message);
        Receive::Done
    }

    /// Calls `work` with what belongs to the context that calls.
    fn at<T>(
        &'static self,
        active: &mut Context<N>,
        work: impl FnOnce(&mut At<'_, N::Port>) -> T,
    ) -> Option<T> {
        let vci = self.vci_of(active)?;
        let callbacks = self.callbacks.get()?;
        let mut state = vci.state.lock();
        state.at(active, vci, callbacks).ok().map(|mut at| work(&mut at))
    }
}

/// What completes requests.
pub(crate) fn callbacks<N: Node>(library: &'static Library<N>) -> Result<Callbacks<N::Port>> {
    let node = library.node;
    let ended = place(node, "callbacks", move |active: &mut Context<N>, completion: Completion| {
        let error = completion.result.err().map(Into::into);
        let Some(vci) = library.vci_of(active) else { return };
        let State { requests, collectives, .. } = &mut *vci.state.lock();
        if let Some(slot) = requests.of_cookie(completion.cookie) {
            let ended = collectives.end(slot, Status { error, ..Status::EMPTY });
            // It goes on itself, or what waited for it does.
            let goes_on = ended.is_none() || collectives.are_waiting();
            if let Some(status) = ended {
                requests.complete(slot, status);
            }
            if goes_on {
                vci.lags.set(Lag::Collectives);
            }
        }
    })?;
    let copied = place(node, "callbacks", move |active: &mut Context<N>, completion: Completion| {
        library.at(active, |at| at.copied(completion.cookie, completion.result));
    })?;
    let pulled = place(node, "callbacks", move |active: &mut Context<N>, completion: Completion| {
        library.at(active, |at| at.pulled(completion.cookie, completion.result));
    })?;
    let part = place(node, "callbacks", move |active: &mut Context<N>, part: &Part<'_>| {
        library.at(active, |at| at.part_came(part));
    })?;
    let deaths = place(node, "callbacks", move |active: &mut Context<N>| {
        if let Some(vci) = library.vci_of(active) {
            vci.lags.set(Lag::Deaths);
        }
    })?;
    let divisible = library.settings.lock().divisible();
    // The world has one of the places.
    let others = divisible.saturating_sub(1);
    let division = if divisible > 0 { Some(&*place(node, "slices", Division::new(others))?) } else { None };
    Ok(Callbacks { ended, copied, pulled, part, deaths, eager_limit: &library.eager_limit, division })
}

/// Has the contexts, which are open, share collectives.
pub(crate) fn open_division<N: Node>(library: &'static Library<N>) -> Result<()> {
    let (node, Some(division)) = (library.node, library.callbacks()?.division) else { return Ok(()) };
    let ended = &*place(node, "callbacks", move |_: &mut Context<N>, completion: Completion| {
        division.ended(completion.result);
    })?;
    let begin = place(node, "callbacks", move |active: &mut Context<N>, number: usize| {
        let done = Done { call: ended, cookie: number };
        let Some(slice) = division.slice(number, done) else { return Progress::Done };
        let Some(vci) = library.vci_of(active) else { return Progress::Done };
        let (geometry, state) = (slice.geometry, vci.state.lock());
        let Some(protocols) = &state.protocols else { return Progress::Done };
        let Err(error) = protocols.collectives.collect(active, slice) else { return Progress::Done };
        give_up(active, geometry, error, done).unwrap_or_else(|error| {
            division.ended(Err(error));
            Progress::Done
        })
    })?;
    let finish = place(node, "callbacks", move |active: &mut Context<N>, _: usize| {
        if let Some((done, result)) = division.finish() {
            let (target, cookie) = (active.endpoint(), done.cookie);
            (done.call)(active, Completion { target, buffer: None, result, cookie });
        }
        Progress::Done
    })?;
    let posters = library.vcis.iter().filter_map(|vci| vci.lane.poster()).collect();
    division.open(posters, begin, finish);
    Ok(())
}

/// A slice cannot begin for want of room now, and is tried again, or not at all: then the other processes hear of it.
///
/// # Errors
/// How it ends, if not even that can be told.
fn give_up<P: Port>(
    active: &mut Active<P>,
    geometry: GeometryId,
    error: CollectError,
    done: Done<P>,
) -> core::result::Result<Progress, OperationError> {
    let passes = |error| matches!(error, CollectError::Full { .. } | CollectError::NotCreated(_));
    if passes(error) {
        return Ok(Progress::Again);
    }
    let reason = Error::from(error).class() as u16;
    match active.abandon(geometry, reason, done) {
        Ok(()) => Ok(Progress::Done),
        Err(error) if passes(error) => Ok(Progress::Again),
        Err(CollectError::Dead(node)) => Err(OperationError::NodeDead(node)),
        Err(_) => Err(OperationError::Abandoned { rank: 0, reason }),
    }
}

/// What takes messages in.
pub(crate) fn of_messages<N: Node>(library: &'static Library<N>) -> Result<Handlers<N::Port>> {
    let node = library.node;
    let message = place(node, "callbacks", move |active: &mut Context<N>, message: &Message<'_>| {
        let Some(vci) = library.vci_of(active) else { return Receive::Done };
        let mut state = vci.state.lock();
        let State { messages, requests, .. } = &mut *state;
        match messages.take_at_once(requests, &vci.awaited, message) {
            Taken::Whole => Receive::Done,
            // What these return is long, and is written once.
            Taken::Uncredited => Library::<N>::credit_taken((vci, state), message),
            Taken::Not => library.message_came(active, (vci, state), message),
        }
    })?;
    let control = place(node, "callbacks", move |active: &mut Context<N>, message: &Message<'_>| {
        library.at(active, |at| at.control_came(message));
        Receive::Done
    })?;
    let data = place(node, "callbacks", move |active: &mut Context<N>, message: &Message<'_>| {
        library.at(active, |at| at.data_arrived(message)).unwrap_or(Receive::Done)
    })?;
    Ok(Handlers { message, control, data })
}

/// What ends operations of windows.
pub(crate) fn of_accesses<N: Node>(library: &'static Library<N>) -> Result<Completions<N::Port>> {
    let done = move |active: &mut Context<N>, completion: Completion| {
        let (Some(vci), Some(name)) = (library.vci_of(active), Name::of_cookie(completion.cookie)) else {
            return;
        };
        let State { windows, requests, .. } = &mut *vci.state.lock();
        windows.ended(requests, name, completion.result.map_err(Error::from));
    };
    let fetched = move |active: &mut Context<N>, fetched: Fetched| {
        let Some(vci) = library.vci_of(active) else { return };
        let State { windows, requests, .. } = &mut *vci.state.lock();
        windows.fetched(requests, fetched.cookie, fetched.result.map_err(Error::from));
    };
    Ok(Completions::new(library.node, done, fetched)?)
}

/// What takes windows' messages in.
pub(crate) fn of_windows<N: Node>(library: &'static Library<N>) -> Result<windows::WindowHandlers<N::Port>> {
    let node = library.node;
    let request = place(node, "callbacks", move |active: &mut Context<N>, message: &Message<'_>| {
        if let Some(vci) = library.vci_of(active) {
            let State { windows, protocols: Some(protocols), .. } = &mut *vci.state.lock() else {
                return Receive::Done;
            };
            if windows.request_came(active, message, &protocols.windows) {
                vci.lags.set(Lag::Answers);
            }
        }
        Receive::Done
    })?;
    let reply = place(node, "callbacks", move |active: &mut Context<N>, message: &Message<'_>| {
        if let Some(vci) = library.vci_of(active) {
            let State { windows, requests, .. } = &mut *vci.state.lock();
            windows.reply_came(requests, message);
        }
        Receive::Done
    })?;
    let signal = place(node, "callbacks", move |active: &mut Context<N>, message: &Message<'_>| {
        if let Some(vci) = library.vci_of(active) {
            vci.state.lock().windows.signal_came(message);
        }
        Receive::Done
    })?;
    Ok(windows::WindowHandlers { request, reply, signal })
}
