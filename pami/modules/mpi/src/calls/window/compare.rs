//! Compare and swap.

use super::Window;
use super::pieces::Blocks;
use super::target::Target;
use super::way::BlockPart;
use crate::data::Data;
use crate::datatype::Basic;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::window::operate::{bits, width};
use crate::window::wire::AccumulateKind;
use pami::Update;
use pami::client::Node;

/// Whether values of a type can be compared: integers, truth values and bytes.
fn compares(basic: Basic) -> bool {
    use Basic::{Bool, Byte, I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(basic, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | Byte | Bool)
}

impl<N: Node> Window<N> {
    /// `MPI_Compare_and_swap`: if the value at `disp` of a process's window is that of `compare`, it becomes that of
    /// `origin`; `result` gets what it was. All are one value of an integer type, a truth value or a byte.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::Count`] of more than one value, [`Error::Type`] of other types.
    pub fn compare_and_swap(
        &self,
        origin: &Data,
        compare: &Data,
        result: &Data,
        rank: i32,
        disp: usize,
    ) -> Result<()> {
        let basic = result.datatype().as_basic().filter(|&basic| compares(basic)).ok_or(Error::Type)?;
        if let Some(data) = [origin, compare, result].into_iter().find(|data| data.count() != 1) {
            return Err(Error::Count(data.count()));
        }
        if [origin, compare].into_iter().any(|data| data.datatype().as_basic() != Some(basic)) {
            return Err(Error::Type);
        }
        let (target, len) = (Target::like(rank, disp, result), basic.bytes());
        let mut values = [0; 16];
        let values = &mut values[..2 * len];
        compare.pack_bytes(0, &mut values[..len])?;
        origin.pack_bytes(0, &mut values[len..])?;
        let access = self.access(&target, false, |access| {
            let update = Update::CompareSwap { expected: bits(&values[..len]), new: bits(&values[len..]) };
            if let Some(width) = width(basic)
                && self.insist(|at| at.update(access, access.origin, (width, update), result))?
            {
                return Ok(());
            }
            let len = len as u32;
            let blocks = Blocks { offset: access.origin, block: len, stride: len, len };
            let part = BlockPart { blocks, skip: 0, len };
            self.send_request(
                access,
                (Op::NoOp, basic, AccumulateKind::Compare),
                part,
                values,
                Some((result, 0)),
            )
        });
        access.map(drop)
    }
}
