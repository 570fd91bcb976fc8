//! A file that a run writes while it goes on. A full disk ends the file, not the run.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The file.
pub struct Record {
    path: PathBuf,
    /// None once it could not be written.
    out: Option<BufWriter<File>>,
    problem: Option<io::Error>,
}

impl Record {
    /// Makes it, over an older one.
    ///
    /// # Errors
    /// It cannot be made: its name is in the error.
    pub fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, out: Some(BufWriter::new(file)), problem: None })
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line.
    pub fn line(&mut self, text: Arguments) {
        self.with(|out| writeln!(out, "{text}"));
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.with(|out| out.write_all(bytes));
    }

    /// Hands everything to the file.
    pub fn flush(&mut self) {
        self.with(BufWriter::flush);
    }

    /// What kept it from being whole, with its name.
    pub fn problem(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        Some(format!("{} ends early: {problem}", self.path.display()))
    }

    fn with(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        let Some(Err(error)) = self.out.as_mut().map(write) else { return };
        self.problem = Some(error);
        // Without another try to write what is left.
        self.out.take().map(BufWriter::into_parts);
    }
}
