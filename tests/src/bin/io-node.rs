//! `cargo xtask` itself, as a program that tests can name: the I/O nodes of their runs.

fn main() -> std::process::ExitCode {
    xtask::cli::main().into()
}
