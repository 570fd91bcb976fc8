//! Where memory in shared use lies: for those that have it at the same address, but no handle of it.

use super::transfer::{self, Atomics};
use super::{Misplaced, Shared};
use core::ptr::{self, NonNull};

/// Where some memory in shared use lies, all of it: two words that can be told to others. Holds nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Its first byte's address.
    pub start: usize,
    /// Its bytes.
    pub len: usize,
}

impl Shared {
    /// Where it lies.
    pub fn extent(&self) -> Extent {
        let (data, len) = self.bytes();
        Extent { start: data.as_ptr().expose_provenance(), len }
    }
}

impl Extent {
    /// Copies `len` bytes from `offset` on to `at` in `to`, which is other memory.
    ///
    /// # Errors
    /// [`Misplaced::Bounds`]; nothing was copied.
    ///
    /// # Safety
    /// Where it says there is memory now, and until this returns it is either in shared use, accessed as that of [`Shared`] is, or
    /// written by others than this program.
    pub unsafe fn copy(self, offset: usize, to: &Shared, at: usize, len: usize) -> Result<(), Misplaced> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Misplaced::Bounds);
        }
        let into = to.range(at, len)?;
        let data = ptr::with_exposed_provenance_mut(self.start);
        let Some(first) = NonNull::new(data) else { return Err(Misplaced::Bounds) };
        // SAFETY: `to` has so many bytes there, and this memory `len` from `offset` on, whose bytes are accessed in the sizes
        // that all others access them in, says the caller.
        unsafe { transfer::copy((Atomics::of(first, self.len), data.add(offset)), into, len) };
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use std::boxed::Box;
    use std::vec::Vec;

    #[test]
    fn h5_whoever_is_told_where_memory_lies_reads_any_bytes_of_it_and_none_beyond() {
        const LEN: usize = 61;
        let bytes: Vec<u8> = (1..=LEN as u8).collect();
        // Begins and ends within words.
        let whole = Box::leak(std::vec![0u8; LEN + 16].into_boxed_slice());
        let skip = whole.as_ptr().align_offset(8) + 3;
        let control = Box::leak(Box::default());
        // SAFETY: inside the box, which nobody else uses.
        let memory =
            unsafe { Buffer::over(whole.as_mut_ptr().wrapping_add(skip), LEN, control) }.unwrap().share();
        memory.write(0, &bytes).unwrap();
        let extent = memory.extent();
        let room = Box::leak(std::vec![0; LEN + crate::buffer::CONTROL_BYTES + 64].into_boxed_slice());
        let into = Buffer::new(room).unwrap().share();
        for offset in 0..=LEN {
            for len in 0..=LEN - offset {
                if cfg!(miri) && (offset + len) % 7 > 0 {
                    continue;
                }
                // SAFETY: the memory is in shared use.
                unsafe { extent.copy(offset, &into, 0, len) }.unwrap();
                let mut read = std::vec![0; len];
                into.read(0, &mut read).unwrap();
                assert_eq!(read, bytes[offset..offset + len]);
            }
            // SAFETY: as above.
            let beyond = unsafe { extent.copy(offset, &into, 0, LEN - offset + 1) };
            assert_eq!(beyond, Err(Misplaced::Bounds));
        }
        // SAFETY: as above.
        assert_eq!(unsafe { extent.copy(usize::MAX, &into, 0, 2) }, Err(Misplaced::Bounds));
    }
}
