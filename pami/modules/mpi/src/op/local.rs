//! Reductions of this process's own data.

use super::{Combiner, Op};
use crate::data::Data;
use crate::error::{Error, Result};
use pami::collective::Order;
use zerocopy::IntoBytes;

/// Bytes that are combined at a time, on the stack; an element is at most as long.
const AT_ONCE: usize = super::USER_ELEMENT_LIMIT;

/// Combines packed bytes of `input` into those of `inout`, `input` first.
fn combine(combiner: &Combiner, input: &Data, inout: &Data) -> Result<()> {
    // Aligned for every type.
    let (mut left, mut right) = ([0u128; AT_ONCE / 16], [0u128; AT_ONCE / 16]);
    let most = AT_ONCE - AT_ONCE % combiner.element_len();
    let (bytes, mut done) = (inout.bytes(), 0);
    while done < bytes {
        let len = most.min(bytes - done);
        let (into, from) = (&mut left.as_mut_bytes()[..len], &mut right.as_mut_bytes()[..len]);
        inout.pack_bytes(done, into)?;
        input.pack_bytes(done, from)?;
        match combiner {
            // Whole elements, aligned: only the operator could be wrong, and that was looked at.
            Combiner::Known(reducer) => {
                reducer.reduce(into, from, Order::FromFirst).map_err(|_| Error::Op)?
            }
            Combiner::User(user) => user.combine(into, from, Order::FromFirst),
        }
        inout.unpack_bytes(done, into)?;
        done += len;
    }
    Ok(())
}

/// `inout = input op inout`, element by element (`MPI_Reduce_local`).
///
/// # Errors
/// [`Error::Op`], [`Error::Type`] if the types differ, [`Error::Count`] if the numbers of elements do.
pub fn reduce_local(input: &Data, inout: &Data, op: Op) -> Result<()> {
    if input.datatype() != inout.datatype() {
        return Err(Error::Type);
    }
    if input.count() != inout.count() {
        return Err(Error::Count(input.count()));
    }
    combine(&op.combiner(inout.datatype())?, input, inout)
}
