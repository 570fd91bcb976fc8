//! Any bytes are a device tree, read to an end, or an error. `drivers/fuzz/README.md` says where inputs to begin with are.
#![no_main]

use dtoolkit::fdt::Fdt;
use kernel::devicetree::{Machine, sound};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tree) = sound::open(bytes) {
        // SAFETY: the machine that borrows from these bytes is gone before they are.
        let tree: Fdt<'static> = unsafe { core::mem::transmute::<Fdt<'_>, Fdt<'static>>(tree) };
        let machine = Machine::read(tree, 0x4020_0000, 0);
        assert!(machine.booted <= machine.harts.len());
        if let Some(problem) = machine.problem {
            assert!(!problem.to_string().is_empty());
        }
    }
});
