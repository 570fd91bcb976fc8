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

unsafe extern "Rust" {
    /// What [`entry!`](crate::entry) makes of the job's `main`.
    safe fn pamir_job_main(task: &'static Task) -> i32;
}

/// The job's `main`.
pub(crate) fn job_main(task: &'static Task) -> i32 {
    pamir_job_main(task)
}

/// Makes a function the job's `main`: it is called with each task of the node and returns an exit status, nothing, or
/// a `Result<(), JobError>`.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        // SAFETY: the kernel declares it with this type; a second one would not link.
        #[unsafe(no_mangle)]
        fn pamir_job_main(task: &'static $crate::Task) -> i32 {
            $crate::Termination::status($main(task), task)
        }
    };
}
