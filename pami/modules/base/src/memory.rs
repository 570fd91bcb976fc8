//! Memory of the node, which a library takes when it is set up and keeps.

use core::fmt;
use pami::{Buffer, CONTROL_BYTES, Node, Shared};

/// What a buffer takes besides its data: the count in front, and its alignment.
const BUFFER_EXTRA: usize = 2 * CONTROL_BYTES;

/// The node has not so many bytes left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// What they are for.
    pub what: &'static str,
    /// How many.
    pub bytes: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, bytes } = self;
        write!(f, "the node has not {bytes} bytes left for {what}")
    }
}

impl core::error::Error for OutOfMemory {}

/// Memory for several values.
///
/// # Errors
/// [`OutOfMemory`]
pub fn fill<N: Node, T: Send>(
    node: &N,
    what: &'static str,
    len: usize,
    value: impl FnMut() -> T,
) -> Result<&'static mut [T], OutOfMemory> {
    let bytes = len.saturating_mul(size_of::<T>());
    node.memory(len, value).ok_or(OutOfMemory { what, bytes })
}

/// Memory for one.
///
/// # Errors
/// [`OutOfMemory`]
pub fn place<N: Node, T: Send>(
    node: &N,
    what: &'static str,
    value: T,
) -> Result<&'static mut T, OutOfMemory> {
    let mut value = Some(value);
    let placed = fill(node, what, 1, || value.take())?.first_mut().and_then(Option::as_mut);
    placed.ok_or(OutOfMemory { what, bytes: size_of::<T>() })
}

/// Memory of so many bytes that the network can use.
///
/// # Errors
/// [`OutOfMemory`]
pub fn shared<N: Node>(node: &N, what: &'static str, len: usize) -> Result<Shared, OutOfMemory> {
    let bytes = len.saturating_add(BUFFER_EXTRA);
    let buffer = Buffer::new(fill(node, what, bytes, || 0u8)?);
    buffer.map(Buffer::share).map_err(|_| OutOfMemory { what, bytes })
}
