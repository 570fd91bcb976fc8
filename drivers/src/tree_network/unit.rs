//! The tree adapter of a node, shared by its harts (SPEC N-8, P-3).
//!
//! All contexts of a node share one tree, so there is a lock around it. It is held for single packets, never while
//! anybody sleeps; what takes time, the combination, is the network's work.
//!
//! **Nobody sleeps through what has come.** The interrupt goes to one hart, and any hart may take the arrivals in. So
//! every hart notes what had come when it began its last [look](TreeUnit::look) at everything it waits for; if more has come
//! in since, whoever took it in, and even in the middle of that look, it does not fall asleep but looks again. Who takes
//! something in wakes all that sleep. All of that is under the lock.

use super::adapter::TreeAdapter;
use super::counters::{TreeCounters, TreeFaults};
use super::shipped::ShippedCall;
use crate::backoff::Backoff;
use crate::nic::{Acknowledge, Nic};
use crate::platform::{MOST_HARTS, Platform};
use core::marker::PhantomData;
use pami::combine::{AluOperation, ClassRoute, InjectError, Role, RouteMembers, Status, TreeArrival};
use pami::device::CollectiveNetwork;
use spin::Mutex;

/// Tag of requests whose owner tells the others which route they got.
const UNTAGGED: u32 = u32::MAX;
/// Longest sleep of a hart that waits for frames to leave.
const DRAIN_NS: u64 = 1_000_000;

struct Shared<N: Nic> {
    adapter: TreeAdapter<N>,
    /// Harts that sleep, a bit each.
    sleeping: u64,
    /// Times that something came in.
    epoch: u64,
    /// The epoch when each hart began its last look, or tried to fall asleep.
    seen: [u64; MOST_HARTS],
}

/// A node's tree.
pub struct TreeUnit<P: Platform, N: Nic = <P as Platform>::Card> {
    shared: Mutex<Shared<N>>,
    interrupt: N::Interrupt,
    payload: usize,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform, N: Nic> TreeUnit<P, N> {
    /// The adapter, for all harts.
    pub fn new(adapter: TreeAdapter<N>) -> Self {
        let (interrupt, payload) = (adapter.interrupt(), adapter.payload());
        let shared = Shared { adapter, sleeping: 0, epoch: 0, seen: [0; MOST_HARTS] };
        Self { shared: Mutex::new(shared), interrupt, payload, platform: PhantomData }
    }

    /// Tells the network that this node is up, and waits until it answers.
    pub fn join(&self) {
        let mut calls = Backoff::new();
        while !self.with(|adapter| adapter.is_welcome()) {
            if calls.is_due(P::now_ns()) {
                self.with(TreeAdapter::hello);
            }
            P::wait(Some(calls.next()), || self.acknowledge());
        }
    }

    /// Returns when the device has sent everything.
    pub fn drain(&self) {
        while !self.with(TreeAdapter::is_drained) {
            P::wait(Some(P::now_ns() + DRAIN_NS), || self.acknowledge());
        }
    }

    /// Takes in what has come, does `what` with the adapter, and sends.
    pub fn with<R>(&self, what: impl FnOnce(&mut TreeAdapter<N>) -> R) -> R {
        let hart = P::hart() % MOST_HARTS;
        let mut shared = self.shared.lock();
        let wake = shared.advance(hart);
        let result = what(&mut shared.adapter);
        shared.adapter.flush();
        drop(shared);
        // Whoever wakes up wants the lock.
        wake_all::<P>(wake);
        result
    }

    /// The calling hart is about to look at everything it waits for, and then to fall asleep.
    pub fn look(&self) {
        let hart = P::hart() % MOST_HARTS;
        let mut shared = self.shared.lock();
        shared.seen[hart] = shared.epoch;
    }

    /// The calling hart is about to sleep. Returns whether it must not: something has come in since it began its last look,
    /// or last tried. If it may, whatever comes next ends its sleep.
    pub fn fall_asleep(&self) -> bool {
        let hart = P::hart() % MOST_HARTS;
        let mut shared = self.shared.lock();
        let mut wake = shared.advance(hart);
        while shared.seen[hart] == shared.epoch && shared.adapter.arm() {
            wake |= shared.advance(hart);
            // If nothing has come, then there is room again, and anybody may wait for it.
            shared.epoch += 1;
            wake |= shared.sleeping & !(1 << hart);
        }
        let fresh = shared.seen[hart] != shared.epoch;
        shared.seen[hart] = shared.epoch;
        shared.sleeping |= u64::from(!fresh) << hart;
        shared.adapter.flush();
        drop(shared);
        wake_all::<P>(wake);
        fresh
    }

    /// The calling hart sleeps no more.
    pub fn wake_up(&self) {
        self.shared.lock().sleeping &= !(1 << (P::hart() % MOST_HARTS));
    }

    /// Acknowledges the card's interrupt.
    pub fn acknowledge(&self) {
        self.interrupt.acknowledge();
    }

    /// Most bytes of one contribution or broadcast; a multiple of 8.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// See [`TreeAdapter::role`].
    pub fn role(&self, route: ClassRoute) -> Option<Role> {
        self.with(|adapter| adapter.role(route))
    }

    /// See [`TreeAdapter::find`].
    pub fn find(&self, owner: u32, tag: u32) -> Option<ClassRoute> {
        self.with(|adapter| adapter.find(owner, tag))
    }

    /// See [`TreeAdapter::contribute`].
    ///
    /// # Errors
    /// Likewise.
    pub fn contribute(
        &self,
        route: ClassRoute,
        operation: AluOperation,
        sequence: u32,
        payload: &[u8],
    ) -> Result<(), InjectError> {
        let (len, fill) = (payload.len(), |into: &mut [u8]| into.copy_from_slice(payload));
        self.with(|adapter| adapter.contribute(route, operation, sequence, len, fill))
    }

    /// See [`TreeAdapter::broadcast`].
    ///
    /// # Errors
    /// Likewise.
    pub fn broadcast(&self, route: ClassRoute, sequence: u32, payload: &[u8]) -> Result<(), InjectError> {
        let (len, fill) = (payload.len(), |into: &mut [u8]| into.copy_from_slice(payload));
        self.with(|adapter| adapter.broadcast(route, sequence, len, fill))
    }

    /// Hands the oldest arrival on `route` to `take`, and frees its buffer if that says so. Returns whether it did.
    pub fn receive(&self, route: ClassRoute, take: impl FnOnce(&TreeArrival<'_>) -> bool) -> bool {
        self.with(|adapter| {
            let done = adapter.front(route).is_some_and(|arrival| take(&arrival));
            if done {
                adapter.take(route);
            }
            done
        })
    }

    /// See [`TreeAdapter::allocate`].
    ///
    /// # Errors
    /// Likewise.
    pub fn allocate(&self, tag: u32, members: &[RouteMembers]) -> Result<(), InjectError> {
        self.with(|adapter| adapter.allocate(tag, members))
    }

    /// See [`TreeAdapter::answer`].
    pub fn answer(&self) -> Option<Result<ClassRoute, Status>> {
        self.with(TreeAdapter::answer)
    }

    /// See [`TreeAdapter::release`].
    ///
    /// # Errors
    /// Likewise.
    pub fn release(&self, route: ClassRoute) -> Result<(), InjectError> {
        self.with(|adapter| adapter.release(route))
    }

    /// See [`TreeAdapter::ship`].
    ///
    /// # Errors
    /// Likewise.
    pub fn ship(&self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<ShippedCall, InjectError> {
        self.with(|adapter| adapter.ship(len, fill))
    }

    /// Hands the answer to a call to `take`, once it has come; the call is over then.
    pub fn reply<R>(&self, call: ShippedCall, take: impl FnOnce(Status, &[u8]) -> R) -> Option<R> {
        self.with(|adapter| {
            let taken = adapter.reply(call).map(|(status, payload)| take(status, payload))?;
            adapter.leave(call);
            Some(taken)
        })
    }

    /// The caller waits for the answer no more.
    pub fn leave(&self, call: ShippedCall) {
        self.with(|adapter| adapter.leave(call));
    }

    /// What went through so far, and what went wrong.
    pub fn statistics(&self) -> (TreeCounters, TreeFaults) {
        let shared = self.shared.lock();
        (shared.adapter.counters(), shared.adapter.faults())
    }
}

impl<P: Platform, N: Nic> CollectiveNetwork for &'static TreeUnit<P, N> {
    fn payload(&self) -> usize {
        self.payload
    }

    fn role(&self, route: ClassRoute) -> Option<Role> {
        TreeUnit::role(self, route)
    }

    fn contribute(
        &self,
        route: ClassRoute,
        operation: AluOperation,
        sequence: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), InjectError> {
        self.with(|adapter| adapter.contribute(route, operation, sequence, len, fill))
    }

    fn broadcast(
        &self,
        route: ClassRoute,
        sequence: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), InjectError> {
        self.with(|adapter| adapter.broadcast(route, sequence, len, fill))
    }

    fn receive(&self, route: ClassRoute, take: impl FnOnce(&TreeArrival<'_>)) -> bool {
        TreeUnit::receive(self, route, |arrival| {
            take(arrival);
            true
        })
    }

    fn allocate(&self, members: &[RouteMembers]) -> Result<(), InjectError> {
        // Geometries tell their members which route it is; tags are for those that find it by themselves.
        TreeUnit::allocate(self, UNTAGGED, members)
    }

    fn answer(&self) -> Option<Result<ClassRoute, Status>> {
        TreeUnit::answer(self)
    }

    fn release(&self, route: ClassRoute) -> Result<(), InjectError> {
        TreeUnit::release(self, route)
    }
}

impl<N: Nic> Shared<N> {
    /// Takes in what has come; returns the harts to wake for it.
    fn advance(&mut self, hart: usize) -> u64 {
        if !self.adapter.advance() {
            return 0;
        }
        self.epoch += 1;
        self.sleeping & !(1 << hart)
    }
}

/// Wakes the harts of a set.
fn wake_all<P: Platform>(mut harts: u64) {
    while harts != 0 {
        P::wake(harts.trailing_zeros() as usize);
        harts &= harts - 1;
    }
}
