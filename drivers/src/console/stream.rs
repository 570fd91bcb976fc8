//! The console of a process: what it was started with for output (SPEC H-1).

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Its number.
const STANDARD_OUTPUT: i32 = 1;

/// The standard output.
pub struct Stream(());

impl Stream {
    /// It, whoever else may have it: the host keeps each write whole enough.
    pub(super) fn new() -> Self {
        Self(())
    }

    /// Writes all of `bytes`. What nobody reads is lost.
    pub(super) fn write(&mut self, mut bytes: &[u8]) {
        // SAFETY: a node's process keeps its standard output open as long as it lives.
        let output = unsafe { BorrowedFd::borrow_raw(STANDARD_OUTPUT) };
        while !bytes.is_empty() {
            match rustix::io::write(output, bytes) {
                Ok(written) => bytes = &bytes[written.min(bytes.len())..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }
}
