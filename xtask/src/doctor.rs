//! `doctor`: what this machine has, what it lacks, and what would be installed.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::arch::Arch;
use crate::progress::Voice;
use crate::{setup, workspace};

/// Looks, prints a table, and with `fix` installs what is missing. True if nothing is missing in the end.
pub fn doctor(fix: bool, voice: &Voice) -> Result<bool> {
    let mut whole = true;
    let foreign = Arch::of_processes().iter().copied().filter(|&arch| arch != Arch::Native);
    for arch in Arch::ALL.into_iter().chain(foreign) {
        if fix {
            setup::toolchain(arch, voice)?;
            setup::emulator(arch, voice)?;
            setup::cross_linker(arch, voice)?;
        }
        let found = setup::find_toolchain(arch).map(|toolchain| toolchain.describe());
        whole &= row(voice, arch.target(), found, &setup::toolchain_remedy(arch));
        let version = |path: &std::path::Path| {
            let output = Command::new(path).arg("--version").output().ok()?;
            setup::version(&String::from_utf8_lossy(&output.stdout))
        };
        let found = setup::find_emulator(arch).map(|path| match version(&path) {
            Some((major, minor)) => format!("{}, version {major}.{minor}", path.display()),
            None => format!("{}, which does not tell its version", path.display()),
        });
        whole &= row(voice, arch.emulator(), found, &setup::emulator_remedy(arch));
        if let Some((found, remedy)) = setup::cross_linker_row(arch) {
            whole &= row(voice, "its linker and C library", found, &remedy);
        }
    }
    match setup::setpriv() {
        Some(path) => _ = row(voice, "setpriv", Some(path.display().to_string()), ""),
        None => voice.print(&format!(
            "{} setpriv: without it guests outlive this tool if it is killed by SIGKILL",
            console::style("absent ").yellow()
        )),
    }
    if fix {
        optional_tools(voice);
    }
    let miri = succeeds(Command::new("cargo").args(["+nightly", "miri", "--version"]));
    optional(voice, "Miri", miri, "rustup component add --toolchain nightly miri rust-src");
    optional(voice, "C++ for libFuzzer", workspace::on_path("c++"), "apt-get install g++");
    let races = setup::has_nightly_source();
    optional(
        voice,
        "source of nightly Rust, for --races",
        races,
        "rustup component add --toolchain nightly rust-src",
    );
    if !whole {
        voice
            .print("What can be installed is when it is first needed, or now by `cargo xtask doctor --fix`.");
    }
    Ok(whole)
}

/// Tries to install what some tests can do without.
fn optional_tools(voice: &Voice) {
    if let Err(error) = setup::cxx(voice) {
        voice.say(&format!("{error:#}; fuzz targets will be skipped"));
    }
    miri(voice);
}

/// Tries to install Miri. Without a nightly toolchain there is nothing for it to be part of.
pub fn miri(voice: &Voice) {
    if succeeds(Command::new("cargo").args(["+nightly", "--version"])) {
        voice.busy("Miri is missing; installing it with rustup");
        let mut rustup = Command::new("rustup");
        rustup.args(["component", "add", "--toolchain", "nightly", "miri", "rust-src"]);
        if !succeeds(&mut rustup) {
            voice.say("rustup could not install Miri; its tests will be skipped");
        }
        voice.idle();
    }
}

/// Whether a command runs and ends well; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn row(voice: &Voice, what: &str, found: Option<String>, remedy: &str) -> bool {
    match &found {
        Some(found) => voice.print(&format!("{} {what}: {found}", console::style("ok     ").green())),
        None => voice.print(&format!("{} {what}: {remedy}", console::style("missing").red())),
    }
    found.is_some()
}

fn optional(voice: &Voice, what: &str, found: bool, remedy: &str) {
    if found {
        voice.print(&format!("{} {what}", console::style("ok     ").green()));
    } else {
        voice.print(&format!(
            "{} {what}: its tests are skipped; to have it: {remedy}",
            console::style("absent ").yellow()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_a_cargo_that_is_too_old_comes_to_say_so_by_the_edition() {
        let path = workspace::root().join("Cargo.toml");
        let manifest: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        let profiles = manifest["profile"].as_table().unwrap();
        // Words stand here since cargo 1.71; one of before reads all profiles first.
        for (name, profile) in profiles {
            let debug = profile.get("debug");
            assert!(
                debug.is_none_or(|debug| debug.is_bool() || debug.is_integer()),
                "profile {name}: {debug:?}"
            );
        }
        let package = manifest["workspace"]["package"].as_table().unwrap();
        assert!(package["edition"].as_str() == Some("2024") && package.contains_key("rust-version"));
    }
}
