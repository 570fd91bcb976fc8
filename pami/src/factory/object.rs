//! Communication objects in memory of those who call (SPEC M-3).
//!
//! The object lies there from the call to its last callback. To be found by the answers of its packets it needs the
//! number of one of the context's places besides. If none is free it waits for one, in the order of the calls; places
//! that become free go to those that wait, so nobody else finds one before.

use crate::context::Active;
use crate::device::{Path, Port};
use crate::error::OperationError;
use crate::operation::{Action, Operation};
use spin::{Mutex, MutexGuard};

/// An object in the caller's memory, held as long as it has a place.
pub(crate) type Loan<P> = MutexGuard<'static, Option<Operation<P>>>;

/// Memory for one communication object, the caller's: an instruction that is passed it needs no other and so never
/// fails with [`SendError::Again`](crate::SendError::Again). What is in it is nobody else's matter. 376 bytes, of
/// alignment 8, on machines of 64 bits.
///
/// It is free at first, and again when the last callback of its operation is called.
pub struct ObjectMemory<P: Port> {
    operation: Mutex<Option<Operation<P>>>,
    /// The one that waits behind it.
    next: Mutex<Option<&'static ObjectMemory<P>>>,
}

impl<P: Port> ObjectMemory<P> {
    /// Its size in bytes, on ports like this.
    pub const SIZE: usize = size_of::<Self>();
    /// Its alignment in bytes.
    pub const ALIGN: usize = align_of::<Self>();

    /// Free memory.
    pub const fn new() -> Self {
        Self { operation: Mutex::new(None), next: Mutex::new(None) }
    }

    /// Whether it holds an operation. A moment later it may be otherwise.
    pub fn is_busy(&self) -> bool {
        self.operation.try_lock().is_none_or(|operation| operation.is_some())
    }

    /// Takes it, unless it holds an operation.
    pub(crate) fn take(&'static self) -> Option<Loan<P>> {
        self.operation.try_lock().filter(|operation| operation.is_none())
    }
}

impl<P: Port> Default for ObjectMemory<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// The objects of a context that wait for a place, oldest first.
pub(crate) struct Waiting<P: Port> {
    ends: Option<(&'static ObjectMemory<P>, &'static ObjectMemory<P>)>,
}

impl<P: Port> Waiting<P> {
    pub(crate) fn new() -> Self {
        Self { ends: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// Whether one of them is to go over `path`, or to many targets.
    pub(crate) fn has(&self, path: Path) -> bool {
        let mut next = self.ends.map(|(first, _)| first);
        while let Some(memory) = next {
            let way = memory.operation.lock().as_ref().map(|operation| operation.path);
            if way.is_some_and(|way| way.is_none_or(|way| way == path)) {
                return true;
            }
            next = *memory.next.lock();
        }
        false
    }

    fn push(&mut self, memory: &'static ObjectMemory<P>) {
        *memory.next.lock() = None;
        if let Some((_, last)) = self.ends {
            *last.next.lock() = Some(memory);
        }
        let first = self.ends.map_or(memory, |(first, _)| first);
        self.ends = Some((first, memory));
    }

    fn pop(&mut self) -> Option<&'static ObjectMemory<P>> {
        let (first, last) = self.ends?;
        let next = first.next.lock().take();
        self.ends = next.map(|next| (next, last));
        Some(first)
    }
}

impl<P: Port> Active<P> {
    /// Lets an object wait for a place.
    pub(crate) fn wait_for_place(&mut self, memory: &'static ObjectMemory<P>) {
        self.operations.waiting.push(memory);
        // Nothing quick may overtake it.
        self.transport.forget_route();
    }

    /// Gives a place that is free to the object that waits longest.
    #[cold]
    #[inline(never)]
    pub(crate) fn admit(&mut self, number: u8) {
        let Some(memory) = self.operations.waiting.pop() else { return };
        self.operations.lend(number, memory.operation.lock());
        let Some(operation) = self.operations.get(number) else { return };
        let (path, target, order) = (operation.path, operation.target, operation.order);
        let fence = matches!(operation.action, Action::Fence(_));
        if let Some(Path::Torus(_)) = path
            && !fence
            && let Some(error) = self.gone_home(target)
        {
            self.give_up(number, error);
            self.spoil_fences(order, target, error);
            self.stir();
        } else if self.carry_out_at_once(number) {
            self.operations.settling |= 1 << number;
            self.stir();
        } else {
            self.launch(number, path);
        }
    }

    /// Carries out what takes no packets. Returns whether there was such.
    fn carry_out_at_once(&mut self, number: u8) -> bool {
        let Some(operation) = self.operations.get(number) else { return false };
        let local = matches!(operation.path, Some(Path::Local(_)));
        let (port, target) = (&mut self.transport.port, operation.target);
        let outcome = match &mut operation.action {
            Action::Put(state) if local => state.carry_out(port, target),
            Action::Get(state) if local || state.is_empty() => state.carry_out(port, target),
            Action::Fetch(state) if local => {
                state.carry_out(port, target).map(|old| operation.remote_done.fetched(old))
            }
            _ => return false,
        };
        (operation.queued, operation.awaits) = (true, false);
        operation.result = outcome.map_err(OperationError::Region);
        operation.action = Action::Over;
        true
    }
}
