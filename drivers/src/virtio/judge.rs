//! The driver's queue against the device's queue of rust-vmm, which knows nothing of this driver: an independent
//! judge of what is in the rings.
#![cfg(not(miri))]

use super::fake::HostHal;
use super::queue::{Piece, Virtqueue};
use proptest::prelude::*;
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec::Vec;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

const SIZE: u16 = 16;
const PAGE: u64 = 4096;

/// Guest memory that is this process's own, one to one, on the pages of these ranges.
fn memory(ranges: &[(u64, u64)]) -> GuestMemoryMmap {
    let pages: BTreeSet<u64> =
        ranges.iter().flat_map(|&(start, len)| start / PAGE..=(start + len - 1) / PAGE).collect();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == page => *count += 1,
            _ => runs.push((page, 1)),
        }
    }
    let regions = runs.into_iter().map(|(page, count)| {
        let pointer = core::ptr::with_exposed_provenance_mut((page * PAGE) as usize);
        // SAFETY: pages of this process's heap that hold the 'static memory of the test.
        let region = unsafe {
            MmapRegion::build_raw(
                pointer,
                (count * PAGE) as usize,
                0x3,  // readable and writable
                0x22, // private and anonymous
            )
        };
        GuestRegionMmap::new(region.unwrap(), GuestAddress(page * PAGE)).unwrap()
    });
    GuestMemoryMmap::from_regions(regions.collect()).unwrap()
}

struct Pair {
    driver: Virtqueue<{ SIZE as usize }, HostHal>,
    device: Queue,
    memory: GuestMemoryMmap,
    buffer: u64,
}

fn pair() -> Pair {
    let driver = Virtqueue::new(Box::leak(Box::default()));
    let buffer: &'static mut [u8] = std::vec![0u8; 1 << 16].leak();
    let buffer = buffer.as_mut_ptr().expose_provenance() as u64;
    let addresses = driver.addresses();
    let size = u64::from(SIZE);
    let memory = memory(&[
        (addresses.descriptors, 16 * size),
        (addresses.available, 6 + 2 * size),
        (addresses.used, 6 + 8 * size),
        (buffer, 1 << 16),
    ]);
    let mut device = Queue::new(SIZE).unwrap();
    device.set_size(SIZE);
    let half = |address: u64| (Some(address as u32), Some((address >> 32) as u32));
    let (low, high) = half(addresses.descriptors);
    device.set_desc_table_address(low, high);
    let (low, high) = half(addresses.available);
    device.set_avail_ring_address(low, high);
    let (low, high) = half(addresses.used);
    device.set_used_ring_address(low, high);
    device.set_event_idx(true);
    device.set_ready(true);
    assert!(device.is_valid(&memory), "the judge does not accept where the rings lie");
    Pair { driver, device, memory, buffer }
}

proptest! {
    #[test]
    fn d1_a_device_of_another_make_reads_every_chain_and_is_told_of_it(
        steps in proptest::collection::vec((0u8..6, 1u16..500, any::<u16>()), 1..400)
    ) {
        let Pair { mut driver, mut device, memory, buffer } = pair();
        // What the driver added but has not published; what it published, in order; what the device has.
        let mut added = VecDeque::new();
        let mut shown = VecDeque::new();
        let mut taken: Vec<(u16, u32)> = Vec::new();
        let mut used = BTreeMap::new();
        let (mut device_waits, mut driver_waits) = (false, false);
        for (what, len, at) in steps {
            match what {
                // The driver adds a chain of one to three pieces of the buffer.
                0 | 1 => {
                    let pieces: Vec<Piece> = (0..1 + u32::from(at) % 3)
                        .map(|i| Piece { address: buffer + u64::from(at / 2), len: u32::from(len) + i })
                        .collect();
                    let writable = at % 2 == 0;
                    // SAFETY: the pieces lie in a buffer that is leaked, and that only the judge writes to.
                    if let Some(head) = unsafe { driver.add(&pieces, writable) } {
                        added.push_back((head, pieces, writable));
                    }
                }
                2 => {
                    let told = driver.publish();
                    // A device that waits is told when there is something new.
                    prop_assert!(told || !device_waits || added.is_empty());
                    device_waits &= !told;
                    shown.append(&mut added);
                }
                // The device takes a chain, or begins to wait.
                3 => match device.pop_descriptor_chain(&memory) {
                    Some(chain) => {
                        let (head, pieces, writable) = shown.pop_front().expect("a chain that was published");
                        prop_assert_eq!(chain.head_index(), head);
                        let seen: Vec<Piece> = chain
                            .map(|descriptor| {
                                assert_eq!(descriptor.is_write_only(), writable);
                                Piece { address: descriptor.addr().0, len: descriptor.len() }
                            })
                            .collect();
                        prop_assert_eq!(&seen, &pieces);
                        let mut bytes = std::vec![0; seen[0].len as usize];
                        memory.read_slice(&mut bytes, GuestAddress(seen[0].address)).unwrap();
                        let capacity = if writable { seen.iter().map(|piece| piece.len).sum() } else { 0 };
                        taken.push((head, capacity));
                    }
                    None => {
                        prop_assert!(shown.is_empty());
                        device_waits = !device.enable_notification(&memory).unwrap();
                    }
                },
                // The device gives one back, not always in order.
                4 => if !taken.is_empty() {
                    let (head, capacity) = taken.swap_remove(usize::from(at) % taken.len());
                    let written = u32::from(len).min(capacity);
                    device.add_used(&memory, head, written).unwrap();
                    used.insert(head, written);
                    let interrupts = device.needs_notification(&memory).unwrap();
                    prop_assert!(interrupts || !driver_waits, "a sleeping driver was left asleep");
                    driver_waits &= !interrupts;
                },
                // The driver collects, and sleeps if there is nothing.
                _ => {
                    while let Some(done) = driver.take_used() {
                        prop_assert_eq!(used.remove(&done.head), Some(done.written));
                    }
                    prop_assert!(used.is_empty());
                    driver_waits = !driver.arm();
                    prop_assert!(driver_waits);
                }
            }
        }
        prop_assert_eq!(driver.faults(), Default::default());
    }
}
