//! Atomics: updates of single words (SPEC P-7), each atomic against all others of that word, whoever makes them.
//!
//! Those that fetch return what the word was. Those that do not, and the `nbi` forms, return at once:
//! [`quiet`](Shmem::quiet) says when they have been carried out, and what a `nbi` form fetches is in its `fetch` of this PE.

use crate::error::Result;
use crate::library::{Shmem, endpoint};
use crate::operations::{Keeper, PendingOperation};
use crate::symmetric::{Integer, Sym, Word};
use pami::{Node, Rmw, RmwOp, Update};

/// A line is an update of words of type `T`: the form that does not fetch, if there is one, that which does, and that which
/// does so later; what they take, and what they do with it.
macro_rules! atomics {
    (plain none<$bound:ident>($($value:ident),*) $update:expr, $what:literal) => {};
    (plain $plain:ident<$bound:ident>($($value:ident),*) $update:expr, $what:literal) => {
        #[doc = concat!($what, " Returns at once.")]
        pub fn $plain<T: $bound>(&self, dest: Sym<T>, $($value: T,)* pe: u32) -> Result {
            self.update(dest, $update, pe, LATER).map(drop)
        }
    };
    ($($plain:tt, $fetch:ident, $nbi:ident<$bound:ident>($($value:ident),*) $update:expr, $what:literal;)*) => {$(
        atomics!(plain $plain<$bound>($($value),*) $update, $what);

        #[doc = concat!($what, " Returns what it was.")]
        pub fn $fetch<T: $bound>(&self, dest: Sym<T>, $($value: T,)* pe: u32) -> Result<T> {
            self.update(dest, $update, pe, PendingOperation::of(Keeper::Call)).map(T::from_bits)
        }

        #[doc = concat!($what, " Returns at once; after `quiet` the first element of `fetch` here is what it was.")]
        pub fn $nbi<T: $bound>(&self, fetch: Sym<T>, dest: Sym<T>, $($value: T,)* pe: u32) -> Result {
            let into = Some((fetch.first(1)?.offset(), T::WIDTH));
            self.update(dest, $update, pe, PendingOperation { into, ..LATER }).map(drop)
        }
    )*};
}

const LATER: PendingOperation = PendingOperation::of(Keeper::Quiet);

impl<N: Node> Shmem<N> {
    atomics! {
        atomic_add, atomic_fetch_add, atomic_fetch_add_nbi<Integer>(value) Update::Add(value.to_bits()),
            "Adds `value`, wrapping, to the first element of `dest` of PE `pe`.";
        atomic_inc, atomic_fetch_inc, atomic_fetch_inc_nbi<Integer>() Update::Add(1),
            "Adds 1, wrapping, to the first element of `dest` of PE `pe`.";
        atomic_and, atomic_fetch_and, atomic_fetch_and_nbi<Integer>(value) Update::And(value.to_bits()),
            "Clears the bits of the first element of `dest` of PE `pe` that are not in `value`.";
        atomic_or, atomic_fetch_or, atomic_fetch_or_nbi<Integer>(value) Update::Or(value.to_bits()),
            "Sets the bits of the first element of `dest` of PE `pe` that are in `value`.";
        atomic_xor, atomic_fetch_xor, atomic_fetch_xor_nbi<Integer>(value) Update::Xor(value.to_bits()),
            "Flips the bits of the first element of `dest` of PE `pe` that are in `value`.";
        atomic_set, atomic_swap, atomic_swap_nbi<Word>(value) Update::Swap(value.to_bits()),
            "Makes the first element of `dest` of PE `pe` `value`.";
        none, atomic_compare_swap, atomic_compare_swap_nbi<Integer>(cond, value)
            Update::CompareSwap { expected: cond.to_bits(), new: value.to_bits() },
            "Makes the first element of `dest` of PE `pe` `value` if it is `cond`, bit for bit.";
        none, atomic_fetch, atomic_fetch_nbi<Word>() Update::Or(0),
            "Leaves the first element of `dest` of PE `pe` as it is.";
    }

    /// Makes an update. Returns what the word was, if the operation waits.
    pub(crate) fn update<T: Word>(
        &self,
        dest: Sym<T>,
        update: Update,
        pe: u32,
        operation: PendingOperation,
    ) -> Result<u64> {
        let (region, offset, op) =
            (self.heap_of(pe)?, dest.first(1)?.offset(), RmwOp { width: T::WIDTH, update });
        let at = self.begin(operation, |active, start| {
            let (target, done) =
                (endpoint::<N>(active, pe), Some(self.inner.completions.fetched(start.cookie)));
            let rmw = Rmw { target, region, offset, op, done };
            Ok(start.factories.rmw.execute_in(start.object, active, rmw)?)
        })?;
        self.end(at, operation.keeper)
    }
}
