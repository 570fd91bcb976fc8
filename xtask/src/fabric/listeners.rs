//! A listening Unix socket per node.

use mio::net::UnixListener;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The listeners' paths, removed with this.
pub struct Sockets(Vec<PathBuf>);

impl Sockets {
    /// The path of each node's listener, by rank.
    pub fn paths(&self) -> &[PathBuf] {
        &self.0
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in &self.0 {
            // Absent is as good as removed, and nobody is left to hear of anything else.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes `NAME-N.sock` in `folder` for each of `nodes` nodes but the first `own`, which listen themselves; replaces sockets an earlier
/// run left there.
///
/// # Errors
/// Why a listener or the folder cannot be made; the message names it.
pub fn bind(
    folder: &Path,
    name: &str,
    own: u32,
    nodes: u32,
) -> io::Result<(Sockets, Vec<Option<UnixListener>>)> {
    std::fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
    let mut sockets = Sockets(Vec::new());
    let mut listeners = Vec::new();
    for node in 0..nodes {
        let path = folder.join(format!("{name}-{node}.sock"));
        if path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket()) {
            std::fs::remove_file(&path).map_err(|error| named(&path, &error))?;
        }
        let bind = || UnixListener::bind(&path).map_err(|error| named(&path, &error));
        listeners.push((node >= own).then(bind).transpose()?);
        sockets.0.push(path);
    }
    Ok((sockets, listeners))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
