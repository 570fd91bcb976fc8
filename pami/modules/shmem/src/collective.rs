//! Collectives of teams (SPEC G-2).

use crate::error::{Error, Result};
use crate::library::Shmem;
use crate::symmetric::{Data, Number, Sym};
use crate::team::Team;
use core::sync::atomic::Ordering::Relaxed;
use pami::collective::{Blocks, Collective};
use pami::operator::{Operator, Reducer};
use pami::{Collect, Node};
use zerocopy::{FromBytes, IntoBytes};

macro_rules! reductions {
    ($($name:ident, $operator:ident, $what:literal;)*) => {$(
        #[doc = concat!("Makes each element of `dest` the ", $what, " of those of all members' `source`, which may be the same.")]
        /// [`Error::Reduce`] of numbers that have no such thing.
        pub fn $name<T: Number>(&self, team: &Team, dest: Sym<T>, source: Sym<T>) -> Result {
            self.reduce(team, dest, source, Operator::$operator)
        }
    )*};
}

/// Every member calls collectives with the same arguments; a call returns when this PE's part is done. One thread of a PE at a
/// time makes those of one team. If a member makes a mistake in one, it ends at the others, unless their part is done, with
/// [`OperationError::Abandoned`](pami::OperationError::Abandoned) and that member's number, or as
/// [`OperationError::Mismatch`](pami::OperationError::Mismatch) if lengths or roots differ.
impl<N: Node> Shmem<N> {
    reductions! {
        and_reduce, BitAnd, "bitwise and";
        or_reduce, BitOr, "bitwise or";
        xor_reduce, BitXor, "bitwise exclusive or";
        max_reduce, Max, "greatest";
        min_reduce, Min, "least";
        sum_reduce, Sum, "sum";
        prod_reduce, Product, "product";
    }

    /// Copies `source` of the member `root` to `dest` of all.
    pub fn broadcast<T: Data>(&self, team: &Team, dest: Sym<T>, source: Sym<T>, root: u32) -> Result {
        self.or_abandon(team, || {
            dest.first(source.len())?;
            if root >= team.n_pes() {
                return Err(Error::Pe { pe: root, pes: team.n_pes() });
            }
            let is_root = root == team.my_pe();
            self.between(team, Collective::Broadcast, (dest, source), |collect| {
                collect.root = root;
                collect.in_place &= is_root;
                collect.input = collect.input.take().filter(|_| is_root && !collect.in_place);
                collect.blocks = Blocks::equal(source.bytes());
            })
        })
    }

    /// Copies every member's `source`, all of one length, to `dest` of all, in the order of their numbers.
    pub fn fcollect<T: Data>(&self, team: &Team, dest: Sym<T>, source: Sym<T>) -> Result {
        self.or_abandon(team, || {
            dest.first(source.len().saturating_mul(team.n_pes() as usize))?;
            self.move_blocks(team, Collective::Allgather, (dest, source), Blocks::equal(source.bytes()))
        })
    }

    /// As [`fcollect`](Self::fcollect); each member may have another number of elements.
    pub fn collect_all<T: Data>(&self, team: &Team, dest: Sym<T>, source: Sym<T>) -> Result {
        self.or_abandon(team, || {
            let bounds = self.area(team)?.bounds;
            let mut end = 0;
            self.gather(team, [source.bytes() as u64, 0].as_bytes(), |pe, block| {
                let [bytes, _] = <[u64; 2]>::read_from_bytes(block).unwrap_or_default();
                if let Some([start, stop]) = bounds.get(pe as usize..pe as usize + 2) {
                    start.store(end, Relaxed);
                    end += bytes as usize;
                    stop.store(end, Relaxed);
                }
            })?;
            dest.first(end / size_of::<T>().max(1))?;
            let bounds = bounds.get(..=team.n_pes() as usize).unwrap_or_default();
            // Lengths make no boundary that is below the one before.
            let blocks = Blocks::pooled(bounds).map_err(|_| Error::Asymmetric("collect"))?;
            self.move_blocks(team, Collective::Allgather, (dest, source), blocks)
        })
    }

    /// Deals the elements of `source` out to the members, and gets theirs into `dest`, in the order of their numbers.
    /// [`Error::Uneven`] if they are no multiple of the members.
    pub fn alltoall<T: Data>(&self, team: &Team, dest: Sym<T>, source: Sym<T>) -> Result {
        self.or_abandon(team, || {
            dest.first(source.len())?;
            let (elements, pes) = (source.len(), team.n_pes());
            if !elements.is_multiple_of(pes as usize) {
                return Err(Error::Uneven { elements, pes });
            }
            let blocks = Blocks::equal(source.bytes() / pes as usize);
            self.move_blocks(team, Collective::Alltoall, (dest, source), blocks)
        })
    }

    fn move_blocks<T: Data>(
        &self,
        team: &Team,
        what: Collective,
        objects: (Sym<T>, Sym<T>),
        blocks: Blocks<'static>,
    ) -> Result {
        self.between(team, what, objects, |collect| {
            (collect.blocks, collect.sources, collect.in_place) = (blocks, blocks, false);
        })
    }

    fn reduce<T: Number>(&self, team: &Team, dest: Sym<T>, source: Sym<T>, operator: Operator) -> Result {
        self.or_abandon(team, || {
            dest.first(source.len())?;
            let reducer = Reducer::new(operator, T::ELEMENT)?;
            self.between(team, Collective::Allreduce, (dest, source), |collect| {
                collect.input = collect.input.take().filter(|_| !collect.in_place);
                collect.blocks = Blocks::equal(source.len());
                collect.reducer = Some(reducer);
            })
        })
    }

    /// Makes a collective of objects of this PE's, in place if they are the same; `fill_in` says what else it is.
    fn between<T: Data>(
        &self,
        team: &Team,
        what: Collective,
        (dest, source): (Sym<T>, Sym<T>),
        fill_in: impl Fn(&mut Collect<N::Port>),
    ) -> Result {
        let memory = self.memory()?;
        self.collect(team, what, |collect| {
            collect.in_place = dest.offset() == source.offset();
            collect.input = Some((memory.clone(), source.offset() as usize));
            collect.output = Some((memory.clone(), dest.offset() as usize));
            fill_in(collect);
        })
    }
}
