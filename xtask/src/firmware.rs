//! Building a job into a bootable image.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};

use crate::arch::Arch;
use crate::progress::Voice;
use crate::{jobs, setup};

/// What to build.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// For which machine.
    pub arch: Arch,
    /// The job.
    pub job: String,
    /// The log level that is compiled in.
    pub log: String,
}

/// Images built by this process. Holding the lock while building keeps builds one after the other.
static BUILT: Mutex<Option<HashMap<Request, PathBuf>>> = Mutex::new(None);

/// Builds the image, or finds that this process has built it, and gives its path.
pub fn build(request: &Request, voice: &Voice) -> Result<PathBuf> {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = built.as_ref().and_then(|built| built.get(request)) {
        return Ok(path.clone());
    }
    jobs::check(&request.job)?;
    let what = format!("job {} for {}", request.job, request.arch);
    let selection = ["--example", &request.job];
    let images = compile(request.arch, &request.log, &selection, &what, voice)?;
    let image = images.into_iter().find(|(name, _)| *name == request.job);
    let (_, path) = image.with_context(|| format!("building {what} gave no image"))?;
    built.get_or_insert_default().insert(request.clone(), path.clone());
    Ok(path)
}

/// Builds all jobs for `arch`.
pub fn build_all(arch: Arch, log: &str, voice: &Voice) -> Result<()> {
    let images = compile(arch, log, &["--examples"], &format!("all jobs for {arch}"), voice)?;
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    for (job, path) in images {
        built.get_or_insert_default().insert(Request { arch, job, log: log.to_owned() }, path);
    }
    Ok(())
}

fn compile(
    arch: Arch,
    log: &str,
    selection: &[&str],
    what: &str,
    voice: &Voice,
) -> Result<Vec<(String, PathBuf)>> {
    let toolchain = setup::toolchain(arch, voice)?;
    voice.busy(&format!("building {what}"));
    let mut command = toolchain.cargo("build", arch);
    command.args(["--profile", "firmware", "--package", "kernel"]).args(selection);
    // Messages on the standard output name the images; errors go to the standard error as they would by hand.
    command.args(["--message-format", "json-render-diagnostics", "--color"]);
    command.arg(if console::colors_enabled_stderr() && !voice.is_quiet() { "always" } else { "never" });
    command.env("DEFMT_LOG", log);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
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
    let status = child.wait().context("waiting for cargo")?;
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
