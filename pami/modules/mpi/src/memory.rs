//! Memory of a node, taken when the library is set up.

use crate::error::{Error, Result};
use pami::Shared;
use pami::client::Node;

/// Memory of a node for one value.
pub(crate) fn place<N: Node, T: Send>(node: &N, value: T) -> Result<&'static mut T> {
    let mut value = Some(value);
    let slice = node.memory(1, || value.take()).ok_or(out_of_memory())?;
    slice.first_mut().and_then(Option::as_mut).ok_or(out_of_memory())
}

/// Memory of a node for several.
pub(crate) fn fill<N: Node, T: Send>(
    node: &N,
    len: usize,
    value: impl FnMut() -> T,
) -> Result<&'static mut [T]> {
    node.memory(len, value).ok_or(out_of_memory())
}

/// Memory that collectives can use.
pub(crate) fn shared<N: Node>(node: &N, len: usize) -> Result<Shared> {
    // The count in front, and its alignment.
    let memory = fill(node, len + 2 * pami::CONTROL_BYTES, || 0u8)?;
    Ok(pami::Buffer::new(memory).map_err(|_| out_of_memory())?.share())
}

fn out_of_memory() -> Error {
    Error::NoMem { what: "bytes of the task's memory", limit: 0 }
}
