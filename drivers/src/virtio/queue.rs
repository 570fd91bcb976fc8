//! A split virtqueue with event index, driver's side (SPEC D-1, D-9; virtio 1.2, section 2.7).
//!
//! The driver believes nothing it reads from the rings: which descriptors are free, how chains are linked and
//! how long they are, all that lies in shadow copies that the device cannot reach. From the used ring come only an
//! index, ids and lengths; each is checked, and a bad one is counted and ignored.
//!
//! All shared memory is atomics, so this module holds no `unsafe`: what a chain's addresses mean is the matter of
//! whoever adds it.

use super::Hal;
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

const NEXT: u16 = 1;
const WRITE: u16 = 2;

/// A descriptor as the device reads it.
#[repr(C, align(16))]
struct Descriptor {
    address: AtomicU64,
    /// Length, 16 bits of flags, and 16 of the descriptor behind it: one store.
    rest: AtomicU64,
}

/// The driver's ring, then the index of the used entry that the driver wants an interrupt for.
#[repr(C, align(2))]
struct Available<const N: usize> {
    flags: AtomicU16,
    idx: AtomicU16,
    ring: [AtomicU16; N],
    used_event: AtomicU16,
}

#[repr(C)]
struct UsedEntry {
    id: AtomicU32,
    len: AtomicU32,
}

/// The device's ring, then the index of the available entry that the device wants a notification for.
#[repr(C, align(4))]
struct Used<const N: usize> {
    flags: AtomicU16,
    idx: AtomicU16,
    ring: [UsedEntry; N],
    available_event: AtomicU16,
}

/// The memory that driver and device share: descriptors and both rings of a queue of `N` entries.
#[repr(C)]
pub struct Rings<const N: usize> {
    descriptors: [Descriptor; N],
    available: Available<N>,
    used: Used<N>,
}

impl<const N: usize> Rings<N> {
    /// Memory for a queue.
    pub const fn new() -> Self {
        Self {
            descriptors: [const { Descriptor { address: AtomicU64::new(0), rest: AtomicU64::new(0) } }; N],
            available: Available {
                flags: AtomicU16::new(0),
                idx: AtomicU16::new(0),
                ring: [const { AtomicU16::new(0) }; N],
                used_event: AtomicU16::new(0),
            },
            used: Used {
                flags: AtomicU16::new(0),
                idx: AtomicU16::new(0),
                ring: [const { UsedEntry { id: AtomicU32::new(0), len: AtomicU32::new(0) } }; N],
                available_event: AtomicU16::new(0),
            },
        }
    }
}

impl<const N: usize> Default for Rings<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Device addresses of a queue's three parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// Descriptor table.
    pub descriptors: u64,
    /// Available ring, the "driver area".
    pub available: u64,
    /// Used ring, the "device area".
    pub used: u64,
}

/// Memory of one descriptor of a chain: device address and length in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Address as the device sees it.
    pub address: u64,
    /// Bytes.
    pub len: u32,
}

/// A chain that the device is done with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// What [`Virtqueue::add`] returned for it; less than the queue's size.
    pub head: u16,
    /// Bytes the device says it wrote; at most what the chain takes, 0 if it claimed more.
    pub written: u32,
}

/// Lies of the device that were caught.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueFaults {
    /// Used ids outside the table, or of chains that were not the device's.
    pub ids: u64,
    /// More bytes used than the chain has.
    pub lengths: u64,
    /// Used indices that would mean more chains than the device has.
    pub indices: u64,
}

/// Whether the other side wants to hear of the step from `old` to `new` when it asked for `event`: whether `event`
/// is one of the entries `old..new`, all modulo 2^16.
pub const fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// What this side knows of a descriptor.
#[derive(Clone, Copy)]
struct Shadow {
    /// Of the head of a chain that the device has: its writable bytes.
    capacity: u32,
    /// The one behind it, in a chain or among the free ones.
    next: u16,
    /// Of such a head: descriptors of its chain. 0 for any other.
    count: u8,
}

/// A queue of `N` descriptors; `N` is a power of two, at most 2^15.
pub struct Virtqueue<const N: usize, H> {
    rings: &'static Rings<N>,
    shadows: Box<[Shadow; N]>,
    /// The first of the descriptors that are free, and how many are.
    first: u16,
    free: u16,
    /// Chains that the device has.
    outstanding: u16,
    added: u16,
    published: u16,
    seen: u16,
    bad_index: Option<u16>,
    faults: QueueFaults,
    hal: PhantomData<fn() -> H>,
}

impl<const N: usize, H: Hal> Virtqueue<N, H> {
    const SIZE_IS_RIGHT: () = assert!(N.is_power_of_two() && N <= 1 << 15);

    /// An empty queue that asks for no interrupts, in `rings`, which no device uses yet.
    pub fn new(rings: &'static Rings<N>) -> Self {
        let () = Self::SIZE_IS_RIGHT;
        rings.available.idx.store(0, Ordering::Relaxed);
        // The entry that is farthest away: no interrupt until `arm`.
        rings.available.used_event.store(u16::MAX.to_le(), Ordering::Relaxed);
        rings.used.idx.store(0, Ordering::Relaxed);
        rings.used.available_event.store(0, Ordering::Relaxed);
        Self {
            rings,
            shadows: Box::new(core::array::from_fn(|i| Shadow { capacity: 0, next: i as u16 + 1, count: 0 })),
            first: 0,
            free: N as u16,
            outstanding: 0,
            added: 0,
            published: 0,
            seen: 0,
            bad_index: None,
            faults: QueueFaults::default(),
            hal: PhantomData,
        }
    }

    /// Where the device finds the queue.
    pub fn addresses(&self) -> Addresses {
        Addresses {
            descriptors: H::device_address((&raw const self.rings.descriptors).cast()),
            available: H::device_address((&raw const self.rings.available).cast()),
            used: H::device_address((&raw const self.rings.used).cast()),
        }
    }

    /// Where the device counts the chains that it is done with: a look whether there may be new ones.
    pub fn progress(&self) -> &'static AtomicU16 {
        &self.rings.used.idx
    }

    /// Descriptors that no chain uses.
    pub fn room(&self) -> u16 {
        self.free
    }

    /// Chains that the device has or is about to be told of.
    pub fn outstanding(&self) -> u16 {
        self.outstanding
    }

    /// What the device did wrong so far.
    pub fn faults(&self) -> QueueFaults {
        self.faults
    }

    /// Makes a chain of `pieces`, all for the device to write if `writable`, else to read, and returns the number
    /// by which it comes back. The device sees it after [`publish`](Self::publish). `None`: no room, or no pieces.
    ///
    /// # Safety
    /// The device may reach the memory of all pieces until the chain comes back from [`take_used`](Self::take_used): if
    /// `writable` it is nobody else's meanwhile, else nobody changes it.
    #[inline(always)]
    pub unsafe fn add(&mut self, pieces: &[Piece], writable: bool) -> Option<u16> {
        let count = pieces.len();
        if count == 0 || count > usize::from(self.free) || count > usize::from(u8::MAX) {
            return None;
        }
        let direction = if writable { WRITE } else { 0 };
        let head = self.first;
        let mut id = usize::from(head) % N;
        let mut capacity = 0u32;
        let mut left = count;
        for piece in pieces {
            left -= 1;
            let next = self.shadows[id].next;
            let (link, behind) = if left == 0 { (0, 0) } else { (NEXT, next) };
            let descriptor = &self.rings.descriptors[id];
            descriptor.address.store(piece.address.to_le(), Ordering::Relaxed);
            let rest = u64::from(piece.len) | u64::from(direction | link) << 32 | u64::from(behind) << 48;
            descriptor.rest.store(rest.to_le(), Ordering::Relaxed);
            capacity = capacity.saturating_add(piece.len);
            self.first = next;
            id = usize::from(next) % N;
        }
        self.free -= count as u16;
        let shadow = &mut self.shadows[usize::from(head) % N];
        (shadow.count, shadow.capacity) = (count as u8, if writable { capacity } else { 0 });
        self.outstanding += 1;
        self.rings.available.ring[usize::from(self.added) % N].store(head.to_le(), Ordering::Relaxed);
        self.added = self.added.wrapping_add(1);
        Some(head)
    }

    /// Shows the device what was added. Returns whether it asked to be notified of that.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.published == self.added {
            return false;
        }
        self.rings.available.idx.store(self.added.to_le(), Ordering::Release);
        // The device sets its event, then looks at idx; we set idx, then look at its event. Without a full
        // barrier on both sides each may miss the other.
        H::barrier();
        let event = u16::from_le(self.rings.used.available_event.load(Ordering::Relaxed));
        let old = core::mem::replace(&mut self.published, self.added);
        need_event(event, self.added, old)
    }

    /// The next chain that the device is done with; its descriptors are free again.
    #[inline]
    pub fn take_used(&mut self) -> Option<Done> {
        while self.has_used() {
            let entry = &self.rings.used.ring[usize::from(self.seen) % N];
            let id = u32::from_le(entry.id.load(Ordering::Relaxed));
            let mut written = u32::from_le(entry.len.load(Ordering::Relaxed));
            self.seen = self.seen.wrapping_add(1);
            let chain = self.shadows.get_mut(id as usize).filter(|shadow| shadow.count != 0);
            let Some(Shadow { capacity, count, .. }) = chain else {
                self.faults.ids += 1;
                continue;
            };
            let (capacity, count) = (*capacity, core::mem::take(count));
            let head = id as u16;
            if written > capacity {
                self.faults.lengths += 1;
                written = 0;
            }
            self.outstanding -= 1;
            let mut last = usize::from(head) % N;
            for _ in 1..count {
                last = usize::from(self.shadows[last].next) % N;
            }
            self.shadows[last].next = self.first;
            self.first = head;
            self.free += u16::from(count);
            return Some(Done { head, written });
        }
        None
    }

    /// Whether the used ring holds an entry that was not looked at.
    #[inline]
    fn has_used(&mut self) -> bool {
        let idx = u16::from_le(self.rings.used.idx.load(Ordering::Acquire));
        if idx == self.seen {
            self.bad_index = None;
            return false;
        }
        if idx.wrapping_sub(self.seen) > self.outstanding {
            // Once for each such index, however often it is read.
            if self.bad_index.replace(idx) != Some(idx) {
                self.faults.indices += 1;
            }
            return false;
        }
        self.bad_index = None;
        true
    }

    /// Asks for an interrupt at the next used entry. Returns whether there is one already: then no interrupt may
    /// come for it.
    pub fn arm(&mut self) -> bool {
        self.rings.available.used_event.store(self.seen.to_le(), Ordering::Relaxed);
        H::barrier();
        self.has_used()
    }
}
