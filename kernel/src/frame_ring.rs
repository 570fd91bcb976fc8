//! Frames that wait for the serial line, whole and in order (SPEC N-12).
//!
//! The line is slow: a frame is put here in no time, and one that finds no room is dropped whole and counted, so that no hart
//! waits for the line.

/// A ring of `N` bytes with frames in it; who uses it has it alone.
#[derive(Debug)]
pub struct FrameRing<const N: usize> {
    bytes: [u8; N],
    /// Where the first byte lies that waits.
    head: usize,
    /// Bytes that wait.
    len: usize,
    /// Frames that wait, the first perhaps in part.
    frames: u32,
    dropped: u32,
}

impl<const N: usize> FrameRing<N> {
    /// An empty ring.
    pub const fn new() -> Self {
        Self { bytes: [0; N], head: 0, len: 0, frames: 0, dropped: 0 }
    }

    /// Puts in a frame, which lies in `parts`, if that leaves `spare` bytes free; else drops and counts it. Returns whether it is
    /// in.
    pub fn push(&mut self, parts: &[&[u8]], spare: usize) -> bool {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes.saturating_add(spare) > N - self.len {
            self.drop_one();
            return false;
        }
        for part in parts {
            let tail = (self.head + self.len) % N;
            let (front, back) = part.split_at(part.len().min(N - tail));
            self.bytes[tail..][..front.len()].copy_from_slice(front);
            self.bytes[..back.len()].copy_from_slice(back);
            self.len += part.len();
        }
        self.frames = self.frames.saturating_add(1);
        true
    }

    /// Counts a frame that was dropped before it came here.
    pub fn drop_one(&mut self) {
        self.dropped = self.dropped.saturating_add(1);
    }

    /// The first bytes that wait; there may be more behind them.
    pub fn next(&self) -> &[u8] {
        &self.bytes[self.head..][..self.len.min(N - self.head)]
    }

    /// The first `count` bytes, all of [`next`](Self::next) at most, wait no more.
    pub fn take(&mut self, count: usize) {
        let taken = self.next();
        let taken = &taken[..count.min(taken.len())];
        let (count, ends) = (taken.len(), taken.iter().filter(|&&byte| byte == 0).count());
        self.frames = self.frames.saturating_sub(ends as u32);
        self.head = (self.head + count) % N;
        self.len -= count;
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Frames that wait, those that are sent in part among them. Each ends with the only zero byte that is in it.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Frames that were dropped so far.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }
}

impl<const N: usize> Default for FrameRing<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    #[test]
    fn n12_a_frame_waits_until_its_end_is_sent() {
        let mut ring = FrameRing::<8>::new();
        assert!(ring.push(&[b"ab\0"], 0) && ring.push(&[b"c", b"\0"], 0) && !ring.push(&[b"defg\0"], 0));
        let after = [2, 1, 1, 1].map(|bytes| (ring.take(bytes), ring.frames()).1);
        assert_eq!(after, [2, 1, 1, 0]);
    }

    #[test]
    fn n12_a_frame_that_finds_no_room_is_dropped_whole_and_counted() {
        let mut ring = FrameRing::<8>::new();
        assert!(ring.push(&[b"ab", b"cd"], 0));
        assert!(!ring.push(&[b"efgh", b"i"], 0), "five bytes where four are free");
        assert!(!ring.push(&[b"ef"], 3), "two that leave two, not three");
        assert!(ring.push(&[b"efgh"], 0));
        assert_eq!((ring.len(), ring.dropped(), ring.next()), (8, 2, &b"abcdefgh"[..]));
        ring.take(6);
        assert!(ring.push(&[b"ijk"], 0));
        assert_eq!(ring.next(), b"gh");
        ring.take(100);
        assert_eq!(ring.next(), b"ijk", "no more was taken than was shown");
        ring.take(3);
        assert!(ring.is_empty() && ring.next().is_empty());
    }

    proptest! {
        /// Against a queue of frames: what comes out is what went in, frame by frame, and each other one is counted.
        #[test]
        fn n12_frames_come_out_whole_and_in_order(
            steps in proptest::collection::vec((any::<bool>(), 0..40usize, 0..12usize), 0..400)
        ) {
            let mut ring = FrameRing::<64>::new();
            let (mut model, mut dropped, mut next) = (VecDeque::new(), 0, 0u8);
            for (put, length, spare) in steps {
                if put {
                    let frame: Vec<u8> = (0..length).map(|_| { next = next.wrapping_add(1); next }).collect();
                    let (front, back) = frame.split_at(length / 2);
                    let fits = model.len() + length + spare <= 64;
                    prop_assert_eq!(ring.push(&[front, back], spare), fits);
                    if fits { model.extend(frame) } else { dropped += 1 }
                } else {
                    let shown = ring.next();
                    prop_assert_eq!(shown.is_empty(), model.is_empty());
                    let taken = length.min(shown.len());
                    prop_assert!(model.drain(..taken).eq(shown[..taken].iter().copied()));
                    ring.take(taken);
                }
                prop_assert_eq!((ring.len(), ring.dropped()), (model.len(), dropped));
            }
        }
    }
}
