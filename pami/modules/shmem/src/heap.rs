//! The symmetric heap: what is allocated lies at the same place of every PE's.
//!
//! Nobody tells anyone where: all PEs make the same calls in the same order, so the same allocator is in the same state at
//! each. That the calls are the same is agreed on in each of them, which is the barrier that OpenSHMEM wants there, too.

use crate::error::{Error, Result};
use crate::library::Shmem;
use crate::symmetric::{Data, Sym};
use pami::Node;
use zerocopy::IntoBytes;

/// Allocations are multiples of this many bytes, and start at such: a cache line.
pub(crate) const ALIGNMENT: u32 = 64;

/// Bytes that `count` elements take.
fn bytes_of<T>(count: usize) -> Result<usize> {
    let bytes = count.checked_mul(size_of::<T>());
    let lines = bytes.and_then(|bytes| bytes.max(1).checked_next_multiple_of(ALIGNMENT as usize));
    lines.filter(|&bytes| u32::try_from(bytes).is_ok()).ok_or(Error::Full { bytes: usize::MAX })
}

/// Calls that allocate and free are collective, with the same arguments, or end with [`Error::Asymmetric`]. All that was begun
/// on this context has been carried out before. Errors are the same at all PEs.
impl<N: Node> Shmem<N> {
    /// Allocates `count` elements at every PE, which hold whatever they did before. [`Error::Full`] if there is no room.
    pub fn malloc<T: Data>(&self, count: usize) -> Result<Sym<T>> {
        self.align(1, count)
    }

    /// As [`malloc`](Self::malloc); the elements hold zeros.
    pub fn calloc<T: Data>(&self, count: usize) -> Result<Sym<T>> {
        let object = self.malloc(count)?;
        for line in object.range().step_by(ALIGNMENT as usize) {
            // The line is the object's alone, and lies in the heap.
            let _ = self.memory()?.write(line, &[0; ALIGNMENT as usize]);
        }
        self.barrier_all()?;
        Ok(object)
    }

    /// As [`malloc`](Self::malloc), at a multiple of `alignment` bytes from the start of the heap; every object is at a
    /// multiple of 64. [`Error::Setting`] if that is no power of two.
    pub fn align<T: Data>(&self, alignment: usize, count: usize) -> Result<Sym<T>> {
        self.agree("malloc", [alignment as u64, (count as u64) << 8 | size_of::<T>() as u64])?;
        if !alignment.is_power_of_two() {
            return Err(Error::Setting("alignment", "a power of two"));
        }
        let (bytes, alignment) = (bytes_of::<T>(count)?, alignment.max(ALIGNMENT as usize));
        let offset = self.inner.instance.allocated().allocate_aligned(bytes, alignment);
        let offset = offset.ok_or(Error::Full { bytes })?;
        Ok(Sym::new(offset as u32, count as u32))
    }

    /// Gives an object back, as it was allocated; [`Error::NotAllocated`] if it was not.
    pub fn free<T: Data>(&self, object: Sym<T>) -> Result {
        let offset = object.offset();
        self.agree("free", [offset.into(), 0])?;
        let freed = self.inner.instance.allocated().free(offset as usize);
        if freed { Ok(()) } else { Err(Error::NotAllocated { offset }) }
    }

    /// Makes an object longer or shorter, here or elsewhere; what it holds goes with it. It is as before if there is no room
    /// ([`Error::Full`]), or no such object ([`Error::NotAllocated`]).
    pub fn realloc<T: Data>(&self, object: Sym<T>, count: usize) -> Result<Sym<T>> {
        let offset = object.offset();
        self.agree("realloc", [offset.into(), count as u64])?;
        let (start, bytes) = (offset as usize, bytes_of::<T>(count)?);
        let mut heap = self.inner.instance.allocated();
        if !heap.contains(start) {
            return Err(Error::NotAllocated { offset });
        }
        let place = if heap.resize(start, bytes) == bytes {
            start
        } else {
            // As long as it was, until it is known that there is room.
            heap.resize(start, bytes_of::<T>(object.len())?);
            let place = heap.allocate(bytes).ok_or(Error::Full { bytes })?;
            let memory = self.memory()?;
            // Both lie in the heap, apart.
            let _ = memory.copy(start, memory, place, object.bytes());
            heap.free(start);
            place
        };
        drop(heap);
        // Nobody is to put to where another PE still copies.
        self.sync_all()?;
        Ok(Sym::new(place as u32, count as u32))
    }

    /// Copies the first elements of an object of this PE to `into`, which it fills.
    pub fn read<T: Data>(&self, object: Sym<T>, into: &mut [T]) -> Result {
        let short = Error::Short { has: object.len(), wanted: into.len() };
        let part = object.first(into.len())?;
        self.memory()?.read(part.range().start, into.as_mut_bytes()).map_err(|_| short)
    }

    /// Copies `from` to the first elements of an object of this PE.
    pub fn write<T: Data>(&self, object: Sym<T>, from: &[T]) -> Result {
        let short = Error::Short { has: object.len(), wanted: from.len() };
        let part = object.first(from.len())?;
        self.memory()?.write(part.range().start, from.as_bytes()).map_err(|_| short)
    }
}
