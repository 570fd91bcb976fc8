//! A bulletin: what one shows to many, in cache lines that it alone writes (SPEC H-5, A-4; Graham, Shipman, "MPI support for
//! multi-core architectures: optimized shared memory collectives", 2008).
//!
//! What is shown has a number, which grows, and one of some pages in turn, so that who is ahead waits for nobody for a while. A
//! reader finds it by its number. Who shows something sees to it that nobody reads any more what the page has held before: all others
//! have [done with](Bulletin::is_done_with) that.
//!
//! Of what takes more than one look the owner tells how far it is: the *stages* of a number.
//!
//! No access is atomic but by words: a reader of a page that is written nevertheless finds old words and new ones.

use crate::bell::Bell;
use crate::sync::{AtomicU64, Ordering};

/// Most bytes that a page has room for.
pub const PAGE_BYTES: usize = 368;
const WORD: usize = size_of::<u64>();
const WORDS: usize = PAGE_BYTES / WORD;
/// Pages: things that one may show ahead of the others. An explorer of interleavings has room for few.
pub const PAGES: usize = if cfg!(loom) { 2 } else { 16 };
/// In each number, so that none is 0: that is the number of nothing.
const SHOWN: u64 = 1 << 63;
/// Where a stage is beside its number.
const STAGE_SHIFT: u32 = 48;
const STAGES: u64 = 0b11 << STAGE_SHIFT;
/// The last stage of a number.
pub const LAST_STAGE: u8 = 3;

/// The number of what is shown as the `sequence`-th thing of its `epoch`. It is [later](is_later) than those of smaller sequences,
/// which wrap, and of all sequences of smaller epochs.
pub const fn number(epoch: u16, sequence: u32) -> u64 {
    SHOWN | (epoch as u64) << 32 | sequence as u64
}

/// The epoch that a number is of; `None` of nothing's.
pub const fn epoch(number: u64) -> Option<u16> {
    if number == 0 { None } else { Some((number >> 32) as u16) }
}

/// Whether the number `one` is later than `other`, or `other` is that of nothing.
#[inline]
pub const fn is_later(one: u64, other: u64) -> bool {
    if other == 0 || one == 0 {
        return other == 0 && one != 0;
    }
    let epochs = ((one >> 32) as u16).wrapping_sub((other >> 32) as u16);
    let sequences = (one as u32).wrapping_sub(other as u32);
    if epochs == 0 { sequences.cast_signed() > 0 } else { epochs.cast_signed() > 0 }
}

/// One of the pages: what is short lies in the line that says that it is there.
#[repr(align(64))]
struct Page {
    number: AtomicU64,
    /// What the one who shows says of it.
    tag: AtomicU64,
    words: [AtomicU64; WORDS],
}

#[repr(align(64))]
struct Turns {
    latest: AtomicU64,
    ended: AtomicU64,
}

#[repr(align(64))]
struct Stage(AtomicU64);

/// The bulletin. Zeros are one that shows nothing.
#[repr(align(64))]
pub struct Bulletin {
    /// The numbers of what was begun last and ended last; of use to who waits for room, so apart from the pages.
    turns: Turns,
    /// The last stage that was reached, beside its number.
    stage: Stage,
    pages: [Page; PAGES],
    /// Of who shows: rung by those whose bulletins it reads.
    bell: Bell,
}

impl Default for Bulletin {
    fn default() -> Self {
        let page = || Page {
            number: AtomicU64::new(0),
            tag: AtomicU64::new(0),
            words: core::array::from_fn(|_| AtomicU64::new(0)),
        };
        Self {
            turns: Turns { latest: AtomicU64::new(0), ended: AtomicU64::new(0) },
            stage: Stage(AtomicU64::new(0)),
            pages: core::array::from_fn(|_| page()),
            bell: Bell::new(),
        }
    }
}

impl Bulletin {
    /// The number of what was begun last; 0 if nothing was.
    #[inline]
    pub fn latest(&self) -> u64 {
        self.turns.latest.load(Ordering::Acquire)
    }

    /// What those who read the owner's bulletin, and whose bulletins the owner reads, ring.
    #[inline]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The page that what has this number is shown on.
    #[inline(always)]
    fn page(&self, number: u64) -> &Page {
        &self.pages[number as usize % PAGES]
    }

    /// The number of what is in the page that this number takes, 0 if nothing is.
    #[inline]
    pub fn replaces(&self, number: u64) -> u64 {
        self.page(number).number.load(Ordering::Relaxed)
    }

    /// For the owner: shows `words`, of which there is room for [`PAGE_BYTES`], under a number later than all before. Nobody
    /// reads what it [replaces](Self::replaces).
    #[inline]
    pub fn show(&self, number: u64, tag: u64, words: impl Iterator<Item = u64>) {
        let page = self.page(number);
        for (place, word) in page.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        page.tag.store(tag, Ordering::Relaxed);
        page.number.store(number, Ordering::Release);
        self.begin(number);
    }

    /// For the owner: it has begun what has this number, later than all before, and shows nothing.
    #[inline]
    pub fn begin(&self, number: u64) {
        self.turns.latest.store(number, Ordering::Release);
    }

    /// For the owner: it reads nothing any more of what others show under this number, and under all before.
    #[inline]
    pub fn end(&self, number: u64) {
        self.turns.ended.store(number, Ordering::Release);
    }

    /// Whether the owner reads nothing any more of what others show under this number: it has ended that, or has begun something
    /// later, where each reads all that it wants before it begins more.
    #[inline]
    pub fn is_done_with(&self, number: u64) -> bool {
        is_later(self.latest(), number) || !is_later(number, self.turns.ended.load(Ordering::Acquire))
    }

    /// For the owner: what has this number has come to a stage, of which there are 1 to [`LAST_STAGE`], each later than those
    /// before.
    #[inline]
    pub fn reach(&self, number: u64, stage: u8) {
        debug_assert!((1..=LAST_STAGE).contains(&stage), "there are so many stages");
        self.stage.0.store(number | u64::from(stage) << STAGE_SHIFT & STAGES, Ordering::Release);
    }

    /// Whether what has this number has come to a stage, or a later number has to any.
    #[inline]
    pub fn has_reached(&self, number: u64, stage: u8) -> bool {
        let reached = self.stage.0.load(Ordering::Acquire);
        let (of, at) = (reached & !STAGES, reached & STAGES);
        is_later(of, number) || of == number && at >= u64::from(stage) << STAGE_SHIFT & STAGES
    }

    /// What is shown under this number, if that is here.
    #[inline]
    pub fn find(&self, number: u64) -> Option<PageView<'_>> {
        let page = self.page(number);
        (page.number.load(Ordering::Acquire) == number).then_some(PageView(page))
    }
}

/// What is shown, as a reader finds it.
#[derive(Clone, Copy)]
pub struct PageView<'a>(&'a Page);

impl PageView<'_> {
    /// What its owner says of it.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.0.tag.load(Ordering::Relaxed)
    }

    /// The word at byte `offset`, a multiple of eight; 0 beyond the page.
    #[inline]
    pub fn word(&self, offset: usize) -> u64 {
        self.0.words.get(offset / WORD).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Reads bytes from byte `offset` on; zeros beyond the page.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let mut at = offset;
        let mut rest = into;
        while !rest.is_empty() {
            let (word, skip) = (self.word(at - at % WORD).to_ne_bytes(), at % WORD);
            let len = rest.len().min(WORD - skip);
            let (now, later) = rest.split_at_mut(len);
            now.copy_from_slice(&word[skip..skip + len]);
            (rest, at) = (later, at + len);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
