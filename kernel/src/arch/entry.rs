//! Where the assembly of `boot` enters the kernel, and the kernel enters the job.

use super::this;
use crate::task::Task;
use crate::tree::TreeError;
use crate::{node, report};
use boot::Fault;
use core::panic::PanicInfo;
use flat_device_tree::Fdt;

/// What a flattened device tree begins with.
const TREE_MAGIC: [u8; 4] = 0xd00d_feed_u32.to_be_bytes();

// SAFETY: `boot` calls this by name, once, on the first hart.
#[unsafe(no_mangle)]
extern "C" fn kernel_primary(tree: usize, id: u64) -> ! {
    node::run(device_tree(this::tree_address(tree)), id)
}

// SAFETY: `boot` calls this by name, once on each other hart.
#[unsafe(no_mangle)]
extern "C" fn kernel_secondary(number: usize) -> ! {
    node::run_secondary(super::numbers::boot_number(number))
}

// SAFETY: `boot` calls this by name, with what it saved of the fault.
#[unsafe(no_mangle)]
extern "C" fn kernel_fault(fault: &Fault) -> ! {
    report::faulted(fault)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    report::panicked(info)
}

fn device_tree(address: usize) -> Result<Fdt<'static>, TreeError> {
    let none = TreeError("not been found where the firmware puts it");
    let tree = core::ptr::with_exposed_provenance::<[u8; 4]>(address);
    if address == 0 || !address.is_multiple_of(8) {
        return Err(none);
    }
    // SAFETY: RAM, by the boot protocol of both architectures; nothing writes there.
    if unsafe { tree.read() } != TREE_MAGIC {
        return Err(none);
    }
    // SAFETY: a tree begins there and is never written or given away: it is not part of the free memory.
    unsafe { Fdt::from_ptr(tree.cast()) }.map_err(|_| TreeError("no readable header"))
}

/// A job of the image: what [`entry!`](crate::entry) says of it.
#[doc(hidden)]
pub struct Entry {
    /// The path of its module; the last part of it is the job's name, with underscores for dashes.
    pub module: &'static str,
    /// Its `main`.
    pub main: fn(&'static Task) -> i32,
}

unsafe extern "C" {
    static __jobs_start: u8;
    static __jobs_end: u8;
}

/// All jobs of the image.
fn jobs() -> &'static [Entry] {
    let (start, end) = (&raw const __jobs_start, &raw const __jobs_end);
    let count = (end.addr() - start.addr()) / size_of::<Entry>();
    // SAFETY: `linker.ld` puts the entries that `entry!` makes between the two, one after the other, and nothing else.
    unsafe { core::slice::from_raw_parts(start.cast(), count) }
}

impl Entry {
    fn is(&self, job: &str) -> bool {
        let name = self.module.rsplit("::").next().unwrap_or_default();
        name.len() == job.len()
            && name.bytes().zip(job.bytes()).all(|(a, b)| a == b || (a, b) == (b'_', b'-'))
    }
}

/// Runs the job's `main`: the image's only one, or the one that has the personality's name.
pub(crate) fn job_main(task: &'static Task) -> i32 {
    let (jobs, name) = (jobs(), task.job());
    let job = match jobs {
        [only] => Some(only),
        several => several.iter().find(|job| job.is(name)),
    };
    let Some(job) = job else {
        defmt::error!("the image has {=usize} jobs, none of them is {=str}", jobs.len(), name);
        return 1;
    };
    (job.main)(task)
}

/// Makes a function the job's `main`: it is called with each task of the node and returns an exit status, nothing, or
/// a `Result<(), JobError>`.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        const _: () = {
            fn __job(task: &'static $crate::Task) -> i32 {
                $crate::Termination::status($main(task), task)
            }

            // SAFETY: the section is the one for entries.
            #[unsafe(link_section = ".jobs")]
            #[used]
            static ENTRY: $crate::arch::Entry = $crate::arch::Entry { module: module_path!(), main: __job };
        };
    };
}
