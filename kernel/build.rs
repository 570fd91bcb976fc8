//! Says what the kernel is built for: `cfg(node)`.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_bare = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "none");
    if is_bare || env::var_os("CARGO_CFG_HOSTED").is_some() {
        println!("cargo:rustc-cfg=node");
    }
}
