//! A call in, an answer out; who has what open.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, FileType, OpenOptions, OpenOptionsExt as _};
use kernel::file_calls::{ANSWER_BYTES, Answer, Call, DESCRIPTORS, Errno, Kind, MOST_NAME, OpenMode, Verb};
use pami::combine::packet::MOST_PAYLOAD;
use rustix::fs::OFlags;

use super::space::Space;

/// Bits of a descriptor that are its place; the others tell it from earlier ones there.
const PLACE_BITS: u32 = 8;
const _: () = assert!(DESCRIPTORS <= 1 << PLACE_BITS);

struct OpenFile {
    file: File,
    append: bool,
    descriptor: u32,
}

/// What a node has open.
#[derive(Default)]
struct Descriptors {
    places: [Option<OpenFile>; DESCRIPTORS],
    opened: u32,
}

impl Descriptors {
    fn free(&self) -> Result<usize, Errno> {
        self.places.iter().position(Option::is_none).ok_or(Errno::EMFILE)
    }

    fn add(&mut self, place: usize, file: File, append: bool) -> u32 {
        self.opened = self.opened.wrapping_add(1);
        let descriptor = self.opened << PLACE_BITS | place as u32;
        self.places[place] = Some(OpenFile { file, append, descriptor });
        descriptor
    }

    fn find(&mut self, descriptor: u32) -> Result<&mut Option<OpenFile>, Errno> {
        let place = self.places.get_mut((descriptor & ((1 << PLACE_BITS) - 1)) as usize);
        let is_it = |open: &OpenFile| open.descriptor == descriptor;
        place.filter(|place| place.as_ref().is_some_and(is_it)).ok_or(Errno::EBADF)
    }

    fn get(&mut self, descriptor: u32) -> Result<&OpenFile, Errno> {
        self.find(descriptor)?.as_ref().ok_or(Errno::EBADF)
    }
}

/// What acts on files for nodes.
pub struct Server {
    directory: Dir,
    space: Space,
    nodes: HashMap<u32, Descriptors>,
}

impl Server {
    /// One that acts inside `directory`, where files may grow by what `space` has left.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn new(directory: &Path, space: Space) -> io::Result<Self> {
        let directory = Dir::open_ambient_dir(directory, ambient_authority())?;
        Ok(Self { directory, space, nodes: HashMap::new() })
    }

    /// Does what the call of `node` in `bytes` says, and writes the answer into `answer`, [`MOST_PAYLOAD`] bytes at most.
    /// Whatever the bytes, it answers.
    pub fn serve(&mut self, node: u32, bytes: &[u8], answer: &mut Vec<u8>) {
        answer.clear();
        answer.resize(ANSWER_BYTES, 0);
        let header = match Call::read(bytes) {
            Some((call, data)) => self.act(node, &call, data, answer),
            None => Err(Errno::EINVAL),
        };
        let header = header.unwrap_or_else(|errno| {
            answer.truncate(ANSWER_BYTES);
            Answer { result: Err(errno), kind: Kind::Other }
        });
        answer[..ANSWER_BYTES].copy_from_slice(&header.to_bytes());
    }

    fn act(&mut self, node: u32, call: &Call, data: &[u8], into: &mut Vec<u8>) -> Result<Answer, Errno> {
        let most = (call.length as usize).min(MOST_PAYLOAD - ANSWER_BYTES);
        let Self { directory, space, nodes } = self;
        let open = nodes.entry(node).or_default();
        Ok(match call.verb {
            Verb::Open => {
                let place = open.free()?;
                let file = open_file(directory, space, name(data)?, call.mode)?;
                Answer::good(open.add(place, file, call.mode.contains(OpenMode::APPEND)).into())
            }
            Verb::Close => {
                *open.find(call.descriptor)? = None;
                Answer::good(0)
            }
            Verb::Read => {
                read(&open.get(call.descriptor)?.file, call.offset, most, into)?;
                Answer::good((into.len() - ANSWER_BYTES) as u64)
            }
            Verb::Write => Answer::good(write(open.get(call.descriptor)?, space, call.offset, data)?),
            Verb::Size => {
                let metadata = open.get(call.descriptor)?.file.metadata().map_err(errno)?;
                Answer::good(metadata.len())
            }
            Verb::Sync => {
                open.get(call.descriptor)?.file.sync_all().map_err(errno)?;
                Answer::good(0)
            }
            Verb::Stat => {
                let metadata = directory.metadata(name(data)?).map_err(errno)?;
                Answer { kind: kind(metadata.file_type()), ..Answer::good(metadata.len()) }
            }
            Verb::Unlink => {
                directory.remove_file(name(data)?).map_err(errno)?;
                Answer::good(0)
            }
            Verb::Rename => {
                let (from, to) = data.split_at_checked(call.length as usize).ok_or(Errno::EINVAL)?;
                directory.rename(name(from)?, directory, name(to)?).map_err(errno)?;
                Answer::good(0)
            }
            Verb::List => {
                // The last entry's name holds no zero; a name that does is refused as a whole.
                let zero = data.iter().rposition(|&byte| byte == 0).ok_or(Errno::EINVAL)?;
                Answer::good(list(directory, name(&data[..zero])?, &data[zero + 1..], most, into)?)
            }
        })
    }
}

/// A name out of a call.
fn name(bytes: &[u8]) -> Result<&Path, Errno> {
    match bytes.len() {
        0 => Err(Errno::ENOENT),
        len if len > MOST_NAME => Err(Errno::ENAMETOOLONG),
        _ => Ok(Path::new(OsStr::from_bytes(bytes))),
    }
}

/// Opens a file. Nothing else is opened: neither a directory, nor a pipe, which nobody may read from.
fn open_file(directory: &Dir, space: &Space, name: &Path, mode: OpenMode) -> Result<File, Errno> {
    if OpenMode::from_bits(mode.bits()).is_none_or(|mode| !mode.is_sound()) {
        return Err(Errno::EINVAL);
    }
    let mut options = OpenOptions::new();
    options.read(mode.contains(OpenMode::READ)).write(mode.contains(OpenMode::WRITE));
    let (append, truncate) = (mode.contains(OpenMode::APPEND), mode.contains(OpenMode::TRUNCATE));
    // Both at once the library refuses.
    options.append(append).truncate(truncate && !append);
    options.custom_flags(OFlags::NONBLOCK.union(OFlags::NOCTTY).bits() as i32);
    let mut new = options.clone();
    new.create_new(true);
    let make = || space.lock()?.new_file(|| directory.open_with(name, &new).map_err(errno));
    let there = || directory.open_with(name, &options).map_err(errno);
    let file = if mode.contains(OpenMode::EXCLUSIVE) {
        make()
    } else {
        match there() {
            // Another may make it at this moment.
            Err(Errno::ENOENT) if mode.contains(OpenMode::CREATE) => match make() {
                Err(Errno::EEXIST) => there(),
                made => made,
            },
            other => other,
        }
    };
    let file = file?.into_std();
    let metadata = file.metadata().map_err(errno)?;
    match metadata.file_type() {
        kind if kind.is_dir() => Err(Errno::EISDIR),
        kind if kind.is_file() && append && truncate => file.set_len(0).map(|()| file).map_err(errno),
        kind if kind.is_file() => Ok(file),
        _ => Err(Errno::EINVAL),
    }
}

/// Reads up to `most` bytes at `offset` behind what is in `into`; fewer at the file's end only.
fn read(file: &File, offset: u64, most: usize, into: &mut Vec<u8>) -> Result<(), Errno> {
    let start = into.len();
    into.resize(start + most, 0);
    let mut done = 0;
    while done < most {
        let at = offset.checked_add(done as u64).ok_or(Errno::EINVAL)?;
        match file.read_at(&mut into[start + done..], at) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(errno(error)),
        }
    }
    into.truncate(start + done);
    Ok(())
}

/// Writes as many of the bytes as there is space for; returns how many.
fn write(open: &OpenFile, space: &Space, offset: u64, data: &[u8]) -> Result<u64, Errno> {
    let mut left = space.lock()?;
    let size = open.file.metadata().map_err(errno)?.len();
    let at = if open.append { size } else { offset };
    let end = at.checked_add(data.len() as u64).filter(|&end| i64::try_from(end).is_ok());
    end.ok_or(Errno::EFBIG)?;
    let fits = left.fits(size, at, data.len() as u64)?;
    let data = &data[..fits as usize];
    let mut done = 0;
    while done < data.len() {
        match open.file.write_at(&data[done..], at + done as u64) {
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if done == 0 => return Err(errno(error)),
            Err(_) => break,
        }
    }
    left.written(size, at, done as u64);
    Ok(done as u64)
}

/// Writes entries of a directory, the first behind the name `last`, in order, as many as `most` bytes hold; returns how many.
fn list(directory: &Dir, name: &Path, last: &[u8], most: usize, into: &mut Vec<u8>) -> Result<u64, Errno> {
    let mut entries = Vec::new();
    for entry in directory.read_dir(name).map_err(errno)? {
        let entry = entry.map_err(errno)?;
        let name = entry.file_name();
        if name.as_bytes() > last {
            entries.push((name, entry.file_type().map_or(Kind::Other, kind)));
        }
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let (end, mut count) = (into.len() + most, 0);
    for (name, kind) in entries {
        let name = name.as_bytes();
        let Ok(len) = u8::try_from(name.len()) else { continue };
        if into.len() + 2 + name.len() > end {
            // Who has room for none is not told that there are none.
            return if count == 0 { Err(Errno::EINVAL) } else { Ok(count) };
        }
        into.extend([kind as u8, len]);
        into.extend(name);
        count += 1;
    }
    Ok(count)
}

fn kind(of: FileType) -> Kind {
    match of {
        of if of.is_file() => Kind::File,
        of if of.is_dir() => Kind::Directory,
        of if of.is_symlink() => Kind::Link,
        _ => Kind::Other,
    }
}

/// What POSIX calls it. A name that leads out of the directory is refused by `cap_std` without a number.
fn errno(error: io::Error) -> Errno {
    let number = error.raw_os_error().and_then(|number| u16::try_from(number).ok()).filter(|&it| it != 0);
    number.map(Errno).unwrap_or(match error.kind() {
        io::ErrorKind::PermissionDenied => Errno::EACCES,
        io::ErrorKind::NotFound => Errno::ENOENT,
        io::ErrorKind::AlreadyExists => Errno::EEXIST,
        io::ErrorKind::InvalidInput => Errno::EINVAL,
        _ => Errno::EIO,
    })
}
