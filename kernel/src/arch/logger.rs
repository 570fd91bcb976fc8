//! The global logger of defmt, a set of `unsafe` calls without a state of its own: what takes the frames lies above, and is
//! handed down once, at start.

use spin::Once;

/// Takes frames. A hart's calls come in order: the beginning of a frame, its parts, its end.
pub(crate) trait Frames: Sync {
    /// A frame of this hart begins.
    fn begin(&self);
    /// The next part of this hart's frame, not yet encoded. The first has the number of the format string.
    fn part(&self, part: &[u8]);
    /// This hart's frame is whole.
    fn end(&self);
}

static FRAMES: Once<&'static dyn Frames> = Once::new();

/// From now on frames go there; until then they go nowhere.
pub(crate) fn log_to(frames: &'static dyn Frames) {
    FRAMES.call_once(|| frames);
}

#[defmt::global_logger]
struct Logger;

// SAFETY: harts share nothing here, and `Frames` is safe to call from each of them.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        if let Some(frames) = FRAMES.get() {
            frames.begin();
        }
    }

    unsafe fn flush() {}

    unsafe fn release() {
        if let Some(frames) = FRAMES.get() {
            frames.end();
        }
    }

    unsafe fn write(data: &[u8]) {
        if let Some(frames) = FRAMES.get() {
            frames.part(data);
        }
    }
}

unsafe extern "C" {
    static __DEFMT_MARKER_TRACE_START: u8;
    static __DEFMT_MARKER_DEBUG_START: u8;
    static __DEFMT_MARKER_INFO_START: u8;
    static __DEFMT_MARKER_WARN_START: u8;
    static __DEFMT_MARKER_ERROR_START: u8;
    static __DEFMT_MARKER_ERROR_END: u8;
}

/// The marks that the linker script of defmt puts between the numbers of the format strings of each level and the next
/// graver one's: behind errors, before errors, before warnings, and so on to traces.
///
/// The numbers are addresses of the image in 16 bits, and wherever it lies the same: it is moved by more.
pub(crate) fn level_marks() -> [u16; 6] {
    let marks = [
        (&raw const __DEFMT_MARKER_ERROR_END).addr(),
        (&raw const __DEFMT_MARKER_ERROR_START).addr(),
        (&raw const __DEFMT_MARKER_WARN_START).addr(),
        (&raw const __DEFMT_MARKER_INFO_START).addr(),
        (&raw const __DEFMT_MARKER_DEBUG_START).addr(),
        (&raw const __DEFMT_MARKER_TRACE_START).addr(),
    ];
    marks.map(|mark| mark as u16)
}
