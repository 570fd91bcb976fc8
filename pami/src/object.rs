//! Memory of those who call, for one communication object each, and the line of objects that wait in it (SPEC M-3).
//!
//! What lies here knows nothing of whose object it is: operations, collectives and receptions each have a type of memory of
//! their own, made by [`caller_memory`].

use spin::{Mutex, MutexGuard};

/// An object in the caller's memory, held as long as somebody works on it.
pub(crate) type Loan<T> = MutexGuard<'static, Option<T>>;

/// Memory for one object.
pub(crate) struct CallerMemory<T: 'static> {
    object: Mutex<Option<T>>,
    /// The one that waits behind it.
    next: Mutex<Option<&'static CallerMemory<T>>>,
}

impl<T: 'static> CallerMemory<T> {
    /// Free memory.
    pub(crate) const fn new() -> Self {
        Self { object: Mutex::new(None), next: Mutex::new(None) }
    }

    /// Whether it holds an object. A moment later it may be otherwise.
    pub(crate) fn is_busy(&self) -> bool {
        self.object.try_lock().is_none_or(|object| object.is_some())
    }

    /// That of an object that has waited.
    pub(crate) fn resume(&'static self) -> Loan<T> {
        self.object.lock()
    }

    /// Takes it, unless it holds an object.
    pub(crate) fn take(&'static self) -> Option<Loan<T>> {
        self.object.try_lock().filter(|object| object.is_none())
    }
}

/// Objects that wait, oldest first.
pub(crate) struct WaitingLine<T: 'static> {
    ends: Option<(&'static CallerMemory<T>, &'static CallerMemory<T>)>,
}

impl<T: 'static> WaitingLine<T> {
    pub(crate) const EMPTY: Self = Self { ends: None };

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// Whether `holds` holds for one of them.
    pub(crate) fn any(&self, holds: impl Fn(&T) -> bool) -> bool {
        let mut next = self.ends.map(|(first, _)| first);
        while let Some(memory) = next {
            if memory.object.lock().as_ref().is_some_and(&holds) {
                return true;
            }
            next = *memory.next.lock();
        }
        false
    }

    pub(crate) fn push(&mut self, memory: &'static CallerMemory<T>) {
        *memory.next.lock() = None;
        if let Some((_, last)) = self.ends {
            *last.next.lock() = Some(memory);
        }
        let first = self.ends.map_or(memory, |(first, _)| first);
        self.ends = Some((first, memory));
    }

    pub(crate) fn pop(&mut self) -> Option<&'static CallerMemory<T>> {
        let (first, last) = self.ends?;
        let next = first.next.lock().take();
        self.ends = next.map(|next| (next, last));
        Some(first)
    }
}

/// Makes the type of memory that callers bring for one sort of object: of the right size and alignment, with contents that are
/// nobody else's matter.
macro_rules! caller_memory {
    ($(#[$doc:meta])* $name:ident, $object:ty) => {
        $(#[$doc])*
        pub struct $name<A: 'static>(pub(crate) $crate::object::CallerMemory<$object>);

        impl<A: 'static> $name<A> {
            /// Its size in bytes, on ports like this.
            pub const SIZE: usize = size_of::<Self>();
            /// Its alignment in bytes.
            pub const ALIGN: usize = align_of::<Self>();

            /// Free memory.
            pub const fn new() -> Self {
                Self($crate::object::CallerMemory::new())
            }

            /// Whether it holds an object. A moment later it may be otherwise.
            pub fn is_busy(&self) -> bool {
                self.0.is_busy()
            }
        }

        impl<A: 'static> Default for $name<A> {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}
pub(crate) use caller_memory;
