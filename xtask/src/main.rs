//! `cargo xtask`: see the library of the same name.

fn main() -> std::process::ExitCode {
    xtask::cli::main().into()
}
