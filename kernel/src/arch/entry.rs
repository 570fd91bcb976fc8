//! Where the assembly of `boot` enters the kernel, and the kernel enters the job.

use crate::devicetree::{TreeError, sound};
use crate::task::Task;
use crate::usage::{Shape, Usage};
use crate::{JobError, Termination, node, report, wakeup};
use boot::Fault;
use core::panic::PanicInfo;
use core::slice;
use dtoolkit::fdt::Fdt;

// SAFETY: `boot` calls this by name, once, on the first hart.
#[unsafe(no_mangle)]
extern "C" fn kernel_primary(tree: usize, id: u64, level: usize) -> ! {
    node::run(device_tree(tree), id, level)
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

// SAFETY: `boot` calls this by name, when this hart takes an interrupt, and has saved what it may change.
#[unsafe(no_mangle)]
extern "C" fn kernel_interrupt() {
    wakeup::interrupted();
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    report::panicked(info)
}

fn device_tree(address: usize) -> Result<Fdt<'static>, TreeError> {
    let none = TreeError::of("not been found where the firmware puts it");
    let header = core::ptr::with_exposed_provenance::<[u32; 2]>(address);
    if address == 0 || !header.is_aligned() {
        return Err(none);
    }
    // SAFETY: mapped RAM, by the boot protocol of both architectures; nothing writes there.
    let [magic, bytes] = unsafe { header.read() }.map(u32::from_be);
    if magic != sound::MAGIC {
        return Err(none);
    }
    if bytes as usize > sound::MOST_BYTES {
        return Err(TreeError::of("more than 2 MiB"));
    }
    // SAFETY: a tree begins there, mapped to the length that it has. It is never written or given away: it is not part
    // of the free memory.
    let tree = unsafe { slice::from_raw_parts(header.cast(), bytes as usize) };
    sound::open(tree)
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
    let nodes = task.shape().nodes();
    let shape = Shape {
        nodes,
        harts: task.harts() as u32 * (task.tasks() / nodes),
        tasks: task.tasks(),
        contexts: task.contexts().into(),
        tree: task.tree().is_some(),
    };
    if let Some(usage) = Usage::of(name)
        && let Err(wrong) = usage.check(task.args(), &shape)
    {
        let error = JobError::Argument(wrong.word, wrong.problem.text());
        return Termination::status(Err(error), task);
    }
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
