//! Where things lie on the host's disk.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's top folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The folder that cargo builds into.
pub fn target() -> PathBuf {
    named_target(std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from))
        .unwrap_or_else(|| root().join("target"))
}

/// The folder that the environment names. Cargo takes a relative one from where it was called, as this does; every
/// cargo that this tool calls is told the whole path, for it works elsewhere.
fn named_target(folder: Option<PathBuf>) -> Option<PathBuf> {
    folder.map(|folder| std::path::absolute(&folder).unwrap_or(folder))
}

/// Tells a cargo command where it runs and what it builds into.
pub fn settle(command: &mut Command) {
    command.current_dir(root());
    if std::env::var_os("CARGO_TARGET_DIR").is_some() {
        command.env("CARGO_TARGET_DIR", target());
    }
}

/// The cargo that started this process, or else the one found on the path, run at the top folder.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    settle(&mut command);
    command
}

/// The toolchain's compiler: cargo's own neighbour, so that both belong together.
pub fn rustc() -> Command {
    let beside = std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("rustc"));
    let program = std::env::var_os("RUSTC").map(PathBuf::from).or(beside.filter(|path| path.exists()));
    let mut command = Command::new(program.unwrap_or_else(|| "rustc".into()));
    command.current_dir(root());
    command
}

/// Whether `program` is found on the path.
pub fn on_path(program: &str) -> bool {
    find_on_path(program).is_some()
}

/// Where `program` is found on the path. System folders are searched too: a user's path may lack `/usr/sbin`.
pub fn find_on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/bin", "/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// rustc's name of this machine.
pub fn host() -> Option<String> {
    let output = rustc().arg("-vV").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_a_relative_target_folder_is_taken_from_where_the_user_stands() {
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(named_target(Some("there".into())), Some(here.join("there")));
        assert_eq!(named_target(Some("/there".into())), Some("/there".into()));
    }
}
