//! How much files may still grow by (SPEC S-2, R-8).
//!
//! What is counted is growth, over the whole run: bytes by which a write makes its file longer, holes included, and
//! [`NEW_FILE`] for each file that is made. Nothing is given back, so no order of calls makes files of more.
//!
//! All I/O nodes of a run count together, in a file that whoever counts has locked: which of them makes a common file longer,
//! and how much of that the others then need not, is chance. The lock of one that is killed goes with it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use kernel::file_calls::Errno;

/// What a file counts that is made, however short it stays.
pub const NEW_FILE: u64 = 4096;

/// What is left, as a number in a file.
pub struct Space(File);

impl Space {
    /// Has the file `path` be there, with `limit` bytes left.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path, limit: u64) -> io::Result<()> {
        std::fs::write(path, limit.to_le_bytes())
    }

    /// What is left by the file `path`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::options().read(true).write(true).open(path).map(Self)
    }

    /// Waits until no other I/O node counts, and has none do so while the answer is there.
    ///
    /// # Errors
    /// `EIO`: the file fails.
    pub fn lock(&self) -> Result<Left<'_>, Errno> {
        let mut left = [0; 8];
        let read = self.0.lock().and_then(|()| self.0.read_exact_at(&mut left, 0));
        read.map_err(|_| Errno::EIO)?;
        Ok(Left { file: &self.0, bytes: u64::from_le_bytes(left) })
    }
}

/// What is left, and changes by nobody else.
pub struct Left<'a> {
    file: &'a File,
    bytes: u64,
}

impl Left<'_> {
    /// Counts a new file that `make` makes, if it does.
    ///
    /// # Errors
    /// `ENOSPC`: there are not so many bytes left. Or those of `make`.
    pub fn new_file<T>(&mut self, make: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let left = self.bytes.checked_sub(NEW_FILE).ok_or(Errno::ENOSPC)?;
        let made = make()?;
        self.bytes = left;
        Ok(made)
    }

    /// How many of `len` bytes can be written at `at` into a file of `size` bytes.
    ///
    /// # Errors
    /// `ENOSPC`: not one of them, though there are some.
    pub fn fits(&self, size: u64, at: u64, len: u64) -> Result<u64, Errno> {
        let growth = at.saturating_add(len).saturating_sub(size);
        let fits = len.saturating_sub(growth.saturating_sub(self.bytes));
        if fits == 0 && len > 0 { Err(Errno::ENOSPC) } else { Ok(fits) }
    }

    /// Bytes were written at `at`, as many as [fit](Self::fits) at most, into a file of `size` bytes.
    pub fn written(&mut self, size: u64, at: u64, len: u64) {
        let growth = at.saturating_add(len).saturating_sub(size);
        self.bytes = self.bytes.saturating_sub(if len > 0 { growth } else { 0 });
    }
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        // A disk that takes these eight bytes no more takes no file's either.
        let _ = self.file.write_all_at(&self.bytes.to_le_bytes(), 0);
        let _ = self.file.unlock();
    }
}
