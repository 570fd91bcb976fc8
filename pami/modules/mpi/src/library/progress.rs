//! Progress: whoever waits advances all contexts that nobody else has.

use super::Library;
use crate::error::{Error, Result};
use crate::request::{Request, Told};
use crate::settings::CONTEXTS;
use crate::vci::{State, Vci};
use base::Guard;
use core::sync::atomic::Ordering;
use heapless::Vec;
use pami::client::Node;
use pami::{Active, Context, wait_on};

/// Longest wait between two attempts of what found no room below.
const RETRY_NS: u64 = 1_000_000;
/// Longest wait between two looks after nodes that may have died.
const LOOK_NS: u64 = 250_000_000;

impl<N: Node> Library<N> {
    /// Advances all contexts until `until` holds; sleeps while there is nothing to do. `home` is the VCI that it
    /// depends on; the others are advanced as well unless other threads do so, since what they have under way may be
    /// waited for. If another thread has `home`, that one advances it.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    pub(crate) fn wait_until(&self, home: usize, mut until: impl FnMut() -> bool) -> Result<()> {
        let home = self.vci(home)?;
        let division = if self.only.is_none() { self.division() } else { None };
        if let Some(division) = division {
            division.waiting.fetch_add(1, Ordering::Relaxed);
        }
        let mut outcome = Ok(());
        while outcome.is_ok() && !until() {
            outcome = match home.lane.try_enter() {
                Some(guard) => self.wait_with(home, guard, &mut until),
                None => self.advance().map(|_| self.node.rest()),
            };
        }
        if let Some(division) = division {
            division.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        outcome
    }

    /// Most contexts that a thread which waits takes: all, but of several threads each has its share while a collective is divided
    /// among the contexts.
    fn share(&self) -> usize {
        let division = self.division().filter(|division| division.token.is_taken());
        let sharers = division.map_or(1, |division| division.waiting.load(Ordering::Relaxed).max(1));
        self.vcis.len().div_ceil(sharers as usize)
    }

    /// Waits with a VCI until `until` holds, somebody wants a context, or some time has passed.
    fn wait_with(
        &self,
        home: &'static Vci<N::Port>,
        guard: Guard<N::Port>,
        until: &mut impl FnMut() -> bool,
    ) -> Result<()> {
        let (mut vcis, mut guards) = (Vec::<_, CONTEXTS>::new(), Vec::<_, CONTEXTS>::new());
        let _ = (vcis.push(home), guards.push(guard));
        let several = self.only.is_none();
        let share = if several { self.share() } else { 1 };
        for vci in self.vcis.iter().filter(|vci| !core::ptr::eq(*vci, home)) {
            if vcis.len() < share
                && let Some(guard) = vci.lane.try_enter()
            {
                let _ = (vcis.push(vci), guards.push(guard));
            }
        }
        let mut contexts = Vec::<&mut Context<N::Port>, CONTEXTS>::new();
        for guard in &mut guards {
            let _ = contexts.push(guard.as_mut().ok_or(Error::Finalized)?);
        }
        let callbacks = self.callbacks()?;
        let lagging = vcis.iter().any(|vci| vci.lags());
        let shares = share < self.vcis.len();
        // What nobody has any more is looked after soon.
        let timeout = self.timeout(if lagging || shares { RETRY_NS } else { LOOK_NS });
        let held = wait_on(&mut contexts, timeout, |contexts| {
            let (mut wanted, mut lags) = (false, false);
            for (vci, context) in vcis.iter().zip(contexts) {
                if vci.lags() {
                    vci.catch_up(context, callbacks);
                    lags |= vci.lags();
                }
                wanted |= vci.lane.is_wanted();
            }
            // What began to lag needs another timeout.
            wanted || until() || (lags && !lagging) || (several && self.share() != share)
        });
        if !held {
            for (vci, context) in vcis.iter().zip(&mut contexts) {
                vci.look_after(context, callbacks);
            }
        }
        Ok(())
    }

    /// Advances all contexts once that nobody else has. Returns how much of what is under way there has moved.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    #[inline]
    pub(crate) fn advance(&self) -> Result<usize> {
        let mut moved = 0;
        for vci in self.vcis {
            let Some(mut guard) = vci.lane.try_enter() else { continue };
            let context = guard.as_mut().ok_or(Error::Finalized)?;
            if !context.rests() || vci.lags() {
                moved += self.advance_vci(vci, context)?;
            }
        }
        Ok(moved)
    }

    #[inline(never)]
    fn advance_vci(&self, vci: &Vci<N::Port>, context: &mut Context<N::Port>) -> Result<usize> {
        let mut moved = context.advance();
        if vci.lags() {
            vci.catch_up(context, self.callbacks()?);
            moved += 1;
        }
        Ok(moved)
    }

    /// Advances a VCI for a request of it, by what is new, or by the first message of that. Returns as [`advance`](Self::advance),
    /// and what is told of it if that was handed over: it is null then.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    #[inline(always)]
    pub(crate) fn advance_for(
        &self,
        vci: &'static Vci<N::Port>,
        guard: &mut Guard<N::Port>,
        request: &mut Request,
    ) -> Result<(usize, Option<Told>)> {
        let context = guard.as_mut().ok_or(Error::Finalized)?;
        vci.awaited.begin(request);
        let moved = context.advance_by_one();
        let handed_over = vci.awaited.end(request);
        let lagged = vci.lags();
        if lagged {
            self.catch_up(vci, context)?;
        }
        Ok((moved + usize::from(lagged), handed_over))
    }

    #[inline(never)]
    fn catch_up(&self, vci: &Vci<N::Port>, context: &mut Context<N::Port>) -> Result<()> {
        vci.catch_up(context, self.callbacks()?);
        Ok(())
    }

    /// Calls `attempt` with a VCI's context until it finds room, which is `Some`; sleeps while there is nothing to do.
    ///
    /// # Errors
    /// What `attempt` returns; [`Error::Finalized`].
    pub(crate) fn retry<T>(
        &self,
        home: usize,
        mut attempt: impl FnMut(&mut Active<N::Port>, &mut State) -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            let mut outcome = Ok(None);
            self.wait_in(home, RETRY_NS, |active, vci| {
                outcome = attempt(active, &mut vci.state.lock());
                !matches!(outcome, Ok(None))
            })?;
            if let Some(done) = outcome? {
                return Ok(done);
            }
            self.advance()?;
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
        self.wait_in(home, ns, |_, _| false)
    }

    /// Advances a VCI until `until` holds, for about so many nanoseconds.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    fn wait_in(
        &self,
        home: usize,
        ns: u64,
        mut until: impl FnMut(&mut Active<N::Port>, &Vci<N::Port>) -> bool,
    ) -> Result<()> {
        let (callbacks, vci) = (self.callbacks()?, self.vci(home)?);
        let waited = vci.lane.wait_for(
            || self.node.rest(),
            self.timeout(ns),
            |active| {
                if vci.lags() {
                    vci.catch_up(active, callbacks);
                }
                until(active, vci)
            },
        );
        waited.map(drop).ok_or(Error::Finalized)
    }

    /// How long a wait may last: whoever may not sleep looks again at once.
    fn timeout(&self, ns: u64) -> u64 {
        if self.sleeps.load(Ordering::Relaxed) { ns } else { 0 }
    }
}
