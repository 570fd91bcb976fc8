//! A run's folder: what it leaves on disk.
//!
//! | file | content |
//! |---|---|
//! | `commands.txt` | each node's command line |
//! | `node-N.log` | its decoded console: log lines, reports, statuses, firmware text |
//! | `node-N.raw` | its console's bytes |
//! | `node-N.qemu` | what its emulator complained about |
//! | `io-N.txt` | what an I/O node complained about |
//! | `dump.txt` | the state of all nodes, if the run failed |
//! | `torus.pcap` | all packets, in a quiet run that was not told where to write them |

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace;

/// Folders of runs that are kept.
const MOST_RUNS: usize = 100;

/// The folder of one run.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Whether it goes with this value.
    passing: bool,
}

impl Folder {
    /// Makes `at`, or else a new folder under `target/pamir`.
    pub fn create(at: Option<&Path>) -> Result<Self> {
        if let Some(at) = at {
            std::fs::create_dir_all(at).with_context(|| format!("cannot make {}", at.display()))?;
            return Ok(Self { path: std::path::absolute(at)?, passing: false });
        }
        Self::create_in(&workspace::target().join("pamir"))
    }

    /// Makes the next one in `parent`, and removes the oldest of too many.
    fn create_in(parent: &Path) -> Result<Self> {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let taken = std::fs::read_dir(parent)?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("run-")?.parse::<u32>().ok());
        let mut taken: Vec<_> = taken.collect();
        taken.sort_unstable();
        for old in &taken[..taken.len().saturating_sub(MOST_RUNS)] {
            // What cannot be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(parent.join(format!("run-{old}")));
        }
        // Another process may take the number at the same time: then the next.
        for number in taken.last().map_or(1, |last| last + 1).. {
            let folder = parent.join(format!("run-{number}"));
            match std::fs::create_dir(&folder) {
                Ok(()) => return Ok(Self { path: folder, passing: false }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| format!("cannot make {}", folder.display())),
            }
        }
        anyhow::bail!("{} is full", parent.display())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of a node with this ending.
    pub fn node(&self, rank: u32, ending: &str) -> PathBuf {
        self.path.join(format!("node-{rank}.{ending}"))
    }

    /// Writes a file of the whole run.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Nobody needs it any longer than this value lives, unless a test fails by then.
    pub fn set_passing(&mut self) {
        self.passing = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.passing && !std::thread::panicking() {
            // What cannot be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_a_run_has_the_next_number_and_the_oldest_of_too_many_go() {
        let parent = tempfile::tempdir().unwrap();
        for number in (3..3 + MOST_RUNS + 5).chain([2000]) {
            std::fs::create_dir(parent.path().join(format!("run-{number}"))).unwrap();
        }
        std::fs::create_dir(parent.path().join("run-away")).unwrap();
        let folder = Folder::create_in(parent.path()).unwrap();
        assert_eq!(folder.path(), parent.path().join("run-2001"));
        let mut left: Vec<u32> = std::fs::read_dir(parent.path())
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_prefix("run-")?.parse().ok())
            .collect();
        left.sort_unstable();
        let wanted: Vec<u32> = (9..3 + MOST_RUNS as u32 + 5).chain([2000, 2001]).collect();
        assert_eq!(left, wanted);
        assert!(parent.path().join("run-away").exists());
    }
}
