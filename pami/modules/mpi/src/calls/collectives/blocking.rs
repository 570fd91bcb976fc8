//! The blocking collectives: the non-blocking ones, waited for.

use crate::collective::{Blocks, Operand};
use crate::data::Data;
use crate::error::Result;
use crate::library::Communicator;
use crate::op::Op;
use pami::client::Node;

macro_rules! blocking {
    ($($(#[$doc:meta])* $name:ident = $start:ident($($argument:ident: $of:ty),*);)*) => {
        impl<N: Node> Communicator<N> {$(
            $(#[$doc])*
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($start), "`](Self::", stringify!($start), "), ")]
            /// or why the operation did not end well.
            pub fn $name<'a>(&self, $($argument: $of),*) -> Result<()> {
                let mut request = self.$start($($argument),*)?;
                self.library().wait(&mut request).map(drop)
            }
        )*}
    };
}

blocking! {
    /// `MPI_Bcast`: the root's data, to all.
    bcast = ibcast(data: &'a Data, root: u32);
    /// `MPI_Gather`: a block of each process, at the root.
    gather = igather(send: impl Into<Operand<'a>>, receive: Option<&Data>, root: u32);
    /// `MPI_Gatherv`: a block of any length of each process, at the root.
    gatherv = igatherv(send: impl Into<Operand<'a>>, receive: Option<Blocks>, root: u32);
    /// `MPI_Scatter`: a block of the root's to each process.
    scatter = iscatter(send: Option<&Data>, receive: impl Into<Operand<'a>>, root: u32);
    /// `MPI_Scatterv`: a block of any length of the root's to each process.
    scatterv = iscatterv(send: Option<Blocks>, receive: impl Into<Operand<'a>>, root: u32);
    /// `MPI_Allgather`: a block of each process, at all.
    allgather = iallgather(send: impl Into<Operand<'a>>, receive: &Data);
    /// `MPI_Allgatherv`: a block of any length of each process, at all.
    allgatherv = iallgatherv(send: impl Into<Operand<'a>>, receive: Blocks);
    /// `MPI_Alltoall`: a block of every process to every process.
    alltoall = ialltoall(send: impl Into<Operand<'a>>, receive: &Data);
    /// `MPI_Alltoallv`: a block of any length of every process to every process.
    alltoallv = ialltoallv(send: Option<Blocks<'a>>, receive: Blocks<'a>);
    /// `MPI_Reduce`: all vectors combined, at the root.
    reduce = ireduce(send: impl Into<Operand<'a>>, receive: Option<&Data>, op: Op, root: u32);
    /// `MPI_Allreduce`: all vectors combined, at all.
    allreduce = iallreduce(send: impl Into<Operand<'a>>, receive: &Data, op: Op);
    /// `MPI_Reduce_scatter`: all vectors combined; each process gets its block of the result.
    reduce_scatter = ireduce_scatter(send: impl Into<Operand<'a>>, receive: &Data, counts: &[usize], op: Op);
    /// `MPI_Reduce_scatter_block`: as `reduce_scatter`, with blocks of one length.
    reduce_scatter_block = ireduce_scatter_block(send: impl Into<Operand<'a>>, receive: &Data, op: Op);
    /// `MPI_Scan`: the vectors of the processes up to this one, combined.
    scan = iscan(send: impl Into<Operand<'a>>, receive: &Data, op: Op);
    /// `MPI_Exscan`: the vectors of the processes before this one, combined.
    exscan = iexscan(send: impl Into<Operand<'a>>, receive: &Data, op: Op);
}

impl<N: Node> Communicator<N> {
    /// `MPI_Barrier`: returns when all processes have called it.
    ///
    /// # Errors
    /// As [`ibarrier`](Self::ibarrier), or why it did not end well.
    pub fn barrier(&self) -> Result<()> {
        let mut request = self.ibarrier()?;
        self.library().wait(&mut request).map(drop)
    }
}
