//! What fake cards of tests have in common: addresses, caches and barriers of this process, of which notes are taken,
//! and memory that a card reads and writes by device address.

use super::Hal;
use core::cell::RefCell;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use std::format;
use std::string::String;
use std::vec::Vec;

std::thread_local! {
    /// Barriers, cache maintenance and what cards were told, in their order, on this thread while somebody takes note.
    static NOTES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

pub fn note(what: impl Fn() -> String) {
    NOTES.with_borrow_mut(|notes| notes.iter_mut().for_each(|notes| notes.push(what())));
}

/// Runs `what` and returns the barriers, the cache maintenance and what cards were told meanwhile.
pub fn noted(what: impl FnOnce()) -> Vec<String> {
    NOTES.set(Some(Vec::new()));
    what();
    NOTES.take().unwrap()
}

/// Bytes of a cache line of [`HostHal`], more than other machines have.
pub const HOST_LINE: usize = 128;

/// Addresses and barriers of this process, which has memory without caches if `UNCACHED`.
pub struct HostHal<const UNCACHED: bool = true>;

// SAFETY: the fake cards live in this process and take its addresses.
unsafe impl<const UNCACHED: bool> Hal for HostHal<UNCACHED> {
    fn barrier() {
        note(|| "barrier".into());
        fence(Ordering::SeqCst);
    }
    fn line() -> usize {
        HOST_LINE
    }
    fn uncached(words: usize) -> Option<&'static [AtomicU32]> {
        let memory = Vec::leak((0..2 * words).map(|_| AtomicU32::new(0)).collect());
        let skip = memory.as_ptr().align_offset(4 * words);
        UNCACHED.then(|| &memory[skip..skip + words])
    }
    fn clean(bytes: &[u8]) {
        note(|| format!("clean {:#x} {}", bytes.as_ptr().addr(), bytes.len()));
    }
    fn invalidate(bytes: &mut [u8]) {
        note(|| format!("invalidate {:#x} {}", bytes.as_ptr().addr(), bytes.len()));
    }
}

/// The descriptor word at a device address.
fn word(address: u64) -> &'static AtomicU32 {
    // SAFETY: tests keep to the rings that a driver named, which are 'static and made of such words.
    unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut(address as usize)) }
}

/// A word of a descriptor.
pub fn load(address: u64) -> u32 {
    u32::from_le(word(address).load(Ordering::Acquire))
}

/// Writes it.
pub fn store(address: u64, value: u32) {
    word(address).store(value.to_le(), Ordering::Release);
}

/// Reads `len` bytes at a device address.
pub fn read(address: u64, len: u32) -> Vec<u8> {
    let pointer = with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: a driver under test gave it to the card to read.
    (0..len as usize).map(|i| unsafe { pointer.add(i).read() }).collect()
}

/// Writes `bytes` to a device address.
pub fn write(address: u64, bytes: &[u8]) {
    let pointer = with_exposed_provenance_mut::<u8>(address as usize);
    for (i, byte) in bytes.iter().enumerate() {
        // SAFETY: a driver under test gave it to the card to write, and the caller keeps to its length.
        unsafe { pointer.add(i).write(*byte) }
    }
}
