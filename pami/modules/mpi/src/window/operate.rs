//! What a target does for the accumulate family: operators on the values of its window.
//!
//! Values of 4 and 8 bytes that lie in a whole word are exchanged against what they were, again if they have changed
//! meanwhile: so they compose with updates of words and with sums that others add, which are atomic on the same words. All
//! other values are changed by this alone, and one context does it at a time.

use super::wire::AccumulateKind;
use crate::datatype::{Basic, Datatype};
use crate::error::{Error, Result};
use crate::op::Op;
use pami::collective::{Order, Reducer};
use pami::{Shared, Update, Width};
use zerocopy::IntoBytes;

/// Bytes that are combined at a time.
const AT_ONCE: usize = 256;

/// Memory for values, aligned for every type.
type Values = [u128; AT_ONCE / 16];

/// The size of a value that is a word.
pub(crate) fn width(basic: Basic) -> Option<Width> {
    let single = !matches!(
        basic,
        Basic::ComplexF32
            | Basic::LocatedI8
            | Basic::LocatedI16
            | Basic::LocatedI32
            | Basic::LocatedU8
            | Basic::LocatedU16
            | Basic::LocatedU32
            | Basic::LocatedF32
    );
    match basic.bytes() {
        4 => Some(Width::Four),
        8 if single => Some(Width::Eight),
        _ => None,
    }
}

/// The bytes of a value as a number.
pub(crate) fn bits(value: &[u8]) -> u64 {
    match value.len() {
        4 => value.try_into().map_or(0, |value| u32::from_ne_bytes(value).into()),
        _ => value.try_into().map_or(0, u64::from_ne_bytes),
    }
}

/// What is done to each value.
pub(crate) struct WindowOperation {
    combine: Combine,
    len: usize,
    width: Option<Width>,
    kind: AccumulateKind,
}

enum Combine {
    Reduce(Reducer),
    Replace,
    Keep,
}

/// Bytes of blocks in a memory: `skip` bytes of blocks are before the first that is meant.
#[derive(Clone, Copy)]
pub(crate) struct WindowBlocks {
    pub first: usize,
    pub block: usize,
    pub stride: usize,
    pub skip: usize,
    pub len: usize,
}

impl WindowBlocks {
    /// One past the last byte that is meant, if that can be counted.
    pub(crate) fn end(&self) -> Option<usize> {
        let Some(last) = self.len.checked_sub(1) else { return Some(self.first) };
        let last = self.skip.checked_add(last)?;
        let block = last.checked_div(self.block)?;
        let start = block.checked_mul(self.stride)?.checked_add(self.first)?;
        start.checked_add(last % self.block)?.checked_add(1)
    }
}

impl WindowOperation {
    /// # Errors
    /// [`Error::Op`] if there is no such operation.
    pub(crate) fn new(op: Op, basic: Basic, kind: AccumulateKind) -> Result<Self> {
        let combine = match op {
            Op::Replace => Combine::Replace,
            Op::NoOp => Combine::Keep,
            Op::User { .. } => return Err(Error::Op),
            _ => Combine::Reduce(op.reducer(&Datatype::basic(basic))?),
        };
        Ok(Self { combine, len: basic.bytes(), width: width(basic), kind })
    }

    /// Bytes of data that come with `len` bytes of values.
    pub(crate) fn data_len(&self, len: usize) -> usize {
        match (self.kind, &self.combine) {
            (AccumulateKind::Compare, _) => 2 * len,
            (_, Combine::Keep) => 0,
            _ => len,
        }
    }

    /// Whether blocks hold whole values, and one value if it is compared.
    pub(crate) fn fits(&self, places: &WindowBlocks) -> bool {
        let whole = [places.block, places.skip, places.len].iter().all(|len| len.is_multiple_of(self.len));
        whole && (self.kind != AccumulateKind::Compare || places.len == self.len)
    }

    /// Carries it out on values in `memory`; `old` gets what they were, if it has room for all.
    ///
    /// # Errors
    /// [`Error::RmaRange`]; nothing was changed if the places' end lies in the memory.
    pub(crate) fn carry_out(
        &self,
        memory: &Shared,
        places: WindowBlocks,
        data: &[u8],
        mut old: Option<&mut [u8]>,
    ) -> Result<()> {
        let mut done = 0;
        while done < places.len {
            let at = places.skip + done;
            let (block, within) = (at / places.block, at % places.block);
            let len = (places.block - within).min(places.len - done).min(AT_ONCE);
            let first = places.first + block * places.stride + within;
            let operands = match self.data_len(len) {
                0 => &[],
                bytes if self.kind == AccumulateKind::Compare => {
                    data.get(..bytes).ok_or(Error::Count(bytes))?
                }
                _ => data.get(done..done + len).ok_or(Error::Count(len))?,
            };
            let old = old.as_deref_mut().and_then(|old| old.get_mut(done..done + len));
            self.carry_out_run(memory, first, len, operands, old)?;
            done += len;
        }
        Ok(())
    }

    /// As [`carry_out`](Self::carry_out), of at most [`AT_ONCE`] bytes in one piece.
    fn carry_out_run(
        &self,
        memory: &Shared,
        first: usize,
        len: usize,
        operands: &[u8],
        old: Option<&mut [u8]>,
    ) -> Result<()> {
        let range = |_| Error::RmaRange;
        if let (Combine::Replace, None) = (&self.combine, &old) {
            return memory.write(first, operands).map_err(range);
        }
        let (mut seen, mut new): (Values, Values) = Default::default();
        let seen = seen.as_mut_bytes().get_mut(..len).ok_or(Error::Count(len))?;
        let new = new.as_mut_bytes().get_mut(..len).ok_or(Error::Count(len))?;
        memory.read(first, seen).map_err(range)?;
        self.combine(seen, operands, new)?;
        for at in (0..len).step_by(self.len) {
            let value = at..at + self.len;
            let operand = if operands.len() == len { &operands[value.clone()] } else { operands };
            self.exchange(memory, first + at, &mut seen[value.clone()], &mut new[value], operand)?;
        }
        if let Some(old) = old {
            old.copy_from_slice(seen);
        }
        Ok(())
    }

    /// What values that are `seen` become.
    fn combine(&self, seen: &[u8], operands: &[u8], new: &mut [u8]) -> Result<()> {
        if self.kind == AccumulateKind::Compare {
            let (expected, wanted) = operands.split_at(self.len);
            new.copy_from_slice(if seen == expected { wanted } else { seen });
            return Ok(());
        }
        match &self.combine {
            Combine::Replace => new.copy_from_slice(operands),
            Combine::Keep => new.copy_from_slice(seen),
            Combine::Reduce(reducer) => {
                let mut aligned = Values::default();
                let aligned = aligned.as_mut_bytes().get_mut(..operands.len()).ok_or(Error::Op)?;
                aligned.copy_from_slice(operands);
                new.copy_from_slice(seen);
                reducer.reduce(new, aligned, Order::IntoFirst).map_err(|_| Error::Op)?;
            }
        }
        Ok(())
    }

    /// Makes a value that was `seen` the `new` one; if it has changed meanwhile, what it becomes is worked out again.
    fn exchange(
        &self,
        memory: &Shared,
        at: usize,
        seen: &mut [u8],
        new: &mut [u8],
        operand: &[u8],
    ) -> Result<()> {
        // A value that stays as it is was so when it was read.
        while seen != new {
            let update = Update::CompareSwap { expected: bits(seen), new: bits(new) };
            // Nobody else changes a value that is in no whole word.
            let Some(Ok(was)) = self.width.map(|width| memory.update(at, width, update)) else {
                return memory.write(at, new).map_err(|_| Error::RmaRange);
            };
            if was == bits(seen) {
                break;
            }
            match seen.len() {
                4 => seen.copy_from_slice(&(was as u32).to_ne_bytes()),
                _ => seen.copy_from_slice(&was.to_ne_bytes()),
            }
            let (mut old, mut next): (u128, u128) = (0, 0);
            let old = old.as_mut_bytes().get_mut(..seen.len()).ok_or(Error::Op)?;
            let next = next.as_mut_bytes().get_mut(..seen.len()).ok_or(Error::Op)?;
            old.copy_from_slice(seen);
            self.combine(old, operand, next)?;
            new.copy_from_slice(next);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "operate_tests.rs"]
mod tests;
