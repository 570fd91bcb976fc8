//! An I/O node: acts for nodes of a job on files of this machine, inside one directory and nowhere else (SPEC S-2).
//!
//! A process of its own (`cargo xtask io-node`, which a run starts), so that it can be lost alone, and so that what it has open ends
//! with it. It hangs on the tree network below the root, like a node, and answers one call after the other.
//!
//! *Why the host's process and no guest with a disk.* A guest would need a file system or a 9p client of its own, and
//! no kept crate without `std` has one; the tree network has nodes of every board that has it, `host`'s too, and loses
//! nothing. What the directory confines is [`cap_std`]'s work, not ours: each name is walked from the directory's own descriptor
//! by the host's kernel (`openat2` with `RESOLVE_BENEATH`, where it has that), so that neither `..`, nor a link, nor
//! who moves directories at that moment leads out.
//!
//! | module | concern |
//! |---|---|
//! | `server` | a call in, an answer out; who has what open |
//! | `space` | how much files may still grow by |

mod server;
mod space;

#[cfg(test)]
mod tests;

pub use server::Server;
pub use space::Space;

use std::io::{self, BufReader, ErrorKind, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::Args;
use pami::combine::packet::{ETHER_TYPE, HEADER_BYTES, NETWORK, TreeHeader, mac};
use pami::combine::{TreeEnvelope, TreePacket, TreePacketKind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zerocopy::IntoBytes as _;

use crate::fabric::MAX_FRAME;

const ETHERNET_BYTES: usize = 14;

/// What an I/O node is told.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The fabric's listener
    #[arg(long)]
    pub socket: PathBuf,
    /// Its rank on the tree network
    #[arg(long)]
    pub rank: u32,
    /// The directory
    #[arg(long)]
    pub files: PathBuf,
    /// The file that says how much files may still grow by
    #[arg(long)]
    pub space: PathBuf,
}

/// Serves until the fabric ends the connection.
///
/// # Errors
/// The directory or the file of what is left cannot be opened (the message names it), or the connection fails.
pub fn serve(settings: &Settings) -> io::Result<()> {
    allow_many_files();
    let of = |what, path: &Path, error: io::Error| {
        io::Error::new(error.kind(), format!("the {what} {}: {error}", path.display()))
    };
    let space = Space::open(&settings.space).map_err(|error| of("file", &settings.space, error))?;
    let files = &settings.files;
    let mut server = Server::new(files, space).map_err(|error| of("directory", files, error))?;
    let stream = UnixStream::connect(&settings.socket)?;
    let mut input = BufReader::new(&stream);
    let (mut frame, mut answer) = (Vec::new(), Vec::new());
    while read_frame(&mut input, &mut frame)? {
        let packet = frame.get(ETHERNET_BYTES..).and_then(|packet| TreePacket::parse(packet).ok());
        let Some(TreePacket { envelope, payload }) = packet else { continue };
        if envelope.kind == TreePacketKind::Ship {
            server.serve(envelope.origin, payload, &mut answer);
            (&stream).write_all(&answer_frame(settings.rank, &envelope, &answer))?;
        }
    }
    Ok(())
}

/// Reads one frame with its length before it. False if there are no more.
fn read_frame(input: &mut impl Read, frame: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        other => other?,
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    frame.resize(length, 0);
    input.read_exact(frame)?;
    Ok(true)
}

/// The answer to `call` from the I/O node `rank`, as a frame with its length before it.
fn answer_frame(rank: u32, call: &TreeEnvelope, payload: &[u8]) -> Vec<u8> {
    let envelope = TreeEnvelope { kind: TreePacketKind::Reply, ..*call };
    let header = TreeHeader::new(&envelope, payload.len() as u16);
    let length = (ETHERNET_BYTES + HEADER_BYTES + payload.len()) as u32;
    let (to, from, ether_type) = (mac(NETWORK), mac(rank), ETHER_TYPE.to_be_bytes());
    [&length.to_be_bytes()[..], &to, &from, &ether_type, header.as_bytes(), payload].concat()
}

/// Many nodes have many files open: as many as the user may have. If that fails, opening one too many does.
fn allow_many_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
