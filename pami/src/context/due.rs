//! How much an advance has to look at. One number, so that to note new work is one store.

/// What the next advances have to do.
#[derive(Clone, Copy)]
pub(super) struct Due(i16);

impl Due {
    /// Nothing is under way: an advance has only to look for what is new.
    pub(super) const NEW: Self = Self(-1);
    /// Something is under way: an operation, a receive request, half a message, an acknowledgement that is owed, an arrival that
    /// waits.
    pub(super) const ALL: Self = Self(0);

    /// Nothing is under way but collectives that wait for messages: for so many more advances, of which there are some, a look at
    /// the port is enough.
    pub(super) const fn looks(number: i16) -> Self {
        Self(number)
    }

    /// Whether anything is under way.
    #[inline(always)]
    pub(super) fn is_some(self) -> bool {
        self.0 >= 0
    }

    /// Whether a look at the port is enough, though something is under way.
    #[inline(always)]
    pub(super) fn is_look(self) -> bool {
        self.0 > 0
    }

    /// After one of the looks, which found nothing.
    #[inline(always)]
    pub(super) fn looked(self) -> Self {
        Self(self.0 - 1)
    }
}
