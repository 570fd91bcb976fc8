//! The node's memory regions: who may reach what (SPEC P-8, D-9).
//!
//! Nothing here trusts a region's name, an offset or a length: they come from the wire. A region is found by place and
//! generation; it has to be one of the client and task that the packet names as its target, allow what is to be done,
//! and be large enough (a range in one piece the memory itself checks, `rings::shared`). Whoever deregisters it waits for
//! those that are at it, each at most one packet, or one local operation, long. Other nodes that reach this one's memory show
//! what they are at ([`HazardOwner`]), as they may die over it.

use alloc::boxed::Box;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use pami::device::NoRegion;
use pami::endpoint::Endpoint;
use pami::layout::Segment;
use pami::region::{Memory, RegionFault, RegionHandle, RegionId, Rights, RmwOp};
use rings::shared::{Shared, Words};
use rings::table::{EntryCell, Guard, Hazard, HazardOwner, Key, Place, Shown, Table};

/// Regions that a node can have at once.
pub const REGIONS: usize = 1024;
/// About how many bytes of heap the table takes.
pub(super) const HEAP_BYTES: usize = REGIONS * size_of::<EntryCell<Region>>();

/// What the node knows of a region.
pub(crate) struct Region {
    memory: Memory,
    /// An endpoint of the client and task that it belongs to.
    owner: Endpoint,
    rights: Rights,
    /// Others reach its words without a full fence.
    by_words: AtomicBool,
}

impl Region {
    /// Whether it is a region of the client and task of `target`.
    #[inline(always)]
    fn belongs_to(&self, target: Endpoint) -> bool {
        self.owner.is_of_task_of(target)
    }

    /// The memory, if it may be changed.
    #[inline]
    fn shared(&self) -> Result<&Shared, RegionFault> {
        match &self.memory {
            Memory::Shared(shared) => Ok(shared),
            Memory::Lent(_) => Err(RegionFault::Rights),
        }
    }
}

/// How whoever looks at a region keeps it: of this node's, counted; of another's, shown.
pub(crate) type Look<'a> = Option<HazardOwner<'a>>;

/// A region that stays while this lives.
enum Held<'a> {
    Counted(Guard<'static, Region>),
    Shown(Shown<'a, Region>),
}

impl Deref for Held<'_> {
    type Target = Region;

    #[inline(always)]
    fn deref(&self) -> &Region {
        match self {
            Self::Counted(region) => region,
            Self::Shown(region) => region,
        }
    }
}

/// The entry at `place`, if it is still there.
#[inline(always)]
fn look_at<'a>(place: Place<Region>, look: Look<'a>) -> Option<Held<'a>> {
    match look {
        None => place.get().map(Held::Counted),
        Some(hazard) => place.get_shown(hazard).map(Held::Shown),
    }
}

/// The table of all regions of a node.
pub(crate) struct Regions(Table<Region>);

impl Regions {
    /// No regions. Allocates for all that there can be.
    pub(crate) fn new() -> Self {
        let places: Box<[_]> = (0..REGIONS).map(|_| EntryCell::new()).collect();
        Self(Table::new(Box::leak(places)))
    }

    /// Lets peers reach `memory` as the client and task of `owner`.
    pub(crate) fn register(
        &self,
        owner: Endpoint,
        memory: Memory,
        rights: Rights,
    ) -> Result<RegionId, NoRegion> {
        let region = Region { memory, owner, rights, by_words: AtomicBool::new(false) };
        let key = self.0.insert(region).map_err(|_| NoRegion::NoneLeft { limit: self.0.capacity() })?;
        Ok(RegionId { index: key.index.into(), generation: key.generation.into() })
    }

    /// Whether these are words of a region here.
    pub(crate) fn contain(&self, words: &RegionWords) -> bool {
        self.0.contains(words.place)
    }

    /// Ends that, if `owner` is of the same client and task.
    pub(crate) fn deregister(&self, owner: Endpoint, id: RegionId) {
        if self.find(owner, id, None).is_ok() {
            self.0.remove(key(id));
        }
    }

    /// The same where other nodes may look at it: `is_shown` asks those that live, and `order` is the fence that belongs to that of
    /// those who reach [words](Self::reach_words).
    pub(crate) fn deregister_unless(
        &self,
        owner: Endpoint,
        id: RegionId,
        order: impl FnOnce(),
        is_shown: impl FnMut(&dyn Fn(&Hazard) -> bool) -> bool,
    ) {
        let order_words = |region: &Region| {
            let reached = region.by_words.load(Ordering::Relaxed);
            if reached {
                order();
            }
            reached
        };
        if self.find(owner, id, None).is_ok() {
            self.0.remove_unless(key(id), order_words, is_shown);
        }
    }

    #[inline(always)]
    fn find<'a>(&self, target: Endpoint, id: RegionId, look: Look<'a>) -> Result<Held<'a>, RegionFault> {
        let place = self.0.place(key(id)).ok_or(RegionFault::Stale)?;
        let region = look_at(place, look).ok_or(RegionFault::Stale)?;
        if region.belongs_to(target) { Ok(region) } else { Err(RegionFault::Foreign) }
    }

    #[inline(always)]
    fn open<'a>(
        &self,
        target: Endpoint,
        id: RegionId,
        wanted: Rights,
        look: Look<'a>,
    ) -> Result<Held<'a>, RegionFault> {
        let region = self.find(target, id, look)?;
        if region.rights.contains(wanted) { Ok(region) } else { Err(RegionFault::Rights) }
    }

    /// Does `what` with the region's memory, if that allows what is `wanted`.
    #[inline]
    pub(crate) fn reach<R>(
        &self,
        target: Endpoint,
        id: RegionId,
        wanted: Rights,
        look: Look<'_>,
        what: impl FnOnce(&Memory) -> R,
    ) -> Result<R, RegionFault> {
        Ok(what(&self.open(target, id, wanted, look)?.memory))
    }

    /// What makes it quick to reach the region's words again, if that allows what is `wanted`.
    pub(crate) fn reach_words(
        &self,
        target: Endpoint,
        handle: &RegionHandle,
        wanted: Rights,
        look: Look<'_>,
    ) -> Option<RegionWords> {
        let id = handle.id();
        let region = self.open(target, id, wanted, look).ok()?;
        let words = region.shared().ok()?.first_words(handle.len())?;
        // Whoever removes it waits for this look first.
        region.by_words.store(true, Ordering::Relaxed);
        Some(RegionWords { place: self.0.place(key(id))?, words })
    }

    /// Writes `data` at `offset`; nothing, if that is refused.
    #[inline]
    pub(crate) fn put(
        &self,
        target: Endpoint,
        id: RegionId,
        offset: u32,
        data: &[u8],
        look: Look<'_>,
    ) -> Result<(), RegionFault> {
        let region = self.open(target, id, Rights::WRITE, look)?;
        Ok(region.shared()?.write(offset as usize, data)?)
    }

    /// Writes `data` to the segments, whose lengths add up to its own; nothing, if that is refused.
    pub(crate) fn scatter(
        &self,
        target: Endpoint,
        id: RegionId,
        segments: &[Segment],
        data: &[u8],
    ) -> Result<(), RegionFault> {
        let region = self.open(target, id, Rights::WRITE, None)?;
        let memory = region.shared()?;
        if segments.iter().any(|segment| !inside(memory.len(), segment.offset.get(), segment.len.get())) {
            return Err(RegionFault::Bounds);
        }
        let mut rest = data;
        for segment in segments {
            let (now, later) =
                rest.split_at_checked(segment.len.get() as usize).ok_or(RegionFault::Bounds)?;
            memory.write(segment.offset.get() as usize, now)?;
            rest = later;
        }
        Ok(())
    }

    /// Copies `len` bytes from `offset` to memory of the caller's; nothing, if that is refused.
    pub(crate) fn get(
        &self,
        target: Endpoint,
        id: RegionId,
        offset: u32,
        (into, at): (&Shared, u32),
        len: u32,
        look: Look<'_>,
    ) -> Result<(), RegionFault> {
        self.read(target, id, offset, len, look, |memory, offset| match memory {
            Memory::Shared(shared) => Ok(shared.copy(offset, into, at as usize, len as usize)?),
            Memory::Lent(source) => {
                let bytes =
                    source.as_slice().get(offset..offset + len as usize).ok_or(RegionFault::Bounds)?;
                Ok(into.write(at as usize, bytes)?)
            }
        })?
    }

    /// Does `what` with the region's memory and the offset, if `len` bytes from there may be read.
    #[inline]
    pub(crate) fn read<R>(
        &self,
        target: Endpoint,
        id: RegionId,
        offset: u32,
        len: u32,
        look: Look<'_>,
        what: impl FnOnce(&Memory, usize) -> R,
    ) -> Result<R, RegionFault> {
        let region = self.open(target, id, Rights::READ, look)?;
        let bytes = match &region.memory {
            Memory::Shared(shared) => shared.len(),
            Memory::Lent(source) => source.len(),
        };
        if !inside(bytes, offset, len) {
            return Err(RegionFault::Bounds);
        }
        Ok(what(&region.memory, offset as usize))
    }

    /// Updates the word at `offset` and says what it was; nothing, if that is refused.
    #[inline]
    pub(crate) fn update(
        &self,
        target: Endpoint,
        id: RegionId,
        offset: u32,
        op: RmwOp,
        look: Look<'_>,
    ) -> Result<u64, RegionFault> {
        let region = self.open(target, id, Rights::UPDATE, look)?;
        Ok(region.shared()?.update(offset as usize, op.width, op.update)?)
    }
}

/// Words of a region, which was found to be one that may be reached. All but that it is still there was seen to then.
#[derive(Clone, Copy)]
pub struct RegionWords {
    place: Place<Region>,
    words: Words,
}

impl RegionWords {
    /// Does `what` with the whole word at `offset`, if there is such. Calls nothing else, so whoever calls it need not save what it
    /// has in registers.
    #[inline(always)]
    pub(crate) fn reach<R>(
        &self,
        offset: u32,
        look: Look<'_>,
        what: impl FnOnce(&AtomicU64) -> R,
    ) -> Option<R> {
        let word = self.words.at(offset)?;
        let _stays = look_at(self.place, look)?;
        // SAFETY: the word is one of the region's memory, whole and at a multiple of eight, so it is only accessed as an atomic. The
        // region, which has a handle of that memory, stays until the guard is dropped, behind the last use of the word.
        Some(what(unsafe { AtomicU64::from_ptr(word) }))
    }
}

/// Whether `len` bytes from `offset` lie within `bytes`.
fn inside(bytes: usize, offset: u32, len: u32) -> bool {
    u64::from(offset) + u64::from(len) <= bytes as u64
}

fn key(id: RegionId) -> Key {
    Key { index: id.index.get(), generation: id.generation.get() }
}
