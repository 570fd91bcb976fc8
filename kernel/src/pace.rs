//! A serial line no faster than its rate, where an emulator's takes all at once (SPEC N-12).

/// Bytes that wait in such a line.
const FIFO_BYTES: u64 = 16;
/// Bits that a byte takes.
const BITS: u64 = 10;

/// What a line of a rate has still to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    byte_ns: u64,
    /// When all has been sent.
    idle_ns: u64,
}

impl Pace {
    /// A line of so many bits a second that has nothing to send.
    pub fn new(baud: u32) -> Self {
        Self { byte_ns: (BITS * 1_000_000_000).div_ceil(u64::from(baud.max(1))), idle_ns: 0 }
    }

    /// Bytes that have room at `now`.
    pub fn room(&self, now_ns: u64) -> usize {
        let waiting = self.idle_ns.saturating_sub(now_ns).div_ceil(self.byte_ns);
        FIFO_BYTES.saturating_sub(waiting) as usize
    }

    /// So many bytes more are to be sent.
    pub fn put(&mut self, bytes: usize, now_ns: u64) {
        self.idle_ns = self.idle_ns.max(now_ns) + bytes as u64 * self.byte_ns;
    }

    /// When all has been sent: then such a line interrupts.
    pub fn idle_ns(&self) -> u64 {
        self.idle_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n12_a_paced_line_takes_as_many_bytes_as_a_real_one_would_have_sent() {
        let mut pace = Pace::new(115_200);
        assert_eq!(pace.room(5), 16);
        pace.put(16, 5);
        assert_eq!((pace.room(5), pace.idle_ns()), (0, 5 + 16 * 86_806));
        assert_eq!([86_804, 86_811, 5 + 16 * 86_806].map(|now| pace.room(now)), [0, 1, 16]);
        // Whoever fills it as often as he can sends 11520 bytes in a second and what it holds.
        let (mut pace, mut sent) = (Pace::new(115_200), 0);
        for now in (0..1_000_000_000).step_by(10_000) {
            let room = pace.room(now);
            pace.put(room, now);
            sent += room;
        }
        assert!((11_519..=11_536).contains(&sent), "{sent}");
    }
}
