//! The emulator's device trees, and what tests change in them.

#[path = "../../kernel/src/devicetree/tests/edited.rs"]
mod edited;

pub use edited::*;
use std::path::Path;
use std::process::Command;
use xtask::progress::Voice;
use xtask::{Arch, setup};

/// The tree of the `virt` board with 256 MiB and so many harts, with more options of its machine; made in `folder`.
///
/// # Panics
/// With what the emulator says, if it makes none.
pub fn dumped(folder: &Path, arch: Arch, harts: u32, options: &str) -> Vec<u8> {
    let path = folder.join("board.dtb");
    let (board, cpu): (_, &[&str]) = match arch {
        Arch::Aarch64 => ("virt,gic-version=3", &["-cpu", "cortex-a72"]),
        _ => ("virt", &[]),
    };
    let dumped = Command::new(setup::emulator(arch, &Voice::quiet()).unwrap())
        .args(["-machine", &format!("{board}{options},dumpdtb={}", path.display())])
        .args(cpu)
        .args(["-nodefaults", "-display", "none", "-smp", &harts.to_string(), "-m", "256"])
        .output()
        .unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    std::fs::read(&path).unwrap()
}
