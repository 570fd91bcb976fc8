//! Accumulates, with and without what was there before.

use super::Window;
use super::pieces::each_blocks;
use super::target::Target;
use super::transfer::Access;
use super::way::{BlockPart, recipe, update};
use crate::data::Data;
use crate::datatype::{Basic, Datatype};
use crate::error::{Error, Result};
use crate::op::Op;
use crate::request::Request;
use crate::window::answers::ANSWER_BYTES;
use crate::window::operate::{bits, width};
use crate::window::wire;
use crate::window::wire::{AccumulateKind, WindowRequest};
use pami::client::Node;

/// Most bytes of data of a request, which lie on the stack for a while.
const REQUEST_BYTES: usize = 1024;

/// Whether an operator can be used on a type in a window.
///
/// # Errors
/// [`Error::Op`].
fn check_op(op: Op, basic: Basic, fetches: bool) -> Result<()> {
    match op {
        Op::Replace => Ok(()),
        Op::NoOp if fetches => Ok(()),
        Op::NoOp | Op::User { .. } => Err(Error::Op),
        _ => op.reducer(&Datatype::basic(basic)).map(drop),
    }
}

impl<N: Node> Window<N> {
    fn begin_accumulate(&self, origin: &Data, target: &Target, op: Op, wanted: bool) -> Result<Request> {
        target.check(origin)?;
        let basic = target.basic()?;
        check_op(op, basic, false)?;
        self.access(target, wanted, |access| {
            let there = target.datatype.layout(target.count);
            let there = there.filter(|(_, layout)| *layout == pami::Layout::Contiguous);
            if let (Some(recipe), Some(at), Some((first, _))) =
                (recipe(op, basic), origin.contiguous(), there)
                && access.bytes > 0
            {
                let place = access.origin.checked_add_signed(first).ok_or(Error::RmaRange)?;
                let range = at..at + access.bytes as usize;
                if self.insist(|at| at.split(access, (origin, range.clone()), place, recipe))? {
                    return Ok(());
                }
            }
            self.request(access, target, (op, basic, AccumulateKind::Combine), Some(origin), None)
        })
    }

    fn begin_get_accumulate(
        &self,
        origin: Option<&Data>,
        result: &Data,
        target: &Target,
        op: Op,
        wanted: bool,
    ) -> Result<Request> {
        target.check(result)?;
        let basic = target.basic()?;
        check_op(op, basic, true)?;
        // What is not combined is not looked at.
        let origin = origin.filter(|_| !matches!(op, Op::NoOp));
        match origin {
            Some(origin) => target.check(origin)?,
            None if matches!(op, Op::NoOp) => {}
            None => return Err(Error::Arg("without an origin buffer the operator must be NO_OP")),
        }
        self.access(target, wanted, |access| {
            if access.bytes as usize == basic.bytes() {
                let mut value = [0; 16];
                let value = &mut value[..basic.bytes()];
                if let Some(origin) = origin {
                    origin.pack_bytes(0, value)?;
                }
                let first = target.datatype.layout(target.count).ok_or(Error::Type)?.0;
                let place = access.origin.checked_add_signed(first).ok_or(Error::RmaRange)?;
                if let Some(width) = width(basic)
                    && let Some(update) = update(op, basic, bits(value))
                    && self.insist(|at| at.update(access, place, (width, update), result))?
                {
                    return Ok(());
                }
            }
            self.request(access, target, (op, basic, AccumulateKind::Fetch), origin, Some(result))
        })
    }

    /// Has the target carry an access out, by as many requests as it takes.
    pub(super) fn request(
        &self,
        access: Access,
        target: &Target,
        what: (Op, Basic, AccumulateKind),
        origin: Option<&Data>,
        result: Option<&Data>,
    ) -> Result<()> {
        let room =
            self.enter(|at| Ok(at.active.immediate_limit()))?.saturating_sub(size_of::<WindowRequest>());
        let most = if result.is_some() { ANSWER_BYTES } else { REQUEST_BYTES }.min(room);
        // Every value fits a packet.
        let most = (most - most % what.1.bytes()).max(what.1.bytes());
        let mut done = 0;
        each_blocks(target, access.origin, access.bytes, |blocks| {
            let mut skip = 0;
            while skip < blocks.len {
                let len = (blocks.len - skip).min(most as u32);
                let mut data = [0; REQUEST_BYTES];
                let data = &mut data[..if origin.is_some() { len as usize } else { 0 }];
                if let Some(origin) = origin {
                    origin.pack_bytes(done, data)?;
                }
                let part = BlockPart { blocks, skip, len };
                self.send_request(access, what, part, data, result.map(|result| (result, done)))?;
                skip += len;
                done += len as usize;
            }
            Ok(())
        })
    }

    pub(super) fn send_request(
        &self,
        access: Access,
        what: (Op, Basic, AccumulateKind),
        part: BlockPart,
        data: &[u8],
        result: Option<(&Data, usize)>,
    ) -> Result<()> {
        self.insist(|at| at.request(access, what, part, data, result))
    }

    /// `MPI_Accumulate`: combines data into elements of a process's window, of one basic type, by a predefined operator:
    /// `target = target op data`, or by [`Op::Replace`] `target = data`.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::Op`] if the operator is not for that type or not predefined, [`Error::Type`] if the
    /// elements are of several basic types.
    pub fn accumulate(&self, origin: &Data, target: &Target, op: Op) -> Result<()> {
        self.begin_accumulate(origin, target, op, false).map(drop)
    }

    /// `MPI_Raccumulate`: as [`accumulate`](Self::accumulate), with a request that completes when the data may change again.
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate); [`Error::NoMem`].
    pub fn raccumulate(&self, origin: &Data, target: &Target, op: Op) -> Result<Request> {
        self.begin_accumulate(origin, target, op, true)
    }

    /// `MPI_Get_accumulate`: as [`accumulate`](Self::accumulate), and `result` gets what the elements were before. With
    /// [`Op::NoOp`] it only reads, and `origin` is not looked at. The call waits for all answers but the last packet's.
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate).
    pub fn get_accumulate(
        &self,
        origin: Option<&Data>,
        result: &Data,
        target: &Target,
        op: Op,
    ) -> Result<()> {
        self.begin_get_accumulate(origin, result, target, op, false).map(drop)
    }

    /// `MPI_Rget_accumulate`: as [`get_accumulate`](Self::get_accumulate), with a request that completes when the result is
    /// there.
    ///
    /// # Errors
    /// As [`raccumulate`](Self::raccumulate).
    pub fn rget_accumulate(
        &self,
        origin: Option<&Data>,
        result: &Data,
        target: &Target,
        op: Op,
    ) -> Result<Request> {
        self.begin_get_accumulate(origin, result, target, op, true)
    }

    /// `MPI_Fetch_and_op`: [`get_accumulate`](Self::get_accumulate) of one value of a basic type. Many are updates of a
    /// word, which need no call at the target: those of 4 and 8 bytes by [`Op::Replace`] and [`Op::NoOp`], and integers by
    /// [`Op::Sum`] and the bitwise ones.
    ///
    /// # Errors
    /// As [`get_accumulate`](Self::get_accumulate); [`Error::Count`] of more than one value.
    pub fn fetch_and_op(
        &self,
        origin: Option<&Data>,
        result: &Data,
        rank: i32,
        disp: usize,
        op: Op,
    ) -> Result<()> {
        if result.count() != 1 {
            return Err(Error::Count(result.count()));
        }
        result.datatype().as_basic().ok_or(Error::Type)?;
        self.get_accumulate(origin, result, &Target::like(rank, disp, result), op)
    }
}

const _: () = assert!(size_of::<wire::WindowRequest>() <= pami::packet::HEADER_LIMIT);
