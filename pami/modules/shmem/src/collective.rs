//! Collectives of teams (SPEC G-2). Every member calls them with the same arguments; a call returns when this PE's part is
//! done. One thread of a PE at a time makes those of one team.

use crate::area::Area;
use crate::error::Error;
use crate::library::Shmem;
use crate::number::{Data, Number};
use crate::symmetric::Sym;
use crate::team::Team;
use core::sync::atomic::Ordering::Relaxed;
use pami::Node;
use pami::collective::{Blocks, Collective};
use pami::operator::{Operator, Reducer};
use zerocopy::{FromBytes, IntoBytes};

/// Whether an object has room for so many elements.
fn check<T>(dest: Sym<T>, wanted: usize) -> Result<(), Error> {
    if dest.len() < wanted { Err(Error::Short { has: dest.len(), wanted }) } else { Ok(()) }
}

macro_rules! reductions {
    ($($name:ident, $operator:ident, $what:literal;)*) => {$(
        #[doc = concat!("Makes each element of `dest` the ", $what, " of those of all members' `source`, which may be the same.")]
        ///
        /// # Errors
        /// [`Error::Reduce`] of numbers that have no such thing, [`Error::Short`], [`Error::Collect`], [`Error::Operation`]
        pub fn $name<T: Number>(&self, team: &Team, dest: Sym<T>, source: Sym<T>) -> Result<(), Error> {
            self.reduce(team, dest, source, Operator::$operator)
        }
    )*};
}

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

    /// Waits until all members are here. What they began need not have been carried out.
    ///
    /// # Errors
    /// [`Error::Collect`], [`Error::Operation`]
    pub fn sync(&self, team: &Team) -> Result<(), Error> {
        self.collect(team, Collective::Barrier, |_| {})
    }

    /// As [`sync`](Self::sync), of all PEs.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn sync_all(&self) -> Result<(), Error> {
        self.sync(&self.team_world())
    }

    /// Waits until all PEs are here, and all that they began on the contexts that they call this on has been carried out.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn barrier_all(&self) -> Result<(), Error> {
        self.quiet()?;
        self.sync_all()
    }

    /// Copies `source` of the member `root` to `dest` of all.
    ///
    /// # Errors
    /// [`Error::Pe`], [`Error::Short`], [`Error::Collect`], [`Error::Operation`]
    pub fn broadcast<T: Data>(
        &self,
        team: &Team,
        dest: Sym<T>,
        source: Sym<T>,
        root: u32,
    ) -> Result<(), Error> {
        check(dest, source.len())?;
        if root >= team.n_pes() {
            return Err(Error::Pe { pe: root, pes: team.n_pes() });
        }
        let (memory, is_root) = (self.memory()?, root == team.my_pe());
        self.collect(team, Collective::Broadcast, |collect| {
            collect.root = root;
            collect.in_place = is_root && dest.offset() == source.offset();
            if is_root && !collect.in_place {
                collect.input = Some((memory.clone(), source.offset() as usize));
            }
            collect.output = Some((memory.clone(), dest.offset() as usize));
            collect.blocks = Blocks::equal(source.bytes());
        })
    }

    /// Copies every member's `source`, all of one length, to `dest` of all, in the order of their numbers.
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::Collect`], [`Error::Operation`]
    pub fn fcollect<T: Data>(&self, team: &Team, dest: Sym<T>, source: Sym<T>) -> Result<(), Error> {
        check(dest, source.len().saturating_mul(team.n_pes() as usize))?;
        self.move_blocks(team, Collective::Allgather, dest, source, Blocks::equal(source.bytes()))
    }

    /// As [`fcollect`](Self::fcollect); each member may have another number of elements.
    ///
    /// # Errors
    /// As [`fcollect`](Self::fcollect).
    pub fn collect_all<T: Data>(&self, team: &Team, dest: Sym<T>, source: Sym<T>) -> Result<(), Error> {
        let own = [source.bytes() as u64, 0];
        let Area { bounds, .. } = self.area(team)?;
        let mut end = 0;
        self.gather(team, own.as_bytes(), |pe, block| {
            let [bytes, _] = <[u64; 2]>::read_from_bytes(block).unwrap_or_default();
            if let Some([start, stop]) = bounds.get(pe as usize..pe as usize + 2) {
                start.store(end, Relaxed);
                end += bytes as usize;
                stop.store(end, Relaxed);
            }
        })?;
        check(dest, end / size_of::<T>().max(1))?;
        let bounds = bounds.get(..=team.n_pes() as usize).unwrap_or_default();
        // Lengths make no boundary that is below the one before.
        let blocks = Blocks::pooled(bounds).map_err(|_| Error::Asymmetric("collect"))?;
        self.move_blocks(team, Collective::Allgather, dest, source, blocks)
    }

    /// Deals the elements of `source` out to the members, and gets theirs into `dest`, in the order of their numbers.
    ///
    /// # Errors
    /// [`Error::Uneven`]; as [`fcollect`](Self::fcollect).
    pub fn alltoall<T: Data>(&self, team: &Team, dest: Sym<T>, source: Sym<T>) -> Result<(), Error> {
        check(dest, source.len())?;
        let (elements, pes) = (source.len(), team.n_pes());
        if !elements.is_multiple_of(pes as usize) {
            return Err(Error::Uneven { elements, pes });
        }
        let block = source.bytes() / pes as usize;
        self.move_blocks(team, Collective::Alltoall, dest, source, Blocks::equal(block))
    }

    fn move_blocks<T>(
        &self,
        team: &Team,
        what: Collective,
        dest: Sym<T>,
        source: Sym<T>,
        blocks: Blocks<'static>,
    ) -> Result<(), Error> {
        let memory = self.memory()?;
        self.collect(team, what, |collect| {
            collect.input = Some((memory.clone(), source.offset() as usize));
            collect.output = Some((memory.clone(), dest.offset() as usize));
            (collect.blocks, collect.sources) = (blocks, blocks);
        })
    }

    fn reduce<T: Number>(
        &self,
        team: &Team,
        dest: Sym<T>,
        source: Sym<T>,
        operator: Operator,
    ) -> Result<(), Error> {
        check(dest, source.len())?;
        let (memory, reducer) = (self.memory()?, Reducer::new(operator, T::ELEMENT)?);
        self.collect(team, Collective::Allreduce, |collect| {
            collect.in_place = dest.offset() == source.offset();
            if !collect.in_place {
                collect.input = Some((memory.clone(), source.offset() as usize));
            }
            collect.output = Some((memory.clone(), dest.offset() as usize));
            collect.blocks = Blocks::equal(source.len());
            collect.reducer = Some(reducer);
        })
    }
}
