//! Memory of the node, which the library takes when it is set up and keeps.

use crate::error::Error;
use pami::{Buffer, Node};
use rings::buffer::CONTROL_BYTES;

/// What a buffer takes besides its data: the count in front, and its alignment.
const BUFFER_EXTRA: usize = 2 * CONTROL_BYTES;

/// Memory of the node for good.
pub(crate) struct Memory<N: Node>(pub &'static N);

impl<N: Node> Memory<N> {
    pub(crate) fn slice<T: Send>(
        &self,
        what: &'static str,
        len: usize,
        value: impl FnMut() -> T,
    ) -> Result<&'static mut [T], Error> {
        let bytes = len.saturating_mul(size_of::<T>());
        self.0.memory(len, value).ok_or(Error::Memory { what, bytes })
    }

    pub(crate) fn place<T: Send>(&self, what: &'static str, value: T) -> Result<&'static mut T, Error> {
        let mut value = Some(value);
        let placed = self.0.memory(1, || value.take()).and_then(|places| places.first_mut()?.as_mut());
        placed.ok_or(Error::Memory { what, bytes: size_of::<T>() })
    }

    pub(crate) fn buffer(&self, what: &'static str, len: usize) -> Result<Buffer, Error> {
        let bytes = len.saturating_add(BUFFER_EXTRA);
        let memory = self.slice(what, bytes, || 0u8)?;
        Buffer::new(memory).map_err(|_| Error::Memory { what, bytes })
    }
}
