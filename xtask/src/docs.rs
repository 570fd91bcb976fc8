//! `cargo xtask doc`: the documentation of every crate, built for what it runs on, its links checked.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::arch::Arch;
use crate::helper::Helper;
use crate::progress::Voice;
use crate::{setup, workspace};

/// What runs on nodes, and what runs on the host.
const FIRMWARE: [&str; 10] =
    ["jobs", "kernel", "boot", "drivers", "rings", "pami", "base", "mpi", "armci", "shmem"];
const HOST: [&str; 2] = ["xtask", "npb"];

/// A build of documentation, and where it begins.
pub struct Build {
    /// What it is of.
    pub name: String,
    /// Builds it; fails on a broken link.
    pub command: Command,
    /// Its first page.
    pub page: PathBuf,
}

/// The builds there are.
///
/// # Errors
/// There is no toolchain, and none can be installed.
pub fn builds(voice: &Voice) -> Result<Vec<Build>> {
    let build = |name: String, mut command: Command, packages: &[&str], page: PathBuf| {
        command.args(["--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
        packages.iter().for_each(|package| _ = command.args(["--package", package]));
        Build { name, command, page }
    };
    let mut builds = Vec::new();
    for arch in Arch::ALL {
        let command = setup::toolchain(arch, voice)?.cargo("doc", arch);
        let page = workspace::target().join(arch.target()).join("doc/kernel/index.html");
        builds.push(build(format!("docs: nodes, {arch}"), command, &FIRMWARE, page));
    }
    let mut command = workspace::cargo();
    command.arg("doc");
    let page = workspace::target().join("doc/xtask/index.html");
    builds.push(build("docs: host".into(), command, &HOST, page));
    Ok(builds)
}

/// Builds all of it and says where it is.
///
/// # Errors
/// What rustdoc said has gone to the standard error.
pub fn run(voice: &Voice) -> Result<bool> {
    for Build { name, mut command, page } in builds(voice)? {
        voice.busy(&format!("building {name}"));
        let status = Helper::start(&mut command).and_then(|mut helper| helper.wait());
        voice.idle();
        if !status.context("cannot run cargo")?.success() {
            bail!("{name}: rustdoc found mistakes");
        }
        voice.print(&format!("{name}: {}", page.display()));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_every_crate_is_documented_where_it_runs() {
        let members = std::fs::read_to_string(workspace::root().join("Cargo.toml")).expect("a manifest");
        let members = members.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
        let members = members.expect("a list").0.split(',').map(|member| member.trim().trim_matches('"'));
        for member in members.map(|path| path.rsplit('/').next().unwrap_or(path)).filter(|&it| it != "tests")
        {
            assert!(FIRMWARE.contains(&member) || HOST.contains(&member), "{member} has no documentation");
        }
    }
}
