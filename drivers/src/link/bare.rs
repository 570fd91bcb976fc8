//! The front of frames that nothing mends (SPEC Q-4): a word, where others have a link header.

use super::LINK_BYTES;

/// First bytes of such a frame: no link header has them, but by a chance of one in 2^64.
const MARK: [u8; 8] = *b"no link:";

/// The front of one with this word.
pub(crate) fn front(word: u64) -> [u8; LINK_BYTES] {
    let mut front = [0; LINK_BYTES];
    front[..8].copy_from_slice(&MARK);
    front[8..16].copy_from_slice(&word.to_le_bytes());
    front
}

/// The word of such a frame, and how many bytes of data it has.
pub(crate) fn read(frame: &[u8]) -> Option<(u64, usize)> {
    let (front, data) = frame.split_first_chunk::<LINK_BYTES>()?;
    let (word, _) = front.strip_prefix(&MARK)?.split_first_chunk()?;
    Some((u64::from_le_bytes(*word), data.len()))
}
