//! What the host needs, and its installation (SPEC X-1). Nothing is installed without saying so first.

mod unpack;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};

use crate::arch::Arch;
use crate::progress::Voice;
use crate::{helper, workspace};

/// What makes a program of this machine a node: the whole kernel, whose log lines have numbers that are addresses near 0
/// (code that can be moved does not reach them), and whose backtraces follow frame pointers.
const HOSTED: &str = "--cfg=hosted -Crelocation-model=static -Cforce-frame-pointers=yes";

/// With its C library in it, and what that needs of the compiler's: where it runs there is no other.
const WITH_LIBRARY: &str =
    "-Ctarget-feature=+crt-static -Clink-args=-Wl,-Bstatic,--start-group,-lc,-lgcc,-lgcc_eh,--end-group";

/// What links processes of [`Arch::LinuxAarch64`], and the Debian packages that bring it and its C library.
const CROSS_LINKER: &str = "aarch64-linux-gnu-gcc";
const CROSS_LIBRARY: &str = "/usr/aarch64-linux-gnu/lib/libc.a";
const CROSS_PACKAGES: [&str; 2] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"];

/// Variables whose flags would take the place of those that images need.
const FLAGS: [&str; 3] = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"];

/// A way to build firmware for one target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Toolchain {
    cargo: PathBuf,
    /// The compiler, where cargo would take another one.
    rustc: Option<PathBuf>,
    /// The target's `core` is not at hand compiled, but as source.
    build_std: bool,
    /// The linker, where the toolchain brings none.
    linker: Option<PathBuf>,
}

impl Toolchain {
    /// A cargo command for the target, up to and with the subcommand.
    pub fn cargo(&self, subcommand: &str, arch: Arch) -> Command {
        let mut command = Command::new(&self.cargo);
        workspace::settle(&mut command);
        command.args([subcommand, "--target", arch.target()]);
        FLAGS.iter().for_each(|flags| _ = command.env_remove(flags));
        if let Some(rustc) = &self.rustc {
            command.env("RUSTC", rustc);
        }
        if self.build_std {
            // The source of `core` uses features that only its own compiler has, and only when asked.
            command.env("RUSTC_BOOTSTRAP", "1");
            command.args([
                "-Zbuild-std=core,alloc,compiler_builtins",
                "-Zbuild-std-features=compiler-builtins-mem",
            ]);
        }
        let target = arch.target().to_uppercase().replace('-', "_");
        match arch {
            Arch::Native => _ = command.env(format!("CARGO_TARGET_{target}_RUSTFLAGS"), HOSTED),
            Arch::LinuxAarch64 => {
                command.env(format!("CARGO_TARGET_{target}_RUSTFLAGS"), format!("{HOSTED} {WITH_LIBRARY}"));
                command.env(format!("CARGO_TARGET_{target}_LINKER"), CROSS_LINKER);
            }
            Arch::Aarch64 | Arch::Riscv64 => {
                self.linker.iter().for_each(|linker| {
                    command.env(format!("CARGO_TARGET_{target}_LINKER"), linker);
                });
            }
        }
        command
    }

    /// What it is, for `doctor`.
    pub fn describe(&self) -> String {
        let core = if self.build_std { "core built from source" } else { "core is installed" };
        let linker = self.linker.as_ref().map(|linker| format!(", linker {}", linker.display()));
        format!("{}, {core}{}", self.cargo.display(), linker.unwrap_or_default())
    }
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn sysroot(rustc: &mut Command) -> Option<PathBuf> {
    output(rustc.args(["--print", "sysroot"])).map(PathBuf::from)
}

/// The linker to name, if the sysroot brings none. `Err` if there is none at all.
fn linker(sysroot: &Path) -> Result<Option<PathBuf>, ()> {
    let hosts = std::fs::read_dir(sysroot.join("lib/rustlib")).into_iter().flatten().flatten();
    if hosts.into_iter().any(|host| host.path().join("bin/rust-lld").exists())
        || workspace::on_path("rust-lld")
    {
        return Ok(None);
    }
    let versions = (14..=30).rev().map(|version| format!("lld-{version}"));
    std::iter::once("lld".to_owned())
        .chain(versions)
        .find_map(|name| workspace::find_on_path(&name))
        .map(Some)
        .ok_or(())
}

fn has_source(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib/src/rust/library/core").is_dir()
}

/// A cargo command of rustup's nightly toolchain.
pub fn nightly<const N: usize>(words: [&str; N]) -> Command {
    let mut command = Command::new("cargo");
    workspace::settle(command.arg("+nightly").args(words));
    // These name the toolchain that built this program.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTDOC");
    command
}

/// Whether there is a nightly toolchain with the source of `core`, by which data races are looked for.
pub fn has_nightly_source() -> bool {
    let found = sysroot(Command::new("rustc").arg("+nightly").env_remove("RUSTUP_TOOLCHAIN"));
    found.is_some_and(|sysroot| has_source(&sysroot))
}

/// A cargo command, up to and with the subcommand, for processes that look for data races: as ThreadSanitizer has to see all
/// code, `core` is built too.
///
/// # Errors
/// There is no nightly toolchain with the source of `core`.
pub fn sanitizing_cargo(subcommand: &str, arch: Arch, voice: &Voice) -> Result<Command> {
    if !has_nightly_source() {
        voice.say("the source of nightly Rust is missing; installing it with rustup");
        run(Command::new("rustup").args(["component", "add", "--toolchain", "nightly", "rust-src"]))
            .context(
                "data races are looked for by a nightly Rust: rustup toolchain install nightly -c rust-src",
            )?;
    }
    let mut command =
        nightly([subcommand, "--target", arch.target(), "-Zbuild-std=core,alloc,compiler_builtins"]);
    let target = arch.target().to_uppercase().replace('-', "_");
    // Races are found at any speed: a build that is soon done.
    command.env("CARGO_PROFILE_FIRMWARE_OPT_LEVEL", "1").env("CARGO_PROFILE_FIRMWARE_CODEGEN_UNITS", "16");
    FLAGS.iter().for_each(|flags| _ = command.env_remove(flags));
    command.env(
        format!("CARGO_TARGET_{target}_RUSTFLAGS"),
        format!("{HOSTED} -Zsanitizer=thread -Clink-args=-lgcc_s"),
    );
    Ok(command)
}

/// The toolchain at hand for `arch`, without installing anything.
pub fn find_toolchain(arch: Arch) -> Option<Toolchain> {
    let running = std::env::var_os("CARGO").map(PathBuf::from).unwrap_or_else(|| "cargo".into());
    if let Some(sysroot) = sysroot(&mut workspace::rustc())
        && let Ok(linker) = linker(&sysroot)
    {
        let compiled = sysroot.join("lib/rustlib").join(arch.target()).join("lib").is_dir();
        if compiled || has_source(&sysroot) {
            return Some(Toolchain { cargo: running, rustc: None, build_std: !compiled, linker });
        }
    }
    debian_toolchain(arch)
}

/// Debian's own toolchain, which carries the source of `core`.
fn debian_toolchain(arch: Arch) -> Option<Toolchain> {
    let [cargo, rustc] = ["/usr/bin/cargo", "/usr/bin/rustc"].map(PathBuf::from);
    let sysroot = sysroot(&mut Command::new(&rustc))?;
    let compiled = sysroot.join("lib/rustlib").join(arch.target()).join("lib").is_dir();
    let linker = linker(&sysroot).ok()?;
    let usable = cargo.exists() && (compiled || has_source(&sysroot));
    usable.then_some(Toolchain { cargo, rustc: Some(rustc), build_std: !compiled, linker })
}

/// The name by which rustup knows the toolchain in use, if it is one of rustup's.
fn rustup_toolchain() -> Option<String> {
    let sysroot = sysroot(&mut workspace::rustc())?;
    let managed = sysroot.parent()?.file_name()? == "toolchains" && workspace::on_path("rustup");
    managed.then(|| sysroot.file_name().and_then(|name| name.to_str()).map(str::to_owned))?
}

/// How a missing toolchain would be had.
pub fn toolchain_remedy(arch: Arch) -> String {
    match rustup_toolchain() {
        Some(name) => {
            format!("would be installed by: rustup target add --toolchain {name} {}", arch.target())
        }
        None => remedy(&DEBIAN_TOOLCHAIN.join(" "), "", workspace::on_path("apt-get")),
    }
}

/// How a missing emulator would be had.
pub fn emulator_remedy(arch: Arch) -> String {
    let unpacked = ", or unpacked under target/pamir/host";
    remedy(arch.emulator_package(), unpacked, workspace::on_path("apt-get"))
}

fn remedy(packages: &str, or: &str, apt: bool) -> String {
    if apt { format!("would be installed by: apt-get install {packages}{or}") } else { by_hand(packages) }
}

fn by_hand(packages: &str) -> String {
    format!("install by hand what Debian has in {packages}")
}

const DEBIAN_TOOLCHAIN: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-22"];

/// A compiler that is there and fails is no reason to install another one.
///
/// # Errors
/// What it said.
fn working(rustc: &mut Command) -> Result<()> {
    match rustc.args(["--print", "sysroot"]).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).context("cannot run rustc"),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("{} fails ({}) {said}", rustc.get_program().display(), output.status)
        }
    }
}

/// A toolchain for `arch`; installed if there is none.
///
/// # Errors
/// It cannot be installed, or there is a compiler that does not work.
pub fn toolchain(arch: Arch, voice: &Voice) -> Result<Toolchain> {
    working(&mut workspace::rustc())?;
    let found = find_toolchain(arch);
    if let Some(found) = &found
        && !found.build_std
    {
        return Ok(found.clone());
    }
    if let Some(name) = rustup_toolchain() {
        voice.say(&format!("the Rust target {} is missing; installing it with rustup", arch.target()));
        let mut rustup = Command::new("rustup");
        rustup.args(["target", "add", "--toolchain", &name, arch.target()]);
        match run(&mut rustup) {
            Ok(_) => {
                return find_toolchain(arch)
                    .context("rustup says that it installed the target, but it is not there");
            }
            Err(error) => voice.say(&format!("rustup could not: {error:#}")),
        }
    }
    if let Some(found) = found {
        return Ok(found);
    }
    voice.say("installing Debian's Rust toolchain with its library source");
    apt_install(&DEBIAN_TOOLCHAIN, voice)
        .with_context(|| format!("no Rust toolchain can build for {}", arch.target()))?;
    find_toolchain(arch).with_context(|| format!("still no Rust toolchain can build for {}", arch.target()))
}

/// The oldest QEMU that this is known to work with.
pub const OLDEST_QEMU: (u32, u32) = (7, 2);

/// QEMU for `arch` as it is at hand.
pub fn find_emulator(arch: Arch) -> Option<PathBuf> {
    workspace::find_on_path(arch.emulator()).or_else(|| unpack::find(&unpack::home(), arch.emulator()))
}

/// QEMU for `arch`; installed if it is not there, or unpacked into the target folder where it cannot be installed.
///
/// # Errors
/// There is none and none can be installed, or it is too old.
pub fn emulator(arch: Arch, voice: &Voice) -> Result<PathBuf> {
    let emulator = find_or_install(arch, voice)?;
    let said = output(Command::new(&emulator).arg("--version")).unwrap_or_default();
    let (major, minor) = OLDEST_QEMU;
    match version(&said) {
        Some(found) if found < OLDEST_QEMU => {
            bail!(
                "{} is QEMU {}.{}; {major}.{minor} or newer is needed",
                emulator.display(),
                found.0,
                found.1
            )
        }
        Some(_) => Ok(emulator),
        None => bail!("{} does not say which version of QEMU it is: {said:?}", emulator.display()),
    }
}

/// The version of the QEMU at hand for `arch`, as in `7.2`.
pub fn emulator_version(arch: Arch) -> Option<String> {
    let said = output(Command::new(find_emulator(arch)?).arg("--version"))?;
    version(&said).map(|(major, minor)| format!("{major}.{minor}"))
}

fn find_or_install(arch: Arch, voice: &Voice) -> Result<PathBuf> {
    // Tests boot side by side.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = find_emulator(arch) {
        return Ok(found);
    }
    let (name, package) = (arch.emulator(), arch.emulator_package());
    let (major, minor) = OLDEST_QEMU;
    let instead = format!("a {name} of version {major}.{minor} or newer on the path does too; ");
    program(name, package, voice).or_else(|obstacle| unpacked(name, package, obstacle, &instead, voice))
}

/// Unpacks `package` for this workspace alone, as `obstacle` kept it from being installed. Returns what starts `program`.
///
/// # Errors
/// The obstacle, with what does `instead`, if that fails as well.
fn unpacked(
    program: &str,
    package: &str,
    obstacle: anyhow::Error,
    instead: &str,
    voice: &Voice,
) -> Result<PathBuf> {
    if helper::over() {
        return Err(obstacle);
    }
    let Ok(debian) = unpack::Debian::here() else { return Err(obstacle) };
    voice.say(&format!("{obstacle:#}; so its packages are unpacked for this workspace alone"));
    debian
        .unpack(program, package, &unpack::home(), voice)
        .with_context(|| format!("{obstacle:#}; {instead}unpacking its packages without root failed"))
}

/// Where Debian's U-Boot for QEMU lies, below `/` or an unpacked package.
const U_BOOT: &str = "usr/lib/u-boot";

/// U-Boot for QEMU's `virt`, by which a test boots images as boards do; installed if it is not there, or unpacked as QEMU is.
///
/// # Errors
/// It cannot be had.
pub fn u_boot(arch: Arch, voice: &Voice) -> Result<PathBuf> {
    const PACKAGE: &str = "u-boot-qemu";
    let home = unpack::home().join(PACKAGE);
    let find = || {
        let file = Path::new(U_BOOT).join(arch.u_boot());
        [Path::new("/"), &home].map(|root| root.join(&file)).into_iter().find(|path| path.is_file())
    };
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = find() {
        return Ok(found);
    }
    voice.say(&format!("U-Boot is missing; installing Debian's package {PACKAGE}"));
    apt_install(&[PACKAGE], voice)
        .or_else(|obstacle| unpacked(PACKAGE, PACKAGE, obstacle, "", voice).map(drop))?;
    find().with_context(|| format!("the package {PACKAGE} brought no U-Boot for {arch}"))
}

/// Where Debian's `packages` lie, under `/` or unpacked for this workspace alone; nothing is installed.
///
/// # Errors
/// They cannot be had.
pub fn tree(name: &str, packages: &[&str], voice: &Voice) -> Result<PathBuf> {
    unpack::Debian::here()?.unpack_tree(name, packages, &unpack::home(), voice)
}

/// Major and minor number in what QEMU says of itself.
pub fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.split("version ").nth(1)?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The program that makes guests die with this process however it ends, where there is one.
pub fn setpriv() -> Option<PathBuf> {
    workspace::find_on_path("setpriv")
}

/// A component of rustup's toolchain, such as `rustfmt`, without which cargo lacks a subcommand; installed after saying
/// so if cargo does not know it.
///
/// # Errors
/// What to do by hand.
pub fn component(subcommand: &str, component: &str, voice: &Voice) -> Result<()> {
    if output(workspace::cargo().args([subcommand, "--version"])).is_some() {
        return Ok(());
    }
    let Some(name) = rustup_toolchain() else {
        bail!(
            "cargo has no {subcommand}, and this toolchain is not rustup's: install its {component} by hand"
        );
    };
    voice.say(&format!("{component} is missing; installing it with rustup"));
    run(Command::new("rustup").args(["component", "add", "--toolchain", &name, component]))
        .with_context(|| format!("cargo has no {subcommand}"))
        .map(drop)
}

/// The C++ compiler that libFuzzer is built with; installed if it is not there.
pub fn cxx(voice: &Voice) -> Result<PathBuf> {
    program("c++", "g++", voice)
}

/// Whether what links for `arch` is there, or none is needed but the toolchain's.
fn has_cross_linker(arch: Arch) -> bool {
    arch != Arch::LinuxAarch64 || workspace::on_path(CROSS_LINKER) && Path::new(CROSS_LIBRARY).exists()
}

/// For `doctor`: what links for `arch` as it is, if it is needed, and how it would be had.
pub fn cross_linker_row(arch: Arch) -> Option<(Option<String>, String)> {
    let found = has_cross_linker(arch).then(|| format!("{CROSS_LINKER}, {CROSS_LIBRARY}"));
    let remedy = || remedy(&CROSS_PACKAGES.join(" "), "", workspace::on_path("apt-get"));
    (arch == Arch::LinuxAarch64).then(|| (found, remedy()))
}

/// What links for `arch`; installed if it is needed and not there.
///
/// # Errors
/// It cannot be had.
pub fn cross_linker(arch: Arch, voice: &Voice) -> Result<()> {
    if has_cross_linker(arch) {
        return Ok(());
    }
    voice.say(&format!(
        "{CROSS_LINKER} or its C library is missing; installing of Debian: {}",
        CROSS_PACKAGES.join(" ")
    ));
    apt_install(&CROSS_PACKAGES, voice).with_context(|| format!("programs of {arch} want {CROSS_LINKER}"))
}

fn program(name: &str, package: &str, voice: &Voice) -> Result<PathBuf> {
    if let Some(found) = workspace::find_on_path(name) {
        return Ok(found);
    }
    voice.say(&format!("{name} is missing; installing Debian's package {package}"));
    apt_install(&[package], voice).with_context(|| format!("{name} is needed"))?;
    workspace::find_on_path(name).with_context(|| format!("the package {package} brought no {name}"))
}

fn apt_install(packages: &[&str], voice: &Voice) -> Result<()> {
    let manual = || by_hand(&packages.join(" "));
    if !workspace::on_path("apt-get") {
        bail!("there is no apt-get on this machine; {}", manual());
    }
    let root = output(Command::new("id").arg("-u")).is_some_and(|id| id == "0");
    if !root && !workspace::on_path("sudo") {
        bail!(
            "installing {} takes root, and there is no sudo; as root run: apt-get install {0}",
            packages.join(" ")
        );
    }
    let apt = |arguments: &[&str]| {
        let mut command = if root { Command::new("env") } else { Command::new("sudo") };
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]).args(arguments);
        command
    };
    voice.busy("asking apt-get for the packages there are");
    // Old lists often still do, so a failure here is not the end.
    let updated = run(&mut apt(&["update"]));
    let simulate = ["-s", "install", "--no-install-recommends"].into_iter().chain(packages.iter().copied());
    // Where it cannot be tried, the installation itself says why.
    let said = output(Command::new("apt-get").args(simulate)).unwrap_or_default();
    let in_the_way: Vec<_> = unpack::simulated(&said, "Remv").into_iter().map(|(name, _)| name).collect();
    if !in_the_way.is_empty() {
        voice.idle();
        bail!(
            "apt-get would remove {} to install {}, which is left to you",
            in_the_way.join(" "),
            packages.join(" ")
        );
    }
    voice.busy(&format!("installing {}", packages.join(" ")));
    let mut install = vec!["install", "-y", "--no-install-recommends", "--no-remove"];
    install.extend(packages);
    let installed = run(&mut apt(&install));
    voice.idle();
    if let (Err(error), Err(_)) = (updated, &installed) {
        voice.say(&format!("apt-get update failed too: {error:#}"));
    }
    installed.map(drop).with_context(manual)
}

/// Runs a command quietly; returns what it said, which is part of the error.
fn run(command: &mut Command) -> Result<String> {
    let name = format!("{} {}", command.get_program().display(), words(command));
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!(
            "{name}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn words(command: &Command) -> String {
    command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_a_compiler_that_fails_is_not_taken_for_missing() {
        let error = working(Command::new("sh").args(["-c", "echo out of memory >&2; exit 3", "--"]));
        let said = error.expect_err("it fails").to_string();
        assert!(said.contains("out of memory") && said.contains('3'), "{said}");
        assert!(working(&mut Command::new("/nowhere/rustc")).is_ok(), "one that is missing can be installed");
    }

    #[test]
    fn x1_flags_of_the_environment_are_not_the_firmwares() {
        let toolchain = Toolchain { cargo: "cargo".into(), rustc: None, build_std: false, linker: None };
        let command = toolchain.cargo("build", Arch::Riscv64);
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        assert!(removed.iter().any(|(name, _)| *name == "RUSTFLAGS"), "{removed:?}");
    }

    #[test]
    fn x1_nothing_is_said_to_be_installed_by_what_is_not_there() {
        assert_eq!(remedy("a b", ", or c", true), "would be installed by: apt-get install a b, or c");
        assert_eq!(remedy("a b", ", or c", false), "install by hand what Debian has in a b");
    }

    #[test]
    fn x1_the_version_of_qemu_is_read() {
        assert_eq!(version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"), Some((7, 2)));
        assert_eq!(version("QEMU emulator version 10.0.2"), Some((10, 0)));
        assert_eq!(version("no such thing"), None);
    }
}
