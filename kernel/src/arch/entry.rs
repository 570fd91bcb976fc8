//! Where the assembly of `boot` enters the kernel.
//!
//! What an entry, a fault or an interrupt is to do lies above: the room that composes the kernel hands that down, once and
//! when the kernel is built, by [`entries`]. There is no earlier moment: the first hart enters by it.

#[cfg(target_os = "none")]
use crate::devicetree::sound;
use crate::devicetree::{Machine, TreeError};
#[cfg(target_os = "none")]
use {core::slice, dtoolkit::fdt::Fdt};

/// The functions that the assembly calls, by the names that it calls them by.
macro_rules! entries {
    (primary: $primary:path, secondary: $secondary:path, fault: $fault:path, interrupt: $interrupt:path $(,)?) => {
        // SAFETY: `boot` calls this by name, once, on the first hart.
        #[unsafe(no_mangle)]
        extern "C" fn kernel_primary(tree: usize, id: u64, level: usize) -> ! {
            $primary($crate::arch::read_machine(tree, id), level)
        }

        // SAFETY: `boot` calls this by name, before the first hart runs.
        #[cfg(hosted)]
        #[unsafe(no_mangle)]
        extern "C" fn kernel_first_stacks() -> usize {
            $crate::arch::first_stacks()
        }

        // SAFETY: `boot` calls this by name, once on each other hart.
        #[unsafe(no_mangle)]
        extern "C" fn kernel_secondary(number: usize) -> ! {
            $secondary($crate::arch::boot_number(number))
        }

        // SAFETY: `boot` calls this by name, with what it saved of the fault.
        #[unsafe(no_mangle)]
        extern "C" fn kernel_fault(fault: &::boot::Fault) -> ! {
            $fault(fault)
        }

        // SAFETY: `boot` calls this by name, when this hart takes an interrupt, and has saved what it may change.
        #[unsafe(no_mangle)]
        extern "C" fn kernel_interrupt() {
            $interrupt()
        }
    };
}
pub(crate) use entries;

/// The machine that the device tree at `address` describes, read by the hart with the id `booted`.
#[cfg(target_os = "none")]
pub(crate) fn read_machine(address: usize, booted: u64) -> Result<Machine, TreeError> {
    device_tree(address).map(|tree| Machine::read(tree, super::image().start, booted))
}

/// The machine that this process is.
#[cfg(hosted)]
pub(crate) fn read_machine(_: usize, _: u64) -> Result<Machine, TreeError> {
    Ok(super::this::machine::read())
}

/// Where the first hart's stacks lie.
#[cfg(hosted)]
pub(crate) fn first_stacks() -> usize {
    super::this::machine::first_stacks()
}

/// The device tree at `address`, where the firmware is to have put it.
#[cfg(target_os = "none")]
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
