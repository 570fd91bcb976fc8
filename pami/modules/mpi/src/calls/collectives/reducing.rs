//! The non-blocking collectives that reduce.

use crate::collective::Operand;
use crate::collective::Side;
use crate::collective::{Plan, Sizes};
use crate::data::Data;
use crate::error::{Error, Result};
use crate::library::Communicator;
use crate::op::Op;
use crate::request::Request;
use pami::client::Node;
use pami::collective::Collective;

/// Operand and result must be of one type and number.
fn alike(send: Option<&Data>, receive: &Data, count: usize) -> Result<()> {
    let Some(send) = send else { return Ok(()) };
    if send.datatype() != receive.datatype() {
        return Err(Error::Type);
    }
    if send.count() == count { Ok(()) } else { Err(Error::Count(send.count())) }
}

impl<N: Node> Communicator<N> {
    /// Reductions of a vector at all processes.
    fn vectors(
        &self,
        what: Collective,
        send: Option<&Data>,
        receive: &Data,
        op: Op,
        stores: bool,
    ) -> Result<Request> {
        alike(send, receive, receive.count())?;
        let combiner = op.combiner(receive.datatype())?;
        let from = send.map(|data| Side::new(data, true, false)).transpose()?;
        let into = Side::new(receive, send.is_none(), stores)?;
        self.launch(|_| {
            Ok(Plan {
                in_place: send.is_none(),
                blocks: Sizes::Equal(receive.count()),
                combiner: Some(combiner),
                send: from,
                receive: Some(into),
                ..Plan::new(what)
            })
        })
    }

    /// `MPI_Ireduce`: all vectors combined, at the root. Others name no receive buffer.
    ///
    /// # Errors
    /// [`Error::Op`], [`Error::Root`], [`Error::Arg`] if a buffer is missing, [`Error::Count`], [`Error::Type`],
    /// [`Error::Comm`], [`Error::NoMem`].
    pub fn ireduce<'a>(
        &self,
        send: impl Into<Operand<'a>>,
        receive: Option<&Data>,
        op: Op,
        root: u32,
    ) -> Result<Request> {
        self.whole(|| {
            let (is_root, send) = (self.is_root(root)?, send.into().data());
            let receive = if is_root { receive } else { None };
            if is_root && receive.is_none() {
                return Err(Error::Arg("the root's buffer is missing"));
            }
            let operand = send.or(receive);
            let operand =
                operand.ok_or(Error::Arg("only the root of a collective with a root works in place"))?;
            if let Some(receive) = receive {
                alike(send, receive, receive.count())?;
            }
            let combiner = op.combiner(operand.datatype())?;
            let from = send.map(|data| Side::new(data, true, false)).transpose()?;
            let into = receive.map(|data| Side::new(data, send.is_none(), true)).transpose()?;
            self.launch(|_| {
                Ok(Plan {
                    root,
                    in_place: send.is_none(),
                    blocks: Sizes::Equal(operand.count()),
                    combiner: Some(combiner),
                    send: from,
                    receive: into,
                    ..Plan::new(Collective::Reduce)
                })
            })
        })
    }

    /// `MPI_Iallreduce`: all vectors combined, at all.
    ///
    /// # Errors
    /// [`Error::Op`], [`Error::Count`], [`Error::Type`], [`Error::Comm`], [`Error::NoMem`].
    pub fn iallreduce<'a>(&self, send: impl Into<Operand<'a>>, receive: &Data, op: Op) -> Result<Request> {
        self.whole(|| self.vectors(Collective::Allreduce, send.into().data(), receive, op, true))
    }

    /// `MPI_Iscan`: the vectors of the processes up to this one, combined.
    ///
    /// # Errors
    /// As [`iallreduce`](Self::iallreduce).
    pub fn iscan<'a>(&self, send: impl Into<Operand<'a>>, receive: &Data, op: Op) -> Result<Request> {
        self.whole(|| self.vectors(Collective::Scan, send.into().data(), receive, op, true))
    }

    /// `MPI_Iexscan`: the vectors of the processes before this one, combined. Rank 0's result is left as it is.
    ///
    /// # Errors
    /// As [`iallreduce`](Self::iallreduce).
    pub fn iexscan<'a>(&self, send: impl Into<Operand<'a>>, receive: &Data, op: Op) -> Result<Request> {
        self.whole(|| self.vectors(Collective::Exscan, send.into().data(), receive, op, self.rank() > 0))
    }

    /// Reductions of a block for each process.
    fn scattered(
        &self,
        send: Option<&Data>,
        receive: &Data,
        op: Op,
        (own, total): (usize, usize),
        counts: Option<&[usize]>,
    ) -> Result<Request> {
        alike(send, receive, total)?;
        let combiner = op.combiner(receive.datatype())?;
        let result = receive.displaced(0, own)?;
        let into = match send {
            // The operand is in the receive buffer, and the result in front of it.
            None => Side::new(&receive.displaced(0, total)?, true, false)?.storing(result),
            Some(_) => Side::new(&result, false, true)?,
        };
        let from = send.map(|data| Side::new(data, true, false)).transpose()?;
        let size = self.size();
        self.launch(|state| {
            let lists = &mut state.collectives.lists;
            let list = counts.map(|counts| lists.keep(size, counts, &[], 1)).transpose()?;
            Ok(Plan {
                in_place: send.is_none(),
                blocks: list.map_or(Sizes::Equal(own), Sizes::Listed),
                combiner: Some(combiner),
                send: from,
                receive: Some(into),
                ..Plan::new(Collective::ReduceScatter)
            })
        })
    }

    /// `MPI_Ireduce_scatter`: all vectors combined; each process gets its block of the result. `counts` are those of the
    /// blocks; `receive` begins where the block goes, and with `IN_PLACE` where the operand is.
    ///
    /// # Errors
    /// As [`iallreduce`](Self::iallreduce), and [`Error::Arg`] if there is not a count for each process,
    /// [`Error::Buffer`].
    pub fn ireduce_scatter<'a>(
        &self,
        send: impl Into<Operand<'a>>,
        receive: &Data,
        counts: &[usize],
        op: Op,
    ) -> Result<Request> {
        self.whole(|| {
            let own = counts.get(self.rank() as usize);
            let own = *own.ok_or(Error::Arg("there must be a count for each process"))?;
            let total = counts.iter().try_fold(0usize, |sum, &count| sum.checked_add(count));
            let total = total.ok_or(Error::Count(usize::MAX))?;
            self.scattered(send.into().data(), receive, op, (own, total), Some(counts))
        })
    }

    /// `MPI_Ireduce_scatter_block`: as [`ireduce_scatter`](Self::ireduce_scatter), with blocks of the length of `receive`.
    ///
    /// # Errors
    /// As [`ireduce_scatter`](Self::ireduce_scatter).
    pub fn ireduce_scatter_block<'a>(
        &self,
        send: impl Into<Operand<'a>>,
        receive: &Data,
        op: Op,
    ) -> Result<Request> {
        self.whole(|| {
            let own = receive.count();
            let total = own.checked_mul(self.size() as usize).ok_or(Error::Count(own))?;
            self.scattered(send.into().data(), receive, op, (own, total), None)
        })
    }
}
