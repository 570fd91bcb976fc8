//! Building a job into a bootable image.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};

use crate::arch::Arch;
use crate::helper::Helper;
use crate::image;
use crate::jobs::{self, EVERY, INSTRUCTIONS};
use crate::progress::Voice;
use crate::setup;
use crate::workspace;

/// What to build.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// For which machine.
    pub arch: Arch,
    /// The job.
    pub job: String,
    /// In the image that has [`EVERY`] job, which is built once for all of them.
    pub together: bool,
    /// What more is built into it.
    pub instrument: Instrument,
}

impl Request {
    /// An image of the job alone, as it is.
    pub fn new(arch: Arch, job: impl Into<String>) -> Self {
        Self { arch, job: job.into(), together: false, instrument: Instrument::Nothing }
    }

    /// In the image that has all jobs.
    pub fn together(self, together: bool) -> Self {
        Self { together, ..self }
    }
}

/// What more than the job is built into an image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Instrument {
    /// Nothing.
    #[default]
    Nothing,
    /// Its harts keep what they do, for a timeline. Then it is an image of its own in any case.
    Events,
    /// ThreadSanitizer, of processes: a data race between harts of a node ends it with a report.
    Races,
}

/// With this variable in the environment all runs ask for the image that has [`EVERY`] job, which the suite builds once for
/// its tests.
pub const ONE_IMAGE: &str = "PAMIR_ONE_IMAGE";

/// Images built by this process. Holding the lock while building keeps builds one after the other.
static BUILT: Mutex<Option<HashMap<Request, PathBuf>>> = Mutex::new(None);

/// Builds the image, or finds that this process has built it, and gives its path.
pub fn build(request: &Request, voice: &Voice) -> Result<PathBuf> {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = built.as_ref().and_then(|built| built.get(request)) {
        return Ok(path.clone());
    }
    jobs::check(&request.job)?;
    let together =
        request.together && request.job != INSTRUCTIONS && request.instrument != Instrument::Events;
    let (image, what) = if together {
        (EVERY, format!("all jobs for {}", request.arch))
    } else {
        (request.job.as_str(), format!("job {} for {}", request.job, request.arch))
    };
    let of_image = Request { job: image.to_owned(), ..request.clone() };
    let known = built.as_ref().and_then(|built| built.get(&of_image).cloned());
    let path = match known {
        Some(path) => path,
        None => {
            let mut images =
                compile(&[request.arch], &[image], request.instrument, &what, voice)?.into_iter();
            let (_, path) = images.next().with_context(|| format!("building {what} gave no image"))?;
            path
        }
    };
    let built = built.get_or_insert_default();
    built.insert(of_image, path.clone());
    built.insert(request.clone(), path.clone());
    Ok(path)
}

/// The flat image of the ELF file `elf`, beside it.
pub fn flat(elf: &Path) -> Result<PathBuf> {
    let file = std::fs::read(elf).with_context(|| format!("cannot read {}", elf.display()))?;
    let bytes = image::flat(&file).with_context(|| format!("{} is no image", elf.display()))?;
    let mut path = elf.to_owned();
    path.add_extension("image");
    // Runs side by side make the same; none is to boot half of it.
    if std::fs::read(&path).is_ok_and(|there| there == bytes) {
        return Ok(path);
    }
    let folder = elf.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(folder).context("cannot write a flat image")?;
    std::io::Write::write_all(&mut new, &bytes).context("cannot write a flat image")?;
    new.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Writes the image of a job as boot loaders want it to `output`, and the ELF file that it was made of, by which its log is
/// readable, beside it. Returns the path of that one and the image's bytes.
///
/// # Errors
/// It does not build, or cannot be written.
pub fn export(request: &Request, output: &Path, voice: &Voice) -> Result<(PathBuf, u64)> {
    let elf = build(request, voice)?;
    let copy = |from: &Path, to: &Path| {
        std::fs::copy(from, to).with_context(|| format!("cannot write {}", to.display()))
    };
    let bytes = copy(&flat(&elf)?, output)?;
    let mut beside = output.to_owned();
    beside.add_extension("elf");
    copy(&elf, &beside)?;
    Ok((beside, bytes))
}

/// Builds all jobs for all architectures, side by side: the images that [`ONE_IMAGE`] asks for; installs what boots them.
pub fn build_all(voice: &Voice) -> Result<()> {
    for arch in Arch::ALL {
        setup::emulator(arch, voice)?;
        setup::u_boot(arch, voice)?;
    }
    let images = compile(&Arch::ALL, &[EVERY, INSTRUCTIONS], Instrument::Nothing, "all jobs", voice)?;
    if images.len() < 2 * Arch::ALL.len() {
        bail!("building all jobs gave {} images", images.len());
    }
    Ok(())
}

/// Names and paths of the images of some examples, for each architecture.
fn compile(
    archs: &[Arch],
    examples: &[&str],
    instrument: Instrument,
    what: &str,
    voice: &Voice,
) -> Result<Vec<(String, PathBuf)>> {
    let (&first, others) = archs.split_first().context("nothing to build for")?;
    let mut command = if instrument == Instrument::Races {
        setup::sanitizing_cargo("build", first, voice)?
    } else {
        setup::toolchain(first, voice)?.cargo("build", first)
    };
    setup::cross_linker(first, voice)?;
    voice.busy(&format!("building {what}"));
    for &arch in others {
        setup::toolchain(arch, voice)?;
        command.args(["--target", arch.target()]);
    }
    command.args(["--profile", "firmware", "--package", "jobs"]);
    if examples.contains(&EVERY) {
        command.args(["--features", EVERY]);
    }
    // Elsewhere: an image has the same name with other features or flags.
    match instrument {
        Instrument::Nothing => {}
        Instrument::Events => {
            command.args(["--features", "trace", "--target-dir"]).arg(workspace::target().join("trace"));
        }
        Instrument::Races => _ = command.arg("--target-dir").arg(workspace::target().join("races")),
    }
    examples.iter().for_each(|example| _ = command.args(["--example", example]));
    // Messages on the standard output name the images; errors go to the standard error as they would by hand.
    command.args(["--message-format", "json-render-diagnostics", "--color"]);
    command.arg(if console::colors_enabled_stderr() && !voice.is_quiet() { "always" } else { "never" });
    // Which lines a node sends is chosen at its boot.
    command.env("DEFMT_LOG", "trace");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut helper = Helper::start(&mut command).context("cannot start cargo")?;
    let (Some(stdout), Some(mut stderr)) = (helper.stdout(), helper.stderr()) else {
        bail!("cargo has no output")
    };
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).map(|_| bytes).unwrap_or_default()
    });
    let mut images = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("reading cargo's messages")?;
        let Ok(message) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
        let name = message["target"]["name"].as_str().unwrap_or_default();
        if !name.is_empty() {
            voice.update(format!("building {what}: {name}"));
        }
        let example =
            message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == "example"));
        if let (true, Some(path)) = (example, message["executable"].as_str()) {
            images.push((name.to_owned(), PathBuf::from(path)));
        }
    }
    let status = helper.wait().context("waiting for cargo")?;
    voice.idle();
    let errors = errors.join().unwrap_or_default();
    let errors = String::from_utf8_lossy(&errors);
    if !status.success() {
        bail!("building {what} failed\n{errors}");
    }
    if errors.contains("warning") {
        voice.say(&format!("warnings of building {what}:\n{errors}"));
    }
    Ok(images)
}
