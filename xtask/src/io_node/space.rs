//! How much files may still grow by (SPEC S-2, R-8).
//!
//! What is counted is growth, over the whole life of the I/O node: bytes by which a write makes its file longer, holes included, and
//! [`NEW_FILE`] for each file that is made. Nothing is given back, so no order of calls, and no other I/O node at the same
//! directory, can make files of more.

use kernel::file_calls::Errno;

/// What a file counts that is made, however short it stays.
pub const NEW_FILE: u64 = 4096;

/// What is left.
pub struct Space {
    left: u64,
}

impl Space {
    /// So many bytes.
    pub fn new(limit: u64) -> Self {
        Self { left: limit }
    }

    /// Counts bytes.
    ///
    /// # Errors
    /// `ENOSPC`: there are not so many left.
    pub fn take(&mut self, bytes: u64) -> Result<(), Errno> {
        self.left = self.left.checked_sub(bytes).ok_or(Errno::ENOSPC)?;
        Ok(())
    }

    /// What was taken was not used.
    pub fn give_back(&mut self, bytes: u64) {
        self.left += bytes;
    }

    /// How many of `len` bytes can be written at `at` into a file of `size` bytes.
    ///
    /// # Errors
    /// `ENOSPC`: not one of them, though there are some.
    pub fn fits(&self, size: u64, at: u64, len: u64) -> Result<u64, Errno> {
        let growth = at.saturating_add(len).saturating_sub(size);
        let fits = len.saturating_sub(growth.saturating_sub(self.left));
        if fits == 0 && len > 0 { Err(Errno::ENOSPC) } else { Ok(fits) }
    }

    /// Bytes were written at `at`, as many as [fit](Self::fits) at most, into a file of `size` bytes.
    pub fn written(&mut self, size: u64, at: u64, len: u64) {
        let growth = at.saturating_add(len).saturating_sub(size);
        self.left = self.left.saturating_sub(if len > 0 { growth } else { 0 });
    }
}
