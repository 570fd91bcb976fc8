//! Where the sockets of a run lie, and what becomes of those of a run that was killed.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A folder for sockets: their paths must be shorter than 108 bytes.
pub(super) fn short_folder() -> Result<Sockets> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(SOCKETS);
    let parent = parent_of_sockets();
    sweep(&parent);
    let folder = builder.tempdir_in(&parent).context("cannot make a folder for sockets")?;
    let lock = std::fs::File::create(folder.path().join(LOCK)).and_then(|lock| lock.lock().map(|()| lock));
    Ok(Sockets { _lock: lock.context("cannot lock the folder for sockets")?, folder })
}

/// Where folders for sockets are.
pub(super) fn parent_of_sockets() -> PathBuf {
    let temporary = std::env::temp_dir();
    if temporary.as_os_str().len() > 70 { "/tmp".into() } else { temporary }
}

/// What names of folders for sockets begin with, and the file that is locked while a run lives.
const SOCKETS: &str = "pamir-";
const LOCK: &str = "lock";

/// A run's folder for sockets; gone with it.
pub(super) struct Sockets {
    folder: tempfile::TempDir,
    _lock: std::fs::File,
}

impl Sockets {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes what runs left that were killed: folders whose lock nobody holds.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let left = entry.file_name().to_str().is_some_and(|name| name.starts_with(SOCKETS))
            && std::fs::File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if left {
            // What cannot be removed is somebody else's.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_what_a_killed_run_left_is_swept_and_what_lives_is_not() {
        let place = tempfile::tempdir().expect("a folder");
        let [dead, alive, other] = ["pamir-dead", "pamir-alive", "else"].map(|name| place.path().join(name));
        for folder in [&dead, &alive, &other] {
            std::fs::create_dir(folder).expect("a folder");
            std::fs::write(folder.join(LOCK), "").expect("a file");
        }
        let lock = std::fs::File::open(alive.join(LOCK)).expect("a file");
        lock.lock().expect("a lock");
        sweep(place.path());
        assert!(!dead.exists() && alive.exists() && other.exists());
    }
}
