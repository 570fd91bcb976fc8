//! Callbacks that requests give to the layer below, made once for an instance.

use crate::division::Division;
use core::sync::atomic::{AtomicUsize, Ordering};
use pami::device::Port;
use pami::{Active, Completion, Done, OnDeaths, OnPart, Part};

type OnDone<P> = &'static (dyn Fn(&mut Active<P>, Completion) + Sync);

/// What the layer below calls of requests, and how messages go.
pub(crate) struct Callbacks<P: Port> {
    pub(crate) ended: OnDone<P>,
    pub(crate) copied: OnDone<P>,
    pub(crate) pulled: OnDone<P>,
    pub(crate) part: &'static (dyn Fn(&mut Active<P>, &Part<'_>) + Sync),
    /// What hears that nodes are gone.
    pub(crate) deaths: OnDeaths<P>,
    pub(crate) eager_limit: &'static AtomicUsize,
    /// By which contexts share collectives, if there are several.
    pub(crate) division: Option<&'static Division<P>>,
}

impl<P: Port> Callbacks<P> {
    /// What completes a request of a collective or a window, known by its cookie.
    pub(crate) fn ended(&self, cookie: usize) -> Done<P> {
        Done { call: self.ended, cookie }
    }

    /// What tells a send that its data was read.
    pub(crate) fn copied(&self, cookie: usize) -> Done<P> {
        Done { call: self.copied, cookie }
    }

    /// What tells a receive that its data is there.
    pub(crate) fn pulled(&self, cookie: usize) -> Done<P> {
        Done { call: self.pulled, cookie }
    }

    /// What takes parts of a message in.
    pub(crate) fn part(&self, cookie: usize) -> OnPart<P> {
        OnPart { call: self.part, cookie }
    }

    pub(crate) fn eager_limit(&self) -> usize {
        self.eager_limit.load(Ordering::Relaxed)
    }
}
