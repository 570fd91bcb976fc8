//! Waiting and testing (the standard's wait, test, any, some, all).

use crate::error::{Error, Result};
use crate::library::{Library, Mpi};
use crate::request::Request;
use crate::status::Status;
use crate::vci::Vci;
use base::Guard;
use pami::Context;
use pami::client::Node;
use pami::device::Port;

/// The place of a request that is complete, and its status or why it failed.
pub type Ended = (usize, Result<Status>);

impl<N: Node> Library<N> {
    /// Whether a request is seen to be active, without a lock.
    #[inline]
    fn seems_active(&self, request: &Request) -> bool {
        self.vcis.get(request.vci()).is_some_and(|vci| vci.activity.has(request))
    }

    /// The status of a request if it is complete; it is null then, or inactive.
    #[inline]
    fn look(&self, request: &mut Request) -> Result<Option<Status>> {
        if request.is_nowhere() {
            *request = Request::NULL;
            return Ok(Some(Status::EMPTY));
        }
        self.vci(request.vci())?.state.lock().requests.take(request, |status| Ok(status.copied()))
    }

    /// Whether waiting for a request would return at once.
    fn is_over(&self, request: &Request) -> Result<bool> {
        if request.is_nowhere() {
            return Ok(true);
        }
        if self.seems_active(request) {
            return Ok(false);
        }
        self.vci(request.vci())?.state.lock().requests.is_over(*request)
    }

    /// Whether it is neither null nor inactive.
    fn is_active(&self, request: &Request) -> Result<bool> {
        if request.is_nowhere() {
            return Ok(!request.is_null());
        }
        self.vci(request.vci())?.state.lock().requests.is_started(*request)
    }

    /// As [`test`](Mpi::test), of a request of the only VCI.
    #[inline(never)]
    fn test_with(
        &self,
        vci: &'static Vci<N::Port>,
        mut guard: Guard<N::Port>,
        request: &mut Request,
    ) -> Result<Option<Status>> {
        let (moved, told) = self.advance_for(vci, &mut guard, request)?;
        if let Some(told) = told {
            return Ok(Some(told.status()));
        }
        if moved == 0 {
            if guard.as_mut().is_some_and(Context::rests) {
                vci.note_rest();
            }
            return Ok(None);
        }
        drop(guard);
        if vci.activity.has_of_first(request) { Ok(None) } else { take(vci, request, Ok) }
    }
}

/// The status of a request of a VCI if it is complete, which is null then, or inactive: `tell` makes of it what is returned, so
/// that it is written once.
#[inline(always)]
fn take<P: Port, T>(
    vci: &Vci<P>,
    request: &mut Request,
    tell: impl FnOnce(Option<Status>) -> Result<T>,
) -> Result<T> {
    vci.state.lock().requests.take(request, |status| match status {
        None => tell(None),
        Some(&Status { source, tag, len, cancelled, error: None }) => {
            tell(Some(Status { source, tag, len, cancelled, error: None }))
        }
        Some(Status { error: Some(error), .. }) => Err(*error),
    })
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
        let Some(vci) = self.library.only else { return self.wait_all_over(request) };
        if vci.activity.has_of_first(request) {
            // What is waited for mostly lies ready.
            if let Some(mut guard) = vci.lane.try_enter()
                && let (_, Some(told)) = self.library.advance_for(vci, &mut guard, request)?
            {
                return Ok(told.status());
            }
            if vci.activity.has_of_first(request) {
                return self.wait_all_over(request);
            }
        }
        if request.vci() != 0 {
            return self.wait_all_over(request);
        }
        take(vci, request, |status| status.ok_or(Error::Request))
    }

    /// As [`wait`](Self::wait), of any request, for however long.
    #[inline(never)]
    fn wait_all_over(&self, request: &mut Request) -> Result<Status> {
        if request.is_nowhere() {
            *request = Request::NULL;
            return Ok(Status::EMPTY);
        }
        let (library, home) = (self.library, request.vci());
        if library.seems_active(request) {
            library.advance()?;
        }
        while library.seems_active(request) {
            library.wait_until(home, || !library.seems_active(request))?;
        }
        take(library.vci(home)?, request, |status| status.ok_or(Error::Request))
    }

    /// `MPI_Test`: the status if the request is complete.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn test(&self, request: &mut Request) -> Result<Option<Status>> {
        if let Some(vci) = self.library.only {
            if !vci.activity.has_of_first(request) {
                return self.ended(request);
            }
            // Of what nothing became since it was seen active, nothing is to be told.
            if vci.rests_on() {
                return Ok(None);
            }
            if let Some(guard) = vci.lane.try_enter() {
                return self.library.test_with(vci, guard, request);
            }
        }
        self.test_all_over(request)
    }

    /// As [`test`](Self::test), of any request.
    #[inline(never)]
    fn test_all_over(&self, request: &mut Request) -> Result<Option<Status>> {
        if self.library.seems_active(request) && self.library.advance()? == 0 {
            return Ok(None);
        }
        self.ended(request)
    }

    /// The status if the request is complete.
    #[inline(never)]
    fn ended(&self, request: &mut Request) -> Result<Option<Status>> {
        if request.is_nowhere() {
            *request = Request::NULL;
            return Ok(Some(Status::EMPTY));
        }
        take(self.library.vci(request.vci())?, request, Ok)
    }

    /// `MPI_Request_get_status`: as [`test`](Self::test), and the request stays.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn request_get_status(&self, request: &Request) -> Result<Option<Status>> {
        if !self.library.is_over(request)? {
            self.library.advance()?;
        }
        if request.is_nowhere() {
            return Ok(Some(Status::EMPTY));
        }
        self.library.vci(request.vci())?.state.lock().requests.peek(*request)
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
                found = Found::Active(request.vci());
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
    /// One is under way in this VCI.
    Active(usize),
}
