//! The end of the machine (SPEC N-11).

use crate::arch;
use crate::layout::Region;
use core::ptr;

/// Ends the machine: by the device that the tree names for it, or by the host of an emulator or a debugger, which both take the
/// code, else by the firmware, which is told whether all is well, else not at all: this hart waits for ever.
pub(crate) fn exit(code: u8) -> ! {
    if let Some(finisher) = arch::machine().and_then(|machine| machine.finisher) {
        finish(finisher, code);
    }
    arch::exit_by_host(code);
    arch::power_off(code != 0);
    arch::park()
}

/// Writes the code to a sifive_test device.
fn finish(registers: Region, code: u8) {
    const PASS: u32 = 0x5555;
    const FAIL: u32 = 0x3333;
    let word = if code == 0 { PASS } else { u32::from(code) << 16 | FAIL };
    let register = ptr::with_exposed_provenance_mut::<u32>(registers.start);
    // SAFETY: the tree says that such a device is there, and translation, if it is on, maps it as device memory.
    unsafe { register.write_volatile(word) }
}
