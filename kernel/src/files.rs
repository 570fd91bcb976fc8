//! Files of a job: each call is shipped over the tree network to the node's I/O node, which acts on the host's files inside the one
//! directory that the user named, and answers to this node alone (SPEC S-2).
//!
//! Any hart of any task may call; descriptors are the node's. The caller sleeps until its answer has come, and runs the message unit
//! before it does. Reads and writes are cut in pieces of a packet, of which a caller has [`AHEAD`] under way. Nothing is
//! allocated. Nothing waits for ever: the network answers in the place of an I/O node that is lost (`EIO`), and who
//! hears nothing for [`DEADLINE_S`] seconds is told so (`ETIMEDOUT`); the call may still be carried out then.
//!
//! Every error names the file. Names are relative to the directory.

use crate::clock;
use crate::file_calls::{
    ANSWER_BYTES, Answer, CALL_BYTES, Call, Entries, Errno, Kind, MOST_NAME, OpenMode, Verb,
};
use crate::hardware::{Tree, Unit};
use crate::task::Task;
use core::fmt;
use core::ops::Range;
use drivers::tree_network::{InjectError, ShippedCall};
use heapless::{Deque, String};
use pami::combine::Status;
use pami::combine::packet::MOST_PAYLOAD;
use pami::files::{Files, OpenFile};

/// Pieces of one read or write that are under way at a time: half of the node's calls, so that another hart's call has room.
pub const AHEAD: usize = 4;
const _: () = assert!(AHEAD * 2 <= pami::combine::packet::SHIPPED_CALLS);
/// Seconds that an answer is waited for.
pub const DEADLINE_S: u64 = 30;
const DEADLINE_NS: u64 = DEADLINE_S * 1_000_000_000;
/// How long a caller sleeps while all calls that the node may have under way are others'.
const NAP_NS: u64 = 1_000_000;
/// Bytes of a name that an error keeps: its end, if it is longer.
const KEPT: usize = 64;

/// A name, or the end of a long one.
pub type FileName = String<KEPT>;

/// Why a call for a file failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// What was called for.
    pub verb: Verb,
    /// The file, by the name that the call had or that it was opened by.
    pub name: FileName,
    /// Why.
    pub errno: Errno,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.verb.word(), self.name, self.errno)
    }
}

impl core::error::Error for FileError {}

/// What is known of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStat {
    /// What it stands for.
    pub kind: Kind,
    /// Bytes of a file.
    pub size: u64,
}

/// From where a position is reckoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekFrom {
    /// The start.
    Start(u64),
    /// The position that is.
    Current(i64),
    /// The file's end.
    End(i64),
}

/// The way to the files.
#[derive(Clone, Copy)]
pub struct JobFiles {
    tree: &'static Tree,
    unit: &'static Unit,
}

impl Task {
    /// The job's files.
    ///
    /// # Errors
    /// `ENODEV`: the node is not on the tree network, which I/O nodes are on. Whether there are any tells the first call.
    pub fn files(&self) -> Result<JobFiles, FileError> {
        let no_tree = || error(Verb::Open, "", Errno::ENODEV);
        Ok(JobFiles { tree: self.tree().ok_or_else(no_tree)?, unit: self.unit() })
    }
}

impl JobFiles {
    /// Opens a file.
    ///
    /// # Errors
    /// `EMFILE`: this node has [`DESCRIPTORS`](crate::file_calls::DESCRIPTORS) open. `EACCES`: the name leads out of the
    /// directory, or the host does not allow it. `ENOSPC`: it would have to be made, and the limit of bytes is reached. Others as
    /// POSIX has them.
    pub fn open(&self, name: &str, mode: OpenMode) -> Result<File, FileError> {
        let call = Call { mode, ..Call::new(Verb::Open) };
        let (descriptor, _) = self.ask(&call, name, &[name.as_bytes()])?;
        let descriptor = u32::try_from(descriptor).map_err(|_| error(Verb::Open, name, Errno::EPROTO))?;
        Ok(File { files: *self, descriptor, position: 0, name: kept(name), open: true })
    }

    /// Kind and size of what has this name; of a link, of what it leads to.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn stat(&self, name: &str) -> Result<FileStat, FileError> {
        let (size, kind) = self.ask(&Call::new(Verb::Stat), name, &[name.as_bytes()])?;
        Ok(FileStat { kind, size })
    }

    /// Takes a file its name; who has it open keeps it.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn unlink(&self, name: &str) -> Result<(), FileError> {
        self.ask(&Call::new(Verb::Unlink), name, &[name.as_bytes()]).map(|_| ())
    }

    /// Gives `from` the name `to`, in the place of what had it.
    ///
    /// # Errors
    /// As of [`open`](Self::open); named is `from`.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        if from.len().max(to.len()) > MOST_NAME {
            return Err(error(Verb::Rename, from, Errno::ENAMETOOLONG));
        }
        let call = Call { length: from.len() as u32, ..Call::new(Verb::Rename) };
        self.ask(&call, from, &[from.as_bytes(), to.as_bytes()]).map(|_| ())
    }

    /// Calls `each` with the kind and name of all that is in a directory, in the order of names. What comes or goes meanwhile may
    /// be among it or not; all else is, once.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn read_dir(&self, name: &str, mut each: impl FnMut(Kind, &[u8])) -> Result<(), FileError> {
        let failed = |errno| error(Verb::List, name, errno);
        let mut last = heapless::Vec::<u8, { MOST_NAME }>::new();
        let mut held = heapless::Vec::<u8, MOST_PAYLOAD>::new();
        let call = Call { length: self.most_read() as u32, ..Call::new(Verb::List) };
        loop {
            let before = last.clone();
            let count = self.take(&call, name, &[name.as_bytes(), &[0], &before], |answer, data| {
                held.clear();
                held.extend_from_slice(data).map_err(|_| Errno::EPROTO)?;
                answer.result
            })?;
            // Out of the answer, which is the tree's and locked: `each` may call for files itself.
            for (kind, name) in Entries(&held) {
                each(kind, name);
                last.clear();
                last.extend_from_slice(name).map_err(|_| failed(Errno::EPROTO))?;
            }
            if count == 0 {
                return Ok(());
            }
            // One that goes no further would be asked for ever.
            if last <= before {
                return Err(failed(Errno::EPROTO));
            }
        }
    }

    /// Most bytes of an answer's data.
    fn most_read(&self) -> usize {
        self.tree.payload() - ANSWER_BYTES
    }

    /// Calls, and returns the answer's value and kind.
    fn ask(&self, call: &Call, name: &str, data: &[&[u8]]) -> Result<(u64, Kind), FileError> {
        let mut kind = Kind::Other;
        let value = self.take(call, name, data, |answer, _| {
            kind = answer.kind;
            answer.result
        })?;
        Ok((value, kind))
    }

    /// Calls, and hands the answer to `take`.
    fn take<R>(
        &self,
        call: &Call,
        name: &str,
        data: &[&[u8]],
        take: impl FnOnce(Answer, &[u8]) -> Result<R, Errno>,
    ) -> Result<R, FileError> {
        let named = |errno| error(call.verb, name, errno);
        let len = data.iter().map(|part| part.len()).sum();
        let deadline = clock::now_ns() + DEADLINE_NS;
        let shipped = loop {
            match self.ship(call, len, |place| join(place, data)) {
                Ok(shipped) => break shipped,
                Err(InjectError::Full) => self.nap(deadline).map_err(named)?,
                Err(_) => return Err(named(Errno::ENAMETOOLONG)),
            }
        };
        self.answer(shipped, deadline, take).map_err(named)
    }

    /// Ships a call with `len` bytes of data, which `fill` puts in their place.
    fn ship(
        &self,
        call: &Call,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<ShippedCall, InjectError> {
        self.tree.ship(CALL_BYTES + len, |into| fill(call.write(into)))
    }

    /// Sleeps a little, until another hart's call may be over.
    fn nap(&self, deadline: u64) -> Result<(), Errno> {
        let now = clock::now_ns();
        if now >= deadline {
            return Err(Errno::ETIMEDOUT);
        }
        self.tree.look();
        self.unit.sleep(Some(deadline.min(now + NAP_NS)));
        Ok(())
    }

    /// Sleeps until a call is answered, and hands the answer to `take`.
    fn answer<R>(
        &self,
        shipped: ShippedCall,
        deadline: u64,
        take: impl FnOnce(Answer, &[u8]) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut take = Some(take);
        loop {
            self.tree.look();
            let answered =
                self.tree.reply(shipped, |status, payload| match (status, Answer::read(payload)) {
                    (Status::Good, Some((answer, data))) => {
                        let take = take.take().ok_or(Errno::EPROTO)?;
                        answer.result.and_then(|_| take(answer, data))
                    }
                    (Status::Dead, _) => Err(Errno::EIO),
                    (Status::NoIoNode, _) => Err(Errno::ENODEV),
                    _ => Err(Errno::EPROTO),
                });
            if let Some(answered) = answered {
                return answered;
            }
            if clock::now_ns() >= deadline {
                self.tree.leave(shipped);
                return Err(Errno::ETIMEDOUT);
            }
            self.unit.sleep(Some(deadline));
        }
    }

    /// Ships `len` bytes in pieces of `piece`, in order, some ahead. `take` says how many bytes of a piece were done. Ends at the first piece that
    /// was not done as a whole, and returns how many bytes were done before; an error if that is none.
    fn in_pieces(
        &self,
        len: usize,
        piece: usize,
        mut ship: impl FnMut(Range<usize>) -> Result<ShippedCall, InjectError>,
        mut take: impl FnMut(Range<usize>, Answer, &[u8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut under_way = Deque::<(ShippedCall, Range<usize>), AHEAD>::new();
        let (mut next, mut end, mut done, mut failed) = (0, len, 0, None);
        let mut deadline = clock::now_ns() + DEADLINE_NS;
        loop {
            while next < end && !under_way.is_full() {
                let range = next..end.min(next + piece);
                match ship(range.clone()) {
                    Ok(call) => {
                        next = range.end;
                        // It was looked whether there is room.
                        let _ = under_way.push_back((call, range));
                    }
                    Err(InjectError::Full) => break,
                    Err(_) => (failed, end) = (failed.or(Some(Errno::EPROTO)), 0),
                }
            }
            let Some((call, range)) = under_way.pop_front() else {
                if next >= end {
                    break;
                }
                if let Err(errno) = self.nap(deadline) {
                    (failed, end) = (Some(errno), 0);
                }
                continue;
            };
            match self.answer(call, deadline, |answer, data| take(range.clone(), answer, data)) {
                Ok(bytes) => {
                    // What was done behind a gap does not count.
                    done += if done == range.start { bytes } else { 0 };
                    end = if bytes < range.len() { 0 } else { end };
                    deadline = clock::now_ns() + DEADLINE_NS;
                }
                Err(errno) => (failed, end) = (failed.or(Some(errno)), 0),
            }
        }
        match failed {
            Some(errno) if done == 0 => Err(errno),
            _ => Ok(done),
        }
    }
}

/// An open file. It closes when dropped.
pub struct File {
    files: JobFiles,
    descriptor: u32,
    position: u64,
    name: FileName,
    open: bool,
}

impl File {
    /// Its name, as in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads at `offset` from the file's start; fewer bytes than there is room for at its end only, or before a piece that could
    /// not be read.
    ///
    /// # Errors
    /// Not one byte could be read, and it is not the file's end: `EIO` among others.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, FileError> {
        let len = into.len();
        let take = |at: usize, data: &[u8]| {
            if let Some(place) = into.get_mut(at..).and_then(|rest| rest.get_mut(..data.len())) {
                place.copy_from_slice(data);
            }
        };
        self.read_pieces(offset, len, take).map_err(|errno| self.error(Verb::Read, errno))
    }

    /// Writes at `offset` from the file's start, or at its end if it was opened to be appended to. Returns how many bytes, of the
    /// first ones, were written: fewer only before one that could not be.
    ///
    /// # Errors
    /// Not one byte could be written: `ENOSPC` among others.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize, FileError> {
        let fill = |at: usize, place: &mut [u8]| place.copy_from_slice(&data[at..][..place.len()]);
        self.write_pieces(offset, data.len(), fill).map_err(|errno| self.error(Verb::Write, errno))
    }

    /// As [`write_at`](Self::write_at), all bytes.
    ///
    /// # Errors
    /// One byte at least could not be written.
    pub fn write_all_at(&self, offset: u64, data: &[u8]) -> Result<(), FileError> {
        let mut done = 0;
        while done < data.len() {
            match self.write_at(offset.saturating_add(done as u64), &data[done..])? {
                0 => return Err(self.error(Verb::Write, Errno::EIO)),
                written => done += written,
            }
        }
        Ok(())
    }

    /// As [`read_at`](Self::read_at), at the file's position, which moves on.
    ///
    /// # Errors
    /// Likewise.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, FileError> {
        let bytes = self.read_at(self.position, into)?;
        self.position += bytes as u64;
        Ok(bytes)
    }

    /// As [`write_at`](Self::write_at), at the file's position, which moves on.
    ///
    /// # Errors
    /// Likewise.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, FileError> {
        let bytes = self.write_at(self.position, data)?;
        self.position += bytes as u64;
        Ok(bytes)
    }

    /// Moves the position, beyond the end too; returns it.
    ///
    /// # Errors
    /// `EINVAL`: it would be before the start. From the end, those of [`size`](Self::size).
    pub fn seek(&mut self, to: SeekFrom) -> Result<u64, FileError> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.size()?.checked_add_signed(by),
        };
        self.position = position.ok_or_else(|| self.error(Verb::Size, Errno::EINVAL))?;
        Ok(self.position)
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// `EIO` among others.
    pub fn size(&self) -> Result<u64, FileError> {
        self.ask(Verb::Size)
    }

    /// Closes it, and tells how that went.
    ///
    /// # Errors
    /// `EIO` among others; it counts as closed.
    pub fn close(mut self) -> Result<(), FileError> {
        self.end()
    }

    /// Returns when all that was written is on the host's disk.
    ///
    /// # Errors
    /// `EIO` among others.
    pub fn sync(&self) -> Result<(), FileError> {
        self.ask(Verb::Sync).map(drop)
    }

    fn end(&mut self) -> Result<(), FileError> {
        self.open = false;
        self.ask(Verb::Close).map(drop)
    }

    /// Calls for something of the whole file.
    fn ask(&self, verb: Verb) -> Result<u64, FileError> {
        let call = Call { descriptor: self.descriptor, ..Call::new(verb) };
        self.files.ask(&call, &self.name, &[]).map(|(value, _)| value)
    }

    fn error(&self, verb: Verb, errno: Errno) -> FileError {
        FileError { verb, name: self.name.clone(), errno }
    }
}

impl Files for JobFiles {
    type Open = File;

    fn open_file(&self, name: &str, mode: OpenMode) -> Result<File, Errno> {
        self.open(name, mode).map_err(|error| error.errno)
    }

    fn remove(&self, name: &str) -> Result<(), Errno> {
        self.unlink(name).map_err(|error| error.errno)
    }
}

impl OpenFile for File {
    fn read_pieces(
        &self,
        offset: u64,
        len: usize,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<usize, Errno> {
        let (files, descriptor) = (&self.files, self.descriptor);
        let ship = |range: Range<usize>| {
            let offset = offset.saturating_add(range.start as u64);
            files.ship(
                &Call { descriptor, offset, length: range.len() as u32, ..Call::new(Verb::Read) },
                0,
                |_| {},
            )
        };
        let take = |range: Range<usize>, _: Answer, data: &[u8]| {
            if data.len() > range.len() {
                return Err(Errno::EPROTO);
            }
            take(range.start, data);
            Ok(data.len())
        };
        files.in_pieces(len, files.most_read(), ship, take)
    }

    fn write_pieces(
        &self,
        offset: u64,
        len: usize,
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<usize, Errno> {
        let (files, descriptor) = (&self.files, self.descriptor);
        let ship = |range: Range<usize>| {
            let offset = offset.saturating_add(range.start as u64);
            let call = Call { descriptor, offset, ..Call::new(Verb::Write) };
            files.ship(&call, range.len(), |place| fill(range.start, place))
        };
        let take = |range: Range<usize>, answer: Answer, _: &[u8]| {
            let written = usize::try_from(answer.result?).ok().filter(|&written| written <= range.len());
            written.ok_or(Errno::EPROTO)
        };
        files.in_pieces(len, files.tree.payload() - CALL_BYTES, ship, take)
    }

    fn bytes(&self) -> Result<u64, Errno> {
        self.size().map_err(|error| error.errno)
    }

    fn sync(&self) -> Result<(), Errno> {
        File::sync(self).map_err(|error| error.errno)
    }

    fn close(self) -> Result<(), Errno> {
        File::close(self).map_err(|error| error.errno)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.open {
            // Who wants to know closes it.
            let _ = self.end();
        }
    }
}

/// Puts `parts` one behind the other into `place`, which is as long as all of them.
fn join(mut place: &mut [u8], parts: &[&[u8]]) {
    for part in parts {
        let (here, behind) = place.split_at_mut(part.len());
        here.copy_from_slice(part);
        place = behind;
    }
}

#[cold]
fn error(verb: Verb, name: &str, errno: Errno) -> FileError {
    FileError { verb, name: kept(name), errno }
}

/// The end of a name, as much as is kept.
fn kept(name: &str) -> FileName {
    let start = (name.len().saturating_sub(KEPT)..=name.len()).find(|&at| name.is_char_boundary(at));
    // It was cut to fit.
    FileName::try_from(name.get(start.unwrap_or(0)..).unwrap_or("")).unwrap_or_default()
}
