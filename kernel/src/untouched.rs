//! Which of the heap's memory nobody has written to since the node had it.

/// Bytes behind what an allocator gives out, in which it may note what is left.
const NOTES: usize = 64;

/// All memory from an address on. What is given out from it need not be zeroed where it was zero from the start.
#[derive(Default)]
pub struct Untouched(usize);

impl Untouched {
    /// None.
    pub const fn none() -> Self {
        Self(usize::MAX)
    }

    /// An allocator has memory from `start` on, and has written no more than notes to its front.
    pub fn begin(&mut self, start: usize) {
        self.0 = start.saturating_add(NOTES);
    }

    /// The allocator gives out `len` bytes at `start`. Returns how many of them, from the first on, may hold something.
    pub fn give(&mut self, start: usize, len: usize) -> usize {
        let held = self.0.saturating_sub(start).min(len);
        self.0 = self.0.max(start.saturating_add(len).saturating_add(NOTES));
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n5_only_what_was_never_given_out_is_untouched() {
        let mut untouched = Untouched::none();
        assert_eq!(untouched.give(0x1000, 100), 100);
        untouched.begin(0x1000);
        assert_eq!(untouched.give(0x1000, 0x100), NOTES);
        assert_eq!(untouched.give(0x1200, 0x100), 0);
        assert_eq!(untouched.give(0x1080, 0x80), 0x80);
        assert_eq!(untouched.give(0x1280, 0x200), 0xc0);
    }
}
