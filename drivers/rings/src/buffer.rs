//! Memory that is lent and comes back (docs/design.md decision 3).
//!
//! A [`Buffer`] owns its memory alone. [`Buffer::lend`] turns it into a [`Lease`], which hands out any number of
//! [`Source`]s: read-only views that devices and other contexts may hold for as long as they like. A count in
//! front of the data says how many are alive; when none is, [`Lease::reclaim`] gives the buffer back. A lease
//! that is dropped leaks its memory, so no view ever dangles.
//!
//! [`Buffer::over`] makes a buffer of memory that is somebody else's, of any alignment and length (SPEC Q-3): its count is
//! in a [`ControlBlock`] elsewhere, and whoever gets the buffer back knows that nobody uses the memory any more.

use crate::sync::{AtomicUsize, Ordering, UnsafeCell};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::slice;

/// Bytes that a buffer needs in front of its data, besides what aligning to 64 costs.
pub const CONTROL_BYTES: usize = size_of::<Control>();

/// The count of live sources, and where the data is.
#[repr(C, align(64))]
pub(crate) struct Control {
    /// Live sources of a lent buffer, or handles of a shared one.
    sources: AtomicUsize,
    data: NonNull<u8>,
    len: usize,
    /// The memory with this block and the data in it; `None` if the data is somebody else's.
    whole: Option<NonNull<[u8]>>,
    /// Stands for the data, so that loom sees who reads and writes it. Empty otherwise.
    loom: UnsafeCell<()>,
}

/// Room for the control block of memory that is somebody else's: [`Buffer::over`].
pub struct ControlBlock(MaybeUninit<Control>);

// SAFETY: nothing can be done with what is inside.
unsafe impl Send for ControlBlock {}
// SAFETY: as above.
unsafe impl Sync for ControlBlock {}

impl ControlBlock {
    /// Room that nothing uses.
    pub const fn new() -> Self {
        Self(MaybeUninit::uninit())
    }
}

impl Default for ControlBlock {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for ControlBlock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ControlBlock")
    }
}

/// What a buffer [over](Buffer::over) somebody else's memory was made of: nobody uses either any more.
#[derive(Debug)]
pub struct Apart {
    /// The memory's first byte; for none that was given as null, any.
    pub data: *mut u8,
    /// Its bytes.
    pub len: usize,
    /// Ready for other memory.
    pub control: &'static mut ControlBlock,
}

/// The memory has no room for the control block; here it is back.
#[derive(Debug)]
pub struct TooSmall(pub &'static mut [u8]);

impl Control {
    /// Bytes of the data, and the first of them.
    ///
    /// # Safety
    /// `control` comes from [`Buffer::into_control`], and the buffer was not put together again.
    #[inline]
    pub(crate) unsafe fn bytes(control: NonNull<Self>) -> (NonNull<u8>, usize) {
        // SAFETY: the block lives, says the caller.
        let control = unsafe { control.as_ref() };
        (control.data, control.len)
    }

    /// Live sources, or handles; what all that are gone did was done before.
    #[inline]
    pub(crate) fn uses(&self) -> usize {
        self.sources.load(Ordering::Acquire)
    }

    /// One source, or handle, more. That needs no order: whoever makes it has one already, or the memory to itself.
    #[inline]
    pub(crate) fn enter(&self) {
        self.sources.fetch_add(1, Ordering::Relaxed);
    }

    /// One less. What was done through it was done before anybody sees the count fall. Whoever sees it may end the block
    /// before this returns, so there is no reference to the block here, which would promise that it outlives the call.
    ///
    /// # Safety
    /// The caller has a source, or a handle, of this block, and does nothing with it afterwards.
    #[inline]
    pub(crate) unsafe fn leave(control: NonNull<Self>) {
        // SAFETY: the block lives until the count falls, says the caller.
        unsafe { &(*control.as_ptr()).sources }.fetch_sub(1, Ordering::Release);
    }
}

/// Where a buffer's parts are. All pointers derive from what the buffer was made of.
#[derive(Clone, Copy)]
struct Parts {
    control: NonNull<Control>,
    data: NonNull<u8>,
    len: usize,
}

impl Parts {
    /// Writes the control block.
    ///
    /// # Safety
    /// It is the caller's to write, and stays as long as anybody uses the parts; so does the data.
    unsafe fn new(
        control: NonNull<Control>,
        data: NonNull<u8>,
        len: usize,
        whole: Option<NonNull<[u8]>>,
    ) -> Self {
        let block = Control { sources: AtomicUsize::new(0), data, len, whole, loom: UnsafeCell::new(()) };
        // SAFETY: as the caller says.
        unsafe { control.write(block) };
        Self { control, data, len }
    }

    fn control(&self) -> &Control {
        // SAFETY: `new` wrote the control block where only shared references to it reach until `into_memory`, which
        // consumes the parts' only owner.
        unsafe { self.control.as_ref() }
    }
}

/// Where memory of `len` bytes may lie: not at null, and not beyond the address space.
fn place(data: *mut u8, len: usize) -> Option<NonNull<u8>> {
    if len == 0 {
        return Some(NonNull::new(data).unwrap_or(NonNull::<u64>::dangling().cast()));
    }
    let fits = isize::try_from(len).is_ok() && data.addr().checked_add(len).is_some();
    NonNull::new(data).filter(|_| fits)
}

/// The buffer over `bytes` with its control block in `control`: both are borrowed for longer than the borrows last.
///
/// # Safety
/// The caller ends neither borrow before nobody uses the buffer, or what becomes of it.
pub(crate) unsafe fn borrowed(bytes: &mut [u8], control: &mut ControlBlock) -> Buffer {
    let (len, data) = (bytes.len(), NonNull::from(bytes).cast());
    // SAFETY: the borrows are exclusive, and last long enough, says the caller.
    Buffer(unsafe { Parts::new(NonNull::from(&mut control.0).cast(), data, len, None) })
}

/// Memory owned by one, ready to be written. Its data is aligned to 64 bytes, unless it is somebody else's.
pub struct Buffer(Parts);

// SAFETY: a buffer is the only owner of its memory.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Makes a buffer of `memory`: skips to the next multiple of 64, puts the control block there and the data
    /// behind it.
    ///
    /// # Errors
    /// [`TooSmall`] when the control block does not fit.
    pub fn new(memory: &'static mut [u8]) -> Result<Self, TooSmall> {
        let skip = memory.as_ptr().align_offset(align_of::<Control>());
        let Some(len) = memory.len().checked_sub(skip.saturating_add(CONTROL_BYTES)) else {
            return Err(TooSmall(memory));
        };
        let whole = NonNull::from(memory);
        // SAFETY: `skip` plus the block is at most the memory's length, and `skip` aligns the block.
        let control = unsafe { whole.cast::<u8>().add(skip) }.cast::<Control>();
        // SAFETY: as above, so the byte behind the block is at most one past the memory's end; the memory is ours alone.
        Ok(Self(unsafe { Parts::new(control, control.add(1).cast(), len, Some(whole)) }))
    }

    /// A buffer over memory of any alignment and length that is somebody else's (SPEC Q-3), to be lent or put into shared
    /// use. Whoever gets it back by [`Lease::reclaim`] or [`Shared::reclaim`](crate::shared::Shared::reclaim), or as a
    /// region's end gives it, and [takes it apart](Self::into_memory), knows that nobody uses the memory any more. Nothing
    /// ever frees it: dropped, buffer, leases and handles leave it as it is, and the control block unused for good.
    ///
    /// # Errors
    /// The control block, if there can be no such memory: at null, or reaching beyond the address space, or longer than
    /// `isize::MAX`. No bytes may be anywhere.
    ///
    /// # Safety
    /// From now on until [`into_memory`](Self::into_memory) tells its place, the `len` bytes from `data` on are initialised
    /// and can be read and written, and are accessed only through this buffer and what becomes of it; while it is lent,
    /// others may read them too. Memory in use in the same way may lie next to it, but not overlap.
    pub unsafe fn over(
        data: *mut u8,
        len: usize,
        control: &'static mut ControlBlock,
    ) -> Result<Self, &'static mut ControlBlock> {
        let Some(data) = place(data, len) else { return Err(control) };
        // SAFETY: the block is ours for good; the data stays, says the caller.
        Ok(Self(unsafe { Parts::new(NonNull::from(&mut control.0).cast(), data, len, None) }))
    }

    /// Bytes of data.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there is no room for data.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The data.
    pub fn as_slice(&self) -> &[u8] {
        self.0.control().loom.with(|_| ());
        // SAFETY: `len` initialised bytes of the buffer's memory; while it is borrowed shared nobody writes them.
        unsafe { slice::from_raw_parts(self.0.data.as_ptr(), self.0.len) }
    }

    /// The data, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.control().loom.with_mut(|_| ());
        // SAFETY: as in `as_slice`; no source is alive while a `Buffer` exists, so this view is the only one.
        unsafe { slice::from_raw_parts_mut(self.0.data.as_ptr(), self.0.len) }
    }

    /// The whole memory the buffer was made of.
    ///
    /// # Errors
    /// [`Apart`], if it is [over](Self::over) somebody else's.
    pub fn into_memory(self) -> Result<&'static mut [u8], Apart> {
        let Parts { control, data, len } = self.0;
        let whole = self.0.control().whole;
        // SAFETY: no source is alive and the buffer is consumed, so nobody looks at the block any more.
        unsafe { ptr::drop_in_place(control.as_ptr()) };
        match whole {
            // SAFETY: these are the pointer and length of the `&'static mut [u8]` given to `new`; every view derived
            // from it has ended. Its bytes are initialised: the control block's padding apart, which is filled here.
            Some(mut whole) => Ok(unsafe {
                ptr::write_bytes(control.as_ptr().cast::<u8>(), 0, CONTROL_BYTES);
                whole.as_mut()
            }),
            // SAFETY: the block of `over`, a `&'static mut` that has ended; one that is `borrowed` is never taken apart.
            None => Err(Apart { data: data.as_ptr(), len, control: unsafe { control.cast().as_mut() } }),
        }
    }

    /// Takes the buffer apart: the block at its front knows the rest.
    pub(crate) fn into_control(self) -> NonNull<Control> {
        self.0.control
    }

    /// A buffer again.
    ///
    /// # Safety
    /// `control` comes from [`into_control`](Self::into_control), and nothing else looks at the memory any more.
    pub(crate) unsafe fn from_control(control: NonNull<Control>) -> Self {
        // SAFETY: the block lives as long as its buffer is taken apart, says the caller.
        let (data, len) = unsafe { Control::bytes(control) };
        Self(Parts { control, data, len })
    }

    /// Lends the buffer: from now on it is only read, through [`Source`]s of the lease.
    pub fn lend(self) -> Lease {
        Lease(self.0)
    }
}

/// A buffer out on loan. Dropping it leaks the memory.
pub struct Lease(Parts);

// SAFETY: a lease only reads the data; the count is atomic.
unsafe impl Send for Lease {}
// SAFETY: as above.
unsafe impl Sync for Lease {}

impl Lease {
    /// A view of all the data.
    pub fn source(&self) -> Source {
        self.0.control().enter();
        Source { data: self.0.data, len: self.0.len, control: self.0.control.as_ptr() }
    }

    /// The data.
    pub fn as_slice(&self) -> &[u8] {
        self.0.control().loom.with(|_| ());
        // SAFETY: as in `Buffer::as_slice`; nobody writes a lent buffer, and `reclaim` needs the lease itself.
        unsafe { slice::from_raw_parts(self.0.data.as_ptr(), self.0.len) }
    }

    /// Whether no source is alive: all that read the data have finished.
    pub fn is_idle(&self) -> bool {
        self.0.control().uses() == 0
    }

    /// Ends the loan.
    ///
    /// # Errors
    /// The lease, when a source is still alive.
    pub fn reclaim(self) -> Result<Buffer, Self> {
        // With the lease consumed and no source to clone, none can appear after this look.
        if self.is_idle() { Ok(Buffer(self.0)) } else { Err(self) }
    }
}

/// A read-only view of bytes that stay valid and unchanged while it lives. Made from a [`Lease`], where it is
/// counted, or from a `&'static [u8]`, where it need not be.
pub struct Source {
    data: NonNull<u8>,
    len: usize,
    /// Null when not counted.
    control: *const Control,
}

// SAFETY: a source only reads bytes that nobody writes while it lives; the count is atomic.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

/// A [`Source`] taken apart, for a descriptor or a line to carry.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawSource {
    data: NonNull<u8>,
    len: usize,
    control: *const Control,
}

// SAFETY: as for `Source`; nothing is done with the pointers until the unsafe `Source::from_raw`.
unsafe impl Send for RawSource {}
// SAFETY: as above.
unsafe impl Sync for RawSource {}

impl Source {
    /// Bytes in view.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the view is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        if let Some(control) = self.control() {
            control.loom.with(|_| ());
        }
        // SAFETY: `data` and `len` are those of a 'static slice, or lie in a lent buffer that cannot be reclaimed
        // while this source is counted.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }

    /// A view of part of the bytes; `None` when `range` reaches outside them or ends before it begins.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len {
            return None;
        }
        let mut part = self.clone();
        // SAFETY: `start` is at most the view's length.
        part.data = unsafe { part.data.add(range.start) };
        part.len = range.end - range.start;
        Some(part)
    }

    /// Where the bytes are, for a device to read.
    pub fn address(&self) -> usize {
        self.data.as_ptr().expose_provenance()
    }

    /// Whether bytes and count lie where `within`, which is asked about addresses and lengths, says.
    pub fn lies(&self, within: impl Fn(usize, usize) -> bool) -> bool {
        let counted = self.control.is_null() || within(self.control.addr(), CONTROL_BYTES);
        counted && (self.len == 0 || within(self.data.addr().get(), self.len))
    }

    /// Takes the source apart without ending it; its count stays until [`from_raw`](Self::from_raw).
    #[inline]
    pub fn into_raw(self) -> RawSource {
        let raw = RawSource { data: self.data, len: self.len, control: self.control };
        core::mem::forget(self);
        raw
    }

    /// Puts a source together again.
    ///
    /// # Safety
    /// `raw` comes from [`into_raw`](Self::into_raw), and each is put together at most once.
    #[inline]
    pub unsafe fn from_raw(raw: RawSource) -> Self {
        Self { data: raw.data, len: raw.len, control: raw.control }
    }

    #[inline]
    fn control(&self) -> Option<&Control> {
        // SAFETY: null, or the control block of a lent buffer, which stays while this source is counted.
        unsafe { self.control.as_ref() }
    }
}

impl RawSource {
    /// First byte and number of bytes of the view.
    #[inline]
    pub(crate) fn bytes(&self) -> (NonNull<u8>, usize) {
        (self.data, self.len)
    }
}

impl Clone for Source {
    #[inline]
    fn clone(&self) -> Self {
        if let Some(control) = self.control() {
            control.enter();
        }
        Self { data: self.data, len: self.len, control: self.control }
    }
}

impl Drop for Source {
    #[inline]
    fn drop(&mut self) {
        if let Some(control) = NonNull::new(self.control.cast_mut()) {
            // SAFETY: this source is counted, and ends here.
            unsafe { Control::leave(control) };
        }
    }
}

impl From<&'static [u8]> for Source {
    fn from(bytes: &'static [u8]) -> Self {
        Self { data: NonNull::from(bytes).cast(), len: bytes.len(), control: ptr::null() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
