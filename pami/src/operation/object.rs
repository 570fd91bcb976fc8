//! Communication objects in memory of those who call (SPEC M-3).
//!
//! The object lies there from the call to its last callback. To be found by the answers of its packets it needs the
//! number of one of the context's places besides. If none is free it waits for one, in the order of the calls; places
//! that become free go to those that wait, so nobody else finds one before.

use super::Operation;
use crate::device::Path;
use spin::{Mutex, MutexGuard};

/// An object in the caller's memory, held as long as it has a place.
pub(crate) type Loan<A> = MutexGuard<'static, Option<Operation<A>>>;

/// Memory for one communication object, the caller's: an instruction that is passed it needs no other and so never
/// fails with [`SendError::Again`](crate::SendError::Again). What is in it is nobody else's matter. 368 bytes, of
/// alignment 8, on machines of 64 bits.
///
/// It is free at first, and again when the last callback of its operation is called.
pub struct ObjectMemory<A: 'static> {
    operation: Mutex<Option<Operation<A>>>,
    /// The one that waits behind it.
    next: Mutex<Option<&'static ObjectMemory<A>>>,
}

impl<A: 'static> ObjectMemory<A> {
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

    /// That of an operation that waited for a place.
    pub(crate) fn resume(&'static self) -> Loan<A> {
        self.operation.lock()
    }

    /// Takes it, unless it holds an operation.
    pub(crate) fn take(&'static self) -> Option<Loan<A>> {
        self.operation.try_lock().filter(|operation| operation.is_none())
    }
}

impl<A: 'static> Default for ObjectMemory<A> {
    fn default() -> Self {
        Self::new()
    }
}

/// The objects of a context that wait for a place, oldest first.
pub(crate) struct WaitingObjects<A: 'static> {
    ends: Option<(&'static ObjectMemory<A>, &'static ObjectMemory<A>)>,
}

impl<A: 'static> WaitingObjects<A> {
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

    pub(crate) fn push(&mut self, memory: &'static ObjectMemory<A>) {
        *memory.next.lock() = None;
        if let Some((_, last)) = self.ends {
            *last.next.lock() = Some(memory);
        }
        let first = self.ends.map_or(memory, |(first, _)| first);
        self.ends = Some((first, memory));
    }

    pub(crate) fn pop(&mut self) -> Option<&'static ObjectMemory<A>> {
        let (first, last) = self.ends?;
        let next = first.next.lock().take();
        self.ends = next.map(|next| (next, last));
        Some(first)
    }
}
