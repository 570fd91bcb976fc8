//! Return addresses along the frame pointers.

use super::image;
use super::this::{FRAME, RETURN, boot_number};
use boot::{Stack, emergency_stack, stack};

/// The return addresses of a hart's calls, the innermost first. Looks only at the hart's own stacks, so a broken chain
/// ends it and does no harm.
pub(crate) struct Backtrace {
    frame: usize,
    stacks: [Option<Stack>; 2],
}

impl Backtrace {
    /// Those of this hart from the frame pointer `frame`.
    pub(crate) fn from(frame: usize) -> Self {
        Self { frame, stacks: [stack(boot_number()), emergency_stack(boot_number())] }
    }

    fn load(&self, address: usize) -> Option<usize> {
        let inside = |stack: &Stack| stack.contains(address) && stack.contains(address + 7);
        if !address.is_multiple_of(8) || !self.stacks.iter().flatten().any(inside) {
            return None;
        }
        // SAFETY: aligned and on a mapped stack of this hart, which holds nothing but bytes in use or of the past.
        Some(unsafe { core::ptr::with_exposed_provenance::<usize>(address).read_volatile() })
    }
}

impl Iterator for Backtrace {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let outer = self.load(self.frame.wrapping_add_signed(FRAME))?;
        let caller = self.load(self.frame.wrapping_add_signed(RETURN))?;
        // Frames lie higher the further out they are.
        self.frame = if outer > self.frame { outer } else { 0 };
        // The address behind the call: the call itself is what a reader wants.
        let call = caller.wrapping_sub(1);
        image::is_code(call).then_some(call)
    }
}
