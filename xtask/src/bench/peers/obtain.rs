//! Peers as they can be had here: fetched, and our program built over them. Nothing is installed on the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::catalogue::{Kind, Mpi, Peer, Row, Source};
use super::deadline::Deadline;
use crate::arch::Arch;
use crate::firmware;
use crate::helper::Helper;
use crate::progress::Voice;
use crate::{setup, workspace};

/// For a program that fetches or builds.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// A peer that is ready to run.
#[derive(Debug)]
pub struct Ready {
    /// Which.
    pub peer: &'static Peer,
    /// Its version, in words.
    pub version: String,
    /// Our program over it.
    pub program: PathBuf,
    /// Its programs of benchmarks, by their words.
    pub benchmarks: BTreeMap<&'static str, PathBuf>,
    /// Its folders.
    pub folders: Folders,
}

impl Ready {
    /// The program that measures `rows`.
    pub fn program_of(&self, rows: &[&Row]) -> &Path {
        rows.iter().find_map(|row| self.benchmarks.get(row.word)).unwrap_or(&self.program)
    }
}

/// Where a library's parts lie.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Folders {
    /// What its own notion of a prefix is.
    pub prefix: PathBuf,
    /// Its programs.
    pub bin: PathBuf,
    /// Its headers.
    pub include: PathBuf,
    /// Its libraries; the first is where it is linked from.
    pub libraries: Vec<PathBuf>,
}

/// The folder of what is built and fetched.
pub fn home() -> PathBuf {
    workspace::target().join("pamir/peers")
}

/// Builds what comes as a crate's sources, of this name and version: its folders, and its version in words.
pub type BuildCrate = fn(&str, &str, &Voice) -> Result<(Folders, String)>;

/// Makes `peer` ready, but for benchmarks.
///
/// # Errors
/// Why it cannot be had here.
pub fn obtain(peer: &'static Peer, build: BuildCrate, voice: &Voice) -> Result<Ready> {
    let (folders, version) = fetch(peer, build, voice)?;
    let program = match peer.kind {
        Kind::Ring => compile(peer.name, "ring.c", &[], &folders, voice)?,
        Kind::Ours { .. } => {
            let request = firmware::Request::new(Arch::Native, super::JOB);
            firmware::build(&request, voice)?
        }
        Kind::Ucx => compile(peer.name, "ucx.c", &["-lucp", "-lucs"], &folders, voice)?,
        Kind::Gasnet => {
            let conduit = format!("-I{}", folders.include.join("smp-conduit").display());
            let flags = ["-O3", "-DGASNET_SEQ", &conduit, "-lgasnet-smp-seq", "-lm"];
            compile(peer.name, "gasnet.c", &flags, &folders, voice)?
        }
        Kind::Mpi(_) => compile(peer.name, "mpi.c", &[library(peer)], &folders, voice)?,
    };
    Ok(Ready { peer, version, program, benchmarks: BTreeMap::new(), folders })
}

/// Its folders and its version.
///
/// # Errors
/// Why it cannot be had here.
pub fn fetch(peer: &Peer, build: BuildCrate, voice: &Voice) -> Result<(Folders, String)> {
    match peer.source {
        Source::Own => Ok((Folders::default(), own_version(peer))),
        Source::Wheels(wheels) => wheel(peer, wheels, voice),
        Source::Crate(name, version) => build(name, version, voice),
        Source::Debian(packages) => debian(peer, packages, voice),
    }
}

fn own_version(peer: &Peer) -> String {
    let what = match peer.kind {
        Kind::Ours { over: "mpi", threads: false } => "the module mpi, a process for each task",
        Kind::Ours { threads: false, .. } => "PAMI, a process for each task",
        Kind::Ours { over: "mpi", .. } => "the module mpi, a thread for each task",
        Kind::Ours { .. } => "PAMI, a thread for each task",
        _ => "a bare ring of cache lines, no protocol: the limit",
    };
    what.to_owned()
}

/// The flag that links an MPI's library.
pub fn library(peer: &Peer) -> &'static str {
    match (peer.kind, peer.source) {
        // Debian has several MPIs side by side.
        (Kind::Mpi(Mpi::Mpich), Source::Debian(_)) => "-lmpich",
        _ => "-lmpi",
    }
}

/// Runs a command that may take a while; the error has what it said.
pub fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let said = tempfile::NamedTempFile::new().context("cannot make a file for what a program says")?;
    let errors = said.reopen().context("cannot open a file for what a program says")?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let mut helper = Helper::start(command).with_context(|| format!("cannot run {name}"))?;
    let deadline = Deadline::of(helper.group(), PATIENCE);
    let status = helper.wait().with_context(|| format!("cannot run {name}"))?;
    if deadline.was_missed() {
        bail!("{name} was not done after {} s", PATIENCE.as_secs());
    }
    if !status.success() {
        let said = std::fs::read_to_string(said.path()).unwrap_or_default();
        bail!("{name}: {status}: {}", last_words(&said));
    }
    Ok(())
}

/// The last lines of what a program said, in one.
pub fn last_words(said: &str) -> String {
    let lines: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    last.chars().take(300).collect()
}

/// The C compiler.
///
/// # Errors
/// There is none.
pub fn compiler() -> Result<PathBuf> {
    let compiler = ["cc", "gcc", "clang"].into_iter().find_map(workspace::find_on_path);
    compiler.context("there is no C compiler: cc, gcc or clang")
}

/// Builds `source` of xtask/peers into a program that is called as the peer is.
pub fn compile(
    name: &str,
    source: &str,
    libraries: &[&str],
    folders: &Folders,
    voice: &Voice,
) -> Result<PathBuf> {
    let compiler = compiler()?;
    let folder = home().join("programs");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let program = folder.join(name);
    voice.busy(&format!("building {name}"));
    let mut command = Command::new(compiler);
    // Where its functions lie is known from outside.
    command.args(["-O2", "-w", "-std=gnu11", "-no-pie", "-o"]).arg(&program);
    command.arg(workspace::root().join("xtask/peers").join(source));
    if !libraries.is_empty() {
        command.arg("-I").arg(&folders.include);
        folders.libraries.iter().for_each(|folder| _ = command.arg("-L").arg(folder));
        // What the library itself needs is found when it runs.
        command.args(libraries).arg("-Wl,--allow-shlib-undefined");
    }
    run(&mut command)?;
    Ok(program)
}

/// PyPI's wheels, unpacked by pip into a folder of their own.
fn wheel(peer: &Peer, wheels: &[&str], voice: &Voice) -> Result<(Folders, String)> {
    let (place, part) = (home().join(peer.name), home().join(format!("{}.part", peer.name)));
    if !place.is_dir() {
        let python =
            workspace::find_on_path("python3").context("there is no python3, whose pip fetches it")?;
        voice.busy(&format!("fetching {} from PyPI", wheels.join(" ")));
        let _ = std::fs::remove_dir_all(&part);
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input", "--no-deps"]);
        pip.args([
            "--only-binary",
            ":all:",
            "--ignore-installed",
            "--no-compile",
            "--no-warn-script-location",
        ]);
        pip.arg("--prefix").arg(&part).args(wheels);
        if let Err(error) = run(&mut pip) {
            // What cannot be removed now is removed by the next try.
            let _ = std::fs::remove_dir_all(&part);
            return Err(error);
        }
        std::fs::rename(&part, &place).with_context(|| format!("cannot make {}", place.display()))?;
    }
    let version = wheel_version(&place, wheels[0]).unwrap_or_default();
    let [bin, include, lib] = ["bin", "include", "lib"].map(|folder| place.join(folder));
    Ok((Folders { prefix: place, bin, include, libraries: vec![lib] }, format!("{version}, of PyPI's wheel")))
}

/// The version that a wheel's own folder has in its name.
fn wheel_version(place: &Path, wheel: &str) -> Option<String> {
    let python = std::fs::read_dir(place.join("lib")).ok()?.flatten();
    let python = python.map(|entry| entry.path().join("site-packages")).find(|packages| packages.is_dir())?;
    let head = format!("{}-", wheel.replace('-', "_"));
    std::fs::read_dir(python).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_prefix(&head)?.strip_suffix(".dist-info").map(str::to_owned)
    })
}

/// Debian's packages, unpacked for this workspace, or the machine's own.
fn debian(peer: &Peer, packages: &[&str], voice: &Voice) -> Result<(Folders, String)> {
    let root = setup::tree(peer.name, packages, voice)?;
    let versions = std::fs::read_to_string(root.join("versions")).unwrap_or_default();
    let version = versions.lines().find_map(|line| line.strip_prefix(packages[0])?.strip_prefix(' '));
    let version = format!("{}, of Debian's package", version.unwrap_or("as installed"));
    Ok((debian_tree(peer, &root)?, version))
}

fn debian_tree(peer: &Peer, root: &Path) -> Result<Folders> {
    let prefix = root.join("usr");
    let multiarch = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let name = format!("{}-linux-gnu", std::env::consts::ARCH);
        entries.into_iter().find(|path| path.ends_with(&name))
    };
    let lib = multiarch(prefix.join("lib")).with_context(|| format!("no libraries in {}", root.display()))?;
    // Some are still where they were before `/lib` became a link.
    let more = multiarch(root.join("lib"));
    let (include, own) = match peer.kind {
        Kind::Mpi(Mpi::Open) => (lib.join("openmpi/include"), Some(lib.join("openmpi/lib"))),
        Kind::Mpi(_) => (lib.join("mpich/include"), None),
        _ => (prefix.join("include"), None),
    };
    let libraries = own.into_iter().chain([lib]).chain(more).collect();
    Ok(Folders { bin: prefix.join("bin"), prefix, include, libraries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::catalogue;

    #[test]
    fn h6_a_wheels_version_is_in_its_folders_name() {
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().join("lib/python3.11/site-packages");
        std::fs::create_dir_all(packages.join("impi_rt-2021.19.0.dist-info")).unwrap();
        assert_eq!(wheel_version(folder.path(), "impi-rt").as_deref(), Some("2021.19.0"));
        assert_eq!(wheel_version(folder.path(), "mpich"), None);
    }

    #[test]
    fn h6_debians_trees_have_each_mpi_where_it_is() {
        let root = tempfile::tempdir().unwrap();
        let name = format!("{}-linux-gnu", std::env::consts::ARCH);
        let lib = root.path().join("usr/lib").join(&name);
        let peer = |name| catalogue::peers(Some(name)).unwrap()[0];
        let error = debian_tree(peer("mpich-debian"), root.path()).unwrap_err().to_string();
        assert!(error.starts_with("no libraries in "), "{error}");
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::create_dir_all(root.path().join("lib").join(&name)).unwrap();
        let open = debian_tree(peer("openmpi-debian"), root.path()).unwrap();
        assert_eq!(
            open.libraries,
            [lib.join("openmpi/lib"), lib.clone(), root.path().join("lib").join(&name)]
        );
        let mpich = debian_tree(peer("mpich-debian"), root.path()).unwrap();
        assert_eq!((mpich.include, mpich.libraries[0].clone()), (lib.join("mpich/include"), lib));
    }

    #[test]
    fn h6_what_a_program_said_last_is_the_reason() {
        assert_eq!(last_words("one\n\n two\nthree\nfour\n"), "two; three; four");
        let error =
            run(Command::new("sh").args(["-c", "echo no route >&2; exit 3"])).unwrap_err().to_string();
        assert_eq!(error, "sh: exit status: 3: no route");
        assert!(
            run(&mut Command::new("/nowhere/pip"))
                .unwrap_err()
                .to_string()
                .contains("cannot run /nowhere/pip")
        );
    }
}
