//! When a node that joins says again that it is up: after a while that doubles, so that a hundred nodes that wait for the
//! last to boot leave it the host.

/// Before the second call, in nanoseconds.
const FIRST_NS: u64 = 10_000_000;
/// Between two calls, at most.
pub(crate) const MOST_NS: u64 = 5_000_000_000;

/// When one node calls into one network.
pub(crate) struct Backoff {
    next: u64,
    wait: u64,
}

impl Backoff {
    /// The first is due at once.
    pub(crate) const fn new() -> Self {
        Self { next: 0, wait: FIRST_NS }
    }

    /// Whether it is time to call; then the next call is put off.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.wait;
            self.wait = (2 * self.wait).min(MOST_NS);
        }
        due
    }

    /// When the next is due.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }
}
