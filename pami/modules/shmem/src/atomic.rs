//! Atomics: updates of single words (SPEC P-7), each atomic against all others of that word, whoever makes them.
//!
//! Those that fetch return what the word was. Those that do not, and the `nbi` forms, return at once:
//! [`quiet`](Shmem::quiet) says when they have been carried out, and what a `nbi` form fetches is in its `fetch` of this PE.

use crate::error::Error;
use crate::library::{Shmem, endpoint};
use crate::number::{Integer, Word};
use crate::operations::{Keeper, Operation};
use crate::symmetric::Sym;
use pami::{Node, Rmw, RmwOp, Update};

macro_rules! operators {
    ($($plain:ident, $fetch:ident, $nbi:ident, $update:ident, $what:literal;)*) => {$(
        #[doc = concat!("Makes the first element of `dest` of PE `pe` its ", $what, " `value`.")]
        ///
        /// # Errors
        /// [`Error::Short`], [`Error::Pe`], [`Error::Send`]
        pub fn $plain<T: Integer>(&self, dest: Sym<T>, value: T, pe: u32) -> Result<(), Error> {
            self.update_later(dest, Update::$update(value.to_bits()), pe, None)
        }

        #[doc = concat!("As [`", stringify!($plain), "`](Self::", stringify!($plain), "). Returns what it was.")]
        ///
        /// # Errors
        /// As there; [`Error::Operation`].
        pub fn $fetch<T: Integer>(&self, dest: Sym<T>, value: T, pe: u32) -> Result<T, Error> {
            self.update_now(dest, Update::$update(value.to_bits()), pe)
        }

        #[doc = concat!("As [`", stringify!($fetch), "`](Self::", stringify!($fetch), "), without waiting.")]
        ///
        /// # Errors
        /// As there.
        pub fn $nbi<T: Integer>(&self, fetch: Sym<T>, dest: Sym<T>, value: T, pe: u32) -> Result<(), Error> {
            self.update_later(dest, Update::$update(value.to_bits()), pe, Some(fetch))
        }
    )*};
}

impl<N: Node> Shmem<N> {
    operators! {
        atomic_add, atomic_fetch_add, atomic_fetch_add_nbi, Add, "sum with";
        atomic_and, atomic_fetch_and, atomic_fetch_and_nbi, And, "bitwise and with";
        atomic_or, atomic_fetch_or, atomic_fetch_or_nbi, Or, "bitwise or with";
        atomic_xor, atomic_fetch_xor, atomic_fetch_xor_nbi, Xor, "bitwise exclusive or with";
    }

    /// Adds 1 to the first element of `dest` of PE `pe`.
    ///
    /// # Errors
    /// As [`atomic_add`](Self::atomic_add).
    pub fn atomic_inc<T: Integer>(&self, dest: Sym<T>, pe: u32) -> Result<(), Error> {
        self.update_later(dest, Update::Add(1), pe, None)
    }

    /// As [`atomic_inc`](Self::atomic_inc). Returns what it was.
    ///
    /// # Errors
    /// As [`atomic_fetch_add`](Self::atomic_fetch_add).
    pub fn atomic_fetch_inc<T: Integer>(&self, dest: Sym<T>, pe: u32) -> Result<T, Error> {
        self.update_now(dest, Update::Add(1), pe)
    }

    /// As [`atomic_fetch_inc`](Self::atomic_fetch_inc), without waiting.
    ///
    /// # Errors
    /// As [`atomic_add`](Self::atomic_add).
    pub fn atomic_fetch_inc_nbi<T: Integer>(
        &self,
        fetch: Sym<T>,
        dest: Sym<T>,
        pe: u32,
    ) -> Result<(), Error> {
        self.update_later(dest, Update::Add(1), pe, Some(fetch))
    }

    /// The first element of `source` of PE `pe`.
    ///
    /// # Errors
    /// As [`atomic_fetch_add`](Self::atomic_fetch_add).
    pub fn atomic_fetch<T: Word>(&self, source: Sym<T>, pe: u32) -> Result<T, Error> {
        self.update_now(source, Update::Or(0), pe)
    }

    /// As [`atomic_fetch`](Self::atomic_fetch), without waiting.
    ///
    /// # Errors
    /// As [`atomic_add`](Self::atomic_add).
    pub fn atomic_fetch_nbi<T: Word>(&self, fetch: Sym<T>, source: Sym<T>, pe: u32) -> Result<(), Error> {
        self.update_later(source, Update::Or(0), pe, Some(fetch))
    }

    /// Makes the first element of `dest` of PE `pe` `value`.
    ///
    /// # Errors
    /// As [`atomic_add`](Self::atomic_add).
    pub fn atomic_set<T: Word>(&self, dest: Sym<T>, value: T, pe: u32) -> Result<(), Error> {
        self.update_later(dest, Update::Swap(value.to_bits()), pe, None)
    }

    /// As [`atomic_set`](Self::atomic_set). Returns what it was.
    ///
    /// # Errors
    /// As [`atomic_fetch_add`](Self::atomic_fetch_add).
    pub fn atomic_swap<T: Word>(&self, dest: Sym<T>, value: T, pe: u32) -> Result<T, Error> {
        self.update_now(dest, Update::Swap(value.to_bits()), pe)
    }

    /// As [`atomic_swap`](Self::atomic_swap), without waiting.
    ///
    /// # Errors
    /// As [`atomic_add`](Self::atomic_add).
    pub fn atomic_swap_nbi<T: Word>(
        &self,
        fetch: Sym<T>,
        dest: Sym<T>,
        value: T,
        pe: u32,
    ) -> Result<(), Error> {
        self.update_later(dest, Update::Swap(value.to_bits()), pe, Some(fetch))
    }

    /// Makes the first element of `dest` of PE `pe` `value` if it is `cond`, bit for bit. Returns what it was.
    ///
    /// # Errors
    /// As [`atomic_fetch_add`](Self::atomic_fetch_add).
    pub fn atomic_compare_swap<T: Integer>(
        &self,
        dest: Sym<T>,
        cond: T,
        value: T,
        pe: u32,
    ) -> Result<T, Error> {
        let update = Update::CompareSwap { expected: cond.to_bits(), new: value.to_bits() };
        self.update_now(dest, update, pe)
    }

    /// As [`atomic_compare_swap`](Self::atomic_compare_swap), without waiting.
    ///
    /// # Errors
    /// As [`atomic_add`](Self::atomic_add).
    pub fn atomic_compare_swap_nbi<T: Integer>(
        &self,
        fetch: Sym<T>,
        dest: Sym<T>,
        cond: T,
        value: T,
        pe: u32,
    ) -> Result<(), Error> {
        let update = Update::CompareSwap { expected: cond.to_bits(), new: value.to_bits() };
        self.update_later(dest, update, pe, Some(fetch))
    }

    fn update_now<T: Word>(&self, dest: Sym<T>, update: Update, pe: u32) -> Result<T, Error> {
        let (op, operations) = (RmwOp { width: T::WIDTH, update }, self.operations()?);
        let at = self.update(dest, op, pe, Operation { keeper: Keeper::Call, callbacks: 1, into: None })?;
        self.advance_until(|_| operations.is_called(at))?;
        Ok(T::from_bits(operations.leave(at)?))
    }

    fn update_later<T: Word>(
        &self,
        dest: Sym<T>,
        update: Update,
        pe: u32,
        fetch: Option<Sym<T>>,
    ) -> Result<(), Error> {
        let into = match fetch {
            Some(fetch) if fetch.is_empty() => return Err(Error::Short { has: 0, wanted: 1 }),
            fetch => fetch.map(|fetch| (fetch.offset(), T::WIDTH)),
        };
        let operation = Operation { keeper: Keeper::Quiet, callbacks: 1, into };
        self.update(dest, RmwOp { width: T::WIDTH, update }, pe, operation).map(drop)
    }

    /// Begins an update. Returns its place.
    pub(crate) fn update<T: Word>(
        &self,
        dest: Sym<T>,
        op: RmwOp,
        pe: u32,
        operation: Operation,
    ) -> Result<usize, Error> {
        let (region, offset) = (self.heap_of(pe)?, dest.offset());
        if dest.is_empty() {
            return Err(Error::Short { has: 0, wanted: 1 });
        }
        self.begin(operation, |active, start| {
            let (target, done) =
                (endpoint::<N>(active, pe), Some(self.inner.completions.fetched(start.cookie)));
            start.factories.rmw.execute_in(start.object, active, Rmw { target, region, offset, op, done })
        })
    }
}
