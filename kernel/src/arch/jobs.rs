//! The jobs of the image, where `linker.ld` puts them side by side.

use crate::usage::Usage;
use core::any::Any;
use core::slice;

/// A job of the image.
pub struct JobEntry {
    /// The path of its module; the last part of it is the job's name, with underscores for dashes.
    pub module: &'static str,
    /// Runs it with one of the kernel's tasks, and returns the exit status.
    pub run: fn(&'static dyn Any) -> i32,
    /// Descriptions of jobs, of which one may be its own.
    pub usage: &'static [Usage],
}

impl JobEntry {
    /// Whether it is the job of this name.
    fn is(&self, job: &str) -> bool {
        let name = self.module.rsplit("::").next().unwrap_or_default();
        let same = |(a, b)| a == b || (a, b) == (b'_', b'-');
        name.len() == job.len() && name.bytes().zip(job.bytes()).all(same)
    }
}

unsafe extern "C" {
    static __jobs_start: u8;
    static __jobs_end: u8;
}

/// All jobs of the image.
pub(crate) fn jobs() -> &'static [JobEntry] {
    let (start, end) = (&raw const __jobs_start, &raw const __jobs_end);
    let count = (end.addr() - start.addr()) / size_of::<JobEntry>();
    // SAFETY: `linker.ld` puts the entries that `job_entry!` makes between the two, one after the other, and nothing else.
    unsafe { slice::from_raw_parts(start.cast(), count) }
}

/// The image's only job, or the one of this name.
pub(crate) fn job(name: &str) -> Option<&'static JobEntry> {
    match jobs() {
        [only] => Some(only),
        several => several.iter().find(|job| job.is(name)),
    }
}

/// Puts a job into the image: what its `JobEntry` runs, and descriptions of jobs.
#[doc(hidden)]
#[macro_export]
macro_rules! job_entry {
    ($run:path, $usage:expr) => {
        // SAFETY: the section is the one for entries.
        #[unsafe(link_section = ".jobs")]
        #[used]
        static ENTRY: $crate::arch::JobEntry =
            $crate::arch::JobEntry { module: module_path!(), run: $run, usage: $usage };
    };
}
