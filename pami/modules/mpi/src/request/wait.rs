//! Waiting and testing (the standard's wait, test, any, some, all).

use super::Request;
use crate::error::{Error, Result};
use crate::lane::{ContextGuard, Lane, State};
use crate::library::{Library, Mpi};
use crate::status::Status;
use core::sync::atomic::Ordering;
use heapless::Vec;
use pami::client::Node;
use pami::{Active, Context, wait_on};

/// Most contexts of a library.
pub(crate) const LANES: usize = 8;
/// Longest wait between two attempts of what found no room below.
const RETRY_NS: u64 = 1_000_000;
/// Longest wait between two looks after nodes that may have died.
const LOOK_NS: u64 = 250_000_000;

/// The place of a request that is complete, and its status or why it failed.
pub type Ended = (usize, Result<Status>);

impl<N: Node> Library<N> {
    /// Advances all contexts until `until` holds; sleeps while there is nothing to do. `home` is the lane that it
    /// depends on; the others are advanced as well unless other threads do so, since what they have under way may be
    /// waited for. If another thread has `home`, that one advances it.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    pub(crate) fn wait_until(&self, home: usize, mut until: impl FnMut() -> bool) -> Result<()> {
        let home = self.lane(home)?;
        while !until() {
            match home.try_enter() {
                Some(guard) => self.wait_with(home, guard, &mut until)?,
                None => {
                    self.advance()?;
                    self.node.rest();
                }
            }
        }
        Ok(())
    }

    /// Waits with a lane until `until` holds, somebody wants a context, or some time has passed.
    fn wait_with(
        &self,
        home: &'static Lane<N::Port>,
        guard: ContextGuard<'static, N::Port>,
        until: &mut impl FnMut() -> bool,
    ) -> Result<()> {
        let (mut lanes, mut guards) = (Vec::<_, LANES>::new(), Vec::<_, LANES>::new());
        let _ = (lanes.push(home), guards.push(guard));
        for lane in self.lanes.iter().filter(|lane| !core::ptr::eq(*lane, home)) {
            if let Some(guard) = lane.try_enter() {
                let _ = (lanes.push(lane), guards.push(guard));
            }
        }
        let mut contexts = Vec::<&mut Context<N::Port>, LANES>::new();
        for guard in &mut guards {
            let _ = contexts.push(guard.as_mut().ok_or(Error::Finalized)?);
        }
        let handling = self.handling.get().ok_or(Error::Finalized)?;
        let lagging = lanes.iter().any(|lane| lane.lags());
        let timeout = match (self.sleeps.load(Ordering::Relaxed), lagging) {
            (false, _) => 0,
            (true, true) => RETRY_NS,
            (true, false) => LOOK_NS,
        };
        let held = wait_on(&mut contexts, timeout, |contexts| {
            let (mut wanted, mut lags) = (false, false);
            for (lane, context) in lanes.iter().zip(contexts) {
                if lane.lags() {
                    lane.catch_up(context, handling);
                    lags |= lane.lags();
                }
                wanted |= lane.is_wanted();
            }
            // What began to lag needs another timeout.
            wanted || until() || (lags && !lagging)
        });
        if !held {
            for (lane, context) in lanes.iter().zip(&mut contexts) {
                lane.look_after(context, handling);
            }
        }
        Ok(())
    }

    /// Advances all contexts once that nobody else has.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    pub(crate) fn advance(&self) -> Result<()> {
        let handling = self.handling.get().ok_or(Error::Finalized)?;
        for lane in self.lanes {
            let Some(mut guard) = lane.try_enter() else { continue };
            let context = guard.as_mut().ok_or(Error::Finalized)?;
            context.advance();
            if lane.lags() {
                lane.catch_up(context, handling);
            }
        }
        Ok(())
    }

    /// Calls `attempt` with a lane's context until it finds room, which is `Some`; sleeps while there is nothing to do.
    ///
    /// # Errors
    /// What `attempt` returns; [`Error::Finalized`].
    pub(crate) fn retry<T>(
        &self,
        home: usize,
        mut attempt: impl FnMut(&mut Active<N::Port>, &mut State) -> Result<Option<T>>,
    ) -> Result<T> {
        if let Some(done) = self.enter(home, &mut attempt)? {
            return Ok(done);
        }
        let handling = self.handling.get().ok_or(Error::Finalized)?;
        let lane = self.lane(home)?;
        loop {
            self.advance()?;
            let mut guard = lane.enter(|| self.node.rest());
            let context = guard.as_mut().ok_or(Error::Finalized)?;
            let ns = if self.sleeps.load(Ordering::Relaxed) { RETRY_NS } else { 0 };
            let mut outcome = Ok(None);
            context.wait_for(ns, |active| {
                if lane.lags() {
                    lane.catch_up(active, handling);
                }
                outcome = attempt(active, &mut lane.state.lock());
                !matches!(outcome, Ok(None)) || lane.is_wanted()
            });
            if let Some(done) = outcome? {
                return Ok(done);
            }
        }
    }

    /// Advances all contexts; sleeps for a while if there is nothing to do. For attempts that found no room.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    pub(crate) fn rest(&self, home: usize) -> Result<()> {
        self.pause(home, RETRY_NS)
    }

    /// Advances all contexts, and one of them for about so many nanoseconds; it sleeps while there is nothing to do.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    pub(crate) fn pause(&self, home: usize, ns: u64) -> Result<()> {
        self.advance()?;
        let handling = self.handling.get().ok_or(Error::Finalized)?;
        let lane = self.lane(home)?;
        let mut guard = lane.enter(|| self.node.rest());
        let context = guard.as_mut().ok_or(Error::Finalized)?;
        let ns = if self.sleeps.load(Ordering::Relaxed) { ns } else { 0 };
        context.wait_for(ns, |active| {
            if lane.lags() {
                lane.catch_up(active, handling);
            }
            lane.is_wanted()
        });
        Ok(())
    }

    /// The status of a request if it is complete; it is null then, or inactive.
    fn look(&self, request: &mut Request) -> Result<Option<Status>> {
        if request.is_null() {
            return Ok(Some(Status::EMPTY));
        }
        self.lane(request.lane())?.state.lock().requests.take(request)
    }

    /// Whether waiting for a request would return at once.
    fn is_over(&self, request: &Request) -> Result<bool> {
        if request.is_null() {
            return Ok(true);
        }
        self.lane(request.lane())?.state.lock().requests.is_over(*request)
    }

    /// Whether it is neither null nor inactive.
    fn is_active(&self, request: &Request) -> Result<bool> {
        if request.is_null() {
            return Ok(false);
        }
        self.lane(request.lane())?.state.lock().requests.is_started(*request)
    }
}

fn outcome(status: Status) -> Result<Status> {
    status.error.map_or(Ok(status), Err)
}

/// What is told of several requests: each status with its error, which makes it one for all.
fn outcomes(statuses: &[Status]) -> Result<()> {
    if statuses.iter().any(|status| status.error.is_some()) { Err(Error::InStatus) } else { Ok(()) }
}

impl<N: Node> Mpi<N> {
    /// `MPI_Wait`: waits until the request is complete; it is null then, or inactive if it is persistent.
    ///
    /// # Errors
    /// [`Error::Request`], or why the operation did not end well.
    pub fn wait(&self, request: &mut Request) -> Result<Status> {
        loop {
            if let Some(status) = self.library.look(request)? {
                return outcome(status);
            }
            let home = request.lane();
            self.library.wait_until(home, || self.library.is_over(request).unwrap_or(true))?;
        }
    }

    /// `MPI_Test`: the status if the request is complete.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn test(&self, request: &mut Request) -> Result<Option<Status>> {
        if !self.library.is_over(request)? {
            self.library.advance()?;
        }
        self.library.look(request)?.map(outcome).transpose()
    }

    /// `MPI_Request_get_status`: as [`test`](Self::test), and the request stays.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn request_get_status(&self, request: &Request) -> Result<Option<Status>> {
        if !self.library.is_over(request)? {
            self.library.advance()?;
        }
        if request.is_null() {
            return Ok(Some(Status::EMPTY));
        }
        self.library.lane(request.lane())?.state.lock().requests.peek(*request)
    }

    /// `MPI_Waitall`: waits until all are complete, and writes their statuses, as far as there is room.
    ///
    /// # Errors
    /// [`Error::InStatus`] if some failed, with the reasons in their statuses.
    pub fn wait_all(&self, requests: &mut [Request], statuses: &mut [Status]) -> Result<()> {
        let mut failed = Ok(());
        for (place, request) in requests.iter_mut().enumerate() {
            let status = match self.wait(request) {
                Ok(status) => status,
                Err(error) => {
                    failed = Err(Error::InStatus);
                    Status::failed(error)
                }
            };
            if let Some(into) = statuses.get_mut(place) {
                *into = status;
            }
        }
        failed
    }

    /// `MPI_Testall`: as [`wait_all`](Self::wait_all) if all are complete, else nothing. Returns whether they are.
    ///
    /// # Errors
    /// As [`wait_all`](Self::wait_all).
    pub fn test_all(&self, requests: &mut [Request], statuses: &mut [Status]) -> Result<bool> {
        self.library.advance()?;
        for request in requests.iter() {
            if !self.library.is_over(request)? {
                return Ok(false);
            }
        }
        self.wait_all(requests, statuses).map(|()| true)
    }

    /// `MPI_Waitany`: waits until one is complete and returns its place, with its status or why it failed; `None`
    /// (`MPI_UNDEFINED`) if none is active.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn wait_any(&self, requests: &mut [Request]) -> Result<Option<Ended>> {
        loop {
            match self.find_any(requests)? {
                Found::None => return Ok(None),
                Found::Over(place) => return self.take_any(requests, place).map(Some),
                Found::Active(home) => self.wait_some_change(home, requests)?,
            }
        }
    }

    /// `MPI_Testany`: as [`wait_any`](Self::wait_any), without waiting. `Some(None)` if none is active.
    ///
    /// # Errors
    /// As [`wait_any`](Self::wait_any).
    pub fn test_any(&self, requests: &mut [Request]) -> Result<Option<Option<Ended>>> {
        self.library.advance()?;
        match self.find_any(requests)? {
            Found::None => Ok(Some(None)),
            Found::Over(place) => self.take_any(requests, place).map(|found| Some(Some(found))),
            Found::Active(_) => Ok(None),
        }
    }

    /// `MPI_Waitsome`: waits until some are complete. Writes their places and statuses, and returns how many these are, with
    /// [`Error::InStatus`] if some of them failed: their statuses say which and why. `None` if none is active. What finds no
    /// room in the slices stays for the next call.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn wait_some(
        &self,
        requests: &mut [Request],
        places: &mut [usize],
        statuses: &mut [Status],
    ) -> Result<Option<(usize, Result<()>)>> {
        loop {
            match self.find_any(requests)? {
                Found::None => return Ok(None),
                Found::Over(_) => return self.take_some(requests, places, statuses).map(Some),
                Found::Active(home) => self.wait_some_change(home, requests)?,
            }
        }
    }

    /// `MPI_Testsome`: as [`wait_some`](Self::wait_some), without waiting; 0 of them if none is complete.
    ///
    /// # Errors
    /// As [`wait_some`](Self::wait_some).
    pub fn test_some(
        &self,
        requests: &mut [Request],
        places: &mut [usize],
        statuses: &mut [Status],
    ) -> Result<Option<(usize, Result<()>)>> {
        self.library.advance()?;
        match self.find_any(requests)? {
            Found::None => Ok(None),
            _ => self.take_some(requests, places, statuses).map(Some),
        }
    }

    fn find_any(&self, requests: &[Request]) -> Result<Found> {
        let mut found = Found::None;
        for (place, request) in requests.iter().enumerate() {
            if self.library.is_active(request)? {
                if self.library.is_over(request)? {
                    return Ok(Found::Over(place));
                }
                found = Found::Active(request.lane());
            }
        }
        Ok(found)
    }

    fn take_any(&self, requests: &mut [Request], place: usize) -> Result<Ended> {
        let request = requests.get_mut(place).ok_or(Error::Request)?;
        // It was found complete.
        let status = self.library.look(request)?.unwrap_or(Status::EMPTY);
        Ok((place, outcome(status)))
    }

    fn take_some(
        &self,
        requests: &mut [Request],
        places: &mut [usize],
        statuses: &mut [Status],
    ) -> Result<(usize, Result<()>)> {
        let mut count = 0;
        for (place, request) in requests.iter_mut().enumerate() {
            if !self.library.is_active(request)? || !self.library.is_over(request)? {
                continue;
            }
            let (Some(at), Some(into)) = (places.get_mut(count), statuses.get_mut(count)) else { break };
            *at = place;
            *into = self.library.look(request)?.unwrap_or(Status::EMPTY);
            count += 1;
        }
        Ok((count, outcomes(&statuses[..count])))
    }

    fn wait_some_change(&self, home: usize, requests: &[Request]) -> Result<()> {
        let over = |request: &Request| {
            let active = self.library.is_active(request).unwrap_or(true);
            active && self.library.is_over(request).unwrap_or(true)
        };
        self.library.wait_until(home, || requests.iter().any(over))
    }
}

/// What a look at several requests finds.
enum Found {
    /// None of them is active.
    None,
    /// The one at this place is complete.
    Over(usize),
    /// One is under way in this lane.
    Active(usize),
}
