//! What a node says that has no console yet: to whoever may listen, and kept in memory for whoever looks there (SPEC N-10,
//!

use super::this;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// So much is kept, from the beginning.
const KEPT_BYTES: usize = 1024;

/// Lines, each with its end. The host tool's dump reads it by its name; `xtask/src/dump.rs` knows the layout.
#[repr(C)]
struct LastWords {
    len: AtomicUsize,
    bytes: [AtomicU8; KEPT_BYTES],
}

// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
static PAMIR_LAST_WORDS: LastWords =
    LastWords { len: AtomicUsize::new(0), bytes: [const { AtomicU8::new(0) }; KEPT_BYTES] };

/// Keeps a line and says it as a frame that begins with `head`. Only the hart that ends the node does.
pub(crate) fn last_words(head: [u8; 2], line: &[u8]) {
    let LastWords { len, bytes } = &PAMIR_LAST_WORDS;
    let start = len.load(Ordering::Relaxed);
    let places = bytes.iter().skip(start);
    let kept =
        places.zip(line.iter().chain(b"\n")).map(|(place, &byte)| place.store(byte, Ordering::Relaxed));
    let kept = kept.count();
    len.store(start + kept, Ordering::Release);
    this::last_words(head, line);
}
