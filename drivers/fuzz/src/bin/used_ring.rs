//! The driver's virtqueue against a device that writes anything: every chain comes back at most once, with no more bytes
//! than it has, and all descriptors are accounted for.
#![no_main]

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use drivers::virtio::Hal;
use drivers::virtio::queue::{Piece, Rings, Virtqueue};
use libfuzzer_sys::fuzz_target;

const SIZE: u16 = 8;
const PIECE_BYTES: u32 = 100;

static RINGS: Rings<{ SIZE as usize }> = Rings::new();

struct Host;
// SAFETY: the only device is this program, which takes its own addresses.
unsafe impl Hal for Host {}

/// Writes to the used ring at `offset`.
fn write(used: u64, offset: usize, value: u32) {
    let pointer = with_exposed_provenance_mut::<u8>(used as usize + offset);
    if offset < 4 {
        // SAFETY: the two halves of the ring's head are 16-bit atomics.
        unsafe { AtomicU16::from_ptr(pointer.cast()) }.store(value as u16, Ordering::Relaxed);
    } else {
        // SAFETY: the entries of a ring that is never freed are 32-bit atomics.
        unsafe { AtomicU32::from_ptr(pointer.cast()) }.store(value, Ordering::Relaxed);
    }
}

fuzz_target!(|steps: &[u8]| {
    let mut queue = Virtqueue::<_, Host>::new(&RINGS);
    let used = queue.addresses().used;
    let mut chains = [0u16; SIZE as usize];
    for step in steps.chunks_exact(6) {
        let &[what, at, a, b, c, d] = step else { continue };
        match what % 4 {
            0 => {
                let pieces = [Piece { address: 0, len: PIECE_BYTES }; 3];
                let count = 1 + usize::from(at) % 3;
                // SAFETY: nobody follows the addresses.
                if let Some(head) = unsafe { queue.add(&pieces[..count], a % 2 == 0) } {
                    assert_eq!(std::mem::replace(&mut chains[usize::from(head)], count as u16), 0);
                }
            }
            1 => {
                queue.publish();
            }
            // The index, then any word of the entries.
            2 => write(used, 2, u32::from_le_bytes([a, b, 0, 0])),
            _ => write(
                used,
                4 + 4 * (usize::from(at) % (2 * usize::from(SIZE))),
                u32::from_le_bytes([a, b, c, d]),
            ),
        }
        if at >= 128 {
            queue.arm();
        }
        while let Some(done) = queue.take_used() {
            let count = std::mem::take(&mut chains[usize::from(done.head)]);
            assert!(count > 0 && done.written <= u32::from(count) * PIECE_BYTES);
        }
        assert_eq!(queue.room() + chains.iter().sum::<u16>(), SIZE);
        assert_eq!(usize::from(queue.outstanding()), chains.iter().filter(|&&count| count > 0).count());
    }
});
