//! Passes the linker scripts to the jobs, and whether they are for nodes: `cfg(node)`, as the kernel has it.

use std::env;
use std::path::Path;

fn main() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../linker.ld");
    println!("cargo:rerun-if-changed=../linux.ld");
    if env::var_os("CARGO_CFG_HOSTED").is_some() {
        println!("cargo:rustc-cfg=node");
        let script = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../linux.ld");
        // Log lines have numbers, which are addresses near 0: code that is moved does not reach them.
        for argument in ["-no-pie".to_owned(), format!("-Wl,-T{}", script.display())] {
            println!("cargo:rustc-link-arg-examples={argument}");
        }
        return;
    }
    if variable("CARGO_CFG_TARGET_OS") != "none" {
        return;
    }
    println!("cargo:rustc-cfg=node");
    // 2 MiB above the start of RAM: below lies the device tree (aarch64) or the firmware (riscv64).
    let base = match variable("CARGO_CFG_TARGET_ARCH").as_str() {
        "aarch64" => "0x40200000",
        "riscv64" => "0x80200000",
        other => panic!("no image base is known for {other}"),
    };
    let script = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../linker.ld");
    // A table of all places that hold addresses, in constants too, for `boot` to move them by; at the base they hold what
    // is right there.
    let movable = [
        "-pie",
        "--no-dynamic-linker",
        "--apply-dynamic-relocs",
        "-znotext",
        "-znorelro",
        "--hash-style=sysv",
    ];
    let movable = movable.map(String::from);
    let placed =
        [format!("--defsym=IMAGE_BASE={base}"), format!("-T{}", script.display()), "-Tdefmt.x".into()];
    for argument in movable.into_iter().chain(placed) {
        println!("cargo:rustc-link-arg-examples={argument}");
    }
}
