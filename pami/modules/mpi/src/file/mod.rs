//! Files that the processes of a communicator have open together (the standard's chapter of I/O), over those of the node (SPEC S-2).
//!
//! Each process reads and writes its own pieces, straight between its data and the node's calls: nothing is copied in between.
//! Calls of all are over when all are, and tell of each other's errors.

mod view;

pub use view::View;

use crate::data::Data;
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::library::Communicator;
use crate::status::Status;
use core::ops::ControlFlow;
use heapless::String;
use pami::client::Node;
use pami::files::{Errno, Files, MOST_NAME, OpenFile, OpenMode};
use spin::Mutex;

bitflags::bitflags! {
    /// How a file is opened, by the standard's names.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Amode: u32 {
        /// It is made if it is not there.
        const CREATE = 1;
        /// To be read only.
        const RDONLY = 2;
        /// To be written only.
        const WRONLY = 4;
        /// To be read and written.
        const RDWR = 8;
        /// Its name goes when it is closed.
        const DELETE_ON_CLOSE = 16;
        /// Nobody else has it open.
        const UNIQUE_OPEN = 32;
        /// With `CREATE`: it must not be there.
        const EXCL = 64;
        /// Every process begins at its end.
        const APPEND = 128;
    }
}

impl Amode {
    /// What the node is asked for.
    fn to_open(self) -> Result<OpenMode> {
        let access = match self & (Self::RDONLY | Self::WRONLY | Self::RDWR) {
            Self::RDONLY => OpenMode::READ,
            Self::WRONLY => OpenMode::WRITE,
            Self::RDWR => OpenMode::READ | OpenMode::WRITE,
            _ => return Err(Error::Amode("name one of RDONLY, WRONLY and RDWR")),
        };
        if access == OpenMode::READ && self.intersects(Self::CREATE | Self::EXCL) {
            return Err(Error::Amode("a file that is made or must be new is not RDONLY"));
        }
        if self.contains(Self::EXCL) && !self.contains(Self::CREATE) {
            return Err(Error::Amode("EXCL goes with CREATE"));
        }
        let flag = |amode, mode| if self.contains(amode) { mode } else { OpenMode::empty() };
        Ok(access | flag(Self::CREATE, OpenMode::CREATE) | flag(Self::EXCL, OpenMode::EXCLUSIVE))
    }
}

/// From where a position is reckoned (`MPI_SEEK_SET`, `MPI_SEEK_CUR`, `MPI_SEEK_END`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whence {
    /// The view's start.
    Set,
    /// The process's position.
    Cur,
    /// The file's end.
    End,
}

/// A file's name.
type FileName = String<MOST_NAME>;

/// A file that all processes of a communicator have open.
pub struct File<N: Node, F: Files> {
    communicator: Communicator<N>,
    files: F,
    open: F::Open,
    name: FileName,
    amode: Amode,
    state: Mutex<State>,
}

/// What is a process's own.
struct State {
    view: View,
    /// In elements of the view.
    position: u64,
}

impl<N: Node, F: Files> File<N, F> {
    /// `MPI_File_open`: all call it, with the same name and mode.
    ///
    /// # Errors
    /// [`Error::Amode`], [`Error::File`], or where another process fails [`Error::Elsewhere`]: nobody has it open then. Those of
    /// [`Communicator::dup`].
    pub fn open(communicator: &Communicator<N>, files: F, name: &str, amode: Amode) -> Result<Self> {
        let communicator = communicator.dup()?;
        Self::open_all(communicator, files, name, amode).or_else(|error| communicator.free().and(Err(error)))
    }

    fn open_all(communicator: Communicator<N>, files: F, name: &str, amode: Amode) -> Result<Self> {
        let first = communicator.rank() == 0;
        // One makes it, before the others open what is there then.
        let kept = FileName::try_from(name).map_err(|_| Error::File(Errno::ENAMETOOLONG));
        let (mode, name) = together(&communicator, amode.to_open().and_then(|mode| Ok((mode, kept?))))?;
        let open = |mode| files.open_file(&name, mode).map_err(Error::File);
        let opened = if first { open(mode).map(Some) } else { Ok(None) };
        let opened = together(&communicator, opened)?;
        let made = OpenMode::CREATE | OpenMode::EXCLUSIVE;
        let opened = together(&communicator, opened.map_or_else(|| open(mode.difference(made)), Ok))?;
        let end = if amode.contains(Amode::APPEND) { opened.bytes().map_err(Error::File) } else { Ok(0) };
        let position = together(&communicator, end)?;
        let state = Mutex::new(State { view: View::bytes(), position });
        Ok(Self { communicator, files, open: opened, name, amode, state })
    }

    /// `MPI_File_close`: all call it.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Elsewhere`]; it counts as closed.
    pub fn close(self) -> Result<()> {
        let Self { communicator, files, open, name, amode, .. } = self;
        let closed = together(&communicator, open.close().map_err(Error::File));
        let removes = amode.contains(Amode::DELETE_ON_CLOSE) && communicator.rank() == 0;
        let removed = if removes { files.remove(&name).map_err(Error::File) } else { Ok(()) };
        let removed =
            if amode.contains(Amode::DELETE_ON_CLOSE) { together(&communicator, removed) } else { removed };
        communicator.free()?;
        closed.and(removed)
    }

    /// `MPI_File_delete`: one process calls it.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn delete(files: F, name: &str) -> Result<()> {
        files.remove(name).map_err(Error::File)
    }

    /// The name that it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `MPI_File_get_amode`.
    pub fn amode(&self) -> Amode {
        self.amode
    }

    /// `MPI_File_get_size`, in bytes.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn size(&self) -> Result<u64> {
        self.open.bytes().map_err(Error::File)
    }

    /// `MPI_File_set_view`: all call it, each with a displacement and types of its own, of which `etype`s have one size. Positions
    /// are at the view's start then. Data is written as it is in memory (the standard's `native`).
    ///
    /// # Errors
    /// [`Error::Type`], at the others [`Error::Elsewhere`]: all keep the views that they have.
    pub fn set_view(&self, disp: u64, etype: &Datatype, filetype: &Datatype) -> Result<()> {
        let view = together(&self.communicator, View::new(disp, etype, filetype))?;
        *self.state.lock() = State { view, position: 0 };
        Ok(())
    }

    /// `MPI_File_get_view`.
    pub fn view(&self) -> View {
        self.state.lock().view.clone()
    }

    /// `MPI_File_seek`: moves the process's position, in elements of its view; beyond the file's end too.
    ///
    /// # Errors
    /// [`Error::Arg`] before the view's start or past what a file can have; [`Error::File`].
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        let end = if whence == Whence::End { self.size()? } else { 0 };
        let mut state = self.state.lock();
        let base = match whence {
            Whence::Set => 0,
            Whence::Cur => state.position,
            Whence::End => state.view.elements_before(end),
        };
        let position =
            base.checked_add_signed(offset).filter(|&position| state.view.byte_of(position).is_some());
        state.position = position.ok_or(OUT_OF_FILE)?;
        Ok(())
    }

    /// `MPI_File_get_position`, in elements of the view.
    pub fn position(&self) -> u64 {
        self.state.lock().position
    }

    /// `MPI_File_get_byte_offset`: the byte of the file where the element at `offset` of the view begins.
    ///
    /// # Errors
    /// [`Error::Arg`] past what a file can have.
    pub fn byte_offset(&self, offset: u64) -> Result<u64> {
        self.state.lock().view.byte_of(offset).ok_or(OUT_OF_FILE)
    }

    /// `MPI_File_read_at`: reads from `offset`, in elements of the view. The status tells how many bytes there were.
    ///
    /// # Errors
    /// [`Error::File`] if none could be read and it is not the end; [`Error::Type`] if the data is not of whole elements or its type
    /// not committed; [`Error::Arg`] past what a file can have.
    pub fn read_at(&self, offset: u64, data: &Data) -> Result<Status> {
        let view = self.view();
        self.access(&view, offset, data, |run, done| {
            let mut outcome = Ok(());
            let take = |place: usize, bytes: &[u8]| {
                outcome = outcome.and(data.unpack_bytes(run.place + place, bytes));
            };
            let read = self.open.read_pieces(run.at, run.len, take);
            outcome?;
            match read {
                // What cannot be read behind bytes that were is for the next call to hear of.
                Err(_) if done > 0 => Ok(0),
                read => read.map_err(Error::File),
            }
        })
    }

    /// `MPI_File_write_at`: writes from `offset` on, in elements of the view. The status tells how many bytes: all.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); [`Error::File`] if not all could be written, though the first may be.
    pub fn write_at(&self, offset: u64, data: &Data) -> Result<Status> {
        let view = self.view();
        self.access(&view, offset, data, |run, _| {
            let mut written = 0;
            // Behind a part that could be written the next call tells why the rest cannot.
            while written < run.len {
                let mut outcome = Ok(());
                let fill = |place: usize, bytes: &mut [u8]| {
                    outcome = outcome.and(data.pack_bytes(run.place + written + place, bytes));
                };
                let wrote = self.open.write_pieces(run.at + written as u64, run.len - written, fill);
                outcome?;
                written += match wrote {
                    Ok(0) => Err(Errno::EIO),
                    wrote => wrote,
                }
                .map_err(Error::File)?;
            }
            Ok(written)
        })
    }

    /// `MPI_File_read`: reads from the process's position, which moves on by as many elements as the data has.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read(&self, data: &Data) -> Result<Status> {
        self.read_at(self.advance(data)?, data)
    }

    /// `MPI_File_write`: writes from the process's position on, which moves on by as many elements as the data has.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn write(&self, data: &Data) -> Result<Status> {
        self.write_at(self.advance(data)?, data)
    }

    /// `MPI_File_read_at_all`: as [`read_at`](Self::read_at), and all call it.
    ///
    /// # Errors
    /// Likewise; [`Error::Elsewhere`] where another process fails.
    pub fn read_at_all(&self, offset: u64, data: &Data) -> Result<Status> {
        together(&self.communicator, self.read_at(offset, data))
    }

    /// `MPI_File_write_at_all`: as [`write_at`](Self::write_at), and all call it.
    ///
    /// # Errors
    /// Likewise; [`Error::Elsewhere`] where another process fails.
    pub fn write_at_all(&self, offset: u64, data: &Data) -> Result<Status> {
        together(&self.communicator, self.write_at(offset, data))
    }

    /// `MPI_File_read_all`: as [`read`](Self::read), and all call it.
    ///
    /// # Errors
    /// Likewise; [`Error::Elsewhere`] where another process fails.
    pub fn read_all(&self, data: &Data) -> Result<Status> {
        together(&self.communicator, self.read(data))
    }

    /// `MPI_File_write_all`: as [`write`](Self::write), and all call it.
    ///
    /// # Errors
    /// Likewise; [`Error::Elsewhere`] where another process fails.
    pub fn write_all(&self, data: &Data) -> Result<Status> {
        together(&self.communicator, self.write(data))
    }

    /// `MPI_File_sync`: all call it. What any process has written before is on the disk then, and read by all.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Elsewhere`].
    pub fn sync(&self) -> Result<()> {
        together(&self.communicator, self.open.sync().map_err(Error::File))
    }

    /// Moves the position on by the elements of some data; returns where it was.
    fn advance(&self, data: &Data) -> Result<u64> {
        let mut state = self.state.lock();
        let elements = elements(&state.view, data)?;
        let next = state.position.checked_add(elements).ok_or(OUT_OF_FILE)?;
        Ok(core::mem::replace(&mut state.position, next))
    }

    /// Has `each` carry out the runs of some data at `offset`, told how many bytes were done before, until one is not done whole.
    fn access(
        &self,
        view: &View,
        offset: u64,
        data: &Data,
        mut each: impl FnMut(view::FileRun, usize) -> Result<usize>,
    ) -> Result<Status> {
        elements(view, data)?;
        let from = offset.checked_mul(view.unit() as u64).ok_or(OUT_OF_FILE)?;
        // All of it is where a file can be, before any of it is touched.
        let last = from.checked_add(data.bytes().saturating_sub(1) as u64).ok_or(OUT_OF_FILE)?;
        view.runs(last, 1, |_| ControlFlow::Continue(())).ok_or(OUT_OF_FILE)?;
        let (mut done, mut failed) = (0, None);
        view.runs(from, data.bytes(), |run| match each(run, done) {
            Ok(bytes) => {
                done += bytes;
                if bytes == run.len { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        failed.map_or(Ok(Status { len: done, ..Status::EMPTY }), Err)
    }
}

const OUT_OF_FILE: Error = Error::Arg("the offset is before the view's start, or past what a file can have");

/// Elements of a view that some data has.
fn elements(view: &View, data: &Data) -> Result<u64> {
    let whole = data.bytes().is_multiple_of(view.unit()) && data.datatype().is_committed();
    if whole { Ok((data.bytes() / view.unit()) as u64) } else { Err(Error::Type) }
}

/// A process's part of a call of all: over when all processes' are, and all hear of errors.
fn together<N: Node, T>(communicator: &Communicator<N>, part: Result<T>) -> Result<T> {
    let part = part.inspect_err(|error| communicator.refuse(*error))?;
    communicator.barrier()?;
    Ok(part)
}
